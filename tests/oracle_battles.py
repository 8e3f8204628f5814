"""Links, battles and sampling laws of the dense oracle (see oracle.py), in naive loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.stats
from numpy.typing import NDArray

Array = NDArray[np.float64]
Context = tuple[int, ...]
Row = tuple[Context, int, int, float, float]
Law = dict[tuple[Context, int, int], float]


# --- links -----------------------------------------------------------------------------------------------------------


class Link(NamedTuple):
    """Mean, score d/dη log-likelihood, and Fisher information I(η) = E[score²] of one observation."""

    mean: Callable[[float], float]
    score: Callable[[float, float], float]
    fisher: Callable[[float], float]


def _sigmoid(eta: float) -> float:
    return float(1.0 / (1.0 + np.exp(-eta)))


def _probit_score(y: float, eta: float) -> float:
    p = float(scipy.stats.norm.cdf(eta))
    return float(scipy.stats.norm.pdf(eta) * (y - p) / (p * (1.0 - p)))


def _probit_fisher(eta: float) -> float:
    p = float(scipy.stats.norm.cdf(eta))
    return float(scipy.stats.norm.pdf(eta) ** 2 / (p * (1.0 - p)))


LOGISTIC = Link(_sigmoid, lambda y, eta: y - _sigmoid(eta), lambda eta: _sigmoid(eta) * (1.0 - _sigmoid(eta)))
PROBIT = Link(lambda eta: float(scipy.stats.norm.cdf(eta)), _probit_score, _probit_fisher)
IDENTITY = Link(lambda eta: eta, lambda y, eta: y - eta, lambda eta: 1.0)  # Gaussian noise of variance one


# --- battles, atoms and sampling laws --------------------------------------------------------------------------------


def contexts(shape: Context) -> list[Context]:
    """All context tuples, C order; the single empty tuple for order 1."""
    return list(itertools.product(*[range(d) for d in shape[1:]]))


def battle(shape: Context, u: Context, a: int, b: int) -> Array:
    """vec(X) of X = e_a − e_b at context u."""
    x = np.zeros(shape)
    x[(a, *u)] += 1.0
    x[(b, *u)] -= 1.0
    return x.ravel()


def eta_of(T: Array, u: Context, a: int, b: int) -> float:
    """<T, X> of X = e_a − e_b at context u."""
    return float(T[(a, *u)] - T[(b, *u)])


def atoms(shape: Context) -> tuple[list[tuple[Context, int, int]], Array]:
    """Every (u, a, b) with a < b, and the dense matrix whose rows are their vec(X)."""
    keys = [(u, a, b) for u in contexts(shape) for a in range(shape[0]) for b in range(a + 1, shape[0])]
    return keys, np.array([battle(shape, u, a, b) for u, a, b in keys])


def d_eff(shape: Context) -> float:
    """D (d1 − 1) / 2: the uniform design satisfies E[X⊗X] = I / d_eff on zero-sum tensors."""
    return len(contexts(shape)) * (shape[0] - 1) / 2


def uniform_law(shape: Context) -> Law:
    """One over the number of atoms, D·C(d1, 2)."""
    keys, _ = atoms(shape)
    return {key: 1.0 / len(keys) for key in keys}


def product_law(models: Array, context_probabilities: Array | None = None) -> Law:
    """p(u, {a, b}) = π(u)·2 m_a m_b / (1 − Σ m²): both models redrawn when equal."""
    pi = np.ones(()) if context_probabilities is None else np.asarray(context_probabilities)
    shape = (len(models), *pi.shape)
    keys, _ = atoms(shape)
    return {(u, a, b): pi[u] * 2 * models[a] * models[b] / (1 - np.sum(models**2)) for u, a, b in keys}


def law_of(law: Law, u: Context, a: int, b: int) -> float:
    """Probability of the unordered battle {a, b} at u."""
    return law[(u, min(a, b), max(a, b))]


def ipw_weights(rows: Sequence[Row], law: Law) -> Array:
    """w = q / p for each row, with q one over the number of atoms."""
    return np.array([1.0 / len(law) / law_of(law, u, a, b) for u, a, b, _, _ in rows])


def rows_from_cells(
    shape: Context, context: NDArray[Any], a: NDArray[Any], b: NDArray[Any], y: NDArray[Any], count: NDArray[Any]
) -> list[Row]:
    """Rows from parallel arrays with a flat context index (C order)."""
    names = contexts(shape)
    return [
        (names[int(u)], int(i), int(j), float(v), float(n))
        for u, i, j, v, n in zip(context, a, b, y, count, strict=True)
    ]


def centring(T: Array) -> Array:
    """Q1 T: subtract the mean over models in every context."""
    return np.asarray(T - T.mean(axis=0, keepdims=True))


def random_scores(shape: Context, rank: Context, rng: np.random.Generator, scale: float = 1.0) -> Array:
    """Zero-sum Tucker tensor of the given rank with max |T| = scale."""
    T: Array = rng.standard_normal(rank)
    for k, (d, r) in enumerate(zip(shape, rank, strict=True)):
        factor = rng.standard_normal((d, r))
        T = np.moveaxis(np.tensordot(factor, T, axes=(1, k)), 0, k)
    T = centring(T)
    T *= scale / np.abs(T).max()
    return T


def random_rows(T: Array, n: int, rng: np.random.Generator, law: Law | None = None) -> list[Row]:
    """n battles of multiplicity one drawn from the law (default uniform) and the logistic model."""
    law = uniform_law(T.shape) if law is None else law
    keys = list(law)
    rows = []
    for i in rng.choice(len(keys), size=n, p=np.array([law[key] for key in keys])):
        u, a, b = keys[i]
        y = float(rng.random() < _sigmoid(eta_of(T, u, a, b)))
        rows.append((u, a, b, y, 1.0))
    return rows
