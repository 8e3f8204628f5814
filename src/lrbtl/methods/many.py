"""Gradients of very many targets in tangent coordinates, sparse where models are concerned.

A target such as a win probability touches a few models, and any context: of its coordinates only those of these models
and of the contexts are kept. The centring of scores, which touches all models, is applied to matrices instead.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lrbtl.fitting.solvers import TOUCH
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.methods.one_step import ScoreView
from lrbtl.methods.targets import Gradients, Stack
from lrbtl.model.links import Link
from lrbtl.typing import Bools, Floats


@dataclass(frozen=True)
class ManyGradients:
    """Gradients of M targets before centring.

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

    def touched(self, null: Floats | None) -> Bools:
        """Return which gradients touch directions without information, given as columns or None."""
        if null is None:
            return np.zeros(self.models.shape[0], dtype=np.bool_)
        size = np.sqrt(self.squares(np.eye(self.space.size)))
        return np.asarray(np.abs(self.dot(null / np.linalg.norm(null, axis=0))).max(axis=1) > TOUCH * size)

    def _centred(self, columns: Floats) -> Floats:
        """Return columns (size, ...) with the mean over models taken out of the model factor's coordinates."""
        if not self.space.centred:
            return columns
        out, (d1, r1) = columns.copy(), self.space.U.shape
        part = out[: d1 * r1].reshape(d1, r1, -1)
        part -= part.mean(axis=0)
        return out


def many_gradients(
    space: TangentSpace, targets: Stack, shape: tuple[int, ...], link: Link
) -> tuple[Floats, ManyGradients]:
    """Return the values of targets at a point (M,) and their gradients in its coordinates."""
    values, gradients = targets.at(ScoreView(space, shape, link))
    return values, _pulled(space, gradients)


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
