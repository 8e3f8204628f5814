from lrbtl.battles import Battles
from lrbtl.board import Leaderboard, Leaderboards
from lrbtl.bounds import efficiency_bound
from lrbtl.comparison import Comparison, WinMatrix, compare, win_matrix
from lrbtl.completion import Observations
from lrbtl.diagnostics import Diagnosis, diagnose
from lrbtl.estimate import Estimate
from lrbtl.families import all_gaps, all_scores
from lrbtl.fitting import Fit, fit
from lrbtl.inference import infer
from lrbtl.leaderboards import leaderboard
from lrbtl.links import CustomLink, Identity, Link, Logistic, Probit
from lrbtl.plotting import (
    plot_heatmap,
    plot_leaderboard,
    plot_ranks,
    plot_scree,
    plot_win_matrix,
    plot_z_histogram,
    save_picture,
)
from lrbtl.rank_selection import RankSelection, select_rank
from lrbtl.report import report_html, write_report
from lrbtl.sampling import ProductSampling, TableSampling, UniformSampling
from lrbtl.separate import SeparateFit, fit_separate
from lrbtl.simulate import simulate_battles, simulate_observations, simulate_scores
from lrbtl.targets import (
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
from lrbtl.tie_comparison import TieComparison, compare_ties
from lrbtl.ties import Davidson, RaoKupper

__version__: str

__all__ = [
    "Battles",
    "Comparison",
    "CustomLink",
    "Davidson",
    "Diagnosis",
    "Estimate",
    "Fit",
    "Identity",
    "Leaderboard",
    "Leaderboards",
    "Link",
    "Logistic",
    "Observations",
    "Probit",
    "ProductSampling",
    "RankSelection",
    "RaoKupper",
    "SeparateFit",
    "TableSampling",
    "TieComparison",
    "UniformSampling",
    "WinMatrix",
    "all_gaps",
    "all_scores",
    "compare",
    "compare_ties",
    "diagnose",
    "efficiency_bound",
    "entry",
    "fit",
    "fit_separate",
    "functional",
    "gap",
    "infer",
    "leaderboard",
    "linear",
    "plot_heatmap",
    "plot_leaderboard",
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
    "weighted_score",
    "win_matrix",
    "win_probability",
    "win_rate",
    "write_report",
]
