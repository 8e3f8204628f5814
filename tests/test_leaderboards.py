"""Leaderboards against independent computations, and what they do where scores do not exist."""

import math
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

import lrbtl
from lrbtl.board_scores import thick_core
from lrbtl.compat import arena_rank
from lrbtl.errors import (
    FoldError,
    IslandWarning,
    LevelError,
    LrbtlError,
    MethodError,
    NoDecisionError,
    RankCollapseWarning,
    RankError,
    RidgeError,
    ScaleError,
    SeparationError,
    SingularInformationError,
    UnknownContextError,
    UnknownModelError,
    WeakSignalWarning,
    WeightError,
)

ELO = 400 / math.log(10)
Z = 1.959963984540054
DATA = Path(os.environ.get("LRBTL_DATA", Path(__file__).parents[2] / "shared" / "data"), "lmarena_140k_dev.csv.gz")
COLUMNS = ["model", "score", "lower", "upper", "rank", "best", "worst", "rank_lower", "rank_upper", "tier", "battles"]
COLUMNS += ["win_rate", "note"]


WRONG_RUNS = [
    (("rank", "bogus"), RankError),
    (("rank", 0), RankError),
    (("rank", 1.5), RankError),
    (("rank", ("a", "b")), RankError),
    (("ridge", "bogus"), RidgeError),
    (("ridge", -1), RidgeError),
    (("ridge", None), RidgeError),
    (("n_folds", -3), FoldError),
    (("n_folds", "ten"), FoldError),
    (("n_threads", None), MethodError),
    (("n_threads", 0), MethodError),
]


@pytest.fixture(scope="module")
def plain():
    truth = lrbtl.simulate_scores((7,), 1, scale=1.0, rng=3)
    return lrbtl.simulate_battles(truth, 800, rng=4)


@pytest.fixture(scope="module")
def arena():
    truth = lrbtl.simulate_scores((9, 4), 2, scale=2.0, rng=0)
    return lrbtl.simulate_battles(truth, 12_000, rng=1)


@pytest.fixture(scope="module")
def boards(arena):
    return lrbtl.leaderboard(arena, context="all", rank=2)


def in_order(board, battles):
    """Positions on the board of the models in the battles' order."""
    place = {model: k for k, model in enumerate(board.models)}
    return np.array([place[str(model)] for model in battles.models])


def twin(battles):
    """Bradley-Terry scores and HC3 covariance by general-purpose tools."""
    cells, d = battles.cells, len(battles.models)
    rows = np.repeat(np.arange(cells.n_cells), cells.count)
    X = np.zeros((rows.size, d))
    X[np.arange(rows.size), cells.a[rows]], X[np.arange(rows.size), cells.b[rows]] = 1, -1
    y = cells.y[rows]
    found = minimize(
        lambda t: np.sum(np.logaddexp(0, X @ t) - y * (X @ t)), np.zeros(d),
        jac=lambda t: X.T @ (expit(X @ t) - y), method="BFGS", options={"gtol": 1e-9},
    )  # fmt: skip
    theta = found.x - found.x.mean()
    p = expit(X @ theta)
    bread = np.linalg.pinv(X.T @ (X * (p * (1 - p))[:, None]))
    leverage = p * (1 - p) * np.einsum("ij,jk,ik->i", X, bread, X)
    meat = X.T @ (X * ((y - p) / (1 - leverage))[:, None] ** 2)
    return theta, bread @ meat @ bread


def test_plain_board_is_bradley_terry(plain):
    theta, cov = twin(plain)
    board = lrbtl.leaderboard(plain)
    rows = in_order(board, plain)
    np.testing.assert_allclose(board.score[rows], 1000 + ELO * theta, atol=1e-3)
    np.testing.assert_allclose(board.se[rows], ELO * np.sqrt(np.diag(cov)), rtol=1e-5)
    np.testing.assert_allclose(board.upper - board.score, Z * board.se, rtol=1e-9)
    assert board.rank.tolist() == sorted(board.rank.tolist())
    np.testing.assert_array_equal(board.battles[rows], plain.model_counts)
    np.testing.assert_allclose(board.win_rate[rows], plain.win_rates)
    assert board.gain is None and board.islands == ()


