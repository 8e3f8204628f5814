"""All that the cells of a design say at a point: eta, terms, gradient, information, meat, written once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lrbtl._kernels import variance
from lrbtl.fitting.design import Design
from lrbtl.fitting.jacobian import eta_at, eta_change, pull_sums, slot_changes
from lrbtl.fitting.solvers import Solver, SolverName, accumulate, fix_gauge, information_solver, robust_factor
from lrbtl.lowrank.arrowhead import Arrowhead, Inverse, inverse_blocks
from lrbtl.lowrank.tangent import TangentSpace, context_blocks
from lrbtl.lowrank.tucker import Tucker, mode_product, unfold
from lrbtl.model.links import CellTerms
from lrbtl.typing import Floats, Ints

STEP = 0.1  # in eta, for derivatives of the information of a vote


@dataclass(frozen=True)
class Local:
    """A design at a point: `Local.of(design, point)`. Everything is computed when first asked for.

    Sums are over responses, with the multiplicities of the design. J is the Jacobian of eta in tangent coordinates, to
    which effects add their columns.
    """

    design: Design
    space: TangentSpace
    known: tuple[Floats, CellTerms] | None = None  # eta and law, where they are at hand

    @classmethod
    def of(cls, design: Design, point: Tucker | TangentSpace) -> "Local":
        """Return a design at a point, or at one whose tangent space is at hand."""
        return cls(design, point if isinstance(point, TangentSpace) else design.space(point))

    @cached_property
    def eta(self) -> Floats:
        """<T, X> of every cell, with what linear effects add."""
        if self.known is not None:
            return self.known[0]
        eta, effects = eta_at(self.design.entries, self.space), self.design.effects
        return eta if effects is None else eta + effects.change

    @cached_property
    def law(self) -> CellTerms:
        """The terms of the link alone, of a vote without a weight."""
        if self.known is not None:
            return self.known[1]
        return self.design.link.terms(self.eta, self.design.y, self.design.variance)

    @cached_property
    def terms(self) -> CellTerms:
        """Loss, score and information of one response in each cell, with its weight."""
        return self.design.joined(self.law)

    @cached_property
    def loss(self) -> float:
        """Negative log-likelihood, in nats."""
        return float(self.design.count @ self.terms.loss)

    @cached_property
    def slot_scores(self) -> Floats:
        """Sum of the scores over each slot, signed by side."""
        return self.design.entries.slot_sums(self.design.count * self.terms.score)

    @cached_property
    def gradient(self) -> Floats:
        """Sum of the scores in coordinates: less the derivative of the loss."""
        out = pull_sums(self.design.entries, self.space, self.slot_scores)
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
        weight = self.design.weight
        count = self.design.count if weight is None else self.design.count * weight
        return self.design.link.dispersion(self.eta, self.design.y, count)

    def solver(self, name: SolverName = "auto") -> Solver:
        """Return a solver for the information on tangent vectors."""
        weight, effects = self.terms.information(self.design.count)
        return information_solver(self.design, self.space, weight, name, effects=effects)

    def with_count(self, count: Floats) -> "Local":
        """Return the same cells and terms with other multiplicities."""
        return self._with(self.law, self.design.with_count(count))

    def with_score(self, score: Floats) -> "Local":
        """Return the same cells with other scores of eta."""
        return self._with(replace(self.law, score=score), self.design)

    def spread(self, variances: Floats) -> "Local":
        """Return the same cells with scores that allow for eta being normal round its value, with a variance each."""
        return self._with(self.design.link.spread(self.law, self.eta, self.design.y, variances), self.design)

    def _with(self, law: CellTerms, design: Design) -> "Local":
        return Local(design, self.space, (self.eta, law))

    def eta_variances(self, ridge: Floats) -> Floats:
        """Return j^T (K + R)^-1 j of each cell, the variance of its eta; K is the information, R that of a penalty."""
        factor, _ = robust_factor(penalised(self.information, self.space, ridge))
        out = tangent_variances(self.design, self.space, factor.inverse())
        effects = self.design.effects
        if effects is None:
            return out
        first, k = self.space.extra.start, effects.slopes.shape[1]
        for cells, own in effects.parts:
            for i in range(k):
                unit = np.bincount([first + own.start + i], minlength=self.space.size).astype(float)
                column, slope = factor.solve(unit), effects.slopes[cells, i]
                change = eta_change(self.design.entries, self.space, column)[cells]
                linear = column[first + own.start : first + own.stop]
                out[cells] += slope * (2 * change + effects.slopes[cells] @ linear)
        return out

    def leverages(self, ridge: Floats) -> Floats:
        """Return I j^T (K + R)^-1 j of one response in each cell."""
        return self.terms.fisher * self.eta_variances(ridge)

    def influence(self, direction: Floats) -> tuple[float, float]:
        """Return the sum of the squared scores along a direction (size,), and the largest score of one response."""
        design, (slot_a, slot_b) = self.design, self.design.entries.slots
        value = slot_changes(design.entries, self.space, *self.space.push(direction))
        shared = np.zeros(len(design.a)) + self.terms.effects.along(direction[self.space.extra])
        squares, largest = np.zeros((2, design.n_contexts))
        cells = design.start, slot_a, slot_b, value, self.terms.score, shared, design.count
        variance.sum_influences(*cells, squares, largest)
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
    variance.fill_leverages(*cells, space.U, space.V, models, cross, own, out)
    return out


# ------------------------------------------------------------------------------
# The penalty 1/2 sum_k ridge_k ||T_(k)||_*: its value, and the smooth function that touches it, to second order.
# ------------------------------------------------------------------------------


def penalty(point: Tucker, ridge: Floats) -> float:
    """Return 1/2 sum_k ridge_k ||T_(k)||_* at a point in HOSVD form."""
    return 0.5 * float(sum(lam * s.sum() for lam, s in zip(ridge, point.singular_values, strict=True)))


def penalty_terms(space: TangentSpace, ridge: Floats) -> tuple[Floats, dict[int, Floats], Floats]:
    """Return the gradient of the smooth penalty, its Hessian per row of each factor, and the diagonal for the core.

    Terms of the Hessian that couple different parts are left out: they vanish for a matrix, and nearly so in a fixed
    gauge.
    """
    core = space.core
    sigma = [np.maximum(s, 1e-12 * max(s[0], 1e-30)) for s in space.point.singular_values]
    order = core.ndim
    gradient = np.zeros(space.size)
    hessians = {}
    for k in range(order):
        hessian = 0.5 * ridge[k] * np.diag(sigma[k])
        for j in range(order):
            if j != k:
                scaled = unfold(mode_product(core, np.diag(sigma[j] ** -0.5), j), k)
                hessian += 0.5 * ridge[j] * scaled @ scaled.T
        hessians[k] = hessian
        changes = gradient[space.slices[k]].reshape(len(space.factors[k]), -1)
        changes[:, : len(hessian)] = space.factors[k] @ hessian
    weights = np.zeros(core.shape)
    for k in range(order):
        weights += np.reshape(0.5 * ridge[k] / sigma[k], [-1 if j == k else 1 for j in range(order)])
    if space.has_core:
        gradient[space.core_slice] = (weights * core).reshape(-1)
    return gradient, hessians, weights.reshape(-1)


def add_penalty(
    matrix: Arrowhead, space: TangentSpace, hessians: dict[int, Floats], core_diagonal: Floats
) -> Arrowhead:
    """Return the matrix plus the penalty's Hessian."""
    parts = [(space.slices[k], hessians[k]) for k in [0, *space.others]]
    if space.has_core:
        parts.append((space.core_slice, np.diag(core_diagonal)))
    return matrix.plus_border(parts).plus_blocks(hessians[space.mode])


