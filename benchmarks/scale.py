"""Default boards of many contexts, many models and very small logs: CPU time and peak memory.

    python benchmarks/scale.py [--large] [--only contexts]

Each case runs in a process of its own: battles of a low-rank truth with contexts that differ, then the overall board
by the default method, then the board of one context. Times are CPU seconds of that process on one thread without the
making of the battles, memory is the peak of the whole process up to the first board. Slopes are those of log times of
the overall board on log sizes, by least squares over the cases that differ in that size alone; a log of one battle per
context is the last of those that differ in contexts. Results go to results/scale.json and results/scale.md.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from scipy.special import expit

import lrbtl
from replications import keep_results, known_results

CASES = [
    ("contexts", 200, 1_000, 1_000_000),
    ("contexts", 200, 10_000, 1_000_000),
    ("contexts", 200, 100_000, 1_000_000),
    ("one battle each", 200, 1_000_000, 1_000_000),
    ("cells", 200, 10_000, 100_000),
    ("cells", 200, 10_000, 300_000),
    ("models", 100, 10, 1_000_000),
    ("models", 200, 10, 1_000_000),
    ("models", 1_000, 10, 1_000_000),
]
SIZES = ("case", "models", "contexts", "battles")
LARGE = [("models", 2_000, 10, 2_000_000), ("models", 5_000, 10, 5_000_000)]


def simulated(n_models: int, n_contexts: int, n: int) -> lrbtl.Battles:
    """Return battles whose scores are of rank 2: a level of each model, and a direction in which contexts differ."""
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(n_models, 2)), np.array([0.75, 0.0]) + 0.2 * rng.normal(size=(n_contexts, 2))
    a = rng.integers(n_models, size=n)
    b = (a + rng.integers(1, n_models, size=n)) % n_models
    u = np.arange(n) if n == n_contexts else rng.integers(n_contexts, size=n)
    y = rng.random(n) < expit(np.einsum("ij,ij->i", U[a] - U[b], V[u]))
    return lrbtl.Battles.from_arrays(a, b, y.astype(float), contexts=u, n_models=n_models)


def few() -> lrbtl.Battles:
    """Return 24 battles of four models with five columns of two labels."""
    rng = np.random.default_rng(0)
    a = rng.integers(4, size=24)
    columns = {f"column {k}": rng.choice(["x", "y"], 24) for k in range(5)}
    frame = {"model_a": a, "model_b": (a + rng.integers(1, 4, size=24)) % 4, "winner": rng.integers(2, size=24)}
    return lrbtl.Battles.from_frame({**frame, **columns}, contexts=list(columns))


def measure(case: list[Any]) -> dict[str, Any]:
    """Return what one case takes, in this process."""
    warnings.simplefilter("ignore")
    battles = simulated(*case[1:]) if case[1] else few()
    begin = time.process_time()
    board = lrbtl.leaderboard(battles)
    overall = time.process_time() - begin
    peak, info = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, board.info
    del board
    begin = time.process_time()
    lrbtl.leaderboard(battles, context=battles.context_label(int(battles.context_counts.argmax())))
    return {
        "overall": overall,
        "one context": time.process_time() - begin,
        "megabytes": peak,
        "cells": battles.n_cells,
        "method": info.method,
        "rank": info.rank,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 2,000 and 5,000 models")
    parser.add_argument("--only", default="", help="cases of this name; others keep their results")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(json.loads(options.case))))
        return
    rows = {tuple(row[name] for name in SIZES): row for row in known_results("scale") or []}
    cases = [("small log", 0, 0, 24), *CASES, *LARGE]
    for case in cases if options.large else cases[: -len(LARGE)]:
        if options.only in case[0]:
            command = [sys.executable, __file__, "--case", json.dumps(case)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            why = (done.stderr.strip().splitlines() or ["stopped"])[-1]
            rows[case] = dict(zip(SIZES, case, strict=True)) | (
                json.loads(done.stdout) if done.returncode == 0 else {"failed": why}
            )
            print(rows[case], flush=True)
            write([rows[case] for case in cases if case in rows])


def write(rows: list[dict[str, Any]]) -> None:
    """Write the rows as JSON and as a table."""
    lines = ["| | models | contexts | battles | overall board, s | board of one context, s | peak, GB | method |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for row in rows:
        sizes = " | ".join(f"{row[name]:,}" for name in ("models", "contexts", "battles"))
        if "failed" in row:
            lines.append(f"| {row['case']} | {sizes} | {row['failed']} | | | |")
            continue
        times = f"{row['overall']:.1f} | {row['one context']:.1f} | {row['megabytes'] / 1e3:.1f} | {row['method']}"
        lines.append(f"| {row['case']} | {sizes} | {times} |")
    lines += ["", "Slopes: " + "; ".join(f"{value:.2f} in {name}" for name, value in slopes(rows).items()) + "."]
    keep_results("scale", rows, "\n".join(lines) + "\n")


def slopes(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return log-log slopes of the time of the overall board, where several sizes were run."""
    whole = [row for row in rows if "failed" not in row]
    fixed = {"contexts": ("models", "battles"), "cells": ("models", "contexts"), "models": ("contexts", "battles")}
    base, out = {"models": 200, "contexts": 10_000, "battles": 1_000_000}, {}
    for name, same in fixed.items():
        alike = base | ({"contexts": 10} if name == "models" else {})
        part = [row for row in whole if all(row[other] == alike[other] for other in same)]
        sizes = {row[name]: row["overall"] for row in part}
        if len(sizes) > 1:
            out[name] = float(np.polyfit(np.log(list(sizes)), np.log(list(sizes.values())), 1)[0])
    return out


if __name__ == "__main__":
    main()
