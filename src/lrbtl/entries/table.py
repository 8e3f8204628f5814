"""The table that the factor model reads: measured entries on the working scale, with what is known of their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lrbtl.data.observations import Results
from lrbtl.data.scales import WorkingScales
from lrbtl.typing import Bools, Floats, Longs


@dataclass(frozen=True, eq=False)
class EntryTable:
    """Measured entries, one row each, on the working scale.

    Attributes
    ----------
    model, context : arrays (n,)
        Where.
    mean : array (n,)
        Mean of the scores of the entry, weighted by their precision where that is known.
    count : array (n,)
        How many scores it has.
    noise : array (n,) or None
        Variance of the noise of the mean, where variances of scores are known.
    worth, share : arrays (n,) or None
        Where variances are known: how many items a share of what can be reached is worth, and the share.
    within : array (D,)
        Sum over a benchmark's entries of squared differences of repeated scores from their mean.
    spare : array (D,)
        Degrees of freedom of `within`.
    items : array (D,) or None
        Where variances are known, how many items a score of each benchmark is worth: the median of p (1 - p) over the
        variance of a share p. Of real scores it is one over their median variance, on the working scale.
    common : array (D,)
        Variance of noise that all scores of a benchmark share.
    features, feature_group : arrays (d1, p) and (p,)
        What is known of models beforehand, and which columns share a variance.
    scales : WorkingScales
    shape : (d1, D)
    """

    model: Longs
    context: Longs
    mean: Floats
    count: Floats
    noise: Floats | None
    worth: Floats | None
    share: Floats | None
    within: Floats
    spare: Floats
    items: Floats | None
    common: Floats
    features: Floats
    feature_group: Longs
    scales: WorkingScales
    shape: tuple[int, int]

    @classmethod
    def of(cls, results: Results) -> EntryTable:
        """Return the table of some results."""
        cells, D = results.cells, results.n_contexts
        a, u = cells.a.astype(np.int64), cells.context.astype(np.int64)
        times = np.asarray(cells.count, dtype=np.float64)
        worth: Floats | None = None
        raw = np.zeros(times.size)
        variance: Floats | None = None
        if results.variance is None:
            scales = WorkingScales.of(results.scales, cells.y, u)
            z = scales.forward(cells.y, u)
        else:
            scales = WorkingScales.of(results.scales, cells.y, u, edge=0.0)
            bounded = scales.bounded[u]
            raw = np.where(bounded, (cells.y - scales.low[u]) / scales.width[u], 0.5)
            worth, corrected = worth_in_items(raw, results.variance / scales.width[u] ** 2)
            z = scales.forward(np.where(bounded, scales.low[u] + scales.width[u] * corrected, cells.y), u)
            variance = np.where(
                bounded, 1.0 / (worth * corrected * (1.0 - corrected)), results.variance / scales.width[u] ** 2
            )
            worth = np.where(bounded, worth, 1.0 / variance)
        entry, row = np.unique(a * D + u, return_inverse=True)
        n = len(entry)
        weight = times if variance is None else times / variance
        total = np.bincount(row, weight, n)
        mean = np.bincount(row, weight * z, n) / total
        count: Floats = np.bincount(row, times, n).astype(np.float64)
        model, context = entry // D, entry % D
        items = None
        if worth is not None:
            overall = float(np.median(worth))
            items = np.array([np.median(worth[u == k]) if np.any(u == k) else overall for k in range(D)])
        known = results.features
        of_entries: Floats | None = None
        shares: Floats | None = None
        if worth is not None:
            of_entries = np.bincount(row, times * worth, n).astype(np.float64)
            shares = np.bincount(row, times * worth * raw, n) / of_entries
        return cls(
            model,
            context,
            mean,
            count,
            None if variance is None else 1.0 / total,
            of_entries,
            shares,
            np.bincount(u, times * (z - mean[row]) ** 2, D).astype(np.float64),
            np.bincount(context, count - 1.0, D).astype(np.float64),
            items,
            np.zeros(D) if results.common_variance is None else results.common_variance,
            np.zeros((results.shape[0], 0)) if known is None else known.values,
            np.zeros(0, dtype=np.int64) if known is None else known.group,
            scales,
            (results.shape[0], D),
        )

    @cached_property
    def places(self) -> tuple[Longs, Longs]:
        """Places of models (d1,) and contexts (D,) in an order that their scores give, whatever they are called.

        Contexts are ordered by their sorted scores, models by their scores in the contexts so ordered.
        """
        (d1, D), i, j = self.shape, self.model, self.context
        rows = np.lexsort((self.mean, j))
        start = np.searchsorted(j[rows], np.arange(D + 1))
        of_contexts = [tuple(self.mean[rows[start[u] : start[u + 1]]]) for u in range(D)]
        contexts = _places(of_contexts)
        rows = np.lexsort((contexts[j], i))
        start = np.searchsorted(i[rows], np.arange(d1 + 1))
        of_models = [rows[start[a] : start[a + 1]] for a in range(d1)]
        return _places([tuple(zip(contexts[j[at]], self.mean[at], strict=True)) for at in of_models]), contexts

    def reordered(self) -> tuple[EntryTable, Longs]:
        """Return the table with models, contexts and entries in their places, and the place (n,) of each entry."""
        models, contexts = self.places
        i, j = models[self.model], contexts[self.context]
        rows, at, columns = np.lexsort((j, i)), np.argsort(models), np.argsort(contexts)
        new = replace(
            self,
            model=i[rows],
            context=j[rows],
            mean=self.mean[rows],
            count=self.count[rows],
            noise=None if self.noise is None else self.noise[rows],
            worth=None if self.worth is None else self.worth[rows],
            share=None if self.share is None else self.share[rows],
            within=self.within[columns],
            spare=self.spare[columns],
            items=None if self.items is None else self.items[columns],
            common=self.common[columns],
            features=self.features[at],
            scales=self.scales.some(columns),
        )
        return new, np.argsort(rows)

    @property
    def at_bound(self) -> Bools:
        """Which entries are shares of no items or of all, with known noise."""
        if self.share is None:
            return np.zeros(self.n_entries, dtype=np.bool_)
        ends = (self.share == 0.0) | (self.share == 1.0)
        return np.asarray(ends & self.scales.bounded[self.context])

    @property
    def n_entries(self) -> int:
        """Number of measured entries."""
        return len(self.mean)


def _places(keys: Sequence[tuple[Any, ...]]) -> Longs:
    """Return the place of each key in their order."""
    out = np.empty(len(keys), dtype=np.int64)
    out[sorted(range(len(keys)), key=lambda k: (len(keys[k]), keys[k]))] = np.arange(len(keys))
    return out


def worth_in_items(share: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return how many items shares of a known variance are worth, and the shares with half an item more on each side.

    n = q (1 - q) / variance with q = (n share + 1/2) / (n + 1), which is inside (0, 1): at the ends, too, logits and
    their variances 1 / (n q (1 - q)) are finite.

    >>> [x.round(2).tolist() for x in worth_in_items(np.array([0.5, 0.0]), np.array([0.0025, 0.5 / 100**2]))]
    [[100.0, 99.25], [0.5, 0.0]]
    """
    n = np.ones_like(share)
    for _ in range(60):
        q = (n * share + 0.5) / (n + 1.0)
        n = np.clip(np.sqrt(n * q * (1.0 - q) / variance), 1.0, 1e9)
    return n, np.asarray((n * share + 0.5) / (n + 1.0))
