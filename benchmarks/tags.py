"""Votes with several tags: coverage of the boards of tags and of the overall board, and of rows exploded by hand.

    python benchmarks/tags.py --reps 60
    python benchmarks/tags.py --log lmarena_140k_dev.csv.gz   # seconds for boards of four flags and of eleven

20 models, 6 tags, 20,000 votes with 1.9 tags each (1 to 3 of them) in 41 sets. The score of a model in a set is the
mean of its scores by tag, plus a deviation of 0.1. Scores by tag are of rank 2 ("alike"), or a model's own plus what it
gains by each tag, of full rank ("every tag its own"). "eleven tags" are the same with 50 models, 60,000 votes and 400
sets of 1 to 11 tags, about four on average, of Zipf traffic, as LMArena has 501 sets of eleven flags. The truth of a
tag is the mean over its sets, weighted by the votes of the log. What boards of tags allow for was looked at on logs of
other seeds (500 to 509, and variants of the first two designs on 700 to 709; one log of the third); the seeds here were
run once. Results go to results/tags.json and .md; designs that are not run keep theirs.
"""

import argparse
import os
import time
import warnings
from itertools import combinations
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import lrbtl
from lrbtl.errors import LrbtlWarning
from replications import keep_results, known_results

MANY_SETS = 400
SIZES = {1: 0.3, 2: 0.5, 3: 0.2}  # shares of votes with so many tags: 1.9 on average
FLAGS = ["creative_writing", "instruction_following", "math", "hard_prompt"]
CRITERIA = ["complexity", "creativity", "domain_knowledge", "problem_solving", "real_world", "specificity"]
CRITERIA += ["technical_accuracy"]
ELO = 400 / np.log(10)
FIRST_SEED = 1000


DESIGNS = {  # models, tags, votes
    "alike": (20, 6, 20_000),
    "every tag its own": (20, 6, 20_000),
    "eleven tags": (50, 11, 60_000),
}


def scores_by_tag(design: str, rng: np.random.Generator) -> np.ndarray:
    """Return the true scores of models for each tag, (models, tags)."""
    models, tags, _ = DESIGNS[design]
    if design == "alike":
        factors = np.stack([1 + 0.3 * rng.normal(size=tags), 0.5 * rng.normal(size=tags)])
        return np.asarray(rng.normal(size=(models, 2)) @ factors)
    return np.asarray(rng.normal(size=(models, 1)) + 0.6 * rng.normal(size=(models, tags)))


def draw_sets(design: str, rng: np.random.Generator) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Return sets of tags and their shares of the votes."""
    _, tags, _ = DESIGNS[design]
    if design == "eleven tags":
        found: dict[tuple[int, ...], None] = {}
        often = rng.uniform(0.1, 0.65, tags)
        while len(found) < MANY_SETS:
            one = tuple(np.flatnonzero(rng.random(tags) < often).tolist())
            found |= {one: None} if one else {}
        share = 1 / np.arange(1, MANY_SETS + 1)
        return list(found), share / share.sum()
    sets = [one for size in SIZES for one in combinations(range(tags), size)]
    share = np.array([SIZES[len(one)] for one in sets]) * rng.gamma(2.0, size=len(sets))
    for size, total in SIZES.items():
        same = np.array([len(one) == size for one in sets])
        share[same] *= total / share[same].sum()
    return sets, share


def simulate(design: str, seed: int) -> tuple[dict[str, Any], np.ndarray, list[tuple[int, ...]], np.ndarray]:
    """Return a log, the true scores (models, sets), the sets, and the set of each vote."""
    rng = np.random.default_rng(seed)
    models, _, votes = DESIGNS[design]
    sets, share = draw_sets(design, rng)
    by_tag = scores_by_tag(design, rng)
    scores = np.stack([by_tag[:, list(one)].mean(axis=1) for one in sets], axis=1)
    scores += 0.1 * rng.normal(size=scores.shape)
    scores -= scores.mean(axis=0)
    a = rng.integers(0, models, votes)
    b = (a + rng.integers(1, models, votes)) % models
    which = rng.choice(len(sets), votes, p=share)
    won = rng.random(votes) < 1 / (1 + np.exp(scores[b, which] - scores[a, which]))
    log = {"model_a": a, "model_b": b, "winner": won.astype(float)}
    return log, scores, sets, which


def coverage(boards: lrbtl.Leaderboards, truth: dict[Any, np.ndarray]) -> tuple[float, float, float]:
    """Return the share of the intervals of tags' boards that cover, that of the overall board, and the mean width."""
    hits, widths = {}, []
    for label, scores in truth.items():
        board = boards[label]
        at = 1000 + ELO * scores[list(board.models)]
        hits[label] = np.mean((board.lower <= at) & (at <= board.upper))
        widths.append(np.mean(board.upper - board.lower))
    return float(np.mean([hit for label, hit in hits.items() if label is not None])), float(hits[None]), np.mean(widths)


