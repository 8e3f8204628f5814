"""Scores that walk along time: a Gaussian random walk per model, its mode, evidence and covariances.

A model's walk begins in the period of its first vote with variance spread^2; its steps have variance step^2, and those
of the models present sum to zero, as votes do not identify a common shift. Models are numbered by their first
period, so the state of a period is the first n_t of them. The precision of all states is block tridiagonal: everything
here is one pass forward and one back over the periods, with matrices n_t x n_t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize_scalar

from lrbtl.errors import SingularInformationError
from lrbtl.fitting.bradley_terry import laplacian, sum_by
from lrbtl.fitting.newton_driver import NewtonConfig, Objective, minimise_newton
from lrbtl.model.links import LOGISTIC, CellTerms
from lrbtl.typing import Floats, Longs

STIFF = 1e4  # how much less the models' mean may move than one of them
NEWTON = NewtonConfig(tolerance=1e-8, max_iter=50, smallest_step=2.0**-30, armijo=1e-4, last_step=False)
SPREADS = (0.05, 5.0)  # log odds between which the spread of models is sought
TOLERANCE = 0.05  # of the log of the spread
STEPS = (0.004, 0.01, 0.02, 0.035, 0.06, 0.1, 0.17, 0.3, 0.6)  # parts of that spread at which steps are tried
NEGLIGIBLE = 8.0  # nats below the best beyond which a step need not be looked at


@dataclass(frozen=True)
class TimedVotes:
    """Votes by period, between models that are numbered by their first period.

    Attributes
    ----------
    period, a, b : int arrays (n,)
    y, count : arrays (n,)
        Outcome for a, and its multiplicity (or weight).
    slopes : array (n, k)
        Covariates of the votes, whose slopes all periods share.
    present : int array (T,)
        Number of models seen up to each period.
    """

    period: Longs
    a: Longs
    b: Longs
    y: Floats
    count: Floats
    slopes: Floats
    present: Longs

    def together(self) -> TimedVotes:
        """Return the votes as those of one period."""
        everyone = np.array([int(self.present[-1])])
        return TimedVotes(np.zeros_like(self.period), self.a, self.b, self.y, self.count, self.slopes, everyone)


@dataclass(frozen=True)
class Prior:
    """Standard deviations of a first score and of a step, and the dispersion of votes."""

    spread: float
    step: float
    dispersion: float = 1.0

    def steps(self, x: Floats) -> Floats:
        """Return the precision of a step of n models times x (n, ...): (I + STIFF / n 1 1^T) x / step^2."""
        return np.asarray((x + STIFF * x.mean(axis=0)) / self.step**2)


@dataclass(frozen=True)
class Chain:
    """A block tridiagonal precision, eliminated forward: `inverses` are those of the Schur complements."""

    prior: Prior
    inverses: list[Floats]
    log_det: float

    @classmethod
    def of(cls, information: Iterator[Floats], present: Longs, prior: Prior) -> Chain:
        """Return the precision of the walk plus the information of the votes of each period."""
        inverses: list[Floats] = []
        log_det, last, before = 0.0, len(present) - 1, 0
        for t, (n, matrix) in enumerate(zip(present.tolist(), information, strict=True)):
            diagonal = np.einsum("ii->i", matrix)
            diagonal[before:] += prior.spread**-2
            if before:
                coupled = prior.steps(np.eye(before))
                matrix[:before, :before] += coupled - prior.steps(prior.steps(inverses[-1]).T)
            if t < last:
                matrix += prior.steps(np.eye(n))
            root, failed = lapack.dpotrf(matrix, lower=1)
            if failed:
                raise SingularInformationError("the walk along time has no unique mode; use fewer, longer periods.")
            log_det += 2.0 * float(np.log(np.diag(root)).sum())
            lower = lapack.dpotri(root, lower=1)[0]
            inverses.append(np.tril(lower) + np.tril(lower, -1).T)
            before = n
        return cls(prior, inverses, log_det)

    def solve(self, right: Floats) -> Floats:
        """Return the solution for right-hand sides (T, d1) or (T, d1, k), zero where a model is not yet present."""
        out = right.copy()
        for t, inverse in enumerate(self.inverses[:-1]):
            n = len(inverse)
            out[t + 1, :n] += self.prior.steps(inverse @ out[t, :n])
        for t in range(len(self.inverses) - 1, -1, -1):
            n = len(self.inverses[t])
            more = self.prior.steps(out[t + 1, :n]) if t + 1 < len(out) else 0.0
            out[t, :n] = self.inverses[t] @ (out[t, :n] + more)
        return out

    def gain(self, t: int) -> Floats:
        """Return d E[state of t | state of t + 1] / d state of t + 1, (n_t, n_t)."""
        return self.prior.steps(self.inverses[t]).T

    def covariances(self, ends: Longs) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield periods backwards: t, covariance of its state, and its covariance (n_t, d1) with models at their ends.

        `ends` (d1,) names a period of each model; columns of models whose end is before t are zero. With V_t the
        inverse of the Schur complement and G_t the gain, C_t = V_t + G_t C_(t+1) G_t^T and C_(t,s) = G_t C_(t+1,s).
        """
        own = self.inverses[-1]
        cross = np.zeros((len(own), len(own)))
        for t in range(len(self.inverses) - 1, -1, -1):
            if t + 1 < len(self.inverses):
                gain, n = self.gain(t), len(self.inverses[t])
                own = self.inverses[t] + gain @ own[:n, :n] @ gain.T
                cross = gain @ cross[:n]
            here = np.flatnonzero(ends == t)
            cross[:, here] = own[:, here]
            yield t, own, cross


