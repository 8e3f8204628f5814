"""What each setting and each part of the default method is worth: with it and without, on the same logs.

    python benchmarks/ablation.py [--logs 20] [--only outliers] [--jobs 2]

Each row changes one field of `HierarchicalConfig` (or leaves out one part of the model) and names designs that need
it; the designs are those of thin_logs.py, thin_categories.py and nearly_low_rank.py, and two more: a crossed one,
where models differ by the first mode of two, and a board of five models of which one won all votes. Coverage is that
of 95% intervals of all scores, of specialists that of the scores which are outliers; changes are paired by log, with
Monte Carlo errors. "RMSE" is that of the changed method over that of the default. A row within two errors of no change
in every column is idle on that design. Results go to results/ablation.json and .md; rows that are not run keep theirs.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
import nearly_low_rank
import thin_categories
import thin_oracle
from lrbtl.errors import LrbtlWarning
from replications import keep_results, known_results, replicate_all
from thin_logs import to_battles

SEED = 20261120
Truth = tuple[lrbtl.Battles, np.ndarray, Any]  # battles, true scores (d1, ...), entries that are looked at or None


def plain(name: str, rng: np.random.Generator) -> Truth:
    """Return a thin board without categories."""
    return *to_battles(thin_oracle.draw_log(thin_oracle.DESIGNS[name], SEED, int(rng.integers(1 << 30)))), None


def votes_of(truth: np.ndarray, n: int, rng: np.random.Generator) -> lrbtl.Battles:
    """Return votes of models and categories that meet uniformly."""
    return lrbtl.simulate_battles(truth, n, rng=rng)


def categories(name: str, rng: np.random.Generator) -> Truth:
    """Return votes of thin categories."""
    design = thin_categories.DESIGNS[name]
    truth = thin_categories.draw_truth(design, rng)
    return votes_of(truth, design.votes, rng), truth, None


def low_rank(place: int, rng: np.random.Generator) -> Truth:
    """Return votes of a nearly low-rank matrix; of specialists, their outliers are looked at."""
    design = nearly_low_rank.DESIGNS[place]
    truth, special = nearly_low_rank.draw_truth(design, rng)
    return nearly_low_rank.draw_battles(design, truth, rng), truth, special


def crossed(rng: np.random.Generator) -> Truth:
    """Return levels, and what a model has in common over all categories of the first mode."""
    truth = rng.normal(size=(20, 1, 1)) + 0.5 * rng.normal(size=(20, 6, 1)) + 0.1 * rng.normal(size=(20, 6, 4))
    truth -= truth.mean(axis=0)
    return votes_of(truth, 8_000, rng), truth, None


def unbeaten(rng: np.random.Generator) -> Truth:
    """Return a board of five models of which one has won all of its votes."""
    while True:
        truth = rng.normal(size=5)
        battles = votes_of(truth - truth.mean(), 30, rng)
        cells = battles.cells
        lost = np.bincount(cells.a, cells.count * (1.0 - cells.y), 5) + np.bincount(cells.b, cells.count * cells.y, 5)
        if np.any(lost == 0.0):
            return battles, truth - truth.mean(), None


DESIGNS: dict[str, Callable[[np.random.Generator], Truth]] = {
    **{name: partial(plain, name) for name in thin_oracle.DESIGNS},
    **{name: partial(categories, name) for name in thin_categories.DESIGNS},
    **{design.name: partial(low_rank, k) for k, design in enumerate(nearly_low_rank.DESIGNS)},
    "20 x 6 x 4, 8,000, crossed": crossed,
    "5, 30, one unbeaten": unbeaten,
}

UNIFORM, SIMILAR, TRAFFIC, TAILS = "60, 300, uniform", "60, 600, similar", "60, 600, traffic", "60, 600, t3"
THIN, FEW, TENSOR = "60 x 40, 10,000, spread 0.71", "5 x 3, 200, spread 0.5", "25 x 6 x 4, 8,000, spread 0.95"
RANK3, MATCHED, SPECIAL = (nearly_low_rank.DESIGNS[k].name for k in (0, 1, 8))
RANK2_DEVIATIONS, RANK5 = (nearly_low_rank.DESIGNS[k].name for k in (4, 22))
NEVER = float("inf")

ROWS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [  # what is changed, the settings, designs that need it
    ("no shared factors", {"largest_rank": 0}, (THIN, RANK3)),
    ("no design covariates", {"design_covariates": False}, (SIMILAR, TRAFFIC, UNIFORM)),
    ("no bends of the order", {"bends": 0}, (SIMILAR,)),
    ("normal levels only", {"level_freedom": (NEVER,)}, (TAILS, UNIFORM)),
    ("Student levels only", {"level_freedom": (3.0,)}, (TAILS, UNIFORM)),
    ("spread of levels without end", {"largest_spread": 1e3}, ("5, 30, one unbeaten",)),
    ("spread of levels at most 3", {"largest_spread": 3.0}, ("5, 30, one unbeaten",)),
    ("votes at the mode, not averaged", {"expectation_from": NEVER}, (UNIFORM, FEW)),
    ("votes always averaged", {"expectation_from": 0.0}, (RANK2_DEVIATIONS,)),
    ("one value of each size", {"sure_size": NEVER}, (UNIFORM, FEW)),
    ("factors rejected below 1.5", {"excess_reject": 1.5}, (RANK3, RANK2_DEVIATIONS)),
    ("factors accepted from 2", {"excess_accept": 2.0}, (RANK3, RANK2_DEVIATIONS)),
    ("no allowance on ladders", {"excess_hidden": 0.0}, (MATCHED,)),
    ("at most 3 factors", {"largest_rank": 3}, (RANK5,)),
    ("one number of factors", {"least_weight": 0.5}, (RANK3, RANK2_DEVIATIONS)),
    ("residuals not clipped", {"residual_clip": NEVER}, (SPECIAL, RANK3)),
    ("no crossed effects", {"effect_at_zero": 1.0 - 1e-12}, ("20 x 6 x 4, 8,000, crossed", TENSOR)),
    ("crossed effects always", {"effect_at_zero": 0.0}, ("20 x 6 x 4, 8,000, crossed", TENSOR)),
    ("no outliers", {"outliers": False}, (SPECIAL, RANK2_DEVIATIONS)),
    ("outliers twice as large", {"outlier_size": 1.2}, (SPECIAL,)),
    ("outliers of a normal law", {"outlier_freedom": NEVER}, (SPECIAL,)),
    ("a tenth of the outliers", {"outliers_per_model": 0.05}, (SPECIAL, RANK2_DEVIATIONS)),
]  # fmt: skip


def figures(battles: lrbtl.Battles, truth: np.ndarray, special: Any, settings: dict[str, Any]) -> dict[str, float]:
    """Return coverage, mean squared error and mean width of one way on one log."""
    found = lrbtl.infer(battles, lrbtl.all_scores(), config=lrbtl.HierarchicalConfig(**settings))
    lower, upper = (side.reshape(truth.shape) for side in found.conf_int().T)
    inside = (lower <= truth) & (truth <= upper)
    away = (found.estimate.reshape(truth.shape) - truth) ** 2
    out = {"covered": inside.mean(), "mse": away.mean(), "width": (upper - lower).mean()}
    return {
        key: float(value)
        for key, value in (out | ({} if special is None else {"special": inside[special].mean()})).items()
    }


def replicate(
    design: str, ways: dict[str, dict[str, Any]], name: str, seed: int, known: dict[str, Any]
) -> dict[str, Any]:
    """Return the figures of the default and of each changed method on one log of a design."""
    rng = np.random.default_rng([SEED, sorted(DESIGNS).index(design), seed])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        log = DESIGNS[design](rng)
        return {"seed": seed, **{way: figures(*log, settings) for way, settings in ways.items()}}


def summarise(found: list[dict[str, Any]], way: str) -> dict[str, Any]:
    """Return coverage of the default, its paired change, and the ratios of RMSE and of width, with errors."""
    default, other = ([each[key] for each in found] for key in ("default", way))
    n = len(found)

    def paired(key: str) -> list[float]:
        change = np.array([b[key] - a[key] for a, b in zip(default, other, strict=True)])
        return [float(change.mean()), float(change.std(ddof=1) / np.sqrt(n))]

    mse, changed = (np.array([each["mse"] for each in side]) for side in (default, other))
    ratio = float(np.sqrt(changed.mean() / mse.mean()))
    noise = np.std(changed / changed.mean() - mse / mse.mean(), ddof=1) / np.sqrt(n) / 2
    wider = [b["width"] / a["width"] for a, b in zip(default, other, strict=True)]
    row: dict[str, Any] = {"logs": n, "covered": float(np.mean([each["covered"] for each in default]))}
    row |= {"change": paired("covered"), "RMSE": [ratio, float(ratio * noise)], "width": float(np.mean(wider))}
    return row | ({"special": paired("special")} if "special" in default[0] else {})


def to_markdown(rows: dict[str, dict[str, Any]]) -> str:
    """Return the table."""
    lines = [
        "| changed | design | logs | covered | change | RMSE | width | outliers covered |",
        "| --- | --- " + "| ---: " * 6 + "|",
    ]
    for label, _, designs in ROWS:
        for design in designs:
            row = rows.get(f"{label}; {design}")
            if row is None:
                continue
            change, rmse = (
                f"{row[key][0]:{form}} ± {row[key][1]:.3f}" for key, form in (("change", "+.3f"), ("RMSE", ".3f"))
            )
            special = f"{row['special'][0]:+.3f} ± {row['special'][1]:.3f}" if "special" in row else ""
            cells = label, design, row["logs"], f"{row['covered']:.3f}", change, rmse, f"{row['width']:.2f}", special
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the rows that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--only", default="", help="part of the label of the rows to run")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    chosen = [(label, settings, designs) for label, settings, designs in ROWS if args.only in label]
    rows = known_results("ablation")
    for design in dict.fromkeys(design for _, _, designs in chosen for design in designs):
        ways = {label: settings for label, settings, designs in chosen if design in designs}
        found = replicate_all(
            f"ablation {design}",
            partial(replicate, design, {"default": {}, **ways}),
            args.logs,
            args.jobs,
            needed=["default", *ways],
        )
        rows |= {f"{label}; {design}": summarise(found, label) for label in ways}
        keep_results("ablation", rows, to_markdown(rows))
    print(to_markdown(rows))


if __name__ == "__main__":
    main()
