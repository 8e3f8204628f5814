"""Cross-fitted and penalised moments against the dense oracle, given the same fits and folds."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
import oracle
from inference_cases import FOLDS, LAWS, all_cases, assert_close, both_targets, cases, problem, sampling_of
from lrbtl.data.folds import fold_counts
from lrbtl.fitting.design import Design
from lrbtl.fitting.fit import fit
from lrbtl.fitting.local import Local
from lrbtl.fitting.low_rank import refit
from lrbtl.inference.analysis import METHODS, analyse_fit
from lrbtl.inference.targets import resolve_targets
from lrbtl.methods.base import Options, Provenance
from lrbtl.methods.cross_fit import OneStepRun
from lrbtl.methods.one_step import evaluate_targets, fold_step
from lrbtl.methods.targets import Stack, resolved_score, resolved_win
from lrbtl.model.links import LOGISTIC, mean_over_spread
from problems import SMALL_CASES, law_dict, oracle_rows, rebuilt, simulated

pytestmark = [  # formulas are checked on battles few enough for dense matrices
    pytest.mark.filterwarnings("ignore::lrbtl.errors.WeakSignalWarning"),
    pytest.mark.filterwarnings("ignore::lrbtl.errors.ThinContextWarning"),
]

LOW_RANK: dict[str, Any] = dict(METHODS)  # those of its methods that fit at a low rank


def oracle_options(method, sampling, battles, rows):
    """Weights and law as the oracle takes them."""
    if method == "efficient":
        return {"method": method, "law": None if sampling is None else law_dict(sampling, battles.shape)}
    used = lrbtl.ProductSampling.estimate(battles) if sampling is None else sampling
    return {"method": method, "weights": oracle.ipw_weights(rows, law_dict(used, battles.shape))}


def plain_run(whole, method, sampling, *, seed=4, se="crossfit"):
    """Steps with the plain score y - sigmoid(eta), as the paper has them."""
    battles = whole.battles
    design = Design.of(battles)
    recipe = LOW_RANK[method].recipe(design, Options(sampling=sampling), battles)
    folds = fold_counts(battles.cells, FOLDS, seed).astype(float)
    steps = [fold_step(design, refit(whole, design.count - held_out).point, held_out, recipe) for held_out in folds]
    full = fold_step(design, whole.point, design.count, recipe) if se == "full" else None
    return OneStepRun(whole, Provenance(method), steps, full)


def run_of(whole, method="efficient", **options):
    """The method run on the battles of a fit."""
    return analyse_fit(whole, Options(n_folds=FOLDS, **options), method=method).run


def fits_of(run):
    shape = run.fit.battles.shape
    return [step.space.point.dense().reshape(shape) for step in run.steps]


@pytest.mark.parametrize("name", LAWS)
@all_cases
def test_cross_fitted_moments_are_the_oracles(case, name):
    shape, rank = case
    _, battles, whole = problem(case)
    method, law = LAWS[name]
    sampling = sampling_of(law, shape)
    mine, theirs = both_targets(shape)
    folds = fold_counts(battles.cells, FOLDS, 4).astype(float)
    rows = oracle_rows(battles)
    run = plain_run(whole, method, sampling)
    moments = run.sandwich(resolve_targets(battles, mine))
    options = oracle_options(method, sampling, battles, rows)
    expected = oracle.one_step(fits_of(run), folds, rows, theirs, rank, **options)
    assert_close(moments.values, expected.estimate)
    assert_close(moments.cov, expected.cov)
    options.pop("weights", None)
    assert_close(moments.variance_noise, oracle.variance_noise(fits_of(run), folds, rows, theirs, rank, **options))


@pytest.mark.parametrize("name", LAWS)
@cases
def test_full_sample_errors_are_the_oracles(case, name):
    shape, rank = case
    _, battles, whole = problem(case)
    method, law = LAWS[name]
    sampling = sampling_of(law, shape)
    mine, theirs = both_targets(shape)
    resolved = resolve_targets(battles, mine)
    full, crossed = (plain_run(whole, method, sampling, se=se).sandwich(resolved) for se in ("full", "crossfit"))
    rows = oracle_rows(battles)
    options = oracle_options(method, sampling, battles, rows)
    expected = oracle.full_sample_covariance(whole.scores, rows, theirs, rank, **options)
    assert_close(full.cov, expected)
    np.testing.assert_array_equal(full.variance_noise, 0.0)
    np.testing.assert_array_equal(full.values, crossed.values)


def dense_spread(T, rows, rank, ridge):
    """x^T (N K + R)^-1 x of each row at a matrix (or vector) T, from the oracle's leverages."""
    matrix = T.reshape(len(T), -1)
    _, leverage = oracle.mle_hc3(T, rows, [], rank, oracle.factor_ridge(matrix, rank[0], ridge))
    return np.array(
        [h / oracle.LOGISTIC.fisher(oracle.eta_of(T, *row[:3])) for h, row in zip(leverage, rows, strict=True)]
    )


