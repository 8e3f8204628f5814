"""Coordinates of level + L: the tangent space of the low-rank part, and one more coordinate for each model's level.

    T[a, u] = level[a] + U_L[a] v_u,   so with U = [U_L, level] and V = [V_L, 1] it is U V^T,
    dT = dU V^T + U dV^T,              where the last column of V is one and does not move.

So everything that reads a `TangentSpace` by U, V and their changes reads this one. L may have rank 0: then there are
levels alone.
"""

from functools import cached_property

import numpy as np
from scipy import linalg

from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.typing import Floats, Longs


def no_factors(shape: tuple[int, ...]) -> Tucker:
    """Return the point of rank 0 of a shape; order 1 has one context."""
    sizes = shape if len(shape) > 1 else (*shape, 1)
    return Tucker(np.zeros((0,) * len(sizes)), tuple(np.zeros((size, 0)) for size in sizes))


class LevelSpace(TangentSpace):
    """Tangent coordinates at L in HOSVD form, with a level for each model.

    Coordinates are those of `TangentSpace`, with the change of a model's level behind that of its row of U_L.

    Attributes
    ----------
    point : Tucker
        L, which may have rank 0.
    level : array (d1,)
        With zero sum.
    """

    def __init__(self, point: Tucker, level: Floats, *, n_extra: int = 0):
        self.level = level
        d1, n_contexts = len(level), int(np.prod(point.shape[1:]))
        if point.core.size:
            super().__init__(point, centred=True, n_extra=n_extra)
        else:
            _set_without_factors(self, point, n_extra)
        self.U = np.hstack([point.factors[0], level[:, None]])
        self.V = np.hstack([self.V, np.ones((n_contexts, 1))])
        _make_room(self, d1)

    @property
    def rank(self) -> int:
        """Number of shared factors of models."""
        return int(self.point.core.shape[0])

    @cached_property
    def level_part(self) -> slice:
        """Coordinates of the levels."""
        return slice(self.rank, self.U.size, self.rank + 1)

    @cached_property
    def E(self) -> Floats:
        """Derivative d v_u / d U_l[row of u], (D, r1 + 1, rl): zero for the level."""
        D, rl = len(self.V), self.factors[self.mode].shape[1]
        own = self.context_jacobian(self.mode) if rl else np.zeros((D, 0, 0))
        return np.concatenate([own, np.zeros((D, 1, rl))], axis=1)

    @cached_property
    def group_jacobians(self) -> tuple[Longs, Floats]:
        """Border columns that each group touches, and the second derivatives there; zero for the level."""
        columns, bilinear = super().group_jacobians
        return columns, np.concatenate([bilinear, np.zeros_like(bilinear[:, :1])], axis=1)

    def parts(self, coordinates: Floats) -> tuple[dict[int, Floats], Floats | None]:
        """Return the changes of each factor, those of the levels beside the models', and of the core."""
        shapes = {k: self.factors[k].shape if k else self.U.shape for k in self.slices}
        factors = {k: coordinates[part].reshape(shapes[k]) for k, part in self.slices.items()}
        return factors, coordinates[self.core_slice].reshape(self.core.shape) if self.has_core else None

    def push(self, coordinates: Floats) -> tuple[Floats, Floats]:
        """Return (dU, dV) of a coordinate vector: dT[:, u] = dU V[u] + U dV[u]."""
        dU = np.ascontiguousarray(coordinates[self.slices[0]].reshape(self.U.shape))
        if not self.rank:
            return dU, np.zeros_like(self.V)
        _, dV = super().push(coordinates)
        return dU, np.hstack([dV, np.zeros((len(dV), 1))])

    def pull(self, gU: Floats, gV: Floats) -> Floats:
        """Return J^T of gradients with respect to U (..., d1, r1 + 1) and V (..., D, r1 + 1)."""
        if self.rank:
            return super().pull(gU, np.ascontiguousarray(gV[..., :-1]))
        out = np.zeros((self.size, int(np.prod(gU.shape[:-2]))))
        out[self.slices[0]] = gU.reshape(-1, self.U.size).T
        return out.reshape(self.size, *gU.shape[:-2])

    def gauge(self, *, only_shift: bool = False) -> list[tuple[slice, Floats]]:
        """Return blocks of C^T C of the gauge constraints, or only of those that models sum to zero."""
        d1, width = len(self.level), self.rank + 1
        own = np.full((d1, d1), 1.0 / d1)
        if only_shift:
            return [(slice(i, self.U.size, width), own) for i in range(width)]
        found = super().gauge() if self.rank else []
        models = [(slice(i, self.U.size, width), block) for i, (_, block) in enumerate(found[: self.rank])]
        return [*models, (self.level_part, own), *found[self.rank :]]

    def turns(self, other: TangentSpace) -> list[Floats]:
        """Return rotations of each mode's components from another point nearby to this one; levels stay."""
        found = super().turns(other) if self.rank else [np.zeros((0, 0))] * len(self.factors)
        return [linalg.block_diag(found[0], np.ones((1, 1))), *found[1:]]

    def retraction(self, step: Floats) -> tuple[Tucker, Floats]:
        """Return L and the levels after a step in coordinates, L back in HOSVD form."""
        changes, dcore = self.parts(step)
        models = self.U + changes[0]
        models = models - models.mean(axis=0)
        level = np.ascontiguousarray(models[:, -1])
        if not self.rank:
            return self.point, level
        factors = [models[:, :-1], *(self.factors[k] + changes[k] for k in range(1, len(self.factors)))]
        return Tucker(self.core if dcore is None else self.core + dcore, tuple(factors)).canonical(), level


def _set_without_factors(space: TangentSpace, point: Tucker, n_extra: int) -> None:
    """Set what `TangentSpace` sets, for a point of rank 0."""
    space.point, space.centred, space.core, space.factors = point, True, point.core, point.factors
    space.V = np.zeros((int(np.prod(point.shape[1:])), 0))
    space.context_shape = point.shape[1:]
    space.mode = 1 + int(np.argmax(space.context_shape))
    space.others = [k for k in range(1, len(point.shape)) if k != space.mode]
    space.has_core = space.has_others = False
    space.q = space.size = n_extra
    space.slices = {k: slice(0, 0) for k in (0, *space.others)} | {space.mode: slice(n_extra, n_extra)}
    space.core_slice, space.extra = slice(0, 0), slice(0, n_extra)


def _make_room(space: TangentSpace, d1: int) -> None:
    """Put levels in front of the coordinates."""
    space.slices = {k: _moved(part, d1) for k, part in space.slices.items()}
    space.slices[0] = slice(0, space.U.size)
    space.core_slice, space.extra = _moved(space.core_slice, d1), _moved(space.extra, d1)
    space.q, space.size = space.q + d1, space.size + d1


def _moved(part: slice, by: int) -> slice:
    return slice(part.start + by, part.stop + by)