def replicate(design: str, seed: int) -> list[float]:
    """Return coverage with tags and with exploded rows, of tags' boards and overall, and mean widths."""
    log, scores, sets, which = simulate(design, seed)
    weight = np.bincount(which, minlength=len(sets)) / len(which)
    inside = np.array([[tag in one for one in sets] for tag in range(DESIGNS[design][1])]) * weight
    truth: dict[Any, np.ndarray] = {f"tag{k}": scores @ row / row.sum() for k, row in enumerate(inside)}
    truth[None] = scores @ weight
    lists = [[f"tag{tag}" for tag in sets[k]] for k in which]
    tagged = lrbtl.leaderboard(lrbtl.Battles.from_frame({**log, "tags": lists}, tags="tags"), context="all")
    times = np.array([len(tags) for tags in lists])
    copied = {name: np.repeat(column, times) for name, column in log.items()}
    copies = {**copied, "tag": [tag for tags in lists for tag in tags]}
    exploded = lrbtl.leaderboard(lrbtl.Battles.from_frame(copies, contexts="tag"), context="all")
    shares = inside.sum(axis=1) / inside.sum()  # what traffic of exploded rows weighs overall
    means = {**truth, None: sum(share * truth[f"tag{k}"] for k, share in enumerate(shares))}
    return [*coverage(tagged, truth), *coverage(exploded, means)]


def time_log(path: str) -> dict[str, float]:
    """Return processor seconds for all boards of LMArena's four flags, and of eleven."""
    import pandas as pd

    frame, seconds = pd.read_csv(path), {}
    for flags in (FLAGS, FLAGS + CRITERIA):
        battles = lrbtl.Battles.from_frame(frame, tags=flags)
        start = time.process_time()
        lrbtl.leaderboard(battles, context="all")
        seconds[f"{len(flags)} flags, {battles.n_contexts} sets"] = round(time.process_time() - start, 2)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=60)
    parser.add_argument("--log")
    parser.add_argument("--only", action="append", choices=list(DESIGNS))
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        if options.log:
            print(time_log(options.log))
            return
        found = known_results("tags")
        for design in options.only or DESIGNS:
            found[design] = [replicate(design, FIRST_SEED + k) for k in range(options.reps)]
    lines = ["# Votes with several tags each, nominal 0.95", ""]
    lines += [
        "| scores by tag | logs | rows | boards of tags | overall | mean width, Elo |",
        "|---|---|---|---|---|---|",
    ]
    for design, listed in found.items():
        rows = np.array(listed)
        mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
        for name, k in (("tags, every vote once", 0), ("exploded by hand", 3)):
            cells = [f"{mean[k + j]:.3f} ± {error[k + j]:.3f}" for j in range(2)]
            lines.append(f"| {design} | {len(rows)} | {name} | {' | '.join(cells)} | {mean[k + 2]:.1f} |")
    keep_results("tags", found, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
