"""In: votes as columns, frames or files, and observed entries.

Out: `Battles` and `Results`: counted cells with their labels, connected parts and folds.
Open first: `battles`; `cells` is what all numerics read.
"""
