"""Cells: the distinct battles with their multiplicities, all that any estimate depends on, and what they connect."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lrbtl._kernels.coding import count_keys, key_battles, sum_counts
from lrbtl.data.votes import Votes, joined_votes
from lrbtl.errors import TooLargeError
from lrbtl.typing import AnyInts, Floats, Indices, Ints, Longs

_CHUNK = 1 << 18  # rows whose keys stay in cache while they are counted
_SMALL_TABLE = 1 << 16
_KEY_LIMIT = 1 << 62
RECORD_DIGITS = 1024.0  # of a vote: records that differ by less are the same
RECORD_ROUNDS = 3  # most times that records of opponents distinguish models
BOTH_BAD = -1.0  # outcome of votes that both were bad, where that is an outcome of its own; it has no sides


@dataclass(frozen=True, slots=True)
class Cells:
    """Distinct battles, sorted by (context, a, b, y).

    Votes that carry more than that are one cell only if they agree in all of it.

    Attributes
    ----------
    context : int32 (n_cells,)
        Flat context, C order over the context modes; all 0 when there is none.
    a, b : int32 (n_cells,)
        Models, ``a < b``.
    y : float64 (n_cells,)
        Outcome for ``a``, in [0, 1], or `BOTH_BAD`.
    count : int64 (n_cells,)
        Multiplicity, positive.
    start : int64 (D + 1,)
        The cells of context ``u`` are ``start[u]:start[u + 1]``.
    slopes : float64 (n_cells, k) or None
        Covariates of ``a`` against ``b``, in the units in which they were read.
    weight : float64 (n_cells,) or None
        Weight of one vote.
    clusters : int32 (n_cells, c) or None
        Codes of each cluster column.
    """

    context: Ints
    a: Ints
    b: Ints
    y: Floats
    count: Longs
    start: Longs
    slopes: Floats | None = None
    weight: Floats | None = None
    clusters: Ints | None = None

    @property
    def votes(self) -> Votes | None:
        """What votes carry beside their outcome; None where they carry nothing."""
        votes = Votes(self.slopes, self.weight, self.clusters)
        return None if votes.empty else votes

    def carrying(self, votes: Votes | None) -> "Cells":
        """Return the same cells whose votes carry what is given, a row per cell."""
        if votes is None:
            return self
        return replace(self, slopes=votes.slopes, weight=votes.weight, clusters=votes.clusters)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.count)

    @property
    def n_contexts(self) -> int:
        """Number of contexts, D."""
        return len(self.start) - 1

    @property
    def n_battles(self) -> int:
        """Number of battles: the sum of all multiplicities."""
        return int(self.count.sum())


def canonical_outcome(y: ArrayLike) -> Floats:
    """Outcomes rounded to 14 decimals in a way that commutes with swapping the two models.

    0.41 and 1 - 0.59 are different doubles; swapping sides must not separate them.

    >>> canonical_outcome([0.41, 1 - 0.59]).tolist()
    [0.41, 0.41]
    """
    y = np.asarray(y, dtype=np.float64)
    upper = np.round(np.maximum(y, 1.0 - y), 14)
    return np.asarray(np.where(y >= 0.5, upper, np.round(1.0 - upper, 14)))


def other_side(y: ArrayLike) -> Floats:
    """Outcomes seen from the other side: 1 - y, except of votes that both were bad.

    >>> other_side([1.0, 0.5, BOTH_BAD]).tolist()
    [0.0, 0.5, -1.0]
    """
    y = np.asarray(y, dtype=np.float64)
    return np.where(y == BOTH_BAD, y, canonical_outcome(1.0 - y))


def points(y: Floats) -> tuple[Floats, Floats]:
    """Points of both sides: 1 for a win, half for a tie, none where both were bad.

    >>> [side.tolist() for side in points(np.array([1.0, 0.5, BOTH_BAD]))]
    [[1.0, 0.5, 0.0], [0.0, 0.5, 0.0]]
    """
    bad = y == BOTH_BAD
    return np.where(bad, 0.0, y), np.where(bad, 0.0, 1.0 - y)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of codes and what each code means: row i holds ``meaning[codes[i]]``."""

    codes: AnyInts  # (n,) not negative
    meaning: Ints  # (n_codes,) position on the axis; for outcomes, -1 stands for rows to drop

    def rows(self, lo: int, hi: int) -> Ints:
        """Codes of some rows, contiguous."""
        return np.ascontiguousarray(self.codes[lo:hi], dtype=np.int32)


