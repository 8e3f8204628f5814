"""The doctor: what files are, what they support, and commands that then work."""

import json
import shlex

import pytest

from lrbtl.cli.main import main

HEAD = "model_a,model_b,winner,category,worker,tokens_a,tokens_b,tags,day,note\n"


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{a},{b},{w},{c},w{k % 12},{k},{2 * k},{'math;code' if k % 2 else 'code'},2026-01-{1 + k % 9},\n"
        for k, (a, b, w, c) in enumerate(
            [("x", "y", "model_a", "m"), ("y", "z", "tie", "n"), ("z", "x", "model_b", "m")] * 40
        )
    ]
    (tmp_path / "votes.csv").write_text(HEAD + "".join(rows))
    return "votes.csv"


def test_a_table_is_explained(log, capsys):
    assert main(["doctor", log]) == 0
    text = capsys.readouterr().out
    assert text.startswith("votes.csv: a table, 120 rows read as 120 battles")
    for line in (
        "outcomes    winner: model_a 40, tie 40, model_b 40",
        "categories  category (2)",
        "tags        tags (2)",
        "times       day (9)",
        "clusters    worker (12): votes that share one are not independent",
        "covariates  tokens_a, tokens_b: style that may have moved votes",
    ):
        assert line in text
    assert "note" not in text


def test_its_commands_work(log, capsys):
    main(["doctor", log])
    told = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  lrbtl ")]
    assert len(told) == 8
    for command in told:
        code = main(shlex.split(command)[1:])
        assert code in ((0, 1, 2) if " gate " in command else (0,)), command


def test_flags_are_tags(tmp_path, capsys):
    path = tmp_path / "votes.jsonl"
    rows = [
        {
            "model_a": "x",
            "model_b": "y",
            "winner": k % 2,
            "math": k % 3 == 0,
            "code": int(k % 4 == 0),
            "turns": [{"n": k}],
        }
        for k in range(60)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["doctor", str(path)]) == 0
    text = capsys.readouterr().out
    assert "flags       math, code: a vote may have several" in text and "--tags math,code --board all" in text
    assert "turns" not in text


def test_a_tools_file_is_named(tmp_path, capsys):
    path = tmp_path / "annotations.json"
    base = {"generator_1": "ref", "generator_2": "new", "annotator": "judge"}
    path.write_text(json.dumps([{**base, "instruction": f"q{k % 15}", "preference": 1.0 + k % 2} for k in range(40)] + [
        {**base, "instruction": "q", "preference": None}]))  # fmt: skip
    assert main(["doctor", str(path)]) == 0
    text = capsys.readouterr().out
    assert "AlpacaEval annotations, 40 rows" in text and "1 records left out: the annotator gave no preference" in text
    assert "clusters    question (15)" in text


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("votes.csv", "left_side,right_side\nx,y\n", "has 1 rows with left_side, right_side"),
        ("votes.csv", "a,b\n,\n", "no column holds a value"),
        ("votes.csv", "", "empty"),
        ("votes.docx", "x", "ending"),
    ],
)
def test_what_holds_no_battles_is_said(tmp_path, capsys, name, text, words):
    (tmp_path / name).write_text(text)
    assert main(["doctor", str(tmp_path / name)]) == 1
    assert words in capsys.readouterr().err


def test_one_category_is_none(tmp_path, capsys):
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner,language\n" + "x,y,model_a,en\ny,x,model_a,en\n" * 20)
    assert main(["doctor", str(path)]) == 0
    assert "--board all" not in capsys.readouterr().out
    assert main(["leaderboard", str(path)]) == 0
    assert "not shared" not in capsys.readouterr().out


def test_empty_cells_and_tags_of_all_votes_are_said(tmp_path, capsys):
    path = tmp_path / "votes.csv"
    rows = [
        f"{'xy'[k % 2]},{'yz'[k % 2]},model_{'aba'[k % 3]},{('en', '', 'de')[k % 3]},chat{('', ';code')[k % 2]}"
        for k in range(90)
    ]
    path.write_text("model_a,model_b,winner,language,tags\n" + "\n".join(rows) + "\n")
    assert main(["doctor", str(path)]) == 0
    text = capsys.readouterr().out
    assert "empty cells language (30 rows): fill them, or drop such rows, to use the column" in text
    assert "tags        tags (2); every vote has chat, whose board is that of all votes" in text
    commands = [line.split()[1:] for line in text.splitlines() if line.startswith("  lrbtl leaderboard")]
    assert len(commands) == 2
    path.write_text(path.read_text().replace("language,tags", "language,judge"))  # another column of categories
    assert main(["doctor", str(path)]) == 0
    text = capsys.readouterr().out
    commands += [line.split()[1:] for line in text.splitlines() if line.startswith("  lrbtl leaderboard")]
    assert ["--context", "judge"] in [command[-2:] for command in commands]
    for command in commands[2:]:
        assert main(command) == 0


def test_a_folder_of_a_tool_reads_like_its_files(tmp_path, capsys):
    base = {"generator_1": "ref", "annotator": "judge", "preference": 1.75}
    for model in ("new", "old"):
        rows = [{**base, "generator_2": model, "instruction": f"q{k}"} for k in range(40)]
        (tmp_path / f"{model}.json").write_text(json.dumps(rows))
    assert main(["doctor", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "AlpacaEval annotations, 80 rows read as 80 battles" in text and "clusters    question (40)" in text