def test_overall_and_context_boards_are_what_infer_says(arena, boards):
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    targets = [lrbtl.weighted_score(model, weights) for model in arena.models]
    targets += [lrbtl.score(model, 2) for model in arena.models]
    est = lrbtl.infer(arena, targets, rank=2)
    weighted = lrbtl.leaderboard(arena, rank=2, weights=weights, scale="logit")
    single = lrbtl.leaderboard(arena, rank=2, context=2, scale="logit")
    for board, part in ((weighted, slice(0, 9)), (single, slice(9, 18))):
        rows = in_order(board, arena)
        np.testing.assert_allclose(board.score[rows], est.estimate[part], atol=1e-9)
        np.testing.assert_allclose(board.se[rows], est.se[part], rtol=1e-9)
    np.testing.assert_allclose(boards["2"].score, 1000 + ELO * single.score)
    assert boards[2].context == "2" and list(boards) == ["0", "1", "2", "3"] and len(boards) == 4
    assert boards[None] is boards.overall


def test_probability_scale_is_the_win_rate(arena):
    est = lrbtl.infer(arena, [lrbtl.win_rate(model) for model in arena.models], rank=2)
    board = lrbtl.leaderboard(arena, rank=2, scale="probability")
    rows = in_order(board, arena)
    np.testing.assert_allclose(board.score[rows], est.estimate, rtol=1e-9)
    np.testing.assert_allclose(np.c_[board.lower, board.upper][rows], est.conf_int(), rtol=1e-9)


def test_probability_scale_of_a_plain_board(plain):
    board = lrbtl.leaderboard(plain, scale="probability")
    theta, cov = twin(plain)
    p = expit(theta[:, None] - theta)
    np.fill_diagonal(p, 0)
    rows = in_order(board, plain)
    np.testing.assert_allclose(board.score[rows], p.sum(1) / 6, atol=1e-6)
    slope = p * (1 - p) / 6
    jacobian = np.diag(slope.sum(1)) - slope
    np.testing.assert_allclose(board.se[rows], np.sqrt(np.diag(jacobian @ cov @ jacobian.T)), rtol=1e-5)


def test_weights(arena):
    counts = arena.context_counts
    by_traffic = lrbtl.leaderboard(arena, rank=2, weights="traffic")
    given = lrbtl.leaderboard(arena, rank=2, weights={label: int(counts[label]) for label in range(4)})
    np.testing.assert_allclose(by_traffic.score, given.score)
    one = lrbtl.leaderboard(arena, rank=2, weights={1: 5.0})
    np.testing.assert_allclose(one.score, lrbtl.leaderboard(arena, rank=2, context=1).score)
    assert one.battles.sum() == 2 * counts[1]


@pytest.mark.parametrize("weights", [[1, 2], [1, 1, 1, -1], [0, 0, 0, 0], [1, 1, 1, np.nan], "votes"])
def test_weights_that_make_no_mean(arena, weights):
    with pytest.raises(WeightError):
        lrbtl.leaderboard(arena, rank=2, weights=weights)


def test_anchor_shifts_and_keeps_widths(plain):
    board = lrbtl.leaderboard(plain)
    anchored = lrbtl.leaderboard(plain, anchor=("model_2", 1234.0))
    assert anchored.score[anchored.models.index("model_2")] == pytest.approx(1234.0)
    np.testing.assert_allclose(anchored.upper - anchored.lower, board.upper - board.lower)


