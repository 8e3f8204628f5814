from libc.math cimport exp, fabs, fmax, log1p


cdef inline void logistic(
    double eta, double y, double* loss_out, double* score_out, double* fisher_out
) noexcept nogil:
    """One vote: loss -y log p - (1 - y) log(1 - p), score y - p, information p (1 - p), with p = sigmoid(eta).

    Everything comes from exp(-|eta|), which keeps full relative precision in both tails.
    """
    cdef double e = exp(-fabs(eta))
    cdef double near = 1.0 / (1.0 + e)
    cdef double far = e * near
    cdef double p = near if eta >= 0.0 else far
    cdef double q = far if eta >= 0.0 else near
    cdef double tail = log1p(e)
    loss_out[0] = y * (fmax(-eta, 0.0) + tail) + (1.0 - y) * (fmax(eta, 0.0) + tail)
    score_out[0] = y * q - (1.0 - y) * p
    fisher_out[0] = near * far
