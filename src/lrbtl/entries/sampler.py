"""A Gibbs sampler of the factor model of scores.

Model of the entry of model i and benchmark j, on the working scale:

    z_ij     = mu_j + (sum_k f_ik l_jk + delta_ij + noise_ij) / s_j
    f_i      ~ N(x_i B, I), B_pk ~ N(0, t_p)           levels and further factors of models; x_i their features
    mu_j ~ N(m_0, v_0), l_jk ~ N(m_k, v_k)             means and loadings of benchmarks
    log s_j  ~ N(0, unit_size)                         on real scales, whose unit is of no account; else s_j = 1
    delta_ij ~ N(0, base / (h_j g_i w_ij))             deviations: h_j by benchmark, g_i by model, w_ij heavy tails
    h_j ~ Gamma(a, a), g_i ~ Gamma(c / 2, c / 2), w_ij ~ Gamma(nu / 2, nu / 2)
    noise_ij ~ N(0, known), or N(0, e_j / n_ij) where entries were measured n_ij times, or part of delta_ij
    b_ij ~ Bernoulli(known)                       whether a share of no or of all items is beyond what factors say

The mean m_1 of the first loadings makes f_i1 the level of a model. Sizes v shrink factors that are not there, which
averages over their number. All sizes, degrees of freedom included, are sampled with the rest: intervals include their
uncertainty. Each step below draws one block from its distribution given all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, logit

from lrbtl.entries.config import FactorConfig
from lrbtl.entries.table import EntryTable
from lrbtl.typing import Bools, Floats, Longs

BASE_STEPS = (0.2, 0.5, 1.5)  # standard deviations of the Metropolis steps of log base
DEGREE_STEPS = (0.15, 0.6)  # likewise of the logarithm of degrees of freedom
N_SHAPES = 60  # values among which shapes of gamma distributions are sampled
STRETCH_STEPS = (0.2, 0.8)  # likewise of the logarithm of what real scores are multiplied by
UNSEEN = 1e12  # variance of noise that leaves nothing known of an entry
LEAST = 1e-10  # of the unit of variance: no sampled variance is below it


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from the posterior, S of each.

    Attributes
    ----------
    factors : array (S, d1, K)
    loadings : array (S, D, K + 1)
        The mean of each benchmark, then its loadings.
    deviation : array (S, n)
        Deviations of measured entries from their prediction by the factors; with the noise where that is not known.
    by_context, by_model : arrays (S, D), (S, d1)
        Variance of deviations is by_context / by_model, times that of a t with `degrees`.
    degrees : array (S,)
    noise : array (S, D) or None
        Variance of the noise of one more score, where it is estimated from repeated ones.
    coefficients : array (S, p, K)
        Coefficients of features on factors.
    """

    factors: Floats
    loadings: Floats
    deviation: Floats
    by_context: Floats
    by_model: Floats
    degrees: Floats
    noise: Floats | None
    coefficients: Floats


def sample_factor_model(table: EntryTable, config: FactorConfig, rng: np.random.Generator) -> Draws:
    """Return draws from the posterior of the factor model; the order of models and contexts plays no part in them."""
    ordered, entry = table.reordered()
    model, context = table.places
    chain = Chain(ordered, config, rng)
    for _ in range(config.n_warmup):
        chain.sweep()
    kept: list[tuple[Any, ...]] = []
    for _ in range(config.n_draws):
        for _ in range(config.thin):
            chain.sweep()
        kept.append(chain.record())
    factors, loadings, deviation, by_context, by_model, degrees, noise, coefficients = map(
        np.array, zip(*kept, strict=True)
    )
    estimated = noise[:, context] if chain.noise_estimated else None
    return Draws(
        factors[:, model],
        loadings[:, context],
        deviation[:, entry],
        by_context[:, context],
        by_model[:, model],
        degrees,
        estimated,
        coefficients,
    )


