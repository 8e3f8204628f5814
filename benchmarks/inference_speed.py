"""One factorisation serves every target: times of an inference run, from one process.

    python benchmarks/inference_speed.py

On the paper's design (200 x 200, rank 5, 60,000 battles): two targets against all 40,000 scores; a cross-fitted run
with K = 10 against one cold fit; against a vectorised NumPy version with a dense factor per fold, scaled from 400 to
40,000 targets; and against the plain re-derivation of the tests (dense operators, loops over battles) on a small
design, scaled in battles only. Results go to results/inference_speed.json.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import lrbtl
import oracle
from lrbtl.data.folds import fold_counts
from lrbtl.fitting.low_rank import refit
from lrbtl.inference.analysis import analyse_fit
from lrbtl.methods.base import Options
from reference_numpy import Rows, one_step_numpy
from replications import keep_results

SHAPE, RANK, N, FOLDS = (200, 200), 5, 60_000, 10
FEW, MORE = 2, 402  # numbers of targets whose difference gives the rival's time per target


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def plain_seconds() -> float:
    """Return the time of the tests' re-derivation for two targets on a small design, times the ratio of battles."""
    shape, rank, n = (15, 12), (2, 2), 1_500
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores(shape, 2, scale=3, rng=0), n, rng=1)
    fit = lrbtl.fit(battles, 2)
    cells = battles.cells
    folds = fold_counts(cells, FOLDS, 0)
    fits = [refit(fit, (cells.count - fold).astype(float)).point.dense() for fold in folds]
    rows = oracle.rows_from_cells(shape, cells.context, cells.a, cells.b, cells.y, cells.count)
    gammas = np.zeros((2, *shape))
    gammas[0, 0, 0] = gammas[1, 1, 1] = 1.0
    targets = [oracle.linear_target(gamma) for gamma in gammas]
    return timed(lambda: oracle.one_step(fits, folds, rows, targets, rank, "efficient"))[0] * N / n


def main() -> None:
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores(SHAPE, RANK, scale=5, rng=0), N, rng=1)
    targets = [lrbtl.score(0, 0), lrbtl.win_probability(0, 1, 0)]
    cold, fit = timed(lambda: lrbtl.fit(battles, RANK))
    two, _ = timed(lambda: lrbtl.infer(battles, targets, rank=RANK, n_folds=FOLDS))
    every, _ = timed(lambda: lrbtl.infer(battles, lrbtl.all_scores(), rank=RANK, n_folds=FOLDS))
    folded, _ = timed(lambda: analyse_fit(fit, Options(n_folds=FOLDS)).run.family("scores"))
    cells = battles.cells
    index = [array.astype(np.int64) for array in (cells.a, cells.b, cells.context)]
    rows = Rows(*index, cells.y, cells.count.astype(float), *SHAPE)
    folds = fold_counts(cells, FOLDS, 0).astype(float)
    gammas = np.zeros((MORE, *SHAPE))
    gammas[np.arange(MORE), np.arange(MORE) % SHAPE[0], np.arange(MORE) // SHAPE[0]] = 1.0
    ridge = float(fit.ridge[0])
    few, _ = timed(lambda: one_step_numpy(rows, folds, gammas[:FEW], RANK, ridge))
    more, _ = timed(lambda: one_step_numpy(rows, folds, gammas, RANK, ridge))
    per_target = max(more - few, 0.0) / (MORE - FEW)
    scaled = few + per_target * (SHAPE[0] * SHAPE[1] - FEW)
    plain = plain_seconds()
    results = {
        "plain_two_targets_seconds_scaled": plain,
        "plain_over_ours": plain / two,
        "cold_fit_seconds": cold,
        "two_targets_seconds": two,
        "all_scores_seconds": every,
        "all_over_two": every / two,
        "run_over_cold_fit": two / cold,
        "numpy_two_targets_seconds": few,
        "numpy_all_scores_seconds_scaled": scaled,
        "numpy_all_over_ours": scaled / folded,
    }
    print(f"cold fit {cold:.2f} s; run with K = {FOLDS} for two targets {two:.2f} s, {two / cold:.1f} x the cold fit")
    print(f"all {SHAPE[0] * SHAPE[1]:,} scores {every:.2f} s, {every / two:.1f} x two targets")
    print(
        f"NumPy: {few:.1f} s for {FEW} targets, {scaled:.0f} s scaled to all, "
        f"{scaled / folded:.0f} x ours without the fit"
    )
    print(f"plain re-derivation: {plain:.0f} s for two targets, scaled in battles only, {plain / two:.0f} x ours")
    keep_results("inference_speed", results)


if __name__ == "__main__":
    main()
