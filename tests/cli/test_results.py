"""Commands on files of results."""

import pytest

from lrbtl.cli.main import main

ROWS = "model,math,code,law\n" + "\n".join(
    f"m{k},{20 + 8 * k},{10 + 9 * k if k % 3 else ''},{30 + 6 * k}" for k in range(8)
)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text(ROWS + "\n")
    return str(path)


def test_forecast(table, tmp_path, capsys):
    out = tmp_path / "forecast.csv"
    assert main(["forecast", table, "--model", "m3", "--out", str(out)]) == 0
    assert "m3" in capsys.readouterr().out
    header, row = out.read_text().splitlines()
    assert header == "model,benchmark,estimate,lower,upper,rests_on" and row.startswith("m3,code,")
    assert main(["forecast", table, "--level", "2"]) == 2
    assert main(["forecast", table, "--model", "m33"]) == 1
    assert "did you mean 'm3'" in capsys.readouterr().err


def test_other_commands_know_such_files(table, tmp_path, capsys):
    assert main(["leaderboard", table, "--top", "2"]) == 0
    assert "measured on 3 of 3" in capsys.readouterr().out
    assert main(["leaderboard", table, "--board", "math"]) == 0
    assert main(["doctor", table]) == 0
    assert "lrbtl forecast" in capsys.readouterr().out
    assert main(["plan", table, "2", "--cost", "code=2", "--model", "m3"]) == 0
    assert "code" in capsys.readouterr().out
    assert main(["plan", table, "2", "--cost", "code=x"]) == 2
    page = tmp_path / "page.html"
    assert main(["report", table, "-o", str(page)]) == 0
    text = page.read_text()
    assert "Forecasts by model" in text and "<summary>m3</summary>" in text
