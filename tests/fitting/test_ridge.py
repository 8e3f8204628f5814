"""The criterion that chooses the ridge, and how good its choice is."""

import numpy as np
import pytest

import lrbtl
from lrbtl.fitting import newton as newton_module
from lrbtl.fitting.design import Design
from lrbtl.fitting.fit import spectral_start
from lrbtl.fitting.local import add_penalty, penalty_terms
from lrbtl.fitting.newton import choose_ridge, complexity, minimise, noise_ridge
from lrbtl.fitting.solvers import accumulate, fix_gauge
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.model.links import logistic_terms
from problems import SMALL_CASES, simulated


def problem(case, n=800):
    design = Design.of(simulated(case[0], case[1], n)[1])
    ridge = np.full(max(len(case[0]), 2), 1.5)
    return design, ridge, minimise(design, spectral_start(design, case[1]), ridge, tol=1e-8).point


@pytest.mark.parametrize("case", SMALL_CASES)
def test_complexity_is_the_dense_trace(case):
    design, ridge, point = problem(case)
    space = TangentSpace(point)
    loss, score, fisher = logistic_terms(design.eta(space), design.y)
    _, hessians, core_diagonal = penalty_terms(space, ridge)
    fixed = fix_gauge if len(space.factors) > 2 else lambda matrix, space: matrix  # a matrix's ridge fixes the gauge
    K = accumulate(design, space, design.count * fisher)
    B = accumulate(design, space, design.count * score**2).dense()
    inverse = np.linalg.inv(fixed(add_penalty(K, space, hessians, core_diagonal), space).dense())
    found = complexity(design, point, ridge)
    assert found.loss == pytest.approx(design.count @ loss)
    assert found.parameters == pytest.approx(np.trace(inverse @ K.dense()), rel=1e-6)
    shrink = 1 - found.parameters / design.count.sum()
    assert found.optimism == pytest.approx(np.trace(inverse @ B) / shrink**2, rel=1e-6)
    assert found.criterion == found.loss + found.optimism


@pytest.mark.parametrize("case", SMALL_CASES)
def test_without_a_ridge_every_dimension_counts(case):
    design, ridge, point = problem(case)
    assert complexity(design, point, 0 * ridge).parameters == pytest.approx(TangentSpace(point).dimension, rel=1e-6)
    parameters = [complexity(design, point, t * ridge).parameters for t in (0.1, 1.0, 10.0)]
    assert np.all(np.diff(parameters) < 0)


def test_random_signs_estimate_the_traces(monkeypatch):
    design, ridge, point = problem(((20, 15), (2, 2)), 3000)
    exact = complexity(design, point, ridge)
    monkeypatch.setattr(newton_module, "EXACT_TRACE", 0)
    monkeypatch.setattr(newton_module, "PROBES", 64)
    probed = complexity(design, point, ridge)
    assert probed.parameters == pytest.approx(exact.parameters, rel=0.05)
    assert probed.optimism == pytest.approx(exact.optimism, rel=0.1)


def test_noise_ridge_is_a_quarter_of_the_noise():
    """Under zero scores the gradient's operator norm is about four times the pilot's ridge for a full unfolding."""
    battles = lrbtl.simulate_battles(np.zeros((30, 20)), 20_000, rng=0)
    design = Design.of(battles)
    sums = np.asarray(design.tensor_sums(design.count * (design.y - 0.5)))
    ridge = noise_ridge(design, (20, 20))
    assert np.linalg.norm(sums, 2) == pytest.approx(4 * ridge[0], rel=0.15)
    assert len(noise_ridge(Design.of(lrbtl.simulate_battles(np.zeros(5), 100, rng=0)), (1,))) == 2


def excess_loss(truth, scores):
    """Mean Kullback-Leibler divergence of a uniform battle, in nats."""
    a, b = np.triu_indices(len(truth), 1)
    true, fitted = truth[a] - truth[b], scores[a] - scores[b]
    p = 1 / (1 + np.exp(-true))
    return np.mean(p * (true - fitted) + np.logaddexp(0, fitted) - np.logaddexp(0, true))


@pytest.mark.parametrize(("shape", "rank", "n", "scale"), [((30, 10), 3, 1600, 3.0), ((20, 8), 2, 4000, 2.0)])
def test_choice_is_near_the_best_fixed_ridge(shape, rank, n, scale):
    """Also on weak data (30 x 10, rank 3, 1,600 battles), where simpler rules run to zero scores."""
    ratios = []
    for seed in range(3):
        truth, battles = simulated(shape, rank, n, scale=scale, seed=10 * seed)
        design = Design.of(battles)
        start = spectral_start(design, (rank, rank))
        ridge, newton = choose_ridge(design, start)
        assert newton.converged
        losses, point = [], start
        for fixed in noise_ridge(design, (rank, rank)).mean() * 2.0 ** np.arange(2.5, -3.5, -0.5):
            point = minimise(design, start, np.full(2, fixed)).point
            losses.append(excess_loss(truth, point.dense()))
        found = excess_loss(truth, newton.point.dense())
        ratios.append(found / min(losses))
        assert found < 0.7 * excess_loss(truth, np.zeros(shape))
        assert np.ptp(ridge) < 1e-9 * ridge[0]
    assert np.median(ratios) < 1.25


def test_a_tensor_gets_one_ridge_per_mode():
    truth, battles = simulated((12, 5, 4), (3, 2, 2), 5000)
    design = Design.of(battles)
    ridge, newton = choose_ridge(design, spectral_start(design, (3, 2, 2)))
    assert ridge.shape == (3,) and np.all(ridge > 0) and newton.converged
    assert np.linalg.norm(newton.point.dense() - truth) < 0.4 * np.linalg.norm(truth)
