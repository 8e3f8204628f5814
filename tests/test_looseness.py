"""Noise of standard errors, and the intervals that allow for it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

from lrbtl.estimate import Estimate
from lrbtl.looseness import SHARE, Looseness, normal_equivalent, widening

sizes = st.floats(0.01, 8.0)
noises = st.floats(0.0, 3.0)


def jackknife(values):
    loose = Looseness(np.shape(values[0]))
    for value in values:
        loose.add(np.asarray(value))
    return loose.value()


def test_the_jackknife_is_that_of_the_logs():
    variances = np.random.default_rng(0).lognormal(3.0, 0.2, size=(6, 4))
    logs = np.log(variances)
    expected = [5 / 6 * sum((x - logs[:, m].mean()) ** 2 for x in logs[:, m]) for m in range(4)]
    np.testing.assert_allclose(jackknife(variances), expected, rtol=1e-10)


def test_one_fold_equal_folds_and_no_variance_tell_of_no_noise():
    assert jackknife([[2.0, 3.0]]).tolist() == [0.0, 0.0]
    assert jackknife([[2.0, 0.0]] * 5).tolist() == [0.0, 0.0]
    assert Looseness((2,)).value().tolist() == [0.0, 0.0]


def test_the_jackknife_finds_the_degrees_of_freedom_of_a_mean_square():
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(2000, 10, 20)) ** 2  # ten groups of twenty squares: 200 degrees of freedom
    total = draws.sum(axis=(1, 2))
    without = (total[:, None] - draws.sum(axis=2)) / 180
    found = np.mean([jackknife(row) for row in without])
    assert found == pytest.approx(2 / 200, rel=0.1)


@pytest.mark.parametrize("critical", [1.645, 1.96, 3.3])
def test_the_widening_is_a_share_of_students(critical):
    df = 400.0
    tail = t.isf(norm.sf(critical), df) / critical - 1.0
    assert widening(critical, np.array([2.0 / df]))[0] - 1.0 == pytest.approx(SHARE * tail, rel=0.03)


@given(sizes, noises)
def test_a_statistic_at_the_limit_is_worth_the_critical_value(critical, noise):
    limit = critical * widening(critical, np.array([noise]))
    np.testing.assert_allclose(normal_equivalent(limit, np.array([noise])), critical, rtol=1e-9)


def test_intervals_and_tests_agree_and_combinations_are_as_loose_as_their_parts():
    est = Estimate(["x", "y"], [1.0, 0.5], [[0.04, 0.0], [0.0, 0.04]], links="identity", looseness=[0.5, 0.1])
    plain = Estimate(["x", "y"], [1.0, 0.5], [[0.04, 0.0], [0.0, 0.04]], links="identity")
    wider = np.diff(est.conf_int()) / np.diff(plain.conf_int())
    np.testing.assert_allclose(wider[:, 0], widening(1.959964, np.array([0.5, 0.1])), rtol=1e-6)
    np.testing.assert_allclose(est.se, plain.se)
    low, high = est.conf_int()[0]
    np.testing.assert_allclose([est.test(null=edge).pvalue[0] for edge in (low, high)], 0.05, rtol=1e-6)
    assert (est.pvalue > plain.pvalue).all()
    assert est.contrast([1.0, -1.0]).looseness.tolist() == [0.5]
    assert (est["y"] - est["y"]).looseness.tolist() == [0.0]
    assert est[["y", "x"]].looseness.tolist() == [0.1, 0.5]
    joint = np.diff(est.conf_int(joint=True)) / np.diff(plain.conf_int(joint=True))
    assert (joint > wider).all()
