"""Wald statistics against scipy."""

import numpy as np
from scipy import stats

from lrbtl.wald import wald_interval, wald_statistic


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
