"""Dense NumPy re-derivation of the estimators that the package computes: slow, looped and independent of it.

Nothing here imports lrbtl. A score tensor ``T`` is a dense array (d1, ..., dm) of any order m ≥ 1, zero-sum along
mode 1; its vector is ``T.ravel()`` (C order). A row is one battle type ``(u, a, b, y, n)``: context tuple ``u`` (empty
for order 1), models ``a`` and ``b``, outcome ``y`` for ``a``, multiplicity ``n``. A sampling law is a dict
``{(u, a, b): probability}`` with ``a < b``. A target is a pair (value, gradient) of functions of T.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.special

from oracle_battles import (
    IDENTITY,
    LOGISTIC,
    PROBIT,
    Array,
    Context,
    Law,
    Link,
    Row,
    atoms,
    battle,
    centring,
    contexts,
    d_eff,
    eta_of,
    ipw_weights,
    law_of,
    product_law,
    random_rows,
    random_scores,
    rows_from_cells,
    uniform_law,
)

__all__ = [  # with oracle_battles, the oracle under one import
    "IDENTITY",
    "LOGISTIC",
    "PROBIT",
    "Array",
    "Context",
    "Law",
    "Link",
    "OneStep",
    "Row",
    "Target",
    "atoms",
    "battle",
    "block_projector",
    "bound",
    "centring",
    "contexts",
    "d_eff",
    "direction_efficient",
    "direction_whitened",
    "directions",
    "eta_of",
    "factor_ridge",
    "fold",
    "full_sample_covariance",
    "gram_empirical",
    "gram_under_law",
    "influence",
    "invert_on_tangent",
    "ipw_weights",
    "law_of",
    "linear_target",
    "mle_hc3",
    "one_step",
    "product_law",
    "random_rows",
    "random_scores",
    "rows_from_cells",
    "separate_btl",
    "singular_projectors",
    "tangent_basis",
    "tangent_dimension",
    "tangent_projector",
    "unfold",
    "uniform_law",
]

Target = tuple[Callable[[Array], float], Callable[[Array], Array]]


# --- geometry --------------------------------------------------------------------------------------------------------


def unfold(T: Array, k: int) -> Array:
    """Mode-k unfolding (dk, ∏ other d), other modes in their order."""
    return np.moveaxis(T, k, 0).reshape(T.shape[k], -1)


def fold(M: Array, k: int, shape: Context) -> Array:
    """Inverse of `unfold`."""
    moved = (shape[k], *shape[:k], *shape[k + 1 :])
    return np.moveaxis(M.reshape(moved), 0, k)


def tangent_dimension(shape: Context, rank: Context) -> int:
    """Σ_k r_k (d_k − r_k) + ∏ r − r_1: mode 1 has only d1 − 1 free directions."""
    return sum(r * (d - r) for d, r in zip(shape, rank, strict=True)) + int(np.prod(rank)) - rank[0]


def singular_projectors(T: Array, rank: Context) -> tuple[list[Array], list[Array]]:
    """Projectors onto the column space (dk, dk) and the row space of each unfolding of Q1 T."""
    columns, row_spaces = [], []
    for k, r in enumerate(rank):
        left, values, right = np.linalg.svd(unfold(centring(T), k), full_matrices=False)
        if values[r - 1] <= 1e-10 * values[0]:
            raise ValueError(f"mode {k} of T has rank below {r}: the tangent space is not defined")
        columns.append(left[:, :r] @ left[:, :r].T)
        row_spaces.append(right[:r].T @ right[:r])
    return columns, row_spaces


def tangent_projector(T: Array, rank: Context) -> Array:
    """Dense projector (∏d, ∏d) onto the centred Tucker tangent space at T.

    Core block ⊗_k P_Uk, plus for each mode k the block {W_(k) = N_k M R_k}: N_k = I − P_Uk (mode 1: Q1 − P_U1), R_k the
    projector onto the row space of T_(k), because dT = core ×_k dU_k ×_{l≠k} U_l moves T_(k) inside its row space only.
    """
    return _sum_of_blocks(T, rank, thin=True)


def block_projector(T: Array, rank: Context) -> Array:
    """The paper's Σ_{|S|≤1} Π_S [Li26, app:pd-tangent-block-sum], with R_k replaced by ⊗_{l≠k} P_Ul.

    Equal to `tangent_projector` for orders 1 and 2. For order m ≥ 3 with r_k < ∏_{l≠k} r_l it is strictly larger
    than the tangent space: the lemma needs core_(k) to have full column rank, not full row rank.
    """
    return _sum_of_blocks(T, rank, thin=False)


def _sum_of_blocks(T: Array, rank: Context, *, thin: bool) -> Array:
    P, row_spaces = singular_projectors(T, rank)
    shape, size = T.shape, T.size
    result = np.zeros((size, size))
    for i in range(size):
        E = np.eye(size)[i].reshape(shape)
        image = E
        for k in range(T.ndim):
            image = fold(P[k] @ unfold(image, k), k, shape)
        for k in range(T.ndim):
            other = np.eye(shape[k]) - P[k]
            if k == 0:
                other = other - np.full((shape[0], shape[0]), 1.0 / shape[0])
            arm = fold(other @ unfold(E, k), k, shape)
            if thin:
                arm = fold(unfold(arm, k) @ row_spaces[k], k, shape)
            else:
                for j in range(T.ndim):
                    if j != k:
                        arm = fold(P[j] @ unfold(arm, j), j, shape)
            image = image + arm
        result[:, i] = image.ravel()
    return result


def tangent_basis(P: Array) -> Array:
    """Orthonormal columns that span the range of the projector P."""
    values, vectors = np.linalg.eigh((P + P.T) / 2)
    return vectors[:, values > 0.5]


# --- information and directions --------------------------------------------------------------------------------------


def gram_empirical(T: Array, rows: Sequence[Row]) -> Array:
    """Ĝ = Σ n I(η) vec(X)vec(X)ᵀ / Σ n over the rows [Li26, eq. Ghat_def]."""
    G = np.zeros((T.size, T.size))
    total = 0.0
    for u, a, b, _, n in rows:
        x = battle(T.shape, u, a, b)
        G += n * LOGISTIC.fisher(eta_of(T, u, a, b)) * np.outer(x, x)
        total += n
    return G / total


def gram_under_law(T: Array, law: Law) -> Array:
    """G = E_p[I(η) vec(X)vec(X)ᵀ] [Li26, eq. G-operator]."""
    G = np.zeros((T.size, T.size))
    for (u, a, b), p in law.items():
        x = battle(T.shape, u, a, b)
        G += p * LOGISTIC.fisher(eta_of(T, u, a, b)) * np.outer(x, x)
    return G


def invert_on_tangent(G: Array, P: Array) -> Array:
    """(P G P)⁺ as a dense matrix; LinAlgError when G is singular on the range of P."""
    B = tangent_basis(P)
    A = B.T @ G @ B
    values = np.linalg.eigvalsh(A)
    if values[0] <= 1e-12 * values[-1]:
        raise np.linalg.LinAlgError("the information is singular on the tangent space")
    return B @ np.linalg.inv(A) @ B.T


def direction_efficient(G: Array, P: Array, gamma: Array) -> Array:
    """H with (P G P) H = P Γ, in the shape of gamma [Li26, eq. Hhat_def]."""
    return (invert_on_tangent(G, P) @ (P @ gamma.ravel())).reshape(gamma.shape)


def direction_whitened(P: Array, gamma: Array, shape: Context) -> Array:
    """H = d_eff P Q1 Γ [Li26, eq. ws-directions, with d* = D(d1 − 1)/2]."""
    return d_eff(shape) * (P @ centring(gamma.reshape(shape)).ravel()).reshape(shape)


def linear_target(gamma: Array) -> Target:
    """ψ(T) = <Γ, T>."""
    return (lambda T: float(np.sum(gamma * T))), (lambda T: gamma)


def directions(
    T: Array, training: Sequence[Row], targets: Sequence[Target], rank: Context, method: str, law: Law | None = None
) -> list[Array]:
    """Direction of every target at T; `law` replaces the empirical information of the efficient method."""
    P = tangent_projector(T, rank)
    if method == "whitened":
        return [direction_whitened(P, gradient(T), T.shape) for _, gradient in targets]
    if method != "efficient":
        raise ValueError(method)
    G = gram_empirical(T, training) if law is None else gram_under_law(T, law)
    return [direction_efficient(G, P, gradient(T)) for _, gradient in targets]


def influence(T: Array, H: Sequence[Array], row: Row, method: str, weight: float = 1.0) -> Array:
    """φ of one battle for every direction: s <H, X>, or w s <H, X> / I when whitened."""
    u, a, b, y, _ = row
    eta = eta_of(T, u, a, b)
    score = LOGISTIC.score(y, eta)
    if method == "whitened":
        score = weight * score / LOGISTIC.fisher(eta)
    return np.array([score * (h[(a, *u)] - h[(b, *u)]) for h in H])


# --- estimators ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneStep:
    """Estimates (M,), their covariance (M, M), and φ (folds, rows, M), zero where a fold holds no such row."""

    estimate: Array
    cov: Array
    phi: Array

    @property
    def se(self) -> Array:
        return np.sqrt(np.diag(self.cov))


def without_fold(rows: Sequence[Row], held_out: Array) -> list[Row]:
    """The rows with the multiplicities that a fold leaves for training."""
    return [(*row[:4], row[4] - n) for row, n in zip(rows, held_out, strict=True) if row[4] > n]


def one_step(
    fits: Sequence[Array],
    folds: Array,
    rows: Sequence[Row],
    targets: Sequence[Target],
    rank: Context,
    method: str = "efficient",
    weights: Array | None = None,
    law: Law | None = None,
) -> OneStep:
    """Cross-fitted one-step estimates [Li26, Algorithms 1 and 2], with weights n_k/N for folds of unequal size.

    ``fits[k]`` is the dense fit without fold k, ``folds[k, c]`` the multiplicity of row c in fold k (Σ_k = n).
    ψ̂ = Σ_k (n_k/N)[ψ(T̂_k) + mean_fold φ], Cov = N⁻² Σ of φφᵀ over all battles, each φ from the fit without its fold.
    ``weights`` (one per row; IPW: q/p) enter the whitened score only; a nonlinear target uses the gradient at T̂_k.
    """
    w = np.ones(len(rows)) if weights is None else weights
    N = float(np.sum(folds))
    estimate = np.zeros(len(targets))
    cov = np.zeros((len(targets), len(targets)))
    phi = np.zeros((len(fits), len(rows), len(targets)))
    for k, T in enumerate(fits):
        training = without_fold(rows, folds[k])
        H = directions(T, training, targets, rank, method, law)
        estimate += np.sum(folds[k]) / N * np.array([value(T) for value, _ in targets])
        for c, row in enumerate(rows):
            if folds[k, c] > 0:
                phi[k, c] = influence(T, H, row, method, w[c])
                estimate += folds[k, c] / N * phi[k, c]
                cov += folds[k, c] / N**2 * np.outer(phi[k, c], phi[k, c])
    return OneStep(estimate, cov, phi)


def variance_noise(
    fits: Sequence[Array],
    folds: Array,
    rows: Sequence[Row],
    targets: Sequence[Target],
    rank: Context,
    method: str = "efficient",
    law: Law | None = None,
) -> Array:
    """Delete-a-fold jackknife variance of log <Γ, H>, the log of the variance of each fold's direction; at most 4."""
    logs = []
    for k, T in enumerate(fits):
        training = without_fold(rows, folds[k])
        H = directions(T, training, targets, rank, method, law)
        logs.append([np.log(np.sum(gradient(T) * h)) for (_, gradient), h in zip(targets, H, strict=True)])
    K = len(fits)
    spread = [(K - 1) / K * sum((x - np.mean(column)) ** 2 for x in column) for column in np.transpose(logs)]
    return np.minimum(spread, 4.0)


