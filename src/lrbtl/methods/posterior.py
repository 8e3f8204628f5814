"""What a mode of T = L + E says of all scores: covariances of targets and of boards.

With J the tangent coordinates, A their precision and S, H, W those of `fitting.deviations`, all is made of these, one
after the other, each a matrix per context:

    P = J A^-1 J^T                 what is left open of L (`methods.standard_errors`),
    W P, S P = P - tau^2 W P       since S = I - tau^2 W: one product of matrices gives both,
    C = S P S + tau^2 S + R R^T    the covariance of the scores, centred; R is what entries share (`methods.shared`),
    B - H                          by how much the squared scores of votes exceed what the model says,
    C + C (B - H) C                the covariance that is reported.

C is right where votes vary as the model says. With B the second moment of the votes' scores it becomes C + C (B - H) C:
M B M^T for the map M = C from scores of votes to estimates, and (M H - I) prior (M H - I)^T for what is shrunk.
Residuals in B are divided by one minus their leverage, which C tells. Boards of one context read `by_context`, means
over contexts `means` (`methods.means`), other targets `covariance`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lrbtl.fitting.blocks import BlockDesign, Field, Matrices
from lrbtl.fitting.deviations import Expansion
from lrbtl.lowrank.arrowhead import Inverse, as_dense
from lrbtl.methods.clusters import Rows
from lrbtl.methods.means import Means
from lrbtl.methods.shared import Answers, Columns, Shared
from lrbtl.methods.standard_errors import (
    BATCH,
    centred,
    in_batches,
    low_rank_covariances,
    sandwich_blocks,
    score_covariances,
    slot_covariances,
)
from lrbtl.typing import Floats, Longs

LEVERAGE_FLOOR = 0.1  # least 1 - h that a residual is divided by
FEW_VOTES = 200  # votes of a model at which its residuals count as much as the model of votes


@dataclass(frozen=True)
class _Solved:
    """Linear functions of the scores of n contexts, M of them, on their way through the posterior."""

    flat: Floats  # (M, n, d1) centred
    full: Floats  # (M, n, d1) what battles leave open of them
    pulled: Floats  # (size, M) in coordinates
    solved: Floats  # (size, M) times the inverse precision
    shared: Floats  # (M, m) times the root of what entries share
    moved: Floats  # (n_slots, M) their answer to the scores of votes
    effects: Floats  # (k, M) that of the shared effects


@dataclass(frozen=True)
class Posterior:
    """Covariances of all scores round a mode.

    Attributes
    ----------
    at : Expansion
        At the mode.
    cells : BlockDesign
        The votes themselves, for their second moment: the fit may have seen means of them only.
    shared : Shared
        What entries share beside L and E.
    """

    at: Expansion
    cells: BlockDesign
    shared: Shared

    @classmethod
    def of(cls, at: Expansion, cells: BlockDesign) -> "Posterior":
        """Return the posterior where entries share nothing but the reach of the ladder."""
        return cls(at, cells, Shared(at, Columns.ladder_of(at.scores.design)))

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

    @property
    def pooled_information(self) -> Floats:
        """What all votes would tell of the models if contexts did not differ, (d1, d1)."""
        return self.design.pooled(self.at.cell_weights)

    @cached_property
    def _kept(self) -> tuple[Floats, Floats]:
        """P and W P of all contexts over all models, (D, d1, d1) each, where they are small."""
        P = np.concatenate([P for *_, P in slot_covariances(self.design, self.at.scores.space, self._inverse)])
        return P, self.at.W[0] @ P

    def _parts(self) -> Iterator[tuple[int, slice, Floats, Floats]]:
        """Yield P and W P of some blocks at a time: what is left open of L, and what votes say of that themselves."""
        if self._small:
            yield 0, slice(None), *self._kept
            return
        for g, part, P in slot_covariances(self.design, self.at.scores.space, self._inverse):
            yield g, part, P, self.at.W[g][part] @ P

    @cached_property
    def _entries(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Of S P S + tau^2 S on the slots and at pairs that met; and the diagonals of W P W and W P S on the slots."""
        design, at, square = self.design, self.at, self.at.tau**2
        own, taken, answered = (np.zeros(design.n_slots + 1) for _ in range(3))
        pairs = np.zeros(len(design.atom_table.a))
        for g, part, P, told in self._parts():
            slots, W = design.groups[g].slots[part], at.W[g][part]
            taken[slots] = np.einsum("bij,bij->bi", told, W)
            answered[slots] = np.einsum("bii->bi", told) - square * taken[slots]
            C = P
            if square > 0.0:
                half = P - square * told
                C = half - square * (half @ W + square * W)
            own[slots] = np.einsum("bii->bi", C) + square
            design.read_pairs(g, part, C, pairs)
        return own[:-1], pairs, taken[:-1], answered[:-1]

    def lighter(self) -> "Posterior":
        """Return the same without matrices that boards do not read, unless they are small."""
        _ = self.residuals
        for name in () if self._small else ("_inverse", "_entries"):
            self.__dict__.pop(name, None)
        if not self._small:
            self.at.__dict__.pop("information", None)
        return self

    @property
    def _small(self) -> bool:
        """Whether matrices of all contexts over all models are so small that they are kept."""
        return self.design.full and self._shape[0] * self.design.n_slots <= BATCH

    def _left_open(self, contexts: Longs) -> Floats:
        """Return S of some contexts over all models, (n, d1, d1)."""
        return np.eye(self._shape[0]) - self.at.tau**2 * self.design.over_models(self.at.W, contexts)

    def _dense(self, contexts: Longs) -> tuple[Floats, Floats, Floats]:
        """Return P, S P and S of some contexts over all models, (n, d1, d1) each."""
        left_open = self._left_open(contexts)
        if self._small:
            P, told = (each[contexts] for each in self._kept)
            return P, P - self.at.tau**2 * told, left_open
        P = low_rank_covariances(self.at.scores.space, self._inverse, contexts)
        return P, left_open @ P if self.at.tau > 0.0 else P, left_open

    def plain(self, contexts: Longs) -> Floats:
        """Return the posterior covariance of the scores of some contexts, (n, d1, d1), centred."""
        _, found, left_open = self._dense(contexts)
        if self.at.tau > 0.0:
            found = found @ left_open + self.at.tau**2 * left_open
        return self._with_shared(found, contexts)

    def _with_shared(self, found: Floats, contexts: Longs) -> Floats:
        """Return covariances of L and E in some contexts, centred, with what entries share."""
        root = self.shared.root(contexts)
        return centred(found) + root @ np.swapaxes(root, 1, 2)

    @cached_property
    def residuals(self) -> tuple[Floats, Floats]:
        """Of one vote of each cell: what its score is multiplied by, and by how much its square is in excess then.

        The factor is one over the dispersion and over one minus the leverage; the excess is as far as it is trusted.
        """
        cells = self.cells
        (own, pairs, *_), root, atoms = self._entries, self.shared.slot_root, cells.atom_table
        spread = own[atoms.slot_a] + own[atoms.slot_b] - 2 * pairs
        for part in in_batches(len(spread), root.shape[1]):
            away = root[atoms.slot_a[part]] - root[atoms.slot_b[part]]
            spread[part] += np.einsum("im,im->i", away, away)
        spread = spread if len(spread) == len(cells.a) else spread[atoms.number]
        return vote_residuals(self.at, cells, spread)

    @cached_property
    def _excess(self) -> Floats:
        """Weight of each cell in B - H."""
        return self.cells.count * self.residuals[1]

    def varied(self, values: Floats) -> Floats:
        """Return B - H of each context, how the votes vary less what the model says, times values on the slots."""
        return self.cells.times_laplacians(self._excess, values)

    @cached_property
    def effect_excess(self) -> tuple[Floats, Floats] | None:
        """The same for shared effects: with the slots (n_slots, K), and among each other."""
        if not self.design.n_effects:
            return None
        terms, weight = self.at.scores.terms_of(self.cells), self.cells.count * trust(self.cells)
        squares, plain = weight * self.residuals[0] ** 2, weight / self.at.dispersion
        border = terms.effects.excess(self._excess, terms.score, squares, plain)
        return self.cells.effect_columns(border), border.corner

    @cached_property
    def open_excess(self) -> Matrices:
        """S (B - H) S of each context."""
        out, square = self.cells.laplacians(self._excess), self.at.tau**2
        for X, W in zip(out, self.at.W, strict=True):
            for part in in_batches(len(X), X.shape[1] ** 2) if square > 0.0 else ():
                S = np.eye(X.shape[1]) - square * W[part]
                X[part] = S @ X[part] @ S
        return out

    def of_means(self, weights: Floats) -> Floats:
        """Return the covariance (d1, d1) of the sums over contexts of weights (D,) times scores, centred."""
        return self.means.covariance(weights)

    @property
    def move(self) -> Field:
        """What scores change by beside L and E."""
        return self.shared.move

    def unshared(self) -> list[tuple[int, int]]:
        """Return context modes with too many levels to be shared, and the most levels that they may have."""
        return self.shared.columns.left_out(self.design)

    @cached_property
    def without_noise(self) -> "Posterior":
        """The same if votes did not vary at all, B = 0: C - C H C, the part of errors that is the prior's."""
        out = _Noiseless(self.at, self.design, self.shared)
        known = ("_kept", "_inverse")
        out.__dict__.update({name: self.__dict__[name] for name in known if name in self.__dict__})
        return out

    @cached_property
    def means(self) -> Means:
        """Covariances of means over contexts."""
        return Means(self.at, self.open_excess, self.effect_excess, self.shared, *self._shared_excess)

    @cached_property
    def _shared_excess(self) -> tuple[Floats, Floats]:
        """(B - H) R on the slots, (n_slots, m), and along shared effects, (K, m)."""
        root, effects = self.shared.slot_root, self.shared.effects
        varied = self.varied(root)
        if self.effect_excess is None:
            return varied, np.zeros((0, root.shape[1]))
        cross, corner = self.effect_excess
        return varied + cross @ effects, cross.T @ root + corner @ effects

    def by_context(self, contexts: Longs) -> Floats:
        """Return the covariance to report of the scores of some contexts, (n, d1, d1), centred."""
        at, space = self.at, self.at.scores.space
        if space.extra.stop > space.extra.start:  # which the blocks of contexts leave out
            units = (np.arange(self._shape[1]) == u for u in contexts)
            return np.array([self.means.covariance(unit.astype(float)) for unit in units])
        P, half, left_open = self._dense(contexts)
        blocks = sandwich_blocks(self._inverse, self.means.meat, space.rows[contexts], self._sandwich_border)
        found = score_covariances(space, blocks, contexts)
        found += P
        if at.tau > 0:
            own = self.design.over_models(self.open_excess, contexts)
            mixed = at.tau**2 * (own @ np.swapaxes(half, 1, 2) + 0.5 * (left_open + at.tau**2 * own))
            found = left_open @ found @ left_open
            found += mixed
            found += np.swapaxes(mixed, 1, 2)
        return self._with_shared(found, contexts) + self._mixed_excess(contexts)

    @cached_property
    def _sandwich_border(self) -> Floats:
        return self.means.sandwich_border(self._inverse.border)

    def _mixed_excess(self, contexts: Longs) -> Floats:
        """Return what C (B - H) C has beyond L and E by themselves, (n, d1, d1): C + R R^T is in the place of C."""
        root, rest = self.shared.root(contexts), self._excess_answers.dense(contexts, np.zeros(()))
        rest = rest - rest.mean(axis=1, keepdims=True) + 0.5 * root @ (self.shared.slot_root.T @ self._shared_excess[0])
        mixed = rest @ np.swapaxes(root, 1, 2)
        return np.asarray(mixed + np.swapaxes(mixed, 1, 2))

    @cached_property
    def _excess_answers(self) -> Answers:
        """C (B - H) R, of L and E alone."""
        at, space, design = self.at, self.at.scores.space, self.design
        varied = self._shared_excess[0]
        open_part = at.left_open(varied)
        pulled = design.pull_columns(space, open_part)
        solved = at.factor.solve(pulled)
        along = design.push_columns(space, solved)
        return Answers(design, space, solved, at.left_open(along + at.tau**2 * varied) - along)

    @cached_property
    def _levels(self) -> tuple[Answers, Floats]:
        """What L, less what effects take of it, and shared deviations (m, d1) answer to a change of each level."""
        at, design, space = self.at, self.design, self.at.scores.space
        c, _ = at.effects
        gU = np.stack([design.summed(at.W, np.ascontiguousarray(v)) for v in space.V.T], axis=2)
        on_slots = design.slot_rows(space, at.W)[0]
        gV = [as_dense(design.slot_matrix(np.ascontiguousarray(row))) for row in on_slots.T]
        pulled = space.pull(gU, np.stack(gV, axis=2).transpose(1, 0, 2))
        pulled[space.extra] = design.by_model(at.left_open(c)).T
        along = design.by_model(at.informed(self.shared.slot_root)) + design.by_model(c) @ self.shared.effects
        solved = at.factor.solve(pulled)
        taken = -(at.tau**2) * c @ solved[space.extra] if c.shape[1] else None
        return Answers(design, space, solved, taken), np.asarray(along).T

    def level_answers(self, contexts: Longs) -> Floats:
        """Return how scores follow a true change of each model's level that is alike everywhere, (n, d1, d1)."""
        answers, along = self._levels
        found = answers.dense(contexts, np.zeros(()))
        if self.at.tau > 0.0:
            left_open, one = self._left_open(contexts), np.eye(self._shape[0])
            found = one + left_open @ (found - one)  # I - S is tau^2 W
        return np.asarray(found - found.mean(axis=1, keepdims=True) + self.shared.root(contexts) @ along)

    def level_means(self, weights: Floats) -> Floats:
        """Return the sum over contexts of weights (D,) times the same, (d1, d1)."""
        answers, along = self._levels
        found = answers.mean(weights, np.zeros(()))
        if self.at.tau > 0.0:
            found -= self.at.tau**2 * (answers.told(self.at.W, weights) - self.design.summed(self.at.W, weights))
        return np.asarray(found - found.mean(axis=0) + self.shared.mean_root(weights) @ along)

    def _solved(self, gradients: Floats, contexts: Longs, slopes: Floats | None) -> _Solved:
        """Return what the covariance of linear functions is made of; see `covariance`."""
        at, space, design = self.at, self.at.scores.space, self.design
        flat = gradients - gradients.mean(axis=2, keepdims=True)
        place = np.full(self._shape[1], -1)
        place[contexts] = np.arange(len(contexts))
        context, model = design.slot_places
        touched = np.flatnonzero(place[context] >= 0)
        here = place[context[touched]], model[touched]
        on_slots = np.zeros((design.n_slots, len(flat)))
        on_slots[touched] = flat[:, *here].T
        open_part = at.left_open(on_slots)
        full = flat.copy()
        full[:, *here] += (open_part - on_slots)[touched].T
        gV = np.zeros((len(flat), *space.V.shape))
        gV[:, contexts] = full @ space.U
        pulled = space.pull(np.einsum("mua,uk->mak", full, space.V[contexts], optimize=True), gV)
        c, _ = at.effects
        pulled[space.extra] = -(at.tau**2) * c.T @ open_part
        if slopes is not None:
            pulled[space.extra] += slopes.T
        solved = at.factor.solve(pulled)
        pushed = design.push_columns(space, solved)
        moved = at.left_open(pushed + at.tau**2 * (on_slots - c @ solved[space.extra]))
        along = np.einsum("mua,uak->mk", flat, self.shared.root(contexts), optimize=True)
        if slopes is not None:
            along += slopes @ self.shared.effects
        moved = moved + self.shared.slot_root @ along.T
        return _Solved(flat, full, pulled, solved, along, moved, solved[space.extra] + self.shared.effects @ along.T)

    def influence_rows(self, gradients: Floats, contexts: Longs, slopes: Floats | None = None) -> Rows:
        """Return a function from cells to the influence of one vote on linear functions of the scores, (n, M)."""
        found, terms = self._solved(gradients, contexts, slopes), self.at.scores.terms_of(self.cells)
        slots, factor = self.cells.slots, self.residuals[0]

        def rows(cells: Longs) -> Floats:
            slot_a, slot_b = (side[cells] for side in slots)
            along = terms.score[cells, None] * (found.moved[slot_a] - found.moved[slot_b])
            return factor[cells, None] * (along + terms.effects.along(found.effects, cells))

        return rows

    def covariance(
        self, gradients: Floats, contexts: Longs, slopes: Floats | None = None, *, diagonal: bool = False
    ) -> Floats:
        """Return the covariance (M, M) of linear functions of the scores of n contexts, (M, n, d1), or its diagonal.

        `slopes` (M, k) are those in the shared effects.
        """
        at = self.at
        found = self._solved(gradients, contexts, slopes)
        flat, full, pulled, solved, moved = found.flat, found.full, found.pulled, found.solved, found.moved
        varied = self.varied(moved)
        if self.effect_excess is not None:
            cross, corner = self.effect_excess
            varied = np.concatenate([varied + cross @ found.effects, cross.T @ moved + corner @ found.effects])
            moved = np.concatenate([moved, found.effects])

        along = found.shared
        if diagonal:
            own = np.einsum("im,im->m", pulled, solved) + np.einsum("im,im->m", moved, varied)
            own += at.tau**2 * np.einsum("mua,mua->m", flat, full)
            return np.asarray(own + np.einsum("mk,mk->m", along, along))
        prior = at.tau**2 * flat.reshape(len(flat), -1) @ full.reshape(len(flat), -1).T
        out = pulled.T @ solved + moved.T @ varied + prior + along @ along.T
        return np.asarray(0.5 * (out + out.T))

    def own_entries(self) -> tuple[Floats, Floats]:
        """Return the diagonals of H - H C H and of H C on the slots, by H S = W and H - tau^2 W H = W."""
        at, design, tau = self.at, self.design, self.at.tau
        root = self.shared.slot_root
        along, (_, _, taken, answered) = at.informed(root), self._entries
        of_W = design.scatter([np.einsum("bmm->bm", W) for W in at.W])
        own = answered + tau**2 * of_W + np.einsum("im,im->i", along, root)
        own -= at.told(self._row_sums()) / self._shape[0]  # C is centred
        return of_W - taken - np.einsum("im,im->i", along, along), own

    def _row_sums(self) -> Floats:
        """Return J A^-1 J^T 1 of each context on the slots: the gauge leaves nearly nothing of it."""
        space, design = self.at.scores.space, self.design
        out = np.zeros(design.n_slots)
        for k, v in enumerate(space.V.T):
            ones = np.zeros(space.size)
            ones[k : space.U.size : len(space.V[0])] = 1.0
            out += v[design.slot_places[0]] * design.slot_changes(space, *space.push(self.at.factor.solve(ones)))
        return out


class _Noiseless(Posterior):
    """See `Posterior.without_noise`."""

    @cached_property
    def _excess(self) -> Floats:
        """Weight of each cell in B - H for B = 0."""
        return -self.at.cell_weights

    @cached_property
    def effect_excess(self) -> tuple[Floats, Floats] | None:
        """The same for shared effects."""
        cross, corner = self.at.effects
        return (-cross, -corner) if corner.size else None


def vote_residuals(at: Expansion, cells: BlockDesign, eta_variance: Floats) -> tuple[Floats, Floats]:
    """Return of one vote of each cell what its score is multiplied by, and by how much its square is in excess then."""
    terms = at.scores.terms_of(cells)
    leverage = terms.fisher * eta_variance / at.dispersion
    factor = 1.0 / (at.dispersion * np.maximum(1.0 - leverage, LEVERAGE_FLOOR))
    return factor, trust(cells) * ((factor * terms.score) ** 2 - terms.fisher / at.dispersion)


def trust(cells: BlockDesign) -> Floats:
    """Return how far residuals of each cell are trusted.

    Of models with few votes the model is to be believed: residuals of one that only won are far too small.
    """
    return np.asarray(cells.fewer_votes / (cells.fewer_votes + FEW_VOTES))
