"""Wald tests and intervals: estimates that are normal with a known standard error."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WaldTest:
    """Two-sided test that each target equals `null`; all fields (M,)."""

    null: Floats
    z: Floats
    pvalue: Floats


def wald_statistic(difference: Floats, se: Floats) -> tuple[Floats, Floats]:
    """Return z = difference / se and its two-sided p-value 2 P(Z > |z|); NaN for 0 / 0.

    Examples
    --------
    >>> z, pvalue = wald_statistic(np.array([1.96]), np.array([1.0]))
    >>> pvalue.round(3)
    array([0.05])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        z = difference / se
    return z, erfc(np.abs(z) / sqrt(2.0))


def wald_interval(center: Floats, half_width: Floats) -> Floats:
    """Return (M, 2) bounds center ± half_width."""
    with np.errstate(invalid="ignore"):
        return np.column_stack([center - half_width, center + half_width])
