"""Two parts of a real log: default scores of one part against default and separate fits of the rest.

    python benchmarks/halves.py lmarena_140k_dev.csv.gz --splits 20

All (model, category) of the 50 most frequent models, ties as half wins; the first part has a half of the votes, or 20,
10, 5, 2%. z is the difference over the root of both squared errors; with honest errors its standard deviation is 1.
Results go to results/halves.json and .md.
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
SHARES = (0.5, 0.2, 0.1, 0.05, 0.02)
COLUMNS = (
    "sd of z, separate fits of the rest", "within 1.96", "sd of z, default on the rest", "within 1.96 there",
    "width / separate fits of the part",
)  # fmt: skip


def compare(first: lrbtl.Estimate, second: lrbtl.Estimate) -> tuple[float, float]:
    """Return the standard deviation of z and the share of |z| below 1.96, where both have an estimate."""
    z = (first.estimate - second.estimate) / np.hypot(first.se, second.se)
    z = z[np.isfinite(z)]
    return float(z.std()), float(np.mean(np.abs(z) < Z))


def parts(battles: lrbtl.Battles, share: float, seed: int) -> tuple[lrbtl.Battles, lrbtl.Battles]:
    """Return a share of the battles, drawn at random, and the rest."""
    rng, count = np.random.default_rng([seed, int(1000 * share)]), battles.cells.count
    drawn = rng.multivariate_hypergeometric(count, round(share * battles.n_battles), method="marginals")
    return battles.with_counts(drawn), battles.with_counts(count - drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--splits", type=int, default=20)
    options = parser.parse_args()
    lines = [f"# Parts of LMArena against the rest, {options.splits} splits", ""]
    lines += ["| part | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    kept = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        battles = lrbtl.Battles.from_frame(pd.read_csv(options.path), contexts="category").top_models(50)
        for share in SHARES:
            rows = []
            for seed in range(options.splits):
                one, rest = parts(battles, share, seed)
                ours, own = lrbtl.infer(one, lrbtl.all_scores()), lrbtl.infer(one, lrbtl.all_scores(), method="naive")
                same = lrbtl.infer(rest, lrbtl.all_scores())
                separate = lrbtl.infer(rest, lrbtl.all_scores(), method="naive")
                ratio = ours.se / own.se
                width = float(np.median(ratio[np.isfinite(ratio)]))
                rows.append([*compare(ours, separate), *compare(ours, same), width])
            mean, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows))
            pairs = [(m, e) if np.isfinite(m) else None for m, e in zip(mean.tolist(), error.tolist(), strict=True)]
            kept[str(share)] = dict(zip(COLUMNS, pairs, strict=True))
            told = " | ".join("no separate fit" if pair is None else "{:.3f} ± {:.3f}".format(*pair) for pair in pairs)
            lines.append(f"| {share:.0%} | {told} |")
            print(lines[-1], flush=True)
    keep_results("halves", kept, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
