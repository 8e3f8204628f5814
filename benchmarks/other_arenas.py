"""Coverage with defaults in arenas of other kinds than those of `nearly_low_rank.py`: nothing was tuned on them.

    python benchmarks/other_arenas.py --reps 100 --jobs 2 [--only "3 modes"]

Three modes (category x language), languages with effects of their own, thin logs, many small categories, a plain
board without categories. Models get traffic by a power law, categories by a Dirichlet law;
every replication draws a new truth: rank 2 with one general skill, plus what the row says. "Large" are the tenth of
scores that are farthest from zero, "sparse" the tenth of models with the fewest votes, "overall" the default board.
Errors are those of means over truths. Results go to results/other_arenas.json and .md.
"""

import argparse
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlWarning
from replications import keep_results, known_results

SEED = 77
SPREAD = 0.8  # standard deviation of the low-rank scores
ELO = 400 / np.log(10)
CLASSES = ("all", "large", "sparse", "overall", "mse", "se")


@dataclass(frozen=True)
class Arena:
    """Its name, models and categories, votes, the power law of traffic, and what is added to low rank."""

    name: str
    shape: tuple[int, ...]
    n: int
    power: float
    deviations: float = 0.0  # standard deviation of single entries, t5
    last_mode: float = 0.0  # standard deviation of effects of model x last mode


ARENAS = [
    Arena("3 modes 25 x 6 x 4, 20,000, deviations", (25, 6, 4), 20_000, 0.0, deviations=0.25),
    Arena("3 modes 25 x 6 x 4, 20,000, languages of their own", (25, 6, 4), 20_000, 0.8, last_mode=0.35),
    Arena("60 x 5, 8,000, deviations", (60, 5), 8_000, 1.0, deviations=0.25),
    Arena("15 x 20, 6,000, exact", (15, 20), 6_000, 0.5),
    Arena("12 x 4, 1,000, deviations", (12, 4), 1_000, 0.3, deviations=0.25),
    Arena("no categories, 50 models, 3,000", (50,), 3_000, 1.0),
]


def draw_truth(arena: Arena, rng: np.random.Generator) -> np.ndarray:
    factors = [rng.normal(size=(size, 2)) for size in arena.shape]
    for factor in factors[1:]:
        factor[:, 0] = 1 + 0.4 * factor[:, 0]
    truth = factors[0] if len(factors) > 1 else factors[0][:, :1]
    for factor in factors[1:]:
        truth = truth[..., None, :] * factor
    low = truth.sum(axis=-1)
    scores = SPREAD * low / low.std()
    scores = scores + arena.deviations * rng.standard_t(5, arena.shape) / np.sqrt(5 / 3)
    if arena.last_mode:
        scores += arena.last_mode * rng.normal(size=(len(scores), *([1] * (len(arena.shape) - 2)), arena.shape[-1]))
    return np.asarray(scores - scores.mean(axis=0))


def draw_battles(arena: Arena, truth: np.ndarray, rng: np.random.Generator) -> lrbtl.Battles:
    flat = truth.reshape(len(truth), -1)
    traffic = rng.permutation(1.0 / np.arange(1, len(flat) + 1) ** arena.power)
    a, b = rng.choice(len(flat), (2, arena.n), p=traffic / traffic.sum())
    a, b = a[a != b], b[a != b]
    context = rng.choice(flat.shape[1], a.size, p=rng.dirichlet(np.full(flat.shape[1], 2.0)))
    y = rng.random(a.size) < 1 / (1 + np.exp(flat[b, context] - flat[a, context]))
    codes = np.unravel_index(context, arena.shape[1:]) if len(arena.shape) > 1 else ()
    return lrbtl.Battles.from_arrays(a, b, y.astype(float), codes, n_models=len(flat), n_levels=arena.shape[1:])


def replicate(number: int, seed: int) -> dict[str, float]:
    arena, rng = ARENAS[number], np.random.default_rng([SEED, number, seed])
    truth = draw_truth(arena, rng)
    battles = draw_battles(arena, truth, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        found = lrbtl.infer(battles, lrbtl.all_scores())
        board = lrbtl.leaderboard(battles, min_battles=1)
    goal = truth.reshape(-1)
    limits = found.conf_int()
    inside = (limits[:, 0] <= goal) & (goal <= limits[:, 1])
    votes = battles.model_counts
    sparse = np.repeat(votes <= np.quantile(votes, 0.1), goal.size // len(truth))
    overall = truth.reshape(len(truth), -1) @ (battles.context_counts / battles.n_battles)
    wanted = ELO * (overall - overall.mean())[np.array(board.models, dtype=int)] + 1000.0
    return {
        "all": float(inside.mean()),
        "large": float(inside[np.abs(goal) >= np.quantile(np.abs(goal), 0.9)].mean()),
        "sparse": float(inside[sparse].mean()),
        "overall": float(np.mean((board.lower <= wanted) & (wanted <= board.upper))),
        "mse": float(np.mean((found.estimate - goal) ** 2)),
        "se": float(np.mean(found.se)),
    }


def to_markdown(rows: list[dict[str, Any]]) -> str:
    about = " ".join((__doc__ or "").split("\n\n")[2].split())
    head = ["arena", "truths", "all scores", "large", "sparse", "overall board", "RMSE", "mean error shown"]
    lines = ["# Other arenas: coverage of nominal 0.95 with defaults", "", about, ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        shares = [f"{row[key]:.3f} ± {row[key + ' error']:.3f}" for key in CLASSES[:4]]
        cells = [row["arena"], str(row["reps"]), *shares, f"{row['mse'] ** 0.5:.3f}", f"{row['se']:.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    known = {row["arena"]: row for row in known_results("other_arenas")}
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, arena in enumerate(ARENAS):
            if options.only not in arena.name:
                continue
            found = list(pool.map(partial(replicate, number), range(options.reps)))
            row: dict[str, Any] = {"arena": arena.name, "reps": options.reps}
            for key in CLASSES:
                values = np.array([each[key] for each in found])
                row[key], row[f"{key} error"] = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
            known[arena.name] = row
            rows = [known[each.name] for each in ARENAS if each.name in known]
            print(to_markdown([row]).splitlines()[-1], flush=True)
            keep_results("other_arenas", rows, to_markdown(rows))


if __name__ == "__main__":
    main()
