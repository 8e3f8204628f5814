"""Every estimator against the dense oracle, given the same fits and folds; families, repeats, refusals."""

import itertools

import numpy as np
import pytest
from scipy.special import expit, logit

import lrbtl
import oracle
from lrbtl.board_scores import linear_targets
from lrbtl.crossfit import RIDGE_SHARE, CrossFit, _weights_and_law, cross_fit
from lrbtl.design import Design
from lrbtl.errors import (
    FoldError,
    MethodError,
    SamplingError,
    SeparationWarning,
    SingularInformationError,
    SolverError,
    TargetError,
)
from lrbtl.fitting import fit, refit
from lrbtl.folds import fold_counts
from lrbtl.inference import estimate_targets, resolve_targets
from lrbtl.links import LOGISTIC, mean_over_spread
from lrbtl.looseness import widening
from lrbtl.naive import naive_errors, naive_variances
from lrbtl.onestep import eta_variances, evaluate_targets, fold_step
from problems import SMALL_CASES, law_dict, oracle_rows, rebuilt, simulated

cases = pytest.mark.parametrize("case", SMALL_CASES, ids=["order1", "order2", "order3"])
all_cases = pytest.mark.parametrize(
    "case", [*SMALL_CASES, ((4, 2, 3, 2), (2, 2, 2, 2))], ids=["order1", "order2", "order3", "order4"]
)
FOLDS = 3
pytestmark = [  # formulas are checked on battles few enough for dense matrices
    pytest.mark.filterwarnings("ignore::lrbtl.errors.WeakSignalWarning"),
    pytest.mark.filterwarnings("ignore::lrbtl.errors.ThinContextWarning"),
]


def uneven_law(shape):
    """A product law far from uniform."""
    rng = np.random.default_rng(5)
    contexts = rng.uniform(1, 3, size=shape[1:])
    models = rng.uniform(1, 3, size=shape[0])
    return lrbtl.ProductSampling(models / models.sum(), contexts / contexts.sum() if len(shape) > 1 else None)


_PROBLEMS = {}


def problem(case):
    """Battles with ties drawn from an uneven law, and their fit; made once per shape."""
    if case not in _PROBLEMS:
        shape, rank = case
        law = uneven_law(shape)
        truth, battles = simulated(shape, rank, 500, scale=1.2, sampling=law)
        tied = simulated(shape, rank, 40, scale=1.2, seed=3, sampling=law)[1]
        ties = rebuilt(tied, y=np.full(tied.n_cells, 0.5))
        both = battles + ties
        _PROBLEMS[case] = truth, both, fit(both, rank, ridge=0.3)
    return _PROBLEMS[case]


def both_targets(shape):
    """Linear and nonlinear targets for the package and, written out by hand, for the oracle."""
    last = tuple(d - 1 for d in shape[1:])
    context = None if len(shape) == 1 else last[0] if len(shape) == 2 else last
    gamma = np.random.default_rng(3).normal(size=shape)
    entry, mean_gap = np.zeros(shape), np.zeros(shape)
    entry[(1, *last)] = 1.0
    mean_gap[0], mean_gap[2] = 1.0, -1.0
    mean_gap /= np.prod(shape[1:])

    def rate(T):
        return np.mean([expit(T[0] - T[b]) for b in range(1, shape[0])])

    def rate_slope(T):
        slope = np.zeros(shape)
        for b in range(1, shape[0]):
            p = expit(T[0] - T[b])
            slope[0] += p * (1 - p)
            slope[b] -= p * (1 - p)
        return slope / (shape[0] - 1) / np.prod(shape[1:]) / (rate(T) * (1 - rate(T)))

    mine = [
        lrbtl.score(1, context),
        lrbtl.gap(0, 2),
        lrbtl.linear(gamma, label="any"),
        lrbtl.win_rate(0),
        lrbtl.functional(lambda T: float(np.sum(T**3)), lambda T: 3 * T**2, label="cubes"),
    ]
    theirs = [
        oracle.linear_target(entry),
        oracle.linear_target(mean_gap),
        oracle.linear_target(gamma),
        (lambda T: float(logit(rate(T))), rate_slope),
        (lambda T: float(np.sum(T**3)), lambda T: 3 * T**2),
    ]
    return mine, theirs


def assert_close(found, expected):
    """Agreement to 1e-9 of the largest entry."""
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