class Chain:
    """The state of the sampler; attributes are named as in the model."""

    table: EntryTable
    config: FactorConfig
    rng: np.random.Generator
    z: Floats
    noise: Floats | None
    within: Floats
    real: Bools
    stretch: Floats
    rows: Longs
    columns: Longs
    entry: Longs
    unit: float
    K: int
    f: Floats
    L: Floats
    prior_mean: Floats
    prior_variance: Floats
    guess: Floats
    m: Floats
    v: Floats
    base: float
    h: Floats
    g: Floats
    w: Floats
    a: float
    c: float
    nu: float
    noise_known: bool
    noise_estimated: bool
    s: Floats
    s_base: float
    s_shape: float
    delta: Floats
    coefficients: Floats
    coefficient_variance: Floats
    shapes: Floats
    wide: Floats
    gammas: tuple[Floats, Floats]
    grid: Floats
    ends: Longs
    beyond: Bools

    def __init__(self, table: EntryTable, config: FactorConfig, rng: np.random.Generator) -> None:
        self.table, self.config, self.rng = table, config, rng
        (d1, D), i, j, z = table.shape, table.model, table.context, table.mean
        self.z, self.noise, self.within = z, table.noise, table.within
        self.real, self.stretch = ~table.scales.bounded, np.ones(D)
        self.rows, self.columns = np.bincount(i, minlength=d1), np.bincount(j, minlength=D)
        overall = float(z[table.scales.bounded[j]].mean()) if table.scales.bounded[j].any() else 0.0
        mu = np.where(self.columns > 0, np.bincount(j, z, D) / np.maximum(self.columns, 1), overall)
        residual = z - mu[j]
        self.unit = float(np.mean(residual**2)) or 1.0
        self.K = K = max(1, min(config.n_factors, d1 - 1, D))
        level = np.bincount(i, residual, d1) / (self.rows + 2.0)
        spread = float(level.std()) or np.sqrt(self.unit)
        self.f = 0.5 * rng.normal(size=(d1, K))
        self.f[:, 0] = level / spread
        self.L = np.zeros((D, K + 1))
        self.L[:, 0], self.L[:, 1] = mu, spread
        self.prior_mean = np.r_[overall, np.zeros(K)]
        self.prior_variance = np.r_[100.0 * self.unit, np.full(K, self.unit)]
        self.guess = self.unit * np.r_[config.mean_size, np.full(K, config.loading_size)]
        self.m = np.r_[overall, spread, np.zeros(K - 1)]
        self.v = self.unit * np.r_[1.0 + mu.var() / self.unit, np.full(K, 0.1)]
        self.base = 0.3 * self.unit
        self.h, self.g, self.w = np.ones(D), np.ones(d1), np.ones(table.n_entries)
        self.a, self.c, self.nu = 3.0, 6.0, 5.0
        self.noise_known = table.noise is not None
        self.noise_estimated = not self.noise_known and table.spare.sum() >= config.least_repeats
        within = float(table.within.sum() / max(table.spare.sum(), 1.0))
        self.s, self.s_base, self.s_shape = np.full(D, max(within, LEAST * self.unit)), within, 3.0
        self.delta = np.zeros(table.n_entries)
        self.entry = i * D + j
        self.coefficients = np.zeros((table.features.shape[1], K))
        self.coefficient_variance = np.full(int(table.feature_group.max(initial=-1)) + 1, config.feature_size)
        self.shapes = np.geomspace(*config.degrees, N_SHAPES) / 2.0
        self.wide = 2.0 * self.shapes
        self.gammas = gammaln(self.shapes), gammaln(self.wide)
        self.ends = np.flatnonzero(table.at_bound)
        self.beyond = np.zeros(self.ends.size, dtype=np.bool_)
        self.grid = np.zeros((2, d1 * D))  # precisions of entries, and precisions times what they should be

    def sweep(self) -> None:
        """Draw each block once."""
        precision = 1.0 / (self.deviation_variance() + self.noise_variance())
        self.draw_factors(precision)
        if self.table.features.shape[1]:
            self.draw_coefficients()
        self.draw_loadings(precision)
        self.draw_loading_prior()
        if self.noise_known or self.noise_estimated:
            self.draw_base()
        if self.real.any():
            self.draw_units()
        self.draw_deviations()
        self.draw_weights()
        self.draw_sizes()
        if self.table.worth is not None:
            self.draw_shares()
        if self.ends.size:
            self.draw_bounds()
        if self.noise_estimated:
            self.draw_noise()
        if self.real.any():
            self.draw_stretch()

    def record(self) -> tuple[Any, ...]:
        """Return what is kept of the state, all of it on the working scale of the scores."""
        stretch = self.stretch
        deviation = (self.delta / stretch[self.table.context]).astype(np.float32)
        at = self.ends[self.beyond]
        if at.size:
            deviation[at] = self._bound_scores(at) - self.shared()[at]
        by_context, noise = self.base / self.h / stretch**2, self.s / stretch**2
        return (
            self.f,
            self.L / stretch[:, None],
            deviation,
            by_context,
            self.g,
            np.array(self.nu),
            noise,
            self.coefficients,
        )

    def deviation_variance(self) -> Floats:
        """Return the variance of each measured entry's deviation."""
        return np.asarray(self.base / (self.h[self.table.context] * self.g[self.table.model] * self.w))

    def noise_variance(self) -> Floats:
        """Return the variance of the noise of each measured entry's mean."""
        if self.noise is not None:
            return self.noise
        if self.noise_estimated:
            return np.asarray(self.s[self.table.context] / self.table.count)
        return np.zeros(self.table.n_entries)

    def shared(self) -> Floats:
        """Return mu_j + f_i . l_j of measured entries."""
        L = self.L[self.table.context]
        return np.asarray(L[:, 0] + np.einsum("nk,nk->n", self.f[self.table.model], L[:, 1:]))

    def draw_factors(self, precision: Floats) -> None:
        """f_i ~ N(A_i^-1 b_i, A_i^-1), A_i = I + sum_j p_ij l_j l_j', b_i = x_i B + sum_j p_ij (z_ij - mu_j) l_j."""
        B = self.L[:, 1:]
        weight, target = self._fill(precision, self.z - self.L[self.table.context, 0])
        expected = self.table.features @ self.coefficients
        self.f = _draw_normals(_outer_sums(weight, B) + np.eye(self.K), target @ B + expected, self.rng)

    def draw_coefficients(self) -> None:
        """Draw B, a ridge regression of the factors on features, and the variances t of its groups of rows."""
        X, group = self.table.features, self.table.feature_group
        A = X.T @ X + np.diag(1.0 / self.coefficient_variance[group])
        each = np.broadcast_to(A, (self.K, *A.shape))
        self.coefficients = _draw_normals(each, (X.T @ self.f).T, self.rng).T
        degrees, sizes = self.config.prior_degrees, self.K * np.bincount(group)
        squares = np.bincount(group, np.sum(self.coefficients**2, axis=1)) + degrees * self.config.feature_size
        self.coefficient_variance = squares / 2.0 / self.rng.gamma((sizes + degrees) / 2.0)

    def draw_loadings(self, precision: Floats) -> None:
        """(mu_j, l_j) likewise, with their prior precisions and means m."""
        X = np.concatenate([np.ones((len(self.f), 1)), self.f], axis=1)
        weight, target = self._fill(precision, self.z)
        centre, precision = self.loading_prior()
        A = _outer_sums(weight.T, X)
        A[:, range(self.K + 1), range(self.K + 1)] += precision
        self.L = _draw_normals(A, target.T @ X + centre * precision, self.rng)

    def loading_prior(self) -> tuple[Floats, Floats]:
        """Return the prior means and precisions of means and loadings, (D, K + 1), times the stretch of benchmarks.

        Real scores were centred, so that their means are nearly free.
        """
        centre, precision = (np.tile(row, (len(self.L), 1)) for row in (self.m, 1.0 / self.v))
        centre[self.real, 0], precision[self.real, 0] = 0.0, 1.0 / (self.config.centre_size * self.unit)
        centre[:, 0], precision[:, 0] = centre[:, 0] * self.stretch, precision[:, 0] / self.stretch**2
        return centre, precision

    def draw_loading_prior(self) -> None:
        """Draw m given v from its normal distribution, and v given m from its inverse gamma distribution.

        The prior of v is guess Gamma(power) / Gamma(1/2); power 1/2, that of means, makes its root half Cauchy.
        """
        rows = self.L.copy()
        rows[:, 0] /= self.stretch
        rows[self.real, 0] = self.m[0]  # real scores were centred, and say nothing of m[0] and v[0]
        own = np.r_[float(np.count_nonzero(self.real)), np.zeros(self.K)]
        count, total = len(rows) - own, rows.sum(axis=0) - own * self.m
        precision = count / self.v + 1.0 / self.prior_variance
        centre = (total / self.v + self.prior_mean / self.prior_variance) / precision
        self.m = centre + self.rng.normal(size=self.m.size) / np.sqrt(precision)
        power = np.r_[0.5, np.full(self.K, self.config.power)]
        above = self.rng.gamma(power + 0.5) / (1.0 + self.guess / self.v)
        rows[self.real, 0] = self.m[0]
        squares = np.sum((rows - self.m) ** 2, axis=0) / 2.0
        self.v = np.maximum((squares + self.guess * above) / self.rng.gamma((count + 1.0) / 2.0), LEAST * self.unit)

    def draw_units(self) -> None:
        """Draw s_j given factors, loadings in its units and means in those of scores, whatever the deviations.

        Where loadings are nearly those of other benchmarks they fix the unit, and `draw_stretch` alone moves little.
        """
        D, config, rows = self.table.shape[1], self.config, np.flatnonzero(self.real[self.table.context])
        j, known, estimated = self.table.context[rows], self.noise_known, self.noise_estimated
        level = np.einsum("nk,nk->n", self.f[self.table.model[rows]], self.L[j, 1:])
        away = self.z[rows] - self.L[j, 0]
        deviation, noise = self.deviation_variance()[rows], self.noise_variance()[rows]
        spare = np.where(self.real, self.table.spare, 0.0)

        def fit(t: Floats) -> Floats:
            r = np.exp(t)
            variance = deviation + noise * (r[j] ** 2 if known else 1.0)
            each = t[j] - 0.5 * np.log(variance) - 0.5 * (r[j] * away - level) ** 2 / variance
            repeats = spare * t - 0.5 * r**2 * self.within / self.s if estimated else 0.0
            prior = 0.5 * (np.log(self.stretch) + t) ** 2 / config.unit_size
            return np.asarray(np.bincount(j, each, D) + repeats - prior)

        r = np.exp(self._steps_of_stretch(fit))
        self.stretch, self.within = self.stretch * r, self.within * r**2
        self.L[:, 0] *= r
        self.z = self.z * r[self.table.context]
        if self.noise is not None:
            self.noise = self.noise * r[self.table.context] ** 2

    def draw_stretch(self) -> None:
        """Draw s_j with all that is in its units, r times each, by Metropolis steps of t = log r; z_ij stays as likely.

        What changes is the prior of loadings, deviations and noise, and their volume, exp(t times their number).
        """
        D, j, config = self.table.shape[1], self.table.context, self.config
        square = np.sum(self.L[:, 1:] ** 2 / self.v[1:], axis=1)
        square += np.bincount(j, self.delta**2 / self.deviation_variance(), D)
        along, number = self.L[:, 1:] @ (self.m[1:] / self.v[1:]), self.columns + self.K
        k = self.s_base / self.s if self.noise_estimated else np.zeros(D)
        shape = self.s_shape if self.noise_estimated else 0.0
        away = np.log(self.stretch)

        def fit(t: Floats) -> Floats:
            r = np.exp(t)
            noise = shape * (2.0 * t + k / r**2)
            prior = 0.5 * (away + t) ** 2 / config.unit_size
            return np.asarray(number * t - 0.5 * r**2 * square + r * along - noise - prior)

        r = np.exp(self._steps_of_stretch(fit))
        self.stretch, self.s = self.stretch * r, self.s * r**2
        self.L, self.delta = self.L * r[:, None], self.delta * r[j]
        self.z, self.within = self.z * r[j], self.within * r**2
        if self.noise is not None:
            self.noise = self.noise * r[j] ** 2

    def _steps_of_stretch(self, fit: Callable[[Floats], Floats]) -> Floats:
        """Return t = log r of benchmarks after Metropolis steps from 0; fit gives the log densities of t, (D,)."""
        t = np.zeros(self.table.shape[1])
        now = fit(t)
        for step in STRETCH_STEPS:
            other = t + step * self.rng.normal(size=t.size)
            then = fit(other)
            better = self.real & (np.log(self.rng.random(t.size)) < then - now)
            t, now = np.where(better, other, t), np.where(better, then, now)
        return t

    def draw_deviations(self) -> None:
        """delta_ij is a share d / (d + s) of the residual, d and s the variances of deviation and noise."""
        residual = self.z - self.shared()
        if not (self.noise_known or self.noise_estimated):
            self.delta = residual
            return
        d, s = self.deviation_variance(), self.noise_variance()
        share = d / (d + s)
        self.delta = share * residual + np.sqrt(share * s) * self.rng.normal(size=d.size)

    def draw_weights(self) -> None:
        """Draw nu given the deviations whatever w, by Metropolis steps of log nu, then w given both."""
        size = self.base / (self.h[self.table.context] * self.g[self.table.model])
        squares, n = self.delta**2 / size, self.w.size
        low, high = self.config.degrees

        def fit(nu: float) -> float:
            one = gammaln((nu + 1.0) / 2.0) - gammaln(nu / 2.0) - 0.5 * np.log(nu)
            return float(n * one - (nu + 1.0) / 2.0 * np.sum(np.log1p(squares / nu)))

        now = fit(self.nu)
        for step in DEGREE_STEPS:
            other = self.nu * float(np.exp(step * self.rng.normal()))
            if low <= other <= high and np.log(self.rng.random()) < (then := fit(other)) - now:
                self.nu, now = other, then
        self.w = self.rng.gamma((self.nu + 1.0) / 2.0, size=n) / ((self.nu + squares) / 2.0)

    def draw_sizes(self) -> None:
        """Draw g, h, their shapes, and base, given the weighted squares of the deviations."""
        (d1, D), i, j = self.table.shape, self.table.model, self.table.context
        squares = self.w * self.delta**2
        by_model = np.bincount(i, squares * self.h[j], d1) / self.base
        self.g = self.rng.gamma((self.c + self.rows) / 2.0) / ((self.c + by_model) / 2.0)
        self.c = 2.0 * self._draw_shape(self.g, self.shapes)
        by_context = np.bincount(j, squares * self.g[i], D) / self.base
        self.h = self.rng.gamma(self.a + self.columns / 2.0) / (self.a + by_context / 2.0)
        self.a = self._draw_shape(self.h, self.wide)
        if not (self.noise_known or self.noise_estimated):
            degrees = self.config.noise_degrees
            total = float(np.sum(squares * self.g[i] * self.h[j])) + degrees * self.config.noise_size * self.unit
            self.base = max(total / 2.0 / self.rng.gamma((self.table.n_entries + degrees) / 2.0), LEAST * self.unit)

    def draw_base(self) -> None:
        """Draw base given residuals, whatever their deviations: Metropolis steps of log base.

        Where deviations are small against noise, base moves little given them, and may be nothing: its prior has the
        density base^(power - 1) near zero, and the tails of a half Cauchy root.
        """
        residual, s = self.z - self.shared(), self.noise_variance()
        relative = self.deviation_variance() / self.base

        def fit(base: float) -> float:
            variance = base * relative + s
            ratio = base / (self.config.noise_size * self.unit)
            prior = self.config.power * np.log(ratio) - np.log1p(ratio)
            return float(-0.5 * np.sum(np.log(variance) + residual**2 / variance) + prior)

        now = fit(self.base)
        for step in BASE_STEPS:
            other = max(self.base * float(np.exp(step * self.rng.normal())), LEAST * self.unit)
            then = fit(other)
            if np.log(self.rng.random()) < then - now:
                self.base, now = other, then

    def draw_shares(self) -> None:
        """Polya-Gamma weights of binomial shares: given them, k of n right answers are a normal logit.

        omega ~ PG(n, eta), then (k - n / 2) / omega ~ N(eta, 1 / omega) [Polson, Scott & Windle 2013]. PG(n, eta) is
        drawn as the gamma distribution of the same mean and variance.
        """
        n, share = self.table.worth, self.table.share
        assert n is not None and share is not None and self.noise is not None
        stretch = self.stretch[self.table.context]
        mean, variance = polya_gamma_moments(n, (self.shared() + self.delta) / stretch)
        omega = self.rng.gamma(mean**2 / variance) * variance / mean
        binomial = self.table.scales.bounded[self.table.context]
        sign = self.table.scales.sign[self.table.context]
        self.z = np.where(binomial, stretch * sign * n * (share - 0.5) / omega, self.z)
        self.noise = np.where(binomial, stretch**2 / omega, self.noise)

    def draw_bounds(self) -> None:
        """Draw b_ij where a share is 0 or 1.

        All n answers agree with probability 1 if b_ij = 1, and (1 - p)^n or p^n if not. If b_ij = 1, the entry
        says nothing of factors, nor they of it.
        """
        at, prior, n = self.ends, self.config.beyond, self.table.worth
        assert n is not None and self.noise is not None
        eta = self.shared() + self.delta
        away = -np.copysign(1.0, self.table.mean[at]) * eta[at]
        chance = np.exp(-n[at] * np.logaddexp(0.0, away))
        self.beyond = self.rng.random(at.size) * (prior + (1.0 - prior) * chance) < prior
        left = at[self.beyond]
        self.z[left], self.noise[left] = eta[left], UNSEEN

    def _bound_scores(self, at: Longs) -> Floats:
        """Return draws of z of entries of which only their n equal answers are known: Beta(1/2, n + 1/2)."""
        assert self.table.worth is not None
        share = np.maximum(self.rng.beta(0.5, self.table.worth[at] + 0.5), LEAST)
        return np.asarray(-np.sign(self.table.mean[at]) * logit(share))

    def draw_noise(self) -> None:
        """s_j = s_base / Gamma(shape, shape) given repeated scores and their distances to the entries."""
        D, j = self.table.shape[1], self.table.context
        away = self.table.count * (self.z - self.shared() - self.delta) ** 2
        squares = self.within + np.bincount(j, away, D)
        counts = self.table.spare + self.columns
        k = self.rng.gamma(self.s_shape + counts / 2.0) / (self.s_shape + squares / self.s_base / 2.0)
        self.s_shape = self._draw_shape(k, self.wide)
        total = float(np.sum(squares * k)) + 2.0 * LEAST * self.unit
        self.s_base = total / 2.0 / self.rng.gamma((counts.sum() + 2.0) / 2.0)
        self.s = np.maximum(self.s_base / k, LEAST * self.unit)

    def _fill(self, precision: Floats, target: Floats) -> tuple[Floats, Floats]:
        """Return precisions, and precisions times targets, as matrices (d1, D) with zeros where nothing is known."""
        self.grid[0, self.entry], self.grid[1, self.entry] = precision, precision * target
        return self.grid[0].reshape(self.table.shape), self.grid[1].reshape(self.table.shape)

    def _draw_shape(self, x: Floats, shapes: Floats) -> float:
        """Return one of the shapes, with the probability that x ~ Gamma(shape, shape) gives it."""
        n, logs, total = x.size, float(np.sum(np.log(x))), float(np.sum(x))
        fit = n * (shapes * np.log(shapes) - self.gammas[shapes is self.wide]) + (shapes - 1.0) * logs - shapes * total
        weight = np.exp(fit - fit.max())
        return float(shapes[np.searchsorted(np.cumsum(weight), self.rng.random() * weight.sum())])


