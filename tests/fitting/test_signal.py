"""What is said of battles that hardly carry a fit."""

import warnings

import numpy as np
import pytest

import lrbtl
from lrbtl.errors import ConvergenceWarning, LrbtlWarning, ThinContextWarning, WeakSignalWarning
from lrbtl.fitting.low_rank import refit
from lrbtl.fitting.signal import signal_ratio, thin_contexts
from lrbtl.inference.analysis import analyse_fit
from lrbtl.lowrank.tucker import rank_caps
from lrbtl.methods import low_rank, mle
from lrbtl.methods.base import Options
from problems import simulated


@pytest.mark.parametrize(("shape", "rank"), [((9, 5), 2), ((8, 4, 3), 2)])
def test_signal_is_the_formula(shape, rank):
    _, battles = simulated(shape, rank, 4_000)
    point = lrbtl.fit(battles, rank).point
    scores, d_eff = point.dense(), np.prod(shape[1:]) * (shape[0] - 1) / 2
    expected = []
    for k, d in enumerate(shape):
        singular = np.linalg.svd(np.moveaxis(scores, k, 0).reshape(d, -1), compute_uv=False)[: point.rank[k]]
        others = np.prod(point.rank) / point.rank[k]
        expected.append(singular.min() / (np.sqrt(4 * d_eff / 4_000) * (np.sqrt(d) + np.sqrt(others))))
    assert signal_ratio(point, battles.n_battles) == pytest.approx(min(expected), rel=1e-9)


def test_a_rank_beyond_the_signal_is_said_once():
    _, battles = simulated((10, 5), 1, 4_000)
    whole = lrbtl.fit(battles, 2, ridge=1.0)
    with pytest.warns(WeakSignalWarning, match=r"rank \(2, 2\).*smaller rank") as said:
        analyse_fit(whole, Options(n_folds=3))
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", LrbtlWarning)
        lrbtl.infer(battles, lrbtl.score(0, 0), rank=1, n_folds=3)


@pytest.mark.parametrize("shape", [(4,), (4, 3)])
def test_a_rank_that_restricts_nothing_cannot_be_too_large(shape):
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores(shape, rank_caps(shape), scale=0.2, rng=0), 600, rng=3)
    whole = lrbtl.fit(battles, rank_caps(shape), ridge=0.1)
    assert signal_ratio(whole.point, battles.n_battles) < 1.5
    analyse_fit(whole, Options(n_folds=3))


def test_mle_says_where_contexts_are_thin():
    scores = lrbtl.simulate_scores((6, 3), 1, scale=2.0, rng=0)
    law = lrbtl.ProductSampling(np.full(6, 1 / 6), np.array([0.49, 0.49, 0.02]))
    battles = lrbtl.simulate_battles(scores, 3_000, sampling=law, rng=1)
    assert thin_contexts(battles) == (battles.levels[0][2],)
    with pytest.warns(ThinContextWarning, match="fewer than 100 battles.*method='efficient'"):
        lrbtl.infer(battles, lrbtl.score(0, 0), rank=1, method="mle")
    lrbtl.infer(battles, lrbtl.score(0, 0), rank=1, n_folds=3)
    lrbtl.infer(lrbtl.simulate_battles(scores[:, 0], 80, rng=1), lrbtl.score(0), method="mle", rank=1)


@pytest.mark.parametrize("method", ["efficient", "mle"])
def test_folds_that_do_not_converge_are_said_once(method, monkeypatch):
    _, battles = simulated((8, 4), 1, 4_000)
    whole = lrbtl.fit(battles, 1)
    for module in (low_rank, mle):
        monkeypatch.setattr(module, "refit", lambda *args, **options: _stopped(refit(*args, **options)))
    with pytest.warns(ConvergenceWarning, match="fits behind these intervals") as said:
        analyse_fit(whole, Options(n_folds=3), method=method)
    assert len(said) == 1


def _stopped(newton):
    return type(newton)(**{**vars(newton), "converged": False})
