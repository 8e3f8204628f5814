"""In: data, options, and targets resolved to positions.

Out: a `Run` of a method on the data, which gives the moments of any targets and boards.
Open first: `base`, then `efficient` (or `naive`, the shortest); the folder `hierarchical` has the default.
"""
