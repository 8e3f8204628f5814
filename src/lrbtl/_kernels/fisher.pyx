"""Loss, score and Fisher information of one vote given its eta, over all cells."""


def logistic_terms(
    const double[::1] eta,   # in
    const double[::1] y,     # in
    double[::1] loss_out,    # in: log(1 + exp(-|eta|)), out: -y log sigmoid(eta) - (1 - y) log sigmoid(-eta)
    double[::1] score_out,   # in: exp(-|eta|), out: y - sigmoid(eta)
    double[::1] fisher_out,  # out: sigmoid(eta) * sigmoid(-eta)
):
    """Fill the three terms of every vote from exp(-|eta|), which keeps full relative precision in both tails.

    Two loops without branches, each over few enough arrays for the compiler to use vectors.
    """
    cdef Py_ssize_t i, n = eta.shape[0]
    cdef double near, far, p, q
    if n == 0:
        return
    cdef const double* x = &eta[0]
    cdef const double* vote = &y[0]
    cdef double* loss = &loss_out[0]
    cdef double* score = &score_out[0]
    cdef double* fisher = &fisher_out[0]
    with nogil:
        for i in range(n):
            fisher[i] = 1.0 / (1.0 + score[i])
            loss[i] = loss[i] + ((x[i] if x[i] > 0.0 else 0.0) - vote[i] * x[i])
        for i in range(n):
            near = fisher[i]
            far = score[i] * near
            p = near if x[i] >= 0.0 else far
            q = far if x[i] >= 0.0 else near
            score[i] = vote[i] * q - (1.0 - vote[i]) * p
            fisher[i] = near * far
