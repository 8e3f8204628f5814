"""Results per item: battles against a loop, accuracies and their noise against plain sums."""

from dataclasses import replace

import numpy as np
import pytest

import lrbtl
from lrbtl.data.item_logs import PLAIN_COLUMNS, ItemLog
from lrbtl.data.items import accuracies, item_battles, pooled, rasch, read_items
from lrbtl.entries.method import FactorRun
from lrbtl.errors import EmptyDataError, ScoreError, TooFewModelsError


def make_items(rng, n_items=40, models=5, spread=1.5):
    ability = np.linspace(-1, 1, models)
    p = 1 / (1 + np.exp(-(ability - spread * rng.normal(size=n_items)[:, None])))
    right = (rng.random(p.shape) < p).astype(int)
    item, model = np.nonzero(right >= 0)
    return p, {
        "model": [f"m{k}" for k in model],
        "item": item.tolist(),
        "benchmark": ["b"] * item.size,
        "correct": right.ravel().tolist(),
    }


def test_battles_are_discordant_pairs():
    _, frame = make_items(np.random.default_rng(0))
    table = read_items(ItemLog("a table", frame, PLAIN_COLUMNS))
    first, second, y, weight, item = item_battles(table)
    right = np.array(frame["correct"]).reshape(40, 5)
    expected = set()
    for k in range(40):
        for a in range(5):
            for b in range(a + 1, 5):
                if right[k, a] != right[k, b]:
                    expected.add((a, b, float(right[k, a]), k))
    assert set(zip(first.tolist(), second.tolist(), y.tolist(), item.tolist(), strict=True)) == expected
    np.testing.assert_allclose(weight, 2 / 5)
    battles = lrbtl.Battles.from_items(frame)
    assert (
        battles.n_battles == len(expected)
        and battles.cluster_names == ("item",)
        and battles.mode_names == ("benchmark",)
    )
    assert lrbtl.leaderboard(battles).models[0] == "m4"


def test_samples_are_shares_and_rows_of_an_item_are_samples():
    rows = {
        "model": ["x", "x", "y"],
        "item": [1, 1, 1],
        "benchmark": ["b"] * 3,
        "correct": [1, 0, 0.25],
        "n": [1, 3, 4],
    }
    table = read_items(ItemLog("a table", rows, replace(PLAIN_COLUMNS, samples="n")))
    assert table.share.tolist() == [0.25, 0.25] and table.samples.tolist() == [4, 4]
    _, _, y, weight, _ = item_battles(table)
    assert sorted(zip(y.tolist(), weight.tolist(), strict=True)) == [(0.0, 0.75 * 0.25), (1.0, 0.25 * 0.75)]


def test_bad_items():
    frame = {"model": ["x", "y"], "item": [1, 1], "benchmark": ["b", "b"], "correct": [1, 1]}
    with pytest.raises(EmptyDataError, match="no two models differ"):
        lrbtl.Battles.from_items(frame)
    with pytest.raises(ScoreError, match="correct is 3 in row 1"):
        lrbtl.Battles.from_items({**frame, "correct": [1, 3]})
    with pytest.raises(TooFewModelsError):
        lrbtl.Battles.from_items({**frame, "model": ["x", "x"]})


def test_noise_of_accuracies_is_that_of_samples_and_items():
    rng = np.random.default_rng(1)
    p, _ = make_items(rng, 400, 6)
    right = (rng.random(p.shape) < p).astype(float)
    found = accuracies(right, np.ones_like(right))
    np.testing.assert_allclose(found.share, right.mean(axis=0))
    fitted = rasch(right)
    np.testing.assert_allclose(found.inside, (fitted * (1 - fitted)).mean(axis=0) / 400)
    np.testing.assert_allclose(found.inside, (p * (1 - p)).mean(axis=0) / 400, rtol=0.2)
    draws = np.array([make_items(np.random.default_rng([2, k]), 400, 6)[0].mean(axis=0) for k in range(300)])
    spread = found.share * (1 - found.share)
    logits = draws / spread
    assert found.common / 400 == pytest.approx(
        np.mean([np.cov(logits.T)[a, b] for a, b in [(1, 2), (2, 3), (3, 4)]]), rel=0.35
    )
    total = found.own_variance(found.own, 0.0) + spread**2 * found.common / 400
    np.testing.assert_allclose(total, spread / 400, rtol=0.2)
    assert np.all(found.own_variance(found.own, 1.0) < total)


