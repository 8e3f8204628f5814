"""
Do the scores predict the votes?
================================

Win rates of the favourite, predicted and observed, by size of the gap. Points on the line agree; those in
the second colour are off by more than chance.
"""

import lrbtl

lrbtl.plot_calibration(lrbtl.diagnose(lrbtl.demo_battles()))
