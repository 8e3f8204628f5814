"""Matrices per context against dense ones."""

from dataclasses import replace

import numpy as np
import pytest

from hierarchy_twin import entries
from lrbtl.fitting.blocks import BlockDesign, LowRankPlusSparse, without_idle_slots
from lrbtl.fitting.design import Design
from lrbtl.fitting.entries import EntryIndex
from lrbtl.fitting.jacobian import pull_columns, push_columns
from lrbtl.fitting.solvers import accumulate
from lrbtl.lowrank.tangent import TangentSpace
from problems import battle_matrix, jacobian, random_design, random_point


def uneven_design():
    """Contexts in which 12, 5, 4, 3 and 2 models met, and one without battles: three groups and padding."""
    rng, rows = np.random.default_rng(0), []
    for u, (size, n) in enumerate([(12, 40), (5, 9), (0, 0), (4, 8), (2, 2), (3, 5)]):
        models = rng.choice(12, size=size, replace=False) if size else np.empty(0, dtype=int)
        pairs = {(models[i], models[(i + 1) % size]) for i in range(size)}
        pairs |= {tuple(rng.choice(models, size=2, replace=False)) for _ in range(n)}
        rows += sorted((u, min(pair), max(pair)) for pair in {tuple(sorted(pair)) for pair in pairs})
    context, a, b = np.array(rows).T
    start = np.searchsorted(context, np.arange(7)).astype(np.int64)
    y, count = rng.integers(0, 3, size=len(a)) / 2.0, rng.integers(1, 4, size=len(a)).astype(float)
    return Design((12, 6), start, a.astype(np.int32), b.astype(np.int32), y, count)


def cases():
    """Designs with all slots, with lists of slots, and with idle ones taken out; orders 1 to 3."""
    lists = random_design((12, 4, 3), 30, 2)
    lists = replace(lists, entries=EntryIndex.of(12, lists.start, lists.a, lists.b, full=False))
    return {
        "full": random_design((6, 5), 90, 0),
        "plain": random_design((6,), 20, 1),
        "lists": lists,
        "idle": without_idle_slots(uneven_design()),
        "grid": uneven_design(),
    }


CASES = cases()
each = pytest.mark.parametrize("name", CASES)


def blocks_of(name):
    design = BlockDesign.of_cells(CASES[name])
    return design, np.random.default_rng(5).uniform(0.2, 2.0, size=len(design.a))


def test_the_cases_are_what_they_say():
    assert (
        CASES["full"].entries.full
        and CASES["grid"].entries.full
        and not CASES["idle"].entries.full
        and not CASES["lists"].entries.full
    )
    groups = BlockDesign.of_cells(CASES["idle"]).blocks.groups
    assert [group.slots.shape for group in groups] == [(1, 12), (2, 5), (1, 3), (1, 2)]
    assert [group.contexts.tolist() for group in groups] == [[0], [1, 3], [5], [4]]
    assert groups[1].slots[1, -1] == 12 + 5 + 4 + 3 + 2  # padding
    assert without_idle_slots(CASES["full"]) is CASES["full"]


@each
def test_laplacians_are_sums_over_battles(name):
    design, weight = blocks_of(name)
    X = battle_matrix(design)[:, entries(design)]
    found = design.blocks.times(design.blocks.laplacians(weight), np.eye(design.n_slots))
    np.testing.assert_allclose(found, X.T @ (weight[:, None] * X), atol=1e-12)


@each
def test_every_slot_has_one_place(name):
    design, _ = blocks_of(name)
    values = np.random.default_rng(1).normal(size=(design.n_slots, 3))
    parts = design.blocks.gather(values)
    np.testing.assert_array_equal(design.blocks.scatter(parts), values)
    assert sum(np.count_nonzero(part.any(axis=2)) for part in parts) == design.n_slots
    models = entries(design) // design.n_contexts
    for group, part in zip(design.blocks.groups, design.blocks.gather(models.astype(float)), strict=True):
        np.testing.assert_array_equal(part, group.models)


@each
def test_a_product_is_that_of_each_context(name):
    design, weight = blocks_of(name)
    matrices, rng = design.blocks.laplacians(weight), np.random.default_rng(2)
    dense = design.blocks.times(matrices, np.eye(design.n_slots))
    for values in (rng.normal(size=design.n_slots), rng.normal(size=(design.n_slots, 2))):
        np.testing.assert_allclose(design.blocks.times(matrices, values), dense @ values, atol=1e-12)


def space_of(design):
    shape = design.shape
    rank = (1,) if len(shape) == 1 else (2,) * len(shape)
    return TangentSpace(random_point(shape, rank, 3))


@each
def test_normal_equations_with_a_matrix_per_context(name):
    """J^T M J for symmetric matrices that are no Laplacians, with all blocks of the arrowhead."""
    design, weight = blocks_of(name)
    matrices = [M @ M + 0.1 * M for M in design.blocks.laplacians(weight)]
    place, size = entries(design), design.shape[0] * design.n_contexts
    M = np.zeros((size, size))
    M[np.ix_(place, place)] = design.blocks.times(matrices, np.eye(design.n_slots))
    space = space_of(design)
    J = jacobian(space)
    found = accumulate(design, space, matrices).dense()
    np.testing.assert_allclose(found, J.T @ M @ J, atol=1e-10 * np.abs(found).max())


