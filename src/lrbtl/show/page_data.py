"""What the page of a report reads: boards, head-to-head chances and tables as compact JSON values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import isqrt
from typing import Any

import numpy as np
from scipy.special import logit

from lrbtl.boards.board import STATUSES, Leaderboard, Leaderboards
from lrbtl.boards.columns import COLUMNS, printed_columns
from lrbtl.data.labels import shown_context
from lrbtl.data.meta import is_link, read_meta
from lrbtl.errors import ReportError, check_type, listed, spelled
from lrbtl.inference.always_valid import Validity
from lrbtl.inference.effects import EffectEstimate
from lrbtl.inference.estimate import ELO
from lrbtl.show.mix import base64_text, mix_data
from lrbtl.show.style import board_axis
from lrbtl.tables import shown
from lrbtl.typing import Bools, Floats

PAIR_BYTES = 1_000_000  # for head-to-head chances in all; beyond it, only the best models can be compared
UNITS = {"elo": ELO, "logit": 1.0}  # of a score, per unit of log odds
CENTRE_STEP = 0.001  # of log odds, to which chances that are not gaps of scores are rounded
CLOSE = 0.002  # log odds by which a gap of scores may miss a chance that it stands for
UNKNOWN, ENDLESS, LAST = 255, 254, 253  # codes of widths: no estimate, no end, largest number
NOT_SEPARATED = "with all models compared at once, the votes do not separate"
SCALES = {
    "elo": "Scores are on the Elo scale: 400 points more mean odds of 10 to 1.",
    "logit": "Scores are log odds: one point more means odds of e to 1.",
    "probability": "Scores are probabilities to win against a ranked model drawn at random.",
}


def report_data(
    boards: Leaderboards,
    *,
    meta: Any = None,
    tables: Iterable[tuple[str, Any]] = (),
    diagnostics: Iterable[tuple[str, str]] = (),
    method_note: str | None = None,
    date: str = "",
    version: str = "",
) -> dict[str, Any]:
    """Return what the report's script reads, as JSON values."""
    overall = boards.overall
    check_type(method_note, (str, type(None)), "method_note", "give a text")
    note = default_note(overall) if method_note is None else method_note
    groups = (boards, *boards.islands)
    n_boards = sum(len(group.every()) for group in groups)
    models = [model for group in groups for model in group.models]
    known = read_meta(meta, models)
    instead = "give pairs, such as [('History', history)]"
    more = [
        tuple(listed(pair, "tables", instead, ReportError)) for pair in listed(tables, "tables", instead, ReportError)
    ]
    if any(len(pair) != 2 for pair in more):
        raise ReportError(f"tables={spelled(tables)} are not pairs: {instead}.")
    said = listed(diagnostics, "diagnostics", "give pairs, such as [('ok', 'All fine.')]", ReportError)
    return {
        "level": overall.level,
        "scale": overall.scale,
        "statuses": STATUSES,
        "columns": [{"name": column.name, "header": column.header} for column in COLUMNS],
        "facts": facts(boards, date, version),
        "groups": [group_data(group, PAIR_BYTES // n_boards, more) for group in groups],
        "meta": [{"name": name, "values": values, "link": has_links(values)} for name, values in known.items()],
        "tables": [table_data(title, table) for title, table in (*effect_tables(overall), *more)],
        "diagnostics": [read_diagnostic(entry) for entry in said],
        "method": [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", note) if paragraph.strip()],
    }


def facts(boards: Leaderboards, date: str, version: str) -> list[str]:
    """Return what stands on top: date, models, votes, categories with their weights, intervals, version."""
    parts = (boards, *boards.islands)
    overall = boards.overall
    preliminary = sum(part.overall.status.count("preliminary") for part in parts)
    models, votes = sum(map(len, (p.overall for p in parts))), sum(int(p.overall.battles.sum()) // 2 for p in parts)
    words = [date, f"{models:,} models" + (f" ({preliminary} preliminary)" if preliminary else ""), f"{votes:,} votes"]
    if len(boards) > 1:
        words.append(f"{len(boards)} {overall.weighting}" if overall.weighting else f"{len(boards)} categories")
    if overall.has_intervals:
        words.append(f"{100 * overall.level:.4g}% intervals, {Validity.of(overall.info).words()}")
    return [word for word in (*words, f"lrbtl {version}" if version else "") if word]


def headline(board: Leaderboard) -> str:
    """Return who leads a board, in one sentence."""
    first = [shown(model) for model, tier in zip(board.models, board.tier, strict=True) if tier == 1]
    if not (first and board.has_intervals):
        return ""
    if len(first) == 1:
        return f"{first[0]} leads, apart from all others at {100 * board.level:.4g}%.{picked_words(board)}"
    if len(first) <= 4:
        return f"{', '.join(first[:-1])} and {first[-1]} share the first tier: {NOT_SEPARATED} them."
    return f"{first[0]} has the best score, but {NOT_SEPARATED} it from {len(first) - 1} more models of its tier."


def picked_words(board: Leaderboard) -> str:
    """Return the interval of the first model that holds although it was picked for being first; nothing if unknown."""
    if board.basis is None or board.scale != "elo":
        return ""
    best = board.first()
    return f" Its score is between {best.lower:,.0f} and {best.upper:,.0f}, also after it was picked for being first."


def group_data(boards: Leaderboards, pair_bytes: int, tables: Iterable[tuple[str, Any]] = ()) -> dict[str, Any]:
    """Return the boards of models that votes link, and their chances against each other; models are codes."""
    every = boards.every()
    code = {model: i for i, model in enumerate(boards.models)}
    return {
        "models": [shown(model) for model in boards.models],
        "headline": headline(boards.overall),
        "boards": [board_data(board, code) for board in every],
        "duels": duels_data(boards, code, pair_bytes),
        "mix": mix_data(boards, tables),
    }


def board_data(board: Leaderboard, code: Mapping[Any, int]) -> dict[str, Any]:
    """Return the columns of one board, the ends of its axis, and what to know of it."""
    columns = {column.name: [short_number(x) for x in column.values(board)] for column in COLUMNS}
    return {
        **columns,
        "model": [code[model] for model in board.models],
        "status": [STATUSES.index(status) for status in columns["status"]],
        "note": {str(i): note for i, note in enumerate(columns["note"]) if note},
        "context": board_name(board.context),
        "about": board.heading()[1:],
        "intervals": board.has_intervals,
        "printed": [column.name for column in printed_columns(board)],
        "floor": board.floor,
        "axis": board_axis(board),
    }


def board_name(context: Any) -> str:
    """Name of a board in the report."""
    return "Overall" if context is None else shown(shown_context(context))


# ------------------------------------------------------------------------------
# Head to head. On the scale of log odds a chance is a centre and a width. The centre is the gap of two scores
# where the board's chances are such gaps, and the widths need one byte per pair.
# ------------------------------------------------------------------------------


def duels_data(boards: Leaderboards, code: Mapping[Any, int], pair_bytes: int) -> dict[str, Any] | None:
    """Return the chances of all pairs on all boards, of as many of the best models as the bytes allow; or None."""
    every = boards.every()
    if any(board.context not in boards.win for board in every) or len(code) < 2:
        return None
    n = min(len(code), (1 + isqrt(1 + 8 * pair_bytes)) // 2)
    return {"n": n, "boards": [pack_chances(boards, board, code, n) for board in every]}


def pack_chances(boards: Leaderboards, board: Leaderboard, code: Mapping[Any, int], n: int) -> dict[str, Any]:
    """Return centres and widths of one board's chances, for pairs a < b of the first n models, row by row."""
    pairs = np.triu_indices(n, 1)
    with np.errstate(divide="ignore", invalid="ignore"):  # chances of 0 and 1, and models without a score
        centre, lower, upper = (
            logit(sides[board.context][pairs]) for sides in (boards.win, boards.win_lower, boards.win_upper)
        )
    found: dict[str, Any] = {}
    score = np.full(len(code), np.nan)
    score[[code[model] for model in board.models]] = [short_number(x) for x in board.score.tolist()]
    known = np.isfinite(centre)
    gap = (score[pairs[0]] - score[pairs[1]]) / UNITS.get(board.scale, np.nan)
    if not np.all(np.abs(gap - centre)[known] < CLOSE):
        steps = np.clip(np.round(np.where(known, centre, 0.0) / CENTRE_STEP), -32767, 32767)
        found |= {"centre": base64_text(steps.astype("<i2")), "step": CENTRE_STEP}
        gap = CENTRE_STEP * steps
    with np.errstate(invalid="ignore"):
        below, above = (np.where(known, side, np.nan) for side in (centre - lower, upper - centre))
    if np.allclose(below, above, rtol=1e-6, equal_nan=True):
        return found | {"below": pack_widths(below, np.abs(gap), (lower > 0) | (upper < 0), n)}
    return found | {"below": pack_widths(below, gap, lower > 0, n), "above": pack_widths(above, -gap, upper < 0, n)}


def pack_widths(width: Floats, gap: Floats, decided: Bools, n: int) -> dict[str, Any]:
    """Return widths of pairs as a size per model and one byte per pair.

    width[a, b] = hypot(size[a], size[b]) exp(low + step byte), with the byte to the nearest, or to the next one where
    the nearest would put the end of an interval, gap - width, on the wrong side of an even chance.
    """
    pairs = np.triu_indices(n, 1)
    usable = np.isfinite(width) & (width > 0)
    square = np.zeros((n, n))
    square[pairs] = np.where(usable, width, 0.0) ** 2
    square += square.T
    mean = square.sum(axis=1) / np.maximum((square > 0).sum(axis=1), 1)
    size = np.sqrt(np.maximum(mean - mean.mean() / 2, 0.05 * mean))
    size = np.where(size > 0, size, 1.0).astype("<f4")
    usual = np.hypot(*(size[side].astype(np.float64) for side in pairs))
    ratio = np.log(np.where(usable, width, usual) / usual)
    low, high = (float(ratio[usable].min()), float(ratio[usable].max())) if usable.any() else (0.0, 0.0)
    step = (high - low) / (LAST - 2) or 1e-3
    low -= step
    code = np.round((ratio - low) / step)
    edge = np.ceil((np.log(np.maximum(gap, 1e-300) / usual) - low) / step)  # first byte that reaches an even chance
    code = np.clip(
        np.where(decided, np.minimum(code, edge - 1), np.where(gap > 0, np.maximum(code, edge), code)), 0, LAST
    )
    code = np.where(np.isnan(width), UNKNOWN, np.where(np.isinf(width), ENDLESS, code))
    return {"size": base64_text(size), "low": low, "step": step, "code": base64_text(code.astype(np.uint8))}


# ------------------------------------------------------------------------------
# Tables beside the boards, diagnostics, words.
# ------------------------------------------------------------------------------


def effect_tables(board: Leaderboard) -> list[tuple[str, Any]]:
    """Return the table of what covariates do to votes, where a board holds some fixed."""
    if board.effects is None:
        return []
    words = {"in_words": board.effects.sentences(board.level)} if isinstance(board.effects, EffectEstimate) else {}
    return [("Effects", board.effects.to_dict() | words)]


def table_data(title: str, table: Any) -> dict[str, Any]:
    """Return the columns of a table: anything with `to_dict()`, or a mapping of columns."""
    columns = table if isinstance(table, Mapping) else getattr(table, "to_dict", lambda: None)()
    if not isinstance(columns, Mapping) or len({len(values) for values in columns.values()}) != 1:
        raise ReportError(f"the table {title!r} is not a mapping of columns of one length, and has no such to_dict().")
    heading = table.heading() if hasattr(table, "heading") else []
    plain = {str(name): [plain_value(x) for x in values] for name, values in columns.items()}
    return {"title": str(title), "about": heading, "columns": plain}


def plain_value(x: Any) -> Any:
    """Return a value for JSON: short numbers, texts, None for what is not finite."""
    if isinstance(x, np.generic):
        x = x.item()
    if x is None or isinstance(x, bool | int | str):
        return x
    if isinstance(x, float):
        return short_number(x) if np.isfinite(x) else None
    return str(x)


def short_number(x: Any) -> Any:
    """Return a float with six significant digits, anything else as it is."""
    return float(f"{x:.6g}") if isinstance(x, float) else x


def has_links(values: Sequence[Any]) -> bool:
    """Return whether a column holds addresses of web pages."""
    known = [value for value in values if value is not None]
    return bool(known) and all(map(is_link, known))


def read_diagnostic(entry: tuple[str, str]) -> dict[str, str]:
    """Level and sentence by name."""
    levels = ("ok", "warn")
    if not isinstance(entry, tuple | list) or len(entry) != 2 or entry[0] not in levels:
        raise ReportError(f"diagnostic {entry!r} is not (level, sentence) with a level of {', '.join(levels)}")
    return {"level": entry[0], "text": str(entry[1])}


def default_note(board: Leaderboard) -> str:
    """How a board was made and how to read it, in words."""
    made = "; ".join(shown(line) for line in board.heading()[1:])
    return f"""
        How it was made: {made}.

        {SCALES.get(board.scale, "")} Each interval holds the model's true score with probability
        {board.level:.0%}, if votes are independent and the model of the votes is right. That is for a model named
        beforehand: of one that is picked because of its score, joint intervals hold.

        Ranks and the average are those of the ranked models. Preliminary models have too few votes for a rank, absent
        ones have no votes in the category, and unplaced ones have no score by this method.

        The rank spread lists the ranks that are compatible with the intervals of all models taken one at a time.
        The joint spread comes from intervals for all differences of scores together, so that all joint spreads
        hold at once with probability {board.level:.0%}. Models of one tier cannot be separated from
        the tier's best model at that level.

        Boards and head to head may seem to disagree. A head-to-head interval is a single test of one pair, right for a
        pair that was chosen beforehand. Tiers and joint spreads test all pairs at once, so that none of them is wrong
        with probability {board.level:.0%}, which needs larger gaps. Two models can be apart head to head and share a
        tier: the pair is apart if it was the question, and not yet if it was found by looking at all pairs.

        Win rate is the plain share of votes won, with a tie as half a win; it depends on the opponents faced. The
        overall probability that one model beats another is the weighted mean over categories.
    """
