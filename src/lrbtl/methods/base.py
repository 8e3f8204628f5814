"""What every method has in common: its options, a run on data, and a run's moments of targets."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Literal, Protocol, TypedDict

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.cells import other_side
from lrbtl.data.folds import check_fold_number
from lrbtl.data.observations import Data
from lrbtl.errors import LooksError, MethodError, check_choice, check_whole, is_within, make_rng
from lrbtl.fitting.low_rank import Fit, check_rank_kind, check_ridge
from lrbtl.fitting.solvers import SolverName
from lrbtl.methods.clusters import SMALLEST, Rows, cluster_moments, semidefinite
from lrbtl.methods.standard_errors import widening
from lrbtl.methods.targets import Resolved, resolved_gap, resolved_score
from lrbtl.model.links import Link
from lrbtl.model.sampling import Sampling
from lrbtl.options import Function, strict
from lrbtl.progress import as_progress
from lrbtl.threads import check_threads
from lrbtl.typing import Bools, Floats, Longs, Progress, Rank, Ridge, Seed

CLUSTER_BATCH = 512  # targets whose errors are summed by cluster at a time, where covariances are not asked for
LEAST_FOLLOWED = 0.01  # of a true change: less is as good as nothing
LEAST_NOISE = 1e-4  # of the variance of an estimate: how it varies with the votes at least
NO_FACTS = ("level", "notes", "unit", "log_odds_unit", "valid", "tuned_at", "looks")
DEFAULT_TUNING = 10_000  # votes at which intervals that are valid at any time are tightest
MOST_LOOKS = 400  # planned; for more, valid="always" is tighter
FamilyKind = Literal["scores", "gaps"]


@dataclass(frozen=True)
class Improvements:
    """What `efficient` and `whitened` add to Algorithms 1 and 2 of the paper; `one_step` has none of it.

    Attributes
    ----------
    ridge_share : float or None
        Share of the fit's penalty in the initial estimates: a small one has less bias, a large one less noise. 0 is no
        penalty, as printed; None is 0.5 for `efficient` and 0.75 for `whitened`.
    noisy_fit : bool
        Scores and information are means over the noise of the fitted eta, instead of values at the fit.
    model_floor : bool
        Model-based variances where the second moment of influence values vanishes, near separation.
    allowance : bool
        Wider standard errors for the noise of their own variances.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.Improvements.none()
    Improvements(ridge_share=0.0, noisy_fit=False, model_floor=False, allowance=False)
    """

    ridge_share: float | None = None
    noisy_fit: bool = True
    model_floor: bool = True
    allowance: bool = True

    @classmethod
    def none(cls) -> "Improvements":
        """Return the algorithms as printed."""
        return cls(0.0, False, False, False)


class RunOptions(TypedDict, total=False):
    """The options that every analysis takes, for the types of `analyse`, `infer`, `leaderboard`, `compare`, ..."""

    method: str | None
    rank: Rank
    n_folds: int
    ridge: Ridge
    link: str | Link | None
    sampling: Sampling | None
    se: Literal["crossfit", "full"]
    solver: SolverName
    n_threads: int | None
    rng: Seed
    progress: Progress | bool | None
    control: Sequence[str] | None
    effects: Literal["shared", "by_context"]
    config: Any
    improvements: Improvements | None
    features: Any
    valid: Literal["once", "always"]
    tuned_at: float | None
    looks: int | None


@dataclass(frozen=True)
class Options:
    """How a method is run; see `analyse`. A method uses those that concern it."""

    method: str | None = None
    rank: Rank = "auto"
    n_folds: int = 10
    ridge: Ridge = "auto"
    link: str | Link | None = None
    sampling: Sampling | None = None
    se: str = "crossfit"
    solver: SolverName = "auto"
    n_threads: int | None = 1
    rng: Seed = 0
    progress: Progress | bool | None = None
    control: Sequence[str] | None = None
    effects: str = "shared"
    config: Any = None
    improvements: Improvements | None = None
    features: Any = None
    valid: str = "once"
    tuned_at: float | None = None
    looks: int | None = None

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise where an option is no such option, whether or not the method will use it."""
        check_choice(self.se, ("crossfit", "full"), "se")
        check_choice(self.solver, ("auto", "direct", "cg"), "solver")
        check_rank_kind(self.rank)
        if not (isinstance(self.ridge, str) and self.ridge == "auto"):
            check_ridge(self.ridge, shape)
        check_fold_number(self.n_folds)
        check_threads(self.n_threads)
        make_rng(self.rng)
        as_progress(self.progress)
        check_improvements(self.improvements)
        check_looks(self.valid, self.tuned_at, self.looks)

    def say(self, text: str) -> None:
        """Report progress, where somebody asked for it."""
        if self._listener is not None:
            self._listener(text)

    @cached_property
    def _listener(self) -> Progress | None:
        return as_progress(self.progress)


