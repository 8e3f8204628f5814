"""Blocks of the covariance of all scores against the dense sandwich."""

import numpy as np
import pytest

from lrbtl.fitting.local import accumulate, fix_gauge
from lrbtl.fitting.solvers import IsotropicSolver
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.methods.standard_errors import (
    context_blocks,
    context_covariance,
    inverse_blocks,
    leverages,
    sandwich_blocks,
    score_variances,
)
from lrbtl.model.links import logistic_terms
from problems import CASES, battle_matrix, centring_matrix, jacobian, random_design, random_point

cases = pytest.mark.parametrize(("shape", "rank"), CASES)


def problem(shape, rank, *, pairs=True, n=300):
    """Space, design, information, meat and the information's inverse."""
    space = TangentSpace(random_point(shape, rank, 1, centred=pairs), centred=pairs)
    design = random_design(shape, n, seed=1, pairs=pairs)
    _, score, fisher = logistic_terms(design.eta(space), design.y)
    K = fix_gauge(accumulate(design, space, design.count * fisher), space)
    return space, design, fisher, K, accumulate(design, space, design.count * score**2)


@pytest.mark.parametrize("pairs", [True, False], ids=["pairs", "entries"])
@cases
def test_sandwich_of_all_scores(shape, rank, pairs):
    space, _, _, K, B = problem(shape, rank, pairs=pairs)
    inverse = np.linalg.inv(K.dense())
    J = jacobian(space)
    dense = J @ inverse @ B.dense() @ inverse @ J.T
    blocks = sandwich_blocks(K.factor().inverse(), B)
    np.testing.assert_allclose(score_variances(space, blocks).ravel(), np.diag(dense), rtol=1e-7)
    by_context = dense.reshape(shape[0], len(space.V), shape[0], len(space.V))
    seen = []
    for part in context_blocks(space, blocks):
        for i, u in enumerate(part.contexts):
            found = context_covariance(space, blocks, part, i)
            np.testing.assert_allclose(found, by_context[:, u, :, u], atol=1e-8 * np.abs(by_context).max())
            seen.append(u)
    assert sorted(seen) == list(range(len(space.V)))


@cases
def test_variances_without_a_sandwich_are_centred(shape, rank):
    space, _, _, K, _ = problem(shape, rank)
    QJ = centring_matrix(space.point.shape) @ jacobian(space)
    dense = QJ @ np.linalg.inv(K.dense()) @ QJ.T
    found = score_variances(space, inverse_blocks(K.factor().inverse()))
    np.testing.assert_allclose(found.ravel(), np.diag(dense), rtol=1e-7)


@cases
def test_sandwich_of_the_isotropic_information(shape, rank):
    space, design, _, _, B = problem(shape, rank)
    solver = IsotropicSolver(space, design.d_eff)
    QJ = centring_matrix(space.point.shape) @ jacobian(space)
    H = solver.solve(QJ.T)
    dense = H.T @ (B @ H)
    found = score_variances(space, sandwich_blocks(solver.inverse(), B))
    np.testing.assert_allclose(found.ravel(), np.diag(dense), rtol=1e-7)


@pytest.mark.parametrize("pairs", [True, False], ids=["pairs", "entries"])
@cases
def test_leverages(shape, rank, pairs):
    space, design, fisher, K, _ = problem(shape, rank, pairs=pairs)
    h = leverages(design, space, fisher, K.factor().inverse())
    j = battle_matrix(design) @ jacobian(space)
    np.testing.assert_allclose(h, fisher * np.einsum("ci,ij,cj->c", j, np.linalg.inv(K.dense()), j), rtol=1e-7)
    assert design.count @ h == pytest.approx(space.dimension, rel=1e-8)
