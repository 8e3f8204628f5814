"""Baselines of held-out prediction without low rank: mixed models, variances by evidence, plain NumPy.

Scores of a category u are T_u = Z_u beta + E_u: effects of models that categories share (a level, and where
categories have several modes a level for each value of each mode), and deviations. All are independent and normal,
one variance per kind. At given variances the mode is found by Newton steps with E integrated out, H_u being the
information of the votes:

    S_u = (I + tau^2 H_u)^-1,  W_u = H_u S_u,  A = D^-1 + sum_u Z_u' W_u Z_u,
    evidence = log-likelihood - (beta' D^-1 beta + E'E / tau^2 + sum_u log det(I + tau^2 H_u) + log det(A D)) / 2,
    cov(T_u) = S_u Z_u A^-1 Z_u' S_u' + tau^2 S_u.

Variances are those with the most evidence (Laplace). Every model and category has a prediction, at least that of the
prior. Win probabilities are means over the normal posterior of a gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

import lrbtl

WEAK = 1.5  # prior standard deviation of separate fits, logits
SMALLEST, LARGEST = 1e-3, 5.0  # standard deviations that are tried
ENOUGH = 1e-4  # gain of the log-density below which Newton stops
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


@dataclass(frozen=True)
class Counts:
    """Wins, ties counting half, and votes (D, d, d) of the first over the second; groups (D, k) of shared effects.

    A group is d effects, one per model; `kinds` (groups,) numbers their variances.
    """

    won: np.ndarray
    n: np.ndarray
    groups: np.ndarray
    kinds: np.ndarray


def count(battles: lrbtl.Battles, *, pooled: bool = False, crossed: bool = False, shared: bool = True) -> Counts:
    """Return the votes of battles: by category or pooled, with effects that are shared by categories, or none."""
    cells, d = battles.cells, len(battles.models)
    D = 1 if pooled else battles.n_contexts
    u = np.zeros_like(cells.context) if pooled else cells.context
    won = np.zeros((D, d, d))
    np.add.at(won, (u, cells.a, cells.b), cells.count * cells.y)
    np.add.at(won, (u, cells.b, cells.a), cells.count * (1 - cells.y))
    modes = np.array(np.unravel_index(np.arange(D), battles.shape[1:])) if crossed else np.zeros((0, D), dtype=int)
    groups, kinds, first = [np.zeros(D, dtype=int)], [0], 1
    for kind, (mode, size) in enumerate(zip(modes, battles.shape[1:], strict=False), 1):
        groups.append(first + mode)
        kinds += [kind] * size
        first += size
    if not shared:
        return Counts(won, won + won.transpose(0, 2, 1), np.zeros((D, 0), dtype=int), np.zeros(0, dtype=int))
    return Counts(won, won + won.transpose(0, 2, 1), np.stack(groups, axis=1), np.array(kinds))


class Mixed:
    """A mixed model at given standard deviations: of each kind of shared effects, and of deviations (the last)."""

    def __init__(self, counts: Counts, sizes: np.ndarray, start: Mixed | None = None) -> None:
        self.counts, self.tau2 = counts, float(sizes[-1]) ** 2
        D, d = counts.won.shape[:2]
        self.precision = np.repeat(sizes[counts.kinds] ** -2.0, d)
        self.beta = np.zeros(len(counts.kinds) * d) if start is None else start.beta
        self.deviations = np.zeros((D, d)) if start is None else start.deviations
        value = self.objective(self.beta, self.deviations)
        for _ in range(50):
            beta, deviations = self.newton_step()
            scale = 1.0
            while (after := self.objective(self.beta + scale * beta, self.deviations + scale * deviations)) < value:
                scale /= 2
                if scale < 1e-6:
                    break
            self.beta, self.deviations = self.beta + scale * beta, self.deviations + scale * deviations
            gain, value = after - value, after
            if gain < ENOUGH:
                break
        self.expand()
        half_logdet = np.log(np.diagonal(cho_factor(self.border)[0])).sum() if self.beta.size else 0.0
        inner = np.linalg.slogdet(np.eye(d) + self.tau2 * self.information)[1].sum()
        self.evidence = value - half_logdet + 0.5 * np.log(self.precision).sum() - 0.5 * inner

    def scores(self, beta: np.ndarray, deviations: np.ndarray) -> np.ndarray:
        """Return the scores (D, d)."""
        return deviations + beta.reshape(-1, deviations.shape[1])[self.counts.groups].sum(axis=1)

    def objective(self, beta: np.ndarray, deviations: np.ndarray) -> float:
        """Return the log-density of votes and effects, without constants."""
        T = self.scores(beta, deviations)
        loss = np.logaddexp(0, T[:, None, :] - T[:, :, None])
        prior = self.precision @ beta**2 + np.sum(deviations**2) / self.tau2
        return float(-np.sum(self.counts.won * loss) - 0.5 * prior)

    def expand(self) -> np.ndarray:
        """Set information, shrinkage and border at the present point; return the gradient of the votes (D, d)."""
        T, n = self.scores(self.beta, self.deviations), self.counts.n
        d = T.shape[1]
        p = 1 / (1 + np.exp(T[:, None, :] - T[:, :, None]))
        weight = n * p * (1 - p)
        self.information = -weight
        self.information[:, np.arange(d), np.arange(d)] += weight.sum(axis=2)
        self.shrinkage = np.linalg.inv(np.eye(d) + self.tau2 * self.information)  # S
        self.marginal = self.information @ self.shrinkage  # W
        k = len(self.counts.kinds)
        border = np.zeros((k, k, d, d))
        for u, groups in enumerate(self.counts.groups):
            for g in groups:
                for h in groups:
                    border[g, h] += self.marginal[u]
        self.border = border.transpose(0, 2, 1, 3).reshape(k * d, k * d) + np.diag(self.precision)
        return np.asarray(np.sum(self.counts.won - n * p, axis=2))

    def newton_step(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the Newton step of shared effects and of deviations."""
        score = self.expand()
        d = score.shape[1]
        own = self.tau2 * score - self.deviations  # tau^2 times the gradient of deviations
        inner = np.einsum("uij,uj->ui", self.shrinkage, own)
        step = np.zeros_like(self.beta)
        if self.beta.size:
            reduced = score - np.einsum("uij,uj->ui", self.information, inner)
            right = np.zeros((len(self.counts.kinds), d))
            for k in range(self.counts.groups.shape[1]):
                np.add.at(right, self.counts.groups[:, k], reduced)
            step = cho_solve(cho_factor(self.border), right.ravel() - self.precision * self.beta)
        moved = step.reshape(-1, d)[self.counts.groups].sum(axis=1)
        along = np.einsum("uij,uj->ui", self.information, moved)
        return step, inner - self.tau2 * np.einsum("uij,uj->ui", self.shrinkage, along)

    def moments(self, u: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the gaps of a and b in categories u."""
        T = self.scores(self.beta, self.deviations)
        d, k = T.shape[1], len(self.counts.kinds)
        inverse = np.linalg.inv(self.border).reshape(k, d, k, d) if k else np.zeros((0, d, 0, d))
        variance = np.zeros(len(u))
        for context in np.unique(u):
            groups, here = self.counts.groups[context], np.flatnonzero(u == context)
            S = self.shrinkage[context]
            shared = inverse[groups][:, :, groups].sum(axis=(0, 2)) if k else np.zeros((d, d))
            cov = S @ shared @ S.T + self.tau2 * S
            i, j = a[here], b[here]
            variance[here] = cov[i, i] + cov[j, j] - cov[i, j] - cov[j, i]
        return T[u, a] - T[u, b], variance


def most_evidence(counts: Counts, *, deviations: bool = True) -> Mixed:
    """Return the mixed model at the standard deviations with the most evidence; without deviations they are tiny."""
    kinds = int(counts.kinds.max(initial=-1)) + 1
    last: list[Mixed] = []

    def model(log_sizes: np.ndarray) -> Mixed:
        sizes = np.exp(np.clip(log_sizes, np.log(SMALLEST), np.log(LARGEST)))
        found = Mixed(counts, sizes if deviations else np.append(sizes, SMALLEST), last[0] if last else None)
        last[:] = [found]
        return found

    start = np.log([0.7] + [0.3] * (kinds - 1) + [0.3] * deviations)
    options = {
        "xatol": 0.05,
        "fatol": 0.05,
        "maxfev": 100,
        "initial_simplex": np.vstack([start, start + 0.7 * np.eye(len(start))]),
    }
    found = minimize(lambda x: -model(x).evidence, start, method="Nelder-Mead", options=options)
    return model(found.x)


def win_probabilities(model: Mixed, u: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the posterior mean of the probability that a beats b."""
    mean, variance = model.moments(u, a, b)
    draws = mean[:, None] + np.sqrt(np.maximum(variance, 0.0))[:, None] * NODES
    return np.asarray((1 / (1 + np.exp(-draws))) @ WEIGHTS / WEIGHTS.sum())


def predict_all(train: lrbtl.Battles, u: np.ndarray, a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """Return the predictions of each baseline for pairs a, b in categories u, by position."""
    zero = np.zeros_like(u)
    out = {
        "coin": np.full(len(u), 0.5),
        "pooled": win_probabilities(most_evidence(count(train, pooled=True), deviations=False), zero, a, b),
    }
    if train.n_contexts > 1:
        out["separate"] = win_probabilities(Mixed(count(train, shared=False), np.array([WEAK])), u, a, b)
        out["mixed"] = win_probabilities(most_evidence(count(train)), u, a, b)
    if len(train.shape) > 2:
        out["mixed, crossed"] = win_probabilities(most_evidence(count(train, crossed=True)), u, a, b)
    return out
