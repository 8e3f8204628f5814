"""`choose`: which model to use, given scores with their uncertainty and what models cost.

A model is on the frontier if no model that costs no more is better. Joint intervals of all gaps decide
[`joint_above`]. A model is *dominated* where one that costs no more is shown to be better. It is *on the frontier*
where it is shown to be better than every model that costs no more. All these statements hold at once with probability
`level`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from lrbtl.boards.board import Leaderboard, Leaderboards
from lrbtl.boards.components import prepared_data
from lrbtl.boards.leaderboard import leaderboard
from lrbtl.boards.ranking import JointGaps
from lrbtl.boards.result_boards import index_weights
from lrbtl.boards.routing import Routing, route
from lrbtl.boards.standing_draws import JointScores, chance_first, chance_top, chance_undominated
from lrbtl.data.frames import Frame
from lrbtl.data.labels import shown_context, some_of
from lrbtl.data.meta import read_meta
from lrbtl.data.observations import Data, Results
from lrbtl.errors import (
    CostError,
    DocumentError,
    MarginError,
    MethodError,
    UnknownModelError,
    check_whole,
    is_within,
    spelled,
)
from lrbtl.inference.always_valid import ONE_LOOK, Validity
from lrbtl.inference.analysis import Analysis, analyse
from lrbtl.inference.targets import Weights
from lrbtl.methods.base import RunOptions, named_options
from lrbtl.tables import Printed, format_intervals, format_numbers, plain_numbers, shown
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Longs

FRONTIER, DOMINATED, CANNOT_TELL = "on the frontier", "dominated", "cannot tell"
COST_NAMES = ("cost", "price", "usd", "dollars")  # columns that may hold the cost, in this order
UNITS = {"elo": "Elo points", "score": "the units of the results"}
MOST_ROUTES = 200  # categories of a routing table


@dataclass(frozen=True, eq=False, repr=False)
class Choice(Printed):
    """Models with their scores, costs and places at the frontier of both, best first; arrays (n,).

    Attributes
    ----------
    models : tuple
        Ranked models whose cost is known.
    score, lower, upper : arrays
        Of the board, in Elo points or in the units of results.
    cost : array
    verdict : tuple of str
        "on the frontier", "dominated" or "cannot tell", for all models at once at the level.
    by : tuple
        The model that dominates, the best of them where there are several; None for the others.
    p_first, p_top, p_frontier : arrays
        Probabilities that a model is the best of these, among the `top` best, and on the frontier.
    instead : tuple
        The cheapest model that is as good within the margin, for all models at once at the level; None for none.
    saves : array
        Share of the cost that it saves; NaN for none.
    top : int
    margin : float or None
        In the units of the scores.
    level : float
    context : label or None
    unit : str
    routing : Routing or None
        Which model to use in each category; None where there is one category only.
    notes : tuple of str
    valid : str
        Under how many looks intervals and verdicts hold.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.demo_battles()
    >>> cost = {"amber-large": 10.0, "heron-large": 2.0, "iris-large": 5.0}
    >>> found = lrbtl.choose(battles, cost, margin=40)
    >>> dict(zip(found.models, found.verdict))
    {'amber-large': 'on the frontier', 'heron-large': 'on the frontier', 'iris-large': 'dominated'}
    >>> found.by[2], found.instead[2]
    ('heron-large', 'heron-large')
    """

    models: tuple[Any, ...]
    score: Floats
    lower: Floats
    upper: Floats
    cost: Floats
    verdict: tuple[str, ...]
    by: tuple[Any, ...]
    p_first: Floats
    p_top: Floats
    p_frontier: Floats
    instead: tuple[Any, ...]
    saves: Floats
    top: int
    margin: float | None
    level: float
    context: Any
    unit: str
    routing: Routing | None
    notes: tuple[str, ...]
    valid: str = ONE_LOOK.words()

    def __len__(self) -> int:
        return len(self.models)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists for JSON, None for what is missing."""
        numbers = ("score", "lower", "upper", "cost")
        chances = ("p_first", "p_top", "p_frontier")
        return {
            "model": list(self.models),
            **{name: plain_numbers(getattr(self, name)) for name in numbers},
            "frontier": list(self.verdict),
            "by": list(self.by),
            **{name: plain_numbers(getattr(self, name)) for name in chances},
            "instead": list(self.instead),
            "saves": plain_numbers(self.saves),
        }

    def to_json(self, title: str = "Choice") -> str:
        """Return the table, how it was made, and the routing table as JSON."""
        columns = self.to_dict()
        content: dict[str, Any] = {
            "title": title,
            "context": None if self.context is None else shown_context(self.context),
            "level": self.level,
            "top": self.top,
            "margin": self.margin,
            "unit": self.unit,
            "valid": self.valid,
            "notes": self.heading(),
            "rows": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
            "routing": None if self.routing is None else self.routing.to_rows(),
        }
        return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False, default=str) + "\n"

    def tables(self) -> list[tuple[str, Any]]:
        """Return the tabs of a report: `write_report(path, boards, tables=choice.tables())`."""
        return [("Choose", self), *([("Routing", self.routing)] if self.routing is not None else [])]

    def heading(self) -> list[str]:
        """Return what the table shows, and the sentence on the best model."""
        counts = {word: self.verdict.count(word) for word in (FRONTIER, DOMINATED, CANNOT_TELL)}
        where = "" if self.context is None else f" in {shown_context(self.context)}"
        lines = [
            f"Choice between {len(self)} models{where} by score and cost: {counts[FRONTIER]} on the frontier, "
            f"{counts[DOMINATED]} dominated, {counts[CANNOT_TELL]} cannot tell",
            f"scores in {self.unit} with {100 * self.level:.4g}% intervals; verdicts on the frontier hold for all "
            f"models at once at {100 * self.level:.4g}%, {self.valid}",
        ]
        if self.instead[0] is not None:
            lines.append(self.sentence(0))
        return [*lines, *self.notes]

    def sentence(self, place: int) -> str:
        """Return what to use instead of the model at a place, in words."""
        check_whole(place, "place", 0)
        if place >= len(self):
            raise UnknownModelError(f"place={place}: there are {len(self)} models, counted from 0.", argument="place")
        if self.instead[place] is None or self.margin is None:
            return f"no cheaper model is shown to be as good as {shown(self.models[place])}"
        return (
            f"{shown(self.instead[place])} is as good as {shown(self.models[place])} within {self.margin:.4g} points "
            f"at {self.saves[place]:.0%} less"
        )

    def _table(self) -> tuple[list[str], list[list[str]]]:
        decimals = 0 if self.unit == UNITS["elo"] else 1
        columns = {
            "model": [str(model) for model in self.models],
            "score": format_numbers(self.score, decimals),
            "interval": format_intervals(self.lower, self.upper, decimals),
            "cost": [f"{x:.4g}" for x in self.cost],
            "P(first)": _percents(self.p_first),
            f"P(top {self.top})": _percents(self.p_top),
            "P(frontier)": _percents(self.p_frontier),
            "frontier": [
                word if other is None else f"{word} by {other}"
                for word, other in zip(self.verdict, self.by, strict=True)
            ],
        }
        if self.margin is not None:
            pairs = zip(self.instead, self.saves, strict=True)
            columns["instead"] = ["" if x is None else f"{x} at {part:.0%} less" for x, part in pairs]
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]

    def __repr__(self) -> str:
        return super().__repr__() + ("" if self.routing is None else f"\n\n{self.routing!r}")

    def _repr_html_(self) -> str:
        return super()._repr_html_() + ("" if self.routing is None else self.routing._repr_html_())


