"""Leaderboards from pairwise battles with honest uncertainty."""

from lrbtl.battles import Battles
from lrbtl.plotting import (
    plot_heatmap,
    plot_leaderboard,
    plot_ranks,
    plot_scree,
    plot_win_matrix,
    plot_z_histogram,
)
from lrbtl.report import report_html, write_report
from lrbtl.sampling import ProductSampling, TableSampling, UniformSampling
from lrbtl.separate import fit_separate
from lrbtl.simulate import simulate_battles, simulate_scores

__all__ = [
    "Battles",
    "ProductSampling",
    "TableSampling",
    "UniformSampling",
    "fit_separate",
    "plot_heatmap",
    "plot_leaderboard",
    "plot_ranks",
    "plot_scree",
    "plot_win_matrix",
    "plot_z_histogram",
    "report_html",
    "simulate_battles",
    "simulate_scores",
    "write_report",
]
