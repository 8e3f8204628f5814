"""What a mode of T = L + E says of all scores: covariances of targets and of boards, and entries that are exceptions.

With J the tangent coordinates, A their precision and S, H, W those of `fitting.deviations`, the posterior covariance
of the scores is C = S J A^-1 J^T S + tau^2 S in each context, centred, plus R R^T for what entries share
(`methods.shared`). It is right where votes vary as the model says. With B the second moment of the votes' scores it
becomes C + C (B - H) C: M B M^T for the map M = C from scores of votes to estimates, and (M H - I) prior (M H - I)^T
for what is shrunk. Residuals in B are divided by one minus their leverage.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from lrbtl.fitting.blocks import BlockDesign, Matrices
from lrbtl.fitting.deviations import Expansion
from lrbtl.fitting.solvers import accumulate
from lrbtl.lowrank.arrowhead import Blocks, Inverse, inverse_blocks
from lrbtl.lowrank.tangent import context_blocks
from lrbtl.methods.clusters import Rows
from lrbtl.methods.shared import Columns, Shared
from lrbtl.methods.standard_errors import context_covariances, sandwich_blocks
from lrbtl.typing import Bools, Floats, Longs

LEVERAGE_FLOOR = 0.1  # least 1 - h that a residual is divided by
FIRST_SHARE, MOST_SHARE = 0.02, 0.3  # of entries that are exceptions: first guess and limit
PRIOR_ENTRIES = 200  # entries that the first guess counts for
SHARE_STEPS = 30
LARGEST_SHIFT = 5.0  # logits that an exception may add: g / P says nothing further from where P was taken
FEW_VOTES = 200  # votes of a model at which its residuals count as much as the model of votes


@dataclass(frozen=True)
class Exceptions:
    """Entries that are far from what the others say of them, as a mixture of few large deviations and many small ones.

    Attributes
    ----------
    probability : array (d1, D)
        That an entry is an exception.
    shift : array (d1, D)
        What an exception adds to the entry before L and E give way.
    move : array (d1, D)
        What the score changes by, on average over both cases.
    variance : array (d1, D)
        What it adds to its variance.
    """

    probability: Floats
    shift: Floats
    move: Floats
    variance: Floats


@dataclass(frozen=True)
class _Solved:
    """Linear functions of the scores, M of them, on their way through the posterior."""

    flat: Floats  # (M, D, d1) centred
    full: Floats  # (M, D, d1) what battles leave open of them
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
        return cls(at, cells, Shared(at, Columns.ladder(at.scores.design)))

    @property
    def design(self) -> BlockDesign:
        """The design of the mode."""
        return self.at.scores.design

    @cached_property
    def _shape(self) -> tuple[int, int]:
        return self.design.shape[0], self.design.n_contexts

    def _over_models(self, matrices: Matrices, fill: float) -> Floats:
        """Return each context's matrix over all models; `fill` on the diagonal of those who did not meet there."""
        d1, D = self._shape
        out = np.zeros((D, d1, d1))
        out[:, np.arange(d1), np.arange(d1)] = fill
        for group, stack in zip(self.design.groups, matrices, strict=True):
            if self.design.full:
                out[group.contexts] = stack
                continue
            inside = group.slots < self.design.n_slots
            which, row, column = np.nonzero(inside[:, :, None] & inside[:, None, :])
            places = group.contexts[which], group.models[which, row], group.models[which, column]
            out[places] = stack[which, row, column]
        return out

    @cached_property
    def _open(self) -> Floats:
        """S of each context over all models, (D, d1, d1)."""
        return self._over_models(self.at.S, 1.0)

    @cached_property
    def _low_rank(self) -> Floats:
        """J A^-1 J^T of each context, (D, d1, d1)."""
        return self._from_coordinates(inverse_blocks(self._inverse))

    @cached_property
    def _inverse(self) -> Inverse:
        return self.at.factor.inverse()

    @property
    def pooled_information(self) -> Floats:
        """What all votes would tell of the models if contexts did not differ, (d1, d1)."""
        return self.design.summed(self.at.H)

    @cached_property
    def plain(self) -> Floats:
        """Posterior covariance of the scores of each context, (D, d1, d1), centred."""
        root, _ = self.shared.root
        more = root @ np.swapaxes(root, 1, 2)
        if self.at.tau == 0.0:
            return centred(self._low_rank) + more
        return centred(self._open @ self._low_rank @ self._open + self.at.tau**2 * self._open) + more

    def _from_coordinates(self, blocks: Blocks) -> Floats:
        """Return J_u (covariance of coordinates) J_u^T of each context, (D, d1, d1)."""
        (d1, D), space = self._shape, self.at.scores.space
        out = np.empty((D, d1, d1))
        for part in context_blocks(space, blocks):
            out[part.contexts] = context_covariances(space, blocks, part)
        return out

    @cached_property
    def residuals(self) -> tuple[Floats, Floats]:
        """Of one vote of each cell: its score over one minus its leverage, and by how much its square is in excess.

        Both are over the dispersion. Of models with few votes the model is to be believed: residuals of one that only
        won are far too small, so the excess is multiplied by how far they are trusted.
        """
        at, cells = self.at, self.cells
        terms = at.scores.terms_of(cells)
        own, context = self.plain, cells.context
        spread = own[context, cells.a, cells.a] + own[context, cells.b, cells.b] - 2 * own[context, cells.a, cells.b]
        leverage = terms.fisher * spread / at.dispersion
        residual = terms.score / (at.dispersion * np.maximum(1.0 - leverage, LEVERAGE_FLOOR))
        votes = np.bincount(cells.a, cells.count, len(own[0])) + np.bincount(cells.b, cells.count, len(own[0]))
        fewest = np.minimum(votes[cells.a], votes[cells.b])
        trust = fewest / (fewest + FEW_VOTES)
        return residual, trust * (residual**2 - terms.fisher / at.dispersion)

    @cached_property
    def _excess(self) -> Floats:
        """Weight of each cell in B - H."""
        return self.cells.count * self.residuals[1]

    @cached_property
    def excess(self) -> Matrices:
        """B - H of each context: how the votes vary, less what the model says."""
        return self.cells.laplacians(self._excess)

    @cached_property
    def effect_excess(self) -> tuple[Floats, Floats] | None:
        """The same for linear effects: with the slots (n_slots, K), and among each other."""
        effects = self.cells.effects
        if effects is None:
            return None
        border = effects.border(self._excess)
        return self.cells.effect_columns(border), border.corner

    @cached_property
    def by_context(self) -> Floats:
        """Covariance to report of the scores of each context, (D, d1, d1), centred."""
        at = self.at
        if at.scores.space.extra.stop > at.scores.space.extra.start:
            return self._by_context_directly()
        open_meat = [S @ X @ S for S, X in zip(at.S, self.excess, strict=True)] if at.tau > 0 else self.excess
        meat = accumulate(self.design, at.scores.space, open_meat)  # type: ignore[arg-type]
        more = self._from_coordinates(sandwich_blocks(self._inverse, meat))
        if at.tau > 0:
            own = self._over_models(open_meat, 0.0)
            mixed = at.tau**2 * own @ self._low_rank @ self._open
            more = self._open @ more @ self._open + mixed + np.swapaxes(mixed, 1, 2) + at.tau**4 * own
        return self.plain + centred(more) + self._mixed_excess()

    def _mixed_excess(self) -> Floats:
        """Return what C (B - H) C has beyond L and E by themselves, (D, d1, d1): C + R R^T is in the place of C."""
        at, space, design = self.at, self.at.scores.space, self.design
        root, _ = self.shared.root
        on_slots = root[design.slot_places]
        varied = design.times(self.excess, on_slots)
        open_part = design.times(at.S, varied)
        pulled = np.stack([design.pull_sums(space, np.ascontiguousarray(x)) for x in open_part.T], axis=1)
        full = np.stack([space.dense(np.ascontiguousarray(x)).T for x in at.factor.solve(pulled).T], axis=2)
        full[design.slot_places] = design.times(at.S, full[design.slot_places] + at.tau**2 * varied)
        full = full - full.mean(axis=1, keepdims=True) + 0.5 * root @ (on_slots.T @ varied)
        mixed = full @ np.swapaxes(root, 1, 2)
        return np.asarray(mixed + np.swapaxes(mixed, 1, 2))

    def _by_context_directly(self) -> Floats:
        """Return the same with shared effects, whose coordinates the blocks leave out."""
        d1, D = self._shape
        out = np.empty((D, d1, d1))
        for u in range(D):
            gradients = np.zeros((d1, D, d1))
            gradients[:, u] = np.eye(d1) - 1.0 / d1
            out[u] = self.covariance(gradients)
        return out

    def _solved(self, gradients: Floats, slopes: Floats | None) -> _Solved:
        """Return what the covariance of linear functions is made of; see `covariance`."""
        at, space, design = self.at, self.at.scores.space, self.design
        flat = gradients - gradients.mean(axis=2, keepdims=True)
        on_slots = self._to_slots(flat)
        open_part = design.times(at.S, on_slots)
        full = flat + self._from_slots(open_part - on_slots)
        pulled = space.pull(np.einsum("mua,uk->mak", full, space.V, optimize=True), full @ space.U)
        c, _ = at.effects
        pulled[space.extra] = -(at.tau**2) * c.T @ open_part
        if slopes is not None:
            pulled[space.extra] += slopes.T
        solved = at.factor.solve(pulled)
        pushed = np.stack([design.slot_changes(space, *space.push(np.ascontiguousarray(x))) for x in solved.T], axis=1)
        moved = design.times(at.S, pushed + at.tau**2 * (on_slots - c @ solved[space.extra]))
        root, effects = self.shared.root
        along = np.einsum("mua,uak->mk", flat, root, optimize=True)
        if slopes is not None:
            along += slopes @ effects
        moved = moved + root[design.slot_places] @ along.T
        return _Solved(flat, full, pulled, solved, along, moved, solved[space.extra] + effects @ along.T)

    def influence_rows(self, gradients: Floats, slopes: Floats | None = None) -> Rows:
        """Return a function from cells to the influence of one vote on linear functions of the scores, (n, M)."""
        found, effects = self._solved(gradients, slopes), self.cells.effects
        moved, slots = found.moved, self.cells.slots
        linear = found.effects[: 0 if effects is None else effects.values.size]
        residual = self.residuals[0]

        def rows(cells: Longs) -> Floats:
            slot_a, slot_b = (side[cells] for side in slots)
            along = moved[slot_a] - moved[slot_b]
            return residual[cells, None] * (along if effects is None else along + effects.rows_times(linear, cells))

        return rows

    def covariance(self, gradients: Floats, slopes: Floats | None = None, *, diagonal: bool = False) -> Floats:
        """Return the covariance (M, M) of linear functions of the scores, given as (M, D, d1), or its diagonal.

        `slopes` (M, k) are those in the shared effects.
        """
        at, design = self.at, self.design
        found = self._solved(gradients, slopes)
        flat, full, pulled, solved, moved = found.flat, found.full, found.pulled, found.solved, found.moved
        along = found.shared
        varied = design.times(self.excess, moved)
        if self.effect_excess is not None:
            cross, corner = self.effect_excess
            effects = found.effects[: len(corner)]
            varied = np.concatenate([varied + cross @ effects, cross.T @ moved + corner @ effects])
            moved = np.concatenate([moved, effects])

        if diagonal:
            own = np.einsum("im,im->m", pulled, solved) + np.einsum("im,im->m", moved, varied)
            own += at.tau**2 * np.einsum("mua,mua->m", flat, full)
            return np.asarray(own + np.einsum("mk,mk->m", along, along))
        prior = at.tau**2 * flat.reshape(len(flat), -1) @ full.reshape(len(flat), -1).T
        out = pulled.T @ solved + moved.T @ varied + prior + along @ along.T
        return np.asarray(0.5 * (out + out.T))

    def _to_slots(self, values: Floats) -> Floats:
        """Return values (M, D, d1) at the slots, (n_slots, M)."""
        context, model = self.design.slot_places
        return np.ascontiguousarray(values[:, context, model].T)

    def _from_slots(self, values: Floats) -> Floats:
        """Return values at the slots (n_slots, M) as (M, D, d1), zero elsewhere."""
        d1, D = self._shape
        context, model = self.design.slot_places
        out = np.zeros((values.shape[1], D, d1))
        out[:, context, model] = values.T
        return out

    def exceptions(self) -> Exceptions:
        """Return which entries the votes single out, by a spike and a slab round what the mode says.

        With g the votes' scores at the mode and P = diag(H - H C H) their variance there, shift = offset + g / P is
        what a free entry would add. sqrt(P) shift is standard normal, or N(0, 1 + k) with k = P times the variance of
        the scores for an exception; their share comes by expectation-maximisation over all entries.
        """
        at = self.at
        known = np.broadcast_to(at.scores.offset, at.g.shape)
        g, offset = self._from_slots(np.stack([at.g, known], axis=1))
        H = self._over_models(at.H, 0.0)
        HC = H @ self.plain
        variance = np.einsum("uaa->ua", H) - np.einsum("uab,uba->ua", HC, H)
        own = np.einsum("uaa->ua", HC)
        played = variance > 1e-9 * max(float(variance.max(initial=0.0)), 1e-300)
        P = np.where(played, variance, 1.0)
        k = P * float(np.mean(at.scores.dense() ** 2))
        shift = np.where(played, np.clip(offset + g / P, -LARGEST_SHIFT, LARGEST_SHIFT), 0.0)
        probability = exception_probabilities(-0.5 * np.log1p(k) + 0.5 * P * shift**2 * k / (1 + k), played)
        shift *= k / (1 + k)
        added = probability * (1 - own) ** 2 * (k / (1 + k) / P + (1 - probability) * shift**2)
        move = ((probability * shift - offset) * (1 - own)).T
        return Exceptions(probability.T, shift.T, move - move.mean(axis=0), np.where(played, added, 0.0).T)


def exception_probabilities(log_ratio: Floats, played: Bools) -> Floats:
    """Return the probability that each entry is an exception, given log likelihood ratios, with their share estimated.

    Examples
    --------
    >>> exception_probabilities(np.array([[-4.0, -4.0, -4.0, 20.0]]), np.ones((1, 4), dtype=bool)).round(1)
    array([[0., 0., 0., 1.]])
    """
    share, n = FIRST_SHARE, int(played.sum())
    for _ in range(SHARE_STEPS):
        probability = np.where(played, expit(np.log(share / (1 - share)) + log_ratio), 0.0)
        share = min((float(probability.sum()) + FIRST_SHARE * PRIOR_ENTRIES) / (n + PRIOR_ENTRIES), MOST_SHARE)
    return probability


def centred(matrix: Floats) -> Floats:
    """Return Q M Q with Q = I - 1 1^T / d, for matrices (..., d, d)."""
    matrix = matrix - matrix.mean(axis=-2, keepdims=True)
    return np.asarray(matrix - matrix.mean(axis=-1, keepdims=True))
