"""Files that are written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any, Protocol

from lrbtl.errors import OutputPathError


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Let `write` fill a scratch file next to `path`, then put it in place of `path`.

    If `write` fails, the scratch file is removed and `path` stays as it was.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "board.txt"
    ...     write_whole(target, lambda scratch: scratch.write_text("1. a"))
    ...     target.read_text()
    '1. a'
    """
    path = Path(path)
    if path.is_dir():
        raise OutputPathError(f"cannot write {path}: it is a folder; name a file inside it")
    if not path.parent.is_dir():
        raise OutputPathError(f"cannot write {path}: the folder {path.parent} does not exist; create it first")
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(scratch)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


# ------------------------------------------------------------------------------
# Results to files: CSV, JSON, Markdown, HTML, text or a picture by the file's ending, whole or not at all.
# ------------------------------------------------------------------------------

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
    try:
        write_whole(path, lambda scratch: scratch.write_bytes(data))
    except OSError as error:
        raise OutputPathError(f"cannot write {path}: {error.strerror or error}.") from error


def write_result(path: Path, result: Result, title: str) -> None:
    """Write a table in the format that the ending names."""
    makers: Mapping[str, Callable[[], str]] = {
        ".csv": lambda: csv_text(result.to_dict()),
        ".json": lambda: json_text(result.to_dict(), title, result.heading()),
        ".md": lambda: markdown_text(result.to_dict(), title),
        ".html": lambda: html_page(result._repr_html_(), title),
        ".txt": lambda: f"{result}\n",
    }
    write_bytes(path, makers[path.suffix.lower()]().encode())


def csv_text(columns: Mapping[str, list[Any]]) -> str:
    """Return columns as CSV; what is missing is empty.

    >>> print(csv_text({"model": ["x"], "score": [None]}))
    model,score
    x,
    <BLANKLINE>
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return stream.getvalue()


def json_text(columns: Mapping[str, list[Any]], title: str, notes: list[str]) -> str:
    """Return columns as JSON: a title, what to know of the table, and a list of rows."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    content = {"title": title, "notes": notes, "rows": rows}
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def markdown_text(columns: Mapping[str, list[Any]], title: str) -> str:
    """Return columns as a Markdown table."""
    lines = [f"# {title}", "", _markdown_row(columns), _markdown_row(["---"] * len(columns))]
    lines += [_markdown_row([_short(x) for x in row]) for row in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


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


def write_picture(path: Path, board: Any) -> None:
    """Draw a board into a PNG or SVG file."""
    from lrbtl.show.plots import plot_leaderboard, save_picture

    save_picture(plot_leaderboard(board), path)
