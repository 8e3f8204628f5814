"""Coverage of the factor model on simulated tables: latent scores of all entries, and scores that would be measured.

    python benchmarks/table_coverage.py --reps 20

Tables of 50 models and 30 benchmarks on the logit scale, in per cent. Truth: means of benchmarks, levels of models,
and two further factors; "deviations" adds an independent deviation per entry, of which some benchmarks have more, so
that no low rank is right. Missing: at random, or by popularity, where good models and some benchmarks have more scores.
Noise: binomial with a known number of items, repeated scores of unknown noise, or single scores of unknown noise (then
prediction intervals are checked and intervals of latent scores are not, as nothing identifies them).
Results go to results/table_coverage.json and results/table_coverage.md.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.special import expit

import lrbtl
from lrbtl.entries.method import FactorRun
from lrbtl.entries.posterior import central

HERE = Path(__file__).parent / "results"
SHAPE = (50, 30)
FIRST = 1000  # seed; those below tuned the priors
DESIGNS = [
    (truth, missing, share, noise)
    for truth in ("low rank", "deviations")
    for missing, share in (("random", 0.1), ("random", 0.5), ("random", 0.9), ("popularity", 0.7))
    for noise in ("items", "repeats", "single")
]


def simulate(truth: str, missing: str, share: float, noise: str, rng: Any) -> tuple[lrbtl.Results, Any, Any]:
    """Return results, the true scores in per cent, and one more measurement of each entry."""
    d1, D = SHAPE
    size = np.array([1.0, 0.5, 0.3])
    level = rng.normal(size=(d1, 3))
    loadings = size * rng.normal(size=(D, 3)) + np.array([0.0, 0.0, 0.0])
    loadings[:, 0] = np.abs(0.9 + 0.3 * rng.normal(size=D))
    z = rng.normal(size=D) + level @ loadings.T
    if truth == "deviations":
        z = z + rng.uniform(0.1, 0.6, size=D) * rng.normal(size=(d1, D))
    p = expit(z)
    odds = np.zeros((d1, D)) if missing == "random" else 1.2 * level[:, :1] + rng.normal(size=D)
    keep = odds + rng.logistic(size=(d1, D))
    seen = keep > np.quantile(keep, share)
    items = np.broadcast_to(rng.choice([60, 200, 1000], size=D), (d1, D))

    def measure() -> Any:
        if noise == "items":
            return 100 * rng.binomial(items, p) / items
        return 100 * expit(z + np.broadcast_to(sd, z.shape) * rng.normal(size=z.shape))

    sd = rng.uniform(0.1, 0.5, size=D)
    models, benchmarks = ([f"{word}{k:02d}" for k in range(n)] for word, n in (("m", d1), ("b", D)))
    rows: dict[str, list[Any]] = {"model": [], "benchmark": [], "score": [], "items": []}
    for _ in range(3 if noise == "repeats" else 1):
        values = measure()
        for i, j in zip(*np.nonzero(seen), strict=True):
            for name, x in zip(rows, (models[i], benchmarks[j], values[i, j], items[i, j]), strict=True):
                rows[name].append(x)
    results = lrbtl.Results.from_frame(rows, items="items" if noise == "items" else None, scales="percent")
    at = np.ix_([models.index(m) for m in results.models], [benchmarks.index(b) for b in results.levels[0]])
    return results, 100 * p[at], measure()[at]


def one(design: tuple[str, str, float, str], seed: int) -> Any:
    """Return shares covered: latent measured, latent not measured, prediction of entries without a score."""
    results, truth, again = simulate(*design, np.random.default_rng([seed, DESIGNS.index(design)]))
    run = lrbtl.analyse(results, rng=seed).run
    assert isinstance(run, FactorRun)
    inside, forecast = np.empty(results.shape, dtype=bool), np.empty(results.shape, dtype=bool)
    for u in range(results.n_contexts):
        low, high = central(run.posterior.latent(u), 0.95)
        inside[:, u] = (truth[:, u] >= low) & (truth[:, u] <= high)
        low, high = central(run.posterior.measured(u), 0.95)
        forecast[:, u] = (again[:, u] >= low) & (again[:, u] <= high)
    seen = results.measured
    return inside[seen].mean(), inside[~seen].mean(), forecast[~seen].mean()


def main() -> None:
    """Simulate, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=20)
    reps = parser.parse_args().reps
    lines = [
        f"{reps} tables of {SHAPE[0]} × {SHAPE[1]} each; 95% intervals; Monte Carlo errors about 0.005.",
        "",
        "| truth | missing | noise | latent, measured | latent, not measured | prediction |",
        "|---|---|---|---|---|---|",
    ]
    found = []
    for design in DESIGNS:
        rows = np.array([one(design, seed) for seed in range(FIRST, FIRST + reps)])
        mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(reps)
        truth, missing, share, noise = design
        found.append({"design": design, "covered": mean.tolist(), "error": error.tolist()})
        shown = ["–" if noise == "single" and k < 2 else f"{x:.3f}" for k, x in enumerate(mean)]
        lines.append(f"| {truth} | {share:.0%} {missing} | {noise} | {' | '.join(shown)} |")
        print(lines[-1], np.round(error, 4), flush=True)
    (HERE / "table_coverage.json").write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "table_coverage.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
