"""The posterior of scores T = level + L + E round some scores, at fixed hyperparameters.

L is low rank, deviations E ~ N(0, tau^2) belong to single entries. Given a quadratic expansion of the likelihood with
gradient g and information H of each context (over the dispersion of the votes), E is integrated out: with
S = (I + tau^2 H)^-1 a context says W = S H about level + L, in the place of H. What is left are normal equations in the
coordinates of `coordinates.LevelSpace`, with an arrowhead matrix A as without E,

    A = J^T W J + prior,   A delta = J^T (S g + W E) - prior,   dE = tau^2 S (g - H J delta - E / tau^2).

Separate fits are tau -> infinity, the low-rank model is tau = 0.

Where votes are few, the posterior is not near its mode. Then g and H are expectations over eta ~ N(eta, variance) of
every vote, the variance being that of the posterior (`Scores.eta_variance`): the mode becomes the mean of the normal
law nearest to the posterior in the sense of Kullback and Leibler, and the evidence its variational bound.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from lrbtl._kernels import blocks as block_kernels
from lrbtl.fitting.blocks import BlockDesign, LowRankPlusSparse, Matrices
from lrbtl.fitting.jacobian import pull_columns, pull_sums, push_columns, slot_changes
from lrbtl.fitting.solvers import accumulate, robust_factor
from lrbtl.fitting.vote_terms import VoteTerms
from lrbtl.hierarchical.coordinates import LevelSpace
from lrbtl.hierarchical.factor_prior import FactorPrior, FactorTerms
from lrbtl.hierarchical.level_prior import LevelPrior
from lrbtl.lowrank.arrowhead import Arrowhead, Factor, NotPositiveDefinite
from lrbtl.model.links import CellTerms
from lrbtl.typing import Floats

CHOLESKY_SIZE = 18  # where faster arithmetic outweighs a call from Python per matrix
VANISHED = 1e-4  # of the noise of an entry: components that add less to it


@dataclass(frozen=True)
class Scores:
    """Scores level + L + E + offset: levels and a low-rank point, deviations on the slots of a design with its link.

    The offset, on the slots too, is what outliers are known to add; `shared` (d1, D) what random effects add that
    several contexts have in common; `eta_variance` (n_atoms,) is that of eta under the posterior, 0 to leave it out.
    """

    design: BlockDesign
    space: LevelSpace
    E: Floats
    offset: Floats | float = 0.0
    shared: Floats | float = 0.0
    eta_variance: Floats | float = 0.0

    @cached_property
    def low_rank(self) -> Floats:
        """Return level + L on the slots."""
        return self.design.entries.slot_values(self.space.U, self.space.V)

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
        """Whether a factor is too small to matter: its prior then shrinks it with every step."""
        sizes = self.space.point.singular_values[0] if self.space.rank else np.empty(0)
        least = VANISHED * self.design.noise * np.sqrt(len(self.space.V) * len(self.space.U))
        return bool(np.any(sizes < least))

    @cached_property
    def terms(self) -> CellTerms:
        """Loss, score and information of one response in each cell."""
        return self.terms_of(self.design)

    def eta_of(self, cells: BlockDesign) -> Floats:
        """Return eta in each cell of a design with the same slots, which may have other cells."""
        eta, effects = cells.entries.differences(self.on_slots), self.design.effects
        return eta if effects is None or cells.effects is None else eta + cells.effects.times(effects.values)

    def terms_of(self, cells: BlockDesign) -> CellTerms:
        """Return the terms of one response in each cell of a design with the same slots."""
        link, eta = self.design.link, self.eta_of(cells)
        if not isinstance(self.eta_variance, np.ndarray):
            return cells.joined(link.terms(eta, cells.y, cells.variance))
        spread = cells.entries.of_atoms(self.eta_variance)
        return cells.joined(link.expected_terms(eta, cells.y, spread, cells.variance))

    @cached_property
    def loss(self) -> float:
        """Negative log-likelihood."""
        return float(self.design.count @ self.terms.loss)

    def common(self, slots: Floats | float = 0.0) -> LowRankPlusSparse:
        """Return L and what several contexts share, plus values on slots."""
        U, V = self.space.U, self.space.V
        if isinstance(self.shared, np.ndarray):
            U, V = np.hstack([U, np.eye(len(U))]), np.hstack([V, self.shared.T])
        return LowRankPlusSparse.of(self.design, U, V, slots)

    @cached_property
    def field(self) -> LowRankPlusSparse:
        """All scores, zero-sum; E is zero where nobody met."""
        return self.common(self.E + self.offset).centred()

    def moved(self, step: Floats, dE: Floats) -> "Scores":
        """Return the scores after a step in coordinates and one of the deviations."""
        design = self.design.moved(step[self.space.extra])
        assert isinstance(design, BlockDesign)
        point, level = self.space.retraction(step)
        return replace(self, design=design, space=LevelSpace(point, level, n_extra=design.n_effects), E=self.E + dE)


@dataclass(frozen=True)
class Hyperparameters:
    """What is fixed while the mode is sought.

    Attributes
    ----------
    tau : float
        Standard deviation of deviations, in logits.
    level : LevelPrior
    dispersion : float
        Variance of votes over that of their law: below one with ties and soft votes.
    gauge : float
        Stiffness of the gauge constraints.
    factors : FactorPrior
    """

    tau: float
    level: LevelPrior
    dispersion: float
    gauge: float
    factors: FactorPrior


@dataclass(frozen=True)
class MarginalInformation:
    """Information of votes about level + L with deviations of size tau integrated out, a matrix per context.

    With H that of the votes, S = (I + tau^2 H)^-1 shrinks deviations and W = S H = H - tau^2 W H is what is left.
    """

    votes: VoteTerms
    tau: float

    @cached_property
    def _marginal(self) -> tuple[Matrices, float]:
        matrices = self.votes.design.blocks.laplacians(self.votes.weights)
        if self.tau == 0.0:
            return matrices, 0.0
        return matrices, sum(integrate_out(H, self.tau**2) for H in matrices)

    @property
    def W(self) -> Matrices:
        """S H of each context."""
        return self._marginal[0]

    @property
    def log_determinant(self) -> float:
        """Sum of the log determinants of S."""
        return self._marginal[1]

    @cached_property
    def trace(self) -> float:
        """Trace of W."""
        return sum(float(np.einsum("bmm->", W)) for W in self.W)

    @property
    def effects(self) -> tuple[Floats, Floats]:
        """Information of shared effects: with the slots (n_slots, k), and their own (k, k)."""
        return self.votes.effects

    def apply_information(self, values: Floats) -> Floats:
        """Return H times values on the slots."""
        return self.votes.apply_information(values)

    def apply(self, values: Floats) -> Floats:
        """Return W times values on the slots."""
        return self.votes.design.blocks.times(self.W, values)

    def apply_shrinkage(self, values: Floats) -> Floats:
        """Return S times values on the slots."""
        return values - self.tau**2 * self.apply(values) if self.tau > 0.0 else values


@dataclass(frozen=True)
class Expansion:
    """The posterior round some scores to second order, with E integrated out.

    Attributes
    ----------
    scores : Scores
    hyper : Hyperparameters
    known_votes : VoteTerms or None
        Terms of the votes at the scores, where they are known already.
    known_marginal : MarginalInformation or None
        Information, where that of scores nearby takes the place of their own.
    known_information : Arrowhead or None
        The same in coordinates.
    """

    scores: Scores
    hyper: Hyperparameters
    known_votes: VoteTerms | None = None
    known_marginal: MarginalInformation | None = None
    known_information: Arrowhead | None = None

    @property
    def tau(self) -> float:
        """Size of the deviations."""
        return self.hyper.tau

    @property
    def dispersion(self) -> float:
        """Dispersion of the votes."""
        return self.hyper.dispersion

    @cached_property
    def votes(self) -> VoteTerms:
        """Terms of the votes at the scores."""
        return self.known_votes or VoteTerms(self.scores.design, self.scores.terms, self.dispersion)

    @cached_property
    def marginal(self) -> MarginalInformation:
        """Information about level + L."""
        return self.known_marginal or MarginalInformation(self.votes, self.tau)

    @cached_property
    def residual(self) -> Floats:
        """S g + W E = g + W (E - tau^2 g): the gradient in level + L on the slots."""
        return self.votes.gradient + self.marginal.apply(self._away)

    @property
    def _away(self) -> Floats:
        return self.scores.E - self.tau**2 * self.votes.gradient

    def _with_effects(self, matrix: Arrowhead) -> Arrowhead:
        """Return the matrix with the border of the effects: S c, and their own information less what E takes."""
        c, corner = self.marginal.effects
        if not len(corner):
            return matrix
        design, space, columns = self.scores.design, self.scores.space, self.marginal.apply_shrinkage(c)
        corner = corner - self.tau**2 * c.T @ columns
        pulled = pull_columns(design.entries, space, columns)
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

    def _accumulated(self, slot_score: Floats | None = None) -> Arrowhead:
        """Return J^T W J with the effects' border; with a score per slot, the second-order part too."""
        design, space = self.scores.design, self.scores.space
        found = accumulate(design, space, self.marginal.W, slot_score=slot_score)  # type: ignore[arg-type]
        return self._with_effects(found)

    @cached_property
    def information(self) -> Arrowhead:
        """J^T W J with the effects' border."""
        return self._accumulated() if self.known_information is None else self.known_information

    @cached_property
    def _factor_terms(self) -> FactorTerms:
        return self.hyper.factors.at(self.scores.space)

    @property
    def evidence_precision(self) -> float:
        """Precision of the factors with the most evidence round these scores, about."""
        return self._factor_terms.evidence_precision(self.information)

    def _closed(self, matrix: Arrowhead) -> Arrowhead:
        """Return a matrix plus the priors and the gauge; the prior of a matrix of factors leaves no gauge to fix."""
        space = self.scores.space
        free = len(space.factors) == 2 and self.hyper.factors.precision > 0.0
        parts = [(part, self.hyper.gauge * block) for part, block in space.gauge(only_shift=free)]
        parts.append((space.level_part, self.hyper.level.precision))
        return self._factor_terms.added_to(matrix).plus_border(parts)

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
        out = pull_sums(design.entries, space, self.residual)
        if design.n_effects:
            out[space.extra] = self.votes.effect_gradient + self.marginal.effects[0].T @ self.marginal.apply_shrinkage(
                self._away
            )
        return out - self._prior_gradient

    @property
    def _prior_gradient(self) -> Floats:
        """Derivative of the cost of the priors of factors and levels."""
        space, out = self.scores.space, self._factor_terms.gradient.copy()
        along = self.hyper.level.gradient(space.level)
        out[space.level_part] += along - along.mean()
        return out

    @cached_property
    def left_by_step(self) -> Floats:
        """What the best step of L and of the effects would leave of the residual: E / tau^2 after it."""
        design, space, step = self.scores.design, self.scores.space, self.factor.solve(self.gradient())
        left = self.residual - self.marginal.apply(slot_changes(design.entries, space, *space.push(step)))
        return (
            left - self.marginal.apply_shrinkage(self.marginal.effects[0] @ step[space.extra])
            if design.n_effects
            else left
        )

    def cost(self, scores: Scores) -> float:
        """Return the negative log posterior at some scores."""
        deviations = 0.5 * float(scores.E @ scores.E) / self.tau**2 if self.tau > 0 else 0.0
        return scores.loss / self.dispersion + deviations + self.prior_cost(scores)

    def prior_cost(self, scores: Scores) -> float:
        """Return the negative log prior of levels and factors."""
        return self.hyper.factors.cost(scores.space.point) + self.hyper.level.cost(scores.space.level)

    @cached_property
    def log_evidence(self) -> float:
        """Log marginal likelihood of tau at this rank, by Laplace's method and up to a constant.

        The quadratic expansion is that round the scores, wherever its own mode is: with E integrated out, what is left
        of the votes' information about L is (y - L)^T W (y - L) / 2 for y = L + E + H^-1 g.
        """
        scores, gradient = self.scores, self.gradient()
        # E W E + (2 E - tau^2 g) S g, written with d = E - tau^2 g as d W d + (d + E) g
        square = self._away @ (self.residual - self.votes.gradient) + (self._away + scores.E) @ self.votes.gradient
        higher = float(gradient @ self.factor.solve(gradient)) - float(square)
        height = scores.loss / self.dispersion + self.prior_cost(scores)
        known = self.hyper.level.log_determinant + 2.0 * self.hyper.level.gain
        if isinstance(scores.eta_variance, np.ndarray):
            known += float(self.marginal.votes.weights @ scores.design.entries.of_atoms(scores.eta_variance))
        return 0.5 * (higher - self.factor.log_determinant() + self.marginal.log_determinant + known) - height

    def evidence_slope(self, taken: float) -> tuple[float, float]:
        """Return the derivative of the log evidence in tau^2, and minus the second one as it is expected to be, about.

        With V = W - W J A^-1 J^T W these are (|E|^2 / tau^4 - tr V) / 2 for the deviations after the best step, and
        tr(V^2) / 2, for which V is taken to be as much smaller than W as its trace. `taken` is the trace of what L
        takes of W; what effects take is added.
        """
        left = self.marginal.trace - taken - self._taken_by_effects
        curvature = left / max(self.marginal.trace, 1e-300) * sum(float(np.vdot(W, W)) for W in self.marginal.W)
        return 0.5 * (float(self.left_by_step @ self.left_by_step) - left), 0.5 * curvature

    @property
    def _taken_by_effects(self) -> float:
        """Trace of what effects take of W beside L."""
        design, space = self.scores.design, self.scores.space
        if not design.n_effects:
            return 0.0
        columns, own = self.marginal.apply_shrinkage(self.marginal.effects[0]), np.zeros((space.size, design.n_effects))
        own[space.extra] = np.eye(design.n_effects)
        with_slots = 2.0 * pull_columns(design.entries, space, self.marginal.apply(columns))
        with_slots[space.extra] = columns.T @ columns
        return float(np.vdot(self.factor.solve(own), with_slots))

    def with_hyper(self, hyper: Hyperparameters) -> "Expansion":
        """Return the expansion round the same scores with other hyperparameters."""
        same = hyper.tau == self.tau
        marginal, information = (self.marginal, self.information) if same else (None, None)
        return Expansion(self.scores, hyper, self.votes, marginal, information)

    def at_tau(self, tau: float) -> "Expansion":
        """Return the expansion round the same scores with deviations of another size."""
        return self if tau == self.tau else self.with_hyper(replace(self.hyper, tau=tau))

    def around(self, scores: Scores, hyper: Hyperparameters | None = None) -> "Expansion":
        """Return the expansion round other scores."""
        return Expansion(scores, self.hyper if hyper is None else hyper)

    def split_anew(self, scores: Scores) -> "Expansion":
        """Return the expansion round the same scores that are split otherwise into level, L and E."""
        return Expansion(scores, self.hyper, self.votes, self.marginal)

    def nearby(self, scores: Scores) -> "Expansion":
        """Return the gradient at scores nearby, with this information in the place of theirs."""
        return Expansion(scores, self.hyper, None, self.marginal, self.information)


def left_by_steps(at: Expansion, residuals: Floats) -> Floats:
    """Return what steps of L alone would leave of residuals, (n_slots, m)."""
    design, space = at.scores.design, at.scores.space
    solved = at.factor.solve(pull_columns(design.entries, space, residuals))
    return residuals - at.marginal.apply(push_columns(design.entries, space, solved))


def integrate_out(matrices: Floats, square: float) -> float:
    """Turn symmetric matrices H (B, m, m) into H (I + square H)^-1, in place: they fill most of the memory.

    Return the sum of the log determinants of the inverses. Small ones go by elimination, large ones by Cholesky, one at
    a time.
    """
    each = np.arange(matrices.shape[1])
    if len(each) < CHOLESKY_SIZE:
        determinant = block_kernels.invert_blocks(matrices, square, matrices)
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
