"""How noisy standard errors are, and how much larger they must be for it.

A standard error is taken at a noisy fit: its tangent space, its information and the gradient of the target all move
with the battles. The looseness of an estimate is the variance of the log of its estimated variance, by the jackknife
over the fits without each fold. A variance with nu degrees of freedom has looseness 2 / nu, and Student's quantile is
that of the normal, c, times 1 + (c^2 + 1) / (4 nu) to first order. Standard errors take half of that, a share that
simulations chose. The variance meant is the model-based one: the noise of the squared scores is left out, and for the
whitened method that of 1 / I.
"""

import numpy as np

Floats = np.typing.NDArray[np.float64]

USUAL = 1.96  # standard errors that a 95% interval reaches
MOST = 4.0  # half a degree of freedom: few folds tell no more
SHARE = 0.5  # of Student's widening; on LMArena subsamples none covers .92-.93, half .95-.96, the whole .96-.97


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
        """Return (K - 1) / K times the sum of squared distances from the mean, at most MOST."""
        n = max(self.count, 1)
        return np.asarray(np.clip((n - 1) / n * (self.squares - self.sum**2 / n), 0.0, MOST))


def widening(looseness: Floats, critical: float = USUAL) -> Floats:
    """Return by how much a standard error must be larger for intervals that reach `critical` of them.

    Examples
    --------
    >>> widening(np.array([0.0, 0.04, 0.4])).round(3)
    array([1.   , 1.012, 1.114])
    """
    return np.asarray(np.sqrt(1.0 + SHARE * (critical**2 + 1.0) / 4.0 * looseness))


def tail_widening(critical: float, looseness: Floats) -> Floats:
    """Return by how much intervals that reach further than the usual ones must be wider still; 1 for others.

    Examples
    --------
    >>> tail_widening(3.3, np.array([0.0, 0.04, 0.4])).round(3)
    array([1.   , 1.017, 1.133])
    """
    return widening(looseness, max(critical, USUAL)) / widening(looseness)


def pair_widening(critical: float, looseness: Floats) -> Floats:
    """Return the widening of joint intervals of all gaps, (d, d): that of the looser of the two scores.

    Examples
    --------
    >>> pair_widening(3.3, np.array([0.0, 0.4])).round(3)
    array([[1.   , 1.133],
           [1.133, 1.133]])
    """
    return tail_widening(critical, np.maximum(looseness[:, None], looseness))
