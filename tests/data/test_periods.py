"""Times of all kinds as periods."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lrbtl.data.periods import period_labels, read_times, with_periods
from lrbtl.errors import LrbtlError, MissingColumnError, MissingValueError, PeriodError

DAY = "2024-03-05T10:00:00"
STAMP = 1709632800


@pytest.mark.parametrize(
    "column",
    [
        [DAY],
        [DAY + "+00:00"],
        ["2024-03-05T12:00:00+02:00"],
        [dt.datetime(2024, 3, 5, 10)],
        [float(STAMP)],
        [1000 * STAMP],
        np.array([DAY], dtype="datetime64[ms]"),
        pd.to_datetime(pd.Series([DAY])),
        pl.Series([dt.datetime(2024, 3, 5, 10)]),
    ],
)
def test_all_kinds_of_times_are_read(column):
    assert read_times(column, "when").tolist() == [dt.datetime(2024, 3, 5, 10)]


def test_dates_and_years_are_read():
    assert read_times([dt.date(2024, 3, 5)], "when").tolist() == [dt.datetime(2024, 3, 5)]
    assert period_labels(read_times([1990, 1992], "year"), "year")[1] == ("1990", "1991", "1992")


@pytest.mark.parametrize(
    ("period", "label"),
    [("day", "2024-03-05"), ("week", "2024-03-04"), ("month", "2024-03"), ("quarter", "2024-Q1"), ("year", "2024")],
)
def test_calendar_periods(period, label):
    assert period_labels(read_times([DAY], "when"), period)[0] == [label]


def test_bins_hold_equally_many():
    times = np.arange(1000).astype("datetime64[D]").astype("datetime64[s]")
    labels, known = period_labels(times, 4)
    assert [labels.count(name) for name in known] == [250] * 4
    assert known == tuple(sorted(known))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, dict])
def test_frames_of_all_kinds_get_their_periods(frame):
    made, known = with_periods(frame({"when": [DAY, "2024-05-01"], "x": [1, 2]}), "when", "month")
    assert known == ("2024-03", "2024-04", "2024-05")
    assert list(made["when"]) == ["2024-03", "2024-05"]


@pytest.mark.parametrize(
    ("column", "period", "error"),
    [
        (["soon"], "month", PeriodError),
        ([DAY], "age", PeriodError),
        ([DAY], 0, LrbtlError),
        ([np.nan, STAMP], "month", MissingValueError),
        (np.array(["NaT"], dtype="datetime64[s]"), "month", MissingValueError),
        ([None, DAY], "month", PeriodError),
    ],
)
def test_bad_times_have_named_errors(column, period, error):
    with pytest.raises(error):
        with_periods({"when": column}, "when", period)


def test_a_missing_column_is_named():
    with pytest.raises(MissingColumnError, match="when"):
        with_periods({"time": [DAY]}, "when", "month")
