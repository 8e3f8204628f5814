"""Diagnostics: what votes identify and what they do not, and whether the intervals of a fit can be believed."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, TypedDict, Unpack, overload

import numpy as np
from scipy.special import ndtr

from lrbtl.data.battle_summary import linked_models
from lrbtl.data.battles import Battles
from lrbtl.data.cells import weak_components
from lrbtl.data.frames import Frame, as_data
from lrbtl.data.labels import check_same_labels
from lrbtl.data.observations import Data, Results
from lrbtl.errors import InputTypeError, LrbtlWarning, SamplingError, without
from lrbtl.fitting.design import Design
from lrbtl.fitting.fit import fit as fit_scores
from lrbtl.fitting.local import Local
from lrbtl.fitting.low_rank import Fit
from lrbtl.fitting.signal import SIGNAL_FLOOR, restricts, signal_ratio, thin_contexts, weak_advice
from lrbtl.fitting.solvers import IsotropicSolver
from lrbtl.hierarchical.method import HierarchicalRun, deviation_sentence
from lrbtl.inference import diagnosis_text
from lrbtl.inference.analysis import Analysis, analyse, analyse_fit, find_method
from lrbtl.inference.bounds import (
    alignment,
    even_norm,
    incoherence,
    information_range,
    inverse_norm,
    overlap,
    worst_influence,
)
from lrbtl.inference.calibration import Calibration, LinkComparison, calibrate, compare_laws, leave_out, possible_links
from lrbtl.inference.estimate import ELO
from lrbtl.inference.joint import normal_quantile
from lrbtl.inference.targets import Target, context_weights, resolve_targets, score
from lrbtl.methods.base import named_options
from lrbtl.methods.clusters import design_effects
from lrbtl.methods.low_rank import LowRank
from lrbtl.methods.one_step import evaluate_targets, inverse_weights
from lrbtl.methods.targets import Stack, resolved_score
from lrbtl.methods.whitened import WhitenedRecipe
from lrbtl.model.links import Link
from lrbtl.model.sampling import ProductSampling, Sampling, as_sampling
from lrbtl.tables import TextResult
from lrbtl.typing import Floats, Longs, Rank, Seed

Level = Literal["ok", "warn"]
OutlierEntry = tuple[object, object, float]  # model, context, Elo points

ENOUGH_MODELS = 200  # from which design effects of clusters are taken
PRELIMINARY = 30  # votes below which boards list a model as preliminary, by default
GOOD = ("ready to publish", "efficient is safe")


class AnalysisOptions(TypedDict, total=False):
    """The options of the analysis that `diagnose` makes where none is given."""

    method: str | None
    rank: Rank
    link: str | Link | None
    n_threads: int | None
    rng: Seed


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosis(TextResult):
    """What the votes identify and what they do not; `sentences` has it in words.

    Attributes
    ----------
    n_battles, n_cells : int
    groups : tuple of tuples
        Models of each group that a chain of battles links, largest first. The rest is about the largest one.
    split_contexts : tuple
        Contexts whose own battles do not link their models.
    thin_contexts : tuple
        Contexts with fewer than 100 battles.
    sparse_models : tuple
        Models with fewer than 30 battles.
    newcomers : tuple
        Models with battles in one context only, where there are several.
    battles_per_model, battles_per_context : (smallest, median, largest)
    share : float
        Category-specific share of the variance of scores in a context: tau^2 against the variance of the low-rank
        part. NaN where the method does not estimate it.
    sharing : str
        The same in words.
    ranks : tuple of tuples
        Ranks that are averaged over.
    outliers : tuple of (model, context, Elo points)
        Scores that votes single out from the model's others, largest first.
    unshared : tuple of (str, int, int)
        Context columns with too many levels to learn what each does to a model wherever it occurs: the column, its
        levels, and how many would not be too many (1 where two are).
    calibration : Calibration or None
        Observed beside predicted win rates by the size of the gap.
    links : LinkComparison or None
        Other laws of votes, where observed and predicted win rates differ.
    verdict, reason : str
        "ready to publish", "publish with care" or "separate boards".
    unit : "battles" or "observations"
    notes : tuple of str
        Notes on how the battles were read.
    design_effects : tuple of (str, float)
        By how much each cluster column alone multiplies the variance of overall scores, the median over models.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=2, rng=0), 3000, rng=1)
    >>> found = lrbtl.diagnose(battles)
    >>> found.verdict, len(found.groups)
    ('ready to publish', 1)
    """

    n_battles: int
    n_cells: int
    groups: tuple[tuple[object, ...], ...]
    split_contexts: tuple[object, ...]
    thin_contexts: tuple[object, ...]
    sparse_models: tuple[object, ...]
    newcomers: tuple[object, ...]
    battles_per_model: tuple[int, int, int]
    battles_per_context: tuple[int, int, int]
    share: float = float("nan")
    sharing: str = ""
    ranks: tuple[tuple[int, ...], ...] = ()
    outliers: tuple[OutlierEntry, ...] = ()
    unshared: tuple[tuple[str, int, int], ...] = ()
    calibration: Calibration | None = None
    links: LinkComparison | None = None
    verdict: str = ""
    reason: str = ""
    unit: str = "battles"
    notes: tuple[str, ...] = ()
    design_effects: tuple[tuple[str, float], ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing needs doing."""
        return self.verdict in GOOD

    @property
    def sentences(self) -> list[tuple[Level, str]]:
        """Each diagnostic as a sentence, marked "ok", or "warn" where the reader should do something."""
        return [("ok" if good else "warn", text) for good, text in self._checks()]

    def _checks(self) -> list[diagnosis_text.Check]:
        clusters = diagnosis_text.about_clusters(self)
        return [
            *diagnosis_text.about_sharing(self),
            *diagnosis_text.about_votes(self),
            *clusters,
            *diagnosis_text.about_calibration(self),
        ]

    def to_dict(self) -> dict[str, object]:
        """Return the numbers as plain values."""
        table = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in ("calibration", "links"):
            table[name] = None if table[name] is None else table[name].to_dict()
        return table

    def __str__(self) -> str:
        lines = [*self.notes, f"Verdict: {self.verdict}. {self.reason}", ""]
        lines += [f"{'!' if level == 'warn' else ' '} {text}" for level, text in self.sentences]
        if self.calibration is not None and len(self.calibration.votes):
            lines += ["", "Win rates of the favourite by size of the gap:", str(self.calibration)]
        if self.links is not None:
            lines += ["", str(self.links)]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, eq=False)
