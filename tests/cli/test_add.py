"""`lrbtl add`: states that grow by files, each of which counts once."""

import gzip
import io
import sys

import pytest

import lrbtl
from lrbtl.cli.main import main

HEADER = "model_a,model_b,winner,task\n"
DAYS = [HEADER + "x,y,model_a,code\ny,z,tie,chat\n", HEADER + "z,w,model_b,code\nx,z,model_a,code\n"]


@pytest.fixture
def days(tmp_path):
    paths = [tmp_path / f"day{k}.csv" for k in range(2)]
    for path, text in zip(paths, DAYS, strict=True):
        path.write_text(text)
    return paths


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state.lrbtl"


def run(*arguments):
    return main([str(part) for part in arguments])


def test_a_state_grows(days, state, capsys):
    assert run("add", state, days[0]) == 0
    assert lrbtl.Battles.load(state).n_battles == 2
    assert run("add", state, days[1]) == 0
    said = capsys.readouterr().err
    assert f"{state} holds 4 battles of 2 files" in said
    battles = lrbtl.Battles.load(state)
    assert battles.mode_names == ("task",) and battles.models == ("w", "x", "y", "z")
    whole = lrbtl.Battles.scan(days, contexts="task")
    assert battles.cells.count.tolist() == whole.cells.count.tolist()


def test_notes_of_many_nights_are_added_up(state, tmp_path, capsys):
    for k in range(3):
        (tmp_path / f"{k}.csv").write_text(f"model_a,model_b,winner\nx,y,both_bad\ny,x,model_a\nx,y,0.{k + 1}\n")
        assert run("add", state, tmp_path / f"{k}.csv") == 0
    assert lrbtl.Battles.load(state).notes == ("3 both_bad votes kept as ties",)


def test_a_file_counts_once(days, state, tmp_path, capsys):
    run("add", state, *days)
    before = state.read_bytes()
    copy = tmp_path / "copy.csv"
    copy.write_text(DAYS[0])
    assert run("add", state, copy) == 1
    said = capsys.readouterr().err
    assert "copy.csv went into" in said and "day0.csv. Give --again" in said
    assert f"stopped at {copy}: nothing was added to {state}" in said
    assert state.read_bytes() == before
    assert run("add", state, copy, "--again") == 0
    assert lrbtl.Battles.load(state).n_battles == 6
    assert run("add", tmp_path / "new.lrbtl", days[0], copy) == 1 and not (tmp_path / "new.lrbtl").exists()


def test_folders_bring_what_is_new(days, state, capsys):
    assert run("add", state, days[0]) == 0
    assert run("add", state, days[0].parent) == 0
    said = capsys.readouterr().err
    assert "day0.csv: went in before, left out" in said and "day1.csv: 2 battles" in said
    before = state.stat().st_mtime_ns
    assert run("add", state, days[0].parent / "*.csv") == 0
    assert state.stat().st_mtime_ns == before


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress])
def test_standard_input(days, state, monkeypatch, capsys, pack):
    def from_input(*arguments):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(DAYS[0].encode()))))
        return run(*arguments)

    assert from_input("add", state, "-") == 0
    assert lrbtl.Battles.load(state).n_battles == 2
    assert from_input("leaderboard", "-", "--rank", "1", "--quiet", "--out", state.parent / "board.md") == 0
    assert "Leaderboard of standard input" in (state.parent / "board.md").read_text()
    if pack is not gzip.compress:  # which writes the time
        assert from_input("add", state, "-") == 1


def test_every_command_reads_states_and_folders(days, state, capsys):
    run("add", state, *days)
    capsys.readouterr()
    boards = []
    for source in (state, days[0].parent):
        assert run("leaderboard", source, "--rank", "1", "--min-battles", "1") == 0
        boards.append(capsys.readouterr().out)
    assert boards[0] == boards[1]
    assert run("compare", state, "x", "y", "--rank", "1") == 0
    assert run("leaderboard", state, "--no-context", "--context", "task") == 2
    assert run("leaderboard", state, "--context", "task", "--rank", "1") == 0
    assert run("leaderboard", state, "--no-context") == 0
    capsys.readouterr()
    assert run("leaderboard", state, "--winner", "w") == 1
    assert "columns can be named for logs only" in capsys.readouterr().err


def test_other_columns_and_damage_are_refused(days, state, tmp_path, capsys):
    run("add", state, days[0])
    plain = tmp_path / "plain.csv"
    plain.write_text("model_a,model_b,winner\nx,y,tie\n")
    assert run("add", state, plain) == 1
    assert "there is no column 'task'" in capsys.readouterr().err
    state.write_bytes(state.read_bytes()[:-9])
    assert run("add", state, days[1]) == 1
    assert "damaged or cut off" in capsys.readouterr().err
    assert run("add", tmp_path / "state.csv", days[0]) == 1
    assert run("add", tmp_path / "new.lrbtl", tmp_path / "none.csv") == 1
    assert "no such file" in capsys.readouterr().err
