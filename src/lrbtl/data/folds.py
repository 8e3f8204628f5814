"""Random folds of the battles, drawn from the multiplicities of the cells.

They are drawn in an order of models and contexts that the battles alone determine. So no label, order of labels or side
of a battle affects them, but for models or contexts with the very same battles: these keep the order of their labels,
as the same folds for both would put equal votes of different contexts into one fold.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lrbtl.data.cells import Cells, context_starts, group_rows, other_side, row_keys
from lrbtl.data.votes import Unsigned, Votes, mixed
from lrbtl.errors import FoldError, check_whole, make_rng
from lrbtl.typing import Floats, Longs, Seed

if TYPE_CHECKING:
    from lrbtl.data.labels import Labelled

_ROUNDS = 4  # after which models and contexts of any real battles are distinguished
_EXPAND = 16  # battles per cell up to which they are listed one by one


def fold_counts(cells: Cells, n_folds: int, rng: Seed = 0) -> Longs:
    """Multiplicity of every cell in every fold of a uniformly random partition, stratified by context.

    Within a context the folds differ by at most one battle, and so do they in total. Clusters of the first cluster
    column stay together; folds are then as even as clusters allow.

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

    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays([0, 0, 1], [1, 1, 2], [1, 0, 1], counts=[40, 20, 60])
    >>> folds = fold_counts(battles.cells, 3, rng=0)
    >>> folds.shape, folds.sum(axis=1).tolist(), folds.sum(axis=0).tolist()
    ((3, 3), [40, 40, 40], [20, 40, 60])
    """
    generator = make_rng(rng)
    order, ordered = _canonical(cells)
    if cells.clusters is not None:
        draw = _deal_clusters
    else:
        draw = _deal_battles if cells.n_battles <= _EXPAND * cells.n_cells else _draw_folds
    folds = np.empty((n_folds, cells.n_cells), dtype=np.int64)
    folds[:, order] = draw(ordered, n_folds, generator)
    return folds


# ------------------------------------------------------------------------------
# An order that does not depend on labels.
# ------------------------------------------------------------------------------


def _canonical(cells: Cells) -> tuple[Longs, Cells]:
    """Return the order of the cells that the battles alone determine, and the cells in that order.

    Models and contexts are distinguished by sums of hashes over their cells, which then enter the hashes of the cells,
    a few times: what two of them have in common, their opponents' and contexts' battles may not. Models that nothing
    distinguishes keep the order of their labels.
    """
    model, context = _hashes(cells)
    rank, place = _ranks(model), _ranks(context)[cells.context]
    first, second = rank[cells.a], rank[cells.b]
    swapped = (first > second) & (cells.b >= 0)
    y = np.where(swapped, other_side(cells.y), cells.y)
    values, code = (
        np.unique(y, return_inverse=True) if np.any((y != 0) & (y != 1)) else (np.ones(2), y.astype(np.int64))
    )
    codes = [place, np.minimum(first, second), np.maximum(first, second), code]
    sizes = [len(context), len(model), len(model), len(values)]
    if cells.slopes is None and cells.weight is None:
        order, _ = group_rows(codes, sizes)
    else:
        slopes = None if cells.slopes is None else np.apply_along_axis(_places, 0, cells.slopes)
        carried = Votes(slopes, None if cells.weight is None else _places(cells.weight)).oriented(swapped)
        order = np.lexsort((carried.hashes(), row_keys(codes, sizes)))
    contexts = place[order].astype(np.int32)
    start = context_starts(contexts, cells.n_contexts)
    clusters = None if cells.clusters is None else cells.clusters[order]
    return order, replace(cells, context=contexts, count=cells.count[order], start=start, clusters=clusters)


def _places(values: Floats) -> Floats:
    """Return signed places of numbers by size, which are the same in any unit."""
    return np.asarray(np.sign(values) * (1.0 + np.unique(np.abs(values), return_inverse=True)[1].reshape(-1)))


def _hashes(cells: Cells) -> tuple[Unsigned, Unsigned]:
    """Return hashes of models and of contexts, equal under any labels."""
    paired = bool(cells.n_cells) and bool(cells.b[0] >= 0)
    model = np.ones(int(max(cells.a.max(initial=-1), cells.b.max(initial=-1))) + 1, dtype=np.uint64)
    context = np.ones(cells.n_contexts, dtype=np.uint64)
    count = mixed(cells.count.astype(np.uint64))
    own = back = mixed(np.unique(cells.y, return_inverse=True)[1].astype(np.uint64) ^ count)  # whatever the units
    if paired:
        own, back = (mixed(_bits(y) ^ count) for y in (cells.y, other_side(cells.y)))
    known = 0
    for _ in range(_ROUNDS):
        here = context[cells.context]
        of_a = mixed(own + 3 * model[cells.b] + here) if paired else mixed(own + here)
        of_b = mixed(back + 3 * model[cells.a] + here) if paired else of_a
        new_model, new_context = mixed(model), mixed(context)
        np.add.at(new_model, cells.a, of_a)
        if paired:
            np.add.at(new_model, cells.b, of_b)
        np.add.at(new_context, cells.context, mixed(of_a + 5 * model[cells.a]) + mixed(of_b + 5 * model[cells.b]))
        model, context = new_model, new_context
        before, known = known, len(np.unique(model)) + len(np.unique(context))
        if known in (before, len(model) + len(context)):
            break
    return model, context


def _bits(y: Floats) -> Unsigned:
    return (y + 0.0).view(np.uint64)  # minus zero becomes zero


def _ranks(hashes: Unsigned) -> Longs:
    """Return the position of each in increasing order; equal ones keep theirs."""
    ranks = np.empty(len(hashes), dtype=np.int64)
    ranks[np.argsort(hashes, kind="stable")] = np.arange(len(hashes))
    return ranks


# ------------------------------------------------------------------------------
# Drawing folds.
# ------------------------------------------------------------------------------


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


def _deal_clusters(cells: Cells, n_folds: int, rng: np.random.Generator) -> Longs:
    """Put each cluster of the first column, from large to small, where it and its main context have fewest votes."""
    assert cells.clusters is not None
    codes, first, cluster = np.unique(cells.clusters[:, 0], return_index=True, return_inverse=True)
    cluster = _ranks(first.astype(np.uint64))[cluster]  # numbered as they come, whatever their labels
    pairs, row = np.unique(cluster * cells.n_contexts + cells.context, return_inverse=True)
    votes = np.bincount(row, cells.count)
    owner, context = np.divmod(pairs, cells.n_contexts)
    order = np.lexsort((votes, owner))
    home = context[order[np.cumsum(np.bincount(owner)) - 1]]  # where each cluster has most of its votes
    size = np.bincount(cluster, cells.count)
    here, total = np.zeros((cells.n_contexts, n_folds)), np.zeros(n_folds)
    fold = np.empty(len(codes), dtype=np.int64)
    for k in np.lexsort((rng.random(len(codes)), -size)).tolist():
        fold[k] = best = int(np.argmin(here[home[k]] + total))
        here[home[k], best] += size[k]
        total[best] += size[k]
    _part_contexts(fold, owner, context, votes, n_folds)
    out = np.zeros((n_folds, cells.n_cells), dtype=np.int64)
    out[fold[cluster], np.arange(cells.n_cells)] = cells.count
    return out


def _part_contexts(fold: Longs, owner: Longs, context: Longs, votes: NDArray[np.number[Any]], n_folds: int) -> None:
    """Move the smallest cluster of each context whose clusters all came into one fold to the next one."""
    order = np.argsort(context, kind="stable")
    for here in np.split(order, np.flatnonzero(np.diff(context[order])) + 1):
        folds = fold[owner[here]]
        if len(here) > 1 and np.all(folds == folds[0]):
            fold[owner[here[np.argmin(votes[here])]]] = (folds[0] + 1) % n_folds


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
    what is missing is added, by the same rule. Steps are symmetric in the battles of a context, so every set of that
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
    check_whole(n_folds, "n_folds", 2, FoldError)


def check_folds(battles: Labelled, n_folds: int) -> None:
    """Raise `FoldError` unless every fold gets a battle and no training fold loses a level of a context mode."""
    check_fold_number(n_folds)
    if battles.n_battles < n_folds:
        raise FoldError(f"{battles.n_battles} {battles.unit} cannot fill {n_folds} folds; use fewer folds.")
    cells, one = battles.cells, battles.unit.removesuffix("s")
    clusters = None if cells.clusters is None else cells.clusters[:, 0]
    if clusters is not None:
        one = "cluster"
        if len(np.unique(clusters)) < n_folds:
            raise FoldError(f"{len(np.unique(clusters))} clusters cannot fill {n_folds} folds; use fewer folds.")
    codes = np.unravel_index(cells.context, battles.shape[1:] or (1,))
    for name, labels, code in zip(battles.mode_names, battles.levels, codes, strict=False):
        if clusters is None:
            units = np.bincount(code, cells.count, len(labels))
        else:
            width = int(clusters.max()) + 1
            units = np.bincount(np.unique(code * width + clusters) // width, minlength=len(labels))
        lone = np.flatnonzero(units == 1)
        if len(lone):
            shown = ", ".join(repr(labels[int(level)]) for level in lone[:5])
            raise FoldError(
                f"{len(lone)} level{'s' * (len(lone) > 1)} of {name} with a single {one} ({shown}) "
                "would be absent from one training fold; drop them, as battles.select(...) does, or pool levels."
            )
