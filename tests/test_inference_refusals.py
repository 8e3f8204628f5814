"""What inference refuses or leaves without an answer, by name."""

import numpy as np
import pytest
from scipy.special import logit

import lrbtl
from inference_cases import FOLDS, problem
from lrbtl.errors import (
    FoldError,
    MethodError,
    SamplingError,
    SeparationWarning,
    SingularInformationError,
    SolverError,
    TargetError,
)
from problems import SMALL_CASES, rebuilt, simulated

pytestmark = [  # formulas are checked on battles few enough for dense matrices
    pytest.mark.filterwarnings("ignore::lrbtl.errors.WeakSignalWarning"),
    pytest.mark.filterwarnings("ignore::lrbtl.errors.ThinContextWarning"),
]


def test_families_need_the_direct_solver():
    _, battles, _ = problem(SMALL_CASES[1])
    with pytest.raises(SolverError, match="direct"):
        lrbtl.infer(battles, lrbtl.all_scores(), rank=2, solver="cg", n_folds=FOLDS)


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


def test_targets_that_run_to_infinity_are_nan_and_named():
    battles = lrbtl.Battles.from_arrays([0, 0, 1] * 2, [1, 2, 2] * 2, [1] * 6, [[0, 0, 0, 1, 1, 1]], counts=[20] * 6)
    with pytest.warns(SeparationWarning, match=r"gap\(0, 2\)"):
        est = lrbtl.infer(battles, [lrbtl.gap(0, 2), lrbtl.win_probability(0, 1, 0)], rank=1)
    assert np.isnan(est.estimate).all() and np.isnan(est.se).all()


def test_sampling_that_is_no_law():
    battles = simulated(*SMALL_CASES[1], 500)[1]
    with pytest.raises(SamplingError, match="UniformSampling"):
        lrbtl.infer(battles, lrbtl.score(0), rank=1, sampling="uniform")


def test_large_targets_are_not_taken_for_infinite_ones():
    battles = simulated(*SMALL_CASES[1], 2000)[1]
    est = lrbtl.infer(battles, [lrbtl.weighted_score(0, np.full(battles.n_contexts, 100.0))], rank=1)
    assert np.isfinite(est.estimate).all() and np.isfinite(est.se).all()
