"""Every table and figure of the paper beside our own numbers, from public names only.

    python benchmarks/paper.py --quick                # at most ten minutes on two cores: 10 replications a design
    python benchmarks/paper.py --reps 500 --jobs 2    # hours; finished replications are kept, a second call goes on
    python benchmarks/paper.py --parts real --data lmarena_140k_dev.csv.gz

Parts: `start` (fig:convergence, tab:naive-altmin), `normal` (tab:main-results, fig:clt-entry, fig:clt-winprob,
fig:coverage-n, fig:coverage-r), `law` (tab:nonuniform, fig:clt-nonuniform), `proof` (tab:proof_outline), `switches`
(what `efficient` and `whitened` add), `real` (tab:categories, tab:real-data-main, tab:real-data-full,
tab:subsample-fractions). Results go to results/paper.json and results/paper.md, figures to docs/paper/,
and the tables that the paper has into docs/paper.md.
"""

import argparse
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlError, LrbtlWarning
from replications import keep_results, known_results, replicate_all

D, RANK, ALPHA, FOLDS = 200, 5, 5.0, 6
QUICK = 10
SOME = 1000  # scores per truth where all 40,000 are too many
PARTS = ("start", "normal", "law", "proof", "switches", "real")
FIGURES = Path(__file__).parents[1] / "docs" / "paper"
PAGE = FIGURES.with_suffix(".md")
DATA = Path(os.environ.get("LRBTL_DATA", Path(__file__).parents[2] / "shared" / "data"), "lmarena_140k_dev.csv.gz")
SIZES = (30_000, 40_000, 60_000, 80_000, 100_000)  # n / d^2 from .75 to 2.5
RANKS = (2, 3, 5, 8, 10)
NORMAL = [f"uniform {n} rank {RANK}" for n in SIZES] + [f"uniform 60000 rank {r}" for r in RANKS if r != RANK]
UNEVEN = ["Dirichlet 60000"]
TARGETS = [lrbtl.score(0, 0), lrbtl.win_probability(0, 1, 0)]
NAMES = ("entry", "win probability")
PAPER = {  # tab:main-results, tab:nonuniform: coverage, median se, its ratio to the oracle's
    ("uniform 60000 rank 5", "entry", "Algorithm 1"): (0.942, 0.377, 1.029),
    ("uniform 60000 rank 5", "entry", "Algorithm 2"): (0.940, 0.481, 1.041),
    ("uniform 60000 rank 5", "win probability", "Algorithm 1"): (0.890, 0.121, 0.970),
    ("uniform 60000 rank 5", "win probability", "Algorithm 2"): (0.914, 0.154, 1.029),
    ("uniform 80000 rank 5", "win probability", "Algorithm 1"): (0.900, 0.106, 0.987),
    ("uniform 80000 rank 5", "win probability", "Algorithm 2"): (0.928, 0.133, 1.027),
    ("Dirichlet 60000", "entry", "Algorithm 2, known law"): (0.942, 0.574, 1.063),
    ("Dirichlet 60000", "entry", "Algorithm 2, estimated law"): (0.944, 0.571, 1.059),
    ("Dirichlet 60000", "entry", "Algorithm 1, known law"): (0.936, 0.372, 1.044),
    ("Dirichlet 60000", "entry", "Algorithm 1, estimated law"): (0.936, 0.372, 1.044),
}
PAPER_START = {"separate fits, prior sd 10": (4.01, 12.3, 2.69), "alternating minimisation": (0.41, 1.8, 0.28)}
PAPER_REAL = {  # tab:real-data-full at 20%: empirical std, median se, coverage
    ("score(gemini-2.5-pro, math)", "naive"): (0.199, 0.274, 0.998),
    ("score(gemini-2.5-pro, math)", "Algorithm 2"): (0.355, 0.523, 0.986),
    ("score(gemini-2.5-pro, math)", "Algorithm 1"): (0.151, 0.163, 0.930),
    ("gap to claude-opus-4, math", "naive"): (0.248, 0.271, 0.980),
    ("gap to claude-opus-4, math", "Algorithm 2"): (0.503, 0.736, 0.984),
    ("gap to claude-opus-4, math", "Algorithm 1"): (0.203, 0.226, 0.954),
    ("P(beats claude-opus-4), math", "naive"): (0.055, 0.061, 0.954),
    ("P(beats claude-opus-4), math", "Algorithm 2"): (0.115, 0.170, 0.986),
    ("P(beats claude-opus-4), math", "Algorithm 1"): (0.047, 0.052, 0.954),
    ("gap to o3, hard_prompt", "naive"): (0.140, 0.155, 0.976),
    ("gap to o3, hard_prompt", "Algorithm 2"): (0.378, 0.476, 0.976),
    ("gap to o3, hard_prompt", "Algorithm 1"): (0.116, 0.141, 0.976),
}
PAPER_CATEGORIES = {  # tab:categories
    "code_technical": 19_091,
    "general": 14_682,
    "creative_practical": 12_395,
    "math": 6_583,
    "creative_writing": 6_432,
    "instruction_following": 5_885,
    "analytical": 5_686,
    "creative_abstract": 4_744,
    "domain_knowledge": 2_953,
    "code_general": 2_699,
}
PAPER_VOTES = 81_150
PAPER_SHARES = {0.2: (0.160, 0.977, 0.129, 0.954), 0.1: (0.298, 0.956, 0.203, 0.952)}
PAPER_SHARES |= {0.05: (0.379, 0.945, 0.252, 0.932), 0.02: (2.245, 0.947, 0.408, 0.915)}


