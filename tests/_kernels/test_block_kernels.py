"""Small matrices and sparse rows against NumPy."""

import numpy as np
from scipy import sparse

from lrbtl._kernels import blocks as kernels

RNG = np.random.default_rng(7)


def test_subtract_sparse_gram():
    W = sparse.csr_array(np.where(RNG.random((12, 7)) < 0.4, RNG.normal(size=(12, 7)), 0.0))
    base = RNG.normal(size=(7, 7))
    out = base.copy()
    kernels.subtract_sparse_gram(W.indptr.astype(np.int32), W.indices.astype(np.int32), W.data, out)
    np.testing.assert_allclose(out, base - np.triu((W.T @ W).toarray()), rtol=1e-12, atol=1e-14)


def test_times_blocks():
    """Two blocks, of three and of two slots, the second padded."""
    slots, matrices = np.array([[4, 0, 2], [1, 3, 5]]), RNG.normal(size=(2, 3, 3))
    value, out = RNG.normal(size=(5, 2)), np.zeros((5, 2))
    kernels.times_blocks(slots, matrices, value, out)
    np.testing.assert_allclose(out[[4, 0, 2]], matrices[0] @ value[[4, 0, 2]])
    np.testing.assert_allclose(out[[1, 3]], matrices[1, :2, :2] @ value[[1, 3]])


def test_invert_blocks():
    factors = RNG.normal(size=(6, 4, 3))
    H, found = factors @ np.swapaxes(factors, 1, 2), np.empty((6, 4, 4))
    determinant = kernels.invert_blocks(H, 0.7, found)
    np.testing.assert_allclose(found, np.linalg.inv(np.eye(4) + 0.7 * H), atol=1e-12)
    np.testing.assert_allclose(determinant, np.linalg.slogdet(found)[1].sum())


def test_times_block_rows():
    """Blocks of two rows with the same columns."""
    pattern = np.repeat(RNG.random((5, 7)) < 0.4, 2, axis=0)
    W = sparse.csr_array(np.where(pattern, RNG.normal(size=(10, 7)), 0.0))
    blocks, left, right = RNG.normal(size=(5, 2, 2)), RNG.normal(size=10), RNG.normal(size=7)
    data = np.empty(W.nnz)
    kernels.times_block_rows(blocks, W.indptr.astype(np.int32), W.indices.astype(np.int32), W.data, left, right, data)
    found = sparse.csr_array((data, W.indices, W.indptr), shape=W.shape).toarray()
    expected = blocks @ (left[:, None] * W.toarray() * right).reshape(5, 2, 7)
    np.testing.assert_allclose(found, expected.reshape(10, 7), atol=1e-12)


def test_add_sparse_product():
    A, B = (sparse.csr_array(np.where(RNG.random((9, k)) < 0.4, RNG.normal(size=(9, k)), 0.0)) for k in (5, 7))
    (a_ptr, a), (b_ptr, b) = ((W.indptr.astype(np.int32), W.indices.astype(np.int32)) for W in (A, B))
    out = np.ones((5, 7))
    kernels.add_sparse_product(a_ptr, a, A.data, b_ptr, b, B.data, out)
    np.testing.assert_allclose(out, 1.0 + (A.T @ B).toarray(), atol=1e-12)
