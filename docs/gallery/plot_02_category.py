"""
Who is best in one category?
============================

Any board can be drawn, here that of maths, and ``top=`` keeps the best.
"""

import lrbtl

boards = lrbtl.leaderboard(lrbtl.demo_battles(), context="all")
lrbtl.plot_leaderboard(boards["maths"], top=15)
