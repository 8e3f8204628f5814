import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

def scan_gaps(
    base: Floats,
    first: Longs,
    second: Longs,
    beyond: Floats,
    cov: Floats,
    precision: Floats,
    floor: Floats,
    bar: float,
    draw_scratch: Floats,
    largest_out: Floats,
    count_out: Floats,
) -> None: ...
