"""Effects: parameters that all battles share, beside the scores; the last coordinates of the border, all alike.

An effect acts in one of two ways. A linear effect moves eta, by its value times the slope d eta / d effect of the cell:
the side on which an answer was shown, its length. A parameter of the law, such as that of ties, belongs to the link and
acts on the probabilities at a given eta. Linear effects stand before those of the law.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lrbtl.typing import Floats, Longs

if TYPE_CHECKING:
    from lrbtl.model.links import CellTerms


@dataclass(frozen=True)
class Border:
    """The part of a quadratic form that effects add.

    Attributes
    ----------
    weight : array (n_cells, k)
        Of each cell in the cross part: sum of weight * X.
    corner : array (k, k)
    """

    weight: Floats
    corner: Floats


@dataclass(frozen=True)
class EffectTerms:
    """What one vote in each cell says of k effects; without effects one row without columns, which fits any cells.

    Attributes
    ----------
    score : array (n_cells, k)
        Less the derivative of the loss.
    cross : array (n_cells, k)
        Information of (eta, effect).
    own : array (n_cells, k, k)
        Information of (effect, effect).
    """

    score: Floats
    cross: Floats
    own: Floats

    def gradient(self, count: Floats) -> Floats:
        """Return the sum of the scores, (k,)."""
        return np.asarray(np.sum(count[:, None] * self.score, axis=0))

    def information(self, count: Floats) -> Border:
        """Return the border of the information."""
        return Border(count[:, None] * self.cross, np.sum(count[:, None, None] * self.own, axis=0))

    def meat(self, count: Floats, score: Floats) -> Border:
        """Return the border of the squared scores; `score` is that of eta."""
        weighted = count[:, None] * self.score
        k = self.score.shape[1]
        return Border(score[:, None] * weighted, weighted.T @ self.score if k else np.empty((0, 0)))

    def along(self, direction: Floats, n_cells: int) -> Floats:
        """Return the score of each cell along a direction of the effects (k,)."""
        return np.ascontiguousarray(np.broadcast_to(self.score @ direction, n_cells))


NO_EFFECTS = EffectTerms(np.empty((1, 0)), np.empty((1, 0)), np.empty((1, 0, 0)))


@dataclass(frozen=True)
class Effects:
    """Linear effects of the cells of a design.

    Attributes
    ----------
    slopes : array (n_cells, k)
        d eta / d effect of each cell.
    values : array (k,)
    """

    slopes: Floats
    values: Floats

    def shift(self) -> Floats:
        """Return what the effects add to the eta of each cell."""
        return np.asarray(self.slopes @ self.values)

    def join(self, terms: "CellTerms") -> "CellTerms":
        """Return terms with those of the linear effects, by the chain rule, before those of the law."""
        law, x, (n, k) = terms.effects, self.slopes, self.slopes.shape
        own = np.empty((n, k + law.score.shape[1], k + law.score.shape[1]))
        own[:, :k, :k] = terms.fisher[:, None, None] * x[:, :, None] * x[:, None, :]
        own[:, :k, k:] = x[:, :, None] * law.cross[:, None, :]
        own[:, k:, :k] = own[:, :k, k:].swapaxes(1, 2)
        own[:, k:, k:] = law.own
        score, cross = (
            np.hstack([by_eta[:, None] * x, np.broadcast_to(by_law, (n, by_law.shape[1]))])
            for by_eta, by_law in ((terms.score, law.score), (terms.fisher, law.cross))
        )
        return replace(terms, effects=EffectTerms(score, cross, own))

    def moved(self, step: Floats) -> "Effects":
        """Return the effects with their values moved."""
        return replace(self, values=self.values + step)

    def restricted(self, kept: Longs) -> "Effects":
        """Return the effects of some of the cells."""
        return replace(self, slopes=self.slopes[kept])
