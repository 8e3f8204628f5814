# cython: language_level=3
"""Loops over the rows of a battle log: give labels integer codes, count integer keys."""

from cpython.object cimport PyObject
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

import numpy as np


cdef extern from "Python.h":
    PyObject* PyList_GetItem(object values, Py_ssize_t i) except NULL  # borrowed


cdef enum:
    MOST_SEEN = 4096  # objects whose codes are remembered
    MOST_TEXTS = 1 << 16  # distinct texts that the cache distinguishes
    TEXT_BITS = 17
    TEXT_SLOTS = 1 << TEXT_BITS


def code_objects(values, int32_t[::1] codes_out):
    """Distinct objects in order of appearance; ``codes_out[i]`` is the place of ``values[i]`` among them.

    Values are a list, or a contiguous array of objects. Columns often hold the same object many times, which is
    recognised by where it is.
    """
    cdef dict index = {}
    cdef object value, code
    cdef Py_ssize_t i
    cdef PyObject* item
    cdef PyObject** items = NULL
    cdef uintptr_t[MOST_SEEN] seen
    cdef int32_t[MOST_SEEN] seen_codes
    cdef uintptr_t slot
    memset(seen, 255, sizeof(seen))
    if not isinstance(values, list) and len(values):
        items = <PyObject**> <uintptr_t> values.__array_interface__["data"][0]
    for i in range(len(values)):
        item = PyList_GetItem(values, i) if items == NULL else items[i]
        slot = (<uintptr_t> item >> 4 ^ <uintptr_t> item >> 16) & (MOST_SEEN - 1)
        if seen[slot] != <uintptr_t> item:
            value = None if item == NULL else <object> item
            code = index.get(value)
            if code is None:
                code = len(index)
                index[value] = code
            seen[slot], seen_codes[slot] = <uintptr_t> item, code
        codes_out[i] = seen_codes[slot]
    return list(index)


