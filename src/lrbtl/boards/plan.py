"""`plan`: where the next votes should go, by category and pair, for what one wants to know."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, Unpack, overload

import numpy as np
from scipy.special import ndtr

from lrbtl.boards.components import prepared_data
from lrbtl.boards.planned_errors import PlannedErrors, check_size
from lrbtl.boards.result_plan import RunPlan, plan_runs
from lrbtl.data.battles import Battles
from lrbtl.data.frames import Frame
from lrbtl.data.labels import shown_context
from lrbtl.data.observations import Results
from lrbtl.errors import PlanError, check_choice, is_within, listed, spelled
from lrbtl.inference.always_valid import Validity
from lrbtl.inference.analysis import Analysis, analyse
from lrbtl.inference.joint import normal_quantile
from lrbtl.inference.targets import Target, Weights, context_weights, resolve_targets, weights_note
from lrbtl.inference.verdicts import ELO
from lrbtl.methods.base import RunOptions, named_options
from lrbtl.methods.targets import resolved_score
from lrbtl.tables import Printed, shown, text_table
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Longs

Goal = str | tuple[str, Any] | Target | Sequence[Target]

ROWS_SHOWN = 15
MOST_PLANNED = 1e15  # votes that a plan can distinguish
WIDTHS = ("before", "after", "uniform", "traffic")
GOALS = "'gaps', ('top', 10), ('rank', model), or a target such as lrbtl.gap('x', 'y')"


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Printed):
    """Votes to collect next, and what they are expected to do.

    Attributes
    ----------
    goal : str
        In words.
    budget : float
        As given: votes, or what they may cost.
    cost : float
        Of the votes planned.
    contexts, a, b : tuples
        Category and models of each row of the plan; the context of battles without categories is None.
    votes : array of int
        How many votes each row gets, most first.
    targets : tuple of str
        What the goal is about.
    importance : array
        Weight of each target in the goal, with sum 1.
    before, after : arrays
        Expected half widths of the targets' intervals now and after these votes: Elo points, of win probabilities their
        own units.
    uniform, traffic : arrays
        The same after as many votes spread evenly over what is allowed, or spent like those so far.
    uniform_budget, traffic_budget : float
        What it takes to come as far as the plan if votes are spread evenly, or spent like those so far; infinity where
        they never do.
    weights : array (D,)
        Of the categories on the board of the goal. Give them to `leaderboard` once the votes are in: the traffic will
        then be another.
    level : float

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((6, 2), 1, scale=1, rng=0)
    >>> plan = lrbtl.plan(lrbtl.simulate_battles(truth, 2000, rng=1), 500, goal=("top", 2), rank=1)
    >>> int(plan.votes.sum()), bool(plan.mean("after") < plan.mean("uniform"))
    (500, True)
    """

    goal: str
    budget: float
    cost: float
    contexts: tuple[Any, ...]
    a: tuple[Any, ...]
    b: tuple[Any, ...]
    votes: Longs
    targets: tuple[str, ...]
    importance: Floats
    before: Floats
    after: Floats
    uniform: Floats
    traffic: Floats
    uniform_budget: float
    traffic_budget: float
    weights: Floats
    level: float

    def mean(self, which: str) -> float:
        """Return the mean half width, by importance: which is "before", "after", "uniform" or "traffic"."""
        check_choice(which, WIDTHS, "which", PlanError)
        return float(self.importance @ getattr(self, which))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the votes by category and pair as plain lists for JSON."""
        shown = [None if context is None else shown_context(context) for context in self.contexts]
        return {"context": shown, "a": list(self.a), "b": list(self.b), "votes": self.votes.tolist()}

    def widths(self) -> dict[str, list[Any]]:
        """Return expected half widths by target as plain lists."""
        columns = {name: getattr(self, name).tolist() for name in ("importance", *WIDTHS)}
        return {"target": list(self.targets), **columns}

    def heading(self) -> list[str]:
        """Return what is planned, what is expected of it, and what it saves."""
        spent = f"{int(self.votes.sum()):,} votes" + (f" for {self.cost:,.6g}" if self.cost != self.votes.sum() else "")
        digits = ".3f" if self.mean("before") < 0.5 else ".1f"
        now, then, even, habit = (f"{self.mean(name):{digits}}" for name in WIDTHS)
        worth = [self._worth(budget) for budget in (self.uniform_budget, self.traffic_budget)]
        return [
            f"Plan of {spent}: {self.goal}",
            f"mean half width of {self.level:.0%} intervals: {now} now, {then} expected; "
            f"{even} if spread evenly, {habit} if spent like those so far",
            f"worth {worth[0]} spread evenly, or {worth[1]} like those so far",
        ]

    def _worth(self, budget: float) -> str:
        unit = "votes" if self.cost == self.votes.sum() else "in cost"
        return f"about {float(f'{budget:.2g}'):,.0f} {unit}" if math.isfinite(budget) else "any number of votes"

    def by_context(self) -> dict[Any, int]:
        """Return the votes of each category."""
        out: dict[Any, int] = {}
        for context, votes in zip(self.contexts, self.votes.tolist(), strict=True):
            out[context] = out.get(context, 0) + votes
        return out

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            ["" if context is None else shown_context(context), str(a), str(b), f"{votes:,}"]
            for context, a, b, votes in zip(self.contexts, self.a, self.b, self.votes.tolist(), strict=True)
        ]
        if len(rows) > ROWS_SHOWN:
            rest = len(rows) - ROWS_SHOWN + 1
            left = int(self.votes[ROWS_SHOWN - 1 :].sum())
            rows = [*rows[: ROWS_SHOWN - 1], [f"and {rest:,} more", "", "", f"{left:,}"]]
        return ["context", "a", "b", "votes"], rows

    def __repr__(self) -> str:
        lines = self.heading()
        if len(totals := self.by_context()) > 1:
            parts = [f"{shown_context(context)} {votes:,}" for context, votes in totals.items()]
            lines.append(f"by category: {', '.join(parts)}")
        return "\n".join([*map(shown, lines), text_table(*self._table())])


