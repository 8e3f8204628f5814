"""Worked case of arena-rank 0.1.1 and FastChat: four models, 65 battles, ties, both sides."""

import csv
import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import lrbtl
from board_checks import in_order, with_extra
from lrbtl.boards.compat import arena_rank, fastchat_ratings, fschat_ratings
from lrbtl.errors import LrbtlError, MethodError, SeparationError

# a, b, outcome of a, count, with (a, b) and (b, a) kept apart as arena-rank does
ROWS = np.array(
    [
        [0, 1, 1.0, 7],
        [0, 1, 0.0, 3],
        [1, 0, 1.0, 2],
        [1, 0, 0.5, 3],
        [0, 2, 1.0, 9],
        [0, 2, 0.0, 2],
        [2, 0, 0.5, 1],
        [1, 2, 1.0, 5],
        [1, 2, 0.0, 4],
        [2, 1, 0.5, 2],
        [2, 3, 1.0, 6],
        [2, 3, 0.0, 5],
        [3, 0, 0.0, 8],
        [3, 0, 1.0, 1],
        [1, 3, 1.0, 4],
        [3, 1, 1.0, 2],
        [1, 3, 0.5, 1],
    ]
)
CASES = {
    "plain": (
        {},
        [1136.7169132154227, 1031.0566902048886, 943.9782582039855, 888.2481383757032],
        [1989.5433426117281, 2096.1962026618335, 2038.040419439222, 2778.720139706202],
        [1049.2940968421835, 941.3212379431386, 855.4963484925312, 784.9314456735324],
        [1224.1397295886618, 1120.7921424666388, 1032.4601679154398, 991.564831077874],
    ),
    "plain, level 0.90": (
        {"level": 0.90},
        [1136.7169132154227, 1031.0566902048886, 943.9782582039854, 888.2481383757032],
        [1989.543362239726, 2096.1962209645417, 2038.0404324667377, 2778.7201553715186],
        [1063.3493725700755, 955.7483243739257, 869.7218985353203, 801.5420363578613],
        [1210.0844538607698, 1106.3650560358517, 1018.2346178726507, 974.9542403935451],
    ),
}


def as_arena_rank_sees_them():
    a, b, y, count = ROWS.T
    return a.astype(int), b.astype(int), y, count.astype(int)


def as_cells():
    """Oriented a < b and merged."""
    merged = {}
    for a, b, y, count in ROWS:
        key = (a, b, y) if a < b else (b, a, 1 - y)
        merged[key] = merged.get(key, 0) + count
    a, b, y = np.array(sorted(merged)).T
    count = np.array([merged[key] for key in sorted(merged)])
    assert len(count) < len(ROWS)
    return a.astype(int), b.astype(int), y, count.astype(int)


@pytest.mark.parametrize("rows", [as_arena_rank_sees_them, as_cells])
@pytest.mark.parametrize("case", CASES)
def test_arena_rank_numbers(rows, case):
    options, ratings, variances, lower, upper = CASES[case]
    found = arena_rank(*rows(), 4)
    np.testing.assert_allclose(found[0], ratings, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found[1], variances, rtol=1e-6)
    battles = lrbtl.Battles.from_arrays(*rows()[:3], counts=rows()[3])
    board = lrbtl.leaderboard(battles, compat="arena-rank", **options)
    order = in_order(board, battles)
    np.testing.assert_allclose(board.lower[order], lower, rtol=0, atol=2e-5)
    np.testing.assert_allclose(board.upper[order], upper, rtol=0, atol=2e-5)


@pytest.mark.parametrize("rows", [as_arena_rank_sees_them, as_cells])
def test_fastchat_numbers(rows):
    plain = [1136.7168875418893, 1031.0566565155264, 943.9782812721066, 888.2481746704777]
    np.testing.assert_allclose(fastchat_ratings(*rows(), 4), plain, rtol=0, atol=1e-4)


def test_ratings_that_do_not_exist():
    a, b, y, count = as_cells()
    with pytest.raises(SeparationError, match=r"\[4\]"):
        arena_rank(np.append(a, 0), np.append(b, 4), np.append(y, 1.0), np.append(count, 3), 5)


# ------------------------------------------------------------------------------
# Boards with the arithmetic of arena-rank and FastChat, and ours beside them.
# ------------------------------------------------------------------------------

DATA = Path(os.environ.get("LRBTL_DATA", Path(__file__).parents[3] / "shared" / "data"), "lmarena_140k_dev.csv.gz")


def test_compat_arena_rank(arena):
    cells = arena.pooled().cells
    found = arena_rank(cells.a, cells.b, cells.y, cells.count, 9)
    board = lrbtl.leaderboard(arena, compat="arena-rank")
    rows = in_order(board, arena)
    np.testing.assert_allclose(board.score[rows], found[0])
    np.testing.assert_allclose(board.se[rows] ** 2, found[1])
    boards = lrbtl.leaderboard(arena, compat="arena-rank", context="all")
    assert list(boards) == [0, 1, 2, 3]
    np.testing.assert_allclose(boards["1"].score, lrbtl.leaderboard(arena, compat="arena-rank", context=1).score)


