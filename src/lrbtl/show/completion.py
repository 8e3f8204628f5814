"""The completed table of results: a heat map of measured and forecast scores, and a page with every board."""

from __future__ import annotations

import base64
import io
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from lrbtl.boards.board import Leaderboards
from lrbtl.boards.choose import Choice
from lrbtl.boards.forecast import forecast
from lrbtl.data.labels import shown_context
from lrbtl.data.observations import Results
from lrbtl.entries.method import FactorRun
from lrbtl.entries.posterior import central
from lrbtl.errors import PlotError
from lrbtl.inference.analysis import Analysis, analyse
from lrbtl.inference.joint import normal_quantile
from lrbtl.show.frontier import plot_choice
from lrbtl.show.matrices import draw_squares
from lrbtl.show.style import (
    ThemeName,
    add_colorbar,
    check_top,
    find_theme,
    label_columns,
    label_rows,
    label_width,
    open_axes,
    row_size,
)
from lrbtl.tables import html_page
from lrbtl.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_completion(
    results: Results | Analysis,
    *,
    top: int = 40,
    level: float = 0.95,
    ax: Axes | None = None,
    theme: ThemeName = "light",
) -> Axes:
    """Axes with the completed table: measured and forecast scores of models on benchmarks.

    Colour is the score's place between the lowest and the highest of its benchmark. Measured scores fill their cell and
    have a dot; a forecast is the smaller, the wider its interval is.

    Parameters
    ----------
    results : Results, or Analysis of them
    top : int
        Models and benchmarks that are drawn at most: those with most scores.
    level : float
        Of the intervals that sizes stand for.
    ax : Axes, optional
        Drawn into; by default a new figure whose size suits the table.
    theme : {"light", "dark"}

    Examples
    --------
    >>> import lrbtl
    >>> results = lrbtl.Results.from_wide({
    ...     "model": ["x", "y", "z", "w"], "math": [70, 60, 50, 40], "code": [50, 41, 29, None]})
    >>> ax = lrbtl.plot_completion(results)
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['math', 'code']
    """
    check_top(top)
    normal_quantile(level)
    analysis = results if isinstance(results, Analysis) else analyse(results)
    data, run = analysis.battles, analysis.run
    if not (isinstance(data, Results) and isinstance(run, FactorRun)):
        raise PlotError("the completed table is that of the factor model of results: give Results.")
    style = find_theme(theme)
    columns = np.argsort(-data.measured.sum(axis=0), kind="stable")[:top]
    rows = np.argsort(-data.measured.sum(axis=1), kind="stable")[:top]
    place, width = _places(run, data, level)
    rows = rows[np.argsort(-place[np.ix_(rows, columns)].mean(axis=1), kind="stable")]
    at = np.ix_(rows, columns)
    seen = data.measured[at]
    row, fontsize = row_size(rows.size)
    names = [str(data.models[k]) for k in rows]
    width_inches = label_width(names, fontsize) + max(0.3 * columns.size + 0.6, 4.4)
    ax = open_axes(ax, style, width_inches, 2.6 + row * rows.size)
    side = np.where(seen, 0.94, np.clip(0.94 - 0.7 * width[at], 0.2, 0.94))
    squares = draw_squares(ax, style, place[at], side, (0.0, 1.0))
    where, column = np.nonzero(seen)
    ax.scatter(column, where, s=0.5 * fontsize, color=style.text, linewidth=0, zorder=3)
    label_rows(ax, style, names, fontsize)
    label_columns(ax, style, [shown_context(data.context_label(int(u))) for u in columns], 7.5, 22)
    words = f"lowest to highest score of a benchmark\ndot: measured; smaller box: wider {level:.0%} prediction interval"
    add_colorbar(ax, style, squares, words, shrink=0.9, aspect=28, pad=0.4 / (2 + row * rows.size))
    return ax


def _places(run: FactorRun, data: Results, level: float) -> tuple[Floats, Floats]:
    """Return where scores lie between the lowest and the highest of their benchmark, and widths of intervals there."""
    place, width = np.empty((2, data.shape[0], data.n_contexts))
    for u in range(data.n_contexts):
        draws = run.posterior.measured(u)
        middle, (low, high) = np.median(draws, axis=0), central(draws, level)
        here = data.cells.context == u
        if data.cells.y[here].size:
            middle[data.cells.a[here]] = data.cells.y[here]
        sign = 1.0 if data.scales[u].higher_is_better else -1.0
        reach = float(np.ptp(middle)) or 1.0
        place[:, u] = (sign * middle - (sign * middle).min()) / reach
        width[:, u] = (high - low) / reach
    return place, width


def results_html(boards: Leaderboards, *, title: str = "Results", choice: Choice | None = None) -> str:
    """Return a page of results: the index, a choice by cost, the completed table, boards, and forecasts by model."""
    analysis = boards.analysis
    if analysis is None or not isinstance(analysis.battles, Results):
        raise PlotError("these boards were not made from results in this session: make them again.")
    parts = [boards.overall._repr_html_()]
    drawn = find_spec("matplotlib") is not None
    if choice is not None:
        parts += ["<h2>Choose</h2>", _picture(plot_choice(choice), "score against cost") if drawn else ""]
        parts.append(choice._repr_html_())
    if drawn:
        parts += ["<h2>The completed table</h2>", _picture(plot_completion(analysis), "measured and forecast scores")]
    parts.append("<h2>Benchmarks</h2>")
    parts += [_details(shown_context(board.context), board._repr_html_()) for board in boards.values()]
    parts.append("<h2>Forecasts by model</h2>")
    every = forecast(analysis)
    parts += [_details(str(model), every.of_model(model)._repr_html_()) for model in boards.models]
    return html_page("\n".join(parts), title)


def _details(name: str, fragment: str) -> str:
    return f"<details><summary>{escape(name)}</summary>{fragment}</details>"


def _picture(ax: Axes, words: str) -> str:
    import matplotlib.pyplot as plt

    figure = ax.figure.figure
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    plt.close(figure)
    data = base64.b64encode(stream.getvalue()).decode()
    return f'<img style="max-width:100%" alt="{words}" src="data:image/png;base64,{data}">'
