"""Effects: parameters that battles share, beside the scores: the last coordinates of the border, treated in one way.

An effect acts in one of two ways. A linear effect moves eta, by its value times the slope d eta / d effect of the cell:
the side on which an answer was shown, its length. A parameter of the law, such as that of ties, belongs to the link and
acts on the probabilities at a given eta. Linear effects stand before those of the law.

Linear effects are those of all battles, or each context has its own: then their values stand context by context, and
cells, which are sorted by context, touch those of their own context only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lrbtl.typing import Floats, Longs

if TYPE_CHECKING:
    from lrbtl.model.links import CellTerms

IN_CACHE = 1 << 12  # cells whose slopes stay in cache while they are multiplied


@dataclass(frozen=True)
class Border:
    """Border of a quadratic form in the effects: of k slopes, each context's own or shared, and l parameters of a law.

    Attributes
    ----------
    corner : array (K, K)
        Of the effects among each other, K = n_blocks k + l.
    law : array (n_cells, l)
        Weights of the law's parameters in sum of weight * X.
    weight : array (n_cells,) or None
        Those of a slope are this times the slope.
    slopes : array (n_cells, k) or None
    n_blocks : int
        Number of contexts with effects of their own; 1 where effects are shared.
    """

    corner: Floats
    law: Floats
    weight: Floats | None = None
    slopes: Floats | None = None
    n_blocks: int = 1

    def spread(self, sums: Floats, block: Longs) -> Floats:
        """Return sums of the weights over rows (n_rows, k + l) as columns of the effects (n_rows, K)."""
        if self.n_blocks == 1 or self.slopes is None:
            return sums
        k, rows = self.slopes.shape[1], np.arange(len(sums))
        out = np.zeros((len(sums), len(self.corner)))
        for j in range(k):
            out[rows, block * k + j] = sums[:, j]
        out[:, self.n_blocks * k :] = sums[:, k:]
        return out


@dataclass(frozen=True)
class EffectTerms:
    """What one vote in each cell says of parameters of the law; without any, one row that fits any cells."""

    score: Floats  # (n_cells, l) less the derivative of the loss
    cross: Floats  # (n_cells, l) information of (eta, effect)
    own: Floats  # (n_cells, l, l) information of (effect, effect)

    def gradient(self, count: Floats) -> Floats:
        """Return the sum of the scores, (l,)."""
        return np.asarray(np.sum(count[:, None] * self.score, axis=0))

    def information(self, count: Floats) -> Border:
        """Return the border of the information."""
        return Border(np.sum(count[:, None, None] * self.own, axis=0), count[:, None] * self.cross)

    def meat(self, count: Floats, score: Floats) -> Border:
        """Return the border of the squared scores; `score` is that of eta."""
        weighted = count[:, None] * self.score
        return Border(weighted.T @ np.broadcast_to(self.score, weighted.shape), score[:, None] * weighted)

    def excess(self, weight: Floats, score: Floats, squares: Floats, plain: Floats) -> Border:
        """Return the border of the squared scores, weighted by `squares`, less that of the information, by `plain`.

        `weight` is what this comes to for eta with itself, and `score` that of eta.
        """
        meat, information = self.meat(squares, score), self.information(plain)
        return Border(meat.corner - information.corner, meat.law - information.law)

    def along(self, directions: Floats, rows: Longs | None = None) -> Floats:
        """Return the score of one vote along directions (l, ...) of the effects, (n_cells, ...) or (1, ...).

        `rows` are the cells that are asked for, by default all.
        """
        return (self.score if rows is None or not self.score.shape[1] else self.score[rows]) @ directions

    def weighted(self, weight: Floats) -> "EffectTerms":
        """Return the terms of votes with a weight."""
        if not self.score.shape[1]:
            return self
        return EffectTerms(weight[:, None] * self.score, weight[:, None] * self.cross, weight[:, None, None] * self.own)


NO_EFFECTS = EffectTerms(np.empty((1, 0)), np.empty((1, 0)), np.empty((1, 0, 0)))


@dataclass(frozen=True)
class Effects:
    """Linear effects.

    Attributes
    ----------
    slopes : array (n_cells, k)
        d eta / d effect in each cell of a design, those of a cell side by side.
    values : array (k,), or (D k,) where each of D contexts has its own
    start : array (D + 1,) or None
        Cells of context u are start[u]:start[u + 1], where each has its own effects; None where they are shared.
    """

    slopes: Floats
    values: Floats
    start: Longs | None = None

    @property
    def n_blocks(self) -> int:
        """Number of contexts with effects of their own; 1 where effects are shared."""
        return 1 if self.start is None else len(self.start) - 1

    @property
    def parts(self) -> Iterator[tuple[slice, slice]]:
        """Cells of each block and the effects that they touch."""
        k = self.slopes.shape[1]
        bounds = [0, len(self.slopes)] if self.start is None else self.start.tolist()
        for u in range(self.n_blocks):
            yield slice(bounds[u], bounds[u + 1]), slice(u * k, (u + 1) * k)

    @property
    def change(self) -> Floats:
        """What the effects add to eta, (n_cells,)."""
        return self.times(self.values)

    def times(self, values: Floats) -> Floats:
        """Return the product of the slopes with values (K, ...) of the effects, (n_cells, ...)."""
        out = np.empty((len(self.slopes), *values.shape[1:]))
        for cells, effects in self.parts:
            out[cells] = self.slopes[cells] @ values[effects]
        return out

    def rows_times(self, values: Floats, rows: Longs | slice) -> Floats:
        """Return the product of some cells' slopes with values (K, M), (n_rows, M)."""
        if self.start is None:
            return np.asarray(self.slopes[rows] @ values)
        k, positions = self.slopes.shape[1], np.arange(len(self.slopes))[rows]
        block = np.searchsorted(self.start, positions, side="right") - 1
        own = values.reshape(-1, k, values.shape[1])
        return np.asarray(sum(self.slopes[positions, j, None] * own[block, j] for j in range(k)))

    def sums(self, table: Floats) -> Floats:
        """Return slopes^T table, (K, ...), for a table (n_cells, ...)."""
        out = np.zeros((self.values.size, *table.shape[1:]))
        for cells, effects in self.parts:
            out[effects] = self.slopes[cells].T @ table[cells]
        return out

    def gram(self, weight: Floats) -> Floats:
        """Return slopes^T diag(weight) slopes, (K, K)."""
        out = np.zeros((self.values.size, self.values.size))
        for cells, effects in self.parts:
            for low in range(cells.start, cells.stop, IN_CACHE):
                part = slice(low, min(low + IN_CACHE, cells.stop))
                out[effects, effects] += self.slopes[part].T @ (weight[part, None] * self.slopes[part])
        return out

    def border(self, weight: Floats) -> Border:
        """Return the border of sum of weight (X, slope) (X, slope)^T over cells."""
        return Border(self.gram(weight), np.empty((len(weight), 0)), weight, self.slopes, self.n_blocks)

    def of_cells(self, kept: Longs, start: Longs) -> "Effects":
        """Return the effects of some of the cells; `start` is where contexts begin among them."""
        return Effects(self.slopes[kept], self.values, None if self.start is None else start)

    def join(self, terms: "CellTerms") -> "CellTerms":
        """Return the terms of a link with those of linear effects, by the chain rule, before those of the law."""
        assert isinstance(terms.effects, EffectTerms)
        return replace(terms, effects=JoinedTerms(self, terms.score, terms.fisher, terms.effects))


