"""Deviations of a model in all contexts at once, against dense matrices, and the variances of most evidence."""

import numpy as np
import pytest
from scipy import linalg

from lrbtl.hierarchical.correlated import CorrelatedDeviations, IndependentDeviations, estimate_variances, few_contexts

D1, D = 7, 6
LEVELS = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1])
PARTS = [np.eye(D), *(1.0 * (level == level[:, None]) for level in LEVELS)]
COV = 0.04 * PARTS[0] + 0.09 * PARTS[1] + 0.02 * PARTS[2]


@pytest.fixture
def votes():
    found = np.random.default_rng(0).uniform(0.0, 20.0, size=(D, D1))
    found[2, 3] = 0.0  # a model without votes in a context
    return found.reshape(-1)


def test_related_deviations_are_those_of_dense_matrices(votes):
    rng, own = np.random.default_rng(1), CorrelatedDeviations(COV, votes)
    columns = rng.normal(size=(D * D1, 3))
    cube = columns.reshape(D, D1, 3)
    for a in range(D1):
        B = np.linalg.inv(np.linalg.inv(COV) + np.diag(votes.reshape(D, D1)[:, a]))
        np.testing.assert_allclose(own.posterior_times(columns).reshape(cube.shape)[:, a], B @ cube[:, a])
        np.testing.assert_allclose(own.posterior_variance.reshape(D, D1)[:, a], np.diag(B))
        np.testing.assert_allclose(own.weighed(columns).reshape(cube.shape)[:, a], np.linalg.solve(COV, cube[:, a]))
    drawn = own.drawn(rng, 20_000).reshape(D, D1, -1)[:, 4]
    np.testing.assert_allclose(drawn @ drawn.T / 20_000, np.linalg.inv(COV), atol=1.0)


def test_independent_deviations_are_those_with_a_diagonal_covariance(votes):
    alone, same = IndependentDeviations(0.3, votes), CorrelatedDeviations(0.09 * np.eye(D), votes)
    columns = np.random.default_rng(2).normal(size=(D * D1, 2))
    np.testing.assert_allclose(alone.posterior_times(columns), same.posterior_times(columns))
    np.testing.assert_allclose(alone.weighed(columns), same.weighed(columns))
    np.testing.assert_allclose(alone.posterior_variance, same.posterior_variance)
    assert np.std(alone.drawn(np.random.default_rng(3), 5000)) == pytest.approx(1 / 0.3, rel=0.01)
    assert not IndependentDeviations(0.0, votes).posterior_times(columns).any()


def simulated(n=400):
    """Return information (n, D), h y, context vectors and the prior of rows, for deviations of covariance COV."""
    rng = np.random.default_rng(4)
    V, votes = np.array([0.7, 0.0]) + 0.3 * rng.normal(size=(D, 2)), rng.uniform(2.0, 30.0, size=(n, D))
    y = rng.multivariate_normal(np.zeros(D), COV, n) + rng.normal(size=(n, D)) / np.sqrt(votes)
    return votes, votes * (y + 0.3 * rng.normal(size=(n, 2)) @ V.T), V, np.full((n, 2), 0.5)


def log_evidence(variances, votes, told, V, precision):
    """Return the log density of what votes say of models' deviations, with their rows integrated out."""
    cov, out = np.tensordot(variances, np.stack(PARTS), 1), 0.0
    for h, hy, p in zip(votes, told, precision, strict=True):
        spread = cov + np.diag(1.0 / h) + V @ np.diag(1.0 / p) @ V.T
        factor = linalg.cho_factor(spread)
        out -= 0.5 * float((hy / h) @ linalg.cho_solve(factor, hy / h)) + float(np.log(np.diag(factor[0])).sum())
    return out


def test_variances_have_the_most_evidence():
    votes, told, V, precision = simulated()
    found = estimate_variances(votes, told, V, precision, PARTS)
    np.testing.assert_allclose(found, [0.04, 0.09, 0.02], atol=0.03)
    best = log_evidence(found, votes, told, V, precision)
    for k in range(3):
        for factor in (0.85, 1.15):
            other = found * np.where(np.arange(3) == k, factor, 1.0)
            assert log_evidence(other, votes, told, V, precision) < best + 0.01
    alone = estimate_variances(votes, told, V, precision, PARTS[:1])[0]
    assert found[0] < alone < found.sum()  # rows take some of what is related


def test_order_of_models_and_contexts_does_not_matter():
    votes, told, V, precision = simulated(100)
    rng = np.random.default_rng(5)
    models, contexts = rng.permutation(100), rng.permutation(D)
    h, hy = votes[models][:, contexts], told[models][:, contexts]
    parts = [part[np.ix_(contexts, contexts)] for part in PARTS]
    expected = estimate_variances(votes, told, V, precision, PARTS)
    np.testing.assert_allclose(estimate_variances(h, hy, V[contexts], precision[models], parts), expected, rtol=1e-8)


def test_many_contexts_are_too_many():
    assert few_contexts(2000, 15) and not few_contexts(2000, 500)
