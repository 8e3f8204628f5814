"""Low-rank points: centred Tucker tensors in HOSVD form.

A point of order m is T = core x_1 U_1 ... x_m U_m with factors U_k of shape (d_k, r_k). Mode 1 (index 0 here) holds the
models; for battles the columns of U_1 sum to zero.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from scipy import linalg

from lrbtl.errors import RankError
from lrbtl.typing import Floats


def unfold(tensor: Floats, mode: int) -> Floats:
    """Return the mode-k unfolding T_(k), shape (d_k, product of the others in order)."""
    return np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)


def mode_product(tensor: Floats, matrix: Floats, mode: int) -> Floats:
    """Return T x_k M: every mode-k fibre multiplied by M."""
    shape = tensor.shape
    product = matrix @ tensor.reshape(prod(shape[:mode]), shape[mode], -1)
    return product.reshape(*shape[:mode], len(matrix), *shape[mode + 1 :])


def contract(*operands: Any) -> Floats:
    """Return np.einsum of arrays and index lists, the form for any number of modes, unknown to its type stubs."""
    return np.asarray(np.einsum(*operands))


def centre(tensor: Floats) -> Floats:
    """Return Q1 T: the tensor with zero sums along mode 1."""
    return np.asarray(tensor - tensor.mean(axis=0, keepdims=True))


def rank_caps(shape: Sequence[int], *, centred: bool = True) -> tuple[int, ...]:
    """Return the largest possible Tucker rank of each mode."""
    sizes = [shape[0] - 1 if centred else shape[0], *shape[1:]]
    return tuple(min(size, prod(sizes[:k] + sizes[k + 1 :])) for k, size in enumerate(sizes))


def check_rank(rank: int | Sequence[int], shape: Sequence[int], *, centred: bool = True) -> tuple[int, ...]:
    """Return a full Tucker rank; an int r means (r, ..., r) under the caps r1 <= d1 - 1, rk <= prod of the other r.

    >>> check_rank(3, (30, 10, 2))
    (3, 3, 2)
    """
    caps = rank_caps(shape, centred=centred)
    if isinstance(rank, int | np.integer):
        if rank < 1 or (rank > max(caps) and len(shape) > 1):
            raise RankError(
                f"rank {rank} is not possible for scores of shape {tuple(shape)}: choose 1 to {max(caps)}.",
                argument="rank",
                value=rank,
                largest=max(caps),
            )
        ranks = [min(int(rank), cap) for cap in caps]
        while (capped := [min(r, prod(ranks[:k] + ranks[k + 1 :])) for k, r in enumerate(ranks)]) != ranks:
            ranks = capped
        return tuple(ranks)
    if not isinstance(rank, Iterable) or (isinstance(rank, np.ndarray) and rank.ndim == 0):
        raise RankError(
            f"rank={rank!r} is not a rank: give an int, one int per mode, or 'auto'.", argument="rank", value=rank
        )
    ranks = list(rank)
    if not all(isinstance(r, int | np.integer) for r in ranks):
        raise RankError(f"rank={rank!r} is not a rank: give one int per mode.", argument="rank", value=rank)
    ranks = [int(r) for r in ranks]
    if len(ranks) != len(shape):
        raise RankError(
            f"rank {tuple(ranks)} has {len(ranks)} modes but the scores have shape {tuple(shape)}: "
            "give one rank per mode.",
            argument="rank",
            value=tuple(ranks),
        )
    for k, (r, cap) in enumerate(zip(ranks, caps, strict=True)):
        limit = min(cap, prod(ranks[:k] + ranks[k + 1 :]))
        if not 1 <= r <= limit:
            raise RankError(
                f"rank {tuple(ranks)} is not possible for scores of shape {tuple(shape)}: mode {k + 1} has rank {r} "
                f"but allows 1 to {limit} (at most its size and the product of the other ranks).",
                argument="rank",
                value=tuple(ranks),
            )
    return tuple(ranks)


@dataclass(frozen=True)
class Tucker:
    """A low-rank tensor.

    Attributes
    ----------
    core : array (r1, ..., rm)
    factors : tuple of arrays (dk, rk)
    """

    core: Floats
    factors: tuple[Floats, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (d1, ..., dm) of the full tensor."""
        return tuple(len(factor) for factor in self.factors)

    @property
    def rank(self) -> tuple[int, ...]:
        """Tucker rank (r1, ..., rm)."""
        return self.core.shape

    def dense(self) -> Floats:
        """Return the full tensor."""
        return _expand(self.core, self.factors)

    def context_vectors(self) -> Floats:
        """Return V of shape (D, r1) with T[:, u] = U_1 V[u]; contexts in C order."""
        partial = _expand(self.core, (None, *self.factors[1:]))
        return np.ascontiguousarray(partial.reshape(self.rank[0], -1).T)

    def canonical(self) -> "Tucker":
        """Return the same tensor in HOSVD form: orthonormal factors, all-orthogonal core, sorted singular values."""
        core, factors = self.core, []
        for k, factor in enumerate(self.factors):
            q, r = np.linalg.qr(factor)
            core = mode_product(core, r, k)
            factors.append(q)
        rotations = [_left_vectors(unfold(core, k), core.shape[k]) for k in range(core.ndim)]
        core = _expand(core, [rotation.T for rotation in rotations])
        return Tucker(core, tuple(np.ascontiguousarray(q @ w) for q, w in zip(factors, rotations, strict=True)))

    def leading(self, rank: Sequence[int]) -> "Tucker":
        """Return the tensor of the leading components of each mode, for a point in HOSVD form."""
        core = self.core[tuple(slice(r) for r in rank)]
        return Tucker(core, tuple(factor[:, :r] for factor, r in zip(self.factors, rank, strict=True))).canonical()

    @cached_property
    def singular_values(self) -> tuple[Floats, ...]:
        """Singular values of each unfolding, for a point in HOSVD form."""
        return tuple(np.linalg.norm(unfold(self.core, k), axis=1) for k in range(self.core.ndim))