cdef inline uint64_t load_word(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    # The first 8 bytes of a text, or all of a shorter one: with its size, they are unique among those of fewer than 8.
    cdef uint64_t word = 0
    cdef uint32_t half = 0, other = 0
    if size >= 8:
        memcpy(&word, text, 8)
    elif size >= 4:
        memcpy(&half, text, 4)
        memcpy(&other, text + size - 4, 4)
        word = <uint64_t> half << 32 | other
    elif size:
        word = <uint64_t> text[0] << 16 | <uint64_t> text[size >> 1] << 8 | text[size - 1]
    return word


cdef inline uint64_t hash_text(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    # Words of 8 bytes, the last of which ends with the text, multiplied as in FNV-1a: the highest bits depend on all.
    cdef uint64_t h = <uint64_t> size * 0x9E3779B97F4A7C15u
    cdef Py_ssize_t j
    for j in range(0, size - 8, 8):
        h = (h ^ load_word(text + j, 8)) * 0x9FB21C651E98DF25u
        h ^= h >> 32
    return (h ^ (load_word(text + size - 8, 8) if size > 8 else load_word(text, size))) * 0x9FB21C651E98DF25u


cdef inline bint texts_equal(const uint8_t* left, const uint8_t* right, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(0, size - 8, 8):
        if load_word(left + j, 8) != load_word(right + j, 8):
            return False
    if size > 8:
        return load_word(left + size - 8, 8) == load_word(right + size - 8, 8)
    return load_word(left, size) == load_word(right, size)


def code_texts(list chunks, int32_t[::1] codes_out):
    """Distinct texts of an Arrow column in order of appearance, as bytes; ``codes_out[i]`` is the place of text i.

    A chunk is its bytes and its offsets, int32 or int64, one more than there are texts. None is returned where there
    are more than 65,536 distinct texts, or offsets do not fit the bytes.
    """
    cdef int32_t[::1] slots = np.full(TEXT_SLOTS, -1, dtype=np.int32)
    cdef uint64_t[::1] hashes = np.empty(MOST_TEXTS, dtype=np.uint64)
    cdef uintptr_t[::1] starts = np.empty(MOST_TEXTS, dtype=np.uintp)
    cdef int64_t[::1] sizes = np.empty(MOST_TEXTS, dtype=np.int64)
    cdef const uint8_t[::1] data
    cdef const int32_t[::1] short_offsets
    cdef const int64_t[::1] long_offsets
    cdef const int32_t* short
    cdef const int64_t* long
    cdef Py_ssize_t n, i, row = 0
    cdef int64_t lo, hi
    cdef int32_t code, n_found = 0
    cdef uint64_t h, s
    cdef const uint8_t* text
    cdef bint fits = True
    for data, offsets in chunks:
        n, short, long = len(offsets) - 1, NULL, NULL
        if offsets.itemsize == 4:
            short_offsets = offsets
            short = &short_offsets[0]
            hi = short[0]
        else:
            long_offsets = offsets
            long = &long_offsets[0]
            hi = long[0]
        with nogil:
            for i in range(n):
                lo, hi = hi, short[i + 1] if long == NULL else long[i + 1]
                if not 0 <= lo <= hi <= data.shape[0]:
                    fits = False
                    break
                text = &data[0] + lo
                h = hash_text(text, hi - lo)
                s = h >> (64 - TEXT_BITS)
                code = slots[s]
                while code >= 0 and not (
                    hashes[code] == h
                    and sizes[code] == hi - lo
                    and texts_equal(<const uint8_t*> starts[code], text, hi - lo)
                ):
                    s = (s + 1) & (TEXT_SLOTS - 1)
                    code = slots[s]
                if code < 0:
                    if n_found == MOST_TEXTS:
                        fits = False
                        break
                    code = n_found
                    slots[s] = code
                    hashes[code], starts[code], sizes[code] = h, <uintptr_t> text, hi - lo
                    n_found += 1
                codes_out[row + i] = code
        if not fits:
            return None
        row += n
    return [(<const char*> starts[i])[:sizes[i]] for i in range(n_found)]


cdef inline uint64_t hash_row(const uint32_t* row, Py_ssize_t width) noexcept nogil:
    # FNV-1a on whole characters, then a final mix so that the low bits depend on all of them.
    cdef uint64_t h = 14695981039346656037u
    cdef Py_ssize_t j
    for j in range(width):
        if row[j] == 0:
            break
        h = (h ^ row[j]) * 1099511628211u
    return h ^ (h >> 29)


cdef inline bint rows_equal(const uint32_t* left, const uint32_t* right, Py_ssize_t width) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(width):
        if left[j] != right[j]:
            return False
    return True


def code_characters(const uint32_t[:, ::1] rows, int32_t[::1] codes_out):
    """Row numbers where each distinct row first appears; ``codes_out[i]`` is the position of row i among them."""
    cdef Py_ssize_t n = rows.shape[0], width = rows.shape[1], i, k, n_found = 0
    cdef int64_t[::1] first = np.empty(64, dtype=np.int64)
    cdef int32_t[::1] slots = np.full(256, -1, dtype=np.int32)
    cdef uint64_t mask = 255, s
    for i in range(n):
        s = hash_row(&rows[i, 0], width) & mask
        while slots[s] >= 0 and not rows_equal(&rows[first[slots[s]], 0], &rows[i, 0], width):
            s = (s + 1) & mask
        if slots[s] < 0:
            if n_found == first.shape[0]:
                first = np.concatenate([first, np.empty(n_found, dtype=np.int64)])
                mask = 2 * mask + 1
                slots = np.full(mask + 1, -1, dtype=np.int32)
                for k in range(n_found):
                    s = hash_row(&rows[first[k], 0], width) & mask
                    while slots[s] >= 0:
                        s = (s + 1) & mask
                    slots[s] = <int32_t> k
                s = hash_row(&rows[i, 0], width) & mask
                while slots[s] >= 0:
                    s = (s + 1) & mask
            slots[s] = <int32_t> n_found
            first[n_found] = i
            n_found += 1
        codes_out[i] = slots[s]
    return np.asarray(first[:n_found])


cdef inline int64_t orient_key(
    int64_t context, int64_t a, int64_t b, const int32_t* sides, int64_t n_models, int64_t n_outcomes
) noexcept nogil:
    # 0: outcome to drop, 1: a model against itself, k + 2: cell k in C order over (context, low, high, outcome).
    # Written without branches on a < b: that test is a coin flip, and a mispredicted branch costs more than the rest.
    cdef int64_t y = sides[a > b], low = min(a, b), high = max(a, b)
    cdef int64_t key = ((context * n_models + low) * n_models + high) * n_outcomes + y + 2
    if y < 0:
        return 0
    return 1 if a == b else key


def key_battles(
    const int32_t[::1] context,   # in, flat context of each row
    const int32_t[::1] a,         # in, column codes of each row
    const int32_t[::1] b,         # in
    const int32_t[::1] y,         # in
    const int32_t[::1] a_map,     # in, column code -> model
    const int32_t[::1] b_map,     # in
    const int32_t[:, ::1] y_map,  # in, column code -> outcome as shown and seen from the other side, -1 to drop
    int64_t n_models,
    int64_t n_outcomes,
    int64_t[::1] keys_out,
):
    """Key of each row: 0 to drop, 1 for a self-battle, else 2 + place of (context, low, high, outcome) in C order."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(context.shape[0]):
            keys_out[i] = orient_key(context[i], a_map[a[i]], b_map[b[i]], &y_map[y[i], 0], n_models, n_outcomes)


def code_halves(const double[::1] values, int8_t[::1] codes_out):
    """Whether all values are 0, ½ or 1; then ``codes_out = 2 * values``."""
    cdef Py_ssize_t i
    cdef double twice
    for i in range(values.shape[0]):
        twice = 2.0 * values[i]
        if twice != 0.0 and twice != 1.0 and twice != 2.0:
            return False
        codes_out[i] = <int8_t> twice
    return True


def mark_codes(const int32_t[::1] codes, uint8_t[::1] present_out):
    """Mark the codes that occur: ``present_out[codes] = True``."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(codes.shape[0]):
            present_out[codes[i]] = 1


def count_keys(const int64_t[::1] keys, int64_t[::1] table_out):
    """Add the number of times each key occurs: ``table_out += np.bincount(keys)``."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(keys.shape[0]):
            table_out[keys[i]] += 1


def sum_counts(const int64_t[::1] keys, const int64_t[::1] counts, int64_t[::1] table_out):
    """Add the counts of each key: ``np.add.at(table_out, keys, counts)``."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(keys.shape[0]):
            table_out[keys[i]] += counts[i]


def extend_keys(const int32_t[::1] codes, const int32_t[::1] meaning, int64_t size, int64_t[::1] keys_inout):
    """Put one more column behind the keys: ``keys_inout = keys_inout * size + meaning[codes]``."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(codes.shape[0]):
            keys_inout[i] = keys_inout[i] * size + meaning[codes[i]]


cdef enum:
    BLOCK = 1024  # rows whose places stay in the first cache


cdef struct Stepped:
    const int32_t* codes
    const int32_t* steps
    uintptr_t n_steps


cdef inline bint have_steps(const int32_t* codes, Py_ssize_t size, uint32_t n_steps) noexcept nogil:
    # np.all((0 <= codes) & (codes < n_steps)): codes below 0, or beyond the last, set the highest bit.
    cdef uint32_t bits = 0, last = n_steps - 1
    cdef Py_ssize_t i
    for i in range(size):
        bits |= <uint32_t> codes[i] | (last - <uint32_t> codes[i])
    return bits >> 31 == 0


cdef inline void add_steps(Stepped left, Stepped right, Py_ssize_t size, bint is_first, int32_t* places) noexcept nogil:
    # Two columns at a time take half as long as one after the other.
    cdef Py_ssize_t i
    if is_first:
        for i in range(size):
            places[i] = left.steps[left.codes[i]] + right.steps[right.codes[i]]
    else:
        for i in range(size):
            places[i] += left.steps[left.codes[i]] + right.steps[right.codes[i]]


def place_rows(list codes, list steps, int32_t[::1] places_out):
    """Whether all codes have a step; then ``places_out = steps[0][codes[0]] + steps[1][codes[1]] + ...``."""
    cdef Py_ssize_t n = places_out.shape[0], n_columns = len(codes), lo = 0, size, j
    cdef uintptr_t[:, ::1] memory = np.empty((n_columns + 1, 3), dtype=np.uintp)
    cdef Stepped* columns = <Stepped*> &memory[0, 0]
    cdef const int32_t[::1] column
    cdef bint inside = True
    if n == 0:
        return True
    for j in range(n_columns + 1):  # the one more, without steps, is for odd numbers of columns
        column = codes[j % n_columns]
        columns[j].codes = &column[0]
        column = steps[j] if j < n_columns else np.zeros_like(steps[0])
        columns[j].steps = &column[0]
        columns[j].n_steps = <uintptr_t> column.shape[0]
    with nogil:
        while inside and lo < n:
            size = min(n - lo, <Py_ssize_t> BLOCK)
            for j in range(n_columns):
                inside = inside and have_steps(columns[j].codes, size, <uint32_t> columns[j].n_steps)
            for j in range(0, n_columns if inside else 0, 2):
                add_steps(columns[j], columns[j + 1], size, j == 0, &places_out[lo])
            for j in range(n_columns + 1):
                columns[j].codes += size
            lo += size
    return inside


def count_places(const int32_t[::1] places, uint8_t[::1] fresh_inout, uint32_t[::1] table_inout):
    """Count places: ``table + fresh += np.bincount(places)``.

    A byte per place stays in cache where the table would not: it is counted there, and full bytes go to the table.
    """
    cdef Py_ssize_t i
    with nogil:
        for i in range(places.shape[0]):
            fresh_inout[places[i]] += 1
            if fresh_inout[places[i]] == 0:
                table_inout[places[i]] += 256
