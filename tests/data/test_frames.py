"""Frames in the place of battles: columns are guessed, and every result says so."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lrbtl
import lrbtl.data.text
from lrbtl.data.columns import Columns, find_columns
from lrbtl.data.frames import read_battles
from lrbtl.errors import InputTypeError, MissingColumnError, MissingValueError

NOTE = "guessed winner from column result, contexts from column task (Battles.read names others)"
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
    with pytest.raises(MissingColumnError, match=r"no column looks like winner.*Battles.read\(votes, winner="):
        lrbtl.leaderboard({"model_a": ["x"], "model_b": ["y"], "who": ["x"]})


# ------------------------------------------------------------------------------
# Battles from files: the same as from a frame, whatever the chunks.
# ------------------------------------------------------------------------------


def write_rows(path, rows, header="model_a,model_b,winner,category"):
    Path(path).write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")
    return path


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    models = rng.integers(0, 9, (500, 2))
    models[:, 1] += models[:, 0] == models[:, 1]
    words = rng.choice(["model_a", "model_b", "tie", "both_bad"], 500)
    return [(f"m{a}", f"m{b}", w, c) for (a, b), w, c in zip(models, words, rng.choice(["p", "q"], 500), strict=True)]


def assert_same(one, other):
    assert one.models == other.models and one.levels == other.levels and one.mode_names == other.mode_names
    for name in ("context", "a", "b", "y", "count"):
        np.testing.assert_array_equal(getattr(one.cells, name), getattr(other.cells, name))


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_chunks_do_not_matter(rows, chunk, tmp_path, monkeypatch):
    monkeypatch.setattr(lrbtl.data.text, "CHUNK_ROWS", chunk)
    found = read_battles(write_rows(tmp_path / "log.csv", rows))
    columns = dict(zip(["model_a", "model_b", "winner", "category"], map(list, zip(*rows, strict=True)), strict=True))
    assert_same(found.battles, lrbtl.Battles.from_frame(columns, contexts="category"))


def test_ties_and_both_bad_are_apart(rows, tmp_path):
    path = write_rows(tmp_path / "log.csv", rows)
    words = [row[2] for row in rows]
    dropped = read_battles(path, both_bad="drop").battles
    assert dropped.n_battles == 500 - words.count("both_bad")
    assert read_battles(path, ties="drop").battles.n_battles == words.count("model_a") + words.count("model_b")


def test_numbers_as_outcomes_and_quoted_names(tmp_path):
    path = write_rows(tmp_path / "log.csv", [('"x, y"', "z", "1"), ("z", '"x, y"', "0.25")], "model_a,model_b,winner")
    battles = read_battles(path).battles
    assert battles.models == ("x, y", "z") and battles.cells.y.tolist() == [0.75, 1.0]


def test_byte_order_mark_and_windows_lines(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbfmodel_a,model_b,winner\r\nx,y,model_a\r\n\r\ny,x,model_a\r\n")
    assert read_battles(path).battles.n_battles == 2


def test_missing_values_name_the_row_across_chunks(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(lrbtl.data.text, "CHUNK_ROWS", 8)
    rows[20] = ("m1", "", "tie", "p")
    with pytest.raises(MissingValueError, match="model_b is empty in row 21"):
        read_battles(write_rows(tmp_path / "log.csv", rows))


def test_named_columns_win_over_guesses():
    header = ["a", "b", "winner", "vote", "task", "topic"]
    found = find_columns(Columns(winner="vote", contexts=("topic", "task")), header)
    assert (found.model_a, found.winner, found.contexts) == ("a", "vote", ("topic", "task"))
    assert find_columns(Columns(contexts=()), header).contexts == ()
    with pytest.raises(MissingColumnError, match="model_a="):
        find_columns(Columns(), ["here", "there", "winner"])


def test_a_file_of_many_chunks(tmp_path):
    rng = np.random.default_rng(1)
    a = rng.integers(0, 200, 200_000)
    b = (a + rng.integers(1, 200, a.size)) % 200
    word = np.array(["model_a", "model_b"])[rng.integers(0, 2, a.size)]
    path = tmp_path / "log.csv"
    lines = [f"model-{x},model-{y},{w},c{x % 10}\n" for x, y, w in zip(a, b, word, strict=True)]
    path.write_text("model_a,model_b,winner,category\n" + "".join(lines))
    assert read_battles(path).battles.shape == (200, 10)
