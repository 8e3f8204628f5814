"""Pictures of matrices: scores of models in contexts, who beats whom, and which pairs should meet next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date as Day
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from lrbtl.boards.board import Leaderboard, Leaderboards
from lrbtl.data.labels import shown_context
from lrbtl.errors import PlotError, as_floats, listed
from lrbtl.show.style import (
    UNITS,
    Theme,
    ThemeName,
    add_colorbar,
    check_top,
    find_theme,
    join_words,
    label_columns,
    label_rows,
    label_width,
    open_axes,
    places,
    row_size,
    shown_date,
)
from lrbtl.typing import Bools, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PatchCollection

    from lrbtl.boards.comparison import WinMatrix as WinsLike
    from lrbtl.boards.plan import Plan


def plot_heatmap(
    boards: Leaderboards, *, date: Day | str | None = None, ax: Axes | None = None, theme: ThemeName = "light"
) -> Axes:
    """Axes with each model's score in each context, relative to its overall score.

    Colour is the difference, a smaller box a wider interval, and a dot marks a context whose interval
    excludes the overall score.

    Parameters
    ----------
    boards : Leaderboards
    date : date or str, optional
        Written below the picture; by default today, "" for none.
    ax : Axes, optional
        Drawn into; by default a new figure whose size suits the boards.
    theme : {"light", "dark"}

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((4, 2), 1, scale=1, rng=0), 900, rng=1)
    >>> ax = plot_heatmap(lrbtl.leaderboard(battles, context="all", rank=1))
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['0', '1']
    """
    if not isinstance(boards, Leaderboards):
        raise PlotError(
            f"the boards of all contexts are needed, not {type(boards).__name__}: draw "
            "lrbtl.leaderboard(battles, context='all')"
        )
    overall, contexts = boards.overall, list(boards.values())
    if not contexts:
        raise PlotError("there is no context to compare with the overall board; give boards of battles with contexts")
    style = find_theme(theme)
    difference, half_width, excluded = relative_scores(overall, contexts)
    n, n_contexts = difference.shape
    row, fontsize = row_size(n)
    names = [str(model) for model in overall.models]
    ax = open_axes(ax, style, label_width(names, fontsize) + max(0.55 * n_contexts + 0.6, 4.4), 2.3 + row * n)
    known = np.isfinite(difference)
    limit = float(np.quantile(np.abs(difference[known]), 0.98)) if known.any() else 1.0
    limit = limit or 1.0
    side = np.clip(1 / (1 + half_width / limit), 0.3, 0.92)
    squares = draw_squares(ax, style, difference, np.where(known, side, 0.0), (-limit, limit))
    where, column = np.nonzero(excluded)
    pale = np.abs(difference[where, column]) < 0.66 * limit
    colors = [style.text if light else style.background for light in pale]
    ax.scatter(column, where, s=1.1 * fontsize, color=colors, linewidth=0, zorder=3)
    label_rows(ax, style, names, fontsize, places(overall.rank))
    label_columns(ax, style, [shown_context(board.context) for board in contexts], 8.5, 22)
    unit = UNITS.get(overall.scale, overall.scale)
    words = f"smaller box: wider {overall.level:.0%} interval; dot: it excludes the overall score"
    words = f"{unit} minus the model's overall score\n{words}\n{votes_words(overall, date)}"
    add_colorbar(ax, style, squares, words, shrink=0.9, aspect=28, pad=0.4 / (2 + row * n), extend="both")
    return ax


def plot_win_matrix(
    matrix: WinsLike | Leaderboards | npt.ArrayLike,
    labels: Sequence[str] | None = None,
    *,
    lower: npt.ArrayLike | None = None,
    upper: npt.ArrayLike | None = None,
    date: Day | str | None = None,
    ax: Axes | None = None,
    theme: ThemeName = "light",
) -> Axes:
    """Axes with the chance that the row model beats the column model.

    Up to 20 models the chances are written in per cent. Where intervals are given, a pair whose interval
    contains 50% is a small square.

    Parameters
    ----------
    matrix : WinMatrix, Leaderboards or array_like of shape (n, n)
        Win probabilities, of several boards those overall; the diagonal is not drawn.
    labels : sequence of str, length n
        Needed for an array; the others know their models and intervals.
    lower, upper : array_like, shape (n, n), optional
        Ends of the intervals, both or neither.
    date : date or str, optional
        Written below the picture; by default today, "" for none.
    ax : Axes, optional
        Drawn into; by default a new figure whose size suits the number of models.
    theme : {"light", "dark"}

    Examples
    --------
    >>> ax = plot_win_matrix([[0.5, 0.7], [0.3, 0.5]], ["a", "b"])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['a', 'b']
    """
    overall = matrix.overall if isinstance(matrix, Leaderboards) else None
    if labels is None:
        matrix, models, lower, upper = read_wins(matrix)
        labels = [str(model) for model in models]
    labels = list(labels) if isinstance(labels, str) else labels
    labels = [str(label) for label in listed(labels, "labels", "name the rows of the matrix", PlotError)]
    chance = read_square(cast("npt.ArrayLike", matrix), len(labels), "matrix")
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
    side[np.isnan(chance)] = 0.0
    squares = draw_squares(ax, style, chance, side, (0.0, 1.0))
    if n <= 20:
        for a, b in zip(*np.nonzero(side), strict=True):
            color = style.background if abs(chance[a, b] - 0.5) > 0.33 else style.text
            size = 7.5 if decided[a, b] else 6
            ax.text(b, a, f"{100 * chance[a, b]:.0f}", ha="center", va="center", color=color, fontsize=size, zorder=3)
    label_rows(ax, style, labels, fontsize)
    label_columns(ax, style, labels, fontsize)
    words = "chance that the row model beats the column model"
    if lower is not None:
        words += "\nsmall square: the interval contains 50%"
    words += f"\n{votes_words(overall, date)}".rstrip()
    add_colorbar(ax, style, squares, words, shrink=0.6, aspect=24, pad=0.02, format="{x:.0%}")
    return ax


def votes_words(board: Leaderboard | None, date: Day | str | None) -> str:
    """Return the votes behind a board, where it is known, and the date."""
    return join_words("" if board is None else f"{int(board.battles.sum()) // 2:,} votes", shown_date(date))


def relative_scores(overall: Leaderboard, contexts: Sequence[Leaderboard]) -> tuple[Floats, Floats, Bools]:
    """Scores minus overall scores, half widths of intervals, and whether an interval excludes the overall score.

    All of shape (n models in overall order, n contexts); NaN where a model has no votes in a context, or no score.
    """
    place = {model: i for i, model in enumerate(overall.models)}
    difference = np.full((len(place), len(contexts)), np.nan)
    half_width = np.full_like(difference, np.inf)
    excluded = np.zeros(difference.shape, dtype=bool)
    for column, board in enumerate(contexts):
        voted = board.battles > 0
        rows = np.array([place[model] for model in board.models])[voted]
        base, lower, upper = overall.score[rows], board.lower[voted], board.upper[voted]
        difference[rows, column] = board.score[voted] - base
        half_width[rows, column] = (upper - lower) / 2
        excluded[rows, column] = (lower > base) | (upper < base)
    return difference, half_width, excluded


def plot_plan(plan: Plan, *, top: int = 25, ax: Axes | None = None, theme: ThemeName = "light") -> Axes:
    """Axes with the votes of a plan by pair of models: the larger a square, the more votes.

    Parameters
    ----------
    plan : Plan
    top : int
        Draw only that many models, those with most votes.
    ax : Axes, optional
        Drawn into; by default a new figure whose size suits the number of models.
    theme : {"light", "dark"}

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((4, 2), 1, scale=1, rng=0), 900, rng=1)
    >>> ax = plot_plan(lrbtl.plan(battles, 200, goal=("top", 1), rank=1))
    >>> ax.get_xlabel().splitlines()[0]
    'Plan of 200 votes: who is first'
    """
    if not hasattr(plan, "by_context"):
        raise PlotError(f"a plan is needed, not {type(plan).__name__}: draw lrbtl.plan(battles, n, goal=...)")
    check_top(top, 2)
    style = find_theme(theme)
    totals: dict[Any, int] = {}
    for side in (plan.a, plan.b):
        for model, votes in zip(side, plan.votes.tolist(), strict=True):
            totals[model] = totals.get(model, 0) + votes
    shown = sorted(totals, key=lambda model: -totals[model])[:top]
    place = {model: k for k, model in enumerate(shown)}
    votes = np.zeros((len(shown), len(shown)))
    for a, b, count in zip(plan.a, plan.b, plan.votes.tolist(), strict=True):
        if a in place and b in place:
            votes[place[a], place[b]] += count
            votes[place[b], place[a]] += count
    row, fontsize = row_size(len(shown))
    names = [str(model) for model in shown]
    space = label_width(names, fontsize) + max(row, 0.36) * len(shown)
    ax = open_axes(ax, style, max(space + 0.5, 6.4), space + 1.2)  # wide enough for the words below
    ax.set_aspect("equal")
    squares = draw_squares(ax, style, votes, 0.95 * np.sqrt(votes / votes.max()), (-votes.max(), votes.max()))
    squares.set_array(None)
    squares.set_facecolor(style.main)
    label_rows(ax, style, names, fontsize)
    label_columns(ax, style, names, fontsize)
    first, _, worth = plan.heading()
    ax.set_xlabel(
        f"{first}\narea: votes of a pair, at most {int(votes.max()):,}\n{worth}", color=style.muted, fontsize=8.5
    )
    return ax


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


def read_wins(wins: Any) -> tuple[npt.ArrayLike, Sequence[Any], npt.ArrayLike, npt.ArrayLike]:
    """Return win probabilities, models and ends of intervals of a win matrix or of the boards of all contexts."""
    if hasattr(wins, "overall") and None in wins.win:
        return wins.win[None], wins.models, wins.win_lower[None], wins.win_upper[None]
    if hasattr(wins, "win") and not hasattr(wins, "overall"):
        return wins.win, wins.models, wins.lower, wins.upper
    if hasattr(wins, "models"):
        raise PlotError("a board alone holds no win probabilities: draw lrbtl.win_matrix(battles)")
    raise PlotError("give the labels of the matrix, or draw lrbtl.win_matrix(battles), which knows them")


def read_square(values: npt.ArrayLike, n: int, name: str) -> Floats:
    """Values as an (n, n) float array."""
    array = as_floats(values, name, PlotError)
    if array.shape != (n, n):
        raise PlotError(f"{name} has shape {array.shape}, but there are {n} labels; give shape ({n}, {n})")
    return array
