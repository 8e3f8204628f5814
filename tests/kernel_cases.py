"""What the tests of the loops over cells share."""

import numpy as np

SHAPE, R = (5, 4), 3
RNG = np.random.default_rng(7)
U, dU = RNG.normal(size=(2, 5, R))
V, dV = RNG.normal(size=(2, 4, R))


def sides(design, table):
    """table[a] - table[b], or table[a] for entries."""
    return table[design.a] - np.where(design.b[:, None] >= 0, table[design.b], 0.0)
