from libc.math cimport exp, fabs, fmax, log1p


cdef inline double softplus(double t) noexcept nogil:
    """log(1 + exp(t)) without overflow."""
    return fmax(t, 0.0) + log1p(exp(-fabs(t)))


cdef inline double sigmoid(double t) noexcept nogil:
    """1 / (1 + exp(-t)) without overflow."""
    cdef double e = exp(-fabs(t))
    return 1.0 / (1.0 + e) if t >= 0.0 else e / (1.0 + e)


cdef inline double sigmoid_variance(double t) noexcept nogil:
    """sigmoid(t) * sigmoid(-t), positive also where sigmoid(t) rounds to one."""
    cdef double e = exp(-fabs(t))
    return e / ((1.0 + e) * (1.0 + e))
