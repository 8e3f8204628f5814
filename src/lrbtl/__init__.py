"""Leaderboards from pairwise battles with honest uncertainty."""

from lrbtl.battles import Battles
from lrbtl.sampling import ProductSampling, TableSampling, UniformSampling

__all__ = ["Battles", "ProductSampling", "TableSampling", "UniformSampling"]
