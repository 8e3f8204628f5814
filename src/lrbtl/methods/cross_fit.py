"""Cross-fitting: the steps of all folds, and what they say of targets and of families of targets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.folds import check_folds, fold_counts
from lrbtl.data.labels import context_name
from lrbtl.data.observations import Data
from lrbtl.errors import MethodError, SamplingError, SingularInformationError
from lrbtl.fitting.design import Design
from lrbtl.fitting.fit import Fit, refit
from lrbtl.fitting.local import Local
from lrbtl.fitting.newton import Newton
from lrbtl.fitting.signal import warn_thin_contexts, warn_unconverged, warn_weak_signal, warn_wrong_variances
from lrbtl.fitting.solvers import Solver, SolverName, needs_krylov, touched
from lrbtl.lowrank.covariance import Blocks, inverse_blocks
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.methods.one_step import (
    FoldStep,
    Law,
    evaluate_targets,
    fold_step,
    inverse_weights,
    mle_step,
)
from lrbtl.methods.standard_errors import (
    VarianceNoise,
    gap_variances,
    mean_covariances,
    mean_jacobian,
    mean_variances,
    sandwich_blocks,
    sandwich_border,
    score_variances,
    widening,
)
from lrbtl.methods.targets import Resolved
from lrbtl.model.sampling import ProductSampling, Sampling, UniformSampling
from lrbtl.threads import one_blas_thread, ordered_map
from lrbtl.typing import Floats, Longs, Progress, Seed

# Shares of the fit's ridge, which minimises the error of the scores: intervals want less bias, for some variance.
# Whitened scores are divided by the fitted information, whose noise costs more than some bias.
RIDGE_SHARE = {"efficient": 0.5, "whitened": 0.75, "mle": 0.25}
LARGEST_SCORE = 20.0  # no number of battles at hand tells a larger score or gap from infinity
SEPARATED = 2.0  # ratio of model-based to sandwich variance above which the sandwich is not believed
SMALLEST_SHARE = 1e-12  # of the model-based variance, below which a sandwich variance is rounding


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
    dispersion : float
        Variance of the votes over that of wins and losses; 0 where responses have no variance that a model knows.
    variance_noise : array (M,)
        Variance of the log of the estimated variance.
    """

    values: Floats
    cov: Floats
    bound: Floats
    dispersion: float
    variance_noise: Floats

    def reported_cov(self) -> Floats:
        """Return the covariance to show, with an allowance for the noise of its own variances."""
        wider = widening(self.variance_noise)
        return believed_covariance(self.cov, np.sqrt(self.dispersion) * self.bound) * np.outer(wider, wider)


