"""Pictures with a row per model or effect: forest plots and rank spreads; and every public picture by its name.

matplotlib is imported only when a picture is drawn (extra `plot`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date as Day
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lrbtl.boards.board import Leaderboard, Leaderboards
from lrbtl.boards.changes import Changes
from lrbtl.data.labels import shown_context
from lrbtl.errors import PlotError, check_type, is_within, spelled
from lrbtl.files import write_whole
from lrbtl.inference.effects import EffectEstimate
from lrbtl.show.curves import plot_calibration, plot_history, plot_scree, plot_z_histogram
from lrbtl.show.frontier import plot_choice
from lrbtl.show.matrices import plot_heatmap, plot_plan, plot_win_matrix
from lrbtl.show.style import (
    UNITS,
    Theme,
    ThemeName,
    board_axis,
    check_top,
    find_theme,
    grid_rows,
    join_words,
    label_rows,
    label_width,
    mark_thousands,
    mark_whole_numbers,
    open_axes,
    places,
    row_size,
    shade_runs,
    short_label,
    shown_date,
    write_title,
)
from lrbtl.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_calibration",
    "plot_changes",
    "plot_choice",
    "plot_effects",
    "plot_heatmap",
    "plot_history",
    "plot_leaderboard",
    "plot_plan",
    "plot_ranks",
    "plot_scree",
    "plot_win_matrix",
    "plot_z_histogram",
    "save_picture",
]


def plot_leaderboard(
    board: Leaderboard | Leaderboards,
    *,
    top: int | None = None,
    date: Day | str | None = None,
    ax: Axes | None = None,
    theme: ThemeName = "light",
) -> Axes:
    """Axes with the forest plot of a board: ranks, scores, intervals, tiers and votes.

    The axis follows the bulk of the ranked models; what lies beyond it becomes an arrow at the edge. Every second tier
    is shaded. Models without a rank follow below a line, in grey.

    Parameters
    ----------
    board : Leaderboard or Leaderboards
        Of several boards, the overall one.
    top : int, optional
        Draw only that many models from the top.
    date : date or str, optional
        Written below the title; by default today, "" for none.
    ax : Axes, optional
        Drawn into; by default a new figure whose height suits the number of models.
    theme : {"light", "dark"}

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((3,), 1, scale=1, rng=0), 900, rng=1)
    >>> plot_leaderboard(lrbtl.leaderboard(battles)).get_xlabel()
    'Elo score'
    """
    board, style, n, fontsize, lift, ax = start_rows(one_board(board), top, ax, theme, 6.8)
    score, lower, upper = board.score[:n], board.lower[:n], board.upper[:n]
    ends = board_axis(board, n)
    if ends is None:
        raise PlotError("the board holds no finite score or interval end; nothing can be drawn")
    ax.set_xlim(*ends)
    ranked = board.rank[:n] > 0
    colors = np.where(ranked, style.main, style.muted)
    draw_intervals(ax, colors, lower, upper, fontsize)
    shown = np.flatnonzero((score >= ends[0]) & (score <= ends[1]))
    ax.scatter(score[shown], shown, s=2.6 * fontsize, color=colors[shown].tolist(), linewidth=0, zorder=3)
    if 0 < ranked.sum() < n:
        ax.axhline(ranked.sum() - 0.5, color=style.muted, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    shown_scores = [format_score(x, board.scale) for x in score]
    columns = {"score": shown_scores, "tier": places(board.tier[:n]), "votes": [f"{k:,}" for k in board.battles[:n]]}
    write_columns(ax, style, columns, fontsize)
    ax.set_xlabel(UNITS.get(board.scale, board.scale), color=style.muted, fontsize=8.5)
    if board.scale == "probability":
        ax.xaxis.set_major_formatter("{x:.0%}")
    else:
        mark_thousands(ax.xaxis)
    write_title(ax, style, board_title(board, n, date), describe_rows(board, n, ends), max(lift, 6.0))
    return ax


def plot_ranks(
    board: Leaderboard | Leaderboards,
    *,
    top: int | None = None,
    date: Day | str | None = None,
    ax: Axes | None = None,
    theme: ThemeName = "light",
) -> Axes:
    """Axes with rank spreads of the ranked models: thick from the pointwise intervals, thin simultaneous.

    Parameters
    ----------
    board, top, date, ax, theme
        See `plot_leaderboard`.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((3,), 1, scale=1, rng=0), 900, rng=1)
    >>> plot_ranks(lrbtl.leaderboard(battles)).get_xlabel()
    'rank'
    """
    board = one_board(board)
    ranked = int(np.count_nonzero(board.rank))
    count_rows(board, top)
    board, style, n, fontsize, lift, ax = start_rows(board, min(top or ranked, ranked), ax, theme, 5.8)
    rows = np.arange(n)
    for low, high, width, alpha in (
        (board.rank_lower, board.rank_upper, 1.0, 1.0),
        (board.best, board.worst, 0.55 * fontsize, 0.55),
    ):
        ax.hlines(rows, low[:n] - 0.3, high[:n] + 0.3, color=style.main, zorder=2, linewidth=width, alpha=alpha)
    ax.scatter(
        board.rank[:n], rows, s=2.4 * fontsize, color=style.accent, edgecolor=style.background, linewidth=0.5, zorder=3
    )
    last = int(max(board.rank_upper[:n].max(), board.worst[:n].max()))
    ax.set_xlim(0.2, last + 0.8)
    mark_whole_numbers(ax)
    ax.set_xlabel("rank", color=style.muted, fontsize=8.5)
    spreads = [f"{low}–{high}" for low, high in zip(board.best[:n], board.worst[:n], strict=True)]
    write_columns(ax, style, {"ranks": spreads, "tier": places(board.tier[:n])}, fontsize)
    words = f"rank with {board.level:.0%} spread: each model by itself (thick), all jointly (thin); bands are tiers"
    write_title(ax, style, board_title(board, n, date), words, max(lift, 6.0))
    return ax


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
    names = [f"{found.models[k]}  ({found.rank_before[k]} → {found.rank_after[k]})" for k in rows]
    colors = [style.accent if found.models[k] in found.movers else style.main for k in rows]
    values = np.column_stack([found.change, found.lower, found.upper])[rows]
    ax, lift = draw_around_zero(ax, style, names, values, colors, 6.0)
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
    style = find_theme(theme)
    names = [sentence.split(": ")[0] for sentence in effects.sentences(level)]
    ax, lift = draw_around_zero(ax, style, names, 100 * effects.changes(level), [style.main] * len(names), 5.0)
    ax.set_xlabel("points of win probability", color=style.muted, fontsize=8.5)
    write_title(ax, style, "What moves votes", f"between equal models, with {level:.0%} interval", lift)
    return ax


def draw_around_zero(
    ax: Axes | None, style: Theme, names: Sequence[str], values: Floats, colors: Sequence[str], width: float
) -> tuple[Axes, float]:
    """Axes with a row for each value and the limits of its interval, (n, 3), and by how much a title moves up."""
    height, fontsize = row_size(len(names))
    ax = open_axes(ax, style, width + label_width(names, fontsize), 1.4 + height * len(names))
    label_rows(ax, style, names, fontsize)
    at, lift = np.arange(len(names)), grid_rows(ax, style, len(names))
    ax.axvline(0, color=style.muted, linewidth=0.9)
    ax.hlines(at, values[:, 1], values[:, 2], color=colors, linewidth=1.6, zorder=2)
    ax.scatter(values[:, 0], at, s=2.6 * fontsize, color=colors, linewidth=0, zorder=3)
    return ax, lift


def start_rows(
    board: Leaderboard, top: int | None, ax: Axes | None, theme: ThemeName, width: float
) -> tuple[Leaderboard, Theme, int, float, float, Axes]:
    """Board, theme, number of rows, font size, lift of the title, and axes with the board's rows named."""
    n = count_rows(board, top)
    style = find_theme(theme)
    row, fontsize = row_size(n)
    names = [str(model) for model in board.models[:n]]
    ax = open_axes(ax, style, width + label_width(names, fontsize), 1.4 + row * n)
    label_rows(ax, style, names, fontsize, places(board.rank[:n]))
    shade_runs(ax, style, board.tier[:n].tolist())
    return board, style, n, fontsize, grid_rows(ax, style, n), ax


