"""Coverage where models are too many for matrices over all of them, and errors come from simulated logs.

    python benchmarks/many_models.py [--logs 2] [--only ladder]

2,000 models, 5 contexts, 600,000 votes; scores are of rank 2 with deviations of .25 logits each. Anybody meets anybody,
traffic falls as that of Zipf's law, or only neighbours on a ladder meet (normal steps of 100 places). Coverage of 95%
intervals is that of all ranked models, on the overall board and on the boards of all contexts, for each log: errors of
one log hang together. Ranks are covered if the simultaneous intervals of all models hold. No design was tuned on.
Results go to results/many_models.json and results/many_models.md.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
from scipy.special import expit

import lrbtl
from replications import keep_results, known_results

N_MODELS, N_CONTEXTS, N, DEVIATIONS, REACH = 2_000, 5, 600_000, 0.25, 100
DESIGNS = ("all meet", "Zipf", "ladder")


def simulated(design: str, seed: int) -> tuple[Any, lrbtl.Battles]:
    """Return true scores (d1, D), and votes."""
    rng = np.random.default_rng(seed)
    U, V = rng.normal(size=(N_MODELS, 2)), np.array([0.75, 0.0]) + 0.3 * rng.normal(size=(N_CONTEXTS, 2))
    scores = U[np.argsort(U[:, 0])] @ V.T + DEVIATIONS * rng.normal(size=(N_MODELS, N_CONTEXTS))
    share = rng.permutation(1.0 / np.arange(20, N_MODELS + 20)) if design == "Zipf" else np.ones(N_MODELS)
    a, b = rng.choice(N_MODELS, (2, N), p=share / share.sum())
    if design == "ladder":
        b = np.clip(a + np.round(REACH * rng.normal(size=N)).astype(int), 0, N_MODELS - 1)
    a, b, u = (side[a != b] for side in (a, b, rng.integers(N_CONTEXTS, size=N)))
    y = rng.random(len(a)) < expit(scores[a, u] - scores[b, u])
    return scores - scores.mean(axis=0), lrbtl.Battles.from_arrays(a, b, y.astype(float), contexts=u, n_models=N_MODELS)


def measure(design: str, seed: int) -> dict[str, Any]:
    """Return what the boards of one log cover."""
    scores, battles = simulated(design, seed)
    begin = time.process_time()
    boards = lrbtl.leaderboard(battles, context="all", scale="logit")
    seconds = time.process_time() - begin
    found = [covered(boards.overall, scores.mean(axis=1))]
    found += [covered(boards[battles.context_label(u)], scores[:, u]) for u in range(N_CONTEXTS)]
    inside, spread, ranks = np.array(found).T
    return {
        "overall": inside[0],
        "contexts": inside[1:].mean(),
        "sd of z": spread.tolist(),
        "ranks": float(ranks.mean()),
        "cpu seconds": seconds,
    }


def covered(board: lrbtl.Leaderboard, truth: Any) -> tuple[float, float, float]:
    """Return the share of intervals that hold, the spread of errors over reported errors, and if all ranks hold."""
    place = np.array([int(model) for model in board.models])
    ranked, true = np.array(board.status) == "ranked", truth[place]
    inside = (board.lower <= true) & (true <= board.upper)
    rank = 1 + (true[ranked] < true[ranked][:, None]).sum(axis=0)
    hold = np.all((board.rank_lower[ranked] <= rank) & (rank <= board.rank_upper[ranked]))
    return float(inside[ranked].mean()), float(((board.score - true) / board.se)[ranked].std()), float(hold)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=2)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = known_results("many_models") or {}
    for design in DESIGNS:
        if options.only in design:
            rows[design] = [measure(design, seed) for seed in range(11, 11 + options.logs)]
            print(design, rows[design], flush=True)
            write(rows)


def write(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Write the rows as JSON and as a table."""
    lines = ["| who meets | logs | overall board | boards of contexts | sd of z | all ranks hold | CPU s |"]
    lines.append("|---|---|---|---|---|---|---|")
    for design, logs in rows.items():
        overall, contexts = (", ".join(f"{log[name]:.3f}" for log in logs) for name in ("overall", "contexts"))
        spread = np.mean([log["sd of z"] for log in logs])
        ranks, seconds = (np.mean([log[name] for log in logs]) for name in ("ranks", "cpu seconds"))
        lines.append(
            f"| {design} | {len(logs)} | {overall} | {contexts} | {spread:.3f} | {ranks:.2f} | {seconds:.0f} |"
        )
    keep_results("many_models", rows, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