def count_battles(
    contexts: Sequence[Column],
    a: Column,
    b: Column,
    y: Column,
    *,
    shape: tuple[int, ...],
    outcomes: Floats,
    counts: Longs | None = None,
    votes: Votes | None = None,
) -> tuple[Cells, int]:
    """Cells of rows in either orientation, and the number of battles of a model with itself.

    Parameters
    ----------
    contexts : sequence of Column
        One per context mode.
    a, b, y : Column
        Models and outcome of each row.
    shape : (d1, d2, ..., dm)
    outcomes : float64 (n_outcomes,)
        Increasing, canonical, and with every y also that of the other side.
    counts : int64 (n,), optional
        Multiplicity of each row, 1 by default.
    votes : Votes, optional
        What each row carries beside that.
    """
    n, d1, n_contexts = len(a.codes), shape[0], prod(shape[1:])
    space = n_contexts * d1 * d1 * len(outcomes) + 2
    if max(n_contexts >> 31, space >> 62):
        raise TooLargeError(f"shape {shape} with {len(outcomes)} distinct outcomes has too many cells to number them.")
    flip = np.searchsorted(outcomes, other_side(outcomes)).astype(np.int32)
    sides = np.stack([y.meaning, np.append(flip, np.int32(-1))[y.meaning]], axis=1)
    dense = votes is None and space <= max(_SMALL_TABLE, 2 * n)
    keys = np.empty(min(n, _CHUNK) if dense else n, dtype=np.int64)
    table = np.zeros(space if dense else 0, dtype=np.int64)
    for lo in range(0, n, _CHUNK):
        hi = min(lo + _CHUNK, n)
        context = np.zeros(hi - lo, dtype=np.int32)
        for column, size in zip(contexts, shape[1:], strict=True):
            context *= size
            context += column.meaning[column.rows(lo, hi)]
        out = keys[: hi - lo] if dense else keys[lo:hi]
        rows_a, rows_b, rows_y = (column.rows(lo, hi) for column in (a, b, y))
        key_battles(context, rows_a, rows_b, rows_y, a.meaning, b.meaning, sides, d1, len(outcomes), out)
        if dense and counts is None:
            count_keys(out, table)
        elif dense and counts is not None:
            sum_counts(out, counts[lo:hi], table)
    if dense:
        found = np.flatnonzero(table)
        count = table[found]
    elif votes is None:
        found, count = _count_sorted(keys, counts)
    else:
        swapped = a.meaning[a.codes] > b.meaning[b.codes]
        found, count, votes = _count_votes(keys, counts, votes.oriented(swapped))
    n_self = int(count[found == 1].sum())
    kept = found > 1
    cells = _decode_cells(found[kept] - 2, count[kept], d1, n_contexts, outcomes)
    return cells.carrying(votes if votes is None or kept.all() else votes.take(kept)), n_self


def _count_votes(keys: Longs, counts: Longs | None, votes: Votes) -> tuple[Longs, Longs, Votes]:
    """Distinct (key, what votes carry) in increasing order of the keys, their multiplicities, and what they carry."""
    order, first = votes.grouped(keys)
    total = np.diff(first, append=len(keys)) if counts is None else np.add.reduceat(counts[order], first)
    kept = order[first[total > 0]]
    return keys[kept], total[total > 0], votes.take(kept)


