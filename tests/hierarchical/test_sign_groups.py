"""Votes of random signs: their sums, and what groups of them add to models, against loops over votes."""

import numpy as np
import pytest

import lrbtl
from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.low_rank import make_design
from lrbtl.hierarchical.coordinates import LevelSpace
from lrbtl.hierarchical.expansion import Scores
from lrbtl.hierarchical.sign_groups import clustered_votes, law_scores, single_votes
from lrbtl.lowrank.tucker import truncate

N, D1, D = 300, 6, 3


@pytest.fixture(params=["plain", "style", "own style", "ties, style"])
def votes(request):
    """Return cells of a design with their terms, factors, and two columns of clusters."""
    rng = np.random.default_rng(0)
    a = rng.integers(D1, size=N)
    frame = {"model_a": a, "model_b": (a + rng.integers(1, D1, N)) % D1, "winner": rng.choice([0, 0.5, 1], N)}
    frame |= {"category": rng.integers(D, size=N), "voter": rng.integers(20, size=N), "prompt": rng.integers(9, size=N)}
    frame |= {"length": rng.normal(size=N), "markdown": rng.normal(size=N)}
    covariates = ["length", "markdown"] if "style" in request.param else None
    log = lrbtl.Battles.from_frame(frame, contexts="category", cluster=["voter", "prompt"], covariates=covariates)
    log = log.controlling(effects="by_context") if "own" in request.param else log
    cells = BlockDesign.of_cells(make_design(log, "davidson" if "ties" in request.param else "logistic"))
    truth = rng.normal(size=(D1, D))
    point, level = truncate(truth - truth.mean(axis=0), (1, 1)), np.linspace(-1.0, 1.0, D1)
    scores = Scores(cells, LevelSpace(point, level, n_extra=cells.n_effects), np.zeros(cells.n_slots))
    return cells, scores.terms_of(cells), rng.uniform(1.0, 1.5, len(cells.a)), log.cells.clusters


def vectors(cells, terms, size):
    """Return what each cell adds on the slots and along effects, (n_cells, n_slots + K), by a loop."""
    slot_a, slot_b = cells.entries.slots
    K, linear = cells.n_effects, cells.effects
    k = 0 if linear is None else linear.values.size
    out, law = np.zeros((len(size), cells.n_slots + K)), law_scores(terms, len(size))
    for i, (a, b) in enumerate(zip(slot_a, slot_b, strict=True)):
        out[i, a] += size[i] * terms.score[i]
        out[i, b] -= size[i] * terms.score[i]
        if linear is not None:
            first = 0 if linear.start is None else cells.entries.context[i] * linear.slopes.shape[1]
            for j, slope in enumerate(linear.slopes[i]):
                out[i, cells.n_slots + first + j] += size[i] * terms.score[i] * slope
        out[i, cells.n_slots + k :] += size[i] * law[i]
    return out


def test_sums_of_single_votes(votes):
    cells, terms, factor, _ = votes
    meat = cells.count * (factor * terms.score) ** 2
    slots, effects = single_votes(cells, terms, factor, meat).drawn(np.random.default_rng(7), 5)
    bits = np.random.default_rng(7).integers(0, 1 << 63, len(factor), dtype=np.uint64)
    each = vectors(cells, terms, np.sqrt(cells.count) * factor)
    for j in range(5):
        signs = np.where((bits >> np.uint64(j)) & np.uint64(1), 1.0, -1.0)
        np.testing.assert_allclose(np.concatenate([slots[:, j], effects[:, j]]), signs @ each, atol=1e-12)


def test_groups_of_clusters(votes):
    cells, terms, factor, clusters = votes
    found = clustered_votes(cells, terms, factor, clusters)
    assert [groups.sign for groups in found] == [1.0, 1.0, -1.0]
    assert [groups.alone for groups in found] == [True, True, False]
    each, values = vectors(cells, terms, cells.count * factor), np.random.default_rng(1).normal(size=cells.n_slots)
    _, model = cells.slot_places
    for groups, columns in zip(found, ([0], [1], [0, 1]), strict=True):
        keys = [tuple(row) for row in clusters[:, columns]]
        distinct = sorted(set(keys))
        assert groups.n == len(distinct)
        sums = np.array([sum(each[i] for i, key in enumerate(keys) if key == one) for one in distinct])
        sums *= np.sqrt(len(distinct) / (len(distinct) - 1))
        of_models = np.zeros((len(distinct), D1))
        np.add.at(of_models.T, model, (sums[:, : cells.n_slots] * values).T)
        squares, fourth = groups.powers(values)
        np.testing.assert_allclose(squares, (of_models**2).sum(axis=0))
        np.testing.assert_allclose(fourth, (of_models**4).sum(axis=0))
        bits = np.random.default_rng(3).integers(0, 1 << 63, groups.n, dtype=np.uint64)
        slots, effects = groups.drawn(np.random.default_rng(3), 1)
        signs = np.where(bits & np.uint64(1), 1.0, -1.0)
        np.testing.assert_allclose(np.concatenate([slots[:, 0], effects[:, 0]]), signs @ sums, atol=1e-10)
