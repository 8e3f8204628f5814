"""Score against cost: models with their intervals, and the frontier between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from lrbtl.boards.choose import CANNOT_TELL, DOMINATED, FRONTIER, Choice
from lrbtl.errors import PlotError
from lrbtl.show.style import (
    Theme,
    ThemeName,
    axis_range,
    check_top,
    find_theme,
    mark_thousands,
    open_axes,
    short_label,
    write_title,
)
from lrbtl.typing import Floats, Longs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED, LIKELY = 18, 0.005  # models whose names are written, if they are so likely on the frontier
SIDES, HEIGHTS = ((6, "left"), (-6, "right")), ((3, "bottom"), (-3, "top"))  # of names beside their points
MARKS = {FRONTIER: "o", CANNOT_TELL: "D", DOMINATED: "x"}


def plot_choice(found: Choice, *, top: int = NAMED, ax: Axes | None = None, theme: ThemeName = "light") -> Axes:
    """Axes with the scores of models against their costs on a logarithmic axis, with intervals and the frontier.

    Models that cost nothing are drawn at half the smallest cost. The line is the frontier of the estimated scores.

    Parameters
    ----------
    found : Choice
    top : int
        Models whose names are written: those most likely on the frontier, where their names do not overlap.
    ax : Axes, optional
    theme : {"light", "dark"}

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((3,), 1, scale=1, rng=0), 900, rng=1)
    >>> found = lrbtl.choose(battles, {"model_0": 1.0, "model_1": 2.0, "model_2": 4.0})
    >>> plot_choice(found).get_xscale()
    'log'
    """
    if not isinstance(found, Choice):
        raise PlotError(f"a choice is needed, not {type(found).__name__}: draw lrbtl.choose(battles, cost)")
    check_top(top)
    style = find_theme(theme)
    ax = open_axes(ax, style, 8.4, 5.2)
    ax.grid(axis="both", color=style.grid, linewidth=0.7)
    cost = drawn_costs(found.cost)
    colors = {FRONTIER: style.accent, CANNOT_TELL: style.main, DOMINATED: style.muted}
    last = float(cost.max()) * 1.4
    ax.set_xscale("log")
    ax.set_xlim(float(cost.min()) / 1.4, last)
    ax.autoscale(False, axis="x")
    for word, mark in MARKS.items():
        at = np.flatnonzero(np.array(found.verdict) == word)
        ax.vlines(cost[at], found.lower[at], found.upper[at], color=colors[word], linewidth=1.2, alpha=0.55, zorder=2)
        ax.scatter(
            cost[at], found.score[at], s=26, marker=mark, color=colors[word], zorder=3, label=f"{word} ({at.size})"
        )
    steps = frontier_steps(cost, found.score)
    ax.step([*cost[steps], last], [*found.score[steps], found.score[steps[-1]]], where="post", color=style.accent,
            linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)  # fmt: skip
    ends = axis_range(found.score, found.lower, found.upper)
    if ends is not None:
        ax.set_ylim(*ends)
    mark_thousands(ax.yaxis)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel("cost (logarithmic)", color=style.muted, fontsize=8.5)
    ax.set_ylabel(f"score in {found.unit}", color=style.muted, fontsize=8.5)
    ax.legend(loc="best", fontsize=8, frameon=False, labelcolor=style.text)
    words = f"{found.level:.0%} intervals; verdicts hold for all models at once at {found.level:.0%}, {found.valid}"
    write_title(ax, style, "Score against cost", words)
    likely = np.argsort(-found.p_frontier, kind="stable")[:top]
    likely = likely[found.p_frontier[likely] >= LIKELY]
    names = [short_label(found.models[k], 24) for k in likely]
    write_names(ax, style, names, cost[likely], found.score[likely])
    return ax


def write_names(ax: Axes, theme: Theme, names: Sequence[str], x: Floats, y: Floats) -> None:
    """Write names beside points, most important first; a name that would cover an earlier one is left out."""
    ax.figure.figure.draw_without_rendering()  # places of axes and legend are final
    legend = ax.get_legend()
    taken = [] if legend is None else [legend.get_window_extent()]
    for name, at in zip(names, zip(x.tolist(), y.tolist(), strict=True), strict=True):
        for (right, side), (up, height) in product(SIDES, HEIGHTS):
            text = ax.annotate(
                name, at, (right, up), textcoords="offset points", ha=side, va=height,
                color=theme.text, fontsize=7.5, parse_math=False,
            )  # fmt: skip
            box = text.get_window_extent()
            inside = ax.bbox.x0 <= box.x0 and box.x1 <= ax.bbox.x1
            if inside and not box.count_overlaps(taken):
                taken.append(box)
                break
            text.remove()


def drawn_costs(cost: Floats) -> Floats:
    """Return costs for a logarithmic axis: half the smallest positive one in place of nothing.

    >>> drawn_costs(np.array([0.0, 2.0, 10.0])).tolist()
    [1.0, 2.0, 10.0]
    """
    known = cost[cost > 0]
    return np.where(cost > 0, cost, 0.5 * known.min() if known.size else 1.0)


def frontier_steps(cost: Floats, score: Floats) -> Longs:
    """Return the models on the frontier of the estimated scores, cheapest first.

    >>> frontier_steps(np.array([2.0, 1.0, 3.0]), np.array([0.5, 1.0, 2.0])).tolist()
    [1, 2]
    """
    order = np.lexsort((-score, cost))
    best = np.maximum.accumulate(score[order])
    new = np.append(True, best[1:] > best[:-1])
    return np.asarray(order[new])
