"""Battles split into groups that battles link, each with the analysis that serves all of its boards."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from lrbtl.boards.board_scores import Engine, LowRankEngine, SeparateEngine
from lrbtl.data.battles import Battles
from lrbtl.data.graph import component_members, weak_components
from lrbtl.errors import (
    ContextModeError,
    IslandWarning,
    LrbtlError,
    MethodError,
    NoDecisionError,
    SeparationError,
    SingularInformationError,
    UninformedError,
    UnknownContextError,
    WeakSignalWarning,
    WeightError,
    warn_user,
)
from lrbtl.fitting.core import candidate_ranks, fit_core, pooled_core
from lrbtl.fitting.options import Run, check_choice
from lrbtl.fitting.signal import warn_weak_signal
from lrbtl.model.links import LOGISTIC
from lrbtl.model.tie_links import as_link
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats, Longs, Progress

NO_SIGNAL = 1e-9  # largest singular value of scores that the penalty removed altogether
Weights = Literal["traffic"] | Mapping[Any, float] | ArrayLike | None


@dataclass(frozen=True)
class Island:
    """Battles of models that a chain of battles links, what estimates their scores, and the overall board's weights."""

    battles: Battles
    engine: Engine
    weights: Floats

    def weights_of(self, context: Any) -> Floats:
        """Return the weights of a context's board, or of the overall board for None.

        Contexts that share some levels have the weights of the overall board, scaled to sum to 1.
        """
        if context is None:
            return self.weights
        at = self.battles.context_indices(context)
        given = np.ones(1) if at.size == 1 else self.weights[at]
        if given.sum() <= 0:
            raise WeightError(f"the contexts of {context!r} have no weight; give them one, or leave weights out.")
        weights = np.zeros(self.battles.n_contexts)
        weights[at] = given / given.sum()
        return weights

    def prepare(self) -> None:
        """Compute what the boards of all contexts need, together where that is cheaper."""
        if isinstance(self.engine, LowRankEngine):
            self.engine.prepare(np.array([self.weights_of(context) for context in (None, *self.contexts())]))

    def contexts(self) -> Iterable[Any]:
        """Return the labels of all contexts; none for battles without context modes."""
        return (self.battles.context_label(u) for u in range(self.battles.n_contexts if self.battles.levels else 0))


@one_blas_thread
def analyse_islands(
    battles: Battles, weights: Weights, run: Run, *, wanted: Any = None, progress: Progress | None = None
) -> list[Island]:
    """Return the islands of some battles, largest first, each analysed once.

    Parameters
    ----------
    battles : Battles
    weights : see `leaderboard`
    run : Run
    wanted : models or None
        Only islands with one of these models, all of which must be in one island.
    progress : callable, optional
    """
    if not np.any(battles.cells.y != 0.5):
        raise NoDecisionError("every battle is a tie: nothing tells the models apart; check the outcome column.")
    overall = context_weights(battles, weights)
    islands = find_islands(battles)
    if wanted is not None:
        islands = [island for island in islands if np.isin(wanted, island).any()]
    elif len(islands) > 1:
        _warn_islands(battles, islands)
    found = []
    for members in islands:
        part = battles.select(models=[battles.models[k] for k in members])
        try:
            found.append(_analyse(part, overall, run, progress))
        except LrbtlError:
            if not found or not part.levels:
                raise
            found.append(_pooled_island(part, run.method, "too few battles for contexts: all of them together"))
    _warn_weak(found)
    return found


def _warn_weak(islands: list[Island]) -> None:
    """Warn once where a rank that was chosen has a component near the noise: of the largest island with such."""
    for island in islands:
        if isinstance(island.engine, LowRankEngine) and island.engine.steps.fit.rank_chosen:
            fit = island.engine.steps.fit
            warn_weak_signal(fit.point, fit.battles.n_battles, fit.design.noise, chosen=True)
            return


def with_context(islands: list[Island], battles: Battles, context: Any) -> list[Island]:
    """Return the islands that have battles in a context; all for None."""
    found = [island for island in islands if _has_context(island, context)]
    if not found:
        name = battles.context_title(context)
        raise NoDecisionError(f"the battles of context {name!r} rank nobody: no two models both won and lost there.")
    return found


def _has_context(island: Island, context: Any) -> bool:
    try:
        return context is None or bool(island.battles.context_counts[island.battles.context_indices(context)].any())
    except (UnknownContextError, ContextModeError):
        return False


def _analyse(part: Battles, overall: Floats, run: Run, progress: Progress | None) -> Island:
    """Return one island; `part` holds its models and all contexts."""
    core = pooled_core(part)
    if not part.levels:
        return Island(part, make_engine(part, overall, run, progress), overall)
    if core.size < 2 and run.method != "naive":
        return _pooled_island(part, run.method, "no two models both won and lost: contexts are put together")
    kept = informed_levels(part, core)
    weights = overall.reshape(part.shape[1:])[np.ix_(*kept)].ravel()
    if weights.sum() <= 0:
        raise WeightError("all contexts with a weight lack battles; give weights to other contexts.")
    weights = weights / weights.sum()
    levels = zip(part.mode_names, part.levels, kept, strict=True)
    part = part.select(contexts={name: [labels[k] for k in keep] for name, labels, keep in levels})
    return Island(part, make_engine(part, weights, run, progress), weights)


