"""The command line: what it prints and writes, and one clear line for everything that can be wrong."""

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lrbtl
from lrbtl.cli.main import EXIT_FAILED, EXIT_OK, EXIT_USAGE, main

HEADER = "model_a,model_b,winner,category"
ROWS = [f"{a},{b},{winner},{category}" for category in ("code", "math") for a, b, winner in [
    ("x", "y", "model_a"), ("x", "y", "model_b"), ("y", "z", "model_a"), ("y", "z", "tie"), ("z", "x", "model_b"),
    ("z", "x", "model_b"), ("x", "y", "model_a"), ("z", "y", "both_bad"),
]] * 5  # fmt: skip


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    return path


def files_of(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def csv_of(*rows, header=HEADER):
    return "\n".join([header, *rows]) + "\n"


CUT = gzip.compress(csv_of(*np.random.default_rng(0).permutation(ROWS * 20)).encode())[:-60]
BAD = {
    "missing file": ("gone.csv", None, [], "no such file"),
    "huge path that does not exist": ("a/b/" + "c" * 200 + "/10GB.parquet", None, [], "no such file"),
    "folder": (".", None, [], "the folder holds no file"),
    "empty file": ("votes.csv", "", [], "empty"),
    "header only": ("votes.csv", HEADER + "\n", [], "no battles in the log"),
    "blank lines only": ("votes.jsonl", "\n\n\n", [], "no battles"),
    "binary file": ("votes.csv", bytes(range(256)) * 40, [], "votes.csv"),
    "picture named csv": ("votes.csv", b"\x89PNG\r\n\x1a\n" + bytes(100), [], "a picture"),
    "spreadsheet named csv": ("votes.csv", b"PK\x03\x04" + bytes(100), [], "spreadsheet"),
    "truncated gzip": ("votes.csv.gz", CUT, [], "cut off"),
    "plain text named gz": ("votes.csv.gz", csv_of(*ROWS), [], "not gzipped"),
    "unknown ending": ("votes.xyz", csv_of(*ROWS), [], "ending is not known"),
    "not UTF-8": ("votes.csv", csv_of("caf\xe9,y,model_a,code").encode("latin-1"), [], "UTF-8"),
    "JSON that is not UTF-8": ("votes.json", b'[{"model_a": "caf\xe9"}]', [], "it is not UTF-8 text"),
    "damaged parquet": ("votes.parquet", b"PAR1" + bytes(50), [], "Parquet"),
    "text named parquet": ("votes.parquet", csv_of(*ROWS), [], "Parquet"),
    "no winner column": ("votes.csv", csv_of("x,y,code", header="model_a,model_b,category"), [], "--winner COLUMN"),
    "wrong column": ("votes.csv", csv_of(*ROWS), ["--context", "categry"], "did you mean 'category'"),
    "repeated column": ("votes.csv", csv_of("x,y,tie,1", header="model_a,model_b,winner,winner"), [], "more than once"),
    "short row": ("votes.csv", csv_of(ROWS[0], "x,y"), [], "line 3 has 2 fields"),
    "empty cell": ("votes.csv", csv_of(ROWS[0], ",y,model_a,code"), [], "model_a is empty in row 2"),
    "unknown outcome word": ("votes.csv", csv_of(*ROWS, "x,y,links,code"), [], "'links' (1)"),
    "outcome out of range": ("votes.csv", csv_of("x,y,1,code", "x,y,7,code"), [], "7.0"),
    "outcome NaN": ("votes.csv", csv_of("x,y,1,code", "x,y,nan,code"), [], "nan"),
    "one model": ("votes.csv", csv_of("x,x,model_a,code"), [], "one model"),
    "only ties": ("votes.csv", csv_of(*["x,y,tie,code"] * 9), [], "every battle is a tie"),
    "ties dropped, none left": ("votes.csv", csv_of("x,y,tie,code"), ["--ties", "drop"], "no battles are left"),
    "mixed types": ("votes.jsonl", '{"model_a": "x", "model_b": 3, "winner": 1}\n', [], "mix labels"),
    "nested values": ("votes.jsonl", '{"model_a": ["x"], "model_b": "y", "winner": 1}\n', [], "cannot be labels"),
    "not JSON": ("votes.jsonl", '{"model_a": "x"', [], "line 1 is not JSON"),
    "JSON list": ("votes.jsonl", "[1, 2]\n", [], "not an object"),
    "JSON line lacks a key": (
        "votes.jsonl", '{"model_a": "x", "model_b": "y", "winner": 1}\n{"model_a": "x"}\n', [], "line 2 lacks 'model_b'"
    ),
    "JSON null": ("votes.jsonl", '{"model_a": null, "model_b": "y", "winner": 1}\n', [], "empty in row 1"),
    "counts that are words": ("votes.csv", csv_of("x,y,1,many", header="model_a,model_b,winner,count"), [], "'many'"),
    "counts that are broken": ("votes.csv", csv_of("x,y,1,2.5", header="model_a,model_b,winner,count"), [], "whole"),
    "unknown board": ("votes.csv", csv_of(*ROWS), ["--board", "maths"], "did you mean 'math'"),
    "unknown anchor": ("votes.csv", csv_of(*ROWS), ["--anchor", "w=1000"], "unknown model 'w'"),
    "rank too large": ("votes.csv", csv_of(*ROWS), ["--rank", "50"], "rank 50"),
    "weights of an unknown context": ("votes.csv", csv_of(*ROWS), ["--weights", "poems=1"], "'poems'"),
    "output folder missing": ("votes.csv", csv_of(*ROWS), ["--out", "nowhere/board.csv"], "folder does not exist"),
    "output is a folder": ("votes.csv", csv_of(*ROWS), ["--out", "sub.csv"], "it is a folder"),
    "output of unknown kind": ("votes.csv", csv_of(*ROWS), ["--out", "board.xls"], "ending must be one of"),
}  # fmt: skip
WRONG_USE = {
    "no command": [],
    "unknown command": ["rank"],
    "unknown option": ["leaderboard", "votes.csv", "--colour"],
    "unknown method": ["leaderboard", "votes.csv", "--method", "magic"],
    "level out of range": ["leaderboard", "votes.csv", "--level", "95"],
    "rank that is no number": ["leaderboard", "votes.csv", "--rank", "two"],
    "anchor without rating": ["leaderboard", "votes.csv", "--anchor", "x"],
    "weights without numbers": ["leaderboard", "votes.csv", "--weights", "code"],
    "outcome without meaning": ["leaderboard", "votes.csv", "--outcome", "left"],
    "one fold": ["leaderboard", "votes.csv", "--folds", "1"],
    "context and no context": ["leaderboard", "votes.csv", "--context", "category", "--no-context"],
    "compare needs two": ["compare", "votes.csv", "x"],
    "report needs a file": ["report", "votes.csv"],
}


def check_one_line(captured):
    lines = captured.err.splitlines()
    problems = [line for line in lines if "warning:" not in line]
    assert captured.out == ""
    assert problems[-1].startswith("lrbtl: ")
    assert "Traceback" not in captured.err
    assert "unexpected" not in captured.err
    return problems[-1]


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_line(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name, data, options, message = BAD[case]
    if data is not None:
        write(tmp_path / name, data)
    (tmp_path / "sub.csv").mkdir()
    before = files_of(tmp_path)
    out = [] if "--out" in options else ["--out", "board.csv"]
    assert main(["leaderboard", name, *options, *out]) == EXIT_FAILED
    assert message in check_one_line(capsys.readouterr())
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("case", WRONG_USE)
def test_wrong_use_gives_one_line(case, log, monkeypatch, capsys):
    monkeypatch.chdir(log.parent)
    before = files_of(log.parent)
    assert main(WRONG_USE[case]) == EXIT_USAGE
    check_one_line(capsys.readouterr())
    assert files_of(log.parent) == before


def test_unknown_options_name_the_command_and_the_nearest_one(log, capsys):
    assert main(["gate", str(log), "--candidate", "x", "--baseline", "y", "--jsn"]) == 3
    assert "--jsn; did you mean --json? (see lrbtl gate --help)" in capsys.readouterr().err


def test_no_permission(log, capsys):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    log.chmod(0)
    assert main(["leaderboard", str(log)]) == EXIT_FAILED
    assert "permission denied" in check_one_line(capsys.readouterr())


def test_board_is_printed_and_guesses_are_said(log, capsys):
    assert main(["leaderboard", str(log), "--rank", "1"]) == EXIT_OK
    captured = capsys.readouterr()
    assert captured.out.startswith("Leaderboard, overall: 3 models, 80 votes; categories weighted by votes")
    assert "contexts from column category" in captured.err
    assert "10 both_bad votes kept as ties" in captured.err


def test_both_bad_votes_can_be_dropped(log, capsys):
    assert main(["leaderboard", str(log), "--both-bad", "drop", "--no-context"]) == EXIT_OK
    captured = capsys.readouterr()
    assert "70 votes" in captured.out
    assert "10 both_bad votes dropped" in captured.err


def test_every_format_is_written(log, monkeypatch):
    monkeypatch.chdir(log.parent)
    outs = [f"board.{ending}" for ending in ("csv", "json", "md", "html", "txt", "svg", "png")]
    arguments = [part for out in outs for part in ("--out", out)]
    assert main(["leaderboard", str(log), "--board", "all", "--rank", "1", "--quiet", *arguments]) == EXIT_OK
    assert files_of(log.parent) == sorted([*outs, "votes.csv"])
    rows = list(csv.DictReader(Path("board.csv").read_text().splitlines()))
    assert [row["context"] for row in rows] == ["overall"] * 3 + ["code"] * 3 + ["math"] * 3
    assert json.loads(Path("board.json").read_text())["rows"][0]["model"] == rows[0]["model"]
    assert Path("board.md").read_text().count("\n| ") == 11
    assert Path("board.html").read_text().startswith("<!doctype html>")
    assert Path("board.png").read_bytes().startswith(b"\x89PNG")
    whole = Path("board.svg").stat().st_size
    assert main(["leaderboard", str(log), "--rank", "1", "--top", "1", "--quiet", "--out", "board.svg"]) == EXIT_OK
    assert Path("board.svg").stat().st_size < whole


def test_files_are_replaced_whole(log, monkeypatch):
    monkeypatch.chdir(log.parent)
    Path("board.csv").write_text("old")
    assert main(["leaderboard", str(log), "--no-context", "--quiet", "--out", "board.csv"]) == EXIT_OK
    assert Path("board.csv").read_text().startswith("model,rank,score,lower,upper,se")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    before = Path("board.csv").read_text()
    assert main(["leaderboard", str(log), "--no-context", "--quiet", "--out", "board.csv"]) == EXIT_FAILED
    assert Path("board.csv").read_text() == before
    assert files_of(log.parent) == ["board.csv", "votes.csv"]


@pytest.mark.parametrize("kind", ["csv.gz", "tsv", "jsonl", "jsonl.gz", "parquet"])
def test_formats_agree(kind, log, monkeypatch, capsys):
    monkeypatch.chdir(log.parent)
    rows = list(csv.DictReader(log.read_text().splitlines()))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    data = {
        "csv.gz": gzip.compress(log.read_bytes()),
        "tsv": log.read_bytes().replace(b",", b"\t"),
        "jsonl": lines.encode(),
        "jsonl.gz": gzip.compress(lines.encode()),
    }
    if kind == "parquet":
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), "other.parquet")
    else:
        write(Path(f"other.{kind}"), data[kind])
    assert main(["leaderboard", str(log), "--rank", "1"]) == EXIT_OK
    expected = capsys.readouterr()
    assert main(["leaderboard", f"other.{kind}", "--rank", "1"]) == EXIT_OK
    assert capsys.readouterr() == expected


