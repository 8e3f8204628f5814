"""Widths of LMArena's intervals against arena-rank's on the same rows, and the order against Bradley-Terry's.

    python benchmarks/lmarena_widths.py lmarena_140k_dev.csv.gz

All votes (a tie is half a win) between the 52 models that have enough battles, five categories. arena-rank's arithmetic
fits each category by itself; its variance H⁻¹GH⁻¹ has no part along the vector of ones, so that its interval, like
ours, is for a score relative to the mean of all models of the board, and widths can be compared as they are. Its ridge
on the Hessian makes its intervals a little shorter. Results go to results/lmarena_widths.json and .md.
"""

import argparse
import os
import warnings
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.data.frames import read_battles
from lrbtl.errors import LrbtlWarning
from replications import keep_results

N_MODELS = 52
RANKS = (3, "auto")


def widths(board: lrbtl.Leaderboard) -> dict[str, float]:
    return dict(zip(board.models, (board.upper - board.lower).tolist(), strict=True))


def compare_widths(ours: lrbtl.Leaderboard, theirs: lrbtl.Leaderboard) -> dict[str, Any]:
    """Return median widths in Elo points and the median over models of the ratio of ours to theirs."""
    mine, other = widths(ours), widths(theirs)
    ratio = np.array([mine[model] / other[model] for model in other])
    return {
        "battles": int(theirs.battles.sum()) // 2,
        "models": len(other),
        "ours": float(np.median(list(mine.values()))),
        "arena_rank": float(np.median(list(other.values()))),
        "ratio": float(np.median(ratio)),
        "narrower": int((ratio < 1).sum()),
    }


def compare_order(ours: lrbtl.Leaderboard, plain: lrbtl.Leaderboard) -> dict[str, int]:
    """Return how many pairs stand in another order, and how many of them either board tells apart."""
    place = {model: k for k, model in enumerate(plain.models)}
    rows = np.array([place[model] for model in ours.models])
    pairs = np.triu_indices(len(rows), 1)  # the first of each pair is above on our board
    swapped = plain.score[rows][pairs[0]] < plain.score[rows][pairs[1]]
    ours_apart = ours.lower[pairs[0]] > ours.upper[pairs[1]]
    plain_apart = plain.lower[rows][pairs[1]] > plain.upper[rows][pairs[0]]
    outside = (ours.rank_lower > plain.rank_upper[rows]) | (plain.rank_lower[rows] > ours.rank_upper)
    return {
        "pairs": int(swapped.size),
        "swapped": int(swapped.sum()),
        "swapped_and_apart_on_one": int((swapped & (ours_apart | plain_apart)).sum()),
        "swapped_and_apart_on_both": int((swapped & ours_apart & plain_apart).sum()),
        "rank_intervals_without_overlap": int(outside.sum()),
    }


def measure(battles: lrbtl.Battles, rank: Any) -> dict[str, Any]:
    boards = lrbtl.leaderboard(battles, context="all", rank=rank, weights="equal")
    theirs = lrbtl.leaderboard(battles, context="all", compat="arena-rank")
    plain = lrbtl.leaderboard(battles.pooled())
    by_traffic = lrbtl.leaderboard(battles, rank=rank, weights="traffic")
    overall = {"mean of categories": boards.overall, "weights by traffic": by_traffic}
    return {
        "rank": rank,
        "used": list(boards.overall.info.rank or ()),
        "boards": {
            **{name: compare_widths(boards[name], theirs[name]) for name in boards},
            **{name: compare_widths(board, theirs.overall) for name, board in overall.items()},
        },
        "order": {name: compare_order(board, plain) for name, board in overall.items()},
    }


def to_markdown(runs: list[dict[str, Any]]) -> str:
    lines = [
        "# LMArena boards: widths against arena-rank's, order against Bradley-Terry's",
        "",
        f"{N_MODELS} models, 5 categories, all votes. Median widths of 95% intervals in Elo points; ratio: median over",
        "models of ours to arena-rank's.",
        "",
        "| rank | board | battles | lrbtl | arena-rank | ratio | models with a narrower interval |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        rank = f"{run['rank']} ({run['used'][0]})" if run["rank"] == "auto" else run["rank"]
        for name, row in run["boards"].items():
            lines.append(
                f"| {rank} | {name} | {row['battles']:,} | {row['ours']:.1f} | {row['arena_rank']:.1f} | "
                f"{row['ratio']:.2f} | {row['narrower']} of {row['models']} |"
            )
    lines += ["", "Order of the overall board against one Bradley-Terry fit to all votes put together:", ""]
    lines += [
        "| rank | overall | pairs in another order | told apart by one board | by both | ranks without overlap |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        for name, row in run["order"].items():
            lines.append(
                f"| {run['rank']} | {name} | {row['swapped']} of {row['pairs']:,} "
                f"| {row['swapped_and_apart_on_one']} | {row['swapped_and_apart_on_both']} "
                f"| {row['rank_intervals_without_overlap']} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        battles = read_battles(options.path).battles.top_models(N_MODELS)
        runs = [measure(battles, rank) for rank in RANKS]
    keep_results("lmarena_widths", runs, to_markdown(runs))
    print(to_markdown(runs))


if __name__ == "__main__":
    main()
