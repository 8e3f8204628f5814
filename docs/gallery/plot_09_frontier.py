"""
Which models are worth their price?
===================================

Scores with intervals against cost. A model on the frontier is shown to be better than every model that costs no more; a
dominated one is shown to be worse than one that costs no more.
"""

import lrbtl

battles = lrbtl.demo_battles()
unit = {"nano": 0.1, "small": 0.5, "medium": 2.0, "large": 8.0}
sized = [model for model in battles.models if model.split("-")[1] in unit]
cost = {model: unit[model.split("-")[1]] * (1 + 0.06 * k) for k, model in enumerate(sized)}
lrbtl.plot_choice(lrbtl.choose(battles, cost))
