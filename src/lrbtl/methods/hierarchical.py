"""Scores that are low rank plus deviations, T = L + E: honest also where low rank is only nearly true."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
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
from lrbtl.methods.posterior import Exceptions, Posterior
from lrbtl.methods.targets import Gradients, Resolved, evaluate
from lrbtl.model.links import LOGISTIC, Link
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Longs

SHARES = (0.03, 0.08, 0.15, 0.25, 0.4, 0.65, 1.0)  # tau over the spread of the scores, where its evidence is taken
NEGLIGIBLE = 8.0  # nats below the best beyond which a tau need not be looked at
NODES = (1 / 6, 1 / 2, 5 / 6)  # quantiles of tau that stand for its distribution
DRAWS = 19  # simulated residuals that tell what noise looks like
CLIP = 2.5  # standard deviations beyond which a residual counts as an exception, not as a component
MORE = 0.84  # standard deviations above noise at which one more component is tried: it leans upward
LITTLE, SURELY = 0.3, 4.0  # a component that lowers a doubtful excess by less than this found nothing
LARGEST_RANK = 8
LIKELY = 0.5  # probability from which an entry is called an exception
BATCH = 1 << 22  # numbers that the gradients of one batch of targets may fill
PILOTS = 3  # fits of rank 1 with large deviations: what truncated starts are made of
STIFF = 1e4  # gauge constraints over the information of a model: the prior hardly moves along the gauge


@dataclass(frozen=True)
class Node:
    """One rank and one tau out of those that are averaged over, with equal weights."""

    rank: tuple[int, ...]
    tau: float
    mode: Mode
    posterior: Posterior
    exceptions: Exceptions

    @cached_property
    def scores(self) -> Floats:
        """Scores with the moves of exceptions, (d1, D)."""
        return self.mode.scores.dense() + self.exceptions.move

    @property
    def effect_values(self) -> Floats:
        """Values of linear effects."""
        effects = self.mode.scores.design.effects
        return np.empty(0) if effects is None else effects.values


class Hierarchical(Method):
    """T = L + E by its posterior, averaged over tau and over two ranks, with exceptions let out."""

    name = "hierarchical"

    @one_blas_thread
    def run(self, data: Data, options: Options) -> Run:
        """Return the posterior of all scores of some battles."""
        if not isinstance(data, Battles):
            raise MethodError("the hierarchical method is for battles; use method='efficient' for observed entries.")
        if not np.any(data.cells.y != 0.5):
            raise NoDecisionError("every battle is a tie: nothing tells the models apart; check the outcome column.")
        search = _Search(make_design(data, options.link, options.n_threads))
        if len(data.shape) == 1:
            nodes = [search.node(search.climb(search.first((1,)), 0.0))]
        elif options.rank == "auto":
            smaller, *_ = profiles = search.ranks(options)
            nodes = [node for profile in profiles for node in search.nodes(profile, smaller)]
        else:
            rank = check_rank(options.rank, data.shape)
            profile = search.profile(search.first(rank))
            nodes = search.nodes(profile, profile)
        link = nodes[0].mode.scores.design.link
        provenance = Provenance(
            method=self.name,
            rank=nodes[0].rank,
            n_battles=data.n_battles,
            link=None if link == LOGISTIC else str(link),
            notes=() if len(data.shape) == 1 else (deviation_sentence(nodes),),
        )
        return HierarchicalRun(data, nodes, provenance)


def deviation_sentence(nodes: Sequence[Node]) -> str:
    """Return in words how much of the scores single entries have for themselves."""
    tau = float(np.mean([node.tau for node in nodes]))
    shared = float(np.mean([np.mean((node.mode.scores.space.U @ node.mode.scores.space.V.T) ** 2) for node in nodes]))
    share = tau**2 / max(tau**2 + shared, 1e-300)
    size = f"{share:.0%}" if share >= 0.01 else "less than 1%"
    return f"{size} of what differs between models in a category is not shared with the other categories"


class _Search:
    """Modes of one log at several ranks and taus."""

    def __init__(self, cells: Design) -> None:
        cells = without_idle_slots(cells)
        self.cells = BlockDesign.of_cells(cells)
        self.design = BlockDesign.of_cells(cells.averaged())
        self.shape = cells.shape
        self.pilot = start_scores(self.design, spectral_start(self.design, self._rank(1)))
        self.dispersion, self.gauge = 1.0, self._gauge(self.pilot)
        for _ in range(PILOTS if len(self.shape) > 1 else 1):
            self.pilot = self.climb(self.pilot, self._guess(self.pilot)).scores
        count = self.cells.count if self.cells.weight is None else self.cells.count * self.cells.weight
        eta = self.pilot.eta_of(self.cells)
        self.dispersion = self.pilot.design.link.dispersion(eta, self.cells.y, count) or 1.0
        self.gauge = self._gauge(self.pilot) / self.dispersion
        self.spread = self._spread(self.pilot)

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

    def first(self, rank: tuple[int, ...]) -> Scores:
        """Return a start for a rank: the pilot's scores, truncated, and what is left as deviations."""
        return self.start(self.pilot, rank)

    def start(self, near: Scores, rank: tuple[int, ...]) -> Scores:
        """Return scores of a rank near some others, with what the rank leaves out as deviations."""
        if len(self.shape) == 1:
            return near
        full = near.dense()
        point = truncate(full.reshape(self.shape), rank)
        plain = start_scores(near.design, point)
        context, model = near.design.slot_places
        return Scores(near.design, plain.space, full[model, context] - plain.low_rank)

    def climb(self, scores: Scores, tau: float) -> Mode:
        """Return the mode at a tau."""
        return find_mode(scores, tau, self.dispersion, self.gauge)

    def profile(self, *starts: Scores) -> list[Mode]:
        """Return the modes at a grid of taus at one rank, as far as their evidence matters, in order of tau.

        The best of several starts counts.
        """
        taus = self.spread * np.array(SHARES)
        middle = len(taus) // 2
        found = {middle: best([self.climb(scores, taus[middle]) for scores in starts])}
        for direction in (-1, 1):
            at = middle
            while 0 <= at + direction < len(taus):
                found[at + direction] = self.climb(found[at].scores, taus[at + direction])
                at += direction
                if found[at].log_evidence < max(mode.log_evidence for mode in found.values()) - NEGLIGIBLE:
                    break
        return [found[k] for k in sorted(found)]

    def ranks(self, options: Options) -> list[list[Mode]]:
        """Return the profiles of the rank that leaves nothing but noise in the residuals, and of the next one."""
        largest = min(LARGEST_RANK, max(rank_caps(self.shape)))
        profiles, last = [self.profile(self.first(self._rank(1)))], np.inf
        for r in range(1, largest):
            near = best(profiles[-1])
            excess = excess_component(near)
            options.say(f"rank {r}: the largest residual component is {excess:.1f} deviations above noise")
            if excess > last - LITTLE and excess < SURELY:  # the last component took nothing out of the residuals
                break
            rank = self._rank(r + 1)
            profiles.append(self.profile(self.first(rank), self.start(near.scores, rank)))
            if excess < MORE:
                break
            last = excess
        return profiles[-2:]

    def nodes(self, profile: list[Mode], judge: list[Mode]) -> list[Node]:
        """Return nodes of one rank that stand for the distribution of tau according to the profile `judge`.

        That is the one of the smaller rank: a component too many fits part of the deviations and hides their size.
        """
        taus = tau_quantiles(np.array([mode.at.tau for mode in judge]), np.array([mode.log_evidence for mode in judge]))
        out = []
        for tau in taus:
            near = min(profile, key=lambda mode: abs(mode.at.tau - tau))
            out.append(self.node(self.climb(near.scores, float(tau))))
        return out

    def node(self, mode: Mode) -> Node:
        """Return a mode with its covariances and exceptions."""
        posterior = Posterior(mode.at, self.cells)
        return Node(
            mode.scores.space.point.rank[: len(self.shape)], mode.at.tau, mode, posterior, posterior.exceptions()
        )


