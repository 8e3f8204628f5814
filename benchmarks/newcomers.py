"""Newcomers in one category, unbeaten models, and what one vote does to the others, with defaults.

    python benchmarks/newcomers.py --reps 100 --jobs 2

A newcomer with few battles in one of 8 categories among 40 incumbents (30,000 battles, rank 2, with or without 10% of
the variance in deviations): is it covered at home, in its other categories and overall, and do incumbents' intervals
widen? Then a model that won all of its 12 or 40 battles in a plain arena of 40, given that it did. Results go to
results/newcomers.json and .md.
"""

import argparse
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlWarning
from replications import keep_results

Z, SEED, D, INCUMBENTS, BATTLES = 1.959964, 77, 8, 40, 30_000
ROWS = [(m, share) for m in (20, 50, 200) for share in (0.0, 0.1)]
UNBEATEN = (12, 40)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    lines = ["# Newcomers and unbeaten models, defaults", "", " ".join(__doc__.split("\n\n")[2].split()), ""]
    lines += [
        "| battles | deviations | incumbents | home | other categories | overall | incumbents' errors |",
        "|" + "---|" * 7,
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        for m, share in ROWS:
            found = np.array(list(pool.map(newcomer, [(m, share, seed) for seed in range(options.reps)])), dtype=float)
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
            rows.append({"battles": m, "share": share, "mean": mean.tolist(), "error": error.tolist()})
            parts = [f"{x:.3f} ± {e:.3f}" for x, e in zip(mean[:4], error[:4], strict=True)]
            lines.append(f"| {m} | {share:.0%} | " + " | ".join(parts) + f" | × {mean[4]:.3f} |")
            print(lines[-1], flush=True)
        lines += ["", "| won all of | arenas | covered | heads the board |", "|---|---|---|---|"]
        for m in UNBEATEN:
            kept: list[list[float]] = []
            first = 0
            while len(kept) < options.reps:
                batch = pool.map(unbeaten, [(m, seed) for seed in range(first, first + 400)], chunksize=20)
                kept += [each for each in batch if each is not None]
                first += 400
            values = np.array(kept, dtype=float)
            rows.append({"unbeaten": m, "arenas": len(values), "mean": values.mean(axis=0).tolist()})
            lines.append(f"| {m} | {len(values)} | {values[:, 0].mean():.3f} | {values[:, 1].mean():.3f} |")
            print(lines[-1], flush=True)
    keep_results("newcomers", rows, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
