"""
A board
=======

Score and interval of each model, best first.
"""

import lrbtl

truth = lrbtl.simulate_scores((12, 4), 2, scale=2, rng=0)
battles = lrbtl.simulate_battles(truth, 20_000, rng=1)
lrbtl.plot_leaderboard(lrbtl.leaderboard(battles))
