"""The logistic link against high precision, far into both tails."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from lrbtl.links import logistic_terms, mean_terms


def exact_terms(eta, y):
    """Loss, score and information with 400 digits: the exponential of 700 and its inverse are both exact."""
    with localcontext() as context:
        context.prec = 400
        t, v, one = Decimal(eta), Decimal(y), Decimal(1)
        p = one / (one + (-t).exp())
        q = one / (one + t.exp())
        loss = -v * p.ln() - (one - v) * q.ln()
        return float(loss), float(v * q - (one - v) * p), float(p * q)


@pytest.mark.parametrize("eta", [0.0, 1e-12, 0.3, 2.0, 17.0, 40.0, 300.0, 700.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("y", [0.0, 0.25, 0.5, 1.0])
def test_terms_keep_full_precision(eta, sign, y):
    terms = logistic_terms(np.array([sign * eta]), np.array([y]))
    expected = exact_terms(sign * eta, y)
    rounding = 1e-300 if y in (0.0, 1.0) else 1e-16  # the score of a tie is a difference
    for found, exact in zip(terms, expected, strict=True):
        assert found[0] == pytest.approx(exact, rel=1e-14, abs=rounding)


def test_extremes_neither_overflow_nor_vanish():
    eta = np.array([-1e300, -800.0, 800.0, 1e300])
    loss, score, fisher = logistic_terms(eta, np.ones(4))
    np.testing.assert_array_equal(loss, [1e300, 800.0, 0.0, 0.0])
    np.testing.assert_array_equal(score, [1.0, 1.0, 0.0, 0.0])
    assert np.all(fisher >= 0) and np.all(np.isfinite(fisher))
    assert logistic_terms(np.array([700.0]), np.ones(1))[2][0] > 0  # where sigmoid(eta) rounds to one


@given(st.floats(-30, 30), st.floats(0, 1))
def test_derivatives_and_symmetry(eta, y):
    step = 1e-5
    points = np.array([eta - step, eta, eta + step])
    loss, score, fisher = logistic_terms(points, np.full(3, y))
    assert -(loss[2] - loss[0]) / (2 * step) == pytest.approx(score[1], abs=1e-8)
    assert -(score[2] - score[0]) / (2 * step) == pytest.approx(fisher[1], abs=1e-8)
    mirrored = logistic_terms(-points, np.full(3, 1 - y))
    np.testing.assert_allclose(mirrored[0], loss, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(mirrored[1], -score, rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(mirrored[2], fisher)


@pytest.mark.parametrize("eta", [-6.0, -1.0, 0.0, 0.4, 3.0])
@pytest.mark.parametrize("variance", [0.0, 0.01, 0.3, 1.0])
def test_mean_over_a_normal_eta(eta, variance):
    sd = variance**0.5
    exact = quad(lambda z: expit(eta + sd * z) * norm.pdf(z), -10, 10, epsabs=1e-13)[0]
    found, information = mean_terms(np.array([eta, -eta]), np.full(2, variance))
    variances = quad(lambda z: expit(eta + sd * z) * expit(-eta - sd * z) * norm.pdf(z), -10, 10, epsabs=1e-13)[0]
    np.testing.assert_allclose(information, variances, atol=2e-5)
    assert found[0] == pytest.approx(exact, abs=2e-6)
    assert found.sum() == pytest.approx(1.0, abs=1e-14)
    assert abs(found[0] - 0.5) <= abs(expit(eta) - 0.5) + 1e-15
