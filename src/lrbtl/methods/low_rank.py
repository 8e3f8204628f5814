"""Methods that start from a low-rank fit, and those whose steps are taken on held-out folds."""

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.folds import check_folds, fold_counts
from lrbtl.data.observations import Data
from lrbtl.errors import SamplingError, SingularInformationError
from lrbtl.fitting.design import Design
from lrbtl.fitting.fit import fit
from lrbtl.fitting.local import Local
from lrbtl.fitting.low_rank import Fit, refit
from lrbtl.fitting.newton import Newton
from lrbtl.fitting.signal import warn_unconverged, warn_weak_signal, warn_wrong_variances
from lrbtl.fitting.solvers import needs_krylov
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.methods.base import Improvements, Method, Options, Provenance, Run
from lrbtl.methods.cross_fit import LARGEST_SCORE, Information, OneStepRun
from lrbtl.methods.naive import Naive
from lrbtl.methods.one_step import FoldStep, Recipe, fold_step
from lrbtl.model.links import LOGISTIC, Link, as_link
from lrbtl.threads import one_blas_thread, ordered_map
from lrbtl.typing import Floats, Longs

NO_SIGNAL = 1e-6  # of the noise of an entry: scores this small have no directions


class LowRank(Method):
    """A method that starts from a low-rank fit."""

    # share of the fit's ridge, which minimises the error of the scores: intervals want less bias, for some variance
    ridge_share: ClassVar[float]

    def run(self, data: Data, options: Options) -> Run:
        """Return the method run on data; logistic battles without contexts are a plain Bradley-Terry fit."""
        if self._is_plain(data, options):
            return Naive().plain_run(data, "bradley-terry")
        full_fit = fit(
            data, options.rank, ridge=options.ridge, link=options.link, n_threads=options.n_threads, rng=options.rng
        )
        return self.run_fit(full_fit, options)

    def _is_plain(self, data: Data, options: Options) -> bool:
        """Whether no rank restricts anything, so that maximum likelihood is efficient, and no option is lost by it."""
        logistic = options.link is None or as_link(options.link) == LOGISTIC
        asked = options.sampling is not None or not isinstance(options.ridge, str) or options.se != "crossfit"
        asked = asked or options.improvements is not None
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

    improvable = True

    @abstractmethod
    def recipe(self, design: Design, options: Options, data: Data) -> Recipe:
        """Return what the method puts into the step of a fold."""

    def reference(self, design: Design, space: TangentSpace, options: Options) -> Information | None:
        """Return the efficient information where the steps do not use it."""
        return None

    @one_blas_thread
    def run_fit(self, full_fit: Fit, options: Options) -> OneStepRun:
        """Return the method run on the battles of a fit."""
        check_signal(full_fit)
        data, design = full_fit.battles, full_fit.design
        if options.sampling is not None and not hasattr(options.sampling, "probability"):
            raise SamplingError(
                f"sampling={options.sampling!r} is not a sampling law; pass lrbtl.UniformSampling(), "
                "ProductSampling or TableSampling."
            )
        recipe = self.recipe(design, options, data)
        check_folds(data, options.n_folds)
        improved = Improvements() if options.improvements is None else options.improvements
        share = self.ridge_share if improved.ridge_share is None else improved.ridge_share
        ridge = share * full_fit.ridge
        start = refit(full_fit, design.count, ridge=ridge)
        check_ties(start.link)
        check_scores(full_fit, start.point)
        space = design.space(start.point)
        spread = _spread_of(Local(design.under(start), space), ridge) if improved.noisy_fit else None

        def step(at: Newton, held_out: Floats, trained_on: float) -> FoldStep:
            scaled = None if spread is None else spread * (float(design.count.sum()) / trained_on)
            return fold_step(design.under(at), at.point, held_out, recipe, scaled)

        def fold(counts: Longs) -> tuple[FoldStep, bool]:
            held_out = counts.astype(float)
            train = design.count - held_out
            newton = refit(full_fit, train, ridge=ridge, start=start)
            check_ties(newton.link)
            return step(newton, held_out, float(train.sum())), newton.converged

        steps, failed = [], int(not start.converged)
        folds = fold_counts(data.cells, options.n_folds, options.rng)
        for found, converged in ordered_map(fold, folds, full_fit.n_threads):
            steps.append(found)
            failed += not converged
            options.say(f"fold {len(steps)} of {options.n_folds}")
        warn_unconverged(failed, options.n_folds + 1)
        full = step(start, design.count, data.n_battles) if options.se == "full" else None
        info = replace(self.provenance(full_fit, options), n_folds=options.n_folds, se=None if full is None else "full")
        return OneStepRun(full_fit, info, steps, full, self.reference(design, space, options), improved)


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
    check_ties(full_fit.link)
    check_scores(full_fit, full_fit.point)
    if not full_fit.rank_chosen:
        data, design = full_fit.battles, full_fit.design
        warn_weak_signal(full_fit.point, data.n_battles, design.noise, centred=design.centred)


def check_scores(full_fit: Fit, point: Tucker) -> None:
    """Raise where all scores of a point are zero, about: a low-rank set has no tangent space there."""
    data = full_fit.battles
    if point.singular_values[0][0] > NO_SIGNAL * full_fit.design.noise:
        return
    paired = isinstance(data, Battles)
    raise SingularInformationError(
        f"all fitted {'scores' if paired else 'entries'} are zero, where a low-rank set has no tangent space: "
        + ("the votes favour no model" if paired else "the observations show no signal")
        + f". Add {data.unit} or give a smaller ridge"
        + (", or use method='hierarchical'." if paired else ".")
    )


def check_ties(link: Link) -> None:
    """Raise where even models would never decide a battle: a tie parameter that ran to infinity, and scores with it."""
    if link.n_extra and link.log_odds(np.zeros(1))[1][0] < np.exp(-LARGEST_SCORE):
        raise SingularInformationError(
            f"the rate of ties between even models is not identified: under the {link} link the share of ties runs to "
            "100%, and some scores to infinity. Use link='logistic', or method='hierarchical'."
        )
