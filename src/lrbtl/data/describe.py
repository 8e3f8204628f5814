"""Battles in words: what there is, and what to be careful about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lrbtl.data.cells import component_members, weak_components
from lrbtl.data.labels import context_name
from lrbtl.typing import Indices

if TYPE_CHECKING:
    from lrbtl.data.battles import Battles


def describe_battles(battles: Battles) -> str:
    """Text that tells shape, counts, density, ties, what votes carry and what to be careful about."""
    lines = [f"Battles: {battles.n_battles:,} battles in {battles.n_cells:,} cells"]
    per_model, per_context = battles.model_counts, battles.context_counts
    lines.append(f"  models     {len(battles.models):,} ({per_model.min():,} to {per_model.max():,} battles each)")
    for name, levels in zip(battles.mode_names, battles.levels, strict=True):
        lines.append(f"  {name:<10} {len(levels):,} levels: {_shorten(levels)}")
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
    return "\n".join(lines + [f"  warning    {text}" for text in battle_warnings(battles)])


def _shorten(labels: tuple[object, ...], limit: int = 4) -> str:
    shown = ", ".join(str(label) for label in labels[:limit])
    return shown + (", ..." if len(labels) > limit else "")


def battle_warnings(battles: Battles) -> list[str]:
    """Sentences on what may go wrong with some battles."""
    texts = []
    if battles.n_self:
        texts.append(f"{battles.n_self:,} battles of a model against itself were dropped.")
    silent = [battles.models[k] for k in np.flatnonzero(battles.model_counts == 0)]
    if silent:
        have = "model has" if len(silent) == 1 else "models have"
        texts.append(f"{len(silent):,} {have} no battles: {_shorten(tuple(silent))}.")
    empty = np.flatnonzero(battles.context_counts == 0)
    if len(empty):
        named = tuple(context_name(battles.context_label(int(u))) for u in empty[:5])
        have = "context has" if len(empty) == 1 else "contexts have"
        texts.append(f"{len(empty):,} {have} no battles: {_shorten(named)}.")
    groups = _model_groups(battles)
    if len(groups) > 1:
        smallest = tuple(battles.models[k] for k in groups[-1])
        texts.append(
            f"{len(groups):,} groups of models never meet, so their scores cannot be compared; "
            f"the smallest is {_shorten(smallest)}."
        )
    return texts


def _model_groups(battles: Battles) -> list[Indices]:
    """Models that fought, in groups connected by battles, largest group first."""
    cells = battles.cells
    groups = component_members(weak_components(cells.a, cells.b, len(battles.models))[0])
    return [group for group in groups if battles.model_counts[group[0]] > 0]
