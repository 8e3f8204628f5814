"""Models placed against the scores of others: those that only won or only lost, and those with very few battles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from lrbtl.data.battles import Battles
from lrbtl.fitting.separate import one_sided_gap_bound
from lrbtl.inference.joint import normal_quantile
from lrbtl.typing import Floats, Longs

FEW_BATTLES = 100


@dataclass(frozen=True)
class Placement:
    """Where battles place a model outside the core, on the scale of scores.

    Attributes
    ----------
    score, lower, upper : float
        NaN and infinities where the battles say nothing.
    note : str
    variance : float
        Of the score; NaN where it has no two-sided interval.
    share : array (k,)
        How much the score moves with that of each core model.
    """

    score: float
    lower: float
    upper: float
    note: str
    variance: float = np.nan
    share: Floats | None = None


@dataclass(frozen=True)
class Record:
    """Battles of one model against the core: arrays of opponent (position in the core), context, outcome and count."""

    opponent: Longs
    context: Longs
    y: Floats
    count: Longs


def place_outside(
    battles: Battles, model: int, inside: Longs, by_context: Floats, cov: Floats, weights: Floats, *, level: float
) -> Placement:
    """Return the place of a model outside the core, taken to be the same relative to the core in all contexts.

    With n battles against opponents of scores θ_c, the interval holds every s at which the score test
    |Σ n (y - σ(s - θ_c))| <= z √(Σ n σ (1 - σ)) accepts. A model that won everything has only a lower limit, where
    winning everything has probability (1 - level) / 2, and its score is where that is 1/2 (median-unbiased); one that
    lost everything alike. Where such a model did not play in all contexts of the board, it has no limits: its record
    says nothing of the contexts in which it never played. A two-sided interval allows for them by the drift
    (`context_drift`). The opponents' errors are added as independent ones to each limit's distance from the score.

    Parameters
    ----------
    battles : Battles
    model : int
        Position of the model among all.
    inside : array (k,)
        Positions of the core models.
    by_context : array (k, D)
        Scores of the core in each context.
    cov : array (k, k)
        Covariance of the core's scores on this board.
    weights : array (D,)
        The board's weights; battles in contexts without weight do not count.
    level : float
    """
    record = read_record(battles, model, inside, weights)
    total = int(record.count.sum())
    if not total:
        return Placement(np.nan, -np.inf, np.inf, "no battle here against the models that have a score")
    theta = by_context[record.opponent, record.context]
    won = float(record.count @ record.y)
    two_sided = 0.0 < won < total
    if two_sided:
        middle, low, high = score_interval(theta, record.y, record.count, level)
    elif won > 0:
        middle, low = (one_sided_gap_bound(record.count, theta, 0.0, level=x) for x in (0.0, level))
        high = np.inf
    else:
        middle, high = (-one_sided_gap_bound(record.count, -theta, 0.0, level=x) for x in (0.0, level))
        low = -np.inf
    played, asked = np.unique(record.context).size, int(np.count_nonzero(weights))
    if not two_sided and played < asked:
        low, high = -np.inf, np.inf
    fisher = record.count * expit(middle - theta) * expit(theta - middle)
    share = np.bincount(record.opponent, fisher, inside.size) / fisher.sum()
    borrowed = max(float(share @ cov @ share), 0.0)
    if two_sided:
        borrowed += context_drift(by_context, np.bincount(record.context, fisher, weights.size) / fisher.sum(), weights)
    spread = normal_quantile(level) * np.sqrt(borrowed)
    return Placement(
        middle,
        middle - float(np.hypot(middle - low, spread)),
        middle + float(np.hypot(high - middle, spread)),
        place_note(won, total, played, asked),
        1.0 / float(fisher.sum()) + borrowed if two_sided else np.nan,
        share,
    )


def context_drift(by_context: Floats, seen: Floats, weights: Floats) -> float:
    """Return the mean square, over the core, of scores averaged with shares `seen` less those with the board's weights.

    It is what a model that is no more even over contexts than the core may differ by where it did not play.

    Examples
    --------
    >>> import numpy as np
    >>> context_drift(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    0.25
    """
    return float(np.mean((by_context @ (seen - weights)) ** 2))


def place_note(won: float, total: int, played: int, asked: int) -> str:
    """Return what is said of a model that won so many of all its battles, in some of the contexts asked for."""
    where = f", in {played} of {asked} contexts" if played < asked else ""
    if 0.0 < won < total:
        few = "only " if total < FEW_BATTLES else ""
        battles = f"{few}{total:,} battle{'s' * (total > 1)}{where} with scored models"
        return f"{battles}: taken to stand at one place in all contexts"
    record = f"{'won' if won else 'lost'} {f'all {total:,} battles' if total > 1 else 'its only battle'}{where}"
    if where:
        return f"{record}: no limits overall"
    even = "; taken to stand at one place in all contexts" if asked > 1 else ""
    return f"{record}: no {'upper' if won else 'lower'} limit{even}"


def score_interval(theta: Floats, y: Floats, count: Longs, level: float) -> tuple[float, float, float]:
    """Return the maximum-likelihood score of a model against known opponents and the limits of its score-test interval.

    Examples
    --------
    >>> import numpy as np
    >>> middle, low, high = score_interval(np.zeros(2), np.array([1.0, 0.0]), np.array([6, 4]), 0.95)
    >>> [round(float(expit(x)), 3) for x in (middle, low, high)]  # Wilson's interval for 6 of 10
    [0.6, 0.313, 0.832]
    """
    from scipy.optimize import brentq  # a slow import that most boards do not need

    z = normal_quantile(level)

    def statistic(s: float, target: float) -> float:
        p = expit(s - theta)
        return float(count @ (y - p) - target * np.sqrt(count @ (p * (1.0 - p))))

    reach = float(np.abs(theta).max()) + 5.0 + 2.0 * np.log1p(z**2)
    roots = []
    for target in (0.0, z, -z):
        low, high = -reach, reach
        while statistic(low, target) <= 0:
            low *= 2.0
        while statistic(high, target) >= 0:
            high *= 2.0
        roots.append(float(brentq(statistic, low, high, args=(target,), xtol=1e-12)))
    return roots[0], roots[1], roots[2]


def read_record(battles: Battles, model: int, inside: Longs, weights: Floats) -> Record:
    """Return the battles of a model against the core in contexts that have a weight."""
    cells = battles.cells
    place = np.full(len(battles.models), -1, dtype=np.int64)
    place[inside] = np.arange(inside.size)
    own = battles.cells_of_model(model)
    first = cells.a[own] == model
    rival = place[np.where(first, cells.b[own], cells.a[own])]
    ours = (rival >= 0) & (weights[cells.context[own]] > 0)
    y = np.where(first, cells.y[own], 1.0 - cells.y[own])
    return Record(rival[ours], cells.context[own][ours].astype(np.int64), y[ours], cells.count[own][ours])
