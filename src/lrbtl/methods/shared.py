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

from lrbtl.fitting.blocks import BlockDesign, Field, Matrices
from lrbtl.fitting.deviations import Expansion
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.typing import Floats, Longs

MOST_NUMBERS, MOST_COLUMNS = 1 << 22, 640  # in the answers of all scores to the columns, and columns: time and memory
GRID = 200  # sizes that are looked at
AT_ZERO = 0.1  # prior probability that a mode's levels share nothing
SIZE_STEPS, SETTLED = 4, 0.02  # passes over the modes, and the relative change of a size that ends them
LADDER, TAGS = -1, -2  # modes of columns that are no context modes


@dataclass(frozen=True)
class Columns:
    """What entries may share.

    Attributes
    ----------
    values : array (D, d1, m)
    mode : array (m,)
        Context mode of each column; LADDER for that of the ladder.
    """

    values: Floats
    mode: Longs

    @classmethod
    def ladder(cls, design: BlockDesign) -> "Columns":
        """Return the column of the ladder alone."""
        values = np.broadcast_to(design.ladder[None, :, None], (design.n_contexts, design.shape[0], 1))
        return cls(values, np.array([LADDER]))

    @classmethod
    def of(cls, design: BlockDesign, tags: Floats | None = None) -> "Columns":
        """Return a column for every model at every level of a mode, and the ladder; modes of most levels last.

        Where fewer than two modes have several levels, models share nothing beyond L. Modes whose columns would be too
        many are left out. `tags` (D, n), 1 where a context has a tag, are a mode more, of which a context may have
        several levels.
        """
        found, sizes = cls.ladder(design), design.shape[1:]
        if tags is not None:
            found = found._with(TAGS, tags)
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
        D, d1, m = self.values.shape
        sizes, out = design.shape[1:], []
        for k in self._shared_modes(design) if len(sizes) > 1 else []:
            fits = [n for n in range(2, sizes[k]) if few_columns(m + d1 * n, d1, D * n // sizes[k])]
            if k not in self.modes and fits:
                out.append((k, fits[-1]))
        return out

    def _with(self, mode: int, member: Floats) -> "Columns":
        """Return these columns and one for every model at every level of a mode, given as (D, n), unless too many."""
        D, d1, m = self.values.shape
        m += d1 * member.shape[1]
        if not few_columns(m, d1, D):
            return self
        own = member[:, None, :, None] * np.eye(d1)[None, :, None, :]
        values = np.concatenate([self.values, own.reshape(D, d1, -1)], axis=2)
        return Columns(values, np.append(self.mode, np.full(d1 * member.shape[1], mode)))

    @cached_property
    def modes(self) -> list[int]:
        """Context modes that have columns."""
        return [int(k) for k in np.unique(self.mode) if k != LADDER]


def few_columns(m: int, d1: int, D: int) -> bool:
    """Whether m columns of d1 models in D contexts are few enough."""
    return m <= MOST_COLUMNS and m * d1 * D <= MOST_NUMBERS


@dataclass(frozen=True)
class Shared:
    """What entries share, round a mode of L and E.

    Attributes
    ----------
    at : Expansion
    columns : Columns
    sizes : tuple of float
        One for each mode that has columns.
    """

    at: Expansion
    columns: Columns
    sizes: tuple[float, ...] = ()

    @cached_property
    def _spread(self) -> Floats:
        """Standard deviation of each F, (m,)."""
        out = np.full(len(self.columns.mode), self.at.tau)
        for mode, size in zip(self.columns.modes, self.sizes, strict=True):
            out[self.columns.mode == mode] = size
        return out

    @cached_property
    def _on_slots(self) -> Floats:
        """The columns, and what the scores hold of them already, (n_slots, m + 1)."""
        places = self.at.scores.design.slot_places
        known = np.broadcast_to(self.at.scores.shared, self._shape[::-1]).T[places]
        return np.concatenate([self.columns.values[places], known[:, None]], axis=1)

    @property
    def _shape(self) -> tuple[int, int]:
        """(D, d1)."""
        D, d1, _ = self.columns.values.shape
        return D, d1

    @cached_property
    def _told(self) -> tuple[Floats, Floats, Floats]:
        """K and the votes' scores of all columns, and what the coordinates of L answer to them."""
        at, design, space = self.at, self.at.scores.design, self.at.scores.space
        on_slots = self._on_slots
        told = at.told(on_slots)
        pulled = design.pull_columns(space, told)
        pulled[space.extra] = at.effects[0].T @ at.left_open(on_slots)
        solved = at.factor.solve(pulled)
        K = on_slots.T @ told - pulled.T @ solved
        return 0.5 * (K + K.T), on_slots.T @ at.residual - solved.T @ at.gradient(), solved

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
        return self.at.log_evidence - known + 0.5 * float(half @ half) - float(np.log(np.diag(self._factor)).sum())

    def sized(self, largest: float) -> "Shared":
        """Return the same with the root mean squares of the sizes under the votes, one mode given the others."""
        found = self._with(self.sizes or (0.0,) * len(self.columns.modes))
        for _ in range(SIZE_STEPS):
            before = found.sizes
            for i in range(len(before)):
                sizes = list(found.sizes)
                sizes[i] = found._typical_size(self.columns.modes[i], largest)
                found = self._with(tuple(sizes))
            if np.allclose(before, found.sizes, rtol=SETTLED, atol=1e-3 * largest):
                break
        return found

    def _with(self, sizes: tuple[float, ...]) -> "Shared":
        """Return the same with other sizes."""
        found = replace(self, sizes=sizes)
        found.__dict__.update({name: getattr(self, name) for name in ("_on_slots", "_told", "_information")})
        return found

    def _typical_size(self, mode: int, largest: float) -> float:
        """Return the root mean square of a mode's size under the votes, with the other columns integrated out."""
        (K, y), own = self._information, self.columns.mode == mode
        other = ~own & (self._spread > 0)
        sd = self._spread[other]
        cross = sd[:, None] * K[np.ix_(other, own)]
        left = np.linalg.solve(np.eye(len(sd)) + sd[:, None] * K[np.ix_(other, other)] * sd, cross)
        values, vectors = np.linalg.eigh(K[np.ix_(own, own)] - cross.T @ left)
        along = (y[own] - left.T @ (sd * y[other])) @ vectors
        square = np.linspace(0.0, largest, GRID) ** 2
        grown = 1.0 + square[:, None] * np.maximum(values, 0.0)
        log_evidence = 0.5 * (square[:, None] * along**2 / grown - np.log(grown)).sum(axis=1)
        weight = np.exp(log_evidence - log_evidence.max())
        weight[0] *= len(weight) * AT_ZERO / (1 - AT_ZERO)
        return float(np.sqrt(weight @ square / weight.sum()))

    @cached_property
    def values(self) -> Floats:
        """Z F at its mode, without the ladder, (d1, D)."""
        kept = np.where(self.columns.mode == LADDER, 0.0, self._mean)
        return np.asarray(self.columns.values @ kept).T

    @cached_property
    def _mean(self) -> Floats:
        """F at its mode."""
        return np.asarray(self._spread * linalg.cho_solve((self._factor, True), self._spread * self._information[1]))

    @cached_property
    def _answers(self) -> "Answers":
        """Q of all columns and of what the scores hold of them, but for the columns themselves."""
        at, design, space = self.at, self.at.scores.design, self.at.scores.space
        solved = self._told[2]
        open_part = self._on_slots - design.push_columns(space, solved)
        closed = at.left_open(open_part + at.tau**2 * at.effects[0] @ solved[space.extra])
        return Answers(design, space, -solved, closed - open_part)

    @cached_property
    def move(self) -> Field:
        """What scores change by."""
        factors = np.append(self._mean, -1.0)
        found = self._answers.mixed(factors[:, None])
        if self.columns.modes:
            known = np.broadcast_to(self.at.scores.shared, self._shape[::-1])
            left, right = np.eye(self._shape[1]), self.columns.values @ factors[:-1] - known.T
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
    def _root(self) -> "Answers":
        """The answers to the columns, times the root of their covariance."""
        return self._answers.mixed(np.vstack([self._half, np.zeros(self._half.shape[1])]))

    def root(self, contexts: Longs) -> Floats:
        """Return a root of the covariance that F adds to the scores of some contexts, (n, d1, m), centred."""
        found = self._root.dense(contexts, self.columns.values[contexts] @ self._half)
        return np.asarray(found - found.mean(axis=1, keepdims=True))

    @cached_property
    def slot_root(self) -> Floats:
        """The same on the slots, (n_slots, m)."""
        design, root = self.at.scores.design, self._root
        assert root.slots is not None
        found = self._on_slots[:, :-1] @ self._half + design.push_columns(root.space, root.coordinates) + root.slots
        return np.asarray(found - self._means[design.slot_places[0]])

    @cached_property
    def _means(self) -> Floats:
        """Means over the models of each context of the root before it is centred, (D, m)."""
        return self._root.means(self.columns.values.mean(axis=1) @ self._half)

    def mean_root(self, weights: Floats) -> Floats:
        """Return the sum over contexts of the root times weights (D,), (d1, m)."""
        if self.columns.modes:
            own = np.einsum("u,uam->am", weights, self.columns.values, optimize=True)
        else:
            own = weights.sum() * self.at.scores.design.ladder[:, None]
        found = self._root.mean(weights, own @ self._half)
        return np.asarray(found - found.mean(axis=0))


@dataclass(frozen=True)
class Answers:
    """Changes of all scores, m of them: along coordinates (size, m), and on slots (n_slots, m); None for none there."""

    design: BlockDesign
    space: TangentSpace
    coordinates: Floats
    slots: Floats | None

    def mixed(self, factors: Floats) -> "Answers":
        """Return sums of the changes times factors (m, k)."""
        slots = None if self.slots is None else self.slots @ factors
        return replace(self, coordinates=self.coordinates @ factors, slots=slots)

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
