"""Distinct rows of a log that comes in batches, with their numbers: what is kept of logs larger than memory."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrbtl._kernels.coding import count_keys, extend_keys
from lrbtl.data.cells import group_rows
from lrbtl.data.encode import Coded, used_codes
from lrbtl.typing import Floats, Ints, Longs

CHUNK = 1 << 15  # rows whose keys stay in cache while they are counted
LARGEST_TABLE = 1 << 24  # distinct rows that may be counted in one table
FEWEST_MERGED = 1 << 22  # rows that wait, at least, before equal ones are merged
KEY_LIMIT = 1 << 62
FEW_NUMBERS, REPEATED = 1 << 12, 8  # a batch with more distinct numbers than this, and fewer rows of each, is of values

Chunk = tuple[list[NDArray[Any]], Longs]  # codes or numbers of each column, and how often each row happened


class RowCounter:
    """Distinct rows of some columns, counted batch by batch.

    As long as all combinations of labels fit into a table, rows are counted there. Else distinct rows are kept as a
    list, in which equal ones are merged now and then. Columns of numbers that hardly repeat keep their numbers, and
    every row.

    >>> from lrbtl.data.encode import encode
    >>> counter = RowCounter(2)
    >>> counter.add([encode(["x", "y"], "a"), encode(["p", "p"], "b")])
    >>> counter.add([encode(["y", "y"], "a"), encode(["p", "q"], "b")])
    >>> columns, times = counter.rows()
    >>> [column.values(column.codes) for column in columns], times.tolist()
    ([['x', 'y', 'y'], ['p', 'p', 'q']], [1, 2, 1])
    """

    def __init__(self, n_columns: int) -> None:
        self._labels: list[dict[Any, int]] = [{} for _ in range(n_columns)]
        self._last: list[tuple[Any, Ints] | None] = [None] * n_columns
        self._is_wide = [False] * n_columns
        self._table: Longs | None = np.zeros((1,) * n_columns, dtype=np.int64)
        self._chunks: list[Chunk] = []
        self._n_merged = 0
        self.n_rows = 0

    def add(self, columns: Sequence[Coded]) -> None:
        """Count the rows of a batch."""
        n = len(columns[0])
        if not n:
            return
        self.n_rows += n
        for j, column in enumerate(columns):
            n_numbers = len(column.labels) if isinstance(column.labels, np.ndarray) else 0
            self._is_wide[j] |= n_numbers > max(FEW_NUMBERS, n // REPEATED)
        meanings = [None if self._is_wide[j] else self._meaning(j, column) for j, column in enumerate(columns)]
        if self._table is not None and (any(self._is_wide) or prod(self._sizes) > LARGEST_TABLE):
            self._chunks, self._table = [self._table_rows()], None
        if self._table is not None:
            self._count(columns, meanings)
        elif any(self._is_wide):
            self._chunks.append((_wide_rows(columns, meanings), np.ones(n, dtype=np.int64)))
        else:
            self._chunks.append(self._distinct(columns, meanings))
            if sum(len(times) for _, times in self._chunks) > self._n_merged + max(FEWEST_MERGED, self._n_merged):
                self._merge()

    def rows(self) -> tuple[list[Any], Longs]:
        """Return the distinct rows, column by column, and how often each happened."""
        if self._table is not None:
            self._chunks = [self._table_rows()]
        elif not any(self._is_wide):
            self._merge()
        columns: list[Any] = []
        for j, index in enumerate(self._labels):
            parts = [part[j] for part, _ in self._chunks]
            if self._is_wide[j]:
                numbers = np.array(list(index), dtype=np.float64)
                columns.append(np.concatenate([part if part.dtype.kind == "f" else numbers[part] for part in parts]))
            else:
                columns.append(Coded(np.concatenate(parts), list(index), all_used=True))
        return columns, np.concatenate([times for _, times in self._chunks])

    @property
    def _sizes(self) -> list[int]:
        return [max(len(index), 1) for index in self._labels]

    def _meaning(self, j: int, column: Coded) -> Ints:
        """Return the number of each label of a batch among those of the whole column; new ones are added."""
        last = self._last[j]
        if last is not None and type(column.labels) is list and column.labels == last[0]:
            return last[1]
        index, used = self._labels[j], used_codes(column)
        meaning = np.zeros(len(column.labels), dtype=np.int32)
        meaning[used] = [index.setdefault(label, len(index)) for label in column.values(used)]
        is_complete = type(column.labels) is list and len(used) == len(meaning)
        self._last[j] = (column.labels, meaning) if is_complete else None
        return meaning

    def _count(self, columns: Sequence[Coded], meanings: Sequence[Any]) -> None:
        sizes = self._sizes
        assert self._table is not None
        if list(self._table.shape) != sizes:
            larger = np.zeros(sizes, dtype=np.int64)
            larger[tuple(map(slice, self._table.shape))] = self._table
            self._table = larger
        flat = self._table.reshape(-1)
        for lo in range(0, len(columns[0]), CHUNK):
            count_keys(_keys(columns, meanings, sizes, slice(lo, lo + CHUNK)), flat)

    def _table_rows(self) -> Chunk:
        assert self._table is not None
        table = self._table.reshape(-1)
        found = np.flatnonzero(table)
        return [codes.astype(np.int32) for codes in np.unravel_index(found, self._table.shape)], table[found]

    def _distinct(self, columns: Sequence[Coded], meanings: Sequence[Any]) -> Chunk:
        """Return the distinct rows of a batch."""
        sizes = self._sizes
        if prod(sizes) >= KEY_LIMIT:
            codes = [meaning[column.codes] for column, meaning in zip(columns, meanings, strict=True)]
            return _merged(codes, np.ones(len(columns[0]), dtype=np.int64), sizes)
        keys, times = np.unique(_keys(columns, meanings, sizes, slice(None)), return_counts=True)
        return [codes.astype(np.int32) for codes in np.unravel_index(keys, sizes)], times

    def _merge(self) -> None:
        parts, times = zip(*self._chunks, strict=True)
        codes = [np.concatenate(column) for column in zip(*parts, strict=True)]
        self._chunks = [_merged(codes, np.concatenate(times), self._sizes)]
        self._n_merged = len(self._chunks[0][1])


def _merged(codes: list[NDArray[Any]], times: Longs, sizes: list[int]) -> Chunk:
    order, first = group_rows(codes, sizes)
    kept = order[first]
    return [column[kept] for column in codes], np.add.reduceat(times[order], first)


def _keys(columns: Sequence[Coded], meanings: Sequence[Ints], sizes: list[int], rows: slice) -> Longs:
    """Return one number per row, in C order over the columns."""
    keys = np.zeros(len(columns[0].codes[rows]), dtype=np.int64)
    for column, meaning, size in zip(columns, meanings, sizes, strict=True):
        extend_keys(np.ascontiguousarray(column.codes[rows], dtype=np.int32), meaning, size, keys)
    return keys


def _wide_rows(columns: Sequence[Coded], meanings: Sequence[Ints | None]) -> list[NDArray[Any]]:
    return [
        _numbers(column)[column.codes] if meaning is None else meaning[column.codes]
        for column, meaning in zip(columns, meanings, strict=True)
    ]


def _numbers(column: Coded) -> Floats:
    return np.asarray(column.labels, dtype=np.float64)
