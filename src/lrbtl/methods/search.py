"""The search over ranks and sizes of the deviations, tau: which of them votes support, and with what weight."""

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np
from scipy.interpolate import PchipInterpolator

from lrbtl.fitting.blocks import BlockDesign, Field, with_all_slots, without_idle_slots
from lrbtl.fitting.design import Design
from lrbtl.fitting.deviations import OF_VOTES, Expansion, Scores
from lrbtl.fitting.fit import spectral_start
from lrbtl.fitting.mode import Joint, Mode, find_joint_mode, find_mode, start_scores
from lrbtl.fitting.related import few_contexts
from lrbtl.fitting.signal import Residuals, probe_residuals
from lrbtl.lowrank.tucker import Tucker, check_rank, rank_caps, truncate
from lrbtl.methods.base import Options
from lrbtl.methods.exceptions import Exceptions, find_exceptions
from lrbtl.methods.posterior import Posterior
from lrbtl.methods.sampled import ManyModels, Sampled
from lrbtl.methods.shared import Columns, Shared
from lrbtl.model.links import Link
from lrbtl.typing import Floats, Longs

LEAST_TAU = 0.02  # of the spread of the scores: the least tau that is looked at
APART = 1.5  # ratio of values of tau whose evidence gives its curvature
TAU_STEPS, WORTHWHILE = 8, 0.05  # most steps in tau, and nats that one must gain
LITTLE_MORE = 0.02  # relative change of the variance of an entry, noise included, that is not worth a step either
FADED = 3.0  # nats below the most evidence, to which larger taus are looked at: few votes say little against them
ALIKE = 0.1  # relative change of the variance of an entry, noise included, below which one tau stands for several
SURE_TAU = 0.05  # relative error of tau below which one value stands for all
AT_ZERO = 0.5  # prior probability of no deviations at all
NODES = (1 / 6, 1 / 2, 5 / 6)  # quantiles of tau that stand for its distribution
NOISE, SURELY = 0.5, 3.0  # standard deviations above noise at which a component is believed not at all, and wholly
HIDDEN = 1.25  # by how much less on a ladder: where only neighbours meet, votes tell little of components along it
OBVIOUS = 8.0  # where a component stands out so far at the first tau, it does at any
NO_DOUBT = 4.0  # where it stands out less there after a few draws, it is not obvious
LITTLE = 0.3  # standard deviations that a component must take out of the residuals
FORGOTTEN = 0.12  # weight below which a rank is left out
LARGEST_RANK = 8
NOISE_TIMES = 2.0  # what noise would explain: components of context modes that explain less are left out
LETTING_OUT = 6  # most passes: without the pull of some exceptions others stand out, or do so no more
LIKELY = 0.5  # probability from which an entry is called an exception
UNLIKELY = 0.3  # below which one that was let out is none
PILOTS, ROUGH = 2, 0.01  # fits of rank 1 with large deviations, of which starts are made; nats per slot of a last step
ROUGHLY = 2e-4  # the same for a rank in doubt: scores move by some hundredths of their errors
SHARING, SMALLER = 2, (0.25, 0.5, 1.0)  # rounds, and taus that are looked at, once entries may share deviations
REFINED = 2  # times that tau of all models is sought
SIMULATED_LOGS, FEWEST_LOGS = 192, 64  # from which errors of so many models are taken, in all and at a node
SLIGHTLY = 0.1  # of the spread of contexts: how far starts are from their middle one, lest components coincide
STIFF = 1e4  # gauge constraints over the information of a model: the prior hardly moves along the gauge


@dataclass(frozen=True)
class Node:
    """One rank and one tau out of those that are averaged over, with its weight."""

    weight: float
    rank: tuple[int, ...]
    tau: float
    mode: Mode
    posterior: Posterior | Sampled
    exceptions: Exceptions

    @property
    def low_rank(self) -> Field:
        """L, with what several contexts share beside it."""
        return self.mode.scores.common()

    @cached_property
    def scores(self) -> Field:
        """Scores with the moves of exceptions and of what entries share."""
        moves = (self.mode.scores.field, self.exceptions.move, self.posterior.move)
        return Field.mixed(moves, (1.0, 1.0, 1.0))

    @property
    def shared_square(self) -> float:
        """Mean square of what entries share."""
        related = self.posterior.at.related if isinstance(self.posterior, Sampled) else None
        more = 0.0 if related is None else float(np.trace(related)) / len(related) - self.tau**2
        return self.low_rank.mean_square() + more

    @property
    def link(self) -> Link:
        """The law of votes there."""
        return self.mode.scores.design.link

    @property
    def effect_values(self) -> Floats:
        """Values of linear effects."""
        effects = self.mode.scores.design.effects
        return np.empty(0) if effects is None else effects.values


