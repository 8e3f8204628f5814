"""Critical values of joint intervals: quantiles of the largest of many dependent |Z|.

The tail P(max|Z| > c) is estimated by sampling from the union of the tails: pick a statistic at random, draw the vector
given that this one exceeds c0 <= c, and weigh the draw by one over the number of statistics that exceed c0. The
relative error does not grow as the tail gets smaller, and independent or identical statistics cost nothing
[Owen, Maximov & Chertkov 2019, Importance sampling the union of rare events]. Each normal vector serves several picks,
which see nearly independent parts of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import sqrt

import numpy as np
from scipy.linalg.lapack import dpstrf, spotrf
from scipy.special import erfc, ndtr, ndtri

from lrbtl._kernels.gaps import scan_gaps
from lrbtl.errors import CovarianceError, LevelError, is_within, make_rng, spelled
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Longs, Seed

CHUNK = 1 << 7  # normal vectors at a time
USES = 16  # picks per normal vector
SEARCH_DRAWS, BATCH_DRAWS = 1 << 8, 1 << 10
SPARE = 1.05  # draws over those that the error so far asks for
MOST_DRAWS = 1 << 18
MOST_VALUES = 1 << 28  # draws times statistics
MANY, JITTER = 1000, 1e-5  # statistics beyond which draws are made in single precision, with so much more variance each
TOLERANCE = 0.0075  # standard error of a critical value, if MOST_VALUES allows: 0.2% of the gaps it decides on
GOAL = 1.3  # tail at the start of the draws over the tail asked for
DIGITS = 9  # of covariances, beside the largest one, that decide on the order of statistics: the rest is rounding


def normal_quantile(level: float) -> float:
    """Return z with P(|Z| <= z) = level.

    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    if not is_within(level, 0.0, 1.0):
        raise LevelError(
            f"level is {spelled(level)}; a confidence level lies between 0 and 1, for example 0.95.",
            argument="level",
            value=level,
        )
    return -float(ndtri((1.0 - level) / 2.0))


def sidak_quantile(level: float, n: int) -> float:
    """Return the quantile of max|Z| over n independent Z, an upper bound for dependent ones."""
    normal_quantile(level)
    return -float(ndtri(-np.expm1(np.log(level) / n) / 2.0))


@dataclass(frozen=True)
class _Statistics:
    """Standardised linear statistics of a Gaussian vector G = factor x, x ~ N(0, I).

    `factor` is (d, k). `scan(G, pick, beyond, bar)` takes draws G (n, d), moves draw i so that statistic pick[i, j] is
    beyond[i, j], and gives the largest |statistic| of each and how many exceed the bar, (n, m) each.
    """

    factor: Floats
    n_statistics: int
    scan: Callable[[Floats, Longs, Floats, float], tuple[Floats, Floats]]


def max_t_quantile(correlation: Floats, level: float = 0.95, rng: Seed = 0) -> float:
    """Return c with P(max_i |Z_i| <= c) = level, Z ~ N(0, correlation).

    Parameters
    ----------
    correlation
        (M, M) correlation matrix, singular or not.
    level
        Joint coverage.
    rng
        Seed of the draws. The result has a standard error of 0.0075, more where so many statistics limit the draws.

    >>> round(max_t_quantile(np.eye(10)), 3)
    2.8
    >>> round(max_t_quantile(np.ones((10, 10))), 2)
    1.96
    """
    correlation = _in_own_order(_checked_square(correlation, "correlation"))
    n = len(correlation)
    low, high = normal_quantile(level), sidak_quantile(level, max(n, 1))
    if n <= 1 or np.abs(correlation - np.eye(n)).max() < 1e-12:
        return high
    statistics = _Statistics(
        factor=covariance_factor(_without_rounding(correlation)),
        n_statistics=n,
        scan=partial(_scan_entries, correlation),
    )
    return float(np.clip(_tail_quantile(statistics, level, rng), low, high))