@dataclass(frozen=True)
class Information:
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
    steps : list of FoldStep
        One per fold; one in all for `mle`.
    full : FoldStep or None
        The step of the full sample, where standard errors come from it.
    reference : Information or None
        The efficient information, where the steps do not use it: what it cannot tell, they cannot either.
    """

    fit: Fit
    method: str
    steps: list[FoldStep]
    full: FoldStep | None
    reference: Information | None = None

    @property
    def n(self) -> float:
        """Number of battles."""
        return sum(step.n for step in self.steps)

    @cached_property
    def dispersion(self) -> float:
        """Variance of the votes over that of wins and losses: 1 without ties and soft votes."""
        return self.fit.design.at(self.fit.point).dispersion

    @one_blas_thread
    def moments(self, targets: Sequence[Resolved]) -> Moments:
        """Return estimates, covariance and model-based errors of targets."""
        values = np.zeros(len(targets))
        cov = np.zeros((len(targets), len(targets)))
        model = np.zeros(len(targets))
        loose = VarianceNoise(values.shape)
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
                loose.add(bound)
        if self.full is not None:
            _, gradients = evaluate_targets(self.full.space, targets, shape, self.full.link)
            cov, model = self._fold_moments(self.full, gradients)
        if self.reference is not None:
            _, gradients = evaluate_targets(self.reference.space, targets, shape, self.fit.link)
            _check_touched(self.reference, gradients, targets, self.fit.battles)
            model = np.einsum("im,im->m", gradients, self.reference.solver.solve(gradients))
        return Moments(values, cov / self.n, np.sqrt(model / self.n), self.dispersion, loose.value())

    @property
    def _error_steps(self) -> list[tuple[float, FoldStep]]:
        """The steps that standard errors come from, with their shares of the battles."""
        return [(1.0, self.full)] if self.full is not None else [(step.n / self.n, step) for step in self.steps]

    @property
    def determined(self) -> bool:
        """Whether the battles of all folds inform every direction of the scores."""
        return all(bread is None or bread.solver.null is None for bread in (*self.steps, self.reference))

    def check(self, targets: Sequence[Resolved]) -> None:
        """Raise where a target touches a direction that some fold's battles leave without information."""
        bread: FoldStep | Information | None
        for bread in (*self.steps, self.reference):
            if bread is not None and bread.solver.null is not None:
                _, gradients = evaluate_targets(bread.space, targets, self.fit.battles.shape, self.fit.link)
                _check_touched(bread, gradients, targets, self.fit.battles)

    def _fold_moments(self, step: FoldStep, gradients: Floats) -> tuple[Floats, Floats]:
        directions = step.solver.solve(gradients)
        covariance = directions.T @ (step.meat @ directions)
        return 0.5 * (covariance + covariance.T), np.einsum("im,im->m", gradients, directions)

    @one_blas_thread
    def mean_moments(self, weights: Floats) -> list[Moments]:
        """Return the moments of every model's mean score over contexts, for each row of weights (B, D) of contexts.

        One inverse per fold serves all rows: cheaper than `moments` where their number exceeds the rank.
        """
        self._check_determined("scores")
        shape = len(weights), *self.fit.battles.shape[:1]
        cov, model, loose = np.zeros((*shape, shape[1])), np.zeros(shape), VarianceNoise(shape)
        shares, steps = zip(*self._error_steps, strict=True)
        found = ordered_map(lambda step: _mean_moments(step, weights), steps, self.fit.n_threads)
        for share, (covariances, own) in zip(shares, found, strict=True):
            cov += share * covariances
            model += share * own
            loose.add(own)
        if self.reference is not None:
            space, solver = self.reference.space, self.reference.solver
            v, R = mean_jacobian(space, weights)
            model = mean_variances(space, v, R, solver.inverse().border, solver.solve(R))
        bound = np.sqrt(model / self.n)
        variance_noise = loose.value()
        values = weights @ self.one_step_scores().T
        values -= values.mean(axis=1, keepdims=True)
        return [
            Moments(values[i], cov[i] / self.n, bound[i], self.dispersion, variance_noise[i])
            for i in range(len(weights))
        ]

    def one_step_scores(self) -> Floats:
        """Return the one-step estimates of all scores, (d1, D)."""
        return np.asarray(sum(step.n / self.n * _one_step_scores(step) for step in self.steps))

    def all_scores(self) -> tuple[Floats, Floats]:
        """Return estimates and believed standard errors of all scores, (d1, D) each; NaN where they run to infinity."""
        self._check_determined("scores")
        return self._believed_family(self.one_step_scores(), score_variances)

    def all_gaps(self) -> tuple[Floats, Floats]:
        """Return estimates and believed standard errors of all gaps a - b, a < b, (pairs, D) each."""
        self._check_determined("gaps")
        scores = self.one_step_scores()
        a, b = np.triu_indices(len(scores), 1)
        return self._believed_family(scores[a] - scores[b], gap_variances)

    @one_blas_thread
    def _believed_family(
        self, values: Floats, variances_of: Callable[[TangentSpace, Blocks], Floats]
    ) -> tuple[Floats, Floats]:
        sandwich, model, loose = np.zeros_like(values), np.zeros_like(values), VarianceNoise(values.shape)

        def of_step(step: FoldStep) -> tuple[Floats, Floats]:
            inverse = step.solver.inverse()
            robust = variances_of(step.space, sandwich_blocks(inverse, step.meat))
            return robust, variances_of(step.space, inverse_blocks(inverse))

        shares, steps = zip(*self._error_steps, strict=True)
        for share, (robust, bound) in zip(shares, ordered_map(of_step, steps, self.fit.n_threads), strict=True):
            sandwich += share * robust
            model += share * bound
            loose.add(bound)
        if self.reference is not None:
            model = variances_of(self.reference.space, inverse_blocks(self.reference.solver.inverse()))
        model *= self.dispersion
        variances = np.where(model > SEPARATED * sandwich, model, sandwich)
        separated = (np.abs(values) >= LARGEST_SCORE) & self.fit.link.separable
        errors = widening(loose.value()) * np.sqrt(variances / self.n)
        return np.where(separated, np.nan, values), np.where(separated, np.nan, errors)

    def _check_determined(self, what: str) -> None:
        for bread in (*self.steps, self.reference):
            _check_determined(bread, what, self.fit.battles)


