import numpy as np
import pytest
from scipy.special import expit

import lrbtl
from lrbtl.cli.main import main
from lrbtl.errors import RankError, SimulationError
from lrbtl.model.simulate import NEWCOMER, UNBEATEN, UNBEATEN_WINS, add_ties, demo_battles


def unfolding_ranks(scores):
    return [np.linalg.matrix_rank(np.moveaxis(scores, k, 0).reshape(d, -1)) for k, d in enumerate(scores.shape)]


@pytest.mark.parametrize(
    ("shape", "rank", "expected"),
    [
        ((7,), 1, [1]),
        ((7,), 3, [1]),
        ((20, 12), 3, [3, 3]),
        ((4, 12), 3, [3, 3]),
        ((8, 7, 6), 2, [2, 2, 2]),
        ((8, 7, 6), (3, 2, 2), [3, 2, 2]),
        ((8, 2, 6), 5, [5, 2, 5]),
        ((6, 5, 4, 3), 2, [2, 2, 2, 2]),
        ((2, 5), 1, [1, 1]),
    ],
)
def test_scores_have_their_rank_and_scale(shape, rank, expected):
    scores = lrbtl.simulate_scores(shape, rank, scale=5.0, rng=1)
    assert scores.shape == shape
    assert unfolding_ranks(scores) == expected
    assert np.abs(scores).max() == pytest.approx(5.0, rel=1e-14)
    np.testing.assert_allclose(scores.sum(axis=0), 0.0, atol=1e-12)


def test_matrix_is_the_papers_construction():
    rng = np.random.default_rng(4)
    theta, a = rng.standard_normal((9, 2)), rng.standard_normal((5, 2))
    t = theta @ a.T
    t -= t.mean(axis=0)
    np.testing.assert_allclose(lrbtl.simulate_scores((9, 5), 2, scale=5, rng=4), 5 * t / np.abs(t).max(), rtol=1e-12)


def test_same_seed_same_result():
    first, again = (lrbtl.simulate_scores((5, 4, 3), 2, scale=1.0, rng=3) for _ in range(2))
    assert np.array_equal(first, again)
    for n in (20, 5_000):
        one, two = (lrbtl.simulate_battles(first, n, rng=9).cells for _ in range(2))
        assert all(np.array_equal(getattr(one, f), getattr(two, f)) for f in ("context", "a", "b", "y", "count"))


@pytest.mark.parametrize("shape", [(5,), (4, 3), (3, 2, 2)])
@pytest.mark.parametrize("dense", [True, False])
def test_battles_follow_scores_and_law(shape, dense, monkeypatch):
    """Counting atoms and drawing battles one by one are the same law."""
    if not dense:
        monkeypatch.setattr("lrbtl.model.simulate.n_contexts", lambda shape: 10**9)
    rng = np.random.default_rng(0)
    scores = lrbtl.simulate_scores(shape, 2, scale=1.5, rng=rng)
    contexts = rng.dirichlet(np.full(int(np.prod(shape[1:])), 5.0)).reshape(shape[1:]) if len(shape) > 1 else None
    law = lrbtl.ProductSampling(rng.dirichlet(np.full(shape[0], 5.0)), contexts)
    n = 60_000
    battles = lrbtl.simulate_battles(scores, n, sampling=law, rng=rng)
    assert battles.shape == shape and battles.n_battles == n
    cells = battles.cells
    flat = scores.reshape(shape[0], -1)
    p_atom = law.table(shape).reshape(shape[0], shape[0], -1)
    p_win = 1 / (1 + np.exp(flat[None] - flat[:, None]))
    seen = np.zeros((2, *p_atom.shape))
    np.add.at(seen, (cells.y.astype(int), cells.a, cells.b, cells.context), cells.count)
    a, b = np.triu_indices(shape[0], 1)
    for outcome, p in ((1, p_atom * p_win), (0, p_atom * (1 - p_win))):
        expected = n * p[a, b]
        z = (seen[outcome][a, b] - expected) / np.sqrt(expected)
        assert np.abs(z).max() < 4.5


def test_labels_sort_like_codes():
    battles = lrbtl.simulate_battles(np.zeros((101, 2)), 50, rng=0)
    assert battles.models[3] == "model_003"
    assert list(battles.models) == sorted(battles.models)


def test_ten_million_battles_cost_as_much_as_their_atoms():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((30, 10), 2, scale=2.0, rng=0), 10**9, rng=0)
    assert battles.n_battles == 10**9
    assert battles.n_cells == 2 * 10 * 435


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: lrbtl.simulate_scores((1, 3), 1, scale=1.0, rng=0), SimulationError),
        (lambda: lrbtl.simulate_scores((), 1, scale=1.0, rng=0), SimulationError),
        (lambda: lrbtl.simulate_scores((5, 3), 1, scale=0.0, rng=0), SimulationError),
        (lambda: lrbtl.simulate_scores((5, 3), 1, scale=np.nan, rng=0), SimulationError),
        (lambda: lrbtl.simulate_scores((5, 3), 0, scale=1.0, rng=0), RankError),
        (lambda: lrbtl.simulate_scores((5, 3), (2, 1), scale=1.0, rng=0), RankError),
        (lambda: lrbtl.simulate_scores((5, 3), (2,), scale=1.0, rng=0), RankError),
        (lambda: lrbtl.simulate_battles([0.0], 5, rng=0), SimulationError),
        (lambda: lrbtl.simulate_battles([0.0, np.inf], 5, rng=0), SimulationError),
        (lambda: lrbtl.simulate_battles([0.0, 1.0], 0, rng=0), SimulationError),
    ],
)
def test_bad_arguments(call, error):
    with pytest.raises(error):
        call()


# ------------------------------------------------------------------------------
# The embedded demo shows what it promises, quickly and always the same.
# ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def battles():
    return demo_battles()


def test_the_arena_is_as_described(battles):
    assert battles.shape == (40, 8) and battles.mode_names == ("category",)
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
        "1 model has fewer than 30 votes: preliminary",
        "5 votes in this category",
        "amber-large against newcomer-0.1",
    ):
        assert part in text
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == ["board.csv", "board.png", "report.html"]


def test_the_folder_must_be_creatable(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "a" / "b")]) == 1
    assert "cannot write into" in capsys.readouterr().err
