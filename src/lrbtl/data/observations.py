"""Observed entries of a matrix or tensor, for completion: the data beside battles that every estimator takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from lrbtl.data.battles import Battles
from lrbtl.data.cells import Cells
from lrbtl.data.labels import Labelled
from lrbtl.errors import EmptyDataError, ObservationError
from lrbtl.typing import Floats, Longs


@dataclass(frozen=True, eq=False, repr=False)
class Observations(Labelled):
    """Observed entries of a tensor, counted by distinct (entry, value, variance).

    Entries take the place of battles everywhere: mode 1 is called models, the other modes contexts, and nothing is
    centred. Build them with `from_arrays`.

    Attributes
    ----------
    cells : Cells
        Distinct observations with multiplicities; b is -1.
    models, levels : tuples
        Positions along mode 1 and along each other mode.
    mode_names : tuple of str
        Names of modes 2, 3, ...
    variance : array (n_cells,) or None
        Known variance of the noise of each cell.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.Observations.from_arrays([(0, 1), (2, 0), (2, 0)], [3.5, 1.0, 1.5], shape=(3, 2))
    Observations(shape=(3, 2), n_observations=3, n_cells=3)
    """

    cells: Cells
    models: tuple[Any, ...]
    levels: tuple[tuple[Any, ...], ...]
    mode_names: tuple[str, ...]
    variance: Floats | None = None
    unit: ClassVar[str] = "observations"
    axes: ClassVar[tuple[str, str]] = ("row", "column")

    @classmethod
    def from_arrays(
        cls, indices: Any, values: ArrayLike, *, shape: Sequence[int], variance: ArrayLike | None = None
    ) -> Observations:
        """Return observations from indices and values.

        Parameters
        ----------
        indices : integers (n, m), or a tuple of m columns (n,)
            Position of each observation.
        values : column (n,)
            What was observed: real numbers, or 0 and 1 for one-bit links.
        shape : (d1, ..., dm)
        variance : number or column (n,), optional
            Known variance of the noise of each observation.

        Examples
        --------
        >>> import lrbtl, numpy as np
        >>> ratings = np.array([[5.0, np.nan], [np.nan, 2.0], [4.0, 1.0]])
        >>> seen = np.nonzero(~np.isnan(ratings))
        >>> lrbtl.Observations.from_arrays(seen, ratings[seen], shape=ratings.shape).n_battles
        4
        """
        sizes = tuple(int(size) for size in shape)
        y = _column(values, None, "values")
        if not y.size:
            raise EmptyDataError("there are no observations; give at least one.")
        columns = _index_columns(indices, sizes, y.size)
        noise = None if variance is None else _column(variance, y.size, "variance")
        if noise is not None and noise.min() <= 0:
            raise ObservationError("`variance` must be positive; leave observations without noise out of it.")
        flat = np.ravel_multi_index(columns[1:], sizes[1:]) if len(sizes) > 1 else np.zeros(y.size, dtype=np.int64)
        keys = (flat, columns[0], y) if noise is None else (flat, columns[0], y, noise)
        order = np.lexsort(keys[::-1])
        new = np.ones(y.size, dtype=bool)
        new[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
        first = np.flatnonzero(new)
        kept = order[first]
        start = np.searchsorted(flat[kept], np.arange(prod(sizes[1:]) + 1))
        cells = Cells(
            flat[kept].astype(np.int32),
            columns[0][kept].astype(np.int32),
            np.full(len(kept), -1, dtype=np.int32),
            y[kept],
            np.diff(np.append(first, y.size)),
            start.astype(np.int64),
        )
        levels = tuple(tuple(range(size)) for size in sizes[1:])
        names = tuple(f"mode {k + 2}" for k in range(len(levels)))
        return cls(cells, tuple(range(sizes[0])), levels, names, None if noise is None else noise[kept])

    @property
    def n_observations(self) -> int:
        """Number of observations."""
        return self.n_battles

    @cached_property
    def model_counts(self) -> Longs:
        """Observations of each position along mode 1: int64 (d1,)."""
        return np.bincount(self.cells.a, self.cells.count, len(self.models)).astype(np.int64)

    def __repr__(self) -> str:
        return f"Observations(shape={self.shape}, n_observations={self.n_battles}, n_cells={self.n_cells})"


Data = Battles | Observations


def _column(values: ArrayLike, size: int | None, name: str) -> Floats:
    column = np.asarray(values, dtype=float)
    if size is not None and column.ndim == 0:
        column = np.full(size, float(column))
    if column.ndim != 1 or (size is not None and column.size != size):
        raise ObservationError(f"`{name}` has shape {column.shape}; give one number per observation.")
    if not np.all(np.isfinite(column)):
        raise ObservationError(f"`{name}` holds NaN or infinity; leave entries that were not observed out.")
    return column


def _index_columns(indices: Any, shape: tuple[int, ...], n: int) -> tuple[Longs, ...]:
    table = np.asarray(indices).T if not isinstance(indices, tuple) else np.asarray(indices)
    table = table.reshape(1, -1) if table.ndim == 1 else table
    if table.shape != (len(shape), n):
        raise ObservationError(f"`indices` describe {table.T.shape}; give {n} positions of {len(shape)} integers each.")
    if not np.issubdtype(table.dtype, np.integer):
        raise ObservationError("`indices` must be integers.")
    for k, (column, size) in enumerate(zip(table, shape, strict=True)):
        outside = np.flatnonzero((column < 0) | (column >= size))
        if outside.size:
            i = outside[0]
            raise ObservationError(
                f"observation {i} has index {column[i]} in mode {k + 1}, which runs from 0 to {size - 1}."
            )
    return tuple(table.astype(np.int64))
