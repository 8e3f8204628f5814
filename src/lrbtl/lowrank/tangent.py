"""The tangent space of the centred Tucker set at a point, in coordinates that make normal equations sparse.

A tangent vector is dT[:, u] = dU_1 v_u + U_1 dv_u, where dv_u is linear in the changes of the core and of the factors
of the context modes. Coordinates are the flat vector

    [ dU_1 | dU_k of the other context modes | dcore | extra | dU_l ]

where l is the largest context mode, which is eliminated first: given the rest (the border), its rows are independent.
The core is left out where its mode-l unfolding is square, as for every matrix: dU_l then reaches the same directions.
Order 1 is treated as a matrix with one context. Extra coordinates move parameters of the link, not the tensor.

Coordinates are redundant (gauge): T does not change under U_k -> U_k R, core -> core x_k inv(R), or
dU_1 -> dU_1 + 1 c^T. The gauge is fixed by U_k^T dU_k = 0 for k != l, 1^T dU_1 = 0 and dcore_(l) core_(l)^T = 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod

import numpy as np

from lrbtl.lowrank.arrowhead import Blocks
from lrbtl.lowrank.tucker import Tucker, centre, contract, mode_product, unfold
from lrbtl.typing import Floats, Longs


class TangentSpace:
    """Coordinates of the tangent space at a point in HOSVD form.

    Attributes
    ----------
    U : array (d1, r1)
        Model factor.
    V : array (D, r1)
        Context vectors, T[:, u] = U V[u].
    mode : int
        The eliminated mode.
    q, size : int
        Length of the border, and of the whole coordinate vector.
    extra : slice
        Coordinates of the link's own parameters.
    """

    point: Tucker
    centred: bool
    core: Floats
    factors: tuple[Floats, ...]
    U: Floats
    V: Floats
    context_shape: tuple[int, ...]
    mode: int
    others: list[int]
    has_core: bool
    has_others: bool
    slices: dict[int, slice]
    core_slice: slice
    extra: slice
    q: int
    size: int

    def __init__(self, point: Tucker, *, centred: bool = True, n_extra: int = 0):
        if len(point.shape) == 1:
            point = Tucker(point.core[:, None], (*point.factors, np.ones((1, 1))))
        self.point = point
        self.centred = centred
        self.core = point.core
        self.factors = point.factors
        self.U = np.ascontiguousarray(point.factors[0])
        self.V = point.context_vectors()
        self.context_shape = point.shape[1:]
        self.mode = 1 + int(np.argmax(self.context_shape))
        self.others = [k for k in range(1, len(point.shape)) if k != self.mode]
        r = point.rank
        self.has_core = r[self.mode] < prod(r) // r[self.mode]
        sizes = [self.U.size, *(self.factors[k].size for k in self.others), self.core.size if self.has_core else 0]
        ends = np.cumsum(sizes)
        self.slices = {k: slice(end - size, end) for k, size, end in zip([0, *self.others], sizes, ends, strict=False)}
        self.core_slice = slice(ends[-1] - sizes[-1], ends[-1])
        self.q = int(ends[-1]) + n_extra
        self.extra = slice(self.q - n_extra, self.q)
        self.has_others = bool(sum(sizes[1:]))
        self.slices[self.mode] = slice(self.q, self.q + self.factors[self.mode].size)
        self.size = self.slices[self.mode].stop

    @property
    def dimension(self) -> int:
        """Dimension of the tangent space: coordinates less the gauge."""
        r, d = self.point.rank, self.point.shape
        return prod(r) + sum(rk * (dk - rk) for rk, dk in zip(r, d, strict=True)) - (r[0] if self.centred else 0)

    @cached_property
    def rows(self) -> Longs:
        """Row of the eliminated factor that each context uses, shape (D,)."""
        return np.asarray(np.indices(self.context_shape)[self.mode - 1].reshape(-1))

    @cached_property
    def E(self) -> Floats:
        """Derivative d v_u / d U_l[row of u], shape (D, r1, rl)."""
        return self.context_jacobian(self.mode)

    def context_jacobian(self, mode: int) -> Floats:
        """Return d v_u / d U_k[level of u] of a context mode, shape (D, r1, rk)."""
        partial = self.core
        for k in range(1, len(self.factors)):
            if k != mode:
                partial = mode_product(partial, self.factors[k], k)
        partial = np.expand_dims(np.moveaxis(partial, mode, -1), mode)  # (r1, contexts with mode k of length one, rk)
        r1, rk = self.core.shape[0], self.core.shape[mode]
        full = np.broadcast_to(partial, (r1, *self.context_shape, rk))
        return np.ascontiguousarray(np.moveaxis(full, 0, -2).reshape(-1, r1, rk))

    def sum_over(self, values: Floats, mode: int) -> Floats:
        """Return the sum of values (D, ...) over the contexts that share a level of a context mode, (dk, ...)."""
        axes = tuple(k - 1 for k in range(1, len(self.factors)) if k != mode)
        return np.asarray(values.reshape(*self.context_shape, *values.shape[1:]).sum(axis=axes))

    @cached_property
    def core_rows(self) -> Floats:
        """Products of the context factors' rows, (D, r2 ... rm): v_u = core_(1) core_rows[u]."""
        rows = np.ones((1, 1))
        for factor in self.factors[1:]:
            rows = np.einsum("up,kr->ukpr", rows, factor).reshape(len(rows) * len(factor), -1)
        return rows

    @cached_property
    def groups(self) -> list[tuple[Longs, tuple[int, ...]]]:
        """Contexts that differ in the eliminated mode only, in its order, with their levels in other modes."""
        shape = self.context_shape
        index = np.moveaxis(np.arange(prod(shape)).reshape(shape), self.mode - 1, 0).reshape(shape[self.mode - 1], -1)
        levels = np.ndindex(*[shape[k - 1] for k in self.others])
        return [(index[:, w], level) for w, level in enumerate(levels)]

    def row_columns(self, k: int, levels: int | Longs) -> Longs:
        """Return the coordinates of one row of a factor, or of several rows, (rows, rk)."""
        rank = self.core.shape[k]
        return np.asarray(np.arange(rank) + (self.slices[k].start + np.asarray(levels)[..., None] * rank))

    @cached_property
    def group_jacobians(self) -> tuple[Longs, Floats]:
        """Border columns that each group touches, (groups, columns), and d^2 v / d(column) d(row of U_l) with them.

        The second array has shape (groups, r1, columns, rl).
        """
        core, order = self.core, self.core.ndim
        group, last = order, order + 1  # labels of two more indices
        levels = np.indices([self.context_shape[k - 1] for k in self.others]).reshape(len(self.others), -1)
        rows = {k: self.factors[k][level] for k, level in zip(self.others, levels, strict=True)}
        every = (np.ones(levels.shape[1]), [group])
        columns, parts = [], []
        for k, level in zip(self.others, levels, strict=True):
            operands = [x for j in self.others if j != k for x in (rows[j], [group, j])]
            parts.append(contract(core, list(range(order)), *every, *operands, [group, 0, k, self.mode]))
            columns.append(self.row_columns(k, level))
        if self.has_core:
            operands = [x for j in self.others for x in (rows[j], [group, j])]
            eye = np.eye(core.shape[self.mode])
            product = contract(*operands, *every, eye, [self.mode, last], [group, *range(1, order), last])
            product = product.reshape(len(product), -1, len(eye))
            moved = np.einsum("ab,gpi->gabpi", np.eye(len(core)), product)
            parts.append(moved.reshape(len(product), len(core), -1, len(eye)))
            columns.append(np.tile(np.arange(self.core_slice.start, self.core_slice.stop), (len(product), 1)))
        return np.concatenate(columns, axis=1), np.concatenate(parts, axis=2)

    def group_border(self, group: int) -> tuple[Longs, Floats]:
        """Return the border columns that a group touches and d v_u / d(column) of its contexts, (dl, r1, columns)."""
        columns, bilinear = (each[group] for each in self.group_jacobians)
        rows = self.factors[self.mode]
        return columns, (rows @ bilinear.reshape(-1, rows.shape[1]).T).reshape(len(rows), *bilinear.shape[:2])

    def parts(self, coordinates: Floats) -> tuple[dict[int, Floats], Floats | None]:
        """Return the changes of each factor and of the core (None where it is left out)."""
        factors = {k: coordinates[part].reshape(self.factors[k].shape) for k, part in self.slices.items()}
        return factors, coordinates[self.core_slice].reshape(self.core.shape) if self.has_core else None

    def push(self, coordinates: Floats) -> tuple[Floats, Floats]:
        """Return (dU, dV) of a coordinate vector: dT[:, u] = dU V[u] + U dV[u]."""
        factors, dcore = self.parts(coordinates)
        changes = [self._context_tensor(self.core, {k: change}) for k, change in factors.items() if k > 0]
        if dcore is not None:
            changes.append(self._context_tensor(dcore, {}))
        dV = reduce(np.add, changes)
        return np.ascontiguousarray(factors[0]), np.ascontiguousarray(dV.reshape(len(self.core), -1).T)

    def push_columns(self, coordinates: Floats) -> tuple[Floats, Floats]:
        """Return the same of columns of coordinates (size, m): (d1, r1, m) and (D, r1, m)."""
        if self.has_others:
            dU, dV = zip(*(self.push(np.ascontiguousarray(x)) for x in coordinates.T), strict=True)
            return np.stack(dU, axis=2), np.stack(dV, axis=2)
        m, own = coordinates.shape[1], coordinates[self.slices[self.mode]]
        return coordinates[self.slices[0]].reshape(*self.U.shape, m), self.E @ own.reshape(len(self.V), -1, m)

    def pull(self, gU: Floats, gV: Floats) -> Floats:
        """Return J^T of gradients with respect to U (..., d1, r1) and V (..., D, r1): coordinates (size, ...)."""
        lead = gU.shape[:-2]
        gU = gU.reshape(-1, *self.U.shape)
        gV = gV.reshape(len(gU), *self.context_shape, -1)
        out = np.empty((self.size, len(gU)))
        out[self.extra] = 0.0
        out[self.slices[0]] = gU.reshape(len(gU), -1).T
        order = len(self.factors)
        for k in range(1, order):
            moved = [j for j in range(order - 1, 0, -1) if j != k]
            partial = self._onto_factors(gV, moved)  # (batch, level of mode k, r1, ranks of the moved modes)
            result = np.tensordot(partial, self.core, axes=(range(2, order + 1), [0, *moved]))
            out[self.slices[k]] = result.reshape(len(gU), -1).T
        if self.has_core:
            partial = self._onto_factors(gV, list(range(order - 1, 0, -1)))
            out[self.core_slice] = partial.transpose(1, *range(order, 1, -1), 0).reshape(-1, len(gU))
        return out.reshape(self.size, *lead)

    def pull_dense(self, gradient: Floats) -> Floats:
        """Return J^T Q1 of dense gradients (..., d1, D): coordinates (size, ...)."""
        if self.centred:
            gradient = gradient - gradient.mean(axis=-2, keepdims=True)
        return self.pull(gradient @ self.V, np.swapaxes(gradient, -1, -2) @ self.U)

    def gauge(self) -> list[tuple[slice, Floats]]:
        """Return blocks of C^T C of the gauge constraints: pairs of a border slice and a matrix on it."""
        blocks: list[tuple[slice, Floats]] = []
        for k in [0, *self.others]:
            factor = self.factors[k]
            projector = factor @ factor.T
            if k == 0 and self.centred:
                projector += 1.0 / len(factor)
            whole, rank = self.slices[k], factor.shape[1]
            blocks += [(slice(whole.start + i, whole.stop, rank), projector) for i in range(rank)]
        if self.has_core:
            unfolded = unfold(self.core, self.mode)
            gram = np.kron(np.eye(len(unfolded)), unfolded.T @ unfolded)
            positions = np.arange(self.core.size).reshape(self.core.shape)
            index = np.moveaxis(positions, self.mode, 0).reshape(-1)
            block = np.empty_like(gram)
            block[np.ix_(index, index)] = gram
            blocks.append((self.core_slice, block))
        return blocks

    def turns(self, other: "TangentSpace") -> list[Floats]:
        """Return rotations of each mode's components from another point nearby to this one."""
        return [closest_rotation(own.T @ there) for own, there in zip(self.factors, other.factors, strict=True)]

    def solve_isotropic(self, gradient: Floats) -> Floats:
        """Return the x in the gauge with J x = P_T of the tensor whose pull-back is given, (size,) or (size, M).

        J^T Q1 J is block diagonal in the gauge: I for the core, core_(k) core_(k)^T for every row of U_k.
        """
        x = np.array(gradient, dtype=float).reshape(self.size, -1)
        x[self.extra] = 0.0
        for k, part in self.slices.items():
            factor = self.factors[k]
            block = x[part].reshape(*factor.shape, -1)
            if k != self.mode:
                block = block - np.einsum("ai,bi,brm->arm", factor, factor, block, optimize=True)
                if k == 0 and self.centred:
                    block = block - block.mean(axis=0)
            unfolded = unfold(self.core, k)
            x[part] = np.einsum("rs,asm->arm", np.linalg.inv(unfolded @ unfolded.T), block).reshape(
                part.stop - part.start, -1
            )
        if self.has_core:
            core = np.moveaxis(x[self.core_slice].reshape(*self.core.shape, -1), self.mode, 0)
            unfolded = unfold(self.core, self.mode)
            flat = core.reshape(len(unfolded), unfolded.shape[1], -1)
            coefficients = np.linalg.solve(unfolded @ unfolded.T, unfolded)
            flat = flat - np.einsum("ipm,jp,jq->iqm", flat, unfolded, coefficients, optimize=True)
            x[self.core_slice] = np.moveaxis(flat.reshape(core.shape), 0, self.mode).reshape(self.core.size, -1)
        return x.reshape(gradient.shape)

    def dense(self, coordinates: Floats) -> Floats:
        """Return the tangent vector as a full tensor (d1, D)."""
        dU, dV = self.push(coordinates)
        return dU @ self.V.T + self.U @ dV.T

    def _onto_factors(self, gradient: Floats, modes: list[int]) -> Floats:
        """Return gradients (batch, levels of each mode, r1) with some modes, last first, moved to ranks at the end."""
        for j in modes:
            gradient = np.tensordot(gradient, self.factors[j], axes=(j, 0))
        return gradient

    def _context_tensor(self, core: Floats, changed: dict[int, Floats]) -> Floats:
        for k in range(1, len(self.factors)):
            core = mode_product(core, changed.get(k, self.factors[k]), k)
        return core


