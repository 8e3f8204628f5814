"""How often intervals that may be looked at every day are ever wrong, how wide they are, and when they decide.

A log grows by a look's worth of votes at a time. Wrong is, at any look: an interval of a gap that leaves the truth out
(`pair`: the first two models, which are equal; `joint`: any gap between any two models), for one look, at any time, and
at planned looks. Designs: uniform and adaptive pairing (close models meet more often), plain and eight categories,
voters with tastes of their own as clusters. A run that is stopped goes on where it was:
`python benchmarks/watch.py [--logs 1000] [--minutes 25] [--only plain]`.

All looks count, but the default is not fitted at all of them. A Bradley-Terry fit to all votes, which costs nothing,
follows the statistics from one look to the next. The default is fitted where they may come within `NEAR` standard
errors of any boundary, and at least whenever votes have grown by `GROWTH`; votes to a verdict are read off in between.
Every 40th log is fitted at every look: these give the rates for one look, and count what the guide would have missed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

import lrbtl
from lrbtl.boards.ranking import JointGaps
from lrbtl.inference.always_valid import Validity
from replications import keep_results, known_results

MODELS, LOOKS, VOTES = 8, 58, 5800
KINDS = ("once", "always", "planned", "planned, last named")
SAFE = KINDS[1:]
UPPER = np.triu_indices(8, 1)
FIRST = 6  # look
FULL = 40  # one log in so many is fitted at every look
NEAR, GROWTH = 0.7, 1.25
TASTE = 0.5  # standard deviation of the tastes of a voter
SCORES = np.array([0.6, 0.6, 0.4, 0.2, 0.0, -0.2, -0.6, -1.0])  # the first two are equal
DESIGNS = {
    f"{'adaptive' if adaptive else 'uniform'}, {'plain' if n == 1 else '8 categories'}{', voters' * clusters}": (
        adaptive, n, clusters, False
    )
    for adaptive, n, clusters in product((False, True), (1, 8), (False, True))
}  # fmt: skip
DESIGNS["adaptive, 8 categories, pairings not in the prior"] = (True, 8, False, True)


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


def validity(kind: str, n: int) -> Validity:
    """Return what makes intervals hold at n votes."""
    if kind == "once":
        return Validity()
    if kind == "always":
        return Validity("always", n, VOTES)
    return Validity(looks=LOOKS) if kind == "planned" else Validity(looks=LOOKS, votes=n, tuned_at=VOTES)


@cache
def boundaries(kind: str, n: int, critical: float = 3.0) -> tuple[float, float]:
    """Return how many standard errors an interval of one gap reaches at n votes, and one of all gaps."""
    valid = validity(kind, n)
    return valid.two_sided(0.95), valid.joint(critical, 0.95, MODELS * (MODELS - 1) // 2)


@dataclass(frozen=True)
class Look:
    """Errors of all gaps in standard errors, and the gap of the third model to the sixth, by one fit."""

    error: np.ndarray  # (28,), the first two models first
    verdict: float
    critical: float = 3.0  # of joint intervals

    @classmethod
    def of(cls, score: np.ndarray, se: np.ndarray, true: np.ndarray, critical: float = 3.0) -> Look:
        """Return that of scores with the standard errors of their gaps."""
        gap, true_gap = score[:, None] - score, true[:, None] - true
        return cls(((gap - true_gap)[UPPER]) / se[UPPER], float(gap[2, 5] / se[2, 5]), critical)

    def moved(self, before: Look, now: Look) -> Look:
        """Return what this becomes if it moves as another fit does."""
        return Look(self.error + now.error - before.error, self.verdict + now.verdict - before.verdict, self.critical)

    def wrong(self, kind: str, n: int, near: float = 0.0) -> dict[str, bool]:
        """Return which statements are wrong at n votes, or come near it."""
        pair, joint = boundaries(kind, n, round(self.critical, 3))
        size = np.abs(self.error)
        return {"pair": bool(size[0] > pair - near), "joint": bool(size.max() > joint - near)}

    def decided(self, kind: str, n: int, near: float = 0.0) -> bool:
        """Return whether the third model is told from the sixth at n votes, or comes near it."""
        return abs(self.verdict) > boundaries(kind, n)[0] - near


def pooled_fit(log: dict[str, np.ndarray], score: np.ndarray, clusters: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of a Bradley-Terry fit to all votes, from those of the look before, and errors of gaps."""
    a, b, y = log["a"], log["b"], log["y"]
    for _ in range(8):  # Newton; the prior of scores is standard normal
        p = 1 / (1 + np.exp(score[b] - score[a]))
        left = np.bincount(a, y - p, MODELS) - np.bincount(b, y - p, MODELS) - score
        fisher = np.bincount(a * MODELS + b, p * (1 - p), MODELS**2).reshape(MODELS, MODELS)
        fisher = fisher + fisher.T
        cov = np.linalg.inv(np.diag(fisher.sum(axis=1) + 1.0) - fisher)
        step = cov @ left
        score = score + step
        if np.abs(step).max() < 1e-6:
            break
    if clusters:
        each = np.zeros((200, MODELS))
        np.add.at(each, (log["voter"], a), y - p)
        np.add.at(each, (log["voter"], b), p - y)
        cov = cov @ (each.T @ each + np.eye(MODELS)) @ cov
    var = np.diag(cov)
    return score, np.sqrt(np.maximum(var[:, None] + var - 2 * cov, 1e-12))


