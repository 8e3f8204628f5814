"""The tangent space at random points of orders 1 to 4, against the oracle's dense projector."""

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
from lrbtl.fitting.design import CompleteDesign
from lrbtl.lowrank.tangent import TangentSpace, projection
from lrbtl.lowrank.tucker import check_rank, rank_caps
from problems import (
    CASES,
    battle_matrix,
    centring_matrix,
    differences,
    gauge_residual,
    jacobian,
    random_point,
    retraction,
)

MODERATE = settings(max_examples=20, deadline=None)
SIZES = st.lists(st.integers(2, 5), min_size=1, max_size=4).filter(lambda shape: prod(shape) <= 120)


@st.composite
def points(draw):
    """A random point of any order, shape and admissible rank."""
    shape = tuple(draw(SIZES))
    caps = rank_caps(shape)
    rank = tuple(draw(st.integers(1, cap)) for cap in caps)
    assume(all(r <= prod(rank) // r for r in rank))
    point = random_point(shape, rank, draw(st.integers(0, 10**6)))
    assume(min(s[-1] / s[0] for s in point.singular_values) > 1e-2)
    return point


def projector(point):
    return oracle.tangent_projector(point.dense(), point.rank)


@MODERATE
@given(points())
def test_projection_is_the_oracles(point):
    space, P = TangentSpace(point), projector(point)
    Z = np.random.default_rng(0).normal(size=point.shape)
    np.testing.assert_allclose(projection(space, Z).ravel(), P @ oracle.centring(Z).ravel(), atol=1e-9)


@MODERATE
@given(points())
def test_projector_is_an_orthogonal_projector_onto_zero_sums_that_holds_the_point(point):
    space = TangentSpace(point)
    size = prod(point.shape)
    P = np.stack([projection(space, e.reshape(point.shape)).ravel() for e in np.eye(size)], axis=1)
    np.testing.assert_allclose(P, P.T, atol=1e-9)
    np.testing.assert_allclose(P @ P, P, atol=1e-9)
    np.testing.assert_allclose(P @ point.dense().ravel(), point.dense().ravel(), atol=1e-9)
    np.testing.assert_allclose(P.reshape(point.shape[0], -1).sum(axis=0), 0.0, atol=1e-9)
    assert np.trace(P) == pytest.approx(space.dimension, abs=1e-8)
    assert space.dimension == oracle.tangent_dimension(point.shape, point.rank)


@MODERATE
@given(points())
def test_coordinates_span_the_tangent_space(point):
    space, P = TangentSpace(point), projector(point)
    J = centring_matrix(point.shape) @ jacobian(space)
    np.testing.assert_allclose(P @ J, J, atol=1e-8)
    assert np.linalg.matrix_rank(J, tol=1e-7) == space.dimension
    assert space.size - space.dimension == sum(np.linalg.eigvalsh(J.T @ J) < 1e-9)


@MODERATE
@given(points())
def test_projection_in_coordinates_solves_the_isotropic_system_in_the_gauge(point):
    space, P = TangentSpace(point), projector(point)
    Z = np.random.default_rng(1).normal(size=(3, point.shape[0], prod(point.shape[1:])))
    x = space.solve_isotropic(space.pull_dense(Z))
    for column, z in zip(x.T, Z, strict=True):
        expected = P @ oracle.centring(z).ravel()
        np.testing.assert_allclose(space.dense(column).ravel(), expected, atol=1e-8)
        assert gauge_residual(space, column) < 1e-8
    np.testing.assert_allclose(space.solve_isotropic(space.pull_dense(Z[0])), x[:, 0], atol=1e-10)


@MODERATE
@given(points())
def test_gauge_blocks_see_exactly_the_redundant_directions(point):
    space = TangentSpace(point)
    J = centring_matrix(point.shape) @ jacobian(space)
    gauge = np.zeros((space.size, space.size))
    for part, block in space.gauge():
        gauge[part, part] += block
    assert np.linalg.matrix_rank(gauge, tol=1e-9) == space.size - space.dimension
    assert np.linalg.eigvalsh(J.T @ J + gauge)[0] > 1e-9
    x = space.solve_isotropic(space.pull_dense(np.random.default_rng(2).normal(size=(point.shape[0], len(space.V)))))
    np.testing.assert_allclose(gauge @ x, 0.0, atol=1e-8)


@MODERATE
@given(st.lists(st.integers(2, 5), min_size=1, max_size=4).filter(lambda shape: prod(shape) <= 80))
def test_uniform_gram_is_the_identity_over_d_eff(shape):
    """G0 = I / d_eff on zero-sum tensors, with d_eff = D (d1 - 1) / 2."""
    atoms = CompleteDesign.of_shape(tuple(shape))
    X = battle_matrix(atoms)
    np.testing.assert_allclose(X.T @ X / len(X), centring_matrix(shape) / atoms.d_eff, atol=1e-14)


@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_push_is_the_derivative_of_the_point(shape, rank):
    space = TangentSpace(random_point(shape, rank))
    slope = differences(lambda x: retraction(space, x).dense().ravel(), np.zeros(space.size))
    np.testing.assert_allclose(jacobian(space), slope, atol=1e-8)


@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_pull_is_the_transpose_of_push(shape, rank):
    space = TangentSpace(random_point(shape, rank))
    rng = np.random.default_rng(0)
    gU, gV = rng.normal(size=(4, *space.U.shape)), rng.normal(size=(4, *space.V.shape))
    pulled = space.pull(gU, gV)
    assert pulled.shape == (space.size, 4)
    np.testing.assert_allclose(pulled[:, 2], space.pull(gU[2], gV[2]), atol=1e-12)
    x = rng.normal(size=space.size)
    dU, dV = space.push(x)
    np.testing.assert_allclose(x @ pulled, np.sum(gU * dU, axis=(1, 2)) + np.sum(gV * dV, axis=(1, 2)))
    Z = rng.normal(size=(len(space.U), len(space.V)))
    expected = jacobian(space).T @ centring_matrix(space.point.shape) @ Z.ravel()
    np.testing.assert_allclose(space.pull_dense(Z), expected, atol=1e-10)


@pytest.mark.parametrize(("shape", "rank"), [case for case in CASES if len(case[0]) > 1])
def test_context_parts(shape, rank):
    space = TangentSpace(random_point(shape, rank))
    assert space.context_shape[space.mode - 1] == max(space.context_shape)
    groups = space.groups
    assert sorted(np.concatenate([contexts for contexts, _ in groups])) == list(range(len(space.V)))
    for contexts, _ in groups:
        np.testing.assert_array_equal(space.rows[contexts], np.arange(space.context_shape[space.mode - 1]))
    V = space.core_rows @ space.core.reshape(len(space.core), -1).T
    np.testing.assert_allclose(V, space.V, atol=1e-12)
    for k in range(1, len(shape)):
        levels = np.indices(space.context_shape)[k - 1].ravel()
        via = np.einsum("uak,uk->ua", space.context_jacobian(k), space.factors[k][levels])
        np.testing.assert_allclose(via, space.V, atol=1e-12)
        values = np.random.default_rng(0).normal(size=(len(space.V), 2))
        expected = np.stack([values[levels == j].sum(axis=0) for j in range(shape[k])])
        np.testing.assert_allclose(space.sum_over(values, k), expected)


def test_entries_are_not_centred():
    point = random_point((5, 4), (2, 2), centred=False)
    space = TangentSpace(point, centred=False)
    left, _, right = np.linalg.svd(point.dense())
    P_U, P_V = left[:, :2] @ left[:, :2].T, right[:2].T @ right[:2]
    Z = np.random.default_rng(0).normal(size=(5, 4))
    np.testing.assert_allclose(projection(space, Z), P_U @ Z + Z @ P_V - P_U @ Z @ P_V, atol=1e-12)
    np.testing.assert_allclose(
        space.dense(space.solve_isotropic(space.pull_dense(Z))), projection(space, Z), atol=1e-12
    )
    assert space.dimension == 2 * (5 + 4 - 2)


def test_order_one_is_a_matrix_with_one_context():
    space = TangentSpace(random_point((6,), (1,)))
    assert space.point.shape == (6, 1) and space.dimension == 5
    z = np.random.default_rng(0).normal(size=6)
    np.testing.assert_allclose(projection(space, z), z - z.mean(), atol=1e-12)
    assert check_rank(1, (6,)) == (1,)
