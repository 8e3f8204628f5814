"""Products and inverses of many small matrices, and products of sparse rows."""

from libc.math cimport log


def subtract_sparse_gram(
    const int[::1] indptr,     # in: rows of a CSR matrix W
    const int[::1] indices,    # in
    const double[::1] data,    # in
    double[:, ::1] gram_out,   # in, out: the upper triangle of gram_out -= W^T W, for columns in order
):
    cdef Py_ssize_t i, p, q
    cdef double w
    with nogil:
        for i in range(indptr.shape[0] - 1):
            for p in range(indptr[i], indptr[i + 1]):
                w = data[p]
                for q in range(p, indptr[i + 1]):
                    gram_out[indices[p], indices[q]] -= w * data[q]


def times_blocks(
    const long long[:, ::1] slots,       # in: of each block; the number of all slots stands for padding
    const double[:, :, ::1] matrices,    # in
    const double[:, ::1] value,          # in: of each slot
    double[:, ::1] product_out,          # out: matrix times value, by slot
):
    cdef Py_ssize_t b, i, j, k, size = slots.shape[1], width = value.shape[1], n = value.shape[0]
    cdef double total
    with nogil:
        for b in range(slots.shape[0]):
            for i in range(size):
                if slots[b, i] == n:
                    break
                for k in range(width):
                    total = 0.0
                    for j in range(size):
                        if slots[b, j] == n:
                            break
                        total = total + matrices[b, i, j] * value[slots[b, j], k]
                    product_out[slots[b, i], k] = total


def invert_blocks(
    const double[:, :, ::1] matrices,  # in: symmetric, positive semidefinite
    double scale,                      # in
    double[:, :, ::1] inverse_out,     # out: (I + scale matrix)^-1
):
    """Return the sum of the log determinants of the inverses; by elimination without pivots, for small matrices."""
    cdef Py_ssize_t b, i, j, k, size = matrices.shape[1]
    cdef double pivot, factor, total = 0.0
    with nogil:
        for b in range(matrices.shape[0]):
            for i in range(size):
                for j in range(size):
                    inverse_out[b, i, j] = scale * matrices[b, i, j]
                inverse_out[b, i, i] += 1.0
            for k in range(size):
                pivot = 1.0 / inverse_out[b, k, k]
                total += log(pivot)
                inverse_out[b, k, k] = 1.0
                for j in range(size):
                    inverse_out[b, k, j] *= pivot
                for i in range(size):
                    if i != k:
                        factor = inverse_out[b, i, k]
                        inverse_out[b, i, k] = 0.0
                        for j in range(size):
                            inverse_out[b, i, j] -= factor * inverse_out[b, k, j]
    return total


def times_block_rows(
    const double[:, :, ::1] blocks,  # in
    const int[::1] indptr,           # in: rows of a CSR matrix, those of a block with the same columns
    const int[::1] indices,          # in
    const double[::1] data,          # in
    const double[::1] left,          # in: factor of each row
    const double[::1] right,         # in: factor of each column
    double[::1] data_out,            # out: blocks diag(left) matrix diag(right)
):
    cdef Py_ssize_t j, i, k, p, first, width, size = blocks.shape[1]
    cdef double total
    with nogil:
        for j in range(blocks.shape[0]):
            first = indptr[j * size]
            width = indptr[j * size + 1] - first
            for i in range(size):
                for p in range(width):
                    total = 0.0
                    for k in range(size):
                        total = total + blocks[j, i, k] * left[j * size + k] * data[first + k * width + p]
                    data_out[first + i * width + p] = total * right[indices[first + p]]


def add_sparse_product(
    const int[::1] left_indptr,    # in: rows of a CSR matrix A
    const int[::1] left_indices,   # in
    const double[::1] left,        # in
    const int[::1] right_indptr,   # in: rows of a CSR matrix B, as many
    const int[::1] right_indices,  # in
    const double[::1] right,       # in
    double[:, ::1] product_out,    # in, out: product_out += A^T B
):
    cdef Py_ssize_t i, p, q
    cdef double w
    with nogil:
        for i in range(left_indptr.shape[0] - 1):
            for p in range(left_indptr[i], left_indptr[i + 1]):
                w = left[p]
                for q in range(right_indptr[i], right_indptr[i + 1]):
                    product_out[left_indices[p], right_indices[q]] += w * right[q]
