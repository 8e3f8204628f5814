"""The cross-fitted one-step estimator: one factorisation per fold serves every target [Li26, Algorithms 1 and 2].

At the fit T_k from the other folds, with J the Jacobian of the tangent coordinates,

    K_k = sum_train n I j j^T / (N - n_k),   g_k = sum_fold n s j / n_k,   B_k = sum_fold n s^2 j j^T / n_k,
    delta_k = K_k^-1 g_k,   Gam_k = J^T Q1 grad psi(T_k),   Theta_k = K_k^-1 Gam_k,
    psi = sum_k n_k / N [psi(T_k) + Gam_k . delta_k],   Cov = sum_k n_k / N^2 Theta_k^T B_k Theta_k.

The efficient score is y - E[mean(eta)] for eta normal round its fit with the variance that the fit leaves (times the
dispersion of the votes, below one with ties and soft votes): plain
y - mean(eta_k) has a second-order bias, towards zero scores, that costs coverage of large scores. It is the same
to first order.
The whitened estimator has J^T Q1 J / d_eff for K and w s / I for s, with w = q / p under non-uniform sampling; its I is
the mean information under the same spread of eta, because 1 / I at a noisy eta has heavy tails.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import sparse

from lrbtl.fitting.bradley_terry import HC3_FLOOR
from lrbtl.fitting.design import CompleteDesign, Design, every_entry
from lrbtl.fitting.jacobian import slot_changes
from lrbtl.fitting.local import Local
from lrbtl.fitting.solvers import TOUCH, Solver, SolverName, touched
from lrbtl.lowrank.arrowhead import Arrowhead
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.methods.targets import Gradients, Stack
from lrbtl.model.links import LOGISTIC, Link
from lrbtl.model.sampling import Sampling, reference_probability
from lrbtl.typing import Bools, Floats, Longs


@dataclass(frozen=True)
class FoldStep:
    """What one fold contributes to any target."""

    space: TangentSpace  # at the fit to the other folds
    n: float  # battles of the fold
    gradient: Floats  # (size,) g_k, the mean score of the fold; zero for `mle`
    meat: Arrowhead  # B_k, the mean squared score of the fold
    solver: Solver  # solves with K_k
    link: Link = LOGISTIC  # with its parameters from the other folds
    effect_values: Floats | None = None  # of linear effects, from the other folds
    inside: Longs | None = None  # (n_inside,) cells of the fold
    votes: Local | None = None  # their scores, with multiplicities that sum to one

    def changes(self, directions: Floats) -> Floats:
        """Return what directions (size, M) do to the scores at the slots of the fold's votes, (n_slots, M)."""
        assert self.votes is not None
        design, space = self.votes.design, self.space
        pushed = (space.push(np.ascontiguousarray(direction)) for direction in directions.T)
        return np.stack([slot_changes(design.entries, space, *change) for change in pushed], axis=1)

    def influence_rows(self, changes: Floats, effects: Floats, cells: Longs) -> Floats:
        """Return score times direction of one vote in some of the fold's cells, (n, M).

        Directions are given by their `changes` and their parts in the effects, (k, M).
        """
        assert self.votes is not None
        slot_a, slot_b = (side[cells] for side in self.votes.design.entries.slots)
        terms = self.votes.terms
        return terms.score[cells, None] * (changes[slot_a] - changes[slot_b]) + terms.effects.along(effects, cells)

    @cached_property
    def delta(self) -> Floats:
        """K_k^-1 g_k: T_k + J delta is the one-step estimate of every linear target."""
        return self.solver.solve(self.gradient)


@dataclass(frozen=True)
class ScoreView:
    """Scores at a fold's fit, with the link and the linear effects there, which are zero where not given."""

    space: TangentSpace
    shape: tuple[int, ...]
    link: Link = LOGISTIC
    values: Floats | None = None

    @property
    def effect_values(self) -> Floats:
        """Values of linear effects."""
        extra = self.space.extra
        return np.zeros(extra.stop - extra.start - self.link.n_extra) if self.values is None else self.values

    def entries(self, models: Longs, contexts: Longs) -> Floats:
        """Return scores[models, contexts]."""
        return np.asarray(np.einsum("ik,ik->i", self.space.U[models], self.space.V[contexts]))

    def dense(self) -> Floats:
        """Return all scores."""
        return (self.space.U @ self.space.V.T).reshape(self.shape)


class Recipe(Protocol):
    """What a method puts into the step of a fold: its matrix K_k, its scores, and what B_k is made of."""

    @property
    def known_variances(self) -> bool:
        """Whether known variances stand for squared residuals in B_k: the error of the fit cancels with that in K_k."""

    def bread(self, train: Local) -> Solver:
        """Return a solver for K_k; `train` are the training folds at the fit, with shares that sum to one."""

    def scored(self, part: Local, inside: Longs, spread: Floats | None) -> Local:
        """Return the cells `inside` a fold with the method's scores, for a variance `spread` of eta."""


