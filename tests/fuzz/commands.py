"""Every command of `lrbtl`, with arguments drawn from its parser: what is added to `COMMANDS` is run here too."""

import argparse
import contextlib
import csv
import io
import json
import random
import shutil
from pathlib import Path
from typing import Any

from fuzz.surface import SECONDS, frame, limited, scores
from lrbtl.cli.main import COMMANDS, build_parser, main

OPTIONS_OF_ALL = ("help", "traceback")
USUAL = 0.8  # of the arguments are what they should be
NASTY = [
    "", " ", "-", "--", "-1", "0", "1", "2.5", "nan", "inf", "1e400", "9" * 400, "x", "m0", "a=b", "=", "m0=1", ",",
    "code=1,", "a,b,c,d,e", "*", "all", "auto", "\x1b[31m", "\u202e", "\ud800", "a\0b", "/", "~", "x" * 5000, "é", "{}",
    "[",
]  # fmt: skip
CONTROL = "\x1b\x07\x00\u2028\u202e"
KNOWN = {
    "n": ["10", "1.5"], "context": ["category"], "tags": ["tags"], "cluster": ["v", "v,day"], "weight": ["w"],
    "time": ["day"], "model_a": ["model_a"], "model_b": ["model_b"], "winner": ["winner"], "count": ["v"],
    "a": ["m0"], "b": ["m1"], "candidate": ["m0"], "baseline": ["m1"], "board": ["all", "code", "overall"],
    "category": ["code", "overall"], "rank": ["1", "auto"], "weights": ["equal", "code=1,maths=2"],
    "anchor": ["m0=1000"], "goal": ["first", "gaps", "top=2", "rank=m0", "gap=m0,m1"], "period": ["2", "day"],
    "covariate": ["length=n_a,n_b"], "control": ["none", "length"], "outcome": ["tie=drop"], "threads": ["1", "2"],
    "method": ["naive", "mle", "hierarchical"], "folds": ["2", "3"], "margin": ["10", "0.02"], "level": ["0.9"],
    "cost": ["m0=1"], "benchmark": ["code"], "model": ["m0"], "models": ["5"], "battles": ["50"], "contexts": ["2"],
    "seed": ["3"], "wait": ["0.1"], "looks": ["3"], "tuned_at": ["100"], "stop": ["100"], "top": ["2"],
}  # fmt: skip


def run_case(rng: random.Random, folder: Path) -> None:
    """Run a command, and look at its exit code and at what it printed."""
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    name = rng.choice(list(COMMANDS))
    files = write_files(folder)
    arguments = [name, *drawn_arguments(rng, name, folder, files)]
    said, failed = io.StringIO(), io.StringIO()
    with (
        limited(2 * SECONDS),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(failed),
    ):
        code = main(arguments)
    check_outcome(arguments, code, said.getvalue(), failed.getvalue())


def check_outcome(arguments: list[str], code: int, said: str, failed: str) -> None:
    """Raise where a command broke, failed without a word, or wrote what a terminal would obey."""
    if code not in (0, 1, 2, 3) or "lrbtl: unexpected" in failed or "Traceback" in failed:
        raise AssertionError(f"{arguments}: exit code {code}: {failed.strip()[-300:]}")
    if code and not (said + failed).strip():
        raise AssertionError(f"{arguments}: exit code {code} without a word")
    if any(char in said + failed for char in CONTROL):
        raise AssertionError(f"{arguments}: a control character on the terminal")


def write_files(folder: Path) -> dict[str, list[str]]:
    """Write votes, results, a state and a board; return what may be given for a parameter that names a file."""
    for name, columns in (("votes.csv", frame()), ("scores.csv", scores())):
        with (folder / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    (folder / "costs.json").write_text(json.dumps([{"model": "m0", "cost": 1}, {"model": "m1", "cost": 2}]))
    votes = ["votes.csv"] * 4 + ["scores.csv", "nothing.csv", "."]
    return {
        "file": votes, "files": votes, "before": votes, "after": votes, "meta": ["costs.json"],
        "state": ["new.lrbtl", "votes.csv"], "out": ["out.csv", "out.json", "out.md", "out.html", "out.txt", "out.png"],
    }  # fmt: skip


def drawn_arguments(rng: random.Random, name: str, folder: Path, files: dict[str, list[str]]) -> list[str]:
    """Return arguments for the parameters of a command: all that it needs, and a few of the others."""
    parser = build_parser([name])
    (commands,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    found: list[str] = []
    for action in commands.choices[name]._actions:
        if action.dest in OPTIONS_OF_ALL:
            continue
        needed = action.required or not action.option_strings
        if rng.random() > (0.98 if needed else 0.12):
            continue
        if action.option_strings:
            found.append(rng.choice(action.option_strings))
        if action.nargs != 0:
            found.append(drawn_value(rng, action, name, files))
    if name == "forecast" and rng.random() < USUAL:
        found[0:1] = ["scores.csv"]
    return found


def drawn_value(rng: random.Random, action: Any, name: str, files: dict[str, list[str]]) -> str:
    """Return a value for a parameter: one that it may have, or any."""
    if rng.random() > USUAL:
        return rng.choice(NASTY)
    if name == "demo" and action.dest == "out":
        return "demo"
    known = files.get(action.dest) or KNOWN.get(action.dest) or [*(action.choices or NASTY)]
    return str(rng.choice(known))