def _percents(chances: Floats) -> list[str]:
    return ["<1%" if x < 0.005 else ">99%" if x > 0.995 else f"{x:.0%}" for x in chances]


@named_options
@one_blas_thread
def choose(
    battles: Data | Frame | Analysis | Leaderboard | Leaderboards,
    cost: Any,
    *,
    column: str | None = None,
    context: Any = None,
    weights: Weights = None,
    margin: float | None = None,
    top: int = 3,
    min_battles: int = 30,
    level: float = 0.95,
    **options: Unpack[RunOptions],
) -> Choice:
    """Return which models are worth their cost: on the frontier, dominated, or cannot tell, jointly at the level.

    Parameters
    ----------
    battles : Battles, Results, data frame, Analysis, or boards made from them
        One board keeps its own weights.
    cost : mapping from model to number, table or path
        What a model costs, in any unit. A table (frame, mapping of columns, CSV or JSON file) names the models in a
        column `model`. Models without a cost are left out.
    column : str, optional
        The column of the table that holds the cost; by default one called cost or price, or the only one of numbers.
    context : label, optional
        A category; by default the weighted mean over all.
    weights : "traffic", "equal", mapping or array, optional
        Your own mix of categories; see `leaderboard`.
    margin : float, optional
        A loss that does not matter, in Elo points or the units of results: then the cheapest model that is as good
        within it is named for every model.
    top : int
        Of the probability to be among the `top` best.
    min_battles, level, **options
        See `leaderboard`.

    Returns
    -------
    Choice
        With a routing table over categories where there are several.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.demo_battles()
    >>> cost = {"amber-large": 10.0, "heron-large": 2.0, "iris-large": 5.0}
    >>> found = lrbtl.choose(battles, cost, weights={"chat": 2, "long context": 1}, margin=40)
    >>> found.sentence(found.models.index("iris-large"))
    'heron-large is as good as iris-large within 40 points at 60% less'
    """
    check_whole(top, "top")
    if margin is not None and not is_within(margin, 0.0, np.inf):
        raise MarginError(f"margin={spelled(margin)} is not valid: give a size in the units of the scores, such as 10.")
    if isinstance(context, str) and context == "all":
        raise MethodError("context='all' is not one board: leave it out, the routing table has all categories.")
    board, analysis, row, ranked = _board_of(battles, context, weights, min_battles, level, options)
    costs, notes = read_costs(cost, board.models, column)
    rows = np.flatnonzero((board.rank > 0) & np.isfinite(costs))
    if rows.size < 2:
        raise CostError("fewer than two ranked models have a cost: there is nothing to choose between.")
    place = {model: k for k, model in enumerate(analysis.battles.models)}
    models = np.array([place[board.models[k]] for k in rows])
    rng, costs = options.get("rng", 0), costs[rows]
    joint = JointScores.of(analysis, row, models, ranked)
    gaps, draws = joint.gaps(level, rng), joint.draws(rng)
    gap, reach = joint.score[:, None] - joint.score, gaps.reach(gaps.errors())
    verdict, by = frontier(costs, gap, reach)
    instead = np.full(rows.size, -1)
    if margin is not None:
        instead = substitutes(joint, gaps, costs, float(margin))
    names = [board.models[k] for k in rows]
    used = np.flatnonzero(row)
    routing = None
    if 1 < used.size <= MOST_ROUTES:
        routing = route(analysis, row, models, costs, rng)
    elif used.size > MOST_ROUTES:
        notes = (*notes, f"{used.size} categories are too many for a routing table")
    with np.errstate(invalid="ignore", divide="ignore"):
        saves = np.where(instead >= 0, 1.0 - costs[instead] / costs, np.nan)
    return Choice(
        models=tuple(names),
        score=board.score[rows],
        lower=board.lower[rows],
        upper=board.upper[rows],
        cost=costs,
        verdict=verdict,
        by=tuple(None if k < 0 else names[k] for k in by),
        p_first=chance_first(draws),
        p_top=chance_top(draws, top),
        p_frontier=chance_undominated(draws, costs),
        instead=tuple(None if k < 0 else names[k] for k in instead),
        saves=saves,
        top=top,
        margin=None if margin is None else float(margin),
        level=level,
        context=board.context,
        unit=UNITS[board.scale],
        routing=routing,
        notes=(*notes, *board.info.notes),
        valid=Validity.of(analysis.provenance).words(),
    )


