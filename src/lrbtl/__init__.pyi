from lrbtl import errors as errors
from lrbtl.boards.board import Leaderboard, Leaderboards
from lrbtl.boards.changes import Changes, changes
from lrbtl.boards.comparison import Comparison, WinMatrix, compare, win_matrix
from lrbtl.boards.gate import Gate, gate
from lrbtl.boards.history import History, history
from lrbtl.boards.influence import Influence, influence
from lrbtl.boards.leaderboard import leaderboard
from lrbtl.boards.outlook import VotesNeeded, votes_needed
from lrbtl.boards.plan import Plan, plan
from lrbtl.data.battles import Battles
from lrbtl.data.observations import Observations
from lrbtl.fitting.fit import Fit, fit
from lrbtl.fitting.select_rank import RankSelection, select_rank
from lrbtl.fitting.separate import SeparateFit, fit_separate
from lrbtl.inference.analysis import Analysis, analyse, infer
from lrbtl.inference.bounds import efficiency_bound
from lrbtl.inference.calibration import Calibration, LinkComparison, compare_links
from lrbtl.inference.diagnose import Diagnosis, FitDiagnosis, diagnose
from lrbtl.inference.effects import EffectEstimate
from lrbtl.inference.estimate import Estimate
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
from lrbtl.model.links import Cauchit, CustomLink, Davidson, Identity, Link, Logistic, Probit, RaoKupper
from lrbtl.model.sampling import ProductSampling, TableSampling, UniformSampling
from lrbtl.model.simulate import demo_battles, simulate_battles, simulate_observations, simulate_scores
from lrbtl.show import plots as plots
from lrbtl.show.plots import (
    plot_calibration,
    plot_changes,
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
    "Comparison",
    "CustomLink",
    "Davidson",
    "Diagnosis",
    "EffectEstimate",
    "Estimate",
    "Fit",
    "FitDiagnosis",
    "Gate",
    "History",
    "Identity",
    "Influence",
    "Leaderboard",
    "Leaderboards",
    "Link",
    "LinkComparison",
    "Logistic",
    "Observations",
    "Plan",
    "Probit",
    "ProductSampling",
    "RankSelection",
    "RaoKupper",
    "SeparateFit",
    "TableSampling",
    "UniformSampling",
    "Verdicts",
    "VotesNeeded",
    "WinMatrix",
    "all_gaps",
    "all_scores",
    "analyse",
    "changes",
    "compare",
    "compare_links",
    "demo_battles",
    "diagnose",
    "effect",
    "efficiency_bound",
    "entry",
    "fit",
    "fit_separate",
    "functional",
    "gap",
    "gate",
    "history",
    "infer",
    "influence",
    "leaderboard",
    "linear",
    "plan",
    "plot_calibration",
    "plot_changes",
    "plot_effects",
    "plot_heatmap",
    "plot_history",
    "plot_leaderboard",
    "plot_plan",
    "plot_ranks",
    "plot_scree",
    "plot_win_matrix",
    "plot_z_histogram",
    "report_html",
    "save_picture",
    "score",
    "select_rank",
    "simulate_battles",
    "simulate_observations",
    "simulate_scores",
    "tail_score",
    "tie_parameter",
    "votes_needed",
    "weighted_score",
    "win_matrix",
    "win_probability",
    "win_rate",
    "write_report",
]
