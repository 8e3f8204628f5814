"""Deviations that entries share: of a model at one level of a mode, whatever the others; and the reach of a ladder.

A judge that dislikes a model does so in every category. So scores have terms Z F beside L and E: a column of Z is one
for a model at one level of a context mode, and its F ~ N(0, size^2) has the mode's size. One more column has the places
of the models on the ladder of who meets whom, of size tau: where similar models meet, the prior of the deviations would
pull the ends of the ladder to its middle. With L and E integrated out, as in `fitting.deviations`, votes say of F

    K = Z^T P Z,   y = Z^T (S g + W E - W J A^-1 gradient + P s),   P = W - W J A^-1 J^T W,

with s what of Z F the scores hold already. F has precision K + size^-2, and scores follow it by Q = S (Z - J A^-1 J^T
W Z). A tenth of the prior of a size is at zero, the rest is flat up to the spread of the scores.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from lrbtl.data.battles import Battles
from lrbtl.fitting.blocks import BlockDesign, Field, Matrices
from lrbtl.fitting.deviations import Expansion
from lrbtl.fitting.related import few_contexts
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.typing import Floats, Longs

MOST_NUMBERS, MOST_COLUMNS = 1 << 22, 640  # in the answers of all scores to the columns, and columns: time and memory
MOST_TAG_NUMBERS = 1 << 24  # of columns of tags, whose sets share much more
GRID = 200  # sizes that are looked at
AT_ZERO = 0.1  # prior probability that a mode's levels share nothing
SIZE_STEPS, SETTLED = 4, 0.02  # passes over the modes, and the relative change of a size that ends them
LADDER, TAGS = -1, -2  # modes of columns that are no context modes


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
class Columns:
    """What entries may share: the ladder, then every model at every level of some modes, level by level, m in all.

    Attributes
    ----------
    ladder : array (d1,)
    member : array (D, n)
        1 where a context has a level.
    level_mode : array (n,)
        Mode of each level.
    """

    ladder: Floats
    member: Floats
    level_mode: Longs

    @classmethod
    def ladder_of(cls, design: BlockDesign) -> "Columns":
        """Return the column of the ladder alone."""
        return cls(design.ladder, np.zeros((design.n_contexts, 0)), np.zeros(0, dtype=np.int64))

    @classmethod
    def of(cls, design: BlockDesign, tags: Floats | None = None) -> "Columns":
        """Return a column for every model at every level of a mode, and the ladder; modes of most levels last.

        Where fewer than two modes have several levels, models share nothing beyond L. Modes whose columns would be too
        many are left out. `tags` (D, n), 1 where a context has a tag, are a mode more, of which a context may have
        several levels.
        """
        found, sizes = cls.ladder_of(design), design.shape[1:]
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
        """Return modes that have no columns as their levels are too many, and how many levels would have some."""
        D, d1, m = len(self.member), len(self.ladder), len(self.mode)
        sizes, out = design.shape[1:], []
        for k in self._shared_modes(design) if len(sizes) > 1 else []:
            fits = [n for n in range(2, sizes[k]) if few_columns(m + d1 * n, d1, D * n // sizes[k])]
            if k not in self.modes and fits:
                out.append((k, fits[-1]))
        return out

    def _with(self, mode: int, member: Floats, most: int = MOST_NUMBERS) -> "Columns":
        """Return these columns and one for every model at every level of a mode, given as (D, n), unless too many."""
        (D, n), d1 = member.shape, len(self.ladder)
        if not few_columns(len(self.mode) + d1 * n, d1, D, most):
            return self
        return Columns(self.ladder, np.hstack([self.member, member]), np.append(self.level_mode, np.full(n, mode)))

    @cached_property
    def mode(self) -> Longs:
        """Mode of each column, (m,); LADDER for that of the ladder."""
        return np.append(LADDER, np.repeat(self.level_mode, len(self.ladder)))

    @cached_property
    def modes(self) -> list[int]:
        """Modes that have columns."""
        return [int(k) for k in np.unique(self.level_mode)]

    def _by_level(self, factors: Floats) -> Floats:
        """Return the factors (m, k) of all but the ladder, (n, d1, k)."""
        return factors[1:].reshape(len(self.level_mode), len(self.ladder), factors.shape[1])

    def times(self, factors: Floats, contexts: Longs | slice = slice(None)) -> Floats:
        """Return Z times factors (m, k) in some contexts, (n_contexts, d1, k)."""
        out: Floats = np.tensordot(self.member[contexts], self._by_level(factors), 1)
        out += self.ladder[:, None] * factors[0]
        return out

    def times_on_slots(self, factors: Floats, places: tuple[Longs, Longs]) -> Floats:
        """Return the same on slots, given by context and model, (n_slots, k)."""
        if not self.modes:
            return np.asarray(self.ladder[places[1], None] * factors[0])
        return np.asarray(self.times(factors)[places])

    def means(self, factors: Floats, weights: Floats | None = None) -> Floats:
        """Return the means of Z times factors (m, k) over models, (D, k), or sums over contexts by weight, (d1, k)."""
        if weights is not None:
            found = np.tensordot(weights @ self.member, self._by_level(factors), 1)
            return np.asarray(found + weights.sum() * self.ladder[:, None] * factors[0])
        return np.asarray(self.member @ self._by_level(factors).mean(axis=1) + self.ladder.mean() * factors[0])

    def against(self, values: Floats, places: tuple[Longs, Longs]) -> Floats:
        """Return Z^T of values on slots (n_slots, k), (m, k)."""
        (context, model), (D, n), d1 = places, self.member.shape, len(self.ladder)
        first = self.ladder[model] @ values
        if not n:
            return np.asarray(first[None])
        cube = np.zeros((D, d1, values.shape[1]))
        cube[context, model] = values
        return np.vstack([first, np.tensordot(self.member.T, cube, 1).reshape(n * d1, -1)])


def few_columns(m: int, d1: int, D: int, most: int = MOST_NUMBERS) -> bool:
    """Whether m columns of d1 models in D contexts are few enough."""
    return m <= MOST_COLUMNS and m * d1 * D <= most


@dataclass(frozen=True)
class Shared:
    """What entries share, round a mode of L and E.

    Attributes
    ----------
    at : Expansion
    columns : Columns
    sizes : tuple of float
        One for each mode that has columns.
    averaged : tuple of float
        What an average over each size, by its prior, adds to the log marginal likelihood.
    """

    at: Expansion
    columns: Columns
    sizes: tuple[float, ...] = ()
    averaged: tuple[float, ...] = ()

    @cached_property
    def _spread(self) -> Floats:
        """Standard deviation of each F, (m,)."""
        out = np.full(len(self.columns.mode), self.at.tau)
        for mode, size in zip(self.columns.modes, self.sizes, strict=True):
            out[self.columns.mode == mode] = size
        return out

    @property
    def _shape(self) -> tuple[int, int]:
        """(D, d1)."""
        return len(self.columns.member), len(self.columns.ladder)

    @cached_property
    def _known(self) -> Floats:
        """What the scores hold of the columns already, on the slots, (n_slots, 1)."""
        places = self.at.scores.design.slot_places
        return np.asarray(np.broadcast_to(self.at.scores.shared, self._shape[::-1]).T[places][:, None])

    @cached_property
    def _told(self) -> tuple[Floats, Floats, Floats]:
        """K and the votes' scores of all columns, and what the coordinates of L answer to them.

        The last of them stands for what the scores hold already.
        """
        at, design, space, columns = self.at, self.at.scores.design, self.at.scores.space, self.columns
        places = design.slot_places
        plain = np.hstack([columns.ladder[places[1], None], self._known])
        told = at.told(plain)
        pulled, own = design.pull_columns(space, told), plain.T @ told
        pulled[space.extra] = at.effects[0].T @ at.left_open(plain)
        K = own
        if columns.modes:
            of_modes, inside = self._told_modes
            pulled = np.hstack([pulled[:, :1], of_modes, pulled[:, 1:]])
            mixed = columns.against(told, places)[1:]
            K = np.block([
                [own[:1, :1], mixed[:, :1].T, own[:1, 1:]],
                [mixed[:, :1], inside, mixed[:, 1:]],
                [own[1:, :1], mixed[:, 1:].T, own[1:, 1:]],
            ])  # fmt: skip
        solved = at.factor.solve(pulled)
        K = K - pulled.T @ solved
        score = np.append(columns.against(at.residual[:, None], places), self._known.T @ at.residual)
        return 0.5 * (K + K.T), score - solved.T @ at.gradient(), solved

    @property
    def _told_modes(self) -> tuple[Floats, Floats]:
        """J^T W Z in coordinates and Z^T W Z of the columns of modes: sums over contexts by the levels that they have.

        Neither Z nor W Z is ever written out.
        """
        at, design, space, member = self.at, self.at.scores.design, self.at.scores.space, self.columns.member
        (D, n), (d1, r) = member.shape, space.U.shape
        W = design.over_models(at.W, np.arange(D))
        gU, inside = np.empty((n, d1, d1, r)), np.empty((n, d1, n, d1))
        for k, level in enumerate(member.T):
            here = np.flatnonzero(level)
            weights = level[here, None] * np.hstack([space.V[here], member[here]])
            summed = (weights.T @ W[here].reshape(len(here), -1)).reshape(r + n, d1, d1)
            gU[k], inside[k] = summed[:r].transpose(2, 1, 0), summed[r:].transpose(1, 0, 2)
        gV = np.einsum("ul,ubk->lbuk", member, W @ space.U).reshape(n * d1, D, r)
        pulled = space.pull(gU.reshape(n * d1, d1, r), gV)
        pulled[space.extra] = self.columns.against(at.left_open(at.effects[0]), design.slot_places)[1:].T
        return pulled, inside.reshape(n * d1, n * d1)

    @cached_property
    def _information(self) -> tuple[Floats, Floats]:
        """K and y of the columns."""
        K, score, _ = self._told
        return K[:-1, :-1], score[:-1] + K[:-1, -1]

    @cached_property
    def _factor(self) -> Floats:
        """Cholesky factor of I + size K size, lower."""
        K, _ = self._information
        return np.asarray(linalg.cholesky(np.eye(len(K)) + self._spread[:, None] * K * self._spread, lower=True))

    @cached_property
    def log_evidence(self) -> float:
        """Log marginal likelihood of tau and the sizes, up to a constant."""
        K, score, _ = self._told
        half = linalg.solve_triangular(self._factor, self._spread * self._information[1], lower=True)
        known = float(score[-1] + 0.5 * K[-1, -1])
        told = 0.5 * float(half @ half) - float(np.log(np.diag(self._factor)).sum())
        return self.at.log_evidence - known + told + sum(self.averaged)

    def sized(self, largest: float) -> "Shared":
        """Return the same with the root mean squares of the sizes under the votes, one mode given the others."""
        found = self._with(self.sizes or (0.0,) * len(self.columns.modes))
        for _ in range(SIZE_STEPS):
            before, averaged = found.sizes, []
            for i in range(len(before)):
                sizes = list(found.sizes)
                sizes[i], more = found._typical_size(self.columns.modes[i], largest)
                averaged.append(more)
                found = self._with(tuple(sizes), tuple(averaged))
            if len(before) < 2 or np.allclose(before, found.sizes, rtol=SETTLED, atol=1e-3 * largest):
                break
        return found

    def _with(self, sizes: tuple[float, ...], averaged: tuple[float, ...] = ()) -> "Shared":
        """Return the same with other sizes."""
        found = replace(self, sizes=sizes, averaged=averaged)
        found.__dict__.update({name: getattr(self, name) for name in ("_known", "_told", "_information")})
        return found

    def _typical_size(self, mode: int, largest: float) -> tuple[float, float]:
        """Return the root mean square of a mode's size under the votes, and the log of the mean likelihood over that.

        The other columns are integrated out.
        """
        (K, y), own = self._information, self.columns.mode == mode
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
        prior = np.append(AT_ZERO, np.full(GRID - 1, (1 - AT_ZERO) / (GRID - 1)))
        log_weight = np.log(prior) + log_evidence(square)
        total = float(np.logaddexp.reduce(log_weight))
        typical = np.array([np.exp(log_weight - total) @ square])
        return float(np.sqrt(typical[0])), total - float(log_evidence(typical)[0])

    @cached_property
    def values(self) -> Floats:
        """Z F at its mode, without the ladder, (d1, D)."""
        kept = np.where(self.columns.mode == LADDER, 0.0, self._mean)
        return np.asarray(self.columns.times(kept[:, None])[:, :, 0].T)

    @cached_property
    def _mean(self) -> Floats:
        """F at its mode."""
        return np.asarray(self._spread * linalg.cho_solve((self._factor, True), self._spread * self._information[1]))

    def _answers(self, factors: Floats) -> tuple["Answers", Floats]:
        """Return Q times factors (m + 1, k) but for the columns themselves, and all of it on the slots."""
        at, design, space = self.at, self.at.scores.design, self.at.scores.space
        solved = self._told[2] @ factors
        own = self.columns.times_on_slots(factors[:-1], design.slot_places) + self._known * factors[-1]
        along = design.push_columns(space, solved)
        closed = at.left_open(own - along + at.tau**2 * at.effects[0] @ solved[space.extra])
        return Answers(design, space, -solved, closed + along - own), closed

    @cached_property
    def move(self) -> Field:
        """What scores change by."""
        factors = np.append(self._mean, -1.0)
        found, _ = self._answers(factors[:, None])
        if self.columns.modes:
            known = np.broadcast_to(self.at.scores.shared, self._shape[::-1])
            left, right = np.eye(self._shape[1]), self.columns.times(factors[:-1, None])[:, :, 0] - known.T
        else:
            left, right = self.at.scores.design.ladder[:, None], np.full((self._shape[0], 1), factors[0])
        return found.field(left, right).centred()

    @property
    def varies(self) -> bool:
        """Whether any of it has a size."""
        return bool(self._spread.any())

    @cached_property
    def _half(self) -> Floats:
        return np.asarray(linalg.solve_triangular(self._factor, np.diag(self._spread), lower=True).T)

    @cached_property
    def effects(self) -> Floats:
        """A root of the covariance that F adds to the shared effects, (k, m)."""
        return np.asarray(-self._told[2][self.at.scores.space.extra, :-1] @ self._half)

    @cached_property
    def _root(self) -> tuple["Answers", Floats]:
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
class Answers:
    """Changes of all scores, m of them: along coordinates (size, m), and on slots (n_slots, m); None for none there."""

    design: BlockDesign
    space: TangentSpace
    coordinates: Floats
    slots: Floats | None

    @cached_property
    def _pushed(self) -> tuple[Floats, Floats]:
        """Changes of U (d1, r1, m) and of V (D, r1, m)."""
        return self.space.push_columns(self.coordinates)

    def field(self, left: Floats, right: Floats) -> Field:
        """Return a single change plus left right^T."""
        dU, dV = (side[:, :, 0] for side in self._pushed)
        U, V = np.hstack([left, dU, self.space.U]), np.hstack([right, self.space.V, dV])
        return Field.of(self.design, U, V, 0.0 if self.slots is None else self.slots[:, 0])

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
        on_slots = 0.0 if self.slots is None else self.design.by_model(weights[context, None] * self.slots)
        return np.asarray(more + own + on_slots)

    def told(self, matrices: Matrices, weights: Floats) -> Floats:
        """Return the sums over contexts of weights (D,) times a matrix per context times the changes, (d1, m)."""
        (dU, dV), (context, model) = self._pushed, self.design.slot_places
        (D, d1), on_slots = (len(self.space.V), len(self.space.U)), weights[context]
        rows, out = self.design.slot_rows(self.space, matrices)[0], np.zeros((d1, dU.shape[2]))
        for k, v in enumerate(self.space.V.T):
            out += self.design.summed(matrices, weights * v) @ dU[:, k]
            out += np.asarray(sparse.csr_array((rows[:, k] * on_slots, (model, context)), shape=(d1, D)) @ dV[:, k])
        if self.slots is not None:
            out += self.design.by_model(on_slots[:, None] * self.design.times(matrices, self.slots))
        return out

    def means(self, more: Floats) -> Floats:
        """Return means over the models of each context, plus others, (D, m)."""
        (dU, dV), d1 = self._pushed, len(self.space.U)
        own = self.space.V @ dU.mean(axis=0) + np.einsum("k,ukm->um", self.space.U.mean(axis=0), dV)
        return np.asarray(more + own + (0.0 if self.slots is None else self.design.by_context(self.slots) / d1))
