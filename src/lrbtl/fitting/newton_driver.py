"""One damped Newton driver: a fit states its objective, and this loop minimises it.

An objective f of a point x has a value f(x), a Newton step s at x with its decrement d, the decrease of f that it
promises up to a constant, and the point x + t s. Each round

1. computes the step and its decrement at x;
2. ends where the decrement is below the tolerance, before or after that last step;
3. halves t from 1 until f(x + t s) <= f(x) - armijo t d + slack |f(x)|;
4. goes on from x + t s, or ends where t would be below the smallest step.

Nothing else moves while it runs. Some loops remain their own. `bradley_terry` steps in many problems at once, each
halved by itself; `altmin` does too, and stops by what a step gained. `newton` damps the Hessian instead of the step and
goes on with factors of earlier Hessians. So does `hierarchical.mode`, which halves its steps by `halved`. `both_bad`
takes one such step per round of expectation-maximisation. `compat` repeats the arithmetic of other packages.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Point = TypeVar("Point")
Step = TypeVar("Step")

CONVERGED = "Newton decrement below tolerance"
STUCK = "no step lowers the objective"


@dataclass(frozen=True)
class NewtonConfig:
    """When to stop.

    Attributes
    ----------
    tolerance : float
        Decrement below which the minimum is found.
    max_iter : int
    smallest_step : float
        Share of a Newton step below which none is tried.
    armijo : float
        Share of its promise by which a step must lower the objective.
    slack : float
        Rise of the objective, over its size, that is taken for rounding.
    last_step : bool
        Whether a step that promises less than the tolerance is still taken.
    """

    tolerance: float
    max_iter: int
    smallest_step: float
    armijo: float = 0.0
    slack: float = 0.0
    last_step: bool = True


class Objective(ABC, Generic[Point, Step]):
    """What is minimised."""

    @abstractmethod
    def value(self, point: Point) -> float:
        """Return the objective at a point."""

    @abstractmethod
    def step(self, point: Point) -> tuple[Step, float]:
        """Return the Newton step at a point, and its decrement."""

    @abstractmethod
    def moved(self, point: Point, step: Step, share: float) -> Point:
        """Return the point after a share of a step."""

    def allows(self, point: Point, trial: Point) -> bool:
        """Return whether a step to a trial point is allowed at all."""
        return True


@dataclass(frozen=True)
class Minimum(Generic[Point]):
    """Where the steps ended, with the last decrement, the number of rounds, and why they ended."""

    point: Point
    decrement: float
    n_iter: int
    converged: bool
    reason: str


def halved(
    trial_at: Callable[[float], Point], accepted: Callable[[Point, float], bool], smallest: float
) -> tuple[Point, float]:
    """Return the first accepted of the points at shares 1, 1/2, 1/4, ..., and its share; the last one and 0 if none is.

    >>> halved(lambda share: 8 * share, lambda point, share: point < 3, 1e-3)
    (2.0, 0.25)
    """
    share = 1.0
    while True:
        trial = trial_at(share)
        if accepted(trial, share):
            return trial, share
        share *= 0.5
        if share <= smallest:
            return trial, 0.0


def minimise_newton(objective: Objective[Point, Step], start: Point, config: NewtonConfig) -> Minimum[Point]:
    """Return the minimum of an objective that Newton steps reach from a start."""
    point, value, decrement = start, objective.value(start), 0.0
    for n_iter in range(1, config.max_iter + 1):
        step, decrement = objective.step(point)
        small = decrement < config.tolerance
        if small and not config.last_step:
            return Minimum(point, decrement, n_iter, True, CONVERGED)
        point, value, moved = _after_step(objective, point, value, step, decrement, config)
        if small or not moved:
            return Minimum(point, decrement, n_iter, small, CONVERGED if small else STUCK)
    return Minimum(point, decrement, config.max_iter, False, f"stopped after {config.max_iter} iterations")


def _after_step(
    objective: Objective[Point, Step], point: Point, value: float, step: Step, decrement: float, config: NewtonConfig
) -> tuple[Point, float, bool]:
    """Return the point after a step, halved until the objective falls enough, its value, and whether it moved."""
    reached = value

    def accepted(trial: Point, share: float) -> bool:
        nonlocal reached
        reached = objective.value(trial)
        most = value - config.armijo * share * decrement + config.slack * abs(value)
        return reached <= most and objective.allows(point, trial)

    trial, share = halved(lambda share: objective.moved(point, step, share), accepted, config.smallest_step)
    return (trial, reached, True) if share > 0.0 else (point, value, False)
