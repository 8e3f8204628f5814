"""What is said of a target that was picked because of its estimate: the first model, the largest gap of any category.

The interval of a target named beforehand does not hold for the largest of many: that one is more often too large.
Joint intervals hold for all targets at once, so also for whichever is picked, by whatever rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lrbtl.errors import check_whole
from lrbtl.tables import TextResult, shown

DIGITS = 15  # of a number


@dataclass(frozen=True)
class Selected(TextResult):
    """A target that was picked among several, with an interval that holds after that.

    Attributes
    ----------
    label : the target's
    estimate, lower, upper : float
    among : int
        Targets that it was picked from.
    level : float

    Examples
    --------
    >>> from lrbtl import Estimate
    >>> est = Estimate(["x", "y"], [1.0, 0.5], [[0.04, 0.0], [0.0, 0.04]], links="identity")
    >>> print(est.largest())
    x: 1.00 (0.55 to 1.45), picked from 2; 95% after that
    """

    label: Any
    estimate: float
    lower: float
    upper: float
    among: int
    level: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return dict(self.__dict__)

    def words(self, decimals: int = 2) -> str:
        """Return the estimate and its interval with so many decimals."""
        check_whole(decimals, "decimals", 0)
        decimals = min(decimals, DIGITS)
        numbers = f"{self.estimate:,.{decimals}f} ({self.lower:,.{decimals}f} to {self.upper:,.{decimals}f})"
        return f"{shown(self.label)}: {numbers}, picked from {self.among}; {100 * self.level:.4g}% after that"

    def __str__(self) -> str:
        return self.words(0 if abs(self.estimate) >= 100 else 2)
