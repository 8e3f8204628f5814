"""The core of battles: models that chains of wins and losses link, with battles enough for a rank; and its fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.graph import component_members, strong_components
from lrbtl.fitting.fit import Fit, fit
from lrbtl.fitting.select_rank import MAX_DEFAULT_RANK, select_rank
from lrbtl.lowrank.tucker import rank_caps
from lrbtl.typing import Indices, Longs, Progress, Rank

THIN = 5  # battles per component of a model's row below which the row is not estimated


def core_members(labels: Indices, battles: Longs) -> Longs:
    """Return the largest component's members; of equally large ones that with most battles."""
    members = component_members(labels)
    best = max(members, key=lambda group: (group.size, int(battles[group].sum())))
    return np.sort(best).astype(np.int64)


def pooled_core(battles: Battles) -> Longs:
    """Return the core of all battles, contexts put together."""
    cells = battles.cells
    labels = strong_components(cells.a, cells.b, cells.y, len(battles.models))[0]
    return core_members(labels, battles.model_counts)


def candidate_ranks(
    battles: Battles, rank: Rank, *, progress: Progress | None = None, **options: Any
) -> list[int | Sequence[int]]:
    """Return the ranks to try in turn: the one asked for, or the best one and smaller ones that predict as well.

    None where the battles ask for a rank that they do not determine: smaller ones would miss what they show.
    """
    if not isinstance(rank, str):
        return [rank]
    thick = thick_core(battles, pooled_core(battles), THIN * MAX_DEFAULT_RANK)  # others are placed, whatever the rank
    core = select_models(battles, thick)
    run = {key: options[key] for key in ("n_threads", "rng", "link") if key in options}
    found = select_rank(core, progress=progress, **run)
    if found.asks_for_more:
        return []
    within = found.determined & (found.deficit <= found.deficit_se)
    as_good = [r for r, ok in zip(found.ranks, within, strict=True) if ok and r <= found.best]
    return list(dict.fromkeys(max(r) for r in reversed(as_good)))


def fit_core(
    battles: Battles, rank: int | Sequence[int], *, without: Longs | tuple[()] = (), **options: Any
) -> tuple[Longs, Fit]:
    """Return the core of some battles, `without` some models and those too thin for the rank, and its low-rank fit."""
    core = np.setdiff1d(np.arange(len(battles.models)), without)
    core = core[pooled_core(select_models(battles, core))]
    r1 = rank if isinstance(rank, int) else rank[0]
    inside = thick_core(battles, core, THIN * r1)
    kept = select_models(battles, inside)
    if isinstance(rank, int) and kept.shape[0] < battles.shape[0]:
        rank = min(rank, max(rank_caps(kept.shape)))
    return inside, fit(kept, rank, **options)


def thick_core(battles: Battles, core: Longs, fewest: int) -> Longs:
    """Return the core without models of fewer battles inside it, as far as any remain."""
    while True:
        part = select_models(battles, core)
        kept = np.flatnonzero(part.model_counts >= fewest)
        if kept.size == core.size or kept.size < 2:
            return core
        core = core[kept][pooled_core(select_models(battles, core[kept]))]


def select_models(battles: Battles, models: Longs) -> Battles:
    """Return the battles among some models, given by position."""
    return battles.select(models=[battles.models[k] for k in models])
