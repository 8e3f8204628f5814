"""`leaderboard`: battles in, boards out, with honest uncertainty."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np

from lrbtl.boards.board import Leaderboard, Leaderboards, Scale
from lrbtl.boards.board_assembly import Duels, Options, build_board, collect_boards
from lrbtl.boards.board_scores import LowRankEngine
from lrbtl.boards.compat import compat_boards
from lrbtl.boards.components import Island, Weights, analyse_islands, with_context
from lrbtl.data.battles import Battles
from lrbtl.data.labels import context_name
from lrbtl.errors import MethodError, ScaleError
from lrbtl.fitting.options import Method, Run, check_choice
from lrbtl.inference.joint import normal_quantile
from lrbtl.model.links import Link
from lrbtl.threads import ordered_map
from lrbtl.typing import Progress, Rank, Ridge, Seed

Compat = Literal["arena-rank", "fastchat"]

SCALES = ("elo", "logit", "probability")
COMPAT = ("arena-rank", "fastchat")


class BoardOptions(TypedDict, total=False):
    """The options that every board takes, for the types of what `leaderboard` returns."""

    rank: Rank
    weights: Weights
    level: float
    scale: Scale
    method: Method
    anchor: tuple[Any, float] | None
    compat: Compat | None
    n_folds: int
    ridge: Ridge
    link: str | Link
    n_threads: int
    rng: Seed
    progress: Progress | None


@overload
def leaderboard(battles: Battles, *, context: Literal["all"], **options: Unpack[BoardOptions]) -> Leaderboards: ...
@overload
def leaderboard(battles: Battles, *, context: Any = None, **options: Unpack[BoardOptions]) -> Leaderboard: ...
def leaderboard(
    battles: Battles,
    *,
    rank: Rank = "auto",
    context: Any = None,
    weights: Weights = None,
    level: float = 0.95,
    scale: Scale = "elo",
    method: Method = "efficient",
    anchor: tuple[Any, float] | None = None,
    compat: Compat | None = None,
    n_folds: int = 10,
    ridge: Ridge = "auto",
    link: str | Link = "logistic",
    n_threads: int = 1,
    rng: Seed = 0,
    progress: Progress | None = None,
) -> Leaderboard | Leaderboards:
    """Return the leaderboard of some battles: scores, intervals, ranks with their uncertainty, tiers.

    Battles without contexts give the plain Bradley-Terry board. With contexts, the scores of all contexts are
    estimated together at low rank, and the overall score is their mean.

    A model that won (or lost) everything gets a one-sided interval, or none on a board with a context in which it never
    played, and does not touch the others'. Models that no chain of battles links with the rest come as boards of
    their own in `islands`.

    Parameters
    ----------
    battles : Battles
    rank : int, tuple or "auto"
        Rank of the scores, models × contexts; 1 means one order of the models for all contexts.
    context : label, "all" or None
        None: the overall board. A label: the board of that context. "all": the overall board, every context's and all
        win probabilities, from one analysis. For several modes give a tuple of labels, a text such as "math / crowd",
        or a mapping such as {"category": "math"}; None or "*" in place of a label, or a mode that the mapping leaves
        out, averages over that mode with `weights`. The mapping also names a context that is called "all".
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
    link : str or Link
        See `fit`. Scores of other links than the logistic are scaled to the log odds of a nearly even battle.
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
    >>> judged = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3, 2), 1, scale=2, rng=0), 9000, rng=1)
    >>> lrbtl.leaderboard(judged, rank=1, context=(2, None)).context
    '2 / *'
    """
    run = Run(rank, method, n_folds, ridge, link, n_threads, rng)
    run.check(battles.shape)
    check_choice(scale, SCALES, "scale", ScaleError)
    normal_quantile(level)
    if anchor is not None:
        _check_anchor(anchor)
        if scale != "elo":
            raise ScaleError(f"an anchor fixes a rating in Elo points, but scale is {scale!r}; leave one of them out.")
        anchor = (str(battles.models[battles.model_index(anchor[0])]), float(anchor[1]))
    every = isinstance(context, str) and context == "all"
    if context is not None and not every:
        battles.context_indices(context)  # raises before anything is computed
    options = Options(level, scale, anchor, rng, _absent(battles))
    if compat is not None:
        check_choice(compat, COMPAT, "compat")
        return compat_boards(battles, context, compat, options)
    islands = analyse_islands(battles, weights, run, progress=progress)
    if every:
        boards = [_all_boards(island, options, n_threads, progress) for island in islands]
        return replace(boards[0], islands=tuple(boards[1:]))
    name = None if context is None else battles.context_title(context)
    found = [
        build_board(island.battles, island.engine, options, name, island.weights_of(context))[0]
        for island in with_context(islands, battles, context)
    ]
    return replace(found[0], islands=tuple(found[1:]))


def _check_anchor(anchor: Any) -> None:
    is_pair = isinstance(anchor, tuple | list) and len(anchor) == 2
    if not (is_pair and isinstance(anchor[1], Real) and np.isfinite(float(anchor[1]))):
        raise MethodError(f"anchor={anchor!r} is not valid: give (model, rating), such as ('model_01', 1000).")


def _all_boards(island: Island, options: Options, n_threads: int, progress: Progress | None) -> Leaderboards:
    results: dict[str | None, tuple[Leaderboard, Duels]] = {}
    contexts = {None if context is None else context_name(context): context for context in (None, *island.contexts())}
    shared_rng = not (options.rng is None or isinstance(options.rng, int | np.integer))
    island.prepare()

    def board_of(name: str | None) -> tuple[Leaderboard, Duels]:
        return build_board(island.battles, island.engine, options, name, island.weights_of(contexts[name]))

    for name, found in zip(contexts, ordered_map(board_of, contexts, 1 if shared_rng else n_threads), strict=True):
        results[name] = found
        if progress is not None:
            progress(f"board of {name or 'all contexts'}")
    fit = island.engine.steps.fit if isinstance(island.engine, LowRankEngine) else None
    return replace(collect_boards(results), fit=fit)


def _absent(battles: Battles) -> tuple[str, ...]:
    names = [str(battles.models[k]) for k in np.flatnonzero(battles.model_counts == 0)]
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return (f"{len(names)} model(s) without battles are not listed: {shown}",) if names else ()
