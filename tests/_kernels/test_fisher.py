"""Loss, score and information of each vote against NumPy."""

import numpy as np
from scipy.special import expit, log_expit

from lrbtl._kernels import fisher


def test_logistic_terms():
    eta = np.concatenate([np.linspace(-30, 30, 121), [0.0, -700.0, 700.0]])
    y = np.resize([0.0, 0.5, 1.0, 0.3], len(eta))
    score = np.exp(-np.abs(eta))
    loss, information = np.log1p(score), np.empty_like(eta)
    fisher.logistic_terms(eta, y, loss, score, information)
    np.testing.assert_allclose(loss, -y * log_expit(eta) - (1 - y) * log_expit(-eta), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(score, y * expit(-eta) - (1 - y) * expit(eta), rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(information, expit(eta) * expit(-eta), rtol=1e-13)


def test_no_votes():
    none, out = np.empty(0), [np.empty(0) for _ in range(3)]
    fisher.logistic_terms(none, none, *out)
    assert all(each.size == 0 for each in out)
