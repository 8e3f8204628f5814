"""Sums over battles behind variances: the leverage of each cell, and what Bernstein's inequality needs of a target.

Cells of context u are start[u]:start[u + 1].
"""

from libc.math cimport fabs

from lrbtl._kernels.rows cimport row_entry


def fill_leverages(
    const long long[::1] start,  # in
    const int[::1] a,            # in
    const int[::1] b,            # in
    const double[:, ::1] U,      # in
    const double[:, ::1] V,      # in
    const double[:, ::1] models,  # in: covariance of the model factor, (d1 r, d1 r)
    const double[:, :, ::1] cross,  # in: covariance of v_u with U @ v_u, (D, d1, r)
    const double[:, :, ::1] own,  # in: covariance of v_u, (D, r, r)
    double[::1] out,             # out: variance of (U[a] - U[b]) @ V[u]
):
    cdef Py_ssize_t u, i, k, h, r = U.shape[1], row, column
    cdef double total, block, x, side
    with nogil:
        for u in range(start.shape[0] - 1):
            for i in range(start[u], start[u + 1]):
                row = a[i] * r
                column = b[i] * r
                total = 0.0
                for k in range(r):
                    x = row_entry(U, a[i], b[i], k)
                    side = cross[u, a[i], k] - cross[u, b[i], k] if b[i] >= 0 else cross[u, a[i], k]
                    total = total + 2.0 * x * side
                    for h in range(r):
                        block = models[row + k, row + h]
                        if b[i] >= 0:
                            block = block + models[column + k, column + h] - 2.0 * models[row + k, column + h]
                        total = total + V[u, k] * V[u, h] * block + x * row_entry(U, a[i], b[i], h) * own[u, k, h]
                out[i] = total


def sum_influences(
    const long long[::1] start,   # in
    const long long[::1] slot_a,  # in
    const long long[::1] slot_b,  # in: negative where the cell is one entry
    const double[::1] value,      # in: H of each slot
    const double[::1] score,      # in: s of one battle of each cell
    const double[::1] shared,     # in: what parameters shared by all battles add to each cell's influence
    const double[::1] count,      # in
    double[::1] square_out,       # out, zeroed: sum of count (s <H, X> + shared)^2, by context
    double[::1] largest_out,      # out, zeroed: largest |s <H, X> + shared|, by context
):
    cdef Py_ssize_t u, i
    cdef double influence
    with nogil:
        for u in range(start.shape[0] - 1):
            for i in range(start[u], start[u + 1]):
                influence = value[slot_a[i]] - value[slot_b[i]] if slot_b[i] >= 0 else value[slot_a[i]]
                influence = score[i] * influence + shared[i]
                square_out[u] += count[i] * influence * influence
                if fabs(influence) > largest_out[u]:
                    largest_out[u] = fabs(influence)
