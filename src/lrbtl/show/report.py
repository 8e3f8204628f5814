"""A leaderboard as one self-contained HTML file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Iterable
from datetime import date as Day
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from lrbtl.boards.board import Leaderboard, Leaderboards
from lrbtl.boards.leaderboard import leaderboard
from lrbtl.data.battle_summary import battle_warnings
from lrbtl.data.battles import Battles
from lrbtl.data.frames import Frame, as_battles
from lrbtl.errors import ReportError, check_type
from lrbtl.files import write_whole
from lrbtl.inference.diagnose import diagnose
from lrbtl.methods.base import strict_question
from lrbtl.show.page_data import report_data
from lrbtl.show.style import shown_date

SCRIPTS = [
    f"page_{part}.js" for part in ("base", "table", "chart", "board", "matrix", "duel", "mix", "main")
]  # in one scope


@strict_question
def write_report(
    path: str | os.PathLike[str],
    boards: Leaderboards | Leaderboard | Battles | Frame,
    *,
    title: str = "Leaderboard",
    meta: Any = None,
    battles: Battles | None = None,
    tables: Iterable[tuple[str, Any]] = (),
    diagnostics: Iterable[tuple[str, str]] | None = None,
    method_note: str | None = None,
    date: Day | str | None = None,
) -> None:
    """Write the report of `report_html` to a file, whole or not at all.

    Parameters
    ----------
    path : path-like
        Replaced if it exists; its folder must exist.
    boards, title, meta, battles, tables, diagnostics, method_note, date
        See `report_html`.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((3, 2), 1, scale=1, rng=0), 900, rng=1)
    >>> boards = lrbtl.leaderboard(battles, context="all", rank=1)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(f"{folder}/report.html", boards, title="Spring arena")
    ...     os.listdir(folder)
    ['report.html']
    """
    if not isinstance(path, str | os.PathLike):
        raise ReportError(f"the path comes first, not {type(path).__name__}: call write_report('report.html', boards).")
    text = report_html(
        boards, title=title, meta=meta, battles=battles, tables=tables, diagnostics=diagnostics,
        method_note=method_note, date=date,
    )  # fmt: skip
    write_whole(path, lambda scratch: scratch.write_text(text, encoding="utf-8", newline="\n"))


@strict_question
def report_html(
    boards: Leaderboards | Leaderboard | Battles | Frame,
    *,
    title: str = "Leaderboard",
    meta: Any = None,
    battles: Battles | None = None,
    tables: Iterable[tuple[str, Any]] = (),
    diagnostics: Iterable[tuple[str, str]] | None = None,
    method_note: str | None = None,
    date: Day | str | None = None,
) -> str:
    """HTML of a report: overview, sortable boards, heat map, win matrix, head to head, diagnostics, method.

    Parameters
    ----------
    boards : Leaderboards, Leaderboard, Battles or data frame
        With the boards of `leaderboard(battles, context="all")` the report has an overview of all categories and
        head-to-head chances; one board alone has neither. Of battles or of a frame all these boards are made.
    title : str
    meta : mapping, frame or path, optional
        More columns of the models (organisation, licence, price, link), joined by the column `model`: columns by
        name, a frame of any kind, a mapping from model to a mapping of its values, or the path of a CSV or JSON file.
        Columns of text become filters; a column of web addresses makes the models' names links.
    battles : Battles, optional
        Those behind the boards: the report then shows what they can and cannot say.
    tables : iterable of (title, table), optional
        Further tabs: anything with a method `to_dict` that returns columns, or a mapping of columns. Where a table has
        columns `lower` and `upper`, the intervals are drawn; the history of ratings is drawn as lines. Examples are
        `("Effects", estimate)` and `("History", history(battles, time="week"))`.
    diagnostics : iterable of (level, sentence), optional
        Instead of those that `battles` give; level is "ok" or "warn".
    method_note : str, optional
        Paragraphs parted by blank lines; by default a note on how to read the scores and intervals.
    date : date or str, optional
        Shown on top; by default today.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((3, 2), 1, scale=1, rng=0), 900, rng=1)
    >>> boards = lrbtl.leaderboard(battles, context="all", rank=1)
    >>> meta = {"model": ["model_0", "model_1"], "organisation": ["Acme", "Umbrella"]}
    >>> page = report_html(boards, title="Spring arena", meta=meta, battles=battles)
    >>> "<h1>Spring arena</h1>" in page
    True
    """
    check_type(battles, (Battles, type(None)), "battles", "give the Battles behind the boards")
    if not isinstance(boards, Leaderboards | Leaderboard):
        battles = as_battles(boards)
        boards = leaderboard(battles, context="all")
    if isinstance(boards, Leaderboard):
        islands = tuple(Leaderboards(island, {}) for island in boards.islands)
        boards = Leaderboards(boards, {}, islands=islands)
    script = "\n".join(['"use strict";', "(() => {", *map(read_asset, SCRIPTS), "})();"])
    data = report_data(
        boards,
        meta=meta,
        tables=tables,
        diagnostics=report_diagnostics(boards, battles) if diagnostics is None else diagnostics,
        method_note=method_note,
        date=shown_date(date),
        version=version("lrbtl"),
    )
    parts = {
        "TITLE": html.escape(str(title).encode(errors="replace").decode()),
        "STYLE": read_asset("page.css"),
        "SCRIPT": script,
        "SCRIPT_HASH": "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "DATA": safe_json(data),
    }
    return re.sub(r"\{\{([A-Z_]+)\}\}", lambda match: parts[match[1]], read_asset("page.html"))


def report_diagnostics(boards: Leaderboards, battles: Battles | None) -> list[tuple[str, str]]:
    """Return the data section of a report: the diagnosis of the boards' analysis, or warnings on the battles."""
    if boards.analysis is not None:
        found = diagnose(boards.analysis.battles if battles is None else battles, boards.analysis)
        return [("ok" if found.is_good else "warn", f"Verdict: {found.verdict}. {found.reason}"), *found.sentences]
    return [] if battles is None else [("warn", text) for text in battle_warnings(battles)]


def safe_json(data: object) -> str:
    """ASCII JSON that cannot end the script element which holds it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def read_asset(name: str) -> str:
    """Text of a file of the page."""
    return files("lrbtl.show").joinpath(name).read_text(encoding="utf-8")
