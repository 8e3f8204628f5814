"""Reading votes from what a caller names: files, folders, patterns, streams, frames, and saved states."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrbtl.data.columns import CARRIED, Columns, describe_columns, find_columns
from lrbtl.data.encode import as_table, column_names
from lrbtl.data.formats import read_tool_log
from lrbtl.data.item_logs import ItemLog, find_item_log
from lrbtl.data.logs import Where, list_files, open_log
from lrbtl.data.state import is_state
from lrbtl.errors import InputTypeError, spelled
from lrbtl.typing import Progress

if TYPE_CHECKING:
    from lrbtl.data.battles import Battles

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class FileBattles:
    """Battles of a file, and what was decided while reading, one sentence each."""

    battles: Battles
    said: list[str] = field(default_factory=list)


def read_votes(
    kind: type[Battles],
    source: Any,
    columns: Columns | None = None,
    *,
    where: Where | None = None,
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
        if where is not None:
            raise InputTypeError(f"`where` is for plain tables, and this is {tool.tool}: filter it beforehand.")
        names = find_columns(wanted, list(tool.columns))
        given = {"cluster": tool.cluster or None, "weight": tool.weight, **options}
        battles = _noted(
            kind.from_columns(tool.columns, names, **given), [*tool.decided(), *describe_columns(wanted, names)]
        )
        return FileBattles(battles, [tool.said()[0], *battles.notes])
    if scorer is not None:
        raise InputTypeError(f"scorer={spelled(scorer)} is for Inspect logs, which this is not.")
    stream = sys.stdin.buffer if isinstance(source, str) and source == STANDARD_INPUT else source
    log: Any = open_log(stream if files else as_table(stream), where=where, progress=progress)
    names = find_columns(wanted, column_names(log))
    battles = _noted(kind.from_columns(log, names, **options), describe_columns(wanted, names))
    return FileBattles(battles, list(battles.notes))


@dataclass(frozen=True)
class Rows:
    """The rows of a log as columns, how its tool says that they should be read, and what was decided."""

    columns: Any
    carried: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_rows(source: Any) -> Rows:
    """Return the rows of a log whole, for questions that need more than votes: files and folders, or a frame as it is.

    >>> read_rows([{"model": "x"}, {"model": "y"}]).columns
    {'model': ['x', 'y']}
    """
    files = listed_files(source)
    if not files and not (isinstance(source, str) and source == STANDARD_INPUT):
        return Rows(as_table(source))
    tool = read_tool_log(files[0] if len(files) == 1 else files) if files else None
    if tool is not None:
        carried = {"cluster": tool.cluster or None, "weight": tool.weight}
        return Rows(tool.columns, carried, tuple(tool.decided()))
    log = open_log(source if files else sys.stdin.buffer)
    out: dict[str, list[Any]] = {name: [] for name in log.names}
    for batch in log.batches(log.names, sets=log.names):
        for name, column in zip(out, batch, strict=True):
            labels = list(column.labels)
            out[name] += [labels[code] for code in column.codes.tolist()]
    return Rows(out)


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
    empty = value is None or value is False or (hasattr(value, "__len__") and not len(value))
    return not empty and not (isinstance(value, str) and value == CARRIED.get(name))


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