def test_options_reach_the_board(log, capsys):
    board = ["--board", "code", "--scale", "logit", "--top", "2"]
    analysis = ["--rank", "1", "--weights", "equal", "--level", "0.9", "--progress", "--min-battles", "50"]
    assert main(["leaderboard", str(log), *board, *analysis]) == EXIT_OK
    captured = capsys.readouterr()
    assert "Leaderboard, code" in captured.out
    assert "log odds; 90% intervals" in captured.out
    assert len(captured.out.split("\nmodel ")[1].splitlines()) == 1 + 2
    assert main(["leaderboard", str(log), *board, *analysis, "--method", "efficient"]) == EXIT_OK
    captured = capsys.readouterr()
    assert len(captured.out.split("\nmodel ")[1].splitlines()) == 1 + 2
    assert "narrower than separate fits" in captured.out
    assert "fold 10 of 10" in captured.err


def test_few_votes_are_preliminary_and_weights_are_said(log, capsys):
    with log.open("a") as file:
        file.writelines(["w,x,model_a,code\n", "x,w,model_a,math\n", "w,y,model_b,code\n"])
    run = ["leaderboard", str(log), "--method", "mle", "--rank", "1", "--weights", "equal", "--out"]
    out = log.parent / "board.json"
    assert main([*run, str(out)]) == EXIT_OK
    text = capsys.readouterr().out
    assert "all categories weigh the same" in text
    assert "1 model has fewer than 30 votes: preliminary, unranked and excluded from the average" in text
    found = json.loads(out.read_text())
    assert [row["status"] for row in found["rows"]] == ["ranked"] * 3 + ["preliminary"]
    assert found["rows"][3]["rank"] is None and any("preliminary" in note for note in found["notes"])
    assert main([*run, str(out), "--min-battles", "3"]) == EXIT_OK
    assert "preliminary" not in out.read_text()


