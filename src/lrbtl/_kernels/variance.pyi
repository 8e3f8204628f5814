import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

def fill_leverages(
    start: Longs,
    a: Ints,
    b: Ints,
    U: Floats,
    V: Floats,
    models: Floats,
    cross: Floats,
    own: Floats,
    out: Floats,
) -> None: ...
def sum_influences(
    start: Longs,
    slot_a: Longs,
    slot_b: Longs,
    value: Floats,
    score: Floats,
    shared: Floats,
    count: Floats,
    square_out: Floats,
    largest_out: Floats,
) -> None: ...
