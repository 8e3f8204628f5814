"""The arithmetic of other leaderboards, reproduced from their formulas.

arena-rank 0.1.1: Bradley-Terry ratings 1000 + 400/ln(10) θ with a sandwich variance whose Hessian has a small ridge.
FastChat: the same ratings without variances, shifted so that an anchor model has a given rating. All functions take
cells: models a and b, outcome y of a and number of battles. Swapping the sides of a battle changes nothing, because
every sum is linear in the counts of an unordered pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from lrbtl.boards.board import Leaderboard, Leaderboards
from lrbtl.boards.components import battle_counts
from lrbtl.boards.ranking import rank_models
from lrbtl.data.battles import Battles
from lrbtl.data.cells import component_members, strong_components
from lrbtl.errors import ScaleError, SeparationError
from lrbtl.fitting.bradley_terry import Pairs, fit_batch, laplacian, sum_by
from lrbtl.inference.estimate import ELO
from lrbtl.methods.base import Provenance
from lrbtl.model.links import logistic_terms
from lrbtl.typing import AnyInts, Floats, Longs

Compat = Literal["arena-rank", "fastchat"]

COMPAT = ("arena-rank", "fastchat")
BASE_RATING = 1000.0  # Elo points of the mean model
HESSIAN_RIDGE = 1e-5  # arena-rank's hessian_reg
FASTCHAT_ANCHOR_RATING = 1114.0  # of mixtral-8x7b-instruct-v0.1


@dataclass(frozen=True)
class ArenaRank:
    """Ratings, variances, lower and upper limits as arena-rank reports them, each (d1,)."""

    ratings: Floats
    variances: Floats
    lower: Floats
    upper: Floats


def arena_rank(
    a: AnyInts,
    b: AnyInts,
    y: Floats,
    count: AnyInts,
    n_models: int,
    *,
    level: float = 0.95,
) -> ArenaRank:
    """Return arena-rank's ratings, variances and intervals.

    θ maximises the likelihood, H = Σ n p(1-p) x xᵀ + λI, G = Σ n (y-p)² x xᵀ and V = H⁻¹ G H⁻¹; λ is 1e-5 times the
    number of battles.

    Raises
    ------
    SeparationError
        If some models only won or only lost, where arena-rank returns whatever its optimiser reached.

    >>> board = arena_rank(np.array([0, 0]), np.array([1, 1]), np.array([1.0, 0.0]), np.array([3, 1]), 2)
    >>> board.ratings.round(2)
    array([1095.42,  904.58])
    """
    a, b, y = a.astype(np.intp), b.astype(np.intp), np.ascontiguousarray(y)
    theta = _fit(a, b, y, count.astype(np.float64), n_models)
    _, score, fisher = logistic_terms(theta[a] - theta[b], y)
    ridge = HESSIAN_RIDGE * float(count.sum())
    hessian = laplacian(a, b, count * fisher, n_models)
    # the meat has no part along 1, so a load on that direction changes nothing but the conditioning
    bread = np.linalg.inv(hessian + ridge * np.eye(n_models) + np.trace(hessian) / n_models**2)
    meat = laplacian(a, b, count * score**2, n_models)
    variances = ELO**2 * np.einsum("ij,jk,ki->i", bread, meat, bread)
    ratings = BASE_RATING + ELO * theta
    half = NormalDist().inv_cdf(0.5 + 0.5 * level) * np.sqrt(variances)
    return ArenaRank(ratings, variances, ratings - half, ratings + half)


def fastchat_ratings(
    a: AnyInts,
    b: AnyInts,
    y: Floats,
    count: AnyInts,
    n_models: int,
) -> Floats:
    """Return FastChat's ratings, before any anchor.

    >>> cells = np.array([0, 0]), np.array([1, 1]), np.array([1.0, 0.0]), np.array([3, 1])
    >>> fastchat_ratings(*cells, 2).round(2)
    array([1095.42,  904.58])
    """
    a, b, y = a.astype(np.intp), b.astype(np.intp), np.ascontiguousarray(y)
    return BASE_RATING + ELO * _fit(a, b, y, count.astype(np.float64), n_models)


def _fit(a: AnyInts, b: AnyInts, y: Floats, weight: Floats, n_models: int) -> Floats:
    """Return the zero-sum maximum of the weighted likelihood."""
    groups = strong_components(a, b, y, n_models)[0]
    if np.ptp(groups):
        outside = np.flatnonzero(groups != np.bincount(groups).argmax())
        raise SeparationError(
            f"the ratings do not exist: models with codes {outside[:10].tolist()} only won, only lost, or never met "
            "the others; leave them out."
        )
    swapped = a > b
    i, j = np.where(swapped, b, a), np.where(swapped, a, b)
    keys, inverse = np.unique(i * n_models + j, return_inverse=True)
    total = sum_by(inverse, weight, keys.size)
    mean = sum_by(inverse, weight * np.where(swapped, 1.0 - y, y), keys.size) / total
    pairs = Pairs(np.zeros_like(keys), keys // n_models, keys % n_models, total, mean)
    return np.asarray(fit_batch(pairs, np.array([n_models])).scores[0])


# ------------------------------------------------------------------------------
# Boards with the arithmetic of other packages, for users who switch and compare.
# ------------------------------------------------------------------------------

FASTCHAT_ANCHOR = "mixtral-8x7b-instruct-v0.1"


def compat_boards(
    battles: Battles,
    contexts: Longs | None,
    context: Any,
    compat: Compat,
    *,
    every: bool,
    level: float,
    scale: str,
    anchor: tuple[int, float] | None,
) -> Leaderboard | Leaderboards:
    """Return the board of the pooled battles, of some contexts', or the pooled one and every context's."""
    if scale != "elo":
        raise ScaleError(f"{compat} boards are in Elo points; leave scale={scale!r} out.")
    fixed = None if anchor is None else (battles.models[anchor[0]], anchor[1])
    make = partial(_board, compat=compat, level=level, anchor=fixed)
    if contexts is not None:
        return make(_part(battles, contexts), battles.board_label(context))
    overall = make(battles.pooled(), None)
    if not every:
        return overall
    boards = {label: make(_part(battles, at), label) for label, at in battles.board_contexts().items()}
    return Leaderboards(overall, boards)


def _part(battles: Battles, contexts: Longs) -> Battles:
    """Return the battles of some contexts put together, between the models that fought there."""
    at = np.isin(battles.cells.context, contexts)
    fought = np.union1d(battles.cells.a[at], battles.cells.b[at])
    counts = np.where(at, battles.cells.count, 0)
    return battles.with_counts(counts).pooled().select(models=[battles.models[k] for k in fought])


def _board(
    battles: Battles, context: Any, *, compat: Compat, level: float, anchor: tuple[Any, float] | None
) -> Leaderboard:
    cells, d1 = battles.cells, len(battles.models)
    columns = (cells.a, cells.b, cells.y, cells.count, d1)
    none = np.full(d1, np.nan)
    try:
        if compat == "arena-rank":
            found = arena_rank(*columns, level=level)
            ratings, se, lower, upper = found.ratings, np.sqrt(found.variances), found.lower, found.upper
        else:
            ratings, se, lower, upper = fastchat_ratings(*columns), none, none, none
    except SeparationError as error:
        raise SeparationError(f"{compat} has no ratings here: {_why(battles)}") from error
    shift = _shift(battles.models, ratings, compat, anchor)
    ratings, lower, upper = ratings + shift, lower + shift, upper + shift
    ranks = rank_models(ratings, lower[:, None] > upper[None, :], lower, upper)
    votes, won = battle_counts(battles, np.ones(1))
    order = np.argsort(-ratings, kind="stable")
    return Leaderboard(
        context=context,
        models=tuple(battles.models[k] for k in order),
        score=ratings[order],
        lower=lower[order],
        upper=upper[order],
        se=se[order],
        **ranks.each(lambda places: places[order]),
        battles=votes[order],
        win_rate=won[order],
        status=("ranked",) * d1,
        notes=("",) * d1,
        level=level,
        scale="elo",
        method=compat,
        info=Provenance(
            method=compat, n_battles=battles.n_battles, level=level, notes=(*battles.notes, *_notes(compat))
        ),
    )


def _shift(models: tuple[Any, ...], ratings: Floats, compat: Compat, anchor: tuple[Any, float] | None) -> float:
    if anchor is None and compat == "fastchat":
        anchor = (FASTCHAT_ANCHOR, FASTCHAT_ANCHOR_RATING)
    return 0.0 if anchor is None or anchor[0] not in models else anchor[1] - float(ratings[models.index(anchor[0])])


def _notes(compat: str) -> tuple[str, ...]:
    if compat == "fastchat":
        return ("ratings by FastChat's arithmetic, which gives no intervals",)
    return (
        "ratings and intervals by arena-rank's arithmetic; ranks and tiers from its intervals, one model at a time",
    )


def _why(battles: Battles) -> str:
    cells = battles.cells
    labels = strong_components(cells.a, cells.b, cells.y, len(battles.models))[0]
    outside = np.setdiff1d(np.arange(len(battles.models)), component_members(labels)[0])
    shown = ", ".join(repr(battles.models[k]) for k in outside[:5])
    return f"{shown} only won, only lost or never met the others; leave them out with battles.select(...)."
