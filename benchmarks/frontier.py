"""Level and power of verdicts on the frontier of score and cost, and calibration of P(first), P(top k), on 24 designs.

A design has models of which groups are equally good, so that false statements are possible, and costs at random that go
with the scores. A verdict is wrong if a model on the true frontier is called dominated, or another is said to be on it.
Beside it stands the rule by point estimates. Probabilities are checked in designs in which all models differ. Results
are kept after each design: `python benchmarks/frontier.py [--replications 200] [--quick]`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import lrbtl
from lrbtl.boards.choose import DOMINATED, FRONTIER
from lrbtl.inference.estimate import ELO
from rank_sets import GROUPS, SHAPES, VOTES, truth_of
from replications import keep_results, known_results

TOP = 3
CAPS, SPLITS = (np.inf, 4.0, 1.0, 0.5), 4  # dollars that models may cost, and halves of LMArena
VERDICTS = (FRONTIER, DOMINATED, "cannot tell")
EDGES = np.array([0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0])


def true_frontier(score: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Which models no model that costs no more is better than."""
    better = (score[None] > score[:, None] + 1e-9) & (cost[None] <= cost[:, None])
    return np.asarray(~better.any(axis=1))


def one(truth: np.ndarray, n: int, seed: int) -> dict[str, Any]:
    """Return what one log gives."""
    rng = np.random.default_rng([9, seed])
    battles = lrbtl.simulate_battles(truth, n, rng=1000 + seed)
    score = truth.mean(axis=1)
    cost = np.exp(1.0 * score / max(score.std(), 1e-9) + rng.normal(size=score.size))
    analysis = lrbtl.analyse(battles)
    names = list(analysis.battles.models)
    found = lrbtl.choose(
        analysis, dict(zip(names, cost.tolist(), strict=True)), weights="equal", top=TOP, min_battles=1
    )
    at = np.array([names.index(model) for model in found.models])
    on = true_frontier(score, cost)[at]
    called = np.array(found.verdict)
    point = true_frontier(found.score, found.cost)
    order = np.argsort(np.argsort(-score[at]))
    return {
        "dominated_wrongly": bool((on & (called == DOMINATED)).any()),
        "frontier_wrongly": bool((~on & (called == FRONTIER)).any()),
        "power_dominated": float((called[~on] == DOMINATED).mean()) if (~on).any() else None,
        "power_frontier": float((called[on] == FRONTIER).mean()),
        "point_wrongly": bool((on & ~point).any()),
        "point_power": float((~point[~on]).mean()) if (~on).any() else None,
        "first": [found.p_first.tolist(), (order == 0).tolist()],
        "top": [found.p_top.tolist(), (order < TOP).tolist()],
    }


def sums(pairs: list[list[list[float]]]) -> list[list[float]]:
    """Return of each bin of predicted probabilities their number, their sum, and how often it happened."""
    predicted, happened = (np.concatenate([np.array(pair[side], dtype=float) for pair in pairs]) for side in (0, 1))
    place = np.clip(np.searchsorted(EDGES, predicted, side="right") - 1, 0, len(EDGES) - 2)
    size = len(EDGES) - 1
    return np.stack([np.bincount(place, w, size) for w in (np.ones_like(predicted), predicted, happened)]).T.tolist()


