"""Commands about other times, errors as JSON, and files of one board."""

import csv
import json
import subprocess
import sys
from dataclasses import replace

import pytest

import lrbtl
from lrbtl.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions")
    truth = lrbtl.simulate_scores((6, 2), 1, scale=1.0, rng=0)
    battles = replace(lrbtl.simulate_battles(truth, 4000, rng=1), levels=(("code", "math"),), mode_names=("task",))
    battles.save(folder / "new.lrbtl")
    battles.split(2)[0][0].save(folder / "old.lrbtl")
    assert main(["simulate", "--models", "6", "--contexts", "2", "--battles", "2000", "-o", str(folder / "v.csv")]) == 0
    return folder


def run(capsys, *arguments):
    code = main([str(part) for part in arguments])
    return code, capsys.readouterr().out


def table(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_changes_between_states_and_between_saved_boards(folder, capsys):
    code, said = run(capsys, "changes", folder / "old.lrbtl", folder / "new.lrbtl", "--out", folder / "changes.json")
    assert code == 0 and "2,000 votes before, 4,000 after, 2,000 of them the same" in said
    assert len(json.loads((folder / "changes.json").read_text())["rows"]) == 6
    for name in ("old", "new"):
        assert run(capsys, "leaderboard", folder / f"{name}.lrbtl", "--out", folder / f"{name}.json")[0] == 0
    code, said = run(capsys, "changes", folder / "old.json", folder / "new.json")
    assert code == 0 and "saved boards do not know their votes" in said
    assert run(capsys, "changes", folder / "old.json", folder / "new.lrbtl")[0] == 2
    boards = [lrbtl.Leaderboard.from_json((folder / f"{name}.json").read_text()) for name in ("old", "new")]
    found = lrbtl.changes(*boards)
    exact = lrbtl.changes(*(lrbtl.leaderboard(lrbtl.Battles.load(folder / f"{name}.lrbtl")) for name in ("old", "new")))
    assert found.models == exact.models and abs(found.change - exact.change).max() < 1e-6
    assert (found.se > exact.se).all()  # no vote is known to be the same


def test_history_of_a_file(folder, capsys):
    rows = table(folder / "v.csv")
    with (folder / "timed.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [*rows[0], "when"])
        writer.writeheader()
        writer.writerows({**row, "when": 1_700_000_000 + 40_000 * k} for k, row in enumerate(rows))
    code, said = run(capsys, "history", folder / "timed.csv", "--time", "when", "--period", "quarter")
    assert code == 0 and "2023-Q4" in said
    code, said = run(capsys, "history", folder / "timed.csv", "--time", "when", "--out", folder / "history.csv")
    assert code == 0 and len(set(row["period"] for row in table(folder / "history.csv"))) <= 120


def test_a_history_is_of_all_votes(folder, capsys):
    code, _ = run(capsys, "history", folder / "new.lrbtl", "--time", "day", "--context", "task")
    assert code == 2


def test_plans_and_votes_needed(folder, capsys):
    code, said = run(capsys, "plan", folder / "new.lrbtl", "300", "--goal", "top=2", "--category", "code")
    assert code == 0 and "who the top 2 are" in said
    assert run(capsys, "plan", folder / "new.lrbtl", "300", "--goal", "best")[0] == 2
    code, said = run(capsys, "votes-needed", folder / "new.lrbtl", "model_0", "model_1", "--half-width", "10", "--json")
    assert code == 0 and json.loads(said)["votes"] > 0


def test_gate_writes_errors_as_json_too(folder, capsys):
    arguments = ["gate", str(folder / "v.csv"), "--candidate", "nobody", "--baseline", "model_00", "--json"]
    code, said = run(capsys, *arguments)
    found = json.loads(said)
    assert code == 3 and found["decision"] == "no decision" and found["error"] == "unknown-model"
    assert found["data"]["value"] == "nobody" and "unknown model 'nobody'" in found["message"]


def test_files_of_one_board_carry_its_category_and_honour_top(folder, capsys):
    board = ["leaderboard", folder / "new.lrbtl", "--board", "math", "--top", "2", "--quiet"]
    assert run(capsys, *board, "--out", folder / "b.csv", "--out", folder / "b.md")[0] == 0
    rows = table(folder / "b.csv")
    assert len(rows) == 2 and {row["context"] for row in rows} == {"math"}
    text = (folder / "b.md").read_text()
    assert text.startswith("# Leaderboard of new.lrbtl: math") and text.count("\n| math |") == 2
    assert run(capsys, *board[:2], "--board", "all", "--top", "1", "--quiet", "--out", folder / "all.csv")[0] == 0
    assert [row["context"] for row in table(folder / "all.csv")] == ["overall", "code", "math"]


def test_help_needs_no_numerics():
    code = "import sys; from lrbtl.cli.main import main; main(['--help']); sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
