"""Pictures with curves: ratings over time, and checks of a model by its singular values, z-scores and win rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lrbtl.boards.history import History
from lrbtl.errors import PlotError, as_floats, check_whole
from lrbtl.show.style import (
    ThemeName,
    check_top,
    find_theme,
    mark_thousands,
    mark_whole_numbers,
    open_axes,
    short_label,
    write_title,
)
from lrbtl.typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lrbtl.boards.board import Leaderboards
    from lrbtl.fitting.low_rank import Fit
    from lrbtl.inference.calibration import Calibration
    from lrbtl.inference.diagnose import Diagnosis

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


# ------------------------------------------------------------------------------
# Pictures that check a model: singular values, z-scores of simulations, calibration.
# ------------------------------------------------------------------------------


def plot_scree(
    singular_values: Fit | Leaderboards | npt.ArrayLike,
    rank: int | None = None,
    *,
    ax: Axes | None = None,
    theme: ThemeName = "light",
) -> Axes:
    """Axes with the singular values of one mode and the chosen rank.

    Parameters
    ----------
    singular_values : Fit, Leaderboards or array_like of shape (d,)
        Non-negative, largest first; of a fit, or of the one behind boards, those of the models' mode.
    rank : int, optional
        The chosen rank: that many values are drawn as kept. By default all of a fit's.
    ax : Axes, optional
        Drawn into; by default a new figure.
    theme : {"light", "dark"}

    Examples
    --------
    >>> ax = plot_scree([9.1, 4.0, 0.6, 0.5, 0.4], rank=2)
    >>> ax.get_xlabel()
    'component'
    """
    values = read_singular_values(singular_values)
    rank = values.size if rank is None else rank
    check_whole(rank, "rank", error=PlotError)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise PlotError(f"singular_values must be a non-empty list of finite numbers, not of shape {values.shape}")
    if not 0 < rank <= values.size:
        raise PlotError(f"rank is {rank}, but there are {values.size} singular values; give a rank between")
    style = find_theme(theme)
    ax = open_axes(ax, style, 5.6, 3.6)
    component = np.arange(1, values.size + 1)
    share = float(np.sum(values[:rank] ** 2) / max(np.sum(values**2), np.finfo(float).tiny))
    ax.axvspan(0.5, rank + 0.5, color=style.band, linewidth=0, zorder=0)
    ax.plot(component, values, color=style.muted, alpha=0.5, linewidth=1.2, zorder=1)
    ax.scatter(component[:rank], values[:rank], s=36, color=style.main, zorder=3)
    ax.scatter(
        component[rank:],
        values[rank:],
        s=32,
        facecolor=style.background,
        edgecolor=style.muted,
        linewidth=1.2,
        zorder=3,
    )
    ax.set_xlim(0.5, values.size + 0.5)
    ax.set_ylim(0, 1.08 * values.max() or 1.0)
    mark_whole_numbers(ax)
    ax.grid(axis="y", color=style.grid, linewidth=0.6)
    ax.set_xlabel("component", color=style.muted, fontsize=8.5)
    ax.set_ylabel("singular value", color=style.muted, fontsize=8.5)
    words = f"the shaded components hold {share:.1%} of the sum of squares"
    write_title(
        ax, style, f"Rank {rank} chosen", words if rank < values.size else "singular values of the fit at this rank"
    )
    return ax


def read_singular_values(source: Any) -> Floats:
    """Return singular values: given, or those of the models' mode of a fit or of the fit behind boards."""
    if hasattr(source, "boards") and source.fit is None:
        raise PlotError("these boards have no single low-rank fit behind them; draw lrbtl.fit(battles)")
    fit = getattr(source, "fit", source)
    if hasattr(fit, "singular_values"):
        return np.asarray(fit.singular_values[0])
    if hasattr(source, "models"):
        raise PlotError(f"a {type(source).__name__} holds no singular values: draw lrbtl.fit(battles)")
    return as_floats(source, "singular_values", PlotError)