def one_board(board: Leaderboard | Leaderboards) -> Leaderboard:
    """Return the board itself, or the overall one of several."""
    found = board.overall if isinstance(board, Leaderboards) else board
    if not isinstance(found, Leaderboard):
        raise PlotError(
            f"a leaderboard is needed, not {type(board).__name__}: draw lrbtl.leaderboard(battles), or one context's "
            "board of lrbtl.leaderboard(battles, context='all')"
        )
    return found


def describe_rows(board: Leaderboard, n: int, ends: tuple[float, float]) -> str:
    """Return what a forest plot of n rows shows, in one line."""
    if not board.has_intervals:
        return "scores without intervals"
    words = f"score with {board.level:.0%} interval; bands are tiers"
    if (board.rank[:n] == 0).any():
        words += "; grey: no rank"
    cut = (board.lower[:n] < ends[0]) | (board.upper[:n] > ends[1])
    return words + ("; arrow: goes on beyond the axis" if cut.any() else "")


def count_rows(board: Leaderboard, top: int | None) -> int:
    """Return the number of rows to draw."""
    n = len(board.models)
    if top is not None:
        check_top(top)
    return n if top is None else min(top, n)


def board_title(board: Leaderboard, n: int, date: Day | str | None = "") -> str:
    """Title of a board of which n models are drawn, with all its votes and a date."""
    name = "Overall" if board.context is None else short_label(shown_context(board.context), 48)
    shown = name if n == len(board.models) else f"{name}: top {n:,} of {len(board.models):,}"
    return join_words(shown, f"{int(board.battles.sum()) // 2:,} votes", shown_date(date))


