"""Ratings over time: held-out likelihood of football by year, time against periods, coverage of bands and drift tests.

    python benchmarks/history.py football_intl_1990_2026.csv.gz --folds 5 --reps 100
    python benchmarks/history.py --reps 40

Football: matches are split into folds; those held out are predicted by the history, by one board of all years and by
one board per year, all with a spread of teams of largest evidence (the history with one period is such a board).
Forecasts: a year is predicted from the years before it. Differences are per match, in thousandths of a nat, with
standard errors over matches. Simulation: models walk with the step given, in log odds. The quantiles of the step that
stand for its distribution were chosen on the first design (12 models over 24 periods with 200 votes each); the second
(20 models, 12 periods, 400 votes) confirms. Nothing was tuned on football. Voters: 8 models over 8 periods, 4,000 votes
of 60 voters with tastes of their own (standard deviation .6 per model) who vote in three periods in a row, with and
without `cluster=`; the truth is that of the mean voter, and nothing was tuned. Without a file only that part is run,
and the others keep their results. Results go to results/history.json and .md.
"""

import argparse
import os
import time
import warnings
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import log_expit

import lrbtl
from lrbtl.boards.history import step_quantiles
from lrbtl.errors import LrbtlWarning
from lrbtl.fitting.random_walk import TimedVotes, fit_once, fit_walks
from replications import keep_results, known_results

YEARS_FORECAST = range(2016, 2027)
DESIGNS = {"tuning": (12, 24, 200), "confirming": (20, 12, 400)}  # models, periods, votes per period
STEPS = {"tuning": (0.0, 0.05, 0.15), "confirming": (0.0, 0.03, 0.1, 0.3)}


def timed(frame: pd.DataFrame, rows: np.ndarray, code: dict[str, int], T: int) -> tuple[TimedVotes, np.ndarray]:
    """Return some rows as votes, with the place of each team (-1 for those without a match among them)."""
    part = frame.iloc[rows].sort_values("t", kind="stable")
    teams = np.stack([part.model_a.map(code), part.model_b.map(code)])
    first = np.full(len(code), T)
    for side in teams:
        np.minimum.at(first, side, part.t.to_numpy())
    order = np.argsort(first, kind="stable")
    order = order[first[order] < T]
    place = np.full(len(code), -1)
    place[order] = np.arange(order.size)
    present = np.searchsorted(first[order], np.arange(T), side="right")
    a, b = place[teams]
    votes = TimedVotes(
        part.t.to_numpy(), a, b, part.y.to_numpy(), np.ones(len(part)), np.zeros((len(part), 0)), present
    )
    return votes, place


def predict(
    scores: np.ndarray, place: np.ndarray, frame: pd.DataFrame, t: np.ndarray, code: dict[str, int]
) -> np.ndarray:
    """Return the log likelihood of each match; a team that is not known has the mean score, zero."""
    padded = np.concatenate([scores, np.zeros((len(scores), 1))], axis=1)
    eta = padded[t, place[frame.model_a.map(code)]] - padded[t, place[frame.model_b.map(code)]]
    y = frame.y.to_numpy()
    return np.asarray(y * log_expit(eta) + (1 - y) * log_expit(-eta))


def walk(votes: TimedVotes) -> np.ndarray:
    """Return the scores of a history, (T, d1)."""
    return np.asarray(np.mean([path.scores for path in fit_walks(votes, step_quantiles)], axis=0))


def yearly(votes: TimedVotes, held: pd.DataFrame, place: np.ndarray, code: dict[str, int]) -> np.ndarray:
    """Return the log likelihood of held-out matches under one board per year."""
    out = np.full(len(held), np.log(0.5))
    for t in np.unique(held.t):
        at = votes.period == t
        if not at.any():
            continue
        here = np.unique(np.concatenate([votes.a[at], votes.b[at]]))
        local = np.full(len(code) + 1, -1)
        local[here] = np.arange(here.size)
        zero = np.zeros(at.sum(), dtype=np.int64)
        year = TimedVotes(
            zero, local[votes.a[at]], local[votes.b[at]], votes.y[at], votes.count[at], np.zeros((zero.size, 0)),
            np.array([here.size]),
        )  # fmt: skip
        rows = np.flatnonzero(held.t == t)
        where = np.where(place >= 0, local[place], -1)
        out[rows] = predict(fit_once(year).scores, where, held.iloc[rows], np.zeros(rows.size, dtype=int), code)
    return out


