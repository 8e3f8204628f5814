"""Estimates of targets with their joint covariance: intervals, tests, contrasts and tables."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtr

from lrbtl.data.labels import find_label, index_labels
from lrbtl.errors import (
    BoundError,
    CovarianceError,
    DifferentRunsError,
    EstimateError,
    ScaleError,
    UnknownTargetError,
    as_floats,
    check_choice,
    check_flag,
    check_type,
    is_within,
    listed,
    spelled,
)
from lrbtl.inference.always_valid import Validity
from lrbtl.inference.entrywise import OwnVotes
from lrbtl.inference.joint import (
    WaldTest,
    bernstein_width,
    max_t_quantile,
    normal_quantile,
    wald_interval,
    wald_statistic,
)
from lrbtl.inference.power import POWER, Prospect
from lrbtl.inference.selection import Selected
from lrbtl.inference.summary import ROWS_SHOWN, EstimateTable, name_contrast
from lrbtl.inference.targets import FamilyLabels
from lrbtl.inference.verdicts import ELO, Verdicts
from lrbtl.methods.base import Provenance, Shrinkage
from lrbtl.methods.standard_errors import tail_widening
from lrbtl.tables import shown_rows, to_frame
from lrbtl.typing import Bools, Floats, Longs

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["ELO", "Estimate", "Provenance", "WaldTest"]

IntervalScale = Literal["auto", "natural", "elo"]
IntervalKind = Literal["normal", "bernstein", "entry"]
Influence = tuple[ArrayLike, ArrayLike, float]  # mean square and largest size of the values (M,), their number

IN_ELO = ("gap(", "score(", "weighted_score(", "tail_score(")  # targets that Elo points are printed of
COLUMNS = ("label", "estimate", "se", "z", "pvalue", "lower", "upper")


class Estimate:
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
        What own votes say of each target, which entry-wise intervals need; or a function that returns it.

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

    labels: FamilyLabels | tuple[str, ...]
    info: Provenance
    links: NDArray[np.str_]
    variance_noise: Floats

    def __init__(
        self,
        labels: Sequence[str],
        working: ArrayLike,
        cov: ArrayLike | None,
        *,
        links: ArrayLike,
        se: ArrayLike | None = None,
        variance_noise: ArrayLike = 0.0,
        info: Provenance | None = None,
        bound_se: ArrayLike | Callable[[], ArrayLike | None] | None = None,
        naive_se: ArrayLike | Callable[[], ArrayLike | None] | None = None,
        shrinkage: Callable[[Floats | None], Shrinkage] | None = None,
        means: ArrayLike | None = None,
        influence: Influence | Callable[[], Influence | None] | None = None,
        own: OwnVotes | Callable[[], OwnVotes | None] | None = None,
    ) -> None:
        self.labels = labels if isinstance(labels, FamilyLabels) else tuple(_texts(labels))
        check_type(info, (Provenance, type(None)), "info", "give a Provenance, or leave it out")
        self.info = Provenance() if info is None else info
        self._working = self._vector(working, "working")
        kinds = np.asarray(_texts(links) if not isinstance(links, str) else links, dtype=np.str_)
        if kinds.shape not in ((), (1,), (len(self.labels),)):
            raise EstimateError(f"there are {kinds.size} links for {len(self.labels)} labels: give one each, or one.")
        self.links = np.broadcast_to(kinds, (len(self.labels),))
        if unknown := set(self.links.tolist()) - {"identity", "logit", "probability"}:
            raise EstimateError(f"unknown links {sorted(unknown)}; a link is 'identity' or 'logit'.")
        if (cov is None) == (se is None):
            raise EstimateError("give either cov or, for very many targets, se: exactly one of the two.")
        self._cov = None if cov is None else _read_only(cov)
        if self._cov is not None and self._cov.shape != (len(self.labels),) * 2:
            raise EstimateError(f"cov has shape {self._cov.shape} for {len(self.labels)} targets.")
        self._se = np.sqrt(np.maximum(np.diag(self._cov), 0.0)) if self._cov is not None else self._vector(se, "se")
        noise = as_floats(variance_noise, "variance_noise", EstimateError)
        self.variance_noise = self._vector(
            np.full(len(self.labels), noise) if noise.ndim == 0 else noise, "variance_noise"
        )
        self._bound_source = _callable_alone(bound_se, "bound_se")
        self._naive_source = _callable_alone(naive_se, "naive_se")
        self._influence_source = _callable_alone(influence, "influence")
        self._own_source = _callable_alone(own, "own")
        self._shrinkage_source = shrinkage
        self._means = None if means is None else self._vector(means, "means")
        self._made_of: Estimate | None = None  # the root, unless it is this one
        self._root_weights: Floats | None = None  # (M, targets of the root); None is the identity

    @property
    def _root(self) -> Estimate:
        return self if self._made_of is None else self._made_of

    def _vector(self, values: Any, what: str) -> Floats:
        vector = _read_only(values)
        if vector.shape != (len(self.labels),):
            raise EstimateError(f"{what} has shape {vector.shape} for {len(self.labels)} labels.")
        return vector

    @cached_property
    def estimate(self) -> Floats:
        """(M,) estimates on the natural scale; of probabilities, posterior means where the method has a posterior."""
        plain = np.where(self._is_logit, expit(self._working), self._working)
        return plain if self._means is None else np.where(np.isnan(self._means), plain, self._means)

    @cached_property
    def se(self) -> Floats:
        """(M,) standard errors on the natural scale; for a probability p, se = p (1 - p) se(logit p)."""
        return self._slope * self._se

    @cached_property
    def cov(self) -> Floats:
        """(M, M) covariance on the natural scale."""
        cov = self._known_cov()
        return self._slope[:, None] * cov * self._slope if self._is_logit.any() else cov

    @property
    def working(self) -> Floats:
        """(M,) estimates on the working scale: the logit of a probability, anything else as it is."""
        return self._working

    @property
    def working_se(self) -> Floats:
        """(M,) standard errors on the working scale."""
        return self._se

    @property
    def working_cov(self) -> Floats:
        """(M, M) covariance on the working scale."""
        return self._known_cov()

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

    @property
    def bound(self) -> Floats:
        """(M,) smallest standard errors any estimator can have at this estimate, to be read beside `se`."""
        if self._bound_se is None:
            raise BoundError("this estimate carries no efficiency bound; ask the estimate that infer returned.")
        return self._slope * self._bound_se

    @property
    def gain_over_naive(self) -> Floats:
        """(M,) naive standard error over this one: 2 means that separate fits needed four times the battles."""
        if self._naive_se is None:
            raise BoundError("this estimate carries no naive standard errors; compare with infer(..., method='naive').")
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._naive_se / self._se

    @cached_property
    def _bound_se(self) -> Floats | None:
        values = self._bound_source() if callable(self._bound_source) else self._bound_source
        return None if values is None else self._vector(values, "bound_se")

    @cached_property
    def _influence(self) -> tuple[Floats, Floats, float] | None:
        found = self._influence_source() if callable(self._influence_source) else self._influence_source
        if found is None:
            return None
        if not (isinstance(found, tuple) and len(found) == 3 and is_within(found[2], 1.0, np.inf)):
            raise EstimateError("influence is not (mean squares, largest sizes, number of votes).")
        return self._vector(found[0], "influence"), self._vector(found[1], "influence"), float(found[2])

    @cached_property
    def _naive_se(self) -> Floats | None:
        values = self._naive_source() if callable(self._naive_source) else self._naive_source
        return None if values is None else self._vector(values, "naive_se")

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_naive_source", "_bound_source", "_influence_source", "_own_source"):
            state[name] = None if callable(state[name]) else state[name]
        state["_shrinkage_source"] = None
        return {**state, "_shrinkage": self._shrinkage}

    @property
    def follow(self) -> Floats:
        """(M,) shrinkage factors of changes that are alike in all contexts: 1 where nothing is shrunk."""
        return self._shrinkage.shrinkage_factor

    @property
    def noise(self) -> Floats:
        """(M,) how the estimates vary with the votes, on the working scale: `se` less what a prior pulls at."""
        return self._shrinkage.noise(self._se)

    def prospect(self) -> Prospect:
        """Return what more votes may show of the first target, in log odds."""
        unit = 1.0 if self._is_logit[0] else self.info.log_odds_unit
        return Prospect.of(self._working[0], self._se[0], self._shrinkage.first, unit, self.validity)

    @cached_property
    def _shrinkage(self) -> Shrinkage:
        if self._shrinkage_source is not None:
            return self._shrinkage_source(None)
        return self._root.shrinkage_of(np.eye(len(self)) if self._root_weights is None else self._root_weights)

    def shrinkage_of(self, weights: Floats) -> Shrinkage:
        """Return what a prior does to sums of targets, with weights (k, M) on the working scale."""
        if self._shrinkage_source is None:
            return Shrinkage.none(len(weights))
        return self._shrinkage_source(weights)

    @cached_property
    def _is_logit(self) -> Bools:
        return np.asarray(self.links == "logit", dtype=np.bool_)

    @cached_property
    def _slope(self) -> Floats:
        """Derivative of the natural by the working scale, (M,)."""
        return np.where(self._is_logit, expit(self._working) * expit(-self._working), 1.0)

    @cached_property
    def validity(self) -> Validity:
        """Under how many looks intervals and tests hold."""
        return Validity.of(self.info)

    def _known_cov(self) -> Floats:
        if self._cov is None:
            raise CovarianceError(
                f"the covariance of all {len(self.labels):,} targets was not kept; "
                "ask infer for the fewer targets that belong together."
            )
        return self._cov

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
            "normal": estimate ± c se. "bernstein": a bound for the mean of the influence values that needs no normal
            approximation, from their second moment and largest size; wider, and not for `joint`. "entry": covers each
            target whatever the others are, from its own votes; see the page on decisions for when to ask for which.

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
            interval = wald_interval(self._working, half)
        if scale == "auto":
            return np.where(self._is_logit[:, None], expit(interval), interval)
        if (other := np.flatnonzero(self.links != "identity")).size:
            raise ScaleError(
                f"{self.labels[other[0]]!r} is no score or gap, so it has no Elo points; use scale='auto'."
            )
        return ELO * self.info.log_odds_unit * interval

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

    @cached_property
    def _own(self) -> OwnVotes | None:
        return self._own_source() if callable(self._own_source) else self._own_source

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

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Estimate]:
        return (self._select(np.array([k])) for k in range(len(self)))

    def __getitem__(self, key: Any) -> Estimate:
        if isinstance(key, slice):
            return self._select(np.arange(len(self))[key])
        if isinstance(key, np.ndarray) and key.dtype == np.bool_:
            return self._select(np.flatnonzero(key))
        if isinstance(key, np.ndarray) and key.dtype == np.int64 and np.all((key >= 0) & (key < len(self))):
            return self._select(key.reshape(-1))
        many = isinstance(key, list) or (isinstance(key, np.ndarray) and key.ndim == 1)
        return self._select(np.array([self._position(one) for one in (key if many else [key])], dtype=np.int64))

    def _position(self, key: object) -> int:
        if isinstance(key, int | np.integer) and -len(self) <= key < len(self):
            return int(key) % len(self)
        return find_label(self._label_index, key, "target", UnknownTargetError)

    @cached_property
    def _label_index(self) -> dict[Any, int]:
        return index_labels(self.labels, "targets")

    def _select(self, rows: Longs) -> Estimate:
        if np.array_equal(rows, np.arange(len(self))):
            return self
        cov = None if self._cov is None else self._cov[np.ix_(rows, rows)]
        part = Estimate(
            [self.labels[k] for k in rows],
            self._working[rows],
            cov,
            links=self.links[rows],
            se=self._se[rows] if cov is None else None,
            variance_noise=self.variance_noise[rows],
            info=self.info,
            bound_se=lambda: None if self._bound_se is None else self._bound_se[rows],
            means=None if self._means is None else self._means[rows],
            naive_se=lambda: None if self._naive_se is None else self._naive_se[rows],
            shrinkage=(lambda _: self._shrinkage.at(rows)) if cov is None else None,
            influence=lambda: self._influence_of(rows),
            own=lambda: None if self._own is None else self._own.at(rows),
        )
        part._made_of = self._root
        if cov is not None:
            picks = np.zeros((rows.size, len(self)))
            picks[np.arange(rows.size), rows] = 1.0
            part._root_weights = self._to_root(picks)
        return part

    def _influence_of(self, rows: Longs) -> Influence | None:
        if self._influence is None:
            return None
        square, largest, n = self._influence
        return square[rows], largest[rows], n

    def _to_root(self, weights: Floats) -> Floats:
        """Weights on this estimate's working scale as weights on the root's."""
        return weights if self._root_weights is None else weights @ self._root_weights

    def contrast(self, weights: ArrayLike | Mapping[Any, float], label: str | Sequence[str] | None = None) -> Estimate:
        """Return weighted sums of the targets, on the natural scale, with their joint covariance.

        Parameters
        ----------
        weights
            (M,) or (k, M) weights, or a mapping from label (or position) to weight.
        label
            Name of the sum, or the names of all k.

        Examples
        --------
        >>> from lrbtl import Estimate
        >>> est = Estimate(["x", "y"], [1.0, 0.5], [[0.04, 0.03], [0.03, 0.04]], links="identity")
        >>> est.contrast({"x": 1, "y": -1}).estimate
        array([0.5])
        """
        if isinstance(weights, Mapping):
            matrix = np.zeros((1, len(self)))
            for key, weight in weights.items():
                number = as_floats(weight, f"the weight of {spelled(key)}", EstimateError)
                matrix[0, self._position(key)] = number if number.ndim == 0 else np.nan
        else:
            matrix = np.atleast_2d(as_floats(weights, "weights", EstimateError))
        if matrix.ndim != 2 or matrix.shape[1] != len(self) or not np.isfinite(matrix).all():
            raise EstimateError(
                f"weights of shape {matrix.shape} do not fit: give a finite weight to each of {len(self)} targets."
            )
        if label is None:
            label = [name_contrast(row, self.labels) for row in matrix]
        labels = [label] if isinstance(label, str) else _texts(label)
        used = np.flatnonzero(matrix.any(axis=0))
        with np.errstate(invalid="ignore", over="ignore"):
            value = matrix[:, used] @ self.estimate[used]
        mixed = (matrix[:, self.links != "identity"] != 0).any(axis=1)
        self._known_cov()
        return self._combined(labels, value, self._to_root(matrix * self._slope), mixed)

    def _combined(self, labels: Sequence[str], value: Floats, root_weights: Floats, mixed: Bools) -> Estimate:
        used = np.flatnonzero(root_weights.any(axis=0))
        loading = root_weights[:, used]
        with np.errstate(invalid="ignore", over="ignore"):
            cov = loading @ self._root._known_cov()[np.ix_(used, used)] @ loading.T
        links = np.where(mixed, "probability", "identity")
        variance_noise = np.max(np.where(loading != 0, self._root.variance_noise[used], 0.0), axis=1, initial=0.0)
        result = Estimate(labels, value, cov, links=links, variance_noise=variance_noise, info=self.info)
        result._made_of, result._root_weights = self._root, root_weights
        return result

    def __add__(self, other: Estimate) -> Estimate:
        return self._plus(other, 1.0, "+")

    def __sub__(self, other: Estimate) -> Estimate:
        return self._plus(other, -1.0, "-")

    def _plus(self, other: Estimate, sign: float, symbol: str) -> Estimate:
        if not isinstance(other, Estimate):
            return NotImplemented
        if self._root is not other._root:
            raise DifferentRunsError(
                "these estimates come from different runs, so their covariance is unknown; "
                "pass the targets of both to one infer call and combine its parts."
            )
        if len(self) != len(other) and 1 not in (len(self), len(other)):
            raise EstimateError(f"{len(self)} and {len(other)} targets cannot be combined one by one; use contrast.")
        self._known_cov()
        left, right = self._to_root(np.diag(self._slope)), other._to_root(np.diag(other._slope))
        size = max(len(self), len(other))
        names = zip(np.resize(self.labels, size).tolist(), np.resize(other.labels, size).tolist(), strict=True)
        mixed = (self.links != "identity") | (other.links != "identity")
        with np.errstate(invalid="ignore"):
            value = self.estimate + sign * other.estimate
        return self._combined([f"{a} {symbol} {b}" for a, b in names], value, left + sign * right, mixed)

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


def _texts(values: Any) -> list[str]:
    """Return names as a list of texts."""
    return [str(part) for part in listed(values, "labels and links", "give a text for each target", EstimateError)]


Source = TypeVar("Source")


def _callable_alone(source: Source, name: str) -> Source:
    """Return a function that is called when it is first needed, or a value; raise where it needs arguments."""
    if callable(source):
        try:
            inspect.signature(source).bind()
        except TypeError as error:
            raise EstimateError(f"{name} is a function that needs arguments: give one without.") from error
        except ValueError:  # compiled ones tell nothing
            pass
    return source


def _read_only(values: ArrayLike) -> Floats:
    view = as_floats(values, "estimates and errors", EstimateError).view()
    view.flags.writeable = False
    return view
