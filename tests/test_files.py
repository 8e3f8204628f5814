"""Files that several processes and threads share: none is damaged, no vote is lost, nothing stays behind."""

import os
import subprocess
import sys
import threading
import time

import pytest

import lrbtl
from lrbtl import files
from lrbtl.cli.main import main
from lrbtl.errors import LockedFileError, OutputPathError
from lrbtl.files import locked, write_whole

posix = pytest.mark.skipif(os.name == "nt", reason="locks and links of POSIX")


def write(path, text):
    write_whole(path, lambda scratch: scratch.write_text(text))


def small(n):
    return lrbtl.Battles.from_arrays(["x", "y"], ["y", "z"], [1, 0.5], counts=[n, 1])


def test_threads_that_save_and_load_one_state_see_it_whole(tmp_path):
    path, damaged = tmp_path / "state.lrbtl", []
    small(1).save(path)

    def work(seed):
        for k in range(30):
            try:
                small(1 + (seed + k) % 7).save(path)
                assert 2 <= lrbtl.Battles.load(path).n_battles <= 8
            except Exception as error:
                damaged.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not damaged and os.listdir(tmp_path) == ["state.lrbtl"]


@posix
def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    victim, target = tmp_path / "victim", tmp_path / "board.csv"
    victim.write_text("precious")
    monkeypatch.setattr(files, "token_hex", lambda n: "00")
    (tmp_path / f".board.csv.00{files.SCRATCH}").symlink_to(victim)
    with pytest.raises(OutputPathError, match="cannot write"):
        write(target, "new")
    assert victim.read_text() == "precious" and not target.exists()
    (tmp_path / ".other.csv.lock").symlink_to(victim)
    with pytest.raises(OutputPathError, match="cannot lock"), locked(tmp_path / "other.csv"):
        pass
    assert victim.read_text() == "precious"


KILLED = """
import os, sys
from lrbtl.files import write_whole

def die(scratch):
    scratch.write_text("half")
    os.kill(os.getpid(), 9)

write_whole(sys.argv[1], die)
"""


@posix
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    path = tmp_path / "board.csv"
    write(path, "old")
    subprocess.run([sys.executable, "-c", KILLED, str(path)])
    (left,) = set(tmp_path.iterdir()) - {path}
    write(path, "new")  # it may be of a process that has just begun
    assert left.exists() and path.read_text() == "new"
    os.utime(left, (time.time() - 2 * files.STALE,) * 2)
    write(path, "newer")
    assert os.listdir(tmp_path) == ["board.csv"]


@posix
def test_a_slow_writer_is_not_taken_for_a_dead_one(tmp_path):
    path = tmp_path / "board.csv"

    def slow(scratch):
        scratch.write_text("slow")
        os.utime(scratch, (0, 0))
        write(path, "quick")

    write_whole(path, slow)
    assert path.read_text() == "slow"


def test_paths_that_no_file_can_have(tmp_path):
    for path in ("a\0b", 3.5, None):
        with pytest.raises(OutputPathError):
            write(path, "text")


def test_a_lock_is_waited_for_then_named(tmp_path):
    path, told = tmp_path / "state.lrbtl", []
    with locked(path):
        with pytest.raises(LockedFileError, match="being changed by another process") as caught:  # noqa: SIM117
            with locked(path, 0.1, lambda: told.append("waits")):
                pass
        assert caught.value.data == {"path": str(path.resolve()), "wait": 0.1} and told == ["waits"]
    with locked(path, 0.0):
        pass
    assert list(tmp_path.iterdir()) == []


ADDS = """
import sys
from lrbtl.cli.main import main

state, folder, who, n = sys.argv[1:]
for k in range(int(n)):
    path = f"{folder}/{who}-{k}.csv"
    with open(path, "w") as file:
        file.write(f"model_a,model_b,winner,voter\\nx,y,model_a,{who}{k}\\n")
    code = main(["add", state, path])
    if code:
        sys.exit(code)
"""


def test_processes_that_add_to_one_state_lose_no_vote(tmp_path):
    n = int(os.environ.get("LRBTL_ADDS", "8"))  # 100 for the campaign: 200 adds in all
    state = tmp_path / "state.lrbtl"
    arguments = [sys.executable, "-c", ADDS, str(state), str(tmp_path)]
    running = [subprocess.Popen([*arguments, who, str(n)], stderr=subprocess.DEVNULL) for who in "ab"]
    assert [process.wait() for process in running] == [0, 0]
    assert lrbtl.Battles.load(state).n_battles == 2 * n
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_add_gives_up_with_an_error_and_leaves_the_state_as_it_was(tmp_path, capsys):
    state, log = tmp_path / "state.lrbtl", tmp_path / "votes.csv"
    log.write_text("model_a,model_b,winner\nx,y,model_a\n")
    with locked(state):
        assert main(["add", str(state), str(log), "--wait", "0.05"]) == 1
    said = capsys.readouterr().err
    assert "waiting for another process" in said and "did not finish within 0.05 s" in said and not state.exists()


def test_add_names_the_file_at_which_it_stopped(tmp_path, capsys):
    state, good, bad = tmp_path / "state.lrbtl", tmp_path / "a.csv", tmp_path / "b.csv"
    good.write_text("model_a,model_b,winner\nx,y,model_a\n")
    bad.write_text("model_a,model_b,winner\nx,y,perhaps\n")
    main(["add", str(state), str(good)])
    before = state.read_bytes()
    third = tmp_path / "c.csv"
    third.write_text("model_a,model_b,winner\nx,z,model_a\n")
    assert main(["add", str(state), str(third), str(bad)]) == 1
    said = capsys.readouterr().err
    assert f"stopped at {bad}: nothing was added to {state}" in said and "perhaps" in said
    assert state.read_bytes() == before
