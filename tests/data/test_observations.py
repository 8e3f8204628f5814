"""Observed entries: closed forms of the paper's appendix on completion, dense operators, input checks."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lrbtl
from lrbtl.data.folds import check_folds, fold_counts
from lrbtl.errors import (
    EmptyDataError,
    FoldError,
    LrbtlError,
    MethodError,
    ObservationError,
    SamplingError,
    UnknownModelError,
    VarianceWarning,
    WeakSignalWarning,
)
from lrbtl.fitting.low_rank import refit
from lrbtl.inference.analysis import analyse_fit
from lrbtl.lowrank.tangent import TangentSpace, projection
from lrbtl.lowrank.tucker import truncate
from lrbtl.methods.base import Options
from lrbtl.methods.one_step import Law
from lrbtl.methods.standard_errors import widening

SHAPES = {"vector": ((30,), (1,)), "matrix": ((12, 9), (2, 2)), "order 3": ((7, 6, 5), (2, 2, 2))}


def make_truth(shape, rank, seed=0):
    truth = truncate(np.random.default_rng(seed).normal(size=shape), rank).dense()
    return truth / np.abs(truth).max() * 2


def entry_of(index):
    return lrbtl.entry(*index)


def dense_directions(space, shape, weight):
    """(P_T G P_T)^+ P_T of every unit tensor, with G diagonal: a dense twin, (entries, entries)."""
    size = int(np.prod(shape))
    projector = np.array([projection(space, unit.reshape(shape)).ravel() for unit in np.eye(size)])
    return np.linalg.pinv(projector @ np.diag(weight) @ projector, rcond=1e-9, hermitian=True), projector


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("method", ["efficient", "whitened"])
def test_uniform_gaussian_is_the_closed_form(case, method):
    """psi = <Gamma, T_k> + p / n_k sum <P_T Gamma, X> (y - <T_k, X>), variance sigma^2 p ||P_T Gamma||^2."""
    shape, rank = SHAPES[case]
    p, n_folds = int(np.prod(shape)), 4
    data = lrbtl.simulate_observations(make_truth(shape, rank), 12 * p, variance=0.3, rng=1)
    index = tuple(d // 2 for d in shape)
    run = {"rank": rank, "n_folds": n_folds, "rng": 5, "sampling": lrbtl.UniformSampling()}
    found = lrbtl.infer(data, entry_of(index), method=method, **run)

    gamma = np.zeros(shape)
    gamma[index] = 1.0
    whole = lrbtl.fit(data, rank)
    cells = data.cells
    ridge = {"efficient": 0.5, "whitened": 0.75}[method] * whole.ridge
    start = refit(whole, cells.count.astype(float), ridge=ridge)
    value, variance, bound = 0.0, 0.0, 0.0
    for held_out in fold_counts(cells, n_folds, 5).astype(float):
        point = refit(whole, cells.count - held_out, ridge=ridge, start=start).point
        projected = projection(TangentSpace(point, centred=False), gamma).reshape(shape[0], -1)
        scores = point.dense().reshape(shape[0], -1)
        residual = cells.y - scores[cells.a, cells.context]
        influence = p * projected[cells.a, cells.context] * residual
        share = held_out.sum() / data.n_observations
        value += share * (scores[np.nonzero(gamma.reshape(shape[0], -1))][0] + held_out @ influence / held_out.sum())
        variance += held_out @ influence**2
        bound += share * whole.link.variance * p * np.sum(projected**2)
    n = data.n_observations
    assert found.estimate[0] == pytest.approx(value, abs=1e-9)
    assert found.se[0] == pytest.approx(widening(found.variance_noise[0]) * np.sqrt(variance) / n, rel=1e-9)
    if method == "efficient":
        assert found.bound[0] == pytest.approx(np.sqrt(bound / n), rel=1e-9)


@pytest.mark.parametrize("case", SHAPES)
def test_known_variances_stand_for_squared_residuals(case):
    """B = sum of n / variance j j^T: no residual enters, whose square would count the error of the fit as noise."""
    shape, rank = SHAPES[case]
    noise = np.random.default_rng(5).uniform(0.02, 0.2, size=shape)
    data = lrbtl.simulate_observations(make_truth(shape, rank), 900, variance=noise, known=True, rng=3)
    cells = data.cells
    step = analyse_fit(lrbtl.fit(data, rank), Options(n_folds=3, se="full")).run.full
    entries = np.zeros((data.n_cells, shape[0], int(np.prod(shape[1:]))))
    entries[np.arange(data.n_cells), cells.a, cells.context] = 1.0
    J = step.space.pull_dense(entries)
    expected = (J * cells.count / data.variance / cells.count.sum()) @ J.T
    np.testing.assert_allclose(step.meat @ np.eye(step.space.size), expected, atol=1e-9 * np.abs(expected).max())


def test_variances_that_residuals_contradict_are_told():
    data = lrbtl.simulate_observations(make_truth((12, 9), (2, 2)), 900, variance=0.1, known=True, rng=3)
    weights = lrbtl.Results.from_arrays(
        (data.cells.a, data.cells.context), data.cells.y, shape=(12, 9), variance=10 * data.variance
    )
    lrbtl.infer(data, entry_of((0, 0)), rank=2, method="efficient")
    with pytest.warns(VarianceWarning, match="0.09.* times the given variances"):
        lrbtl.infer(weights, entry_of((0, 0)), rank=2, method="efficient")


@pytest.mark.parametrize("case", SHAPES)
def test_bounds_are_the_papers(case):
    shape, rank = SHAPES[case]
    truth, p, index = make_truth(shape, rank), int(np.prod(shape)), tuple(d - 1 for d in shape)
    space = TangentSpace(truncate(truth, rank), centred=False)
    gamma = np.zeros(shape)
    gamma[index] = 1.0
    projected = projection(space, gamma)
    bound = lrbtl.efficiency_bound(truth, entry_of(index), rank=rank, link="identity", variance=0.7)
    assert bound == pytest.approx(0.7 * p * np.sum(projected**2), rel=1e-9)
    noise = np.random.default_rng(3).uniform(0.2, 2, size=shape)
    options: dict[str, Any] = {"rank": rank, "link": "identity", "variance": noise}
    whitened = lrbtl.efficiency_bound(truth, entry_of(index), method="whitened", **options)
    assert whitened == pytest.approx(p * np.sum(noise * projected**2), rel=1e-9)
    directions, projector = dense_directions(space, shape, 1 / noise.ravel() / p)
    at = np.ravel_multi_index(index, shape)
    efficient = lrbtl.efficiency_bound(truth, entry_of(index), **options)
    assert efficient == pytest.approx(projector[at] @ directions @ projector[at], rel=1e-7)
    assert efficient < whitened
    for link, fisher in [
        ("logistic", 0.25 / np.cosh(truth / 2) ** 2),
        ("probit", lrbtl.Probit().terms(truth.ravel(), 0 * truth.ravel()).fisher),
    ]:
        fisher = np.reshape(fisher, shape)
        law = np.random.default_rng(4).dirichlet(np.ones(p)).reshape(shape) * 0.5 + 0.5 / p
        sampling = lrbtl.TableSampling(law, entries=True)
        options = {"rank": rank, "link": link, "entries": True, "sampling": sampling}
        found = lrbtl.efficiency_bound(truth, entry_of(index), method="whitened", **options)
        assert found == pytest.approx(np.sum(projected**2 / law / fisher), rel=1e-9)  # sum p w^2 (p PG)^2 / I
        directions, projector = dense_directions(space, shape, (law * fisher).ravel())
        found = lrbtl.efficiency_bound(truth, entry_of(index), **options)
        assert found == pytest.approx(projector[at] @ directions @ projector[at], rel=1e-6)


def test_known_variances_give_narrower_intervals():
    truth = make_truth((30, 20), (2, 2))
    noise = np.random.default_rng(1).choice([0.05, 2.0], size=truth.shape)
    data = lrbtl.simulate_observations(truth, 6000, variance=noise, known=True, rng=2)
    unknown = replace(data, variance=None)
    uniform = lrbtl.UniformSampling()
    efficient = lrbtl.infer(data, lrbtl.all_scores(), rank=2, n_folds=5, method="efficient")
    whitened = lrbtl.infer(data, lrbtl.all_scores(), rank=2, n_folds=5, method="whitened", sampling=uniform)
    blind = lrbtl.infer(unknown, lrbtl.all_scores(), rank=2, n_folds=5, method="efficient")
    assert np.median(efficient.se / whitened.se) < 0.7 and np.median(efficient.se / blind.se) < 0.7
    for est in (efficient, whitened, blind):
        assert 0.9 < np.mean(np.abs(est.estimate - truth.ravel()) < 1.96 * est.se) < 0.99
    with pytest.raises(MethodError, match="every entry"):
        lrbtl.infer(data, lrbtl.entry(0, 0), rank=2, sampling=uniform, method="efficient")


def test_units_of_the_response_do_not_matter():
    data = lrbtl.simulate_observations(make_truth((15, 12), (2, 2)), 2000, variance=0.5, rng=0)
    scaled = lrbtl.Results.from_arrays((data.cells.a, data.cells.context), 1000 * data.cells.y, shape=data.shape)
    one, two = (lrbtl.infer(x, lrbtl.all_scores(), rank=2, n_folds=3, method="efficient") for x in (data, scaled))
    np.testing.assert_allclose(two.estimate, 1000 * one.estimate, rtol=2e-3, atol=2)
    np.testing.assert_allclose(two.se, 1000 * one.se, rtol=2e-3)


def test_the_variance_of_the_noise_is_found():
    data = lrbtl.simulate_observations(make_truth((40, 30), (3, 3)), 6000, variance=0.4, rng=0)
    assert lrbtl.fit(data, 3).link.variance == pytest.approx(0.4, rel=0.06)
    assert lrbtl.fit(data, 3, link=lrbtl.Identity(2.0)).link.variance == 2.0


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("case", ["matrix", "order 3"])
def test_one_bit_intervals_hold_the_truth(link, case):
    shape, rank = SHAPES[case]
    truth = make_truth(shape, rank)
    data = lrbtl.simulate_observations(truth, 15_000, link=link, rng=1)
    for method in ("efficient", "whitened", "mle"):
        est = lrbtl.infer(data, lrbtl.all_scores(), rank=rank, link=link, method=method, n_folds=5)
        z = (est.estimate - truth.ravel()) / est.se
        assert np.mean(np.abs(z) < 1.96) > 0.85 and np.abs(z).max() < 5


def test_weights_of_a_row_by_column_law():
    shape = (20, 15)
    truth = make_truth(shape, (2, 2))
    rng = np.random.default_rng(0)
    law = lrbtl.ProductSampling(rng.dirichlet(np.full(20, 5.0)), rng.dirichlet(np.full(15, 5.0)))
    data = lrbtl.simulate_observations(truth, 20_000, variance=0.5, sampling=law, rng=1)
    estimated = lrbtl.ProductSampling.estimate(data)
    np.testing.assert_allclose(estimated.models, data.model_counts / 20_000)
    np.testing.assert_allclose(estimated.models, law.models, atol=0.01)
    for sampling in (law, None):
        est = lrbtl.infer(data, lrbtl.all_scores(), rank=2, method="whitened", sampling=sampling, n_folds=5)
        assert np.mean(np.abs(est.estimate - truth.ravel()) < 1.96 * est.se) > 0.88
    table = lrbtl.TableSampling(np.outer(law.models, law.contexts), entries=True)
    np.testing.assert_allclose(table.probability(data.cells, shape), law.probability(data.cells, shape))
    laws = [Law.of(each, shape, entries=True).probability for each in (law, table, lrbtl.UniformSampling())]
    np.testing.assert_allclose([p.sum() for p in laws], 1.0)
    with pytest.raises(SamplingError, match="observed entries"):
        lrbtl.infer(
            lrbtl.simulate_battles(truth - truth.mean(axis=0), 100, rng=0),
            lrbtl.score(0),
            rank=1,
            method="whitened",
            sampling=table,
        )


def test_rank_and_diagnosis():
    data = lrbtl.simulate_observations(make_truth((20, 15), (2, 2)), 3000, variance=0.2, rng=0)
    chosen = lrbtl.select_rank(data, [1, 2, 3])
    assert chosen.rank == (2, 2)
    diagnosis = lrbtl.diagnose(data, lrbtl.fit(data, 2))
    assert diagnosis.verdict == "efficient is safe" and len(diagnosis.groups) == 1
    said = f"{diagnosis} {chosen} {lrbtl.infer(data, lrbtl.entry(3, 4), rank=2).summary()}".lower()
    assert "observations per row" in said and "mnats/observation" in said and "observations 3,000" in said
    assert not any(word in said for word in ("battle", "model", "context", "score"))
    assert lrbtl.infer(data, lrbtl.all_scores(), rank=2).labels[16] == "entry(1, 1)"
    assert diagnosis.information_max * lrbtl.fit(data, 2).link.variance == pytest.approx(1.3, abs=0.5)


def test_a_row_without_observations_is_named():
    data = lrbtl.Results.from_arrays([(0, 0), (0, 1), (2, 0), (2, 1)], [1.0, 2.0, 2.0, 4.0], shape=(3, 2))
    with pytest.raises(LrbtlError, match="no observation informs rows 1"):
        lrbtl.fit(data, 1)


def test_repeated_observations_are_counted():
    once = lrbtl.Results.from_arrays(np.array([[0, 1], [2, 0], [2, 0]]), [1.0, 3.0, 3.0], shape=(3, 2))
    assert once.n_cells == 2 and once.n_observations == 3
    np.testing.assert_array_equal(once.cells.count, [2, 1])
    apart = lrbtl.Results.from_arrays((np.array([2, 2]), np.array([0, 0])), [3.0, 3.0], shape=(3, 2), variance=[1, 2])
    assert apart.n_cells == 2
    np.testing.assert_array_equal(apart.variance, [1, 2])
    assert lrbtl.Results.from_arrays([1, 0, 1], [1.0, 2.0, 3.0], shape=(2,)).shape == (2,)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([], [], (2, 2)), EmptyDataError, "no observations"),
        (([(0, 0)], [np.nan], (2, 2)), ObservationError, "NaN"),
        (([(0, 2)], [1.0], (2, 2)), ObservationError, "index 2 in mode 2"),
        (([(0, 0, 0)], [1.0], (2, 2)), ObservationError, "2 integers each"),
        (([(0.5, 0)], [1.0], (2, 2)), ObservationError, "integers"),
        (([(0, 0)], [[1.0]], (2, 2)), ObservationError, "one number per observation"),
    ],
)
def test_bad_observations(arguments, error, words):
    indices, values, shape = arguments
    with pytest.raises(error, match=words):
        lrbtl.Results.from_arrays(indices, values, shape=shape)


def test_bad_variances_and_methods():
    with pytest.raises(ObservationError, match="positive"):
        lrbtl.Results.from_arrays([(0, 0)], [1.0], shape=(2, 2), variance=0.0)
    data = lrbtl.simulate_observations(make_truth((5, 4), (1, 1)), 200, rng=0)
    with pytest.raises(MethodError, match="Bradley-Terry"):
        lrbtl.infer(data, lrbtl.entry(0, 0), rank=1, method="naive")


def test_messages_speak_of_entries():
    data = lrbtl.Results.from_arrays([(0, 0)], [1.0], shape=(2, 2))
    assert (data.unit, *data.axes) == ("observations", "row", "column")
    with pytest.raises(UnknownModelError, match="row 7 is neither"):
        data.model_index(7)
    with pytest.raises(FoldError, match="1 observations cannot fill 3 folds"):
        check_folds(data, 3)


def test_weak_signal_speaks_of_observations():
    data = lrbtl.simulate_observations(0.05 * make_truth((12, 8), (2, 2)), 300, rng=0)
    with pytest.warns(WeakSignalWarning, match="more observations"):
        lrbtl.infer(data, lrbtl.entry(0, 0), rank=2, ridge=1.0, method="efficient")
