"""
Who leads, and by how much?
===========================

Rank, score with its interval, tier and votes of each model. Every second tier is shaded; models without a rank follow
below a line, and an interval that is too wide for the axis ends in an arrow.
"""

import lrbtl

battles = lrbtl.demo_battles()
lrbtl.plot_leaderboard(lrbtl.leaderboard(battles))