class PlanOptions(RunOptions, total=False):
    """The options of `plan`, for the types of what it returns."""

    goal: Goal
    context: Any
    weights: Weights
    cost: Mapping[Any, float] | None
    forbid: Iterable[tuple[Any, Any]]
    level: float


@overload
def plan(battles: Results, n: float, **options: Unpack[PlanOptions]) -> RunPlan: ...
@overload
def plan(battles: Battles | Frame, n: float, **options: Unpack[PlanOptions]) -> Plan: ...
@overload
def plan(battles: Analysis, n: float, **options: Unpack[PlanOptions]) -> Plan | RunPlan: ...
@named_options
@one_blas_thread
def plan(
    battles: Battles | Results | Analysis | Frame,
    n: float,
    *,
    goal: Goal = "gaps",
    context: Any = None,
    weights: Weights = "traffic",
    cost: Mapping[Any, float] | None = None,
    forbid: Iterable[tuple[Any, Any]] = (),
    level: float = 0.95,
    **options: Unpack[RunOptions],
) -> Plan | RunPlan:
    """Return where the next n votes should go, by category and pair, for what one wants to know.

    Of results, it is which benchmarks to run next for which models, so that the intervals of their indices shrink most.

    Votes go where they make the intervals of the goal shortest, on average, as far as the votes so far can show. A
    model without any votes can be planned for too, by the hierarchical method.

    Parameters
    ----------
    battles : Battles, Results or data frame
        See `leaderboard`.
    n : int
        Number of votes, or what they may cost if there are costs.
    goal : str, tuple, Target or list of Target
        "gaps": the gaps of all pairs on a board. ("top", k): the gaps between the k best and all below them, more so
        the less they are decided. ("rank", model): the gaps between a model, such as a newcomer, and all others,
        likewise. A target or several: their widths.
    context : label, optional
        The board that the goal is about; by default the overall one.
    weights : see `leaderboard`
        Of the categories on the overall board, by default by votes. A target has weights of its own.
    cost : mapping from context to number, optional
        What a vote costs in a category; 1 where it is not said.
    forbid : pairs of models, optional
        Pairs that may not meet.
    level : float
        Of the intervals that are reported.
    **options
        See `analyse`.

    Returns
    -------
    Plan, or RunPlan for results

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((6, 2), 1, scale=1, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 2000, rng=1)
    >>> plan = lrbtl.plan(battles, 300, goal=lrbtl.gap(0, 1, context=0), rank=1)
    >>> plan.contexts[0], plan.a[0], plan.b[0]
    (0, 'model_0', 'model_1')
    """
    normal_quantile(level)
    data, options, made = prepared_data(battles, options)
    budget = _read_budget(n)
    if isinstance(data, Results):
        view: dict[str, Any] = {"goal": goal, "context": context, "weights": weights, "cost": cost, "level": level}
        return plan_runs(analyse(data, **options) if made is None else made, budget, **view)
    battles = data
    price, allowed = _read_costs(battles, cost), _read_allowed(battles, forbid)
    share = context_weights(battles, weights, context)
    check_size(battles)
    analysis = analyse(battles, **options) if made is None else made
    reach = Validity.of(analysis.provenance).two_sided(level)
    planned, importance, names, words = _read_goal(goal, analysis, share)
    if not _is_targets(goal):
        said = weights_note(battles, weights, context)
        words += "" if context is None else f", {shown_context(battles.board_label(context))}"
        words += f" ({said})" if said else ""
    votes = rounded(planned.best(budget, importance, price, allowed), price, budget)
    even = planned.uniform(price, allowed)
    habit = planned.traffic / float(np.sum(planned.traffic * price[:, None]))
    slope = _natural(planned)
    reached = planned.errors(votes.astype(np.float64))
    worth = [planned.budget_for(law, importance, float(importance @ reached), budget) for law in (even, habit)]
    order = np.lexsort((np.arange(votes.size), -votes.ravel()))[: np.count_nonzero(votes)]
    at, pair = np.unravel_index(order, votes.shape)
    return Plan(
        goal=words,
        budget=budget,
        cost=float(np.sum(votes * price[:, None])),
        contexts=tuple(battles.context_label(int(u)) if battles.levels else None for u in at),
        a=tuple(battles.models[k] for k in planned.pairs[0][pair]),
        b=tuple(battles.models[k] for k in planned.pairs[1][pair]),
        votes=votes[at, pair],
        targets=tuple(names),
        importance=importance,
        before=reach * slope * planned.before,
        after=reach * slope * reached,
        uniform=reach * slope * planned.errors(budget * even),
        traffic=reach * slope * planned.errors(budget * habit),
        uniform_budget=worth[0],
        traffic_budget=worth[1],
        weights=share,
        level=level,
    )


