"""The prior of shared factors: nuclear norms, touched from above, with a precision that votes choose."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from hierarchy_twin import factor_hessian, mode_at, mode_of, smooth_penalty, tied_battles
from lrbtl.hierarchical.coordinates import LevelSpace, no_factors
from lrbtl.hierarchical.factor_prior import FactorPrior, own_information
from lrbtl.lowrank.arrowhead import Arrowhead
from problems import random_point

SPACES = [((7, 5), (2, 2)), ((6, 4, 3), (2, 2, 2)), ((6, 3, 5), (3, 2, 2))]
each = pytest.mark.parametrize(("shape", "rank"), SPACES, ids=str)


def prior_of(shape, size=0.9):
    """With z along an order of the models."""
    order = np.linspace(-1.0, 1.0, shape[0])
    return FactorPrior(0.7, size * order / np.linalg.norm(order))


def made(shape, rank):
    return LevelSpace(random_point(shape, rank, 2), np.linspace(-1, 1, shape[0]))


def empty(space):
    """An arrowhead matrix of zeros."""
    dl, rl = space.factors[space.mode].shape
    return Arrowhead(np.zeros((space.q, space.q)), np.zeros((dl, rl, rl)), np.zeros((dl * rl, space.q)))


def nuclear(point, loose=0.0):
    """Mean over modes of the nuclear norm, of a matrix after the direction z of its rows counts less."""
    L = point.dense()
    if L.ndim == 2:
        return np.linalg.norm(sqrtm(np.eye(len(L)) - np.outer(loose, loose)) @ L if np.any(loose) else L, "nuc")
    return np.mean([np.linalg.norm(np.moveaxis(L, k, 0).reshape(n, -1), "nuc") for k, n in enumerate(L.shape)])


@each
def test_the_cost_is_the_nuclear_norm(shape, rank):
    space = made(shape, rank)
    for size in (0.0, 0.9):
        prior = prior_of(shape, size)
        assert prior.cost(space.point) == pytest.approx(0.7 * nuclear(space.point, prior.loose))
        assert prior.cost(no_factors(shape)) == 0.0


@each
def test_the_quadratic_form_touches_it_from_above(shape, rank):
    """For a matrix; for tensors it touches."""
    space, rng = made(shape, rank), np.random.default_rng(0)
    prior = prior_of(shape)
    cost = smooth_penalty(space, prior)
    assert cost(list(space.factors), space.core) == pytest.approx(0.7 * nuclear(space.point, prior.loose))
    if len(shape) == 2:
        M = sqrtm(np.eye(shape[0]) - np.outer(prior.loose, prior.loose))
        for _ in range(5):
            factors = [factor + 0.1 * rng.normal(size=factor.shape) for factor in space.factors]
            moved = factors[0] @ space.core @ factors[1].T
            assert cost(factors, space.core) >= 0.7 * np.linalg.norm(M @ moved, "nuc") - 1e-12


@each
def test_gradient_and_hessian_are_those_of_the_quadratic_form(shape, rank):
    space = made(shape, rank)
    prior = prior_of(shape)
    terms = prior.at(space)
    np.testing.assert_allclose(terms.added_to(empty(space)).dense(), factor_hessian(space, prior), atol=1e-9)
    for k in range(len(shape)):
        assert terms.hessian(k).shape == (rank[k], rank[k])
    assert not terms.gradient[space.level_part].any()
    rng, h = np.random.default_rng(1), 1e-6
    for _ in range(4):
        step = rng.normal(size=space.size)
        for part, block in space.gauge():
            step[part] -= np.linalg.pinv(block) @ block @ step[part]
        up, down = (nuclear(space.retraction(sign * h * step)[0], prior.loose) for sign in (1, -1))
        assert terms.gradient @ step == pytest.approx(0.7 * (up - down) / (2 * h), rel=1e-4, abs=1e-6)


def test_without_factors_there_is_nothing():
    space = LevelSpace(no_factors((5, 4)), np.linspace(-1, 1, 5))
    terms, matrix = prior_of((5, 4)).at(space), empty(space)
    assert not terms.gradient.any() and terms.added_to(matrix) is matrix


@pytest.mark.parametrize("name", ["matrix", "tensor"])
def test_the_precision_of_most_evidence_is_mackays(name):
    """gamma over twice the nuclear norm, where gamma counts coordinates by the information of votes on them."""
    at = mode_at(name)
    space, gamma = at.scores.space, 0.0
    A, hessian = at.information.dense(), factor_hessian(space, at.hyper.factors)
    for k, part in space.slices.items():
        n, width = len(space.factors[k]), space.factors[k].shape[1] + (k == 0)
        gamma -= 0.0 if k == space.mode else space.factors[k].shape[1] ** 2
        for row in range(n):
            own = np.arange(part.start + row * width, part.start + (row + 1) * width)
            scale = 1e-9 * np.diag(np.diag(A[np.ix_(own, own)]))
            alone = 1.0 / np.diag(np.linalg.inv(A[np.ix_(own, own)] + scale))
            prior = np.diag(hessian)[own]
            factors = slice(0, space.factors[k].shape[1])
            gamma += np.sum(alone[factors] / (alone[factors] + prior[factors]))
    expected = max(gamma, space.rank) / (2 * nuclear(space.point, at.hyper.factors.loose))
    assert at.evidence_precision == pytest.approx(expected, rel=1e-4)


def test_the_precision_settles_and_follows_the_size_of_factors():
    """Fixed points: larger factors have a weaker prior."""
    battles, precision = tied_battles((10, 5), 4000), 1.0
    for _ in range(8):
        mode = mode_of(battles, 1, 0.2, factors=precision)
        precision, before = mode.at.evidence_precision, precision
    assert precision == pytest.approx(before, rel=0.02) and 0.1 < precision < 20.0


def test_votes_along_one_direction_of_a_row_tell_none_of_its_coordinates():
    rng = np.random.default_rng(0)
    v = rng.normal(size=2)
    root = rng.normal(size=(3, 3))
    full = root @ root.T
    assert np.all(own_information(np.outer(v, v)[None])[0] < 1e-6 * v**2)
    np.testing.assert_allclose(own_information(full[None])[0], 1.0 / np.diag(np.linalg.inv(full)), rtol=1e-4)
    assert not own_information(np.zeros((1, 2, 2))).any()
