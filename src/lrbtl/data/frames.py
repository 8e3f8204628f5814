"""Frames in the place of battles: which columns hold what is guessed from common names, and said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lrbtl.data.battles import Battles
from lrbtl.data.encode import column_names
from lrbtl.data.labels import suggest_labels
from lrbtl.data.observations import Data, Observations
from lrbtl.errors import MissingColumnError

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

    Frame = IntoFrame | Mapping[str, Any]

FIRST = [
    "model_a",
    "model_1",
    "player_a",
    "competitor_a",
    "left_model",
    "model_left",
    "left",
    "team_a",
    "home_team",
    "a",
]
SECOND = [
    "model_b",
    "model_2",
    "player_b",
    "competitor_b",
    "right_model",
    "model_right",
    "right",
    "team_b",
    "away_team",
    "b",
]
GUESSES = {
    "model_a": FIRST,
    "model_b": SECOND,
    "winner": ["winner", "outcome", "result", "preference", "vote", "label", "y"],
    "contexts": ["category", "task", "context", "topic", "domain", "language"],
    "count": ["count", "n_battles"],
}


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
            f"no column looks like {' or '.join(missing)} (columns: {_shown(header)}); name {them}: "
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


def _shown(names: Sequence[str], limit: int = 8) -> str:
    return ", ".join(map(repr, names[:limit])) + (", ..." if len(names) > limit else "")


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
