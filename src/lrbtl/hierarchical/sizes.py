"""Sizes by their evidence, outside the search for a mode: s of levels, the precision of factors, tau of deviations.

variances of eta and the prior of levels     `SizeFitter.converge`: fixed points round a mode
s, the spread of levels                      `SizeFitter.fit_levels`: MacKay's fixed point
lambda, the precision of factors             `SizeFitter.fit_factors`: the same
tau, the size of deviations                  `SizeFitter.fit_tau`: the slope of the evidence
"""

from dataclasses import replace

import numpy as np

from lrbtl.fitting.blocks import BlockDesign, with_all_slots, without_idle_slots
from lrbtl.fitting.design import Design
from lrbtl.hierarchical.config import HierarchicalConfig
from lrbtl.hierarchical.coordinates import LevelSpace, no_factors
from lrbtl.hierarchical.covariance import ScoreCovariance
from lrbtl.hierarchical.expansion import Expansion, Hyperparameters, Scores
from lrbtl.hierarchical.factor_prior import FactorPrior
from lrbtl.hierarchical.level_prior import LevelFeatures, LevelPrior
from lrbtl.hierarchical.mode import Mode, find_mode
from lrbtl.hierarchical.pairings import DesignCovariates
from lrbtl.hierarchical.random_effects import RandomEffects
from lrbtl.hierarchical.rank import Residuals, probe_residuals
from lrbtl.lowrank.tucker import Tucker
from lrbtl.typing import Floats

LEAST_SIZE = 0.02  # of the spread of the scores: the least tau, and the least s, that is looked at
TAU_STEPS, WORTHWHILE = 8, 0.05  # most steps in tau, and nats that one must gain
SAME_TAU = 0.02  # relative change of tau that is not worth a step either
FACTOR_STEPS, FACTOR_CHANGE = 3, 0.05  # most steps of the precision of factors, and the relative change that ends them
LEVEL_STEPS, LEVEL_CHANGE = 6, 0.02  # most steps of s, and the relative change that ends them
ROUNDS, SAME_VARIANCE = 25, 0.02  # most rounds of expectations, and relative change of what they find that ends them
FIRST_TAU, FIRST_S = 1.0, 1.5  # logits: first values of the sizes
STIFF = 1e4  # gauge constraints over the information of a model: the prior hardly moves along the gauge
MATCHMADE_GRAPH = 0.5  # t of the meeting graph from which the prior of levels matters however many votes there are