def fold_step(
    design: Design, point: Tucker, held_out: Floats, recipe: Recipe, spread: Floats | None = None
) -> FoldStep:
    """Return the step of a fold, given its multiplicities; `design` counts all battles.

    `spread` is the variance of eta in each cell that the scores allow for, none by default. Where the fold holds all
    battles the information is theirs too: the step of the full sample.
    """
    space = design.space(point)
    inside = np.flatnonzero(held_out)  # gathers by position are faster than by mask
    n = design.with_count(held_out).total
    part = Local(design.restricted(inside).with_count(held_out[inside] / n), space)
    part = recipe.scored(part, inside, None if spread is None else spread[inside])
    known = recipe.known_variances and design.variance is not None
    train = design.with_count(design.count - held_out if n < design.total else design.count)
    bread = recipe.bread(Local(train.with_count(train.count / train.total), space))
    return FoldStep(
        space, n, part.gradient, part.information if known else part.meat, bread, *_shared(design), inside, part
    )


def _shared(design: Design) -> tuple[Link, Floats | None]:
    """Return the link and the values of linear effects."""
    return design.link, None if design.effects is None else design.effects.values


def mle_step(design: Design, point: Tucker, ridge: Floats, solver: SolverName) -> FoldStep:
    """Return the step of the penalised estimate with HC3 errors: meat n s^2 / (1 - h)^2, bread without ridge."""
    here = Local.of(design, point)
    n = design.total
    mean = here.with_count(design.count / n)
    votes = mean.with_score(here.law.score / np.maximum(1.0 - here.leverages(ridge), HC3_FLOOR))
    none, every = np.zeros(here.space.size), np.arange(len(design.a))
    return FoldStep(here.space, n, none, votes.meat, mean.solver(solver), *_shared(design), every, votes)


@dataclass(frozen=True)
class Law:
    """A sampling law on all atoms of a shape, for information in expectation."""

    atoms: Design  # every pair in every context once, or every entry
    probability: Floats  # of each atom

    @classmethod
    def of(
        cls, sampling: Sampling, shape: tuple[int, ...], *, entries: bool = False, variance: Floats | None = None
    ) -> "Law":
        """Return the law that a sampling gives to the pairs or entries of a shape; `variance` is that of each entry."""
        atoms = every_entry(shape) if entries else CompleteDesign.of_shape(shape)
        return cls(replace(atoms, variance=variance), sampling.weights(atoms.entries, shape))

    def at(self, space: TangentSpace, link: Link = LOGISTIC) -> Local:
        """Return the atoms, with their probabilities, at a point: sums are expectations [Li26, sec. info-operator]."""
        return Local(self.atoms.with_link(link).with_count(self.probability), space)


def inverse_weights(law: Sampling, design: Design) -> Floats:
    """Return w = q / p of each cell, q the uniform probability of an atom [Li26, sec. unknown-sampling, corrected]."""
    uniform = reference_probability(design.shape, entries=not design.centred)
    return uniform / law.probability(design.entries, design.shape)


def evaluate_targets(
    space: TangentSpace, targets: Stack, shape: tuple[int, ...], link: Link = LOGISTIC
) -> tuple[Floats, Floats]:
    """Return psi(T_k) of each target (M,) and its gradient in coordinates (size, M)."""
    values, gradients = targets.at(ScoreView(space, shape, link))
    return values, pull_gradients(space, gradients)


def pull_gradients(space: TangentSpace, gradients: Gradients) -> Floats:
    """Return J^T Q1 of gradients, (size, M)."""
    count, (d1, _), D = gradients.size, space.U.shape, len(space.V)
    target, models, contexts = gradients.target, gradients.models, gradients.contexts
    by_model = sparse.csr_array((gradients.weights, (target * d1 + models, contexts)), shape=(count * d1, D))
    by_context = sparse.csr_array((gradients.weights, (target * D + contexts, models)), shape=(count * D, d1))
    gU = (by_model @ space.V).reshape(count, d1, -1)
    if space.centred:
        gU = gU - gU.mean(axis=1, keepdims=True)
    out = space.pull(gU, np.asarray(by_context @ space.U).reshape(count, D, -1))
    out[space.extra.stop - len(gradients.effects) : space.extra.stop] = gradients.effects
    return out


# ------------------------------------------------------------------------------
# Gradients of targets in tangent coordinates, and their moments by a step: few of them jointly, very many one by one.
#
# A target such as a win probability touches a few models, and any context: of very many targets only the coordinates of
# these models and of the contexts are kept. The centring of scores, which touches all models, is applied to matrices
# instead.
# ------------------------------------------------------------------------------


