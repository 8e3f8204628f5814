"""The Newton driver on objectives with known minima: where it ends, why, and that steps are halved."""

import numpy as np
import pytest

from lrbtl.fitting.newton_driver import CONVERGED, STUCK, NewtonConfig, Objective, halved, minimise_newton

CONFIG = NewtonConfig(tolerance=1e-12, max_iter=50, smallest_step=1e-6, armijo=1e-4)


class Cosh(Objective[float, float]):
    """log cosh(x - 3), from which whole Newton steps run away beyond about one from the minimum."""

    def __init__(self, limit=np.inf):
        self.limit, self.asked = limit, []

    def value(self, point):
        self.asked.append(point)
        return float(np.log(np.cosh(point - 3.0)))

    def step(self, point):
        gradient, hessian = np.tanh(point - 3.0), np.cosh(point - 3.0) ** -2.0
        return -gradient / hessian, float(gradient**2 / hessian)

    def moved(self, point, step, share):
        return point + share * step

    def allows(self, point, trial):
        return abs(trial) <= self.limit


@pytest.mark.parametrize("start", [0.0, 2.5, 3.0, 6.0])
def test_the_minimum_is_found_and_the_objective_never_rises(start):
    found = minimise_newton(Cosh(), start, CONFIG)
    assert found.point == pytest.approx(3.0, abs=1e-6) and found.converged and found.reason == CONVERGED
    assert found.decrement < CONFIG.tolerance
    reached = [minimise_newton(Cosh(), start, NewtonConfig(1e-12, n, 1e-6, 1e-4)).point for n in range(1, 6)]
    values = [np.log(np.cosh(x - 3.0)) for x in (start, *reached)]
    assert np.all(np.diff(values) <= 1e-15)


def test_the_last_step_is_taken_or_left():
    near = 3.0 + 1e-3
    assert minimise_newton(Cosh(), near, NewtonConfig(1e-2, 9, 1e-6, last_step=False)).point == near
    assert minimise_newton(Cosh(), near, NewtonConfig(1e-2, 9, 1e-6)).point == pytest.approx(3.0, abs=1e-8)


def test_rounds_are_limited():
    found = minimise_newton(Cosh(), 0.0, NewtonConfig(1e-12, 1, 1e-6))
    assert not found.converged and found.n_iter == 1 and found.reason == "stopped after 1 iterations"


def test_what_is_not_allowed_is_not_reached():
    found = minimise_newton(Cosh(limit=2.0), 2.0, CONFIG)
    assert found.point == 2.0 and not found.converged and found.reason == STUCK


def test_a_rise_within_the_slack_is_rounding():
    class Flat(Cosh):
        def value(self, point):
            return 1e6 + (1e-5 if point != 2.5 else 0.0)

    strict, loose = (NewtonConfig(1e-12, 1, 1e-6, slack=slack) for slack in (0.0, 1e-9))
    assert minimise_newton(Flat(), 2.5, strict).reason == STUCK
    assert minimise_newton(Flat(), 2.5, loose).point != 2.5


def test_halving_ends_at_the_smallest_share():
    tried = []

    def refused(trial, share):
        tried.append(share)
        return False

    assert halved(lambda share: share, refused, 0.1) == (0.125, 0.0)
    assert tried == [1.0, 0.5, 0.25, 0.125]
