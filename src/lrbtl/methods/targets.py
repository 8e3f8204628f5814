"""Targets by position: scores, gaps, win probabilities, and any smooth function of the scores.

A target is evaluated at a point: its value on the working scale, and its gradient there as weighted entries.
Probabilities work on the logit scale. Averages over contexts are weighted means; that of a probability is the mean of
the contexts' probabilities.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import expit, logsumexp

from lrbtl.errors import GradientError, TargetError
from lrbtl.fitting.blocks import LowRankPlusSparse
from lrbtl.model.both_bad import BothBadLink
from lrbtl.model.links import TIE_LINKS, Link, TieLink, mean_over_spread
from lrbtl.typing import Bools, Floats, Longs

WorkingScale = Literal["identity", "logit"]

LARGEST_LOGIT = 700.0  # beyond it a probability is not a number


@dataclass(frozen=True)
class SparseGradient:
    """A sparse gradient: weight at (model, context), one row of three arrays, and slopes in shared parameters.

    Of a linear target these are slopes in the linear effects, of a function slopes in the link's own parameters.
    """

    models: Longs
    contexts: Longs
    weights: Floats
    effects: Floats = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class Wins:
    """The weighted mean of the probabilities that model a beats model b in a context: four arrays, one row each."""

    a: Longs
    b: Longs
    contexts: Longs
    weights: Floats


class View(Protocol):
    """Scores at a point, read entry by entry or whole, and the link there."""

    @property
    def link(self) -> Link:
        """Law of a response given its eta."""

    @property
    def effect_values(self) -> Floats:
        """Values of linear effects, (K,)."""

    def entries(self, models: Longs, contexts: Longs) -> Floats:
        """Return scores[models, contexts]."""

    def dense(self) -> Floats:
        """Return all scores, in the battles' shape."""


@dataclass(frozen=True)
class ScoresView:
    """Scores (d1, D), or a field of them, as targets read them."""

    scores: Floats | LowRankPlusSparse
    link: Link
    shape: tuple[int, ...]
    effect_values: Floats = field(default_factory=lambda: np.empty(0))

    def entries(self, models: Longs, contexts: Longs) -> Floats:
        """Return scores[models, contexts]."""
        if isinstance(self.scores, LowRankPlusSparse):
            return self.scores.entries(models, contexts)
        return np.asarray(self.scores[models, contexts])

    def dense(self) -> Floats:
        """Return all scores, in the battles' shape."""
        scores = self.scores.dense() if isinstance(self.scores, LowRankPlusSparse) else self.scores
        return scores.reshape(self.shape)


GapVariances = Callable[[Longs, Longs, Longs], Floats]
Evaluate = Callable[[View], tuple[float, SparseGradient | Floats]]


@dataclass(frozen=True)
class Resolved:
    """A target that knows its positions: linear, a mean win probability, or any function."""

    label: str
    scale: WorkingScale
    # the constant gradient of a linear target; the wins whose mean is meant; or a function from a view to (value,
    # SparseGradient or dense gradient), on the working scale
    kind: SparseGradient | Wins | Evaluate


def resolved_score(model: int, weights: Floats, among: Bools | None = None, label: str = "") -> Resolved:
    """Return the weighted mean over contexts (D,) of a model's scores, less the mean over the models `among`.

    Without `among` it is less the mean over all models, as scores are.
    """
    contexts = np.flatnonzero(weights)
    values = weights[contexts]
    terms = SparseGradient(np.full(len(contexts), model), contexts, values)
    if among is not None and not among.all():
        others = np.flatnonzero(among)
        terms = SparseGradient(
            np.concatenate([terms.models, np.repeat(others, len(contexts))]),
            np.concatenate([contexts, np.tile(contexts, len(others))]),
            np.concatenate([values, np.tile(-values / len(others), len(others))]),
        )
    return Resolved(label or f"score({model})", "identity", terms)


def resolved_gap(a: int, b: int, weights: Floats, label: str = "") -> Resolved:
    """Return the weighted mean over contexts (D,) of the score of a minus that of b."""
    contexts = np.flatnonzero(weights)
    values = weights[contexts]
    models = np.repeat([a, b], len(contexts))
    terms = SparseGradient(models, np.tile(contexts, 2), np.concatenate([values, -values]))
    return Resolved(label or f"gap({a}, {b})", "identity", terms)


def resolved_effect(position: int, n_effects: int, label: str) -> Resolved:
    """Return one of the linear effects, as a coefficient in units of its scale."""
    nowhere = np.empty(0, dtype=np.int64)
    return Resolved(label, "identity", SparseGradient(nowhere, nowhere, np.empty(0), np.eye(n_effects)[position]))


def resolved_win(a: int, b: int, weights: Floats, label: str = "") -> Resolved:
    """Return the weighted mean over contexts (D,) of the probability that a beats b."""
    contexts = np.flatnonzero(weights)
    wins = Wins(np.full(len(contexts), a), np.full(len(contexts), b), contexts, weights[contexts])
    return Resolved(label or f"win_probability({a}, {b})", "logit", wins)


