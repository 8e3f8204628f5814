"""Leaderboards from pairwise battles with honest uncertainty."""
