"""Normal equations on the tangent space, and their solution: by elimination, conjugate gradients or in closed form."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import linalg, sparse

from lrbtl.errors import SingularInformationError, SolverError
from lrbtl.fitting.design import Design
from lrbtl.fitting.jacobian import cross_blocks, effect_columns, gram_apply, pull_sums
from lrbtl.lowrank.arrowhead import PIVOT_FLOOR, Arrowhead, Factor, Inverse, NotPositiveDefinite
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import contract
from lrbtl.model.effects import Border
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats

SPARSE_BELOW = 0.15  # share of occupied (row, model) blocks below which the cross part stays sparse

# ------------------------------------------------------------------------------
# Quadratic forms of battles in tangent coordinates: information, meat and the Newton Hessian, one routine.
# ------------------------------------------------------------------------------


def accumulate(
    design: Design,
    space: TangentSpace,
    weight: Floats,
    effects: Border | None = None,
    *,
    slot_score: Floats | None = None,
    contexts: Floats | None = None,
) -> Arrowhead:
    """Return J^T (sum of weight X X^T) J over cells as an arrowhead matrix [Li26, eq. Ghat_def].

    `effects` is the border of the parameters that all cells share, `contexts` (D,) a precision of context vectors that
    is added. With `slot_score`, the sums of a score over slots, the second-order part - sum of score * (second
    derivative of eta) is added, which makes it the Hessian of a loss whose derivative in eta is -score.
    """
    rows, gram = design.slot_rows(space, weight)
    if contexts is not None:
        gram = gram + contexts[:, None, None] * np.eye(gram.shape[1])
    sums_of_score = np.zeros(len(rows)) if slot_score is None else slot_score
    dl, rl = space.factors[space.mode].shape
    q1 = space.U.size
    border = np.zeros((space.q, space.q))
    design.add_model_blocks(space, weight, border)
    blocks = space.sum_over(space.E.transpose(0, 2, 1) @ gram @ space.E, space.mode)
    models = cross_blocks(design.entries, space, rows, sums_of_score)
    others = np.zeros((dl, rl, space.q - q1))
    if effects is not None:
        _add_effects(design, space, effects, border, others)
    if space.has_others:
        sums = [design.entries.slot_matrix(column) for column in (*rows.T, sums_of_score)]
        for group in range(len(space.groups)):
            _add_group(space, group, gram, sums, border, others, slot_score is not None)
    return Arrowhead(border, blocks, _join(models, others.reshape(dl * rl, space.q - q1)))


def fix_gauge(matrix: Arrowhead, space: TangentSpace) -> Arrowhead:
    """Return the matrix plus C^T C of the gauge constraints, which leaves it unchanged on tangent vectors."""
    parts = []
    for part, block in space.gauge():
        size = np.trace(block)
        if size > 0:
            parts.append((part, block * (np.diag(matrix.border)[part].sum() / size)))
    return matrix.plus_border(parts)


def _add_effects(design: Design, space: TangentSpace, effects: Border, border: Floats, others: Floats) -> None:
    """Add what effects share with one another, with the border and with the eliminated rows."""
    for i, sums in enumerate(effect_columns(design.entries, effects).T, start=space.extra.start):
        column = pull_sums(design.entries, space, np.ascontiguousarray(sums))
        border[i] = border[:, i] = column[: space.q]
        others[:, :, i - space.U.size] = column[space.q :].reshape(others.shape[:2])
    border[space.extra, space.extra] = effects.corner


def _join(models: Floats | sparse.bsr_array, others: Floats) -> Floats | sparse.csr_array:
    if isinstance(models, np.ndarray):
        return np.hstack([models, others]) if others.shape[1] else models
    if models.nnz < SPARSE_BELOW * models.shape[0] * models.shape[1]:
        parts = [models.tocsr(), sparse.csr_array(others)]
        cross = sparse.csr_array(sparse.hstack(parts, format="csr")) if others.size else parts[0]
        cross.sort_indices()
        return cross
    return np.hstack([models.toarray(), others])


def _add_group(
    space: TangentSpace,
    group: int,
    gram: Floats,
    sums: list[Floats | sparse.csr_array],
    border: Floats,
    others: Floats,
    curvature: bool,
) -> None:
    """Add the chain rule v_u(core, factors) of one group of contexts to the border and to its cross part."""
    q1, r1 = space.U.size, space.U.shape[1]
    contexts, levels = space.groups[group]
    columns, F = space.group_border(group)
    HF = gram[contexts] @ F
    border[np.ix_(columns, columns)] += F.reshape(-1, len(columns)).T @ HF.reshape(-1, len(columns))
    others[:, :, columns - q1] += space.E[contexts[0]].T @ HF
    v = space.V[contexts]
    *slot_rows, slot_score = (matrix[contexts].T for matrix in sums)
    block = -(slot_score @ F.transpose(0, 2, 1).reshape(len(F), -1))
    for a, matrix in enumerate(slot_rows):
        block += matrix @ (F[:, a, :, None] * v[:, None, :]).reshape(len(F), -1)
    block = block.reshape(-1, len(columns), r1).transpose(1, 0, 2).reshape(len(columns), q1)
    border[columns, :q1] += block
    border[:q1, columns] += block.T
    if curvature:
        gV = slot_score.T @ space.U
        others[:, :, columns - q1] -= np.einsum("ja,ali->jil", gV, space.group_jacobians[1][group])
        _subtract_curvature(space, levels, gV.T @ space.factors[space.mode], border)


def _subtract_curvature(space: TangentSpace, levels: tuple[int, ...], moment: Floats, border: Floats) -> None:
    """Subtract gV . (second derivative of v) between border parts over the group; moment = gV^T U_l, (r1, rl)."""
    order = space.core.ndim
    row = {k: space.factors[k][level] for k, level in zip(space.others, levels, strict=True)}
    moment_part = (moment[: len(space.core)], [0, space.mode])  # that of a level does not bend
    for k, level in zip(space.others, levels, strict=True):
        at_k = space.row_columns(k, level)
        for j, other in zip(space.others, levels, strict=True):
            if j > k:
                rest = [x for i in space.others if i not in (j, k) for x in (row[i], [i])]
                value = contract(space.core, list(range(order)), *moment_part, *rest, [k, j])
                at_j = space.row_columns(j, other)
                border[np.ix_(at_k, at_j)] -= value
                border[np.ix_(at_j, at_k)] -= value.T
        if space.has_core:
            rest = [x for i in space.others if i != k for x in (row[i], [i])]
            eye = np.eye(space.core.shape[k])
            value = contract(*moment_part, *rest, eye, [k, order], [*range(order), order]).reshape(-1, len(at_k))
            border[space.core_slice, at_k] -= value
            border[at_k, space.core_slice] -= value.T


# ------------------------------------------------------------------------------
# Conjugate gradients on the matrix-free information, for problems whose border is too large to factor.
# ------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockJacobi:
    """Inverse diagonal blocks of an information matrix: one per row of every factor, one for the core."""

    space: TangentSpace
    rows: dict[int, Floats]  # (dk, rk, rk)
    core: Floats | None  # (r1 ... rm, r1 ... rm)

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
    touched = design.entries.slot_matrix(design.entries.unsigned(weight))
    rows = {0: outer_sums(touched.T, space.V)}
    gram = outer_sums(touched, space.U)
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


def outer_sums(weight: Floats | sparse.csr_array | sparse.csc_array, rows: Floats) -> Floats:
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
                lambda x: gram_apply(self.design.entries, self.space, self.weight, x),
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


Solver = DirectSolver | KrylovSolver | IsotropicSolver


def needs_krylov(space: TangentSpace, solver: SolverName) -> bool:
    """Return whether a solver name means conjugate gradients for a space of this size."""
    return solver == "cg" or (solver == "auto" and space.q > LARGEST_BORDER)


@one_blas_thread
def information_solver(
    design: Design, space: TangentSpace, weight: Floats, solver: SolverName = "auto", *, effects: Border | None = None
) -> Solver:
    """Return a solver for K = J^T (sum of weight X X^T) J on tangent vectors; see `accumulate` for `effects`."""
    if needs_krylov(space, solver):
        if effects is not None and effects.corner.size:
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
        shift = 1e-7 * np.maximum(diagonal, diagonal.mean() or 1.0)
        return matrix.plus_diagonal(shift).factor(), failure.null


def touched(solver: Solver, gradients: Floats) -> Bools:
    """Return which gradients (size, M) touch a direction without information."""
    if solver.null is None:
        return np.zeros(gradients.shape[1], dtype=bool)
    null = solver.null / np.linalg.norm(solver.null, axis=0)
    size = np.maximum(np.linalg.norm(gradients, axis=0), 1e-300)
    return np.asarray(np.abs(null.T @ gradients).max(axis=0) > TOUCH * size)
