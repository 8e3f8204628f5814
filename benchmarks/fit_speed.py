"""Speed of the fit: against scipy's L-BFGS to the same objective, and how it grows with cells and contexts.

    python benchmarks/fit_speed.py

One thread each, one run. The rival minimises the same penalised likelihood with an analytic, vectorised gradient and
stops as soon as it reaches our objective to a relative 1e-8. It comes in two writings, from factor rows (what one
writes first) and through the dense score matrix with sparse products (what one writes after profiling), and from two
starts. Results go to results/fit_speed.json.
"""

import os
import time
from collections.abc import Callable
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from scipy.optimize import minimize

import lrbtl
from lrbtl.fitting.design import Design
from lrbtl.fitting.low_rank import spectral_start
from lrbtl.fitting.newton import minimise
from reference_numpy import Rows, fit_lbfgs
from reference_numpy import spectral_start as numpy_start
from replications import keep_results

TOL = 1e-8


def best_time(run: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """Return the shortest of some runs, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
    return min(times), result


def first_writing(rows: Rows, rank: int, ridge: float, start: tuple[np.ndarray, np.ndarray], stop_at: float) -> int:
    """Minimise by L-BFGS with rows of the factors gathered and np.add.at for the gradient; return the evaluations."""
    d1, size = rows.d1, rows.d1 * rank

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        U, V = theta[:size].reshape(d1, rank), theta[size:].reshape(rows.d2, rank)
        difference, loading = U[rows.a] - U[rows.b], V[rows.u]
        eta = (difference * loading).sum(axis=1)
        value = rows.n @ (np.logaddexp(0.0, eta) - rows.y * eta) + 0.5 * ridge * (theta @ theta)
        residual = (rows.n * (1.0 / (1.0 + np.exp(-eta)) - rows.y))[:, None]
        gU, gV = np.zeros_like(U), np.zeros_like(V)
        np.add.at(gU, rows.a, residual * loading)
        np.add.at(gU, rows.b, -residual * loading)
        np.add.at(gV, rows.u, residual * difference)
        return float(value), np.concatenate([gU.ravel(), gV.ravel()]) + ridge * theta

    def reached(intermediate_result: Any) -> None:
        if intermediate_result.fun <= stop_at:
            raise StopIteration

    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-14, "gtol": 1e-8}
    x0 = np.concatenate([start[0].ravel(), start[1].ravel()])
    return int(minimize(objective, x0, jac=True, method="L-BFGS-B", callback=reached, options=options).nfev)


def race(name: str, shape: tuple[int, int], rank: int, n: int, ridge: float, scale: float = 5.0) -> dict[str, Any]:
    """Return the times of everyone on one data set, and their ratios to ours."""
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores(shape, rank, scale=scale, rng=0), n, rng=1)
    cells = battles.cells
    index = [array.astype(np.int64) for array in (cells.a, cells.b, cells.context)]
    rows = Rows(*index, cells.y, cells.count.astype(float), *shape)
    ours, fit = best_time(lambda: lrbtl.fit(battles, rank, ridge=ridge))
    stop_at = fit.objective * (1 + TOL)
    rng = np.random.default_rng(0)
    random = (rng.normal(size=(shape[0], rank)), rng.normal(size=(shape[1], rank)))
    rivals = {
        "L-BFGS, factor rows, random start": lambda: first_writing(rows, rank, ridge, random, stop_at),
        "L-BFGS, factor rows, spectral start": lambda: first_writing(
            rows, rank, ridge, numpy_start(rows, rank), stop_at
        ),
        "L-BFGS, sparse products, random start": lambda: fit_lbfgs(rows, rank, ridge, random, stop_at=stop_at),
        "L-BFGS, sparse products, spectral start": lambda: fit_lbfgs(rows, rank, ridge, None, stop_at=stop_at),
    }
    out: dict[str, Any] = {
        "design": name,
        "cells": battles.n_cells,
        "lrbtl_seconds": ours,
        "newton_steps": fit.n_iter,
        "ratios": {},
    }
    print(f"{name}: {battles.n_cells:,} cells, lrbtl {1e3 * ours:.0f} ms in {fit.n_iter} Newton steps")
    for rival, run in rivals.items():
        seconds, _ = best_time(run, 2)
        out["ratios"][rival] = seconds / ours
        print(f"    {rival:<42} {1e3 * seconds:8.0f} ms   {seconds / ours:6.1f} x")
    return out


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Return the log-log slope."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def scaling() -> dict[str, Any]:
    """Return times of two Newton steps as cells and contexts grow."""

    def timed(shape: tuple[int, int], n: int) -> tuple[int, float]:
        truth = lrbtl.simulate_scores(shape, 3, scale=3, rng=0)
        design = Design.of(lrbtl.simulate_battles(truth, n, rng=1))
        start = spectral_start(design, (3, 3))
        seconds, _ = best_time(lambda: minimise(design, start, np.array([2.0, 2.0]), max_iter=2), 2)
        return len(design.a), seconds

    by_cells = [timed((100, 100), n) for n in (10_000, 30_000, 100_000, 300_000, 1_000_000)]
    by_contexts = [(d2, timed((50, d2), 20 * d2)[1]) for d2 in (100, 1_000, 10_000, 100_000)]
    out = {
        "cells": by_cells,
        "cells_slope": slope(*map(list, zip(*by_cells, strict=True))),
        "contexts": by_contexts,
        "contexts_slope": slope(*map(list, zip(*by_contexts, strict=True))),
    }
    for what in ("cells", "contexts"):
        steps = ", ".join(f"{size:,}: {1e3 * seconds:.0f} ms" for size, seconds in out[what])
        print(f"two Newton steps by {what}: {steps}; log-log slope {out[what + '_slope']:.2f}")
    return out


def main() -> None:
    results = {
        "races": [
            race("paper, 200 x 200, rank 5, 60,000 battles", (200, 200), 5, 60_000, 4.0),
            race("arena, 30 x 10, rank 3, 81,000 battles", (30, 10), 3, 81_000, 4.0, 2.0),
            race("many contexts, 50 x 20,000, rank 3, 1,000,000 battles", (50, 20_000), 3, 1_000_000, 8.0, 3.0),
        ],
        "scaling": scaling(),
    }
    keep_results("fit_speed", results)


if __name__ == "__main__":
    main()
