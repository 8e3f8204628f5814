"""A method run on data, and the estimates that it gives: the one place that infer, boards and comparisons read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from typing import Any, Unpack

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.cells import BOTH_BAD
from lrbtl.data.frames import Frame, as_data
from lrbtl.data.observations import Data, Results, with_features
from lrbtl.entries.method import FactorMethod, FactorRun
from lrbtl.errors import (
    CovariateError,
    LooksError,
    MethodError,
    SeparationWarning,
    TooLargeError,
    check_choice,
    check_type,
    warn_user,
)
from lrbtl.fitting.low_rank import Fit
from lrbtl.hierarchical.config import HierarchicalConfig
from lrbtl.hierarchical.large import PART_MODELS, has_room
from lrbtl.hierarchical.method import Hierarchical, HierarchicalRun, feature_moments
from lrbtl.inference.bounds import estimated_bound
from lrbtl.inference.effects import EffectEstimate, estimate_effects
from lrbtl.inference.entrywise import OwnVotes, own_votes
from lrbtl.inference.estimate import Estimate
from lrbtl.inference.targets import Family, Target, resolve_targets
from lrbtl.methods.base import Method, Moments, Options, Provenance, Run, RunOptions, Shrinkage, named_options
from lrbtl.methods.both_bad import GroundedMethod
from lrbtl.methods.clusters import check_clusters
from lrbtl.methods.efficient import Efficient
from lrbtl.methods.low_rank import LowRank
from lrbtl.methods.mle import Mle
from lrbtl.methods.naive import Naive
from lrbtl.methods.targets import Resolved, WorkingScale
from lrbtl.methods.whitened import Whitened
from lrbtl.model.links import Link, as_link
from lrbtl.typing import Bools, Floats

LOOKS = ("valid", "tuned_at", "looks")  # options that say under how many looks intervals hold
MOST_MODELS = 30_000  # of which matrices of all pairs fit into memory


class Questions:
    """What an analysis answers about boards: votes are analysed once, however often one asks; `Analysis` is one."""

    battles: Data

    def leaderboard(self, context: Any = None, **options: Any) -> Any:
        """Return the overall board, or that of a context; see `lrbtl.leaderboard` for the options.

        Examples
        --------
        >>> import lrbtl
        >>> analysis = lrbtl.analyse(lrbtl.demo_battles())
        >>> analysis.leaderboard("maths").context, analysis.boards()["overall"].context
        ('maths', None)
        """
        return _boards("leaderboard").leaderboard(self, context=context, **options)

    def boards(self, **options: Any) -> Any:
        """Return the overall board and those of all contexts; see `lrbtl.leaderboard`."""
        return self.leaderboard("all", **options)

    def compare(self, a: Any, b: Any, **options: Any) -> Any:
        """Return the comparison of two models in every context; see `lrbtl.compare`."""
        return _boards("comparison").compare(self, a, b, **options)

    def gate(self, candidate: Any, baseline: Any, **options: Any) -> Any:
        """Return whether a candidate may replace a baseline; see `lrbtl.gate`."""
        return _boards("gate").gate(self, candidate, baseline, **options)

    def win_matrix(self, context: Any = None, **options: Any) -> Any:
        """Return the win probabilities of all pairs; see `lrbtl.win_matrix`."""
        return _boards("comparison").win_matrix(self, context, **options)

    def plan(self, n: float, **options: Any) -> Any:
        """Return where the next n votes should go; see `lrbtl.plan`."""
        return _boards("plan").plan(self, n, **options)

    def votes_needed(self, target: Target, **options: Any) -> Any:
        """Return how many more votes a target needs; see `lrbtl.votes_needed`."""
        return _boards("planned_errors").votes_needed(self, target, **options)

    def diagnose(self) -> Any:
        """Return what the votes can and cannot show; see `lrbtl.diagnose`."""
        return import_module("lrbtl.inference.diagnose").diagnose(self.battles, self)


@dataclass(frozen=True, eq=False, repr=False)
class Analysis(Questions):
    """A method run on data: it answers any question about the scores, always with the same numbers.

    Attributes
    ----------
    battles : Battles or Results
    method : str
        As asked for; `provenance` says what it came to.
    run : Run
    notes : tuple of str
        On the options.
    options : dict
        Those of `analyse`, with which other battles are analysed likewise.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((12, 5), 2, scale=2, rng=0)
    >>> analysis = lrbtl.analyse(lrbtl.simulate_battles(truth, 20_000, rng=1), rank=2)
    >>> analysis
    Analysis(method='hierarchical', shape=(12, 5))
    >>> len(analysis.estimate([lrbtl.score(0, 0), lrbtl.gap(0, 1)]))
    2
    """

    battles: Data
    method: str
    run: Run
    notes: tuple[str, ...] = ()
    options: RunOptions = field(default_factory=RunOptions)

    @property
    def provenance(self) -> Provenance:
        """How the run was made, and what to know of the options and of how the data were read."""
        made = self.run.provenance
        if isinstance(self.battles, Battles):
            made = replace(made, log_odds_unit=self.log_odds_unit)
        looks = {name: self.options[name] for name in LOOKS if name in self.options}  # type: ignore[literal-required]
        return replace(made, notes=(*self.battles.notes, *self.notes, *made.notes), **looks)

    @property
    def log_odds_unit(self) -> float:
        """Log odds of a nearly even vote per unit of score: 1 for the logistic link."""
        return float(self.run.link.log_odds(np.zeros(1))[1][0])

    def estimate(self, targets: Target | Family | Iterable[Target], *, errors_only: bool = False) -> Estimate:
        """Return the estimate of targets with their joint covariance.

        Parameters
        ----------
        targets : Target, list of Target, `all_scores()` or `all_gaps()`
        errors_only : bool
            Leave the covariance out, for very many targets.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[300, 100])
        >>> lrbtl.analyse(battles).estimate(lrbtl.win_probability("x", "y")).estimate.round(2)
        array([0.75])
        """
        if isinstance(targets, Family):
            return self._estimate_family(targets)
        listed = [targets] if isinstance(targets, Target) else targets
        return self.estimate_resolved(resolve_targets(self.battles, listed), errors_only=errors_only)

    def estimate_resolved(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Estimate:
        """Return the estimate of targets that are given by position."""
        moments = self.run.moments(targets, errors_only=errors_only)
        labels = [target.label for target in targets]
        if (lost := np.flatnonzero(np.isnan(moments.values))).size:
            self._warn_lost([labels[i] for i in lost[:3]], lost.size)
        separate, scales = self.run.separate_errors, [target.scale for target in targets]
        naive = None if separate is None else partial(separate.errors, targets)
        bound = partial(estimated_bound, self.run, targets) if moments.bound is None else moments.bound
        influence = partial(self._influence, targets)
        own = partial(own_votes, self.run, targets)
        shrinkage = partial(self.run.shrinkage, targets)
        return self._as_estimate(labels, moments, shrinkage, naive, scales, bound=bound, influence=influence, own=own)

    def _influence(self, targets: Sequence[Resolved]) -> tuple[Floats, Floats, float] | None:
        """Return what Bernstein intervals need; None where votes are not independent."""
        return None if self.run.clustered else (*self.run.influence_moments(targets), float(self.battles.n_battles))

    def estimate_boards(self, weights: Floats, among: Bools | None = None) -> list[Estimate]:
        """Return the mean scores of all models for each row of weights (B, D) of contexts, as one estimate per row.

        Scores of a row sum to zero over the models in its row of `among` (B, d1), by default over all. Models without
        a score are NaN, without a warning.
        """
        names, separate = [str(model) for model in self.battles.models], self.run.separate_errors
        found = self.run.score_moments(weights, among)
        out = []
        for i, moments in enumerate(found):
            inside = None if among is None else among[i]
            naive = None if separate is None else partial(separate.board_errors, weights[i], inside)
            out.append(self._as_estimate(names, moments, partial(self.run.board_shrinkage, weights[i], inside), naive))
        return out

    def scores(self) -> Floats:
        """Return the estimates of all scores, (d1, D); NaN where there is none."""
        return self.run.scores()

    def effects(self) -> EffectEstimate:
        """Return what covariates do to votes: coefficients with their joint covariance, and words.

        Raises `CovariateError` where the battles have none, or none is held fixed.
        """
        if self.held_fixed is None:
            raise CovariateError("no covariate is held fixed: name some with covariates=, and in control= if given.")
        return self.held_fixed

    def feature_effects(self) -> Estimate:
        """Return the effects of features: by how much one unit more of each moves the mean of the models' scores.

        Units are logits, of results where scales have bounds; a level such as a family is against the mean of all
        models. Raises `CovariateError` where there are no features.
        """
        if isinstance(self.run, HierarchicalRun) and self.run.features is not None:
            names, (mean, cov) = self.run.features.names, feature_moments(self.run)
        elif isinstance(self.battles, Results) and isinstance(self.run, FactorRun) and self.battles.features:
            draws, names = self.run.feature_draws(), self.battles.features.names
            mean, cov = draws.mean(axis=0), np.cov(draws, rowvar=False).reshape(draws.shape[1], draws.shape[1])
        else:
            raise CovariateError("there are no features: name a table of them with features=, see lrbtl.analyse.")
        return Estimate(list(names), mean, cov, links="identity", info=self.provenance)

    @cached_property
    def held_fixed(self) -> EffectEstimate | None:
        """The same; None where no covariate is held fixed."""
        return estimate_effects(self)

    def placed(self, weights: Floats) -> Bools:
        """Return which models have a score on the board with these weights (D,) of contexts."""
        return self.run.placed(weights)

    def why_not(self, model: int, weights: Floats) -> str:
        """Return a short reason why a model has none."""
        return self.run.why_not(model, weights)

    def outlier(self, model: int, weights: Floats) -> float:
        """Return how far an outlier is from the model's other scores on a board; 0 where the score is none."""
        return self.run.outlier(model, weights)

    def _estimate_family(self, family: Family) -> Estimate:
        values, errors = (part.reshape(-1) for part in self.run.family(family.kind))
        labels = family.labels(self.battles)
        if (lost := np.flatnonzero(np.isnan(values))).size:
            self._warn_lost([labels[int(i)] for i in lost[:3]], lost.size)
        kind, every = family.kind, np.arange(len(values))

        def shrinkage(_: Floats | None) -> Shrinkage:
            return self.run.family_shrinkage(kind).at(every)

        return Estimate(labels, values, None, se=errors, links="identity", info=self.provenance, shrinkage=shrinkage)

    def _as_estimate(
        self,
        labels: Sequence[str],
        moments: Moments,
        shrinkage: Callable[[Floats | None], Shrinkage],
        naive: Callable[[], Floats | None] | None,
        scales: WorkingScale | Sequence[WorkingScale] = "identity",
        *,
        bound: Floats | Callable[[], Floats | None] | None = None,
        influence: Callable[[], tuple[Floats, Floats, float] | None] | None = None,
        own: Callable[[], OwnVotes] | None = None,
    ) -> Estimate:
        """Return moments as an estimate; errors of separate fits are made when they are asked for."""
        return Estimate(
            labels,
            moments.values,
            moments.cov,
            se=moments.se if moments.cov is None else None,
            links=scales,
            variance_noise=moments.variance_noise,
            info=self.provenance,
            bound_se=moments.bound if bound is None else bound,
            naive_se=naive,
            shrinkage=shrinkage,
            means=moments.means,
            influence=influence,
            own=own,
            draws=moments.draws,
        )

    def _warn_lost(self, names: list[str], count: int) -> None:
        unit = self.battles.unit
        reason = (
            "they touch a model that, as far as this method looks, only won, only lost or never met the others"
            if isinstance(self.battles, Battles)
            else f"all {unit} that bear on them went the same way"
        )
        instead = "use method='hierarchical'" if isinstance(self.battles, Battles) else "use a smaller rank"
        warn_user(
            f"{count} targets ({', '.join(names)}) run to infinity or are not defined: {reason}. They are NaN; "
            f"{instead}, or add {unit}.",
            SeparationWarning,
        )

    def __repr__(self) -> str:
        return f"Analysis(method={self.method!r}, shape={self.battles.shape})"