def _read_budget(n: Any) -> float:
    if not is_within(n, 1.0 - 1e-12, MOST_PLANNED):
        raise PlanError(f"n={spelled(n)} is not valid: give the number of votes, from 1 to {MOST_PLANNED:g}.")
    return float(n)


def _read_costs(battles: Battles, cost: Mapping[Any, float] | None) -> Floats:
    price = np.ones(battles.n_contexts)
    if cost is not None and not isinstance(cost, Mapping):
        raise PlanError(f"cost={spelled(cost)}: give what a vote costs by category, such as {{'math': 2.0}}.")
    for label, value in (cost or {}).items():
        if not is_within(value, 1e-12, 1e12):
            raise PlanError(f"the cost of a vote in {label!r} is {value!r}: give a number above 0.")
        price[battles.context_indices(label)] = float(value)
    return price


def _read_allowed(battles: Battles, forbid: Iterable[tuple[Any, Any]]) -> Bools:
    d1 = battles.shape[0]
    met = np.ones((d1, d1), dtype=np.bool_)
    for pair in listed(forbid, "forbid", "give pairs of models, such as [('x', 'y')]", PlanError):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise PlanError(f"forbid holds {pair!r}: give pairs of models, such as [('x', 'y')].")
        i, j = (battles.model_index(model) for model in pair)
        met[i, j] = met[j, i] = False
    allowed = met[np.triu_indices(d1, 1)]
    if not allowed.any():
        raise PlanError("no pair may meet: leave some pairs out of forbid.")
    return np.tile(allowed, (battles.n_contexts, 1))


