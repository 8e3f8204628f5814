"""The prior of levels: their regression on the design of the pairings, and their spread round it.

    level = X b + e,   b_j ~ N(0, B_j),   e_a independent with scale s, normal or Student's t.

Pairings are made by somebody: similar models meet, good models get more votes. Then who met whom says something of
levels, and a prior that does not know this is wrong wherever votes are few. X has (`pairings`)

- the order in which similar models meet, as normal scores,
- bends of that order, Hermite polynomials: their variance over E[b_1^2] is that of order statistics,
- the log of a model's votes; where these are few they measure traffic badly, so e has the variance E[b^2] / votes more.

How much of it is believed depends on how far the design is from random pairing, t in [0, 1): the eigenvalue of the
graph beyond that of a random graph of the same degree, 2 / sqrt(degree), and the variance of vote counts beyond
Poisson's and its error. A coefficient has the prior variance (1 / (1 - t)^2 - 1) times that of levels, s^2 + E[b^2]:
zero under random pairing, flat under strict matchmaking by strength.

Where somebody chose who meets whom, pairings may also have followed the votes: near ties met, or those that led so far.
Then they say nothing that the votes do not, and X repeats their noise. Where pairings came from levels, votes without X
contradict a prior without X. X is believed as far as they do (`design_weight`).

Features of models, such as size and family, are further columns of X (`LevelFeatures`). The coefficients of a feature
share a variance B_g, an inverse gamma law with one degree of freedom round a guess: a number has one coefficient, a
family one for each of its levels, so that these are random effects. In the sense of the same bound,

    B_g = (sum of E[b_j^2] in g + guess s^2) / (n_g + 1).

A t law enters by its normal approximation round the posterior of e, moments matched in the sense of the variational
bound: precision E[-(log p)''] and the mean that gives the slope E[(log p)'] (`Sites`).
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy import linalg
from scipy.special import gammaln, ndtr

from lrbtl.hierarchical.pairings import DesignCovariates
from lrbtl.model.links import mean_over_spread
from lrbtl.typing import Floats, Longs

LEAST_CURVATURE = 0.02  # of 1 / s^2: t laws bend the other way in their tails, sites do not


@dataclass(frozen=True)
class Sites:
    """Normal approximations of the laws of e, one per model: precision and mean, and what the bound gains by them."""

    precision: Floats
    mean: Floats
    gain: float = 0.0


@dataclass(frozen=True)
class LevelFeatures:
    """What is known of models beside the votes, as columns of X.

    Attributes
    ----------
    values : array (d1, p)
    group : array (p,)
        Which columns belong to the same feature, and share a variance: 0, 1, ...
    guess : float
        Prior guess of the variance of each feature's coefficients, over s^2.
    """

    values: Floats
    group: Longs
    guess: float

    @property
    def part(self) -> slice:
        """Which columns of X these are: the last."""
        return slice(-len(self.group), None)

    def first_variances(self, s: float) -> tuple[float, ...]:
        """Return the variance of each group as it is guessed."""
        return (self.guess * s**2,) * (int(self.group.max()) + 1)

    def variances(self, squares: Floats, s: float) -> tuple[float, ...]:
        """Return the variance of each group, from the posterior means of squared coefficients (p,)."""
        total, number = np.bincount(self.group, np.maximum(squares, 0.0)), np.bincount(self.group)
        return tuple(((total + self.guess * s**2) / (number + 1.0)).tolist())


@dataclass(frozen=True)
class LevelPrior:
    """The prior of levels given its scale: normal, with mean and precision as sites and coefficients come to.

    Attributes
    ----------
    covariates : DesignCovariates
    s : float
        Standard deviation of e, in logits.
    freedom : float
        Degrees of freedom of its law; inf for the normal.
    squares : tuple of floats
        E[b^2] of order and traffic, then the variance of the coefficients of each feature, as found.
    sites : Sites or None
    coefficients : array or None
        Values of b, where they are taken as known.
    features : LevelFeatures or None
    """

    covariates: DesignCovariates
    s: float
    freedom: float = np.inf
    squares: tuple[float, ...] = (0.0, 0.0)
    sites: Sites | None = field(default=None, repr=False)
    coefficients: Floats | None = field(default=None, repr=False)
    features: LevelFeatures | None = field(default=None, repr=False)

    @property
    def scale(self) -> Floats:
        """Scale of the law of each e, (d1,): for a t law of the same variance, where that exists."""
        variance = self.s**2 + self.squares[1] * self.covariates.traffic_noise
        return np.asarray(np.sqrt(variance * (1.0 if np.isinf(self.freedom) else (self.freedom - 2) / self.freedom)))

    @cached_property
    def _sites(self) -> Sites:
        return self.sites or Sites(1.0 / self.scale**2, np.zeros(len(self.covariates.order)))

    @cached_property
    def coefficient_variances(self) -> Floats:
        """B of each column of X."""
        t = np.array(self.covariates.informed)
        out = np.append(self.spread * ((1.0 - t) ** -2 - 1.0), self.squares[0] * self.covariates.bend_shares)
        return out if self.features is None else np.append(out, np.array(self.squares[2:])[self.features.group])

    @cached_property
    def columns(self) -> Floats:
        """X, (d1, 2 + k + p): order, traffic, bends, features."""
        own = self.covariates.columns
        return own if self.features is None else np.column_stack([own, self.features.values])

    @cached_property
    def _solved(self) -> tuple[Floats, float]:
        """Precision of levels whose common shift is flat, (d1, d1), and the log of its determinant on zero sums.

        With R = X B^1/2 and c the sites' precision, (1/c + R R^T)^-1 = c - c R (I + R^T c R)^-1 R^T c.
        """
        c, used = self._sites.precision, self.coefficient_variances > 0.0
        root = self.columns[:, used] * np.sqrt(self.coefficient_variances[used])
        inner = linalg.cholesky(np.eye(root.shape[1]) + root.T @ (c[:, None] * root), lower=True)
        half = linalg.solve_triangular(inner, (c[:, None] * root).T, lower=True)
        precision = np.diag(c) - half.T @ half
        along = precision.sum(axis=0)
        total = float(along.sum())
        log_det = float(np.log(c).sum()) - 2.0 * float(np.log(np.diag(inner)).sum()) - np.log(total / len(c))
        return precision - np.outer(along, along) / total, log_det

    @property
    def precision(self) -> Floats:
        """(d1, d1)."""
        return self._solved[0]

    @property
    def log_determinant(self) -> float:
        """Log determinant of the precision on vectors that sum to zero."""
        return self._solved[1]

    @property
    def mean(self) -> Floats:
        """Means of the sites, (d1,): zero under a normal law."""
        return self._sites.mean

    @property
    def gain(self) -> float:
        """What the variational bound has for a t law beyond that of its sites."""
        return self._sites.gain

    @property
    def site_precision(self) -> Floats:
        """Precision of e, (d1,)."""
        return self._sites.precision

    @property
    def fitted(self) -> Floats:
        """Prior means where coefficients are known, (d1,)."""
        return self.mean if self.coefficients is None else self.mean + self.columns @ self.coefficients

    def gradient(self, level: Floats) -> Floats:
        """Return the derivative of the cost."""
        return np.asarray(self.precision @ (level - self.mean))

    def cost(self, level: Floats) -> float:
        """Return half the squared distance from the mean."""
        return 0.5 * float((level - self.mean) @ self.gradient(level))

    def updated(self, level: Floats, cov: Floats) -> "LevelPrior":
        """Return the prior with squares of coefficients and sites of a posterior: means (d1,), covariance (d1, d1)."""
        order, traffic = self._expected_squares(slice(0, 2), level, cov).tolist()
        found = self.with_feature_variances(level, cov)
        found = replace(found, squares=(max(order, 0.0), max(traffic, 0.0), *found.squares[2:]))
        if np.isinf(self.freedom):
            return found
        return replace(found, sites=found._new_sites(self, level - self.mean, cov))

    def with_feature_variances(self, level: Floats, cov: Floats) -> "LevelPrior":
        """Return the prior with the variances of features' coefficients of a posterior, all else as it is."""
        if self.features is None:
            return self
        squares = self._expected_squares(self.features.part, level, cov)
        return replace(self, squares=(*self.squares[:2], *self.features.variances(squares, self.s)))

    def _expected_squares(self, part: slice, level: Floats, cov: Floats) -> Floats:
        """Return E[b^2] of some coefficients."""
        away = level - self.mean
        second = np.outer(away, away) + cov
        B, X = self.coefficient_variances[part], self.columns[:, part]
        reach = B[:, None] * (X.T @ self.precision)
        squares = np.einsum("ja,ab,jb->j", reach, second, reach) + B - B * np.einsum("ja,aj->j", reach, X)
        return np.asarray(squares)

    def distance(self, other: "LevelPrior") -> float:
        """Return the largest relative change of sites and squares to another prior of the same scale."""
        here, there = self._sites, other._sites
        apart = np.abs(np.log(there.precision / here.precision))
        moved = np.abs(there.mean - here.mean) * np.sqrt(here.precision)
        squares = np.abs(np.subtract(self.squares, other.squares)) / self.spread
        return float(max(apart.max(), moved.max(), squares.max()))

    def _new_sites(self, before: "LevelPrior", away: Floats, cov: Floats) -> Sites:
        """Return sites at the posterior of e under the prior before."""
        e, variance = before.residuals(before.mean + away), before._residual_variance(cov)
        return student_sites(e, np.maximum(variance, 1e-12), self.scale, self.freedom)

    def size_ratio(self, level: Floats, cov: Floats) -> float:
        """Return by what factor s^2 changes in MacKay's fixed point at a posterior: sum e^2 over effective number."""
        return float(np.sum(self.residuals(level) ** 2 / self.scale**2)) / self.effective_number(cov)

    def effective_number(self, cov: Floats) -> float:
        """Return how many of the e votes determine: sum of 1 - posterior variance over s^2, at least a little."""
        shrinkage = self._residual_variance(cov) / self.scale**2
        return max(float(np.sum(1.0 - np.minimum(shrinkage, 1.0))), 1e-3)

    def _residual_variance(self, cov: Floats) -> Floats:
        """Return the posterior variances of e, (d1,), from the covariance of levels."""
        own = 1.0 / self._sites.precision
        reach = own[:, None] * self.precision
        return np.asarray(own - own * np.diag(reach) + np.einsum("ij,ij->i", reach @ cov, reach))

    @property
    def spread(self) -> float:
        """Variance of levels: s^2 and what order, traffic and features add."""
        return self.s**2 + sum(self.squares)

    def without_covariates(self) -> "LevelPrior":
        """Return a prior of the same spread that does not know the pairings."""
        none = DesignCovariates.none(len(self.covariates.order))
        s = float(np.sqrt(self.s**2 + sum(self.squares[:2])))
        return replace(self, covariates=none, s=s, squares=(0.0, 0.0, *self.squares[2:]), sites=None)

    def fitted_coefficients(self, level: Floats) -> Floats:
        """Return the posterior means of b at some levels."""
        return np.asarray(self.coefficient_variances * (self.columns.T @ self.gradient(level)))

    def residuals(self, level: Floats) -> Floats:
        """Return the means of e at some levels, (d1,)."""
        return np.asarray(self.mean + self.gradient(level) / self._sites.precision)


