"""Effects: parameters that all battles share, beside the scores; the last coordinates of the border, all alike.

An effect acts in one of two ways. A linear effect moves eta, by its value times the slope d eta / d effect of the cell:
the side on which an answer was shown, its length. A parameter of the law, such as that of ties, belongs to the link and
acts on the probabilities at a given eta. Linear effects stand before those of the law.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lrbtl.typing import Floats

if TYPE_CHECKING:
    from lrbtl.model.links import CellTerms

Border = tuple[Floats, Floats]  # of a quadratic form: weights (n_cells, k) in sum of weight * X, and corner (k, k)


@dataclass(frozen=True)
class EffectTerms:
    """What one vote in each cell says of k effects; without effects one row without columns, which fits any cells."""

    score: Floats  # (n_cells, k) less the derivative of the loss
    cross: Floats  # (n_cells, k) information of (eta, effect)
    own: Floats  # (n_cells, k, k) information of (effect, effect)

    def gradient(self, count: Floats) -> Floats:
        """Return the sum of the scores, (k,)."""
        return np.asarray(np.sum(count[:, None] * self.score, axis=0))

    def information(self, count: Floats) -> Border:
        """Return the border of the information."""
        return count[:, None] * self.cross, np.sum(count[:, None, None] * self.own, axis=0)

    def meat(self, count: Floats, score: Floats) -> Border:
        """Return the border of the squared scores; `score` is that of eta."""
        weighted = count[:, None] * self.score
        return score[:, None] * weighted, weighted.T @ np.broadcast_to(self.score, weighted.shape)


NO_EFFECTS = EffectTerms(np.empty((1, 0)), np.empty((1, 0)), np.empty((1, 0, 0)))


@dataclass(frozen=True)
class Effects:
    """Linear effects: their slopes d eta / d effect in each cell of a design, (n_cells, k), and their values (k,)."""

    slopes: Floats
    values: Floats

    def join(self, terms: "CellTerms") -> "CellTerms":
        """Return the terms of a link with those of linear effects, by the chain rule, before those of the law."""
        law, x, (n, k) = terms.effects, self.slopes, self.slopes.shape
        both = n, k + law.score.shape[1]
        score, cross, own = np.empty(both), np.empty(both), np.empty((*both, both[1]))
        score[:, :k], score[:, k:] = terms.score[:, None] * x, law.score
        cross[:, :k], cross[:, k:] = terms.fisher[:, None] * x, law.cross
        own[:, :k], own[:, k:, k:] = x[:, :, None] * cross[:, None], law.own
        own[:, k:, :k] = own[:, :k, k:].swapaxes(1, 2)
        return replace(terms, effects=EffectTerms(score, cross, own))
