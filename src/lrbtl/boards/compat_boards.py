"""Boards with the arithmetic of other packages, for users who switch and compare."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrbtl.boards.board import Leaderboard, Leaderboards
from lrbtl.boards.board_assembly import Options, battle_counts
from lrbtl.boards.compat import FASTCHAT_ANCHOR_RATING, arena_rank, fastchat_ratings
from lrbtl.boards.ranking import rank_interval, rank_scores, rank_spread, tiers
from lrbtl.data.battles import Battles
from lrbtl.data.labels import context_name
from lrbtl.errors import ScaleError, SeparationError
from lrbtl.inference.summary import Provenance
from lrbtl.typing import Floats, Longs

FASTCHAT_ANCHOR = "mixtral-8x7b-instruct-v0.1"


def compat_boards(battles: Battles, context: Any, compat: str, options: Options) -> Leaderboard | Leaderboards:
    """Return the board of the pooled battles, of one context's, or all of these."""
    if options.scale != "elo":
        raise ScaleError(f"{compat} boards are in Elo points; leave scale={options.scale!r} out.")
    if context is None:
        return _board(battles.pooled(), None, compat, options)
    if not (isinstance(context, str) and context == "all"):
        at = battles.context_indices(context)
        return _board(_part(battles, at), battles.context_title(context), compat, options)
    boards = {}
    for u in range(battles.n_contexts if battles.levels else 0):
        name = context_name(battles.context_label(u))
        boards[name] = _board(_part(battles, np.array([u])), name, compat, options)
    return Leaderboards(_board(battles.pooled(), None, compat, options), boards)


def _part(battles: Battles, contexts: Longs) -> Battles:
    """Return the battles of some contexts put together, between the models that fought there."""
    at = np.isin(battles.cells.context, contexts)
    fought = np.union1d(battles.cells.a[at], battles.cells.b[at])
    counts = np.where(at, battles.cells.count, 0)
    return battles.with_counts(counts).pooled().select(models=[battles.models[k] for k in fought])


def _board(battles: Battles, context: str | None, compat: str, options: Options) -> Leaderboard:
    cells, d1 = battles.cells, len(battles.models)
    names = tuple(map(str, battles.models))
    columns = (cells.a, cells.b, cells.y, cells.count, d1)
    none = np.full(d1, np.nan)
    try:
        if compat == "arena-rank":
            found = arena_rank(*columns, level=options.level)
            ratings, se, lower, upper = found.ratings, np.sqrt(found.variances), found.lower, found.upper
        else:
            ratings, se, lower, upper = fastchat_ratings(*columns), none, none, none
    except SeparationError as error:
        raise SeparationError(f"{compat} has no ratings here: {_why(battles)}") from error
    shift = _shift(names, ratings, compat, options)
    ratings, lower, upper = ratings + shift, lower + shift, upper + shift
    above = lower[:, None] > upper[None, :]
    best, worst = rank_spread(lower, upper)
    rank_lower, rank_upper = rank_interval(above)
    fought, won = battle_counts(battles, np.ones(1))
    order = np.argsort(-ratings, kind="stable")
    return Leaderboard(
        context=context,
        models=tuple(names[k] for k in order),
        score=ratings[order],
        lower=lower[order],
        upper=upper[order],
        se=se[order],
        rank=rank_scores(ratings)[order],
        best=best[order],
        worst=worst[order],
        rank_lower=rank_lower[order],
        rank_upper=rank_upper[order],
        tier=tiers(ratings, above)[order],
        battles=fought[order],
        win_rate=won[order],
        notes=("",) * d1,
        level=options.level,
        scale="elo",
        method=compat,
        info=Provenance(method=compat, n_battles=battles.n_battles, level=options.level, notes=_notes(compat)),
    )


def _shift(names: tuple[str, ...], ratings: Floats, compat: str, options: Options) -> float:
    anchor = options.anchor
    if anchor is None and compat == "fastchat" and FASTCHAT_ANCHOR in names:
        anchor = (FASTCHAT_ANCHOR, FASTCHAT_ANCHOR_RATING)
    return 0.0 if anchor is None or anchor[0] not in names else anchor[1] - float(ratings[names.index(anchor[0])])


def _notes(compat: str) -> tuple[str, ...]:
    if compat == "fastchat":
        return ("ratings by FastChat's arithmetic, which gives no intervals",)
    return (
        "ratings and intervals by arena-rank's arithmetic; ranks and tiers from its intervals, one model at a time",
    )


def _why(battles: Battles) -> str:
    from lrbtl.fitting.core import pooled_core

    outside = np.setdiff1d(np.arange(len(battles.models)), pooled_core(battles))
    shown = ", ".join(repr(battles.models[k]) for k in outside[:5])
    return f"{shown} only won, only lost or never met the others; leave them out with battles.select(...)."
