"""Ranks with their uncertainty, from scores and their covariance.

Everything here takes the models of one board: `score` (d1,), `cov` (d1, d1), larger is better. A score may be NaN or
infinite (a model whose score does not exist, because it only won, only lost or never met the others); rows and columns
of `cov` that belong to such a model are ignored.
"""

from dataclasses import dataclass

import numpy as np

from lrbtl.inference.joint import gap_variances, max_gap_quantile
from lrbtl.methods.standard_errors import pair_widening
from lrbtl.typing import Bools, Floats, Longs, Seed

TEN_TO_ONE = float(np.log(10.0))


@dataclass(frozen=True)
class Ranks:
    """Ranks of d1 models, each field (d1,).

    `rank`: one plus the number of models strictly better; `best`, `worst`: ranks compatible with the pointwise
    intervals; `lower`, `upper`: simultaneous rank interval, right for all models at once; `tier`: 1, 2, ... downwards.
    """

    rank: Longs
    best: Longs
    worst: Longs
    lower: Longs
    upper: Longs
    tier: Longs


def list_scores(score: Floats, lower: Floats, upper: Floats, noted: Bools) -> tuple[Floats, Bools]:
    """Return the scores to show and which models they place on the board; the others come last.

    A model without an upper limit is shown at its lower limit, which is what its battles prove. One without a lower
    limit has no score. A model that is `noted`, and whose interval is wider than the scores of the models without a
    note are apart (and than odds of ten to one both ways), keeps its score but has no place.

    Examples
    --------
    >>> score, lower = np.array([0.0, 1.0, 1.4, 1.2, 3.0]), np.array([-0.3, 0.7, -9.0, 0.5, -np.inf])
    >>> upper, noted = np.array([0.3, 1.3, 11.8, np.inf, np.inf]), np.array([False, False, True, True, True])
    >>> list_scores(score, lower, upper, noted)
    (array([0. , 1. , 1.4, 0.5, nan]), array([ True,  True, False,  True, False]))
    """
    shown = np.where(np.isinf(lower), np.nan, np.where(np.isinf(upper), lower, score))
    sure = score[~noted]
    span = float(np.ptp(sure)) if sure.size > 1 else np.inf
    adrift = noted & (upper - lower > max(span, 2 * TEN_TO_ONE))
    adrift &= np.isfinite(lower) & np.isfinite(upper)
    return shown, ~np.isnan(shown) & ~adrift


def rank_models(score: Floats, above: Bools, lower: Floats, upper: Floats, noted: Bools | None = None) -> Ranks:
    """Return every kind of rank of the models of one board.

    `above` is that of `joint_above`; `lower`, `upper` are the pointwise intervals; tiers are not led by `noted` models.

    Examples
    --------
    >>> score, se = np.array([2.0, 0.0, 0.1]), 0.2
    >>> ranks = rank_models(score, joint_above(score, se**2 * np.eye(3)), score - 2 * se, score + 2 * se)
    >>> ranks.rank, ranks.lower, ranks.upper, ranks.tier
    (array([1, 3, 2]), array([1, 2, 2]), array([1, 3, 3]), array([1, 2, 2]))
    """
    rank, (best, worst), (low, high) = rank_scores(score), rank_spread(lower, upper), rank_interval(above)
    worst, high = (
        np.maximum(worst, rank),
        np.maximum(high, rank),
    )  # also where models without a score share the last one
    return Ranks(rank, best, worst, low, high, tiers(score, above, noted))


def rank_scores(score: Floats) -> Longs:
    """Return one plus the number of models strictly better; models without a score (NaN) share the last place.

    Examples
    --------
    >>> rank_scores(np.array([0.5, 1.0, 0.5, np.nan, np.inf]))
    array([3, 2, 3, 5, 1])
    """
    known = np.sort(score[~np.isnan(score)])
    return 1 + known.size - np.searchsorted(known, score, side="right") + np.where(np.isnan(score), known.size, 0)


