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


def covered(results: lrbtl.Results, truth: Any, tolerance: Any) -> dict[str, float]:
    """Return the share of true accuracies in 95% intervals by benchmark."""
    found, out = posterior(results), {}
    for u, name in enumerate(results.levels[0]):
        low, high = central(found.latent(u), 0.95)
        known = [k for k, model in enumerate(results.models) if (model, name) in truth.index]
        true = np.array([truth[results.models[k], name] for k in known])
        slack = tolerance[name]
        out[name] = float(np.mean((true >= low[known] - slack) & (true <= high[known] + slack)))
    return out


def gaps(data: Any, names: list[str]) -> dict[str, tuple[Any, Any, Any]]:
    """Return gaps of all pairs of models that met a benchmark, their errors, and errors of a paired bootstrap."""
    results = lrbtl.Results.from_items(data, correct="accuracy", samples="samples")
    found, out = posterior(results), {}
    for name in names:
        u = results.levels[0].index(name)
        table = data[data.benchmark == name].pivot(index="item", columns="model", values="accuracy")
        at = [results.model_index(model) for model in table.columns]
        a, b = np.triu_indices(len(at), 1)
        draws = found.latent(u)[:, at]
        away = draws[:, a] - draws[:, b]
        x = 100 * table.to_numpy()
        difference = x[:, a] - x[:, b]
        n = np.sum(~np.isnan(difference), axis=0)
        paired = np.nanstd(difference, axis=0, ddof=1) / np.sqrt(n)
        out[name] = away.mean(axis=0), away.std(axis=0, ddof=1), paired
    return out


def main() -> None:
    """Measure, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--reps", type=int, default=5)
    options = parser.parse_args()
    data = pd.read_csv(options.data)
    truth = 100 * data.groupby(["model", "benchmark"]).accuracy.mean()
    answers = data.groupby(["model", "benchmark"]).samples.sum().groupby("benchmark").median()
    tolerance, sizes = (50 / answers).to_dict(), data.groupby("benchmark").item.nunique().to_dict()
    names, item = sorted(sizes), data.groupby(["benchmark", "item"]).ngroup().to_numpy()
    one, tenth, squares, ratios = ({name: [] for name in names} for _ in range(4))
    for seed in range(options.reps):
        rng = np.random.default_rng(seed)
        drawn = data.assign(correct=(rng.random(len(data)) < data.accuracy).astype(float))
        for name, share in covered(lrbtl.Results.from_items(drawn, n_items="these"), truth, tolerance).items():
            one[name].append(share)
        some = data[(rng.random(item.max() + 1) < 0.1)[item]]
        part = lrbtl.Results.from_items(some, correct="accuracy", samples="samples", n_items=sizes)
        for name, share in covered(part, truth, tolerance).items():
            tenth[name].append(share)
        half = (rng.random(item.max() + 1) < 0.5)[item]
        first, second = gaps(data[half], names), gaps(data[~half], names)
        for name in names:
            z = (first[name][0] - second[name][0]) / np.hypot(first[name][1], second[name][1])
            squares[name].append(float(np.mean(z**2)))
            ours, paired = first[name][1:]
            ratios[name].append(float(np.median(ours[paired > 0] / paired[paired > 0])))
    rows = []
    for name in names:
        shares = [f"{np.mean(x[name]):.3f}" for x in (one, tenth)]
        rows.append([name, f"{sizes[name]:,}", *shares, f"{np.sqrt(np.mean(squares[name])):.2f}"])
        rows[-1].append(f"{np.mean(ratios[name]):.2f}")
    every = [np.mean([np.mean(x[name]) for name in names]) for x in (one, tenth)]
    good = sum(0.9 <= np.sqrt(np.mean(squares[name])) <= 1.1 for name in names)
    median = float(np.median([np.mean(ratios[name]) for name in names]))
    lines = [
        f"{options.reps} draws; 95% intervals.",
        "",
        "| benchmark | items | covered, one sample | covered, a tenth | sd of z of halves | se over paired bootstrap |",
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
        f"| all | | {every[0]:.3f} | {every[1]:.3f} | {good} of {len(names)} in 0.9-1.1 | {median:.2f} (median) |",
    ]
    (HERE / "item_results.md").write_text("\n".join(lines) + "\n")
    kept = {"one": one, "tenth": tenth, "squares": squares, "ratios": ratios}
    (HERE / "item_results.json").write_text(json.dumps(kept, indent=1) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
