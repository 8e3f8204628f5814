"""Gates: decisions against intervals written out, exit codes of the command, and its errors."""

import json

import pytest
from scipy import stats

import lrbtl
from lrbtl.boards.gate import decide, error_to_decide
from lrbtl.cli.main import main
from lrbtl.errors import NoDecisionError, TargetError, UnknownModelError
from lrbtl.inference.verdicts import ELO

Z, Z1, POWER = (float(stats.norm.ppf(level)) for level in (0.975, 0.95, 0.8))


def coin(wins, losses, **options):
    battles = lrbtl.Battles.from_arrays(["new", "new"], ["old", "old"], [1, 0], counts=[wins, losses])
    return lrbtl.gate(battles, "new", "old", method="naive", **options)


def test_decisions_are_those_of_the_intervals():
    assert coin(700, 600).decision == "ship" and coin(600, 700).decision == "worse"
    unsure = coin(51, 49)
    assert (unsure.decision, unsure.exit_code) == ("cannot tell", 2) and unsure.needed.votes > 1000
    assert coin(600, 700, margin=60).decision == "ship"  # behind, but by less than matters
    assert coin(52, 48, margin=60).decision == "ship"  # perhaps ahead, perhaps a little behind
    assert "would decide" in str(unsure) and "ship" in str(coin(700, 600))
    json.dumps(unsure.to_dict(), allow_nan=False)


@pytest.mark.parametrize(("gap", "margin"), [(0.1, None), (-0.1, None), (0.1, 0.2), (-0.1, 0.2), (-0.4, 0.2)])
def test_the_error_to_decide_decides_with_that_power(gap, margin):
    se = error_to_decide(gap, margin, 0.95)
    draws = gap + se * stats.norm.ppf((stats.qmc.Sobol(1, seed=0).random(4096)).ravel())
    decided = 0
    for draw in draws:
        verdict = "ahead" if draw > Z * se else "behind" if draw < -Z * se else "cannot tell"
        decided += decide(verdict, draw, se, margin, 0.95) != "cannot tell"
    assert decided / len(draws) > 0.79


def test_the_gap_is_that_of_compare(arena):
    for context, row in ((None, 0), (arena.levels[0][1], 2)):
        found = lrbtl.gate(arena, arena.models[0], arena.models[1], context=context)
        pair = lrbtl.compare(arena, arena.models[0], arena.models[1])
        assert found.gap == pytest.approx(pair.gap[row])
        assert found.entry == (row > 0)  # a category has an interval by its own votes
        assert found.entry or found.upper == pytest.approx(pair.upper[row])
        assert found.verdict == pair.verdict[row]


def test_votes_needed_by_hand():
    found = coin(52, 48)
    gap = found.gap / ELO
    assert found.needed.votes == pytest.approx(((Z + POWER) / gap) ** 2 / (0.52 * 0.48) - 100, rel=0.03)
    margin = coin(50, 50, margin=20)
    assert margin.needed.votes == pytest.approx(4 * ((Z1 + POWER) * ELO / 20) ** 2 - 100, rel=0.03)


def test_bad_questions_have_named_errors(arena):
    with pytest.raises(UnknownModelError):
        lrbtl.gate(arena, "nobody", arena.models[0])
    with pytest.raises(TargetError):
        lrbtl.gate(arena, arena.models[0], arena.models[0])
    battles = lrbtl.Battles.from_arrays([0, 0, 2], [1, 1, 3], [1, 0, 1], [["u", "u", "v"]], counts=[40, 30, 20])
    with pytest.raises(NoDecisionError):
        lrbtl.gate(battles, 0, 1, context="v", method="naive")


@pytest.fixture
def votes(tmp_path):
    path = tmp_path / "votes.csv"
    rows = ["new,old,model_a,math"] * 90 + ["new,old,model_b,math"] * 60 + ["new,old,tie,code"] * 9 + ["old,new,1,code"]
    path.write_text("model_a,model_b,winner,category\n" + "\n".join(rows).replace(",1,", ",model_a,") + "\n")
    return str(path)


def test_exit_codes_of_the_command(votes, capsys):
    run = ["gate", votes, "--method", "naive", "--no-context"]
    assert main([*run, "--candidate", "new", "--baseline", "old"]) == 0
    assert main([*run, "--candidate", "old", "--baseline", "new"]) == 1
    assert capsys.readouterr().out.splitlines()[1].startswith("worse: old against new: ")
    assert main([*run, "--candidate", "new", "--baseline", "old", "--level", "0.999", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["exit_code"] == 2 and found["decision"] == "cannot tell" and found["needed"]["votes"] > 0
    category = ["gate", votes, "--candidate", "new", "--baseline", "old", "--category", "math", "--method", "naive"]
    assert main(category) == 0 and " in math" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--candidate", "new"],
        ["--candidate", "new", "--baseline", "nobody"],
        ["--candidate", "new", "--baseline", "old", "--margin", "-3"],
        ["--candidate", "new", "--baseline", "old", "--margin", "much"],
        ["--candidate", "new", "--baseline", "old", "--category", "cooking"],
    ],
)
def test_errors_have_an_exit_code_of_their_own(votes, arguments, capsys):
    assert main(["gate", votes, *arguments]) == 3
    assert main(["gate", "missing.csv", "--candidate", "x", "--baseline", "y"]) == 3
    assert capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::lrbtl.errors.LrbtlWarning")
def test_an_answer_stands_without_a_plan():
    """Where votes needed cannot be told: no score by the method, or votes that both were bad as an outcome."""
    one_sided = lrbtl.Battles.from_arrays(["x"] * 5, ["y"] * 5, [1] * 5)
    found = lrbtl.gate(one_sided, "x", "y", method="naive")
    assert found.exit_code == 2 and found.needed is None and "has no score" in str(found)
    json.dumps(found.to_dict(), allow_nan=False)
    words = ["model_a", "model_b", "tie", "both_bad"] * 10
    frame = {"model_a": ["x"] * 40, "model_b": ["y"] * 40, "winner": words}
    found = lrbtl.gate(lrbtl.Battles.from_frame(frame, both_bad="outcome"), "x", "y")
    assert found.decision == "cannot tell" and found.needed is None and "Elo points (" in str(found)