def _boards(module: str) -> Any:
    """Return a module of boards, which are made of analyses."""
    return import_module(f"lrbtl.boards.{module}")


@named_options
def analyse(battles: Data | Frame, **options: Unpack[RunOptions]) -> Analysis:
    """Return a method run on data, which then estimates any targets and boards.

    Parameters
    ----------
    battles : Battles, Results or data frame
        Of a frame (pandas, polars, pyarrow, dict of columns) the columns are guessed from common names, which a note of
        the result lists them; see `Battles.from_frame`.
    method : "hierarchical", "factor", "efficient", "whitened", "mle" or "naive"
        Hierarchical, the default for battles: scores that are only nearly of low rank, every model placed. Factor, the
        default for results: levels, shared factors, deviations and noise per benchmark, every entry placed. Efficient,
        the default for one-bit results: smallest variance if the rank is right, any sampling. Whitened: simpler
        direction, weighted by the sampling law. Mle: the penalised estimate with HC3 errors, one fit. Naive: one
        Bradley-Terry fit per context. Without contexts, efficient and mle are a plain Bradley-Terry fit.
    rank : int, tuple or "auto"
        Tucker rank of the scores. "auto" averages over two ranks (hierarchical), or takes the best rank of
        `select_rank`, on which intervals are then conditional.
    n_folds : int
        Folds of the cross-fitting, by default 10. It has no effect on the hierarchical method, nor have `ridge`,
        `sampling`, `se` and `solver`: a note of the result says so where they are given.
    ridge : float, sequence or "auto"
        Penalty of the fits; see `fit`.
    link : str or Link, optional
        Law of the responses; see `fit`.
    sampling : Sampling, optional
        Law of the battles. Efficient: None uses the observed battles. Whitened: None estimates a product law.
    se : "crossfit" or "full"
        Errors from out-of-fold influence values (default), or from the full sample as in the paper, which covers less.
    solver : "auto", "direct" or "cg"
    n_threads : int or None
        Threads that take a fold or a board each, by default 1; None for one per core. Results do not depend on it.
    rng : int, Generator or None
    progress : True or callable, optional
        A bar on a terminal or in a notebook (tqdm where installed), or a function that gets lines of text.
    control : list of str, optional
        The battles' covariates that are held fixed: scores are those of answers that are equal in them. All by default;
        [] is none, as if the battles had no covariates.
    effects : "shared" or "by_context"
        Whether a covariate has one effect, or one in each context.
    config : HierarchicalConfig, optional
        Settings of the hierarchical method, such as `HierarchicalConfig(design_covariates=False)`.
    improvements : Improvements, optional
        What efficient and whitened add to the algorithms of the paper; all by default.
    features : data frame, or dict of columns, optional
        What is known of models beside the data: a row for each, a column "model" with their names, further columns with
        numbers, dates or texts such as family. Levels are expected where features say, as far as they predict them;
        `Analysis.feature_effects` says by how much. For the hierarchical method and the factor method.
    valid : "once" or "always"
        Once, the default: intervals, verdicts and ranks hold at one look, at a number of votes fixed beforehand.
        Always: they hold at all times at once, however often one looks as votes come in; wider by half where tuned.
    tuned_at : float, optional
        Votes at which "always" is tightest, by default 10,000: name it once, before the first look. With `looks`, the
        votes at the last look.
    looks : int, optional
        Planned looks, equally spaced: intervals hold at all of them.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((12, 5), 2, scale=2, rng=0)
    >>> analysis = lrbtl.analyse(lrbtl.simulate_battles(truth, 20_000, rng=1), rank=2)
    >>> analysis.provenance.n_battles
    20000
    """
    battles = as_data(battles)
    control, effects = options.get("control"), options.get("effects", "shared")
    if isinstance(battles, Battles):
        battles = battles.controlling(control, effects)
        check_clusters(battles)
    elif control is not None or not (isinstance(effects, str) and effects == "shared"):
        raise CovariateError("control and effects are for battles with covariates, not for observed entries.")
    if battles.shape[0] > MOST_MODELS:
        raise TooLargeError(
            f"{battles.shape[0]:,} models are too many to analyse together; the most are {MOST_MODELS:,}: choose some "
            "with battles.top_models(n)."
        )
    chosen, found = Options(**options), find_method(options.get("method"), battles, options.get("link"))
    chosen.check(battles.shape)
    if chosen.features is not None and not found.takes_features:
        raise MethodError(f"method={found.name!r} knows no features: leave features out, or use method='hierarchical'.")
    if isinstance(battles, Results):
        battles = with_features(battles, chosen.features)
    check_votes_come(battles, options)
    if chosen.config is not None:
        check_type(chosen.config, HierarchicalConfig, "config", "give lrbtl.HierarchicalConfig(...), or leave it out")
    note = found.unused_note(options)
    return Analysis(battles, found.name, found.run(battles, chosen), (note,) if note else (), options)