@dataclass(frozen=True)
class Path:
    """The mode of a walk, with what is known there.

    Attributes
    ----------
    scores : array (T, d1)
        Zero where a model is not yet present.
    slopes : array (k,)
    """

    votes: TimedVotes
    prior: Prior
    scores: Floats
    slopes: Floats

    @cached_property
    def _terms(self) -> CellTerms:
        votes = self.votes
        eta = self.scores[votes.period, votes.a] - self.scores[votes.period, votes.b] + votes.slopes @ self.slopes
        return LOGISTIC.terms(eta, votes.y)

    @cached_property
    def _weight(self) -> Floats:
        return self.votes.count / self.prior.dispersion

    @cached_property
    def chain(self) -> Chain:
        """The precision of the scores, eliminated."""
        votes, weight = self.votes, self._weight * self._terms.fisher
        bounds = np.searchsorted(votes.period, np.arange(len(self.scores) + 1))
        information = (
            laplacian(votes.a[part], votes.b[part], weight[part], n)
            for part, n in zip(map(slice, bounds[:-1], bounds[1:]), votes.present.tolist(), strict=True)
        )
        return Chain.of(information, votes.present, self.prior)

    @cached_property
    def _cross(self) -> Floats:
        """Information that scores and slopes share, (T, d1, k)."""
        weight, (T, d1) = self._weight * self._terms.fisher, self.scores.shape
        columns = [_by_model(self.votes, weight * column, T, d1) for column in self.votes.slopes.T]
        return np.stack(columns, axis=2) if columns else np.zeros((T, d1, 0))

    @cached_property
    def border(self) -> Floats:
        """The precision of scores and slopes, solved for, (T, d1, k)."""
        return self.chain.solve(self._cross) if self._cross.shape[2] else self._cross

    @cached_property
    def slopes_cov(self) -> Floats:
        """Covariance of the slopes, (k, k)."""
        slopes = self.votes.slopes
        inner = slopes.T @ (slopes * (self._weight * self._terms.fisher)[:, None])
        return np.asarray(np.linalg.inv(inner - np.einsum("tak,tal->kl", self._cross, self.border)))

    def newton_step(self) -> tuple[tuple[Floats, Floats], float]:
        """Return the Newton step of scores and slopes, and its decrement."""
        votes, score = self.votes, self._weight * self._terms.score
        gradient = _by_model(votes, score, *self.scores.shape) - _prior_gradient(votes.present, self.prior, self.scores)
        slope_gradient = votes.slopes.T @ score
        plain = self.chain.solve(gradient)
        slope_step = self.slopes_cov @ (slope_gradient - np.einsum("tak,ta->k", self._cross, plain))
        step = plain - self.border @ slope_step
        return (step, slope_step), float(np.sum(gradient * step) + slope_gradient @ slope_step)

    @cached_property
    def log_evidence(self) -> float:
        """Laplace's approximation to the log marginal likelihood of the votes."""
        present, prior = self.votes.present, self.prior
        n_steps = int(present[:-1].sum())
        log_prior = -2.0 * int(present[-1]) * np.log(prior.spread) - 2.0 * n_steps * np.log(prior.step)
        log_prior += (len(present) - 1) * np.log1p(STIFF)
        log_det = self.chain.log_det - np.linalg.slogdet(self.slopes_cov)[1]
        return -_objective(self.votes, prior, self.scores, self.slopes) + 0.5 * float(log_prior - log_det)

    def covariances(self, ends: Longs) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield periods backwards: t, covariance of its scores, and theirs (n_t, d1) with models at their `ends`."""
        last = self.border[ends, np.arange(len(ends))]
        for t, own, cross in self.chain.covariances(ends):
            away = self.border[t, : len(own)] @ self.slopes_cov
            yield t, own + away @ self.border[t, : len(own)].T, cross + np.where(ends >= t, away @ last.T, 0.0)

    def covariance_with(self, weights: Floats) -> Floats:
        """Return the covariance (T, d1) of all scores with their sum by weights (T, d1)."""
        loading = self.slopes_cov @ np.einsum("tak,ta->k", self.border, weights)
        return np.asarray(self.chain.solve(weights) + self.border @ loading)

    def vote_influences(self, which: Longs) -> Floats:
        """Return by how much one vote of some cells moves the scores of the last period, (n, d1), for one period."""
        votes, covariance = self.votes, next(self.covariances(np.full(self.scores.shape[1], -1)))[1]
        a, b = votes.a[which], votes.b[which]
        eta = self.scores[-1, a] - self.scores[-1, b] + votes.slopes[which] @ self.slopes
        along = covariance[a] - covariance[b] - votes.slopes[which] @ self.slopes_cov @ self.border[-1].T
        score = LOGISTIC.terms(eta, votes.y[which]).score / self.prior.dispersion
        return np.asarray(score[:, None] * (along - along.mean(axis=1, keepdims=True)))

    def model_covariance(self, model: int, ends: tuple[int, int]) -> Floats:
        """Return the covariance of a model's scores in the periods from the first to the last of `ends`."""
        first, last = ends
        size = last - first + 1
        out = np.empty((size, size))
        gains = {t: self.chain.gain(t) for t in range(first, last)}
        for t, own, _ in self.chain.covariances(np.full(self.scores.shape[1], -1)):
            if not first <= t <= last:
                continue
            column = own[:, model]
            for s in range(t, first - 1, -1):
                column = column if s == t else gains[s] @ column[: len(gains[s])]
                out[s - first, t - first] = out[t - first, s - first] = column[model]
        away = self.border[first : last + 1, model]
        return np.asarray(out + away @ self.slopes_cov @ away.T)