def resolved_win_rate(model: int, pool: Longs, weights: Floats, label: str = "") -> Resolved:
    """Return the mean over a pool of other models, and weighted over contexts (D,), of the probability to beat them."""
    contexts = np.flatnonzero(weights)
    rivals, where = np.repeat(pool, len(contexts)), np.tile(contexts, len(pool))
    wins = Wins(np.full(len(rivals), model), rivals, where, np.tile(weights[contexts], len(pool)) / len(pool))
    return Resolved(label or f"win_rate({model})", "logit", wins)


@dataclass
class Functional:
    """Value and gradient of a user's function, the gradient checked at the first scores."""

    value: Callable[[Floats], float]
    gradient: Callable[[Floats], ArrayLike]
    name: str
    checked: bool = False

    def __call__(self, view: View) -> tuple[float, Floats]:
        """Return the value and the gradient at a point."""
        scores = view.dense()
        at = float(self.value(scores))
        slope = np.asarray(self.gradient(scores), dtype=float)
        if slope.shape != scores.shape:
            raise GradientError(
                f"the gradient of {self.name} has shape {slope.shape}; it must be that of the scores, {scores.shape}."
            )
        if not (np.isfinite(at) and np.all(np.isfinite(slope))):
            raise GradientError(f"{self.name} or its gradient is not finite at the fitted scores: check its domain.")
        if not self.checked:
            _check_gradient(self.value, scores, slope, self.name)
            self.checked = True
        return at, slope


def tie_at(view: View) -> tuple[float, SparseGradient]:
    """Return the tie parameter of the link, and its slope in the link's own parameters."""
    if not isinstance(view.link, TieLink | BothBadLink):
        known = " or ".join(map(repr, TIE_LINKS))
        raise TargetError(f"the {view.link} link has no tie parameter: use link={known}.")
    nowhere = np.empty(0, dtype=np.int64)
    return view.link.tie, SparseGradient(nowhere, nowhere, np.empty(0), np.ones(1))


def soft_minimum(models: Longs, contexts: Longs, sharpness: float, view: View) -> tuple[float, SparseGradient]:
    """Return -log(mean(exp(-sharpness * scores))) / sharpness over some entries."""
    exponents = -sharpness * view.entries(models, contexts)
    total = logsumexp(exponents)
    value = -(total - np.log(len(contexts))) / sharpness
    return float(value), SparseGradient(models, contexts, np.exp(exponents - total))


def _check_gradient(value: Callable[[Floats], float], scores: Floats, slope: Floats, name: str) -> None:
    """Compare directional derivatives with central differences along three fixed random directions."""
    rng = np.random.default_rng(0)
    size = max(float(np.abs(scores).max()), 1.0)
    for _ in range(3):
        direction = rng.normal(size=scores.shape)
        step = 1e-5 * size / float(np.abs(direction).max())
        numeric = (float(value(scores + step * direction)) - float(value(scores - step * direction))) / (2 * step)
        given = float(np.sum(slope * direction))
        tolerance = 1e-4 * (abs(numeric) + abs(given)) + 1e-6 * float(np.linalg.norm(slope)) + 1e-8
        if not abs(numeric - given) <= tolerance:
            raise GradientError(
                f"the gradient of {name} is wrong: along a random direction it gives {given:.6g}, "
                f"numerical differences give {numeric:.6g}."
            )


# ------------------------------------------------------------------------------
# Values and gradients of many targets at a point.
# ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gradients:
    """Gradients of M targets as a list of weighted entries."""

    target: Longs  # (n,) the gradient of a target has a weight at (model, context)
    models: Longs  # (n,)
    contexts: Longs  # (n,)
    weights: Floats  # (n,)
    effects: Floats  # (K + l, M) slopes in linear effects, then in the link's own parameters

    @property
    def size(self) -> int:
        """Number M of targets."""
        return int(self.effects.shape[1])

    def by_context(self, d1: int, D: int) -> sparse.csc_array:
        """Return them as a sparse matrix (M, D d1), the models of a context side by side."""
        columns = self.contexts * d1 + self.models
        return sparse.csc_array((self.weights, (self.target, columns)), shape=(self.size, D * d1))

    def touch(self, entries: Bools) -> Bools:
        """Return which targets have weight on some of the scores, given as (d1, D)."""
        hit = entries[self.models, self.contexts] & (self.weights != 0)
        return np.bincount(self.target[hit], minlength=self.size) > 0


