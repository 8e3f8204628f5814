"""Coverage of nominal 95% intervals on the paper's design, beside the paper's numbers.

    python benchmarks/coverage.py --reps 500 --jobs 2
    python benchmarks/coverage.py --default 5 [--designs ...]

Finished replications are kept in results/replications, so that a stopped run goes on where it was. Every replication
draws fresh battles from one truth (d1 = d2 = 200, rank 5, max |T*| = 5), fits once and cross-fits with K = 6. Targets
are the paper's: the score of model 0 in context 0 and the probability that model 0 beats model 1 there; with 60,000
uniform battles also joint intervals of 25 scores and 25 gaps. Some replications check all 40,000 scores, by size of
the score. The default method, which is told no rank, has a run of its own (`--default`) on other battles, beside the
efficient method at the true rank; it checks all scores. Results go to results/coverage.json and results/coverage.md.
"""

import argparse
import os
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.inference.analysis import analyse_fit
from lrbtl.methods.base import Options
from replications import keep_results, known_results, replicate_all

SHAPE, RANK, SCALE, FOLDS = (200, 200), 5, 5.0, 6
TRUTH_SEED = 0
CLASSES = ((0.0, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, np.inf))
ALL_EVERY = 25  # one replication in so many checks all scores
DEFAULT_NAMES = ("default", "efficient, same battles")
TARGETS = [lrbtl.score(0, 0), lrbtl.win_probability(0, 1, 0)]
JOINT = "uniform 60000"  # where joint intervals are tried
TOGETHER = 25  # scores, and as many gaps, whose intervals should hold jointly
NAMES = ("entry", "win probability")
METHODS = {
    "uniform": {"efficient", "whitened"},
    "Dirichlet": {f"{method}, {law} law" for method in ("efficient", "whitened") for law in ("known", "estimated")},
}
PAPER = {
    ("uniform 60000", "entry", "efficient"): (0.942, 1.029),
    ("uniform 60000", "entry", "whitened"): (0.940, 1.041),
    ("uniform 60000", "win probability", "efficient"): (0.890, 0.970),
    ("uniform 60000", "win probability", "whitened"): (0.914, 1.029),
    ("uniform 80000", "win probability", "efficient"): (0.900, 0.987),
    ("uniform 80000", "win probability", "whitened"): (0.928, 1.027),
    ("Dirichlet 60000", "entry", "whitened, known law"): (0.942, 1.063),
    ("Dirichlet 60000", "entry", "whitened, estimated law"): (0.944, 1.059),
    ("Dirichlet 60000", "entry", "efficient, known law"): (0.936, 1.044),
    ("Dirichlet 60000", "entry", "efficient, estimated law"): (0.936, 1.044),
}


def truth() -> np.ndarray:
    return lrbtl.simulate_scores(SHAPE, RANK, scale=SCALE, rng=TRUTH_SEED)


def law(design: str) -> Any:
    if design.startswith("uniform"):
        return lrbtl.UniformSampling()
    rng = np.random.default_rng(5)
    return lrbtl.ProductSampling(rng.dirichlet(np.full(SHAPE[0], 5.0)), rng.dirichlet(np.full(SHAPE[1], 5.0)))


