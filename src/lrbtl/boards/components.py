"""Battles split into groups of models that votes link, each with one analysis that serves all of its boards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from lrbtl.boards.board import count_of
from lrbtl.data.battle_summary import linked_models
from lrbtl.data.battles import Battles
from lrbtl.data.cells import BOTH_BAD, points, recode_cells
from lrbtl.data.frames import as_battles, as_data
from lrbtl.data.observations import Data
from lrbtl.errors import (
    InputTypeError,
    IslandWarning,
    LrbtlError,
    MethodError,
    NoDecisionError,
    TooLargeError,
    WeightError,
    warn_user,
)
from lrbtl.inference.analysis import LOOKS, Analysis, analyse, looked_at
from lrbtl.inference.targets import Weights, context_weights
from lrbtl.methods.base import RunOptions
from lrbtl.model.links import TIE_LINKS
from lrbtl.typing import Floats, Longs

MOST_RANKED = 12_000  # models of one board
WEIGHTING = {
    "traffic": "categories weighted by votes",
    "equal": "all categories weigh the same",
    "given": "categories weighted as given",
}


@dataclass(frozen=True, eq=False)
class Component:
    """Models that a chain of votes links, and the analysis of their battles."""

    battles: Battles  # between these models, at the levels with votes
    analysis: Analysis
    members: Longs  # positions of its models among those of all battles
    kept: Longs  # (D,) positions of its contexts among those of all battles
    weights: Floats  # (D,) weights of its contexts on the overall board
    weighting: str  # these weights in words
    lost: tuple[str, ...] = ()  # what became of smaller groups that have no analysis

    def position(self, model: int) -> int | None:
        """Return the position here of a model, given by its position among all; None where it is not here."""
        at = np.flatnonzero(self.members == model)
        return int(at[0]) if at.size else None

    def boards(self) -> dict[Any, Floats]:
        """Return the labels of all boards, None for the overall one, and the weights (D,) of the contexts of each."""
        found = {label: self._weights_of(at) for label, at in self.battles.board_contexts().items()}
        return {None: self.weights, **{label: weights for label, weights in found.items() if weights is not None}}

    def weights_at(self, contexts: Longs | None) -> Floats | None:
        """Return the weights of the board of some contexts, given by their positions among those of all battles.

        None stands for the overall board, and is returned where these models have no votes in the contexts.
        """
        return self.weights if contexts is None else self._weights_of(np.flatnonzero(np.isin(self.kept, contexts)))

    def _weights_of(self, here: Longs) -> Floats | None:
        """Return the weights of the board of some of these contexts; None where they have no votes."""
        if not self.battles.context_counts[here].any():
            return None
        weights = np.zeros(self.kept.size)
        weights[here] = 1.0 if here.size == 1 else self.weights[here]
        if weights.sum() <= 0:
            raise WeightError("the contexts of this board have no weight; give them one, or leave weights out.")
        return np.asarray(weights / weights.sum())


def prepared(given: Any, options: RunOptions) -> tuple[Battles, RunOptions, Analysis | None]:
    """Return the battles that were given, the options of their analysis, and the analysis where one was given."""
    data, options, made = prepared_data(given, options, as_battles)
    if not isinstance(data, Battles):
        raise InputTypeError("this is an analysis of results, and the question is about votes: give Battles.")
    return data, options, made


def prepared_data(
    given: Any, options: RunOptions, read: Callable[[Any], Data] = as_data
) -> tuple[Data, RunOptions, Analysis | None]:
    """Return the battles or results that were given, the options of their analysis, and the analysis if given."""
    if not isinstance(given, Analysis):
        return read(given), options, None
    looks = {name: value for name, value in options.items() if name in LOOKS}
    if lost := [name for name in options if name not in looks]:
        names = ", ".join(lost)
        raise MethodError(f"this analysis is made already: give {names} to lrbtl.analyse(votes, ...).", argument=names)
    made = looked_at(given, **looks) if looks else given
    return made.battles, made.options, made


def analyse_components(
    battles: Battles,
    weights: Weights,
    *,
    wanted: Sequence[int] | None = None,
    made: Analysis | None = None,
    **options: Unpack[RunOptions],
) -> list[Component]:
    """Return the components of some battles, largest first, each analysed once.

    Parameters
    ----------
    battles : Battles
    weights : see `leaderboard`
    wanted : positions of models or None
        Only components with one of these models.
    made : Analysis, optional
        Of these battles, which is not made again where votes link all models.
    **options
        See `analyse`.
    """
    if not np.any(battles.cells.y != 0.5):
        raise NoDecisionError("every battle is a tie: the models are indistinguishable; check the outcome column.")
    given = weights if weights is None or isinstance(weights, str) else context_weights(battles, weights)
    groups = linked_models(battles)
    if wanted is None and len(groups) > 1:
        _warn_groups(battles, groups)
    if wanted is not None:
        groups = [group for group in groups if np.isin(wanted, group).any()]
    found: list[Component] = []
    lost: list[str] = []
    for group in groups:
        try:
            found.append(_component(battles, group, given, options, made))
        except LrbtlError as error:
            if not found:
                raise
            lost.append(no_board(group.size, error))
    return [replace(found[0], lost=tuple(lost)), *found[1:]]


def no_board(n_models: int, reason: LrbtlError) -> str:
    """Return the sentence on a group of models that has no board."""
    return f"{n_models} models that no votes link with these have no board: {reason}"


def _component(
    battles: Battles, members: Longs, weights: Weights | Floats, options: RunOptions, made: Analysis | None
) -> Component:
    if members.size > MOST_RANKED:
        raise TooLargeError(
            f"a board of {members.size:,} models takes a covariance of {members.size**2 * 8 / 1e9:,.0f} GB; the most "
            f"are {MOST_RANKED:,}: choose models with battles.top_models(n)."
        )
    part, kept = select_positions(battles, members)
    if isinstance(weights, np.ndarray):
        weights = weights[kept]
        if weights.sum() <= 0:
            raise WeightError("all contexts with a weight lack battles; give weights to other contexts.")
    overall = context_weights(part, weights)
    words = WEIGHTING["traffic" if weights is None else weights if isinstance(weights, str) else "given"]
    analysis = made if made is not None and part is made.battles else analyse(part, **options)
    return Component(part, analysis, members, kept, overall, words)


def select_positions(battles: Battles, members: Longs) -> tuple[Battles, Longs]:
    """Return the battles between some models, at the levels with such battles, and the contexts that are left."""
    cells, shape = battles.cells, battles.shape[1:]
    inside = np.isin(cells.a, members) & np.isin(cells.b, members)
    codes = np.unravel_index(cells.context[inside], shape) if shape else ()
    kept = [np.unique(code) for code in codes]
    contexts = np.ravel_multi_index(np.ix_(*kept), shape).ravel() if shape else np.zeros(1, dtype=np.int64)
    if members.size == len(battles.models) and contexts.size == battles.n_contexts:
        return battles, contexts
    maps = _positions(members, len(battles.models)), _positions(contexts, battles.n_contexts)
    part = replace(
        battles,
        cells=recode_cells(cells, *maps, n_models=members.size, n_contexts=contexts.size),
        models=tuple(battles.models[k] for k in members),
        levels=tuple(tuple(level[k] for k in at) for level, at in zip(battles.levels, kept, strict=True)),
    )
    return part, contexts


def battle_counts(battles: Battles, weights: Floats) -> tuple[Longs, Floats]:
    """Return the votes of each model in the contexts that have a weight, and the share of them won.

    >>> import lrbtl, numpy as np
    >>> battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[30, 10])
    >>> battle_counts(battles, np.ones(1))
    (array([40, 40]), array([0.75, 0.25]))
    """
    cells, d1, here = battles.cells, len(battles.models), _cells_of(battles, weights)
    a, b, count, y = cells.a[here], cells.b[here], cells.count[here], cells.y[here]
    votes = np.bincount(a, count, d1) + np.bincount(b, count, d1)
    first, second = points(y)
    won = np.bincount(a, count * first, d1) + np.bincount(b, count * second, d1)
    return votes.astype(np.int64), np.divide(won, votes, out=np.full(d1, np.nan), where=votes > 0)


def _cells_of(battles: Battles, weights: Floats) -> slice | Longs:
    """Return the cells of the contexts that have a weight."""
    cells, used = battles.cells, np.flatnonzero(weights)
    if used.size == 1:  # cells of one context lie together
        return slice(*cells.start[[used[0], used[0] + 1]].tolist())
    return slice(None) if used.size == weights.size else np.flatnonzero(weights[cells.context])


def _positions(kept: Longs, size: int) -> Longs:
    places = np.full(size, -1)
    places[kept] = np.arange(kept.size)
    return places


def _warn_groups(battles: Battles, groups: list[Longs]) -> None:
    sizes = ", ".join(str(group.size) for group in groups[:5])
    example = battles.models[groups[1][0]]
    warn_user(
        f"no battle links {len(groups)} groups of models (sizes {sizes}; {example!r} is in the second): their scores "
        "cannot be compared, so each has a board of its own in `islands`.",
        IslandWarning,
    )


def self_note(n: int) -> str:
    """Return what became of votes of a model against itself."""
    return f"{count_of(n, 'vote')} of a model against itself left out"


def tie_note(ties: int, votes: int, *, own: bool = False) -> str:
    """Return what ties mean, which may be an outcome of their own.

    >>> tie_note(1, 4), tie_note(20, 80, own=True)
    ('1 tie (25.0%) counts as half a win for both', '20 ties (25.0%) are an outcome of their own')
    """
    one = ties == 1
    meaning = "an outcome of their own" if own else "half a win for both"
    verb = ("is" if one else "are") if own else ("counts as" if one else "count as")
    return f"{count_of(ties, 'tie')} ({ties / votes:.1%}) {verb} {meaning}"


def vote_notes(part: Component, weights: Floats) -> list[str]:
    """Return what votes carry, what became of ties and of votes that both were bad, and what other links mean."""
    cells, link, here = part.battles.cells, part.analysis.provenance.link, _cells_of(part.battles, weights)
    count, y = cells.count[here], cells.y[here]
    ties, bad = (int(count[y == value].sum()) for value in (0.5, BOTH_BAD))
    own = bad > 0 or link in TIE_LINKS
    notes = []
    if part.battles.vote_weights is not None:
        worth = f"{part.battles.n_effective:,.0f} of {part.battles.n_battles:,}"
        notes.append(f"votes are weighted; effective sample size {worth}")
    if names := part.battles.cluster_names:
        same = " or ".join(f"{name} ({part.battles.cluster_sizes(k).size:,})" for k, name in enumerate(names))
        notes.append(f"votes of the same {same} may be correlated: intervals allow for it")
    if part.battles.n_self and len(count) == len(cells.count):
        notes.append(self_note(part.battles.n_self))
    if ties:
        notes.append(tie_note(ties, int(count.sum()), own=own))
    if bad:
        say = f"{count_of(bad, 'vote')} ({bad / count.sum():.1%}) {'says' if bad == 1 else 'say'}"
        notes.append(f"{say} that both were bad, which sets the zero of scores")
    elif link is not None:
        notes.append(f"{link} link; scores are scaled to the log odds of a nearly even vote")
    return notes