@dataclass(frozen=True)
class Stack:
    """Targets put together by kind, to be evaluated at many points: linear ones and win probabilities all at once."""

    size: int  # number of targets
    linear: tuple[Longs, SparseGradient] | None  # (target numbers, columns)
    wins: tuple[Longs, Wins] | None  # (target numbers, columns)
    others: list[tuple[int, Evaluate]]  # (target number, function)
    effects: list[tuple[int, Floats]]  # (target number, slopes in linear effects) of linear targets that have some

    @classmethod
    def of(cls, targets: Sequence[Resolved]) -> "Stack":
        """Return the stack of some targets."""
        linear, wins, others, effects = [], [], [], []
        for i, target in enumerate(targets):
            kind = target.kind
            if isinstance(kind, SparseGradient):
                if kind.effects.size:
                    effects.append((i, kind.effects))
                linear.append((i, (kind.models, kind.contexts, kind.weights)))
            elif isinstance(kind, Wins):
                wins.append((i, (kind.a, kind.b, kind.contexts, kind.weights)))
            else:
                others.append((i, kind))
        return cls(
            len(targets),
            (_numbers(linear), SparseGradient(*_columns(linear))) if linear else None,
            (_numbers(wins), Wins(*_columns(wins))) if wins else None,
            others,
            effects,
        )

    def at(self, view: View) -> tuple[Floats, Gradients]:
        """Return values (M,) and gradients at a point."""
        shared = view.effect_values
        values, effects = np.zeros(self.size), np.zeros((len(shared) + view.link.n_extra, self.size))
        for i, slopes in self.effects:
            values[i] += slopes @ shared
            effects[: len(slopes), i] = slopes
        parts: list[tuple[Longs, Longs, Longs, Floats]] = []
        if self.linear is not None:
            at, terms = self.linear
            values += np.bincount(at, terms.weights * view.entries(terms.models, terms.contexts), self.size)
            parts.append((at, terms.models, terms.contexts, terms.weights))
        if self.wins is not None:
            at, wins = self.wins
            mean, first, second, by_effects = _mean_wins(at, wins, self.size, view)
            values += mean
            effects[len(shared) :] += by_effects
            parts += [(at, wins.a, wins.contexts, first), (at, wins.b, wins.contexts, second)]
        for i, function in self.others:
            values[i], found = function(view)
            gradient = found if isinstance(found, SparseGradient) else sparse_gradient(found)
            effects[len(shared) : len(shared) + len(gradient.effects), i] = gradient.effects
            parts.append((np.full(len(gradient.models), i), gradient.models, gradient.contexts, gradient.weights))
        at, models, contexts, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        return values, Gradients(at, models, contexts, weights, effects)


def evaluate(targets: Sequence[Resolved], view: View) -> tuple[Floats, Gradients]:
    """Return values (M,) and gradients of targets at a point."""
    return Stack.of(targets).at(view)


def mean_win_probabilities(targets: Sequence[Resolved], view: View, gap_variances: GapVariances) -> Floats | None:
    """Return the means of win probabilities over normal gaps, (M,), NaN for other targets; None where all are others.

    `gap_variances` gives the variance of the score of a less that of b in a context, of arrays of these.
    """
    stack = Stack.of(targets)
    if stack.wins is None:
        return None
    at, wins = stack.wins
    gaps = view.entries(wins.a, wins.contexts) - view.entries(wins.b, wins.contexts)
    variance = np.maximum(gap_variances(wins.a, wins.b, wins.contexts), 0.0)
    won = mean_over_spread(lambda gap: np.asarray(expit(view.link.log_odds(gap)[0])), gaps, variance)
    total = np.bincount(at, wins.weights, stack.size)
    out = np.full(stack.size, np.nan)
    here = total > 0
    out[here] = np.bincount(at, wins.weights * won, stack.size)[here] / total[here]
    return out


def _numbers(rows: Sequence[tuple[int, tuple[Any, ...]]]) -> Longs:
    """Return the number of the target that each row of the columns belongs to."""
    return np.repeat(np.array([i for i, _ in rows], dtype=np.int64), [len(columns[0]) for _, columns in rows])


def _columns(rows: Sequence[tuple[int, tuple[Any, ...]]]) -> Iterator[Any]:
    """Return the columns of several targets one after the other."""
    return (np.concatenate(column) for column in zip(*(columns for _, columns in rows), strict=True))


def _mean_wins(at: Longs, wins: Wins, size: int, view: View) -> tuple[Floats, Floats, Floats, Floats]:
    """Return logits of mean win probabilities (size,), slopes in both scores of a row, and in the link's parameters."""
    sides = (view.entries(side, wins.contexts) for side in (wins.a, wins.b))
    odds, by_first, by_second, by_effects = view.link.duel(*sides)
    odds = np.clip(odds, -LARGEST_LOGIT, LARGEST_LOGIT)
    p, q = expit(odds), expit(-odds)
    won, lost = np.bincount(at, wins.weights * p, size), np.bincount(at, wins.weights * q, size)
    here = won > 0
    values = np.zeros(size)
    values[here] = np.log(won[here]) - np.log(lost[here])
    each = wins.weights * (p / won[at]) * (q / lost[at]) * (won[at] + lost[at])
    effects = np.array([np.bincount(at, each * slope, size) for slope in by_effects], dtype=np.float64)
    return values, each * by_first, each * by_second, effects.reshape(len(by_effects), size)


def sparse_gradient(gradient: Floats) -> SparseGradient:
    """Return a dense gradient as a sparse one."""
    flat = gradient.reshape(len(gradient), -1)
    models, contexts = np.nonzero(flat)
    return SparseGradient(models, contexts, flat[models, contexts])