def compare(parts: dict[str, list[np.ndarray]]) -> dict[str, float]:
    """Return the mean log likelihood of each way, and by how much the history is better, in thousandths of a nat."""
    joined = {name: 1000 * np.concatenate(part) for name, part in parts.items()}
    out = {"matches": int(joined["history"].size), **{name: float(part.mean()) for name, part in joined.items()}}
    for name in ("static", "yearly"):
        better = joined["history"] - joined[name]
        out[f"over {name}"] = float(better.mean())
        out[f"over {name}, error"] = float(better.std() / np.sqrt(better.size))
    return out


def football(frame: pd.DataFrame, n_folds: int) -> dict[str, dict[str, float]]:
    """Return how well matches are predicted, held out at random and by the years before."""
    code = {team: k for k, team in enumerate(sorted({*frame.model_a, *frame.model_b}))}
    T, fold = int(frame.t.max()) + 1, np.random.default_rng(0).integers(n_folds, size=len(frame))
    parts: dict[str, list[np.ndarray]] = {"history": [], "static": [], "yearly": []}
    for k in range(n_folds):
        votes, place = timed(frame, np.flatnonzero(fold != k), code, T)
        held = frame.iloc[np.flatnonzero(fold == k)]
        t = held.t.to_numpy()
        parts["history"].append(predict(walk(votes), place, held, t, code))
        parts["static"].append(predict(fit_once(votes).scores, place, held, np.zeros_like(t), code))
        parts["yearly"].append(yearly(votes, held, place, code))
        print(f"fold {k}", flush=True)
    ahead: dict[str, list[np.ndarray]] = {"history": [], "static": [], "yearly": []}
    for year in YEARS_FORECAST:
        t = year - 1990
        votes, place = timed(frame, np.flatnonzero(frame.t < t), code, t)
        held = frame[frame.t == t]
        ahead["history"].append(predict(walk(votes), place, held, np.full(len(held), t - 1), code))
        ahead["static"].append(predict(fit_once(votes).scores, place, held, np.zeros(len(held), dtype=int), code))
        ahead["yearly"].append(yearly(votes, held.assign(t=t - 1), place, code))
        print(f"forecast of {year}", flush=True)
    return {"held out": compare(parts), "forecast": compare(ahead)}


def simulate(step: float, seed: int, n_models: int = 12, T: int = 24, n: int = 200) -> tuple[lrbtl.Battles, np.ndarray]:
    """Return votes between models that walk, and their scores."""
    rng = np.random.default_rng(seed)
    truth = np.cumsum(np.column_stack([rng.normal(0, 0.7, n_models), rng.normal(0, step, (n_models, T - 1))]), axis=1)
    t = np.repeat(np.arange(T), n)
    a = rng.integers(n_models, size=t.size)
    b = (a + rng.integers(1, n_models, size=t.size)) % n_models
    won = rng.random(t.size) < 1 / (1 + np.exp(truth[b, t] - truth[a, t]))
    return lrbtl.Battles.from_arrays(a, b, won.astype(float), [t]), truth


def coverage(design: str, step: float, reps: int) -> dict[str, float | str]:
    """Return how often bands and drifts hold the truth, and how often a drift is called."""
    inside, fixed, rejected = [], [], []
    for seed in range(reps):
        battles, truth = simulate(step, seed, *DESIGNS[design])
        story = lrbtl.history(battles)
        rows = np.array([int(model) for model in story.models])
        # a move that all share is not seen: truth is put on the gauge of the history
        moves = np.diff(truth, axis=1).mean(axis=0)
        free = truth - np.concatenate([[0.0], np.cumsum(moves)])
        elo = 1000 + 400 / np.log(10) * (free - free.mean())
        inside.append(np.mean((story.lower <= elo[rows]) & (elo[rows] <= story.upper)))
        drift = story.drift()
        true = free[rows, -1] - free[rows, 0]
        fixed.append(np.mean(np.abs(drift.estimate - true) < 1.959964 * drift.se))
        rejected.append(np.mean(drift.pvalue < 0.05))
    return {
        "design": design,
        "step": step,
        **{f"{name}{part}": float(f(x)) for name, x in (("bands", inside), ("drift", fixed), ("rejected", rejected))
           for part, f in (("", np.mean), (", error", lambda x: np.std(x, ddof=1) / np.sqrt(len(x))))},
    }  # fmt: skip


