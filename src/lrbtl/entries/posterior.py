"""Scores by draws of the factor model: the latent one of any entry, and the one that would be measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from lrbtl.entries.sampler import Draws
from lrbtl.entries.table import EntryTable
from lrbtl.typing import Floats, Longs


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of scores, benchmark by benchmark, on the benchmarks' own scales.

    What a draw adds for itself (deviations of entries without a score, new noise) is stratified: over the S draws each
    entry gets the S quantiles of the normal distribution in an order of its own, which depends on its benchmark only.
    """

    table: EntryTable
    draws: Draws
    seed: int

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return len(self.draws.degrees)

    def latent(self, context: int) -> Floats:
        """Return draws (S, d1) of all models' latent scores on a benchmark: without the noise of a measurement."""
        return self.both(context)[0]

    def measured(self, context: int) -> Floats:
        """Return draws (S, d1) of the scores that one more measurement would give."""
        return self.both(context)[1]

    @property
    def knows_noise(self) -> bool:
        """Whether the noise of scores is separated from real differences of single entries."""
        return self.draws.noise is not None or self.table.items is not None

    def both(self, context: int) -> tuple[Floats, Floats]:
        """Return draws (S, d1) of latent scores, and of scores that one more measurement would give."""
        rng = np.random.default_rng([self.seed, int(self.table.places[1][context])])
        variance = self._deviation_variance(context, rng)
        rows = self._rows(context)
        models, known = self.table.model[rows], self.draws.deviation[:, rows].astype(np.float64)
        shared = self.shared(context)
        if not self.knows_noise:
            own, noise = self._split(variance, models, known, context, rng)
            return self._own_scale(shared + own, context), self._own_scale(shared + own + noise, context)
        own = np.sqrt(variance) * self._strata(rng)
        own[:, models] = known
        latent = shared + own
        if self.table.common[context]:
            latent = latent + np.sqrt(self.table.common[context]) * self._strata(rng)[:, :1]
        if self.draws.noise is not None:
            noise = np.sqrt(self.draws.noise[:, context, None]) * self._strata(rng)
            return self._own_scale(latent, context), self._own_scale(latent + noise, context)
        return self._own_scale(latent, context), self._again(latent, context, rng)

    def shared(self, context: int) -> Floats:
        """Return draws (S, d1) on the working scale of what the factors alone say."""
        loadings = self.draws.loadings[:, context]
        return np.asarray(loadings[:, :1] + np.einsum("sik,sk->si", self.draws.factors, loadings[:, 1:]))

    def _own_scale(self, z: Floats, context: int) -> Floats:
        return self.table.scales.backward(z, np.full(z.shape[-1], context))

    def _deviation_variance(self, context: int, rng: np.random.Generator) -> Floats:
        """Return the variance (S, d1) of a new entry's deviation, with the weight of heavy tails."""
        draws, degrees = self.draws, self.draws.degrees[:, None]
        tails = rng.chisquare(degrees, size=draws.by_model.shape)[:, self.table.places[0]] / degrees
        return np.asarray(draws.by_context[:, context, None] / draws.by_model / tails)

    def _split(
        self, variance: Floats, models: Longs, known: Floats, context: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Return deviations and noise (S, d1), where only their sum is known, and only of measured entries.

        The share of the deviation in their variance may be anything between 0 and 1.
        """
        draws, share = self.draws, rng.random((self.n_draws, 1))
        first, second = self._strata(rng), self._strata(rng)
        own = np.sqrt(share * variance) * first
        size, degrees = draws.by_context[:, context, None] / draws.by_model[:, models], draws.degrees[:, None]
        weight = rng.gamma((degrees + 1.0) / 2.0, size=known.shape) / ((degrees + known**2 / size) / 2.0)
        own[:, models] = share * known + np.sqrt(share * (1.0 - share) * size / weight) * first[:, models]
        return own, np.sqrt((1.0 - share) * variance) * second

    def _again(self, latent: Floats, context: int, rng: np.random.Generator) -> Floats:
        """Return scores (S, d1) of as many items as this benchmark has: binomial shares, or normal real scores."""
        assert self.table.items is not None
        n = float(self.table.items[context])
        if not self.table.scales.bounded[context]:
            return self._own_scale(latent + self._strata(rng) / np.sqrt(n), context)
        low, width = self.table.scales.low[context], self.table.scales.width[context]
        share = (self._own_scale(latent, context) - low) / width
        times = max(1, round(n))
        place = self.table.places[0]
        return np.asarray(low + width * rng.binomial(times, share[:, np.argsort(place)])[:, place] / times)

    def _strata(self, rng: np.random.Generator) -> Floats:
        levels = np.repeat(self._normal_quantiles[:, None], self.table.shape[0], axis=1)
        return rng.permuted(levels, axis=0)[:, self.table.places[0]]

    @cached_property
    def _normal_quantiles(self) -> Floats:
        S = self.n_draws
        return np.asarray(ndtri((np.arange(S) + 0.5) / S))

    def _rows(self, context: int) -> Longs:
        return self._order[self._starts[context] : self._starts[context + 1]]

    @cached_property
    def _order(self) -> Longs:
        return np.lexsort((self.table.places[0][self.table.model], self.table.context))

    @cached_property
    def _starts(self) -> Longs:
        return np.searchsorted(self.table.context[self._order], np.arange(self.table.shape[1] + 1))


def quantiles(draws: Floats, shares: Sequence[float]) -> Floats:
    """Return quantiles of draws (S, n) such that a share of new ones is below them, on average.

    The k-th smallest of S draws is the quantile k / (S + 1).

    >>> quantiles(np.arange(1.0, 100.0)[:, None], [0.5, 0.9]).ravel()
    array([50., 90.])
    """
    return np.asarray(np.quantile(draws, shares, axis=0, method="weibull"))


def central(draws: Floats, level: float) -> Floats:
    """Return the limits (2, n) of central intervals of draws."""
    return quantiles(draws, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
