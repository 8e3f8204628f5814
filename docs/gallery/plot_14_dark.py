"""
How does it look on a dark page?
================================

Every picture has a dark theme, for slides and dark pages.
"""

import lrbtl

lrbtl.plot_leaderboard(lrbtl.leaderboard(lrbtl.demo_battles()), top=15, theme="dark")
