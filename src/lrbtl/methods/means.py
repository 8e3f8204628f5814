"""Covariances of means of the scores over contexts, as boards show them: one target per model, nothing of size d1 D.

With weights w of the contexts, targets are sums over contexts of w_u T[:, u]. In each context S differs from the
identity on slots only, so that J^T S w has a sparse part beside one of low rank, U w. The normal equations are those of
`Arrowhead`: eliminated rows are whitened by their own precision, and what they leave is solved on the border.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from lrbtl._kernels import gram
from lrbtl.fitting.blocks import Matrices
from lrbtl.fitting.deviations import Expansion
from lrbtl.fitting.solvers import accumulate
from lrbtl.lowrank.arrowhead import Arrowhead, as_dense, block_product, symmetric_product
from lrbtl.methods.shared import Shared
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

    def square(self, blocks: Floats, U: Floats) -> Floats:
        """Return the rest's products with itself by way of symmetric blocks (dl, rl, rl), (d1, d1)."""
        ones = np.ones(len(self.along))
        rows = block_product(blocks, self.rows, ones, np.ones(len(U)))
        along = as_dense(block_product(blocks, self.along, ones, np.ones(U.shape[1])))
        half = (self.rows.T @ along + 0.5 * U @ (self.along.T @ along)) @ U.T
        return np.asarray(_product(self.rows, rows) + half + half.T)


