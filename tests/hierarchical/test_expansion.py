"""The posterior round some scores against dense formulas, and its limits: low-rank fits and separate fits."""

from dataclasses import replace

import numpy as np
import pytest

import lrbtl
from hierarchy_twin import (
    MODES,
    NODES,
    WEIGHTS,
    Twin,
    dense_eta,
    entries,
    eta_variance,
    level_precision,
    log_posterior,
    mean_terms,
    mode_at,
    mode_of,
    on_grid,
    prior_cost,
    spread_out,
    tied_battles,
)
from lrbtl.hierarchical.covariance import ScoreCovariance
from lrbtl.hierarchical.expansion import integrate_out, left_by_steps
from lrbtl.hierarchical.level_prior import LevelPrior
from lrbtl.hierarchical.mode import deviation_step, find_mode
from lrbtl.hierarchical.pairings import DesignCovariates
from lrbtl.model.links import LINKS
from problems import battle_matrix, simulated

modes = pytest.mark.parametrize("name", MODES)
spreads = pytest.mark.parametrize("spread", [False, True], ids=["at", "over"])


def away_from(at):
    """The same expansion at scores that are no mode."""
    rng, scores = np.random.default_rng(1), at.scores
    step = 0.05 * rng.normal(size=scores.space.size)
    step[scores.space.extra] = 0.1
    dE = 0.3 * at.tau * rng.normal(size=scores.design.n_slots)
    return replace(at, scores=scores.moved(step, dE))


def tolerance(spread):
    """The rule of nine points is not that of two hundred."""
    return 2e-4 if spread else 1e-6


@modes
@spreads
def test_votes_terms_are_those_of_dense_matrices(name, spread):
    at = mode_at(name, spread)
    twin, design, place = Twin.of(at), at.scores.design, entries(at.scores.design)
    scale = tolerance(spread) * np.abs(twin.H).max()
    np.testing.assert_allclose(at.votes.gradient, twin.g[place], atol=10 * scale)
    columns = np.random.default_rng(0).normal(size=(design.n_slots, 2))
    H = twin.H[np.ix_(place, place)]
    np.testing.assert_allclose(at.marginal.apply_information(columns), H @ columns, atol=10 * scale)
    S = np.linalg.inv(np.eye(len(H)) + at.tau**2 * H)
    np.testing.assert_allclose(at.marginal.apply(columns), S @ H @ columns, atol=10 * scale)
    np.testing.assert_allclose(at.marginal.apply_shrinkage(columns), S @ columns, atol=10 * tolerance(spread))


@modes
@spreads
def test_the_gradient_is_that_of_the_log_posterior(name, spread):
    """Away from the mode, after E has been taken to its best value: the gradient in level + L and effects."""
    here = away_from(mode_at(name, spread))
    twin, design = Twin.of(here), here.scores.design
    place, size, none = entries(design), here.scores.space.size, np.zeros(design.n_slots)
    gradient, rng, h = here.gradient(), np.random.default_rng(2), 1e-5
    for _ in range(4):
        step = rng.normal(size=size)
        for part, block in here.scores.space.gauge():  # within the gauge: a retraction undoes the rest
            step[part] -= np.linalg.pinv(block) @ block @ step[part]
        up, down = (log_posterior(here, here.scores.moved(sign * h * step, none)) for sign in (1, -1))
        profile = (up - down) / (2 * h)
        if here.tau > 0:
            g = twin.g[place] - here.scores.E / here.tau**2
            inner = twin.precision[size + place][:, size + place]
            profile -= (twin.precision[:size, size + place].T @ step) @ np.linalg.solve(inner, g)
        assert gradient @ step == pytest.approx(profile, rel=1e-4, abs=2e-3 if spread else 2e-4)


@modes
@spreads
def test_one_step_solves_the_joint_normal_equations(name, spread):
    here = away_from(mode_at(name, spread))
    twin, size, place = Twin.of(here), here.scores.space.size, entries(here.scores.design)
    exact = np.linalg.solve(twin.precision, twin.gradient(here))
    step = here.factor.solve(here.gradient())
    scale = 10 * tolerance(spread) * np.abs(exact).max()
    np.testing.assert_allclose(twin.J @ step, twin.J @ exact[:size], atol=scale)
    np.testing.assert_allclose(step[here.scores.space.extra], exact[here.scores.space.extra], atol=scale)
    if here.tau > 0:
        np.testing.assert_allclose(deviation_step(here, step), exact[size + place], atol=scale)


