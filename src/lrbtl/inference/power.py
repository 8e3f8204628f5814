"""Power of verdicts: the smallest gap that votes can show, and the standard error that a gap needs to be shown.

Everything is in log odds. An estimate h of a true gap g has standard error se; g is called ahead where h > z se, with z
the two-sided normal quantile of the level. Without a prior h ~ N(g, se^2), and the smallest gap detected with power p
is (z + z_p) se, where P(Z <= z_p) = p. A method that shrinks changes this in three ways.

**Shrinkage.** On average h = f g, with f the shrinkage factor. h varies by its `noise` only, which is below se, since
se^2 includes a prior variance. Divided by f, the estimate varies by noise / f, at most se / sqrt(f): that is the
standard error of the votes alone under a normal prior. The critical gap r solves

    f r = z se,

and the power at g is P(N(g, noise / f) > r) = Phi((g - r) f / noise).

**Information.** Votes between unequal models carry less information. Let i be the information at gap g over that at
the estimate, and q = noise^2 / se^2 the votes' part of 1 / se^2; f is the votes' part too where it is below 1. Then

    1 / se(g)^2 = (1 + (i - 1) q) / se^2,    odds(q(g)) = i odds(q),    odds(f(g)) = i odds(f).

As if all votes had one eta, log i is the change of -2 log cosh(eta / 2), with the slope and the bend that the votes
have at the estimate. As noise changes from r to g, (g - r) f / noise becomes the integral of f / noise between them.

**The prior at the alternative.** A large gap enlarges the estimated prior variance, by a part c of its square. With
votes' variance se^2 / f and prior variance se^2 / (1 - f), the shrinkage factor becomes

    f'(g) = 1 - (1 - f) / (1 + c (1 - f) f g^2 / se^2),

standard errors grow by sqrt(f' / f), and noise / f, being the votes', stays. f' and se(r) enter the equation of r.

**Equivalence.** A shrunk gap would look equivalent too often. The two one-sided tests against a margin m, each at
1 - level [Schuirmann 1987], take h / f and se / sqrt(f) where f < 1. With b = m - z_level se / sqrt(f), the power at g
is Phi((b - g) f / noise) + Phi((b + g) f / noise) - 1.

At a later standard error 1 - f goes with the variance, as under a normal prior of known variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from lrbtl.errors import PowerError, is_within, spelled
from lrbtl.inference.always_valid import ONE_LOOK, Validity
from lrbtl.methods.base import Shrinkage
from lrbtl.tables import format_numbers
from lrbtl.typing import Floats

POWER = 0.8  # with which a gap is said to be detectable
BISECTIONS = 32
GAUSS = 1.0 / math.sqrt(3.0)  # nodes of the two-point rule on [-1, 1]
STEPS, GROWTH, NEAR_ZERO = 40, 1.2, 1e-3  # of searches for gaps
LEAST = 1e-9  # part of what there is, against divisions by zero
LEAST_ERROR = 1e-12  # log odds: what is known for sure, as a gap of a model with itself, has this one
FAR = 1e6
STEEPEST = 1.0 - 1e-12  # votes at infinity, where the logarithm of their information is a line


def power_quantile(power: float) -> float:
    """Return z with P(Z <= z) = power; raise where it is no power."""
    if not is_within(power, 0.0, 1.0):
        raise PowerError(f"power={spelled(power)} is not valid: it lies between 0 and 1, for example 0.8.")
    return float(ndtri(float(power)))


def shrinkage_at_alternative(
    gap: Floats | float, se: Floats | float, shrinkage_factor: Floats | float, prior_variance_growth: float
) -> Floats:
    """Return the shrinkage factor once a gap is there: the prior variance has grown by a part of gap^2.

    se^2 / f is the variance of votes alone and se^2 / (1 - f) the prior variance; factors above 1 stay.

    >>> shrinkage_at_alternative(np.array([0.0, 3.0]), 1.0, 0.5, 0.1).round(2)
    array([0.5 , 0.59])
    """
    lost = 1.0 - np.asarray(shrinkage_factor)
    grown = prior_variance_growth * np.maximum(lost, 0.0) * shrinkage_factor * (gap / se) ** 2
    return np.asarray(1.0 - lost / (1.0 + grown))


@dataclass(frozen=True)
class Prospect:
    """What votes can show of gaps: numbers or arrays of them, in log odds.

    Attributes
    ----------
    se : standard error
    shrinkage_factor : mean estimate over true gap
    noise : standard deviation of estimates over repeated votes; None: the standard error
    prior_variance_growth : part of a squared gap by which the prior variance grows
    gap : the estimated gap, without its sign
    slope, bend : how the logarithm of the information of votes changes with the gap; see `information`
    valid : under how many looks verdicts hold

    Examples
    --------
    >>> now = Prospect(1.0, 0.8, 0.9)
    >>> after = now.at_error(0.5)
    >>> round(float(after.shrinkage_factor), 2), round(float(after.noise), 3)
    (0.95, 0.488)
    """

    se: Floats | float
    shrinkage_factor: Floats | float = 1.0
    noise: Floats | float | None = None
    prior_variance_growth: float = 0.0
    gap: Floats | float = 0.0
    slope: Floats | float = 0.0
    bend: Floats | float = 0.0
    valid: Validity = ONE_LOOK

    @classmethod
    def of(
        cls, gap: Floats, se: Floats, shrinkage: Shrinkage, unit: Floats | float = 1.0, valid: Validity = ONE_LOOK
    ) -> Prospect:
        """Return that of estimates with standard errors, given with what a prior does and the log odds of a unit."""
        slope = np.where(gap < 0.0, -1.0, 1.0) * shrinkage.slope / unit
        error, noise = (np.maximum(unit * size, LEAST_ERROR) for size in (se, shrinkage.noise(se)))
        bend = np.asarray(shrinkage.bend) / np.asarray(unit) ** 2
        factor, growth = shrinkage.shrinkage_factor, shrinkage.prior_variance_growth
        return cls(error, factor, noise, growth, unit * np.abs(gap), slope, bend, valid)

    @property
    def _votes_share(self) -> Floats | float:
        """Part of the squared standard error that is noise of votes."""
        return 1.0 if self.noise is None else (self.noise / self.se) ** 2

    def at_error(self, se: Floats | float) -> Prospect:
        """Return the same at another standard error.

        1 - f goes with the variance, and what the prior adds to the estimate's variance with its square. Votes are so
        many more as variances are smaller.
        """
        part = (se / self.se) ** 2
        factor = np.maximum(1.0 - (1.0 - self.shrinkage_factor) * part, LEAST)
        noise = None if self.noise is None else se * np.sqrt(np.maximum(1.0 - (1.0 - self._votes_share) * part, LEAST))
        valid = self.valid.after(1.0 / part)
        return replace(self, se=se, shrinkage_factor=factor, noise=noise, valid=valid)

    def information(self, gap: Floats | float) -> Floats:
        """Return the information of votes at another gap over that at the estimate: w(c + b h / 2) / w(c).

        As if all votes had one eta: log w = -2 log cosh(eta / 2) with this slope and bend at h = 0, exact for votes
        between the two models.
        """
        bend = np.minimum(self.bend, 0.0)
        b = np.sqrt(np.square(self.slope) - 4.0 * bend)
        c = np.arctanh(np.clip(-self.slope / np.where(b > 0.0, b, 1.0), -STEEPEST, STEEPEST))
        h = gap - self.gap
        return np.maximum(np.exp(2.0 * (_log_cosh(c) - _log_cosh(c + 0.5 * b * h))), LEAST)

    def at_gap(self, gap: Floats | float) -> Prospect:
        """Return the same with the information that votes have at another gap.

        Of parts that are the votes', as noise^2 / se^2 and f, the odds change with the information.
        """
        i = self.information(gap)
        se = self.se / np.sqrt(1.0 + (i - 1.0) * self._votes_share)
        shrinks = np.less(self.shrinkage_factor, 1.0)
        factor = np.where(shrinks, _with_odds(self.shrinkage_factor, i), self.shrinkage_factor)
        noise = None if self.noise is None else se * np.sqrt(_with_odds(self._votes_share, i))
        return replace(self, se=se, shrinkage_factor=factor, noise=noise)

    def unshrunk_noise(self, gap: Floats | float) -> Floats:
        """Return how estimates of a true gap vary before they are shrunk: noise / f, at most se / sqrt(f).

        Noise beyond the standard error of votes alone is that of other differences, which the gap has no part in.
        """
        now = self.at_gap(gap)
        votes = now.se / np.sqrt(np.minimum(now.shrinkage_factor, 1.0))
        return np.asarray(votes if now.noise is None else np.minimum(now.noise / now.shrinkage_factor, votes))

    def critical_gap(self, level: float) -> Floats:
        """Return the least gap, before it is shrunk, whose interval excludes zero; infinity where there is none.

        The root of f'(g) g = z se(g), with the information and the prior variance at g.
        """
        z = self.valid.two_sided(level)

        def over(gap: Floats) -> Floats:
            now = self.at_gap(gap)
            factor = shrinkage_at_alternative(gap, now.se, now.shrinkage_factor, now.prior_variance_growth)
            return np.asarray(factor * gap - z * now.se * np.sqrt(factor / now.shrinkage_factor))

        return first_root(over, z * self.se / np.maximum(self.shrinkage_factor, 1.0))

    def deviations_above(self, gap: Floats | float, critical: Floats | float) -> Floats:
        """Return by how many standard deviations of estimates a true gap is above the critical one.

        Between the two noise changes: the integral of f / noise, by Gauss's rule of two points.
        """
        middle, half = 0.5 * (gap + critical), 0.5 * (gap - critical)
        below, above = (self.unshrunk_noise(middle + sign * GAUSS * half) for sign in (-1.0, 1.0))
        return np.asarray(half / below + half / above)

    def detectable(self, level: float = 0.95, power: float = POWER) -> Floats:
        """Return the smallest gaps that are called ahead with this power; infinity where votes show none.

        z_power standard deviations above the critical gap; the chance to be called behind is nil.

        >>> one = np.ones(1)
        >>> Prospect(one).detectable().round(2), Prospect(one, 0.81, 0.9 * one).detectable().round(2)
        (array([2.8]), array([3.35]))
        """
        z, critical = power_quantile(power), self.critical_gap(level)
        known = np.where(np.isinf(critical), 0.0, critical)
        found = first_root(lambda gap: self.deviations_above(gap, known) - z, known * (1.0 if z > 0.0 else NEAR_ZERO))
        return np.where(np.isinf(critical), np.inf, found)

    def tested(self, gap: Floats | float) -> tuple[Floats, Floats, Floats]:
        """Return of a true gap as margins test it: its mean, its noise, and the standard error of the test."""
        now = self.at_gap(gap)
        shrunk = np.minimum(now.shrinkage_factor, 1.0)
        noise = now.se if now.noise is None else now.noise
        return gap * now.shrinkage_factor / shrunk, noise / shrunk, now.se / np.sqrt(shrunk)


def _with_odds(part: Floats | float, times: Floats) -> Floats:
    """Return a part of one whose odds are so many times as large."""
    return np.asarray(times * part / (1.0 + (times - 1.0) * part))


def _log_cosh(x: Floats) -> Floats:
    """Return log(2 cosh(x))."""
    return np.asarray(np.abs(x) + np.log1p(np.exp(-2.0 * np.abs(x))))


def first_root(over: Callable[[Floats], Floats], start: Floats | float) -> Floats:
    """Return where functions that are below zero before `start` first reach it; infinity where they do not soon.

    >>> first_root(lambda x: x - np.array([1.0, 3.0]), np.ones(2)).round(3)
    array([1., 3.])
    """
    least, most = np.zeros(np.shape(start)), np.array(start, dtype=np.float64)
    short = over(most) < 0.0
    for _ in range(STEPS):
        if not short.any():
            break
        least, most = np.where(short, most, least), np.where(short, GROWTH * most, most)
        short = over(most) < 0.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (least + most)
        below = over(middle) < 0.0
        least, most = np.where(below, middle, least), np.where(below, most, middle)
    return np.where(short, np.inf, most)


def error_to_show(
    gap: float,
    *,
    margin: float | None = None,
    level: float = 0.95,
    power: float = POWER,
    prospect: Prospect | None = None,
) -> float:
    """Return the standard error at which a gap is shown with this power: as ahead, or as equivalent within a margin.

    0 where no standard error is small enough: there is no gap, or it is as large as the margin.

    >>> round(1 / error_to_show(1.0), 2), round(1 / error_to_show(0.0, margin=1.0), 2)
    (2.8, 2.93)
    """
    prospect = prospect or Prospect(1.0)
    gap, z_power = abs(gap), power_quantile(power)

    def ahead(se: float) -> float:
        after = prospect.at_error(se)
        critical = float(after.critical_gap(level))
        return float(after.deviations_above(gap, critical)) - z_power if math.isfinite(critical) else -FAR

    def equivalent(se: float) -> float:
        after = prospect.at_error(se)
        mean, noise, error = after.tested(gap)
        room, noise = margin - after.valid.one_sided(level) * error, np.maximum(noise, 1e-9 * error)  # type: ignore[operator]
        return float(ndtr((room - mean) / noise) + ndtr((room + mean) / noise) - 1.0) - power

    if margin is None and gap > 0.0:
        least = ONE_LOOK.two_sided(level) + min(z_power, 0.0)
        largest = max(float(prospect.shrinkage_factor), 1.0) * gap
        return _last(ahead, largest / least) if least > 0.0 else math.inf  # chance alone has that power
    if margin is None:
        return 0.0
    if ONE_LOOK.one_sided(level) <= 0.0:  # chance alone shows that much
        return math.inf
    return 0.0 if gap >= margin else _last(equivalent, margin / ONE_LOOK.one_sided(level))


def error_to_clear(
    room: float, *, level: float = 0.95, power: float = POWER, prospect: Prospect | None = None
) -> float:
    """Return the standard error at which a gap is shown, by one test, to be no more than `room` below what it is.

    >>> round(1 / error_to_clear(1.0), 2)
    2.49
    """
    prospect, z_power = prospect or Prospect(1.0), power_quantile(power)

    def clear(se: float) -> float:
        after = prospect.at_error(se)
        _, noise, error = after.tested(prospect.gap)
        return float(room - after.valid.one_sided(level) * error - z_power * noise)

    return _last(clear, room / ONE_LOOK.one_sided(level))


def _last(enough: Callable[[float], float], most: float) -> float:
    """Return where a falling function crosses zero, at most at a value where it is negative."""
    least = most
    while enough(least) < 0.0:
        least *= 0.5
    return most if least == most else float(brentq(enough, least, most, xtol=1e-12 * most, rtol=1e-10))


def detectable_words(detectable: Floats) -> list[str]:
    """Return detectable gaps as text.

    >>> detectable_words(np.array([12.3, np.inf, np.nan]))
    ['12', 'none', '']
    """
    return [{"inf": "none", "nan": ""}.get(number, number) for number in format_numbers(detectable, 0)]
