"""Simulated truths and battles, for tests, power studies and examples."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from lrbtl.data.battles import Battles
from lrbtl.data.covariates import MOST_VOTES
from lrbtl.data.observations import Results
from lrbtl.errors import (
    SimulationError,
    TooLargeError,
    as_floats,
    check_flag,
    check_whole,
    is_within,
    make_rng,
    spelled,
)
from lrbtl.lowrank.tucker import centre, check_rank, mode_product
from lrbtl.model.links import Link, as_link
from lrbtl.model.sampling import ProductSampling, Sampling, as_sampling, n_contexts
from lrbtl.options import strict
from lrbtl.typing import AnyInts, Floats, Seed, Shape

Drawn = tuple[AnyInts, AnyInts, AnyInts, Floats, AnyInts | None]


@strict
def simulate_scores(shape: Shape, rank: int | tuple[int, ...], *, scale: float, rng: Seed = None) -> Floats:
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
    shape = _check_shape(shape)
    if not shape or shape[0] < 2 or min(shape) < 1:
        raise SimulationError(f"Shape {shape} needs at least two models and one level in each context mode.")
    if not is_within(scale, 0.0, math.inf):
        raise SimulationError(f"`scale` is the largest absolute score and must be positive, not {scale!r}.")
    check_room(math.prod(shape), f"scores of shape {shape}")
    ranks = check_rank(rank, shape)
    generator = make_rng(rng)
    scores = np.eye(ranks[0]) if len(shape) == 2 else generator.standard_normal(ranks)
    for mode, (d, r) in enumerate(zip(shape, ranks, strict=True)):
        scores = mode_product(scores, generator.standard_normal((d, r)), mode)
    scores = centre(scores)
    return np.asarray(scores * (scale / np.abs(scores).max()))


MOST_NUMBERS = 1 << 28  # that are made at once: 2 GB


def check_room(numbers: int, what: str) -> None:
    """Raise `TooLargeError` before more numbers are asked for than memory should hold."""
    if numbers > MOST_NUMBERS:
        raise TooLargeError(f"{what} take {numbers:,} numbers at once; the most are {MOST_NUMBERS:,}: simulate fewer.")


def _check_shape(shape: Any) -> tuple[int, ...]:
    try:
        return tuple(int(d) for d in shape)
    except (TypeError, ValueError) as error:
        raise SimulationError(f"shape={shape!r}: give the number of models, then of levels in each mode.") from error


@strict
def simulate_battles(scores: ArrayLike, n: int, *, sampling: Sampling | None = None, rng: Seed = None) -> Battles:
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
    scores = as_floats(scores, "scores", SimulationError)
    if scores.ndim == 0 or scores.shape[0] < 2 or not np.all(np.isfinite(scores)):
        raise SimulationError("`scores` must be a finite array whose first axis holds at least two models.")
    check_whole(n, "n", error=SimulationError)
    if n >= MOST_VOTES:
        raise SimulationError(f"n={spelled(n)}: give fewer than 2**43 battles.")
    law, generator = as_sampling(sampling), make_rng(rng)
    shape = scores.shape
    flat = scores.reshape(shape[0], -1)
    dense = math.comb(shape[0], 2) * n_contexts(shape) <= n
    check_room(shape[0] * scores.size if dense else n, f"{n:,} battles of shape {shape}")
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
    rng: Seed = None,
) -> Results:
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
    Results(shape=(2, 2), n_observations=10, n_cells=10)
    """
    truth = as_floats(scores, "scores", SimulationError)
    if not truth.size or not np.all(np.isfinite(truth)):
        raise SimulationError("`scores` must be a finite array with at least one mode.")
    truth = np.atleast_1d(truth)
    noises = as_floats(variance, "`variance`", SimulationError)
    if noises.shape not in ((), truth.shape) or not np.all(np.isfinite(noises) & (noises >= 0)):
        raise SimulationError(f"`variance` must be one number, not negative, or an array of shape {truth.shape}.")
    check_flag(known, "known", SimulationError)
    check_whole(n, "n", error=SimulationError)
    check_room(n, f"{n:,} observations")
    generator, law = make_rng(rng), as_sampling(sampling)
    atoms = _every_entry(truth.shape)
    p = law.weights(atoms, truth.shape)
    drawn = generator.choice(len(p), size=n, p=p / p.sum())
    index = np.unravel_index(atoms.a[drawn] * n_contexts(truth.shape) + atoms.context[drawn], truth.shape)
    response = as_link(link)
    mean = response.mean(truth[index])
    if response.name != "identity":
        values = (generator.random(n) < mean).astype(np.float64)
        return Results.from_arrays(tuple(index), values, shape=truth.shape)
    noise = np.broadcast_to(noises, truth.shape)[index]
    values = mean + np.sqrt(noise) * generator.normal(size=n)
    return Results.from_arrays(tuple(index), values, shape=truth.shape, variance=noise if known else None)


class _Entries(NamedTuple):
    """Entries by position: row a in a flat context; there is no b."""

    context: AnyInts
    a: AnyInts
    b: AnyInts


