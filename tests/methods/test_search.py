"""The search over ranks and taus: what stands for the distribution of tau, and the signs of simulated noise."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
from lrbtl.data.cells import random_bits
from lrbtl.fitting import signal
from lrbtl.fitting.fit import make_design
from lrbtl.methods import exceptions, sampled, search
from lrbtl.methods.hierarchical import HierarchicalRun
from lrbtl.methods.sampled import some_contexts
from lrbtl.methods.search import tau_quantiles


def test_quantiles_of_tau():
    """Flat evidence leaves the prior: half on none at all, half flat."""
    taus = np.array([0.0, 0.1, 0.2, 0.4])
    np.testing.assert_allclose(tau_quantiles(taus, np.zeros(4)), 0.4 * np.array([0, 0, 2 / 3]), atol=1e-3)
    low = tau_quantiles(taus, np.array([0.0, 0.0, -9.0, -20.0]))
    assert low[0] == low[1] == 0 and 0 < low[2] < 0.1
    high = tau_quantiles(taus, np.array([-90.0, -30.0, 0.0, 0.0]))
    assert (np.diff(high) > 0).all() and high[0] > 0.1


def test_random_bits_belong_to_pairs():
    u, a, b = np.arange(4).repeat(50), np.tile(np.arange(50), 4), np.tile(np.arange(50)[::-1], 4)
    bits = random_bits(u, a, b)
    np.testing.assert_array_equal(random_bits(u[::-1], a[::-1], b[::-1]), bits[::-1])
    each = (bits[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert len(np.unique(bits)) == 200 and np.abs(each.mean(axis=0) - 0.5).max() < 0.15


def test_a_covariate_without_effect_leaves_the_ranks_alone():
    """Votes of a pair stand in one cell each with it, and in two without: noise has the same size."""
    rng = np.random.default_rng(2)
    n, d1, D = 6000, 12, 6
    scores = lrbtl.simulate_scores((d1, D), 3, scale=1.0, rng=rng)
    a, u = rng.integers(0, d1, n), rng.integers(0, D, n)
    b = (a + rng.integers(1, d1, n)) % d1
    won = (rng.random(n) < 1 / (1 + np.exp(scores[b, u] - scores[a, u]))).astype(float)
    frame = {"model_a": a, "model_b": b, "winner": won, "task": u, "x": rng.normal(size=n)}
    said: list[list[str]] = [[], []]
    for lines, covariates in zip(said, (None, ["x"]), strict=True):
        battles = lrbtl.Battles.from_frame(frame, contexts="task", covariates=covariates)
        lrbtl.analyse(battles, progress=lines.append)
    above = [[float(re.findall(r"-?[0-9.]+", line)[1]) for line in lines] for lines in said]
    assert len(above[0]) > 1
    np.testing.assert_allclose(above[1], above[0], atol=0.3)


def test_modes_of_contexts_have_ranks_of_their_own():
    """Judges that only stretch all scores have rank 1, whatever categories have; a rank that is given stays."""
    rng = np.random.default_rng(5)
    low = rng.normal(size=(20, 2)) @ rng.normal(size=(2, 6))
    truth = np.multiply.outer(low, np.array([1.0, 0.7, 1.2]))
    battles = lrbtl.simulate_battles(truth - truth.mean(axis=0), 40_000, rng=1)
    assert lrbtl.analyse(battles).run.provenance.rank == (2, 2, 1)
    assert lrbtl.analyse(battles, rank=(2, 2, 2)).run.provenance.rank == (2, 2, 2)


@pytest.mark.parametrize("seed", range(3))
def test_the_size_of_small_deviations_is_found(seed):
    """Also from a first tau that is far too large, where the evidence bends the wrong way."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 8))
    truth = low / np.sqrt(np.mean(low**2)) + 0.2 * rng.normal(size=(40, 8))
    run = lrbtl.analyse(lrbtl.simulate_battles(truth - truth.mean(axis=0), 30_000, rng=seed)).run
    assert isinstance(run, HierarchicalRun)
    assert 0.15 < run.tau < 0.25 and run.nodes[0].rank[0] < 4


def test_some_contexts_stand_for_all_of_a_large_log(monkeypatch):
    """Ranks and taus from a part of the contexts, scores and errors of all of them: boards as from the whole log."""
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(12, 1)), 1.0 + 0.3 * rng.normal(size=(400, 1))
    a, u = rng.integers(12, size=8_000), rng.integers(400, size=8_000)
    b = (a + rng.integers(1, 12, size=8_000)) % 12
    y = rng.random(8_000) < expit((U[a] - U[b])[:, 0] * V[u, 0])
    battles = lrbtl.Battles.from_arrays(a, b, y.astype(float), contexts=u)
    weights = np.stack([battles.context_counts / battles.n_battles, np.arange(400) == 7]).astype(float)
    whole = lrbtl.analyse(battles).estimate_boards(weights)
    assert some_contexts(make_design(battles, None)) is None
    monkeypatch.setattr(sampled, "LARGE_LOG", 1_000)
    monkeypatch.setattr(sampled, "MANY_CONTEXTS", 100)
    monkeypatch.setattr(sampled, "PART_CELLS", 4_000)
    kept = some_contexts(make_design(battles, None))
    assert kept is not None and 150 < len(kept) < 300
    part = lrbtl.analyse(battles).estimate_boards(weights)
    for mine, theirs in zip(part, whole, strict=True):
        assert np.abs(mine.estimate - theirs.estimate).max() < 0.5 * theirs.se.min()
        assert 0.7 < np.median(mine.se / theirs.se) < 1.4


