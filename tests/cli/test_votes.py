"""Covariates, position, weights and clusters on the command line."""

import csv

import numpy as np
import pytest

from lrbtl.cli.main import main


@pytest.fixture
def log(tmp_path):
    rng = np.random.default_rng(0)
    n = 1500
    a = rng.integers(0, 3, n)
    b = (a + rng.integers(1, 3, n)) % 3
    tokens = rng.integers(20, 800, (2, n))
    x = (tokens[0] - tokens[1]) / tokens.sum(axis=0)
    won = rng.random(n) < 1 / (1 + np.exp(-(0.3 * (a - b) + x + 0.2)))
    path = tmp_path / "votes.csv"
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["model_a", "model_b", "winner", "task", "tokens_a", "tokens_b", "voter", "w"])
        for i in range(n):
            winner = "model_a" if won[i] else "model_b"
            rows.writerow([f"m{a[i]}", f"m{b[i]}", winner, "xy"[i % 2], *tokens[:, i], i % 50, 1 + i % 3])
    return str(path)


def run(*words):
    return main(["leaderboard", *words, "--method", "naive"])


def test_board_with_everything(log, capsys):
    fields = ["--covariate", "length=tokens_a,tokens_b", "--position", "--weight", "w", "--cluster", "voter"]
    assert run(log, *fields) == 0
    out = capsys.readouterr().out
    assert "held fixed: 400 more tokens against 400: +" in out and "held fixed: shown first: +" in out
    assert "effective sample size" in out
    assert run(log, *fields, "--control", "none", "--reweight", "pairs") == 0
    assert "held fixed" not in capsys.readouterr().out
    assert run(log, *fields, "--control", "length", "--effects", "by_context") == 0
    assert "tokens against 400 in x" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--covariate", "length=tokens_a,tokens_q"], "no column 'tokens_q'"),
        (["--covariate", "length=tokens_a,tokens_b,cube"], "'cube' is not known"),
        (["--covariate", "length=,"], "write NAME=A,B"),
        (["--covariate", "task"], "not numbers"),
        (["--weight", "task"], "not numbers"),
        (["--cluster", "vote"], "did you mean 'voter'"),
    ],
)
def test_wrong_options_are_named(log, capsys, words, message):
    assert run(log, *words) != 0
    assert message in capsys.readouterr().err


def test_parquet_carries_the_same(log, tmp_path, capsys):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    csv_reader = pytest.importorskip("pyarrow.csv")
    pq.write_table(csv_reader.read_csv(log), tmp_path / "votes.parquet")
    assert pa is not None
    fields = ["--covariate", "length=tokens_a,tokens_b", "--weight", "w", "--cluster", "voter,task", "--quiet"]
    outs = []
    for path in (log, str(tmp_path / "votes.parquet")):
        assert run(path, *fields[:-1]) == 0
        seen = capsys.readouterr()
        assert "2 clusters by task" in seen.err
        outs.append(seen.out)
    assert outs[0] == outs[1]
