"""Style-controlled boards of all categories with intervals: time and memory, against arena-rank refitted per category.

    python benchmarks/style_speed.py --rows 1000000 --arena-python /path/to/python-with-arena-rank

200 models, 10 categories, 8 covariates, every row distinct. Ours: reading, all boards with intervals and
effects in one analysis (by default, and as separate fits, which is what theirs are), in a process of its own whose peak
memory is told (the log itself included). Theirs: `ContextualBradleyTerry` on the rows of each category and once on all,
from a pandas frame, as its users run it. Seconds are of the processor, over all threads, so that other work on the
machine counts little; seconds on the clock stand beside them.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from replications import keep_results

D1, D, K = 200, 10, 8
ARENA = """
import sys, time
import numpy as np, pandas as pd
from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
from arena_rank.utils.data_utils import ContextualPairDataset
log = np.load(sys.argv[1])
features = [f"x{j}" for j in range(8)]
frame = pd.DataFrame({name: log[name] for name in ("model_a", "model_b", "category")} | {x: log[x] for x in features})
frame["winner"] = np.where(log["winner"] > 0, "model_a", "model_b")
parts = [frame] + [frame[frame.category == u] for u in range(10)]
for part in parts[: int(sys.argv[2])]:
    start, cpu = time.perf_counter(), time.process_time()
    data = ContextualPairDataset.from_pandas(part, feature_cols=features)
    model = ContextualBradleyTerry(len(data.competitors), data.n_features)
    model.compute_ratings_and_cis(data)
    print(len(part), time.perf_counter() - start, time.process_time() - cpu, flush=True)
"""


def simulate(rows: int, path: Path) -> None:
    """Write a log."""
    import lrbtl

    rng = np.random.default_rng(0)
    scores = lrbtl.simulate_scores((D1, D), 2, scale=1.2, rng=0)
    a, u = rng.integers(0, D1, rows), rng.integers(0, D, rows)
    b = (a + rng.integers(1, D1, rows)) % D1
    x = rng.standard_normal((rows, K))
    eta = scores[a, u] - scores[b, u] + x @ np.linspace(-0.3, 0.3, K)
    won = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(float)
    np.savez(path, model_a=a, model_b=b, category=u, winner=won, **{f"x{j}": x[:, j] for j in range(K)})


def ours(path: str, method: str) -> dict[str, float]:
    """Return seconds of reading and of all boards by a method, and the peak memory of this process."""
    import lrbtl

    log = dict(np.load(path))
    few = {name: column[:3000] for name, column in log.items()}  # imports are not timed, as theirs are not
    lrbtl.leaderboard(lrbtl.Battles.from_frame(few, contexts="category", covariates=[f"x{j}" for j in range(K)]))
    start, cpu = time.perf_counter(), time.process_time()
    battles = lrbtl.Battles.from_frame(log, contexts="category", covariates=[f"x{j}" for j in range(K)])
    read = time.perf_counter()
    boards = lrbtl.leaderboard(battles, context="all", method=method)
    end = time.perf_counter()
    assert boards.overall.effects is not None and len(boards) == D
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {
        "reading": read - start,
        "boards": end - read,
        "peak megabytes": peak,
        "processor": time.process_time() - cpu,
    }


def table(found: dict[str, Any], rows: int) -> str:
    """Return the results as Markdown."""
    fits = found.get("arena-rank, rows, seconds and processor seconds of each fit", [])
    lines = [f"# Style control: {D1} models, {D} categories, {K} covariates", ""]
    lines += ["| | votes | processor seconds | on the clock | peak megabytes |", "|---|---|---|---|---|"]
    for name, run in found.items():
        if isinstance(run, dict):
            method, n = name.split(", ")
            clock = run["reading"] + run["boards"]
            lines.append(
                f"| lrbtl, {method}, all {D + 1} boards | {int(n):,} | {run['processor']:.1f} | {clock:.1f} | "
                f"{run['peak megabytes']:.0f} |"
            )
    for n, clock, cpu in fits:
        lines.append(f"| arena-rank, one fit | {int(n):,} | {cpu:.1f} | {clock:.1f} | |")
    if len(fits) > 1:
        total = fits[0][2] + D * float(np.mean([cpu for *_, cpu in fits[1:]]))
        own = found[f"hierarchical, {rows}"]["processor"]
        how = "" if len(fits) == D + 1 else f", {D} categories from the mean of {len(fits) - 1}"
        lines += [
            "",
            f"arena-rank for all {D + 1} boards: {total:.0f} processor seconds{how}; {total / own:.0f} times ours.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Time both and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--arena-python")
    parser.add_argument("--arena-fits", type=int, default=11)
    parser.add_argument("--child")
    parser.add_argument("--method", default="hierarchical")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(ours(args.child, args.method)))
        return
    found: dict[str, Any] = {"rows": args.rows}
    with tempfile.TemporaryDirectory() as folder:
        for rows in (args.rows // 2, args.rows):
            path = Path(folder) / f"{rows}.npz"
            simulate(rows, path)
            for method in ("hierarchical", "naive"):
                command = [sys.executable, __file__, "--child", str(path), "--method", method]
                done = subprocess.run(command, capture_output=True, check=True)
                found[f"{method}, {rows}"] = json.loads(done.stdout)
                print(rows, method, found[f"{method}, {rows}"], flush=True)
        if args.arena_python:
            command = [args.arena_python, "-c", ARENA, str(path), str(args.arena_fits)]
            peers = subprocess.run(command, capture_output=True, check=True, text=True)
            fits = [[float(x) for x in line.split()] for line in peers.stdout.strip().splitlines()]
            found["arena-rank, rows, seconds and processor seconds of each fit"] = fits
            print(fits)
    keep_results("style_speed", found, table(found, args.rows))


if __name__ == "__main__":
    main()
