"""Newcomers: coverage and widths of their scores with features that matter, and that do not.

    python benchmarks/features.py results --reps 40
    python benchmarks/features.py votes --reps 80

Results: tables of 40 models and 10 benchmarks, real scores with known noise; eight newcomers have one score each. The
level of a model is 0.9 times its feature plus noise of 0.4, or has nothing to do with it.

Votes: 40 incumbents of 300 votes and eight newcomers of 20, in four categories. Levels have variance 1; where features
matter, 0.42 of it is that of size and 0.28 that of eight families. Categories differ by a shared factor of 0.3 and by
deviations of 0.15. Answers are the overall scores of the newcomers, and what a unit of size is worth. Logs are drawn
anew from each seed. Results go to results/features.md and results/features_votes.md.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.entries.method import FactorRun
from lrbtl.entries.posterior import central

HERE = Path(__file__).parent / "results"
INCUMBENTS, NEWCOMERS, CATEGORIES, FAMILIES = 40, 8, 4, 8
VOTES, FEW = 300, 20  # of an incumbent and of a newcomer
SIZE = 0.65  # what a unit of size is worth where features matter


def one(seed: int, matters: bool) -> tuple[float, float, float]:
    """Return shares covered with and without features, and the median ratio of widths."""
    rng = np.random.default_rng([seed, matters])
    size = rng.normal(size=40)
    level = (0.9 * size + 0.4 * rng.normal(size=40)) if matters else rng.normal(size=40)
    truth = level[:, None] + rng.normal(size=10) + 0.3 * rng.normal(size=(40, 10))
    seen = rng.random((40, 10)) < 0.6
    seen[:8], seen[:8, 0] = False, True
    names, at = [f"m{k:02d}" for k in range(40)], np.nonzero(seen)
    long = {
        "model": [names[k] for k in at[0]],
        "benchmark": [f"b{k}" for k in at[1]],
        "score": truth[at] + 0.5 * rng.normal(size=at[0].size),
        "se": [0.5] * at[0].size,
    }
    tables = {"model": names, "size": size}, None
    found = [lrbtl.analyse(lrbtl.Results.from_frame(long, se="se", scales="real", features=table)) for table in tables]
    hits, widths = [], []
    for analysis in found:
        assert isinstance(analysis.run, FactorRun)
        limits = np.array([central(analysis.run.posterior.latent(u)[:, :8], 0.95) for u in range(1, 10)])
        inside = (limits[:, 0] <= truth[:8, 1:].T) & (limits[:, 1] >= truth[:8, 1:].T)
        hits.append(float(inside.mean()))
        widths.append(limits[:, 1] - limits[:, 0])
    return hits[0], hits[1], float(np.median(widths[0] / widths[1]))


def of_results(reps: int) -> None:
    """Simulate tables, print and keep the results."""
    lines = [
        f"{reps} tables each; 95% intervals of newcomers' latent scores.",
        "",
        "| features | covered with | covered without | width with over without |",
        "|---|---|---|---|",
    ]
    for matters, words in ((True, "predict levels"), (False, "say nothing")):
        rows = np.array([one(seed, matters) for seed in range(reps)])
        mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(reps)
        lines.append(f"| {words} | {mean[0]:.3f} ± {error[0]:.3f} | {mean[1]:.3f} ± {error[1]:.3f} | {mean[2]:.2f} |")
    (HERE / "features.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def votes_of(rng: np.random.Generator, truth: np.ndarray) -> lrbtl.Battles:
    """Return votes between random pairs: first the newcomers', each against an incumbent, then the incumbents'."""
    new = np.repeat(np.arange(NEWCOMERS) + INCUMBENTS, FEW)
    n = INCUMBENTS * VOTES // 2
    a = np.concatenate([new, rng.integers(0, INCUMBENTS, n)])
    step = np.concatenate([np.zeros(len(new), dtype=np.int64), rng.integers(1, INCUMBENTS, n)])
    b = np.where(step == 0, rng.integers(0, INCUMBENTS, len(a)), (a + step) % INCUMBENTS)
    u = rng.integers(0, CATEGORIES, len(a))
    won = rng.random(len(a)) < 1.0 / (1.0 + np.exp(truth[b, u] - truth[a, u]))
    return lrbtl.Battles.from_arrays(a, b, won, u, n_models=len(truth), n_levels=CATEGORIES)


def arena(seed: int, matters: bool, config: lrbtl.HierarchicalConfig) -> list[float]:
    """Return shares covered with and without features, widths' ratio, ratio of errors, and whether size is covered."""
    rng = np.random.default_rng([seed, matters, 7])
    d1 = INCUMBENTS + NEWCOMERS
    size, family = rng.normal(size=d1), rng.integers(0, FAMILIES, d1)
    told = SIZE * size + np.sqrt(0.28) * rng.normal(size=FAMILIES)[family] + np.sqrt(0.3) * rng.normal(size=d1)
    level = told if matters else rng.normal(size=d1)
    factor = 0.3 * np.outer(rng.normal(size=d1), rng.normal(size=CATEGORIES))
    truth = level[:, None] + factor + 0.15 * rng.normal(size=(d1, CATEGORIES))
    battles = votes_of(rng, truth)
    table = {"model": list(range(d1)), "size": size, "family": [f"f{k}" for k in family]}
    weights = np.full((1, CATEGORIES), 1.0 / CATEGORIES)
    target = truth.mean(axis=1) - truth.mean()
    hits, widths, errors, slope = [], [], [], None
    for features in (table, None):
        analysis = lrbtl.analyse(battles, features=features, config=config)
        (board,) = analysis.estimate_boards(weights)
        low, high = board.conf_int().T
        new = slice(INCUMBENTS, None)
        hits.append(float(np.mean((low <= target) & (target <= high), where=np.arange(d1) >= INCUMBENTS)))
        widths.append((high - low)[new])
        errors.append(float(np.sqrt(np.mean((board.estimate - target)[new] ** 2))))
        slope = analysis.feature_effects() if features is not None else slope
    assert slope is not None
    low, high = slope.conf_int()[0]
    covered = low <= (SIZE if matters else 0.0) <= high
    return [*hits, float(np.median(widths[0] / widths[1])), errors[0], errors[1], float(covered)]


def of_votes(reps: int, first: int, config: lrbtl.HierarchicalConfig) -> None:
    """Simulate arenas, print and, of the default settings, keep the results."""
    lines = [
        f"{reps} arenas each; 95% intervals of overall scores of newcomers with {FEW} votes.",
        "",
        "| features | covered with | covered without | width with over without | RMSE with, without | size covered |",
        "|---|---|---|---|---|---|",
    ]
    for matters, words in ((True, "predict levels"), (False, "say nothing")):
        rows = np.array([arena(first + seed, matters, config) for seed in range(reps)])
        mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(reps)
        each = [f"{mean[k]:.3f} ± {error[k]:.3f}" for k in (0, 1, 2)]
        cells = [words, *each, f"{mean[3]:.2f}, {mean[4]:.2f}", f"{mean[5]:.2f} ± {error[5]:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if config == lrbtl.HierarchicalConfig():
        (HERE / "features_votes.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("results", "votes"))
    parser.add_argument("--reps", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=0, help="of the votes")
    parser.add_argument("--feature-size", type=float, default=lrbtl.HierarchicalConfig().feature_size)
    given = parser.parse_args()
    if given.what == "results":
        of_results(given.reps)
    else:
        of_votes(given.reps, given.first_seed, lrbtl.HierarchicalConfig(feature_size=given.feature_size))


if __name__ == "__main__":
    main()
