"""Boards as JSON with a published schema (docs/schema/board.json), written and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from datetime import date as Day
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from lrbtl.boards.columns import COLUMNS
from lrbtl.errors import DocumentError, check_type
from lrbtl.inference.estimate import Estimate
from lrbtl.methods.base import Provenance

if TYPE_CHECKING:
    from lrbtl.boards.board import Leaderboard, Leaderboards

FORMAT, FORMAT_VERSION = "lrbtl-board", 1
PLACES = ("rank", "best", "worst", "rank_lower", "rank_upper", "tier", "battles")
NUMBERS = ("score", "lower", "upper", "se", "win_rate")


def board_document(
    every: Sequence[tuple[int, Leaderboard]], kind: str, title: str, date: datetime | Day | str | None = None
) -> dict[str, Any]:
    """Return boards, each with the number of its island from 1, as JSON values; the overall one of island 1 is first.

    `kind` is "leaderboard", or "leaderboards" for those of all contexts.
    """
    when = datetime.now(UTC) if date is None else date
    check_type(when, (str, Day), "date", "give a date, a time or a text")
    first = every[0][1]
    rows = [
        {"board": k, "context": plain_label(board.context)} | dict(zip(table, row, strict=True))
        for k, (_, board) in enumerate(every)
        for table in [{column.name: column.values(board) for column in COLUMNS}]
        for row in zip(*table.values(), strict=True)
    ]
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "lrbtl": version("lrbtl"),
        "date": when if isinstance(when, str) else _iso(when),
        "title": title,
        "digest": first.digest or None,
        "n_battles": first.info.n_battles,
        "method": first.method,
        "level": first.level,
        "scale": first.scale,
        "margin": first.margin,
        "notes": first.heading(),
        "boards": [_board_facts(island, board) for island, board in every],
        "rows": rows,
    }


def _iso(when: Day) -> str:
    return when.isoformat(timespec="seconds") if isinstance(when, datetime) else when.isoformat()


def _board_facts(island: int, board: Leaderboard) -> dict[str, Any]:
    info = {item.name: getattr(board.info, item.name) for item in fields(board.info)}
    return {
        "context": plain_label(board.context),
        "island": island,
        "weighting": board.weighting,
        "weights": board.weights,
        "gain": board.gain,
        "floor": board.floor,
        "effects": None if board.effects is None else _plain_table(board.effects.to_dict()),
        "provenance": {name: list(value) if isinstance(value, tuple) else value for name, value in info.items()},
    }


def _plain_table(table: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    return {
        name: [None if isinstance(x, float) and not np.isfinite(x) else x for x in column]
        for name, column in table.items()
    }


def plain_label(context: Any) -> Any:
    """Return a context as JSON knows it: None, a text, a number, or a list of these.

    >>> plain_label(("math", None)), plain_label(3)
    (['math', None], 3)
    """
    if isinstance(context, tuple):
        return [plain_label(level) for level in context]
    if isinstance(context, np.generic):
        context = context.item()
    return context if context is None or isinstance(context, str | int | float) else str(context)


# ------------------------------------------------------------------------------
# And back.
# ------------------------------------------------------------------------------


def read_document(text: str, board: type[Leaderboard], boards: type[Leaderboards]) -> Leaderboard | Leaderboards:
    """Return what a document holds, made by the classes given; win probabilities and fits are not in it."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise DocumentError(f"this is not JSON ({error}); give what to_json or --out board.json wrote.") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DocumentError("this JSON is not a board; give what to_json or --out board.json wrote.")
    if found.get("format_version") != FORMAT_VERSION:
        raise DocumentError(
            f"the board is of format version {found.get('format_version')}, but this lrbtl {version('lrbtl')} reads "
            f"version {FORMAT_VERSION}: read it with lrbtl {found.get('lrbtl')}."
        )
    try:
        every = [_read_board(board, found, k, facts) for k, facts in enumerate(found["boards"])]
        islands: dict[int, list[Leaderboard]] = {}
        for facts, one in zip(found["boards"], every, strict=True):
            islands.setdefault(facts["island"], []).append(one)
        if found["kind"] == "leaderboard":
            return replace(every[0], islands=tuple(every[1:]))
        parts = [boards(first, {one.context: one for one in rest}) for first, *rest in islands.values()]
        return replace(parts[0], islands=tuple(parts[1:]))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise DocumentError(f"the board is not whole ({type(error).__name__}: {error}); write it again.") from error


def _read_board(kind: type[Leaderboard], found: Mapping[str, Any], k: int, facts: Mapping[str, Any]) -> Leaderboard:
    rows = [row for row in found["rows"] if row["board"] == k]
    names = rows[0] if rows else [column.name for column in COLUMNS]  # a file may be older than a column
    columns = {name: [row[name] for row in rows] for name in names}
    floor = facts["floor"]
    verdict, detectable = columns["verdict"], columns["detectable"]
    judged = any(x is not None for x in verdict)
    made: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in facts["provenance"].items()}
    arrays: dict[str, Any] = {name: _floats(columns[name]) for name in NUMBERS}
    arrays |= {name: np.array([x or 0 for x in columns[name]], dtype=np.int64) for name in PLACES}
    return kind(
        context=_label(facts["context"]),
        models=tuple(columns["model"]),
        **arrays,
        status=tuple(columns["status"]),
        notes=tuple(columns["note"]),
        level=found["level"],
        scale=found["scale"],
        method=found["method"],
        info=Provenance(**made),
        weighting=facts["weighting"],
        effects=None if facts["effects"] is None else _read_effects(facts["effects"], Provenance(**made)),
        over_separate=facts["gain"],
        verdict=tuple(x or "" for x in verdict) if judged else None,
        detectable_gap=_floats(detectable) if judged else None,
        margin=found["margin"],
        weights=facts["weights"],
        digest=found["digest"] or "",
        floor=floor,
        above_floor=None if floor is None else _floats(columns["above_floor"]),
    )


def _read_effects(table: Mapping[str, Any], info: Provenance) -> Estimate:
    """Return the effects of covariates; their covariance is not in a document."""
    estimate, se = _floats(table["estimate"]), _floats(table["se"])
    return Estimate(table["label"], estimate, None, se=se, links="identity", info=info)


def _floats(values: Sequence[float | None]) -> Any:
    return np.array([np.nan if x is None else x for x in values], dtype=np.float64)


def _label(context: Any) -> Any:
    return tuple(_label(level) for level in context) if isinstance(context, list) else context
