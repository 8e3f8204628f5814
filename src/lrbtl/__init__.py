"""Leaderboards from pairwise battles with honest uncertainty.

Names are imported when they are first used, so that `import lrbtl` costs little; `__init__.pyi` is for type checkers.
"""

from importlib import import_module
from typing import Any

_HOMES = [
    ("boards.board", ["Leaderboard", "Leaderboards"]),
    ("boards.changes", ["Changes", "changes"]),
    ("boards.choose", ["Choice", "choose"]),
    ("boards.routing", ["Routing"]),
    ("boards.comparison", ["Comparison", "WinMatrix", "compare", "win_matrix"]),
    ("boards.forecast", ["Forecast", "forecast"]),
    ("boards.history", ["History", "history"]),
    ("boards.influence", ["Influence", "influence"]),
    ("boards.leaderboard", ["leaderboard"]),
    ("boards.gate", ["Gate", "gate"]),
    ("boards.planned_errors", ["VotesNeeded", "votes_needed"]),
    ("boards.plan", ["Plan", "plan"]),
    ("boards.result_plan", ["RunPlan"]),
    ("boards.stability", ["Stability", "stability"]),
    ("boards.watch", ["Watch", "watch"]),
    ("data.battles", ["Battles"]),
    ("data.observations", ["Results"]),
    ("boards.rank_sets", ["RankSets", "TopTest", "rank_sets"]),
    ("fitting.altmin", ["alternating_minimisation", "refine_entries", "spectral_initialisation"]),
    ("fitting.fit", ["fit"]),
    ("fitting.low_rank", ["Fit"]),
    ("fitting.select_rank", ["RankSelection", "select_rank"]),
    ("fitting.separate", ["SeparateFit", "fit_separate"]),
    ("inference.algorithms", ["OneStep", "one_step"]),
    ("hierarchical.config", ["HierarchicalConfig"]),
    ("inference.analysis", ["Analysis", "analyse", "infer"]),
    ("inference.bounds", ["efficiency_bound"]),
    ("inference.calibration", ["Calibration", "LinkComparison", "compare_links"]),
    ("inference.diagnose", ["Diagnosis", "FitDiagnosis", "diagnose"]),
    ("inference.effects", ["EffectEstimate"]),
    ("inference.estimate", ["Estimate"]),
    ("inference.information", ["Information", "InfluenceFunction", "information"]),
    ("inference.remainders", ["Remainders", "remainder_terms"]),
    ("inference.selection", ["Selected"]),
    ("inference.targets", ["all_gaps", "all_scores", "effect", "entry", "functional", "gap", "linear", "score"]),
    ("inference.targets", ["tail_score", "tie_parameter", "weighted_score", "win_probability", "win_rate"]),
    ("inference.verdicts", ["Verdicts"]),
    ("methods.base", ["Improvements"]),
    ("model.links", ["Cauchit", "CustomLink", "Davidson", "Identity", "Link", "Logistic", "Probit", "RaoKupper"]),
    ("model.sampling", ["ProductSampling", "TableSampling", "UniformSampling"]),
    ("model.simulate", ["demo_battles", "simulate_battles", "simulate_observations", "simulate_scores"]),
    ("show.completion", ["plot_completion"]),
    ("show.plots", ["plot_calibration", "plot_changes", "plot_choice", "plot_effects", "plot_heatmap", "plot_history"]),
    ("show.plots", ["plot_leaderboard", "plot_plan", "plot_ranks", "plot_scree", "plot_win_matrix"]),
    ("show.plots", ["plot_z_histogram", "save_picture"]),
    ("show.report", ["report_html", "write_report"]),
]
# What people use first, in the order of use: `dir(lrbtl)` leads with these. All other names keep working on top.
_FIRST = [
    "Battles",
    "leaderboard",
    "analyse",
    "compare",
    "gate",
    "infer",
    "gap",
    "score",
    "win_probability",
    "win_rate",
]
_FIRST += ["win_matrix", "changes", "history", "plan", "votes_needed", "choose", "watch", "influence", "diagnose"]
_FIRST += ["forecast", "report_html", "write_report", "plot_leaderboard", "save_picture", "demo_battles"]
_FIRST += ["Analysis", "Estimate", "Leaderboard", "Leaderboards", "Results"]
_MODULES = {"errors": "lrbtl.errors", "plots": "lrbtl.show.plots", "links": "lrbtl.model.links"}
_MODULES |= {
    "targets": "lrbtl.inference.targets",
    "sampling": "lrbtl.model.sampling",
    "simulate": "lrbtl.model.simulate",
}
_HOME = {name: module for module, names in _HOMES for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name == "__version__":
        return import_module("importlib.metadata").version("lrbtl")
    if name not in _HOME:
        raise AttributeError(f"module 'lrbtl' has no attribute {name!r}")
    value = getattr(import_module(f"lrbtl.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_FIRST, *_MODULES, "__version__"]
