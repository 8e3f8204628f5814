"""Efficiency bounds against dense matrices, and what theory says of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import lrbtl
import oracle
from lrbtl.errors import MethodError, RankError, SamplingError, SingularInformationError, TargetError
from lrbtl.lowrank.tucker import truncate
from problems import SMALL_CASES, law_dict

cases = pytest.mark.parametrize(
    "case", [*SMALL_CASES, ((4, 2, 3, 2), (2, 2, 2, 2))], ids=lambda case: f"order{len(case[0])}"
)


def truth_of(case, scale=2.0, seed=0):
    return lrbtl.simulate_scores(case[0], case[1], scale=scale, rng=seed)


def law_of(kind, shape):
    """Uniform, product and general laws."""
    rng = np.random.default_rng(2)
    if kind == "uniform":
        return None
    if kind == "product":
        models, contexts = rng.uniform(1, 3, shape[0]), rng.uniform(1, 3, shape[1:])
        return lrbtl.ProductSampling(models / models.sum(), contexts / contexts.sum() if len(shape) > 1 else None)
    table = rng.uniform(1, 5, size=(shape[0], *shape))
    table = table + np.swapaxes(table, 0, 1)
    table[np.arange(shape[0]), np.arange(shape[0])] = 0.0
    return lrbtl.TableSampling(2 * table / table.sum())


@pytest.mark.parametrize("method", ["efficient", "whitened"])
@pytest.mark.parametrize("kind", ["uniform", "product", "table"])
@cases
def test_bounds_are_the_dense_ones(case, kind, method):
    shape, rank = case
    truth, law = truth_of(case), law_of(kind, shape)
    gammas = np.random.default_rng(1).normal(size=(2, *shape))
    entry = np.zeros(shape)
    entry[(1, *([0] * (len(shape) - 1)))] = 1.0
    targets = [lrbtl.linear(gamma) for gamma in (*gammas, entry)]
    found = lrbtl.efficiency_bound(truth, targets, rank=rank, sampling=law, method=method)
    dense = None if law is None else law_dict(law, shape)
    expected = [oracle.bound(truth, rank, gamma, dense, method) for gamma in (*gammas, entry)]
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    one = lrbtl.efficiency_bound(truth, targets[0], rank=rank, sampling=law, method=method)
    assert isinstance(one, float) and one == pytest.approx(found[0], rel=1e-12)
    if method == "efficient":
        cg = lrbtl.efficiency_bound(truth, targets, rank=rank, sampling=law, solver="cg")
        np.testing.assert_allclose(cg, found, rtol=1e-8)


@cases
def test_both_tend_to_the_isotropic_bound_as_scores_shrink(case):
    """V -> 4 d_eff ||P_T Gamma||^2."""
    shape, rank = case
    gamma = np.random.default_rng(1).normal(size=shape)
    direction = truth_of(case)
    P = oracle.tangent_projector(direction, rank)
    limit = 4 * oracle.d_eff(shape) * np.sum((P @ oracle.centring(gamma).ravel()) ** 2)
    for method in ("efficient", "whitened"):
        bound = lrbtl.efficiency_bound(1e-4 * direction, lrbtl.linear(gamma), rank=rank, method=method)
        assert bound == pytest.approx(limit, rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 6), st.sampled_from(["uniform", "product", "table"]))
def test_no_estimator_beats_the_efficient_bound(seed, scale, kind):
    case = SMALL_CASES[seed % 3]
    truth, law = truth_of(case, scale, seed), law_of(kind, case[0])
    gamma = np.random.default_rng(seed).normal(size=case[0])
    efficient, whitened = (
        lrbtl.efficiency_bound(truth, lrbtl.linear(gamma), rank=case[1], sampling=law, method=method)
        for method in ("efficient", "whitened")
    )
    assert 0 < efficient <= whitened * (1 + 1e-9)


def test_a_larger_rank_never_helps():
    truth = lrbtl.simulate_scores((6, 5), 1, scale=2, rng=0) + lrbtl.simulate_scores((6, 5), 2, scale=0.5, rng=1)
    u, s, v = np.linalg.svd(truth)
    low = (u[:, :2] * s[:2]) @ v[:2]
    bounds = []
    for extra in (0.0, 1e-3):
        third = extra * np.outer(u[:, 2], v[2])
        rank = 2 if extra == 0 else 3
        bounds.append(lrbtl.efficiency_bound(low + third, lrbtl.gap(0, 1, 2), rank=rank))
    assert bounds[0] < bounds[1]


def test_order_one_is_plain_bradley_terry():
    theta = lrbtl.simulate_scores((5,), 1, scale=1.5, rng=0)
    laplacian = np.zeros((5, 5))
    for a in range(5):
        for b in range(a + 1, 5):
            x = np.eye(5)[a] - np.eye(5)[b]
            laplacian += expit(theta[a] - theta[b]) * expit(theta[b] - theta[a]) / 10 * np.outer(x, x)
    x = np.eye(5)[0] - np.eye(5)[3]
    expected = x @ np.linalg.pinv(laplacian) @ x
    assert lrbtl.efficiency_bound(theta, lrbtl.gap(0, 3), rank=1) == pytest.approx(expected)


def test_probabilities_are_bounded_on_their_own_scale():
    case = SMALL_CASES[1]
    truth = truth_of(case)
    on_logit = lrbtl.efficiency_bound(truth, lrbtl.gap(0, 1, 2), rank=2)
    p = expit(truth[0, 2] - truth[1, 2])
    found = lrbtl.efficiency_bound(truth, lrbtl.win_probability(0, 1, 2), rank=2)
    assert found == pytest.approx(on_logit * (p * (1 - p)) ** 2)

    def rate(T):
        return float(np.mean([expit(T[0] - T[b]) for b in range(1, 5)]))

    gamma = np.empty(case[0])
    for index in np.ndindex(*case[0]):
        step = np.zeros(case[0])
        step[index] = 1e-5
        gamma[index] = (rate(truth + step) - rate(truth - step)) / 2e-5
    expected = oracle.bound(truth, case[1], gamma)
    assert lrbtl.efficiency_bound(truth, lrbtl.win_rate(0), rank=2) == pytest.approx(expected, rel=1e-6)


def test_atoms_that_never_happen_are_allowed_where_the_rest_informs():
    case = SMALL_CASES[1]
    table = np.array(law_of("table", case[0]).table(case[0]))
    table[0, 1] = table[1, 0] = 0.0
    law = lrbtl.TableSampling(2 * table / table.sum())
    truth = truth_of(case)
    gamma = np.random.default_rng(1).normal(size=case[0])
    found = lrbtl.efficiency_bound(truth, lrbtl.linear(gamma), rank=case[1], sampling=law)
    assert found == pytest.approx(oracle.bound(truth, case[1], gamma, law_dict(law, case[0])), rel=1e-8)
    with pytest.raises(SamplingError, match="every pair"):
        lrbtl.efficiency_bound(truth, lrbtl.linear(gamma), rank=case[1], sampling=law, method="whitened")


def test_bad_arguments_are_named():
    truth = truth_of(SMALL_CASES[1])
    target = lrbtl.gap(0, 1)
    with pytest.raises(RankError, match="rank"):
        lrbtl.efficiency_bound(truth, target, rank=1)
    with pytest.raises(RankError, match="zero-sum"):
        lrbtl.efficiency_bound(truth + 1.0, target, rank=2)
    with pytest.raises(MethodError, match="efficient"):
        lrbtl.efficiency_bound(truth, target, rank=2, method="mle")
    with pytest.raises(TargetError, match="no targets"):
        lrbtl.efficiency_bound(truth, [], rank=2)
    with pytest.raises(SamplingError):
        lrbtl.efficiency_bound(truth, target, rank=2, sampling=lrbtl.ProductSampling([0.5, 0.5]))
    with pytest.raises(RankError, match="finite"):
        lrbtl.efficiency_bound(np.full((5, 4), np.nan), target, rank=2)
    with pytest.raises(RankError, match="below"):
        lrbtl.efficiency_bound(lrbtl.simulate_scores((5, 4), 1, scale=1, rng=0), target, rank=2)


def test_what_the_law_never_shows_has_no_bound():
    law = lrbtl.ProductSampling([0.3, 0.3, 0.4, 0.0, 0.0])
    theta = lrbtl.simulate_scores((5,), 1, scale=1, rng=0)
    assert lrbtl.efficiency_bound(theta, lrbtl.gap(0, 1), rank=1, sampling=law) > 0
    with pytest.raises(SingularInformationError, match=r"gap\(0, 4\)"):
        lrbtl.efficiency_bound(theta, [lrbtl.gap(0, 1), lrbtl.gap(0, 4)], rank=1, sampling=law)


@pytest.mark.parametrize("shape", [(9,), (9, 5), (6, 4, 3)])
def test_the_default_method_carries_a_bound(shape):
    truth = lrbtl.simulate_scores(shape, 1, scale=1.5, rng=0)
    battles = lrbtl.simulate_battles(truth, 20_000, rng=1)
    analysis = lrbtl.analyse(battles)
    context = None if len(shape) == 1 else 1 if len(shape) == 2 else (1, 2)
    est = analysis.estimate([lrbtl.gap(0, 1, context), lrbtl.win_probability(0, 1, context)])
    rank = analysis.provenance.rank
    assert rank is not None
    point = truncate(analysis.scores().reshape(shape), rank).dense()
    at = lrbtl.information(point - point.mean(axis=0), rank=rank, battles=battles)
    expected = np.sqrt(at.influence_function(lrbtl.gap(0, 1, context)).variance / battles.n_battles)
    np.testing.assert_allclose(est.bound[0], expected, rtol=1e-6)
    np.testing.assert_allclose(est[1].bound, est.bound[1:])
    assert est.se[0] > 0.7 * est.bound[0]  # a prior allows for some bias; what is not shared adds variance


def test_a_method_without_a_rank_carries_none():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=1, rng=0), 3000, rng=1)
    with pytest.raises(lrbtl.errors.BoundError, match="no efficiency bound"):
        _ = lrbtl.infer(battles, lrbtl.gap(0, 1, 1), method="naive").bound