def _outer_sums(weight: Floats, rows: Floats) -> Floats:
    """Return sum_j weight_ij rows_j rows_j' for each i, (n, K, K)."""
    K = rows.shape[1]
    outer = (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), K * K)
    return np.asarray((weight @ outer).reshape(len(weight), K, K))


def _draw_normals(A: Floats, b: Floats, rng: np.random.Generator) -> Floats:
    """Return draws from N(A^-1 b, A^-1), for stacks A (n, K, K) and b (n, K)."""
    root = np.linalg.inv(np.linalg.cholesky(A))
    half = root @ b[..., None] + rng.normal(size=(*b.shape, 1))
    return np.asarray((root.transpose(0, 2, 1) @ half)[..., 0])


def polya_gamma_moments(n: Floats, eta: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of the Polya-Gamma distribution PG(n, eta).

    They are n tanh(eta / 2) / (2 eta) and n (sinh eta - eta) / (4 eta^3 cosh^2(eta / 2)).

    >>> [x.round(4).tolist() for x in polya_gamma_moments(np.ones(2), np.array([0.0, 2.0]))]
    [[0.25, 0.1904], [0.0417, 0.0214]]
    """
    small = np.abs(eta) < 1e-2
    x = np.where(small, 1.0, np.abs(eta))
    tanh, sech2 = np.tanh(x / 2.0), 1.0 / np.cosh(np.minimum(x / 2.0, 300.0)) ** 2
    mean = np.where(small, 0.25, tanh / (2.0 * x))
    variance = np.where(small, 1.0 / 24.0, (2.0 * tanh - x * sech2) / (4.0 * x**3))
    return n * mean, n * variance
