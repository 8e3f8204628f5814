"""What the pairings of small graphs say of levels: order, bends and traffic."""

from itertools import permutations

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import ndtri

from lrbtl.hierarchical.level_prior import LevelPrior
from lrbtl.hierarchical.pairings import (
    DesignCovariates,
    hermite_bends,
    normal_scores,
    sift,
    total_distance,
    votes_across,
)


def graph(d1, pairs, votes=1.0):
    meetings = np.zeros((d1, d1))
    for (a, b), n in zip(pairs, np.broadcast_to(votes, len(pairs)), strict=True):
        meetings[a, b] += n
        meetings[b, a] += n
    return sparse.csr_array(meetings)


def ladder(d1=30, reach=2, votes=20.0):
    return graph(d1, [(a, a + k) for a in range(d1) for k in range(1, reach + 1) if a + k < d1], votes)


def test_a_ladder_has_its_order():
    found = DesignCovariates.of_meetings(ladder(), 3)
    steps = np.diff(found.order)
    assert np.all(steps > 0) or np.all(steps < 0)
    assert found.informed[0] > 0.9 and found.bends.shape == (30, 3)
    np.testing.assert_allclose([found.order.mean(), found.order.std()], [0.0, 1.0], atol=1e-12)


@pytest.mark.parametrize("d1", [40, 650])
def test_random_pairing_says_nothing_of_the_order(d1):
    informed = []
    for seed in range(6):
        rng, n = np.random.default_rng(seed), 10 * d1
        a = rng.integers(d1, size=n)
        b = (a + rng.integers(1, d1, size=n)) % d1
        informed.append(DesignCovariates.of_meetings(graph(d1, list(zip(a, b, strict=True))), 3).informed)
    order, traffic = np.array(informed).T
    assert np.mean(order == 0.0) > 0.5 and order.max() < 0.1 and traffic.max() < 0.6


def test_many_models_have_the_order_of_a_ladder_too():
    """Where eigenvectors come from an iteration."""
    found = DesignCovariates.of_meetings(ladder(700, reach=40), 2)
    steps = np.diff(found.order)
    assert np.mean(steps * np.sign(steps.sum()) > 0) > 0.98 and found.informed[0] > 0.9


def test_a_star_says_nothing():
    """One model that all others meet is a baseline, not a good one."""
    found = DesignCovariates.of_meetings(graph(12, [(0, k) for k in range(1, 12)], 10.0), 3)
    assert found.informed == (0.0, 0.0) and not found.columns.any() and found.bends.shape == (12, 0)


def test_a_newcomer_is_no_covariate_of_its_own():
    """Equal traffic and one model of one vote: its level would have no prior."""
    pairs = [(a, b) for a in range(12) for b in range(a)]
    votes = np.random.default_rng(0).poisson(40.0, size=len(pairs))
    found = DesignCovariates.of_meetings(graph(13, [*pairs, (0, 12)], [*votes, 1.0]), 3)
    assert found.informed[1] < 0.7
    prior = LevelPrior(found, 1.0)
    far = np.append(np.zeros(12), 10.0)
    assert prior.cost(far) > 10.0  # 50 under a normal law


def test_parts_that_never_meet_have_no_order():
    pairs = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
    found = DesignCovariates.of_meetings(graph(6, pairs, 10.0), 3)
    assert not found.order.any() and found.informed[0] == 0.0


def test_models_without_votes_have_no_place():
    inner = ladder(12).toarray()
    outer = np.zeros((14, 14))
    outer[:12, :12] = inner
    found, plain = (DesignCovariates.of_meetings(sparse.csr_array(m), 2) for m in (outer, inner))
    assert not found.order[12:].any() and not found.bends[12:].any()
    np.testing.assert_allclose(found.order[:12], plain.order, atol=1e-12)


@pytest.mark.parametrize("d1", [2, 3])
def test_very_few_models_say_nothing(d1):
    found = DesignCovariates.of_meetings(graph(d1, [(0, 1)], 9.0), 3)
    assert not found.columns.any() and found.informed == (0.0, 0.0)


def test_equal_votes_say_nothing_of_traffic():
    found = DesignCovariates.of_meetings(graph(8, [(a, b) for a in range(8) for b in range(a)], 5.0), 3)
    assert not found.traffic.any() and not found.traffic_noise.any() and found.informed[1] == 0.0


def test_good_models_have_more_votes():
    """Vote counts beyond Poisson's: their logs, with the variance of counts."""
    rng = np.random.default_rng(7)
    rate = np.exp(rng.normal(size=40))
    rate /= rate.sum()
    a, b = rng.choice(40, 4000, p=rate), rng.choice(40, 4000, p=rate)
    found = DesignCovariates.of_meetings(graph(40, [(x, y) for x, y in zip(a, b, strict=True) if x != y]), 3)
    assert found.informed[1] > 0.95 and np.corrcoef(found.traffic, np.log(rate))[0, 1] > 0.95
    assert np.all(found.traffic_noise > 0) and found.traffic_noise.argmax() == found.traffic.argmin()


