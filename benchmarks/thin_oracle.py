"""Thin plain logs and the posterior of somebody who knows how they were made: the law of levels and that of pairings.

A design has a law of levels theta (d,) and a law of pairings given levels, through a hidden coordinate of each model
where both are linked: its place q = theta + noise in the order by which similar models meet, or its log traffic. The
oracle's posterior is

    p(theta, q | log)  ~  p(theta) p(q | theta) P(pairings | q) prod sigma(theta_winner - theta_loser),

with P(pairings | q) exact. It is drawn from by Markov chains in plain NumPy, all chains of a log at once: Hamiltonian
steps in coordinates that a Gaussian approximation has whitened, where everything is smooth; single models, gaps, swaps
and Hamiltonian steps in turn where pairings depend on the order. Chains begin at the mode, or at the true order, whose
start is discarded. Intervals are central 95% of the draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

Density = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # log-density of each chain, and its gradient

CHAINS = 16
BURN, KEPT = 60, 250  # Hamiltonian trajectories of each chain
ORDER_CHAINS, ORDER_BURN, ORDER_KEPT = 8, 100, 300  # sweeps, where similar models meet
PLACE_NOISE, TRAFFIC_NOISE = 0.2, 0.5
NEAR = 0.06  # mean distance of opponents along the order, as a share of the models
LOW, HIGH, HIGH_SHARE, WITHIN = -0.6, 1.4, 0.3, 0.25  # mixture of two narrow normal laws, mean 0
ANCHORS = 3


@dataclass(frozen=True)
class Design:
    """A plain log: models, votes, law of levels and law of pairings."""

    name: str
    models: int
    votes: int
    levels: str = "normal"
    pairing: str = "uniform"


DESIGNS = {
    design.name: design
    for design in (
        Design("60, 300, uniform", 60, 300),
        Design("150, 600, uniform", 150, 600),
        Design("150, 1500, uniform", 150, 1_500),
        Design("60, 600, similar", 60, 600, pairing="similar"),
        Design("60, 2400, similar", 60, 2_400, pairing="similar"),
        Design("60, 10000, similar", 60, 10_000, pairing="similar"),
        Design("60, 600, traffic", 60, 600, pairing="traffic"),
        Design("60, 2400, traffic", 60, 2_400, pairing="traffic"),
        Design("60, 600, t3", 60, 600, levels="t3"),
        Design("40, 400, two groups", 40, 400, levels="mixture"),
        Design("100, 1000, Zipf", 100, 1_000, pairing="Zipf"),
        Design("30, 450, star", 30, 450, pairing="star"),
    )
}


@dataclass(frozen=True)
class Log:
    """True levels (d,), and votes counted by unordered pair: how often a beat b and how often b beat a."""

    levels: np.ndarray
    hidden: np.ndarray
    a: np.ndarray
    b: np.ndarray
    won: np.ndarray
    lost: np.ndarray


# ------------------------------------------------------------------------------
# Laws.
# ------------------------------------------------------------------------------


def draw_levels(design: Design, rng: np.random.Generator) -> np.ndarray:
    """Return levels (d,): N(0, 1), t with 3 degrees of freedom and variance 1, or a mixture of two normal laws."""
    d = design.models
    if design.levels == "t3":
        return rng.standard_t(3, d) / np.sqrt(3)
    if design.levels == "mixture":
        return np.where(rng.random(d) < HIGH_SHARE, HIGH, LOW) + WITHIN * rng.normal(size=d)
    return rng.normal(size=d)


def near_law(d: int) -> np.ndarray:
    """Return the probability (d, d) of each unordered pair of places in the order, summed over both triangles: 2.

    One model is uniform, the other at a geometric distance of mean NEAR d to a random side, reflected at the ends.
    """
    p = 1 / (NEAR * d)
    far = np.arange(1, 40 * d)
    weight = p * (1 - p) ** (far - 1)
    law = np.zeros((d, d))
    for place in range(d):
        for side in (-1, 1):
            to = reflect(place + side * far, d)
            np.add.at(law[place], to, weight / (2 * d))
    np.fill_diagonal(law, 0.0)  # a reflection onto the model itself is drawn again
    law /= law.sum()
    return law + law.T


def reflect(place: np.ndarray, d: int) -> np.ndarray:
    """Return places reflected at the ends 0 and d - 1."""
    period = 2 * (d - 1)
    return (d - 1) - np.abs((d - 1) - place % period)


def draw_log(design: Design, seed: int, number: int) -> Log:
    """Return the log with this number; seeds and designs have streams of their own."""
    rng = np.random.default_rng([seed, *design.name.encode(), number])
    levels = draw_levels(design, rng)
    d = design.models
    i, j = np.triu_indices(d, 1)
    hidden = np.zeros(0)
    if design.pairing == "similar":
        hidden = levels + PLACE_NOISE * rng.normal(size=d)
        rank = np.argsort(np.argsort(hidden))
        law = near_law(d)[rank[i], rank[j]]
    elif design.pairing == "traffic":
        hidden = levels + TRAFFIC_NOISE * rng.normal(size=d)
        law = np.exp(hidden[i] + hidden[j])
    elif design.pairing == "Zipf":
        traffic = (1 / np.arange(1, d + 1))[rng.permutation(d)]
        law = traffic[i] * traffic[j]
    elif design.pairing == "star":
        law = ((i < ANCHORS) & (j >= ANCHORS)).astype(float)
    else:
        law = np.ones(i.size)
    shown = rng.multinomial(design.votes, law / law.sum())
    met = shown > 0
    i, j, shown = i[met], j[met], shown[met]
    won = rng.binomial(shown, 1 / (1 + np.exp(levels[j] - levels[i])))
    return Log(levels, hidden, i, j, won, shown - won)


# ------------------------------------------------------------------------------
# The smooth posterior, and Hamiltonian steps.
# ------------------------------------------------------------------------------


class Votes:
    """Log-likelihood of the votes of a log at levels (chains, d), with gradient and information."""

    def __init__(self, log: Log) -> None:
        self.a, self.b, self.d = log.a, log.b, len(log.levels)
        self.won, self.n = log.won.astype(float), (log.won + log.lost).astype(float)
        rows = np.arange(len(log.a))
        entries = np.repeat([1.0, -1.0], len(rows)), (np.append(log.a, log.b), np.tile(rows, 2))
        self.sides = csr_matrix(entries, shape=(self.d, len(rows)))

    def value(self, theta: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of each chain, (chains,)."""
        eta = theta[:, self.a] - theta[:, self.b]
        return eta @ self.won - np.logaddexp(0, eta) @ self.n

    def value_gradient(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the same and its gradient (chains, d)."""
        eta = theta[:, self.a] - theta[:, self.b]
        p = 1 / (1 + np.exp(-eta))
        score = self.won - self.n * p
        return eta @ self.won - np.logaddexp(0, eta) @ self.n, (self.sides @ score.T).T

    def information(self, theta: np.ndarray) -> np.ndarray:
        """Return the information (d, d) at one point."""
        p = 1 / (1 + np.exp(theta[self.b] - theta[self.a]))
        return np.asarray((self.sides.multiply(self.n * p * (1 - p)) @ self.sides.T).todense())


class Smooth:
    """Posterior of x = theta, or (theta, log traffic), whose density is smooth."""

    def __init__(self, design: Design, log: Log) -> None:
        self.design, self.votes, self.d = design, Votes(log), design.models
        self.linked = design.pairing == "traffic"
        self.shown = np.bincount(log.a, self.votes.n, self.d) + np.bincount(log.b, self.votes.n, self.d)
        self.means = np.zeros(self.d)  # of the prior of levels, one row per chain for a mixture
        self.precision = {"normal": 1.0, "t3": 4.0, "mixture": WITHIN**-2}[design.levels]

    def value_gradient(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-density of each chain (chains,) and its gradient."""
        theta = x[:, : self.d]
        value, gradient = self.votes.value_gradient(theta)
        if self.design.levels == "t3":
            value = value - 2 * np.log1p(theta**2).sum(axis=1)
            gradient = gradient - 4 * theta / (1 + theta**2)
        else:
            away = theta - self.means
            value = value - 0.5 * self.precision * np.sum(away**2, axis=1)
            gradient = gradient - self.precision * away
        if not self.linked:
            return value, gradient
        traffic = x[:, self.d :]
        w = np.exp(traffic - traffic.max(axis=1, keepdims=True))
        total, squares = w.sum(axis=1, keepdims=True), np.sum(w**2, axis=1, keepdims=True)
        pairs = (total**2 - squares) / 2
        n = self.shown.sum() / 2
        noise = (traffic - theta) / TRAFFIC_NOISE**2
        value = value + traffic @ self.shown - n * (np.log(pairs[:, 0]) + 2 * traffic.max(axis=1))
        value = value - 0.5 * np.sum((traffic - theta) * noise, axis=1)
        return value, np.hstack([gradient + noise, self.shown - n * w * (total - w) / pairs - noise])

    def curvature(self, x: np.ndarray) -> np.ndarray:
        """Return a positive definite approximation of minus the Hessian at one point."""
        theta = x[: self.d]
        prior = 4 / (1 + theta**2) if self.design.levels == "t3" else np.full(self.d, self.precision)
        inner = self.votes.information(theta) + np.diag(prior)
        if not self.linked:
            return inner
        share = np.exp(x[self.d :] - np.logaddexp.reduce(x[self.d :]))
        eye = np.eye(self.d) / TRAFFIC_NOISE**2
        outer = self.shown.sum() * (np.diag(share) - np.outer(share, share)) + eye
        return np.block([[inner + eye, -eye], [-eye, outer]])

    def mode(self) -> np.ndarray:
        """Return a mode, by Newton steps of at most one unit."""
        x = np.zeros(2 * self.d if self.linked else self.d)
        for _ in range(50):
            gradient = self.value_gradient(x[None])[1][0]
            step = np.linalg.solve(self.curvature(x), gradient)
            x = x + step / max(1.0, float(np.abs(step).max()))
            if np.abs(step).max() < 1e-6:
                break
        return x


def hamiltonian(
    density: Density, x: np.ndarray, root: np.ndarray, step: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the next x (chains, D) and which chains moved; `root` (D, D) whitens, root root' ~ covariance."""
    value, gradient = density(x)
    momentum = rng.normal(size=x.shape)
    energy = value - 0.5 * np.sum(momentum**2, axis=1)
    step *= rng.uniform(0.8, 1.2)
    y = x
    for _ in range(max(1, round(1.6 / step))):
        momentum = momentum + 0.5 * step * gradient @ root
        y = y + step * momentum @ root.T
        after, gradient = density(y)
        momentum = momentum + 0.5 * step * gradient @ root
    moved = np.log(rng.random(len(x))) < after - 0.5 * np.sum(momentum**2, axis=1) - energy
    return np.where(moved[:, None], y, x), moved


def whitener(curvature: np.ndarray) -> np.ndarray:
    """Return a root (D, D) of the inverse of a positive definite matrix."""
    return np.linalg.inv(np.linalg.cholesky(curvature)).T


def smooth_draws(design: Design, log: Log, rng: np.random.Generator) -> np.ndarray:
    """Return draws (draws, d) of levels where the posterior is smooth, given the groups of a mixture."""
    target = Smooth(design, log)
    if design.levels == "mixture":
        target.precision = 1.0  # the first mode: one normal law of about this spread
    centre = target.mode()
    x = np.tile(centre, (CHAINS, 1))
    groups = None
    if design.levels == "mixture":
        target.precision = WITHIN**-2
        groups = (x > (LOW + HIGH) / 2).astype(int)
        target.means = np.where(groups == 1, HIGH, LOW)
    root = whitener(target.curvature(centre))
    step, kept = 0.4, []
    for number in range(BURN + KEPT):
        x, moved = hamiltonian(target.value_gradient, x, root, step, rng)
        if number < BURN:
            step *= np.exp(0.1 * (moved.mean() - 0.85))
        if groups is not None:
            x, groups = change_groups(target, x, groups, rng)
        if number >= BURN:
            kept.append(x[:, : design.models])
    return np.concatenate(kept)


def change_groups(
    target: Smooth, x: np.ndarray, groups: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return levels and groups after each model may have changed its group, its level with it."""
    odds = np.log(HIGH_SHARE / (1 - HIGH_SHARE))
    value = target.votes.value(x)
    for i in rng.permutation(target.d):
        side = np.where(groups[:, i] == 1, -1, 1)
        y = x.copy()
        y[:, i] += side * (HIGH - LOW)
        after = target.votes.value(y)
        moved = np.log(rng.random(len(x))) < after - value + side * odds
        x, value = np.where(moved[:, None], y, x), np.where(moved, after, value)
        groups[moved, i] = 1 - groups[moved, i]
    target.means = np.where(groups == 1, HIGH, LOW)
    return x, groups


# ------------------------------------------------------------------------------
# Similar models meet: the posterior depends on the order of q, so single models, gaps and swaps are moved in turn.
# ------------------------------------------------------------------------------


class Ordered:
    """Chains of (theta, q), where pairings depend on the order of q alone."""

    def __init__(self, design: Design, log: Log, rng: np.random.Generator) -> None:
        self.d, self.rng, self.votes = design.models, rng, Votes(log)
        with np.errstate(divide="ignore"):
            self.law = np.log(near_law(self.d)).ravel()
        self.theta = np.tile(log.levels, (ORDER_CHAINS, 1))
        self.q = np.tile(log.hidden, (ORDER_CHAINS, 1))
        self.rank, self.pairs = self.pairing(self.q)
        self.value = self.votes.value(self.theta)

    def pairing(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ranks (chains, d) and the log-probability of the pairings (chains,)."""
        rank = np.argsort(np.argsort(q, axis=1), axis=1)
        return rank, self.law[rank[:, self.votes.a] * self.d + rank[:, self.votes.b]] @ self.votes.n

    def prior(self, theta: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Return the log-density of levels and places, (chains,)."""
        return -0.5 * np.sum(theta**2 + ((q - theta) / PLACE_NOISE) ** 2, axis=1)

    def metropolis(self, theta: np.ndarray, q: np.ndarray) -> None:
        """Move to a proposal whose own density is symmetric, or stay."""
        value = self.value if theta is self.theta else self.votes.value(theta)
        rank, pairs = (self.rank, self.pairs) if q is self.q else self.pairing(q)
        gain = value + pairs + self.prior(theta, q) - self.value - self.pairs - self.prior(self.theta, self.q)
        moved = np.log(self.rng.random(len(gain))) < gain
        self.theta, self.q = np.where(moved[:, None], theta, self.theta), np.where(moved[:, None], q, self.q)
        self.rank = np.where(moved[:, None], rank, self.rank)
        self.value, self.pairs = np.where(moved, value, self.value), np.where(moved, pairs, self.pairs)

    def widen_gap(self, k: int, by: np.ndarray) -> None:
        """Move all models above place k, levels and places alike, or stay; the order never changes."""
        above = self.rank > k
        gap = np.where(above, self.q, np.inf).min(axis=1) - np.where(above, -np.inf, self.q).max(axis=1)
        theta, q = self.theta + by[:, None] * above, self.q + by[:, None] * above
        value = self.votes.value(theta)
        gain = value - self.value - 0.5 * np.sum(theta**2 - self.theta**2, axis=1)
        moved = (np.log(self.rng.random(len(gain))) < gain) & (gap + by > 0)
        self.theta, self.q = np.where(moved[:, None], theta, self.theta), np.where(moved[:, None], q, self.q)
        self.value = np.where(moved, value, self.value)

    def sweep(self) -> None:
        """Move places of single models, models with their places, gaps of the order, and neighbours."""
        chains, rng = np.arange(ORDER_CHAINS), self.rng
        for i in rng.permutation(self.d):
            far = rng.normal(size=ORDER_CHAINS) * 10 ** rng.uniform(-1.7, -0.5)
            alone = np.zeros_like(self.q)
            alone[:, i] = far
            if rng.random() < 0.5:
                self.metropolis(self.theta, self.q + alone)
            else:
                self.metropolis(self.theta + alone, self.q + alone)
        for k in rng.permutation(self.d - 1):
            self.widen_gap(int(k), rng.normal(size=ORDER_CHAINS) * 10 ** rng.uniform(-1.7, -0.7))
        order = np.argsort(self.q, axis=1)
        for k in rng.integers(0, self.d - 3, self.d // 2):
            i, j = order[:, k], order[:, k + rng.integers(1, 4)]
            theta, q = self.theta.copy(), self.q.copy()
            theta[chains, i], theta[chains, j] = self.theta[chains, j], self.theta[chains, i]
            q[chains, i], q[chains, j] = self.q[chains, j], self.q[chains, i]
            self.metropolis(theta, q)
            order = np.argsort(self.q, axis=1)

    def levels_given_places(self, root: np.ndarray, step: float) -> float:
        """Move all levels given places by Hamiltonian steps; return the share of chains that moved."""
        precision = 1 + PLACE_NOISE**-2
        mean = self.q / (1 + PLACE_NOISE**2)

        def density(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            value, gradient = self.votes.value_gradient(x)
            return value - 0.5 * precision * np.sum((x - mean) ** 2, axis=1), gradient - precision * (x - mean)

        self.theta, moved = hamiltonian(density, self.theta, root, step, self.rng)
        self.value = self.votes.value(self.theta)
        return float(moved.mean())


def order_draws(design: Design, log: Log, rng: np.random.Generator) -> np.ndarray:
    """Return draws (draws, d) of levels where similar models meet."""
    chains = Ordered(design, log, rng)
    curvature = chains.votes.information(log.levels) + (1 + PLACE_NOISE**-2) * np.eye(design.models)
    root, step, kept = whitener(curvature), 0.4, []
    for number in range(ORDER_BURN + ORDER_KEPT):
        chains.sweep()
        for _ in range(2):
            share = chains.levels_given_places(root, step)
            if number < ORDER_BURN:
                step *= np.exp(0.1 * (share - 0.85))
        if number >= ORDER_BURN:
            kept.append(chains.theta)
    return np.concatenate(kept)


def oracle_draws(design: Design, log: Log, seed: int) -> np.ndarray:
    """Return draws (draws, d) of the levels from the posterior of somebody who knows the design's laws."""
    rng = np.random.default_rng(seed)
    return (order_draws if design.pairing == "similar" else smooth_draws)(design, log, rng)