def full_sample_covariance(
    T: Array,
    rows: Sequence[Row],
    targets: Sequence[Target],
    rank: Context,
    method: str = "efficient",
    weights: Array | None = None,
    law: Law | None = None,
) -> Array:
    """Covariance for ``se="full"`` [Li26, sec:simulations]: N⁻² Σ φφᵀ, everything from one fit T to all battles.

    The paper: "computed from the full sample by fitting T̂ on all observations, constructing the corresponding
    influence-function direction, and estimating the asymptotic variance by the empirical second moment of the
    estimated influence function". So Ĝ, the tangent space, the gradient and φ all use T and every battle.
    """
    w = np.ones(len(rows)) if weights is None else weights
    H = directions(T, rows, targets, rank, method, law)
    N = sum(row[4] for row in rows)
    cov = np.zeros((len(targets), len(targets)))
    for c, row in enumerate(rows):
        phi = influence(T, H, row, method, w[c])
        cov += row[4] / N**2 * np.outer(phi, phi)
    return cov


def factor_ridge(T: Array, rank: int, ridge: float) -> Array:
    """ridge·(J Jᵀ)⁺: the penalty ridge·(‖dU‖² + ‖dV‖²) of balanced matrix factors as a quadratic form of dT.

    dT = J(dU, dV); the least norm over the gauge, so leverages equal those in the redundant coordinates.
    """
    left, values, right = np.linalg.svd(T, full_matrices=False)
    U, V = left[:, :rank] * np.sqrt(values[:rank]), right[:rank].T * np.sqrt(values[:rank])
    columns = [centring(np.outer(np.eye(len(U))[i], V[:, k])).ravel() for i in range(len(U)) for k in range(rank)]
    columns += [np.outer(U[:, k], np.eye(len(V))[j]).ravel() for j in range(len(V)) for k in range(rank)]
    J = np.array(columns).T
    return np.asarray(ridge * np.linalg.pinv(J @ J.T, rcond=1e-10, hermitian=True), dtype=np.float64)


