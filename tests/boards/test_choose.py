"""Choices by score and cost: verdicts against loops, probabilities against counting, routing, costs, errors."""

import json
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lrbtl
from lrbtl.boards.choose import CANNOT_TELL, DOMINATED, FRONTIER, frontier, read_costs, substitutes
from lrbtl.boards.ranking import JointGaps, joint_above
from lrbtl.boards.standing_draws import JointScores, chance_first, chance_top, chance_undominated
from lrbtl.errors import CostError, DocumentError, MarginError, MethodError
from lrbtl.inference.estimate import ELO


@pytest.fixture(scope="module")
def battles():
    truth = np.array([[0.9, 0.2], [0.5, 0.8], [0.0, 0.1], [-0.4, -0.3], [-1.0, -0.8]])
    found = lrbtl.simulate_battles(truth, 6000, rng=3)
    return replace(found, levels=(("code", "math"),), mode_names=("task",))


@pytest.fixture(scope="module")
def analysis(battles):
    return lrbtl.analyse(battles)


COST = {"model_0": 10.0, "model_1": 2.0, "model_2": 5.0, "model_3": 1.0, "model_4": 3.0}


def loop_verdicts(cost, gap, reach):
    """The definition, one model at a time."""
    out = []
    for a in range(len(cost)):
        rivals = [b for b in range(len(cost)) if b != a and cost[b] <= cost[a]]
        if any(gap[b, a] > reach[b, a] for b in rivals):
            out.append(DOMINATED)
        else:
            out.append(FRONTIER if all(gap[a, b] > reach[a, b] for b in rivals) else CANNOT_TELL)
    return tuple(out)


@given(st.integers(0, 10_000), st.integers(2, 7))
def test_verdicts_are_the_definition(seed, n):
    rng = np.random.default_rng(seed)
    score, cost = rng.normal(size=n), rng.integers(1, 5, n).astype(float)
    half = rng.random((n, n)) * 1.5
    reach = half + half.T
    verdict, by = frontier(cost, score[:, None] - score, reach)
    assert verdict == loop_verdicts(cost, score[:, None] - score, reach)
    for a in np.flatnonzero(by >= 0):
        assert cost[by[a]] <= cost[a] and score[by[a]] - score[a] > reach[by[a], a]


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_probabilities_are_counts_over_draws(seed, n):
    rng = np.random.default_rng(seed)
    draws, cost, k = rng.normal(size=(40, n)), rng.integers(1, 4, n).astype(float), int(rng.integers(1, n + 1))
    place = (draws[:, :, None] < draws[:, None, :]).sum(axis=2)  # how many are better
    assert np.allclose(chance_first(draws), (place == 0).mean(axis=0))
    assert np.allclose(chance_top(draws, k), (place < k).mean(axis=0))
    beaten = ((draws[:, None, :] > draws[:, :, None]) & (cost[None, :] <= cost[:, None])).any(axis=2)
    assert np.allclose(chance_undominated(draws, cost), (~beaten).mean(axis=0))


def test_scores_are_the_boards_and_verdicts_those_of_joint_ranks(analysis):
    found = lrbtl.choose(analysis, COST)
    board = analysis.leaderboard()
    assert found.models == board.models and np.array_equal(found.score, board.score)
    assert np.array_equal(found.lower, board.lower) and np.array_equal(found.upper, board.upper)
    basis = board.basis
    (est,) = basis.analysis.estimate_boards(basis.weights[None], basis.ranked[None])
    above = joint_above(est.working, est.working_cov)
    place = {model: k for k, model in enumerate(analysis.battles.models)}
    cost = np.array([COST[model] for model in found.models])
    at = [place[model] for model in found.models]
    above = above[np.ix_(at, at)]
    dominated = (above & (cost[:, None] <= cost)).any(axis=0)
    assert [word == DOMINATED for word in found.verdict] == dominated.tolist()
    assert np.isclose(found.p_first.sum(), 1.0) and np.isclose(found.p_top.sum(), 3.0)


def test_a_substitute_is_cheaper_and_within_the_margin_and_there_is_no_cheaper_one(analysis):
    found = lrbtl.choose(analysis, COST, margin=60)
    board = analysis.leaderboard()
    place = {model: k for k, model in enumerate(analysis.battles.models)}
    joint = JointScores.of(
        analysis, board.basis.weights, np.array([place[model] for model in found.models]), board.basis.ranked
    )
    gaps, n = joint.gaps(0.95, 0), len(found)
    reach = gaps.reach(gaps.errors())
    for a in range(n):
        good = []
        for b in range(n):
            follow = float(joint.follow(np.array([b]), np.array([a]))[0]) if a != b else 1.0
            gap = (joint.score[b] - joint.score[a]) / follow
            if found.cost[b] < found.cost[a] and gap - reach[b, a] / follow**0.5 > -60:
                good.append(b)
        want = min(good, key=lambda b: (found.cost[b], -joint.score[b])) if good else None
        assert found.instead[a] == (None if want is None else found.models[want])
        if want is not None:
            assert found.saves[a] == pytest.approx(1 - found.cost[want] / found.cost[a])
    assert any(found.instead) and "at" in found.sentence(next(k for k in range(n) if found.instead[k]))


