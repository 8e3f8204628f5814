"""A matrix per context over the models that met there, as a design that the normal equations take.

Values live on slots, the (context, model) pairs that battles touch. Contexts with about equally many slots are padded
to one size and go through linear algebra together: ten models that met in a context cost 10^3, whatever d1 is.
"""

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lrbtl.fitting.design import Design
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.typing import Floats, Longs

Matrices = list[Floats]  # one array (contexts, m, m) per group

NEARLY_ALL = 0.9  # share of the slots that battles touch above which they are kept on a grid
GROWTH = 1.25  # sizes of a group differ by at most this factor


@dataclass(frozen=True)
class Group:
    """Contexts of about the same number of slots.

    Attributes
    ----------
    contexts : array (B,)
    slots : array (B, m)
        Slots of each context; the number of all slots stands for padding.
    models : array (B, m)
        Their models; 0 in the padding, where all values are zero.
    """

    contexts: Longs
    slots: Longs
    models: Longs


def without_idle_slots(design: Design) -> Design:
    """Return the design with slots only where battles are, unless nearly all have some: matrices grow with them."""
    d1 = design.shape[0]
    if not design.full:
        return design
    touched = np.zeros(design.n_contexts * d1, dtype=np.bool_)
    for side in design.slots:
        touched[side] = True
    if touched.mean() > NEARLY_ALL:
        return design
    other = copy(design)
    for name in ("slot_table", "atom_table"):
        other.__dict__.pop(name, None)
    other.__dict__["full"] = False
    return other


