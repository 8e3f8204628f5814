"""The prior of low-rank scores: strong where battles are few, next to nothing elsewhere."""

import numpy as np

import lrbtl
from hierarchy_twin import mode_of
from lrbtl.fitting.priors import population_prior
from lrbtl.lowrank.arrowhead import Arrowhead
from lrbtl.lowrank.tangent import TangentSpace
from problems import random_point, rebuilt


def test_the_prior_gives_way_to_battles():
    """A model with few battles has the prior of the population, the others next to none."""
    space = TangentSpace(random_point((8, 6), (2, 2), 1))
    information = np.full(space.size, 1e5)
    information[space.row_columns(0, 3)] = 0.1
    prior = population_prior(space, arrowhead(space, np.diag(information)))
    precision = prior.precision[space.slices[0]].reshape(8, 2)
    assert (precision > 0).all() and (np.delete(precision, 3, axis=0) < 0.01 * precision[3]).all()
    spread = 1 / precision[3]
    assert ((spread * 8 > 0.05) & (spread * 8 < 6)).all()  # columns of the factor have mean square 1/8
    assert not prior.mean[space.slices[0]].any()
    middle = np.median(space.factors[1], axis=0)
    mean, precision = (x[space.slices[1]].reshape(6, 2) for x in (prior.mean, prior.precision))
    np.testing.assert_allclose(mean[:, 1], middle[1])
    # six loadings together hold scores to 3 logits as much as one score would be
    scale = np.mean((space.U @ space.V.T) ** 2) / np.mean(space.factors[1][:, 0] ** 2) / 9 / 6
    np.testing.assert_allclose(mean[:, 0] * precision[:, 0], middle[0] * (precision[:, 0] - scale))


def test_votes_along_one_direction_of_a_row_leave_its_prior():
    """Votes in one context tell how good a model is there, and nothing of its skills one by one."""
    space = TangentSpace(random_point((8, 6), (2, 2), 1))
    information = np.diag(np.full(space.size, 1e5))
    row, v = space.row_columns(0, 3), space.factors[1][2]
    information[np.ix_(row, row)] = 1e5 * np.outer(v, v)
    none = information.copy()
    none[np.ix_(row, row)] = 0.0
    along, nothing = (population_prior(space, arrowhead(space, each)).precision[row] for each in (information, none))
    np.testing.assert_allclose(along, nothing, rtol=1e-3)


def arrowhead(space, matrix):
    """A matrix of the coordinates in the parts that are kept of it."""
    width = space.factors[-1].shape[1]
    q = space.size - space.factors[-1].size
    each = range(q, space.size, width)
    blocks = np.array([matrix[i : i + width, i : i + width] for i in each])
    return Arrowhead(matrix[:q, :q], blocks, matrix[q:, :q])


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
