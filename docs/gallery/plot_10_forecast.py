"""
What would a model score on the benchmarks that it was not run on?
==================================================================

A table of benchmark scores, half of it empty, completed. A dot marks a measured score; the wider the interval of a
forecast, the smaller its box.
"""

import numpy as np

import lrbtl

rng = np.random.default_rng(0)
logit = np.linspace(-1.5, 1.5, 24)[:, None] + rng.normal(size=12) + 0.3 * rng.normal(size=(24, 12))
seen = rng.random(logit.shape) < 0.5
table = {"model": [f"model-{k:02d}" for k in range(24)]}
for k in range(12):
    scores = 100 / (1 + np.exp(-logit[:, k]))
    table[f"bench-{k:02d}"] = [round(float(x), 1) if here else None for x, here in zip(scores, seen[:, k], strict=True)]
lrbtl.plot_completion(lrbtl.Results.from_wide(table))
