"""The largest standardised gap between any two models, draw by draw."""


def scan_gaps(
    const double[:, ::1] draws,      # in: (d, n), one column per draw
    const double[:, ::1] precision,  # in: (d, d), 1 / Var(draws[a] - draws[b]); 0 leaves a pair out
    double bar,                      # in
    double[::1] largest_out,         # out: max_ab (draws[a] - draws[b])**2 * precision[a, b]
    double[::1] count_out,           # out: number of pairs a < b above the bar
):
    """Fill both with the draws innermost, so that they go through the vector units side by side."""
    cdef Py_ssize_t a, b, i, d = draws.shape[0], n = draws.shape[1]
    cdef double p, value
    largest_out[:] = 0.0
    count_out[:] = 0.0
    with nogil:
        for a in range(d):
            for b in range(a + 1, d):
                p = precision[a, b]
                for i in range(n):
                    value = (draws[a, i] - draws[b, i]) * (draws[a, i] - draws[b, i]) * p
                    largest_out[i] = value if value > largest_out[i] else largest_out[i]
                    count_out[i] += 1.0 if value > bar else 0.0
