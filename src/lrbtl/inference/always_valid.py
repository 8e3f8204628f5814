"""How often results may be looked at: critical values for one look, for planned looks, and for any number of looks.

Every interval, verdict and rank reaches so many standard errors, c at one look. `Validity.reach(c)` is what takes its
place when results are looked at as votes come in, so that a statement is ever wrong as rarely as at one look.

- At any time: the estimate as a process in the number of votes is nearly a Brownian motion, and a normal mixture over
  what it may drift to is a martingale [Robbins 1970; Howard et al. 2021, Time-uniform confidence sequences]. With tail
  p = 2 P(Z > c), n votes and the mixture's precision that of r tuned_at votes, c becomes
  sqrt((1 + r tuned_at / n) (2 log(1 / p) + log(1 + n / (r tuned_at)))); r makes that least at n = tuned_at.
- At K planned looks: the same boundary at each [Pocock 1977]; or, where the votes at the last look are named, the one
  that spends p / K at each of K equally spaced looks [Lan & DeMets 1983], which is lower at the end.

Joint intervals are mapped likewise: c is then the quantile of the largest of many statistics, and p that of each; at
planned looks c is at least that of independent statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, inf, log, sqrt

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from lrbtl.errors import LooksError
from lrbtl.inference.joint import normal_quantile, sidak_quantile
from lrbtl.methods.base import DEFAULT_TUNING, Provenance
from lrbtl.typing import Floats

FARTHEST = 6.5  # standard errors up to which boundaries are integrated; beyond, they keep their distance
GRID = np.array([0.25, 0.6, 1.0, 1.4, 1.8, 2.2, 2.6, 3.0, 3.5, 4.0, 4.5, 5.0, 5.75, FARTHEST])
NODES = 3.0  # of integration, per standard deviation of a step
LATE = 1.0 + 1e-9


@dataclass(frozen=True)
class Validity:
    """Under how many looks statements hold.

    Attributes
    ----------
    valid : "once" or "always"
    votes : float
        So far.
    tuned_at : float or None
        Votes at which "always" is tightest, or the votes at the last planned look.
    looks : int or None
        Planned looks.

    Examples
    --------
    >>> Validity().reach(1.96)
    1.96
    >>> round(Validity("always", votes=10_000, tuned_at=10_000).reach(1.96), 2)
    3.04
    >>> round(Validity(looks=58).reach(1.96), 2), round(Validity(looks=58, votes=9, tuned_at=9).reach(1.96), 2)
    (2.81, 2.46)
    """

    valid: str = "once"
    votes: float = 0.0
    tuned_at: float | None = None
    looks: int | None = None

    @classmethod
    def of(cls, info: Provenance) -> Validity:
        """Return that of an estimate that was made so."""
        if info.valid == "always" and info.n_battles is None:
            raise LooksError("this estimate does not know its number of votes, so it cannot be valid at any time.")
        return cls(info.valid, float(info.n_battles or 0), info.tuned_at, info.looks)

    @property
    def once(self) -> bool:
        """Whether statements hold at one look only."""
        return self.valid == "once" and self.looks is None

    def after(self, times: Floats | float) -> Validity:
        """Return the same when there are so many times as many votes."""
        votes = self.votes * float(np.mean(times))
        if self.looks is not None and self.tuned_at is not None:
            votes = min(votes, self.tuned_at)
        return self if self.once else replace(self, votes=votes)

    def two_sided(self, level: float) -> float:
        """Return how many standard errors an interval at a level reaches."""
        return self.reach(normal_quantile(level))

    def one_sided(self, level: float) -> float:
        """Return how many standard errors a one-sided bound at a level reaches."""
        return self.reach(float(ndtri(level)))

    def reach(self, critical: float) -> float:
        """Return the critical value that takes the place of one for one look."""
        if self.once or critical <= 0.0:
            return critical
        if self.looks is not None:
            spent = None if self.tuned_at is None else self._look()
            return _interpolated(_boundaries(self.looks, spent), critical)
        return mixture_critical(critical, self.votes / (self.tuned_at or DEFAULT_TUNING))

    def joint(self, critical: float, level: float, n: int) -> float:
        """Return the critical value of joint intervals of n statistics that have this one at one look.

        Statistics that go together at one look cross planned boundaries at different looks: there the n count as if
        they were independent.

        >>> ONE_LOOK.joint(2.5, 0.95, 10), round(Validity(looks=5).joint(2.5, 0.95, 10), 2)
        (2.5, 3.2)
        """
        if self.looks is None or n < 1:
            return self.reach(critical)
        return self.reach(max(critical, sidak_quantile(level, n)))

    def one_look(self, z: Floats) -> Floats:
        """Return the statistics for one look that are as strong as these: the inverse of `reach`.

        >>> Validity("always", votes=10_000, tuned_at=10_000).one_look(np.array([3.035])).round(2)
        array([1.96])
        """
        if self.once:
            return z
        known = GRID if self.looks is not None else np.linspace(0.05, 12.0, 120)
        reached = np.array([self.reach(float(c)) for c in known])
        size = np.abs(z)
        inside = np.interp(size, reached, known, left=0.0)
        return np.sign(z) * np.where(size > reached[-1], known[-1] + size - reached[-1], inside)

    def _look(self) -> int:
        """Return which of the planned looks this is, from 1."""
        assert self.tuned_at is not None and self.looks is not None
        share = self.votes / self.tuned_at
        if share > LATE:
            raise LooksError(
                f"the last of {self.looks} planned looks was at {self.tuned_at:,.0f} votes, and there are "
                f"{self.votes:,.0f}: plan more, or use valid='always'."
            )
        return max(1, ceil(share * self.looks / LATE))

    def words(self) -> str:
        """Return under how many looks statements hold, in words.

        >>> Validity().words(), Validity("always", 1e4, 2e4).words(), Validity(looks=58).words()
        ('valid for one look', 'valid at any time (tuned at 20,000 votes)', 'valid at each of 58 planned looks')
        """
        if self.once:
            return "valid for one look"
        if self.looks is None:
            return f"valid at any time (tuned at {self.tuned_at or DEFAULT_TUNING:,.0f} votes)"
        last = "" if self.tuned_at is None else f" up to {self.tuned_at:,.0f} votes"
        return f"valid at each of {self.looks} planned looks{last}"


ONE_LOOK = Validity()


def mixture_critical(critical: float, time: float) -> float:
    """Return the boundary of the normal mixture with the tail of `critical`, at `time` times the votes of its tuning.

    >>> [round(mixture_critical(1.96, t), 2) for t in (0.1, 1.0, 10.0)]
    [3.82, 3.04, 3.25]
    """
    if time <= 0.0:
        return inf
    size = -2.0 * (log(2.0) + float(log_ndtr(-critical)))  # 2 log(1 / p)
    x = size + log(1.0 + size) + 1.0
    for _ in range(50):  # Newton for x = 1 / r: x - log(1 + x) = size
        step = (x - log(1.0 + x) - size) * (1.0 + x) / x
        x -= step
        if abs(step) < 1e-12 * x:
            break
    return sqrt((1.0 + 1.0 / (x * time)) * (size + log(1.0 + x * time)))


@lru_cache(maxsize=512)
def _boundaries(looks: int, look: int | None) -> tuple[Floats, Floats]:
    """Return critical values for one look, and those at a look that take their place: constant, or spent evenly."""
    if look is None:
        return np.array([-float(ndtri(crossing(c, looks) / 2.0)) for c in GRID]), GRID
    return GRID, np.array([spending_boundary(2.0 * float(ndtr(-c)), looks, look) for c in GRID])


def _interpolated(table: tuple[Floats, Floats], critical: float) -> float:
    known, reached = table
    if critical >= known[-1]:
        return critical + float(reached[-1] - known[-1])
    if critical <= known[0]:
        return critical * float(reached[0] / known[0])
    return float(PchipInterpolator(known, reached)(critical))


def crossing(boundary: float, looks: int) -> float:
    """Return the probability that a random walk S_k of normal steps ever has |S_k| > boundary sqrt(k), k = 1..looks.

    >>> round(crossing(2.413, 5), 4)
    0.05
    """
    walk = _Walk(boundary)
    out = 2.0 * float(ndtr(-boundary))
    for k in range(2, looks + 1):
        out += walk.leaves(boundary * sqrt(k))
        walk.step(boundary * sqrt(k))
    return out


def spending_boundary(tail: float, looks: int, look: int) -> float:
    """Return the boundary at a look that spends `tail` / looks at each of equally spaced looks.

    >>> round(spending_boundary(0.05, 5, 5), 3)
    2.276
    """
    return _spending_boundaries(tail, looks)[look - 1]


@lru_cache(maxsize=256)
def _spending_boundaries(tail: float, looks: int) -> tuple[float, ...]:
    """Return the boundaries at all looks: each needs those before it."""
    share = tail / looks
    found = [-float(ndtri(share / 2.0))]
    walk = _Walk(found[0])
    for k in range(2, looks + 1):
        root = sqrt(k)
        found.append(float(brentq(lambda c, root=root: walk.leaves(c * root) - share, 0.0, 40.0, xtol=1e-9)))
        walk.step(found[-1] * root)
    return tuple(found)


class _Walk:
    """The density of a random walk that has not left its boundaries, on nodes between them."""

    def __init__(self, boundary: float) -> None:
        self.x, self.weight = _nodes(boundary)
        self.weight = self.weight * np.exp(-0.5 * self.x**2) / sqrt(2.0 * np.pi)

    def leaves(self, boundary: float) -> float:
        """Return the probability that the next step is the first beyond a boundary."""
        return float(self.weight @ (ndtr(self.x - boundary) + ndtr(-boundary - self.x)))

    def step(self, boundary: float) -> None:
        """Take a step, and keep what is within the boundary."""
        x, weight = _nodes(boundary)
        density = np.exp(-0.5 * (x[:, None] - self.x) ** 2) @ self.weight / sqrt(2.0 * np.pi)
        self.x, self.weight = x, weight * density


def _nodes(boundary: float) -> tuple[Floats, Floats]:
    x, weight = _legendre(int(max(24, NODES * boundary)))
    return boundary * x, boundary * weight


@lru_cache(maxsize=1024)
def _legendre(n: int) -> tuple[Floats, Floats]:
    x, weight = leggauss(n)
    return np.asarray(x), np.asarray(weight)