@modes
@spreads
def test_the_precision_is_the_dense_one_with_deviations_integrated_out(name, spread):
    at = mode_at(name, spread)
    twin, size = Twin.of(at), at.scores.space.size
    P = twin.precision
    schur = P[:size, :size] - P[:size, size:] @ np.linalg.solve(P[size:, size:], P[size:, :size])
    found = at._closed(at.information).dense()
    np.testing.assert_allclose(found, schur, atol=tolerance(spread) * np.abs(schur).max())


@modes
@spreads
def test_the_cost_is_the_negative_log_posterior(name, spread):
    at = away_from(mode_at(name, spread))
    assert at.cost(at.scores) == pytest.approx(-log_posterior(at, at.scores), rel=1e-5 if spread else 1e-9)
    assert at.prior_cost(at.scores) == pytest.approx(prior_cost(at, at.scores))


@modes
def test_the_evidence_is_laplaces(name):
    """Its determinant is that of the joint precision of coordinates and E."""
    at = mode_at(name)
    twin, n = Twin.of(at), at.scores.design.shape[0] * at.scores.design.n_contexts
    determinant = np.linalg.slogdet(twin.precision)[1] + 2 * n * (np.log(at.tau) if at.tau > 0 else 0.0)
    height = log_posterior(at, at.scores)
    expected = height - determinant / 2 + at.hyper.level.log_determinant / 2
    assert at.log_evidence == pytest.approx(expected, abs=1e-5 * abs(determinant))


@modes
def test_the_evidence_of_other_taus_is_that_of_the_quadratic(name):
    """With E and the coordinates integrated out of the expansion, wherever its own mode is."""
    at = mode_at(name)
    if at.tau == 0:
        return
    n = at.scores.design.shape[0] * at.scores.design.n_contexts

    def direct(tau):
        there = at.at_tau(tau)
        twin = Twin.of(there)
        right = twin.gradient(there)
        height = right @ np.linalg.solve(twin.precision, right) - at.scores.E @ at.scores.E / tau**2
        return 0.5 * (height - np.linalg.slogdet(twin.precision)[1]) - n * np.log(tau)

    found = [at.at_tau(f * at.tau).log_evidence for f in (0.5, 1.0, 2.0)]
    expected = [direct(f * at.tau) for f in (0.5, 1.0, 2.0)]
    np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=1e-3)


@modes
def test_the_slope_of_the_evidence_is_its_derivative(name):
    """In tau^2, against differences."""
    at = mode_at(name)
    if at.tau == 0:
        return
    low, high = (at.tau * float(np.sqrt(1 + away)) for away in (-1e-3, 1e-3))
    told = at.marginal.apply(np.eye(at.scores.design.n_slots))
    slope, curvature = at.evidence_slope(np.trace(told - left_by_steps(at, told)))
    difference = (at.at_tau(high).log_evidence - at.at_tau(low).log_evidence) / (high**2 - low**2)
    assert slope == pytest.approx(difference, rel=1e-3, abs=1e-3 * np.sqrt(curvature))


# ------------------------------------------------------------------------------
# Expectations over the posterior
# ------------------------------------------------------------------------------


def thin_log(shape, n=40):
    return simulated(shape, 1, n, scale=1.0)[1]


def bound_of(at):
    """E[log likelihood] - KL(posterior || prior), of zero-sum levels and E, by matrices written out."""
    scores, design = at.scores, at.scores.design
    d1, n = design.shape[0], design.n_slots if at.tau > 0 else 0
    basis = np.linalg.svd(np.ones((1, d1)))[2][1:].T
    X = battle_matrix(design)
    levels = np.repeat(np.eye(d1), design.n_contexts, axis=0)
    rows = X @ np.hstack([levels @ basis, np.eye(X.shape[1])[:, entries(design)][:, :n]])
    prior = np.zeros((d1 - 1 + n, d1 - 1 + n))
    prior[: d1 - 1, : d1 - 1] = basis.T @ level_precision(at.hyper.level) @ basis
    prior[d1 - 1 :, d1 - 1 :] = np.eye(n) / max(at.tau, 1e-300) ** 2 if n else 0.0
    eta, variance = dense_eta(scores), eta_variance(scores)
    likelihood, _, information = mean_terms(design.link, eta, design.y, variance)
    weight = design.count * information[:, 0, 0] / at.dispersion
    cov = np.linalg.inv(rows.T @ (weight[:, None] * rows) + prior)
    spread = np.einsum("ni,ij,nj->n", rows, cov, rows)
    away = np.concatenate([basis.T @ (scores.space.level - at.hyper.level.mean), scores.E[:n]])
    kl = np.trace(prior @ cov) - len(cov) + away @ prior @ away
    kl -= np.linalg.slogdet(prior)[1] + np.linalg.slogdet(cov)[1]
    return float(design.count @ likelihood) / at.dispersion - 0.5 * kl, spread


