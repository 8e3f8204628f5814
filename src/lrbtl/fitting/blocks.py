"""A matrix per context over the models that met there, as a design that the normal equations take.

Values live on slots, the (context, model) pairs that battles touch. Models of a context that no chain of its battles
links have zeros between them: a matrix is kept as blocks, one per linked group. Blocks of about the same size
are padded to one and go through linear algebra together: ten models that met in a context cost 10^3, whatever d1 is,
and ten pairs that met once each cost ten times 2^3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

from lrbtl._kernels import blocks as block_kernels
from lrbtl._kernels import gram as kernels
from lrbtl.data.cells import mixed_bits, record_places, weak_components
from lrbtl.fitting.design import Design
from lrbtl.fitting.entries import EntryIndex
from lrbtl.lowrank.arrowhead import mirrored
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker, eigenvectors, truncate
from lrbtl.typing import Floats, Longs

Matrices = list[Floats]  # one array (contexts, m, m) per group

NEARLY_ALL = 0.9  # share of the slots that battles touch above which they are kept on a grid
SMALL = 24  # slots of a block up to which a call of BLAS costs more than its arithmetic
GROWTH = 1.25  # sizes of a group differ by at most this factor


@dataclass(frozen=True)
class Group:
    """Blocks of about the same number of slots.

    Attributes
    ----------
    contexts : array (B,)
        Context of each block.
    slots : array (B, m)
        Slots of each block; the number of all slots stands for padding.
    models : array (B, m)
        Their models; 0 in the padding, where all values are zero.
    """

    contexts: Longs
    slots: Longs
    models: Longs


def without_idle_slots(design: Design) -> Design:
    """Return the design with slots only where battles are, unless nearly all have some: matrices grow with them."""
    if not design.entries.full:
        return design
    touched = np.zeros(design.entries.n_slots, dtype=np.bool_)
    for side in design.entries.slots:
        touched[side] = True
    return design if touched.mean() > NEARLY_ALL else _with_slots(design, full=False)


def with_all_slots(design: Design) -> Design:
    """Return the design with a slot for each model in each context, whether it has battles or not."""
    return _with_slots(design, full=True)


def _with_slots(design: Design, *, full: bool) -> Design:
    return replace(design, entries=EntryIndex.of(design.shape[0], design.start, design.a, design.b, full=full))


def only_models(design: Design, models: Longs) -> Design:
    """Return the votes among some models as a design of these alone."""
    number = np.full(design.shape[0], -1, dtype=design.a.dtype)
    number[models] = np.arange(len(models))
    part = design.restricted(np.flatnonzero((number[design.a] >= 0) & (number[design.b] >= 0)))
    return replace(part, shape=(len(models), *design.shape[1:]), a=number[part.a], b=number[part.b])


def only_contexts(design: Design, contexts: Longs) -> Design:
    """Return the votes of some contexts of a matrix as a design of these alone."""
    sizes = np.diff(design.start)[contexts]
    kept = np.concatenate([np.arange(design.start[u], design.start[u + 1]) for u in contexts])
    part = design.restricted(kept)
    start = np.concatenate([[0], np.cumsum(sizes)])
    return replace(part, shape=(design.shape[0], len(contexts)), start=start)


@dataclass(frozen=True)
class Blocks:
    """The slots of each context, or of each linked group of its models, and a symmetric matrix among those of each.

    Matrices come as one array (B, m, m) per group of blocks.

    Attributes
    ----------
    entries : EntryIndex
        The slots.
    """

    entries: EntryIndex

    @cached_property
    def _blocks(self) -> tuple[Longs, Longs]:
        """Slots in the order of their blocks, and where each block begins: contexts, or their linked groups."""
        entries = self.entries
        if entries.full:
            return np.arange(entries.n_slots), entries.slot_start
        label = weak_components(*entries.slots, entries.n_slots)[0]
        order = np.argsort(label, kind="stable")
        first = np.flatnonzero(np.diff(label[order], prepend=-1))
        return order, np.append(first, entries.n_slots)

    @cached_property
    def groups(self) -> list[Group]:
        """All blocks, by their size."""
        return self._padded(*self._blocks)

    @cached_property
    def context_groups(self) -> list[Group]:
        """All contexts with slots, by their number, as if each were one block."""
        return self._padded(np.arange(self.entries.n_slots), self.entries.slot_start)

    def _padded(self, order: Longs, start: Longs) -> list[Group]:
        """Return blocks of slots, given one after the other, as groups of about the same size."""
        (context, model), sizes = self.entries.slot_places, np.diff(start)
        left = np.flatnonzero(sizes)
        left = left[np.argsort(-sizes[left], kind="stable")]
        out = []
        while left.size:
            m = int(sizes[left[0]])
            here, left = left[sizes[left] * GROWTH >= m], left[sizes[left] * GROWTH < m]
            position = np.minimum(start[here][:, None] + np.arange(m), self.entries.n_slots - 1)
            inside = np.arange(m) < sizes[here][:, None]
            slots = np.where(inside, order[position], self.entries.n_slots)
            out.append(Group(context[order[start[here]]], slots, np.where(inside, model[order[position]], 0)))
        return out

    def gather(self, values: Floats) -> list[Floats]:
        """Return values per slot (n_slots, ...) as arrays (B, m, ...) per group."""
        padded = np.concatenate([values, np.zeros((1, *values.shape[1:]))])
        return [padded[group.slots] for group in self.groups]

    def scatter(self, parts: list[Floats]) -> Floats:
        """Return arrays (B, m, ...) per group as values per slot."""
        out = np.zeros((self.entries.n_slots + 1, *(parts[0].shape[2:] if parts else ())))
        for group, part in zip(self.groups, parts, strict=True):
            out[group.slots] = part
        return out[:-1]

    def times(self, matrices: Matrices, values: Floats) -> Floats:
        """Return the product of each context's matrix with values per slot (n_slots,) or (n_slots, k)."""
        if self.entries.full and self.entries.n_models >= SMALL:
            cube = values.reshape(self.entries.n_contexts, self.entries.n_models, -1)
            return (matrices[0] @ cube).reshape(values.shape)
        wide = np.ascontiguousarray(values if values.ndim == 2 else values[:, None])
        out = np.zeros(wide.shape)
        for group, matrix in zip(self.groups, matrices, strict=True):
            if matrix.shape[1] < SMALL:
                block_kernels.times_blocks(group.slots, np.ascontiguousarray(matrix), wide, out)
                continue
            inside = group.slots < self.entries.n_slots
            part = np.where(inside[:, :, None], wide[np.minimum(group.slots, self.entries.n_slots - 1)], 0.0)
            out[group.slots[inside]] = (matrix @ part)[inside]
        return out.reshape(values.shape)

    @cached_property
    def _places(self) -> list[tuple[Longs, Longs]]:
        """For each group, its atoms and where each stands in the group's matrices, flat."""
        first, second = self.entries.atoms.slots
        number, place = np.empty((2, self.entries.n_slots + 1), dtype=np.int64)
        for g, group in enumerate(self.groups):
            number[group.slots] = g
            place[group.slots] = np.arange(group.slots.size).reshape(group.slots.shape)
        out = []
        for g, group in enumerate(self.groups):
            inside = np.flatnonzero(number[first] == g) if len(self.groups) > 1 else np.arange(len(first))
            m = group.slots.shape[1]
            out.append((inside, place[first[inside]] * m + place[second[inside]] % m))
        return out

    def laplacians(self, weight: Floats) -> Matrices:
        """Return sum of weight X X^T over the cells of each context, for pairs."""
        merged, out = self.entries.atom_weights(weight), []
        for group, (atoms, place) in zip(self.groups, self._places, strict=True):
            blocks = np.zeros((*group.slots.shape, group.slots.shape[1]))
            kernels.sum_laplacians(place, merged[atoms], blocks)
            out.append(blocks)
        return out

    def read_pairs(self, g: int, part: slice, matrices: Floats, out: Floats) -> None:
        """Write entries of matrices of some blocks of a group, at the two sides of each atom, to `out` (n_atoms,)."""
        atoms, place = self._places[g]
        first, last, _ = part.indices(len(self.groups[g].slots))
        size = matrices.shape[1] ** 2
        inside = (place >= first * size) & (place < last * size)
        out[atoms[inside]] = matrices.reshape(-1)[place[inside] - first * size]

    def pair_entries(self, matrices: Matrices) -> Floats:
        """Return the entry of each context's matrix at the two sides of each cell, (n_cells,)."""
        out = np.empty(len(self.entries.atoms.a))
        for g, matrix in enumerate(matrices):
            self.read_pairs(g, slice(None), matrix, out)
        return self.entries.of_atoms(out)

    def summed(self, matrices: Matrices, weights: Floats | None = None) -> Floats:
        """Return the sum over contexts of their matrices, (d1, d1), times weights (D,) if given."""
        d1, out = self.entries.n_models, np.zeros(self.entries.n_models**2)
        for group, stack in zip(self.groups, matrices, strict=True):
            factor = np.ones(len(stack)) if weights is None else weights[group.contexts]
            if self.entries.full:
                out += factor @ stack.reshape(len(stack), -1)
                continue
            used = np.flatnonzero(factor)
            models = group.models[used]
            pair = models[:, :, None] * d1 + models[:, None, :]
            weighted = stack[used] * factor[used, None, None]
            out += np.bincount(pair.reshape(-1), weighted.reshape(-1), d1**2)
        return out.reshape(d1, d1)

    def over_models(self, matrices: Matrices, contexts: Longs) -> Floats:
        """Return matrices of some contexts over all models, zero where they did not meet there."""
        d1, D = self.entries.n_models, self.entries.n_contexts
        out = np.zeros((len(contexts), d1, d1))
        wanted = np.full(D, -1)
        wanted[contexts] = np.arange(len(contexts))
        for group, stack in zip(self.groups, matrices, strict=True):
            blocks = np.flatnonzero(wanted[group.contexts] >= 0)
            place, models, values = wanted[group.contexts[blocks]], group.models[blocks], stack[blocks]
            if self.entries.full:
                out[place] = values
                continue
            inside = group.slots[blocks] < self.entries.n_slots
            which, row, column = np.nonzero(inside[:, :, None] & inside[:, None, :])
            out[place[which], models[which, row], models[which, column]] = values[which, row, column]
        return out

    def traces(self, matrices: Matrices, other: Floats) -> Floats:
        """Return the trace of each context's matrix times another (d1, d1), (D,)."""
        out = np.zeros(self.entries.n_contexts)
        for group, stack in zip(self.groups, matrices, strict=True):
            if self.entries.full:
                out[group.contexts] = stack.reshape(len(stack), -1) @ other.reshape(-1)
            else:
                here = other[group.models[:, :, None], group.models[:, None, :]]
                out += np.bincount(group.contexts, np.einsum("bij,bij->b", stack, here), len(out))
        return out


