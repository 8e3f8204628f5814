"""Entries that are outliers: the formula written out, who is named, and how likely they are."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
from hierarchy_twin import Twin, entries, mode_of
from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.low_rank import make_design
from lrbtl.hierarchical.config import HierarchicalConfig
from lrbtl.hierarchical.covariance import ScoreCovariance
from lrbtl.hierarchical.method import HierarchicalRun
from lrbtl.hierarchical.outliers import LARGEST_SHIFT, find_outliers, outlier_probabilities
from problems import simulated

CONFIG = HierarchicalConfig()


def covariance_of(battles, rank, tau):
    return ScoreCovariance(mode_of(battles, rank, tau).at, BlockDesign.of_cells(make_design(battles, "logistic")))


@pytest.mark.parametrize("shape", [(6,), (8, 4), (6, 3, 3)], ids=str)
@pytest.mark.parametrize("known", [False, True])
def test_outliers_are_those_of_the_formula(shape, known):
    """sqrt(V) shift is N(0, 1), or N(0, 1 + k) for an outlier, with V = diag(H - H C H)."""
    found = covariance_of(simulated(shape, 1, 600, scale=1.5)[1], 0, 0.3 if len(shape) > 1 else 0.0)
    d1, D = found.design.shape[0], found.design.n_contexts
    offset = np.zeros(found.design.n_slots)
    if known:
        offset[3] = 0.4
        found = replace(found, at=replace(found.at, scores=replace(found.at.scores, offset=offset)))
    twin, place = Twin.of(found.at), entries(found.design)
    same = np.equal.outer(np.tile(np.arange(D), d1), np.tile(np.arange(D), d1))
    H, C = twin.H, twin.C
    V = np.diag(H - H @ np.where(same, C, 0.0) @ H)[place]
    played = np.greater(V, 1e-4 * np.diag(H)[place]) & (D > 1)
    V = np.where(played, V, 1.0)
    shift = np.where(played, np.clip(offset + twin.g[place] / V, -LARGEST_SHIFT, LARGEST_SHIFT), 0.0)
    size = CONFIG.outlier_size**2 * np.mean(found.at.scores.field.dense() ** 2)
    ratio = np.exp(0.5 * V * shift**2 * (1 - 1 / (1 + V * size))) / np.sqrt(1 + V * size)
    probability = mixture_probability(ratio, played, d1)
    k = V * (4 * size + (shift / (1 + 1 / (V * size))) ** 2) / 5  # the variance of a t4 law, given a value
    shift, variance = shift * k / (1 + k), k / (1 + k) / V
    left = 1.0 - np.diag(C @ H)[place]
    # second moments of a mixture of two laws round its mean
    before = probability * variance * left**2
    between = probability * (1 - probability) * (shift * left) ** 2
    outliers = find_outliers(found, CONFIG)
    np.testing.assert_allclose(outliers.probability, probability, atol=1e-6)
    np.testing.assert_allclose(outliers.shift[played], shift[played], atol=1e-5)
    np.testing.assert_allclose(outliers.variance, np.where(played, before + between, 0.0), atol=1e-6)
    moved = np.zeros((D, d1))
    moved[found.design.slot_places] = (probability * shift - offset) * left
    np.testing.assert_allclose(outliers.move.dense(), (moved - moved.mean(axis=1, keepdims=True)).T, atol=1e-6)


def mixture_probability(ratio, played, d1):
    """Averaged over shares s of outliers, each with the product of its mixtures as evidence, and over none at all."""
    shares = [0.3 / 1.7**j for j in range(24)]
    likely = 64 * min(1 / 16, 0.5 / max(played.sum() / d1, 1.0))  # half an outlier a model, at most one entry in 16
    prior = np.array([s**likely * (1 - s) ** 64 for s in shares])
    mixtures = [s * ratio + 1 - s for s in shares]
    evidence = 0.95 * prior / prior.sum() * [np.prod(mixture[played]) for mixture in mixtures]
    out = np.zeros(len(ratio))
    for s, mixture, weight in zip(shares, mixtures, evidence / (evidence.sum() + 0.05), strict=True):
        out += np.where(played, weight * s * ratio / mixture, 0.0)
    return out


def test_a_planted_specialist_is_named():
    truth = lrbtl.simulate_scores((20, 6), 1, scale=1.5, rng=2)
    truth[7, 2] += 2.0
    truth[:, 2] -= truth[:, 2].mean()
    battles = lrbtl.simulate_battles(truth, 30_000, rng=3)
    found = find_outliers(covariance_of(battles, 1, 0.1), CONFIG)
    assert found.probability.argmax() == 2 * 20 + 7
    assert found.probability[2 * 20 + 7] > 0.99 and found.move.dense()[7, 2] > 0.3
    assert np.flatnonzero(found.likeliest(found.probability > 0.5)).tolist() == [2 * 20 + 7]


def test_without_outliers_none_is_named():
    truth = lrbtl.simulate_scores((20, 6), 1, scale=1.5, rng=2)
    found = find_outliers(covariance_of(lrbtl.simulate_battles(truth, 30_000, rng=3), 1, 0.1), CONFIG)
    assert found.probability.max() < 0.5 and np.abs(found.move.dense()).max() < 0.05


def test_settings_of_outliers():
    found = covariance_of(simulated((8, 4), 1, 600, scale=1.5)[1], 0, 0.3)
    rare, usual = (find_outliers(found, replace(CONFIG, outliers_per_model=k)) for k in (0.01, 0.5))
    assert np.all(rare.probability <= usual.probability + 1e-12)
    small = find_outliers(found, replace(CONFIG, outlier_size=0.01))
    assert np.abs(small.shift).max() < np.abs(usual.shift).max()


def test_an_exception_does_not_hide_behind_another_entry_of_its_model():
    rng = np.random.default_rng(14)
    truth = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 8))
    truth /= np.sqrt(np.mean(truth**2))
    planted = np.array([3, 8, 17, 34]), np.array([0, 0, 1, 2])
    truth[planted] += 0.8
    run = lrbtl.analyse(lrbtl.simulate_battles(truth - truth.mean(axis=0), 100_000, rng=14)).run
    assert isinstance(run, HierarchicalRun)
    assert run.outlier_probability.dense()[planted].min() > 0.9  # two of one model, flagged together, deny each other


def test_shares_of_exceptions_are_bounded():
    played = np.ones((4, 5), dtype=bool)
    none = outlier_probabilities(np.full((4, 5), -30.0), played, 5.0)
    every = outlier_probabilities(np.full((4, 5), 0.0), played, 5.0)
    assert none.max() < 1e-10 and every.max() <= expit(np.log(0.3 / 0.7)) + 1e-12
    played[0] = False
    assert not outlier_probabilities(np.full((4, 5), 9.0), played, 5.0)[0].any()


def test_certain_exceptions_do_not_overflow():
    found = outlier_probabilities(np.array([5000.0, -1.0, -1.0]), np.ones(3, dtype=bool), 3.0)
    assert 1 - 1e-9 < found[0] <= 1 and found[1] < 0.2


def test_models_may_outnumber_the_entries_with_votes():
    models = [f"model {k}" for k in range(9)]
    battles = lrbtl.Battles.from_arrays([7, 7, 8, 8], [8, 8, 7, 7], [1, 0, 1, 1], [0, 1, 0, 1], models=models)
    run = lrbtl.analyse(battles).run
    assert isinstance(run, HierarchicalRun) and run.outlier_probability.dense().max() < 0.5
