import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import lrbtl
from lrbtl.errors import ConvergenceWarning, LabelError, SeparationError, SeparationWarning, UnknownModelError
from lrbtl.fitting import bradley_terry as btl
from lrbtl.fitting import separate


def simulated(shape, n, seed=0, scale=1.5):
    scores = lrbtl.simulate_scores(shape, 1, scale=scale, rng=seed)
    return lrbtl.simulate_battles(scores, n, rng=seed + 1)


def context_cells(battles, u):
    cells = battles.cells
    part = slice(cells.start[u], cells.start[u + 1])
    return cells.a[part], cells.b[part], cells.y[part], cells.count[part]


def scipy_fit(size, a, b, y, count):
    def loss(theta):
        eta = theta[a] - theta[b]
        score = count * (1 / (1 + np.exp(-eta)) - y)
        gradient = np.bincount(a, score, size) - np.bincount(b, score, size)
        return count @ (np.logaddexp(0, eta) - y * eta), gradient

    theta = minimize(loss, np.zeros(size), jac=True, method="L-BFGS-B", options={"gtol": 1e-8, "ftol": 1e-15}).x
    return theta - theta.mean()


def quiet_fit(battles):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeparationWarning)
        return lrbtl.fit_separate(battles)


@pytest.mark.parametrize("shape", [(6,), (6, 4), (5, 3, 2)])
def test_each_context_is_its_own_maximum_likelihood_fit(shape):
    battles = simulated(shape, 6_000)
    fit = lrbtl.fit_separate(battles)
    assert fit.scores.shape == shape == fit.components.shape
    assert fit.converged.shape == shape[1:] == fit.stop_reason.shape
    assert fit.converged.all() and np.all(fit.stop_reason == "converged")
    assert not fit.components.any()
    np.testing.assert_allclose(fit.scores.sum(axis=0), 0, atol=1e-12)
    flat = fit.scores.reshape(shape[0], -1)
    for u in range(flat.shape[1]):
        np.testing.assert_allclose(flat[:, u], scipy_fit(shape[0], *context_cells(battles, u)), atol=2e-5)


def test_pooled_fit_is_one_bradley_terry_model():
    battles = simulated((6, 4), 3_000)
    fit = lrbtl.fit_separate(battles.pooled())
    cells = battles.cells
    np.testing.assert_allclose(fit.scores, scipy_fit(6, cells.a, cells.b, cells.y, cells.count), atol=2e-5)


def test_ties_and_soft_votes_enter_as_fractions():
    rng = np.random.default_rng(5)
    a = rng.integers(0, 4, 300)
    b = (a + rng.integers(1, 4, 300)) % 4
    y = rng.choice([0.0, 0.2, 0.5, 1.0], 300)
    battles = lrbtl.Battles.from_arrays(a, b, y)
    np.testing.assert_allclose(lrbtl.fit_separate(battles).scores, scipy_fit(4, a, b, y, np.ones(300)), atol=2e-5)


def test_prediction_and_gap_read_the_scores():
    battles = simulated((5, 3, 2), 5_000)
    fit = lrbtl.fit_separate(battles)
    gap = fit.scores[1, 2, 0] - fit.scores[4, 2, 0]
    assert fit.gap("model_1", 4, (2, 0)) == pytest.approx(gap, abs=1e-14)
    assert fit.predict_proba(1, "model_4", (2, 0)) == pytest.approx(1 / (1 + np.exp(-gap)), rel=1e-12)
    with pytest.raises(UnknownModelError):
        fit.gap("nobody", 0, (0, 0))


