"""Choosing the rank: the held-out arithmetic, the one-standard-error rule, and its choices."""

import numpy as np
import pytest

import lrbtl
from lrbtl.data.folds import fold_counts
from lrbtl.errors import FoldError, RankError
from lrbtl.fitting.fit import fit
from lrbtl.fitting.low_rank import fit_with_chosen_ridge, refit
from lrbtl.fitting.select_rank import CLEARLY, HELD_OUT_TOL, compare_losses
from problems import oracle_rows, simulated


@pytest.mark.parametrize(
    ("shape", "rank", "candidates"),
    [((15, 8), (1, 1), [1, 2, 3]), ((15, 8), (2, 2), [1, 2, 3]), ((10, 5, 4), (2, 2, 2), [1, 2, 3])],
)
def test_finds_a_clear_rank(shape, rank, candidates):
    _, battles = simulated(shape, rank, 20_000, scale=3.0)
    found = lrbtl.select_rank(battles, candidates, n_folds=3)
    assert found.rank == rank
    assert found.deficit.min() == 0.0 and np.all(found.deficit_se >= 0.0)


def test_held_out_likelihood_is_the_definition():
    _, battles = simulated((6, 4), 2, 800)
    found = lrbtl.select_rank(battles, [1, 2], n_folds=3, rng=5)
    rows = oracle_rows(battles)
    folds = fold_counts(battles.cells, 3, 5)
    whole = None
    for rank, value in zip(found.ranks, found.log_likelihood, strict=True):
        whole = fit_with_chosen_ridge(battles, rank, near=whole)
        start = refit(whole, battles.cells.count.astype(float), tol=HELD_OUT_TOL)
        total = 0.0
        for held_out in folds:
            train = (battles.cells.count - held_out).astype(float)
            T = refit(whole, train, start=start, tol=HELD_OUT_TOL).point.dense()
            for (u, a, b, y, _), n in zip(rows, held_out, strict=True):
                eta = T[a, u[0]] - T[b, u[0]]
                total += n * (y * eta - np.logaddexp(0.0, eta))
        assert value == pytest.approx(total / battles.n_battles, rel=1e-9)


def test_deficits_are_paired_differences():
    """Losses per vote: the best rank leads the first by much, the second by less than its standard error."""
    rng = np.random.default_rng(0)
    folds = np.ones((2, 500))
    base = rng.random((2, 500))
    noise = rng.normal(0.0, 0.1, (2, 500))
    losses = np.stack([base + 0.5, base + noise - noise.mean() + 0.002, base])
    log_likelihood, deficit, deficit_se = compare_losses(losses, folds)
    differences = (losses - losses[2]).reshape(3, -1)
    np.testing.assert_allclose(deficit, differences.mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(deficit_se, differences.std(axis=1) / np.sqrt(1000), atol=1e-12)
    np.testing.assert_allclose(log_likelihood, -losses.mean(axis=(1, 2)))
    assert 0.0 < deficit[1] < deficit_se[1]
    _, among_two, _ = compare_losses(losses, folds, np.array([True, True, False]))
    np.testing.assert_allclose(among_two, deficit - deficit[1], atol=1e-12)


@pytest.mark.parametrize("n", [300, 600, 1200, 2400])
def test_one_standard_error_rule(n):
    """The smallest rank within one standard error of the best; near the threshold it differs from the best."""
    _, battles = simulated((10, 6), 3, n, scale=2.0)
    found = lrbtl.select_rank(battles, [1, 2, 3], n_folds=2)
    near = found.determined & (found.deficit <= found.deficit_se)
    assert found.rank == found.ranks[int(np.flatnonzero(near)[0])]


def test_a_rank_that_the_battles_do_not_determine_is_not_chosen():
    """Two pairs in the second context: two components are its whole information, three are not determined there."""
    _, battles = simulated((8, 4), 3, 6000, scale=3.0)
    cells = battles.cells
    thin = battles.with_counts(np.where(cells.context == 1, (cells.a < 1) & (cells.b < 3), cells.count).astype(int) * 1)
    found = lrbtl.select_rank(thin, [1, 2, 3], n_folds=2)
    assert not found.determined[-1] and found.rank != (3, 3)
    assert "not determined" in str(found)


def test_multiplicities_are_votes():
    rng = np.random.default_rng(1)
    folds = rng.integers(0, 4, size=(2, 40)).astype(float)
    per_vote = rng.random((2, 2, 40))
    _, deficit, deficit_se = compare_losses(per_vote, folds)
    votes = np.repeat(per_vote.reshape(2, -1), folds.astype(int).ravel(), axis=1)
    best = votes[np.argmin(votes.mean(axis=1))]
    np.testing.assert_allclose(deficit, (votes - best).mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(deficit_se, (votes - best).std(axis=1) / np.sqrt(votes.shape[1]), atol=1e-12)


def test_default_candidates_stop_when_nothing_improves():
    _, battles = simulated((12, 8), 1, 6000)
    lines = []
    found = lrbtl.select_rank(battles, n_folds=2, progress=lines.append)
    assert found.ranks[0] == (1, 1) and len(found.ranks) == len(lines) <= 7
    assert lines[0].startswith("rank (1, 1)")


def test_a_rank_that_is_clearly_worse_ends_the_search():
    """Ranks above the true one cost more than three standard errors with so few battles per parameter."""
    _, battles = simulated((40, 30), 1, 20_000, scale=3.0)
    found = lrbtl.select_rank(battles, n_folds=2)
    assert found.best == (1, 1) and len(found.ranks) == 2
    assert found.deficit[-1] > CLEARLY * found.deficit_se[-1]


def test_the_table():
    _, battles = simulated((8, 5), 1, 1500)
    found = lrbtl.select_rank(battles, [2, 1, (1, 1)], n_folds=2)
    assert found.ranks == [(1, 1), (2, 2)]
    table = found.to_dict()
    assert table["rank"] == found.ranks and sum(table["chosen"]) == 1
    assert "<- chosen" in str(found) and str(found).count("\n") == 2


def test_deterministic_given_a_seed():
    _, battles = simulated((8, 5), 1, 1500)
    one, two = (lrbtl.select_rank(battles, [1, 2], n_folds=2, rng=3) for _ in range(2))
    np.testing.assert_array_equal(one.log_likelihood, two.log_likelihood)


def test_order_one_has_one_rank():
    _, battles = simulated((6,), 1, 500)
    assert lrbtl.select_rank(battles).rank == (1,)


def test_bad_candidates_are_named():
    _, battles = simulated((6, 4), 1, 500)
    with pytest.raises(RankError, match="empty"):
        lrbtl.select_rank(battles, [])
    with pytest.raises(RankError, match="rank 9"):
        lrbtl.select_rank(battles, [1, 9])


@pytest.mark.parametrize("n_folds", [0, 1, 2.5, "five", 10**6])
def test_bad_folds_are_named(n_folds):
    _, battles = simulated((6, 4), 1, 500)
    with pytest.raises(FoldError, match="fold"):
        lrbtl.select_rank(battles, [1, 2], n_folds=n_folds)


def test_auto_is_the_best_determined_rank():
    _, battles = simulated((10, 6), 2, 4000, scale=2.0)
    found = lrbtl.select_rank(battles)
    assert found.best == found.ranks[int(np.argmax(np.where(found.determined, found.log_likelihood, -np.inf)))]
    assert fit(battles, "auto").rank == found.best
