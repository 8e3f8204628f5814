"""Low-rank points: HOSVD form, truncation, ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from lrbtl.errors import RankError
from lrbtl.lowrank.tucker import Tucker, centre, check_rank, eigenvectors, mode_product, rank_caps, truncate, unfold
from problems import CASES, random_point


def random_tucker(shape, rank, seed=0):
    rng = np.random.default_rng(seed)
    return Tucker(rng.normal(size=rank), tuple(rng.normal(size=(d, r)) for d, r in zip(shape, rank, strict=True)))


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_unfold_and_mode_product(mode):
    T = np.random.default_rng(0).normal(size=(3, 4, 5))
    M = np.random.default_rng(1).normal(size=(2, T.shape[mode]))
    np.testing.assert_array_equal(unfold(T, mode), oracle.unfold(T, mode))
    np.testing.assert_allclose(unfold(mode_product(T, M, mode), mode), M @ unfold(T, mode))


def test_centre_sums_to_zero_along_the_models():
    T = np.random.default_rng(0).normal(size=(3, 4, 5))
    np.testing.assert_allclose(centre(T), oracle.centring(T))
    np.testing.assert_allclose(centre(T).sum(axis=0), 0.0, atol=1e-14)


@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_canonical_is_the_same_tensor_in_hosvd_form(shape, rank):
    given_form = random_tucker(shape, rank)
    point = given_form.canonical()
    np.testing.assert_allclose(point.dense(), given_form.dense(), rtol=1e-11, atol=1e-11)
    assert point.shape == shape and point.rank == rank
    for k, factor in enumerate(point.factors):
        np.testing.assert_allclose(factor.T @ factor, np.eye(rank[k]), atol=1e-12)
        gram = unfold(point.core, k) @ unfold(point.core, k).T
        singular = np.linalg.svd(unfold(given_form.dense(), k), compute_uv=False)[: rank[k]]
        np.testing.assert_allclose(gram, np.diag(singular**2), atol=1e-9 * singular[0] ** 2)
        np.testing.assert_allclose(point.singular_values[k], singular, rtol=1e-9)


def test_canonical_keeps_zero_sums():
    point = random_point((6, 4, 3), (3, 2, 2))
    np.testing.assert_allclose(point.factors[0].sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_context_vectors(shape, rank):
    point = random_point(shape, rank)
    V = point.context_vectors()
    np.testing.assert_allclose(point.factors[0] @ V.T, point.dense().reshape(shape[0], -1), atol=1e-12)
    assert V.flags.c_contiguous


@pytest.mark.parametrize(("shape", "rank"), CASES)
def test_truncating_a_low_rank_tensor_is_exact(shape, rank):
    dense = random_point(shape, rank).dense()
    np.testing.assert_allclose(truncate(dense, rank).dense(), dense, atol=1e-10)


def test_truncating_a_matrix_is_the_best_approximation():
    T = np.random.default_rng(0).normal(size=(7, 40))
    left, values, right = np.linalg.svd(T, full_matrices=False)
    best = (left[:, :2] * values[:2]) @ right[:2]
    np.testing.assert_allclose(truncate(T, (2, 2)).dense(), best, atol=1e-10)


def test_eigenvectors_of_a_matrix_in_blocks():
    """LAPACK's search for the largest eigenvalue alone comes back with none."""
    matrix = np.zeros((4, 4))
    matrix[np.ix_([0, 3], [0, 3])] = 11.25 * np.array([[1, -1], [-1, 1]])
    matrix[np.ix_([1, 2], [1, 2])] = 14.999999999999996 * np.array([[1, -1], [-1, 1]])
    found = eigenvectors(matrix, 1)
    np.testing.assert_allclose(found * np.sign(found[1]), np.sqrt([[0], [0.5], [0.5], [0]]) * [[1], [1], [-1], [1]])


def test_sweeps_improve_on_truncated_hosvd():
    T = np.random.default_rng(2).normal(size=(6, 5, 4))
    errors = [np.linalg.norm(T - truncate(T, (2, 2, 2), sweeps=sweeps).dense()) for sweeps in (0, 5, 50)]
    assert errors[0] > errors[1] >= errors[2]


@pytest.mark.parametrize(
    ("rank", "shape", "full"),
    [
        (3, (30, 10), (3, 3)),
        (3, (30, 10, 2), (3, 3, 2)),
        (3, (4, 10), (3, 3)),
        (5, (20,), (1,)),
        (2, (3, 1, 5), (2, 1, 2)),
        (2, (30, 1, 2), (2, 1, 2)),
        (3, (4, 9, 2), (3, 3, 2)),
        (np.int64(2), (5, 5), (2, 2)),
        ((4, 2, 2), (6, 4, 2), (4, 2, 2)),
        ([2, 2], (5, 5), (2, 2)),
    ],
)
def test_check_rank(rank, shape, full):
    assert check_rank(rank, shape) == full


@pytest.mark.parametrize(
    ("rank", "shape", "words"),
    [
        (0, (5, 5), "choose 1 to 4"),
        (-1, (5,), "rank -1"),
        (9, (5, 6), "choose 1 to 4"),
        (1.5, (5, 5), "not a rank"),
        (None, (5, 5), "not a rank"),
        ((2, 2), (5, 5, 5), "one rank per mode"),
        ((5, 2), (5, 5), "mode 1"),
        ((3, 1), (5, 5), "mode 1"),
        ((2, 0), (5, 5), "mode 1"),
        ((4, 3, 1), (9, 9, 9), "mode 1"),
    ],
)
def test_impossible_ranks_say_why(rank, shape, words):
    with pytest.raises(RankError, match=words):
        check_rank(rank, shape)


def test_entries_need_no_centring():
    assert check_rank(5, (5, 6), centred=False) == (5, 5)
    assert rank_caps((5, 6)) == (4, 4)
    assert rank_caps((5, 6), centred=False) == (5, 5)


@given(st.integers(1, 6), st.lists(st.integers(2, 7), min_size=1, max_size=4))
def test_an_int_gives_a_rank_that_a_tuple_may_name(r, shape):
    if len(shape) > 1 and r > max(rank_caps(shape)):
        return
    full = check_rank(r, shape)
    assert check_rank(full, shape) == full
    assert max(full) <= r
    assert truncate(centre(np.random.default_rng(0).normal(size=shape)), full).rank == full
