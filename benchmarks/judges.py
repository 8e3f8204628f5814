"""Few human votes sharpened by many of a machine: coverage and width of the human board.

    python benchmarks/judges.py --reps 100 --data FOLDER

Simulation: judges are a context mode, default options. Human scores have spread .6 and categories of their own (.2).
The machine's are the human ones times a slope plus deviations per model and category, and a family of models is lower
by a bias. The human board is that of context={"judge": "human"}; its coverage is that of 95% intervals over models, in
the family apart; its width is against the board of human votes alone, whose coverage is beside it. Designs marked
"tuning" were looked at while the sizes of shared deviations were made, with other logs; the others were not. Real logs:
widths and changes of the human boards of MT-Bench and llmfao. Results go to results/judges.json and .md; parts that
are not run keep theirs.
"""

import argparse
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import expit

import lrbtl
from lrbtl.errors import LrbtlWarning
from replications import keep_results, known_results

ELO = 400 / np.log(10)
SEED = 14


@dataclass(frozen=True)
class Design:
    """What the machine makes of human scores, and the size of the log."""

    slope: float
    away: float  # standard deviation of the machine's own taste, by model and category
    bias: float = 0.0  # by which a family is lower
    models: int = 16
    categories: int = 4
    human: int = 1500
    machine: int = 15_000
    family: int = 4
    tuned: bool = False

    @property
    def size(self) -> str:
        """The log in words."""
        return f"{self.models} x {self.categories}, {self.human:,} + {self.machine:,}"


DESIGNS = {
    "agrees": Design(0.9, 0.05, tuned=True),
    "differs": Design(0.9, 0.25, tuned=True),
    "biased": Design(0.9, 0.05, 0.6, tuned=True),
    "noise": Design(0.0, 0.5, tuned=True),
    "agrees, few votes": Design(1.1, 0.0, 0.0, 24, 3, 1000, 10_000, 6, tuned=True),
    "biased, few votes": Design(1.1, 0.1, 0.4, 24, 3, 1000, 10_000, 6, tuned=True),
    "agrees, fresh": Design(1.0, 0.05, 0.0, 20, 5, 2000, 8_000, 5),
    "biased, fresh": Design(1.0, 0.05, 0.5, 20, 5, 2000, 8_000, 5),
    "one model disliked": Design(0.9, 0.05, 1.0, 12, 6, 2500, 8_000, 1),
}
LOGS = {"mtbench_judgments": ("expert", "author"), "llmfao": ("crowd",)}  # human levels of judge_type


def simulate(design: Design, rng: np.random.Generator) -> tuple[lrbtl.Battles, np.ndarray]:
    """Return votes of people and of a machine, and the human scores (models, categories)."""
    human = rng.normal(0, 0.6, (design.models, 1)) + rng.normal(0, 0.2, (design.models, design.categories))
    machine = design.slope * human + rng.normal(0, design.away, human.shape)
    machine[: design.family] -= design.bias
    scores = np.stack([human, machine], axis=2)
    judge = np.repeat([0, 1], [design.human, design.machine])
    n = judge.size
    a, u = rng.integers(design.models, size=n), rng.integers(design.categories, size=n)
    b = (a + rng.integers(1, design.models, size=n)) % design.models
    won = rng.random(n) < expit(scores[a, u, judge] - scores[b, u, judge])
    names = np.array(["human", "machine"])[judge]
    frame = {"model_a": a, "model_b": b, "winner": won.astype(float), "category": u, "judge": names}
    return lrbtl.Battles.from_frame(frame, contexts=["category", "judge"]), human


def covered(board: lrbtl.Leaderboard, truth: np.ndarray) -> np.ndarray:
    """Return which models' intervals hold the true score, by model."""
    true = 1000 + ELO * (truth - truth.mean())
    out = np.empty(truth.size, dtype=bool)
    for model, low, high in zip(board.models, board.lower, board.upper, strict=True):
        out[model] = low <= true[model] <= high
    return out