def _count_sorted(keys: Longs, counts: Longs | None) -> tuple[Longs, Longs]:
    """Distinct keys in increasing order and their multiplicities; `keys` is overwritten."""
    order = None if counts is None else np.argsort(keys)
    if order is None:
        keys.sort()
    else:
        keys = keys[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    if counts is None:
        return keys[first], np.diff(first, append=len(keys))
    total = np.add.reduceat(counts[order], first)
    return keys[first][total > 0], total[total > 0]


def _decode_cells(key: Longs, count: Longs, n_models: int, n_contexts: int, outcomes: Floats) -> Cells:
    key, y = np.divmod(key, len(outcomes))
    key, b = np.divmod(key, n_models)
    key, a = np.divmod(key, n_models)
    return Cells(
        context=key.astype(np.int32),
        a=a.astype(np.int32),
        b=b.astype(np.int32),
        y=outcomes[y],
        count=count,
        start=context_starts(key, n_contexts),
    )


def group_rows(codes: Sequence[AnyInts], sizes: Sequence[int]) -> tuple[Longs, Longs]:
    """Rows sorted by their codes, and where each run of equal rows begins.

    Returns
    -------
    order : int64 (n,)
        Row numbers in lexicographic order of the codes.
    first : int64 (n_groups,)
        Positions in ``order`` at which a new group begins.
    """
    return _runs(row_keys(codes, sizes))


def _runs(key: Longs) -> tuple[Longs, Longs]:
    order = np.argsort(key, kind="stable")  # cheap on the sorted runs that merging brings
    key = key[order]
    return order, np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))


def row_keys(codes: Sequence[AnyInts], sizes: Sequence[int]) -> Longs:
    """Return one integer per row, in lexicographic order of its codes."""
    key = codes[0].astype(np.int64)
    space = sizes[0]
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        if space * size >= _KEY_LIMIT:
            values, key = np.unique(key, return_inverse=True)
            space = len(values)
        key *= size
        np.add(key, column, out=key, casting="unsafe")
        space *= size
    return key


def make_cells(
    context: AnyInts,
    a: AnyInts,
    b: AnyInts,
    y: Floats,
    count: Longs,
    *,
    n_models: int,
    n_contexts: int,
    votes: Votes | None = None,
) -> Cells:
    """Cells of a table of battles in either orientation with canonical outcomes; equal battles are merged."""
    swapped = a > b
    low, high = np.where(swapped, b, a), np.where(swapped, a, b)
    y = np.where(swapped, other_side(y), y)
    y_values = np.unique(y)
    y_code = np.searchsorted(y_values, y)
    votes = None if votes is None else votes.oriented(swapped)
    if len(count):
        key = row_keys([context, low, high, y_code], [n_contexts, n_models, n_models, len(y_values)])
        order, first = _runs(key) if votes is None else votes.grouped(key)
        count = np.add.reduceat(count[order], first)
        kept = order[first]
    else:
        kept = np.empty(0, dtype=np.int64)
    kept_context = context[kept].astype(np.int32)
    cells = Cells(
        context=kept_context,
        a=low[kept].astype(np.int32),
        b=high[kept].astype(np.int32),
        y=y_values[y_code[kept]],
        count=count.astype(np.int64),
        start=context_starts(kept_context, n_contexts),
    )
    return cells.carrying(None if votes is None else votes.take(kept))


def context_starts(context: AnyInts, n_contexts: int) -> Longs:
    """Where the cells of each context begin, for cells sorted by context: int64 (n_contexts + 1,)."""
    return np.concatenate([[0], np.cumsum(np.bincount(context, minlength=n_contexts))]).astype(np.int64)


def merge_cells(left: Cells, right: Cells, *, n_models: int, n_contexts: int) -> Cells:
    """Cells of two tables with the same codes, together."""
    return make_cells(
        np.concatenate([left.context, right.context]),
        np.concatenate([left.a, right.a]),
        np.concatenate([left.b, right.b]),
        np.concatenate([left.y, right.y]),
        np.concatenate([left.count, right.count]),
        n_models=n_models,
        n_contexts=n_contexts,
        votes=joined_votes(left.votes, right.votes, (left.n_cells, right.n_cells)),
    )


def merged(cells: Cells, votes: Votes | None, *, n_models: int) -> Cells:
    """Cells whose votes carry something else, a row per cell: those that agree now are put together."""
    carried = None if votes is None or votes.empty else votes
    rows = cells.context, cells.a, cells.b, cells.y, cells.count
    return make_cells(*rows, n_models=n_models, n_contexts=cells.n_contexts, votes=carried)


