"""The default beside full Bayes: the same model by Hamiltonian Monte Carlo (numpyro, extra `bench`), on small logs.

    python benchmarks/hmc.py --logs 6 [--design "20 x 6"] [--seed 20261120]

Both have the model of docs/mathematics.md: T = level + L + E + Z F, levels N(0, s^2), deviations N(0, tau^2), and for
two modes of categories random effects N(0, f_k^2) of each model at each label of mode k. L has two components here, of
loadings N(0, 1) of models and of labels times a size of their own; the default has a nuclear norm and a number of
factors in doubt. Sizes are flat, s up to 6 logits, others up to 1; no size has a mass at zero, as a sampler needs
densities. "No L" leaves L out of both, so that what differs is the approximation alone. Truths have s 0.7, deviations
0.2 and in each mode effects of size 0.3: one shared factor (a model's loading times a label's), or, where named
"crossed", independent effects as in Z F. NUTS runs two chains; the largest split R-hat of a log's scores is kept. Of
scores that sum to zero in each category: the median over scores of the difference of posterior means in standard
deviations of full Bayes, of the ratio of standard errors to those, RMSE of both to the truth, coverage of both, CPU
times. Errors are those of means over logs. Figures of full Bayes are kept in results/hmc_posteriors.json, since they do
not depend on the package, so that only new logs need numpyro. Results go to results/hmc.json and .md.
"""

import argparse
import os
import time
import warnings
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlWarning
from replications import keep_results, known_results

SEED = 20261120
VOTES, COMPONENTS = 4_000, 2
DESIGNS: dict[str, tuple[int, ...]] = {
    "20 x 6, 4,000": (20, 6),
    "12 x 4 x 3, 4,000": (12, 4, 3),
    "12 x 4 x 3, 4,000, no L": (12, 4, 3),
    "12 x 4 x 3, 4,000, crossed": (12, 4, 3),
}
LEVEL, FACTOR, TAU = 0.7, 0.3, 0.2
WARMUP, DRAWS, CHAINS = 1_000, 1_500, 2
Z = 1.959964
NO_L = ", no L"


def draw_log(name: str, base: int, seed: int) -> tuple[np.ndarray, lrbtl.Battles]:
    """Return true scores (d1, D) and battles."""
    shape = DESIGNS[name]
    rng = np.random.default_rng([base, *name.removesuffix(NO_L).encode(), seed])
    d, modes = shape[0], shape[1:]
    one = [1] * len(modes)
    truth = LEVEL * rng.normal(size=(d, *one)) + TAU * rng.normal(size=shape)
    for mode, size in enumerate(modes):
        where = [1, *one]
        where[mode + 1] = size
        if "crossed" in name:
            where[0] = d
            truth = truth + FACTOR * rng.normal(size=where)
        else:
            truth = truth + FACTOR * rng.normal(size=(d, *one)) * rng.normal(size=where)
    truth = truth - truth.mean(axis=0)
    return truth.reshape(d, -1), lrbtl.simulate_battles(truth, VOTES, rng=rng)


