"""Scores that were held out of a public benchmark table: errors, intervals and widths beside logit ALS of rank 2.

    python benchmarks/benchmark_table.py --data ../shared/data/benchmark_scores_2026.csv.gz --seeds 100-109

Three folds within each model, as many times as there are seeds: each third of a model's scores is forecast from all
other scores. Beside it runs what BenchPress (arXiv 2606.24020) uses: logits standardised by benchmark, biases and
rank 2 by alternating ridge regressions (lambda 0.1, ten starts averaged), with 90% conformal intervals around it. Their
half widths are proportional to an error that a ridge regression predicts from the numbers of scores, the spread of the
benchmark and the forecast itself, cross-fitted by fold. `--probes` forecasts profiles from five benchmarks, chosen
greedily with the loadings of one fit to all scores; revealed scores count as errors of zero, as in their paper.
Results go to results/benchmark_table.json and results/benchmark_table.md. The data are not part of the repository.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import narwhals as nw
import numpy as np

import lrbtl
from lrbtl.data.scales import WorkingScales
from lrbtl.entries.method import FactorRun
from lrbtl.entries.posterior import quantiles

LEVEL = 0.9
FOLDS = 3
FEW = 10
HERE = Path(__file__).parent / "results"


class Table:
    """The table as columns, and as results of some of its rows."""

    def __init__(self, path: str) -> None:
        self.results = lrbtl.Results.scan(path)
        frame = nw.from_native(_read(path))
        self.model, self.benchmark, self.score, self.provider = (
            np.asarray(frame[name].to_list()) for name in ("model", "benchmark", "score", "provider")
        )
        self.score = self.score.astype(float)
        self.i = np.array([self.results.model_index(str(name)) for name in self.model])
        self.j = np.array([self.results.context_index(str(name)) for name in self.benchmark])
        self.shape = self.results.shape

    def part(self, rows: Any) -> lrbtl.Results:
        """Return the results of some rows, with the labels and scales of all."""
        return lrbtl.Results.from_arrays(
            (self.i[rows], self.j[rows]),
            self.score[rows],
            shape=self.shape,
            models=self.results.models,
            levels=self.results.levels,
            mode_names=self.results.mode_names,
            scales=self.results.scales,
        )

    def folds(self, seed: int) -> Any:
        """Return the fold of each row: three within each model."""
        rng, out = np.random.default_rng(seed), np.empty(self.i.size, dtype=int)
        for k in range(self.shape[0]):
            at = np.flatnonzero(self.i == k)
            out[at] = rng.permutation(np.arange(at.size) % FOLDS)
        return out


def _read(path: str) -> Any:
    import pandas as pd

    return pd.read_csv(path)


def ours(table: Table, train: Any, test: Any) -> tuple[Any, float]:
    """Return medians and limits of prediction intervals of test rows, and the CPU seconds that it took."""
    start = time.process_time()
    run = lrbtl.analyse(table.part(train)).run
    assert isinstance(run, FactorRun)
    out = np.empty((3, test.size))
    for u in np.unique(table.j[test]):
        here = np.flatnonzero(table.j[test] == u)
        draws = run.posterior.measured(int(u))[:, table.i[test[here]]]
        out[:, here] = quantiles(draws, [0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return out, time.process_time() - start


def als(table: Table, train: Any, test: Any, rank: int = 2, lam: float = 0.1) -> Any:
    """Return forecasts of test rows by alternating ridge regressions on standardised logits, ten starts averaged."""
    (d1, D), i, j = table.shape, table.i[train], table.j[train]
    scales = WorkingScales.of(table.results.scales, table.score[train], j)
    seen, z = np.zeros((d1, D)), np.zeros((d1, D))
    seen[i, j], z[i, j] = 1.0, scales.forward(table.score[train], j)
    count = np.maximum(seen.sum(axis=0), 1)
    mean = z.sum(axis=0) / count
    sd = np.sqrt((seen * (z - mean) ** 2).sum(axis=0) / count)
    sd = np.where(sd > 1e-8, sd, 1.0)
    z = seen * (z - mean) / sd
    total = np.zeros((d1, D))
    for start in range(10):
        rng = np.random.default_rng(42 + start)
        mu, a, c = z.sum() / seen.sum(), np.zeros(d1), np.zeros(D)
        V = rng.normal(0, 0.01, (D, rank))
        for _ in range(40):
            a, U = _ridge(seen, seen * (z - mu - c), V, lam)
            c, V = _ridge(seen.T, (seen * (z - mu - a[:, None])).T, U, lam)
            mu = (seen * (z - a[:, None] - c - U @ V.T)).sum() / seen.sum()
        total += (mu + a[:, None] + c + U @ V.T) / 10
    at, u = table.i[test], table.j[test]
    return scales.backward((mean + sd * total)[at, u], u)


def _ridge(seen: Any, right: Any, other: Any, lam: float) -> tuple[Any, Any]:
    X = np.concatenate([np.ones((len(other), 1)), other], axis=1)
    gram = (seen @ (X[:, :, None] * X[:, None]).reshape(len(X), -1)).reshape(len(seen), X.shape[1], -1)
    found = np.linalg.solve(gram + lam * np.eye(X.shape[1]), (right @ X)[..., None])[..., 0]
    return found[:, 0], found[:, 1:]


def conformal(table: Table, forecast: Any, fold: Any) -> Any:
    """Return half widths of 90% conformal intervals, scaled by an error that a ridge regression predicts."""
    error, half = np.abs(forecast - table.score), np.empty(forecast.size)
    rows, columns, spread = (np.empty(forecast.size) for _ in range(3))
    for k in range(FOLDS):
        train, test = fold != k, fold == k
        rows[test] = np.bincount(table.i[train], minlength=table.shape[0])[table.i[test]]
        columns[test] = np.bincount(table.j[train], minlength=table.shape[1])[table.j[test]]
        sd = np.array([_sd(table, train, u) for u in range(table.shape[1])])
        spread[test] = sd[table.j[test]]
    inside = np.clip(forecast, 0.0, None), np.clip(100.0 - forecast, 0.0, None)
    X = np.stack([np.ones(forecast.size), *map(np.log1p, (rows, columns, spread, *inside))], axis=1)
    for k in range(FOLDS):
        train, test = fold != k, fold == k
        beta = np.linalg.solve(X[train].T @ X[train] + 1e-3 * np.eye(X.shape[1]), X[train].T @ np.log1p(error[train]))
        risk = np.expm1(np.clip(X @ beta, 0.05, None))
        half[test] = np.quantile(error[train] / risk[train], LEVEL) * risk[test]
    return half


def _sd(table: Table, train: Any, u: int) -> float:
    values = table.score[train & (table.j == u)]
    return float(values.std()) if values.size else 0.0


def one_split(table: Table, seed: int) -> dict[str, Any]:
    """Return errors, coverage and widths of both methods on one split into three folds."""
    fold, n = table.folds(seed), table.i.size
    found, other, few, seconds = np.empty((3, n)), np.empty(n), np.zeros(n, dtype=bool), []
    for k in range(FOLDS):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        found[:, test], took = ours(table, train, test)
        other[test] = als(table, train, test)
        few[test] = np.bincount(table.i[train], minlength=table.shape[0])[table.i[test]] < FEW
        seconds.append(took)
    half = conformal(table, other, fold)
    covered = (table.score >= found[1]) & (table.score <= found[2])
    return {
        "error": float(np.median(np.abs(found[0] - table.score))),
        "als error": float(np.median(np.abs(other - table.score))),
        "covered": float(covered.mean()),
        "als covered": float(np.mean(np.abs(other - table.score) <= half)),
        "width": float(np.median(found[2] - found[1])),
        "als width": float(np.median(2 * half)),
        "few": float(covered[few].mean()),
        "n few": int(few.sum()),
        "seconds": float(np.mean(seconds)),
        "providers": {str(name): float(covered[table.provider == name].mean()) for name in np.unique(table.provider)},
    }


# ------------------------------------------------------------------------------
# Profiles from five benchmarks.
# ------------------------------------------------------------------------------


def choose_probes(table: Table, n: int = 5) -> list[int]:
    """Return benchmarks, greedily the one that most lowers the median error of all scores given loadings of one fit."""
    run = lrbtl.analyse(table.results).run
    assert isinstance(run, FactorRun)
    draws, scales = run.posterior.draws, run.posterior.table.scales
    z = scales.forward(table.score, table.j)
    seen, value = np.zeros(table.shape), np.zeros(table.shape)
    seen[table.i, table.j], value[table.i, table.j] = 1.0, z
    some = range(0, run.posterior.n_draws, 50)

    def error(probes: list[int]) -> float:
        total = np.zeros(table.i.size)
        for s in some:
            mu, B, precision = draws.loadings[s, :, 0], draws.loadings[s, :, 1:], 1.0 / draws.by_context[s]
            P = B[probes]
            weight = seen[:, probes] * precision[probes]
            gram = np.einsum("ip,pk,pl->ikl", weight, P, P) + np.eye(P.shape[1])
            f = np.linalg.solve(gram, ((weight * (value[:, probes] - mu[probes])) @ P)[..., None])[..., 0]
            total += (mu + f @ B.T)[table.i, table.j] / len(some)
        off = np.abs(scales.backward(total, table.j) - table.score)
        off[np.isin(table.j, probes)] = 0.0
        return float(np.median(off))

    chosen: list[int] = []
    for _ in range(n):
        chosen.append(min((k for k in range(table.shape[1]) if k not in chosen), key=lambda k: error([*chosen, k])))
    return chosen


def profile_error(table: Table, probes: list[int]) -> tuple[float, float]:
    """Return the median error of all scores, each model's forecast from its scores on the probes and other models.

    The second is that of the ALS from the same probes.
    """
    off, other = np.zeros(table.i.size), np.zeros(table.i.size)
    is_probe = np.isin(table.j, probes)
    for k in range(table.shape[0]):
        test = np.flatnonzero((table.i == k) & ~is_probe)
        train = np.flatnonzero((table.i != k) | is_probe)
        off[test] = np.abs(ours(table, train, test)[0][0] - table.score[test])
        other[test] = np.abs(als(table, train, test) - table.score[test])
    return float(np.median(off)), float(np.median(other))


def main() -> None:
    """Measure, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", default="100-109")
    parser.add_argument("--probes", action="store_true")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split("-"))
    table = Table(options.data)
    splits = [one_split(table, seed) for seed in range(first, last + 1)]
    numbers = [name for name in splits[0] if name != "providers"]
    found: dict[str, Any] = {name: float(np.mean([split[name] for split in splits])) for name in numbers}
    found["providers"] = {
        name: {
            "scores": int(np.sum(table.provider == name)),
            "covered": float(np.mean([split["providers"][name] for split in splits])),
        }
        for name in splits[0]["providers"]
    }
    found |= {"seeds": options.seeds, "error ratio": found["error"] / found["als error"]}
    found["width ratio"] = found["width"] / found["als width"]
    path = HERE / "benchmark_table.json"
    if options.probes:
        probes = choose_probes(table)
        found["probes"] = [str(table.results.levels[0][k]) for k in probes]
        found["profile error"], found["als profile error"] = profile_error(table, probes)
    elif path.exists():
        known = json.loads(path.read_text())
        found |= {name: known[name] for name in ("probes", "profile error", "als profile error") if name in known}
    path.write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "benchmark_table.md").write_text(as_text(found))
    print(as_text(found))


def as_text(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = [
        f"Seeds {found['seeds']}, three folds within each model; 90% prediction intervals.",
        "",
        "| | factor model | ALS rank 2 | ratio |",
        "|---|---|---|---|",
        f"| median error | {found['error']:.2f} | {found['als error']:.2f} | {found['error ratio']:.2f} |",
        f"| covered | {found['covered']:.3f} | {found['als covered']:.3f} | |",
        f"| median width | {found['width']:.1f} | {found['als width']:.1f} | {found['width ratio']:.2f} |",
        f"| covered, models with fewer than {FEW} scores | {found['few']:.3f} | | |",
        f"| CPU seconds a fit | {found['seconds']:.2f} | | |",
        "",
        "| provider | scores | covered |",
        "|---|---|---|",
        *(f"| {name} | {row['scores']} | {row['covered']:.3f} |" for name, row in found["providers"].items()),
    ]
    if "probes" in found:
        lines += [
            "",
            f"Profiles from {', '.join(found['probes'])}: median error {found['profile error']:.2f}, "
            f"ALS from the same {found['als profile error']:.2f}.",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
