"""Scores of one board with their covariance, from a low-rank analysis or from separate Bradley-Terry fits.

A board is defined by weights (D,) over contexts: uniform or given for the overall board, one of them for a context.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
from scipy.special import expit, logit

from lrbtl.data.battles import Battles
from lrbtl.data.labels import context_name
from lrbtl.errors import SeparationError, SeparationWarning
from lrbtl.fitting.bradley_terry import score_covariances
from lrbtl.fitting.core import core_members
from lrbtl.fitting.fit import Fit
from lrbtl.fitting.separate import fit_separate
from lrbtl.fitting.solvers import needs_krylov
from lrbtl.inference.summary import Provenance
from lrbtl.methods.cross_fit import LARGEST_SCORE, CrossFit, Moments, believed_covariance, cross_fit
from lrbtl.methods.naive import naive_variances
from lrbtl.methods.targets import Resolved, SparseGradient, View, weighted_win
from lrbtl.model.links import LOGISTIC
from lrbtl.typing import Floats, Longs, Progress, Seed

TOGETHER = 256  # boards whose covariances are computed at a time
SPARSE = 50  # battles per component of a model's row below which a score without limit is a matter of its own


@dataclass(frozen=True)
class BoardScores:
    """Scores of the models that have one, zero-sum, with their covariance.

    Attributes
    ----------
    inside : array (k,)
        Positions of these models among all; the battles give the others a one-sided limit at most.
    values : array (k,)
    cov : array (k, k)
    logits, logit_cov : arrays (k,), (k, k) or None
        The same for the logit of the win rate against the other inside models, where asked for.
    by_context : array (k, D)
        Scores in each context, zero-sum over the inside models.
    variance_noise : array (k,)
        Variance of the log of the variances.
    gain : float or None
        Median ratio of the errors of separate fits to these.
    """

    inside: Longs
    values: Floats
    cov: Floats
    logits: Floats | None
    logit_cov: Floats | None
    by_context: Floats
    variance_noise: Floats
    gain: float | None = None


class Engine(Protocol):
    """What turns weights over contexts into scores."""

    info: Provenance

    def scores(self, weights: Floats, win_rates: bool) -> BoardScores:
        """Return the scores of a board."""


class LowRankEngine:
    """One cross-fitted low-rank analysis that serves every board.

    It holds the core: models that can all be reached from each other by wins and have enough battles for the rank.
    The others would have infinite or undetermined scores, and would take the core's mean along. Scores of other links
    than the logistic are scaled to the log odds of a nearly even battle.
    """

    def __init__(
        self,
        inside: Longs,
        full_fit: Fit,
        *,
        method: str,
        n_folds: int,
        rng: Seed,
        progress: Progress | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.inside = inside
        self._known: dict[tuple[bytes, bool], BoardScores] = {}
        self._moments: dict[bytes, Moments] = {}
        self.unit = float(full_fit.link.log_odds(np.zeros(1))[1][0])
        self.steps: CrossFit = cross_fit(full_fit, method=method, n_folds=n_folds, rng=rng, progress=progress)
        self.info = Provenance(
            method=method,
            rank=full_fit.rank,
            n_battles=full_fit.battles.n_battles,
            n_folds=None if method == "mle" else n_folds,
            ridge=tuple(float(x) for x in full_fit.ridge),
            link=None if full_fit.link == LOGISTIC else str(full_fit.link),
            notes=notes,
        )

    @cached_property
    def by_context(self) -> Floats:
        """One-step scores (k, D): the fitted ones are biased towards zero by the ridge."""
        return self.unit * self.steps.one_step_scores()

    def scores(self, weights: Floats, win_rates: bool) -> BoardScores:
        """Return the scores of a board, computed when first asked for."""
        key = (weights.tobytes(), win_rates)
        if key not in self._known:
            self.prepare(weights[None, :])
            self._known[key] = self._compute(weights, win_rates)
        return self._known[key]

    def prepare(self, boards: Floats) -> None:
        """Compute the moments of boards with these weights (B, D) together: one inverse per fold serves them all."""
        boards = np.array([weights for weights in boards if weights.tobytes() not in self._moments])
        space = self.steps.steps[0].space
        together = len(boards) >= space.U.shape[1] and self.steps.determined and not needs_krylov(space, "auto")
        found: list[Moments] = []
        for first in range(0, len(boards), TOGETHER):
            part = boards[first : first + TOGETHER]
            if together:
                found += self.steps.mean_moments(part)
            else:
                found += [
                    self.steps.moments(linear_targets(self.steps.fit.battles.models, weights)) for weights in part
                ]
        self._moments.update({weights.tobytes(): each for weights, each in zip(boards, found, strict=True)})

    def _compute(self, weights: Floats, win_rates: bool) -> BoardScores:
        found = self._moments[weights.tobytes()]
        rates = self.steps.moments(win_rate_targets(len(self.inside), weights)) if win_rates else None
        return BoardScores(
            self.inside,
            self.unit * found.values,
            self.unit**2 * found.reported_cov(),
            None if rates is None else rates.values,
            None if rates is None else rates.reported_cov(),
            self.by_context,
            found.variance_noise,
            self._gain(weights, found.bound) if self.steps.method == "efficient" else None,
        )

    def _gain(self, weights: Floats, model_se: Floats) -> float:
        used = np.flatnonzero(weights)
        return float(np.median(np.sqrt(weights[used] ** 2 @ self._naive_variances[used]) / model_se))

    @cached_property
    def _naive_variances(self) -> Floats:
        return naive_variances(self.steps.fit)

    def runaways(self, weights: Floats) -> Longs:
        """Return the models, few and sparse, whose scores run to infinity; raise where others do.

        Also raises where battles leave a score of a board undetermined.
        """
        battles = self.steps.fit.battles
        self.steps.check(linear_targets(battles.models, weights))
        scores = self.steps.one_step_scores()
        scores = np.abs(scores - np.median(scores, axis=0))  # one that runs away takes the mean along
        lost = np.flatnonzero(~(scores.max(axis=1) < LARGEST_SCORE))
        sparse = battles.model_counts < SPARSE * self.steps.fit.rank[0]
        if not sparse[lost].all() or len(self.inside) - lost.size < 2:
            worst, context = np.unravel_index(int(np.argmax(scores)), scores.shape)
            where = f"{battles.models[int(worst)]} in {context_name(battles.context_label(int(context)))}"
            raise SeparationError(
                f"the score of {where} runs to infinity at rank {self.steps.fit.rank}: too few battles for it. "
                "Use a smaller rank, or rank='auto'."
            )
        return self.inside[lost]


class SeparateEngine:
    """One Bradley-Terry fit per context; with a single context, the plain Bradley-Terry board."""

    def __init__(self, battles: Battles, method: str, *notes: str) -> None:
        self.battles = battles
        self.info = Provenance(method=method, n_battles=battles.n_battles, notes=notes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeparationWarning)  # each board tells of its own models
            self.fit = fit_separate(battles)

    def scores(self, weights: Floats, win_rates: bool) -> BoardScores:
        """Return the scores of a board: those of the models that every context with a weight ranks."""
        d1 = self.battles.shape[0]
        used = np.flatnonzero(weights)
        labels = self.fit.components.reshape(d1, -1)
        cores = [core_members(labels[:, u], self._battles_in(int(u))) for u in used]
        inside = np.flatnonzero(np.bincount(np.concatenate(cores), minlength=d1) == len(used))
        by_context = np.zeros((inside.size, weights.size))
        cov = np.zeros((inside.size, inside.size))
        centring = np.eye(inside.size) - 1.0 / max(inside.size, 1)
        rates, rate_cov = np.zeros(inside.size), np.zeros_like(cov)
        for u, core in zip(used, cores, strict=True):
            theta = self.fit.within_scores[u][inside]
            by_context[:, u] = theta - theta.mean() if inside.size else theta
            place = np.searchsorted(core, inside)
            block = self._covariance(int(u), core)[np.ix_(place, place)]
            cov += weights[u] ** 2 * centring @ block @ centring
            if win_rates:
                rate, slope = win_rate_slopes(by_context[:, u])
                rates += weights[u] * rate
                rate_cov += weights[u] ** 2 * slope @ block @ slope.T
        values = by_context @ weights
        if not win_rates:
            return BoardScores(inside, values, cov, None, None, by_context, np.zeros(inside.size))
        steepness = 1.0 / (rates * (1.0 - rates))
        rate_cov = rate_cov * np.outer(steepness, steepness)
        return BoardScores(inside, values, cov, logit(rates), rate_cov, by_context, np.zeros(inside.size))

    def _battles_in(self, u: int) -> Longs:
        cells = self.battles.cells
        part = slice(cells.start[u], cells.start[u + 1])
        d1 = self.battles.shape[0]
        both = np.bincount(cells.a[part], cells.count[part], d1) + np.bincount(cells.b[part], cells.count[part], d1)
        return both.astype(np.int64)

    def _covariance(self, u: int, core: Longs) -> Floats:
        """Return the covariance of the zero-sum scores of one context's core."""
        cells = self.battles.cells
        part = slice(cells.start[u], cells.start[u + 1])
        place = np.full(self.battles.shape[0], -1)
        place[core] = np.arange(core.size)
        a, b = place[cells.a[part]], place[cells.b[part]]
        kept = (a >= 0) & (b >= 0)
        theta = self.fit.within_scores[u][core]
        return plain_covariance(a[kept], b[kept], cells.y[part][kept], cells.count[part][kept], theta)