def closest_rotation(matrix: Floats) -> Floats:
    """Return the orthogonal matrix nearest to a square one."""
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)


# ------------------------------------------------------------------------------
# Covariances of models with contexts. With T[:, u] = U v_u, the blocks of the model factor with itself and of each
# context vector v_u with it and with itself give the covariance of any two scores of one context.
# ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ContextBlocks:
    """Covariances that the scores of some contexts need."""

    contexts: Longs  # (n,)
    cross: Floats  # (n, r1, d1, r1) context vectors with the model factor
    own: Floats  # (n, r1, r1) context vectors with themselves


def context_blocks(space: TangentSpace, blocks: Blocks, wanted: Longs | None = None) -> Iterator[ContextBlocks]:
    """Yield the blocks of context vectors, one group of contexts at a time; dv_u = E dU_l[j] + F d(border).

    With some contexts `wanted`, the blocks are those of their rows, `space.rows[wanted]`, one by one.
    """
    d1, r1 = space.U.shape
    q1 = d1 * r1
    for group, (members, _) in enumerate(space.groups):
        here = slice(None) if wanted is None else np.flatnonzero(np.isin(wanted, members))
        contexts = members if wanted is None else wanted[here]
        if not contexts.size:
            continue
        E = space.E[members[0]]
        cross, own = E @ blocks.cross[here], E @ blocks.own[here] @ E.T
        if space.has_others:
            columns, F = space.group_border(group)
            F = F[space.rows[contexts]]
            mixed = cross[:, :, columns] @ np.swapaxes(F, 1, 2)
            own = (
                own
                + mixed
                + np.swapaxes(mixed, 1, 2)
                + F @ blocks.border[np.ix_(columns, columns)] @ np.swapaxes(F, 1, 2)
            )
            cross = cross + F @ blocks.border[columns]
        yield ContextBlocks(contexts, cross[:, :, :q1].reshape(-1, r1, d1, r1), own)


