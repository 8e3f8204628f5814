"""What the commands of `lrbtl` do that ask about other times: changes, history, plan, votes-needed."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from lrbtl.boards.board import Leaderboard
from lrbtl.boards.changes import changes
from lrbtl.boards.history import history
from lrbtl.boards.leaderboard import leaderboard
from lrbtl.boards.plan import plan
from lrbtl.boards.planned_errors import votes_needed
from lrbtl.cli.options import (
    analysis_options,
    columns_of,
    file_title,
    load,
    read,
    read_board,
    read_outcome_words,
    say,
    show,
    vote_fields,
)
from lrbtl.cli.results import results_of
from lrbtl.data.battles import Battles
from lrbtl.data.logs import as_path
from lrbtl.data.read import STANDARD_INPUT
from lrbtl.errors import UsageError
from lrbtl.inference.targets import gap
from lrbtl.tables import TABLES, check_target, write_result


def write_and_show(options: Namespace, result: Any, title: str) -> None:
    """Write a result where it is asked for, then print it."""
    targets = [check_target(path, TABLES) for path in options.out]
    for path in targets:
        write_result(path, result, title)
    if not options.quiet:
        show(result)
    for path in targets:
        say(f"wrote {path}")


def run_changes(options: Namespace) -> None:
    """Print what changed from one board to another: of two files of votes, or of two saved boards."""
    for path in options.out:
        check_target(path, TABLES)
    files = (options.before, options.after)
    saved = [_is_saved_board(file) for file in files]
    if all(saved):
        boards: list[Leaderboard] = [Leaderboard.from_json(as_path(file).read_text(encoding="utf-8")) for file in files]
    elif any(saved):
        raise UsageError("one is a saved board and the other is not: give two boards (.json), or two files of votes.")
    else:
        analysis, columns = analysis_options(options), columns_of(options)
        level, weights = analysis.pop("level"), analysis.pop("weights")
        boards = [leaderboard(read(options, file, columns), weights=weights, level=level, **analysis) for file in files]
    found = changes(*boards, level=options.level)
    write_and_show(options, found, f"Changes from {file_title(options.before)} to {file_title(options.after)}")


def _is_saved_board(file: str) -> bool:
    if file == STANDARD_INPUT or Path(file).suffix.lower() != ".json" or not Path(file).is_file():
        return False
    with as_path(file).open(encoding="utf-8", errors="replace") as stream:
        return '"lrbtl-board"' in stream.read(200)


def run_history(options: Namespace) -> None:
    """Print ratings over time."""
    columns = columns_of(options)
    for name in ("context", "tags", "scorer"):
        if getattr(options, name):
            raise UsageError(f"a history is of all votes together: leave --{name} out.")
    period: Any = options.period
    if period is not None and period.isdigit():
        period = int(period)
    named = {"model_a": columns.model_a, "model_b": columns.model_b, "winner": columns.winner, "count": columns.count}
    words = {"outcomes": read_outcome_words(options.outcome), "ties": options.ties, "both_bad": options.both_bad}
    given = {name: value for name, value in named.items() if value is not None}
    story = history(
        options.file,
        options.time,
        period=period,
        min_battles=options.min_battles,
        level=options.level,
        **given,
        **words,
        **vote_fields(options),
    )
    write_and_show(options, story, f"History of {file_title(options.file)}")


def run_plan(options: Namespace) -> None:
    """Print where the next votes should go, or, of results, which benchmarks to run next."""
    analysis = analysis_options(options)
    goal: Any = "gaps" if options.model is None else ("rank", options.model)
    if options.goal is not None and options.model is not None:
        raise UsageError("--goal and --model exclude each other; give one of them.")
    if options.goal not in (None, "gaps"):
        kind, _, value = options.goal.partition("=")
        if kind not in ("top", "rank") or not value:
            raise UsageError(f"--goal {options.goal}: give gaps, top=K, or rank=MODEL.")
        if kind == "top" and not value.isdigit():
            raise UsageError(f"--goal {options.goal}: K is a whole number.")
        goal = (kind, int(value) if kind == "top" else value)
    cost = dict(map(read_cost, options.cost))
    data: Any = results_of(options.file) or load(options)
    context = read_board(options.category, data)
    found = plan(data, options.n, goal=goal, context=context, cost=cost, **analysis)
    kind = "votes" if isinstance(data, Battles) else "runs"
    write_and_show(options, found, f"Plan of {kind} for {file_title(options.file)}")


def read_cost(text: str) -> tuple[str, float]:
    """Return a label and what a vote or a run costs there."""
    label, equals, number = text.rpartition("=")
    try:
        return label, float(number if equals else "x")
    except ValueError as error:
        raise UsageError(f"--cost {text}: give LABEL=NUMBER.") from error


def run_votes_needed(options: Namespace) -> None:
    """Print how many more votes a gap needs."""
    analysis = analysis_options(options)
    weights = analysis.pop("weights")
    battles = load(options)
    context = read_board(options.category, battles)
    power = 0.8 if options.half_width is None and options.power is None else options.power
    found = votes_needed(
        battles,
        gap(options.a, options.b, context, weights=weights),
        half_width=options.half_width,
        power=power,
        margin=options.margin,
        gap=options.gap,
        **analysis,
    )
    show(json.dumps(found.to_dict(), allow_nan=False, ensure_ascii=False) if options.json else found)
