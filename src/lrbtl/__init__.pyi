from lrbtl import errors as errors
from lrbtl.boards.board import Leaderboard, Leaderboards
from lrbtl.boards.changes import Changes, changes
from lrbtl.boards.choose import Choice, choose
from lrbtl.boards.comparison import Comparison, WinMatrix, compare, win_matrix
from lrbtl.boards.forecast import Forecast, forecast
from lrbtl.boards.gate import Gate, gate
from lrbtl.boards.history import History, history
from lrbtl.boards.influence import Influence, influence
from lrbtl.boards.leaderboard import leaderboard
from lrbtl.boards.plan import Plan, plan
from lrbtl.boards.planned_errors import VotesNeeded, votes_needed
from lrbtl.boards.rank_sets import RankSets, TopTest, rank_sets
from lrbtl.boards.result_plan import RunPlan
from lrbtl.boards.routing import Routing
from lrbtl.boards.stability import Stability, stability
from lrbtl.boards.watch import Watch, watch
from lrbtl.data.battles import Battles
from lrbtl.data.observations import Results
from lrbtl.fitting.altmin import alternating_minimisation, refine_entries, spectral_initialisation
from lrbtl.fitting.fit import fit
from lrbtl.fitting.low_rank import Fit
from lrbtl.fitting.select_rank import RankSelection, select_rank
from lrbtl.fitting.separate import SeparateFit, fit_separate
from lrbtl.hierarchical.config import HierarchicalConfig
from lrbtl.inference import targets as targets
from lrbtl.inference.algorithms import OneStep, one_step
from lrbtl.inference.analysis import Analysis, analyse, infer
from lrbtl.inference.bounds import efficiency_bound
from lrbtl.inference.calibration import Calibration, LinkComparison, compare_links
from lrbtl.inference.diagnose import Diagnosis, FitDiagnosis, diagnose
from lrbtl.inference.effects import EffectEstimate
from lrbtl.inference.estimate import Estimate
from lrbtl.inference.information import InfluenceFunction, Information, information
from lrbtl.inference.remainders import Remainders, remainder_terms
from lrbtl.inference.selection import Selected
from lrbtl.inference.targets import (
    all_gaps,
    all_scores,
    effect,
    entry,
    functional,
    gap,
    linear,
    score,
    tail_score,
    tie_parameter,
    weighted_score,
    win_probability,
    win_rate,
)
from lrbtl.inference.verdicts import Verdicts
from lrbtl.methods.base import Improvements
from lrbtl.model import links as links
from lrbtl.model import sampling as sampling
from lrbtl.model import simulate as simulate
from lrbtl.model.links import Cauchit, CustomLink, Davidson, Identity, Link, Logistic, Probit, RaoKupper
from lrbtl.model.sampling import ProductSampling, TableSampling, UniformSampling
from lrbtl.model.simulate import demo_battles, simulate_battles, simulate_observations, simulate_scores
from lrbtl.show import plots as plots
from lrbtl.show.completion import plot_completion
from lrbtl.show.plots import (
    plot_calibration,
    plot_changes,
    plot_choice,
    plot_effects,
    plot_heatmap,
    plot_history,
    plot_leaderboard,
    plot_plan,
    plot_ranks,
    plot_scree,
    plot_win_matrix,
    plot_z_histogram,
    save_picture,
)
from lrbtl.show.report import report_html, write_report

__version__: str

__all__ = [
    "Analysis",
    "Battles",
    "Calibration",
    "Cauchit",
    "Changes",
    "Choice",
    "Comparison",
    "CustomLink",
    "Davidson",
    "Diagnosis",
    "EffectEstimate",
    "Estimate",
    "Fit",
    "FitDiagnosis",
    "Forecast",
    "Gate",
    "HierarchicalConfig",
    "History",
    "Identity",
    "Improvements",
    "Influence",
    "InfluenceFunction",
    "Information",
    "Leaderboard",
    "Leaderboards",
    "Link",
    "LinkComparison",
    "Logistic",
    "OneStep",
    "Plan",
    "Probit",
    "ProductSampling",
    "RankSelection",
    "RankSets",
    "RaoKupper",
    "Remainders",
    "Results",
    "Routing",
    "RunPlan",
    "Selected",
    "SeparateFit",
    "Stability",
    "TableSampling",
    "TopTest",
    "UniformSampling",
    "Verdicts",
    "VotesNeeded",
    "Watch",
    "WinMatrix",
    "all_gaps",
    "all_scores",
    "alternating_minimisation",
    "analyse",
    "changes",
    "choose",
    "compare",
    "compare_links",
    "demo_battles",
    "diagnose",
    "effect",
    "efficiency_bound",
    "entry",
    "fit",
    "fit_separate",
    "forecast",
    "functional",
    "gap",
    "gate",
    "history",
    "infer",
    "influence",
    "information",
    "leaderboard",
    "linear",
    "one_step",
    "plan",
    "plot_calibration",
    "plot_changes",
    "plot_choice",
    "plot_completion",
    "plot_effects",
    "plot_heatmap",
    "plot_history",
    "plot_leaderboard",
    "plot_plan",
    "plot_ranks",
    "plot_scree",
    "plot_win_matrix",
    "plot_z_histogram",
    "rank_sets",
    "refine_entries",
    "remainder_terms",
    "report_html",
    "save_picture",
    "score",
    "select_rank",
    "simulate_battles",
    "simulate_observations",
    "simulate_scores",
    "spectral_initialisation",
    "stability",
    "tail_score",
    "tie_parameter",
    "votes_needed",
    "watch",
    "weighted_score",
    "win_matrix",
    "win_probability",
    "win_rate",
    "write_report",
]