def test_compat_arena_rank_on_ties_alone_says_why_intervals_have_no_width():
    ties = lrbtl.Battles.from_arrays(["x", "y"], ["y", "z"], [0.5, 0.5], counts=[20, 3])
    board = lrbtl.leaderboard(ties, compat="arena-rank")
    assert (
        not board.se.any()
        and "every vote is a tie: all ratings are the same, and its intervals have no width" in board.info.notes[-1]
    )


def test_compat_fastchat(plain):
    board = lrbtl.leaderboard(plain, compat="fastchat", anchor=("model_1", 1114.0))
    assert board.score[board.models.index("model_1")] == pytest.approx(1114.0)
    assert np.isnan(board.lower).all() and "no intervals" in str(board)


def test_compat_names_models_without_ratings(plain):
    with pytest.raises(SeparationError, match="'champion'"):
        lrbtl.leaderboard(with_extra(plain, "champion", ["model_0"]), compat="arena-rank")


@pytest.mark.skipif(not DATA.exists(), reason="the LMArena log is not beside the project")
def test_lmarena_overall_agrees_with_plain_and_contexts_are_narrower():
    from lrbtl.data.frames import read_battles

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
    a, b, y, count = ROWS.T
    battles = lrbtl.Battles.from_arrays(a.astype(int), b.astype(int), y, counts=count.astype(int))
    _, ratings, _, lower, upper = CASES["plain"]
    board = lrbtl.leaderboard(battles, compat="arena-rank")
    rows = in_order(board, battles)
    for mine, theirs in ((board.score, ratings), (board.lower, lower), (board.upper, upper)):
        np.testing.assert_allclose(mine[rows], theirs, atol=1e-3)
    np.testing.assert_allclose(lrbtl.leaderboard(battles, compat="fastchat").score[rows], ratings, atol=1e-3)


# ------------------------------------------------------------------------------
# What these packages do not have is an error, what they have is theirs.
# ------------------------------------------------------------------------------


def test_weights_are_honoured_or_refused(arena):
    cells = arena.cells
    columns = {"model_a": cells.a, "model_b": cells.b, "outcome": cells.y, "counts": cells.count}
    weighted = lrbtl.Battles.from_arrays(**columns, weight=1.0 + cells.a)
    pairs = lrbtl.Battles.from_arrays(**columns, reweight="pairs")
    for compat in ("arena-rank", "fastchat", "fschat"):
        with pytest.raises(MethodError, match="no weights of votes"):
            lrbtl.leaderboard(weighted, compat=compat)
        with pytest.raises(MethodError, match="a method of its own: leave method='mle' out"):
            lrbtl.leaderboard(arena, compat=compat, method="mle")
    for compat in ("fastchat", "fschat"):
        with pytest.raises(MethodError, match="does not reweight"):
            lrbtl.leaderboard(pairs, compat=compat)
    assert np.abs(lrbtl.leaderboard(pairs, compat="arena-rank").score - 1000).max() > 1


REFERENCE = Path(os.environ.get("LRBTL_REFERENCE", Path(__file__).parents[3] / "shared" / "reference"))


@pytest.mark.skipif(not REFERENCE.exists(), reason="the worked cases are not beside the project")
def test_reweighted_pairs_and_fastchats_own_stop():
    case = json.loads((REFERENCE / "arena_rank_case.json").read_text())["cases"]["reweighted_min50"]["arena_rank"]
    a, b, y, count = as_arena_rank_sees_them()
    names = np.array(case["competitors"])
    battles = lrbtl.Battles.from_arrays(names[a], names[b], y, counts=count, reweight="pairs")
    board = lrbtl.leaderboard(battles, compat="arena-rank")
    rows = in_order(board, battles)
    np.testing.assert_allclose(board.score[rows], case["ratings"], atol=1e-4)
    np.testing.assert_allclose(board.lower[rows], case["rating_lower"], atol=1e-3)
    expected = json.loads((REFERENCE / "style_case.json").read_text())["fastchat_plain"]
    with (REFERENCE / "style_case.csv").open(newline="") as stream:
        log = list(csv.DictReader(stream))
    board = lrbtl.leaderboard(lrbtl.Battles.read(log), compat="fastchat")
    for model, rating in expected.items():
        assert board[model].score == pytest.approx(rating, abs=2e-5)


def test_fschats_older_function_is_a_logistic_regression_with_a_ridge():
    a, b, y, count = as_cells()
    found = fschat_ratings(a, b, y, count, 4)
    x = np.zeros((len(a), 4))
    x[np.arange(len(a)), a], x[np.arange(len(a)), b] = np.log(10.0), -np.log(10.0)
    at = (found - 1000.0) / 400.0
    p = 1 / (1 + np.exp(-x @ at))
    np.testing.assert_allclose(
        x.T @ (2 * count * (y - p)), at, atol=1e-7
    )  # where the gradient of its objective is zero
    names = np.array(["llama-13b", "x", "y", "z"])
    log = lrbtl.Battles.from_arrays(names[a], names[b], y, counts=count)
    board = lrbtl.leaderboard(log, compat="fschat")
    assert board["llama-13b"].score == pytest.approx(800.0) and "compute_elo_mle_with_tie" in board.info.notes[0]
    assert board.info.notes[1].endswith("count as half a win for both")  # the rule for ties is said here too
