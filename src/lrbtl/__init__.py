"""Leaderboards from pairwise battles with honest uncertainty."""

from lrbtl.battles import Battles
from lrbtl.sampling import ProductSampling, TableSampling, UniformSampling
from lrbtl.separate import fit_separate
from lrbtl.simulate import simulate_battles, simulate_scores

__all__ = [
    "Battles",
    "ProductSampling",
    "TableSampling",
    "UniformSampling",
    "fit_separate",
    "simulate_battles",
    "simulate_scores",
]
