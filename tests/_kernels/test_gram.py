"""Every loop over cells against its NumPy line, for pairs and for single entries, with any number of threads."""

import numpy as np
import pytest
from scipy import sparse

from lrbtl._kernels import _cells
from problems import random_design

SHAPE, R = (5, 4), 3
RNG = np.random.default_rng(7)
U, dU = RNG.normal(size=(2, 5, R))
V, dV = RNG.normal(size=(2, 4, R))


@pytest.fixture(params=[True, False], ids=["pairs", "entries"])
def design(request):
    return random_design(SHAPE, 40, seed=3, pairs=request.param)


def sides(design, table):
    """table[a] - table[b], or table[a] for entries."""
    return table[design.a] - np.where(design.b[:, None] >= 0, table[design.b], 0.0)


def same_for_threads(run):
    """The result of run(n_threads), which must be the same bit for bit."""
    one, two, three = run(1), run(2), run(3)
    for other in (two, three):
        for x, y in zip(one, other, strict=True):
            np.testing.assert_array_equal(x, y)
    return one


def test_fill_eta(design):
    def run(n_threads):
        out = np.full(len(design.a), np.nan)
        _cells.fill_eta(design.start, design.a, design.b, U, V, out, n_threads)
        return [out]

    [eta] = same_for_threads(run)
    np.testing.assert_allclose(eta, np.sum(sides(design, U) * V[design.context], axis=1), rtol=1e-13)


def test_fill_eta_change(design):
    def run(n_threads):
        out = np.full(len(design.a), np.nan)
        _cells.fill_eta_change(design.start, design.a, design.b, U, V, dU, dV, out, n_threads)
        return [out]

    [change] = same_for_threads(run)
    u = design.context
    expected = np.sum(sides(design, dU) * V[u] + sides(design, U) * dV[u], axis=1)
    np.testing.assert_allclose(change, expected, rtol=1e-12, atol=1e-14)


def test_sum_slots(design):
    slot_a, slot_b, slot_start, model = design._slots
    value = RNG.normal(size=len(design.a))

    def run(n_threads):
        out = np.zeros(slot_start[-1])
        _cells.sum_slots(design.start, slot_a, slot_b, value, out, n_threads)
        return [out]

    [sums] = same_for_threads(run)
    dense = np.zeros((4, 5))
    np.add.at(dense, (design.context, design.a), value)
    pair = design.b >= 0
    np.subtract.at(dense, (design.context[pair], design.b[pair]), value[pair])
    slot_context = np.repeat(np.arange(4), np.diff(slot_start))
    np.testing.assert_allclose(sums, dense[slot_context, model], rtol=1e-12, atol=1e-14)
    assert np.sum(dense != 0) <= len(sums)


def test_sum_runs():
    number, value, out = np.array([0, 0, 1, 3, 3, 3]), RNG.random(6), np.zeros(4)
    _cells.sum_runs(number, value, out)
    np.testing.assert_allclose(out, np.bincount(number, value), rtol=1e-14)


def test_sum_slot_rows(design):
    slot_a, slot_b, slot_start, model = design._slots
    weight = RNG.random(len(design.a))
    cells = design.start, design.a, design.b, slot_a, slot_b, slot_start, model

    def run(n_threads):
        rows, gram = np.zeros((slot_start[-1], R)), np.zeros((4, R, R))
        _cells.sum_slot_rows(*cells, U, weight, rows, gram, n_threads)
        return rows, gram

    rows, gram = same_for_threads(run)
    x = sides(design, U)
    expected = np.zeros_like(rows)
    np.add.at(expected, slot_a, weight[:, None] * x)
    pair = design.b >= 0
    np.subtract.at(expected, slot_b[pair], (weight[:, None] * x)[pair])
    np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-14)
    for u in range(4):
        here = design.context == u
        np.testing.assert_allclose(gram[u], (x[here].T * weight[here]) @ x[here], rtol=1e-12)


def test_sum_model_blocks(design):
    weight = RNG.random(len(design.a))

    def run(n_threads):
        blocks = np.zeros((5 * R, 5 * R))
        _cells.sum_model_blocks(design.start, design.a, design.b, V, weight, blocks, 5, n_threads)
        return [blocks]

    [blocks] = same_for_threads(run)
    e, v = sides(design, np.eye(5)), V[design.context]
    expected = np.einsum("c,ca,cb,ck,cl->akbl", weight, e, e, v, v)
    np.testing.assert_allclose(blocks, expected.reshape(blocks.shape), rtol=1e-12, atol=1e-14)


def test_model_blocks_beyond_the_threads_and_empty_contexts():
    design = random_design((2, 9), 4, seed=1)
    blocks = np.zeros((2 * R, 2 * R))
    V9 = RNG.normal(size=(9, R))
    _cells.sum_model_blocks(design.start, design.a, design.b, V9, np.ones(4), blocks, 2, 5)
    v = V9[design.context]
    np.testing.assert_allclose(blocks[:R, R:], -(v.T @ v), rtol=1e-12, atol=1e-14)


def test_fill_leverages(design):
    factor = RNG.normal(size=(5 * R + 4 * R, 30))
    cov = factor @ factor.T
    models, low = cov[: 5 * R, : 5 * R].copy(), cov[5 * R :, 5 * R :].reshape(4, R, 4, R)
    own = np.stack([low[u, :, u] for u in range(4)])
    cross = np.ascontiguousarray(np.einsum("ukal,ul->uak", cov[5 * R :, : 5 * R].reshape(4, R, 5, R), V))

    def run(n_threads):
        out = np.full(len(design.a), np.nan)
        _cells.fill_leverages(design.start, design.a, design.b, U, V, models, cross, own, out, n_threads)
        return [out]

    [found] = same_for_threads(run)
    u = design.context
    by_model = (sides(design, np.eye(5))[:, :, None] * V[u][:, None, :]).reshape(len(u), -1)
    by_context = (np.eye(4)[u][:, :, None] * sides(design, U)[:, None, :]).reshape(len(u), -1)
    rows = np.hstack([by_model, by_context])
    np.testing.assert_allclose(found, np.einsum("ci,ij,cj->c", rows, cov, rows), rtol=1e-11)


def test_sum_cross_blocks():
    slot_start, rl = np.array([0, 2, 2, 5, 6]), 2
    target = np.array([0, 1, 0, 2, 3, 1])
    E = RNG.normal(size=(4, R, rl))
    rows, score = RNG.normal(size=(6, R)), RNG.normal(size=6)
    blocks = np.zeros((4, rl, R))
    _cells.sum_cross_blocks(slot_start, target, E, V, rows, score, blocks)
    expected = np.zeros_like(blocks)
    for p, u in enumerate([0, 0, 2, 2, 2, 3]):
        expected[target[p]] += E[u].T @ (np.outer(rows[p], V[u]) - score[p] * np.eye(R))
    np.testing.assert_allclose(blocks, expected, rtol=1e-12, atol=1e-14)


def test_subtract_sparse_gram():
    W = sparse.random_array((12, 7), density=0.4, format="csr", rng=np.random.default_rng(0))
    base = RNG.normal(size=(7, 7))

    def run(n_threads):
        out = base.copy()
        _cells.subtract_sparse_gram(W.indptr.astype(np.int32), W.indices.astype(np.int32), W.data, out, n_threads)
        return [out]

    [gram] = same_for_threads(run)
    np.testing.assert_allclose(gram, base - (W.T @ W).toarray(), rtol=1e-12, atol=1e-14)