def plain_covariance(a: Longs, b: Longs, y: Floats, count: Longs, theta: Floats) -> Floats:
    """Return the HC3 covariance of Bradley-Terry scores, as far as it is believed."""
    model, robust = score_covariances(a, b, y, count, theta)
    return believed_covariance(robust, np.sqrt(np.maximum(np.diag(model), 0.0)))


def linear_targets(models: Sequence[object], weights: Floats) -> list[Resolved]:
    """Return the weighted mean over contexts of each model's score."""
    contexts = np.flatnonzero(weights)
    values = weights[contexts]
    return [
        Resolved(f"the score of {model}", "identity", SparseGradient(np.full(contexts.size, i), contexts, values))
        for i, model in enumerate(models)
    ]


def win_rate_targets(d1: int, weights: Floats) -> list[Resolved]:
    """Return the logit of each model's win rate against the others, averaged over contexts with weights."""
    contexts = np.flatnonzero(weights)
    return [
        Resolved(f"win rate {i}", "logit", evaluate=_win_rate(i, d1, contexts, weights[contexts])) for i in range(d1)
    ]


def _win_rate(i: int, d1: int, contexts: Longs, weights: Floats) -> Callable[[View], tuple[float, SparseGradient]]:
    others = np.delete(np.arange(d1), i)
    rivals, where = np.repeat(others, contexts.size), np.tile(contexts, others.size)
    share = np.tile(weights, others.size) / others.size
    return partial(weighted_win, np.full(rivals.size, i), rivals, where, share)


def win_rate_slopes(theta: Floats) -> tuple[Floats, Floats]:
    """Return the win rates (k,) of one context against the others, and their derivatives by its scores (k, k)."""
    if theta.size < 2:
        return np.full(theta.size, 0.5), np.zeros((theta.size, theta.size))
    p, others = expit(theta[:, None] - theta[None, :]), theta.size - 1
    slope = p * (1.0 - p) / others
    np.fill_diagonal(slope, 0.0)
    return (p.sum(axis=1) - 0.5) / others, np.diag(slope.sum(axis=1)) - slope
