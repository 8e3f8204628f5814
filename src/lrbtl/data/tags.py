"""Tags: labels of which a vote may carry several. The distinct sets of them become the levels of one context mode.

Logs in which votes were copied under each of their labels instead are noticed and reported.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrbtl.data.encode import Coded, as_series, encode, used_codes
from lrbtl.data.labels import is_missing, set_label
from lrbtl.errors import ExplodedRowsWarning, InputTypeError, LrbtlError, TagError, warn_user
from lrbtl.typing import AnyInts, Floats, Indices, Ints, Longs

TAG_MODE = "tags"
DELIMITERS = re.compile(r"[,;|]")
WRAPPING = " \t\r\n[](){}'\""  # what lists written as text have round their parts
YES, NO = ("1", "1.0", "true", "yes", "t", "y"), ("0", "0.0", "false", "no", "f", "n")


def read_tags(columns: Mapping[str, Any], tags: str | Sequence[str]) -> Coded:
    """Return the set of tags of each row: codes, and labels such as ``{code, math}``.

    Parameters
    ----------
    columns : mapping of columns
    tags : str or sequence of str
        A column of lists, or of text with "," ";" or "|" between tags; or columns of 0 and 1, named like the tags.

    >>> read_tags({"t": ["math;code", "", "code|math"]}, "t").labels
    ['{code, math}', '{}']
    >>> read_tags({"math": [1, 0], "code": [True, False]}, ["math", "code"]).labels
    ['{}', '{code, math}']
    """
    if isinstance(tags, str) and isinstance(column := columns[tags], Coded):
        sets = read_tags({tags: list(column.labels)}, tags)
        return Coded(sets.codes[column.codes], sets.labels)
    if not isinstance(tags, str) or _holds_numbers(columns[tags]):
        names = [tags] if isinstance(tags, str) else list(tags)
        return join_flags({name: encode(columns[name], name) for name in names})
    coder = TagCoder(tags)
    coder.add(_as_list(columns[tags], tags), 0)
    return coder.coded()


class TagCoder:
    """Codes of sets of tags that come in chunks: distinct sets are numbered as they appear."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sets: dict[str, int] = {}  # label of a set -> code
        self.known: dict[Any, int] = {}  # text, or tuple of tags as written -> code
        self.chunks: list[Ints] = []

    def add(self, values: Sequence[Any], first_row: int) -> None:
        """Add a chunk of lists or texts; nothing, or an empty list, is a set of its own."""
        codes = np.empty(len(values), dtype=np.int32)
        for k, value in enumerate(values):
            try:
                key = value if value is None or isinstance(value, str) else tuple(value)
                code = self.known.get(key)
            except TypeError:
                key, code = None, None
                if not is_missing(value):
                    raise TagError(
                        f"{self.name} holds {value!r} in row {first_row + k}: tags are lists, texts with ',' ';' or "
                        "'|' between them, or columns of 0 and 1."
                    ) from None
            if code is None:
                label = set_label(tags_of(key))
                code = self.known[key] = self.sets.setdefault(label, len(self.sets))
            codes[k] = code
        self.chunks.append(codes)

    def coded(self) -> Coded:
        """Return the whole column; one that holds nothing but 0 and 1 is a tag itself."""
        codes, words = np.concatenate(self.chunks), [label[1:-1].lower() for label in self.sets]
        if set(words) <= {*YES, *NO}:
            return join_flags({self.name: Coded(codes, words, all_used=True)})
        return Coded(codes, list(self.sets), all_used=True)


def tags_of(key: Any) -> list[str]:
    """Return the tags that a text or a tuple holds.

    >>> tags_of("code; math"), tags_of(None)
    (['code', 'math'], [])
    """
    if is_missing(key):
        return []
    if isinstance(key, str):
        return [part for text in DELIMITERS.split(key) if (part := text.strip(WRAPPING))]
    return [str(part) for part in key]


def _as_list(column: Any, name: str) -> list[Any]:
    if isinstance(column, np.ndarray):
        return list(column.tolist())
    series = None if isinstance(column, list | tuple) else as_series(column)
    if series is not None:
        return list(series.to_list())
    if isinstance(column, str | bytes | Mapping) or not hasattr(column, "__len__"):
        raise InputTypeError(f"{name} is a {type(column).__name__}; give a list, an array or a series.")
    return list(column)


