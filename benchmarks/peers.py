"""Category boards with 95% intervals on a simulated arena: lrbtl beside arena-rank, evalica, choix and FastChat.

    pip install arena-rank evalica choix scikit-learn
    python benchmarks/peers.py --reps 20

A package that is not installed is left out. 40 models, 8 categories, 30,000 votes without ties; models and categories
differ in traffic by a factor of ten. True scores are of rank 2 plus deviations of single entries, a tenth of the
variance. A newcomer has eight votes in each of two categories. Every replication draws a new truth; the design was not
used to tune anything. Every package gets the same frame of strings:

- lrbtl: defaults, all categories at once; rank intervals are the board's `ranks`.
- arena-rank: `compute_ratings_and_cis` on each category, as its users do.
- evalica: `bootstrap(bradley_terry, ...)` with 200 resamples on each category, percentiles of log scores. Its default,
  BCa with 1,000 resamples, would take about 20 times as long.
- FastChat: its arithmetic (logistic regression by scikit-learn on pairs of models) with its 100 rounds of bootstrap, on
  each category. Its own loops over pandas pivot tables are slower than the arrays used here.
- choix: `ep_pairwise` with a standard normal prior (alpha=1) on each category, mean and 1.96 standard deviations;
  `ilsr_pairwise`, the usual call, has no intervals.

Scores are taken relative to the mean of the models with 30 votes or more in all. Rank intervals of the other packages
are by overlap of intervals, as LMArena shows them: models surely above, and surely below. Times are CPU seconds of all
threads for the boards of all categories, the best of the replications. Errors are those of means over truths. Results
go to results/peers.json and .md; packages that are not run keep theirs.
"""

import argparse
import importlib.util
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import lrbtl
from replications import keep_results, known_results

MODELS, CATEGORIES, VOTES, NEW_VOTES = 40, 8, 30_000, 8
ELO = 400 / np.log(10)
LEVELS = (2.5, 97.5)
RESAMPLES = {"evalica": 200, "FastChat": 100}
ESTABLISHED = [f"m{k:02d}" for k in range(MODELS - 1)]  # the last model is the newcomer


@dataclass(frozen=True)
class Board:
    """One category: scores and intervals in logits, and ranks with their intervals, by model."""

    table: pd.DataFrame  # score, lower, upper, best, worst


