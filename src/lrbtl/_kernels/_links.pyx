"""Loss, score and Fisher information of one vote given its eta, over all cells."""
from lrbtl._kernels._links cimport logistic


def logistic_terms(
    const double[::1] eta,   # in
    const double[::1] y,     # in
    double[::1] loss_out,    # out: -y log sigmoid(eta) - (1 - y) log sigmoid(-eta)
    double[::1] score_out,   # out: y - sigmoid(eta)
    double[::1] fisher_out,  # out: sigmoid(eta) * sigmoid(-eta)
):
    """Fill the three terms of every vote."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(eta.shape[0]):
            logistic(eta[i], y[i], &loss_out[i], &score_out[i], &fisher_out[i])
