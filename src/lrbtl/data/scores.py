"""Columns of scores as people have them: long and wide frames, numbers as text, missing cells, units in headers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lrbtl.data.encode import Coded, as_series, column_names, encode, read_frame
from lrbtl.data.labels import is_missing, some_of
from lrbtl.errors import InputTypeError, MissingColumnError, ScoreError, spelled
from lrbtl.typing import Floats, Longs

UNITS = re.compile(
    r"\s*[\[(]\s*(%|percent|per cent|pct|accuracy|acc|score|points|pts|elo|usd|\$|s|sec|ms)\s*[\])]\s*$", re.I
)
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
EMPTY = {"", "-", "–", "—", "na", "n/a", "nan", "none", "null"}
MODEL_NAMES = ("model", "model_name", "name", "system", "llm")


@dataclass(frozen=True, eq=False)
class LongScores:
    """Scores in rows: who was measured, where, and what came out.

    Attributes
    ----------
    models : Coded
    contexts : list of Coded
    mode_names : tuple of str
    scores : array (n,)
    more : dict of arrays (n,)
        Other columns of numbers, by what they are.
    units : dict
        Header and unit of the benchmarks whose headers named one.
    notes : list of str
    """

    models: Coded
    contexts: list[Coded]
    mode_names: tuple[str, ...]
    scores: Floats
    more: dict[str, Floats] = field(default_factory=dict)
    units: dict[Any, tuple[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def as_numbers(column: Any, name: str) -> Floats:
    """Return a column as numbers, NaN where it is empty; texts such as "83.1%" are numbers too.

    >>> as_numbers(["83.1%", None, "12"], "score")
    array([83.1,  nan, 12. ])
    """
    if isinstance(column, str) or not hasattr(column, "__len__"):
        raise ScoreError(f"{name} is {spelled(column)}, where a column of numbers is needed.")
    values = plain_values(column)
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values.astype(np.float64)
    out, bad = np.full(len(values), np.nan), []
    for row, value in enumerate(values):
        text = str(value).strip()
        if is_missing(value) or text.lower() in EMPTY:
            continue
        try:
            out[row] = float(_plain_number(text) if isinstance(value, str) else value)
        except (TypeError, ValueError, OverflowError):
            bad.append((row, value))
    if bad:
        shown = ", ".join(f"{value!r} in row {row}" for row, value in bad[:3])
        point = " (decimals need a point, not a comma)" if "," in str(bad[0][1]) else ""
        raise ScoreError(
            f"{name} holds {len(bad)} values that are not numbers: {shown}{point}; correct or empty them, or leave the "
            "column out."
        )
    return out


def _plain_number(text: str) -> str:
    """Return a number without a sign of per cent and commas between thousands; other commas stay, and are no number.

    >>> _plain_number("83.1 %"), _plain_number("1,250"), _plain_number("80,5")
    ('83.1', '1250', '80,5')
    """
    text = text.removesuffix("%").strip()
    return text.replace(",", "") if THOUSANDS.fullmatch(text) else text


def read_long(
    frame: Any, model: str, contexts: Sequence[str], score: str, more: Mapping[str, str | None]
) -> LongScores:
    """Return the scores of a frame with one row per score; rows without a score are left out, and said."""
    others = {what: name for what, name in more.items() if name is not None}
    numbers = [score, *others.values()]
    columns, times = read_frame(frame, [model, *contexts, *numbers], numbers, grouped=False)
    values = {name: as_numbers(columns[name], name) for name in numbers}
    coded = {name: encode(columns[name], name) for name in (model, *contexts)}
    _check_lengths({**values, **{name: column.codes for name, column in coded.items()}})
    kept = np.flatnonzero(np.isfinite(values[score]))
    if np.isinf(values[score]).any():
        raise ScoreError(
            f"{score} holds infinity in row {int(np.argmax(np.isinf(values[score])))}; correct or empty it."
        )
    lost = len(values[score]) - kept.size
    if times is not None:
        kept = np.repeat(kept, times[kept])
    notes = [f"{lost:,} rows without a score were left out"] if lost else []
    labels = [_some_rows(coded[name], kept) for name in (model, *contexts)]
    rest = {what: values[name][kept] for what, name in others.items()}
    return LongScores(labels[0], labels[1:], tuple(contexts), values[score][kept], rest, {}, notes)


def read_wide(frame: Any, model: str | None, context: str) -> LongScores:
    """Return the scores of a frame with one row per model and one column per benchmark; empty cells are missing."""
    names = column_names(frame)
    columns, times = read_frame(frame, names, names, grouped=False)
    if model is None:
        lower = {str(name).strip().lower(): name for name in names}
        model = next((lower[name] for name in MODEL_NAMES if name in lower), names[0] if names else "")
    if isinstance(model, np.ndarray):
        raise InputTypeError(f"model={spelled(model)} is not the name of a column.", argument="model", value=model)
    if model not in names:
        raise MissingColumnError(f"the frame has no column {model!r}: name that of the models with model=.")
    benchmarks = [name for name in names if name != model]
    if not benchmarks:
        raise MissingColumnError("the frame has no column of scores beside that of the models.")
    shown = [UNITS.sub("", str(name)) for name in benchmarks]
    if len(set(shown)) < len(shown):
        shown = [str(name) for name in benchmarks]
    met = [UNITS.search(str(name)) for name in benchmarks]
    units = {new: (str(old), unit[1].lower()) for new, old, unit in zip(shown, benchmarks, met, strict=True) if unit}
    found = {str(name): as_numbers(columns[name], str(name)) for name in benchmarks}
    models_of = encode(columns[model], str(model))
    _check_lengths({**found, str(model): models_of.codes})
    table = np.array(list(found.values()))
    if np.isinf(table).any():
        raise ScoreError(
            f"{benchmarks[int(np.argmax(np.isinf(table).any(axis=1)))]} holds infinity; correct or empty it."
        )
    rows = np.arange(table.shape[1]) if times is None else np.repeat(np.arange(table.shape[1]), times)
    table = table[:, rows]
    coded, u = _some_rows(models_of, rows), np.flatnonzero(np.isfinite(table))
    level, row = np.unravel_index(u, table.shape)
    stripped = [str(old) for old, new in zip(benchmarks, shown, strict=True) if str(old) != new]
    notes = [f"units were taken off the headers {some_of(stripped)}"] if stripped else []
    models = Coded(np.asarray(coded.codes)[row], coded.labels)
    return LongScores(models, [Coded(level, shown)], (context,), table[level, row], {}, units, notes)


def looks_long(names: Sequence[str], score: str = "score") -> bool:
    """Return whether a table with these columns has one row per score rather than one per model."""
    return score in {str(name).strip().lower() for name in names}


def plain_values(column: Any) -> Any:
    """Return the values of a column as a list, or as an array of numbers."""
    if isinstance(column, Coded):
        labels = np.empty(len(column.labels), dtype=object)
        labels[:] = list(column.labels)
        return list(labels[np.asarray(column.codes)])
    if isinstance(column, np.ndarray):
        return column
    series = as_series(column)
    if series is None:
        return list(column)
    return np.asarray(series.to_numpy()) if series.dtype.is_float() and not series.null_count() else series.to_list()


def _check_lengths(columns: Mapping[str, Any]) -> None:
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        first, *others = sizes
        other = next(name for name in others if sizes[name] != sizes[first])
        raise ScoreError(f"column {first!r} has {sizes[first]:,} rows, {other!r} {sizes[other]:,}: give equal lengths.")


def _some_rows(coded: Coded, rows: Longs) -> Coded:
    return Coded(np.asarray(coded.codes)[rows], coded.labels, coded.is_integer)
