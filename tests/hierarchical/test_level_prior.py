"""The prior of levels against dense covariances, and what the design of small graphs tells of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.integrate import quad

from hierarchy_twin import hyper_of
from lrbtl.hierarchical.level_prior import (
    LEAST_CURVATURE,
    DesignCovariates,
    LevelPrior,
    Sites,
    normal_scores,
    student_sites,
)

D1 = 9
PRIORS = {
    "plain": lambda: LevelPrior(DesignCovariates.none(D1), 0.7),
    "covariates": lambda: hyper_of(D1, 0.1, s=0.7).level,
    "sites": lambda: replace(
        hyper_of(D1, 0.1).level,
        freedom=3.0,
        sites=Sites(np.random.default_rng(0).uniform(0.5, 2.0, D1), 0.2 * np.random.default_rng(1).normal(size=D1)),
    ),
}
each = pytest.mark.parametrize("name", PRIORS)


def zero_sums():
    """An orthonormal basis of vectors that sum to zero, (d1, d1 - 1)."""
    return np.linalg.svd(np.ones((1, D1)))[2][1:].T


def covariance(prior, shift=1e7):
    """Of levels, with a common shift of a large variance."""
    X, B = prior.covariates.columns, prior.coefficient_variances
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
    X, B = prior.covariates.columns, np.diag(prior.coefficient_variances)
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
    np.testing.assert_allclose(found.squares, (means**2 + np.diag(spread))[:2], atol=1e-12)
    np.testing.assert_allclose(prior.fitted_coefficients(level), means, atol=1e-12)
    if name == "sites":
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


# ------------------------------------------------------------------------------
# What pairings tell
# ------------------------------------------------------------------------------


def graph(d1, pairs, votes=1.0):
    meetings = np.zeros((d1, d1))
    for (a, b), n in zip(pairs, np.broadcast_to(votes, len(pairs)), strict=True):
        meetings[a, b] += n
        meetings[b, a] += n
    return sparse.csr_array(meetings)


def ladder(d1=30, reach=2, votes=20.0):
    return graph(d1, [(a, a + k) for a in range(d1) for k in range(1, reach + 1) if a + k < d1], votes)


def test_a_ladder_has_its_order():
    found = DesignCovariates.of_meetings(ladder(), 3)
    steps = np.diff(found.order)
    assert np.all(steps > 0) or np.all(steps < 0)
    assert found.informed[0] > 0.9 and found.bends.shape == (30, 3)
    np.testing.assert_allclose([found.order.mean(), found.order.std()], [0.0, 1.0], atol=1e-12)
    assert np.all(np.diff(found.bend_shares) < 0) and found.bend_shares[0] < 1.0
    # eigenvectors of the normalised Laplacian, by their definition
    A = ladder().toarray()
    values, vectors = np.linalg.eigh(np.eye(30) - A / np.sqrt(np.outer(A.sum(0), A.sum(0))))
    bent = vectors[:, 2] / np.sqrt(A.sum(0))
    assert abs(np.corrcoef(bent, found.bends[:, 0])[0, 1]) == pytest.approx(1.0)
    assert found.bend_shares[0] == pytest.approx((values[1] / values[2]) ** 2)


@pytest.mark.parametrize("d1", [40, 650])
def test_random_pairing_tells_nothing_of_the_order(d1):
    informed = []
    for seed in range(6):
        rng, n = np.random.default_rng(seed), 10 * d1
        a = rng.integers(d1, size=n)
        b = (a + rng.integers(1, d1, size=n)) % d1
        informed.append(DesignCovariates.of_meetings(graph(d1, list(zip(a, b, strict=True))), 3).informed)
    order, traffic = np.array(informed).T
    assert np.mean(order == 0.0) > 0.5 and order.max() < 0.1 and traffic.max() < 0.6


def test_many_models_have_the_order_of_a_ladder_too():
    """Where eigenvectors come from an iteration."""
    found = DesignCovariates.of_meetings(ladder(700, reach=40), 2)
    steps = np.diff(found.order)
    assert np.mean(steps * np.sign(steps.sum()) > 0) > 0.98 and found.informed[0] > 0.9


def test_a_star_tells_nothing():
    """One model that all others meet is a baseline, not a good one."""
    found = DesignCovariates.of_meetings(graph(12, [(0, k) for k in range(1, 12)], 10.0), 3)
    assert found.informed == (0.0, 0.0) and not found.columns.any() and found.bends.shape == (12, 0)


def test_a_newcomer_is_no_covariate_of_its_own():
    """Equal traffic and one model of one vote: its level would have no prior."""
    pairs = [(a, b) for a in range(12) for b in range(a)]
    votes = np.random.default_rng(0).poisson(40.0, size=len(pairs))
    found = DesignCovariates.of_meetings(graph(13, [*pairs, (0, 12)], [*votes, 1.0]), 3)
    assert found.informed[1] < 0.7
    prior = LevelPrior(found, 1.0)
    far = np.append(np.zeros(12), 10.0)
    assert prior.cost(far) > 10.0  # 50 under a normal law


def test_parts_that_never_meet_have_no_order():
    pairs = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
    found = DesignCovariates.of_meetings(graph(6, pairs, 10.0), 3)
    assert not found.order.any() and found.informed[0] == 0.0


def test_models_without_votes_have_no_place():
    inner = ladder(12).toarray()
    outer = np.zeros((14, 14))
    outer[:12, :12] = inner
    found, plain = (DesignCovariates.of_meetings(sparse.csr_array(m), 2) for m in (outer, inner))
    assert not found.order[12:].any() and not found.bends[12:].any()
    np.testing.assert_allclose(found.order[:12], plain.order, atol=1e-12)


@pytest.mark.parametrize("d1", [2, 3])
def test_very_few_models_tell_nothing(d1):
    found = DesignCovariates.of_meetings(graph(d1, [(0, 1)], 9.0), 3)
    assert not found.columns.any() and found.informed == (0.0, 0.0)


def test_equal_votes_tell_nothing_of_traffic():
    found = DesignCovariates.of_meetings(graph(8, [(a, b) for a in range(8) for b in range(a)], 5.0), 3)
    assert not found.traffic.any() and not found.traffic_noise.any() and found.informed[1] == 0.0


def test_good_models_have_more_votes():
    """Vote counts beyond Poisson's: their logs, with the variance of counts."""
    rng = np.random.default_rng(7)
    rate = np.exp(rng.normal(size=40))
    rate /= rate.sum()
    a, b = rng.choice(40, 4000, p=rate), rng.choice(40, 4000, p=rate)
    found = DesignCovariates.of_meetings(graph(40, [(x, y) for x, y in zip(a, b, strict=True) if x != y]), 3)
    assert found.informed[1] > 0.95 and np.corrcoef(found.traffic, np.log(rate))[0, 1] > 0.95
    assert np.all(found.traffic_noise > 0) and found.traffic_noise.argmax() == found.traffic.argmin()


def test_names_do_not_matter():
    rng = np.random.default_rng(8)
    order, meetings = rng.permutation(30), ladder().toarray()
    meetings[3, 9] = meetings[9, 3] = 5.0
    one = DesignCovariates.of_meetings(sparse.csr_array(meetings), 3)
    two = DesignCovariates.of_meetings(sparse.csr_array(meetings[np.ix_(order, order)]), 3)
    np.testing.assert_allclose(np.abs(two.order), np.abs(one.order[order]), atol=1e-9)
    np.testing.assert_allclose(two.traffic, one.traffic[order], atol=1e-12)
    np.testing.assert_allclose(two.informed, one.informed)
    np.testing.assert_allclose(two.bends @ two.bends.T, (one.bends @ one.bends.T)[np.ix_(order, order)], atol=1e-8)


def test_normal_scores_of_equal_values_are_equal():
    found = normal_scores(np.array([1.0, 1.0 + 1e-14, 2.0, 0.0]))
    assert found[0] == found[1] and found[3] < found[0] < found[2]
    np.testing.assert_allclose(found[2], stats.norm.ppf(3.5 / 4))
