"""The penalty 1/2 sum_k ridge_k ||T_(k)||_*: its value, and the smooth function that touches it, to second order."""

import numpy as np

from lrbtl.fitting.solvers import fix_gauge
from lrbtl.lowrank.arrowhead import Arrowhead
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker, mode_product, unfold
from lrbtl.typing import Floats


def penalty(point: Tucker, ridge: Floats) -> float:
    """Return 1/2 sum_k ridge_k ||T_(k)||_* at a point in HOSVD form."""
    return 0.5 * float(sum(lam * s.sum() for lam, s in zip(ridge, point.singular_values, strict=True)))


def penalty_terms(space: TangentSpace, ridge: Floats) -> tuple[Floats, dict[int, Floats], Floats]:
    """Return the gradient of the smooth penalty, its Hessian per row of each factor, and the diagonal for the core.

    Terms of the Hessian that couple different parts are left out: they vanish for a matrix, and nearly so in a fixed
    gauge.
    """
    core = space.core
    sigma = [np.maximum(s, 1e-12 * max(s[0], 1e-30)) for s in space.point.singular_values]
    order = core.ndim
    gradient = np.zeros(space.size)
    hessians = {}
    for k in range(order):
        hessian = 0.5 * ridge[k] * np.diag(sigma[k])
        for j in range(order):
            if j != k:
                scaled = unfold(mode_product(core, np.diag(sigma[j] ** -0.5), j), k)
                hessian += 0.5 * ridge[j] * scaled @ scaled.T
        hessians[k] = hessian
        gradient[space.slices[k]] = (space.factors[k] @ hessian).reshape(-1)
    weights = np.zeros(core.shape)
    for k in range(order):
        weights += np.reshape(0.5 * ridge[k] / sigma[k], [-1 if j == k else 1 for j in range(order)])
    if space.has_core:
        gradient[space.core_slice] = (weights * core).reshape(-1)
    return gradient, hessians, weights.reshape(-1)


def add_penalty(
    matrix: Arrowhead, space: TangentSpace, hessians: dict[int, Floats], core_diagonal: Floats
) -> Arrowhead:
    """Return the matrix plus the penalty's Hessian."""
    parts = [(space.slices[k], hessians[k]) for k in [0, *space.others]]
    if space.has_core:
        parts.append((space.core_slice, np.diag(core_diagonal)))
    return matrix.plus_border(parts).plus_blocks(hessians[space.mode])


def penalised(matrix: Arrowhead, space: TangentSpace, ridge: Floats) -> Arrowhead:
    """Return an information matrix plus the penalty's Hessian; a matrix's ridge leaves no gauge to fix."""
    _, hessians, core_diagonal = penalty_terms(space, ridge)
    out = add_penalty(matrix, space, hessians, core_diagonal)
    return out if len(space.factors) == 2 and np.all(ridge > 0) else fix_gauge(out, space)
