"""Newcomers in one category, unbeaten models, and newcomers of large plain arenas beside arena-rank, with defaults.

    python benchmarks/newcomers.py --reps 100 --jobs 2 --tables categories unbeaten plain

A newcomer with few battles in one of 8 categories among 40 incumbents (30,000 battles, rank 2, with or without 10% of
the variance in deviations): is it covered at home, in its other categories and overall, and do incumbents' intervals
widen? Then a model that won all of its 12 or 40 battles in a plain arena of 40, given that it did. Then a newcomer
that meets random others in a plain arena of 200 models, with arena-rank's arithmetic on the same battles. Tables that
are not asked for keep their results, in results/newcomers.json and .md.
"""

import argparse
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.boards.compat import arena_rank
from lrbtl.errors import LrbtlWarning, SeparationError
from lrbtl.inference.estimate import ELO
from replications import keep_results, known_results

Z, SEED, D, INCUMBENTS, BATTLES = 1.959964, 77, 8, 40, 30_000
ROWS = [(m, share) for m in (20, 50, 200) for share in (0.0, 0.1)]
UNBEATEN = (12, 40)
PLAIN_MODELS, PLAIN = 200, [(n, m) for n in (1_000_000, 5_000_000) for m in (50, 100, 300)]
SPREAD = 0.8


def make_battles(rng: Any, truth: np.ndarray, a: Any, b: Any, u: Any, n: Any) -> lrbtl.Battles:
    won = rng.binomial(n, 1 / (1 + np.exp(truth[b, u] - truth[a, u])))
    contexts = (np.tile(u, 2),) if truth.shape[1] > 1 else ()
    return lrbtl.Battles.from_arrays(
        np.tile(a, 2), np.tile(b, 2), np.repeat([1.0, 0.0], len(a)), contexts, n_models=len(truth),
        n_levels=(truth.shape[1],) if contexts else None, counts=np.append(won, n - won),
    )  # fmt: skip


def newcomer(job: tuple[int, float, int]) -> list[float]:
    """Return coverage of incumbents, of the newcomer at home, elsewhere and overall, and how much incumbents widen."""
    m, share, seed = job
    rng = np.random.default_rng([SEED, m, int(100 * share), seed])
    low = rng.normal(size=(INCUMBENTS + 1, 2)) @ rng.normal(size=(2, D))
    truth = np.sqrt(1 - share) * low / np.sqrt(np.mean(low**2)) + np.sqrt(share) * rng.normal(size=low.shape)
    a, b = np.triu_indices(INCUMBENTS, 1)
    shown = rng.multinomial(BATTLES, np.full(D * a.size, 1 / (D * a.size)))
    rival = rng.integers(0, INCUMBENTS, m)
    own = np.random.default_rng(seed)
    u = np.repeat(np.arange(D), a.size)
    old = make_battles(own, truth, np.tile(a, D), np.tile(b, D), u, shown)
    new = make_battles(rng, truth, np.full(m, INCUMBENTS), rival, np.zeros(m, dtype=int), np.ones(m, dtype=int))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        everyone, before = lrbtl.analyse(old + new), lrbtl.analyse(old.select(models=range(INCUMBENTS)))
    others = list(range(INCUMBENTS))
    base = truth[:INCUMBENTS].mean(axis=0)
    names = [(i, k) for i in range(INCUMBENTS + 1) for k in range(D)]
    est = everyone.estimate([lrbtl.score(i, k, among=others) for i, k in names])
    goal = np.array([truth[i, k] - base[k] for i, k in names])
    inside = (np.abs(est.estimate - goal) < Z * est.se).reshape(-1, D)
    plain = before.estimate([lrbtl.score(i, k) for i, k in names[: INCUMBENTS * D]])
    overall = everyone.estimate([lrbtl.score(INCUMBENTS, among=others)])
    mean = abs(overall.estimate[0] - (truth[INCUMBENTS] - base).mean()) < Z * overall.se[0]
    wider = np.median(est.se[: INCUMBENTS * D] / plain.se)
    return [inside[:INCUMBENTS].mean(), inside[-1, 0], inside[-1, 1:].mean(), mean, wider]


def unbeaten(job: tuple[int, int]) -> list[float] | None:
    """Return whether the unbeaten model is covered and whether it heads the board; None where it lost a battle."""
    m, seed = job
    rng = np.random.default_rng([SEED, m, seed])
    truth = rng.normal(0, SPREAD, (INCUMBENTS, 1))
    truth[-1] += SPREAD * (1 if m < 20 else 2)  # newcomers that nobody beats are strong ones
    rival = rng.integers(0, INCUMBENTS - 1, m)
    if not np.all(rng.random(m) < 1 / (1 + np.exp(truth[rival, 0] - truth[-1, 0]))):
        return None
    a, b = np.triu_indices(INCUMBENTS - 1, 1)
    shown = rng.multinomial(20_000, np.full(a.size, 1 / a.size))
    old = make_battles(rng, truth, a, b, np.zeros(a.size, dtype=int), shown)
    new = lrbtl.Battles.from_arrays(np.full(m, INCUMBENTS - 1), rival, np.ones(m), n_models=INCUMBENTS)
    battles = old + new
    others = list(range(INCUMBENTS - 1))
    est = lrbtl.infer(battles, lrbtl.score(INCUMBENTS - 1, among=others))
    goal = truth[-1, 0] - truth[:-1, 0].mean()
    board = lrbtl.leaderboard(battles)
    first = board.models[0] == INCUMBENTS - 1 and board.rank[0] == 1
    return [abs(est.estimate[0] - goal) < Z * est.se[0], float(first)]


