"""Loss, score and Fisher information of one vote given its eta, over all cells."""
from lrbtl._kernels._links cimport softplus, sigmoid, sigmoid_variance


def logistic_terms(
    const double[::1] eta,   # in
    const double[::1] y,     # in
    double[::1] loss_out,    # out: softplus(eta) - y * eta
    double[::1] score_out,   # out: y - sigmoid(eta)
    double[::1] fisher_out,  # out: sigmoid(eta) * sigmoid(-eta)
):
    cdef Py_ssize_t i
    with nogil:
        for i in range(eta.shape[0]):
            loss_out[i] = softplus(eta[i]) - y[i] * eta[i]
            score_out[i] = y[i] - sigmoid(eta[i])
            fisher_out[i] = sigmoid_variance(eta[i])
