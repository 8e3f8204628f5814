"""What the kernels see: cells, and the (context, model) slots they touch."""

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from lrbtl._kernels import gram, tangent
from lrbtl.data.battles import Battles
from lrbtl.data.covariates import check_covariates
from lrbtl.data.observations import Data, Results
from lrbtl.errors import TooLargeError
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.model.effects import Border, Effects
from lrbtl.model.links import LOGISTIC, CellTerms, Link
from lrbtl.typing import Floats, Ints, Longs

WORTHWHILE = 0.9  # share of the cells that atoms may have at most to take their place in a fit
MOST_EFFECTS = 2000  # linear effects that a border holds
FULL = 4  # slots per cell up to which arrays over all slots are cheaper than lists of those touched


class SharedParameters(Protocol):
    """What a fit found of the parameters that cells share."""

    @property
    def link(self) -> Link:
        """The law, with its own parameters."""

    @property
    def effect_values(self) -> Floats | None:
        """Values of linear effects."""


@dataclass(frozen=True)
class _Atoms:
    """Pairs (or entries) that occur in a context, whatever came out."""

    number: Longs  # (n_cells,) atom of each cell; not used where every cell is one
    start: Longs  # (D + 1,) atoms of context u are start[u]:start[u + 1]
    a: Ints  # (n_atoms,)
    b: Ints  # (n_atoms,)
    slot_a: Longs  # (n_atoms,)
    slot_b: Longs  # (n_atoms,)