def test_names_do_not_matter():
    rng = np.random.default_rng(8)
    order, meetings = rng.permutation(30), ladder().toarray()
    meetings[3, 9] = meetings[9, 3] = 5.0
    one = DesignCovariates.of_meetings(sparse.csr_array(meetings), 3)
    two = DesignCovariates.of_meetings(sparse.csr_array(meetings[np.ix_(order, order)]), 3)
    np.testing.assert_allclose(np.abs(two.order), np.abs(one.order[order]), atol=1e-9)
    np.testing.assert_allclose(two.traffic, one.traffic[order], atol=1e-12)
    np.testing.assert_allclose(two.informed, one.informed)
    np.testing.assert_allclose(two.bends @ two.bends.T, (one.bends @ one.bends.T)[np.ix_(order, order)], atol=1e-8)


def test_normal_scores_of_equal_values_are_equal():
    found = normal_scores(np.array([1.0, 1.0 + 1e-14, 2.0, 0.0]))
    assert found[0] == found[1] and found[3] < found[0] < found[2]
    np.testing.assert_allclose(found[2], stats.norm.ppf(3.5 / 4))


# ------------------------------------------------------------------------------
# The order of a ladder
# ------------------------------------------------------------------------------


def noisy_ladder(d1, seed, n=40):
    """Meetings at geometric distances in the order of a permutation, and that order."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(d1)
    low = rng.integers(d1 - 1, size=n * d1)
    high = np.minimum(low + rng.geometric(0.4, size=n * d1), d1 - 1)
    return graph(d1, list(zip(places[low], places[high], strict=True))), places


def distance(meetings, places):
    """By its definition."""
    rank, A = np.argsort(places), meetings.toarray()
    return sum(A[a, b] * abs(rank[a] - rank[b]) for a in range(len(A)) for b in range(a))


@pytest.mark.parametrize("seed", range(5))
def test_votes_across_places_and_their_sum(seed):
    meetings, _ = noisy_ladder(9, seed, 5)
    places = np.random.default_rng(seed + 50).permutation(9)
    A = meetings.toarray()[np.ix_(places, places)]
    across = votes_across(meetings, places)
    np.testing.assert_allclose(across, [A[:p, p:].sum() for p in range(10)])
    assert total_distance(meetings, places) == pytest.approx(distance(meetings, places))
    assert across.sum() == pytest.approx(distance(meetings, places))


@pytest.mark.parametrize("seed", range(5))
def test_no_model_alone_has_a_better_place_in_a_sifted_order(seed):
    meetings, _ = noisy_ladder(12, seed, 3)
    found = sift(meetings, np.random.default_rng(seed).permutation(12))
    cost = distance(meetings, found)
    for here in range(12):
        others = np.delete(found, here)
        assert min(distance(meetings, np.insert(others, p, found[here])) for p in range(12)) >= cost - 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_sifting_finds_the_best_order_of_few_models(seed):
    meetings, places = noisy_ladder(6, seed)
    best = min(distance(meetings, np.array(each)) for each in permutations(range(6)))
    found = sift(meetings, places)
    assert distance(meetings, found) == pytest.approx(best)


def test_the_order_is_nearer_to_the_true_one_than_the_fiedler_vector():
    """On average over ladders of 16 votes a model."""
    gain = []
    for seed in range(8):
        meetings, places = noisy_ladder(50, seed, 8)
        A = meetings.toarray()
        root = 1.0 / np.sqrt(A.sum(0))
        fiedler = root * np.linalg.eigh(A * np.outer(root, root))[1][:, -2]
        truth = ndtri((np.argsort(places) + 0.5) / 50)
        found = DesignCovariates.of_meetings(meetings, 3).order
        before, after = (1.0 - abs(np.corrcoef(x, truth)[0, 1]) for x in (normal_scores(fiedler), found))
        gain.append(before - after)
    assert np.mean(gain) > 0.0005


def test_bends_vary_as_order_statistics_do():
    """Their shares are the eigenvalues of the covariance of a normal sample in order, its scale aside."""
    d1 = 200
    p = (np.arange(d1) + 0.5) / d1
    z = ndtri(p)
    bridge = (np.minimum.outer(p, p) - np.outer(p, p)) / (d1 * np.outer(stats.norm.pdf(z), stats.norm.pdf(z)))
    bends = hermite_bends(z, 4)
    found = DesignCovariates(z, bends, np.zeros(d1), np.zeros(d1), (0.9, 0.0)).bend_shares
    within = bends.T @ bridge @ bends / d1**2
    np.testing.assert_allclose(np.diag(within)[:2], found[:2], rtol=0.05)
    np.testing.assert_allclose(np.diag(within), found, rtol=0.3)  # less of high degrees: a sample has ends
    assert np.abs(within - np.diag(np.diag(within))).max() < 0.1 * found[0]
