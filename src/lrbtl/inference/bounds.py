"""What the theory of low-rank fits says [Li26]: efficiency bounds from known scores, and its conditions at a fit."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, eigsh, onenormest
from scipy.special import expit

from lrbtl.data.battles import Battles
from lrbtl.data.observations import Data, Results
from lrbtl.errors import (
    MethodError,
    ObservationError,
    RankError,
    SamplingError,
    SingularInformationError,
    as_floats,
    check_choice,
    check_flag,
)
from lrbtl.fitting.design import Design
from lrbtl.fitting.jacobian import gram_apply
from lrbtl.fitting.local import Local
from lrbtl.fitting.solvers import IsotropicSolver, Solver, SolverName, touched
from lrbtl.inference.joint import normal_quantile
from lrbtl.inference.targets import Target, resolve_targets
from lrbtl.lowrank.tangent import TangentSpace, projection
from lrbtl.lowrank.tucker import Tucker, centre, check_rank, truncate
from lrbtl.methods.base import Run
from lrbtl.methods.one_step import Law, ScoreView, evaluate_targets
from lrbtl.methods.targets import Resolved, Stack, evaluate
from lrbtl.model.links import Link, as_link
from lrbtl.model.sampling import ProductSampling, Sampling, as_sampling, reference_probability
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
    truth = np.atleast_1d(as_floats(scores, "scores", RankError))
    law_of_response = as_link(link)
    if entries is None:
        entries = law_of_response.name == "identity"
    check_flag(entries, "entries")
    law_of_response.check(np.array([0.0, 0.5, 1.0]), not entries)
    full_rank = check_rank(rank, truth.shape, centred=not entries)
    noise = None if variance is None else as_floats(variance, "variance", ObservationError)
    if noise is not None and (noise.shape not in ((), truth.shape) or not np.all(np.isfinite(noise) & (noise > 0))):
        raise ObservationError(f"variance must be a positive number, or an array of such of shape {truth.shape}.")
    noise = None if noise is None else np.broadcast_to(noise, truth.shape)
    noise = None if noise is None else np.ascontiguousarray(noise.reshape(truth.shape[0], -1).T).reshape(-1)
    law = Law.of(as_sampling(sampling), truth.shape, entries=entries, variance=noise)
    point = point_of(truth, full_rank, centred=not entries)
    space = TangentSpace(point, centred=not entries, n_extra=law_of_response.n_extra)
    resolved = resolve_targets(unnamed_data(truth.shape, entries=entries), target)
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


def estimated_bound(run: Run, targets: Sequence[Resolved]) -> Floats | None:
    """Return sqrt(V_eff / n) of targets on their working scales, at the estimated scores truncated to their rank.

    The information is that of the observed votes. None where a run has no rank, covariates or scores that are missing.
    A method with a prior can have smaller errors: the bound is for estimates without bias.
    """
    data, rank = run.data, run.provenance.rank
    if rank is None or not isinstance(data, Battles) or data.covariates or run.link.n_extra:
        return None
    scores = run.scores().reshape(data.shape)
    if len(rank) != len(data.shape) or not np.isfinite(scores).all():
        return None
    here = Local.of(Design.of(data, run.link), truncate(centre(scores), check_rank(rank, data.shape)))
    _, gradients = evaluate_targets(here.space, Stack.of(targets), data.shape, run.link)
    solver = here.solver()
    variance = np.einsum("im,im->m", gradients, solver.solve(gradients))
    return np.where(touched(solver, gradients), np.inf, np.sqrt(variance))


BOUNDS = {"efficient": _efficient, "whitened": _whitened}


def point_of(truth: Floats, rank: tuple[int, ...], *, centred: bool = True) -> Tucker:
    """Return scores as a point of a rank; raise where they are not exactly of that rank."""
    if not truth.size or (centred and len(truth) < 2):
        raise RankError(f"scores of shape {truth.shape} are too few: give those of two models at least.")
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


def unnamed_data(shape: tuple[int, ...], *, entries: bool = False) -> Data:
    """Return battles (or an observation) whose labels are positions, to resolve targets against.

    Every context has one battle: where there is no log, contexts weigh the same.
    """
    if entries:
        return Results.from_arrays([(0,) * len(shape)], [0.0], shape=shape)
    n = prod(shape[1:])
    levels = np.unravel_index(np.arange(n), shape[1:]) if len(shape) > 1 else ()
    sides = np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.int64)
    sizes = list(shape[1:]) or None
    return Battles.from_arrays(*sides, np.ones(n), levels, n_models=shape[0], n_levels=sizes)


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
        return space.solve_isotropic(gram_apply(here.design.entries, space, weight, inside))

    start = np.random.default_rng(0).normal(size=space.U.shape[0] * len(space.V))
    options = {"k": 1, "which": "LA", "return_eigenvectors": False, "v0": start, "tol": 1e-3}
    if space.dimension < 2:
        inverse = _tensor_operator(space, solver.solve)
        value = float(
            np.linalg.norm(inverse.matvec(start)) / np.linalg.norm(projection(space, start.reshape(space.point.shape)))
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


def even_norm(here: Local) -> float:
    """Return C_A if all responses had the information of eta = 0 and sampling were uniform: norm of P_T over it."""
    at_zero = here.design.information_at_zero / float(here.design.count.sum())
    return inverse_norm(here.space, IsotropicSolver(here.space, 1.0)) / at_zero


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
        law = ProductSampling.estimate(battles) if sampling is None else as_sampling(sampling)
        reference = reference_probability(battles.shape, entries=isinstance(battles, Results))
        ratio = law.probability(battles.cells, battles.shape) / reference
    except SamplingError:
        return float("nan"), float("nan")
    return float(ratio.min()), float(ratio.max())
