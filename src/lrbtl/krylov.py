"""Conjugate gradients on the matrix-free information, for problems whose border is too large to factor."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from lrbtl.design import Design
from lrbtl.tangent import TangentSpace

Floats = np.typing.NDArray[np.float64]


@dataclass(frozen=True)
class BlockJacobi:
    """Inverse diagonal blocks of an information matrix: one per row of every factor, one for the core.

    Attributes
    ----------
    rows : dict of arrays (dk, rk, rk)
    core : array (r1 ... rm, r1 ... rm) or None
    """

    space: TangentSpace
    rows: dict[int, Floats]
    core: Floats | None

    def __call__(self, x: Floats) -> Floats:
        """Return the preconditioned vector."""
        out = np.empty_like(x)
        for k, part in self.space.slices.items():
            factor = self.space.factors[k]
            out[part] = np.einsum("aij,aj->ai", self.rows[k], x[part].reshape(factor.shape)).reshape(-1)
        if self.core is not None:
            out[self.space.core_slice] = self.core @ x[self.space.core_slice]
        return out


def diagonal_blocks(design: Design, space: TangentSpace, weight: Floats) -> tuple[dict[int, Floats], Floats | None]:
    """Return near diagonal blocks of J^T (sum of weight X X^T) J: per row of each factor, and for the core.

    Those of the context modes take x x^T to be U[a] U[a]^T + U[b] U[b]^T: one pass over the cells serves all blocks.
    """
    touched = design.unsigned_sums(weight)
    rows = {0: _outer_sums(touched.T, space.V)}
    gram = _outer_sums(touched, space.U)
    for k in range(1, len(space.factors)):
        E = space.context_jacobian(k)
        rows[k] = space.sum_over(E.transpose(0, 2, 1) @ gram @ E, k)
    core = None
    if space.has_core:
        p = space.core_rows
        outer = (p[:, :, None] * p[:, None, :]).reshape(len(p), -1)
        blocks = (gram.reshape(len(p), -1).T @ outer).reshape(*gram.shape[1:], p.shape[1], p.shape[1])
        core = blocks.transpose(0, 2, 1, 3).reshape(space.core.size, space.core.size)
    return rows, core


def _outer_sums(weight: Floats | sparse.csr_array | sparse.csc_array, rows: Floats) -> Floats:
    """Return sum_j weight[i, j] rows[j] rows[j]^T for every i."""
    rank = rows.shape[1]
    outer = (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
    return np.asarray(weight @ outer).reshape(-1, rank, rank)


def invert_blocks(space: TangentSpace, rows: dict[int, Floats], core: Floats | None) -> BlockJacobi:
    """Return the preconditioner from positive semidefinite blocks; directions without information are left alone."""
    inverse = {}
    for k, block in rows.items():
        scale = np.einsum("aii->a", block) / block.shape[1]
        floor = np.maximum(1e-9 * scale, 1e-12 * scale.max(initial=1e-300))
        inverse[k] = np.linalg.inv(block + floor[:, None, None] * np.eye(block.shape[1]))
    if core is not None:
        core = linalg.inv(core + 1e-9 * np.trace(core) / len(core) * np.eye(len(core)))
    return BlockJacobi(space, inverse, core)


@dataclass(frozen=True)
class Solution:
    """What conjugate gradients reached: the solution, the product with it, and how it ended."""

    x: Floats
    product: Floats
    n_iter: int
    converged: bool


def conjugate_gradients(
    apply: Callable[[Floats], Floats],
    precondition: Callable[[Floats], Floats],
    rhs: Floats,
    *,
    tol: float,
    max_iter: int,
) -> Solution:
    """Return x with apply(x) = rhs to a relative residual in the preconditioner's norm; stop at negative curvature."""
    x, product, residual = np.zeros_like(rhs), np.zeros_like(rhs), rhs.copy()
    z = precondition(residual)
    direction, rho = z, float(residual @ z)
    target = tol**2 * rho
    for n_iter in range(max_iter):
        if rho <= target:
            return Solution(x, product, n_iter, True)
        applied = apply(direction)
        curvature = float(direction @ applied)
        if curvature <= 0.0:
            return Solution(x, product, n_iter, False) if n_iter else Solution(direction, applied, 0, False)
        step = rho / curvature
        x = x + step * direction
        product = product + step * applied
        residual = residual - step * applied
        z = precondition(residual)
        rho, previous = float(residual @ z), rho
        direction = z + (rho / previous) * direction
    return Solution(x, product, max_iter, rho <= target)
