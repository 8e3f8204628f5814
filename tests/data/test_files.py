"""Battles from files: the same as from a frame, whatever the chunks."""

from pathlib import Path

import numpy as np
import pytest

import lrbtl
import lrbtl.data.text
from lrbtl.data.frames import Columns, find_columns, read_battles
from lrbtl.errors import MissingColumnError, MissingValueError


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
