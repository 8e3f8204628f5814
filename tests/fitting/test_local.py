"""What a design says at a point against dense matrices and finite differences, with effects of both kinds."""

from dataclasses import replace

import numpy as np
import pytest

from lrbtl.fitting.local import LevelInformation, Local, penalised
from lrbtl.model.effects import Effects
from lrbtl.model.links import LOGISTIC, Davidson, Probit
from problems import SMALL_CASES, battle_matrix, differences, jacobian, random_design, random_point, retraction

cases = pytest.mark.parametrize(("shape", "rank"), SMALL_CASES)
kinds = pytest.mark.parametrize("link", [LOGISTIC, Probit(), Davidson(-0.3)], ids=str)
n_linear = pytest.mark.parametrize("k", [0, 2, "by context"])


def problem(shape, rank, link, k, n=60):
    """A design with k linear effects at a point, votes with weights, and the Jacobian of its etas in all coordinates.

    With "by context" each context has two effects of its own.
    """
    design = replace(random_design(shape, n, seed=1), link=link)
    rng = np.random.default_rng(5)
    slopes, start = rng.normal(size=(n, 2)), design.start if k == "by context" else None
    if k:
        blocks = 1 if start is None else len(start) - 1
        effects = Effects(slopes, 0.3 * rng.normal(size=2 * blocks), start)
        design = replace(design, effects=effects, weight=rng.uniform(0.5, 2.0, n))
    here = Local.of(design, random_point(shape, rank))
    rows = battle_matrix(design) @ jacobian(here.space)
    if k:
        block = np.zeros(n, dtype=int) if start is None else design.entries.context
        for j in range(2):
            rows[np.arange(n), here.space.extra.start + 2 * block + j] = slopes[:, j]
    return here, rows


def linear(here):
    """Number of linear effects."""
    return 0 if here.design.effects is None else here.design.effects.values.size


def law_terms(here):
    """Terms of one weighted response in the law's own parameters: scores, and information with eta and of its own."""
    effects, weight = here.law.effects, here.design.weight
    weight = np.ones(1) if weight is None else weight
    return weight[:, None] * effects.score, weight[:, None] * effects.cross, weight[:, None, None] * effects.own


def full_scores(here, rows):
    """The score of one response of each cell in all coordinates."""
    out = rows * here.terms.score[:, None]
    out[:, here.space.extra.start + linear(here) : here.space.extra.stop] = law_terms(here)[0]
    return out


@cases
@kinds
@n_linear
def test_gradient_is_the_slope_of_the_loss(shape, rank, link, k):
    here, _ = problem(shape, rank, link, k)

    def loss(x):
        return Local.of(here.design.moved(x[here.space.extra]), retraction(here.space, x)).loss

    np.testing.assert_allclose(-here.gradient, differences(loss, np.zeros(here.space.size)), atol=1e-5)


@cases
@kinds
@n_linear
def test_information_and_meat_are_the_dense_ones(shape, rank, link, k):
    here, rows = problem(shape, rank, link, k)
    n, terms = here.design.count, here.terms
    scores = full_scores(here, rows)
    np.testing.assert_allclose(here.gradient, n @ scores, atol=1e-9)
    np.testing.assert_allclose(here.meat.dense(), (scores.T * n) @ scores, atol=1e-9)
    expected = (rows.T * (n * terms.fisher)) @ rows
    for i in range(link.n_extra):
        at = here.space.extra.start + linear(here) + i
        expected[at] = expected[:, at] = rows.T @ (n * law_terms(here)[1][:, i])
        expected[at, at] = n @ law_terms(here)[2][:, i, i]
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
    along = full_scores(here, rows) @ direction
    assert here.influence(direction) == pytest.approx((here.design.count @ along**2, np.abs(along).max()), rel=1e-9)


@kinds
@n_linear
def test_other_counts_and_scores_at_the_same_point(link, k):
    here, _ = problem((5, 4), (2, 2), link, k)
    twice = here.with_count(2 * here.design.count)
    assert twice.loss == pytest.approx(2 * here.loss) and twice.eta is here.eta
    np.testing.assert_allclose(twice.information.dense(), 2 * here.information.dense())
    half, first = here.with_score(0.5 * here.law.score), here.space.extra.start + linear(here)
    np.testing.assert_allclose(half.gradient[: here.space.extra.start], 0.5 * here.gradient[: here.space.extra.start])
    np.testing.assert_allclose(
        half.gradient[first : here.space.extra.stop], here.gradient[first : here.space.extra.stop]
    )
    still = here.spread(np.zeros(len(here.eta)))
    np.testing.assert_allclose(still.gradient, here.gradient, atol=1e-9)


@n_linear
def test_a_part_of_the_cells_keeps_their_effects(k):
    here, _ = problem((5, 4), (2, 2), Davidson(-0.3), k)
    kept = np.flatnonzero(np.arange(60) % 3 == 0)
    part = Local(here.design.restricted(kept), here.space)
    np.testing.assert_allclose(part.eta, here.eta[kept])
    ones = np.eye(here.space.extra.stop - here.space.extra.start)
    np.testing.assert_allclose(part.terms.effects.along(ones), here.terms.effects.along(ones)[kept])
    np.testing.assert_allclose(part.terms.score, here.terms.score[kept])
    assert here.design.averaged() is here.design


def w(eta):
    return 0.25 / np.cosh(eta / 2) ** 2


def some_cells():
    rng = np.random.default_rng(5)
    n, d1 = 60, 6
    a = rng.integers(d1, size=n)
    b = (a + rng.integers(1, d1, size=n)) % d1
    return a.astype(np.int32), b.astype(np.int32), rng.normal(size=n), rng.integers(1, 9, size=n), d1


def test_derivatives_are_those_of_a_loop_over_cells():
    a, b, eta, count, d1 = some_cells()
    told = LevelInformation.of(lambda step: count * w(eta + step), a, b, d1)
    levels = np.random.default_rng(6).normal(size=(3, d1))
    levels = np.concatenate([levels - levels.mean(axis=1, keepdims=True), np.eye(d1)[:2] - np.eye(d1)[2:4]])

    def logarithm(x, h):
        away = [x[i] - x[j] for i, j in zip(a, b, strict=True)]
        return np.log(sum(n * w(e + h * d) * d**2 for n, e, d in zip(count, eta, away, strict=True)))

    slope, bend = told.along(levels)
    for k, row in enumerate(levels):
        x, h = row / (row @ row), 1e-3
        below, now, above = (logarithm(x, step) for step in (-h, 0.0, h))
        assert slope[k] == pytest.approx((above - below) / (2 * h), rel=0.02, abs=2e-3)
        assert bend[k] == pytest.approx((above - 2 * now + below) / (2 * h**2), rel=0.02, abs=2e-3)
    np.testing.assert_array_equal(told.along(np.zeros((1, d1))), 0.0)