@pytest.mark.parametrize(("shape", "tau"), [((7,), 0.0), ((6, 3), 0.5), ((5, 2, 2), 0.3)])
def test_the_evidence_is_the_variational_bound(shape, tau):
    """Once variances of eta are those of the posterior, up to the constant of the gauge."""
    battles = thin_log(shape)
    at = spread_out(mode_of(battles, 0, tau, s=0.8), battles).at
    bound, spread = bound_of(at)
    np.testing.assert_allclose(spread, eta_variance(at.scores), rtol=1e-3)
    assert at.log_evidence + 0.5 * np.log(at.hyper.gauge) == pytest.approx(bound, abs=2e-3)


@pytest.mark.parametrize(("shape", "tau"), [((7,), 0.0), ((6, 3), 0.5)])
def test_the_bound_is_largest_at_the_mean(shape, tau):
    """At the posterior's variances it falls in all directions."""
    battles, rng = thin_log(shape), np.random.default_rng(0)
    at = spread_out(mode_of(battles, 0, tau, s=0.8), battles).at
    best = log_posterior(at, at.scores)
    for _ in range(10):
        step, dE = rng.normal(size=at.scores.space.size), tau * rng.normal(size=at.scores.design.n_slots)
        assert all(log_posterior(at, at.scores.moved(h * step, h * dE)) < best + 1e-6 for h in (-0.03, 0.03))


def test_the_bound_is_below_the_marginal_likelihood_and_near_it():
    """Three models and five votes: the integral over levels by brute force."""
    battles = lrbtl.Battles.from_arrays([0, 0, 1, 0, 1], [1, 1, 2, 2, 2], [1, 0, 1, 1, 1])
    mode = mode_of(battles, 0, 0.0)
    prior = LevelPrior(DesignCovariates.none(3), 1.0)
    at = replace(mode.at, hyper=replace(mode.at.hyper, level=prior))
    at = spread_out(replace(mode, at=at), battles).at
    basis, grid = np.linalg.svd(np.ones((1, 3)))[2][1:].T, np.linspace(-6, 6, 241)
    x = np.stack(np.meshgrid(grid, grid)).reshape(2, -1)
    level, design = basis @ x, at.scores.design
    X = battle_matrix(design)
    votes = design.count @ (design.y[:, None] * (X @ level) - np.logaddexp(0, X @ level))
    exact = np.log(np.sum(np.exp(votes - 0.5 * np.sum(x**2, axis=0)) / (2 * np.pi)) * (grid[1] - grid[0]) ** 2)
    found = at.log_evidence + 0.5 * np.log(at.hyper.gauge)
    assert exact - 0.05 < found < exact


@pytest.mark.parametrize("name", LINKS)
def test_expected_terms_are_means_over_eta(name):
    """Of loss, score and information, by a quadrature of two hundred points."""
    link, eta = LINKS[name], np.array([-2.0, -0.3, 0.0, 0.8, 1.5])
    link = link.moved(np.array([0.2])) if link.n_extra else link
    y, spread = np.array([1.0, 0.5, 0.0, 1.0, 0.5]), np.array([0.0, 0.1, 0.3, 0.6, 1.0])
    found = link.expected_terms(eta, y, spread)
    each = [link.terms(eta + node * np.sqrt(spread), y) for node in NODES]
    rough = 5e-3 if name == "cauchit" else 2e-3  # tails without an end
    for part in ("loss", "score", "fisher"):
        expected = WEIGHTS @ np.stack([np.broadcast_to(getattr(one, part), eta.shape) for one in each])
        np.testing.assert_allclose(np.broadcast_to(getattr(found, part), eta.shape), expected, atol=rough)
    if link.n_extra:
        for part in ("score", "cross", "own"):
            expected = np.tensordot(WEIGHTS, np.stack([getattr(one.effects, part) for one in each]), 1)
            np.testing.assert_allclose(getattr(found.effects, part), expected, atol=rough)


# ------------------------------------------------------------------------------
# Parts and limits
# ------------------------------------------------------------------------------


