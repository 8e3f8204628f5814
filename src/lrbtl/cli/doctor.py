"""`lrbtl doctor`: what a file is, what it supports, and the commands to run."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from lrbtl.cli.options import show
from lrbtl.cli.results import describe_items, describe_results, results_of
from lrbtl.data.battles import Battles
from lrbtl.data.columns import Columns, Found, find_columns
from lrbtl.data.encode import Coded, encode, used_codes
from lrbtl.data.formats import ToolLog, read_tool_log
from lrbtl.data.frames import read_battles
from lrbtl.data.item_logs import find_item_log
from lrbtl.data.labels import is_missing
from lrbtl.data.logs import BatchLog, list_files, open_log
from lrbtl.data.tags import tags_of
from lrbtl.errors import FileReadError, InputTypeError, MissingColumnError

FEWEST_CLUSTERS = 10  # a column with fewer values is a category
VOTERS = ("judge", "worker", "user", "voter", "session", "question", "prompt", "annotator", "rater", "instruction")
TIMES = ("time", "tstamp", "timestamp", "date", "day", "month", "year")
MOST_LEVELS = 200  # a column with more values is no category
TAGGED = (";", "|", ",")
FLAGS = {"0", "1", "0.0", "1.0", "false", "true"}
ROWS_SHOWN = 6


@dataclass(frozen=True)
class Roles:
    """What the columns beside models and winner can be used as; each from name to a number of values."""

    categories: dict[str, int]
    flags: dict[str, int]
    clusters: dict[str, int]
    tags: dict[str, int]
    times: dict[str, int]
    covariates: dict[str, tuple[str, str]]
    gaps: dict[str, int]


def run_doctor(options: Namespace) -> None:
    """Print what a file is, what it supports, and the commands to run."""
    if os.path.exists(options.file) and (items := find_item_log(options.file)) is not None:
        show("\n".join(describe_items(options.file, items)))
        return
    if (results := results_of(options.file)) is not None:
        show("\n".join(describe_results(options.file, results)))
        return
    files = list_files(options.file, tools=True)
    log = read_tool_log(files[0] if len(files) == 1 else files)
    columns, n_rows = _columns(options.file) if log is None else _tool_columns(log)
    try:
        found = find_columns(Columns(), list(columns))
    except MissingColumnError as error:
        raise MissingColumnError(f"{options.file} has {n_rows:,} rows with {', '.join(columns)}: {error}") from error
    roles = find_roles(columns, found)
    unfit = [name for name in found.contexts if name in roles.gaps]
    found = replace(found, contexts=()) if unfit else found
    battles = read_battles(options.file, Columns(contexts=()) if unfit else None).battles
    kind = "a table" if log is None else log.tool
    show(f"{options.file}: {kind}, {n_rows:,} rows read as {battles.n_battles:,} battles")
    for sentence in [] if log is None else log.said()[1:]:
        show(f"  {sentence}")
    show(f"  columns     {', '.join(columns)}\n\n{battles.summary()}\n\nIt supports")
    for line in supports(columns, found, roles, n_rows):
        show(f"  {line}")
    show("\nCommands to run")
    for command, why in commands(options.file, columns, battles, found, roles):
        show(f"  {command}\n      {why}")


def _tool_columns(log: ToolLog) -> tuple[dict[str, Coded], int]:
    return {name: encode(values, name) for name, values in log.columns.items()}, log.n_rows


def _columns(path: str) -> tuple[dict[str, Coded], int]:
    """Return the columns of a table as far as they can be read, of its first rows, and how many rows there are."""
    log = open_log(path)
    try:
        out = _first_rows(log, log.names)
    except (InputTypeError, FileReadError):  # objects in one of them, or lines that lack one
        out = {}
        for name in log.names:
            with suppress(InputTypeError, FileReadError):
                out |= _first_rows(log, [name])
    if not out:
        raise FileReadError(f"cannot read {path}: no column holds a value.")
    name = next(iter(out))
    return out, sum(len(batch[0]) for batch in log.batches([name]))


def _first_rows(log: BatchLog, names: list[str]) -> dict[str, Coded]:
    """Return the columns of the first rows that hold something, and no lists."""
    found = dict(zip(names, next(iter(log.batches(names, sets=names)), []), strict=False))
    plain = {name: column for name, column in found.items() if not any(isinstance(x, tuple) for x in column.labels)}
    return {name: column for name, column in plain.items() if count_gaps(column) < len(column)}


def count_gaps(column: Coded) -> int:
    """Return how many cells of a column are empty.

    >>> count_gaps(encode(["x", " ", "y"], "language"))
    1
    """
    empty = [k for k, label in enumerate(column.labels) if is_missing(label) or str(label).strip() == ""]
    return int(np.isin(column.codes, empty).sum()) if empty else 0


def find_roles(columns: Mapping[str, Coded], found: Found) -> Roles:
    """Return what columns beside models and winner can be used as.

    >>> columns = {"winner": encode([1, 0] * 20, "winner"), "worker": encode(list("0123456789") * 4, "worker")}
    >>> find_roles(columns, Found("model_a", "model_b", "winner", (), None)).clusters
    {'worker': 10}
    """
    used = {found.model_a, found.model_b, found.winner, found.count}
    roles = Roles({}, {}, {}, {}, {}, {}, {})
    for name, column in columns.items():
        labels = column.values(used_codes(column))  # those that occur
        plain, size = name.lower(), len(set(labels))
        if name in used or size < 2:
            continue
        if "tag" not in plain and (gaps := count_gaps(column)):
            roles.gaps[name] = gaps
            continue
        other = plain[:-1] + "b"
        if plain.endswith("_a") and other in columns and is_number(column) and is_number(columns[other]):
            roles.covariates[plain[:-2]] = (name, other)
        elif plain.endswith("_b") and plain[:-1] + "a" in columns:
            continue
        elif any(word in plain.split("_") for word in TIMES):
            roles.times[name] = size
        elif any(word in plain.split("_") for word in VOTERS) and FEWEST_CLUSTERS <= size < len(column):
            roles.clusters[name] = size
        elif "tag" in plain and any(mark in str(label) for label in labels for mark in TAGGED):
            roles.tags[name] = size
        elif {str(label).lower() for label in labels} <= FLAGS:
            roles.flags[name] = size
        elif size <= min(MOST_LEVELS, len(column) / 2):
            roles.categories[name] = size
    return roles


def is_number(column: Coded) -> bool:
    """Return whether a column holds numbers, or texts that are numbers."""
    try:
        np.asarray(column.labels, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def supports(columns: Mapping[str, Coded], found: Found, roles: Roles, n_rows: int) -> list[str]:
    """Return what a file supports, one line each."""
    winner = columns[found.winner]
    counts = np.bincount(winner.codes, minlength=len(winner.labels))
    order = np.argsort(-counts, kind="stable")
    words = [f"{winner.labels[k]} {counts[k]:,}" for k in order[:ROWS_SHOWN] if counts[k]]
    more = ", ..." if np.count_nonzero(counts) > ROWS_SHOWN else ""
    part = f" in the first {len(winner):,} rows" if len(winner) < n_rows else ""
    lines = [f"outcomes    {found.winner}{part}: {', '.join(words)}{more}"]
    for name in roles.tags:
        common = tags_of_all(columns[name])
        also = f"; every vote has {', '.join(common)}, whose board is that of all votes" if common else ""
        lines.append(f"tags        {name} ({roles.tags[name]:,}){also}")
    for title, sizes in (("categories", roles.categories), ("times", roles.times)):
        if sizes:
            lines.append(f"{title:<11} {', '.join(f'{name} ({size:,})' for name, size in sizes.items())}")
    if roles.gaps:
        shown = ", ".join(f"{name} ({n:,} rows)" for name, n in roles.gaps.items())
        lines.append(f"empty cells {shown}: fill them, or drop such rows, to use the column")
    if roles.flags:
        lines.append(f"flags       {', '.join(roles.flags)}: a vote may have several")
    if roles.clusters:
        shown = ", ".join(f"{name} ({size:,})" for name, size in roles.clusters.items())
        lines.append(f"clusters    {shown}: votes that share one are not independent")
    if roles.covariates:
        pairs = ", ".join(f"{a}, {b}" for a, b in roles.covariates.values())
        lines.append(f"covariates  {pairs}: style that may have moved votes")
    return lines


def tags_of_all(column: Coded) -> list[str]:
    """Return the tags that all votes have.

    >>> tags_of_all(encode(["chat;code", "chat"], "tags"))
    ['chat']
    """
    sets = [set(tags_of(label)) for label in column.values(used_codes(column))]
    return sorted(set.intersection(*sets)) if sets else []


def commands(path: str, columns: Iterable[str], battles: Battles, found: Found, roles: Roles) -> list[tuple[str, str]]:
    """Return commands to run on a file with some columns, and what for."""
    plain = file = shlex.quote(path)
    if not found.contexts and find_columns(Columns(), list(columns)).contexts:
        file += " --no-context"  # the column that would be guessed has empty cells
    rows = [(f"lrbtl leaderboard {file}", "the overall board")]
    if found.contexts and battles.n_contexts > 1:
        rows.append((f"lrbtl leaderboard {file} --board all", f"a board for each level of {found.contexts[0]}"))
    other = next((name for name in roles.categories if name not in found.contexts), None)
    if other is not None:
        rows.append((f"lrbtl leaderboard {plain} --context {shlex.quote(other)}", "another column as categories"))
    if tags := next(iter(roles.tags), ",".join(roles.flags)):
        rows.append((f"lrbtl leaderboard {plain} --tags {shlex.quote(tags)} --board all", "a board for each tag"))
    first, second = (shlex.quote(str(battles.models[k])) for k in np.argsort(-battles.model_counts, kind="stable")[:2])
    rows.append((f"lrbtl compare {file} {first} {second} --margin 10", "two models in every category"))
    rows.append((f"lrbtl gate {file} --candidate {first} --baseline {second}", "may one replace the other?"))
    rows.append((f"lrbtl report {file} -o report.html", "everything on one page"))
    carried = [f"--covariate {shlex.quote(f'{name}={a},{b}')}" for name, (a, b) in roles.covariates.items()]
    if roles.clusters:
        carried.append(f"--cluster {shlex.quote(max(roles.clusters, key=roles.clusters.__getitem__))}")
    if carried:
        rows.append((f"lrbtl leaderboard {file} {' '.join(carried)}", "what votes carry is allowed for"))
    if roles.times:
        rows.append((f"lrbtl history {plain} --time {shlex.quote(next(iter(roles.times)))}", "scores over time"))
    return rows
