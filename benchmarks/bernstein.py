"""Coverage and width of Bernstein intervals beside normal ones, also where normal ones fail.

    python benchmarks/bernstein.py --reps 100

12 models, 5 categories, rank 2, all 60 scores. Designs differ in the votes per score and in the largest score;
Algorithms 1 and 2 as printed, `mle` and the default. Results go to results/bernstein.json and results/bernstein.md.
"""

import argparse
import os
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlError, LrbtlWarning
from replications import keep_results

SHAPE, RANK = (12, 5), 2
TARGETS = [lrbtl.score(a, u) for a in range(SHAPE[0]) for u in range(SHAPE[1])]
VOTES, LARGEST = (10, 30, 100), (1.5, 5.0)


def methods(votes: lrbtl.Battles, seed: int) -> dict[str, Callable[[], lrbtl.Estimate]]:
    """Return the estimates to make."""
    return {
        "Algorithm 1": lambda: lrbtl.one_step(votes, TARGETS, rank=RANK, rng=seed).to_estimate(),
        "Algorithm 2": lambda: lrbtl.one_step(votes, TARGETS, rank=RANK, whiten=True, rng=seed).to_estimate(),
        "mle": lambda: lrbtl.infer(votes, TARGETS, method="mle", rank=RANK),
        "default": lambda: lrbtl.infer(votes, TARGETS),
    }


def design_rows(per_score: int, largest: float, reps: int) -> list[dict[str, Any]]:
    """Return one row per method of a design."""
    found: dict[str, list[list[float]]] = {}
    for seed in range(reps):
        truth = lrbtl.simulate_scores(SHAPE, RANK, scale=largest, rng=seed)
        votes = lrbtl.simulate_battles(truth, per_score * truth.size, rng=1000 + seed)
        for name, run in methods(votes, seed).items():
            try:
                est = run()
            except LrbtlError:  # a fold without information on some direction
                continue
            goal, kept = truth.reshape(-1), np.isfinite(est.estimate) & np.isfinite(est.se)
            row = []
            for kind in ("normal", "bernstein"):
                low, high = est.conf_int(kind=kind).T
                row += [float(np.mean(((low <= goal) & (goal <= high))[kept])), float(np.median((high - low)[kept]))]
            found.setdefault(name, []).append(row)
    rows = []
    for name, each in found.items():
        means = np.mean(each, axis=0)
        values = dict(zip(("normal", "normal width", "bernstein", "bernstein width"), means.tolist(), strict=True))
        rows.append({"votes per score": per_score, "largest": largest, "method": name, "runs": len(each), **values})
    return rows


def main() -> None:
    """Run all designs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=100)
    reps = parser.parse_args().reps
    warnings.simplefilter("ignore", LrbtlWarning)
    rows = [row for n in VOTES for largest in LARGEST for row in design_rows(n, largest, reps)]
    lines = [f"# Bernstein intervals of 60 scores, nominal 95%, {reps} logs a design", ""]
    lines += [
        "| votes per score | largest score | method | normal | bernstein | width ratio |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        ratio = row["bernstein width"] / row["normal width"]
        lines.append(
            f"| {row['votes per score']} | {row['largest']} | {row['method']} | {row['normal']:.3f} | "
            f"{row['bernstein']:.3f} | {ratio:.1f} |"
        )
    keep_results("bernstein", rows, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
