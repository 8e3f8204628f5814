"""From coded columns to cells: outcomes, labels of each axis, self-battles."""

from collections.abc import Hashable, Sequence, Sized
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lrbtl.data.cells import BOTH_BAD, Cells, Column, canonical_outcome, count_battles, other_side, recode_cells
from lrbtl.data.encode import Coded, as_columns, check_lengths, used_codes
from lrbtl.data.labels import LabelIndex, index_labels, map_contexts, map_labels, sort_labels, suggest_labels
from lrbtl.data.outcomes import BothBad, Outcomes, Sides, is_both_bad, read_outcomes
from lrbtl.data.votes import Votes
from lrbtl.errors import (
    CodeRangeError,
    ContextModeError,
    EmptyDataError,
    LabelError,
    TooFewModelsError,
    TooLargeError,
    check_whole,
)
from lrbtl.tables import shown
from lrbtl.typing import AnyInts, Floats, Longs

_MAX_CODE = 1 << 24  # models or levels of a mode
MOST_WORDS = 4  # outcomes that notes name each by itself


@dataclass(frozen=True, slots=True)
class Axis:
    """What is known beforehand about the models or about one context mode."""

    what: str
    labels: Sequence[Hashable] | None
    size: int | None
    integer_codes: bool  # whether integers are codes rather than labels

    def __post_init__(self) -> None:
        if self.size is None:
            return
        check_whole(self.size, f"number of {self.what}", error=CodeRangeError)
        if self.size > _MAX_CODE:
            raise TooLargeError(f"{self.what}: there cannot be {self.size:,}; the most are {_MAX_CODE:,}.")


def context_axes(names: Sequence[str], levels: Any, n_levels: int | Sequence[int | None] | None) -> list[Axis]:
    """Axes of the context modes of integer or label columns; lists for a single mode may be given bare."""
    listed = [None] * len(names) if levels is None else as_columns(levels)
    if n_levels is None:
        n_levels = [None] * len(names)
    sizes = list(n_levels) if isinstance(n_levels, Sequence) or np.ndim(n_levels) == 1 else [n_levels]  # type: ignore[arg-type]
    for given, what in ((listed, "levels"), (sizes, "n_levels")):
        if len(given) != len(names):
            raise ContextModeError(f"{what} describe {len(given)} context modes, but there are {len(names)} columns.")
    return [Axis(*spec, integer_codes=True) for spec in zip(names, listed, sizes, strict=True)]


def build_cells(
    columns: Sequence[Coded],
    axes: Sequence[Axis],
    counts: Longs | None,
    *,
    outcome_name: str,
    outcomes: Outcomes | None = None,
    ties: str = "half",
    votes: Votes | None = None,
    both_bad: BothBad = "tie",
    sides: tuple[str, str] = ("model_a", "model_b"),
) -> tuple[Cells, list[tuple[Any, ...]], int, tuple[str, ...]]:
    """Cells, labels per axis, number of self-battles dropped, and a sentence on each kind of outcome that was changed.

    Parameters
    ----------
    columns : sequence of Coded
        Context columns, then first model, second model, outcome.
    axes : sequence of Axis
        The models, then each context mode.
    votes : Votes, optional
        What each row carries beside these columns.
    sides : pair of str
        Names of the columns of the first and second model, which are words for the winner too.
    """
    *modes, first, second, outcome = columns
    names = [axis.what for axis in axes[1:]]
    if len(set(names)) < len(names):
        raise ContextModeError(f"context modes {names} repeat a name; each column can be used once.")
    lengths: dict[str, Any] = dict(
        zip(["model_a", "model_b", outcome_name, *names], [first, second, outcome, *modes], strict=True)
    )
    if not check_lengths(lengths if counts is None else {**lengths, "counts": counts}):
        raise EmptyDataError("there are no rows; give at least one battle.")

    models, index, (a, b) = _label_axis(axes[0], [first, second])
    met = Sides(a, b, {label: k for k, label in enumerate(models)} | index, sides)
    y_column, outcomes_found = _outcome_column(
        *read_outcomes(outcome, met, outcomes, outcome_name, both_bad, counts), ties
    )
    said = outcome_notes(outcome, y_column, outcomes_found, outcome_name, counts)
    levels, contexts = [], []
    for axis, mode in zip(axes[1:], modes, strict=True):
        labels, _, (column,) = _label_axis(axis, [mode])
        levels.append(labels)
        contexts.append(column)
    shape = (len(models), *map(len, levels))
    if votes is not None and votes.weight is not None:  # votes of no weight say nothing
        counts = np.where(votes.weight > 0, 1 if counts is None else counts, 0)
    cells, n_self = count_battles(
        contexts, a, b, y_column, shape=shape, outcomes=outcomes_found, counts=counts, votes=votes
    )
    if len(models) < 2:
        raise TooFewModelsError(f"only one model, {models[0]!r}, occurs; a battle needs two.")
    if not cells.n_cells:
        why = f"{n_self} compare a model with itself, " if n_self else ""
        raise EmptyDataError(f"no battles are left: {why}the others have count 0 or an outcome to drop.")
    return *_drop_idle(cells, [models, *levels], axes, columns), n_self, said


