"""Votes that both were bad as an outcome: coverage of scores on the scale whose zero is the floor, and of ties.

    python benchmarks/both_bad.py --reps 100

15 models in 4 categories, 12,000 votes by the grounded law; scores are a constant per category, a model's own and a
deviation. All scores, those of the overall board, the tie parameter, and which models clear the floor. Nothing was
tuned on these designs. Results go to results/both_bad.json and .md.
"""

import argparse
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlWarning
from replications import keep_results

MODELS, CONTEXTS, VOTES, THRESHOLD = 15, 4, 12_000, 0.45
WORDS = np.array(["model_a", "model_b", "both_bad", "tie"])


def simulate(seed: int, deviations: float) -> tuple[lrbtl.Battles, np.ndarray]:
    """Return battles and the true scores (models, contexts)."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(MODELS, 1)) + np.linspace(-0.5, 1.0, CONTEXTS)
    truth = truth + deviations * rng.normal(size=(MODELS, CONTEXTS))
    a = rng.integers(0, MODELS, VOTES)
    b = (a + rng.integers(1, MODELS, VOTES)) % MODELS
    u = rng.choice(CONTEXTS, VOTES, p=[0.4, 0.3, 0.2, 0.1])
    A, B, t = np.exp(truth[a, u]), np.exp(truth[b, u]), np.exp(THRESHOLD)
    p = np.stack([A / (A + t * B + 1), B / (B + t * A + 1), 1 / (1 + A + B)])
    which = (rng.random(VOTES) > np.cumsum(p, axis=0)).sum(axis=0)
    log = {"model_a": a, "model_b": b, "winner": WORDS[which], "category": u}
    return lrbtl.Battles.from_frame(log, contexts="category", both_bad="outcome"), truth


def replicate(seed: int, deviations: float) -> list[float]:
    """Return shares of intervals that cover, and of verdicts on the floor that are wrong."""
    battles, truth = simulate(seed, deviations)
    analysis = lrbtl.analyse(battles)
    found = analysis.estimate(lrbtl.all_scores())
    low, high = found.conf_int().T
    scores = np.mean((low <= truth.reshape(-1)) & (truth.reshape(-1) <= high))
    board = lrbtl.leaderboard(battles, scale="logit")
    weight = battles.context_counts / battles.n_battles
    mean = (truth @ weight)[list(board.models)]
    tie = analysis.estimate(lrbtl.tie_parameter()).conf_int()[0]
    wrong = np.mean(((board.lower > 0) & (mean < 0)) | ((board.upper < 0) & (mean > 0)))
    hits = [scores, np.mean((board.lower <= mean) & (mean <= board.upper)), tie[0] <= np.log(THRESHOLD) <= tie[1]]
    return [float(x) for x in (*hits, wrong)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=100)
    options = parser.parse_args()
    names = ["all scores", "overall board", "tie parameter", "wrong side of the floor"]
    lines = [f"# Both bad as an outcome, {options.reps} logs of {VOTES:,} votes, nominal 0.95", ""]
    lines += ["| deviations | " + " | ".join(names) + " |", "|---" * 5 + "|"]
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        for deviations in (0.1, 0.4):
            rows = np.array([replicate(seed, deviations) for seed in range(options.reps)])
            mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
            cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
            lines.append(f"| {deviations} | " + " | ".join(cells) + " |")
            results[str(deviations)] = dict(zip(names, mean.tolist(), strict=True))
    keep_results("both_bad", results, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
