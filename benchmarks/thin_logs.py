"""Thin logs: is the default honest and useful where votes are few? Plain boards, categories, adaptive designs.

    python benchmarks/thin_logs.py --part plain categories adaptive --logs 100 [--design "60, 600"] [--jobs 2]

Plain boards, beside an oracle, twelve designs: models, votes, law of levels and who meets whom (thin_oracle.py says
how). Levels are N(0, 1), of t3 Student with three degrees of freedom scaled to variance 1, of two groups a mixture of
two narrow normal laws; votes are wins and losses. Similar: opponents are near in an order of levels plus noise;
traffic: good models have more votes; star: all meet three anchors only. Models without a vote are left out, and
scores sum to zero over the others. The oracle knows the laws of levels and of pairings: posterior means and central
95% intervals of Markov chains. Large scores are the tenth of a log's models with the largest true scores in size;
first is the model with the highest estimate, of each method its own, and its bias is estimate minus truth in logits.
Categories: scores are levels plus a shared factor of each mode plus independent deviations of size tau, and models
and categories meet uniformly. Adaptive: votes go to the 5% of pairs that were closest so far, to the five models with
the highest upper limits, or where `plan` sends them to rank the top five; fresh votes have the same pairs in the same
categories. On plain adaptive boards the posterior under the true law of levels stands beside. Errors are those of
means over logs, of differences paired. Misses names what a row does not show that it must: all scores .935 to .965;
plain boards beside the oracle RMSE at most 1.05 times, large scores covered .03 less, the first model .15 logits
further from zero, covered in .90 or .03 less; categories tau within 10%, first models .90; adaptive overall .94, the
leader within 10 Elo of fresh votes. Results go to results/thin_logs.json and .md; designs that are not run keep
theirs. The oracle's figures are kept in results/thin_logs_oracle.json, since they do not depend on the package.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
import thin_adaptive
import thin_categories
import thin_oracle
from lrbtl.errors import LrbtlWarning
from replications import keep_results, known_results, replicate_all
from thin_oracle import DESIGNS, Log, draw_log, oracle_draws

SEED = 20261118
LARGE = 0.1  # share of a log's models
FIGURES = ("all", "large", "mse", "bias", "first")

# What the default must show beside the oracle: coverage, times its RMSE, less coverage, further bias in logits.
COVERAGE, TIMES_RMSE, LESS_LARGE, MORE_BIAS, FIRST = (0.935, 0.965), 1.05, 0.03, 0.15, 0.90


def to_battles(log: Log) -> tuple[lrbtl.Battles, np.ndarray]:
    """Return the battles of the models that have votes, and those models' true scores, which sum to zero."""
    present = np.unique(np.append(log.a, log.b))
    place = np.searchsorted(present, np.arange(len(log.levels)))
    a, b = place[log.a], place[log.b]
    battles = lrbtl.Battles.from_arrays(
        np.tile(a, 2), np.tile(b, 2), np.repeat([1.0, 0.0], len(a)), n_models=len(present),
        counts=np.append(log.won, log.lost),
    )  # fmt: skip
    truth = log.levels[present]
    return battles, truth - truth.mean()


def judge(truth: np.ndarray, values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> dict[str, float]:
    """Return the figures of one log: coverage, mean squared error, and the model ranked first."""
    inside = (lower <= truth) & (truth <= upper)
    large = np.argsort(-np.abs(truth))[: max(1, round(LARGE * len(truth)))]
    first = int(np.argmax(values))
    found = inside.mean(), inside[large].mean(), np.mean((values - truth) ** 2), values[first] - truth[first]
    return dict(zip(FIGURES, (*map(float, found), float(inside[first])), strict=True))


def ask_oracle(base: int, name: str, seed: int) -> list[float]:
    """Return the oracle's figures on one log."""
    design = DESIGNS[name]
    log = draw_log(design, base, seed)
    draws = oracle_draws(design, log, seed)[:, np.unique(np.append(log.a, log.b))]
    draws = draws - draws.mean(axis=1, keepdims=True)
    lower, upper = np.quantile(draws, [0.025, 0.975], axis=0)
    return [round(value, 5) for value in judge(to_battles(log)[1], draws.mean(axis=0), lower, upper).values()]


def oracle_figures(base: int, name: str, logs: int, jobs: int) -> list[dict[str, float]]:
    """Return the oracle's figures on logs, drawn once for all builds of the package and kept one by one."""
    code = hashlib.sha256(Path(thin_oracle.__file__).read_bytes()).hexdigest()[:12]
    known = known_results("thin_logs_oracle")
    if known.get("code") != code:
        known = {"code": code, "figures": {}}
    rows = known["figures"].setdefault(f"{base}; {name}", [])
    with ProcessPoolExecutor(jobs) as pool:
        for row in pool.map(partial(ask_oracle, base, name), range(len(rows), logs)):
            rows.append(row)
            keep_results("thin_logs_oracle", known)
    return [dict(zip(FIGURES, row, strict=True)) for row in rows[:logs]]


def replicate_plain(base: int, name: str, seed: int, known: dict[str, Any]) -> dict[str, Any]:
    """Return the default's figures on one plain log."""
    design = DESIGNS[name.split("; ")[1]]
    battles, truth = to_battles(draw_log(design, base, seed))
    found = lrbtl.infer(battles, lrbtl.all_scores())
    lower, upper = found.conf_int().T
    return {"seed": seed, "default": judge(truth, found.estimate, lower, upper)}


def summarise_plain(name: str, found: list[dict[str, Any]], oracle: list[dict[str, float]]) -> dict[str, Any]:
    """Return the row of a plain design."""
    both = {"default": [each["default"] for each in found], "oracle": oracle}
    row: dict[str, Any] = {"logs": len(found)}
    for method, figures in both.items():
        for key in FIGURES:
            values = np.array([each[key] for each in figures])
            row[f"{method} {key}"] = [float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(found)))]
    ours, theirs = (np.array([each["mse"] for each in both[method]]) for method in ("default", "oracle"))
    ratio = np.sqrt(ours.mean() / theirs.mean())
    spread = np.std(ours / ours.mean() - theirs / theirs.mean(), ddof=1) / np.sqrt(len(found))
    row["times RMSE"] = [float(ratio), float(ratio * spread / 2)]
    apart = np.array([ours["bias"] - theirs["bias"] for ours, theirs in zip(both["default"], oracle, strict=True)])
    row["bias apart"] = [float(apart.mean()), float(apart.std(ddof=1) / np.sqrt(len(found)))]
    row["misses"] = misses(row)
    return row


