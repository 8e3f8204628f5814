"""Terms of the votes at given scores: their gradient and their information, for any prior."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.jacobian import effect_columns
from lrbtl.model.links import CellTerms
from lrbtl.typing import Floats


@dataclass(frozen=True)
class VoteTerms:
    """Gradient g and information H of the votes at given scores, over their dispersion.

    Attributes
    ----------
    design : BlockDesign
        The votes.
    terms : CellTerms
        Loss, score and information of one vote of each cell.
    dispersion : float
        Variance of votes over that of their law.
    """

    design: BlockDesign
    terms: CellTerms
    dispersion: float = 1.0

    @cached_property
    def gradient(self) -> Floats:
        """Sums of the scores of votes on the slots."""
        return self.design.entries.slot_sums(self.design.count * self.terms.score) / self.dispersion

    @cached_property
    def weights(self) -> Floats:
        """Weight of each cell in H, a Laplacian per context."""
        return np.asarray(self.design.count * self.terms.fisher / self.dispersion)

    @cached_property
    def effect_gradient(self) -> Floats:
        """Sums of the scores along effects that votes share, (k,)."""
        if not self.design.n_effects:
            return np.empty(0)
        return self.terms.effects.gradient(self.design.count) / self.dispersion

    @cached_property
    def effects(self) -> tuple[Floats, Floats]:
        """Of these effects: cross information with the slots (n_slots, k), and their own (k, k)."""
        if not self.design.n_effects:
            return np.empty((self.design.n_slots, 0)), np.empty((0, 0))
        border = self.terms.effects.information(self.design.count)
        return effect_columns(self.design.entries, border) / self.dispersion, border.corner / self.dispersion

    def apply_information(self, values: Floats) -> Floats:
        """Return H times values on the slots, (n_slots,) or (n_slots, k)."""
        return self.design.entries.gram_sums(self.weights, values)
