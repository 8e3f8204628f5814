"""Every script of the gallery draws a picture; the documentation site shows them."""

import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

SCRIPTS = sorted((Path(__file__).parents[1] / "docs" / "gallery").glob("plot_*.py"))


def test_there_are_ten_pictures():
    assert len(SCRIPTS) >= 10


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_draws(script):
    plt.close("all")
    runpy.run_path(str(script))
    assert len(plt.get_fignums()) == 1
    plt.close("all")
