"""Questions that are asked again as votes come in, and what a state remembers of them."""

import json
from dataclasses import replace

import numpy as np
import pytest

import lrbtl
from lrbtl.cli.main import main
from lrbtl.data.state import read_watches
from lrbtl.errors import LooksError, MethodError, UnknownModelError


@pytest.fixture(scope="module")
def battles():
    truth = np.array([[0.8, 0.8], [0.7, 0.8], [0.0, 0.0], [-1.5, -1.6]])
    found = lrbtl.simulate_battles(truth, 6000, rng=3)
    return replace(found, levels=(("code", "math"),), mode_names=("task",))


def test_answers_are_those_of_boards(battles):
    found = lrbtl.watch(battles, tuned_at=6000)
    board = lrbtl.leaderboard(battles, valid="always", tuned_at=6000)
    assert found.decided == (board.rank_upper[0] == 1) and not found.may_stop
    assert "may still be first" in found.answer and found.more is not None and found.more > 0
    assert f"{board.models[0]} leads" in found.answer and found.valid == "valid at any time (tuned at 6,000 votes)"
    top = lrbtl.watch(battles, ("top", 2), tuned_at=6000)
    assert top.decided == (board.rank_upper[:2] <= 2).all() and top.may_stop and top.more is None
    gap = lrbtl.watch(battles, ("gap", "model_2", "model_3"), tuned_at=6000)
    same = lrbtl.compare(battles, "model_2", "model_3", valid="always", tuned_at=6000)
    assert gap.decided == (same.verdict[0] == "ahead") and f"{same.gap[0]:+.0f}" in gap.answer


def test_equivalence_categories_and_a_last_number_of_votes(battles):
    wide = lrbtl.watch(battles, ("gap", "model_0", "model_1"), margin=150)
    assert wide.decided and "is equivalent to" in wide.answer
    here = lrbtl.watch(battles, ("gap", "model_0", "model_1"), context="math", stop=6000)
    assert "in math" in here.goal and here.may_stop and not here.decided and "6,000 votes are there" in here.reason
    planned = lrbtl.watch(battles, looks=12)
    assert planned.valid == "valid at each of 12 planned looks"


def test_more_votes_of_the_expected_number_decide_often():
    """The expected number has 80% power if the gap is as estimated: simulated here for one pair."""
    truth = np.array([[0.06], [0.0], [0.0]])
    first = lrbtl.simulate_battles(truth[:, 0], 4000, rng=17)
    start = lrbtl.watch(first, ("gap", 0, 1), tuned_at=20_000, method="naive")
    assert not start.decided and start.more is not None
    done = 0
    for seed in range(40):
        gap = float(lrbtl.infer(first, lrbtl.gap(0, 1), method="naive").estimate[0])
        log = lrbtl.simulate_battles(np.array([gap, 0.0, 0.0]), int(4000 + start.more), rng=100 + seed)
        done += lrbtl.watch(log, ("gap", 0, 1), tuned_at=20_000, method="naive").decided
    assert 24 <= done <= 39


def test_a_state_remembers_looks_and_settings(battles, tmp_path):
    state = tmp_path / "s.lrbtl"
    early = battles.split(2)[0][0]
    early.save(state)
    first = lrbtl.watch(state, ("gap", "model_2", "model_3"))
    assert first.past == () and first.decided and first.since == early.n_battles
    other = lrbtl.watch(state, "first", stop=9000)
    assert other.past == ()
    again = lrbtl.watch(state, ("gap", "model_2", "model_3"))
    assert again.past == ((early.n_battles, first.answer),) and again.valid == first.valid
    assert len(read_watches(state)) == 2 and lrbtl.Battles.load(state).digest == early.digest
    with pytest.raises(LooksError, match="tuned_at=5"):
        lrbtl.watch(state, "first", tuned_at=5.0)
    with pytest.raises(LooksError, match=r"level=0\.9"):
        lrbtl.watch(state, "first", level=0.9)
    assert len(lrbtl.watch(state, "first", stop=9000).past) == 1
    json.loads(again.to_json())


def test_what_was_decided_stays_decided(battles, tmp_path):
    state = tmp_path / "s.lrbtl"
    one = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[400, 200])
    one.save(state)
    assert lrbtl.watch(state, ("gap", "x", "y"), method="naive", tuned_at=1000).decided
    back = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[100, 260])
    from lrbtl.data.state import read_state, write_state

    write_state(state, one + back, read_state(state, lrbtl.Battles)[1], read_watches(state))
    found = lrbtl.watch(state, ("gap", "x", "y"), method="naive")
    assert "cannot tell" in found.answer and found.may_stop and found.since == 600
    assert "it was decided at 600 votes: x is ahead" in found.reason


def test_the_command_and_that_adding_votes_keeps_watches(tmp_path, capsys):
    state, log = str(tmp_path / "s.lrbtl"), tmp_path / "v.csv"
    assert main(["simulate", "--models", "4", "--contexts", "2", "--battles", "900", "-o", str(log)]) == 0
    assert main(["add", state, str(log)]) == 0
    capsys.readouterr()
    code = main(["watch", state, "--goal", "top=2", "--stop", "5000"])
    said = capsys.readouterr().out
    assert code == 2 and "go on: it is not decided" in said and "tuned at 5,000 votes" in said
    assert (
        main(["simulate", "--models", "4", "--contexts", "2", "--battles", "5000", "--seed", "0", "-o", str(log)]) == 0
    )
    assert main(["add", state, str(log)]) == 0
    assert len(read_watches(state)) == 1
    capsys.readouterr()
    code = main(["watch", state, "--goal", "top=2", "--stop", "5000", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == 0 and found["may_stop"] and len(found["past"]) == 1
    assert main(["watch", state, "--goal", "best"]) == 2 and "--goal best" in capsys.readouterr().err
    assert (
        main(["watch", state, "--goal", "top=0"]) == 2 and "--goal top=0: give first, top=K" in capsys.readouterr().err
    )
    assert main(["watch", state, "--goal", "top=2", "--tuned-at", "7"]) == 1
    assert "first looked at with" in capsys.readouterr().err


@pytest.mark.parametrize("goal", ["best", ("top", 0), ("top", 9), ("gap", "x"), 3, ("top", "x")])
def test_goals_that_are_none(battles, goal):
    with pytest.raises(MethodError):
        lrbtl.watch(battles, goal)


def test_other_bad_input(battles):
    with pytest.raises(LooksError, match="looked at again"):
        lrbtl.watch(battles, valid="once")
    with pytest.raises(LooksError, match="stop=0"):
        lrbtl.watch(battles, stop=0)
    with pytest.raises(MethodError, match="margin"):
        lrbtl.watch(battles, margin=10)
    with pytest.raises(UnknownModelError):
        lrbtl.watch(battles, ("gap", "model_0", "nobody"))
