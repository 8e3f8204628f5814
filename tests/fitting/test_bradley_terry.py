import numpy as np
import pytest
from scipy.optimize import minimize

from lrbtl.fitting import bradley_terry as btl
from lrbtl.fitting.bradley_terry import Pairs, centred_inverse, fit_batch, information, laplacian, pair_cells


def random_problem(rng, size, scale=1.0, n=400):
    theta = scale * rng.standard_normal(size)
    i, j = np.triu_indices(size, 1)
    weight = rng.multinomial(n, np.full(i.size, 1 / i.size)) + 1.0
    wins = rng.binomial(weight.astype(int), 1 / (1 + np.exp(theta[j] - theta[i])))
    return i, j, weight, (wins + 0.5) / (weight + 1.0)


def scipy_fit(size, i, j, weight, mean):
    def loss(theta):
        eta = theta[i] - theta[j]
        p = 1 / (1 + np.exp(-eta))
        score = weight * (p - mean)
        gradient = np.bincount(i, score, size) - np.bincount(j, score, size)
        return weight @ (np.logaddexp(0, eta) - mean * eta), gradient

    theta = minimize(loss, np.zeros(size), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-15}).x
    return theta - theta.mean()


def test_batch_of_different_sizes_equals_scipy_one_by_one():
    rng = np.random.default_rng(0)
    sizes = np.array([7, 5, 3, 2])
    problems = [random_problem(rng, size) for size in sizes]
    columns = [np.concatenate(parts) for parts in zip(*problems, strict=True)]
    number = np.repeat(np.arange(4), [p[0].size for p in problems])
    fit = fit_batch(Pairs(number, *columns), sizes)
    assert fit.converged.all()
    for k, (size, problem) in enumerate(zip(sizes, problems, strict=True)):
        np.testing.assert_allclose(fit.scores[k, :size], scipy_fit(size, *problem), atol=2e-5)
        assert not fit.scores[k, size:].any()
        eta = fit.scores[k][problem[0]] - fit.scores[k][problem[1]]
        score = problem[2] * (problem[3] - 1 / (1 + np.exp(-eta)))
        gradient = np.bincount(problem[0], score, size) - np.bincount(problem[1], score, size)
        np.testing.assert_allclose(gradient, 0, atol=1e-7)
        assert abs(fit.scores[k].sum()) < 1e-12


@pytest.mark.parametrize("mean", [1e-9, 0.5, 1 - 1e-6])
def test_two_models_have_a_closed_form(mean):
    one = np.array([0]), np.array([0]), np.array([1]), np.array([1e6]), np.array([mean])
    gap = np.subtract(*fit_batch(Pairs(*one), np.array([2])).scores[0])
    assert gap == pytest.approx(np.log(mean / (1 - mean)), abs=1e-6)


def test_long_chain_with_lopsided_links_converges():
    """Newton's first steps overshoot here and must be shortened."""
    size = 60
    i, j = np.arange(size - 1), np.arange(1, size)
    mean = np.where(i % 2, 0.999, 0.4)
    fit = fit_batch(Pairs(np.zeros_like(i), i, j, np.full(i.size, 1000.0), mean), np.array([size]))
    assert fit.converged.all()
    np.testing.assert_allclose(-np.diff(fit.scores[0]), np.log(mean / (1 - mean)), atol=1e-7)


def test_iteration_limit_is_reported(monkeypatch):
    monkeypatch.setattr(btl, "MAX_ITER", 2)
    rng = np.random.default_rng(1)
    i, j, weight, mean = random_problem(rng, 6, scale=3.0)
    fit = fit_batch(Pairs(np.zeros_like(i), i, j, weight, mean), np.array([6]))
    assert not fit.converged.any()


def test_laplacians_agree_with_outer_products():
    rng = np.random.default_rng(2)
    i, j = np.triu_indices(5, 1)
    weight = rng.random(i.size)
    x = np.eye(5)[i] - np.eye(5)[j]
    dense = (weight[:, None] * x).T @ x
    np.testing.assert_allclose(laplacian(i, j, weight, 5), dense, atol=1e-14)
    np.testing.assert_allclose(laplacian(np.r_[i, j], np.r_[j, i], np.r_[weight, weight], 5), 2 * dense, atol=1e-14)
    pairs = Pairs(np.ones_like(i), i, j, weight, weight)
    batch = information(pairs, weight, (2, 5))
    np.testing.assert_allclose(batch[1], dense, atol=1e-14)
    assert not batch[0].any()
    np.testing.assert_allclose(centred_inverse(dense), np.linalg.pinv(dense), atol=1e-10)
    with pytest.raises(np.linalg.LinAlgError):
        centred_inverse(0.0 * dense)


def test_pairs_of_cells():
    context, a, b = np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]), np.array([1, 1, 2, 2])
    u, i, j, weight, mean = pair_cells(context, a, b, np.array([0.0, 1.0, 0.5, 0.25]), np.array([1, 3, 2, 4]))
    assert (u.tolist(), i.tolist(), j.tolist()) == ([0, 0, 1], [0, 0, 0], [1, 2, 2])
    assert (weight.tolist(), mean.tolist()) == ([4.0, 2.0, 4.0], [0.75, 0.5, 0.25])