def vote_dispersion(T, rows):
    """Variance of the votes over that of wins and losses."""
    p = np.array([expit(oracle.eta_of(T, *row[:3])) for row in rows])
    y, n = (np.array([row[k] for row in rows]) for k in (3, 4))
    return 1 - n @ (y * (1 - y)) / (n @ (p * (1 - p)))


def one_step_with_spread(fits, folds, rows, targets, rank, spread, method):
    """The oracle's one step with the spread of eta allowed for: score y - E[p], whitened by E[p (1 - p)]."""
    N = folds.sum()
    estimate, cov = np.zeros(len(targets)), np.zeros((len(targets), len(targets)))
    for T, held_out in zip(fits, folds, strict=True):
        training = oracle.without_fold(rows, held_out)
        H = oracle.directions(T, training, targets, rank, method)
        eta = np.array([oracle.eta_of(T, *row[:3]) for row in rows])
        left = spread * N / (N - held_out.sum())
        mean, information = mean_over_spread(LOGISTIC.mean, eta, left), LOGISTIC.mean_fisher(eta, left)
        score = np.array([row[3] for row in rows]) - mean
        if method == "whitened":
            score = (np.array([row[3] for row in rows]) - expit(eta)) / information
        estimate += held_out.sum() / N * np.array([value(T) for value, _ in targets])
        for (u, a, b, *_), s, n in zip(rows, score, held_out, strict=True):
            phi = s * np.array([oracle.eta_of(h, u, a, b) for h in H])
            estimate += n / N * phi
            cov += n / N**2 * np.outer(phi, phi)
    return estimate, cov


@pytest.mark.parametrize("method", ["efficient", "whitened"])
@cases
def test_scores_allow_for_the_spread_of_eta(case, method):
    shape, rank = case
    _, battles, whole = problem(case)
    sampling = lrbtl.UniformSampling() if method == "whitened" else None
    run = run_of(whole, method, rng=4, se="full", sampling=sampling)
    ridge = LOW_RANK[method].ridge_share * whole.ridge
    rows = oracle_rows(battles)
    spread = Local(Design.of(battles), run.full.space).eta_variances(ridge)
    if len(shape) < 3:
        start = run.full.space.point.dense().reshape(shape)
        np.testing.assert_allclose(spread, dense_spread(start, rows, rank, ridge[0]), rtol=1e-8)
    spread = spread * vote_dispersion(run.full.space.point.dense().reshape(shape), rows)
    mine, theirs = both_targets(shape)
    folds = fold_counts(battles.cells, FOLDS, 4).astype(float)
    estimate, cov = one_step_with_spread(fits_of(run), folds, rows, theirs, rank, spread, method)
    moments = run_of(whole, method, rng=4, sampling=sampling).sandwich(resolve_targets(battles, mine))
    assert_close(moments.values, estimate)
    assert_close(moments.cov, cov)


@cases
def test_steps_turn_into_all_linear_targets_at_once(case):
    """T_k + J delta_k is the one-step estimate of every linear target."""
    shape, _ = case
    _, battles, whole = problem(case)
    run = run_of(whole)
    resolved = resolve_targets(battles, both_targets(shape)[0][2:3])
    gamma = np.random.default_rng(3).normal(size=shape)
    values, _ = run.family("scores")
    np.testing.assert_allclose(run.moments(resolved).values[0], np.sum(gamma * values.reshape(shape)), rtol=1e-9)
    step = run.steps[0]
    _, gradients = evaluate_targets(step.space, Stack.of(resolved), shape)
    centred = oracle.centring(gamma).reshape(shape[0], -1)
    np.testing.assert_allclose(gradients[:, 0] @ step.delta, np.sum(centred * step.space.dense(step.delta)), rtol=1e-9)


@all_cases
def test_mle_moments_are_the_oracles(case):
    shape, rank = case
    _, battles, _ = problem(case)
    run = run_of(fit(battles, rank, ridge=0.0), "mle")
    mine, theirs = both_targets(shape)
    moments = run.sandwich(resolve_targets(battles, mine))
    T = run.steps[0].space.point.dense().reshape(shape)
    expected, leverage = oracle.mle_hc3(T, oracle_rows(battles), theirs, rank)
    assert_close(moments.values, [value(T) for value, _ in theirs])
    assert_close(moments.cov, expected)
    assert leverage @ battles.cells.count == pytest.approx(oracle.tangent_dimension(shape, rank))


