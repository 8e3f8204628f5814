"""What must not change an answer, or change it in a known way: every relation of `fuzz.metamorphic`, for every method.

`LRBTL_METAMORPHIC` is the number of random logs for each of them (1 by default). A campaign runs thousands:
`python tests/fuzz/harness.py --area metamorphic`.
"""

import os
import random
from dataclasses import replace

import numpy as np
import pytest

import lrbtl
from fuzz.metamorphic import RELATIONS, VOTE_METHODS, agree, log, named, run_relation

CASES = int(os.environ.get("LRBTL_METAMORPHIC", "1"))
FIRST = int(os.environ.get("LRBTL_METAMORPHIC_SEED", "0"))


@pytest.mark.parametrize("method", VOTE_METHODS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_relations(relation, method, seed):
    run_relation(relation, method, random.Random(f"{relation} {method} {seed}"))


def test_answers_that_differ_are_found():
    value, place = np.array([1000.0, 10.0, 980.0, 1020.0]), [1, 1, 2, 1, 2, 1]
    agree((None, "x"), (value, place), (value + 1e-9, place), 1e-9)
    with pytest.raises(AssertionError, match="standard errors apart"):
        agree((None, "x"), (value, place), (value + 1e-7, place), 1e-9)
    with pytest.raises(AssertionError, match="rank"):
        agree((None, "x"), (value, place), (value, [2, *place[1:]]), 1e-9)
    with pytest.raises(AssertionError):
        agree((None, "x"), (value, place), (np.full(4, np.nan), place), 1e-9)


def test_models_with_the_same_record_share_a_rank_whatever_their_names():
    sides = ["xyz", "yzx"]
    for names in ("xyz", "zyx", "yxz"):
        called = dict(zip("xyz", names, strict=True))
        first, second = ([called[k] for k in side] for side in sides)
        votes = lrbtl.Battles.from_arrays(first, second, [1, 1, 1], counts=[20] * 3)
        for method in ("hierarchical", "naive"):
            board = lrbtl.leaderboard(votes, method=method)
            assert board.rank.tolist() == [1, 1, 1] and board.models == ("x", "y", "z")


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_battles_do_not_change_when_they_are_saved(seed, tmp_path):
    battles = lrbtl.Battles.read(named(log(np.random.default_rng(seed))), covariates="x")
    battles.save(tmp_path / "state.lrbtl")
    again = lrbtl.Battles.load(tmp_path / "state.lrbtl")
    assert again.digest == battles.digest and replace(again, notes=()) is not again