def format_score(score: float, scale: str) -> str:
    """Score with the digits that its scale deserves."""
    if not np.isfinite(score):
        return "–"
    return f"{score:,.0f}" if scale == "elo" else f"{score:.2f}" if scale == "logit" else f"{score:.1%}"


def draw_intervals(ax: Axes, colors: NDArray[np.str_], lower: Floats, upper: Floats, fontsize: float) -> None:
    """Draw one horizontal interval per row; an end beyond the axis becomes an arrow at its edge."""
    left, right = ax.get_xlim()
    rows = np.arange(lower.size)
    ends = np.clip(lower, left, right), np.clip(upper, left, right)
    ax.hlines(rows, *ends, color=colors.tolist(), linewidth=1.6, zorder=2)
    for beyond, edge, marker in ((lower < left, left, "<"), (upper > right, right, ">")):
        ax.scatter(
            np.full(beyond.sum(), edge), rows[beyond], marker=marker, s=3.4 * fontsize, color=colors[beyond].tolist(),
            linewidth=0, clip_on=False, zorder=3,
        )  # fmt: skip


def write_columns(ax: Axes, style: Theme, columns: Mapping[str, Sequence[str]], fontsize: float) -> None:
    """Write right-aligned columns of text to the right of the axes, one cell per row, under their names."""
    end = 2.0
    for head, cells in columns.items():
        end += 12 + max(0.62 * fontsize * max(map(len, cells)), 5 * len(head))
        for i, cell in enumerate(cells):
            ax.annotate(
                cell, (1, i), (end, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                ha="right", va="center_baseline", color=style.text, fontsize=fontsize,
            )  # fmt: skip
        ax.annotate(
            head, (1, 1), (end, 4), xycoords="axes fraction", textcoords="offset points",
            ha="right", va="bottom", color=style.muted, fontsize=8,
        )  # fmt: skip


# ------------------------------------------------------------------------------
# Pictures as files.
# ------------------------------------------------------------------------------

# Metadata that would make two files of the same picture differ.
DATED: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def save_picture(ax: Axes, path: str | os.PathLike[str], *, dpi: float = 150) -> None:
    """Write the figure of `ax` to a PNG, SVG or PDF file and close it; the same picture gives the same bytes.

    Parameters
    ----------
    ax : Axes
        What a plot function returned.
    path : path-like
        Its ending names the format. The file is written whole or not at all.
    dpi : float
        Dots per inch of a PNG.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_picture(plot_scree([9.1, 4.0, 0.6], rank=2), Path(folder) / "scree.svg")
    ...     sorted(os.listdir(folder))
    ['scree.svg']
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    check_type(path, (str, os.PathLike), "path", "name a file that ends in .png, .svg or .pdf")
    if not hasattr(ax, "figure"):
        raise PlotError(f"ax={spelled(ax)}: give what a plot function returned.")
    if not is_within(dpi, 0.5, 2401):
        raise PlotError(f"dpi={spelled(dpi)}: give a number from 1 to 2400.")
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in DATED:
        raise PlotError(f"unknown format of {path}; let it end in .png, .svg or .pdf")
    figure = ax.figure.figure  # the root figure, also of a subfigure
    with mpl.rc_context({"svg.hashsalt": "lrbtl"}):
        write_whole(path, lambda scratch: figure.savefig(scratch, format=kind, dpi=dpi, metadata=DATED[kind]))
    plt.close(figure)
