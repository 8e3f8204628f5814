"""What the theory of low-rank fits says [Li26]: efficiency bounds from known scores, and its conditions at a fit."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, eigsh, onenormest
from scipy.special import expit

from lrbtl.data.battles import Battles
from lrbtl.data.observations import Data, Observations
from lrbtl.errors import MethodError, RankError, SamplingError, SingularInformationError, TargetError, check_choice
from lrbtl.fitting.local import Local
from lrbtl.fitting.solvers import IsotropicSolver, Solver, SolverName, touched
from lrbtl.inference.joint import normal_quantile
from lrbtl.inference.targets import Target
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker, centre, check_rank, truncate
from lrbtl.methods.one_step import Law, ScoreView, evaluate_targets
from lrbtl.methods.targets import Resolved, Stack, evaluate
from lrbtl.model.links import Link, as_link
from lrbtl.model.sampling import ProductSampling, Sampling, UniformSampling, reference_probability
from lrbtl.typing import Floats

DEFICIENT = 1e-10  # relative size of a singular value that is rounding
RANK_TOL = 1e-6  # relative distance of the scores from the rank that is still rounding
EXACT_NORM = 1500  # scores up to which the norm behind C_A is exact
CERTAINTY = 0.05  # probability that the Bernstein bound leaves out


def efficiency_bound(
    scores: ArrayLike,
    target: Target | Sequence[Target],
    *,
    rank: int | Sequence[int],
    sampling: Sampling | None = None,
    method: Literal["efficient", "whitened"] = "efficient",
    link: str | Link = "logistic",
    entries: bool | None = None,
    variance: ArrayLike | None = None,
    solver: SolverName = "auto",
) -> float | Floats:
    """Return V such that the best variance of an estimate from n battles is V / n, if `scores` are true.

    Defined for votes that are wins or losses; ties at one half vary less.

    Parameters
    ----------
    scores : array (d1, ..., dm)
        Of the given rank, zero sums along mode 1.
    target : Target or list of Target
        Models and contexts are named by position. Probabilities are bounded on their own scale.
    rank : int or tuple
    sampling : Sampling, optional
        Law of the battles; uniform by default.
    method : "efficient" or "whitened"
        V_eff = <Gamma, A^-1 Gamma> [Li26, thm. general-lb], or V_ws = E[w^2 <H, X>^2 / I] of the (weighted) whitened
        estimator.
    link : str or Link
        Law of the responses. A tie parameter that is to be estimated enters the bound at its value in the link.
    entries : bool, optional
        Whether single entries are observed rather than pairs; by default with the identity link.
    variance : number or array of the scores' shape, optional
        Of the noise of each entry, for the identity link; 1 by default.
    solver : "auto", "direct" or "cg"

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((10, 6), 2, scale=2, rng=0)
    >>> v_eff = lrbtl.efficiency_bound(truth, lrbtl.gap(0, 1, 2), rank=2)
    >>> v_eff < lrbtl.efficiency_bound(truth, lrbtl.gap(0, 1, 2), rank=2, method="whitened")
    True
    """
    check_choice(method, tuple(BOUNDS), "method")
    truth = np.asarray(scores, dtype=float)
    law_of_response = as_link(link)
    if entries is None:
        entries = law_of_response.name == "identity"
    law_of_response.check(np.array([0.0, 0.5, 1.0]), not entries)
    full_rank = check_rank(rank, truth.shape, centred=not entries)
    noise = None if variance is None else np.broadcast_to(np.asarray(variance, dtype=float), truth.shape)
    noise = None if noise is None else np.ascontiguousarray(noise.reshape(truth.shape[0], -1).T).reshape(-1)
    law = Law.of(UniformSampling() if sampling is None else sampling, truth.shape, entries=entries, variance=noise)
    point = _point(truth, full_rank, centred=not entries)
    space = TangentSpace(point, centred=not entries, n_extra=law_of_response.n_extra)
    targets = [target] if isinstance(target, Target) else list(target)
    resolved = [each.resolve(_unnamed(truth.shape, entries)) for each in targets]
    if not resolved:
        raise TargetError("no targets were given: pass at least one.")
    values, gradients = evaluate_targets(space, Stack.of(resolved), truth.shape, law_of_response)
    bound = BOUNDS[method](law.at(space, law_of_response), law, gradients, resolved, solver)
    slope = np.array(
        [expit(v) * expit(-v) if r.scale == "logit" else 1.0 for v, r in zip(values, resolved, strict=True)]
    )
    bound = bound * slope**2
    return float(bound[0]) if isinstance(target, Target) else bound


def _efficient(here: Local, law: Law, gradients: Floats, targets: Sequence[Resolved], solver: SolverName) -> Floats:
    """Return V_eff = <Gamma, A^-1 Gamma>."""
    information = here.solver(solver)
    if (hit := np.flatnonzero(touched(information, gradients))).size:
        raise SingularInformationError(
            f"no battles inform {targets[hit[0]].label} under the sampling law, so its variance has no bound. "
            "Give battles that inform it a positive probability."
        )
    return np.asarray(np.einsum("im,im->m", gradients, information.solve(gradients)))


def _whitened(here: Local, law: Law, gradients: Floats, targets: Sequence[Resolved], solver: SolverName) -> Floats:
    """Return V_ws = E[w^2 <H, X>^2 / I]."""
    if here.design.link.n_extra:
        raise MethodError(
            f"the whitened estimator has no tie parameter: use method='efficient' with {here.design.link}."
        )
    if not law.probability.min() > 0:
        raise SamplingError("the whitened estimator needs a law under which every pair can meet in every context.")
    directions = IsotropicSolver(here.space, law.atoms.d_eff).solve(gradients)
    weights = reference_probability(law.atoms.shape, entries=not law.atoms.centred) / law.probability
    meat = here.with_score(weights / np.sqrt(here.terms.fisher)).meat
    return np.asarray(np.einsum("im,im->m", directions, meat @ directions))


BOUNDS = {"efficient": _efficient, "whitened": _whitened}


def _point(truth: Floats, rank: tuple[int, ...], *, centred: bool) -> Tucker:
    if not np.all(np.isfinite(truth)):
        raise RankError("the scores hold NaN or infinity: the bound needs finite scores.")
    point = truncate(centre(truth) if centred else truth, rank)
    size = max(float(np.abs(truth).max()), 1e-12)
    if np.abs(point.dense() - truth).max() > RANK_TOL * size:
        sums = "zero-sum along mode 1 with" if centred else "of"
        raise RankError(f"the scores are not {sums} rank {rank}: {'centre and ' * centred}truncate them first.")
    if min(s[-1] / max(s[0], 1e-300) for s in point.singular_values) < DEFICIENT:
        raise RankError(f"the scores have a rank below {rank}, where no bound exists: give their own rank.")
    return point


def _unnamed(shape: tuple[int, ...], entries: bool) -> Data:
    """Return battles (or an observation) whose labels are positions, to resolve targets against."""
    if entries:
        return Observations.from_arrays([(0,) * len(shape)], [0.0], shape=shape)
    levels = tuple(np.array([0, size - 1]) for size in shape[1:])
    return Battles.from_arrays(
        np.array([0, 0]),
        np.array([1, 1]),
        np.array([1.0, 0.0]),
        levels,
        n_models=shape[0],
        n_levels=list(shape[1:]) or None,
    )


# ------------------------------------------------------------------------------
# Conditions of the theory at a fit: incoherence, information, influence, alignment, overlap.
# ------------------------------------------------------------------------------


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


def worst_influence(here: Local, solver: Solver, gradients: Floats, n: int) -> tuple[float, float, float]:
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
