"""Sampling laws: which battle is shown next, as probabilities of the atoms (context, {a, b})."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from lrbtl.errors import SamplingError, as_floats, check_flag, check_whole, is_within, make_rng, spelled
from lrbtl.typing import AnyInts, Floats, Ints, Longs, Seed, Shape

if TYPE_CHECKING:
    from lrbtl.data.observations import Data


class Atoms(Protocol):
    """Battles by position, such as `Cells`: models a and b in a flat context."""

    @property
    def a(self) -> AnyInts: ...  # noqa: D102
    @property
    def b(self) -> AnyInts: ...  # noqa: D102
    @property
    def context(self) -> AnyInts: ...  # noqa: D102


class Sampling(Protocol):
    """What every sampling law offers; `shape` is (d1, d2, ..., dm) of the battles."""

    def probability(self, cells: Atoms, shape: Shape) -> Floats:
        """Return p(context, {a, b}) of each cell's atom, all positive."""

    def weights(self, cells: Atoms, shape: Shape) -> Floats:
        """Return p(context, {a, b}) of each cell's atom, zero where it is impossible."""

    def draw(self, n: int, shape: Shape, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        """Return flat contexts and the two models, in either order, of n independent battles."""

    def table(self, shape: Shape) -> Floats:
        """Return the dense (d1, d1, d2, ..., dm) table, symmetric in the models, its upper triangle summing to one."""


def n_contexts(shape: Shape) -> int:
    """Return D, the number of contexts: one for order 1."""
    return math.prod(shape[1:])


def of_entries(cells: Atoms) -> bool:
    """Return whether atoms are single entries (b = -1) rather than pairs."""
    return bool(cells.b.size and cells.b[0] < 0)


def reference_probability(shape: Shape, *, entries: bool = False) -> float:
    """Return q = 1 / (D C(d1, 2)), the probability of every atom under uniform sampling; 1 / (D d1) for entries.

    >>> 1 / reference_probability((4, 3))
    18.0
    """
    atoms = n_contexts(shape) * (shape[0] if entries else math.comb(shape[0], 2))
    if not atoms:
        raise SamplingError(f"scores of shape {tuple(shape)} have no {'entries' if entries else 'pairs of models'}.")
    return 1.0 / atoms


@dataclass(frozen=True)
class UniformSampling:
    """Every context and every pair of distinct models equally likely.

    Examples
    --------
    >>> import lrbtl
    >>> float(lrbtl.UniformSampling().table((3, 2))[0, 1, 0].round(4))
    0.1667
    """

    def probability(self, cells: Atoms, shape: Shape) -> Floats:
        """Return q = 1 / (D C(d1, 2)) for each cell, 1 / (D d1) for entries."""
        return np.full(cells.a.size, reference_probability(shape, entries=of_entries(cells)))

    weights = probability

    def draw(self, n: int, shape: Shape, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        """Return flat contexts and the two models, in either order, of n independent battles."""
        context = rng.integers(0, n_contexts(shape), n, dtype=np.int32)
        a = rng.integers(0, shape[0], n, dtype=np.int32)
        b = rng.integers(0, shape[0] - 1, n, dtype=np.int32)
        b += b >= a
        return context, a, b

    def table(self, shape: Shape) -> Floats:
        """Return the dense (d1, d1, d2, ..., dm) table, symmetric in the models."""
        out = np.full((shape[0], *shape), reference_probability(shape))
        out[np.arange(shape[0]), np.arange(shape[0])] = 0.0
        return out


def as_sampling(sampling: Any) -> Sampling:
    """Return a sampling law, the uniform one for None; raise `SamplingError` where it is none.

    >>> as_sampling(None)
    UniformSampling()
    """
    law = UniformSampling() if sampling is None else sampling
    if isinstance(law, type) or not all(callable(getattr(law, name, None)) for name in ("weights", "draw", "table")):
        raise SamplingError(
            f"sampling={spelled(sampling)} is not a sampling law: pass UniformSampling(), ProductSampling(...) or "
            "TableSampling(...).",
            argument="sampling",
            value=sampling,
        )
    found: Sampling = law
    return found


def check_counted(battles: Any) -> None:
    """Raise unless votes or observed entries are given, already counted."""
    if not all(hasattr(battles, name) for name in ("cells", "shape", "models")):
        raise SamplingError(f"battles={spelled(battles)}: give battles or observed entries.")


class _Weighted(ABC):
    """A law under which some atoms may be impossible."""

    @abstractmethod
    def weights(self, cells: Atoms, shape: Shape) -> Floats:
        """Return p(context, {a, b}) of each cell's atom, zero where it is impossible."""

    def probability(self, cells: Atoms, shape: Shape) -> Floats:
        """Return p(context, {a, b}) of each cell's atom.

        Raises
        ------
        SamplingError
            If the law does not fit `shape`, or gives an observed battle probability zero.
        """
        return _require_positive(self.weights(cells, shape), cells)


class ProductSampling(_Weighted):
    """Context and models drawn independently; both models are redrawn while they are equal.

    p(u, {a, b}) = contexts[u] · 2 models[a] models[b] / (1 - Σ models²).

    Parameters
    ----------
    models : (d1,) array_like
        Probability of each model in a single draw; at least two are positive.
    contexts : (d2, ..., dm) array_like or None
        Joint probability of each context; None for battles without contexts.

    Examples
    --------
    >>> import lrbtl
    >>> law = lrbtl.ProductSampling([0.5, 0.3, 0.2], [0.9, 0.1])
    >>> float(law.table((3, 2))[0, 1, 0].round(4))
    0.4355
    """

    models: Floats
    contexts: Floats | None

    def __init__(self, models: ArrayLike, contexts: ArrayLike | None = None) -> None:
        self.models = _law(models, "models")
        if self.models.ndim != 1 or np.count_nonzero(self.models) < 2:
            raise SamplingError("`models` must be a vector in which at least two models have positive probability.")
        self.contexts = None if contexts is None else _law(contexts, "contexts")

    def __repr__(self) -> str:
        levels = "none" if self.contexts is None else " x ".join(map(str, self.contexts.shape))
        return f"ProductSampling({self.models.size} models, contexts: {levels})"

    @classmethod
    def estimate(cls, battles: Data) -> ProductSampling:
        """Return the maximum-likelihood product law of the battles.

        contexts[u] = n_u / N, and with f_a = (battles of a) / 2N the models solve
        f_a = m_a (1 - m_a) / (1 - Σ m²), Σ m = 1. Raw frequencies f are biased, because equal draws are redrawn.
        With two models every law gives the same p; the models are then set to one half each.

        Raises
        ------
        SamplingError
            If a model has no battle, or takes part in every battle: the maximum does not exist.

        Examples
        --------
        >>> import lrbtl
        >>> law = lrbtl.ProductSampling([0.6, 0.3, 0.1])
        >>> battles = lrbtl.simulate_battles([0.0, 0.0, 0.0], 1000, sampling=law, rng=0)
        >>> lrbtl.ProductSampling.estimate(battles).models.round(1)
        array([0.6, 0.3, 0.1])
        """
        check_counted(battles)
        cells, shape = battles.cells, battles.shape
        appearances = np.bincount(cells.a, cells.count, shape[0])
        if not of_entries(cells):
            appearances = appearances + np.bincount(cells.b, cells.count, shape[0])
        frequencies = appearances / appearances.sum()
        _check_frequencies(frequencies, battles.models, of_entries(cells))
        contexts = None
        if len(shape) > 1:
            per_context = np.bincount(cells.context, cells.count, n_contexts(shape))
            contexts = (per_context / per_context.sum()).reshape(shape[1:])
        return cls(frequencies if of_entries(cells) else solve_model_law(frequencies), contexts)

    def fit_test(self, battles: Data, *, draws: int = 199, rng: Seed = 0) -> SamplingTest:
        """Return a test that votes follow this law, against pairs or contexts that go together.

        Pearson's statistics of the pairs (over all contexts) and of models by contexts, against `draws` logs of the
        same size from the law; the p-value is twice the smaller of the two. A law that was estimated from these votes
        is estimated from each log as well.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=1, rng=0), 3000, rng=1)
        >>> bool(lrbtl.ProductSampling.estimate(battles).fit_test(battles).pvalue > 0.01)
        True
        """
        check_counted(battles)
        check_whole(draws, "draws", error=SamplingError)
        cells, shape, generator = battles.cells, battles.shape, make_rng(rng)
        if of_entries(cells):
            raise SamplingError("the fit of a product law is tested for pairs; observed entries have none.")
        n = int(cells.count.sum())
        own, seen = self._is_estimate(battles), _pearson(cells.context, cells.a, cells.b, cells.count, self, shape)
        drawn = np.empty((draws, 2))
        for i in range(draws):
            log = self.draw(n, shape, generator)
            drawn[i] = _pearson(*log, None, _estimated(*log, None, shape) or self if own else self, shape)
        each = (1.0 + (drawn >= seen).sum(axis=0)) / (1.0 + draws)
        both = float(min(1.0, 2.0 * each.min()))
        return SamplingTest(float(seen[0]), float(seen[1]), float(each[0]), float(each[1]), both)

    def _is_estimate(self, battles: Data) -> bool:
        """Whether the law is the estimate from these battles."""
        cells = battles.cells
        found = _estimated(cells.context, cells.a, cells.b, cells.count, battles.shape)
        pairs = [] if found is None else [(found.models, self.models), (found.contexts, self.contexts)]
        return bool(pairs) and all(
            x is not None and y is not None and x.shape == y.shape and np.allclose(x, y, rtol=1e-6, atol=1e-12)
            for x, y in pairs
            if x is not y
        )

    def weights(self, cells: Atoms, shape: Shape) -> Floats:
        """Return p(context, {a, b}) of each cell's atom, zero where it is impossible."""
        pi, m = self._context_law(shape), self.models
        if of_entries(cells):
            return np.asarray(pi[cells.context] * m[cells.a])
        return np.asarray(pi[cells.context] * (2.0 * m[cells.a] * m[cells.b] / self._distinct().sum()))

    def draw(self, n: int, shape: Shape, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        """Return flat contexts and the two models, in either order, of n independent battles."""
        pi, m = self._context_law(shape), self.models
        context = _draw_codes(pi, n, rng)
        a = _draw_codes(self._distinct(), n, rng)
        # b given a by inversion of the cdf from which a's own interval [before, before + m_a) is cut out
        cdf = np.cumsum(m)
        before = cdf - m
        point = rng.random(n) * (cdf[-1] - m[a])
        point += np.where(point >= before[a], m[a], 0.0)
        b = np.searchsorted(cdf, point, side="right").astype(np.int32)
        lost = (b >= m.size) | (b == a)  # rounding at the edge of an interval
        heaviest = np.argsort(m)[::-1]
        b[lost] = np.where(a[lost] == heaviest[0], heaviest[1], heaviest[0])
        return context, a, b

    def table(self, shape: Shape) -> Floats:
        """Return the dense (d1, d1, d2, ..., dm) table, symmetric in the models."""
        pi = self._context_law(shape)
        pairs = 2.0 * np.outer(self.models, self.models) / self._distinct().sum()
        np.fill_diagonal(pairs, 0.0)
        return np.asarray(np.multiply.outer(pairs, pi)).reshape(shape[0], *shape)

    def _distinct(self) -> Floats:
        """Return m_a (1 - m_a), the chance that the first draw is a and the second is not."""
        others = self.models.sum() - self.models
        top = int(np.argmax(self.models))
        others[top] = np.delete(self.models, top).sum()
        return np.asarray(self.models * others)

    def _context_law(self, shape: Shape) -> Floats:
        expected = () if self.contexts is None else self.contexts.shape
        if (self.models.size, *expected) != tuple(shape):
            raise SamplingError(
                f"The sampling law is for {(self.models.size, *expected)} (models, contexts...), the battles have "
                f"shape {tuple(shape)}; give one probability per model and one per context."
            )
        return np.ones(1) if self.contexts is None else self.contexts.ravel()


class TableSampling(_Weighted):
    """A known law: a table of p(u, {a, b}).

    Parameters
    ----------
    table : (d1, d1, d2, ..., dm) array_like
        table[a, b, u] = table[b, a, u] = p(u, {a, b}): symmetric in the models, zero where a = b, and the entries with
        a < b sum to one. For observed entries: (d1, ..., dm), summing to one.
    entries : bool
        Whether the law is one of observed entries rather than of pairs.

    Examples
    --------
    >>> import numpy as np
    >>> import lrbtl
    >>> law = lrbtl.TableSampling(np.array([[0.0, 0.7, 0.3], [0.7, 0.0, 0.0], [0.3, 0.0, 0.0]]))
    >>> law
    TableSampling(3 models, contexts: none)
    """

    def __init__(self, table: ArrayLike, *, entries: bool = False) -> None:
        check_flag(entries, "entries", SamplingError)
        values = as_floats(table, "`table`", SamplingError)
        self.entries = entries
        if entries:
            self._table = _law(values, "table")
            return
        if values.ndim < 2 or values.shape[0] != values.shape[1] or values.shape[0] < 2:
            raise SamplingError(f"A table of shape {values.shape} is not (d1, d1, d2, ..., dm), d1 >= 2.")
        diagonal = np.arange(values.shape[0])
        symmetric = np.allclose(values, values.swapaxes(0, 1), rtol=1e-10, atol=0.0)
        if not symmetric or np.any(values[diagonal, diagonal] != 0.0):
            raise SamplingError("The table must be symmetric in the two models and zero where a model meets itself.")
        self._table = 2.0 * _law(values / 2.0, "table")
        self._table.setflags(write=False)

    @classmethod
    def estimate(cls, battles: Data, *, prior_votes: float | None = None) -> TableSampling:
        """Return a law with a probability of its own for each pair, shrunk to the product law.

        p(u, {a, b}) = n_u / N · (n_ab + k m_ab) / (N + k), m the product law of pairs and k the votes that it counts
        as. By default k has the largest likelihood of pair counts under a Dirichlet prior with mean m.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=1, rng=0), 3000, rng=1)
        >>> lrbtl.TableSampling.estimate(battles)
        TableSampling(6 models, contexts: 3)
        """
        check_counted(battles)
        if prior_votes is not None and not (
            is_within(prior_votes, -1e-12, np.inf) or (isinstance(prior_votes, float) and prior_votes == np.inf)
        ):
            raise SamplingError(f"prior_votes={spelled(prior_votes)}: give a number of at least 0, or None.")
        cells, shape = battles.cells, battles.shape
        if of_entries(cells):
            raise SamplingError("pair tables are for battles; give a law of entries as a table.")
        product = ProductSampling.estimate(battles)
        d1, n = shape[0], float(cells.count.sum())
        a, b = np.triu_indices(d1, 1)
        mean = 2.0 * product.models[a] * product.models[b] / (1.0 - np.sum(product.models**2))
        mean = mean / mean.sum()
        counts = np.bincount(_pair_numbers(cells.a, cells.b, d1), cells.count, d1 * d1)[a * d1 + b]
        k = _prior_votes(counts, mean) if prior_votes is None else float(prior_votes)
        pairs = np.zeros((d1, d1))
        pairs[a, b] = pairs[b, a] = mean if np.isinf(k) else (counts + k * mean) / (n + k)
        contexts = np.ones(()) if product.contexts is None else product.contexts
        return cls(np.multiply.outer(pairs, contexts))

    def __repr__(self) -> str:
        if self.entries:
            return f"TableSampling({' x '.join(map(str, self._table.shape))} entries)"
        levels = " x ".join(map(str, self._table.shape[2:])) or "none"
        return f"TableSampling({self._table.shape[0]} models, contexts: {levels})"

    def weights(self, cells: Atoms, shape: Shape) -> Floats:
        """Return p(context, {a, b}) of each cell's atom, zero where it is impossible."""
        if of_entries(cells) != self.entries:
            kind = "observed entries" if self.entries else "pairs"
            raise SamplingError(f"the sampling table is one of {kind}; give TableSampling(..., entries=...) that fits.")
        if self.entries:
            return np.asarray(self.table(shape).reshape(shape[0], -1)[cells.a, cells.context])
        flat = self.table(shape).reshape(shape[0], shape[0], -1)
        return np.asarray(flat[cells.a, cells.b, cells.context])

    def draw(self, n: int, shape: Shape, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        """Return flat contexts and the two models, in either order, of n independent battles."""
        atoms = _draw_codes(self.table(shape).ravel(), n, rng)
        a, b, context = np.unravel_index(atoms, (shape[0], shape[0], n_contexts(shape)))
        return context.astype(np.int32), a.astype(np.int32), b.astype(np.int32)

    def table(self, shape: Shape) -> Floats:
        """Return the dense (d1, d1, d2, ..., dm) table, symmetric in the models."""
        fits = self._table.shape if self.entries else self._table.shape[1:]
        if fits != tuple(shape):
            raise SamplingError(f"The sampling table is for shape {fits}, the battles have shape {tuple(shape)}.")
        return self._table


@dataclass(frozen=True)
class SamplingTest:
    """Whether votes follow a sampling law: Pearson's statistics with their p-values, and one p-value for both."""

    pairs: float
    contexts: float
    pairs_pvalue: float
    contexts_pvalue: float
    pvalue: float


def _estimated(context: AnyInts, a: AnyInts, b: AnyInts, count: AnyInts | None, shape: Shape) -> ProductSampling | None:
    """Return the product law of battles; a model without any has probability zero. None where one model is in all."""
    seen = np.bincount(a, count, shape[0]) + np.bincount(b, count, shape[0])
    frequencies = seen / seen.sum()
    if shape[0] > 2 and frequencies.max() >= 0.5:
        return None
    share = np.bincount(context, count, n_contexts(shape)).reshape(shape[1:])
    return ProductSampling(solve_model_law(frequencies), share / share.sum() if len(shape) > 1 else None)


def _pair_numbers(a: AnyInts, b: AnyInts, d1: int) -> Longs:
    """Return a d1 + b of pairs with the smaller model first."""
    return np.asarray(np.minimum(a, b).astype(np.int64) * d1 + np.maximum(a, b))


def _pearson(
    context: AnyInts, a: AnyInts, b: AnyInts, count: AnyInts | None, law: ProductSampling, shape: Shape
) -> Floats:
    """Return the sums of (observed - expected)^2 / expected over pairs, and over models by contexts."""
    d1, D = shape[0], n_contexts(shape)
    n = float(len(a) if count is None else count.sum())
    mass = law.models * (1.0 - law.models)
    share, pi = mass / mass.sum(), law.contexts.ravel() if law.contexts is not None else np.ones(1)
    i, j = np.triu_indices(d1, 1)
    pairs = np.bincount(_pair_numbers(a, b, d1), count, d1 * d1)[i * d1 + j]
    expected = n * 2.0 * law.models[i] * law.models[j] / mass.sum()
    places = np.concatenate([np.asarray(side) * D + context for side in (a, b)])
    twice = None if count is None else np.tile(count, 2)
    table = np.bincount(places, twice, d1 * D).reshape(d1, D)
    mean = 2.0 * n * np.outer(share, pi)
    known = expected > 0
    square = np.divide((table - mean) ** 2, mean, out=np.zeros_like(mean), where=mean > 0)
    return np.array([np.sum((pairs[known] - expected[known]) ** 2 / expected[known]), square.sum()])


def _prior_votes(counts: Floats, mean: Floats) -> float:
    """Return the k with the largest Dirichlet-multinomial likelihood of counts at a Dirichlet(k mean); inf for none.

    >>> _prior_votes(np.array([50.0, 50.0]), np.array([0.5, 0.5]))
    inf
    """
    from scipy.optimize import minimize_scalar  # a slow import that few need

    n = counts.sum()

    def loss(log_k: float) -> float:
        k = np.exp(log_k)
        total = gammaln(k) - gammaln(n + k) + np.sum(gammaln(counts + k * mean) - gammaln(k * mean))
        return -float(total)

    low, high = np.log(len(counts)), np.log(1e4 * n)
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-3})
    plain = -float(counts @ np.log(np.maximum(mean, 1e-300)))
    return float("inf") if loss(high) <= found.fun + 1e-9 or plain <= found.fun else float(np.exp(found.x))


def solve_model_law(frequencies: Floats) -> Floats:
    """Return m with f_a = m_a (1 - m_a) / (1 - Σ m²) and Σ m = 1, for frequencies 0 < f_a < 1/2 that sum to one.

    With t the m of the most frequent model and k = t (1 - t) / f_max, every other m_a is the small root of
    m (1 - m) = k f_a; the one unknown t solves (2t / f_max) Σ_others f_a / (1 + s_a) = 1, whose left side increases
    from 0 to (1 - f_max) / f_max > 1. Two models leave m free: one half each.

    >>> m = np.array([0.5, 0.3, 0.2])
    >>> solve_model_law(m * (1 - m) / (1 - m @ m)).round(6)
    array([0.5, 0.3, 0.2])
    """
    from scipy.optimize import brentq  # a slow import that few need

    if frequencies.size == 2:
        return np.full(2, 0.5)
    top = int(np.argmax(frequencies))
    f_max, f = frequencies[top], np.delete(frequencies, top)

    def one_plus_root(t: float) -> Floats:
        # s = sqrt(1 - 4 k f), written so that f close to f_max at t = 1/2 loses no digits
        return np.asarray(1.0 + np.sqrt((1.0 - 2.0 * t) ** 2 + 4.0 * t * (1.0 - t) * (f_max - f) / f_max))

    def excess(t: float) -> float:
        return float(2.0 * t / f_max * np.sum(f / one_plus_root(t)) - 1.0)

    t = float(brentq(excess, 0.0, 1.0, xtol=1e-15))
    others = 2.0 * t * (1.0 - t) / f_max * f / one_plus_root(t)
    law = np.insert(others, top, t)
    return np.asarray(law / law.sum())


def _check_frequencies(frequencies: Floats, names: Sequence[object], entries: bool) -> None:
    absent = np.flatnonzero(frequencies == 0.0)
    if absent.size:
        shown = ", ".join(repr(names[i]) for i in absent[:5])
        raise SamplingError(
            f"{absent.size} model(s) have no battle ({shown}), so their sampling probability cannot be estimated; "
            "drop them with `battles.select(...)` or give the law yourself."
        )
    always = np.flatnonzero(frequencies >= 0.5)
    if not entries and frequencies.size > 2 and always.size:
        raise SamplingError(
            f"Model {names[always[0]]!r} takes part in every battle, so no product law fits best; "
            "give the law as a TableSampling."
        )


def _law(values: ArrayLike, name: str) -> Floats:
    law = as_floats(values, f"`{name}`", SamplingError)
    if not np.all(np.isfinite(law)) or np.any(law < 0.0):
        raise SamplingError(f"`{name}` contains a negative or non-finite probability.")
    total = float(law.sum())
    if not math.isclose(total, 1.0, rel_tol=1e-8):
        raise SamplingError(f"The probabilities in `{name}` sum to {total:.10g} instead of 1; divide by their sum.")
    law /= total
    law.setflags(write=False)
    return law


def _draw_codes(weights: Floats, n: int, rng: np.random.Generator) -> Ints:
    cdf = np.cumsum(weights)
    cdf /= cdf[-1]
    return np.searchsorted(cdf, rng.random(n), side="right").astype(np.int32)


def _require_positive(p: Floats, cells: Atoms) -> Floats:
    impossible = np.flatnonzero(~(p > 0.0))
    if impossible.size:
        i = impossible[0]
        a, b, u = cells.a[i], cells.b[i], cells.context[i]
        first = f"row {a}, column {u}" if of_entries(cells) else f"models {a} and {b} in context {u}"
        raise SamplingError(
            f"The sampling law gives probability zero to {impossible.size} observed cell(s), the first being {first} "
            "(codes); correct the law or drop them."
        )
    return p
