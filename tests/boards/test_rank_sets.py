"""Simultaneous rank sets and top-k tests against loops over pairs, votes and draws."""

import json

import numpy as np
import pytest
from scipy.stats import norm

import lrbtl
from lrbtl.inference.targets import resolve_targets


@pytest.fixture(scope="module")
def analysis():
    truth = lrbtl.simulate_scores((7, 4), 2, scale=2, rng=0)
    return lrbtl.analyse(lrbtl.simulate_battles(truth, 6000, rng=1), method="efficient", rank=2)


def scores_of(analysis):
    """Scores (C, d1) and their covariance, asked for one by one."""
    d1, D = analysis.battles.shape
    est = analysis.estimate([lrbtl.score(a, u) for u in range(D) for a in range(d1)])
    return est.estimate.reshape(D, d1), est.cov, est.variance_noise.reshape(D, d1)


def looped_sets(score, cov, level, draws):
    """Rank sets by step-down over ordered pairs of each category, in loops."""
    C, d1 = score.shape
    pairs = [(u, a, b) for u in range(C) for a in range(d1) for b in range(d1) if a != b]
    weights = np.zeros((len(pairs), C * d1))
    for i, (u, a, b) in enumerate(pairs):
        weights[i, u * d1 + a], weights[i, u * d1 + b] = 1.0, -1.0
    se = np.sqrt(np.einsum("ij,jk,ik->i", weights, cov, weights))
    t, z = weights @ score.ravel() / se, draws @ weights.T / se
    left, shown = set(range(len(pairs))), set()
    while left:
        c = np.quantile(z[:, sorted(left)].max(axis=1), level)
        more = {i for i in left if t[i] > c}
        if not more:
            break
        shown |= more
        left -= more
    lower, upper = np.ones((d1, C), int), np.full((d1, C), d1)
    for i in shown:
        u, a, b = pairs[i]
        lower[b, u] += 1
        upper[a, u] -= 1
    return lower, upper, c


def test_sets_are_those_of_a_loop_over_pairs(analysis):
    sets = lrbtl.rank_sets(analysis, draws=20_000)
    score, cov, noise = scores_of(analysis)
    assert noise.max() < 0.1  # so that the allowance for it is below Monte Carlo error
    draws = np.random.default_rng(5).multivariate_normal(np.zeros(len(cov)), cov, 20_000, method="svd")
    lower, upper, critical = looped_sets(score, cov, 0.95, draws)
    assert sets.critical == pytest.approx(critical, abs=0.06)
    assert np.mean((sets.lower != lower) | (sets.upper != upper)) < 0.1
    np.testing.assert_allclose(sets.score.T, score)
    np.testing.assert_array_equal(sets.rank, (-score.T).argsort(axis=0).argsort(axis=0) + 1)
    assert np.all((sets.lower <= sets.rank) & (sets.rank <= sets.upper))


def test_draws_are_the_multiplier_bootstrap_of_influence_values(analysis):
    battles = analysis.battles
    d1, D = battles.shape
    targets = resolve_targets(battles, [lrbtl.score(a, u) for u in range(D) for a in range(d1)])
    influence = analysis.run.influences(targets)  # (cells, scores), of one vote
    rng = np.random.default_rng(3)
    count = battles.cells.count
    rows = np.repeat(np.arange(len(count)), count)
    sums = np.stack([np.bincount(rows, rng.standard_normal(len(rows)), len(count)) @ influence for _ in range(1500)])
    _, cov, _ = scores_of(analysis)
    spread = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(sums.std(axis=0), spread, rtol=0.12)
    a, b = 0, 1
    gap = cov[a, a] + cov[b, b] - 2 * cov[a, b]
    assert np.std(sums[:, a] - sums[:, b]) == pytest.approx(np.sqrt(gap), rel=0.12)


def test_sets_over_all_categories_are_wider_than_those_of_one_and_narrower_than_bonferroni(analysis):
    joint = lrbtl.rank_sets(analysis, draws=20_000)
    alone = [lrbtl.rank_sets(analysis, categories=[u], draws=20_000) for u in range(4)]
    corrected = [lrbtl.rank_sets(analysis, categories=[u], level=1 - 0.05 / 4, draws=20_000) for u in range(4)]

    def length(parts):
        return sum(np.sum(each.upper - each.lower) for each in parts)

    assert length(alone) <= length([joint]) <= length(corrected)
    assert joint.critical <= max(each.critical for each in corrected) + 0.05


