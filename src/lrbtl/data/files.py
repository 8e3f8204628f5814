"""Battles from what the command line names: files, folders, patterns, standard input, and saved states."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.encode import Coded, Log, encode
from lrbtl.data.formats import read_tool_log
from lrbtl.data.frames import Columns, Found, describe_columns, find_columns
from lrbtl.data.logs import open_log
from lrbtl.data.outcomes import is_both_bad
from lrbtl.data.state import is_state
from lrbtl.errors import InputTypeError
from lrbtl.typing import Longs, Progress

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
        self.columns, self.head = columns, self.log.head
        return columns, self.times


def read_battles(
    source: Any, columns: Columns | None = None, *, progress: Progress | None = None, **options: Any
) -> FileBattles:
    r"""Return the battles of a file, with the columns that were guessed.

    Parameters
    ----------
    source : path or binary stream
        What `Battles.scan` takes, "-" for standard input, a file that `battles.save` wrote, or what an evaluation tool
        wrote, see `read_tool_log`.
    columns : Columns, optional
        Names of the columns; common names are guessed.
    progress : callable, optional
    **options
        Outcomes and what votes carry: see `Battles.from_frame`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = path.write_text("model_a,model_b,winner,category\nx,y,model_a,code\ny,x,tie,math\n")
    >>> found = read_battles(path)
    >>> found.battles.shape, found.said
    ((2, 2), ['guessed contexts from column category (Battles.from_frame names others)'])
    """
    wanted = columns or Columns()
    if isinstance(source, str | os.PathLike) and os.path.isfile(source) and is_state(source):
        return FileBattles(_from_state(source, wanted))
    if isinstance(source, str | os.PathLike) and (tool := read_tool_log(Path(source))) is not None:
        names = find_columns(wanted, list(tool.columns))
        given = {"cluster": tool.cluster or None, **_named(names), **options}
        return FileBattles(Battles.from_frame(tool.columns, **given), [*tool.said(), *describe_columns(wanted, names)])
    stream = sys.stdin.buffer if source == STANDARD_INPUT else source
    log = KeptRows(open_log(stream, progress=progress))
    names = find_columns(wanted, log.names)
    said = describe_columns(wanted, names)
    battles = Battles.from_frame(log, **_named(names), **options)
    if n_bad := _count_both_bad(encode(log.columns[names.winner], names.winner), log.times):
        said.append(f"{n_bad:,} both_bad votes {BOTH_BAD_WORDS[options.get('both_bad', 'tie')]}")
    return FileBattles(battles, said)


def _named(names: Found) -> dict[str, Any]:
    """Return the columns as options of `Battles.from_frame`."""
    return {**names.__dict__, "tags": names.tags[0] if len(names.tags) == 1 else names.tags or None}


def _from_state(path: str | os.PathLike[str], wanted: Columns) -> Battles:
    battles = Battles.load(path)
    if wanted.contexts == ():
        return battles.pooled()
    if wanted not in (Columns(), Columns(contexts=battles.mode_names)):
        raise InputTypeError(f"{path} holds battles that were read before; columns can be named for logs only.")
    return battles


def _count_both_bad(words: Coded, times: Longs) -> int:
    bad = [k for k, label in enumerate(words.labels) if is_both_bad(label)]
    return int(times[np.isin(words.codes, bad)].sum())
