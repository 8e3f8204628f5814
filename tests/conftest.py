"""Battles and boards that several files test, and property tests that draw the same examples every time.

HYPOTHESIS_PROFILE=random explores instead of repeating.
"""

import os

import pytest
from hypothesis import settings

import lrbtl

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def plain() -> lrbtl.Battles:
    truth = lrbtl.simulate_scores((7,), 1, scale=1.0, rng=3)
    return lrbtl.simulate_battles(truth, 800, rng=4)


@pytest.fixture(scope="session")
def arena() -> lrbtl.Battles:
    truth = lrbtl.simulate_scores((9, 4), 2, scale=2.0, rng=0)
    return lrbtl.simulate_battles(truth, 12_000, rng=1)


@pytest.fixture(scope="session")
def boards(arena: lrbtl.Battles) -> lrbtl.Leaderboards:
    return lrbtl.leaderboard(arena, context="all", rank=2)
