"""The mode of T = L + E at a rank and a tau: Newton steps on the expansions of `fitting.deviations`.

Where models are too many for matrices over all of them, L and E step together by conjugate gradients (`Joint`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.deviations import OF_VOTES, Expansion, Scores
from lrbtl.fitting.newton import Curvature
from lrbtl.fitting.priors import factor_entries, within_gauge
from lrbtl.fitting.related import Alone, Related, fitted_variances
from lrbtl.fitting.solvers import outer_sums
from lrbtl.lowrank.arrowhead import Factor, as_dense
from lrbtl.lowrank.tucker import Tucker
from lrbtl.typing import Floats

MAX_ITER = 10
SETTLING = 5  # steps after which the prior stays
SMALLEST_STEP = 1e-3
LARGEST_START = 5.0  # logits
FARTHEST = 20.0  # logits beyond which votes tell nothing of a score, while a prior of its own size lets it grow
LEAST_START = 1e-3  # of the noise of an entry: the size of a start where battles favour nobody
CLOSE = 5.0  # nats from the mode at which the exact Hessian replaces the information
DECREMENT = 5e-3  # nats: far below what moves an interval
ENOUGH = 0.05  # nats that the last step with the exact Hessian may gain
SMALL_STEPS, LAST_PROMISE = 12, 0.03  # most steps with one expansion, and nats below which one is the last
SLOW, STUCK = 0.25, 0.9  # ratios of promises beyond which the Hessian takes over, and beyond which steps end
NEARBY = 1.0  # nats from the mode where its steps need no halving
MANY_SLOTS = 50_000  # beyond which these nats grow with the slots: each moves by a thousandth of its error at most
CIRCLES, CIRCLING = 3, 0.8  # steps, and share of the last promise, from which a prior that follows scores goes round


@dataclass(frozen=True)
class Mode:
    """Where the posterior is largest.

    Attributes
    ----------
    scores : Scores
    last : Expansion
        Of the last Newton step.
    n_iter : int
    converged : bool
    """

    scores: Scores
    last: Expansion
    n_iter: int
    converged: bool

    @property
    def tau(self) -> float:
        """Size of the deviations."""
        return self.last.tau

    @cached_property
    def at(self) -> Expansion:
        """The posterior round the mode."""
        return replace(self.last, scores=self.scores, before=self.last.prior.precision, settled=True)

    @property
    def fit(self) -> float:
        """Negative log-likelihood over the dispersion, and that of the deviations."""
        deviations = 0.5 * float(self.scores.E @ self.scores.E) / self.tau**2 if self.tau > 0 else 0.0
        return self.scores.loss / self.last.dispersion + deviations


def find_mode(at: Expansion, *, near: bool = False, rough: float = 0.0, whole: bool = True) -> Mode:
    """Return the mode reached from the scores of an expansion by Newton steps, halved until the posterior grows.

    Where that is `near` the mode, steps are those of the Hessian at once. A step that promises less than `rough` nats
    is the last one, and one that makes a component vanish, unless the mode is wanted as a whole.
    """
    if at.tau == 0.0 and np.any(at.scores.E):
        at = replace(at, scores=replace(at.scores, E=np.zeros_like(at.scores.E)))
    expected, many = 0.0 if near else np.inf, max(1.0, at.scores.design.n_slots / MANY_SLOTS)
    for n_iter in range(1, MAX_ITER + 1):
        last_at, before = at, at.prior.precision
        gradient = at.gradient()
        close = expected < many * CLOSE
        factor = at.newton_factor() if close else at.factor
        step = factor.solve(gradient)
        dE = at.deviation_step(step)
        last, expected = expected, at.decrement(gradient, step, dE)
        scores, fall, scale = _stepped(at, step, dE)
        circling = many > 1.0 and n_iter > CIRCLES and expected > CIRCLING * last
        if not whole and scores.vanished:
            return _lighter(Mode(scores, at, n_iter, False))
        if circling or abs(fall) < many * DECREMENT or expected < max(rough, many * ENOUGH if close else 0.0):
            return _lighter(Mode(scores, at, n_iter, scale == 1.0))
        if scale == 1.0:
            scores, near_by, done = _small_steps(at, factor, scores, expected, rough, n_iter, exact=close)
            if done or (not whole and scores.vanished):
                return _lighter(Mode(scores, near_by, n_iter, done))
            before = near_by.prior.precision
        at = replace(at, scores=scores, before=before, settled=n_iter >= SETTLING)
    return _lighter(Mode(scores, last_at, n_iter, False))


def _stepped(at: Expansion, step: Floats, dE: Floats) -> tuple[Scores, float, float]:
    """Return the scores after a step, halved until the posterior grows, by how much it grows, and the share taken.

    A step that takes scores too far is the last one, and is not taken.
    """
    here, scale, trial = at.cost(at.scores), 1.0, at.scores.moved(step, dE)
    while (fall := here - at.cost(trial, scale * step)) < -DECREMENT and scale > SMALLEST_STEP:
        scale *= 0.5
        trial = at.scores.moved(scale * step, scale * dE)
    if fall >= -DECREMENT and np.abs(trial.low_rank).max() > max(FARTHEST, float(np.abs(at.scores.low_rank).max())):
        return at.scores, 0.0, scale
    return trial if fall >= -DECREMENT else at.scores, fall, scale


def _small_steps(
    at: Expansion, factor: Factor, scores: Scores, expected: float, rough: float, n_iter: int, *, exact: bool
) -> tuple[Scores, Expansion, bool]:
    """Return the scores after steps with an expansion from nearby, what the last was taken from, and if it is the end.

    The prior follows the scores. Where steps with A converge slowly, the Hessian takes over, unless it has (`exact`).
    """
    curvature, near = Curvature(at.scores.space, factor, 0.0), at
    many = max(1.0, scores.design.n_slots / MANY_SLOTS)
    for k in range(1, SMALL_STEPS + 1):
        near = near.at_scores(scores, n_iter + k > SETTLING)
        gradient, last = near.gradient(), expected
        step = -curvature.step(scores.space, gradient)[0]
        dE = near.deviation_step(step)
        expected = near.decrement(gradient, step, dE)
        if not exact and many * NEARBY > expected > max(SLOW * last, rough):
            exact, curvature, last = True, Curvature(scores.space, near.newton_factor(), 0.0), many * NEARBY
            step = curvature.factor.solve(gradient)
            dE = near.deviation_step(step)
            expected = near.decrement(gradient, step, dE)
        trial = scores.moved(step, dE)
        if expected > STUCK * last or near.cost(trial, step) - near.cost(scores) > max(expected, DECREMENT):
            break  # a loss as large as the promised gain
        scores = trial
        if expected < max(rough, many * LAST_PROMISE):
            return scores, near, True
    return scores, near, False


def _lighter(mode: Mode) -> Mode:
    """Return the mode with what votes say there, but without terms of cells and the last step."""
    for name in OF_VOTES:
        getattr(mode.at, name)
    _ = mode.scores.loss
    for scores in (mode.scores, mode.last.scores):
        scores.__dict__.pop("terms", None)
    for name in (*OF_VOTES, "_told", "residual", "information", "factor"):
        mode.last.__dict__.pop(name, None)
    return mode


# ------------------------------------------------------------------------------
# Many models: products with the precision go over votes, and nothing of size d1^2 is kept.
# ------------------------------------------------------------------------------

MANY_STEPS, STEP_TOL = 25, 0.03  # Newton steps by conjugate gradients, and the relative error of each
MOST_PRODUCTS = 500


@dataclass(frozen=True)
class RowBlocks:
    """Diagonal blocks of a precision in coordinates: of the rows of the model factor and of the eliminated mode."""

    models: Floats  # (d1, r1, r1)
    rows: Floats  # (dl, rl, rl)

    def row_blocks(self, part: slice, width: int) -> Floats:
        """Return the (width, width) matrices along the diagonal of a slice of the coordinates."""
        return self.rows if part.start else self.models


@dataclass(frozen=True)
class Joint(Expansion):
    """The posterior of a matrix of scores round some, L and E together: Q = K^T H K + P with K = [J, I].

    P is the prior of the coordinates and 1 / tau^2 of E. Shared effects are coordinates too, and H has their border. Q
    is only multiplied with, vote by vote. Conjugate gradients start from what it would be if all opponents were known,
    and scores for the effects: H becomes its diagonal, and models fall apart.

    Attributes
    ----------
    related : array (D, D) or None
        Covariance of the deviations of a model in all contexts, where they are not independent.
    """

    related: Floats | None = None

    @cached_property
    def votes(self) -> Floats:
        """Diagonal of H on the slots."""
        return self.scores.design.unsigned(self.cell_weights)

    @cached_property
    def own(self) -> Alone | Related:
        """The deviations of each model, with opponents known."""
        return Alone(self.tau, self.votes) if self.related is None else Related(self.related, self.votes)

    @cached_property
    def open_rows(self) -> Floats:
        """What of each model's row is not taken for deviations, with opponents known: (I - B h) V, (n_slots, r1)."""
        v = self.scores.space.V[self.scores.design.slot_places[0]]
        return np.asarray(v - self.own.left_open(self.votes[:, None] * v))

    @cached_property
    def information(self) -> RowBlocks:  # type: ignore[override]
        """Blocks of J^T W J with opponents known; of contexts, with W in the place of its diagonal."""
        design, space, (d1, r1) = self.scores.design, self.scores.space, self.scores.space.U.shape
        told = (self.votes[:, None] * self.open_rows)[:, None, :] * space.V[design.slot_places[0]][:, :, None]
        W = design.slot_matrix(self.votes - self.votes**2 * self.own.open_variance)
        models = design.by_model(told.reshape(-1, r1 * r1)).reshape(d1, r1, r1)
        return RowBlocks(models, space.E[0].T @ outer_sums(W, space.U) @ space.E[0])

    @cached_property
    def row_inverses(self) -> RowBlocks:
        """Inverses of these blocks with the prior."""
        space, told = self.scores.space, self.information
        prior = self.prior.precision
        models = prior[space.slices[0]].reshape(told.models.shape[:2])
        rows = prior[space.slices[space.mode]].reshape(told.rows.shape[:2])
        return RowBlocks(_inverses(told.models, models), _inverses(told.rows, rows))

    @cached_property
    def effect_inverse(self) -> Floats:
        """Inverse information of the effects with scores known, zero along what votes do not tell, (k, k)."""
        return np.asarray(np.linalg.pinv(self.effects[1], hermitian=True))

    def within_gauge(self, x: Floats) -> Floats:
        """Return columns of coordinates without moves of the model factor that only turn it, or shift all models."""
        space, out = self.scores.space, x.copy()
        dU = out[space.slices[0]].reshape(len(space.U), -1)
        dU -= space.U @ (space.U.T @ dU)
        dU -= dU.mean(axis=0)
        return out

    def times(self, z: Floats) -> Floats:
        """Return Q times columns of coordinates and deviations, (size + n_slots, m)."""
        design, space = self.scores.design, self.scores.space
        x, E = z[: space.size], z[space.size :]
        changes, (c, corner) = design.push_columns(space, x) + E, self.effects
        pulled = self.informed(changes)
        if len(corner):
            pulled += c @ x[space.extra]
        along = design.pull_columns(space, pulled)
        along[space.extra] = c.T @ changes + corner @ x[space.extra]
        along = self.within_gauge(along + self.prior.precision[:, None] * x)
        return np.concatenate([along, pulled + self.own.weighed(E) if self.tau > 0.0 else E])

    def by_rows(self, r: Floats, *, models_only: bool = False) -> Floats:
        """Return the solution for columns r with opponents known; with `models_only`, contexts and effects too."""
        design, space = self.scores.design, self.scores.space
        rx, rE = r[: space.size], r[space.size :]
        votes, m = self.votes[:, None], r.shape[1]
        left, x = rx - design.pull_columns(space, votes * self.own.left_open(rE)), np.zeros_like(rx)
        models, rows = space.slices[0], space.slices[space.mode]
        inverses = self.row_inverses
        if models_only:
            x[models] = (inverses.models @ left[models].reshape(*space.U.shape, m)).reshape(-1, m)
        else:
            left = self.within_gauge(left)
            x[models] = (inverses.models @ left[models].reshape(*space.U.shape, m)).reshape(-1, m)
            x[rows] = (inverses.rows @ left[rows].reshape(*inverses.rows.shape[:2], m)).reshape(-1, m)
            x[space.extra] = self.effect_inverse @ left[space.extra]
            x = self.within_gauge(x)
        return np.concatenate([x, self.own.left_open(rE - votes * design.push_columns(space, x))])

    def solve(self, rhs: Floats, tol: float) -> Floats:
        """Return Q^-1 times columns by conjugate gradients, to a relative error."""
        out, left = np.zeros_like(rhs), rhs.copy()
        size = self.scores.space.size
        left[:size] = self.within_gauge(left[:size])
        z = self.by_rows(left)
        direction, rho = z, np.einsum("im,im->m", left, z)
        target = tol**2 * rho
        for _ in range(MOST_PRODUCTS):
            if np.all(rho <= target):
                break
            applied = self.times(direction)
            step = rho / np.maximum(np.einsum("im,im->m", direction, applied), 1e-300)
            out += step * direction
            left -= step * applied
            z = self.by_rows(left)
            rho, before = np.einsum("im,im->m", left, z), rho
            direction = z + rho / np.maximum(before, 1e-300) * direction
        return out

    def slopes(self) -> Floats:
        """Return the gradient of the log posterior in coordinates and deviations, as one column."""
        design, space, E = self.scores.design, self.scores.space, self.scores.E
        prior = within_gauge(space, self.prior.precision * (factor_entries(space) - self.prior.mean))
        own = self.g - self.own.weighed(E[:, None])[:, 0] if self.tau > 0.0 else np.zeros_like(E)
        along = design.pull_sums(space, self.g) - prior
        along[space.extra] = self.effect_gradient
        return np.concatenate([along, own])[:, None]

    def cost(self, scores: Scores, step: Floats | float = 0.0) -> float:
        """Return the negative log posterior at the scores that a step in coordinates leads to."""
        deviations = 0.5 * float(scores.E @ self.own.weighed(scores.E[:, None])[:, 0])
        return scores.loss / self.dispersion + deviations + self._prior_cost(scores, step)

    def refined(self, parts: Sequence[Floats]) -> tuple[float, Floats | None]:
        """Return the tau of most evidence, if larger, and the covariance (D, D) of a model's deviations with parts.

        Opponents are taken as known, which makes deviations rather too small, but all votes tell of them: tau may come
        from some. Part of the variance is along `parts` (D, D), labels that contexts have in common.
        """
        design, space = self.scores.design, self.scores.space
        on_slots = self.votes, self.votes * self.scores.E + self.g
        votes, told = (as_dense(design.slot_matrix(values)).T for values in on_slots)
        row, every = self.prior.precision[space.slices[0]].reshape(space.U.shape), [np.eye(len(space.V)), *parts]
        alone = float(fitted_variances(votes, told, space.V, row, every[:1])[0])
        if not parts:
            return float(np.sqrt(max(self.tau**2, alone))), None
        variances = fitted_variances(votes, told, space.V, row, every) * max(1.0, self.tau**2 / alone)
        return float(np.sqrt(variances[0])), np.tensordot(variances, np.stack(every), 1)