def plot_z_histogram(z: npt.ArrayLike, *, ax: Axes | None = None, theme: ThemeName = "light") -> Axes:
    """Axes with the z-scores of simulations against the standard normal density.

    Parameters
    ----------
    z : array_like
        (estimate - truth) / standard error, any shape; values that are not finite are left out and counted.
    ax : Axes, optional
        Drawn into; by default a new figure.
    theme : {"light", "dark"}

    Examples
    --------
    >>> ax = plot_z_histogram(np.linspace(-2.5, 2.5, 200))
    >>> ax.get_xlabel()
    'z = (estimate − truth) / standard error'
    """
    values = as_floats(z, "z", PlotError).ravel()
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise PlotError("z holds no finite value; give the z-scores of at least one simulation")
    style = find_theme(theme)
    ax = open_axes(ax, style, 5.6, 3.6)
    edge = max(4.0, float(np.ceil(min(np.abs(finite).max(), 8.0))))
    n_bins = int(2 * edge * np.clip(np.sqrt(finite.size) / 8, 2, 6))
    counts, edges = np.histogram(np.clip(finite, -edge, edge), bins=n_bins, range=(-edge, edge))
    width = edges[1] - edges[0]
    ax.bar(
        edges[:-1], counts / (finite.size * width), width, align="edge", color=style.main, alpha=0.45,
        edgecolor=style.background, linewidth=0.6, label="simulations",
    )  # fmt: skip
    x = np.linspace(-edge, edge, 401)
    ax.plot(x, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), color=style.accent, linewidth=2, label="N(0, 1)")
    ax.set_xlim(-edge, edge)
    ax.set_ylim(bottom=0)
    ax.set_yticks([])
    ax.set_xlabel("z = (estimate − truth) / standard error", color=style.muted, fontsize=8.5)
    ax.legend(frameon=False, labelcolor=style.text, fontsize=8.5, loc="upper right")
    inside = float(np.mean(np.abs(values) <= 1.959964))
    mean = round(float(finite.mean()), 2) + 0.0  # never "-0.00"
    words = f"mean {mean:.2f}, sd {finite.std():.2f}, {inside:.1%} within ±1.96, n = {values.size:,}"
    lost = values.size - finite.size
    write_title(ax, style, "z-scores of simulations", words + (f" ({lost} not finite)" if lost else ""))
    return ax


def plot_calibration(source: Diagnosis | Calibration, *, ax: Axes | None = None, theme: ThemeName = "light") -> Axes:
    """Axes with win rates of the favourite by size of the gap: observed, with two standard errors, against predicted.

    Points on the line agree. Points in the second colour are off by more than chance.

    Parameters
    ----------
    source : Diagnosis or Calibration
        Such as lrbtl.diagnose(battles).
    ax : Axes, optional
        Drawn into; by default a new figure.
    theme : {"light", "dark"}

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((8, 4), 2, scale=2, rng=0), 20_000, rng=1)
    >>> plot_calibration(lrbtl.diagnose(battles)).get_xlabel()
    'predicted win rate of the favourite'
    """
    found: Any = getattr(source, "calibration", source)
    if not len(getattr(found, "votes", ())):
        raise PlotError("there is no calibration to draw: give lrbtl.diagnose(battles) of at least a hundred votes.")
    style = find_theme(theme)
    ax = open_axes(ax, style, 4.8, 4.4)
    low = min(0.5, float(np.min(found.observed - 2 * found.se)))
    ax.plot([0.5, 1.0], [0.5, 1.0], color=style.muted, linewidth=1, zorder=1)
    colors = np.where(found.off, style.accent, style.main)
    for x, y, error, color in zip(found.predicted, found.observed, found.se, colors, strict=True):
        ax.plot([x, x], [y - 2 * error, y + 2 * error], color=color, linewidth=1.6, zorder=2)
    ax.scatter(found.predicted, found.observed, s=26, color=colors.tolist(), linewidth=0, zorder=3)
    ax.set_xlim(0.5, 1.0)
    ax.set_ylim(low, 1.02)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.set_xlabel("predicted win rate of the favourite", color=style.muted, fontsize=8.5)
    ax.set_ylabel("share of votes won", color=style.muted, fontsize=8.5)
    words = "votes agree with predictions" if not found.off.any() else f"{int(found.off.sum())} of {len(found.off)} off"
    write_title(ax, style, "Calibration", f"{words}; {int(found.votes.sum()):,} votes, {found.link} link, ±2 errors")
    return ax