def _outcome_column(codes: AnyInts, y: Floats, ties: str) -> tuple[Column, Floats]:
    """Outcome column and its values: increasing, and with every y also that of the other side."""
    y = canonical_outcome(y)
    if ties == "drop":
        y[y == 0.5] = np.nan
    known = ~np.isnan(y)
    values = np.unique(np.concatenate([y[known], other_side(y[known])]))
    meaning = np.full(len(y), -1, dtype=np.int32)
    meaning[known] = np.searchsorted(values, y[known])
    return Column(codes, meaning), values


def outcome_notes(outcome: Coded, y: Column, values: Floats, name: str, counts: Longs | None) -> tuple[str, ...]:
    """Return what became of votes that both were bad, and which votes were dropped for their outcome.

    Parameters
    ----------
    outcome : Coded
        Words as they were read.
    y : Column
        What each of them was found to mean: a position in `values`, or -1 to drop such rows.
    """
    used = np.flatnonzero(np.bincount(y.codes, minlength=len(y.meaning))[: len(outcome.labels)])
    if isinstance(outcome.labels, np.ndarray):  # soft votes, of which there may be very many
        used = used[y.meaning[used] < 0]
    words = {
        code: word
        for code, word in zip(used.tolist(), outcome.values(used), strict=True)
        if y.meaning[code] < 0 or is_both_bad(word)
    }
    votes = np.bincount(y.codes, counts, minlength=len(y.meaning)) if words else np.zeros(0)
    total: dict[str, int] = {}
    for code, word in words.items():
        value = np.nan if y.meaning[code] < 0 else float(values[y.meaning[code]])
        said = _became(word, value, name if len(words) <= MOST_WORDS else None)
        total[said] = total.get(said, 0) + int(votes[code])
    return tuple(f"{count:,} {said}" for said, count in total.items() if count)


def _became(word: object, value: float, name: str | None) -> str:
    """Return what became of votes with an outcome: NaN where they were dropped; no name where there are many words."""
    if not is_both_bad(word):
        return "votes dropped for their outcome" + ("" if name is None else f", {name} {shown(word)}")
    kept = {0.5: "kept as ties", BOTH_BAD: "kept as an outcome of their own"}
    return "both_bad votes " + ("dropped" if np.isnan(value) else kept.get(value, f"read as {value:g}"))