def best(profile: list[Mode]) -> Mode:
    """Return the mode with the most evidence."""
    return max(profile, key=lambda mode: mode.log_evidence)


def tau_quantiles(taus: Floats, log_evidence: Floats) -> Floats:
    """Return quantiles of tau under a flat prior on (0, largest tau], from its log evidence at some values.

    Examples
    --------
    >>> tau_quantiles(np.array([0.1, 0.2, 0.3]), np.array([-50.0, 0.0, -50.0])).round(1)
    array([0.2, 0.2, 0.2])
    """
    if len(taus) < 2:
        return np.full(len(NODES), taus[0])
    known = np.concatenate([[0.0], taus])
    heights = np.concatenate([log_evidence[:1], log_evidence])  # flat below the smallest tau
    grid = np.linspace(0.0, taus[-1], 2001)
    density = np.exp(PchipInterpolator(known, heights)(grid) - heights.max())
    below = np.cumsum(density)
    return np.asarray(np.interp(np.array(NODES) * below[-1], below, grid))


def excess_component(mode: Mode, seed: int = 0) -> float:
    """Return how far the largest singular value of the residuals is above noise, in standard deviations of noise.

    Residuals of L are S g + W E on the slots, scaled to equal noise of rows and columns and clipped. Noise is drawn
    from the model: votes and deviations, less what the fit takes of them.
    """
    at = replace(mode.at, scores=mode.scores, before=mode.at.prior.precision, settled=True)
    design, space = mode.scores.design, mode.scores.space
    own = design.scatter([np.einsum("bmm->bm", W) for W in at.W])
    touched = design.slot_matrix(own)
    rows, columns = (np.asarray(touched.sum(axis=axis), dtype=float).reshape(-1) for axis in (1, 0))
    context, model = design.slot_places
    scale = np.sqrt(own.sum() / np.maximum(rows[context] * columns[model], 1e-300))
    limit = CLIP * np.sqrt(np.maximum(own, 0.0))

    def largest(residual: Floats) -> float:
        matrix = design.slot_matrix(scale * np.clip(residual, -limit, limit))
        gram = matrix.T @ matrix if design.n_contexts >= design.shape[0] else matrix @ matrix.T
        dense = gram if isinstance(gram, np.ndarray) else gram.toarray()
        return float(np.sqrt(max(np.linalg.eigvalsh(dense)[-1], 0.0)))

    rng = np.random.default_rng(seed)
    root = np.sqrt(design.count * at.scores.terms.fisher / at.dispersion)
    noise = []
    for _ in range(DRAWS):
        votes = design.slot_sums(root * rng.standard_normal(len(root)))
        deviations = at.tau * rng.standard_normal(len(votes))
        drawn = design.times(at.S, votes + design.times(at.H, deviations))
        fitted = space.push(at.factor.solve(design.pull_sums(space, drawn)))
        noise.append(largest(drawn - design.times(at.W, design.slot_changes(space, *fitted))))
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

    def __init__(self, data: Battles, nodes: list[Node], provenance: Provenance) -> None:
        self.data, self.nodes, self.provenance = data, nodes, provenance
        self.link = nodes[len(nodes) // 2].mode.scores.design.link

    @cached_property
    def _mean(self) -> Floats:
        return np.asarray(np.mean([node.scores for node in self.nodes], axis=0))

    @cached_property
    def effect_values(self) -> Floats:
        """Values of linear effects."""
        return np.asarray(np.mean([node.effect_values for node in self.nodes], axis=0))

    def scores(self) -> Floats:
        """Return the estimates of all scores, (d1, D)."""
        return self._mean

    @cached_property
    def tau(self) -> float:
        """Mean size of the deviations of single entries from low rank."""
        return float(np.mean([node.tau for node in self.nodes]))

    @cached_property
    def exception_probability(self) -> Floats:
        """Probability that each entry is an exception, (d1, D)."""
        return np.asarray(np.mean([node.exceptions.probability for node in self.nodes], axis=0))

    @cached_property
    def _deviations(self) -> Floats:
        """Scores less their low-rank part, (d1, D)."""
        spaces = [node.mode.scores.space for node in self.nodes]
        return np.asarray(self._mean - np.mean([space.U @ space.V.T for space in spaces], axis=0))

    def exception(self, model: int, weights: Floats) -> float:
        """Return how far a score is from what the model's other scores say, where votes single it out; else 0."""
        used = np.flatnonzero(weights)
        if used.size != 1 or self.exception_probability[model, used[0]] < LIKELY:
            return 0.0
        return float(self._deviations[model, used[0]])

    @cached_property
    def _by_context(self) -> Floats:
        """Covariance of the scores of each context, (D, d1, d1)."""
        out = np.mean([node.posterior.by_context for node in self.nodes], axis=0)
        for node in self.nodes:
            away = (node.scores - self._mean).T
            out += away[:, :, None] * away[:, None, :] / len(self.nodes)
        each = np.arange(out.shape[1])
        out[:, each, each] += self._added.T
        return np.asarray(out)

    @cached_property
    def _added(self) -> Floats:
        """Variance that exceptions add to each entry, (d1, D)."""
        return np.asarray(np.mean([node.exceptions.variance for node in self.nodes], axis=0))

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
        flat = dense.reshape(len(dense), -1)
        found = np.mean([node.posterior.covariance(dense, slopes, diagonal=diagonal) for node in self.nodes], axis=0)
        for node in self.nodes:
            away = flat @ (node.scores - self._mean).T.reshape(-1)
            if len(self.effect_values) and slopes is not None:
                away = away + slopes[:, : len(self.effect_values)] @ (node.effect_values - self.effect_values)
            found = found + (away**2 if diagonal else np.outer(away, away)) / len(self.nodes)
        added = flat * self._added.T.reshape(-1)
        return np.asarray(found + (np.einsum("mi,mi->m", added, flat) if diagonal else added @ flat.T))

    @one_blas_thread
    def influence_rows(self, targets: Sequence[Resolved]) -> Rows:
        """Return the influences of votes in some cells, the mean over nodes."""
        _, gradients = evaluate(targets, _View(self._mean, self.link, self.data.shape, self.effect_values))
        dense, slopes = self._dense(gradients, slice(None))
        each = [node.posterior.influence_rows(dense, slopes) for node in self.nodes]
        return lambda cells: np.asarray(sum(rows(cells) for rows in each) / len(each))

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
            centred = cov - cov.mean(axis=1, keepdims=True)
            centred = centred - centred.mean(axis=2, keepdims=True)
            return self._mean, np.sqrt(np.maximum(np.einsum("uaa->au", centred), 0.0))
        a, b = np.triu_indices(len(own), 1)
        return self._mean[a] - self._mean[b], np.sqrt(np.maximum(own[a] + own[b] - 2 * cov[:, a, b].T, 0.0))