def believed_covariance(cov: Floats, model_se: Floats) -> Floats:
    """Return the sandwich covariance with model-based variances where they are far larger.

    Near separation (and where all votes are ties) residuals vanish, and the sandwich with them.
    """
    variance = np.maximum(np.diag(cov), 0.0)
    usable = variance > SMALLEST_SHARE * model_se**2
    se = np.sqrt(np.where(usable, variance, 1.0))
    correlation = np.where(np.outer(usable, usable), cov / np.outer(se, se), np.eye(len(cov)))
    new = np.where(model_se**2 > SEPARATED * variance, model_se, np.sqrt(variance))
    return np.asarray(correlation * np.outer(new, new))


@one_blas_thread
def cross_fit(
    fit: Fit,
    *,
    method: str = "efficient",
    sampling: Sampling | None = None,
    n_folds: int = 10,
    se: str = "crossfit",
    solver: SolverName = "auto",
    rng: Seed = 0,
    progress: Progress | None = None,
) -> CrossFit:
    """Return the steps of a cross-fitted (or, for `mle`, a full-sample) analysis of a fit's battles."""
    battles = fit.battles
    if not fit.singular_values[0][0] > 1e-9:
        paired = isinstance(battles, Battles)
        raise SingularInformationError(
            f"all fitted {battles.say('scores')} are zero, round which a low-rank set has no tangent space: "
            + ("the votes favour no model" if paired else "the observations show no signal")
            + f". Add {battles.say('battles')} or give a smaller ridge"
            + (", or use method='naive'." if paired else ".")
        )
    design = fit.design
    ridge = RIDGE_SHARE[method] * fit.ridge
    warn_weak_signal(fit.point, battles.n_battles, design.noise, centred=design.centred, chosen=fit.rank_chosen)
    if method == "mle":
        if isinstance(battles, Battles):
            warn_thin_contexts(battles)
        newton = refit(fit, design.count, ridge=ridge, tol=1e-6)
        warn_unconverged(int(not newton.converged), 1)
        return CrossFit(fit, method, [mle_step(design.with_link(newton.link), newton.point, ridge, solver)], None)
    serial_fit = fit if fit.n_threads == 1 else replace(fit, n_threads=1)  # threads take a fold each
    weights, law = _weights_and_law(battles, serial_fit.design, method, sampling)
    check_folds(battles, n_folds)
    start = refit(fit, design.count, ridge=ridge)
    if design.variance is not None:
        residual = design.y - design.at(start.point).eta
        warn_wrong_variances(float(design.count @ (residual**2 / design.variance) / design.count.sum()))
    spread = _spread(design.with_link(start.link).at(start.point), ridge)

    def step(at: Newton, held_out: Floats, trained_on: float) -> FoldStep:
        scaled = None if spread is None else spread * (battles.n_battles / trained_on)
        held = serial_fit.design.with_link(at.link), at.point, held_out
        return fold_step(*held, method=method, weights=weights, law=law, spread=scaled, solver=solver)

    def fold(counts: Longs) -> tuple[FoldStep, bool]:
        held_out = counts.astype(float)
        train = design.count - held_out
        newton = refit(serial_fit, train, ridge=ridge, start=start)
        return step(newton, held_out, float(train.sum())), newton.converged

    steps = []
    failed = int(not start.converged)
    for found, converged in ordered_map(fold, fold_counts(battles.cells, n_folds, rng), fit.n_threads):
        steps.append(found)
        failed += not converged
        if progress is not None:
            progress(f"fold {len(steps)} of {n_folds}")
    warn_unconverged(failed, n_folds + 1)
    full = step(start, design.count, battles.n_battles) if se == "full" else None
    reference = None
    if method == "whitened":
        here = design.with_count(design.count / battles.n_battles).at(start.point)
        reference = Information(here.space, here.solver(solver))
    return CrossFit(fit, method, steps, full, reference)