def mle_hc3(
    T: Array, rows: Sequence[Row], targets: Sequence[Target], rank: Context, ridge: Array | None = None
) -> tuple[Array, Array]:
    """HC3 covariance (M, M) of ψ(T) at a (penalised) estimate T, and the leverage h of one battle of each row.

    With N K = Σ n I x xᵀ on the tangent space: h = I xᵀ(N K + R)⁻¹x, meat Σ n s²/(1 − h)² x xᵀ, bread (N K)⁻¹.
    ``ridge`` is R, a dense quadratic form on the ambient space; None is R = 0.
    """
    P = tangent_projector(T, rank)
    information = sum(row[4] for row in rows) * gram_empirical(T, rows)
    bread = invert_on_tangent(information, P)
    hat = bread if ridge is None else invert_on_tangent(information + ridge, P)
    H = [(bread @ gradient(T).ravel()) for _, gradient in targets]
    cov = np.zeros((len(targets), len(targets)))
    leverage = np.zeros(len(rows))
    for c, (u, a, b, y, n) in enumerate(rows):
        x = battle(T.shape, u, a, b)
        eta = eta_of(T, u, a, b)
        leverage[c] = LOGISTIC.fisher(eta) * x @ hat @ x
        phi = np.array([LOGISTIC.score(y, eta) / (1.0 - leverage[c]) * (h @ x) for h in H])
        cov += n * np.outer(phi, phi)
    return cov, leverage


