"""Modes of T = L + E against dense formulas, and their limits: low-rank fits and separate fits."""

from dataclasses import replace

import numpy as np
import pytest

import lrbtl
from hierarchy_twin import Twin, entries, mode_of, prior_gradient, vote_terms
from lrbtl.fitting import mode as climbing
from lrbtl.fitting.deviations import Expansion, told_parts
from lrbtl.fitting.priors import factor_entries, within_gauge
from lrbtl.lowrank.tangent import TangentSpace
from problems import battle_matrix, gauge_residual, moved_point, random_point, rebuilt, simulated

MODES = [
    ((8,), 1, 1e-3, "logistic"),
    ((12, 5), 2, 0.1, "logistic"),
    ((8, 4, 3), 2, 0.1, "logistic"),
    ((7, 3, 3, 2), 2, 0.1, "logistic"),
    ((12, 5), 2, 0.1, "davidson"),
]
modes = pytest.mark.parametrize("case", MODES, ids=lambda case: f"order{len(case[0])}-{case[3]}")


@pytest.fixture
def exactly(monkeypatch):
    """Newton steps to the end, not only as far as intervals need."""
    monkeypatch.setattr(climbing, "DECREMENT", 1e-11)
    monkeypatch.setattr(climbing, "ENOUGH", 1e-11)
    monkeypatch.setattr(climbing, "LAST_PROMISE", 1e-11)
    monkeypatch.setattr(climbing, "MAX_ITER", 60)


