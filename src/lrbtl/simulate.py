"""Simulated truths and battles, for tests, power studies and examples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lrbtl.battles import Battles
from lrbtl.completion import Observations
from lrbtl.design import every_entry
from lrbtl.errors import SimulationError
from lrbtl.links import Link
from lrbtl.sampling import Sampling, UniformSampling, n_contexts
from lrbtl.ties import as_link
from lrbtl.tucker import centre, check_rank, mode_product

Floats = NDArray[np.float64]
Shape = tuple[int, ...]
Ints = NDArray[np.integer[Any]]
Drawn = tuple[Ints, Ints, Ints, Floats, Ints | None]


def simulate_scores(
    shape: Shape, rank: int | tuple[int, ...], *, scale: float, rng: int | np.random.Generator | None = None
) -> Floats:
    """Return scores (d1, ..., dm) of the given Tucker rank, zero-sum along mode 1, with max|scores| = scale.

    Order 2 is Θ Aᵀ with standard normal Θ, A [Li26, sec:simulations]; order 3 and more multiplies a standard normal
    core by standard normal factors.

    Parameters
    ----------
    shape : tuple of int
        (d1, d2, ..., dm): models, then contexts.
    rank : int or tuple of int
        One rank for all modes, lowered in modes that allow less, or one rank per mode.
    scale : float
        Largest absolute score.
    rng : int, Generator or None
        Source of randomness.

    Examples
    --------
    >>> import numpy as np
    >>> import lrbtl
    >>> scores = lrbtl.simulate_scores((20, 8), 2, scale=3.0, rng=0)
    >>> scores.shape, int(np.linalg.matrix_rank(scores)), float(abs(scores).max().round(6))
    ((20, 8), 2, 3.0)
    """
    shape = tuple(int(d) for d in shape)
    if not shape or shape[0] < 2 or min(shape) < 1:
        raise SimulationError(f"Shape {shape} needs at least two models and one level in each context mode.")
    if not (math.isfinite(scale) and scale > 0):
        raise SimulationError(f"`scale` is the largest absolute score and must be positive, not {scale!r}.")
    ranks = check_rank(rank, shape)
    generator = np.random.default_rng(rng)
    scores = np.eye(ranks[0]) if len(shape) == 2 else generator.standard_normal(ranks)
    for mode, (d, r) in enumerate(zip(shape, ranks, strict=True)):
        scores = mode_product(scores, generator.standard_normal((d, r)), mode)
    scores = centre(scores)
    return np.asarray(scores * (scale / np.abs(scores).max()))


def simulate_battles(
    scores: ArrayLike, n: int, *, sampling: Sampling | None = None, rng: int | np.random.Generator | None = None
) -> Battles:
    """Return n independent battles with P(a beats b at u) = σ(scores[a, u] - scores[b, u]).

    With at least as many battles as atoms (context, {a, b}) the counts of the atoms are drawn directly, so the time
    depends on the number of atoms, not on n.

    Parameters
    ----------
    scores : (d1, d2, ..., dm) array_like
        True scores.
    n : int
        Number of battles.
    sampling : Sampling, optional
        Law of the battles shown; uniform when None.
    rng : int, Generator or None
        Source of randomness.

    Examples
    --------
    >>> import lrbtl
    >>> scores = lrbtl.simulate_scores((20, 8), 2, scale=3.0, rng=0)
    >>> battles = lrbtl.simulate_battles(scores, 1000, rng=1)
    >>> battles.shape, battles.n_battles
    ((20, 8), 1000)
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim == 0 or scores.shape[0] < 2 or not np.all(np.isfinite(scores)):
        raise SimulationError("`scores` must be a finite array whose first axis holds at least two models.")
    if n < 1:
        raise SimulationError(f"`n` is the number of battles and must be at least 1, not {n!r}.")
    law = UniformSampling() if sampling is None else sampling
    generator = np.random.default_rng(rng)
    shape = scores.shape
    flat = scores.reshape(shape[0], -1)
    dense = math.comb(shape[0], 2) * n_contexts(shape) <= n
    draw = _draw_counts if dense else _draw_battles
    context, a, b, y, counts = draw(flat, n, law, shape, generator)
    contexts = np.unravel_index(context, shape[1:]) if len(shape) > 1 else ()
    width = len(str(shape[0] - 1))
    return Battles.from_arrays(
        a, b, y, contexts, models=[f"model_{i:0{width}d}" for i in range(shape[0])], n_levels=shape[1:], counts=counts
    )


