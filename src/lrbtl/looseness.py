"""How noisy standard errors are, and how much wider intervals must be for it.

A standard error is taken at a noisy fit: its tangent space, its information and the gradient of the target all move
with the battles. The looseness of an estimate is the variance of the log of its estimated variance, by the jackknife
over the fits without each fold. A variance with nu degrees of freedom has looseness 2 / nu, and Student's quantile is
that of the normal, c, times 1 + (c^2 + 1) / (4 nu) to first order; intervals are that much wider.
"""

import numpy as np

Floats = np.typing.NDArray[np.float64]


class Looseness:
    """The jackknife over folds of the log of variances, fed with one fold at a time; zero from one fold alone."""

    def __init__(self, shape: tuple[int, ...]):
        self.count = 0
        self.first = np.zeros(shape)
        self.sum = np.zeros(shape)
        self.squares = np.zeros(shape)

    def add(self, variances: Floats) -> None:
        """Take in the variances at the fit without one fold."""
        logs = np.log(np.maximum(variances, np.finfo(float).tiny))
        if self.count == 0:
            self.first = logs
        away = logs - self.first
        self.count += 1
        self.sum += away
        self.squares += away**2

    def value(self) -> Floats:
        """Return (K - 1) / K times the sum of squared distances from the mean."""
        n = max(self.count, 1)
        return np.asarray((n - 1) / n * np.maximum(self.squares - self.sum**2 / n, 0.0))


def widening(critical: float, looseness: Floats) -> Floats:
    """Return by how much intervals that reach `critical` standard errors must be wider.

    Examples
    --------
    >>> from scipy.stats import t
    >>> widening(1.96, np.array([2 / 50])).round(3), round(t.ppf(0.975, 50) / 1.96, 3)
    (array([1.024]), 1.025)
    """
    return np.asarray(np.sqrt(1.0 + (critical**2 + 1.0) / 4.0 * looseness))


def normal_equivalent(z: Floats, looseness: Floats) -> Floats:
    """Return c >= 0 with c * widening(c, looseness) = |z|: what a statistic is worth on the normal scale.

    Examples
    --------
    >>> c = normal_equivalent(np.array([2.0, 2.0]), np.array([0.0, 0.04]))
    >>> c.round(3), (c * widening(c, np.array([0.0, 0.04]))).round(3)
    (array([2.   , 1.952]), array([2., 2.]))
    """
    slope = 1.0 + looseness / 4.0
    return np.asarray(np.abs(z) * np.sqrt(2.0 / (slope + np.sqrt(slope**2 + looseness * z**2))))
