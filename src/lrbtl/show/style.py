"""Colours, sizes and label handling shared by all pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from datetime import date as Day
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lrbtl.errors import MissingExtraError, PlotError, check_whole, spelled
from lrbtl.tables import shown
from lrbtl.typing import Bools, Floats, Longs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import Colormap

    from lrbtl.boards.board import Leaderboard

ThemeName = Literal["light", "dark"]
MAX_LABEL = 36  # characters
UNITS = {"elo": "Elo score", "logit": "logit score", "probability": "win probability against the pool"}


@dataclass(frozen=True)
class Theme:
    """Colours of one theme; `main` and `accent` follow Okabe and Ito's colour-blind-safe palette."""

    background: str
    text: str
    muted: str
    grid: str
    band: str
    main: str
    accent: str
    diverging_stops: tuple[str, str, str, str, str]

    def diverging(self) -> Colormap:
        """Colour map whose quarters are far from its middle and from each other, also for colour-blind readers."""
        from matplotlib.colors import LinearSegmentedColormap

        return LinearSegmentedColormap.from_list("lrbtl", self.diverging_stops)


THEMES = {
    "light": Theme(
        background="#ffffff", text="#1f2328", muted="#59636e", grid="#dfe3e8", band="#f1f4f8",
        main="#0072b2", accent="#d55e00", diverging_stops=("#8f3a00", "#f0a35a", "#f4f4f1", "#6fb2dc", "#00487a"),
    ),
    "dark": Theme(
        background="#0f141a", text="#e6edf3", muted="#9aa4af", grid="#2b333c", band="#181f27",
        main="#56b4e9", accent="#e69f00", diverging_stops=("#ffb566", "#a35c14", "#1d242c", "#1f6c9e", "#8fd0ff"),
    ),
}  # fmt: skip


def find_theme(name: str) -> Theme:
    """Theme of that name."""
    if not isinstance(name, str) or name not in THEMES:
        raise PlotError(f"unknown theme {spelled(name)}; use one of {', '.join(map(repr, THEMES))}")
    return THEMES[name]


def check_top(top: object, least: int = 1) -> None:
    """Raise where a number of models to draw is none, or too small."""
    check_whole(top, "top", least, PlotError)


def short_label(label: object, length: int = MAX_LABEL) -> str:
    """Label on one line, with its middle left out where it is longer than `length`.

    >>> short_label("a-model-with-a-long-name", 11)
    'a-mod…-name'
    """
    text = shown(" ".join(str(label).split())) or "(no name)"
    if len(text) <= length:
        return text
    tail = (length - 1) // 2
    return f"{text[: length - 1 - tail]}…{text[-tail:]}"


def open_axes(ax: Axes | None, theme: Theme, width: float, height: float) -> Axes:
    """Axes in the theme's colours: `ax`, or those of a new figure of that size in inches."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib; install it with: pip install 'lrbtl[plot]'") from error

    if ax is not None and not (hasattr(ax, "figure") and hasattr(ax, "spines")):
        raise PlotError(f"ax={spelled(ax)}: give axes of matplotlib, or leave it out.")
    if ax is None:
        figure, ax = plt.subplots(figsize=(width, height), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # type: ignore[call-arg, union-attr]
    ax.figure.set_facecolor(theme.background)
    ax.set_facecolor(theme.background)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(colors=theme.muted, length=0, labelsize=8.5)
    ax.set_axisbelow(True)
    return ax


def mark_thousands(axis: Axis) -> None:
    """Write the numbers of an axis with commas between thousands, as boards do."""
    axis.set_major_formatter("{x:,g}")


def shown_date(date: Day | str | None) -> str:
    """Return a date in words that every reader understands in one way; None is today.

    >>> shown_date(Day(2026, 11, 3)), shown_date("week 7")
    ('3 November 2026', 'week 7')
    """
    day = datetime.now(UTC) if date is None else date
    if not isinstance(day, str | Day) or day != day:  # NaT is a date of pandas
        raise PlotError(f"date={spelled(date)}: give a date or a text.")
    return day if isinstance(day, str) else f"{day.day} {day:%B %Y}"


def join_words(*words: str) -> str:
    """Return the words that are not empty as one line."""
    return " · ".join(filter(None, words))


def mark_whole_numbers(ax: Axes) -> None:
    """Put the ticks of the horizontal axis at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def row_size(n_rows: int) -> tuple[float, float]:
    """Height of a row in inches and the font size that suits it: long boards are set tighter."""
    share = min(max((n_rows - 40) / 120, 0.0), 1.0)
    return 0.25 - 0.10 * share, 8.5 - 1.7 * share


def label_width(labels: Sequence[str], fontsize: float) -> float:
    """Width in inches to keep for labels."""
    return max((len(short_label(label)) for label in labels), default=0) * 0.62 * fontsize / 72


def write_title(ax: Axes, theme: Theme, title: str, subtitle: str, lift: float = 0.0) -> None:
    """Left-aligned title with a quieter line below it, raised by `lift` points."""
    for text, height, size, weight, color in (
        (title, 26, 11, "bold", theme.text),
        (subtitle, 10, 8.5, "normal", theme.muted),
    ):
        ax.annotate(
            text, (0, 1), (0, height + lift), xycoords="axes fraction", textcoords="offset points",
            color=color, fontsize=size, fontweight=weight, va="bottom", parse_math=False,
        )  # fmt: skip


