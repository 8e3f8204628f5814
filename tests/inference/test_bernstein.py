"""Bernstein intervals: what they are made of, and that they hold where the normal ones do not."""

import pickle

import numpy as np
import pytest
from scipy.special import expit, logit

import lrbtl
from inference_cases import VOTE_METHODS
from lrbtl.inference.joint import bernstein_width
from lrbtl.methods.cross_fit import OneStepRun

TARGETS = [lrbtl.gap(0, 1, 2), lrbtl.score(3, 1), lrbtl.win_probability(0, 2, 1)]


def votes(n=4000, seed=1, **options):
    truth = lrbtl.simulate_scores((8, 5), 2, scale=2, rng=0)
    return lrbtl.simulate_battles(truth, n, rng=seed, **options)


def width(square, largest, n, level):
    log = np.log(4 / (1 - level))
    return np.sqrt(2 * square * log / n) + 14 * largest * log / (3 * (n - 1))


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_width_is_the_empirical_bernstein_bound(level):
    square, largest = np.array([1.0, 4.0]), np.array([3.0, 20.0])
    np.testing.assert_allclose(bernstein_width(square, largest, 500, level), width(square, largest, 500, level))


@pytest.mark.parametrize("whiten", [False, True])
def test_moments_come_from_the_influence_values_of_the_folds(whiten):
    battles = votes()
    method, law = ("whitened", lrbtl.UniformSampling()) if whiten else ("efficient", None)
    options = {"rank": 2, "n_folds": 5, "sampling": law, "improvements": lrbtl.Improvements.none()}
    analysis = lrbtl.analyse(battles, method=method, **options)
    assert isinstance(analysis.run, OneStepRun)
    steps = analysis.run.steps
    fits = [step.space.point.dense() for step in steps]
    folds = np.zeros((5, battles.n_cells), dtype=int)
    for k, step in enumerate(steps):
        folds[k, step.inside] = np.round(step.votes.design.count * step.n)
    plain = lrbtl.one_step(battles, TARGETS[:2], rank=2, whiten=whiten, initial=fits, folds=folds)
    found = analysis.estimate(TARGETS[:2])
    phi = plain.per_battle()
    expected = width(np.mean(phi**2, axis=0), np.abs(phi).max(axis=0), battles.n_battles, 0.9)
    interval = found.conf_int(0.9, kind="bernstein")
    np.testing.assert_allclose(np.diff(interval)[:, 0] / 2, expected, rtol=1e-10)
    np.testing.assert_allclose(interval.mean(axis=1), found.estimate, rtol=1e-10)


@pytest.mark.parametrize("method", VOTE_METHODS)
def test_every_method_has_them_and_they_are_wider_than_normal_ones(method):
    est = lrbtl.infer(votes(), TARGETS, method=method)
    normal, wide = est.conf_int(), est.conf_int(kind="bernstein")
    assert np.all(wide[:, 0] < normal[:, 0]) and np.all(normal[:, 1] < wide[:, 1])
    assert wide[2, 0] > 0 and wide[2, 1] < 1
    np.testing.assert_allclose(est[1:].conf_int(kind="bernstein"), wide[1:])
    natural = est.conf_int(kind="bernstein", scale="natural")
    p = est.estimate[2]
    rough = 1e-3 if method == "hierarchical" else 1e-8  # whose probabilities are means over the posterior
    np.testing.assert_allclose(np.diff(natural[2]), p * (1 - p) * np.diff(logit(wide[2])), rtol=rough)
    assert expit(0) == 0.5


def test_they_are_refused_where_they_do_not_hold():
    est = lrbtl.infer(votes(), TARGETS, method="efficient", rank=2)
    with pytest.raises(lrbtl.errors.EstimateError, match="not joint"):
        est.conf_int(joint=True, kind="bernstein")
    with pytest.raises(lrbtl.errors.EstimateError, match="kind"):
        est.conf_int(kind="student")
    with pytest.raises(lrbtl.errors.BoundError, match="influence"):
        (est[0] - est[1]).conf_int(kind="bernstein")
    with pytest.raises(lrbtl.errors.BoundError, match="influence"):
        pickle.loads(pickle.dumps(est)).conf_int(kind="bernstein")
    rng = np.random.default_rng(0)
    a, b = np.zeros(400, dtype=int), np.ones(400, dtype=int)
    clustered = lrbtl.Battles.from_arrays(a, b, rng.integers(0, 2, 400), cluster=np.repeat(np.arange(100), 4))
    with pytest.raises(lrbtl.errors.BoundError, match="clusters"):
        lrbtl.infer(clustered, lrbtl.gap(0, 1), method="naive").conf_int(kind="bernstein")


def test_they_hold_for_few_votes_where_normal_intervals_do_not():
    """A fair mean of skewed values: 40 votes won with probability .95."""
    rng = np.random.default_rng(0)
    p, n, reps = 0.95, 40, 4000
    y = (rng.random((reps, n)) < p).astype(float)
    phi = y - y.mean(axis=1, keepdims=True)
    square, largest = np.mean(phi**2, axis=1), np.abs(phi).max(axis=1)
    away = np.abs(y.mean(axis=1) - p)
    normal = np.mean(away <= 1.96 * np.sqrt(square / n))
    assert normal < 0.9 < 0.95 <= np.mean(away <= bernstein_width(square, np.maximum(largest, 0.95), n, 0.95))