def truncate(tensor: Floats, rank: Sequence[int], *, sweeps: int = 5) -> Tucker:
    """Return a rank-r approximation in HOSVD form: truncated HOSVD, then HOOI sweeps."""
    factors = [_left_vectors(unfold(tensor, k), r) for k, r in enumerate(rank)]
    for _ in range(sweeps if tensor.ndim > 2 else 0):
        for k, r in enumerate(rank):
            others = [None if j == k else factor.T for j, factor in enumerate(factors)]
            factors[k] = _left_vectors(unfold(_expand(tensor, others), k), r)
    core = _expand(tensor, [factor.T for factor in factors])
    return Tucker(core, tuple(factors)).canonical()


def _expand(core: Floats, matrices: Sequence[Floats | None]) -> Floats:
    """Return core x_k matrices[k] over all modes; None leaves a mode alone."""
    for k, matrix in enumerate(matrices):
        if matrix is not None:
            core = mode_product(core, matrix, k)
    return core


def eigenvectors(matrix: Floats, count: int) -> Floats:
    """Return the leading eigenvectors of a symmetric matrix, largest first."""
    size = len(matrix)
    vectors = linalg.eigh(matrix, subset_by_index=(size - count, size - 1), check_finite=False)[1]
    if vectors.shape[1] < count:  # LAPACK's search may miss some where the matrix falls into blocks
        vectors = np.linalg.eigh(matrix)[1][:, size - count :]
    return np.ascontiguousarray(vectors[:, ::-1])


def _left_vectors(matrix: Floats, count: int) -> Floats:
    """Return the leading left singular vectors, from the smaller Gram matrix where the matrix is wide."""
    if matrix.shape[1] > 4 * matrix.shape[0]:
        return eigenvectors(matrix @ matrix.T, count)
    return np.ascontiguousarray(np.linalg.svd(matrix, full_matrices=False)[0][:, :count])