def full_bayes(battles: lrbtl.Battles, seed: int, components: int) -> dict[str, Any]:
    """Return posterior means and standard deviations of the scores (d1, D) by NUTS, seconds, and the largest R-hat."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax import random
    from numpyro.diagnostics import split_gelman_rubin
    from numpyro.infer import MCMC, NUTS

    numpyro.enable_x64()
    d, modes = battles.shape[0], battles.shape[1:]
    D, cells = battles.n_contexts, battles.cells
    swap = cells.a > cells.b
    a, b = np.where(swap, cells.b, cells.a), np.where(swap, cells.a, cells.b)
    key, back = np.unique(np.stack([cells.context, a, b]), axis=1, return_inverse=True)
    back = np.reshape(back, -1)
    shown = np.bincount(back, cells.count).astype(int)
    won = np.bincount(back, cells.count * np.where(swap, 1 - cells.y, cells.y)).astype(int)
    u, a, b = key
    place = np.array(np.unravel_index(np.arange(D), modes))

    def model() -> None:
        unit = dist.Normal(0.0, 1.0)

        def size(name: str, largest: float = 1.0) -> Any:
            return numpyro.sample(name, dist.Uniform(0.0, largest))

        T = size("s", 6.0) * numpyro.sample("level", unit.expand([d]))[:, None]
        T = T + size("tau") * numpyro.sample("E", unit.expand([d, D]))
        for k, mode in enumerate(modes if len(modes) > 1 else ()):
            T = T + size(f"f{k}") * numpyro.sample(f"F{k}", unit.expand([d, mode]))[:, place[k]]
        for r in range(components):
            right = jnp.ones(D)
            for k, mode in enumerate(modes):
                right = right * numpyro.sample(f"right{r}{k}", unit.expand([mode]))[place[k]]
            T = T + size(f"size{r}") * numpyro.sample(f"left{r}", unit.expand([d]))[:, None] * right[None]
        T = numpyro.deterministic("T", T - jnp.mean(T, axis=0))
        numpyro.sample("won", dist.Binomial(total_count=shown, logits=T[a, u] - T[b, u]), obs=won)

    start = time.process_time()
    nuts = NUTS(model, target_accept_prob=0.9)
    chains = MCMC(
        nuts, num_warmup=WARMUP, num_samples=DRAWS, num_chains=CHAINS, chain_method="sequential", progress_bar=False
    )
    chains.run(random.PRNGKey(seed))
    T = np.asarray(chains.get_samples(group_by_chain=True)["T"])
    return {
        "mean": T.mean(axis=(0, 1)).round(5).tolist(), "sd": T.std(axis=(0, 1)).round(5).tolist(),
        "seconds": time.process_time() - start, "rhat": float(np.max(split_gelman_rubin(T))),
    }  # fmt: skip


def replicate(name: str, base: int, seed: int, kept: dict[str, Any]) -> dict[str, float]:
    """Return the figures of one log; full Bayes is run where it was not yet."""
    truth, battles = draw_log(name, base, seed)
    key = f"{name}; {base}; {seed}"
    if key not in kept:
        kept[key] = full_bayes(battles, seed, 0 if name.endswith(NO_L) else COMPONENTS)
        keep_results("hmc_posteriors", kept)
    mean, sd = np.array(kept[key]["mean"]), np.array(kept[key]["sd"])
    start = time.process_time()
    config = lrbtl.HierarchicalConfig(largest_rank=0) if name.endswith(NO_L) else lrbtl.HierarchicalConfig()
    found = lrbtl.infer(battles, lrbtl.all_scores(), config=config)
    seconds = time.process_time() - start
    values, se = found.estimate.reshape(truth.shape), found.se.reshape(truth.shape)
    lower, upper = (bound.reshape(truth.shape) for bound in found.conf_int().T)
    return {
        "difference": float(np.median(np.abs(values - mean) / sd)),
        "sd ratio": float(np.median(se / sd)),
        "mse": float(np.mean((values - truth) ** 2)),
        "HMC mse": float(np.mean((mean - truth) ** 2)),
        "covered": float(np.mean((lower <= truth) & (truth <= upper))),
        "HMC covered": float(np.mean(np.abs(mean - truth) < Z * sd)),
        "seconds": seconds,
        "HMC seconds": kept[key]["seconds"],
        "rhat": kept[key]["rhat"],
    }


def summarise(found: list[dict[str, float]]) -> dict[str, Any]:
    """Return the row of a design: means over logs with errors, ratios of RMSE and of times."""
    logs = len(found)
    table = {key: np.array([each[key] for each in found]) for key in found[0]}
    row: dict[str, Any] = {"logs": logs}
    row |= {key: [float(x.mean()), float(x.std(ddof=1) / np.sqrt(logs))] for key, x in table.items()}
    ours, theirs = table["mse"], table["HMC mse"]
    ratio = float(np.sqrt(ours.mean() / theirs.mean()))
    spread = float(np.std(ours / ours.mean() - theirs / theirs.mean(), ddof=1) / np.sqrt(logs))
    row["RMSE ratio"] = [ratio, ratio * spread / 2]
    row["times faster"] = float(np.median(table["HMC seconds"] / table["seconds"]))
    row["largest rhat"] = float(table["rhat"].max())
    return row


HEAD = [
    "models x categories, votes", "logs", "difference of means, sd", "sd ratio", "RMSE ratio", "covered", "HMC covered",
    "times faster", "largest R-hat",
]  # fmt: skip


def cells_of(name: str, row: dict[str, Any]) -> list[str]:
    """Return a row of the table."""
    parts = [f"{row[key][0]:.3f} ± {row[key][1]:.3f}" for key in ("difference", "sd ratio", "RMSE ratio", "covered")]
    end = [f"{row['HMC covered'][0]:.3f}", f"{row['times faster']:.0f}", f"{row['largest rhat']:.3f}"]
    return [name, str(row["logs"]), *parts, *end]


def to_markdown(rows: dict[str, dict[str, Any]]) -> str:
    about = " ".join((__doc__ or "").split("\n\n")[2].split())
    lines = ["# The default beside full Bayes", "", about, ""]
    lines += ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(cells_of(name, row)) + " |" for name, row in rows.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=6, help="logs of each design")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--design", default="", help="part of the names of the designs to run")
    parser.add_argument("--keep", action=argparse.BooleanOptionalAction, default=True, help="write results/hmc")
    options = parser.parse_args()
    kept = known_results("hmc_posteriors")
    rows = known_results("hmc")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        for name in DESIGNS:
            if options.design in name:
                found = [replicate(name, options.seed, seed, kept) for seed in range(options.logs)]
                rows[name] = summarise(found)
                print(*cells_of(name, rows[name]), sep=" | ", flush=True)
                done = {each: rows[each] for each in DESIGNS if each in rows}
                if options.keep:
                    keep_results("hmc", done, to_markdown(done))


if __name__ == "__main__":
    main()
