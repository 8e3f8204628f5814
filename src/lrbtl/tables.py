"""Tables for people: the same cells as text, HTML, frames and files."""

import csv
import io
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib import import_module
from importlib.util import find_spec
from math import ceil, floor, isfinite, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from lrbtl.errors import FrameBackendError, OutputPathError, spelled
from lrbtl.files import write_whole
from lrbtl.typing import Floats

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

ELLIPSIS = "..."
MOST_ROWS = 100  # of a table that is printed, or shown in a notebook; frames and files have them all
# What a terminal, a page or a line of a file must not get from a label: controls, line and paragraph separators, marks
# that turn the direction of text, halves of surrogate pairs.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
FORMULA = ("=", "+", "-", "@")  # how a cell begins that a spreadsheet would compute


def shown(label: object) -> str:
    r"""Return a label as text that any place may show: what is unsafe is written as an escape.

    >>> shown("plain"), shown("\x1b[31mred"), shown(3), shown(np.datetime64("2026-01-01T00:00:00"))
    ('plain', '\\x1b[31mred', '3', '2026-01-01')
    """
    if isinstance(label, np.datetime64):
        return str(np.datetime_as_string(label, unit="auto"))
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), str(label))


def shown_lines(text: str) -> str:
    r"""Return a text of several lines with what is unsafe in each written as an escape.

    >>> shown_lines("one\n\x1b[31mtwo")
    'one\n\\x1b[31mtwo'
    """
    return "\n".join(shown(line) for line in text.split("\n"))


def decimals_for(errors: Floats, significant: int = 3, most: int = 6) -> int:
    """Return how many decimals show the median error with that many significant digits.

    >>> decimals_for(np.array([0.02, 0.03, 0.04]))
    4
    >>> decimals_for(np.array([25.0]))
    1
    """
    known = errors[np.isfinite(errors) & (errors > 0)]
    if known.size == 0:
        return significant
    return int(np.clip(significant - 1 - floor(log10(float(np.median(known)))), 0, most))


def format_numbers(values: Floats, decimals: int) -> list[str]:
    """Return numbers with a fixed number of decimals and no negative zero."""
    return [f"{value:z,.{decimals}f}" if isfinite(value) else str(value) for value in values.tolist()]


def format_intervals(lower: Floats, upper: Floats, decimals: int) -> list[str]:
    """Return intervals as text, those without an end as a bound.

    >>> format_intervals(np.array([1.0, 2.0, -np.inf, -np.inf]), np.array([3.0, np.inf, 4.0, np.inf]), 0)
    ['1 to 3', '≥ 2', '≤ 4', 'unknown']
    """
    ends = zip(format_numbers(lower, decimals), format_numbers(upper, decimals), lower, upper, strict=True)
    return [
        "unknown" if not (isfinite(x) or isfinite(y))
        else f"≥ {low}" if not isfinite(y)
        else f"≤ {high}" if not isfinite(x)
        else f"{low} to {high}"
        for low, high, x, y in ends
    ]  # fmt: skip


def format_pvalues(values: Floats, smallest: float = 0.001) -> list[str]:
    """Return p-values, the tiny ones as a bound."""
    return [f"<{smallest:g}" if value < smallest else f"{value:.3f}" for value in values.tolist()]


def format_percents(values: Floats) -> list[str]:
    """Return shares in per cent, and nothing for those that are missing.

    >>> format_percents(np.array([0.125, np.nan]))
    ['12.5%', '']
    """
    return ["" if value != value else f"{value:.1%}" for value in values.tolist()]


def plain_numbers(values: NDArray[Any]) -> list[Any]:
    """Return numbers for JSON, None for what is not finite.

    >>> plain_numbers(np.array([1.5, np.nan]))
    [1.5, None]
    """
    return [value if isfinite(value) else None for value in values.tolist()]


def shown_rows(n_rows: int, limit: int) -> tuple[list[int], list[int]]:
    """Return the first and the last rows of a long table: all of them when there are at most `limit`.

    >>> shown_rows(9, 4)
    ([0, 1], [7, 8])
    """
    if n_rows <= limit:
        return list(range(n_rows)), []
    head = ceil(limit / 2)
    return list(range(head)), list(range(n_rows - limit + head, n_rows))


