"""The Gram operator x -> sum of weight <x, X> X of pairs, and its normal equations at T[:, u] = U @ V[u].

Cells of context u are start[u]:start[u + 1]. A slot is one (context, model) pair that occurs; slot_a and slot_b are
those of a cell's two sides, slot_b negative where the cell is one entry. Slots of context u are
slot_start[u]:slot_start[u + 1].
A cell sees only the design row x = U[a] - U[b] and v = V[u].
"""

from lrbtl._kernels.rows cimport row_entry


def apply_gram(
    const long long[::1] start,   # in
    const long long[::1] slot_a,  # in
    const long long[::1] slot_b,  # in
    const double[::1] value,      # in: of each slot
    const double[::1] weight,     # in: of each cell
    double[::1] sum_out,          # out, zeroed: sum over cells of weight <value, X> X, by slot
):
    cdef Py_ssize_t u, i
    cdef double pull
    with nogil:
        for u in range(start.shape[0] - 1):
            for i in range(start[u], start[u + 1]):
                if slot_b[i] >= 0:
                    pull = weight[i] * (value[slot_a[i]] - value[slot_b[i]])
                    sum_out[slot_b[i]] -= pull
                else:
                    pull = weight[i] * value[slot_a[i]]
                sum_out[slot_a[i]] += pull


def apply_gram_columns(
    const long long[::1] slot_a,  # in
    const long long[::1] slot_b,  # in
    const double[:, ::1] value,   # in: of each slot, several columns
    const double[::1] weight,     # in: of each pair
    double[:, ::1] sum_out,       # out, zeroed: sum over pairs of weight <value, X> X, by slot
):
    cdef Py_ssize_t i, k, m = value.shape[1]
    cdef double pull, w
    cdef const double* left
    cdef const double* right
    cdef double* first
    cdef double* second
    with nogil:
        for i in range(slot_a.shape[0]):
            w = weight[i]
            left, right = &value[slot_a[i], 0], &value[slot_b[i], 0]
            first, second = &sum_out[slot_a[i], 0], &sum_out[slot_b[i], 0]
            for k in range(m):
                pull = w * (left[k] - right[k])
                first[k] += pull
                second[k] -= pull


def sum_runs(
    const long long[::1] number,  # in: ascending
    const double[::1] value,      # in
    double[::1] sum_out,          # out, zeroed: sum_out[number] += value
):
    cdef Py_ssize_t i
    with nogil:
        for i in range(number.shape[0]):
            sum_out[number[i]] += value[i]


