"""Which model to use in each category, and what that gains over one model for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrbtl.boards.standing_draws import JointScores, chance_first
from lrbtl.data.labels import shown_context
from lrbtl.errors import check_choice
from lrbtl.inference.analysis import Analysis
from lrbtl.tables import Printed, plain_numbers
from lrbtl.typing import Floats, Longs, Seed

ROWS_SHOWN = 40
SUMMED = ("regret", "single_regret", "gain", "cost")  # columns that have a mean over the mix


@dataclass(frozen=True, eq=False, repr=False)
class Routing(Printed):
    """The model with the best expected score in each category; arrays (C,).

    Attributes
    ----------
    categories : tuple of str
    weight : array
        Of the category in the mix.
    pick : tuple
        The model to use.
    p_first : array
        Probability that it is the best there.
    cost : array
        Of the pick.
    regret : array
        Expected points by which the best model of the category is better than the pick.
    single_regret : array
        The same for the best single model, which is used in all categories.
    gain : array
        Expected points by which the pick is better than the best single model.
    single : label
        The model with the best expected score over the mix.
    single_cost : float

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.demo_battles()
    >>> found = lrbtl.choose(battles, {model: 1.0 for model in battles.models}).routing
    >>> found.categories[0], found.single, bool((found.gain >= 0).all())
    ('chat', 'amber-large', True)
    """

    categories: tuple[str, ...]
    weight: Floats
    pick: tuple[Any, ...]
    p_first: Floats
    cost: Floats
    regret: Floats
    single_regret: Floats
    gain: Floats
    single: Any
    single_cost: float

    def overall(self, name: str) -> float:
        """Return the mean over the mix of `regret`, `single_regret`, `gain` or `cost`."""
        check_choice(name, SUMMED, "name")
        return float(self.weight @ getattr(self, name))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists for JSON."""
        names = ("p_first", "cost", "regret", "single_regret", "gain")
        return {
            "category": list(self.categories),
            "weight": plain_numbers(self.weight),
            "pick": list(self.pick),
            **{name: plain_numbers(getattr(self, name)) for name in names},
        }

    def to_rows(self) -> dict[str, Any]:
        """Return the rows and the means over the mix for JSON."""
        columns = self.to_dict()
        means = {name: self.overall(name) for name in ("regret", "single_regret", "gain", "cost")}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return {"single": self.single, "single_cost": self.single_cost, "overall": means, "rows": rows}

    def heading(self) -> list[str]:
        """Return what routing gains."""
        return [
            f"Routing: the model to use in each category, against {self.single} in all",
            f"expected regret against the best of each category: {self.overall('regret'):.1f} points, "
            f"{self.overall('single_regret'):.1f} with {self.single} alone; routing gains {self.overall('gain'):.1f} "
            f"points at a mean cost of {self.overall('cost'):.4g} instead of {self.single_cost:.4g}",
        ]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = range(min(ROWS_SHOWN, len(self.categories)))
        cells = [
            [
                self.categories[u],
                f"{self.weight[u]:.0%}",
                str(self.pick[u]),
                f"{self.p_first[u]:.0%}",
                f"{self.cost[u]:.4g}",
                f"{self.regret[u]:.1f}",
                f"{self.single_regret[u]:.1f}",
                f"{self.gain[u]:.1f}",
            ]
            for u in rows
        ]
        if len(self.categories) > ROWS_SHOWN:
            cells.append([f"and {len(self.categories) - ROWS_SHOWN} more", *[""] * 7])
        return ["category", "weight", "use", "P(first)", "cost", "regret", "of single", "gain"], cells


def route(analysis: Analysis, weights: Floats, models: Longs, cost: Floats, rng: Seed) -> Routing:
    """Return the routing of some models, given by position, over the categories with weights (D,)."""
    data, used = analysis.battles, np.flatnonzero(weights)
    parts = [JointScores.of(analysis, unit, models, share=True) for unit in np.eye(data.n_contexts)[used]]
    known = np.all([part.known for part in parts], axis=0)
    score = np.stack([np.where(known, part.score, -np.inf) for part in parts])  # (C, n)
    single, pick = int((weights[used] @ np.where(known, score, 0.0) + np.where(known, 0.0, -np.inf)).argmax()), None
    pick = score.argmax(axis=1)
    best, first = zip(*(_best(part, known, int(at), rng) for part, at in zip(parts, pick, strict=True)), strict=True)
    rows = np.arange(used.size)
    chosen, one = score[rows, pick], score[:, single]
    names: Sequence[Any] = [data.models[k] for k in models]
    return Routing(
        categories=tuple(shown_context(data.context_label(int(u))) for u in used),
        weight=weights[used] / weights.sum(),
        pick=tuple(names[k] for k in pick),
        p_first=np.array(first),
        cost=cost[pick],
        regret=np.array(best) - chosen,
        single_regret=np.array(best) - one,
        gain=chosen - one,
        single=names[single],
        single_cost=float(cost[single]),
    )


def _best(part: JointScores, known: Any, pick: int, rng: Seed) -> tuple[float, float]:
    """Return the expected score of the best model of a category, and the probability that it is the pick."""
    at = np.flatnonzero(known)
    some = JointScores(
        part.analysis, part.weights, part.models[at], part.score[at], part.cov[np.ix_(at, at)],
        given=None if part.given is None else part.given[:, at],
    )  # fmt: skip
    draws = some.draws(rng)
    away = draws.max(axis=1).mean() - draws[:, int(np.searchsorted(at, pick))].mean()  # less noisy than the maximum
    return float(part.score[pick] + away), float(chance_first(draws)[int(np.searchsorted(at, pick))])
