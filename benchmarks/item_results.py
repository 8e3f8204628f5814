"""Accuracies from results per item: coverage from one sample, from a tenth of the items, and halves of the items.

    python benchmarks/item_results.py --data ../shared/data/item_results.csv.gz --reps 5

The data hold shares of right answers of 52 models on the items of 12 benchmarks, each of about 12 samples. Three checks
of 95% intervals, all benchmarks analysed at once: (1) one sample per item is drawn, and the accuracy of all samples on
these items should be inside; (2) a tenth of the items, and the accuracy on all of them should be; (3) items are halved,
and gaps of all pairs of models in both halves should differ by their standard errors, whose ratio to those of a paired
bootstrap over the items of each benchmark by itself is told. The true accuracy is known to half an answer only, which
is allowed for. Results go to results/item_results.json and .md; the data are not part of the repository.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import lrbtl
from lrbtl.entries.method import FactorRun
from lrbtl.entries.posterior import central

HERE = Path(__file__).parent / "results"


def posterior(results: lrbtl.Results) -> Any:
    """Return the draws behind an analysis."""
    run = lrbtl.analyse(results).run
    assert isinstance(run, FactorRun)
    return run.posterior


def covered(results: lrbtl.Results, data: Any, truth: Any, tolerance: Any) -> dict[str, tuple[float, float]]:
    """Return by benchmark the share of true accuracies in 95% intervals, and the ratio of errors of gaps."""
    found, out = posterior(results), {}
    ratios = {name: ratio(*errors) for name, (_, *errors) in gaps(results, found, data).items()}
    for u, name in enumerate(results.levels[0]):
        low, high = central(found.latent(u), 0.95)
        known = [k for k, model in enumerate(results.models) if (model, name) in truth.index]
        true = np.array([truth[results.models[k], name] for k in known])
        slack = tolerance[name]
        inside = (true >= low[known] - slack) & (true <= high[known] + slack)
        out[name] = float(np.mean(inside)), ratios[name]
    return out


def gaps(results: lrbtl.Results, found: Any, data: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Return gaps of all pairs of models that met a benchmark, their errors, and errors of a paired bootstrap."""
    out = {}
    for u, name in enumerate(results.levels[0]):
        table = data[data.benchmark == name].pivot(index="item", columns="model", values="accuracy")
        at = [results.model_index(model) for model in table.columns]
        a, b = np.triu_indices(len(at), 1)
        draws = found.latent(u)[:, at]
        away = draws[:, a] - draws[:, b]
        x = 100 * table.to_numpy()
        difference = x[:, a] - x[:, b]
        n = np.maximum(np.sum(~np.isnan(difference), axis=0), 1)
        paired = np.sqrt(np.nanmean(difference**2, axis=0) - np.nanmean(difference, axis=0) ** 2) / np.sqrt(n)
        out[name] = away.mean(axis=0), away.std(axis=0, ddof=1), paired
    return out


def some_right(truth: Any, name: str) -> Any:
    """Return which pairs have a model that was right at all: gaps of the others are 0 in each half, whatever errors."""
    right = truth.xs(name, level="benchmark").sort_index().to_numpy() > 0
    a, b = np.triu_indices(len(right), 1)
    return right[a] | right[b]


def ratio(ours: Any, paired: Any) -> float:
    """Return the median ratio of errors to those of the bootstrap, where these are not zero."""
    used = paired > 1e-9
    return float(np.median(ours[used] / paired[used])) if used.any() else float("nan")


def least_ratio(truth: Any, name: str, paired: Any) -> float:
    """Return the ratio of errors if the accuracies on all items of the other benchmarks are known.

    Gaps differ from a ridge regression on these, with the best penalty and each model predicted from the others, by a
    mean square D. Combined with the mean of the items, whose variance V is that of the bootstrap, this has the variance
    V D / (V + D).
    """
    table = truth.unstack().dropna(subset=[name])
    y, x = table[name].to_numpy(), table.drop(columns=name)
    x = x.fillna(x.mean()).to_numpy()
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    left = []
    for penalty in np.geomspace(0.1, 100, 13):
        X = np.column_stack([np.ones(len(y)), x])
        hat = X @ np.linalg.solve(X.T @ X + penalty * np.diag([0.0, *np.ones(x.shape[1])]), X.T)
        left.append(np.mean(((y - hat @ y) / (1 - np.diag(hat))) ** 2))
    D = 2 * min(left)
    used = paired > 1e-9
    return float(np.median(np.sqrt(D / (D + paired[used] ** 2))))


