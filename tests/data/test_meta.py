import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lrbtl.data.meta import is_link, read_meta
from lrbtl.errors import FileReadError, ReportError

COLUMNS = {"model": ["x", "y"], "licence": ["MIT", ""], "price": ["2.5", "10"]}
EXPECTED = {"licence": [None, None, "MIT"], "price": [10, None, 2.5]}
MODELS = ["y", "z", "x"]
CSV = "model,licence,price\nx,MIT,2.5\ny,,10\n"
ROWS = [{"model": "x", "licence": "MIT", "price": 2.5}, {"model": "y", "price": 10}]


@pytest.mark.parametrize(
    "meta",
    [
        COLUMNS,
        pd.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS),
        pl.LazyFrame(COLUMNS),
        {"x": {"licence": "MIT", "price": 2.5}, "y": {"price": 10}},
        {" Model": np.array(["x", "y"]), "licence": ("MIT", None), "price": pd.Series([2.5, 10.0])},
    ],
)
def test_kinds_of_tables_are_the_same_columns(meta):
    assert read_meta(meta, MODELS) == EXPECTED


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("meta.csv", CSV),
        ("meta.tsv", CSV.replace(",", "\t")),
        ("meta.json", json.dumps(ROWS)),
        ("meta.json", json.dumps(COLUMNS)),
        ("meta.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n\n"),
    ],
)
def test_files(tmp_path, name, text):
    (tmp_path / name).write_text("\ufeff" + text, encoding="utf-8")
    assert read_meta(tmp_path / name, MODELS) == EXPECTED
    assert read_meta(str(tmp_path / name), MODELS) == EXPECTED


def test_values_are_numbers_only_where_all_are():
    meta = {"model": [1, 2], "a": ["1", "many"], "b": [True, False], "c": ["inf", "3"], "d": [float("nan"), 2.0]}
    found = read_meta(meta, [2, 1])
    assert found == {"a": ["many", "1"], "b": ["False", "True"], "c": ["3", "inf"], "d": [2, None]}
    assert read_meta(None, [1]) == {}


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"model": ["x", "x"], "a": [1, 2]}, "names the model 'x' more than once"),
        ({"model": ["q"], "a": [1]}, "names none of the models"),
        ({"label": ["x"], "a": [1]}, "no column 'model'.*'label', 'a'"),
        ({"model": ["x"], "a": [1, 2]}, "different lengths"),
        ({"model": "x"}, "must map columns to lists"),
        (17, "meta is a int"),
    ],
)
def test_wrong_tables_are_named(meta, words):
    with pytest.raises(ReportError, match=words):
        read_meta(meta, ["x"])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("meta.json", "{", "cannot read .*save it as CSV"),
        ("meta.json", "3", "not a list of objects"),
        ("meta.jsonl", "[1]", "not a list of objects"),
        ("meta.xlsx", "x", "its ending is not"),
        ("meta.csv", b"\xff\xfe\x00", "cannot read"),
    ],
)
def test_wrong_files_are_named(tmp_path, name, text, words):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(FileReadError, match=words):
        read_meta(tmp_path / name, ["x"])
    with pytest.raises(FileReadError, match="No such file"):
        read_meta(tmp_path / "none.csv", ["x"])


def test_only_web_addresses_are_links():
    assert is_link("https://example.org/x") and is_link("http://example.org")
    assert not is_link("javascript:alert(1)") and not is_link("example.org") and not is_link(None)