def truth(rank: int = RANK) -> np.ndarray:
    """Return Theta A^T, centred and scaled to a largest entry of 5 [Li26, sec. simulations]."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(D, rank)) @ rng.normal(size=(D, rank)).T
    scores -= scores.mean(axis=0)
    return np.asarray(ALPHA * scores / np.abs(scores).max())


def dirichlet() -> lrbtl.ProductSampling:
    """Return the uneven law of [Li26, sec. sim-nonuniform]."""
    rng = np.random.default_rng(5)
    return lrbtl.ProductSampling(rng.dirichlet(np.full(D, 5.0)), rng.dirichlet(np.full(D, 5.0)))


def shared(estimator: Callable[..., Any], rank: int) -> Callable[[lrbtl.Battles], Any]:
    """Return an initial estimator that sees votes once, for several algorithms on the same folds."""
    known: dict[bytes, Any] = {}

    def initial(votes: lrbtl.Battles) -> Any:
        cells = votes.cells
        key = b"".join(x.tobytes() for x in (cells.context, cells.a, cells.b, cells.y, cells.count))
        if key not in known:
            known[key] = estimator(votes, rank)
        return known[key]

    return initial


# ------------------------------------------------------------------------------
# Coverage: tab:main-results, fig:clt-*, fig:coverage-n, fig:coverage-r, tab:nonuniform.
# ------------------------------------------------------------------------------


def read_design(name: str) -> tuple[int, int, lrbtl.ProductSampling | None]:
    """Return votes, rank and law of a design by its name."""
    words = name.removeprefix("paper ").split()
    return int(words[1]), int(words[3]) if len(words) > 2 else RANK, dirichlet() if words[0] == "Dirichlet" else None


def replicate(name: str, seed: int, known: dict[str, Any]) -> dict[str, Any]:
    """Return estimates and standard errors of every method in one replication.

    "Algorithm 1" and "Algorithm 2" are the paper's: their fits are those of alternating minimisation.
    """
    warnings.simplefilter("ignore", LrbtlWarning)
    n, rank, law = read_design(name)
    battles = lrbtl.simulate_battles(truth(rank), n, sampling=law, rng=1_000_000 + seed)
    own, better = shared(lrbtl.alternating_minimisation, rank), shared(lrbtl.fit, rank)
    out: dict[str, Any] = {"seed": seed}

    def add(label: str, found: Any) -> None:
        out[label] = {"estimate": found.estimate.tolist(), "se": found.se.tolist()}

    starts: dict[str, tuple[Any, Any]] = {"": (None, own), ", penalised fits": (None, better)}
    if law is not None:
        starts = {", known law": (law, own), ", estimated law": (lrbtl.ProductSampling.estimate(battles), own)}
    for suffix, (sampling, initial) in starts.items():
        for number in (1, 2):
            options = {"rank": rank, "whiten": number == 2, "initial": initial, "folds": FOLDS, "rng": seed}
            add(f"Algorithm {number}{suffix}", lrbtl.one_step(battles, TARGETS, sampling=sampling, **options))
    options = {"rank": rank, "n_folds": FOLDS, "rng": seed}
    even = lrbtl.UniformSampling() if law is None else None
    add("efficient", lrbtl.infer(battles, TARGETS, method="efficient", **options))
    add("whitened", lrbtl.infer(battles, TARGETS, method="whitened", sampling=even, **options))
    return out


def coverage_rows(name: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per target and method: coverage, standard errors, and the paper's numbers."""
    n, rank, law = read_design(name)
    scores = truth(rank)
    gap = scores[0, 0] - scores[1, 0]
    goals = np.array([scores[0, 0], 1 / (1 + np.exp(-gap))])
    rows = []
    for method in [key for key in found[0] if key != "seed"]:
        kind = "whitened" if method.startswith(("whitened", "Algorithm 2")) else "efficient"
        oracle = np.sqrt(lrbtl.efficiency_bound(scores, TARGETS, rank=rank, sampling=law, method=kind) / n)
        values, errors = (np.array([each[method][key] for each in found]) for key in ("estimate", "se"))
        z = (values - goals) / errors
        for i, target in enumerate(NAMES):
            inside = np.abs(z[:, i]) < 1.959964
            rows.append(
                {
                    "design": name,
                    "target": target,
                    "method": method,
                    "replications": len(z),
                    "coverage": float(inside.mean()),
                    "error": float(np.sqrt(max(inside.mean() * (1 - inside.mean()), 0.0475 * 0.95) / len(z))),
                    "se": float(np.median(errors[:, i])),
                    "ratio": float(np.median(errors[:, i]) / oracle[i]),
                    "rmse": float(np.sqrt(np.mean((values[:, i] - goals[i]) ** 2))),
                    "z": z[:, i].round(4).tolist(),
                    "paper": PAPER.get((name, target, method)),
                }
            )
    return rows


