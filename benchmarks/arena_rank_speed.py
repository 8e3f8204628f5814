"""All boards of a large arena from a pandas frame of strings: lrbtl against arena-rank refitting each category.

    pip install arena-rank && python benchmarks/arena_rank_speed.py [--few] [--only "nearly low rank"]

1,000,000 battles, 200 models, 10 categories with uneven traffic, rank 3: exactly, and with deviations of single scores
that are a tenth of the variance of the others; and 5,000,000 battles, exactly. Both read the same frame and give
ratings with intervals of every category; lrbtl also gives the overall board, rank intervals and tiers. The floor is
plain NumPy: labels to codes, counts, Newton's method for the scores of each category, and the inverse information.
Times are medians of five runs, of arena-rank one, whose compiled code takes the cores that it finds; lrbtl has one
thread where nothing else is said. Seconds of the processor stand beside those on the clock, and ratios are of the
processor: other work on the machine counts little. Beside them is the time of an analysis with `start=`, one of all
rows but the last twentieth. Results go to results/arena_rank_speed.json; with --few only the default method and the
floor are run, with arena-rank.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import lrbtl
from replications import keep_results, known_results

SHAPE, RANK, N, MANY = (200, 10), 3, 1_000_000, 5_000_000
DEVIATIONS = 0.1  # of the variance of the scores


def frame(n: int = N, deviations: float = 0.0) -> pd.DataFrame:
    """Return the battles as strings, one row each, shuffled."""
    rng = np.random.default_rng(0)
    law = lrbtl.ProductSampling(rng.dirichlet(np.full(SHAPE[0], 2.0)), rng.dirichlet(np.full(SHAPE[1], 3.0)))
    scores = np.asarray(lrbtl.simulate_scores(SHAPE, RANK, scale=2.5, rng=0))
    own = np.random.default_rng(2).normal(size=SHAPE) * np.sqrt(deviations) * scores.std()
    cells = lrbtl.simulate_battles(scores + own - own.mean(axis=0), n, sampling=law, rng=1).cells
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


def floor_boards(data: pd.DataFrame) -> list[tuple[Any, Any]]:
    """Return scores of each category with their covariance, by plain NumPy on one thread."""
    with threadpool_limits(1):
        return plain_boards(data)


def plain_boards(data: pd.DataFrame) -> list[tuple[Any, Any]]:
    """Return the same on any threads."""
    (u, _), (a, names), (b, other) = (pd.factorize(data[name]) for name in ("category", "model_a", "model_b"))
    place = pd.Index(names).union(pd.Index(other))
    a, b, d1 = place.get_indexer(names)[a], place.get_indexer(other)[b], len(place)
    won = (data["winner"].to_numpy() == "model_a").astype(float)
    size, key = (int(u.max()) + 1, d1, d1), (u * d1 + a) * d1 + b
    wins, counts = (np.bincount(key, weights, int(np.prod(size))).reshape(size) for weights in (won, None))
    wins, counts = wins + np.swapaxes(counts - wins, 1, 2), counts + np.swapaxes(counts, 1, 2)
    return [newton(win, count) for win, count in zip(wins, counts, strict=True)]


def newton(wins: Any, counts: Any) -> tuple[Any, Any]:
    """Return the scores of a Bradley-Terry fit and their covariance."""
    theta = np.zeros(len(wins))
    for _ in range(20):
        p = 1.0 / (1.0 + np.exp(theta[None] - theta[:, None]))
        weight = counts * p * (1.0 - p)
        covariance = np.linalg.inv(np.diag(weight.sum(axis=1)) - weight + weight.mean())
        step = covariance @ (wins - counts * p).sum(axis=1)
        theta = theta + step
        if np.abs(step).max() < 1e-8:
            break
    return theta, covariance


def timed(run: Callable[[], Any], repeats: int = 5) -> dict[str, float]:
    """Return the median time of some runs, on the clock and of the processor."""
    clock, processor = [], []
    for _ in range(repeats):
        start, cpu = time.perf_counter(), time.process_time()
        run()
        clock.append(time.perf_counter() - start)
        processor.append(time.process_time() - cpu)
    return {"clock": statistics.median(clock), "processor": statistics.median(processor)}


def second_analysis(data: pd.DataFrame) -> dict[str, float]:
    """Return times of the analysis of all rows, from nothing and from one of all rows but the last twentieth."""
    earlier = lrbtl.analyse(lrbtl.Battles.from_frame(data.iloc[: -len(data) // 20], contexts="category"))
    battles = lrbtl.Battles.from_frame(data, contexts="category")
    ways = (lambda: lrbtl.analyse(battles), lambda: lrbtl.analyse(battles, start=earlier))
    pairs = [[timed(run, 1)["processor"] for run in ways] for _ in range(7)]
    plain, started = np.median(pairs, axis=0)
    return {"processor": float(started), "of the time without start": float(started / plain)}


def measure(data: pd.DataFrame, *, few: bool) -> dict[str, dict[str, float]]:
    """Return the times of all boards of a frame, with ratios."""
    out = {
        "lrbtl default": timed(lambda: lrbtl_boards(data, "hierarchical", "auto")),
        "floor": timed(lambda: floor_boards(data)),
    }
    if not few:
        out["lrbtl efficient"] = timed(lambda: lrbtl_boards(data, "efficient"))
        out["lrbtl efficient, two threads"] = timed(lambda: lrbtl_boards(data, "efficient", n_threads=2))
        out["lrbtl mle"] = timed(lambda: lrbtl_boards(data, "mle"))
        out["lrbtl efficient, rank chosen"] = timed(lambda: lrbtl_boards(data, "efficient", "auto"))
    out["arena-rank"] = timed(lambda: arena_rank_boards(data), repeats=1)
    theirs, floor = (out[name]["processor"] for name in ("arena-rank", "floor"))
    for seconds in out.values():
        seconds["times faster than arena-rank"] = theirs / seconds["processor"]
        seconds["times the floor"] = seconds["processor"] / floor
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    lrbtl_boards(frame(20_000), "mle")  # imports
    cases = {
        "1,000,000 battles": (N, 0.0),
        "1,000,000 battles, nearly low rank": (N, DEVIATIONS),
        "5,000,000 battles": (MANY, 0.0),
    }
    found = known_results("arena_rank_speed")
    for name, (n, deviations) in cases.items():
        if options.only in name:
            found[name] = measure(frame(n, deviations), few=options.few or n > N or deviations > 0)
            if n == N:
                found[f"{name}, start="] = {"lrbtl default": second_analysis(frame(n, deviations))}
            for who, row in found[name].items():
                print(name, who, {key: round(value, 2) for key, value in row.items()}, flush=True)
            keep_results("arena_rank_speed", found)


if __name__ == "__main__":
    main()
