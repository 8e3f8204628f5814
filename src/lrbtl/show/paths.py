"""Pictures of ratings over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lrbtl.boards.history import History
from lrbtl.errors import PlotError
from lrbtl.show.style import ThemeName, find_theme, mark_thousands, open_axes, short_label, write_title

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
    if top < 1:
        raise PlotError(f"top is {top}; ask for at least one model")
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