class FitDiagnosis(Diagnosis):
    """Whether the intervals of a low-rank fit can be believed; a `Diagnosis` with the numbers of the theory.

    Attributes
    ----------
    rank : tuple
    signal : float
        Smallest singular value over the size of noise; below 1.5 intervals cover less than they say.
    coverage : float
        Share of the scores that 95% intervals of the fit can be expected to cover, by the hierarchical analysis, which
        does not take the rank as true. NaN where it does not apply.
    coverage_at_best : float
        The same at the smallest deviations from low rank that the votes allow.
    incoherence : tuple
        d_k / r_k times the largest squared row of each orthonormal factor; 1 is perfectly even.
    smallest_singular, largest_singular, condition : float
        lambda_min, lambda_max over all unfoldings and their ratio kappa.
    information_min, information_max : float
        Extreme eigenvalues of A = P_T G P_T times d_eff; at most 1/4 under uniform sampling.
    C_A : float
        Norm of A^-1 from entries to entries over d_eff [Li26, eq. CA_def_main].
    C_A_even : float
        The same if all votes had equal information and were sampled uniformly: how much of C_A is geometry.
    clt_condition : float
        C_A sqrt(largest mode / n), which the normal limit of the efficient method needs to vanish
        [Li26, eq. clt-condition].
    overlap_min, overlap_max : float or nan
        Smallest and largest p / q of the observed battles under the product law.
    alignment : float
        Smallest alignment of the targets with the tangent space [Li26, eq. alignment], 1 or more is good.
    influence_variance, influence_max : float
        Variance and largest size of n times one battle's influence on the worst target.
    bernstein : float
        Bound of that target's correction term that holds with probability 0.95, over its normal counterpart 1.96 se.
    whitened_bernstein : float
        The same for the whitened direction; inf where no sampling law can be estimated.
    berry_esseen : float
        sqrt(largest mode / n), the order of the error of the normal approximation.
    verdict : "efficient is safe", "efficient, with care", "prefer hierarchical", "prefer whitened", "too few battles"
        "With care" is said of a rank that rank="auto" chose although its weakest component is near the noise.
    advice : str or None
        What to do about a weak signal; None where the rank restricts nothing.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=2, rng=0), 3000, rng=1)
    >>> found = lrbtl.diagnose(battles, lrbtl.fit(battles, 1))
    >>> found.rank, bool(found.signal > 1.5)
    ((1, 1), True)
    """

    rank: tuple[int, ...]
    signal: float
    coverage: float
    coverage_at_best: float
    incoherence: tuple[float, ...]
    smallest_singular: float
    largest_singular: float
    condition: float
    information_min: float
    information_max: float
    C_A: float
    C_A_even: float
    clt_condition: float
    overlap_min: float
    overlap_max: float
    alignment: float
    influence_variance: float
    influence_max: float
    bernstein: float
    whitened_bernstein: float
    berry_esseen: float
    advice: str | None

    def _checks(self) -> list[diagnosis_text.Check]:
        votes = [] if self.unit == "observations" else diagnosis_text.about_votes(self)
        return [
            *diagnosis_text.about_fit(self),
            *votes,
            *diagnosis_text.about_regime(self),
            *diagnosis_text.about_calibration(self),
        ]


