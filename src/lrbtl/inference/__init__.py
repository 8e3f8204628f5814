"""In: battles and targets.

Out: an `Analysis`, from it any `Estimate` (values, joint covariance, intervals, tests); bounds; a diagnosis of the fit.
Open first: `analysis`; `estimate` is what it returns.
"""
