"""
Where is a model stronger or weaker than overall?
=================================================

Each model's score in each category, relative to its overall score. A smaller box has a wider interval; a dot marks a
category whose interval excludes the overall score.
"""

import lrbtl

lrbtl.plot_heatmap(lrbtl.leaderboard(lrbtl.demo_battles(), context="all"))
