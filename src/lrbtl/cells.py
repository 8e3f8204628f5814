"""Cells: the distinct battles with their multiplicities, which is all that any estimate depends on."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lrbtl._kernels._coding import count_keys, sum_counts

IntArray = NDArray[np.int64]
Codes = NDArray[np.integer[Any]]

_CHUNK = 1 << 18  # rows whose keys stay in cache while they are counted
_SMALL_TABLE = 1 << 16
_KEY_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Cells:
    """Distinct battles, sorted by (context, a, b, y).

    Attributes
    ----------
    context : int32 (n_cells,)
        Flat context, C order over the context modes; all 0 when there is none.
    a, b : int32 (n_cells,)
        Models, ``a < b``.
    y : float64 (n_cells,)
        Outcome for ``a``, in [0, 1].
    count : int64 (n_cells,)
        Multiplicity, positive.
    start : int64 (D + 1,)
        The cells of context ``u`` are ``start[u]:start[u + 1]``.
    """

    context: NDArray[np.int32]
    a: NDArray[np.int32]
    b: NDArray[np.int32]
    y: NDArray[np.float64]
    count: IntArray
    start: IntArray

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.count)

    @property
    def n_contexts(self) -> int:
        """Number of contexts, D."""
        return len(self.start) - 1

    @property
    def n_battles(self) -> int:
        """Number of battles: the sum of all multiplicities."""
        return int(self.count.sum())


def canonical_outcome(y: ArrayLike) -> NDArray[np.float64]:
    """Outcomes rounded to 14 decimals in a way that commutes with swapping the two models.

    0.41 and 1 - 0.59 are different doubles; swapping sides must not tell them apart.

    Examples
    --------
    >>> canonical_outcome([0.41, 1 - 0.59]).tolist()
    [0.41, 0.41]
    """
    y = np.asarray(y, dtype=np.float64)
    upper = np.round(np.maximum(y, 1.0 - y), 14)
    return np.where(y >= 0.5, upper, np.round(1.0 - upper, 14))


def group_rows(codes: Sequence[Codes], sizes: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Rows sorted by their codes, and where each run of equal rows begins.

    Returns
    -------
    order : int64 (n,)
        Row numbers in lexicographic order of the codes.
    first : int64 (n_groups,)
        Positions in ``order`` at which a new group begins.
    """
    key = codes[0].astype(np.int64)
    space = sizes[0]
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        if space * size >= _KEY_LIMIT:
            values, key = np.unique(key, return_inverse=True)
            space = len(values)
        key *= size
        np.add(key, column, out=key, casting="unsafe")
        space *= size
    order = np.argsort(key)
    key = key[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    return order, first


def count_rows(
    codes: Sequence[Codes], sizes: Sequence[int], counts: IntArray | None = None
) -> tuple[list[IntArray], IntArray]:
    """Distinct rows of some columns of codes, and how often each occurs.

    Parameters
    ----------
    codes : sequence of integer arrays (n,)
        Column j holds codes in ``range(sizes[j])``.
    sizes : sequence of int
    counts : int64 (n,), optional
        Multiplicity of each row, 1 by default. Rows with 0 are left out.

    Returns
    -------
    rows : list of int64 (n_rows,)
        The distinct rows, one array per column, in lexicographic order.
    total : int64 (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> rows, total = count_rows([np.array([1, 0, 1]), np.array([0, 2, 0])], [2, 3])
    >>> [r.tolist() for r in rows], total.tolist()
    ([[0, 1], [2, 0]], [1, 2])
    """
    n = len(codes[0])
    space = prod(sizes)
    if space <= max(_SMALL_TABLE, 2 * n):
        table = np.zeros(space, dtype=np.int64)
        for lo in range(0, n, _CHUNK):
            rows = slice(lo, lo + _CHUNK)
            key = codes[0][rows].astype(np.int64)
            for column, size in zip(codes[1:], sizes[1:], strict=True):
                key *= size
                np.add(key, column[rows], out=key, casting="unsafe")
            if counts is None:
                count_keys(key, table)
            else:
                sum_counts(key, counts[rows], table)
        found = np.flatnonzero(table)
        return list(np.unravel_index(found, tuple(sizes))), table[found]
    order, first = group_rows(codes, sizes)
    total = np.diff(first, append=n) if counts is None else np.add.reduceat(counts[order], first)
    keep = total > 0
    representative = order[first[keep]]
    return [column[representative].astype(np.int64) for column in codes], total[keep]


def make_cells(
    context: Codes,
    a: Codes,
    b: Codes,
    y: NDArray[np.float64],
    count: IntArray,
    *,
    n_models: int,
    n_contexts: int,
) -> Cells:
    """Cells of a table of battles in either orientation; equal battles are merged.

    Examples
    --------
    >>> import numpy as np
    >>> cells = make_cells(np.array([0, 0]), np.array([1, 0]), np.array([0, 1]), np.array([1.0, 0.0]),
    ...                    np.array([2, 3]), n_models=2, n_contexts=1)
    >>> cells.a.tolist(), cells.b.tolist(), cells.y.tolist(), cells.count.tolist()
    ([0], [1], [0.0], [5])
    """
    y = canonical_outcome(y)
    swapped = a > b
    low, high = np.where(swapped, b, a), np.where(swapped, a, b)
    y_values, y_code = np.unique(np.where(swapped, canonical_outcome(1.0 - y), y), return_inverse=True)
    if len(count):
        order, first = group_rows([context, low, high, y_code], [n_contexts, n_models, n_models, len(y_values)])
        count = np.add.reduceat(count[order], first)
        kept = order[first]
    else:
        kept = np.empty(0, dtype=np.int64)
    context = context[kept].astype(np.int32)
    return Cells(
        context=context,
        a=low[kept].astype(np.int32),
        b=high[kept].astype(np.int32),
        y=y_values[y_code[kept]],
        count=count.astype(np.int64),
        start=context_starts(context, n_contexts),
    )


def context_starts(context: Codes, n_contexts: int) -> IntArray:
    """Where the cells of each context begin, for cells sorted by context: int64 (n_contexts + 1,)."""
    return np.concatenate([[0], np.cumsum(np.bincount(context, minlength=n_contexts))]).astype(np.int64)


def merge_cells(left: Cells, right: Cells, *, n_models: int, n_contexts: int) -> Cells:
    """Cells of two tables with the same codes, together."""
    return make_cells(
        np.concatenate([left.context, right.context]),
        np.concatenate([left.a, right.a]),
        np.concatenate([left.b, right.b]),
        np.concatenate([left.y, right.y]),
        np.concatenate([left.count, right.count]),
        n_models=n_models,
        n_contexts=n_contexts,
    )


def recode_cells(cells: Cells, model_map: IntArray, context_map: IntArray, *, n_models: int, n_contexts: int) -> Cells:
    """Cells under new codes; battles whose model or context maps to -1 are left out."""
    a, b, context = model_map[cells.a], model_map[cells.b], context_map[cells.context]
    kept = (a >= 0) & (b >= 0) & (context >= 0)
    return make_cells(
        context[kept], a[kept], b[kept], cells.y[kept], cells.count[kept], n_models=n_models, n_contexts=n_contexts
    )


def with_counts(cells: Cells, count: IntArray) -> Cells:
    """Return the same cells with other multiplicities; cells with 0 are left out."""
    kept = count > 0
    context = cells.context[kept]
    return Cells(
        context=context,
        a=cells.a[kept],
        b=cells.b[kept],
        y=cells.y[kept],
        count=count[kept].astype(np.int64),
        start=context_starts(context, cells.n_contexts),
    )