@dataclass(frozen=True)
class Design:
    """Cells sorted by context, ready for the loops.

    Attributes
    ----------
    shape : (d1, ..., dm)
    start : array (D + 1,)
        Cells of context u are start[u]:start[u + 1].
    a, b : arrays (n_cells,)
        The two sides; b = -1 where a cell observes the single entry (a, u).
    y : array (n_cells,)
        Response.
    count : array (n_cells,)
        Multiplicity, as a float.
    centred : bool
        True for pairs, whose scores are determined up to a constant per context.
    link : Link
        Law of the responses given their eta.
    variance : array (n_cells,) or None
        Known variance of the noise.
    effects : Effects or None
        Parameters that cells share and that move eta; those of the law are in the link.
    weight : array (n_cells,) or None
        Weight of one vote, such that weights sum to the number of votes of equal weight that tell as much: terms of
        votes are multiplied by it, so that squared scores have it squared.
    """

    shape: tuple[int, ...]
    start: Longs
    a: Ints
    b: Ints
    y: Floats
    count: Floats
    centred: bool = True
    link: Link = LOGISTIC
    variance: Floats | None = None
    effects: Effects | None = None
    weight: Floats | None = None

    @classmethod
    def of(cls, data: Data, link: Link | None = None) -> "Design":
        """Return the design of battles or of observed entries."""
        cells, count = data.cells, data.cells.count.astype(float)
        entries = isinstance(data, Results)
        chosen = link or LOGISTIC
        variance = data.variance if isinstance(data, Results) else None
        fields = () if isinstance(data, Results) else (linear_effects(data), unit_weights(data))
        sides = cells.start, cells.a, cells.b, cells.y, count
        return cls(data.shape, *sides, not entries, chosen, variance, *fields)

    @property
    def total(self) -> float:
        """Sum of the weights of all votes: their number where all weigh the same."""
        return float(self.count.sum() if self.weight is None else self.count @ self.weight)

    def under(self, found: SharedParameters) -> "Design":
        """Return the same cells with the parameters that they share as found by a fit."""
        other = self.with_link(found.link)
        if self.effects is None or found.effect_values is None:
            return other
        return other._with("effects", replace(self.effects, values=found.effect_values))

    def with_link(self, link: Link) -> "Design":
        """Return the same cells under another link."""
        if link is self.link:
            return self
        other = self._with("link", link)
        other.__dict__.pop("at_zero", None)
        return other

    def with_count(self, count: Floats) -> "Design":
        """Return the same cells with other multiplicities."""
        return self._with("count", count)

    def _with(self, name: str, value: object) -> "Design":
        """Return a copy with one field replaced, which keeps the slots."""
        _ = self.atom_table  # made once, for all copies
        other = copy(self)
        object.__setattr__(other, name, value)
        return other

    def moved(self, step: Floats) -> "Design":
        """Return the same cells with the parameters that they share moved."""
        k = self.n_effects - self.link.n_extra
        other = self.with_link(self.link.moved(step[k:]))
        return (
            other
            if self.effects is None
            else other._with("effects", replace(self.effects, values=self.effects.values + step[:k]))
        )

    @property
    def n_effects(self) -> int:
        """Number of parameters that all cells share: linear effects, then those of the law."""
        return self.link.n_extra + (0 if self.effects is None else len(self.effects.values))

    def space(self, point: Tucker) -> TangentSpace:
        """Return the tangent space at a point, with the effects in its border."""
        return TangentSpace(point, centred=self.centred, n_extra=self.n_effects)

    def joined(self, law: CellTerms) -> CellTerms:
        """Return the terms of a link with the weights of votes and the linear effects."""
        terms = law if self.weight is None else law.weighted(self.weight)
        return terms if self.effects is None else self.effects.join(terms)

    @cached_property
    def at_zero(self) -> CellTerms:
        """Terms at eta = 0, before any fit."""
        terms = self.link.terms(np.zeros(len(self.a)), self.y, self.variance)
        return terms if self.weight is None else terms.weighted(self.weight)

    @property
    def information_at_zero(self) -> float:
        """Sum over responses of the Fisher information at eta = 0: the strength of the data before any fit."""
        return float(self.count @ self.at_zero.fisher)

    @property
    def noise(self) -> float:
        """Size of the noise in an entry of the linearised estimate, sqrt(d_eff / sum of n I(0))."""
        return float(np.sqrt(self.d_eff / self.information_at_zero))

    def restricted(self, kept: Longs) -> "Design":
        """Return the design of some of the cells, given by their positions in order."""
        start = np.searchsorted(kept, self.start)
        variance = None if self.variance is None else self.variance[kept]
        effects = None if self.effects is None else self.effects.of_cells(kept, start)
        weight = None if self.weight is None else self.weight[kept]
        cells = {name: getattr(self, name)[kept] for name in ("a", "b", "y", "count")}
        return replace(self, start=start, **cells, variance=variance, effects=effects, weight=weight)

    @property
    def d_eff(self) -> float:
        """d_eff = D (d1 - 1) / 2 for pairs: under uniform sampling the Gram operator is the identity over d_eff."""
        return self.n_contexts * ((self.shape[0] - 1) / 2 if self.centred else self.shape[0])

    @property
    def n_contexts(self) -> int:
        """Number D of contexts."""
        return len(self.start) - 1

    @cached_property
    def context(self) -> Longs:
        """Context of each cell."""
        return np.repeat(np.arange(self.n_contexts), np.diff(self.start))

    @cached_property
    def full(self) -> bool:
        """Whether cells touch so many of the D d1 slots that arrays over all of them are cheaper than lists."""
        return self.n_contexts * self.shape[0] <= FULL * len(self.a)

    @property
    def slots(self) -> tuple[Longs, Longs]:
        """Slots of the two sides of each cell, negative for the second where it is one entry."""
        return self.slot_table[0], self.slot_table[1]

    @cached_property
    def slot_table(self) -> tuple[Longs, Longs, Longs, Longs]:
        """Slots of both sides of each cell, where those of each context begin, and the model of each slot."""
        d1 = self.shape[0]
        key_a = self.context * d1 + self.a
        pair = self.b >= 0
        key_b = np.where(pair, self.context * d1 + self.b, -1)
        if self.full:
            start = np.arange(self.n_contexts + 1) * d1
            return key_a, key_b, start, np.tile(np.arange(d1), self.n_contexts)
        occupied, number = np.unique(np.concatenate([key_a, key_b[pair]]), return_inverse=True)
        slot_b = np.full(len(key_b), -1)
        slot_b[pair] = number[len(key_a) :]
        start = np.searchsorted(occupied, np.arange(self.n_contexts + 1) * d1)
        return number[: len(key_a)], slot_b, start.astype(np.int64), occupied % d1

    def eta(self, space: TangentSpace) -> Floats:
        """Return <T, X> of every cell."""
        return self.differences(self.slot_values(space.U, space.V))

    def eta_change(self, space: TangentSpace, coordinates: Floats) -> Floats:
        """Return <J x, X> of every cell."""
        return self.differences(self.slot_changes(space, *space.push(coordinates)))

    def slot_values(self, U: Floats, V: Floats) -> Floats:
        """Return the entry of U V^T at every slot."""
        if self.full:
            return (V @ U.T).reshape(-1)
        *_, slot_start, model = self.slot_table
        out = np.zeros(slot_start[-1])
        tangent.push_slots(slot_start, model, U, V, out)
        return out

    def slot_changes(self, space: TangentSpace, dU: Floats, dV: Floats) -> Floats:
        """Return the entry of dU V^T + U dV^T at every slot."""
        return self.slot_values(dU, space.V) + self.slot_values(space.U, dV)

    def differences(self, value: Floats) -> Floats:
        """Return <value, X> of every cell from one value per slot."""
        slot_a, slot_b, *_ = self.slot_table
        out = np.empty(len(self.a))
        tangent.fill_differences(slot_a, slot_b, value, out)
        return out

    def gram_sums(self, weight: Floats, value: Floats) -> Floats:
        """Return sum of weight <value, X> X over cells, from and to one value per slot [Li26, eq. Ghat_def]."""
        slot_a, slot_b, *_ = self.slot_table
        out = np.zeros(len(value))
        gram.apply_gram(self.start, slot_a, slot_b, value, weight, out)
        return out

    def slot_sums(self, value: Floats) -> Floats:
        """Return for each slot the sum of a cell value, signed by side."""
        return self.atom_sums(Design.atom_weights(self, value))

    def atom_sums(self, value: Floats) -> Floats:
        """Return for each slot the sum of a value per atom, signed by side."""
        atoms, out = self.atom_table, np.zeros(self.slot_table[2][-1])
        tangent.sum_slots(atoms.start, atoms.slot_a, atoms.slot_b, value, out)
        return out

    def signed_sums(self, value: Floats, signs: npt.NDArray[np.uint64], first: int, n: int) -> Floats:
        """Return the same for n choices of signs, (n_slots, n): bit `first + j` of an atom is set for plus in sum j."""
        atoms, out = self.atom_table, np.zeros((self.slot_table[2][-1], n))
        tangent.sum_signed_slots(atoms.slot_a, atoms.slot_b, value, signs, first, out)
        return out

    def slot_matrix(self, value: Floats) -> Floats | sparse.csr_array:
        """Return one value per slot as a matrix (D, d1), sparse unless most slots are touched."""
        *_, slot_start, model = self.slot_table
        shape = (self.n_contexts, self.shape[0])
        return value.reshape(shape) if self.full else sparse.csr_array((value, model, slot_start), shape=shape)

    def tensor_sums(self, value: Floats) -> Floats | sparse.csr_array:
        """Return sum of value * X over cells as a matrix (D, d1)."""
        return self.slot_matrix(self.slot_sums(value))

    def pull_sums(self, space: TangentSpace, value: Floats) -> Floats:
        """Return J^T of a tensor given by one value per slot, in tangent coordinates."""
        sums = self.slot_matrix(value)
        return space.pull(sums.T @ space.V, sums @ space.U)

    def effect_columns(self, border: Border) -> Floats:
        """Return for each slot the sums of the weights of a border's effects, signed by side, (n_slots, K)."""
        slot_a, slot_b, slot_start, _ = self.slot_table
        sums = np.zeros((slot_start[-1], 0 if border.slopes is None else border.slopes.shape[1]))
        if border.slopes is not None and border.weight is not None:
            gram.sum_slope_rows(slot_a, slot_b, border.weight, border.slopes, sums)
        law = [self.slot_sums(np.ascontiguousarray(column))[:, None] for column in border.law.T]
        sums = np.concatenate([sums, *law], axis=1)
        return border.spread(sums, np.repeat(np.arange(self.n_contexts), np.diff(slot_start)))

    def gram_apply(self, space: TangentSpace, weight: Floats, coordinates: Floats) -> Floats:
        """Return J^T (sum of weight X X^T) J x without forming a matrix."""
        return self.pull_sums(space, self.gram_sums(weight, self.slot_changes(space, *space.push(coordinates))))

    @property
    def several_contexts(self) -> bool:
        """Whether there are votes in more than one context."""
        return int(np.count_nonzero(np.diff(self.start))) > 1

    def unsigned(self, value: Floats) -> Floats:
        """Return the sum of a cell value over the cells that touch each slot."""
        slot_a, slot_b, slot_start, _ = self.slot_table
        pair = slot_b >= 0
        sums = np.bincount(slot_a, value, slot_start[-1]) + np.bincount(slot_b[pair], value[pair], slot_start[-1])
        return np.asarray(sums, dtype=np.float64)

    def unsigned_sums(self, value: Floats) -> Floats | sparse.csr_array:
        """Return the same as a matrix (D, d1)."""
        return self.slot_matrix(self.unsigned(value))

    @cached_property
    def atom_table(self) -> _Atoms:
        """The cells with the outcomes of a pair, or the values of an entry, put together."""
        slot_a, slot_b, *_ = self.slot_table
        first = np.ones(len(self.a), dtype=bool)
        first[1:] = (self.a[1:] != self.a[:-1]) | (self.b[1:] != self.b[:-1])
        first[self.start[:-1][np.diff(self.start) > 0]] = True
        kept = np.flatnonzero(first)
        start = np.searchsorted(kept, self.start)
        return _Atoms(np.cumsum(first) - 1, start, self.a[kept], self.b[kept], slot_a[kept], slot_b[kept])

    def atom_weights(self, weight: Floats) -> Floats:
        """Return the weights of cells summed over the outcomes of a pair, or the values of an entry."""
        atoms = self.atom_table
        if len(atoms.a) == len(weight):
            return weight
        out = np.zeros(len(atoms.a))
        gram.sum_runs(atoms.number, weight, out)
        return out

    def averaged(self) -> "Design":
        """Return a design with the same likelihood and fewer cells: each atom with the mean of its responses.

        Under links whose loss is not linear in the response, or where hardly a cell is saved, the design itself.
        """
        if not self.link.linear or self.effects is not None or len(self.atom_table.a) > WORTHWHILE * len(self.a):
            return self
        atoms = self.atom_table
        each = self.count if self.weight is None else self.count * self.weight
        count, total = self.atom_weights(each), self.atom_weights(each * self.y)
        y = np.divide(total, count, out=total, where=count > 0)
        sides = atoms.start, atoms.a, atoms.b
        other = Design(self.shape, *sides, y, count, self.centred, self.link)
        other.__dict__["full"] = self.full
        other.__dict__["slot_table"] = (atoms.slot_a, atoms.slot_b, *self.slot_table[2:])
        other.__dict__["atom_table"] = atoms
        return other

    def add_model_blocks(self, space: TangentSpace, weight: Floats, border: Floats) -> None:
        """Add the block of J^T (sum of weight X X^T) J for the model factor to a border of zeros; weights of atoms."""
        atoms = self.atom_table
        cells = atoms.start, atoms.a, atoms.b
        gram.sum_model_blocks(*cells, space.V, weight, border, len(space.U))

    def slot_rows(self, space: TangentSpace, weight: Floats) -> tuple[Floats, Floats]:
        """Return design rows per slot (n_slots, r1), weighted by atoms, and their Gram matrices (D, r1, r1)."""
        atoms, (_, _, slot_start, model), r1 = self.atom_table, self.slot_table, space.U.shape[1]
        rows, outer = np.zeros((slot_start[-1], r1)), np.zeros((self.n_contexts, r1, r1))
        cells = atoms.start, atoms.a, atoms.b, atoms.slot_a, atoms.slot_b, slot_start, model
        gram.sum_slot_rows(*cells, space.U, weight, rows, outer)
        return rows, outer

    def cross_blocks(self, space: TangentSpace, rows: Floats, score: Floats) -> Floats | sparse.bsr_array:
        """Return the block of J^T G J between the eliminated factor and the model factor, (dl rl, d1 r1)."""
        *_, slot_start, model = self.slot_table
        dl, rl = space.factors[space.mode].shape
        d1, r1 = space.U.shape
        if not rl:
            return np.zeros((0, d1 * r1))
        key = np.repeat(space.rows, np.diff(slot_start)) * d1 + model
        if self.full:
            present, target = np.arange(dl * d1), key
        elif dl < self.n_contexts:
            present, target = np.unique(key, return_inverse=True)
        else:
            present, target = key, np.arange(len(key))
        blocks = np.zeros((len(present), rl, r1))
        gram.sum_cross_blocks(slot_start, target, space.E, space.V, rows, score, blocks)
        if self.full:
            return blocks.reshape(dl, d1, rl, r1).transpose(0, 2, 1, 3).reshape(dl * rl, d1 * r1)
        indptr = np.searchsorted(present, np.arange(dl + 1) * d1)
        return sparse.bsr_array((blocks, present % d1, indptr), shape=(dl * rl, d1 * r1))


