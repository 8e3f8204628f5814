"""The tangent projection: push coordinates to slots and cells, pull cell values back to slots.

Cells of context u are start[u]:start[u + 1]. A slot is one (context, model) pair that occurs; slot_a and slot_b are
those of a cell's two sides, slot_b negative where the cell is one entry. Slots of context u are
slot_start[u]:slot_start[u + 1].
"""


def push_slots(
    const long long[::1] slot_start,  # in
    const long long[::1] model,       # in: model of each slot
    const double[:, ::1] U,           # in
    const double[:, ::1] V,           # in
    double[::1] value_out,            # in, out: value_out += U[model] @ V[u]
):
    cdef Py_ssize_t u, p, k, r = U.shape[1]
    cdef double value
    with nogil:
        for u in range(slot_start.shape[0] - 1):
            for p in range(slot_start[u], slot_start[u + 1]):
                value = 0.0
                for k in range(r):
                    value = value + U[model[p], k] * V[u, k]
                value_out[p] += value


def fill_differences(
    const long long[::1] slot_a,  # in
    const long long[::1] slot_b,  # in: negative where the cell is one entry
    const double[::1] value,      # in
    double[::1] out,              # out: value[slot_a] - value[slot_b]
):
    cdef Py_ssize_t i
    with nogil:
        for i in range(slot_a.shape[0]):
            out[i] = value[slot_a[i]] - value[slot_b[i]] if slot_b[i] >= 0 else value[slot_a[i]]


def sum_slots(
    const long long[::1] start,   # in
    const long long[::1] slot_a,  # in
    const long long[::1] slot_b,  # in: negative where the cell is one entry
    const double[::1] value,      # in
    double[::1] sum_out,          # out, zeroed: sum_out[slot_a] += value; sum_out[slot_b] -= value
):
    cdef Py_ssize_t u, i
    with nogil:
        for u in range(start.shape[0] - 1):
            for i in range(start[u], start[u + 1]):
                sum_out[slot_a[i]] += value[i]
                if slot_b[i] >= 0:
                    sum_out[slot_b[i]] -= value[i]


def sum_signed_slots(
    const long long[::1] slot_a,           # in
    const long long[::1] slot_b,           # in
    const double[::1] value,               # in
    const unsigned long long[::1] signs,   # in: bit `first + j` is set where a cell keeps its sign in sum j
    int first,                             # in
    double[:, ::1] sum_out,                # out, zeroed: sums j of +-value, sum_out[slot_a] plus, [slot_b] minus
):
    cdef Py_ssize_t i, j, n = sum_out.shape[1]
    cdef unsigned long long bits
    cdef double signed_value
    cdef double* at_a
    cdef double* at_b
    with nogil:
        for i in range(slot_a.shape[0]):
            at_a = &sum_out[slot_a[i], 0]
            at_b = &sum_out[slot_b[i], 0]
            bits = signs[i] >> first
            for j in range(n):
                signed_value = value[i] * (2 * <int>((bits >> j) & 1) - 1)
                at_a[j] += signed_value
                at_b[j] -= signed_value
