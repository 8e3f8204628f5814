"""Changes between boards that share votes."""

import json
import pickle

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
from lrbtl.boards.changes import common_keys
from lrbtl.errors import ChangeError, LrbtlError, PlotError

ELO = 400 / np.log(10)


@pytest.fixture(scope="module")
def truth():
    return lrbtl.simulate_scores((6, 3), 1, scale=1, rng=0)


@pytest.fixture(scope="module")
def logs(truth):
    old, new = (lrbtl.simulate_battles(truth, n, rng=n) for n in (3000, 1500))
    return old, old + new


def plain_fit(battles):
    """Bradley-Terry written out: scores, and influence values of one vote of each cell, (n_cells, d1)."""
    cells, d1 = battles.cells, len(battles.models)
    X = np.zeros((cells.n_cells, d1))
    X[np.arange(cells.n_cells), cells.a], X[np.arange(cells.n_cells), cells.b] = 1, -1
    theta = np.zeros(d1)
    for _ in range(50):
        p = expit(X @ theta)
        inverse = np.linalg.pinv(X.T @ (X * (cells.count * p * (1 - p))[:, None]))
        theta = theta + inverse @ X.T @ (cells.count * (cells.y - p))
    return theta, (cells.y - expit(X @ theta))[:, None] * (X @ inverse)


def test_errors_of_nested_logs_are_those_written_out(logs):
    old, new = (log.pooled() for log in logs)
    found = lrbtl.changes(*(lrbtl.leaderboard(log, method="naive") for log in (old, new)))
    (theta, f), (later, g) = plain_fit(old), plain_fit(new)
    where = {key: k for k, key in enumerate(common_keys(new, old))}
    variance = np.sum(f**2 * old.cells.count[:, None], axis=0) + np.sum(g**2 * new.cells.count[:, None], axis=0)
    for k, key in enumerate(common_keys(old, new)):
        variance -= 2 * old.cells.count[k] * f[k] * g[where[key]]
    at = [old.model_index(model) for model in found.models]
    np.testing.assert_allclose(found.change, ELO * (later - theta)[at], atol=1e-6)
    np.testing.assert_allclose(found.se, ELO * np.sqrt(variance)[at], rtol=0.02)
    assert found.shared == 3000 and found.votes == (3000, 4500)


def test_a_board_does_not_change_against_itself(logs):
    board = lrbtl.leaderboard(logs[0])
    found = lrbtl.changes(board, board)
    np.testing.assert_allclose(found.change, 0, atol=1e-9)
    np.testing.assert_allclose(found.se, 0, atol=1e-4)
    assert found.movers == () and (found.rank_lower == 0).all() and (found.rank_upper == 0).all()


@pytest.mark.parametrize("method", ["naive", "hierarchical"])
def test_shared_votes_make_intervals_narrower(logs, method):
    before, after = (lrbtl.leaderboard(log, method=method) for log in logs)
    found = lrbtl.changes(before, after)
    plain = np.hypot(*[[dict(zip(b.models, b.se, strict=True))[m] for m in found.models] for b in (before, after)])
    assert (found.se < 0.6 * plain).all()


def test_other_logs_share_nothing(truth, logs):
    other = lrbtl.simulate_battles(truth, 3000, rng=77)
    before, after = (lrbtl.leaderboard(log, method="naive") for log in (logs[0], other))
    found = lrbtl.changes(before, after)
    plain = np.hypot(*[[dict(zip(b.models, b.se, strict=True))[m] for m in found.models] for b in (before, after)])
    np.testing.assert_allclose(found.se, plain, rtol=1e-6)
    assert found.shared == 0 and "none of them the same" in str(found)


def test_a_move_is_seen_and_newcomers_are_told(truth, logs):
    moved = truth.copy()
    moved[2] += 1.5
    wider = np.vstack([moved, np.zeros((1, 3))])
    after = lrbtl.leaderboard(logs[0] + lrbtl.simulate_battles(wider, 6000, rng=3))
    found = lrbtl.changes(lrbtl.leaderboard(logs[0]), after)
    assert found.movers[0] == "model_2" and found.joined == ("model_6",) and found.left == ()
    text = str(found)
    assert "significant changes" in text and "new: model_6" in text
    assert "gone: model_6" in str(lrbtl.changes(after, lrbtl.leaderboard(logs[0])))


def test_the_same_votes_with_and_without_contexts_are_shared(logs):
    found = lrbtl.changes(lrbtl.leaderboard(logs[0].pooled()), lrbtl.leaderboard(logs[0], context="all"))
    assert found.shared == 3000
    assert (found.se < 20).all()


