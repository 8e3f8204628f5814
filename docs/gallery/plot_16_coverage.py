"""
Do the intervals hold?
======================

Errors of all scores in units of their standard errors, against the standard normal law. With real data nobody knows the
truth; with simulated votes everybody does.
"""

import numpy as np

import lrbtl

truth = lrbtl.simulate_scores((30, 8), 2, scale=2, rng=0)
z = []
for seed in range(3):
    battles = lrbtl.simulate_battles(truth, 30_000, rng=seed)
    targets = [lrbtl.score(model, level) for model in range(30) for level in range(8)]
    found = lrbtl.infer(battles, targets)
    z.append((found.estimate - truth.reshape(-1)) / found.se)
lrbtl.plot_z_histogram(np.concatenate(z))
