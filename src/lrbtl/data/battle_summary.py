"""Battles in numbers and words: what there is, and what to be careful about."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from lrbtl.data.cells import component_members, points, weak_components
from lrbtl.data.labels import Labelled, context_name, some_of
from lrbtl.errors import ClusterError, spelled
from lrbtl.tables import TextResult, shown_lines
from lrbtl.typing import Bools, Floats, Longs

if TYPE_CHECKING:
    from lrbtl.data.battles import Battles


class BattleSummary(TextResult, Labelled):
    """Summaries of battles in numbers and words; `Battles` is one of these."""

    if TYPE_CHECKING:

        @property
        def vote_weights(self) -> Floats | None:
            """Weight of one vote of each cell."""

    @cached_property
    def n_effective(self) -> float:
        """Effective sample size: (sum of weights)^2 / sum of squared weights."""
        if self.vote_weights is None:
            return float(self.n_battles)
        count = self.cells.count
        return float((count @ self.vote_weights) ** 2 / (count @ self.vote_weights**2))

    @cached_property
    def model_counts(self) -> Longs:
        """Battles of each model: int64 (d1,)."""
        cells, d1 = self.cells, len(self.models)
        total = np.bincount(cells.a, cells.count, d1) + np.bincount(cells.b, cells.count, d1)  # exact below 2**53
        return total.astype(np.int64)

    @cached_property
    def win_rates(self) -> Floats:
        """Share of its battles that each model won, ties half: (d1,); NaN for a model without battles."""
        cells, d1 = self.cells, len(self.models)
        first, second = points(cells.y)
        won = np.bincount(cells.a, cells.count * first, d1) + np.bincount(cells.b, cells.count * second, d1)
        return np.asarray(np.divide(won, self.model_counts, out=np.full(d1, np.nan), where=self.model_counts > 0))

    @cached_property
    def met(self) -> Bools:
        """Which models have battles in which contexts, (D, d1)."""
        out = np.zeros((self.n_contexts, len(self.models)), dtype=np.bool_)
        for side in (self.cells.a, self.cells.b):
            out[self.cells.context, side] = True
        return out

    def cluster_sizes(self, column: int = 0) -> Longs:
        """Votes of each cluster of a column that has some: int64 (number of clusters,)."""
        known = 0 if self.cells.clusters is None else self.cells.clusters.shape[1]
        if self.cells.clusters is None or not (isinstance(column, int | np.integer) and 0 <= column < known):
            raise ClusterError(f"these battles have no cluster column {spelled(column)}: name some with cluster=.")
        sizes = np.bincount(self.cells.clusters[:, column], self.cells.count)
        return sizes[sizes > 0].astype(np.int64)

    @property
    def density(self) -> float:
        """Share of the (context, pair of models) that met at least once."""
        cells = self.cells
        new = (np.diff(cells.context) != 0) | (np.diff(cells.a) != 0) | (np.diff(cells.b) != 0)
        return float((1 + new.sum()) / (self.n_contexts * comb(len(self.models), 2)))

    @property
    def tie_share(self) -> float:
        """Share of the battles that ended in a tie (outcome ½)."""
        return float(self.cells.count[self.cells.y == 0.5].sum() / self.n_battles)

    def summary(self) -> str:
        """Text with shape, counts, density, ties and what to be careful about.

        Examples
        --------
        >>> import lrbtl
        >>> print(lrbtl.Battles.from_arrays(["x", "y"], ["y", "x"], [1, 0.5], counts=[3, 1]).summary())
        Battles: 4 battles in 2 cells
          models     2 (4 to 4 battles each)
          density    100.0% of the pairs met
          ties       25.0%
        """
        return summary_text(self)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return self.summary()


def summary_text(battles: Battles) -> str:
    """Text with shape, counts, density, ties, what votes carry and what to be careful about."""
    lines = [f"Battles: {battles.n_battles:,} battles in {battles.n_cells:,} cells"]
    per_model, per_context = battles.model_counts, battles.context_counts
    lines.append(f"  models     {len(battles.models):,} ({per_model.min():,} to {per_model.max():,} battles each)")
    for name, levels in zip(battles.mode_names, battles.levels, strict=True):
        lines.append(f"  {name:<10} {len(levels):,} levels: {some_of(levels)}")
    if battles.levels:
        lines.append(
            f"  contexts   {battles.n_contexts:,} ({per_context.min():,} to {per_context.max():,} battles each)"
        )
    pairs = "(context, pair)" if battles.levels else "pairs"
    lines.append(f"  density    {battles.density:.1%} of the {pairs} met")
    lines.append(f"  ties       {battles.tie_share:.1%}")
    if battles.covariates:
        lines.append(f"  covariates {', '.join(c.name for c in battles.covariates)}")
    if battles.vote_weights is not None:
        lines.append(f"  weights    worth {battles.n_effective:,.0f} votes of equal weight")
    for k, name in enumerate(battles.cluster_names):
        lines.append(f"  clusters   {battles.cluster_sizes(k).size:,} by {name}")
    return shown_lines("\n".join(lines + [f"  warning    {text}" for text in battle_warnings(battles)]))


def added_notes(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Return the notes of two logs put together: what begins with a count is counted in both.

    >>> added_notes(["2 both_bad votes dropped", "votes of May"], ["1,000 both_bad votes dropped", "votes of May"])
    ('1,002 both_bad votes dropped', 'votes of May')
    """
    total: dict[str, int | None] = {}
    for note in (*first, *second):
        count, _, rest = note.partition(" ")
        number = count.replace(",", "")
        if number.isdecimal() and rest:
            total[rest] = (total.get(rest) or 0) + int(number)
        else:
            total[note] = None
    return tuple(text if count is None else f"{count:,} {text}" for text, count in total.items())


def battle_warnings(battles: Battles) -> list[str]:
    """Sentences on what may go wrong with some battles."""
    texts = []
    if battles.n_self:
        texts.append(f"{battles.n_self:,} battles of a model against itself were dropped.")
    silent = [battles.models[k] for k in np.flatnonzero(battles.model_counts == 0)]
    if silent:
        have = "model has" if len(silent) == 1 else "models have"
        texts.append(f"{len(silent):,} {have} no battles: {some_of(silent)}.")
    empty = np.flatnonzero(battles.context_counts == 0)
    if len(empty):
        named = [context_name(battles.context_label(int(u))) for u in empty[:5]]
        have = "context has" if len(empty) == 1 else "contexts have"
        texts.append(f"{len(empty):,} {have} no battles: {some_of(named)}.")
    groups = linked_models(battles)
    if len(groups) > 1:
        smallest = [battles.models[k] for k in groups[-1]]
        texts.append(
            f"{len(groups):,} groups of models never meet, so their scores cannot be compared; "
            f"the smallest is {some_of(smallest)}."
        )
    return texts


def linked_models(battles: Battles) -> list[Longs]:
    """Return groups of models that votes link, largest first; models without votes belong to none.

    >>> import lrbtl
    >>> linked_models(lrbtl.Battles.from_arrays([0, 1, 3], [1, 2, 4], [1, 0, 1], n_models=6))
    [array([0, 1, 2]), array([3, 4])]
    """
    cells = battles.cells
    groups = component_members(weak_components(cells.a, cells.b, len(battles.models))[0])
    return [group.astype(np.int64) for group in groups if battles.model_counts[group[0]] > 0]
