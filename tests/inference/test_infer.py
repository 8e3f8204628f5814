"""What `infer` gives: methods, families, repeats, solvers, threads."""

import inspect
import itertools

import numpy as np
import pytest
from scipy.special import expit, logit

import lrbtl
import oracle
from inference_cases import (
    FOLDS,
    all_cases,
    both_targets,
    cases,
    problem,
)
from lrbtl.errors import (
    FoldError,
    MethodError,
    SamplingError,
    SeparationWarning,
    SingularInformationError,
    SolverError,
    TargetError,
)
from lrbtl.fitting.design import Design
from lrbtl.fitting.fit import fit
from lrbtl.inference.analysis import Analysis, analyse_fit
from lrbtl.inference.targets import resolve_targets
from lrbtl.methods.base import Options
from lrbtl.methods.targets import resolved_score
from problems import SMALL_CASES, oracle_rows, rebuilt, simulated

pytestmark = [  # formulas are checked on battles few enough for dense matrices
    pytest.mark.filterwarnings("ignore::lrbtl.errors.WeakSignalWarning"),
    pytest.mark.filterwarnings("ignore::lrbtl.errors.ThinContextWarning"),
]


@cases
def test_naive_moments_are_separate_fits(case):
    shape, _ = case
    _, battles, _ = problem(case)
    rows = oracle_rows(battles)
    contexts = oracle.contexts(shape)
    separate = [oracle.separate_btl(rows, shape[0], u, hc3=True) for u in contexts]
    targets = [lrbtl.gap(0, 2, weights="equal"), lrbtl.score(1, weights="equal")]
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


def run_of(whole, method="efficient", **options):
    """The method run on the battles of a fit."""
    return analyse_fit(whole, Options(**{"n_folds": FOLDS, **options}), method=method).run


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
    run = run_of(whole, method, se=se)
    D = battles.n_contexts
    scores = [lrbtl.score(a, named(battles, u)) for a in battles.models for u in range(D)]
    pairs = itertools.combinations(battles.models, 2)
    gaps = [lrbtl.gap(a, b, named(battles, u)) for a, b in pairs for u in range(D)]
    for family, listed in ((lrbtl.all_scores(), scores), (lrbtl.all_gaps(), gaps)):
        est = Analysis(battles, method, run).estimate(family)
        moments = run.moments(resolve_targets(battles, listed))
        np.testing.assert_allclose(est.estimate, moments.values, atol=1e-9)
        np.testing.assert_allclose(est.se, moments.se, rtol=1e-7)
        assert list(est.labels) == [target.name for target in listed]


def test_infer_is_fit_then_cross_fit():
    case = SMALL_CASES[1]
    _, battles, whole = problem(case)
    mine, _ = both_targets(case[0])
    options = {"rank": case[1], "ridge": 0.3, "n_folds": FOLDS, "method": "efficient", "rng": 9}
    est = lrbtl.infer(battles, mine, **options)
    run = run_of(whole, rng=9)
    moments = run.moments(resolve_targets(battles, mine))
    np.testing.assert_allclose(est.cov[:3, :3], moments.cov[:3, :3], rtol=1e-10)
    np.testing.assert_allclose(est.estimate[[0, 1, 2, 4]], moments.values[[0, 1, 2, 4]], rtol=1e-12)
    assert est.estimate[3] == pytest.approx(expit(moments.values[3]))
    assert est.info.n_folds == FOLDS and est.info.rank == case[1] and est.info.n_battles == battles.n_battles
    one = lrbtl.infer(battles, mine[0], **options)
    assert one.estimate[0] == pytest.approx(est.estimate[0], rel=1e-12)


