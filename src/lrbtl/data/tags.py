"""Tags: labels of which a vote may carry several. The distinct sets of them become the levels of one context mode."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lrbtl.data.encode import Coded, as_series, encode, is_missing, used_codes
from lrbtl.data.labels import set_label
from lrbtl.errors import InputTypeError, TagError
from lrbtl.typing import Ints, Longs

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
                label = set_label(self._parts(key))
                code = self.known[key] = self.sets.setdefault(label, len(self.sets))
            codes[k] = code
        self.chunks.append(codes)

    def _parts(self, key: Any) -> list[str]:
        if key is None:
            return []
        if isinstance(key, str):
            return [part for text in DELIMITERS.split(key) if (part := text.strip(WRAPPING))]
        return [str(part) for part in key]

    def coded(self) -> Coded:
        """Return the whole column; one that holds nothing but 0 and 1 is a tag itself."""
        codes, words = np.concatenate(self.chunks), [label[1:-1].lower() for label in self.sets]
        if set(words) <= {*YES, *NO}:
            return join_flags({self.name: Coded(codes, words, all_used=True)})
        return Coded(codes, list(self.sets), all_used=True)


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
