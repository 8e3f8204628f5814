"""Coverage under models of ties: the tie parameter, scores and win probabilities, nominal 95%.

    python benchmarks/tie_coverage.py --reps 400

One truth (30 models × 6 contexts, rank 2), 12,000 battles a replication, a quarter of them ties, from the model of
Davidson or of Rao and Kupper. Results go to results/tie_coverage.json and results/tie_coverage.md.
"""

import argparse
import os
import warnings
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlWarning
from lrbtl.inference.analysis import analyse_fit
from lrbtl.methods.base import Options
from replications import Replication, keep_results, replicate_all

SHAPE, RANK, N, SCALE = (30, 6), 2, 12_000, 2.0
LINKS = {"davidson": lrbtl.Davidson(-0.33), "rao-kupper": lrbtl.RaoKupper(-0.54)}
METHODS = ("efficient", "mle")
TARGETS = {
    "tie parameter": lrbtl.tie_parameter(),
    "score": lrbtl.score(0, 0),
    "gap": lrbtl.gap(1, 2, 3),
    "win probability": lrbtl.win_probability(0, 1, 2),
}
Z = 1.959964


def truth() -> np.ndarray:
    return lrbtl.simulate_scores(SHAPE, RANK, scale=SCALE, rng=3)


def draw(link: Any, seed: int) -> lrbtl.Battles:
    """Return battles between random models in random contexts whose outcomes follow the link."""
    rng, scores = np.random.default_rng(1_000_000 + seed), truth()
    a, task = rng.integers(0, SHAPE[0], N), rng.integers(0, SHAPE[1], N)
    b = (a + rng.integers(1, SHAPE[0], N)) % SHAPE[0]
    chances = link.probabilities(scores[a, task] - scores[b, task]).cumsum(axis=0)
    return lrbtl.Battles.from_arrays(
        a, b, 0.5 * (rng.random(N) > chances).sum(axis=0), [task], n_models=SHAPE[0], n_levels=SHAPE[1]
    )


def goals(link: Any) -> np.ndarray:
    """Return the true values of the targets."""
    scores = truth()
    chance = float(link.mean(scores[[0], 2] - scores[[1], 2])[0])
    return np.array([link.tie, scores[0, 0], scores[1, 3] - scores[2, 3], chance])


def replicate(design: str, seed: int, known: Replication) -> Replication:
    """Return estimates, errors and intervals of the targets, and how all scores are covered."""
    name, scores = design.split()[1], truth()
    battles = draw(LINKS[name], seed)
    out: Replication = {"seed": seed, "ties": battles.tie_share}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        fit = lrbtl.fit(battles, RANK, link=name)
        for method in METHODS:
            analysis = analyse_fit(fit, Options(rng=seed), method=method)
            est = analysis.estimate(TARGETS.values())
            values, errors = analysis.run.family("scores")
            out[method] = {
                "estimate": est.estimate.tolist(),
                "se": est.se.tolist(),
                "interval": est.conf_int().tolist(),
                "all": float(np.mean(np.abs(values - scores) < Z * errors)),
            }
    return out


def summarise(design: str, found: list[Replication]) -> list[dict[str, Any]]:
    """Return one row per method and target."""
    name = design.split()[1]
    aims, reps = goals(LINKS[name]), len(found)
    common = {"link": name, "reps": reps, "tie_share": float(np.mean([each["ties"] for each in found]))}
    rows = []
    for method in METHODS:
        runs = [each[method] for each in found]
        value, se = (np.array([run[key] for run in runs]) for key in ("estimate", "se"))
        low, high = np.moveaxis(np.array([run["interval"] for run in runs]), -1, 0)
        for i, target in enumerate(TARGETS):
            covered = float(np.mean((low[:, i] <= aims[i]) & (aims[i] <= high[:, i])))
            std = float(value[:, i].std(ddof=1))
            rows.append(
                {
                    **common, "method": method, "target": target, "truth": float(aims[i]), "coverage": covered,
                    "mc_error": float(np.sqrt(covered * (1 - covered) / reps)),
                    "bias_over_std": float((value[:, i].mean() - aims[i]) / std), "std": std,
                    "se_over_std": float(np.median(se[:, i]) / std),
                }
            )  # fmt: skip
        shares = np.array([run["all"] for run in runs])
        spread = float(shares.std(ddof=1) / np.sqrt(reps))
        rows.append(
            {**common, "method": method, "target": "all scores", "coverage": float(shares.mean()), "mc_error": spread}
        )
    return rows


def to_markdown(rows: list[dict[str, Any]]) -> str:
    """Return the results as a table."""
    lines = [
        "# Coverage of nominal 95% intervals under models of ties", "",
        f"{SHAPE[0]} models × {SHAPE[1]} contexts, rank {RANK}, {N:,} battles.", "",
        "| link | ties | method | target | reps | coverage | bias/std | std | SE/std |", "|" + "---|" * 9,
    ]  # fmt: skip
    for row in rows:
        more = f"{row['bias_over_std']:+.2f} | {row['std']:.4f} | {row['se_over_std']:.3f}" if "std" in row else " | | "
        lines.append(
            f"| {row['link']} | {row['tie_share']:.1%} | {row['method']} | {row['target']} | {row['reps']} | "
            f"{row['coverage']:.3f} ± {row['mc_error']:.3f} | {more} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run both models of ties and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    rows = []
    for name in LINKS:
        found = replicate_all(f"ties {name}", replicate, options.reps, options.jobs, needed=METHODS)
        rows += summarise(f"ties {name}", found)
    keep_results("tie_coverage", rows, to_markdown(rows))
    print(to_markdown(rows))


if __name__ == "__main__":
    main()
