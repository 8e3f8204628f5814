"""What C_A says about `efficient` and `whitened`: coverage and error of all scores beside it, on 24 designs.

    python benchmarks/advice.py

30 x 20 matrices of rank 2 (6 logs a design) and 60 x 40 of rank 3 (2 logs), largest scores 1, 3, 6 and 9, and 2, 6 and
20 votes per score, uniform sampling. `diagnose` trusts the efficient direction up to 50 times the C_A of even
information, by this table. Logs in which a method has no finite score are left out of its means. Results go to
results/advice.json and results/advice.md.
"""

import os
import warnings
from itertools import product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlWarning
from replications import keep_results

SHAPES = {(30, 20): (2, 6), (60, 40): (3, 2)}  # rank and logs
LARGEST, VOTES = (1.0, 3.0, 6.0, 9.0), (2, 6, 20)


def one_log(shape: tuple[int, int], rank: int, largest: float, votes: int, seed: int) -> list[float]:
    """Return C_A, its ratio to even information, the CLT condition, and coverage and RMSE of both methods."""
    truth = lrbtl.simulate_scores(shape, rank, scale=largest, rng=seed)
    battles = lrbtl.simulate_battles(truth, votes * truth.size, rng=100 + seed)
    at = lrbtl.information(lrbtl.fit(battles, rank))
    row = [at.C_A, at.C_A / at.C_A_even, at.clt_condition(battles.n_battles)]
    for method in ("efficient", "whitened"):
        law = lrbtl.UniformSampling() if method == "whitened" else None
        found = lrbtl.infer(battles, lrbtl.all_scores(), method=method, rank=rank, sampling=law)
        known = np.isfinite(found.estimate) & np.isfinite(found.se)
        if not known.any():
            row += [np.nan, np.nan]
            continue
        away = (found.estimate - truth.reshape(-1))[known]
        row += [float(np.mean(np.abs(away) < 1.959964 * found.se[known])), float(np.sqrt(np.mean(away**2)))]
    return row


def main() -> None:
    """Run all designs and write the table."""
    warnings.simplefilter("ignore", LrbtlWarning)
    names = ("C_A", "ratio", "clt", "efficient", "efficient rmse", "whitened", "whitened rmse")
    rows, lines = [], ["# C_A, coverage and error of all scores", ""]
    heads = (
        "shape | largest score | votes per score | C_A | over even | C_A √(d/n) | efficient | RMSE | whitened | RMSE"
    )
    lines += [f"| {heads} |", "|" + "---|" * 10]
    for (shape, (rank, logs)), largest, votes in product(SHAPES.items(), LARGEST, VOTES):
        means = np.nanmean([one_log(shape, rank, largest, votes, seed) for seed in range(logs)], axis=0)
        rows.append(
            {"shape": shape, "largest": largest, "votes": votes, **dict(zip(names, means.tolist(), strict=True))}
        )
        cells = [f"{means[0]:,.1f}", f"{means[1]:,.1f}", f"{means[2]:,.1f}"]
        cells += [f"{means[3]:.3f}", f"{means[4]:.2f}", f"{means[5]:.3f}", f"{means[6]:.2f}"]
        lines.append(f"| {shape[0]} × {shape[1]} | {largest:g} | {votes} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    keep_results("advice", rows, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
