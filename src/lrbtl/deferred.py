"""Arrays that are computed when they are first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Deferred:
    """An array, a function that will compute it, or None where there is neither.

    A function that was not called yet does not survive pickling: the copy has no array.

    Examples
    --------
    >>> later = Deferred(lambda: [1.0, 2.0, 3.0])
    >>> later.rows(np.array([2, 0])).read()
    array([3., 1.])
    >>> Deferred(None).read() is None
    True
    """

    def __init__(self, values: ArrayLike | Callable[[], ArrayLike] | None) -> None:
        self._values = values

    def read(self) -> Floats | None:
        """Return the array, computed at the first call."""
        if callable(self._values):
            self._values = self._values()
        return None if self._values is None else np.asarray(self._values, dtype=np.float64)

    def rows(self, rows: NDArray[np.int64]) -> Deferred:
        """Return some rows of it, deferred as well."""
        if self._values is None:
            return self
        return Deferred(lambda: np.asarray(self.read())[rows])

    def __getstate__(self) -> dict[str, Any]:
        return {"_values": None if callable(self._values) else self._values}
