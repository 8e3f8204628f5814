"""Symmetric matrices that are block diagonal but for a border: assemble, multiply, factor, solve.

    [ border   cross^T ]   border (q, q), cross (dl rl, q) dense or sparse,
    [ cross    blocks  ]   blocks (dl, rl, rl) on the diagonal.

Coordinates are flat: the border first. The cost of a factorisation is linear in the number dl of blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, sparse

from lrbtl._kernels import blocks as block_kernels
from lrbtl.typing import Floats, Longs

Rows = Longs | slice
EVERY = slice(None)
PANEL = 64  # rows that are mirrored at a time
PIVOT_FLOOR = 1e-11  # a squared pivot of the unit-diagonal matrix below this is a direction without information
NOTHING = 1e-20  # of the largest diagonal element: a coordinate that has less has no information


class NotPositiveDefinite(Exception):
    """The matrix is not positive definite; `null` spans (in coordinates) what it fails on, where known."""

    def __init__(self, null: Floats | None = None):
        super().__init__("not positive definite")
        self.null = null


@dataclass(frozen=True)
class Arrowhead:
    """An arrowhead matrix; see the module's docstring for the parts and their shapes."""

    border: Floats
    blocks: Floats
    cross: Floats | sparse.csr_array

    @property
    def q(self) -> int:
        """Length of the border."""
        return len(self.border)

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.q + int(self.blocks.shape[0]) * int(self.blocks.shape[1])

    def diagonal(self) -> Floats:
        """Return the diagonal."""
        return np.concatenate([np.diag(self.border), np.einsum("jii->ji", self.blocks).reshape(-1)])

    def row_blocks(self, part: slice, width: int) -> Floats:
        """Return the (width, width) matrices along the diagonal of a slice, in the border or in the blocks."""
        if part.start >= self.q:
            return self.blocks
        n = (part.stop - part.start) // width
        each = np.arange(n)
        return np.asarray(self.border[part, part].reshape(n, width, n, width)[each, :, each])

    def __matmul__(self, x: Floats) -> Floats:
        """Return the product with a vector (size,) or columns (size, M)."""
        top, bottom = x[: self.q], x[self.q :]
        below = self.blocks @ bottom.reshape(*self.blocks.shape[:2], *x.shape[1:] or (1,))
        return np.concatenate(
            [self.border @ top + self.cross.T @ bottom, self.cross @ top + below.reshape(bottom.shape)]
        )

    def plus_border(self, parts: list[tuple[slice, Floats]]) -> "Arrowhead":
        """Return the matrix with matrices added on slices of the border, repeated along the diagonal to fill them."""
        return replace(self, border=_with_parts(self.border.copy(), parts))

    def plus_blocks(self, matrix: Floats) -> "Arrowhead":
        """Return the matrix with (rl, rl) or (dl, rl, rl) added to the blocks."""
        return replace(self, blocks=self.blocks + matrix)

    def plus_diagonal(self, diagonal: Floats, parts: Sequence[tuple[slice, Floats]] = ()) -> "Arrowhead":
        """Return the matrix with a diagonal added, and matrices on slices of the border as by `plus_border`."""
        border, blocks = _with_parts(self.border.copy(), parts), self.blocks.copy()
        border[np.diag_indices(self.q)] += diagonal[: self.q]
        index = np.arange(blocks.shape[1])
        blocks[:, index, index] += diagonal[self.q :].reshape(blocks.shape[:2])
        return replace(self, border=border, blocks=blocks)

    def dense(self) -> Floats:
        """Return the full matrix."""
        cross = self.cross.toarray() if sparse.issparse(self.cross) else self.cross
        return np.block([[self.border, cross.T], [cross, linalg.block_diag(*self.blocks)]])

    def factor(self, *, floor: float = 0.0) -> "Factor":
        """Return the Cholesky factor after scaling to unit diagonal.

        Raises NotPositiveDefinite where a squared pivot is below `floor`.
        """
        diagonal = self.diagonal()
        least = NOTHING * diagonal.max() if floor else 0.0
        if not diagonal.min() > least:
            raise NotPositiveDefinite(np.eye(self.size)[:, diagonal <= least] if floor else None)
        scale = 1.0 / np.sqrt(diagonal)
        top, below = scale[: self.q], scale[self.q :].reshape(self.blocks.shape[:2])
        inverse = self._invert_blocks(self.blocks * below[:, :, None] * below[:, None, :], below, floor)
        cross = block_product(inverse, self.cross, below.reshape(-1), top)
        schur = self._complement(cross, top)
        chol, failed = linalg.lapack.dpotrf(schur.T, lower=1, clean=0, overwrite_a=1)
        if failed or np.square(np.diag(chol)).min(initial=1.0) <= floor:
            if not floor:
                raise NotPositiveDefinite
            values, vectors = linalg.eigh(self._complement(cross, top), lower=False)
            null = vectors[:, values <= max(values[0], 10 * floor)] * top[:, None]
            bottom = -below.reshape(-1)[:, None] * _block_transpose_solve(inverse, cross @ (null / top[:, None]))
            raise NotPositiveDefinite(np.concatenate([null, bottom]))
        return Factor(chol, inverse, cross, scale)

    def _complement(self, cross: Floats | sparse.csr_array, top: Floats) -> Floats:
        """Return the scaled border less cross^T cross; its upper triangle alone where cross is dense."""
        out = self.border * top
        out *= top[:, None]
        if sparse.issparse(cross):
            subtract_gram(cross, out)
            return np.asarray(out)
        return np.asarray(linalg.blas.dsyrk(-1.0, cross.T, beta=1.0, c=out.T, lower=1, overwrite_c=1).T)

    def _invert_blocks(self, blocks: Floats, below: Floats, floor: float) -> Floats:
        if not blocks.size:
            return blocks
        try:
            chol = np.linalg.cholesky(blocks)
            weak = np.square(np.einsum("jii->ji", chol)).min(axis=1) <= floor
        except np.linalg.LinAlgError:
            weak = np.linalg.eigvalsh(blocks)[:, 0] <= floor
        if weak.any():
            if not floor:
                raise NotPositiveDefinite
            null = np.zeros((self.size, int(weak.sum())))
            for column, j in enumerate(np.flatnonzero(weak)):
                vector = np.linalg.eigh(blocks[j])[1][:, 0] * below[j]
                null[self.q + j * len(vector) : self.q + (j + 1) * len(vector), column] = vector
            raise NotPositiveDefinite(null)
        return np.linalg.inv(chol)


