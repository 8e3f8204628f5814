"""Verdicts on gaps: against tests written out, and the same answer everywhere."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import lrbtl
from lrbtl.errors import MarginError, ScaleError
from lrbtl.inference.verdicts import ELO, judge, read_size, size_words


@given(st.floats(-3, 3), st.floats(0.01, 2), st.floats(0.05, 2), st.sampled_from([0.8, 0.95, 0.99]))
def test_verdicts_are_those_of_the_tests_written_out(gap, se, margin, level):
    two_sided = 2 * stats.norm.sf(abs(gap) / se)
    lower, upper = stats.norm.sf((gap + margin) / se), stats.norm.cdf((gap - margin) / se)
    expected = "cannot tell"
    if two_sided < 1 - level:
        expected = "ahead" if gap > 0 else "behind"
    if max(lower, upper) < 1 - level:
        expected = "equivalent"
    assert judge(np.array([gap]), np.array([se]), margin=margin, level=level) == (expected,)


@given(st.floats(-3, 3), st.floats(0.01, 2))
def test_the_other_side_sees_the_opposite(gap, se):
    opposite = {"ahead": "behind", "behind": "ahead", "equivalent": "equivalent", "cannot tell": "cannot tell"}
    there, back = (judge(np.array([x]), np.array([se]), margin=0.4)[0] for x in (gap, -gap))
    assert back == opposite[there]


def against_the_grain():
    """Skills of random signs, so that a gap alike in all categories is shrunk."""
    truth = lrbtl.simulate_scores((12, 4), 2, scale=1.0, rng=3) + 0.2 * np.random.default_rng(3).normal(size=(12, 4))
    return lrbtl.simulate_battles(truth - truth.mean(axis=0), 3000, rng=4)


def test_how_far_a_gap_is_followed_has_one_answer():
    battles = against_the_grain()
    analysis = lrbtl.analyse(battles)
    gap, scores = analysis.estimate(lrbtl.gap(0, 1)), analysis.estimate([lrbtl.score(0), lrbtl.score(1)])
    assert 0.3 < gap.follow[0] < 0.99 and gap.noise[0] < gap.se[0]
    np.testing.assert_allclose((scores[0] - scores[1]).follow, gap.follow)
    np.testing.assert_allclose(scores[[0, 1]].contrast([1, -1]).follow, gap.follow)
    np.testing.assert_allclose(
        analysis.estimate(lrbtl.win_probability(0, 1, 2)).follow, analysis.estimate(lrbtl.gap(0, 1, 2)).follow
    )
    (board,) = analysis.estimate_boards((battles.context_counts / battles.n_battles)[None])
    np.testing.assert_allclose((board[0] - board[1]).follow, gap.follow)
    np.testing.assert_allclose((board[0] - board[1]).noise, gap.noise, rtol=1e-6)
    families = [analysis.estimate(family) for family in (lrbtl.all_gaps(), lrbtl.all_scores())]
    listed = [analysis.estimate(lrbtl.gap(0, 1, 2)), analysis.estimate(lrbtl.score(0, 2))]
    for family, one in zip(families, listed, strict=True):
        np.testing.assert_allclose(family[one.labels[0]].follow, one.follow)
        np.testing.assert_allclose(family[one.labels[0]].noise, one.noise, rtol=1e-6)
    assert pickle.loads(pickle.dumps(gap)).verdicts().detectable == gap.verdicts().detectable
    found = lrbtl.leaderboard(battles)
    pair = lrbtl.infer(battles, lrbtl.gap(found.models[3], found.models[0]))
    assert found.detectable[3] == pytest.approx(pair.verdicts().detectable[0])
    plain = lrbtl.infer(battles, lrbtl.gap(0, 1), method="naive")
    assert plain.follow == 1.0 and plain.noise == plain.se


def test_margins_are_elo_points_or_win_probabilities_by_their_size():
    assert read_size(10) == pytest.approx(10 / ELO)
    assert read_size(0.02) == pytest.approx(math.log(0.52 / 0.48))
    assert size_words(0.02) == "2% of win probability"


@pytest.mark.parametrize("margin", [0, -1, math.nan, math.inf, "10", True])
def test_a_margin_that_is_none_has_a_named_error(margin):
    with pytest.raises(MarginError, match="give Elo points"):
        read_size(margin)


def test_sums_of_probabilities_are_no_gaps():
    est = lrbtl.Estimate(["x", "y"], [0.1, 0.2], np.eye(2), links="logit")
    with pytest.raises(ScaleError, match="sum of probabilities"):
        (est["x"] - est["y"]).verdicts()


def test_targets_without_an_estimate_cannot_be_told():
    est = lrbtl.Estimate(["x"], [math.nan], [[math.nan]], links="identity")
    found = est.verdicts(10)
    assert found.verdict == ("cannot tell",) and len(found) == 1
    assert found.to_dict()["gap"] == [None] and found.to_frame("polars").shape == (1, 6)
    assert "cannot tell" in found._repr_html_()


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_the_same_gap_has_the_same_verdict_everywhere(link):
    truth = lrbtl.simulate_scores((5, 2), 1, scale=1, rng=0)
    battles = lrbtl.simulate_battles(truth, 3000, rng=1)
    board = lrbtl.leaderboard(battles, margin=40, link=link)
    shown = lrbtl.leaderboard(battles, margin=40, link=link, scale="probability")
    for k, model in enumerate(board.models):
        rival = board.models[1 if k == 0 else 0]
        pair = lrbtl.compare(battles, model, rival, margin=40, link=link)
        est = lrbtl.infer(battles, lrbtl.gap(model, rival, weights="traffic"), link=link).verdicts(40)
        at = shown.models.index(model)
        assert board.verdict[k] == pair.verdict[0] == est.verdict[0] == shown.verdict[at]
        assert board.detectable[k] == pytest.approx(pair.detectable[0]) == pytest.approx(est.detectable[0])
        assert est.gap[0] == pytest.approx(pair.gap[0]) and est.lower[0] == pytest.approx(pair.lower[0])


def test_boards_print_verdicts_where_a_margin_is_given():
    battles = lrbtl.Battles.from_arrays(
        ["x", "x", "x", "z"], ["y", "y", "z", "y"], [1, 0, 1, 1], counts=[300, 290, 200, 3]
    )
    plain, judged = lrbtl.leaderboard(battles), lrbtl.leaderboard(battles, margin=0.1)
    assert "verdict" not in plain.summary()
    assert "equivalent within 10% of win probability" in judged.summary()
    assert judged.to_dict()["verdict"] == list(judged.verdict) and judged.verdict[-1] == "behind"
    assert lrbtl.leaderboard(battles, compat="fastchat").to_dict()["verdict"] == [None] * 3
    with pytest.raises(MarginError):
        lrbtl.leaderboard(battles, margin=0)
    with pytest.raises(MarginError):
        lrbtl.compare(battles, "x", "y", margin=-3)
