"""`lrbtl choose`, and costs in reports."""

import json

import pytest

from lrbtl.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("choose")
    assert main(["simulate", "--models", "6", "--contexts", "2", "--battles", "3000", "-o", str(folder / "v.csv")]) == 0
    rows = "\n".join(f"model_{k},{k + 1},{6 - k}" for k in range(6))
    (folder / "prices.csv").write_text(f"model,input,output\n{rows}\n")
    (folder / "scores.csv").write_text("model,math,code\nx,70,50\ny,60,41\nz,50,29\nw,40,\n")
    return folder


def run(capsys, *arguments):
    code = main([str(part) for part in arguments])
    return code, capsys.readouterr()


def test_a_table_of_costs(folder, capsys):
    out = [part for name in ("c.json", "c.csv", "c.png", "c.html") for part in ("--out", folder / name)]
    code, said = run(
        capsys,
        "choose",
        folder / "v.csv",
        "--cost",
        folder / "prices.csv",
        "--cost-column",
        "output",
        "--margin",
        40,
        *out,
    )
    assert code == 0 and "Choice between 6 models" in said.out and "Routing" in said.out
    content = json.loads((folder / "c.json").read_text())
    assert len(content["rows"]) == 6 and content["margin"] == 40 and (folder / "c.png").stat().st_size > 5000


def test_costs_of_single_models_and_own_weights(folder, capsys):
    costs = [part for k in range(3) for part in ("--cost", f"model_{k}={k + 1}")]
    code, said = run(capsys, "choose", folder / "v.csv", *costs, "--weights", "0=3,1=1", "--top", 1)
    assert code == 0 and "P(top 1)" in said.out and "no cost is known of 3 models" in said.out
    code, said = run(capsys, "choose", folder / "v.csv", *costs, "--board", "1")
    assert code == 0 and "in 1 by score" in said.out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "--cost"),
        (["--cost", "model_0=x"], 2, "MODEL=X with a number"),
        (["--cost", "prices.csv", "--cost", "model_0=1"], 2, "one table"),
        (["--cost", "model_0=1", "--cost", "model_1=1", "--cost-column", "x"], 2, "--cost-column names"),
        (["--cost", "nothing.csv"], 1, "No such file"),
        (["--cost", "model_0=1", "--cost", "model_0=2"], 2, "model_0 has a cost already"),
        (["--cost", "model_0=-1", "--cost", "model_1=1"], 1, "not negative"),
        (["--cost", "model_0=1", "--cost", "model_1=1", "--board", "all"], 2, "one board"),
        (["--cost", "model_0=1", "--cost", "model_1=1", "--margin", "-1"], 1, "--margin -1"),
    ],
)
def test_bad_options(folder, capsys, arguments, code, words):
    found, said = run(capsys, "choose", folder / "v.csv", *arguments)
    assert found == code and words in said.err


def test_reports_have_a_tab(folder, capsys):
    code, _ = run(
        capsys,
        "report",
        folder / "v.csv",
        "--cost",
        folder / "prices.csv",
        "--cost-column",
        "input",
        "-o",
        folder / "r.html",
    )
    assert code == 0 and '"title":"Choose"' in (folder / "r.html").read_text()
    costs = [part for text in ("x=3", "y=1", "z=0.5", "w=0.1") for part in ("--cost", text)]
    code, _ = run(capsys, "report", folder / "scores.csv", *costs, "-o", folder / "s.html")
    assert code == 0 and "<h2>Choose</h2>" in (folder / "s.html").read_text()
    code, said = run(capsys, "choose", folder / "scores.csv", *costs, "--margin", 20)
    assert code == 0 and "units of the results" in said.out
