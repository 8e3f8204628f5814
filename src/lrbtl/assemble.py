"""From coded columns to cells: outcomes, labels of each axis, self-battles."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lrbtl.cells import Cells, IntArray, count_rows, make_cells
from lrbtl.errors import CodeRangeError, ContextModeError, EmptyDataError, LabelError, TooManyContextsError
from lrbtl.ingest import Coded, check_lengths, outcome_values
from lrbtl.labels import LabelIndex, index_labels, map_labels, sort_labels, suggest_labels

_MAX_CODE = 1 << 24


@dataclass(frozen=True, slots=True)
class Axis:
    """What is known beforehand about the models or about one context mode."""

    what: str
    labels: Sequence[Hashable] | None
    size: int | None
    integer_codes: bool  # whether integers are codes rather than labels


def assemble(
    columns: Sequence[Coded],
    axes: Sequence[Axis],
    counts: IntArray | None,
    *,
    outcome_name: str,
    outcomes: Mapping[Hashable, float | None] | None = None,
    ties: str = "half",
) -> tuple[Cells, list[tuple[Any, ...]], int]:
    """Cells, labels per axis and number of self-battles dropped.

    Parameters
    ----------
    columns : sequence of Coded
        Context columns, then first model, second model, outcome.
    axes : sequence of Axis
        The models, then each context mode.
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

    rows, total = count_rows([c.codes for c in columns], [len(c.labels) for c in columns], counts)
    per_outcome = np.bincount(rows[-1], weights=total, minlength=len(outcome.labels)).astype(np.int64)
    y = outcome_values(outcome, per_outcome, outcomes, outcome_name)[rows[-1]]
    kept = ~np.isnan(y) & ((y != 0.5) | (ties == "half"))

    n_self = 0
    labels: list[tuple[Any, ...]] = []
    codes: list[IntArray] = []
    for axis, sides in zip(axes, [(-3, -2), *[(k,) for k in range(len(modes))]], strict=True):
        held = [rows[k] for k in sides]
        values, ids = _joint_codes([columns[k] for k in sides], held)
        if axis is axes[0]:
            duel = ids[0] != ids[1]
            n_self = int(total[kept & ~duel].sum())
            kept &= duel
            if not kept.any():
                raise EmptyDataError(_nothing_left(n_self))
        is_code = axis.integer_codes and all(columns[k].is_integer for k in sides)
        used = np.unique(np.concatenate([side[kept] for side in ids]))
        found, index = _axis_labels(axis, values, [values[k] for k in used], is_code)
        lookup = map_labels(values, index)
        labels.append(found)
        codes.extend(lookup[side[kept]] for side in ids)

    a, b, *contexts = codes
    shape = tuple(map(len, labels[1:]))
    if prod(shape) >= 2**31:
        raise TooManyContextsError(
            f"context modes of sizes {shape} make {prod(shape)} contexts; at most 2**31 - 1 fit."
        )
    flat = np.zeros(len(a), dtype=np.int64)
    for size, code in zip(shape, contexts, strict=True):
        flat = flat * size + code
    return make_cells(flat, a, b, y[kept], total[kept], n_models=len(labels[0]), n_contexts=prod(shape)), labels, n_self


def _nothing_left(n_self: int) -> str:
    why = f"{n_self} compare a model with itself, " if n_self else ""
    return f"no battles are left: {why}the others have count 0 or an outcome that was dropped. Check the columns."


def _joint_codes(columns: Sequence[Coded], rows: Sequence[IntArray]) -> tuple[list[Any], list[IntArray]]:
    """Labels that occur in some columns, and the rows of each column as positions among them."""
    index: LabelIndex = {}
    ids = []
    for column, codes in zip(columns, rows, strict=True):
        lookup = np.full(len(column.labels), -1, dtype=np.int64)
        for code in np.flatnonzero(np.bincount(codes, minlength=len(column.labels))):
            lookup[code] = index.setdefault(column.labels[code], len(index))
        ids.append(lookup[codes])
    return list(index), ids


def _axis_labels(axis: Axis, present: list[Any], used: list[Any], is_code: bool) -> tuple[tuple[Any, ...], LabelIndex]:
    """Return the final labels of an axis, and where each value of the columns stands among them."""
    if axis.labels is not None and axis.size is not None and len(axis.labels) != axis.size:
        raise LabelError(
            f"{axis.what}: {len(axis.labels)} labels were listed for {axis.size}; give as many as there are."
        )
    if is_code:
        return _code_labels(axis, present)
    if axis.size is not None and axis.labels is None:
        raise LabelError(f"{axis.what} are given by label; list them (models=, levels=) instead of saying how many.")
    if axis.labels is None:
        labels = sort_labels(used, axis.what)
        return labels, index_labels(labels, axis.what)
    labels = tuple(axis.labels)
    index = index_labels(labels, axis.what)
    unknown = [value for value in present if value not in index]
    if unknown:
        raise LabelError(
            f"{axis.what}: {unknown[0]!r} is not among the labels listed; {suggest_labels(unknown[0], labels)}."
        )
    return labels, index


def _code_labels(axis: Axis, present: list[int]) -> tuple[tuple[Any, ...], LabelIndex]:
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
