"""Coverage of completion: nominal 95% intervals, Gaussian and one-bit responses, matrix and order 3.

    python benchmarks/completion.py --reps 500

Each design has one truth; every replication draws new observations and noise, fits once, and cross-fits with six
folds for each method. One entry is the target of its own; all entries are checked too, on average and one by one.
One-bit observations are as many as carry the information of the Gaussian ones (about 0.2 a logistic one against 2).
Finished replications are kept in results/replications, so that a stopped run goes on where it was. Results go to
results/completion.json and results/completion.md.
"""

import argparse
import os
import time
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlWarning
from lrbtl.inference.analysis import analyse_fit
from lrbtl.lowrank.tucker import truncate
from lrbtl.methods.base import Options
from replications import Replication, keep_results, known_results, replicate_all

Z = 1.959964
FOLDS = 6  # as in the paper's simulations
LARGEST = 2.5  # size of the largest true entry
SHAPES = {"matrix": ((100, 80), (3, 3)), "tensor": ((30, 20, 10), (2, 2, 2)), "small-tensor": ((30, 20, 10), (2, 2, 2))}
MORE = {"matrix": 1.0, "tensor": 2.5, "small-tensor": 1.0}  # times the observations per parameter
CLASSES = ((0.0, 0.5), (0.5, 1.0), (1.0, np.inf))


@dataclass(frozen=True)
class Noise:
    """A law of the responses, how many observations a parameter gets, and the methods to try."""

    what: str
    link: str
    per_parameter: int
    methods: tuple[str, ...]


NOISES = {
    "gaussian": Noise("Gaussian, one unknown variance", "identity", 40, ("efficient", "whitened")),
    "variances": Noise("Gaussian, known variances 0.1 and 2", "identity", 40, ("efficient", "whitened")),
    "logistic": Noise("one bit, logistic", "logistic", 400, ("efficient", "whitened")),
    "probit": Noise("one bit, probit", "probit", 200, ("efficient", "whitened")),
    "law": Noise(
        "Gaussian, row × column law", "identity", 60, ("efficient", "whitened, known law", "whitened, estimated law")
    ),
}
DESIGNS = (
    *(f"{shape} {noise}" for shape in ("matrix", "tensor") for noise in NOISES),
    *(f"small-tensor {noise}" for noise in ("gaussian", "logistic", "law")),  # as many per parameter as the matrix
)


