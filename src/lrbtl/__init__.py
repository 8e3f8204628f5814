"""Leaderboards from pairwise battles with honest uncertainty.

Names are imported when they are first used, so that `import lrbtl` costs little; `__init__.pyi` tells type checkers.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "battles": ["Battles"],
    "board": ["Leaderboard", "Leaderboards"],
    "bounds": ["efficiency_bound"],
    "comparison": ["Comparison", "WinMatrix", "compare", "win_matrix"],
    "completion": ["Observations"],
    "diagnostics": ["Diagnosis", "diagnose"],
    "estimate": ["Estimate"],
    "families": ["all_gaps", "all_scores"],
    "fitting": ["Fit", "fit"],
    "inference": ["infer"],
    "leaderboards": ["leaderboard"],
    "links": ["CustomLink", "Identity", "Link", "Logistic", "Probit"],
    "plotting": [
        "plot_heatmap",
        "plot_leaderboard",
        "plot_ranks",
        "plot_scree",
        "plot_win_matrix",
        "plot_z_histogram",
        "save_picture",
    ],
    "rank_selection": ["RankSelection", "select_rank"],
    "report": ["report_html", "write_report"],
    "sampling": ["ProductSampling", "TableSampling", "UniformSampling"],
    "separate": ["SeparateFit", "fit_separate"],
    "simulate": ["simulate_battles", "simulate_observations", "simulate_scores"],
    "targets": [
        "entry",
        "functional",
        "gap",
        "linear",
        "score",
        "tail_score",
        "tie_parameter",
        "weighted_score",
        "win_probability",
        "win_rate",
    ],
    "tie_comparison": ["TieComparison", "compare_ties"],
    "ties": ["Davidson", "RaoKupper"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("lrbtl.errors")
    if name == "__version__":
        return import_module("importlib.metadata").version("lrbtl")
    if name not in _HOME:
        raise AttributeError(f"module 'lrbtl' has no attribute {name!r}")
    value = getattr(import_module(f"lrbtl.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "errors"]
