"""Votes that both were bad as an outcome: scores with a zero, against the likelihood written out."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import lrbtl
from lrbtl.errors import LinkError, MethodError

WORDS = np.array(["model_a", "model_b", "both_bad", "tie"])


def log(truth, n, seed=1, threshold=0.5):
    rng = np.random.default_rng(seed)
    d1, D = truth.shape
    a = rng.integers(0, d1, n)
    b = (a + rng.integers(1, d1, n)) % d1
    u = rng.integers(0, D, n)
    x, y, t = np.exp(truth[a, u]), np.exp(truth[b, u]), np.exp(threshold)
    p = np.stack([x / (x + t * y + 1), y / (y + t * x + 1), 1 / (1 + x + y)])
    which = (rng.random(n) > np.cumsum(p, axis=0)).sum(axis=0)
    return {"model_a": a.tolist(), "model_b": b.tolist(), "winner": WORDS[which].tolist(), "task": u.tolist()}


TRUTH = np.array([[1.5, 1.0], [0.4, 0.6], [-0.2, 0.1], [-1.5, -1.0], [0.0, 0.5]])
LOG = log(TRUTH, 3000)
BATTLES = lrbtl.Battles.from_frame(LOG, contexts="task", both_bad="outcome")


def negative_log_likelihood(at, rows, d1):
    """Vote by vote, as it is written; scores of a context side by side, then the log of the threshold."""
    t, total = np.exp(np.exp(at[-1])), 0.0
    for a, b, word, u in zip(*rows.values(), strict=True):
        x, y = np.exp(at[u * d1 + a]), np.exp(at[u * d1 + b])
        first, second, bad = x / (x + t * y + 1), y / (y + t * x + 1), 1 / (1 + x + y)
        p = {"model_a": first, "model_b": second, "both_bad": bad, "tie": 1 - first - second - bad}
        total -= np.log(p[word])
    return total


def test_the_mode_and_its_information_agree_with_the_likelihood_written_out():
    rows = log(TRUTH[:3], 300, seed=5)
    battles = lrbtl.Battles.from_frame(rows, contexts="task", both_bad="outcome")
    run: Any = lrbtl.analyse(battles).run
    scores, tie, prior = run.scores(), run.link.tie, run.prior
    at = np.concatenate([scores.T.reshape(-1), [tie]])

    def objective(x):
        return negative_log_likelihood(x, rows, 3) + 0.5 * x @ prior @ x

    h = 1e-4
    slope = [(objective(at + h * e) - objective(at - h * e)) / (2 * h) for e in np.eye(7)]
    np.testing.assert_allclose(slope, 0.0, atol=2e-3)
    assert objective(at) <= minimize(objective, at, method="L-BFGS-B").fun + 1e-5
    flat = np.concatenate([np.ones(3), np.zeros(4)])  # one logit of a context, whose constant is N(0, 5^2)
    assert flat @ prior @ flat == pytest.approx(1 / 25, rel=1e-9) and prior[-1, -1] == pytest.approx(1 / 25)


def test_scores_ties_and_the_floor_are_found():
    found = lrbtl.infer(BATTLES, lrbtl.all_scores())
    away = (found.estimate.reshape(5, 2) - TRUTH) / found.se.reshape(5, 2)
    assert np.abs(away).max() < 4 and found.info.method == "grounded"
    tie = lrbtl.infer(BATTLES, lrbtl.tie_parameter())
    assert abs(tie.estimate[0] - np.log(0.5)) < 4 * tie.se[0]
    board = lrbtl.leaderboard(BATTLES)
    assert board.models[0] == 0 and board.models[-1] == 3
    assert board.above_floor[0] > 0.999 and board.above_floor[-1] < 0.001
    assert board.notes[0] == "above the floor" and board.notes[-1] == "below the floor"
    assert board.floor == 1000.0 and "the floor is 1,000: of the ranked models" in board.summary()
    assert board.to_dict()["above_floor"][0] > 0.999 and "above floor" in board.summary()
    again = lrbtl.Leaderboard.from_json(board.to_json())
    assert again.floor == 1000.0 and again.heading() == board.heading()
    np.testing.assert_allclose(again.above_floor, board.above_floor)
    assert "above_floor" not in lrbtl.leaderboard(lrbtl.Battles.from_frame(LOG, contexts="task")).to_dict()


def test_one_question_has_one_answer():
    board = lrbtl.leaderboard(BATTLES, context=0, scale="logit")
    places = list(board.models)
    found = lrbtl.infer(BATTLES, [lrbtl.score(k, 0) for k in places])
    np.testing.assert_allclose(board.score, found.estimate)
    np.testing.assert_allclose(board.se, found.se)
    duel = lrbtl.compare(BATTLES, places[0], places[1])
    x, y = places[:2]
    gap = lrbtl.infer(BATTLES, [lrbtl.gap(x, y, 0), lrbtl.win_probability(x, y, 0)])
    np.testing.assert_allclose(duel.gap[1], 400 / np.log(10) * gap.estimate[0])
    np.testing.assert_allclose([duel.win[1], lrbtl.win_matrix(BATTLES, 0).win[0, 1]], gap.estimate[1])
    assert 0 <= duel.won[0] <= 1
    anchored = lrbtl.leaderboard(BATTLES, anchor=(2, 1200.0))
    assert "the floor is 1,2" in anchored.summary() or "the floor is 1,1" in anchored.summary()
    assert lrbtl.leaderboard(BATTLES, scale="probability").above_floor is None


@settings(max_examples=5)
@given(st.integers(0, 1000))
def test_neither_sides_nor_order_nor_names_matter(seed):
    random = Random(seed)
    rows: dict[str, list[Any]] = log(TRUTH, 400, seed=2)
    n = len(rows["winner"])
    order = random.sample(range(n), n)
    other = {"model_a": "model_b", "model_b": "model_a"}
    swapped: dict[str, list[Any]] = {"model_a": [], "model_b": [], "winner": [], "task": []}
    for k in order:
        flip = random.random() < 0.5
        sides = (rows["model_b"][k], rows["model_a"][k]) if flip else (rows["model_a"][k], rows["model_b"][k])
        word = rows["winner"][k]
        for name, value in zip(
            swapped, (*sides, other.get(word, word) if flip else word, rows["task"][k]), strict=True
        ):
            swapped[name].append(value)
    left, right = (
        lrbtl.infer(lrbtl.Battles.from_frame(frame, contexts="task", both_bad="outcome"), lrbtl.all_scores())
        for frame in (rows, swapped)
    )
    np.testing.assert_allclose(left.estimate, right.estimate, atol=1e-8)
    np.testing.assert_allclose(left.se, right.se, atol=1e-8)


def test_influences_are_what_votes_move():
    analysis = lrbtl.analyse(BATTLES)
    target = lrbtl.score(0, 0)
    before, cell = analysis.estimate(target), 3
    (influence,) = analysis.run.influences([target.resolve(BATTLES)])[cell]
    counts = BATTLES.cells.count.copy()
    counts[cell] += 1
    after = lrbtl.infer(BATTLES.with_counts(counts), target)
    np.testing.assert_allclose(after.estimate - before.estimate, influence, rtol=0.2, atol=2e-4)


def test_weights_and_clusters():
    rng = np.random.default_rng(0)
    frame = {**LOG, "w": rng.uniform(0.5, 2, 3000), "voter": rng.integers(0, 200, 3000)}
    plain = lrbtl.infer(BATTLES, lrbtl.score(0))
    weighted = lrbtl.Battles.from_frame(frame, contexts="task", both_bad="outcome", weight="w", cluster="voter")
    found = lrbtl.infer(weighted, lrbtl.score(0))
    assert abs(found.estimate[0] - plain.estimate[0]) < 3 * plain.se[0] and found.se[0] > 0.9 * plain.se[0]


def test_without_contexts():
    board = lrbtl.leaderboard(lrbtl.Battles.from_frame(LOG, both_bad="outcome"))
    assert board.models[0] == 0 and board.above_floor is not None


def test_what_it_does_not_go_with_is_said():
    with pytest.raises(MethodError, match="does not know votes that both were bad"):
        lrbtl.leaderboard(BATTLES, method="naive")
    with pytest.raises(LinkError, match="low-rank and separate fits do not know"):
        lrbtl.fit(BATTLES, 1)
    with pytest.raises(MethodError, match="covariates or position"):
        lrbtl.leaderboard(lrbtl.Battles.from_frame(LOG, both_bad="outcome", position=True))
    many = {**LOG, "task": [k % 1000 for k in range(3000)]}
    with pytest.raises(MethodError, match="use fewer contexts"):
        lrbtl.leaderboard(lrbtl.Battles.from_frame(many, contexts="task", both_bad="outcome"))
    with pytest.raises(MethodError, match="not know votes"):
        lrbtl.leaderboard(BATTLES, compat="fastchat")


def test_contexts_where_all_or_none_are_bad_have_finite_scores():
    """A constant of such a context would run to infinity, and take the spreads along."""
    rows = [
        ("x", "y", "both_bad", "t"),
        ("x", "y", "tie", "t"),
        ("y", "x", "model_a", "u"),
        ("y", "x", "both_bad", "v"),
    ]
    names = ("model_a", "model_b", "winner", "task")
    frame = {name: [row[k] for row in rows * 5] for k, name in enumerate(names)}
    boards = lrbtl.leaderboard(lrbtl.Battles.from_frame(frame, contexts="task", both_bad="outcome"), context="all")
    for board in [boards.overall, *boards.values()]:
        assert np.all(board.upper - board.lower > 100) and np.all(np.abs(board.score) < 5000)


def test_what_does_not_follow_from_gaps_is_told():
    boards = lrbtl.leaderboard(BATTLES, context="all")
    assert "<html" in lrbtl.report_html(boards)
    found = lrbtl.diagnose(BATTLES)
    assert found.calibration is None and "not checked" in found.reason
    with pytest.raises(lrbtl.errors.LinkError, match="read with both_bad='tie'"):
        lrbtl.plan(BATTLES, 100)
    nobody = {"model_a": ["x"] * 4, "model_b": ["y"] * 4, "winner": ["tie", "both_bad"] * 2}
    with pytest.raises(lrbtl.errors.LinkError, match="no vote has a winner"):
        lrbtl.leaderboard(lrbtl.Battles.from_frame(nobody, both_bad="outcome"))