@dataclass(frozen=True)
class FewGradients:
    """Gradients as columns (size, M): covariances are joint."""

    columns: Floats

    def dot(self, columns: Floats) -> Floats:
        """Return the products with columns (size, ...)."""
        return np.asarray(self.columns.T @ columns)

    def variances(self, solver: Solver) -> Floats:
        """Return the quadratic form of each gradient in the inverse of the solver's matrix, (M,)."""
        return np.asarray(np.einsum("im,im->m", self.columns, solver.solve(self.columns)))

    def sandwich(self, step: FoldStep) -> tuple[Floats, Floats]:
        """Return the covariance (M, M) of the targets and model-based variances, per battle."""
        directions = step.solver.solve(self.columns)
        covariance = directions.T @ (step.meat @ directions)
        return 0.5 * (covariance + covariance.T), np.einsum("im,im->m", self.columns, directions)

    def touched(self, solver: Solver) -> Bools:
        """Return which gradients touch directions without information."""
        return touched(solver, self.columns)


@dataclass(frozen=True)
class ManyGradients:
    """Gradients of M targets before centring: variances only, from inverses of the whole information."""

    space: TangentSpace
    models: sparse.csr_array  # (M, d1 r1) in the coordinates of the model factor
    rest: Floats  # (M, size - d1 r1) in the other coordinates

    def dot(self, columns: Floats) -> Floats:
        """Return the products with columns (size, ...)."""
        x = self._centred(columns)
        split = self.models.shape[1]
        return np.asarray(self.models @ x[:split] + self.rest @ x[split:])

    def squares(self, matrix: Floats) -> Floats:
        """Return the quadratic form of each gradient in a symmetric matrix (size, size), (M,)."""
        C, split = self._centred(self._centred(matrix).T), self.models.shape[1]
        product = self.models @ C[:split]
        out = np.asarray(self.models.multiply(product[:, :split]).sum(axis=1)).reshape(-1)
        out += 2 * np.einsum("mi,mi->m", product[:, split:], self.rest)
        return np.asarray(out + np.einsum("mi,mi->m", self.rest @ C[split:, split:], self.rest))

    def variances(self, solver: Solver) -> Floats:
        """Return the quadratic form of each gradient in the inverse of the solver's matrix, (M,)."""
        return self.squares(solver.solve(np.eye(self.space.size)))

    def sandwich(self, step: FoldStep) -> tuple[Floats, Floats]:
        """Return the variances (M,) of the targets and model-based ones, per battle."""
        inverse = step.solver.solve(np.eye(self.space.size))
        return self.squares(inverse.T @ (step.meat @ inverse)), self.squares(inverse)

    def touched(self, solver: Solver) -> Bools:
        """Return which gradients touch directions without information."""
        if solver.null is None:
            return np.zeros(self.models.shape[0], dtype=np.bool_)
        size = np.sqrt(self.squares(np.eye(self.space.size)))
        null = solver.null / np.linalg.norm(solver.null, axis=0)
        return np.asarray(np.abs(self.dot(null)).max(axis=1) > TOUCH * size)

    def _centred(self, columns: Floats) -> Floats:
        """Return columns (size, ...) with the mean over models taken out of the model factor's coordinates."""
        if not self.space.centred:
            return columns
        out, (d1, r1) = columns.copy(), self.space.U.shape
        part = out[: d1 * r1].reshape(d1, r1, -1)
        part -= part.mean(axis=0)
        return out


Coordinates = FewGradients | ManyGradients


def evaluated(view: ScoreView, targets: Stack, *, joint: bool) -> tuple[Floats, Coordinates]:
    """Return the values of targets at a point (M,) and their gradients in its coordinates."""
    values, gradients = targets.at(view)
    return values, FewGradients(pull_gradients(view.space, gradients)) if joint else _pulled(view.space, gradients)


def _pulled(space: TangentSpace, gradients: Gradients) -> ManyGradients:
    (d1, r1), D, M = space.U.shape, len(space.V), gradients.size
    keys, row = np.unique(gradients.target * d1 + gradients.models, return_inverse=True)
    by_key = sparse.csr_array((gradients.weights, (row, gradients.contexts)), shape=(len(keys), D))
    columns = (keys % d1)[:, None] * r1 + np.arange(r1)
    models = sparse.csr_array(
        (np.asarray(by_key @ space.V).reshape(-1), (np.repeat(keys // d1, r1), columns.reshape(-1))), shape=(M, d1 * r1)
    )
    places = gradients.target * D + gradients.contexts, gradients.models
    by_context = sparse.csr_array((gradients.weights, places), shape=(M * D, d1))
    pulled = space.pull(np.zeros((M, d1, r1)), np.asarray(by_context @ space.U).reshape(M, D, -1))
    pulled[space.extra.stop - len(gradients.effects) : space.extra.stop] = gradients.effects
    return ManyGradients(space, models, np.ascontiguousarray(pulled[d1 * r1 :].T))