def test_without_shrinkage_one_pass_is_enough():
    class Plain(JointScores):
        def follow(self, a, b):
            return np.ones(a.size)

    cov = 0.01 * np.eye(3)
    joint = Plain(None, np.ones(1), np.arange(3), np.array([1.0, 0.9, 0.0]), cov)
    found = substitutes(joint, JointGaps.of(cov), np.array([3.0, 2.0, 1.0]), 0.6)
    assert found.tolist() == [1, -1, -1]


def test_routing_picks_the_best_of_each_category(analysis):
    routing = lrbtl.choose(analysis, COST).routing
    boards = analysis.boards()
    assert routing.categories == ("code", "math")
    assert routing.pick == tuple(boards[name].models[0] for name in routing.categories)
    assert routing.single == boards.overall.models[0]
    for u, name in enumerate(routing.categories):
        board = boards[name]
        away = board[routing.pick[u]].score - board[routing.single].score
        assert routing.gain[u] == pytest.approx(away, abs=1e-6)
        assert routing.regret[u] >= -1e-9
        assert routing.single_regret[u] == pytest.approx(routing.regret[u] + routing.gain[u])
    assert routing.overall("gain") == pytest.approx(float(routing.weight @ routing.gain))


def test_expected_regret_is_the_mean_over_the_normal_law(analysis):
    routing = lrbtl.choose(analysis, COST).routing
    (est,) = analysis.estimate_boards(np.array([[1.0, 0.0]]))
    draws = np.random.default_rng(5).multivariate_normal(ELO * est.estimate, ELO**2 * est.cov, 200_000)
    pick = analysis.battles.model_index(routing.pick[0])
    assert routing.regret[0] == pytest.approx((draws.max(axis=1) - draws[:, pick]).mean(), abs=0.25)
    assert routing.p_first[0] == pytest.approx((draws.argmax(axis=1) == pick).mean(), abs=0.02)


def test_weights_and_categories_are_those_of_boards(analysis):
    mixed = lrbtl.choose(analysis, COST, weights={"math": 3, "code": 1})
    assert np.array_equal(mixed.score, analysis.leaderboard(weights={"math": 3, "code": 1}).score)
    alone = lrbtl.choose(analysis, COST, context="math")
    assert np.array_equal(alone.score, analysis.leaderboard("math").score) and alone.routing is None
    board = analysis.leaderboard(weights={"math": 3, "code": 1})
    assert np.array_equal(lrbtl.choose(board, COST).p_first, mixed.p_first)
    assert np.array_equal(lrbtl.choose(analysis.boards(), COST).score, lrbtl.choose(analysis, COST).score)


@pytest.mark.parametrize("frame", [True, False])
def test_a_column_of_a_table(battles, frame, tmp_path):
    table = pd.DataFrame({"model": list(COST), "input": 1.0, "output": list(COST.values()), "maker": "x"})
    table.to_csv(tmp_path / "prices.csv", index=False)
    source = table if frame else tmp_path / "prices.csv"
    found = lrbtl.choose(battles, source, column="output")
    assert dict(zip(found.models, found.cost, strict=True)) == COST
    with pytest.raises(CostError, match="2 columns of numbers"):
        lrbtl.choose(battles, source)
    with pytest.raises(CostError, match="no column 'price'"):
        lrbtl.choose(battles, source, column="price")
    named = table.rename(columns={"output": "price"})
    assert lrbtl.choose(battles, named).cost.tolist() == found.cost.tolist()


def test_models_without_a_cost_are_left_out_and_named(battles):
    found = lrbtl.choose(battles, {"model_0": 1.0, "model_1": 0.0})
    assert set(found.models) == {"model_0", "model_1"} and "no cost is known of 3 models" in str(found)
    values, notes = read_costs({"x": None, "y": float("nan"), "z": 0}, ("x", "y", "z"))
    assert np.isnan(values[:2]).all() and values[2] == 0 and "2 models" in notes[0]


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        ({"model_0": 1.0}, "fewer than two"),
        ({"model_0": -1.0, "model_1": 1.0}, "not negative"),
        ({"model_0": True, "model_1": 1.0}, "not negative"),
        ({"model_0": "dear", "model_1": "cheap"}, "give a number"),
        ({"nobody": 1.0, "none": 2.0}, "fewer than two"),
        (3, "cost is a int"),
        ({"model": ["model_0", "model_1"], "cost": ["a", "b"]}, "columns of numbers"),
        ({"model": ["x", "y"], "cost": [1, 2]}, "none of the models"),
    ],
)
def test_costs_that_are_none(battles, cost, words):
    with pytest.raises(CostError, match=words):
        lrbtl.choose(battles, cost)