def check_improvements(given: Any) -> None:
    """Raise unless improvements are such, with a share between 0 and 1."""
    if given is None:
        return
    if not isinstance(given, Improvements):
        raise MethodError(f"improvements={given!r}: give lrbtl.Improvements(...), or leave it out for all of them.")
    share = given.ridge_share
    if not (share is None or (isinstance(share, Real) and 0 <= share <= 1)):
        raise MethodError(f"ridge_share={share!r} is not a share: give a number from 0 to 1, or None.")


def check_looks(valid: Any, tuned_at: Any, looks: Any) -> None:
    """Raise unless these say how often results are looked at."""
    check_choice(valid, ("once", "always"), "valid", LooksError)
    if looks is not None:
        check_whole(looks, "looks", 1, LooksError)
        if looks > MOST_LOOKS:
            raise LooksError(f"looks={looks} are too many to plan, the most are {MOST_LOOKS}: use valid='always'.")
        if valid == "always":
            raise LooksError("valid='always' needs no number of looks: leave looks or valid out.")
    if tuned_at is not None:
        if not is_within(tuned_at, 0.0, float("inf")):
            raise LooksError(f"tuned_at={tuned_at!r} is not valid: give a number of votes, such as 20000.")
        if valid == "once" and looks is None:
            raise LooksError("tuned_at= goes with valid='always', or with looks=: give one of them.")


def named_options(function: Function) -> Function:
    """Return a function that takes **options, whose signature in `help` lists them by name and default.

    >>> @named_options
    ... def ask(question, **options): ...
    >>> list(inspect.signature(ask).parameters)[:3]
    ['question', 'method', 'rank']
    """
    more = [
        inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=item.type)
        for item in fields(Options)
    ]
    return strict(function, more, reading_options)


def strict_question(function: Function) -> Function:
    """Return a function that names the nearest option, and says which ones belong to reading votes; see `strict`."""
    return strict(function, (), reading_options)


def reading_options() -> set[str]:
    """Return the names of the options of reading votes."""
    return {*inspect.signature(Battles.read).parameters, *inspect.signature(Battles.from_frame).parameters}


@dataclass(frozen=True)
class Provenance:
    """How an estimate came about; None where it does not apply.

    `valid`, `tuned_at` and `looks` say under how many looks intervals hold, see `analyse`;
    `level` is the level of the printed intervals, `unit` what `n_battles` counts: battles or observations, and
    `log_odds_unit` the log odds of a nearly even vote per unit of score: 1 for the logistic link.
    """

    method: str = ""
    rank: tuple[int, ...] | None = None
    n_battles: int | None = None
    n_folds: int | None = None
    ridge: float | tuple[float, ...] | None = None
    sampling: str | None = None
    se: str | None = None
    link: str | None = None
    level: float = 0.95
    notes: tuple[str, ...] = ()
    unit: str = "battles"
    log_odds_unit: float = 1.0
    valid: str = "once"
    tuned_at: float | None = None
    looks: int | None = None

    def describe(self) -> list[str]:
        """Return one line per known fact, for the summary."""
        facts = [(item.name, getattr(self, item.name)) for item in fields(self) if item.name not in NO_FACTS]
        names = {"n_battles": self.unit, "n_folds": "folds"}
        lines = [f"  {names.get(name, name):<9} {_say(value)}" for name, value in facts if value not in (None, "")]
        return lines + [f"  note      {note}" for note in self.notes]


