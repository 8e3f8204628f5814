"""Random folds of the battles, drawn from the multiplicities of the cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lrbtl.cells import Cells, IntArray
from lrbtl.errors import FoldError

if TYPE_CHECKING:
    from lrbtl.battles import Battles

_EXPAND = 16  # battles per cell up to which they are listed one by one


def fold_counts(cells: Cells, n_folds: int, rng: int | np.random.Generator | None = 0) -> IntArray:
    """Multiplicity of every cell in every fold of a uniformly random partition, stratified by context.

    Within a context the folds differ by at most one battle, and so do they in total.

    Parameters
    ----------
    cells : Cells
    n_folds : int
    rng : int, Generator or None
        Source of randomness; the same int gives the same folds.

    Returns
    -------
    int64 (n_folds, n_cells)
        Sums to ``cells.count`` over folds.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays([0, 0, 1], [1, 1, 2], [1, 0, 1], counts=[40, 20, 60])
    >>> folds = fold_counts(battles.cells, 3, rng=0)
    >>> folds.shape, folds.sum(axis=1).tolist(), folds.sum(axis=0).tolist()
    ((3, 3), [40, 40, 40], [20, 40, 60])
    """
    generator = np.random.default_rng(rng)
    if cells.n_battles <= _EXPAND * cells.n_cells:
        return _deal_battles(cells, n_folds, generator)
    return _draw_and_repair(cells, n_folds, generator)


def _deal_battles(cells: Cells, n_folds: int, rng: np.random.Generator) -> IntArray:
    """Shuffle the battles of each context and deal them to the folds in turn."""
    cell = np.repeat(np.arange(cells.n_cells), cells.count)
    order = np.argsort(cells.context[cell] + rng.random(len(cell)))
    fold = np.arange(len(cell)) % n_folds
    table = np.bincount(fold * cells.n_cells + cell[order], minlength=n_folds * cells.n_cells)
    return table.reshape(n_folds, cells.n_cells).astype(np.int64)


def _draw_and_repair(cells: Cells, n_folds: int, rng: np.random.Generator) -> IntArray:
    """Send every battle to a fold independently, then move as few as needed, at random, to even out the sizes.

    Both steps treat all battles of a context alike, so given the sizes every partition is equally likely: the result is
    exact for any multiplicity, at a cost of about n_folds * (n_cells + sqrt(battles * contexts)).
    """
    drawn = rng.multinomial(cells.count, np.full(n_folds, 1.0 / n_folds)).T.astype(np.int64)
    surplus = _sums_by_context(drawn, cells.start) - _fold_sizes(cells, n_folds)

    # Number the battles by (fold, cell): those of one (fold, context) are consecutive.
    last = np.cumsum(drawn)
    before = np.concatenate([[0], last])[np.arange(n_folds)[:, None] * cells.n_cells + cells.start[:-1]]
    leaving = np.maximum(surplus, 0)
    population = _sums_by_context(drawn, cells.start)
    moved = _sample_distinct(before.ravel(), population.ravel(), leaving.ravel(), rng)
    slot = np.searchsorted(last, moved, side="right")
    flat = drawn.ravel() - np.bincount(slot, minlength=drawn.size)

    # The k-th battle that leaves a context, in random order, fills the k-th place free there.
    cell = slot % cells.n_cells
    order = np.argsort(cells.context[cell] + rng.random(len(cell)))
    places = np.maximum(-surplus, 0).T
    fold = np.repeat(np.tile(np.arange(n_folds), len(places)), places.ravel())
    flat += np.bincount(fold * cells.n_cells + cell[order], minlength=drawn.size)
    return flat.reshape(n_folds, cells.n_cells)


def _sums_by_context(table: IntArray, start: IntArray) -> IntArray:
    total = np.concatenate([np.zeros((len(table), 1), dtype=np.int64), np.cumsum(table, axis=1)], axis=1)
    return np.asarray(total[:, start[1:]] - total[:, start[:-1]])


def _fold_sizes(cells: Cells, n_folds: int) -> IntArray:
    """Battles per fold and context when the battles, sorted by context, are dealt in turn: (n_folds, D)."""
    bounds = np.concatenate([[0], np.cumsum(cells.count)])[cells.start]
    dealt = (bounds[None, :] + (n_folds - 1 - np.arange(n_folds))[:, None]) // n_folds
    return np.asarray(np.diff(dealt, axis=1))


def _sample_distinct(offset: IntArray, population: IntArray, size: IntArray, rng: np.random.Generator) -> IntArray:
    """Uniformly random subsets: ``size[g]`` distinct integers from ``offset[g] + range(population[g])``, all groups."""
    found = np.empty(0, dtype=np.int64)
    missing = size
    while missing.any():
        group = np.repeat(np.arange(len(size)), missing)
        found = np.unique(np.concatenate([found, offset[group] + rng.integers(0, population[group])]))
        # Groups are disjoint ranges in increasing order, so counting below each bound counts each group.
        have = np.searchsorted(found, offset + population) - np.searchsorted(found, offset)
        missing = size - have
    return found


def check_folds(battles: Battles, n_folds: int) -> None:
    """Raise `FoldError` unless every fold gets a battle and no training fold loses a context.

    Examples
    --------
    >>> import lrbtl
    >>> check_folds(lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0]), 2)
    """
    if isinstance(n_folds, bool) or not isinstance(n_folds, int | np.integer) or n_folds < 2:
        raise FoldError(f"n_folds is {n_folds!r}; cross-fitting needs a whole number of at least 2.")
    if battles.n_battles < n_folds:
        raise FoldError(f"{battles.n_battles} battles cannot fill {n_folds} folds; use fewer folds.")
    lone = np.flatnonzero(battles.context_counts == 1)
    if len(lone) and len(battles.shape) > 1:
        shown = ", ".join(repr(battles.context_label(int(u))) for u in lone[:5])
        raise FoldError(
            f"{len(lone)} context{'s' * (len(lone) > 1)} with a single battle ({shown}) would be absent from one "
            "training fold; drop them with select(...) or pool levels."
        )