@pytest.mark.parametrize("method", ["efficient", "whitened"])
def test_conjugate_gradients_give_the_same_estimates(method):
    case = SMALL_CASES[2]
    _, battles, whole = problem(case)
    resolved = resolve_targets(battles, both_targets(case[0])[0])
    direct, cg = (run_of(whole, method, solver=s).moments(resolved) for s in ("direct", "cg"))
    np.testing.assert_allclose(cg.values, direct.values, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(cg.cov, direct.cov, rtol=1e-7, atol=1e-9 * direct.cov.max())


@pytest.mark.parametrize("method", ["efficient", "hierarchical"])
def test_results_do_not_depend_on_threads(method):
    _, battles, _ = problem(SMALL_CASES[2])
    options = {"rank": 2, "ridge": 0.3, "n_folds": 2, "method": method}
    runs = [lrbtl.infer(battles, lrbtl.all_scores(), n_threads=t, **options) for t in (1, 2)]
    np.testing.assert_array_equal(runs[0].estimate, runs[1].estimate)
    np.testing.assert_array_equal(runs[0].se, runs[1].se)


def test_near_separation_the_model_is_trusted():
    battles = lrbtl.Battles.from_arrays([0, 0, 1, 1], [1, 1, 2, 2], [1, 0, 1, 0], counts=[400, 2, 300, 200])
    whole = fit(battles, 1, ridge=0.0)
    run = run_of(whole, n_folds=2)
    targets = resolve_targets(battles, [lrbtl.gap(0, 1), lrbtl.gap(1, 2)])
    assert np.all(run.moments(targets).se ** 2 >= np.diag(run.sandwich(targets).cov))


def test_recovers_the_truth_within_its_errors():
    truth, battles = simulated((12, 6), 2, 20_000)
    for method in ("hierarchical", "efficient", "whitened", "mle", "naive"):
        est = lrbtl.infer(battles, lrbtl.all_scores(), rank=2, n_folds=FOLDS, method=method)
        z = (est.estimate - truth.ravel()) / est.se
        assert np.mean(np.abs(z) < 1.96) > 0.8 and np.abs(z).max() < 5


def test_progress_says_one_line_per_fold():
    _, battles, _ = problem(SMALL_CASES[1])
    lines = []
    lrbtl.infer(battles, lrbtl.score(0), rank=1, n_folds=3, method="efficient", progress=lines.append)
    assert lines[-3:] == ["fold 1 of 3", "fold 2 of 3", "fold 3 of 3"]


def test_design_counts_all_battles():
    _, battles, _ = problem(SMALL_CASES[2])
    assert Design.of(battles).count.sum() == battles.n_battles


def test_the_summary_names_the_law():
    battles = simulated(*SMALL_CASES[1], 500)[1]
    law = lrbtl.UniformSampling()
    est = lrbtl.infer(battles, lrbtl.score(0), rank=1, n_folds=2, method="efficient", sampling=law)
    assert est.info.sampling == "UniformSampling()" and "UniformSampling()" in est.summary()


def test_soft_votes_do_not_look_like_separation():
    """Votes near their probabilities vary little: the sandwich is right and stays."""
    rng = np.random.default_rng(0)
    truth = lrbtl.simulate_scores((10, 4), 1, scale=1.5, rng=1)
    a, u = rng.integers(10, size=4000), rng.integers(4, size=4000)
    b = (a + rng.integers(1, 10, size=4000)) % 10
    y = np.clip(expit(truth[a, u] - truth[b, u]) + rng.normal(0, 0.05, 4000), 0, 1)
    battles = lrbtl.Battles.from_arrays(a, b, np.round(y, 3), [u], n_models=10, n_levels=[4])
    targets = [lrbtl.score(i, 0) for i in range(10)]
    est = lrbtl.infer(battles, targets, rank=1, method="efficient")
    family = lrbtl.infer(battles, lrbtl.all_scores(), rank=1, method="efficient")
    assert np.all(est.se < 0.5 * est.bound)
    np.testing.assert_allclose(family.se[::4], est.se, rtol=1e-8)


def test_naive_errors_are_those_of_a_context_by_itself():
    battles, whole = problem(SMALL_CASES[1])[1:]
    run, rows = run_of(whole, "mle"), oracle_rows(battles)
    for u, row in enumerate(np.eye(battles.n_contexts)):
        errors = run.separate_errors.errors([resolved_score(a, row) for a in range(battles.shape[0])])
        np.testing.assert_allclose(run.separate_errors.board_errors(row, None), errors, rtol=1e-9)
        here = [each for each in rows if each[0] == (u,)]
        gaps = np.array([np.eye(battles.shape[0])[a] - np.eye(battles.shape[0])[b] for _, a, b, *_ in here])
        eta = gaps @ whole.scores[:, u]
        y, count = (np.array([each[k] for each in here]) for k in (3, 4))
        binomial = count * expit(eta) * expit(-eta)
        dispersion = 1 - count @ (y * (1 - y)) / binomial.sum()  # of ties and soft votes
        covariance = dispersion * np.linalg.pinv(gaps.T @ (binomial[:, None] * gaps))
        np.testing.assert_allclose(errors**2, np.diag(covariance), rtol=1e-8)


def test_naive_errors_where_a_model_is_absent():
    pairs = [("a", "b", "x"), ("a", "b", "y"), ("b", "c", "y"), ("a", "c", "y")]
    columns = [[row[k] for row in pairs for _ in range(60)] for k in range(3)]
    battles = lrbtl.Battles.from_arrays(columns[0], columns[1], [1, 0, 1] * 80, [columns[2]])
    run, among = lrbtl.analyse(battles).run, np.array([True, True, False])
    here = np.array([1.0, 0.0])
    inside = run.separate_errors.errors([resolved_score(a, here, among) for a in range(2)])
    gap = run.scores()[0, 0] - run.scores()[1, 0]
    np.testing.assert_allclose(inside, 0.5 / np.sqrt(60 * expit(gap) * expit(-gap)), rtol=1e-9)
    assert np.isinf(run.separate_errors.errors([resolved_score(2, here, among)])).all()
    assert np.isinf(run.separate_errors.errors([resolved_score(0, here)])).all()
    np.testing.assert_allclose(run.separate_errors.board_errors(here, among)[:2], inside, rtol=1e-12)
    assert np.isinf(run.separate_errors.board_errors(here, among)[2])


# ------------------------------------------------------------------------------
# What inference refuses or leaves without an answer, by name.
# ------------------------------------------------------------------------------


def test_families_need_the_direct_solver():
    _, battles, _ = problem(SMALL_CASES[1])
    with pytest.raises(SolverError, match="direct"):
        lrbtl.infer(battles, lrbtl.all_scores(), rank=2, solver="cg", n_folds=FOLDS, method="efficient")


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
        lrbtl.infer(thin_battles, family, rank=2, n_folds=FOLDS, method="efficient")
    found = lrbtl.infer(thin_battles, family, rank=2)
    assert np.isfinite(found.estimate).all() and (found.se > 0).all()


@pytest.mark.filterwarnings("ignore::lrbtl.errors.RankCollapseWarning")
@pytest.mark.parametrize("method", ["efficient", "whitened", "mle"])
def test_votes_that_favour_nobody_are_named(method):
    battles = lrbtl.Battles.from_arrays([0, 0, 1], [1, 2, 2], [0.5, 0.5, 0.5], counts=[30, 20, 20])
    with pytest.raises(SingularInformationError, match="favour no model"):
        lrbtl.infer(battles, lrbtl.gap(0, 1), rank=1, n_folds=5, method=method, ridge=0.1)
    assert lrbtl.infer(battles, lrbtl.gap(0, 1), method="naive").estimate[0] == pytest.approx(0.0, abs=1e-9)


def test_models_that_never_meet_are_named():
    a, b = np.array([0, 2]), np.array([1, 3])
    battles = lrbtl.Battles.from_arrays(np.tile(a, 2), np.tile(b, 2), [1, 1, 0, 0], counts=[60, 50, 40, 30])
    options = {"n_folds": FOLDS, "rank": 1, "ridge": 0.1, "method": "efficient"}
    est = lrbtl.infer(battles, lrbtl.gap(0, 1), **options)
    assert est.estimate[0] == pytest.approx(logit(0.6), abs=0.2)
    with pytest.raises(SingularInformationError, match=r"gap\(0, 2\).*model \d.*hierarchical"):
        lrbtl.infer(battles, lrbtl.gap(0, 2), **options)
    with pytest.warns(SeparationWarning, match=r"gap\(0, 2\)"):
        assert np.isnan(lrbtl.infer(battles, lrbtl.gap(0, 2), method="efficient").estimate[0])


@pytest.mark.parametrize("method", ["efficient", "mle"])
def test_battles_without_contexts_are_a_plain_bradley_terry_fit(method):
    _, battles, _ = problem(SMALL_CASES[0])
    plain, naive = (lrbtl.infer(battles, lrbtl.all_gaps(), method=each) for each in (method, "naive"))
    np.testing.assert_array_equal(plain.estimate, naive.estimate)
    np.testing.assert_array_equal(plain.se, naive.se)
    assert plain.info.method == "bradley-terry" and naive.info.method == "naive"


def test_ties_make_plain_errors_smaller_as_they_should():
    """Half of the votes are ties: the errors of a Bradley-Terry fit are those of its estimates, over many logs."""
    rng = np.random.default_rng(3)
    truth = np.array([0.6, 0.0, -0.6])
    a, b = np.triu_indices(3, 1)
    p = expit(truth[a] - truth[b])
    found = []
    for _ in range(200):
        wins = rng.binomial(100, p)
        counts = np.concatenate([wins, 100 - wins, np.full(3, 100)])
        y = np.repeat([1.0, 0.0, 0.5], 3)
        battles = lrbtl.Battles.from_arrays(np.tile(a, 3), np.tile(b, 3), y, counts=counts)
        est = lrbtl.infer(battles, lrbtl.gap(0, 2))
        found.append((est.estimate[0], est.se[0]))
    values, errors = np.array(found).T
    assert errors.mean() / values.std() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"method": "magic"}, MethodError, "'efficient', 'whitened'"),
        ({"se": "none"}, MethodError, "'crossfit', 'full'"),
        ({"solver": "lu"}, MethodError, "'direct', 'cg'"),
        ({"n_threads": 120_000}, MethodError, "give at most 1024"),
        ({"n_folds": -3, "method": "mle"}, FoldError, "at least 2"),
        ({"n_folds": 1}, FoldError, "at least 2"),
        ({"n_folds": 10**6, "method": "efficient"}, FoldError, "fewer folds"),
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
        lrbtl.infer(lone, lrbtl.score(0, 0), rank=1, n_folds=2, method="efficient")
    assert np.isfinite(lrbtl.infer(lone, lrbtl.all_scores(), rank=1).se).all()


