"""Times of battles as periods: days, weeks, months, quarters, years, or bins with equally many battles."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrbtl.data.encode import as_series, read_frame
from lrbtl.errors import MissingColumnError, MissingValueError, PeriodError, TooLargeError, check_whole, spelled

UNITS = {"day": "D", "week": "W", "month": "M", "quarter": "M", "year": "Y"}
MANY_VALUES = 400  # distinct times from which periods are chosen
MANY_PERIODS = 120  # that a chosen period may make
MOST_PERIODS = 5000  # of a history
FIRST_SECOND = 1e8  # numbers from here are seconds since 1970, smaller ones are years
FIRST_MILLISECOND = 1e11


def with_periods(frame: Any, time: str, period: str | int | None) -> tuple[Any, tuple[str, ...] | None]:
    """Return a frame whose time column holds periods, and all periods in order, also those in between without rows.

    Parameters
    ----------
    frame : data frame or dict of columns
    time : str
        Column of dates, times, ISO texts, years, or seconds or milliseconds since 1970.
    period : "day", "week", "month", "quarter", "year", int or None
        A number makes that many bins with equally many rows. None takes the values as they are, or those of
        `chosen_period`.

    Examples
    --------
    >>> frame = {"day": ["2024-01-30", "2024-03-01"]}
    >>> with_periods(frame, "day", "month")
    ({'day': ['2024-01', '2024-03']}, ('2024-01', '2024-02', '2024-03'))
    """
    import narwhals as nw

    if period is None:
        period = chosen_period(frame, time)
    if period is None:
        return frame, None
    table: Any = nw.from_native(frame, pass_through=True)
    if isinstance(table, nw.LazyFrame):
        table = table.collect()
        frame = table.to_native()
    column = read_frame(frame, [time])[0][time]
    labels, known = period_labels(read_times(column, time), period)
    if isinstance(frame, Mapping):
        return {**frame, time: labels}, known
    series = nw.new_series(time, labels, backend=table.implementation)
    return table.with_columns(series).to_native(), known


def chosen_period(frame: Any, time: str) -> str | None:
    """Return the shortest calendar period that makes no more than a few of a column of many times; None for few values.

    Many are more than 400 distinct values, or any number of them that hold a time of day.

    >>> chosen_period({"at": ["2024-01-30T10:15:00", "2024-03-01T00:00:00"]}, "at"), chosen_period({"at": [1, 2]}, "at")
    ('day', None)
    """
    column = read_frame(frame, [time])[0][time]
    series = as_series(column)
    try:
        n_distinct = int(series.n_unique()) if series is not None else len(set(column))
        times = read_times(column, time)
    except (TypeError, PeriodError):
        if series is not None and n_distinct > MANY_VALUES:
            raise
        return None  # names of periods
    if n_distinct <= MANY_VALUES and (times == times.astype("datetime64[D]")).all():
        return None
    return next((unit for unit in UNITS if np.ptp(_calendar(times, unit)[0]) < MANY_PERIODS), "year")


def read_times(column: Any, name: str) -> NDArray[np.datetime64]:
    """Return a column of dates, times, texts, years or seconds as times; raise where one cannot be read."""
    series = as_series(column)
    try:
        values = np.asarray(column if series is None else series.to_numpy())
    except ValueError:  # rows of unequal length
        values = np.empty((0, 0))
    if values.ndim != 1 or not values.size:
        raise PeriodError(f"{name} is not a column of times; give one date, ISO text or number per row.")
    if values.dtype.kind in "UO" and isinstance(values[0], str):  # numbers of a CSV file
        with suppress(ValueError, TypeError):
            values = values.astype(np.float64)
    if values.dtype.kind in "iuf":
        numbers = values.astype(float)
        if np.isnan(numbers).any():
            raise MissingValueError(f"{name} has {int(np.isnan(numbers).sum())} missing times; drop these rows first.")
        if numbers.size and numbers.min() < FIRST_SECOND:
            return (numbers - 1970).astype(np.int64).astype("datetime64[Y]").astype("datetime64[s]")
        seconds = numbers / 1000 if numbers.size and numbers.min() >= FIRST_MILLISECOND else numbers
        return seconds.astype(np.int64).astype("datetime64[s]")
    try:
        times = np.array([_read_time(x) for x in values.tolist()] if values.dtype.kind != "M" else values)
        times = times.astype("datetime64[s]")
    except (ValueError, TypeError) as error:
        raise PeriodError(f"{name} cannot be read as times ({error}); give dates, ISO texts or seconds.") from error
    if np.isnat(times).any():
        raise MissingValueError(f"{name} has {int(np.isnat(times).sum())} missing times; drop these rows first.")
    return np.asarray(times)


def _read_time(value: Any) -> np.datetime64:
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    if not isinstance(value, date):
        raise TypeError(f"{value!r} is not a time")
    return np.datetime64(value, "s")


def period_labels(times: NDArray[np.datetime64], period: str | int) -> tuple[list[str], tuple[str, ...]]:
    """Return the period of each time as text, and all periods from the first to the last.

    >>> times = np.array(["2023-12-31", "2024-01-01", "2024-01-08"], dtype="datetime64[s]")
    >>> period_labels(times, "week")
    (['2023-12-25', '2024-01-01', '2024-01-08'], ('2023-12-25', '2024-01-01', '2024-01-08'))
    """
    if isinstance(period, str):
        if period not in UNITS:
            raise PeriodError(f"period is {period!r}; use one of {', '.join(UNITS)}, or a number of bins.")
        codes, name = _calendar(times, period)
        if np.ptp(codes) >= MOST_PERIODS:
            raise TooLargeError(
                f"period={period!r} makes {int(np.ptp(codes)) + 1:,} periods from the first to the last; the most are "
                f"{MOST_PERIODS:,}: use longer ones."
            )
        known = np.arange(codes.min(), codes.max() + 1)
        names = [name(code) for code in known.tolist()]
        return [names[code] for code in (codes - known[0]).tolist()], tuple(names)
    check_whole(period, "period")
    if period > MOST_PERIODS:
        raise TooLargeError(f"period={spelled(period)} makes too many periods; the most are {MOST_PERIODS:,}.")
    cuts = np.unique(np.quantile(times.astype(np.int64), np.arange(1, period) / period, method="higher"))
    codes = np.searchsorted(cuts, times.astype(np.int64), side="right")
    starts = [times[codes == code].min().astype("datetime64[D]") for code in range(int(codes.max()) + 1)]
    names = [f"{k + 1:0{len(str(len(starts)))}d}: from {start}" for k, start in enumerate(starts)]
    return [names[code] for code in codes.tolist()], tuple(names)


def _calendar(times: NDArray[np.datetime64], period: str) -> tuple[NDArray[np.int64], Any]:
    """Return the number of each time's calendar period, and the function that names a number."""
    if period == "week":  # day 0 of 1970 was a Thursday
        days = times.astype("datetime64[D]").astype(np.int64)
        return (days + 3) // 7, lambda code: str(np.datetime64(7 * code - 3, "D"))
    codes = times.astype(f"datetime64[{UNITS[period]}]").astype(np.int64)
    if period == "quarter":
        return codes // 3, lambda code: f"{1970 + code // 4}-Q{code % 4 + 1}"
    return codes, lambda code: str(np.array(code).astype(f"datetime64[{UNITS[period]}]"))


def check_time(time: object, names: tuple[str, ...]) -> int:
    """Return which context mode holds the periods; by default the only one."""
    if time is None and len(names) == 1:
        return 0
    if time not in names:
        known = f"the context modes are {', '.join(map(repr, names))}" if names else "these battles have no contexts"
        raise MissingColumnError(f"time={time!r} is not a context mode: {known}; name one, or give a frame.")
    return names.index(str(time))