def test_an_offset_is_part_of_the_scores():
    """Known deviations: those that are left are as if the votes had been cast without them."""
    scores = mode_at("matrix").scores
    moved = replace(scores, E=scores.E - 0.3, offset=np.full(len(scores.E), 0.3))
    np.testing.assert_allclose(moved.field.dense(), scores.field.dense(), atol=1e-12)
    assert moved.loss == pytest.approx(scores.loss)
    step = np.zeros(scores.space.size)
    assert np.all(moved.moved(step, np.zeros(len(scores.E))).offset == 0.3)


def test_what_contexts_share_is_part_of_the_scores():
    scores = mode_at("matrix").scores
    shared = np.random.default_rng(0).normal(size=(10, 5))
    found = replace(scores, shared=shared)
    context, model = scores.design.slot_places
    np.testing.assert_allclose(found.on_slots - scores.on_slots, shared[model, context])
    away = found.field.dense() - scores.field.dense()
    np.testing.assert_allclose(away, shared - shared.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.eta_of(scores.design), dense_eta(found), atol=1e-12)


def test_without_priors_and_deviations_it_is_the_low_rank_fit():
    """Levels and one factor: a fit of rank two whose second factor of contexts is one."""
    _, battles = simulated((8, 4), 2, 20_000)
    fit = lrbtl.fit(battles, 4, ridge=0.0)
    found = mode_of(battles, 3, 0.0, s=1e3, factors=1e-6).scores.field.dense()
    np.testing.assert_allclose(found, fit.scores, atol=2e-3)


def test_with_large_deviations_it_is_separate_fits():
    _, battles = simulated((6, 4), 2, 8000)
    separate = np.asarray(lrbtl.fit_separate(battles).scores)
    found = mode_of(battles, 0, 100.0, s=100.0).scores.field.dense()
    np.testing.assert_allclose(found, separate, atol=1e-3)


def test_between_them_deviations_are_shrunk():
    battles = tied_battles((8, 5), 4000)
    sizes = [np.sqrt(np.mean(mode_of(battles, 0, tau).scores.E ** 2)) / tau for tau in (0.05, 0.2, 1.0)]
    assert sizes[2] < sizes[1] and sizes[0] * 0.05 < sizes[1] * 0.2 < sizes[2] * 1.0


def test_a_small_spread_of_levels_leaves_none():
    """But for what covariates tell, whose variance the traffic has too."""
    battles = tied_battles((8,), 500)
    found = [mode_of(battles, 0, 0.0, s=s) for s in (0.01, 0.3, 3.0)]
    sizes = [np.std(mode.at.hyper.level.residuals(mode.scores.space.level)) for mode in found]
    assert sizes[0] < sizes[1] < sizes[2]
    plain = LevelPrior(DesignCovariates.none(8), 0.01)
    at = replace(found[0].at, hyper=replace(found[0].at.hyper, level=plain))
    assert np.ptp(find_mode(at).scores.space.level) < 0.05


def test_factors_vanish_under_a_strong_prior():
    battles = tied_battles((8, 5), 500)
    weak, strong = (mode_of(battles, 1, 0.2, factors=precision).scores for precision in (0.1, 200.0))
    assert not weak.vanished and strong.space.point.singular_values[0][0] < 1e-3


def test_expansions_share_what_votes_say():
    at = mode_at("matrix")
    other = at.at_tau(0.4)
    assert other.votes is at.votes and other.tau == 0.4 and other.marginal.tau == 0.4
    assert at.at_tau(at.tau) is at
    np.testing.assert_allclose(other.log_evidence, replace(other).log_evidence)


def test_variances_of_eta_are_those_of_the_covariance():
    at = mode_at("tensor")
    C = Twin.of(at).C
    found = ScoreCovariance(at, at.scores.design).eta_variances
    X = battle_matrix(at.scores.design)
    expected = np.einsum("ni,ij,nj->n", X, C, X)
    np.testing.assert_allclose(at.scores.design.entries.of_atoms(found), expected, rtol=1e-5)


def test_values_on_the_grid():
    design = mode_at("matrix").scores.design
    values = np.arange(1.0, design.n_slots + 1)
    context, model = design.slot_places
    np.testing.assert_array_equal(on_grid(design, values).reshape(10, 5)[model, context], values)


@pytest.mark.parametrize("size", [3, 60])
def test_inverses_of_many_matrices(size):
    rows = np.random.default_rng(0).normal(size=(4, size, 2 * size))
    H = rows @ rows.transpose(0, 2, 1)
    matrices = 0.3 * H + np.eye(size)
    told = H.copy()
    determinant = integrate_out(told, 0.3)
    np.testing.assert_allclose(told @ matrices, H, atol=1e-7 * H.max())
    assert determinant == pytest.approx(-np.linalg.slogdet(matrices)[1].sum())