def _holds_numbers(column: Any) -> bool:
    """Whether a column holds numbers or truth values, one per row."""
    if isinstance(column, np.ndarray):
        return column.dtype.kind in "biuf"
    series = None if isinstance(column, list | tuple) else as_series(column)
    if series is not None:
        import narwhals as nw

        return bool(series.dtype.is_numeric() or series.dtype == nw.Boolean)
    return bool(len(column)) and isinstance(column[0], bool | int | float)


def join_flags(columns: Mapping[str, Coded]) -> Coded:
    """Return the sets of tags whose columns hold 1."""
    if not columns:
        raise TagError("tags is an empty list: name a column of lists, or the columns of 0 and 1.")
    key: Longs | None = None
    kept: list[list[str]] = [[]]
    for name, column in columns.items():
        present = _flags(column, name)
        key = present if key is None else 2 * key + present
        found, key = np.unique(key, return_inverse=True)  # never more than the rows, however many columns
        kept = [kept[k >> 1] + ([name] if k & 1 else []) for k in found.tolist()]
    return Coded(np.asarray(key).astype(np.int32), [set_label(names) for names in kept], all_used=True)


def _flags(column: Coded, name: str) -> Longs:
    used = used_codes(column)
    meaning = np.zeros(len(column.labels), dtype=np.int64)
    for code, label in zip(used.tolist(), column.values(used), strict=True):
        word = str(label).strip().lower()
        if word not in YES + NO:
            raise TagError(
                f"{name} holds {label!r}, but a column that is a tag holds 0 or 1; for a column of lists or of texts "
                f"give its name alone, tags={name!r}."
            )
        meaning[code] = word in YES
    return meaning[column.codes]


# ------------------------------------------------------------------------------
# Votes that were copied under each of their labels, as `explode` of a data frame does.
#
# Copies of a vote have the same models, outcome and identifier, and never the same label twice. Rows are put into
# groups that copies would share: neighbours with the same models, or rows with the same value of some further column.
# Groups are copies where nearly all outcomes in them agree and equal labels are far rarer than chance would have it.
# Votes of a balanced design miss the first condition, votes that share a coarse column or the order of a sorted log the
# second.
# ------------------------------------------------------------------------------

ROWS = 20_000  # that are looked at; all rows of some pairs of models, so that no copies are torn apart
SAMPLE = 100_000  # rows from which these pairs are found, about
FEWEST = 20.0  # pairs of rows with equal labels that chance would bring: below it nothing is said
SHARE = 0.05  # least share of rows that are copies
REPELLED = 0.3  # most equal labels in groups of copies, over what chance would bring
AGREE, NEIGHBOURS_AGREE = 0.98, 0.9  # least share of equal outcomes; neighbours may be two votes of one pair
CHUNK = 1 << 16  # rows that stay in cache
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
    at = _rows_of_some_pairs(first.codes, second.codes)
    label, y = np.zeros(len(at), dtype=np.int64), outcome.codes[at]
    for column in contexts:
        label = label * len(column.labels) + column.codes[at]
    pair = first.codes[at].astype(np.int64) * len(second.labels) + second.codes[at]
    run = np.cumsum(np.concatenate([[False], (np.diff(at) != 1) | (np.diff(pair) != 0)]))
    if share := copied_share(run, label, y, NEIGHBOURS_AGREE):
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


def _rows_of_some_pairs(a: AnyInts, b: AnyInts) -> Indices:
    """Return the rows that are looked at, in increasing order."""
    n, size = len(a), np.uint32(int(b.max(initial=0)) + 1)

    def places(rows: slice) -> NDArray[np.uint32]:
        return (a[rows].astype(np.uint32) * size + b[rows].astype(np.uint32)) * np.uint32(SPREAD)

    if n <= ROWS:
        return np.arange(n)
    some = places(slice(None, None, max(1, n // SAMPLE)))
    kept = ROWS * len(some) // n
    bound = np.partition(some, kept)[kept]
    parts = [lo + np.flatnonzero(places(slice(lo, lo + CHUNK)) <= bound) for lo in range(0, n, CHUNK)]
    return np.concatenate(parts)


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