def sum_laplacians(
    const long long[::1] place,   # in: block m^2 + row m + column of each pair, flat
    const double[::1] weight,     # in: of each pair
    double[:, :, ::1] out,        # out, zeroed: sum of weight X X^T of each block, (B, m, m)
):
    cdef Py_ssize_t i, rest, first, second, m = out.shape[1]
    cdef double w
    cdef double* block
    with nogil:
        for i in range(place.shape[0]):
            w = weight[i]
            rest = place[i] % (m * m)
            block = &out[place[i] // (m * m), 0, 0]
            first, second = rest // m, rest % m
            block[first * m + second] -= w
            block[second * m + first] -= w
            block[first * m + first] += w
            block[second * m + second] += w


def sum_slope_rows(
    const long long[::1] slot_a,  # in
    const long long[::1] slot_b,  # in
    const double[::1] weight,     # in: of each cell
    const double[:, ::1] slopes,  # in: of each cell
    double[:, ::1] rows_out,      # out, zeroed: rows_out[slot_a] += weight slope; rows_out[slot_b] -= weight slope
):
    cdef Py_ssize_t i, j, k = slopes.shape[1]
    cdef double w
    cdef const double* slope
    cdef double* first
    cdef double* second
    with nogil:
        for i in range(slopes.shape[0]):
            slope = &slopes[i, 0]
            first = &rows_out[slot_a[i], 0]
            w = weight[i]
            if slot_b[i] < 0:
                for j in range(k):
                    first[j] += w * slope[j]
            else:
                second = &rows_out[slot_b[i], 0]
                for j in range(k):
                    first[j] += w * slope[j]
                    second[j] -= w * slope[j]


def sum_slot_rows(
    const long long[::1] start,       # in
    const int[::1] a,                 # in
    const int[::1] b,                 # in
    const long long[::1] slot_a,      # in
    const long long[::1] slot_b,      # in
    const long long[::1] slot_start,  # in: slots of context u are slot_start[u]:slot_start[u + 1]
    const long long[::1] model,       # in: model of each slot
    const double[:, ::1] U,           # in
    const double[::1] weight,         # in
    double[:, ::1] rows_out,          # out, zeroed: rows_out[slot_a] += weight x; rows_out[slot_b] -= weight x
    double[:, :, ::1] gram_out,       # out, zeroed: gram_out[u] += weight x x^T = sum of U[model] rows_out
):
    cdef Py_ssize_t u, i, k, h, r = U.shape[1]
    cdef double wx
    with nogil:
        for u in range(start.shape[0] - 1):
            for i in range(start[u], start[u + 1]):
                for k in range(r):
                    wx = weight[i] * row_entry(U, a[i], b[i], k)
                    rows_out[slot_a[i], k] += wx
                    if b[i] >= 0:
                        rows_out[slot_b[i], k] -= wx
            for i in range(slot_start[u], slot_start[u + 1]):
                for k in range(r):
                    for h in range(k + 1):
                        gram_out[u, k, h] += U[model[i], k] * rows_out[i, h]
            for k in range(r):
                for h in range(k):
                    gram_out[u, h, k] = gram_out[u, k, h]


cdef void close_laplacian(double[:, ::1] blocks, Py_ssize_t d1, Py_ssize_t r) noexcept nogil:
    """Mirror symmetric (r, r) blocks above the diagonal, and subtract each from the two diagonal blocks beside it."""
    cdef Py_ssize_t a, b, k, h
    cdef double w
    for a in range(d1):
        for b in range(a + 1, d1):
            for k in range(r):
                for h in range(r):
                    w = blocks[a * r + k, b * r + h]
                    blocks[b * r + k, a * r + h] = w
                    blocks[a * r + k, a * r + h] -= w
                    blocks[b * r + k, b * r + h] -= w


def sum_model_blocks(
    const long long[::1] start,   # in
    const int[::1] a,             # in
    const int[::1] b,             # in
    const double[:, ::1] V,       # in
    const double[::1] weight,     # in
    double[:, ::1] blocks_out,    # out, zeroed: (d1 r or more, same), += weight (e_a - e_b)(e_a - e_b)^T kron v v^T
    Py_ssize_t d1,
):
    cdef Py_ssize_t u, i, k, h, row, column, r = V.shape[1], stride = blocks_out.shape[1]
    cdef double w, wv
    cdef double* block
    cdef const double* v
    with nogil:
        for u in range(start.shape[0] - 1):
            v = &V[u, 0]
            for i in range(start[u], start[u + 1]):
                row = a[i] * r
                column = row if b[i] < 0 else b[i] * r
                w = weight[i] if b[i] < 0 else -weight[i]
                block = &blocks_out[row, column]
                for k in range(r):
                    wv = w * v[k]
                    for h in range(r):
                        block[h] += wv * v[h]
                    block = block + stride
    with nogil:
        close_laplacian(blocks_out, d1, r)


def sum_context_blocks(
    const double[:, :, ::1] matrices,  # in: symmetric, of some contexts
    const long long[:, ::1] models,    # in: of their rows; any where a row is zero
    const double[:, ::1] V,            # in: one row per context
    double[:, ::1] blocks_out,         # in, out: block (a, b), a >= b, of (d1 r or more, same) += matrix[a, b] v v^T
):
    cdef Py_ssize_t u, i, j, k, h, r = V.shape[1], stride = blocks_out.shape[1]
    cdef long long a, b
    cdef double w
    cdef double* block
    cdef const double* v
    with nogil:
        for u in range(matrices.shape[0]):
            v = &V[u, 0]
            for i in range(matrices.shape[1]):
                for j in range(i + 1):
                    w = matrices[u, i, j]
                    if w == 0.0:
                        continue
                    a, b = models[u, i], models[u, j]
                    block = &blocks_out[a * r, b * r] if a >= b else &blocks_out[b * r, a * r]
                    for k in range(r):
                        for h in range(r):
                            block[h] += w * v[k] * v[h]
                        block = block + stride


def sum_cross_blocks(
    const long long[::1] slot_start,   # in: slots of context u are slot_start[u]:slot_start[u + 1]
    const long long[::1] target,       # in: the output block of each slot
    const double[:, :, ::1] E,         # in: E[u] = d v_u / d (row of the eliminated factor), (r1, rl)
    const double[:, ::1] V,            # in
    const double[:, ::1] rows,         # in: weighted design rows of each slot
    const double[::1] score,           # in: score sum of each slot
    double[:, :, ::1] blocks_out,      # out, zeroed: blocks_out[target] += E[u]^T (rows v^T - score I)
):
    cdef Py_ssize_t u, p, i, k, h, r1 = E.shape[1], rl = E.shape[2]
    cdef double Ez
    with nogil:
        for u in range(slot_start.shape[0] - 1):
            for p in range(slot_start[u], slot_start[u + 1]):
                for i in range(rl):
                    Ez = 0.0
                    for k in range(r1):
                        Ez = Ez + E[u, k, i] * rows[p, k]
                    for h in range(r1):
                        blocks_out[target[p], i, h] += Ez * V[u, h] - score[p] * E[u, h, i]