class SizeFitter:
    """Modes of one log at sizes of most evidence.

    Attributes
    ----------
    cells, design : BlockDesign
        The votes, and means of those of a pair where a fit needs no more.
    covariates : DesignCovariates
    features : LevelFeatures or None
    dispersion : float
    spread : float
        Root mean square of the scores of a first fit, but not less than the noise of one of them.
    first : Mode
        That fit: levels and deviations, no shared factors.
    """

    def __init__(
        self,
        cells: Design,
        config: HierarchicalConfig,
        features: LevelFeatures | None = None,
        *,
        every_slot: bool = False,
    ) -> None:
        self.features = features
        self.config, self.shape = config, cells.shape
        cells = with_all_slots(cells) if every_slot else without_idle_slots(cells)
        self.cells, self.design = BlockDesign.of_cells(cells), BlockDesign.of_cells(cells.averaged())
        self._covariance: ScoreCovariance | None = None
        self._probed: tuple[Expansion, Residuals] | None = None
        self.covariates = self._design_covariates()
        self.dispersion, self.spread = 1.0, FIRST_S

    def fit_pilot(self) -> Mode:
        """Return a fit of levels and deviations, and take dispersion and spread from it."""
        d1, design = self.shape[0], self.design
        zero = Scores(design, self.space(no_factors(self.shape), np.zeros(d1)), np.zeros(design.n_slots))
        first = find_mode(self.expansion(zero, FIRST_TAU, self.levels(FIRST_S)))
        count = self.cells.count if self.cells.weight is None else self.cells.count * self.cells.weight
        eta = first.scores.eta_of(self.cells)
        self.dispersion = first.scores.design.link.dispersion(eta, self.cells.y, count) or 1.0
        found = self.fit_levels(self.converge(self.expansion(first.scores, FIRST_TAU, self.levels(FIRST_S))))
        if self.features is not None:  # deviations so large hide what features leave of levels: sizes begin from above
            level = found.at.hyper.level
            found = self.converge(self.at_level(found.at, replace(level, s=float(np.sqrt(level.spread)))), near=True)
        noise = design.n_slots / (2.0 * float(design.count @ found.scores.terms.fisher))
        self.spread = float(np.sqrt(max(found.scores.field.mean_square(), noise)))
        return found

    def for_design(self, cells: Design, *, every_slot: bool = False) -> "SizeFitter":
        """Return a fitter of other cells, of which this one saw some models or contexts; variances of eta stay."""
        wide = SizeFitter(cells, replace(self.config, expectation_from=np.inf), every_slot=every_slot)
        wide.dispersion, wide.spread = self.dispersion, self.spread
        return wide

    def _design_covariates(self) -> DesignCovariates:
        if not self.config.design_covariates:
            return DesignCovariates.none(self.shape[0])
        return DesignCovariates.of_meetings(self.design.meetings, self.config.bends)

    def space(self, point: Tucker, level: Floats) -> LevelSpace:
        """Return the coordinates at a point."""
        return LevelSpace(point, level, n_extra=self.design.n_effects)

    def levels(self, s: float) -> LevelPrior:
        """Return the prior of levels with a spread."""
        if self.features is None:
            return LevelPrior(self.covariates, s)
        return LevelPrior(
            self.covariates, s, squares=(0.0, 0.0, *self.features.first_variances(s)), features=self.features
        )

    def expansion(self, scores: Scores, tau: float, level: LevelPrior, *, precision: float | None = None) -> Expansion:
        """Return the posterior round some scores, with a precision of factors or the one that these suggest."""
        if not self.design.several_contexts:
            tau = 0.0
        information = float(self.design.count @ scores.terms.fisher) / self.shape[0]
        gauge = STIFF * information / self.dispersion
        factors = FactorPrior(precision or 0.0, self.covariates.loose)
        at = Expansion(scores, Hyperparameters(tau, level, self.dispersion, gauge, factors))
        return self.with_factors(at) if scores.space.rank and precision is None else at

    @staticmethod
    def with_factors(at: Expansion) -> Expansion:
        """Return the expansion with the precision of factors that has the most evidence round its scores, about."""
        hyper = replace(at.hyper, factors=replace(at.hyper.factors, precision=at.evidence_precision))
        return at.with_hyper(hyper)

    def thin(self, at: Expansion) -> bool:
        """Return whether votes are so few that the posterior is not near its mode, or the prior of levels matters."""
        scarce = (
            at.scores.space.size + at.tau**2 * at.marginal.trace
        ) / self.design.total > self.config.expectation_from
        return scarce or self.covariates.informed[0] > MATCHMADE_GRAPH

    def converge(self, start: Expansion, *, near: bool = False) -> Mode:
        """Return the mode with variances of eta and the prior of levels as the posterior round it suggests.

        Where votes are not few only the variances of features' coefficients are found, all else stays as it is.
        """
        mode = find_mode(start, near=near)
        thin = self.thin(mode.at)
        if not thin and self.features is None:
            return mode
        for _ in range(ROUNDS):
            found = self.covariance(mode.at)
            before, level = mode.scores.eta_variance, mode.at.hyper.level
            variance = found.eta_variances if thin else before
            update = level.updated if thin else level.with_feature_variances
            new = update(mode.scores.space.level, found.level_covariance)
            change = float(np.max(np.abs(variance - before) / np.maximum(variance, 1e-300), initial=0.0))
            change = max(change, level.distance(new))
            scores = replace(mode.scores, eta_variance=variance)
            mode = find_mode(mode.at.around(scores, replace(mode.at.hyper, level=new)), near=True)
            if change < SAME_VARIANCE:
                break
        return mode

    def fit_factors(self, mode: Mode) -> Mode:
        """Return the mode at the precision of factors that has the most evidence, about."""
        for _ in range(FACTOR_STEPS if mode.scores.space.rank and not mode.scores.vanished else 0):
            before, there = mode.at.hyper.factors.precision, self.with_factors(mode.at)
            if abs(there.hyper.factors.precision / before - 1.0) < FACTOR_CHANGE:
                break
            mode = self.converge(there, near=True)
        return mode

    def covariance(self, at: Expansion) -> ScoreCovariance:
        """Return the covariances round a mode without random effects."""
        if self._covariance is None or self._covariance.at is not at:
            self._covariance = ScoreCovariance(at, self.cells)
        return self._covariance

    def fit_levels(self, mode: Mode) -> Mode:
        """Return the mode at the spread s of levels that has the most evidence: MacKay's fixed point."""
        for _ in range(LEVEL_STEPS):
            level = mode.at.hyper.level
            ratio = level.size_ratio(mode.scores.space.level, self.covariance(mode.at).level_covariance)
            s = max(level.s * float(np.sqrt(ratio)), LEAST_SIZE * max(level.s, self.level_noise))
            s = min(s, self.config.largest_spread)
            mode = self.converge(self.at_level(mode.at, replace(level, s=s)), near=True)
            if abs(s / level.s - 1.0) < LEVEL_CHANGE:
                break
        return mode

    @staticmethod
    def at_level(at: Expansion, level: LevelPrior) -> Expansion:
        """Return the expansion with another prior of levels."""
        return at.with_hyper(replace(at.hyper, level=level))

    def fit_tau(self, start: Mode | Expansion) -> Mode:
        """Return the mode at the tau and the s that have the most evidence, about, from a mode or from some scores.

        Were all entries known equally well, with variance v of noise and deviations together, the evidence would be
        a log(v) + b / v + c, largest at v = b / a: its derivatives give a and b.
        """
        if not self.design.several_contexts:
            return start if isinstance(start, Mode) else self.converge(start)
        mode, at = (start, start.at) if isinstance(start, Mode) else (None, start)
        low, high, tried = LEAST_SIZE * self.spread, 2.0 * self.spread, [at.tau]
        noise = self.design.noise**2 * self.dispersion
        for _ in range(TAU_STEPS):
            slope, curvature = at.evidence_slope(self.residuals(at).taken)
            low, high = (at.tau, high) if slope > 0 else (low, at.tau)
            v = noise + at.tau**2
            a, b = -curvature * v**2, -(curvature * v + slope) * v**2
            tau = float(np.clip(np.sqrt(max(b / a - noise, 0.0)) if a < 0 else high, low, high))
            if tau in tried:
                tau = float(np.sqrt(low * high))
            tried.append(tau)
            there = noise + tau**2
            gain = a * np.log(there / v) + b * (1 / there - 1 / v)
            if mode and (gain < WORTHWHILE or abs(tau / at.tau - 1) < SAME_TAU):
                break
            mode = self.converge(at.at_tau(tau), near=mode is not None)
            at = mode.at
        assert mode is not None
        return mode

    def fit_sizes(self, start: Mode | Expansion) -> Mode:
        """Return the mode at the sizes of most evidence: tau, precision of factors, s, and tau once more."""
        mode = self.fit_tau(start)
        before = mode.at.hyper
        mode = self.fit_levels(self.fit_factors(mode))
        after = mode.at.hyper
        moved = abs(after.level.s / before.level.s - 1.0) > LEVEL_CHANGE
        if moved or after.factors.precision != before.factors.precision:
            mode = self.fit_tau(mode)
        return mode

    def residuals(self, at: Expansion, doubt: float = -np.inf, effects: RandomEffects | None = None) -> Residuals:
        """Return `probe_residuals` at some scores; the last result without effects is kept."""
        if effects is not None:
            return probe_residuals(at, self.config.residual_clip, doubt, effects)
        if self._probed is None or self._probed[0] is not at:
            self._probed = at, probe_residuals(at, self.config.residual_clip, doubt)
        return self._probed[1]

    @property
    def level_noise(self) -> float:
        """Size of the noise in a level, if votes were even."""
        return float(np.sqrt((self.shape[0] - 1) / (2.0 * self.design.information_at_zero)))
