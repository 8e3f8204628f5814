"""In: votes. Out: the posterior of all scores under T = level + L + E + Z F, the default method.

Open first: `config`, then `method`, `expansion` (Laplace expansion at fixed hyperparameters) and `search` (which ones).
"""
