"""What tangent coordinates change at entries, and sums over entries in tangent coordinates.

J is the derivative of the scores by the coordinates of a tangent space. On the slots of an index, these are J x and
J^T y for one column or for many, and the parts of J^T G J that cells fill.
"""

import numpy as np
from scipy import sparse

from lrbtl._kernels import gram
from lrbtl.fitting.entries import EntryIndex
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.model.effects import Border
from lrbtl.typing import Floats


def eta_at(entries: EntryIndex, space: TangentSpace) -> Floats:
    """Return <T, X> of every cell."""
    return entries.differences(entries.slot_values(space.U, space.V))


def eta_change(entries: EntryIndex, space: TangentSpace, coordinates: Floats) -> Floats:
    """Return <J x, X> of every cell."""
    return entries.differences(slot_changes(entries, space, *space.push(coordinates)))


def slot_changes(entries: EntryIndex, space: TangentSpace, dU: Floats, dV: Floats) -> Floats:
    """Return the entry of dU V^T + U dV^T at every slot."""
    return entries.slot_values(dU, space.V) + entries.slot_values(space.U, dV)


def push_columns(entries: EntryIndex, space: TangentSpace, coordinates: Floats) -> Floats:
    """Return what columns of coordinates (size, m) change on the slots, (n_slots, m)."""
    dU, dV = space.push_columns(coordinates)
    if entries.full:
        out = np.tensordot(space.V, dU, axes=(1, 1)) + space.U @ dV
        return np.asarray(out.reshape(entries.n_slots, -1))
    context, model = entries.slot_places
    out = np.zeros((entries.n_slots, coordinates.shape[1]))
    for k in range(space.U.shape[1]):
        out += space.V[context, k, None] * dU[model, k]
        out += space.U[model, k, None] * dV[context, k]
    return out


def pull_sums(entries: EntryIndex, space: TangentSpace, value: Floats) -> Floats:
    """Return J^T of a tensor given by one value per slot, in tangent coordinates."""
    sums = entries.slot_matrix(value)
    return space.pull(sums.T @ space.V, sums @ space.U)


def pull_columns(entries: EntryIndex, space: TangentSpace, values: Floats) -> Floats:
    """Return J^T of tensors given by values per slot, (n_slots, m), in tangent coordinates, (size, m)."""
    if entries.full:
        cube = values.reshape(entries.n_contexts, entries.n_models, -1)
        gU, gV = np.einsum("uam,uk->mak", cube, space.V, optimize=True), np.einsum("uam,ak->muk", cube, space.U)
        return space.pull(gU, gV)
    context, model = entries.slot_places
    gU = np.stack([entries.by_model(v[context, None] * values) for v in space.V.T], axis=2)
    gV = np.stack([entries.by_context(u[model, None] * values) for u in space.U.T], axis=2)
    return space.pull(np.swapaxes(gU, 0, 1), np.swapaxes(gV, 0, 1))


def gram_apply(entries: EntryIndex, space: TangentSpace, weight: Floats, coordinates: Floats) -> Floats:
    """Return J^T (sum of weight X X^T) J x without forming a matrix."""
    changes = slot_changes(entries, space, *space.push(coordinates))
    return pull_sums(entries, space, entries.gram_sums(weight, changes))


def cross_blocks(entries: EntryIndex, space: TangentSpace, rows: Floats, score: Floats) -> Floats | sparse.bsr_array:
    """Return the block of J^T G J between the eliminated factor and the model factor, (dl rl, d1 r1)."""
    slot_start, model = entries.slot_start, entries.model
    dl, rl = space.factors[space.mode].shape
    d1, r1 = space.U.shape
    if not rl:
        return np.zeros((0, d1 * r1))
    key = np.repeat(space.rows, np.diff(slot_start)) * d1 + model
    if entries.full:
        present, target = np.arange(dl * d1), key
    elif dl < entries.n_contexts:
        present, target = np.unique(key, return_inverse=True)
    else:
        present, target = key, np.arange(len(key))
    blocks = np.zeros((len(present), rl, r1))
    gram.sum_cross_blocks(slot_start, target, space.E, space.V, rows, score, blocks)
    if entries.full:
        return blocks.reshape(dl, d1, rl, r1).transpose(0, 2, 1, 3).reshape(dl * rl, d1 * r1)
    indptr = np.searchsorted(present, np.arange(dl + 1) * d1)
    return sparse.bsr_array((blocks, present % d1, indptr), shape=(dl * rl, d1 * r1))


def effect_columns(entries: EntryIndex, border: Border) -> Floats:
    """Return for each slot the sums of the weights of a border's effects, signed by side, (n_slots, K)."""
    sums = np.zeros((entries.n_slots, 0 if border.slopes is None else border.slopes.shape[1]))
    if border.slopes is not None and border.weight is not None:
        gram.sum_slope_rows(*entries.slots, border.weight, border.slopes, sums)
    law = [entries.slot_sums(np.ascontiguousarray(column))[:, None] for column in border.law.T]
    return border.spread(np.concatenate([sums, *law], axis=1), entries.slot_places[0])