def test_ranks_and_tiers_are_consistent(boards):
    for board in (boards.overall, *boards.values()):
        assert (board.best <= board.rank).all() and (board.rank <= board.worst).all()
        assert (board.rank_lower <= board.rank).all() and (board.rank <= board.rank_upper).all()
        assert (np.diff(board.tier) >= 0).all() and board.tier[0] == 1
        assert (board.lower < board.score).all() and (board.score < board.upper).all()


def test_win_matrices(boards):
    for key in (None, "0", "3"):
        win, lower, upper = boards.win[key], boards.win_lower[key], boards.win_upper[key]
        np.testing.assert_allclose(win + win.T, 1.0)
        np.testing.assert_allclose(lower + upper.T, 1.0)
        off = ~np.eye(9, dtype=bool)
        assert (lower < win)[off].all() and (win < upper)[off].all()
    gaps = (boards.overall.score[:, None] - boards.overall.score) / ELO
    np.testing.assert_allclose(boards.win[None], expit(gaps))
    assert set(boards.win) == {None, "0", "1", "2", "3"}
    with pytest.raises(KeyError):
        boards.win["nowhere"]


def test_boards_survive_pickling(boards):
    copy = pickle.loads(pickle.dumps(boards))
    assert repr(copy) == repr(boards) and list(copy) == list(boards)
    for name in (None, *boards):
        np.testing.assert_array_equal(copy.win_upper[name], boards.win_upper[name])
    np.testing.assert_array_equal(copy.fit.scores, boards.fit.scores)


def test_sharing_between_contexts_gains(boards, arena):
    assert boards.overall.gain > 1 and boards["1"].gain > 1
    naive = lrbtl.leaderboard(arena, context=1, method="naive")
    assert np.median(naive.se) > np.median(boards["1"].se)
    assert "times smaller" in str(boards["1"])


def test_naive_boards_are_separate_fits(arena):
    boards = lrbtl.leaderboard(arena, context="all", method="naive", scale="logit")
    fit = lrbtl.fit_separate(arena)
    for u in range(4):
        rows = in_order(boards[u], arena)
        np.testing.assert_allclose(boards[u].score[rows], fit.scores[:, u], atol=1e-9)
    rows = in_order(boards.overall, arena)
    np.testing.assert_allclose(boards.overall.score[rows], fit.scores.mean(1), atol=1e-9)


@pytest.mark.parametrize("method", ["mle", "whitened"])
def test_other_methods_agree_roughly(arena, boards, method):
    board = lrbtl.leaderboard(arena, rank=2, method=method)
    assert board.method == method
    rows = in_order(board, arena)
    assert np.abs(board.score[rows] - boards.overall.score[in_order(boards.overall, arena)]).max() < 20


def with_extra(battles, winner, losers, times=1):
    """Battles with wins of one more model over some, and none lost."""
    more = lrbtl.Battles.from_arrays(
        [winner] * len(losers), list(losers), [1.0] * len(losers), counts=[times] * len(losers)
    )
    return battles + more


def test_unbeaten_model_gets_a_lower_limit_and_touches_nobody(plain):
    board = lrbtl.leaderboard(with_extra(plain, "champion", ["model_0", "model_1"], 5))
    k = board.models.index("champion")
    assert board.upper[k] == np.inf and np.isfinite(board.lower[k]) and board.lower[k] < board.score[k]
    assert board.notes[k] == "won all 10 battles: no upper limit"
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
    assert up.lower[i] == pytest.approx(-down.upper[j]) and up.score[i] == pytest.approx(-down.score[j])
    assert down.lower[j] == -np.inf and "lost all 4 battles" in down.notes[j]


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
    monkeypatch.setattr("lrbtl.islands.candidate_ranks", lambda *_, **__: [4, 3, 2, 1])
    names = ["model_0", "model_1", "model_1"], ["model_1", "model_0", "model_2"]
    thin = lrbtl.Battles.from_arrays(*names, [1, 1, 1], [9, 9, 9])
    with pytest.warns(WeakSignalWarning, match="rank"):
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
    assert "in 2 of 4 contexts: no limits overall" in boards.overall.notes[k]
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
    assert "only 36 battles: taken to stand at one place" in boards.overall.notes[k]
    assert "lost all 9 battles" in boards["v"].notes[2]


