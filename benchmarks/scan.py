"""Logs larger than memory: `Battles.scan` against pyarrow reading the same columns dictionary-coded, and a saved state.

python benchmarks/scan.py --rows 100000000

Every measurement is a process of its own, in turns; the best of each kind counts. CPU seconds are those of all threads.
Batches of pyarrow have as many rows as those of `scan`; both may use all cores, or both are kept to one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lrbtl.data.logs import BATCH_ROWS
from replications import keep_results

N_MODELS, N_CATEGORIES, ROWS_PER_FILE, ROWS_PER_GROUP = 200, 10, 10_000_000, 1_000_000
COLUMNS = ["category", "model_a", "model_b", "winner"]
PAIRS = [
    ("Battles.scan", "pyarrow, whole table"),
    ("Battles.scan", "pyarrow, batch by batch"),
    ("Battles.scan, one core", "pyarrow, batch by batch, one core"),
]


def write_log(folder: Path, n_rows: int) -> None:
    """Parquet files of strings; popular models play more."""
    rng = np.random.default_rng(0)
    models = pa.array([f"provider/model-{k:03d}-instruct" for k in range(N_MODELS)])
    categories = pa.array([f"category {k}" for k in range(N_CATEGORIES)])
    words = pa.array(["model_a", "model_b", "tie"])
    popularity = np.cumsum(rng.dirichlet(np.ones(N_MODELS)))
    for number, first in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        writer = None
        for lo in range(first, min(first + ROWS_PER_FILE, n_rows), ROWS_PER_GROUP):
            n = min(ROWS_PER_GROUP, n_rows - lo)
            a = np.minimum(np.searchsorted(popularity, rng.random(n)), N_MODELS - 1)
            b = (a + rng.integers(1, N_MODELS, n)) % N_MODELS
            table = pa.table(
                {
                    "model_a": models.take(pa.array(a)),
                    "model_b": models.take(pa.array(b)),
                    "winner": words.take(pa.array(rng.integers(0, 3, n))),
                    "category": categories.take(pa.array(rng.integers(0, N_CATEGORIES, n))),
                    "seconds": pa.array(rng.random(n)),
                }
            )
            writer = writer or pq.ParquetWriter(folder / f"part-{number:03d}.parquet", table.schema)
            writer.write_table(table)
        writer.close()


def read_whole(folder: Path) -> int:
    return pq.read_table(sorted(folder.glob("*.parquet")), columns=COLUMNS, read_dictionary=COLUMNS).num_rows


def read_batches(folder: Path) -> int:
    total = 0
    for path in sorted(folder.glob("*.parquet")):
        file = pq.ParquetFile(path, read_dictionary=COLUMNS)
        total += sum(batch.num_rows for batch in file.iter_batches(BATCH_ROWS, columns=COLUMNS))
    return total


def scan(folder: Path) -> int:
    import lrbtl

    return lrbtl.Battles.scan(folder, contexts="category").n_battles


def load(folder: Path) -> int:
    import lrbtl

    return lrbtl.Battles.load(folder / "state.lrbtl").n_battles


KINDS: dict[str, Callable[[Path], int]] = {
    "pyarrow, whole table": read_whole,
    "pyarrow, batch by batch": read_batches,
    "Battles.scan": scan,
    "pyarrow, batch by batch, one core": read_batches,
    "Battles.scan, one core": scan,
    "Battles.load": load,
}


def measure(kind: str, folder: Path) -> dict[str, float]:
    """Seconds and peak memory of one call in this process; imports are not counted."""
    import narwhals  # noqa: F401
    import pyarrow.dataset  # noqa: F401

    import lrbtl

    if "one core" in kind:
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        pa.set_cpu_count(1)
    lrbtl.Battles.from_frame({"model_a": ["x"], "model_b": ["y"], "winner": [1.0]}).save(folder / "warm.lrbtl")
    lrbtl.Battles.load(folder / "warm.lrbtl")
    base = peak_memory()
    wall, cpu = time.perf_counter(), time.process_time()
    n_rows = KINDS[kind](folder)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"rows": n_rows, "seconds": wall, "cpu_seconds": cpu, "peak_mb": peak_memory(), "imports_mb": base}


def peak_memory() -> float:
    """Largest resident memory of this process so far, in MB; getrusage would count its parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure_apart(kind: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", kind, "--folder", str(folder)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--measure", choices=KINDS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.folder)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        if not list(folder.glob("*.parquet")):
            write_log(folder, options.rows)
        import lrbtl

        battles = lrbtl.Battles.scan(folder, contexts="category")
        battles.save(folder / "state.lrbtl")
        runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
        for _ in range(options.repeats):
            for kind, found in runs.items():
                found.append(measure_apart(kind, folder))
                print(kind, found[-1], flush=True)
        state_mb = os.path.getsize(folder / "state.lrbtl") / 2**20
        log_mb = sum(path.stat().st_size for path in folder.glob("*.parquet")) / 2**20
    best = {
        kind: {name: min(run[name] for run in found) for name in ("seconds", "cpu_seconds")}
        | {"peak_mb": max(run["peak_mb"] for run in found)}
        for kind, found in runs.items()
    }
    result = {
        "rows": battles.n_battles,
        "cells": battles.n_cells,
        "repeats": options.repeats,
        "log_mb": log_mb,
        "state_mb": state_mb,
        "best": best,
        **{
            f"{name}: {other}": best[kind][name] / best[other][name]
            for kind, other in PAIRS
            for name in ("seconds", "cpu_seconds")
        },
        "runs": runs,
    }
    keep_results("scan", result)
    print(json.dumps({name: value for name, value in result.items() if name != "runs"}, indent=1))


if __name__ == "__main__":
    main()