def mark_gap(columns: Sequence[Sequence[str]], n_rows: int) -> list[list[str]]:
    """Return columns of the rows that `shown_rows` picked out of n_rows as rows, with ellipses where some are missing.

    >>> mark_gap([["a", "b", "y", "z"]], n_rows=26)
    [['a'], ['b'], ['...'], ['y'], ['z']]
    """
    rows = [list(row) for row in zip(*columns, strict=True)]
    if len(rows) < n_rows:
        rows.insert(ceil(len(rows) / 2), [ELLIPSIS] * len(columns))
    return rows


def text_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned text: the first column to the left, numbers to the right.

    >>> print(text_table(["label", "se"], [["x", "0.10"], ["long", "12.00"]]))
    label     se
    x       0.10
    long   12.00
    """
    lines = [[shown(cell) for cell in line] for line in (headers, *rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(headers))]
    aligned = [
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        for line in lines
    ]
    return "\n".join("  ".join(line) for line in aligned)


def html_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table with every cell escaped, whose cells do not wrap.

    >>> html_table(["label"], [["a<b"]]).partition("<thead>")[2]
    '<tr><th>label</th></tr></thead><tbody><tr><td>a&lt;b</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(shown(header))}</th>" for header in headers)
    body = "".join("<tr>" + "".join(f"<td>{escape(shown(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table style='white-space:nowrap'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


# ------------------------------------------------------------------------------
# Columns as the user's kind of frame.
# ------------------------------------------------------------------------------

BACKENDS = ("pandas", "polars", "pyarrow")


def to_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Return a pandas, polars or pyarrow frame of these columns.

    Parameters
    ----------
    columns
        Column name to values, all of one length.
    backend
        "pandas", "polars" or "pyarrow"; None takes the first of them that is installed.

    >>> to_frame({"model": ["x", "y"], "score": [1.0, -1.0]}, backend="polars").shape
    (2, 2)
    """
    name = _first_installed() if backend is None else backend
    if not isinstance(name, str) or name not in BACKENDS:
        raise FrameBackendError(f"unknown frame backend {spelled(backend)}; choose one of {', '.join(BACKENDS)}.")
    try:
        module = import_module(name)
    except ImportError as error:
        raise FrameBackendError(
            f"{name} is not installed; install it, name another backend or use to_dict()."
        ) from error
    import narwhals as nw

    return nw.from_dict(columns, backend=module).to_native()


class Framed(ABC):
    """Something with columns, which is also a frame; type checkers know of which library."""

    @abstractmethod
    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists for JSON."""

    @overload
    def to_frame(self, backend: Literal["pandas"]) -> "pd.DataFrame": ...
    @overload
    def to_frame(self, backend: Literal["polars"]) -> "pl.DataFrame": ...
    @overload
    def to_frame(self, backend: Literal["pyarrow"]) -> "pa.Table": ...
    @overload
    def to_frame(self, backend: str | None = None) -> Any: ...
    def to_frame(self, backend: str | None = None) -> Any:
        """Return `to_dict` as a frame; `backend` is "pandas", "polars" or "pyarrow", None the first installed."""
        return to_frame(self.to_dict(), backend)

    def to_pandas(self) -> "pd.DataFrame":
        """Return `to_dict` as a pandas frame."""
        return self.to_frame("pandas")

    def to_polars(self) -> "pl.DataFrame":
        """Return `to_dict` as a polars frame."""
        return self.to_frame("polars")


class TextResult:
    """A result whose text says everything: in a notebook it is shown as printed, and no line wraps.

    >>> class Answer(TextResult):
    ...     def __str__(self): return "a < b"
    >>> Answer()._repr_html_()
    "<pre style='white-space:pre;overflow-x:auto'>a &lt; b</pre>"
    """

    def _repr_html_(self) -> str:
        return f"<pre style='white-space:pre;overflow-x:auto'>{escape(str(self))}</pre>"


class Printed(Framed):
    """A table below a heading: as text, HTML and a frame."""

    indent: ClassVar[str] = ""  # of the lines of the heading after the first

    @abstractmethod
    def heading(self) -> list[str]:
        """Return what a reader must know before the table."""

    @abstractmethod
    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return names of columns and rows of printed cells."""

    def _printed(self) -> tuple[list[str], list[list[str]]]:
        """Return the table without the middle of very many rows."""
        names, rows = self._table()
        head, tail = shown_rows(len(rows), MOST_ROWS)
        return names, mark_gap([[rows[k][i] for k in (*head, *tail)] for i in range(len(names))], len(rows))

    def __repr__(self) -> str:
        first, *more = map(shown, self.heading())
        return "\n".join([first, *(self.indent + line for line in more), text_table(*self._printed())])

    def _repr_html_(self) -> str:
        heading = "<br>".join(escape(shown(line)) for line in self.heading())
        return f"<p>{heading}</p>" + html_table(*self._printed())