def bound(T: Array, rank: Context, gamma: Array, law: Law | None = None, method: str = "efficient") -> float:
    """Asymptotic variance of √N(ψ̂ − ψ) under the law (default uniform).

    efficient: <P Γ, (P G P)⁻¹ P Γ> [Li26, eq. veff-def]; whitened: E_p[w² <H, X>²/I] with w = q/p, H = d_eff P Q1 Γ.
    """
    law = uniform_law(T.shape) if law is None else law
    P = tangent_projector(T, rank)
    if method == "efficient":
        return float(gamma.ravel() @ P @ direction_efficient(gram_under_law(T, law), P, gamma).ravel())
    H = direction_whitened(P, gamma, T.shape)
    total = 0.0
    for (u, a, b), p in law.items():
        w = 1.0 / len(law) / p
        total += p * w**2 * eta_of(H, u, a, b) ** 2 / LOGISTIC.fisher(eta_of(T, u, a, b))
    return total


def separate_btl(rows: Sequence[Row], d1: int, u: Context = (), *, hc3: bool = False) -> tuple[Array, Array]:
    """Zero-sum Bradley-Terry maximum likelihood of context u and its sandwich covariance (d1, d1), HC3 where asked."""
    rows = [row for row in rows if row[0] == u]
    basis = np.linalg.svd(np.eye(d1) - 1.0 / d1)[0][:, : d1 - 1]
    X = np.array([basis[a] - basis[b] for _, a, b, _, _ in rows])
    y = np.array([row[3] for row in rows])
    n = np.array([row[4] for row in rows])

    def loss(beta: Array) -> float:
        return float(np.sum(n * (np.logaddexp(0.0, X @ beta) - y * (X @ beta))))

    def slope(beta: Array) -> Array:
        return np.asarray(X.T @ (n * (scipy.special.expit(X @ beta) - y)))

    def curvature(beta: Array) -> Array:
        p = scipy.special.expit(X @ beta)
        return np.asarray(X.T @ ((n * p * (1 - p))[:, None] * X))

    start = scipy.optimize.minimize(loss, np.zeros(d1 - 1), jac=slope, hess=curvature, method="trust-exact")
    beta = scipy.optimize.root(slope, start.x, jac=curvature, options={"xtol": 1e-13}).x
    s = y - scipy.special.expit(X @ beta)
    bread = np.linalg.inv(curvature(beta))
    if hc3:
        p = scipy.special.expit(X @ beta)
        s = s / (1 - p * (1 - p) * np.array([x @ bread @ x for x in X]))
    cov = bread @ (X.T @ ((n * s**2)[:, None] * X)) @ bread
    return basis @ beta, basis @ cov @ basis.T