def _objective(votes: TimedVotes, prior: Prior, scores: Floats, slopes: Floats) -> float:
    """Return minus the log likelihood and log density of the prior, up to constants."""
    eta = scores[votes.period, votes.a] - scores[votes.period, votes.b] + votes.slopes @ slopes
    loss = float(votes.count @ LOGISTIC.terms(eta, votes.y).loss) / prior.dispersion
    return loss + 0.5 * float(np.sum(scores * _prior_gradient(votes.present, prior, scores)))


def _prior_gradient(present: Longs, prior: Prior, scores: Floats) -> Floats:
    """Return the prior's precision times the scores, (T, d1)."""
    out, before = np.zeros_like(scores), 0
    for t, n in enumerate(present.tolist()):
        out[t, before:n] += scores[t, before:n] / prior.spread**2
        if before:
            pull = prior.steps(scores[t, :before] - scores[t - 1, :before])
            out[t, :before] += pull
            out[t - 1, :before] -= pull
        before = n
    return out


class _Cost(Objective[Path, tuple[Floats, Floats]]):
    """Minus the log likelihood and log density of the prior."""

    def value(self, point: Path) -> float:
        return _objective(point.votes, point.prior, point.scores, point.slopes)

    def step(self, point: Path) -> tuple[tuple[Floats, Floats], float]:
        return point.newton_step()

    def moved(self, point: Path, step: tuple[Floats, Floats], share: float) -> Path:
        return replace(point, scores=point.scores + share * step[0], slopes=point.slopes + share * step[1])


