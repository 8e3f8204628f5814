"""Deviations E of a model in all contexts: independent, or correlated where contexts have labels in common.

Each context may be a combination of labels (math in French) or a set of tags. A model that does well at a label then
does so wherever it occurs. So E of a model has the covariance A = tau^2 I + sum of size_k^2 M_k M_k^T over contexts,
with M_k one where a context has a label of column k. With opponents known votes have information h on the slots of a
model. Both classes multiply by the prior precision A^-1 and by the posterior covariance B = (A^-1 + h)^-1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lrbtl.typing import Floats

MOST_NUMBERS = 1 << 24  # in matrices over the contexts of each model
ROUNDS, SETTLED = 60, 2e-4  # most rounds to find variances, and the change, relative to all of them, that ends them
GROWTH_POWER = 1.5  # power of the ratio by which a variance grows: fewer rounds
AT_A_TIME = 1 << 26  # products that the models of one round may take
LEAST_INDEPENDENT = 1e-3  # of the variance of a deviation that is its own


@dataclass(frozen=True)
class IndependentDeviations:
    """Independent deviations of variance tau^2; `votes` is h on the slots."""

    tau: float
    votes: Floats

    @cached_property
    def posterior_variance(self) -> Floats:
        """Diagonal of B."""
        return np.asarray(self.tau**2 / (1.0 + self.tau**2 * self.votes))

    def weighed(self, E: Floats) -> Floats:
        """Return A^-1 times columns of deviations (n_slots, m); the columns themselves where none is allowed."""
        return E / self.tau**2 if self.tau > 0.0 else E

    def posterior_times(self, columns: Floats) -> Floats:
        """Return B times columns (n_slots, m)."""
        return np.asarray(self.posterior_variance[:, None] * columns)

    def drawn(self, rng: np.random.Generator, m: int) -> Floats:
        """Return m draws with covariance A^-1, (n_slots, m)."""
        normal = rng.normal(size=(len(self.votes), m))
        return normal / self.tau if self.tau > 0.0 else np.zeros_like(normal)


@dataclass(frozen=True)
class CorrelatedDeviations:
    """Deviations with covariance `cov` (D, D) over the contexts of a model; slots are a grid, (D, d1)."""

    cov: Floats
    votes: Floats

    @cached_property
    def _posterior(self) -> Floats:
        """B of each model, (d1, D, D)."""
        return np.asarray(self.cov @ closed(self.cov, self.votes.reshape(len(self.cov), -1).T))

    @cached_property
    def _precision(self) -> Floats:
        return np.asarray(np.linalg.inv(self.cov))

    @cached_property
    def posterior_variance(self) -> Floats:
        """Diagonal of B on the slots."""
        return np.ascontiguousarray(np.einsum("auu->ua", self._posterior)).reshape(-1)

    def weighed(self, E: Floats) -> Floats:
        """Return A^-1 times columns of deviations (n_slots, m)."""
        return np.asarray((self._precision @ E.reshape(len(self.cov), -1)).reshape(E.shape))

    def posterior_times(self, columns: Floats) -> Floats:
        """Return B times columns (n_slots, m)."""
        by_model = columns.reshape(len(self.cov), -1, columns.shape[1]).transpose(1, 0, 2)
        return np.ascontiguousarray((self._posterior @ by_model).transpose(1, 0, 2)).reshape(columns.shape)

    def drawn(self, rng: np.random.Generator, m: int) -> Floats:
        """Return m draws with covariance A^-1, (n_slots, m)."""
        normal = rng.normal(size=(len(self.cov), self.votes.size // len(self.cov) * m))
        return np.asarray((np.linalg.cholesky(self._precision) @ normal).reshape(-1, m))


def closed(cov: Floats, votes: Floats) -> Floats:
    """Return (I + h A)^-1 of each model, (n, D, D), for votes h (n, D)."""
    return np.asarray(np.linalg.inv(np.eye(len(cov)) + votes[:, :, None] * cov))


def few_contexts(d1: int, D: int) -> bool:
    """Whether a matrix over the contexts of each model is small enough."""
    return d1 * D**2 <= MOST_NUMBERS


def estimate_variances(votes: Floats, scores: Floats, V: Floats, precision: Floats, parts: Sequence[Floats]) -> Floats:
    """Return the variances whose sum of `parts` (D, D) has most evidence as covariance of a model's deviations.

    With W = (A + h^-1)^-1 and R what it leaves of a model's own row, R = W - W V (V^T W V + prior)^-1 V^T W, the
    evidence has the slope sum of (y^T R C R y - tr R C) / 2 in the variance of part C: at its maximum both sums are
    equal, and each variance grows with their ratio until they are.

    Parameters
    ----------
    votes, scores : arrays (n, D)
        Information h of some models, and the votes' scores h y of their deviations y.
    V : array (D, r)
        Context vectors of L.
    precision : array (n, r)
        Prior of the models' rows.
    """
    some = min(len(votes), max(1, AT_A_TIME // len(V) ** 3))
    order = np.argsort(-votes.sum(axis=1), kind="stable")[:some]
    votes, scores, precision = votes[order], scores[order], precision[order]
    flat = np.stack([part.reshape(-1) for part in parts])
    spread = max(float(np.mean((scores**2).sum(axis=1) / np.maximum((votes**2).sum(axis=1), 1e-300))), 1e-12)
    out = spread / len(parts) / np.array([np.trace(part) / len(part) for part in parts])
    for _ in range(ROUNDS):
        cov = (out @ flat).reshape(len(V), len(V))
        inverse = closed(cov, votes)
        WV, Wy = inverse @ (votes[:, :, None] * V), (inverse @ scores[:, :, None])[:, :, 0]
        own = V.T @ WV + precision[:, :, None] * np.eye(V.shape[1])
        taken = np.linalg.solve(own, np.swapaxes(WV, 1, 2))  # (n, r, D)
        left = Wy - np.einsum("ark,ak->ar", WV, np.linalg.solve(own, (Wy @ V)[:, :, None])[:, :, 0])
        R = (inverse * votes[:, None, :]).sum(axis=0) - np.einsum("aik,akj->ij", WV, taken, optimize=True)
        ratio = (flat @ (left.T @ left).reshape(-1)) / np.maximum(flat @ R.reshape(-1), 1e-300)
        out, before = out * ratio**GROWTH_POWER, out
        if np.abs(out - before).max() < SETTLED * np.trace(cov) / len(cov):
            break
    out[0] = max(out[0], LEAST_INDEPENDENT * np.trace(cov) / len(cov))
    return out
