"""Critical values of joint intervals: quantiles of the largest of many dependent |Z|.

The tail P(max|Z| > c) is estimated by sampling from the union of the tails: pick a statistic at random, draw the vector
given that this one exceeds c0 <= c, and weigh the draw by one over the number of statistics that exceed c0. The
relative error does not grow as the tail gets smaller, and independent or identical statistics cost nothing
[Owen, Maximov & Chertkov 2019, Importance sampling the union of rare events].
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf
from scipy.special import ndtr, ndtri

from lrbtl.errors import CovarianceError, LevelError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Seed = int | np.random.Generator | None

CHUNK_ELEMENTS = 1 << 20
PILOT_DRAWS = 1 << 11
FEWEST_DRAWS, MOST_DRAWS = 1 << 12, 1 << 15
DRAW_BUDGET = 1 << 24


def normal_quantile(level: float) -> float:
    """Return z with P(|Z| <= z) = level.

    Examples
    --------
    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    if not 0.0 < level < 1.0:
        raise LevelError(f"level is {level!r}; a confidence level lies between 0 and 1, for example 0.95.")
    return -float(ndtri((1.0 - level) / 2.0))


def sidak_quantile(level: float, n: int) -> float:
    """Return the quantile of max|Z| over n independent Z, an upper bound for dependent ones."""
    normal_quantile(level)
    return -float(ndtri(-np.expm1(np.log(level) / n) / 2.0))


@dataclass(frozen=True)
class _Statistics:
    """Standardised linear statistics of a Gaussian vector G = factor x, x ~ N(0, I).

    `factor` is (d, k); `values(G)` maps (n, d) to all |statistics| (n, n_statistics); `one(G, pick)` gives the signed
    statistic pick[i] of row i, and `loading(pick)` its covariance (n, d) with G.
    """

    factor: Floats
    n_statistics: int
    values: Callable[[Floats], Floats]
    one: Callable[[Floats, Ints], Floats]
    loading: Callable[[Ints], Floats]


def max_t_quantile(correlation: Floats, level: float = 0.95, rng: Seed = 0) -> float:
    """Return c with P(max_i |Z_i| <= c) = level, Z ~ N(0, correlation).

    Parameters
    ----------
    correlation
        (M, M) correlation matrix, singular or not.
    level
        Joint coverage.
    rng
        Seed of the draws; the error stays below 0.01.

    Examples
    --------
    >>> round(max_t_quantile(np.eye(10)), 3)
    2.8
    >>> round(max_t_quantile(np.ones((10, 10))), 2)
    1.96
    """
    correlation = _checked_square(correlation, "correlation")
    n = len(correlation)
    low, high = normal_quantile(level), sidak_quantile(level, max(n, 1))
    if n <= 1 or np.array_equal(correlation, np.eye(n)):
        return high
    statistics = _Statistics(
        factor=_factor(correlation),
        n_statistics=n,
        values=np.abs,
        one=lambda g, pick: np.take_along_axis(g, pick[:, None], axis=1)[:, 0],
        loading=lambda pick: correlation[pick],
    )
    return float(np.clip(_tail_quantile(statistics, level, rng), low, high))


def max_gap_quantile(cov: Floats, level: float = 0.95, rng: Seed = 0) -> float:
    """Return c with P(max_{a<b} |G_a - G_b| / se_ab <= c) = level, G ~ N(0, cov), over all pairs.

    The (pairs, pairs) covariance is never formed; pairs that move together exactly (se_ab = 0) do not count.

    Examples
    --------
    >>> round(max_gap_quantile(np.eye(2)), 3)
    1.96
    >>> round(max_gap_quantile(np.eye(10)), 2)  # studentized range 4.474 / sqrt(2)
    3.16
    """
    cov = _checked_square(cov, "covariance")
    a, b = np.triu_indices(len(cov), 1)
    variance = gap_variances(cov)[a, b]
    scale = float(np.diag(cov).max(initial=0.0))
    varies = variance > 1e-12 * scale
    a, b, se = a[varies], b[varies], np.sqrt(variance[varies])
    low, high = normal_quantile(level), sidak_quantile(level, max(se.size, 1))
    if se.size <= 1:
        return low
    statistics = _Statistics(
        factor=_factor(cov),
        n_statistics=se.size,
        values=lambda g: np.abs(g[:, a] - g[:, b]) / se,
        one=lambda g, pick: (g[np.arange(len(g)), a[pick]] - g[np.arange(len(g)), b[pick]]) / se[pick],
        loading=lambda pick: (cov[a[pick]] - cov[b[pick]]) / se[pick, None],
    )
    return float(np.clip(_tail_quantile(statistics, level, rng), low, high))


