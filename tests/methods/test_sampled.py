"""Many models: the same mode and covariances as with matrices over all of them, by solutions and simulated logs."""

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
from lrbtl.fitting import mode as modes
from lrbtl.fitting.blocks import only_models
from lrbtl.fitting.fit import make_design
from lrbtl.inference.analysis import find_method
from lrbtl.methods import search
from lrbtl.methods.posterior import Posterior
from lrbtl.methods.sampled import Sampled

D1, D, TAU = 90, 5, 0.25


def battles(reach=D1 - 1, n=40_000, thin=0, d1=D1):
    """Return votes between models at most `reach` places apart, with deviations; the last of few categories."""
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(d1, 2)), np.array([0.75, 0.0]) + 0.2 * rng.normal(size=(D, 2))
    T = U[np.argsort(U[:, 0])] @ V.T + TAU * rng.normal(size=(d1, D))
    a = rng.integers(d1, size=n)
    b = np.clip(a + rng.integers(1, reach + 1, size=n) * rng.choice([-1, 1], n), 0, d1 - 1)
    u = np.where((a < thin) | (b < thin), 0, rng.integers(D, size=n))
    a, b, u = (side[a != b] for side in (a, b, u))
    y = (rng.random(len(a)) < expit(T[a, u] - T[b, u])).astype(float)
    return lrbtl.Battles.from_arrays(a, b, y, contexts=u, n_models=d1)


@pytest.fixture(scope="module", params=["all meet", "ladder", "thin", "exactly low rank"])
def both(request):
    """Return the exact posterior and the simulated one at the same rank and tau."""
    made = {"ladder": {"reach": 8}, "thin": {"thin": 30}}.get(request.param, {})
    tried = search.Search(make_design(battles(**made), "logistic"))
    scores, tau = tried.first((2, 2)), 0.0 if "exactly" in request.param else TAU
    exact = tried.climb(scores, tau)
    mode = modes.find_joint_mode(exact.scores, tau, exact.last.dispersion, tried.gauge, exact.last.prior.precision)
    return Posterior.of(exact.at, tried.cells), Sampled(mode.at, tried.cells, 256)


def test_the_mode_is_the_same(both):
    exact, found = (each.at.scores.field.dense() for each in both)
    np.testing.assert_allclose(found, exact, atol=0.05)


def test_few_targets_have_the_same_covariance(both):
    exact, found = both
    gradients = np.random.default_rng(1).normal(size=(4, 3, D1))
    contexts = np.array([0, 2, 4])
    expected = exact.covariance(gradients, contexts)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(found.covariance(gradients, contexts) / scale, expected / scale, atol=0.03)
    own = found.covariance(gradients, contexts, diagonal=True)
    np.testing.assert_allclose(own, np.diag(found.covariance(gradients, contexts)), rtol=1e-6)


@pytest.mark.parametrize("weights", [np.full(D, 1 / D), np.eye(D)[3]])
def test_boards_have_nearly_the_same_covariance(both, weights):
    exact, found = both
    expected = exact.of_means(weights)
    cov = found.of_means(weights)
    gaps = [np.diag(each)[:, None] + np.diag(each) - each - each.T + np.eye(D1) for each in (cov, expected)]
    ratio = np.sqrt(gaps[0] / gaps[1])[np.triu_indices(D1, 1)]
    assert np.median(ratio) == pytest.approx(1.0, abs=0.04)
    assert np.quantile(np.abs(np.log(ratio)), 0.9) < 0.15
    np.testing.assert_allclose(found.by_context(np.array([3]))[0], found.of_means(np.eye(D)[3]))


def test_influences_are_the_same(both):
    exact, found = both
    gradients, cells = np.zeros((1, 1, D1)), np.arange(50)
    gradients[0, 0, :2] = 1.0, -1.0
    rows = [each.influence_rows(gradients, np.array([0]))(cells)[:, 0] for each in (exact, found)]
    np.testing.assert_allclose(rows[1], rows[0], atol=0.1 * np.abs(rows[0]).max())


def test_entries_are_nearly_those_of_the_exact_posterior(both):
    exact, found = both
    for one, other in zip(exact.own_entries(), found.own_entries(), strict=True):
        played = one > 0.2 * np.median(one)
        assert np.median(other[played] / one[played]) == pytest.approx(1.0, abs=0.1)


def test_votes_among_some_models():
    log = battles(n=500)
    part = only_models(make_design(log, "logistic"), np.arange(10, 40))
    cells = log.cells
    inside = (np.minimum(cells.a, cells.b) >= 10) & (np.maximum(cells.a, cells.b) < 40)
    assert part.shape == (30, D) and part.count.sum() == log.cells.count[inside].sum()
    assert np.array_equal(part.a + 10, log.cells.a[inside])


def test_boards_of_many_models_say_what_is_simulated(monkeypatch):
    log = battles(n=30_000)
    plain = lrbtl.leaderboard(log)
    monkeypatch.setattr(search, "MANY_MODELS", 60)
    monkeypatch.setattr(search, "PART_MODELS", 50)
    board = lrbtl.leaderboard(log)
    assert any("simulated logs" in note for note in board.info.notes)
    assert not any("simulated logs" in note for note in plain.info.notes)
    one, other = (dict(zip(each.models, zip(each.score, each.se, strict=True), strict=True)) for each in (plain, board))
    both = np.array([(*one[model], *other[model]) for model in one])
    assert np.corrcoef(both[:, 0], both[:, 2])[0, 1] > 0.99
    assert np.median(both[:, 3] / both[:, 1]) == pytest.approx(1.0, abs=0.15)
    lower, upper = lrbtl.infer(log, lrbtl.gap(board.models[0], board.models[1])).conf_int()[0]
    assert upper > lower


def test_many_models_have_the_default_method():
    each = np.arange(6000)
    log = lrbtl.Battles.from_arrays(each, each + 1, each % 2.0, contexts=each % 9)
    assert find_method(None, log).name == "hierarchical"
    assert find_method(None, log, "davidson").name == "efficient"