def _pooled_island(part: Battles, method: str, note: str) -> Island:
    pooled = part.pooled()
    return Island(pooled, SeparateEngine(pooled, method, note), np.ones(1))


def context_weights(battles: Battles, weights: Weights) -> Floats:
    """Return the weights (D,) of the contexts in the overall score, with sum 1.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays([0, 0, 0], [1, 1, 1], [1, 0, 1], ["code", "math", "math"])
    >>> context_weights(battles, {"math": 2}), context_weights(battles, "traffic").round(2)
    (array([0., 1.]), array([0.33, 0.67]))
    """
    D = battles.n_contexts
    if weights is None:
        values = np.ones(D)
    elif isinstance(weights, str):
        check_choice(weights, ("traffic",), "weights", WeightError)
        values = battles.context_counts.astype(np.float64)
    elif isinstance(weights, Mapping):
        values = np.zeros(D)
        for label, weight in weights.items():
            values[battles.context_index(label)] = weight
    else:
        values = np.asarray(weights, dtype=np.float64).reshape(-1)
        if values.size != D:
            raise WeightError(f"{values.size} weights were given for {D} contexts; give one per context.")
    if not np.all(np.isfinite(values)) or values.min() < 0 or values.sum() <= 0:
        raise WeightError("weights must be finite, not negative, and not all zero.")
    return np.asarray(values / values.sum())


def find_islands(battles: Battles) -> list[Longs]:
    """Return groups of models that battles link, largest first; models without battles belong to none."""
    cells = battles.cells
    groups = component_members(weak_components(cells.a, cells.b, len(battles.models))[0])
    return [group.astype(np.int64) for group in groups if battles.model_counts[group[0]] > 0]


def make_engine(part: Battles, weights: Floats, run: Run, progress: Progress | None) -> Engine:
    """Return what computes the scores: separate fits, or one low-rank analysis.

    A rank chosen from the data may ask for more than every model's and context's battles determine: then smaller ones
    are tried, and separate fits last.
    """
    link = as_link(run.link)
    if run.method == "naive" and link != LOGISTIC:
        raise MethodError(f"the naive method fits Bradley-Terry: it has no link={str(link)!r}.")
    if run.method == "naive" or (not part.levels and run.method != "whitened" and link == LOGISTIC):
        return SeparateEngine(part, run.method)
    options = {"ridge": run.ridge, "n_threads": run.n_threads, "rng": run.rng, "link": link}
    ranks = candidate_ranks(part, run.rank, progress=progress, **options)
    for rank in ranks:
        notes = () if rank == ranks[0] else (f"rank {ranks[0]} asks for more than these battles tell: rank {rank}",)
        try:
            return _low_rank_engine(part, rank, weights, run, options, notes, progress)
        except (SeparationError, SingularInformationError, UninformedError):
            if run.rank != "auto":
                raise
    return SeparateEngine(part, "naive", "too few battles for a low-rank fit: each context by itself")


def _low_rank_engine(
    part: Battles,
    rank: int | Sequence[int],
    weights: Floats,
    run: Run,
    options: dict[str, Any],
    notes: tuple[str, ...],
    progress: Progress | None,
) -> Engine:
    """Return the low-rank analysis of a rank; sparse models whose scores run away are left out, to be placed later."""
    without = np.empty(0, dtype=np.int64)
    while True:
        inside, full_fit = fit_core(part, rank, without=without, **options)
        if not full_fit.singular_values[0][0] > NO_SIGNAL:
            return SeparateEngine(part, "naive", "too little evidence for a low-rank fit: each context by itself")
        full_fit = replace(full_fit, rank_chosen=run.rank == "auto")
        with warnings.catch_warnings():
            if full_fit.rank_chosen:
                warnings.simplefilter("ignore", WeakSignalWarning)  # said once, of the rank that is used
            engine = LowRankEngine(
                inside, full_fit, method=run.method, n_folds=run.n_folds, rng=run.rng, progress=progress, notes=notes
            )
        lost = engine.runaways(weights)
        if not lost.size:
            return engine
        without = np.union1d(without, lost)


def informed_levels(part: Battles, core: Longs) -> list[Longs]:
    """Return the levels of each context mode in which models of the core met (or any models, if the core is one)."""
    cells = part.cells
    is_core = np.zeros(len(part.models), dtype=np.bool_)
    is_core[core] = True
    inner = is_core[cells.a] & is_core[cells.b] if core.size > 1 else np.ones(cells.n_cells, dtype=np.bool_)
    parts = np.unravel_index(cells.context[inner], part.shape[1:]) if part.levels else ()
    return [np.unique(codes).astype(np.int64) for codes in parts]


def _warn_islands(battles: Battles, islands: list[Longs]) -> None:
    sizes = ", ".join(str(group.size) for group in islands[:5])
    example = battles.models[islands[1][0]]
    warn_user(
        f"no battle links {len(islands)} groups of models (sizes {sizes}; {example!r} is in the second): their scores "
        "cannot be compared, so each has a board of its own in `islands`.",
        IslandWarning,
    )
