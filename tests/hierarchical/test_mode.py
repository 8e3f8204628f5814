"""Modes at fixed hyperparameters: they are stationary, and the same from anywhere."""

from dataclasses import replace

import numpy as np
import pytest

import lrbtl
from hierarchy_twin import MODES, Twin, entries, hyper_of, log_posterior, mode_at, mode_of, start_of, tied_battles
from lrbtl.hierarchical.coordinates import LevelSpace
from lrbtl.hierarchical.expansion import Expansion
from lrbtl.hierarchical.mode import find_mode
from problems import random_point

modes = pytest.mark.parametrize("name", MODES)


def directions(at, n, seed=0):
    """Random steps within the gauge, with those of E, of one standard deviation each."""
    rng, twin, space = np.random.default_rng(seed), Twin.of(at), at.scores.space
    place = space.size + entries(at.scores.design)
    for _ in range(n):
        step, dE = rng.normal(size=space.size), rng.normal(size=at.scores.design.n_slots) * (at.tau > 0)
        for part, block in space.gauge():
            step[part] -= np.linalg.pinv(block) @ block @ step[part]
        whole = np.zeros(len(twin.precision))
        whole[: space.size] = step
        if at.tau > 0:
            whole[place] = dE
        error = np.sqrt(whole @ twin.precision @ whole)
        yield step / error, dE / error


@modes
@pytest.mark.parametrize("spread", [False, True], ids=["at", "over"])
def test_the_mode_is_stationary(name, spread):
    """By differences of the cost written out; expectations have a rule of fewer points."""
    at, h = mode_at(name, spread), 1e-3
    if spread:
        at = find_mode(at, near=True, tolerance=1e-13).at
    for step, dE in directions(at, 5):
        up, down = (log_posterior(at, at.scores.moved(sign * h * step, sign * h * dE)) for sign in (1, -1))
        assert abs(up - down) / (2 * h) < (2e-2 if spread else 1e-3)  # in standard deviations


@modes
def test_the_mode_is_a_top(name):
    at = mode_at(name)
    best = log_posterior(at, at.scores)
    for step, dE in directions(at, 5, seed=1):
        assert all(log_posterior(at, at.scores.moved(h * step, h * dE)) < best - 0.01 for h in (-0.3, 0.3))


@modes
def test_other_starts_have_the_same_mode(name):
    shape, rank, tau, _ = MODES[name]
    found = mode_at(name)
    rng, space = np.random.default_rng(3), found.scores.space
    level = rng.normal(size=shape[0])
    point = random_point(shape, space.point.rank, 4, scale=0.5) if rank else space.point
    there = LevelSpace(point, level - level.mean(), n_extra=found.scores.design.n_effects)
    scores = replace(found.scores, space=there, E=0.5 * tau * rng.normal(size=found.scores.design.n_slots))
    other = find_mode(replace(found, scores=scores), tolerance=1e-10)
    assert other.converged
    error = np.sqrt(np.diag(Twin.of(found).C))[: found.scores.field.dense().size]
    away = (other.scores.field.dense() - found.scores.field.dense()).reshape(-1)
    assert np.abs(away / error).max() < 1e-3


@modes
def test_usual_steps_end_within_a_small_part_of_an_error(name):
    """The tolerance is in nats: a squared distance in standard deviations, halved."""
    exact = mode_at(name)
    scores = replace(exact.scores, space=LevelSpace(exact.scores.space.point, 0.8 * exact.scores.space.level,
                                                    n_extra=exact.scores.design.n_effects))  # fmt: skip
    usual = find_mode(replace(exact, scores=scores))
    error = np.sqrt(np.diag(Twin.of(exact).C))[: usual.scores.field.dense().size]
    away = (usual.scores.field.dense() - exact.scores.field.dense()).reshape(-1)
    assert usual.converged and usual.n_iter < 15 and np.abs(away / error).max() < 0.05


def test_without_deviations_the_start_has_none():
    at = mode_at("matrix").at_tau(0.0)
    assert np.any(at.scores.E) and not np.any(find_mode(at).scores.E)


def test_the_fit_is_votes_and_deviations():
    mode = mode_of(tied_battles((8, 5), 500), 0, 0.3, dispersion=0.8)
    E = mode.scores.E
    assert mode.fit == pytest.approx(mode.scores.loss / 0.8 + E @ E / (2 * 0.3**2))
    assert mode.tau == 0.3


def test_one_sided_votes_have_a_finite_mode():
    """A model that won everything: the prior of levels ends its score."""
    battles = lrbtl.Battles.from_arrays([0, 0, 1], [1, 2, 2], [1, 1, 1], counts=[50, 50, 50])
    mode = mode_of(battles, 0, 0.0)
    assert mode.converged and np.abs(mode.scores.space.level).max() < 10.0


def test_steps_that_are_too_long_are_halved():
    """From scores far out, where votes tell nothing."""
    battles = tied_battles((8,), 300)
    at = mode_of(battles, 0, 0.0).at
    far = replace(start_of(at.scores.design), space=LevelSpace(at.scores.space.point, np.linspace(-15, 15, 8)))
    found = find_mode(Expansion(far, hyper_of(8, 0.0)), tolerance=1e-10)
    np.testing.assert_allclose(found.scores.space.level, at.scores.space.level, atol=1e-4)
