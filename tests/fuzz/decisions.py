"""Small odd logs with voters, weights, style, tags and times through everything that a board is read for."""

import random
from pathlib import Path
from typing import Any

import numpy as np

import lrbtl
from fuzz.pipeline import METHODS, check_board, check_intervals

WORDS = ["model_a", "model_b", "tie", "both_bad"]


def run_case(rng: random.Random, folder: Path) -> None:
    """Ask something of a small log."""
    frame, columns = odd_frame(rng)
    options: dict[str, Any] = {"method": rng.choice([*METHODS, None]), "rng": 0}
    rng.choice(QUESTIONS)(rng, frame, columns, options)


def odd_frame(rng: random.Random) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return few votes with columns beside them, and the options of `Battles.from_frame` that name some of them."""
    d1, n = rng.choice([2, 3, 4, 6]), rng.choice([2, 4, 10, 40, 120])
    words = rng.choice([WORDS, WORDS[:2], WORDS[:3], ["model_a"], ["both_bad", "tie"], ["model_a", "both_bad"]])
    a = [rng.randrange(d1) for _ in range(n)]
    frame: dict[str, list[Any]] = {
        "model_a": [f"m{k}" for k in a],
        "model_b": [f"m{(k + rng.randrange(1, d1)) % d1}" for k in a],
        "winner": [rng.choice(words) for _ in range(n)],
        "topic": [rng.choice(["x", "y", "z"][: rng.choice([1, 2, 3])]) for _ in range(n)],
        "day": [rng.choice([1, 2, 3, 9]) for _ in range(n)],
        "voter": [rng.randrange(rng.choice([1, 3, 30])) for _ in range(n)],
        "prompt": [rng.randrange(5) for _ in range(n)],
        "importance": [rng.choice([0.0, 1.0, 1.0, 1e-6, 50.0]) for _ in range(n)],
        "tokens_a": [rng.choice([0, 1, 100, 10**6]) for _ in range(n)],
        "tokens_b": [rng.choice([0, 1, 100, 10**6]) for _ in range(n)],
        "tags": [rng.sample(["x", "y", "z"], rng.randrange(3)) for _ in range(n)],
    }
    columns: dict[str, Any] = {"both_bad": rng.choice(["tie", "tie", "drop", "outcome"])}
    if rng.random() < 0.5:
        columns |= rng.choice([{"contexts": "topic"}, {"contexts": ["topic", "day"]}, {"tags": "tags"}])
    if rng.random() < 0.3:
        columns["cluster"] = rng.choice(["voter", ["voter", "prompt"]])
    if rng.random() < 0.25:
        columns |= rng.choice([{"weight": "importance"}, {"reweight": "pairs"}])
    if rng.random() < 0.25:
        rule = rng.choice(["relative", "difference", "log"])
        columns |= rng.choice([{"position": True}, {"covariates": {"length": ("tokens_a", "tokens_b", rule)}}])
    return frame, columns


def ask_boards(rng: random.Random, frame: dict[str, Any], columns: dict[str, Any], options: dict[str, Any]) -> None:
    """Make all boards, with verdicts and effects."""
    battles = lrbtl.Battles.from_frame(frame, **columns)
    boards = lrbtl.leaderboard(battles, context="all", margin=rng.choice([None, 10, 0.05]), **options)
    for board in [boards.overall, *boards.values()]:
        check_board(board)
        if board.effects is not None:
            interval = board.effects.conf_int()
            check_intervals(board.effects.estimate, interval[:, 0], interval[:, 1], "effects")
    if rng.random() < 0.2:
        assert "<html" in lrbtl.report_html(boards)


def ask_gate(rng: random.Random, frame: dict[str, Any], columns: dict[str, Any], options: dict[str, Any]) -> None:
    """Ask whether one model may replace another, and how many votes would decide."""
    battles = lrbtl.Battles.from_frame(frame, **columns)
    if rng.random() < 0.5:
        found: Any = lrbtl.gate(battles, "m0", "m1", margin=rng.choice([None, 10, 0.02]), **options)
    else:
        wanted = rng.choice(
            [{"half_width": 10}, {"power": 0.8}, {"power": 0.8, "margin": 10}, {"power": 0.99, "gap": 5}]
        )
        found = lrbtl.votes_needed(battles, lrbtl.gap("m0", "m1"), **wanted, **options)
    str(found), found.to_dict()


def ask_plan(rng: random.Random, frame: dict[str, Any], columns: dict[str, Any], options: dict[str, Any]) -> None:
    """Plan some votes."""
    battles = lrbtl.Battles.from_frame(frame, **columns)
    goal = rng.choice(["gaps", ("top", 1), ("top", 2), ("rank", "m0"), ("rank", "new"), [lrbtl.gap("m0", "m1")]])
    found = lrbtl.plan(battles, rng.choice([1, 7, 1000, 2.5]), goal=goal, **options)
    if not np.all(np.isfinite(found.before) & (found.after > 0) & (found.after <= found.before * (1 + 1e-9))):
        raise AssertionError(f"plan: widths {found.before[:3]} become {found.after[:3]}")
    str(found), found.to_dict(), found.widths()


def ask_changes(rng: random.Random, frame: dict[str, Any], columns: dict[str, Any], options: dict[str, Any]) -> None:
    """Compare two boards."""
    battles = lrbtl.Battles.from_frame(frame, **columns)
    half = {name: values[: max(1, len(values) // 2)] for name, values in frame.items()}
    before = lrbtl.leaderboard(lrbtl.Battles.from_frame(half, **columns) if rng.random() < 0.5 else battles, **options)
    after = lrbtl.leaderboard(battles, **(options if rng.random() < 0.7 else {"method": "naive"}))
    found = lrbtl.changes(before, after)
    if np.any(np.isnan(found.lower) & np.isfinite(found.change)):
        raise AssertionError("changes: a change with an interval that is no number")
    str(found), found.to_dict()


def ask_history(rng: random.Random, frame: dict[str, Any], columns: dict[str, Any], options: dict[str, Any]) -> None:
    """Follow ratings over time."""
    kept = {name: columns[name] for name in ("cluster", "weight") if name in columns}
    found = lrbtl.history(frame, "day", min_battles=rng.choice([1, 30]), **kept)
    check_intervals(found.score / 400, found.lower / 400, found.upper / 400, "history")
    str(found), found.to_dict(), found.drift()


def ask_influence(rng: random.Random, frame: dict[str, Any], columns: dict[str, Any], options: dict[str, Any]) -> None:
    """Ask what an answer rests on."""
    board = lrbtl.leaderboard(lrbtl.Battles.from_frame(frame, **columns), **options)
    by = rng.choice([None, None, "voter", "topic"])
    found = lrbtl.influence(board, by=by)
    str(found), found.to_dict()
    if rng.random() < 0.3:
        str(found.flip())
    if by is not None:
        str(found.misfits())


QUESTIONS = [ask_boards, ask_boards, ask_gate, ask_plan, ask_changes, ask_history, ask_influence]