@pytest.mark.parametrize("method", ["whitened", "efficient"])
def test_a_law_that_makes_an_observed_battle_impossible_is_refused(method):
    _, battles, _ = problem(SMALL_CASES[0])
    law = lrbtl.ProductSampling([0.5, 0.3, 0.2, 0.0, 0.0])
    with pytest.raises(SamplingError, match="zero"):
        lrbtl.infer(battles, lrbtl.score(0), rank=1, method=method, sampling=law)


def test_targets_that_run_to_infinity_are_nan_and_named():
    battles = lrbtl.Battles.from_arrays([0, 0, 1] * 2, [1, 2, 2] * 2, [1] * 6, [[0, 0, 0, 1, 1, 1]], counts=[20] * 6)
    targets = [lrbtl.gap(0, 2), lrbtl.win_probability(0, 1, 0)]
    with pytest.warns(SeparationWarning, match=r"gap\(0, 2\)"):
        est = lrbtl.infer(battles, targets, rank=1, method="efficient")
    assert np.isnan(est.estimate).all() and np.isnan(est.se).all()
    est = lrbtl.infer(battles, targets, rank=1)
    assert est.estimate[0] > 0 and 0.5 < est.estimate[1] < 1 and np.isfinite(est.se).all()


def test_sampling_that_is_no_law():
    battles = simulated(*SMALL_CASES[1], 500)[1]
    with pytest.raises(SamplingError, match="UniformSampling"):
        lrbtl.infer(battles, lrbtl.score(0), rank=1, method="efficient", sampling="uniform")


