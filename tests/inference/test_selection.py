"""What was picked for being largest is covered, and its plain interval is not."""

import numpy as np
import pytest

import lrbtl
from lrbtl.errors import DocumentError


def test_the_largest_of_many_is_covered():
    rng = np.random.default_rng(0)
    plain, picked = [], []
    for _ in range(800):
        est = lrbtl.Estimate([str(k) for k in range(20)], rng.normal(size=20), np.eye(20), links="identity")
        best = est.largest()
        ends = est.conf_int()[int(best.label)]
        plain.append(ends[0] <= 0 <= ends[1])
        picked.append(best.lower <= 0 <= best.upper)
    assert np.mean(picked) > 0.93 and np.mean(plain) < 0.7


def test_boards_and_comparisons_have_joint_intervals():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=1, rng=0), 4000, rng=1)
    analysis = lrbtl.analyse(battles)
    for scale in ("elo", "logit"):
        board = analysis.leaderboard(scale=scale)
        best = board.first()
        assert (
            best.label == board.models[0]
            and best.among == 6
            and best.lower < board.lower[0] < board.upper[0] < best.upper
        )
    (est,) = analysis.estimate_boards(board.basis.weights[None], board.basis.ranked[None])
    k = int(np.argmax(est.estimate))
    assert (best.lower, best.upper) == pytest.approx(tuple(est.conf_int(joint=True)[k]))
    found = analysis.compare(0, 1)
    most = found.largest()
    row = 1 + int(np.argmax(np.abs(found.gap[1:])))
    assert (most.label, most.lower, most.upper) == (found.contexts[row], found.joint_lower[row], found.joint_upper[row])
    assert "largest gap of a category" in str(found) and "after that" in str(most) and most.to_dict()["among"] == 3
    with pytest.raises(DocumentError, match="does not know the covariance"):
        lrbtl.Leaderboard.from_json(board.to_json()).first()


def test_reports_say_it():
    truth = np.array([[1.0, 1.0], [0.0, 0.0], [-0.5, -0.5]])
    boards = lrbtl.leaderboard(lrbtl.simulate_battles(truth, 6000, rng=1), context="all")
    assert "also after it was picked for being first" in lrbtl.report_html(boards)