@dataclass(frozen=True)
class Factor:
    """Cholesky factor of an arrowhead matrix scaled to unit diagonal.

    Attributes
    ----------
    chol : array (q, q)
        Lower factor of the scaled Schur complement of the blocks.
    inverse_lower : array (dl, rl, rl)
        Inverse lower factors of the scaled blocks.
    cross : array or sparse (dl rl, q)
        inverse_lower @ scaled cross.
    scale : array (size,)
    """

    chol: Floats
    inverse_lower: Floats
    cross: Floats | sparse.csr_array
    scale: Floats

    def solve(self, rhs: Floats) -> Floats:
        """Return the solution for a right side (size,) or columns (size, M)."""
        q = len(self.chol)
        scale = self.scale.reshape(-1, *([1] * (rhs.ndim - 1)))
        scaled = rhs * scale
        bottom = _block_solve(self.inverse_lower, scaled[q:])
        top = linalg.cho_solve((self.chol, True), scaled[:q] - self.cross.T @ bottom, check_finite=False)
        bottom = _block_transpose_solve(self.inverse_lower, bottom - self.cross @ top)
        return np.concatenate([top, bottom]) * scale

    def whitened(self, rows: Floats | sparse.csr_array) -> Floats | sparse.csr_array:
        """Return the eliminated rows of some columns in coordinates in which their own precision is the identity."""
        return block_product(self.inverse_lower, rows, self.scale[len(self.chol) :], np.ones(rows.shape[1]))

    def log_determinant(self) -> float:
        """Return the log of the determinant of the matrix."""
        pivots = np.log(np.diag(self.chol)).sum() - np.log(np.einsum("jii->ji", self.inverse_lower)).sum()
        return 2.0 * float(pivots - np.log(self.scale).sum())

    def inverse(self) -> "Inverse":
        """Return the inverse in block form."""
        q = len(self.chol)
        top, below = self.scale[:q], self.scale[q:]
        border = mirrored(linalg.lapack.dpotri(self.chol, lower=True)[0])
        border *= top[:, None]
        border *= top
        upper = np.swapaxes(self.inverse_lower, 1, 2)
        blocks = upper @ self.inverse_lower
        scale = below.reshape(blocks.shape[:2])
        reach = block_product(upper * scale[:, :, None], self.cross, np.ones(len(below)), 1.0 / top)
        return Inverse(border, reach, blocks * scale[:, :, None] * scale[:, None, :])


@dataclass(frozen=True)
class Inverse:
    """Inverse of an arrowhead matrix: [0 0; 0 blocks] + [1; -reach] border [1, -reach^T].

    Attributes
    ----------
    border : array (q, q)
    reach : array or sparse (dl rl, q)
    blocks : array (dl, rl, rl)
    """

    border: Floats
    reach: Floats | sparse.csr_array
    blocks: Floats

    def reach_of(self, rows: Rows) -> Floats:
        """Return the reach of some eliminated rows, (n, rl, q)."""
        return block_rows(self.reach, self.blocks.shape[1], rows)


