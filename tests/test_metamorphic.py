"""What must not change an answer, or change it in a known way: for every method, with stated tolerances.

`LRBTL_METAMORPHIC` is the number of random logs for each relation (3 by default); a campaign runs thousands.
"""

import os
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lrbtl
from inference_cases import VOTE_METHODS
from lrbtl.errors import LrbtlError, LrbtlWarning

CASES = int(os.environ.get("LRBTL_METAMORPHIC", "3"))
FIRST = int(os.environ.get("LRBTL_METAMORPHIC_SEED", "0"))
SEEDS = range(FIRST, FIRST + CASES)
# Elo points. Folds of these two are drawn by cell: more cells, or a copy of a category, are other folds, whose noise is
# a share of the standard error.
FOLDED = ("efficient", "whitened")
FOLD_NOISE = 60.0
EXACT, LOOSE = 1e-6, 0.05
TOLERANCE = dict.fromkeys(VOTE_METHODS, LOOSE) | {"hierarchical": 0.02, "naive": 1e-4}


def log(seed, n=400):
    """Votes among four to six models in two or three categories."""
    rng = np.random.default_rng(seed)
    d1, d2 = int(rng.integers(4, 7)), int(rng.integers(2, 4))
    theta = rng.normal(0, 0.6, (d1, 1)) + rng.normal(0, 0.3, (d1, d2))
    a = rng.integers(0, d1, n)
    b = (a + rng.integers(1, d1, n)) % d1
    u = rng.integers(0, d2, n)
    p = 1 / (1 + np.exp(theta[b, u] - theta[a, u]))
    winner = np.where(rng.random(n) < 0.15, "tie", np.where(rng.random(n) < p, "model_a", "model_b"))
    names = np.array([f"m{k}" for k in range(d1)])
    task = np.array(["p", "q", "r"])[u]
    x = rng.normal(size=n)
    return pd.DataFrame({"model_a": names[a], "model_b": names[b], "winner": winner, "task": task, "x": x})


def flipped(frame):
    """The same votes, every other row with its sides the other way round."""
    keep = np.arange(len(frame)) % 2 == 0
    back = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
    return frame.assign(
        model_a=np.where(keep, frame.model_a, frame.model_b),
        model_b=np.where(keep, frame.model_b, frame.model_a),
        winner=np.where(keep, frame.winner, frame.winner.map(back)),
        x=np.where(keep, frame.x, -frame.x),
    )


