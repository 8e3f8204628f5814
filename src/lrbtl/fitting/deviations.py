"""Scores T = L + E, low rank plus deviations E ~ N(0, tau^2) of single entries, and their posterior round some scores.

Given a quadratic expansion of the likelihood with gradient g and information H of each context (over the dispersion of
the votes), E is integrated out: with S = (I + tau^2 H)^-1 a context says W = S H about L, in the place of H. What is
left are normal equations in tangent coordinates, with an arrowhead matrix A as without E,

    A = J^T W J + prior,   A delta = J^T (S g + W E) - prior,   dE = tau^2 S (g - H J delta - E / tau^2).

Separate fits are tau -> infinity, the low-rank model is tau = 0. The prior is that of `fitting.priors`.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from lrbtl._kernels import gram
from lrbtl.fitting.blocks import BlockDesign, Field, Matrices
from lrbtl.fitting.newton import moved_point
from lrbtl.fitting.priors import ContextPrior, Prior, context_prior, factor_entries, population_prior, within_gauge
from lrbtl.fitting.solvers import accumulate, robust_factor
from lrbtl.lowrank.arrowhead import Arrowhead, Factor, NotPositiveDefinite
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.model.links import CellTerms
from lrbtl.typing import Floats

CHOLESKY_SIZE = 18  # where faster arithmetic outweighs a call from Python per matrix
STALE = 1.25  # times what the scores say now, beyond which an earlier precision is not kept
VANISHED = 1e-4  # of the noise of an entry: components that add less to it
OF_VOTES = ("g", "cell_weights", "effects", "effect_gradient")  # what votes say at some scores, whatever tau is


@dataclass(frozen=True)
class Scores:
    """Scores L + E + offset: a low-rank point, deviations on the slots of a design, and the design with its link there.

    The offset, on the slots too, is what exceptions are known to add; `shared` (d1, D) what deviations add that several
    contexts have in common.
    """

    design: BlockDesign
    space: TangentSpace
    E: Floats
    offset: Floats | float = 0.0
    shared: Floats | float = 0.0

    @cached_property
    def low_rank(self) -> Floats:
        """L on the slots."""
        return self.design.slot_values(self.space.U, self.space.V)

    @property
    def on_slots(self) -> Floats:
        """All of the scores on the slots."""
        out = self.low_rank + self.E + self.offset
        if isinstance(self.shared, np.ndarray):
            context, model = self.design.slot_places
            out += self.shared[model, context]
        return out

    @property
    def vanished(self) -> bool:
        """Whether a component beside the first is too small to matter: its prior then shrinks it with every step."""
        sizes = self.space.point.singular_values[0]
        return len(sizes) > 1 and bool(
            sizes.min() < VANISHED * self.design.noise * np.sqrt(len(self.space.V) * len(self.space.U))
        )

    @cached_property
    def terms(self) -> CellTerms:
        """Loss, score and information of one response in each cell."""
        return self.terms_of(self.design)

    def eta_of(self, cells: BlockDesign) -> Floats:
        """Return eta in each cell of a design with the same slots, which may have other cells."""
        eta, effects = cells.differences(self.on_slots), self.design.effects
        return eta if effects is None or cells.effects is None else eta + cells.effects.times(effects.values)

    def terms_of(self, cells: BlockDesign) -> CellTerms:
        """Return the terms of one response in each cell of a design with the same slots."""
        return cells.joined(self.design.link.terms(self.eta_of(cells), cells.y, cells.variance))

    @cached_property
    def loss(self) -> float:
        """Negative log-likelihood."""
        return float(self.design.count @ self.terms.loss)

    def common(self, slots: Floats | float = 0.0) -> Field:
        """Return L and what several contexts share, plus values on slots."""
        U, V = self.space.U, self.space.V
        if isinstance(self.shared, np.ndarray):
            U, V = np.hstack([U, np.eye(len(U))]), np.hstack([V, self.shared.T])
        return Field.of(self.design, U, V, slots)

    @cached_property
    def field(self) -> Field:
        """All scores, zero-sum; E is zero where nobody met."""
        return self.common(self.E + self.offset).centred()

    def moved(self, step: Floats, dE: Floats) -> "Scores":
        """Return the scores after a step in coordinates and one of the deviations."""
        design = self.design.moved(step[self.space.extra])
        assert isinstance(design, BlockDesign)
        return replace(self, design=design, space=design.space(moved_point(self.space, step)), E=self.E + dE)


@dataclass(frozen=True)
class Expansion:
    """The posterior round some scores to second order, with E integrated out; everything over the dispersion.

    Attributes
    ----------
    scores : Scores
    tau, dispersion, gauge : float
    before : array (size,) or None
        Precision of the prior one step before, with which the present one is averaged: it depends on the scores, and
        would swing with them.
    settled : bool
        Whether the precision stays as it was before.
    """

    scores: Scores
    tau: float
    dispersion: float
    gauge: float
    before: Floats | None = None
    settled: bool = False

    @cached_property
    def g(self) -> Floats:
        """Scores of the votes on the slots."""
        design = self.scores.design
        return design.slot_sums(design.count * self.scores.terms.score) / self.dispersion

    @cached_property
    def cell_weights(self) -> Floats:
        """Weight of each cell in H, the information of its context."""
        return np.asarray(self.scores.design.count * self.scores.terms.fisher / self.dispersion)

    @cached_property
    def _told(self) -> tuple[Matrices, float]:
        """W of each context, and the sum of the log determinants of S."""
        matrices = self.scores.design.laplacians(self.cell_weights)
        if self.tau == 0.0:
            return matrices, 0.0
        return matrices, sum(told_parts(H, self.tau**2) for H in matrices)

    @property
    def W(self) -> Matrices:
        """S H: what each context says about L."""
        return self._told[0]

    def informed(self, values: Floats) -> Floats:
        """Return H times values on the slots, (n_slots,) or (n_slots, k)."""
        return self.scores.design.times_laplacians(self.cell_weights, values)

    def told(self, values: Floats) -> Floats:
        """Return W times values on the slots."""
        return self.scores.design.times(self.W, values)

    def left_open(self, values: Floats) -> Floats:
        """Return S times values on the slots; S = I - tau^2 W is how much of a deviation battles leave open."""
        return values - self.tau**2 * self.told(values) if self.tau > 0.0 else values

    @cached_property
    def residual(self) -> Floats:
        """S g + W E = g + W (E - tau^2 g): the gradient in L on the slots."""
        return self.g + self.told(self._away)

    @property
    def _away(self) -> Floats:
        return self.scores.E - self.tau**2 * self.g

    @cached_property
    def effect_gradient(self) -> Floats:
        """Scores of the votes along the shared effects, (k,)."""
        design = self.scores.design
        if not design.n_effects:
            return np.empty(0)
        return self.scores.terms.effects.gradient(design.count) / self.dispersion

    @cached_property
    def effects(self) -> tuple[Floats, Floats]:
        """Of the shared effects: cross information with the slots (n_slots, k), and their own (k, k)."""
        design = self.scores.design
        if not design.n_effects:
            return np.empty((design.n_slots, 0)), np.empty((0, 0))
        border = self.scores.terms.effects.information(design.count)
        return design.effect_columns(border) / self.dispersion, border.corner / self.dispersion

    def _with_effects(self, matrix: Arrowhead) -> Arrowhead:
        """Return the matrix with the border of the effects: S c, and their own information less what E takes."""
        c, corner = self.effects
        open_part = self.left_open(c)
        return self.bordered(matrix, open_part, corner - self.tau**2 * c.T @ open_part)

    def bordered(self, matrix: Arrowhead, columns: Floats, corner: Floats) -> Arrowhead:
        """Return the matrix with a border of the effects, whose products with the slots are (n_slots, k)."""
        if not columns.shape[1]:
            return matrix
        design, space = self.scores.design, self.scores.space
        pulled = design.pull_columns(space, columns)
        border, cross = matrix.border.copy(), matrix.cross
        border[:, space.extra] = pulled[: space.q]
        border[space.extra] = pulled[: space.q].T
        border[space.extra, space.extra] = corner
        if isinstance(cross, np.ndarray):
            cross = np.hstack([cross[:, : space.extra.start], pulled[space.q :]])
        else:
            parts = [cross[:, : space.extra.start], sparse.csr_array(pulled[space.q :])]
            cross = sparse.csr_array(sparse.hstack(parts, format="csr"))
            cross.sort_indices()
        return replace(matrix, border=border, cross=cross)

    @cached_property
    def contexts(self) -> ContextPrior | None:
        """Prior of context vectors, where several modes make the contexts."""
        design, space = self.scores.design, self.scores.space
        if len(design.shape) < 3:
            return None
        votes = np.bincount(design.context, design.count, design.n_contexts).astype(np.float64)
        return context_prior(space, votes, design.traces(self.W, space.U @ space.U.T) / space.U.shape[1])

    def _accumulated(self, slot_score: Floats | None = None) -> Arrowhead:
        """Return J^T W J with the effects' border and the prior of context vectors."""
        design, space = self.scores.design, self.scores.space
        precision = None if self.contexts is None else self.contexts.precision
        found = accumulate(design, space, self.W, slot_score=slot_score, contexts=precision)  # type: ignore[arg-type]
        return self._with_effects(found)

    @cached_property
    def information(self) -> Arrowhead:
        """J^T W J with the effects' border and the prior of context vectors."""
        return self._accumulated()

    @cached_property
    def prior(self) -> Prior:
        """Of the coordinates."""
        found = population_prior(self.scores.space, self.information)
        if self.before is None:
            return found
        if not self.settled:
            return replace(found, precision=np.sqrt(found.precision * self.before))
        # where scores are about to vanish, the unit of the coordinates changes with every step
        return replace(found, precision=np.minimum(self.before, STALE * found.precision))

    def _closed(self, matrix: Arrowhead) -> Arrowhead:
        """Return a matrix plus the prior and the gauge."""
        parts = [(part, self.gauge * block) for part, block in self.scores.space.gauge()]
        return matrix.plus_diagonal(self.prior.precision, parts)

    @cached_property
    def factor(self) -> Factor:
        """The factorised precision A of the coordinates; directions that nothing informs are damped."""
        return robust_factor(self._closed(self.information))[0]

    def newton_factor(self) -> Factor:
        """Return the factorised Hessian, or A where that is not positive definite."""
        try:
            return self._closed(self._accumulated(self.residual)).factor()
        except NotPositiveDefinite:
            return self.factor

    def gradient(self) -> Floats:
        """Return the gradient of the log posterior in coordinates."""
        design, space = self.scores.design, self.scores.space
        out = design.pull_sums(space, self.residual)
        if design.n_effects:
            out[space.extra] = self.effect_gradient + self.effects[0].T @ self.left_open(self._away)
        if self.contexts is not None:
            out -= self.contexts.gradient(space)
        return out - within_gauge(space, self.prior.precision * (factor_entries(space) - self.prior.mean))

    @cached_property
    def left_by_step(self) -> Floats:
        """What the best step of L and of the effects would leave of the residual: E / tau^2 after it."""
        design, space, step = self.scores.design, self.scores.space, self.factor.solve(self.gradient())
        left = self.residual - self.told(design.slot_changes(space, *space.push(step)))
        return left - self.left_open(self.effects[0] @ step[space.extra]) if design.n_effects else left

    def left_by_steps(self, residuals: Floats) -> Floats:
        """Return what steps of L alone would leave of other residuals, (n_slots, m)."""
        design, space = self.scores.design, self.scores.space
        solved = self.factor.solve(design.pull_columns(space, residuals))
        return residuals - self.told(design.push_columns(space, solved))

    def deviation_step(self, step: Floats) -> Floats:
        """Return the step of the deviations that goes with one in coordinates."""
        design, space = self.scores.design, self.scores.space
        change = design.slot_changes(space, *space.push(step))
        c, _ = self.effects
        moved = self.informed(change) + c @ step[space.extra]
        return self.left_open(self.tau**2 * (self.g - moved) - self.scores.E)

    def decrement(self, gradient: Floats, step: Floats, dE: Floats) -> float:
        """Return how much a step promises, in nats."""
        deviation = self.g - (self.scores.E / self.tau**2 if self.tau > 0 else 0.0)
        return 0.5 * (abs(float(gradient @ step)) + abs(float(deviation @ dE)))

    def cost(self, scores: Scores, step: Floats | float = 0.0) -> float:
        """Return the negative log posterior at the scores that a step in coordinates leads to."""
        deviations = 0.5 * float(scores.E @ scores.E) / self.tau**2 if self.tau > 0 else 0.0
        return scores.loss / self.dispersion + deviations + self._prior_cost(scores, step)

    def _prior_cost(self, scores: Scores, step: Floats | float = 0.0) -> float:
        """Return the negative log prior of L at the scores that a step in coordinates leads to."""
        cost = self.prior.cost(factor_entries(self.scores.space) + step)
        return cost if self.contexts is None else cost + self.contexts.cost(scores.space)

    @cached_property
    def log_evidence(self) -> float:
        """Log marginal likelihood of tau at this rank, by Laplace's method and up to a constant.

        The quadratic expansion is that round the scores, wherever its own mode is: with E integrated out, what is left
        of the votes' information about L is (y - L)^T W (y - L) / 2 for y = L + E + H^-1 g.
        """
        scores, gradient = self.scores, self.gradient()
        # E W E + (2 E - tau^2 g) S g, written with d = E - tau^2 g as d W d + (d + E) g
        square = self._away @ (self.residual - self.g) + (self._away + scores.E) @ self.g
        higher = float(gradient @ self.factor.solve(gradient)) - float(square)
        height = scores.loss / self.dispersion + self._prior_cost(scores)
        return 0.5 * (higher - self.factor.log_determinant() + self._told[1]) - height

    def evidence_slope(self, taken: float) -> tuple[float, float]:
        """Return the derivative of the log evidence in tau^2, and minus the second one as it is expected to be, about.

        With V = W - W J A^-1 J^T W these are (|E|^2 / tau^4 - tr V) / 2 for the deviations after the best step, and
        tr(V^2) / 2, for which V is taken to be as much smaller than W as its trace. `taken` is the trace of what L
        takes of W; what effects take is added.
        """
        told = sum(float(np.einsum("bmm->", W)) for W in self.W)
        left = told - taken - self._taken_by_effects
        curvature = left / told * sum(float(np.vdot(W, W)) for W in self.W)
        return 0.5 * (float(self.left_by_step @ self.left_by_step) - left), 0.5 * curvature

    @property
    def _taken_by_effects(self) -> float:
        """Trace of what effects take of W beside L."""
        design, space = self.scores.design, self.scores.space
        if not design.n_effects:
            return 0.0
        columns, own = self.left_open(self.effects[0]), np.zeros((space.size, design.n_effects))
        own[space.extra] = np.eye(design.n_effects)
        with_slots = 2.0 * design.pull_columns(space, self.told(columns))
        with_slots[space.extra] = columns.T @ columns
        return float(np.vdot(self.factor.solve(own), with_slots))

    @cached_property
    def _known_evidence(self) -> dict[float, float]:
        return {}

    def evidence_of(self, tau: float) -> float:
        """Return the log evidence of a tau by the expansion round these scores."""
        if tau not in self._known_evidence:
            self._known_evidence[tau] = self.at_tau(tau).log_evidence
        return self._known_evidence[tau]

    def at_tau(self, tau: float) -> "Expansion":
        """Return the expansion round the same scores with deviations of another size."""
        if tau == self.tau:
            return self
        return self.sharing(replace(self, tau=tau), *OF_VOTES, "prior", "contexts")

    def at_scores(self, scores: Scores, settled: bool) -> "Expansion":
        """Return the gradient at scores nearby, with this information in the place of theirs."""
        found = replace(self, scores=scores, before=self.prior.precision, settled=settled)
        return self.sharing(found, "cell_weights", "_told", "effects", "contexts", "information")

    def sharing(self, other: "Expansion", *names: str) -> "Expansion":
        """Return another expansion with some of what is known here."""
        other.__dict__.update({name: getattr(self, name) for name in names})
        return other


def told_parts(matrices: Floats, square: float) -> float:
    """Turn symmetric matrices H (B, m, m) into H (I + square H)^-1, in place: they fill most of the memory.

    Return the sum of the log determinants of the inverses. Small ones go by elimination, large ones by Cholesky, one at
    a time.
    """
    each = np.arange(matrices.shape[1])
    if len(each) < CHOLESKY_SIZE:
        determinant = gram.invert_blocks(matrices, square, matrices)
        matrices *= -1.0 / square
        matrices[:, each, each] += 1.0 / square
        return determinant
    pivots = np.empty(matrices.shape[:2])
    for i, matrix in enumerate(matrices):
        matrix *= square
        matrix[each, each] += 1.0
        chol, _ = linalg.lapack.dpotrf(matrix.T, lower=True, clean=True)
        pivots[i] = chol.diagonal()
        lower, _ = linalg.lapack.dpotri(chol, lower=True, overwrite_c=True)
        lower *= -1.0 / square
        np.add(lower, lower.T, out=matrix)
        matrix[each, each] *= 0.5
        matrix[each, each] += 1.0 / square
    return -2.0 * float(np.log(pivots).sum())