def tied_battles(shape, rank, n=8000):
    """Battles of low-rank scores with deviations, and some ties; all components are strong."""
    rng = np.random.default_rng(3)
    truth = lrbtl.simulate_scores(shape, rank, scale=3.0, rng=0)
    deviation = 0.1 * rng.normal(size=shape) * (len(shape) > 1)
    battles = lrbtl.simulate_battles(truth + deviation - deviation.mean(axis=0), n, rng=1)
    other = lrbtl.simulate_battles(truth, n // 8, rng=4)
    return battles + rebuilt(other, y=np.full(other.n_cells, 0.5))


def log_posterior(at, step, dE):
    """Dense: votes, deviations and prior at coordinates and deviations moved from those of an expansion."""
    scores, space = at.scores, at.scores.space
    design, link = scores.design, scores.design.link
    point = moved_point(space, step)
    deviation = np.zeros(design.shape[0] * design.n_contexts)
    deviation[entries(design)] = scores.E + dE
    if link.n_extra:
        link = link.moved(step[space.extra])
    eta = battle_matrix(design) @ (point.dense().reshape(-1) + deviation)
    votes = design.count @ vote_terms(link, eta, design.y)[0] / at.dispersion
    away = factor_entries(space) + np.where(at.prior.precision > 0, step, 0.0) - at.prior.mean
    prior = at.prior.precision @ away**2 / 2
    if at.contexts is not None:
        vectors = space.U.T @ (point.dense().reshape(len(space.U), -1) - at.contexts.mean[:, None])
        prior += at.contexts.precision @ np.sum(vectors**2, axis=0) / 2
    return votes - deviation @ deviation / (2 * at.tau**2) - prior


def directions(at, n, rng):
    """Random steps within the gauge, with those of E."""
    space, design = at.scores.space, at.scores.design
    for _ in range(n):
        tensor = rng.normal(size=(design.shape[0], design.n_contexts))
        step = space.solve_isotropic(space.pull_dense(tensor))
        step[space.extra] = rng.normal(size=step[space.extra].shape)
        yield step, rng.normal(size=design.n_slots)


@modes
@pytest.mark.parametrize("dispersion", [1.0, 0.7])
def test_the_mode_is_stationary(case, dispersion, exactly):
    shape, rank, tau, link = case
    mode = mode_of(tied_battles(shape, rank), rank, tau, link=link, dispersion=dispersion)
    at, h, twin = mode.at, 1e-3, Twin.of(mode.at)
    place, slopes = at.scores.space.size + entries(at.scores.design), []
    for step, dE in directions(at, 6, np.random.default_rng(0)):
        whole = np.zeros(len(twin.precision))
        whole[: len(step)], whole[place] = step, dE
        error = np.sqrt(whole @ twin.precision @ whole)  # one over the standard deviation along the direction
        up, down = (log_posterior(at, sign * h * step / error, sign * h * dE / error) for sign in (1, -1))
        slopes.append(abs(up - down) / (2 * h))  # in standard deviations
    assert max(slopes) < 1e-2


@modes
def test_usual_steps_end_within_a_small_part_of_an_error(case, monkeypatch):
    shape, rank, tau, link = case
    battles = tied_battles(shape, rank)
    usual = mode_of(battles, rank, tau, link=link)
    monkeypatch.setattr(climbing, "DECREMENT", 1e-11)
    monkeypatch.setattr(climbing, "ENOUGH", 1e-11)
    monkeypatch.setattr(climbing, "LAST_PROMISE", 1e-11)
    monkeypatch.setattr(climbing, "MAX_ITER", 60)
    exact = mode_of(battles, rank, tau, link=link)
    error = np.sqrt(np.diag(Twin.of(exact.at).C)).reshape(usual.scores.field.dense().shape)
    assert usual.converged and np.abs((usual.scores.field.dense() - exact.scores.field.dense()) / error).max() < 0.1


@modes
def test_the_gradient_is_that_of_the_log_posterior(case):
    """Also away from the mode, after E has been taken to its best value: the gradient in L on the slots."""
    shape, rank, tau, link = case
    at = mode_of(tied_battles(shape, rank), rank, tau, link=link).at
    rng = np.random.default_rng(1)
    step, dE = next(directions(at, 1, rng))
    scores = at.scores.moved(0.05 * step / np.abs(step).max(), 0.3 * tau * dE)
    here = Expansion(scores, tau, 0.8, at.gauge, at.before, True)
    twin, design = Twin.of(here), scores.design
    place, size = entries(design), here.scores.space.size
    g = twin.g[place] - scores.E / tau**2
    inner = twin.precision[size + place][:, size + place]
    gradient = here.gradient()
    for step, _ in directions(here, 4, rng):
        whole = np.zeros(len(twin.precision))
        whole[:size] = step
        up, down = (log_posterior(here, sign * 1e-6 * step, 0.0) for sign in (1, -1))
        profile = (up - down) / 2e-6 - twin.precision[:size, size + place].T @ step @ np.linalg.solve(inner, g)
        assert gradient @ step == pytest.approx(profile, rel=1e-4, abs=1e-3)


@modes
def test_one_step_solves_the_joint_normal_equations(case):
    shape, rank, tau, link = case
    at = mode_of(tied_battles(shape, rank), rank, tau, link=link).at
    rng = np.random.default_rng(2)
    step, dE = next(directions(at, 1, rng))
    here = Expansion(at.scores.moved(0.02 * step / np.abs(step).max(), tau * dE), tau, 1.0, at.gauge, at.before, True)
    twin, size, place = Twin.of(here), here.scores.space.size, entries(here.scores.design)
    _, scores, _ = vote_terms(here.scores.design.link, twin.X @ dense_scores(here), here.scores.design.y)
    right = np.zeros(len(twin.precision))
    right[:size] = twin.J.T @ twin.g - prior_gradient(here)
    if link == "davidson":
        right[here.scores.space.extra] = here.scores.design.count @ scores[:, 1]
    right[size + place] = twin.g[place] - here.scores.E / tau**2
    step = here.factor.solve(here.gradient())
    found = step, here.deviation_step(step)
    exact = np.linalg.solve(twin.precision, right)
    np.testing.assert_allclose(found[0], exact[:size], rtol=1e-6, atol=1e-7 * np.abs(exact).max())
    np.testing.assert_allclose(found[1], exact[size + place], rtol=1e-6, atol=1e-7 * np.abs(exact).max())


def dense_scores(at):
    """L + E without centring."""
    deviation = np.zeros(at.scores.design.shape[0] * at.scores.design.n_contexts)
    deviation[entries(at.scores.design)] = at.scores.E
    return (at.scores.space.U @ at.scores.space.V.T).reshape(-1) + deviation


@modes
def test_the_evidence_is_laplaces(case, exactly):
    """Its determinant is that of the joint precision of coordinates and E, with E integrated out first."""
    shape, rank, tau, link = case
    at = mode_of(tied_battles(shape, rank), rank, tau, link=link).at
    twin = Twin.of(at)
    n = at.scores.design.shape[0] * at.scores.design.n_contexts
    determinant = np.linalg.slogdet(twin.precision)[1] + 2 * n * np.log(tau)
    height = log_posterior(at, np.zeros(at.scores.space.size), 0.0)
    assert at.log_evidence == pytest.approx(height - determinant / 2, abs=1e-5 * abs(determinant))
    dense = at._closed(at.information).dense()
    assert at.factor.log_determinant() == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-9)


