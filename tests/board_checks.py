"""What tests of boards share."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

import lrbtl
from lrbtl.typing import Floats, Indices

ELO = 400 / math.log(10)


def in_order(board: lrbtl.Leaderboard, battles: lrbtl.Battles) -> Indices:
    """Positions on the board of the models in the battles' order."""
    place = {model: k for k, model in enumerate(board.models)}
    return np.array([place[model] for model in battles.models])


def twin(battles: lrbtl.Battles) -> tuple[Floats, Floats]:
    """Bradley-Terry scores and HC3 covariance by general-purpose tools."""
    cells, d = battles.cells, len(battles.models)
    rows = np.repeat(np.arange(cells.n_cells), cells.count)
    X = np.zeros((rows.size, d))
    X[np.arange(rows.size), cells.a[rows]], X[np.arange(rows.size), cells.b[rows]] = 1, -1
    y = cells.y[rows]

    def loss(t: Floats) -> float:
        return float(np.sum(np.logaddexp(0, X @ t) - y * (X @ t)))

    def slope(t: Floats) -> Floats:
        return np.asarray(X.T @ (expit(X @ t) - y), dtype=np.float64)

    found = minimize(loss, np.zeros(d), jac=slope, method="BFGS", options={"gtol": 1e-9})
    theta = found.x - found.x.mean()
    p = expit(X @ theta)
    bread = np.linalg.pinv(X.T @ (X * (p * (1 - p))[:, None]))
    leverage = p * (1 - p) * np.einsum("ij,jk,ik->i", X, bread, X)
    meat = X.T @ (X * ((y - p) / (1 - leverage))[:, None] ** 2)
    return theta, bread @ meat @ bread


def with_extra(battles: lrbtl.Battles, winner: Any, losers: Sequence[Any], times: int = 1) -> lrbtl.Battles:
    """Battles with wins of one more model over some, and none lost."""
    more = lrbtl.Battles.from_arrays(
        [winner] * len(losers), list(losers), [1.0] * len(losers), counts=[times] * len(losers)
    )
    return battles + more
