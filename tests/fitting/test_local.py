"""What a design says at a point against dense matrices and finite differences, with effects of both kinds."""

from dataclasses import replace

import numpy as np
import pytest

from lrbtl.fitting.local import penalised
from lrbtl.model.effects import Effects
from lrbtl.model.links import LOGISTIC, Davidson, Probit
from problems import SMALL_CASES, battle_matrix, differences, jacobian, moved_point, random_design, random_point

cases = pytest.mark.parametrize(("shape", "rank"), SMALL_CASES)
kinds = pytest.mark.parametrize("link", [LOGISTIC, Probit(), Davidson(-0.3)], ids=str)
n_linear = pytest.mark.parametrize("k", [0, 2])


def problem(shape, rank, link, k, n=60):
    """A design with k linear effects at a point, and the Jacobian of its etas in all coordinates."""
    design = replace(random_design(shape, n, seed=1), link=link)
    rng = np.random.default_rng(5)
    slopes = rng.normal(size=(n, k))
    if k:
        design = replace(design, effects=Effects(slopes, rng.normal(size=k)))
    here = design.at(random_point(shape, rank))
    rows = battle_matrix(design) @ jacobian(here.space)
    rows[:, here.space.extra.start : here.space.extra.start + k] = slopes
    return here, rows


def full_scores(here, rows, k):
    """The score of one response of each cell in all coordinates."""
    out = rows * here.terms.score[:, None]
    law = slice(here.space.extra.start + k, here.space.extra.stop)
    out[:, law] = here.terms.effects.score[:, k:]
    return out


@cases
@kinds
@n_linear
def test_gradient_is_the_slope_of_the_loss(shape, rank, link, k):
    here, _ = problem(shape, rank, link, k)

    def loss(x):
        return here.design.moved(x[here.space.extra]).at(moved_point(here.space, x)).loss

    np.testing.assert_allclose(-here.gradient, differences(loss, np.zeros(here.space.size)), atol=1e-5)


@cases
@kinds
@n_linear
def test_information_and_meat_are_the_dense_ones(shape, rank, link, k):
    here, rows = problem(shape, rank, link, k)
    n, terms = here.design.count, here.terms
    scores = full_scores(here, rows, k)
    np.testing.assert_allclose(here.gradient, n @ scores, atol=1e-9)
    np.testing.assert_allclose(here.meat.dense(), (scores.T * n) @ scores, atol=1e-9)
    expected = (rows.T * (n * terms.fisher)) @ rows
    for i in range(k, here.space.extra.stop - here.space.extra.start):  # parameters of the law
        at = here.space.extra.start + i
        expected[at] = expected[:, at] = rows.T @ (n * terms.effects.cross[:, i])
        expected[at, at] = n @ terms.effects.own[:, i, i]
    np.testing.assert_allclose(here.information.dense(), expected, atol=1e-9)


@cases
@n_linear
def test_leverages_are_those_of_the_full_jacobian(shape, rank, k):
    here, rows = problem(shape, rank, LOGISTIC, k, n=200)
    ridge = np.ones(max(len(shape), 2))
    inverse = np.linalg.inv(penalised(here.information, here.space, ridge).dense())
    np.testing.assert_allclose(here.eta_variances(ridge), np.einsum("ci,ij,cj->c", rows, inverse, rows), rtol=1e-7)
    np.testing.assert_allclose(here.leverages(ridge), here.terms.fisher * here.eta_variances(ridge))


@cases
@kinds
@n_linear
def test_influences_are_scores_along_a_direction(shape, rank, link, k):
    here, rows = problem(shape, rank, link, k)
    direction = np.random.default_rng(3).normal(size=here.space.size)
    along = full_scores(here, rows, k) @ direction
    assert here.influence(direction) == pytest.approx((here.design.count @ along**2, np.abs(along).max()), rel=1e-9)


@kinds
@n_linear
def test_other_counts_and_scores_at_the_same_point(link, k):
    here, _ = problem((5, 4), (2, 2), link, k)
    twice = here.with_count(2 * here.design.count)
    assert twice.loss == pytest.approx(2 * here.loss) and twice.eta is here.eta
    np.testing.assert_allclose(twice.information.dense(), 2 * here.information.dense())
    half = here.with_score(0.5 * here.terms.score)
    np.testing.assert_allclose(half.terms.effects.score[:, :k], 0.5 * here.terms.effects.score[:, :k])
    np.testing.assert_array_equal(half.terms.effects.score[:, k:], here.terms.effects.score[:, k:])
    still = here.spread(np.zeros(len(here.eta)))
    np.testing.assert_allclose(still.gradient, here.gradient, atol=1e-9)


@n_linear
def test_a_part_of_the_cells_keeps_their_effects(k):
    here, _ = problem((5, 4), (2, 2), Davidson(-0.3), k)
    kept = np.flatnonzero(np.arange(60) % 3 == 0)
    part = here.design.restricted(kept).at(here.space)
    np.testing.assert_allclose(part.eta, here.eta[kept])
    np.testing.assert_array_equal(part.terms.effects.own, here.terms.effects.own[kept])
    assert here.design.averaged() is here.design