def test_anchor_and_compat(log, capsys):
    assert main(["leaderboard", str(log), "--compat", "arena-rank", "--anchor", "y=1200", "--quiet"]) == EXIT_OK
    assert main(["leaderboard", str(log), "--no-context", "--anchor", "y=1200"]) == EXIT_OK
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("y "))
    assert "1,200" in line


def test_other_column_names(tmp_path, capsys):
    rows = ["x,y,left,3", "y,x,left,2", "x,y,skip,1"]
    path = write(tmp_path / "log.csv", csv_of(*rows, header="Player_A,player_b,Result,count"))
    assert main(["leaderboard", str(path), "--outcome", "left=1", "--outcome", "skip=drop"]) == EXIT_OK
    captured = capsys.readouterr()
    assert "2 models, 5 votes" in captured.out
    assert "model_a from column Player_A" in captured.err


def test_thin_categories_can_be_left_out(log, capsys):
    with log.open("a") as file:
        file.write("x,y,model_a,poems\n")
    assert main(["leaderboard", str(log), "--rank", "1", "--min-level-battles", "5"]) == EXIT_OK
    captured = capsys.readouterr()
    assert "left out 1 of 3 levels of category with fewer than 5 battles: poems" in captured.err
    assert "80 votes" in captured.out


def test_compare(log, tmp_path, capsys):
    out = tmp_path / "pair.json"
    assert main(["compare", str(log), "x", "y", "--rank", "1", "--out", str(out)]) == EXIT_OK
    assert "x against y" in capsys.readouterr().out
    assert [row["context"] for row in json.loads(out.read_text())["rows"]] == ["overall", "code", "math"]


