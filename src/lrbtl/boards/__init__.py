"""In: battles, or an analysis of them.

Out: leaderboards per context and overall, head-to-head comparisons, win matrices, other packages' boards.
Open first: `leaderboard`; `board` is what it returns.
"""