@pytest.mark.parametrize("kind", ["sandwich", "hc3", "model"])
def test_covariance_agrees_with_pseudo_inverses(kind):
    battles = simulated((6, 2), 2_000)
    fit = lrbtl.fit_separate(battles)
    a, b, y, count = context_cells(battles, 1)
    theta = fit.scores[:, 1]
    x = np.eye(6)[a] - np.eye(6)[b]
    p = 1 / (1 + np.exp(-(x @ theta)))
    bread = np.linalg.pinv((count * p * (1 - p) * x.T) @ x)
    left = 1 - p * (1 - p) * np.einsum("ia,ab,ib->i", x, bread, x) if kind == "hc3" else 1
    meat = (count * ((y - p) / left) ** 2 * x.T) @ x
    expected = bread if kind == "model" else bread @ meat @ bread
    np.testing.assert_allclose(fit.covariance(1, kind=kind), expected, rtol=1e-8, atol=1e-12)


def test_sandwich_matches_the_published_case():
    """Elo variances of the worked arena-rank case without its Hessian ridge."""
    a = [0, 0, 1, 1, 0, 0, 2, 1, 1, 2, 2, 2, 3, 3, 1, 3, 1]
    b = [1, 1, 0, 0, 2, 2, 0, 2, 2, 1, 3, 3, 0, 0, 3, 1, 3]
    y = [1, 0, 1, 0.5, 1, 0, 0.5, 1, 0, 0.5, 1, 0, 0, 1, 1, 1, 0.5]
    count = [7, 3, 2, 3, 9, 2, 1, 5, 4, 2, 6, 5, 8, 1, 4, 2, 1]
    fit = lrbtl.fit_separate(lrbtl.Battles.from_arrays(a, b, y, counts=count))
    elo = 400 / np.log(10)
    sandwich, model = (elo**2 * np.diag(fit.covariance(kind=kind)) for kind in ("sandwich", "model"))
    np.testing.assert_allclose(sandwich, [1989.83847194, 2096.48995729, 2038.30538535, 2779.22035486], rtol=1e-8)
    np.testing.assert_allclose(model, [2493.37228202, 2342.35704509, 2266.49388772, 3109.54932970], rtol=1e-8)
    assert elo * fit.gap(0, 1) == pytest.approx(105.66022301053408, abs=1e-6)


def test_held_out_log_likelihood():
    train, test = simulated((6, 3), 4_000, seed=1), simulated((6, 3), 500, seed=1)
    fit = lrbtl.fit_separate(train)
    cells = test.cells
    eta = fit.scores[cells.a, cells.context] - fit.scores[cells.b, cells.context]
    terms = cells.y * eta - np.logaddexp(0, eta)
    assert fit.log_likelihood(test) == pytest.approx(cells.count @ terms / test.n_battles, rel=1e-12)
    with pytest.raises(LabelError):
        fit.log_likelihood(simulated((5, 3), 100))


def separated_battles():
    """Math: top wins all, x and y tie, ghost is absent. Code: everything exists. Art: two islands."""
    rows = [
        ("top", "x", 1, "math", 5),
        ("top", "y", 1, "math", 2),
        ("x", "y", 1, "math", 3),
        ("x", "y", 0, "math", 1),
        ("top", "x", 0.5, "code", 2),
        ("x", "y", 0.5, "code", 2),
        ("y", "ghost", 0.5, "code", 2),
        ("top", "x", 1, "art", 2),
        ("top", "x", 0, "art", 1),
        ("ghost", "y", 1, "art", 1),
        ("ghost", "y", 0, "art", 3),
    ]
    a, b, y, task, count = zip(*rows, strict=True)
    return lrbtl.Battles.from_arrays(a, b, y, [task], counts=count)


