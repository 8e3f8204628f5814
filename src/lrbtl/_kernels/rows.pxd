cdef inline double row_entry(const double[:, ::1] U, int a, int b, Py_ssize_t k) noexcept nogil:
    """Component k of the design row: U[a] - U[b] for a battle, U[a] for one entry (b < 0)."""
    return U[a, k] - U[b, k] if b >= 0 else U[a, k]
