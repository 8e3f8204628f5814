"""
How did ratings move over time?
===============================

Each model's rating moves by a random walk whose step is found from the votes. Here it drifts in a simulated year.
"""

import numpy as np

import lrbtl

rng = np.random.default_rng(3)
drift = np.cumsum(rng.normal(0, 0.12, (8, 12)), axis=1)
truth = np.linspace(0.9, -0.9, 8)[:, None] + drift
battles = lrbtl.simulate_battles(truth - truth.mean(axis=0), 24_000, rng=1)
lrbtl.plot_history(lrbtl.history(battles))
