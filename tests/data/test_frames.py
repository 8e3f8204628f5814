"""Frames in the place of battles: columns are guessed, and every result says so."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lrbtl
from lrbtl.errors import InputTypeError, MissingColumnError

NOTE = "guessed winner from column result, contexts from column task (Battles.from_frame names others)"
BATTLES = lrbtl.simulate_battles(lrbtl.simulate_scores((4, 2), 1, scale=1, rng=0), 1200, rng=1)


def as_log():
    """The battles as columns under other names, with the name of the winner."""
    cells, names = BATTLES.cells, np.array(BATTLES.models)
    winner = np.where(cells.y == 1, names[cells.a], names[cells.b])
    task = np.array(["code", "math"])[cells.context]
    columns = {"model_a": names[cells.a], "model_b": names[cells.b], "result": winner, "task": task}
    return {**{name: column.tolist() for name, column in columns.items()}, "count": cells.count.tolist()}


KINDS = {
    "dict": dict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "arrow": pa.table,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_gives_the_same_board(kind):
    board = lrbtl.leaderboard(KINDS[kind](as_log()), rank=1)
    expected = lrbtl.leaderboard(BATTLES, rank=1)
    assert board.models == expected.models
    np.testing.assert_allclose(board.score, expected.score)
    np.testing.assert_allclose(board.lower, expected.lower)
    assert board.info.notes[0] == NOTE and NOTE in board.summary() and NOTE not in expected.summary()


def test_every_call_takes_a_frame_and_says_what_was_guessed(tmp_path):
    log, target = as_log(), lrbtl.gap("model_0", "model_1", "math")
    found = lrbtl.infer(log, target, rank=1)
    assert found.estimate == lrbtl.analyse(log, rank=1).estimate(target).estimate
    assert NOTE in found.summary()
    for result in (
        lrbtl.compare(log, "model_0", "model_1", rank=1),
        lrbtl.win_matrix(log, rank=1),
        lrbtl.diagnose(log),
        lrbtl.select_rank(log, [1]),
        lrbtl.leaderboard(log, context="all", rank=1),
        lrbtl.leaderboard(log, compat="fastchat"),
    ):
        assert NOTE in str(result)
    assert lrbtl.fit(log, 1).battles.notes == (NOTE,)
    lrbtl.write_report(tmp_path / "report.html", log)
    assert NOTE in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_frame_with_plain_names_needs_no_note():
    log = {"model_a": ["x"] * 4, "model_b": ["y"] * 4, "winner": ["x", "x", "x", "y"]}
    assert lrbtl.analyse(log).battles.notes == ()


def test_notes_of_battles_that_are_added():
    battles = lrbtl.fit(as_log(), 1).battles
    assert (battles + battles).notes == (NOTE,)


def test_what_is_no_frame_is_refused():
    with pytest.raises(InputTypeError, match="cannot read battles from a list"):
        lrbtl.leaderboard([1, 2])
    with pytest.raises(MissingColumnError, match=r"no column looks like winner.*Battles.from_frame\(frame, winner="):
        lrbtl.leaderboard({"model_a": ["x"], "model_b": ["y"], "who": ["x"]})