def test_order_of_labels_does_not_matter(logs):
    old, new = logs
    names = tuple(f"{chr(102 - k)}" for k in range(6))
    turned = lrbtl.Battles.from_arrays(
        old.cells.b, old.cells.a, 1 - old.cells.y, [old.cells.context], counts=old.cells.count, models=names
    )
    same = lrbtl.Battles.from_arrays(
        new.cells.a, new.cells.b, new.cells.y, [new.cells.context], counts=new.cells.count, models=names
    )
    found = lrbtl.changes(lrbtl.leaderboard(turned, method="naive"), lrbtl.leaderboard(same, method="naive"))
    assert found.shared == 3000


def test_tables_and_pictures(logs):
    found = lrbtl.changes(*map(lrbtl.leaderboard, logs), level=0.9)
    assert json.loads(json.dumps(found.to_dict()))["model"] == list(found.models)
    assert found.to_frame("polars").shape == (6, 13)
    assert "<table" in found._repr_html_()
    assert found.level == 0.9 and str(pickle.loads(pickle.dumps(found))) == str(found)
    ax = lrbtl.plot_changes(found, top=3)
    assert len(ax.get_yticks()) == 3
    with pytest.raises(PlotError):
        lrbtl.plot_changes(logs[0])
    with pytest.raises(PlotError):
        lrbtl.plot_changes(found, top=0)


def test_bad_boards_have_named_errors(logs):
    board = lrbtl.leaderboard(logs[0])
    with pytest.raises(ChangeError, match="does not know its votes"):
        lrbtl.changes(pickle.loads(pickle.dumps(board)), board)
    with pytest.raises(ChangeError, match="two boards"):
        lrbtl.changes(logs[0], board)
    other = lrbtl.leaderboard(lrbtl.Battles.from_arrays(["x", "y"], ["y", "x"], [1, 0], counts=[30, 40]))
    with pytest.raises(ChangeError, match="ranked on both"):
        lrbtl.changes(other, board)


def test_votes_of_one_voter_are_alike_on_both_boards(truth):
    """The same voters before and after, each with a taste of their own: changes are smaller than errors of boards."""
    rng = np.random.default_rng(0)
    taste = rng.normal(0, 1.0, (60, 6))

    def draw(n):
        voter, a = rng.integers(60, size=n), rng.integers(6, size=n)
        b = (a + rng.integers(1, 6, size=n)) % 6
        eta = truth[a, 0] - truth[b, 0] + taste[voter, a] - taste[voter, b]
        won = (rng.random(n) < expit(eta)).astype(float)
        return lrbtl.Battles.from_arrays(a, b, won, cluster=voter)

    first, second = draw(6000), draw(6000)
    before, after = (lrbtl.leaderboard(log, method="naive") for log in (first, second))
    found = lrbtl.changes(before, after)
    assert found.shared == 0
    plain = np.hypot(*[[dict(zip(b.models, b.se, strict=True))[m] for m in found.models] for b in (before, after)])
    assert (found.se < 0.7 * plain).all()
    assert np.abs(found.change / found.se).max() < 3.5
    board = lrbtl.leaderboard(first)
    np.testing.assert_allclose(lrbtl.changes(board, board).se, 0, atol=1e-3)


def test_a_report_shows_changes_and_histories_as_tabs(logs, truth):
    found = lrbtl.changes(*map(lrbtl.leaderboard, logs))
    story = lrbtl.history(lrbtl.simulate_battles(truth, 900, rng=0))
    page = lrbtl.report_html(lrbtl.leaderboard(logs[1]), tables=[("What changed", found), ("Over time", story)])
    assert "What changed" in page and "Over time" in page


@pytest.mark.parametrize("wrong", [{"level": 2.5}, {"level": "x"}, {"rng": -1}, {"rng": "x"}])
def test_bad_options_have_named_errors(logs, wrong):
    board = lrbtl.leaderboard(logs[0], method="naive")
    with pytest.raises(LrbtlError):
        lrbtl.changes(board, board, **wrong)


def test_labels_are_shown_safely():
    pairs = (["\x1b[31mx"] * 2, ["y"] * 2)
    few, more = (lrbtl.Battles.from_arrays(*pairs, [1, 0], counts=counts) for counts in ([60, 60], [900, 60]))
    found = lrbtl.changes(lrbtl.leaderboard(few), lrbtl.leaderboard(more))
    assert found.movers and "\x1b" not in str(found)