def _board_of(
    source: Any, context: Any, weights: Weights, min_battles: int, level: float, options: RunOptions
) -> tuple[Leaderboard, Analysis, Floats, Bools | None]:
    """Return a board, the analysis of its models, the weights (D,) of its contexts there, and who is ranked."""
    if isinstance(source, Leaderboards | Leaderboard):
        found = source.analysis if isinstance(source, Leaderboards) else source.basis and source.basis.analysis
        if found is None:
            raise DocumentError(
                "these boards come without their analysis: give the battles, the results or lrbtl.analyse(...) instead."
            )
        if isinstance(source, Leaderboard) and source.basis is not None and weights is None and context is None:
            weights = source.basis.weights
        source = found
    data, options, made = prepared_data(source, options)
    given: Weights = "traffic" if weights is None else weights
    asked: Any = made
    if isinstance(data, Results):
        asked = analyse(data, **options) if made is None else made
        board: Leaderboard = leaderboard(asked, context=context, weights=given, level=level)
        return board, asked, index_weights(data, weights, context)[0], None
    more: dict[str, Any] = {"min_battles": min_battles, **({} if made is not None else options)}
    board = leaderboard(data if made is None else asked, context=context, weights=given, level=level, **more)
    assert board.basis is not None
    return board, board.basis.analysis, board.basis.weights, board.basis.ranked


