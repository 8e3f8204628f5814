"""The arithmetic of other leaderboards, reproduced from their formulas.

arena-rank 0.1.1: Bradley-Terry ratings 1000 + 400/ln(10) θ with a sandwich variance whose Hessian has a small ridge.
FastChat, `rating_systems.compute_bt`: the same ratings without variances, stopped where its optimiser stops, shifted so
that an anchor model has a given rating. fschat 0.2.36, the release on PyPI, `elo_analysis.compute_elo_mle_with_tie`: a
logistic regression with a ridge, on every vote twice. All functions take
cells: models a and b, outcome y of a and number of battles. Swapping the sides of a battle changes nothing, because
every sum is linear in the counts of an unordered pair. Only covariates depend on the sides as they were written: both
packages subtract their means.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from lrbtl.boards.board import BASE_RATING, Leaderboard, Leaderboards
from lrbtl.boards.components import battle_counts, self_note, tie_note
from lrbtl.boards.ranking import level_ties, rank_models
from lrbtl.data.battles import Battles
from lrbtl.data.cells import BOTH_BAD, component_members, strong_components
from lrbtl.data.covariates import POSITION
from lrbtl.errors import MethodError, ScaleError, SeparationError
from lrbtl.fitting.bradley_terry import Pairs, fit_batch, laplacian, sum_by
from lrbtl.inference.estimate import ELO, Estimate
from lrbtl.inference.joint import normal_quantile
from lrbtl.methods.base import Provenance
from lrbtl.model.links import logistic_terms
from lrbtl.typing import AnyInts, Floats, Longs

Compat = Literal["arena-rank", "fastchat", "fschat"]

COMPAT = ("arena-rank", "fastchat", "fschat")
NAMES = {  # what a board is the arithmetic of
    "arena-rank": "arena-rank 0.1.1",
    "fastchat": "FastChat's rating_systems.compute_bt",
    "fschat": "compute_elo_mle_with_tie of fschat 0.2.36",
}
HESSIAN_RIDGE = 1e-5  # arena-rank's hessian_reg
ANCHORS = {"fastchat": ("mixtral-8x7b-instruct-v0.1", 1114.0), "fschat": ("llama-13b", 800.0)}


def arena_rank(
    a: AnyInts, b: AnyInts, y: Floats, count: AnyInts, n_models: int, weight: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return arena-rank's ratings and their variances, (d1,) each.

    θ maximises the likelihood, H = Σ n w p(1-p) x xᵀ + λI, G = Σ n w² (y-p)² x xᵀ and V = H⁻¹ G H⁻¹. Without weights λ
    is 1e-5 times the number of battles, with them (reweight="pairs") 1e-5.

    Raises
    ------
    SeparationError
        If some models only won or only lost, where arena-rank returns whatever its optimiser reached.

    >>> arena_rank(np.array([0, 0]), np.array([1, 1]), np.array([1.0, 0.0]), np.array([3, 1]), 2)[0].round(2)
    array([1095.42,  904.58])
    """
    a, b, y = a.astype(np.intp), b.astype(np.intp), np.ascontiguousarray(y)
    w = np.ones(len(a)) if weight is None else weight
    theta = _fit(a, b, y, count * w, n_models)
    _, score, fisher = logistic_terms(theta[a] - theta[b], y)
    ridge = HESSIAN_RIDGE * (float(count.sum()) if weight is None else 1.0)
    hessian = laplacian(a, b, count * w * fisher, n_models)
    # the meat has no part along 1, so a load on that direction changes nothing but the conditioning
    bread = np.linalg.inv(hessian + ridge * np.eye(n_models) + np.trace(hessian) / n_models**2)
    values, vectors = np.linalg.eigh(laplacian(a, b, count * (w * score) ** 2, n_models))
    root = bread @ (vectors * np.sqrt(np.maximum(values, 0.0)))  # its squares are never negative
    return BASE_RATING + ELO * theta, ELO**2 * np.sum(root**2, axis=1)


