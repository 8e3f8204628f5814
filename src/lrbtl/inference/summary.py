"""The printed form of estimates: one table, as text and as HTML, and the names of contrasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrbtl.inference.always_valid import Validity
from lrbtl.methods.base import Provenance
from lrbtl.tables import decimals_for, format_numbers, format_pvalues, html_table, mark_gap, shown, text_table
from lrbtl.typing import Bools, Floats

ROWS_SHOWN = 20


@dataclass(frozen=True)
class EstimateTable:
    """What a summary shows: the columns of the first and last targets, and how the estimate was made.

    >>> from lrbtl import Estimate
    >>> print(Estimate(["x"], [1.0], [[0.25]], links="identity"))
    Estimate of 1 target
    label  estimate     se     z  pvalue  lower  upper
    x         1.000  0.500  2.00   0.046  0.020  1.980
    95% pointwise intervals; z and pvalue against 0.
    """

    columns: Mapping[str, Any]
    n_targets: int
    is_logit: Bools
    level: float
    info: Provenance
    elo: Sequence[str] | None = None  # of the shown targets, in Elo points, where some are scores or gaps

    def text(self) -> str:
        """Return the summary for the terminal."""
        return "\n".join([*map(shown, self._heading()), text_table(self._names(), self._rows()), self._footing()])

    def html(self) -> str:
        """Return the summary for the notebook."""
        heading = html_table(["run"], [[line.strip()] for line in self._heading()])
        return heading + html_table(self._names(), self._rows()) + f"<p>{self._footing()}</p>"

    def _names(self) -> list[str]:
        return [*self.columns, *([] if self.elo is None else ["Elo points"])]

    def _rows(self) -> list[list[str]]:
        decimals = decimals_for(self.columns["se"])
        cells = {name: format_numbers(self.columns[name], decimals) for name in ("estimate", "se", "lower", "upper")}
        cells["label"] = [str(label) for label in self.columns["label"]]
        cells["z"] = format_numbers(self.columns["z"], 2)
        cells["pvalue"] = format_pvalues(self.columns["pvalue"])
        more = [] if self.elo is None else [list(self.elo)]
        return mark_gap([*(cells[name] for name in self.columns), *more], self.n_targets)

    def _heading(self) -> list[str]:
        return [f"Estimate of {self.n_targets:,} target{'s' * (self.n_targets != 1)}", *self.info.describe()]

    def _footing(self) -> str:
        nulls = " or ".join("1/2" if logit else "0" for logit in np.unique(self.is_logit))
        looks = Validity.of(self.info)
        held = "" if looks.once else f", {looks.words()}"
        return f"{100 * self.level:.4g}% pointwise intervals{held}; z and pvalue against {nulls}."


def name_contrast(weights: Floats, labels: Sequence[str]) -> str:
    """Return the sum written out, or the number of its terms when there are many.

    >>> name_contrast(np.array([1.0, 0.0, -0.5]), ["x", "y", "z"])
    'x - 0.5·z'
    """
    used = np.flatnonzero(weights).tolist()
    if not 0 < len(used) <= 3:
        return f"contrast of {len(used)} targets"
    signs = ["-" if weights[k] < 0 else "+" for k in used]
    factors = ["" if abs(weights[k]) == 1 else f"{abs(weights[k]):.4g}·" for k in used]
    terms = [f"{sign} {factor}{labels[k]}" for sign, factor, k in zip(signs, factors, used, strict=True)]
    return " ".join(terms).removeprefix("+ ")