@dataclass(frozen=True)
class Start:
    """Where an earlier analysis ended: all scores (d1, D), and its smallest rank."""

    scores: Floats
    rank: int


class Search:
    """Modes of one log at several ranks and taus."""

    def __init__(self, cells: Design, near: Start | None = None, tags: Floats | None = None) -> None:
        self._take(cells)
        self._posteriors: dict[int, tuple[Posterior, Exceptions]] = {}  # by the identity of the expansions they hold
        self.pilot = self._scores_near(near)
        self._known_rank = 1 if near is None else near.rank
        self.dispersion, self.gauge = 1.0, self._gauge(self.pilot)
        for _ in range(PILOTS if len(self.shape) > 1 and near is None else 1):
            self.pilot = self.climb(self.pilot, self._guess(self.pilot), rough=ROUGH * self.design.n_slots).scores
        count = self.cells.count if self.cells.weight is None else self.cells.count * self.cells.weight
        eta = self.pilot.eta_of(self.cells)
        self.dispersion = self.pilot.design.link.dispersion(eta, self.cells.y, count) or 1.0
        self.gauge = self._gauge(self.pilot) / self.dispersion
        self.spread = self._spread(self.pilot)
        self.columns = Columns.of(self.design, tags)

    def _take(self, cells: Design, *, every_slot: bool = False) -> None:
        cells = with_all_slots(cells) if every_slot else without_idle_slots(cells)
        self.cells = BlockDesign.of_cells(cells)
        self.design = BlockDesign.of_cells(cells.averaged())
        self.shape = cells.shape

    def widened(self, cells: Design, nodes: list[Node], many: ManyModels | None = None) -> list[Node]:
        """Return nodes of a log of which this search saw some contexts: same ranks, taus and weights, all contexts.

        Where it saw some of `many` models only, covariances of all are from simulated logs.
        """
        wide = copy(self)
        wide._take(cells, every_slot=many is not None and bool(many.parts))
        if many is not None:
            return [wide._node_of_all(node, many) for node in one_for_each_rank(nodes)]
        wide.columns, out = Columns.of(wide.design), []
        for rank in dict.fromkeys(node.rank for node in nodes):
            own = [node for node in nodes if node.rank == rank]
            middle = own[len(own) // 2]
            mode = wide.climb(wide._spread_to_all(middle), middle.tau)
            out += [wide.node(wide.shifted(mode, node.tau), node.weight) for node in own]
        return out

    def _spread_to_all(self, node: Node, models: Longs | None = None) -> Scores:
        """Return a start at the scores of some contexts and models: elsewhere the middle one, without deviations."""
        design, space = self.design.under(node), node.mode.scores.space
        assert isinstance(design, BlockDesign)
        U, V = space.U, space.V
        if len(V) < design.n_contexts:
            V = np.tile(np.median(V, axis=0), (design.n_contexts, 1))
            V = V + SLIGHTLY * np.random.default_rng(0).normal(size=V.shape) * space.V.std(axis=0)
        if models is not None:
            U = np.zeros((design.shape[0], U.shape[1]))
            U[models] = space.U
        point = Tucker(np.eye(V.shape[1]), (U, V)).canonical()
        scores = Scores(design, design.space(point), np.zeros(design.n_slots))
        self.gauge = self._gauge(scores) / self.dispersion
        return scores

    def _node_of_all(self, node: Node, many: ManyModels) -> Node:
        """Return a node of some models as one of all: where contexts are few, all votes tell tau."""
        scores = self._spread_to_all(node, many.models)
        mode = find_joint_mode(scores, node.tau, self._dispersion(scores), self.gauge)
        for _ in range(REFINED if self.design.n_contexts > 1 and few_contexts(*self.design.shape) else 0):
            before = mode.at
            assert isinstance(before, Joint)
            tau, related = before.refined(many.parts)
            precision = before.prior.precision
            mode = find_joint_mode(before.scores, tau, before.dispersion, self.gauge, precision, related)
        at = mode.at
        assert isinstance(at, Joint)
        posterior = Sampled(at, self.cells, max(FEWEST_LOGS, round(node.weight * SIMULATED_LOGS)), many.clusters)
        return Node(node.weight, node.rank, at.tau, mode, posterior, find_exceptions(posterior))

    def _scores_near(self, near: Start | None) -> Scores:
        """Return where the search begins: at the scores of an earlier analysis, (d1, D), or at those of the votes."""
        if near is None:
            return start_scores(self.design, spectral_start(self.design, self._rank(1)))
        context, model = self.design.slot_places
        plain = start_scores(self.design, truncate(near.scores.reshape(self.shape), self._rank(1)))
        E = near.scores[model, context] - plain.low_rank if len(self.shape) > 1 else plain.E
        return Scores(self.design, plain.space, E)

    def _guess(self, scores: Scores) -> float:
        """Return a tau that lets deviations show all that battles tell: the spread of a rough fit."""
        return self._spread(scores) if len(self.shape) > 1 else 0.0

    def _spread(self, scores: Scores) -> float:
        """Return the root mean square of the scores, but not less than the noise of one of them."""
        noise = self.design.n_slots / (2.0 * float(self.design.count @ scores.terms.fisher))
        return float(np.sqrt(max(scores.field.mean_square(), noise)))

    def _gauge(self, scores: Scores) -> float:
        """Return the size of the gauge constraints: that of the information of a model."""
        information = self.design.count @ scores.terms.fisher
        return STIFF * float(information) / self.shape[0]

    def _rank(self, r: int) -> tuple[int, ...]:
        return check_rank(r, self.shape)

    def first(self, rank: tuple[int, ...], offset: Floats | float = 0.0) -> Scores:
        """Return a start for a rank: the pilot's scores, truncated, and what is left as deviations."""
        if len(self.shape) == 1:
            return self.pilot
        design, full = self.pilot.design, self.pilot.field
        low = replace(full, slots=full.slots - offset)
        plain = start_scores(design, low.truncated(rank))
        return Scores(design, plain.space, low.at_slots() - plain.low_rank, offset)

    def begin(self, rank: tuple[int, ...], offset: Floats | float = 0.0) -> Expansion:
        """Return the posterior round a start, with deviations as large as what truncation leaves, noise included."""
        scores = self.first(rank, offset)
        tau = max(float(np.sqrt(np.mean(scores.E**2))), LEAST_TAU * self.spread)
        return Expansion(scores, tau, self._dispersion(scores), self.gauge)

    def beside(self, mode: Mode, rank: tuple[int, ...]) -> Mode:
        """Return the mode of a rank that is in doubt, roughly, at the tau of a mode of smaller rank.

        It begins at the scores of that mode, with the components of a start: votes say the same there.
        """
        here, first = mode.scores, self.first(rank, mode.scores.offset)
        scores = replace(here, space=first.space, E=here.low_rank + here.E - first.low_rank)
        start = mode.at.sharing(replace(mode.at, scores=scores, before=None, settled=False), *OF_VOTES, "_told")
        return find_mode(start, rough=ROUGHLY * self.design.n_slots, whole=False)

    def climb(self, scores: Scores, tau: float, *, rough: float = 0.0, whole: bool = True) -> Mode:
        """Return the mode at a tau."""
        return find_mode(Expansion(scores, tau, self._dispersion(scores), self.gauge), rough=rough, whole=whole)

    def _dispersion(self, scores: Scores) -> float:
        """Return the dispersion at fitted scores: their information is too small by the share of it that they took."""
        return float(self.dispersion * (1.0 + scores.space.size / self.design.count.sum()))

    def shifted(self, mode: Mode, tau: float, *, whole: bool = True) -> Mode:
        """Return the mode at a tau near that of another mode."""
        if tau == mode.tau:
            return mode
        at = replace(mode.at, tau=tau, before=mode.at.prior.precision, settled=False)
        return find_mode(mode.at.sharing(at, *OF_VOTES), near=True, whole=whole)

    def settle(self, start: Mode | Expansion, *, whole: bool = True) -> Mode:
        """Return the mode at the tau that has the most evidence, about, from another mode or from some scores.

        Where a component vanishes on the way, the search ends there, unless a mode is wanted as a `whole`.

        Were all entries known equally well, with variance v of noise and deviations together, the evidence would be
        a log(v) + b / v + c, largest at v = b / a: its derivatives tell a and b.
        """
        mode, at = (start, start.at) if isinstance(start, Mode) else (None, start)
        low, high, tried = LEAST_TAU * self.spread, self.spread, [at.tau]
        noise = self.design.noise**2 * self.dispersion
        for _ in range(TAU_STEPS):
            slope, curvature = at.evidence_slope(self._residuals(at).taken)
            low, high = (at.tau, high) if slope > 0 else (low, at.tau)
            v = noise + at.tau**2
            a, b = -curvature * v**2, -(curvature * v + slope) * v**2
            tau = float(np.clip(np.sqrt(max(b / a - noise, 0.0)) if a < 0 else high, low, high))
            if tau in tried:
                tau = float(np.sqrt(low * high))
            tried.append(tau)
            there = noise + tau**2
            if a * np.log(there / v) + b * (1 / there - 1 / v) < WORTHWHILE or (
                mode and abs(there / v - 1) < LITTLE_MORE
            ):
                break
            if mode is None:
                mode = find_mode(at.sharing(replace(at, tau=tau), *OF_VOTES), whole=whole)
            else:
                mode = self.shifted(mode, tau, whole=whole)
            if not whole and mode.scores.vanished:
                return mode
            at = mode.at
        return mode or find_mode(at, whole=whole)

    def given(self, rank: tuple[int, ...]) -> list[tuple[float, Mode]]:
        """Return the mode at a rank, with weight one."""
        return [(1.0, self.let_out(self.begin(rank)))]

    def ranks(self, options: Options) -> list[tuple[float, Mode]]:
        """Return modes of one or more ranks with their weights.

        A rank passes on all of its weight where the residuals surely show one more component, none where they surely
        do not, and a part of it in doubt.
        """
        largest = min(LARGEST_RANK, max(rank_caps(self.shape)))
        noise = NOISE - HIDDEN * float(np.sqrt(np.mean(self.design.ladder**2)))
        found: list[tuple[float, Mode]] = []
        left, least = 1.0, np.inf
        main: Mode | None = None  # of the rank that has most of the weight: larger ones take its tau and exceptions
        r, start = self._lowest()
        idle: list[Mode | Expansion] = []  # since when components take nothing out of the residuals
        while r < largest:
            here: Mode | Expansion = self.beside(main, self._rank(r)) if main else start
            if isinstance(here, Expansion) and self._residuals(here, NO_DOUBT).excess < OBVIOUS:
                here = self.settle(here, whole=False)
            if isinstance(here, Mode) and here.scores.vanished and idle:
                options.say(f"rank {r}: its last component vanishes")
                found.append((left, main or self.let_out(idle[-1])))
                break
            seen = self._residuals(here.at if isinstance(here, Mode) else here, NOISE if main else -np.inf)
            excess = seen.excess
            options.say(f"rank {r}: the largest residual component is {excess:.1f} deviations above noise")
            idle = [*idle, here] if least - LITTLE < excess < OBVIOUS else [here]
            least = min(excess, least)
            if len(idle) > 2:
                found += [(left / 2, self._without_exceptions(each, main)) for each in idle[:2]]
                break
            more = float(np.clip((excess - noise) / (SURELY - noise), 0.0, 1.0))
            noise = NOISE if excess < NOISE else noise  # one rank more is in doubt, not all of them
            offset = start.scores.offset
            if more < 1.0:
                idle[-1] = mode = self._without_exceptions(here, main)
                found.append((left * (1.0 - more), mode))
                offset = mode.scores.offset
                if more < 0.5 and len(self.shape) == 2:  # of tensors, ranks of modes are judged at their own tau
                    main = main or mode
            left *= more
            if left < FORGOTTEN:
                break
            r = min(r + max(1, seen.certain), largest)
            start = self.begin(self._rank(r), offset)
        else:
            last = self.beside(main, self._rank(r)) if main else self.let_out(start)
            found.append((left, main if main and last.scores.vanished else last))
        kept = [each for each in found if each[0] >= FORGOTTEN]
        total, modes = sum(weight for weight, _ in kept), {id(mode): mode for _, mode in kept}
        share = {key: sum(weight for weight, mode in kept if id(mode) == key) / total for key in modes}
        return [(share[key], self.trimmed(mode)) for key, mode in modes.items()]

    def _without_exceptions(self, here: Mode | Expansion, main: Mode | None) -> Mode:
        """Return the mode without the pull of exceptions, which are those of the main rank once there is one."""
        return here if main and isinstance(here, Mode) else self.let_out(here)

    def _lowest(self) -> tuple[int, Expansion]:
        """Return the rank from which the search goes up: the one below those of an earlier analysis, if surely less."""
        r = min(self._known_rank - 1, LARGEST_RANK)
        if r > 1 and self._residuals(start := self.begin(self._rank(r)), NO_DOUBT).excess > OBVIOUS:
            return r, start
        return 1, self.begin(self._rank(1))

    def let_out(self, start: Mode | Expansion) -> Mode:
        """Return the mode without the pull of entries that are likely exceptions."""
        mode = start if isinstance(start, Mode) else self.settle(start)
        returned = np.zeros(self.design.n_slots, dtype=np.bool_)  # exceptions no more: they would come and go
        for _ in range(LETTING_OUT):
            found = self._posterior(mode.at)[1]
            before = np.broadcast_to(mode.scores.offset, len(found.nats)) != 0.0
            new = (found.probability > LIKELY) & found.likeliest(~before & ~returned)
            out = new | (before & (found.probability > UNLIKELY))
            if np.array_equal(out, before):
                self._posterior(mode.at)[0].lighter()
                break
            returned |= before & ~out
            del self._posteriors[id(mode.at)]
            offset, E = np.where(out, found.shift, 0.0), np.where(out, 0.0, mode.scores.E)
            near = mode.at.at_scores(replace(mode.scores, E=E, offset=offset), settled=True)
            seen, mode = self._residuals(mode.at), find_mode(near)
            mode.at.__dict__["_residuals"] = seen  # what L takes of W hardly changes
            mode = self.settle(mode)
        return mode

    @staticmethod
    def _residuals(at: Expansion, doubt: float = -np.inf) -> Residuals:
        """Return what `probe_residuals` tells round some scores; it is kept with them, as they are large."""
        if "_residuals" not in at.__dict__:
            at.__dict__["_residuals"] = probe_residuals(at, doubt)
        return at.__dict__["_residuals"]  # type: ignore[no-any-return]

    def _posterior(self, at: Expansion) -> tuple[Posterior, Exceptions]:
        """Return covariances and exceptions round a mode, where entries share nothing but the reach of the ladder."""
        if id(at) not in self._posteriors:
            posterior = Posterior.of(at, self.cells)
            self._posteriors[id(at)] = posterior, find_exceptions(posterior)
        return self._posteriors[id(at)]

    def trimmed(self, mode: Mode) -> Mode:
        """Return the mode with smaller ranks of the context modes, where a component explains little more than noise.

        The largest singular value of noise, m x n standard normal numbers, is about sqrt(m) + sqrt(n): its square is
        twice the nats that a component of noise explains.
        """
        for k in range(1, len(self.shape) if len(self.shape) > 2 else 1):
            while mode.scores.space.point.rank[k] > 1:
                rank = list(mode.scores.space.point.rank)
                rank[k] -= 1
                others = prod(rank) // rank[k]
                if max(rank) ** 2 > prod(rank):
                    break
                space = mode.scores.design.space(mode.scores.space.point.leading(rank))
                found = self.climb(replace(mode.scores, space=space), mode.tau)
                noise = (np.sqrt(self.shape[k] - rank[k]) + np.sqrt(others)) ** 2
                if found.fit - mode.fit > NOISE_TIMES * noise / 2:
                    break
                mode = found
        return mode

    def shared(self, at: Expansion) -> Shared:
        """Return what entries share round a mode, with sizes by their evidence."""
        return Shared(at, self.columns).sized(self.spread)

    def log_evidence(self, mode: Mode, tau: float) -> float:
        """Return the log marginal likelihood of a tau near that of a mode."""
        return self.shared(mode.at.at_tau(tau)).log_evidence if self.columns.modes else mode.at.evidence_of(tau)

    def share(self, mode: Mode) -> Mode:
        """Return the mode with what entries share in its scores: deviations of single entries may be smaller then."""
        for _ in range(SHARING if self.columns.modes else 0):
            tries = [self.shared(mode.at.at_tau(mode.tau * factor)) for factor in SMALLER]
            found = max(tries, key=lambda each: each.log_evidence)
            context, model = mode.scores.design.slot_places
            E = mode.scores.E - (found.values - mode.scores.shared)[model, context]
            mode = self.climb(replace(mode.scores, E=E, shared=found.values), found.at.tau)
        return mode

    def taus(self, mode: Mode) -> Floats:
        """Return values of tau that stand for its distribution round a mode."""
        _, curvature = mode.at.evidence_slope(self._residuals(mode.at).taken)
        if not self.columns.modes and 2 * mode.tau**2 * np.sqrt(max(curvature, 0.0)) > 1 / SURE_TAU:
            return np.array([mode.tau])
        at = {factor * mode.tau: self.log_evidence(mode, factor * mode.tau) for factor in (1 / APART, 1.0, APART)}
        low, here, high = (at[mode.tau * f] for f in (1 / APART, 1.0, APART))
        error = np.log(APART) / np.sqrt(max(2 * here - low - high, 1e-9))
        if error < SURE_TAU:
            return np.array([mode.tau])
        for away in (-2.0, -1.0, 1.0, 2.0):
            tau = float(np.clip(mode.tau * np.exp(away * min(error, 1.0)), LEAST_TAU * self.spread, self.spread))
            at.setdefault(tau, self.log_evidence(mode, tau))
        while (top := max(at)) < self.spread and at[top] > max(at.values()) - FADED:
            tau = min(2.0 * top, self.spread)
            at[tau] = self.log_evidence(mode, tau)
        at[0.0] = self.log_evidence(mode, 0.0)
        taus = np.array(sorted(at))
        at_zero = AT_ZERO if self.design.several_contexts else 0.0  # one context alone cannot tell E from L
        found = tau_quantiles(taus, np.array([at[tau] for tau in taus]), at_zero)
        noise = self.design.noise**2 * self.dispersion
        if found[-1] ** 2 - found[0] ** 2 > ALIKE * (noise + found[0] ** 2):
            return found
        # covariances are linear in tau^2 over so short a way
        return np.asarray(np.sqrt(np.mean(found**2, keepdims=True)))

    def average(self, modes: list[tuple[float, Mode]]) -> list[Node]:
        """Return the nodes of modes of growing rank: several taus at the one of most weight, one at the others.

        Larger ranks take its tau: a component too many fits part of the deviations and hides their size.
        """
        main = max(range(len(modes)), key=lambda k: modes[k][0])
        modes = [(weight, self.share(mode)) for weight, mode in modes]
        taus = self.taus(modes[main][1])
        out = []
        for k, (weight, mode) in enumerate(modes):
            own = [mode.tau] if k < main else taus if k == main else taus[len(taus) // 2 :][:1]
            for tau, count in zip(*np.unique(own, return_counts=True), strict=True):
                out.append(self.node(self.shifted(mode, float(tau)), float(weight * count / len(own))))
        return out

    def node(self, mode: Mode, weight: float) -> Node:
        """Return a mode with its covariances and exceptions."""
        rank = mode.scores.space.point.rank[: len(self.shape)]
        if not self.columns.modes:
            posterior, exceptions = self._posterior(mode.at)
            return Node(weight, rank, mode.tau, mode, posterior.lighter(), exceptions)
        posterior = Posterior(mode.at, self.cells, self.shared(mode.at))
        exceptions = find_exceptions(posterior)
        return Node(weight, rank, mode.tau, mode, posterior.lighter(), exceptions)


def one_for_each_rank(nodes: list[Node]) -> list[Node]:
    """Return a node for each rank, with the root mean square of its taus: all votes of many models know tau well."""
    found: dict[tuple[int, ...], Node] = {}
    for node in nodes:
        weight, square = node.weight, node.weight * node.tau**2
        if (known := found.get(node.rank)) is not None:
            weight, square = weight + known.weight, square + known.weight * known.tau**2
        found[node.rank] = replace(node, weight=weight, tau=float(np.sqrt(square / weight)))
    return list(found.values())


def tau_quantiles(taus: Floats, log_evidence: Floats, at_zero: float = AT_ZERO) -> Floats:
    """Return quantiles of tau under a flat prior on (0, largest tau] and one on zero, from its log evidence.

    Examples
    --------
    >>> tau_quantiles(np.array([0.0, 0.1, 0.2, 0.3]), np.array([-50.0, -50.0, 0.0, -50.0])).round(1)
    array([0.2, 0.2, 0.2])
    """
    grid = np.linspace(0.0, taus[-1], 2001)
    density = np.exp(PchipInterpolator(taus, log_evidence)(grid) - log_evidence.max())
    below = np.cumsum(density) / len(grid)
    below += at_zero / (1 - at_zero) * density[0]
    return np.asarray(np.interp(np.array(NODES) * below[-1], below, grid))
