"""
How do two categories compare?
==============================

Pictures are drawn into axes of yours with ``ax=``.
"""

import matplotlib.pyplot as plt

import lrbtl

boards = lrbtl.leaderboard(lrbtl.demo_battles(), context="all")
figure, axes = plt.subplots(1, 2, figsize=(13, 4.5), layout="constrained")
for ax, category in zip(axes, ["coding", "creative writing"], strict=True):
    lrbtl.plot_leaderboard(boards[category], top=10, date="", ax=ax)
