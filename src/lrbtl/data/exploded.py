"""Votes that were copied under each of their labels, as `explode` of a data frame does: noticed, and told about.

Copies of a vote have the same models, outcome and identifier, and never the same label twice. Rows are put into groups
that copies would share: neighbours with the same models, or rows with the same value of some further column. Groups are
copies where nearly all outcomes in them agree and equal labels are far rarer than chance would have it. Votes of a
balanced design miss the first condition, votes that share a coarse column or the order of a sorted log the second.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lrbtl.data.encode import Coded, as_series, encode
from lrbtl.errors import ExplodedRowsWarning, LrbtlError, warn_user
from lrbtl.typing import AnyInts, Floats, Indices, Longs

ROWS = 20_000  # that are looked at; all rows of some pairs of models, so that no copies are torn apart
FEWEST = 20.0  # pairs of rows with equal labels that chance would bring: below it nothing is said
SHARE = 0.05  # least share of rows that are copies
REPELLED = 0.3  # most equal labels in groups of copies, over what chance would bring
AGREE, NEIGHBOURS_AGREE = 0.98, 0.9  # least share of equal outcomes; neighbours may be two votes of one pair
SPREAD = 2654435761  # an odd number that spreads codes evenly over 32 bits


def warn_of_copies(
    columns: Sequence[Coded], names: Sequence[str], others: Callable[[], Iterable[tuple[str, Any]]] = tuple
) -> None:
    """Warn where rows look like copies of one vote under several labels.

    Parameters
    ----------
    columns : sequence of Coded
        Contexts, then first model, second model, outcome.
    names : sequence of str
        Of the contexts.
    others : callable
        Gives further columns with their names, read only where neighbours are no copies.
    """
    *contexts, first, second, outcome = columns
    if len({len(column) for column in columns}) > 1:
        return  # an error that comes later
    label = np.zeros(len(outcome), dtype=np.int64)
    for column in contexts:
        label = label * len(column.labels) + column.codes
    a, b = (side.codes.astype(np.int64) for side in (first, second))
    run = np.cumsum(np.concatenate([[False], (np.diff(a) != 0) | (np.diff(b) != 0)]))
    pair = a * (int(b.max(initial=0)) + 1) + b
    at = _rows_of_some_pairs(pair)
    label, y, pair = label[at], outcome.codes[at], pair[at]
    if share := copied_share(run[at], label, y, NEIGHBOURS_AGREE):
        _warn(share, "neighbouring rows with the same models and outcome", names)
        return
    for name, column in others():
        try:
            key = encode(_take(column, at), name).codes.astype(np.int64)
        except (LrbtlError, TypeError, ValueError, IndexError):  # lists, missing values: no identifier
            continue
        if share := copied_share(key * (int(pair.max(initial=0)) + 1) + pair, label, y, AGREE):
            _warn(share, f"rows with the same {name}, models and outcome", names)
            return


def copied_share(group: AnyInts, label: AnyInts, y: AnyInts, agree: float) -> float:
    """Return the share of rows that are copies, 0 where groups do not look like copies of votes.

    >>> vote = np.repeat(np.arange(200), 2)
    >>> copied_share(vote, np.tile([0, 1], 200), vote % 2, 0.98), copied_share(vote, vote % 3, vote % 2, 0.98)
    (1.0, 0.0)
    """
    sizes = np.unique(group, return_counts=True)[1]
    pairs = _pairs(sizes)
    share = np.unique(label, return_counts=True)[1] / max(len(label), 1)
    chance = pairs * float(share @ share)
    copies = float(sizes[sizes > 1].sum() / max(len(group), 1))
    if chance < FEWEST or copies < SHARE or _equal_pairs(group, label) > REPELLED * chance:
        return 0.0
    return copies if _equal_pairs(group, y) >= agree * pairs else 0.0


def _pairs(sizes: Longs | Floats) -> float:
    return float((sizes * (sizes - 1)).sum() / 2)


def _equal_pairs(group: AnyInts, value: AnyInts) -> float:
    """Return the number of pairs of rows of one group with equal values."""
    _, codes = np.unique(value, return_inverse=True)
    return _pairs(np.unique(group.astype(np.int64) * (int(codes.max(initial=0)) + 1) + codes, return_counts=True)[1])


def _rows_of_some_pairs(pair: Longs) -> Indices:
    place = (pair * SPREAD) % (1 << 32)
    limit = place.max(initial=0) if len(pair) <= ROWS else np.partition(place, ROWS)[ROWS]
    return np.flatnonzero(place <= limit)


def _take(column: Any, at: Indices) -> Any:
    """Return some rows of a column, as something that `encode` takes."""
    if isinstance(column, list | tuple):
        return [column[k] for k in at.tolist()]
    series = None if isinstance(column, np.ndarray) else as_series(column)
    return column[at] if series is None else series[at.tolist()].to_native()


def _warn(share: float, which: str, names: Sequence[str]) -> None:
    warn_user(
        f"{share:.0%} of the rows look like copies of votes under several labels of {', '.join(names)}: {which} hold "
        "different labels. Each copy counts as a vote, so that intervals are too narrow. Keep one row per vote, and "
        "give all of its labels in a column of lists or texts: Battles.from_frame(..., tags=...).",
        ExplodedRowsWarning,
    )
