"""Coverage of a sparse newcomer: plain boards of 200 models, boards with contexts, and arena-rank's arithmetic.

Every replication draws new true scores and new battles of all models. Scores and intervals are those that `leaderboard`
reports (checked on the first replication), without the ranks, which would take most of the time.

    python benchmarks/newcomer.py --reps 500
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

import lrbtl
from lrbtl.boards.compat import arena_rank
from lrbtl.errors import SeparationError
from lrbtl.inference.estimate import ELO

SPREAD = 0.8  # standard deviation of the true scores: about 140 Elo points
LEVEL = 0.95
CONTEXTS = {"models": 60, "contexts": 5, "battles": 300_000, "rank": 3}


def plain_arena(rng, n_models, n_battles, n_new):
    """Return true scores and battles; the last model is the newcomer, who meets random others."""
    truth = rng.normal(0.0, SPREAD, n_models)
    a, b = np.triu_indices(n_models - 1, 1)
    shown = rng.multinomial(n_battles - n_new, np.full(a.size, 1.0 / a.size))
    rival, met = np.unique(rng.integers(0, n_models - 1, n_new), return_counts=True)
    a, b = np.append(a, np.full(rival.size, n_models - 1)), np.append(b, rival)
    return truth - truth.mean(), outcomes(rng, truth[:, None], 0 * a, a, b, np.append(shown, met))


def context_arena(rng, design, n_new):
    """Return true scores (models, contexts) and battles with uneven contexts; the last model is the newcomer."""
    d1, D = design["models"], design["contexts"]
    truth = rng.normal(0.0, SPREAD, d1)[:, None] * (1 + 0.1 * rng.normal(size=D))
    truth = truth + rng.normal(0.0, 0.25, (d1, design["rank"] - 1)) @ rng.normal(size=(design["rank"] - 1, D))
    traffic = rng.dirichlet(np.full(D, 3.0))
    a, b = np.triu_indices(d1 - 1, 1)
    shown = rng.multinomial(design["battles"] - n_new, np.outer(traffic, np.full(a.size, 1.0 / a.size)).ravel())
    u = np.append(np.repeat(np.arange(D), a.size), rng.choice(D, n_new, p=traffic))
    a, b = np.append(np.tile(a, D), np.full(n_new, d1 - 1)), np.append(np.tile(b, D), rng.integers(0, d1 - 1, n_new))
    battles = outcomes(rng, truth, u, a, b, np.append(shown, np.ones(n_new, dtype=int)), D)
    return truth - truth.mean(axis=0), battles


def outcomes(rng, truth, u, a, b, shown, n_contexts=None):
    won = rng.binomial(shown, 1.0 / (1.0 + np.exp(truth[b, u] - truth[a, u])))
    y = np.repeat([1.0, 0.0], a.size)
    contexts = () if n_contexts is None else (np.tile(u, 2),)
    return lrbtl.Battles.from_arrays(
        np.tile(a, 2), np.tile(b, 2), y, contexts, n_models=len(truth),
        n_levels=None if n_contexts is None else (n_contexts,), counts=np.append(won, shown - won),
    )  # fmt: skip


def newcomer_interval(analysis, weights, truth):
    """Return the limits of the last model's score on a board, and the truth relative to the models that have one."""
    placed = analysis.placed(weights)
    target = float((truth[-1] - truth[placed].mean(axis=0)) @ weights)
    if not placed[-1]:
        return -np.inf, np.inf, target
    lower, upper = analysis.estimate_boards(weights[None, :], placed[None, :])[0].conf_int(LEVEL)[-1]
    return lower, upper, target


def plain_row(n_models, n_battles, n_new, reps, seed):
    rng = np.random.default_rng([seed, n_battles, n_new])
    ours, theirs, one_sided, width = [], [], 0, []
    for rep in range(reps):
        truth, battles = plain_arena(rng, n_models, n_battles, n_new)
        lower, upper, target = newcomer_interval(lrbtl.analyse(battles), np.ones(1), truth[:, None])
        if rep == 0:
            check_board(battles, lower, n_models - 1)
        ours.append(lower <= target <= upper)
        one_sided += not np.isfinite(upper - lower)
        width.append(ELO * (upper - lower))
        try:
            cells = battles.cells
            ratings, variances = arena_rank(cells.a, cells.b, cells.y, cells.count, n_models)
            theirs.append(abs(1000 + ELO * truth[-1] - ratings[-1]) <= 1.959964 * np.sqrt(variances[-1]))
        except SeparationError:
            pass  # their package reports whatever its optimiser reached
    return {
        "models": n_models, "battles": n_battles, "newcomer": n_new, "reps": reps, "coverage": float(np.mean(ours)),
        "arena_rank": float(np.mean(theirs)), "one_sided": one_sided, "median_width_elo": float(np.median(width)),
    }  # fmt: skip


def check_board(battles, lower, model):
    board = lrbtl.leaderboard(battles, scale="logit", min_battles=1)
    assert abs(board.lower[board.models.index(model)] - lower) < 1e-9


def context_row(n_new, reps, seed):
    rng = np.random.default_rng([seed, n_new])
    D = CONTEXTS["contexts"]
    overall, within, width = [], [], []
    for _ in range(reps):
        truth, battles = context_arena(rng, CONTEXTS, n_new)
        analysis = lrbtl.analyse(battles, rank=CONTEXTS["rank"])
        for k, weights in enumerate([np.full(D, 1.0 / D), *np.eye(D)]):
            lower, upper, target = newcomer_interval(analysis, weights, truth)
            (within if k else overall).append(lower <= target <= upper)
            if not k:
                width.append(ELO * (upper - lower))
    return {
        **CONTEXTS, "newcomer": n_new, "reps": reps, "coverage": float(np.mean(overall)),
        "coverage_in_contexts": float(np.mean(within)), "median_width_elo": float(np.median(width)),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reps", type=int, default=500, help="replications of each plain row")
    parser.add_argument("--context-reps", type=int, default=200, help="replications of each row with contexts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "newcomer.json")
    options = parser.parse_args()
    start = time.perf_counter()
    print("   battles  newcomer's  coverage  arena-rank's  one-sided  median width", flush=True)
    plain = []
    for n_battles in (1_000_000, 5_000_000):
        for n_new in (50, 100, 300):
            row = plain_row(200, n_battles, n_new, options.reps, options.seed)
            plain.append(row)
            print(
                f"{n_battles:>10,}  {n_new:>10}  {row['coverage']:>8.1%}  {row['arena_rank']:>12.1%}"
                f"  {row['one_sided']:>9}  {row['median_width_elo']:>8.0f} Elo",
                flush=True,
            )
    print("with contexts:  newcomer's  coverage overall  in a context  median width")
    contexts = []
    for n_new in (50, 100, 300):
        row = context_row(n_new, options.context_reps, options.seed)
        contexts.append(row)
        print(
            f"                {n_new:>10}  {row['coverage']:>16.1%}  {row['coverage_in_contexts']:>12.1%}"
            f"  {row['median_width_elo']:>8.0f} Elo",
            flush=True,
        )
    result = {"level": LEVEL, "plain": plain, "contexts": contexts, "seconds": time.perf_counter() - start}
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