def replicate(name: str, seed: int) -> dict[str, float]:
    """Return coverage of both boards and the ratio of their widths."""
    design = DESIGNS[name]
    battles, human = simulate(design, np.random.default_rng([SEED, list(DESIGNS).index(name), seed]))
    both = lrbtl.leaderboard(battles, context={"judge": "human"})
    alone = battles.select(contexts={"judge": ["human"]})
    only = lrbtl.leaderboard(alone)
    weights = both.basis.weights.reshape(design.categories, -1)[:, 0]
    shares = alone.context_counts / alone.n_battles
    ours, theirs = covered(both, human @ weights), covered(only, human @ shares)
    return {
        "covered": float(ours.mean()),
        "family": float(ours[: design.family].mean()),
        "human alone": float(theirs.mean()),
        "width": float(np.median(both.se) / np.median(only.se)),
    }


def real_log(path: Path, human: tuple[str, ...]) -> dict[str, object]:
    """Return how the human board of a real log changes with the machine's votes."""
    frame = pd.read_csv(path)
    frame = frame.assign(judge=np.where(frame.judge_type.isin(human), "human", frame.judge_type))
    battles = lrbtl.Battles.from_frame(frame, contexts=["category", "judge"])
    both = lrbtl.leaderboard(battles, context={"judge": "human"})
    only = lrbtl.leaderboard(battles.select(contexts={"judge": ["human"]}))
    moved = lrbtl.changes(only, both)
    return {
        "human votes": int((frame.judge == "human").sum()),
        "machine votes": int((frame.judge != "human").sum()),
        "models": len(moved.models),
        "width, people alone": float(2 * 1.96 * np.median(only.se)),
        "width": float(2 * 1.96 * np.median(both.se)),
        "largest change": float(np.abs(moved.change).max()),
        "movers": len(moved.movers),
    }


def to_markdown(rows: dict[str, Any], logs: dict[str, Any]) -> str:
    lines = ["# Judges and people", "", (__doc__ or "").split("\n\n", 2)[2].rsplit("Results go", 1)[0].strip(), ""]
    lines += ["| machine | slope, own taste, bias | models x categories, votes | logs | coverage | of the family |"]
    lines[-1] += " people alone | width / people alone |"
    lines += ["|---|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        design = DESIGNS[name]
        what = [name + (" (tuning)" if design.tuned else ""), f"{design.slope}, {design.away}, {design.bias}"]
        numbers = [f"{mean:.3f} ± {error:.3f}" for mean, error in row["figures"].values()]
        lines.append(f"| {' | '.join([*what, design.size, str(row['logs']), *numbers])} |")
    if logs:
        lines += [
            "",
            "Real logs: width of a 95% interval in Elo points on the human board, people alone and with machines.",
            "",
            "| log | models | human votes | machine votes | people alone | with machines | largest change | moved |",
            "|---|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {name} | {row['models']} | {row['human votes']:,} | {row['machine votes']:,} | "
            f"{row['width, people alone']:.0f} | {row['width']:.0f} | {row['largest change']:.0f} | {row['movers']} |"
            for name, row in logs.items()
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", action="append", choices=tuple(DESIGNS))
    options = parser.parse_args()
    known = known_results("judges")
    rows, logs = known.get("simulated", {}), known.get("logs", {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        for name, human in LOGS.items() if options.data else ():
            logs[name] = real_log(options.data / f"{name}.csv.gz", human)
            print(name, logs[name], flush=True)
        for name in (options.only or DESIGNS) if options.reps else ():
            found = pd.DataFrame([replicate(name, seed) for seed in range(options.reps)])
            figures = {k: [float(found[k].mean()), float(found[k].std() / np.sqrt(len(found)))] for k in found}
            rows[name] = {"logs": options.reps, "figures": figures}
            print(name, rows[name], flush=True)
            rows = {name: rows[name] for name in DESIGNS if name in rows}
            keep_results("judges", {"simulated": rows, "logs": logs}, to_markdown(rows, logs))
    keep_results("judges", {"simulated": rows, "logs": logs}, to_markdown(rows, logs))
    print(to_markdown(rows, logs))


if __name__ == "__main__":
    main()
