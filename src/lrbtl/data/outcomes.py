"""What an outcome column means: words, numbers, names of the winner, and votes that both were bad."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np

from lrbtl.data.cells import BOTH_BAD, Column
from lrbtl.data.encode import Coded, used_codes
from lrbtl.data.labels import LabelIndex, suggest_labels
from lrbtl.errors import AmbiguousOutcomeError, InputTypeError, OutcomeRangeError, UnknownOutcomeError, check_choice
from lrbtl.typing import AnyInts, Bools, Floats, Indices, Longs

Outcomes = Mapping[Hashable, float | str | None]
BothBad = Literal["tie", "drop", "outcome"]

DOCUMENTED = ("model_a", "model_b", "tie", "both_bad", "tie (bothbad)", "tie (inconsistent)")
FIRST = ("modela", "a", "left", "first", "home", "a>b", "a>>b")
SECOND = ("modelb", "b", "right", "second", "away", "b>a", "b>>a", "a<b", "a<<b")
TIES = ("tie", "tieinconsistent", "draw", "equal", "same", "bothgood", "a=b", "b=a", "a~b")
BAD = ("bothbad", "tiebothbad", "botharebad", "neither")
BOTH_BAD_VALUES: dict[str, float] = {"tie": 0.5, "drop": np.nan, "outcome": BOTH_BAD}
ROWS_SHOWN = 20


@dataclass(frozen=True)
class Sides:
    """Who met in each row: columns of positions, what values of the columns are which model, and the columns' names."""

    a: Column
    b: Column
    models: LabelIndex
    names: tuple[str, str] = ("model_a", "model_b")

    def played(self, model: int | Longs, rows: Indices | Bools) -> tuple[Bools, Bools]:
        """Return in which of some rows a model was the first, and in which the second."""
        first, second = (side.meaning[side.codes[rows]] == model for side in (self.a, self.b))
        return first, second


def is_both_bad(label: object) -> bool:
    """Whether a word says that both were bad.

    >>> is_both_bad("tie (bothbad)"), is_both_bad("tie")
    (True, False)
    """
    return isinstance(label, str) and _plain(label) in BAD


def _plain(word: str) -> str:
    """Return a word without case, blanks, underscores and brackets."""
    return "".join(char for char in word.lower() if char.isalnum() or char in "<>=~")


def read_outcomes(
    outcome: Coded,
    sides: Sides,
    mapping: Outcomes | None,
    name: str,
    both_bad: BothBad = "tie",
    counts: Longs | None = None,
) -> tuple[AnyInts, Floats]:
    """Return codes of the rows, and the outcome for the first model of each code: NaN for rows to drop.

    A label means, in this order: what `mapping` says; a common word; a number, also as text; the name of the winner.
    A word that is also the name of a model is that name under two conditions: the model took part in all rows that
    have it, and other labels are names too.

    Parameters
    ----------
    outcome : Coded
    sides : Sides
    mapping : mapping, optional
        Meaning of further words (or another meaning of known ones): a number in [0, 1], a known word, or None to drop.
    name : str
        Of the column, for messages.
    both_bad : "tie", "drop" or "outcome"
    counts : int64 (n,), optional
        Multiplicity of each row, for messages.

    >>> from lrbtl.data.encode import encode
    >>> sides = Sides(Column(np.array([0, 1]), np.arange(2)), Column(np.array([1, 0]), np.arange(2)), {"x": 0, "y": 1})
    >>> codes, values = read_outcomes(encode(["x", "x"], "winner"), sides, None, "winner")
    >>> values[codes].tolist()
    [1.0, 0.0]
    """
    check_choice(both_bad, tuple(BOTH_BAD_VALUES), "both_bad", InputTypeError)
    if not (mapping is None or isinstance(mapping, Mapping)):
        raise InputTypeError(f"outcomes={mapping!r}: give a mapping of words to numbers, such as {{'left': 1}}.")
    labels = outcome.labels
    if isinstance(labels, np.ndarray) and not mapping and 0.0 <= labels.min() <= labels.max() <= 1.0:
        return outcome.codes, labels  # soft votes
    return _Reader(outcome, sides, dict(mapping or {}), name, both_bad, counts).read()


