"""
Who beats whom?
===============

The chance that the row model beats the column model, for the twelve best. A small square means that the interval
contains 50%: too few votes to say who is better.
"""

import lrbtl

battles = lrbtl.demo_battles()
best = lrbtl.leaderboard(battles).models[:12]
lrbtl.plot_win_matrix(lrbtl.win_matrix(battles.select(models=best)))