def _drop_idle(
    cells: Cells, labels: list[tuple[Any, ...]], axes: Sequence[Axis], columns: Sequence[Coded]
) -> tuple[Cells, list[tuple[Any, ...]]]:
    """Leave out labels that were found in dropped rows only; listed labels and integer codes stay."""
    shape = tuple(map(len, labels))
    used = [np.concatenate([cells.a, cells.b]), *np.unravel_index(cells.context, shape[1:] or (1,))]
    kept = []
    for axis, names, column, codes in zip(axes, labels, [columns[-3], *columns], used, strict=False):
        is_fixed = axis.labels is not None or (axis.integer_codes and column.is_integer)
        idle = np.zeros(len(names), dtype=bool) if is_fixed else np.bincount(codes, minlength=len(names)) == 0
        kept.append(tuple(name for name, out in zip(names, idle, strict=True) if not out) if idle.any() else names)
    if kept == labels:
        return cells, labels
    model_map = map_labels(labels[0], index_labels(kept[0], "models"))
    sizes = {"n_models": len(kept[0]), "n_contexts": prod(map(len, kept[1:]))}
    return recode_cells(cells, model_map, map_contexts(labels[1:], kept[1:]), **sizes), kept


def _label_axis(axis: Axis, columns: Sequence[Coded]) -> tuple[tuple[Any, ...], LabelIndex, list[Column]]:
    """Labels of an axis, where values of its columns stand among them, and the columns with these meanings."""
    used = [used_codes(column) for column in columns]
    present = [column.values(codes) for column, codes in zip(columns, used, strict=True)]
    is_code = axis.integer_codes and all(column.is_integer for column in columns)
    labels, index = _axis_labels(axis, set().union(*present), is_code)
    read = []
    for column, codes, values in zip(columns, used, present, strict=True):
        meaning = np.zeros(len(column.labels), dtype=np.int32)
        meaning[codes] = map_labels(values, index)
        read.append(Column(column.codes, meaning))
    return labels, index, read


def _axis_labels(axis: Axis, present: set[Any], is_code: bool) -> tuple[tuple[Any, ...], LabelIndex]:
    """Return the final labels of an axis, and where each value of the columns stands among them."""
    if axis.labels is not None and (isinstance(axis.labels, str | bytes) or not isinstance(axis.labels, Sized)):
        raise LabelError(f"{axis.what}: {axis.labels!r} is not a list of labels.")
    if axis.labels is not None and axis.size is not None and len(axis.labels) != axis.size:
        raise LabelError(
            f"{axis.what}: {len(axis.labels)} labels were listed for {axis.size}; give as many as there are."
        )
    if is_code:
        return _code_labels(axis, present)
    if axis.size is not None and axis.labels is None:
        raise LabelError(f"{axis.what} are given by label; list them (models=, levels=) instead of saying how many.")
    if axis.labels is None:
        labels = sort_labels(present, axis.what)
        return labels, index_labels(labels, axis.what)
    labels = tuple(axis.labels)
    index = index_labels(labels, axis.what)
    unknown = [value for value in present if value not in index]
    if unknown:
        raise LabelError(
            f"{axis.what}: {unknown[0]!r} is not among the labels listed; {suggest_labels(unknown[0], labels)}"
        )
    return labels, index


def _code_labels(axis: Axis, present: set[int]) -> tuple[tuple[Any, ...], LabelIndex]:
    low, high = min(present), max(present)
    size = axis.size if axis.labels is None else len(axis.labels)
    if low < 0 or (size is not None and high >= size):
        allowed = "0, 1, 2, ..." if size is None else f"0 to {size - 1}"
        raise CodeRangeError(f"{axis.what}: code {low if low < 0 else high} is out of range; codes are {allowed}.")
    if size is None and high >= _MAX_CODE:
        raise CodeRangeError(
            f"{axis.what}: integer columns are codes 0, 1, 2, ..., but {high} occurs; for labels that are integers use "
            "from_frame, or convert them to strings."
        )
    labels = tuple(range(high + 1 if size is None else size)) if axis.labels is None else tuple(axis.labels)
    index_labels(labels, axis.what)
    return labels, {code: code for code in present}
