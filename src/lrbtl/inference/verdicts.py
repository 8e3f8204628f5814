"""What a gap comes to: ahead, behind, equivalent within a margin, or cannot tell, and what votes could have shown.

A gap is ahead or behind where its interval at `level` leaves zero out. It is equivalent where two one-sided tests, each
at 1 - level, reject that it is as large as the margin [Schuirmann 1987]. A gap may be both: it is then called
equivalent, since a margin says what does not matter. Everything here works on log odds.

A method that shrinks follows a true gap g by a factor f: its estimate is f g on average and varies by its noise, which
is smaller than se, as errors stand for what the prior pulls at too. Before it is shrunk a gap thus varies by noise / f,
and g is called ahead with the power P(N(g, noise / f) > r), where r is the least gap that is ahead, f r = z se. These
depend on the gap themselves, f and se in the last equation on r, and noise / f is that between r and g:

- Votes tell less of unequal models. With i the information of votes at the gap over that now, what votes tell of
  1 / se^2, its part noise^2 / se^2, is i times as much, and so are the odds of f and of that part.
- A large gap tells of the prior: once it is there its variance has grown by a part c of r^2, f has become f(r), and
  errors are sqrt(f(r) / f) times as large; noise / f stays, as it is the votes'.

Shrunk gaps would look equivalent too often: these tests take gap / f and se / sqrt(f), its error under a normal prior,
where f is below 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import logit, ndtr, ndtri

from lrbtl.errors import MarginError, PowerError
from lrbtl.inference.joint import normal_quantile
from lrbtl.methods.base import Shrinkage
from lrbtl.tables import Printed, format_intervals, format_numbers, plain_numbers
from lrbtl.typing import Floats

AHEAD, BEHIND, EQUIVALENT, CANNOT_TELL = "ahead", "behind", "equivalent", "cannot tell"
POWER = 0.8  # with which a gap is said to be detectable
ELO = 400.0 / math.log(10.0)  # Elo points per unit of log odds: a gap of 400 is odds of ten to one
BISECTIONS = 32
GAUSS = 1.0 / math.sqrt(3.0)
STEPS, GROWTH, NEAR_ZERO = 40, 1.2, 1e-3  # of searches for gaps
LEAST = 1e-9  # part of what there is, against divisions by zero
LEAST_ERROR = 1e-12  # log odds: what is known for sure, as a gap of a model with itself, has this one
FAR = 1e6
STEEPEST = 1.0 - 1e-12  # votes at infinity, where the logarithm of their information is a line
PROBABILITIES = 0.5  # sizes below it are win probabilities, since no margin of them can reach it


def read_size(size: Any, name: str = "margin") -> float:
    """Return a margin in log odds: below 0.5 it is one of win probability round 1/2, from there on of Elo points.

    >>> round(ELO * read_size(10), 3), round(ELO * read_size(0.02), 1)
    (10.0, 13.9)
    """
    if isinstance(size, bool) or not isinstance(size, Real) or not 0.0 < float(size) < math.inf:
        raise MarginError(
            f"{name}={size!r} is not valid: give Elo points, such as 10, or a win probability below 0.5, such as 0.02."
        )
    size = float(size)
    return float(logit(0.5 + size)) if size < PROBABILITIES else size / ELO


def size_words(size: float) -> str:
    """Return a margin in words.

    >>> size_words(10), size_words(0.02)
    ('10 Elo points', '2% of win probability')
    """
    return f"{100 * size:.3g}% of win probability" if size < PROBABILITIES else f"{size:.4g} Elo points"


def judge(
    gap: Floats, se: Floats, follow: Floats | float = 1.0, *, margin: float | None = None, level: float = 0.95
) -> tuple[str, ...]:
    """Return the verdict on each gap, given with its error and the margin in log odds; NaN cannot be told.

    >>> judge(np.array([1.0, -1.0, 0.1, 0.1]), np.array([0.2, 0.2, 0.2, 0.01]), margin=0.2)
    ('ahead', 'behind', 'cannot tell', 'equivalent')
    """
    reach = normal_quantile(level)
    with np.errstate(invalid="ignore"):
        found = np.where(gap > reach * se, AHEAD, np.where(gap < -reach * se, BEHIND, CANNOT_TELL))
        if margin is not None:
            shrunk = np.minimum(follow, 1.0)
            reached = np.abs(gap) / shrunk + one_sided(level) * se / np.sqrt(shrunk)
            found = np.where(reached < margin, EQUIVALENT, found)
    return tuple(found.tolist())


def one_sided(level: float) -> float:
    """Return z with P(Z <= z) = level."""
    return float(ndtri(level))


def follow_at(gap: Floats | float, se: Floats | float, follow: Floats | float, learned: float) -> Floats:
    """Return by which factor a gap is followed once it is there: the prior's variance grows by `learned` gap^2.

    se^2 / f is the error of votes alone and se^2 / (1 - f) the prior's variance; factors above 1 stay.

    >>> follow_at(np.array([0.0, 3.0]), 1.0, 0.5, 0.1).round(2)
    array([0.5 , 0.59])
    """
    lost = 1.0 - np.asarray(follow)
    return np.asarray(1.0 - lost / (1.0 + learned * np.maximum(lost, 0.0) * follow * (gap / se) ** 2))


@dataclass(frozen=True)
class Prospect:
    """What votes may show of gaps: numbers or arrays of them, in log odds.

    Attributes
    ----------
    se : error
    followed : by which factor estimates follow true gaps
    noise : how estimates vary with the votes; None: by the error
    learned : part of a squared gap that the prior takes up
    gap : the gap as it is estimated, without its sign
    slope, bend : how the logarithm of the information of votes changes with the gap; see `information`

    Examples
    --------
    >>> now = Prospect(1.0, 0.8, 0.9)
    >>> after = now.at(0.5)
    >>> round(float(after.followed), 2), round(float(after.noise), 3)
    (0.95, 0.488)
    """

    se: Floats | float
    followed: Floats | float = 1.0
    noise: Floats | float | None = None
    learned: float = 0.0
    gap: Floats | float = 0.0
    slope: Floats | float = 0.0
    bend: Floats | float = 0.0

    @classmethod
    def of(cls, gap: Floats, se: Floats, shrinkage: Shrinkage, unit: Floats | float = 1.0) -> Prospect:
        """Return that of estimates with their errors, given with what a prior does and the log odds of a unit."""
        slope = np.where(gap < 0.0, -1.0, 1.0) * shrinkage.slope / unit
        error, noise = (np.maximum(unit * size, LEAST_ERROR) for size in (se, shrinkage.noise(se)))
        bend = np.asarray(shrinkage.bend) / np.asarray(unit) ** 2
        return cls(error, shrinkage.follow, noise, shrinkage.learned, unit * np.abs(gap), slope, bend)

    def at(self, se: Floats | float) -> Prospect:
        """Return the same at another error.

        What is shrunk away goes with the variance, and what the prior adds to the estimate's with its square.
        """
        part = (se / self.se) ** 2
        followed = np.maximum(1.0 - (1.0 - self.followed) * part, LEAST)
        noise = None if self.noise is None else se * np.sqrt(np.maximum(1.0 - (1.0 - self._of_votes) * part, LEAST))
        return replace(self, se=se, followed=followed, noise=noise)

    @property
    def _of_votes(self) -> Floats | float:
        """Part of the squared error that is noise of votes."""
        return 1.0 if self.noise is None else (self.noise / self.se) ** 2

    def information(self, gap: Floats | float) -> Floats:
        """Return what votes tell if the gap is another one, over what they tell now: w(c + b h / 2) / w(c).

        As if all votes had one eta: log w = -2 log cosh(eta / 2) with this slope and bend at h = 0, exact for votes
        between the two models.
        """
        bend = np.minimum(self.bend, 0.0)
        b = np.sqrt(np.square(self.slope) - 4.0 * bend)
        c = np.arctanh(np.clip(-self.slope / np.where(b > 0.0, b, 1.0), -STEEPEST, STEEPEST))
        h = gap - self.gap
        return np.maximum(np.exp(2.0 * (_log_cosh(c) - _log_cosh(c + 0.5 * b * h))), LEAST)

    def there(self, gap: Floats | float) -> Prospect:
        """Return the same with votes as they come if the gap is another one: they tell less of unequal models.

        1 / se^2 is what votes tell and what the prior tells. Of parts that are the votes', as noise^2 / se^2 and f, the
        odds change with the information.
        """
        i = self.information(gap)
        se = self.se / np.sqrt(1.0 + (i - 1.0) * self._of_votes)
        followed = np.where(np.less(self.followed, 1.0), _with_odds(self.followed, i), self.followed)
        noise = None if self.noise is None else se * np.sqrt(_with_odds(self._of_votes, i))
        return replace(self, se=se, followed=followed, noise=noise)

    def varies(self, gap: Floats | float) -> Floats:
        """Return how estimates of a true gap vary, before it is shrunk: noise / f, at most the error of votes alone.

        That is se / sqrt(f). Noise beyond it is that of other differences, with which the gap has nothing in common.
        """
        now = self.there(gap)
        votes = now.se / np.sqrt(np.minimum(now.followed, 1.0))
        return np.asarray(votes if now.noise is None else np.minimum(now.noise / now.followed, votes))

    def least_ahead(self, level: float) -> Floats:
        """Return the least gap, before it is shrunk, whose interval leaves zero out; infinity where there is none.

        The root of f(g) g = z se(g), with what the votes of such a gap tell of it and of the prior.
        """
        z = normal_quantile(level)

        def over(gap: Floats) -> Floats:
            now = self.there(gap)
            follow = follow_at(gap, now.se, now.followed, now.learned)
            return np.asarray(follow * gap - z * now.se * np.sqrt(follow / now.followed))

        return first_root(over, z * self.se / np.maximum(self.followed, 1.0))

    def ahead_by(self, gap: Floats | float, least: Floats | float) -> Floats:
        """Return by how many standard deviations of estimates a true gap is above the least that is ahead.

        Between the two noise changes: the integral of 1 / noise, by two points of Gauss.
        """
        middle, half = 0.5 * (gap + least), 0.5 * (gap - least)
        return np.asarray(half / self.varies(middle - GAUSS * half) + half / self.varies(middle + GAUSS * half))

    def detectable(self, level: float = 0.95, power: float = POWER) -> Floats:
        """Return the smallest gaps that are called ahead with this power; infinity where votes show none.

        z_power standard deviations above the least that is ahead; the chance to be called behind is nil.

        >>> one = np.ones(1)
        >>> Prospect(one).detectable().round(2), Prospect(one, 0.81, 0.9 * one).detectable().round(2)
        (array([2.8]), array([3.35]))
        """
        z, least = shown_power(power), self.least_ahead(level)
        known = np.where(np.isinf(least), 0.0, least)
        found = first_root(lambda gap: self.ahead_by(gap, known) - z, known * (1.0 if z > 0.0 else NEAR_ZERO))
        return np.where(np.isinf(least), np.inf, found)

    def tested(self, gap: Floats | float) -> tuple[Floats, Floats, Floats]:
        """Return of a true gap as margins test it: its mean, how it varies, and the error that it is tested with."""
        now = self.there(gap)
        shrunk = np.minimum(now.followed, 1.0)
        noise = now.se if now.noise is None else now.noise
        return gap * now.followed / shrunk, noise / shrunk, now.se / np.sqrt(shrunk)


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

    0 where no error is small enough: there is no gap, or it is as large as the margin.

    >>> round(1 / error_to_show(1.0), 2), round(1 / error_to_show(0.0, margin=1.0), 2)
    (2.8, 2.93)
    """
    prospect = prospect or Prospect(1.0)
    gap, z_power = abs(gap), shown_power(power)

    def ahead(se: float) -> float:
        after = prospect.at(se)
        least = float(after.least_ahead(level))
        return float(after.ahead_by(gap, least)) - z_power if math.isfinite(least) else -FAR

    def equivalent(se: float) -> float:
        mean, noise, error = prospect.at(se).tested(gap)
        room, noise = margin - one_sided(level) * error, np.maximum(noise, 1e-9 * error)  # type: ignore[operator]
        return float(ndtr((room - mean) / noise) + ndtr((room + mean) / noise) - 1.0) - power

    if margin is None and gap > 0.0:
        least = normal_quantile(level) + min(z_power, 0.0)
        largest = max(float(prospect.followed), 1.0) * gap
        return _last(ahead, largest / least) if least > 0.0 else math.inf  # chance alone has that power
    if margin is None:
        return 0.0
    return 0.0 if gap >= margin else _last(equivalent, margin / one_sided(level))