def test_mle_leverages_count_the_ridge_of_the_fit():
    shape, rank = SMALL_CASES[1]
    _, battles, _ = problem(SMALL_CASES[1])
    whole = fit(battles, rank, ridge=5.0)
    run = run_of(whole, "mle")
    mine, theirs = both_targets(shape)
    T = run.steps[0].space.point.dense()
    ridge = oracle.factor_ridge(T, rank[0], LOW_RANK["mle"].ridge_share * 5.0)
    expected, _ = oracle.mle_hc3(T, oracle_rows(battles), theirs, rank, ridge)
    assert_close(run.sandwich(resolve_targets(battles, mine)).cov, expected)


def test_a_ridge_per_mode_is_no_plain_fit():
    battles = simulated((4,), 1, 300)[1]
    runs = [lrbtl.infer(battles, lrbtl.gap(0, 1), method="mle", rank=1, ridge=ridge) for ridge in ([9, 9], 9.0, "auto")]
    assert runs[0].estimate[0] == runs[1].estimate[0] != runs[2].estimate[0] and runs[0].info.method == "mle"


def test_mle_is_the_fit_with_a_smaller_ridge():
    _, rank = SMALL_CASES[1]
    _, battles, _ = problem(SMALL_CASES[1])
    est = lrbtl.infer(battles, lrbtl.all_scores(), rank=rank, ridge=4.0, method="mle")
    less = lrbtl.fit(battles, rank, ridge=LOW_RANK["mle"].ridge_share * 4.0)
    np.testing.assert_allclose(est.estimate, less.scores.ravel(), atol=1e-3)


def test_model_based_errors_are_the_inverse_information():
    case = SMALL_CASES[1]
    _, battles, whole = problem(case)
    mine, theirs = both_targets(case[0])
    rows = oracle_rows(battles)

    def expected(scores):
        G = battles.n_battles * oracle.gram_empirical(scores, rows)
        inverse = oracle.invert_on_tangent(G, oracle.tangent_projector(scores, case[1]))
        return [np.sqrt(g @ inverse @ g) for g in (gradient(scores).ravel() for _, gradient in theirs)]

    full = plain_run(whole, "efficient", None, se="full").sandwich(resolve_targets(battles, mine))
    np.testing.assert_allclose(full.bound, expected(whole.scores), rtol=1e-8)
    whitened = run_of(whole, "whitened", sampling=lrbtl.UniformSampling())
    at = whitened.reference.space.point.dense()
    np.testing.assert_allclose(whitened.moments(resolve_targets(battles, mine)).bound, expected(at), rtol=1e-8)


@all_cases
@pytest.mark.parametrize("among", ["all", "some"])
@pytest.mark.parametrize("method", ["efficient", "whitened", "mle"])
def test_mean_scores_of_many_boards_are_those_of_listed_targets(case, method, among):
    _, battles, whole = problem(case)
    run = run_of(whole, method)
    weights = np.vstack([np.random.default_rng(0).dirichlet(np.ones(battles.n_contexts)), np.eye(battles.n_contexts)])
    inside = np.tile(np.arange(battles.shape[0]) != 1, (len(weights), 1)) if among == "some" else None
    for row, found in zip(weights, run.mean_sandwiches(weights, inside), strict=True):
        mask = None if inside is None else inside[0]
        listed = run.sandwich([resolved_score(a, row, mask) for a in range(battles.shape[0])])
        np.testing.assert_allclose(found.values, listed.values, atol=1e-9)
        np.testing.assert_allclose(found.cov, listed.cov, rtol=1e-8, atol=1e-9 * np.abs(listed.cov).max())
        np.testing.assert_allclose(found.bound, listed.bound, rtol=1e-8)
        np.testing.assert_allclose(found.variance_noise, listed.variance_noise, rtol=1e-6, atol=1e-9)


