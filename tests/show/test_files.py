import pytest

from lrbtl.errors import OutputPathError
from lrbtl.tables import write_whole


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

    with pytest.raises(OSError, match="disk full"):
        write_whole(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_names_what_is_wrong_with_the_path(tmp_path):
    with pytest.raises(OutputPathError, match="none does not exist; create it first"):
        write_whole(tmp_path / "none" / "board.csv", lambda scratch: None)
    with pytest.raises(OutputPathError, match="it is a folder"):
        write_whole(tmp_path, lambda scratch: None)
