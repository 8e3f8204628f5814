"""The Newton fit: its derivatives, and its optimum against scipy on the lifted objective."""

import functools

import numpy as np
import pytest
import scipy.optimize
from scipy.special import expit

import lrbtl
from lrbtl.fitting import newton
from lrbtl.fitting.design import Design
from lrbtl.fitting.jacobian import eta_at
from lrbtl.fitting.local import Local, add_penalty, penalty_terms
from lrbtl.fitting.low_rank import spectral_start
from lrbtl.fitting.newton import DirectModel, KrylovModel, choose_ridge, complexity, minimise, noise_ridge, retraction
from lrbtl.fitting.solvers import accumulate, conjugate_gradients, fix_gauge
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker, mode_product, unfold
from lrbtl.model.links import logistic_terms
from problems import (
    CASES,
    SMALL_CASES,
    battle_matrix,
    differences,
    gradient_at_zero,
    random_design,
    random_point,
    simulated,
)

cases = pytest.mark.parametrize(("shape", "rank"), CASES)


@pytest.fixture(scope="module")
def matrix_design():
    return Design.of(simulated((8, 6), 2, 1500)[1])


def ridges(space):
    """One ridge per mode, all different."""
    return 0.7 + 0.2 * np.arange(len(space.factors))


def dense_objective(design, T, ridge):
    """Sum of n loss + 1/2 sum_k ridge_k ||T_(k)||_*."""
    tensor = T.reshape(design.shape if len(design.shape) > 1 else (*design.shape, 1))
    eta = battle_matrix(design) @ T.ravel()
    loss = design.count @ (np.logaddexp(0.0, eta) - design.y * eta)
    return loss + 0.5 * sum(
        lam * np.linalg.svd(unfold(tensor, k), compute_uv=False).sum() for k, lam in enumerate(ridge)
    )


@cases
def test_model_gradient_is_the_slope_of_the_objective(shape, rank):
    """Along every coordinate, gauge and centring included, through the nuclear norms of the moved point."""
    space, design = TangentSpace(random_point(shape, rank)), random_design(shape, 80, seed=2)
    ridge = ridges(space)
    slope = differences(lambda x: dense_objective(design, retraction(space, x).dense(), ridge), np.zeros(space.size))
    local = Local.of(design, space.point)
    for model in (DirectModel, KrylovModel):
        np.testing.assert_allclose(model.at(local, ridge).gradient, slope, atol=2e-4)


def test_both_models_take_the_same_step(matrix_design, monkeypatch):
    """Rank one, whose gauge the ridge fixes, without damping: one linear system, two ways to solve it."""
    tight = functools.partial(conjugate_gradients, tol=1e-13, max_iter=999)
    monkeypatch.setattr(newton, "conjugate_gradients", lambda *args, **options: tight(*args))
    ridge = np.full(2, 2.0)
    near = minimise(matrix_design, spectral_start(matrix_design, (1, 1)), ridge, tol=1.0).point
    local = Local.of(matrix_design, near)
    models = (DirectModel.at(local, ridge), KrylovModel.at(local, ridge))
    (step, gain, _), (other, other_gain, _) = (model.step(0.0) for model in models)
    np.testing.assert_allclose(other, step, atol=1e-8 * np.abs(step).max())
    assert other_gain == pytest.approx(gain, rel=1e-8)


def lifted_lbfgs(design, rank, ridge, starts):
    """Best minimum of sum n loss + ridge/2 (||U||^2 + ||V||^2) over factor matrices, by scipy."""
    d1, d2 = design.shape
    X = battle_matrix(design)

    def objective(theta):
        U, V = theta[: d1 * rank].reshape(d1, rank), theta[d1 * rank :].reshape(d2, rank)
        eta = X @ (U @ V.T).ravel()
        value = design.count @ (np.logaddexp(0.0, eta) - design.y * eta) + 0.5 * ridge * theta @ theta
        W = (X.T @ (design.count * (expit(eta) - design.y))).reshape(d1, d2)
        return value, ridge * theta + np.concatenate([(W @ V).ravel(), (W.T @ U).ravel()])

    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}
    runs = [scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options) for start in starts]
    best = min(runs, key=lambda run: run.fun)
    return best.fun, best.x[: d1 * rank].reshape(d1, rank) @ best.x[d1 * rank :].reshape(d2, rank).T


