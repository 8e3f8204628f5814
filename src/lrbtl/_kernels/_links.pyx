"""Loss, score and Fisher information of one vote given its eta, over all cells."""
from lrbtl._kernels._links cimport sigmoid, sigmoid_variance, softplus


def logistic_terms(
    const double[::1] eta,   # in
    const double[::1] y,     # in
    double[::1] loss_out,    # out: -y log sigmoid(eta) - (1 - y) log sigmoid(-eta)
    double[::1] score_out,   # out: y - sigmoid(eta)
    double[::1] fisher_out,  # out: sigmoid(eta) * sigmoid(-eta)
):
    """Fill the three terms; the two-sided forms keep full precision in both tails."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(eta.shape[0]):
            loss_out[i] = y[i] * softplus(-eta[i]) + (1.0 - y[i]) * softplus(eta[i])
            score_out[i] = y[i] * sigmoid(-eta[i]) - (1.0 - y[i]) * sigmoid(eta[i])
            fisher_out[i] = sigmoid_variance(eta[i])
