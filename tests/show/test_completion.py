"""The heat map of the completed table."""

import numpy as np
import pytest

import lrbtl
from lrbtl.errors import PlotError
from lrbtl.show.completion import results_html

pytest.importorskip("matplotlib")


def test_measured_cells_have_dots_and_forecasts_are_smaller():
    results = lrbtl.Results.from_wide(
        {"model": list("abcdef"), "math": [70, 60, 50, 40, 30, 20], "code": [50, 41, 29, None, 12, None]}
    )
    ax = lrbtl.plot_completion(results)
    dots = ax.collections[1].get_offsets()
    assert len(dots) == 10
    sides = np.array([path.get_extents().width for path in ax.collections[0].get_paths()])
    assert (sides > 0.9).sum() >= 10 and sides.min() < 0.9
    assert len(lrbtl.plot_completion(results, top=2).get_xticks()) == 2
    lrbtl.plot_completion(results).figure.clear()
    with pytest.raises(PlotError, match="factor model"):
        lrbtl.plot_completion(lrbtl.analyse(lrbtl.demo_battles().select(models=lrbtl.demo_battles().models[:3])))


def test_the_page_needs_results():
    boards = lrbtl.leaderboard(
        lrbtl.Results.from_wide({"model": list("abc"), "x": [1, 2, 3], "y": [2, 3, None]}), context="all"
    )
    assert results_html(boards, title="<T>").count("<details>") == 2 + 3
    with pytest.raises(PlotError, match="make them again"):
        results_html(lrbtl.Leaderboards(boards.overall, {}))
