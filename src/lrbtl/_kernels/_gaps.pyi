import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

def scan_gaps(draws: Floats, precision: Floats, bar: float, largest_out: Floats, count_out: Floats) -> None: ...
