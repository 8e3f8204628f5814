"""Boards with the arithmetic of arena-rank and FastChat, and ours beside them."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import lrbtl
from board_checks import in_order, with_extra
from lrbtl.compat import arena_rank
from lrbtl.errors import LrbtlError, SeparationError

DATA = Path(os.environ.get("LRBTL_DATA", Path(__file__).parents[2] / "shared" / "data"), "lmarena_140k_dev.csv.gz")


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
