"""Coverage where models are too many for matrices over all of them, and errors come from simulated logs.

    python benchmarks/many_models.py [--logs 2] [--only ladder]

2,000 models, 5 contexts, 600,000 votes; scores are of rank 2 with deviations of .25 logits each. Who meets: anybody
anybody, traffic falls as that of Zipf's law, or only neighbours on a ladder meet (normal steps of 100 places). What
else: "style", lengths that hang together with models and move votes by .3 logits; "two columns", 5 x 3 contexts;
"labels", where a model gains .2 at a label of the first column, .15 at one of the second, and .1 by itself; "tags", the
same for 15 sets of four tags, .2 a tag and .1; "voters", 10,000 of them with 60 votes among 8 models each, alike by a
normal copula (correlation .4 of what they think of a model); "no contexts". Coverage of 95% intervals is that of all
ranked models, on the overall board and on those of all contexts, for each log: errors of one log hang together. Boards
of labels are those of each label of a column, or tag. Ranks are covered if the simultaneous intervals of all models
hold. Gaps are those of 60 models to the one in the middle, overall. One process a log; peak memory is that of making
the log, too. That all votes tell the size of deviations was decided after a look at these logs. Results go to
results/many_models.json and results/many_models.md.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

import lrbtl
from replications import keep_results, known_results

N_MODELS, N, DEVIATIONS, REACH = 2_000, 600_000, 0.25, 100
DESIGNS = ("all meet", "Zipf", "ladder", "style", "two columns", "labels", "tags", "voters", "no contexts")
SHAPES = {"two columns": (5, 3), "labels": (5, 3), "tags": (15,), "no contexts": (1,)}
EFFECT, VOTES_EACH, MODELS_EACH, ALIKE, N_GAPS, Z95 = 0.3, 60, 8, 0.4, 60, 1.959964
TAGS = ("code", "hard", "long", "maths")
SETS = [one for size in range(1, 5) for one in combinations(range(4), size)]


def true_scores(design: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Return true scores (d1, D), each context's of sum zero."""
    D = int(np.prod(shape))
    U, V = rng.normal(size=(N_MODELS, 2)), np.array([0.75, 0.0]) + 0.3 * rng.normal(size=(D, 2)) * (D > 1)
    own = DEVIATIONS * rng.normal(size=(N_MODELS, D)) * (D > 1)
    if design == "labels":
        first, second, rest = (rng.normal(size=(N_MODELS, *size)) for size in ((5, 1), (1, 3), (5, 3)))
        own = (0.2 * first + 0.15 * second + 0.1 * rest).reshape(N_MODELS, D)
    if design == "tags":
        member = np.array([[k in one for one in SETS] for k in range(4)], dtype=float)
        own = 0.2 * rng.normal(size=(N_MODELS, 4)) @ member + 0.1 * rng.normal(size=(N_MODELS, D))
    scores = U[np.argsort(U[:, 0])] @ V.T + own
    return scores - scores.mean(axis=0)


