"""The prior of levels against dense covariances, and how far it believes the pairings."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from hierarchy_twin import hyper_of
from lrbtl.hierarchical.level_prior import (
    LEAST_CURVATURE,
    LevelFeatures,
    LevelPrior,
    Sites,
    design_weight,
    feature_posterior,
    student_sites,
)
from lrbtl.hierarchical.pairings import DesignCovariates

D1 = 9


def with_features(prior):
    """The prior with a number and a family of three levels."""
    values = np.column_stack([np.linspace(-1.5, 1.5, D1) ** 3, np.eye(3)[np.arange(D1) % 3]])
    squares = (*prior.squares[:2], 0.4, 0.2)
    return replace(prior, features=LevelFeatures(values, np.array([0, 1, 1, 1]), 0.1), squares=squares)


PRIORS = {
    "plain": lambda: LevelPrior(DesignCovariates.none(D1), 0.7),
    "covariates": lambda: hyper_of(D1, 0.1, s=0.7).level,
    "sites": lambda: replace(
        hyper_of(D1, 0.1).level,
        freedom=3.0,
        sites=Sites(np.random.default_rng(0).uniform(0.5, 2.0, D1), 0.2 * np.random.default_rng(1).normal(size=D1)),
    ),
}
PRIORS["features"] = lambda: with_features(PRIORS["plain"]())
PRIORS["features and sites"] = lambda: with_features(PRIORS["sites"]())
each = pytest.mark.parametrize("name", PRIORS)


def zero_sums():
    """An orthonormal basis of vectors that sum to zero, (d1, d1 - 1)."""
    return np.linalg.svd(np.ones((1, D1)))[2][1:].T


def covariance(prior, shift=1e7):
    """Of levels, with a common shift of a large variance."""
    X, B = prior.columns, prior.coefficient_variances
    return np.diag(1.0 / prior.site_precision) + X @ np.diag(B) @ X.T + shift


@each
def test_the_precision_is_the_inverse_of_a_covariance_with_a_flat_shift(name):
    prior = PRIORS[name]()
    np.testing.assert_allclose(prior.precision, np.linalg.inv(covariance(prior)), atol=1e-5)
    assert np.abs(prior.precision.sum(axis=0)).max() < 1e-10
    basis = zero_sums()
    expected = np.linalg.slogdet(basis.T @ prior.precision @ basis)[1]
    assert prior.log_determinant == pytest.approx(expected, abs=1e-10)
    marginal = basis.T @ covariance(prior, 0.0) @ basis  # contrasts of levels have no shift
    assert prior.log_determinant == pytest.approx(-np.linalg.slogdet(marginal)[1], abs=1e-10)


@each
def test_the_cost_is_that_of_a_normal_law(name):
    prior, basis = PRIORS[name](), zero_sums()
    level = np.random.default_rng(2).normal(size=D1)
    law = stats.multivariate_normal(basis.T @ prior.mean, basis.T @ covariance(prior, 0.0) @ basis)
    other = np.zeros(D1)
    difference = law.logpdf(basis.T @ level) - law.logpdf(basis.T @ other)
    assert prior.cost(other) - prior.cost(level) == pytest.approx(difference)
    step = 1e-6 * np.random.default_rng(3).normal(size=D1)
    slope = prior.cost(level + step) - prior.cost(level - step)
    assert 2 * prior.gradient(level) @ step == pytest.approx(slope, rel=1e-6)


def conditional(prior, part):
    """Of b or e given levels: the matrix that makes means of levels less their mean, and the covariance left."""
    X, B = prior.columns, np.diag(prior.coefficient_variances)
    cross = B @ X.T if part == "b" else np.diag(1.0 / prior.site_precision)
    own = B if part == "b" else cross
    reach = cross @ prior.precision
    return reach, own - reach @ cross.T


@each
def test_squares_of_coefficients_are_their_posterior_means(name):
    prior, rng = PRIORS[name](), np.random.default_rng(4)
    level, root = rng.normal(size=D1), rng.normal(size=(D1, D1))
    cov = 0.05 * root @ root.T
    reach, left = conditional(prior, "b")
    means, spread = reach @ (level - prior.mean), reach @ cov @ reach.T + left
    found = prior.updated(level, cov)
    expected = means**2 + np.diag(spread)
    np.testing.assert_allclose(found.squares[:2], expected[:2], atol=1e-12)
    if prior.features is not None:
        number, family = expected[-4] + 0.1 * prior.s**2, expected[-3:].sum() + 0.1 * prior.s**2
        np.testing.assert_allclose(found.squares[2:], [number / 2.0, family / 4.0], atol=1e-12)
        mean, own = feature_posterior(prior, level, cov)
        np.testing.assert_allclose(mean, means[-4:], atol=1e-12)
        np.testing.assert_allclose(own, spread[-4:, -4:], atol=1e-12)
    np.testing.assert_allclose(prior.fitted_coefficients(level), means, atol=1e-12)
    if prior.sites is not None:
        assert found.sites is not None and found.sites is not prior.sites
    assert found.s == prior.s and found.covariates is prior.covariates


@each
def test_residuals_and_their_number(name):
    """sum e^2 / scale^2 over sum(1 - var e / scale^2): MacKay's ratio."""
    prior, rng = PRIORS[name](), np.random.default_rng(5)
    level, root = rng.normal(size=D1), rng.normal(size=(D1, D1))
    cov = 0.005 * root @ root.T
    reach, left = conditional(prior, "e")
    e = prior.mean + reach @ (level - prior.mean)
    np.testing.assert_allclose(prior.residuals(level), e)
    variance = np.diag(reach @ cov @ reach.T + left)
    number = np.sum(1.0 - np.minimum(variance / prior.scale**2, 1.0))
    assert prior.effective_number(cov) == pytest.approx(number)
    assert prior.size_ratio(level, cov) == pytest.approx(np.sum((e / prior.scale) ** 2) / number)


