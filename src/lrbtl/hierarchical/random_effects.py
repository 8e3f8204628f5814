"""Random effects Z F: what a model has in common at one level of a context mode, or at a tag, wherever that occurs.

A judge that dislikes a model does so in every category. So scores have terms Z F beside level + L and E: a column of Z
is one for a model at one level of a context mode, and its F ~ N(0, size^2) has the mode's size. With level + L and E
integrated out, as in `hierarchical.expansion`, votes have the information K and scores y on F,

    K = Z^T P Z,   y = Z^T (S g + W E - W J A^-1 gradient + P s),   P = W - W J A^-1 J^T W,

with s the part of Z F that scores contain already. F has precision K + size^-2, and scores change with it by
Q = S (Z - J A^-1 J^T W Z). A share of the prior of a size is at zero, the rest is flat up to the spread of the scores.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from lrbtl.data.battles import Battles
from lrbtl.fitting.blocks import BlockDesign, LowRankPlusSparse
from lrbtl.fitting.jacobian import pull_columns, push_columns
from lrbtl.hierarchical.correlated import few_contexts
from lrbtl.hierarchical.expansion import Expansion, left_by_steps
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.typing import Floats, Longs

MOST_NUMBERS, MOST_COLUMNS = 1 << 22, 640  # in the answers of all scores to the columns, and columns: time and memory
MOST_TAG_NUMBERS = 1 << 24  # of columns of tags, whose sets share much more
GRID = 200  # sizes that are looked at
SIZE_STEPS, SETTLED = 4, 0.02  # passes over the modes, and the relative change of a size that ends them
TAGS = -1  # mode of the columns of tags


def shared_tags(battles: Battles) -> Floats | None:
    """Return which contexts have which of the tags that several sets share, (D, n_tags) of 0 and 1; None for none."""
    shared = [codes for codes in battles.tag_sets.values() if len(codes) > 1]
    if not shared or battles.tag_mode is None:
        return None
    mode = battles.mode_names.index(battles.tag_mode)
    level = np.indices(battles.shape[1:])[mode].reshape(-1)
    return np.stack([np.isin(level, codes) for codes in shared], axis=1).astype(np.float64)


def label_parts(battles: Battles, tags: Floats | None) -> list[Floats]:
    """Return how many tags, and then whether labels of each of several columns, two contexts have in common, (D, D).

    None where contexts are too many. Columns of which votes have one label are left out.
    """
    if battles.n_contexts == 1 or not few_contexts(battles.shape[0], battles.n_contexts):
        return []
    out = [] if tags is None else [tags @ tags.T]
    used, levels = battles.context_counts > 0, np.indices(battles.shape[1:]).reshape(len(battles.shape) - 1, -1)
    several = [level for level in levels if np.unique(level[used]).size > 1]
    return out + [1.0 * (level == level[:, None]) for level in several if len(several) > 1]


@dataclass(frozen=True)
class RandomEffectDesign:
    """Columns of Z: every model at every level of some modes, level by level, m in all.

    Attributes
    ----------
    n_models : int
    member : array (D, n)
        1 where a context has a level.
    level_mode : array (n,)
        Mode of each level.
    """

    n_models: int
    member: Floats
    level_mode: Longs

    @classmethod
    def of(cls, design: BlockDesign, tags: Floats | None = None) -> "RandomEffectDesign":
        """Return a column for every model at every level of a mode; modes of most levels last.

        Where fewer than two modes have several levels, there are none. Modes whose columns would be too many are left
        out. `tags` (D, n), 1 where a context has a tag, are a mode more, of which a context may have several levels.
        """
        found, sizes = (
            cls(design.shape[0], np.zeros((design.n_contexts, 0)), np.zeros(0, dtype=np.int64)),
            design.shape[1:],
        )
        if tags is not None:
            found = found._with(TAGS, tags, MOST_TAG_NUMBERS)
        if len(sizes) < 2:
            return found
        levels = np.unravel_index(np.arange(design.n_contexts), sizes)
        for k in cls._shared_modes(design):
            found = found._with(k, np.eye(sizes[k])[levels[k]])
        return found

    @staticmethod
    def _shared_modes(design: BlockDesign) -> list[int]:
        """Return modes of which votes have several levels, those of most levels last; none where there is only one."""
        sizes = design.shape[1:]
        levels = np.unravel_index(np.flatnonzero(np.diff(design.start)), sizes)
        found = [int(k) for k in np.argsort(sizes, kind="stable") if np.unique(levels[k]).size > 1]
        return found if len(found) > 1 else []

    def left_out(self, design: BlockDesign) -> list[tuple[int, int]]:
        """Return modes that have no columns as they are too many, and how many levels would have some; 1 for none."""
        D, d1, m = len(self.member), self.n_models, len(self.mode)
        sizes, out = design.shape[1:], []
        for k in self._shared_modes(design) if len(sizes) > 1 else []:
            fits = [n for n in range(2, sizes[k]) if few_columns(m + d1 * n, d1, D * n // sizes[k])]
            if k not in self.modes:
                out.append((k, fits[-1] if fits else 1))
        return out

    def _with(self, mode: int, member: Floats, most: int = MOST_NUMBERS) -> "RandomEffectDesign":
        """Return these columns and one for every model at every level of a mode, given as (D, n), unless too many."""
        (D, n), d1 = member.shape, self.n_models
        if not few_columns(len(self.mode) + d1 * n, d1, D, most):
            return self
        return RandomEffectDesign(
            self.n_models, np.hstack([self.member, member]), np.append(self.level_mode, np.full(n, mode))
        )

    @cached_property
    def mode(self) -> Longs:
        """Mode of each column, (m,)."""
        return np.repeat(self.level_mode, self.n_models)

    @cached_property
    def modes(self) -> list[int]:
        """Modes that have columns."""
        return [int(k) for k in np.unique(self.level_mode)]

    def _by_level(self, factors: Floats) -> Floats:
        """Return the factors (m, k), (n, d1, k)."""
        return factors.reshape(len(self.level_mode), self.n_models, factors.shape[1])

    def times(self, factors: Floats, contexts: Longs | slice = slice(None)) -> Floats:
        """Return Z times factors (m, k) in some contexts, (n_contexts, d1, k)."""
        return np.asarray(np.tensordot(self.member[contexts], self._by_level(factors), 1))

    def times_on_slots(self, factors: Floats, places: tuple[Longs, Longs]) -> Floats:
        """Return the same on slots, given by context and model, (n_slots, k)."""
        return np.asarray(self.times(factors)[places])

    def means(self, factors: Floats, weights: Floats | None = None) -> Floats:
        """Return the means of Z times factors (m, k) over models, (D, k), or sums over contexts by weight, (d1, k)."""
        if weights is not None:
            return np.asarray(np.tensordot(weights @ self.member, self._by_level(factors), 1))
        return np.asarray(self.member @ self._by_level(factors).mean(axis=1))

    def against(self, values: Floats, places: tuple[Longs, Longs]) -> Floats:
        """Return Z^T of values on slots (n_slots, k), (m, k)."""
        (context, model), (D, n), d1 = places, self.member.shape, self.n_models
        cube = np.zeros((D, d1, values.shape[1]))
        cube[context, model] = values
        return np.asarray(np.tensordot(self.member.T, cube, 1).reshape(n * d1, -1))


def few_columns(m: int, d1: int, D: int, most: int = MOST_NUMBERS) -> bool:
    """Whether m columns of d1 models in D contexts are few enough."""
    return m <= MOST_COLUMNS and m * d1 * D <= most


@dataclass(frozen=True)
class ColumnInformation:
    """Information of the votes on the columns of Z, with level + L and E integrated out; for all sizes."""

    at: Expansion
    columns: RandomEffectDesign

    @property
    def shape(self) -> tuple[int, int]:
        """(D, d1)."""
        return len(self.columns.member), self.columns.n_models

    @cached_property
    def known(self) -> Floats:
        """Part of the columns that the scores contain already, on the slots, (n_slots, 1)."""
        places = self.at.scores.design.slot_places
        return np.asarray(np.broadcast_to(self.at.scores.shared, self.shape[::-1]).T[places][:, None])

    @cached_property
    def solved(self) -> tuple[Floats, Floats, Floats]:
        """K and the votes' scores of all columns, and the response of the coordinates of L.

        The last of them stands for the part that the scores contain already.
        """
        at, design, space, columns = self.at, self.at.scores.design, self.at.scores.space, self.columns
        places = design.slot_places
        informed = at.marginal.apply(self.known)
        pulled, own = pull_columns(design.entries, space, informed), self.known.T @ informed
        pulled[space.extra] = at.marginal.effects[0].T @ at.marginal.apply_shrinkage(self.known)
        of_modes, inside = self._of_modes
        pulled, mixed = np.hstack([of_modes, pulled]), columns.against(informed, places)
        K = np.block([[inside, mixed], [mixed.T, own]])
        solved = at.factor.solve(pulled)
        K = K - pulled.T @ solved
        score = np.append(columns.against(at.residual[:, None], places), self.known.T @ at.residual)
        return 0.5 * (K + K.T), score - solved.T @ at.gradient(), solved

    @property
    def _of_modes(self) -> tuple[Floats, Floats]:
        """J^T W Z in coordinates and Z^T W Z of the columns of modes: sums over contexts by the levels that they have.

        Neither Z nor W Z is ever written out.
        """
        at, design, space, member = self.at, self.at.scores.design, self.at.scores.space, self.columns.member
        (D, n), (d1, r) = member.shape, space.U.shape
        W = design.blocks.over_models(at.marginal.W, np.arange(D))
        gU, inside = np.empty((n, d1, d1, r)), np.empty((n, d1, n, d1))
        for k, level in enumerate(member.T):
            here = np.flatnonzero(level)
            weights = level[here, None] * np.hstack([space.V[here], member[here]])
            summed = (weights.T @ W[here].reshape(len(here), -1)).reshape(r + n, d1, d1)
            gU[k], inside[k] = summed[:r].transpose(2, 1, 0), summed[r:].transpose(1, 0, 2)
        gV = np.einsum("ul,ubk->lbuk", member, W @ space.U).reshape(n * d1, D, r)
        pulled = space.pull(gU.reshape(n * d1, d1, r), gV)
        pulled[space.extra] = self.columns.against(
            at.marginal.apply_shrinkage(at.marginal.effects[0]), design.slot_places
        ).T
        return pulled, inside.reshape(n * d1, n * d1)

    @cached_property
    def of_columns(self) -> tuple[Floats, Floats]:
        """K and y of the columns."""
        K, score, _ = self.solved
        return K[:-1, :-1], score[:-1] + K[:-1, -1]


@dataclass(frozen=True)
class RandomEffects:
    """Random effects of given sizes, round a mode of level + L and E.

    Attributes
    ----------
    information : ColumnInformation
    sizes : tuple of float
        One for each mode that has columns.
    averaged : tuple of float
        What an average over each size, by its prior, adds to the log marginal likelihood.
    """

    information: ColumnInformation
    sizes: tuple[float, ...] = ()
    averaged: tuple[float, ...] = ()

    @classmethod
    def of(cls, at: Expansion, columns: RandomEffectDesign) -> "RandomEffects":
        """Return those of no size yet."""
        return cls(ColumnInformation(at, columns), (0.0,) * len(columns.modes))

    @property
    def at(self) -> Expansion:
        """The mode."""
        return self.information.at

    @property
    def columns(self) -> RandomEffectDesign:
        """Columns of Z."""
        return self.information.columns

    @cached_property
    def _spread(self) -> Floats:
        """Standard deviation of each F, (m,)."""
        out = np.zeros(len(self.columns.mode))
        for mode, size in zip(self.columns.modes, self.sizes, strict=True):
            out[self.columns.mode == mode] = size
        return out

    @cached_property
    def _factor(self) -> Floats:
        """Cholesky factor of I + size K size, lower."""
        K, _ = self.information.of_columns
        return np.asarray(linalg.cholesky(np.eye(len(K)) + self._spread[:, None] * K * self._spread, lower=True))

    @cached_property
    def log_evidence(self) -> float:
        """Log marginal likelihood of tau and the sizes, up to a constant."""
        K, score, _ = self.information.solved
        half = linalg.solve_triangular(self._factor, self._spread * self.information.of_columns[1], lower=True)
        known = float(score[-1] + 0.5 * K[-1, -1])
        gained = 0.5 * float(half @ half) - float(np.log(np.diag(self._factor)).sum())
        return self.at.log_evidence - known + gained + sum(self.averaged)

    def sized(self, largest: float, at_zero: float) -> "RandomEffects":
        """Return the same with the root mean squares of the sizes under the votes, one mode given the others."""
        found = self
        for _ in range(SIZE_STEPS):
            before, averaged = found.sizes, []
            for i in range(len(before)):
                sizes = list(found.sizes)
                sizes[i], more = found._typical_size(self.columns.modes[i], largest, at_zero)
                averaged.append(more)
                found = replace(self, sizes=tuple(sizes), averaged=tuple(averaged))
            if len(before) < 2 or np.allclose(before, found.sizes, rtol=SETTLED, atol=1e-3 * largest):
                break
        return found

    def _typical_size(self, mode: int, largest: float, at_zero: float) -> tuple[float, float]:
        """Return the root mean square of a mode's size under the votes, and the log of the mean likelihood over that.

        The other columns are integrated out.
        """
        (K, y), own = self.information.of_columns, self.columns.mode == mode
        other = ~own & (self._spread > 0)
        sd = self._spread[other]
        cross = sd[:, None] * K[np.ix_(other, own)]
        left = np.linalg.solve(np.eye(len(sd)) + sd[:, None] * K[np.ix_(other, other)] * sd, cross)
        values, vectors = np.linalg.eigh(K[np.ix_(own, own)] - cross.T @ left)
        along = (y[own] - left.T @ (sd * y[other])) @ vectors
        values = np.maximum(values, 0.0)

        def log_evidence(square: Floats) -> Floats:
            grown = 1.0 + square[:, None] * values
            return np.asarray(0.5 * (square[:, None] * along**2 / grown - np.log(grown)).sum(axis=1))

        square = np.linspace(0.0, largest, GRID) ** 2
        prior = np.append(at_zero, np.full(GRID - 1, (1 - at_zero) / (GRID - 1)))
        log_weight = np.log(prior) + log_evidence(square)
        total = float(np.logaddexp.reduce(log_weight))
        typical = np.array([np.exp(log_weight - total) @ square])
        return float(np.sqrt(typical[0])), total - float(log_evidence(typical)[0])

    @cached_property
    def values(self) -> Floats:
        """Z F at its mode, (d1, D)."""
        return np.asarray(self.columns.times(self._mean[:, None])[:, :, 0].T)

    @cached_property
    def _mean(self) -> Floats:
        """F at its mode."""
        return np.asarray(
            self._spread * linalg.cho_solve((self._factor, True), self._spread * self.information.of_columns[1])
        )

    @cached_property
    def _left(self) -> tuple[Floats, Floats]:
        """P Z size on the slots, (n_slots, m), and P times the part of Z F in the scores, (n_slots,)."""
        own = self.columns.times_on_slots(np.diag(self._spread), self.at.scores.design.slot_places)
        left = left_by_steps(self.at, self.at.marginal.apply(np.hstack([own, self.information.known])))
        return left[:, :-1], left[:, -1]

    @property
    def left_by_step(self) -> Floats:
        """What the best step of L would leave of the residual, were nothing of Z F in the scores: E is in it, too."""
        return np.asarray(self.at.left_by_step + self._left[1])

    @property
    def variance_left(self) -> Floats:
        """Variance that F has in what L would leave, on the slots."""
        return np.asarray(np.einsum("im,im->i", self._left[0], self._left[0]))

    def random_left(self, first: int, n: int) -> Floats:
        """Return what L would leave of F of random signs, (n_slots, n).

        The sign of a column is the product of those of its entries, by their bits from the `first` on.
        """
        design = self.at.scores.design
        context, model = design.slot_places
        slot, level = np.nonzero(self.columns.member[context])
        bits = np.zeros(len(self.columns.mode), dtype=np.uint64)
        np.bitwise_xor.at(bits, level * self.columns.n_models + model[slot], design.slot_bits[slot])
        draws = np.uint64(1) << np.arange(first, first + n, dtype=np.uint64)
        return np.asarray(self._left[0] @ np.where(bits[:, None] & draws, 1.0, -1.0))

    def _answers(self, factors: Floats) -> tuple["ScoreChanges", Floats]:
        """Return Q times factors (m + 1, k) but for the columns themselves, and all of it on the slots."""
        at, design, space = self.at, self.at.scores.design, self.at.scores.space
        solved = self.information.solved[2] @ factors
        own = self.columns.times_on_slots(factors[:-1], design.slot_places) + self.information.known * factors[-1]
        along = push_columns(design.entries, space, solved)
        closed = at.marginal.apply_shrinkage(own - along + at.tau**2 * at.marginal.effects[0] @ solved[space.extra])
        return ScoreChanges(design, space, -solved, closed + along - own), closed

    @cached_property
    def move(self) -> LowRankPlusSparse:
        """What scores change by."""
        factors = np.append(self._mean, -1.0)
        found, _ = self._answers(factors[:, None])
        known = np.broadcast_to(self.at.scores.shared, self.information.shape[::-1])
        left, right = np.eye(self.information.shape[1]), self.columns.times(factors[:-1, None])[:, :, 0] - known.T
        return found.field(left, right).centred()

    @cached_property
    def _half(self) -> Floats:
        return np.asarray(linalg.solve_triangular(self._factor, np.diag(self._spread), lower=True).T)

    @cached_property
    def effects(self) -> Floats:
        """A root of the covariance that F adds to the shared effects, (k, m)."""
        return np.asarray(-self.information.solved[2][self.at.scores.space.extra, :-1] @ self._half)

    @cached_property
    def _root(self) -> tuple["ScoreChanges", Floats]:
        """The answers to the columns, times the root of their covariance, and all of it on the slots."""
        return self._answers(np.vstack([self._half, np.zeros(self._half.shape[1])]))

    def root(self, contexts: Longs) -> Floats:
        """Return a root of the covariance that F adds to the scores of some contexts, (n, d1, m), centred."""
        found = self._root[0].dense(contexts, self.columns.times(self._half, contexts))
        return np.asarray(found - found.mean(axis=1, keepdims=True))

    @cached_property
    def slot_root(self) -> Floats:
        """The same on the slots, (n_slots, m)."""
        means = self._root[0].means(self.columns.means(self._half))
        return np.asarray(self._root[1] - means[self.at.scores.design.slot_places[0]])

    def mean_root(self, weights: Floats) -> Floats:
        """Return the sum over contexts of the root times weights (D,), (d1, m)."""
        found = self._root[0].mean(weights, self.columns.means(self._half, weights))
        return np.asarray(found - found.mean(axis=0))


@dataclass(frozen=True)
class ScoreChanges:
    """Changes of all scores, m of them: along coordinates (size, m), and on slots (n_slots, m); None for none there."""

    design: BlockDesign
    space: TangentSpace
    coordinates: Floats
    slots: Floats | None

    @cached_property
    def _pushed(self) -> tuple[Floats, Floats]:
        """Changes of U (d1, r1, m) and of V (D, r1, m)."""
        return self.space.push_columns(self.coordinates)

    def field(self, left: Floats, right: Floats) -> LowRankPlusSparse:
        """Return a single change plus left right^T."""
        dU, dV = (side[:, :, 0] for side in self._pushed)
        U, V = np.hstack([left, dU, self.space.U]), np.hstack([right, self.space.V, dV])
        return LowRankPlusSparse.of(self.design, U, V, 0.0 if self.slots is None else self.slots[:, 0])

    def dense(self, contexts: Longs, more: Floats) -> Floats:
        """Return the changes in some contexts plus others, (n, d1, m)."""
        dU, dV = self._pushed
        out = more + np.tensordot(self.space.V[contexts], dU, axes=(1, 1)) + self.space.U @ dV[contexts]
        if self.slots is None:
            return np.asarray(out)
        place = np.full(self.design.n_contexts, -1)
        place[contexts] = np.arange(len(contexts))
        context, model = self.design.slot_places
        here = np.flatnonzero(place[context] >= 0)
        out[place[context[here]], model[here]] += self.slots[here]
        return np.asarray(out)

    def mean(self, weights: Floats, more: Floats) -> Floats:
        """Return the sums over contexts of the changes times weights (D,), plus others, (d1, m)."""
        (dU, dV), (context, _) = self._pushed, self.design.slot_places
        own = np.tensordot(weights @ self.space.V, dU, axes=(0, 1)) + self.space.U @ np.tensordot(weights, dV, axes=1)
        on_slots = 0.0 if self.slots is None else self.design.entries.by_model(weights[context, None] * self.slots)
        return np.asarray(more + own + on_slots)

    def means(self, more: Floats) -> Floats:
        """Return means over the models of each context, plus others, (D, m)."""
        (dU, dV), d1 = self._pushed, len(self.space.U)
        own = self.space.V @ dU.mean(axis=0) + np.einsum("k,ukm->um", self.space.U.mean(axis=0), dV)
        return np.asarray(more + own + (0.0 if self.slots is None else self.design.entries.by_context(self.slots) / d1))