def arena(seed: int, n_votes: int = VOTES) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return votes, one row each, and the true scores (models by categories)."""
    rng = np.random.default_rng([2027, seed])
    truth = rng.normal(size=(MODELS, 2)) @ rng.normal(size=(2, CATEGORIES))
    truth *= 0.8 * np.sqrt(0.9) / truth.std()
    truth += rng.normal(0, 0.8 * np.sqrt(0.1), truth.shape)
    model_share, category_share = (np.geomspace(10, 1, size) for size in (MODELS - 1, CATEGORIES))
    old = _pairs(rng, model_share / model_share.sum(), n_votes)
    u = rng.choice(CATEGORIES, n_votes, p=category_share / category_share.sum())
    new = np.full(2 * NEW_VOTES, MODELS - 1), rng.integers(MODELS - 1, size=2 * NEW_VOTES)
    (a, b), u = np.concatenate([old, new], axis=1), np.concatenate([u, np.repeat([1, 5], NEW_VOTES)])
    won = rng.random(a.size) < 1 / (1 + np.exp(truth[b, u] - truth[a, u]))
    names, categories = np.array([*ESTABLISHED, "newcomer"]), np.array([f"c{k}" for k in range(CATEGORIES)])
    votes = {"model_a": names[a], "model_b": names[b], "winner": np.where(won, "model_a", "model_b")}
    frame = pd.DataFrame({**votes, "category": categories[u]}).astype(object)
    return frame.sample(frac=1, random_state=seed), pd.DataFrame(truth, index=names, columns=categories)


def _pairs(rng: np.random.Generator, share: np.ndarray, n: int) -> np.ndarray:
    a, b = (rng.choice(share.size, 2 * n, p=share) for _ in range(2))
    return np.stack([a, b])[:, a != b][:, :n]


# ------------------------------------------------------------------------------
# Each package: a frame to boards.
# ------------------------------------------------------------------------------


def by_lrbtl(votes: pd.DataFrame) -> dict[str, Board]:
    boards = lrbtl.leaderboard(votes, context="all", scale="logit")
    out = {}
    for category, board in boards.items():
        columns = {"score": board.score, "lower": board.lower, "upper": board.upper}
        ranked = np.array(board.status) == "ranked"
        columns |= {name: np.where(ranked, x, np.nan) for name, x in _ranks_of(board).items()}
        out[category] = Board(pd.DataFrame(columns, index=board.models))
    return out


def _ranks_of(board: lrbtl.Leaderboard) -> dict[str, np.ndarray]:
    return {"best": board.best, "worst": board.worst}


def by_arena_rank(votes: pd.DataFrame) -> dict[str, Board]:
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    out = {}
    for category, part in votes.groupby("category"):
        data = PairDataset.from_pandas(part)
        found = BradleyTerry(n_competitors=len(data.competitors)).compute_ratings_and_cis(data, significance_level=0.05)
        columns = {"score": "ratings", "lower": "rating_lower", "upper": "rating_upper"}
        values = {name: (np.asarray(found[key]) - 1000) / ELO for name, key in columns.items()}
        out[str(category)] = with_ranks(pd.DataFrame(values, index=found["competitors"]))
    return out


def by_evalica(votes: pd.DataFrame) -> dict[str, Board]:
    from evalica import Winner, bootstrap, bradley_terry

    out = {}
    for category, part in votes.groupby("category"):
        winners = [Winner.X if word == "model_a" else Winner.Y for word in part["winner"]]
        columns = part["model_a"].tolist(), part["model_b"].tolist(), winners
        rounds, how = RESAMPLES["evalica"], "percentile"
        found = bootstrap(bradley_terry, *columns, n_resamples=rounds, bootstrap_method=how, random_state=0)
        out[str(category)] = from_rounds(np.log(found.result.scores), np.log(found.distribution))
    return out


def by_choix(votes: pd.DataFrame) -> dict[str, Board]:
    import choix

    out = {}
    for category, part in votes.groupby("category"):
        names = sorted({*part["model_a"], *part["model_b"]})
        place = {name: k for k, name in enumerate(names)}
        rows = zip(part["model_a"], part["model_b"], part["winner"], strict=True)
        data = [(place[a], place[b]) if word == "model_a" else (place[b], place[a]) for a, b, word in rows]
        mean, covariance = choix.ep_pairwise(len(names), data, alpha=1.0)
        half = 1.96 * np.sqrt(np.diag(covariance))
        table = pd.DataFrame({"score": mean, "lower": mean - half, "upper": mean + half}, index=names)
        out[str(category)] = with_ranks(table)
    return out


def by_fastchat(votes: pd.DataFrame) -> dict[str, Board]:
    from sklearn.linear_model import LogisticRegression

    rng, out = np.random.default_rng(0), {}
    for category, part in votes.groupby("category"):
        names = sorted({*part["model_a"], *part["model_b"]})
        place = {name: k for k, name in enumerate(names)}
        won = (part["winner"] == "model_a").to_numpy()
        a, b = (np.array([place[name] for name in part[side]]) for side in ("model_a", "model_b"))
        pair, count = np.unique(np.where(won, a, b) * len(names) + np.where(won, b, a), return_counts=True)
        winner, loser = np.divmod(pair, len(names))
        X = np.eye(len(names))[winner] - np.eye(len(names))[loser]
        both, y = np.concatenate([X, -X]), np.repeat([1, 0], len(X))

        def fitted(weight: np.ndarray, both: np.ndarray = both, y: np.ndarray = y) -> np.ndarray:
            model = LogisticRegression(fit_intercept=False, C=np.inf, tol=1e-6)
            return np.asarray(model.fit(both, y, sample_weight=np.concatenate([weight, weight])).coef_[0])

        draws = rng.multinomial(count.sum(), count / count.sum(), size=RESAMPLES["FastChat"])
        rounds = pd.DataFrame([fitted(draw) for draw in draws], columns=names)
        out[str(category)] = from_rounds(pd.Series(fitted(count), index=names), rounds)
    return out


def from_rounds(score: pd.Series, rounds: pd.DataFrame) -> Board:
    """Return a board of percentiles over rounds of a bootstrap, each relative to the established models."""
    known = [name for name in score.index if name in ESTABLISHED]
    rounds = rounds.sub(rounds[known].mean(axis=1), axis=0)
    lower, upper = np.nanpercentile(rounds[score.index], LEVELS, axis=0)
    return with_ranks(pd.DataFrame({"score": score - score[known].mean(), "lower": lower, "upper": upper}))


def with_ranks(table: pd.DataFrame) -> Board:
    """Return a board with ranks of the established models by overlap of their intervals."""
    known = table[table.index.isin(ESTABLISHED)]
    above = known["lower"].to_numpy()[:, None] > known["upper"].to_numpy()
    best, worst = 1 + above.sum(axis=0), len(known) - above.sum(axis=1)
    ranks = pd.DataFrame({"best": best, "worst": worst}, index=known.index)
    return Board(table.join(ranks))


PACKAGES: dict[str, tuple[str, str, Callable[[pd.DataFrame], dict[str, Board]]]] = {
    "lrbtl": ("lrbtl", "lrbtl", by_lrbtl),
    "arena-rank": ("arena_rank", "arena-rank", by_arena_rank),
    "FastChat": ("sklearn", "scikit-learn", by_fastchat),
    "evalica": ("evalica", "evalica", by_evalica),
    "choix": ("choix", "choix", by_choix),
}


# ------------------------------------------------------------------------------
# What is measured.
# ------------------------------------------------------------------------------


def measured(boards: dict[str, Board], truth: pd.DataFrame) -> dict[str, float]:
    """Return coverage, width and error over the categories of one arena."""
    parts: dict[str, list[Any]] = {name: [] for name in ("covered", "width", "error", "ranks", "spread", "new", "wide")}
    for category, board in boards.items():
        table, true = board.table, truth[category].reindex(board.table.index)
        old = table.index.isin(ESTABLISHED)
        gap, true = table["score"][old].mean(), true - true[old].mean()
        lower, upper = table["lower"] - gap, table["upper"] - gap
        inside = (lower <= true) & (true <= upper)
        parts["covered"] += inside[old].tolist()
        parts["width"] += (upper - lower)[old].tolist()
        parts["error"] += ((table["score"] - gap - true)[old] ** 2).tolist()
        rank = true[old].rank(ascending=False)
        parts["ranks"] += ((table["best"][old] <= rank) & (rank <= table["worst"][old])).tolist()
        parts["spread"] += (table["worst"] - table["best"])[old].tolist()
        if category in ("c1", "c5"):  # where the newcomer has votes
            parts["new"] += inside[~old].tolist()
            parts["wide"] += (upper - lower)[~old].tolist()
    found = {name: float(np.mean(values)) for name, values in parts.items()}
    found |= {"width": ELO * float(np.median(parts["width"])), "wide": ELO * float(np.median(parts["wide"]))}
    return found | {"error": ELO * float(np.sqrt(found["error"]))}


def main() -> None:
    """Run what is installed, print a table and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--only", choices=tuple(PACKAGES), action="append", default=[])
    chosen = parser.parse_args()
    reps = chosen.reps
    wanted = [name for name in PACKAGES if not chosen.only or name in chosen.only]
    here = [name for name in wanted if importlib.util.find_spec(PACKAGES[name][0])]
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in here}
    for seed in range(reps):
        votes, truth = arena(seed)
        for name in here:
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                boards = PACKAGES[name][2](votes)
            rows[name].append({"seconds": time.process_time() - start} | measured(boards, truth))
        print(f"{seed + 1} of {reps}", {name: round(rows[name][-1]["seconds"], 1) for name in here}, flush=True)
    result = known_results("peers")
    result |= {name: {"version": version(PACKAGES[name][1]), **summary(each)} for name, each in rows.items()}
    table = as_table({name: result[name] for name in PACKAGES if name in result})
    keep_results("peers", result, table)
    print(table)