def test_on_a_ladder_a_rank_more_stays_in_doubt(monkeypatch):
    """Where only similar models meet, a component along the ladder hardly shows: the next rank is not ruled out."""
    place, (a, b) = np.arange(20), np.triu_indices(20, 1)
    near = np.abs(place[a] - place[b]) <= 2
    a, b, u = np.tile(a[near], 5), np.tile(b[near], 5), np.repeat(np.arange(5), near.sum())

    def weight_above(rank, seed):
        rng = np.random.default_rng(seed)
        truth = np.linspace(-1.5, 1.5, 20)[:, None] + rng.normal(size=(20, 1)) @ rng.normal(size=(1, 5))
        won = rng.binomial(20, expit(truth[a, u] - truth[b, u]))
        y, counts = np.repeat([1.0, 0.0], len(a)), np.append(won, 20 - won)
        log = lrbtl.Battles.from_arrays(np.tile(a, 2), np.tile(b, 2), y, [np.tile(u, 2)], counts=counts)
        run = lrbtl.analyse(log).run
        assert isinstance(run, HierarchicalRun)
        return sum(node.weight for node in run.nodes if node.rank[0] > rank)

    found = [weight_above(2, seed) for seed in range(8)]
    monkeypatch.setattr(search, "HIDDEN", 0.0)
    without = [weight_above(2, seed) for seed in range(8)]
    assert sum(found) > sum(without) + 0.1


def test_a_component_that_vanishes_ends_the_search(monkeypatch):
    """Whatever residuals say, a rank whose last component shrinks to nothing is that of the rank before."""
    monkeypatch.setattr(search, "NOISE", -60.0)
    monkeypatch.setattr(search, "SURELY", -50.0)
    truth, lines = lrbtl.simulate_scores((12, 40), 1, scale=1.5, rng=0), []
    run = lrbtl.analyse(lrbtl.simulate_battles(truth, 800, rng=1), progress=lines.append).run
    assert isinstance(run, HierarchicalRun)
    assert any("its last component vanishes" in line for line in lines)
    assert all(not node.mode.scores.vanished for node in run.nodes)


def test_small_steps_do_not_leave_the_mode():
    """Votes of one pair in each of three contexts: steps with an expansion from nearby went to thousands of logits."""
    battles = lrbtl.Battles.from_arrays(
        [0, 1, 1, 0, 1], [1, 2, 2, 1, 2], [0.5, 0.5, 1.0, 0.5, 0.5], [[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]],
        counts=[1, 1, 100, 101, 100], n_models=3, n_levels=[2, 2],
    )  # fmt: skip
    assert np.abs(lrbtl.analyse(battles).scores()).max() < 10


def test_ranks_grow_while_components_are_certain(monkeypatch):
    """However far they stand out: few draws tell that roughly, and on one log it seemed to grow from rank to rank."""
    plain, excess = signal.probe_residuals, {1: 30.0, 2: 40.0, 3: 50.0}

    def probe(at, *doubt):
        return replace(plain(at), excess=excess.get(at.scores.space.point.rank[0], -1.0), certain=0)

    monkeypatch.setattr(search, "probe_residuals", probe)
    truth = lrbtl.simulate_scores((20, 12), 4, scale=1.5, rng=0)
    run = lrbtl.analyse(lrbtl.simulate_battles(truth, 40_000, rng=1)).run
    assert run.provenance.rank == (4, 4)


def test_certain_components_are_counted_at_once():
    """Residuals of rank 1 show all that is certain: ranks between are not looked at, and the last one is the same."""
    truth, lines = lrbtl.simulate_scores((60, 40), 5, scale=3.0, rng=0), []
    run = lrbtl.analyse(lrbtl.simulate_battles(truth, 400_000, rng=1), progress=lines.append).run
    assert run.provenance.rank == (5, 5)
    seen = [int(line.split()[1][:-1]) for line in lines if line.startswith("rank")]
    assert seen[0] == 1 and seen[-1] == 5 and len(seen) < 5


def test_exceptions_do_not_come_and_go(monkeypatch):
    """An entry whose probability falls below one half once it is let out stays out, unless it becomes unlikely."""
    truth = lrbtl.simulate_scores((20, 6), 2, scale=1.0, rng=0)
    truth = np.array(truth)
    truth[3, 2] += 1.0
    passes, plain = [], exceptions.find_exceptions

    def found(posterior):
        out = plain(posterior)
        probability = np.where(np.arange(out.probability.size) == 43, 0.4 if passes else 0.6, 0.0)
        passes.append(np.flatnonzero(np.broadcast_to(posterior.at.scores.offset, probability.shape)).tolist())
        return replace(out, probability=probability)

    monkeypatch.setattr(search, "find_exceptions", found)
    lrbtl.analyse(lrbtl.simulate_battles(truth - truth.mean(axis=0), 30_000, rng=1), rank=2)
    assert passes[:2] == [[], [43]] and all(out == [43] for out in passes[1:])


def test_components_of_one_size_are_all_found():
    """While some of them are missing, they count as deviations, above which the next one does not stand out more."""
    rng = np.random.default_rng([5, 0, 5])
    truth = np.linalg.qr(rng.normal(size=(30, 5)))[0] @ np.linalg.qr(rng.normal(size=(12, 5)))[0].T
    truth = truth - truth.mean(axis=0)
    battles = lrbtl.simulate_battles(0.7 * truth / truth.std(), 400_000, rng=0)
    assert lrbtl.analyse(battles).run.provenance.rank == (5, 5)
