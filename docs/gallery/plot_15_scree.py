"""
How many factors do the votes ask for?
======================================

Singular values of a fit whose rank is larger than the truth: three are above the noise.
"""

import lrbtl

truth = lrbtl.simulate_scores((30, 10), 3, scale=2.5, rng=0)
battles = lrbtl.simulate_battles(truth, 60_000, rng=1)
lrbtl.plot_scree(lrbtl.fit(battles, 8), 3)
