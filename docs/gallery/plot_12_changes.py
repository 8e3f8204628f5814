"""
What changed since the last board?
==================================

Last month's board beside this month's, of new votes. Significant changes (family-wise 5%) have the second colour.
"""

import lrbtl

truth = lrbtl.simulate_scores((20, 4), 2, scale=2, rng=0)
before = lrbtl.simulate_battles(truth, 8_000, rng=1)
truth[3] += 0.8  # a new version under the old name
after = lrbtl.simulate_battles(truth - truth.mean(axis=0), 8_000, rng=2)
lrbtl.plot_changes(lrbtl.changes(lrbtl.leaderboard(before), lrbtl.leaderboard(after)))
