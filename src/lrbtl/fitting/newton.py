"""Penalised maximum likelihood over the low-rank set by damped Newton steps on all factors.

The objective is sum of n * loss(eta) + 1/2 sum_k ridge_k ||T_(k)||_*, for a matrix sum of n * loss + ridge ||T||_*.
With M_k = diag(singular values of T_(k)) at the current point, they are the minimum over the gauge of the smooth
function 1/4 sum_k ridge_k [tr(U_k M_k U_k^T) + ||core x_k M_k^-1/2 x_{j != k} U_j||^2], which is what the Newton steps
see: with a free gauge for a matrix, where that is exact, and in a fixed gauge above, where it is a majoriser that
touches the objective.

A factorised Hessian costs as much as several evaluations of the objective, and serves points nearby: steps go on with
it for as long as they converge fast, and fits of nearly the same data start with it.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np
from scipy import sparse

from lrbtl.fitting.design import Design
from lrbtl.fitting.jacobian import slot_changes
from lrbtl.fitting.local import Local, add_penalty, penalised, penalty, penalty_terms
from lrbtl.fitting.newton_driver import CONVERGED, STUCK
from lrbtl.fitting.solvers import conjugate_gradients, diagonal_blocks, fix_gauge, invert_blocks
from lrbtl.lowrank.arrowhead import Arrowhead, Factor, NotPositiveDefinite
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker, mode_product
from lrbtl.model.links import Identity, Link
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats

MAX_DAMPING = 1e8
MARGIN = 5.0  # how much less a decrement may fall than the one before
DENSE_SPEED = 10.0  # how much faster dense linear algebra runs than loops over cells
KRYLOV_PASSES = 15  # conjugate-gradient steps that a Newton step takes on well-conditioned battles
LITTLE_DAMPING = 0.1  # below it a factor stands for the Hessian itself
KEPT_SHARE = 0.1  # of the tolerance, for steps with a Hessian from elsewhere, which leave more behind them
SLOW = 0.2  # ratio of two decrements above which a new Hessian pays
VANISHING = 1e-2  # of the largest singular value, now or at the start: there the curvature never stays


@dataclass(frozen=True)
class Newton:
    """Where the Newton steps ended."""

    point: Tucker  # in HOSVD form
    objective: float  # penalised negative log-likelihood in nats
    decrement: float  # estimated distance of the objective from its minimum, in nats
    n_iter: int
    converged: bool
    reason: str
    link: Link  # with its own parameters at their estimates
    # the last Hessian, for fits of nearly the same data
    curvature: "Curvature | None" = field(default=None, repr=False)
    effect_values: Floats | None = None  # of linear effects


@dataclass(frozen=True)
class Curvature:
    """A factorised Hessian, with some damping, in the coordinates of its point."""

    space: TangentSpace
    factor: Factor
    damping: float

    @property
    def serves(self) -> bool:
        """Whether so little is damped that steps and decrements are those of the Hessian."""
        return self.damping < LITTLE_DAMPING

    def step(self, space: TangentSpace, gradient: Floats) -> tuple[Floats, float]:
        """Return the Newton step at a point nearby, and half the product with the gradient, the decrease it predicts.

        Coordinates there are turned to those of the own point: singular vectors may come with other signs and order.
        """
        if space is self.space:
            step = -self.factor.solve(gradient)
        else:
            turns = self.space.turns(space)
            turned = -self.factor.solve(turn_coordinates(space, gradient, turns))
            step = turn_coordinates(space, turned, [turn.T for turn in turns])
        return step, -0.5 * float(gradient @ step)


def turn_coordinates(space: TangentSpace, coordinates: Floats, turns: list[Floats]) -> Floats:
    """Return coordinates with the components of each mode turned."""
    out = coordinates.copy()
    changes, dcore = space.parts(coordinates)
    for k, change in changes.items():
        out[space.slices[k]] = (change @ turns[k].T).reshape(-1)
    if dcore is not None:
        for k, turn in enumerate(turns):
            dcore = mode_product(dcore, turn[: dcore.shape[k], : dcore.shape[k]], k)  # levels are no part of the core
        out[space.core_slice] = dcore.reshape(-1)
    return out


@dataclass(frozen=True)
class DirectModel:
    """Second-order model of the objective at a point, solved by elimination and Cholesky."""

    local: Local
    gradient: Floats
    hessians: dict[int, Floats]
    core_diagonal: Floats

    @classmethod
    def at(cls, local: Local, ridge: Floats) -> "DirectModel":
        """Return the model at a point."""
        gradient, hessians, core_diagonal = penalty_terms(local.space, ridge)
        return cls(local, gradient - local.gradient, hessians, core_diagonal)

    @cached_property
    def hessian(self) -> Arrowhead:
        """Second derivatives of the objective."""
        space = self.local.space
        matrix = add_penalty(self.local.hessian(), space, self.hessians, self.core_diagonal)
        return fix_gauge(matrix, space) if len(space.factors) > 2 else matrix

    def curvature(self, damping: float) -> Curvature:
        """Return the factor of the damped Hessian."""
        diagonal = self.hessian.diagonal()
        damped = self.hessian.plus_diagonal(damping * np.maximum(diagonal, 1e-8 * diagonal.max()))
        return Curvature(self.local.space, damped.factor(), damping)

    def step(self, damping: float, kept: Curvature | None = None) -> tuple[Floats, float, Curvature | None]:
        """Return the damped Newton step, or that of a kept Hessian, the decrease it predicts, and its Hessian."""
        curvature = self.curvature(damping) if kept is None else kept
        return *curvature.step(self.local.space, self.gradient), curvature


@dataclass(frozen=True)
class KrylovModel:
    """The same model, solved by preconditioned conjugate gradients without forming a matrix."""

    local: Local
    gradient: Floats
    weight: Floats
    scores: Floats | sparse.csr_array
    hessians: dict[int, Floats]
    core_diagonal: Floats
    blocks: tuple[dict[int, Floats], Floats | None]

    @classmethod
    def at(cls, local: Local, ridge: Floats) -> "KrylovModel":
        """Return the model at a point."""
        design, weight = local.design, local.design.count * local.terms.fisher
        gradient, hessians, core_diagonal = penalty_terms(local.space, ridge)
        rows, core = diagonal_blocks(design, local.space, weight)
        rows = {k: block + hessians[k] for k, block in rows.items()}
        core = None if core is None else core + np.diag(core_diagonal)
        scores = design.entries.slot_matrix(local.slot_scores)
        return cls(local, gradient - local.gradient, weight, scores, hessians, core_diagonal, (rows, core))

    def step(self, damping: float, kept: Curvature | None = None) -> tuple[Floats, float, None]:
        """Return the damped Newton step and the decrease that the model predicts; there is no Hessian to keep."""
        rows, core = self.blocks
        entries, space = self.local.design.entries, self.local.space
        damped = {k: damping * block for k, block in rows.items()}
        precondition = invert_blocks(space, {k: block + damped[k] for k, block in rows.items()}, core)

        def apply(x: Floats) -> Floats:
            dU, dV = space.push(x)
            changes = slot_changes(entries, space, dU, dV)
            sums = entries.slot_matrix(entries.gram_sums(self.weight, changes))
            out = space.pull(sums.T @ space.V - self.scores.T @ dV, sums @ space.U - self.scores @ dU)
            for k, part in space.slices.items():
                row = x[part].reshape(space.factors[k].shape)
                out[part] += (row @ self.hessians[k] + np.einsum("aij,aj->ai", damped[k], row)).reshape(-1)
            if core is not None:
                out[space.core_slice] += self.core_diagonal * x[space.core_slice]
            return out

        found = conjugate_gradients(apply, precondition, -self.gradient, tol=0.03, max_iter=200)
        if not found.converged and found.n_iter == 0:
            raise NotPositiveDefinite
        return found.x, -float(self.gradient @ found.x) - 0.5 * float(found.x @ found.product), None


def _model_class(local: Local) -> type[DirectModel] | type[KrylovModel]:
    """Return the cheaper model: one factorisation, or some tens of passes over the cells."""
    design, space = local.design, local.space
    direct = space.q**2 * (space.q / 3 + space.size - space.q) / DENSE_SPEED
    krylov = 2 * KRYLOV_PASSES * len(design.a) * space.U.shape[1] * 4
    forced = len(space.factors) > 2 or design.n_effects > 0
    return DirectModel if forced or direct <= krylov else KrylovModel


@one_blas_thread
def minimise(
    design: Design,
    point: Tucker,
    ridge: Floats,
    *,
    tol: float = 1e-4,
    max_iter: int = 100,
    damping: float = 1e-2,
    warm: bool = False,
    curvature: Curvature | None = None,
) -> Newton:
    """Return the penalised maximum-likelihood point reached from a start in HOSVD form.

    From a warm start two decrements bound the next one, with a margin, which saves the last step. `curvature` is that
    of nearly the same objective near the start.
    """
    descent = _Descent(Local.of(design.averaged(), point), ridge, tol, damping, warm, curvature)
    for n_iter in range(1, max_iter + 1):
        reason = descent.advance()
        if reason is not None:
            return descent.end(n_iter, reason)
    return descent.end(max_iter, f"stopped after {max_iter} iterations")


class _Descent:
    """Damped Newton steps on the way: where they are, and the Hessian to go on with.

    A round takes the step of a kept Hessian, or of a new one, and damps it until the objective falls. What the fall is
    of the decrease that was predicted decides whether the Hessian stays and how much the next one is damped.
    """

    def __init__(
        self, here: Local, ridge: Floats, tol: float, damping: float, warm: bool, curvature: Curvature | None
    ) -> None:
        self.here, self.ridge, self.tol, self.damping, self.warm = here, ridge, tol, damping, warm
        self.objective = self._value(here)
        self.make_model = _model_class(here)
        self.kept = self.latest = curvature if self.make_model is DirectModel else None  # to go on with; last used
        self.decrement, self.left = 0.0, np.inf
        self.sizes = [values[0] for values in here.space.point.singular_values]

    def _value(self, at: Local) -> float:
        return at.loss + penalty(at.space.point, self.ridge)

    def advance(self) -> str | None:
        """Take a step; return why it is the last one, or None."""
        if self.kept is not None and _vanishes(self.here.space.point, self.sizes):
            self.kept = None
        last = self.decrement
        try:
            trial, reached, fresh = self._lower()
        except NotPositiveDefinite:
            return "the fit is zero: the data favour nothing"
        fall = self.objective - reached
        if fall >= 0:
            self.here, self.objective = trial, reached
        elif self.damping > MAX_DAMPING:
            return STUCK
        gain = fall / max(self.decrement, 1e-300)
        right = fresh or 0.75 < gain < 1.25  # a kept Hessian that predicts the decrease
        slowing = self.warm and gain > 0.75 and last > 0
        self.left = self.decrement * (min(1.0, MARGIN * self.decrement / last) if slowing else 1.0)
        enough = self.tol if fresh or self.warm else KEPT_SHARE * self.tol
        if self.left < enough and self.damping <= 1.0 and right:
            return CONVERGED
        if fresh:
            self._adapt(gain)
        elif not right or self.decrement > SLOW * last > 0.0:
            self.kept = None
        return None

    def _lower(self) -> tuple[Local, float, bool]:
        """Return a point where the objective is lower, its value, and whether the Hessian is of this point."""
        here, fresh = self.here, self.kept is None
        model = self.make_model.at(here, self.ridge)
        while True:
            step = self._definite_step(model)
            trial = Local.of(here.design.moved(step[here.space.extra]), retraction(here.space, step))
            reached = self._value(trial)
            negligible = self.decrement < 1e-13 * abs(self.objective)
            if self.objective - reached >= 1e-3 * self.decrement or negligible or self.damping > MAX_DAMPING:
                return trial, reached, fresh
            if self.kept is None:
                self.damping = max(8 * self.damping, 1e-6)
            self.kept, fresh = None, True

    def _definite_step(self, model: DirectModel | KrylovModel) -> Floats:
        """Return a step, damped until the Hessian is positive definite."""
        while True:
            try:
                step, self.decrement, self.latest = model.step(self.damping, self.kept)
                return step
            except NotPositiveDefinite:
                self.damping = max(10 * self.damping, 1e-3)
                if self.damping > MAX_DAMPING:
                    raise

    def _adapt(self, gain: float) -> None:
        """Keep a Hessian that predicted the decrease, and damp the next one by how well it did."""
        self.kept = self.latest if 0.9 < gain < 1.1 and self.damping < LITTLE_DAMPING else None
        self.damping = max(self.damping * (0.1 if gain > 0.75 else 0.5 if gain > 0.25 else 2.0), 1e-10)

    def end(self, n_iter: int, reason: str) -> Newton:
        """Return where the steps ended."""
        here, converged = self.here, reason == CONVERGED
        handed_on = self.latest if converged and self.latest is not None and self.latest.serves else None
        effects, link = here.design.effects, here.design.link
        values = None if effects is None else effects.values
        point = _unpad(here.space, here.design)
        return Newton(point, self.objective, self.left, n_iter, converged, reason, link, handed_on, values)


def _vanishes(point: Tucker, sizes: list[float]) -> bool:
    """Return whether a component is on its way to zero; `sizes` were the largest singular values at the start."""
    return any(
        values[-1] < VANISHING * max(values[0], size) for values, size in zip(point.singular_values, sizes, strict=True)
    )


def retraction(space: TangentSpace, step: Floats) -> Tucker:
    """Return the point with all factors moved, back in HOSVD form."""
    changes, dcore = space.parts(step)
    factors = [factor + changes[k] for k, factor in enumerate(space.factors)]
    if space.centred:
        factors[0] = factors[0] - factors[0].mean(axis=0)
    return Tucker(space.core if dcore is None else space.core + dcore, tuple(factors)).canonical()


def _unpad(space: TangentSpace, design: Design) -> Tucker:
    """Return the point without the single context that order 1 is given inside."""
    point = space.point
    if len(point.shape) == len(design.shape):
        return point
    return Tucker(point.core[:, 0] * point.factors[1][0, 0], point.factors[:1])


# ------------------------------------------------------------------------------
# How strong the penalty should be: corrected Takeuchi criterion over a one-dimensional family of ridges.
# ------------------------------------------------------------------------------


EXACT_TRACE = 300  # coordinates up to which traces are exact
PROBES = 8
VARIANCE_PASSES = 8
ORDER_ONE = 0.05  # of the noise: one context has none to borrow from, so only enough ridge to stay finite
SEARCH_TOL = 1e-2  # Newton decrement, in nats, of the fits that the search compares


@dataclass(frozen=True)
class Complexity:
    """What a penalised fit costs."""

    loss: float  # negative log-likelihood of the battles, in nats
    parameters: float  # effective number of parameters, tr((K + R)^-1 K)
    # tr((K + R)^-1 B) / (1 - parameters / n)^2 with the meat B: how much the held-out loss exceeds `loss`
    optimism: float

    @property
    def criterion(self) -> float:
        """Estimate of the loss on as many new battles [Takeuchi's criterion, with leverage-corrected residuals]."""
        return self.loss + self.optimism


def complexity(design: Design, point: Tucker, ridge: Floats) -> Complexity:
    """Return loss, effective parameters and optimism of a penalised fit; traces by a fixed set of random signs."""
    local = Local.of(design, point)
    matrix, size = penalised(local.information, local.space, ridge), local.space.size
    factor = matrix.plus_diagonal(1e-10 * matrix.diagonal()).factor()
    if size <= EXACT_TRACE:
        probes = np.eye(size)
    else:
        probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(size, PROBES)) / np.sqrt(PROBES)
    solved = factor.solve(probes)
    parameters = float(np.sum(solved * (local.information @ probes)))
    n = design.total
    shrink = 1.0 - min(parameters / n, 0.9)
    return Complexity(local.loss, parameters, float(np.sum(solved * (local.meat @ probes))) / shrink**2)


