"""The (context, model) entries that cells touch: one slot each, and sums from cells to slots and back.

Values live on slots: all D d1 of them where cells touch many, or a list of those touched.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

from lrbtl._kernels import gram, tangent
from lrbtl.lowrank.arrowhead import subtract_gram
from lrbtl.typing import Floats, Ints, Longs

FULL = 4  # slots per cell up to which arrays over all slots are cheaper than lists of those touched


@dataclass(frozen=True)
class EntryIndex:
    """Which slots cells touch; made once for all designs of the same cells.

    Attributes
    ----------
    start : array (D + 1,)
        Cells of context u are start[u]:start[u + 1].
    a, b : arrays (n_cells,)
        The two sides; b = -1 where a cell observes the single entry (a, u).
    slot_a, slot_b : arrays (n_cells,)
        Slots of the two sides, negative for the second where it is one entry.
    slot_start : array (D + 1,)
        Slots of context u are slot_start[u]:slot_start[u + 1].
    model : array (n_slots,)
        Model of each slot.
    n_models : int
    full : bool
        Whether all D d1 entries have a slot, in order.
    distinct : bool
        Whether it is known that no pair occurs in two cells of a context.
    """

    start: Longs
    a: Ints
    b: Ints
    slot_a: Longs
    slot_b: Longs
    slot_start: Longs
    model: Longs
    n_models: int
    full: bool
    distinct: bool = False

    @classmethod
    def of(
        cls, n_models: int, start: Longs, a: Ints, b: Ints, *, full: bool | None = None, distinct: bool = False
    ) -> "EntryIndex":
        """Return the index of cells; `full` is what is cheaper unless it is given."""
        D = len(start) - 1
        context = np.repeat(np.arange(D), np.diff(start))
        key_a, pair = context * n_models + a, b >= 0
        key_b = np.where(pair, context * n_models + b, -1)
        firsts = np.arange(D + 1) * n_models
        if D * n_models <= FULL * len(a) if full is None else full:
            model = np.tile(np.arange(n_models), D)
            return cls(start, a, b, key_a, key_b, firsts, model, n_models, True, distinct)
        occupied, number = np.unique(np.concatenate([key_a, key_b[pair]]), return_inverse=True)
        slot_b = np.full(len(key_b), -1)
        slot_b[pair] = number[len(key_a) :]
        slot_start, model = np.searchsorted(occupied, firsts).astype(np.int64), occupied % n_models
        return cls(start, a, b, number[: len(key_a)], slot_b, slot_start, model, n_models, False, distinct)

    @property
    def n_contexts(self) -> int:
        """Number D of contexts."""
        return len(self.start) - 1

    @cached_property
    def context(self) -> Longs:
        """Context of each cell."""
        return np.repeat(np.arange(self.n_contexts), np.diff(self.start))

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return len(self.model)

    @cached_property
    def slot_places(self) -> tuple[Longs, Longs]:
        """Context and model of each slot."""
        return np.repeat(np.arange(self.n_contexts), np.diff(self.slot_start)), self.model

    @property
    def slots(self) -> tuple[Longs, Longs]:
        """Slots of the two sides of each cell, negative for the second where it is one entry."""
        return self.slot_a, self.slot_b

    # ------------------------------------------------------------------------------
    # Atoms: the cells with the outcomes of a pair, or the values of an entry, put together.
    # ------------------------------------------------------------------------------

    @cached_property
    def _first(self) -> npt.NDArray[np.bool_]:
        """Whether a cell is the first of its atom."""
        first = np.ones(len(self.a), dtype=bool)
        first[1:] = (self.a[1:] != self.a[:-1]) | (self.b[1:] != self.b[:-1])
        first[self.start[:-1][np.diff(self.start) > 0]] = True
        return first

    @cached_property
    def atoms(self) -> "EntryIndex":
        """The pairs (or entries) that occur in a context, whatever came out, with the same slots."""
        if self.distinct:
            return self
        kept = np.flatnonzero(self._first)
        cells = np.searchsorted(kept, self.start), self.a[kept], self.b[kept], self.slot_a[kept], self.slot_b[kept]
        return EntryIndex(*cells, self.slot_start, self.model, self.n_models, self.full, True)

    @cached_property
    def atom_number(self) -> Longs:
        """Atom of each cell."""
        return np.arange(len(self.a)) if self.distinct else np.cumsum(self._first) - 1

    def atom_weights(self, weight: Floats) -> Floats:
        """Return the weights of cells summed over the outcomes of a pair, or the values of an entry."""
        if len(self.atoms.a) == len(weight):
            return weight
        out = np.zeros(len(self.atoms.a))
        gram.sum_runs(self.atom_number, weight, out)
        return out

    def of_atoms(self, values: Floats) -> Floats:
        """Return a value per atom as one per cell."""
        return values if len(values) == len(self.a) else values[self.atom_number]

    # ------------------------------------------------------------------------------
    # From slots to cells and back.
    # ------------------------------------------------------------------------------

    def slot_values(self, U: Floats, V: Floats) -> Floats:
        """Return the entry of U V^T at every slot."""
        if self.full:
            return (V @ U.T).reshape(-1)
        out = np.zeros(self.n_slots)
        tangent.push_slots(self.slot_start, self.model, U, V, out)
        return out

    def differences(self, value: Floats) -> Floats:
        """Return <value, X> of every cell from one value per slot."""
        out = np.empty(len(self.a))
        tangent.fill_differences(self.slot_a, self.slot_b, value, out)
        return out

    def gram_sums(self, weight: Floats, value: Floats) -> Floats:
        """Return sum of weight <value, X> X over cells, (n_slots,) or (n_slots, k) as values [Li26, eq. Ghat_def]."""
        out = np.zeros(value.shape)
        if value.ndim == 1:
            gram.apply_gram(self.start, self.slot_a, self.slot_b, value, weight, out)
        elif value.shape[1]:
            merged = self.atom_weights(weight)
            gram.apply_gram_columns(*self.atoms.slots, np.ascontiguousarray(value), merged, out)
        return out

    def slot_sums(self, value: Floats) -> Floats:
        """Return for each slot the sum of a cell value, signed by side."""
        atoms, out = self.atoms, np.zeros(self.n_slots)
        tangent.sum_slots(atoms.start, *atoms.slots, self.atom_weights(value), out)
        return out

    def signed_sums(self, value: Floats, signs: npt.NDArray[np.uint64], first: int, n: int) -> Floats:
        """Return the same for n choices of signs, (n_slots, n), from a value per atom.

        Bit `first + j` of an atom is set for plus in sum j.
        """
        out = np.zeros((self.n_slots, n))
        tangent.sum_signed_slots(*self.atoms.slots, value, signs, first, out)
        return out

    def unsigned(self, value: Floats) -> Floats:
        """Return the sum of a cell value over the cells that touch each slot."""
        pair, n = self.slot_b >= 0, self.n_slots
        sums = np.bincount(self.slot_a, value, n) + np.bincount(self.slot_b[pair], value[pair], n)
        return np.asarray(sums, dtype=np.float64)

    # ------------------------------------------------------------------------------
    # From slots to models and contexts.
    # ------------------------------------------------------------------------------

    def slot_matrix(self, value: Floats) -> Floats | sparse.csr_array:
        """Return one value per slot as a matrix (D, d1), sparse unless most slots are touched."""
        shape = (self.n_contexts, self.n_models)
        return (
            value.reshape(shape) if self.full else sparse.csr_array((value, self.model, self.slot_start), shape=shape)
        )

    def slot_gram(self, value: Floats) -> Floats:
        """Return R^T R for one value per slot as a matrix R (D, d1), (d1, d1)."""
        matrix = self.slot_matrix(value)
        if isinstance(matrix, np.ndarray):
            return np.asarray(matrix.T @ matrix)
        out = np.zeros((self.n_models, self.n_models))
        subtract_gram(matrix, out)
        return -out

    @cached_property
    def _sides(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Sums over the slots of each model, (d1, n_slots), and of each context, (D, n_slots), as matrices."""
        (context, model), slot, ones = self.slot_places, np.arange(self.n_slots), np.ones(self.n_slots)
        sizes = (self.n_models, self.n_slots), (self.n_contexts, self.n_slots)
        both = zip((model, context), sizes, strict=True)
        first, second = (sparse.csr_array((ones, (side, slot)), shape=size) for side, size in both)
        return first, second

    def by_model(self, values: Floats) -> Floats:
        """Return sums over contexts of values on the slots (n_slots, k), (d1, k)."""
        return np.asarray(self._sides[0] @ values)

    def by_context(self, values: Floats) -> Floats:
        """Return sums over the models of each context of values on the slots (n_slots, k), (D, k)."""
        return np.asarray(self._sides[1] @ values)