def test_other_bad_input(battles, analysis):
    with pytest.raises(MarginError, match="margin"):
        lrbtl.choose(battles, COST, margin=-3)
    with pytest.raises(lrbtl.errors.LrbtlError, match="top"):
        lrbtl.choose(battles, COST, top=0)
    saved = lrbtl.Leaderboard.from_json(analysis.leaderboard().to_json())
    with pytest.raises(DocumentError, match="without their analysis"):
        lrbtl.choose(saved, COST)
    with pytest.raises(MethodError, match="made already"):
        lrbtl.choose(analysis, COST, rank=1)


def test_json_frames_and_tabs_say_the_same(analysis):
    found = lrbtl.choose(analysis, COST, margin=60)
    content = json.loads(found.to_json())
    assert [row["frontier"] for row in content["rows"]] == list(found.verdict)
    assert content["routing"]["single"] == found.routing.single
    assert found.to_frame("pandas")["model"].tolist() == list(found.models)
    assert [title for title, _ in found.tables()] == ["Choose", "Routing"]
    page = lrbtl.report_html(analysis.boards(), tables=found.tables())
    assert '"title":"Choose"' in page and "dominated" in page
    assert "Routing" in found._repr_html_() and "P(top 3)" in str(found)


def test_results_are_chosen_from_too():
    table = {"model": ["x", "y", "z", "w"], "math": [70, 60, 50, 40], "code": [50, 41, 29, None]}
    results = lrbtl.Results.from_wide(table)
    analysis = lrbtl.analyse(results)
    cost = {"x": 3, "y": 1, "z": 0.5, "w": 0.1}
    found = lrbtl.choose(analysis, cost, margin=30)
    board = analysis.leaderboard()
    assert found.models == board.models and np.array_equal(found.score, board.score)
    run: Any = analysis.run
    draws = np.mean([run.posterior.latent(u) for u in range(2)], axis=0)
    first = (draws.argmax(axis=1)[:, None] == np.arange(4)).mean(axis=0)
    at = [results.models.index(model) for model in found.models]
    assert np.allclose(found.p_first, first[at]) and found.unit == "the units of the results"
    assert lrbtl.choose(lrbtl.leaderboard(results, context="all"), cost).routing.categories == ("code", "math")
    assert lrbtl.choose(results, cost, context="math").routing is None
    with pytest.raises(DocumentError):
        lrbtl.choose(board, cost)


def test_islands_and_newcomers_do_not_enter():
    pairs = {"a": ["a", "a", "b", "x"], "b": ["b", "c", "c", "y"]}
    with pytest.warns(lrbtl.errors.IslandWarning):
        found = lrbtl.choose(
            lrbtl.Battles.from_arrays(
                pairs["a"] * 2, pairs["b"] * 2, [1] * 4 + [0] * 4, counts=[90] * 3 + [9] + [60] * 3 + [8]
            ),
            {"a": 1, "b": 2, "c": 3, "x": 1},
        )
    assert set(found.models) == {"a", "b", "c"}


def test_the_picture_shows_every_model(analysis):
    found = lrbtl.choose(analysis, {**COST, "model_3": 0.0})
    ax = lrbtl.plot_choice(found, theme="dark")
    points: list[Any] = [part.get_offsets() for part in ax.collections[1::2]]
    assert ax.get_xscale() == "log" and sum(map(len, points)) == 5
    plt.close(ax.figure.figure)
    with pytest.raises(lrbtl.errors.PlotError, match="a choice is needed"):
        lrbtl.plot_choice(analysis)


def test_a_choice_is_made_on_one_board_and_says_when_it_holds(analysis):
    with pytest.raises(MethodError, match="not one board"):
        lrbtl.choose(analysis, COST, context="all")
    for nothing in (None, {}):
        with pytest.raises(CostError, match="give what models cost"):
            lrbtl.choose(analysis, nothing)
    found = json.loads(lrbtl.choose(analysis, COST, valid="always", tuned_at=6000).to_json())
    assert found["valid"] == "valid at any time (tuned at 6,000 votes)"


def test_names_in_a_picture_of_many_models_do_not_overlap():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((60, 1), 1, scale=1, rng=0), 9_000, rng=1)
    cost = {model: float(c) for model, c in zip(battles.models, np.linspace(1, 1.2, 60), strict=True)}
    ax: Any = lrbtl.plot_choice(lrbtl.choose(battles, cost))
    ax.figure.canvas.draw()
    titles = 2
    boxes = [text.get_window_extent() for text in ax.texts[titles:]]
    assert len(boxes) > 3
    assert not any(box.count_overlaps(boxes[:k]) for k, box in enumerate(boxes))
    assert not any(box.overlaps(ax.get_legend().get_window_extent()) for box in boxes)
    plt.close(ax.figure.figure)