@overload
def diagnose(
    battles: Data | Frame,
    fit: Fit,
    targets: Target | Sequence[Target] | None = None,
    *,
    sampling: Sampling | None = None,
) -> FitDiagnosis: ...
@overload
def diagnose(
    battles: Data | Frame,
    fit: Analysis | None = None,
    targets: Target | Sequence[Target] | None = None,
    *,
    sampling: Sampling | None = None,
    **options: Unpack[AnalysisOptions],
) -> Diagnosis: ...
@named_options
def diagnose(
    battles: Data | Frame,
    fit: Fit | Analysis | None = None,
    targets: Target | Sequence[Target] | None = None,
    *,
    sampling: Sampling | None = None,
    **options: Unpack[AnalysisOptions],
) -> Diagnosis:
    """Diagnose an analysis: what its scores and intervals rest on, in numbers and in words.

    Parameters
    ----------
    battles : Battles, Results or data frame
        See `analyse`.
    fit : Fit or Analysis, optional
        Of these battles, or of a group of models that battles link, such as that of a board. By default the analysis
        that boards make. A low-rank fit, or an analysis that rests on one, gives a `FitDiagnosis`, which also has the
        numbers that the theory of such fits asks for.
    targets : Target or list, optional
        For alignment and the Bernstein bound of a low-rank fit; by default the mean score of every model.
    sampling : Sampling, optional
        Law of the battles, for the overlap; by default the estimated product law.
    **options
        method, rank, link, n_threads, rng of the analysis, where none is given; see `analyse`.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((15, 6), 2, scale=2, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 20_000, rng=1)
    >>> lrbtl.diagnose(battles).verdict
    'ready to publish'
    >>> lrbtl.diagnose(battles, lrbtl.fit(battles, 2)).verdict
    'efficient is safe'
    """
    battles = as_data(battles)
    if sampling is not None:
        sampling = as_sampling(sampling)
    if fit is None:
        fit = _default(_largest_group(battles), options)
    if isinstance(fit, Analysis) and fit.run.fit is not None:
        fit = fit.run.fit
    if isinstance(fit, Fit):
        return _diagnose_fit(battles, fit, targets, sampling)
    if not isinstance(fit, Analysis):
        raise InputTypeError(f"fit={fit!r}: give what lrbtl.fit or lrbtl.analyse returned, or leave it out.")
    found = _with_analysis(_diagnose_votes(battles, fit.battles), fit)
    found = replace(found, design_effects=_design_effects(fit))
    verdict, reason = diagnosis_text.board_verdict(found)
    return replace(found, verdict=verdict, reason=reason)