@dataclass(frozen=True)
class BlockDesign(Design):
    """The cells of a design, with a symmetric matrix per context in the place of a weight per cell.

    Attributes
    ----------
    blocks : Blocks
        What the matrices are kept as; made where none is given or it is of other slots, so that copies share it.
    """

    blocks: Blocks = field(default=None, repr=False)  # type: ignore[assignment]  # never None once made

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.blocks is None or self.blocks.entries is not self.entries:
            object.__setattr__(self, "blocks", Blocks(self.entries))

    @classmethod
    def of_cells(cls, design: Design) -> "BlockDesign":
        """Return the design of the same cells and slots."""
        return cls(**{each.name: getattr(design, each.name) for each in fields(design)})

    @property
    def n_slots(self) -> int:
        """Number of (context, model) pairs that cells touch."""
        return self.entries.n_slots

    @property
    def slot_places(self) -> tuple[Longs, Longs]:
        """Context and model of each slot."""
        return self.entries.slot_places

    @cached_property
    def _records(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Places of models and contexts, whatever they are called."""
        votes, won = (self.entries.atom_weights(part) for part in (self.count, self.count * self.y))
        atoms = self.entries.atoms
        return record_places(atoms.context, atoms.a, atoms.b, votes, won, (self.shape[0], self.n_contexts))

    @cached_property
    def atom_bits(self) -> npt.NDArray[np.uint64]:
        """Random bits of each atom, as signs of its first side: the other way round they are turned."""
        (models, contexts), atoms = self._records, self.entries.atoms
        first, second = models[atoms.a], models[atoms.b]
        context = np.repeat(contexts, np.diff(atoms.start))
        bits = mixed_bits(np.minimum(first, second), np.maximum(first, second), context)
        return np.where(first > second, ~bits, bits)

    @cached_property
    def slot_bits(self) -> npt.NDArray[np.uint64]:
        """Random bits of each slot."""
        (models, contexts), (context, model) = self._records, self.slot_places
        return mixed_bits(models[model], contexts[context])

    @property
    def meetings(self) -> sparse.csr_array:
        """Votes between each two models in all contexts, (d1, d1)."""
        rows, columns = np.concatenate([self.a, self.b]), np.concatenate([self.b, self.a])
        both = sparse.coo_array((np.tile(self.count, 2), (rows, columns)), shape=(self.shape[0], self.shape[0]))
        return sparse.csr_array(both)

    def add_model_blocks(self, space: TangentSpace, weight: Matrices, border: Floats) -> None:  # type: ignore[override]
        """Add sum over contexts of matrix kron v v^T to the block of the model factor."""
        d1, r1 = space.U.shape
        if not self.entries.full:
            lower = np.zeros((d1 * r1, d1 * r1))
            for group, matrix in zip(self.blocks.groups, weight, strict=True):
                kernels.sum_context_blocks(np.ascontiguousarray(matrix), group.models, space.V[group.contexts], lower)
            border[: d1 * r1, : d1 * r1] += mirrored(lower)
            return
        blocks = np.zeros((d1 * d1, r1 * r1))
        for group, matrix in zip(self.blocks.groups, weight, strict=True):
            v = space.V[group.contexts]
            blocks += matrix.reshape(len(matrix), -1).T @ (v[:, :, None] * v[:, None, :]).reshape(len(v), -1)
        border[: d1 * r1, : d1 * r1] += blocks.reshape(d1, d1, r1, r1).transpose(0, 2, 1, 3).reshape(d1 * r1, d1 * r1)

    def slot_rows(self, space: TangentSpace, weight: Matrices) -> tuple[Floats, Floats]:  # type: ignore[override]
        """Return matrix U per slot and U^T matrix U per context."""
        gram = np.zeros((self.n_contexts, space.U.shape[1], space.U.shape[1]))
        parts = []
        for group, matrix in zip(self.blocks.groups, weight, strict=True):
            U = space.U[group.models]
            parts.append(matrix @ U)
            np.add.at(gram, group.contexts, np.swapaxes(U, 1, 2) @ parts[-1])
        return self.blocks.scatter(parts), gram


@dataclass(frozen=True)
class LowRankPlusSparse:
    """A number for each model in each context, as U V^T plus values on slots: nothing of size d1 D is kept.

    Where slots are a grid, they hold everything, and U and V are empty.

    Attributes
    ----------
    design : BlockDesign
        With the slots.
    U, V : arrays (d1, k), (D, k)
    slots : array (n_slots,)
    """

    design: BlockDesign
    U: Floats
    V: Floats
    slots: Floats

    @classmethod
    def of(cls, design: BlockDesign, U: Floats, V: Floats, slots: Floats | float) -> "LowRankPlusSparse":
        """Return U V^T plus values on slots."""
        on_slots = np.broadcast_to(slots, design.n_slots)
        if not design.entries.full:
            return cls(design, U, V, on_slots)
        return cls(design, U[:, :0], V[:, :0], (V @ U.T).reshape(-1) + on_slots)

    @classmethod
    def mixed(cls, fields: Sequence["LowRankPlusSparse"], weights: Sequence[float]) -> "LowRankPlusSparse":
        """Return a weighted sum of fields of the same design."""
        V = np.hstack([weight * field.V for field, weight in zip(fields, weights, strict=True)])
        slots = sum((weight * field.slots for field, weight in zip(fields, weights, strict=True)), np.zeros(()))
        return cls(fields[0].design, np.hstack([field.U for field in fields]), V, slots)

    @property
    def shape(self) -> tuple[int, int]:
        """(d1, D)."""
        return len(self.U), len(self.V)

    @cached_property
    def _on_slots(self) -> Floats | sparse.csr_array:
        """The values on slots as a matrix (D, d1)."""
        return self.design.entries.slot_matrix(self.slots)

    def centred(self) -> "LowRankPlusSparse":
        """Return the field with zero sums over the models of each context."""
        d1 = len(self.U)
        mean = (self.V @ self.U.sum(axis=0) + np.asarray(self._on_slots.sum(axis=1)).reshape(-1)) / d1
        if self.design.entries.full:
            return replace(self, slots=(self._on_slots - mean[:, None]).reshape(-1))
        return replace(self, U=np.hstack([self.U, np.ones((d1, 1))]), V=np.hstack([self.V, -mean[:, None]]))

    def at_slots(self) -> Floats:
        """Return the values on slots, all in all."""
        U, V = np.ascontiguousarray(self.U), np.ascontiguousarray(self.V)
        return self.slots if self.design.entries.full else self.slots + self.design.entries.slot_values(U, V)

    def entries(self, models: Longs, contexts: Longs) -> Floats:
        """Return some values, (n,)."""
        d1, key = len(self.U), contexts * len(self.U) + models
        if self.design.entries.full:
            return np.asarray(self.slots[key])
        context, model = self.design.slot_places
        known = context * d1 + model
        place = np.minimum(np.searchsorted(known, key), len(known) - 1)
        here = np.where(known[place] == key, self.slots[place], 0.0)
        return np.asarray(np.einsum("ik,ik->i", self.U[models], self.V[contexts]) + here)

    def columns(self, contexts: Longs | slice = slice(None)) -> Floats:
        """Return all models' values in some contexts, (n, d1)."""
        here = self._on_slots[contexts]
        return np.asarray(self.V[contexts] @ self.U.T + (here if isinstance(here, np.ndarray) else here.toarray()))

    def dense(self) -> Floats:
        """Return all values, (d1, D)."""
        return np.asarray(self.columns().T)

    def mean(self, weights: Floats) -> Floats:
        """Return the sum over contexts times weights (D,), (d1,)."""
        return np.asarray(self.U @ (self.V.T @ weights) + self._on_slots.T @ weights)

    def times(self, right: Floats) -> Floats:
        """Return the transpose times a matrix (d1, k), (D, k)."""
        return np.asarray(self.V @ (self.U.T @ right) + self._on_slots @ right)

    def gram(self) -> Floats:
        """Return the field times its transpose, (d1, d1)."""
        half = (self._on_slots.T @ self.V + 0.5 * self.U @ (self.V.T @ self.V)) @ self.U.T
        return np.asarray(self.design.entries.slot_gram(self.slots) + half + half.T)

    def mean_square(self) -> float:
        """Return the mean of the squared values."""
        low_rank = self.at_slots() - self.slots
        total = np.sum((self.U.T @ self.U) * (self.V.T @ self.V)) + self.slots @ (self.slots + 2.0 * low_rank)
        return float(total) / (len(self.U) * len(self.V))

    def norm(self) -> float:
        """Return the largest singular value."""
        if self.design.entries.full or len(self.V) < len(self.U):
            return float(np.linalg.norm(self.columns(), 2))
        return float(np.sqrt(np.linalg.eigvalsh(self.gram())[-1]))

    def truncated(self, rank: tuple[int, ...]) -> Tucker:
        """Return a low-rank approximation."""
        if self.design.entries.full or len(rank) > 2 or len(self.V) < len(self.U):
            return truncate(self.dense().reshape(self.design.shape), rank)
        left = eigenvectors(self.gram(), rank[0])
        return Tucker(np.eye(rank[0]), (left, self.times(left))).canonical()
