"""Head-to-head comparisons against `infer` and against the boards."""

import math

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
from lrbtl.errors import (
    IslandWarning,
    MethodError,
    SeparationError,
    TargetError,
    UnknownContextError,
    UnknownModelError,
)

ELO = 400 / math.log(10)


@pytest.fixture(scope="module")
def champion(arena):
    extra = lrbtl.Battles.from_arrays(
        ["champion"] * 2, ["model_0", "model_1"], [1, 1], [0, 1], n_levels=4, counts=[9, 9]
    )
    return arena + extra


def test_gaps_are_what_infer_says(arena):
    targets = [lrbtl.gap(3, 5), *(lrbtl.gap(3, 5, u) for u in range(4))]
    est = lrbtl.infer(arena, targets, rank=2)
    result = lrbtl.compare(arena, "model_3", 5, rank=2)
    np.testing.assert_allclose(result.gap, ELO * est.estimate, rtol=1e-9)
    np.testing.assert_allclose(np.c_[result.lower, result.upper], ELO * est.conf_int(), rtol=1e-9)
    np.testing.assert_allclose(np.c_[result.joint_lower, result.joint_upper], ELO * est.conf_int(joint=True), rtol=1e-9)
    np.testing.assert_allclose(result.win, expit(est.estimate))
    assert (result.win_joint_lower < result.win_lower).all() and (result.win_upper < result.win_joint_upper).all()


def test_direct_battles_are_counted(arena):
    result = lrbtl.compare(arena, 5, 3, rank=2)
    cells = arena.cells
    pair = (cells.a == 3) & (cells.b == 5)
    assert result.battles[0] == cells.count[pair].sum() == result.battles[1:].sum()
    assert result.won[0] == pytest.approx(1 - np.average(cells.y[pair], weights=cells.count[pair]))


def test_swapping_the_models_mirrors_everything(arena):
    one, other = lrbtl.compare(arena, 1, 2, rank=2), lrbtl.compare(arena, 2, 1, rank=2)
    np.testing.assert_allclose(one.gap, -other.gap)
    np.testing.assert_allclose(one.lower, -other.upper)
    np.testing.assert_allclose(one.joint_lower, -other.joint_upper, rtol=1e-3)


@pytest.mark.parametrize("method", ["naive", "whitened", "mle"])
def test_other_methods(arena, method):
    result = lrbtl.compare(arena, 1, 2, rank=2, method=method)
    assert result.contexts == ("overall", "0", "1", "2", "3") and (result.joint_lower < result.lower).all()


def test_plain_battles_give_one_row(arena):
    result = lrbtl.compare(arena.pooled(), 1, 2)
    gap = lrbtl.fit_separate(arena.pooled()).gap(1, 2)
    assert result.contexts == ("overall",) and result.gap[0] == pytest.approx(ELO * gap)


def test_unbeaten_model_has_lower_limits_only(champion):
    result = lrbtl.compare(champion, "champion", "model_0", rank=2)
    assert (result.upper == np.inf).all() and np.isfinite(result.lower[1:3]).all()
    assert result.lower[0] == -np.inf  # it played in two of four contexts
    assert np.isnan(result.gap[3:]).all() and (result.lower[3:] == -np.inf).all()
    assert (result.joint_lower[1:3] < result.lower[1:3]).all()
    mirrored = lrbtl.compare(champion, "model_0", "champion", rank=2)
    np.testing.assert_allclose(mirrored.upper, -result.lower)
    assert "champion against model_0" in str(result)


def test_tables(arena):
    result = lrbtl.compare(arena, 1, 2, rank=2)
    table = result.to_dict()
    assert list(table)[:4] == ["context", "gap", "lower", "upper"] and len(table["win"]) == 5
    assert len(result.to_frame()) == 5
    assert "<table>" in result._repr_html_() and "joint" in str(result)


def test_refusals(arena):
    with pytest.raises(TargetError, match="itself"):
        lrbtl.compare(arena, 1, "model_1")
    with pytest.raises(UnknownModelError):
        lrbtl.compare(arena, 1, "model_x")
    with pytest.raises(MethodError):
        lrbtl.compare(arena, 1, 2, method="magic")
    apart = lrbtl.Battles.from_arrays([0, 0, 2, 2], [1, 1, 3, 3], [1, 0, 1, 0])
    with pytest.raises(SeparationError, match="no chain of battles"):
        lrbtl.compare(apart, 0, 2)


def test_win_matrix_agrees_with_the_board(arena):
    boards = lrbtl.leaderboard(arena, context="all", rank=2)
    for context, key in ((None, None), (2, "2")):
        matrix = lrbtl.win_matrix(arena, context, rank=2)
        rows = [matrix.models.index(model) for model in boards.models]
        for mine, theirs in (
            (matrix.win, boards.win),
            (matrix.lower, boards.win_lower),
            (matrix.upper, boards.win_upper),
        ):
            np.testing.assert_allclose(mine[np.ix_(rows, rows)], theirs[key], rtol=1e-9)
    joint = lrbtl.win_matrix(arena, rank=2, joint=True)
    pointwise = lrbtl.win_matrix(arena, rank=2)
    off = ~np.eye(9, dtype=bool)
    assert (joint.lower < pointwise.lower)[off].all()
    assert len(joint.to_dict()["a"]) == 72 and "row beats column" in str(joint)


def test_win_matrix_of_islands():
    apart = lrbtl.Battles.from_arrays([0, 0, 2, 2], [1, 1, 3, 3], [1, 0, 1, 0])
    with pytest.warns(IslandWarning):
        matrix = lrbtl.win_matrix(apart)
    assert np.isnan(matrix.win[0, 2]) and matrix.lower[0, 2] == 0 and matrix.upper[0, 2] == 1
    assert len(matrix.to_frame()) == 12


def test_win_matrix_prints_a_corner():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((20,), 1, scale=1.0, rng=0), 4000, rng=1)
    assert "and 5 more models" in str(lrbtl.win_matrix(battles))


def test_a_context_that_one_island_lacks():
    battles = lrbtl.Battles.from_arrays(
        ["a", "a", "x", "x"], ["b", "b", "y", "y"], [1, 0, 1, 0], [["u", "u", "v", "v"]], counts=[30, 10, 8, 4]
    )
    with pytest.warns(IslandWarning):
        found = lrbtl.win_matrix(battles, "v", method="naive")
    assert found.models == ("x", "y") and found.win[0, 1] == pytest.approx(2 / 3)
    with pytest.raises(UnknownContextError):
        lrbtl.win_matrix(battles, "w", method="naive")
