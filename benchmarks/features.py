"""Newcomers with one score: coverage and widths of their other scores with features that matter, and that do not.

    python benchmarks/features.py --reps 40

Tables of 40 models and 10 benchmarks, real scores with known noise; eight newcomers have one score each. The level of a
model is 0.9 times its feature plus noise of 0.4, or has nothing to do with it. Results go to results/features.md.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.entries.method import FactorRun
from lrbtl.entries.posterior import central

HERE = Path(__file__).parent / "results"


def one(seed: int, matters: bool) -> tuple[float, float, float]:
    """Return shares covered with and without features, and the median ratio of widths."""
    rng = np.random.default_rng([seed, matters])
    size = rng.normal(size=40)
    level = (0.9 * size + 0.4 * rng.normal(size=40)) if matters else rng.normal(size=40)
    truth = level[:, None] + rng.normal(size=10) + 0.3 * rng.normal(size=(40, 10))
    seen = rng.random((40, 10)) < 0.6
    seen[:8], seen[:8, 0] = False, True
    names, at = [f"m{k:02d}" for k in range(40)], np.nonzero(seen)
    long = {
        "model": [names[k] for k in at[0]],
        "benchmark": [f"b{k}" for k in at[1]],
        "score": truth[at] + 0.5 * rng.normal(size=at[0].size),
        "se": [0.5] * at[0].size,
    }
    tables = {"model": names, "size": size}, None
    found = [lrbtl.analyse(lrbtl.Results.from_frame(long, se="se", scales="real", features=table)) for table in tables]
    hits, widths = [], []
    for analysis in found:
        assert isinstance(analysis.run, FactorRun)
        limits = np.array([central(analysis.run.posterior.latent(u)[:, :8], 0.95) for u in range(1, 10)])
        inside = (limits[:, 0] <= truth[:8, 1:].T) & (limits[:, 1] >= truth[:8, 1:].T)
        hits.append(float(inside.mean()))
        widths.append(limits[:, 1] - limits[:, 0])
    return hits[0], hits[1], float(np.median(widths[0] / widths[1]))


def main() -> None:
    """Simulate, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=40)
    reps = parser.parse_args().reps
    lines = [
        f"{reps} tables each; 95% intervals of newcomers' latent scores.",
        "",
        "| features | covered with | covered without | width with over without |",
        "|---|---|---|---|",
    ]
    for matters, words in ((True, "predict levels"), (False, "say nothing")):
        rows = np.array([one(seed, matters) for seed in range(reps)])
        mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(reps)
        lines.append(f"| {words} | {mean[0]:.3f} ± {error[0]:.3f} | {mean[1]:.3f} ± {error[1]:.3f} | {mean[2]:.2f} |")
    (HERE / "features.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
