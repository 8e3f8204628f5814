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
from typing import Protocol

import numpy as np
from scipy import sparse

from lrbtl.fitting.bradley_terry import HC3_FLOOR
from lrbtl.fitting.design import CompleteDesign, Design, every_entry
from lrbtl.fitting.local import accumulate
from lrbtl.fitting.newton import penalised
from lrbtl.fitting.solvers import Solver, SolverName, information_solver, robust_factor
from lrbtl.lowrank.arrowhead import Arrowhead
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.methods.standard_errors import leverages
from lrbtl.methods.targets import Gradients, Stack
from lrbtl.model.links import LOGISTIC, CellTerms, Link
from lrbtl.model.sampling import Sampling, reference_probability
from lrbtl.threads import lazy
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

    @lazy
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

    def bread(self, design: Design, space: TangentSpace, train: Floats) -> Solver:
        """Return a solver for K_k, given the multiplicities of the training folds."""

    def terms(self, part: Design, space: TangentSpace, inside: Longs, spread: Floats | None) -> CellTerms:
        """Return the terms of the cells `inside` a fold, with the method's scores for a variance `spread` of eta."""


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
    part = design.restricted(inside)
    terms = recipe.terms(part, space, inside, None if spread is None else spread[inside])
    share = held_out[inside] / n
    known = recipe.known_variances and part.variance is not None
    meat = accumulate(part, space, *(terms.information(share) if known else terms.meat(share)))
    train = design.count - held_out if n < design.count.sum() else design.count
    return FoldStep(
        space, n, part.score_sum(space, terms, share), meat, recipe.bread(design, space, train), design.link
    )


def mle_step(design: Design, point: Tucker, ridge: Floats, solver: SolverName) -> FoldStep:
    """Return the step of the penalised estimate with HC3 errors: meat n s^2 / (1 - h)^2, bread without ridge."""
    space = design.space(point)
    terms = design.terms(design.eta(space))
    h = terms.fisher * eta_variances(design, space, ridge)
    n = float(design.count.sum())
    meat = accumulate(
        design, space, *replace(terms, score=terms.score / np.maximum(1.0 - h, HC3_FLOOR)).meat(design.count / n)
    )
    weight, tie = terms.information(design.count / n)
    bread = information_solver(design, space, weight, solver, tie=tie)
    return FoldStep(space, n, np.zeros(space.size), meat, bread, design.link)


def dispersion(design: Design, space: TangentSpace) -> float:
    """Return how much responses vary, over what the model says of plain ones: below 1 with ties and soft votes."""
    return design.link.dispersion(design.eta(space), design.y, design.count)


def eta_variances(design: Design, space: TangentSpace, ridge: Floats) -> Floats:
    """Return j^T (N K + R)^-1 j of each cell, the variance of its eta given the battles; R is the penalty's Hessian."""
    terms = design.terms(design.eta(space))
    matrix = penalised(accumulate(design, space, *terms.information(design.count)), space, ridge)
    return leverages(design, space, np.ones(len(terms.fisher)), robust_factor(matrix)[0].inverse())


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

    def terms(self, space: TangentSpace, link: Link) -> CellTerms:
        """Return the terms of a response on each atom."""
        return self.atoms.with_link(link).terms(self.atoms.eta(space))

    def solver(self, space: TangentSpace, solver: SolverName, link: Link = LOGISTIC) -> Solver:
        """Return a solver for the expected information sum of p I X X^T [Li26, sec. info-operator]."""
        weight, tie = self.terms(space, link).information(self.probability)
        return information_solver(self.atoms, space, weight, solver, tie=tie)


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
    count, (d1, _), D = len(gradients.tie), space.U.shape, len(space.V)
    target, models, contexts = gradients.target, gradients.models, gradients.contexts
    by_model = sparse.csr_array((gradients.weights, (target * d1 + models, contexts)), shape=(count * d1, D))
    by_context = sparse.csr_array((gradients.weights, (target * D + contexts, models)), shape=(count * D, d1))
    gU = (by_model @ space.V).reshape(count, d1, -1)
    if space.centred:
        gU = gU - gU.mean(axis=1, keepdims=True)
    out = space.pull(gU, np.asarray(by_context @ space.U).reshape(count, D, -1))
    out[space.extra] = gradients.tie
    return out