def drawn_pairs(design: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return both sides of each vote, and who voted with what in mind."""
    if design == "voters":
        n = N // VOTES_EACH
        models, voter = rng.integers(N_MODELS, size=(n, MODELS_EACH)), rng.integers(n, size=N)
        i, taste = rng.integers(MODELS_EACH, size=N), rng.normal(size=(n, MODELS_EACH))
        j = (i + rng.integers(1, MODELS_EACH, size=N)) % MODELS_EACH
        liked = np.sqrt(ALIKE / 2) * (taste[voter, i] - taste[voter, j]) + np.sqrt(1 - ALIKE) * rng.normal(size=N)
        return {"model_a": models[voter, i], "model_b": models[voter, j], "voter": voter, "luck": ndtr(liked)}
    share = rng.permutation(1.0 / np.arange(20, N_MODELS + 20)) if design == "Zipf" else np.ones(N_MODELS)
    a, b = rng.choice(N_MODELS, (2, N), p=share / share.sum())
    if design == "ladder":
        b = np.clip(a + np.round(REACH * rng.normal(size=N)).astype(int), 0, N_MODELS - 1)
    return {"model_a": a, "model_b": b, "luck": rng.random(N)}


def simulated(design: str, seed: int) -> tuple[Any, lrbtl.Battles]:
    """Return true scores (d1, D), and votes."""
    rng, shape = np.random.default_rng(seed), SHAPES.get(design, (5,))
    scores, frame = true_scores(design, shape, rng), drawn_pairs(design, rng)
    frame["context"] = rng.integers(scores.shape[1], size=N)
    words = 0.5 * rng.normal(size=N_MODELS)
    frame["length"] = words[frame["model_a"]] - words[frame["model_b"]] + rng.normal(size=N)
    frame = {name: column[frame["model_a"] != frame["model_b"]] for name, column in frame.items()}
    u = frame["context"]
    eta = scores[frame["model_a"], u] - scores[frame["model_b"], u]
    eta += EFFECT * frame["length"] * (design == "style")
    frame["winner"] = (frame.pop("luck") > expit(-eta)).astype(float)
    options: dict[str, Any] = {} if design == "no contexts" else {"contexts": "context"}
    if len(shape) == 2:
        frame["first"], frame["second"] = np.unravel_index(u, shape)
        options = {"contexts": ["first", "second"]}
    if design == "tags":
        frame["tags"] = [[TAGS[k] for k in SETS[s]] for s in u.tolist()]
        options = {"tags": "tags"}
    if design == "style":
        options["covariates"] = {"length": "length"}
    if design == "voters":
        options["cluster"] = "voter"
    return scores, lrbtl.Battles.from_frame(frame, **options)


def places(design: str, battles: lrbtl.Battles) -> list[int]:
    """Return the number of each context of the battles among those of the true scores."""
    labels = [battles.context_label(u) for u in range(battles.n_contexts)] if battles.levels else [0]
    if design == "tags":
        tags = [tuple(k for k, tag in enumerate(TAGS) if u in battles.tag_sets[tag]) for u in range(len(labels))]
        return [SETS.index(one) for one in tags]
    return [int(np.ravel_multi_index(label, (5, 3))) if isinstance(label, tuple) else int(label) for label in labels]


def rows_of(design: str, battles: lrbtl.Battles) -> dict[str, Any]:
    """Return weights of the contexts of all boards, by kind: the overall one, those of contexts, those of labels."""
    share, every = battles.context_counts / battles.n_battles, np.array(places(design, battles))
    out = {"overall": share[None]}
    if len(share) > 1 and design != "tags":
        out["contexts"] = np.eye(len(share))
    if len(battles.shape) == 3:
        out["labels"] = share * np.concatenate([np.eye(5)[:, every // 3], np.eye(3)[:, every % 3]])
    if design == "tags":
        out["labels"] = share * np.array([[k in SETS[place] for place in every] for k in range(4)])
    return {kind: rows / rows.sum(axis=1, keepdims=True) for kind, rows in out.items()}


def measure(design: str, seed: int) -> dict[str, Any]:
    """Return what the boards of one log cover."""
    warnings.simplefilter("ignore")
    scores, battles = simulated(design, seed)
    begin = time.process_time()
    boards = lrbtl.leaderboard(battles, context="all") if battles.levels else None
    overall = boards.overall if boards else lrbtl.leaderboard(battles)
    out: dict[str, Any] = {"cpu seconds": time.process_time() - begin, "method": overall.method}
    out["peak gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    analysis = overall.basis.analysis
    models = np.array([int(model) for model in battles.models])
    scores, kinds = scores[models][:, places(design, battles)], rows_of(design, battles)
    out["sd of z"] = []
    for kind, rows in kinds.items():
        z = [errors(found, scores @ row) for row, found in zip(rows, analysis.estimate_boards(rows), strict=True)]
        out[kind] = float(np.mean(np.abs(z) < Z95))
        out["sd of z"] += np.std(z, axis=1).tolist()
    truth = scores @ kinds["overall"][0]
    out["ranks"] = ranks_hold(overall, dict(zip(models.tolist(), truth.tolist(), strict=True)))
    middle, some = int(np.argsort(truth)[len(truth) // 2]), np.random.default_rng(1).permutation(len(truth))[:N_GAPS]
    found = analysis.estimate([lrbtl.gap(battles.models[k], battles.models[middle]) for k in some if k != middle])
    z = (found.estimate - (truth[some[some != middle]] - truth[middle])) / found.se
    out["gaps"] = float(np.sqrt(np.mean(z**2)))
    if overall.effects is not None:
        z_effect = overall.effects.estimate[0] - EFFECT * battles.covariates[0].scale
        out["z of effect"] = float(z_effect / overall.effects.se[0])
    return out


def errors(found: Any, truth: Any) -> Any:
    """Return errors of scores over reported errors; widths of intervals allow for noise of the latter."""
    low, high = found.conf_int(0.95).T
    return (found.estimate - truth + truth.mean()) / ((high - low) / (2 * Z95))


def ranks_hold(board: lrbtl.Leaderboard, truth: dict[int, float]) -> bool:
    """Return whether the simultaneous intervals of all ranks hold."""
    ranked = np.array(board.status) == "ranked"
    true = np.array([truth[int(model)] for model in board.models])[ranked]
    rank = 1 + (true < true[:, None]).sum(axis=0)
    return bool(np.all((board.rank_lower[ranked] <= rank) & (rank <= board.rank_upper[ranked])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--child", nargs=2, metavar=("DESIGN", "SEED"))
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child[0], int(options.child[1]))))
        return
    rows = {design: logs for design, logs in known_results("many_models").items() if "gaps" in logs[0]}
    for design in DESIGNS:
        if options.only in design:
            rows[design] = []
            for seed in range(11, 11 + options.logs):
                command = [sys.executable, __file__, "--child", design, str(seed)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                rows[design].append(json.loads(done.stdout))
                print(design, rows[design][-1], flush=True)
            write(rows)


def write(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Write the rows as JSON and as a table."""
    kinds = ("overall", "contexts", "labels")
    head = (
        "log",
        "logs",
        "overall board",
        *kinds[1:],
        "sd of z",
        "gaps: rms z",
        "z of effect",
        "ranks hold",
        "CPU s",
        "GB",
    )
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for design, logs in rows.items():
        covered = [", ".join(f"{log[kind]:.3f}" for log in logs if kind in log) for kind in kinds]
        spread = np.mean([np.mean(log["sd of z"]) for log in logs])
        effect = ", ".join(f"{log['z of effect']:.1f}" for log in logs if "z of effect" in log)
        means = [
            float(np.mean([log[name] for log in logs])) for name in ("gaps", "ranks", "cpu seconds", "peak gigabytes")
        ]
        lines.append(
            f"| {design} | {len(logs)} | {' | '.join(covered)} | {spread:.3f} | {means[0]:.2f} | {effect} | "
            f"{means[1]:.2f} | {means[2]:.0f} | {means[3]:.1f} |"
        )
    keep_results("many_models", rows, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
