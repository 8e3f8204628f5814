"""How often intervals that may be looked at every day are ever wrong, how wide they are, and when they decide.

A log grows by a look's worth of votes at a time. Wrong is, at any look: an interval of a gap that leaves the truth out
(`pair`: the first two models, which are equal; `joint`: any gap between any two models), for one look, at any time, and
at planned looks. Designs: uniform and adaptive pairing (close models meet more often), plain and eight categories,
voters with tastes of their own as clusters. A run that is stopped goes on where it was:
`python benchmarks/watch.py [--logs 1000] [--minutes 25] [--only plain]`.
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
FIRST = 6  # look
TASTE = 0.5  # standard deviation of the tastes of a voter
SCORES = np.array([0.6, 0.6, 0.4, 0.2, 0.0, -0.2, -0.6, -1.0])  # the first two are equal
DESIGNS = {
    f"{'adaptive' if adaptive else 'uniform'}, {'plain' if n == 1 else '8 categories'}{', voters' * clusters}": (
        adaptive, n, clusters
    )
    for adaptive, n, clusters in product((False, True), (1, 8), (False, True))
}  # fmt: skip


def votes_of(
    rng: np.random.Generator, truth: np.ndarray, adaptive: bool, clusters: bool, n: int
) -> Iterator[dict[str, Any]]:
    """Yield a log of n votes, a look's worth at a time; adaptive pairs are drawn by what the votes so far say."""
    n_contexts = truth.shape[1]
    taste = TASTE * rng.normal(size=(200, MODELS)) if clusters else None
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


def true_scores(truth: np.ndarray, clusters: bool) -> np.ndarray:
    """Return the mean over contexts of what fits estimate, (d1,).

    With tastes that is the Bradley-Terry fit to the chances that voters have on average, all pairs alike.
    """
    if not clusters:
        return truth.mean(axis=1)
    node, weight = np.polynomial.hermite_e.hermegauss(41)
    weight = weight / weight.sum()
    found = np.zeros_like(truth)
    for u in range(truth.shape[1]):
        gap = truth[:, None, u] - truth[None, :, u]
        chance = (1 / (1 + np.exp(-(gap[..., None] + TASTE * np.sqrt(2.0) * node)))) @ weight
        score = truth[:, u].copy()
        for _ in range(30):  # Newton
            fit = 1 / (1 + np.exp(-(score[:, None] - score)))
            spread = fit * (1 - fit) * (1 - np.eye(MODELS))
            hessian = np.diag(spread.sum(axis=1)) - spread + 1 / MODELS
            score += np.linalg.solve(hessian, ((chance - fit) * (1 - np.eye(MODELS))).sum(axis=1))
        found[:, u] = score
    return found.mean(axis=1)


