"""Boards as data: frames, text, HTML, pickles, and the names of their contexts."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

import lrbtl
from board_checks import with_extra
from lrbtl.errors import (
    IslandWarning,
    LrbtlError,
    NoDecisionError,
    ThinContextWarning,
    UnknownContextError,
    WeightError,
)

COLUMNS = ["model", "rank", "score", "lower", "upper", "se", "best", "worst", "rank_lower", "rank_upper", "tier"]
COLUMNS += ["battles", "win_rate", "verdict", "detectable", "status", "note"]


def test_boards_survive_pickling(boards):
    copy = pickle.loads(pickle.dumps(boards))
    assert repr(copy) == repr(boards) and list(copy) == list(boards)
    for name in (None, *boards):
        np.testing.assert_array_equal(copy.win_upper[name], boards.win_upper[name])


def test_boards_with_a_fit_survive_pickling(arena):
    boards = lrbtl.leaderboard(arena, context="all", rank=2, method="efficient", n_folds=2)
    copy = pickle.loads(pickle.dumps(boards))
    np.testing.assert_array_equal(copy.fit.scores, boards.fit.scores)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames(plain, boards, backend):
    pytest.importorskip(backend)
    frame = lrbtl.leaderboard(plain).to_frame(backend)
    names = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert [name for name in names if name in COLUMNS] == COLUMNS  # more may come, these stay
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
    assert boards._repr_html_().count("<table") == 5


def test_order_three():
    truth = lrbtl.simulate_scores((8, 3, 2), 2, scale=2.0, rng=5)
    battles = lrbtl.simulate_battles(truth, 24_000, rng=6)
    boards = lrbtl.leaderboard(battles, context="all", rank=2)
    assert list(boards)[:2] == [(0, 0), (0, 1)] and boards["0 / 1"].context == (0, 1)
    assert lrbtl.leaderboard(battles, context=(0, 1), rank=2).models == boards["0 / 1"].models


@pytest.fixture(scope="module")
def judged():
    truth = lrbtl.simulate_scores((8, 3, 2), 2, scale=2.0, rng=5)
    battles = lrbtl.simulate_battles(truth, 24_000, rng=6)
    return replace(battles, mode_names=("category", "judge"), levels=(("all", "code", "overall"), ("crowd", "expert")))


def test_contexts_of_several_modes_have_one_name_everywhere(judged):
    boards = lrbtl.leaderboard(judged, context="all", rank=2)
    label, name = ("code", "expert"), "code / expert"
    for context in (label, name, "code/expert", {"judge": "expert", "category": "code"}):
        assert lrbtl.leaderboard(judged, context=context, rank=2).context == label
    assert lrbtl.gap("model_0", "model_1", name).resolve(judged).label == f"gap(model_0, model_1, {name})"
    assert boards[name] is boards[label] and boards[name].context == label
    assert name in boards.to_dict()["context"]
    assert name in lrbtl.compare(judged, "model_0", "model_1", rank=2).contexts
    assert lrbtl.win_matrix(judged, name, rank=2).context == label
    assert f"Leaderboard, {name}:" in str(boards[label])


def test_open_modes_are_averaged(judged):
    run = {"rank": 2, "scale": "logit"}
    board = lrbtl.leaderboard(judged, context=("code", None), **run)
    assert board.context == ("code", None) and "Leaderboard, code / *:" in str(board)
    for context in ("code / *", {"category": "code"}):
        np.testing.assert_array_equal(lrbtl.leaderboard(judged, context=context, **run).score, board.score)
    est = lrbtl.infer(judged, [lrbtl.score(m, ("code", None), weights="traffic") for m in board.models], rank=2)
    np.testing.assert_allclose(est.estimate, board.score, atol=1e-9)
    np.testing.assert_allclose(est.conf_int(), np.c_[board.lower, board.upper], atol=1e-6)
    given = {("code", "crowd"): 3.0, ("code", "expert"): 1.0, ("all", "crowd"): 9.0}
    weighted = lrbtl.leaderboard(judged, context=("code", None), weights=given, **run)
    only = lrbtl.leaderboard(judged, weights={("code", "crowd"): 3.0, ("code", "expert"): 1.0}, **run)
    np.testing.assert_allclose(weighted.score, only.score)
    with pytest.raises(WeightError, match="have no weight"):
        lrbtl.leaderboard(judged, context=("overall", None), weights=given, **run)
    theirs = lrbtl.leaderboard(judged, context=("code", None), compat="arena-rank")
    assert theirs.context == ("code", None) and theirs.battles.sum() == board.battles.sum()


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
    battles = replace(arena, levels=(("all", "chat", "code", "overall"),), mode_names=("category",))
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
    assert str(board).splitlines()[3].split() == ["model", "rank", "score", "votes", "win", "rate"]


# ------------------------------------------------------------------------------
# Models without a rank: too few votes, none here, or no score; and groups that no votes link.
# ------------------------------------------------------------------------------


def test_a_tiny_island_does_not_stop_the_rest(arena):
    apart = lrbtl.Battles.from_arrays(["p", "p"], ["q", "q"], [1, 0], [0, 1], n_levels=4)
    one_way = lrbtl.Battles.from_arrays(["s"], ["t"], [1], [0], n_levels=4)
    with pytest.warns(IslandWarning, match="3 groups"):
        boards = lrbtl.leaderboard(arena + apart + one_way, context="all", rank=2)
    assert len(boards) == 4 and set(boards.models) == set(arena.models)
    shown = {model for part in boards.islands for model in part.models}
    lost = " ".join(boards.overall.info.notes)
    assert ("p" in shown) != ("2 models that no votes link with these have no board" in lost) or "s" not in shown


def by_model(board, name):
    return dict(zip(board.models, getattr(board, name), strict=True))


@pytest.fixture(scope="module")
def sparse(arena):
    """The arena with a newcomer in one context, an unbeaten model, and one that is absent in context 3."""
    a = ["new", "new", "champion", "champion", "half", "half", "half", "half"]
    b = ["model_0", "model_1", "model_0", "model_1", "model_2", "model_2", "model_3", "model_3"]
    counts = [4, 3, 25, 25, 30, 30, 20, 20]
    return arena + lrbtl.Battles.from_arrays(
        a, b, [1, 0, 1, 1, 1, 0, 0, 1], [0, 0, 0, 1, 0, 1, 2, 2], counts=counts, n_levels=4
    )


@pytest.mark.parametrize("method", ["mle", "naive"])
def test_who_has_a_rank(sparse, method):
    boards = lrbtl.leaderboard(sparse, context="all", rank=1, method=method, scale="logit")
    for board in boards.every():
        status, ranked = by_model(board, "status"), board.rank > 0
        assert [one == "ranked" for one in board.status] == ranked.tolist()
        assert ranked.tolist() == sorted(ranked.tolist(), reverse=True)
        assert board.score[ranked].mean() == pytest.approx(0.0, abs=1e-9)
        assert (np.diff(board.score[ranked]) <= 0).all() and board.rank[ranked].max() <= ranked.sum()
        for name in ("rank", "best", "worst", "rank_lower", "rank_upper", "tier"):
            assert not getattr(board, name)[~ranked].any()
        assert all(status[model] == "ranked" for model in sparse.models if str(model).startswith("model_"))
    assert by_model(boards[3], "status")["half"] == by_model(boards[3], "status")["new"] == "absent"
    assert by_model(boards[3], "notes")["half"].startswith("no votes in this category")
    assert by_model(boards[0], "status")["new"] == "preliminary"
    assert by_model(boards[0], "notes")["new"].startswith("7 votes in this category")


def test_marks_say_what_a_score_rests_on(sparse):
    boards = lrbtl.leaderboard(sparse, context="all", rank=1)
    inferred = "in this category; score mostly inferred from"
    assert by_model(boards[0], "notes")["new"] == f"7 votes {inferred} the spread of models"
    assert by_model(boards[3], "notes")["new"] == f"no votes {inferred} the spread of models"
    assert by_model(boards[3], "notes")["half"] == f"no votes {inferred} its other categories"
    assert by_model(boards[1], "notes")["champion"] == "won all 25 votes here"
    votes = {model: n for model, n in zip(boards[3].models, boards[3].battles, strict=True) if n}
    assert boards[3].heading()[0].startswith(f"Leaderboard, 3: {len(votes)} models, ")


def test_absent_come_before_preliminary_and_unplaced(sparse):
    board = lrbtl.leaderboard(sparse, context=1, method="naive")
    assert board.status[-3:] == ("absent", "unplaced", "unplaced") and board.models[-3] == "new"
    assert by_model(board, "notes")["champion"] == "won all 25 votes here"
    assert by_model(board, "notes")["half"] == "lost all 30 votes here"
    assert np.isnan(board.score[-3:]).all() and "–" in str(board)
    assert "2 models have no score by this method and are listed last" in str(board)
    few = lrbtl.leaderboard(sparse, context=0, method="mle", rank=1, min_battles=60)
    assert set(few.models[-2:]) == {"new", "champion"} and few.status[-2:] == ("preliminary",) * 2


def test_preliminary_models_are_said_and_left_out_of_the_average(sparse):
    board = lrbtl.leaderboard(sparse, rank=1, method="mle")
    assert by_model(board, "status")["new"] == "preliminary"
    assert "1 model has fewer than 30 votes: preliminary, unranked and excluded from the average" in str(board)
    assert board.score[board.rank > 0].mean() == pytest.approx(1000.0)
    everyone = lrbtl.leaderboard(sparse, rank=1, method="mle", min_battles=1)
    assert set(everyone.status) == {"ranked"} and "preliminary" not in str(everyone)
    waived = lrbtl.leaderboard(sparse, rank=1, method="mle", min_battles=10**6)
    assert set(waived.status) == {"ranked"} and "so that all are ranked" in str(waived)


def test_nobody_can_be_ranked():
    one_way = lrbtl.Battles.from_arrays(["x"], ["y"], [1], counts=[10])
    with pytest.raises(NoDecisionError, match=r"no two models can be ranked: .* 10 votes"):
        lrbtl.leaderboard(one_way, method="naive")


def test_a_context_that_ranks_nobody_has_no_board(plain):
    cells = plain.cells
    first_side, second_side = ([plain.models[k] for k in side] for side in (cells.a, cells.b))
    first = lrbtl.Battles.from_arrays(first_side, second_side, cells.y, [["code"] * cells.n_cells], counts=cells.count)
    poems = lrbtl.Battles.from_arrays(["model_0"], ["model_1"], [1], [["poems"]], counts=[3])
    boards = lrbtl.leaderboard(first + poems, context="all", method="naive", weights={"code": 1.0})
    assert list(boards) == list(boards.win)[1:] == ["code"]
    assert "fewer than two models can be ranked in poems: no board" in str(boards.overall)


def test_an_anchor_without_a_score_is_said(sparse):
    board = lrbtl.leaderboard(sparse, method="naive", anchor=("champion", 1500.0))
    assert board.score[board.rank > 0].mean() == pytest.approx(1000.0)
    assert "the anchor has no score here" in str(board)
    anchored = lrbtl.leaderboard(sparse, rank=1, method="mle", anchor=("new", 1500.0))
    assert by_model(anchored, "score")["new"] == pytest.approx(1500.0)


# ------------------------------------------------------------------------------
# Labels: the user's own, whatever they are.
# ------------------------------------------------------------------------------


def test_labels_are_the_users_own():
    frame = {"model_a": [10, 10, 30, 30], "model_b": [20] * 4, "winner": [1, 0, 1, 0], "n": [30, 20, 20, 30]}
    battles = lrbtl.Battles.from_frame(frame, count="n")
    board = lrbtl.leaderboard(battles)
    assert board.models == (10, 20, 30)
    est = lrbtl.infer(battles, lrbtl.score(board.models[0]))
    assert est.estimate[0] * 400 / np.log(10) + 1000 == pytest.approx(board.score[0])
    assert board.to_dict()["model"] == [10, 20, 30] and str(board).splitlines()[3].startswith("10 ")
    anchored = lrbtl.leaderboard(battles, anchor=(30, 1200.0))
    assert by_model(anchored, "score")[30] == pytest.approx(1200.0)


def test_contexts_never_share_a_name():
    rows = [
        (a, b, y, u, v)
        for u, v in (("a", "b / c"), ("a / b", "c"))
        for a, b in ((0, 1), (1, 2), (0, 2))
        for y in (0, 1)
    ]
    a, b, y, u, v = map(list, zip(*rows, strict=True))
    battles = lrbtl.Battles.from_arrays(a, b, y, [u, v], counts=list(range(20, 20 + len(rows))))
    boards = lrbtl.leaderboard(battles, context="all", method="naive")
    assert list(boards) == [("a", "b / c"), ("a / b", "c")]
    shown = list(dict.fromkeys(boards.to_dict()["context"]))
    assert shown == ["overall", 'a / "b / c"', '"a / b" / c']
    for label, title in zip(boards, shown[1:], strict=True):
        assert boards[label].context == label and boards[title] is boards[label]
        assert lrbtl.leaderboard(battles, context=label, method="naive").models == boards[label].models
    with pytest.raises(UnknownContextError, match="give the tuple"):
        boards["a / b / c"]
    with pytest.raises(UnknownContextError, match="unknown context 'd'"):
        boards["d"]
    assert lrbtl.compare(battles, 0, 1, method="naive").contexts == tuple(shown)


def test_a_context_is_not_taken_for_another_in_a_part_of_the_battles():
    """Level 3 has no votes between these models; its number is no code of the levels that are left."""
    battles = lrbtl.Battles.from_arrays(
        ["a", "a", "a", "a", "x", "x"], ["b", "b", "b", "b", "y", "y"], [1, 0, 1, 0, 1, 0], [[1, 1, 4, 4, 3, 3]],
        counts=[30, 10, 30, 20, 8, 4],
    )  # fmt: skip
    with pytest.warns(IslandWarning):
        board = lrbtl.leaderboard(battles, context=3, method="naive")
    assert board.models == ("x", "y") and board.context == 3


def test_json_is_strict(sparse, two_islands):
    for method in ("mle", "naive"):
        boards = lrbtl.leaderboard(sparse, context="all", rank=1, method=method)
        table = json.loads(json.dumps(boards.to_dict(), allow_nan=False))
        assert None in table["rank"] and table["se"][0] > 0
    with pytest.warns(IslandWarning):
        json.dumps(lrbtl.leaderboard(two_islands, context="all", method="naive").to_dict(), allow_nan=False)


def test_a_plain_board_says_what_it_is(plain):
    board = lrbtl.leaderboard(plain, method="efficient")
    assert "Bradley-Terry" in str(board).splitlines()[1] and "efficient" not in str(board)
    assert "weighted" not in str(lrbtl.leaderboard(plain))


@pytest.fixture(scope="module")
def two_islands():
    """Three models in u, of which two meet in v, and two others in v."""
    return lrbtl.Battles.from_arrays(
        ["a", "b", "c", "b", "x"], ["b", "c", "a", "c", "y"], [1, 1, 1, 1, 0.25], [["u", "u", "u", "v", "v"]],
        counts=[20, 20, 20, 5, 8],
    )  # fmt: skip


def test_islands_are_boards_of_their_own(two_islands):
    with pytest.warns(IslandWarning, match="2 groups"):
        board = lrbtl.leaderboard(two_islands.pooled())
    assert set(board.models) == {"a", "b", "c"} and board.islands[0].models == ("y", "x")
    table = board.to_dict()
    assert table["island"] == [1, 1, 1, 2, 2]
    assert "a board of its own" in str(board) and "y" in board._repr_html_()
    with pytest.warns(IslandWarning), pytest.warns(ThinContextWarning):
        boards = lrbtl.leaderboard(two_islands, context="all", method="mle", rank=1)
    assert boards.islands[0].overall.models == ("y", "x")
    assert set(boards.to_dict()["island"]) == {1, 2}
    assert "a board of its own" in str(boards) and "y" in boards._repr_html_()


def test_text_of_all_boards_tells_once_what_holds_for_all():
    rng = np.random.default_rng(0)
    a, voter, context, y = (rng.integers(n, size=600) for n in (3, 40, 2, 2))
    battles = lrbtl.Battles.from_arrays(a, (a + 1) % 3, y, [context], cluster={"voter": voter})
    boards = lrbtl.leaderboard(battles, context="all")
    note = "votes of the same voter (40) may be correlated: intervals allow for it"
    assert str(boards).count(note) == str(boards).count("hierarchical method") == 1
    assert note in str(boards[1]) and "status" not in str(boards)


def test_a_group_in_which_nobody_can_be_ranked_does_not_stop_the_others(two_islands):
    with pytest.warns(IslandWarning):
        board = lrbtl.leaderboard(two_islands, context="v", method="naive")
    assert board.context == "v" and board.models == ("y", "x") and board.islands == ()
    assert "3 models that no votes link with these have no board: no two models can be ranked in context 'v'" in str(
        board
    )


def test_models_without_battles_are_said():
    battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0], n_models=3)
    board = lrbtl.leaderboard(battles)
    assert len(board) == 2 and "1 model has no votes and is not listed: 2" in str(board)


def test_only_ties_rank_nobody():
    with pytest.raises(NoDecisionError, match="every battle is a tie"):
        lrbtl.leaderboard(lrbtl.Battles.from_arrays([0, 1], [1, 2], [0.5, 0.5]))


CANCELLING = {
    "ties alone": lrbtl.Battles.from_arrays(["x", "y", "y"], ["y", "z", "z"], [0.5, 1, 0], counts=[10, 5, 5]),
    "rock, paper, scissors": lrbtl.Battles.from_arrays(["x", "y", "z"], ["y", "z", "x"], [1, 1, 1], counts=[10] * 3),
}


@pytest.mark.parametrize("method", [None, "efficient"])
@pytest.mark.parametrize("battles", CANCELLING.values(), ids=CANCELLING)
def test_votes_that_cancel_give_no_zero_width(battles, method):
    board = lrbtl.leaderboard(battles, method=method)
    assert (board.upper - board.lower > 100).all()


def test_votes_that_cancel_in_two_categories_have_errors_overall_too():
    battles = lrbtl.Battles.from_arrays(
        ["x", "y", "z"] * 2, ["y", "z", "x"] * 2, [1] * 6, [["code"] * 3 + ["math"] * 3], counts=[10] * 6
    )
    for board in lrbtl.leaderboard(battles, context="all").every():
        assert (board.upper - board.lower > 100).all()


def test_notebooks_cap_rows_and_boards_and_do_not_wrap():
    rng = np.random.default_rng(0)
    a, n = rng.integers(0, 150, 6000), 6000
    many = lrbtl.Battles.from_arrays(a, (a + rng.integers(1, 150, n)) % 150, rng.integers(0, 2, n))
    html = lrbtl.leaderboard(many)._repr_html_()
    assert html.count("<tr>") < 70 and "white-space:nowrap" in html
    verdicts = lrbtl.infer(many, [lrbtl.gap(0, k) for k in range(1, 150)], method="mle").verdicts(10)
    assert verdicts._repr_html_().count("<tr>") == 102 and len(str(verdicts).splitlines()) < 115
    categories = lrbtl.Battles.from_arrays(a[:900] % 3, (a[:900] + 1) % 3, np.arange(900) % 2, [np.arange(900) % 15])
    shown = lrbtl.leaderboard(categories, context="all")._repr_html_()
    assert shown.count("<table") == 12 and "and 4 more boards: 11, 12, 13, ..." in shown