@dataclass(frozen=True)
class Problem:
    """What a design draws from."""

    truth: np.ndarray
    rank: tuple[int, ...]
    n: int
    noise: Noise
    variance: Any
    law: lrbtl.ProductSampling | None

    @property
    def target(self) -> tuple[int, ...]:
        """Position of the entry that is the target."""
        return tuple(size // 3 for size in self.truth.shape)

    def sampling(self, method: str) -> Any:
        """Return the law that a method is told: none, the uniform one where it holds, the known or an estimate."""
        if not method.startswith("whitened") or method.endswith("estimated law"):
            return None
        return lrbtl.UniformSampling() if self.law is None else self.law


@cache
def problem(design: str) -> Problem:
    """Return the truth, number of observations, noise and sampling law of a design."""
    shape_name, noise_name = design.split()
    (shape, rank), noise = SHAPES[shape_name], NOISES[noise_name]
    truth = truncate(np.random.default_rng(7).normal(size=shape), rank).dense()
    truth *= LARGEST / np.abs(truth).max()
    parameters = sum(r * (d - r) for r, d in zip(rank, shape, strict=True)) + int(np.prod(rank))
    variance: Any = 0.5
    if noise_name == "variances":
        variance = np.random.default_rng(9).choice([0.1, 2.0], size=shape)
    law = None
    if noise_name == "law":  # row and column probabilities vary about threefold
        rng = np.random.default_rng(8)
        rows, others = rng.dirichlet(np.full(shape[0], 10.0)), rng.dirichlet(np.full(int(np.prod(shape[1:])), 10.0))
        law = lrbtl.ProductSampling(rows, others.reshape(shape[1:]))
    return Problem(truth, rank, int(noise.per_parameter * parameters * MORE[shape_name]), noise, variance, law)


def replicate(design: str, seed: int, known: Replication) -> Replication:
    """Return estimate, error and interval of the target for every method, and which of all entries are covered."""
    setup = problem(design)
    drawn = {"link": setup.noise.link, "variance": setup.variance, "known": design.endswith("variances")}
    data = lrbtl.simulate_observations(setup.truth, setup.n, sampling=setup.law, rng=1_000_000 + seed, **drawn)
    out: Replication = {"seed": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        fit = lrbtl.fit(data, setup.rank, link=setup.noise.link)
        for method in setup.noise.methods:
            start = time.process_time()
            options = Options(sampling=setup.sampling(method), n_folds=FOLDS, rng=seed)
            analysis = analyse_fit(fit, options, method=method.split(",")[0])
            est = analysis.estimate(lrbtl.entry(*setup.target))
            low, high = est.conf_int()[0]
            out[method] = {"estimate": est.estimate[0], "se": est.se[0], "low": low, "high": high}
            out[method] |= check_all(setup.truth, *analysis.run.family("scores"))
            out[method]["seconds"] = time.process_time() - start
    return out


def check_all(truth: np.ndarray, values: np.ndarray, errors: np.ndarray) -> dict[str, Any]:
    """Return which entries are covered (bits), how many, also by size, root mean squared error and that of the SE."""
    gap = values - truth.reshape(values.shape)
    inside, size = np.abs(gap) < Z * errors, np.abs(truth.reshape(values.shape))
    return {
        "inside": np.packbits(inside).tobytes().hex(),
        "all": float(inside.mean()),
        "classes": [float(inside[(size >= low) & (size < high)].mean()) for low, high in CLASSES],
        "rmse": float(np.sqrt(np.mean(gap**2))),
        "rms_se": float(np.sqrt(np.mean(errors**2))),
    }


def unpack(bits: str, size: int) -> np.ndarray:
    """Return which entries a replication covered."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(bits), dtype=np.uint8))[:size]


def summarise(design: str, found: list[Replication]) -> list[dict[str, Any]]:
    """Return one row per method of a design."""
    setup = problem(design)
    goal = float(setup.truth[setup.target])
    rows = []
    for method in setup.noise.methods:
        runs = [each[method] for each in found]
        value, se, low, high = (np.array([run[key] for run in runs]) for key in ("estimate", "se", "low", "high"))
        covered = float(np.mean((low <= goal) & (goal <= high)))
        kind = {"link": setup.noise.link, "entries": True}
        if setup.noise.link == "identity":
            kind["variance"] = setup.variance
        bound = lrbtl.efficiency_bound(
            setup.truth, lrbtl.entry(*setup.target), rank=setup.rank, sampling=setup.law,
            method="whitened" if method.startswith("whitened") else "efficient", **kind,
        )  # fmt: skip
        shares = np.array([run["all"] for run in runs])
        by_entry = np.mean([unpack(run["inside"], setup.truth.size) for run in runs], axis=0)
        rows.append(
            {
                "design": design,
                "shape": " × ".join(map(str, setup.truth.shape)),
                "rank": setup.rank[0],
                "noise": setup.noise.what,
                "n": setup.n,
                "method": method,
                "reps": len(runs),
                "truth": goal,
                "coverage": covered,
                "mc_error": float(np.sqrt(max(covered * (1 - covered), 0.05 * 0.95 / 4) / len(runs))),
                "bias": float(value.mean() - goal),
                "std": float(value.std(ddof=1)),
                "width": float(np.mean(high - low)),
                "se_over_std": float(np.median(se) / value.std(ddof=1)),
                "se_over_bound": float(np.median(se) / np.sqrt(bound / setup.n)),
                "all_coverage": float(shares.mean()),
                "all_mc_error": float(shares.std(ddof=1) / np.sqrt(len(runs))),
                "entries": np.quantile(by_entry, [0.05, 0.95]).tolist(),
                "classes": np.mean([run["classes"] for run in runs], axis=0).tolist(),
                "rmse": float(np.mean([run["rmse"] for run in runs])),
                "se_over_rmse": float(np.mean([run["rms_se"] / run["rmse"] for run in runs])),
                "seconds": float(np.median([run["seconds"] for run in runs])),
            }
        )
    return rows


def to_markdown(rows: list[dict[str, Any]]) -> str:
    """Return the results as a table for each shape and number of observations per entry."""
    lines = [
        "# Completion: coverage of nominal 95% intervals", "",
        "One truth per shape, largest entry 2.5 in size, six folds. `one entry` is a single target, ± its Monte Carlo "
        "error; SE/std is its median standard error over the standard deviation of its estimates, SE/SE* over the "
        "bound of its method at the truth. `all entries` is the mean over all of them, ± over replications, also by "
        "size; `each` has the 5% and 95% quantiles over entries of the coverage of each, which at exactly 0.95 would "
        "scatter from 0.934 to 0.966 in 500 replications; SE/RMSE is over all entries too.", "",
    ]  # fmt: skip
    for name in dict.fromkeys(row["design"].split()[0] for row in rows):
        part = [row for row in rows if row["design"].split()[0] == name]
        lines += [
            f"## {part[0]['shape']}, rank {part[0]['rank']}{', few observations' * name.startswith('small')}", "",
            "| noise | n | method | reps | one entry | width | bias | SE/std | SE/SE* | all entries | each | 0-0.5 | "
            "0.5-1 | above 1 | RMSE | SE/RMSE |", "|" + "---|" * 16,
        ]  # fmt: skip
        for row in part:
            each = " to ".join(f"{value:.3f}" for value in row["entries"])
            classes = " | ".join(f"{value:.3f}" for value in row["classes"])
            lines.append(
                f"| {row['noise']} | {row['n']:,} | {row['method']} | {row['reps']} | {row['coverage']:.3f} ± "
                f"{row['mc_error']:.3f} | {row['width']:.3f} | {row['bias']:+.3f} | {row['se_over_std']:.3f} | "
                f"{row['se_over_bound']:.3f} | {row['all_coverage']:.4f} ± {row['all_mc_error']:.4f} | {each} | "
                f"{classes} | {row['rmse']:.4f} | "
                f"{row['se_over_rmse']:.3f} |"
            )
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Run the designs and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=DESIGNS, metavar="DESIGN")
    options = parser.parse_args()
    rows = [row for row in known_results("completion") if row["design"] in DESIGNS]
    for design in options.designs:
        found = replicate_all(design, replicate, options.reps, options.jobs, needed=problem(design).noise.methods)
        rows = [row for row in rows if row["design"] != design] + summarise(design, found)
        rows.sort(key=lambda row: DESIGNS.index(row["design"]))
        keep_results("completion", rows, to_markdown(rows))
    print(to_markdown(rows))


if __name__ == "__main__":
    main()
