"""Blocks of the covariance of all scores against the dense sandwich."""

import numpy as np
import pytest
from scipy.stats import norm, t

import lrbtl
from lrbtl.fitting.jacobian import eta_at
from lrbtl.fitting.local import tangent_variances
from lrbtl.fitting.solvers import IsotropicSolver, accumulate, fix_gauge
from lrbtl.inference.estimate import Estimate
from lrbtl.lowrank.arrowhead import inverse_blocks
from lrbtl.lowrank.tangent import TangentSpace, context_blocks
from lrbtl.methods.standard_errors import (
    MOST,
    SHARE,
    VarianceNoise,
    all_score_variances,
    context_covariances,
    pair_widening,
    sandwich_blocks,
    tail_widening,
    widening,
)
from lrbtl.model.links import logistic_terms
from problems import CASES, battle_matrix, centring_matrix, jacobian, random_design, random_point

cases = pytest.mark.parametrize(("shape", "rank"), CASES)


def problem(shape, rank, *, pairs=True, n=300):
    """Space, design, information, meat and the information's inverse."""
    space = TangentSpace(random_point(shape, rank, 1, centred=pairs), centred=pairs)
    design = random_design(shape, n, seed=1, pairs=pairs)
    _, score, fisher = logistic_terms(eta_at(design.entries, space), design.y)
    K = fix_gauge(accumulate(design, space, design.count * fisher), space)
    return space, design, fisher, K, accumulate(design, space, design.count * score**2)


@pytest.mark.parametrize("pairs", [True, False], ids=["pairs", "entries"])
@cases
def test_sandwich_of_all_scores(shape, rank, pairs):
    space, _, _, K, B = problem(shape, rank, pairs=pairs)
    inverse = np.linalg.inv(K.dense())
    J = jacobian(space)
    dense = J @ inverse @ B.dense() @ inverse @ J.T
    blocks = sandwich_blocks(K.factor().inverse(), B)
    np.testing.assert_allclose(all_score_variances(space, blocks).ravel(), np.diag(dense), rtol=1e-7)
    by_context = dense.reshape(shape[0], len(space.V), shape[0], len(space.V))
    seen = []
    for part in context_blocks(space, blocks):
        for u, found in zip(part.contexts, context_covariances(space, blocks, part), strict=True):
            np.testing.assert_allclose(found, by_context[:, u, :, u], atol=1e-8 * np.abs(by_context).max())
            seen.append(u)
    assert sorted(seen) == list(range(len(space.V)))


@cases
def test_variances_without_a_sandwich_are_centred(shape, rank):
    space, _, _, K, _ = problem(shape, rank)
    QJ = centring_matrix(space.point.shape) @ jacobian(space)
    dense = QJ @ np.linalg.inv(K.dense()) @ QJ.T
    found = all_score_variances(space, inverse_blocks(K.factor().inverse()))
    np.testing.assert_allclose(found.ravel(), np.diag(dense), rtol=1e-7)


@cases
def test_sandwich_of_the_isotropic_information(shape, rank):
    space, design, _, _, B = problem(shape, rank)
    solver = IsotropicSolver(space, design.d_eff)
    QJ = centring_matrix(space.point.shape) @ jacobian(space)
    H = solver.solve(QJ.T)
    dense = H.T @ (B @ H)
    found = all_score_variances(space, sandwich_blocks(solver.inverse(), B))
    np.testing.assert_allclose(found.ravel(), np.diag(dense), rtol=1e-7)


@pytest.mark.parametrize("pairs", [True, False], ids=["pairs", "entries"])
@cases
def test_leverages(shape, rank, pairs):
    space, design, fisher, K, _ = problem(shape, rank, pairs=pairs)
    h = fisher * tangent_variances(design, space, K.factor().inverse())
    j = battle_matrix(design) @ jacobian(space)
    np.testing.assert_allclose(h, fisher * np.einsum("ci,ij,cj->c", j, np.linalg.inv(K.dense()), j), rtol=1e-7)
    assert design.count @ h == pytest.approx(space.dimension, rel=1e-8)


# ------------------------------------------------------------------------------
# Noise of standard errors, and the allowance for it.
# ------------------------------------------------------------------------------


def jackknife(values):
    loose = VarianceNoise(np.shape(values[0]))
    for value in values:
        loose.add(np.asarray(value))
    return loose.value()


def test_the_jackknife_is_that_of_the_logs():
    variances = np.random.default_rng(0).lognormal(3.0, 0.2, size=(6, 4))
    logs = np.log(variances)
    expected = [5 / 6 * sum((x - logs[:, m].mean()) ** 2 for x in logs[:, m]) for m in range(4)]
    np.testing.assert_allclose(jackknife(variances), expected, rtol=1e-10)


