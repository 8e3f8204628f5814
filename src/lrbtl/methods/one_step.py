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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from lrbtl.fitting.bradley_terry import HC3_FLOOR
from lrbtl.fitting.design import CompleteDesign, Design, every_entry
from lrbtl.fitting.local import accumulate
from lrbtl.fitting.newton import penalised
from lrbtl.fitting.solvers import IsotropicSolver, Solver, SolverName, information_solver, robust_factor
from lrbtl.lowrank.arrowhead import Arrowhead
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.methods.standard_errors import leverages
from lrbtl.methods.targets import Resolved, SparseGradient
from lrbtl.model.links import LOGISTIC, CellTerms, Link
from lrbtl.model.sampling import Sampling, reference_probability
from lrbtl.threads import lazy
from lrbtl.typing import Floats, Longs

PULL_BUDGET = 2**24  # numbers that the gradients of one batch of targets may fill


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


def fold_step(
    design: Design,
    point: Tucker,
    held_out: Floats,
    *,
    method: str,
    weights: Floats | None = None,
    law: "Law | None" = None,
    spread: Floats | None = None,
    solver: SolverName = "auto",
) -> FoldStep:
    """Return the step of a fold, given its multiplicities; `design` counts all battles.

    `spread` is the variance of eta in each cell that the scores allow for, none by default. `weights`
    multiply whitened scores. `law` replaces the empirical information of the efficient method by its expectation.
    Where the fold holds all battles the information is theirs too: the step of the full sample. Known variances stand
    for squared residuals in B_k where the information is empirical: the error of the fit, which enters the squares,
    cancels with it.
    """
    space = design.space(point)
    chosen: Solver
    if method == "whitened":
        chosen = IsotropicSolver(space, design.d_eff)
    elif law is not None:
        chosen = law.solver(space, solver, design.link)
    else:
        train = design.count - held_out if held_out.sum() < design.count.sum() else design.count
        weight, tie = design.terms(design.eta(space)).information(train / train.sum())
        chosen = information_solver(design, space, weight, solver, tie=tie)
    inside = np.flatnonzero(held_out)  # gathers by position are faster than by mask
    n = float(held_out.sum())
    part = design.restricted(inside)
    terms = _fold_terms(part, space, method, *(None if each is None else each[inside] for each in (weights, spread)))
    share = held_out[inside] / n
    known = method == "efficient" and law is None and part.variance is not None
    meat = accumulate(part, space, *(terms.information(share) if known else terms.meat(share)))
    return FoldStep(space, n, part.score_sum(space, terms, share), meat, chosen, design.link)


def _fold_terms(
    part: Design, space: TangentSpace, method: str, weights: Floats | None, spread: Floats | None
) -> CellTerms:
    """Return the terms of a fold's cells, with the scores of the method."""
    eta = part.eta(space)
    terms = part.terms(eta)
    if method == "whitened":
        fisher = terms.fisher if spread is None else part.link.mean_fisher(eta, spread, part.variance)
        return replace(terms, score=(terms.score if weights is None else weights * terms.score) / fisher)
    return terms if spread is None else part.link.spread(terms, eta, part.y, spread)


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
    space: TangentSpace, targets: Sequence[Resolved], shape: tuple[int, ...], link: Link = LOGISTIC
) -> tuple[Floats, Floats]:
    """Return psi(T_k) of each target (M,) and its gradient in coordinates (size, M)."""
    view = ScoreView(space, shape, link)
    values, gradients = np.empty(len(targets)), np.empty((space.size, len(targets)))
    sparse_terms: list[tuple[int, SparseGradient]] = []
    for i, target in enumerate(targets):
        values[i], gradient = target.at(view)
        if isinstance(gradient, SparseGradient):
            sparse_terms.append((i, gradient))
        else:
            gradients[:, i] = space.pull_dense(gradient.reshape(shape[0], -1))
    batch = max(1, PULL_BUDGET // space.V.size)
    for first in range(0, len(sparse_terms), batch):
        part = sparse_terms[first : first + batch]
        gradients[:, [i for i, _ in part]] = pull_terms(space, [terms for _, terms in part])
    return values, gradients


def pull_terms(space: TangentSpace, terms: Sequence[SparseGradient]) -> Floats:
    """Return J^T Q1 of sparse gradients, (size, M)."""
    count, (d1, _), D = len(terms), space.U.shape, len(space.V)
    target = np.repeat(np.arange(count), [len(t.weights) for t in terms])
    models = np.concatenate([t.models for t in terms])
    contexts = np.concatenate([t.contexts for t in terms])
    weights = np.concatenate([t.weights for t in terms])
    by_model = sparse.csr_array((weights, (target * d1 + models, contexts)), shape=(count * d1, D))
    by_context = sparse.csr_array((weights, (target * D + contexts, models)), shape=(count * D, d1))
    gU = (by_model @ space.V).reshape(count, d1, -1)
    if space.centred:
        gU = gU - gU.mean(axis=1, keepdims=True)
    out = space.pull(gU, (by_context @ space.U).reshape(count, D, -1))
    out[space.extra] = [t.tie for t in terms]
    return out
