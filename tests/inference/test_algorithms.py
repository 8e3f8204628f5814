"""Algorithms 1 and 2 as printed, against a dense re-derivation with matrices over all entries."""

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
import oracle
from inference_cases import uneven_law
from lrbtl.data.folds import fold_counts
from lrbtl.methods.cross_fit import OneStepRun
from problems import law_dict, oracle_rows, simulated

pytestmark = pytest.mark.filterwarnings("ignore::lrbtl.errors.UnevenSamplingWarning")

CASES = [((5, 4), (2, 2)), ((7, 3), (2, 2)), ((4, 3, 3), (2, 2, 2)), ((5, 4, 3), (3, 2, 2))]
LAWS = ["observed", "uniform", "known", "estimated"]


def near(found, expected):
    """Agreement to 1e-10 of the largest number."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * max(np.abs(expected).max(), 1.0))


def votes_of(shape, rank):
    law = uneven_law(shape)
    return simulated(shape, rank, 400, scale=1.2, sampling=law)[1]


def sampling_of(name, battles):
    return {
        "observed": None,
        "uniform": lrbtl.UniformSampling(),
        "known": uneven_law(battles.shape),
        "estimated": lrbtl.ProductSampling.estimate(battles),
    }[name]


def targets_of(shape):
    """Linear and nonlinear targets, and the same written out on dense scores."""
    where = tuple(d - 1 for d in shape[1:])
    context = where[0] if len(where) == 1 else where
    entry, gap = np.zeros(shape), np.zeros(shape)
    entry[(1, *where)] = 1.0
    gap[(0, *where)], gap[(2, *where)] = 1.0, -1.0
    gamma = np.random.default_rng(3).normal(size=shape)

    def win(T):
        return float(expit(np.sum(gap * T)))

    mine = [
        lrbtl.score(1, context),
        lrbtl.gap(0, 2, context),
        lrbtl.linear(gamma, label="any"),
        lrbtl.win_probability(0, 2, context),
        lrbtl.functional(lambda T: float(np.sum(T**3)), lambda T: 3 * T**2, label="cubes"),
    ]
    dense = [
        oracle.linear_target(entry),
        oracle.linear_target(gap),
        oracle.linear_target(gamma),
        (win, lambda T: win(T) * (1 - win(T)) * gap),
        (lambda T: float(np.sum(T**3)), lambda T: 3 * T**2),
    ]
    return mine, dense


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "x".join(map(str, case[0])))
def test_both_algorithms_are_the_dense_derivation(case, whiten, law):
    shape, rank = case
    battles = votes_of(shape, rank)
    folds = fold_counts(battles.cells, 3, 7)
    rng = np.random.default_rng(1)
    fits = [oracle.random_scores(shape, rank, rng, scale=1.3) for _ in folds]
    sampling = sampling_of(law, battles)
    mine, dense = targets_of(shape)
    found = lrbtl.one_step(battles, mine, rank=rank, whiten=whiten, initial=fits, folds=folds, sampling=sampling)
    rows = oracle_rows(battles)
    used = None if sampling is None else law_dict(sampling, shape)
    options = (
        {"method": "whitened", "weights": None if used is None else oracle.ipw_weights(rows, used)}
        if whiten
        else {"method": "efficient", "law": used}
    )
    expected = oracle.one_step(fits, folds.astype(float), rows, dense, rank, **options)
    n = battles.n_battles
    near(found.estimate, expected.estimate)
    near(found.variance, n * np.diag(expected.cov))
    near(found.cov * n, expected.cov * n)
    near(found.se, expected.se)
    near(found.influence, expected.phi[found.fold, found.cell])
    near(found.largest, np.abs(expected.phi).max(axis=(0, 1)))
    np.testing.assert_array_equal(found.count, folds[found.fold, found.cell])
    np.testing.assert_allclose(found.initial, fits, atol=1e-12)
    for k, fit in enumerate(fits):
        training = oracle.without_fold(rows, folds[k].astype(float))
        law_of_direction = None if whiten else used
        directions = oracle.directions(fit, training, dense, rank, options["method"], law_of_direction)
        near(found.directions[k], np.stack(directions))
        near(found.plug_in[k], [value(fit) for value, _ in dense])
        share = folds[k] / folds[k].sum()
        near(found.fold_estimates[k], found.plug_in[k] + share @ expected.phi[k])


def test_what_is_printed_follows_from_influence_values():
    battles = votes_of((6, 5), (2, 2))
    found = lrbtl.one_step(battles, [lrbtl.gap(0, 1, 2), lrbtl.win_probability(0, 1, 2)], rank=2)
    phi = found.per_battle()
    assert phi.shape == (battles.n_battles, 2)
    near(found.variance, np.mean(phi**2, axis=0))
    share = found.fold_sizes / found.fold_sizes.sum()
    near(found.estimate, share @ found.plug_in + phi.mean(axis=0))
    assert len(found.fold_sizes) == 6 and found.fold_sizes.sum() == battles.n_battles
    np.testing.assert_allclose(found.initial.sum(axis=1), 0, atol=1e-10)
    text = str(found)
    assert "Algorithm 1" in text and "gap" in text and "correction" in text
    folds = found.fold_columns()
    near(np.reshape(folds["psi_k"], (2, 6)).T, found.fold_estimates)
    near(share @ np.reshape(folds["variance"], (2, 6)).T, found.variance)
    near(np.reshape(folds["|H_k|"], (2, 6)).T, np.abs(found.directions).max(axis=(2, 3)))
    near(folds["|T_k|"][:6], np.abs(found.initial).max(axis=(1, 2)))
    near(np.reshape(folds["|phi|"], (2, 6)).max(axis=1), found.largest)
    for name in ("psi_k", "|T_k|", "|H_k|", "|phi|"):
        assert name in text and f"{folds[name][-1]:.4g}" in text
    assert found.to_frame("pandas").shape == (2, 8)
    assert found.conf_int().shape == (2, 2)
    estimate = found.to_estimate()
    near(estimate.se, found.se)
    assert np.all(np.diff(estimate.conf_int(kind="bernstein")) > np.diff(estimate.conf_int()))


def test_initial_estimates_come_from_the_other_folds():
    battles = votes_of((6, 5), (2, 2))
    seen = []

    def initial(votes):
        seen.append(votes.n_battles)
        return lrbtl.fit(votes, 2, ridge=0.5)

    found = lrbtl.one_step(battles, lrbtl.gap(0, 1, 2), rank=2, initial=initial, folds=4)
    assert seen == (battles.n_battles - found.fold_sizes).tolist()
    scores = [
        lrbtl.fit(battles.with_counts(battles.cells.count - counts), 2, ridge=0.5).scores
        for counts in (fold_counts(battles.cells, 4, 0))
    ]
    again = lrbtl.one_step(battles, lrbtl.gap(0, 1, 2), rank=2, initial=scores, folds=4)
    np.testing.assert_allclose(again.estimate, found.estimate, atol=1e-9)


@pytest.mark.parametrize("whiten", [False, True])
def test_switched_off_improvements_are_the_plain_algorithms(whiten):
    truth = lrbtl.simulate_scores((12, 8), 2, scale=2, rng=0)
    battles = lrbtl.simulate_battles(truth, 8000, rng=1)
    method = "whitened" if whiten else "efficient"
    law = lrbtl.UniformSampling() if whiten else None
    targets = [lrbtl.gap(0, 1, 2), lrbtl.score(3, 4)]
    analysis = lrbtl.analyse(
        battles, method=method, rank=2, n_folds=5, sampling=law, improvements=lrbtl.Improvements.none()
    )
    folds = fold_counts(battles.cells, 5, 0)
    run = analysis.run
    assert isinstance(run, OneStepRun)
    fits = [step.space.point.dense() for step in run.steps]
    plain = lrbtl.one_step(battles, targets, rank=2, whiten=whiten, initial=fits, folds=folds)
    improved = lrbtl.infer(battles, targets, method=method, rank=2, n_folds=5, sampling=law)
    found = analysis.estimate(targets)
    near(found.estimate, plain.estimate)
    near(found.se, plain.se)
    assert np.abs(improved.se - plain.se).min() > 1e-6
    values, errors = analysis.run.family("scores")
    near(values[3, 4], plain.estimate[1])
    near(errors[3, 4], plain.se[1])


def test_uneven_sampling_is_named_where_the_law_is_taken_as_uniform(recwarn):
    truth = lrbtl.simulate_scores((8, 5), 2, scale=1, rng=0)
    uneven = lrbtl.simulate_battles(truth, 4000, sampling=uneven_law((8, 5)), rng=1)
    gap = lrbtl.gap(0, 1, 2)
    with pytest.warns(lrbtl.errors.UnevenSamplingWarning, match="ProductSampling.estimate"):
        lrbtl.one_step(uneven, gap, rank=2, whiten=True)
    recwarn.clear()
    lrbtl.one_step(uneven, gap, rank=2)
    lrbtl.one_step(uneven, gap, rank=2, whiten=True, sampling=lrbtl.UniformSampling())
    lrbtl.one_step(lrbtl.simulate_battles(truth, 4000, rng=2), gap, rank=2, whiten=True)
    assert not [each for each in recwarn if issubclass(each.category, lrbtl.errors.UnevenSamplingWarning)]


def test_improvements_of_other_methods_are_noted():
    battles = votes_of((6, 5), (2, 2))
    analysis = lrbtl.analyse(battles, method="naive", improvements=lrbtl.Improvements.none())
    assert any("improvements" in note for note in analysis.provenance.notes)


def test_bad_input_is_named():
    battles = votes_of((6, 5), (2, 2))
    gap = lrbtl.gap(0, 1, 2)
    with pytest.raises(lrbtl.errors.FoldError, match="one fold"):
        lrbtl.one_step(battles, gap, rank=2, folds=np.stack([battles.cells.count, battles.cells.count]))
    with pytest.raises(lrbtl.errors.FoldError, match="shape"):
        lrbtl.one_step(battles, gap, rank=2, folds=[[1, 2], [3, 4]])
    with pytest.raises(lrbtl.errors.FoldError, match="one per fold"):
        lrbtl.one_step(battles, gap, rank=2, initial=[np.zeros((6, 5))])
    with pytest.raises(lrbtl.errors.RankError, match="initial"):
        lrbtl.one_step(battles, gap, rank=2, initial=[np.zeros((6, 4))] * 6)
    with pytest.raises(lrbtl.errors.SingularInformationError, match="rank below"):
        lrbtl.one_step(battles, gap, rank=2, initial=[np.outer(np.arange(6.0), np.ones(5))] * 6)
    with pytest.raises(lrbtl.errors.SamplingError, match="not a sampling law"):
        lrbtl.one_step(battles, gap, rank=2, sampling="uniform")
    with pytest.raises(lrbtl.errors.MethodError, match="Improvements"):
        lrbtl.infer(battles, gap, method="efficient", improvements="none")
    with pytest.raises(lrbtl.errors.MethodError, match="ridge_share"):
        lrbtl.infer(battles, gap, method="efficient", improvements=lrbtl.Improvements(ridge_share=2))
    weighted = lrbtl.Battles.from_arrays([0, 0, 1], [1, 2, 2], [1, 0, 1], weight=[1.0, 2.0, 1.0])
    with pytest.raises(lrbtl.errors.MethodError, match="weights of votes"):
        lrbtl.one_step(weighted, lrbtl.gap(0, 1), rank=1)
    entries = lrbtl.Results.from_arrays([(0, 0)], [1.0], shape=(2, 2))
    with pytest.raises(lrbtl.errors.MethodError, match="for votes"):
        lrbtl.one_step(entries, lrbtl.entry(0, 0), rank=1)