def test_the_fixed_point_has_the_most_evidence():
    """Levels that are seen with noise of variance v: contrasts have variance s^2 + v."""
    rng, v = np.random.default_rng(6), 0.3
    y = rng.normal(size=D1)
    y -= y.mean()
    best = np.sqrt(y @ y / (D1 - 1) - v)

    def ratio(s):
        prior, basis = LevelPrior(DesignCovariates.none(D1), s), zero_sums()
        cov = basis @ np.linalg.inv(basis.T @ prior.precision @ basis + np.eye(D1 - 1) / v) @ basis.T
        return prior.size_ratio(cov @ y / v, cov)

    assert ratio(best) == pytest.approx(1.0, abs=1e-9)
    assert ratio(0.8 * best) > 1.0 > ratio(1.2 * best)


def test_nearly_sure_coefficients_have_any_size():
    """t near one: the prior leaves levels free along the order of a ladder."""
    order = np.linspace(-1.5, 1.5, D1)
    found = replace(DesignCovariates.none(D1), order=order, informed=(1 - 1e-6, 0.0))
    prior = LevelPrior(found, 0.5)
    assert prior.cost(3.0 * order) < 1e-6 < 0.1 < LevelPrior(DesignCovariates.none(D1), 0.5).cost(3.0 * order)
    assert not LevelPrior(DesignCovariates.none(D1), 0.5).coefficient_variances.any()


def test_known_coefficients_are_prior_means():
    prior = hyper_of(D1, 0.1).level
    b = np.array([0.4, -0.2, 0.1])
    known = replace(prior, coefficients=b)
    np.testing.assert_allclose(known.fitted, prior.covariates.columns @ b)
    np.testing.assert_array_equal(prior.fitted, prior.mean)


def test_scales_of_a_t_law_have_its_variance():
    plain, heavy = PRIORS["covariates"](), replace(PRIORS["covariates"](), freedom=3.0)
    variance = plain.s**2 + plain.squares[1] * plain.covariates.traffic_noise
    np.testing.assert_allclose(plain.scale**2, variance)
    np.testing.assert_allclose(heavy.scale**2 * 3.0 / (3.0 - 2.0), variance)


# ------------------------------------------------------------------------------
# Sites of t laws
# ------------------------------------------------------------------------------


def mean_over(function, e, variance):
    """By adaptive quadrature."""
    law, sd = stats.norm(e, np.sqrt(variance)), np.sqrt(variance)
    return quad(lambda x: function(x) * law.pdf(x), e - 12 * sd, e + 12 * sd, limit=400, points=[e, 0.0])[0]


@pytest.mark.parametrize("freedom", [3.0, 8.0])
def test_sites_are_the_normal_laws_nearest_to_a_t_law(freedom):
    e, variance = np.array([0.0, 0.3, -1.5, 0.5]), np.array([0.01, 0.05, 0.2, 0.3])
    scale = np.array([0.8, 0.5, 1.0, 0.7])
    found, gain = student_sites(e, variance, scale, freedom), 0.0
    for i in range(len(e)):
        law, h = stats.t(freedom, scale=scale[i]), 1e-4
        slope = mean_over(lambda x: (law.logpdf(x + h) - law.logpdf(x - h)) / (2 * h), e[i], variance[i])  # noqa: B023
        bend = mean_over(
            lambda x: (2 * law.logpdf(x) - law.logpdf(x + 1e-3) - law.logpdf(x - 1e-3)) / 1e-6,  # noqa: B023
            e[i],
            variance[i],
        )
        precision = max(bend, LEAST_CURVATURE / scale[i] ** 2)
        assert found.precision[i] == pytest.approx(precision, rel=0.01)
        assert found.precision[i] * (found.mean[i] - e[i]) == pytest.approx(slope, abs=0.01)
        site = stats.norm(found.mean[i], found.precision[i] ** -0.5)
        gain += mean_over(lambda x: law.logpdf(x) - site.logpdf(x), e[i], variance[i])  # noqa: B023
    assert found.gain == pytest.approx(gain, abs=0.01)


