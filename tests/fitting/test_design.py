"""Cells with the same pair put together say the same of everything that a fit sees."""

from dataclasses import replace

import numpy as np
import pytest

from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.design import CompleteDesign, Design
from lrbtl.fitting.local import Local
from lrbtl.fitting.newton import DirectModel
from lrbtl.fitting.solvers import accumulate
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.model.links import Davidson, Probit
from problems import random_design, random_point, simulated

SHAPES = [((6,), (1,)), ((6, 4), (2, 2)), ((5, 3, 2), (2, 2, 2))]


def crowded(shape):
    """A design in which most pairs have more than one outcome."""
    return Design.of(simulated(shape, 1, 3000)[1])


@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_atoms_are_the_pairs_that_occur(shape, rank):
    design = crowded(shape)
    atoms = design.entries.atoms
    pairs = sorted(set(zip(design.entries.context.tolist(), design.a.tolist(), design.b.tolist(), strict=True)))
    context = np.repeat(np.arange(design.n_contexts), np.diff(atoms.start))
    assert list(zip(context.tolist(), atoms.a.tolist(), atoms.b.tolist(), strict=True)) == pairs
    weight = np.random.default_rng(0).random(len(design.a))
    expected = np.zeros(len(pairs))
    np.add.at(expected, design.entries.atom_number, weight)
    np.testing.assert_allclose(design.entries.atom_weights(weight), expected, rtol=1e-14)


def test_an_empty_context_and_a_pair_that_comes_back_are_no_matter():
    """The last pair of a context is the first of the next: two atoms."""
    a, b = np.array([0, 0, 0], dtype=np.int32), np.array([1, 1, 1], dtype=np.int32)
    design = Design((2, 3), np.array([0, 1, 1, 3]), a, b, np.array([1.0, 0.0, 1.0]), np.ones(3))
    assert design.entries.atoms.start.tolist() == [0, 1, 1, 2]
    assert design.entries.atom_weights(np.array([1.0, 2.0, 4.0])).tolist() == [1.0, 6.0]


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_the_information_is_that_of_the_cells(shape, rank, pairs):
    """Against the same cells in an order that leaves nothing to put together."""
    design = random_design(shape, 60, seed=5, pairs=pairs)
    space = TangentSpace(random_point(shape, rank, centred=pairs), centred=pairs)
    order = np.lexsort((design.b, design.a, design.entries.context))
    sorted_design = Design(
        shape, design.start, design.a[order], design.b[order], design.y[order], design.count[order], pairs
    )
    assert len(sorted_design.entries.atoms.a) < len(design.entries.atoms.a)
    weight = np.random.default_rng(1).random(60)
    one, other = accumulate(design, space, weight).dense(), accumulate(sorted_design, space, weight[order]).dense()
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("link", [None, Probit()])
@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_a_fit_sees_means_only(shape, rank, link):
    design = crowded(shape) if link is None else crowded(shape).with_link(link)
    design = design.with_count(np.random.default_rng(2).integers(0, 4, len(design.a)).astype(float))
    fewer = design.averaged()
    assert len(fewer.a) < len(design.a) and fewer.count.sum() == design.count.sum()
    point, ridge = random_point(shape, rank), np.full(max(len(shape), 2), 1.0)
    locals_ = [Local.of(each, point) for each in (design, fewer)]
    assert locals_[1].loss == pytest.approx(locals_[0].loss, rel=1e-12)
    models = [DirectModel.at(local, ridge) for local in locals_]
    np.testing.assert_allclose(models[1].gradient, models[0].gradient, atol=1e-9)
    np.testing.assert_allclose(models[1].hessian.dense(), models[0].hessian.dense(), atol=1e-9)


def test_ties_of_their_own_are_not_averaged():
    design = crowded((6, 4)).with_link(Davidson())
    assert design.averaged() is design


def test_nothing_is_averaged_where_pairs_hardly_repeat():
    design = Design.of(simulated((30, 40), 1, 1000)[1])
    assert design.averaged() is design


def test_all_pairs_are_their_own_atoms():
    complete = CompleteDesign.of_shape((5, 3))
    weight = np.random.default_rng(0).random(len(complete.a))
    assert complete.entries.atom_weights(weight) is weight
    assert complete.entries.atoms.a is complete.a and complete.entries.atoms.start is complete.start


def test_copies_share_the_index_of_their_slots_and_other_cells_have_their_own():
    design = crowded((6, 4))
    blocks = BlockDesign.of_cells(design)
    copies = design.with_link(Probit()), design.with_count(2 * design.count), blocks
    assert all(copy.entries is design.entries for copy in copies)
    assert replace(blocks, link=Probit()).blocks is blocks.blocks
    kept = np.flatnonzero(design.a > 0)
    part = design.restricted(kept)
    assert part.entries.a is part.a
    slots = np.stack(part.entries.slots)
    np.testing.assert_array_equal(part.entries.model[slots], [part.a, part.b])
    np.testing.assert_array_equal(part.entries.slot_places[0][slots], [part.entries.context, part.entries.context])
    assert design.averaged().entries.atoms is design.entries.atoms
