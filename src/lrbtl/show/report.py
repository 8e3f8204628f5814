"""A leaderboard as one self-contained HTML file that needs no network."""

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from lrbtl.boards.board import COLUMNS, Leaderboard, Leaderboards
from lrbtl.boards.leaderboard import leaderboard
from lrbtl.data.labels import shown_context
from lrbtl.errors import ReportError
from lrbtl.show.style import axis_range
from lrbtl.tables import write_whole
from lrbtl.typing import Floats

if TYPE_CHECKING:
    from lrbtl.data.battles import Battles
    from lrbtl.data.frames import Frame

LEVELS = ("ok", "warn")
DUEL_MODELS = 200  # the file grows with the square of this number
SCALES = {
    "elo": "Scores are on the Elo scale: 400 points more mean odds of 10 to 1.",
    "logit": "Scores are log odds: one point more means odds of e to 1.",
    "probability": "Scores are probabilities to win against a ranked model drawn at random.",
}


def write_report(
    path: str | os.PathLike[str],
    boards: "Leaderboards | Battles | Frame",
    *,
    diagnostics: Iterable[tuple[str, str]] = (),
    title: str = "Leaderboard",
    method_note: str | None = None,
) -> None:
    """Write the report of `report_html` to a file, whole or not at all.

    Parameters
    ----------
    path : path-like
        Replaced if it exists; its folder must exist.
    boards : Leaderboards, Battles or data frame
        Of battles or of a frame all boards are made, by ``leaderboard(..., context="all")``.
    diagnostics, title, method_note
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
    boards = boards if isinstance(boards, Leaderboards) else leaderboard(boards, context="all")
    text = report_html(boards, diagnostics=diagnostics, title=title, method_note=method_note)
    write_whole(path, lambda scratch: scratch.write_text(text, encoding="utf-8", newline="\n"))


def report_html(
    boards: Leaderboards,
    *,
    diagnostics: Iterable[tuple[str, str]] = (),
    title: str = "Leaderboard",
    method_note: str | None = None,
) -> str:
    """HTML of a report: sortable boards, intervals, rank spreads, head-to-head picker, diagnostics, method.

    Parameters
    ----------
    boards : Leaderboards
        The overall board first, then one board per context. Head-to-head chances come from `boards.win`,
        `boards.win_lower` and `boards.win_upper`; without them the picker is left out.
    diagnostics : iterable of (level, sentence)
        Level is "ok" or "warn".
    title : str
    method_note : str, optional
        Paragraphs parted by blank lines; by default a note on how to read the scores and intervals.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((3, 2), 1, scale=1, rng=0), 900, rng=1)
    >>> boards = lrbtl.leaderboard(battles, context="all", rank=1)
    >>> page = report_html(boards, diagnostics=[("ok", "All models are connected.")], title="Spring arena")
    >>> "<h1>Spring arena</h1>" in page
    True
    """
    script = read_asset("report.js")
    data = report_data(boards, diagnostics, method_note)
    parts = {
        "TITLE": html.escape(title.encode(errors="replace").decode()),
        "STYLE": read_asset("report.css"),
        "SCRIPT": script,
        "SCRIPT_HASH": "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "DATA": safe_json(data),
    }
    return re.sub(r"\{\{([A-Z_]+)\}\}", lambda match: parts[match[1]], read_asset("template.html"))


def report_data(
    boards: Leaderboards, diagnostics: Iterable[tuple[str, str]], method_note: str | None
) -> dict[str, Any]:
    """Return what the report's script reads, as JSON values; models are codes into `models`."""
    overall, every = boards.overall, boards.every()
    code = {model: i for i, model in enumerate(overall.models)}
    note = default_note(overall) if method_note is None else method_note
    n_duels = min(len(overall), DUEL_MODELS)
    return {
        "level": overall.level,
        "scale": overall.scale,
        "summary": summarise(boards),
        "models": [str(model) for model in overall.models],
        "boards": [board_columns(board, code) for board in every],
        "duel_models": list(range(n_duels)),
        "duels": [duel for board in every for duel in duel_columns(boards, board.context, n_duels)],
        "diagnostics": [read_diagnostic(entry) for entry in diagnostics],
        "method": [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", note) if paragraph.strip()],
    }


def board_name(context: Any) -> str:
    """Name of a board in the report."""
    return "Overall" if context is None else shown_context(context)


def board_columns(board: Leaderboard, code: dict[Any, int]) -> dict[str, Any]:
    """Columns of one board, the ends of its axis, and what to know of it."""
    columns = {column.name: [short_number(x) for x in column.values(board)] for column in COLUMNS}
    return {
        **columns,
        "model": [code[model] for model in board.models],
        "context": board_name(board.context),
        "about": board.heading()[1:] if not board.weighting else [board.weighting, *board.heading()[1:]],
        "intervals": board.has_intervals,
        "axis": axis_range(board.score, board.lower, board.upper),
    }


def duel_columns(boards: Leaderboards, context: Any, n: int) -> list[dict[str, Any]]:
    """Chances that a beats b in 1/10000 (None: unknown) for all pairs a < b of the first n models; or no entry."""
    if context not in boards.win or n < 2:
        return []
    pairs = np.triu_indices(n, 1)

    def pick(matrices: Mapping[Any, Floats]) -> list[int | None]:
        return [round(10_000 * x) if np.isfinite(x) else None for x in matrices[context][pairs].tolist()]

    sides = {"win": boards.win, "lower": boards.win_lower, "upper": boards.win_upper}
    return [{"context": board_name(context), **{name: pick(matrices) for name, matrices in sides.items()}}]


def read_diagnostic(entry: tuple[str, str]) -> dict[str, str]:
    """Level and sentence by name."""
    if len(entry) != 2 or entry[0] not in LEVELS:
        raise ReportError(f"diagnostic {entry!r} is not (level, sentence) with a level of {', '.join(LEVELS)}")
    return {"level": entry[0], "text": str(entry[1])}


def summarise(boards: Leaderboards) -> str:
    """One line below the title."""
    overall = boards.overall
    preliminary = overall.status.count("preliminary")
    parts = [f"{len(overall):,} models" + (f" ({preliminary} preliminary)" if preliminary else "")]
    parts.append(f"{int(overall.battles.sum()) // 2:,} votes")
    if len(boards) > 1:
        parts.append(f"{len(boards)} categories")
    return ", ".join(parts) + f"; {overall.level:.0%} intervals"


def default_note(board: Leaderboard) -> str:
    """How to read a board, in words."""
    return f"""
        {SCALES.get(board.scale, "")} Each interval holds the model's true score with probability
        {board.level:.0%}, if votes are independent and the model of the votes is right.

        Ranks and the average are those of the ranked models. Preliminary models have too few votes for a rank, absent
        ones have no votes in the category, and unplaced ones have no score by this method.

        The rank spread lists the ranks that are compatible with the intervals of all models taken one at a time.
        The joint spread comes from intervals for all differences of scores together, so that all joint spreads
        hold at once with probability {board.level:.0%}. Models of one tier cannot be told apart from
        the tier's best model at that level.

        Win rate is the plain share of votes won, with a tie as half a win; it depends on the opponents faced. The
        overall probability that one model beats another is the weighted mean over categories.
    """


def short_number(x: Any) -> Any:
    """Return a float with six significant digits, anything else as it is."""
    return float(f"{x:.6g}") if isinstance(x, float) else x


def safe_json(data: object) -> str:
    """ASCII JSON that cannot end the script element which holds it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def read_asset(name: str) -> str:
    """Text of a file of the package."""
    return files("lrbtl.show").joinpath(name).read_text(encoding="utf-8")
