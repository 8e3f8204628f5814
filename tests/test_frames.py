"""Columns as the user's kind of frame."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lrbtl import frames
from lrbtl.errors import FrameBackendError
from lrbtl.frames import to_frame

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