def default_fit(log: dict[str, np.ndarray], n_contexts: int, clusters: bool, blind: bool, true: np.ndarray) -> Look:
    """Return what the default says of the overall board, all categories alike."""
    frame = {"model_a": log["a"], "model_b": log["b"], "winner": log["y"], "category": log["context"]}
    more = {"cluster": "voter"} if clusters else {}
    frame |= {"voter": log["voter"]} if clusters else {}
    battles = lrbtl.Battles.from_frame(frame, contexts="category" if n_contexts > 1 else None, **more)
    weights = np.full((1, battles.n_contexts), 1 / battles.n_contexts)
    config = lrbtl.HierarchicalConfig(design_covariates=not blind)
    (found,) = lrbtl.analyse(battles, config=config).estimate_boards(weights)
    at = np.argsort(np.array(battles.models))
    gaps = JointGaps.of(found.working_cov[np.ix_(at, at)])
    return Look.of(found.working[at], gaps.errors(), true, float(gaps.critical))


def one_log(seed: int, adaptive: bool, n_contexts: int, clusters: bool, blind: bool) -> dict[str, Any]:
    """Return, for each kind, whether a statement was ever wrong, votes to the first verdict, and widths at the end."""
    rng = np.random.default_rng([29, seed, adaptive, n_contexts, clusters])
    truth = np.repeat(SCORES[:, None], n_contexts, axis=1)
    if n_contexts > 1:
        truth[2:] += 0.3 * rng.normal(size=(MODELS - 2, n_contexts))
    true, full = true_scores(truth, clusters), seed % FULL == 0
    parts: list[dict[str, Any]] = []
    wrong = {kind: {"pair": False, "joint": False} for kind in KINDS}
    told: dict[str, int | None] = dict.fromkeys(KINDS)
    at_once = np.zeros(LOOKS)  # whether one look here would have told the third model from the sixth
    score, fits, missed, critical = np.zeros(MODELS), 0, 0, 3.0
    known: tuple[int, Look, Look] | None = None  # votes of the last fit that the guide asked for, the fit, the guide
    for k, part in enumerate(votes_of(rng, truth, adaptive, clusters, VOTES), 1):
        parts.append(part)
        if k < FIRST:
            continue  # a board of a few hundred votes is where daily looks begin
        log = {name: np.concatenate([x[name] for x in parts]) for name in part}
        n = len(log["y"])
        score, se = pooled_fit(log, score, clusters)
        guide = Look.of(score, se, true)
        guess = guide if known is None else known[1].moved(known[2], guide)
        asked = known is None or k == LOOKS or n > GROWTH * known[0] or _near(guess, n, wrong)
        look = default_fit(log, n_contexts, clusters, blind, true) if asked or full else None
        if asked:
            assert look is not None
            fits, known, critical = fits + 1, (n, look, guide), look.critical
        at_once[k - 1] = (look or guess).decided("once", n)
        for kind in KINDS:
            if told[kind] is None and (look or guess).decided(kind, n):
                told[kind] = n
        if look is None:
            continue
        news = {kind: look.wrong(kind, n) for kind in KINDS}
        missed += not asked and any(news[kind][what] > wrong[kind][what] for kind in SAFE for what in ("pair", "joint"))
        for kind in KINDS:
            for what in ("pair", "joint"):
                wrong[kind][what] |= news[kind][what]
    width = {kind: [x / y for x, y in zip(boundaries(kind, n, critical), (1.959964, critical), strict=True)]
             for kind in KINDS}  # fmt: skip
    return {"wrong": wrong, "told": told, "width": width, "at_once": at_once,
            "full": full, "fits": fits, "missed": missed}  # fmt: skip