def test_many_degrees_of_freedom_are_the_normal_law():
    e, variance, scale = np.array([0.5, -1.0]), np.array([0.1, 0.2]), np.array([0.8, 1.2])
    found = student_sites(e, variance, scale, 1e7)
    np.testing.assert_allclose(found.precision, scale**-2.0, rtol=1e-5)
    np.testing.assert_allclose(found.mean, 0.0, atol=1e-5)
    assert found.gain == pytest.approx(0.0, abs=1e-5)


def test_a_far_level_is_hardly_held_by_a_heavy_tail():
    found = student_sites(np.array([0.0, 30.0]), np.full(2, 0.1), np.ones(2), 3.0)
    pull = found.precision * (found.mean - np.array([0.0, 30.0]))
    assert abs(pull[0]) < 1e-9 and -0.2 < pull[1] < 0.0  # a normal law would pull by 30


@pytest.mark.parametrize(("ratio", "known"), [(0.5, 50.0), (1.0, 50.0), (1.3, 20.0), (3.0, 50.0)])
def test_pairings_are_believed_as_far_as_votes_contradict_a_prior_without_them(ratio, known):
    """The two-sided confidence that the logs of two variances differ, errors sqrt(2 / known); none where X is less."""
    plain = LevelPrior(DesignCovariates.none(D1), 0.6)
    found = design_weight(replace(plain, s=0.6 * np.sqrt(ratio)), plain, known)
    law = stats.norm(0.0, np.sqrt(2.0 / known))
    expected = max(0.0, law.cdf(np.log(ratio)) - law.cdf(-np.log(ratio)))
    assert found == pytest.approx(expected, abs=1e-12)


# ------------------------------------------------------------------------------
# Features
# ------------------------------------------------------------------------------


def fixed_point(prior, y, v):
    """The prior at the variances that it settles at, for levels that are seen with noise of variance v."""
    basis = zero_sums()
    for _ in range(2000):
        cov = basis @ np.linalg.inv(basis.T @ prior.precision @ basis + np.eye(len(y) - 1) / v) @ basis.T
        prior = prior.updated(cov @ y / v, cov)
    return prior, cov @ y / v, cov


def test_variances_of_features_have_the_most_evidence():
    """The fixed point is the top of the evidence of levels times the law of the variances."""
    prior, v = with_features(PRIORS["plain"]()), 0.05
    y = 1.2 * prior.features.values[:, 0] + np.random.default_rng(8).normal(size=D1)
    y -= y.mean()
    found, _, _ = fixed_point(prior, y, v)
    basis = zero_sums()

    def top(squares):
        law = replace(found, squares=(0.0, 0.0, *squares))
        known = stats.multivariate_normal(np.zeros(D1 - 1), basis.T @ (covariance(law, 0.0) + v * np.eye(D1)) @ basis)
        own = sum(-0.5 * np.log(b) - 0.5 * 0.1 * prior.s**2 / b for b in squares)
        return known.logpdf(basis.T @ y) + own

    here = np.array(found.squares[2:])
    for step in np.eye(2):
        low, high = top(here * np.exp(-1e-3 * step)), top(here * np.exp(1e-3 * step))
        assert abs(high - low) / 2e-3 < 1e-4
        assert top(here) >= max(low, high) - 1e-12


def test_coefficients_of_features_are_those_of_a_normal_law():
    """Of levels that are seen with noise: by the joint law of coefficients and levels."""
    prior, v = with_features(PRIORS["covariates"]()), 0.3
    y = np.random.default_rng(9).normal(size=D1)
    y -= y.mean()
    basis, part = zero_sums(), prior.features.part
    cov = basis @ np.linalg.inv(basis.T @ prior.precision @ basis + np.eye(D1 - 1) / v) @ basis.T
    mean, own = feature_posterior(prior, cov @ y / v, cov)
    B, X = np.diag(prior.coefficient_variances[part]), prior.columns[:, part]
    seen = basis.T @ (covariance(prior, 0.0) + v * np.eye(D1)) @ basis
    reach = np.linalg.solve(seen, basis.T @ X @ B).T
    np.testing.assert_allclose(mean, reach @ basis.T @ y, atol=1e-10)
    np.testing.assert_allclose(own, B - reach @ basis.T @ X @ B, atol=1e-10)


def test_a_prior_without_pairings_keeps_its_features():
    prior = with_features(PRIORS["covariates"]())
    plain = prior.without_covariates()
    assert plain.features is prior.features and plain.spread == pytest.approx(prior.spread)
    assert plain.squares == (0.0, 0.0, *prior.squares[2:])
    np.testing.assert_array_equal(plain.columns[:, plain.features.part], prior.features.values)