@all_cases
@pytest.mark.parametrize("se", ["crossfit", "full"])
@pytest.mark.parametrize("method", ["efficient", "whitened", "mle"])
def test_errors_of_very_many_targets_are_those_of_few(case, method, se):
    shape, _ = case
    _, battles, whole = problem(case)
    run = run_of(whole, method, se=se)
    weights = np.random.default_rng(0).dirichlet(np.ones(battles.n_contexts))
    targets = resolve_targets(battles, both_targets(shape)[0])
    targets += [resolved_win(a, b, weights) for a in range(shape[0]) for b in range(a)]
    few, many = run.sandwich(targets), run.sandwich(targets, joint=False)
    np.testing.assert_allclose(many.values, few.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(many.cov, np.diag(few.cov), rtol=1e-9)
    np.testing.assert_allclose(many.bound, few.bound, rtol=1e-9)


# ------------------------------------------------------------------------------
# Who has a score on a board.
# ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::lrbtl.errors.LrbtlWarning")
def test_scores_that_run_to_infinity_are_not_placed():
    truth = lrbtl.simulate_scores((6, 2), 1, scale=1.5, rng=0)
    champion = lrbtl.Battles.from_arrays(["zz"] * 2, ["model_0"] * 2, [1, 1], [0, 1], counts=[900, 900])
    battles = lrbtl.simulate_battles(truth, 5_000, rng=1) + champion
    analysis = lrbtl.analyse(battles, rank=2, ridge=0.0, n_folds=3, method="efficient")
    weights = np.full(2, 0.5)
    placed = analysis.placed(weights)
    assert [battles.models[i] for i in np.flatnonzero(~placed)] == ["zz"]
    assert analysis.why_not(6, weights) == "won all 1800 votes here" and np.isnan(analysis.scores()[6]).all()
    board = analysis.estimate_boards(weights[None], placed[None])[0]
    np.testing.assert_array_equal(np.isnan(board.estimate), ~placed)
    assert np.nanmax(board.se) < 1


@pytest.mark.filterwarnings("ignore::lrbtl.errors.LrbtlWarning")
def test_scores_that_a_runaway_model_takes_along_are_not_told():
    """Model 1 is 266 logits below a mean that model 2 takes along: not known, while who wins is."""
    cells = [(0, 2, 0.5, 0, 0, 101), (0, 2, 1.0, 0, 0, 3), (0, 1, 1.0, 0, 1, 1), (0, 2, 0.0, 0, 1, 101)]
    cells += [(0, 2, 0.0, 1, 0, 1), (0, 2, 0.5, 1, 0, 1), (0, 2, 1.0, 1, 0, 3)]
    cells += [(0, 1, 0.0, 1, 1, 2), (0, 1, 0.5, 1, 1, 100), (0, 1, 1.0, 1, 1, 2), (0, 2, 0.0, 1, 1, 100)]
    a, b, y, task, language, counts = zip(*cells, strict=True)
    battles = lrbtl.Battles.from_arrays(a, b, y, [task, language], counts=counts)
    est = lrbtl.infer(battles, [lrbtl.score(1)], method="efficient", n_folds=2, rng=0)
    assert np.isnan(est.estimate).all() and np.isnan(est.se).all()


@pytest.mark.filterwarnings("ignore::lrbtl.errors.LrbtlWarning")
@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ([(0, 2, 0.0, 0, 0, 1), (0, 1, 1.0, 0, 1, 1), (1, 2, 1.0, 0, 1, 1), (0, 1, 1.0, 1, 0, 1)], "scores are zero"),
        ([(0, 1, 0.7, 0, 0, 100), (0, 2, 0.7, 0, 0, 100), (1, 2, 0.3, 1, 0, 1)], "nothing informs"),
    ],
)
def test_logs_of_a_handful_of_votes_have_a_named_error(cells, says):
    """The refit is zero up to rounding; one context has a single vote between equal models."""
    cells = cells if says == "nothing informs" else [*cells, (0, 2, 0.0, 1, 0, 1), (1, 2, 1.0, 1, 0, 1)]
    a, b, y, task, language, counts = zip(*cells, strict=True)
    modes = [task] if says == "nothing informs" else [task, language]
    battles = lrbtl.Battles.from_arrays(a, b, y, modes, counts=counts)
    with pytest.raises(lrbtl.errors.SingularInformationError, match=says):
        lrbtl.leaderboard(battles, context="all", method="mle", rank=2, weights="equal")


@pytest.mark.filterwarnings("ignore::lrbtl.errors.LrbtlWarning")
@pytest.mark.parametrize(
    ("cells", "method"),
    [
        ([(0, 1, 1.0, 0, 0, 3), (0, 1, 0.5, 1, 0, 1), (0, 2, 0.5, 1, 0, 2)], "mle"),
        (
            [
                (0, 2, 0.0, 0, 0, 1),
                (1, 2, 0.0, 0, 0, 1),
                (0, 2, 1.0, 1, 0, 1),
                (1, 2, 0.0, 1, 0, 1),
                (0, 1, 0.0, 1, 1, 2),
            ],
            "whitened",
        ),
    ],
)
def test_even_models_in_even_contexts_have_no_score(cells, method):
    """Rank 1 says 0 ± 0 of a model without skill in a context without any."""
    a, b, y, task, language, counts = zip(*cells, strict=True)
    modes = [task] if method == "mle" else [task, language]
    battles = lrbtl.Battles.from_arrays(a, b, y, modes, counts=counts)
    boards = lrbtl.leaderboard(battles, context="all", method=method, n_folds=3, weights="equal")
    assert all((np.isnan(board.score) | (board.upper > board.lower)).all() for board in boards.every())