@dataclass(frozen=True)
class Blocks:
    """Blocks of a covariance in tangent coordinates.

    Attributes
    ----------
    border : array (q, q)
    cross : array (n, rl, q)
        Eliminated rows, all or some, with the border.
    own : array (n, rl, rl)
        Eliminated rows with themselves.
    """

    border: Floats
    cross: Floats
    own: Floats


def inverse_blocks(inverse: Inverse, rows: Rows = EVERY) -> Blocks:
    """Return the blocks of the inverse itself, for some of the eliminated rows."""
    reach = inverse.reach_of(rows)
    cross = -stacked_product(reach, inverse.border)
    return Blocks(inverse.border, cross, inverse.blocks[rows] - cross @ np.swapaxes(reach, 1, 2))


def _with_parts(border: Floats, parts: Sequence[tuple[slice, Floats]]) -> Floats:
    """Add matrices on slices of a border, in place, repeated along the diagonal to fill them; return it."""
    for part, matrix in parts:
        rows = np.arange(len(border))[part].reshape(-1, len(matrix))
        if len(rows) == 1:
            border[part, part] += matrix
        else:
            border[rows[:, :, None], rows[:, None, :]] += matrix
    return border


def stacked_product(rows: Floats, matrix: Floats) -> Floats:
    """Return rows (n, r, q) times one matrix (q, k), as one product: r is small, and n products would read it n times.

    >>> stacked_product(np.ones((2, 1, 3)), np.eye(3)).shape
    (2, 1, 3)
    """
    return np.asarray((rows.reshape(-1, len(matrix)) @ matrix).reshape(*rows.shape[:2], matrix.shape[1]))


def block_rows(matrix: Floats | sparse.csr_array, size: int, rows: Rows = EVERY) -> Floats:
    """Return blocks of `size` rows of a matrix that may be sparse, dense, (n, size, columns)."""
    if isinstance(rows, slice):
        return as_dense(matrix).reshape(matrix.shape[0] // max(size, 1), size, matrix.shape[1])
    chosen = matrix[(rows[:, None] * size + np.arange(size)).reshape(-1)]
    return as_dense(chosen).reshape(len(rows), size, matrix.shape[1])


def as_dense(matrix: Floats | sparse.csr_array) -> Floats:
    """Return a matrix that may be sparse as an array."""
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def mirrored(lower: Floats) -> Floats:
    """Return a symmetric matrix from its lower triangle, in place and by panels: far cheaper than whole triangles."""
    for first in range(0, len(lower), PANEL):
        here, below = slice(first, first + PANEL), slice(first + PANEL, None)
        corner = np.tril(lower[here, here])
        lower[here, here] = corner + np.tril(corner, -1).T
        lower[here, below] = lower[below, here].T
    return lower


def block_product(
    inverse: Floats, cross: Floats | sparse.csr_array, left: Floats, right: Floats
) -> Floats | sparse.csr_array:
    """Return blockdiag(inverse) diag(left) cross diag(right)."""
    dl, rl, _ = inverse.shape
    if not sparse.issparse(cross):
        out = np.matmul(inverse * left.reshape(dl, 1, rl), cross.reshape(dl, rl, cross.shape[1])).reshape(cross.shape)
        out *= right
        return np.asarray(out)
    counts = np.diff(cross.indptr).reshape(dl, rl)
    if np.all(counts == counts[:, :1]):  # the rows of a block have the same columns
        indptr, indices = cross.indptr.astype(np.int32), cross.indices.astype(np.int32)
        data = np.empty(len(cross.data))
        blocks = np.ascontiguousarray(inverse)
        block_kernels.times_block_rows(blocks, indptr, indices, cross.data, left, np.ascontiguousarray(right), data)
        return sparse.csr_array((data, cross.indices, cross.indptr), shape=cross.shape)
    outer = sparse.bsr_array((inverse, np.arange(dl), np.arange(dl + 1)), shape=(dl * rl, dl * rl))
    product = outer.tocsr() @ (sparse.diags_array(left) @ cross @ sparse.diags_array(right))
    product = sparse.csr_array(product)
    product.sort_indices()
    return product


def subtract_gram(matrix: sparse.csr_array, out: Floats) -> None:
    """Subtract matrix^T matrix of a sparse matrix from a symmetric one, in place."""
    matrix.sort_indices()
    block_kernels.subtract_sparse_gram(
        matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data, out
    )
    mirrored(out.T)


def _block_solve(inverse: Floats, rhs: Floats) -> Floats:
    return np.asarray((inverse @ rhs.reshape(*inverse.shape[:2], *rhs.shape[1:] or (1,))).reshape(rhs.shape))


def _block_transpose_solve(inverse: Floats, rhs: Floats) -> Floats:
    columns = rhs.reshape(*inverse.shape[:2], *rhs.shape[1:] or (1,))
    return np.asarray((np.swapaxes(inverse, 1, 2) @ columns).reshape(rhs.shape))
