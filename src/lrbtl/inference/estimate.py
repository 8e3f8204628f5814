"""Estimates of targets with their joint covariance: intervals, tests, contrasts and tables."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, ndtr

from lrbtl.entries.posterior import central
from lrbtl.errors import (
    BoundError,
    EstimateError,
    ScaleError,
    as_floats,
    check_choice,
    check_flag,
    check_type,
)
from lrbtl.inference.always_valid import Validity
from lrbtl.inference.joint import (
    WaldTest,
    bernstein_width,
    max_t_quantile,
    normal_quantile,
    wald_interval,
    wald_statistic,
)
from lrbtl.inference.joint_values import JointValues
from lrbtl.inference.power import POWER, Prospect
from lrbtl.inference.selection import Selected
from lrbtl.inference.summary import ROWS_SHOWN, EstimateTable
from lrbtl.inference.verdicts import ELO, Verdicts
from lrbtl.methods.base import Provenance
from lrbtl.methods.standard_errors import tail_widening
from lrbtl.tables import shown_rows, to_frame
from lrbtl.typing import Floats

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["ELO", "Estimate", "Provenance", "WaldTest"]

IntervalScale = Literal["auto", "natural", "elo"]
IntervalKind = Literal["normal", "bernstein", "entry"]

IN_ELO = ("gap(", "score(", "weighted_score(", "tail_score(")  # targets that Elo points are printed of
COLUMNS = ("label", "estimate", "se", "z", "pvalue", "lower", "upper")


class Estimate(JointValues):
    """Estimates of M targets and their joint covariance.

    Scores and gaps are kept as they are (link "identity"). A probability is kept as its logit (link "logit"): intervals
    and tests are made there and mapped back, so an interval stays inside (0, 1). `estimate`, `se` and `cov` are on the
    natural scale, where a probability is a probability.

    Indexing (`est["x"]`, `est[3]`, `est[["x", "y"]]`, `est[:10]`) gives an `Estimate` that still knows its covariance
    with the rest of the run, so `est["x"] - est["y"]` has the right error.

    Parameters
    ----------
    labels
        Names of the targets, M of them.
    working
        (M,) estimates on the working scale: the logit of a probability, anything else as it is.
    cov
        (M, M) covariance on the working scale; None when M is huge, and then `se` is needed.
    links
        "identity" or "logit", one per target or one for all.
    se
        (M,) standard errors on the working scale, only when `cov` is None.
    variance_noise
        (M,) variance of the log of each estimated variance, none by default. `cov` allows for it as far as 95%
        intervals go; joint ones, which reach further into the tails, widen some more.
    info
        How the run was made.
    bound_se, naive_se
        (M,) on the working scale: the smallest standard error any estimator can have at this estimate, and that of
        one Bradley-Terry fit per context. A function is called when they are first read; pickles of an
        estimate for which that has not happened lack them.
    shrinkage
        A function from weights (k, M), or None for the targets themselves, to what a prior does to these estimates;
        None where it does nothing.
    means
        (M,) posterior means of probabilities, NaN for other targets; intervals are those of the working scale.
    influence
        Mean square and largest size (M,) of the influence values, on the working scale, and the number of votes: what
        Bernstein intervals need; or a function that returns them when they are first needed.
    own
        Estimates of each target by its own votes, which entry-wise intervals need; or a function that returns it.
    draws
        (S, M) draws from the posterior on the working scale, whose quantiles are then the intervals of single targets.

    Examples
    --------
    >>> from lrbtl import Estimate
    >>> est = Estimate(["x", "y"], [1.0, 0.5], [[0.04, 0.03], [0.03, 0.04]], links="identity")
    >>> est.se.round(3)
    array([0.2, 0.2])
    >>> gap = est["x"] - est["y"]
    >>> gap.labels, gap.se.round(3)
    (('x - y',), array([0.141]))
    """

    @property
    def z(self) -> Floats:
        """(M,) test statistics of `test()`: against 0, for probabilities against 1/2."""
        return self.test().z

    @property
    def pvalue(self) -> Floats:
        """(M,) two-sided p-values of `test()`."""
        return self.test().pvalue

    @property
    def lower(self) -> Floats:
        """(M,) lower ends of the intervals at the level of the run, 95% unless another was given."""
        return self.conf_int(self.info.level)[:, 0]

    @property
    def upper(self) -> Floats:
        """(M,) upper ends of the intervals at the level of the run, 95% unless another was given."""
        return self.conf_int(self.info.level)[:, 1]

    def prospect(self) -> Prospect:
        """Return what more votes may show of the first target, in log odds."""
        unit = 1.0 if self._is_logit[0] else self.info.log_odds_unit
        return Prospect.of(self._working[0], self._se[0], self._shrinkage.first, unit, self.validity)

    @cached_property
    def validity(self) -> Validity:
        """Under how many looks intervals and tests hold."""
        return Validity.of(self.info)

    def conf_int(
        self,
        level: float = 0.95,
        joint: bool = False,
        scale: IntervalScale = "auto",
        kind: IntervalKind = "normal",
    ) -> Floats:
        """Return (M, 2) confidence intervals.

        Parameters
        ----------
        level
            Coverage, of each interval or, with `joint`, of all of them at once.
        joint
            Widen the intervals by the quantile of the largest abs(Z) under their correlation.
        scale
            "auto": scores as they are, probabilities by the logit scale. "natural": estimate ± c se, which for a
            probability may leave (0, 1). "elo": scores times 400 / ln 10.
        kind
            "normal": estimate ± c se, or quantiles of draws where the method samples. "bernstein": a bound for the mean
            of the influence values that needs no normal approximation, from their second moment and largest observed
            size; wider, and not for `joint`. "entry": covers each target whatever the others are, from its own votes;
            see the page on decisions for when to ask for which.

        Examples
        --------
        >>> from lrbtl import Estimate
        >>> est = Estimate(["x beats y"], [2.0], [[0.25]], links="logit")
        >>> est.conf_int().round(3)
        array([[0.735, 0.952]])
        """
        check_flag(joint, "joint", EstimateError)
        check_choice(scale, ("auto", "natural", "elo"), "scale", ScaleError)
        if kind == "entry":
            if joint or scale == "natural":
                raise EstimateError("entry-wise intervals are neither joint nor for scale='natural': leave both out.")
            interval = self._entrywise(level)
        else:
            half = self._half_widths(level, joint, kind)
            if scale == "natural":
                return wald_interval(self.estimate, self._slope * half)
            drawn = None if joint or kind != "normal" else self._of_draws(level)
            interval = wald_interval(self._working, half) if drawn is None else drawn
        if scale == "auto":
            return np.where(self._is_logit[:, None], expit(interval), interval)
        if (other := np.flatnonzero(self.links != "identity")).size:
            raise ScaleError(
                f"{self.labels[other[0]]!r} is not a score or gap, so it has no Elo points; use scale='auto'."
            )
        return ELO * self.info.log_odds_unit * interval

    def _of_draws(self, level: float) -> Floats | None:
        """Return central intervals (M, 2) of draws from the posterior; None where the method draws none."""
        root = self._root._draws
        if root is None:
            return None
        return central(root if self._root_weights is None else root @ self._root_weights.T, level).T

    def _half_widths(self, level: float, joint: bool, kind: str) -> Floats:
        """Return half the length of intervals on the working scale, (M,)."""
        check_choice(kind, ("normal", "bernstein", "entry"), "kind", EstimateError)
        if kind == "bernstein":
            if not self.validity.once:
                raise EstimateError("Bernstein intervals are for one look: leave valid and looks out.")
            if joint:
                raise EstimateError("Bernstein intervals are not joint: divide 1 - level by the number of targets.")
            return self._bernstein(level)
        if not joint:
            return self.validity.two_sided(level) * self._se
        critical = self.validity.joint(self._joint_quantile(level), level, len(self))
        return np.asarray(critical * tail_widening(critical, self.variance_noise) * self._se)

    def _bernstein(self, level: float) -> Floats:
        """Return half widths by the empirical Bernstein inequality, at least those that the standard errors give."""
        normal_quantile(level)
        if self._influence is None:
            raise BoundError(
                "this estimate carries no influence values of independent votes: ask infer(...) for these targets, "
                "from votes without clusters."
            )
        square, largest, n = self._influence
        return bernstein_width(np.maximum(square, n * self._se**2), largest, n, level)

    def largest(self, level: float | None = None) -> Selected:
        """Return the target with the largest estimate, with an interval that holds although it was picked.

        Examples
        --------
        >>> from lrbtl import Estimate
        >>> est = Estimate(["x", "y"], [1.0, 0.5], [[0.04, 0.0], [0.0, 0.04]], links="identity")
        >>> est.largest().label, est.conf_int().round(2)[0].tolist()
        ('x', [0.61, 1.39])
        """
        held = self.info.level if level is None else level
        k, ends = int(np.nanargmax(self.estimate)), self.conf_int(held, joint=True)
        known = int(np.isfinite(self.estimate).sum())
        return Selected(self.labels[k], float(self.estimate[k]), float(ends[k, 0]), float(ends[k, 1]), known, held)

    def _entrywise(self, level: float) -> Floats:
        """Return intervals from own votes on the working scale, (M, 2)."""
        if self._own is None:
            raise EstimateError(
                "this estimate does not know the own votes of its targets; ask the estimate that infer returned."
            )
        held = 1.0 - 2.0 * float(ndtr(-self.validity.two_sided(level)))
        return self._own.intervals(self._working, held)

    def _joint_quantile(self, level: float) -> float:
        cov = self._known_cov()
        varies = np.flatnonzero(np.isfinite(self._se) & (self._se > 0))
        se = self._se[varies]
        return max_t_quantile(cov[np.ix_(varies, varies)] / np.outer(se, se), level)

    def test(self, null: ArrayLike | None = None) -> WaldTest:
        """Return the two-sided Wald test that each target equals `null`.

        Parameters
        ----------
        null
            A number or (M,) values on the natural scale; None is 0, for probabilities 1/2. Probabilities are tested
            on the logit scale.

        Examples
        --------
        >>> from lrbtl import Estimate
        >>> est = Estimate(["x"], [1.0], [[0.25]], links="identity")
        >>> est.test().z, est.test(null=1.0).pvalue
        (array([2.]), array([1.]))
        """
        default = np.where(self._is_logit, 0.5, 0.0)
        values = default if null is None else as_floats(null, "null", EstimateError)
        if values.shape not in ((), default.shape):
            raise EstimateError(
                f"null has shape {values.shape}: give one number, or one for each of {len(self)} targets."
            )
        values = np.broadcast_to(values, default.shape)
        if not ((values > 0) & (values < 1))[self._is_logit].all():
            raise EstimateError("the null of a probability must lie between 0 and 1.")
        center = np.where(self._is_logit, logit(np.where(self._is_logit, values, 0.5)), values)
        z, pvalue = wald_statistic(self._working - center, self._se)
        if not self.validity.once:
            pvalue = wald_statistic(self.validity.one_look(z), np.ones(len(self)))[1]
        return WaldTest(np.array(values), z, pvalue)

    def verdicts(self, margin: float | None = None, *, level: float = 0.95, power: float = POWER) -> Verdicts:
        """Return what each gap comes to: ahead, behind, equivalent within a margin, or cannot tell.

        Scores are gaps to their mean, and win probabilities are compared with 1/2.

        Parameters
        ----------
        margin
            What does not matter: Elo points, or a win probability if it is below 0.5 (0.02: from 48% to 52%). None:
            nothing is called equivalent.
        level
            Ahead and behind: outside of the interval at this level. Equivalent: two one-sided tests at 1 - level.
        power
            With which the gaps in `detectable` would have been shown.

        Examples
        --------
        >>> from lrbtl import Estimate
        >>> est = Estimate(["x - y", "y - z"], [0.5, 0.1], [[0.01, 0.0], [0.0, 0.01]], links="identity")
        >>> print(est.verdicts(margin=60))
        Verdicts on gaps in Elo points
        ahead or behind at 95%, equivalent within 60 Elo points by two one-sided tests at 5%
        detectable: the smallest gap that is called ahead with 80% power
        label     verdict  gap   interval  detectable
        x - y       ahead   87  53 to 121          49
        y - z  equivalent   17  -17 to 51          49
        """
        if (other := np.flatnonzero(self.links == "probability")).size:
            raise ScaleError(f"{self.labels[other[0]]!r} is a sum of probabilities, no gap: ask for one or the other.")
        unit = np.where(self._is_logit, 1.0, self.info.log_odds_unit)
        return Verdicts.of(
            self.labels,
            unit * self._working,
            unit * self._se,
            margin=margin,
            level=level,
            power=power,
            prospect=Prospect.of(self._working, self._se, self._shrinkage, unit, self.validity),
        )

    def _columns(self, level: float, joint: bool) -> dict[str, Any]:
        test, interval = self.test(), self.conf_int(level, joint)
        values = (list(self.labels), self.estimate, self.se, test.z, test.pvalue, interval[:, 0], interval[:, 1])
        return dict(zip(COLUMNS, values, strict=True))

    @overload
    def to_frame(self, backend: Literal["pandas"], *, level: float = ..., joint: bool = ...) -> pd.DataFrame: ...
    @overload
    def to_frame(self, backend: Literal["polars"], *, level: float = ..., joint: bool = ...) -> pl.DataFrame: ...
    @overload
    def to_frame(self, backend: Literal["pyarrow"], *, level: float = ..., joint: bool = ...) -> pa.Table: ...
    @overload
    def to_frame(self, backend: str | None = None, *, level: float = ..., joint: bool = ...) -> Any: ...
    def to_frame(self, backend: str | None = None, *, level: float = 0.95, joint: bool = False) -> Any:
        """Return a frame with columns label, estimate, se, z, pvalue, lower, upper.

        `backend` is "pandas", "polars" or "pyarrow"; None takes the first that is installed.
        """
        return to_frame(self._columns(level, joint), backend)

    def to_pandas(self, *, level: float = 0.95, joint: bool = False) -> pd.DataFrame:
        """Return the table as a pandas frame; see `to_frame`."""
        return self.to_frame("pandas", level=level, joint=joint)

    def to_polars(self, *, level: float = 0.95, joint: bool = False) -> pl.DataFrame:
        """Return the table as a polars frame; see `to_frame`."""
        return self.to_frame("polars", level=level, joint=joint)

    def to_dict(self, *, level: float = 0.95, joint: bool = False) -> dict[str, list[Any]]:
        """Return the columns of `to_frame` as plain lists, ready for JSON."""
        return {name: np.asarray(column).tolist() for name, column in self._columns(level, joint).items()}

    def to_json(self, title: str = "Estimate", *, level: float | None = None) -> str:
        """Return the table as JSON: a title, how it was made, the level, and a list of rows; null where not finite.

        Examples
        --------
        >>> import json
        >>> from lrbtl import Estimate
        >>> json.loads(Estimate(["x"], [1.0], [[0.25]], links="identity").to_json())["rows"][0]["estimate"]
        1.0
        """
        check_type(title, str, "title", "give a text")
        normal_quantile(self.info.level if level is None else level)
        chosen = float(self.info.level if level is None else level)
        columns = {
            name: [None if isinstance(x, float) and not np.isfinite(x) else x for x in column]
            for name, column in self.to_dict(level=chosen).items()
        }
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        content: dict[str, Any] = {
            "title": title,
            "method": self.info.method,
            "n_battles": self.info.n_battles,
            "level": chosen,
            "valid": Validity.of(self.info).words(),
        }
        content |= {"notes": list(self.info.notes), "rows": rows}
        return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"

    def _table(self, level: float) -> EstimateTable:
        normal_quantile(level)
        head, tail = shown_rows(len(self), ROWS_SHOWN)
        shown = self._select(np.array(head + tail, dtype=np.int64))
        columns = shown._columns(level, joint=False)
        return EstimateTable(columns, len(self), self._is_logit, level, self.info, shown._elo_words(level))

    def _elo_words(self, level: float) -> list[str] | None:
        """Return scores and gaps in Elo points with their intervals; None where there are none."""
        inside = [
            link == "identity" and str(label).startswith(IN_ELO)
            for label, link in zip(self.labels, self.links, strict=True)
        ]
        if self.info.unit != "battles" or not self.info.method or not any(inside):
            return None
        unit = ELO * self.info.log_odds_unit
        ends = unit * wald_interval(self._working, self.validity.two_sided(level) * self._se)
        rows = zip(inside, unit * self._working, ends, strict=True)
        return [f"{x:+.0f} ({low:+.0f} to {high:+.0f})" if known else "" for known, x, (low, high) in rows]

    def summary(self, level: float | None = None) -> str:
        """Return the run and the table as text; long tables show their first and last rows."""
        return self._table(self.info.level if level is None else level).text()

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return self._table(self.info.level).html()