def fastchat_ratings(a: AnyInts, b: AnyInts, y: Floats, count: AnyInts, n_models: int) -> Floats:
    """Return FastChat's ratings, before any anchor, stopped where its optimiser (L-BFGS-B, gtol 1e-6) stops.

    >>> cells = np.array([0, 0]), np.array([1, 1]), np.array([1.0, 0.0]), np.array([3, 1])
    >>> fastchat_ratings(*cells, 2).round(2)
    array([1095.42,  904.58])
    """
    a, b, y = a.astype(np.intp), b.astype(np.intp), np.ascontiguousarray(y)
    check_linked(a, b, y, n_models)
    found = _minimise(a, b, y, count.astype(np.float64), np.empty((len(a), 0)), n_models, 0.0, gtol=1e-6)
    return BASE_RATING + 400.0 * found


def fschat_ratings(a: AnyInts, b: AnyInts, y: Floats, count: AnyInts, n_models: int) -> Floats:
    """Return the ratings of fschat's older function, before any anchor.

    It minimises the loss of every vote twice plus |ratings / 400|^2 / 2, the ridge of scikit-learn's default.

    >>> cells = np.array([0, 0]), np.array([1, 1]), np.array([1.0, 0.0]), np.array([3, 1])
    >>> fschat_ratings(*cells, 2).round(1)
    array([1089.9,  910.1])
    """
    a, b, y = a.astype(np.intp), b.astype(np.intp), np.ascontiguousarray(y)
    found = _minimise(a, b, y, 2.0 * count.astype(np.float64), np.empty((len(a), 0)), n_models, 0.5, gtol=1e-10)
    return BASE_RATING + 400.0 * found


# ------------------------------------------------------------------------------
# Style control: covariates beside the ratings.
# ------------------------------------------------------------------------------

ARENA_FEWEST = 50.0  # battles of a pair below which its weight stays
ARENA_RIDGE = 1.0  # times half the squared coefficients, on the mean loss
FASTCHAT_HALF_RIDGE = 0.25  # times the squared ratings (over 400) and coefficients, on the summed loss
NEWTON_STEPS, NEWTON_TOL = 100, 1e-12


@dataclass(frozen=True)
class StyleFit:
    """Ratings (d1,) and coefficients (k,) of covariates, with variances and covariance where the package has them."""

    ratings: Floats
    coefficients: Floats
    variances: Floats | None = None
    covariance: Floats | None = None


def z_scores(slopes: Floats, side: Floats, count: Floats) -> Floats:
    """Return covariates less their means over rows as they were written, over their standard deviations.

    Both packages do this, arena-rank twice. `side` is 1 where the first model of a cell was written first, else -1.

    >>> z_scores(np.array([[3.0], [-1.0]]), np.array([1.0, -1.0]), np.ones(2)).tolist()
    [[1.0], [1.0]]
    """
    n = count.sum()
    away = slopes - side[:, None] * (count * side @ slopes / n)
    return np.asarray(away / np.sqrt(count @ away**2 / n))


def fastchat_style(a: AnyInts, b: AnyInts, y: Floats, count: Floats, z: Floats, n_models: int) -> StyleFit:
    """Return FastChat's ratings with style control, stopped where its optimiser stops.

    It minimises the summed loss plus 0.25 (|ratings / 400|^2 + |coefficients|^2) by L-BFGS-B.
    """
    found = _minimise(a, b, y, count, z, n_models, FASTCHAT_HALF_RIDGE, gtol=1e-6)
    return StyleFit(BASE_RATING + 400.0 * found[:n_models], found[n_models:])


def _minimise(
    a: AnyInts, b: AnyInts, y: Floats, count: Floats, z: Floats, n_models: int, half_ridge: float, *, gtol: float
) -> Floats:
    """Return ratings over 400 and coefficients where FastChat's optimiser stops, from zero.

    The objective is the summed loss plus half_ridge times the squares of both.
    """
    from scipy.optimize import minimize  # a slow import that other boards do not need

    alpha = np.log(10.0)

    def objective(at: Floats) -> tuple[float, Floats]:
        rating, coefficient = at[:n_models], at[n_models:]
        loss, score, _ = logistic_terms(alpha * (rating[a] - rating[b]) + z @ coefficient, y)
        won = count * score
        sums = np.bincount(a, won, n_models) - np.bincount(b, won, n_models)
        gradient = 2 * half_ridge * at - np.concatenate([alpha * sums, won @ z])
        return float(count @ loss) + half_ridge * float(at @ at), gradient

    start = np.zeros(n_models + z.shape[1])
    options: dict[str, Any] = {"maxiter": 100, "gtol": gtol}
    if gtol < 1e-9:
        options = {"maxiter": 10_000, "gtol": gtol, "ftol": 1e-15}
    found: Any = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    return np.asarray(found.x)


