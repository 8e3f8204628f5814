"""`leaderboard`: battles in, boards out, with honest uncertainty."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lrbtl.battles import Battles
from lrbtl.board import Leaderboard, Leaderboards, Scale, context_name
from lrbtl.board_assembly import Duels, Options, build_board, collect_boards
from lrbtl.board_scores import Engine, LowRankEngine, SeparateEngine, pooled_core
from lrbtl.compat_boards import compat_boards
from lrbtl.errors import (
    IslandWarning,
    LrbtlError,
    MethodError,
    NoDecisionError,
    ScaleError,
    SeparationError,
    WeightError,
)
from lrbtl.graph import component_members, weak_components
from lrbtl.infer import Method
from lrbtl.joint import normal_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[str], None]
Weights = Literal["traffic"] | Mapping[Any, float] | ArrayLike | None

METHODS = ("efficient", "whitened", "mle", "naive")
SCALES = ("elo", "logit", "probability")
COMPAT = ("arena-rank", "fastchat")


def leaderboard(
    battles: Battles,
    *,
    rank: int | Sequence[int] | Literal["auto"] = "auto",
    context: Any = None,
    weights: Weights = None,
    level: float = 0.95,
    scale: Scale = "elo",
    method: Method = "efficient",
    anchor: tuple[Any, float] | None = None,
    compat: Literal["arena-rank", "fastchat"] | None = None,
    n_folds: int = 10,
    ridge: float | Sequence[float] | Literal["auto"] = "auto",
    n_threads: int = 1,
    rng: int | np.random.Generator | None = 0,
    progress: Progress | None = None,
) -> Leaderboard | Leaderboards:
    """Return the leaderboard of some battles: scores, intervals, ranks with their uncertainty, tiers.

    Battles without contexts give the plain Bradley-Terry board. With contexts, the scores of all contexts are
    estimated together at low rank, and the overall score is their mean.

    A model that won (or lost) everything gets a one-sided interval, and does not touch the others'. Models that no
    chain of battles links with the rest come as boards of their own in `islands`.

    Parameters
    ----------
    battles : Battles
    rank : int, tuple or "auto"
        Rank of the scores, models × contexts; 1 means one order of the models for all contexts.
    context : label, "all" or None
        None: the overall board. A label (tuple of labels for several modes): the board of that context. "all": the
        overall board, every context's and all win probabilities, from one analysis.
    weights : "traffic", mapping, array or None
        Weights of the contexts in the overall score: uniform, by number of battles, or given; scaled to sum to 1.
    level : float
        Confidence level.
    scale : "elo", "logit" or "probability"
        Elo points (400 for odds of ten to one, mean 1000), log odds (mean 0), or win rate against the other models.
    method : "efficient", "whitened", "mle" or "naive"
        See `infer`; "naive" fits each context separately.
    anchor : (model, rating), optional
        Shifts an Elo board so that this model has this rating; the widths of intervals stay.
    compat : "arena-rank" or "fastchat", optional
        Reproduces the arithmetic of these packages instead: contexts are pooled, intervals are theirs (FastChat: none).
    n_folds, ridge, n_threads, rng
        See `infer`.
    progress : callable, optional
        Called with a line of text now and then.

    Returns
    -------
    Leaderboard, or Leaderboards for context="all"

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((8, 4), 2, scale=2, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 20_000, rng=1)
    >>> board = lrbtl.leaderboard(battles, rank=2)
    >>> board.models[0] == f"model_{truth.mean(axis=1).argmax()}", float(board.score.mean().round(6))
    (True, 1000.0)
    >>> lrbtl.leaderboard(battles, rank=2, context=3).context
    '3'
    """
    _check(method, METHODS, "method", MethodError)
    _check(scale, SCALES, "scale", ScaleError)
    normal_quantile(level)
    if anchor is not None:
        if scale != "elo":
            raise ScaleError(f"an anchor fixes a rating in Elo points, but scale is {scale!r}; leave one of them out.")
        anchor = (context_name(battles.models[battles.model_index(anchor[0])]), float(anchor[1]))
    if not np.any(battles.cells.y != 0.5):
        raise NoDecisionError("every battle is a tie: nothing tells the models apart; check the outcome column.")
    options = Options(level, scale, anchor, rng, _absent(battles))
    if compat is not None:
        _check(compat, COMPAT, "compat", MethodError)
        return compat_boards(battles, context, compat, options)
    engine_options = {
        "rank": rank, "method": method, "n_folds": n_folds, "ridge": ridge, "n_threads": n_threads, "rng": rng,
    }  # fmt: skip
    overall = context_weights(battles, weights)
    islands = find_islands(battles)
    results = [
        _run(battles, members, overall, context, options, engine_options, progress)
        for members in islands
        if context in (None, "all") or _has_battles(battles, members, context)
    ]
    if not results:
        raise NoDecisionError(f"no battles in context {context!r}: nothing to rank.")
    if len(results) > 1:
        _warn_islands(battles, islands)
    first, *others = results
    if isinstance(first, Leaderboards):
        return replace(first, islands=tuple(part for part in others if isinstance(part, Leaderboards)))
    return replace(first, islands=tuple(part for part in others if isinstance(part, Leaderboard)))


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
        _check(weights, ("traffic",), "weights", WeightError)
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


def find_islands(battles: Battles) -> list[Ints]:
    """Return groups of models that battles link, largest first; models without battles belong to none."""
    cells = battles.cells
    groups = component_members(weak_components(cells.a, cells.b, len(battles.models))[0])
    return [group.astype(np.int64) for group in groups if battles.model_counts[group[0]] > 0]


def _run(
    battles: Battles, members: Ints, overall: Floats, context: Any, options: Options, run: dict[str, Any],
    progress: Progress | None,
) -> Leaderboard | Leaderboards:  # fmt: skip
    """Return the boards of one island."""
    part = battles.select(models=[battles.models[k] for k in members])
    core = pooled_core(part)
    kept = informed_levels(part, core)
    weights = overall.reshape(battles.shape[1:])[np.ix_(*kept)].ravel() if battles.levels else overall
    if battles.levels:
        part = part.select(contexts={
            name: [levels[k] for k in keep]
            for name, levels, keep in zip(part.names, part.levels, kept, strict=True)
        })  # fmt: skip
    if weights.sum() <= 0:
        raise WeightError("all contexts with a weight lack battles; give weights to other contexts.")
    weights = weights / weights.sum()
    engine = make_engine(part, core, run, progress)
    make = partial(build_board, part, engine, options)
    if context is None:
        return make(None, weights)[0]
    if context != "all":
        u = part.context_index(context)
        return make(context_name(part.context_label(u)), np.eye(part.n_contexts)[u])[0]
    results: dict[str | None, tuple[Leaderboard, Duels]] = {None: make(None, weights)}
    for u in range(part.n_contexts if part.levels else 0):
        name = context_name(part.context_label(u))
        results[name] = make(name, np.eye(part.n_contexts)[u])
        if progress is not None:
            progress(f"board {u + 1} of {part.n_contexts}")
    return collect_boards(results)


def make_engine(part: Battles, core: Ints, run: dict[str, Any], progress: Progress | None) -> Engine:
    """Return what computes the scores: separate fits, or one low-rank analysis."""
    if run["method"] == "naive" or (not part.levels and (run["method"] != "whitened" or core.size < 2)):
        return SeparateEngine(part, run["method"])
    if core.size < 2:
        raise SeparationError(
            "no two models have both won and lost against each other, directly or through others, so contexts share "
            "nothing; use battles.pooled() for one-sided limits."
        )
    return LowRankEngine(part, progress=progress, **run)


def informed_levels(part: Battles, core: Ints) -> list[Ints]:
    """Return the levels of each context mode in which models of the core met (or any models, if the core is one)."""
    cells = part.cells
    is_core = np.zeros(len(part.models), dtype=np.bool_)
    is_core[core] = True
    inner = is_core[cells.a] & is_core[cells.b] if core.size > 1 else np.ones(cells.n_cells, dtype=np.bool_)
    parts = np.unravel_index(cells.context[inner], part.shape[1:]) if part.levels else ()
    return [np.unique(codes).astype(np.int64) for codes in parts]


def _has_battles(battles: Battles, members: Ints, context: Any) -> bool:
    cells = battles.cells
    at = cells.context == battles.context_index(context)
    return bool(np.isin(cells.a[at], members).any())


def _absent(battles: Battles) -> tuple[str, ...]:
    names = [str(battles.models[k]) for k in np.flatnonzero(battles.model_counts == 0)]
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return (f"{len(names)} model(s) without battles are not listed: {shown}",) if names else ()


def _warn_islands(battles: Battles, islands: list[Ints]) -> None:
    sizes = ", ".join(str(group.size) for group in islands[:5])
    example = battles.models[islands[1][0]]
    warnings.warn(
        f"no battle links {len(islands)} groups of models (sizes {sizes}; {example!r} is in the second): their scores "
        "cannot be compared, so each has a board of its own in `islands`.",
        IslandWarning,
        stacklevel=3,
    )


def _check(value: object, choices: tuple[str, ...], name: str, error: type[LrbtlError]) -> None:
    if value not in choices:
        raise error(f"{name}={value!r} is not known; choose one of {', '.join(map(repr, choices))}.")
