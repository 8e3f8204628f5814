"""Entry-wise intervals: Pratt's formula against a grid, own votes against a plain fit, coverage of specialists."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

import lrbtl
from lrbtl.errors import EstimateError
from lrbtl.inference.analysis import looked_at
from lrbtl.inference.entrywise import OwnVotes, fab_interval, own_votes
from lrbtl.inference.targets import resolve_targets


def grid_interval(y, sigma, mean, variance, level):
    """All theta that the definition keeps, one at a time."""
    tail = 1 - level

    def s_of(theta):
        wanted = 2 * sigma * (theta - mean) / variance
        return brentq(lambda u: norm.ppf(tail * expit(u)) - norm.ppf(tail * expit(-u)) - wanted, -650, 650)

    kept = []
    for theta in np.linspace(y - 6 * sigma, y + 6 * sigma, 4001):
        u = s_of(theta)
        if y + sigma * norm.ppf(tail * expit(-u)) < theta < y - sigma * norm.ppf(tail * expit(u)):
            kept.append(theta)
    return min(kept), max(kept)


@pytest.mark.parametrize("y", [-2.0, 0.3, 4.0])
@pytest.mark.parametrize("variance", [0.4, 3.0])
def test_it_is_the_set_of_the_definition(y, variance):
    one = np.ones(1)
    found = fab_interval(y * one, 0.8 * one, 0.5 * one, variance * one, 0.9)[0]
    assert found == pytest.approx(grid_interval(y, 0.8, 0.5, variance, 0.9), abs=0.004)


@pytest.mark.parametrize("theta", [-3.0, 0.0, 1.0, 6.0])
def test_coverage_is_exact_whatever_the_truth(theta):
    y = theta + np.random.default_rng(0).normal(size=20_000)
    one = np.ones_like(y)
    found = fab_interval(y, one, 0 * y, one)
    assert ((found[:, 0] < theta) & (theta < found[:, 1])).mean() == pytest.approx(0.95, abs=0.006)


def test_it_is_shorter_where_the_rest_of_the_log_is_right():
    y = np.random.default_rng(1).normal(size=4000) * np.sqrt(2.0)
    width = np.diff(fab_interval(y, np.ones_like(y), 0 * y, np.ones_like(y))).mean()
    assert width < 0.95 * 2 * 1.96


@pytest.fixture(scope="module")
def battles():
    truth = lrbtl.simulate_scores((7, 3), 1, scale=1, rng=0)
    return lrbtl.simulate_battles(truth, 4000, rng=1)


def test_own_votes_are_a_fit_of_one_entry_given_its_opponents(battles):
    analysis = lrbtl.analyse(battles)
    scores, cells = analysis.scores(), battles.cells
    own = own_votes(analysis.run, resolve_targets(battles, [lrbtl.score(2, 1)]))
    at = (cells.context == 1) & ((cells.a == 2) | (cells.b == 2))
    rival = np.where(cells.a == 2, cells.b, cells.a)[at]
    won = np.where(cells.a == 2, cells.y, 1 - cells.y)[at]

    def slope(x):
        pull = (x - scores[2, 1]) / 9.0
        return cells.count[at] @ (won - expit(x - scores[rival, 1])) - pull

    root = brentq(slope, -6, 6)
    centred = root - scores[:, 1].mean()
    assert own.value[0] == pytest.approx(centred, abs=1e-6)
    p = expit(root - scores[rival, 1])
    least = 1 / np.sqrt(cells.count[at] @ (p * (1 - p)))
    assert 0.8 * least < own.se[0] < 1.5 * least and 0 < own.weight[0] < 1


def test_a_method_without_a_prior_is_all_own_votes():
    plain = lrbtl.simulate_battles(np.array([0.5, 0.0, -0.5]), 3000, rng=1)
    est = lrbtl.infer(plain, [lrbtl.gap(0, 1), lrbtl.score(0)], method="naive")
    assert est.conf_int(kind="entry") == pytest.approx(est.conf_int(), abs=0.03)


def test_rows_scales_and_looks(battles):
    analysis = lrbtl.analyse(battles)
    est = analysis.estimate([lrbtl.score(0, 0), lrbtl.gap(1, 2, 1), lrbtl.win_probability(1, 2, 1)])
    found = est.conf_int(kind="entry")
    assert est[1].conf_int(kind="entry") == pytest.approx(found[1:2])
    assert 0 < found[2, 0] < found[2, 1] < 1
    assert est[:2].conf_int(kind="entry", scale="elo") == pytest.approx(found[:2] * 400 / np.log(10))
    wide = looked_at(analysis, valid="always").estimate([lrbtl.score(0, 0)]).conf_int(kind="entry")
    assert np.diff(wide)[0] > np.diff(found)[0] and np.diff(found)[0] > 0.9 * np.diff(est.conf_int())[0]
    for wrong in ({"joint": True}, {"scale": "natural"}):
        with pytest.raises(EstimateError, match="neither joint"):
            est.conf_int(kind="entry", **wrong)


def test_an_entry_without_votes_has_no_end():
    pairs = [("a", "b", "x"), ("b", "c", "x"), ("a", "c", "x"), ("a", "b", "y")]
    rows = [(*pair, y) for pair in pairs for y in (1, 0)]
    a, b, u, y = zip(*rows, strict=True)
    log = lrbtl.Battles.from_arrays(a, b, y, u, counts=[30, 20] * 4)
    found = lrbtl.infer(log, [lrbtl.score("c", "y"), lrbtl.score("a", "y")]).conf_int(kind="entry")
    assert np.isinf(found[0]).all() and np.isfinite(found[1]).all()


def test_what_it_is_not_for(battles):
    results = lrbtl.Results.from_wide({"model": ["x", "y", "z"], "math": [70, 60, 50], "code": [50, 41, 29]})
    with pytest.raises(EstimateError, match="for votes"):
        lrbtl.infer(results, lrbtl.score("x", "math")).conf_int(kind="entry")
    with pytest.raises(EstimateError, match="own votes of its targets"):
        lrbtl.Estimate(["x"], [1.0], [[0.25]], links="identity").conf_int(kind="entry")
    nothing = OwnVotes(*np.full((3, 1), np.nan))
    assert np.isinf(nothing.intervals(np.zeros(1), 0.95)).all()


def test_gates_of_a_category_use_it(battles):
    analysis = lrbtl.analyse(battles)
    found = analysis.gate(0, 1, context=1)
    est = analysis.estimate(lrbtl.gap(0, 1, 1))
    assert found.entry and "entry-wise" in str(found)
    assert (found.lower, found.upper) == pytest.approx(tuple(est.conf_int(kind="entry", scale="elo")[0]))
    assert not analysis.gate(0, 1).entry and not lrbtl.gate(battles, 0, 1, context=1, method="naive").entry


def test_specialists_are_covered():
    rng, hits, normal = np.random.default_rng(5), [], []
    for seed in range(12):
        truth = rng.normal(size=(14, 1)) * 0.6 + 0.05 * rng.normal(size=(14, 5))
        for k in range(3):
            truth[k, k] += 1.0
        log = lrbtl.simulate_battles(truth, 3500, rng=seed)
        truth = truth - truth.mean(axis=0)
        est = lrbtl.infer(log, [lrbtl.score(k, k) for k in range(3)])
        for kept, kind in ((hits, "entry"), (normal, "normal")):
            ends = est.conf_int(kind=kind)
            kept += [ends[k, 0] < truth[k, k] < ends[k, 1] for k in range(3)]
    assert np.mean(hits) > 0.85 and np.mean(hits) >= np.mean(normal)
