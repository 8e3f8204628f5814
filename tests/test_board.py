"""Boards as data: frames, text, HTML, pickles, and the names of their contexts."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import lrbtl
from board_checks import with_extra
from lrbtl.errors import LrbtlError, WeightError

COLUMNS = ["model", "score", "lower", "upper", "rank", "best", "worst", "rank_lower", "rank_upper", "tier", "battles"]
COLUMNS += ["win_rate", "note"]


def test_boards_survive_pickling(boards):
    copy = pickle.loads(pickle.dumps(boards))
    assert repr(copy) == repr(boards) and list(copy) == list(boards)
    for name in (None, *boards):
        np.testing.assert_array_equal(copy.win_upper[name], boards.win_upper[name])
    np.testing.assert_array_equal(copy.fit.scores, boards.fit.scores)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames(plain, boards, backend):
    pytest.importorskip(backend)
    frame = lrbtl.leaderboard(plain).to_frame(backend)
    names = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert names == COLUMNS
    assert len(boards.to_frame(backend)) == 45


def test_text_and_html_escape(plain):
    board = lrbtl.leaderboard(with_extra(plain, "<script>", ["model_0"], 3))
    assert "<script>" in str(board) and "<script>" not in board._repr_html_()
    assert "&lt;script&gt;" in board._repr_html_()


def test_long_boards_lose_their_middle():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((70,), 1, scale=1.0, rng=0), 20_000, rng=1)
    board = lrbtl.leaderboard(battles)
    assert "..." in str(board) and len(board.summary(3).splitlines()) == 6


def test_boards_print(boards):
    text = str(boards)
    assert text.count("Leaderboard, ") == 5 and "overall" in text
    assert boards._repr_html_().count("<table>") == 5


def test_order_three():
    truth = lrbtl.simulate_scores((8, 3, 2), 2, scale=2.0, rng=5)
    battles = lrbtl.simulate_battles(truth, 24_000, rng=6)
    boards = lrbtl.leaderboard(battles, context="all", rank=2)
    assert list(boards)[:2] == ["0 / 0", "0 / 1"] and boards[(0, 1)].context == "0 / 1"
    assert lrbtl.leaderboard(battles, context=(0, 1), rank=2).models == boards["0 / 1"].models


@pytest.fixture(scope="module")
def judged():
    truth = lrbtl.simulate_scores((8, 3, 2), 2, scale=2.0, rng=5)
    battles = lrbtl.simulate_battles(truth, 24_000, rng=6)
    return replace(battles, names=("category", "judge"), levels=(("all", "code", "overall"), ("crowd", "expert")))


def test_contexts_of_several_modes_have_one_name_everywhere(judged):
    boards = lrbtl.leaderboard(judged, context="all", rank=2)
    name = "code / expert"
    for context in (("code", "expert"), name, "code/expert", {"judge": "expert", "category": "code"}):
        assert lrbtl.leaderboard(judged, context=context, rank=2).context == name
    assert lrbtl.gap("model_0", "model_1", name).resolve(judged).label == f"gap(model_0, model_1, {name})"
    assert boards[name].context == boards[("code", "expert")].context == name
    assert name in boards.to_dict()["context"]
    assert name in lrbtl.compare(judged, "model_0", "model_1", rank=2).contexts
    assert lrbtl.win_matrix(judged, name, rank=2).context == name


def test_open_modes_are_averaged(judged):
    run = {"rank": 2, "scale": "logit"}
    board = lrbtl.leaderboard(judged, context=("code", None), **run)
    assert board.context == "code / *"
    for context in ("code / *", {"category": "code"}):
        np.testing.assert_array_equal(lrbtl.leaderboard(judged, context=context, **run).score, board.score)
    weights = {("code", "crowd"): 1.0, ("code", "expert"): 1.0}
    np.testing.assert_allclose(lrbtl.leaderboard(judged, weights=weights, **run).score, board.score)
    est = lrbtl.infer(judged, [lrbtl.score(model, ("code", None)) for model in board.models], rank=2)
    np.testing.assert_allclose(est.estimate, board.score, atol=1e-9)
    np.testing.assert_allclose(est.conf_int(), np.c_[board.lower, board.upper], atol=1e-6)
    given = {("code", "crowd"): 3.0, ("code", "expert"): 1.0, ("all", "crowd"): 9.0}
    weighted = lrbtl.leaderboard(judged, context=("code", None), weights=given, **run)
    only = lrbtl.leaderboard(judged, weights={("code", "crowd"): 3.0, ("code", "expert"): 1.0}, **run)
    np.testing.assert_allclose(weighted.score, only.score)
    with pytest.raises(WeightError, match="have no weight"):
        lrbtl.leaderboard(judged, context=("overall", None), weights=given, **run)
    theirs = lrbtl.leaderboard(judged, context=("code", None), compat="arena-rank")
    assert theirs.context == "code / *" and theirs.battles.sum() == board.battles.sum()


def test_wrong_contexts_are_told_what_to_give_before_anything_is_computed(judged):
    def busy(text):
        raise AssertionError(text)

    for context, message in (
        ("code", "give a tuple with one level of each"),
        (("code", "experts"), "did you mean 'expert'"),
        ({"categry": "code"}, "did you mean 'category'"),
    ):
        with pytest.raises(LrbtlError, match=message):
            lrbtl.leaderboard(judged, context=context, progress=busy)
        with pytest.raises(LrbtlError, match=message):
            lrbtl.win_matrix(judged, context, progress=busy)
    with pytest.raises(LrbtlError, match="leaves judge open"):
        judged.context_index(("code", None))
    with pytest.raises(LrbtlError, match="no contexts: leave context out"):
        lrbtl.leaderboard(judged.pooled(), context="code")


def test_categories_called_all_or_overall(arena):
    battles = replace(arena, levels=(("all", "chat", "code", "overall"),), names=("category",))
    boards = lrbtl.leaderboard(battles, context="all", rank=2)
    assert list(boards) == ["all", "chat", "code", "overall"]
    assert lrbtl.leaderboard(battles, context={"category": "all"}, rank=2).models == boards["all"].models
    names = ["overall", "all", "chat", "code", 'context "overall"']
    assert list(dict.fromkeys(boards.to_dict()["context"])) == names
    assert lrbtl.compare(battles, 0, 1, rank=2).contexts == tuple(names)
    assert 'Leaderboard, context "overall"' in str(boards["overall"]) and "Leaderboard, overall:" in str(boards.overall)


def test_boards_without_intervals_show_none(plain):
    board = lrbtl.leaderboard(plain, compat="fastchat")
    assert "nan" not in str(board) and "nan" not in board._repr_html_()
    assert str(board).splitlines()[3].split() == ["model", "rank", "score", "battles", "win", "rate"]


@pytest.mark.parametrize(("gain", "words"), [(0.99, "no gain"), (1.019, "no gain"), (1.02, "1.02 times smaller")])
def test_a_gain_is_only_told_where_there_is_one(boards, gain, words):
    assert words in str(replace(boards.overall, gain=gain))