LAWS = {
    "efficient": ("efficient", None),
    "efficient, known law": ("efficient", "known"),
    "whitened, uniform": ("whitened", "uniform"),
    "whitened, known law": ("whitened", "known"),
    "whitened, estimated law": ("whitened", None),
}


def sampling_of(kind, shape):
    return {None: None, "uniform": lrbtl.UniformSampling(), "known": uneven_law(shape)}[kind]


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
    weights, law = _weights_and_law(battles, design, method, sampling)
    options = {"method": method, "weights": weights, "law": law}
    folds = fold_counts(battles.cells, FOLDS, seed).astype(float)
    steps = [fold_step(design, refit(whole, design.count - held_out).point, held_out, **options) for held_out in folds]
    return CrossFit(
        whole, method, steps, fold_step(design, whole.point, design.count, **options) if se == "full" else None
    )


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
    moments = run.moments(resolve_targets(battles, mine))
    options = oracle_options(method, sampling, battles, rows)
    expected = oracle.one_step(fits_of(run), folds, rows, theirs, rank, **options)
    assert_close(moments.values, expected.estimate)
    assert_close(moments.cov, expected.cov)
    options.pop("weights", None)
    assert_close(moments.looseness, oracle.looseness(fits_of(run), folds, rows, theirs, rank, **options))


@pytest.mark.parametrize("name", LAWS)
@cases
def test_full_sample_errors_are_the_oracles(case, name):
    shape, rank = case
    _, battles, whole = problem(case)
    method, law = LAWS[name]
    sampling = sampling_of(law, shape)
    mine, theirs = both_targets(shape)
    resolved = resolve_targets(battles, mine)
    full, crossed = (plain_run(whole, method, sampling, se=se).moments(resolved) for se in ("full", "crossfit"))
    rows = oracle_rows(battles)
    options = oracle_options(method, sampling, battles, rows)
    expected = oracle.full_sample_covariance(whole.scores, rows, theirs, rank, **options)
    assert_close(full.cov, expected)
    np.testing.assert_array_equal(full.looseness, 0.0)
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
        training = [(*row[:4], row[4] - n) for row, n in zip(rows, held_out, strict=True) if row[4] > n]
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
    options = {"method": method, "sampling": lrbtl.UniformSampling() if method == "whitened" else None}
    run = cross_fit(whole, n_folds=FOLDS, rng=4, se="full", **options)
    ridge = RIDGE_SHARE[method] * whole.ridge
    rows = oracle_rows(battles)
    spread = eta_variances(Design.of(battles), run.full.space, ridge)
    if len(shape) < 3:
        start = run.full.space.point.dense().reshape(shape)
        np.testing.assert_allclose(spread, dense_spread(start, rows, rank, ridge[0]), rtol=1e-8)
    spread = spread * vote_dispersion(run.full.space.point.dense().reshape(shape), rows)
    mine, theirs = both_targets(shape)
    folds = fold_counts(battles.cells, FOLDS, 4).astype(float)
    estimate, cov = one_step_with_spread(fits_of(run), folds, rows, theirs, rank, spread, method)
    moments = cross_fit(whole, n_folds=FOLDS, rng=4, **options).moments(resolve_targets(battles, mine))
    assert_close(moments.values, estimate)
    assert_close(moments.cov, cov)


@cases
def test_steps_turn_into_all_linear_targets_at_once(case):
    """T_k + J delta_k is the one-step estimate of every linear target."""
    shape, _ = case
    _, battles, whole = problem(case)
    run = cross_fit(whole, n_folds=FOLDS)
    resolved = resolve_targets(battles, both_targets(shape)[0][2:3])
    gamma = np.random.default_rng(3).normal(size=shape)
    values, _ = run.all_scores()
    np.testing.assert_allclose(run.moments(resolved).values[0], np.sum(gamma * values.reshape(shape)), rtol=1e-9)
    step = run.steps[0]
    _, gradients = evaluate_targets(step.space, resolved, shape)
    centred = oracle.centring(gamma).reshape(shape[0], -1)
    np.testing.assert_allclose(gradients[:, 0] @ step.delta, np.sum(centred * step.space.dense(step.delta)), rtol=1e-9)


