"""Coverage of all scores of order-3 tensors, and of joint intervals over 50 targets.

    python benchmarks/coverage_tensor.py --jobs 2

Every truth is fresh; coverage is averaged over all scores of all truths, and its error is that of the mean over
truths. Joint coverage is the share of replications in which all 50 intervals (25 scores, 25 gaps) hold. Results go to
results/coverage_tensor.json and .md.
"""

import argparse
import json
import os
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.crossfit import cross_fit
from lrbtl.errors import LrbtlWarning
from lrbtl.inference import estimate_targets

RESULTS = Path(__file__).parent / "results"
METHODS = ("efficient", "mle", "whitened")
DESIGNS = {
    "(30, 10, 4) rank (3, 2, 2), 20,000": ((30, 10, 4), (3, 2, 2), 20_000, 24),
    "(30, 10, 4) rank (3, 2, 2), 60,000": ((30, 10, 4), (3, 2, 2), 60_000, 24),
    "(100, 20, 5) rank (4, 3, 2), 60,000": ((100, 20, 5), (4, 3, 2), 60_000, 12),
}
SCALE = 3.0
JOINT = ((30, 10, 4), (3, 2, 2), 60_000)
JOINT_TARGETS = 25


def simulated(shape: tuple[int, ...], rank: tuple[int, ...], n: int, seed: int) -> tuple[np.ndarray, lrbtl.Fit]:
    truth = lrbtl.simulate_scores(shape, rank, scale=SCALE, rng=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        return truth, lrbtl.fit(lrbtl.simulate_battles(truth, n, rng=10_000 + seed), rank)


def all_scores(design: str, seed: int) -> dict[str, list[float]]:
    """Return coverage, root mean squared error and median standard error of each method for one truth."""
    shape, rank, n, _ = DESIGNS[design]
    truth, fit = simulated(shape, rank, n, seed)
    flat = truth.reshape(shape[0], -1)
    out = {}
    for method in METHODS:
        values, errors = cross_fit(
            fit, method=method, sampling=lrbtl.UniformSampling() if method == "whitened" else None
        ).all_scores()
        inside = np.abs(values - flat) < 1.959964 * errors
        out[method] = [float(inside.mean()), float(np.sqrt(np.mean((values - flat) ** 2))), float(np.median(errors))]
    return out


def joint(seed: int) -> list[float]:
    """Return whether all joint intervals hold, and the share of pointwise intervals that do."""
    shape = JOINT[0]
    truth, fit = simulated(*JOINT, seed)
    rng = np.random.default_rng(seed)
    targets, goals = [], []
    for i in range(2 * JOINT_TARGETS):
        a, b = (int(x) for x in rng.choice(shape[0], 2, replace=False))
        u = tuple(int(rng.integers(d)) for d in shape[1:])
        targets.append(lrbtl.score(a, u) if i % 2 else lrbtl.gap(a, b, u))
        goals.append(truth[(a, *u)] - (0.0 if i % 2 else truth[(b, *u)]))
    est = estimate_targets([cross_fit(fit)], targets)
    held = [(low <= goals) & (goals <= high) for low, high in (est.conf_int(joint=True).T, est.conf_int().T)]
    return [float(held[0].all()), float(held[1].mean())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--joint-reps", type=int, default=400)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for design, (*_, truths) in DESIGNS.items():
            found = [
                f.result() for f in as_completed([pool.submit(all_scores, design, seed) for seed in range(truths)])
            ]
            for method in METHODS:
                values = np.array([r[method] for r in found])
                error = float(values[:, 0].std(ddof=1) / np.sqrt(truths))
                means = dict(zip(("coverage", "rmse", "median_se"), values.mean(axis=0).tolist(), strict=True))
                rows.append({"design": design, "method": method, "truths": truths, "mc_error": error, **means})
                print(rows[-1], flush=True)
        held = np.array(
            [f.result() for f in as_completed([pool.submit(joint, seed) for seed in range(options.joint_reps)])]
        )
    share = float(held[:, 0].mean())
    rows.append(
        {
            "design": "joint, 50 targets, (30, 10, 4), 60,000",
            "method": "efficient",
            "reps": len(held),
            "coverage": share,
            "mc_error": float(np.sqrt(share * (1 - share) / len(held))),
            "pointwise": float(held[:, 1].mean()),
        }
    )
    print(rows[-1])
    lines = [
        "# Coverage of order-3 tensors, nominal 95%",
        "",
        "| design | method | coverage | RMSE | median SE |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        tail = f"{row['rmse']:.3f} | {row['median_se']:.3f}" if "rmse" in row else f"pointwise {row['pointwise']:.3f} |"
        lines.append(f"| {row['design']} | {row['method']} | {row['coverage']:.3f} ± {row['mc_error']:.3f} | {tail} |")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "coverage_tensor.json").write_text(json.dumps(rows, indent=1))
    (RESULTS / "coverage_tensor.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