def _say(value: object) -> str:
    if isinstance(value, tuple):
        return " × ".join(_say(part) for part in value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Moments:
    """Moments of M targets by a method, on the working scale."""

    values: Floats  # (M,) estimates; NaN where the method has none
    cov: Floats | None  # (M, M) the covariance to report; None where only errors were asked for
    se: Floats  # (M,) the standard errors to report
    variance_noise: Floats  # (M,) variance of the log of each estimated variance; 0 for methods that do not know it
    # (M,) model-based errors of the best estimate from wins and losses, where the method knows them
    bound: Floats | None = None
    means: Floats | None = None  # (M,) posterior means of probabilities, NaN for other targets
    draws: Floats | None = None  # (S, M) draws from the posterior, where the method samples

    def without(self, lost: Bools) -> "Moments":
        """Return the moments with NaN for some targets."""
        if not lost.any():
            return self
        cov = None if self.cov is None else np.where(lost[:, None] | lost, np.nan, self.cov)
        values, se = np.where(lost, np.nan, self.values), np.where(lost, np.nan, self.se)
        bound = None if self.bound is None else np.where(lost, np.nan, self.bound)
        means = None if self.means is None else np.where(lost, np.nan, self.means)
        return Moments(values, cov, se, self.variance_noise, bound, means)

    def part(self, cut: slice) -> "Moments":
        """Return the moments of some targets, without covariances."""
        bound = None if self.bound is None else self.bound[cut]
        means = None if self.means is None else self.means[cut]
        return Moments(self.values[cut], None, self.se[cut], self.variance_noise[cut], bound, means)

    def spread_to(self, kept: Bools) -> "Moments":
        """Return the moments of more targets, of which those `kept` are these and the others have none."""
        at, size = np.flatnonzero(kept), len(kept)

        def vector(values: Floats, fill: float = np.nan) -> Floats:
            out = np.full(size, fill)
            out[at] = values
            return out

        cov = None
        if self.cov is not None:
            cov = np.full((size, size), np.nan)
            cov[np.ix_(at, at)] = self.cov
        bound = None if self.bound is None else vector(self.bound)
        means = None if self.means is None else vector(self.means)
        return Moments(vector(self.values), cov, vector(self.se), vector(self.variance_noise, 0.0), bound, means)


def joined(parts: Sequence[Moments]) -> Moments:
    """Return the moments of several lists of targets as those of one, without covariances."""
    bounds = [part.bound for part in parts if part.bound is not None]
    means = [part.means for part in parts if part.means is not None]
    return Moments(
        np.concatenate([part.values for part in parts]),
        None,
        np.concatenate([part.se for part in parts]),
        np.concatenate([part.variance_noise for part in parts]),
        np.concatenate(bounds) if bounds else None,
        np.concatenate(means) if means else None,
    )


@dataclass(frozen=True)
class Shrinkage:
    """What a prior does to estimates.

    Attributes
    ----------
    shrinkage_factor : array
        Mean estimate over a true change that is equal in all contexts.
    prior_variance : array
        Part of their variance that is the prior's; the rest is how they vary with the votes.
    prior_variance_growth : float
        Part of a squared change by which the prior variance grows once the change is there.
    slope, bend : array or float
        The information of the votes once the change is h, over that now, has the logarithm slope h + bend h^2, nearly.
    """

    shrinkage_factor: Floats
    prior_variance: Floats
    prior_variance_growth: float = 0.0
    slope: Floats | float = 0.0
    bend: Floats | float = 0.0

    @classmethod
    def none(cls, shape: int | tuple[int, int]) -> "Shrinkage":
        """Return that of estimates that are not shrunk."""
        return cls(np.ones(shape), np.zeros(shape))

    def at(self, rows: Longs) -> "Shrinkage":
        """Return that of some of the estimates, in one row."""
        each, shape = (self.shrinkage_factor, self.prior_variance, self.slope, self.bend), self.shrinkage_factor.shape
        factor, variance, slope, bend = (np.broadcast_to(x, shape).reshape(-1)[rows] for x in each)
        return Shrinkage(factor, variance, self.prior_variance_growth, slope, bend)

    @property
    def first(self) -> "Shrinkage":
        """That of the first estimate alone."""
        one = self.at(np.zeros(1, dtype=np.int64))
        return replace(one, **{name: x[0] for name, x in vars(one).items() if name != "prior_variance_growth"})

    def noise(self, se: Floats) -> Floats:
        """Return how estimates with these errors vary with the votes, as a standard deviation."""
        return np.asarray(np.sqrt(np.maximum(se**2 - self.prior_variance, LEAST_NOISE * se**2)))


def shrinkage_factors(levels: Floats, answers: Floats) -> Floats:
    """Return the shrinkage factors of changes of models' levels along what estimates are sums of, both (M, d1).

    >>> shrinkage_factors(np.array([[1.0, -1.0]]), np.array([[0.8, -0.8]])).round(2)
    array([0.8])
    """
    size = np.einsum("mj,mj->m", levels, levels)
    found = np.einsum("mj,mj->m", levels, answers) / np.where(size > 0, size, 1.0)
    return np.where(size > 0, np.maximum(found, LEAST_FOLLOWED), 1.0)


class SeparateErrors(Protocol):
    """Model-based errors that one fit per context would have; None where they are not computed."""

    def errors(self, targets: Sequence[Resolved]) -> Floats | None:
        """Return those of targets."""

    def board_errors(self, row: Floats, among: Bools | None) -> Floats | None:
        """Return those of a board's mean scores, with weights (D,) of contexts, against the mean of some models."""


class Run(ABC):
    """A method run on data: one object serves every target and every board."""

    data: Data
    link: Link  # law of the responses, with its own parameters as estimated
    provenance: Provenance
    fit: Fit | None = None  # the low-rank fit behind it, where there is one
    shrinks: ClassVar[bool] = False  # whether standard errors include a prior variance, beside the noise of votes
    absolute = False  # whether scores have a zero of their own, instead of the mean of the models

    @abstractmethod
    def vote_moments(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Moments:
        """Return estimates of targets with their covariance, or only with their errors, for independent votes."""

    @abstractmethod
    def influence_rows(self, targets: Sequence[Resolved]) -> Rows:
        """Return a function from positions of cells to the influence of one vote of each on the targets, (n, M)."""

    def influences(self, targets: Sequence[Resolved]) -> Floats:
        """Return by how much one vote of each cell moves each target on its working scale, (n_cells, M).

        It is the score of the vote times the target's direction; residuals are those that errors are made of. Under
        cross-fitting a vote's influence is that in its own fold. Votes of a cell may lie in several folds, then it is
        their mean; with clusters they do not, as a cluster stays in one fold.
        """
        return self.influence_rows(targets)(np.arange(self.data.n_cells))

    def influence_moments(self, targets: Sequence[Resolved]) -> tuple[Floats, Floats]:
        """Return the mean square and the largest size of n times one vote's influence on each target, (M,) each."""
        found, count = self.influences(targets) * self.data.n_battles, self.data.cells.count
        return count @ found**2 / count.sum(), np.abs(found).max(axis=0)

    def shrinkage(self, targets: Sequence[Resolved], weights: Floats | None = None) -> Shrinkage:
        """Return what a prior does to estimates of targets, or of sums of them: nothing in methods without one."""
        return Shrinkage.none(len(targets) if weights is None else len(weights))

    def board_shrinkage(self, row: Floats, among: Bools | None, weights: Floats | None = None) -> Shrinkage:
        """Return the same for the mean scores of a board, or sums of them; see `score_moments`."""
        return Shrinkage.none(self.data.shape[0] if weights is None else len(weights))

    def family_shrinkage(self, kind: FamilyKind) -> Shrinkage:
        """Return the same for all scores (d1, D), or all gaps (pairs, D)."""
        d1, D = self.data.shape[0], self.data.n_contexts
        return Shrinkage.none((d1 if kind == "scores" else d1 * (d1 - 1) // 2, D))

    @property
    def clustered(self) -> bool:
        """Whether errors allow for clusters of votes."""
        return self.data.cells.clusters is not None

    def moments(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Moments:
        """Return estimates of targets with their covariance, or only with their errors."""
        found = self.vote_moments(targets, errors_only=errors_only)
        return self._with_clusters(found, targets) if self.clustered else found

    def _with_clusters(self, found: Moments, targets: Sequence[Resolved]) -> Moments:
        """Return moments with errors that allow for clusters."""
        assert isinstance(self.data, Battles)
        if found.cov is None and len(targets) > CLUSTER_BATCH:
            cuts = [slice(k, k + CLUSTER_BATCH) for k in range(0, len(targets), CLUSTER_BATCH)]
            return joined([self._with_clusters(found.part(cut), targets[cut]) for cut in cuts])
        rows = self.influence_rows(targets)
        extra = cluster_moments(rows, self.data, len(targets), diagonal=found.cov is None)
        wider = widening(2.0 * extra.noise)
        noise = found.variance_noise + extra.noise
        least = np.maximum(found.se**2 + extra.least, SMALLEST * found.se**2)
        if found.cov is None:
            variance = np.maximum(found.se**2 + extra.added, least)
            return replace(found, se=wider * np.sqrt(variance), variance_noise=noise)
        cov = semidefinite(found.cov + extra.added, least) * np.outer(wider, wider)
        return replace(found, cov=cov, se=np.sqrt(np.maximum(np.diag(cov), 0.0)), variance_noise=noise)

    @abstractmethod
    def scores(self) -> Floats:
        """Return the estimates of all scores, (d1, D); NaN where there is none."""

    def score_moments(self, weights: Floats, among: Bools | None = None) -> list[Moments]:
        """Return, for each row of weights (B, D) of contexts, the moments of all models' mean scores.

        Scores of a row sum to zero over the models of its row of `among` (B, d1), by default over all. Models that
        have no score there are NaN, and so are all where one of `among` has none.
        """
        found = self.vote_score_moments(weights, among)
        if not self.clustered:
            return found
        out = []
        for i, (row, moments) in enumerate(zip(weights, found, strict=True)):
            inside = None if among is None else among[i]
            out.append(self._with_clusters(moments, [resolved_score(a, row, inside) for a in range(len(moments.se))]))
        return out

    def vote_score_moments(self, weights: Floats, among: Bools | None = None) -> list[Moments]:
        """Return the same for independent votes."""
        out = []
        for i, row in enumerate(weights):
            inside = None if among is None else among[i]
            kept = self.placed(row)
            if not np.all(kept if inside is None else kept[inside]):
                kept = np.zeros_like(kept) if inside is not None else kept
            targets = [resolved_score(int(a), row, inside) for a in np.flatnonzero(kept)]
            out.append(self.vote_moments(targets).spread_to(kept) if targets else _no_moments(len(kept)))
        return out

    def family(self, kind: FamilyKind) -> tuple[Floats, Floats]:
        """Return estimates and errors of all scores (d1, D), or of all gaps a - b, a < b, (pairs, D)."""
        return self._clustered_family(kind) if self.clustered else self.vote_family(kind)

    def _clustered_family(self, kind: FamilyKind) -> tuple[Floats, Floats]:
        """Return the same, context by context, with errors that allow for clusters."""
        d1, D = self.data.shape[0], self.data.n_contexts
        a, b = np.triu_indices(d1, 1)
        values, errors = [], []
        for unit in np.eye(D):
            (found,) = self.score_moments(unit[None])
            assert found.cov is not None
            own = np.diag(found.cov)
            gaps = own[a] + own[b] - 2.0 * found.cov[a, b]
            values.append(found.values if kind == "scores" else found.values[a] - found.values[b])
            errors.append(found.se if kind == "scores" else np.sqrt(np.maximum(gaps, 0.0)))
        return np.stack(values, axis=1), np.stack(errors, axis=1)

    def vote_family(self, kind: FamilyKind) -> tuple[Floats, Floats]:
        """Return the same for independent votes."""
        d1, D = self.data.shape[0], self.data.n_contexts
        units = np.eye(D)
        if kind == "scores":
            targets = [resolved_score(a, unit) for a in range(d1) for unit in units]
        else:
            pairs = zip(*np.triu_indices(d1, 1), strict=True)
            targets = [resolved_gap(int(a), int(b), unit) for a, b in pairs for unit in units]
        found = self.vote_moments(targets, errors_only=True)
        return found.values.reshape(-1, D), found.se.reshape(-1, D)

    def placed(self, weights: Floats) -> Bools:
        """Return which models have a score on the board with these weights (D,) of contexts, (d1,)."""
        return np.ones(self.data.shape[0], dtype=np.bool_)

    def why_not(self, model: int, weights: Floats) -> str:
        """Return a short reason why a model is not placed on the board with these weights of contexts."""
        votes, wins, losses = vote_record(self.data, model, weights)
        if not votes:
            return "no votes here"
        if not losses:
            return f"won all {votes} votes here"
        return f"lost all {votes} votes here" if not wins else "too few votes here for a score"

    def leans_on(self, has_votes_elsewhere: bool) -> str:
        """Return what the score of a model with few or no votes on a board rests on; empty where on these alone."""
        return ""

    def outlier(self, model: int, weights: Floats) -> float:
        """Return how far an outlier is from the model's other scores on a board; 0 where the score is none."""
        return 0.0

    @cached_property
    def separate_errors(self) -> SeparateErrors | None:
        """Precision of one fit per context; None where the method does not know."""
        return None


class Method(ABC):
    """A way to estimate targets, chosen by its name."""

    name: ClassVar[str]
    unused: ClassVar[tuple[str, ...]] = ("config",)  # options that have no effect on it
    takes_features: ClassVar[bool] = False  # whether a table of features informs its scores
    improvable: ClassVar[bool] = False  # whether `improvements` have an effect on it
    takes_votes: ClassVar[bool] = True  # whether it is for battles, beside or instead of results

    def unused_note(self, options: RunOptions) -> str:
        """Return a note on options that were given and have no effect; empty where there are none.

        >>> from lrbtl.hierarchical.method import Hierarchical
        >>> Hierarchical().unused_note({"n_folds": 5, "ridge": "auto"})
        'n_folds=5 has no effect on the hierarchical method'
        """
        names = self.unused if self.improvable else (*self.unused, "improvements")
        given = {name: options.get(name) for name in names}
        lost = [f"{name}={x!r}" for name, x in given.items() if not (x is None or (isinstance(x, str) and x == "auto"))]
        have = "has" if len(lost) == 1 else "have"
        return f"{', '.join(lost)} {have} no effect on the {self.name} method" if lost else ""

    @abstractmethod
    def run(self, data: Data, options: Options) -> Run:
        """Return the method run on data."""


def vote_record(data: Data, model: int, weights: Floats) -> tuple[int, int, int]:
    """Return a model's votes in the contexts with a weight: all, those not lost outright, those not won outright."""
    cells = data.cells
    here = (np.asarray(weights)[cells.context] > 0) & ((cells.a == model) | (cells.b == model))
    y = np.where(cells.a == model, cells.y, other_side(cells.y))[here] if isinstance(data, Battles) else cells.y[here]
    count = cells.count[here]
    return int(count.sum()), int(count[y > 0].sum()), int(count[y < 1].sum())


def _no_moments(size: int) -> Moments:
    nothing = np.full(size, np.nan)
    return Moments(nothing, np.full((size, size), np.nan), nothing, np.zeros(size))
