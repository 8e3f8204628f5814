"""Small battles, targets and laws on which estimators are compared with dense formulas."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

import lrbtl
import oracle
from lrbtl.fitting.fit import fit
from lrbtl.fitting.low_rank import Fit
from lrbtl.inference.analysis import METHODS
from lrbtl.typing import Floats, Shape
from problems import SMALL_CASES, rebuilt, simulated

Case = tuple[Shape, Shape]
VOTE_METHODS = [name for name, method in METHODS.items() if method.takes_votes]

cases = pytest.mark.parametrize("case", SMALL_CASES, ids=["order1", "order2", "order3"])

all_cases = pytest.mark.parametrize(
    "case", [*SMALL_CASES, ((4, 2, 3, 2), (2, 2, 2, 2))], ids=["order1", "order2", "order3", "order4"]
)

FOLDS = 3


def uneven_law(shape: Shape) -> lrbtl.ProductSampling:
    """A product law far from uniform."""
    rng = np.random.default_rng(5)
    contexts = rng.uniform(1, 3, size=shape[1:])
    models = rng.uniform(1, 3, size=shape[0])
    return lrbtl.ProductSampling(models / models.sum(), contexts / contexts.sum() if len(shape) > 1 else None)


_PROBLEMS: dict[Case, tuple[Floats, lrbtl.Battles, Fit]] = {}


def problem(case: Case) -> tuple[Floats, lrbtl.Battles, Fit]:
    """Battles with ties drawn from an uneven law, and their fit; made once per shape."""
    if case not in _PROBLEMS:
        shape, rank = case
        law = uneven_law(shape)
        truth, battles = simulated(shape, rank, 500, scale=1.2, sampling=law)
        tied = simulated(shape, rank, 40, scale=1.2, seed=3, sampling=law)[1]
        ties = rebuilt(tied, y=np.full(tied.n_cells, 0.5))
        both = battles + ties
        _PROBLEMS[case] = truth, both, fit(both, rank, ridge=0.3)
    return _PROBLEMS[case]


def both_targets(shape: Shape) -> tuple[list[Any], list[oracle.Target]]:
    """Linear and nonlinear targets for the package and, written out by hand, for the oracle."""
    last = tuple(d - 1 for d in shape[1:])
    context = None if len(shape) == 1 else last[0] if len(shape) == 2 else last
    gamma = np.random.default_rng(3).normal(size=shape)
    entry, mean_gap = np.zeros(shape), np.zeros(shape)
    entry[(1, *last)] = 1.0
    mean_gap[0], mean_gap[2] = 1.0, -1.0
    mean_gap /= np.prod(shape[1:])

    def rate(T: Floats) -> float:
        return float(np.mean([expit(T[0] - T[b]) for b in range(1, shape[0])]))

    def rate_slope(T: Floats) -> Floats:
        slope = np.zeros(shape)
        for b in range(1, shape[0]):
            p = expit(T[0] - T[b])
            slope[0] += p * (1 - p)
            slope[b] -= p * (1 - p)
        return slope / (shape[0] - 1) / np.prod(shape[1:]) / (rate(T) * (1 - rate(T)))

    mine = [
        lrbtl.score(1, context),
        lrbtl.gap(0, 2, weights="equal"),
        lrbtl.linear(gamma, label="any"),
        lrbtl.win_rate(0, weights="equal"),
        lrbtl.functional(lambda T: float(np.sum(T**3)), lambda T: 3 * T**2, label="cubes"),
    ]
    theirs = [
        oracle.linear_target(entry),
        oracle.linear_target(mean_gap),
        oracle.linear_target(gamma),
        (lambda T: float(logit(rate(T))), rate_slope),
        (lambda T: float(np.sum(T**3)), lambda T: 3 * T**2),
    ]
    return mine, theirs


def assert_close(found: Any, expected: Any) -> None:
    """Agreement to 1e-9 of the largest entry."""
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


LAWS = {
    "efficient": ("efficient", None),
    "efficient, known law": ("efficient", "known"),
    "whitened, uniform": ("whitened", "uniform"),
    "whitened, known law": ("whitened", "known"),
    "whitened, estimated law": ("whitened", None),
}


def sampling_of(kind: str | None, shape: Shape) -> Any:
    return {None: None, "uniform": lrbtl.UniformSampling(), "known": uneven_law(shape)}[kind]