def summary(rows: list[dict[str, float]]) -> dict[str, Any]:
    """Return means over truths with their errors, and the best time."""
    out: dict[str, Any] = {"arenas": len(rows), "seconds": min(row["seconds"] for row in rows)}
    for name in rows[0]:
        if name != "seconds":
            values = np.array([row[name] for row in rows])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
            out[name] = [float(values.mean()), float(error)]
    return out


HEADS = {
    "arenas": "arenas",
    "seconds": "CPU s",
    "covered": "scores covered",
    "width": "width, Elo",
    "error": "RMSE, Elo",
    "ranks": "ranks covered",
    "spread": "ranks wide",
    "new": "newcomer covered",
    "wide": "its width, Elo",
}


def as_table(result: dict[str, Any]) -> str:
    """Return the Markdown table."""
    lines = [
        "# lrbtl beside other packages on simulated arenas\n",
        "`python benchmarks/peers.py`, whose text tells the design. Nominal coverage is .95; ± is the error of a mean "
        "over truths.\n",
        "| package | " + " | ".join(HEADS.values()) + " |",
        "|---" * (1 + len(HEADS)) + "|",
    ]
    for name, found in result.items():
        cells = [str(found["arenas"]), f"{found['seconds']:.1f}"]
        for key in list(HEADS)[2:]:
            mean, error = found[key]
            share = key in ("covered", "ranks", "new")
            cells.append(f"{mean:.3f} ± {error:.3f}" if share else f"{mean:.1f} ± {error:.1f}")
        lines.append(f"| {name} {found['version']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
