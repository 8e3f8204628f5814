import os
import stat
from pathlib import Path

import pytest

from lrbtl.errors import OutputPathError
from lrbtl.tables import csv_text, html_table, markdown_text, shown, text_table, write_whole


def test_replaces_the_file(tmp_path):
    path = tmp_path / "board.csv"
    for text in ("old", "new"):
        write_whole(path, lambda scratch, text=text: scratch.write_text(text))
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "board.csv"
    path.write_text("old")

    def fail(scratch):
        scratch.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OutputPathError, match="disk full"):
        write_whole(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_names_what_is_wrong_with_the_path(tmp_path):
    with pytest.raises(OutputPathError, match="none does not exist; create it first"):
        write_whole(tmp_path / "none" / "board.csv", lambda scratch: None)
    with pytest.raises(OutputPathError, match="it is a folder"):
        write_whole(tmp_path, lambda scratch: None)


def test_a_link_stays_a_link_and_permissions_stay(tmp_path):
    target, link = tmp_path / "real.csv", tmp_path / "board.csv"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    write_whole(link, lambda scratch: scratch.write_text("new"))
    assert link.is_symlink() and target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_device_is_written_to(tmp_path):
    null = Path(os.devnull)
    write_whole(null, lambda scratch: scratch.write_text("gone"))
    assert null.is_char_device()


def test_what_a_spreadsheet_would_compute_is_text():
    text = csv_text({"model": ["=1+1", "-x", "@cf/x", "plain"], "score": [-1.5, None, 2, 3.0]})
    assert text.splitlines()[1:] == ["'=1+1,-1.5", "'-x,", "'@cf/x,2", "plain,3.0"]


def test_markup_in_labels_is_inert():
    text = markdown_text({"model": ["[x](y)|<b>`", "a_b"]}, "T")
    assert text.splitlines()[-2:] == [r"| \[x\](y)\|&lt;b&gt;\` |", "| a_b |"]


def test_labels_are_safe_to_show():
    assert shown("a\x1b[31m\u2028\u202e\ud800b") == r"a\x1b[31m\u2028\u202e\ud800b"
    assert "\x1b" not in text_table(["model"], [["\x1b[31m"]]) + html_table(["model"], [["\x1b[31m"]])
