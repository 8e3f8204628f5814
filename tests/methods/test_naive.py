"""The naive method on boards: who has a score, and why others have none."""

import numpy as np
import pytest

import lrbtl
from lrbtl.errors import MethodError
from lrbtl.inference.analysis import analyse_fit


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
