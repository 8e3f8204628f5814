"""The columns of a board: text, JSON, frames, files, HTML and reports are made from this one list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lrbtl.tables import decimals_for, format_intervals, format_numbers, format_percents, plain_numbers

if TYPE_CHECKING:
    from lrbtl.boards.board import Leaderboard

NOTHING = "–"


@dataclass(frozen=True)
class BoardColumn:
    """One column of a board: to add one, add an entry to COLUMNS."""

    name: str  # in JSON, frames and reports
    values: Callable[[Leaderboard], list[Any]]  # from a board to plain values for JSON, None for what is missing
    header: str | None = None  # of the printed column; None where it is not printed by itself
    show: Callable[[Leaderboard], list[str]] | None = None  # from a board to printed cells
    needs_intervals: bool = False  # whether it is left out of the print of boards without intervals
    needs_margin: bool = False  # whether it is printed only where a margin was given
    needs_floor: bool = False  # whether boards have it only where scores have a floor
    needs_votes: bool = False  # whether it is left out of the print of boards of results


def _labels(board: Leaderboard) -> list[Any]:
    return [model if isinstance(model, str | int | float) else str(model) for model in board.models]


def _numbers(name: str, board: Leaderboard) -> list[float | None]:
    column = getattr(board, name)
    return [None] * len(board) if column is None else plain_numbers(column)


def _verdicts(board: Leaderboard) -> list[str | None]:
    return [None] * len(board) if board.verdict is None else [verdict or None for verdict in board.verdict]


def _places(name: str, board: Leaderboard) -> list[int | None]:
    return [k or None for k in getattr(board, name).tolist()]


def _texts(name: str, board: Leaderboard) -> list[str]:
    return list(getattr(board, name))


def _counts(name: str, board: Leaderboard) -> list[int]:
    return [int(n) for n in getattr(board, name)]


def _decimals(board: Leaderboard) -> int:
    decimals = decimals_for(board.se, 2, 4)
    return decimals if board.scale != "elo" else int(decimals > 1 and bool(np.isfinite(board.se).any()))


def _show_score(board: Leaderboard) -> list[str]:
    return [NOTHING if number == "nan" else number for number in format_numbers(board.score, _decimals(board))]


def _show_interval(board: Leaderboard) -> list[str]:
    return [
        NOTHING if text == "unknown" else text for text in format_intervals(board.lower, board.upper, _decimals(board))
    ]


def _show_place(name: str, board: Leaderboard) -> list[str]:
    return [NOTHING if k is None else str(k) for k in _places(name, board)]


def _show_spread(low: str, high: str, board: Leaderboard) -> list[str]:
    pairs = zip(_places(low, board), _places(high, board), strict=True)
    return [NOTHING if a is None else f"{a}-{b}" for a, b in pairs]


def _show_share(name: str, board: Leaderboard) -> list[str]:
    return format_percents(getattr(board, name))


def _show_votes(board: Leaderboard) -> list[str]:
    return [f"{n:,}" for n in board.battles]


def _show_status(board: Leaderboard) -> list[str]:
    return ["" if status == "ranked" else status for status in board.status]


COLUMNS = [
    BoardColumn("model", _labels, "model", lambda board: [str(model) for model in board.models]),
    BoardColumn("rank", partial(_places, "rank"), "rank", partial(_show_place, "rank")),
    BoardColumn("score", partial(_numbers, "score"), "score", _show_score),
    BoardColumn("lower", partial(_numbers, "lower"), "interval", _show_interval, needs_intervals=True),
    BoardColumn("upper", partial(_numbers, "upper")),
    BoardColumn("se", partial(_numbers, "se")),
    BoardColumn(
        "best", partial(_places, "best"), "ranks", partial(_show_spread, "best", "worst"), needs_intervals=True
    ),
    BoardColumn("worst", partial(_places, "worst")),
    BoardColumn(
        "rank_lower",
        partial(_places, "rank_lower"),
        "joint",
        partial(_show_spread, "rank_lower", "rank_upper"),
        needs_intervals=True,
    ),
    BoardColumn("rank_upper", partial(_places, "rank_upper")),
    BoardColumn("tier", partial(_places, "tier"), "tier", partial(_show_place, "tier"), needs_intervals=True),
    BoardColumn(
        "battles",
        partial(_counts, "battles"),
        "votes",
        lambda board: [f"{n:,}" for n in board.battles],
        needs_votes=True,
    ),
    BoardColumn(
        "win_rate", partial(_numbers, "win_rate"), "win rate", partial(_show_share, "win_rate"), needs_votes=True
    ),
    BoardColumn(
        "above_floor",
        partial(_numbers, "above_floor"),
        "above floor",
        partial(_show_share, "above_floor"),
        needs_floor=True,
    ),
    BoardColumn("verdict", _verdicts, "verdict", lambda board: [x or "" for x in _verdicts(board)], needs_margin=True),
    BoardColumn("detectable", partial(_numbers, "detectable")),
    BoardColumn("status", partial(_texts, "status"), "status", _show_status),
    BoardColumn("note", partial(_texts, "notes"), "note", partial(_texts, "notes")),
]


def printed_columns(board: Leaderboard) -> list[BoardColumn]:
    """Return the columns that a board prints and a report shows."""
    return [
        column
        for column in COLUMNS
        if column.header
        and (board.has_intervals or not column.needs_intervals)
        and (board.margin or not column.needs_margin)
        and (board.floor is not None or not column.needs_floor)
        and (board.scale != "score" or not column.needs_votes)
    ]
