import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

def apply_gram(start: Longs, slot_a: Longs, slot_b: Longs, value: Floats, weight: Floats, sum_out: Floats) -> None: ...
def apply_gram_columns(slot_a: Longs, slot_b: Longs, value: Floats, weight: Floats, sum_out: Floats) -> None: ...
def sum_runs(number: Longs, value: Floats, sum_out: Floats) -> None: ...
def sum_laplacians(place: Longs, weight: Floats, out: Floats) -> None: ...
def sum_slope_rows(slot_a: Longs, slot_b: Longs, weight: Floats, slopes: Floats, rows_out: Floats) -> None: ...
def sum_slot_rows(
    start: Longs,
    a: Ints,
    b: Ints,
    slot_a: Longs,
    slot_b: Longs,
    slot_start: Longs,
    model: Longs,
    U: Floats,
    weight: Floats,
    rows_out: Floats,
    gram_out: Floats,
) -> None: ...
def sum_model_blocks(
    start: Longs, a: Ints, b: Ints, V: Floats, weight: Floats, blocks_out: Floats, d1: int
) -> None: ...
def sum_context_blocks(matrices: Floats, models: Longs, V: Floats, blocks_out: Floats) -> None: ...
def sum_cross_blocks(
    slot_start: Longs, target: Longs, E: Floats, V: Floats, rows: Floats, score: Floats, blocks_out: Floats
) -> None: ...