def _spread(here: Local, ridge: Floats) -> Floats | None:
    """Return the variance of each eta that scores allow for; None, for either solver, beyond what can be factored."""
    return None if needs_krylov(here.space, "auto") else here.dispersion * here.eta_variances(ridge)


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


def _mean_moments(step: FoldStep, weights: Floats) -> tuple[Floats, Floats]:
    """Return what a step says of mean scores: covariances (B, d1, d1) and model-based variances (B, d1), per battle."""
    space, inverse = step.space, step.solver.inverse()
    v, R = mean_jacobian(space, weights)
    solved = step.solver.solve(R)
    product = step.solver.solve(step.meat @ solved)
    covariances = mean_covariances(space, v, R, sandwich_border(inverse, step.meat), product)
    return covariances, mean_variances(space, v, R, inverse.border, solved)


def _one_step_scores(step: FoldStep) -> Floats:
    """Return T_k + J delta_k, (d1, D)."""
    dU, dV = step.space.push(step.delta)
    return (step.space.U + dU) @ step.space.V.T + step.space.U @ dV.T


def _check_touched(step: FoldStep | Information, gradients: Floats, targets: Sequence[Resolved], battles: Data) -> None:
    """Raise where a target touches a direction without information."""
    hit = np.flatnonzero(touched(step.solver, gradients))
    if step.solver.null is not None and len(hit):
        overlap = np.abs(step.solver.null.T @ gradients[:, hit[0]])
        more = f" (and {len(hit) - 1} more targets)" if len(hit) > 1 else ""
        raise _undetermined(step, int(np.argmax(overlap)), targets[hit[0]].label + more, battles)


def _check_determined(step: FoldStep | Information | None, what: str, battles: Data) -> None:
    """Raise where any direction is without information: a family of all scores or gaps touches it."""
    if step is not None and step.solver.null is not None:
        raise _undetermined(step, 0, battles.say(f"all {what}"), battles)


def _undetermined(step: FoldStep | Information, column: int, what: str, battles: Data) -> SingularInformationError:
    """Return the error that names what a direction without information involves."""
    assert step.solver.null is not None
    dU, dV = step.space.push(step.solver.null[:, column])
    models, contexts = np.linalg.norm(dU @ step.space.V.T, axis=1), np.linalg.norm(step.space.U @ dV.T, axis=0)
    floor = 1e-6 * max(models.max(), contexts.max())
    involved = [f"{battles.say('model')} {battles.models[i]}" for i in _largest(models, floor)]
    if len(battles.shape) > 1:
        involved += [
            f"{battles.say('context')} {context_name(battles.context_label(i))}" for i in _largest(contexts, floor)
        ]
    drop = "drop them with battles.select(...), " if isinstance(battles, Battles) else ""
    return SingularInformationError(
        f"the {battles.say('battles')} do not determine {what}: at rank {step.space.point.rank} nothing informs a "
        f"direction that involves {', '.join(involved)}. Add {battles.say('battles')} there, {drop}or use a smaller "
        "rank."
    )


def _largest(sizes: Floats, floor: float) -> list[int]:
    """Return the positions of up to three sizes that stand out."""
    return [int(i) for i in np.argsort(-sizes)[:3] if sizes[i] > max(0.3 * sizes.max(), floor)]