def linear_effects(battles: Battles) -> Effects | None:
    """Return the effects of the battles' covariates, in units of their scales, at zero; None where there are none."""
    slopes = battles.cells.slopes
    if slopes is None or not battles.covariates:
        return None
    check_covariates(battles.cells, battles.covariates, len(battles.models))
    scales = np.array([covariate.scale for covariate in battles.covariates])
    start = battles.cells.start if battles.effects_by == "context" and battles.levels else None
    n_blocks = 1 if start is None else len(start) - 1
    if n_blocks * len(scales) > MOST_EFFECTS:
        raise TooLargeError(
            f"{len(scales)} covariates with an effect in each of {n_blocks} contexts are more than {MOST_EFFECTS} "
            "effects; use effects='shared', or pool contexts."
        )
    return Effects(np.ascontiguousarray(slopes / scales), np.zeros(n_blocks * len(scales)), start)


def unit_weights(battles: Battles) -> Floats | None:
    """Return the weight of one vote of each cell, scaled so that weights and squared weights have the same sum."""
    weight, count = battles.vote_weights, battles.cells.count
    return None if weight is None else weight * (count @ weight) / (count @ weight**2)


def every_entry(shape: tuple[int, ...]) -> Design:
    """Return the design in which every entry is observed once."""
    D = prod(shape[1:])
    a = np.tile(np.arange(shape[0], dtype=np.int32), D)
    start = np.arange(D + 1, dtype=np.int64) * shape[0]
    return Design(shape, start, a, np.full_like(a, -1), np.zeros(len(a)), np.ones(len(a)), False)