def recode_cells(cells: Cells, model_map: Longs, context_map: Longs, *, n_models: int, n_contexts: int) -> Cells:
    """Cells under new codes; battles whose model or context maps to -1 are left out."""
    a, b, context = model_map[cells.a], model_map[cells.b], context_map[cells.context]
    kept = (a >= 0) & (b >= 0) & (context >= 0)
    rows = context[kept], a[kept], b[kept], cells.y[kept], cells.count[kept]
    votes = None if cells.votes is None else cells.votes.take(kept)
    return make_cells(*rows, n_models=n_models, n_contexts=n_contexts, votes=votes)


def with_counts(cells: Cells, count: Longs) -> Cells:
    """Return the same cells with other multiplicities; cells with 0 are left out."""
    kept = count > 0
    context = cells.context[kept]
    found = Cells(
        context=context,
        a=cells.a[kept],
        b=cells.b[kept],
        y=cells.y[kept],
        count=count[kept].astype(np.int64),
        start=context_starts(context, cells.n_contexts),
    )
    return found.carrying(None if cells.votes is None else cells.votes.take(kept))


# ------------------------------------------------------------------------------
# Connectivity of cells: who can be compared with whom, overall and in each context.
#
# Nodes are (context, model), so one sparse graph holds every context and no loop runs over battles or contexts. A
# component is named by its smallest model code: two models of a context belong together if their labels are equal.
# ------------------------------------------------------------------------------


def weak_components(
    a: AnyInts, b: AnyInts, n_models: int, *, context: AnyInts | None = None, n_contexts: int = 1
) -> Indices:
    """Return labels (n_contexts, n_models) of the comparison graph: equal labels are linked by a chain of battles.

    Without `context` all battles form one graph. A model without battles is a component of its own.

    >>> weak_components(np.array([0, 1]), np.array([2, 3]), 5)
    array([[0, 1, 0, 1, 4]])
    """
    tail, head = _nodes(a, b, n_models, context)
    return _components(tail, head, (n_contexts, n_models), "weak")


def strong_components(
    a: AnyInts, b: AnyInts, y: Floats, n_models: int, *, context: AnyInts | None = None, n_contexts: int = 1
) -> Indices:
    """Return labels (n_contexts, n_models) of the win digraph, in which y > 0 is a win of a and y < 1 one of b.

    Models with equal labels have a finite maximum-likelihood gap; a tie or soft vote counts as a win of both.

    >>> strong_components(np.array([0, 0]), np.array([1, 2]), np.array([0.5, 1.0]), 3)
    array([[0, 0, 2]])
    """
    tail, head = _nodes(a, b, n_models, context)
    a_won, b_won = y > 0.0, y < 1.0
    winners = np.concatenate([tail[a_won], head[b_won]])
    losers = np.concatenate([head[a_won], tail[b_won]])
    return _components(winners, losers, (n_contexts, n_models), "strong")


def component_members(labels: Indices) -> list[Indices]:
    """Return the members of each component of one context, largest component first, then by smallest member.

    >>> component_members(np.array([0, 1, 1]))
    [array([1, 2]), array([0])]
    """
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return sorted(members, key=lambda group: (-group.size, group[0]))


def largest_component(labels: Indices, votes: AnyInts) -> Indices:
    """Return the members of the largest component of one context; of equally large ones that with most votes.

    >>> largest_component(np.array([0, 1, 0, 1]), np.array([3, 5, 3, 5]))
    array([1, 3])
    """
    return max(component_members(labels), key=lambda group: (group.size, votes[group].sum()))


def _nodes(a: AnyInts, b: AnyInts, n_models: int, context: AnyInts | None) -> tuple[Indices, Indices]:
    offset = np.zeros(1, dtype=np.intp) if context is None else context.astype(np.intp) * n_models
    return offset + a, offset + b