def coverage_table(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return coverage rows as Markdown."""
    heads = "design | target | method | runs | coverage | paper | median se | paper | se / se* | paper | RMSE"
    lines = [f"| {heads} |", "|" + "---|" * 11]
    for row in rows:
        paper = [f"{x:.3f}" for x in row["paper"]] if row["paper"] else [""] * 3
        own = f"{row['coverage']:.3f} ± {row['error']:.3f}", f"{row['se']:.3f}", f"{row['ratio']:.3f}"
        cells = [str(row["replications"]), own[0], paper[0], own[1], paper[1], own[2], paper[2], f"{row['rmse']:.3f}"]
        lines.append(f"| {row['design']} | {row['target']} | {row['method']} | {' | '.join(cells)} |")
    return lines


def coverage_part(
    designs: Iterable[str], asked: Sequence[str] | None, known: Iterable[dict[str, Any]], reps: int, jobs: int
) -> list[dict[str, Any]]:
    """Run the designs that are asked for and return the rows of all; those with more replications so far are kept."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in known:
        found.setdefault(row["design"], []).append(row)
    for name in designs:
        if asked is not None and name not in asked:
            continue
        rows = coverage_rows(name, replicate_all(f"paper {name}", replicate, reps, jobs, needed=["whitened"]))
        if reps >= min((row["replications"] for row in found.get(name, [])), default=0):
            found[name] = rows
    return [row for name in designs for row in found.get(name, [])]


# ------------------------------------------------------------------------------
# The initial estimator: fig:convergence, tab:naive-altmin.
# ------------------------------------------------------------------------------


def errors_of(scores: np.ndarray, goal: np.ndarray) -> list[float]:
    """Return relative Frobenius error, largest and mean absolute error."""
    away = scores - goal
    return [float(np.linalg.norm(away) / np.linalg.norm(goal)), float(np.abs(away).max()), float(np.abs(away).mean())]


def start_rows(reps: int) -> list[dict[str, Any]]:
    """Return mean errors of each initial estimator over sample sizes; the naive one at 60,000 votes."""
    goal, rows = truth(), []
    for n in SIZES:
        found: dict[str, list[list[float]]] = {}
        for seed in range(reps):
            battles = lrbtl.simulate_battles(goal, n, rng=seed)
            alternating = lrbtl.alternating_minimisation(battles, RANK)
            each = {
                "spectral": lrbtl.spectral_initialisation(battles, RANK),
                "alternating minimisation": alternating,
                "and refinement": lrbtl.refine_entries(battles, alternating, RANK),
                "fit": lrbtl.fit(battles, RANK).scores,
            }
            if n == 60_000:
                each["separate fits, prior sd 10"] = lrbtl.fit_separate(battles, prior_sd=10.0).scores
            for name, scores in each.items():
                found.setdefault(name, []).append(errors_of(scores, goal))
        for name, errors in found.items():
            paper = PAPER_START.get(name) if n == 60_000 else None
            rows.append({"n": n, "method": name, "errors": np.mean(errors, axis=0).tolist(), "paper": paper})
    return rows


def start_table(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the errors as Markdown."""
    lines = ["| votes | estimator | Frobenius | paper | largest | paper | mean | paper |", "|" + "---|" * 8]
    for row in rows:
        paper = [str(x) for x in row["paper"]] if row["paper"] else [""] * 3
        cells = [x for own, theirs in zip(row["errors"], paper, strict=True) for x in (f"{own:.3f}", theirs)]
        lines.append(f"| {row['n']:,} | {row['method']} | {' | '.join(cells)} |")
    return lines


# ------------------------------------------------------------------------------
# The terms of the proof, tab:proof_outline, and what the improvements buy.
# ------------------------------------------------------------------------------


def proof_rows(reps: int) -> list[dict[str, Any]]:
    """Return root mean squares of the terms of the error of Algorithms 1 and 2, over the oracle's standard error."""
    shape, rank, n = (60, 40), 3, 20_000
    goal = lrbtl.simulate_scores(shape, rank, scale=3, rng=0)
    target, rows = lrbtl.gap(0, 1, 0), []
    names = ("leading", "emp_direction", "emp_score", "projection", "bias_direction", "cancel")
    for number in (1, 2):
        terms = []
        for seed in range(reps):
            battles = lrbtl.simulate_battles(goal, n, rng=seed)
            options = {"rank": rank, "whiten": number == 2, "rng": seed}
            found = lrbtl.one_step(battles, target, initial=shared(lrbtl.alternating_minimisation, rank), **options)
            split = lrbtl.remainder_terms(battles, found, target, goal, rank=rank)
            terms.append([getattr(split, name)[0] / split.oracle_se[0] for name in names])
        sizes = np.sqrt(np.mean(np.square(terms), axis=0))
        rows.append({"algorithm": number, **dict(zip(names, sizes.tolist(), strict=True)), "clt": split.clt_condition})
    return rows


def proof_table(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the terms as Markdown."""
    rows = list(rows)
    names = [name for name in rows[0] if name not in ("algorithm", "clt")]
    lines = [f"| algorithm | {' | '.join(names)} | C_A √(d/n) |", "|" + "---|" * (len(names) + 2)]
    return lines + [
        f"| {row['algorithm']} | {' | '.join(f'{row[name]:.3f}' for name in names)} | {row['clt']:.2f} |"
        for row in rows
    ]


def switches() -> dict[str, lrbtl.Improvements]:
    """Return the improvements of `efficient` and `whitened`: penalised fits, one more at a time, and all."""
    return {
        "penalised fits": lrbtl.Improvements(1.0, False, False, False),
        "and ridge share": lrbtl.Improvements(None, False, False, False),
        "and noisy fit": lrbtl.Improvements(1.0, True, False, False),
        "and model floor": lrbtl.Improvements(1.0, False, True, False),
        "and allowance": lrbtl.Improvements(1.0, False, False, True),
        "all": lrbtl.Improvements(),
    }


def switch_rows(reps: int) -> list[dict[str, Any]]:
    """Return coverage and error of scores with each improvement, on the paper's design at 60,000 votes."""
    rows = []
    for method in ("efficient", "whitened"):
        rows.append(switch_row(method, "none (as printed)", as_printed, reps))
        for name, improvements in switches().items():
            rows.append(switch_row(method, name, partial(improved, improvements), reps))
    return rows


Scores = tuple[np.ndarray, np.ndarray, np.ndarray]  # positions, estimates, standard errors


def switch_row(method: str, name: str, run: Callable[[lrbtl.Battles, str, int], Scores], reps: int) -> dict[str, Any]:
    """Return coverage and error of the scores that `run` estimates, over truths."""
    inside, large, squares = [], [], []
    for seed in range(reps):
        goal = lrbtl.simulate_scores((D, D), RANK, scale=ALPHA, rng=seed)
        which, estimate, se = run(lrbtl.simulate_battles(goal, 60_000, rng=100 + seed), method, seed)
        truth = goal.reshape(-1)[which]
        covered = np.abs(estimate - truth) < 1.959964 * se
        inside.append(np.mean(covered))
        large.append(np.mean(covered[np.abs(truth) > 2]))
        squares.append(np.mean((estimate - truth) ** 2))
    values = {"coverage": np.mean(inside), "of large scores": np.mean(large), "rmse": np.sqrt(np.mean(squares))}
    return {"method": method, "improvement": name, **{key: float(x) for key, x in values.items()}}


def as_printed(battles: lrbtl.Battles, method: str, seed: int) -> Scores:
    """Return `SOME` random scores by Algorithm 1 or 2, its fits those of alternating minimisation."""
    which = np.random.default_rng(seed).choice(D * D, SOME, replace=False)
    initial, estimates, errors = shared(lrbtl.alternating_minimisation, RANK), [], []
    for part in np.split(which, SOME // 100):  # directions of all at once would fill the memory
        targets = [lrbtl.score(int(a), int(u)) for a, u in zip(*np.divmod(part, D), strict=True)]
        options = {"rank": RANK, "whiten": method == "whitened", "initial": initial, "folds": FOLDS, "rng": seed}
        found = lrbtl.one_step(battles, targets, **options)
        estimates.append(found.estimate)
        errors.append(found.se)
    return which, np.concatenate(estimates), np.concatenate(errors)


def improved(improvements: lrbtl.Improvements, battles: lrbtl.Battles, method: str, seed: int) -> Scores:
    """Return all scores by a method with some improvements."""
    law = lrbtl.UniformSampling() if method == "whitened" else None
    options = {"method": method, "rank": RANK, "n_folds": FOLDS, "sampling": law, "improvements": improvements}
    found = lrbtl.infer(battles, lrbtl.all_scores(), **options)
    return np.arange(D * D), found.estimate, found.se


def switch_table(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the effects of the improvements as Markdown."""
    lines = ["| method | improvement | coverage | of scores beyond 2 | RMSE |", "|---|---|---|---|---|"]
    return lines + [
        f"| {row['method']} | {row['improvement']} | {row['coverage']:.3f} | {row['of large scores']:.3f} | "
        f"{row['rmse']:.3f} |"
        for row in rows
    ]


# ------------------------------------------------------------------------------
# Arena votes: tab:categories, tab:real-data-main, tab:real-data-full, tab:subsample-fractions. Ties are half, as there.
# ------------------------------------------------------------------------------

SHARES = (0.2, 0.1, 0.05, 0.02)
ARENA_RANK = 3
GEMINI, CLAUDE, O3 = "gemini-2.5-pro", "claude-opus-4-20250514", "o3-2025-04-16"
ARENA = {
    "score(gemini-2.5-pro, math)": lrbtl.score(GEMINI, "math"),
    "gap to claude-opus-4, math": lrbtl.gap(GEMINI, CLAUDE, "math"),
    "P(beats claude-opus-4), math": lrbtl.win_probability(GEMINI, CLAUDE, "math"),
    # the paper: code_technical, which these votes do not tell apart
    "gap to o3, hard_prompt": lrbtl.gap(GEMINI, O3, "hard_prompt"),
}


def arena(path: Path) -> lrbtl.Battles:
    """Return the votes of the 30 most frequent models, ties as half."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        return lrbtl.Battles.from_frame(pd.read_csv(path), contexts="category").top_models(30)


def arena_estimates(sample: lrbtl.Battles, seed: int) -> dict[str, Any]:
    """Return what each method says of the targets, None where it has no estimate."""
    targets, plain = list(ARENA.values()), {"rank": ARENA_RANK, "folds": FOLDS, "rng": seed}
    own, better = (shared(fit, ARENA_RANK) for fit in (lrbtl.alternating_minimisation, lrbtl.fit))

    def whitened(initial: Any) -> lrbtl.OneStep:
        law = lrbtl.ProductSampling.estimate(sample)
        return lrbtl.one_step(sample, targets, whiten=True, sampling=law, initial=initial, **plain)

    methods: dict[str, Callable[[], Any]] = {
        "naive": lambda: lrbtl.infer(sample, targets, method="naive"),
        "Algorithm 2": lambda: whitened(own),
        "Algorithm 1": lambda: lrbtl.one_step(sample, targets, initial=own, **plain),
        "Algorithm 2, penalised fits": lambda: whitened(better),
        "Algorithm 1, penalised fits": lambda: lrbtl.one_step(sample, targets, initial=better, **plain),
        "efficient": lambda: lrbtl.infer(sample, targets, method="efficient", rank=ARENA_RANK, rng=seed),
        "default": lambda: lrbtl.infer(sample, targets),
    }
    out: dict[str, Any] = {}
    for name, run in methods.items():
        try:
            found = run()
            low, high = found.conf_int().T
            finite = np.isfinite(found.estimate).all() and np.isfinite(found.se).all()
            values = {"estimate": found.estimate, "se": found.se, "lower": low, "upper": high}
            out[name] = {key: x.tolist() for key, x in values.items()} if finite else None
        except LrbtlError:
            out[name] = None
    return out


def arena_replicate(name: str, seed: int, known: dict[str, Any]) -> dict[str, Any]:
    """Return the estimates from one subsample of the votes; the share is the last word of the name."""
    warnings.simplefilter("ignore", LrbtlWarning)
    share, battles = float(name.split()[-1]), arena(Path(os.environ["LRBTL_ARENA"]))
    rng = np.random.default_rng([seed, int(1000 * share)])
    counts = rng.multivariate_hypergeometric(battles.cells.count, round(share * battles.n_battles), method="marginals")
    return {"seed": seed, **arena_estimates(battles.with_counts(counts), seed)}


def real_rows(path: Path, reps: int, jobs: int) -> dict[str, Any]:
    """Return the categories, and one row per share, target and method."""
    os.environ["LRBTL_ARENA"] = str(path)
    battles = arena(path)
    plain = ("Algorithm 2", "Algorithm 1", "Algorithm 2, penalised fits", "Algorithm 1, penalised fits")
    methods = ("naive", *plain, "efficient", "default")
    names = [battles.context_label(u) for u in range(battles.n_contexts)]
    categories = dict(zip(map(str, names), battles.context_counts.tolist(), strict=True))
    goals = lrbtl.infer(battles, list(ARENA.values()), method="naive").estimate
    rows = []
    for share in SHARES:
        found = replicate_all(f"paper arena {share}", arena_replicate, reps, jobs, needed=methods)
        for i, target in enumerate(ARENA):
            for method in methods:
                kept = [each[method] for each in found if each[method] is not None]
                if not kept:
                    continue
                inside = [each["lower"][i] <= goals[i] <= each["upper"][i] for each in kept]
                rows.append(
                    {
                        "share": share,
                        "target": target,
                        "method": method,
                        "truth": float(goals[i]),
                        "kept": len(kept),
                        "std": float(np.std([each["estimate"][i] for each in kept])),
                        "se": float(np.median([each["se"][i] for each in kept])),
                        "coverage": float(np.mean(inside)),
                        "paper": PAPER_REAL.get((target, method)) if share == SHARES[0] else None,
                    }
                )
    return {"categories": categories, "rows": rows}


def real_table(found: dict[str, Any]) -> list[str]:
    """Return categories, the table of targets and that of shares as Markdown."""
    total, theirs = sum(found["categories"].values()), dict(PAPER_CATEGORIES)
    lines = ["| category | votes | % | paper: votes | % |", "|---|---|---|---|---|"]
    for name, n in found["categories"].items():
        paper = f"{theirs[name]:,} | {100 * theirs.pop(name) / PAPER_VOTES:.1f}" if name in theirs else " | "
        lines.append(f"| {name} | {n:,} | {100 * n / total:.1f} | {paper} |")
    lines += [f"| {name} | | | {n:,} | {100 * n / PAPER_VOTES:.1f} |" for name, n in theirs.items()]
    lines.append(f"| total | {total:,} | 100.0 | {PAPER_VOTES:,} | 100.0 |")
    lines += ["", "| target | truth | method | std | paper | se | paper | coverage | paper |", "|" + "---|" * 9]
    for row in (row for row in found["rows"] if row["share"] == SHARES[0]):
        paper = [f"{x:.3f}" for x in row["paper"]] if row["paper"] else [""] * 3
        own = [f"{row[key]:.3f}" for key in ("std", "se", "coverage")]
        cells = [x for pair in zip(own, paper, strict=True) for x in pair]
        lines.append(f"| {row['target']} | {row['truth']:+.3f} | {row['method']} | {' | '.join(cells)} |")
    lines += ["", "Mean over the four targets, and the paper's:", ""]
    heads = "share | naive std, coverage | paper | Algorithm 1 | paper | ratio of std | paper | efficient | default"
    lines += [f"| {heads} |", "|" + "---|" * 9]
    for share in SHARES:
        cells, stds = [], []
        for method in ("naive", "Algorithm 1", "efficient", "default"):
            own = [row for row in found["rows"] if row["share"] == share and row["method"] == method]
            means = [np.mean([row[key] for row in own]) if own else np.nan for key in ("std", "coverage")]
            cells.append(f"{means[0]:.3f}, {means[1]:.3f}")
            stds.append(means[0])
        paper = PAPER_SHARES[share]
        naive, first = f"{paper[0]:.3f}, {paper[1]:.3f}", f"{paper[2]:.3f}, {paper[3]:.3f}"
        ratios = f"{stds[0] / stds[1]:.2f} | {paper[0] / paper[2]:.2f}"
        lines.append(
            f"| {share:.0%} | {cells[0]} | {naive} | {cells[1]} | {first} | {ratios} | {cells[2]} | {cells[3]} |"
        )
    return lines


# ------------------------------------------------------------------------------
# Figures, and the page.
# ------------------------------------------------------------------------------


def draw(results: dict[str, Any]) -> None:
    """Write the figures that results allow: convergence, z-scores, coverage over n and rank."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from scipy.stats import norm

    FIGURES.mkdir(exist_ok=True)
    if rows := results.get("start"):
        figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
        for k, (axis, label) in enumerate(zip(axes, ("relative Frobenius error", "largest error"), strict=True)):
            for method in ("alternating minimisation", "and refinement", "fit"):
                own = [row for row in rows if row["method"] == method]
                axis.plot([row["n"] for row in own], [row["errors"][k] for row in own], marker="o", label=method)
            axis.set(xlabel="votes", ylabel=label)
        axes[0].legend(frameon=False)
        figure.savefig(FIGURES / "convergence.png", dpi=110)
    rows = [*results.get("normal", []), *results.get("law", [])]
    shown = [
        row for row in rows if row["design"] in ("uniform 60000 rank 5", "uniform 80000 rank 5", "Dirichlet 60000")
    ]
    shown = [row for row in shown if row["method"].startswith("Algorithm") and "penalised" not in row["method"]]
    if shown:
        figure, axes = plt.subplots(
            -(-len(shown) // 4), 4, figsize=(11, 2.2 * -(-len(shown) // 4)), layout="constrained"
        )
        grid = np.linspace(-4, 4, 200)
        for axis, row in zip(np.ravel(axes), shown, strict=False):
            axis.hist(np.clip(row["z"], -4, 4), bins=np.linspace(-4, 4, 25), density=True)
            axis.plot(grid, norm.pdf(grid))
            axis.set_title(f"{row['design'][:13]}, {row['target'][:5]}\n{row['method']}", fontsize=7)
        figure.savefig(FIGURES / "z-scores.png", dpi=110)
        curves = [row for row in results.get("normal", []) if row["target"] == "entry"]
        figure, axes = plt.subplots(2, 2, figsize=(8, 5), layout="constrained")
        plain = ("Algorithm 1", "Algorithm 2", "Algorithm 1, penalised fits", "Algorithm 2, penalised fits")
        for method in (*plain, "efficient", "whitened"):
            own = [row for row in curves if row["method"] == method]
            for column, (designs, number) in enumerate(((NORMAL[: len(SIZES)], 1), (NORMAL, 3))):
                some = [row for row in own if row["design"] in designs and (column == 0 or " 60000 " in row["design"])]
                some.sort(key=lambda row: int(row["design"].split()[number]))
                x = [int(row["design"].split()[number]) / (D**2 if column == 0 else 1) for row in some]
                axes[0, column].plot(x, [row["coverage"] for row in some], marker="o", label=method)
                axes[1, column].plot(x, [row["ratio"] for row in some], marker="o")
        for column, label in enumerate(("n / d²", "rank")):
            axes[0, column].axhline(0.95, color="grey", linewidth=0.8)
            axes[0, column].set(ylabel="coverage", ylim=(0.75, 1.0))
            axes[1, column].axhline(1.0, color="grey", linewidth=0.8)
            axes[1, column].set(xlabel=label, ylabel="se / se*")
        axes[0, 0].legend(frameon=False, fontsize=8)
        figure.savefig(FIGURES / "coverage.png", dpi=110)


TABLES: dict[str, tuple[str, Callable[[Any], list[str]]]] = {
    "start": ("The initial estimator (`fig:convergence`, `tab:naive-altmin`)", start_table),
    "normal": (
        "Coverage (`tab:main-results`, `fig:clt-entry`, `fig:clt-winprob`, `fig:coverage-n`, `fig:coverage-r`)",
        coverage_table,
    ),
    "law": ("Uneven sampling (`tab:nonuniform`, `fig:clt-nonuniform`)", coverage_table),
    "proof": ("Terms of the error over the oracle's standard error (`tab:proof_outline`)", proof_table),
    "switches": ("What the improvements buy, scores of the paper's design at 60,000 votes", switch_table),
    "real": ("Arena votes (`tab:categories`, `tab:real-data-full`, `tab:subsample-fractions`)", real_table),
}


def page(results: dict[str, Any]) -> str:
    """Return all tables as Markdown."""
    lines = ["# The paper's tables and figures beside ours", ""]
    for part, (heading, table) in TABLES.items():
        if results.get(part):
            lines += [
                f"## {heading}",
                "",
                f"{results['replications'].get(part)} replications{' or more' * (part in ('normal', 'law'))}",
                "",
                *table(results[part]),
                "",
            ]
    return "\n".join(lines)


def fill_page(results: dict[str, Any]) -> None:
    """Write the tables into docs/paper.md, between comments that name their parts."""
    compared = [row for row in [*results.get("normal", []), *results.get("law", [])] if row["paper"]]
    own = [row for row in results.get("normal", []) if row["design"] == "uniform 60000 rank 5" and not row["paper"]]
    tables = {
        "switches": switch_table(results["switches"]) if "switches" in results else [],
        "start": start_table(row for row in results.get("start", []) if row["n"] == 60_000),
        "coverage": coverage_table([*compared, *own]),
        "proof": proof_table(results["proof"]) if "proof" in results else [],
        "real": real_table(results["real"]) if "real" in results else [],
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in tables.items():
        count = results["replications"].get(name)
        shown = [*([f"{count} replications a row.", ""] if count else []), *lines] if lines else []
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(begin)
        text = head + begin + "\n".join(["", *shown, "", ""]) + end + rest.split(end)[1]
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    """Run the parts that were asked for, and write what is known of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} replications a design")
    parser.add_argument("--reps", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--designs", nargs="+", choices=[*NORMAL, *UNEVEN], help="of normal and law; all by default")
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parser.parse_args()
    reps = QUICK if arguments.quick else arguments.reps
    few = max(1, min(3 if arguments.quick else 20, reps))
    warnings.simplefilter("ignore", LrbtlWarning)

    def known(part: str) -> list[dict[str, Any]]:
        return known_results("paper").get(part, [])

    runs: dict[str, Callable[[], Any]] = {
        "start": lambda: start_rows(few),
        "normal": lambda: coverage_part(NORMAL, arguments.designs, known("normal"), reps, arguments.jobs),
        "law": lambda: coverage_part(UNEVEN, arguments.designs, known("law"), reps, arguments.jobs),
        "proof": lambda: proof_rows(reps),
        "switches": lambda: switch_rows(few),
        "real": lambda: real_rows(arguments.data, reps, arguments.jobs),
    }
    for part in arguments.parts:
        if part == "real" and not arguments.data.exists():
            print(f"no votes at {arguments.data}: part 'real' is left out")
            continue
        print(part, flush=True)
        keep(part, runs[part](), few if part in ("start", "switches") else reps)
    results = known_results("paper")
    draw(results)
    fill_page(results)


def keep(part: str, found: Any, reps: int) -> None:
    """Print what was found, and write it where no larger run did; rows of coverage have their own number of runs."""
    results = known_results("paper") or {"replications": {}}
    counts = results["replications"]
    print("\n".join(TABLES[part][1](found)), flush=True)
    if part in ("normal", "law"):
        results[part], counts[part] = found, min(row["replications"] for row in found)
    elif reps >= counts.get(part, 0):
        results[part], counts[part] = found, reps
    keep_results("paper", results, page(results))


if __name__ == "__main__":
    main()
