"""
Which ranks do the votes allow?
===============================

Thick bars are the ranks compatible with each model's own interval. Thin lines hold for all models simultaneously.
"""

import lrbtl

lrbtl.plot_ranks(lrbtl.leaderboard(lrbtl.demo_battles()), top=20)
