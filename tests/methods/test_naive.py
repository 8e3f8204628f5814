"""The naive method on boards: who has a score, and why others have none."""

import numpy as np
import pytest

import lrbtl
from lrbtl.errors import MethodError
from lrbtl.inference.analysis import analyse_fit
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import truncate
from lrbtl.methods.naive import SeparateFits
from lrbtl.methods.one_step import ScoreView
from lrbtl.methods.targets import resolved_gap


def test_the_naive_method_places_the_largest_strong_component():
    battles = lrbtl.Battles.from_arrays(
        ["a", "b", "c", "champion", "a", "b"],
        ["b", "c", "a", "a", "loser", "a"],
        [1, 1, 1, 1, 1, 0.5],
        [["u", "u", "u", "u", "v", "v"]],
        counts=[9, 9, 9, 12, 4, 2],
    )
    analysis = lrbtl.analyse(battles, method="naive")
    names, here = np.array(battles.models), np.array([1.0, 0.0])
    placed = analysis.placed(here)
    assert names[placed].tolist() == ["a", "b", "c"]
    assert analysis.why_not(battles.model_index("champion"), here) == "won all 12 votes here"
    assert analysis.why_not(battles.model_index("loser"), here) == "no votes here"
    assert analysis.why_not(battles.model_index("loser"), 1 - here) == "lost all 4 votes here"
    assert names[analysis.placed(1 - here)].tolist() == ["a", "b"]
    board = analysis.estimate_boards(here[None], placed[None])[0]
    np.testing.assert_array_equal(np.isnan(board.estimate), ~placed)
    assert board.estimate[placed].sum() == pytest.approx(0.0, abs=1e-12)
    assert np.isnan(analysis.estimate_boards(here[None], np.ones((1, 5), dtype=bool))[0].estimate).all()


def test_a_naive_run_needs_no_fit_and_takes_none():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=1.5, rng=0), 2_000, rng=1)
    assert lrbtl.analyse(battles, method="naive").run.fit is None
    with pytest.raises(MethodError, match="low-rank fit"):
        analyse_fit(lrbtl.fit(battles, 1), method="naive")


@pytest.mark.filterwarnings("ignore::lrbtl.errors.SeparationWarning")
def test_ties_of_two_pairs_that_never_meet_have_errors():
    """Rounding makes the variance of a gap across the pairs negative; the gap has none, and says so."""
    battles = lrbtl.Battles.from_arrays([0, 2], [1, 3], [0.5, 0.5], counts=[819, 519], n_models=6)
    found = lrbtl.infer(battles, [lrbtl.gap(0, 1), lrbtl.gap(0, 2), lrbtl.win_rate(0)], method="naive")
    assert found.se[0] > 0 and np.isnan(found.se[1:]).all()


def test_gaps_beyond_what_separate_fits_tell_have_no_gain_over_them():
    far = np.array([[400.0, 1.0], [-400.0, -1.0], [0.0, 0.0]])
    battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0], [[0, 1]], n_models=3, n_levels=2)
    view = ScoreView(TangentSpace(truncate(far, (2, 2)), centred=True), far.shape)
    errors = SeparateFits(battles, view).errors([resolved_gap(0, 1, unit) for unit in np.eye(2)])
    assert np.isinf(errors[0]) and 1 < errors[1] < 10


def test_covariates_that_tell_every_vote_have_no_fit():
    """Newton's matrices become singular before its steps are used up."""
    frame = {
        "model_a": ["x", "y", "x", "y", "x", "z"] * 3,
        "model_b": ["y", "x", "z", "z", "y", "x"] * 3,
        "winner": ["model_a", "model_a", "model_b", "model_a", "model_a", "model_a"] * 3,
        "tokens_a": [900, 900, 1, 900, 900, 900] * 3,
        "tokens_b": [1, 1, 900, 1, 1, 1] * 3,
    }
    battles = lrbtl.Battles.from_frame(frame, covariates={"length": ("tokens_a", "tokens_b")})
    with pytest.raises(lrbtl.errors.SeparationError, match="no finite Bradley-Terry fit with these covariates"):
        lrbtl.leaderboard(battles, method="naive")


def test_scores_that_a_covariate_takes_to_infinity_have_no_fit():
    """Newton's decrement vanishes in rounding, at scores of millions of logits."""
    frame = {
        "model_a": [f"m{k}" for k in (0, 1, 2, 1, 1, 0, 1, 1, 1, 2)],
        "model_b": [f"m{k}" for k in (1, 0, 0, 2, 2, 2, 0, 0, 2, 0)],
        "winner": ["model_a"] * 10,
        "tokens_a": [0, 1, 1, 100, 1, 0, 0, 100, 1_000_000, 1],
        "tokens_b": [1_000_000, 1_000_000, 1, 0, 0, 100, 1, 100, 1, 100],
    }
    battles = lrbtl.Battles.from_frame(frame, covariates={"length": ("tokens_a", "tokens_b")})
    with pytest.raises(lrbtl.errors.SeparationError, match="no finite Bradley-Terry fit"):
        lrbtl.analyse(battles, method="naive")


@pytest.mark.filterwarnings("ignore::lrbtl.errors.LrbtlWarning")
def test_clusters_where_no_model_has_a_score():
    frame = {"model_a": ["x", "y"], "model_b": ["y", "z"], "winner": ["model_a"] * 2, "voter": [0, 1]}
    analysis = lrbtl.analyse(lrbtl.Battles.from_frame(frame, cluster="voter"), method="naive")
    assert np.isnan(analysis.estimate([lrbtl.gap("x", "y")]).se).all()
