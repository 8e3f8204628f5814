"""All that the cells of a design say at a point: eta, terms, gradient, information, meat, written once."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lrbtl._kernels import variance
from lrbtl.fitting.design import Design
from lrbtl.fitting.penalty import penalised
from lrbtl.fitting.solvers import Solver, SolverName, accumulate, information_solver, robust_factor
from lrbtl.lowrank.arrowhead import Arrowhead, Inverse, inverse_blocks
from lrbtl.lowrank.tangent import TangentSpace, context_blocks
from lrbtl.model.links import CellTerms
from lrbtl.typing import Floats


@dataclass(frozen=True)
class Local:
    """A design at a point: `design.at(point)`. Everything is computed when first asked for.

    Sums are over responses, with the multiplicities of the design. J is the Jacobian of eta in tangent coordinates, to
    which effects add their columns.

    Attributes
    ----------
    design : Design
    space : TangentSpace
    """

    design: Design
    space: TangentSpace

    @cached_property
    def eta(self) -> Floats:
        """<T, X> of every cell, with what linear effects add."""
        eta, effects = self.design.eta(self.space), self.design.effects
        return eta if effects is None else eta + effects.slopes @ effects.values

    @cached_property
    def _law(self) -> CellTerms:
        """The terms of the link alone."""
        return self.design.link.terms(self.eta, self.design.y, self.design.variance)

    @cached_property
    def terms(self) -> CellTerms:
        """Loss, score and information of one response in each cell."""
        return self._law if self.design.effects is None else self.design.effects.join(self._law)

    @cached_property
    def loss(self) -> float:
        """Negative log-likelihood, in nats."""
        return float(self.design.count @ self.terms.loss)

    @cached_property
    def slot_scores(self) -> Floats:
        """Sum of the scores over each slot, signed by side."""
        return self.design.slot_sums(self.design.count * self.terms.score)

    @cached_property
    def gradient(self) -> Floats:
        """Sum of the scores in coordinates: less the derivative of the loss."""
        out = self.design.pull_sums(self.space, self.slot_scores)
        out[self.space.extra] = self.terms.effects.gradient(self.design.count)
        return out

    @cached_property
    def information(self) -> Arrowhead:
        """Sum of the Fisher information in coordinates."""
        return accumulate(self.design, self.space, *self.terms.information(self.design.count))

    def hessian(self) -> Arrowhead:
        """Return the information less the sum of score * (second derivative of eta)."""
        weights = self.terms.information(self.design.count)
        return accumulate(self.design, self.space, *weights, slot_score=self.slot_scores)

    @cached_property
    def meat(self) -> Arrowhead:
        """Sum of the squared scores in coordinates."""
        return accumulate(self.design, self.space, *self.terms.meat(self.design.count))

    @cached_property
    def dispersion(self) -> float:
        """How much responses vary, over what the model says of plain ones: below 1 with ties and soft votes."""
        return self.design.link.dispersion(self.eta, self.design.y, self.design.count)

    def solver(self, name: SolverName = "auto") -> Solver:
        """Return a solver for the information on tangent vectors."""
        weight, effects = self.terms.information(self.design.count)
        return information_solver(self.design, self.space, weight, name, effects=effects)

    def with_count(self, count: Floats) -> "Local":
        """Return the same cells and terms with other multiplicities."""
        return self._with(self._law, self.design.with_count(count))

    def with_score(self, score: Floats) -> "Local":
        """Return the same cells with other scores of eta."""
        return self._with(replace(self._law, score=score), self.design)

    def spread(self, variances: Floats) -> "Local":
        """Return the same cells with scores that allow for eta being normal round its value, with a variance each."""
        return self._with(self.design.link.spread(self._law, self.eta, self.design.y, variances), self.design)

    def _with(self, law: CellTerms, design: Design) -> "Local":
        other = Local(design, self.space)
        other.__dict__.update(eta=self.eta, _law=law)
        return other

    def eta_variances(self, ridge: Floats) -> Floats:
        """Return j^T (K + R)^-1 j of each cell, the variance of its eta; K is the information, R that of a penalty."""
        factor, _ = robust_factor(penalised(self.information, self.space, ridge))
        out = tangent_variances(self.design, self.space, factor.inverse())
        slopes = np.empty((1, 0)) if self.design.effects is None else self.design.effects.slopes
        linear = slice(self.space.extra.start, self.space.extra.start + slopes.shape[1])
        for i, slope in enumerate(slopes.T):
            column = factor.solve(np.bincount([linear.start + i], minlength=self.space.size).astype(float))
            out += slope * (2 * self.design.eta_change(self.space, column) + slopes @ column[linear])
        return out

    def leverages(self, ridge: Floats) -> Floats:
        """Return I j^T (K + R)^-1 j of one response in each cell."""
        return self.terms.fisher * self.eta_variances(ridge)

    def influence(self, direction: Floats) -> tuple[float, float]:
        """Return the sum of the squared scores along a direction (size,), and the largest score of one response."""
        design, (slot_a, slot_b) = self.design, self.design.slots
        value = design.slot_changes(self.space, *self.space.push(direction))
        shared = np.zeros(len(design.a)) + self.terms.effects.score @ direction[self.space.extra]
        squares, largest = np.zeros((2, design.n_contexts))
        cells = design.start, slot_a, slot_b, value, self.terms.score, shared, design.count
        variance.sum_influences(*cells, squares, largest, design.n_threads)
        return float(squares.sum()), float(largest.max())


def tangent_variances(design: Design, space: TangentSpace, inverse: Inverse) -> Floats:
    """Return j^T inverse j of every cell, where j is its row of the Jacobian without effects."""
    blocks = inverse_blocks(inverse)
    q1, r1 = space.U.size, space.U.shape[1]
    cross, own = np.empty((len(space.V), *space.U.shape)), np.empty((len(space.V), r1, r1))
    for part in context_blocks(space, blocks):
        cross[part.contexts] = np.einsum("jkal,jl->jak", part.cross, space.V[part.contexts])
        own[part.contexts] = part.own
    out = np.empty(len(design.a))
    models = np.ascontiguousarray(blocks.border[:q1, :q1])
    cells = design.start, design.a, design.b
    variance.fill_leverages(*cells, space.U, space.V, models, cross, own, out, design.n_threads)
    return out