def simulate_observations(
    scores: ArrayLike,
    n: int,
    *,
    link: str | Link = "identity",
    variance: ArrayLike = 1.0,
    sampling: Sampling | None = None,
    known: bool = False,
    rng: int | np.random.Generator | None = None,
) -> Observations:
    """Return n independent observations of entries of a tensor, with replacement.

    Parameters
    ----------
    scores : (d1, ..., dm) array_like
        True entries.
    n : int
    link : "identity", "logistic", "probit" or a binary Link
        Real values with Gaussian noise, or zeros and ones.
    variance : number or array of the scores' shape
        Of the noise, for the identity link.
    sampling : Sampling, optional
        Law of the entries; uniform when None.
    known : bool
        Whether the observations come with their variances.
    rng : int, Generator or None

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.simulate_observations([[1.0, 2.0], [3.0, 4.0]], 10, rng=0)
    Observations(shape=(2, 2), n_observations=10, n_cells=10)
    """
    truth = np.asarray(scores, dtype=np.float64)
    generator, law = np.random.default_rng(rng), UniformSampling() if sampling is None else sampling
    atoms = every_entry(truth.shape)
    p = law.weights(atoms, truth.shape)
    drawn = generator.choice(len(p), size=n, p=p / p.sum())
    index = np.unravel_index(atoms.a[drawn] * n_contexts(truth.shape) + atoms.context[drawn], truth.shape)
    response = as_link(link)
    mean = response.mean(truth[index])
    if response.name != "identity":
        values = (generator.random(n) < mean).astype(np.float64)
        return Observations.from_arrays(tuple(index), values, shape=truth.shape)
    noise = np.broadcast_to(np.asarray(variance, dtype=float), truth.shape)[index]
    values = mean + np.sqrt(noise) * generator.normal(size=n)
    return Observations.from_arrays(tuple(index), values, shape=truth.shape, variance=noise if known else None)


def _draw_battles(flat: Floats, n: int, law: Sampling, shape: Shape, generator: np.random.Generator) -> Drawn:
    """Return context, a, b, y and count (one each) of n battles drawn one by one."""
    context, a, b = law.draw(n, shape, generator)
    y = (generator.random(n) < _win_probability(flat, context, a, b)).astype(np.float64)
    return context, a, b, y, None


def _draw_counts(flat: Floats, n: int, law: Sampling, shape: Shape, generator: np.random.Generator) -> Drawn:
    """Return context, a, b, y and count of the cells of n battles, from multinomial and binomial counts per atom."""
    d1, n_context = flat.shape
    first, second = np.triu_indices(d1, 1)
    p = law.table(shape).reshape(d1, d1, n_context)[first, second]
    pair, context = np.nonzero(p)
    weights = p[pair, context]
    shown = generator.multinomial(n, weights / weights.sum())
    a, b = first[pair], second[pair]
    wins = generator.binomial(shown, _win_probability(flat, context, a, b))
    y = np.repeat([1.0, 0.0], wins.size)
    counts = np.concatenate([wins, shown - wins])
    keep = np.flatnonzero(counts)
    atom = keep % wins.size
    return context[atom], a[atom], b[atom], y[keep], counts[keep]


def _win_probability(flat: Floats, context: Ints, a: Ints, b: Ints) -> Floats:
    """Return σ(η) as (1 + tanh(η/2)) / 2, which overflows for no η."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * (flat[a, context] - flat[b, context])))