@modes
def test_the_evidence_of_other_taus_is_that_of_the_quadratic(case):
    """With E and the coordinates integrated out of the expansion, wherever its own mode is."""
    shape, rank, tau, link = case
    at = mode_of(tied_battles(shape, rank), rank, tau, link=link).at
    place, size = entries(at.scores.design), at.scores.space.size

    def direct(other):
        twin = Twin.of(at.at_tau(other))
        right = np.zeros(len(twin.precision))
        right[size + place] = twin.g[place] - at.scores.E / other**2
        right[:size] = twin.J.T @ twin.g - prior_gradient(at)
        right[at.scores.space.extra] = at.effect_gradient
        n = at.scores.design.shape[0] * at.scores.design.n_contexts
        height = right @ np.linalg.solve(twin.precision, right) - at.scores.E @ at.scores.E / other**2
        return 0.5 * (height - np.linalg.slogdet(twin.precision)[1]) - n * np.log(other)

    found = [at.at_tau(f * tau).log_evidence for f in (0.5, 1.0, 2.0)]
    expected = [direct(f * tau) for f in (0.5, 1.0, 2.0)]
    np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=1e-4)


@modes
def test_the_slope_of_the_evidence_is_its_derivative(case):
    """In tau^2, against differences."""
    shape, rank, tau, link = case
    at = mode_of(tied_battles(shape, rank), rank, tau, link=link).at
    low, high = (tau * float(np.sqrt(1 + away)) for away in (-1e-3, 1e-3))
    told = at.told(np.eye(at.scores.design.n_slots))
    slope, curvature = at.evidence_slope(np.trace(told - at.left_by_steps(told)))
    difference = (at.at_tau(high).log_evidence - at.at_tau(low).log_evidence) / (high**2 - low**2)
    assert slope == pytest.approx(difference, rel=1e-4, abs=1e-3 * np.sqrt(curvature))


def test_an_offset_is_part_of_the_scores():
    """Known deviations: those that are left are as if the votes had been cast without them."""
    at = mode_of(tied_battles((8, 4), 1, 4000), 1, 0.1).at
    scores = at.scores
    moved = replace(scores, E=scores.E - 0.3, offset=np.full(len(scores.E), 0.3))
    np.testing.assert_allclose(moved.field.dense(), scores.field.dense(), atol=1e-12)
    assert moved.loss == pytest.approx(scores.loss)
    step = np.zeros(scores.space.size)
    assert np.all(moved.moved(step, np.zeros(len(scores.E))).offset == 0.3)


def test_without_deviations_it_is_the_low_rank_fit(exactly):
    _, battles = simulated((10, 6), 2, 60_000)
    fit = lrbtl.fit(battles, 2, ridge=0.0)
    error = np.sqrt(np.mean(lrbtl.infer(battles, lrbtl.all_scores(), rank=2, method="mle", ridge=0.0).se ** 2))
    for tau in (0.0, 1e-5):
        assert np.abs(mode_of(battles, 2, tau).scores.field.dense() - fit.scores).max() < 0.1 * error


def test_with_large_deviations_it_is_separate_fits(exactly):
    _, battles = simulated((6, 4), 2, 8000)
    separate = np.asarray(lrbtl.fit_separate(battles).scores)
    found = mode_of(battles, 1, 100.0).scores.field.dense()
    np.testing.assert_allclose(found, separate, atol=1e-3)


def test_between_them_deviations_are_shrunk(exactly):
    battles = tied_battles((8, 5), 1, 4000)
    sizes = [np.sqrt(np.mean(mode_of(battles, 1, tau).scores.E ** 2)) / tau for tau in (0.05, 0.2, 1.0)]
    assert sizes[0] < 1 and sizes[1] < 1 and sizes[2] < sizes[1]


def test_a_gap_of_two_models_that_nothing_tells_has_an_interval():
    """Two modes of contexts: one of two models won everything in two of the four contexts."""
    contexts = [[0, 0, 1, 1], [0, 1, 1, 1]]
    battles = lrbtl.Battles.from_arrays([0] * 4, [1] * 4, [0, 1, 0, 1], contexts, counts=[100, 1, 1, 103])
    found = lrbtl.infer(battles, [lrbtl.gap(0, 1, (0, 0)), lrbtl.gap(0, 1, (1, 1))])
    assert np.all(found.se > 0.5) and found.estimate[0] < 0 < found.estimate[1]


def test_gradients_within_the_gauge():
    space = TangentSpace(random_point((6, 5, 3), (3, 2, 2), 2))
    found = within_gauge(space, np.random.default_rng(0).normal(size=space.size))
    found[space.core_slice] = 0.0
    assert gauge_residual(space, found) < 1e-12


@pytest.mark.parametrize("size", [3, 60])
def test_inverses_of_many_matrices(size):
    rows = np.random.default_rng(0).normal(size=(4, size, 2 * size))
    H = rows @ rows.transpose(0, 2, 1)
    matrices = 0.3 * H + np.eye(size)
    told = H.copy()
    determinant = told_parts(told, 0.3)
    np.testing.assert_allclose(told @ matrices, H, atol=1e-7 * H.max())
    assert determinant == pytest.approx(-np.linalg.slogdet(matrices)[1].sum())
