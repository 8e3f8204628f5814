"""Arrowhead matrices against dense linear algebra, with a dense and with a sparse cross part."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lrbtl.lowrank.arrowhead import PANEL, Arrowhead, NotPositiveDefinite, inverse_blocks

FLOOR = 1e-11


def make(q, dl, rl, *, seed=0, is_sparse=False):
    """A well-conditioned positive definite arrowhead of very different scales."""
    rng = np.random.default_rng(seed)
    cross = rng.normal(size=(dl * rl, q)) * (rng.random((dl * rl, q)) < 0.4)
    roots = rng.normal(size=(dl, rl, rl))
    blocks = roots @ np.swapaxes(roots, 1, 2) + np.eye(rl)
    reach = np.linalg.solve(blocks, cross.reshape(dl, rl, q)).reshape(dl * rl, q)
    root = rng.normal(size=(q, q))
    border = root @ root.T + np.eye(q) + cross.T @ reach
    scale = 10.0 ** rng.uniform(-4, 4, size=q + dl * rl)
    top, below = scale[:q], scale[q:].reshape(dl, rl)
    cross = cross * scale[q:, None] * top
    return Arrowhead(
        border * top[:, None] * top,
        blocks * below[:, :, None] * below[:, None, :],
        sparse.csr_array(cross) if is_sparse else cross,
    )


both = pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])


@pytest.mark.parametrize("size", [1, PANEL, PANEL + 1, 3 * PANEL - 5])
def test_the_inverse_is_symmetric_over_all_panels(size):
    """LAPACK fills one triangle only; the other is its mirror."""
    matrix = make(size, 2, 1)
    dense = matrix.dense()
    scale = np.sqrt(np.diag(dense))
    border = matrix.factor(floor=FLOOR).inverse().border * np.outer(scale[:size], scale[:size])
    np.testing.assert_allclose(border, border.T, rtol=1e-14)
    expected = np.linalg.inv(dense / np.outer(scale, scale))[:size, :size]
    np.testing.assert_allclose(border, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


@both
@settings(max_examples=25, deadline=None)
@given(q=st.integers(1, 7), dl=st.integers(1, 6), rl=st.integers(1, 3), seed=st.integers(0, 999))
def test_multiply_factor_solve_invert(is_sparse, q, dl, rl, seed):
    matrix = make(q, dl, rl, seed=seed, is_sparse=is_sparse)
    dense = matrix.dense()
    assert dense.shape == (matrix.size, matrix.size) and matrix.q == q
    np.testing.assert_allclose(dense, dense.T, rtol=1e-13, atol=1e-15 * np.abs(dense).max())
    np.testing.assert_array_equal(matrix.diagonal(), np.diag(dense))
    x = np.random.default_rng(seed).normal(size=(matrix.size, 3))
    np.testing.assert_allclose(matrix @ x, dense @ x, rtol=1e-8)
    np.testing.assert_allclose(matrix @ x[:, 0], (dense @ x)[:, 0], rtol=1e-8)
    scale = np.sqrt(np.diag(dense))
    unit = dense / np.outer(scale, scale)
    factor = matrix.factor(floor=FLOOR)
    solution = factor.solve(x * scale[:, None]) * scale[:, None]
    np.testing.assert_allclose(unit @ solution, x, atol=1e-8)
    np.testing.assert_allclose(
        factor.solve(x[:, 1] * scale) * scale, factor.solve(x * scale[:, None])[:, 1] * scale, atol=1e-9
    )
    inverse = np.linalg.inv(unit)
    blocks = inverse_blocks(factor.inverse())
    np.testing.assert_allclose(blocks.border * np.outer(scale[:q], scale[:q]), inverse[:q, :q], atol=1e-8)
    below = scale[q:].reshape(dl, rl)
    np.testing.assert_allclose(
        blocks.cross * below[:, :, None] * scale[:q], inverse[q:, :q].reshape(dl, rl, q), atol=1e-8
    )
    for j in range(dl):
        part = slice(q + j * rl, q + (j + 1) * rl)
        np.testing.assert_allclose(blocks.own[j] * np.outer(below[j], below[j]), inverse[part, part], atol=1e-8)


@both
def test_arithmetic(is_sparse):
    matrix = make(5, 4, 2, is_sparse=is_sparse)
    dense = matrix.dense()
    diagonal = np.arange(1.0, 14.0)
    np.testing.assert_allclose(matrix.plus_diagonal(diagonal).dense(), dense + np.diag(diagonal))
    block = np.array([[2.0, 1.0], [1.0, 3.0]])
    added = matrix.plus_blocks(block).dense() - dense
    np.testing.assert_allclose(added[5:, 5:], np.kron(np.eye(4), block), atol=1e-6)
    each = np.arange(16.0).reshape(4, 2, 2)
    np.testing.assert_allclose(matrix.plus_blocks(each).blocks, matrix.blocks + each)
    parts = [(slice(0, 2), block), (slice(1, 3), block)]
    expected = np.zeros((5, 5))
    expected[:2, :2] += block
    expected[1:3, 1:3] += block
    np.testing.assert_allclose(matrix.plus_border(parts).border, matrix.border + expected)
    np.testing.assert_array_equal(matrix.dense(), dense)


def singular_in_the_border(is_sparse):
    """z^T M z = 0 for a known z that reaches both parts."""
    matrix = make(4, 3, 2, seed=5, is_sparse=is_sparse)
    dense = matrix.dense()
    scale = 1 / np.sqrt(np.diag(dense))
    dense = dense * np.outer(scale, scale)
    q = 4
    schur = dense[:q, :q] - dense[:q, q:] @ np.linalg.solve(dense[q:, q:], dense[q:, :q])
    values, vectors = np.linalg.eigh(schur)
    border = dense[:q, :q] - values[0] * np.outer(vectors[:, 0], vectors[:, 0])
    null = np.concatenate([vectors[:, 0], -np.linalg.solve(dense[q:, q:], dense[q:, :q] @ vectors[:, 0])])
    blocks = np.stack([dense[q + 2 * j : q + 2 * j + 2, q + 2 * j : q + 2 * j + 2] for j in range(3)])
    cross = dense[q:, :q]
    return Arrowhead(border, blocks, sparse.csr_array(cross) if is_sparse else cross), null


def assert_spans(found, null):
    found = found / np.linalg.norm(found, axis=0)
    assert np.linalg.norm(found.T @ (null / np.linalg.norm(null))) == pytest.approx(1.0, abs=1e-5)


@both
def test_null_vector_of_the_border_is_named(is_sparse):
    matrix, null = singular_in_the_border(is_sparse)
    with pytest.raises(NotPositiveDefinite) as failure:
        matrix.factor(floor=FLOOR)
    assert failure.value.null.shape == (matrix.size, 1)
    np.testing.assert_allclose(matrix @ failure.value.null, 0.0, atol=1e-7)
    assert_spans(failure.value.null, null)


@both
def test_null_vector_of_a_block_is_named(is_sparse):
    matrix = make(4, 3, 2, seed=6, is_sparse=is_sparse)
    blocks = matrix.blocks.copy()
    direction = np.array([1.0, 2.0])
    blocks[1] = np.outer([2.0, -1.0], [2.0, -1.0])
    cross = matrix.cross.toarray() if is_sparse else matrix.cross.copy()
    cross[2:4] = 0.0
    singular = Arrowhead(matrix.border, blocks, sparse.csr_array(cross) if is_sparse else cross)
    with pytest.raises(NotPositiveDefinite) as failure:
        singular.factor(floor=FLOOR)
    null = np.zeros(10)
    null[6:8] = direction
    assert_spans(failure.value.null, null)


@both
def test_empty_rows_are_null_vectors(is_sparse):
    matrix = make(4, 3, 2, seed=7, is_sparse=is_sparse)
    border, cross = matrix.border.copy(), (matrix.cross.toarray() if is_sparse else matrix.cross.copy())
    border[1], border[:, 1], cross[:, 1] = 0.0, 0.0, 0.0
    with pytest.raises(NotPositiveDefinite) as failure:
        Arrowhead(border, matrix.blocks, sparse.csr_array(cross) if is_sparse else cross).factor(floor=FLOOR)
    np.testing.assert_array_equal(failure.value.null, np.eye(10)[:, [1]])


def test_indefinite_without_a_floor_names_nothing():
    matrix = make(4, 3, 2)
    for bad in (
        matrix.plus_border([(slice(0, 4), -2 * matrix.border)]),
        matrix.plus_blocks(-2 * matrix.blocks),
        matrix.plus_border([(slice(0, 4), -0.9 * matrix.border)]),
    ):
        with pytest.raises(NotPositiveDefinite) as failure:
            bad.factor()
        assert failure.value.null is None
