import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

def subtract_sparse_gram(indptr: Ints, indices: Ints, data: Floats, gram_out: Floats) -> None: ...
def times_blocks(slots: Longs, matrices: Floats, value: Floats, product_out: Floats) -> None: ...
def invert_blocks(matrices: Floats, scale: float, inverse_out: Floats) -> float: ...
def times_block_rows(
    blocks: Floats, indptr: Ints, indices: Ints, data: Floats, left: Floats, right: Floats, data_out: Floats
) -> None: ...
def add_sparse_product(
    left_indptr: Ints,
    left_indices: Ints,
    left: Floats,
    right_indptr: Ints,
    right_indices: Ints,
    right: Floats,
    product_out: Floats,
) -> None: ...