def student_sites(e: Floats, variance: Floats, scale: Floats, freedom: float) -> Sites:
    """Return the normal sites of t laws of a scale at e ~ N(e, variance)."""
    square = freedom * scale**2

    def log_density(x: Floats) -> Floats:
        constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - 0.5 * np.log(np.pi * square)
        return np.asarray(constant - 0.5 * (freedom + 1) * np.log1p(x**2 / square))

    slope = mean_over_spread(lambda x: -(freedom + 1) * x / (square + x**2), e, variance)
    bend = mean_over_spread(lambda x: (freedom + 1) * (square - x**2) / (square + x**2) ** 2, e, variance)
    precision = np.maximum(bend, LEAST_CURVATURE / scale**2)
    mean = e + slope / precision
    normal = 0.5 * np.log(precision / (2 * np.pi)) - 0.5 * precision * ((e - mean) ** 2 + variance)
    return Sites(precision, mean, float(np.sum(mean_over_spread(log_density, e, variance) - normal)))


def feature_posterior(prior: LevelPrior, level: Floats, cov: Floats) -> tuple[Floats, Floats]:
    """Return the posterior means (p,) and covariance of the features' coefficients, from those of levels.

    By the law of total covariance: b given levels has the mean R (level - mean), R = B X^T P, and the covariance
    B - R X B.
    """
    assert prior.features is not None
    B, X = prior.coefficient_variances[prior.features.part], prior.features.values
    reach = B[:, None] * (X.T @ prior.precision)
    return reach @ (level - prior.mean), reach @ cov @ reach.T + np.diag(B) - (reach @ X) * B


def design_weight(informed: LevelPrior, plain: LevelPrior, known: float) -> float:
    """Return the confidence with which votes show that pairings come from levels, not from the votes themselves.

    Where similar models meet, votes hide how far levels spread, and X raises that spread. Where those met whose votes
    were even so far, it does not. `known` levels are determined by votes: variances of so many have relative errors
    of sqrt(2 / known).

    Examples
    --------
    >>> plain = LevelPrior(DesignCovariates.none(60), s=0.5)
    >>> [round(design_weight(replace(plain, s=s), plain, known=50.0), 2) for s in (0.4, 0.5, 0.6)]
    [0.0, 0.0, 0.93]
    """
    return max(0.0, 2.0 * float(ndtr(np.log(informed.spread / plain.spread) * np.sqrt(known / 2.0))) - 1.0)
