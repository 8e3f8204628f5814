"""Frames and files in the place of battles: which columns hold what is guessed from common names, and said."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.encode import Coded, Log, column_names, encode
from lrbtl.data.formats import read_tool_log
from lrbtl.data.labels import some_of, suggest_labels
from lrbtl.data.logs import open_log
from lrbtl.data.observations import Data, Observations
from lrbtl.data.outcomes import is_both_bad
from lrbtl.data.state import is_state
from lrbtl.errors import InputTypeError, MissingColumnError
from lrbtl.typing import Longs, Progress

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

    Frame = IntoFrame | Mapping[str, Any]
else:
    Frame = Any  # narwhals is imported where there are frames

SIDES = [  # names of the columns of both models
    ("model_a", "model_b"), ("model_1", "model_2"), ("player_a", "player_b"), ("competitor_a", "competitor_b"),
    ("left_model", "right_model"), ("model_left", "model_right"), ("left", "right"), ("team_a", "team_b"),
    ("home_team", "away_team"), ("a", "b"),
]  # fmt: skip
GUESSES = {
    "model_a": [first for first, _ in SIDES],
    "model_b": [second for _, second in SIDES],
    "winner": ["winner", "outcome", "result", "preference", "vote", "label", "y"],
    "contexts": ["category", "task", "context", "topic", "domain", "language"],
    "count": ["count", "n_battles"],
}
STANDARD_INPUT = "-"
BOTH_BAD_WORDS = {"tie": "kept as ties", "drop": "dropped", "outcome": "kept as an outcome of their own"}


def as_data(given: Data | Frame) -> Data:
    """Return battles or observed entries as they are, and the battles of a frame, with a note on what was guessed.

    >>> log = {"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": ["x", "tie"], "task": ["code", "math"]}
    >>> as_data(log).shape, as_data(log).notes
    ((2, 2), ('guessed contexts from column task (Battles.from_frame names others)',))
    """
    return given if isinstance(given, Observations) else as_battles(given)


def as_battles(given: Battles | Frame) -> Battles:
    """Return battles as they are, and those of a frame, with a note on what was guessed."""
    if isinstance(given, Battles):
        return given
    found = find_columns(Columns(), column_names(given))
    battles = Battles.from_frame(given, **{**found.__dict__, "tags": None})
    return replace(battles, notes=tuple(describe_columns(Columns(), found)))


@dataclass(frozen=True)
class Columns:
    """Which columns to read; None means: guess. `contexts` may be empty for battles without contexts."""

    model_a: str | None = None
    model_b: str | None = None
    winner: str | None = None
    contexts: tuple[str, ...] | None = None
    count: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Columns of a log, all named; `order` lists those to read: contexts, model_a, model_b, winner, count, tags."""

    model_a: str
    model_b: str
    winner: str
    contexts: tuple[str, ...]
    count: str | None
    tags: tuple[str, ...] = ()

    @property
    def order(self) -> list[str]:
        """Return the columns to read."""
        counted = [self.count] if self.count else []
        return [*self.contexts, self.model_a, self.model_b, self.winner, *counted, *self.tags]


def find_columns(wanted: Columns, header: Sequence[str]) -> Found:
    """Return the columns to read from those that a log has; raise where one is missing.

    >>> find_columns(Columns(), ["model_a", "model_b", "winner", "task"]).contexts
    ('task',)
    """
    lower: dict[str, str] = {}
    for name in header:
        lower.setdefault(str(name).strip().lower(), name)
    named: dict[str, str] = {}
    missing = []
    for role in ("model_a", "model_b", "winner"):
        given = getattr(wanted, role)
        guess = next((lower[name] for name in GUESSES[role] if name in lower), None)
        if given is None and guess is None:
            missing.append(role)
        named[role] = _existing(given, header) if given is not None else str(guess)
    if missing:
        them = "it" if len(missing) == 1 else "them"
        raise MissingColumnError(
            f"no column looks like {' or '.join(missing)} (columns: {some_of([*map(repr, header)], 8)}); name {them}: "
            f"Battles.from_frame(frame, {', '.join(f'{role}=...' for role in missing)})."
        )
    contexts = wanted.contexts
    if contexts is None and wanted.tags:
        contexts = ()
    if contexts is None:
        context = next((lower[name] for name in GUESSES["contexts"] if name in lower), None)
        contexts = () if context is None else (context,)
    count = wanted.count
    if count is None:
        count = next((lower[name] for name in GUESSES["count"] if name in lower), None)
    found = Found(
        contexts=tuple(_existing(name, header) for name in contexts),
        count=None if count is None else _existing(count, header),
        tags=tuple(_existing(name, header) for name in wanted.tags),
        **named,
    )
    if repeated := [name for name in found.order if list(header).count(name) > 1]:
        raise MissingColumnError(f"column {repeated[0]!r} occurs more than once; rename one of them.")
    return found


def _existing(name: str, header: Sequence[str]) -> str:
    if name not in header:
        raise MissingColumnError(f"there is no column {name!r}; {suggest_labels(name, header)}")
    return name


def describe_columns(wanted: Columns, found: Found) -> list[str]:
    """Return what was guessed, in one sentence, or nothing where all columns have the names they should."""
    said = [
        f"{role} from column {getattr(found, role)}"
        for role in ("model_a", "model_b", "winner", "count")
        if getattr(wanted, role) is None and getattr(found, role) not in (None, role)
    ]
    if wanted.contexts is None and found.contexts and not wanted.tags:
        said.append(f"contexts from column {found.contexts[0]}")
    return [f"guessed {', '.join(said)} (Battles.from_frame names others)"] if said else []


# ------------------------------------------------------------------------------
# What the command line names: files, folders, patterns, standard input, and saved states.
# ------------------------------------------------------------------------------


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