@pytest.mark.parametrize("model", [DirectModel, KrylovModel])
@pytest.mark.parametrize("ridge", [0.5, 4.0])
def test_matrix_optimum_is_scipys(matrix_design, ridge, model, monkeypatch):
    monkeypatch.setattr(newton, "_model_class", lambda local: model)
    design = matrix_design
    found = minimise(design, spectral_start(design, (2, 2)), np.full(2, ridge), tol=1e-12)
    assert found.converged and found.reason == "Newton decrement below tolerance"
    starts = [np.random.default_rng(seed).normal(size=28) for seed in range(4)]
    value, T = lifted_lbfgs(design, 2, ridge, starts)
    assert found.objective == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.point.dense(), T, atol=1e-4)
    assert found.objective == pytest.approx(dense_objective(design, T, [ridge, ridge]), rel=1e-9)


def test_an_unequal_ridge_on_a_matrix_is_their_mean(matrix_design):
    start = spectral_start(matrix_design, (2, 2))
    one, other = (minimise(matrix_design, start, np.array(r), tol=1e-10) for r in ([1.0, 3.0], [2.0, 2.0]))
    np.testing.assert_allclose(one.point.dense(), other.point.dense(), atol=1e-4)


@pytest.mark.parametrize(("shape", "rank"), [*SMALL_CASES, ((6, 4, 3), (3, 2, 2)), ((4, 3, 3, 2), (2, 2, 2, 2))])
def test_any_order_reaches_a_minimum_of_the_nuclear_objective(shape, rank):
    design = Design.of(simulated(shape, rank, 2500)[1])
    ridge = np.linspace(1.0, 2.0, max(len(shape), 2))
    found = minimise(design, spectral_start(design, rank), ridge, tol=1e-10, max_iter=300)
    assert found.converged
    space = TangentSpace(found.point)
    assert found.objective == pytest.approx(dense_objective(design, found.point.dense(), ridge), rel=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(20):
        direction = rng.normal(size=space.size)
        direction /= np.linalg.norm(space.dense(direction))
        values = [dense_objective(design, retraction(space, t * direction).dense(), ridge) for t in (-1e-3, 0.0, 1e-3)]
        assert abs(values[2] - values[0]) / 2e-3 < 1e-2
        assert min(values[0], values[2]) > values[1]


def test_start_does_not_matter_where_the_data_are_clear(matrix_design):
    ridge = np.full(2, 1.0)
    points = [
        minimise(matrix_design, random_point((8, 6), (2, 2), seed, scale=0.3), ridge, tol=1e-10).point.dense()
        for seed in range(3)
    ]
    for other in points[1:]:
        np.testing.assert_allclose(other, points[0], atol=1e-4)


@pytest.mark.parametrize(("shape", "rank"), [((6, 5), (2, 2)), ((6, 5, 3), (3, 2, 2)), ((5, 3, 4, 3), (3, 2, 2, 2))])
def test_a_kept_hessian_is_turned_to_other_coordinates(shape, rank):
    """The same point with its components mixed: the step is the same tensor, the decrease the same number."""
    design, ridge = random_design(shape, 400, seed=2), np.full(len(shape), 5.0)
    space = TangentSpace(random_point(shape, rank, scale=0.2))
    rng = np.random.default_rng(1)
    turns = [np.linalg.qr(rng.normal(size=(r, r)))[0] for r in rank]
    core = space.core
    for k, turn in enumerate(turns):
        core = mode_product(core, turn.T, k)
    turned = TangentSpace(Tucker(core, tuple(factor @ turn for factor, turn in zip(space.factors, turns, strict=True))))
    model = DirectModel.at(Local.of(design, space.point), ridge)
    curvature = model.curvature(100.0)
    change = rng.normal(size=space.size)
    here, decrease = curvature.step(curvature.space, change)
    there, same = curvature.step(turned, newton.turn_coordinates(turned, change, [turn.T for turn in turns]))
    np.testing.assert_allclose(turned.dense(there), space.dense(here), atol=1e-10 * np.abs(here).max())
    assert same == pytest.approx(decrease, rel=1e-10)


@pytest.mark.parametrize(("shape", "rank"), [((12, 6), (2, 2)), ((8, 5, 4), (2, 2, 2))])
def test_a_fit_of_nearly_the_same_data_needs_no_hessian_of_its_own(shape, rank, monkeypatch):
    design = Design.of(simulated(shape, rank, 20_000, scale=3.0)[1])
    ridge = np.full(len(shape), 2.0)
    whole = minimise(design, spectral_start(design, rank), ridge)
    part = design.with_count(design.count * np.random.default_rng(0).choice([0.8, 1.0], len(design.count)))
    alone = minimise(part, whole.point, ridge, tol=1e-9)
    made = []
    monkeypatch.setattr(DirectModel, "curvature", lambda self, damping: made.append(damping))
    found = minimise(part, whole.point, ridge, tol=1e-6, warm=True, curvature=whole.curvature)
    assert found.converged and not made
    np.testing.assert_allclose(found.point.dense(), alone.point.dense(), atol=1e-4)


def test_a_hessian_that_does_not_serve_is_replaced(matrix_design):
    """That of another data set: the fit ends where it would have ended without it."""
    ridge, start = np.full(2, 1.0), spectral_start(matrix_design, (2, 2))
    other = Design.of(simulated((8, 6), 2, 400, scale=6.0)[1])
    wrong = minimise(other, spectral_start(other, (2, 2)), ridge).curvature
    found, right = (minimise(matrix_design, start, ridge, tol=1e-8, curvature=c) for c in (wrong, None))
    assert found.converged and found.objective == pytest.approx(right.objective, rel=1e-10)


def test_a_damped_hessian_does_not_end_a_fit(matrix_design):
    """Its decrements are far too small; a fit that was handed one must not take that for the end."""
    ridge, start = np.full(2, 1.0), random_point((8, 6), (2, 2), 3, scale=2.0)
    damped = DirectModel.at(Local.of(matrix_design, start), ridge).curvature(1e8)
    assert not damped.serves
    for warm in (True, False):
        found = minimise(matrix_design, start, ridge, warm=warm, curvature=damped)
        right = minimise(matrix_design, start, ridge)
        assert found.converged and found.objective == pytest.approx(right.objective, abs=1e-3)


def test_only_a_hessian_that_serves_is_handed_on(matrix_design):
    ridge, start = np.full(2, 1.0), spectral_start(matrix_design, (2, 2))
    assert minimise(matrix_design, start, ridge).curvature.serves
    assert minimise(matrix_design, start, ridge, max_iter=1, tol=1e-12).curvature is None


def test_stop_reasons(matrix_design):
    start = spectral_start(matrix_design, (2, 2))
    stopped = minimise(matrix_design, start, np.full(2, 1.0), max_iter=1, tol=1e-12)
    assert not stopped.converged and stopped.reason == "stopped after 1 iterations" and stopped.n_iter == 1


def test_objective_never_rises(matrix_design):
    start = random_point((8, 6), (2, 2), 5, scale=3.0)
    values = [minimise(matrix_design, start, np.full(2, 1.0), max_iter=n, tol=0.0).objective for n in range(1, 8)]
    assert np.all(np.diff(values) <= 1e-9)


def test_a_ridge_above_the_gradients_norm_leaves_nothing(matrix_design):
    """T = 0 is stationary iff ridge >= ||sum n (y - 1/2) X||_op."""
    sums = gradient_at_zero(matrix_design)
    largest = np.linalg.norm(sums, 2)
    start = spectral_start(matrix_design, (2, 2))
    gone = minimise(matrix_design, start, np.full(2, 1.05 * largest))
    left = minimise(matrix_design, start, np.full(2, 0.8 * largest))
    assert np.abs(gone.point.dense()).max() < 1e-2 < np.abs(left.point.dense()).max()


# ------------------------------------------------------------------------------
# The choice of the ridge.
# ------------------------------------------------------------------------------


def problem(case, n=800):
    design = Design.of(simulated(case[0], case[1], n)[1])
    ridge = np.full(max(len(case[0]), 2), 1.5)
    return design, ridge, minimise(design, spectral_start(design, case[1]), ridge, tol=1e-8).point


@pytest.mark.parametrize("case", SMALL_CASES)
def test_complexity_is_the_dense_trace(case):
    design, ridge, point = problem(case)
    space = TangentSpace(point)
    loss, score, fisher = logistic_terms(eta_at(design.entries, space), design.y)
    _, hessians, core_diagonal = penalty_terms(space, ridge)
    fixed = fix_gauge if len(space.factors) > 2 else lambda matrix, space: matrix  # a matrix's ridge fixes the gauge
    K = accumulate(design, space, design.count * fisher)
    B = accumulate(design, space, design.count * score**2).dense()
    inverse = np.linalg.inv(fixed(add_penalty(K, space, hessians, core_diagonal), space).dense())
    found = complexity(design, point, ridge)
    assert found.loss == pytest.approx(design.count @ loss)
    assert found.parameters == pytest.approx(np.trace(inverse @ K.dense()), rel=1e-6)
    shrink = 1 - found.parameters / design.count.sum()
    assert found.optimism == pytest.approx(np.trace(inverse @ B) / shrink**2, rel=1e-6)
    assert found.criterion == found.loss + found.optimism


@pytest.mark.parametrize("case", SMALL_CASES)
def test_without_a_ridge_every_dimension_counts(case):
    design, ridge, point = problem(case)
    assert complexity(design, point, 0 * ridge).parameters == pytest.approx(TangentSpace(point).dimension, rel=1e-6)
    parameters = [complexity(design, point, t * ridge).parameters for t in (0.1, 1.0, 10.0)]
    assert np.all(np.diff(parameters) < 0)


def test_random_signs_estimate_the_traces(monkeypatch):
    design, ridge, point = problem(((20, 15), (2, 2)), 3000)
    exact = complexity(design, point, ridge)
    monkeypatch.setattr(newton, "EXACT_TRACE", 0)
    monkeypatch.setattr(newton, "PROBES", 64)
    probed = complexity(design, point, ridge)
    assert probed.parameters == pytest.approx(exact.parameters, rel=0.05)
    assert probed.optimism == pytest.approx(exact.optimism, rel=0.1)


def test_noise_ridge_is_a_quarter_of_the_noise():
    """Under zero scores the gradient's operator norm is about four times the pilot's ridge for a full unfolding."""
    battles = lrbtl.simulate_battles(np.zeros((30, 20)), 20_000, rng=0)
    design = Design.of(battles)
    sums = gradient_at_zero(design)
    ridge = noise_ridge(design, (20, 20))
    assert np.linalg.norm(sums, 2) == pytest.approx(4 * ridge[0], rel=0.15)
    assert len(noise_ridge(Design.of(lrbtl.simulate_battles(np.zeros(5), 100, rng=0)), (1,))) == 2


def excess_loss(truth, scores):
    """Mean Kullback-Leibler divergence of a uniform battle, in nats."""
    a, b = np.triu_indices(len(truth), 1)
    true, fitted = truth[a] - truth[b], scores[a] - scores[b]
    p = 1 / (1 + np.exp(-true))
    return np.mean(p * (true - fitted) + np.logaddexp(0, fitted) - np.logaddexp(0, true))


@pytest.mark.parametrize(("shape", "rank", "n", "scale"), [((30, 10), 3, 1600, 3.0), ((20, 8), 2, 4000, 2.0)])
def test_choice_is_near_the_best_fixed_ridge(shape, rank, n, scale):
    """Also on weak data (30 x 10, rank 3, 1,600 battles), where simpler rules run to zero scores."""
    ratios = []
    for seed in range(3):
        truth, battles = simulated(shape, rank, n, scale=scale, seed=10 * seed)
        design = Design.of(battles)
        start = spectral_start(design, (rank, rank))
        ridge, found_fit = choose_ridge(design, start)
        assert found_fit.converged
        losses, point = [], start
        for fixed in noise_ridge(design, (rank, rank)).mean() * 2.0 ** np.arange(2.5, -3.5, -0.5):
            point = minimise(design, start, np.full(2, fixed)).point
            losses.append(excess_loss(truth, point.dense()))
        found = excess_loss(truth, found_fit.point.dense())
        ratios.append(found / min(losses))
        assert found < 0.7 * excess_loss(truth, np.zeros(shape))
        assert np.ptp(ridge) < 1e-9 * ridge[0]
    assert np.median(ratios) < 1.25


def test_a_tensor_gets_one_ridge_per_mode():
    truth, battles = simulated((12, 5, 4), (3, 2, 2), 5000)
    design = Design.of(battles)
    ridge, found_fit = choose_ridge(design, spectral_start(design, (3, 2, 2)))
    assert ridge.shape == (3,) and np.all(ridge > 0) and found_fit.converged
    assert np.linalg.norm(found_fit.point.dense() - truth) < 0.4 * np.linalg.norm(truth)
