"""
Where should the next votes go?
===============================

A plan of 2,000 votes that narrow down who is first. The larger a square, the more votes of that pair.
"""

import lrbtl

battles = lrbtl.demo_battles()
lrbtl.plot_plan(lrbtl.plan(battles, 2_000, goal=("top", 1)), top=15)