def voters(reps: int) -> list[dict[str, float | str]]:
    """Return how often bands hold the truth where voters have tastes of their own, with and without clusters."""
    held: dict[str, list[float]] = {"without": [], "with": []}
    steps: dict[str, list[float]] = {"without": [], "with": []}
    for seed in range(reps):
        rng = np.random.default_rng([14, seed])
        n, V, T, M = 4000, 60, 8, 8
        skill = rng.normal(0, 0.5, (M, 1)) + np.cumsum(rng.normal(0, 0.1, (M, T)), axis=1)
        voter, a = rng.integers(V, size=n), rng.integers(M, size=n)
        t, b = np.minimum(voter * T // V + rng.integers(3, size=n), T - 1), (a + rng.integers(1, M, size=n)) % M
        taste = rng.normal(0, 0.6, (V, M))
        eta = skill[a, t] - skill[b, t] + taste[voter, a] - taste[voter, b]
        won = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
        log = {"model_a": a, "model_b": b, "winner": won, "t": t, "voter": voter}
        free = skill - np.concatenate([[0.0], np.cumsum(np.diff(skill, axis=1).mean(axis=0))])
        free = free / np.sqrt(1 + 16 * np.sqrt(3) / (15 * np.pi) * 2 * 0.6**2)  # of the mean voter, nearly
        for name, options in (("without", {}), ("with", {"cluster": "voter"})):
            story = lrbtl.history(log, "t", **options)
            elo = 1000 + 400 / np.log(10) * (free - free.mean())[[int(model) for model in story.models]]
            held[name].append(float(np.mean((story.lower <= elo) & (elo <= story.upper))))
            steps[name].append(story.step)
    return [
        {
            "cluster": name,
            "bands": float(np.mean(held[name])),
            "bands, error": float(np.std(held[name], ddof=1) / np.sqrt(reps)),
            "step": float(np.mean(steps[name])),
            "logs": float(reps),
        }
        for name in held
    ]


def speed(periods: tuple[int, ...] = (25, 50, 100, 200, 400)) -> list[dict[str, float]]:
    """Return the time that histories of more and more periods take."""
    rows = []
    for T in periods:
        battles, _ = simulate(0.05, 0, n_models=50, T=T, n=500)
        start = time.perf_counter()
        lrbtl.history(battles)
        rows.append({"periods": T, "seconds": time.perf_counter() - start})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--reps", type=int, default=100)
    options = parser.parse_args()
    parts = known_results("history")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        parts["voters"] = voters(options.reps)
        if options.path is not None:
            frame = pd.read_csv(options.path)
            frame = frame.assign(
                t=frame.year - frame.year.min(), y=frame.winner.map({"model_a": 1.0, "model_b": 0.0, "tie": 0.5})
            )
            parts["football"] = football(frame, options.folds)
            parts["walks"] = [coverage(design, step, options.reps) for design in DESIGNS for step in STEPS[design]]
            parts["speed"] = speed()
    keep_results("history", parts, to_markdown(parts))
    print(to_markdown(parts))


def to_markdown(parts: dict[str, Any]) -> str:
    """Return the tables."""
    lines = ["# Ratings over time", "", (__doc__ or "").split("\n\n", 2)[2].rsplit("Without a file", 1)[0].strip(), ""]
    lines += ["Football, log likelihood per match in thousandths of a nat (± standard error).", ""]
    lines += ["| | matches | history | one board | a board per year | over one board | over boards per year |"]
    lines += ["|---|---|---|---|---|---|---|"]
    lines += [
        f"| {name} | {row['matches']:,} | {row['history']:.1f} | {row['static']:.1f} | {row['yearly']:.1f} | "
        f"{row['over static']:+.1f} ± {row['over static, error']:.1f} | "
        f"{row['over yearly']:+.1f} ± {row['over yearly, error']:.1f} |"
        for name, row in parts["football"].items()
    ]
    lines += ["", "Simulated walks, 100 logs each: coverage of 95% bands and of drifts, and drifts called at 5%.", ""]
    lines += ["| design | step | bands | drifts | called |", "|---|---|---|---|---|"]
    for row in parts["walks"]:
        cells = [f"{row[name]:.3f} ± {row[name + ', error']:.3f}" for name in ("bands", "drift", "rejected")]
        lines.append(f"| {row['design']} | {row['step']:g} | {' | '.join(cells)} |")
    lines += [
        "",
        f"Voters with tastes, {parts['voters'][0]['logs']:.0f} logs: coverage of bands, and the step found.",
        "",
    ]
    lines += ["| clusters | bands | step in Elo points (17 for a voter) |", "|---|---|---|"]
    lines += [
        f"| {row['cluster']} | {row['bands']:.3f} ± {row['bands, error']:.3f} | {row['step']:.1f} |"
        for row in parts["voters"]
    ]
    lines += ["", "Time against periods: 50 models, 500 votes per period.", ""]
    lines += ["| periods | seconds | seconds per period |", "|---|---|---|"]
    lines += [
        f"| {row['periods']} | {row['seconds']:.2f} | {row['seconds'] / row['periods']:.4f} |" for row in parts["speed"]
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
