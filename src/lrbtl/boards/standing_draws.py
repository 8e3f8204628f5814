"""What is known jointly of models on a board: scores, their covariance, and draws of what they may be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lrbtl.boards.ranking import JointGaps
from lrbtl.boards.result_boards import index_draws
from lrbtl.data.observations import Results
from lrbtl.entries.method import FactorRun
from lrbtl.errors import make_rng
from lrbtl.inference.always_valid import Validity
from lrbtl.inference.analysis import Analysis
from lrbtl.inference.estimate import ELO
from lrbtl.inference.joint import covariance_factor
from lrbtl.typing import Bools, Floats, Longs, Seed

DRAWS = 10_000  # of normal vectors: probabilities have a simulation error of 0.005 at most


@dataclass(frozen=True, eq=False)
class JointScores:
    """Scores of n models on one board; larger is better.

    Attributes
    ----------
    analysis : Analysis
    weights : array (D,)
        Of the contexts of the board.
    models : array (n,)
        Positions in the analysis.
    score, cov : arrays (n,), (n, n)
        In Elo points, or in the units of results.
    variance_noise : array (n,) or None
        See `Estimate`.
    given : array (S, n) or None
        Draws of a posterior, where the method has them; else they are normal.
    """

    analysis: Analysis
    weights: Floats
    models: Longs
    score: Floats
    cov: Floats
    variance_noise: Floats | None = None
    given: Floats | None = None

    @classmethod
    def of(
        cls, analysis: Analysis, weights: Floats, models: Longs, ranked: Bools | None = None, *, share: bool = False
    ) -> JointScores:
        """Return those of some models; `ranked` are the models whose mean score is zero.

        Of results a single benchmark is on its own scale, and with `share` in per cent of what can be reached.
        """
        results, run = analysis.battles, analysis.run
        if isinstance(results, Results):
            assert isinstance(run, FactorRun)
            single = np.count_nonzero(weights) == 1 and not share
            draws, sign = index_draws(run, results, weights, single=single)
            good = sign * draws[:, models]
            cov = np.cov(good, rowvar=False).reshape(models.size, models.size)
            return cls(analysis, weights, models, good.mean(axis=0), cov, given=good)
        found = analysis.estimate_boards(weights[None], None if ranked is None else ranked[None])[0][models]
        unit = ELO * analysis.log_odds_unit
        return cls(analysis, weights, models, unit * found.working, unit**2 * found.working_cov, found.variance_noise)

    def draws(self, rng: Seed) -> Floats:
        """Return draws (S, n) of the scores: of the posterior, or normal ones with this covariance."""
        if self.given is not None:
            return self.given
        factor = covariance_factor(self.cov)
        normal = make_rng(rng).standard_normal((DRAWS, factor.shape[1]))
        return np.asarray(self.score + normal @ factor.T)

    def gaps(self, level: float, rng: Seed) -> JointGaps:
        """Return errors and joint reach of the gaps of all pairs."""
        return JointGaps.of(
            self.cov, self.variance_noise, level=level, rng=rng, valid=Validity.of(self.analysis.provenance)
        )

    @cached_property
    def known(self) -> Bools:
        """Which models have a score."""
        return np.asarray(np.isfinite(self.score))

    def follow(self, a: Longs, b: Longs) -> Floats:
        """Return by which factors gaps of models a to models b, by place among these, follow true gaps."""
        against, rows = np.zeros((a.size, self.analysis.battles.shape[0])), np.arange(a.size)
        against[rows, self.models[a]] += 1.0
        against[rows, self.models[b]] -= 1.0
        return np.minimum(self.analysis.run.board_shrinkage(self.weights, None, against).shrinkage_factor, 1.0)


def chance_first(draws: Floats) -> Floats:
    """Return the share of draws (S, n) in which each model is the best.

    >>> chance_first(np.array([[2.0, 1.0], [0.0, 1.0], [3.0, 2.0], [1.0, 0.0]])).tolist()
    [0.75, 0.25]
    """
    return np.bincount(draws.argmax(axis=1), minlength=draws.shape[1]) / len(draws)


def chance_top(draws: Floats, k: int) -> Floats:
    """Return the share of draws (S, n) in which each model is among the k best."""
    n = draws.shape[1]
    if k >= n:
        return np.ones(n)
    least = np.partition(draws, n - k, axis=1)[:, n - k]
    return np.asarray((draws >= least[:, None]).mean(axis=0))


def chance_undominated(draws: Floats, cost: Floats) -> Floats:
    """Return the share of draws (S, n) in which no model that costs no more is better.

    >>> chance_undominated(np.array([[1.0, 2.0, 0.5]]), np.array([1.0, 2.0, 3.0])).tolist()
    [1.0, 1.0, 0.0]
    """
    order = np.argsort(cost, kind="stable")
    best = np.maximum.accumulate(draws[:, order], axis=1)
    last = np.searchsorted(cost[order], cost, side="right") - 1  # the dearest model that costs no more
    return np.asarray((draws >= best[:, last]).mean(axis=0))
