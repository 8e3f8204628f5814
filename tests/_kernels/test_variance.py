"""Leverages and influences against NumPy, for pairs and single entries, with any number of threads."""

import numpy as np
import pytest

from kernel_cases import RNG, SHAPE, R, U, V, sides
from lrbtl._kernels import variance
from problems import random_design


@pytest.fixture(params=[True, False], ids=["pairs", "entries"])
def design(request):
    return random_design(SHAPE, 40, seed=3, pairs=request.param)


def test_fill_leverages(design):
    factor = RNG.normal(size=(5 * R + 4 * R, 30))
    cov = factor @ factor.T
    models, low = cov[: 5 * R, : 5 * R].copy(), cov[5 * R :, 5 * R :].reshape(4, R, 4, R)
    own = np.stack([low[u, :, u] for u in range(4)])
    cross = np.ascontiguousarray(np.einsum("ukal,ul->uak", cov[5 * R :, : 5 * R].reshape(4, R, 5, R), V))

    def run():
        out = np.full(len(design.a), np.nan)
        variance.fill_leverages(design.start, design.a, design.b, U, V, models, cross, own, out)
        return [out]

    [found] = run()
    u = design.entries.context
    by_model = (sides(design, np.eye(5))[:, :, None] * V[u][:, None, :]).reshape(len(u), -1)
    by_context = (np.eye(4)[u][:, :, None] * sides(design, U)[:, None, :]).reshape(len(u), -1)
    rows = np.hstack([by_model, by_context])
    np.testing.assert_allclose(found, np.einsum("ci,ij,cj->c", rows, cov, rows), rtol=1e-11)


def test_sum_influences(design):
    (slot_a, slot_b), slot_start = design.entries.slots, design.entries.slot_start
    value = RNG.normal(size=slot_start[-1])
    score, shared, count = RNG.normal(size=(3, len(design.a)))

    def run():
        squares, largest = np.zeros((2, 4))
        cells = design.start, slot_a, slot_b, value, score, shared, count
        variance.sum_influences(*cells, squares, largest)
        return squares, largest

    squares, largest = run()
    influence = score * (value[slot_a] - np.where(slot_b >= 0, value[slot_b], 0.0)) + shared
    np.testing.assert_allclose(
        squares, np.bincount(design.entries.context, count * influence**2, 4), rtol=1e-12, atol=1e-13
    )
    for u in range(4):
        assert largest[u] == np.abs(influence[design.entries.context == u]).max(initial=0.0)
