"""Links: the law of one vote given its eta = scores[a, u] - scores[b, u]."""

import numpy as np

from lrbtl._kernels import _links

Floats = np.typing.NDArray[np.float64]


def logistic_terms(eta: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Return loss, score and Fisher information of each vote under the logistic link [Li26, eq. btl]."""
    loss, score, fisher = np.empty_like(eta), np.empty_like(eta), np.empty_like(eta)
    _links.logistic_terms(eta, y, loss, score, fisher)
    return loss, score, fisher
