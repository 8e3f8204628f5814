"""Subsamples of real battles against the full-data fit per category, as in the paper's last two tables.

    python benchmarks/real_data.py lmarena_140k_dev.csv.gz --reps 500 --jobs 2

The 30 most frequent models, decisive votes, five categories, rank 3 (the default is told none). Each replication draws
a share of the battles without replacement and estimates two targets by four methods; the truth is one Bradley-Terry fit
per category to all battles. Results go to results/real_data.json and results/real_data.md.
"""

import argparse
import os
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import lrbtl
from lrbtl.errors import LrbtlError, LrbtlWarning
from lrbtl.inference.analysis import analyse_fit
from lrbtl.inference.targets import Target
from lrbtl.methods.base import Options
from replications import keep_results, known_results

SHARES = (0.2, 0.1, 0.05, 0.02)
MODEL, RIVAL, CATEGORY, RANK = "gemini-2.5-pro", "claude-opus-4-20250514", "math", 3
METHODS = ("naive", "whitened", "efficient", "default")
NAMES = (f"score({MODEL}, {CATEGORY})", f"P({MODEL} beats {RIVAL} | {CATEGORY})")


def targets() -> list[Target]:
    return [lrbtl.score(MODEL, CATEGORY), lrbtl.win_probability(MODEL, RIVAL, CATEGORY)]


@lru_cache(maxsize=1)
def load(path: str) -> lrbtl.Battles:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        return lrbtl.Battles.from_frame(pd.read_csv(path), contexts="category", ties="drop").top_models(30)


def replicate(path: str, share: float, seed: int, methods: Sequence[str]) -> dict[str, Any]:
    """Return estimates, errors and intervals of each method from one subsample; None where a method has no estimate."""
    battles = load(path)
    rng = np.random.default_rng([seed, int(1000 * share)])
    counts = rng.multivariate_hypergeometric(battles.cells.count, round(share * battles.n_battles), method="marginals")
    sample = battles.with_counts(counts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        fit = lrbtl.fit(sample, RANK)
        return {method: estimate(fit, method, seed) for method in methods}


def estimate(fit: lrbtl.Fit, method: str, seed: int) -> dict[str, Any] | None:
    """Return what a method says of the targets, None where it has no estimate."""
    if method in ("naive", "default"):
        est = lrbtl.infer(fit.battles, targets(), **({"method": "naive"} if method == "naive" else {}))
    else:
        try:
            est = analyse_fit(fit, Options(rng=seed), method=method).estimate(targets())
        except LrbtlError:
            return None
    if not (np.isfinite(est.estimate) & np.isfinite(est.se)).all():
        return None
    return {"estimate": est.estimate.tolist(), "se": est.se.tolist(), "interval": est.conf_int().tolist()}


def summarise(path: str, share: float, replications: list[dict[str, Any]]) -> list[dict[str, Any]]:
    goals = lrbtl.infer(load(path), targets(), method="naive").estimate
    rows = []
    for i, target in enumerate(NAMES):
        for method in (name for name in METHODS if name in replications[0]):
            found = [r[method] for r in replications if r[method] is not None]
            row = {
                "share": share,
                "target": target,
                "truth": float(goals[i]),
                "method": method,
                "reps": len(replications),
            }
            row["estimated"] = len(found)
            if len(found) > 1:
                estimate, se = (np.array([r[key][i] for r in found]) for key in ("estimate", "se"))
                interval = np.array([r["interval"][i] for r in found])
                covered = float(np.mean((interval[:, 0] <= goals[i]) & (goals[i] <= interval[:, 1])))
                row |= {
                    "empirical_std": float(estimate.std(ddof=1)),
                    "median_se": float(np.median(se)),
                    "coverage": covered,
                    "mc_error": float(np.sqrt(covered * (1 - covered) / len(found))),
                    "bias": float(estimate.mean() - goals[i]),
                    "width": float(np.median(interval[:, 1] - interval[:, 0])),
                }
            rows.append(row)
    return rows


def to_markdown(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Subsamples of LMArena battles against the full-data fit per category",
        "",
        "30 models, 5 categories, rank 3. `estimated` counts replications in which the method has an estimate at all.",
        "",
        "| share | target | truth | method | estimated | emp. std | median SE | coverage | bias | median width |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        start = f"| {row['share']:.0%} | {row['target']} | {row['truth']:+.3f} | {row['method']} "
        start += f"| {row['estimated']}/{row['reps']} |"
        if "coverage" in row:
            start += (
                f" {row['empirical_std']:.3f} | {row['median_se']:.3f} | {row['coverage']:.3f} ± {row['mc_error']:.3f} "
                f"| {row['bias']:+.3f} | {row['width']:.3f} |"
            )
        lines.append(start)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--reps", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, help="others keep their results")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = [row for row in known_results("real_data") if row["method"] not in options.methods]
    for share in SHARES:
        start, replications = time.time(), []
        with ProcessPoolExecutor(options.jobs) as pool:
            jobs = [pool.submit(replicate, options.path, share, seed, options.methods) for seed in range(options.reps)]
            for future in as_completed(jobs):
                replications.append(future.result())
                left = (time.time() - start) / len(replications) * (options.reps - len(replications))
                print(
                    f"\r{share:.0%}: {len(replications)}/{options.reps}, {left / 60:.0f} min left  ", end="", flush=True
                )
        print()
        rows += summarise(options.path, share, replications)
    rows.sort(key=lambda row: (-row["share"], NAMES.index(row["target"]), METHODS.index(row["method"])))
    keep_results("real_data", rows, to_markdown(rows))
    print(to_markdown(rows))


if __name__ == "__main__":
    main()