@one_blas_thread
def choose_ridge(design: Design, start: Tucker, around: Floats | None = None) -> tuple[Floats, Newton]:
    """Return the ridge of each mode and the fit there.

    The family is t times a base; t is found by doubling or halving from 1 until the criterion turns, then by a parabola
    in log t. The base is `around`, a ridge that was right for nearly the same problem, or else comes from a pilot fit.
    """
    if len(design.shape) == 1:
        ridge = ORDER_ONE * noise_ridge(design, start.rank)
        return ridge, minimise(design, start, ridge)
    base, pilot = (around, None) if around is not None else _pilot(design, start)
    values: dict[int, float] = {}
    fits: dict[int, Newton] = {}

    curvature = None if pilot is None else pilot.curvature

    def evaluate(k: int) -> float:
        nonlocal curvature
        if k not in values:
            near = min(fits, key=lambda j: abs(j - k), default=None)
            ridge = 2.0**k * base
            warm = pilot if near is None else fits[near]
            point, nearby = (start, design) if warm is None else (warm.point, design.under(warm))
            found = minimise(nearby, point, ridge, tol=SEARCH_TOL, curvature=curvature)
            curvature = found.curvature
            fits[k] = replace(found, curvature=None)  # one at a time: they are large
            try:
                values[k] = complexity(design.under(fits[k]), fits[k].point, ridge).criterion
            except NotPositiveDefinite:
                values[k] = np.inf
        return values[k]

    best = 0
    direction = 1 if evaluate(1) < evaluate(0) else -1
    while evaluate(best + direction) < evaluate(best) and abs(best) < 8:
        best += direction
    low, mid, high = evaluate(best - 1), evaluate(best), evaluate(best + 1)
    bend = low - 2 * mid + high
    shift = 0.5 * (low - high) / bend if np.isfinite(bend) and bend > 0 else 0.0
    ridge = 2.0 ** (best + float(np.clip(shift, -0.5, 0.5))) * base
    near = fits[best]
    return ridge, minimise(design.under(near), near.point, ridge, damping=1e-4, curvature=curvature)


