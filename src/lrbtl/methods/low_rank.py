"""Methods that start from a low-rank fit, and several runs on random partitions as one."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.folds import check_folds, fold_counts
from lrbtl.data.observations import Data
from lrbtl.errors import SamplingError, SingularInformationError
from lrbtl.fitting.design import Design
from lrbtl.fitting.fit import Fit, fit, refit
from lrbtl.fitting.local import Local
from lrbtl.fitting.newton import Newton
from lrbtl.fitting.signal import warn_unconverged, warn_weak_signal, warn_wrong_variances
from lrbtl.fitting.solvers import needs_krylov
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.methods.base import FamilyKind, Method, Moments, Options, Provenance, Run
from lrbtl.methods.cross_fit import Information, OneStepRun
from lrbtl.methods.naive import Naive
from lrbtl.methods.one_step import (
    FoldStep,
    Recipe,
    fold_step,
)
from lrbtl.methods.targets import Resolved
from lrbtl.model.links import LOGISTIC, as_link
from lrbtl.threads import one_blas_thread, ordered_map
from lrbtl.typing import Bools, Floats, Longs, Seed


class LowRank(Method):
    """A method that starts from a low-rank fit.

    Attributes
    ----------
    ridge_share : float
        Share of the fit's ridge, which minimises the error of the scores: intervals want less bias, for some variance.
    """

    ridge_share: ClassVar[float]

    def run(self, data: Data, options: Options) -> Run:
        """Return the method run on data; logistic battles without contexts are a plain Bradley-Terry fit."""
        if self._is_plain(data, options):
            return Naive().plain_run(data, "bradley-terry")
        full_fit = fit(
            data,
            options.rank,
            ridge=options.ridge,
            link=options.link,
            n_threads=options.n_threads,
            rng=options.rng,
        )
        return self.run_fit(full_fit, options)

    def _is_plain(self, data: Data, options: Options) -> bool:
        """Whether no rank restricts anything, so that maximum likelihood is efficient, and no option is lost by it."""
        logistic = options.link is None or as_link(options.link) == LOGISTIC
        asked = options.sampling is not None or options.ridge != "auto" or options.se != "crossfit"
        return isinstance(data, Battles) and not data.levels and logistic and not asked

    @abstractmethod
    def run_fit(self, full_fit: Fit, options: Options) -> Run:
        """Return the method run on the battles of a fit."""

    def provenance(self, full_fit: Fit, options: Options) -> Provenance:
        """Return how a run on a fit came about."""
        data = full_fit.battles
        return Provenance(
            method=self.name,
            rank=full_fit.rank,
            n_battles=data.n_battles,
            ridge=tuple(float(x) for x in full_fit.ridge),
            sampling=None if options.sampling is None else repr(options.sampling),
            link=None if full_fit.link == LOGISTIC else str(full_fit.link),
            unit=data.unit,
        )


class CrossFitted(LowRank):
    """A low-rank method whose steps are taken on held-out folds."""

    @abstractmethod
    def recipe(self, design: Design, options: Options, data: Data) -> Recipe:
        """Return what the method puts into the step of a fold."""

    def reference(self, design: Design, space: TangentSpace, options: Options) -> Information | None:
        """Return the efficient information where the steps do not use it."""
        return None

    def run_fit(self, full_fit: Fit, options: Options) -> Run:
        """Return the method run on the battles of a fit, on as many random partitions as asked for."""
        check_signal(full_fit)
        seeds: list[Seed] = [options.rng]
        if options.n_repeats > 1:
            seeds = list(np.random.default_rng(options.rng).spawn(options.n_repeats))
        runs = [self._partition(full_fit, options, seed) for seed in seeds]
        return runs[0] if len(runs) == 1 else Repeated(runs)

    @one_blas_thread
    def _partition(self, full_fit: Fit, options: Options, seed: Seed) -> OneStepRun:
        data, design = full_fit.battles, full_fit.design
        serial_fit = full_fit if full_fit.n_threads == 1 else replace(full_fit, n_threads=1)  # threads take a fold each
        if options.sampling is not None and not hasattr(options.sampling, "probability"):
            raise SamplingError(
                f"sampling={options.sampling!r} is no law: give lrbtl.UniformSampling(), ProductSampling or "
                "TableSampling."
            )
        recipe = self.recipe(serial_fit.design, options, data)
        check_folds(data, options.n_folds)
        ridge = self.ridge_share * full_fit.ridge
        start = refit(full_fit, design.count, ridge=ridge)
        space = design.space(start.point)
        spread = _spread_of(design.with_link(start.link).at(space), ridge)

        def step(at: Newton, held_out: Floats, trained_on: float) -> FoldStep:
            scaled = None if spread is None else spread * (data.n_battles / trained_on)
            return fold_step(serial_fit.design.with_link(at.link), at.point, held_out, recipe, scaled)

        def fold(counts: Longs) -> tuple[FoldStep, bool]:
            held_out = counts.astype(float)
            train = design.count - held_out
            newton = refit(serial_fit, train, ridge=ridge, start=start)
            return step(newton, held_out, float(train.sum())), newton.converged

        steps = []
        failed = int(not start.converged)
        for found, converged in ordered_map(fold, fold_counts(data.cells, options.n_folds, seed), full_fit.n_threads):
            steps.append(found)
            failed += not converged
            if options.progress is not None:
                options.progress(f"fold {len(steps)} of {options.n_folds}")
        warn_unconverged(failed, options.n_folds + 1)
        full = step(start, design.count, data.n_battles) if options.se == "full" else None
        info = replace(self.provenance(full_fit, options), n_folds=options.n_folds, se=None if full is None else "full")
        return OneStepRun(full_fit, info, steps, full, self.reference(design, space, options))


def _spread_of(here: Local, ridge: Floats) -> Floats | None:
    """Return the variance of eta in each cell that scores allow for, and warn where given variances are wrong."""
    design = here.design
    if design.variance is not None:
        residual = design.y - here.eta
        warn_wrong_variances(float(design.count @ (residual**2 / design.variance) / design.count.sum()))
    if needs_krylov(here.space, "auto"):  # beyond what can be factored, scores are plain: the same for either solver
        return None
    return here.dispersion * here.eta_variances(ridge)


def check_signal(full_fit: Fit) -> None:
    """Raise where all fitted scores are zero; warn where the weakest component of a given rank is near the noise."""
    data, design = full_fit.battles, full_fit.design
    if not full_fit.singular_values[0][0] > 1e-9:
        paired = isinstance(data, Battles)
        raise SingularInformationError(
            f"all fitted {'scores' if paired else 'entries'} are zero, where a low-rank set has no tangent space: "
            + ("the votes favour no model" if paired else "the observations show no signal")
            + f". Add {data.unit} or give a smaller ridge"
            + (", or use method='hierarchical'." if paired else ".")
        )
    if not full_fit.rank_chosen:
        warn_weak_signal(full_fit.point, data.n_battles, design.noise, centred=design.centred)


# ------------------------------------------------------------------------------
# Several runs on random partitions as one: medians, with errors that allow for their spread.
# ------------------------------------------------------------------------------


class Repeated(Run):
    """Runs on several random partitions of the same data."""

    def __init__(self, runs: Sequence[Run]) -> None:
        first = runs[0]
        self.runs, self.data, self.link = runs, first.data, first.link
        self.provenance, self.fit = first.provenance, first.fit

    def moments(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Moments:
        """Return the medians over the partitions."""
        return _combined([run.moments(targets, errors_only=errors_only) for run in self.runs])

    def score_moments(self, weights: Floats, among: Bools | None = None) -> list[Moments]:
        """Return the medians over the partitions, for each row of weights of contexts."""
        parts = [run.score_moments(weights, among) for run in self.runs]
        return [_combined(same) for same in zip(*parts, strict=True)]

    def family(self, kind: FamilyKind) -> tuple[Floats, Floats]:
        """Return the medians over the partitions."""
        parts = [run.family(kind) for run in self.runs]
        return _aggregate(np.array([values for values, _ in parts]), np.array([errors for _, errors in parts]))

    @cached_property
    def _scores(self) -> Floats:
        return np.asarray(np.median([run.scores() for run in self.runs], axis=0))

    def scores(self) -> Floats:
        """Return the median scores, (d1, D)."""
        return self._scores

    def placed(self, weights: Floats) -> Bools:
        """Return the models that all partitions place."""
        return np.asarray(np.all([run.placed(weights) for run in self.runs], axis=0))

    def naive_errors(self, targets: Sequence[Resolved]) -> Floats | None:
        """Return those of the fit to all battles."""
        return self.runs[0].naive_errors(targets)


def _combined(runs: Sequence[Moments]) -> Moments:
    """Return the median over random partitions; variances add the squared distance from it, correlations are means."""
    values, se = _aggregate(np.array([run.values for run in runs]), np.array([run.se for run in runs]))
    cov = None
    if runs[0].cov is not None:
        scales = (np.where(run.se > 0, run.se, 1.0) for run in runs)
        correlations = [run.cov / np.outer(scale, scale) for run, scale in zip(runs, scales, strict=True)]
        cov = np.mean(correlations, axis=0) * np.outer(se, se)
    noise = np.median([run.variance_noise for run in runs], axis=0)
    bounds = [run.bound for run in runs if run.bound is not None]
    return Moments(values, cov, se, noise, np.median(bounds, axis=0) if bounds else None)


def _aggregate(values: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Return medians over runs of estimates (runs, ...), and of their errors enlarged by the distance from them."""
    middle = np.median(values, axis=0)
    return middle, np.sqrt(np.median(errors**2 + (values - middle) ** 2, axis=0))
