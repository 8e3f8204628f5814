"""What a gap comes to: ahead, behind, equivalent within a margin, or cannot tell, and what votes could have shown.

A gap is ahead or behind where its interval at `level` leaves zero out. It is equivalent where two one-sided tests, each
at 1 - level, reject that it is as large as the margin [Schuirmann 1987]. A gap may be both: it is then called
equivalent, since a margin says what does not matter. Everything here works on log odds.

A method that shrinks follows a true gap g by a factor f: its estimate is f g on average and varies by its noise, which
is smaller than se, as errors stand for what the prior pulls at too. So g is called ahead with the power P(N(f g, noise)
> z se). A large gap also tells of the prior: once it is there its variance has grown by a part c of g^2, f has become
f(g), errors are sqrt(f(g) / f) times as large, noise f(g) / f times. Shrunk gaps would look equivalent too often: these
tests take gap / f and se / sqrt(f), its error under a normal prior, where f is below 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import logit, ndtr, ndtri

from lrbtl.errors import MarginError, PowerError
from lrbtl.inference.joint import normal_quantile
from lrbtl.tables import Printed, format_intervals, format_numbers, plain_numbers
from lrbtl.typing import Floats

AHEAD, BEHIND, EQUIVALENT, CANNOT_TELL = "ahead", "behind", "equivalent", "cannot tell"
POWER = 0.8  # with which a gap is said to be detectable
ELO = 400.0 / math.log(10.0)  # Elo points per unit of log odds: a gap of 400 is odds of ten to one
BISECTIONS = 40
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


def detectable(
    se: Floats,
    follow: Floats | float = 1.0,
    noise: Floats | None = None,
    learned: float = 0.0,
    *,
    level: float = 0.95,
    power: float = POWER,
) -> Floats:
    """Return the smallest gaps that would be called ahead with this power; `noise` is that of the estimate, or se.

    The root of g = z_(1 - alpha/2) se / sqrt(f f(g)) + z_power noise / f, since the chance to be called behind is nil.

    >>> one = np.ones(1)
    >>> detectable(one).round(2), detectable(one, 0.81, 0.9 * one).round(2)
    (array([2.8]), array([3.35]))
    """
    noise = se if noise is None else noise
    reach, own = normal_quantile(level) * se, shown_power(power) * noise / follow
    most = reach / follow + own
    least = np.minimum(reach / np.sqrt(follow) + own, most)
    for _ in range(BISECTIONS if learned else 0):
        middle = 0.5 * (least + most)
        above = middle > reach / np.sqrt(follow * follow_at(middle, se, follow, learned)) + own
        least, most = np.where(above, least, middle), np.where(above, middle, most)
    return np.asarray(most)


@dataclass(frozen=True)
class Prospect:
    """An error, how far the estimate follows a true gap and how it varies: votes that lower the first change all.

    >>> now = Prospect(1.0, 0.8, 0.9)
    >>> round(now.follow(0.5), 2), round(now.noise_at(0.5), 3)
    (0.95, 0.488)
    """

    se: float
    followed: float = 1.0
    noise: float | None = None
    learned: float = 0.0

    def follow(self, se: float) -> float:
        """Return the factor at another error: what is shrunk away goes with the variance."""
        return max(1.0 - (1.0 - self.followed) * (se / self.se) ** 2, 1e-9)

    def noise_at(self, se: float) -> float:
        """Return how the estimate varies at another error: what the prior adds goes with the squared variance."""
        if self.noise is None:
            return se
        pulled = (1.0 - (self.noise / self.se) ** 2) * (se / self.se) ** 2
        return se * math.sqrt(max(1.0 - pulled, 0.0))

    def shown(self, gap: float, se: float) -> tuple[float, float, float]:
        """Return of a gap as it is shown to be ahead: its mean, how it varies, and the error that it is tested with."""
        f = self.follow(se)
        there = float(follow_at(gap, se, f, self.learned))
        return there * gap, self.noise_at(se) * there / f, se * math.sqrt(there / f)

    def tested(self, gap: float, se: float) -> tuple[float, float, float]:
        """Return of a gap as margins test it: its mean, how it varies, and the error that it is tested with."""
        f = self.follow(se)
        shrunk = min(f, 1.0)
        return gap * f / shrunk, self.noise_at(se) / shrunk, se / math.sqrt(shrunk)


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
        mean, noise, error = prospect.shown(gap, se)
        return mean - normal_quantile(level) * error - z_power * noise

    def equivalent(se: float) -> float:
        mean, noise, error = prospect.tested(gap, se)
        room, noise = margin - one_sided(level) * error, max(noise, 1e-9 * error)  # type: ignore[operator]
        return float(ndtr((room - mean) / noise) + ndtr((room + mean) / noise) - 1.0) - power

    if margin is None and gap > 0.0:
        least = normal_quantile(level) + min(z_power, 0.0)
        largest = max(prospect.followed, 1.0) * gap
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
        _, noise, error = prospect.tested(0.0, se)
        return room - one_sided(level) * error - z_power * noise

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
        method would shrink such a gap it is larger; where part of an error is not noise of votes, smaller.
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
        follow: Floats | float = 1.0,
        noise: Floats | None = None,
        learned: float = 0.0,
    ) -> Verdicts:
        """Return the verdicts on gaps in log odds; estimates follow a true gap by `follow` and vary by `noise`."""
        limit = None if margin is None else read_size(margin)
        reach = ELO * normal_quantile(level) * se
        return cls(
            tuple(labels),
            judge(gap, se, follow, margin=limit, level=level),
            ELO * gap,
            ELO * gap - reach,
            ELO * gap + reach,
            ELO * detectable(se, follow, noise, learned, level=level, power=power),
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
            "could show": format_numbers(self.detectable, 0),
        }
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def verdict_words(margin: float | None, level: float, power: float = POWER) -> list[str]:
    """Return how verdicts are made, in a line or two.

    >>> verdict_words(10, 0.95)[0]
    'ahead or behind at 95%, equivalent within 10 Elo points by two one-sided tests at 5%'
    """
    words = f"ahead or behind at {100 * level:.4g}%"
    if margin is not None:
        words += f", equivalent within {size_words(margin)} by two one-sided tests at {100 * (1 - level):.4g}%"
    return [words, f"could show: the smallest gap that these votes would have shown with {power:.0%} power"]