def test_compare_names_near_models(log, capsys):
    assert main(["compare", str(log), "x", "why"]) == EXIT_FAILED
    assert "unknown model 'why'" in check_one_line(capsys.readouterr())


def test_report_with_rank_sets(log, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert main(["report", str(log), "-o", str(out), "--rank", "1", "--rank-sets", "2"]) == EXIT_OK
    page = out.read_text()
    assert "Rank sets" in page and "rank_lower" in page and "Top 2" in page and "possible" in page
    assert main(["report", str(log), "-o", str(out), "--rank-sets", "0"]) != EXIT_OK
    assert "k=0" in capsys.readouterr().err


def test_report(log, tmp_path):
    out = tmp_path / "report.html"
    assert main(["report", str(log), "-o", str(out), "--rank", "1", "--title", "<Spring>"]) == EXIT_OK
    assert "&lt;Spring&gt;" in out.read_text()


@pytest.fixture
def judged(tmp_path):
    path = tmp_path / "judged.csv"
    rows = [f"{row},{judge}" for row in ROWS for judge in ("crowd", "expert")]
    path.write_text(csv_of(*rows, header=HEADER + ",judge"))
    return [str(path), "--context", "category", "--context", "judge"]


@pytest.mark.parametrize(
    ("board", "heading"),
    [
        ("math / crowd", "Leaderboard, math / crowd:"),
        ("math/crowd", "Leaderboard, math / crowd:"),
        ("math / *", "Leaderboard, math / *:"),
        ("judge=crowd", "Leaderboard, * / crowd:"),
        ("judge=crowd, category=code", "Leaderboard, code / crowd:"),
    ],
)
def test_boards_of_several_columns(judged, board, heading, capsys):
    assert main(["leaderboard", *judged, "--method", "naive", "--board", board]) == EXIT_OK
    assert capsys.readouterr().out.startswith(heading)


def test_a_board_is_checked_before_anything_is_computed(judged, monkeypatch, capsys):
    monkeypatch.setattr("lrbtl.cli.commands.leaderboard", None)
    for board, message in (
        ("math", "join one level of each by ' / ', * for the mean over a mode"),
        ("math / experts", "did you mean 'expert'?"),
        ("jugde=crowd", "did you mean 'judge'?"),
    ):
        assert main(["leaderboard", *judged, "--board", board]) == EXIT_FAILED
        assert check_one_line(capsys.readouterr()).endswith((message, message + "."))


def test_categories_called_all_and_overall(log, capsys):
    text = log.read_text()
    log.write_text(text.replace(",code", ",all").replace(",math", ",overall"))
    run = ["leaderboard", str(log), "--method", "naive", "--board"]
    headings = {}
    for board in ("overall", "category=overall", "category=all"):
        assert main([*run, board]) == EXIT_OK
        headings[board] = capsys.readouterr().out.splitlines()[0].split(":")[0]
    assert list(headings.values()) == ["Leaderboard, overall", 'Leaderboard, context "overall"', "Leaderboard, all"]


def test_fastchat_boards_have_no_empty_columns(log, capsys):
    assert main(["leaderboard", str(log), "--compat", "fastchat"]) == EXIT_OK
    assert "nan" not in capsys.readouterr().out


def test_guesses_are_one_line(tmp_path, capsys):
    path = write(tmp_path / "games.csv", csv_of(*ROWS, header="home_team,away_team,result,task"))
    assert main(["leaderboard", str(path), "--method", "naive", "--quiet"]) == EXIT_OK
    said = [line for line in capsys.readouterr().err.splitlines() if "guessed" in line]
    assert len(said) == 1
    assert "guessed model_a from column home_team, model_b from column away_team, winner from column result" in said[0]
    assert "contexts from column task (--context COLUMN names another, --no-context uses none)" in said[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rank", "0"], "--rank 0: give a whole number from 1"),
        (["--rank", "50"], "--rank 50 is not possible for scores of shape (3, 2): choose 1 to 2."),
        (["--link", "probit", "--method", "naive"], "it takes battles and --link logistic only."),
        (["--compat", "fastchat", "--scale", "logit"], "leave --scale logit out."),
        (["--no-context", "--board", "math"], "leave --board out, or name a column with --context"),
        (["--top", "0"], "--top 0: give at least 1."),
        (["--min-level-battles", "900"], "--min-level-battles 900: no level of category has that many"),
        (["--min-battles", "0"], "--min-battles 0: give at least 1."),
    ],
)
def test_errors_speak_of_options(log, options, message, capsys):
    assert main(["leaderboard", str(log), *options]) != EXIT_OK
    line = check_one_line(capsys.readouterr())
    assert message in line
    assert "=" not in line and "?." not in line and ".." not in line


