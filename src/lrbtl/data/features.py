"""What is known of models before they are measured: numbers, dates and families, as columns of a design."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrbtl.data.encode import column_names, encode_sets, read_frame
from lrbtl.data.labels import is_missing, some_of
from lrbtl.data.scores import as_numbers, plain_values
from lrbtl.errors import InputTypeError, MissingColumnError, ScoreError
from lrbtl.typing import Floats, Longs

DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")


@dataclass(frozen=True, eq=False)
class Features:
    """A design of models: one column per number, and one per level of a text.

    Attributes
    ----------
    names : tuple of str
        Of the p columns: "size", "family=llama".
    values : array (d1, p)
        Numbers are standardised, 0 where they are missing; levels are 0 or 1.
    group : array (p,)
        Which columns belong to the same feature, and share a variance.
    scale : array (p,)
        Standard deviation of numbers; 1 for levels.
    notes : tuple of str
    """

    names: tuple[str, ...]
    values: Floats
    group: Longs
    scale: Floats
    notes: tuple[str, ...] = ()


def read_features(frame: Any, models: Sequence[Any], model: str = "model") -> Features:
    """Return the features of models, one row of the frame each.

    Numbers are standardised, dates count days, and texts such as families have an effect of each level.

    >>> found = read_features({"model": ["x", "y"], "size": [7.0, 70.0], "family": ["a", "b"]}, ["x", "y"])
    >>> found.names, found.values.tolist()
    (('size', 'family=a', 'family=b'), [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    """
    try:
        header = column_names(frame)
    except InputTypeError:
        kind = type(frame).__name__
        raise InputTypeError(
            f"features are a {kind}: give a data frame or a dict of columns, a row per model."
        ) from None
    if model not in header:
        raise MissingColumnError(f"features have no column {model!r} that names the models.")
    wanted = [name for name in header if name != model]
    if not wanted:
        raise MissingColumnError("features have no column beside that of the models.")
    columns, _ = read_frame(frame, header, header, grouped=False)
    who = encode_sets(list(plain_values(columns[model])), model)
    place: dict[Any, int] = {}
    for row, code in enumerate(who.codes):
        if place.setdefault(who.labels[code], row) != row:
            raise ScoreError(f"features list {who.labels[code]!r} more than once; give one row per model.")
    rows = [place.get(name, -1) for name in models]
    absent = [name for name, row in zip(models, rows, strict=True) if row < 0]
    if len(absent) == len(rows):
        raise ScoreError(
            f"features have no row for any of the {len(rows)} models ({some_of(absent)}): column {model!r} must hold "
            "their names."
        )
    notes = [f"{len(absent)} models have no features: {some_of(absent)}"] if absent else []
    names: list[str] = []
    parts, group, scale = [], [], []
    for k, name in enumerate(wanted):
        values = list(plain_values(columns[name]))
        here = [values[row] if row >= 0 else None for row in rows]
        found, labels, size = _design(here, name)
        names += labels
        parts.append(found)
        group += [k] * len(labels)
        scale += [size] * len(labels)
    return Features(tuple(names), np.concatenate(parts, axis=1), np.array(group), np.array(scale), tuple(notes))


def _design(values: list[Any], name: str) -> tuple[Floats, list[str], float]:
    """Return the columns of one feature, their names, and the unit of a number."""
    numbers = _as_days(values)
    if numbers is None:
        try:
            numbers = as_numbers(values, name)
        except ScoreError:
            numbers = None
    if numbers is not None:
        known = np.isfinite(numbers)
        if known.sum() < 2 or np.ptp(numbers[known]) == 0:
            return np.zeros((len(values), 1)), [name], 1.0
        spread = float(numbers[known].std())
        return np.where(known, (numbers - numbers[known].mean()) / spread, 0.0)[:, None], [name], spread
    levels = sorted({str(value) for value in values if not is_missing(value)})
    table = np.array([[float(not is_missing(value) and str(value) == level) for level in levels] for value in values])
    return table, [f"{name}={level}" for level in levels], 1.0


def _as_days(values: list[Any]) -> Floats | None:
    """Return dates as numbers of days, None where they are no dates."""
    texts = [None if is_missing(value) else str(value)[:10] for value in values]
    given = [text for text in texts if text is not None]
    if not any("-" in text[1:] for text in given) or not all(DATE.fullmatch(text) for text in given):
        return None
    try:
        days = [np.nan if text is None else float(np.datetime64(text, "D").astype(np.int64)) for text in texts]
    except ValueError:
        return None
    return np.array(days)
