"""What no interval can beat where scores deviate from low rank: an oracle that knows all but one score.

    python benchmarks/limits.py --truths 20

For each score of the designs of nearly_low_rank.py, the oracle knows L, the law of the deviations and all other scores
of the category. It has the posterior of the deviation that is left, by this law and by votes of normal error. Its
central 95% interval has the least width that covers on average; it is compared with what votes alone say, and by size
of the score. Results go to results/limits.json and .md.
"""

import argparse

import numpy as np
from scipy import stats

import nearly_low_rank as nearly
from replications import keep_results

GRID = 0.05 * np.sinh(np.linspace(-6.0, 6.0, 1601))  # deviations
STEP = np.gradient(GRID)


def known_best(design: nearly.Design, seed: int) -> tuple[float, float, float]:
    """Return the width of the oracle's intervals over those of votes, and its coverage of all and of large scores."""
    rng = np.random.default_rng([seed, design.n])
    plain = nearly.Design(**{**vars(design), "share": 0.0})
    low = np.sqrt(1 - design.share) * nearly.draw_truth(plain, rng)[0]
    size = design.spread * np.sqrt(design.share)
    law = stats.t(3, scale=size / np.sqrt(3)) if design.tails == "t3" else stats.norm(0, size)
    away = law.rvs(low.shape, random_state=rng)
    truth = low + away - away.mean(axis=0)
    cells = nearly.draw_battles(design, truth, rng).cells
    p = 1 / (1 + np.exp(truth[cells.b, cells.context] - truth[cells.a, cells.context]))
    told = np.zeros(truth.shape)
    for side in (cells.a, cells.b):
        np.add.at(told, (side, cells.context), cells.count * p * (1 - p))
    played = told > 0
    told, deviation = told[played][:, None], away[played]
    seen = deviation + rng.normal(size=deviation.shape) / np.sqrt(told[:, 0])
    log = law.logpdf(GRID) - 0.5 * told * (seen[:, None] - GRID) ** 2
    weight = np.exp(log - log.max(axis=1, keepdims=True)) * STEP
    below = np.cumsum(weight, axis=1) / weight.sum(axis=1, keepdims=True)
    low_end, high_end = (np.array([np.interp(q, each, GRID) for each in below]) for q in (0.025, 0.975))
    inside = (low_end < deviation) & (deviation < high_end)
    width = np.mean(high_end - low_end) / np.mean(2 * nearly.Z / np.sqrt(told))
    return float(width), float(inside.mean()), float(inside[np.abs(truth[played]) > nearly.LARGE].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truths", type=int, default=20)
    options = parser.parse_args()
    lines = [
        f"# An oracle that knows L, the law of deviations and all other scores, {options.truths} truths", "",
        "| design | width / votes alone | covered | large scores covered |", "|---|---|---|---|",
    ]  # fmt: skip
    kept = {}
    for design in nearly.DESIGNS:
        if design.share > 0:
            found = np.array([known_best(design, seed) for seed in range(options.truths)])
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(options.truths)
            kept[design.name] = {"mean": mean.tolist(), "error": error.tolist()}
            told = " | ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True))
            lines.append(f"| {design.name} | {told} |")
            print(lines[-1], flush=True)
    keep_results("limits", kept, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