def main() -> None:
    """Measure, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = pd.read_csv(options.data)
    truth = 100 * data.groupby(["model", "benchmark"]).accuracy.mean()
    answers = data.groupby(["model", "benchmark"]).samples.sum().groupby("benchmark").median()
    tolerance, sizes = (50 / answers).to_dict(), data.groupby("benchmark").item.nunique().to_dict()
    names, item = sorted(sizes), data.groupby(["benchmark", "item"]).ngroup().to_numpy()
    kept = {key: {name: [] for name in names} for key in ("one", "tenth", "squares", "able", "ratios", "least")}
    for seed in range(options.seed, options.seed + options.reps):
        rng = np.random.default_rng(seed)
        drawn = data.assign(accuracy=(rng.random(len(data)) < data.accuracy).astype(float))
        some = data[(rng.random(item.max() + 1) < 0.1)[item]]
        half = (rng.random(item.max() + 1) < 0.5)[item]
        results = lrbtl.Results.from_items(drawn, correct="accuracy", n_items="these")
        part = lrbtl.Results.from_items(some, correct="accuracy", samples="samples", n_items=sizes)
        for key, given, log in (("one", results, drawn), ("tenth", part, some)):
            for name, found in covered(given, log, truth, tolerance).items():
                kept[key][name].append(found)
        first, second = (
            gaps(each, posterior(each), log)
            for log in (data[half], data[~half])
            for each in [lrbtl.Results.from_items(log, correct="accuracy", samples="samples")]
        )
        for name in names:
            z = (first[name][0] - second[name][0]) / np.hypot(first[name][1], second[name][1])
            kept["squares"][name].append(float(np.mean(z**2)))
            kept["able"][name].append(float(np.mean(z[some_right(truth, name)] ** 2)))
            kept["ratios"][name].append(ratio(*first[name][1:]))
            kept["least"][name].append(least_ratio(truth, name, first[name][2]))
    columns = [
        *(
            [np.nanmean([x[part] for x in kept[key][name]]) for name in names]
            for part in (0, 1)
            for key in ("one", "tenth")
        ),
        *([np.sqrt(np.mean(kept[key][name])) for name in names] for key in ("squares", "able")),
        *([np.mean(kept[key][name]) for name in names] for key in ("ratios", "least")),
    ]
    one, tenth, *_ = columns
    medians = [f"{np.median(columns[k]):.2f}" for k in (2, 3, 6, 7)]
    good = [int(np.sum(np.abs(np.array(columns[k]) - 1.0) <= 0.1)) for k in (4, 5)]
    ratios = " | ".join([*medians[:2], *(f"{n} of {len(names)} in 0.9-1.1" for n in good), *medians[2:]])
    rows = [
        [name, f"{sizes[name]:,}", *(f"{x[k]:.{3 if i < 2 else 2}f}" for i, x in enumerate(columns))]
        for k, name in enumerate(names)
    ]
    lines = [
        f"{options.reps} draws, seeds from {options.seed}; 95% intervals; se of gaps over those of a paired bootstrap.",
        "",
        "| benchmark | items | covered, one sample | covered, a tenth | se, one sample | se, a tenth | sd of z, halves "
        "| sd of z, some right | se, a half | least se, a half |",
        f"|{'---|' * 10}",
        *(f"| {' | '.join(row)} |" for row in rows),
        f"| mean, or median of se | | {np.mean(one):.3f} | {np.mean(tenth):.3f} | {ratios} |",
    ]
    (HERE / "item_results.md").write_text("\n".join(lines) + "\n")
    (HERE / "item_results.json").write_text(json.dumps(kept, indent=1) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
