"""Penalised maximum likelihood over the low-rank set by damped Newton steps on all factors.

The objective is sum of n * loss(eta) + 1/2 sum_k ridge_k ||T_(k)||_*, for a matrix sum of n * loss + ridge ||T||_*.
With M_k = diag(singular values of T_(k)) at the current point, they are the minimum over the gauge of the smooth function
1/4 sum_k ridge_k [tr(U_k M_k U_k^T) + ||core x_k M_k^-1/2 x_{j != k} U_j||^2], which is what the Newton steps see: with a free gauge
for a matrix, where that is exact, and in a fixed gauge above, where it is a majoriser that touches the objective.
"""

from dataclasses import dataclass

import numpy as np

from lrbtl.arrowhead import Arrowhead, NotPositiveDefinite
from lrbtl.design import Design
from lrbtl.information import accumulate, fix_gauge
from lrbtl.links import logistic_terms
from lrbtl.tangent import TangentSpace
from lrbtl.tucker import Tucker, mode_product, unfold

Floats = np.typing.NDArray[np.float64]

MAX_DAMPING = 1e8


@dataclass(frozen=True)
class Newton:
    """Where the Newton steps ended.

    Attributes
    ----------
    point : Tucker
        In HOSVD form.
    objective : float
        Penalised negative log-likelihood in nats.
    decrement : float
        Estimated distance of the objective from its minimum, in nats.
    n_iter : int
    converged : bool
    reason : str
    """

    point: Tucker
    objective: float
    decrement: float
    n_iter: int
    converged: bool
    reason: str


def penalty(point: Tucker, ridge: Floats) -> float:
    """Return 1/2 sum_k ridge_k ||T_(k)||_* at a point in HOSVD form."""
    return 0.5 * sum(lam * s.sum() for lam, s in zip(ridge, point.singular_values, strict=True))


def penalty_terms(space: TangentSpace, ridge: Floats) -> tuple[Floats, dict[int, Floats], Floats]:
    """Return the gradient of the smooth penalty, its Hessian per row of each factor, and the diagonal for the core.

    Terms of the Hessian that couple different parts are left out: they vanish for a matrix, and nearly so in a fixed gauge.
    """
    core, sigma = space.core, space.point.singular_values
    sigma = [np.maximum(s, 1e-12 * max(s[0], 1e-300)) for s in sigma]
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


def add_penalty(matrix: Arrowhead, space: TangentSpace, hessians: dict[int, Floats], core_diagonal: Floats) -> Arrowhead:
    """Return the matrix plus the penalty's Hessian."""
    parts = [
        (space.slices[k], np.kron(np.eye(len(space.factors[k])), hessians[k])) for k in [0, *space.others]
    ]
    if space.has_core:
        parts.append((space.core_slice, np.diag(core_diagonal)))
    return matrix.plus_border(parts).plus_blocks(hessians[space.mode])


def minimise(
    design: Design, point: Tucker, ridge: Floats, *, tol: float = 1e-4, max_iter: int = 100, damping: float = 1e-2
) -> Newton:
    """Return the penalised maximum-likelihood point reached from a start in HOSVD form."""
    objective, space = _evaluate(design, point, ridge)
    decrement = np.inf
    for n_iter in range(max_iter):
        _, score, fisher = logistic_terms(design.eta(space), design.y)
        gradient, hessians, core_diagonal = penalty_terms(space, ridge)
        gradient -= design.gradient(space, design.count * score)
        hessian = accumulate(design, space, design.count * fisher, design.count * score)
        hessian = add_penalty(hessian, space, hessians, core_diagonal)
        if len(space.factors) > 2:
            hessian = fix_gauge(hessian, space)
        diagonal = hessian.diagonal()
        diagonal = np.maximum(diagonal, 1e-8 * diagonal.max())
        while True:
            if damping > MAX_DAMPING:
                return Newton(point, objective, decrement, n_iter, False, "no step lowers the objective")
            try:
                step = -hessian.plus_diagonal(damping * diagonal).factor().solve(gradient)
            except NotPositiveDefinite:
                damping = max(10 * damping, 1e-3)
                continue
            predicted = -0.5 * float(gradient @ step)
            trial, trial_space = _evaluate(design, _moved(space, step), ridge)
            if predicted < 1e-13 * abs(objective) or objective - trial >= 1e-3 * predicted:
                break
            damping = max(8 * damping, 1e-6)
        gain = (objective - trial) / max(predicted, 1e-300)
        decrement = predicted
        if trial <= objective:
            objective, space, point = trial, trial_space, trial_space.point
        if predicted < tol and damping <= 0.1:
            return Newton(_unpad(point, design), objective, predicted, n_iter + 1, True, "Newton decrement below tolerance")
        damping = max(damping * (0.1 if gain > 0.75 else 0.5 if gain > 0.25 else 2.0), 1e-10)
    return Newton(_unpad(point, design), objective, decrement, max_iter, False, f"stopped after {max_iter} iterations")


def _evaluate(design: Design, point: Tucker, ridge: Floats) -> tuple[float, TangentSpace]:
    space = TangentSpace(point, centred=design.centred)
    loss, _, _ = logistic_terms(design.eta(space), design.y)
    return float(design.count @ loss) + penalty(space.point, ridge), space


def _moved(space: TangentSpace, step: Floats) -> Tucker:
    """Return the point with all factors moved, back in HOSVD form."""
    changes, dcore = space.parts(step)
    factors = [factor + changes[k] for k, factor in enumerate(space.factors)]
    if space.centred:
        factors[0] = factors[0] - factors[0].mean(axis=0)
    return Tucker(space.core if dcore is None else space.core + dcore, tuple(factors)).canonical()


def _unpad(point: Tucker, design: Design) -> Tucker:
    if len(point.shape) == len(design.shape):
        return point
    return Tucker(point.core[:, 0] * point.factors[1][0, 0], point.factors[:1])
