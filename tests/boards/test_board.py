"""Boards as data: frames, text, HTML, pickles, and the names of their contexts."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
from board_checks import with_extra
from lrbtl.errors import (
    IslandWarning,
    LrbtlError,
    NoDecisionError,
    RankCollapseWarning,
    SingularInformationError,
    WeakSignalWarning,
    WeightError,
)
from lrbtl.fitting.core import thick_core

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
    return replace(battles, mode_names=("category", "judge"), levels=(("all", "code", "overall"), ("crowd", "expert")))


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
    assert str(board).splitlines()[3].split() == ["model", "rank", "score", "battles", "win", "rate"]


@pytest.mark.parametrize(("gain", "words"), [(0.99, "no gain"), (1.019, "no gain"), (1.02, "1.02 times smaller")])
def test_a_gain_is_only_told_where_there_is_one(boards, gain, words):
    assert words in str(replace(boards.overall, gain=gain))


# ------------------------------------------------------------------------------
# Boards where scores do not exist or are hardly known: unbeaten models, newcomers, islands, thin contexts.
# ------------------------------------------------------------------------------


def test_unbeaten_model_gets_a_lower_limit_and_touches_nobody(plain):
    board = lrbtl.leaderboard(with_extra(plain, "champion", ["model_0", "model_1"], 5))
    k = board.models.index("champion")
    assert board.upper[k] == np.inf and np.isfinite(board.lower[k]) and board.lower[k] == board.score[k]
    assert board.notes[k] == "won all 10 battles: no upper limit; listed at its lower limit"
    assert (np.diff(board.score) <= 0).all() and "≥ " in str(board)
    rest = lrbtl.leaderboard(plain)
    kept = [j for j in range(8) if j != k]
    assert tuple(board.models[j] for j in kept) == rest.models
    np.testing.assert_allclose(board.score[kept], rest.score)
    np.testing.assert_allclose(board.upper[kept], rest.upper)
    assert board.rank_upper[k] == 8 - (board.rank_lower[kept] > 1).sum()


def test_winless_model_mirrors_the_unbeaten(plain):
    cells = plain.cells
    mirrored = lrbtl.Battles.from_arrays(
        [plain.models[k] for k in cells.a], [plain.models[k] for k in cells.b], 1 - cells.y, counts=cells.count
    )
    up = lrbtl.leaderboard(with_extra(plain, "x", ["model_3"], 4), scale="logit")
    more = lrbtl.Battles.from_arrays(["x"], ["model_3"], [0.0], counts=[4])
    down = lrbtl.leaderboard(mirrored + more, scale="logit")
    i, j = up.models.index("x"), down.models.index("x")
    assert up.lower[i] == pytest.approx(-down.upper[j]) and up.score[i] == up.lower[i]
    assert down.lower[j] == -np.inf and down.notes[j] == "lost all 4 battles: no lower limit; listed last"
    assert np.isnan(down.score[j]) and j == 7 and down.rank[j] == 8 and "–" in str(down)


def test_two_models_and_one_way_wins():
    board = lrbtl.leaderboard(lrbtl.Battles.from_arrays(["x"], ["y"], [1], counts=[10]))
    assert board.models == ("x", "y")
    assert not np.isfinite(board.upper - board.lower).any() and np.isnan(board.se).all()
    one_way = lrbtl.Battles.from_arrays(["x"], ["y"], [1], ["code"], counts=[10])
    pooled = lrbtl.leaderboard(one_way)
    np.testing.assert_allclose(pooled.lower, board.lower)
    assert "contexts are put together" in str(pooled)
    with pytest.raises(NoDecisionError, match="no two models both won and lost"):
        lrbtl.leaderboard(one_way, context="code")


def test_a_chosen_rank_gives_way_where_battles_do_not_determine_it(arena, monkeypatch):
    monkeypatch.setattr("lrbtl.boards.components.candidate_ranks", lambda *_, **__: [4, 3, 2, 1])
    names = ["model_0", "model_1", "model_1"], ["model_1", "model_0", "model_2"]
    thin = lrbtl.Battles.from_arrays(*names, [1, 1, 1], [9, 9, 9])
    board = lrbtl.leaderboard(arena + thin)
    assert "asks for more than these battles tell" in str(board) and board.info.rank[0] < 4
    monkeypatch.undo()
    with pytest.warns(WeakSignalWarning), pytest.raises(SingularInformationError):
        lrbtl.leaderboard(arena + thin, rank=4)


def test_a_tiny_island_does_not_stop_the_rest(arena):
    apart = lrbtl.Battles.from_arrays(["p", "p"], ["q", "q"], [1, 0], [0, 1], n_levels=4)
    one_way = lrbtl.Battles.from_arrays(["s"], ["t"], [1], [0], n_levels=4)
    with pytest.warns(IslandWarning, match="3 groups"):
        boards = lrbtl.leaderboard(arena + apart + one_way, context="all", rank=2)
    assert len(boards) == 4 and [len(part.overall) for part in boards.islands] == [2, 2]


@pytest.mark.parametrize("scale", ["elo", "probability"])
def test_unbeaten_model_with_contexts(arena, scale):
    extra = lrbtl.Battles.from_arrays(
        ["champion"] * 3, ["model_0", "model_1", "model_1"], [1, 1, 1], [0, 1, 1], n_levels=4
    )
    boards = lrbtl.leaderboard(arena + extra, context="all", rank=2, scale=scale)
    rest = lrbtl.leaderboard(arena, context="all", rank=2, scale=scale)
    k = boards.overall.models.index("champion")
    assert boards.overall.upper[k] == (np.inf if scale == "elo" else 1.0)
    assert boards.overall.lower[k] == (-np.inf if scale == "elo" else 0.0)
    assert (boards.overall.rank_lower[k], boards.overall.rank_upper[k]) == (1, 10)
    assert (boards.overall.best[k], boards.overall.worst[k]) == (1, 10)
    assert "in 2 of 4 contexts: no limits overall; listed last" in boards.overall.notes[k]
    assert np.isnan(boards.overall.score[k]) and k == 9 and boards.overall.rank[k] == 10
    assert "no upper limit" in boards["1"].notes[boards["1"].models.index("champion")]
    kept = [j for j in range(10) if j != k]
    np.testing.assert_allclose(boards.overall.score[kept], rest.overall.score)
    nowhere = boards[3]
    k = nowhere.models.index("champion")
    assert np.isnan(nowhere.score[k]) and k == 9 and nowhere.battles[k] == 0
    assert boards.win_lower["1"].min() >= 0 and np.isnan(boards.win["3"]).sum() == 18


def test_a_newcomer_with_two_battles_breaks_nothing(arena):
    extra = lrbtl.Battles.from_arrays(["new", "new"], ["model_0", "model_1"], [1, 0], [0, 1], n_levels=4)
    boards = lrbtl.leaderboard(arena + extra, context="all", rank=2)
    board = boards.overall
    k = board.models.index("new")
    assert "only 2 battles" in board.notes[k]
    assert board.upper[k] - board.lower[k] > 500 and np.isfinite(board.upper[k] - board.lower[k])
    kept = [j for j in range(10) if j != k]
    np.testing.assert_allclose(board.score[kept], lrbtl.leaderboard(arena, rank=2).score)
    assert np.isfinite(boards.win_lower[None]).all()


def test_a_hopeless_interval_has_no_place(arena):
    """One tie says nothing of where a model stands: it must not lead the board, nor a tier of it."""
    boards = lrbtl.leaderboard(arena, context="all", rank=2)
    best = boards.models[0]
    tie = lrbtl.Battles.from_arrays(["new"], [best], [0.5], [0], n_levels=4)
    extended = lrbtl.leaderboard(arena + tie, context="all", rank=2)
    for board, rest in ((extended.overall, boards.overall), (extended[0], boards[0])):
        assert board.models == (*rest.models, "new") and board.rank[-1] == 10 and np.isfinite(board.score[-1])
        assert (board.best[-1], board.worst[-1]) == (1, 10) and board.notes[-1].endswith("; listed last")
        np.testing.assert_array_equal(board.tier[:-1], rest.tier)
        np.testing.assert_array_equal(board.rank[:-1], rest.rank)


def test_an_anchor_without_a_score_is_said(arena):
    extra = lrbtl.Battles.from_arrays(["champion"], ["model_0"], [1], [0], n_levels=4)
    board = lrbtl.leaderboard(arena + extra, rank=2, anchor=("champion", 1500.0))
    assert np.nanmean(board.score) == pytest.approx(1000.0) and "the anchor champion has no score here" in str(board)


def test_placed_models_meet_one_step_scores(arena):
    """Full-ridge scores of the opponents would pull the placed model towards zero."""
    extra = lrbtl.Battles.from_arrays(["new", "new"], ["model_0", "model_1"], [1, 0], [0, 1], n_levels=4)
    boards = lrbtl.leaderboard(arena + extra, context="all", rank=2, scale="logit")
    board = boards.overall
    score = board.score[board.models.index("new")]
    rivals = [boards[u].score[boards[u].models.index(rival)] for u, rival in ((0, "model_0"), (1, "model_1"))]
    assert expit(score - rivals[0]) + expit(score - rivals[1]) == pytest.approx(1.0, abs=1e-9)


def test_thick_core_drops_until_all_have_enough():
    battles = lrbtl.Battles.from_arrays(
        [0, 0, 1, 1, 2, 2, 3, 3], [1, 1, 2, 2, 0, 0, 0, 0], [1, 0] * 4, counts=[9, 9, 9, 9, 9, 9, 2, 2]
    )
    np.testing.assert_array_equal(thick_core(battles, np.arange(4), 10), [0, 1, 2])
    np.testing.assert_array_equal(thick_core(battles, np.arange(4), 1), [0, 1, 2, 3])


@pytest.fixture(scope="module")
def two_islands():
    return lrbtl.Battles.from_arrays(
        ["a", "b", "c", "x"], ["b", "c", "a", "y"], [1, 1, 1, 0.25], [["u", "v", "u", "v"]], counts=[20, 20, 20, 8]
    )


def test_islands_are_boards_of_their_own(two_islands):
    with pytest.warns(IslandWarning, match="2 groups"):
        board = lrbtl.leaderboard(two_islands.pooled())
    assert set(board.models) == {"a", "b", "c"} and board.islands[0].models == ("y", "x")
    table = board.to_dict()
    assert table["island"] == [1, 1, 1, 2, 2]
    assert "boards of their own" in str(board) and "y" in board._repr_html_()
    with pytest.warns(IslandWarning):
        boards = lrbtl.leaderboard(two_islands, context="all", method="naive")
    assert boards.islands[0].overall.models == ("y", "x")
    assert set(boards.to_dict()["island"]) == {1, 2}


def test_one_context_of_one_island(two_islands):
    with pytest.warns(IslandWarning):
        board = lrbtl.leaderboard(two_islands, context="v", method="naive")
    assert board.context == "v"


def test_models_without_battles_are_said():
    battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0], n_models=3)
    board = lrbtl.leaderboard(battles)
    assert len(board) == 2 and "without battles are not listed: 2" in str(board)


def test_naive_overall_where_a_context_is_separated():
    battles = lrbtl.Battles.from_arrays(
        [0, 0, 1, 1, 0, 1, 0, 0],
        [1, 1, 2, 2, 2, 2, 1, 1],
        [1, 0, 1, 0, 1, 1, 1, 0],
        [["u"] * 5 + ["v"] * 3],
        counts=[9] * 8,
    )
    boards = lrbtl.leaderboard(battles, context="all", method="naive")
    k = boards.overall.models.index("2")
    assert "only 36 battles with scored models: taken to stand at one place" in boards.overall.notes[k]
    assert "lost all 9 battles" in boards["v"].notes[2]


def test_too_little_evidence_falls_back_to_separate_fits():
    rows = np.array([(a, b, y, u) for u in (0, 1) for a, b in ((0, 1), (1, 2), (2, 0)) for y in (0, 1)])
    battles = lrbtl.Battles.from_arrays(rows[:, 0], rows[:, 1], rows[:, 2], [rows[:, 3]], counts=[3, 3, 4, 3, 3, 3] * 2)
    with pytest.warns(RankCollapseWarning):
        board = lrbtl.leaderboard(battles, rank=1)
    assert board.method == "naive" and "too little evidence" in str(board)
    assert (board.upper - board.lower > 100).all()


def test_only_ties_rank_nobody():
    with pytest.raises(NoDecisionError, match="every battle is a tie"):
        lrbtl.leaderboard(lrbtl.Battles.from_arrays([0, 1], [1, 2], [0.5, 0.5]))


def test_ties_alone_give_no_zero_width():
    battles = lrbtl.Battles.from_arrays(["x", "y", "y"], ["y", "z", "z"], [0.5, 1, 0], counts=[10, 5, 5])
    board = lrbtl.leaderboard(battles)
    assert (board.upper - board.lower > 100).all()


@pytest.mark.filterwarnings("ignore::lrbtl.errors.WeakSignalWarning")
def test_a_newcomer_whose_score_runs_away_does_not_take_the_board_along():
    """At rank 3 this newcomer's few battles leave a direction of its row without limit: it is placed from outside."""
    truth = lrbtl.simulate_scores((10, 4), 3, scale=1.5, rng=10)
    core = lrbtl.simulate_battles(truth[:9], 20_000, rng=10)
    rng = np.random.default_rng(10)
    rival, context, won = rng.integers(9, size=24), rng.integers(4, size=24), rng.random(24) < 0.8
    a, b, y = (np.concatenate(x) for x in ((core.cells.a, np.full(24, 9)), (core.cells.b, rival), (core.cells.y, won)))
    contexts, counts = np.append(core.cells.context, context), np.append(core.cells.count, np.ones(24, dtype=int))
    battles = lrbtl.Battles.from_arrays(a, b, y, (contexts,), n_models=10, n_levels=(4,), counts=counts)
    board = lrbtl.leaderboard(battles, rank=3, scale="logit")
    place = board.models.index("9")
    assert "only 24 battles" in board.notes[place]
    assert np.isfinite([board.lower[place], board.upper[place]]).all()
    alone = lrbtl.leaderboard(battles.select(models=range(9)), rank=3, scale="logit")
    others = [board.models.index(model) for model in alone.models]
    np.testing.assert_allclose(np.diff(board.score[others]), np.diff(alone.score), atol=1e-9)
