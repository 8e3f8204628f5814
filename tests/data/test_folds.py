"""Random folds: a partition, balanced, uniform over battles, and the same for any order of the rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrbtl import Battles
from lrbtl.data import folds
from lrbtl.data.cells import Cells
from lrbtl.data.folds import check_folds, fold_counts
from lrbtl.errors import FoldError


def simulated(n_models: int, n_contexts: int, counts: np.ndarray, rng: np.random.Generator) -> Battles:
    a = rng.integers(0, n_models, len(counts))
    b = (a + rng.integers(1, n_models, len(counts))) % n_models
    u = rng.integers(0, n_contexts, len(counts))
    return Battles.from_arrays(
        a, b, rng.integers(0, 2, len(counts)), u, n_models=n_models, n_levels=n_contexts, counts=counts
    )


def check_partition(cells: Cells, n_folds: int, table: np.ndarray) -> None:
    assert table.shape == (n_folds, cells.n_cells) and table.dtype == np.int64
    assert (table >= 0).all()
    np.testing.assert_array_equal(table.sum(axis=0), cells.count)
    sizes = np.stack([table[:, lo:hi].sum(axis=1) for lo, hi in zip(cells.start[:-1], cells.start[1:], strict=True)])
    assert np.ptp(sizes, axis=1).max() <= 1
    assert np.ptp(table.sum(axis=1)) <= 1


@pytest.mark.parametrize("expand", [0, 10**9])
@given(counts=st.lists(st.integers(1, 60), min_size=1, max_size=30), n_folds=st.integers(2, 7), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_folds_are_a_balanced_partition(expand: int, counts: list[int], n_folds: int, seed: int) -> None:
    cells = simulated(4, 3, np.array(counts), np.random.default_rng(seed)).cells
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folds, "_EXPAND", expand)
        check_partition(cells, n_folds, fold_counts(cells, n_folds, seed))


@pytest.mark.parametrize("expand", [0, 10**9])
def test_folds_have_hypergeometric_moments(expand: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "_EXPAND", expand)
    cells = Battles.from_arrays([0, 0, 1], [1, 2, 2], [1, 1, 1], counts=[3, 7, 20]).cells
    rng = np.random.default_rng(5)
    draws = np.array([fold_counts(cells, 3, rng) for _ in range(4000)])
    share, n = cells.count / 30, 10
    np.testing.assert_allclose(draws.mean(axis=0), np.tile(n * share, (3, 1)), atol=0.08)
    variance = n * share * (1 - share) * (30 - n) / 29
    np.testing.assert_allclose(draws.var(axis=0), np.tile(variance, (3, 1)), rtol=0.12)
    covariance = np.cov(draws[:, 0, 1], draws[:, 1, 1])[0, 1]
    np.testing.assert_allclose(covariance, -variance[1] / 2, rtol=0.15)


def test_folds_are_deterministic_and_ignore_row_order() -> None:
    rng = np.random.default_rng(2)
    a, u, y = rng.integers(0, 5, 500), rng.integers(0, 4, 500), rng.integers(0, 2, 500)
    b = (a + 1) % 5
    shuffled = rng.permutation(500)
    first = fold_counts(Battles.from_arrays(a, b, y, u).cells, 4, 7)
    second = fold_counts(Battles.from_arrays(b[shuffled], a[shuffled], 1 - y[shuffled], u[shuffled]).cells, 4, 7)
    np.testing.assert_array_equal(first, second)
    assert (first != fold_counts(Battles.from_arrays(a, b, y, u).cells, 4, 8)).any()


@given(seed=st.integers(0, 2**32 - 1), n_folds=st.integers(2, 5))
@settings(max_examples=40)
def test_folds_do_not_depend_on_labels_and_sides(seed: int, n_folds: int) -> None:
    rng = np.random.default_rng(seed)
    battles = simulated(6, 4, rng.integers(1, 30, 60), rng)
    cells = battles.cells
    models, contexts = rng.permutation(6), rng.permutation(4)
    a, b, u = models[cells.a], models[cells.b], contexts[cells.context]
    renamed = Battles.from_arrays(b, a, 1 - cells.y, u, counts=cells.count, n_models=6, n_levels=4).cells
    first, second = fold_counts(cells, n_folds, 7), fold_counts(renamed, n_folds, 7)
    low, high, y = np.minimum(a, b), np.maximum(a, b), np.where(a < b, cells.y, 1 - cells.y)
    np.testing.assert_array_equal(first[:, np.lexsort((y, high, low, u))], second)


def test_contexts_of_equal_votes_have_folds_of_their_own() -> None:
    """A vote each in 200 contexts, the same one: every fold has some of them."""
    a = np.zeros(200, dtype=int)
    votes = Battles.from_arrays(np.tile(a, 2), np.tile(a + 1, 2), np.repeat([1, 0], 200), np.tile(np.arange(200), 2))
    won = votes.cells.y == 1
    assert fold_counts(votes.cells, 2, 0)[:, won].sum(axis=1).min() > 60


@pytest.mark.parametrize("total", [10**8, 10**12])
def test_folds_of_huge_multiplicities(total: int) -> None:
    rng = np.random.default_rng(3)
    cells = simulated(30, 10, rng.multinomial(total, np.full(13_000, 1 / 13_000)), rng).cells
    table = fold_counts(cells, 10, 0)
    check_partition(cells, 10, table)
    z = (table - cells.count / 10) / np.sqrt(cells.count * 0.09)
    assert abs(z.std() - 1) < 0.02 and abs(z.mean()) < 0.01


def test_many_thin_contexts() -> None:
    rng = np.random.default_rng(4)
    cells = simulated(20, 500, rng.integers(1, 200, 2000), rng).cells
    check_partition(cells, 12, fold_counts(cells, 12, 0))


def test_bad_folds_are_named() -> None:
    battles = Battles.from_arrays([0, 0, 0], [1, 1, 1], [1, 0, 1], ["code", "code", "math"])
    for n_folds in (1, 2.5, True):
        with pytest.raises(FoldError, match="at least 2"):
            check_folds(battles, n_folds)  # type: ignore[arg-type]
    with pytest.raises(FoldError, match="3 battles cannot fill 4 folds"):
        check_folds(battles, 4)
    with pytest.raises(FoldError, match="'math'"):
        battles.split(2)


def test_split_gives_training_and_held_out_battles() -> None:
    rng = np.random.default_rng(6)
    battles = simulated(6, 3, rng.integers(1, 9, 60), rng)
    for train, held_out in battles.split(5, rng=1):
        assert train.shape == held_out.shape == battles.shape
        np.testing.assert_array_equal((train + held_out).cells.count, battles.cells.count)
        assert (train.context_counts > 0).all()
