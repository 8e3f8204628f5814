"""What a gap comes to: ahead, behind, equivalent within a margin, or cannot tell.

A gap is ahead or behind where its interval at `level` excludes zero. It is equivalent where two one-sided tests, each
at 1 - level, reject that it is as large as the margin [Schuirmann 1987]. A gap may be both: it is then called
equivalent, since a margin says what does not matter. Everything here works on log odds; `inference.power` says which
gaps votes can show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit

from lrbtl.errors import MarginError, is_within, spelled
from lrbtl.inference.always_valid import ONE_LOOK, Validity
from lrbtl.inference.power import POWER, Prospect, detectable_words
from lrbtl.tables import Printed, format_intervals, format_numbers, plain_numbers
from lrbtl.typing import Floats

AHEAD, BEHIND, EQUIVALENT, CANNOT_TELL = "ahead", "behind", "equivalent", "cannot tell"
ELO = 400.0 / math.log(10.0)  # Elo points per unit of log odds: a gap of 400 is odds of ten to one
PROBABILITIES = 0.5  # sizes below it are win probabilities, since no margin of them can reach it


def read_size(size: Any, name: str = "margin") -> float:
    """Return a margin in log odds: below 0.5 it is one of win probability round 1/2, from there on of Elo points.

    >>> round(ELO * read_size(10), 3), round(ELO * read_size(0.02), 1)
    (10.0, 13.9)
    """
    if not is_within(size, 0.0, math.inf):
        raise MarginError(
            f"{name}={spelled(size)} is not valid: give Elo points, such as 10, or a win probability below 0.5, such "
            "as 0.02."
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
    gap: Floats,
    se: Floats,
    shrinkage_factor: Floats | float = 1.0,
    *,
    margin: float | None = None,
    level: float = 0.95,
    valid: Validity = ONE_LOOK,
) -> tuple[str, ...]:
    """Return the verdict on each gap, given with its standard error and the margin in log odds; NaN: cannot tell.

    >>> judge(np.array([1.0, -1.0, 0.1, 0.1]), np.array([0.2, 0.2, 0.2, 0.01]), margin=0.2)
    ('ahead', 'behind', 'cannot tell', 'equivalent')
    """
    reach = valid.two_sided(level)
    with np.errstate(invalid="ignore"):
        found = np.where(gap > reach * se, AHEAD, np.where(gap < -reach * se, BEHIND, CANNOT_TELL))
        if margin is not None:
            shrunk = np.minimum(shrinkage_factor, 1.0)
            reached = np.abs(gap) / shrunk + valid.one_sided(level) * se / np.sqrt(shrunk)
            found = np.where(reached < margin, EQUIVALENT, found)
    return tuple(found.tolist())


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
        The smallest gap detectable with the `power`, if it is equal in all contexts. Where the
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
        reach = ELO * prospect.valid.two_sided(level) * se
        return cls(
            tuple(labels),
            judge(gap, se, prospect.shrinkage_factor, margin=limit, level=level, valid=prospect.valid),
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
            "detectable": detectable_words(self.detectable),
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
    return [words, f"detectable: the smallest gap that is called ahead with {power:.0%} power"]
