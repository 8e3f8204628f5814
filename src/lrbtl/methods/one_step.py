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
from lrbtl.fitting.local import Local
from lrbtl.fitting.solvers import Solver, SolverName
from lrbtl.lowrank.arrowhead import Arrowhead
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.methods.targets import Gradients, Stack
from lrbtl.model.links import LOGISTIC, Link
from lrbtl.model.sampling import Sampling, reference_probability
from lrbtl.typing import Floats, Longs


@dataclass(frozen=True)
class FoldStep:
    """What one fold contributes to any target.

    Attributes
    ----------
    space : TangentSpace
        At the fit to the other folds.
    n : float
        Battles of the fold.
    gradient : array (size,)
        g_k, the mean score of the fold; zero for `mle`.
    meat : Arrowhead
        B_k, the mean squared score of the fold.
    solver : Solver
        Solves with K_k.
    link : Link
        With its parameters from the other folds.
    """

    space: TangentSpace
    n: float
    gradient: Floats
    meat: Arrowhead
    solver: Solver
    link: Link = LOGISTIC

    @cached_property
    def delta(self) -> Floats:
        """K_k^-1 g_k: T_k + J delta is the one-step estimate of every linear target."""
        return self.solver.solve(self.gradient)


@dataclass(frozen=True)
class ScoreView:
    """Scores at a fold's fit."""

    space: TangentSpace
    shape: tuple[int, ...]
    link: Link = LOGISTIC

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
    n = float(held_out.sum())
    part = design.restricted(inside).with_count(held_out[inside] / n).at(space)
    part = recipe.scored(part, inside, None if spread is None else spread[inside])
    known = recipe.known_variances and design.variance is not None
    train = design.count - held_out if n < design.count.sum() else design.count
    bread = recipe.bread(design.with_count(train / train.sum()).at(space))
    return FoldStep(space, n, part.gradient, part.information if known else part.meat, bread, design.link)


def mle_step(design: Design, point: Tucker, ridge: Floats, solver: SolverName) -> FoldStep:
    """Return the step of the penalised estimate with HC3 errors: meat n s^2 / (1 - h)^2, bread without ridge."""
    here = design.at(point)
    n = float(design.count.sum())
    mean = here.with_count(design.count / n)
    meat = mean.with_score(here.terms.score / np.maximum(1.0 - here.leverages(ridge), HC3_FLOOR)).meat
    return FoldStep(here.space, n, np.zeros(here.space.size), meat, mean.solver(solver), design.link)


@dataclass(frozen=True)
class Law:
    """A sampling law on all atoms of a shape, for information in expectation.

    Attributes
    ----------
    atoms : Design
        Every pair in every context once, or every entry.
    probability : array
        Of each atom.
    """

    atoms: Design
    probability: Floats

    @classmethod
    def of(
        cls,
        sampling: Sampling,
        shape: tuple[int, ...],
        n_threads: int = 1,
        *,
        entries: bool = False,
        variance: Floats | None = None,
    ) -> "Law":
        """Return the law that a sampling gives to the pairs or entries of a shape; `variance` is that of each entry."""
        atoms = every_entry(shape, n_threads) if entries else CompleteDesign.of_shape(shape, n_threads)
        return cls(replace(atoms, variance=variance), sampling.weights(atoms, shape))

    def at(self, space: TangentSpace, link: Link = LOGISTIC) -> Local:
        """Return the atoms, with their probabilities, at a point: sums are expectations [Li26, sec. info-operator]."""
        return self.atoms.with_link(link).with_count(self.probability).at(space)


def inverse_weights(law: Sampling, design: Design) -> Floats:
    """Return w = q / p of each cell, q the uniform probability of an atom [Li26, sec. unknown-sampling, corrected]."""
    return reference_probability(design.shape, entries=not design.centred) / law.probability(design, design.shape)


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
