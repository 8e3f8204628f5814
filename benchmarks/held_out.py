"""Held-out log-likelihood of real logs: pooled, per context, low rank at each rank, and the default; and board times.

    python benchmarks/held_out.py FOLDER [--folds 5] [--only llmfao]

Battles are split in folds at random, stratified by context; every model is fitted to the others and predicts each
fold's votes (ties as half wins) with logistic win probabilities, in mnats per vote (higher is better); the error of a
difference is that of a mean over votes. The best other is chosen by the same votes, which favours it. A pair of
which a fit says nothing is predicted as even; a method that has no fit in some fold is left out. The default's
probabilities are at its score estimates, as for the others. The 200 most frequent models are kept, of LMArena 50.
Seconds are those of all boards of all models with defaults, on one thread. Results go to results/held_out.json and .md;
logs that are not run keep theirs.
"""

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import lrbtl
from lrbtl.errors import LrbtlError, LrbtlWarning
from replications import keep_results, known_results

FLAGS = ["creative_writing", "instruction_following", "math", "hard_prompt"]
LOGS: dict[str, tuple[str, list[str]]] = {
    "lmarena, category": ("lmarena_140k_dev", ["category"]),
    "lmarena, four flags": ("lmarena_140k_dev", FLAGS),
    "llmfao, category x judge": ("llmfao", ["category", "judge_type"]),
    "football, tournament x era": ("football_intl_1990_2026", ["tournament_type", "era"]),
    "pandalm, application x judge": ("pandalm_testset", ["application", "judge"]),
}
MODELS = {"lmarena_140k_dev": 50}  # most frequent ones that are kept; elsewhere 200
RANKS = (1, 2, 3, 4)
LARGEST = 12.0  # logits beyond which no fit is followed


def log_likelihood(scores: np.ndarray, test: lrbtl.Battles) -> np.ndarray:
    """Return the log-likelihood of one vote of each cell under scores (d1, D); unknown gaps count as even."""
    cells = test.cells
    eta = scores[cells.a, cells.context] - scores[cells.b, cells.context]
    eta = np.clip(np.where(np.isfinite(eta), eta, 0.0), -LARGEST, LARGEST)
    return np.asarray(-cells.y * np.logaddexp(0, -eta) - (1 - cells.y) * np.logaddexp(0, eta))


def fits(train: lrbtl.Battles) -> dict[str, np.ndarray]:
    """Return the scores (d1, D) of each model of the battles that has a fit."""
    shape = (train.shape[0], train.n_contexts)
    out = {"default": lrbtl.analyse(train).scores()}
    pooled = lrbtl.analyse(train.pooled(), method="naive").scores()
    out["pooled"] = np.broadcast_to(np.reshape(pooled, (-1, 1)), shape)
    out["per context"] = np.asarray(lrbtl.fit_separate(train).scores).reshape(shape)
    for rank in RANKS:
        try:
            out[f"rank {rank}"] = np.asarray(lrbtl.fit(train, rank).scores).reshape(shape)
        except LrbtlError:
            continue
    return out


def paired(difference: np.ndarray, count: np.ndarray) -> tuple[float, float]:
    """Return the mean over votes of a difference, and its error."""
    n = float(count.sum())
    mean = float(count @ difference) / n
    return mean, float(np.sqrt(count @ (difference - mean) ** 2)) / n


def measure(battles: lrbtl.Battles, folds: int, full: lrbtl.Battles) -> dict[str, Any]:
    found: dict[str, list[np.ndarray]] = {}
    counts = []
    for train, test in battles.split(folds, rng=0):
        counts.append(test.cells.count)
        for name, scores in fits(train).items():
            found.setdefault(name, []).append(log_likelihood(scores, test))
        print(".", end="", flush=True)
    count = np.concatenate(counts)
    of_votes = {name: 1000 * np.concatenate(parts) for name, parts in found.items() if len(parts) == folds}
    ahead = {name: paired(of_votes["default"] - values, count) for name, values in of_votes.items()}
    start = time.perf_counter(), time.process_time()
    board = lrbtl.leaderboard(full, context="all")
    seconds = time.perf_counter() - start[0], time.process_time() - start[1]
    return {
        "votes": battles.n_battles, "shape": list(battles.shape), "folds": folds,
        "mnats": {name: float(count @ values / count.sum()) for name, values in of_votes.items()},
        "default ahead by": ahead,
        "seconds": seconds[0], "cpu seconds": seconds[1], "boards": len(board),
    }  # fmt: skip


def to_markdown(rows: dict[str, dict[str, Any]]) -> str:
    names = ["default", "pooled", "per context", *(f"rank {rank}" for rank in RANKS)]
    about = " ".join((__doc__ or "").split("\n\n")[2].split())
    lines = ["# Held-out log-likelihood, mnats per vote", "", about, ""]
    head = ["log", "shape", "folds", *names, "default ahead of the best other by", "boards: s (CPU s)"]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for log, row in rows.items():
        best = max(row["mnats"].values())
        rival = max((name for name in row["mnats"] if name != "default"), key=lambda name: row["mnats"][name])
        ahead, error = row["default ahead by"][rival]
        cells = []
        for name in names:
            value = row["mnats"].get(name)
            text = "" if value is None else f"{value:.2f}"
            cells.append(f"**{text}**" if value == best else text)
        shape = " x ".join(str(size) for size in row["shape"])
        end = f"{row['seconds']:.1f} ({row['cpu seconds']:.1f})"
        start = f"| {log} | {shape} | {row['folds']} | "
        lines.append(start + " | ".join(cells) + f" | {ahead:+.1f} ± {error:.1f} | {end} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    rows = known_results("held_out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        for name, (file, contexts) in LOGS.items():
            if options.only in name:
                frame = pd.read_csv(options.folder / f"{file}.csv.gz")
                full = lrbtl.Battles.from_frame(frame, contexts=contexts)
                battles = full.top_models(min(MODELS.get(file, 200), full.shape[0]))
                rows[name] = measure(battles, options.folds, full)
                rows = {log: rows[log] for log in LOGS if log in rows}
                keep_results("held_out", rows, to_markdown(rows))
                print(f"\n{to_markdown({name: rows[name]}).splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    main()
