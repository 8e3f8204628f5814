"""Level and power of the test for voters unlike all others, and the fewest votes that change who is first.

    python benchmarks/influence.py lmarena_140k_dev.csv.gz --reps 100

Simulation: 60 voters with 5 to 150 votes each on 10 models in 2 categories, default options. In half of the logs all
voters are alike: how often any time's product of likelihood ratios exceeds 20, for one voter (at most .05), and how
often a log has a voter flagged at 5% for all. In the other half three voters toss coins: how many of those with 50
votes or more are flagged. The running maximum is taken over votes in random order, with the fits of the whole log.
LMArena: votes found, and the board without them. Nothing was tuned. Results go to results/influence.json and .md.
"""

import argparse
import os
import time
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import expit

import lrbtl
from lrbtl.boards.influence import fit_others
from lrbtl.errors import LrbtlWarning
from replications import keep_results

VOTERS, MODELS, LEVEL, COINS = 60, 10, 0.05, 3


def simulate(seed: int, coins: int) -> lrbtl.Battles:
    """Return votes of voters who are alike, except that the first few toss coins."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 0.8, (MODELS, 1)) + rng.normal(0, 0.2, (MODELS, 2))
    voter = np.repeat(np.arange(VOTERS), rng.integers(5, 151, VOTERS))
    n = voter.size
    a, u = rng.integers(MODELS, size=n), rng.integers(2, size=n)
    b = (a + rng.integers(1, MODELS, size=n)) % MODELS
    p = np.where(voter < coins, 0.5, expit(truth[a, u] - truth[b, u]))
    return lrbtl.Battles.from_arrays(a, b, (rng.random(n) < p).astype(float), [u], cluster=voter)


def running_maxima(battles: lrbtl.Battles, analysis: lrbtl.Analysis, rng: np.random.Generator) -> np.ndarray:
    """Return the largest product over time of each voter, votes in random order."""
    cells = battles.cells
    voter = cells.clusters[:, 0]
    win = fit_others(analysis, voter, cells.count, 5)
    ratio = np.log(0.5) - np.log(np.where(cells.y == 1, win, 1 - win))
    out = np.empty(VOTERS)
    for k in range(VOTERS):
        mine = np.flatnonzero(voter == k)
        votes = rng.permutation(np.repeat(ratio[mine], cells.count[mine]))
        out[k] = np.cumsum(votes).max()
    return out


def level_and_power(reps: int) -> dict[str, list[float]]:
    """Return rates with their Monte Carlo errors."""
    crossed, wrong, found = [], [], []
    for seed in range(reps):
        battles = simulate(seed, 0)
        analysis = lrbtl.analyse(battles)
        crossed.append(np.mean(running_maxima(battles, analysis, np.random.default_rng(seed)) >= np.log(1 / LEVEL)))
        wrong.append(float(lrbtl.influence(analysis, lrbtl.gap(0, 1), by="cluster").misfits().flagged.any()))
        other = lrbtl.influence(lrbtl.analyse(simulate(seed + 10_000, COINS)), lrbtl.gap(0, 1), by="cluster").misfits()
        coins = np.isin(other.voters, np.arange(COINS)) & (other.votes >= 50)
        found += other.flagged[coins].tolist()
    parts = {"ever above 20, one voter": crossed, "logs with a wrong flag": wrong, "coins flagged": found}
    return {name: [float(np.mean(x)), float(np.std(x) / np.sqrt(len(x)))] for name, x in parts.items()}


def first_place(path: str) -> dict[str, object]:
    """Return the votes without which another model is first on LMArena, and the fit that proves it."""
    battles = lrbtl.Battles.from_frame(pd.read_csv(path), contexts="category")
    board = lrbtl.leaderboard(battles)
    start = time.perf_counter()
    flip = lrbtl.influence(board).flip()
    seconds = time.perf_counter() - start
    after = lrbtl.leaderboard(flip.battles)
    return {
        "votes": flip.n_votes, "of": flip.n_all, "target": flip.target, "before": flip.before, "after": flip.after,
        "fits": flip.n_fits, "seconds": seconds, "first before": board.models[0], "first after": after.models[0],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--reps", type=int, default=100)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        flip = first_place(options.path)
        print(flip, flush=True)
        rates = level_and_power(options.reps)
    lines = ["# What boards rest on", "", f"Voters unlike all others, {options.reps} logs of each kind:", ""]
    lines += ["| what | rate |", "|---|---|"]
    lines += [f"| {name} | {mean:.4f} ± {error:.4f} |" for name, (mean, error) in rates.items()]
    lines += [
        "",
        f"LMArena: without {flip['votes']} of {flip['of']:,} votes, {flip['first after']} is first instead of",
    ]
    lines += [f"{flip['first before']} ({flip['target']}: {flip['before']:+.1f} before, {flip['after']:+.1f} after;"]
    lines += [f"{flip['fits']} fits, {flip['seconds']:.0f} s)."]
    keep_results("influence", {"voters": rates, "first place": flip}, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
