"""The cells of a log as fits see them: sorted by context, with a law, weights and shared parameters."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np

from lrbtl._kernels import gram
from lrbtl.data.battles import Battles
from lrbtl.data.covariates import check_covariates
from lrbtl.data.observations import Data, Results
from lrbtl.errors import TooLargeError
from lrbtl.fitting.entries import EntryIndex
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.model.effects import Effects
from lrbtl.model.links import LOGISTIC, CellTerms, Link
from lrbtl.typing import Floats, Ints, Longs

WORTHWHILE = 0.9  # share of the cells that atoms may have at most to take their place in a fit
MOST_EFFECTS = 2000  # linear effects that a border holds


class SharedParameters(Protocol):
    """What a fit found of the parameters that cells share."""

    @property
    def link(self) -> Link:
        """The law, with its own parameters."""

    @property
    def effect_values(self) -> Floats | None:
        """Values of linear effects."""


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
        Weight of one vote, such that weights sum to the effective sample size: terms of
        votes are multiplied by it, so that squared scores have it squared.
    entries : EntryIndex
        Slots that cells touch; made where none is given or it is of other cells, so that copies share it.
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
    entries: EntryIndex = field(default=None, repr=False)  # type: ignore[assignment]  # never None once made

    def __post_init__(self) -> None:
        known = self.entries
        if known is None or known.start is not self.start or known.a is not self.a or known.b is not self.b:
            object.__setattr__(self, "entries", EntryIndex.of(self.shape[0], self.start, self.a, self.b))

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
        return replace(other, effects=replace(self.effects, values=found.effect_values))

    def with_link(self, link: Link) -> "Design":
        """Return the same cells under another link."""
        return self if link is self.link else replace(self, link=link)

    def with_count(self, count: Floats) -> "Design":
        """Return the same cells with other multiplicities."""
        return replace(self, count=count)

    def moved(self, step: Floats) -> "Design":
        """Return the same cells with the parameters that they share moved."""
        k = self.n_effects - self.link.n_extra
        other = self.with_link(self.link.moved(step[k:]))
        if self.effects is None:
            return other
        return replace(other, effects=replace(self.effects, values=self.effects.values + step[:k]))

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

    @property
    def several_contexts(self) -> bool:
        """Whether there are votes in more than one context."""
        return int(np.count_nonzero(np.diff(self.start))) > 1

    def averaged(self) -> "Design":
        """Return a design with the same likelihood and fewer cells: each atom with the mean of its responses.

        Under links whose loss is not linear in the response, or where hardly a cell is saved, the design itself.
        """
        atoms = self.entries.atoms
        if not self.link.linear or self.effects is not None or len(atoms.a) > WORTHWHILE * len(self.a):
            return self
        each = self.count if self.weight is None else self.count * self.weight
        count, total = self.entries.atom_weights(each), self.entries.atom_weights(each * self.y)
        y = np.divide(total, count, out=total, where=count > 0)
        return Design(self.shape, atoms.start, atoms.a, atoms.b, y, count, self.centred, self.link, entries=atoms)

    def add_model_blocks(self, space: TangentSpace, weight: Floats, border: Floats) -> None:
        """Add the block of J^T (sum of weight X X^T) J for the model factor to a border of zeros."""
        atoms = self.entries.atoms
        merged = self.entries.atom_weights(weight)
        gram.sum_model_blocks(atoms.start, atoms.a, atoms.b, space.V, merged, border, len(space.U))

    def slot_rows(self, space: TangentSpace, weight: Floats) -> tuple[Floats, Floats]:
        """Return design rows per slot (n_slots, r1), with weights of cells, and their Gram matrices (D, r1, r1)."""
        atoms, r1 = self.entries.atoms, space.U.shape[1]
        rows, outer = np.zeros((atoms.n_slots, r1)), np.zeros((self.n_contexts, r1, r1))
        cells = atoms.start, atoms.a, atoms.b, *atoms.slots, atoms.slot_start, atoms.model
        gram.sum_slot_rows(*cells, space.U, self.entries.atom_weights(weight), rows, outer)
        return rows, outer


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
        zeros, index = np.zeros(len(left)), EntryIndex.of(shape[0], start, left, right, distinct=True)
        return cls(shape, start, left, right, zeros, np.ones(len(zeros)), entries=index)

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