def max_gap_quantile(cov: Floats, level: float = 0.95, rng: Seed = 0) -> float:
    """Return c with P(max_{a<b} |G_a - G_b| / se_ab <= c) = level, G ~ N(0, cov), over all pairs.

    The (pairs, pairs) covariance is never formed; pairs that move together exactly (se_ab = 0) do not count.

    >>> round(max_gap_quantile(np.eye(2)), 3)
    1.96
    >>> abs(max_gap_quantile(np.eye(10)) - 4.474 / 2**0.5) < 0.02  # the studentized range
    True
    """
    cov = _in_own_order(_checked_square(cov, "covariance"))
    precision = _gap_precision(cov)
    n, varies = len(cov), len(cov) * (len(cov) - 1) // 2
    pairs: Callable[[Longs], Longs] = partial(pair_at, n)
    if np.count_nonzero(precision) < n * (n - 1):
        some = np.stack(np.nonzero(np.triu(precision)), axis=1)
        varies, pairs = len(some), some.__getitem__
    low, high = normal_quantile(level), sidak_quantile(level, max(varies, 1))
    if varies <= 1:
        return low
    factor = covariance_factor(_without_rounding(cov))
    factor -= factor.mean(axis=0)  # gaps stay, and bounds on them are tighter without what all scores share
    cov = cov - cov.mean(axis=0)
    cov -= cov.mean(axis=1, keepdims=True)
    statistics = _Statistics(
        factor=factor,
        n_statistics=varies,
        scan=partial(_scan_gaps, cov, precision, _least_squares(cov, precision), pairs),
    )
    return float(np.clip(_tail_quantile(statistics, level, rng), low, high))


def _scan_entries(correlation: Floats, draws: Floats, pick: Longs, beyond: Floats, bar: float) -> tuple[Floats, Floats]:
    largest, count = np.empty(pick.shape), np.empty(pick.shape)
    rows = np.arange(len(draws))
    for j, one in enumerate(pick.T):
        values = np.abs(draws + correlation[one] * (beyond[:, j] - draws[rows, one])[:, None])
        largest[:, j], count[:, j] = values.max(axis=1), (values > bar).sum(axis=1)
    return largest, count


def _least_squares(cov: Floats, precision: Floats) -> Floats:
    """Return by how much, times bar^2, some member of a pair with a gap above the bar must be away from zero, squared.

    With v_a = Var(G_a), (g_a - g_b)^2 <= (v_a + v_b) (g_a^2 / v_a + g_b^2 / v_b): a pair above the bar has a member
    with g_a^2 / v_a > bar^2 / (2 max_b (v_a + v_b) precision_ab).
    """
    own = np.diag(cov)
    reach = np.array([((mine + own) * row).max() for mine, row in zip(own, precision, strict=True)])
    return np.asarray(0.5 * (1 - 1e-9) * own / np.maximum(reach, 1e-300))


def _scan_gaps(
    cov: Floats,
    precision: Floats,
    least: Floats,
    pairs: Callable[[Longs], Longs],
    draws: Floats,
    pick: Longs,
    beyond: Floats,
    bar: float,
) -> tuple[Floats, Floats]:
    """Return what the kernel finds; it skips models that cannot be part of a gap above the bar."""
    floor = bar**2 * least
    largest, count = np.empty(pick.shape), np.empty(pick.shape)
    a, b = np.ascontiguousarray(np.moveaxis(pairs(pick), -1, 0))
    scan_gaps(draws, a, b, beyond, cov, precision, floor, bar * bar, np.empty(len(cov)), largest, count)
    return np.sqrt(largest), count


def _gap_precision(cov: Floats) -> Floats:
    """Return 1 / Var(G_a - G_b), and 0 where that variance is rounding error."""
    variance = gap_variances(cov)
    varies = variance > 1e-12 * np.diag(cov).max(initial=0.0)
    np.divide(1.0, variance, out=variance, where=varies)
    variance[~varies] = 0.0
    return variance


