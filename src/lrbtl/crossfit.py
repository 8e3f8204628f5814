"""Cross-fitting: the steps of all folds, and what they say of targets and of families of targets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from lrbtl.completion import Data
from lrbtl.covariance import Blocks, context_blocks, context_covariance, sandwich_blocks, score_variances
from lrbtl.design import Design
from lrbtl.errors import MethodError, SamplingError, SingularInformationError
from lrbtl.fitting import Fit, refit
from lrbtl.folds import check_folds, fold_counts
from lrbtl.newton import Newton
from lrbtl.onestep import Law, Step, eta_variances, evaluate_targets, fold_step, inverse_weights, mle_step
from lrbtl.sampling import ProductSampling, Sampling, UniformSampling
from lrbtl.solvers import Solver, SolverName, information_solver, needs_krylov, touched
from lrbtl.tangent import TangentSpace
from lrbtl.targets import Resolved

Floats = np.typing.NDArray[np.float64]

# Shares of the fit's ridge, which minimises the error of the scores: intervals want less bias, for some variance.
# Whitened scores are divided by the fitted information, whose noise costs more than some bias.
RIDGE_SHARE = {"efficient": 0.5, "whitened": 0.75, "mle": 0.25}


@dataclass(frozen=True)
class Moments:
    """Estimates on the working scale.

    Attributes
    ----------
    values : array (M,)
    cov : array (M, M)
        From out-of-fold influence values, or from the full sample.
    bound : array (M,)
        Model-based standard errors: what an efficient estimate has if every vote is a plain win or loss.
    """

    values: Floats
    cov: Floats
    bound: Floats


@dataclass(frozen=True)
class Bread:
    """The information at a point, ready to solve with."""

    space: TangentSpace
    solver: Solver


@dataclass(frozen=True)
class CrossFit:
    """Steps that turn any target into an estimate with a covariance.

    Attributes
    ----------
    fit : Fit
        To all battles.
    steps : list of Step
        One per fold; one in all for `mle`.
    full : Step or None
        The step of the full sample, where standard errors come from it.
    reference : Bread or None
        The efficient information, where the steps do not use it: what it cannot tell, they cannot either.
    """

    fit: Fit
    method: str
    steps: list[Step]
    full: Step | None
    reference: Bread | None = None

    @property
    def n(self) -> float:
        """Number of battles."""
        return sum(step.n for step in self.steps)

    def moments(self, targets: Sequence[Resolved]) -> Moments:
        """Return estimates, covariance and model-based errors of targets."""
        values = np.zeros(len(targets))
        cov = np.zeros((len(targets), len(targets)))
        model = np.zeros(len(targets))
        shape = self.fit.battles.shape
        for step in self.steps:
            at, gradients = evaluate_targets(step.space, targets, shape, step.link)
            _check_touched(step, gradients, targets, self.fit.battles)
            share = step.n / self.n
            values += share * (at + gradients.T @ step.delta)
            if self.full is None:
                covariance, bound = self._fold_moments(step, gradients)
                cov += share * covariance
                model += share * bound
        if self.full is not None:
            _, gradients = evaluate_targets(self.full.space, targets, shape, self.full.link)
            cov, model = self._fold_moments(self.full, gradients)
        if self.reference is not None:
            _, gradients = evaluate_targets(self.reference.space, targets, shape, self.fit.link)
            _check_touched(self.reference, gradients, targets, self.fit.battles)
            model = np.einsum("im,im->m", gradients, self.reference.solver.solve(gradients))
        return Moments(values, cov / self.n, np.sqrt(model / self.n))

    def _fold_moments(self, step: Step, gradients: Floats) -> tuple[Floats, Floats]:
        directions = step.solver.solve(gradients)
        covariance = directions.T @ (step.meat @ directions)
        return 0.5 * (covariance + covariance.T), np.einsum("im,im->m", gradients, directions)

    def all_scores(self) -> tuple[Floats, Floats]:
        """Return estimates and standard errors of all scores, (d1, D) each."""
        values = np.zeros((self.fit.battles.shape[0], self.fit.battles.n_contexts))
        variances = np.zeros_like(values)
        for bread in (*self.steps, self.reference):
            _check_determined(bread, "scores", self.fit.battles)
        for step in self.steps:
            values += step.n / self.n * _one_step_scores(step)
        for step in self._error_steps():
            variances += step.n / self.n * score_variances(step.space, _step_blocks(step))
        return values, np.sqrt(variances / self.n)

    def all_gaps(self) -> tuple[Floats, Floats]:
        """Return estimates and standard errors of all gaps a - b, a < b, (pairs, D) each."""
        scores = np.zeros((self.fit.battles.shape[0], self.fit.battles.n_contexts))
        for bread in (*self.steps, self.reference):
            _check_determined(bread, "gaps", self.fit.battles)
        for step in self.steps:
            scores += step.n / self.n * _one_step_scores(step)
        a, b = np.triu_indices(len(scores), 1)
        variances = np.zeros((len(a), scores.shape[1]))
        for step in self._error_steps():
            blocks = _step_blocks(step)
            for part in context_blocks(step.space, blocks):
                for i, u in enumerate(part.contexts):
                    covariance = context_covariance(step.space, blocks, part, i)
                    own = np.diag(covariance)
                    variances[:, u] += step.n / self.n * (own[a] + own[b] - 2 * covariance[a, b])
        return scores[a] - scores[b], np.sqrt(variances / self.n)

    def _error_steps(self) -> list[Step]:
        return self.steps if self.full is None else [self.full]


def cross_fit(
    fit: Fit,
    *,
    method: str = "efficient",
    sampling: Sampling | None = None,
    n_folds: int = 10,
    se: str = "crossfit",
    solver: SolverName = "auto",
    rng: int | np.random.Generator | None = 0,
    progress: Callable[[str], None] | None = None,
) -> CrossFit:
    """Return the steps of a cross-fitted (or, for `mle`, a full-sample) analysis of a fit's battles."""
    battles = fit.battles
    if not fit.singular_values[0][0] > 1e-9:
        raise SingularInformationError(
            "all fitted scores are zero, round which a low-rank model has no tangent space: the votes favour no model. "
            "Add battles, give a smaller ridge, or use method='naive'."
        )
    design = fit.design
    ridge = RIDGE_SHARE[method] * fit.ridge
    if method == "mle":
        best = refit(fit, design.count, ridge=ridge, tol=1e-6)
        return CrossFit(fit, method, [mle_step(design.with_link(best.link), best.point, ridge, solver)], None)
    weights, law = _weights_and_law(battles, design, method, sampling)
    check_folds(battles, n_folds)
    start = refit(fit, design.count, ridge=ridge)
    space = design.space(start.point)
    krylov = needs_krylov(space, "auto")  # the same estimate from either solver
    spread = None if krylov else eta_variances(design.with_link(start.link), space, ridge)

    def step(at: Newton, held_out: Floats, trained_on: float) -> Step:
        scaled = None if spread is None else spread * (battles.n_battles / trained_on)
        held = design.with_link(at.link), at.point, held_out
        return fold_step(*held, method=method, weights=weights, law=law, spread=scaled, solver=solver)

    steps = []
    for k, held_out in enumerate(fold_counts(battles.cells, n_folds, rng).astype(float)):
        train = design.count - held_out
        steps.append(step(refit(fit, train, ridge=ridge, start=start), held_out, float(train.sum())))
        if progress is not None:
            progress(f"fold {k + 1} of {n_folds}")
    full = step(start, design.count, battles.n_battles) if se == "full" else None
    reference = None
    if method == "whitened":
        weight, _ = design.terms(design.eta(space)).information(design.count / battles.n_battles)
        reference = Bread(space, information_solver(design, space, weight, solver))
    return CrossFit(fit, method, steps, full, reference)


