"""Pictures that check a model: singular values and z-scores of simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lrbtl.errors import PlotError
from lrbtl.plot_style import ThemeName, find_theme, mark_whole_numbers, open_axes, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lrbtl.board import Leaderboards
    from lrbtl.fitting import Fit


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


def read_singular_values(source: Any) -> npt.NDArray[np.float64]:
    """Return singular values: given, or those of the models' mode of a fit or of the fit behind boards."""
    if hasattr(source, "boards") and source.fit is None:
        raise PlotError("these boards come from separate fits, which have no rank; fit one with lrbtl.fit(battles)")
    fit = getattr(source, "fit", source)
    if hasattr(fit, "singular_values"):
        return np.asarray(fit.singular_values[0])
    if hasattr(source, "models"):
        raise PlotError(f"a {type(source).__name__} holds no singular values: draw lrbtl.fit(battles)")
    return np.asarray(source, dtype=np.float64)


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
    values = np.asarray(z, dtype=np.float64).ravel()
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
