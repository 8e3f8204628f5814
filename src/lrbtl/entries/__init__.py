"""In: results, scores of models on benchmarks.

Out: `FactorMethod`, the default method for results: a hierarchical factor model, whose draws every target reads.
Start with `sampler.py`, which states the model.
"""
