"""Covariances of all scores where models are too many for matrices over all of them: from simulated logs.

With Q = K^T H K + P the precision of coordinates and deviations (`hierarchical.joint.Joint`) and B the second moment
of the votes' scores, the covariance to report is Q^-1 (P + K^T B K) Q^-1. So errors of estimates are z = Q^-1 w, with w
of the covariance in the middle: votes of random signs (`hierarchical.sign_groups`) and draws of the prior. Most of z is
y, the solution with opponents, contexts and effects known, and the variance of y is known. Only the rest, z - y, is
taken from the simulated logs. A covariance of few targets needs no simulation: it takes one solution each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.cells import random_bits
from lrbtl.fitting.blocks import BlockDesign, LowRankPlusSparse
from lrbtl.fitting.design import Design
from lrbtl.fitting.jacobian import pull_columns, push_columns
from lrbtl.hierarchical.covariance import residual_factors
from lrbtl.hierarchical.joint import Joint
from lrbtl.hierarchical.random_effects import ScoreChanges
from lrbtl.hierarchical.sign_groups import SignGroups, clustered_votes, single_votes
from lrbtl.methods.clusters import SMALLEST, semidefinite, vote_matrix
from lrbtl.model.links import CellTerms
from lrbtl.typing import Floats, Ints, Longs

MANY_MODELS, PART_MODELS = 1500, 800  # models beyond which some of them are searched for all, and how many at most
LARGEST = 1 << 25  # contexts times squared models up to which covariances fit into memory
MOST_WORK, PART_WORK = 2e10, 1e10  # cubed models, summed over contexts that link most: minutes beyond, of all and some
LINKED = 0.75  # votes per model that link most of them in a context
COLUMNS = 32  # simulated logs, or targets, that are solved for at a time
TOLERANCE, TARGET_TOLERANCE = 2e-3, 1e-5  # relative errors of solutions for simulated logs and for targets
LEAST_OWN = 0.05  # of the variance with opponents known: what correlations with the rest may leave of it
LARGE_LOG, MANY_CONTEXTS = 1 << 18, 500  # cells and contexts beyond both of which some contexts are searched for all
PART_CELLS, FEWEST_CONTEXTS = 1 << 15, 100  # what that part of a log has, about, and at least


@dataclass(frozen=True)
class ManyModels:
    """Models that are too many for matrices over all of them.

    Attributes
    ----------
    models : array
        Those from which ranks and taus for all are estimated.
    clusters : array (n_cells, c) or None
        Clusters of the votes.
    parts : list of arrays (D, D)
        For context columns and tags, how many labels two contexts have in common, unless contexts are too many.
    """

    models: Longs
    clusters: Ints | None
    parts: list[Floats]


def has_room(battles: Battles) -> bool:
    """Return whether matrices over all models take seconds or minutes, not hours, and fit into memory."""
    d1, D = battles.shape[0], battles.n_contexts
    if D * d1**2 <= LARGEST:
        return True
    full = np.count_nonzero(np.diff(battles.cells.start) > LINKED * d1)
    simple = len(battles.shape) == 2 and battles.effects_by != "context" and battles.tag_mode is None
    return simple and float(full) * d1**3 <= MOST_WORK


def some_models(battles: Battles) -> Longs | None:
    """Return the models of most votes, from which ranks and taus for all are estimated; None for all."""
    d1 = battles.shape[0]
    if d1 <= MANY_MODELS and (d1 <= PART_MODELS or has_room(battles)):
        return None
    full = int(np.count_nonzero(np.diff(battles.cells.start) > LINKED * d1))
    most = min(PART_MODELS, round((PART_WORK / max(full, 1)) ** (1 / 3)))
    return np.sort(np.argsort(-battles.model_counts, kind="stable")[:most])


@dataclass(frozen=True)
class MonteCarloCovariance:
    """Covariances of the scores of many models round a mode.

    Attributes
    ----------
    at : Joint
        At the mode.
    cells : BlockDesign
        The votes themselves.
    n : int
        Number of simulated logs.
    clusters : array (n_cells, c) or None
        Clusters of the votes, for errors of boards.
    """

    at: Joint
    cells: BlockDesign
    n: int
    clusters: Ints | None = None

    @property
    def design(self) -> BlockDesign:
        """The design of the mode."""
        return self.at.scores.design

    @property
    def move(self) -> LowRankPlusSparse:
        """What scores change by beside L and E: nothing."""
        U, V = self.at.scores.space.U[:, :0], self.at.scores.space.V[:, :0]
        return LowRankPlusSparse.of(self.design, U, V, 0.0)

    def unshared(self) -> list[tuple[int, int]]:
        """Return context modes that are left out of what is shared: there is only one."""
        return []

    @cached_property
    def _low_rank(self) -> Floats:
        """Variance of L on the slots less what E takes of it, with opponents and contexts known."""
        rows, inverse = self.at.rows_without_deviations, self.at.row_inverses.models[self.design.slot_places[1]]
        return np.asarray(np.einsum("ik,ikl,il->i", rows, inverse, rows, optimize=True))

    def leave_one_out_information(self) -> tuple[Floats, Floats]:
        """Return the diagonals of H - H C H and of H C on the slots, with opponents known."""
        votes, variance = self.at.diagonal, self.at.own.posterior_variance + self._low_rank
        return votes - votes**2 * variance, votes * variance

    @cached_property
    def factors(self) -> Floats:
        """What the score of one vote of each cell is multiplied by."""
        at, (slot_a, slot_b) = self.at, self.cells.entries.slots
        own = self._low_rank + at.own.posterior_variance
        return residual_factors(at, self._terms.fisher, own[slot_a] + own[slot_b])

    @cached_property
    def _terms(self) -> CellTerms:
        """Scores and information of one vote of each cell."""
        return self.at.scores.terms_of(self.cells)

    @cached_property
    def _meat(self) -> Floats:
        """Variance of the scores of each cell."""
        return np.asarray(self.cells.count * self._terms.fisher / self.at.dispersion)

    @cached_property
    def _sign_groups(self) -> list[SignGroups]:
        """Votes by the signs that they have in common."""
        factor = self.factors
        if self.clusters is None:
            return [single_votes(self.cells, self._terms, factor, self._meat)]
        return clustered_votes(self.cells, self._terms, factor, self.clusters)

    @cached_property
    def _errors(self) -> tuple[ScoreChanges, ScoreChanges, Floats]:
        """Errors of the estimates of simulated logs, with opponents known and beyond that, and weights of the logs."""
        at, space, weights, rng = self.at, self.at.scores.space, list[float](), np.random.default_rng(0)
        known, rest = [], []
        for groups in self._sign_groups:
            for done in range(0, self.n, COLUMNS):
                drawn = self._drawn(groups, rng, m := min(COLUMNS, self.n - done))
                known.append(at.by_rows(drawn, models_only=True))
                rest.append(at.solve(drawn, TOLERANCE) - known[-1])
                weights += [groups.sign / self.n] * m
        first, second = (ScoreChanges(self.design, space, *np.split(np.hstack(z), [space.size])) for z in (known, rest))
        return first, second, np.array(weights)

    def _drawn(self, groups: SignGroups, rng: np.random.Generator, m: int) -> Floats:
        """Return scores of m simulated logs with draws of the prior, in coordinates and deviations."""
        at, space = self.at, self.at.scores.space
        votes, effects = groups.drawn(rng, m)
        along = pull_columns(self.design.entries, space, votes)
        along[space.extra] = effects
        along += np.sqrt(at.prior_precision)[:, None] * rng.normal(size=along.shape)
        own = votes + at.own.drawn(rng, m) if at.tau > 0.0 else np.zeros_like(votes)
        return np.concatenate([along, own])

    def of_means(self, weights: Floats) -> Floats:
        """Return the covariance (d1, d1) of the sums over contexts of weights (D,) times scores, by cluster if any."""
        *found, each = self._errors
        known, rest = (answers.mean(weights, np.zeros(())) for answers in found)
        own = self._known_variance(weights)[0]
        diagonal = np.maximum(own + 2.0 * (known * rest) @ each, LEAST_OWN * own)
        touched = self.design.entries.by_model((weights[self.design.slot_places[0]] ** 2)[:, None])[:, 0]
        diagonal += self.at.tau**2 * (float(weights @ weights) - touched)  # where a model has no votes
        out = rest @ (each[:, None] * rest.T)
        out[np.diag_indices(len(out))] += diagonal
        return np.asarray(out) if np.all(each > 0) else semidefinite(out, LEAST_OWN * own)

    def variance_noise(self, weights: Floats) -> Floats:
        """Return the variance of the log of each variance, as few large clusters leave it, (d1,)."""
        return self._known_variance(weights)[1]

    def _known_variance(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the variances (d1,) of the same with opponents, contexts and effects known, and their own noise."""
        at, design, space = self.at, self.design, self.at.scores.space
        (context, model), inverse = design.slot_places, at.row_inverses.models
        on_slots, v = weights[context, None], space.V[context]
        taken = at.diagonal[:, None] * at.own.posterior_times(on_slots)
        hU = np.einsum("akl,al->ak", inverse, weights @ space.V - design.entries.by_model(v * taken))
        along = np.einsum("ik,ik->i", v, hU[model])
        hE = at.own.posterior_times(on_slots - (at.diagonal * along)[:, None])
        out = np.einsum("ak,ak->a", at.prior_precision[space.slices[0]].reshape(hU.shape), hU**2)
        squares = (hE * at.own.weighed(hE))[:, 0]
        hE = hE[:, 0]
        squares += self.cells.entries.unsigned(self._meat) * (along + hE) ** 2
        own = out + design.entries.by_model(squares[:, None])[:, 0]
        return (own, np.zeros_like(own)) if self.clusters is None else self._by_cluster(own, along + hE)

    def _by_cluster(self, own: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Return variances of independent votes (d1,) as they are by cluster, and their noise; see `cluster_moments`.

        `values` on the slots is what is made of a vote's score there.
        """
        single = self.cells.count * (self.factors * self._terms.score) ** 2
        plain = self.design.entries.by_model((self.cells.entries.unsigned(single) * values**2)[:, None])[:, 0]
        added, least, noise = -plain, np.full(len(own), -np.inf), np.zeros_like(own)
        for groups in self._sign_groups:
            squares, fourth = groups.powers(values)
            added = added + groups.sign * squares
            if groups.alone:
                least = np.maximum(least, squares - plain)
                uneven = fourth / np.maximum(squares**2, 1e-300) - 1.0 / groups.n
                noise = np.maximum(noise, np.clip(uneven, 0.0, 1.0))
        return np.maximum(own + np.maximum(added, least), SMALLEST * own), noise

    def by_context(self, contexts: Longs) -> Floats:
        """Return the covariance of the scores of some contexts, (n, d1, d1)."""
        units = (np.arange(self.design.n_contexts) == u for u in contexts)
        return np.array([self.of_means(unit.astype(np.float64)) for unit in units])

    def _solved(self, gradients: Floats, contexts: Longs, slopes: Floats | None) -> tuple[Floats, Floats, Floats]:
        """Return Q^-1 times linear functions of the scores, what they move on the slots, and those off the slots."""
        design, space = self.design, self.at.scores.space
        flat = gradients - gradients.mean(axis=2, keepdims=True)
        whole = np.zeros((len(flat), design.n_contexts, design.shape[0]))
        whole[:, contexts] = flat
        pulled = space.pull(np.einsum("mua,uk->mak", whole, space.V, optimize=True), whole @ space.U)
        if slopes is not None:
            pulled[space.extra] = slopes.T
        context, model = design.slot_places
        own = np.ascontiguousarray(whole[:, context, model].T)
        whole[:, context, model] = 0.0
        right = np.concatenate([pulled, own if self.at.tau > 0.0 else np.zeros_like(own)])
        parts = range(0, len(flat), COLUMNS)
        found = np.hstack([self.at.solve(right[:, k : k + COLUMNS], TARGET_TOLERANCE) for k in parts])
        moved = push_columns(design.entries, space, found[: space.size]) + found[space.size :]
        return found, moved, whole.reshape(len(flat), -1)

    def covariance(
        self, gradients: Floats, contexts: Longs, slopes: Floats | None = None, *, diagonal: bool = False
    ) -> Floats:
        """Return the covariance (M, M) of linear functions of the scores of n contexts, (M, n, d1), or its diagonal.

        `slopes` (M, K) are those in the shared effects. Votes are taken to be independent.
        """
        at, extra = self.at, self.at.scores.space.extra
        found, moved, idle = self._solved(gradients, contexts, slopes)
        x, E = np.split(found, [at.scores.space.size])
        prior = np.concatenate([at.prior_precision[:, None] * x, at.own.weighed(E)])
        information_times = self.cells.entries.gram_sums(self._meat, moved)
        left, right = [found, moved, idle.T], [prior, information_times, at.tau**2 * idle.T]
        if self.design.n_effects:
            cross, corner = self.at.marginal.effects
            information_times += cross @ found[extra]
            left.append(found[extra])
            right.append(cross.T @ moved + corner @ found[extra])
        both = np.vstack(left), np.vstack(right)
        return np.asarray(np.einsum("im,im->m", *both) if diagonal else both[0].T @ both[1])

    def influence_weights(self, gradients: Floats, contexts: Longs, slopes: Floats | None = None) -> Floats:
        """Return what linear functions of the scores make of the columns of `vote_matrix`, (q, M)."""
        found, moved, _ = self._solved(gradients, contexts, slopes)
        return np.concatenate([moved, found[self.at.scores.space.extra]])

    def vote_matrix(self) -> Any:
        """Return the score of one vote of each cell on the slots, then along effects, (n_cells, q)."""
        slots = self.cells.entries
        return vote_matrix(slots.slots, len(slots.model), self.factors, self._terms, self.cells.n_effects)


def simulated_notes(battles: Battles, many: ManyModels | None, posteriors: Sequence[object]) -> tuple[str, ...]:
    """Return in words what is not computed from all votes where models are many, and what is not asked for then."""
    if many is None:
        return ()
    found = [posterior for posterior in posteriors if isinstance(posterior, MonteCarloCovariance)]
    errors = f"standard errors from {sum(each.n for each in found)} simulated logs"
    sizes = f"rank and deviations are estimated from votes among the {len(many.models):,} models of most votes, "
    out = [f"many models: {sizes if battles.n_contexts > 1 else ''}{errors}"]
    if len(battles.shape) > 2 and found[0].at.related is None and found[0].at.tau > 0.0:
        names = " and ".join(battles.mode_names)
        out.append(
            f"too many combinations of {names} to estimate what a model gains at a label in all of them: intervals on "
            "boards of a label may be too narrow"
        )
    return tuple(out)


def some_contexts(design: Design) -> Longs | None:
    """Return contexts from which ranks and taus for all are estimated, a fixed random draw; None for all.

    Ranks and taus belong to the population of contexts, of which a few hundred are enough.
    """
    sizes = np.diff(design.start)
    used = np.flatnonzero(sizes)
    own_effects = design.effects is not None and design.effects.start is not None
    if len(design.shape) != 2 or len(design.a) <= LARGE_LOG or used.size <= MANY_CONTEXTS or own_effects:
        return None
    order = used[np.argsort(random_bits(used, used, used))]
    n = max(int(np.searchsorted(np.cumsum(sizes[order]), PART_CELLS)), FEWEST_CONTEXTS)
    return np.sort(order[:n])