@all_cases
def test_mle_moments_are_the_oracles(case):
    shape, rank = case
    _, battles, _ = problem(case)
    run = cross_fit(fit(battles, rank, ridge=0.0), method="mle")
    mine, theirs = both_targets(shape)
    moments = run.moments(resolve_targets(battles, mine))
    T = run.steps[0].space.point.dense().reshape(shape)
    expected, leverage = oracle.mle_hc3(T, oracle_rows(battles), theirs, rank)
    assert_close(moments.values, [value(T) for value, _ in theirs])
    assert_close(moments.cov, expected)
    assert leverage @ battles.cells.count == pytest.approx(oracle.tangent_dimension(shape, rank))


def test_mle_leverages_count_the_ridge_of_the_fit():
    shape, rank = SMALL_CASES[1]
    _, battles, _ = problem(SMALL_CASES[1])
    whole = fit(battles, rank, ridge=5.0)
    run = cross_fit(whole, method="mle")
    mine, theirs = both_targets(shape)
    T = run.steps[0].space.point.dense()
    ridge = oracle.factor_ridge(T, rank[0], RIDGE_SHARE["mle"] * 5.0)
    expected, _ = oracle.mle_hc3(T, oracle_rows(battles), theirs, rank, ridge)
    assert_close(run.moments(resolve_targets(battles, mine)).cov, expected)


def test_mle_is_the_fit_with_a_smaller_ridge():
    _, rank = SMALL_CASES[1]
    _, battles, _ = problem(SMALL_CASES[1])
    est = lrbtl.infer(battles, lrbtl.all_scores(), rank=rank, ridge=4.0, method="mle")
    less = lrbtl.fit(battles, rank, ridge=RIDGE_SHARE["mle"] * 4.0)
    np.testing.assert_allclose(est.estimate, less.scores.ravel(), atol=1e-3)


@cases
def test_naive_moments_are_separate_fits(case):
    shape, _ = case
    _, battles, _ = problem(case)
    rows = oracle_rows(battles)
    contexts = oracle.contexts(shape)
    separate = [oracle.separate_btl(rows, shape[0], u, hc3=True) for u in contexts]
    targets = [lrbtl.gap(0, 2), lrbtl.score(1)]
    found = lrbtl.infer(battles, targets, method="naive")
    weights = np.zeros((2, shape[0]))
    weights[0, [0, 2]] = 1.0, -1.0
    weights[1, 1] = 1.0
    expected = np.mean([weights @ theta for theta, _ in separate], axis=0)
    cov = sum(weights @ c @ weights.T for _, c in separate) / len(contexts) ** 2
    np.testing.assert_allclose(found.estimate, expected, atol=1e-7)
    np.testing.assert_allclose(found.cov, cov, rtol=1e-6)
    family = lrbtl.infer(battles, lrbtl.all_scores(), method="naive")
    np.testing.assert_allclose(family.estimate.reshape(shape[0], -1)[:, 0], separate[0][0], atol=1e-7)
    np.testing.assert_allclose(family.se.reshape(shape[0], -1)[:, 0] ** 2, np.diag(separate[0][1]), rtol=1e-6)
    gaps = lrbtl.infer(battles, lrbtl.all_gaps(), method="naive")
    listed = [lrbtl.infer(battles, lrbtl.gap(0, b, named(battles, 0)), method="naive") for b in (1, 2)]
    np.testing.assert_allclose(gaps.estimate[:: len(contexts)][:2], [x.estimate[0] for x in listed], atol=1e-8)
    np.testing.assert_allclose(gaps.se[:: len(contexts)][:2], [x.se[0] for x in listed], rtol=1e-8)


def test_naive_targets_that_separation_leaves_infinite_are_nan():
    a, b, y, u = np.array([(0, 1, 1, 0), (0, 2, 1, 0), (1, 2, 1, 0), (1, 2, 0, 0), (0, 1, 0, 1), (1, 2, 1, 1)]).T
    battles = lrbtl.Battles.from_arrays(a, b, y, (u,))
    targets = [lrbtl.gap(1, 2, 0), lrbtl.gap(0, 1, 0)]
    with pytest.warns(SeparationWarning):
        est = lrbtl.infer(battles, targets, method="naive")
    assert np.isfinite(est.estimate[0]) and np.isfinite(est.se[0])
    assert np.isnan(est.estimate[1])


def named(battles, u):
    """The context at a flat position, as a target takes it."""
    return None if len(battles.shape) == 1 else battles.context_label(u)


