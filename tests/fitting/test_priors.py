"""The prior of low-rank scores: strong where battles are few, next to nothing elsewhere."""

import numpy as np

import lrbtl
from hierarchy_twin import mode_of
from lrbtl.fitting.priors import population_prior
from lrbtl.lowrank.tangent import TangentSpace
from problems import random_point, rebuilt


def test_the_prior_gives_way_to_battles():
    """A model with few battles has the prior of the population, the others next to none."""
    space = TangentSpace(random_point((8, 6), (2, 2), 1))
    information = np.full(space.size, 1e5)
    information[space.row_columns(0, 3)] = 0.1
    prior = population_prior(space, information)
    precision = prior.precision[space.slices[0]].reshape(8, 2)
    assert (precision > 0).all() and (np.delete(precision, 3, axis=0) < 0.01 * precision[3]).all()
    spread = 1 / precision[3]
    assert ((spread * 8 > 0.05) & (spread * 8 < 3)).all()  # columns of the factor have mean square 1/8
    assert not prior.mean[space.slices[0]].any()
    middle = np.median(space.factors[1], axis=0)
    np.testing.assert_allclose(prior.mean[space.slices[1]].reshape(6, 2), np.tile(middle, (6, 1)))


def test_a_context_of_few_votes_is_like_the_others():
    """Two levels that are well known may meet in a context of one vote: their product is not followed anywhere."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(20, 1, 1)) * np.array([1.0, 0.6])[:, None] + 0.3 * rng.normal(size=(20, 2, 2))
    battles = lrbtl.simulate_battles(truth - truth.mean(axis=0), 6000, rng=0)
    context = battles.cells.context
    one = np.flatnonzero(context == 3)[0]
    thin = rebuilt(battles, (context != 3) | (np.arange(len(context)) == one))
    scores = mode_of(thin, 2, 0.05).scores
    size = np.sqrt(np.mean(scores.field.dense() ** 2, axis=0))
    assert size[3] < 1.5 * size[:3].max()
