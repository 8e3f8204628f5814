"""Coverage of all scores of fresh truths, order 2 to 4, and of joint intervals over 50 targets.

    python benchmarks/coverage_tensor.py --reps 300 --jobs 2
    python benchmarks/coverage_tensor.py --default 12 [--designs ...]

Every replication draws a new truth. Coverage is averaged over all scores of all truths, and its error is that of the
mean over truths. Joint coverage is the share of truths for which all 50 intervals (25 scores, 25 gaps) hold, also split
by the signal of the fit. The default method, which is told no rank, has a run of its own (`--default`) on other truths,
beside the efficient method at the true rank. Finished replications are kept, so that a stopped run goes on where it
was. Results go to results/coverage_tensor.json and .md.
"""

import argparse
import os
import warnings
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlWarning
from lrbtl.fitting.signal import SIGNAL_FLOOR, signal_ratio
from lrbtl.inference.analysis import analyse_fit
from lrbtl.methods.base import Options
from replications import Replication, keep_results, known_results, replicate_all

METHODS = ("efficient", "mle", "whitened")
SCALE, Z = 3.0, 1.959964
TOGETHER = 50
FIRST_DEFAULT = 9_000  # seed of the truths on which the default is run


@dataclass(frozen=True)
class Setting:
    """Shape, rank and number of battles; `uneven` ones come from Dirichlet(5) laws of models and contexts."""

    shape: tuple[int, ...]
    rank: tuple[int, ...]
    n: int
    uneven: bool = False


DESIGNS = {
    "30 x 10 x 4, 20000": Setting((30, 10, 4), (3, 2, 2), 20_000),
    "30 x 10 x 4, 60000": Setting((30, 10, 4), (3, 2, 2), 60_000),
    "100 x 20 x 5, 60000": Setting((100, 20, 5), (4, 3, 2), 60_000),
    "80 x 25, uneven, 30000": Setting((80, 25), (3, 3), 30_000, uneven=True),
    "20 x 6 x 4 x 3, uneven, 40000": Setting((20, 6, 4, 3), (2, 2, 2, 2), 40_000, uneven=True),
}


def law(setting: Setting, rng: np.random.Generator) -> Any:
    if not setting.uneven:
        return lrbtl.UniformSampling()
    contexts = rng.dirichlet(np.full(int(np.prod(setting.shape[1:])), 5.0)).reshape(setting.shape[1:])
    return lrbtl.ProductSampling(rng.dirichlet(np.full(setting.shape[0], 5.0)), contexts)


def draw_targets(truth: np.ndarray, rng: np.random.Generator) -> tuple[list[Any], np.ndarray]:
    """Return scores and gaps at random places, in turn, and their true values."""
    targets, goals = [], []
    for i in range(TOGETHER):
        a, b = (int(x) for x in rng.choice(len(truth), 2, replace=False))
        u = tuple(int(rng.integers(d)) for d in truth.shape[1:])
        targets.append(lrbtl.score(a, u) if i % 2 else lrbtl.gap(a, b, u))
        goals.append(truth[(a, *u)] - (0.0 if i % 2 else truth[(b, *u)]))
    return targets, np.array(goals)


def replicate(design: str, seed: int, known: Replication) -> Replication:
    """Return coverage and error of all scores by each method, and whether joint intervals hold."""
    setting = DESIGNS[design]
    truth = lrbtl.simulate_scores(setting.shape, setting.rank, scale=SCALE, rng=seed)
    rng = np.random.default_rng(20_000 + seed)
    sampling = law(setting, rng)
    flat = truth.reshape(len(truth), -1)
    out: Replication = {"seed": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        fit = lrbtl.fit(lrbtl.simulate_battles(truth, setting.n, sampling=sampling, rng=10_000 + seed), setting.rank)
        out["signal"] = signal_ratio(fit.point, setting.n)
        for method in METHODS:
            options = Options(sampling=sampling if method == "whitened" else None)
            analysis = analyse_fit(fit, options, method=method)
            values, errors = analysis.run.family("scores")
            inside = np.abs(values - flat) < Z * errors
            out[method] = [float(inside.mean()), float(np.sqrt(np.mean((values - flat) ** 2)))]
            if method == "efficient":
                targets, goals = draw_targets(truth, rng)
                limits = analysis.estimate(targets).conf_int(joint=True)
                out["joint"] = bool(((limits[:, 0] <= goals) & (goals <= limits[:, 1])).all())
    return out


def default_column(design: str, truths: int) -> dict[str, Any]:
    """Return coverage, error and width of the default on fresh truths, with those of the efficient method there."""
    setting, found = DESIGNS[design], []
    for seed in range(FIRST_DEFAULT, FIRST_DEFAULT + truths):
        truth = lrbtl.simulate_scores(setting.shape, setting.rank, scale=SCALE, rng=seed)
        sampling = law(setting, np.random.default_rng(20_000 + seed))
        battles = lrbtl.simulate_battles(truth, setting.n, sampling=sampling, rng=10_000 + seed)
        flat = truth.reshape(len(truth), -1)
        row = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LrbtlWarning)
            for options in ({}, {"method": "efficient", "rank": setting.rank}):
                values, errors = lrbtl.analyse(battles, **options).run.family("scores")
                inside = np.abs(values - flat) < Z * errors
                row += [float(inside.mean()), float(np.mean((values - flat) ** 2)), float(errors.mean())]
        found.append(row)
    values = np.array(found)
    coverage, mse, _, efficient, efficient_mse, _ = values.mean(axis=0)
    return {
        "truths": truths, "coverage": coverage, "mc_error": values[:, 0].std(ddof=1) / np.sqrt(truths),
        "rmse": mse**0.5, "efficient coverage": efficient, "efficient rmse": efficient_mse**0.5,
        "width / efficient": float(np.mean(values[:, 2] / values[:, 5])),
    }  # fmt: skip


