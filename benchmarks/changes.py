"""Coverage of changes between two boards that share votes, against plain differences of the two.

    python benchmarks/changes.py --reps 200

12 models, 4 categories of unequal traffic, scores of rank 2 plus deviations of .15, default options. Designs:
nested: 8,000 votes, then 4,000 more (weights by traffic, so that what the boards estimate changes a little);
methods: the same 8,000 votes by separate fits and by the default; pooled: 8,000 votes as one category and the overall
board of four, where what is estimated differs (limits by boards of 1,000,000 votes); disjoint: 8,000 votes each before
and after, between which one model gained .2. Plain differences take both boards as independent. Nothing was tuned.
Results go to results/changes.json and .md.
"""

import argparse
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlWarning
from replications import keep_results

ELO = 400 / np.log(10)
Z = 1.959964
DESIGNS = ("nested", "methods", "pooled", "disjoint")
TRAFFIC = np.array([0.5, 0.25, 0.15, 0.1])


def draw(scores: np.ndarray, n: int, rng: np.random.Generator) -> lrbtl.Battles:
    """Return n votes on pairs drawn unevenly, in categories by traffic."""
    d1, D = scores.shape
    share = np.arange(1, d1 + 1.0) ** -0.5
    u = rng.choice(D, n, p=TRAFFIC)
    a = rng.choice(d1, n, p=share / share.sum())
    b = (a + rng.integers(1, d1, size=n)) % d1
    won = rng.random(n) < 1 / (1 + np.exp(scores[b, u] - scores[a, u]))
    return lrbtl.Battles.from_arrays(a, b, won.astype(float), [u], n_models=d1, n_levels=[D])


def boards(design: str, scores: np.ndarray, n: int, rng: np.random.Generator) -> tuple[lrbtl.Leaderboard, ...]:
    """Return the two boards of a design."""
    first = draw(scores, n, rng)
    if design == "nested":
        return lrbtl.leaderboard(first), lrbtl.leaderboard(first + draw(scores, n // 2, rng))
    if design == "methods":
        return lrbtl.leaderboard(first, method="naive"), lrbtl.leaderboard(first)
    if design == "pooled":
        return lrbtl.leaderboard(first.pooled()), lrbtl.leaderboard(first)
    moved = scores.copy()
    moved[3] += 0.2
    return lrbtl.leaderboard(first), lrbtl.leaderboard(draw(moved, n, rng))


def truth_of(board: lrbtl.Leaderboard, scores: np.ndarray) -> np.ndarray:
    """Return what a board with these weights of categories estimates."""
    overall = scores @ board.basis.weights
    return overall - overall.mean()


def replicate(design: str, seed: int) -> dict[str, float]:
    """Return shares of the models whose change and change of rank are covered."""
    rng = np.random.default_rng(seed)
    scores = lrbtl.simulate_scores((12, 4), 2, scale=1, rng=seed) + rng.normal(0, 0.15, (12, 4))
    before, after = boards(design, scores, 8000, rng)
    found = lrbtl.changes(before, after)
    at = np.array([int(model) for model in found.models])
    after_scores = scores.copy()
    after_scores[3] += 0.2 * (design == "disjoint")
    if design == "pooled":
        large = lrbtl.leaderboard(draw(scores, 1_000_000, np.random.default_rng(seed + 10_000)).pooled())
        place = {model: k for k, model in enumerate(large.models)}
        old = np.array([large.score[place[k]] for k in range(12)]) / ELO
        old = old - old.mean()
    else:
        old = truth_of(before, scores)
    new = truth_of(after, after_scores)
    true = ELO * (new - old)[at]
    errors = [dict(zip(board.models, board.se, strict=True)) for board in (before, after)]
    plain = np.hypot(*[[error[model] for model in found.models] for error in errors])
    ranks = [np.argsort(np.argsort(-x))[at] for x in (old, new)]
    moved = ranks[1] - ranks[0]
    return {
        "covered": float(np.mean((found.lower <= true) & (true <= found.upper))),
        "plain": float(np.mean(np.abs(found.change - true) <= Z * plain)),
        "width / plain": float(np.median(found.se / plain)),
        "ranks": float(np.mean((found.rank_lower <= moved) & (moved <= found.rank_upper))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=200)
    options = parser.parse_args()
    rows = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        for design in DESIGNS:
            found = [replicate(design, seed) for seed in range(options.reps)]
            rows[design] = {
                name: [float(np.mean(x)), float(np.std(x, ddof=1) / np.sqrt(len(x)))]
                for name in found[0]
                for x in [[one[name] for one in found]]
            }
            print(design, rows[design], flush=True)
    lines = [f"# Changes between boards, {options.reps} pairs of logs each", ""]
    lines += [
        "| design | coverage | of plain differences | width / plain | coverage of ranks |",
        "|---|---|---|---|---|",
    ]
    for design, row in rows.items():
        lines.append(f"| {design} | " + " | ".join(f"{mean:.3f} ± {error:.3f}" for mean, error in row.values()) + " |")
    keep_results("changes", rows, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
