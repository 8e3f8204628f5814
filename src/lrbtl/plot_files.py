"""Pictures as files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lrbtl.errors import PlotError
from lrbtl.output import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    >>> from lrbtl.plotting import plot_scree
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_picture(plot_scree([9.1, 4.0, 0.6], rank=2), Path(folder) / "scree.svg")
    ...     sorted(os.listdir(folder))
    ['scree.svg']
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in DATED:
        raise PlotError(f"cannot tell the format of {path}; let it end in .png, .svg or .pdf")
    figure = ax.figure.figure  # the root figure, also of a subfigure
    with mpl.rc_context({"svg.hashsalt": "lrbtl"}):
        write_whole(path, lambda scratch: figure.savefig(scratch, format=kind, dpi=dpi, metadata=DATED[kind]))
    plt.close(figure)
