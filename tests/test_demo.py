"""The embedded demo shows what it promises, quickly and always the same."""

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
from lrbtl.cli import main
from lrbtl.demo import NEWCOMER, UNBEATEN, UNBEATEN_WINS, add_ties, demo_battles


@pytest.fixture(scope="module")
def battles():
    return demo_battles()


def test_the_arena_is_as_described(battles):
    assert battles.shape == (40, 8) and battles.names == ("category",)
    assert 0.1 < battles.tie_share < 0.4
    assert battles.context_counts.max() > 5 * battles.context_counts.min()
    assert 30 < battles.model_counts[battles.model_index(NEWCOMER)] < 100
    assert battles.model_counts[battles.model_index(UNBEATEN)] == UNBEATEN_WINS
    assert battles.win_rates[battles.model_index(UNBEATEN)] == 1.0
    cells, unbeaten = battles.cells, battles.model_index(UNBEATEN)
    assert np.unique(cells.context[(cells.a == unbeaten) | (cells.b == unbeaten)]).size == 8


def test_the_arena_is_always_the_same(battles):
    again = demo_battles()
    for name in ("context", "a", "b", "y", "count"):
        np.testing.assert_array_equal(getattr(again.cells, name), getattr(battles.cells, name))


def test_ties_keep_the_expected_outcome():
    scores = np.array([[0.8], [-0.8]])
    plain = lrbtl.simulate_battles(scores, 400_000, rng=0)
    tied = add_ties(plain, scores, np.random.default_rng(1))
    assert tied.n_battles == plain.n_battles and tied.tie_share > 0.1
    assert tied.win_rates[0] == pytest.approx(expit(1.6), abs=0.004)


def test_the_command_shows_and_writes_everything(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    text = capsys.readouterr().out
    for part in (
        "made up",
        "Leaderboard, overall",
        "Leaderboard, maths",
        "won all 12 battles: no upper limit",
        "only ",
        "times smaller",
    ):
        assert part in text
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == ["board.csv", "board.png", "report.html"]


def test_the_folder_must_be_creatable(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "a" / "b")]) == 1
    assert "cannot write into" in capsys.readouterr().err
