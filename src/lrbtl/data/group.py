"""Distinct rows of a log that comes in batches, with their numbers: what is kept of logs larger than memory."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrbtl._kernels.coding import count_places, extend_keys, place_rows
from lrbtl.data.cells import group_rows
from lrbtl.data.encode import Coded, check_codes, raise_outside, used_codes
from lrbtl.typing import AnyInts, Ints, Longs

LARGEST_TABLE = 1 << 24  # distinct rows that may be counted in one table
MOST_WAITING = 1 << 21  # rows whose places wait to be counted: so many that the table comes into cache once for all
FEWEST_MERGED = 1 << 22  # rows that wait, at least, before equal ones are merged
MOST_COUNTED = (1 << 32) - 1  # rows that a table can count
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
        self._last: list[tuple[Any, Ints]] = [((), np.empty(0, dtype=np.int32))] * n_columns
        self._is_wide = [False] * n_columns
        self._table: NDArray[np.uint32] | None = np.zeros((1,) * n_columns, dtype=np.uint32)
        self._fresh = np.zeros(1, dtype=np.uint8)  # counted, but not in the table yet
        self._waiting, self._n_waiting = (
            np.empty(MOST_WAITING, dtype=np.int32),
            0,
        )  # places in the table, not counted yet
        self._steps: list[Ints] = []
        self._all_known = False  # whether each label of the last batch has a step
        self._chunks: list[Chunk] = []
        self._n_merged = 0
        self.n_rows: int = 0

    def add(self, columns: Sequence[Coded]) -> None:
        """Count the rows of a batch; raise where its codes have no label, as in damaged files."""
        n = len(columns[0])
        if not n:
            return
        self.n_rows += n
        if not self._has_steps(columns):
            for column in columns:
                check_codes(column.codes, len(column.labels))
            self._read_labels(columns)
        if self._table is not None:
            self._place([_int32(column.codes) for column in columns])
        elif any(self._is_wide):
            self._chunks.append((self._rows(columns), np.ones(n, dtype=np.int64)))
        else:
            self._chunks.append(self._distinct(columns))
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

    def _has_steps(self, columns: Sequence[Coded]) -> bool:
        """Whether a batch has the labels of the one before, and there is a step for each of them."""
        is_open = self._all_known and self.n_rows <= MOST_COUNTED
        return is_open and all(column.labels is labels for column, (labels, _) in zip(columns, self._last, strict=True))

    @property
    def _sizes(self) -> list[int]:
        return [max(len(index), 1) for index in self._labels]

    def _read_labels(self, columns: Sequence[Coded]) -> None:
        """Learn what codes of a batch mean; give up the table where it would become too large."""
        for j, column in enumerate(columns):
            n_numbers = len(column.labels) if isinstance(column.labels, np.ndarray) else 0
            self._is_wide[j] |= n_numbers > max(FEW_NUMBERS, len(column) // REPEATED)
            if not self._is_wide[j]:
                self._last[j] = column.labels, self._meaning(j, column)
        if self._table is None:
            return
        sizes = self._sizes
        if any(self._is_wide) or prod(sizes) > LARGEST_TABLE or self.n_rows > MOST_COUNTED:
            self._chunks, self._table, self._all_known = [self._table_rows()], None, False
            return
        if list(self._table.shape) != sizes:
            self._count()
            larger = np.zeros(sizes, dtype=np.uint32)
            larger[tuple(map(slice, self._table.shape))] = self._table + self._fresh.reshape(self._table.shape)
            self._table, self._fresh = larger, np.zeros(larger.size, dtype=np.uint8)
        strides = [prod(sizes[j + 1 :]) for j in range(len(sizes))]
        self._steps = [meaning * np.int32(step) for (_, meaning), step in zip(self._last, strides, strict=True)]
        self._all_known = all(meaning.min(initial=0) >= 0 for _, meaning in self._last)

    def _meaning(self, j: int, column: Coded) -> Ints:
        """Return the number of each label of a batch among those of the whole column, -1 for those in no row so far."""
        labels, index = column.labels, self._labels[j]
        if type(labels) is list:
            meaning = np.array([index.get(label, -1) for label in labels], dtype=np.int32)
        else:
            meaning = np.full(len(labels), -1, dtype=np.int32)
        if meaning.min(initial=0) < 0:
            used = used_codes(column)
            new = used[meaning[used] < 0]
            meaning[new] = [index.setdefault(label, len(index)) for label in column.values(new)]
        return meaning

    def _place(self, codes: list[Ints]) -> None:
        """Find the place of each row in the table, which is counted later."""
        for lo in range(0, len(codes[0]), MOST_WAITING):
            part = [column[lo : lo + MOST_WAITING] for column in codes]
            if self._n_waiting + len(part[0]) > len(self._waiting):
                self._count()
            end = self._n_waiting + len(part[0])
            if not place_rows(part, self._steps, self._waiting[self._n_waiting : end]):
                raise_outside()
            self._n_waiting = end

    def _count(self) -> None:
        """Count the rows that wait."""
        assert self._table is not None
        count_places(self._waiting[: self._n_waiting], self._fresh, self._table.reshape(-1))
        self._n_waiting = 0

    def _table_rows(self) -> Chunk:
        assert self._table is not None
        self._count()
        table = self._table.reshape(-1) + self._fresh
        found = np.flatnonzero(table)
        codes, rest = [], found.astype(np.int32)  # several times faster than np.unravel_index
        for size in reversed(self._table.shape):
            rest, code = rest // np.int32(size), rest
            codes.append(code - rest * np.int32(size))
        return codes[::-1], table[found].astype(np.int64)

    def _rows(self, columns: Sequence[Coded]) -> list[NDArray[Any]]:
        return [
            np.asarray(column.labels, dtype=np.float64)[column.codes] if is_wide else meaning[column.codes]
            for column, is_wide, (_, meaning) in zip(columns, self._is_wide, self._last, strict=True)
        ]

    def _distinct(self, columns: Sequence[Coded]) -> Chunk:
        """Return the distinct rows of a batch."""
        sizes = self._sizes
        if prod(sizes) >= KEY_LIMIT:
            return _merged(self._rows(columns), np.ones(len(columns[0]), dtype=np.int64), sizes)
        keys = np.zeros(len(columns[0]), dtype=np.int64)
        for column, (_, meaning), size in zip(columns, self._last, sizes, strict=True):
            extend_keys(_int32(column.codes), meaning, size, keys)
        keys, times = np.unique(keys, return_counts=True)
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


def _int32(codes: AnyInts) -> Ints:
    return np.ascontiguousarray(codes, dtype=np.int32)
