"""Covariances of means of the scores over contexts, as boards show them: one target per model, nothing of size d1 D.

With weights w of the contexts, targets are sums over contexts of w_u T[:, u]. In each context S differs from the
identity on slots only, so that J^T S w has a sparse part beside one of low rank, U w. The normal equations are those of
`Arrowhead`: eliminated rows are whitened by their own precision, and what they leave is solved on the border.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from lrbtl._kernels import blocks as block_kernels
from lrbtl.fitting.blocks import Matrices
from lrbtl.hierarchical.expansion import Expansion
from lrbtl.hierarchical.random_effects import RandomEffects
from lrbtl.lowrank.arrowhead import as_dense
from lrbtl.typing import Floats

Matrix = Floats | sparse.csr_array


@dataclass(frozen=True)
class _Pulled:
    """Gradients of d1 targets in coordinates: the border (q, d1), and the whitened rest, rows + along U^T."""

    border: Floats
    rows: Matrix  # (dl rl, d1)
    along: Floats  # (dl rl, r1)

    def cross(self, left: Matrix, U: Floats) -> Floats:
        """Return the transpose of a matrix (dl rl, k) times the rest, (k, d1)."""
        return np.asarray(_product(left, self.rows) + np.asarray(left.T @ self.along) @ U.T)

    def square(self, U: Floats) -> Floats:
        """Return the rest's products with itself, (d1, d1)."""
        half = (self.rows.T @ self.along + 0.5 * U @ (self.along.T @ self.along)) @ U.T
        return np.asarray(_product(self.rows, self.rows) + half + half.T)


@dataclass(frozen=True)
class BoardCovariance:
    """Covariances of weighted means over contexts round a mode."""

    at: Expansion
    random_effects: RandomEffects | None

    def covariance(self, weights: Floats) -> Floats:
        """Return the covariance (d1, d1) of the sums over contexts of weights (D,) times scores, centred."""
        at, design, U = self.at, self.at.scores.design, self.at.scores.space.U
        c, _ = at.marginal.effects
        on_slots = weights[design.slot_places[0]]
        shrunk = -(at.tau**2) * at.marginal.apply_shrinkage(c)
        effects = design.entries.by_model(shrunk * on_slots[:, None]).T
        found = self._pull(at.marginal.W if at.tau > 0 else None, weights, effects, factor=-(at.tau**2), identity=True)
        right = found.border - found.cross(at.factor.cross, U)
        half = linalg.solve_triangular(at.factor.chol, right, lower=True, check_finite=False)
        out = half.T @ half + found.square(U)
        if at.tau > 0:
            out += at.tau**2 * (
                np.sum(weights**2) * np.eye(len(U)) - at.tau**2 * design.blocks.summed(at.marginal.W, weights**2)
            )
        if self.random_effects is not None:
            root = self.random_effects.mean_root(weights)
            out += root @ root.T
        out -= out.mean(axis=0)
        out -= out.mean(axis=1, keepdims=True)
        return np.asarray(0.5 * (out + out.T))

    def _pull(
        self,
        matrices: Matrices | None,
        weights: Floats,
        effects: Floats,
        *,
        factor: float = 1.0,
        identity: bool = False,
    ) -> _Pulled:
        """Return J^T of weights times matrices times a factor, and times the identity, over all models.

        `effects` are (k, d1).
        """
        design, space, solver = self.at.scores.design, self.at.scores.space, self.at.factor
        (d1, r), (dl, rl) = space.U.shape, space.factors[space.mode].shape
        top = np.zeros((space.q, d1))
        by_model = top[: d1 * r].reshape(d1, r, d1)
        rows = np.zeros((design.n_slots, r))
        below: Matrix
        if matrices is not None:
            rows = design.slot_rows(space, matrices)[0] * (factor * weights[design.slot_places[0]])[:, None]
            for k, v in enumerate(space.V.T):
                by_model[:, k] = design.blocks.summed(matrices, factor * weights * v)
        if identity:
            by_model += (weights @ space.V)[None, :, None] * (np.eye(d1) - 1.0 / d1)[:, None]
        top[space.extra] = effects
        along = np.zeros((dl * rl, r))
        if space.has_others:
            gV = np.stack([as_dense(design.entries.slot_matrix(np.ascontiguousarray(x))) for x in rows.T], axis=2)
            gV = gV + weights[:, None, None] * space.U if identity else gV
            pulled = space.pull(np.zeros((d1, d1, r)), gV.transpose(1, 0, 2))
            top, below = top + pulled[: space.q], pulled[space.q :]
        else:
            E, start, model = space.E[0], design.entries.slot_start, design.entries.model
            blocks = (rows @ E)[:, :, None]
            if design.entries.full or not rl:
                below = np.ascontiguousarray(
                    np.swapaxes(blocks.reshape(dl, d1, rl) if rl else np.zeros((dl, d1, 0)), 1, 2)
                ).reshape(dl * rl, d1)
            else:
                below = sparse.csr_array(sparse.bsr_array((blocks, model, start), shape=(dl * rl, d1)))
            if identity:
                along = (weights[:, None, None] * E.T).reshape(dl * rl, r)
        return _Pulled(top * solver.scale[: space.q, None], solver.whitened(below), as_dense(solver.whitened(along)))


def _product(left: Matrix, right: Matrix) -> Floats:
    """Return left^T right of matrices that are both sparse or both dense, as an array."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return np.asarray(as_dense(left).T @ as_dense(right))
    out = np.zeros((left.shape[1], right.shape[1]))
    (l_ptr, l_columns), (r_ptr, r_columns) = (
        (side.indptr.astype(np.int32), side.indices.astype(np.int32)) for side in (left, right)
    )
    block_kernels.add_sparse_product(l_ptr, l_columns, left.data, r_ptr, r_columns, right.data, out)
    return out
