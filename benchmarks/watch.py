"""How often intervals that may be looked at every day are ever wrong, how wide they are, and when they decide.

A log grows by a look's worth of votes at a time. Wrong is, at any look: an interval of a gap that leaves the truth out
(`pair`: one pair of equal models; `top`: the first two, which are equal; `joint`: any gap between any two models), for
one look, at any time, and at planned looks. Designs: uniform and adaptive pairing (close models meet more often), plain
and eight categories, voters with tastes of their own as clusters. `python benchmarks/watch.py [--logs 1000] [--quick]`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import lrbtl
from lrbtl.boards.ranking import JointGaps
from lrbtl.inference.always_valid import Validity
from replications import keep_results, known_results

MODELS, LOOKS, VOTES = 8, 58, 5800
KINDS = ("once", "always", "planned", "planned, last named")
SCORES = np.array([0.6, 0.6, 0.4, 0.2, 0.0, -0.2, -0.6, -1.0])  # the first two are equal


def votes_of(
    rng: np.random.Generator, adaptive: bool, n_contexts: int, clusters: bool, n: int
) -> Iterator[dict[str, Any]]:
    """Yield a log of n votes, a look's worth at a time; adaptive pairs are drawn by what the votes so far say."""
    truth = np.repeat(SCORES[:, None], n_contexts, axis=1)
    if n_contexts > 1:
        truth[2:] += 0.3 * rng.normal(size=(MODELS - 2, n_contexts))
    taste = 0.5 * rng.normal(size=(200, MODELS)) if clusters else None
    won, met = np.ones(MODELS), np.full(MODELS, 2.0)
    step = n // LOOKS
    for _ in range(LOOKS):
        now = np.log(won / (met - won)) if adaptive else np.zeros(MODELS)
        first = rng.integers(0, MODELS, step)
        near = np.exp(-3.0 * np.abs(now[:, None] - now)) * (1 - np.eye(MODELS))
        near /= near.sum(axis=1, keepdims=True)
        second = (near[first].cumsum(axis=1) > rng.random((step, 1))).argmax(axis=1)
        u, voter = rng.integers(0, n_contexts, step), rng.integers(0, 200, step)
        gap = truth[first, u] - truth[second, u]
        if taste is not None:
            gap = gap + taste[voter, first] - taste[voter, second]
        y = (rng.random(step) < 1 / (1 + np.exp(-gap))).astype(float)
        np.add.at(won, first, y)
        np.add.at(won, second, 1 - y)
        np.add.at(met, first, 1)
        np.add.at(met, second, 1)
        yield {"a": first, "b": second, "y": y, "context": u, "voter": voter}


def one_log(seed: int, adaptive: bool, n_contexts: int, clusters: bool) -> dict[str, Any]:
    """Return, for each kind, whether a statement was ever wrong, widths where tuned, and votes to the first verdict."""
    rng = np.random.default_rng([29, seed, adaptive, n_contexts, clusters])
    parts: list[dict[str, Any]] = []
    wrong = {kind: {"pair": False, "joint": False} for kind in KINDS}
    told: dict[str, int | None] = dict.fromkeys(KINDS)
    width: dict[str, float] = {}
    for k, part in enumerate(votes_of(rng, adaptive, n_contexts, clusters, VOTES), 1):
        parts.append(part)
        if k < 6:
            continue  # a board of a few hundred votes is where daily looks begin
        log = {name: np.concatenate([x[name] for x in parts]) for name in part}
        more = {"cluster": "voter"} if clusters else {}
        frame = {"model_a": log["a"], "model_b": log["b"], "winner": log["y"], "category": log["context"]}
        frame |= {"voter": log["voter"]} if clusters else {}
        battles = lrbtl.Battles.from_frame(frame, contexts="category" if n_contexts > 1 else None, **more)
        analysis = lrbtl.analyse(battles)
        weights = np.full(battles.n_contexts, 1 / battles.n_contexts)
        (found,) = analysis.estimate_boards(weights[None])
        at = np.argsort(np.array(battles.models))
        score, cov = found.working[at], found.working_cov[np.ix_(at, at)]
        # of other models than the equal ones the truth is a mean over tastes and contexts, and is not checked
        truth = None if n_contexts > 1 or clusters else SCORES
        gaps = JointGaps.of(cov)
        se, gap = gaps.errors(), score[:, None] - score
        n = battles.n_battles
        for kind in KINDS:
            valid = {
                "once": Validity(),
                "always": Validity("always", n, VOTES),
                "planned": Validity(looks=LOOKS),
                "planned, last named": Validity(looks=LOOKS, votes=n, tuned_at=VOTES),
            }[kind]
            pair = valid.two_sided(0.95)
            wrong[kind]["pair"] |= bool(abs(gap[0, 1]) > pair * se[0, 1])
            away = np.abs(gap - (0 if truth is None else truth[:, None] - truth))
            critical = valid.joint(gaps.critical, 0.95, MODELS * (MODELS - 1) // 2)
            off = away > critical * se
            wrong[kind]["joint"] |= bool(off[0, 1] if truth is None else off[np.triu_indices(MODELS, 1)].any())
            if told[kind] is None and gap[2, 5] > pair * se[2, 5]:
                told[kind] = n
            if k == LOOKS:
                width[kind] = pair / 1.959964
    return {"wrong": wrong, "told": told, "width": width}


def main() -> None:
    """Run all designs that have not been run, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="60 logs of each design")
    arguments = parser.parse_args()
    logs = 60 if arguments.quick else arguments.logs
    done: dict[str, Any] = known_results("watch")
    warnings.simplefilter("ignore", lrbtl.errors.LrbtlWarning)
    for adaptive, n_contexts, clusters in product((False, True), (1, 8), (False, True)):
        name = f"{'adaptive' if adaptive else 'uniform'}, {'plain' if n_contexts == 1 else '8 categories'}"
        name += ", voters" if clusters else ""
        if done.get(name, {}).get("logs", 0) >= logs:
            continue
        began = time.time()
        found = [one_log(seed, adaptive, n_contexts, clusters) for seed in range(logs)]
        row: dict[str, Any] = {"logs": logs, "seconds": round(time.time() - began)}
        for kind in KINDS:
            told = [x["told"][kind] or VOTES for x in found]
            row[kind] = {
                "pair": float(np.mean([x["wrong"][kind]["pair"] for x in found])),
                "joint": float(np.mean([x["wrong"][kind]["joint"] for x in found])),
                "width": found[0]["width"][kind],
                "votes_to_verdict": float(np.mean(told)),
            }
        done[name] = row
        keep_results("watch", done, table(done))
        print(name, row, flush=True)


def table(done: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = [f"# Ever wrong in {LOOKS} looks, nominal 5%", "", "The pair of equal models / joint intervals.", ""]
    lines += [f"| design | logs | {' | '.join(KINDS)} | votes to a verdict: {', '.join(KINDS)} |", "|" + "---|" * 7]
    for name, row in done.items():
        cells = [f"{row[kind]['pair']:.3f} / {row[kind]['joint']:.3f}" for kind in KINDS]
        told = ", ".join(f"{row[kind]['votes_to_verdict']:,.0f}" for kind in KINDS)
        lines.append(f"| {name} | {row['logs']} | {' | '.join(cells)} | {told} |")
    widths = next(iter(done.values()))
    lines += ["", "Widths at the last look, where tuned, over one look: "]
    lines[-1] += ", ".join(f"{kind} {widths[kind]['width']:.2f}" for kind in KINDS) + "."
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
