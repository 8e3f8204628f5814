"""Coverage of overall scores in small logs, by the default and by one plain fit to all votes.

    python benchmarks/small_logs.py --logs 200

Models and categories meet uniformly. Scores are all alike, or have spread 0.5 with 30% of their variance in deviations
of single entries. The goal of both is the mean over categories, weighted by traffic; a plain fit takes categories as
one. Errors are those of means over logs. Results go to results/small_logs.json and .md.
"""

import argparse
import os
import warnings
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlWarning
from replications import keep_results

Z = 1.959964
SEED = 20261202
SPREAD, SHARE = 0.5, 0.3
DESIGNS = [  # models, categories, votes, spread
    (5, 3, 200, 0.0), (5, 3, 200, SPREAD), (8, 4, 400, SPREAD), (10, 4, 2_000, SPREAD),
]  # fmt: skip


def draw_truth(models: int, categories: int, spread: float, rng: np.random.Generator) -> np.ndarray:
    low = rng.normal(size=(models, 1)) @ np.ones((1, categories))
    truth = np.sqrt(1 - SHARE) * low + np.sqrt(SHARE) * rng.normal(size=(models, categories))
    return np.asarray(spread * (truth - truth.mean(axis=0)))


def covered(board: Any, goal: np.ndarray) -> float:
    """Return the share of a board's models whose interval covers the goal, centred."""
    inside = board.score - board.score.mean() - (goal - goal.mean())
    return float(np.mean(np.abs(inside) < Z * board.se))


def replicate(design: tuple[int, int, int, float], seed: int) -> tuple[float, float]:
    """Return the shares covered by the default and by a plain fit."""
    models, categories, n, spread = design
    rng = np.random.default_rng([SEED, models, n, int(10 * spread), seed])
    truth = draw_truth(models, categories, spread, rng)
    battles = lrbtl.simulate_battles(truth, n, rng=rng)
    traffic = battles.context_counts / battles.n_battles
    out = []
    for log, options in ((battles, {}), (battles.pooled(), {"method": "naive"})):
        board = lrbtl.leaderboard(log, min_battles=1, scale="logit", **options)
        out.append(covered(board, np.array([truth[log.models.index(m)] @ traffic for m in board.models])))
    return out[0], out[1]


def to_markdown(rows: list[dict[str, Any]]) -> str:
    about = " ".join((__doc__ or "").split("\n\n")[2].split())
    lines = ["# Small logs: coverage of overall scores, nominal 0.95", "", about, ""]
    lines += [
        "| models x categories, votes | spread | logs | default | plain fit to all votes |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        ours, plain = (f"{row[name][0]:.3f} ± {row[name][1]:.3f}" for name in ("default", "plain"))
        size = f"{row['models']} x {row['categories']}, {row['votes']:,}"
        lines.append(f"| {size} | {row['spread']} | {row['logs']} | {ours} | {plain} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=200)
    options = parser.parse_args()
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        for design in DESIGNS:
            found = np.array([replicate(design, seed) for seed in range(options.logs)])
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(options.logs)
            row: dict[str, Any] = dict(zip(("models", "categories", "votes", "spread"), design, strict=True))
            row |= {"logs": options.logs, "default": [mean[0], error[0]], "plain": [mean[1], error[1]]}
            rows.append(row)
            print(to_markdown([row]).splitlines()[-1], flush=True)
    keep_results("small_logs", rows, to_markdown(rows))


if __name__ == "__main__":
    main()