def ratings(battles, method, **options):
    """Ratings and errors by model, overall and by category; None where the method has no answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        try:
            boards = lrbtl.leaderboard(battles, context="all", method=method, n_folds=3, rank=1, **options)
        except LrbtlError:
            return None
    return {
        (board.context, model): (score, se)
        for board in boards.every()
        for model, score, se in zip(board.models, board.score, board.se, strict=True)
    }


@cache
def base(seed, method):
    return ratings(lrbtl.Battles.read(log(seed)[["model_a", "model_b", "winner", "task"]]), method)


def assert_close(mine, theirs, tolerance, name=lambda key: key):
    assert (mine is None) == (theirs is None)
    if mine is None:
        return
    assert {name(key) for key in mine} == set(theirs)
    for key, (score, se) in mine.items():
        expected = theirs[name(key)]
        np.testing.assert_allclose([score, se], expected, atol=tolerance, rtol=tolerance / 100, err_msg=str(key))


every = pytest.mark.parametrize("method", VOTE_METHODS)
seeded = pytest.mark.parametrize("seed", SEEDS)


@every
@seeded
def test_renaming_models_and_categories(method, seed):
    frame = log(seed)
    frame.model_a, frame.model_b = "n" + frame.model_a, "n" + frame.model_b
    frame.task = "z" + frame.task
    found = ratings(lrbtl.Battles.read(frame), method)

    def named(key):
        return (None if key[0] is None else "z" + key[0], "n" + key[1])

    assert_close(base(seed, method), found, EXACT, named)


@every
@seeded
def test_sides_and_order_of_rows(method, seed):
    frame = flipped(log(seed)).sample(frac=1.0, random_state=seed)
    assert_close(base(seed, method), ratings(lrbtl.Battles.read(frame), method), EXACT)


@every
@seeded
def test_splitting_a_log_and_counting_its_rows(method, seed):
    frame = log(seed)
    parts = [lrbtl.Battles.read(part) for part in (frame[:150], frame[150:])]
    assert_close(base(seed, method), ratings(parts[0] + parts[1], method), EXACT)
    counted = frame.groupby(["model_a", "model_b", "winner", "task"], as_index=False).size()
    found = ratings(lrbtl.Battles.read(counted, count="size"), method)
    assert_close(base(seed, method), found, EXACT)


@every
@seeded
def test_a_weight_column_of_ones_and_weights_rescaled(method, seed):
    frame = log(seed)
    ones = ratings(lrbtl.Battles.read(frame.assign(w=1.0), weight="w"), method)
    assert_close(ones, base(seed, method), LOOSE)
    w = np.random.default_rng(seed).uniform(0.5, 2.0, len(frame))
    small, large = (ratings(lrbtl.Battles.read(frame.assign(w=c * w), weight="w"), method) for c in (1.0, 1000.0))
    assert_close(small, large, TOLERANCE[method])


@every
@seeded
def test_frames_of_every_library(method, seed):
    frame = log(seed)[["model_a", "model_b", "winner", "task"]]
    for other in (
        pl.from_pandas(frame),
        pa.Table.from_pandas(frame),
        frame.to_dict(orient="list"),
        frame.to_dict("records"),
    ):
        assert_close(base(seed, method), ratings(lrbtl.Battles.read(other), method), EXACT)


@every
@seeded
def test_threads(method, seed):
    frame = log(seed)
    assert_close(base(seed, method), ratings(lrbtl.Battles.read(frame), method, n_threads=3), 0.0)


@every
@seeded
def test_covariates_rescaled(method, seed):
    frame = log(seed)
    first, second = (
        ratings(lrbtl.Battles.read(frame.assign(x=c * frame.x), covariates="x"), method) for c in (1.0, 250.0)
    )
    assert_close(first, second, TOLERANCE[method])


@every
@seeded
def test_covariates_of_sides_shifted_alike(method, seed):
    rng, frame = np.random.default_rng(seed), log(seed)
    frame["n_a"], frame["n_b"] = rng.normal(size=len(frame)), rng.normal(size=len(frame))
    shifted = frame.assign(n_a=frame.n_a + 7, n_b=frame.n_b + 7)
    rule = {"covariates": {"n": ("n_a", "n_b", "difference")}}
    first, second = (ratings(lrbtl.Battles.read(part, **rule), method) for part in (frame, shifted))
    assert_close(first, second, TOLERANCE[method])


@every
@seeded
def test_an_isolated_pair_has_a_board_of_its_own_and_changes_no_other(method, seed):
    frame = log(seed)
    pair = pd.DataFrame({"model_a": ["k0"] * 40, "model_b": ["k1"] * 40, "winner": ["model_a", "model_b"] * 20,
                         "task": ["p", "q"] * 20})  # fmt: skip
    found = ratings(lrbtl.Battles.read(pd.concat([frame, pair])), method)
    assert_close(base(seed, method), found, EXACT)


@every
@seeded
def test_a_model_of_ties_alone_is_rated_between_the_others(method, seed):
    frame = log(seed)
    models = sorted(set(frame.model_a))
    ties = pd.DataFrame({"model_a": ["tied"] * 60, "model_b": (models * 60)[:60], "winner": ["tie"] * 60,
                         "task": ["p", "q"] * 30})  # fmt: skip
    found = ratings(lrbtl.Battles.read(pd.concat([frame, ties])), method)
    if found is not None:
        overall = {model: score for (context, model), (score, _) in found.items() if context is None}
        others = [score for model, score in overall.items() if model != "tied"]
        if np.isfinite(overall["tied"]):
            assert np.nanmin(others) - 1 <= overall["tied"] <= np.nanmax(others) + 1


@every
@seeded
def test_a_category_twice_leaves_the_order_of_the_categories_scores(method, seed):
    """A copy of a category under another name is more of the same: the two copies have the same board."""
    frame = log(seed)
    copy = frame[frame.task == "p"].assign(task="copy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        found = ratings(lrbtl.Battles.read(pd.concat([frame, copy])), method)
    if found is None:
        return
    mine = {model: value for (context, model), value in found.items() if context == "p"}
    twin = {model: value for (context, model), value in found.items() if context == "copy"}
    tolerance = FOLD_NOISE if method in FOLDED else TOLERANCE[method]
    for model, (score, _) in mine.items():
        assert twin[model][0] == pytest.approx(score, abs=tolerance)


@seeded
def test_battles_do_not_change_when_they_are_saved(seed, tmp_path):
    battles = lrbtl.Battles.read(log(seed), covariates="x")
    battles.save(tmp_path / "state.lrbtl")
    again = lrbtl.Battles.load(tmp_path / "state.lrbtl")
    assert again.digest == battles.digest and replace(again, notes=()) is not again
