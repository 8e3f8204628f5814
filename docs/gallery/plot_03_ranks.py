"""
Which ranks the votes allow
===========================

Thick bars hold the ranks that are compatible with the intervals of all models taken one at a time. Thin lines hold for
all models at once.
"""

import lrbtl

lrbtl.plot_ranks(lrbtl.leaderboard(lrbtl.demo_battles()), top=20)
