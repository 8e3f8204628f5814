"""Tables for people."""

import sys
from typing import assert_type

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lrbtl
from lrbtl import tables as frames
from lrbtl.errors import FrameBackendError
from lrbtl.tables import (
    decimals_for,
    format_numbers,
    format_pvalues,
    html_table,
    mark_gap,
    shown_rows,
    text_table,
    to_frame,
)


def test_decimals_follow_the_errors():
    assert [decimals_for(np.array([se])) for se in (1e-9, 0.011, 0.11, 1.1, 11.0, 1e6)] == [6, 4, 3, 2, 1, 0]
    assert decimals_for(np.array([np.nan, np.inf, 0.0])) == 3


def test_numbers_read_well():
    assert format_numbers(np.array([-0.0001, 1234.5, np.inf, np.nan]), 2) == ["0.00", "1,234.50", "inf", "nan"]
    assert format_pvalues(np.array([0.0, 0.04, np.nan])) == ["<0.001", "0.040", "nan"]


def test_long_tables_show_their_ends():
    assert shown_rows(5, 5) == ([0, 1, 2, 3, 4], [])
    assert shown_rows(6, 5) == ([0, 1, 2], [4, 5])
    assert mark_gap([["0", "1", "8"]], 9) == [["0"], ["1"], ["..."], ["8"]]
    assert mark_gap([["0", "1"]], 2) == [["0"], ["1"]]


def test_text_is_aligned_and_html_escaped():
    lines = text_table(["label", "se"], [["a", "1.0"], ["longer", "10.0"]]).split("\n")
    assert len({len(line) for line in lines}) == 1
    assert "&lt;script&gt;" in html_table(["x"], [["<script>"]])


# ------------------------------------------------------------------------------
# Columns as the user's kind of frame.
# ------------------------------------------------------------------------------

COLUMNS = {"label": ["x", "y"], "estimate": np.array([1.0, -1.0])}


@pytest.mark.parametrize(
    ("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
)
def test_backend_names_the_kind(backend, kind):
    frame = to_frame(COLUMNS, backend)
    assert isinstance(frame, kind)
    assert list(frame["label"].to_pylist() if backend == "pyarrow" else frame["label"]) == ["x", "y"]


def test_pandas_comes_first_then_the_next_installed(monkeypatch):
    assert isinstance(to_frame(COLUMNS), pd.DataFrame)
    installed = {"polars", "pyarrow"}
    monkeypatch.setattr(frames, "find_spec", lambda name: name if name in installed else None)
    assert isinstance(to_frame(COLUMNS), pl.DataFrame)
    installed.remove("polars")
    assert isinstance(to_frame(COLUMNS), pa.Table)
    installed.clear()
    with pytest.raises(FrameBackendError, match="to_dict"):
        to_frame(COLUMNS)


def test_missing_and_unknown_backends_are_named(monkeypatch):
    with pytest.raises(FrameBackendError, match="pandas, polars, pyarrow"):
        to_frame(COLUMNS, "excel")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(FrameBackendError, match="polars is not installed"):
        to_frame(COLUMNS, "polars")


def test_type_checkers_know_the_library_of_a_frame():
    battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[30, 10])
    board, est = lrbtl.leaderboard(battles), lrbtl.infer(battles, lrbtl.gap("x", "y"))
    assert isinstance(assert_type(board.to_frame("polars"), pl.DataFrame), pl.DataFrame)
    assert isinstance(assert_type(est.to_frame("polars", joint=True), pl.DataFrame), pl.DataFrame)
    assert isinstance(assert_type(lrbtl.compare(battles, "x", "y").to_polars(), pl.DataFrame), pl.DataFrame)
    assert isinstance(lrbtl.win_matrix(battles).to_pandas(), pd.DataFrame)
