"""Coverage where votes are as arenas collect them: length and position effects, weights, voters with tastes, prompts.

A vote is 1{U < sigma(eta)} with U uniform, and U is a normal quantile of the voter's taste for the two models (and of
the prompt's) and of chance. Each vote alone follows the logistic model exactly, so scores and coefficients have true
values, while votes of a voter (or on a prompt) depend on each other as far as they share models. A voter casts 1 to
200 votes.

    python benchmarks/votes.py --replications 40 --design voters

Designs: `voters` (the one that was looked at while errors were made), `fresh` (other scores and seeds), `prompts`
(voters and prompts, both as clusters), `none` (no tastes). Each is analysed with clusters and without.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
from scipy.stats import norm

import lrbtl
from replications import keep_results, known_results

D1, D, LENGTH, POSITION = 30, 6, 0.8, 0.25
SHARE = 0.378  # of the variance of a vote's quantile: a taste of 1.0 per model against the logistic's 3.29
Designs = {
    "voters": {"seed": 1000, "voter": SHARE, "prompt": 0.0, "votes": 20_000},
    "fresh": {"seed": 5000, "voter": SHARE, "prompt": 0.0, "votes": 12_000},
    "prompts": {"seed": 9000, "voter": 0.25, "prompt": 0.25, "votes": 20_000},
    "none": {"seed": 13000, "voter": 0.0, "prompt": 0.0, "votes": 20_000},
}


def simulate(design: dict[str, Any], replication: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return true scores (d1, D), and a frame of votes."""
    rng = np.random.default_rng(design["seed"] + replication)
    scores = lrbtl.simulate_scores((D1, D), 2, scale=1.2, rng=rng)
    scores = scores + 0.1 * scores.std() * rng.standard_normal(scores.shape)
    scores -= scores.mean(axis=0)
    sizes = np.exp(rng.uniform(0, np.log(200), 4000)).astype(int)
    voter = np.repeat(np.arange(4000), sizes)[: design["votes"]]
    n = len(voter)
    prompt, u = rng.integers(0, n // 20, n), rng.choice(D, n, p=np.array([6, 5, 4, 3, 2, 1]) / 21)
    a = rng.choice(D1, n, p=rng.dirichlet(np.full(D1, 4.0)))
    b = (a + rng.integers(1, D1, n)) % D1
    tokens = np.exp(rng.normal(5.5, 0.7, (2, n))).astype(int) + 1
    x = (tokens[0] - tokens[1]) / tokens.sum(axis=0)
    eta = scores[a, u] - scores[b, u] + LENGTH * x + POSITION
    tastes, leanings = rng.standard_normal((voter.max() + 1, D1)), rng.standard_normal((n // 20, D1))
    z = np.sqrt(design["voter"] / 2) * (tastes[voter, a] - tastes[voter, b])
    z += np.sqrt(design["prompt"] / 2) * (leanings[prompt, a] - leanings[prompt, b])
    z += np.sqrt(1 - design["voter"] - design["prompt"]) * rng.standard_normal(n)
    won = norm.cdf(-z) < 1 / (1 + np.exp(-eta))
    weight = np.exp(0.5 * rng.standard_normal(voter.max() + 1))[voter]
    frame = {"model_a": a, "model_b": b, "winner": won.astype(float), "topic": u, "tokens_a": tokens[0]}
    return scores, {**frame, "tokens_b": tokens[1], "weight": weight, "voter": voter, "prompt": prompt}


def hits(truth: np.ndarray, frame: dict[str, np.ndarray], cluster: list[str] | None, method: str) -> dict[str, Any]:
    """Return what intervals cover: coefficients, scores and gaps of topics, the overall board and its ranks."""
    battles = lrbtl.Battles.from_frame(
        frame,
        contexts="topic",
        covariates={"length": ("tokens_a", "tokens_b")},
        position=True,
        weight="weight",
        cluster=cluster,
    )
    options: dict[str, Any] = {"method": method}
    if method in ("efficient", "mle"):
        options["rank"] = 2
    start = time.perf_counter()
    analysis = lrbtl.analyse(battles, **options)
    effects = analysis.effects()
    values = np.array([LENGTH * battles.covariates[0].scale, POSITION])
    out: dict[str, Any] = {"effects": np.abs(effects.estimate - values) < 1.96 * effects.se}
    for kind, true in (("scores", truth), ("gaps", None)):
        estimate, se = analysis.run.family(kind)  # type: ignore[arg-type]
        if true is None:
            a, b = np.triu_indices(D1, 1)
            true = truth[a] - truth[b]
        out[kind] = np.abs(estimate - true) < 1.96 * se
        if kind == "scores":
            out["error over se"], out["width"] = np.sqrt(np.mean(((estimate - true) / se) ** 2)), se.mean()
    weights = battles.context_counts / battles.n_battles
    (board,) = analysis.estimate_boards(weights[None])
    true = truth @ weights
    out["board"] = np.abs(board.estimate - true) < 1.96 * board.se
    ranked = lrbtl.leaderboard(battles, **options)
    rank = {model: 1 + int(np.sum(true > true[int(model)])) for model in ranked.models}
    held = [
        low <= rank[m] <= high for m, low, high in zip(ranked.models, ranked.rank_lower, ranked.rank_upper, strict=True)
    ]
    out["ranks one by one"] = [
        low <= rank[m] <= high for m, low, high in zip(ranked.models, ranked.best, ranked.worst, strict=True)
    ]
    out["ranks jointly"] = [all(held)]
    out["seconds"] = time.perf_counter() - start
    return {name: np.mean(value) for name, value in out.items()}


def run(name: str, replications: int, methods: list[str]) -> dict[str, Any]:
    """Return mean coverages over replications with their Monte Carlo errors, with clusters and without."""
    design = Designs[name]
    columns = ["voter", "prompt"] if design["prompt"] else ["voter"]
    found: dict[str, dict[str, list[float]]] = {}
    for replication in range(replications):
        truth, frame = simulate(design, replication)
        for method in methods:
            for label, cluster in (("with clusters", columns), ("without", None)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    row = hits(truth, frame, cluster, method)
                for key, value in row.items():
                    found.setdefault(f"{method}, {label}", {}).setdefault(key, []).append(float(value))
        print(
            replication,
            {k: {n: round(float(np.mean(v)), 3) for n, v in row.items()} for k, row in found.items()},
            flush=True,
        )
    return {
        label: {
            key: [float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))]
            for key, values in row.items()
        }
        for label, row in found.items()
    }


def write(results: dict[str, Any]) -> None:
    """Write JSON and a table."""
    keys = ["effects", "scores", "gaps", "board", "ranks one by one", "ranks jointly", "error over se", "width"]
    lines = ["# Coverage of votes as arenas collect them", "", (__doc__ or "").split("\n\n")[1].replace("\n", " "), ""]
    for name, result in results.items():
        lines += [f"## {name}: {Designs[name]['votes']:,} votes, nominal .95", ""]
        lines += ["| analysis | logs | " + " | ".join(keys) + " |", "|---" * (len(keys) + 2) + "|"]
        for label, row in sorted(result.items()):
            cells = [f"{row[key][0]:.3f} ± {row[key][1]:.3f}" for key in keys]
            lines.append(f"| {label} | {row['replications']} | " + " | ".join(cells) + " |")
        lines.append("")
    keep_results("votes", results, "\n".join(lines))


def main() -> None:
    """Run designs and keep their results beside those of others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=40)
    parser.add_argument("--design", choices=list(Designs), nargs="+", default=list(Designs))
    parser.add_argument("--methods", nargs="+", default=["hierarchical", "naive"])
    args = parser.parse_args()
    results = known_results("votes")
    for name in args.design:
        found = run(name, args.replications, args.methods)
        results[name] = results.get(name, {}) | {
            label: {"replications": args.replications, **row} for label, row in found.items()
        }
        write(results)


if __name__ == "__main__":
    main()
