"""The whitened method: cross-fitted estimates whose direction needs no information matrix."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lrbtl.data.observations import Data
from lrbtl.errors import MethodError
from lrbtl.fitting.design import Design
from lrbtl.fitting.local import Local
from lrbtl.fitting.solvers import IsotropicSolver, Solver
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.methods.base import Options
from lrbtl.methods.cross_fit import Information
from lrbtl.methods.low_rank import CrossFitted
from lrbtl.methods.one_step import Recipe, inverse_weights
from lrbtl.model.links import FISHER_FLOOR
from lrbtl.model.sampling import ProductSampling, UniformSampling
from lrbtl.typing import Floats, Longs


@dataclass(frozen=True)
class WhitenedRecipe:
    """Steps with scores divided by their information and, under uneven sampling, by the battles' probabilities."""

    weights: Floats | None
    known_variances = False

    def bread(self, train: Local) -> Solver:
        """Return a solver for J^T Q1 J / d_eff."""
        return IsotropicSolver(train.space, train.design.d_eff)

    def scored(self, part: Local, inside: Longs, spread: Floats | None) -> Local:
        """Return a fold's cells with the score w s / I."""
        link, variance, terms = part.design.link, part.design.variance, part.law
        fisher = terms.fisher if spread is None else link.mean_fisher(part.eta, spread, variance)
        weighted = terms.score if self.weights is None else self.weights[inside] * terms.score
        return part.with_score(weighted / np.maximum(fisher, FISHER_FLOOR))


class Whitened(CrossFitted):
    """A simpler direction, weighted by the sampling law [Li26, Algorithm 2]."""

    name = "whitened"
    # The noise of the fitted information, by which scores are divided, costs more than some bias.
    ridge_share: ClassVar[float] = 0.75

    def _is_plain(self, data: Data, options: Options) -> bool:
        return False

    def recipe(self, design: Design, options: Options, data: Data) -> Recipe:
        """Return the steps of the method; `sampling` is the battles' law, by default a product law estimated here."""
        if design.link.n_extra:
            raise MethodError(f"the whitened estimator has no tie parameter: use another method with {design.link}.")
        if design.effects is not None:
            names = ", ".join(repr(covariate.name) for covariate in data.covariates)  # type: ignore[union-attr]
            raise MethodError(
                f"the whitened estimator knows no effects of {names}: use another method, or control=[] to leave them "
                "out."
            )
        law = ProductSampling.estimate(data) if options.sampling is None else options.sampling
        return WhitenedRecipe(None if isinstance(law, UniformSampling) else inverse_weights(law, design))

    def reference(self, design: Design, space: TangentSpace, options: Options) -> Information:
        """Return the efficient information: it gives what is determined, and the bound."""
        here = Local(design.with_count(design.count / design.total), space)
        return Information(space, here.solver(options.solver))
