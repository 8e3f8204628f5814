"""Links: the law of one vote given its eta = scores[a, u] - scores[b, u]."""

import numpy as np
from scipy.special import expit

from lrbtl._kernels import _links

Floats = np.typing.NDArray[np.float64]

QUADRATURE = 9


def logistic_terms(eta: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Return loss, score and Fisher information of each vote under the logistic link [Li26, eq. btl]."""
    loss, score, fisher = np.empty_like(eta), np.empty_like(eta), np.empty_like(eta)
    _links.logistic_terms(eta, y, loss, score, fisher)
    return loss, score, fisher


def mean_terms(eta: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return E[p] and E[p (1 - p)], p = sigmoid(eta + sqrt(variance) Z), Z normal, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE)
    spread = np.sqrt(np.maximum(variance, 0.0))
    mean, information = np.zeros_like(eta), np.zeros_like(eta)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        p = expit(eta + node * spread)
        mean += weight * p
        information += weight * p * (1 - p)
    return mean, information