def _pilot(design: Design, start: Tucker) -> tuple[Floats, Newton]:
    """Return 1.5 parameters / (order * sum of singular values of T_(k)) at a fit whose ridge is the size of noise."""
    ridge = noise_ridge(design, start.rank)
    pilot = minimise(design, start, ridge, tol=SEARCH_TOL)
    singular = design.space(pilot.point).point.singular_values
    totals = np.array([max(float(values.sum()), 1e-6) for values in singular])
    parameters = complexity(design.under(pilot), pilot.point, ridge).parameters
    return 1.5 * max(parameters, 1.0) / (len(totals) * totals), pilot


def noise_ridge(design: Design, rank: tuple[int, ...]) -> Floats:
    """Return a quarter of the size of pure noise in each unfolding of the gradient: the pilot's ridge."""
    shape = design.shape
    ridge = [
        0.25 * np.sqrt(design.information_at_zero / design.d_eff) * (np.sqrt(d) + np.sqrt(prod(rank) / r))
        for d, r in zip(shape, rank, strict=True)
    ]
    return np.array(ridge if len(ridge) > 1 else ridge * 2)


def residual_variance(design: Design, start: Tucker) -> float:
    """Return the variance of the noise round a pilot fit under the identity link, with its degrees of freedom."""
    n = float(design.count.sum())
    mean = float(design.count @ design.y) / n
    whole = variance = max(float(design.count @ (design.y - mean) ** 2) / n, 1e-300)
    for _ in range(VARIANCE_PASSES):
        scaled = design.with_link(Identity(variance))
        ridge = noise_ridge(scaled, start.rank)
        start = minimise(scaled, start, ridge, tol=SEARCH_TOL).point
        residual = float(design.count @ (design.y - Local.of(design, start).eta) ** 2)
        freedom = max(n - complexity(scaled, start, ridge).parameters, 0.1 * n)
        last, variance = variance, max(residual / freedom, 1e-12 * whole)
        if abs(variance - last) < 0.01 * last:
            break
    return variance