def test_large_targets_are_not_taken_for_infinite_ones():
    battles = simulated(*SMALL_CASES[1], 2000)[1]
    est = lrbtl.infer(battles, [lrbtl.weighted_score(0, np.full(battles.n_contexts, 100.0))], rank=1)
    assert np.isfinite(est.estimate).all() and np.isfinite(est.se).all()


def test_options_without_effect_are_noted_and_all_are_named():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((5, 3), 1, scale=1, rng=0), 900, rng=1)
    est = lrbtl.infer(battles, lrbtl.score(0), n_folds=5, ridge=np.array([0.1, 0.2]), solver="auto", sampling=None)
    (note,) = [text for text in est.info.notes if "no effect" in text]
    assert note == "n_folds=5, ridge=array([0.1, 0.2]) have no effect on the hierarchical method"
    board = lrbtl.leaderboard(battles, se="full")
    assert "se='full' has no effect on the hierarchical method" in board.summary()
    plain = lrbtl.infer(battles, lrbtl.score(0), n_folds=5, method="efficient", rank=1)
    assert not any("no effect" in text for text in plain.info.notes)
    for function in (lrbtl.infer, lrbtl.analyse, lrbtl.leaderboard, lrbtl.compare, lrbtl.win_matrix):
        named = inspect.signature(function).parameters
        assert {"method", "rank", "n_folds", "link", "rng"} <= set(named) and "options" not in named


def test_every_method_tells_which_options_it_does_not_use(arena):
    told: dict[str, dict[str, object]] = {"naive": {"rank": 2, "se": "full"}, "mle": {"n_folds": 5}}
    for method, options in told.items():
        (note,) = lrbtl.analyse(arena, method=method, **options).notes
        assert all(f"{name}={value!r}" in note for name, value in options.items()) and f"the {method} method" in note
    words = ["left", "right", "both_bad", "tie"] * 30
    frame = {"model_a": ["x", "y", "z"] * 40, "model_b": ["y", "z", "x"] * 40, "winner": words}
    bad = lrbtl.Battles.from_frame(frame, both_bad="outcome")
    assert lrbtl.analyse(bad, link="probit").notes == ("link='probit' has no effect on the grounded method",)
