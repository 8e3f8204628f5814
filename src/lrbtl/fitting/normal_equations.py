"""Quadratic forms of battles in tangent coordinates: information K, meat B and the Newton Hessian, one routine."""

import numpy as np
from scipy import sparse

from lrbtl.fitting.design import Design
from lrbtl.lowrank.arrowhead import Arrowhead
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import contract
from lrbtl.model.effects import Border
from lrbtl.typing import Floats

SPARSE_BELOW = 0.15  # share of occupied (row, model) blocks below which the cross part stays sparse


def accumulate(
    design: Design,
    space: TangentSpace,
    weight: Floats,
    effects: Border | None = None,
    *,
    slot_score: Floats | None = None,
) -> Arrowhead:
    """Return J^T (sum of weight X X^T) J over cells as an arrowhead matrix [Li26, eq. Ghat_def].

    `effects` is the border of the parameters that all cells share. With `slot_score`, the sums of a score over slots,
    the second-order part - sum of score * (second derivative of eta) is added, which makes it the Hessian of a loss
    whose derivative in eta is -score.
    """
    merged = design.atom_weights(weight)
    rows, gram = design.slot_rows(space, merged)
    sums_of_score = np.zeros(len(rows)) if slot_score is None else slot_score
    dl, rl = space.factors[space.mode].shape
    q1 = space.U.size
    border = np.zeros((space.q, space.q))
    design.add_model_blocks(space, merged, border)
    blocks = space.sum_over(space.E.transpose(0, 2, 1) @ gram @ space.E, space.mode)
    models = design.cross_blocks(space, rows, sums_of_score)
    others = np.zeros((dl, rl, space.q - q1))
    if effects is not None:
        _add_effects(design, space, effects, border, others)
    if space.has_others:
        sums = [design.slot_matrix(column) for column in (*rows.T, sums_of_score)]
        for group in range(len(space.groups)):
            _add_group(space, group, gram, sums, border, others, slot_score is not None)
    return Arrowhead(border, blocks, _join(models, others.reshape(dl * rl, -1)), design.n_threads)


def fix_gauge(matrix: Arrowhead, space: TangentSpace) -> Arrowhead:
    """Return the matrix plus C^T C of the gauge constraints, which leaves it unchanged on tangent vectors."""
    parts = []
    for part, block in space.gauge():
        scale = np.diag(matrix.border)[part].sum() / np.trace(block)
        parts.append((part, block * scale))
    return matrix.plus_border(parts)


def _add_effects(design: Design, space: TangentSpace, effects: Border, border: Floats, others: Floats) -> None:
    """Add what effects share with one another, with the border and with the eliminated rows."""
    weights, corner = effects
    for i, weight in enumerate(weights.T, start=space.extra.start):
        column = design.gradient(space, np.ascontiguousarray(weight))
        border[i] = border[:, i] = column[: space.q]
        others[:, :, i - space.U.size] = column[space.q :].reshape(others.shape[:2])
    border[space.extra, space.extra] = corner


def _join(models: Floats | sparse.bsr_array, others: Floats) -> Floats | sparse.csr_array:
    if isinstance(models, np.ndarray):
        return np.hstack([models, others]) if others.size else models
    if models.nnz < SPARSE_BELOW * models.shape[0] * models.shape[1]:
        parts = [models.tocsr(), sparse.csr_array(others)]
        cross = sparse.csr_array(sparse.hstack(parts, format="csr")) if others.size else parts[0]
        cross.sort_indices()
        return cross
    return np.hstack([models.toarray(), others])


def _add_group(
    space: TangentSpace,
    group: int,
    gram: Floats,
    sums: list[Floats | sparse.csr_array],
    border: Floats,
    others: Floats,
    curvature: bool,
) -> None:
    """Add the chain rule v_u(core, factors) of one group of contexts to the border and to its cross part."""
    q1, r1 = space.U.size, space.U.shape[1]
    contexts, levels = space.groups[group]
    columns, F = space.group_border(group)
    HF = gram[contexts] @ F
    border[np.ix_(columns, columns)] += F.reshape(-1, len(columns)).T @ HF.reshape(-1, len(columns))
    others[:, :, columns - q1] += space.E[contexts[0]].T @ HF
    v = space.V[contexts]
    *slot_rows, slot_score = (matrix[contexts].T for matrix in sums)
    block = -(slot_score @ F.transpose(0, 2, 1).reshape(len(F), -1))
    for a, matrix in enumerate(slot_rows):
        block += matrix @ (F[:, a, :, None] * v[:, None, :]).reshape(len(F), -1)
    block = block.reshape(-1, len(columns), r1).transpose(1, 0, 2).reshape(len(columns), q1)
    border[columns, :q1] += block
    border[:q1, columns] += block.T
    if curvature:
        gV = slot_score.T @ space.U
        others[:, :, columns - q1] -= np.einsum("ja,ali->jil", gV, space.group_jacobians[1][group])
        _subtract_curvature(space, levels, gV.T @ space.factors[space.mode], border)


def _subtract_curvature(space: TangentSpace, levels: tuple[int, ...], moment: Floats, border: Floats) -> None:
    """Subtract gV . (second derivative of v) between border parts over the group; moment = gV^T U_l, (r1, rl)."""
    order = space.core.ndim
    row = {k: space.factors[k][level] for k, level in zip(space.others, levels, strict=True)}
    moment_part = (moment, [0, space.mode])
    for k, level in zip(space.others, levels, strict=True):
        at_k = space.row_columns(k, level)
        for j, other in zip(space.others, levels, strict=True):
            if j > k:
                rest = [x for i in space.others if i not in (j, k) for x in (row[i], [i])]
                value = contract(space.core, list(range(order)), *moment_part, *rest, [k, j])
                at_j = space.row_columns(j, other)
                border[np.ix_(at_k, at_j)] -= value
                border[np.ix_(at_j, at_k)] -= value.T
        if space.has_core:
            rest = [x for i in space.others if i != k for x in (row[i], [i])]
            eye = np.eye(space.core.shape[k])
            value = contract(*moment_part, *rest, eye, [k, order], [*range(order), order]).reshape(-1, len(at_k))
            border[space.core_slice, at_k] -= value
            border[at_k, space.core_slice] -= value.T
