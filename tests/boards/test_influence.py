"""What an estimate rests on: votes, voters, the fewest that turn it, and voters unlike all others."""

import json

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
from lrbtl.boards.influence import votes_out
from lrbtl.errors import InfluenceError, LevelError, LrbtlError


@pytest.fixture(scope="module")
def battles():
    """Votes of 40 voters, of whom the first tosses coins."""
    rng = np.random.default_rng(0)
    truth = np.linspace(-1.5, 1.5, 6)
    n = 4000
    a = rng.integers(6, size=n)
    b = (a + rng.integers(1, 6, size=n)) % 6
    voter = rng.integers(40, size=n)
    p = np.where(voter == 0, 0.5, expit(truth[a] - truth[b]))
    frame = {"model_a": a, "model_b": b, "winner": (rng.random(n) < p).astype(float), "voter": voter}
    frame["winner"][:200] = 0.5
    frame["task"] = rng.choice(["code", "math"], n)
    return lrbtl.Battles.from_frame(frame, contexts="task", cluster="voter")


@pytest.fixture(scope="module")
def board(battles):
    return lrbtl.leaderboard(battles, method="naive")


def test_groups_add_up_to_their_votes(battles, board):
    by_vote = lrbtl.influence(board)
    by_voter, by_task = (lrbtl.influence(board, by=name) for name in ("voter", "task"))
    for found, n in ((by_vote, battles.n_cells), (by_voter, 40), (by_task, 2)):
        assert len(found.groups) == n and found.votes.sum() == battles.n_battles
        assert (np.diff(np.abs(found.change)) <= 1e-12).all()
        assert found.change.sum() == pytest.approx(by_vote.change.sum(), abs=1e-6)
    assert by_vote.groups[0].endswith(("code", "math")) and " / " in by_vote.groups[0]
    assert set(by_task.groups) == {"code", "math"}


def test_a_voter_left_out_moves_the_target_as_foretold(battles):
    analysis = lrbtl.analyse(battles, method="naive")
    target = lrbtl.gap(5, 4, weights="traffic")
    found = lrbtl.influence(analysis, target, by="voter")
    voter = int(found.groups[0])
    left = battles.with_counts(np.where(battles.cells.clusters[:, 0] == voter, 0, battles.cells.count))
    weights = battles.context_counts / battles.n_battles
    moved = lrbtl.infer(left, lrbtl.gap(5, 4, weights=weights), method="naive").estimate[0]
    change = 400 / np.log(10) * moved - found.value
    assert change == pytest.approx(found.change[0], rel=0.2)


@pytest.mark.parametrize("method", ["naive", "hierarchical"])
def test_the_flip_is_proved_by_a_fit(battles, method):
    before = lrbtl.leaderboard(battles, method=method)
    found = lrbtl.influence(before).flip()
    assert found.before > 0 > found.after
    assert found.battles.n_battles == battles.n_battles - found.n_votes
    assert sum(count for _, count in found.removed) == found.n_votes
    weights = battles.context_counts / battles.n_battles
    after = lrbtl.leaderboard(found.battles, method=method, weights=weights)
    assert after.models[0] != before.models[0]
    assert f"without {found.n_votes} of" in repr(found)


def test_the_flip_of_a_gap_takes_few_votes(battles, board):
    found = lrbtl.influence(board, lrbtl.gap(board.models[1], board.models[2], weights="traffic")).flip()
    fewer = lrbtl.influence(board).flip()
    assert found.before > 0 > found.after and fewer.n_votes < 400


def test_votes_go_by_their_help():
    help_ = np.array([0.2, 0.1, -1.0])
    assert votes_out(np.array([3, 5, 9]), help_, 0.2).tolist() == [1, 0, 0]
    assert votes_out(np.array([3, 5, 9]), help_, 99.0).tolist() == [3, 5, 0]


def test_a_voter_who_tosses_coins_is_flagged_and_no_other(board):
    found = lrbtl.influence(board, by="voter").misfits()
    assert found.voters[0] == 0 and found.flagged.tolist() == [True] + [False] * 39
    assert abs(found.agree[0] - 0.5) < 0.1 < found.expected[0] - 0.5
    assert found.votes.sum() == 3800
    assert "1 of 40 is unlike the others" in str(found)


def test_evidence_is_the_product_written_out(battles):
    """One voter against the others: separate fits to the others' decisive votes, without their errors."""
    analysis = lrbtl.analyse(battles, method="naive")
    found = lrbtl.influence(analysis, by="voter").misfits(n_folds=40)
    cells, voter = battles.cells, int(found.voters[3])
    mine = cells.clusters[:, 0] == voter
    rest = lrbtl.analyse(battles.with_counts(np.where(mine | (cells.y == 0.5), 0, cells.count)), method="naive")
    scores = rest.scores()
    p = expit(scores[cells.a, cells.context] - scores[cells.b, cells.context])
    ratio = 0.5 / np.where(cells.y == 1, p, 1 - p)
    use = mine & (cells.y != 0.5)
    assert np.log(found.evidence[3]) == pytest.approx(cells.count[use] @ np.log(ratio[use]), abs=0.4)


def test_tables(board):
    found = lrbtl.influence(board, by="voter")
    for table in (found, found.misfits()):
        json.dumps(table.to_dict())
        assert len(table.to_frame("polars")) == 40
        assert "<table" in table._repr_html_()
    assert "change without each voter" in str(found)
    win = lrbtl.influence(lrbtl.analyse(board.basis.analysis.battles, method="naive"), lrbtl.win_probability(0, 1, 0))
    assert "log odds" in str(win)


def test_bad_questions_have_named_errors(battles, board):
    with pytest.raises(InfluenceError, match="analysis of battles"):
        lrbtl.influence(battles)
    with pytest.raises(InfluenceError, match="voter"):
        lrbtl.influence(board, by="votre")
    with pytest.raises(InfluenceError, match="among voters"):
        lrbtl.influence(board).misfits()
    with pytest.raises(InfluenceError, match="change of sign"):
        lrbtl.influence(board, lrbtl.win_probability(0, 1, "code")).flip()
    with pytest.raises(LevelError):
        lrbtl.influence(board, by="voter").misfits(level=2)
    with pytest.raises(LrbtlError):
        lrbtl.influence(board, by="voter").misfits(n_folds=1)


def test_a_gap_of_zero_has_no_sign_to_change():
    battles = lrbtl.Battles.from_arrays(["x", "y"] * 20, ["y", "x"] * 20, [1, 1] * 20)
    with pytest.raises(lrbtl.errors.InfluenceError, match="no sign"):
        lrbtl.influence(lrbtl.leaderboard(battles, method="naive")).flip()
