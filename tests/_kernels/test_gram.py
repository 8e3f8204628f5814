"""The Gram operator and its normal equations against NumPy, for pairs and entries, with any number of threads."""

import numpy as np
import pytest

from kernel_cases import RNG, SHAPE, R, U, V, sides
from lrbtl._kernels import gram
from problems import battle_matrix, random_design


@pytest.fixture(params=[True, False], ids=["pairs", "entries"])
def design(request):
    return random_design(SHAPE, 40, seed=3, pairs=request.param)


def test_sum_runs():
    number, value, out = np.array([0, 0, 1, 3, 3, 3]), RNG.random(6), np.zeros(4)
    gram.sum_runs(number, value, out)
    np.testing.assert_allclose(out, np.bincount(number, value), rtol=1e-14)


def test_sum_slope_rows(design):
    (slot_a, slot_b), slot_start = design.entries.slots, design.entries.slot_start
    weight, slopes, rows = RNG.random(len(design.a)), RNG.normal(size=(len(design.a), 3)), np.zeros((slot_start[-1], 3))
    gram.sum_slope_rows(slot_a, slot_b, weight, slopes, rows)
    expected, pair = np.zeros_like(rows), design.b >= 0
    np.add.at(expected, slot_a, weight[:, None] * slopes)
    np.subtract.at(expected, slot_b[pair], (weight[:, None] * slopes)[pair])
    np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-14)


def test_sum_slot_rows(design):
    (slot_a, slot_b), slot_start, model = design.entries.slots, design.entries.slot_start, design.entries.model
    weight = RNG.random(len(design.a))
    cells = design.start, design.a, design.b, slot_a, slot_b, slot_start, model

    def run():
        rows, outer = np.zeros((slot_start[-1], R)), np.zeros((4, R, R))
        gram.sum_slot_rows(*cells, U, weight, rows, outer)
        return rows, outer

    rows, outer = run()
    x = sides(design, U)
    expected = np.zeros_like(rows)
    np.add.at(expected, slot_a, weight[:, None] * x)
    pair = design.b >= 0
    np.subtract.at(expected, slot_b[pair], (weight[:, None] * x)[pair])
    np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-14)
    for u in range(4):
        here = design.entries.context == u
        np.testing.assert_allclose(outer[u], (x[here].T * weight[here]) @ x[here], rtol=1e-12)


def test_sum_model_blocks(design):
    weight = RNG.random(len(design.a))

    def run():
        blocks = np.zeros((5 * R, 5 * R))
        gram.sum_model_blocks(design.start, design.a, design.b, V, weight, blocks, 5)
        return [blocks]

    [blocks] = run()
    e, v = sides(design, np.eye(5)), V[design.entries.context]
    expected = np.einsum("c,ca,cb,ck,cl->akbl", weight, e, e, v, v)
    np.testing.assert_allclose(blocks, expected.reshape(blocks.shape), rtol=1e-12, atol=1e-14)


def test_model_blocks_of_few_models_and_empty_contexts():
    design = random_design((2, 9), 4, seed=1)
    blocks = np.zeros((2 * R, 2 * R))
    V9 = RNG.normal(size=(9, R))
    gram.sum_model_blocks(design.start, design.a, design.b, V9, np.ones(4), blocks, 2)
    v = V9[design.entries.context]
    np.testing.assert_allclose(blocks[:R, R:], -(v.T @ v), rtol=1e-12, atol=1e-14)


def test_sum_context_blocks():
    models = np.array([[2, 0, 3], [1, 4, 0]])
    matrices = RNG.normal(size=(2, 3, 3))
    matrices = matrices + matrices.transpose(0, 2, 1)
    matrices[1, 2], matrices[1, :, 2] = 0.0, 0.0  # padding
    blocks, expected = np.zeros((5 * R, 5 * R)), np.zeros((5, R, 5, R))
    gram.sum_context_blocks(matrices, models, V[:2].copy(), blocks)
    for u in range(2):
        np.add.at(
            expected.transpose(0, 2, 1, 3),
            (models[u][:, None], models[u][None]),
            matrices[u][:, :, None, None] * np.outer(V[u], V[u]),
        )
    lower = np.tril(np.ones((5, 5))).repeat(R, axis=0).repeat(R, axis=1)
    np.testing.assert_allclose(blocks, lower * expected.reshape(5 * R, 5 * R), rtol=1e-12, atol=1e-14)


def test_sum_cross_blocks():
    slot_start, rl = np.array([0, 2, 2, 5, 6]), 2
    target = np.array([0, 1, 0, 2, 3, 1])
    E = RNG.normal(size=(4, R, rl))
    rows, score = RNG.normal(size=(6, R)), RNG.normal(size=6)
    blocks = np.zeros((4, rl, R))
    gram.sum_cross_blocks(slot_start, target, E, V, rows, score, blocks)
    expected = np.zeros_like(blocks)
    for p, u in enumerate([0, 0, 2, 2, 2, 3]):
        expected[target[p]] += E[u].T @ (np.outer(rows[p], V[u]) - score[p] * np.eye(R))
    np.testing.assert_allclose(blocks, expected, rtol=1e-12, atol=1e-14)


def test_apply_gram(design):
    (slot_a, slot_b), slot_start, model = design.entries.slots, design.entries.slot_start, design.entries.model
    value, weight = RNG.normal(size=slot_start[-1]), RNG.random(len(design.a))

    def run():
        out = np.zeros(slot_start[-1])
        gram.apply_gram(design.start, slot_a, slot_b, value, weight, out)
        return [out]

    [found] = run()
    place = model * 4 + np.repeat(np.arange(4), np.diff(slot_start))
    X = battle_matrix(design)[:, place]
    np.testing.assert_allclose(found, X.T @ (weight * (X @ value)), rtol=1e-12, atol=1e-13)
