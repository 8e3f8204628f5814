"""Who has a rank on a board, ranks with their uncertainty from scores and their covariance, and gaps to rivals.

Ranks take the ranked models of one board: `score` (d1,), `cov` (d1, d1), finite, larger is better.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrbtl.inference.always_valid import ONE_LOOK, Validity
from lrbtl.inference.analysis import Analysis
from lrbtl.inference.joint import max_gap_quantile
from lrbtl.inference.power import Prospect
from lrbtl.inference.verdicts import ELO
from lrbtl.methods.base import Shrinkage
from lrbtl.methods.standard_errors import pair_widening
from lrbtl.typing import Bools, Floats, Longs, Seed

Texts = NDArray[np.str_]

PANEL = 256  # models that are compared with all others at a time
ROUNDING = 1e-9  # of a standard error, by which equal scores may differ


@dataclass(frozen=True)
class Ranks:
    """Ranks of d1 models, each field (d1,)."""

    rank: Longs  # one plus the number of models strictly better
    best: Longs  # ranks compatible with the pointwise intervals, within the simultaneous ones
    worst: Longs
    rank_lower: Longs  # simultaneous rank interval, right for all models at once
    rank_upper: Longs
    tier: Longs  # 1, 2, ... downwards

    def each(self, change: Callable[[Longs], Longs]) -> dict[str, Any]:
        """Return every kind of rank, changed, by name."""
        return {item.name: change(getattr(self, item.name)) for item in fields(self)}


def find_statuses(votes: Longs, votes_here: Longs, placed: Bools, min_battles: int) -> tuple[Texts, bool]:
    """Return the status of each model on a board, and whether the limit of `min_battles` was waived.

    It is where fewer than two models would have a rank.

    >>> votes, here = np.array([90, 80, 70, 9]), np.array([40, 40, 0, 9])
    >>> find_statuses(votes, here, np.array([True, True, True, True]), 30)[0].tolist()
    ['ranked', 'ranked', 'absent', 'preliminary']
    """
    status = np.where(votes < min_battles, "preliminary", "ranked")
    status = np.where(placed, status, "unplaced")
    status = np.where(votes_here > 0, status, "absent")
    waived = bool((status == "ranked").sum() < 2 and (status == "preliminary").any())
    return np.where(waived & (status == "preliminary"), "ranked", status), waived


def rank_models(score: Floats, above: Bools, lower: Floats, upper: Floats) -> Ranks:
    """Return every kind of rank of the models of one board.

    `above` is that of `joint_above`; `lower`, `upper` are the pointwise intervals. Where errors of models go together,
    gaps may be clear although intervals overlap: ranks that the gaps exclude for all models at once are none for one.

    >>> score, se = np.array([2.0, 0.0, 0.1]), 0.2
    >>> ranks = rank_models(score, joint_above(score, se**2 * np.eye(3)), score - 2 * se, score + 2 * se)
    >>> ranks.rank, ranks.rank_lower, ranks.rank_upper, ranks.tier
    (array([1, 3, 2]), array([1, 2, 2]), array([1, 3, 3]), array([1, 2, 2]))
    """
    score = level_ties(score, upper - lower)
    rank, (best, worst), (low, high) = rank_scores(score), rank_spread(lower, upper), rank_interval(above)
    return Ranks(
        rank,
        np.minimum(np.maximum(best, low), rank),
        np.maximum(np.minimum(worst, high), rank),
        np.minimum(low, rank),
        np.maximum(high, rank),
        tiers(score, above),
    )


def level_ties(score: Floats, se: Floats) -> Floats:
    """Return scores of which those that differ by rounding only, beside their standard errors, are equal.

    Models with the same record then share a rank, and stand in the order of their labels.

    >>> level_ties(np.array([0.5, 1.0, 0.5 + 1e-12]), np.full(3, 0.1))
    array([0.5, 1. , 0.5])
    """
    known = se[np.isfinite(se) & (se > 0)]
    if not known.size:
        return score
    order = np.argsort(score, kind="stable")
    steps = np.diff(score[order], prepend=score[order[:1]])
    starts = np.maximum.accumulate(np.where(steps <= ROUNDING * np.median(known), 0, np.arange(score.size)))
    out = np.empty_like(score)
    out[order] = score[order][starts]
    return out


def rank_scores(score: Floats) -> Longs:
    """Return one plus the number of models strictly better.

    >>> rank_scores(np.array([0.5, 1.0, 0.5]))
    array([2, 1, 2])
    """
    return 1 + score.size - np.searchsorted(np.sort(score), score, side="right")


def rank_spread(lower: Floats, upper: Floats) -> tuple[Longs, Longs]:
    """Return the best and the worst rank compatible with pointwise intervals.

    best(a) = 1 + #{b: lower_b > upper_a}, worst(a) = d1 - #{b: upper_b < lower_a}. A bound that is NaN is none.

    >>> rank_spread(np.array([1.0, -1.0, 0.5]), np.array([2.0, 0.0, 1.5]))
    (array([1, 3, 1]), array([2, 3, 2]))
    """
    lower, upper = np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)
    best = 1 + lower.size - np.searchsorted(np.sort(lower), upper, side="right")
    worst = lower.size - np.searchsorted(np.sort(upper), lower, side="left")
    return best, worst


def joint_above(
    score: Floats,
    cov: Floats,
    *,
    variance_noise: Floats | None = None,
    level: float = 0.95,
    rng: Seed = 0,
    valid: Validity = ONE_LOOK,
) -> Bools:
    """Return above[a, b]: a is better than b, at joint confidence `level` over all pairs.

    above[a, b] = score_a - score_b > c se_ab, c the quantile of the largest |gap| / se over all pairs, widened by the
    variance noise of the scores.

    >>> joint_above(np.array([1.0, 0.0]), 0.01 * np.eye(2))
    array([[False,  True],
           [False, False]])
    """
    gaps = JointGaps.of(cov, variance_noise, level=level, rng=rng, valid=valid)
    out = np.empty(cov.shape, dtype=np.bool_)
    for first in range(0, len(out), PANEL):
        rows = slice(first, first + PANEL)
        se = gaps.errors(rows)
        out[rows] = (score[rows, None] - score > gaps.reach(se, rows)) & (se > 0)
    return out


@dataclass(frozen=True)
class JointGaps:
    """Errors of the gaps between all pairs of models, and how far joint intervals reach.

    Attributes
    ----------
    cov : array (d1, d1)
        Of the scores.
    critical : float
        Quantile of the largest |gap| / se over all pairs, at so many looks as are asked for.
    widening : array (d1, d1) or None
        Of the reach, where variances of scores are noisy.
    """

    cov: Floats
    critical: float
    widening: Floats | None

    @classmethod
    def of(
        cls,
        cov: Floats,
        variance_noise: Floats | None = None,
        *,
        level: float = 0.95,
        rng: Seed = 0,
        valid: Validity = ONE_LOOK,
    ) -> "JointGaps":
        """Return those of scores with this covariance."""
        critical = valid.joint(max_gap_quantile(cov, level, rng), level, len(cov) * (len(cov) - 1) // 2)
        known = variance_noise is None or not variance_noise.any()
        return cls(cov, critical, None if known or variance_noise is None else pair_widening(critical, variance_noise))

    def errors(self, rows: slice = slice(None)) -> Floats:
        """Return the standard errors of the gaps of some models to all, (n, d1)."""
        own = np.diag(self.cov)
        return np.sqrt(np.maximum(own[rows, None] + own - self.cov[rows] - self.cov[:, rows].T, 0.0))

    def reach(self, se: Floats, rows: slice = slice(None)) -> Floats:
        """Return half the widths of joint intervals of gaps with these errors."""
        return self.critical * se if self.widening is None else self.critical * self.widening[rows] * se


def rank_interval(above: Bools) -> tuple[Longs, Longs]:
    """Return the simultaneous rank interval of each model.

    lower(a) = 1 + #{b: above[b, a]}, upper(a) = d1 - #{b: above[a, b]}.

    >>> rank_interval(np.array([[False, True, False], [False, False, False], [False, True, False]]))
    (array([1, 3, 1]), array([2, 3, 2]))
    """
    return 1 + above.sum(axis=0), len(above) - above.sum(axis=1)


def tiers(score: Floats, above: Bools) -> Longs:
    """Return the tier of each model: 1 for the top group, 2 for the next, ...

    Walk down the board; a new tier starts at the first model that the tier's top model is above (the joint gap test).
    So no model of a tier is distinguishable from the tier's top, though it may be from a model between.

    >>> score = np.array([0.0, 2.0, 0.1, 1.9])
    >>> tiers(score, joint_above(score, 0.01 * np.eye(4)))
    array([2, 1, 2, 1])
    """
    order = np.argsort(-score, kind="stable")
    tier = np.empty(score.size, dtype=np.int64)
    first, number = 0, 1
    while first < score.size:
        below = np.flatnonzero(above[order[first], order[first:]])
        last = first + int(below[0]) if below.size else score.size
        tier[order[first:last]] = number
        first, number = last, number + 1
    return tier


@dataclass(frozen=True)
class Rivals:
    """Gaps of ranked models to rivals, with their standard errors in log odds; detectable gaps only when asked for."""

    analysis: Analysis
    weights: Floats
    models: Longs
    others: Longs
    gap: Floats
    se: Floats
    level: float

    @cached_property
    def places(self) -> Longs:
        """One plus the place of each model among those ranked, 0 for the others, (d1,)."""
        out = np.zeros(self.analysis.battles.shape[0], dtype=np.int64)
        out[self.models] = 1 + np.arange(self.models.size)
        return out

    @cached_property
    def shrinkage(self) -> Shrinkage:
        """What a prior does to the gaps."""
        against = np.zeros((self.models.size, self.analysis.battles.shape[0]))
        each = np.arange(self.models.size)
        against[each, self.models], against[each, self.others] = 1.0, -1.0
        return self.analysis.run.board_shrinkage(self.weights, None, against)

    def detectable(self, order: Longs) -> Floats:
        """Return in Elo points the smallest gaps that would have been shown, of all models in some order."""
        unit = self.analysis.log_odds_unit
        prospect = Prospect.of(
            self.gap / unit, self.se / unit, self.shrinkage, unit, Validity.of(self.analysis.provenance)
        )
        found = ELO * prospect.detectable(self.level)
        return np.asarray(np.append(np.nan, found)[self.places[order]])
