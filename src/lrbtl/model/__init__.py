"""In: scores of models in contexts.

Out: laws of a response (links, with and without ties), laws of who meets whom, simulated battles.
Open first: `links`.
"""