def arena_style(a: AnyInts, b: AnyInts, y: Floats, count: Floats, z: Floats, n_models: int) -> StyleFit:
    """Return arena-rank's ratings with covariates: pairs weighted by 1 / max(n, 50), 0.5 |coefficients|^2 on the mean.

    With w the weights over their mean, H = mean of w p(1-p) x x^T + 1e-5 I, G = mean of w^2 (y-p)^2 x x^T less
    g g^T / n for the coefficients g, and V = H^-1 G H^-1 / n.
    """
    n, size = float(count.sum()), n_models + z.shape[1]
    pair = np.minimum(a, b) * n_models + np.maximum(a, b)
    met = np.bincount(pair, count)[pair]
    w = 1.0 / np.maximum(met, ARENA_FEWEST)
    w *= n / float(count @ w)
    design = np.zeros((len(a), size))
    rows = np.arange(len(a))
    design[rows, a], design[rows, b], design[:, n_models:] = 1.0, -1.0, z
    ridge, gauge = np.zeros(size), np.zeros((size, size))
    ridge[n_models:] = ARENA_RIDGE
    gauge[:n_models, :n_models] = 1.0 / n_models**2  # ratings start at zero, so that their sum stays there
    at = np.zeros(size)
    for _ in range(NEWTON_STEPS):
        _, score, fisher = logistic_terms(design @ at, y)
        information = design.T @ ((count * w * fisher / n)[:, None] * design)
        step = np.linalg.solve(information + np.diag(ridge) + gauge, design.T @ (count * w * score) / n - ridge * at)
        at = at + step
        if np.abs(step).max() < NEWTON_TOL:
            break
    _, score, fisher = logistic_terms(design @ at, y)
    bread = np.linalg.inv(design.T @ ((count * w * fisher / n)[:, None] * design) + HESSIAN_RIDGE * np.eye(size))
    meat = design.T @ ((count * (w * score) ** 2 / n)[:, None] * design)
    meat[n_models:, n_models:] -= ARENA_RIDGE**2 / n * np.outer(at[n_models:], at[n_models:])
    covariance = bread @ meat @ bread / n
    variances = ELO**2 * np.diag(covariance)[:n_models]
    return StyleFit(BASE_RATING + ELO * at[:n_models], at[n_models:], variances, covariance[n_models:, n_models:])


def _style(battles: Battles, compat: Compat) -> StyleFit | None:
    """Return the fit with the covariates of some battles; None where they have none."""
    cells = battles.cells
    style = [k for k, covariate in enumerate(battles.covariates) if covariate.rule != POSITION]
    if not style or cells.slopes is None:
        return None
    if compat == "fschat":
        raise MethodError("fschat's older function knows no covariates: use compat='fastchat', or control=[].")
    if len(style) == len(battles.covariates):
        raise MethodError(
            f"{compat} subtracts the means of covariates over rows as they were written: read the battles with "
            "position=True, which keeps the sides."
        )
    side = cells.slopes[:, next(k for k, covariate in enumerate(battles.covariates) if covariate.rule == POSITION)]
    count = cells.count.astype(np.float64)
    z = z_scores(cells.slopes[:, style], side, count)
    a, b = cells.a.astype(np.intp), cells.b.astype(np.intp)
    if compat == "fastchat":
        return fastchat_style(a, b, cells.y, count, z, len(battles.models))
    check_linked(a, b, cells.y, len(battles.models))
    return arena_style(a, b, cells.y, count, z, len(battles.models))


def _effects(battles: Battles, found: StyleFit, compat: Compat) -> Estimate:
    names = [covariate.name for covariate in battles.covariates if covariate.rule != POSITION]
    unknown = np.full(len(names), np.nan) if found.covariance is None else None
    info = Provenance(method=compat, n_battles=battles.n_battles)
    return Estimate(names, found.coefficients, found.covariance, se=unknown, links="identity", info=info)


