"""Accuracy of the fit: on the paper's design against the truth, and on real battles against held-out votes.

    python benchmarks/accuracy.py --data FOLDER

Simulated: d1 = d2 = 200, rank 5, max |T*| = 5, 60,000 uniform battles, ridge="auto"; the paper has a relative
Frobenius error of 0.41 and a mean absolute error of 0.28. Real (where FOLDER holds the files): mean log-likelihood of
held-out votes in five folds of the low-rank fit, of one Bradley-Terry fit per context and of one for all; and the
rank that `select_rank` picks. Results go to results/accuracy.json.
"""

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import lrbtl
from lrbtl.errors import LrbtlError, LrbtlWarning
from lrbtl.fitting.fit import refit
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


def held_out(battles: lrbtl.Battles, rank: int) -> dict[str, float | None]:
    """Return mean held-out log-likelihoods per vote, in millinats; None where a model has no prediction."""
    whole = lrbtl.fit(battles, rank)
    totals: dict[str, float | None] = {f"rank {rank}": 0.0, "per context": 0.0, "pooled": 0.0}
    for train, test in battles.split(5):
        share = 1e3 * test.n_battles / battles.n_battles
        counts = battles.cells.count - held_out_counts(battles, test)
        low_rank = lrbtl.Fit(battles, refit(whole, counts).point, whole.ridge, True, 0, "", 0.0)
        found = {
            f"rank {rank}": lambda low_rank=low_rank, test=test: low_rank.log_likelihood(test),
            "per context": lambda train=train, test=test: lrbtl.fit_separate(train).log_likelihood(test),
            "pooled": lambda train=train, test=test: lrbtl.fit_separate(train.pooled()).log_likelihood(test.pooled()),
        }
        for name, score in found.items():
            try:
                totals[name] = None if totals[name] is None else totals[name] + share * score()
            except LrbtlError:
                totals[name] = None
    return totals


def held_out_counts(battles: lrbtl.Battles, test: lrbtl.Battles) -> np.ndarray:
    """Return the multiplicities of the held-out battles on the cells of all battles."""

    def keys(cells: Any) -> list[tuple[Any, ...]]:
        return list(zip(*(getattr(cells, name).tolist() for name in ("context", "a", "b", "y")), strict=True))

    counts = dict(zip(keys(test.cells), test.cells.count.tolist(), strict=True))
    return np.array([counts.get(key, 0) for key in keys(battles.cells)], dtype=float)


def real(folder: Path) -> dict[str, Any]:
    """Return held-out log-likelihoods and selected ranks of the real logs that are there."""
    logs = {
        "lmarena": ("lmarena_140k_dev.csv.gz", {"contexts": "category", "ties": "drop"}, 30, 3),
        "llmfao": ("llmfao.csv.gz", {"contexts": ["category", "judge_type"]}, None, 2),
    }
    out = {}
    for name, (file, options, top, rank) in logs.items():
        if not (folder / file).exists():
            print(f"{name}: {file} is not there")
            continue
        battles = lrbtl.Battles.from_frame(pd.read_csv(folder / file), **options)
        battles = battles if top is None else battles.top_models(top)
        selection = lrbtl.select_rank(battles)
        out[name] = {"millinats": held_out(battles, rank), "selected": selection.rank, "best": selection.best}
        print(f"{name}: {out[name]}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--truths", type=int, default=5)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        results = {"paper's design": simulated(options.truths), "held out": real(options.data)}
    keep_results("accuracy", results)


if __name__ == "__main__":
    main()
