"""Leaderboards against independent computations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import lrbtl
from board_checks import ELO, in_order, twin
from lrbtl.boards.components import battle_counts
from lrbtl.errors import (
    FoldError,
    IslandWarning,
    LevelError,
    MethodError,
    RankError,
    RidgeError,
    ScaleError,
    UnknownContextError,
    UnknownModelError,
    WeightError,
)

Z = 1.959963984540054
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
    (("n_threads", 2.5), MethodError),
    (("n_threads", 0), MethodError),
]


def test_plain_board_is_bradley_terry(plain):
    theta, cov = twin(plain)
    board = lrbtl.leaderboard(plain, method="efficient")
    rows = in_order(board, plain)
    np.testing.assert_allclose(board.score[rows], 1000 + ELO * theta, atol=1e-3)
    np.testing.assert_allclose(board.se[rows], ELO * np.sqrt(np.diag(cov)), rtol=1e-5)
    np.testing.assert_allclose(board.upper - board.score, Z * board.se, rtol=1e-9)
    assert board.rank.tolist() == sorted(board.rank.tolist())
    np.testing.assert_array_equal(board.battles[rows], plain.model_counts)
    np.testing.assert_allclose(board.win_rate[rows], plain.win_rates)
    assert board.gain is None and board.islands == ()


def test_a_plain_board_is_nearly_bradley_terry_by_default(plain):
    """The prior of levels draws them together by a part of their errors, where every model has some hundred votes."""
    theta, cov = twin(plain)
    board = lrbtl.leaderboard(plain)
    rows, errors = in_order(board, plain), ELO * np.sqrt(np.diag(cov))
    np.testing.assert_array_less(np.abs(board.score[rows] - 1000 - ELO * theta), 0.6 * errors)
    slope = (board.score[rows] - 1000) @ theta / (ELO * theta @ theta)
    assert 0.9 < slope < 1.0
    np.testing.assert_allclose(board.se[rows], errors, rtol=0.1)
    np.testing.assert_allclose(board.upper - board.score, Z * board.se, rtol=1e-9)


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
        np.testing.assert_allclose(np.c_[board.lower, board.upper][rows], est.conf_int()[part], atol=1e-9)
    np.testing.assert_allclose(boards["2"].score, 1000 + ELO * single.score)
    assert boards[2].context == 2 and list(boards) == [0, 1, 2, 3] and len(boards) == 4
    assert boards[None] is boards.overall


def test_probability_scale_is_the_win_rate(arena):
    est = lrbtl.infer(arena, [lrbtl.win_rate(model, weights="traffic") for model in arena.models], rank=2)
    board = lrbtl.leaderboard(arena, rank=2, scale="probability")
    rows = in_order(board, arena)
    np.testing.assert_allclose(board.score[rows], est.estimate, rtol=1e-9)
    np.testing.assert_allclose(np.c_[board.lower, board.upper][rows], est.conf_int(), rtol=1e-9)


def test_probability_scale_of_a_plain_board(plain):
    board = lrbtl.leaderboard(plain, scale="probability", method="efficient")
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
    by_traffic = lrbtl.leaderboard(arena, rank=2)
    given = lrbtl.leaderboard(arena, rank=2, weights={label: int(counts[label]) for label in range(4)})
    np.testing.assert_allclose(by_traffic.score, given.score)
    equal = lrbtl.leaderboard(arena, rank=2, weights="equal")
    np.testing.assert_allclose(equal.score, lrbtl.leaderboard(arena, rank=2, weights=np.ones(4)).score)
    assert [board.weighting for board in (by_traffic, given, equal)] == [
        "categories weighted by votes",
        "categories weighted as given",
        "all categories weigh the same",
    ]
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
    for key in (None, 0, "3"):
        win, lower, upper = boards.win[key], boards.win_lower[key], boards.win_upper[key]
        np.testing.assert_allclose(win + win.T, 1.0)
        np.testing.assert_allclose(lower + upper.T, 1.0)
        off = ~np.eye(9, dtype=bool)
        assert (lower < win)[off].all() and (win < upper)[off].all()
    rows = [boards[1].models.index(model) for model in boards.models]
    score = boards[1].score[rows]
    chance = expit((score[:, None] - score) / ELO)  # at the estimates; means over the posterior are nearer to one half
    np.testing.assert_allclose(boards.win[1], chance, atol=2e-3)
    assert (np.abs(boards.win[1] - 0.5) < np.abs(chance - 0.5))[~np.eye(9, dtype=bool)].all()
    assert set(boards.win) == {None, 0, 1, 2, 3}
    with pytest.raises(KeyError):
        boards.win["nowhere"]


def test_sharing_between_contexts_gains(boards, arena):
    naive = lrbtl.leaderboard(arena, context=1, method="naive")
    efficient = lrbtl.leaderboard(arena, context=1, rank=2, method="efficient")
    assert np.median(naive.se) > np.median(boards["1"].se)
    assert efficient.gain > 1 and "narrower than separate fits" in str(efficient)


def test_naive_boards_are_separate_fits(arena):
    boards = lrbtl.leaderboard(arena, context="all", method="naive", scale="logit", weights="equal")
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
    est = lrbtl.infer(battles, [lrbtl.win_rate(model, weights="traffic") for model in board.models], method="naive")
    np.testing.assert_allclose(board.score, est.estimate, rtol=1e-9)
    np.testing.assert_allclose(board.se, est.se, rtol=1e-6)


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
        ({"min_battles": 0}, MethodError),
        ({"min_battles": 2.5}, MethodError),
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


def test_progress_is_told(arena):
    lines = []
    lrbtl.leaderboard(arena, context="all", rank=2, method="efficient", progress=lines.append)
    assert "fold 10 of 10" in lines
    lines.clear()
    lrbtl.leaderboard(arena, context="all", progress=lines.append)
    assert lines and all(" factors: " in line for line in lines)


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
    renamed = {names[model]: k for k, model in enumerate(board.models)}
    rows_of = [renamed[model] for model in other.models]
    for column in ("score", "lower", "upper", "best", "worst", "battles"):
        np.testing.assert_allclose(getattr(other, column), getattr(board, column)[rows_of], rtol=1e-6)


@pytest.mark.parametrize("used", [[1], [0, 2], [0, 1, 2]])
def test_counts_are_those_of_the_contexts_with_a_weight(used):
    """Against a loop over cells, whether they lie together or not."""
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((5, 3), 1, scale=1, rng=0), 400, rng=1)
    weights = np.zeros(3)
    weights[used] = 1 / len(used)
    cells, fought, won = battles.cells, np.zeros(5), np.zeros(5)
    for u, a, b, y, n in zip(cells.context, cells.a, cells.b, cells.y, cells.count, strict=True):
        if u in used:
            fought[[a, b]] += n
            won[[a, b]] += n * y, n * (1 - y)
    found = battle_counts(battles, weights)
    np.testing.assert_array_equal(found[0], fought)
    np.testing.assert_allclose(found[1], won / fought)


@pytest.mark.parametrize("method", ["efficient", "mle", "naive"])
def test_battles_with_all_models_count(method):
    """Nobody is ranked by a part of its battles: c beat a and b, and lost all 100 votes against d."""
    battles = lrbtl.Battles.from_arrays(
        ["a", "a", "c", "c", "d"], ["b", "b", "a", "b", "c"], [1, 0, 1, 1, 1], counts=[30, 30, 40, 40, 100]
    )
    board = lrbtl.leaderboard(battles, method=method)
    ranks = dict(zip(board.models, board.rank.tolist(), strict=True))
    assert ranks["c"] != 1
    if ranks["c"]:
        assert ranks["d"] < ranks["c"]
    matrix = lrbtl.win_matrix(battles, method=method)
    chance = matrix.win[matrix.models.index("c"), matrix.models.index("d")]
    assert np.isnan(chance) or chance < 0.5


def test_ties_have_the_errors_of_infer(plain):
    rows = np.arange(plain.cells.n_cells)
    cells = plain.cells
    first_side, second_side = ([plain.models[k] for k in side] for side in (cells.a, cells.b))
    tied = lrbtl.Battles.from_arrays(first_side, second_side, np.where(rows % 2, 0.5, cells.y), counts=cells.count)
    for method, tolerance in (("efficient", 1e-6), (None, 0.15)):  # the default shrinks levels
        board = lrbtl.leaderboard(tied, scale="logit", method=method)
        est = lrbtl.infer(tied, [lrbtl.score(model) for model in board.models], method="naive")
        np.testing.assert_allclose(board.se, est.se, rtol=tolerance)


def test_the_fit_behind_boards_can_be_diagnosed(arena):
    apart = lrbtl.Battles.from_arrays(["p", "p"], ["q", "q"], [1, 0], [0, 1], n_levels=4, counts=[9, 9])
    battles = arena + apart
    with pytest.warns(IslandWarning):
        boards = lrbtl.leaderboard(battles, context="all", rank=2, method="mle")
    assert lrbtl.diagnose(boards.fit.battles, boards.fit).rank == (2, 2)
    assert lrbtl.diagnose(battles, boards.fit).rank == (2, 2)


def test_boards_name_specialists():
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(20, 1)) @ np.ones((1, 6))
    truth[4, 2] += 1.5
    battles = lrbtl.simulate_battles(truth - truth.mean(axis=0), 60_000, rng=1)
    boards = lrbtl.leaderboard(battles, context="all")
    noted = {
        (u, m): note for u, board in boards.items() for m, note in zip(board.models, board.notes, strict=True) if note
    }
    assert list(noted) == [(2, "model_04")] and "outlier here: +" in noted[2, "model_04"]


@pytest.mark.parametrize("method", [None, "efficient", "naive"])
def test_a_model_is_not_ranked_by_a_part_of_its_votes(method):
    pairs = [("a", "b", 1, 50), ("a", "b", 0, 50), ("c", "a", 1, 40), ("c", "b", 1, 40), ("d", "c", 1, 100)]
    a, b, y, n = zip(*pairs, strict=True)
    board = lrbtl.leaderboard(lrbtl.Battles.from_arrays(a, b, y, counts=n), method=method)
    place = {model: k for k, model in enumerate(board.models)}
    placed = {model for model, status in zip(board.models, board.status, strict=True) if status == "ranked"}
    if {"c", "d"} <= placed:
        assert place["d"] < place["c"]
    else:  # a method that gives such models no score says so
        assert method is not None and "c" not in placed