def _fit(a: AnyInts, b: AnyInts, y: Floats, weight: Floats, n_models: int) -> Floats:
    """Return the zero-sum maximum of the weighted likelihood."""
    check_linked(a, b, y, n_models)
    swapped = a > b
    i, j = np.where(swapped, b, a), np.where(swapped, a, b)
    keys, inverse = np.unique(i * n_models + j, return_inverse=True)
    total = sum_by(inverse, weight, keys.size)
    mean = sum_by(inverse, weight * np.where(swapped, 1.0 - y, y), keys.size) / total
    pairs = Pairs(np.zeros_like(keys), keys // n_models, keys % n_models, total, mean)
    return np.asarray(fit_batch(pairs, np.array([n_models])).scores[0])


def check_linked(a: AnyInts, b: AnyInts, y: Floats, n_models: int) -> None:
    """Raise where some models only won, only lost or never met the others."""
    groups = strong_components(a, b, y, n_models)[0]
    if np.ptp(groups):
        outside = np.flatnonzero(groups != np.bincount(groups).argmax())
        raise SeparationError(
            f"the ratings do not exist: models with codes {outside[:10].tolist()} only won, only lost, or never met "
            "the others; leave them out."
        )


# ------------------------------------------------------------------------------
# Boards with the arithmetic of other packages, for users who switch and compare.
# ------------------------------------------------------------------------------


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
    if np.any(battles.cells.y == BOTH_BAD):
        raise MethodError(f"{compat} does not know votes that both were bad as an outcome: use both_bad='tie'.")
    if scale != "elo":
        raise ScaleError(f"{compat} boards are in Elo points; leave scale={scale!r} out.")
    if battles.cells.weight is not None:
        raise MethodError(f"{compat} has no weights of votes: read them without weight=, or leave compat out.")
    if battles.reweight is not None and compat != "arena-rank":
        raise MethodError(f"{compat} does not reweight pairs: read the votes without reweight=, or leave compat out.")
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
    columns: Any = (cells.a, cells.b, cells.y, cells.count, d1)
    none = np.full(d1, np.nan)
    try:
        style = _style(battles, compat)
        if style is not None:
            ratings, se = style.ratings, none if style.variances is None else np.sqrt(style.variances)
        elif compat == "arena-rank":
            ratings, variances = arena_rank(cells.a, cells.b, cells.y, cells.count, d1, battles.vote_weights)
            se = np.sqrt(variances)
        else:
            ratings, se = (fastchat_ratings if compat == "fastchat" else fschat_ratings)(*columns), none
    except SeparationError as error:
        raise SeparationError(f"{compat} has no ratings here: {_why(battles)}") from error
    shift = _shift(battles.models, ratings, compat, anchor)
    ratings = ratings + shift
    half = normal_quantile(level) * se
    lower, upper = ratings - half, ratings + half
    ranks = rank_models(ratings, lower[:, None] > upper[None, :], lower, upper)
    votes, won = battle_counts(battles, np.ones(1))
    order = np.argsort(-level_ties(ratings, se), kind="stable")
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
        effects=None if style is None else _effects(battles, style, compat),
        info=Provenance(
            method=compat, n_battles=battles.n_battles, level=level, notes=(*battles.notes, *_notes(compat, battles))
        ),
    )


def _shift(models: tuple[Any, ...], ratings: Floats, compat: Compat, anchor: tuple[Any, float] | None) -> float:
    anchor = ANCHORS.get(compat) if anchor is None else anchor
    return 0.0 if anchor is None or anchor[0] not in models else anchor[1] - float(ratings[models.index(anchor[0])])


def _notes(compat: str, battles: Battles) -> tuple[str, ...]:
    y, count = battles.cells.y, battles.cells.count
    says = f"ratings by the arithmetic of {NAMES[compat]}, which gives no intervals"
    if compat == "arena-rank":
        says = f"ratings and intervals by the arithmetic of {NAMES[compat]}; ranks and tiers from its intervals"
    own = (self_note(battles.n_self),) if battles.n_self else ()
    if np.any(y != 0.5):
        n_ties = int(count[y == 0.5].sum())
        return (says, *own, *((tie_note(n_ties, battles.n_battles),) if n_ties else ()))
    ties = "every vote is a tie: all ratings are the same"
    widths = ", and its intervals have no width, however few votes there are" if compat == "arena-rank" else ""
    return says, ties + widths


def _why(battles: Battles) -> str:
    cells = battles.cells
    labels = strong_components(cells.a, cells.b, cells.y, len(battles.models))[0]
    outside = np.setdiff1d(np.arange(len(battles.models)), component_members(labels)[0])
    shown = ", ".join(repr(battles.models[k]) for k in outside[:5])
    return f"{shown} only won, only lost or never met the others; leave them out with battles.select(...)."
