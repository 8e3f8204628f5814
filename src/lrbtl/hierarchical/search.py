"""Which numbers of factors and which sizes votes support, and with what weight.

shared factors                           `Search.average_ranks`, by the test of `hierarchical.rank`
outliers                                 `Search.refit_without_outliers`
uncertainty of s and tau                 `Search.components`: nodes by their evidence
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np

from lrbtl.fitting.blocks import LowRankPlusSparse
from lrbtl.hierarchical.coordinates import no_factors
from lrbtl.hierarchical.covariance import ScoreCovariance
from lrbtl.hierarchical.expansion import Expansion
from lrbtl.hierarchical.large import MonteCarloCovariance
from lrbtl.hierarchical.level_prior import LevelPrior, design_weight
from lrbtl.hierarchical.mode import Mode, find_mode
from lrbtl.hierarchical.outliers import Outliers, find_outliers
from lrbtl.hierarchical.random_effects import RandomEffectDesign, RandomEffects
from lrbtl.hierarchical.rank import Residuals
from lrbtl.hierarchical.sizes import LEAST_SIZE, SizeFitter
from lrbtl.hierarchical.variance_components import SizePosterior, size_posterior
from lrbtl.lowrank.tucker import Tucker, check_rank, rank_caps
from lrbtl.methods.base import Options
from lrbtl.model.links import Link
from lrbtl.typing import Floats

LINEAR_IN_TAU = 0.1  # relative change of an entry's variance, with noise, over which covariances are linear in tau^2
SMALLEST_SIZE_TO_NOISE = 0.1  # of the noise: the search for a size starts at least there
LEVELS_IN_FACTORS = 0.05  # share of the score variance: below it factors absorb the levels, whose law does not matter
SPREAD_AVERAGED_FROM = 8.0  # squared relative errors of s, times shrinkage of levels, from which s is averaged over
SAME_TAU = 0.1  # relative difference of taus for which a mode is not sought again
LEAST_SHARE = 0.02  # weight below which a law of levels is left out of the average
CLEAR_EXCESS = 8.0  # excess at the first tau from which a factor is certain at any tau
EXCESS_WORTH_DRAWS = 4.0  # excess after a few draws from which further draws are made
LEAST_EXCESS_REMOVED = 0.3  # standard deviations by which a factor must lower the excess of the residuals
NOISE_TIMES = 2.0  # what noise would explain: components of context modes that explain less are left out
REFITS = 6  # most passes: flagging some outliers may add or remove others
LIKELY, UNLIKELY = 0.5, 0.3  # probabilities from which an entry is flagged, and below which a flag is removed
ROUGH_TOLERANCE = 2e-4  # nats per entry: tolerance of a number of factors that is in doubt
OUT_OF_REACH = -1e6  # log evidence of sizes at which levels run away: there is no mode within reach
EFFECT_ROUNDS = 2  # refits of tau once there are random effects
TAU_FACTORS = (0.25, 0.5, 1.0)  # multiples of tau that each of them compares


@dataclass(frozen=True)
class Component:
    """One number of factors and one set of sizes out of those that are averaged over, with its weight."""

    weight: float
    rank: tuple[int, ...]
    mode: Mode
    covariance: ScoreCovariance | MonteCarloCovariance
    outliers: Outliers

    @property
    def tau(self) -> float:
        """Size of deviations."""
        return self.mode.tau

    @property
    def s(self) -> float:
        """Spread of levels."""
        return self.mode.at.hyper.level.s

    @property
    def low_rank(self) -> LowRankPlusSparse:
        """Return level + L, with what several contexts share beside it."""
        return self.mode.scores.common()

    @cached_property
    def scores(self) -> LowRankPlusSparse:
        """Scores with the shifts of outliers and of random effects."""
        moves = (self.mode.scores.field, self.outliers.move, self.covariance.move)
        return LowRankPlusSparse.mixed(moves, (1.0, 1.0, 1.0))

    @property
    def shared_square(self) -> float:
        """Mean square of what entries share."""
        related = self.covariance.at.related if isinstance(self.covariance, MonteCarloCovariance) else None
        more = 0.0 if related is None else float(np.trace(related)) / len(related) - self.tau**2
        return max(self.low_rank.mean_square(), self.mode.at.hyper.level.spread) + more

    @property
    def link(self) -> Link:
        """The law of votes there."""
        return self.mode.scores.design.link

    @property
    def effect_values(self) -> Floats:
        """Values of linear effects."""
        effects = self.mode.scores.design.effects
        return np.empty(0) if effects is None else effects.values


@dataclass
class RankAverage:
    """Modes of increasing numbers of factors: each keeps a part of the remaining weight and passes on the rest.

    Attributes
    ----------
    modes : list of (float, Mode)
        Those that keep weight.
    remaining : float
        Weight of all larger numbers of factors.
    main : Mode or None
        That of most weight so far: larger numbers of factors take its sizes and outliers.
    stalled : list of Mode
        The last ones, since factors take nothing out of the residuals.
    """

    modes: list[tuple[float, Mode]] = field(default_factory=list)
    remaining: float = 1.0
    main: Mode | None = None
    stalled: list[Mode] = field(default_factory=list)
    _least_excess: float = np.inf

    def keep(self, mode: Mode, passed_on: float = 0.0) -> None:
        """Give a mode the remaining weight but for a share that it passes on."""
        self.modes.append((self.remaining * (1.0 - passed_on), mode))
        self.remaining *= passed_on

    def stalls(self, here: Mode | Expansion, excess: float) -> bool:
        """Return whether two numbers of factors in a row left the excess of the residuals nearly as it was."""
        doubtful = self._least_excess - LEAST_EXCESS_REMOVED < excess < CLEAR_EXCESS
        self.stalled = [*self.stalled, here] if doubtful and isinstance(here, Mode) else []
        self._least_excess = min(excess, self._least_excess)
        return len(self.stalled) > 1

    def shares(self, least: float) -> list[tuple[float, Mode]]:
        """Return the modes with at least some weight, the last one if none has it, with weights that sum to one."""
        kept = [each for each in self.modes if each[0] >= least] or self.modes[-1:]
        total, modes = sum(weight for weight, _ in kept), {id(mode): mode for _, mode in kept}
        return [(sum(w for w, each in kept if each is mode) / total, mode) for mode in modes.values()]


class Search:
    """Modes of one log at several numbers of factors and sizes."""

    def __init__(self, fitter: SizeFitter, tags: Floats | None = None, pilot: Mode | None = None) -> None:
        self.fitter, self.config = fitter, fitter.config
        self.design, self.shape = fitter.design, fitter.shape
        self.pilot = fitter.fit_pilot() if pilot is None else pilot
        self.columns = RandomEffectDesign.of(self.design, tags)

    def initial_expansion(self, rank: int | tuple[int, ...], offset: Floats | float = 0.0) -> Expansion:
        """Return the expansion round a start: the leading factors of the pilot's deviations, the rest as deviations."""
        pilot = self.pilot.scores
        E = pilot.E - offset
        empty = np.zeros((self.shape[0], 0)), np.zeros((self.design.n_contexts, 0))
        if rank == 0:
            point, left = no_factors(self.shape), E
        else:
            full = check_rank(rank, self.shape) if isinstance(rank, int) else rank
            point = LowRankPlusSparse.of(self.design, *empty, E).centred().truncated(full)
            left = E - self.design.entries.slot_values(np.ascontiguousarray(point.factors[0]), point.context_vectors())
            point = Tucker(point.core / self._pilot_shrinkage, point.factors)
        space = self.fitter.space(point, pilot.space.level)
        scores = replace(pilot, space=space, E=left, offset=offset, eta_variance=0.0)
        tau = max(float(np.sqrt(np.mean(left**2))), LEAST_SIZE * self.fitter.spread)
        return self.fitter.expansion(scores, tau, self.pilot.at.hyper.level)

    @cached_property
    def _pilot_shrinkage(self) -> float:
        """Mean shrinkage factor of the pilot's deviations: factors of few votes are larger than these."""
        at = self.pilot.at
        return at.tau**2 * at.marginal.trace / self.design.n_slots

    def fit_next_rank(self, mode: Mode, rank: int) -> Mode:
        """Return an approximate mode with more factors, which are in doubt, at the sizes of another mode.

        It starts at the scores of that mode, with the factors of an initial expansion: the likelihood is the same.
        """
        here, first = mode.scores, self.initial_expansion(rank, mode.scores.offset).scores
        low = self.design.entries.slot_values(first.space.U, first.space.V)
        scores = replace(here, space=first.space, E=here.on_slots - here.offset - low, shared=0.0)
        start = self.fitter.with_factors(mode.at.split_anew(scores))
        return find_mode(start, tolerance=ROUGH_TOLERANCE * self.design.n_slots)

    def fit_fixed_rank(self, rank: int | tuple[int, ...]) -> list[tuple[float, Mode]]:
        """Return the mode with a fixed number of factors, with weight one."""
        return [(1.0, self._without_vanished(self.refit_without_outliers(self.initial_expansion(rank))))]

    def _without_vanished(self, mode: Mode) -> Mode:
        """Return the mode without factors that vanished: what remains of them is rounding."""
        while mode.scores.vanished:
            most = mode.scores.space.rank - 1
            rank = tuple(min(most, each) for each in mode.scores.space.point.rank)
            mode = self.refit_without_outliers(self.initial_expansion(rank if most else 0, mode.scores.offset))
        return mode

    def average_ranks(self, options: Options) -> list[tuple[float, Mode]]:
        """Return modes of one or more numbers of factors with their weights.

        A number passes on all of its weight where the residuals clearly show one more factor, and none where they
        clearly do not. In doubt it passes on a part.
        """
        found, rank = RankAverage(), 0
        offset: Floats | float = 0.0
        while True:
            here = self._fit_rank(found.main, rank, offset)
            vanished = isinstance(here, Mode) and here.scores.vanished
            if vanished and found.main:
                found.keep(found.main)
                break
            if vanished or rank == self._largest_rank:
                found.keep(self._without_vanished(self.refit_without_outliers(here)))
                break
            seen = self._residuals_beyond(here, found.main)
            options.say(f"{rank} factors: the largest residual component is {seen.excess:.1f} deviations above noise")
            if found.stalls(here, seen.excess):
                found.keep(found.main or self.refit_without_outliers(found.stalled[0]))
                break
            offset = self._pass_on(found, here, seen.excess)
            if found.remaining < self.config.least_weight:
                break
            rank = min(rank + max(1, seen.certain), self._largest_rank)
        shares = found.shares(self.config.least_weight)
        return [(share, self.reduce_context_ranks(mode)) for share, mode in shares]

    @property
    def _largest_rank(self) -> int:
        """Most factors that are tried."""
        return min(self.config.largest_rank, max(rank_caps(self.shape)))

    @property
    def _excess_reject(self) -> float:
        """Excess of the residuals above which one more factor gets some weight."""
        return self.config.excess_reject - self.config.excess_hidden * self.fitter.covariates.informed[0]

    def _fit_rank(self, main: Mode | None, rank: int, offset: Floats | float) -> Mode | Expansion:
        """Return the mode with some factors; where one more is certain at any sizes, only the start of its search."""
        if main:
            return self.with_random_effects(self.fit_next_rank(main, rank))
        start = self.initial_expansion(rank, offset)
        sure = rank < self._largest_rank and not self.columns.modes  # random effects may look like factors
        if sure and self.fitter.residuals(start, EXCESS_WORTH_DRAWS).excess >= CLEAR_EXCESS:
            return start
        return self.with_random_effects(self.fitter.fit_sizes(start))

    def _residuals_beyond(self, here: Mode | Expansion, main: Mode | None) -> Residuals:
        """Return the test of the residuals for one more factor."""
        at = here.at if isinstance(here, Mode) else here
        effects = self.random_effects(at) if self.columns.modes else None
        return self.fitter.residuals(at, self._excess_reject if main else -np.inf, effects)

    def _pass_on(self, found: RankAverage, here: Mode | Expansion, excess: float) -> Floats | float:
        """Divide the remaining weight between a number of factors and larger ones; return the offset of outliers."""
        reject = self._excess_reject
        more = float(np.clip((excess - reject) / (self.config.excess_accept - reject), 0.0, 1.0))
        if more == 1.0:
            return here.scores.offset
        mode = here if found.main and isinstance(here, Mode) else self.refit_without_outliers(here)
        found.keep(mode, more)
        if more < 0.5 and len(self.shape) == 2:  # of tensors, ranks of modes are judged at their own tau
            found.main = found.main or mode
        return mode.scores.offset

    def refit_without_outliers(self, start: Mode | Expansion) -> Mode:
        """Return the mode with likely outlier entries exempt from sharing."""
        mode = start if isinstance(start, Mode) else self.fitter.fit_sizes(start)
        returned = np.zeros(self.design.n_slots, dtype=np.bool_)  # outliers no more: they would come and go
        for _ in range(REFITS if self.config.outliers and self.design.several_contexts else 0):
            found = find_outliers(self.fitter.covariance(mode.at), self.config)
            before = np.broadcast_to(mode.scores.offset, len(found.nats)) != 0.0
            new = (found.probability > LIKELY) & found.likeliest(~before & ~returned)
            out = new | (before & (found.probability > UNLIKELY))
            if np.array_equal(out, before):
                break
            returned |= before & ~out
            offset, E = np.where(out, found.shift, 0.0), np.where(out, 0.0, mode.scores.E)
            scores = replace(mode.scores, E=E, offset=offset)
            mode = self.fitter.fit_sizes(self.fitter.converge(mode.at.around(scores)))
        return mode

    def reduce_context_ranks(self, mode: Mode) -> Mode:
        """Return the mode with smaller ranks of the context modes, where a component explains little more than noise.

        The largest singular value of noise, m x n standard normal numbers, is about sqrt(m) + sqrt(n): its square is
        twice the nats that a component of noise explains.
        """
        for k in range(1, len(self.shape) if len(self.shape) > 2 and mode.scores.space.rank else 1):
            while mode.scores.space.point.rank[k] > 1:
                rank = list(mode.scores.space.point.rank)
                rank[k] -= 1
                others = prod(rank) // rank[k]
                if max(rank) ** 2 > prod(rank):
                    break
                space = self.fitter.space(mode.scores.space.point.leading(rank), mode.scores.space.level)
                found = find_mode(self.fitter.with_factors(mode.at.around(replace(mode.scores, space=space))))
                noise = (np.sqrt(self.shape[k] - rank[k]) + np.sqrt(others)) ** 2
                if found.fit - mode.fit > NOISE_TIMES * noise / 2:
                    break
                mode = found
        return mode

    def random_effects(self, at: Expansion) -> RandomEffects:
        """Return the random effects round a mode, with sizes by their evidence."""
        return RandomEffects.of(at, self.columns).sized(self.fitter.spread, self.config.effect_at_zero)

    def with_random_effects(self, mode: Mode) -> Mode:
        """Return the mode with random effects in its scores: deviations of single entries may be smaller then."""
        for _ in range(EFFECT_ROUNDS if self.columns.modes else 0):
            tries = [self.random_effects(mode.at.at_tau(mode.tau * factor)) for factor in TAU_FACTORS]
            found = max(tries, key=lambda each: each.log_evidence)
            context, model = mode.scores.design.slot_places
            E = mode.scores.E - (found.values - mode.scores.shared)[model, context]
            scores = replace(mode.scores, E=E, shared=found.values)
            mode = self.fitter.converge(found.at.around(scores))
        return mode

    def log_evidence(self, mode: Mode, *, tau: float | None = None, level: LevelPrior | None = None) -> float:
        """Return the log marginal likelihood of other sizes near those of a mode.

        Where votes are few the mode is sought there, else the expansion round this one does.
        """
        at = mode.at if tau is None else mode.at.at_tau(tau)
        at = at if level is None else self.fitter.at_level(at, level)
        if self.columns.modes:
            return self.random_effects(at).log_evidence
        if not self.fitter.thin(mode.at):
            return at.log_evidence
        there = self.fitter.converge(at, near=True)
        return there.at.log_evidence if there.converged else OUT_OF_REACH

    def tau_posterior(self, mode: Mode) -> SizePosterior:
        """Return the distribution of tau round a mode."""
        if not self.design.several_contexts:
            return SizePosterior.known(0.0)
        found = size_posterior(
            lambda tau: self.log_evidence(mode, tau=tau),
            max(mode.tau, SMALLEST_SIZE_TO_NOISE * min(self.design.noise, self.fitter.spread)),
            largest=self.fitter.spread,
            least=LEAST_SIZE * self.fitter.spread,
            sure=self.config.sure_size,
        )
        squares = [tau**2 for tau, _ in found.nodes]
        if squares[-1] - squares[0] > LINEAR_IN_TAU * (self.design.noise**2 * self.fitter.dispersion + squares[0]):
            return found
        return SizePosterior.known(found.typical, found.log_evidence)

    def likely_tau(self, mode: Mode) -> float:
        """Return one tau for its distribution; where votes are not few, that of the mode is where the evidence is."""
        if not self.fitter.thin(mode.at):
            return mode.tau
        found = self.tau_posterior(mode).typical
        return mode.tau if abs(found - mode.tau) <= SAME_TAU * mode.tau else found

    def level_posterior(self, mode: Mode, freedom: float) -> SizePosterior:
        """Return the distribution of the spread of levels under a law of them, round a mode."""
        level = replace(mode.at.hyper.level, freedom=freedom, sites=None)
        return size_posterior(
            lambda s: self.log_evidence(mode, level=replace(level, s=s)),
            max(level.s, SMALLEST_SIZE_TO_NOISE * self.fitter.level_noise),
            largest=self.config.largest_spread,
            least=LEAST_SIZE * max(level.s, self.fitter.level_noise),
            sure=self.config.sure_size,
        )

    def components(self, modes: list[tuple[float, Mode]], *, one_size: bool = False) -> list[Component]:
        """Return the components of modes: several sizes at the one of most weight, one at the others.

        Modes with more factors take its sizes: a factor too many fits part of the deviations and hides their size. With
        `one_size` a single tau stands for its distribution, and the s of most evidence for that of s.
        """
        main = max(range(len(modes)), key=lambda k: modes[k][0])
        modes = [(weight, self.with_random_effects(mode)) for weight, mode in modes]
        own = modes[main][1]
        taus = [(self.likely_tau(own), 1.0)] if one_size else self.tau_posterior(own).nodes
        laws = [(own.at.hyper.level, 1.0)] if one_size else self._level_priors(own)
        out = []
        for k, (weight, mode) in enumerate(modes):
            if k < main:
                there = self.refit_at_sizes(mode, self.likely_tau(mode), mode.at.hyper.level)
                out.append(self.component(there, weight))
                continue
            for tau, share in taus if k == main else [taus[len(taus) // 2]]:
                for level, part in laws if k == main else laws[:1]:
                    there = self.refit_at_sizes(mode, tau, level)
                    out.append(self.component(there, weight * part * (share if k == main else 1.0)))
        total = sum(each.weight for each in out)
        return [replace(each, weight=each.weight / total) for each in out]

    def refit_at_sizes(self, mode: Mode, tau: float, level: LevelPrior) -> Mode:
        """Return the mode at other sizes, without factors that vanish there."""
        if tau == mode.tau and level is mode.at.hyper.level:
            return mode
        at = self.fitter.at_level(mode.at.at_tau(tau), level)
        there = self.fitter.converge(at, near=True)
        while there.scores.vanished:
            space, most = at.scores.space, at.scores.space.rank - 1
            few = [min(most, each) for each in space.point.rank]
            space = self.fitter.space(space.point.leading(few) if most else no_factors(self.shape), space.level)
            at = at.around(replace(at.scores, space=space))
            there = self.fitter.converge(at, near=True)
        return there

    def _level_priors(self, mode: Mode) -> list[tuple[LevelPrior, float]]:
        """Return the priors of levels to average over, with their weights."""
        here = mode.at.hyper.level
        if mode.scores.space.rank and not self.fitter.thin(mode.at):
            return [(here, 1.0)]
        known = here.effective_number(self.fitter.covariance(mode.at).level_covariance)
        relative_error = (1.0 - known / max(self.shape[0] - 1, 1)) * np.sqrt(2.0 / known)
        if relative_error < self.config.sure_size**2 * SPREAD_AVERAGED_FROM:
            return [(here, 1.0)]
        laws = self._weighted_level_priors(mode)
        if not here.covariates.chose_pairs:
            return laws
        plain = self.fitter.fit_levels(self.fitter.converge(self.fitter.at_level(mode.at, here.without_covariates())))
        other = plain.at.hyper.level
        share = design_weight(here, other, other.effective_number(self.fitter.covariance(plain.at).level_covariance))
        both = [(level, weight * share) for level, weight in laws]
        both += [(level, weight * (1.0 - share)) for level, weight in self._weighted_level_priors(plain)]
        kept = [(level, weight) for level, weight in both if weight > LEAST_SHARE]
        total = sum(weight for _, weight in kept)
        return [(level, weight / total) for level, weight in kept]

    def _weighted_level_priors(self, mode: Mode) -> list[tuple[LevelPrior, float]]:
        """Return priors of levels of several laws and spreads round a mode, with their weights."""
        here = mode.at.hyper.level
        absorbed = bool(mode.scores.space.rank) and here.s**2 < LEVELS_IN_FACTORS * mode.scores.field.mean_square()
        laws = self.config.level_freedom[:1] if absorbed else self.config.level_freedom
        found = {freedom: self.level_posterior(mode, freedom) for freedom in laws}
        top = max(each.log_evidence for each in found.values())
        out = []
        for freedom, each in found.items():
            share = float(np.exp(each.log_evidence - top))
            if share > LEAST_SHARE:
                law = replace(here, freedom=freedom, sites=None)
                out += [(replace(law, s=s), share * weight) for s, weight in each.nodes]
        total = sum(weight for _, weight in out)
        return [(level, weight / total) for level, weight in out]

    def component(self, mode: Mode, weight: float) -> Component:
        """Return a mode with its covariances and outliers."""
        rank = mode.scores.space.point.rank[: len(self.shape)]
        covariance = self.fitter.covariance(mode.at)
        if self.columns.modes:
            covariance = ScoreCovariance(mode.at, self.fitter.cells, self.random_effects(mode.at))
        return Component(weight, rank, mode, covariance, find_outliers(covariance, self.config))
