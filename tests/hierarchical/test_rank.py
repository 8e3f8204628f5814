"""What residuals show beyond noise."""

import numpy as np
import pytest

import lrbtl
from hierarchy_twin import Twin, design_of, entries, mode_of
from lrbtl.data.cells import random_bits, record_places
from lrbtl.hierarchical.config import HierarchicalConfig
from lrbtl.hierarchical.rank import probe_residuals

CLIP = HierarchicalConfig().residual_clip


def test_random_bits_belong_to_pairs():
    u, a, b = np.arange(4).repeat(50), np.tile(np.arange(50), 4), np.tile(np.arange(50)[::-1], 4)
    bits = random_bits(u, a, b)
    np.testing.assert_array_equal(random_bits(u[::-1], a[::-1], b[::-1]), bits[::-1])
    each = (bits[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert len(np.unique(bits)) == 200 and np.abs(each.mean(axis=0) - 0.5).max() < 0.15


@pytest.mark.parametrize("n", [30, 3000])
def test_bits_of_records_go_with_models_and_contexts(n):
    """Whatever they are called; thin logs have models of the same record, which their opponents tell apart."""
    rng = np.random.default_rng(0)
    battles = lrbtl.simulate_battles(rng.normal(size=(9, 4)), n, rng=1)
    models, contexts = rng.permutation(9), rng.permutation(4)
    c = battles.cells
    other = lrbtl.Battles.from_arrays(
        models[c.a], models[c.b], c.y, [contexts[c.context]], counts=c.count, n_models=9, n_levels=[4]
    )
    one, two = (design_of(log) for log in (battles, other))

    def signs(design, back, places):
        """Signs of atoms by pair and context under the first names, for the first of both."""
        atoms, out = design.entries.atoms, {}
        context = np.repeat(np.arange(4), np.diff(atoms.start))
        for a, b, u, bits in zip(atoms.a, atoms.b, context, design.atom_bits, strict=True):
            a, b, u = back[a], back[b], places[u]
            out[u, min(a, b), max(a, b)] = int(bits) if a < b else int(~bits)
        return out

    same = np.arange(9), np.arange(4)
    assert signs(one, *same) == signs(two, np.argsort(models), np.argsort(contexts))
    assert len(set(signs(one, *same).values())) == len(one.atom_bits)
    (u, a), (v, b) = one.slot_places, two.slot_places
    slots = dict(zip(zip(contexts[u], models[a], strict=True), one.slot_bits, strict=True))
    assert slots == dict(zip(zip(v, b, strict=True), two.slot_bits, strict=True))


def test_the_same_records_are_told_apart():
    """Three models that all met once: nothing but their order distinguishes them."""
    a, b = np.array([0, 0, 1]), np.array([1, 2, 2])
    models, contexts = record_places(np.zeros(3, dtype=np.int64), a, b, np.full(3, 2.0), np.ones(3), (5, 1))
    assert sorted(models.tolist()) == [0, 1, 2, 3, 4] and contexts.tolist() == [0]


def test_one_vote_more_changes_no_other_place():
    battles = lrbtl.simulate_battles(np.random.default_rng(0).normal(size=(9, 4)), 3000, rng=1)
    more = battles + lrbtl.Battles.from_arrays(["new"], [battles.models[2]], [1.0], [[1]], n_levels=4)
    one, two = (design_of(log) for log in (battles, more))
    signs = []
    for design in (one, two):
        atoms = design.entries.atoms
        context = np.repeat(np.arange(4), np.diff(atoms.start))
        signs.append(dict(zip(zip(atoms.a, atoms.b, context, strict=True), design.atom_bits, strict=True)))
    same = [signs[0][key] == signs[1][key] for key in signs[0]]
    assert len(same) == len(signs[1]) - 1 and np.mean(same) > 0.5


def planted(size, seed=0, n=20_000, d1=20, D=8):
    """Votes of levels and one factor of a size, with deviations."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(d1, 1)) @ rng.normal(size=(1, D))
    truth = rng.normal(size=(d1, 1)) + size * factor + 0.1 * rng.normal(size=(d1, D))
    return lrbtl.simulate_battles(truth - truth.mean(axis=0), n, rng=seed)


def test_residuals_show_a_factor_that_is_not_fitted():
    without = [probe_residuals(mode_of(planted(0.0, seed), 0, 0.1).at, CLIP).excess for seed in range(6)]
    assert np.median(without) < 1.5 and max(without) < 4.0
    found = probe_residuals(mode_of(planted(0.6), 0, 0.1).at, CLIP)
    assert found.excess > 8.0
    assert probe_residuals(mode_of(planted(0.6), 1, 0.1).at, CLIP).excess < 4.0


def test_two_large_factors_are_certain_at_once():
    rng = np.random.default_rng(1)
    truth = rng.normal(size=(40, 1)) + np.linalg.qr(rng.normal(size=(40, 2)))[0] @ rng.normal(0, 4, size=(2, 20))
    battles = lrbtl.simulate_battles(truth - truth.mean(axis=0), 100_000, rng=2)
    assert probe_residuals(mode_of(battles, 0, 0.05).at, CLIP).certain == 2


@pytest.mark.parametrize("rank", [0, 1])
def test_the_trace_that_coordinates_take(rank):
    """Of W J A^-1 J^T W, by dense matrices."""
    at = mode_of(planted(0.3, n=1500, d1=8, D=4), rank, 0.2).at
    twin, place, size = Twin.of(at), entries(at.scores.design), at.scores.space.size
    H = twin.H[np.ix_(place, place)]
    W = np.linalg.inv(np.eye(len(H)) + at.tau**2 * H) @ H
    P, J = twin.precision, twin.J[place]
    A = P[:size, :size] - P[:size, size:] @ np.linalg.solve(P[size:, size:], P[size:, :size])
    expected = np.trace(W @ J @ np.linalg.solve(A, J.T @ W))
    assert probe_residuals(at, CLIP).taken == pytest.approx(expected, rel=1e-5)


def test_a_clear_answer_takes_few_draws():
    """Below all doubt, more draws would change nothing."""
    at = mode_of(planted(0.0), 0, 0.1).at
    few, all_draws = probe_residuals(at, CLIP, np.inf), probe_residuals(at, CLIP)
    assert abs(few.excess - all_draws.excess) < 3.0
