"""Accuracy of the fit on the paper's design, against the truth; `held_out.py` has real logs.

    python benchmarks/accuracy.py

d1 = d2 = 200, rank 5, max |T*| = 5, 60,000 uniform battles, ridge="auto"; the paper has a relative Frobenius error of
0.41 and a mean absolute error of 0.28. Results go to results/accuracy.json.
"""

import argparse
import os
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from replications import keep_results


def simulated(truths: int) -> dict[str, Any]:
    """Return the errors of each truth and their means."""
    rows = []
    for seed in range(truths):
        truth = lrbtl.simulate_scores((200, 200), 5, scale=5, rng=seed)
        error = lrbtl.fit(lrbtl.simulate_battles(truth, 60_000, rng=100 + seed), 5).scores - truth
        rows.append([float(np.linalg.norm(error) / np.linalg.norm(truth)), float(np.abs(error).mean())])
        print(f"truth {seed}: relative Frobenius error {rows[-1][0]:.3f}, mean absolute error {rows[-1][1]:.3f}")
    frobenius, absolute = np.mean(rows, axis=0)
    print(f"mean: {frobenius:.3f} (paper 0.41), {absolute:.3f} (paper 0.28)")
    return {"truths": rows, "frobenius": float(frobenius), "absolute": float(absolute)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truths", type=int, default=5)
    keep_results("accuracy", {"paper's design": simulated(parser.parse_args().truths)})


if __name__ == "__main__":
    main()
