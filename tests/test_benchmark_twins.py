"""What benchmarks judge the default by computes what it claims: mixed models and the oracle of thin logs."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize

import lrbtl


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


fair_baselines, thin_oracle = load("fair_baselines"), load("thin_oracle")


def dense_evidence(counts, sizes):
    """Return Laplace evidence, mode and covariance of all scores from a dense prior covariance K of the scores."""
    D, d = counts.won.shape[:2]
    same = np.equal.outer(counts.groups.ravel(), counts.groups.ravel()).reshape(D, -1, D, counts.groups.shape[1])
    share = np.einsum("ukvk,k->uv", same, sizes[counts.kinds[counts.groups[0]]] ** 2.0)
    K = np.kron(share, np.eye(d)) + sizes[-1] ** 2 * np.eye(D * d)
    inverse = np.linalg.inv(K)

    def loss(t):
        T = t.reshape(D, d)
        return np.sum(counts.won * np.logaddexp(0, T[:, None] - T[:, :, None])) + t @ inverse @ t / 2

    def gradient(t):
        T = t.reshape(D, d)
        p = 1 / (1 + np.exp(T[:, None] - T[:, :, None]))
        return -np.sum(counts.won - counts.n * p, axis=2).ravel() + inverse @ t

    t = minimize(loss, np.zeros(D * d), jac=gradient, method="BFGS", options={"gtol": 1e-8}).x
    T = t.reshape(D, d)
    H = inverse.copy()
    for u in range(D):
        p = 1 / (1 + np.exp(T[u] - T[u][:, None]))
        w = counts.n[u] * p * (1 - p)
        here = slice(u * d, (u + 1) * d)
        H[here, here] += np.diag(w.sum(axis=1)) - w
    return -loss(t) - (np.linalg.slogdet(H)[1] + np.linalg.slogdet(K)[1]) / 2, T, np.linalg.inv(H)


@pytest.mark.parametrize("crossed", [False, True])
def test_mixed_model_is_the_laplace_approximation_of_its_dense_twin(crossed):
    truth = lrbtl.simulate_scores((6, 3, 2), 2, scale=1.0, rng=0)
    counts = fair_baselines.count(lrbtl.simulate_battles(truth, 300, rng=1), crossed=crossed)
    sizes = np.array([0.8, 0.4, 0.5, 0.3]) if crossed else np.array([0.8, 0.3])
    model = fair_baselines.Mixed(counts, sizes)
    evidence, T, cov = dense_evidence(counts, sizes)
    np.testing.assert_allclose(model.evidence, evidence, atol=1e-3)
    np.testing.assert_allclose(model.scores(model.beta, model.deviations), T, atol=2e-3)
    mean, variance = model.moments(np.array([0, 4]), np.array([1, 2]), np.array([3, 0]))
    block = cov.reshape(6, 6, 6, 6)
    wanted = [block[u, a, u, a] + block[u, b, u, b] - 2 * block[u, a, u, b] for u, a, b in ((0, 1, 3), (4, 2, 0))]
    np.testing.assert_allclose(variance, wanted, rtol=1e-3)
    np.testing.assert_allclose(mean, [T[0, 1] - T[0, 3], T[4, 2] - T[4, 0]], atol=2e-3)


def test_separate_fits_have_no_shared_effects():
    counts = fair_baselines.count(lrbtl.simulate_battles(np.zeros((4, 3)), 60, rng=0), shared=False)
    model = fair_baselines.Mixed(counts, np.array([1.5]))
    assert model.beta.size == 0
    assert np.all(model.moments(np.array([0]), np.array([0]), np.array([1]))[1] < 2 * 1.5**2)


@pytest.mark.parametrize("name", ["60, 600, traffic", "60, 600, t3", "30, 450, star"])
def test_gradient_of_the_oracles_density(name):
    design = thin_oracle.DESIGNS[name]
    target = thin_oracle.Smooth(design, thin_oracle.draw_log(design, 0, 0))
    x = np.random.default_rng(0).normal(size=design.models * (2 if target.linked else 1))

    def value(x):
        return target.value_gradient(x[None])[0][0]

    def gradient(x):
        return target.value_gradient(x[None])[1][0]

    assert check_grad(value, gradient, x) < 1e-3


def test_law_of_near_pairs_is_a_law_with_the_given_distance():
    law = thin_oracle.near_law(60)
    np.testing.assert_allclose(law.sum(), 2.0)
    np.testing.assert_allclose(law, law.T)
    distance = np.abs(np.subtract.outer(np.arange(60), np.arange(60)))
    assert 3.0 < np.sum(law * distance) / 2 < 3.7  # mean 3.6 less what is reflected at the ends


def test_oracle_of_two_models_is_the_posterior_by_quadrature():
    design = thin_oracle.Design("two", 2, 8)
    log = thin_oracle.Log(np.zeros(2), np.zeros(0), np.array([0]), np.array([1]), np.array([7]), np.array([1]))
    gap = np.diff(thin_oracle.oracle_draws(design, log, 0), axis=1)[:, 0]
    grid = np.linspace(-8, 8, 4001)
    weight = np.exp(-(grid**2) / 4 - 7 * np.logaddexp(0, grid) - np.logaddexp(0, -grid))
    mean = weight @ grid / weight.sum()
    np.testing.assert_allclose(gap.mean(), mean, atol=0.06)
    np.testing.assert_allclose(gap.std(), np.sqrt(weight @ (grid - mean) ** 2 / weight.sum()), rtol=0.06)
