"""Several runs of a method on random partitions as one: medians, with errors that allow for their spread."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from lrbtl.methods.base import FamilyKind, Moments, Run
from lrbtl.methods.targets import Resolved
from lrbtl.typing import Bools, Floats


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