def joint_targets(scores: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Return scores and gaps drawn once at random, and their true values."""
    rng = np.random.default_rng(50)
    places = [
        (*rng.choice(SHAPE[0], 2, replace=False).tolist(), int(rng.integers(SHAPE[1]))) for _ in range(2 * TOGETHER)
    ]
    targets = [lrbtl.score(a, u) for a, _, u in places[:TOGETHER]]
    targets += [lrbtl.gap(a, b, u) for a, b, u in places[TOGETHER:]]
    goals = [scores[a, u] for a, _, u in places[:TOGETHER]]
    goals += [scores[a, u] - scores[b, u] for a, b, u in places[TOGETHER:]]
    return targets, np.array(goals)


def runs(design: str, battles: lrbtl.Battles) -> dict[str, dict[str, Any]]:
    """Return the options of each method of a design."""
    known = law(design)
    if design.startswith("uniform"):
        return {
            "efficient": {"method": "efficient"},
            "whitened": {"method": "whitened", "sampling": known},
        }
    estimated = lrbtl.ProductSampling.estimate(battles)
    return {
        "efficient, known law": {"method": "efficient", "sampling": known},
        "efficient, estimated law": {"method": "efficient", "sampling": estimated},
        "whitened, known law": {"method": "whitened", "sampling": known},
        "whitened, estimated law": {"method": "whitened", "sampling": estimated},
    }


def replicate(design: str, seed: int, known: dict[str, Any]) -> dict[str, Any]:
    """Return estimates, errors and intervals of every method in one replication, given those that are known."""
    scores = truth()
    battles = lrbtl.simulate_battles(scores, int(design.split()[1]), sampling=law(design), rng=1_000_000 + seed)
    fit = lrbtl.fit(battles, RANK)
    out: dict[str, Any] = {"seed": seed, **known}
    for name, options in runs(design, battles).items():
        if name in known:
            continue
        method = options.pop("method", "efficient")
        analysis = analyse_fit(fit, Options(n_folds=FOLDS, rng=seed, **options), method=method)
        many, goals = joint_targets(scores) if design == JOINT else ([], np.empty(0))
        both = analysis.estimate([*TARGETS, *many])
        est = both[: len(TARGETS)]
        out[name] = {"estimate": est.estimate.tolist(), "se": est.se.tolist(), "interval": est.conf_int().tolist()}
        if many:
            limits = both[len(TARGETS) :].conf_int(joint=True)
            out[name]["joint"] = bool(((limits[:, 0] <= goals) & (goals <= limits[:, 1])).all())
        if seed % ALL_EVERY == 0 and "law" not in name:
            values, errors = analysis.run.family("scores")
            inside = np.abs(values - scores) < 1.959964 * errors
            size = np.abs(scores)
            error = float(np.sqrt(np.mean((values - scores) ** 2)))
            out[name]["all"] = [float(inside.mean()), error, float(errors.mean())]
            out[name]["classes"] = [float(inside[(size >= low) & (size < high)].mean()) for low, high in CLASSES]
    return out


def default_rows(design: str, reps: int) -> list[dict[str, Any]]:
    """Return rows of all scores by the default and by the efficient method on the same fresh battles."""
    scores, found = truth(), {name: [] for name in DEFAULT_NAMES}
    for seed in range(reps):
        battles = lrbtl.simulate_battles(scores, int(design.split()[1]), sampling=law(design), rng=3_000_000 + seed)
        for name, options in zip(found, ({}, {"method": "efficient", "rank": RANK}), strict=True):
            values, errors = lrbtl.analyse(battles, **options).run.family("scores")
            inside, size = np.abs(values - scores) < 1.959964 * errors, np.abs(scores)
            classes = [float(inside[(size >= low) & (size < high)].mean()) for low, high in CLASSES]
            found[name].append(
                [float(inside.mean()), float(np.mean((values - scores) ** 2)), float(errors.mean()), *classes]
            )
    out = []
    for name, rows in found.items():
        coverage, mse, mean_se, *classes = np.mean(rows, axis=0).tolist()
        error = float(np.std([row[0] for row in rows], ddof=1) / np.sqrt(reps))
        row = {"design": design, "target": "all scores", "method": name, "reps": reps, "coverage": coverage}
        out.append({**row, "mc_error": error, "rmse": mse**0.5, "mean_se": mean_se, "classes": classes})
    return out


def oracle_errors(design: str) -> dict[str, list[float]]:
    """Return the asymptotic standard errors at the truth, SE*."""
    n = int(design.split()[1])
    out = {}
    for method in ("efficient", "whitened"):
        bound = lrbtl.efficiency_bound(truth(), TARGETS, rank=RANK, sampling=law(design), method=method)
        out[method] = np.sqrt(np.asarray(bound) / n).tolist()
    return out


def summarise(design: str, replications: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per target and method."""
    scores = truth()
    goals = [scores[0, 0], 1 / (1 + np.exp(scores[1, 0] - scores[0, 0]))]
    oracle = oracle_errors(design)
    rows = []
    for name in [key for key in replications[0] if key != "seed"]:
        for i, target in enumerate(NAMES):
            estimate = np.array([r[name]["estimate"][i] for r in replications])
            se = np.array([r[name]["se"][i] for r in replications])
            interval = np.array([r[name]["interval"][i] for r in replications])
            covered = float(np.mean((interval[:, 0] <= goals[i]) & (goals[i] <= interval[:, 1])))
            star = oracle["whitened" if name.startswith("whitened") else "efficient"][i]
            paper = PAPER.get((design, target, name), (None, None))
            rows.append(
                {
                    "design": design,
                    "target": target,
                    "method": name,
                    "truth": float(goals[i]),
                    "reps": len(replications),
                    "coverage": covered,
                    "mc_error": float(np.sqrt(covered * (1 - covered) / len(replications))),
                    "bias": float(estimate.mean() - goals[i]),
                    "empirical_std": float(estimate.std(ddof=1)),
                    "median_se": float(np.median(se)),
                    "se_over_std": float(np.median(se) / estimate.std(ddof=1)),
                    "se_over_oracle": float(np.median(se) / star),
                    "paper_coverage": paper[0],
                    "paper_se_over_oracle": paper[1],
                }
            )
        held = [r[name]["joint"] for r in replications if "joint" in r[name]]
        if held:
            share = float(np.mean(held))
            error = float(np.sqrt(share * (1 - share) / len(held)))
            row = {"design": design, "target": f"{2 * TOGETHER} targets jointly", "method": name, "reps": len(held)}
            rows.append({**row, "coverage": share, "mc_error": error})
        full = [r[name] for r in replications if "all" in r[name]]
        if full:
            coverage, rmse, mean_se = np.mean([r["all"] for r in full], axis=0)
            classes = np.mean([r["classes"] for r in full], axis=0)
            rows.append(
                {
                    "design": design,
                    "target": "all scores",
                    "method": name,
                    "reps": len(full),
                    "coverage": float(coverage),
                    "mc_error": float(np.std([r["all"][0] for r in full], ddof=1) / np.sqrt(len(full)))
                    if len(full) > 1
                    else None,
                    "rmse": float(rmse),
                    "mean_se": float(mean_se),
                    "classes": classes.tolist(),
                }
            )
    return rows


def to_markdown(rows: list[dict[str, Any]]) -> str:
    """Return the results as tables beside the paper's numbers."""
    lines = [
        "# Coverage of nominal 95% intervals on the paper's design",
        "",
        "| design | target | method | reps | coverage | paper | bias | std | median SE | SE/std | SE/SE* | paper |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "bias" in row:
            paper = [
                f"{row[key]:.3f}" if row[key] is not None else "" for key in ("paper_coverage", "paper_se_over_oracle")
            ]
            lines.append(
                f"| {row['design']} | {row['target']} | {row['method']} | {row['reps']} "
                f"| {row['coverage']:.3f} ± {row['mc_error']:.3f} "
                f"| {paper[0]} | {row['bias']:+.3f} | {row['empirical_std']:.3f} "
                f"| {row['median_se']:.3f} | {row['se_over_std']:.3f} "
                f"| {row['se_over_oracle']:.3f} | {paper[1]} |"
            )
    lines += [
        "",
        f"Joint intervals of {2 * TOGETHER} targets:",
        "",
        "| design | method | reps | coverage |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if row["target"].endswith("jointly"):
            share = f"{row['coverage']:.3f} ± {row['mc_error']:.3f}"
            lines.append(f"| {row['design']} | {row['method']} | {row['reps']} | {share} |")
    lines += [
        "",
        "All 40,000 scores at once, by size of the score:",
        "",
        "| design | method | reps | coverage | RMSE | mean SE | 0-0.5 | 0.5-1 | 1-2 | above 2 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "classes" in row:
            classes = " | ".join(f"{value:.3f}" for value in row["classes"])
            lines.append(
                f"| {row['design']} | {row['method']} | {row['reps']} | {row['coverage']:.4f} "
                f"| {row['rmse']:.3f} | {row['mean_se']:.3f} | {classes} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--designs", nargs="+", default=["uniform 60000", "uniform 80000", "Dirichlet 60000"])
    parser.add_argument("--default", type=int, default=0, help="only the default, on so many logs")
    options = parser.parse_args()
    rows = list(known_results("coverage"))
    for design in options.designs:
        if options.default:
            fresh = default_rows(design, options.default)
            rows = [row for row in rows if row["design"] != design or row["method"] not in DEFAULT_NAMES] + fresh
            keep_results("coverage", rows, to_markdown(rows))
            continue
        needed = METHODS[design.split()[0]]
        replications = replicate_all(design, replicate, options.reps, options.jobs, needed=needed)
        kept = [row for row in rows if row["design"] != design or row["method"] in DEFAULT_NAMES]
        rows = kept + summarise(design, replications)
        keep_results("coverage", rows, to_markdown(rows))
    print(to_markdown(rows))


if __name__ == "__main__":
    main()
