"""Boards, forecasts and plans of results."""

from typing import Any

import numpy as np
import pytest

import lrbtl
from lrbtl.errors import MethodError, PlanError, ScaleError


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    level = np.linspace(-1.5, 1.5, 12)
    z = level[:, None] + rng.normal(size=6) + 0.2 * rng.normal(size=(12, 6))
    score = 100 / (1 + np.exp(-z))
    score[rng.random(score.shape) < 0.3] = np.nan
    score[0, 1:] = np.nan
    score[0, 0] = 20.0
    frame: dict[str, Any] = {"model": [f"m{k:02d}" for k in range(12)]}
    frame |= {f"b{k}": [None if np.isnan(x) else float(x) for x in score[:, k]] for k in range(5)}
    frame["error"] = [None if np.isnan(x) else float(500 - 4 * x) for x in score[:, 5]]
    return lrbtl.Results.from_wide(frame, lower_is_better=["error"])


@pytest.fixture(scope="module")
def analysis(results):
    return lrbtl.analyse(results)


def test_the_index_is_the_mean_of_shares(results, analysis):
    board = lrbtl.leaderboard(results)
    assert board.scale == "score" and "not in the index" in board.info.notes[0] and "error" in board.info.notes[0]
    draws = np.mean([analysis.run.posterior.latent(u) for u in range(5)], axis=0)
    order = [results.model_index(model) for model in board.models]
    np.testing.assert_allclose(board.score, draws.mean(axis=0)[order])
    assert board.rank.tolist() == list(range(1, 13)) and np.all(board.lower < board.score)
    assert "measured on 1 of 5" in board.notes[board.models.index("m00")]
    text = str(board)
    assert "votes" not in text and "win rate" not in text and "hierarchical factor model" in text


def test_weights_and_contexts(results):
    board = lrbtl.leaderboard(results, weights={"b0": 3, "b1": 1})
    assert board.weights == {"b0": 0.75, "b1": 0.25}
    with pytest.raises(ScaleError, match="mix shares"):
        lrbtl.leaderboard(results, weights={"b0": 1, "error": 1})
    boards = lrbtl.leaderboard(results, context="all")
    assert list(boards) == ["b0", "b1", "b2", "b3", "b4", "error"]
    low = boards["error"]
    assert low.score[0] == low.score.min() and "lower is better" in low.info.notes
    seen = results.measured[:, results.context_index("b2")]
    told = dict(zip(boards["b2"].models, boards["b2"].notes, strict=True))
    assert [told[model] for model in results.models] == ["measured" if x else "forecast" for x in seen]
    single = lrbtl.leaderboard(results, context="b2")
    np.testing.assert_allclose(single.score, boards["b2"].score)
    assert lrbtl.Leaderboard.from_json(single.to_json()).scale == "score"
    with pytest.raises(MethodError, match="are for votes"):
        lrbtl.leaderboard(results, margin=5)
    with pytest.raises(MethodError, match="factor model"):
        lrbtl.leaderboard(results, method="mle", rank=1)


def test_forecasts_are_of_missing_cells(results, analysis):
    found = lrbtl.forecast(analysis)
    assert len(found) == int((~results.measured).sum())
    table = found.to_dict()
    assert list(table) == ["model", "benchmark", "estimate", "lower", "upper", "rests_on"]
    for model, benchmark in zip(table["model"], table["benchmark"], strict=True):
        assert not results.measured[results.model_index(model), results.context_index(benchmark)]
    assert np.all(found.lower <= found.estimate) and np.all(found.estimate <= found.upper)
    assert np.median((found.upper - found.lower) / (found.latent_upper - found.latent_lower)) > 1
    bounded = np.array([benchmark != "error" for benchmark in table["benchmark"]])
    assert found.lower[bounded].min() >= 0 and found.upper[bounded].max() <= 100
    first = found.of_model("m00")
    assert set(first.models) == {"m00"} and set(first.rests_on) == {("b0",)}
    assert "rests on" in str(found) and len(found.to_frame()) == len(found)