def test_light_tails_run_to_infinity_at_smaller_scores():
    """13 probits are 87 logits: no number of votes shows that."""
    battles = lrbtl.Battles.from_arrays([0] * 200, [1] * 200, [1] * 200)
    with pytest.warns(lrbtl.errors.SeparationWarning):
        est = lrbtl.infer(battles, [lrbtl.score(0)], method="efficient", link="probit", rank=1, n_folds=3)
    assert np.isnan(est.estimate).all() and np.isnan(est.se).all()


@pytest.mark.parametrize("method", ["mle", "efficient"])
@pytest.mark.filterwarnings("ignore::lrbtl.errors.ConvergenceWarning")
def test_a_share_of_ties_that_runs_off_is_named(method):
    """One model wins or ties against all others, who never meet: scores and the threshold grow together."""
    tied, won = [2, 8, 2, 4, 202, 305, 105, 1, 2], [102, 104, 0, 0, 103, 0, 1, 5, 100]
    b, u = [1, 2, 3, 4, 5, 1, 2, 3, 4], [0] * 5 + [1] * 4
    battles = lrbtl.Battles.from_arrays([0] * 18, b * 2, [0.5] * 9 + [1.0] * 9, [u * 2], counts=tied + won)
    with pytest.raises(lrbtl.errors.SingularInformationError, match="rate of ties between even models"):
        lrbtl.infer(battles, [lrbtl.win_probability(1, 2)], method=method, link="rao-kupper", rank=1, n_folds=2)


@pytest.mark.filterwarnings("ignore::lrbtl.errors.LrbtlWarning")
def test_scores_that_the_fit_holds_at_zero_have_no_interval():
    """Ties only, except where both modes are at level 1: at rank 1 nothing moves the scores of context (0, 0)."""
    tied, played = [(0, 0, 0.5), (0, 1, 0.5), (1, 0, 0.5)], [(1, 1, 1), (1, 1, 0)]
    rows = [(*pair, y, *u) for pair in ((0, 1), (0, 2), (1, 2)) for *u, y in tied + played]
    a, b, y, *contexts = zip(*rows, strict=True)
    votes = lrbtl.Battles.from_arrays(a, b, y, contexts, counts=[300 if won == 1 else 100 for won in y])
    analysis = lrbtl.analyse(votes, rank=1, n_folds=3, method="efficient")
    assert not analysis.placed(np.eye(4)[0]).any() and analysis.placed(np.eye(4)[3]).all()
    assert np.isnan(analysis.scores()[:, 0]).all() and np.isfinite(analysis.scores()[:, 3]).all()
    assert np.isnan(analysis.estimate(lrbtl.gap(0, 1, (0, 0))).se[0])
    assert analysis.estimate(lrbtl.gap(0, 1, (1, 1))).se[0] > 0
    with pytest.raises(lrbtl.errors.NoDecisionError, match="method='hierarchical' gives every model"):
        lrbtl.leaderboard(votes, rank=1, n_folds=3, method="efficient")


@pytest.mark.parametrize("method", ["efficient", "whitened", "mle"])
def test_undetermined_scores_are_not_placed(method):
    """Two contexts keep one pair of models: there a board of this pair is all that rank 2 determines."""
    _, battles = simulated((6, 5), 2, 3000)
    cells = battles.cells
    thin = rebuilt(battles, ~np.isin(cells.context, [0, 3]) | ((cells.a == 0) & (cells.b == 1)))
    analysis = lrbtl.analyse(thin, rank=2, n_folds=FOLDS, method=method)
    units = np.eye(5)
    boards = analysis.estimate_boards(units, np.array([analysis.placed(unit) for unit in units]))
    placed = [np.flatnonzero(np.isfinite(board.estimate)).tolist() for board in boards]
    assert placed == [[0, 1], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], [0, 1], [0, 1, 2, 3, 4, 5]]
    gap = analysis.estimate(lrbtl.gap(0, 1, thin.levels[0][0]))
    assert gap.estimate[0] == pytest.approx(boards[0].estimate[0] - boards[0].estimate[1], rel=1e-9)
    assert np.all([np.nanmax(board.se) < 2 for board in boards])