@pytest.mark.parametrize(
    ("method", "se"),
    [
        ("efficient", "crossfit"),
        ("efficient", "full"),
        ("whitened", "crossfit"),
        ("whitened", "full"),
        ("mle", "crossfit"),
    ],
)
@all_cases
def test_families_are_their_targets_one_by_one(case, method, se):
    _, battles, whole = problem(case)
    run = cross_fit(whole, method=method, n_folds=FOLDS, se=se)
    D = battles.n_contexts
    scores = [lrbtl.score(a, named(battles, u)) for a in battles.models for u in range(D)]
    pairs = itertools.combinations(battles.models, 2)
    gaps = [lrbtl.gap(a, b, named(battles, u)) for a, b in pairs for u in range(D)]
    for family, listed in ((lrbtl.all_scores(), scores), (lrbtl.all_gaps(), gaps)):
        est = estimate_targets([run], family)
        moments = run.moments(resolve_targets(battles, listed))
        np.testing.assert_allclose(est.estimate, moments.values, atol=1e-9)
        plain = np.sqrt(np.diag(moments.cov))
        np.testing.assert_allclose(est.se, widening(moments.looseness) * plain, rtol=1e-7)
        assert list(est.labels) == [target.name for target in listed]


def test_infer_is_fit_then_cross_fit():
    case = SMALL_CASES[1]
    _, battles, whole = problem(case)
    mine, _ = both_targets(case[0])
    est = lrbtl.infer(battles, mine, rank=case[1], ridge=0.3, n_folds=FOLDS, rng=9)
    run = cross_fit(whole, n_folds=FOLDS, rng=9)
    moments = run.moments(resolve_targets(battles, mine))
    np.testing.assert_allclose(est.cov[:3, :3], moments.believed()[:3, :3], rtol=1e-10)
    np.testing.assert_allclose(est.estimate[[0, 1, 2, 4]], moments.values[[0, 1, 2, 4]], rtol=1e-12)
    assert est.estimate[3] == pytest.approx(expit(moments.values[3]))
    assert est.info.n_folds == FOLDS and est.info.rank == case[1] and est.info.n_battles == battles.n_battles
    one = lrbtl.infer(battles, mine[0], rank=case[1], ridge=0.3, n_folds=FOLDS, rng=9)
    assert one.estimate[0] == pytest.approx(est.estimate[0], rel=1e-12)