def _first_installed() -> str:
    for name in BACKENDS:
        if find_spec(name) is not None:
            return name
    raise FrameBackendError(
        f"none of {', '.join(BACKENDS)} is installed; install one of them, or use to_dict(), which needs none."
    )


# ------------------------------------------------------------------------------
# Files: CSV, JSON, Markdown, HTML or text by the ending.
# ------------------------------------------------------------------------------


MARKUP = re.compile(r"[\\|`*\[\]]")  # characters with a meaning in Markdown; underscores inside words have none
TABLES = (".csv", ".json", ".md", ".html", ".txt")
PICTURES = (".png", ".svg")


class Result(Protocol):
    """What can be written: a table with text and HTML forms."""

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns, None for what is missing."""

    def heading(self) -> list[str]:
        """Return what to know of the table, line by line."""

    def _repr_html_(self) -> str:
        """Return an HTML fragment."""


def check_target(path: str | Path, endings: tuple[str, ...]) -> Path:
    """Return the path; raise where its folder is missing, it is a folder itself, or its ending is not known."""
    path = Path(path)
    if path.suffix.lower() not in endings:
        raise OutputPathError(f"cannot write {path}: its ending must be one of {', '.join(endings)}.")
    if path.is_dir():
        raise OutputPathError(f"cannot write {path}: it is a folder; name a file.")
    if not path.parent.is_dir():
        raise OutputPathError(f"cannot write {path}: its folder does not exist; create {path.parent} first.")
    if not os.access(path.parent, os.W_OK):
        raise OutputPathError(f"cannot write {path}: no permission to write into {path.parent}.")
    return path


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    write_whole(path, lambda scratch: scratch.write_bytes(data))


def write_result(path: Path, result: Result, title: str) -> None:
    """Write a table in the format that the ending names."""
    makers: Mapping[str, Callable[[], str]] = {
        ".csv": lambda: csv_text(result.to_dict()),
        ".json": lambda: (
            result.to_json(title)
            if hasattr(result, "to_json")
            else json_text(result.to_dict(), title, result.heading())
        ),
        ".md": lambda: markdown_text(result.to_dict(), title),
        ".html": lambda: html_page(result._repr_html_(), title),
        ".txt": lambda: f"{result}\n",
    }
    write_bytes(path, makers[path.suffix.lower()]().encode("utf-8", "backslashreplace"))


def csv_text(columns: Mapping[str, list[Any]]) -> str:
    """Return columns as CSV; what is missing is empty, and text that a spreadsheet would compute begins with '.

    >>> print(csv_text({"model": ["x"], "score": [None]}))
    model,score
    x,
    <BLANKLINE>
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(_csv_cell, columns))
    writer.writerows(map(_csv_cell, row) for row in zip(*columns.values(), strict=True))
    return stream.getvalue()


def _csv_cell(cell: Any) -> Any:
    if cell is None or isinstance(cell, int | float):
        return cell
    text = shown(cell)
    return f"'{text}" if text.startswith(FORMULA) else text


def json_text(columns: Mapping[str, list[Any]], title: str, notes: list[str]) -> str:
    """Return columns as JSON: a title, what to know of the table, and a list of rows."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    content = {"title": title, "notes": notes, "rows": rows}
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False, default=str) + "\n"


def markdown_text(columns: Mapping[str, list[Any]], title: str) -> str:
    """Return columns as a Markdown table."""
    lines = [f"# {shown(title)}", "", _markdown_row(columns), _markdown_row(["---"] * len(columns))]
    lines += [_markdown_row([_short(x) for x in row]) for row in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Any) -> str:
    return "| " + " | ".join(MARKUP.sub(r"\\\g<0>", escape(shown(cell), quote=False)) for cell in cells) + " |"


def _short(x: Any) -> str:
    if x is None:
        return ""
    return f"{x:.5g}" if isinstance(x, float) else str(x)


def html_page(fragment: str, title: str) -> str:
    """Return a page around a fragment."""
    style = (
        "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}"
        "table{border-collapse:collapse}td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #ddd}"
        "td:first-child,th:first-child,td:last-child{text-align:left}"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style></head><body><h1>{escape(title)}</h1>{fragment}</body></html>\n"
    )
