"""The paper's initial estimator against its formulas written out with dense arrays."""

import numpy as np
import pytest
from scipy.optimize import minimize

import lrbtl
from lrbtl.fitting import altmin


def votes(n=6000, shape=(9, 6), rank=2, seed=0):
    truth = lrbtl.simulate_scores(shape, rank, scale=1.5, rng=seed)
    return truth, lrbtl.simulate_battles(truth, n, rng=seed + 1)


def penalised_loss(scores, battles, penalty):
    cells = battles.cells
    flat = scores.reshape(len(scores), -1)
    eta = flat[cells.a, cells.context] - flat[cells.b, cells.context]
    return float(cells.count @ (np.logaddexp(0, eta) - cells.y * eta)) + penalty


@pytest.mark.parametrize("shape", [(7,), (7, 5), (6, 4, 3)])
def test_spectral_start_is_the_truncated_linearised_estimate(shape):
    _, battles = votes(3000, shape)
    cells, d1 = battles.cells, shape[0]
    sums = np.zeros((d1, int(np.prod(shape[1:]))))
    for u, a, b, y, n in zip(cells.context, cells.a, cells.b, cells.y, cells.count, strict=True):
        sums[a, u] += n * (y - 0.5)
        sums[b, u] -= n * (y - 0.5)
    d_eff = sums.shape[1] * (d1 - 1) / 2
    dense = 4 * d_eff / battles.n_battles * sums
    found = lrbtl.spectral_initialisation(battles, 2 if len(shape) > 1 else 1)
    if len(shape) == 1:
        np.testing.assert_allclose(found, dense[:, 0], atol=1e-12)
    elif len(shape) == 2:
        left, values, right = np.linalg.svd(dense, full_matrices=False)
        np.testing.assert_allclose(found, (left[:, :2] * values[:2]) @ right[:2], atol=1e-10)
    else:
        assert np.linalg.norm(found.reshape(dense.shape) - dense) < np.linalg.norm(dense)


def test_each_round_solves_both_regressions():
    _, battles = votes()
    start = lrbtl.spectral_initialisation(battles, 2)
    left, values, right = np.linalg.svd(start, full_matrices=False)
    root = np.sqrt(values[:2])
    U, V = left[:, :2] * root, right[:2].T * root

    def of_contexts(x):
        return penalised_loss(U @ x.reshape(V.shape).T, battles, 0.5 * altmin.RIDGE * np.sum(x**2))

    V = minimize(of_contexts, V.ravel(), method="BFGS", options={"gtol": 1e-4}).x.reshape(V.shape)

    def of_models(x):
        return penalised_loss(x.reshape(U.shape) @ V.T, battles, 0.5 * altmin.RIDGE * np.sum(x**2))

    U = minimize(of_models, U.ravel(), method="BFGS", options={"gtol": 1e-4}).x.reshape(U.shape)
    expected = U @ V.T
    found = lrbtl.alternating_minimisation(battles, 2, rounds=1)
    np.testing.assert_allclose(found, expected - expected.mean(axis=0), atol=2e-4)
    np.testing.assert_allclose(lrbtl.alternating_minimisation(battles, 2, rounds=1, start=start), found)
    assert np.linalg.matrix_rank(found, tol=1e-8) == 2


def test_rounds_approach_the_maximum_likelihood_fit():
    truth, battles = votes(20_000)
    found = lrbtl.alternating_minimisation(battles, 2, rounds=25)
    fit = lrbtl.fit(battles, 2, ridge=0.0)
    np.testing.assert_allclose(found, fit.scores, atol=2e-3)
    assert np.abs(found - truth).mean() < 0.1


def test_refinement_is_one_regression_per_row_and_per_column():
    _, battles = votes()
    given = lrbtl.spectral_initialisation(battles, 2)
    left, values, right = np.linalg.svd(given, full_matrices=False)
    root = np.sqrt(values[:2])
    U, V = left[:, :2] * root, right[:2].T * root
    cells = battles.cells
    rows = []
    for model in range(9):

        def of_row(x, model=model):
            total = 0.5 * altmin.RIDGE * np.sum(x**2)
            for u, a, b, y, n in zip(cells.context, cells.a, cells.b, cells.y, cells.count, strict=True):
                if model in (a, b):
                    other, won = (b, y) if model == a else (a, 1 - y)
                    eta = x @ V[u] - given[other, u]
                    total += n * (np.logaddexp(0, eta) - won * eta)
            return total

        rows.append(minimize(of_row, U[model], method="BFGS", options={"gtol": 1e-4}).x)
    U = np.array(rows) - np.mean(rows, axis=0)

    def of_contexts(x):
        return penalised_loss(U @ x.reshape(V.shape).T, battles, 0.5 * altmin.RIDGE * np.sum(x**2))

    V = minimize(of_contexts, V.ravel(), method="BFGS", options={"gtol": 1e-4}).x.reshape(V.shape)
    np.testing.assert_allclose(lrbtl.refine_entries(battles, given, 2), U @ V.T, atol=5e-4)


def test_separated_rows_stay_finite_and_clipped():
    a, b = np.zeros(60, dtype=int), np.tile([1, 2, 3], 20)
    context = np.repeat([0, 1], 30)
    wins = lrbtl.Battles.from_arrays(
        np.append(a, [1, 2, 3, 1, 2, 3]),
        np.append(b, [2, 3, 1, 2, 3, 1]),
        np.append(np.ones(60), [1, 0, 1, 0, 1, 0]),
        (np.append(context, [0, 0, 0, 1, 1, 1]),),
    )
    found = lrbtl.alternating_minimisation(wins, 1, clip=3.0)
    assert np.isfinite(found).all() and np.abs(found).max() < 6.0  # clipped at 3, then centred
    assert (found[0] > found[1:]).all()


def test_bad_input_is_named():
    _, battles = votes(3000, (6, 4, 3))
    with pytest.raises(lrbtl.errors.RankError, match="not a matrix"):
        lrbtl.alternating_minimisation(battles, 2)
    _, battles = votes(3000)
    with pytest.raises(lrbtl.errors.RankError, match="do not fit"):
        lrbtl.refine_entries(battles, np.zeros((3, 3)), 2)
    with pytest.raises(lrbtl.errors.MethodError, match="rounds"):
        lrbtl.alternating_minimisation(battles, 2, rounds=0)
    entries = lrbtl.Results.from_arrays([(0, 0)], [1.0], shape=(2, 2))
    with pytest.raises(lrbtl.errors.InputTypeError, match="votes"):
        lrbtl.spectral_initialisation(entries, 1)