def test_naive_win_rates_add_variances_of_contexts():
    """Contexts of very different size and scores: the mean's covariance would not do."""
    rng = np.random.default_rng(3)
    theta = np.array([[2.0, -1.0, -1.0], [0.0, 0.2, -0.2], [-1.0, -1.0, 2.0]]).T
    u = np.repeat([0, 1, 2], [3000, 60, 400])
    a = rng.integers(3, size=u.size)
    b = (a + rng.integers(1, 3, size=u.size)) % 3
    y = rng.random(u.size) < expit(theta[a, u] - theta[b, u])
    battles = lrbtl.Battles.from_arrays(a, b, y, [u])
    board = lrbtl.leaderboard(battles, method="naive", scale="probability")
    est = lrbtl.infer(battles, [lrbtl.win_rate(int(model)) for model in board.models], method="naive")
    np.testing.assert_allclose(board.score, est.estimate, rtol=1e-9)
    np.testing.assert_allclose(board.se, est.se, rtol=1e-6)


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


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"method": "magic"}, MethodError),
        ({"scale": "points"}, ScaleError),
        ({"level": 95}, LevelError),
        ({"compat": "elo"}, MethodError),
        ({"anchor": ("nobody", 1000)}, UnknownModelError),
        ({"anchor": ("model_0", 1000), "scale": "logit"}, ScaleError),
        ({"context": "nowhere"}, UnknownContextError),
        ({"compat": "fastchat", "scale": "logit"}, ScaleError),
        ({"anchor": "model_01"}, MethodError),
        ({"anchor": ("model_0", "high")}, MethodError),
        *((dict([wrong]), error) for wrong, error in WRONG_RUNS),
    ],
)
def test_wrong_options(arena, options, error):
    with pytest.raises(error):
        lrbtl.leaderboard(arena, **{"rank": 2, **options})


@pytest.mark.parametrize(("wrong", "error"), WRONG_RUNS)
def test_wrong_options_are_refused_where_nothing_uses_them(plain, wrong, error):
    with pytest.raises(error):
        lrbtl.leaderboard(plain, **dict([wrong]))
    with pytest.raises(error):
        lrbtl.infer(plain, lrbtl.score(0), method="naive", **dict([wrong]))


def test_compat_arena_rank(arena):
    cells = arena.pooled().cells
    found = arena_rank(cells.a, cells.b, cells.y, cells.count, 9)
    board = lrbtl.leaderboard(arena, compat="arena-rank")
    rows = in_order(board, arena)
    np.testing.assert_allclose(board.score[rows], found.ratings)
    np.testing.assert_allclose(board.lower[rows], found.lower)
    boards = lrbtl.leaderboard(arena, compat="arena-rank", context="all")
    assert list(boards) == ["0", "1", "2", "3"]
    np.testing.assert_allclose(boards["1"].score, lrbtl.leaderboard(arena, compat="arena-rank", context=1).score)


def test_compat_fastchat(plain):
    board = lrbtl.leaderboard(plain, compat="fastchat", anchor=("model_1", 1114.0))
    assert board.score[board.models.index("model_1")] == pytest.approx(1114.0)
    assert np.isnan(board.lower).all() and "no intervals" in str(board)


def test_compat_names_models_without_ratings(plain):
    with pytest.raises(SeparationError, match="'champion'"):
        lrbtl.leaderboard(with_extra(plain, "champion", ["model_0"]), compat="arena-rank")


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


def test_progress_is_told(arena):
    lines = []
    lrbtl.leaderboard(arena, context="all", progress=lines.append)
    assert any("rank" in line for line in lines) and "fold 10 of 10" in lines and "board of 3" in lines


