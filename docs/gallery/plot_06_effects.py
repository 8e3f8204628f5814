"""
What do length and position do to a vote?
=========================================

Votes prefer long answers and the answer shown first. The board controls for both; the picture shows how many points
of win probability each is worth between equal models. Here 0.3 and 0.2 logits are in the simulated votes.
"""

import numpy as np

import lrbtl

rng = np.random.default_rng(0)
n, skill = 6000, np.array([0.6, 0.2, -0.2, -0.6])
a = rng.integers(4, size=n)
b = (a + rng.integers(1, 4, n)) % 4
tokens = rng.integers(50, 900, (2, n))
longer = (tokens[0] - tokens[1]) / tokens.sum(axis=0)
citations = rng.integers(0, 5, (2, n))  # do nothing
eta = skill[a] - skill[b] + 0.3 * longer / longer.std() + 0.2
won = rng.random(n) < 1 / (1 + np.exp(-eta))
frame = {"model_a": a, "model_b": b, "winner": won, "tokens_a": tokens[0], "tokens_b": tokens[1]}
frame |= {"citations_a": citations[0], "citations_b": citations[1]}
pairs = {
    "length": ("tokens_a", "tokens_b"),
    "citations": ("citations_a", "citations_b", "difference"),
}
battles = lrbtl.Battles.from_frame(frame, covariates=pairs, position=True)
lrbtl.plot_effects(lrbtl.leaderboard(battles))