def pair_at(n: int, position: Longs) -> Longs:
    """Return the pairs a < b of n things at some positions in the order (0, 1), (0, 2), ..., (..., 2).

    >>> pair_at(3, np.arange(3)).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    left = n * (n - 1) // 2 - 1 - position  # counted from the end, rows have 1, 2, 3, ... pairs
    row = ((np.sqrt(8.0 * left + 1.0) - 1.0) / 2.0).astype(np.int64)
    row += (row + 1) * (row + 2) // 2 <= left  # rounding
    row -= row * (row + 1) // 2 > left
    return np.asarray(np.stack([n - 2 - row, n - 1 - (left - row * (row + 1) // 2)], axis=-1))


def _in_own_order(cov: Floats) -> Floats:
    """Return a covariance with rows and columns in an order that it determines itself: draws know no labels."""
    if len(cov) < 3:
        return cov
    scale = max(float(np.abs(cov).max()), 1e-300)
    gaps = gap_variances(cov) / scale
    keys = (np.diag(cov) / scale, gaps.mean(axis=1), (gaps**2).mean(axis=1))
    order = np.lexsort([np.round(key, DIGITS) for key in keys])
    return np.asarray(cov[np.ix_(order, order)])


def _without_rounding(cov: Floats) -> Floats:
    """Return a covariance in which what is equal but for rounding is equal, so that pivots know no labels either."""
    scale = np.ldexp(1.0, int(np.frexp(np.abs(cov).max(initial=0.0))[1]))  # a power of two, which rounds nothing
    return np.asarray(np.round(cov / scale, DIGITS + 2) * scale)


def gap_variances(cov: Floats) -> Floats:
    """Return Var(G_a - G_b) = cov_aa + cov_bb - 2 cov_ab of every pair, (d, d)."""
    out, diagonal = cov + cov.T, np.diag(cov)
    np.subtract(diagonal, out, out=out)
    out += diagonal[:, None]
    return np.asarray(np.maximum(out, 0.0, out=out))


def _checked_square(matrix: Floats, what: str) -> Floats:
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise CovarianceError(f"the {what} has shape {matrix.shape}; it must be square.")
    if not np.isfinite(matrix).all():
        raise CovarianceError(f"the {what} holds NaN or infinite values; drop the targets without a finite error.")
    return matrix


def covariance_factor(cov: Floats) -> Floats:
    """Return L (d, k) with cov = L Lᵀ, k the rank, by Cholesky with pivoting: cov may be singular.

    Of many statistics L is in single precision, with a little more variance each in the place of pivoting.
    """
    scale = float(np.diag(cov).max())
    if len(cov) > MANY:
        nearby = cov.astype(np.float32)
        nearby[np.diag_indices(len(cov))] += JITTER * scale
        lower, failed = spotrf(nearby.T, lower=1, clean=1, overwrite_a=1)
        if not failed:
            return np.asarray(lower)
    lower, pivots, rank, _ = dpstrf(cov, tol=1e-10 * scale, lower=1)
    factor = np.zeros((len(cov), rank))
    factor[pivots - 1] = np.tril(lower)[:, :rank]
    return factor


@one_blas_thread
def _tail_quantile(statistics: _Statistics, level: float, rng: Seed) -> float:
    """Return c with P(max |statistic| > c) = 1 - level, from as many draws as its standard error asks for."""
    generator = make_rng(rng)
    start = _search_start(statistics, level, generator)
    most = min(MOST_DRAWS, MOST_VALUES // statistics.n_statistics)
    maxima, weights, wanted = np.empty((0, USES)), np.empty((0, USES)), BATCH_DRAWS
    while True:
        more = _tail_draws(statistics, start, max(BATCH_DRAWS, wanted - maxima.size), generator)
        maxima, weights = np.concatenate([maxima, more[0]]), np.concatenate([weights, more[1]])
        if weights.mean() < 1.0 - level and start > normal_quantile(level):  # the search ended above the quantile
            start = _lowered(start, float(weights.mean()), level)
            maxima, weights = np.empty((0, USES)), np.empty((0, USES))
            continue
        quantile, error = _weighted_quantile(maxima, weights, 1.0 - level, start)
        if error < TOLERANCE or maxima.size + BATCH_DRAWS > most:
            return quantile
        wanted = min(int(SPARE * (error / TOLERANCE) ** 2 * maxima.size), most)


def _weighted_quantile(maxima: Floats, weights: Floats, tail: float, start: float) -> tuple[float, float]:
    """Return c with mean(weights [maxima > c]) = tail, not below `start`, and its standard error.

    The density at c is taken as c times the tail, as it is for normal tails far out. Rows are independent.
    """
    order = np.argsort(-maxima, axis=None)
    position = min(int(np.searchsorted(np.cumsum(weights.flat[order]), tail * maxima.size)), maxima.size - 1)
    quantile = max(float(maxima.flat[order[position]]), start)
    spread = float(np.std((weights * (maxima > quantile)).mean(axis=1))) / np.sqrt(len(maxima))
    return quantile, spread / (tail * quantile)


def _search_start(statistics: _Statistics, level: float, generator: np.random.Generator) -> float:
    """Return a point a little below the quantile: down from Šidák's, as if the tail were that of exp(-c²/2)."""
    low, goal = normal_quantile(level), GOAL * (1.0 - level)
    start = max(low, sidak_quantile(max(1.0 - goal, level / 2), statistics.n_statistics))
    while start > low:
        tail = float(_tail_draws(statistics, start, SEARCH_DRAWS, generator)[1].mean())
        if tail >= 0.88 * goal:
            break
        start = _lowered(start, tail, level)
    return start


