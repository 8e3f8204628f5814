"""Columns of every kind give the same codes and labels; bad columns are named."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lrbtl
from lrbtl.data.covariates import read_counts
from lrbtl.data.encode import (
    arrow_codes,
    as_columns,
    check_codes,
    check_lengths,
    encode,
    read_frame,
    text_codes,
    used_codes,
)
from lrbtl.errors import (
    CountError,
    FileReadError,
    InputTypeError,
    LengthMismatchError,
    MissingColumnError,
    MissingValueError,
)

WORDS = ["b", "a", "c", "a", "b", "b"]
NUMBERS = [7, -3, 7, 100_000, 5, 7]

WORD_COLUMNS = {
    "list": WORDS,
    "tuple": tuple(WORDS),
    "unicode array": np.array(WORDS),
    "unicode strided": np.array(WORDS)[::-1][::-1],
    "unicode swapped": np.array(WORDS).astype(">U1"),
    "object array": np.array(WORDS, dtype=object),
    **({"numpy strings": np.array(WORDS, dtype=np.dtypes.StringDType())} if hasattr(np.dtypes, "StringDType") else {}),
    "list of numpy str": list(np.array(WORDS)),
    "pandas object": pd.Series(WORDS, dtype=object),
    "pandas str": pd.Series(WORDS, dtype="str"),
    "pandas string python": pd.Series(WORDS, dtype="string[python]"),
    "pandas string pyarrow": pd.Series(WORDS, dtype="string[pyarrow]"),
    "pandas arrow": pd.Series(WORDS, dtype=pd.ArrowDtype(pa.string())),
    "pandas category": pd.Series(pd.Categorical(WORDS, categories=["z", "c", "b", "a"])),
    "pandas Categorical": pd.Categorical(WORDS),
    "pandas Index": pd.Index(WORDS),
    "polars String": pl.Series(WORDS),
    "polars Categorical": pl.Series(WORDS, dtype=pl.Categorical),
    "polars Enum": pl.Series(WORDS, dtype=pl.Enum(["z", "c", "b", "a"])),
    "polars Object": pl.Series(WORDS, dtype=pl.Object),
    "arrow string": pa.chunked_array([WORDS[:2], WORDS[2:]]),
    "arrow dictionary": pa.chunked_array(
        [pa.array(WORDS[:2]).dictionary_encode(), pa.array(WORDS[2:]).dictionary_encode()]
    ),
    "arrow array": pa.array(WORDS),
}
NUMBER_COLUMNS = {
    "list": NUMBERS,
    "array": np.array(NUMBERS),
    "big endian": np.array(NUMBERS).astype(">i4"),
    "strided": np.repeat(NUMBERS, 2)[::2],
    "object array": np.array(NUMBERS, dtype=object),
    "pandas": pd.Series(NUMBERS),
    "pandas nullable": pd.Series(NUMBERS, dtype="Int64"),
    "pandas category": pd.Series(NUMBERS, dtype="category"),
    "polars": pl.Series(NUMBERS),
    "arrow": pa.chunked_array([NUMBERS]),
    "arrow dictionary": pa.chunked_array([pa.array(NUMBERS).dictionary_encode()]),
}


@pytest.mark.parametrize("kind", WORD_COLUMNS)
def test_words_of_every_kind(kind: str) -> None:
    coded = encode(WORD_COLUMNS[kind], "model_a")
    assert [coded.labels[code] for code in coded.codes] == WORDS
    assert {coded.labels[code] for code in used_codes(coded)} == {"a", "b", "c"}
    assert all(type(coded.labels[code]) is str for code in used_codes(coded))
    assert not coded.is_integer


@pytest.mark.parametrize("kind", NUMBER_COLUMNS)
def test_integers_of_every_kind(kind: str) -> None:
    coded = encode(NUMBER_COLUMNS[kind], "model_a")
    assert [coded.labels[code] for code in coded.codes] == NUMBERS
    assert sorted(coded.labels[code] for code in used_codes(coded)) == sorted(set(NUMBERS))
    assert all(type(coded.labels[code]) is int for code in used_codes(coded))
    assert coded.is_integer


@pytest.mark.parametrize("numbers", [[0, 2**40], [-(2**62), 2**62], [2**63 + 1, 3], [2**63, 2**63 + 5], [5, 6]])
def test_integers_of_any_range(numbers: list[int]) -> None:
    coded = encode(np.array(numbers, dtype=np.int64 if min(numbers) < 0 else np.uint64), "model_a")
    assert [coded.labels[code] for code in coded.codes] == numbers


@pytest.mark.parametrize("values", [[0.0, 0.5, 1.0], [0.1, 0.7, 0.1], [2.5, -1.0, 3.0]])
def test_floats(values: list[float]) -> None:
    for column in (values, np.array(values), np.repeat(values, 2)[::2], pd.Series(values), pl.Series(values)):
        coded = encode(column, "outcome")
        assert [coded.labels[code] for code in coded.codes] == values


def test_booleans_and_dates() -> None:
    for column in ([True, False], np.array([True, False]), pd.Series([True, False]), pl.Series([True, False])):
        coded = encode(column, "outcome")
        assert [coded.labels[code] for code in coded.codes] == [True, False]
    days = [datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)]
    for dates in (days, pl.Series(days), pa.chunked_array([days])):
        coded = encode(dates, "day")
        assert [coded.labels[code] for code in coded.codes] == days
    stamps = np.array(days, dtype="datetime64[D]")
    coded = encode(stamps, "day")
    assert [coded.labels[code] for code in coded.codes] == list(stamps)


MISSING = {
    "list None": ["a", None, "b"],
    "list nan": ["a", float("nan"), "b"],
    "object array": np.array(["a", None, "b"], dtype=object),
    "float array": np.array([1.0, np.nan, 0.3]),
    "masked": np.ma.masked_array([1, 2, 3], [False, True, False]),
    "dates": np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"),
    "pandas object": pd.Series(["a", None, "b"], dtype=object),
    "pandas NA": pd.Series(["a", pd.NA, "b"], dtype=object),
    "pandas str": pd.Series(["a", None, "b"], dtype="str"),
    "pandas string python": pd.Series(["a", None, "b"], dtype="string[python]"),
    "pandas category": pd.Series(["a", None, "b"], dtype="category"),
    "pandas nullable": pd.Series([1, None, 2], dtype="Int64"),
    "pandas float": pd.Series([1, None, 2]),
    "polars String": pl.Series(["a", None, "b"]),
    "polars Categorical": pl.Series(["a", None, "b"], dtype=pl.Categorical),
    "polars integer": pl.Series([1, None, 2]),
    "polars nan": pl.Series([1.0, float("nan"), 0.2]),
    "polars boolean": pl.Series([True, None]),
    "arrow": pa.chunked_array([["a", None, "b"]]),
    "arrow dictionary": pa.chunked_array([pa.array(["a", None, "b"]).dictionary_encode()]),
    "null inside a dictionary": pa.chunked_array([pa.DictionaryArray.from_arrays([0, 1, 0], ["a", None])]),
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_values_are_named(kind: str) -> None:
    with pytest.raises(MissingValueError, match="model_b has 1 missing value, the first in row 1"):
        encode(MISSING[kind], "model_b")


NO_COLUMNS = ["words", 3, {"a": 1}, np.zeros((2, 2)), np.zeros(2, dtype=complex), [["x"], ["y"]]]


@pytest.mark.parametrize("column", [*NO_COLUMNS, pa.array([["x"], ["y"]])])
def test_what_is_no_column_is_refused(column: object) -> None:
    with pytest.raises(InputTypeError, match="model_a"):
        encode(column, "model_a")


@pytest.mark.parametrize(
    "column",
    [
        pa.chunked_array([pa.array([2**62]).cast(pa.timestamp("us"))]),
        pl.Series([2**62]).cast(pl.Datetime("us")),
        pl.Series([2**30]).cast(pl.Date),
    ],
)
def test_dates_beyond_those_of_python_are_named(column):
    with pytest.raises(InputTypeError, match="model_a holds values that Python cannot"):
        encode(column, "model_a")


def test_counts_wider_than_numpy_holds():
    np.testing.assert_array_equal(read_counts(pl.Series([2, 3], dtype=pl.Int128), "n"), [2, 3])
    with pytest.raises(CountError, match="2\\*\\*43"):
        read_counts(pl.Series([2**100], dtype=pl.Int128), "n")


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series])
def test_counts(kind: type) -> None:
    np.testing.assert_array_equal(read_counts(kind([2, 0, 3]), "n"), [2, 0, 3])
    np.testing.assert_array_equal(read_counts(kind([2.0, 0.0]), "n"), [2, 0])
    with pytest.raises(CountError, match=r"row 1 is negative \(-1\)"):
        read_counts(kind([2, -1]), "n")
    with pytest.raises(CountError, match=r"row 0 is not a whole number \(1.5\)"):
        read_counts(kind([1.5, 1.0]), "n")
    with pytest.raises(CountError):
        read_counts(kind(["x"]), "n")
    with pytest.raises(CountError, match="2\\*\\*43"):
        read_counts(kind([2**43, 1]), "n")
    with pytest.raises(CountError):
        read_counts(kind([float("inf")]), "n")


def test_missing_counts() -> None:
    for column in ([1, None], np.array([1.0, np.nan]), pl.Series([1, None]), pd.Series([1, None], dtype="Int64")):
        with pytest.raises(MissingValueError, match="row 1"):
            read_counts(column, "n")


def test_missing_columns_suggest_near_names() -> None:
    frame = {"Model_A": ["x"], "winner": ["tie"]}
    for kind in (dict, pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table):
        with pytest.raises(MissingColumnError, match="no column 'model_a'; did you mean 'Model_A'"):
            read_frame(kind(frame), ["model_a"])
    with pytest.raises(InputTypeError, match="int"):
        read_frame(3, ["model_a"])


def test_lengths_must_agree() -> None:
    assert check_lengths({"a": [1, 2], "b": [3, 4]}) == 2
    with pytest.raises(LengthMismatchError, match="a: 2, b: 1"):
        check_lengths({"a": [1, 2], "b": [3]})


@pytest.mark.parametrize(
    ("columns", "n"),
    [
        ((), 0),
        ([], 0),
        (["x", "y"], 1),
        ([0, 1], 1),
        (np.array([0, 1]), 1),
        (pd.Series([1]), 1),
        ([[0, 1], ["x", "y"]], 2),
    ],
)
def test_one_column_may_be_given_bare(columns: object, n: int) -> None:
    assert len(as_columns(columns)) == n


# Lengths round those of words, texts that differ in one place only, and what ends others.
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", "\0", "\0\0", "é", "a" * 7, "a" * 8, "a" * 9, "a" * 16, "a" * 17, "b" + "a" * 16, "a" * 16 + "b"]
    ),
    st.builds(lambda k, c: "a" * k + c + "a" * (23 - k), st.integers(0, 23), st.sampled_from("xy")),
)
KINDS = st.sampled_from([pa.string(), pa.large_string()])


def known(column):
    """Codes and labels as Arrow finds them."""
    coded = column.dictionary_encode().combine_chunks()
    coded = coded.chunk(0) if hasattr(coded, "chunks") else coded
    return coded.indices.to_pylist(), coded.dictionary.to_pylist()


@given(st.lists(TEXTS, min_size=1, max_size=60), KINDS, st.integers(0, 9), st.integers(0, 9), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_texts_are_coded_as_by_arrow(texts, kind, skipped, left_out, size):
    array = pa.array(["left"] * skipped + texts + ["out"] * left_out, kind).slice(skipped, len(texts))
    chunked = pa.chunked_array([array.slice(lo, size) for lo in range(0, len(texts), size)] + [array[:0]])
    for column in (array, chunked):
        codes, labels = text_codes(column)
        expected_codes, expected_labels = known(chunked)
        assert codes.tolist() == expected_codes
        assert [label.decode() for label in labels] == expected_labels


@pytest.mark.parametrize("kind", [pa.binary(), pa.int32(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_other_types_are_left_to_arrow(kind):
    assert text_codes(pa.array([], kind)) is None


@pytest.mark.parametrize("n", [0, 1, 65_536, 65_537])
def test_many_distinct_texts_are_left_to_arrow(n):
    texts = [f"prompt number {k}" for k in range(n)]
    found = text_codes(pa.array(texts, pa.string()))
    assert (found is None) == (n > 65_536)
    coded = encode(pa.chunked_array([texts, texts[:5]], pa.string()), "prompt")
    assert list(coded.labels) == texts and coded.codes.tolist() == [*range(n), *range(min(n, 5))]


def test_texts_that_are_no_texts_are_named():
    buffers = [None, pa.py_buffer(np.array([0, 1, 2], dtype=np.int32)), pa.py_buffer(b"a\xff")]
    with pytest.raises(InputTypeError, match="model_a holds values that Python cannot"):
        encode(pa.chunked_array([pa.Array.from_buffers(pa.string(), 2, buffers)]), "model_a")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_missing_texts_are_an_error(kind):
    with pytest.raises(MissingValueError, match="model_a has 1 missing value, the first in row 1"):
        encode(pa.chunked_array([pa.array(["x", None, ""], kind)]), "model_a")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_battles_do_not_depend_on_the_type_of_texts(kind):
    rng = np.random.default_rng(0)
    sides = {"model_a": rng.integers(0, 4, 300), "model_b": rng.integers(4, 8, 300)}
    rows = {name: [f"model {k}" for k in codes] for name, codes in sides.items()}
    rows["winner"] = rng.choice(["model_a", "model_b", "tie"], 300).tolist()
    table = pa.table({name: pa.array(texts, kind) for name, texts in rows.items()})
    expected, found = lrbtl.Battles.from_frame(rows), lrbtl.Battles.from_frame(table)
    assert found.models == expected.models
    for name in ("context", "a", "b", "y", "count"):
        np.testing.assert_array_equal(getattr(found.cells, name), getattr(expected.cells, name))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_codes_are_checked(dtype):
    codes = np.array([0, 2, 1], dtype=dtype)
    assert check_codes(codes, 3) is codes
    for wrong in (codes, codes - dtype(1)):
        with pytest.raises(FileReadError, match="outside of its dictionary"):
            check_codes(wrong, 2 if wrong is codes else 3)


def test_codes_of_dictionaries_are_not_copied():
    array = pa.array(["x", "y", "x"]).dictionary_encode()
    codes = arrow_codes(array)
    assert codes.tolist() == [0, 1, 0] and codes.ctypes.data == array.indices.buffers()[1].address


def test_polars_texts_without_pyarrow(monkeypatch):
    expected = encode(pl.Series(WORDS), "model_a")
    monkeypatch.setattr("lrbtl.data.encode.find_spec", lambda name: None)
    found = encode(pl.Series(WORDS), "model_a")
    assert found.values(found.codes) == expected.values(expected.codes) == WORDS