def label_rows(
    ax: Axes, theme: Theme, labels: Sequence[str], fontsize: float, ranks: Sequence[str] | None = None
) -> None:
    """Name rows 0, 1, ... from the top down, with ranks between the names and the axes where they are given."""
    ax.set_yticks(range(len(labels)), [short_label(label) for label in labels], parse_math=False)
    space = 0.0 if ranks is None else 4 + 0.62 * fontsize * max(map(len, ranks))
    ax.tick_params(axis="y", labelsize=fontsize, labelcolor=theme.text, pad=6 + space)
    for i, rank in enumerate(ranks or ()):
        ax.annotate(
            rank, (0, i), (-6, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
            ha="right", va="center_baseline", color=theme.muted, fontsize=fontsize,
        )  # fmt: skip
    ax.set_ylim(len(labels) - 0.5, -0.5)


def places(numbers: Longs) -> list[str]:
    """Ranks or tiers as text; a dash for a model without one."""
    return [str(k) if k else "–" for k in numbers.tolist()]


def label_columns(ax: Axes, theme: Theme, labels: Sequence[str], fontsize: float, length: int = MAX_LABEL) -> None:
    """Name columns 0, 1, ... above the axes, slanted where labels are short."""
    ax.set_xlim(-0.5, len(labels) - 0.5)
    slant = {"rotation": 40, "ha": "left", "rotation_mode": "anchor"} if length < MAX_LABEL else {"rotation": 90}
    ax.set_xticks(range(len(labels)), [short_label(label, length) for label in labels], parse_math=False, **slant)
    ax.tick_params(axis="x", top=True, labeltop=True, labelbottom=False, labelsize=fontsize, labelcolor=theme.text)


def add_colorbar(ax: Axes, theme: Theme, squares: PatchCollection, words: str, **options: Any) -> None:
    """Put a horizontal colour bar below the axes, with words under it."""
    bar = ax.figure.colorbar(squares, ax=ax, orientation="horizontal", **options)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=theme.muted, labelsize=8, length=0)
    bar.set_label(words, color=theme.muted, fontsize=8)


def grid_rows(ax: Axes, theme: Theme, n_rows: int) -> float:
    """Draw the grid of a board and return by how many points the title moves up for a second axis on long ones."""
    ax.grid(axis="x", color=theme.grid, linewidth=0.7)
    ax.grid(axis="y", color=theme.grid, linewidth=0.35)
    twice = n_rows > 50
    ax.tick_params(axis="x", labeltop=twice)
    return 14.0 if twice else 0.0


def shade_runs(ax: Axes, theme: Theme, groups: Sequence[int]) -> None:
    """Shade every second run of equal values in `groups`, one value per row."""
    starts = [i for i in range(len(groups)) if i == 0 or groups[i] != groups[i - 1]]
    for start, stop in zip(starts[1::2], [*starts[2::2], len(groups)], strict=False):
        ax.axhspan(start - 0.5, stop - 0.5, color=theme.band, linewidth=0, zorder=0)


# ------------------------------------------------------------------------------
# The axis on which a board's scores and intervals are drawn, the same in pictures and reports.
# ------------------------------------------------------------------------------

WIDE = 3.0  # times the median width: intervals up to it always fit on the axis,
SHARE = 0.25  # and so do those up to this share of the range of the scores
FENCES = 1.5, 3.0  # times the quartile range, below and above the quartiles: scores farther out do not stretch the axis
STRETCH = 0.15  # share of the axis, by which a far score may stretch it all the same
MARGIN = 0.04


def board_axis(board: Leaderboard, n: int | None = None) -> tuple[float, float] | None:
    """Return the ends of the axis of a board's first n rows: those of its ranked models, where there are some."""
    ranked = board.rank[:n] > 0
    rows = np.flatnonzero(ranked | ~ranked.any())
    return axis_range(board.score[rows], board.lower[rows], board.upper[rows])


def axis_range(score: Floats, lower: Floats, upper: Floats) -> tuple[float, float] | None:
    """Return the ends of an axis that follows the bulk of scores and intervals, or None where nothing is finite.

    A few very wide intervals or far scores do not stretch it: they go on beyond its ends.

    >>> score, half = np.array([1100.0, 1000.0, 900.0, 1000.0]), np.array([20.0, 20.0, 20.0, 500.0])
    >>> axis_range(score, score - half, score + half)
    (870.4, 1129.6)
    """
    score, lower, upper = (np.asarray(x, dtype=np.float64) for x in (score, lower, upper))
    known = np.isfinite(score)
    if not known.any():
        ends = np.concatenate([lower[np.isfinite(lower)], upper[np.isfinite(upper)]])
    else:
        near = known.copy()
        near[known] = _within_fences(score[known])
        width = np.where(np.isfinite(lower) & np.isfinite(upper), upper - lower, np.inf)
        usual = WIDE * float(np.median(width[near & np.isfinite(width)])) if np.isfinite(width[near]).any() else 0.0
        fits = near & (width <= max(usual, SHARE * float(np.ptp(score[near]))))
        ends = np.concatenate([score[fits], lower[fits], upper[fits]]) if fits.any() else score[near]
    if not ends.size:
        return None
    low, high = float(ends.min()), float(ends.max())
    margin = MARGIN * (high - low) or 1.0
    return low - margin, high + margin


def _within_fences(score: Floats) -> Bools:
    """Whether scores lie near the bulk of them; a side that would stretch the axis only little is kept whole."""
    first, third = np.quantile(score, [0.25, 0.75], method="lower")  # scores themselves: equal ones stay equal
    low, high = first - FENCES[0] * (third - first), third + FENCES[1] * (third - first)
    if low - score.min() <= STRETCH * (high - low):
        low = score.min()
    if score.max() - high <= STRETCH * (high - low):
        high = score.max()
    return np.asarray((score >= low) & (score <= high))
