"""Scores that are low rank plus deviations, T = L + E: honest also where low rank is only nearly true."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator

from lrbtl.data.battles import Battles
from lrbtl.data.observations import Data
from lrbtl.errors import MethodError, NoDecisionError
from lrbtl.fitting.blocks import BlockDesign, without_idle_slots
from lrbtl.fitting.design import Design
from lrbtl.fitting.deviations import Mode, Scores, find_mode, start_scores
from lrbtl.fitting.fit import make_design, spectral_start
from lrbtl.lowrank.tucker import check_rank, rank_caps, truncate
from lrbtl.methods.base import FamilyKind, Method, Moments, Options, Provenance, Run
from lrbtl.methods.clusters import Rows
from lrbtl.methods.naive import separate_errors
from lrbtl.methods.posterior import Exceptions, Posterior, centred
from lrbtl.methods.targets import Gradients, Resolved, evaluate
from lrbtl.model.links import LOGISTIC, Link
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Ints, Longs

FIRST_TAU, LEAST_TAU = 0.65, 0.02  # of the spread of the scores: first guess of tau, and the least that is looked at
APART = 1.5  # ratio of values of tau whose evidence gives its curvature
TAU_STEPS, FAR, WORTHWHILE = 5, 5.0, 0.05  # most steps in tau, in powers of that ratio, and nats that one must gain
SURE_TAU = 0.05  # relative error of tau below which one value stands for all
AT_ZERO = 0.5  # prior probability of no deviations at all
NODES = (1 / 6, 1 / 2, 5 / 6)  # quantiles of tau that stand for its distribution
LITTLE_KNOWN = 2e-3  # of the largest information: directions below it show no component
BITS = np.uint64(1) << np.arange(8, 37, dtype=np.uint64)  # one for each simulated residual: what noise looks like
CLIP = 2.5  # standard deviations beyond which a residual counts as an exception, not as a component
NOISE, SURELY = -0.7, 1.7  # standard deviations above noise at which a component is believed not at all, and wholly
OBVIOUS = 8.0  # where a component stands out at the first, large tau, it does at any
LITTLE = 0.3  # standard deviations that a component must take out of the residuals
FORGOTTEN = 0.12  # weight below which a rank is left out
LARGEST_RANK = 8
LETTING_OUT = 3  # most passes: without the pull of some exceptions others stand out
WIDE = 2.0  # times the spread of all scores: a prior that does not hold back what votes tell
CLEAR = 2.0  # times the noise: scores this large show half of their directions
LITTLE_DOUBT = 1e-3
LIKELY = 0.5  # probability from which an entry is called an exception
LONG = 1e9  # contexts times cubed models beyond which the gain over separate fits is not told
BATCH = 1 << 22  # numbers that the gradients of one batch of targets may fill
PILOTS = 2  # fits of rank 1 with large deviations: what truncated starts are made of
STIFF = 1e4  # gauge constraints over the information of a model: the prior hardly moves along the gauge


@dataclass(frozen=True)
class Node:
    """One rank and one tau out of those that are averaged over, with its weight."""

    weight: float
    rank: tuple[int, ...]
    tau: float
    mode: Mode
    posterior: Posterior
    exceptions: Exceptions

    @property
    def low_rank(self) -> Floats:
        """L, (d1, D)."""
        space = self.mode.scores.space
        return np.asarray(space.U @ space.V.T)

    @cached_property
    def scores(self) -> Floats:
        """Scores with the moves of exceptions and of the overall scale, (d1, D)."""
        return self.mode.scores.dense() + self.exceptions.move + self.posterior.stretch[0]

    @property
    def effect_values(self) -> Floats:
        """Values of linear effects."""
        effects = self.mode.scores.design.effects
        return np.empty(0) if effects is None else effects.values


class Hierarchical(Method):
    """T = L + E by its posterior, averaged over tau and over two ranks, with exceptions let out."""

    name = "hierarchical"
    unused = ("n_folds", "ridge", "sampling", "se", "solver")

    @one_blas_thread
    def run(self, data: Data, options: Options) -> Run:
        """Return the posterior of all scores of some battles."""
        if not isinstance(data, Battles):
            raise MethodError("the hierarchical method is for battles; use method='efficient' for observed entries.")
        if not np.any(data.cells.y != 0.5):
            raise NoDecisionError("every battle is a tie: nothing tells the models apart; check the outcome column.")
        search = _Search(make_design(data, options.link), options.start)
        if len(data.shape) == 1:
            nodes = [search.node(search.climb(search.first((1,)), 0.0), 1.0)]
        else:
            modes = (
                search.ranks(options) if options.rank == "auto" else search.given(check_rank(options.rank, data.shape))
            )
            nodes = search.average(modes)
        link = nodes[0].mode.scores.design.link
        provenance = Provenance(
            method=self.name,
            rank=nodes[0].rank,
            n_battles=data.n_battles,
            link=None if link == LOGISTIC else str(link),
            notes=() if len(data.shape) == 1 else (deviation_sentence(deviation_share(nodes)),),
        )
        return HierarchicalRun(data, nodes, provenance)


def deviation_share(nodes: Sequence[Node]) -> float:
    """Return the share of tau^2 in the variance of the scores of a category."""
    tau = sum(node.weight * node.tau for node in nodes)
    shared = sum(node.weight * float(np.mean(node.low_rank**2)) for node in nodes)
    return tau**2 / max(tau**2 + shared, 1e-300)


def deviation_sentence(share: float) -> str:
    """Return in words how much of the scores single entries have for themselves."""
    if share < 0.01:
        return "nearly all that differs between models in a category is shared with the other categories"
    return f"{share:.0%} of what differs between models in a category is not shared with the other categories"


class _Search:
    """Modes of one log at several ranks and taus."""

    def __init__(self, cells: Design, near: Floats | None = None) -> None:
        cells = without_idle_slots(cells)
        self.cells = BlockDesign.of_cells(cells)
        self.design = BlockDesign.of_cells(cells.averaged())
        self.shape = cells.shape
        self.pilot = self._scores_near(near)
        self.dispersion, self.gauge = 1.0, self._gauge(self.pilot)
        for _ in range(PILOTS if len(self.shape) > 1 else 1):
            self.pilot = self.climb(self.pilot, self._guess(self.pilot)).scores
        count = self.cells.count if self.cells.weight is None else self.cells.count * self.cells.weight
        eta = self.pilot.eta_of(self.cells)
        self.dispersion = self.pilot.design.link.dispersion(eta, self.cells.y, count) or 1.0
        self.gauge = self._gauge(self.pilot) / self.dispersion
        self.spread = self._spread(self.pilot)

    def _scores_near(self, near: Floats | None) -> Scores:
        """Return where the search begins: at the scores of an earlier analysis, (d1, D), or at those of the votes."""
        if near is None:
            return start_scores(self.design, spectral_start(self.design, self._rank(1)))
        context, model = self.design.slot_places
        plain = start_scores(self.design, truncate(near.reshape(self.shape), self._rank(1)))
        E = near[model, context] - plain.low_rank if len(self.shape) > 1 else plain.E
        return Scores(self.design, plain.space, E)

    def _guess(self, scores: Scores) -> float:
        """Return a tau that lets deviations show all that battles tell: the spread of a rough fit."""
        return self._spread(scores) if len(self.shape) > 1 else 0.0

    def _spread(self, scores: Scores) -> float:
        """Return the root mean square of the scores, but not less than the noise of one of them."""
        noise = self.design.n_slots / (2.0 * float(self.design.count @ scores.terms.fisher))
        return float(np.sqrt(max(float(np.mean(scores.dense() ** 2)), noise)))

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
        design, full = self.pilot.design, self.pilot.dense()
        context, model = design.slot_places
        known = np.broadcast_to(offset, len(model))
        low = full.copy()
        np.subtract.at(low, (model, context), known)
        plain = start_scores(design, truncate(low.reshape(self.shape), rank))
        return Scores(design, plain.space, full[model, context] - known - plain.low_rank, offset)

    def climb(self, scores: Scores, tau: float) -> Mode:
        """Return the mode at a tau."""
        return find_mode(scores, tau, self.dispersion, self.gauge)

    def shifted(self, mode: Mode, tau: float) -> Mode:
        """Return the mode at a tau near that of another mode."""
        return mode if tau == mode.tau else find_mode(mode.scores, tau, self.dispersion, self.gauge, mode.at)

    def settle(self, mode: Mode) -> Mode:
        """Return the mode at the tau that has the most evidence, about."""
        for _ in range(TAU_STEPS):
            better, gain = self.better_tau(mode)
            if gain < WORTHWHILE:
                break
            mode = self.shifted(mode, better)
        return mode

    def better_tau(self, mode: Mode) -> tuple[float, float]:
        """Return where a parabola through the evidence of three values of log tau is largest, and what it gains."""
        low, here, high = (mode.at.at_tau(mode.tau * f).log_evidence() for f in (1 / APART, 1.0, APART))
        slope, bend = 0.5 * (high - low), low - 2 * here + high
        shift = -slope / bend if bend < 0 else FAR * np.sign(slope)
        shift = float(np.clip(shift, -FAR, FAR))
        tau = float(np.clip(mode.tau * APART**shift, LEAST_TAU * self.spread, self.spread))
        moved = np.log(tau / mode.tau) / np.log(APART)
        return tau, slope * moved + 0.5 * bend * moved**2 if bend < 0 else abs(slope * moved)

    def given(self, rank: tuple[int, ...]) -> list[tuple[float, Mode]]:
        """Return the mode at a rank, with weight one."""
        return [(1.0, self.let_out(self.settle(self.climb(self.first(rank), FIRST_TAU * self.spread))))]

    def ranks(self, options: Options) -> list[tuple[float, Mode]]:
        """Return modes of one or more ranks with their weights.

        A rank passes on all of its weight where the residuals surely show one more component, none where they surely
        do not, and a part of it in doubt.
        """
        largest = min(LARGEST_RANK, max(rank_caps(self.shape)))
        found: list[tuple[float, Mode]] = []
        wide = FIRST_TAU * self.spread
        left, least, mode = 1.0, np.inf, self.climb(self.first(self._rank(1)), wide)
        idle: list[Mode] = []  # since when components take nothing out of the residuals
        for r in range(1, largest):
            excess = excess_component(mode)
            if excess < OBVIOUS:
                mode = self.settle(mode)
                excess = excess_component(mode)
            options.say(f"rank {r}: the largest residual component is {excess:.1f} deviations above noise")
            idle = [*idle, mode] if excess > least - LITTLE else [mode]
            least = min(excess, least)
            if len(idle) > 2:
                found += [(left / 2, self.let_out(each)) for each in idle[:2]]
                break
            more = float(np.clip((excess - NOISE) / (SURELY - NOISE), 0.0, 1.0))
            if more < 1.0:
                mode = self.let_out(mode)
                found.append((left * (1.0 - more), mode))
            left *= more
            if left < FORGOTTEN:
                break
            mode = self.climb(self.first(self._rank(r + 1), mode.scores.offset), mode.tau)
        else:
            found.append((left, self.let_out(self.settle(mode))))
        kept = [each for each in found if each[0] >= FORGOTTEN]
        total = sum(weight for weight, _ in kept)
        return [(weight / total, each) for weight, each in kept]

    def let_out(self, mode: Mode) -> Mode:
        """Return the mode without the pull of entries that are likely exceptions."""
        context, model = mode.scores.design.slot_places
        for _ in range(LETTING_OUT):
            found = Posterior(mode.at, self.cells).exceptions()
            likely = (found.probability > LIKELY)[model, context]
            if not np.any(likely & (np.broadcast_to(mode.scores.offset, len(likely)) == 0.0)):
                break
            offset = np.where(likely, found.shift[model, context], 0.0)
            E = np.where(likely, 0.0, mode.scores.E)
            mode = self.settle(self.climb(replace(mode.scores, E=E, offset=offset), mode.tau))
        return mode

    def taus(self, mode: Mode) -> Floats:
        """Return values of tau that stand for its distribution round a mode."""
        at = {mode.tau: mode.log_evidence}
        for factor in (1 / APART, APART):
            at[factor * mode.tau] = mode.at.at_tau(factor * mode.tau).log_evidence()
        low, here, high = (at[mode.tau * f] for f in (1 / APART, 1.0, APART))
        error = np.log(APART) / np.sqrt(max(2 * here - low - high, 1e-9))
        if error < SURE_TAU:
            return np.array([mode.tau])
        for away in (-2.0, -1.0, 1.0, 2.0):
            tau = float(np.clip(mode.tau * np.exp(away * min(error, 1.0)), LEAST_TAU * self.spread, self.spread))
            at.setdefault(tau, mode.at.at_tau(tau).log_evidence())
        at[0.0] = mode.at.at_tau(0.0).log_evidence()
        taus = np.array(sorted(at))
        several = np.count_nonzero(np.diff(self.design.start)) > 1  # one context alone cannot tell E from L
        return tau_quantiles(taus, np.array([at[tau] for tau in taus]), AT_ZERO if several else 0.0)

    def average(self, modes: list[tuple[float, Mode]]) -> list[Node]:
        """Return the nodes of modes of growing rank: several taus at the one of most weight, one at the others.

        Larger ranks take its tau: a component too many fits part of the deviations and hides their size.
        """
        main = max(range(len(modes)), key=lambda k: modes[k][0])
        taus = self.taus(modes[main][1])
        out = []
        for k, (weight, mode) in enumerate(modes):
            own = [mode.tau] if k < main else taus if k == main else taus[len(taus) // 2 :][:1]
            out += [self.node(self.shifted(mode, float(tau)), weight / len(own)) for tau in own]
        return out

    def node(self, mode: Mode, weight: float) -> Node:
        """Return a mode with its covariances and exceptions."""
        posterior = Posterior(mode.at, self.cells)
        rank = mode.scores.space.point.rank[: len(self.shape)]
        return Node(weight, rank, mode.tau, mode, posterior, posterior.exceptions())


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


def random_bits(context: Longs, a: Longs | Ints, b: Longs | Ints) -> npt.NDArray[np.uint64]:
    """Return 64 random bits for each (context, a, b), the same in every log (splitmix64 of a key)."""
    key = np.bitwise_xor(np.left_shift(context, 42), np.left_shift(a.astype(np.int64), 21)) ^ b
    bits = key.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits += np.uint64(0x9E3779B97F4A7C15)
        bits ^= np.right_shift(bits, np.uint64(shift))
        bits *= np.uint64(factor)
    return np.bitwise_xor(bits, np.right_shift(bits, np.uint64(31)))


def excess_component(mode: Mode) -> float:
    """Return how far the largest singular value of the residuals is above noise, in standard deviations of noise.

    Residuals of L are S g + W E on the slots, clipped, and white in models and contexts after division by the root of
    the information: few close matches tell much less of the levels than of neighbours. Noise is drawn from the model:
    votes and deviations of random signs, less what the fit takes of them. Signs belong to pairs and entries, so that
    one vote more changes only its own.
    """
    at, design, space = mode.at, mode.scores.design, mode.scores.space
    own = design.scatter([np.einsum("bmm->bm", W) for W in at.W])
    limit = CLIP * np.sqrt(np.maximum(own, 0.0))
    values, vectors = np.linalg.eigh(design.summed(at.W))
    known = values > LITTLE_KNOWN * values[-1]
    white = vectors[:, known] / np.sqrt(values[known])
    weight = np.maximum(design.traces(at.W, white @ white.T), 1e-300)

    def largest(residual: Floats) -> float:
        matrix = np.asarray(design.slot_matrix(np.clip(residual, -limit, limit)) @ white) / np.sqrt(weight)[:, None]
        gram = matrix.T @ matrix if len(matrix) >= matrix.shape[1] else matrix @ matrix.T
        return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))

    root = np.sqrt(design.count * at.scores.terms.fisher / at.dispersion)
    context, model = design.slot_places
    of_cells, of_slots = random_bits(design.context, design.a, design.b), random_bits(context, model, model)
    votes = np.stack([design.slot_sums(np.where(of_cells & bit, root, -root)) for bit in BITS], axis=1)
    deviations = np.where(of_slots[:, None] & BITS, at.tau, -at.tau)
    drawn = design.times(at.S, votes) + design.times(at.W, deviations)
    solved = at.factor.solve(np.stack([design.pull_sums(space, np.ascontiguousarray(x)) for x in drawn.T], axis=1))
    fitted = [design.slot_changes(space, *space.push(np.ascontiguousarray(x))) for x in solved.T]
    left = drawn - design.times(at.W, np.stack(fitted, axis=1))
    noise = [largest(np.ascontiguousarray(x)) for x in left.T]
    return (largest(at.residual) - float(np.mean(noise))) / max(float(np.std(noise, ddof=1)), 1e-300)


@dataclass(frozen=True)
class _View:
    """Scores (d1, D) as targets read them."""

    scores: Floats
    link: Link
    shape: tuple[int, ...]
    effect_values: Floats

    def entries(self, models: Longs, contexts: Longs) -> Floats:
        return np.asarray(self.scores[models, contexts])

    def dense(self) -> Floats:
        return self.scores.reshape(self.shape)


class HierarchicalRun(Run):
    """The posterior of all scores: means over nodes, their covariances and the spread between them."""

    data: Battles
    shrinks = True

    def __init__(self, data: Battles, nodes: list[Node], provenance: Provenance) -> None:
        self.data, self.nodes, self.provenance = data, nodes, provenance
        self.link = nodes[len(nodes) // 2].mode.scores.design.link

    def _average(self, values: Iterable[Floats]) -> Floats:
        """Return the weighted mean of arrays, one per node."""
        total: Floats = np.zeros(())
        for node, value in zip(self.nodes, values, strict=True):
            total = total + node.weight * value
        return np.asarray(total)

    @cached_property
    def _mean(self) -> Floats:
        return self._average(node.scores for node in self.nodes)

    @cached_property
    def effect_values(self) -> Floats:
        """Values of linear effects."""
        return self._average(node.effect_values for node in self.nodes)

    def scores(self) -> Floats:
        """Return the estimates of all scores, (d1, D)."""
        return self._mean

    @cached_property
    def tau(self) -> float:
        """Mean size of the deviations of single entries from low rank."""
        return sum(node.weight * node.tau for node in self.nodes)

    @cached_property
    def share(self) -> float:
        """Share of the deviations in what differs between models in a category."""
        return deviation_share(self.nodes)

    def least_deviations(self) -> tuple[Floats, Floats]:
        """Return all scores (d1, D) and their errors at the smallest tau that is averaged over."""
        node = min(self.nodes, key=lambda node: node.tau)
        return node.scores, np.sqrt(np.maximum(np.einsum("uaa->au", node.posterior.by_context), 0.0))

    def naive_errors(self, targets: Sequence[Resolved]) -> Floats | None:
        """Return the model-based errors of separate fits at these scores; None where they would take long."""
        if self.data.n_contexts * self.data.shape[0] ** 3 > LONG:
            return None
        return separate_errors(self.data, _View(self._mean, self.link, self.data.shape, self.effect_values), targets)

    @cached_property
    def exception_probability(self) -> Floats:
        """Probability that each entry is an exception, (d1, D)."""
        return self._average(node.exceptions.probability for node in self.nodes)

    @cached_property
    def _deviations(self) -> Floats:
        """Scores less their low-rank part, (d1, D)."""
        return self._mean - self._average(node.low_rank for node in self.nodes)

    def leans_on(self, has_votes_elsewhere: bool) -> str:
        """Return what the score of a model with few or no votes on a board rests on."""
        return "score from its other categories" if has_votes_elsewhere else "score from the spread of models"

    def exception(self, model: int, weights: Floats) -> float:
        """Return how far a score is from what the model's other scores say, where votes single it out; else 0."""
        used = np.flatnonzero(weights)
        if used.size != 1 or self.exception_probability[model, used[0]] < LIKELY:
            return 0.0
        return float(self._deviations[model, used[0]])

    @cached_property
    def _by_context(self) -> Floats:
        """Covariance of the scores of each context, (D, d1, d1)."""
        out = self._average(node.posterior.by_context for node in self.nodes)
        for node in self.nodes:
            away = (node.scores - self._mean).T
            out += node.weight * away[:, :, None] * away[:, None, :]
        each = np.arange(out.shape[1])
        out[:, each, each] += self._added.T
        return np.asarray(out + self._common)

    @cached_property
    def _common(self) -> Floats:
        """Covariance that all contexts share beyond what the nodes say, (d1, d1).

        The nodes take the directions of their skills for known. Where votes hardly tell them, a mean over contexts is
        not known better than if each model had one score everywhere, with WIDE times the spread of scores as prior.
        """
        (d1, D), node = self._mean.shape, max(self.nodes, key=lambda node: node.weight)
        noise = node.mode.scores.design.noise  # of one entry
        clear = CLEAR * noise * (np.sqrt(d1) + np.sqrt(D))
        unsure = 1.0 / (1.0 + (float(np.linalg.norm(self._mean, 2)) / clear) ** 4)
        if unsure < LITTLE_DOUBT:
            return np.zeros((d1, d1))
        traffic = self.data.context_counts / self.data.n_battles
        means = traffic[None, :, None] * (np.eye(d1) - 1.0 / d1)[:, None, :]
        prior = np.eye(d1) / (WIDE**2 * max(float(np.mean(self._mean**2)), noise**2))
        least = np.linalg.inv(node.posterior.pooled_information + prior)
        values, vectors = np.linalg.eigh(centred(least - self._node_covariance(means, None, diagonal=False)))
        return np.asarray(unsure * (vectors * np.maximum(values, 0.0)) @ vectors.T)

    @cached_property
    def _added(self) -> Floats:
        """Variance that exceptions add to each entry, (d1, D)."""
        return self._average(node.exceptions.variance for node in self.nodes)

    @one_blas_thread
    def vote_moments(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Moments:
        """Return estimates of targets with their covariance, or only with their errors."""
        values, gradients = evaluate(targets, _View(self._mean, self.link, self.data.shape, self.effect_values))
        D, d1 = self.data.n_contexts, self.data.shape[0]
        size = max(1, BATCH // (D * d1))
        none = np.zeros(len(targets))
        if errors_only:
            parts = [
                self._covariance(gradients, slice(k, k + size), diagonal=True) for k in range(0, len(targets), size)
            ]
            return Moments(values, None, np.sqrt(np.concatenate(parts)), none)
        cov = self._covariance(gradients, slice(None), diagonal=False)
        return Moments(values, cov, np.sqrt(np.maximum(np.diag(cov), 0.0)), none)

    def _covariance(self, gradients: Gradients, part: slice, *, diagonal: bool) -> Floats:
        """Return the covariance of some targets, or its diagonal."""
        dense, slopes = self._dense(gradients, part)
        found = self._node_covariance(dense, slopes, diagonal=diagonal)
        over_contexts = dense.sum(axis=1)
        common = over_contexts @ self._common
        more = np.einsum("ma,ma->m", common, over_contexts) if diagonal else common @ over_contexts.T
        return np.asarray(found + more)

    def _node_covariance(self, dense: Floats, slopes: Floats | None, *, diagonal: bool) -> Floats:
        """Return the covariance of linear functions of the scores (M, D, d1) and effects, by the nodes alone."""
        flat = dense.reshape(len(dense), -1)
        found = self._average(node.posterior.covariance(dense, slopes, diagonal=diagonal) for node in self.nodes)
        for node in self.nodes:
            away = flat @ (node.scores - self._mean).T.reshape(-1)
            if len(self.effect_values) and slopes is not None:
                away = away + slopes[:, : len(self.effect_values)] @ (node.effect_values - self.effect_values)
            found = found + node.weight * (away**2 if diagonal else np.outer(away, away))
        added = flat * self._added.T.reshape(-1)
        return np.asarray(found + (np.einsum("mi,mi->m", added, flat) if diagonal else added @ flat.T))

    @one_blas_thread
    def influence_rows(self, targets: Sequence[Resolved]) -> Rows:
        """Return the influences of votes in some cells, the mean over nodes."""
        _, gradients = evaluate(targets, _View(self._mean, self.link, self.data.shape, self.effect_values))
        dense, slopes = self._dense(gradients, slice(None))
        each = [node.posterior.influence_rows(dense, slopes) for node in self.nodes]
        return lambda cells: self._average(rows(cells) for rows in each)

    def _dense(self, gradients: Gradients, part: slice) -> tuple[Floats, Floats | None]:
        """Return gradients of some targets in the scores, (M, D, d1), centred, and in the effects."""
        D, d1 = self.data.n_contexts, self.data.shape[0]
        dense = gradients.by_context(d1, D).tocsr()[part].toarray().reshape(-1, D, d1)
        slopes = gradients.effects[:, part].T if len(gradients.effects) else None
        return dense - dense.mean(axis=2, keepdims=True), slopes

    def vote_score_moments(self, weights: Floats, among: Bools | None = None) -> list[Moments]:
        """Return, for each row of weights (B, D) of contexts, the moments of all models' mean scores."""
        out = []
        for i, row in enumerate(weights):
            used = np.flatnonzero(row)
            inside = np.ones(self.data.shape[0], dtype=np.bool_) if among is None else among[i]
            if used.size != 1:
                out += super().vote_score_moments(row[None], inside[None])
                continue
            values, cov = row[used[0]] * self._mean[:, used[0]], row[used[0]] ** 2 * self._by_context[used[0]]
            mean = cov[:, inside].mean(axis=1)
            cov = cov - mean[:, None] - mean + float(mean[inside].mean())
            values = values - values[inside].mean()
            out.append(Moments(values, cov, np.sqrt(np.maximum(np.diag(cov), 0.0)), np.zeros(len(values))))
        return out

    def vote_family(self, kind: FamilyKind) -> tuple[Floats, Floats]:
        """Return estimates and errors of all scores, or of all gaps."""
        cov = self._by_context
        own = np.einsum("uaa->au", cov)
        if kind == "scores":
            zero_sum = cov - cov.mean(axis=1, keepdims=True)
            zero_sum = zero_sum - zero_sum.mean(axis=2, keepdims=True)
            return self._mean, np.sqrt(np.maximum(np.einsum("uaa->au", zero_sum), 0.0))
        a, b = np.triu_indices(len(own), 1)
        return self._mean[a] - self._mean[b], np.sqrt(np.maximum(own[a] + own[b] - 2 * cov[:, a, b].T, 0.0))
