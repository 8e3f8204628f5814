"""How strong the penalty should be: corrected Takeuchi criterion over a one-dimensional family of ridges."""

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from lrbtl.fitting.design import Design
from lrbtl.fitting.local import penalised
from lrbtl.fitting.newton import Newton, minimise
from lrbtl.lowrank.arrowhead import NotPositiveDefinite
from lrbtl.lowrank.tucker import Tucker
from lrbtl.model.links import Identity
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats

EXACT_TRACE = 300  # coordinates up to which traces are exact
PROBES = 8
VARIANCE_PASSES = 8
ORDER_ONE = 0.05  # of the noise: one context has none to borrow from, so only enough ridge to stay finite
SEARCH_TOL = 1e-2  # Newton decrement, in nats, of the fits that the search compares


@dataclass(frozen=True)
class Complexity:
    """What a penalised fit costs.

    Attributes
    ----------
    loss : float
        Negative log-likelihood of the battles, in nats.
    parameters : float
        Effective number of parameters, tr((K + R)^-1 K).
    optimism : float
        tr((K + R)^-1 B) / (1 - parameters / n)^2 with the meat B: how much the held-out loss exceeds `loss`.
    """

    loss: float
    parameters: float
    optimism: float

    @property
    def criterion(self) -> float:
        """Estimate of the loss on as many new battles [Takeuchi's criterion, with leverage-corrected residuals]."""
        return self.loss + self.optimism


def complexity(design: Design, point: Tucker, ridge: Floats) -> Complexity:
    """Return loss, effective parameters and optimism of a penalised fit; traces by a fixed set of random signs."""
    local = design.at(point)
    matrix, size = penalised(local.information, local.space, ridge), local.space.size
    factor = matrix.plus_diagonal(1e-10 * matrix.diagonal()).factor()
    if size <= EXACT_TRACE:
        probes = np.eye(size)
    else:
        probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(size, PROBES)) / np.sqrt(PROBES)
    solved = factor.solve(probes)
    parameters = float(np.sum(solved * (local.information @ probes)))
    n = float(design.count.sum())
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
            point, link = (start, design.link) if warm is None else (warm.point, warm.link)
            found = minimise(design.with_link(link), point, ridge, tol=SEARCH_TOL, curvature=curvature)
            curvature = found.curvature
            fits[k] = replace(found, curvature=None)  # one at a time: they are large
            try:
                values[k] = complexity(design.with_link(fits[k].link), fits[k].point, ridge).criterion
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
    return ridge, minimise(design.with_link(near.link), near.point, ridge, damping=1e-4, curvature=curvature)


def _pilot(design: Design, start: Tucker) -> tuple[Floats, Newton]:
    """Return 1.5 parameters / (order * sum of singular values of T_(k)) at a fit whose ridge is the size of noise."""
    ridge = noise_ridge(design, start.rank)
    pilot = minimise(design, start, ridge, tol=SEARCH_TOL)
    singular = design.space(pilot.point).point.singular_values
    totals = np.array([max(float(values.sum()), 1e-6) for values in singular])
    parameters = complexity(design.with_link(pilot.link), pilot.point, ridge).parameters
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
        residual = float(design.count @ (design.y - design.at(start).eta) ** 2)
        freedom = max(n - complexity(scaled, start, ridge).parameters, 0.1 * n)
        last, variance = variance, max(residual / freedom, 1e-12 * whole)
        if abs(variance - last) < 0.01 * last:
            break
    return variance