def misses(row: dict[str, Any]) -> list[str]:
    """Return what a row does not show that it must."""
    of = {key: row[key][0] for key in row if isinstance(row[key], list) and len(row[key]) == 2}
    out = []
    if not COVERAGE[0] <= of["default all"] <= COVERAGE[1]:
        out.append("all")
    if of["default large"] < of["oracle large"] - LESS_LARGE:
        out.append("large")
    if of["times RMSE"] > TIMES_RMSE:
        out.append("RMSE")
    if abs(of["default bias"]) > abs(of["oracle bias"]) + MORE_BIAS:
        out.append("bias of first")
    if of["default first"] < min(FIRST, of["oracle first"] - LESS_LARGE):
        out.append("first")
    return out


# ------------------------------------------------------------------------------
# Tables.
# ------------------------------------------------------------------------------


def with_error(pair: list[float], digits: int = 3, sign: str = "") -> str:
    return f"{pair[0]:{sign}.{digits}f} ± {pair[1]:.{digits}f}"


def plain_cells(name: str, row: dict[str, Any]) -> list[str]:
    """Return a row of the table of plain designs."""
    rmse = [f"{row[f'{method} mse'][0] ** 0.5:.3f}" for method in ("default", "oracle")]
    return [
        name, str(row["logs"]), with_error(row["default all"]), f"{row['oracle all'][0]:.3f}",
        with_error(row["default large"]), f"{row['oracle large'][0]:.3f}", *rmse, with_error(row["times RMSE"]),
        with_error(row["default bias"], 2, "+"), f"{row['oracle bias'][0]:+.2f}",
        with_error(row["bias apart"], 2, "+"),
        with_error(row["default first"], 2), f"{row['oracle first'][0]:.2f}", ", ".join(row["misses"]),
    ]  # fmt: skip


PLAIN_HEAD = [
    "models, votes, design", "logs", "all", "oracle", "large", "oracle", "RMSE", "oracle", "ratio",
    "bias of first", "oracle", "apart", "first covered", "oracle", "misses",
]  # fmt: skip


PARTS: dict[str, tuple[str, Any, list[str], Any]] = {
    "plain": ("Plain boards", DESIGNS, PLAIN_HEAD, plain_cells),
    "categories": ("Categories", thin_categories.DESIGNS, thin_categories.HEAD, thin_categories.cells),
    "adaptive": ("Adaptive designs", thin_adaptive.DESIGNS, thin_adaptive.HEAD, thin_adaptive.cells),
}


def to_markdown(results: dict[str, Any]) -> str:
    about = " ".join((__doc__ or "").split("\n\n")[2].split())
    lines = ["# Thin logs: coverage of nominal 0.95 with defaults", "", about]
    for part, (title, _, head, cells) in PARTS.items():
        if part in results:
            lines += ["", f"## {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
            lines += ["| " + " | ".join(cells(name, row)) + " |" for name, row in results[part].items()]
    return "\n".join(lines) + "\n"


def measure(part: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the row of a design."""
    base, logs, jobs = options.seed, options.logs, options.jobs
    key = f"thin_logs {part}; {name}; {base}"
    if part == "plain":
        found = replicate_all(key, partial(replicate_plain, base), logs, jobs, needed=["default"])
        return summarise_plain(name, found, oracle_figures(base, name, logs, jobs)) | {"seed": base}
    module = thin_categories if part == "categories" else thin_adaptive
    needed = ["default"] if part == "categories" else ["adaptive", "fresh"]
    found = replicate_all(key, partial(module.replicate, base), logs, jobs, needed=needed)
    return module.summarise(name, found) | {"seed": base}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", default=[*PARTS], choices=[*PARTS])
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--design", default="", help="part of the names of the designs to run")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", action=argparse.BooleanOptionalAction, default=True, help="write results/thin_logs")
    options = parser.parse_args()
    warnings.simplefilter("ignore", LrbtlWarning)  # processes of the pool are forks of this one
    results = known_results("thin_logs")
    for part in options.part:
        _, designs, _, cells = PARTS[part]
        for name in designs:
            if options.design in name:
                row = measure(part, name, options)
                print(*cells(name, row), sep=" | ", flush=True)
                known = {**results.get(part, {}), name: row}
                results[part] = {each: known[each] for each in designs if each in known}
                if options.keep:
                    keep_results("thin_logs", results, to_markdown(results))


if __name__ == "__main__":
    main()
