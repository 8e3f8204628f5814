"""Where similar models meet, how much of the oracle's lead is that it knows the spread of levels.

    python benchmarks/thin_spread.py [--logs 12]

On the ladders of thin_logs.py the oracle knows that levels are N(0, 1), and the default does not: votes between
neighbours hardly show how far the ends are apart. A second oracle knows the laws of levels and of pairings up to their
common spread c, which is flat up to 6 logits: levels c theta, and the rest as in thin_oracle.py. RMSE of the three on
the same logs, means over logs with errors of paired ratios. Results go to results/thin_spread.json and .md.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from replications import keep_results, known_results
from thin_logs import to_battles
from thin_oracle import (
    DESIGNS,
    ORDER_BURN,
    ORDER_CHAINS,
    ORDER_KEPT,
    PLACE_NOISE,
    Design,
    Log,
    Ordered,
    Votes,
    draw_log,
    oracle_draws,
    whitener,
)

SEED, LARGEST = 20261119, 6.0
SIMILAR = [name for name, design in DESIGNS.items() if design.pairing == "similar"]


class Scaled(Votes):
    """Votes at levels c theta, c of each chain."""

    def __init__(self, log: Log, chains: int) -> None:
        super().__init__(log)
        self.c = np.ones((chains, 1))

    def value(self, theta: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of each chain."""
        return super().value(self.c * theta)

    def value_gradient(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the same and its gradient in theta."""
        value, gradient = super().value_gradient(self.c * theta)
        return value, self.c * gradient


def draws_of_unknown_spread(design: Design, log: Log, seed: int) -> np.ndarray:
    """Return draws (draws, d) of levels where only their spread is unknown."""
    rng = np.random.default_rng(seed)
    chains = Ordered(design, log, rng)
    chains.votes = Scaled(log, ORDER_CHAINS)
    curvature = Votes(log).information(log.levels) + (1 + PLACE_NOISE**-2) * np.eye(design.models)
    root, step, kept = whitener(curvature), 0.4, []
    for number in range(ORDER_BURN + ORDER_KEPT):
        chains.sweep()
        for _ in range(2):
            share = chains.levels_given_places(root, step)
            if number < ORDER_BURN:
                step *= np.exp(0.1 * (share - 0.85))
        for far in (0.05, 0.2, 0.5):
            before, value = chains.votes.c, chains.value
            chains.votes.c = before * np.exp(far * rng.normal(size=before.shape))
            gain = chains.votes.value(chains.theta) - value + np.log(chains.votes.c / before)[:, 0]
            moved = (np.log(rng.random(len(gain))) < gain) & (chains.votes.c[:, 0] < LARGEST)
            chains.votes.c = np.where(moved[:, None], chains.votes.c, before)
            chains.value = chains.votes.value(chains.theta)
        if number >= ORDER_BURN:
            kept.append(chains.votes.c * chains.theta)
    return np.concatenate(kept)


def errors(name: str, number: int) -> list[float]:
    """Return mean squared errors on one log: default, oracle, oracle of unknown spread."""
    design = DESIGNS[name]
    log = draw_log(design, SEED, number)
    battles, truth = to_battles(log)
    present = np.unique(np.append(log.a, log.b))
    out = [np.mean((lrbtl.infer(battles, lrbtl.all_scores()).estimate - truth) ** 2)]
    for draw in (oracle_draws, draws_of_unknown_spread):
        mean = draw(design, log, number)[:, present].mean(axis=0)
        out.append(np.mean((mean - mean.mean() - truth) ** 2))
    return [float(x) for x in out]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=12)
    logs = parser.parse_args().logs
    known = known_results("thin_spread")
    for name in SIMILAR:
        known[name] = [*known.get(name, []), *(errors(name, k) for k in range(len(known.get(name, [])), logs))]
        keep_results("thin_spread", known)
    lines = ["# Ladders: what the spread of levels costs", "", "RMSE over that of an oracle.", ""]
    lines += ["| models, votes, design | logs | default | oracle | of unknown spread | default over the latter |"]
    lines += ["|---|---|---|---|---|---|"]
    for name in [name for name in SIMILAR if len(known[name]) > 1]:
        found = np.array(known[name])
        ours, oracle, unknown = np.sqrt(found.mean(axis=0))
        paired = np.sqrt(found[:, 0] / found[:, 2])
        error = paired.std(ddof=1) / np.sqrt(len(paired))
        ratio = f"{ours / unknown:.3f} ± {error:.3f}"
        lines.append(f"| {name} | {len(found)} | {ours:.3f} | {oracle:.3f} | {unknown:.3f} | {ratio} |")
    keep_results("thin_spread", known, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