def _is_targets(goal: Goal) -> TypeGuard[Target | Sequence[Target]]:
    several = isinstance(goal, list | tuple) and all(isinstance(each, Target) for each in goal)
    return isinstance(goal, Target) or several


def _read_goal(goal: Goal, analysis: Analysis, weights: Floats) -> tuple[PlannedErrors, Floats, list[str], str]:
    """Return planned errors of the targets of a goal, their importance, names, and the goal in words."""
    battles = analysis.battles
    if _is_targets(goal):
        targets = resolve_targets(battles, [goal] if isinstance(goal, Target) else list(goal))
        names = [target.label for target in targets]
        words = names[0] if len(names) == 1 else f"{len(names)} targets"
        return PlannedErrors.of(analysis, targets), np.full(len(names), 1 / len(names)), names, words
    d1 = len(battles.models)
    score = analysis.estimate_boards(weights[None])[0].estimate
    order = np.argsort(np.where(np.isnan(score), np.inf, -score), kind="stable")
    pairs, words = _goal_pairs(goal, battles, order)
    contrasts = np.zeros((len(pairs), d1))
    for row, (i, j) in zip(contrasts, pairs, strict=True):
        row[i], row[j] = 1.0, -1.0
    planned = PlannedErrors.of(analysis, [resolved_score(a, weights) for a in range(d1)], contrasts)
    importance = np.ones(len(pairs))
    if goal not in ("gaps", ("gaps", None)):  # the probability that the order is the other one
        importance = np.maximum(ndtr(-np.abs(contrasts @ score) / planned.before), 1e-6)
    names = [f"{battles.models[i]} - {battles.models[j]}" for i, j in pairs]
    return planned, importance / importance.sum(), names, words


def _goal_pairs(goal: Any, battles: Battles | Results, order: Longs) -> tuple[list[tuple[int, int]], str]:
    """Return the pairs whose gaps a goal asks for, given the order of all models, and the goal in words."""
    kind, value = goal if isinstance(goal, tuple) and len(goal) == 2 else (goal, None)
    if kind == "gaps" and value is None:
        return _and_below(order, len(order)), "the gaps of all pairs"
    if kind == "top" and not isinstance(value, bool) and isinstance(value, int | np.integer) and 0 < value < len(order):
        return _and_below(order, int(value)), f"who the top {value} are" if value > 1 else "who is first"
    if kind == "rank":
        model = battles.model_index(value)
        return [(model, int(j)) for j in order if j != model], f"the rank of {value}"
    raise PlanError(f"goal={goal!r} is not known; give {GOALS}.")


def _and_below(order: Longs, n: int) -> list[tuple[int, int]]:
    """Return pairs of each of the first n models with all below it."""
    return [(int(i), int(j)) for k, i in enumerate(order[:n]) for j in order[k + 1 :]]


def _natural(planned: PlannedErrors) -> Floats:
    """Return Elo points per unit of each target, of a probability its slope."""
    m = planned.contrasts.shape[1]
    base = planned.base[slice(len(planned.base) - m, None)]
    if (base.links == "identity").all():
        return np.full(len(planned.contrasts), ELO * planned.analysis.log_odds_unit)
    p = base.estimate
    return np.where(base.links == "logit", p * (1 - p), ELO * planned.analysis.log_odds_unit)


def rounded(votes: Floats, cost: Floats, budget: float) -> Longs:
    """Return votes (D, P) as whole numbers, within the budget.

    Votes are counted along the rows, and a cell gets those whole numbers that fall into it: so no category is off by
    more than a vote or two.

    >>> rounded(np.array([[0.5, 0.7, 1.8]]), np.ones(1), 3.0)
    array([[0, 1, 2]])
    """
    ends = np.floor(np.cumsum(votes) + 0.5 - 1e-9).astype(np.int64)
    out = np.diff(ends, prepend=0).reshape(votes.shape)
    dearest = np.argsort(-cost, kind="stable")
    while np.sum(out * cost[:, None]) > budget * (1 + 1e-9):
        u = next(u for u in dearest if out[u].any())
        out[u, np.argmax(out[u])] -= 1
    return out