def penalised(matrix: Arrowhead, space: TangentSpace, ridge: Floats) -> Arrowhead:
    """Return an information matrix plus the penalty's Hessian; a matrix's ridge leaves no gauge to fix."""
    _, hessians, core_diagonal = penalty_terms(space, ridge)
    out = add_penalty(matrix, space, hessians, core_diagonal)
    return out if len(space.factors) == 2 and np.all(ridge > 0) else fix_gauge(out, space)


@dataclass(frozen=True)
class LevelInformation:
    """Information of the votes on the models' levels, here and at other values: less where models are unequal.

    Let levels move by h x, the same in all contexts, with x of size one along a target. Then eta of a vote between i, j
    moves by h (x_i - x_j), and the information of all votes on h is

        I(h) = sum of n w(eta + h (x_i - x_j)) (x_i - x_j)^2,   w the Fisher information of a vote.

    Its first two derivatives at h = 0 are sums over pairs of models of w' and w'' times third and fourth powers of
    x_i - x_j, so that three matrices (d1, d1) hold them for every target.

    Attributes
    ----------
    now, slope, bend : arrays (d1, d1)
        Sums over the votes of two models of w, of w' in the first one's favour, and of w''.
    """

    now: Floats
    slope: Floats
    bend: Floats

    @classmethod
    def at(cls, design: Design, eta: Floats) -> "LevelInformation":
        """Return that of the cells of a design."""

        def information(step: float) -> Floats:
            terms = design.joined(design.link.terms(eta + step, design.y, design.variance))
            return np.asarray(design.count * terms.fisher)

        return cls.of(information, design.a, design.b, design.shape[0])

    @classmethod
    def of(cls, information: Callable[[float], Floats], a: Ints, b: Ints, n_models: int) -> "LevelInformation":
        """Return that of cells between models a and b, given their information as a function of a change of eta."""
        below, now, above = (information(step) for step in (-STEP, 0.0, STEP))
        place = a.astype(np.int64) * n_models + b
        values = now, (above - below) / (2 * STEP), (above - 2 * now + below) / STEP**2
        sums = (np.bincount(place, value, n_models**2).astype(np.float64) for value in values)
        first, second, third = (total.reshape(n_models, n_models) for total in sums)
        return cls(first + first.T, second - second.T, third + third.T)

    def along(self, levels: Floats) -> tuple[Floats, Floats]:
        """Return slope and bend of log I(h) along changes of levels (M, d1): log I(h) - log I(0) = slope h + bend h^2.

        Changes are divided by their squares, so that a sum of levels with these weights moves by h.
        """
        size = np.einsum("mj,mj->m", levels, levels)[:, None]
        x = levels / np.where(size > 0, size, 1.0)
        x2, x3 = x**2, x**3
        own = [matrix.sum(axis=1) for matrix in (self.now, self.slope, self.bend)]
        now = x2 @ own[0] - _forms(x, self.now, x)
        slope = x3 @ own[1] - 3 * _forms(x2, self.slope, x)
        bend = x2**2 @ own[2] - 4 * _forms(x3, self.bend, x) + 3 * _forms(x2, self.bend, x2)
        return _of_logarithm(now, slope, bend)


def _forms(x: Floats, matrix: Floats, y: Floats) -> Floats:
    """Return x^T matrix y for each row."""
    return np.asarray(np.einsum("mj,mj->m", x @ matrix, y))


def _of_logarithm(now: Floats, slope: Floats, bend: Floats) -> tuple[Floats, Floats]:
    """Return slope and bend of a logarithm, given value and derivatives; zeros where nothing is known."""
    known = np.where(now > 0, now, 1.0)
    first = np.where(now > 0, slope, 0.0) / known
    return first, 0.5 * (np.where(now > 0, bend, 0.0) / known - first**2)