def _weights_and_law(
    battles: Data, design: Design, method: str, sampling: Sampling | None
) -> tuple[Floats | None, Law | None]:
    """Return inverse-probability weights (whitened) or the law of the information (efficient)."""
    if sampling is not None and not hasattr(sampling, "probability"):
        raise SamplingError(
            f"sampling={sampling!r} is no law: give lrbtl.UniformSampling(), ProductSampling or TableSampling."
        )
    if method == "efficient":
        if sampling is None:
            return None, None
        sampling.probability(battles.cells, battles.shape)  # raises where an observed battle is impossible
        variance = design.variance
        if variance is not None and np.ptp(variance) > 0:
            raise MethodError(
                "the information under a sampling law needs the variance of every entry, but only those of the "
                "observed ones are known: leave `sampling` out, which uses the observed entries."
            )
        everywhere = None if variance is None else np.full(prod(battles.shape), variance[0])
        return None, Law.of(sampling, battles.shape, design.n_threads, entries=not design.centred, variance=everywhere)
    if design.link.n_extra:
        raise MethodError(f"the whitened estimator has no tie parameter: use method='efficient' with {design.link}.")
    law = ProductSampling.estimate(battles) if sampling is None else sampling
    return (None if isinstance(law, UniformSampling) else inverse_weights(law, design)), None


def _one_step_scores(step: Step) -> Floats:
    """Return T_k + J delta_k, (d1, D)."""
    dU, dV = step.space.push(step.delta)
    return (step.space.U + dU) @ step.space.V.T + step.space.U @ dV.T


def _step_blocks(step: Step) -> Blocks:
    return sandwich_blocks(step.solver.inverse(), step.meat)


def _check_touched(step: Step | Bread, gradients: Floats, targets: Sequence[Resolved], battles: Data) -> None:
    """Raise where a target touches a direction without information."""
    hit = np.flatnonzero(touched(step.solver, gradients))
    if step.solver.null is not None and len(hit):
        overlap = np.abs(step.solver.null.T @ gradients[:, hit[0]])
        more = f" (and {len(hit) - 1} more targets)" if len(hit) > 1 else ""
        raise _undetermined(step, int(np.argmax(overlap)), targets[hit[0]].label + more, battles)


def _check_determined(step: Step | Bread | None, what: str, battles: Data) -> None:
    """Raise where any direction is without information: a family of all scores or gaps touches it."""
    if step is not None and step.solver.null is not None:
        raise _undetermined(step, 0, f"all {what}", battles)


def _undetermined(step: Step | Bread, column: int, what: str, battles: Data) -> SingularInformationError:
    """Return the error that names what a direction without information involves."""
    assert step.solver.null is not None
    dU, dV = step.space.push(step.solver.null[:, column])
    models, contexts = np.linalg.norm(dU @ step.space.V.T, axis=1), np.linalg.norm(step.space.U @ dV.T, axis=0)
    floor = 1e-6 * max(models.max(), contexts.max())
    involved = [f"model {battles.models[i]}" for i in _largest(models, floor)]
    if len(battles.shape) > 1:
        involved += [f"context {battles.context_label(i)}" for i in _largest(contexts, floor)]
    return SingularInformationError(
        f"the battles do not determine {what}: at rank {step.space.point.rank} nothing informs a direction that "
        f"involves {', '.join(involved)}. Add battles there, drop them with battles.select(...), or use a smaller rank."
    )


def _largest(sizes: Floats, floor: float) -> list[int]:
    """Return the positions of up to three sizes that stand out."""
    return [int(i) for i in np.argsort(-sizes)[:3] if sizes[i] > max(0.3 * sizes.max(), floor)]
