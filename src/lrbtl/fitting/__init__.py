"""In: battles or observations, a link, a rank and a ridge, or "auto" for either.

Out: low-rank fits, separate Bradley-Terry fits, the choice between ranks.
Open first: `fit`; `design` holds the cells, `local` all that they say at a point.
"""
