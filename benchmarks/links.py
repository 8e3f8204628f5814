"""Links on real battles: do probit and logistic boards agree, and which model of ties predicts best.

    python benchmarks/links.py data/lmarena_140k_dev.csv.gz data/llmfao.csv.gz

For each log: overall boards under both links (agreement of the order, up to rank spreads), and how well all links and
models of ties predict every vote from the others. Results go to results/links.json and results/links.md.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

import lrbtl
from replications import keep_results


def read(path, least):
    """Return the battles of a log by category, among models with at least some battles."""
    frame = pd.read_csv(path)
    frame = frame[frame.model_a != frame.model_b]
    battles = lrbtl.Battles.from_frame(frame, contexts="category")
    keep = np.flatnonzero(battles.model_counts >= least)
    return battles.select(models=[battles.models[k] for k in keep])


def compare_boards(battles, rank):
    """Return how far the boards of the two links agree."""
    boards = {link: lrbtl.leaderboard(battles, rank=rank, link=link) for link in ("logistic", "probit")}
    one, two = boards.values()
    place = np.array([two.models.index(model) for model in one.models])
    moved = np.abs(two.rank[place] - one.rank)
    inside = (two.rank[place] >= one.best) & (two.rank[place] <= one.worst)
    return {
        "models": len(one.models),
        "same_rank": int(np.sum(moved == 0)),
        "largest_move": int(moved.max()),
        "inside_rank_spread": int(inside.sum()),
        "largest_score_difference_in_se": float(np.max(np.abs(two.score[place] - one.score) / one.se)),
        "median_se": [float(np.median(one.se)), float(np.median(two.se))],
    }


def main():
    """Compare links on each log and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--rank", type=int, default=3)
    parser.add_argument("--least", type=int, default=200, help="battles that a model must have")
    options = parser.parse_args()
    rows, lines = [], ["# Links on real battles", ""]
    for path in options.paths:
        start = time.perf_counter()
        battles = read(path, options.least)
        name = Path(path).name.split(".")[0]
        board = compare_boards(battles, options.rank)
        links = lrbtl.compare_links(battles, rank=options.rank)
        rows.append({"data": name, "battles": battles.n_battles, "board": board, "links": links.to_dict()})
        lines += [
            f"## {name}: {battles.n_battles:,} battles, {board['models']} models, {battles.tie_share:.1%} ties, "
            f"rank {options.rank}", "",
            f"Logistic and probit boards: {board['same_rank']} of {board['models']} models have the same rank, the "
            f"largest move is {board['largest_move']}; {board['inside_rank_spread']} probit ranks lie inside the "
            f"logistic rank spread; scores differ by at most {board['largest_score_difference_in_se']:.2f} standard "
            "errors.", "",
            "| link | mnats per battle | below the best |", "|---|---|---|",
        ]  # fmt: skip
        for model, value, gap, se in zip(*links.to_dict().values(), strict=True):
            lines.append(f"| {model} | {1e3 * value:.2f} | {1e3 * gap:.2f} ± {1e3 * se:.2f} |")
        lines.append("")
        print("\n".join(lines[-8:]), f"\n{time.perf_counter() - start:.1f} s", flush=True)
    keep_results("links", rows, "\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