def _components(tail: Indices, head: Indices, shape: tuple[int, int], connection: Literal["weak", "strong"]) -> Indices:
    from scipy.sparse import coo_array  # a slow import that most sessions do not need
    from scipy.sparse.csgraph import connected_components

    n_nodes = shape[0] * shape[1]
    if n_nodes**2 < tail.size:  # far fewer pairs than battles: each counts once
        tail, head = np.divmod(np.flatnonzero(np.bincount(tail * n_nodes + head, minlength=n_nodes**2)), n_nodes)
    edges = coo_array((np.ones(tail.size, dtype=np.int8), (tail, head)), shape=(n_nodes, n_nodes))
    n_components, labels = connected_components(edges.tocsr(), directed=True, connection=connection)
    smallest = np.empty(n_components, dtype=np.intp)
    smallest[labels[::-1]] = np.arange(n_nodes - 1, -1, -1) % shape[1]  # of repeated indices the last one stays
    return smallest[labels].reshape(shape)


def mixed_bits(*keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 random bits for each combination of keys (splitmix64, one key after the other)."""
    bits = np.zeros(len(keys[0]), dtype=np.uint64)
    for key in keys:
        bits = bits ^ key
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            bits += np.uint64(0x9E3779B97F4A7C15)
            bits ^= np.right_shift(bits, np.uint64(shift))
            bits *= np.uint64(factor)
        bits = np.bitwise_xor(bits, np.right_shift(bits, np.uint64(31)))
    return bits


def record_places(
    context: Longs, a: Longs | Ints, b: Longs | Ints, votes: Floats, won: Floats, shape: tuple[int, int]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return places of models and contexts in an order that does not depend on what they are called.

    They are sorted by their votes, so that few votes more change few places, and by their records where votes are the
    same: votes and wins (of a) of each pair in each context, and records of those whom they met. Last comes their own
    order: then nothing else distinguishes them.
    """
    counted = (np.rint(RECORD_DIGITS * part).astype(np.int64).astype(np.uint64) for part in (votes, won, votes - won))
    total, first, second = counted
    own, other = mixed_bits(total, first), mixed_bits(total, second)

    def summed(parts: list[tuple[Longs | Ints, NDArray[np.uint64]]], size: int) -> NDArray[np.uint64]:
        out = np.zeros(size, dtype=np.uint64)
        for place, values in parts:
            np.add.at(out, place, values)
        return out

    models, contexts = summed([(a, own), (b, other)], shape[0]), summed([(context, own + other)], shape[1])
    seen = np.unique(np.concatenate([a, b])), np.unique(context)
    for _ in range(RECORD_ROUNDS):
        if all(np.unique(bits[used]).size == used.size for bits, used in zip((models, contexts), seen, strict=True)):
            break
        forth = mixed_bits(own, models[b], contexts[context])
        back = mixed_bits(other, models[a], contexts[context])
        met = summed([(a, forth), (b, back)], shape[0]), summed([(context, forth + back)], shape[1])
        models, contexts = mixed_bits(models, met[0]), mixed_bits(contexts, met[1])
    of_models, of_contexts = summed([(a, total), (b, total)], shape[0]), summed([(context, total)], shape[1])
    return _places(of_models, models), _places(of_contexts, contexts)


def _places(votes: NDArray[np.uint64], bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the place of each by its votes, those of most first, and by bits where votes are the same."""
    out = np.empty(len(votes), dtype=np.uint64)
    out[np.lexsort((bits, ~votes))] = np.arange(len(votes))
    return out


def random_bits(context: Longs, a: Longs | Ints, b: Longs | Ints) -> NDArray[np.uint64]:
    """Return 64 random bits for each (context, a, b), the same in every log (splitmix64 of a key)."""
    key = np.bitwise_xor(np.left_shift(context, 42), np.left_shift(a.astype(np.int64), 21)) ^ b
    bits = key.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits += np.uint64(0x9E3779B97F4A7C15)
        bits ^= np.right_shift(bits, np.uint64(shift))
        bits *= np.uint64(factor)
    return np.bitwise_xor(bits, np.right_shift(bits, np.uint64(31)))
