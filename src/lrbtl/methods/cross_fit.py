"""Moments of targets and boards from the steps of all folds, or of the full sample."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.labels import context_name
from lrbtl.data.observations import Data
from lrbtl.errors import SingularInformationError
from lrbtl.fitting.local import Local
from lrbtl.fitting.low_rank import Fit
from lrbtl.fitting.solvers import KrylovSolver, Solver, needs_krylov
from lrbtl.lowrank.arrowhead import Blocks, inverse_blocks
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.methods.base import FamilyKind, Improvements, Moments, Provenance, Run, joined
from lrbtl.methods.clusters import Rows
from lrbtl.methods.naive import SeparateFits
from lrbtl.methods.one_step import Coordinates, FewGradients, FoldStep, ScoreView, evaluate_targets, evaluated
from lrbtl.methods.standard_errors import (
    VarianceNoise,
    all_gap_variances,
    all_score_variances,
    believed_covariance,
    believed_variances,
    mean_covariances,
    mean_jacobian,
    sandwich_blocks,
    sandwich_border,
    widening,
)
from lrbtl.methods.targets import Resolved, Stack, evaluate
from lrbtl.model.links import LOGISTIC, Link
from lrbtl.threads import one_blas_thread, ordered_map
from lrbtl.typing import Bools, Floats, Longs

LARGEST_SCORE = 20.0  # battles at hand cannot distinguish larger scores, or larger log odds, from infinity
NEGLIGIBLE_ROW = 1e-9  # share of the largest row of a factor, below which a context or a model has none
MOVED = 1e-6  # share of a direction without information below which it leaves a score alone
PULL_BUDGET = 2**24  # numbers that the gradients of one batch of targets may fill
BATCH = 512  # targets whose errors are computed at a time, where they are few
EVERY_IMPROVEMENT = Improvements()
TOGETHER = 256  # boards whose covariances are computed at a time


@dataclass(frozen=True)
class Sandwich:
    """Estimates of M targets with the ingredients of their errors."""

    values: Floats  # (M,)
    cov: Floats  # (M, M) from influence values out of fold or of the full sample; (M,) where only variances matter
    # (M,) model-based standard errors: what an efficient estimate has if every vote is a plain win or loss
    bound: Floats
    # variance of the votes over that of wins and losses; 0 where responses have no variance that a model knows
    dispersion: float
    variance_noise: Floats  # (M,) variance of the log of the estimated variance
    improved: Improvements = EVERY_IMPROVEMENT

    def reported(self) -> Moments:
        """Return the moments to show, with an allowance for the noise of their own variances."""
        wider = widening(self.variance_noise) if self.improved.allowance else np.ones(len(self.values))
        model = np.sqrt(self.dispersion) * self.bound if self.improved.model_floor else np.zeros(len(self.values))
        if self.cov.ndim == 1:
            se = wider * np.sqrt(believed_variances(self.cov, model**2))
            return Moments(self.values, None, se, self.variance_noise, self.bound)
        cov = believed_covariance(self.cov, model) * np.outer(wider, wider)
        return Moments(self.values, cov, np.sqrt(np.diag(cov)), self.variance_noise, self.bound)


@dataclass(frozen=True)
class Information:
    """The information at a point, ready to solve with."""

    space: TangentSpace
    solver: Solver


class OneStepRun(Run):
    """Steps that turn any target into an estimate with a covariance.

    Parameters
    ----------
    fit : Fit
        To all battles.
    provenance : Provenance
    steps : list of FoldStep
        One per fold, or one in all.
    full : FoldStep or None
        The step of the full sample, where standard errors come from it.
    reference : Information or None
        The efficient information, where the steps do not use it: what it does not identify, they do not either.
    improved : Improvements or None
        Of standard errors; all by default.
    """

    fit: Fit
    data: Data
    link: Link
    provenance: Provenance
    improved: Improvements
    steps: list[FoldStep]
    full: FoldStep | None
    reference: Information | None

    def __init__(
        self,
        fit: Fit,
        provenance: Provenance,
        steps: list[FoldStep],
        full: FoldStep | None = None,
        reference: Information | None = None,
        improved: Improvements | None = None,
    ) -> None:
        self.improved = EVERY_IMPROVEMENT if improved is None else improved
        self.fit, self.data, self.link, self.provenance = fit, fit.battles, fit.link, provenance
        self.steps, self.full, self.reference = steps, full, reference

    @property
    def n(self) -> float:
        """Number of battles."""
        return sum(step.n for step in self.steps)

    @cached_property
    def dispersion(self) -> float:
        """Variance of the votes over that of wins and losses: 1 without ties and soft votes."""
        return Local.of(self.fit.design, self.fit.point).dispersion

    # --------------------------------------------------------------------------
    # Listed targets.
    # --------------------------------------------------------------------------

    def vote_moments(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Moments:
        """Return estimates with the covariance to report, or errors; NaN for targets that run to infinity."""
        if not errors_only:
            return self._finite(self.sandwich(targets), targets)
        space = self.steps[0].space
        many = len(targets) > space.size and not any(isinstance(x.solver, KrylovSolver) for x in self._breads)
        size = max(1, PULL_BUDGET // (space.size + space.V.size)) if many else BATCH
        parts = []
        for first in range(0, len(targets), size):
            part = targets[first : first + size]
            parts.append(self._finite(self.sandwich(part, joint=not many), part))
        return joined(parts)

    def _finite(self, found: Sandwich, targets: Sequence[Resolved]) -> Moments:
        """Return what is reported of targets, NaN for those of scores that the steps do not identify."""
        if not self._unknown.any():
            return found.reported()
        _, gradients = evaluate(targets, ScoreView(self.steps[0].space, self.data.shape, self.steps[0].link))
        far = self._diverges & ~(np.abs(found.values) < LARGEST_SCORE)
        return found.reported().without(gradients.touch(self._lost) | far)

    @one_blas_thread
    def sandwich(self, targets: Sequence[Resolved], *, joint: bool = True) -> Sandwich:
        """Return estimates, covariance (or variances) and model-based errors of targets."""
        M, stack = len(targets), Stack.of(targets)
        values, cov, model, loose = np.zeros(M), np.zeros((M, M) if joint else M), np.zeros(M), VarianceNoise((M,))

        def at(bread: FoldStep | Information, link: Link) -> tuple[Floats, Coordinates]:
            values = bread.effect_values if isinstance(bread, FoldStep) else None
            found = evaluated(ScoreView(bread.space, self.data.shape, link, values), stack, joint=joint)
            _check_touched(bread, found[1].touched(bread.solver), targets, self.data)
            return found

        for step in self.steps:
            plain, gradients = at(step, step.link)
            share = step.n / self.n
            values += share * (plain + gradients.dot(step.delta))
            if self.full is None:
                covariance, bound = gradients.sandwich(step)
                cov += share * covariance
                model += share * bound
                loose.add(bound)
        if self.full is not None:
            cov, model = at(self.full, self.full.link)[1].sandwich(self.full)
        if self.reference is not None:
            model = at(self.reference, self.link)[1].variances(self.reference.solver)
        parts = cov / self.n, np.sqrt(model / self.n), self.dispersion, loose.value()
        return Sandwich(values, *parts, self.improved)

    @one_blas_thread
    def influence_rows(self, targets: Sequence[Resolved]) -> Rows:
        """Return the influences of votes in some cells, each in its own fold."""
        stack, moves, places = Stack.of(targets), [], []
        steps = self.steps if self.full is None else [self.full]
        count = self.data.cells.count
        for step in steps:
            view = ScoreView(step.space, self.data.shape, step.link, step.effect_values)
            _, gradients = evaluated(view, stack, joint=True)
            assert isinstance(gradients, FewGradients) and step.inside is not None and step.votes is not None
            directions = step.solver.solve(gradients.columns) / self.n
            moves.append((step.changes(directions), directions[step.space.extra]))
            place = np.full(self.data.n_cells, -1)
            place[step.inside] = np.arange(len(step.inside))
            places.append(place)

        def rows(cells: Longs) -> Floats:
            out = np.zeros((len(cells), len(targets)))
            for step, move, place in zip(steps, moves, places, strict=True):
                here = np.flatnonzero(place[cells] >= 0)
                at = place[cells[here]]
                assert step.votes is not None
                share = step.votes.design.count[at] * step.n / count[cells[here]]
                out[here] += share[:, None] * step.influence_rows(*move, at)
            return out

        return rows

    def influence_moments(self, targets: Sequence[Resolved]) -> tuple[Floats, Floats]:
        """Return the mean square and the largest size of the influence values of each target, fold by fold."""
        stack, squares, largest = Stack.of(targets), np.zeros(len(targets)), np.zeros(len(targets))
        for share, step in self._error_steps:
            view = ScoreView(step.space, self.data.shape, step.link, step.effect_values)
            _, gradients = evaluated(view, stack, joint=True)
            assert isinstance(gradients, FewGradients) and step.votes is not None
            for i, direction in enumerate(step.solver.solve(gradients.columns).T):
                square, size = step.votes.influence(np.ascontiguousarray(direction))
                squares[i] += share * square
                largest[i] = max(largest[i], size)
        return squares, largest

    def leans_on(self, has_votes_elsewhere: bool) -> str:
        """Return what the score of a model with few or no votes on a board rests on."""
        return "score mostly inferred from its other categories" if has_votes_elsewhere else ""

    @cached_property
    def separate_errors(self) -> SeparateFits | None:
        """Precision of one fit per context at these scores; None for observed entries."""
        if not isinstance(self.data, Battles):
            return None
        return SeparateFits(self.data, ScoreView(self.fit.design.space(self.fit.point), self.data.shape, self.link))

    # --------------------------------------------------------------------------
    # Families and boards: one inverse per fold serves all of them.
    # --------------------------------------------------------------------------

    @cached_property
    def _scores(self) -> Floats:
        return np.asarray(sum(step.n / self.n * _one_step_scores(step) for step in self.steps))

    def scores(self) -> Floats:
        """Return the one-step estimates of all scores, (d1, D); NaN where the steps do not identify them."""
        return np.where(self._unknown, np.nan, self._scores)

    @cached_property
    def _lost(self) -> Bools:
        """Scores that run to infinity, from the median, as they would take the mean along; those nothing moves."""
        stuck = np.logical_and.reduce([_stuck_scores(step.space) for step in self.steps])
        if self.reference is not None:
            stuck |= _stuck_scores(self.reference.space)
        if not self.link.separable:
            return np.asarray(stuck)
        middle = np.median(self._scores, axis=0) if isinstance(self.data, Battles) else 0.0
        away = self._scores - middle
        near = np.clip(away, -LARGEST_SCORE, LARGEST_SCORE).reshape(-1)
        odds = self.link.log_odds(near)[0].reshape(away.shape)  # light tails: 6 probits are 20 logits
        return np.asarray(~(np.maximum(np.abs(away), np.abs(odds)) < LARGEST_SCORE) | stuck)

    @property
    def _diverges(self) -> bool:
        """Whether scores can run to infinity, and take the mean of all models along."""
        return isinstance(self.data, Battles) and self.link.separable

    @cached_property
    def _unknown(self) -> Bools:
        """Scores less the mean of all models that are not identified: those lost, and those that depend on them."""
        return self._lost | (self._diverges & ~(np.abs(self._scores) < LARGEST_SCORE))

    @property
    def _breads(self) -> list[FoldStep | Information]:
        return [*self.steps, *([] if self.reference is None else [self.reference])]

    @property
    def determined(self) -> bool:
        """Whether the battles of all folds inform every direction of the scores."""
        return all(bread.solver.null is None for bread in self._breads)

    def placed(self, weights: Floats) -> Bools:
        """Return which models have a finite mean score that the battles determine."""
        used = np.flatnonzero(weights)
        kept = np.asarray(~self._lost[:, used].any(axis=1))
        for bread in self._breads:
            kept = _determined_together(bread, weights, kept)
        return kept

    def vote_score_moments(self, weights: Floats, among: Bools | None = None) -> list[Moments]:
        """Return the moments of all models' mean scores for each row of weights (B, D); see `Run.score_moments`."""
        space = self.steps[0].space
        if len(weights) < space.U.shape[1] or not self.determined or needs_krylov(space, "auto"):
            return super().vote_score_moments(weights, among)
        found: list[Sandwich] = []
        for first in range(0, len(weights), TOGETHER):
            part = slice(first, first + TOGETHER)
            found += self.mean_sandwiches(weights[part], None if among is None else among[part])
        out = []
        for i, each in enumerate(found):
            lost = ~self.placed(weights[i])
            if among is not None and lost[among[i]].any():
                lost[:] = True
            out.append(each.reported().without(lost))
        return out

    @one_blas_thread
    def mean_sandwiches(self, weights: Floats, among: Bools | None = None) -> list[Sandwich]:
        """Return `sandwich` of every model's mean score, for each row of weights (B, D) of contexts."""
        self._check_determined("scores")
        shape = len(weights), self.data.shape[0]
        centre = _centrings(among)
        cov, model, loose = np.zeros((*shape, shape[1])), np.zeros(shape), VarianceNoise(shape)
        shares, steps = zip(*self._error_steps, strict=True)
        found = ordered_map(lambda step: _mean_moments(step, weights, centre), steps, self.fit.n_threads)
        for share, (covariances, own) in zip(shares, found, strict=True):
            cov += share * covariances
            model += share * own
            loose.add(own)
        if self.reference is not None:
            space, solver = self.reference.space, self.reference.solver
            v, R = mean_jacobian(space, weights)
            model = _diagonals(centre(mean_covariances(space, v, R, solver.inverse().border, solver.solve(R))))
        bound, noise = np.sqrt(np.maximum(model, 0.0) / self.n), loose.value()
        values = weights @ self._scores.T
        inside = np.ones(shape, dtype=np.bool_) if among is None else among
        if isinstance(self.data, Battles) or among is not None:
            values = values - (values * inside).sum(axis=1, keepdims=True) / inside.sum(axis=1, keepdims=True)
        rows = range(len(weights))
        spread, improved = self.dispersion, self.improved
        return [Sandwich(values[i], cov[i] / self.n, bound[i], spread, noise[i], improved) for i in rows]

    def vote_family(self, kind: FamilyKind) -> tuple[Floats, Floats]:
        """Return estimates and errors of all scores or gaps; NaN where they run to infinity."""
        self._check_determined(kind)
        if kind == "scores":
            return self._family(self._scores, self._unknown, all_score_variances)
        a, b = np.triu_indices(len(self._scores), 1)
        return self._family(self._scores[a] - self._scores[b], self._lost[a] | self._lost[b], all_gap_variances)

    @one_blas_thread
    def _family(
        self, values: Floats, lost: Bools, variances_of: Callable[[TangentSpace, Blocks], Floats]
    ) -> tuple[Floats, Floats]:
        sandwich, model, loose = np.zeros_like(values), np.zeros_like(values), VarianceNoise(values.shape)

        def of_step(step: FoldStep) -> tuple[Floats, Floats]:
            inverse = step.solver.inverse()
            robust = variances_of(step.space, sandwich_blocks(inverse, step.meat))
            return robust, variances_of(step.space, inverse_blocks(inverse))

        shares, steps = zip(*self._error_steps, strict=True)
        for share, (robust, bound) in zip(shares, ordered_map(of_step, steps, self.fit.n_threads), strict=True):
            sandwich += share * robust
            model += share * bound
            loose.add(bound)
        if self.reference is not None:
            model = variances_of(self.reference.space, inverse_blocks(self.reference.solver.inverse()))
        floor = self.dispersion * model if self.improved.model_floor else np.zeros_like(model)
        errors = np.sqrt(believed_variances(sandwich, floor) / self.n)
        if self.improved.allowance:
            errors *= widening(loose.value())
        return np.where(lost, np.nan, values), np.where(lost, np.nan, errors)

    @property
    def _error_steps(self) -> list[tuple[float, FoldStep]]:
        """The steps that standard errors come from, with their shares of the battles."""
        return [(1.0, self.full)] if self.full is not None else [(step.n / self.n, step) for step in self.steps]

    def _check_determined(self, what: str) -> None:
        """Raise where any direction is without information: a family of all scores or gaps touches it."""
        for bread in self._breads:
            if bread.solver.null is not None:
                raise _undetermined(bread, 0, f"all {what if isinstance(self.data, Battles) else 'entries'}", self.data)


