"""Bradley-Terry models of all contexts at once, where votes have weights or share linear effects.

The unknowns are a score per slot, the (context, model) pairs that met, and the effects. Each context has its own
Laplacian H; effects tie contexts together through their cross information c, and are solved for by what the contexts
leave of their own information. Only votes inside a strong component count, as without effects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.errors import SeparationError
from lrbtl.fitting.blocks import BlockDesign, Matrices, without_idle_slots
from lrbtl.fitting.bradley_terry import HC3_FLOOR
from lrbtl.fitting.design import Design
from lrbtl.fitting.jacobian import effect_columns
from lrbtl.fitting.newton_driver import NewtonConfig, Objective, minimise_newton
from lrbtl.model.effects import Border
from lrbtl.model.links import LOGISTIC, CellTerms
from lrbtl.typing import Floats, Indices, Longs

_Form = tuple[Matrices, Floats | None, Floats | None]

NEWTON = NewtonConfig(tolerance=1e-10, max_iter=60, smallest_step=1e-6, armijo=1e-4, slack=1e-12)
UNKNOWN = 100.0  # logits: an effect with a larger error is not determined, nor is a larger score
NO_FIT = (
    "the votes have no finite Bradley-Terry fit with these covariates: some combination of scores and covariates "
    "predicts every vote of some models. Leave covariates out with control=[...], or use method='hierarchical'."
)


@dataclass(frozen=True)
class SlotScores:
    """Scores and effects, with the terms of the votes there.

    Attributes
    ----------
    design : BlockDesign
        Votes inside strong components; its effects hold their values.
    kept : array (n_kept,)
        Positions of these votes' cells among those of the battles.
    labels : array (D, d1)
        Strong components.
    theta : array (n_slots,)
        Scores that sum to zero in each component.
    """

    design: BlockDesign
    kept: Longs
    labels: Indices
    theta: Floats

    @cached_property
    def terms(self) -> CellTerms:
        """Loss, score and information of one vote in each cell."""
        design, eta = self.design, self.design.entries.differences(self.theta)
        if design.effects is not None:
            eta = eta + design.effects.change
        return design.joined(LOGISTIC.terms(eta, design.y))

    @cached_property
    def loss(self) -> float:
        """Negative log-likelihood."""
        return float(self.design.count @ self.terms.loss)

    @cached_property
    def inverses(self) -> Matrices:
        """Inverse information of each context's slots on vectors that sum to zero in each component."""
        design = self.design
        context, model = design.slot_places
        component = design.blocks.gather(self.labels[context, model].astype(np.float64)[:, None] + 1.0)
        out = []
        information = design.blocks.laplacians(design.count * self.terms.fisher)
        for H, part, group in zip(information, component, design.blocks.groups, strict=True):
            names = part[:, :, 0]
            same_name = (names[:, :, None] == names[:, None, :]) & (names > 0)[:, :, None]
            size = np.maximum(same_name.sum(axis=2, keepdims=True), 1)
            level = max(float(np.einsum("bmm->b", H).sum() / max(design.n_slots, 1)), 1e-300)
            outside = (group.slots == design.n_slots)[:, :, None] * np.eye(H.shape[1])
            inverse = _inverted(H + level * same_name / size + outside)
            out.append(inverse - same_name / size / level - outside)
        return out

    @cached_property
    def border(self) -> Border | None:
        """Border of the effects in the information."""
        return None if self.design.effects is None else self.terms.effects.information(self.design.count)

    @cached_property
    def reach(self) -> Floats:
        """K^-1 c: how scores answer to effects, (n_slots, K)."""
        if self.border is None:
            return np.empty((self.design.n_slots, 0))
        return self.design.blocks.times(self.inverses, effect_columns(self.design.entries, self.border))

    @cached_property
    def effect_covariance(self) -> Floats:
        """Inverse information of the effects, scores unknown, (K, K)."""
        if self.border is None:
            return np.empty((0, 0))
        return _inverted(self.border.corner - effect_columns(self.design.entries, self.border).T @ self.reach)

    def directions(self, slots: Floats, effects: Floats) -> tuple[Floats, Floats]:
        """Return the inverse information times gradients: (n_slots, M) of the scores and (K, M) of the effects."""
        moved = self.effect_covariance @ (effects - self.reach.T @ slots)
        return self.design.blocks.times(self.inverses, slots) - self.reach @ moved, moved

    def along(self, slots: Floats, effects: Floats, cells: Longs | slice = slice(None)) -> Floats:
        """Return by how much eta of some cells changes along directions, (n_cells, M)."""
        slot_a, slot_b = (side[cells] for side in self.design.entries.slots)
        out = slots[slot_a] - slots[slot_b]
        linear = self.design.effects
        return out if linear is None else out + linear.rows_times(effects, cells)

    @cached_property
    def residuals(self) -> Floats:
        """Score of one vote of each cell over one minus its leverage (HC3)."""
        return np.asarray(self.terms.score / np.maximum(1.0 - self.terms.fisher * self._eta_variances, HC3_FLOOR))

    @property
    def _eta_variances(self) -> Floats:
        design, (slot_a, slot_b) = self.design, self.design.entries.slots
        own = design.blocks.scatter([np.einsum("bmm->bm", matrix) for matrix in self.inverses])
        out = own[slot_a] + own[slot_b] - 2.0 * design.blocks.pair_entries(self.inverses)
        if design.effects is None:
            return out
        k = self.effect_covariance
        for cells, part in design.effects.parts:
            rest = -(self.reach[slot_a[cells]] - self.reach[slot_b[cells]])
            rest[:, part] += design.effects.slopes[cells]
            out[cells] += np.einsum("ik,kl,il->i", rest, k, rest, optimize=True)
        return out

    def covariances(self, slots: Floats, effects: Floats, *, diagonal: bool) -> tuple[Floats, Floats]:
        """Return the sandwich covariance (M, M) along directions, or its diagonal, and model-based variances (M,)."""
        robust = self._quadratic(self._meat, slots, effects, diagonal=diagonal)
        return robust, self._quadratic(self._information, slots, effects, diagonal=True)

    @cached_property
    def _meat(self) -> _Form:
        return self._form(self.design.count * self.residuals**2)

    @cached_property
    def _information(self) -> _Form:
        return self._form(self.design.count * self.terms.fisher)

    def _form(self, weight: Floats) -> _Form:
        """Return sum of weight (X, slope) (X, slope)^T: on slots, between slots and effects, among effects."""
        design = self.design
        if design.effects is None:
            return design.blocks.laplacians(weight), None, None
        border = design.effects.border(weight)
        return design.blocks.laplacians(weight), effect_columns(design.entries, border), border.corner

    def _quadratic(self, form: _Form, slots: Floats, effects: Floats, *, diagonal: bool) -> Floats:
        matrices, columns, corner = form
        moved, product = slots, self.design.blocks.times(matrices, slots)
        if columns is not None and corner is not None:
            product = np.concatenate([product + columns @ effects, columns.T @ slots + corner @ effects])
            moved = np.concatenate([slots, effects])
        return np.asarray(np.einsum("im,im->m", moved, product) if diagonal else moved.T @ product)


