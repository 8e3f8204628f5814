"""Solving with the information on the tangent space: by elimination, by conjugate gradients, or in closed form."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from lrbtl.arrowhead import PIVOT_FLOOR, Arrowhead, Factor, Inverse, NotPositiveDefinite
from lrbtl.design import Design
from lrbtl.errors import SingularInformationError, SolverError
from lrbtl.information import accumulate, fix_gauge
from lrbtl.krylov import BlockJacobi, conjugate_gradients, diagonal_blocks, invert_blocks
from lrbtl.tangent import TangentSpace
from lrbtl.threads import one_blas_thread

Floats = np.typing.NDArray[np.float64]
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
    tie: tuple[Floats, float] | None = None,
) -> Solver:
    """Return a solver for K = J^T (sum of weight X X^T) J on tangent vectors; see `accumulate` for `tie`."""
    if needs_krylov(space, solver):
        if tie is not None:
            raise SolverError("links with a tie parameter need solver='direct'.")
        rows, core = diagonal_blocks(design, space, weight)
        return KrylovSolver(design, space, weight, invert_blocks(space, rows, core))
    return DirectSolver(*robust_factor(fix_gauge(accumulate(design, space, weight, tie), space)))


def robust_factor(matrix: Arrowhead) -> tuple[Factor, Floats | None]:
    """Return the factor, and the directions without information, which are then damped, or None."""
    try:
        return matrix.factor(floor=PIVOT_FLOOR), None
    except NotPositiveDefinite as failure:
        diagonal = matrix.diagonal()
        shift = 1e-7 * np.maximum(diagonal, diagonal.mean())
        return matrix.plus_diagonal(shift).factor(), failure.null


def touched(solver: Solver, gradients: Floats) -> np.typing.NDArray[np.bool_]:
    """Return which gradients (size, M) touch a direction without information."""
    if solver.null is None:
        return np.zeros(gradients.shape[1], dtype=bool)
    null = solver.null / np.linalg.norm(solver.null, axis=0)
    size = np.maximum(np.linalg.norm(gradients, axis=0), 1e-300)
    return np.asarray(np.abs(null.T @ gradients).max(axis=0) > TOUCH * size)