def _inverses(blocks: Floats, diagonal: Floats) -> Floats:
    """Return inverses of blocks (n, r, r) plus diagonals (n, r)."""
    return np.asarray(np.linalg.inv(blocks + diagonal[:, :, None] * np.eye(blocks.shape[1])))


def find_joint_mode(
    scores: Scores,
    tau: float,
    dispersion: float,
    gauge: float,
    before: Floats | None = None,
    related: Floats | None = None,
) -> Mode:
    """Return the mode reached from some scores where models are many; `before` is a precision of the prior nearby."""
    if tau == 0.0:
        scores = replace(scores, E=np.zeros_like(scores.E))
    many = max(1.0, scores.design.n_slots / MANY_SLOTS)
    for n_iter in range(1, MANY_STEPS + 1):
        at = Joint(scores, tau, dispersion, gauge, before, n_iter > SETTLING, related)
        before, slopes = at.prior.precision, at.slopes()
        step = at.solve(slopes, STEP_TOL)
        expected = 0.5 * float(slopes[:, 0] @ step[:, 0])
        size = scores.space.size
        scores, fall, scale = _stepped(at, step[:size, 0], step[size:, 0])
        if abs(fall) < many * DECREMENT or expected < many * ENOUGH:
            return Mode(scores, at, n_iter, scale == 1.0)
    return Mode(scores, at, n_iter, False)


def start_scores(design: BlockDesign, point: Tucker) -> Scores:
    """Return low-rank scores without deviations; not quite zero where all battles cancel, as zero has no directions.

    Nor so large that votes have no information there: single votes in a context make wild guesses.
    """
    least = LEAST_START * design.noise
    if not point.singular_values[0][0] > least:
        line = np.linspace(-1.0, 1.0, design.shape[0])[:, None]
        ones = [np.ones((size, 1)) for size in design.shape[1:]]
        flat = Tucker(np.ones((1,) * len(design.shape)), (line, *ones)).canonical()
        point = replace(flat, core=flat.core * (least / flat.singular_values[0][0]))
    found = Scores(design, design.space(point), np.zeros(design.n_slots))
    largest = float(np.abs(found.low_rank).max())
    if largest > LARGEST_START:
        return replace(found, space=design.space(replace(point, core=point.core * (LARGEST_START / largest))))
    return found
