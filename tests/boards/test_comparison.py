"""Head-to-head comparisons against `infer` and against the boards."""

import json
import math

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
from lrbtl.errors import (
    IslandWarning,
    MethodError,
    SeparationError,
    SeparationWarning,
    TargetError,
    UninformedError,
    UnknownContextError,
    UnknownModelError,
)

ELO = 400 / math.log(10)


def test_win_probabilities_are_means_over_contexts(arena):
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    result = lrbtl.compare(arena, "model_3", 5, rank=2, weights=weights)
    chance = expit(result.gap[1:] / ELO)  # at the estimate; means over the posterior are nearer to one half
    np.testing.assert_allclose(result.win[1:], chance, atol=2e-3)
    assert (np.abs(result.win[1:] - 0.5) < np.abs(chance - 0.5)).all()
    assert result.win[0] == pytest.approx(weights @ result.win[1:], abs=1e-3)  # each one-step, so not exactly
    matrix = lrbtl.win_matrix(arena, rank=2, weights=weights)
    a, b = matrix.models.index("model_3"), matrix.models.index("model_5")
    assert matrix.win[a, b] == pytest.approx(result.win[0], rel=1e-9)
    assert (result.win_joint_lower < result.win_lower).all() and (result.win_upper < result.win_joint_upper).all()


def test_a_model_without_votes_is_said_and_not_taken_for_another():
    battles = lrbtl.Battles.from_arrays([0, 0, 2, 2], [2, 2, 3, 3], [1, 0, 1, 0], counts=[30, 20, 30, 20])
    assert battles.models == (0, 1, 2, 3)
    for pair in ((1, 3), (3, 1)):
        with pytest.raises(UninformedError, match="1 has no votes"):
            lrbtl.compare(battles, *pair)
    result = lrbtl.compare(battles, 0, 3, method="naive")
    assert (result.a, result.b) == (0, 3) and result.gap[0] == pytest.approx(2 * ELO * np.log(1.5))
    default = lrbtl.compare(battles, 0, 3)
    assert (default.a, default.b) == (0, 3)
    assert 0.5 * result.gap[0] < default.gap[0] < result.gap[0]  # 100 votes: levels are shrunk


def test_what_a_method_does_not_tell_is_missing(arena):
    extra = lrbtl.Battles.from_arrays(
        ["champion"] * 2, ["model_0", "model_1"], [1, 1], [0, 1], counts=[9, 9], n_levels=4
    )
    with pytest.warns(SeparationWarning, match=r"gap\(champion, model_0\)"):
        result = lrbtl.compare(arena + extra, "champion", "model_0", method="naive")
    assert np.isnan(result.gap).all() and "unknown" in str(result) and "nan" not in str(result)
    json.dumps(result.to_dict(), allow_nan=False)


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
    gap = lrbtl.fit_separate(arena.pooled()).gap(1, 2)
    for method, tolerance in ((None, 0.5), ("naive", 1e-6)):
        result = lrbtl.compare(arena.pooled(), 1, 2, method=method)
        assert result.contexts == ("overall",) and result.gap[0] == pytest.approx(ELO * gap, abs=tolerance)


def test_tables(arena):
    result = lrbtl.compare(arena, 1, 2, rank=2)
    table = result.to_dict()
    assert list(table)[:4] == ["context", "gap", "lower", "upper"] and len(table["win"]) == 5
    assert len(result.to_frame()) == 5
    assert "<table" in result._repr_html_() and "joint" in str(result)


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
    for context, key in ((None, None), (2, 2)):
        matrix = lrbtl.win_matrix(arena, context, rank=2)
        rows = [matrix.models.index(model) for model in boards.models]
        for mine, theirs in (
            (matrix.win, boards.win),
            (matrix.lower, boards.win_lower),
            (matrix.upper, boards.win_upper),
        ):
            np.testing.assert_allclose(mine[np.ix_(rows, rows)], theirs[key], rtol=1e-9)
    off = ~np.eye(9, dtype=bool)
    for context in (None, 2):
        joint, pointwise = (lrbtl.win_matrix(arena, context, rank=2, joint=joint) for joint in (True, False))
        assert (joint.lower < pointwise.lower)[off].all()
    assert len(joint.to_dict()["a"]) == 72 and "row beats column" in str(joint)


def test_win_matrix_of_islands():
    apart = lrbtl.Battles.from_arrays([0, 0, 2, 2], [1, 1, 3, 3], [1, 0, 1, 0], counts=[9] * 4)
    with pytest.warns(IslandWarning):
        matrix = lrbtl.win_matrix(apart)
    assert (
        np.isnan(matrix.win[0, 2])
        and matrix.to_dict()["win"][1] is None
        and matrix.lower[0, 2] == 0
        and matrix.upper[0, 2] == 1
    )
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


def test_too_many_pairs_for_their_correlations_have_a_bound(arena, monkeypatch):
    exact = lrbtl.win_matrix(arena, rank=2, joint=True)
    monkeypatch.setattr("lrbtl.boards.comparison.MOST_PAIRS", 1)
    bound = lrbtl.win_matrix(arena, rank=2, joint=True)
    width = {matrix: matrix.upper - matrix.lower for matrix in (exact, bound)}
    off = ~np.eye(9, dtype=bool)
    assert (width[bound] > width[exact])[off].all() and (width[bound] < 1.1 * width[exact])[off].all()