def rank_spread(lower: Floats, upper: Floats) -> tuple[Longs, Longs]:
    """Return the best and the worst rank compatible with pointwise intervals.

    best(a) = 1 + #{b: lower_b > upper_a}, worst(a) = d1 - #{b: upper_b < lower_a}. A bound that is NaN is none.

    Examples
    --------
    >>> rank_spread(np.array([1.0, -1.0, 0.5]), np.array([2.0, 0.0, 1.5]))
    (array([1, 3, 1]), array([2, 3, 2]))
    """
    lower, upper = np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)
    best = 1 + lower.size - np.searchsorted(np.sort(lower), upper, side="right")
    worst = lower.size - np.searchsorted(np.sort(upper), lower, side="left")
    return best, worst


def joint_above(
    score: Floats, cov: Floats, *, variance_noise: Floats | None = None, level: float = 0.95, rng: Seed = 0
) -> Bools:
    """Return above[a, b]: a is better than b, at joint confidence `level` over all pairs.

    above[a, b] = score_a - score_b > c se_ab, c the quantile of the largest |gap| / se over all pairs, widened by the
    variance noise of the scores. A model without a finite score and variance is above none and below none: evidence
    from elsewhere (a one-sided bound) can be added to the result with `|` before it goes into `rank_interval` and
    `tiers`.

    Examples
    --------
    >>> joint_above(np.array([1.0, 0.0, np.inf]), 0.01 * np.eye(3))
    array([[False,  True, False],
           [False, False, False],
           [False, False, False]])
    """
    finite = np.flatnonzero(np.isfinite(score) & np.isfinite(np.diag(cov)))
    inner = np.ix_(finite, finite)
    gaps = score[finite][:, None] - score[finite][None, :]
    se = np.sqrt(gap_variances(cov[inner]))
    above = np.zeros((score.size, score.size), dtype=np.bool_)
    critical = max_gap_quantile(cov[inner], level, rng)
    reach = critical * (1.0 if variance_noise is None else pair_widening(critical, variance_noise[finite]))
    above[inner] = (gaps > reach * se) & (se > 0)
    return above


def rank_interval(above: Bools) -> tuple[Longs, Longs]:
    """Return the simultaneous rank interval of each model.

    lower(a) = 1 + #{b: above[b, a]}, upper(a) = d1 - #{b: above[a, b]}. A model that was compared with none keeps
    1 to d1, and leaves room for itself in the intervals of the others.

    Examples
    --------
    >>> rank_interval(np.array([[False, True, False], [False, False, False], [False, True, False]]))
    (array([1, 3, 1]), array([2, 3, 2]))
    """
    return 1 + above.sum(axis=0), len(above) - above.sum(axis=1)


def tiers(score: Floats, above: Bools, noted: Bools | None = None) -> Longs:
    """Return the tier of each model: 1 for the top group, 2 for the next, ...

    Walk down the board; a new tier starts at the first model that the tier's top model is above (the joint gap test).
    So no model of a tier is distinguishable from the tier's top, though it may be from a model between. A model
    without a finite score, above and below none, or `noted` for few battles opens a tier only where `above` says so,
    and the first other model after it counts as a top as well. Models without any score (NaN) come last.

    Examples
    --------
    >>> score = np.array([0.0, 2.0, 0.1, 1.9])
    >>> tiers(score, joint_above(score, 0.01 * np.eye(4)))
    array([2, 1, 2, 1])
    """
    order = np.argsort(-score, kind="stable")
    tier = np.empty(score.size, dtype=np.int64)
    placed = np.isfinite(score) & (above.any(axis=0) | above.any(axis=1))
    if noted is not None:
        placed &= ~noted
    current, tops = 1, [int(order[0])] if order.size else []
    for a in order:
        if above[tops, a].any():
            current, tops = current + 1, [int(a)]
        elif placed[a] and not placed[tops].any():
            tops.append(int(a))
        tier[a] = current
    return tier