def _every_entry(shape: Shape) -> _Entries:
    """Return every entry once, context by context."""
    n = n_contexts(shape)
    a = np.tile(np.arange(shape[0]), n)
    return _Entries(np.repeat(np.arange(n), shape[0]), a, np.full_like(a, -1))


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


def _win_probability(flat: Floats, context: AnyInts, a: AnyInts, b: AnyInts) -> Floats:
    """Return σ(η) as (1 + tanh(η/2)) / 2, which overflows for no η."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * (flat[a, context] - flat[b, context])))


# ------------------------------------------------------------------------------
# The embedded demo: a simulated arena that shows every feature. No real model was measured.
# ------------------------------------------------------------------------------

SEED = 2026
N_BATTLES = 40_000
TIE_RATE = 0.6  # of the largest share that leaves the expected outcome as it is
CATEGORIES = ("chat", "coding", "creative writing", "instructions", "long context", "maths", "translation", "vision")
TRAFFIC = (0.34, 0.20, 0.14, 0.11, 0.08, 0.06, 0.04, 0.03)
FAMILIES = ("amber", "basalt", "cobalt", "dune", "ember", "fjord", "garnet", "heron", "iris", "juniper")
SIZES = ("nano", "small", "medium", "large")
NEWCOMER, NEWCOMER_BATTLES = "newcomer-0.1", 60
UNBEATEN, UNBEATEN_WINS = "unbeaten-1", 12


def demo_battles() -> Battles:
    """Return the demo arena: 40 models, 8 categories, uneven traffic, ties, a newcomer and an unbeaten model.

    It is simulated from a fixed seed; names and results are invented.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.demo_battles().shape
    (40, 8)
    """
    rng = np.random.default_rng(SEED)
    models = (*[f"{family}-{size}" for family in FAMILIES for size in SIZES][:-2], NEWCOMER)
    scores = demo_scores(len(models), rng)
    popularity = rng.dirichlet(np.full(len(models) - 1, 4.0))
    share = np.append(popularity * (1 - NEWCOMER_BATTLES / 2 / N_BATTLES), NEWCOMER_BATTLES / 2 / N_BATTLES)
    battles = simulate_battles(scores, N_BATTLES, sampling=ProductSampling(share, np.array(TRAFFIC)), rng=rng)
    battles = replace(battles, models=models, levels=(CATEGORIES,), mode_names=("category",))
    return add_ties(battles, scores, rng) + _unbeaten_battles(rng)


def demo_scores(n_models: int, rng: np.random.Generator) -> Floats:
    """Return scores of rank 3: general skill, with larger models ahead, and two traits that some categories ask for."""
    skill = np.resize([-0.7, -0.2, 0.25, 0.65], n_models) + rng.normal(0.0, 0.35, n_models)
    traits = rng.normal(0.0, 0.35, (n_models, 2))
    technical = np.array([-0.6, 1.2, -1.0, 0.2, 0.3, 1.4, -0.3, 0.1])
    verbal = np.array([0.5, -0.4, 1.3, 0.3, -0.2, -0.6, 0.9, -1.1])
    scores = skill[:, None] + traits @ np.array([technical, verbal])
    return np.asarray(scores - scores.mean(axis=0))


def add_ties(battles: Battles, scores: Floats, rng: np.random.Generator) -> Battles:
    """Return the battles with some wins turned into ties so that the expected outcome σ(η) stays.

    With P(tie) = 2 κ p (1 - p), a win becomes a tie with probability κ (1 - p) and a loss with probability κ p.
    """
    cells = battles.cells
    flat = scores.reshape(len(battles.models), -1)
    p = expit(flat[cells.a, cells.context] - flat[cells.b, cells.context])
    ties = rng.binomial(cells.count, TIE_RATE * np.where(cells.y == 1.0, 1.0 - p, p))
    contexts = np.unravel_index(cells.context, battles.shape[1:]) if battles.levels else ()
    twice = [np.tile(codes, 2) for codes in contexts]
    with_ties = Battles.from_arrays(
        np.tile(cells.a, 2),
        np.tile(cells.b, 2),
        np.concatenate([cells.y, np.full(cells.n_cells, 0.5)]),
        twice,
        models=battles.models,
        levels=battles.levels or None,
        counts=np.concatenate([cells.count - ties, ties]),
    )
    return replace(with_ties, mode_names=battles.mode_names)


def _unbeaten_battles(rng: np.random.Generator) -> Battles:
    """Return a few wins of a model that never lost, against large models, at least one in each category."""
    rivals = [f"{family}-{size}" for family in FAMILIES[:6] for size in SIZES[2:]]
    battles = Battles.from_arrays(
        [UNBEATEN] * UNBEATEN_WINS,
        [str(name) for name in rng.choice(rivals, UNBEATEN_WINS)],
        [1.0] * UNBEATEN_WINS,
        [np.resize(CATEGORIES, UNBEATEN_WINS)],
    )
    return replace(battles, mode_names=("category",))
