"""Random halves of a real log: default scores of one half against default and separate fits of the other.

    python benchmarks/halves.py lmarena_140k_dev.csv.gz --splits 20

All (model, category) of the 50 most frequent models, ties as half wins. z is the difference over the root of both
squared errors; with honest errors its standard deviation is 1. Results go to results/halves.json and .md.
"""

import argparse
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import lrbtl
from lrbtl.errors import LrbtlWarning
from replications import keep_results

Z = 1.959964


def compare(first: lrbtl.Estimate, second: lrbtl.Estimate) -> tuple[float, float]:
    """Return the standard deviation of z and the share of |z| below 1.96, where both have an estimate."""
    z = (first.estimate - second.estimate) / np.hypot(first.se, second.se)
    z = z[np.isfinite(z)]
    return float(z.std()), float(np.mean(np.abs(z) < Z))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--splits", type=int, default=20)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        battles = lrbtl.Battles.from_frame(pd.read_csv(options.path), contexts="category").top_models(50)
        rows = []
        for seed in range(options.splits):
            (one, other), _ = battles.split(2, rng=seed)
            ours = lrbtl.infer(one, lrbtl.all_scores())
            same = lrbtl.infer(other, lrbtl.all_scores())
            separate = lrbtl.infer(other, lrbtl.all_scores(), method="naive")
            width = float(np.nanmedian(same.se / separate.se))
            rows.append([*compare(ours, same), *compare(ours, separate), width])
    mean, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows))
    names = ["sd of z", "within 1.96", "sd of z, separate", "within 1.96, separate", "width / separate"]
    lines = [f"# Random halves, {options.splits} splits", "", "| what | mean |", "|---|---|"]
    lines += [f"| {name} | {m:.3f} ± {e:.3f} |" for name, m, e in zip(names, mean, error, strict=True)]
    keep_results("halves", dict(zip(names, mean.tolist(), strict=True)), "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
