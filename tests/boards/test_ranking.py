"""Ranks, spreads, simultaneous rank intervals and tiers against loops over the pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrbtl.boards.ranking import (
    find_statuses,
    joint_above,
    level_ties,
    rank_interval,
    rank_models,
    rank_scores,
    rank_spread,
    tiers,
)
from lrbtl.inference.joint import max_gap_quantile


def random_board(seed, d):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d)) / np.sqrt(d)
    score = np.round(rng.standard_normal(d) * 3, 1)
    return score, 0.5 * root @ root.T


def board_ranks(score, cov):
    se = np.sqrt(np.diag(cov))
    return rank_models(score, joint_above(score, cov), score - 1.96 * se, score + 1.96 * se)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_everything_equals_loops_over_pairs(seed, d):
    score, cov = random_board(seed, d)
    se = np.sqrt(np.diag(cov))
    lower, upper = score - 1.96 * se, score + 1.96 * se
    ranks = rank_models(score, joint_above(score, cov), lower, upper)
    c = max_gap_quantile(cov)
    for a in range(d):
        others = [b for b in range(d) if b != a]
        gap_se = {b: np.sqrt(cov[a, a] + cov[b, b] - 2 * cov[a, b]) for b in others}
        assert ranks.rank[a] == 1 + sum(score[b] > score[a] for b in others)
        assert ranks.rank_lower[a] == 1 + sum(score[b] - score[a] > c * gap_se[b] for b in others)
        assert ranks.rank_upper[a] == d - sum(score[a] - score[b] > c * gap_se[b] for b in others)
        assert ranks.best[a] == max(1 + sum(lower[b] > upper[a] for b in others), ranks.rank_lower[a])
        assert ranks.worst[a] == min(d - sum(upper[b] < lower[a] for b in others), ranks.rank_upper[a])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_order_of_the_models_and_units_do_not_matter(seed, d):
    score, cov = random_board(seed, d)
    score += 1e-3 * np.arange(d)
    order = np.random.default_rng(seed).permutation(d)
    above = joint_above(score, cov)
    np.testing.assert_array_equal(joint_above(7 * score - 2, 49 * cov), above)
    np.testing.assert_array_equal(tiers(score, above)[order], tiers(score[order], above[np.ix_(order, order)]))
    np.testing.assert_array_equal(rank_scores(score)[order], rank_scores(score[order]))
    for whole, part in zip(rank_interval(above), rank_interval(above[np.ix_(order, order)]), strict=True):
        np.testing.assert_array_equal(whole[order], part)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_ranks_lie_in_their_intervals_and_tiers_go_down_the_board(seed, d):
    score, cov = random_board(seed, d)
    ranks = board_ranks(score, cov)
    assert ((ranks.rank_lower <= ranks.rank) & (ranks.rank <= ranks.rank_upper)).all()
    assert ((ranks.best <= ranks.rank) & (ranks.rank <= ranks.worst)).all()
    board = np.argsort(-score, kind="stable")
    steps = np.diff(ranks.tier[board])
    assert ranks.tier[board[0]] == 1
    assert set(steps.tolist()) <= {0, 1}
    above = joint_above(score, cov)
    for tier in range(1, ranks.tier.max() + 1):
        members = board[ranks.tier[board] == tier]
        top = members[0]
        assert not above[top, members].any()
        following = board[ranks.tier[board] == tier + 1]
        assert following.size == 0 or above[top, following[0]]


def test_simultaneous_rank_intervals_cover_together():
    truth, cov = np.array([1.0, 0.8, 0.8, 0.3, 0.0, -0.5]), 0.04 * (np.eye(6) - 1 / 6)
    true_rank = rank_scores(truth)
    rng, covered = np.random.default_rng(0), 0
    for score in rng.multivariate_normal(truth, cov, size=150):
        lower, upper = rank_interval(joint_above(score, cov))
        covered += bool(((lower <= true_rank) & (true_rank <= upper)).all())
    assert covered / 150 >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 150)


def test_one_clear_leader_has_the_first_tier_alone():
    ranks = board_ranks(np.array([0.0, 5.0, 0.1]), 0.01 * np.eye(3))
    np.testing.assert_array_equal(ranks.tier, [2, 1, 2])
    np.testing.assert_array_equal(ranks.rank_upper, [3, 1, 3])


def test_missing_bounds_are_no_bounds():
    best, worst = rank_spread(np.array([1.0, np.nan, -1.0]), np.array([np.inf, np.nan, 0.0]))
    np.testing.assert_array_equal(best, [1, 1, 2])
    np.testing.assert_array_equal(worst, [2, 3, 3])


@pytest.mark.parametrize("d", [0, 1])
def test_boards_without_pairs(d):
    ranks = board_ranks(np.zeros(d), np.eye(d))
    assert (
        ranks.rank.tolist() == ranks.rank_lower.tolist() == ranks.rank_upper.tolist() == ranks.tier.tolist() == [1] * d
    )


def test_statuses():
    votes, here = np.array([50, 40, 60, 5, 0, 70]), np.array([20, 10, 0, 5, 0, 70])
    placed = np.array([True, True, True, True, True, False])
    status, waived = find_statuses(votes, here, placed, 30)
    assert status.tolist() == ["ranked", "ranked", "absent", "preliminary", "absent", "unplaced"] and not waived
    status, waived = find_statuses(votes, here, placed, 45)
    assert status.tolist() == ["ranked", "ranked", "absent", "ranked", "absent", "unplaced"] and waived


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(0, 4), st.floats(0, 4)), min_size=1, max_size=8))
def test_a_rank_lies_in_its_spreads_whatever_the_intervals(rows):
    score, down, up = np.array(rows).T
    lower, upper = score - down, score + up
    ranks = rank_models(score, lower[:, None] > upper[None, :], lower, upper)
    assert ((ranks.best <= ranks.rank) & (ranks.rank <= ranks.worst)).all()
    assert ((ranks.rank_lower <= ranks.rank) & (ranks.rank <= ranks.rank_upper)).all()


def test_scores_that_differ_by_rounding_share_a_rank():
    score = np.array([1.0, 1.0 + 1e-14, 0.5, 1.0 - 1e-14, 0.5 + 1e-6])
    se = np.full(5, 0.1)
    assert rank_scores(level_ties(score, se)).tolist() == [1, 1, 5, 1, 4]
    ranks = rank_models(score, np.zeros((5, 5), dtype=bool), score - se, score + se)
    assert ranks.rank.tolist() == [1, 1, 5, 1, 4]
    assert level_ties(score, np.full(5, np.nan)) is score
