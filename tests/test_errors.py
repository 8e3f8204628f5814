"""Warnings point at the line of the user, however deep they come from."""

import warnings

import numpy as np
import pytest

import lrbtl
from lrbtl.errors import IslandWarning, RankCollapseWarning, SelfBattleWarning, SeparationWarning, WeakSignalWarning


def weak():
    return lrbtl.simulate_battles(lrbtl.simulate_scores((10, 5), 1, scale=1.0, rng=0), 2_000, rng=1)


def island():
    return lrbtl.Battles.from_arrays(["a", "a", "x", "x"], ["b", "b", "y", "y"], [1, 0, 1, 0], counts=[9, 9, 5, 5])


def unbeaten():
    return lrbtl.Battles.from_arrays([0, 1, 1, 0], [1, 2, 2, 2], [1, 1, 0, 1], counts=[5, 5, 5, 5])


@pytest.mark.parametrize(
    ("call", "category"),
    [
        (lambda: lrbtl.Battles.from_arrays(["a", "a"], ["a", "b"], [1, 0]), SelfBattleWarning),
        (lambda: lrbtl.leaderboard(island()), IslandWarning),
        (lambda: lrbtl.win_matrix(island()), IslandWarning),
        (lambda: lrbtl.fit(weak(), 3, ridge=400.0), RankCollapseWarning),
        (lambda: lrbtl.infer(weak(), lrbtl.score(0), rank=2, ridge=1.0, method="efficient"), WeakSignalWarning),
        (lambda: lrbtl.leaderboard(weak(), rank=2, ridge=1.0, method="efficient"), WeakSignalWarning),
        (lambda: lrbtl.compare(weak(), 0, 1, rank=2, ridge=1.0, method="efficient"), WeakSignalWarning),
        (lambda: lrbtl.fit_separate(unbeaten()), SeparationWarning),
        (lambda: lrbtl.infer(unbeaten(), lrbtl.score(0), method="naive"), SeparationWarning),
    ],
)
def test_the_line_is_the_users(call, category):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call()
    found = [warning for warning in said if warning.category is category]
    assert found and {warning.filename for warning in found} == {__file__}
    assert np.all([warning.lineno == call.__code__.co_firstlineno for warning in found])