def share(held: list[bool]) -> tuple[float, float]:
    """Return a share and its Monte Carlo error."""
    p = float(np.mean(held)) if held else float("nan")
    return p, float(np.sqrt(p * (1 - p) / max(len(held), 1)))


def summarise(design: str, replications: list[Replication]) -> dict[str, Any]:
    row: dict[str, Any] = {"design": design, "rank": DESIGNS[design].rank, "truths": len(replications)}
    for method in METHODS:
        values = np.array([r[method][:2] for r in replications])
        coverage, rmse = values.mean(axis=0)
        error = values[:, 0].std(ddof=1) / np.sqrt(len(values))
        row[method] = {"coverage": coverage, "mc_error": error, "rmse": rmse}
    strong = [r["joint"] for r in replications if r["signal"] >= SIGNAL_FLOOR]
    weak = [r["joint"] for r in replications if r["signal"] < SIGNAL_FLOOR]
    for name, held in (("joint", strong + weak), ("joint, strong signal", strong), ("joint, weak signal", weak)):
        row[name] = {"truths": len(held), **dict(zip(("coverage", "mc_error"), share(held), strict=True))}
    return row


def to_markdown(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Coverage of nominal 95% intervals, fresh truths",
        "",
        "All scores:",
        "",
        "| design | rank | truths | efficient | mle | whitened | RMSE of the three |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        covers = " | ".join(f"{row[m]['coverage']:.3f} ± {row[m]['mc_error']:.3f}" for m in METHODS)
        errors = ", ".join(f"{row[m]['rmse']:.3f}" for m in METHODS)
        lines.append(f"| {row['design']} | {tuple(row['rank'])} | {row['truths']} | {covers} | {errors} |")
    lines += [
        "",
        f"Joint intervals of {TOGETHER} targets, efficient; a signal is strong where `fit` does not warn:",
        "",
        "| design | all truths | strong signal | weak signal |",
        "|---|---|---|---|",
    ]
    for row in rows:
        cells = []
        for name in ("joint", "joint, strong signal", "joint, weak signal"):
            part = row[name]
            cells.append(
                f"{part['coverage']:.3f} ± {part['mc_error']:.3f} ({part['truths']})" if part["truths"] else ""
            )
        lines.append(f"| {row['design']} | {' | '.join(cells)} |")
    lines += [
        "",
        "All scores by the default, which is told no rank, and by the efficient method at the true rank, same truths:",
        "",
        "| design | truths | default | efficient | RMSE: default, efficient | width / efficient |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "default" in row:
            part = row["default"]
            lines.append(
                f"| {row['design']} | {part['truths']} | {part['coverage']:.3f} ± {part['mc_error']:.3f} "
                f"| {part['efficient coverage']:.3f} | {part['rmse']:.3f}, {part['efficient rmse']:.3f} "
                f"| {part['width / efficient']:.2f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--default", type=int, default=0, help="only the default, on so many truths")
    options = parser.parse_args()
    rows = list(known_results("coverage_tensor"))
    for design in options.designs:
        if options.default:
            for row in rows:
                if row["design"] == design:
                    row["default"] = default_column(design, options.default)
            keep_results("coverage_tensor", rows, to_markdown(rows))
            continue
        found = replicate_all(design, replicate, options.reps, options.jobs, needed=[*METHODS, "joint"])
        known = next((row for row in rows if row["design"] == design), {})
        kept = {"default": known["default"]} if "default" in known else {}
        rows = [row for row in rows if row["design"] != design] + [{**summarise(design, found), **kept}]
        keep_results("coverage_tensor", rows, to_markdown(rows))
    print(to_markdown(rows))


if __name__ == "__main__":
    main()