@dataclass(frozen=True)
class CompleteDesign(Design):
    """Every pair in every context once: sums over cells become dense products."""

    @classmethod
    def of_shape(cls, shape: tuple[int, ...]) -> "CompleteDesign":
        """Return all atoms of a shape."""
        a, b = np.triu_indices(shape[0], 1)
        n_contexts = prod(shape[1:])
        start = np.arange(n_contexts + 1, dtype=np.int64) * len(a)
        left, right = (np.tile(side.astype(np.int32), n_contexts) for side in (a, b))
        zeros = np.zeros(len(left))
        return cls(shape, start, left, right, zeros, np.ones(len(zeros)))

    @cached_property
    def atom_table(self) -> _Atoms:
        """The cells themselves, without copies: no pair occurs twice."""
        slot_a, slot_b, *_ = self.slot_table
        return _Atoms(np.empty(0, dtype=np.int64), self.start, self.a, self.b, slot_a, slot_b)

    def add_model_blocks(self, space: TangentSpace, weight: Floats, border: Floats) -> None:
        """Add the block of the model factor; off the diagonal it is - sum_u weight_u(a, b) v_u v_u^T."""
        d1, r1 = space.U.shape
        a, b = np.triu_indices(d1, 1)
        outer = (space.V[:, :, None] * space.V[:, None, :]).reshape(-1, r1 * r1)
        blocks = np.zeros((d1, d1, r1 * r1))
        blocks[a, b] = blocks[b, a] = -(weight.reshape(self.n_contexts, -1).T @ outer)
        blocks[np.arange(d1), np.arange(d1)] = -blocks.sum(axis=1)
        border[: d1 * r1, : d1 * r1] = blocks.reshape(d1, d1, r1, r1).transpose(0, 2, 1, 3).reshape(d1 * r1, d1 * r1)

    def slot_rows(self, space: TangentSpace, weight: Floats) -> tuple[Floats, Floats]:
        """Return L_u U per slot and U^T L_u U per context, L_u the Laplacian of the context's weights."""
        d1, r1 = space.U.shape
        a, b = np.triu_indices(d1, 1)
        rows = np.empty((self.n_contexts, d1, r1))
        laplacian = np.zeros((d1, d1))
        for u, part in enumerate(weight.reshape(self.n_contexts, -1)):
            laplacian[a, b] = laplacian[b, a] = -part
            np.fill_diagonal(laplacian, 0.0)
            np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
            rows[u] = laplacian @ space.U
        return rows.reshape(-1, r1), space.U.T @ rows