def _near(guess: Look, n: int, wrong: dict[str, dict[str, bool]]) -> bool:
    """Return whether a guess comes near a boundary that has not been crossed yet."""
    for kind in SAFE:
        near = guess.wrong(kind, n, NEAR)
        if any(near[what] and not wrong[kind][what] for what in near):
            return True
    return False


def add_log(row: dict[str, Any], found: dict[str, Any]) -> None:
    """Add a log to the sums of its design."""
    full = found["full"]
    for name, value in {"logs": 1, "full_logs": int(full), "fits": found["fits"], "missed": found["missed"]}.items():
        row[name] = row.get(name, 0) + value
    at_once = np.array(row.get("decided_at_one_look", [0] * LOOKS)) + found["at_once"]
    row["decided_at_one_look"] = at_once.astype(int).tolist()
    for kind in KINDS if full else SAFE:
        names = ("logs", "pair", "joint", "votes_to_verdict", "width", "joint_width")
        sums = row.setdefault(kind, dict.fromkeys(names, 0))
        sums["logs"] += 1
        for what in ("pair", "joint"):
            sums[what] += int(found["wrong"][kind][what])
        sums["votes_to_verdict"] += found["told"][kind] or VOTES
        sums["width"] += found["width"][kind][0]
        sums["joint_width"] += found["width"][kind][1]


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
        n = row[kind]["logs"]
        p = row[kind][what] / n
        few = "" if n == row["logs"] else f" ({n} logs)"
        return f"{p:.3f} ± {max(np.sqrt(p * (1 - p) / n), 0.5 / n):.3f}{few}"

    known = {name: done[name] for name in DESIGNS if name in done}
    full, missed = (sum(row[name] for row in known.values()) for name in ("full_logs", "missed"))
    lines = [f"# Ever wrong in {LOOKS} looks, nominal 5%", ""]
    lines += [
        "One look's rates are those of every 40th log, which is fitted at every look. In the others the default is"
    ]
    lines += [
        "fitted where a cheap fit says that a boundary may be near. Statements that this would have missed, in the"
    ]
    lines += [f"{full} logs that were fitted at every look: {missed}.", ""]
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
        cells = [f"{max(row[kind][what] / row[kind]['logs'] for row in known.values()):.2f}" for kind in KINDS]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    lines += ["", "Mean votes until the third model is told from the sixth (at most all), beside the fixed number at"]
    lines += ["which one look would have told them in 90% of the logs:", ""]
    lines += [f"| design | {' | '.join(KINDS)} | fixed sample |", "|" + "---|" * (2 + len(KINDS))]
    for name, row in known.items():
        cells = [f"{row[kind]['votes_to_verdict'] / row[kind]['logs']:,.0f}" for kind in KINDS]
        lines.append(f"| {name} | {' | '.join(cells)} | {fixed_sample(row):,.0f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
