"""Numbers that the theory of low-rank fits asks for [Li26]: incoherence, information, influence, alignment, overlap."""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh, onenormest

from lrbtl.data.observations import Data, Observations
from lrbtl.errors import SamplingError
from lrbtl.fitting.local import Local
from lrbtl.fitting.solvers import Solver
from lrbtl.inference.joint import normal_quantile
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.methods.one_step import ScoreView
from lrbtl.methods.targets import Resolved, evaluate
from lrbtl.model.links import Link
from lrbtl.model.sampling import ProductSampling, Sampling, reference_probability
from lrbtl.typing import Floats

EXACT_NORM = 1500  # scores up to which the norm behind C_A is exact
CERTAINTY = 0.05  # probability that the Bernstein bound leaves out


def incoherence(point: Tucker) -> list[float]:
    """Return mu_k = d_k / r_k max_a ||e_a^T U_k||^2 of each mode [Li26, sec. model-setting]."""
    return [float(len(U) / U.shape[1] * np.square(U).sum(axis=1).max()) for U in point.factors]


def _tensor_operator(space: TangentSpace, apply: Callable[[Floats], Floats]) -> LinearOperator:
    """Return J apply J^T Q1 as an operator on flattened tensors."""
    d1, D = len(space.U), len(space.V)

    def matvec(z: Floats) -> Floats:
        return space.dense(apply(space.pull_dense(z.reshape(d1, D)))).reshape(-1)

    return LinearOperator((d1 * D, d1 * D), matvec=matvec, rmatvec=matvec, dtype=np.float64)


def information_range(here: Local, solver: Solver) -> tuple[float, float]:
    """Return the extreme eigenvalues of A = P_T G P_T on the tangent space."""
    space, weight = here.space, here.design.count * here.terms.fisher

    def restricted(x: Floats) -> Floats:
        inside = space.solve_isotropic(x)
        return space.solve_isotropic(here.design.gram_apply(space, weight, inside))

    start = np.random.default_rng(0).normal(size=space.U.shape[0] * len(space.V))
    options = {"k": 1, "which": "LA", "return_eigenvectors": False, "v0": start, "tol": 1e-3}
    if space.dimension < 2:
        inverse = _tensor_operator(space, solver.solve)
        value = float(
            np.linalg.norm(inverse.matvec(start)) / np.linalg.norm(space.project(start.reshape(space.point.shape)))
        )
        return 1 / value, 1 / value
    largest_inverse = float(eigsh(_tensor_operator(space, solver.solve), **options)[0])
    return 1.0 / largest_inverse, float(eigsh(_tensor_operator(space, restricted), **options)[0])


def inverse_norm(space: TangentSpace, solver: Solver) -> float:
    """Return the norm of A^-1 from entries to entries: its largest absolute row sum, estimated where it is large."""
    operator = _tensor_operator(space, solver.solve)
    size = operator.shape[0]
    if size <= EXACT_NORM:
        columns = np.stack([operator.matvec(column) for column in np.eye(size)])
        return float(np.abs(columns).sum(axis=1).max())
    return float(onenormest(operator))


def influence(here: Local, solver: Solver, gradients: Floats, n: int) -> tuple[float, float, float]:
    """Return variance, largest influence and Bernstein over normal bound of the worst target."""
    worst = (0.0, 0.0, 0.0)
    for direction in solver.solve(gradients).T:
        variance, largest = here.influence(np.ascontiguousarray(direction))
        log = np.log(2 / CERTAINTY)
        bound = np.sqrt(2 * variance * log / n) + largest * log / (3 * n)
        ratio = bound / (normal_quantile(1 - CERTAINTY) * np.sqrt(variance / n)) if variance > 0 else np.inf
        if ratio > worst[2]:
            worst = (variance, largest, float(ratio))
    return worst


def alignment(
    space: TangentSpace, targets: Sequence[Resolved], gradients: Floats, shape: tuple[int, ...], link: Link
) -> float:
    """Return the smallest ||P_T Gamma|| / ||Gamma|| sqrt(prod d / max d) [Li26, eq. alignment]."""
    _, sparse = evaluate(targets, ScoreView(space, shape, link))
    inside = np.einsum("im,im->m", gradients, space.solve_isotropic(gradients))
    d1, D = shape[0], len(space.V)
    entries = sparse.by_context(d1, D)
    whole = np.asarray(entries.multiply(entries).sum(axis=1)).reshape(-1)
    if space.centred:
        sums = entries @ np.repeat(np.eye(D), d1, axis=0)
        whole = whole - np.square(sums).sum(axis=1) / d1
    ratio = np.sqrt(inside / np.maximum(whole, 1e-300))
    return float(ratio.min() * np.sqrt(prod(shape) / max(shape)))


def overlap(battles: Data, sampling: Sampling | None) -> tuple[float, float]:
    """Return the extreme p / q over observed battles; nan where no product law can be estimated."""
    try:
        law = ProductSampling.estimate(battles) if sampling is None else sampling
        reference = reference_probability(battles.shape, entries=isinstance(battles, Observations))
        ratio = law.probability(battles.cells, battles.shape) / reference
    except SamplingError:
        return float("nan"), float("nan")
    return float(ratio.min()), float(ratio.max())