def error_to_clear(
    room: float, *, level: float = 0.95, power: float = POWER, prospect: Prospect | None = None
) -> float:
    """Return the standard error at which a gap is shown, by one test, to be no more than `room` below what it is.

    >>> round(1 / error_to_clear(1.0), 2)
    2.49
    """
    prospect, z_power = prospect or Prospect(1.0), shown_power(power)

    def clear(se: float) -> float:
        _, noise, error = prospect.at(se).tested(prospect.gap)
        return float(room - one_sided(level) * error - z_power * noise)

    return _last(clear, room / one_sided(level))


def _last(enough: Callable[[float], float], most: float) -> float:
    """Return where a falling function crosses zero, at most at a value where it is negative."""
    least = most
    while enough(least) < 0.0:
        least *= 0.5
    return most if least == most else float(brentq(enough, least, most, xtol=1e-12 * most, rtol=1e-10))


def shown_power(power: float) -> float:
    """Return z with P(Z <= z) = power; raise where it is no power."""
    if isinstance(power, bool) or not isinstance(power, Real) or not 0.0 < float(power) < 1.0:
        raise PowerError(f"power={power!r} is not valid: it lies between 0 and 1, for example 0.8.")
    return float(ndtri(float(power)))


@dataclass(frozen=True, eq=False, repr=False)
class Verdicts(Printed):
    """What some gaps come to; arrays have one entry per gap and are in Elo points.

    Attributes
    ----------
    labels : tuple of str
    verdict : tuple of str
        "ahead", "behind", "equivalent" or "cannot tell".
    gap, lower, upper : arrays
        Gaps with their intervals. That of a win probability is its log odds.
    detectable : array
        The smallest gap that these votes would have shown with the `power`, if it is alike in all contexts. Where the
        method would shrink such a gap it is larger; where part of an error is not noise of votes, smaller. Infinity
        where votes are too few to show any.
    margin : float or None
        As it was given: Elo points, or below 0.5 win probability.
    level, power : float

    Examples
    --------
    >>> from lrbtl import Estimate
    >>> Estimate(["x - y"], [0.5], [[0.01]], links="identity").verdicts().to_dict()["verdict"]
    ['ahead']
    """

    labels: tuple[str, ...]
    verdict: tuple[str, ...]
    gap: Floats
    lower: Floats
    upper: Floats
    detectable: Floats
    margin: float | None
    level: float
    power: float

    @classmethod
    def of(
        cls,
        labels: Sequence[str],
        gap: Floats,
        se: Floats,
        *,
        margin: Any,
        level: float,
        power: float = POWER,
        prospect: Prospect | None = None,
    ) -> Verdicts:
        """Return the verdicts on gaps in log odds, given with what votes may show of them."""
        prospect = prospect or Prospect(se)
        limit = None if margin is None else read_size(margin)
        reach = ELO * normal_quantile(level) * se
        return cls(
            tuple(labels),
            judge(gap, se, prospect.followed, margin=limit, level=level),
            ELO * gap,
            ELO * gap - reach,
            ELO * gap + reach,
            ELO * prospect.detectable(level, power),
            None if margin is None else float(margin),
            level,
            power,
        )

    def __len__(self) -> int:
        return len(self.labels)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists for JSON, None for what is missing."""
        columns = {name: plain_numbers(getattr(self, name)) for name in ("gap", "lower", "upper", "detectable")}
        return {"label": list(self.labels), "verdict": list(self.verdict), **columns}

    def heading(self) -> list[str]:
        """Return what the table shows."""
        return ["Verdicts on gaps in Elo points", *verdict_words(self.margin, self.level, self.power)]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        columns = {
            "label": list(self.labels),
            "verdict": list(self.verdict),
            "gap": format_numbers(self.gap, 0),
            "interval": format_intervals(self.lower, self.upper, 0),
            "could show": could_show_words(self.detectable),
        }
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def could_show_words(detectable: Floats) -> list[str]:
    """Return detectable gaps in words.

    >>> could_show_words(np.array([12.3, np.inf, np.nan]))
    ['12', 'none', '']
    """
    return [{"inf": "none", "nan": ""}.get(number, number) for number in format_numbers(detectable, 0)]


def verdict_words(margin: float | None, level: float, power: float = POWER) -> list[str]:
    """Return how verdicts are made, in a line or two.

    >>> verdict_words(10, 0.95)[0]
    'ahead or behind at 95%, equivalent within 10 Elo points by two one-sided tests at 5%'
    """
    words = f"ahead or behind at {100 * level:.4g}%"
    if margin is not None:
        words += f", equivalent within {size_words(margin)} by two one-sided tests at {100 * (1 - level):.4g}%"
    return [words, f"could show: the smallest gap that these votes would have shown with {power:.0%} power"]
