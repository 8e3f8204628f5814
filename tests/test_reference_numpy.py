"""The benchmark rival computes what it claims: its objective, its minimum and its one-step against the dense oracle."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import oracle

_SPEC = importlib.util.spec_from_file_location(
    "reference_numpy", Path(__file__).parents[1] / "benchmarks" / "reference_numpy.py"
)
reference = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = reference
_SPEC.loader.exec_module(reference)

SHAPE, RANK, RIDGE = (5, 4), 2, 0.7


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    rows = oracle.random_rows(oracle.random_scores(SHAPE, (RANK, RANK), rng, scale=1.5), 400, rng)
    u, a, b, y, _ = zip(*rows, strict=True)
    n = rng.integers(1, 4, size=len(rows)).astype(float)
    arrays = reference.Rows(np.array(a), np.array(b), np.array(u)[:, 0], np.array(y), n, *SHAPE)
    return [(*row[:4], count) for row, count in zip(rows, n, strict=True)], arrays


def objective(rows, U, V):
    total = 0.5 * RIDGE * (np.sum(U**2) + np.sum(V**2))
    for (u,), a, b, y, n in rows:
        eta = (U[a] - U[b]) @ V[u]
        total += n * (np.log1p(np.exp(eta)) - y * eta)
    return total


@pytest.mark.parametrize("thin", [False, True])
def test_fit_is_a_minimum_of_the_stated_objective(problem, thin):
    rows, arrays = problem
    if thin:  # fewer cells than entries of T: the route through the factor rows
        rows = rows[:9]
        arrays = reference.Rows(*(getattr(arrays, name)[:9] for name in "abuyn"), *SHAPE)
    fit = reference.fit_lbfgs(arrays, RANK, RIDGE, ftol=0.0, gtol=1e-8)
    assert fit.objective == pytest.approx(objective(rows, fit.U, fit.V), rel=1e-12)
    step = 1e-5
    for factor in (fit.U, fit.V):
        for index in np.ndindex(factor.shape):
            centre = factor[index]
            factor[index] = centre + step
            above = objective(rows, fit.U, fit.V)
            factor[index] = centre - step
            below = objective(rows, fit.U, fit.V)
            factor[index] = centre
            assert abs(above - below) / (2 * step) < 1e-4


def test_fit_stops_at_a_given_value(problem):
    _, arrays = problem
    best = reference.fit_lbfgs(arrays, RANK, RIDGE)
    early = reference.fit_lbfgs(arrays, RANK, RIDGE, stop_at=1.01 * best.objective)
    assert best.objective < early.objective <= 1.01 * best.objective
    assert early.n_evaluations < best.n_evaluations


def test_one_step_agrees_with_the_oracle(problem):
    rows, arrays = problem
    rng = np.random.default_rng(1)
    folds = np.array([rng.multinomial(int(n), [0.5, 0.3, 0.2]) for n in arrays.n]).T.astype(float)
    gammas = np.stack([np.eye(20)[3].reshape(SHAPE), rng.standard_normal(SHAPE)])
    estimate, se = reference.one_step_numpy(arrays, folds, gammas, RANK, RIDGE, ftol=1e-14)
    whole = reference.fit_lbfgs(arrays, RANK, RIDGE, ftol=1e-14)
    fits = []
    for n_k in folds:
        keep = np.flatnonzero(arrays.n - n_k)
        train = reference.Rows(*(getattr(arrays, c)[keep] for c in "abuy"), (arrays.n - n_k)[keep], *SHAPE)
        fit = reference.fit_lbfgs(train, RANK, RIDGE, (whole.U, whole.V), ftol=1e-14)
        fits.append(oracle.centring(fit.U @ fit.V.T))
    expected = oracle.one_step(fits, folds, rows, [oracle.linear_target(g) for g in gammas], (RANK, RANK))
    np.testing.assert_allclose(estimate, expected.estimate, rtol=1e-9)
    np.testing.assert_allclose(se, expected.se, rtol=1e-9)