def plain(job: tuple[int, int, int]) -> list[float]:
    """Return whether the newcomer is covered by the default and by arena-rank, NaN without a rating, and our width."""
    n, m, seed = job
    rng = np.random.default_rng([SEED, n, m, seed])
    truth = rng.normal(0, SPREAD, (PLAIN_MODELS, 1))
    a, b = np.triu_indices(PLAIN_MODELS - 1, 1)
    shown = rng.multinomial(n - m, np.full(a.size, 1 / a.size))
    rival, met = np.unique(rng.integers(0, PLAIN_MODELS - 1, m), return_counts=True)
    a, b = np.append(a, np.full(rival.size, PLAIN_MODELS - 1)), np.append(b, rival)
    battles = make_battles(rng, truth, a, b, np.zeros(a.size, dtype=int), np.append(shown, met))
    goal = truth[-1, 0] - truth.mean()
    est, cells = lrbtl.infer(battles, lrbtl.score(PLAIN_MODELS - 1)), battles.cells
    try:
        ratings, variances = arena_rank(cells.a, cells.b, cells.y, cells.count, PLAIN_MODELS)
        theirs = float(abs(1000 + ELO * goal - ratings[-1]) < Z * np.sqrt(variances[-1]))
    except SeparationError:
        theirs = np.nan  # their package reports whatever its optimiser reached
    return [abs(est.estimate[0] - goal) < Z * est.se[0], theirs, 2 * Z * ELO * est.se[0]]


# ------------------------------------------------------------------------------
# Rows of each table.
# ------------------------------------------------------------------------------


def category_rows(pool: Executor, reps: int) -> Iterator[dict[str, Any]]:
    for m, share in ROWS:
        found = np.array(list(pool.map(newcomer, [(m, share, seed) for seed in range(reps)])), dtype=float)
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        yield {"battles": m, "share": share, "mean": found.mean(axis=0).tolist(), "error": error.tolist()}


def unbeaten_rows(pool: Executor, reps: int) -> Iterator[dict[str, Any]]:
    for m in UNBEATEN:
        kept: list[list[float]] = []
        first = 0
        while len(kept) < reps:
            batch = pool.map(unbeaten, [(m, seed) for seed in range(first, first + 400)], chunksize=20)
            kept += [each for each in batch if each is not None]
            first += 400
        yield {"unbeaten": m, "arenas": len(kept), "mean": np.array(kept, dtype=float).mean(axis=0).tolist()}


def plain_rows(pool: Executor, reps: int) -> Iterator[dict[str, Any]]:
    for n, m in PLAIN:
        found = np.array(list(pool.map(plain, [(n, m, seed) for seed in range(reps)])), dtype=float)
        ours, theirs, width = float(found[:, 0].mean()), float(np.nanmean(found[:, 1])), float(np.median(found[:, 2]))
        yield {"plain": n, "newcomer": m, "arenas": reps, "default": ours, "arena_rank": theirs, "width": width}


TABLES = {
    "categories": (
        category_rows,
        "share",
        "battles | deviations | incumbents | home | other categories | overall | incumbents' errors",
    ),
    "unbeaten": (unbeaten_rows, "unbeaten", "won all of | arenas | covered | heads the board"),
    "plain": (
        plain_rows,
        "plain",
        "battles of all | of the newcomer | arenas | covered | by arena-rank | median width, Elo",
    ),
}


def cells_of(row: dict[str, Any]) -> list[str]:
    """Return a row of a table in words."""
    if "plain" in row:
        shares = [
            f"{share:.3f} ± {np.sqrt(share * (1 - share) / row['arenas']):.3f}"
            for share in (row["default"], row["arena_rank"])
        ]
        return [f"{row['plain']:,}", str(row["newcomer"]), str(row["arenas"]), *shares, f"{row['width']:.0f}"]
    if "unbeaten" in row:
        return [str(row["unbeaten"]), str(row["arenas"]), *(f"{x:.3f}" for x in row["mean"])]
    parts = [f"{x:.3f} ± {e:.3f}" for x, e in zip(row["mean"][:4], row["error"][:4], strict=True)]
    return [str(row["battles"]), f"{row['share']:.0%}", *parts, f"× {row['mean'][4]:.3f}"]


def to_markdown(rows: list[dict[str, Any]]) -> str:
    lines = ["# Newcomers and unbeaten models, defaults", "", " ".join((__doc__ or "").split("\n\n")[2].split())]
    for _, key, header in TABLES.values():
        lines += ["", f"| {header} |", "|" + "---|" * (header.count("|") + 1)]
        lines += [f"| {' | '.join(cells_of(row))} |" for row in rows if key in row]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--tables", nargs="+", default=[*TABLES], choices=[*TABLES])
    options = parser.parse_args()
    known = known_results("newcomers")
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for name, (measure, key, _) in TABLES.items():
            if name not in options.tables:
                rows += [row for row in known if key in row]
                continue
            for row in measure(pool, options.reps):
                rows.append(row)
                print(*cells_of(row), sep=" | ", flush=True)
    keep_results("newcomers", rows, to_markdown(rows))


if __name__ == "__main__":
    main()