def test_separation_is_named_and_never_a_number():
    battles = separated_battles()
    with pytest.warns(SeparationWarning, match=r"2 of 3 contexts.*'top' won every battle; 'ghost' had no battle"):
        fit = lrbtl.fit_separate(battles)
    art, code, math = (battles.context_index(name) for name in ("art", "code", "math"))
    assert np.isnan(fit.scores[:, [art, math]]).all()
    np.testing.assert_allclose(fit.scores[:, code], 0, atol=1e-12)
    assert fit.converged.tolist() == [False, True, False]
    assert fit.stop_reason.tolist() == ["separated", "converged", "separated"]
    assert fit.gap("x", "y", "math") == pytest.approx(np.log(3), abs=1e-9)
    assert fit.gap("top", "x", "art") == pytest.approx(np.log(2), abs=1e-9)
    assert fit.gap("y", "ghost", "art") == pytest.approx(np.log(3), abs=1e-9)
    assert fit.gap("ghost", "ghost", "math") == 0.0
    for call in (fit.gap, fit.predict_proba):
        with pytest.raises(SeparationError, match=r"'top' over 'x' in context 'math'.*one direction only"):
            call("top", "x", "math")
        with pytest.raises(SeparationError, match="no battle links them"):
            call("top", "y", "art")
    with pytest.raises(SeparationError, match="7 of the battles have no prediction"):
        fit.log_likelihood(battles)
    held_out = lrbtl.Battles.from_arrays(["x"], ["y"], [1], [["math"]], models=battles.models, levels=battles.levels)
    assert fit.log_likelihood(held_out) == pytest.approx(np.log(0.75), abs=1e-9)


def test_separation_records_and_print():
    fit = quiet_fit(separated_battles())
    assert fit.separation("code") is None
    math, art = fit.separation("math"), fit.separation("art")
    assert math.groups == (("x", "y"), ("ghost",), ("top",))
    assert math.islands == (("top", "x", "y"), ("ghost",))
    assert (math.undefeated, math.winless, math.absent) == (("top",), (), ("ghost",))
    assert art.islands == art.groups == (("ghost", "y"), ("top", "x"))
    assert str(art) == "'art': no battle links ('ghost', 'y') with ('top', 'x')"
    text = repr(fit)
    assert "1 of 3 contexts fitted" in text and str(math) in text and str(art) in text


def test_one_way_wins_between_groups_are_named():
    a, b, y = [0, 0, 2, 2, 1], [1, 1, 3, 3, 2], [1, 0, 1, 0, 1]
    fit = quiet_fit(lrbtl.Battles.from_arrays(a, b, y))
    assert str(fit.separation()) == "wins go one way only between (0, 1) and (2, 3)"


def test_covariance_of_a_separated_context_has_blocks():
    battles = separated_battles()
    fit = quiet_fit(battles)
    cov = fit.covariance("math")
    x, y, top = (battles.model_index(name) for name in ("x", "y", "top"))
    alone = lrbtl.fit_separate(battles.select(models=["x", "y"], contexts=["math"]))
    np.testing.assert_allclose(cov[np.ix_([x, y], [x, y])], alone.covariance(0), rtol=1e-9)
    assert np.isnan(cov[top, x]) and cov[top, top] == 0.0


def test_a_context_without_battles_is_separated():
    battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0], [[0, 0]], n_levels=[2])
    with pytest.warns(SeparationWarning, match="1 of 2 contexts"):
        fit = lrbtl.fit_separate(battles)
    assert np.isnan(fit.scores[:, 1]).all() and fit.converged.tolist() == [True, False]


def test_newton_that_stops_early_warns(monkeypatch):
    monkeypatch.setattr(btl, "MAX_ITER", 1)
    with pytest.warns(ConvergenceWarning, match="did not converge in 3 of 3"):
        fit = lrbtl.fit_separate(simulated((6, 3), 4_000))
    assert np.all(fit.stop_reason == "max_iter")


def test_batches_do_not_change_the_result(monkeypatch):
    battles = simulated((6, 9), 900)
    whole = quiet_fit(battles)
    monkeypatch.setattr(separate, "_BATCH", 50)
    parts = quiet_fit(battles)
    np.testing.assert_allclose(parts.within_scores, whole.within_scores, atol=1e-12)
    assert np.array_equal(parts.components, whole.components)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.permutations(range(5)))
