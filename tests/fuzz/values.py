"""Values that break things, and ways to bring columns of them."""

import datetime
import decimal
import random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

NASTY_LABELS: list[Any] = [
    "", " ", "a", "A", "=1+1", "+x", "-x", "@x", "a\tb", "a\nb", "a\r\nb", "a\u2028b", "a\u2029b", "a\x85b",
    "\x1b[31mred", "\x00", "a\x07", "\u202eabc", "\ud800", "<b>x</b>", "<script>alert(1)</script>", "|a|", "[x](y)",
    "`x`", "#x", "a/b", "a / b", "*", "all", "None", "nan", "NaN", "tie", "model_a", "overall", "é", "模型", "🦙", "x"
    * 300, "%s", "{x}", "'", '"', "\\", "a,b", "a;b", 0, 1, -1, 2**31, 2**63, -(2**63), 10**30, 1.5, float("nan"),
    float("inf"), True, False, None, b"bytes", ("a", 1), (), frozenset({1}), ["list"], {"a": 1}, 1j,
    datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1), decimal.Decimal("1.5"), np.nan, np.int64(3),
    np.float32(0.5), np.datetime64("NaT", "s"), pd.NA, pd.NaT, object, np.array([1, 2]),
]  # fmt: skip
NASTY_NUMBERS: list[Any] = [
    0, 1, 2, -1, 0.5, 1.5, -0.0, 1e308, 1e-308, float("nan"), float("inf"), -float("inf"), 2**31, 2**53 + 1, 2**63,
    10**30, True, False, None, "1", "x", "", 1j, decimal.Decimal("0.5"), np.float32(0.3), np.int8(1),
    np.uint64(2**63), [1], (1, 2), pd.NA, b"1",
]  # fmt: skip
WORDS: list[Any] = [
    "model_a",
    "model_b",
    "tie",
    "both_bad",
    "tie (bothbad)",
    "Tie",
    "left",
    "",
    None,
    1,
    0,
    0.5,
    2,
    "1",
    "0.5",
    True,
]


def pick_column(rng: random.Random, values: list[Any], n: int) -> list[Any]:
    """Return n values out of a few of a list."""
    few = rng.sample(values, k=min(len(values), rng.randint(1, 4)))
    return [rng.choice(few) for _ in range(n)]


def plain_labels(rng: random.Random, n: int, n_labels: int = 4) -> list[str]:
    """Return n harmless labels."""
    return [f"m{rng.randrange(n_labels)}" for _ in range(n)]


def without_missing_times(column: list[Any]) -> list[Any]:
    """Return a column for Arrow, which ends the process on NumPy's missing times beside integers (pyarrow 26)."""
    return [None if isinstance(value, np.datetime64) and np.isnat(value) else value for value in column]


def dressed(rng: random.Random, column: list[Any]) -> Any:
    """Return a column as some container; one that refuses these values is replaced by a list."""
    kind = rng.choice(["list", "tuple", "array", "object", "pandas", "polars", "arrow", "category", "masked"])
    try:
        if kind == "tuple":
            return tuple(column)
        if kind == "array":
            return np.array(column)
        if kind == "object":
            out = np.empty(len(column), dtype=object)
            out[:] = column
            return out
        if kind == "pandas":
            return pd.Series(column)
        if kind == "category":
            return pd.Series(column).astype("category")
        if kind == "polars":
            return pl.Series(without_missing_times(column), strict=False)
        if kind == "arrow":
            return pa.chunked_array([without_missing_times(column)])
        if kind == "masked":
            return np.ma.masked_array(np.arange(len(column)), mask=[rng.random() < 0.2 for _ in column])
    except Exception:  # the container's own refusal, before lrbtl sees anything
        return list(column)
    return list(column)


def as_frame(rng: random.Random, columns: dict[str, list[Any]]) -> Any:
    """Return columns as some frame; one that refuses these values is replaced by a dict."""
    kind = rng.choice(["dict", "pandas", "polars", "lazy", "arrow"])
    safe = {name: without_missing_times(column) for name, column in columns.items()}
    try:
        if kind == "pandas":
            return pd.DataFrame(columns)
        if kind == "polars":
            return pl.DataFrame(safe, strict=False)
        if kind == "lazy":
            return pl.DataFrame(safe, strict=False).lazy()
        if kind == "arrow":
            return pa.table(safe)
    except Exception:  # the frame library's own refusal
        return columns
    return columns
