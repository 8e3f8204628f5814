"""
A newcomer with and without features
====================================

`model-00` has 20 votes, all others hundreds. On the right, size and family of the models inform its score.
"""

import matplotlib.pyplot as plt
import numpy as np

import lrbtl

rng = np.random.default_rng(1)
names = np.array([f"model-{k:02d}" for k in range(30)])
size, family = rng.normal(size=30), rng.choice(["ant", "bee", "cat"], 30)
gain = {"ant": 0.5, "bee": 0.0, "cat": -0.5}
skill = 0.8 * size + np.array([gain[x] for x in family]) + 0.4 * rng.normal(size=30)
a = np.append(rng.integers(1, 30, 4000), np.zeros(20, dtype=int))
b = np.append(1 + (a[:4000] - 1 + rng.integers(1, 29, 4000)) % 29, rng.integers(1, 30, 20))
won = rng.random(len(a)) < 1 / (1 + np.exp(skill[b] - skill[a]))
votes = lrbtl.Battles.from_arrays(names[a], names[b], won)
table = {"model": names.tolist(), "log_size": size.tolist(), "family": family.tolist()}
figure, axes = plt.subplots(1, 2, figsize=(13, 4.5), layout="constrained")
for ax, features in zip(axes, [None, table], strict=True):
    board = lrbtl.leaderboard(votes, features=features, min_battles=20)
    lrbtl.plot_leaderboard(board, top=12, date="", ax=ax)
