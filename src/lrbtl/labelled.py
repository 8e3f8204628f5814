"""Labels of models and context levels with their positions, shared by battles and observed entries."""

from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from lrbtl.cells import Cells, IntArray
from lrbtl.errors import UnknownModelError
from lrbtl.labels import LabelIndex, context_name, find_context, find_contexts, find_label, find_levels, index_labels


class Labelled:
    """Cells with labels: look-ups by label or code, shapes and counts."""

    cells: Cells
    models: tuple[Any, ...]
    levels: tuple[tuple[Any, ...], ...]
    names: tuple[str, ...]

    def say(self, text: str) -> str:
        """Return a sentence that was written of battles, models, contexts and scores in the words of these data."""
        return text

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
    def context_counts(self) -> IntArray:
        """Battles in each context: int64 (D,)."""
        return np.diff(np.concatenate([[0], np.cumsum(self.cells.count)])[self.cells.start])

    @cached_property
    def _model_index(self) -> LabelIndex:
        return index_labels(self.models, "models")

    @cached_property
    def _level_index(self) -> tuple[LabelIndex, ...]:
        return tuple(index_labels(labels, name) for labels, name in zip(self.levels, self.names, strict=True))

    def model_index(self, model: object) -> int:
        """Position of a model given by label or by code.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays(["x", "z"], ["y", "y"], [1, 0])
        >>> battles.model_index("z"), battles.model_index(1)
        (2, 1)
        """
        return find_label(self._model_index, model, self.say("model"), UnknownModelError)

    def context_index(self, context: object = None) -> int:
        """Flat position of a context: a label or code for one mode, a tuple of them for several, None for none.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0], [["en", "fr"], ["code", "math"]])
        >>> battles.context_index(("fr", "code")), battles.context_index((0, 1))
        (2, 1)
        """
        return find_context(context, self._level_index, self.names)

    def context_indices(self, context: object) -> IntArray:
        """Flat positions of the contexts that share some levels.

        A context of several modes may be a tuple, a text such as "fr / code", or a mapping from modes to levels. None
        or "*" in place of a level, or a mode that the mapping leaves out, stands for all levels of that mode.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0], [["en", "fr"], ["code", "math"]])
        >>> battles.context_indices(("fr", None)).tolist(), battles.context_indices("* / math").tolist()
        ([2, 3], [1, 3])
        """
        return find_contexts(context, self._level_index, self.names)

    def context_title(self, context: object) -> str:
        """Name of a context, or of all contexts that share some levels, in titles and tables."""
        codes = find_levels(context, self._level_index, self.names)
        return context_name(tuple(None if k is None else names[k] for names, k in zip(self.levels, codes, strict=True)))

    def context_label(self, context: int) -> Any:
        """Label of a flat context: the level for one mode, a tuple for several, None for none."""
        parts = np.unravel_index(context, self.shape[1:]) if self.levels else ()
        labels = tuple(names[int(k)] for names, k in zip(self.levels, parts, strict=True))
        return labels[0] if len(labels) == 1 else labels or None
