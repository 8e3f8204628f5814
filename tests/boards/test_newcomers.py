"""Models placed against the scores of others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

import lrbtl
from lrbtl.boards.newcomers import context_drift, place_note, place_outside, read_record, score_interval
from lrbtl.fitting.separate import one_sided_gap_bound

INSIDE = np.arange(3)
THETA = np.array([0.4, 0.1, -0.5])


def battles_of(rows):
    """Battles of model 3 against three others, who also meet each other."""
    core = [(0, 1, 1.0, 5), (1, 0, 1.0, 5), (1, 2, 1.0, 5), (2, 1, 1.0, 5)]
    a, b, y, n = zip(*core, *rows, strict=True)
    return lrbtl.Battles.from_arrays(list(a), list(b), list(y), counts=list(n), n_models=4)


def place(rows, cov=None, level=0.95):
    cov = np.zeros((3, 3)) if cov is None else cov
    return place_outside(battles_of(rows), 3, INSIDE, THETA[:, None], cov, np.ones(1), level=level)


def test_record_of_a_model():
    record = read_record(battles_of([(3, 0, 1.0, 2), (1, 3, 0.25, 4)]), 3, INSIDE, np.ones(1))
    assert record.opponent.tolist() == [0, 1] and record.y.tolist() == [1.0, 0.75] and record.count.tolist() == [2, 4]


def test_interval_inverts_the_score_test():
    theta, y, count = np.array([0.3, -0.2, 1.0]), np.array([1.0, 0.0, 0.5]), np.array([4, 3, 2])
    middle, low, high = score_interval(theta, y, count, 0.9)

    def z(s):
        p = expit(s - theta)
        return count @ (y - p) / np.sqrt(count @ (p * (1 - p)))

    assert z(middle) == pytest.approx(0, abs=1e-9)
    assert [z(low), z(high)] == pytest.approx([norm.ppf(0.95), norm.ppf(0.05)])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-6, 6), min_size=1, max_size=6),
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.floats(0.5, 0.999),
)
def test_interval_is_finite_and_ordered(theta, won, lost, level):
    opponents = np.tile(np.array(theta), 2)
    y = np.repeat([1.0, 0.0], len(theta))
    count = np.repeat([won, lost], len(theta))
    middle, low, high = score_interval(opponents, y, count, level)
    assert np.isfinite([low, high]).all() and low < middle < high


def test_all_winner_has_the_exact_lower_limit():
    at = place([(3, 0, 1.0, 4), (3, 2, 1.0, 6)])
    count, theta = np.array([4, 6]), THETA[[0, 2]]
    exact = brentq(lambda s: count @ np.log(expit(s - theta)) - np.log(0.025), -20, 20)
    assert at.lower == pytest.approx(exact) and at.upper == np.inf
    assert at.score == pytest.approx(one_sided_gap_bound(count, theta, 0.0, level=0.0))
    assert np.isnan(at.variance)


def test_all_loser_mirrors():
    at = place([(0, 3, 1.0, 4)])
    mirrored = place_outside(
        battles_of([(3, 0, 1.0, 4)]), 3, INSIDE, -THETA[:, None], np.zeros((3, 3)), np.ones(1), level=0.95
    )
    assert [at.upper, at.score] == pytest.approx([-mirrored.lower, -mirrored.score]) and at.lower == -np.inf


@pytest.mark.parametrize("rows", [[(3, 0, 1.0, 4)], [(3, 0, 1.0, 4), (3, 1, 0.0, 3)]])
def test_errors_of_the_others_widen(rows):
    sure, unsure = place(rows), place(rows, cov=0.3 * np.eye(3))
    assert unsure.score == sure.score and unsure.lower < sure.lower
    if np.isfinite(sure.upper):
        assert unsure.upper > sure.upper and unsure.variance > sure.variance


def test_shares_sum_to_one_and_variance_is_inverse_information():
    at = place([(3, 0, 1.0, 4), (3, 1, 0.0, 3)])
    p = expit(at.score - THETA[:2])
    assert at.share.sum() == pytest.approx(1.0)
    assert at.variance == pytest.approx(1 / (np.array([4, 3]) @ (p * (1 - p))))


def test_without_battles_nothing_is_known():
    battles = battles_of([(3, 0, 1.0, 4)])
    at = place_outside(battles, 3, np.array([1, 2]), THETA[1:, None], np.zeros((2, 2)), np.ones(1), level=0.95)
    assert np.isnan(at.score) and at.lower == -np.inf and at.upper == np.inf and at.share is None


def in_contexts(rows, weights, by_context=None):
    """Place of model 3 after battles (a, b, y, n, context) in three contexts."""
    core = [(a, b, 1.0, 5, u) for u in range(3) for a, b in ((0, 1), (1, 0), (1, 2), (2, 1))]
    a, b, y, n, u = map(list, zip(*core, *rows, strict=True))
    battles = lrbtl.Battles.from_arrays(a, b, y, [u], counts=n, n_models=4)
    by_context = np.tile(THETA[:, None], 3) if by_context is None else by_context
    return place_outside(battles, 3, INSIDE, by_context, np.zeros((3, 3)), np.array(weights), level=0.95)


@pytest.mark.parametrize("y, verb", [(1.0, "won"), (0.0, "lost")])
def test_one_sided_limits_need_battles_in_every_context_of_the_board(y, verb):
    rows = [(3, 0, y, 40, 1)]
    overall = in_contexts(rows, [0.2, 0.3, 0.5])
    assert np.isinf([overall.lower, overall.upper]).all() and np.isfinite(overall.score)
    assert overall.note == f"{verb} all 40 battles, in 1 of 3 contexts: no limits overall"
    own = in_contexts(rows, [0.0, 1.0, 0.0])
    assert np.isfinite([own.lower, own.upper]).sum() == 1 and "contexts" not in own.note
    everywhere = in_contexts([(3, 0, y, 4, u) for u in range(3)], [0.2, 0.3, 0.5])
    assert np.isfinite([everywhere.lower, everywhere.upper]).sum() == 1
    assert everywhere.note.endswith("limit; taken to stand at one place in all contexts")


def test_two_sided_intervals_allow_for_contexts_without_battles():
    rows, uneven = [(3, 0, 1.0, 4, 1), (3, 1, 0.0, 4, 1)], np.array([[0.4, 0.4, 2], [0.1, 0.1, 0], [-0.5, -0.5, -2]])
    even, wide = in_contexts(rows, [0.0, 0.5, 0.5]), in_contexts(rows, [0.0, 0.5, 0.5], uneven)
    drift = np.mean((uneven[:, 1] - uneven[:, 2]) ** 2) / 4
    assert wide.variance == pytest.approx(even.variance + drift) and wide.score == even.score
    assert wide.upper - wide.score == pytest.approx(np.hypot(even.upper - even.score, norm.ppf(0.975) * drift**0.5))
    assert context_drift(uneven, np.array([0.2, 0.3, 0.5]), np.array([0.2, 0.3, 0.5])) == 0.0
    assert "only 8 battles, in 1 of 2 contexts" in wide.note


def test_notes_of_one_battle():
    assert place_note(1.0, 1, 1, 1) == "won its only battle: no upper limit"
    assert place_note(0.0, 1, 1, 4) == "lost its only battle, in 1 of 4 contexts: no limits overall"


def test_coverage_with_few_battles():
    rng = np.random.default_rng(0)
    theta = rng.normal(0, 0.8, 10)
    hits = []
    for _ in range(1500):
        s = rng.normal(0, 0.8)
        won = rng.binomial(1, expit(s - theta)).astype(float)
        if 0 < won.sum() < 10:
            _, low, high = score_interval(theta, won, np.ones(10, dtype=int), 0.95)
        elif won.all():
            low, high = one_sided_gap_bound(np.ones(10, dtype=int), theta, 0.0), np.inf
        else:
            low, high = -np.inf, -one_sided_gap_bound(np.ones(10, dtype=int), -theta, 0.0)
        hits.append(low <= s <= high)
    assert 0.93 < np.mean(hits) < 0.985