def model_block(space: TangentSpace, blocks: Blocks) -> Floats:
    """Return the block of the model factor with itself, (d1, r1, d1, r1)."""
    d1, r1 = space.U.shape
    return blocks.border[: d1 * r1, : d1 * r1].reshape(d1, r1, d1, r1)


def projection(space: TangentSpace, tensor: Floats) -> Floats:
    """Return P_T of a dense tensor [Li26, sec. lb-notation]: the core block, and one block per mode k.

    The block of a mode is outside of its factor and inside the row space of T_(k). Without the latter, as in
    [Li26, app:pd-tangent-block-sum], blocks of order 3 and more are larger than the tangent space.
    """
    shape = tensor.shape
    full = tensor.reshape(space.point.shape)
    if space.centred:
        full = centre(full)
    compressed = full
    for k, factor in enumerate(space.factors):
        compressed = mode_product(compressed, factor.T, k)
    result = compressed
    for k, factor in enumerate(space.factors):
        result = mode_product(result, factor, k)
    for k, factor in enumerate(space.factors):
        partial = full
        for j, other in enumerate(space.factors):
            if j != k:
                partial = mode_product(partial, other.T, j)
        outside = unfold(partial, k) - factor @ (factor.T @ unfold(partial, k))
        unfolded = unfold(space.core, k)
        outside = outside @ np.linalg.pinv(unfolded) @ unfolded
        moved = np.moveaxis(partial, k, 0).shape
        block = np.moveaxis(outside.reshape(moved), 0, k)
        for j, other in enumerate(space.factors):
            if j != k:
                block = mode_product(block, other, j)
        result = result + block
    return result.reshape(shape)