def test_one_fold_equal_folds_and_no_variance_tell_of_no_noise():
    assert jackknife([[2.0, 3.0]]).tolist() == [0.0, 0.0]
    assert jackknife([[2.0, 0.0]] * 5).tolist() == [0.0, 0.0]
    assert VarianceNoise((2,)).value().tolist() == [0.0, 0.0]


def test_a_variance_that_vanishes_in_one_fold_does_not_widen_without_end():
    assert jackknife([[2.0], [0.0], [2.0]]).tolist() == [MOST]


def test_the_jackknife_finds_the_degrees_of_freedom_of_a_mean_square():
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(2000, 10, 20)) ** 2  # ten groups of twenty squares: 200 degrees of freedom
    total = draws.sum(axis=(1, 2))
    without = (total[:, None] - draws.sum(axis=2)) / 180
    found = np.mean([jackknife(row) for row in without])
    assert found == pytest.approx(2 / 200, rel=0.1)


@pytest.mark.parametrize("critical", [1.645, 1.96, 3.3])
def test_the_widening_is_a_share_of_students(critical):
    df = 400.0
    students = t.isf(norm.sf(critical), df) / critical - 1.0
    assert widening(np.array([2.0 / df]), critical)[0] - 1.0 == pytest.approx(SHARE * students, rel=0.03)


def test_joint_intervals_of_loose_errors_reach_further():
    values, cov, loose = [1.0, 0.5], [[0.04, 0.0], [0.0, 0.04]], [0.5, 0.0]
    est = Estimate(["x", "y"], values, cov, links="identity", variance_noise=loose)
    plain = Estimate(["x", "y"], values, cov, links="identity")
    np.testing.assert_array_equal(est.conf_int(), plain.conf_int())
    wider = (np.diff(est.conf_int(joint=True)) / np.diff(plain.conf_int(joint=True)))[:, 0]
    critical = np.diff(plain.conf_int(joint=True))[0, 0] / 2 / plain.se[0]
    np.testing.assert_allclose(wider, tail_widening(critical, np.array(loose)))
    assert wider[0] > 1.0 and wider[1] == 1.0
    assert est.contrast([1.0, -1.0]).variance_noise.tolist() == [0.5]
    assert (est["y"] - est["y"]).variance_noise.tolist() == [0.0]
    assert est[["y", "x"]].variance_noise.tolist() == [0.0, 0.5]


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_joint_intervals_are_never_narrower_than_pointwise_ones(level):
    cov = [[0.04, 0.0399], [0.0399, 0.04]]
    est = Estimate(["x", "y"], [1.0, 0.5], cov, links="identity", variance_noise=[0.5, 0.2])
    single, joint = est.conf_int(level), est.conf_int(level, joint=True)
    assert (joint[:, 0] <= single[:, 0]).all() and (single[:, 1] <= joint[:, 1]).all()


def test_boards_and_win_matrices_widen_joint_gaps_by_the_looser_score():
    truth = lrbtl.simulate_scores((8, 4), 2, scale=1.5, rng=0)
    battles = lrbtl.simulate_battles(truth, 3000, rng=1)
    matrix, joint = (lrbtl.win_matrix(battles, 1, rank=2, joint=joint) for joint in (False, True))
    logit = lambda p: np.log(p / (1 - p))  # noqa: E731
    width = [logit(each.upper) - logit(each.lower) + np.eye(8) for each in (joint, matrix)]
    ratio = width[0] / width[1]
    est = lrbtl.infer(battles, [lrbtl.score(model, 1) for model in matrix.models], rank=2)
    apart = ~np.eye(8, dtype=bool)
    critical = (ratio / pair_widening(3.2, est.variance_noise))[apart] * 1.96  # nearly the same for every pair
    assert np.ptp(critical) < 0.05 and 2.5 < critical.mean() < 3.3


def test_the_jackknife_tells_how_much_reported_variances_vary():
    """Over replications, the variance of log se^2 is about the mean variance noise, for the efficient method."""
    truth = lrbtl.simulate_scores((10, 6), 2, scale=2.0, rng=3)
    runs = [
        lrbtl.infer(lrbtl.simulate_battles(truth, 4000, rng=s), lrbtl.score(0, 0), rank=2, method="efficient")
        for s in range(40)
    ]
    told = np.mean([run.variance_noise[0] for run in runs])
    seen = np.var([np.log(run.bound[0] ** 2) for run in runs])
    assert 0.4 < told / seen < 2.5
