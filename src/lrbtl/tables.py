"""Tables for people: the same cells as text for the terminal and as HTML for the notebook."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from importlib.util import find_spec
from math import ceil, floor, isfinite, log10
from typing import Any

import numpy as np

from lrbtl.errors import FrameBackendError
from lrbtl.typing import Floats

ELLIPSIS = "..."


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
    lines = [list(headers), *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(headers))]
    aligned = [
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        for line in lines
    ]
    return "\n".join("  ".join(line) for line in aligned)


def html_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table with every cell escaped.

    >>> html_table(["label"], [["a<b"]])
    '<table><thead><tr><th>label</th></tr></thead><tbody><tr><td>a&lt;b</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


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
    if name not in BACKENDS:
        raise FrameBackendError(f"unknown frame backend {backend!r}; choose one of {', '.join(BACKENDS)}.")
    try:
        module = import_module(name)
    except ImportError as error:
        raise FrameBackendError(
            f"{name} is not installed; install it, name another backend or use to_dict()."
        ) from error
    import narwhals as nw

    return nw.from_dict(columns, backend=module).to_native()


def _first_installed() -> str:
    for name in BACKENDS:
        if find_spec(name) is not None:
            return name
    raise FrameBackendError(
        f"none of {', '.join(BACKENDS)} is installed; install one of them, or use to_dict(), which needs none."
    )
