"""Reading votes from what a caller names: files, folders, patterns, streams, frames, and saved states."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lrbtl.data.columns import Columns, Found, describe_columns, find_columns
from lrbtl.data.encode import Coded, Log, as_table, column_names, encode, read_frame
from lrbtl.data.formats import read_tool_log
from lrbtl.data.item_logs import ItemLog, find_item_log
from lrbtl.data.logs import list_files, open_log
from lrbtl.data.outcomes import is_both_bad
from lrbtl.data.scores import as_numbers
from lrbtl.data.state import is_state
from lrbtl.errors import InputTypeError, spelled
from lrbtl.typing import Longs, Progress

if TYPE_CHECKING:
    from lrbtl.data.battles import Battles

STANDARD_INPUT = "-"
BOTH_BAD_WORDS = {"tie": "kept as ties", "drop": "dropped", "outcome": "kept as an outcome of their own"}


@dataclass(frozen=True)
class FileBattles:
    """Battles of a file, and what was decided while reading, one sentence each."""

    battles: Battles
    said: list[str] = field(default_factory=list)


class KeptRows(Log):
    """A log that keeps the distinct rows that were read from it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.columns: Mapping[str, Any] = {}
        self.times: Longs = np.zeros(0, dtype=np.int64)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.log.names

    def read(self, names: Sequence[str], sets: Sequence[str] = ()) -> tuple[dict[str, Any], Longs]:
        """Return distinct rows and how often each happened."""
        columns, self.times = self.log.read(names, sets)
        self.columns = columns
        self.head: Mapping[str, Coded] = self.log.head
        return columns, self.times


def read_votes(
    kind: type[Battles],
    source: Any,
    columns: Columns | None = None,
    *,
    scorer: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> FileBattles:
    """Return the battles, made by the class given, of anything that holds votes; see `Battles.read`."""
    wanted = columns or Columns()
    if isinstance(source, kind):
        return FileBattles(source)
    files = listed_files(source)
    if len(files) == 1 and files[0].is_file() and is_state(files[0]):
        return FileBattles(_from_state(kind, files[0], wanted))
    items = find_item_log(source) if files and wanted.model_a is wanted.model_b is wanted.winner is None else None
    if items is not None:
        return _from_items(kind, items, wanted, options)
    tool = None if not files else read_tool_log(files[0] if len(files) == 1 else files, scorer)
    if tool is not None:
        names = find_columns(wanted, list(tool.columns))
        given = {"cluster": tool.cluster or None, "weight": tool.weight, **options}
        battles = kind.from_columns(tool.columns, names, **given)
        notes = [*tool.decided(), *describe_columns(wanted, names), *_both_bad(tool.columns, None, names, options)]
        return FileBattles(_noted(battles, notes), [tool.said()[0], *notes])
    if scorer is not None:
        raise InputTypeError(f"scorer={spelled(scorer)} is for Inspect logs, which this is not.")
    stream = sys.stdin.buffer if isinstance(source, str) and source == STANDARD_INPUT else source
    log: Any = open_log(stream if files else as_table(stream), progress=progress)
    kept = KeptRows(log) if isinstance(log, Log) else None
    names = find_columns(wanted, column_names(log))
    said = describe_columns(wanted, names)
    battles = kind.from_columns(kept or log, names, **options)
    wanted_too = [names.winner, *([names.count] if names.count else [])]
    rows, times = read_frame(log, wanted_too) if kept is None else (kept.columns, kept.times)
    said += _both_bad(rows, times, names, options)
    return FileBattles(_noted(battles, said), said)


def _from_items(kind: type[Battles], items: ItemLog, wanted: Columns, options: Mapping[str, Any]) -> FileBattles:
    """Return results per item as votes; raise for options that they have no use for."""
    unused = wanted.given + [name for name, value in options.items() if _is_given(name, value)]
    if unused:
        raise InputTypeError(f"results per item take no {', '.join(unused)}: read them with Battles.from_items.")
    each = items.columns
    battles = kind.from_items(
        items.frame,
        model=each.model,
        item=each.item,
        correct=each.correct,
        contexts=each.contexts,
        samples=each.samples,
    )
    return FileBattles(_noted(battles, items.notes), [f"read results per item from {items.tool}", *items.notes])


def _is_given(name: str, value: Any) -> bool:
    """Return whether an option of reading was given: it is neither empty nor the default."""
    defaults = {"ties": "half", "both_bad": "tie"}
    empty = value is None or value is False or (hasattr(value, "__len__") and not len(value))
    return not empty and not (isinstance(value, str) and value == defaults.get(name))


def _noted(battles: Battles, notes: Sequence[str]) -> Battles:
    return replace(battles, notes=(*battles.notes, *notes)) if notes else battles


def listed_files(source: Any) -> list[Path]:
    """Return the files that a source names; none where it is no path and no list of paths, or standard input."""
    if isinstance(source, str | os.PathLike):
        return [] if source == STANDARD_INPUT else list_files(source, tools=True)
    if isinstance(source, list | tuple) and source and all(isinstance(part, str | os.PathLike) for part in source):
        return [file for part in source for file in list_files(part, tools=True)]
    return []


def _from_state(kind: type[Battles], path: str | os.PathLike[str], wanted: Columns) -> Battles:
    battles = kind.load(path)
    if wanted.contexts == ():
        return battles.pooled()
    if wanted.given and (wanted.given != ["contexts"] or wanted.contexts != battles.mode_names):
        raise InputTypeError(f"{path} holds battles that were read before; columns can be named for logs only.")
    return battles


def _both_bad(columns: Mapping[str, Any], times: Longs | None, names: Found, options: Mapping[str, Any]) -> list[str]:
    """Return a sentence on what became of votes that both were bad; none where there are no such votes."""
    words = encode(columns[names.winner], names.winner)
    bad = np.isin(words.codes, [k for k, label in enumerate(words.labels) if is_both_bad(label)])
    if not bad.any():
        return []
    each = np.ones(len(bad)) if times is None else times
    if names.count:
        each = each * as_numbers(columns[names.count], names.count)
    return [f"{int(each[bad].sum()):,} both_bad votes {BOTH_BAD_WORDS[options.get('both_bad', 'tie')]}"]