def looked_at(analysis: Analysis, **looks: Any) -> Analysis:
    """Return the same analysis with intervals that hold under so many looks: `valid`, `tuned_at`, `looks`.

    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[300, 100])
    >>> looked_at(lrbtl.analyse(battles), looks=5).provenance.looks
    5
    """
    options = RunOptions(**{**analysis.options, **looks})  # type: ignore[typeddict-item]
    Options(**options).check(analysis.battles.shape)
    check_votes_come(analysis.battles, options)
    return replace(analysis, options=options)


def check_votes_come(data: Data, options: RunOptions) -> None:
    """Raise where looks are asked for at data that do not come in one by one."""
    if not isinstance(data, Battles) and (options.get("valid", "once") != "once" or options.get("looks") is not None):
        raise LooksError("results do not come in like votes: leave valid and looks out.")


def analyse_fit(full_fit: Fit, options: Options | None = None, *, method: str = "efficient") -> Analysis:
    """Return a low-rank method run on the battles of a fit that is at hand; rank, ridge and link are those of the fit.

    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((12, 5), 2, scale=2, rng=0)
    >>> fit = lrbtl.fit(lrbtl.simulate_battles(truth, 20_000, rng=1), 2)
    >>> analyse_fit(fit, Options(n_folds=5), method="whitened").provenance.n_folds
    5
    """
    chosen, options = find_method(method, full_fit.battles), Options() if options is None else options
    options.check(full_fit.battles.shape)
    if not isinstance(chosen, LowRank):
        raise MethodError(f"method={method!r} does not start from a low-rank fit: use lrbtl.analyse.")
    run = chosen.run_fit(full_fit, options)
    likewise = RunOptions(method=method, rank=full_fit.rank, link=full_fit.link)
    return Analysis(full_fit.battles, method, run, options=likewise)


