"""Solving with the information on the tangent space: by elimination, by conjugate gradients, or in closed form."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from scipy import linalg, sparse

from lrbtl.errors import SingularInformationError, SolverError
from lrbtl.fitting.design import Design
from lrbtl.fitting.normal_equations import accumulate, fix_gauge
from lrbtl.lowrank.arrowhead import PIVOT_FLOOR, Arrowhead, Factor, Inverse, NotPositiveDefinite
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.model.effects import Border
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats

# ------------------------------------------------------------------------------
# Conjugate gradients on the matrix-free information, for problems whose border is too large to factor.
# ------------------------------------------------------------------------------


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


# ------------------------------------------------------------------------------
# Solvers of the normal equations: factored, by conjugate gradients, or in closed form.
# ------------------------------------------------------------------------------

SolverName = Literal["auto", "direct", "cg"]

LARGEST_BORDER = 8000  # border length up to which "auto" factors: half a gigabyte
CG_TOL = 1e-12
TOUCH = 1e-6  # cosine between a target's gradient and a direction without information that counts as touching


class Solver(Protocol):
    """Solves K x = rhs in tangent coordinates."""

    @property
    def null(self) -> Floats | None:
        """Directions that no battle informs, as columns, or None."""

    def solve(self, rhs: Floats) -> Floats:
        """Return the solution for columns (size, M)."""

    def inverse(self) -> Inverse:
        """Return the inverse in block form."""


@dataclass(frozen=True)
class DirectSolver:
    """A factorised information matrix; `null` holds the directions that no battle informs, as columns, or None."""

    factor: Factor
    null: Floats | None = None

    def solve(self, rhs: Floats) -> Floats:
        """Return the solution for columns (size, M)."""
        return self.factor.solve(rhs)

    def inverse(self) -> Inverse:
        """Return the inverse in block form."""
        return self.factor.inverse()


@dataclass(frozen=True)
class KrylovSolver:
    """The matrix-free information with a block-Jacobi preconditioner."""

    design: Design
    space: TangentSpace
    weight: Floats
    precondition: BlockJacobi
    null: Floats | None = None

    def solve(self, rhs: Floats) -> Floats:
        """Return the solution for columns (size, M), one after the other."""
        columns = rhs.reshape(len(rhs), -1)
        out = np.empty_like(columns)
        for i, column in enumerate(columns.T):
            found = conjugate_gradients(
                lambda x: self.design.gram_apply(self.space, self.weight, x),
                self.precondition,
                np.ascontiguousarray(column),
                tol=CG_TOL,
                max_iter=10 * len(column),
            )
            if not found.converged and np.abs(column - found.product).max() > 1e-6 * np.abs(column).max(initial=1e-300):
                raise SingularInformationError(
                    f"conjugate gradients stalled after {found.n_iter} steps: a direction of the scores has no "
                    "information. Use solver='direct', which names it, or a smaller rank."
                )
            out[:, i] = found.x
        return out.reshape(rhs.shape)

    def inverse(self) -> Inverse:
        """Refuse: conjugate gradients never form the inverse."""
        raise SolverError(
            "all_scores and all_gaps need solver='direct'; conjugate gradients serve listed targets only."
        )


@dataclass(frozen=True)
class IsotropicSolver:
    """K = J^T Q1 J / d_eff, the information of whitened scores under uniform sampling: H = d_eff P_T(Gamma)."""

    space: TangentSpace
    d_eff: float
    null: Floats | None = None

    def solve(self, rhs: Floats) -> Floats:
        """Return the solution for columns (size, M)."""
        return self.d_eff * self.space.solve_isotropic(rhs)

    def inverse(self) -> Inverse:
        """Return the inverse in block form: block diagonal on the gauge."""
        space = self.space
        identity = np.zeros((space.size, space.q))
        identity[: space.q] = np.eye(space.q)
        border = self.solve(identity)[: space.q]
        dl, rl = space.factors[space.mode].shape
        one = np.zeros((space.size, rl))
        one[space.q : space.q + rl] = np.eye(rl)
        block = self.solve(one)[space.q : space.q + rl]
        return Inverse(border, np.zeros((dl * rl, space.q)), np.broadcast_to(block, (dl, rl, rl)))


def needs_krylov(space: TangentSpace, solver: SolverName) -> bool:
    """Return whether a solver name means conjugate gradients for a space of this size."""
    return solver == "cg" or (solver == "auto" and space.q > LARGEST_BORDER)


@one_blas_thread
def information_solver(
    design: Design,
    space: TangentSpace,
    weight: Floats,
    solver: SolverName = "auto",
    *,
    effects: Border | None = None,
) -> Solver:
    """Return a solver for K = J^T (sum of weight X X^T) J on tangent vectors; see `accumulate` for `effects`."""
    if needs_krylov(space, solver):
        if effects is not None and effects[1].size:
            raise SolverError("parameters that all battles share, such as that of ties, need solver='direct'.")
        rows, core = diagonal_blocks(design, space, weight)
        return KrylovSolver(design, space, weight, invert_blocks(space, rows, core))
    return DirectSolver(*robust_factor(fix_gauge(accumulate(design, space, weight, effects), space)))


def robust_factor(matrix: Arrowhead) -> tuple[Factor, Floats | None]:
    """Return the factor, and the directions without information, which are then damped, or None."""
    try:
        return matrix.factor(floor=PIVOT_FLOOR), None
    except NotPositiveDefinite as failure:
        diagonal = matrix.diagonal()
        shift = 1e-7 * np.maximum(diagonal, diagonal.mean())
        return matrix.plus_diagonal(shift).factor(), failure.null


def touched(solver: Solver, gradients: Floats) -> Bools:
    """Return which gradients (size, M) touch a direction without information."""
    if solver.null is None:
        return np.zeros(gradients.shape[1], dtype=bool)
    null = solver.null / np.linalg.norm(solver.null, axis=0)
    size = np.maximum(np.linalg.norm(gradients, axis=0), 1e-300)
    return np.asarray(np.abs(null.T @ gradients).max(axis=0) > TOUCH * size)
