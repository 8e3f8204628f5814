"""What a user knows of the models (organisation, licence, price, link), joined to boards by the model's name."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from lrbtl.data.labels import suggest_labels
from lrbtl.errors import FileReadError, LrbtlError, ReportError

NAMES = ("model", "model_name", "name")  # columns that may name the model, in this order
ENDINGS = {".csv": ",", ".txt": ",", ".tsv": "\t"}
LINKS = ("http://", "https://")


def read_meta(
    meta: Any, models: Sequence[Any], name: str = "meta", error: type[LrbtlError] = ReportError
) -> dict[str, list[Any]]:
    """Return columns with one plain value per model, None where nothing is known.

    Parameters
    ----------
    meta : mapping, frame, path or None
        Columns by name, one of them `model`; or a mapping from model to a mapping of its values; or a frame of any
        kind; or the path of a CSV, TSV, JSON or JSON lines file.
    models : sequence of labels
    name, error
        What errors call the table, and their kind.

    Examples
    --------
    >>> read_meta({"model": ["x", "y"], "licence": ["MIT", ""], "price": ["2.5", "10"]}, ["y", "z", "x"])
    {'licence': [None, None, 'MIT'], 'price': [10, None, 2.5]}
    >>> read_meta({"x": {"licence": "MIT"}}, ["x", "y"])
    {'licence': ['MIT', None]}
    """
    if meta is None:
        return {}
    try:
        columns = _columns(meta)
        names = _model_names(columns)
    except _NoTable as problem:
        raise error(f"{name} {problem}") from problem.__cause__
    place = {model: i for i, model in enumerate(names)}
    if len(place) < len(names):
        twice = next(model for i, model in enumerate(names) if place[model] != i)
        raise error(f"{name} names the model {twice!r} more than once; keep one row for each model.")
    at = [place.get(str(model)) for model in models]
    if at and all(i is None for i in at):
        raise error(f"{name} names none of the models: {suggest_labels(str(models[0]), names)}")
    plain = {column: _plain(values) for column, values in columns.items()}
    return {column: [None if i is None else values[i] for i in at] for column, values in plain.items()}


class _NoTable(ValueError):
    """What is wrong with a table, to be said after its name."""


def is_link(value: Any) -> bool:
    """Return whether a value is the address of a web page, the only kind that a report links to."""
    return isinstance(value, str) and value.startswith(LINKS)


def _columns(meta: Any) -> dict[str, Sequence[Any]]:
    """Return the columns of whatever was given."""
    if isinstance(meta, str | os.PathLike):
        meta = _read_file(Path(meta))
    if isinstance(meta, Mapping):
        if meta and all(isinstance(row, Mapping) for row in meta.values()):
            return _from_rows([{"model": model, **row} for model, row in meta.items()])
        columns = {str(name): values for name, values in meta.items()}
        if any(isinstance(values, str) or not hasattr(values, "__len__") for values in columns.values()):
            raise _NoTable("must map columns to lists, one of them 'model', or models to their values.")
    else:
        columns = _from_frame(meta)
    if len({len(values) for values in columns.values()}) > 1:
        raise _NoTable("has columns of different lengths; give one value for each model.")
    return {name: list(values) for name, values in columns.items()}


def _from_frame(frame: Any) -> dict[str, Any]:
    import narwhals as nw

    try:
        found = nw.from_native(frame)
    except TypeError as error:
        raise _NoTable(
            f"is a {type(frame).__name__}; give a frame, a mapping of columns, or the path of a CSV or JSON file."
        ) from error
    whole = found.collect() if isinstance(found, nw.LazyFrame) else found
    return {name: whole[name].to_list() for name in whole.columns}


def _from_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _read_file(path: Path) -> dict[str, Sequence[Any]]:
    """Return the columns of a file by its ending."""
    kind = path.suffix.lower()
    try:
        text = path.read_text(encoding="utf-8-sig")
        if kind in ENDINGS:
            return _from_rows(
                list(csv.DictReader(io.StringIO(text, newline=""), delimiter=ENDINGS[kind], restkey="(more)"))
            )
        if kind in (".jsonl", ".ndjson"):
            return _from_objects([json.loads(line) for line in text.splitlines() if line.strip()])
        if kind == ".json":
            found = json.loads(text)
            return _columns(found) if isinstance(found, Mapping) else _from_objects(found)
    except OSError as error:
        raise FileReadError(f"cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError, csv.Error) as error:
        raise FileReadError(f"cannot read {path}: {error}; save it as CSV in UTF-8.") from error
    raise FileReadError(f"cannot read {path}: its ending is not .csv, .tsv, .json or .jsonl; export it as CSV.")


def _from_objects(rows: Any) -> dict[str, Sequence[Any]]:
    if not (isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows)):
        raise ValueError("it is not a list of objects with one object for each model")
    return _from_rows(rows)


def _model_names(columns: dict[str, Sequence[Any]]) -> list[str]:
    """Take the column that names the models out of all columns."""
    found = {name.strip().lower(): name for name in reversed(columns)}
    for name in NAMES:
        if name in found:
            return [str(model) for model in columns.pop(found[name])]
    shown = ", ".join(map(repr, columns)) or "none"
    raise _NoTable(f"has no column 'model' that names the models (columns: {shown}); add one.")


def _plain(values: Sequence[Any]) -> list[Any]:
    """Return values for JSON: all as numbers where they are numbers, also written as text; None for what is missing."""
    known = [None if value is None or value != value or str(value).strip() == "" else value for value in values]
    numbers = [_number(value) for value in known]
    if all(number is not None for number, value in zip(numbers, known, strict=True) if value is not None):
        return numbers
    return [None if value is None else str(value) for value in known]


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    if not isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
