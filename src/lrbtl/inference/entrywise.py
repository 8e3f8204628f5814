"""Intervals that cover each entry, whatever the other entries are, and not only the average over a board.

The default shrinks a score towards its prediction by the model's other scores. Its intervals cover on average over a
board, but not each specialist. An entry-wise interval starts from the estimate by the entry's own votes,
y ~ N(theta, sigma^2). The rest of the log chooses which of all intervals with exactly that coverage is the shortest on
average under theta ~ N(mu, tau^2): Pratt's interval, the "frequentist, assisted by Bayes" interval of [Yu & Hoff 2018],

    { theta : y + sigma z(a (1 - s)) < theta < y + sigma z(1 - a s) },  g(s) = 2 sigma (theta - mu) / tau^2,

g(s) = z(a s) - z(a (1 - s)), a = 1 - level. Where mu is wrong it is wider, but covers.

y is the estimate from the votes of the target's own entries, at the scores of their opponents. With m the method's
estimate and b = Cov(m, y) / Var(y), both by influence values, m - b y is the estimate by the rest of the log. It does
not depend on y to first order. A prior mean mu = (m - b y) / (1 - b) with tau^2 = sigma^2 b / (1 - b) gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, ndtri_exp

from lrbtl.data.battles import Battles
from lrbtl.errors import EstimateError
from lrbtl.methods.base import Run
from lrbtl.methods.targets import Gradients, Resolved, ScoresView, SparseGradient, evaluate
from lrbtl.model.links import LOGISTIC
from lrbtl.typing import Floats, Longs

OWN = 0.5  # entries with this share of a target's largest weight are its own
WEAK = 1.0 / 9.0  # precision of the pull to the method's estimate: keeps entries that won all their votes finite
STEPS, STEP = 50, 2.0  # of Newton's method for a few entries, and its longest step in logits
LEAST_NOISE = 0.25  # of the variance of own votes, which the opponents' errors may take away
LEAST, MOST = 0.02, 0.98  # weight of own votes in the method's estimate
BISECTIONS, FAR = 70, 2e4


@dataclass(frozen=True)
class OwnVotes:
    """Estimates of M targets by their own votes, and their weight in the method's estimate; NaN where there are none.

    Attributes
    ----------
    value, se : arrays (M,)
        y and sigma, on the working scale.
    weight : array (M,)
        b, by which factor the method's estimate follows y.
    """

    value: Floats
    se: Floats
    weight: Floats

    def at(self, rows: Longs) -> OwnVotes:
        """Return that of some targets."""
        return OwnVotes(self.value[rows], self.se[rows], self.weight[rows])

    def intervals(self, estimate: Floats, level: float) -> Floats:
        """Return (M, 2) intervals of targets with these estimates; without ends where there are no own votes."""
        b = np.clip(self.weight, LEAST, MOST)
        mean, variance = (estimate - b * self.value) / (1.0 - b), self.se**2 * b / (1.0 - b)
        found = fab_interval(self.value, self.se, mean, variance, level)
        none = ~np.isfinite(self.value + self.se)
        return np.where(none[:, None], [-np.inf, np.inf], found)


def fab_interval(y: Floats, sigma: Floats, mean: Floats, variance: Floats, level: float = 0.95) -> Floats:
    """Return (M, 2) intervals for theta from y ~ N(theta, sigma^2), shortest on average if theta ~ N(mean, variance).

    >>> y, one = np.array([0.0, 5.0]), np.ones(2)
    >>> fab_interval(y, one, 0 * y, 1e9 * one).round(2).tolist()
    [[-1.96, 1.96], [3.04, 6.96]]
    >>> fab_interval(y, one, 0 * y, one).round(2).tolist()
    [[-1.64, 1.64], [1.12, 6.64]]
    """
    tail = np.log(1.0 - level)

    def quantiles(u: Floats) -> tuple[Floats, Floats]:
        """z(a s) and z(a (1 - s)) with s = expit(u), also far out."""
        return ndtri_exp(tail + log_expit(u)), ndtri_exp(tail + log_expit(-u))

    def theta(z: Floats, other: Floats) -> Floats:
        return np.asarray(mean + variance * (z - other) / (2.0 * sigma))

    ends = []
    for side in (0, 1):
        low, high = np.full(np.shape(y), -FAR), np.full(np.shape(y), FAR)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            z, other = quantiles(middle)
            begin = theta(z, other) + sigma * (z if side else -other)  # y whose interval ends at theta
            below = begin < y
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        ends.append(theta(*quantiles(low)))
    return np.column_stack(ends)


def own_votes(run: Run, targets: Sequence[Resolved]) -> OwnVotes:
    """Return what the own votes of targets say, given a run on votes with the logistic link."""
    data = run.data
    if not isinstance(data, Battles) or run.link != LOGISTIC:
        raise EstimateError("entry-wise intervals are for votes with the logistic link: leave kind='entry' out.")
    view = ScoresView(run.scores(), run.link, data.shape, getattr(run, "effect_values", np.empty(0)))
    _, gradients = evaluate(targets, view)
    eta = _etas(data, view)
    found = [_own(data, view, eta, *_entries(gradients, k)) for k in range(len(targets))]
    rest = run.moments([Resolved("rest", "identity", each.rest) for each in found])
    assert rest.cov is not None
    own = np.stack([each.influence for each in found], axis=1)  # (n_cells, M), of one vote
    others = run.influences([Resolved("rest", "identity", each.rest) for each in found])
    method = run.influences(targets)
    noise = np.array([each.variance for each in found])
    if data.cells.clusters is not None:
        noise = np.maximum(noise, _second_moment(data, own, own))
    variance = np.maximum(rest.se**2 + noise + 2.0 * _second_moment(data, own, others), LEAST_NOISE * noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = _second_moment(data, method, own + others) / _second_moment(data, own + others, own + others)
    moved = np.array([each.moved for each in found])
    values = run.moments(targets, errors_only=True).values + moved
    return OwnVotes(values, np.where(np.isfinite(moved), np.sqrt(variance), np.nan), weight)


def _entries(gradients: Gradients, k: int) -> tuple[Longs, Longs, Floats]:
    """Return models, contexts and weights of the gradient of one target, each entry once."""
    here = gradients.target == k
    models, contexts, weights = gradients.models[here], gradients.contexts[here], gradients.weights[here]
    keys, place = np.unique(np.stack([contexts, models]), axis=1, return_inverse=True)
    return keys[1], keys[0], np.bincount(place.reshape(-1), weights, keys.shape[1]).astype(np.float64)


def _etas(data: Battles, view: ScoresView) -> Floats:
    """Return eta of each cell at the method's scores."""
    cells = data.cells
    a, b, context = (codes.astype(np.int64) for codes in (cells.a, cells.b, cells.context))
    eta = np.asarray(view.entries(a, context) - view.entries(b, context))
    return eta if cells.slopes is None or not view.effect_values.size else eta + cells.slopes @ view.effect_values