def _lowered(start: float, tail: float, level: float) -> float:
    """Return where the tail would be a little larger than asked for, given what it is at `start`."""
    low = normal_quantile(level)
    return float(np.sqrt(max(low**2, start**2 - max(2.0 * np.log(GOAL * (1.0 - level) / tail), 0.05))))


def _tail_draws(
    statistics: _Statistics, start: float, n_draws: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return draws of max |statistic| given that it exceeds `start`, and weights whose mean is its tail there.

    Rows belong to normal vectors, columns to their uses.
    """
    factor, total = statistics.factor, statistics.n_statistics
    maxima, counts = [], []
    for done in range(0, n_draws // USES, CHUNK):
        shape = min(CHUNK, n_draws // USES - done), USES
        draws = generator.standard_normal((shape[0], factor.shape[1])).astype(factor.dtype, copy=False) @ factor.T
        pick = generator.integers(0, total, shape)
        beyond = -ndtri(generator.random(shape) * ndtr(-start))  # Z given Z > start; the sign is free by symmetry
        largest, count = statistics.scan(draws.astype(np.float64, copy=False), pick, beyond, start)
        maxima.append(largest)
        counts.append(count)
    scale = total * 2.0 * ndtr(-start)
    return np.concatenate(maxima), scale / np.maximum(np.concatenate(counts), 1.0)


# ------------------------------------------------------------------------------
# Wald tests and intervals: estimates that are normal with a known standard error; and tests of many at once.
# ------------------------------------------------------------------------------


@dataclass(frozen=True)
class WaldTest:
    """Two-sided test that each target equals `null`; all fields (M,)."""

    null: Floats
    z: Floats
    pvalue: Floats


def wald_statistic(difference: Floats, se: Floats) -> tuple[Floats, Floats]:
    """Return z = difference / se and its two-sided p-value 2 P(Z > |z|); NaN for 0 / 0.

    >>> z, pvalue = wald_statistic(np.array([1.96]), np.array([1.0]))
    >>> pvalue.round(3)
    array([0.05])
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = difference / se
    return z, erfc(np.abs(z) / sqrt(2.0))


def wald_interval(center: Floats, half_width: Floats) -> Floats:
    """Return (M, 2) bounds center ± half_width."""
    with np.errstate(invalid="ignore"):
        return np.column_stack([center - half_width, center + half_width])


def bernstein_width(second: Floats, largest: Floats, n: float, level: float) -> Floats:
    """Return half the length of an interval for the mean of n values that holds without a normal approximation.

    P(|mean - its expectation| > sqrt(2 V log(4 / d) / n) + 14 b log(4 / d) / (3 (n - 1))) <= d = 1 - level for values
    of size at most b, V their mean square [Maurer & Pontil 2009, Theorem 4, both sides]. Bernstein's inequality, as in
    [Li26, app:pd-bernstein-template], needs the true variance in the place of V.

    >>> bernstein_width(np.array([1.0]), np.array([4.0]), 10_000, 0.95).round(3)
    array([0.038])
    """
    log = np.log(4.0 / (1.0 - level))
    return np.asarray(np.sqrt(2.0 * second * log / n) + 14.0 * largest * log / (3.0 * max(n - 1.0, 1.0)))


def holm(pvalues: Floats, level: float) -> Bools:
    """Return which hypotheses are rejected so that none is wrongly with probability 1 - level.

    >>> holm(np.array([0.01, 0.04, 0.02]), 0.05).tolist()
    [True, True, True]
    """
    order = np.argsort(pvalues, kind="stable")
    passed = pvalues[order] <= level / np.arange(len(pvalues), 0, -1)
    out = np.zeros(len(pvalues), dtype=np.bool_)
    out[order] = np.cumprod(passed).astype(np.bool_)
    return out
