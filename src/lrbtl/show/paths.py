"""Pictures of ratings over time, of changes between boards, and of what covariates do to votes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lrbtl.boards.board import Leaderboard, Leaderboards
from lrbtl.boards.changes import Changes
from lrbtl.boards.history import History
from lrbtl.errors import PlotError
from lrbtl.inference.effects import EffectEstimate
from lrbtl.show.style import (
    ThemeName,
    find_theme,
    grid_rows,
    label_rows,
    label_width,
    mark_thousands,
    open_axes,
    row_size,
    short_label,
    write_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = 8  # models drawn by default
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f")  # Okabe and Ito
TICKS = 12


def plot_history(
    story: History,
    models: Sequence[Any] | None = None,
    *,
    top: int = LINES,
    ax: Axes | None = None,
    theme: ThemeName = "light",
) -> Axes:
    """Axes with ratings over time and their bands.

    Parameters
    ----------
    story : History
    models : sequence of labels, optional
        Which models; by default the `top` first of the history.
    top : int
    ax : Axes, optional
    theme : {"light", "dark"}

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((3, 4), 1, scale=1, rng=0)
    >>> plot_history(lrbtl.history(lrbtl.simulate_battles(truth, 900, rng=1))).get_ylabel()
    'Elo score'
    """
    if not isinstance(story, History):
        raise PlotError(f"a history is needed, not {type(story).__name__}: draw lrbtl.history(battles, time=...)")
    check_top(top)
    if models is not None and (isinstance(models, str) or not isinstance(models, Sequence)):
        raise PlotError(f"models is a {type(models).__name__}; give a list of models")
    rows = list(range(min(top, len(story.models)))) if models is None else [story.row(model) for model in models]
    style, times = find_theme(theme), np.arange(len(story.periods))
    ax = open_axes(ax, style, 8.4, 4.6)
    ax.grid(axis="both", color=style.grid, linewidth=0.7)
    ends = []
    for i, k in enumerate(rows):
        color = COLORS[i % len(COLORS)]
        ax.fill_between(times, story.lower[k], story.upper[k], color=color, alpha=0.09, linewidth=0)
        ax.plot(times, story.score[k], color=color, linewidth=1.8, marker="o", markersize=2.6, markeredgewidth=0)
        ends.append((int(story.ends[k, 1]), float(story.score[k, story.ends[k, 1]]), str(story.models[k]), color))
    write_ends(ax, ends)
    step = -(-len(times) // TICKS)
    ax.set_xticks(times[::step], [short_label(story.periods[t], 14) for t in times[::step]], parse_math=False)
    mark_thousands(ax.yaxis)
    ax.set_ylabel("Elo score", color=style.muted, fontsize=8.5)
    words = f"random walk of {story.step:.1f} Elo points per period, {story.level:.0%} bands"
    write_title(ax, style, "Ratings over time", words)
    return ax


def check_top(top: object) -> None:
    """Raise where a number of models is none."""
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
        raise PlotError(f"top is {top!r}; ask for at least one model")


def write_ends(ax: Axes, ends: Sequence[tuple[int, float, str, str]]) -> None:
    """Write the names of lines at their ends, moved apart where they would overlap."""
    low, high = ax.get_ylim()
    apart, at = (high - low) / 24, -np.inf
    for x, y, name, color in sorted(ends, key=lambda end: end[1]):
        at = max(y, at + apart)
        ax.annotate(
            short_label(name, 24), (x, y), (x + 0.012 * (ax.get_xlim()[1] - ax.get_xlim()[0]), at),
            color=color, fontsize=8, va="center", annotation_clip=False, parse_math=False,
        )  # fmt: skip


def plot_changes(found: Changes, *, top: int | None = None, ax: Axes | None = None, theme: ThemeName = "light") -> Axes:
    """Axes with the change of each model's score and its interval; movers stand out.

    Parameters
    ----------
    found : Changes
    top : int, optional
        Draw only that many models, those with the largest changes.
    ax : Axes, optional
    theme : {"light", "dark"}

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((3, 2), 1, scale=1, rng=0), 900, rng=1)
    >>> boards = [lrbtl.leaderboard(battles, method=method) for method in ("naive", "hierarchical")]
    >>> plot_changes(lrbtl.changes(*boards)).get_xlabel()
    'change in Elo points'
    """
    if not isinstance(found, Changes):
        raise PlotError(f"changes are needed, not {type(found).__name__}: draw lrbtl.changes(before, after)")
    if top is not None:
        check_top(top)
    rows = np.sort(np.argsort(-np.abs(found.change), kind="stable")[:top])
    style = find_theme(theme)
    height, fontsize = row_size(rows.size)
    names = [f"{found.models[k]}  ({found.rank_before[k]} → {found.rank_after[k]})" for k in rows]
    ax = open_axes(ax, style, 6.0 + label_width(names, fontsize), 1.4 + height * rows.size)
    label_rows(ax, style, names, fontsize)
    lift = grid_rows(ax, style, rows.size)
    colors = [style.accent if found.models[k] in found.movers else style.main for k in rows]
    ax.axvline(0, color=style.muted, linewidth=0.9)
    ax.hlines(np.arange(rows.size), found.lower[rows], found.upper[rows], color=colors, linewidth=1.6, zorder=2)
    ax.scatter(found.change[rows], np.arange(rows.size), s=2.6 * fontsize, color=colors, linewidth=0, zorder=3)
    ax.set_xlabel("change in Elo points", color=style.muted, fontsize=8.5)
    words = f"after minus before with {found.level:.0%} interval (rank before → after); other colour: moved"
    write_title(ax, style, "What changed", words, lift)
    return ax


def plot_effects(
    found: EffectEstimate | Leaderboard | Leaderboards,
    *,
    level: float = 0.95,
    ax: Axes | None = None,
    theme: ThemeName = "light",
) -> Axes:
    """Axes with what covariates do to a vote between equal models, in points of win probability, with intervals.

    Parameters
    ----------
    found : EffectEstimate or board
        `analysis.effects()`, or a board whose battles have covariates.
    level : float
    ax : Axes, optional
    theme : {"light", "dark"}

    Examples
    --------
    >>> import lrbtl
    >>> frame = {"model_a": ["x", "y"] * 40, "model_b": ["y", "x"] * 40, "winner": [1, 1, 0, 1] * 20}
    >>> plot_effects(lrbtl.leaderboard(lrbtl.Battles.from_frame(frame, position=True))).get_xlabel()
    'points of win probability'
    """
    board = found.overall if isinstance(found, Leaderboards) else found
    effects = board.effects if isinstance(board, Leaderboard) else board
    if not isinstance(effects, EffectEstimate):
        raise PlotError("effects are needed: draw analysis.effects(), or a board whose battles have covariates")
    style, rows = find_theme(theme), 100 * effects.changes(level)
    height, fontsize = row_size(len(rows))
    names = [sentence.split(": ")[0] for sentence in effects.sentences(level)]
    ax = open_axes(ax, style, 5.0 + label_width(names, fontsize), 1.4 + height * len(rows))
    label_rows(ax, style, names, fontsize)
    lift = grid_rows(ax, style, len(rows))
    at = np.arange(len(rows))
    ax.axvline(0, color=style.muted, linewidth=0.9)
    ax.hlines(at, rows[:, 1], rows[:, 2], color=style.main, linewidth=1.6, zorder=2)
    ax.scatter(rows[:, 0], at, s=2.6 * fontsize, color=style.main, linewidth=0, zorder=3)
    ax.set_xlabel("points of win probability", color=style.muted, fontsize=8.5)
    write_title(ax, style, "What moves votes", f"between equal models, with {level:.0%} interval", lift)
    return ax