def _mean_moments(step: FoldStep, weights: Floats, centre: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Return a step's moments of mean scores: covariances (B, d1, d1) and model-based variances (B, d1), per battle."""
    space, inverse = step.space, step.solver.inverse()
    v, R = mean_jacobian(space, weights)
    solved = step.solver.solve(R)
    product = step.solver.solve(step.meat @ solved)
    covariances = mean_covariances(space, v, R, sandwich_border(inverse, step.meat), product)
    return centre(covariances), _diagonals(centre(mean_covariances(space, v, R, inverse.border, solved)))


def _diagonals(matrices: Floats) -> Floats:
    return np.asarray(np.einsum("baa->ba", matrices))


def _centrings(among: Bools | None) -> Callable[[Floats], Floats]:
    """Return what turns covariances (B, d1, d1) of scores into those of scores less the mean `among` some models."""
    if among is None or among.all():
        return lambda covariances: covariances
    share = among / among.sum(axis=1, keepdims=True)

    def centre(covariances: Floats) -> Floats:
        rows = covariances - np.einsum("bk,bkj->bj", share, covariances)[:, None, :]
        return np.asarray(rows - np.einsum("bik,bk->bi", rows, share)[:, :, None])

    return centre


def _one_step_scores(step: FoldStep) -> Floats:
    """Return T_k + J delta_k, (d1, D)."""
    dU, dV = step.space.push(step.delta)
    return (step.space.U + dU) @ step.space.V.T + step.space.U @ dV.T


# ------------------------------------------------------------------------------
# Directions that no battle informs, and scores that no direction moves.
# ------------------------------------------------------------------------------


def _stuck_scores(space: TangentSpace) -> Bools:
    """Return the scores (d1, D) that are zero and stay so: of contexts that a fit leaves out, or of models there.

    dT = dU V^T + U dV^T is zero where both rows are, and in contexts whose row is zero and cannot move.
    """
    sizes = [np.linalg.norm(x, axis=1) for x in (space.U, space.V)]
    models, contexts = (size <= NEGLIGIBLE_ROW * size.max() for size in sizes)
    left_out = contexts.copy()
    for u in np.flatnonzero(contexts):
        left_out[u] = np.abs(mean_jacobian(space, np.eye(len(contexts))[[u]])[1]).max() <= NEGLIGIBLE_ROW
    return np.asarray((models[:, None] & contexts) | left_out)


def _determined_together(bread: FoldStep | Information, weights: Floats, kept: Bools) -> Bools:
    """Return the largest group of the kept models whose mean scores move together where there is no information."""
    space = bread.space
    for column in () if bread.solver.null is None else bread.solver.null.T:
        dU, dV = space.push(np.ascontiguousarray(column))
        change = dU @ (space.V.T @ weights) + space.U @ (dV.T @ weights)
        scale = np.linalg.norm(dU) * np.linalg.norm(space.V) + np.linalg.norm(space.U) * np.linalg.norm(dV)
        order = np.flatnonzero(kept)[np.argsort(change[kept], kind="stable")]
        groups = np.split(order, np.flatnonzero(np.diff(change[order]) > MOVED * scale) + 1)
        kept = np.isin(np.arange(len(kept)), max(groups, key=len))
    return kept


def _check_touched(bread: FoldStep | Information, hit: Bools, targets: Sequence[Resolved], data: Data) -> None:
    """Raise where targets touch a direction without information, as `hit` says of each."""
    if hit.any():
        first, more = targets[int(np.argmax(hit))], f" (and {hit.sum() - 1} more targets)" if hit.sum() > 1 else ""
        _, gradients = evaluate_targets(bread.space, Stack.of([first]), data.shape, LOGISTIC)
        overlap = np.abs(np.asarray(bread.solver.null).T @ gradients[:, 0])
        raise _undetermined(bread, int(np.argmax(overlap)), first.label + more, data)


def _undetermined(bread: FoldStep | Information, column: int, what: str, data: Data) -> SingularInformationError:
    """Return the error that names what a direction without information involves."""
    assert bread.solver.null is not None
    dU, dV = bread.space.push(bread.solver.null[:, column])
    models, contexts = np.linalg.norm(dU @ bread.space.V.T, axis=1), np.linalg.norm(bread.space.U @ dV.T, axis=0)
    floor = 1e-6 * max(models.max(), contexts.max())
    involved = [f"{data.axes[0]} {data.models[i]}" for i in _largest(models, floor)]
    if len(data.shape) > 1:
        involved += [f"{data.axes[1]} {context_name(data.context_label(i))}" for i in _largest(contexts, floor)]
    instead = "use method='hierarchical'" if isinstance(data, Battles) else "use a smaller rank"
    return SingularInformationError(
        f"the {data.unit} do not determine {what}: at rank {bread.space.point.rank} nothing informs a "
        f"direction that involves {', '.join(involved)}. Add {data.unit} there, or {instead}."
    )


def _largest(sizes: Floats, floor: float) -> list[int]:
    """Return the positions of up to three sizes that stand out."""
    return [int(i) for i in np.argsort(-sizes)[:3] if sizes[i] > max(0.3 * sizes.max(), floor)]
