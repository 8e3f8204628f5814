"""Push to slots and cells and pull back against NumPy, for pairs and single entries, with any number of threads."""

import numpy as np
import pytest

from kernel_cases import RNG, SHAPE, U, V
from lrbtl._kernels import tangent
from problems import random_design


@pytest.fixture(params=[True, False], ids=["pairs", "entries"])
def design(request):
    return random_design(SHAPE, 40, seed=3, pairs=request.param)


def test_sum_slots(design):
    (slot_a, slot_b), slot_start, model = design.entries.slots, design.entries.slot_start, design.entries.model
    value = RNG.normal(size=len(design.a))

    def run():
        out = np.zeros(slot_start[-1])
        tangent.sum_slots(design.start, slot_a, slot_b, value, out)
        return [out]

    [sums] = run()
    dense = np.zeros((4, 5))
    np.add.at(dense, (design.entries.context, design.a), value)
    pair = design.b >= 0
    np.subtract.at(dense, (design.entries.context[pair], design.b[pair]), value[pair])
    slot_context = np.repeat(np.arange(4), np.diff(slot_start))
    np.testing.assert_allclose(sums, dense[slot_context, model], rtol=1e-12, atol=1e-14)
    assert np.sum(dense != 0) <= len(sums)


def test_sum_signed_slots_are_sums_with_each_choice_of_signs():
    design = random_design(SHAPE, 40, seed=3, pairs=True)
    (slot_a, slot_b), slot_start = design.entries.slots, design.entries.slot_start
    value, signs = RNG.normal(size=len(design.a)), RNG.integers(0, 2**63, len(design.a)).astype(np.uint64)
    found = np.zeros((slot_start[-1], 3))
    tangent.sum_signed_slots(slot_a, slot_b, value, signs, 7, found)
    for j in range(3):
        expected = np.zeros(slot_start[-1])
        plus = (signs >> np.uint64(7 + j)) & np.uint64(1) == 1
        tangent.sum_slots(design.start, slot_a, slot_b, np.where(plus, value, -value), expected)
        np.testing.assert_allclose(found[:, j], expected, rtol=1e-12, atol=1e-13)


def test_push_slots(design):
    slot_start, model = design.entries.slot_start, design.entries.model

    def run():
        out = np.ones(slot_start[-1])
        tangent.push_slots(slot_start, model, U, V, out)
        return [out]

    [value] = run()
    context = np.repeat(np.arange(4), np.diff(slot_start))
    np.testing.assert_allclose(value, 1 + np.sum(U[model] * V[context], axis=1), rtol=1e-13, atol=1e-14)


def test_fill_differences(design):
    (slot_a, slot_b), slot_start = design.entries.slots, design.entries.slot_start
    value = RNG.normal(size=slot_start[-1])

    def run():
        out = np.full(len(design.a), np.nan)
        tangent.fill_differences(slot_a, slot_b, value, out)
        return [out]

    [found] = run()
    np.testing.assert_array_equal(found, value[slot_a] - np.where(slot_b >= 0, value[slot_b], 0.0))