@dataclass(frozen=True)
class JoinedTerms:
    """What one vote in each cell says of linear effects and of parameters of the law."""

    linear: Effects
    score_of_eta: Floats
    fisher: Floats
    law: EffectTerms

    def gradient(self, count: Floats) -> Floats:
        """Return the sum of the scores, (K,)."""
        return np.concatenate([self.linear.sums(count * self.score_of_eta), self.law.gradient(count)])

    def information(self, count: Floats) -> Border:
        """Return the border of the information."""
        return self._border(count * self.fisher, self.law.information(count))

    def meat(self, count: Floats, score: Floats) -> Border:
        """Return the border of the squared scores; `score` is that of eta."""
        return self._border(count * score**2, self.law.meat(count, score))

    def excess(self, weight: Floats, score: Floats, squares: Floats, plain: Floats) -> Border:
        """Return the border of the squared scores less that of the information; see `EffectTerms.excess`."""
        return self._border(weight, self.law.excess(weight, score, squares, plain))

    def _border(self, weight: Floats, law: Border) -> Border:
        """Return the border of both kinds, given the weights of eta with itself, and those of the law."""
        linear = self.linear.border(weight)
        if not law.corner.size:
            return linear
        cross = self.linear.sums(law.law)
        corner = np.block([[linear.corner, cross], [cross.T, law.corner]])
        return replace(linear, corner=corner, law=law.law)

    def along(self, directions: Floats, rows: Longs | None = None) -> Floats:
        """Return the score of one vote along directions (K, ...) of the effects, (n_cells, ...), or of some `rows`."""
        n = self.linear.values.size
        if rows is None:
            moved, score = self.linear.times(directions[:n]), self.score_of_eta
        else:
            moved, score = self.linear.rows_times(directions[:n], rows), self.score_of_eta[rows]
        return score.reshape(-1, *([1] * (moved.ndim - 1))) * moved + self.law.along(directions[n:], rows)
