"""Loss, score and Fisher information of one vote given its eta, over all cells."""


def logistic_terms(
    const double[::1] eta,   # in
    const double[::1] y,     # in
    double[::1] loss_out,    # in: log(1 + exp(-|eta|)), out: -y log sigmoid(eta) - (1 - y) log sigmoid(-eta)
    double[::1] score_out,   # in: exp(-|eta|), out: y - sigmoid(eta)
    double[::1] fisher_out,  # out: sigmoid(eta) * sigmoid(-eta)
):
    """Fill the three terms of every vote from exp(-|eta|), which keeps full relative precision in both tails."""
    cdef Py_ssize_t i
    cdef double near, far, p, q
    with nogil:
        for i in range(eta.shape[0]):
            near = 1.0 / (1.0 + score_out[i])
            far = score_out[i] * near
            p = near if eta[i] >= 0.0 else far
            q = far if eta[i] >= 0.0 else near
            loss_out[i] += y[i] * (-eta[i] if eta[i] < 0.0 else 0.0) + (1.0 - y[i]) * (eta[i] if eta[i] > 0.0 else 0.0)
            score_out[i] = y[i] * q - (1.0 - y[i]) * p
            fisher_out[i] = near * far