def find_path(votes: TimedVotes, prior: Prior, scores: Floats, slopes: Floats) -> Path:
    """Return the mode near some scores (T, d1) and slopes (k,)."""
    return minimise_newton(_Cost(), Path(votes, prior, scores, slopes), NEWTON).point


def _by_model(votes: TimedVotes, values: Floats, n_periods: int, n_models: int) -> Floats:
    """Return values of votes summed by (period, model), plus for a and minus for b."""
    at = votes.period * n_models
    size = n_periods * n_models
    return np.asarray(sum_by(at + votes.a, values, size) - sum_by(at + votes.b, values, size)).reshape(n_periods, -1)


def fit_walks(
    votes: TimedVotes, choose: Callable[[Floats, Floats], Floats], widen: Callable[[Path], float] | None = None
) -> list[Path]:
    """Return walks with steps that `choose` makes of some steps (increasing) and their log evidence.

    The spread of first scores is that of largest evidence for one board of all votes together. `widen` finds from that
    board how many times as much votes vary as if they were independent.
    """
    once = fit_once(votes, widen)
    spread, dispersion = once.prior.spread, once.prior.dispersion
    if len(votes.present) == 1:
        return [once]
    near: dict[int, tuple[Floats, Floats]] = {}
    evidence: dict[int, float] = {}
    steps = spread * np.array(STEPS)
    middle = len(steps) // 2
    near[middle] = once.scores * (np.arange(once.scores.shape[1]) < votes.present[:, None]), once.slopes

    def add_step(k: int, start: int) -> None:
        path = find_path(votes, Prior(spread, float(steps[k]), dispersion), *near[start])
        near[k], evidence[k] = (path.scores, path.slopes), path.log_evidence

    add_step(middle, middle)
    for direction in (-1, 1):
        k = middle + direction
        while 0 <= k < len(steps):
            add_step(k, k - direction)
            if evidence[k] < max(evidence.values()) - NEGLIGIBLE:
                break
            k += direction
    known = sorted(evidence)
    chosen = choose(steps[known], np.array([evidence[k] for k in known]))
    starts = [near[min(known, key=lambda k: abs(steps[k] - step))] for step in chosen]
    return [
        find_path(votes, Prior(spread, float(step), dispersion), *start)
        for step, start in zip(chosen, starts, strict=True)
    ]


def fit_once(votes: TimedVotes, widen: Callable[[Path], float] | None = None) -> Path:
    """Return one board of all votes together, with the spread and dispersion of the models that votes show."""
    once = votes.together()
    d1, k = int(votes.present[-1]), votes.slopes.shape[1]
    near = find_path(once, Prior(1.0, 1.0), np.zeros((1, d1)), np.zeros(k))
    eta = near.scores[0, votes.a] - near.scores[0, votes.b] + votes.slopes @ near.slopes
    dispersion = LOGISTIC.dispersion(eta, votes.y, votes.count)
    if widen is not None:
        dispersion *= widen(near)

    def path_at(log_spread: float) -> Path:
        return find_path(once, Prior(float(np.exp(log_spread)), 1.0, dispersion), near.scores, near.slopes)

    low, high = (float(np.log(spread)) for spread in SPREADS)
    found = minimize_scalar(
        lambda x: -path_at(x).log_evidence, bounds=(low, high), method="bounded", options={"xatol": TOLERANCE}
    )
    return path_at(float(found.x))