def _second_moment(data: Battles, first: Floats, second: Floats) -> Floats:
    """Return the covariance (M,) of sums of influences over votes, which may come in clusters."""
    clusters, count = data.cells.clusters, data.cells.count.astype(np.float64)
    if clusters is None:
        return np.asarray(np.einsum("c,cm,cm->m", count, first, second))
    codes = clusters[:, 0].astype(np.int64)
    size = int(codes.max()) + 1
    sums = [np.stack([np.bincount(codes, count * x, size) for x in part.T]) for part in (first, second)]
    return np.asarray(np.einsum("mg,mg->m", *sums))


@dataclass(frozen=True)
class _Own:
    """The step from the method's estimate to that of own votes, the target that is left, and the votes' influence."""

    moved: float
    rest: SparseGradient
    influence: Floats  # (n_cells,) of one vote
    variance: float  # of the noise of own votes


def _own(data: Battles, view: ScoresView, eta: Floats, models: Longs, contexts: Longs, weights: Floats) -> _Own:
    """Return what the votes of a target's own entries add.

    With own scores at their maximum given the others, c = I^-1 g, and x_v the entries of a vote, the target is
    c U + sum over other entries j of (g_j - c J_j) s_j, J the information that own entries share with others.
    """
    cells, d1 = data.cells, data.shape[0]
    main = np.abs(weights) >= OWN * np.abs(weights).max()
    code = np.full((data.n_contexts, d1), -1)
    code[contexts[main], models[main]] = np.arange(int(main.sum()))
    used = np.flatnonzero((code[cells.context, cells.a] >= 0) | (code[cells.context, cells.b] >= 0))
    a, b = code[cells.context[used], cells.a[used]], code[cells.context[used], cells.b[used]]
    k, g = int(main.sum()), weights[main]
    x = np.zeros((used.size, k))
    x[np.flatnonzero(a >= 0), a[a >= 0]] = 1.0
    x[np.flatnonzero(b >= 0), b[b >= 0]] -= 1.0
    worth = np.ones(used.size) if cells.weight is None else cells.weight[used]
    count, y = cells.count[used] * worth, cells.y[used]
    step = np.zeros(k)
    nothing = np.zeros(cells.n_cells)
    if not np.all(np.abs(x).T @ count > 0):  # an entry without votes
        return _Own(np.nan, SparseGradient(models, contexts, weights), nothing, np.nan)
    for _ in range(STEPS):
        p = expit(eta[used] + x @ step)
        information = (x * (count * p * (1 - p))[:, None]).T @ x + WEAK * np.eye(k)
        change = np.linalg.solve(information, x.T @ (count * (y - p)) - WEAK * step)
        change *= min(1.0, STEP / max(float(np.abs(change).max()), 1e-300))
        step += change
        if np.abs(change).max() < 1e-10:
            break
    p = expit(eta[used] + x @ step)
    fisher = count * p * (1 - p)
    information = (x * fisher[:, None]).T @ x + WEAK * np.eye(k)
    c = np.linalg.solve(information, g)
    along = (x @ c) * fisher
    gradient = np.zeros((data.n_contexts, d1))
    np.add.at(gradient, (contexts, models), weights)
    context = cells.context[used].astype(np.int64) * d1
    for side, sign in ((cells.a[used], -1.0), (cells.b[used], 1.0)):
        gradient += sign * np.bincount(context + side, along, gradient.size).reshape(gradient.shape)
    gradient[contexts[main], models[main]] = 0.0  # what a weak pull leaves there
    at = np.nonzero(gradient)
    dispersion = LOGISTIC.dispersion(eta[used], y, count)
    nothing[used] = (x @ c) * worth * (y - expit(eta[used]))
    variance = dispersion * float((fisher * worth) @ (x @ c) ** 2)
    return _Own(float(g @ step), SparseGradient(at[1], at[0], gradient[at]), nothing, variance)
