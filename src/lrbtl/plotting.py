"""Pictures of leaderboards: forest plot, rank spreads, model × context heat map, win matrix.

matplotlib is imported only when a picture is drawn (extra `plot`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lrbtl.board_types import BoardLike, BoardsLike, Floats
from lrbtl.errors import PlotError
from lrbtl.plot_checks import plot_scree, plot_z_histogram
from lrbtl.plot_files import save_picture
from lrbtl.plot_style import (
    Theme,
    ThemeName,
    find_theme,
    grid_rows,
    label_rows,
    label_width,
    mark_whole_numbers,
    open_axes,
    row_size,
    shade_runs,
    short_label,
    write_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PatchCollection

__all__ = [
    "plot_heatmap",
    "plot_leaderboard",
    "plot_ranks",
    "plot_scree",
    "plot_win_matrix",
    "plot_z_histogram",
    "save_picture",
]

UNITS = {"elo": "Elo score", "logit": "logit score", "probability": "win probability against the pool"}


def plot_leaderboard(
    board: BoardLike, *, top: int | None = None, ax: Axes | None = None, theme: ThemeName = "light"
) -> Axes:
    """Axes with the forest plot of a board: scores, intervals, tiers and battles.

    An interval without an upper (lower) end is an arrow; every second tier is shaded.

    Parameters
    ----------
    board : Leaderboard
    top : int, optional
        Draw only that many models from the top.
    ax : Axes, optional
        Drawn into; by default a new figure whose height suits the number of models.
    theme : {"light", "dark"}

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> board = SimpleNamespace(context=None, models=("b", "a"), score=np.array([1040.0, 960.0]),
    ...     lower=np.array([1010.0, 930.0]), upper=np.array([np.inf, 990.0]), tier=np.array([1, 2]),
    ...     battles=np.array([300, 300]), level=0.95, scale="elo")
    >>> plot_leaderboard(board).get_xlabel()
    'Elo score'
    """
    n = count_rows(board, top)
    style = find_theme(theme)
    row, fontsize = row_size(n)
    ax = open_axes(ax, style, 6.8 + label_width(board.models[:n], fontsize), 1.4 + row * n)
    score, lower, upper = (np.asarray(x[:n], dtype=np.float64) for x in (board.score, board.lower, board.upper))
    left, right = finite_range(score, lower, upper)
    ax.set_xlim(left, right)
    label_rows(ax, style, board.models[:n], fontsize)
    shade_runs(ax, style, board.tier[:n].tolist())
    lift = grid_rows(ax, style, n)
    draw_intervals(ax, style, lower, upper, fontsize)
    shown = np.isfinite(score)
    ax.scatter(score[shown], np.flatnonzero(shown), s=2.6 * fontsize, color=style.main, linewidth=0, zorder=3)
    edge = write_column(ax, style, 14, "score", [format_score(x, board.scale) for x in score], fontsize)
    write_column(ax, style, edge + 12, "battles", [f"{count:,}" for count in board.battles[:n]], fontsize)
    ax.set_xlabel(UNITS.get(board.scale, board.scale), color=style.muted, fontsize=8.5)
    if board.scale == "probability":
        ax.xaxis.set_major_formatter("{x:.0%}")
    subtitle = f"score with {board.level:.0%} interval; bands are tiers"
    if not np.isfinite([lower, upper]).all():
        subtitle += "; arrow: no end on that side"
    write_title(ax, style, board_title(board, n), subtitle, max(lift, 6.0))
    return ax


def plot_ranks(board: BoardLike, *, top: int | None = None, ax: Axes | None = None, theme: ThemeName = "light") -> Axes:
    """Axes with rank spreads: thick from the pointwise intervals, thin simultaneous.

    Parameters
    ----------
    board : Leaderboard
    top : int, optional
        Draw only that many models from the top.
    ax : Axes, optional
        Drawn into; by default a new figure whose height suits the number of models.
    theme : {"light", "dark"}

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> board = SimpleNamespace(context="maths", models=("b", "a"), rank=np.array([1, 2]), best=np.array([1, 2]),
    ...     worst=np.array([1, 2]), rank_lower=np.array([1, 1]), rank_upper=np.array([2, 2]),
    ...     tier=np.array([1, 2]), level=0.95)
    >>> plot_ranks(board).get_xlabel()
    'rank'
    """
    n = count_rows(board, top)
    style = find_theme(theme)
    row, fontsize = row_size(n)
    ax = open_axes(ax, style, 5.8 + label_width(board.models[:n], fontsize), 1.4 + row * n)
    rows = np.arange(n)
    label_rows(ax, style, board.models[:n], fontsize)
    shade_runs(ax, style, board.tier[:n].tolist())
    lift = grid_rows(ax, style, n)
    ax.hlines(rows, board.rank_lower[:n] - 0.3, board.rank_upper[:n] + 0.3, color=style.main, linewidth=1, zorder=2)
    ax.hlines(
        rows,
        board.best[:n] - 0.3,
        board.worst[:n] + 0.3,
        color=style.main,
        linewidth=0.55 * fontsize,
        alpha=0.55,
        zorder=2,
    )
    ax.scatter(
        board.rank[:n], rows, s=2.4 * fontsize, color=style.accent, edgecolor=style.background, linewidth=0.5, zorder=3
    )
    last = int(max(board.rank_upper[:n].max(), board.worst[:n].max()))
    ax.set_xlim(0.2, last + 0.8)
    mark_whole_numbers(ax)
    ax.set_xlabel("rank", color=style.muted, fontsize=8.5)
    write_title(
        ax, style, board_title(board, n),
        f"rank with {board.level:.0%} spread: pointwise (thick), joint (thin)", lift,
    )  # fmt: skip
    return ax


def plot_heatmap(boards: BoardsLike, *, ax: Axes | None = None, theme: ThemeName = "light") -> Axes:
    """Axes with each model's score in each context, relative to its overall score.

    Colour is the difference, a smaller box a wider interval, and a dot marks a context whose interval
    excludes the overall score.

    Parameters
    ----------
    boards : Leaderboards
    ax : Axes, optional
        Drawn into; by default a new figure whose size suits the boards.
    theme : {"light", "dark"}

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> def board(context, shift):
    ...     score = np.array([1040.0 + shift, 960.0 - shift])
    ...     return SimpleNamespace(context=context, models=("b", "a"), score=score, lower=score - 20,
    ...                            upper=score + 20, level=0.95, scale="elo")
    >>> class Boards(dict):
    ...     overall = board(None, 0.0)
    >>> ax = plot_heatmap(Boards(maths=board("maths", 30.0), coding=board("coding", -10.0)))
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['maths', 'coding']
    """
    overall, contexts = boards.overall, [board for _, board in boards.items() if board.context is not None]
    if not contexts:
        raise PlotError("there is no context to compare with the overall board; give boards of battles with contexts")
    style = find_theme(theme)
    difference, half_width, excluded = relative_scores(overall, contexts)
    n, n_contexts = difference.shape
    row, fontsize = row_size(n)
    ax = open_axes(ax, style, label_width(overall.models, fontsize) + max(0.55 * n_contexts + 0.6, 4.4), 2.3 + row * n)
    known = np.isfinite(difference)
    limit = float(np.quantile(np.abs(difference[known]), 0.98)) if known.any() else 1.0
    limit = limit or 1.0
    side = np.clip(1 / (1 + half_width / limit), 0.3, 0.92)
    squares = draw_squares(ax, style, difference, np.where(known, side, 0.0), (-limit, limit))
    where, column = np.nonzero(excluded)
    pale = np.abs(difference[where, column]) < 0.6 * limit
    colors = [style.text if light else style.background for light in pale]
    ax.scatter(column, where, s=1.1 * fontsize, color=colors, linewidth=0, zorder=3)
    label_rows(ax, style, overall.models, fontsize)
    ax.set_xlim(-0.5, n_contexts - 0.5)
    names = [short_label(board.context, 22) for board in contexts]
    ax.set_xticks(range(n_contexts), names, rotation=40, ha="left", rotation_mode="anchor", parse_math=False)
    ax.tick_params(axis="x", top=True, labeltop=True, labelbottom=False, labelcolor=style.text, pad=4)
    bar = ax.figure.colorbar(
        squares, ax=ax, orientation="horizontal", shrink=0.9, aspect=28, pad=0.4 / (2 + row * n), extend="both"
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=style.muted, labelsize=8, length=0)
    unit = UNITS.get(overall.scale, overall.scale)
    words = f"smaller box: wider {overall.level:.0%} interval; dot: it excludes the overall score"
    bar.set_label(f"{unit} minus the model's overall score\n{words}", color=style.muted, fontsize=8)
    return ax


def plot_win_matrix(
    matrix: npt.ArrayLike,
    labels: Sequence[str],
    *,
    lower: npt.ArrayLike | None = None,
    upper: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    theme: ThemeName = "light",
) -> Axes:
    """Axes with the chance that the row model beats the column model.

    Up to 20 models the chances are written in per cent. Where intervals are given, a pair whose interval
    contains 50% is a small square.

    Parameters
    ----------
    matrix : array_like, shape (n, n)
        Win probabilities; the diagonal is not drawn.
    labels : sequence of str, length n
    lower, upper : array_like, shape (n, n), optional
        Ends of the intervals, both or neither.
    ax : Axes, optional
        Drawn into; by default a new figure whose size suits the number of models.
    theme : {"light", "dark"}

    Examples
    --------
    >>> ax = plot_win_matrix([[0.5, 0.7], [0.3, 0.5]], ["a", "b"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['a', 'b']
    """
    chance = read_square(matrix, len(labels), "matrix")
    n = len(labels)
    if (lower is None) != (upper is None):
        raise PlotError("lower and upper come together; give both or neither")
    decided = np.ones((n, n), dtype=bool)
    if lower is not None and upper is not None:
        decided = (read_square(lower, n, "lower") > 0.5) | (read_square(upper, n, "upper") < 0.5)
    style = find_theme(theme)
    row, fontsize = row_size(n)
    cell = max(row, 0.36) if n <= 20 else row
    space = label_width(labels, fontsize) + cell * n
    ax = open_axes(ax, style, max(space + 0.5, 4.6), space + 1.2)
    ax.set_aspect("equal")
    side = np.where(decided, 0.96 if n <= 60 else 1.0, 0.5)
    np.fill_diagonal(side, 0.0)
    squares = draw_squares(ax, style, chance, side, (0.0, 1.0))
    if n <= 20:
        for a, b in zip(*np.nonzero(side), strict=True):
            color = style.background if abs(chance[a, b] - 0.5) > 0.27 else style.text
            size = 7.5 if decided[a, b] else 6
            ax.text(b, a, f"{100 * chance[a, b]:.0f}", ha="center", va="center", color=color, fontsize=size, zorder=3)
    label_rows(ax, style, labels, fontsize)
    ax.set_xlim(-0.5, n - 0.5)
    names = [short_label(label) for label in labels]
    ax.set_xticks(range(n), names, rotation=90, parse_math=False)
    ax.tick_params(
        axis="x", top=True, labeltop=True, labelbottom=False, labelsize=fontsize, labelcolor=style.text, pad=6
    )
    bar = ax.figure.colorbar(
        squares, ax=ax, orientation="horizontal", shrink=0.6, aspect=24, pad=0.02, format="{x:.0%}"
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=style.muted, labelsize=8, length=0)
    words = "chance that the row model beats the column model"
    if lower is not None:
        words += "\nsmall square: the interval contains 50%"
    bar.set_label(words, color=style.muted, fontsize=8)
    return ax


def count_rows(board: BoardLike, top: int | None) -> int:
    """Return the number of rows to draw."""
    n = len(board.models)
    if top is not None and top < 1:
        raise PlotError(f"top is {top}; ask for at least one model")
    return n if top is None else min(top, n)


def board_title(board: BoardLike, n: int) -> str:
    """Title of a board of which n models are drawn."""
    name = "Overall" if board.context is None else short_label(board.context, 48)
    return name if n == len(board.models) else f"{name}: top {n} of {len(board.models)}"


def format_score(score: float, scale: str) -> str:
    """Score with the digits that its scale deserves."""
    if not np.isfinite(score):
        return "–"
    return f"{score:.0f}" if scale == "elo" else f"{score:.2f}" if scale == "logit" else f"{score:.1%}"


def finite_range(*values: Floats) -> tuple[float, float]:
    """Return ends of an axis that holds all finite values with a margin."""
    every = np.concatenate(values)
    every = every[np.isfinite(every)]
    if not every.size:
        raise PlotError("the board holds no finite score or interval end; nothing can be drawn")
    margin = 0.04 * float(np.ptp(every)) or 1.0
    return float(every.min()) - margin, float(every.max()) + margin


def draw_intervals(ax: Axes, style: Theme, lower: Floats, upper: Floats, fontsize: float) -> None:
    """Draw one horizontal interval per row; an infinite end becomes an arrow at the edge."""
    left, right = ax.get_xlim()
    rows = np.arange(lower.size)
    ax.hlines(rows, np.maximum(lower, left), np.minimum(upper, right), color=style.main, linewidth=1.6, zorder=2)
    for ends, edge, marker in ((lower, left, "<"), (upper, right, ">")):
        open_rows = rows[~np.isfinite(ends)]
        ax.scatter(
            np.full(open_rows.size, edge), open_rows, marker=marker, s=3.4 * fontsize, color=style.main,
            linewidth=0, clip_on=False, zorder=3,
        )  # fmt: skip


def write_column(ax: Axes, style: Theme, start: float, head: str, cells: Sequence[str], fontsize: float) -> float:
    """Write a right-aligned column of text `start` points to the right of the axes and return its end."""
    end = start + max(0.62 * fontsize * max(map(len, cells)), 5 * len(head))
    for i, cell in enumerate(cells):
        ax.annotate(
            cell, (1, i), (end, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
            ha="right", va="center_baseline", color=style.text, fontsize=fontsize,
        )  # fmt: skip
    ax.annotate(
        head, (1, 1), (end, 4), xycoords="axes fraction", textcoords="offset points",
        ha="right", va="bottom", color=style.muted, fontsize=8,
    )  # fmt: skip
    return end


def relative_scores(overall: BoardLike, contexts: Sequence[BoardLike]) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Scores minus overall scores, half widths of intervals, and whether an interval excludes the overall score.

    All of shape (n models in overall order, n contexts); NaN where a context lacks the model. An interval
    without an end has an infinite half width.
    """
    place = {model: i for i, model in enumerate(overall.models)}
    difference = np.full((len(place), len(contexts)), np.nan)
    half_width = np.full_like(difference, np.inf)
    excluded = np.zeros(difference.shape, dtype=bool)
    for column, board in enumerate(contexts):
        rows = [place[model] for model in board.models]
        base = np.asarray(overall.score)[rows]
        difference[rows, column] = np.asarray(board.score) - base
        half_width[rows, column] = (np.asarray(board.upper) - np.asarray(board.lower)) / 2
        excluded[rows, column] = (np.asarray(board.lower) > base) | (np.asarray(board.upper) < base)
    return difference, half_width, excluded


def draw_squares(ax: Axes, style: Theme, value: Floats, side: Floats, limits: tuple[float, float]) -> PatchCollection:
    """Draw a square of that colour and side (in cells, 0: none) for each entry of a matrix."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    rows, columns = np.nonzero(side > 0)
    patches = [
        Rectangle((b - side[a, b] / 2, a - side[a, b] / 2), side[a, b], side[a, b])
        for a, b in zip(rows, columns, strict=True)
    ]
    squares = PatchCollection(patches, cmap=style.diverging(), linewidth=0, antialiased=False, zorder=2)
    squares.set_array(value[rows, columns])
    squares.set_clim(*limits)
    ax.add_collection(squares)
    return squares


def read_square(values: npt.ArrayLike, n: int, name: str) -> Floats:
    """Values as an (n, n) float array."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n, n):
        raise PlotError(f"{name} has shape {array.shape}, but there are {n} labels; give shape ({n}, {n})")
    return array
