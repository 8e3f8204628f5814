"""Families of targets: every score, or every gap, at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lrbtl.completion import Data, Observations
from lrbtl.targets import target_name


@dataclass(frozen=True)
class Family:
    """Every score, or every gap, at once; see `all_scores` and `all_gaps`."""

    kind: Literal["scores", "gaps"]

    def labels(self, battles: Data) -> "FamilyLabels":
        """Return the labels, made when they are read."""
        return FamilyLabels(battles, self.kind)


def all_scores() -> Family:
    """Return the family of all scores, model by model, contexts in order within a model.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.all_scores()
    Family(kind='scores')
    """
    return Family("scores")


def all_gaps() -> Family:
    """Return the family of all gaps: pairs (a, b), a before b, contexts in order within a pair.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.all_gaps()
    Family(kind='gaps')
    """
    return Family("gaps")


@dataclass(frozen=True)
class FamilyLabels(Sequence[str]):
    """Labels of a family, made one by one on demand: there can be millions."""

    battles: Data
    kind: str

    def __len__(self) -> int:
        d1, contexts = self.battles.shape[0], self.battles.n_contexts
        return contexts * (d1 if self.kind == "scores" else d1 * (d1 - 1) // 2)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        i = range(len(self))[i]
        battles, contexts = self.battles, self.battles.n_contexts
        context = battles.context_label(i % contexts) if len(battles.shape) > 1 else None
        if isinstance(battles, Observations):
            rest = context if isinstance(context, tuple) else () if context is None else (context,)
            return target_name("entry", battles.models[i // contexts], *rest)
        if self.kind == "scores":
            return target_name("score", battles.models[i // contexts], context=context)
        a, b = pair_of(i // contexts, battles.shape[0])
        return target_name("gap", battles.models[a], battles.models[b], context=context)

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))


def pair_of(index: int, d1: int) -> tuple[int, int]:
    """Return the pair a < b at a position of the lexicographic list of pairs."""
    a = int(d1 - 2 - np.floor((np.sqrt(4 * d1 * (d1 - 1) - 8 * index - 7) - 1) / 2))
    return a, int(index + a + 1 - (d1 * (d1 - 1) - (d1 - a) * (d1 - a - 1)) // 2)