def test_forecasts_of_named_cells_and_levels(results):
    wide, narrow = (lrbtl.forecast(results, model=["m00"], context=["b1", "b2"], level=level) for level in (0.95, 0.5))
    assert wide.contexts == (("b1",), ("b2",)) and np.all(wide.upper - wide.lower > narrow.upper - narrow.lower)
    again = lrbtl.forecast(results, model="m00", context="b0")
    assert len(again) == 1 and again.lower[0] < 20 < again.upper[0]
    with pytest.raises(lrbtl.errors.UnknownModelError):
        lrbtl.forecast(results, model="m99")
    with pytest.raises(MethodError, match="factor model of results"):
        lrbtl.forecast(results, method="mle", rank=1)


def test_forecasts_follow_the_scores_they_rest_on(results):
    """What one unit more of a score adds to the forecast is the weight that names it."""
    high = {"model": "m00", "b0": 80.0}
    rows = {name: [] for name in ("model", "benchmark", "score")}
    for a, u, y in zip(results.cells.a, results.cells.context, results.cells.y, strict=True):
        for name, x in zip(rows, (results.models[a], results.levels[0][u], y), strict=True):
            rows[name].append(x if not (name == "score" and a == 0) else high["b0"])
    raised = lrbtl.Results.from_frame(rows, lower_is_better=["error"])
    before, after = (lrbtl.forecast(each, model="m00", context="b1").estimate[0] for each in (results, raised))
    assert after > before + 10


def test_plans_name_missing_cells_and_spend_the_budget(results):
    plan = lrbtl.plan(results, 4)
    assert len(plan.models) == 4 and plan.models[0] == "m00" and np.all(plan.after < plan.before)
    for model, benchmark in zip(plan.models, plan.contexts, strict=True):
        assert not results.measured[results.model_index(model), results.context_index(benchmark)]
    one = lrbtl.plan(results, 6, goal=("rank", "m00"), cost={"b1": 4, "b2": 4})
    assert set(one.models) == {"m00"} and one.cost.sum() <= 6 and one.contexts[0] not in ("b1", "b2")
    top = lrbtl.plan(results, 2, goal=("top", 3))
    assert set(top.models) <= {"m09", "m10", "m11", "m08"}
    assert list(plan.to_dict()) == ["model", "context", "cost", "before", "after"] and "Plan of 4 runs" in str(plan)
    for options in ({"goal": lrbtl.entry(0, 0)}, {"cost": {"b0": -1}}):
        with pytest.raises(PlanError):
            lrbtl.plan(results, 2, **options)


def test_a_planned_run_narrows_the_index_as_told(results):
    plan = lrbtl.plan(results, 1, goal=("rank", "m00"))
    rows = {name: [] for name in ("model", "benchmark", "score")}
    for a, u, y in zip(results.cells.a, results.cells.context, results.cells.y, strict=True):
        for name, x in zip(rows, (results.models[a], results.levels[0][u], y), strict=True):
            rows[name].append(x)
    guess = lrbtl.forecast(results, model="m00", context=plan.contexts[0]).estimate[0]
    more = {name: [*rows[name], x] for name, x in zip(rows, ("m00", plan.contexts[0], guess), strict=True)}
    board = lrbtl.leaderboard(lrbtl.Results.from_frame(more, lower_is_better=["error"]))
    now = lrbtl.leaderboard(results)
    width = [(b.upper - b.lower)[b.models.index("m00")] / 2 for b in (now, board)]
    assert width[1] < width[0]
    assert plan.before[0] == pytest.approx(width[0], rel=0.4)


def test_a_score_has_the_interval_of_its_board():
    """`infer` and boards read the same draws, and so do parts and differences of estimates."""
    results = lrbtl.Results.from_wide(
        {"model": ["x", "y", "z", "w"], "math": [97, 60, 50, 40], "code": [50, 41, 29, None], "law": [9, 2, None, 1]}
    )
    for context in (None, "math"):
        board = lrbtl.leaderboard(results, context=context)
        found = lrbtl.infer(results, [lrbtl.score(model, context) for model in board.models])
        np.testing.assert_allclose(found.estimate, board.score)
        np.testing.assert_allclose(found.conf_int(), np.stack([board.lower, board.upper], axis=1))
        np.testing.assert_allclose(found[1:3].conf_int(0.95), found.conf_int()[1:3])
        gap = lrbtl.infer(results, [lrbtl.gap(board.models[0], board.models[1], context)])
        np.testing.assert_allclose((found[[0]] - found[[1]]).conf_int(), gap.conf_int())
