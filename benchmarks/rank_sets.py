"""Level and power of simultaneous rank sets and top-k tests, on 24 designs, against Bonferroni over categories.

A design has groups of models that are equally good in every category, so that false statements are possible: a rank
set is wrong if any model is shown above one that is at least as good, in any category. Results are kept after each
design, and a second call goes on where the first ended: `python benchmarks/rank_sets.py [--replications 300]`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import lrbtl

RESULTS = Path(__file__).parent / "results" / "rank_sets.json"
SHAPES = [(9, 4), (12, 5), (18, 8), (12, 20)]
VOTES = [40, 300]  # per score
DRAWS = 1000
GROUPS = ["thirds", "pairs", "distinct"]  # which models are equally good


def truth_of(shape: tuple[int, int], groups: str, seed: int) -> np.ndarray:
    """Scores of rank 2 in which models of a group are equal."""
    rng = np.random.default_rng(seed)
    d1, d2 = shape
    size = {"pairs": 2, "thirds": -(-d1 // 3), "distinct": 1}[groups]
    rows = np.repeat(rng.normal(size=(-(-d1 // size), 2)), size, axis=0)[:d1]
    scores = (rows - rows.mean(axis=0)) @ rng.normal(size=(d2, 2)).T
    return np.asarray(1.5 * scores / np.abs(scores).max())


def one(truth: np.ndarray, n: int, seed: int, method: str) -> dict[str, float]:
    """Return what one data set gives: any false statement, lengths of sets, false and true top-k tests."""
    battles = lrbtl.simulate_battles(truth, n, rng=seed)
    analysis = lrbtl.analyse(battles, method=method, rank=2)
    sets = lrbtl.rank_sets(analysis, draws=DRAWS, rng=seed)
    d1, d2 = truth.shape
    better = (truth[:, None] > truth[None] + 1e-9).sum(axis=0)  # models strictly better than each
    worse = (truth[:, None] < truth[None] - 1e-9).sum(axis=0)
    wrong = (sets.lower > 1 + better) | (sets.upper < d1 - worse)
    each = 1 - 0.05 / d2
    simple = [lrbtl.rank_sets(analysis, categories=[u], level=each, draws=DRAWS, rng=seed) for u in range(d2)]
    lower, upper = (np.column_stack([getattr(x, name)[:, 0] for x in simple]) for name in ("lower", "upper"))
    k = max(1, d1 // 4)
    test, inside = sets.top(k), better + (d1 - better - worse) <= k  # no k others are at least as good
    outside = ~inside
    return {
        "family": float(wrong.any()),
        "length": float(np.mean(sets.upper - sets.lower)),
        "bonferroni": float(((lower > 1 + better) | (upper < d1 - worse)).any()),
        "bonferroni_length": float(np.mean(upper - lower)),
        "top_false": float(np.mean(test.pvalue[outside] < 0.05)) if outside.any() else np.nan,
        "top_power": float(np.mean(test.pvalue[inside] < 0.05)) if inside.any() else np.nan,
    }


def table(done: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = ["# Rank sets over all categories at once, and top-k tests, nominal 95%", ""]
    lines += ["| design | runs | any wrong | mean length | Bonferroni: any wrong | length | top-k: false | power |"]
    lines += ["|" + "---|" * 8]
    for name, row in done.items():
        cells = [f"{row['replications']}", f"{row['family']:.3f}", f"{row['length']:.2f}", f"{row['bonferroni']:.3f}"]
        cells += [f"{row['bonferroni_length']:.2f}"]
        cells += [f"{row[key]:.3f}" if key in row else "" for key in ("top_false", "top_power")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all designs that have not been run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=300)
    parser.add_argument("--method", default="efficient")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    done: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    warnings.simplefilter("ignore", lrbtl.errors.LrbtlWarning)
    for shape, votes, groups in product(SHAPES, VOTES, GROUPS):
        name = f"{arguments.method} {shape[0]} x {shape[1]}, {votes} votes per score, {groups}"
        if name in done:
            continue
        began, found, lost = time.time(), [], 0
        for seed in range(arguments.replications):
            truth = truth_of(shape, groups, seed % 10)
            try:
                found.append(one(truth, votes * truth.size, 1000 + seed, arguments.method))
            except lrbtl.errors.SingularInformationError:
                lost += 1
        columns = {key: np.array([each[key] for each in found]) for key in found[0]}
        means = {key: float(x[~np.isnan(x)].mean()) for key, x in columns.items() if not np.isnan(x).all()}
        done[name] = {**means, "replications": len(found), "lost": lost, "seconds": round(time.time() - began, 1)}
        arguments.out.write_text(json.dumps(done, indent=1))
        print(name, {key: round(value, 3) for key, value in done[name].items()}, flush=True)
    arguments.out.with_suffix(".md").write_text(table(done), encoding="utf-8")


if __name__ == "__main__":
    main()
