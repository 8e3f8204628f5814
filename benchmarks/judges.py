"""Few human votes sharpened by many of a machine: coverage and width of the human board.

    python benchmarks/judges.py --reps 100 --data FOLDER

Simulation: 16 models, 4 categories, 1,500 human and 15,000 machine votes, judges as a context mode, default options.
Human scores have spread .6 and categories of their own (.2). The machine's are the human ones times .9 plus deviations:
agrees: .05 per model and category; differs: .25; biased: .05, and 4 of the 16 models (a family) .6 lower;
noise: nothing in common with people. The human board is that of context={"judge": "human"}; its coverage is that of
95% intervals over models, in the family apart; its width is against the board of human votes alone, whose coverage is
beside it. Nothing was tuned. Real logs: widths and changes of the human boards of MT-Bench and llmfao.
Results go to results/judges.json and .md.
"""

import argparse
import os
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import expit

import lrbtl
from lrbtl.errors import LrbtlWarning
from replications import keep_results

ELO = 400 / np.log(10)
MODELS, CATEGORIES, HUMAN, MACHINE, FAMILY = 16, 4, 1500, 15_000, 4
DESIGNS = {
    "agrees": (0.9, 0.05, 0.0),
    "differs": (0.9, 0.25, 0.0),
    "biased": (0.9, 0.05, 0.6),
    "noise": (0.0, 0.5, 0.0),
}
LOGS = {"mtbench_judgments": ("expert", "author"), "llmfao": ("crowd",)}  # human levels of judge_type


def simulate(design: str, seed: int) -> tuple[lrbtl.Battles, np.ndarray]:
    """Return votes of people and of a machine, and the human scores (models, categories)."""
    rng = np.random.default_rng(seed)
    slope, away, bias = DESIGNS[design]
    human = rng.normal(0, 0.6, (MODELS, 1)) + rng.normal(0, 0.2, (MODELS, CATEGORIES))
    machine = slope * human + rng.normal(0, away, human.shape)
    machine[:FAMILY] -= bias
    scores = np.stack([human, machine], axis=2)
    judge = np.repeat([0, 1], [HUMAN, MACHINE])
    n = judge.size
    a, u = rng.integers(MODELS, size=n), rng.integers(CATEGORIES, size=n)
    b = (a + rng.integers(1, MODELS, size=n)) % MODELS
    won = rng.random(n) < expit(scores[a, u, judge] - scores[b, u, judge])
    names = np.array(["human", "machine"])[judge]
    frame = {"model_a": a, "model_b": b, "winner": won.astype(float), "category": u, "judge": names}
    return lrbtl.Battles.from_frame(frame, contexts=["category", "judge"]), human


def covered(board: lrbtl.Leaderboard, truth: np.ndarray) -> np.ndarray:
    """Return which models' intervals hold the true score, by model."""
    true = 1000 + ELO * (truth - truth.mean())
    out = np.empty(MODELS, dtype=bool)
    for model, low, high in zip(board.models, board.lower, board.upper, strict=True):
        out[model] = low <= true[model] <= high
    return out


def replicate(design: str, seed: int) -> dict[str, float]:
    """Return coverage of both boards and the ratio of their widths."""
    battles, human = simulate(design, seed)
    both = lrbtl.leaderboard(battles, context={"judge": "human"})
    alone = battles.select(contexts={"judge": ["human"]})
    only = lrbtl.leaderboard(alone)
    weights = both.basis.weights.reshape(CATEGORIES, -1)[:, 0]
    shares = alone.context_counts / alone.n_battles
    ours, theirs = covered(both, human @ weights), covered(only, human @ shares)
    return {
        "covered": float(ours.mean()),
        "family": float(ours[:FAMILY].mean()),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    rows, logs = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        for name, human in LOGS.items() if options.data else ():
            logs[name] = real_log(options.data / f"{name}.csv.gz", human)
            print(name, logs[name], flush=True)
        for design in DESIGNS:
            found = pd.DataFrame([replicate(design, seed) for seed in range(options.reps)])
            rows[design] = {k: [float(found[k].mean()), float(found[k].std() / np.sqrt(len(found)))] for k in found}
            print(design, rows[design], flush=True)
    lines = [f"# Judges and people, {options.reps} logs of each kind", ""]
    lines += ["| machine | coverage | of the family | people alone | width / people alone |", "|---|---|---|---|---|"]
    lines += [
        f"| {design} | " + " | ".join(f"{mean:.3f} ± {error:.3f}" for mean, error in row.values()) + " |"
        for design, row in rows.items()
    ]
    if logs:
        lines += [
            "",
            "Real logs: width of a 95% interval in Elo points on the human board, people alone and with machines.",
            "",
        ]
        lines += [
            "| log | models | human votes | machine votes | people alone | with machines | largest change | moved |"
        ]
        lines += ["|---|---|---|---|---|---|---|---|"]
        lines += [
            f"| {name} | {row['models']} | {row['human votes']:,} | {row['machine votes']:,} | "
            f"{row['width, people alone']:.0f} | {row['width']:.0f} | {row['largest change']:.0f} | {row['movers']} |"
            for name, row in logs.items()
        ]
    keep_results("judges", {"simulated": rows, "logs": logs}, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
