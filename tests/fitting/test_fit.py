"""Fits: invariances, recovery of a truth, warnings, and bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import lrbtl
from lrbtl.errors import (
    ConvergenceWarning,
    LabelError,
    MethodError,
    RankCollapseWarning,
    RankError,
    RidgeError,
    UninformedError,
    UnknownContextError,
    UnknownModelError,
)
from lrbtl.fitting import low_rank as fitting
from lrbtl.fitting.design import Design
from lrbtl.fitting.fit import fit
from lrbtl.fitting.local import Local
from lrbtl.fitting.low_rank import check_ridge, refit, spectral_start
from lrbtl.fitting.newton import Newton
from lrbtl.inference.analysis import analyse_fit
from lrbtl.methods.base import Options
from problems import SMALL_CASES, battle_matrix, gradient_at_zero, rebuilt, simulated

CASES = [((6,), (1,)), ((7, 5), (2, 2)), ((6, 4, 3), (2, 2, 2))]
cases = pytest.mark.parametrize("case", CASES, ids=["order1", "order2", "order3"])
_BATTLES = {case: simulated(*case, 1500)[1] for case in CASES}


def rows_of(battles):
    """One row per battle: arrays a, b, y and a list of context columns."""
    cells = battles.cells
    each = np.repeat(np.arange(battles.n_cells), cells.count)
    contexts = list(np.unravel_index(cells.context[each], battles.shape[1:])) if len(battles.shape) > 1 else []
    return cells.a[each], cells.b[each], cells.y[each], contexts


def fit_rows(case, a, b, y, contexts, **options):
    shape, rank = case
    battles = lrbtl.Battles.from_arrays(
        a, b, y, contexts, n_models=shape[0], n_levels=list(shape[1:]) or None, counts=options.pop("counts", None)
    )
    return fit(battles, rank, ridge=1.0, **options)


def assert_same(found, expected, tol=1e-2):
    """Two fits of one objective, each within 1e-4 nats of its minimum."""
    np.testing.assert_allclose(found, expected, atol=tol)


@cases
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_rows_in_any_order_and_sides_swapped_change_nothing(case, seed):
    a, b, y, contexts = rows_of(_BATTLES[case])
    expected = fit_rows(case, a, b, y, contexts)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(a))
    swap = rng.random(len(a)) < 0.5
    a, b, y = np.where(swap, b, a), np.where(swap, a, b), np.where(swap, 1 - y, y)
    found = fit_rows(case, a[order], b[order], y[order], [column[order] for column in contexts])
    np.testing.assert_array_equal(found.scores, expected.scores)


@cases
def test_counts_are_repetition(case):
    battles = _BATTLES[case]
    expected = fit_rows(case, *rows_of(battles))
    found = fit(rebuilt(battles), case[1], ridge=1.0)
    np.testing.assert_array_equal(found.scores, expected.scores)


@cases
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_relabelling_permutes_the_scores(case, seed):
    a, b, y, contexts = rows_of(_BATTLES[case])
    expected = fit_rows(case, a, b, y, contexts).scores
    rng = np.random.default_rng(seed)
    names = [rng.permutation(d) for d in case[0]]
    columns = [name[column] for name, column in zip(names[1:], contexts, strict=True)]
    found = fit_rows(case, names[0][a], names[0][b], y, columns).scores
    assert_same(found[np.ix_(*names)], expected)


@cases
def test_opposite_votes_turn_the_scores_round(case):
    a, b, y, contexts = rows_of(_BATTLES[case])
    expected = fit_rows(case, a, b, y, contexts).scores
    assert_same(fit_rows(case, a, b, 1 - y, contexts).scores, -expected)


@cases
def test_counts_and_ridge_scale_together(case):
    battles = _BATTLES[case]
    one = fit(battles, case[1], ridge=1.0)
    ten = fit(rebuilt(battles, counts=10 * battles.cells.count), case[1], ridge=10.0)
    assert_same(ten.scores, one.scores)
    assert ten.objective == pytest.approx(10 * one.objective, rel=1e-6)


@pytest.mark.parametrize(
    ("shape", "rank", "n"), [((8,), 1, 20_000), ((20, 8), 2, 40_000), ((12, 5, 4), (3, 2, 2), 40_000)]
)
def test_recovers_the_truth(shape, rank, n):
    truth, battles = simulated(shape, rank, n)
    found = lrbtl.fit(battles, rank)
    assert found.converged
    assert np.abs(found.scores - truth).mean() < 0.1
    np.testing.assert_allclose(found.scores.sum(axis=0), 0.0, atol=1e-10)
    assert found.scores.shape == shape and len(found.rank) == len(shape)


def test_the_fit_describes_itself():
    battles = _BATTLES[CASES[1]]
    found = fit(battles, 2, ridge=1.0)
    assert repr(found).startswith("Fit(shape=(7, 5), rank=(2, 2), ridge=(1, 1), converged after")
    assert found.stop_reason == "Newton decrement below tolerance" and found.n_iter >= 1
    np.testing.assert_allclose(found.factors[0] @ found.core @ found.factors[1].T, found.scores, atol=1e-12)
    singular = np.linalg.svd(found.scores, compute_uv=False)[:2]
    np.testing.assert_allclose(found.singular_values[0], singular, rtol=1e-9)
    design = Design.of(battles)
    eta = battle_matrix(design) @ found.scores.ravel()
    loglik = design.count @ (design.y * eta - np.logaddexp(0, eta)) / battles.n_battles
    assert found.log_likelihood(battles) == pytest.approx(loglik)
    assert found.objective == pytest.approx(-loglik * battles.n_battles + singular.sum(), rel=1e-8)


@cases
def test_predict_proba(case):
    battles = _BATTLES[case]
    found = fit(battles, case[1], ridge=1.0)
    last = tuple(d - 1 for d in case[0][1:])
    context = None if not last else last[0] if len(last) == 1 else last
    expected = expit(found.scores[(0, *last)] - found.scores[(2, *last)])
    assert found.predict_proba(0, 2, context) == pytest.approx(expected)
    assert found.predict_proba(battles.models[0], battles.models[2], context) == pytest.approx(expected)
    with pytest.raises(UnknownModelError):
        found.predict_proba("nobody", 0, context)
    if last:
        with pytest.raises(UnknownContextError):
            found.predict_proba(0, 1, 99 if len(last) == 1 else (99, 0))


def test_refit_is_the_fit_of_other_counts():
    battles = _BATTLES[CASES[1]]
    whole = fit(battles, 2, ridge=1.0)
    counts = battles.cells.count * np.random.default_rng(0).integers(1, 3, battles.n_cells)
    expected = fit(rebuilt(battles, counts=counts), 2, ridge=2.0)
    found = refit(whole, counts.astype(float), ridge=np.full(2, 2.0), tol=1e-8)
    assert_same(found.point.dense(), expected.scores)


@pytest.mark.parametrize("case", SMALL_CASES)
def test_spectral_start_is_the_truncated_linear_estimate(case):
    shape, rank = case
    design = Design.of(simulated(shape, rank, 500)[1])
    X = battle_matrix(design)
    linear = (4 * design.d_eff / design.count.sum()) * (X.T @ (design.count * (design.y - 0.5))).reshape(shape[0], -1)
    battles = (np.abs(X).T @ design.count).reshape(linear.shape)
    rows, columns = (np.sqrt(n / n.mean()) for n in (battles.sum(axis=1, keepdims=True), battles.sum(axis=0)))
    start = spectral_start(design, rank).dense().reshape(linear.shape)
    np.testing.assert_allclose(start.sum(axis=0), 0.0, atol=1e-10)
    left, values, right = np.linalg.svd(linear / rows / columns, full_matrices=False)
    expected = (left[:, : rank[0]] * values[: rank[0]]) @ right[: rank[0]] / rows / columns
    expected -= expected.mean(axis=0)
    if len(shape) < 3:
        np.testing.assert_allclose(start, expected, atol=1e-10)
    else:
        assert np.linalg.norm(start - expected) < 0.9 * np.linalg.norm(expected)


def test_spectral_start_copes_with_uneven_traffic():
    """Nearly as good as the fit also where some models and contexts have many times the battles of others."""
    rng = np.random.default_rng(4)
    law = lrbtl.ProductSampling(rng.dirichlet(np.full(40, 1.0)), rng.dirichlet(np.full(12, 1.0)))
    truth = lrbtl.simulate_scores((40, 12), 2, scale=2, rng=0)
    battles = lrbtl.simulate_battles(truth, 60_000, sampling=law, rng=1)
    best = fit(battles, 2)
    design = best.design
    start = spectral_start(design, (2, 2))
    loss = [Local.of(design, p).loss for p in (start, best.point)]
    at_zero = design.count.sum() * np.log(2)
    assert at_zero - loss[0] > 0.95 * (at_zero - loss[1])


def test_spectral_start_near_a_point_corrects_it():
    """At a point of lower rank it keeps that point and adds what the residuals show."""
    _, battles = simulated((12, 8), 2, 30_000, scale=3.0)
    lower = fit(battles, 1, ridge=1.0)
    design = lower.design
    start = spectral_start(design, (2, 2), lower.point)
    best = fit(battles, 2, ridge=1.0)
    assert np.linalg.norm(start.dense() - best.scores) < 0.5 * np.linalg.norm(lower.scores - best.scores)


def test_a_fit_that_fails_on_the_way_does_not_end_the_others():
    """Here one fit of the ridge search finds no way down; its damped Hessian must not serve the next ones."""
    truth = lrbtl.simulate_scores((12, 3, 9), 1, scale=5.0, rng=1872)
    found = fit(lrbtl.simulate_battles(truth, 1620, rng=1872), 2, link="probit")
    assert found.converged and np.sqrt(np.mean((found.scores - truth) ** 2)) < 0.6


def test_a_rank_that_the_penalty_removed_is_reported():
    with pytest.warns(RankCollapseWarning, match=r"left rank \(0, 0\)|left rank \(1, 1\)"):
        fit(_BATTLES[CASES[1]], 2, ridge=130.0)


def test_a_fit_that_did_not_converge_is_reported(monkeypatch):
    def stopped(design, point, ridge, **options):
        return Newton(point, 1.0, 1.0, 7, False, "stopped after 7 iterations", design.link)

    monkeypatch.setattr(fitting, "minimise", stopped)
    with pytest.warns(ConvergenceWarning, match="stopped after 7 iterations"):
        found = fit(_BATTLES[CASES[1]], 2, ridge=1.0)
    assert "NOT converged" in repr(found)


@pytest.mark.parametrize(
    ("rank", "words"), [(0, "rank 0"), (9, "choose 1 to 5"), ((2, 9), "mode 2"), ((2,), "one rank per mode")]
)
def test_bad_ranks_are_named(rank, words):
    with pytest.raises(RankError, match=words):
        fit(_BATTLES[CASES[1]], rank)


def test_bad_options_are_named():
    battles = _BATTLES[CASES[1]]
    with pytest.raises(RankError, match="'two'"):
        fit(battles, "two")
    for n_threads in (0, -1):
        with pytest.raises(MethodError, match="n_threads"):
            fit(battles, 2, n_threads=n_threads)


def test_votes_that_favour_nobody_end_the_fit():
    battles = lrbtl.Battles.from_arrays([0, 0, 1] * 2, [1, 2, 2] * 2, [0.5] * 6, ([0, 0, 0, 1, 1, 1],), counts=[9] * 6)
    with pytest.warns((ConvergenceWarning, RankCollapseWarning)):
        found = fit(battles, 1, ridge=1.0)
    np.testing.assert_allclose(found.scores, 0.0, atol=1e-6)


@pytest.mark.parametrize("ridge", [-1.0, np.nan, np.inf, [1.0, -1.0], [1.0, 1.0, 1.0], "strong"])
def test_bad_ridges_are_named(ridge):
    with pytest.raises(RidgeError, match="ridge="):
        fit(_BATTLES[CASES[1]], 2, ridge=ridge)


def test_ridge_per_mode():
    np.testing.assert_array_equal(check_ridge(2, (5, 4, 3)), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(check_ridge([1, 2], (5,)), [1.0, 2.0])
    found = fit(_BATTLES[CASES[2]], 2, ridge=[1.0, 2.0, 3.0])
    np.testing.assert_array_equal(found.ridge, [1.0, 2.0, 3.0])


def test_models_and_levels_without_battles_are_named():
    options = {"models": ["ann", "bob", "cat"], "levels": [["code", "math"]]}
    silent = lrbtl.Battles.from_arrays(["ann", "bob"], ["bob", "ann"], [1, 1], (["code", "math"],), **options)
    with pytest.raises(UninformedError, match=r"models 'cat'.*select"):
        fit(silent, 1)
    empty = lrbtl.Battles.from_arrays(["ann", "bob"], ["bob", "cat"], [1, 1], (["code", "code"],), **options)
    with pytest.raises(UninformedError, match="context 1 'math'"):
        fit(empty, 1)


def test_separated_battles_still_have_a_fit():
    battles = lrbtl.Battles.from_arrays([0, 0, 1], [1, 2, 2], [1, 1, 1], counts=[20, 20, 20])
    found = fit(battles, 1)
    assert np.all(np.isfinite(found.scores)) and found.scores[0] > found.scores[1] > found.scores[2]


def test_auto_rank_asks_for_the_selection():
    truth, battles = simulated((15, 6), 1, 8000)
    found = fit(battles)
    assert found.rank == lrbtl.select_rank(battles).rank
    assert np.abs(found.scores - truth).mean() < 0.2


def test_a_collapsed_component_is_dropped_and_inference_goes_on():
    """A ridge between the first two singular values of the gradient at zero keeps one component."""
    battles = simulated((12, 5), (1, 1), 6000, scale=1.5)[1]
    design = Design.of(battles)
    values = np.linalg.svd(gradient_at_zero(design))[1]
    with pytest.warns(RankCollapseWarning, match=r"left rank \(1, 1\)"):
        collapsed = fit(battles, 3, ridge=float(np.sqrt(values[0] * values[1])))
    assert collapsed.rank == (1, 1)
    estimate = analyse_fit(collapsed, Options(n_folds=3)).estimate(lrbtl.score(0, 0))
    assert np.isfinite(estimate.estimate).all() and estimate.se[0] > 0


def test_battles_with_other_labels_are_refused():
    _, battles = simulated((6, 4), 1, 1000)
    found = fit(battles, 1)
    for other in (simulated((9, 4), 1, 1000)[1], simulated((6, 5), 1, 1000)[1]):
        for ask in (found.log_likelihood, lambda wrong: lrbtl.diagnose(wrong, found)):
            with pytest.raises(LabelError, match="other models or levels than those of the fit"):
                ask(other)