def one_log(seed: int, adaptive: bool, n_contexts: int, clusters: bool) -> dict[str, Any]:
    """Return, for each kind, whether a statement was ever wrong, widths where tuned, and votes to the first verdict."""
    rng = np.random.default_rng([29, seed, adaptive, n_contexts, clusters])
    truth = np.repeat(SCORES[:, None], n_contexts, axis=1)
    if n_contexts > 1:
        truth[2:] += 0.3 * rng.normal(size=(MODELS - 2, n_contexts))
    true = true_scores(truth, clusters)
    true_gap = true[:, None] - true
    parts: list[dict[str, Any]] = []
    wrong = {kind: {"pair": False, "joint": False} for kind in KINDS}
    told: dict[str, int | None] = dict.fromkeys(KINDS)
    width: dict[str, float] = {}
    at_once = np.zeros(LOOKS)  # whether one look here would have told the third model from the sixth
    upper = np.triu_indices(MODELS, 1)
    for k, part in enumerate(votes_of(rng, truth, adaptive, clusters, VOTES), 1):
        parts.append(part)
        if k < FIRST:
            continue  # a board of a few hundred votes is where daily looks begin
        log = {name: np.concatenate([x[name] for x in parts]) for name in part}
        more = {"cluster": "voter"} if clusters else {}
        frame = {"model_a": log["a"], "model_b": log["b"], "winner": log["y"], "category": log["context"]}
        frame |= {"voter": log["voter"]} if clusters else {}
        battles = lrbtl.Battles.from_frame(frame, contexts="category" if n_contexts > 1 else None, **more)
        weights = np.full(battles.n_contexts, 1 / battles.n_contexts)
        (found,) = lrbtl.analyse(battles).estimate_boards(weights[None])
        at = np.argsort(np.array(battles.models))
        score, cov = found.working[at], found.working_cov[np.ix_(at, at)]
        gaps = JointGaps.of(cov)
        se, gap = gaps.errors(), score[:, None] - score
        n = battles.n_battles
        away = np.abs(gap - true_gap)
        at_once[k - 1] = abs(gap[2, 5]) > 1.959964 * se[2, 5]
        for kind in KINDS:
            valid = {
                "once": Validity(),
                "always": Validity("always", n, VOTES),
                "planned": Validity(looks=LOOKS),
                "planned, last named": Validity(looks=LOOKS, votes=n, tuned_at=VOTES),
            }[kind]
            pair = valid.two_sided(0.95)
            critical = valid.joint(gaps.critical, 0.95, MODELS * (MODELS - 1) // 2)
            wrong[kind]["pair"] |= bool(away[0, 1] > pair * se[0, 1])
            wrong[kind]["joint"] |= bool((away > critical * se)[upper].any())
            if told[kind] is None and abs(gap[2, 5]) > pair * se[2, 5]:
                told[kind] = n
            if k == LOOKS:
                width[kind] = pair / 1.959964
                width[f"{kind}, joint"] = critical / gaps.critical
    return {"wrong": wrong, "told": told, "width": width, "at_once": at_once}


def add_log(row: dict[str, Any], found: dict[str, Any]) -> None:
    """Add a log to the sums of its design."""
    row["logs"] = row.get("logs", 0) + 1
    at_once = np.array(row.get("decided_at_one_look", [0] * LOOKS)) + found["at_once"]
    row["decided_at_one_look"] = at_once.astype(int).tolist()
    for kind in KINDS:
        sums = row.setdefault(kind, {"pair": 0, "joint": 0, "votes_to_verdict": 0, "width": 0.0, "joint_width": 0.0})
        for what in ("pair", "joint"):
            sums[what] += int(found["wrong"][kind][what])
        sums["votes_to_verdict"] += found["told"][kind] or VOTES
        sums["width"] += found["width"][kind]
        sums["joint_width"] += found["width"][f"{kind}, joint"]


def fixed_sample(row: dict[str, Any]) -> float:
    """Return the votes at which one look, planned beforehand, would have decided in 90% of the logs."""
    enough = np.flatnonzero(np.array(row["decided_at_one_look"]) >= 0.9 * row["logs"])
    return float((1 + enough[0]) * (VOTES // LOOKS)) if enough.size else float(VOTES)


def main() -> None:
    """Go on with all designs in turn, and keep sums and table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1000, help="of each design")
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after these")
    parser.add_argument("--only", default="", help="designs whose name contains this")
    arguments = parser.parse_args()
    done: dict[str, Any] = known_results("watch")
    warnings.simplefilter("ignore", lrbtl.errors.LrbtlWarning)
    began = saved = time.time()
    spent = {name: 0.0 for name in DESIGNS if arguments.only in name}
    while time.time() < began + 60 * arguments.minutes:
        open_designs = [name for name in spent if done.get(name, {}).get("logs", 0) < arguments.logs]
        if not open_designs:
            break
        name = min(open_designs, key=lambda each: spent[each])  # the same time for each design
        start = time.process_time()
        row = done.setdefault(name, {})
        add_log(row, one_log(row.get("logs", 0), *DESIGNS[name]))
        spent[name] += time.process_time() - start
        if time.time() > saved + 30:
            saved = time.time()
            keep_results("watch", done, table(done))
    keep_results("watch", done, table(done))
    print(table(done))


def table(done: dict[str, Any]) -> str:
    """Return the results as Markdown, with Monte Carlo standard errors."""

    def share(row: dict[str, Any], kind: str, what: str) -> str:
        p = row[kind][what] / row["logs"]
        return f"{p:.3f} ± {max(np.sqrt(p * (1 - p) / row['logs']), 0.5 / row['logs']):.3f}"

    known = {name: done[name] for name in DESIGNS if name in done}
    lines = [f"# Ever wrong in {LOOKS} looks, nominal 5%", ""]
    for what, title in (
        ("pair", "The interval of the first two models, which are equal"),
        ("joint", "Any joint interval"),
    ):
        lines += [f"{title}:", "", f"| design | logs | {' | '.join(KINDS)} |", "|" + "---|" * (2 + len(KINDS))]
        for name, row in known.items():
            cells = [share(row, kind, what) for kind in KINDS]
            lines.append(f"| {name} | {row['logs']} | {' | '.join(cells)} |")
        lines.append("")
    lines += ["Widths at the last look, where tuned, over one look:", ""]
    lines += [f"| interval | {' | '.join(KINDS)} |", "|" + "---|" * (1 + len(KINDS))]
    for what, title in (("width", "of one gap"), ("joint_width", "joint, largest of the designs")):
        cells = [f"{max(row[kind][what] / row['logs'] for row in known.values()):.2f}" for kind in KINDS]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    lines += ["", "Mean votes until the third model is told from the sixth (at most all), beside the fixed number at"]
    lines += ["which one look would have told them in 90% of the logs:", ""]
    lines += [f"| design | {' | '.join(KINDS)} | fixed sample |", "|" + "---|" * (2 + len(KINDS))]
    for name, row in known.items():
        cells = [f"{row[kind]['votes_to_verdict'] / row['logs']:,.0f}" for kind in KINDS]
        lines.append(f"| {name} | {' | '.join(cells)} | {fixed_sample(row):,.0f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
