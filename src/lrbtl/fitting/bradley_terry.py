"""Plain Bradley-Terry by damped Newton, many independent problems at a time.

A problem is a set of models 0..size-1 whose win digraph is strongly connected, so that its maximum exists. Battles
enter as pairs: problem, i, j, weight (number of battles) and mean (average outcome of i). The problems of one batch are
padded to a common size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lrbtl.model.links import logistic_terms
from lrbtl.typing import AnyInts, Bools, Floats

MAX_ITER = 100
DECREMENT = 1e-10  # squared Newton decrement: the last step is 1e-5 standard errors, what it leaves its square
ARMIJO = 1e-4
MAX_HALVINGS = 50
HC3_FLOOR = 0.1  # least 1 - h that a residual is divided by: one battle alone has h = 1
CHOLESKY_SIZE = 48  # where half the arithmetic outweighs a call from Python per problem


@dataclass(frozen=True)
class Pairs:
    """Battles by pair: arrays (n_pairs,) of problem, models i and j, weight and mean outcome of i; no pair twice."""

    problem: AnyInts
    i: AnyInts
    j: AnyInts
    weight: Floats
    mean: Floats

    def of(self, kept: Bools) -> Pairs:
        """Return the pairs of the kept problems, renumbered from zero."""
        if kept.all():
            return self
        keep = kept[self.problem]
        problem = (np.cumsum(kept) - 1)[self.problem[keep]]
        return Pairs(problem, self.i[keep], self.j[keep], self.weight[keep], self.mean[keep])


@dataclass(frozen=True)
class Maxima:
    """Maxima of a batch: scores (n_problems, width), zero-sum and zero in the padding; converged (n_problems,)."""

    scores: Floats
    converged: Bools


def fit_batch(pairs: Pairs, sizes: AnyInts, precision: float = 0.0) -> Maxima:
    """Return the maximum-likelihood scores of each problem by Newton steps, halved until the likelihood grows enough.

    Parameters
    ----------
    pairs : Pairs
        Battles of all problems.
    sizes : (n_problems,) array of int
        Number of models in each problem.
    precision : float
        Of a normal prior on each score; with one the maximum always exists.
    """
    width = int(sizes.max())
    scores = np.zeros((sizes.size, width))
    converged = np.zeros(sizes.size, dtype=np.bool_)
    at = _evaluate(pairs, scores, precision)
    for _ in range(MAX_ITER):
        step = _solve(information(pairs, at.fisher, at.theta.shape), at.gradient, sizes, precision)
        decrement = np.einsum("pi,pi->p", at.gradient, step)
        near = decrement < DECREMENT
        active = np.flatnonzero(~converged)
        scores[active] = at.theta + step
        converged[active[near]] = True
        if near.all():
            break
        pairs, sizes = pairs.of(~near), sizes[~near]
        at = _search(pairs, at.theta[~near], step[~near], at.loss[~near], decrement[~near], precision)
        scores[active[~near]] = at.theta
    return Maxima(scores, converged)


def pair_cells(
    context: AnyInts, a: AnyInts, b: AnyInts, y: Floats, count: AnyInts
) -> tuple[AnyInts, AnyInts, AnyInts, Floats, Floats]:
    """Return context, a, b, number of battles and mean outcome of the distinct pairs of sorted cells."""
    new = np.ones(a.size, dtype=np.bool_)
    new[1:] = (np.diff(context) != 0) | (np.diff(a) != 0) | (np.diff(b) != 0)
    first = np.flatnonzero(new)
    weight = np.add.reduceat(count, first).astype(np.float64)
    return context[first], a[first], b[first], weight, np.add.reduceat(count * y, first) / weight


def information(pairs: Pairs, weight: Floats, shape: tuple[int, ...]) -> Floats:
    """Return Σ weight (e_i - e_j)(e_i - e_j)ᵀ of each problem, (n_problems, width, width)."""
    n_problems, width = shape
    out = np.zeros((n_problems, width, width))
    out[pairs.problem, pairs.i, pairs.j] = -weight
    out[pairs.problem, pairs.j, pairs.i] = -weight
    models = np.arange(width)
    out[:, models, models] = -out.sum(axis=2)
    return out


def sum_by(index: AnyInts, values: Floats, size: int) -> Floats:
    """Return the sums of the values with equal index, (size,)."""
    return np.bincount(index, values, size).astype(np.float64, copy=False)


def laplacian(i: AnyInts, j: AnyInts, weight: Floats, size: int) -> Floats:
    """Return Σ weight (e_i - e_j)(e_i - e_j)ᵀ, (size, size); a pair may occur more than once.

    >>> laplacian(np.array([0, 0]), np.array([1, 1]), np.array([1.0, 2.0]), 2)
    array([[ 3., -3.],
           [-3.,  3.]])
    """
    upper = sum_by(i.astype(np.intp) * size + j, weight, size * size).reshape(size, size)
    links = upper + upper.T
    return np.asarray(np.diag(links.sum(axis=1)) - links)


def centred_inverse(matrix: Floats) -> Floats:
    """Return the pseudo-inverse of one connected (d, d) Laplacian, the inverse on zero-sum vectors; raise for zero.

    >>> centred_inverse(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    d = matrix.shape[0]
    level = np.trace(matrix) / d**2
    if not level > 0:
        raise np.linalg.LinAlgError("Singular matrix")
    return np.asarray(np.linalg.inv(matrix + level) - 1.0 / (level * d * d))


def score_covariances(
    a: AnyInts, b: AnyInts, y: Floats, count: AnyInts, theta: Floats, *, hc3: bool = True, precision: float = 0.0
) -> tuple[Floats, Floats]:
    """Return the model-based and the sandwich covariance of zero-sum scores theta: H⁺ and H⁺ G H⁺, both (d, d).

    H = Σ n I x xᵀ and G = Σ n s² x xᵀ, with HC3 G = Σ n (s / (1 - h))² x xᵀ. h = I xᵀ H⁺ x is the leverage of one
    battle: with few battles residuals are too small by that much. Under a normal prior H has its precision added.
    """
    _, score, fisher = logistic_terms(theta[a] - theta[b], np.ascontiguousarray(y))
    if precision:
        inverse = np.linalg.inv(laplacian(a, b, count * fisher, theta.size) + precision * np.eye(theta.size))
        model = np.asarray(inverse - 1.0 / (precision * theta.size), dtype=np.float64)
    else:
        model = centred_inverse(laplacian(a, b, count * fisher, theta.size)) if theta.size > 1 else np.zeros((1, 1))
    if hc3:
        own = np.diag(model)
        leverage = fisher * (own[a] + own[b] - 2.0 * model[a, b])
        score = score / np.maximum(1.0 - leverage, HC3_FLOOR)
    return model, np.asarray(model @ laplacian(a, b, count * score**2, theta.size) @ model)


def _solve(matrices: Floats, gradient: Floats, sizes: AnyInts, precision: float) -> Floats:
    """Return the zero-sum solution of each Laplacian system and zeros in the padding; overwrites the Laplacians."""
    inside = np.arange(gradient.shape[1]) < sizes[:, None]
    problem, outside = np.nonzero(~inside)
    matrices[problem, outside, outside] = 1.0
    if precision:
        models = np.arange(matrices.shape[1])
        matrices[:, models, models] += precision
    else:
        # a load on model 0 makes the system definite; as the gradient sums to zero, it only fixes that model at zero
        matrices[:, 0, 0] *= 2.0
    solution = _solve_definite(matrices, gradient)
    mean = solution.sum(axis=1) / sizes
    return np.asarray(solution - np.where(inside, mean[:, None], 0.0))


def _solve_definite(matrices: Floats, right: Floats) -> Floats:
    """Return the solutions of positive definite systems: one batched call for small ones, Cholesky for large ones."""
    if matrices.shape[1] < CHOLESKY_SIZE:
        return np.asarray(np.linalg.solve(matrices, right[:, :, None])[:, :, 0])
    from scipy.linalg.lapack import dposv  # a slow import that small problems do not need

    return np.stack(
        [dposv(matrix.T, vector, lower=1, overwrite_a=1)[1] for matrix, vector in zip(matrices, right, strict=True)]
    )


@dataclass(frozen=True)
class _Point:
    """Scores (n_problems, width) with the loss, the gradient of the log-likelihood and each pair's information."""

    theta: Floats
    loss: Floats
    gradient: Floats
    fisher: Floats


def _evaluate(pairs: Pairs, theta: Floats, precision: float) -> _Point:
    n_problems, width = theta.shape
    i, j = pairs.problem * width + pairs.i, pairs.problem * width + pairs.j
    flat = theta.ravel()
    loss, score, fisher = logistic_terms(flat[i] - flat[j], pairs.mean)
    score *= pairs.weight
    gradient = sum_by(i, score, theta.size) - sum_by(j, score, theta.size)
    total = sum_by(pairs.problem, loss * pairs.weight, n_problems) + 0.5 * precision * np.square(theta).sum(axis=1)
    return _Point(theta, total, gradient.reshape(theta.shape) - precision * theta, fisher * pairs.weight)


def _search(pairs: Pairs, theta: Floats, step: Floats, loss: Floats, decrement: Floats, precision: float) -> _Point:
    """Return the point theta + t step, t halved per problem until the loss falls by a fair part of its promise."""
    t = np.ones(theta.shape[0])
    for _ in range(MAX_HALVINGS):
        at = _evaluate(pairs, theta + t[:, None] * step, precision)
        bad = at.loss > loss - ARMIJO * t * decrement + 1e-12 * loss
        if not bad.any():
            break
        t[bad] *= 0.5
    return at
