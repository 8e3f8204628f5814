"""The same question has the same answer whichever call asks it, for every method."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import lrbtl
from inference_cases import VOTE_METHODS
from lrbtl.errors import LrbtlError, LrbtlWarning
from lrbtl.inference.targets import context_weights

TOLERANCE = 1e-9


@st.composite
def logs(draw: st.DrawFn, most_modes: int = 3) -> lrbtl.Battles:
    """A small log with ties, soft votes, up to three context modes, and a sparse model."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_models, levels = draw(st.integers(3, 6)), draw(st.lists(st.integers(1, 3), max_size=most_modes))
    n = draw(st.sampled_from([150, 400]))
    shape = (n_models, *levels)
    truth = rng.normal(size=n_models).reshape(-1, *[1] * len(levels)) + 0.3 * rng.normal(size=shape)
    a = rng.integers(n_models, size=n)
    if draw(st.booleans()):
        a[(a == n_models - 1) & (rng.random(n) < 0.8)] = 0
    b = (a + rng.integers(1, n_models, size=n)) % n_models
    contexts = [rng.integers(size, size=n) for size in levels]
    gaps = truth[(a, *contexts)] - truth[(b, *contexts)]
    y = (rng.random(n) < 1 / (1 + np.exp(-gaps))).astype(float)
    y[rng.random(n) < draw(st.sampled_from([0.0, 0.4]))] = 0.5
    if draw(st.booleans()):
        y[:20] = np.round(rng.random(20), 2)
    names = np.array([f"m{k}" for k in range(n_models)])
    return lrbtl.Battles.from_arrays(names[a], names[b], y, contexts)


def analysed(battles: lrbtl.Battles, method: str) -> lrbtl.Analysis:
    """The method run on the log; logs that it refuses are left out."""
    try:
        return lrbtl.analyse(battles, method=method, rank=1, n_folds=3)
    except LrbtlError:
        assume(False)
        raise


def assert_same(found: lrbtl.Estimate, expected: lrbtl.Estimate) -> None:
    """Values, errors and intervals agree."""
    for mine, theirs in (
        (found.estimate, expected.estimate),
        (found.se, expected.se),
        (found.conf_int(), expected.conf_int()),
    ):
        size = np.nanmax(np.abs(theirs), initial=0.0)
        np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE * size)


@pytest.mark.parametrize("method", VOTE_METHODS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(battles=logs())
def test_every_call_gives_the_same_answer(method: str, battles: lrbtl.Battles) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        analysis = analysed(battles, method)
        models, D = battles.models, battles.n_contexts
        contexts = [battles.context_label(u) for u in range(D)]
        traffic = context_weights(battles, "traffic")
        scores = [lrbtl.score(a, weights="traffic") for a in models]
        targets = [*scores, lrbtl.gap(*models[:2]), lrbtl.win_probability(*models[:2]), lrbtl.win_rate(models[1])]
        targets += [lrbtl.score(models[0], contexts[-1], among=models[:2])]
        try:
            together = analysis.estimate(targets)
        except LrbtlError:
            assume(False)
        again = lrbtl.infer(battles, targets, method=method, rank=1, n_folds=3)
        assert_same(again, together)
        assert_same(analysis.estimate(targets, errors_only=True), together)
        for k, target in enumerate(targets):
            assert_same(analysis.estimate(target), together[k])

        units = np.vstack([traffic, np.eye(D)])
        boards = analysis.estimate_boards(units)
        kept = np.isfinite(boards[0].estimate)
        assert_same(boards[0][kept], together[: len(models)][kept])
        listed = analysis.estimate([lrbtl.score(a, u) for a in models for u in contexts])
        family = analysis.estimate(lrbtl.all_scores())
        assert_same(family, listed)
        for u, board in enumerate(boards[1:]):
            inside = np.isfinite(board.estimate)
            assert_same(board[inside], listed[u::D][inside])
        gaps = [lrbtl.gap(a, b, u) for a, b in combinations(models, 2) for u in contexts]
        assert_same(analysis.estimate(lrbtl.all_gaps()), analysis.estimate(gaps))

        among = np.tile(analysis.placed(traffic), (1, 1))
        if among.sum() > 1:
            chosen = [model for model, ok in zip(models, among[0], strict=True) if ok]
            asked = analysis.estimate([lrbtl.score(a, weights="traffic", among=chosen) for a in chosen])
            assert_same(analysis.estimate_boards(traffic[None], among)[0][among[0]], asked)


@pytest.mark.parametrize("method", VOTE_METHODS)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(battles=logs(most_modes=1), seed=st.integers(0, 2**32 - 1))
def test_labels_and_sides_do_not_matter(method: str, battles: lrbtl.Battles, seed: int) -> None:
    rng, cells, d1 = np.random.default_rng(seed), battles.cells, battles.shape[0]
    records = np.bincount(cells.a, cells.count * (1 + cells.y), d1) + np.bincount(
        cells.b, cells.count * (2 - cells.y), d1
    )
    assume(len(np.unique(records)) == d1 and len(np.unique(battles.context_counts)) == battles.n_contexts)
    models, contexts = rng.permutation(d1), rng.permutation(battles.n_contexts)
    swap = rng.random(cells.n_cells) < 0.5
    a, b = np.where(swap, cells.b, cells.a), np.where(swap, cells.a, cells.b)
    renamed = lrbtl.Battles.from_arrays(
        models[a],
        models[b],
        np.where(swap, 1 - cells.y, cells.y),
        [contexts[cells.context]] if battles.levels else [],
        counts=cells.count,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        before, after = analysed(battles, method), analysed(renamed, method)
        try:
            first, second = before.estimate(lrbtl.all_scores()), after.estimate(lrbtl.all_scores())
        except LrbtlError:
            assume(False)
    for mine, theirs in ((second.estimate, first.estimate), (second.se, first.se)):
        mine, theirs = mine.reshape(d1, -1)[models][:, contexts], theirs.reshape(d1, -1)
        np.testing.assert_allclose(
            mine, theirs, rtol=TOLERANCE, atol=TOLERANCE * np.nanmax(np.abs(theirs), initial=1.0)
        )
