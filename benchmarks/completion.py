"""Coverage of completion: intervals of all entries, Gaussian and one-bit, matrix and order 3.

    python benchmarks/completion.py --reps 500

Each design has one truth; every replication draws new observations and noise. `coverage` is the mean over all entries
and replications, `one entry` that of a single target, with its Monte-Carlo error; nominal 0.95. Results go to
results/completion.json and results/completion.md.
"""

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import lrbtl
from lrbtl.tucker import truncate

RESULTS = Path(__file__).parent / "results"
SHAPES = {"100 x 80, rank 3": ((100, 80), (3, 3)), "30 x 20 x 10, rank 2": ((30, 20, 10), (2, 2, 2))}
UNIFORM = lrbtl.UniformSampling()
# name: (link, observations per parameter, methods)
SCENARIOS = {
    "Gaussian, one variance": ("identity", 40, ("efficient", "whitened", "mle")),
    "Gaussian, known variances": ("identity", 40, ("efficient", "whitened")),
    "one bit, logistic": ("logistic", 200, ("efficient", "whitened", "mle")),
    "one bit, probit": ("probit", 200, ("efficient", "whitened", "mle")),
    "Gaussian, row x column law": ("identity", 60, ("efficient", "whitened, known law", "whitened, estimated law")),
}


def make_truth(shape, rank):
    """Return a tensor of a rank whose largest entry is 2.5 in size."""
    truth = truncate(np.random.default_rng(7).normal(size=shape), rank).dense()
    return 2.5 * truth / np.abs(truth).max()


def make_law(shape):
    """Return a product law whose row and column probabilities vary about threefold."""
    rng = np.random.default_rng(8)
    rows, others = rng.dirichlet(np.full(shape[0], 10.0)), rng.dirichlet(np.full(int(np.prod(shape[1:])), 10.0))
    return lrbtl.ProductSampling(rows, others.reshape(shape[1:]))


def replicate(task):
    """Return for each method: share of entries covered, whether one entry is, RMSE, median SE, seconds."""
    design, scenario, seed = task
    (shape, rank), (link, per_parameter, methods) = SHAPES[design], SCENARIOS[scenario]
    truth = make_truth(shape, rank)
    n = per_parameter * sum(r * (d - r) for r, d in zip(rank, shape, strict=True)) + per_parameter * int(np.prod(rank))
    variance, known, law = 0.5, False, None
    if scenario == "Gaussian, known variances":
        variance, known = np.random.default_rng(9).choice([0.1, 2.0], size=shape), True
    if scenario == "Gaussian, row x column law":
        law = make_law(shape)
    options = {"link": link, "variance": variance, "known": known, "sampling": law, "rng": seed}
    data = lrbtl.simulate_observations(truth, n, **options)
    at = int(np.ravel_multi_index(tuple(d // 3 for d in shape), shape))
    found = {}
    for method in methods:
        start = time.perf_counter()
        sampling = None
        if method.startswith("whitened"):
            sampling = {"whitened, known law": law, "whitened, estimated law": None}.get(method, UNIFORM)
        run = {"rank": rank, "link": link, "method": method.split(",")[0], "sampling": sampling, "rng": seed}
        est = lrbtl.infer(data, lrbtl.all_scores(), **run)
        inside = np.abs(est.estimate - truth.ravel()) < 1.959964 * est.se
        rmse = float(np.sqrt(np.mean((est.estimate - truth.ravel()) ** 2)))
        took = time.perf_counter() - start
        found[method] = [float(inside.mean()), float(inside[at]), rmse, float(np.median(est.se)), took, n]
    return found


def main():
    """Run all designs and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reps", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    rows = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for design in SHAPES:
            for scenario, (*_, methods) in SCENARIOS.items():
                found = list(pool.map(replicate, [(design, scenario, seed) for seed in range(options.reps)]))
                for method in methods:
                    values = np.array([each[method] for each in found])
                    coverage, one, rmse, se, seconds, n = (float(x) for x in values.mean(axis=0))
                    spread = values[:, 0].std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
                    rows.append(
                        {
                            "design": design, "scenario": scenario, "method": method, "n": int(n),
                            "reps": options.reps, "coverage": coverage, "mc_error": float(spread), "one_entry": one,
                            "one_entry_mc_error": float(np.sqrt(0.95 * 0.05 / len(values))), "rmse": rmse,
                            "median_se": se, "seconds": seconds,
                        }
                    )  # fmt: skip
                    print({key: round(v, 4) if isinstance(v, float) else v for key, v in rows[-1].items()}, flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "completion.json").write_text(json.dumps(rows, indent=1) + "\n")
    lines = [
        f"# Completion: coverage of nominal 95% intervals, {options.reps} replications", "",
        "| design | noise | n | method | coverage, all entries | one entry | RMSE | median SE | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for r in rows:
        lines.append(
            f"| {r['design']} | {r['scenario']} | {r['n']:,} | {r['method']} | {r['coverage']:.3f} ± "
            f"{r['mc_error']:.3f} | {r['one_entry']:.3f} ± {r['one_entry_mc_error']:.3f} | {r['rmse']:.3f} | "
            f"{r['median_se']:.3f} | {r['seconds']:.2f} |"
        )
    (RESULTS / "completion.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