def test_relabelling_swapping_and_repeating(seed, permutation):
    rng = np.random.default_rng(seed)
    n = 60
    a = rng.integers(0, 5, n)
    b = (a + rng.integers(1, 5, n)) % 5
    u, y = rng.integers(0, 2, n), rng.choice([0.0, 0.5, 1.0], n)
    base = quiet_fit(lrbtl.Battles.from_arrays(a, b, y, [u], n_models=5, n_levels=[2]))
    new = np.array(permutation)
    moved = quiet_fit(lrbtl.Battles.from_arrays(new[b], new[a], 1 - y, [u], n_models=5, n_levels=[2]))
    np.testing.assert_allclose(moved.scores[new], base.scores, atol=1e-8)
    thrice = quiet_fit(lrbtl.Battles.from_arrays(a, b, y, [u], n_models=5, n_levels=[2], counts=np.full(n, 3)))
    np.testing.assert_allclose(thrice.within_scores, base.within_scores, atol=1e-8)
    for i, j in [(0, 1), (2, 4)]:
        if base.components[i, 0] == base.components[j, 0]:
            assert moved.gap(int(new[i]), int(new[j]), 0) == pytest.approx(base.gap(i, j, 0), abs=1e-8)
            np.testing.assert_allclose(thrice.covariance(0)[i, j], base.covariance(0)[i, j] / 3, rtol=1e-6, atol=1e-12)


def test_fit_inside_a_component_is_the_limit_of_the_whole_likelihood():
    """With the one-way battles kept and a huge gap imposed, the gaps inside a component are the same."""
    battles = separated_battles()
    fit = quiet_fit(battles)
    a, b, y, count = context_cells(battles, battles.context_index("math"))
    top, x, z = (battles.model_index(name) for name in ("top", "x", "y"))
    far = np.zeros(4)
    far[top] = 30.0

    def loss(free):
        theta = far.copy()
        theta[x], theta[z] = free[0], -free[0]
        eta = theta[a] - theta[b]
        return count @ (np.logaddexp(0, eta) - y * eta)

    half = minimize(loss, [0.0], tol=1e-12).x[0]
    assert fit.gap("x", "y", "math") == pytest.approx(2 * half, abs=1e-5)


def test_a_prior_gives_every_context_finite_scores():
    battles = lrbtl.Battles.from_arrays([0, 0, 1], [1, 2, 2], [1, 1, 1], ([0, 0, 1],), counts=[3, 2, 1], n_models=4)
    fit = lrbtl.fit_separate(battles, prior_sd=2.0)
    assert fit.converged.all() and np.isfinite(fit.scores).all()
    for u in range(2):
        a, b, y, count = context_cells(battles, u)

        def loss(theta, a=a, b=b, y=y, count=count):
            eta = theta[a] - theta[b]
            return count @ (np.logaddexp(0, eta) - y * eta) + 0.5 * np.sum(theta**2) / 4.0

        expected = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).x
        np.testing.assert_allclose(fit.scores[:, u], expected, atol=1e-6)
        p = 1 / (1 + np.exp(-(fit.scores[a, u] - fit.scores[b, u])))
        x = np.eye(4)[a] - np.eye(4)[b]
        posterior = np.linalg.inv(x.T @ np.diag(count * p * (1 - p)) @ x + np.eye(4) / 4.0)
        centring = np.eye(4) - 0.25
        np.testing.assert_allclose(fit.covariance(u, kind="model"), centring @ posterior @ centring, atol=1e-8)


def test_a_wide_prior_is_maximum_likelihood():
    battles = simulated((6, 4), 6_000)
    wide = lrbtl.fit_separate(battles, prior_sd=1e4)
    np.testing.assert_allclose(wide.scores, lrbtl.fit_separate(battles).scores, atol=1e-5)
    np.testing.assert_allclose(wide.covariance(1), lrbtl.fit_separate(battles).covariance(1), rtol=1e-4)
    with pytest.raises(lrbtl.errors.RidgeError, match="prior_sd"):
        lrbtl.fit_separate(battles, prior_sd=0.0)