def test_diagnose(tmp_path, capsys):
    out = tmp_path / "votes.csv"
    assert main(["simulate", "--models", "8", "--battles", "6000", "--out", str(out)]) == EXIT_OK
    with out.open("a") as file:
        file.write("newcomer,model_0,model_a,0\n")
    assert main(["diagnose", str(out)]) == EXIT_OK
    text = capsys.readouterr().out
    assert "Battles: 6,001 battles" in text and "Verdict: ready to publish" in text
    assert "Win rates of the favourite by size of the gap" in text
    assert main(["diagnose", str(out), "--rank", "1", "--method", "efficient"]) == EXIT_OK
    text = capsys.readouterr().out
    assert "Verdict: prefer hierarchical" in text and "--method hierarchical" in text


def test_simulate_feeds_leaderboard(tmp_path, capsys):
    out = tmp_path / "votes.csv.gz"
    assert main(["simulate", "--models", "6", "--contexts", "3", "--battles", "3000", "--out", str(out)]) == EXIT_OK
    assert main(["leaderboard", str(out), "--rank", "2"]) == EXIT_OK
    assert "6 models, 3,000 votes" in capsys.readouterr().out
    first = out.read_bytes()
    assert main(["simulate", "--models", "6", "--contexts", "3", "--battles", "3000", "--out", str(out)]) == EXIT_OK
    assert out.read_bytes() == first


