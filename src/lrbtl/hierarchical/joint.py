"""The posterior of level + L and E together where models are many: products over votes, nothing of size d1^2 kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lrbtl.fitting.jacobian import pull_columns, pull_sums, push_columns
from lrbtl.fitting.newton_driver import NewtonConfig, Objective, minimise_newton
from lrbtl.fitting.solvers import outer_sums
from lrbtl.hierarchical.correlated import CorrelatedDeviations, IndependentDeviations, estimate_variances
from lrbtl.hierarchical.expansion import Expansion, Hyperparameters, Scores
from lrbtl.hierarchical.mode import MANY_ENTRIES, SLACK, SMALLEST_STEP, Mode, within_reach
from lrbtl.lowrank.arrowhead import as_dense
from lrbtl.typing import Floats

MANY_STEPS, STEP_TOL = 25, 0.03  # Newton steps by conjugate gradients, and the relative error of each
TOLERANCE = 0.05  # nats, times the number of entries over MANY_ENTRIES
MOST_PRODUCTS = 500


@dataclass(frozen=True)
class RowBlocks:
    """Diagonal blocks of a precision in coordinates: of the rows of the model factor and of the eliminated mode."""

    models: Floats  # (d1, r1 + 1, r1 + 1)
    rows: Floats  # (dl, rl, rl)

    def row_blocks(self, part: slice, width: int) -> Floats:
        """Return the (width, width) matrices along the diagonal of a slice of the coordinates."""
        return self.rows if part.start else self.models


@dataclass(frozen=True)
class Joint(Expansion):
    """The posterior of a matrix of scores round some, L and E together: Q = K^T H K + P with K = [J, I].

    P is the prior of the coordinates and 1 / tau^2 of E. Shared effects are coordinates too, and H has their border. Q
    is only multiplied with, vote by vote. Conjugate gradients start from what it would be if all opponents were known,
    and scores for the effects: H becomes its diagonal, and models fall apart.

    Attributes
    ----------
    related : array (D, D) or None
        Covariance of the deviations of a model in all contexts, where they are not independent.
    """

    related: Floats | None = None

    @cached_property
    def diagonal(self) -> Floats:
        """Diagonal of H on the slots."""
        return self.scores.design.entries.unsigned(self.marginal.votes.weights)

    @cached_property
    def own(self) -> IndependentDeviations | CorrelatedDeviations:
        """The deviations of each model, with opponents known."""
        return (
            IndependentDeviations(self.tau, self.diagonal)
            if self.related is None
            else CorrelatedDeviations(self.related, self.diagonal)
        )

    @cached_property
    def rows_without_deviations(self) -> Floats:
        """Context vectors less what deviations absorb, with opponents known: (I - B h) V, (n_slots, r1)."""
        v = self.scores.space.V[self.scores.design.slot_places[0]]
        return np.asarray(v - self.own.posterior_times(self.diagonal[:, None] * v))

    @cached_property
    def information(self) -> RowBlocks:  # type: ignore[override]
        """Blocks of J^T W J with opponents known; of contexts, with W in the place of its diagonal."""
        design, space, (d1, r1) = self.scores.design, self.scores.space, self.scores.space.U.shape
        products = (self.diagonal[:, None] * self.rows_without_deviations)[:, None, :] * space.V[design.slot_places[0]][
            :, :, None
        ]
        W = design.entries.slot_matrix(self.diagonal - self.diagonal**2 * self.own.posterior_variance)
        models = design.entries.by_model(products.reshape(-1, r1 * r1)).reshape(d1, r1, r1)
        return RowBlocks(models, space.E[0].T @ outer_sums(W, space.U) @ space.E[0])

    @cached_property
    def row_inverses(self) -> RowBlocks:
        """Inverses of these blocks with the prior."""
        space, blocks = self.scores.space, self.information
        prior = self.prior_precision
        models = prior[space.slices[0]].reshape(blocks.models.shape[:2])
        rows = prior[space.slices[space.mode]].reshape(blocks.rows.shape[:2])
        return RowBlocks(_inverses(blocks.models, models), _inverses(blocks.rows, rows))

    @cached_property
    def effect_inverse(self) -> Floats:
        """Inverse information of the effects with scores known, zero where not identified, (k, k)."""
        return np.asarray(np.linalg.pinv(self.marginal.effects[1], hermitian=True))

    @cached_property
    def prior_precision(self) -> Floats:
        """Precision of the coordinates, (size,); levels have that of their sites."""
        space, out = self.scores.space, np.zeros(self.scores.space.size)
        for k, part in space.slices.items() if space.rank else ():
            rows = out[part].reshape(len(space.factors[k]), -1)
            rows[:, : space.factors[k].shape[1]] = np.diag(self._factor_terms.hessian(k))
        out[space.level_part] = self.hyper.level.site_precision
        return out

    def centred(self, x: Floats) -> Floats:
        """Return columns of coordinates without moves that shift all models."""
        out = x.copy()
        rows = out[self.scores.space.slices[0]].reshape(*self.scores.space.U.shape, -1)
        rows -= rows.mean(axis=0)
        return out

    def times(self, z: Floats) -> Floats:
        """Return Q times columns of coordinates and deviations, (size + n_slots, m)."""
        design, space = self.scores.design, self.scores.space
        x, E = z[: space.size], z[space.size :]
        changes, (c, corner) = push_columns(design.entries, space, x) + E, self.marginal.effects
        pulled = self.marginal.apply_information(changes)
        if len(corner):
            pulled += c @ x[space.extra]
        along = pull_columns(design.entries, space, pulled)
        along[space.extra] = c.T @ changes + corner @ x[space.extra]
        along = self.centred(along + self.prior_precision[:, None] * x)
        return np.concatenate([along, pulled + self.own.weighed(E) if self.tau > 0.0 else E])

    def by_rows(self, r: Floats, *, models_only: bool = False) -> Floats:
        """Return the solution for columns r with opponents known; with `models_only`, contexts and effects too."""
        design, space = self.scores.design, self.scores.space
        rx, rE = r[: space.size], r[space.size :]
        votes, m = self.diagonal[:, None], r.shape[1]
        left, x = rx - pull_columns(design.entries, space, votes * self.own.posterior_times(rE)), np.zeros_like(rx)
        models, rows = space.slices[0], space.slices[space.mode]
        inverses = self.row_inverses
        if models_only:
            x[models] = (inverses.models @ left[models].reshape(*space.U.shape, m)).reshape(-1, m)
        else:
            left = self.centred(left)
            x[models] = (inverses.models @ left[models].reshape(*space.U.shape, m)).reshape(-1, m)
            x[rows] = (inverses.rows @ left[rows].reshape(*inverses.rows.shape[:2], m)).reshape(-1, m)
            x[space.extra] = self.effect_inverse @ left[space.extra]
            x = self.centred(x)
        return np.concatenate([x, self.own.posterior_times(rE - votes * push_columns(design.entries, space, x))])

    def solve(self, rhs: Floats, tol: float) -> Floats:
        """Return Q^-1 times columns by conjugate gradients, to a relative error."""
        out, left = np.zeros_like(rhs), rhs.copy()
        size = self.scores.space.size
        left[:size] = self.centred(left[:size])
        z = self.by_rows(left)
        direction, rho = z, np.einsum("im,im->m", left, z)
        target = tol**2 * rho
        for _ in range(MOST_PRODUCTS):
            if np.all(rho <= target):
                break
            applied = self.times(direction)
            step = rho / np.maximum(np.einsum("im,im->m", direction, applied), 1e-300)
            out += step * direction
            left -= step * applied
            z = self.by_rows(left)
            rho, before = np.einsum("im,im->m", left, z), rho
            direction = z + rho / np.maximum(before, 1e-300) * direction
        return out

    def slopes(self) -> Floats:
        """Return the gradient of the log posterior in coordinates and deviations, as one column."""
        design, space, E = self.scores.design, self.scores.space, self.scores.E
        own = self.votes.gradient - self.own.weighed(E[:, None])[:, 0] if self.tau > 0.0 else np.zeros_like(E)
        along = pull_sums(design.entries, space, self.votes.gradient) - self._factor_terms.gradient
        along[space.level_part] -= self.hyper.level.site_precision * (space.level - self.hyper.level.fitted)
        along[space.extra] = self.votes.effect_gradient
        return np.concatenate([self.centred(along[:, None])[:, 0], own])[:, None]

    def prior_cost(self, scores: Scores) -> float:
        """Return the negative log prior of levels and factors; coefficients of design covariates are known."""
        away = scores.space.level - self.hyper.level.fitted
        return self.hyper.factors.cost(scores.space.point) + 0.5 * float(self.hyper.level.site_precision @ away**2)

    def cost(self, scores: Scores) -> float:
        """Return the negative log posterior at some scores."""
        deviations = 0.5 * float(scores.E @ self.own.weighed(scores.E[:, None])[:, 0])
        return scores.loss / self.dispersion + deviations + self.prior_cost(scores)

    def refined(self, parts: Sequence[Floats]) -> tuple[float, Floats | None]:
        """Return the tau of most evidence, if larger, and the covariance (D, D) of a model's deviations with parts.

        Opponents are taken as known, which makes deviations slightly too small, but all votes are used: `tau` may be an
        estimate from some models. Part of the variance is along `parts` (D, D), labels that contexts have in common.
        """
        design, space = self.scores.design, self.scores.space
        on_slots = self.diagonal, self.diagonal * self.scores.E + self.votes.gradient
        votes, scores = (as_dense(design.entries.slot_matrix(values)).T for values in on_slots)
        row, every = self.prior_precision[space.slices[0]].reshape(space.U.shape), [np.eye(len(space.V)), *parts]
        alone = float(estimate_variances(votes, scores, space.V, row, every[:1])[0])
        if not parts:
            return float(np.sqrt(max(self.tau**2, alone))), None
        variances = estimate_variances(votes, scores, space.V, row, every) * max(1.0, self.tau**2 / alone)
        return float(np.sqrt(variances[0])), np.tensordot(variances, np.stack(every), 1)


def _inverses(blocks: Floats, diagonal: Floats) -> Floats:
    """Return inverses of blocks (n, r, r) plus diagonals (n, r)."""
    return np.asarray(np.linalg.inv(blocks + diagonal[:, :, None] * np.eye(blocks.shape[1])))


@dataclass(frozen=True)
class JointCost(Objective[Scores, Floats]):
    """The negative log posterior of scores, with the priors of an expansion round the first ones."""

    first: Joint

    def value(self, point: Scores) -> float:
        """Return it at some scores."""
        return self.first.cost(point)

    def step(self, point: Scores) -> tuple[Floats, float]:
        """Return the step in coordinates and deviations by conjugate gradients, and what it promises in nats."""
        at = self.first if point is self.first.scores else replace(self.first, scores=point)
        slopes = at.slopes()
        step = at.solve(slopes, STEP_TOL)[:, 0]
        return step, 0.5 * float(slopes[:, 0] @ step)

    def moved(self, point: Scores, step: Floats, share: float) -> Scores:
        """Return the scores after a share of a step."""
        size = point.space.size
        return point.moved(share * step[:size], share * step[size:])

    def allows(self, point: Scores, trial: Scores) -> bool:
        """Return whether scores after a step stay within the reach of the votes, or move no farther out."""
        return within_reach(point, trial)


def find_joint_mode(scores: Scores, hyper: Hyperparameters, related: Floats | None = None) -> Mode:
    """Return the mode reached from some scores where models are many."""
    if hyper.tau == 0.0:
        scores = replace(scores, E=np.zeros_like(scores.E))
    least = TOLERANCE * max(1.0, scores.design.n_slots / MANY_ENTRIES)
    config = NewtonConfig(tolerance=least, max_iter=MANY_STEPS, smallest_step=SMALLEST_STEP, slack=SLACK)
    found = minimise_newton(JointCost(Joint(scores, hyper, related=related)), scores, config)
    return Mode(Joint(found.point, hyper, related=related), found.n_iter, found.converged)
