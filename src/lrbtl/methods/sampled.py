"""Covariances of all scores where models are too many for matrices over all of them: from simulated logs.

With Q = K^T H K + P the precision of coordinates and deviations (`fitting.mode.Joint`) and B the second moment of the
votes' scores, the covariance to report is Q^-1 (P + K^T B K) Q^-1. So errors of estimates are z = Q^-1 w for w with the
covariance in the middle: votes of random signs and draws of the prior. Most of z is y, what w tells of each model with
opponents and contexts known, and the variance of y is known; only the rest, z - y, is taken from the simulated logs.
A covariance of few targets needs no simulation: it takes one solution each.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lrbtl.fitting.blocks import BlockDesign, Field
from lrbtl.fitting.design import Design
from lrbtl.fitting.mode import Joint
from lrbtl.methods.clusters import Rows
from lrbtl.methods.posterior import vote_residuals
from lrbtl.methods.shared import Answers
from lrbtl.typing import Floats, Longs

COLUMNS = 32  # simulated logs, or targets, that are solved for at a time
TOLERANCE, TARGET_TOLERANCE = 2e-3, 1e-5  # relative errors of solutions for simulated logs and for targets
LEAST_OWN = 0.05  # of the variance with opponents known: what correlations with the rest may leave of it


@dataclass(frozen=True)
class Sampled:
    """Covariances of the scores of many models round a mode.

    Attributes
    ----------
    at : Joint
        At the mode.
    cells : BlockDesign
        The votes themselves.
    n : int
        Number of simulated logs.
    """

    at: Joint
    cells: BlockDesign
    n: int

    @property
    def design(self) -> BlockDesign:
        """The design of the mode."""
        return self.at.scores.design

    @property
    def move(self) -> Field:
        """What scores change by beside L and E: nothing."""
        U, V = self.at.scores.space.U[:, :0], self.at.scores.space.V[:, :0]
        return Field.of(self.design, U, V, 0.0)

    def unshared(self) -> list[tuple[int, int]]:
        """Return context modes that are left out of what is shared: there is only one."""
        return []

    @property
    def pooled_information(self) -> Floats:
        """What all votes would tell of the models if contexts did not differ, (d1, d1)."""
        return self.design.pooled(self.at.cell_weights)

    @cached_property
    def _low_rank(self) -> Floats:
        """Variance of L on the slots, with opponents, contexts and E known."""
        context, model = self.design.slot_places
        v = self.at.scores.space.V[context]
        return np.asarray(np.einsum("ik,ikl,il->i", v, self.at.row_inverses.models[model], v, optimize=True))

    def own_entries(self) -> tuple[Floats, Floats]:
        """Return the diagonals of H - H C H and of H C on the slots, with opponents known."""
        at, told = self.at, self.at.votes * self.at.shrunk
        return told - told**2 * self._low_rank, at.tau**2 * told + at.shrunk * told * self._low_rank

    @cached_property
    def residuals(self) -> tuple[Floats, Floats]:
        """Of one vote of each cell: what its score is multiplied by, and by how much its square is in excess then."""
        at, (slot_a, slot_b) = self.at, self.cells.slots
        own = at.shrunk**2 * self._low_rank + at.tau**2 * at.shrunk
        return vote_residuals(at, self.cells, own[slot_a] + own[slot_b])

    @cached_property
    def _meat(self) -> Floats:
        """Weight of each cell in B."""
        terms = self.at.scores.terms_of(self.cells)
        return np.asarray(self.cells.count * np.maximum(terms.fisher / self.at.dispersion + self.residuals[1], 0.0))

    @cached_property
    def _errors(self) -> tuple[Answers, Answers]:
        """Errors of the estimates of simulated logs: with opponents known, and what they are beyond that."""
        at, design, space, rng = self.at, self.design, self.at.scores.space, np.random.default_rng(0)
        root = np.sqrt(Design.atom_weights(self.cells, self._meat))
        known, rest = [], []
        for done in range(0, self.n, COLUMNS):
            m = min(COLUMNS, self.n - done)
            votes = self.cells.signed_sums(root, rng.integers(0, 1 << 63, len(root), dtype=np.uint64), 0, m)
            along = design.pull_columns(space, votes)
            along += np.sqrt(at.prior.precision)[:, None] * rng.normal(size=along.shape)
            own = votes + rng.normal(size=votes.shape) / at.tau if at.tau > 0.0 else np.zeros_like(votes)
            drawn = np.concatenate([along, own])
            known.append(at.by_rows(drawn, models_only=True))
            rest.append(at.solve(drawn, TOLERANCE) - known[-1])
        first, second = np.hstack(known), np.hstack(rest)
        size = space.size
        return Answers(design, space, first[:size], first[size:]), Answers(design, space, second[:size], second[size:])

    def of_means(self, weights: Floats) -> Floats:
        """Return the covariance (d1, d1) of the sums over contexts of weights (D,) times scores."""
        known, rest = (each.mean(weights, np.zeros(())) for each in self._errors)
        own = self._known_variance(weights)
        diagonal = np.maximum(own + 2.0 * np.mean(known * rest, axis=1), LEAST_OWN * own)
        touched = self.design.by_model((weights[self.design.slot_places[0]] ** 2)[:, None])[:, 0]
        diagonal += self.at.tau**2 * (float(weights @ weights) - touched)  # where a model has no votes
        out = rest @ (rest.T / rest.shape[1])
        out[np.diag_indices(len(out))] += diagonal
        return np.asarray(out)

    def _known_variance(self, weights: Floats) -> Floats:
        """Return the variances (d1,) of the same with opponents and contexts known."""
        at, design, space = self.at, self.design, self.at.scores.space
        (context, model), inverse = design.slot_places, at.row_inverses.models
        on_slots, v = weights[context], space.V[context]
        share = at.tau**2 * at.votes * at.shrunk
        pull = weights @ space.V - design.by_model(v * (share * on_slots)[:, None])
        hU = np.einsum("akl,al->ak", inverse, pull)
        along = np.einsum("ik,ik->i", v, hU[model])
        hE = at.tau**2 * at.shrunk * on_slots - share * along
        out = np.einsum("ak,ak->a", at.prior.precision[space.slices[0]].reshape(hU.shape), hU**2)
        squares = self.cells.unsigned(self._meat) * (along + hE) ** 2
        squares += hE**2 / at.tau**2 if at.tau > 0.0 else 0.0
        return np.asarray(out + design.by_model(squares[:, None])[:, 0])

    def by_context(self, contexts: Longs) -> Floats:
        """Return the covariance of the scores of some contexts, (n, d1, d1)."""
        units = (np.arange(self.design.n_contexts) == u for u in contexts)
        return np.array([self.of_means(unit.astype(np.float64)) for unit in units])

    def _solved(self, gradients: Floats, contexts: Longs) -> tuple[Floats, Floats, Floats]:
        """Return Q^-1 times linear functions of the scores, what they move on the slots, and those off the slots."""
        design, space = self.design, self.at.scores.space
        flat = gradients - gradients.mean(axis=2, keepdims=True)
        whole = np.zeros((len(flat), design.n_contexts, design.shape[0]))
        whole[:, contexts] = flat
        pulled = space.pull(np.einsum("mua,uk->mak", whole, space.V, optimize=True), whole @ space.U)
        context, model = design.slot_places
        own = np.ascontiguousarray(whole[:, context, model].T)
        whole[:, context, model] = 0.0
        right = np.concatenate([pulled, own if self.at.tau > 0.0 else np.zeros_like(own)])
        parts = range(0, len(flat), COLUMNS)
        found = np.hstack([self.at.solve(right[:, k : k + COLUMNS], TARGET_TOLERANCE) for k in parts])
        moved = design.push_columns(space, found[: space.size]) + found[space.size :]
        return found, moved, whole.reshape(len(flat), -1)

    def covariance(
        self, gradients: Floats, contexts: Longs, slopes: Floats | None = None, *, diagonal: bool = False
    ) -> Floats:
        """Return the covariance (M, M) of linear functions of the scores of n contexts, (M, n, d1), or its diagonal."""
        at = self.at
        found, moved, idle = self._solved(gradients, contexts)
        precision = np.full(len(found), at.tau**-2.0 if at.tau > 0.0 else 0.0)
        precision[: at.scores.space.size] = at.prior.precision
        left = np.vstack([found, moved, idle.T])
        right = np.vstack(
            [precision[:, None] * found, self.cells.times_laplacians(self._meat, moved), at.tau**2 * idle.T]
        )
        return np.asarray(np.einsum("im,im->m", left, right) if diagonal else left.T @ right)

    def influence_rows(self, gradients: Floats, contexts: Longs, slopes: Floats | None = None) -> Rows:
        """Return a function from cells to the influence of one vote on linear functions of the scores, (n, M)."""
        (_, moved, _), terms = self._solved(gradients, contexts), self.at.scores.terms_of(self.cells)
        slots, factor = self.cells.slots, self.residuals[0]

        def rows(cells: Longs) -> Floats:
            slot_a, slot_b = (side[cells] for side in slots)
            return np.asarray((factor[cells] * terms.score[cells])[:, None] * (moved[slot_a] - moved[slot_b]))

        return rows
