"""Gradients of targets in tangent coordinates, and what a step says of them: few of them jointly, very many one by one.

A target such as a win probability touches a few models, and any context: of very many targets only the coordinates of
these models and of the contexts are kept. The centring of scores, which touches all models, is applied to matrices
instead.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from lrbtl.fitting.solvers import TOUCH, Solver, touched
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.methods.one_step import FoldStep, ScoreView, pull_gradients
from lrbtl.methods.targets import Gradients, Stack
from lrbtl.model.links import Link
from lrbtl.typing import Bools, Floats


class Coordinates(Protocol):
    """Gradients of M targets in the coordinates of a tangent space."""

    def dot(self, columns: Floats) -> Floats:
        """Return the products with columns (size, ...)."""

    def variances(self, solver: Solver) -> Floats:
        """Return the quadratic form of each gradient in the inverse of the solver's matrix, (M,)."""

    def sandwich(self, step: FoldStep) -> tuple[Floats, Floats]:
        """Return the covariance of the targets, or their variances, and model-based variances, per battle."""

    def touched(self, solver: Solver) -> Bools:
        """Return which gradients touch directions without information."""


@dataclass(frozen=True)
class FewGradients:
    """Gradients as columns (size, M): covariances are joint."""

    columns: Floats

    def dot(self, columns: Floats) -> Floats:
        """Return the products with columns (size, ...)."""
        return np.asarray(self.columns.T @ columns)

    def variances(self, solver: Solver) -> Floats:
        """Return the quadratic form of each gradient in the inverse of the solver's matrix, (M,)."""
        return np.asarray(np.einsum("im,im->m", self.columns, solver.solve(self.columns)))

    def sandwich(self, step: FoldStep) -> tuple[Floats, Floats]:
        """Return the covariance (M, M) of the targets and model-based variances, per battle."""
        directions = step.solver.solve(self.columns)
        covariance = directions.T @ (step.meat @ directions)
        return 0.5 * (covariance + covariance.T), np.einsum("im,im->m", self.columns, directions)

    def touched(self, solver: Solver) -> Bools:
        """Return which gradients touch directions without information."""
        return touched(solver, self.columns)


@dataclass(frozen=True)
class ManyGradients:
    """Gradients of M targets before centring: variances only, from inverses of the whole information.

    Attributes
    ----------
    space : TangentSpace
    models : sparse array (M, d1 r1)
        In the coordinates of the model factor.
    rest : array (M, size - d1 r1)
        In the other coordinates.
    """

    space: TangentSpace
    models: sparse.csr_array
    rest: Floats

    def dot(self, columns: Floats) -> Floats:
        """Return the products with columns (size, ...)."""
        x = self._centred(columns)
        split = self.models.shape[1]
        return np.asarray(self.models @ x[:split] + self.rest @ x[split:])

    def squares(self, matrix: Floats) -> Floats:
        """Return the quadratic form of each gradient in a symmetric matrix (size, size), (M,)."""
        C, split = self._centred(self._centred(matrix).T), self.models.shape[1]
        product = self.models @ C[:split]
        out = np.asarray(self.models.multiply(product[:, :split]).sum(axis=1)).reshape(-1)
        out += 2 * np.einsum("mi,mi->m", product[:, split:], self.rest)
        return np.asarray(out + np.einsum("mi,mi->m", self.rest @ C[split:, split:], self.rest))

    def variances(self, solver: Solver) -> Floats:
        """Return the quadratic form of each gradient in the inverse of the solver's matrix, (M,)."""
        return self.squares(solver.solve(np.eye(self.space.size)))

    def sandwich(self, step: FoldStep) -> tuple[Floats, Floats]:
        """Return the variances (M,) of the targets and model-based ones, per battle."""
        inverse = step.solver.solve(np.eye(self.space.size))
        return self.squares(inverse.T @ (step.meat @ inverse)), self.squares(inverse)

    def touched(self, solver: Solver) -> Bools:
        """Return which gradients touch directions without information."""
        if solver.null is None:
            return np.zeros(self.models.shape[0], dtype=np.bool_)
        size = np.sqrt(self.squares(np.eye(self.space.size)))
        null = solver.null / np.linalg.norm(solver.null, axis=0)
        return np.asarray(np.abs(self.dot(null)).max(axis=1) > TOUCH * size)

    def _centred(self, columns: Floats) -> Floats:
        """Return columns (size, ...) with the mean over models taken out of the model factor's coordinates."""
        if not self.space.centred:
            return columns
        out, (d1, r1) = columns.copy(), self.space.U.shape
        part = out[: d1 * r1].reshape(d1, r1, -1)
        part -= part.mean(axis=0)
        return out


def evaluated(
    space: TangentSpace, targets: Stack, shape: tuple[int, ...], link: Link, *, joint: bool
) -> tuple[Floats, Coordinates]:
    """Return the values of targets at a point (M,) and their gradients in its coordinates."""
    values, gradients = targets.at(ScoreView(space, shape, link))
    return values, FewGradients(pull_gradients(space, gradients)) if joint else _pulled(space, gradients)


def _pulled(space: TangentSpace, gradients: Gradients) -> ManyGradients:
    (d1, r1), D, M = space.U.shape, len(space.V), gradients.size
    keys, row = np.unique(gradients.target * d1 + gradients.models, return_inverse=True)
    by_key = sparse.csr_array((gradients.weights, (row, gradients.contexts)), shape=(len(keys), D))
    columns = (keys % d1)[:, None] * r1 + np.arange(r1)
    models = sparse.csr_array(
        (np.asarray(by_key @ space.V).reshape(-1), (np.repeat(keys // d1, r1), columns.reshape(-1))), shape=(M, d1 * r1)
    )
    places = gradients.target * D + gradients.contexts, gradients.models
    by_context = sparse.csr_array((gradients.weights, places), shape=(M * D, d1))
    pulled = space.pull(np.zeros((M, d1, r1)), np.asarray(by_context @ space.U).reshape(M, D, -1))
    pulled[space.extra.stop - len(gradients.effects) : space.extra.stop] = gradients.effects
    return ManyGradients(space, models, np.ascontiguousarray(pulled[d1 * r1 :].T))