@dataclass(frozen=True)
class Means:
    """What the covariances of all weighted means have in common.

    Attributes
    ----------
    at : Expansion
        At the mode.
    open_excess : matrices
        S (B - H) S of each context.
    effect_excess : (array (n_slots, K), array (K, K)) or None
        B - H of shared effects with the slots, and among each other.
    shared : Shared
        What entries share, R R^T.
    shared_excess, shared_effect_excess : arrays (n_slots, m), (K, m)
        (B - H) R, on the slots and along shared effects.
    """

    at: Expansion
    open_excess: Matrices
    effect_excess: tuple[Floats, Floats] | None
    shared: Shared
    shared_excess: Floats
    shared_effect_excess: Floats

    @cached_property
    def _effect_excess(self) -> tuple[Floats, Floats]:
        """Of all shared effects: what (B - H) has between slots and them, by way of E too, and among them."""
        design, (c, _), tau = self.at.scores.design, self.at.effects, self.at.tau
        spread = design.times(self.open_excess, c)
        columns, corner = -(tau**2) * spread, tau**4 * c.T @ spread
        if self.effect_excess is not None:
            cross, own = self.effect_excess
            left_open = self.at.left_open(cross)
            mixed = tau**2 * c.T @ left_open
            columns += left_open
            corner += own - mixed - mixed.T
        return columns, corner

    @cached_property
    def meat(self) -> Arrowhead:
        """B - H in coordinates."""
        found = accumulate(self.at.scores.design, self.at.scores.space, self.open_excess)  # type: ignore[arg-type]
        return self.at.bordered(found, *self._effect_excess)

    @cached_property
    def _white_meat(self) -> tuple[Floats, Matrix, Floats]:
        """Of the meat in whitened coordinates: what is on the border after elimination, left of it, and its blocks."""
        factor, meat = self.at.factor, self.meat
        top = factor.scale[: meat.q]
        lower = factor.inverse_lower * factor.scale[meat.q :].reshape(meat.blocks.shape[:2])[:, None, :]
        blocks = lower @ meat.blocks @ np.swapaxes(lower, 1, 2)
        ones = np.ones(len(factor.scale) - meat.q)
        cross = block_product(lower, meat.cross, ones, top)
        through = block_product(blocks, factor.cross, ones, np.ones(meat.q))
        inner = meat.border * top
        inner *= top[:, None]
        half: Matrix = cross - 0.5 * through  # type: ignore[assignment]
        mixed = _product(half, factor.cross)
        inner -= mixed + mixed.T
        return inner, cross - through, blocks  # type: ignore[return-value]

    def sandwich_border(self, inverse: Floats) -> Floats:
        """Return the border of A^-1 (B - H) A^-1, given that of A^-1, (q, q) each."""
        half = inverse / self.at.factor.scale[: len(inverse)]
        return symmetric_product(half @ self._white_meat[0], half)

    def _on_border(self, right: Floats) -> Floats:
        return np.asarray(linalg.cho_solve((self.at.factor.chol, True), right, check_finite=False))

    def covariance(self, weights: Floats) -> Floats:
        """Return the covariance (d1, d1) of the sums over contexts of weights (D,) times scores, centred."""
        at, design, U = self.at, self.at.scores.design, self.at.scores.space.U
        c, _ = at.effects
        on_slots = weights[design.slot_places[0]]
        left_open = -(at.tau**2) * at.left_open(c)
        effects = design.by_model(left_open * on_slots[:, None]).T
        found = self._pull(at.W if at.tau > 0 else None, weights, effects, factor=-(at.tau**2), identity=True)
        inner, rest, blocks = self._white_meat
        cross = at.factor.cross
        right = found.border - found.cross(cross, U)
        solved = self._on_border(right)
        mixed = solved.T @ found.cross(rest, U)
        out = right.T @ solved + solved.T @ inner @ solved + mixed + mixed.T
        out += found.square(np.eye(blocks.shape[1]) + blocks, U)
        if at.tau > 0:
            columns = design.by_model(self._effect_excess[0] * on_slots[:, None]).T
            meat = self._pull(self.open_excess, weights, columns)
            mixed = at.tau**2 * (solved.T @ (meat.border - meat.cross(cross, U)) + found.cross(meat.rows, U).T)
            out += mixed + mixed.T + at.tau**4 * design.summed(self.open_excess, weights**2)
            out += at.tau**2 * (np.sum(weights**2) * np.eye(len(U)) - at.tau**2 * design.summed(at.W, weights**2))
        if self.shared.varies:
            root, (border, rows, open_part, inside) = self.shared.mean_root(weights), self._white_shared
            mixed = solved.T @ border + found.cross(rows, U).T
            mixed += at.tau**2 * design.by_model(open_part * on_slots[:, None])
            mixed = (mixed + 0.5 * root @ (np.eye(len(inside)) + inside)) @ root.T
            out += mixed + mixed.T
        out -= out.mean(axis=0)
        out -= out.mean(axis=1, keepdims=True)
        return np.asarray(0.5 * (out + out.T))

    @cached_property
    def _white_shared(self) -> tuple[Floats, Floats, Floats, Floats]:
        """(B - H) R in whitened coordinates after elimination, of the rest; S (B - H) R; and R^T (B - H) R."""
        at, space, design, factor = self.at, self.at.scores.space, self.at.scores.design, self.at.factor
        open_part = at.left_open(self.shared_excess)
        pulled = design.pull_columns(space, open_part)
        pulled[space.extra] = -(at.tau**2) * at.effects[0].T @ open_part
        pulled[space.extra] += self.shared_effect_excess
        rows = as_dense(factor.whitened(pulled[space.q :]))
        border = pulled[: space.q] * factor.scale[: space.q, None] - factor.cross.T @ rows
        inside = self.shared.slot_root.T @ self.shared_excess
        inside += self.shared.effects.T @ self.shared_effect_excess
        return border, rows, open_part, inside

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
                by_model[:, k] = design.summed(matrices, factor * weights * v)
        if identity:
            by_model += (weights @ space.V)[None, :, None] * (np.eye(d1) - 1.0 / d1)[:, None]
        top[space.extra] = effects
        along = np.zeros((dl * rl, r))
        if space.has_others:
            gV = np.stack([as_dense(design.slot_matrix(np.ascontiguousarray(x))) for x in rows.T], axis=2)
            gV = gV + weights[:, None, None] * space.U if identity else gV
            pulled = space.pull(np.zeros((d1, d1, r)), gV.transpose(1, 0, 2))
            top, below = top + pulled[: space.q], pulled[space.q :]
        else:
            E, (_, _, start, model) = space.E[0], design.slot_table
            blocks = (rows @ E)[:, :, None]
            if design.full:
                below = np.ascontiguousarray(np.swapaxes(blocks.reshape(dl, d1, rl), 1, 2)).reshape(dl * rl, d1)
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
    gram.add_sparse_product(l_ptr, l_columns, left.data, r_ptr, r_columns, right.data, out)
    return out
