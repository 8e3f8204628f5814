"""The axis on which a board's scores and intervals are drawn, the same in pictures and reports."""

import numpy as np

from lrbtl.board_types import Floats

WIDE = 3.0  # times the median width: intervals up to it always fit on the axis
REACH = 0.5  # of the other scores' range, by which a score without an end of its interval may extend the axis
MARGIN = 0.04


def axis_range(score: Floats, lower: Floats, upper: Floats) -> tuple[float, float] | None:
    """Return the ends of an axis for a board, or None where nothing on it is finite.

    A few very wide intervals do not stretch it: those wider than the other scores are apart go on beyond its ends.

    Examples
    --------
    >>> score, half = np.array([1100.0, 1000.0, 900.0, 1000.0]), np.array([20.0, 20.0, 20.0, 500.0])
    >>> axis_range(score, score - half, score + half)
    (870.4, 1129.6)
    """
    score, lower, upper = (np.asarray(x, dtype=np.float64) for x in (score, lower, upper))
    bounded = np.isfinite(score) & np.isfinite(lower) & np.isfinite(upper)
    width = np.full(score.size, np.inf)
    width[bounded] = upper[bounded] - lower[bounded]
    kept = bounded
    if bounded.any():
        usual = WIDE * float(np.median(width[bounded]))
        kept = width <= max(usual, float(np.ptp(score[width <= usual])))
    elif np.isfinite(score).any():
        kept = np.isfinite(score)
    ends = np.concatenate([x[kept] for x in (score, lower, upper)])
    ends = ends[np.isfinite(ends)]
    if not ends.size:
        ends = np.concatenate([x[np.isfinite(x)] for x in (lower, upper)])
    if not ends.size:
        return None
    low, high = float(ends.min()), float(ends.max())
    reach = REACH * (high - low)
    near = score[np.isfinite(score) & ~kept & (score > low - reach) & (score < high + reach)]
    low, high = float(np.min([low, *near])), float(np.max([high, *near]))
    margin = MARGIN * (high - low) or 1.0
    return low - margin, high + margin