@pytest.mark.parametrize("method", ["efficient", "whitened"])
def test_conjugate_gradients_give_the_same_estimates(method):
    case = SMALL_CASES[2]
    _, battles, whole = problem(case)
    resolved = resolve_targets(battles, both_targets(case[0])[0])
    direct, cg = (cross_fit(whole, method=method, n_folds=FOLDS, solver=s).moments(resolved) for s in ("direct", "cg"))
    np.testing.assert_allclose(cg.values, direct.values, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(cg.cov, direct.cov, rtol=1e-7, atol=1e-9 * direct.cov.max())


def test_families_need_the_direct_solver():
    _, battles, _ = problem(SMALL_CASES[1])
    with pytest.raises(SolverError, match="direct"):
        lrbtl.infer(battles, lrbtl.all_scores(), rank=2, solver="cg", n_folds=FOLDS)


def test_results_do_not_depend_on_threads():
    _, battles, _ = problem(SMALL_CASES[2])
    runs = [lrbtl.infer(battles, lrbtl.all_scores(), rank=2, ridge=0.3, n_folds=2, n_threads=t) for t in (1, 2)]
    np.testing.assert_array_equal(runs[0].estimate, runs[1].estimate)
    np.testing.assert_array_equal(runs[0].se, runs[1].se)


def test_repeats_take_the_median_and_allow_for_the_spread():
    case = SMALL_CASES[1]
    _, battles, whole = problem(case)
    mine = both_targets(case[0])[0][:3]
    options = {"rank": case[1], "ridge": 0.3, "n_folds": FOLDS}
    est = lrbtl.infer(battles, mine, n_repeats=3, rng=2, **options)
    seeds = np.random.default_rng(2).spawn(3)
    runs = [cross_fit(whole, n_folds=FOLDS, rng=seed).moments(resolve_targets(battles, mine)) for seed in seeds]
    values = np.array([run.values for run in runs])
    middle = np.median(values, axis=0)
    variances = np.array([widening(run.looseness) ** 2 * np.diag(run.cov) for run in runs])
    np.testing.assert_allclose(est.estimate, middle, rtol=1e-10)
    np.testing.assert_allclose(est.se**2, np.median(variances + (values - middle) ** 2, axis=0), rtol=1e-10)
    family = lrbtl.infer(battles, lrbtl.all_scores(), n_repeats=3, rng=2, **options)
    where = list(family.labels).index("score(model_1, 3)")
    assert family.estimate[where] == pytest.approx(est.estimate[0], rel=1e-8)
    assert family.se[where] == pytest.approx(est.se[0], rel=1e-7)
    assert np.linalg.eigvalsh(est.cov).min() > 0


def thin(battles, contexts):
    """Battles in which some contexts keep only the pair (0, 1)."""
    cells = battles.cells
    keep = ~np.isin(cells.context, contexts) | ((cells.a == 0) & (cells.b == 1))
    names = np.array(["code", "law", "math", "poetry", "trivia"])
    models = np.array(["ann", "bob", "cat", "dan", "eve", "fay"])
    return lrbtl.Battles.from_arrays(
        models[cells.a[keep]],
        models[cells.b[keep]],
        cells.y[keep],
        (names[cells.context[keep]],),
        counts=cells.count[keep],
    )


@pytest.fixture(scope="module")
def thin_battles():
    return thin(simulated((6, 5), 2, 3000)[1], [0, 3])


without_and_with_ridge = pytest.mark.parametrize("ridge", [0.0, "auto"])


@without_and_with_ridge
@pytest.mark.parametrize("method", ["efficient", "mle"])
@pytest.mark.parametrize("context", ["code", "poetry"])
def test_what_no_battle_informs_is_named(thin_battles, context, method, ridge):
    with pytest.raises(SingularInformationError, match=rf"score\(cat, {context}\).*context {context}\."):
        lrbtl.infer(thin_battles, lrbtl.score("cat", context), rank=2, n_folds=FOLDS, method=method, ridge=ridge)


@without_and_with_ridge
@pytest.mark.parametrize("method", ["efficient", "mle"])
def test_other_targets_still_work(thin_battles, method, ridge):
    targets = [lrbtl.score("cat", "law"), lrbtl.gap("ann", "bob", "code")]
    est = lrbtl.infer(thin_battles, targets, rank=2, n_folds=FOLDS, method=method, ridge=ridge)
    assert np.all(est.se < 2)


@pytest.mark.parametrize("family", [lrbtl.all_scores(), lrbtl.all_gaps()], ids=["scores", "gaps"])
def test_families_refuse_what_no_battle_informs(thin_battles, family):
    with pytest.raises(SingularInformationError, match=r"all (scores|gaps).*context (code|poetry)"):
        lrbtl.infer(thin_battles, family, rank=2, n_folds=FOLDS)


@pytest.mark.filterwarnings("ignore::lrbtl.errors.RankCollapseWarning")
@pytest.mark.parametrize("method", ["efficient", "whitened", "mle"])
def test_votes_that_favour_nobody_are_named(method):
    battles = lrbtl.Battles.from_arrays([0, 0, 1], [1, 2, 2], [0.5, 0.5, 0.5], counts=[30, 20, 20])
    with pytest.raises(SingularInformationError, match="favour no model"):
        lrbtl.infer(battles, lrbtl.gap(0, 1), rank=1, n_folds=5, method=method)
    assert lrbtl.infer(battles, lrbtl.gap(0, 1), method="naive").estimate[0] == pytest.approx(0.0, abs=1e-9)


def test_models_that_never_meet_are_named():
    a, b = np.array([0, 2]), np.array([1, 3])
    battles = lrbtl.Battles.from_arrays(np.tile(a, 2), np.tile(b, 2), [1, 1, 0, 0], counts=[60, 50, 40, 30])
    est = lrbtl.infer(battles, lrbtl.gap(0, 1), n_folds=FOLDS, rank=1)
    assert est.estimate[0] == pytest.approx(logit(0.6), abs=0.2)
    with pytest.raises(SingularInformationError, match=r"gap\(0, 2\).*model \d"):
        lrbtl.infer(battles, lrbtl.gap(0, 2), n_folds=FOLDS, rank=1)


def test_model_based_errors_are_the_inverse_information():
    case = SMALL_CASES[1]
    _, battles, whole = problem(case)
    mine, theirs = both_targets(case[0])
    rows = oracle_rows(battles)

    def expected(scores):
        G = battles.n_battles * oracle.gram_empirical(scores, rows)
        inverse = oracle.invert_on_tangent(G, oracle.tangent_projector(scores, case[1]))
        return [np.sqrt(g @ inverse @ g) for g in (gradient(scores).ravel() for _, gradient in theirs)]

    full = plain_run(whole, "efficient", None, se="full").moments(resolve_targets(battles, mine))
    np.testing.assert_allclose(full.bound, expected(whole.scores), rtol=1e-8)
    whitened = cross_fit(whole, method="whitened", sampling=lrbtl.UniformSampling(), n_folds=FOLDS)
    at = whitened.reference.space.point.dense()
    np.testing.assert_allclose(whitened.moments(resolve_targets(battles, mine)).bound, expected(at), rtol=1e-8)


def test_near_separation_the_model_is_trusted():
    battles = lrbtl.Battles.from_arrays([0, 0, 1, 1], [1, 1, 2, 2], [1, 0, 1, 0], counts=[400, 2, 300, 200])
    whole = fit(battles, 1, ridge=0.0)
    run = cross_fit(whole, n_folds=2)
    moments = run.moments(resolve_targets(battles, [lrbtl.gap(0, 1), lrbtl.gap(1, 2)]))
    assert np.all(np.diag(moments.believed()) >= np.diag(moments.cov))


def test_recovers_the_truth_within_its_errors():
    truth, battles = simulated((12, 6), 2, 20_000)
    for method in ("efficient", "whitened", "mle", "naive"):
        est = lrbtl.infer(battles, lrbtl.all_scores(), rank=2, n_folds=FOLDS, method=method)
        z = (est.estimate - truth.ravel()) / est.se
        assert np.mean(np.abs(z) < 1.96) > 0.8 and np.abs(z).max() < 5


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"method": "magic"}, MethodError, "'efficient', 'whitened'"),
        ({"se": "none"}, MethodError, "'crossfit', 'full'"),
        ({"solver": "lu"}, MethodError, "'direct', 'cg'"),
        ({"n_repeats": 0}, MethodError, "at least 1"),
        ({"n_repeats": "a"}, MethodError, "n_repeats='a'"),
        ({"n_threads": None}, MethodError, "n_threads=None"),
        ({"n_folds": -3, "method": "mle"}, FoldError, "at least 2"),
        ({"n_folds": 1}, FoldError, "at least 2"),
        ({"n_folds": 10**6}, FoldError, "fewer folds"),
    ],
)
def test_bad_options_are_named(options, error, words):
    _, battles, _ = problem(SMALL_CASES[1])
    with pytest.raises(error, match=words):
        lrbtl.infer(battles, lrbtl.score(0), rank=1, **options)


