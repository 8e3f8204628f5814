"""The efficient method: cross-fitted one-step estimates with the smallest variance, under any sampling."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from lrbtl.data.observations import Data
from lrbtl.errors import MethodError
from lrbtl.fitting.design import Design
from lrbtl.fitting.local import Local
from lrbtl.fitting.solvers import Solver, SolverName
from lrbtl.methods.base import Options
from lrbtl.methods.low_rank import CrossFitted
from lrbtl.methods.one_step import Law, Recipe
from lrbtl.typing import Floats, Longs


@dataclass(frozen=True)
class EfficientRecipe:
    """Steps with the information of the training folds, or its expectation under a sampling law."""

    law: Law | None
    solver: SolverName = "auto"

    @property
    def known_variances(self) -> bool:
        """Whether known variances stand for squared residuals: where the information is that of the battles."""
        return self.law is None

    def bread(self, train: Local) -> Solver:
        """Return a solver for the information."""
        here = train if self.law is None else self.law.at(train.space, train.design.link)
        return here.solver(self.solver)

    def scored(self, part: Local, inside: Longs, spread: Floats | None) -> Local:
        """Return a fold's cells with the score y - E[mean(eta)]."""
        return part if spread is None else part.spread(spread)


class Efficient(CrossFitted):
    """Smallest variance, any sampling [Li26, Algorithm 1]."""

    name = "efficient"
    ridge_share: ClassVar[float] = 0.5

    def recipe(self, design: Design, options: Options, data: Data) -> Recipe:
        """Return the steps of the method; `sampling` is the law of the information, by default the battles' own."""
        if options.sampling is None:
            return EfficientRecipe(None, options.solver)
        options.sampling.probability(data.cells, data.shape)  # raises where an observed battle is impossible
        variance = design.variance
        if variance is not None and np.ptp(variance) > 0:
            raise MethodError(
                "the information under a sampling law needs the variance of every entry, but only those of the "
                "observed ones are known: leave `sampling` out, which uses the observed entries."
            )
        everywhere = None if variance is None else np.full(prod(data.shape), variance[0])
        entries = not design.centred
        law = Law.of(options.sampling, data.shape, entries=entries, variance=everywhere)
        return EfficientRecipe(law, options.solver)
