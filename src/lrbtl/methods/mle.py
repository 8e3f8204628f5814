"""The penalised estimate itself, with HC3 errors: one fit, no folds."""

from typing import ClassVar

from lrbtl.data.battles import Battles
from lrbtl.fitting.low_rank import Fit, refit
from lrbtl.fitting.signal import warn_thin_contexts, warn_unconverged
from lrbtl.methods.base import Options, Run
from lrbtl.methods.cross_fit import OneStepRun
from lrbtl.methods.low_rank import LowRank, check_scores, check_signal, check_ties
from lrbtl.methods.one_step import mle_step
from lrbtl.threads import one_blas_thread


class Mle(LowRank):
    """The penalised estimate with HC3 errors."""

    name = "mle"
    unused: ClassVar[tuple[str, ...]] = ("n_folds", "sampling", "se", "config")
    ridge_share: ClassVar[float] = 0.25

    @one_blas_thread
    def run_fit(self, full_fit: Fit, options: Options) -> Run:
        """Return the fit with a smaller ridge as a run of one step."""
        check_signal(full_fit)
        if isinstance(full_fit.battles, Battles):
            warn_thin_contexts(full_fit.battles)
        ridge = self.ridge_share * full_fit.ridge
        newton = refit(full_fit, full_fit.design.count, ridge=ridge, tol=1e-6)
        check_ties(newton.link)
        check_scores(full_fit, newton.point)
        warn_unconverged(int(not newton.converged), 1)
        step = mle_step(full_fit.design.under(newton), newton.point, ridge, options.solver)
        return OneStepRun(full_fit, self.provenance(full_fit, options), [step])
