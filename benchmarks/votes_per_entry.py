"""Coverage and width of 95% intervals of category scores against votes per entry: a figure for README and evidence.

    python benchmarks/votes_per_entry.py [--reps 20]     # three minutes of CPU time
    python benchmarks/votes_per_entry.py --draw          # the figure again, from the results kept

The arenas are those of peers.py with 600 to 200,000 votes, and other seeds: nothing was tuned on them. An entry is a
model in a category; each vote counts for two. Scores are relative to the mean of the models with 30 votes or more, of
those that a board has in the category.

- default: all categories at once.
- separate fits: `method="naive"`, a Bradley-Terry fit per category. Models without a finite estimate, or with too few
  votes for a standard error, have no score.
- arena-rank: its arithmetic by `compat="arena-rank"`, which tests compare with the package itself, per category. A
  model that only won or only lost has no finite rating: the fit has the models that wins and losses connect.

Coverage and median width are of the scores that a method gives, and the third panel says how many these are. Errors are
of means over arenas. Results go to results/votes_per_entry.json and .md, the figure to docs/evidence/coverage.png.
"""

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import lrbtl
from peers import CATEGORIES, ELO, ESTABLISHED, Board, arena, measured, with_ranks
from replications import keep_results, known_results

VOTES = (600, 2_000, 6_000, 20_000, 60_000, 200_000)
ENTRIES = len(ESTABLISHED) * CATEGORIES
FIRST_SEED = 1_000
FIGURE = Path(__file__).parents[1] / "docs" / "evidence" / "coverage.png"
COLORS = {"default": "#0072b2", "separate fits": "#d55e00", "arena-rank": "#59636e"}
MARKS = {"default": "o", "separate fits": "s", "arena-rank": "^"}
PANELS = {"covered": "scores covered", "width": "median width, Elo points", "given": "scores with an interval"}


def boards_of(found: lrbtl.Leaderboards | dict[str, lrbtl.Leaderboard], unit: float = 1.0) -> dict[str, Board]:
    """Return the scores and intervals of each category in logits, without models that have none."""
    out = {}
    for category, board in found.items():
        columns = {name: np.asarray(getattr(board, name)) / unit for name in ("score", "lower", "upper")}
        table = pd.DataFrame(columns, index=board.models).dropna()
        if len(table):
            out[category] = with_ranks(table)
    return out


def by_default(votes: pd.DataFrame) -> dict[str, Board]:
    return boards_of(lrbtl.leaderboard(votes, context="all", scale="logit"))


def by_separate_fits(votes: pd.DataFrame) -> dict[str, Board]:
    try:
        return boards_of(lrbtl.leaderboard(votes, context="all", scale="logit", method="naive"))
    except lrbtl.errors.NoDecisionError:  # no model at all has a score
        return {}


def by_arena_rank(votes: pd.DataFrame) -> dict[str, Board]:
    found = {}
    for category, part in votes.groupby("category"):
        part = part[part["model_a"].isin(kept := connected(part)) & part["model_b"].isin(kept)]
        if len(kept) > 1:
            found[str(category)] = lrbtl.leaderboard(part.drop(columns="category"), compat="arena-rank")
    return boards_of(found, ELO)


def connected(votes: pd.DataFrame) -> set[str]:
    """Return the largest set of models each of which beats each other one, if through others."""
    won = votes["winner"] == "model_a"
    winner = votes["model_a"].where(won, votes["model_b"])
    codes, names = pd.factorize(pd.concat([winner, votes["model_b"].where(won, votes["model_a"])]))
    beats = coo_array((np.ones(len(votes)), codes.reshape(2, -1)), shape=(len(names), len(names)))
    part = connected_components(beats, connection="strong")[1]
    return set(names[part == np.bincount(part).argmax()])


METHODS = {"default": by_default, "separate fits": by_separate_fits, "arena-rank": by_arena_rank}


def replicate(votes: pd.DataFrame, truth: pd.DataFrame, method: str) -> dict[str, float]:
    """Return what a method shows of one arena; coverage and width are not numbers where it gives nothing."""
    boards = METHODS[method](votes)
    given = sum(board.table.index.isin(ESTABLISHED).sum() for board in boards.values()) / ENTRIES
    if not boards:
        return {"covered": np.nan, "width": np.nan, "error": np.nan, "given": given}
    found = measured(boards, truth)
    return {name: found[name] for name in ("covered", "width", "error")} | {"given": given}


def simulate(reps: int) -> list[dict[str, Any]]:
    """Return a row per number of votes and method."""
    rows = []
    for n in VOTES:
        seen: dict[str, list[dict[str, float]]] = {name: [] for name in METHODS}
        for seed in range(FIRST_SEED, FIRST_SEED + reps):
            votes, truth = arena(seed, n)
            for name, each in seen.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    each.append(replicate(votes, truth, name))
        for name, each in seen.items():
            row: dict[str, Any] = {"votes": n, "per_entry": 2 * n / ENTRIES, "method": name, "arenas": reps}
            for key, values in pd.DataFrame(each).items():
                known = values.dropna()
                row[str(key)] = (
                    [float(known.mean()), float(known.std() / np.sqrt(len(known)))] if len(known) > 1 else None
                )
            rows.append(row)
            print(row, flush=True)
    return rows


def as_table(rows: list[dict[str, Any]]) -> str:
    """Return the Markdown table."""
    lines = [
        "# Coverage and width against votes per entry\n",
        "`python benchmarks/votes_per_entry.py`, whose text has the design. Nominal coverage is .95; ± is the error of "
        "a mean over arenas.\n",
        "| votes | per entry | method | arenas | covered | median width, Elo | RMSE, Elo | scores with an interval |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [f"{row['votes']:,}", f"{row['per_entry']:.0f}", row["method"], str(row["arenas"])]
        for name, form in (("covered", ".3f"), ("width", ".0f"), ("error", ".0f"), ("given", ".2f")):
            cells.append("–" if row[name] is None else " ± ".join(format(x, form) for x in row[name]))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, Any]]) -> None:
    """Write the figure: a panel each for coverage, width and the share of scores given."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullLocator

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.1), layout="constrained")
    for ax, (key, title) in zip(axes, PANELS.items(), strict=True):
        for name, color in COLORS.items():
            points = [(row["per_entry"], *row[key]) for row in rows if row["method"] == name and row[key] is not None]
            x, y, error = np.array(points).T
            ax.errorbar(
                x, y, 2 * error, color=color, marker=MARKS[name], markersize=4, linewidth=1.4, clip_on=False, label=name
            )
        ax.set_title(title, loc="left", fontsize=10, fontweight="bold")
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:,g}")
        ax.set_xlabel("votes per model and category")
        ax.grid(color="#dfe3e8", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].axhline(0.95, color="#1f2328", linestyle="--", linewidth=1)
    axes[0].set_ylim(0.85, 1.0)
    axes[1].set_yscale("log")
    axes[1].set_yticks([50, 100, 200, 400, 800], minor=False)
    axes[1].yaxis.set_minor_locator(NullLocator())
    axes[1].yaxis.set_major_formatter("{x:,g}")
    axes[2].set_ylim(0, 1.03)
    axes[2].legend(frameon=False, fontsize=9, loc="lower right")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=130)


def main() -> None:
    """Run the design unless only the figure is wanted, keep results and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--draw", action="store_true")
    chosen = parser.parse_args()
    rows = known_results("votes_per_entry") if chosen.draw else simulate(chosen.reps)
    if not chosen.draw:
        keep_results("votes_per_entry", rows, as_table(rows))
    draw(rows)


if __name__ == "__main__":
    main()
