"""Log loss of real votes that the default predicts from others, beside fair baselines; calibration; and board times.

    python benchmarks/held_out.py FOLDER [--only llmfao] [--draws 10] [--seed 0]

Whole logs are split in two halves at random, stratified by category, and each half predicts the other; "1%" and the
like are random parts of LMArena's votes that predict all the rest, several parts drawn. Log loss is in mnats per
vote, ties being half wins; lower is better. The default's predictions are its win probabilities as
`analysis.estimate` gives them. Baselines know no low rank: a coin; pooled, one Bradley-Terry model of all categories
with a normal prior whose variance has the most evidence; separate, one per category with a prior of 1.5 logits;
mixed, levels plus deviations with variances by evidence; crossed, where categories have several modes, also levels of
each value of each mode. All of them average win probabilities over their posterior (fair_baselines.py) and predict
every vote. The best baseline is chosen by the same votes, which favours it. Votes of models that the predicting part
does not know are left out for all. The error of a difference is that of a mean over votes, and over parts drawn. The
slope is that of outcomes on predicted log odds, with its error: below 1 predictions are too bold. The 200 most
frequent models are kept, of LMArena 50. Seconds are those of all boards of all models with defaults, on one thread.
Results go to results/held_out.json and .md; logs that are not run keep theirs.
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
from fair_baselines import predict_all
from lrbtl.errors import LrbtlWarning
from replications import keep_results, known_results

FLAGS = ["creative_writing", "instruction_following", "math", "hard_prompt"]
LOGS: dict[str, tuple[str, list[str], float]] = {  # file, contexts, share of votes that predicts the rest
    "lmarena 1%, category": ("lmarena_140k_dev", ["category"], 0.01),
    "lmarena 5%, category": ("lmarena_140k_dev", ["category"], 0.05),
    "lmarena 20%, category": ("lmarena_140k_dev", ["category"], 0.20),
    "lmarena, category": ("lmarena_140k_dev", ["category"], 0.0),
    "lmarena, four flags": ("lmarena_140k_dev", FLAGS, 0.0),
    "llmfao, category x judge": ("llmfao", ["category", "judge_type"], 0.0),
    "football, tournament x era": ("football_intl_1990_2026", ["tournament_type", "era"], 0.0),
    "light fields, scene": ("light_fields", ["scene"], 0.0),
    "pandalm, application x judge": ("pandalm_testset", ["application", "judge"], 0.0),
    "mtbench, category x judge": ("mtbench_judgments", ["category", "judge_type"], 0.0),
}
MODELS = {"lmarena_140k_dev": 50}  # most frequent ones that are kept; elsewhere 200
METHODS = ("default", "mixed", "mixed, crossed", "separate", "pooled", "coin")
AT_ONCE = 1_000  # targets


def default_predictions(train: lrbtl.Battles, u: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the default's probability that a beats b in categories u, by position."""
    analysis = lrbtl.analyse(train)
    pairs, back = np.unique(np.stack([u, a, b]), axis=1, return_inverse=True)
    places = np.array(np.unravel_index(pairs[0], train.shape[1:])).T
    targets = []
    for place, i, j in zip(places, pairs[1], pairs[2], strict=True):
        names = [level[k] for level, k in zip(train.levels, place, strict=True)]
        context = names[0] if len(names) == 1 else tuple(names)
        targets.append(lrbtl.win_probability(train.models[i], train.models[j], context))
    parts = [targets[k : k + AT_ONCE] for k in range(0, len(targets), AT_ONCE)]
    found = np.concatenate([analysis.estimate(part, errors_only=True).estimate for part in parts])
    return np.asarray(found[np.reshape(back, -1)])


def splits(battles: lrbtl.Battles, share: float, draws: int, seed: int) -> list[tuple[lrbtl.Battles, lrbtl.Battles]]:
    """Return pairs of battles of which one predicts the other: two halves, or several small parts and their rests."""
    if not share:
        return list(battles.split(2, rng=seed))
    out = []
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        whole = battles.cells.count.astype(np.int64)
        part = rng.multivariate_hypergeometric(whole, round(share * whole.sum()), method="marginals")
        out.append((battles.with_counts(part), battles.with_counts(whole - part)))
    return out


def predict(train: lrbtl.Battles, test: lrbtl.Battles) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, float]:
    """Return predictions by method, outcomes and counts of the test's cells; and the share of votes left out."""
    cells, known = test.cells, train.model_counts > 0
    kept = (cells.count > 0) & known[cells.a] & known[cells.b]
    u, a, b = cells.context[kept], cells.a[kept], cells.b[kept]
    found = {"default": default_predictions(train, u, a, b), **predict_all(train, u, a, b)}
    return found, cells.y[kept], cells.count[kept].astype(float), 1 - float(cells.count[kept].sum() / cells.count.sum())


def slope(p: np.ndarray, y: np.ndarray, n: np.ndarray) -> tuple[float, float]:
    """Return the slope of outcomes on predicted log odds, by logistic regression without an intercept; its error."""
    x, beta = np.log(p) - np.log1p(-p), 1.0
    for _ in range(30):
        q = 1 / (1 + np.exp(-beta * x))
        information = float(n @ (x**2 * q * (1 - q)))
        beta += float(n @ (x * (y - q))) / information
    return beta, float(np.sqrt(n @ (x * (y - q)) ** 2)) / information