class _Reader:
    """One outcome column and what its labels were found to mean."""

    def __init__(
        self,
        outcome: Coded,
        sides: Sides,
        mapping: dict[Any, float | str | None],
        name: str,
        both_bad: str,
        counts: Longs | None,
    ) -> None:
        self.outcome, self.sides, self.mapping, self.name, self.counts = outcome, sides, mapping, name, counts
        self.words = dict.fromkeys(FIRST, 1.0) | dict.fromkeys(SECOND, 0.0) | dict.fromkeys(TIES, 0.5)
        self.words |= dict.fromkeys(BAD, BOTH_BAD_VALUES[both_bad])
        self.words |= {_plain(side): value for side, value in zip(sides.names, (1.0, 0.0), strict=True)}
        self.used = used_codes(outcome)
        self.labels = dict(zip(self.used.tolist(), outcome.values(self.used), strict=True))

    def read(self) -> tuple[AnyInts, Floats]:
        """Return codes of the rows and values of the codes."""
        values = np.full(len(self.outcome.labels), np.nan)
        winners: dict[int, int] = {}
        unknown: dict[Any, int] = {}
        numbers_are_names = self._numbers_are_names()
        for code, label in self.labels.items():
            if label in self.mapping:
                values[code] = self._mapped(label, code)
            elif self._is_name(label, code, numbers_are_names):
                winners[code] = self.sides.models[label]
            elif self._is_word(label):
                values[code] = self.words[_plain(label)]
            elif (number := as_number(label)) is not None:
                values[code] = self._in_range(number, label, code)
            else:
                unknown[label] = self._count(code)
        if unknown:
            self._raise_unknown(unknown)
        return self._named(values, winners) if winners else (self.outcome.codes, values)

    def _rows(self, code: int) -> Bools:
        return np.asarray(self.outcome.codes == code)

    def _count(self, code: int) -> int:
        rows = self._rows(code)
        return int(np.count_nonzero(rows) if self.counts is None else self.counts[rows].sum())

    def _mapped(self, label: Any, code: int) -> float:
        meaning = self.mapping[label]
        if meaning is None:
            return np.nan
        if self._is_word(meaning):
            return self.words[_plain(meaning)]  # type: ignore[arg-type]
        number = as_number(meaning)
        if number is None:
            self._raise_unknown({meaning: self._count(code)})
        return self._in_range(number, label, code)  # type: ignore[arg-type]

    def _is_word(self, label: object) -> bool:
        return isinstance(label, str) and _plain(label) in self.words

    def _holds_names(self) -> bool:
        """Whether some label can only be the name of a model."""
        names = [label for label in self.labels.values() if label in self.sides.models]
        return any(as_number(label) is None and not self._is_word(label) for label in names)

    def _numbers_are_names(self) -> bool:
        """Whether numbers name the winner: some are no outcome, and those are models."""
        outside = [label for label in self.labels.values() if label not in self.mapping and _is_outside(label)]
        return bool(outside) and all(label in self.sides.models for label in outside)

    def _is_name(self, label: Any, code: int, numbers_are_names: bool) -> bool:
        """Whether a label is the name of the winner; raise where it may as well be a word for a side."""
        if label not in self.sides.models:
            return False
        if as_number(label) is not None:
            return numbers_are_names
        if not self._is_word(label):
            return True
        first, second = self.sides.played(self.sides.models[label], self._rows(code))
        if not np.all(first | second):
            return False
        value = self.words[_plain(label)]
        if self._holds_names() or np.all(first if value == 1.0 else second & (value == 0.0)):
            return True
        raise AmbiguousOutcomeError(
            f"{self.name} holds {label!r} in {self._count(code)} rows: is it the model of that name, or a word of its "
            f"own? For the word give outcomes={{{label!r}: {value:g}}}; for the model rename it in all columns."
        )

    def _in_range(self, number: float, label: Any, code: int) -> float:
        if not 0.0 <= number <= 1.0:
            raise OutcomeRangeError(
                f"{self.name} holds the outcome {label!r} ({self._count(code)} rows), meaning {number}; an outcome is "
                "a number from 0 (model_b won) to 1 (model_a won). Rescale it or give outcomes={...}.",
                column=self.name,
                value=label,
                rows=self._count(code),
            )
        return number

    def _named(self, values: Floats, winners: dict[int, int]) -> tuple[AnyInts, Floats]:
        """Return codes and values with two more codes, for rows won by the first or second model by name."""
        model: Longs = np.full(len(values), -1, dtype=np.int64)
        model[list(winners)] = list(winners.values())
        rows = np.flatnonzero(model[self.outcome.codes] >= 0)
        first, second = self.sides.played(model[self.outcome.codes[rows]], rows)
        if not np.all(first | second):
            self._raise_stranger(rows[~(first | second)])
        codes = np.array(self.outcome.codes, dtype=np.int32)
        codes[rows] = np.where(first, len(values), len(values) + 1)
        return codes, np.append(values, [1.0, 0.0])

    def _raise_stranger(self, rows: Indices) -> None:
        label = self.labels[int(self.outcome.codes[rows[0]])]
        raise UnknownOutcomeError(
            f"{self.name} names a model that was not in the battle in {len(rows)} rows, the first is row {rows[0]} "
            f"({label!r}). Correct these rows, or leave them out."
        )

    def _raise_unknown(self, unknown: dict[Any, int]) -> None:
        shown = sorted(unknown.items(), key=lambda item: -item[1])[:ROWS_SHOWN]
        words = ", ".join(f"{word!r} ({n})" for word, n in shown)
        near = ""
        if self._holds_names():
            near = f" Of names of models, {suggest_labels(shown[0][0], self.sides.models)}"
        raise UnknownOutcomeError(
            f"{self.name} holds words without a known meaning: {words}. Give outcomes={{word: number in [0, 1] or None "
            f"to drop}}; known are names of the two models, numbers, and {', '.join(DOCUMENTED)}.{near}",
            column=self.name,
            words=unknown,
        )


def as_number(label: object) -> float | None:
    """Return a number, also one written as text; None for other labels.

    >>> as_number("0.5"), as_number(True), as_number("x")
    (0.5, 1.0, None)
    """
    try:
        if isinstance(label, Real | Decimal | np.bool_):
            return float(label)
        number = float(label) if isinstance(label, str) else np.nan
    except (ValueError, OverflowError):  # 10**400, a signalling NaN
        return None
    return number if np.isfinite(number) else None


def _is_outside(label: object) -> bool:
    number = as_number(label)
    return number is not None and not 0.0 <= number <= 1.0
