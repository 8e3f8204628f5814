"""Critical values of joint intervals against exact integrals, published tables and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

from lrbtl.errors import CovarianceError, LevelError
from lrbtl.inference import joint
from lrbtl.inference.joint import (
    gap_variances,
    max_gap_quantile,
    max_t_quantile,
    normal_quantile,
    sidak_quantile,
    wald_interval,
    wald_statistic,
)

TOLERANCE = 3 * 0.0075  # three standard errors


def random_cov(seed, d, rank):
    root = np.random.default_rng(seed).standard_normal((d, rank)) * np.linspace(0.5, 2.0, d)[:, None]
    return root @ root.T


def to_correlation(cov):
    se = np.sqrt(np.diag(cov))
    return cov / np.outer(se, se)


def pair_matrix(d):
    a, b = np.triu_indices(d, 1)
    rows = np.arange(a.size)
    pairs = np.zeros((a.size, d))
    pairs[rows, a], pairs[rows, b] = 1.0, -1.0
    return pairs


def equicorrelated_quantile(n, rho, level):
    """One-factor integral: given the common factor the n coordinates are independent."""

    def inside(c, x):
        up, down = (c - np.sqrt(rho) * x) / np.sqrt(1 - rho), (-c - np.sqrt(rho) * x) / np.sqrt(1 - rho)
        return stats.norm.pdf(x) * (special.ndtr(up) - special.ndtr(down)) ** n

    def coverage(c):
        return integrate.quad(lambda x: inside(c, x), -9, 9, limit=200)[0]

    return optimize.brentq(lambda c: coverage(c) - level, 0.1, 8)


def test_one_target_and_independent_targets_are_exact():
    assert max_t_quantile(np.eye(1), 0.9) == pytest.approx(stats.norm.ppf(0.95), abs=1e-12)
    assert max_t_quantile(np.eye(7), 0.9) == pytest.approx(stats.norm.ppf((1 + 0.9 ** (1 / 7)) / 2), abs=1e-12)
    assert max_gap_quantile(np.eye(2), 0.9) == normal_quantile(0.9)


@pytest.mark.parametrize(
    ("n", "rho", "level"),
    [(2, 0.9, 0.5), (2, 0.9, 0.95), (5, 0.5, 0.9), (5, 0.5, 0.999), (60, 0.3, 0.95), (60, 0.95, 0.95)],
)
def test_equicorrelated_targets_match_the_integral(n, rho, level):
    correlation = np.full((n, n), rho) + (1 - rho) * np.eye(n)
    assert max_t_quantile(correlation, level) == pytest.approx(equicorrelated_quantile(n, rho, level), abs=TOLERANCE)


def test_general_correlation_matches_scipy():
    correlation = to_correlation(random_cov(3, 4, 6))
    c = max_t_quantile(correlation, 0.95)
    law = stats.multivariate_normal(np.zeros(4), correlation, seed=1)
    coverage = law.cdf(np.full(4, c), lower_limit=np.full(4, -c))
    assert coverage == pytest.approx(0.95, abs=0.0015)


@pytest.mark.parametrize("d", [3, 10, 40])
def test_independent_scores_match_the_studentized_range(d):
    expected = stats.studentized_range.ppf(0.95, d, np.inf) / np.sqrt(2)
    assert max_gap_quantile(0.3 * np.eye(d)) == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("rank", [2, 5, 9])
def test_pairs_match_the_pair_covariance_formed_in_full(rank):
    cov, pairs = random_cov(rank, 8, rank), pair_matrix(8)
    formed = pairs @ cov @ pairs.T
    np.testing.assert_allclose(gap_variances(cov)[np.triu_indices(8, 1)], np.diag(formed), atol=1e-12)
    assert max_gap_quantile(cov) == pytest.approx(max_t_quantile(to_correlation(formed)), abs=TOLERANCE)


def test_scores_that_move_together_leave_no_pair():
    assert max_gap_quantile(np.ones((5, 5))) == normal_quantile(0.95)


def test_common_shift_does_not_matter():
    cov = random_cov(0, 6, 6)
    assert max_gap_quantile(cov + 3.0) == pytest.approx(max_gap_quantile(cov), abs=TOLERANCE)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 12), st.floats(0.6, 0.999))
def test_quantile_lies_between_normal_and_sidak_and_ignores_order_and_sign(seed, d, rank, level):
    cov = random_cov(seed, d, rank)
    correlation = to_correlation(cov)
    c = max_t_quantile(correlation, level)
    assert normal_quantile(level) <= c <= sidak_quantile(level, d)
    rng = np.random.default_rng(seed)
    order, sign = rng.permutation(d), rng.choice([-1.0, 1.0], d)
    turned = (correlation * np.outer(sign, sign))[np.ix_(order, order)]
    assert max_t_quantile(turned, level) == pytest.approx(c, abs=2 * TOLERANCE)
    assert max_gap_quantile(1e-6 * cov, level) == pytest.approx(max_gap_quantile(cov, level), abs=1e-9)


@pytest.mark.parametrize("rank", [3, 40])
def test_draws_of_many_statistics_are_in_single_precision(monkeypatch, rank):
    cov = random_cov(2, 40, rank)
    right = max_gap_quantile(cov)
    monkeypatch.setattr(joint, "MANY", 20)
    assert max_gap_quantile(cov) == pytest.approx(right, abs=2 * TOLERANCE)


@given(st.integers(2, 3000))
def test_pairs_by_their_position(n):
    position = np.unique(np.linspace(0, n * (n - 1) // 2 - 1, 50).astype(np.int64))
    expected = np.stack(np.triu_indices(n, 1), axis=1)[position] if n < 300 else joint.pair_at(n, position)
    found = joint.pair_at(n, position)
    np.testing.assert_array_equal(found, expected)
    a, b = found.T
    np.testing.assert_array_equal(a * n - a * (a + 1) // 2 + b - a - 1, position)


def test_the_seed_fixes_the_result():
    correlation = to_correlation(random_cov(1, 5, 5))
    assert max_t_quantile(correlation, rng=3) == max_t_quantile(correlation, rng=3)
    assert max_t_quantile(correlation, rng=np.random.default_rng(3)) == max_t_quantile(correlation, rng=3)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.1, np.nan])
def test_levels_outside_the_unit_interval_are_named(level):
    with pytest.raises(LevelError, match="between 0 and 1"):
        max_t_quantile(np.eye(3), level)


def test_matrices_that_are_no_covariance_are_named():
    with pytest.raises(CovarianceError, match="square"):
        max_t_quantile(np.ones((2, 3)))
    with pytest.raises(CovarianceError, match="NaN"):
        max_gap_quantile(np.full((2, 2), np.nan))


def test_a_search_that_ends_too_high_is_noticed(monkeypatch):
    """The draws themselves tell that their start is above the quantile."""
    right = max_gap_quantile(np.eye(10))
    monkeypatch.setattr(joint, "_search_start", lambda *args: right + 0.5)
    assert abs(max_gap_quantile(np.eye(10)) - right) < 0.02


# ------------------------------------------------------------------------------
# Wald statistics against scipy.
# ------------------------------------------------------------------------------


def test_statistic_and_pvalue():
    difference, se = np.array([1.0, -3.0, 40.0]), np.array([0.5, 2.0, 1.0])
    z, pvalue = wald_statistic(difference, se)
    np.testing.assert_allclose(z, difference / se)
    np.testing.assert_allclose(pvalue, 2 * stats.norm.sf(np.abs(difference / se)), rtol=1e-10)


def test_errors_of_zero_and_infinite_estimates_do_not_warn():
    z, pvalue = wald_statistic(np.array([1.0, 0.0, np.inf]), np.array([0.0, 0.0, np.inf]))
    np.testing.assert_array_equal(z, [np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(pvalue, [0.0, np.nan, np.nan])
    np.testing.assert_array_equal(wald_interval(np.array([1.0]), np.array([np.inf])), [[-np.inf, np.inf]])


@pytest.mark.parametrize("kind", ["any", "singular", "alike"])
def test_critical_values_do_not_depend_on_the_order(kind):
    rng = np.random.default_rng(3)
    d = 12
    root = rng.normal(size=(d, 7 if kind == "singular" else d))
    cov = np.eye(d) + 0.3 if kind == "alike" else root @ root.T / d
    order = rng.permutation(d)
    other = cov[np.ix_(order, order)] * (1 + 4e-16)
    assert max_gap_quantile(cov) == pytest.approx(max_gap_quantile(other), abs=1e-12)
    unit = np.sqrt(np.diag(cov))
    correlation = cov / np.outer(unit, unit)
    assert max_t_quantile(correlation) == pytest.approx(max_t_quantile(correlation[np.ix_(order, order)]), abs=1e-12)