def mean_slope(found: list[tuple[float, float]], *, drawn: bool) -> tuple[float, float]:
    """Return the mean of slopes and its error: halves have votes of their own, parts drawn share theirs."""
    values, errors = np.array(found).T
    if drawn:
        return float(values.mean()), float(np.sqrt(np.mean(errors**2) + np.var(values, ddof=1) / len(values)))
    return float(values.mean()), float(np.sqrt(np.mean(errors**2) / len(values)))


def measure(battles: lrbtl.Battles, share: float, full: lrbtl.Battles, draws: int, seed: int) -> dict[str, Any]:
    """Return the row of a log."""
    means: list[dict[str, float]] = []
    losses: list[dict[str, np.ndarray]] = []
    counts, lost = [], []
    slopes: dict[str, list[tuple[float, float]]] = {}
    for train, test in splits(battles, share, draws, seed):
        found, y, n, missing = predict(train, test)
        loss = {name: -1000 * (y * np.log(p) + (1 - y) * np.log1p(-p)) for name, p in found.items()}
        losses.append(loss)
        means.append({name: float(n @ value / n.sum()) for name, value in loss.items()})
        counts.append(n)
        for name in [name for name in found if name != "coin"]:
            slopes.setdefault(name, []).append(slope(found[name], y, n))
        lost.append(missing)
        print(".", end="", flush=True)
    mnats = {name: float(np.mean([mean[name] for mean in means])) for name in means[0]}
    ahead = {name: paired(losses, counts, name, drawn=bool(share)) for name in mnats if name != "default"}
    start = time.perf_counter(), time.process_time()
    board = lrbtl.leaderboard(full, context="all")
    seconds = time.perf_counter() - start[0], time.process_time() - start[1]
    return {
        "votes": round(share * battles.n_battles) or battles.n_battles, "shape": list(battles.shape),
        "splits": len(means), "mnats": mnats, "default ahead by": ahead,
        "slope": {name: mean_slope(found, drawn=bool(share)) for name, found in slopes.items()},
        "left out": float(np.mean(lost)), "seconds": seconds[0], "cpu seconds": seconds[1], "boards": len(board),
    }  # fmt: skip


def paired(
    losses: list[dict[str, np.ndarray]], counts: list[np.ndarray], name: str, *, drawn: bool
) -> tuple[float, float]:
    """Return by how many mnats the default's loss is smaller, and the error of that.

    Halves predict different votes. Parts drawn predict nearly the same ones, so more of them make the error over
    parts smaller, that over votes stays.
    """
    gaps = [loss[name] - loss["default"] for loss in losses]
    mean = np.array([float(n @ gap / n.sum()) for gap, n in zip(gaps, counts, strict=True)])
    over_votes = [float(n @ (gap - m) ** 2) / n.sum() ** 2 for gap, n, m in zip(gaps, counts, mean, strict=True)]
    if drawn:
        return float(mean.mean()), float(np.sqrt(np.mean(over_votes) + np.var(mean, ddof=1) / len(mean)))
    return float(mean.mean()), float(np.sqrt(np.mean(over_votes) / len(mean)))


def to_markdown(rows: dict[str, dict[str, Any]]) -> str:
    about = " ".join((__doc__ or "").split("\n\n")[2].split())
    lines = ["# Held-out log loss, mnats per vote", "", about, ""]
    head = [
        "log", "shape", "votes", *METHODS, "default ahead of the best baseline by",
        "slope (of the best baseline)", "boards: s (CPU s)",
    ]  # fmt: skip
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for log, row in rows.items():
        best = min(row["mnats"].values())
        rival = min(row["default ahead by"], key=lambda name: row["mnats"][name])
        ahead, error = row["default ahead by"][rival]
        cells = []
        for name in METHODS:
            value = row["mnats"].get(name)
            text = "" if value is None else f"{value:.1f}"
            cells.append(f"**{text}**" if value == best else text)
        shape = " x ".join(str(size) for size in row["shape"])
        steep = f"{row['slope']['default'][0]:.2f} ± {row['slope']['default'][1]:.2f} ({row['slope'][rival][0]:.2f})"
        cells += [f"{ahead:+.1f} ± {error:.1f}", steep, f"{row['seconds']:.1f} ({row['cpu seconds']:.1f})"]
        lines.append(f"| {log} | {shape} | {row['votes']:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=10, help="parts of a log, where a part predicts the rest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", action=argparse.BooleanOptionalAction, default=True, help="write results/held_out")
    options = parser.parse_args()
    rows = {log: row for log, row in known_results("held_out").items() if "slope" in row}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        for name, (file, contexts, share) in LOGS.items():
            if options.only in name:
                frame = pd.read_csv(options.folder / f"{file}.csv.gz")
                full = lrbtl.Battles.from_frame(frame, contexts=contexts)
                battles = full.top_models(min(MODELS.get(file, 200), full.shape[0]))
                rows[name] = measure(battles, share, full, options.draws, options.seed)
                rows = {log: rows[log] for log in LOGS if log in rows}
                if options.keep:
                    keep_results("held_out", rows, to_markdown(rows))
                print(f"\n{to_markdown({name: rows[name]}).splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    main()
