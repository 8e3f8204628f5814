"""Random folds of the battles, drawn from the multiplicities of the cells."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lrbtl.data.cells import Cells
from lrbtl.errors import FoldError
from lrbtl.typing import Longs, Seed

if TYPE_CHECKING:
    from lrbtl.data.labels import Labelled

_EXPAND = 16  # battles per cell up to which they are listed one by one


def fold_counts(cells: Cells, n_folds: int, rng: Seed = 0) -> Longs:
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
    return _draw_folds(cells, n_folds, generator)


def _deal_battles(cells: Cells, n_folds: int, rng: np.random.Generator) -> Longs:
    """Shuffle the battles of each context and deal them to the folds in turn."""
    cell = np.repeat(np.arange(cells.n_cells), cells.count)
    bounds = np.concatenate([[0], np.cumsum(cells.count)])[cells.start]
    bits = int(np.diff(bounds).max()).bit_length()  # the low bits hold the battle, those above it a random number
    key = (rng.random(len(cell)) * 2.0 ** (63 - bits)).astype(np.int64) << bits
    for low, high in pairwise(bounds.tolist()):
        key[low:high] |= np.arange(high - low)
        key[low:high].sort()  # sorting numbers is far faster than finding their order
        key[low:high] &= (1 << bits) - 1
        key[low:high] += low
    place = cell[key]
    place += np.arange(len(cell)) % n_folds * cells.n_cells
    return np.bincount(place, minlength=n_folds * cells.n_cells).reshape(n_folds, cells.n_cells)


def _draw_folds(cells: Cells, n_folds: int, rng: np.random.Generator) -> Longs:
    """Draw one fold after the other from the battles that are left."""
    left = cells.count.copy()
    folds = []
    for size in _fold_sizes(cells, n_folds)[:-1]:
        folds.append(_take(left, cells, size, rng))
        left -= folds[-1]
    return np.stack([*folds, left])


def _take(count: Longs, cells: Cells, size: Longs, rng: np.random.Generator) -> Longs:
    """Multiplicities of a uniformly random set of ``size[u]`` of the battles of every context: int64 (n_cells,).

    Every battle is first taken independently with probability size/total; what is then too much is taken back, and
    what is missing is added, by the same rule. All steps treat the battles of a context alike, so every set of that
    size is equally likely: exact for any multiplicity, and the number to repair shrinks to its square root each time.
    """
    if size.sum() <= cells.n_cells:
        return _take_singly(count, cells, size, rng)
    total = _sum_contexts(count, cells)
    share = size / np.maximum(total, 1)
    taken = rng.binomial(count, share[cells.context]).astype(np.int64)
    excess = _sum_contexts(taken, cells) - size
    too_many = _take(taken, cells, np.maximum(excess, 0), rng)
    return taken - too_many + _take(count - taken, cells, np.maximum(-excess, 0), rng)


def _take_singly(count: Longs, cells: Cells, size: Longs, rng: np.random.Generator) -> Longs:
    """Return the same by drawing battle numbers, again where one came up before."""
    last = np.cumsum(count)
    bounds = np.concatenate([[0], last])[cells.start]
    found = np.empty(0, dtype=np.int64)
    missing = size
    while missing.any():
        drawn = rng.integers(np.repeat(bounds[:-1], missing), np.repeat(bounds[1:], missing))
        found = np.sort(np.concatenate([found, drawn]))
        found = found[np.concatenate([[True], found[1:] != found[:-1]])]
        missing = size - np.diff(np.searchsorted(found, bounds))
    return np.bincount(np.searchsorted(last, found, side="right"), minlength=len(count)).astype(np.int64)


def _sum_contexts(count: Longs, cells: Cells) -> Longs:
    return np.diff(np.concatenate([[0], np.cumsum(count)])[cells.start])


def _fold_sizes(cells: Cells, n_folds: int) -> Longs:
    """Battles per fold and context when the battles, sorted by context, are dealt in turn: (n_folds, D)."""
    bounds = np.concatenate([[0], np.cumsum(cells.count)])[cells.start]
    dealt = (bounds[None, :] + (n_folds - 1 - np.arange(n_folds))[:, None]) // n_folds
    return np.asarray(np.diff(dealt, axis=1))


def check_fold_number(n_folds: int) -> None:
    """Raise `FoldError` unless a number of folds is a whole number of at least 2."""
    if isinstance(n_folds, bool) or not isinstance(n_folds, int | np.integer) or n_folds < 2:
        raise FoldError(f"n_folds is {n_folds!r}; cross-fitting needs a whole number of at least 2.")


def check_folds(battles: Labelled, n_folds: int) -> None:
    """Raise `FoldError` unless every fold gets a battle and no training fold loses a level of a context mode.

    Examples
    --------
    >>> import lrbtl
    >>> check_folds(lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0]), 2)
    """
    check_fold_number(n_folds)
    if battles.n_battles < n_folds:
        raise FoldError(f"{battles.n_battles} {battles.say('battles')} cannot fill {n_folds} folds; use fewer folds.")
    counts = battles.context_counts.reshape(battles.shape[1:])
    for mode, (name, labels) in enumerate(zip(battles.mode_names, battles.levels, strict=True)):
        others = tuple(axis for axis in range(counts.ndim) if axis != mode)
        lone = np.flatnonzero(counts.sum(axis=others) == 1)
        if len(lone):
            shown = ", ".join(repr(labels[int(level)]) for level in lone[:5])
            raise FoldError(
                f"{len(lone)} level{'s' * (len(lone) > 1)} of {name} with a single {battles.say('battle')} ({shown}) "
                "would be absent from one training fold; drop them, as battles.select(...) does, or pool levels."
            )
