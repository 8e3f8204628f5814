"""The mode of T = level + L + E at fixed hyperparameters: Newton steps on `hierarchical.expansion`."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lrbtl.fitting.jacobian import slot_changes
from lrbtl.fitting.newton import Curvature
from lrbtl.fitting.newton_driver import halved
from lrbtl.hierarchical.expansion import Expansion, Scores
from lrbtl.lowrank.arrowhead import Factor
from lrbtl.typing import Floats

MAX_ITER = 30
SMALLEST_STEP, SLACK = 1e-3, 1e-9  # share of a step; rise of the objective, over its size, that is rounding
FARTHEST = 20.0  # logits beyond which votes have no information on a score
EXACT_HESSIAN_WITHIN = 5.0  # nats from the mode: nearer, the exact Hessian replaces the information
TOLERANCE = 1e-4  # nats: a mode is that close to the top, where nothing else is asked for
KEPT_STEPS = 12  # most steps with one factor
SLOW, STUCK = 0.25, 0.9  # ratios of promises beyond which the Hessian takes over, and beyond which a kept factor goes
MANY_ENTRIES = 50_000  # beyond which tolerances grow with the entries: each moves by a hundredth of its error at most


@dataclass(frozen=True)
class Mode:
    """Where the posterior is largest.

    Attributes
    ----------
    at : Expansion
        Round the mode.
    n_iter : int
    converged : bool
    """

    at: Expansion
    n_iter: int
    converged: bool

    @property
    def scores(self) -> Scores:
        """Scores at the mode."""
        return self.at.scores

    @property
    def tau(self) -> float:
        """Size of the deviations."""
        return self.at.tau

    @cached_property
    def fit(self) -> float:
        """Negative log-likelihood over the dispersion, and that of the deviations."""
        deviations = 0.5 * float(self.scores.E @ self.scores.E) / self.tau**2 if self.tau > 0 else 0.0
        return self.scores.loss / self.at.dispersion + deviations


def find_mode(at: Expansion, *, near: bool = False, tolerance: float = TOLERANCE) -> Mode:
    """Return the mode reached from the scores of an expansion by Newton steps, halved until the posterior grows.

    The objective is loss / dispersion + |E|^2 / (2 tau^2) + the costs of the priors. Each round
    1. factors the information A, or near the mode the exact Hessian;
    2. steps, halved until the objective falls;
    3. goes on with that factor and new gradients while these steps converge fast.
    It ends where a step promises less than the tolerance, in nats. Where the start is `near` the mode, the first factor
    is that of the Hessian.
    """
    if at.tau == 0.0 and np.any(at.scores.E):
        at = at.around(replace(at.scores, E=np.zeros_like(at.scores.E)))
    least = tolerance * max(1.0, at.scores.design.n_slots / MANY_ENTRIES)
    expected = 0.0 if near else np.inf
    for n_iter in range(1, MAX_ITER + 1):
        exact = expected < EXACT_HESSIAN_WITHIN
        factor, gradient = at.newton_factor() if exact else at.factor, at.gradient()
        step = factor.solve(gradient)
        dE = deviation_step(at, step)
        expected = decrement(at, gradient, step, dE)
        scores, taken = stepped(at, step, dE)
        if expected < least or taken == 0.0:
            return Mode(at.around(scores), n_iter, expected < least)
        if taken == 1.0:
            scores, expected, done = _kept_steps(at, factor, scores, expected, least, exact=exact)
            if done:
                return Mode(at.around(scores), n_iter, True)
        at = at.around(scores)
    return Mode(at, MAX_ITER, False)


def deviation_step(at: Expansion, step: Floats) -> Floats:
    """Return the step of the deviations that goes with one in coordinates."""
    design, space = at.scores.design, at.scores.space
    change = slot_changes(design.entries, space, *space.push(step))
    c, _ = at.marginal.effects
    moved = at.marginal.apply_information(change) + c @ step[space.extra]
    return at.marginal.apply_shrinkage(at.tau**2 * (at.votes.gradient - moved) - at.scores.E)


def decrement(at: Expansion, gradient: Floats, step: Floats, dE: Floats) -> float:
    """Return how much a step promises, in nats."""
    deviation = at.votes.gradient - (at.scores.E / at.tau**2 if at.tau > 0 else 0.0)
    return 0.5 * (abs(float(gradient @ step)) + abs(float(deviation @ dE)))


def stepped(at: Expansion, step: Floats, dE: Floats) -> tuple[Scores, float]:
    """Return the scores after a step, halved until the objective falls, and the share of it that was taken."""
    here = at.cost(at.scores)
    found, taken = halved(
        lambda share: at.scores.moved(share * step, share * dE),
        lambda trial, _: at.cost(trial) <= here + SLACK * abs(here) and within_reach(at.scores, trial),
        SMALLEST_STEP,
    )
    return (found, taken) if taken > 0.0 else (at.scores, 0.0)


def within_reach(scores: Scores, trial: Scores) -> bool:
    """Return whether scores after a step stay within the reach of the votes, or move no farther out."""
    return bool(np.abs(trial.low_rank).max() <= max(FARTHEST, float(np.abs(scores.low_rank).max())))


def _kept_steps(
    at: Expansion, factor: Factor, scores: Scores, expected: float, least: float, *, exact: bool
) -> tuple[Scores, float, bool]:
    """Return the scores after steps with a factor from nearby, what the last one promised, and if it is the end."""
    curvature = Curvature(at.scores.space, factor, 0.0)
    for _ in range(KEPT_STEPS):
        near = at.nearby(scores)
        gradient, last = near.gradient(), expected
        step = -curvature.step(scores.space, gradient)[0]
        dE = deviation_step(near, step)
        expected = decrement(near, gradient, step, dE)
        if expected > (STUCK if exact or last > EXACT_HESSIAN_WITHIN else SLOW) * last:
            return scores, last, False
        trial = scores.moved(step, dE)
        if near.cost(trial) > near.cost(scores) + SLACK * abs(near.cost(scores)):
            return scores, last, False
        scores = trial
        if expected < least:
            return scores, expected, True
    return scores, expected, False