def _design_effects(analysis: Analysis) -> tuple[tuple[str, float], ...]:
    """Return what clusters do to the variances of overall scores, by column."""
    battles = analysis.battles
    if not isinstance(battles, Battles) or battles.cells.clusters is None:
        return ()
    weights, models = context_weights(battles, "traffic"), np.flatnonzero(battles.model_counts)
    some = models[:: max(1, len(models) // ENOUGH_MODELS)]
    targets = [resolved_score(a, weights) for a in some.tolist()]
    return tuple(design_effects(analysis.run.influence_rows(targets), battles, len(targets)))


def _default(battles: Data, options: AnalysisOptions) -> Fit | Analysis:
    """Return the analysis that is diagnosed where none is given: of low-rank methods, and of results, their fit."""
    asked = options.get("method") or ("efficient" if isinstance(battles, Results) else None)
    if not isinstance(find_method(asked, battles), LowRank):
        return analyse(battles, **options)
    rank, link = options.get("rank", "auto"), options.get("link")
    return fit_scores(battles, rank, link=link, n_threads=options.get("n_threads", 1), rng=options.get("rng", 0))


def _diagnose_votes(battles: Data, part: Data) -> Diagnosis:
    """Return the diagnosis of the votes without an analysis; numbers are about a part of them."""
    groups = _groups(battles)
    newcomers, sparse = [], []
    if isinstance(part, Battles):
        several = part.levels and np.count_nonzero(part.context_counts) > 1
        newcomers = [part.models[k] for k in np.flatnonzero(part.met.sum(axis=0) == 1)] if several else []
        sparse = [part.models[k] for k in np.flatnonzero((part.model_counts > 0) & (part.model_counts < PRELIMINARY))]
    return Diagnosis(
        n_battles=part.n_battles,
        n_cells=part.n_cells,
        groups=tuple(tuple(battles.models[i] for i in group) for group in groups),
        split_contexts=_split_contexts(part),
        thin_contexts=thin_contexts(part) if isinstance(part, Battles) and part.levels else (),
        sparse_models=tuple(sparse),
        newcomers=tuple(newcomers),
        battles_per_model=_spread(part.model_counts),
        battles_per_context=_spread(part.context_counts),
        unit=part.unit,
        notes=battles.notes,
    )


def _with_analysis(found: Diagnosis, analysis: Analysis) -> Diagnosis:
    """Return the diagnosis completed from an analysis of the battles."""
    if analysis.run.absolute:  # chances do not follow from gaps there
        return found
    calibration, links, battles = calibrate(analysis), None, analysis.battles
    if calibration.off.any() and isinstance(battles, Battles):
        own = analysis.run.link.name
        others = [name for name in possible_links(battles) if name != own]
        laws = [analysis, *(analyse(battles, link=name, method=analysis.method) for name in others)]
        links = compare_laws([leave_out(law) for law in laws])
    found = replace(found, calibration=calibration, links=links)
    run = analysis.run
    if not isinstance(run, HierarchicalRun):
        return found
    named = [
        (battles.models[a], battles.context_label(int(u)), ELO * analysis.log_odds_unit * run.outlier(int(a), unit))
        for u, unit in enumerate(np.eye(battles.n_contexts))
        for a in np.flatnonzero(run.outlier_probability.columns(np.array([u]))[0] >= 0.5)
    ]
    named.sort(key=lambda each: -abs(each[2]))
    if not battles.levels:
        return found
    ranks = tuple(sorted({node.rank for node in run.nodes}))
    found = replace(found, share=run.shares[0], sharing=deviation_sentence(*run.shares))
    return replace(found, ranks=ranks, outliers=tuple(named), unshared=run.unshared)


def _diagnose_fit(
    battles: Data, fit: Fit, targets: Target | Sequence[Target] | None, sampling: Sampling | None
) -> FitDiagnosis:
    """Return the diagnosis of a low-rank fit."""
    part = _fitted_part(battles, fit.battles)
    check_same_labels(part, fit.battles)
    found, coverage, at_best = _diagnose_votes(part, part), float("nan"), float("nan")
    if isinstance(part, Battles) and part.levels and not isinstance(find_method(None, part), LowRank):
        wider = analyse(part, link=fit.link, n_threads=fit.n_threads)
        found = _with_analysis(found, wider)
        coverage, at_best = expected_coverage(fit, wider)
    if targets is None:
        targets = [score(i) for i in range(part.shape[0])]
    design = Design.of(part, fit.link)
    here = Local.of(design.with_count(design.count / part.n_battles), fit.point)
    space, solver = here.space, here.solver()
    resolved = resolve_targets(part, [targets] if isinstance(targets, Target) else targets)
    _, gradients = evaluate_targets(space, Stack.of(resolved), part.shape, fit.link)
    low, high = information_range(here, solver)
    variance, largest, bernstein = worst_influence(here, solver, gradients, part.n_battles)
    overlaps, C_A = overlap(part, sampling), inverse_norm(space, solver) / design.d_eff
    singular = np.concatenate(space.point.singular_values)
    signal, advice = signal_ratio(fit.point, part.n_battles, design.noise), None
    if restricts(fit.point, centred=design.centred):
        advice = weak_advice(fit.point, part.n_battles, design.noise, fit.rank_chosen, part.unit)
    shared = {item.name: getattr(found, item.name) for item in fields(found)}
    diagnosis = FitDiagnosis(
        **shared,
        rank=fit.rank,
        signal=signal,
        coverage=coverage,
        coverage_at_best=at_best,
        incoherence=tuple(incoherence(fit.point)),
        smallest_singular=float(singular.min()),
        largest_singular=float(singular.max()),
        condition=float(singular.max() / max(singular.min(), 1e-300)),
        information_min=low * design.d_eff,
        information_max=high * design.d_eff,
        C_A=C_A,
        C_A_even=even_norm(here),
        clt_condition=C_A * float(np.sqrt(max(part.shape) / part.n_battles)),
        overlap_min=overlaps[0],
        overlap_max=overlaps[1],
        alignment=alignment(space, resolved, gradients, part.shape, fit.link),
        influence_variance=variance,
        influence_max=largest,
        bernstein=bernstein,
        whitened_bernstein=_whitened_bernstein(here, gradients, part, sampling),
        berry_esseen=float(np.sqrt(max(part.shape) / part.n_battles)),
        advice=advice if signal < SIGNAL_FLOOR else None,
    )
    verdict, reason = diagnosis_text.fit_verdict(diagnosis, chosen=fit.rank_chosen, asks_for_more=fit.asks_for_more)
    return replace(diagnosis, verdict=verdict, reason=reason)


def _whitened_bernstein(here: Local, gradients: Floats, data: Data, sampling: Sampling | None) -> float:
    """Return Bernstein over normal bound of the worst target under the whitened direction."""
    design = here.design
    if design.link.n_extra or design.effects is not None:
        return float("inf")
    try:
        weights = inverse_weights(ProductSampling.estimate(data) if sampling is None else sampling, design)
    except SamplingError:
        return float("inf")
    scored = WhitenedRecipe(weights).scored(here, np.arange(len(design.a)), None)
    return worst_influence(scored, IsotropicSolver(here.space, design.d_eff), gradients, data.n_battles)[2]


def expected_coverage(fit: Fit, wider: Analysis) -> tuple[float, float]:
    """Return how many scores 95% intervals of a low-rank fit cover if scores follow the hierarchical posterior.

    And the same at the smallest deviations from low rank that are likely. Intervals are those of `mle`, which are about
    as long as those of `efficient` and need no folds.
    """
    run = wider.run
    assert isinstance(run, HierarchicalRun)
    with without(LrbtlWarning):  # the diagnosis says by itself what they would
        values, errors = analyse_fit(fit, method="mle").run.family("scores")
    reach = normal_quantile(0.95) * errors

    def covered(scores: Floats, spread: Floats) -> float:
        spread = np.maximum(spread, 1e-12)
        inside = ndtr((values + reach - scores) / spread) - ndtr((values - reach - scores) / spread)
        return float(np.mean(np.where(np.isfinite(inside), inside, 0.0)))

    return covered(*run.family("scores")), covered(*run.least_deviations())


def _largest_group(battles: Data) -> Data:
    """Return the battles of the largest group of models that battles link."""
    if isinstance(battles, Results):
        return battles
    members = _groups(battles)[0]
    return battles if len(members) == len(battles.models) else battles.select([battles.models[k] for k in members])


def _fitted_part(battles: Data, fitted: Data) -> Data:
    """Return the battles that a fit was made of, where they are all those of its models and levels; else all."""
    inside = set(fitted.models) <= set(battles.models) and all(
        set(part) <= set(whole) for part, whole in zip(fitted.levels, battles.levels, strict=False)
    )
    if not (inside and isinstance(battles, Battles) and len(fitted.levels) == len(battles.levels)):
        return battles
    levels = dict(zip(battles.mode_names, fitted.levels, strict=True))
    part = battles.select(models=fitted.models, contexts=levels)
    return fitted if part.n_battles == fitted.n_battles else battles


def _groups(battles: Data) -> list[Longs]:
    """Return the models of each connected group, without those that have no battles."""
    if isinstance(battles, Results):
        return [np.arange(battles.shape[0])]
    return linked_models(battles)


def _split_contexts(battles: Data) -> tuple[object, ...]:
    """Return the contexts with battles that do not link the models which played there."""
    if isinstance(battles, Results) or not battles.levels:
        return ()
    cells, d1 = battles.cells, battles.shape[0]
    labels = weak_components(cells.a, cells.b, d1, context=cells.context, n_contexts=battles.n_contexts)
    split = [u for u in range(battles.n_contexts) if len(np.unique(labels[u, battles.met[u]])) > 1]
    return tuple(battles.context_label(u) for u in split)


def _spread(counts: Longs) -> tuple[int, int, int]:
    return int(counts.min()), int(np.median(counts)), int(counts.max())
