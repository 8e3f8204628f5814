"""Blocks of a covariance in tangent coordinates that pair models with contexts.

Only blocks are formed: of the model factor with itself, and of each context vector v_u with the model factor and
with itself. With T[:, u] = U v_u these give the covariance of any two scores of one context.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lrbtl.lowrank.arrowhead import Inverse
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.typing import Floats, Longs


@dataclass(frozen=True)
class Blocks:
    """Blocks of a covariance in tangent coordinates.

    Attributes
    ----------
    border : array (q, q)
    cross : array (dl, rl, q)
        Eliminated rows with the border.
    own : array (dl, rl, rl)
        Eliminated rows with themselves.
    """

    border: Floats
    cross: Floats
    own: Floats


@dataclass(frozen=True)
class ContextBlocks:
    """Covariances that the scores of some contexts need.

    Attributes
    ----------
    contexts : array (n,)
    cross : array (n, r1, d1, r1)
        Context vectors with the model factor.
    own : array (n, r1, r1)
        Context vectors with themselves.
    """

    contexts: Longs
    cross: Floats
    own: Floats


def inverse_blocks(inverse: Inverse) -> Blocks:
    """Return the blocks of the inverse itself."""
    reach = as_dense(inverse.reach)
    dl, rl, _ = inverse.blocks.shape
    cross = -reach @ inverse.border
    own = inverse.blocks - np.einsum("jiq,jkq->jik", cross.reshape(dl, rl, -1), reach.reshape(dl, rl, -1))
    return Blocks(inverse.border, cross.reshape(dl, rl, -1), own)


def context_blocks(space: TangentSpace, blocks: Blocks) -> Iterator[ContextBlocks]:
    """Yield the blocks of context vectors, one group of contexts at a time; dv_u = E dU_l[j] + F d(border)."""
    d1, r1 = space.U.shape
    q1 = d1 * r1
    for group, (contexts, _) in enumerate(space.groups):
        E = space.E[contexts[0]]
        cross = np.einsum("ai,jiq->jaq", E, blocks.cross)
        own = E @ blocks.own @ E.T
        if space.has_others:
            columns, F = space.group_border(group)
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


def as_dense(matrix: Floats | sparse.csr_array) -> Floats:
    """Return a matrix that may be sparse as an array."""
    return matrix.toarray() if sparse.issparse(matrix) else matrix
