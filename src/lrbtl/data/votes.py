"""What votes carry beside who met whom and the outcome: covariates, a weight, clusters; a row each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lrbtl.typing import Bools, Floats, Ints, Longs

Unsigned = NDArray[np.uint64]

MOST_KEY_BITS = 28  # bits of a key that leave enough of those of a hash beside it


@dataclass(frozen=True, slots=True)
class Votes:
    """Columns that some votes have, None where they have none.

    Attributes
    ----------
    slopes : float64 (n, k) or None
        Covariates of the first side against the second; they change sign with the sides.
    weight : float64 (n,) or None
        Weight of one vote.
    clusters : int32 (n, c) or None
        Codes of each cluster column.
    """

    slopes: Floats | None = None
    weight: Floats | None = None
    clusters: Ints | None = None

    @property
    def empty(self) -> bool:
        """Whether votes carry nothing."""
        return self.slopes is None and self.weight is None and self.clusters is None

    @property
    def columns(self) -> list[NDArray[np.generic]]:
        """The columns that there are, each (n,)."""
        tables = [part.T for part in (self.slopes, self.clusters) if part is not None]
        return [column for table in tables for column in table] + ([] if self.weight is None else [self.weight])

    def take(self, rows: Longs | Bools) -> Votes:
        """Return some of the rows."""
        return Votes(
            None if self.slopes is None else self.slopes[rows],
            None if self.weight is None else self.weight[rows],
            None if self.clusters is None else self.clusters[rows],
        )

    def oriented(self, swapped: Bools) -> Votes:
        """Return the same votes with the sides of some exchanged."""
        if self.slopes is None:
            return self
        slopes = self.slopes * np.where(swapped, -1.0, 1.0)[:, None]
        slopes += 0.0  # minus zero becomes zero
        return Votes(slopes, self.weight, self.clusters)

    def grouped(self, key: Longs) -> tuple[Longs, Longs]:
        """Return rows sorted by a key, then by a hash of what they carry, and where each run of equal rows begins."""
        hashes, bits = self.hashes(), int(key.max(initial=0)).bit_length()
        if bits <= MOST_KEY_BITS:  # both in one number, of which a single sort is much faster
            order = np.argsort(np.left_shift(key.astype(np.uint64), np.uint64(64 - bits)) | (hashes >> np.uint64(bits)))
        else:
            order = np.lexsort((hashes, key))
        ordered, hashes = key[order], hashes[order]
        same = (ordered[1:] == ordered[:-1]) & (hashes[1:] == hashes[:-1])
        equal = np.flatnonzero(same)
        for column in self.columns:
            same[equal] &= column[order[equal + 1]] == column[order[equal]]
        return order, np.flatnonzero(np.concatenate([[True], ~same]))

    def hashes(self) -> Unsigned:
        """Return a number per row that the contents alone determine."""
        out = np.zeros(len(self.columns[0]), dtype=np.uint64)
        for column in self.columns:
            numbers = column.astype(np.float64) + 0.0  # minus zero becomes zero
            out = mixed(out * np.uint64(3) + numbers.view(np.uint64))
        return out


def joined_votes(left: Votes | None, right: Votes | None, sizes: tuple[int, int]) -> Votes | None:
    """Return the rows of both sides; votes without a weight have weight 1.

    Covariates and clusters must be those of both sides or of none.
    """
    if left is None and right is None:
        return None
    first, second = left or Votes(), right or Votes()
    weight = None
    if first.weight is not None or second.weight is not None:
        parts = zip((first.weight, second.weight), sizes, strict=True)
        weight = np.concatenate([np.ones(size) if part is None else part for part, size in parts])
    slopes = None if first.slopes is None else np.concatenate([first.slopes, np.asarray(second.slopes)])
    clusters = None if first.clusters is None else np.concatenate([first.clusters, np.asarray(second.clusters)])
    return Votes(slopes, weight, clusters)


def mixed(x: Unsigned) -> Unsigned:
    """Return the numbers scrambled, one to one (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
