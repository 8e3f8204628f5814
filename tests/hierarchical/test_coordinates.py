"""Levels and factors in one tangent space, against differences of the retraction."""

import numpy as np
import pytest

from lrbtl.hierarchical.coordinates import LevelSpace, no_factors
from problems import jacobian, random_point

SPACES = [
    ((6,), None),
    ((6, 5), None),
    ((6, 5), (1, 1)),
    ((7, 5), (2, 2)),
    ((6, 4, 3), None),
    ((6, 4, 3), (2, 2, 2)),
    ((6, 3, 5), (3, 2, 2)),
    ((5, 3, 4, 3), (2, 2, 2, 2)),
]
each = pytest.mark.parametrize(("shape", "rank"), SPACES, ids=lambda x: str(x))


def made(shape, rank, n_extra=0):
    level = np.random.default_rng(1).normal(size=shape[0])
    point = no_factors(shape) if rank is None else random_point(shape, rank, 2)
    return LevelSpace(point, level - level.mean(), n_extra=n_extra)


def scores(point, level):
    dense = point.dense().reshape(len(level), -1) if point.core.size else 0.0
    return dense + level[:, None]


def centring(d1):
    return np.eye(d1) - 1.0 / d1


@each
def test_scores_are_levels_and_factors(shape, rank):
    space = made(shape, rank)
    D = int(np.prod(shape[1:]))
    np.testing.assert_allclose(space.U @ space.V.T, np.broadcast_to(scores(space.point, space.level), (shape[0], D)))
    assert space.rank == (0 if rank is None else rank[0])


@each
@pytest.mark.parametrize("n_extra", [0, 2])
def test_pull_is_the_adjoint_of_push(shape, rank, n_extra):
    space, rng = made(shape, rank, n_extra), np.random.default_rng(0)
    gradient = rng.normal(size=(len(space.U), len(space.V)))
    pulled = space.pull(gradient @ space.V, gradient.T @ space.U)
    expected = jacobian(space).T @ gradient.reshape(-1)
    np.testing.assert_allclose(pulled, expected, atol=1e-12)
    assert not pulled[space.extra].any() and space.extra.stop - space.extra.start == n_extra
    several = np.stack([gradient, 2 * gradient])
    found = space.pull(several @ space.V, np.swapaxes(several, 1, 2) @ space.U)
    np.testing.assert_allclose(found, np.stack([expected, 2 * expected], axis=1), atol=1e-12)


@each
def test_push_columns_are_single_pushes(shape, rank):
    space = made(shape, rank, 1)
    columns = np.random.default_rng(0).normal(size=(space.size, 3))
    dU, dV = space.push_columns(columns)
    for j in range(3):
        one = space.push(np.ascontiguousarray(columns[:, j]))
        np.testing.assert_allclose(dU[:, :, j], one[0])
        np.testing.assert_allclose(dV[:, :, j], one[1], atol=1e-14)


@each
def test_the_jacobian_is_the_derivative_of_the_retraction(shape, rank):
    space, h = made(shape, rank), 1e-5
    J = jacobian(space)
    for i, unit in enumerate(np.eye(space.size)):
        up, down = (scores(*space.retraction(sign * h * unit)) for sign in (1, -1))
        slope = np.broadcast_to((up - down) / (2 * h), (len(space.U), len(space.V)))
        expected = centring(len(space.U)) @ J[:, i].reshape(slope.shape)
        np.testing.assert_allclose(slope, expected, atol=1e-8)


@each
def test_a_retraction_keeps_zero_sums_and_the_rank(shape, rank):
    space = made(shape, rank)
    point, level = space.retraction(np.random.default_rng(3).normal(size=space.size))
    assert abs(level.sum()) < 1e-12 and point.rank == space.point.rank
    if rank is not None:
        assert np.abs(point.dense().sum(axis=0)).max() < 1e-10
        np.testing.assert_allclose(point.factors[0].T @ point.factors[0], np.eye(rank[0]), atol=1e-12)


@each
def test_levels_have_coordinates_of_their_own(shape, rank):
    space = made(shape, rank)
    step = np.zeros(space.size)
    step[space.level_part] = np.arange(shape[0])
    dU, dV = space.push(step)
    np.testing.assert_array_equal(dU[:, -1], np.arange(shape[0]))
    assert not dU[:, :-1].any() and not dV.any()


@each
def test_the_gauge_leaves_every_direction_of_the_scores(shape, rank):
    """Coordinates within the constraints move scores in all directions in which any coordinates do."""
    space = made(shape, rank)
    Q = np.kron(centring(len(space.U)), np.eye(len(space.V)))
    J, constraints = Q @ jacobian(space), np.zeros((space.size, space.size))
    for part, block in space.gauge():
        constraints[part, part] += block
    values, vectors = np.linalg.eigh(constraints)
    inside = vectors[:, values < 1e-9]
    assert inside.shape[1] < space.size
    assert np.linalg.matrix_rank(J @ inside, 1e-8) == np.linalg.matrix_rank(J, 1e-8)
    shift = np.zeros_like(constraints)
    for part, block in space.gauge(only_shift=True):
        shift[part, part] += block
    assert np.linalg.matrix_rank(shift) == space.rank + 1
    assert np.abs(J @ np.linalg.svd(shift)[0][:, : space.rank + 1]).max() < 1e-10


@each
def test_rotations_between_points_leave_levels(shape, rank):
    space = made(shape, rank)
    for turn, factor in zip(space.turns(space), space.factors, strict=True):
        np.testing.assert_allclose(turn, np.eye(len(turn)), atol=1e-12)
        assert len(turn) in (factor.shape[1], factor.shape[1] + 1)
    assert len(space.turns(space)[0]) == space.rank + 1
