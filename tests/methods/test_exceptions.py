"""Entries that are exceptions: who is named, and how likely they are; formulas have their twin in test_posterior."""

import numpy as np
from scipy.special import expit

import lrbtl
from hierarchy_twin import mode_of
from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.fit import make_design
from lrbtl.methods.exceptions import exception_probabilities, find_exceptions
from lrbtl.methods.hierarchical import HierarchicalRun
from lrbtl.methods.posterior import Posterior


def test_a_planted_specialist_is_named():
    truth = lrbtl.simulate_scores((20, 6), 1, scale=1.5, rng=2)
    truth[7, 2] += 2.0
    truth[:, 2] -= truth[:, 2].mean()
    battles = lrbtl.simulate_battles(truth, 30_000, rng=3)
    design = make_design(battles, "logistic")
    found = find_exceptions(Posterior.of(mode_of(battles, 1, 0.1).at, BlockDesign.of_cells(design)))
    assert found.probability.argmax() == 2 * 20 + 7
    assert found.probability[2 * 20 + 7] > 0.99 and found.move.dense()[7, 2] > 0.3
    assert np.sort(found.probability)[-2] < 0.5


def test_without_exceptions_none_is_named():
    truth = lrbtl.simulate_scores((20, 6), 1, scale=1.5, rng=2)
    battles = lrbtl.simulate_battles(truth, 30_000, rng=3)
    found = find_exceptions(
        Posterior.of(mode_of(battles, 1, 0.1).at, BlockDesign.of_cells(make_design(battles, "logistic")))
    )
    assert found.probability.max() < 0.5 and np.abs(found.move.dense()).max() < 0.05


def test_an_exception_does_not_hide_behind_another_entry_of_its_model():
    rng = np.random.default_rng(14)
    truth = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 8))
    truth /= np.sqrt(np.mean(truth**2))
    planted = np.array([3, 8, 17, 34]), np.array([0, 0, 1, 2])
    truth[planted] += 0.8
    run = lrbtl.analyse(lrbtl.simulate_battles(truth - truth.mean(axis=0), 100_000, rng=14)).run
    assert isinstance(run, HierarchicalRun)
    assert run.exception_probability.dense()[planted].min() > 0.9  # let out together, two of one model deny each other


def test_shares_of_exceptions_are_bounded():
    played = np.ones((4, 5), dtype=bool)
    none = exception_probabilities(np.full((4, 5), -30.0), played, 5.0)
    every = exception_probabilities(np.full((4, 5), 0.0), played, 5.0)
    assert none.max() < 1e-10 and every.max() <= expit(np.log(0.3 / 0.7)) + 1e-12
    played[0] = False
    assert not exception_probabilities(np.full((4, 5), 9.0), played, 5.0)[0].any()


def test_certain_exceptions_do_not_overflow():
    found = exception_probabilities(np.array([5000.0, -1.0, -1.0]), np.ones(3, dtype=bool), 3.0)
    assert 1 - 1e-9 < found[0] <= 1 and found[1] < 0.2


def test_models_may_outnumber_the_entries_with_votes():
    models = [f"model {k}" for k in range(9)]
    battles = lrbtl.Battles.from_arrays([7, 7, 8, 8], [8, 8, 7, 7], [1, 0, 1, 1], [0, 1, 0, 1], models=models)
    run = lrbtl.analyse(battles).run
    assert isinstance(run, HierarchicalRun) and run.exception_probability.dense().max() < 0.5
