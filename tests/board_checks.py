"""What tests of boards share."""

import math

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

import lrbtl

ELO = 400 / math.log(10)


def in_order(board, battles):
    """Positions on the board of the models in the battles' order."""
    place = {model: k for k, model in enumerate(board.models)}
    return np.array([place[model] for model in battles.models])


def twin(battles):
    """Bradley-Terry scores and HC3 covariance by general-purpose tools."""
    cells, d = battles.cells, len(battles.models)
    rows = np.repeat(np.arange(cells.n_cells), cells.count)
    X = np.zeros((rows.size, d))
    X[np.arange(rows.size), cells.a[rows]], X[np.arange(rows.size), cells.b[rows]] = 1, -1
    y = cells.y[rows]
    found = minimize(
        lambda t: np.sum(np.logaddexp(0, X @ t) - y * (X @ t)), np.zeros(d),
        jac=lambda t: X.T @ (expit(X @ t) - y), method="BFGS", options={"gtol": 1e-9},
    )  # fmt: skip
    theta = found.x - found.x.mean()
    p = expit(X @ theta)
    bread = np.linalg.pinv(X.T @ (X * (p * (1 - p))[:, None]))
    leverage = p * (1 - p) * np.einsum("ij,jk,ik->i", X, bread, X)
    meat = X.T @ (X * ((y - p) / (1 - leverage))[:, None] ** 2)
    return theta, bread @ meat @ bread


def with_extra(battles, winner, losers, times=1):
    """Battles with wins of one more model over some, and none lost."""
    more = lrbtl.Battles.from_arrays(
        [winner] * len(losers), list(losers), [1.0] * len(losers), counts=[times] * len(losers)
    )
    return battles + more