def test_order_three():
    truth = lrbtl.simulate_scores((8, 3, 2), 2, scale=2.0, rng=5)
    battles = lrbtl.simulate_battles(truth, 24_000, rng=6)
    boards = lrbtl.leaderboard(battles, context="all", rank=2)
    assert list(boards)[:2] == ["0 / 0", "0 / 1"] and boards[(0, 1)].context == "0 / 1"
    assert lrbtl.leaderboard(battles, context=(0, 1), rank=2).models == boards["0 / 1"].models


@st.composite
def small_logs(draw):
    n = draw(st.integers(3, 5))
    pairs = [(a, b) for a in range(n) for b in range(a)]
    rows = [(a, b, y, draw(st.integers(1, 4))) for a, b in pairs for y in (0.0, 1.0)]
    return n, rows


@settings(max_examples=25, deadline=None)
@given(small_logs(), st.randoms(use_true_random=False))
def test_boards_do_not_depend_on_how_battles_are_written(log, random):
    n, rows = log
    a, b, y, count = (np.array(column) for column in zip(*rows, strict=True))
    board = lrbtl.leaderboard(lrbtl.Battles.from_arrays(a, b, y, counts=count))
    names = random.sample("pqrstu", n)
    swap = np.array([random.random() < 0.5 for _ in rows])
    each = np.repeat(np.arange(len(rows)), count)
    random.shuffle(order := each.tolist())
    first, second = np.where(swap, b, a)[order], np.where(swap, a, b)[order]
    label = np.array(names)
    other = lrbtl.leaderboard(
        lrbtl.Battles.from_arrays(label[first].tolist(), label[second].tolist(), np.where(swap, 1 - y, y)[order])
    )
    renamed = {names[int(model)]: k for k, model in enumerate(board.models)}
    rows_of = [renamed[model] for model in other.models]
    for column in ("score", "lower", "upper", "best", "worst", "battles"):
        np.testing.assert_allclose(getattr(other, column), getattr(board, column)[rows_of], rtol=1e-6)


@pytest.mark.skipif(not DATA.exists(), reason="the LMArena log is not beside the project")
def test_lmarena_overall_agrees_with_plain_and_contexts_are_narrower():
    from lrbtl.reading import read_battles

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrbtl.errors.SelfBattleWarning)
        battles = read_battles(DATA).battles
    boards = lrbtl.leaderboard(battles, context="all", rank=3)
    plain = lrbtl.leaderboard(battles.pooled())
    place = {model: k for k, model in enumerate(plain.models)}
    rows = [place[model] for model in boards.overall.models]
    overlap = (boards.overall.rank_lower <= plain.rank_upper[rows]) & (
        plain.rank_lower[rows] <= boards.overall.rank_upper
    )
    assert overlap.all()
    thick = battles.top_models(52)
    for name, board in boards.items():
        try:
            theirs = lrbtl.leaderboard(thick, compat="arena-rank", context=name)
        except LrbtlError:
            continue
        width = {model: up - low for model, low, up in zip(theirs.models, theirs.lower, theirs.upper, strict=True)}
        ours = {model: up - low for model, low, up in zip(board.models, board.lower, board.upper, strict=True)}
        assert np.median([ours[model] / width[model] for model in width]) < 1.0


def test_worked_case_of_arena_rank_and_fastchat():
    from test_compat import CASES, ROWS

    a, b, y, count = ROWS.T
    battles = lrbtl.Battles.from_arrays(a.astype(int), b.astype(int), y, counts=count.astype(int))
    _, ratings, _, lower, upper = CASES["plain"]
    board = lrbtl.leaderboard(battles, compat="arena-rank")
    rows = in_order(board, battles)
    for mine, theirs in ((board.score, ratings), (board.lower, lower), (board.upper, upper)):
        np.testing.assert_allclose(mine[rows], theirs, atol=1e-3)
    np.testing.assert_allclose(lrbtl.leaderboard(battles, compat="fastchat").score[rows], ratings, atol=1e-3)
