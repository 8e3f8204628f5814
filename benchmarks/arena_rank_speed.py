"""All boards of a large arena from a pandas frame of strings: lrbtl against arena-rank refitting each category.

    pip install arena-rank && python benchmarks/arena_rank_speed.py

1,000,000 battles, 200 models, 10 categories with uneven traffic, rank 3. Both read the same frame and give ratings with
intervals of every category; lrbtl also gives the overall board, rank intervals and tiers. lrbtl's times are medians of
five runs, with one thread where nothing else is said; arena-rank's compiled code takes the cores that it finds. No
environment variable is set. Results go to results/arena_rank_speed.json.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import lrbtl
from replications import keep_results

SHAPE, RANK, N = (200, 10), 3, 1_000_000


def frame() -> pd.DataFrame:
    """Return the battles as strings, one row each, shuffled."""
    rng = np.random.default_rng(0)
    law = lrbtl.ProductSampling(rng.dirichlet(np.full(SHAPE[0], 2.0)), rng.dirichlet(np.full(SHAPE[1], 3.0)))
    cells = lrbtl.simulate_battles(lrbtl.simulate_scores(SHAPE, RANK, scale=2.5, rng=0), N, sampling=law, rng=1).cells
    rows = rng.permutation(np.repeat(np.arange(cells.n_cells), cells.count))
    models = np.array([f"model-{i:03d}" for i in range(SHAPE[0])], dtype=object)
    categories = np.array([f"category-{u}" for u in range(SHAPE[1])], dtype=object)
    return pd.DataFrame(
        {
            "model_a": models[cells.a[rows]],
            "model_b": models[cells.b[rows]],
            "winner": np.where(cells.y[rows] > 0.5, "model_a", "model_b").astype(object),
            "category": categories[cells.context[rows]],
        }
    )


def lrbtl_boards(data: pd.DataFrame, method: str, rank: int | str = RANK, n_threads: int = 1) -> Any:
    battles = lrbtl.Battles.from_frame(data, contexts="category")
    return lrbtl.leaderboard(battles, context="all", rank=rank, method=method, n_threads=n_threads)


def arena_rank_boards(data: pd.DataFrame) -> list[Any]:
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    boards = []
    for _, part in data.groupby("category"):
        dataset = PairDataset.from_pandas(part)
        model = BradleyTerry(n_competitors=len(dataset.competitors))
        boards.append(model.compute_ratings_and_cis(dataset, significance_level=0.05))
    return boards


def timed(run: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median time of some runs: short ones vary with what else the machine does."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    data = frame()
    lrbtl_boards(data.head(20_000), "mle")  # imports
    seconds = {
        "lrbtl default": timed(lambda: lrbtl_boards(data, "hierarchical", "auto")),
        "lrbtl efficient": timed(lambda: lrbtl_boards(data, "efficient")),
        "lrbtl efficient, two threads": timed(lambda: lrbtl_boards(data, "efficient", n_threads=2)),
        "lrbtl mle": timed(lambda: lrbtl_boards(data, "mle")),
        "lrbtl efficient, rank chosen": timed(lambda: lrbtl_boards(data, "efficient", "auto")),
        "arena-rank": timed(lambda: arena_rank_boards(data), repeats=1),
    }
    ratios = {name: seconds["arena-rank"] / value for name, value in seconds.items()}
    for name, value in seconds.items():
        print(f"{name:<28} {value:7.1f} s   arena-rank takes {ratios[name]:.1f} x")
    keep_results("arena_rank_speed", {"seconds": seconds, "ratios": ratios})


if __name__ == "__main__":
    main()
