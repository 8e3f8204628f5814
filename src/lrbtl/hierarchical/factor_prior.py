"""The prior of shared factors: normal rows, which for L as a whole is its nuclear norm.

With rows of U and V normal, the largest posterior density over all ways to write L = U V^T has the cost lambda ||L||_*.
Where similar models meet, the order of the pairings is an order of the scores. L then varies along it more than along
any other direction, as levels do (`level_prior`). So models have the prior covariance M^-2 with
M^2 = I - z z^T, |z| < 1 near one under matchmaking and zero under random pairing, and the cost is lambda ||M L||_*. For
L = U d V^T in HOSVD form it is touched from above by the quadratic form of all factors

    lambda / 2 [tr(K U^T M^2 U) + tr(d K^-1 d V^T V)],   K G K = d^2,   G = U^T M^2 U,

so K = d without z. Tensors have lambda times the mean over modes of ||L_(k)||_* (`fitting.local`).

The precision lambda is a size like the others, found where the evidence is largest: lambda = gamma / (2 ||M L||_*) with
gamma the number of coordinates that votes determine (MacKay's fixed point).
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lrbtl.fitting.local import penalty, penalty_terms
from lrbtl.hierarchical.coordinates import LevelSpace
from lrbtl.lowrank.arrowhead import Arrowhead
from lrbtl.lowrank.tucker import Tucker
from lrbtl.typing import Floats

NOT_IDENTIFIED = 1e-9  # of a coordinate's information: below it coordinates are not identified
LEAST = 1e-12  # of the largest singular value


@dataclass(frozen=True)
class FactorPrior:
    """The prior of L.

    Attributes
    ----------
    precision : float
        lambda, in 1 / logits; 0 for a flat one.
    loose : array (d1,)
        z, along which models are less certain a priori.
    """

    precision: float
    loose: Floats = field(repr=False)

    def cost(self, point: Tucker) -> float:
        """Return the negative log density of L, up to a constant."""
        return self.precision * self.norm(point)

    def norm(self, point: Tucker) -> float:
        """Return ||M L||_*, for tensors the mean over modes of ||L_(k)||_*."""
        if not point.core.size:
            return 0.0
        if point.core.ndim > 2:
            return penalty(point, np.full(point.core.ndim, 2.0 / point.core.ndim))
        return float(np.sqrt(np.maximum(np.linalg.eigvalsh(self._inner(point)[0]), 0.0)).sum())

    def _inner(self, point: Tucker) -> tuple[Floats, Floats]:
        """Return the matrix whose eigenvalues are the squared singular values of M L, and the root of G before it."""
        along = self.loose @ point.factors[0]
        values, vectors = np.linalg.eigh(np.eye(len(along)) - np.outer(along, along))
        root = (vectors * np.sqrt(np.maximum(values, LEAST))) @ vectors.T
        half = root @ point.core
        return half @ half.T, root

    def balance(self, point: Tucker) -> Floats:
        """Return K with K G K = d^2, (r, r)."""
        inner, root = self._inner(point)
        values, vectors = np.linalg.eigh(inner)
        values = np.maximum(values, LEAST * max(float(values[-1]), LEAST))
        back = np.linalg.inv(root)
        return np.asarray(back @ (vectors * np.sqrt(values)) @ vectors.T @ back)

    def at(self, space: LevelSpace) -> "FactorTerms":
        """Return the terms of its quadratic form at a point."""
        return FactorTerms(space, self)


@dataclass(frozen=True)
class FactorTerms:
    """Gradient and Hessian of the prior of factors in coordinates."""

    space: LevelSpace
    prior: FactorPrior

    @cached_property
    def _terms(self) -> tuple[Floats, dict[int, Floats], Floats]:
        """Gradient, Hessians per row of each factor, and the diagonal of the core."""
        space, prior = self.space, self.prior
        if len(space.factors) > 2:
            return penalty_terms(space, np.full(space.core.ndim, 2.0 * prior.precision / space.core.ndim))
        K, core = prior.balance(space.point), space.core
        U, V = space.factors
        hessians = {0: prior.precision * K, 1: prior.precision * core.T @ np.linalg.solve(K, core)}
        gradient = np.zeros(space.size)
        rows = gradient[space.slices[0]].reshape(space.U.shape)
        rows[:, :-1] = (U - np.outer(prior.loose, prior.loose @ U)) @ hessians[0]
        gradient[space.slices[1]] = (V @ hessians[1]).reshape(-1)
        return gradient, hessians, np.empty(0)

    @property
    def gradient(self) -> Floats:
        """(size,)."""
        return self._terms[0] if self.space.rank else np.zeros(self.space.size)

    def hessian(self, k: int) -> Floats:
        """Return the Hessian in a row of a factor, (rk, rk)."""
        return self._terms[1][k]

    def added_to(self, matrix: Arrowhead) -> Arrowhead:
        """Return a matrix plus the Hessian."""
        space = self.space
        if not space.rank:
            return matrix
        _, hessians, core = self._terms
        parts = [(space.slices[0], np.pad(hessians[0], (0, 1)))]
        parts += [(space.slices[k], hessians[k]) for k in space.others]
        if space.has_core:
            parts.append((space.core_slice, np.diag(core)))
        out = matrix.plus_border(parts).plus_blocks(hessians[space.mode])
        if len(space.factors) == 2 and self.prior.loose.any():
            for k, row in enumerate(hessians[0]):
                for j, weight in enumerate(row):
                    here, there = (slice(i, space.U.size, space.U.shape[1]) for i in (k, j))
                    out.border[here, there] -= weight * np.outer(self.prior.loose, self.prior.loose)
        return out

    def evidence_precision(self, information: Arrowhead) -> float:
        """Return lambda = gamma / (2 ||M L||_*), gamma summed over coordinates whose rows are unknown otherwise."""
        space = self.space
        _, hessians, _ = self._terms
        gamma = -float(sum(factor.shape[1] ** 2 for k, factor in enumerate(space.factors) if k != space.mode))
        for k, part in space.slices.items():
            rank = space.factors[k].shape[1]
            informed = own_information(information.row_blocks(part, space.U.shape[1] if k == 0 else rank))[:, :rank]
            narrow = (1.0 - self.prior.loose**2)[:, None] if k == 0 and len(space.factors) == 2 else 1.0
            known = informed + narrow * np.diag(hessians[k])
            gamma += float(np.sum(np.divide(informed, known, out=np.zeros_like(informed), where=known > 0.0)))
        return max(gamma, float(space.rank)) / (2.0 * max(self.prior.norm(space.point), LEAST))


def own_information(rows: Floats) -> Floats:
    """Return the information on each coordinate of a row with its others unknown, (n, r), from that on rows.

    Votes in one context inform one direction of a row, and none of its coordinates by itself.

    Examples
    --------
    >>> own_information(np.array([[[2.0, 0.0], [0.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]]])).round(6)
    array([[2., 3.],
           [0., 0.]])
    """
    diagonal = np.einsum("nii->ni", rows)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    unit = rows * scale[:, :, None] * scale[:, None, :] + NOT_IDENTIFIED * np.eye(rows.shape[1])
    return np.asarray(diagonal / np.einsum("nii->ni", np.linalg.inv(unit)))
