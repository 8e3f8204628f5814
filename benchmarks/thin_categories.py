"""Thin categories: T = level + shared factors + deviations of known size, and how the default does on such logs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import lrbtl

ELO = 400 / np.log(10)
COVERAGE, TAU_WITHIN, FIRST = (0.935, 0.965), 0.10, 0.90
FIGURES = ("all", "mse", "tau", "overall", "first", "bias", "home first", "home bias", "seconds")


@dataclass(frozen=True)
class Categories:
    """Models, sizes of the category modes, votes, and standard deviations of levels, shared factors and deviations.

    Each mode has one shared factor: a model's loading, N(0, 1), times a category's, N(0, 1), times `factor`.
    """

    models: int
    modes: tuple[int, ...]
    votes: int
    level: float
    factor: float
    tau: float

    @property
    def name(self) -> str:
        """The design in words."""
        spread = np.sqrt(self.level**2 + len(self.modes) * self.factor**2 + self.tau**2)
        return f"{' x '.join(map(str, (self.models, *self.modes)))}, {self.votes:,}, spread {spread:.2g}"


def close(spread: float) -> Categories:
    """Return a close board: 70% of the variance in levels, 20% in a factor, 10% in deviations."""
    return Categories(20, (4,), 6_000, *(spread * np.sqrt(share) for share in (0.7, 0.2, 0.1)))


DESIGNS = {
    design.name: design
    for design in (
        Categories(200, (60,), 15_000, 0.9, 0.35, 0.27),
        Categories(200, (60,), 60_000, 0.85, 0.35, 0.38),
        Categories(60, (40,), 10_000, 0.6, 0.3, 0.22),
        Categories(50, (5,), 1_100, 0.5, 0.2, 0.15),
        close(0.1),
        close(0.2),
        close(0.3),
        Categories(5, (3,), 200, 0.42, 0.0, 0.27),
        Categories(25, (6, 4), 8_000, 0.8, 0.3, 0.3),
    )
}


def draw_truth(design: Categories, rng: np.random.Generator) -> np.ndarray:
    """Return true scores (d1, *modes), which sum to zero over models."""
    truth = design.level * rng.normal(size=(design.models, *[1] * len(design.modes)))
    for mode, size in enumerate(design.modes):
        shape = [1] * len(design.modes)
        shape[mode] = size
        loading = rng.normal(size=(design.models, *[1] * len(design.modes)))
        truth = truth + design.factor * loading * rng.normal(size=(1, *shape))
    truth = truth + design.tau * rng.normal(size=(design.models, *design.modes))
    return np.asarray(truth - truth.mean(axis=0))


def found_tau(analysis: Any) -> float:
    """Return the size of deviations that a run found, NaN where it does not say."""
    tau = getattr(analysis.run, "tau", np.nan)
    return float(tau() if callable(tau) else tau)


def replicate(base: int, name: str, seed: int, known: dict[str, Any]) -> dict[str, Any]:
    """Return the default's figures on one log."""
    design = DESIGNS[name.split("; ")[1]]
    rng = np.random.default_rng([base, *design.name.encode(), seed])
    truth = draw_truth(design, rng)
    battles = lrbtl.simulate_battles(truth, design.votes, rng=rng)
    flat = truth.reshape(design.models, prod(design.modes))
    start = time.perf_counter()
    analysis = lrbtl.analyse(battles)
    found = analysis.estimate(lrbtl.all_scores())
    seconds = time.perf_counter() - start
    values = found.estimate.reshape(flat.shape)
    lower, upper = (bound.reshape(flat.shape) for bound in found.conf_int().T)
    known_ones = np.isfinite(values)
    inside = (lower <= flat) & (flat <= upper)
    weights = battles.context_counts / battles.n_battles
    overall = analysis.estimate([lrbtl.score(i) for i in range(design.models)])
    low, high = overall.conf_int().T
    goal = flat @ weights
    held = (low <= goal) & (goal <= high)
    first = int(np.argmax(overall.estimate))
    homes = np.nanargmax(values, axis=0), np.arange(flat.shape[1])
    figures = (
        inside[known_ones].mean(), np.mean((values - flat)[known_ones] ** 2), found_tau(analysis), held.mean(),
        held[first], ELO * (overall.estimate - goal)[first], inside[homes].mean(), ELO * (values - flat)[homes].mean(),
        seconds,
    )  # fmt: skip
    return {"seed": seed, "default": dict(zip(FIGURES, map(float, figures), strict=True))}


def summarise(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a design: means over logs with errors, and what it does not show that it must."""
    row: dict[str, Any] = {"logs": len(found), "true tau": DESIGNS[name].tau}
    for key in FIGURES:
        values = np.array([each["default"][key] for each in found])
        row[key] = [float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))]
    row["tau / truth"] = [value / row["true tau"] for value in row["tau"]]
    missed = {
        "all": not COVERAGE[0] <= row["all"][0] <= COVERAGE[1],
        "tau": abs(row["tau / truth"][0] - 1) > TAU_WITHIN,
        "first": row["first"][0] < FIRST,
        "first of categories": row["home first"][0] < FIRST,
    }
    row["misses"] = [key for key, is_missed in missed.items() if is_missed]
    return row


HEAD = [
    "models x categories, votes", "logs", "all category scores", "RMSE", "tau / truth", "overall scores",
    "first overall covered", "its bias, Elo", "first of a category covered", "its bias, Elo", "s", "misses",
]  # fmt: skip


def cells(name: str, row: dict[str, Any]) -> list[str]:
    """Return a row of the table."""

    def both(key: str, digits: int = 3, sign: str = "") -> str:
        return f"{row[key][0]:{sign}.{digits}f} ± {row[key][1]:.{digits}f}"

    return [
        name, str(row["logs"]), both("all"), f"{row['mse'][0] ** 0.5:.3f}", both("tau / truth", 2), both("overall"),
        both("first", 2), both("bias", 0, "+"), both("home first"), both("home bias", 0, "+"),
        f"{row['seconds'][0]:.1f}", ", ".join(row["misses"]),
    ]  # fmt: skip
