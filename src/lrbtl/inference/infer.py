"""`infer`: estimates of any targets, by any method, with their joint covariance."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.observations import Data, Observations
from lrbtl.errors import MethodError, SeparationWarning, TargetError, warn_user
from lrbtl.fitting.fit import Fit, fit
from lrbtl.fitting.options import METHODS, Method, check_choice, check_run, check_whole
from lrbtl.fitting.separate import fit_separate
from lrbtl.fitting.solvers import SolverName
from lrbtl.inference.estimate import Estimate, Provenance
from lrbtl.methods.cross_fit import LARGEST_SCORE, CrossFit, Moments, cross_fit
from lrbtl.methods.naive import naive_errors, naive_family, naive_moments
from lrbtl.methods.one_step import ScoreView
from lrbtl.methods.standard_errors import widening
from lrbtl.methods.targets import Family, Resolved, SparseGradient, Target
from lrbtl.model.links import LOGISTIC, Link
from lrbtl.model.sampling import Sampling
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Longs, Progress, Rank, Ridge, Seed


def infer(
    battles: Data,
    targets: Target | Family | Iterable[Target],
    *,
    rank: Rank = "auto",
    method: Method = "efficient",
    sampling: Sampling | None = None,
    n_folds: int = 10,
    se: Literal["crossfit", "full"] = "crossfit",
    ridge: Ridge = "auto",
    link: str | Link | None = None,
    solver: SolverName = "auto",
    n_repeats: int = 1,
    n_threads: int = 1,
    rng: Seed = 0,
    progress: Progress | None = None,
) -> Estimate:
    """Estimate targets with standard errors that cover.

    Parameters
    ----------
    battles : Battles or Observations
    targets : Target, list of Target, `all_scores()` or `all_gaps()`
    rank : int, tuple or "auto"
        Tucker rank of the scores; "auto" takes the best rank of `select_rank`. Intervals are conditional on the rank.
    method : "efficient", "whitened", "mle" or "naive"
        Efficient: smallest variance, any sampling. Whitened: simpler direction, weighted by the sampling law. Mle: the
        penalised estimate with HC3 errors, one fit. Naive: one Bradley-Terry fit per context.
    sampling : Sampling, optional
        Law of the battles. Efficient: None uses the observed battles. Whitened: None estimates a product law.
    n_folds : int
        Folds of the cross-fitting.
    se : "crossfit" or "full"
        Errors from out-of-fold influence values, or (as in the paper's simulations; covers less) from the full sample.
    ridge : float, sequence or "auto"
        Penalty of the fits; see `fit`.
    link : str or Link, optional
        Law of the responses; see `fit`.
    solver : "auto", "direct" or "cg"
    n_repeats : int
        Random partitions; estimates are combined by the median, errors allow for their spread.
    n_threads : int
    rng : int, Generator or None
    progress : callable, optional
        Called with a line of text after each fold.

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
    check_choice(method, METHODS, "method")
    check_choice(se, ("crossfit", "full"), "se")
    check_choice(solver, ("auto", "direct", "cg"), "solver")
    check_run(battles.shape, rank=rank, ridge=ridge, n_folds=n_folds, n_threads=n_threads)
    check_whole(n_repeats, "n_repeats")
    if isinstance(targets, Target):
        targets = [targets]
    if method == "naive":
        if isinstance(battles, Observations) or (link is not None and str(link) != "logistic"):
            raise MethodError("the naive method fits Bradley-Terry: it takes battles and link='logistic' only.")
        return _naive(battles, targets)
    full_fit = fit(battles, rank, ridge=ridge, link=link, n_threads=n_threads, rng=rng)
    generator = np.random.default_rng(rng)
    seeds: list[Seed] = [rng] if n_repeats == 1 else list(generator.spawn(n_repeats))
    runs = [
        cross_fit(
            full_fit,
            method=method,
            sampling=sampling,
            n_folds=n_folds,
            se=se,
            solver=solver,
            rng=seed,
            progress=progress,
        )
        for seed in (seeds if method != "mle" else seeds[:1])
    ]
    return estimate_targets(runs, targets, sampling)


@one_blas_thread
def estimate_targets(
    runs: Sequence[CrossFit], targets: Iterable[Target] | Family, sampling: Sampling | None = None
) -> Estimate:
    """Return the estimate of targets from the steps of one or more random partitions."""
    full_fit = runs[0].fit
    battles = full_fit.battles
    paired = isinstance(battles, Battles)
    info = Provenance(
        method=runs[0].method,
        rank=full_fit.rank,
        n_battles=battles.n_battles,
        n_folds=None if runs[0].method == "mle" else len(runs[0].steps),
        ridge=tuple(float(x) for x in full_fit.ridge),
        sampling=None if sampling is None else repr(sampling),
        se="full" if runs[0].full is not None else None,
        link=None if full_fit.link == LOGISTIC else str(full_fit.link),
        unit=battles.say("battles"),
    )
    if isinstance(targets, Family):
        parts = [run.all_scores() if targets.kind == "scores" else run.all_gaps() for run in runs]
        values, errors = _aggregate(*(np.array([part[i].reshape(-1) for part in parts]) for i in range(2)))
        labels = targets.labels(battles)
        if (lost := np.flatnonzero(np.isnan(values))).size:
            _warn_separated([labels[int(i)] for i in lost[:3]], lost.size, paired)
        return Estimate(labels, values, None, se=errors, links="identity", info=info)
    resolved = resolve_targets(battles, targets)
    moments = _combine([run.moments(resolved) for run in runs])
    if full_fit.link.separable:
        moments = _without_separated(moments, resolved, _Entries(runs[0].one_step_scores(), full_fit.link), paired)
    return Estimate(
        [target.label for target in resolved],
        moments.values,
        moments.reported_cov(),
        links=[target.scale for target in resolved],
        variance_noise=moments.variance_noise,
        info=info,
        bound_se=moments.bound,
        naive_se=(lambda: naive_errors(full_fit, resolved, _gradients(full_fit, resolved))) if paired else None,
    )


def resolve_targets(battles: Data, targets: Iterable[Target]) -> list[Resolved]:
    """Return targets with their indices; raise where one is no target."""
    resolved = []
    for target in targets:
        if not isinstance(target, Target):
            raise TargetError(
                f"{target!r} is not a target: build targets with lrbtl.score, lrbtl.gap, lrbtl.win_probability, ..."
            )
        resolved.append(target.resolve(battles))
    if not resolved:
        raise TargetError("no targets were given: pass at least one, for example lrbtl.score(model).")
    return resolved


def _without_separated(moments: Moments, targets: Sequence[Resolved], view: "_Entries", paired: bool) -> Moments:
    """Return the moments with NaN for targets that touch scores (d1, D) which run to infinity, and warn."""
    infinite = ~(np.abs(view.scores) < LARGEST_SCORE)
    if not infinite.any():
        return moments
    separated = np.array([_touches(target.at(view)[1], infinite) for target in targets])
    if not separated.any():
        return moments
    names = [target.label for target, out in zip(targets, separated, strict=True) if out]
    _warn_separated(names[:3], len(names), paired)
    values, cov, bound = moments.values.copy(), moments.cov.copy(), moments.bound.copy()
    values[separated] = bound[separated] = np.nan
    cov[separated] = cov[:, separated] = np.nan
    return replace(moments, values=values, cov=cov, bound=bound)


@dataclass(frozen=True)
class _Entries:
    """Scores (d1, D) as targets read them."""

    scores: Floats
    link: Link

    def entries(self, models: Longs, contexts: Longs) -> Floats:
        return np.asarray(self.scores[models, contexts])

    def dense(self) -> Floats:
        return self.scores


def _touches(gradient: SparseGradient | Floats, infinite: Bools) -> bool:
    """Return whether a gradient has weight on a score that runs to infinity."""
    if isinstance(gradient, SparseGradient):
        return bool(np.any(infinite[gradient.models, gradient.contexts] & (gradient.weights != 0)))
    return bool(np.any(infinite & (gradient.reshape(infinite.shape) != 0)))


def _warn_separated(names: list[str], count: int, paired: bool) -> None:
    warn_user(
        f"{count} targets ({', '.join(names)}) run to infinity: all that bears on them went the same way. They are "
        "NaN; a smaller rank or a larger ridge may help"
        + (", and lrbtl.leaderboard gives models that only won or lost one-sided limits." if paired else "."),
        SeparationWarning,
    )


def _gradients(full_fit: Fit, targets: Sequence[Resolved]) -> list[SparseGradient | Floats]:
    view = ScoreView(full_fit.design.space(full_fit.point), full_fit.battles.shape, full_fit.link)
    return [target.at(view)[1] for target in targets]


def _combine(runs: Sequence[Moments]) -> Moments:
    """Return the median over random partitions; variances add the squared distance from it, correlations are means."""
    if len(runs) == 1:
        return runs[0]
    errors = np.sqrt([np.diag(run.cov) for run in runs])
    wider = np.array([widening(run.variance_noise) for run in runs])
    values, combined = _aggregate(np.array([run.values for run in runs]), wider * errors)
    scale = np.where(errors > 0, errors, 1.0)
    correlation = np.mean([run.cov / np.outer(se, se) for run, se in zip(runs, scale, strict=True)], axis=0)
    bound = np.median([run.bound for run in runs], axis=0)
    variance_noise = np.median([run.variance_noise for run in runs], axis=0)
    combined = combined / widening(variance_noise)  # the widening of the whole comes last
    cov = correlation * np.outer(combined, combined)
    return replace(runs[0], values=values, cov=cov, bound=bound, variance_noise=variance_noise)


def _aggregate(values: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Return medians over runs of estimates (runs, M), and of their errors enlarged by the distance from the median."""
    middle = np.median(values, axis=0)
    return middle, np.sqrt(np.median(errors**2 + (values - middle) ** 2, axis=0))


def _naive(battles: Battles, targets: Iterable[Target] | Family) -> Estimate:
    separate = fit_separate(battles)
    info = Provenance(method="naive", n_battles=battles.n_battles)
    if isinstance(targets, Family):
        values, errors = naive_family(separate, targets.kind)
        return Estimate(targets.labels(battles), values, None, se=errors, links="identity", info=info)
    resolved = resolve_targets(battles, targets)
    values, cov = naive_moments(separate, resolved)
    return Estimate(
        [target.label for target in resolved], values, cov, links=[target.scale for target in resolved], info=info
    )
