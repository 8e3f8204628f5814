"""Which columns of a log hold what: named by the caller, or guessed from common names, and said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from lrbtl.data.encode import as_names, column_names
from lrbtl.data.labels import some_of, suggest_labels
from lrbtl.errors import MissingColumnError, check_type

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
GUESSED = "guessed"  # how the note on guessed columns begins
CARRIED: dict[str, Any] = {  # what outcomes mean and what votes carry, with the defaults of all that reads votes
    "outcomes": None,
    "ties": "half",
    "both_bad": "tie",
    "covariates": None,
    "position": False,
    "weight": None,
    "cluster": None,
    "reweight": None,
}


@dataclass(frozen=True)
class Columns:
    """Which columns to read; None means: guess. `contexts` may be empty for battles without contexts."""

    model_a: str | None = None
    model_b: str | None = None
    winner: str | None = None
    contexts: tuple[str, ...] | None = None
    count: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def given(self) -> list[str]:
        """Names of the roles that the caller named a column for.

        >>> Columns(winner="vote", contexts=()).given
        ['winner', 'contexts']
        """
        named = [item.name for item in fields(self) if item.name != "tags" and getattr(self, item.name) is not None]
        return [*named, "tags"] if len(self.tags) else named


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
            f"Battles.read(votes, {', '.join(f'{role}=...' for role in missing)}).",
            argument="column",
            value=missing[0],
            missing=missing,
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
    check_type(name, str, "column", "give the name of a column")
    if name not in header:
        raise MissingColumnError(
            f"there is no column {name!r}; {suggest_labels(name, header)}", argument="column", value=name
        )
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
    return [f"{GUESSED} {', '.join(said)} (Battles.read names others)"] if said else []


def named_columns(
    frame: Any,
    model_a: str,
    model_b: str,
    winner: str,
    contexts: str | Sequence[str] | None,
    count: str | None,
    tags: str | Sequence[str] | None,
) -> tuple[Found, list[str]]:
    """Return the columns that `Battles.from_frame` reads, and what was guessed: what is not named, as everywhere."""
    header = column_names(frame)

    def given(name: str, default: str) -> str | None:
        check_type(name, str, default, "give the name of a column")
        return None if name == default and name not in header else name

    sides = (given(model_a, "model_a"), given(model_b, "model_b"), given(winner, "winner"))
    named = None if contexts is None else as_names(contexts, "contexts")
    wanted = Columns(*sides, named, count, as_names(tags, "tags"))
    found = find_columns(wanted, header)
    return found, describe_columns(wanted, found)
