"""The naive method where votes have weights or share effects: contexts are then tied together by the effects alone."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lrbtl.fitting.separate import SeparateFit
from lrbtl.fitting.slots import SlotScores, fit_slots
from lrbtl.methods.base import FamilyKind, Moments, Provenance, Run
from lrbtl.methods.clusters import Rows
from lrbtl.methods.naive import NaiveRun, NaiveView, crosses_components
from lrbtl.methods.targets import Resolved, evaluate
from lrbtl.model.links import LOGISTIC
from lrbtl.typing import Bools, Floats, Longs


class VotesRun(NaiveRun):
    """Separate Bradley-Terry fits with weights and effects."""

    def __init__(self, separate: SeparateFit, provenance: Provenance, slots: SlotScores) -> None:
        super().__init__(separate, provenance)
        self.slots = slots

    @classmethod
    def of(cls, plain: SeparateFit, provenance: Provenance) -> "VotesRun":
        """Return the run on the battles of separate fits, which tell what is connected."""
        battles = plain.battles
        labels = plain.components.reshape(battles.shape[0], -1).T
        slots = fit_slots(battles, labels)
        within = np.zeros(labels.shape)
        within[slots.design.slot_places] = slots.theta
        separated = np.ptp(labels, axis=1) > 0
        scores = np.where(separated[:, None], np.nan, within).T.reshape(battles.shape)
        return cls(replace(plain, within_scores=within, scores=scores), provenance, slots)

    @property
    def effect_values(self) -> Floats:
        """Values of linear effects."""
        effects = self.slots.design.effects
        return np.empty(0) if effects is None else effects.values

    @property
    def dispersion(self) -> float:
        """Variance of the votes over that of wins and losses: 1 without ties and soft votes."""
        slots = self.slots
        design = slots.design
        eta = design.differences(slots.theta) + (0.0 if design.effects is None else design.effects.change)
        count = design.count if design.weight is None else design.count * design.weight
        return LOGISTIC.dispersion(eta, design.y, count)

    def directions(self, targets: Sequence[Resolved]) -> tuple[Floats, Floats, Floats, Bools]:
        """Return values of targets (M,), their directions on slots and in effects, and which have no value."""
        d1, D = self.data.shape[0], self.data.n_contexts
        view = NaiveView(self.separate, LOGISTIC, self.effect_values)
        values, gradients = evaluate(targets, view)
        dense = gradients.by_context(d1, D).toarray().reshape(len(targets), D, d1)
        lost = np.zeros(len(targets), dtype=np.bool_)
        for u in np.unique(gradients.contexts).tolist():
            lost |= crosses_components(dense[:, u], self._components[:, u])
        context, model = self.slots.design.slot_places
        found = self.slots.directions(np.ascontiguousarray(dense[:, context, model].T), gradients.effects)
        return values, *found, lost

    def vote_moments(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Moments:
        """Return estimates with their covariance or errors; NaN for targets that separation leaves without."""
        values, slots, effects, lost = self.directions(targets)
        robust, model = self.slots.covariances(slots, effects, diagonal=errors_only)
        return self._reported(values, robust, self.dispersion * model).without(lost)

    def influence_rows(self, targets: Sequence[Resolved]) -> Rows:
        """Return the influences of votes in some cells; votes outside strong components have none."""
        _, slots, effects, lost = self.directions(targets)
        place = np.full(self.data.n_cells, -1)
        place[self.slots.kept] = np.arange(len(self.slots.kept))
        residual, known = self.slots.residuals, ~lost

        def rows(cells: Longs) -> Floats:
            out = np.zeros((len(cells), len(targets)))
            inside = np.flatnonzero(place[cells] >= 0)
            at = place[cells[inside]]
            out[inside] = residual[at, None] * self.slots.along(slots, effects, at) * known
            return out

        return rows

    def vote_family(self, kind: FamilyKind) -> tuple[Floats, Floats]:
        """Return estimates and errors of all scores or gaps."""
        return Run.vote_family(self, kind)
