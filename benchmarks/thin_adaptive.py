"""Adaptive designs: where earlier votes decide who meets next, and fresh votes on the very same design beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import lrbtl

ELO = 400 / np.log(10)
OVERALL, BIAS = 0.94, 10.0  # coverage; Elo between the leader's bias and that of fresh votes
LEVEL, FACTOR, TAU = 0.6, 0.2, 0.2
FIGURES = ("overall", "all", "mse", "bias", "first")
CLOSEST = 0.05  # share of pairs that near ties are
TOP = 5
Z = 1.959964


@dataclass(frozen=True)
class Adaptive:
    """Models, categories, votes in all, votes of a round, and who meets next; the first round is uniform."""

    models: int
    categories: int
    votes: int
    batch: int
    rule: str

    @property
    def name(self) -> str:
        """The design in words."""
        size = f"{self.models} x {self.categories}" if self.categories > 1 else str(self.models)
        return f"{size}, {self.votes:,}, {self.rule}"


DESIGNS = {
    design.name: design
    for design in (
        Adaptive(40, 1, 2_000, 50, "near ties"),
        Adaptive(40, 1, 2_000, 50, "optimistic"),
        Adaptive(30, 4, 6_000, 150, "near ties"),
        Adaptive(30, 4, 6_000, 150, "optimistic"),
        Adaptive(30, 4, 6_000, 600, "plan"),
    )
}
START = 600


def pooled_fit(won: np.ndarray, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return levels (d,) and their covariance from wins (d, d) of all categories, with a N(0, spread^2) prior."""
    d = len(won)
    n, theta = won + won.T, np.zeros(d)
    for _ in range(30):
        p = 1 / (1 + np.exp(theta[None] - theta[:, None]))
        weight = n * p * (1 - p)
        precision = np.diag(weight.sum(axis=1)) - weight + np.eye(d) / spread**2
        step = np.linalg.solve(precision, np.sum(won - n * p, axis=1) - theta / spread**2)
        theta = theta + step
        if np.abs(step).max() < 1e-6:
            break
    return theta, np.linalg.inv(precision)


