"""Efficiency bounds from known scores: the variance that no estimator beats, and that of the whitened estimator."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from lrbtl.data.battles import Battles
from lrbtl.data.observations import Data, Observations
from lrbtl.errors import MethodError, RankError, SamplingError, SingularInformationError, TargetError, check_choice
from lrbtl.fitting.local import Local
from lrbtl.fitting.solvers import IsotropicSolver, SolverName, touched
from lrbtl.inference.targets import Target
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker, centre, check_rank, truncate
from lrbtl.methods.one_step import Law, evaluate_targets
from lrbtl.methods.targets import Resolved, Stack
from lrbtl.model.links import Link, as_link
from lrbtl.model.sampling import Sampling, UniformSampling, reference_probability
from lrbtl.typing import Floats

DEFICIENT = 1e-10  # relative size of a singular value that is rounding
RANK_TOL = 1e-6  # relative distance of the scores from the rank that is still rounding


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
