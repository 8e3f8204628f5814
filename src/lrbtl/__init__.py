"""Leaderboards from pairwise battles with honest uncertainty."""

from lrbtl.sampling import ProductSampling, TableSampling, UniformSampling

__all__ = ["ProductSampling", "TableSampling", "UniformSampling"]