@each
def test_columns_go_to_coordinates_and_back(name):
    design, _ = blocks_of(name)
    space, rng = space_of(design), np.random.default_rng(8)
    J, values = jacobian(space)[entries(design)], rng.normal(size=(design.n_slots, 3))
    np.testing.assert_allclose(pull_columns(design.entries, space, values), J.T @ values, atol=1e-12)
    coordinates = rng.normal(size=(space.size, 3))
    np.testing.assert_allclose(push_columns(design.entries, space, coordinates), J @ coordinates, atol=1e-12)


@each
def test_blocks_of_models_and_rows_of_slots(name):
    design, weight = blocks_of(name)
    matrices, space = design.blocks.laplacians(weight), space_of(design)
    (d1, r1), D = space.U.shape, design.n_contexts
    dense = np.zeros((d1 * D, d1 * D))
    place = entries(design)
    dense[np.ix_(place, place)] = design.blocks.times(matrices, np.eye(design.n_slots))
    by_context = dense.reshape(d1, D, d1, D)[:, np.arange(D), :, np.arange(D)]  # (D, d1, d1)
    border = np.zeros((space.q, space.q))
    design.add_model_blocks(space, matrices, border)
    expected = np.einsum("uab,ui,uj->aibj", by_context, space.V, space.V).reshape(d1 * r1, d1 * r1)
    np.testing.assert_allclose(border[: d1 * r1, : d1 * r1], expected, atol=1e-12)
    rows, gram = design.slot_rows(space, matrices)
    wide = by_context @ space.U
    np.testing.assert_allclose(rows, wide[place % D, place // D], atol=1e-12)
    np.testing.assert_allclose(gram, space.U.T @ wide, atol=1e-12)


@each
def test_sums_and_traces_over_contexts(name):
    design, weight = blocks_of(name)
    d1, D = design.shape[0], design.n_contexts
    matrices = design.blocks.laplacians(weight)
    X = battle_matrix(design).reshape(len(weight), d1, D)
    other = np.random.default_rng(1).normal(size=(d1, d1))
    dense = np.einsum("nau,n,nbu->uab", X, weight, X)
    np.testing.assert_allclose(design.blocks.summed(matrices), dense.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(design.blocks.traces(matrices, other), np.einsum("uab,ab->u", dense, other), atol=1e-10)


def test_models_that_no_chain_links_are_blocks_of_their_own():
    """Two pairs and a chain of three in one context, one pair in another."""
    a, b = np.array([0, 1, 2, 5, 3], dtype=np.int32), np.array([4, 2, 6, 7, 4], dtype=np.int32)
    start = np.array([0, 4, 5])
    design = BlockDesign.of_cells(without_idle_slots(Design((8, 2), start, a, b, np.ones(5), np.ones(5))))
    models = [sorted(group.models.tolist()) for group in design.blocks.groups]
    assert models == [[[1, 2, 6]], [[0, 4], [3, 4], [5, 7]]]
    X = battle_matrix(design)[:, entries(design)]
    found = design.blocks.times(design.blocks.laplacians(np.ones(5)), np.eye(design.n_slots))
    np.testing.assert_allclose(found, X.T @ X, atol=1e-12)
    np.testing.assert_allclose(design.blocks.traces(design.blocks.laplacians(np.ones(5)), np.eye(8)), [8.0, 2.0])


@each
def test_a_field_is_low_rank_plus_slots(name):
    design, _ = blocks_of(name)
    rng, (d1, D) = np.random.default_rng(2), (design.shape[0], design.n_contexts)
    U, V, slots, weights = (rng.normal(size=size) for size in ((d1, 2), (D, 2), design.n_slots, D))
    field = LowRankPlusSparse.of(design, U, V, slots)
    dense = U @ V.T
    context, model = design.slot_places
    dense[model, context] += slots
    everywhere = np.repeat(np.arange(d1), D), np.tile(np.arange(D), d1)
    for found, expected in ((field, dense), (field.centred(), dense - dense.mean(axis=0))):
        np.testing.assert_allclose(found.dense(), expected, atol=1e-12)
        np.testing.assert_allclose(found.entries(*everywhere), expected.reshape(-1), atol=1e-12)
        np.testing.assert_allclose(found.columns(np.array([D - 1, 0])), expected.T[[D - 1, 0]], atol=1e-12)
        np.testing.assert_allclose(found.at_slots(), expected[model, context], atol=1e-12)
        np.testing.assert_allclose(found.mean(weights), expected @ weights, atol=1e-12)
        np.testing.assert_allclose(found.gram(), expected @ expected.T, atol=1e-11)
        np.testing.assert_allclose(found.mean_square(), np.mean(expected**2))
        np.testing.assert_allclose(found.norm(), np.linalg.norm(expected, 2))
    mixed = LowRankPlusSparse.mixed([field, field.centred()], [2.0, -1.0])
    np.testing.assert_allclose(mixed.dense(), dense + dense.mean(axis=0), atol=1e-12)


def test_a_thin_field_is_truncated_without_its_entries():
    rng = np.random.default_rng(3)
    a = rng.integers(0, 9, size=40).astype(np.int32)
    b = ((a + rng.integers(1, 9, size=40)) % 9).astype(np.int32)
    design = Design((9, 40), np.arange(41), np.minimum(a, b), np.maximum(a, b), np.ones(40), np.ones(40))
    thin = BlockDesign.of_cells(without_idle_slots(design))
    assert not thin.entries.full
    field = LowRankPlusSparse.of(thin, rng.normal(size=(9, 2)), rng.normal(size=(40, 2)), rng.normal(size=thin.n_slots))
    left, values, right = np.linalg.svd(field.dense(), full_matrices=False)
    expected = (left[:, :2] * values[:2]) @ right[:2]
    np.testing.assert_allclose(field.truncated((2, 2)).dense(), expected, atol=1e-10)
