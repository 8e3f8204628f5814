"""Diagnoses: of the default analysis, and of low-rank fits by the model that does not take their rank as true."""

import json

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

import lrbtl
from lrbtl.inference.analysis import analyse_fit
from lrbtl.inference.diagnose import expected_coverage


def nearly_low_rank(share, shape=(16, 10), n=80_000, seed=0):
    """Return scores of rank 2 with a share of deviations, and battles."""
    rng = np.random.default_rng(seed)
    low = lrbtl.simulate_scores(shape, 2, scale=2, rng=seed)
    away = rng.normal(size=shape)
    truth = low + np.sqrt(share / (1 - share)) * low.std() * (away - away.mean(axis=0))
    return truth, lrbtl.simulate_battles(truth, n, rng=seed + 1)


@pytest.fixture(scope="module")
def exact():
    return nearly_low_rank(0.0, (12, 6), 20_000, 3)[1]


def test_an_arena_without_flaws(exact):
    found = lrbtl.diagnose(exact)
    assert found.verdict == "ready to publish" and found.is_good and type(found) is lrbtl.Diagnosis
    assert {level for level, _ in found.sentences} == {"ok"}
    assert found.share < 0.02 and len(found.ranks) >= 1 and not found.newcomers and not found.sparse_models
    assert "Win rates of the favourite by size of the gap" in str(found)
    assert found.n_battles == 20_000 and len(found.groups) == 1
    again = lrbtl.diagnose(exact, lrbtl.analyse(exact))
    assert json.dumps(again.to_dict()) == json.dumps(found.to_dict())


def test_deviations_are_told_in_words():
    _, battles = nearly_low_rank(0.1)
    found = lrbtl.diagnose(battles)
    assert 0.05 < found.share < 0.2
    assert f"{found.share:.0%} of the score variance is category-specific" in str(found)


def test_low_rank_is_not_called_safe_where_it_covers_too_little():
    truth, battles = nearly_low_rank(0.1)
    fit = lrbtl.fit(battles, 2)
    est = analyse_fit(fit).estimate(lrbtl.all_scores())
    covered = np.mean(np.abs(est.estimate - truth.ravel()) < 1.96 * est.se)
    found = lrbtl.diagnose(battles, fit)
    assert covered < 0.7 and found.verdict == "prefer hierarchical" and not found.is_good
    assert found.coverage == pytest.approx(covered, abs=0.1) and found.coverage_at_best < 0.75
    assert f"{found.coverage:.0%}" in found.reason and "method='hierarchical'" in found.reason


def test_a_rank_too_small_is_seen_where_scores_are_of_low_rank(exact):
    safe, small = (lrbtl.diagnose(exact, lrbtl.fit(exact, rank)) for rank in (2, 1))
    assert safe.verdict == "efficient is safe" and safe.coverage_at_best > 0.93 and safe.rank == (2, 2)
    assert small.verdict == "prefer hierarchical" and small.coverage < 0.6


def test_expected_coverage_is_that_of_draws(exact):
    fit, wider = lrbtl.fit(exact, 1), lrbtl.analyse(exact)
    (values, errors), (scores, spread) = (
        run.family("scores") for run in (analyse_fit(fit, method="mle").run, wider.run)
    )
    draws = scores + spread * np.random.default_rng(0).normal(size=(4000, *scores.shape))
    inside = np.abs(draws - values) < norm.ppf(0.975) * errors
    assert expected_coverage(fit, wider)[0] == pytest.approx(inside.mean(), abs=0.003)