@named_options
def infer(
    battles: Data | Frame, targets: Target | Family | Iterable[Target], **options: Unpack[RunOptions]
) -> Estimate:
    """Estimate targets with standard errors that cover.

    Parameters
    ----------
    battles : Battles, Results or data frame
        See `analyse`.
    targets : Target, list of Target, `all_scores()` or `all_gaps()`
    **options
        method, rank, sampling, n_folds, se, ridge, link, solver, n_threads, rng, progress, control, effects,
        improvements, features, valid, tuned_at, looks: see `analyse`.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((12, 5), 2, scale=2, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 20_000, rng=1)
    >>> est = lrbtl.infer(battles, [lrbtl.score(0, 0), lrbtl.gap(0, 1)], rank=2)
    >>> bool(abs(est.estimate[0] - truth[0, 0]) < 4 * est.se[0])
    True
    """
    return analyse(battles, **options).estimate(targets)


# ------------------------------------------------------------------------------
# The methods by name.
# ------------------------------------------------------------------------------


METHODS: dict[str, Method] = {
    method.name: method for method in (Hierarchical(), FactorMethod(), Efficient(), Whitened(), Mle(), Naive())
}
DEFAULT_METHOD = "hierarchical"


def find_method(name: str | None, data: Data, link: str | Link | None = None) -> Method:
    """Return the method of a name, by default the one for these data; raise where there is none.

    Battles with votes that both were bad have the grounded method only. Results have the factor model, and those with a
    link of their own the efficient method. Very many contexts in which most models meet take the hierarchical method
    too long: there the default is the efficient one, too.

    >>> import lrbtl
    >>> find_method(None, lrbtl.Battles.from_arrays(["x"], ["y"], [1])).name
    'hierarchical'
    """
    bad = isinstance(data, Battles) and bool(np.any(data.cells.y == BOTH_BAD))
    if bad and name not in (None, GroundedMethod.name):
        raise MethodError(
            f"method={name!r} does not know votes that both were bad as an outcome: leave method out, or read the "
            "battles with both_bad='tie'."
        )
    if bad:
        return GroundedMethod()
    if name is None and isinstance(data, Results) and (link is None or as_link(link).name == "identity"):
        name = FactorMethod.name
    if name is None:
        serves = isinstance(data, Battles) and (data.shape[0] > PART_MODELS or has_room(data))
        name = DEFAULT_METHOD if serves else "efficient"
    check_choice(name, tuple(METHODS), "method")
    return METHODS[name]