def near_ties(won: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the law (P,) of the next pairs: the pairs with the smallest gaps so far, alike."""
    a, b = np.triu_indices(won.shape[1], 1)
    theta = pooled_fit(won.sum(axis=0))[0]
    gap = np.abs(theta[a] - theta[b])
    return np.asarray(gap <= np.quantile(gap, CLOSEST), dtype=float)


def optimistic(won: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the law (P,) of the next pairs: those of the five models with the highest upper limits."""
    a, b = np.triu_indices(won.shape[1], 1)
    theta, cov = pooled_fit(won.sum(axis=0))
    upper = theta + 2 * np.sqrt(np.diag(cov))
    top = upper >= np.sort(upper)[-TOP]
    return np.asarray(top[a] & top[b], dtype=float)


RULES: dict[str, Callable[[np.ndarray, int, np.random.Generator], np.ndarray]] = {
    "near ties": near_ties,
    "optimistic": optimistic,
}


def draw_truth(design: Adaptive, rng: np.random.Generator) -> np.ndarray:
    """Return true scores (d, D), which sum to zero over models; one category has levels alone."""
    d, D = design.models, design.categories
    truth = LEVEL * rng.normal(size=(d, 1)) * np.ones((1, D))
    if D > 1:
        truth = truth + FACTOR * rng.normal(size=(d, 1)) * rng.normal(size=(1, D)) + TAU * rng.normal(size=(d, D))
    return np.asarray(truth - truth.mean(axis=0))


def vote(truth: np.ndarray, shown: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return wins (D, d, d) of the first over the second from votes shown (D, P) by pair."""
    d, D = truth.shape
    a, b = np.triu_indices(d, 1)
    first = rng.binomial(shown, 1 / (1 + np.exp(truth[b].T - truth[a].T)))
    won = np.zeros((D, d, d))
    won[:, a, b], won[:, b, a] = first, shown - first
    return won


def to_battles(won: np.ndarray) -> lrbtl.Battles:
    """Return wins (D, d, d) as battles."""
    D, d = won.shape[:2]
    u, a, b = np.nonzero(won)
    contexts = (u,) if D > 1 else ()
    return lrbtl.Battles.from_arrays(
        a, b, np.ones(len(a)), contexts, n_models=d, n_levels=(D,) if D > 1 else None,
        counts=won[u, a, b].astype(int),
    )  # fmt: skip


def planned(won: np.ndarray, n: int) -> np.ndarray:
    """Return the votes (D, P) that `plan` asks for next, to rank the top five."""
    battles = to_battles(won)
    found = lrbtl.plan(battles, n, goal=("top", TOP))
    D, d = won.shape[:2]
    table = np.zeros((D, d, d), dtype=int)
    for context, x, y, votes in zip(found.contexts, found.a, found.b, found.votes, strict=True):
        i, j = sorted((battles.model_index(x), battles.model_index(y)))
        table[battles.context_index(context), i, j] += votes
    a, b = np.triu_indices(d, 1)
    return table[:, a, b]


def judge(truth: np.ndarray, won: np.ndarray) -> dict[str, float]:
    """Return the default's figures on a log: scores overall and by category, and the leader."""
    battles = to_battles(won)
    analysis = lrbtl.analyse(battles)
    goal = truth @ (battles.context_counts / battles.n_battles)
    overall = analysis.estimate([lrbtl.score(i) for i in range(len(truth))])
    low, high = overall.conf_int().T
    held = (low <= goal) & (goal <= high)
    first = int(np.argmax(overall.estimate))
    found = analysis.estimate(lrbtl.all_scores())
    values = found.estimate.reshape(truth.shape)
    lower, upper = (bound.reshape(truth.shape) for bound in found.conf_int().T)
    inside = ((lower <= truth) & (truth <= upper))[np.isfinite(values)]
    figures = (
        held.mean(), inside.mean(), np.mean((overall.estimate - goal) ** 2), ELO * (overall.estimate - goal)[first],
        held[first],
    )  # fmt: skip
    return dict(zip(FIGURES, map(float, figures), strict=True))


def judge_known(truth: np.ndarray, won: np.ndarray) -> dict[str, float]:
    """Return the figures of somebody who knows the law of levels, on a plain log: that is all that Bayes needs.

    Pairings that depend on earlier votes alone say nothing more about levels; with fresh votes they do.
    """
    theta, cov = pooled_fit(won[0], LEVEL)
    values, se = theta - theta.mean(), np.sqrt(np.diag(cov - cov.mean(axis=0) - cov.mean(axis=1)[:, None] + cov.mean()))
    away, first = values - truth[:, 0], int(np.argmax(values))
    held = np.abs(away) < Z * se
    figures = held.mean(), held.mean(), np.mean(away**2), ELO * away[first], held[first]
    return dict(zip(FIGURES, map(float, figures), strict=True))


def replicate(base: int, name: str, seed: int, known: dict[str, Any]) -> dict[str, Any]:
    """Return figures on an adaptive log, and on one with fresh votes of the same pairs in the same categories."""
    design = DESIGNS[name.split("; ")[1]]
    rng = np.random.default_rng([base, *design.name.encode(), seed])
    truth = draw_truth(design, rng)
    d, D = truth.shape
    pairs = d * (d - 1) // 2
    shown = rng.multinomial(START, np.full(D * pairs, 1 / (D * pairs))).reshape(D, pairs)
    won = vote(truth, shown, rng)
    while shown.sum() < design.votes:
        n = min(design.batch, int(design.votes - shown.sum()))
        if design.rule == "plan":
            more = planned(won, n)
        else:
            law = RULES[design.rule](won, n, rng)
            more = rng.multinomial(n, np.tile(law, D) / (D * law.sum())).reshape(D, pairs)
        shown = shown + more
        won = won + vote(truth, more, rng)
    fresh = vote(truth, shown, rng)
    found: dict[str, Any] = {"seed": seed, "adaptive": judge(truth, won), "fresh": judge(truth, fresh)}
    if D == 1:
        found |= {"known adaptive": judge_known(truth, won), "known fresh": judge_known(truth, fresh)}
    return found


def summarise(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a design: means over logs with errors, and what it does not show that it must."""
    row: dict[str, Any] = {"logs": len(found)}
    for kind in [kind for kind in ("adaptive", "fresh", "known adaptive", "known fresh") if kind in found[0]]:
        for key in FIGURES:
            values = np.array([each[kind][key] for each in found])
            row[f"{kind} {key}"] = [float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))]
    apart = np.array([each["adaptive"]["bias"] - each["fresh"]["bias"] for each in found])
    row["bias apart"] = [float(apart.mean()), float(apart.std(ddof=1) / np.sqrt(len(apart)))]
    missed = {"overall": row["adaptive overall"][0] < OVERALL, "leader": abs(row["bias apart"][0]) > BIAS}
    row["misses"] = [key for key, is_missed in missed.items() if is_missed]
    return row


HEAD = [
    "models x categories, votes, rule", "logs", "overall", "fresh", "all category scores", "fresh", "leader covered",
    "fresh", "its bias, Elo", "fresh", "apart", "law known: overall, bias", "fresh", "misses",
]  # fmt: skip


def cells(name: str, row: dict[str, Any]) -> list[str]:
    """Return a row of the table."""

    def both(key: str, digits: int = 3, sign: str = "") -> str:
        return f"{row[key][0]:{sign}.{digits}f} ± {row[key][1]:.{digits}f}"

    known = ["", ""]
    if "known fresh bias" in row:
        known = [
            f"{both(f'known {kind} overall')}, {both(f'known {kind} bias', 0, '+')}" for kind in ("adaptive", "fresh")
        ]
    return [
        name, str(row["logs"]), both("adaptive overall"), both("fresh overall"), both("adaptive all"),
        both("fresh all"), both("adaptive first", 2), both("fresh first", 2), both("adaptive bias", 0, "+"),
        both("fresh bias", 0, "+"), both("bias apart", 0, "+"), *known, ", ".join(row["misses"]),
    ]  # fmt: skip
