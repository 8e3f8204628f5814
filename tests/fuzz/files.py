"""Files of any content through the command line: exit codes, never a traceback, outputs whole or not at all."""

import contextlib
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.values import NASTY_LABELS, WORDS, pick_column, plain_labels
from lrbtl.cli.main import main

TEXTS = [label for label in NASTY_LABELS if isinstance(label, str)]
COMMANDS = ["leaderboard", "leaderboard", "compare", "diagnose", "report"]
ENDINGS = [".csv", ".json", ".md", ".html", ".txt"]


def run_case(rng: random.Random, folder: Path) -> None:
    """Write a file, run a command on it, and look at what it said."""
    path = write_file(rng, folder)
    command = rng.choice(COMMANDS)
    arguments = [command, str(path)]
    if command == "compare":
        arguments += rng.sample(["m0", "m1", "m2", "", "x", "=1+1"], 2)
    out = folder / f"out{rng.choice(ENDINGS)}"
    if command == "report":
        out = folder / "out.html"
        arguments += ["-o", str(out)]
    elif command in ("leaderboard", "compare") and rng.random() < 0.5:
        arguments += ["--out", str(out)]
    arguments += rng.choice(
        [
            [],
            [],
            ["--no-context"],
            ["--seed", "-1"],
            ["--board", "all"],
            ["--top", "2"],
            ["--method", "naive"],
            ["--folds", "x"],
        ]
    )
    said, failed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(failed):
        code = main(arguments)
    text = failed.getvalue()
    if code not in (0, 1, 2) or "lrbtl: unexpected" in text or "Traceback" in text:
        raise AssertionError(f"exit code {code}: {text.strip()[-300:]}")
    if code and not text.strip():
        raise AssertionError(f"exit code {code} without a word")
    if any(char in said.getvalue() + text for char in "\x1b\x07\x00\u2028\u202e"):
        raise AssertionError("a control character on the terminal")
    (said.getvalue() + text).encode("utf-8")
    if out.exists() and out.suffix == ".json":
        json.loads(out.read_text(encoding="utf-8"))
    for left in folder.iterdir():
        left.unlink()


def write_file(rng: random.Random, folder: Path) -> Path:
    """Return a file of votes, damaged or not."""
    n = rng.choice([0, 1, 5, 40])
    label = (lambda: plain_labels(rng, n)) if rng.random() < 0.6 else (lambda: pick_column(rng, TEXTS, n))
    columns: dict[str, list[Any]] = {
        "model_a": label(),
        "model_b": label(),
        "winner": pick_column(rng, WORDS[:3] if rng.random() < 0.7 else WORDS, n),
        "category": label(),
    }
    kind = rng.choice(["csv", "csv", "jsonl", "jsonl", "parquet", "gz", "bytes", "nested", "digits", "json"])
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if kind == "parquet":
        path = folder / "log.parquet"
        with contextlib.suppress(pa.ArrowException, UnicodeError):
            pq.write_table(pa.table({name: pa.array(map(str, column)) for name, column in columns.items()}), path)
        data = path.read_bytes() if path.exists() else b""
    elif kind == "jsonl":
        path, data = folder / "log.jsonl", "\n".join(map(json.dumps, rows)).encode()
    elif kind == "json":
        path, data = folder / "log.json", json.dumps(rows).encode()
    elif kind == "nested":
        path, data = folder / "log.jsonl", b'{"model_a": ' + b"[" * 100_000
    elif kind == "digits":
        path, data = folder / "log.jsonl", b'{"model_a": "x", "model_b": "y", "winner": ' + b"9" * 5000 + b"}"
    elif kind == "bytes":
        path, data = (
            folder / rng.choice(["log.csv", "log.jsonl", "log.parquet", "log.gz", "log", "log.xyz"]),
            rng.randbytes(rng.choice([0, 3, 200])),
        )
    else:
        delimiter = rng.choice([",", ",", ";", "\t"])
        lines = [delimiter.join(columns)] + [delimiter.join(map(str, row.values())) for row in rows]
        path, data = folder / "log.csv", rng.choice(["\n", "\r\n"]).join(lines).encode("utf-8", "surrogatepass")
        if rng.random() < 0.1:
            data = b"\xef\xbb\xbf" + data
    if kind == "gz":
        path, data = folder / "log.csv.gz", gzip.compress(data)
    if data and rng.random() < 0.2:  # damage
        at = rng.randrange(len(data))
        data = rng.choice(
            [data[:at], data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :], data + b"\x00\xff", data * 2]
        )
    path.write_bytes(data)
    return path
