"""Which columns of a file hold the battles: named by the user, or guessed from common names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lrbtl.errors import MissingColumnError
from lrbtl.labels import suggest_labels

GUESSES = {
    "model_a": (
        "model_a",
        "model_1",
        "player_a",
        "competitor_a",
        "left_model",
        "model_left",
        "team_a",
        "home_team",
        "a",
    ),
    "model_b": (
        "model_b",
        "model_2",
        "player_b",
        "competitor_b",
        "right_model",
        "model_right",
        "team_b",
        "away_team",
        "b",
    ),
    "winner": ("winner", "outcome", "result", "preference", "vote", "label", "y"),
    "contexts": ("category", "task", "context", "topic", "domain", "language"),
    "count": ("count", "n_battles"),
}


@dataclass(frozen=True)
class Columns:
    """Which columns to read; None means: guess. `contexts` may be empty for battles without contexts."""

    model_a: str | None = None
    model_b: str | None = None
    winner: str | None = None
    contexts: tuple[str, ...] | None = None
    count: str | None = None


@dataclass(frozen=True)
class Found:
    """Columns of a file, all named; `order` lists those to read: contexts, model_a, model_b, winner, count."""

    model_a: str
    model_b: str
    winner: str
    contexts: tuple[str, ...]
    count: str | None

    @property
    def order(self) -> list[str]:
        """Return the columns to read."""
        return [*self.contexts, self.model_a, self.model_b, self.winner, *([self.count] if self.count else [])]


def find_columns(wanted: Columns, header: Sequence[str]) -> Found:
    """Return the columns to read from those that a file has; raise where one is missing.

    Examples
    --------
    >>> find_columns(Columns(), ["model_a", "model_b", "winner", "task"]).contexts
    ('task',)
    """
    lower: dict[str, str] = {}
    for name in header:
        lower.setdefault(name.strip().lower(), name)
    named: dict[str, str] = {}
    for role in ("model_a", "model_b", "winner"):
        given = getattr(wanted, role)
        guess = next((lower[name] for name in GUESSES[role] if name in lower), None)
        if given is None and guess is None:
            option = "--" + role.replace("_", "-")
            raise MissingColumnError(
                f"no column looks like {role} (columns: {_shown(header)}); name it with {option} COLUMN."
            )
        named[role] = _existing(given, header) if given is not None else str(guess)
    contexts = wanted.contexts
    if contexts is None:
        context = next((lower[name] for name in GUESSES["contexts"] if name in lower), None)
        contexts = () if context is None else (context,)
    count = wanted.count
    if count is None:
        count = next((lower[name] for name in GUESSES["count"] if name in lower), None)
    found = Found(
        contexts=tuple(_existing(name, header) for name in contexts),
        count=None if count is None else _existing(count, header),
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
    """Return what was guessed, in one sentence, or nothing."""
    said = [
        f"{role} from column {getattr(found, role)}"
        for role in ("model_a", "model_b", "winner", "count")
        if getattr(wanted, role) is None and getattr(found, role) not in (None, role)
    ]
    change = ""
    if wanted.contexts is None and found.contexts:
        said.append(f"contexts from column {found.contexts[0]}")
        change = " (--context COLUMN names another, --no-context uses none)"
    return [f"guessed {', '.join(said)}{change}"] if said else []
