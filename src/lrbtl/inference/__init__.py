"""In: battles and targets.

Out: an `Estimate` (values, joint covariance, intervals, tests), efficiency bounds, a diagnosis of the fit.
Open first: `infer`; `estimate` is what it returns.
"""