@pytest.mark.parametrize("targets", [[], ["gpt"], [lrbtl.score(0), 3]])
def test_what_is_no_target_is_named(targets):
    _, battles, _ = problem(SMALL_CASES[1])
    with pytest.raises(TargetError, match="targets"):
        lrbtl.infer(battles, targets, rank=1, n_folds=2)


def test_a_context_with_one_battle_cannot_be_folded():
    _, battles, _ = problem(SMALL_CASES[1])
    cells = battles.cells
    keep = cells.context != 2
    keep[np.argmin(keep)] = True
    lone = rebuilt(battles, keep, counts=np.where(cells.context == 2, 1, cells.count)[keep])
    with pytest.raises(FoldError, match=r"single battle \(.*2"):
        lrbtl.infer(lone, lrbtl.score(0, 0), rank=1, n_folds=2)


@pytest.mark.parametrize("method", ["whitened", "efficient"])
def test_a_law_that_makes_an_observed_battle_impossible_is_refused(method):
    _, battles, _ = problem(SMALL_CASES[0])
    law = lrbtl.ProductSampling([0.5, 0.3, 0.2, 0.0, 0.0])
    with pytest.raises(SamplingError, match="zero"):
        lrbtl.infer(battles, lrbtl.score(0), rank=1, method=method, sampling=law)


