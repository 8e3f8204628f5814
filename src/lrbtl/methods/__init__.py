"""In: a fit and targets.

Out: corrected values of the targets with the moments of their errors, by method.
Open first: `targets`, then `cross_fit`.
"""