def frontier(cost: Floats, gap: Floats, reach: Floats) -> tuple[tuple[str, ...], Longs]:
    """Return the verdict on each model, and which model dominates it, -1 for none.

    Parameters
    ----------
    cost : array (n,)
    gap, reach : arrays (n, n)
        Score of the first less that of the second, and half the width of its joint interval.

    >>> score, cost = np.array([3.0, 2.0, 0.0]), np.array([5.0, 1.0, 2.0])
    >>> frontier(cost, score[:, None] - score, np.full((3, 3), 0.5))
    (('on the frontier', 'on the frontier', 'dominated'), array([-1, -1,  1]))
    """
    rival = (cost[None] <= cost[:, None]) & ~np.eye(cost.size, dtype=np.bool_)  # [a, b]: b costs no more than a
    better = rival & (gap.T > reach.T)  # [a, b]: b is better than a
    best = np.where(better, gap.T, -np.inf)
    by = np.where(better.any(axis=1), best.argmax(axis=1), -1)
    clear = (~rival | (gap > reach)).all(axis=1)
    words = np.where(by >= 0, DOMINATED, np.where(clear, FRONTIER, CANNOT_TELL))
    return tuple(words.tolist()), by


def substitutes(joint: JointScores, gaps: JointGaps, cost: Floats, margin: float) -> Longs:
    """Return the cheapest model that is as good as each within the margin, -1 where none is shown to be.

    b is as good as a where the joint interval of score_b - score_a lies above -margin. A gap that a prior shrinks looks
    too small: as in `judge`, the test takes gap / f and its error over sqrt(f), f the shrinkage factor of gaps.
    """
    n, order = cost.size, np.lexsort((-joint.score, cost))
    gap = joint.score[:, None] - joint.score  # [b, a]
    reach = gaps.reach(gaps.errors())
    hopeful = (cost[:, None] < cost) & (gap - reach > -margin)
    found, pending = np.full(n, -1), np.flatnonzero(hopeful.any(axis=0))
    while pending.size:
        b = order[hopeful[np.ix_(order, pending)].argmax(axis=0)]
        follow = joint.follow(b, pending)
        good = gap[b, pending] / follow - reach[b, pending] / np.sqrt(follow) > -margin
        found[pending[good]] = b[good]
        hopeful[b, pending] = False
        pending = pending[~good]
        pending = pending[hopeful[:, pending].any(axis=0)]
    return found


def read_costs(cost: Any, models: tuple[Any, ...], column: str | None = None) -> tuple[Floats, tuple[str, ...]]:
    """Return the cost of each model, NaN where it is not known, and a note on those.

    >>> read_costs({"x": 2.5, "y": 10}, ("y", "x", "z"))
    (array([10. ,  2.5,  nan]), ('no cost is known of 1 model, which is left out: z',))
    """
    if cost is None or (isinstance(cost, Mapping) and not cost):
        raise CostError(f"cost is {spelled(cost)}: give what models cost, such as {{'small': 0.5, 'large': 10}}.")
    plain = isinstance(cost, Mapping) and all(np.ndim(x) == 0 for x in cost.values())
    if plain and not any(isinstance(x, Mapping) for x in cost.values()):
        values: list[Any] = [cost.get(model, cost.get(str(model))) for model in models]
        what = "cost"
    else:
        table = read_meta(cost, models, "cost", CostError)
        what = _cost_column(table, column)
        values = table[what]
    out = np.full(len(models), np.nan)
    for k, value in enumerate(values):
        if value is None or value != value:
            continue
        if not is_within(value, -1e-300, np.inf):
            raise CostError(f"{what} of {models[k]!r} is {spelled(value)}: give a number that is not negative.")
        out[k] = float(value)
    lost = [str(model) for model, x in zip(models, out, strict=True) if np.isnan(x)]
    if not lost:
        return out, ()
    are = "1 model, which is" if len(lost) == 1 else f"{len(lost)} models, which are"
    return out, (f"no cost is known of {are} left out: {some_of(lost, 5)}",)


def _cost_column(table: Mapping[str, list[Any]], column: str | None) -> str:
    """Return the column of a table that holds costs."""
    numbers = [name for name, values in table.items() if all(x is None or isinstance(x, int | float) for x in values)]
    if column is not None:
        if column not in table:
            raise CostError(f"the table of costs has no column {column!r}; it has {some_of(list(table), 8)}.")
        return column
    named = [name for word in COST_NAMES for name in numbers if name.strip().lower() == word]
    if named or len(numbers) == 1:
        return (named or numbers)[0]
    raise CostError(
        f"the table of costs has {len(numbers)} columns of numbers ({some_of(numbers, 8)}): name one with column=."
    )