def test_progress_says_one_line_per_fold():
    _, battles, _ = problem(SMALL_CASES[1])
    lines = []
    lrbtl.infer(battles, lrbtl.score(0), rank=1, n_folds=3, progress=lines.append)
    assert lines[-3:] == ["fold 1 of 3", "fold 2 of 3", "fold 3 of 3"]


def test_design_counts_all_battles():
    _, battles, _ = problem(SMALL_CASES[2])
    assert Design.of(battles).count.sum() == battles.n_battles


def test_targets_that_run_to_infinity_are_nan_and_named():
    battles = lrbtl.Battles.from_arrays([0, 0, 1] * 2, [1, 2, 2] * 2, [1] * 6, [[0, 0, 0, 1, 1, 1]], counts=[20] * 6)
    with pytest.warns(SeparationWarning, match=r"gap\(0, 2\)"):
        est = lrbtl.infer(battles, [lrbtl.gap(0, 2), lrbtl.win_probability(0, 1, 0)], rank=1)
    assert np.isnan(est.estimate).all() and np.isnan(est.se).all()


def test_the_summary_names_the_law():
    battles = simulated(*SMALL_CASES[1], 500)[1]
    est = lrbtl.infer(battles, lrbtl.score(0), rank=1, n_folds=2, sampling=lrbtl.UniformSampling())
    assert est.info.sampling == "UniformSampling()" and "UniformSampling()" in est.summary()


def test_sampling_that_is_no_law():
    battles = simulated(*SMALL_CASES[1], 500)[1]
    with pytest.raises(SamplingError, match="UniformSampling"):
        lrbtl.infer(battles, lrbtl.score(0), rank=1, sampling="uniform")


def test_soft_votes_do_not_look_like_separation():
    """Votes near their probabilities vary little: the sandwich is right and stays."""
    rng = np.random.default_rng(0)
    truth = lrbtl.simulate_scores((10, 4), 1, scale=1.5, rng=1)
    a, u = rng.integers(10, size=4000), rng.integers(4, size=4000)
    b = (a + rng.integers(1, 10, size=4000)) % 10
    y = np.clip(expit(truth[a, u] - truth[b, u]) + rng.normal(0, 0.05, 4000), 0, 1)
    battles = lrbtl.Battles.from_arrays(a, b, np.round(y, 3), [u], n_models=10, n_levels=[4])
    targets = [lrbtl.score(i, 0) for i in range(10)]
    est = lrbtl.infer(battles, targets, rank=1)
    family = lrbtl.infer(battles, lrbtl.all_scores(), rank=1)
    assert np.all(est.se < 0.5 * est.bound)
    np.testing.assert_allclose(family.se[::4], est.se, rtol=1e-8)


def test_large_targets_are_not_taken_for_infinite_ones():
    battles = simulated(*SMALL_CASES[1], 2000)[1]
    est = lrbtl.infer(battles, [lrbtl.weighted_score(0, np.full(battles.n_contexts, 100.0))], rank=1)
    assert np.isfinite(est.estimate).all() and np.isfinite(est.se).all()


@all_cases
@pytest.mark.parametrize("method", ["efficient", "whitened", "mle"])
def test_mean_scores_of_many_boards_are_those_of_listed_targets(case, method):
    _, battles, whole = problem(case)
    run = cross_fit(whole, method=method, n_folds=FOLDS)
    weights = np.vstack([np.random.default_rng(0).dirichlet(np.ones(battles.n_contexts)), np.eye(battles.n_contexts)])
    for row, found in zip(weights, run.mean_moments(weights), strict=True):
        listed = run.moments(linear_targets(range(battles.shape[0]), row))
        np.testing.assert_allclose(found.values, listed.values, atol=1e-9)
        np.testing.assert_allclose(found.cov, listed.cov, rtol=1e-8, atol=1e-9 * np.abs(listed.cov).max())
        np.testing.assert_allclose(found.bound, listed.bound, rtol=1e-8)
        np.testing.assert_allclose(found.looseness, listed.looseness, rtol=1e-6, atol=1e-9)


def test_naive_variances_are_those_of_listed_targets():
    battles, whole = problem(SMALL_CASES[1])[1:]
    variances = naive_variances(whole)
    for u, row in enumerate(np.eye(battles.n_contexts)):
        targets = linear_targets(range(battles.shape[0]), row)
        errors = naive_errors(whole, targets, [target.terms for target in targets])
        np.testing.assert_allclose(variances[u], errors**2, rtol=1e-9)
