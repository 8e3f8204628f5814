"""The largest standardised gap between any two models, draw by draw."""
from libc.math cimport sqrt


def scan_gaps(
    const double[:, ::1] base,         # in: (n, d), normal draws, one per row
    const long long[:, ::1] first,     # in: (n, m), a pair of models for each of m uses of a draw
    const long long[:, ::1] second,    # in
    const double[:, ::1] beyond,       # in: (n, m), the standardised gap that the pair shall have
    const double[:, ::1] cov,          # in: (d, d), of the draws
    const double[:, ::1] precision,    # in: (d, d), 1 / Var(gap); 0 leaves a pair out
    const double[::1] floor,           # in: no gap of a and b reaches the bar unless g[a]^2 or g[b]^2 exceeds its floor
    double bar,                        # in: of squared standardised gaps
    double[::1] draw_scratch,          # scratch: (d,)
    double[:, ::1] largest_out,        # out: (n, m), the largest squared standardised gap above the bar, or the bar
    double[:, ::1] count_out,          # out: (n, m), number of pairs above the bar
):
    """Move each draw along its pair's covariance until the pair has the gap asked for, then look at all pairs."""
    cdef Py_ssize_t i, j, a, b, k, d = base.shape[1]
    cdef double root, shift, value, largest, count
    with nogil:
        for i in range(base.shape[0]):
            for j in range(first.shape[1]):
                a, b = first[i, j], second[i, j]
                root = sqrt(precision[a, b])
                shift = (beyond[i, j] - (base[i, a] - base[i, b]) * root) * root
                for k in range(d):
                    draw_scratch[k] = base[i, k] + shift * (cov[a, k] - cov[b, k])
                largest, count = bar, 0.0
                for a in range(d):
                    if draw_scratch[a] * draw_scratch[a] <= floor[a]:
                        continue
                    for b in range(d):
                        value = (draw_scratch[a] - draw_scratch[b]) * (draw_scratch[a] - draw_scratch[b])
                        value = value * precision[a, b]
                        if value > bar and (a < b or draw_scratch[b] * draw_scratch[b] <= floor[b]):
                            count += 1.0
                            largest = value if value > largest else largest
                largest_out[i, j], count_out[i, j] = largest, count