def test_few_items_borrow_from_other_benchmarks():
    rng = np.random.default_rng(3)
    many, few = (accuracies((rng.random((n, 4)) < 0.5).astype(float), np.ones((n, 4))) for n in (500, 3))
    (one, _), (two, _) = pooled([many, few])
    assert abs(one - many.own) < abs(two - few.own) + 1e-12


def test_accuracies_as_results_hold_the_truth():
    rng = np.random.default_rng(4)
    p, frame = make_items(rng, 300, 8)
    results = lrbtl.Results.from_items(frame, n_items="these")
    np.testing.assert_allclose(results.cells.y, 100 * np.array(frame["correct"]).reshape(300, 8).mean(axis=0))
    assert results.common_variance[0] == 0.0
    est = lrbtl.infer(results, [lrbtl.score(k, "b") for k in range(8)])
    z = (est.estimate - 100 * p.mean(axis=0)) / est.se
    assert np.abs(z).max() < 4
    part = lrbtl.Results.from_items(frame, n_items={"b": 600})
    every = lrbtl.Results.from_items(frame)
    assert 0 < part.common_variance[0] < every.common_variance[0]
    assert np.all(results.variance < part.variance) and np.all(part.variance < every.variance)
    with pytest.raises(lrbtl.errors.ObservationError, match="n_items"):
        lrbtl.Results.from_items(frame, n_items="all")


def test_own_noise_is_what_easiness_leaves():
    rng = np.random.default_rng(5)
    n, share = 2000, np.array([0.2, 0.4, 0.5, 0.7])
    easy, own = 0.8 * rng.normal(size=n), rng.normal(size=(n, 4))
    spread = share * (1 - share)
    right = share + spread * easy[:, None] + np.sqrt(0.05 * spread) * own
    found = accuracies(right, np.full(right.shape, 1e9))
    rest = np.mean(right * (1 - right)) / 1e9
    assert rest < 1e-9 and found.common == pytest.approx(0.64, rel=0.1)
    assert found.own == pytest.approx(0.05, rel=0.1)


def test_no_right_answer_is_no_certainty():
    rng = np.random.default_rng(6)
    rows = {"model": [], "benchmark": [], "item": [], "correct": []}
    for k, level in enumerate(np.linspace(0.02, 0.6, 12)):
        for benchmark, n in (("easy", 200), ("hard", 30)):
            able = benchmark == "easy" or k > 6
            for item, x in enumerate(rng.random(n) < (level if able else 0.0)):
                for name, value in zip(rows, (f"m{k:02}", benchmark, item, int(x)), strict=True):
                    rows[name].append(value)
    results = lrbtl.Results.from_items(rows, n_items="these")
    est = lrbtl.infer(results, [lrbtl.score(f"m{k:02}", "hard") for k in range(7)])
    low, high = est.conf_int().T
    assert np.all(low < 0.3) and np.all(high > 0.5) and np.all(high < 100 * 5.1 / 30)
    run = lrbtl.analyse(results).run
    assert isinstance(run, FactorRun)
    draws = run.posterior.latent(results.levels[0].index("hard"))[:, :7]
    share = np.mean(draws < 0.1, axis=0)  # Beta(1/2, 30.5) has .19 of its mass there, factors alone nearly none
    assert np.all(share > 0.05) and np.all(draws.std(axis=0) > 0.1)