def test_what_votes_lack_is_named():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 6, 4_000)
    second = (first + rng.integers(1, 6, 4_000)) % 6
    tasks = np.where(rng.random(4_000) < 0.98, rng.integers(0, 2, 4_000), 2)
    columns = first, second, rng.integers(0, 2, 4_000), tasks
    rows = [(f"m{i}", f"m{j}", y, f"task {u}") for i, j, y, u in zip(*columns, strict=True)]
    rows += [("new", "m0", y, "task 0") for y in (0, 1) * 30]
    rows += [("rare", "m0", 1, "task 0"), ("rare", "m1", 0, "task 1")]
    rows += [("p", "q", 1, "task 0"), ("p", "q", 0, "task 1")]
    x, y, won, where = zip(*rows, strict=True)
    found = lrbtl.diagnose(lrbtl.Battles.from_arrays(x, y, won, [where]))
    assert found.verdict == "separate boards" and len(found.groups) == 2 and found.groups[1] == ("p", "q")
    assert found.newcomers == ("new",) and found.sparse_models == ("rare",) and found.thin_contexts == ("task 2",)
    text = str(found)
    assert "! Connection: no votes link 2 groups" in text and "1 model (new) has votes in one category only" in text
    assert "! Thin categories: 1 category (task 2) has fewer than 100 votes" in text
    assert "1 model (rare) has fewer than 30" in text


def test_models_that_never_meet_in_a_category():
    pairs = [("a", "b", "x"), ("c", "d", "x"), ("a", "b", "y"), ("b", "c", "y"), ("c", "d", "y")]
    columns = [[row[k] for row in pairs for _ in range(80)] for k in range(3)]
    battles = lrbtl.Battles.from_arrays(columns[0], columns[1], [1, 0] * 200, [columns[2]])
    found = lrbtl.diagnose(battles)
    assert found.split_contexts == ("x",) and "Split categories: 1 category (x)" in str(found)


def test_exceptions_are_named():
    truth = np.random.default_rng(3).normal(size=(20, 1)) @ np.ones((1, 6))
    truth[4, 2] += 1.5
    found = lrbtl.diagnose(lrbtl.simulate_battles(truth - truth.mean(axis=0), 60_000, rng=1))
    ((model, context, points),) = found.outliers
    assert (model, context) == ("model_04", 2) and points > 100 and f"model_04 in 2 ({points:+.0f})" in str(found)


def test_votes_that_contradict_the_link():
    rng = np.random.default_rng(0)
    truth = lrbtl.simulate_scores((12, 3), 2, scale=4, rng=0)
    a, task = rng.integers(0, 12, 80_000), rng.integers(0, 3, 80_000)
    b = (a + rng.integers(1, 12, 80_000)) % 12
    y = rng.random(80_000) < 0.06 + 0.88 * expit(1.5 * (truth[a, task] - truth[b, task]))
    found = lrbtl.diagnose(lrbtl.Battles.from_arrays(a, b, y, [task]))
    assert found.verdict == "publish with care" and "no win rates between models far apart" in found.reason
    warned = [text for level, text in found.sentences if level == "warn"]
    assert warned[0].startswith("Calibration: favourites by more than") and "use link='cauchit'" in warned[1]
    assert found.links is not None and str(found.links) in str(found)
    json.dumps(found.to_dict())


def test_plain_boards_and_options():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((5,), 1, scale=1, rng=0), 600, rng=1)
    found = lrbtl.diagnose(battles)
    assert np.isnan(found.share) and not found.ranks and found.verdict == "ready to publish"
    assert "category" not in str(found)
    few = lrbtl.diagnose(lrbtl.Battles.from_arrays(["x"], ["y"], [1]))
    assert "too few for a check" in few.reason
    fitted = lrbtl.diagnose(battles, method="mle", rank=1, link="probit")
    assert isinstance(fitted, lrbtl.FitDiagnosis) and np.isnan(fitted.coverage)
    assert lrbtl.diagnose(battles, method="naive").verdict == "ready to publish"


@pytest.mark.parametrize(("n_judges", "told"), [(4, ()), (40, (("judge", 40, 30),))])
def test_columns_of_too_many_levels_are_told(n_judges, told):
    """640 columns hold 20 models at 2 + 30 levels."""
    rng, n = np.random.default_rng(0), 4000
    a, judge = rng.integers(20, size=n), rng.integers(n_judges, size=n)
    b, won = (a + rng.integers(1, 20, size=n)) % 20, rng.integers(2, size=n)
    frame = {"model_a": a, "model_b": b, "winner": won, "category": rng.integers(2, size=n), "judge": judge}
    found = lrbtl.diagnose(lrbtl.Battles.from_frame(frame, contexts=["category", "judge"]), rank=1)
    assert found.unshared == told
    assert ("judge has 40 levels" in str(found)) == bool(told)
