"""Small random problems and dense matrices that the tests of the numerical core share."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import lrbtl
import oracle
from lrbtl.fitting.design import Design
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker, unfold
from lrbtl.typing import Floats, Shape

# orders 1 to 4; with and without a free core; eliminated mode first, in the middle and last
CASES = [
    ((6,), (1,)),
    ((6, 5), (2, 2)),
    ((7, 3), (3, 3)),
    ((6, 5, 3), (3, 2, 2)),
    ((5, 3, 6), (2, 2, 2)),
    ((6, 4, 5), (2, 4, 2)),
    ((5, 3, 4, 3), (3, 2, 2, 2)),
]
SMALL_CASES = [((5,), (1,)), ((5, 4), (2, 2)), ((4, 3, 3), (2, 2, 2))]


def random_point(
    shape: Shape, rank: Sequence[int], seed: int = 0, *, scale: float = 1.0, centred: bool = True
) -> Tucker:
    """A point in HOSVD form; zero sums along mode 1 where centred."""
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(d, r)) for d, r in zip(shape, rank, strict=True)]
    if centred:
        factors[0] -= factors[0].mean(axis=0)
    return Tucker(scale * rng.normal(size=rank), tuple(factors)).canonical()


def random_design(shape: Shape, n: int, seed: int = 0, *, pairs: bool = True) -> Design:
    """Cells in random contexts with ties and multiplicities; single entries where not pairs."""
    rng = np.random.default_rng(seed)
    d1, n_contexts = shape[0], prod(shape[1:])
    context = np.sort(rng.integers(n_contexts, size=n))
    first = rng.integers(d1, size=n)
    second = (first + rng.integers(1, d1, size=n)) % d1
    a = (np.minimum(first, second) if pairs else first).astype(np.int32)
    b = (np.maximum(first, second) if pairs else np.full(n, -1)).astype(np.int32)
    start = np.searchsorted(context, np.arange(n_contexts + 1)).astype(np.int64)
    y, count = rng.integers(0, 3, size=n) / 2.0, rng.integers(1, 4, size=n).astype(float)
    return Design(shape, start, a, b, y, count, centred=pairs)


def gradient_at_zero(design: Design) -> Floats:
    """Sum of n (y - 1/2) X over the cells as a matrix (D, d1)."""
    sums = design.entries.slot_matrix(design.entries.slot_sums(design.count * (design.y - 0.5)))
    return np.asarray(sums)


def battle_matrix(design: Design) -> Floats:
    """vec(X) of every cell, (n_cells, d1 D)."""
    D = design.n_contexts
    X = np.zeros((len(design.a), design.shape[0] * D))
    for i, (u, a, b) in enumerate(zip(design.entries.context, design.a, design.b, strict=True)):
        X[i, a * D + u] += 1.0
        if b >= 0:
            X[i, b * D + u] -= 1.0
    return X


def jacobian(space: TangentSpace) -> Floats:
    """The columns J e_i, (d1 D, size)."""
    return np.stack([space.dense(e).ravel() for e in np.eye(space.size)], axis=1)


def gauge_residual(space: TangentSpace, coordinates: Floats) -> float:
    """The largest violation of the gauge constraints."""
    factors, dcore = space.parts(coordinates)
    residuals = [np.abs(space.factors[k].T @ factors[k]).max() for k in [0, *space.others]]
    residuals.append(np.abs(factors[0].sum(axis=0)).max())
    if dcore is not None:
        residuals.append(np.abs(unfold(dcore, space.mode) @ unfold(space.core, space.mode).T).max())
    return float(max(residuals))


def centring_matrix(shape: Shape) -> Floats:
    """Q1 on vectorised tensors."""
    return np.asarray(np.kron(np.eye(shape[0]) - 1.0 / shape[0], np.eye(prod(shape[1:]))), dtype=np.float64)


def retraction(space: TangentSpace, step: Floats) -> Tucker:
    """The point with all factors and the core moved by coordinates, not in HOSVD form."""
    changes, dcore = space.parts(step)
    factors = tuple(factor + changes[k] for k, factor in enumerate(space.factors))
    return Tucker(space.core if dcore is None else space.core + dcore, factors)


def moved_space(space: TangentSpace, step: Floats) -> TangentSpace:
    """The coordinates at the moved point."""
    return TangentSpace(retraction(space, step), centred=space.centred)


def differences(function: Callable[[Floats], Any], x: Floats, step: float = 1e-5) -> Floats:
    """Central differences of a (vector-valued) function at x, one column per coordinate."""
    return np.stack([(function(x + step * e) - function(x - step * e)) / (2 * step) for e in np.eye(len(x))], axis=-1)


def simulated(
    shape: Shape, rank: Any, n: int, *, scale: float = 2.0, seed: int = 0, sampling: Any = None
) -> tuple[Floats, lrbtl.Battles]:
    """Truth and battles."""
    truth = lrbtl.simulate_scores(shape, rank, scale=scale, rng=seed)
    return truth, lrbtl.simulate_battles(truth, n, sampling=sampling, rng=seed + 1)


def rebuilt(
    battles: lrbtl.Battles, keep: Any = slice(None), *, y: ArrayLike | None = None, counts: ArrayLike | None = None
) -> lrbtl.Battles:
    """Battles of some of the cells, under the same labels, with other outcomes or multiplicities."""
    cells = battles.cells
    contexts = np.unravel_index(cells.context[keep], battles.shape[1:]) if len(battles.shape) > 1 else ()
    return lrbtl.Battles.from_arrays(
        cells.a[keep],
        cells.b[keep],
        cells.y[keep] if y is None else y,
        contexts,
        counts=cells.count[keep] if counts is None else counts,
        models=battles.models,
        levels=battles.levels or None,
    )


def oracle_rows(battles: lrbtl.Battles) -> list[oracle.Row]:
    """The oracle's rows of battles."""
    cells = battles.cells
    return oracle.rows_from_cells(battles.shape, cells.context, cells.a, cells.b, cells.y, cells.count)


def law_dict(law: Any, shape: Shape) -> oracle.Law:
    """The oracle's form of a sampling law."""
    table = law.table(shape)
    return {(u, a, b): float(table[(a, b, *u)]) for u, a, b in oracle.atoms(shape)[0]}