def gap_variances(cov: Floats) -> Floats:
    """Return Var(G_a - G_b) = cov_aa + cov_bb - 2 cov_ab of every pair, (d, d)."""
    diagonal = np.diag(cov)
    return np.maximum(diagonal[:, None] + diagonal[None, :] - cov - cov.T, 0.0)


def _checked_square(matrix: Floats, what: str) -> Floats:
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise CovarianceError(f"the {what} has shape {matrix.shape}; it must be square.")
    if not np.isfinite(matrix).all():
        raise CovarianceError(f"the {what} holds NaN or infinite values; drop the targets without a finite error.")
    return matrix


def _factor(cov: Floats) -> Floats:
    """Return L (d, k) with cov = L Lᵀ, k the rank, by Cholesky with pivoting: cov may be singular."""
    scale = float(np.diag(cov).max())
    lower, pivots, rank, _ = dpstrf(cov, tol=1e-10 * scale, lower=1)
    factor = np.zeros((len(cov), rank))
    factor[pivots - 1] = np.tril(lower)[:, :rank]
    return factor


def _tail_quantile(statistics: _Statistics, level: float, rng: Seed) -> float:
    """Return c with P(max |statistic| > c) = 1 - level."""
    generator = np.random.default_rng(rng)
    tail, low = 1.0 - level, normal_quantile(level)
    n_draws = int(np.clip(DRAW_BUDGET // statistics.n_statistics, FEWEST_DRAWS, MOST_DRAWS))
    pilot = _pilot_maxima(statistics, generator)
    start = max(low, float(np.quantile(pilot, max(1.0 - 1.5 * tail, 0.0))))
    while True:
        maxima, weights = _tail_draws(statistics, start, n_draws, generator)
        order = np.argsort(-maxima)
        beyond = np.cumsum(weights[order])
        if beyond[-1] >= tail:
            return float(maxima[order][np.searchsorted(beyond, tail)])
        if start <= low:
            return low
        start = max(low, start - 0.2)


def _chunks(n_draws: int, n_statistics: int) -> list[int]:
    size = max(1, CHUNK_ELEMENTS // n_statistics)
    return [min(size, n_draws - done) for done in range(0, n_draws, size)]


def _pilot_maxima(statistics: _Statistics, generator: np.random.Generator) -> Floats:
    """Return unconditional draws of max |statistic|."""
    factor = statistics.factor
    return np.concatenate(
        [
            statistics.values(generator.standard_normal((n, factor.shape[1])) @ factor.T).max(axis=1)
            for n in _chunks(PILOT_DRAWS, statistics.n_statistics)
        ]
    )


def _tail_draws(
    statistics: _Statistics, start: float, n_draws: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return draws of max |statistic| given that it exceeds `start`, with weights that sum to about its tail there."""
    factor, total = statistics.factor, statistics.n_statistics
    maxima, weights = [], []
    for n in _chunks(n_draws, total):
        free = generator.standard_normal((n, factor.shape[1])) @ factor.T
        pick = generator.integers(0, total, n)
        tail_draw = -ndtri(generator.random(n) * ndtr(-start))  # Z given Z > start; the sign is free by symmetry
        free += statistics.loading(pick) * (tail_draw - statistics.one(free, pick))[:, None]
        values = statistics.values(free)
        maxima.append(values.max(axis=1))
        weights.append(1.0 / np.maximum((values > start).sum(axis=1), 1))
    scale = total * 2.0 * ndtr(-start) / n_draws
    return np.concatenate(maxima), scale * np.concatenate(weights)
