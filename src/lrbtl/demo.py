"""The embedded demo: a simulated arena that shows every feature. No real model was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from lrbtl.battles import Battles
from lrbtl.sampling import ProductSampling
from lrbtl.simulate import simulate_battles

Floats = NDArray[np.float64]

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
    >>> from lrbtl.demo import demo_battles
    >>> demo_battles().shape
    (40, 8)
    """
    rng = np.random.default_rng(SEED)
    models = (*[f"{family}-{size}" for family in FAMILIES for size in SIZES][:-2], NEWCOMER)
    scores = demo_scores(len(models), rng)
    popularity = rng.dirichlet(np.full(len(models) - 1, 4.0))
    share = np.append(popularity * (1 - NEWCOMER_BATTLES / 2 / N_BATTLES), NEWCOMER_BATTLES / 2 / N_BATTLES)
    battles = simulate_battles(scores, N_BATTLES, sampling=ProductSampling(share, np.array(TRAFFIC)), rng=rng)
    battles = replace(battles, models=models, levels=(CATEGORIES,), names=("category",))
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
    return replace(with_ties, names=battles.names)


def _unbeaten_battles(rng: np.random.Generator) -> Battles:
    """Return a few wins of a model that never lost, against large models, at least one in each category."""
    rivals = [f"{family}-{size}" for family in FAMILIES[:6] for size in SIZES[2:]]
    battles = Battles.from_arrays(
        [UNBEATEN] * UNBEATEN_WINS,
        [str(name) for name in rng.choice(rivals, UNBEATEN_WINS)],
        [1.0] * UNBEATEN_WINS,
        [np.resize(CATEGORIES, UNBEATEN_WINS)],
    )
    return replace(battles, names=("category",))