def fit_slots(battles: Battles, labels: Indices) -> SlotScores:
    """Return the maximum-likelihood scores and effects of votes inside strong components (D, d1)."""
    cells = battles.cells
    kept = np.flatnonzero(labels[cells.context, cells.a] == labels[cells.context, cells.b])
    design = BlockDesign.of_cells(without_idle_slots(Design.of(battles).restricted(kept)))
    found = minimise_newton(_Loss(), SlotScores(design, kept, labels, np.zeros(design.n_slots)), NEWTON)
    if not found.converged:
        raise SeparationError(NO_FIT)
    here = found.point
    errors, scores = np.diag(here.effect_covariance), np.abs(here.theta)
    if np.any(errors > UNKNOWN**2) or np.any(scores > UNKNOWN):  # on their way to infinity
        raise SeparationError(NO_FIT)
    return here


class _Loss(Objective[SlotScores, tuple[Floats, Floats]]):
    """The negative log-likelihood in scores and effects."""

    def value(self, point: SlotScores) -> float:
        return point.loss

    def step(self, point: SlotScores) -> tuple[tuple[Floats, Floats], float]:
        count = point.design.count
        slots = point.design.entries.slot_sums(count * point.terms.score)
        effects = point.terms.effects.gradient(count)
        step, moved = (part[:, 0] for part in point.directions(slots[:, None], effects[:, None]))
        return (step, moved), float(slots @ step + effects @ moved)

    def moved(self, point: SlotScores, step: tuple[Floats, Floats], share: float) -> SlotScores:
        scores, effects = (share * part for part in step)
        design = point.design.moved(effects) if point.design.effects is not None else point.design
        assert isinstance(design, BlockDesign)
        return replace(point, design=design, theta=point.theta + scores)


def _inverted(matrices: Floats) -> Floats:
    """Return inverse matrices; raise where one has none, as scores or effects are about to run to infinity."""
    try:
        return np.asarray(np.linalg.inv(matrices))
    except np.linalg.LinAlgError as error:
        raise SeparationError(NO_FIT) from error
