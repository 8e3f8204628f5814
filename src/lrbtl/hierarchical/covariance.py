"""Covariances of all scores round a mode: of targets, of the scores of a context, and of boards.

With J the coordinates of level + L, A their precision and S, H, W those of `hierarchical.expansion`,

    P = J A^-1 J^T                 posterior covariance of level + L,
    C = S P S + tau^2 S + R R^T    the covariance of the scores, centred; R is that of random effects,

where S = I - tau^2 W. Scores of one context read `by_context`, means over contexts `of_means`, other targets
`covariance`. A linear function c of the scores responds to the scores of votes by C c (`LinearResponse`): its influence
values, the share of its variance that is noise of votes, c^T C H C c, and how it follows a change of levels, all come
from that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lrbtl.fitting.blocks import BlockDesign, LowRankPlusSparse
from lrbtl.fitting.jacobian import push_columns, slot_changes
from lrbtl.hierarchical.board_covariance import BoardCovariance
from lrbtl.hierarchical.expansion import Expansion
from lrbtl.hierarchical.random_effects import RandomEffects
from lrbtl.lowrank.arrowhead import Inverse
from lrbtl.methods.clusters import vote_matrix
from lrbtl.methods.standard_errors import BATCH, centred, in_batches, low_rank_covariances, slot_covariances
from lrbtl.typing import Floats, Longs

LEVERAGE_FLOOR = 0.1  # least 1 - h that a residual is divided by


@dataclass(frozen=True)
class LinearResponse:
    """What M linear functions of the scores make of the scores of votes.

    Attributes
    ----------
    variance : array (M, M) or (M,)
        Their posterior covariance, or its diagonal.
    moved : array (n_slots, M)
        C c on the slots.
    effects : array (k, M)
        The same along effects that votes share.
    informed : array (n_slots, M)
        H C c.
    noise : array (M,)
        c^T C H C c: the part of the variance that is noise of votes; the rest is what the prior shrinks.
    """

    variance: Floats
    moved: Floats
    effects: Floats
    informed: Floats
    noise: Floats


@dataclass(frozen=True)
class ScoreCovariance:
    """Covariances of all scores round a mode.

    Attributes
    ----------
    at : Expansion
        At the mode.
    cells : BlockDesign
        The votes themselves: the fit may have seen means of them only.
    random_effects : RandomEffects or None
        What contexts share beside level + L.
    """

    at: Expansion
    cells: BlockDesign
    random_effects: RandomEffects | None = None

    @property
    def design(self) -> BlockDesign:
        """The design of the mode."""
        return self.at.scores.design

    @cached_property
    def _shape(self) -> tuple[int, int]:
        return self.design.shape[0], self.design.n_contexts

    @cached_property
    def _inverse(self) -> Inverse:
        return self.at.factor.inverse()

    @cached_property
    def level_covariance(self) -> Floats:
        """Covariance of the levels, (d1, d1)."""
        part = self.at.scores.space.level_part
        return np.asarray(self._inverse.border[part, part])

    @property
    def _small(self) -> bool:
        """Whether matrices of all contexts over all models are so small that they are kept."""
        return self.design.entries.full and self._shape[0] * self.design.n_slots <= BATCH

    @cached_property
    def _kept(self) -> tuple[Floats, Floats]:
        """P and W P of all contexts over all models, (D, d1, d1) each, where they are small."""
        P = np.concatenate([P for *_, P in slot_covariances(self.design, self.at.scores.space, self._inverse)])
        return P, self.at.marginal.W[0] @ P

    def _parts(self) -> Iterator[tuple[int, slice, Floats, Floats]]:
        """Yield P and W P of some blocks at a time."""
        if self._small:
            yield 0, slice(None), *self._kept
            return
        for g, part, P in slot_covariances(self.design, self.at.scores.space, self._inverse):
            yield g, part, P, self.at.marginal.W[g][part] @ P

    @cached_property
    def _entries(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Of S P S + tau^2 S on the slots and at pairs that met; and the diagonals of W P W and W P S on the slots."""
        design, at, square = self.design, self.at, self.at.tau**2
        own, taken, answered = (np.zeros(design.n_slots + 1) for _ in range(3))
        pairs = np.zeros(len(design.entries.atoms.a))
        for g, part, P, informed in self._parts():
            slots, W = design.blocks.groups[g].slots[part], at.marginal.W[g][part]
            taken[slots] = np.einsum("bij,bij->bi", informed, W)
            answered[slots] = np.einsum("bii->bi", informed) - square * taken[slots]
            C = P
            if square > 0.0:
                half = P - square * informed
                C = half - square * (half @ W + square * W)
            own[slots] = np.einsum("bii->bi", C) + square
            design.blocks.read_pairs(g, part, C, pairs)
        return own[:-1], pairs, taken[:-1], answered[:-1]

    @cached_property
    def eta_variances(self) -> Floats:
        """Variance of eta of each atom, (n_atoms,)."""
        (own, pairs, *_), atoms = self._entries, self.cells.entries.atoms
        spread = own[atoms.slot_a] + own[atoms.slot_b] - 2 * pairs
        if self.random_effects is not None:
            root = self.random_effects.slot_root
            for part in in_batches(len(spread), root.shape[1]):
                away = root[atoms.slot_a[part]] - root[atoms.slot_b[part]]
                spread[part] += np.einsum("im,im->i", away, away)
        return np.maximum(spread, 0.0)

    def leave_one_out_information(self) -> tuple[Floats, Floats]:
        """Return the diagonals of H - H C H and of H C on the slots, by H S = W and H - tau^2 W H = W."""
        at, design, tau = self.at, self.design, self.at.tau
        _, _, taken, answered = self._entries
        of_W = design.blocks.scatter([np.einsum("bmm->bm", W) for W in at.marginal.W])
        left, own = of_W - taken, answered + tau**2 * of_W
        if self.random_effects is not None:
            root = self.random_effects.slot_root
            along = at.marginal.apply_information(root)
            left, own = left - np.einsum("im,im->i", along, along), own + np.einsum("im,im->i", along, root)
        return left, own - at.marginal.apply(self._row_sums()) / self._shape[0]  # C is centred

    def _row_sums(self) -> Floats:
        """Return J A^-1 J^T 1 of each context on the slots: the gauge leaves nearly nothing of it."""
        space, design = self.at.scores.space, self.design
        out = np.zeros(design.n_slots)
        for k, v in enumerate(space.V.T):
            ones = np.zeros(space.size)
            ones[k : space.U.size : len(space.V[0])] = 1.0
            pushed = space.push(self.at.factor.solve(ones))
            out += v[design.slot_places[0]] * slot_changes(design.entries, space, *pushed)
        return out

    def by_context(self, contexts: Longs) -> Floats:
        """Return the covariance of the scores of some contexts, (n, d1, d1), centred."""
        at = self.at
        shrinkage = np.eye(self._shape[0]) - at.tau**2 * self.design.blocks.over_models(at.marginal.W, contexts)
        if self._small:
            P, informed = (each[contexts] for each in self._kept)
            half = P - at.tau**2 * informed
        else:
            P = low_rank_covariances(at.scores.space, self._inverse, contexts)
            half = shrinkage @ P if at.tau > 0.0 else P
        found = half @ shrinkage + at.tau**2 * shrinkage if at.tau > 0.0 else P
        out = centred(found)
        if self.random_effects is not None:
            root = self.random_effects.root(contexts)
            out += root @ np.swapaxes(root, 1, 2)
        return out

    @cached_property
    def _boards(self) -> BoardCovariance:
        return BoardCovariance(self.at, self.random_effects)

    def of_means(self, weights: Floats) -> Floats:
        """Return the covariance (d1, d1) of the sums over contexts of weights (D,) times scores, centred."""
        return self._boards.covariance(weights)

    @property
    def move(self) -> LowRankPlusSparse:
        """What scores change by beside level + L and E."""
        if self.random_effects is not None:
            return self.random_effects.move
        space = self.at.scores.space
        return LowRankPlusSparse.of(self.design, space.U[:, :0], space.V[:, :0], 0.0)

    def response(
        self, gradients: Floats, contexts: Longs, slopes: Floats | None = None, *, diagonal: bool = False
    ) -> LinearResponse:
        """Return the responses of linear functions of the scores of n contexts, (M, n, d1), to votes.

        `slopes` (M, k) are those in the effects that votes share. With `diagonal` only variances are computed.
        """
        at, space, design = self.at, self.at.scores.space, self.design
        flat = gradients - gradients.mean(axis=2, keepdims=True)
        place = np.full(self._shape[1], -1)
        place[contexts] = np.arange(len(contexts))
        context, model = design.slot_places
        touched = np.flatnonzero(place[context] >= 0)
        here = place[context[touched]], model[touched]
        on_slots = np.zeros((design.n_slots, len(flat)))
        on_slots[touched] = flat[:, *here].T
        shrunk = at.marginal.apply_shrinkage(on_slots)
        full = flat.copy()
        full[:, *here] += (shrunk - on_slots)[touched].T
        gV = np.zeros((len(flat), *space.V.shape))
        gV[:, contexts] = full @ space.U
        pulled = space.pull(np.einsum("mua,uk->mak", full, space.V[contexts], optimize=True), gV)
        c, corner = at.marginal.effects
        pulled[space.extra] = -(at.tau**2) * c.T @ shrunk
        if slopes is not None:
            pulled[space.extra] += slopes.T
        solved = at.factor.solve(pulled)
        pushed = push_columns(design.entries, space, solved)
        moved = at.marginal.apply_shrinkage(pushed + at.tau**2 * (on_slots - c @ solved[space.extra]))
        effects = solved[space.extra]
        if diagonal:
            variance = np.einsum("im,im->m", pulled, solved) + at.tau**2 * np.einsum("mua,mua->m", flat, full)
        else:
            variance = pulled.T @ solved + at.tau**2 * flat.reshape(len(flat), -1) @ full.reshape(len(flat), -1).T
        if self.random_effects is not None:
            along = np.einsum("mua,uak->mk", flat, self.random_effects.root(contexts), optimize=True)
            if slopes is not None:
                along += slopes @ self.random_effects.effects
            moved, effects = (
                moved + self.random_effects.slot_root @ along.T,
                effects + self.random_effects.effects @ along.T,
            )
            variance = variance + (np.einsum("mk,mk->m", along, along) if diagonal else along @ along.T)
        informed = at.marginal.apply_information(moved) + c @ effects
        noise = np.einsum("im,im->m", moved, informed)
        noise += np.einsum("km,km->m", effects, c.T @ moved + corner @ effects)
        return LinearResponse(variance if diagonal else 0.5 * (variance + variance.T), moved, effects, informed, noise)

    def covariance(
        self, gradients: Floats, contexts: Longs, slopes: Floats | None = None, *, diagonal: bool = False
    ) -> Floats:
        """Return the covariance (M, M) of linear functions of the scores of n contexts, (M, n, d1), or its diagonal."""
        return self.response(gradients, contexts, slopes, diagonal=diagonal).variance

    def influence_weights(self, gradients: Floats, contexts: Longs, slopes: Floats | None = None) -> Floats:
        """Return what linear functions of the scores make of the columns of `vote_matrix`, (q, M)."""
        found = self.response(gradients, contexts, slopes, diagonal=True)
        return np.concatenate([found.moved, found.effects])

    def vote_matrix(self) -> Any:
        """Return the score of one vote of each cell on the slots, then along effects, (n_cells, q).

        Scores of votes are divided by one minus their leverage.
        """
        terms = self.at.scores.terms_of(self.cells)
        factor = residual_factors(self.at, terms.fisher, self.cells.entries.of_atoms(self.eta_variances))
        slots, effects = self.cells.entries, self.cells.n_effects
        return vote_matrix(slots.slots, len(slots.model), factor, terms, effects)


def residual_factors(at: Expansion, fisher: Floats, eta_variance: Floats) -> Floats:
    """Return what the score of one vote of each cell is multiplied by: 1 / (dispersion (1 - leverage))."""
    leverage = fisher * eta_variance / at.dispersion
    return np.asarray(1.0 / (at.dispersion * np.maximum(1.0 - leverage, LEVERAGE_FLOOR)))
