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
from functools import cached_property

import numpy as np
from scipy import sparse

from lrbtl.fitting.bradley_terry import HC3_FLOOR
from lrbtl.fitting.design import CompleteDesign, Design, every_entry
from lrbtl.fitting.local import Local
from lrbtl.fitting.solvers import IsotropicSolver, Solver, SolverName
from lrbtl.lowrank.arrowhead import Arrowhead
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.methods.targets import Resolved, SparseGradient
from lrbtl.model.links import LOGISTIC, Link
from lrbtl.model.sampling import Sampling, reference_probability
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
        chosen = law.at(space, design.link).solver(solver)
    else:
        train = design.count - held_out if held_out.sum() < design.count.sum() else design.count
        chosen = design.with_count(train / train.sum()).at(space).solver(solver)
    inside = np.flatnonzero(held_out)  # gathers by position are faster than by mask
    n = float(held_out.sum())
    part = design.restricted(inside).with_count(held_out[inside] / n).at(space)
    part = _with_scores(part, method, *(None if each is None else each[inside] for each in (weights, spread)))
    known = method == "efficient" and law is None and design.variance is not None
    return FoldStep(space, n, part.gradient, part.information if known else part.meat, chosen, design.link)


def _with_scores(part: Local, method: str, weights: Floats | None, spread: Floats | None) -> Local:
    """Return a fold's cells with the scores of the method."""
    if method == "whitened":
        link, variance = part.design.link, part.design.variance
        fisher = part.terms.fisher if spread is None else link.mean_fisher(part.eta, spread, variance)
        return part.with_score((part.terms.score if weights is None else weights * part.terms.score) / fisher)
    return part if spread is None else part.spread(spread)


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
    for column, each in enumerate(terms):
        out[space.extra.stop - len(each.effects) : space.extra.stop, column] = each.effects
    return out