class BlockDesign(Design):
    """The cells of a design, with a symmetric matrix per context in the place of a weight per cell."""

    @classmethod
    def of_cells(cls, design: Design) -> "BlockDesign":
        """Return the design of the same cells and slots."""
        other = cls.__new__(cls)
        other.__dict__.update(design.__dict__)
        other.__dict__.update(full=design.full, slot_table=design.slot_table, atom_table=design.atom_table)
        return other

    @property
    def n_slots(self) -> int:
        """Number of (context, model) pairs that cells touch."""
        return int(self.slot_table[2][-1])

    @cached_property
    def slot_places(self) -> tuple[Longs, Longs]:
        """Context and model of each slot."""
        *_, start, model = self.slot_table
        return np.repeat(np.arange(self.n_contexts), np.diff(start)), model

    @cached_property
    def groups(self) -> list[Group]:
        """All contexts with slots, by their number."""
        *_, start, model = self.slot_table
        sizes = np.diff(start)
        contexts = np.flatnonzero(sizes)
        contexts = contexts[np.argsort(-sizes[contexts], kind="stable")]
        out = []
        while contexts.size:
            m = int(sizes[contexts[0]])
            here, contexts = contexts[sizes[contexts] * GROWTH >= m], contexts[sizes[contexts] * GROWTH < m]
            position = start[here][:, None] + np.arange(m)
            inside = np.arange(m) < sizes[here][:, None]
            slots = np.where(inside, position, self.n_slots)
            out.append(Group(here, slots, np.where(inside, model[np.minimum(position, self.n_slots - 1)], 0)))
        return out

    def gather(self, values: Floats) -> list[Floats]:
        """Return values per slot (n_slots, ...) as arrays (B, m, ...) per group."""
        padded = np.concatenate([values, np.zeros((1, *values.shape[1:]))])
        return [padded[group.slots] for group in self.groups]

    def scatter(self, parts: list[Floats]) -> Floats:
        """Return arrays (B, m, ...) per group as values per slot."""
        out = np.zeros((self.n_slots + 1, *parts[0].shape[2:]))
        for group, part in zip(self.groups, parts, strict=True):
            out[group.slots] = part
        return out[:-1]

    def times(self, matrices: Matrices, values: Floats) -> Floats:
        """Return the product of each context's matrix with values per slot (n_slots,) or (n_slots, k)."""
        wide = values.reshape(len(values), -1)
        found = self.scatter([matrix @ part for matrix, part in zip(matrices, self.gather(wide), strict=True)])
        return found.reshape(values.shape)

    @cached_property
    def _places(self) -> list[tuple[Longs, Longs]]:
        """For each group, its atoms and where each stands in the group's matrices, flat."""
        atoms, (*_, start, _) = self.atom_table, self.slot_table
        context = np.repeat(np.arange(self.n_contexts), np.diff(atoms.start))
        first, second = atoms.slot_a - start[context], atoms.slot_b - start[context]
        row = np.empty(self.n_contexts, dtype=np.int64)
        number = np.full(self.n_contexts, -1)
        for g, group in enumerate(self.groups):
            row[group.contexts], number[group.contexts] = np.arange(len(group.contexts)), g
        out = []
        for g, group in enumerate(self.groups):
            m, inside = group.slots.shape[1], np.flatnonzero(number[context] == g)
            out.append((inside, (row[context[inside]] * m + first[inside]) * m + second[inside]))
        return out

    def laplacians(self, weight: Floats) -> Matrices:
        """Return sum of weight X X^T over the cells of each context, for pairs."""
        merged, out = Design.atom_weights(self, weight), []
        for group, (atoms, place) in zip(self.groups, self._places, strict=True):
            B, m = group.slots.shape
            upper = np.bincount(place, merged[atoms], B * m * m).astype(np.float64, copy=False).reshape(B, m, m)
            links = -upper - upper.transpose(0, 2, 1)
            each = np.arange(m)
            links[:, each, each] -= links.sum(axis=2)
            out.append(links)
        return out

    def pair_entries(self, matrices: Matrices) -> Floats:
        """Return the entry of each context's matrix at the two sides of each cell, (n_cells,)."""
        out = np.empty(len(self.atom_table.a))
        for matrix, (atoms, place) in zip(matrices, self._places, strict=True):
            out[atoms] = matrix.reshape(-1)[place]
        return out[self.atom_table.number] if len(out) < len(self.a) else out

    def summed(self, matrices: Matrices) -> Floats:
        """Return the sum over contexts of their matrices, (d1, d1)."""
        d1, out = self.shape[0], np.zeros(self.shape[0] ** 2)
        for group, stack in zip(self.groups, matrices, strict=True):
            if self.full:
                out += stack.sum(axis=0).reshape(-1)
            else:
                pair = group.models[:, :, None] * d1 + group.models[:, None, :]
                out += np.bincount(pair.reshape(-1), stack.reshape(-1), d1**2)
        return out.reshape(d1, d1)

    @cached_property
    def ladder(self) -> Floats:
        """Places of the models (d1,) by whom they meet: neighbours meet often, the two ends seldom.

        It is the smoothest direction of the graph of pairings, whatever came out of them. Its mean square is near 1 for
        a ladder and near 0 where anybody meets anybody.
        """
        votes = self.summed(self.laplacians(self.count))
        root = 1.0 / np.sqrt(np.maximum(np.diag(votes), 1.0))
        values, vectors = np.linalg.eigh(votes * root * root[:, None])
        place = root * vectors[:, min(1, len(root) - 1)]
        place = place - place.mean()
        size = max(1.0 - float(values[min(1, len(root) - 1)]), 0.0)
        return np.asarray(size * place / max(float(np.sqrt(np.mean(place**2))), 1e-300))

    def traces(self, matrices: Matrices, other: Floats) -> Floats:
        """Return the trace of each context's matrix times another (d1, d1), (D,)."""
        out = np.zeros(self.n_contexts)
        for group, stack in zip(self.groups, matrices, strict=True):
            if self.full:
                out[group.contexts] = stack.reshape(len(stack), -1) @ other.reshape(-1)
            else:
                here = other[group.models[:, :, None], group.models[:, None, :]]
                out[group.contexts] = np.einsum("bij,bij->b", stack, here)
        return out

    def atom_weights(self, weight: Matrices) -> Matrices:  # type: ignore[override]
        """Return the matrices: nothing is to be put together."""
        return weight

    def add_model_blocks(self, space: TangentSpace, weight: Matrices, border: Floats) -> None:  # type: ignore[override]
        """Add sum over contexts of matrix kron v v^T to the block of the model factor."""
        d1, r1 = space.U.shape
        blocks = np.zeros((d1 * d1, r1 * r1))
        for group, matrix in zip(self.groups, weight, strict=True):
            v = space.V[group.contexts]
            outer = (v[:, :, None] * v[:, None, :]).reshape(len(v), -1)
            if self.full:
                blocks += matrix.reshape(len(matrix), -1).T @ outer
                continue
            pair = (group.models[:, :, None] * d1 + group.models[:, None, :]).reshape(-1)
            for k in range(r1 * r1):
                blocks[:, k] += np.bincount(pair, (matrix * outer[:, k, None, None]).reshape(-1), d1 * d1)
        border[: d1 * r1, : d1 * r1] += blocks.reshape(d1, d1, r1, r1).transpose(0, 2, 1, 3).reshape(d1 * r1, d1 * r1)

    def slot_rows(self, space: TangentSpace, weight: Matrices) -> tuple[Floats, Floats]:  # type: ignore[override]
        """Return matrix U per slot and U^T matrix U per context."""
        gram = np.zeros((self.n_contexts, space.U.shape[1], space.U.shape[1]))
        parts = []
        for group, matrix in zip(self.groups, weight, strict=True):
            U = space.U[group.models]
            parts.append(matrix @ U)
            gram[group.contexts] = np.swapaxes(U, 1, 2) @ parts[-1]
        return self.scatter(parts), gram
