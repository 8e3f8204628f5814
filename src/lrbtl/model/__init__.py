"""In: scores of models in contexts.

Out: laws of a response (links, effects that all share), laws of who meets whom, simulated battles.
Open first: `links`.
"""