def test_first_of_all_is_an_intersection_union_test(analysis):
    sets, (score, cov, _) = lrbtl.rank_sets(analysis, draws=20_000), scores_of(analysis)
    found = sets.top(1)
    d1 = len(sets.models)
    for u in range(4):
        for a in range(d1):
            rows = u * d1 + np.arange(d1)
            own = cov[np.ix_(rows, rows)]
            others = [b for b in range(d1) if b != a]
            t = [(score[u, a] - score[u, b]) / np.sqrt(own[a, a] + own[b, b] - 2 * own[a, b]) for b in others]
            assert found.pvalue[a, u] == pytest.approx(norm.sf(min(t)), abs=0.02)
    np.testing.assert_array_equal(found.everywhere, found.pvalue.max(axis=1))
    assert np.all(sets.top(7).pvalue == 0.0)
    three = sets.top(3)
    np.testing.assert_array_equal(three.sure, sets.upper <= 3)
    np.testing.assert_array_equal(three.possible, sets.lower <= 3)
    assert not np.any(three.sure & ~three.possible) and np.all(three.pvalue[three.sure] < 0.05)


def test_tables_and_json(analysis):
    sets = lrbtl.rank_sets(analysis, categories=[2, None])
    table = json.loads(sets.to_json())
    assert table["category"][:7] == ["2"] * 7 and table["category"][7:] == ["overall"] * 7
    assert table["rank_lower"] == sets.lower.T.ravel().tolist() and table["level"] == 0.95
    assert sets.to_frame("pandas").shape == (14, 6)
    assert "all hold at once" in str(sets)
    top = sets.top(2)
    rows = json.loads(top.to_json())
    assert rows["category"][-1] == "every" and len(rows["pvalue"]) == 21
    assert top.to_frame("pandas").shape == (21, 6)
    assert "top 2" in str(top)


def test_boards_have_them():
    truth = lrbtl.simulate_scores((6, 3), 1, scale=2, rng=0)
    boards = lrbtl.leaderboard(lrbtl.simulate_battles(truth, 9000, rng=1), context="all", level=0.9)
    sets = boards.rank_sets()
    assert sets.level == 0.9 and sets.method == "hierarchical"
    assert lrbtl.rank_sets(boards.analysis, level=0.9).lower.tolist() == sets.lower.tolist()
    page = lrbtl.report_html(boards, tables=[("Rank sets", sets), ("Top two", sets.top(2))])
    assert "Rank sets" in page and "rank_lower" in page and "possible" in page
    again = lrbtl.Leaderboards.from_json(boards.to_json())
    with pytest.raises(lrbtl.errors.DocumentError, match="without their analysis"):
        again.rank_sets()


@pytest.mark.filterwarnings("ignore::lrbtl.errors.SeparationWarning")
def test_a_model_without_a_score_may_be_anywhere():
    battles = lrbtl.Battles.from_arrays(
        [0, 0, 0, 0, 1, 1, 2, 2],
        [1, 1, 2, 2, 2, 2, 3, 3],
        [1, 0, 1, 0, 1, 0, 1, 1],
        counts=[60, 9, 60, 5, 30, 30, 5, 5],
    )
    sets = lrbtl.rank_sets(battles, method="naive")
    unknown = np.flatnonzero(np.isnan(sets.score[:, 0]))
    assert unknown.size and np.all(sets.lower[unknown] == 1) and np.all(sets.upper[unknown] == 4)
    assert np.all(sets.rank[unknown] == 0)
    best = np.nanargmax(sets.score[:, 0])
    assert sets.lower[best, 0] == 1 and sets.upper[best, 0] >= 1 + unknown.size
    assert sets.top(1).pvalue[best, 0] == 1.0 and sets.to_dict()["score"][unknown[0]] is None
    none = lrbtl.rank_sets(lrbtl.Battles.from_arrays([0], [1], [1]), method="naive")
    assert none.lower.tolist() == [[1], [1]] and none.upper.tolist() == [[2], [2]] and not none.rank.any()


def test_bad_input_is_named(analysis):
    with pytest.raises(lrbtl.errors.MethodError, match="no effect"):
        lrbtl.rank_sets(analysis, rank=2)
    with pytest.raises(lrbtl.errors.MethodError, match="no categories"):
        lrbtl.rank_sets(analysis, categories=[])
    with pytest.raises(lrbtl.errors.LevelError):
        lrbtl.rank_sets(analysis, level=95)
    with pytest.raises(lrbtl.errors.MethodError, match="k=0"):
        lrbtl.rank_sets(analysis).top(0)
    with pytest.raises(lrbtl.errors.MethodError, match="draws"):
        lrbtl.rank_sets(analysis, draws=5)
