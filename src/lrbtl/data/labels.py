"""Labels of models and context levels: their order, their union, and looking them up."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import product
from math import prod
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from lrbtl.data.cells import Cells
from lrbtl.errors import (
    LONGEST_SHOWN,
    ContextModeError,
    LabelError,
    LrbtlError,
    MixedLabelError,
    TagError,
    UnknownContextError,
    UnknownModelError,
    check_type,
    spelled,
)
from lrbtl.typing import Longs

Label = Hashable
LabelIndex = dict[Any, int]

OVERALL = "overall"  # what the mean of all contexts is called, where no level is
SEPARATOR = " / "  # between the levels of a context of several modes, in every text
ANY = "*"  # a mode of which all levels are meant
BETWEEN_TAGS = ", "  # in the label of a set of tags, which stands in braces


def sort_labels(labels: Iterable[Label], what: str) -> tuple[Any, ...]:
    """Distinct labels in increasing order.

    >>> sort_labels(["b", "a", "b"], "models")
    ('a', 'b')
    """
    distinct: set[Any] = set(labels)
    by_type = dict(zip(map(type, distinct), distinct, strict=True))
    examples = {_kind(label): label for label in by_type.values()}
    if len(examples) > 1:
        shown = ", ".join(f"{label!r} ({kind})" for kind, label in sorted(examples.items()))
        raise MixedLabelError(f"{what} mix labels of several types, such as {shown}; convert the columns to one type.")
    try:
        return tuple(sorted(distinct))
    except TypeError as error:
        raise MixedLabelError(
            f"{what} have labels that cannot be ordered ({error}); convert them to strings."
        ) from error


def _kind(label: Label) -> str:
    if isinstance(label, bool | np.bool_):
        return "bool"
    if isinstance(label, Real):
        return "number"
    return "str" if isinstance(label, str) else type(label).__name__


def union_labels(left: tuple[Any, ...], right: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """Labels of both: the list that contains the other one in its own order, else all of them sorted."""
    if left == right or set(left) >= set(right):
        return left
    if set(right) >= set(left):
        return right
    return sort_labels((*left, *right), what)


def index_labels(labels: Sequence[Label], what: str) -> LabelIndex:
    """Position of each label; repeated labels are an error."""
    index = {label: k for k, label in enumerate(labels)}
    if len(index) < len(labels):
        repeated = next(label for k, label in enumerate(labels) if index[label] != k)
        raise LabelError(f"{what} list {repeated!r} more than once; every label must be there once.")
    return index


def find_label(index: LabelIndex, label: object, what: str, error: type[LrbtlError]) -> int:
    """Position of a label; an integer that is no label itself is taken as a code.

    >>> from lrbtl.errors import UnknownModelError
    >>> find_label({"x": 0, "y": 1}, "y", "model", UnknownModelError)
    1
    >>> find_label({"x": 0, "y": 1}, 0, "model", UnknownModelError)
    0
    """
    try:
        return index[label]
    except Exception:  # also what the hash of a class of the caller's raises
        pass
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        if 0 <= label < len(index):
            return int(label)
        raise error(
            f"{what} {spelled(label)} is neither a label nor a code from 0 to {len(index) - 1}.",
            argument=what,
            value=label,
        )
    raise error(f"unknown {what} {spelled(label)}; {suggest_labels(label, index)}", argument=what, value=label)


def is_hashable(label: object) -> bool:
    """Return whether a value can be a label, whatever its hash raises where not."""
    try:
        hash(label)
    except Exception:
        return False
    return not is_missing(label)


def is_missing(label: object) -> bool:
    """Whether a label is None, NaN, NaT or NA."""
    try:
        return label is None or bool(label != label)
    except Exception:  # the truth value of pandas.NA, of an array, or a class of the caller's
        return True


def context_name(context: Any) -> str:
    """Context's label as text: levels of several modes with " / " between them, "*" for all levels of a mode.

    >>> context_name("math"), context_name(("math", "crowd")), context_name(("math", None))
    ('math', 'math / crowd', 'math / *')
    """
    parts = context if isinstance(context, tuple) else (context,)
    return SEPARATOR.join(ANY if part is None else str(part) for part in parts)


def shown_context(context: Any) -> str:
    """Name of a board's context in titles and tables: "overall" for None, which no context is called.

    A level that holds the separator is quoted, so that two contexts never share a name.

    >>> shown_context(None), shown_context("math"), shown_context("overall")
    ('overall', 'math', 'context "overall"')
    >>> shown_context(("a", "b / c")), shown_context(("a", None))
    ('a / "b / c"', 'a / *')
    """
    if context is None:
        return OVERALL
    if isinstance(context, tuple):
        context = tuple(f'"{part}"' if SEPARATOR in str(part) else part for part in context)
    name = context_name(context)
    return f'context "{name}"' if name.lower() == OVERALL else name


def set_label(tags: Iterable[str]) -> str:
    """Label of a set of tags.

    >>> set_label(["math", "code", "math"]), set_label([])
    ('{code, math}', '{}')
    """
    names = sorted(set(tags))
    for name in names:
        if BETWEEN_TAGS in name or name.startswith("{") or not name:
            raise TagError(f"a tag is called {name!r}: a tag has a name, without ', ', that does not begin with '{{'.")
    return "{" + BETWEEN_TAGS.join(names) + "}"


def tags_of(label: str) -> list[str]:
    """Tags in the label of a set.

    >>> tags_of("{code, math}"), tags_of("{}")
    (['code', 'math'], [])
    """
    return [tag for tag in label[1:-1].split(BETWEEN_TAGS) if tag]


def _context_parts(context: object, indexes: Sequence[LabelIndex], names: Sequence[str]) -> tuple[object, ...]:
    """One level per mode, from a level, a tuple, a text with " / " between levels, or levels by name of the mode."""
    if isinstance(context, Mapping):
        known = {name: k for k, name in enumerate(names)}
        given = {find_label(known, name, "context mode", ContextModeError): level for name, level in context.items()}
        return tuple(given.get(k) for k in range(len(names)))
    if len(indexes) == 1:
        is_wrapped = isinstance(context, tuple) and len(context) == 1 and context not in indexes[0]
        return context if is_wrapped else (context,)  # type: ignore[return-value]
    if isinstance(context, str):
        for mark in (SEPARATOR, SEPARATOR.strip()):
            parts = [part.strip() for part in context.split(mark)]
            if len(parts) == len(indexes):
                pairs = zip(parts, indexes, strict=True)
                return tuple(None if part == ANY and part not in index else part for part, index in pairs)
    return () if context is None else context if isinstance(context, tuple) else (context,)


def name_modes(contexts: Any, names: Sequence[str]) -> Mapping[str, Iterable[object]]:
    """Levels by name of the mode; a plain list of levels belongs to the only mode."""
    if contexts is None or isinstance(contexts, Mapping):
        return contexts or {}
    if len(names) != 1:
        raise ContextModeError(
            f"the battles have {len(names)} context modes; give contexts={{name: levels}} with names from {names}."
        )
    return {names[0]: contexts}


def suggest_labels(label: object, known: Iterable[Label]) -> str:
    """End of a message that names the labels nearest to one that is not known."""
    known = list(known)
    names = [str(name) for name in known]
    text = label if isinstance(label, str) else spelled(label)
    if text in names:
        meant = known[names.index(text)]
        return f"labels here are of type {type(meant).__name__}, not {type(label).__name__}: write {meant!r}."
    lower = {name.lower(): name for name in names}
    near = [lower[name] for name in get_close_matches(text[:LONGEST_SHOWN].lower(), lower, n=3, cutoff=0.5)]
    if near:
        return "did you mean " + " or ".join(repr(name) for name in near) + "?"
    shown = ", ".join(repr(name) for name in names[:5])
    return f"known are {shown}" + (f" and {len(names) - 5} more" if len(names) > 5 else "") + "."


def some_of(names: Sequence[object], most: int = 4) -> str:
    """Names as one text, the first of them where there are many.

    >>> some_of(["x", "y"]), some_of("abcdef")
    ('x, y', 'a, b, c, d, ...')
    """
    return ", ".join(map(str, names[:most])) + (", ..." if len(names) > most else "")


def map_labels(labels: Iterable[Label], index: LabelIndex) -> Longs:
    """Positions of known labels, -1 for the others."""
    return np.fromiter((index.get(label, -1) for label in labels), dtype=np.int64)


def map_contexts(old: Sequence[Sequence[Label]], new: Sequence[Sequence[Label]]) -> Longs:
    """Flat positions of the contexts of `old` levels (one list per mode) among those of `new`, -1 where absent.

    >>> map_contexts([("en", "fr"), ("code",)], [("fr",), ("code", "math")]).tolist()
    [-1, 0]
    """
    flat = np.zeros(1, dtype=np.int64)
    for old_labels, new_labels in zip(old, new, strict=True):
        step = map_labels(old_labels, {label: k for k, label in enumerate(new_labels)})
        known = (flat[:, None] >= 0) & (step >= 0)
        flat = np.where(known, flat[:, None] * len(new_labels) + step, -1).ravel()
    return flat


# ------------------------------------------------------------------------------
# Labels of models and context levels with their positions, shared by battles and observed entries.
# ------------------------------------------------------------------------------


class Labelled:
    """Cells with labels: look-ups by label or code, shapes and counts."""

    cells: Cells
    models: tuple[Any, ...]
    levels: tuple[tuple[Any, ...], ...]
    mode_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    tag_mode: str | None = None  # name of the mode whose levels are sets of tags
    unit: ClassVar[str] = "battles"  # what rows are, in messages

    @property
    def axes(self) -> tuple[str, str]:
        """What mode 1 and the others hold, in messages."""
        return ("model", "context")

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of models and of levels of each context mode: (d1, d2, ..., dm)."""
        return (len(self.models), *map(len, self.levels))

    @property
    def n_battles(self) -> int:
        """Number of battles."""
        return self.cells.n_battles

    @property
    def n_cells(self) -> int:
        """Number of distinct battles."""
        return self.cells.n_cells

    @property
    def n_contexts(self) -> int:
        """Number of contexts D, with or without battles; 1 when there are no context modes."""
        return prod(self.shape[1:])

    @cached_property
    def context_counts(self) -> Longs:
        """Battles in each context: int64 (D,)."""
        return np.diff(np.concatenate([[0], np.cumsum(self.cells.count)])[self.cells.start])

    @cached_property
    def _model_index(self) -> LabelIndex:
        return index_labels(self.models, "models")

    @cached_property
    def _level_index(self) -> tuple[LabelIndex, ...]:
        return tuple(index_labels(labels, name) for labels, name in zip(self.levels, self.mode_names, strict=True))

    @cached_property
    def tag_sets(self) -> dict[str, tuple[int, ...]]:
        """Tags, and the positions of the sets that contain each, in the mode of tags; empty where there is none."""
        found: dict[str, list[int]] = {}
        if self.tag_mode in self.mode_names:
            for k, label in enumerate(self.levels[self.mode_names.index(self.tag_mode)]):
                for tag in tags_of(label):
                    found.setdefault(tag, []).append(k)
        return {tag: tuple(found[tag]) for tag in sorted(found)}

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags of the battles, sorted."""
        return tuple(self.tag_sets)

    def codes_of(self, mode: int, label: object) -> tuple[int, ...]:
        """Positions of the levels that a label of a mode stands for: one, or for a tag the sets that contain it."""
        if not isinstance(mode, int | np.integer) or not 0 <= mode < len(self.mode_names):
            raise ContextModeError(
                f"mode={spelled(mode)}: give the number of a context mode, of which there are {len(self.mode_names)}.",
                argument="mode",
                value=mode,
            )
        name, index = self.mode_names[mode], self._level_index[mode]
        if name != self.tag_mode:
            return (find_label(index, label, f"level of {name}", UnknownContextError),)
        if isinstance(label, str) and label in self.tag_sets:
            return self.tag_sets[label]
        known = {**dict.fromkeys(self.tags, -1), **index} if isinstance(label, str) else index
        return (find_label(known, label, "tag", UnknownContextError),)

    def model_index(self, model: object) -> int:
        """Position of a model given by label or by code.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays(["x", "z"], ["y", "y"], [1, 0])
        >>> battles.model_index("z"), battles.model_index(1)
        (2, 1)
        """
        return find_label(self._model_index, model, self.axes[0], UnknownModelError)

    def context_index(self, context: object = None) -> int:
        """Flat position of a context: a label or code for one mode, a tuple of them for several, None for none.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0], [["en", "fr"], ["code", "math"]])
        >>> battles.context_index(("fr", "code")), battles.context_index((0, 1))
        (2, 1)
        """
        flat = 0
        parts = zip(self._parts_of(context), self.levels, self.mode_names, strict=True)
        for mode, (part, labels, name) in enumerate(parts):
            if part is None:
                raise ContextModeError(
                    f"context {context!r} leaves {name} open, where one level is needed: name it too."
                )
            code, *more = self.codes_of(mode, part)
            if more:
                raise ContextModeError(
                    f"{part!r} is a tag of {1 + len(more)} sets, where one set is needed, such as {labels[code]!r}."
                )
            flat = flat * len(labels) + code
        return flat

    def context_indices(self, context: object) -> Longs:
        """Flat positions of the contexts that share some levels.

        A context of several modes may be a tuple, a text such as "fr / code", or a mapping from modes to levels. None
        or "*" in place of a level, or a mode that the mapping leaves out, stands for all levels of that mode. "overall"
        stands for all contexts, unless a level is called that.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0], [["en", "fr"], ["code", "math"]])
        >>> battles.context_indices(("fr", None)).tolist(), battles.context_indices("* / math").tolist()
        ([2, 3], [1, 3])
        """
        parts, shape = self._parts_of(context), self.shape[1:]
        chosen = [range(shape[k]) if part is None else self.codes_of(k, part) for k, part in enumerate(parts)]
        grid = np.meshgrid(*chosen, indexing="ij")
        return np.ravel_multi_index([axis.ravel() for axis in grid], shape) if shape else np.zeros(1, dtype=np.int64)

    def _parts_of(self, context: object) -> tuple[object, ...]:
        """Label of a context in each mode, None where it is not given."""
        indexes, names = self._level_index, self.mode_names
        if isinstance(context, str) and context == OVERALL and not any(context in index for index in indexes):
            return (None,) * len(indexes)
        parts = _context_parts(context, indexes, names)
        if not indexes and parts:
            raise ContextModeError(
                f"context {context!r} is asked for, but these battles have no contexts: leave context out, or name "
                "their columns when the battles are read."
            )
        if len(parts) != len(indexes):
            raise ContextModeError(
                f"context {context!r} names {len(parts)} modes, but the battles have {len(indexes)} "
                f"({', '.join(names)}); give a tuple with one level of each, None for the mean over a mode."
            )
        return parts

    def board_label(self, context: object) -> Any:
        """Label of the board of a context: a level or tag, a tuple of them with None for open modes, None for all.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0], [["en", "fr"], ["code", "math"]])
        >>> battles.board_label("fr / *"), battles.board_label(None)
        (('fr', None), None)
        """
        if context is None:
            return None
        labels = []
        for mode, part in enumerate(self._parts_of(context)):
            is_tag = self.mode_names[mode] == self.tag_mode and part in self.tags
            labels.append(part if part is None or is_tag else self.levels[mode][self.codes_of(mode, part)[0]])
        if all(label is None for label in labels):
            return None
        return labels[0] if len(labels) == 1 else tuple(labels)

    def context_title(self, context: object) -> str:
        """Name of a context, or of all contexts that share some levels, in titles and tables."""
        return context_name(self.board_label(context))

    def board_contexts(self) -> dict[Any, Longs]:
        """Labels of the boards beside the overall one, and the flat contexts of each.

        There is one per context; with tags one per tag, and with further modes one per tag and level.
        """
        choices = [
            [(tag, codes) for tag, codes in self.tag_sets.items()]
            if name == self.tag_mode
            else [(label, (k,)) for k, label in enumerate(labels)]
            for name, labels in zip(self.mode_names, self.levels, strict=True)
        ]
        boards = {}
        for chosen in product(*choices) if choices else ():
            label, codes = zip(*chosen, strict=True)
            flat = np.ravel_multi_index(np.ix_(*codes), self.shape[1:]).ravel()
            boards[label[0] if len(label) == 1 else label] = flat
        return boards

    def context_label(self, context: int) -> Any:
        """Label of a flat context: the level for one mode, a tuple for several, None for none."""
        if not isinstance(context, int | np.integer) or not 0 <= context < self.n_contexts:
            raise UnknownContextError(
                f"context={spelled(context)}: give the number of a context, from 0 to {self.n_contexts - 1}.",
                argument="context",
                value=context,
            )
        parts = np.unravel_index(context, self.shape[1:]) if self.levels else ()
        labels = tuple(names[int(k)] for names, k in zip(self.levels, parts, strict=True))
        return labels[0] if len(labels) == 1 else labels or None


def check_same_labels(battles: Labelled, fitted: Labelled) -> None:
    """Raise `LabelError` where battles have other models or levels than those that a fit was made from."""
    check_type(battles, Labelled, "battles", "give battles with the labels of those fitted")
    if battles.models != fitted.models or battles.levels != fitted.levels:
        raise LabelError(
            f"the battles, of shape {battles.shape}, have other models or levels than those of the fit, of shape "
            f"{fitted.shape}: build both with the same models= and levels=, or select the same ones in both."
        )