def table(done: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = ["# Frontier of score and cost: verdicts at 95% for all models at once", ""]
    lines += ["| design | runs | frontier called dominated | other called frontier | power: dominated | frontier |"]
    lines[-1] += " point estimates: wrong | power |"
    lines += ["|" + "---|" * 8]
    for name, row in done.items():
        if name == "lmarena":
            continue
        cells = [f"{row['runs']}", f"{row['dominated_wrongly']:.3f}", f"{row['frontier_wrongly']:.3f}"]
        cells += [f"{row[key]:.2f}" for key in ("power_dominated", "power_frontier", "point_wrongly", "point_power")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    for what, title in (("first", "P(first)"), ("top", f"P(top {TOP})")):
        kept = [np.array(row[what]) for row in done.values() if what in row]
        if kept:
            lines += ["", f"{title}, designs with distinct models:", "", "| predicted | observed | error | n |"]
            lines += ["|---|---|---|---|"]
            for n, predicted, happened in np.sum(kept, axis=0):
                if n:
                    p = predicted / n
                    error = np.sqrt(max(p * (1 - p), 1e-4) / n)
                    lines.append(f"| {p:.3f} | {happened / n:.3f} | {error:.3f} | {n:.0f} |")
    if "lmarena" in done:
        lines += routing_table(done["lmarena"])
    return "\n".join(lines) + "\n"


def lmarena(folder: Path) -> dict[str, Any]:
    """Return the choice of LMArena's models by output price, and routing on half of the votes judged by the rest."""
    votes = pd.read_csv(folder / "lmarena_140k_dev.csv.gz")
    prices = pd.read_csv(folder / "lmarena_prices.csv.gz")
    battles = lrbtl.Battles.from_frame(votes, contexts="topic" if "topic" in votes else "category")
    found = lrbtl.choose(battles, prices, column="output_price", margin=10)
    with tempfile.TemporaryDirectory() as scratch:  # prices are not ours to give away
        lrbtl.save_picture(lrbtl.plot_choice(found), Path(scratch) / "frontier.png")
    out: dict[str, Any] = {word: found.verdict.count(word) for word in VERDICTS}
    out["models"], out["cheaper_within_10_points"] = len(found), sum(x is not None for x in found.instead)
    out["routing"] = {str(cap): {"expected_gain": [], "held_out_gain": [], "held_out_se": []} for cap in CAPS}
    for seed in range(SPLITS):
        train, held = battles.split(2, rng=seed)[0]
        chooser, judge = lrbtl.analyse(train), lrbtl.analyse(held)
        for cap in CAPS:
            affordable = prices[prices["output_price"] <= cap]
            routing = lrbtl.choose(chooser, affordable, column="output_price").routing
            assert routing is not None
            gamma = np.zeros((held.shape[0], held.n_contexts))
            single = held.model_index(routing.single)
            for u, (pick, weight) in enumerate(zip(routing.pick, routing.weight, strict=True)):
                gamma[held.model_index(pick), u] += weight
                gamma[single, u] -= weight
            est = judge.estimate(lrbtl.linear(gamma))
            row = out["routing"][str(cap)]
            row["expected_gain"].append(routing.overall("gain"))
            row["held_out_gain"].append(ELO * float(est.estimate[0]))
            row["held_out_se"].append(ELO * float(est.se[0]))
    return out


def routing_table(found: dict[str, Any]) -> list[str]:
    """Return what LMArena's half said of routing, and what the other half says of it."""
    lines = ["", "LMArena, models with a price: " + ", ".join(f"{found[word]} {word}" for word in VERDICTS)]
    lines[-1] += (
        f"; for {found['cheaper_within_10_points']} of {found['models']} a cheaper one is as good within 10 points."
    )
    lines += [
        "",
        "Routing by one half of LMArena's votes against its best single model, judged by the other half (Elo):",
    ]
    lines += ["", "| dollars per million output tokens, at most | halves | expected gain | held-out gain | its error |"]
    lines += ["|---|---|---|---|---|"]
    for cap, row in found["routing"].items():
        mean = [float(np.mean(row[name])) for name in ("expected_gain", "held_out_gain", "held_out_se")]
        lines.append(f"| {cap} | {len(row['held_out_gain'])} | {mean[0]:.1f} | {mean[1]:+.1f} | {mean[2]:.1f} |")
    return lines


def main() -> None:
    """Run all designs that have not been run, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="30 logs of each design")
    parser.add_argument("--lmarena", type=Path, help="folder of LMArena's votes and prices: only these")
    arguments = parser.parse_args()
    runs = 30 if arguments.quick else arguments.replications
    done: dict[str, Any] = known_results("frontier")
    warnings.simplefilter("ignore", lrbtl.errors.LrbtlWarning)
    if arguments.lmarena is not None:
        done["lmarena"] = lmarena(arguments.lmarena)
        keep_results("frontier", done, table(done))
        print(done["lmarena"])
        return
    for shape, votes, groups in product(SHAPES, VOTES, GROUPS):
        name = f"{shape[0]} x {shape[1]}, {votes} votes per score, {groups}"
        if done.get(name, {}).get("runs", 0) >= runs:
            continue
        began = time.time()
        found = [one(truth_of(shape, groups, seed), votes * shape[0] * shape[1], seed) for seed in range(runs)]
        rows: dict[str, Any] = {"runs": runs, "seconds": round(time.time() - began, 1)}
        for key in ("dominated_wrongly", "frontier_wrongly", "power_dominated", "power_frontier"):
            rows[key] = float(np.mean([x[key] for x in found if x[key] is not None]))
        for key in ("point_wrongly", "point_power"):
            rows[key] = float(np.mean([x[key] for x in found if x[key] is not None]))
        if groups == "distinct":
            rows |= {what: sums([x[what] for x in found]) for what in ("first", "top")}
        done[name] = rows
        keep_results("frontier", done, table(done))
        print(name, {key: round(x, 3) for key, x in rows.items() if isinstance(x, float)}, flush=True)


if __name__ == "__main__":
    main()
