"""Votes against predictions from the other votes: the bins, and which law of votes predicts best."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import lrbtl
from lrbtl.errors import LinkError
from lrbtl.inference.calibration import calibrate, leave_out, possible_links


def arena(law, n, shape=(12, 4), scale=4.0, seed=0):
    """Return battles whose votes follow a law: from gaps and a generator to votes."""
    rng = np.random.default_rng(seed)
    truth = lrbtl.simulate_scores(shape, 2, scale=scale, rng=seed)
    a, task = rng.integers(0, shape[0], n), rng.integers(0, shape[1], n)
    b = (a + rng.integers(1, shape[0], n)) % shape[0]
    return lrbtl.Battles.from_arrays(a, b, law(truth[a, task] - truth[b, task], rng), [task])


def logistic(eta, rng):
    return (rng.random(len(eta)) < expit(eta)).astype(float)


def with_upsets(eta, rng):
    return (rng.random(len(eta)) < 0.06 + 0.88 * expit(1.5 * eta)).astype(float)


def with_close_ties(eta, rng):
    tied = rng.random(len(eta)) < 0.05 + 0.5 * np.exp(-np.abs(eta))
    return np.where(tied, 0.5, logistic(1.3 * eta, rng))


def drawn_from(link):
    def law(eta, rng):
        return 0.5 * (rng.random(len(eta)) > link.probabilities(eta).cumsum(axis=0)).sum(axis=0)

    return law


def test_votes_left_out_are_as_if_they_had_not_been_cast():
    battles = arena(logistic, 600, (5, 2), 2.0)
    found = leave_out(lrbtl.analyse(battles, rank=1))
    cells = battles.cells
    for k in (0, 7, 19):
        rest = battles.with_counts(cells.count - (np.arange(battles.n_cells) == k))
        where = int(cells.a[k]), int(cells.b[k]), int(cells.context[k])
        est = lrbtl.infer(rest, lrbtl.gap(*where), rank=1)
        assert found.eta[k] == pytest.approx(est.estimate[0], abs=0.25 * est.se[0])
        assert found.variance[k] == pytest.approx(est.se[0] ** 2, rel=0.25)  # tau is found anew


def test_the_bins_are_those_of_a_loop_over_votes():
    battles = arena(with_close_ties, 3_000)
    analysis = lrbtl.analyse(battles)
    votes, found = leave_out(analysis), calibrate(analysis)
    n, won, expected, ties = (np.zeros(len(found.votes)) for _ in range(4))
    for p, y, count in zip(votes.predicted, votes.y, votes.count, strict=True):
        p, y = (p, y) if p >= 0.5 else (1 - p, 1 - y)
        gap = 400 * np.log10(p / (1 - p))
        k = int(np.flatnonzero((found.lower <= gap) & (gap < found.upper))[0])
        n[k], won[k], expected[k] = n[k] + count, won[k] + count * y, expected[k] + count * p
        ties[k] += count * (y == 0.5)
    np.testing.assert_array_equal(found.votes, n)
    np.testing.assert_allclose([found.observed, found.predicted, found.ties], [won / n, expected / n, ties / n])
    assert found.votes.sum() == battles.n_battles and found.votes.min() >= 100
    assert np.all(
        found.se >= np.sqrt(np.maximum(found.predicted * (1 - found.predicted) - found.ties / 4, 0) / n) * 0.9
    )


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000))
def test_neither_sides_nor_order_matter(seed):
    rng = np.random.default_rng(seed)
    truth = lrbtl.simulate_scores((5, 2), 1, scale=2, rng=seed)
    a, task = rng.integers(0, 5, 900), rng.integers(0, 2, 900)
    b = (a + rng.integers(1, 5, 900)) % 5
    y = logistic(truth[a, task] - truth[b, task], rng)
    swap, order = rng.random(900) < 0.5, rng.permutation(900)
    one = lrbtl.Battles.from_arrays(a, b, y, [task])
    columns = (np.where(swap, b, a), np.where(swap, a, b), np.where(swap, 1 - y, y), task)
    x, z, w, u = (column[order] for column in columns)
    two = lrbtl.Battles.from_arrays(x, z, w, [u])
    first, second = (calibrate(lrbtl.analyse(battles, rank=1)).to_dict() for battles in (one, two))
    assert first == second


def test_the_right_law_agrees_with_the_votes():
    found = calibrate(lrbtl.analyse(arena(logistic, 60_000)))
    assert not found.off.any() and "agree" in found.sentence
    assert str(found).splitlines()[1].startswith("0 to 25")


@pytest.mark.parametrize("law", [with_upsets, with_close_ties])
def test_a_wrong_law_is_seen_at_far_pairs(law):
    found = calibrate(lrbtl.analyse(arena(law, 100_000)))
    assert found.off[-1] and found.lower[-1] >= 400 and found.observed[-1] < found.predicted[-1] - 0.01
    assert "win rates between models this far apart are off" in found.sentence


def test_few_votes_give_no_table():
    found = calibrate(lrbtl.analyse(arena(logistic, 60, (4, 2))))
    assert not len(found.votes) and not found.sentence and not found.off.any()


@pytest.mark.parametrize("link", [lrbtl.Davidson(-0.5), lrbtl.RaoKupper(-0.5)], ids=str)
def test_the_model_that_made_the_ties_predicts_best(link):
    battles = arena(drawn_from(link), 30_000, (8, 4))
    found = lrbtl.compare_links(battles, ["logistic", "davidson", "rao-kupper"], rank=2)
    assert found.best != "logistic" and found.deficit[0] > 3 * found.deficit_se[0]
    assert found.better_than("logistic") == found.best and found.better_than(found.best) is None
    own = found.links.index(link.name)
    assert found.deficit[own] <= 2 * found.deficit_se[own]
    assert found.to_dict()["link"][0] == "logistic" and len(str(found).splitlines()) == 4


def test_upsets_are_seen_as_heavy_tails():
    found = lrbtl.compare_links(arena(with_upsets, 60_000), rank=2)
    assert found.links == ("logistic", "probit", "cauchit") and found.better_than("logistic") == "cauchit"


def test_constant_ties_are_the_same_for_all_when_nobody_is_better():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 5, 5000)
    b = (a + 1 + rng.integers(0, 4, 5000)) % 5
    battles = lrbtl.Battles.from_arrays(a, b, rng.choice([0, 0.5, 1], 5000))
    found = lrbtl.compare_links(battles)
    np.testing.assert_allclose(found.log_likelihood, -np.log(3), atol=0.005)


def test_which_links_are_possible():
    soft = lrbtl.Battles.from_arrays([0, 0, 0], [1, 1, 1], [0.5, 0.2, 1])
    assert possible_links(soft) == ["logistic", "probit", "cauchit"]
    with pytest.raises(LinkError, match="empty"):
        lrbtl.compare_links(soft, [])