@pytest.mark.parametrize("arguments", [["simulate", "--out", "x.gz"], ["simulate", "--models", "1", "--out", "x.csv"]])
def test_simulate_refuses(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == EXIT_FAILED
    check_one_line(capsys.readouterr())
    assert files_of(tmp_path) == []


def test_help_shows_examples(capsys):
    assert main(["--help"]) == EXIT_OK
    assert "lrbtl leaderboard votes.csv" in capsys.readouterr().out
    assert main(["leaderboard", "--help"]) == EXIT_OK
    assert "--both-bad" in capsys.readouterr().out


def test_traceback_on_request(capsys):
    assert main(["leaderboard", "gone.csv", "--traceback"]) == EXIT_FAILED
    assert "Traceback" in capsys.readouterr().err


def test_a_closed_pipe_is_no_error(log):
    command = f"{sys.executable} -m lrbtl.cli.main leaderboard {log} --no-context | head -n 1"
    run = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert run.stdout.startswith("Leaderboard")
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_files_are_written_whoever_reads_what_is_printed(stream, log, tmp_path):
    """A full device in the place of a stream: outputs come first, and what goes to stderr is no result."""
    out = tmp_path / "board.csv"
    command = [sys.executable, "-m", "lrbtl", "leaderboard", str(log), "--out", str(out)]
    with open("/dev/full", "w") as full:
        run = subprocess.run(command, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: full}, text=True)
    assert out.read_text().startswith("model,rank") and "Traceback" not in (run.stderr or "")
    assert run.returncode == (EXIT_FAILED if stream == "stdout" else EXIT_OK)


def test_python_m_is_the_command_line():
    run = subprocess.run([sys.executable, "-m", "lrbtl", "--version"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, f"lrbtl {lrbtl.__version__}\n")


def test_works_without_frame_libraries(log):
    code = (
        "import sys\n"
        "for name in ('pandas', 'polars', 'pyarrow', 'matplotlib'): sys.modules[name] = None\n"
        "from lrbtl.cli.main import main\n"
        f"sys.exit(main(['leaderboard', {str(log)!r}, '--rank', '1']))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "3 models" in run.stdout


def test_parquet_without_pyarrow_names_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = write(tmp_path / "votes.parquet", b"PAR1" + bytes(50))
    assert main(["leaderboard", str(path)]) == EXIT_FAILED
    assert "need pyarrow" in check_one_line(capsys.readouterr())
