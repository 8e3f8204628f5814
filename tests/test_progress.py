"""A bar where somebody looks, a function where not."""

import sys
from types import SimpleNamespace

import pytest

import lrbtl
from lrbtl.errors import MethodError
from lrbtl.progress import as_progress

BARS = ("tqdm.auto", "tqdm")  # in a notebook with widgets, and everywhere else


def without_tqdm(monkeypatch):
    for module in BARS:
        monkeypatch.setitem(sys.modules, module, None)


def test_a_function_is_called_as_it_is():
    said = []
    as_progress(said.append)("half done")
    assert said == ["half done"]


@pytest.mark.parametrize("nothing", [None, False])
def test_nothing_is_said_unless_asked(nothing):
    assert as_progress(nothing) is None


def test_without_tqdm_lines_go_to_standard_error(monkeypatch, capsys):
    without_tqdm(monkeypatch)
    as_progress(True)("rank 1")
    assert capsys.readouterr().err == "rank 1\n"


def test_with_tqdm_one_line_changes(monkeypatch):
    said = []

    class Bar:
        def __init__(self, **options):
            said.append(options["leave"])

        def set_description_str(self, text):
            said.append(text)

    for module in BARS:
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(tqdm=Bar))
    report = as_progress(True)
    assert said == []  # nothing is drawn before there is something to say
    report("rank 1")
    report("rank 2")
    assert said == [False, "rank 1", "rank 2"]


def test_anything_else_is_an_error():
    with pytest.raises(MethodError, match="progress=7"):
        as_progress(7)
    with pytest.raises(MethodError, match="a function that takes a line of text"):
        as_progress(test_anything_else_is_an_error)


def test_boards_take_true(arena, monkeypatch, capsys):
    without_tqdm(monkeypatch)
    lrbtl.infer(arena, [lrbtl.score(0)], method="efficient", rank=1, n_folds=2, progress=True)
    assert "fold 2 of 2" in capsys.readouterr().err
