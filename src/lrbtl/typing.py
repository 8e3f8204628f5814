"""The type aliases of the package, each defined here and nowhere else."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]  # codes as the kernels read them
Longs = NDArray[np.int64]  # counts, and positions in long arrays
Indices = NDArray[np.intp]  # what NumPy and SciPy return as positions
AnyInts = NDArray[np.integer[Any]]  # integers of any width, as callers have them
Bools = NDArray[np.bool_]

Shape = tuple[int, ...]  # models, then the levels of each context mode
Rank = int | Sequence[int] | Literal["auto"]
Ridge = float | Sequence[float] | Literal["auto"]
Seed = int | np.random.Generator | None
Progress = Callable[[str], None]
