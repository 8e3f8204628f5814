"""Rival for the speed benchmarks: what a competent NumPy and SciPy user writes for the model × task matrix.

The fit is L-BFGS on the factors with an analytic, vectorised gradient; the one-step uses a sparse Jacobian and one
dense Cholesky factor per fold for all targets. Nothing here imports lrbtl.

Run as a script to time both on the paper's design: ``python benchmarks/reference_numpy.py``.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Battles as parallel arrays: models a and b, task u, outcome y for a, multiplicity n; d1 models and d2 tasks."""

    a: Index
    b: Index
    u: Index
    y: Array
    n: Array
    d1: int
    d2: int


@dataclass(frozen=True)
class Fit:
    """Factors U (d1, r) and V (d2, r) of T = U Vᵀ, the objective there, and the number of evaluations."""

    U: Array
    V: Array
    objective: float
    n_evaluations: int


def difference_matrix(rows: Rows) -> scipy.sparse.csr_array:
    """Sparse (n_cells, d1) with rows e_a − e_b."""
    m = rows.a.size
    columns = np.stack([rows.a, rows.b], axis=1).ravel()
    values = np.tile([1.0, -1.0], m)
    return scipy.sparse.csr_array((values, columns, np.arange(0, 2 * m + 1, 2)), shape=(m, rows.d1))


def design_matrix(rows: Rows) -> scipy.sparse.csr_array:
    """Sparse (n_cells, d1·d2) with rows vec(X), X = e_a − e_b at task u."""
    m = rows.a.size
    columns = np.stack([rows.a * rows.d2 + rows.u, rows.b * rows.d2 + rows.u], axis=1).ravel()
    values = np.tile([1.0, -1.0], m)
    return scipy.sparse.csr_array((values, columns, np.arange(0, 2 * m + 1, 2)), shape=(m, rows.d1 * rows.d2))


def spectral_start(rows: Rows, rank: int) -> tuple[Array, Array]:
    """Balanced factors of the best rank-r approximation of 4 d_eff/N Σ n (y − ½) X."""
    scale = 4 * rows.d2 * (rows.d1 - 1) / 2 / rows.n.sum()
    M = scale * (design_matrix(rows).T @ (rows.n * (rows.y - 0.5))).reshape(rows.d1, rows.d2)
    left, values, right = np.linalg.svd(M, full_matrices=False)
    root = np.sqrt(values[:rank])
    return left[:, :rank] * root, right[:rank].T * root


def fit_lbfgs(
    rows: Rows,
    rank: int,
    ridge: float,
    start: tuple[Array, Array] | None = None,
    *,
    ftol: float = 1e-12,
    gtol: float = 1e-6,
    maxiter: int = 5000,
    stop_at: float | None = None,
) -> Fit:
    """Minimiser of Σ n [softplus(η) − y η] + ridge/2 (‖U‖² + ‖V‖²), η = <U Vᵀ, X>, by scipy L-BFGS.

    η and the gradient go through the dense T = U Vᵀ while it has at most n_cells·rank entries, else through the
    rows of the factors: whichever touches less memory. ``stop_at`` ends the run as soon as the objective reaches it, so
    that two programs are timed to the same value.
    """
    d1, d2, y, n = rows.d1, rows.d2, rows.y, rows.n
    if start is None:
        start = spectral_start(rows, rank)
    dense = d1 * d2 <= rows.a.size * rank
    X = design_matrix(rows) if dense else difference_matrix(rows)
    X_t = X.T.tocsr()
    tasks = scipy.sparse.csr_array((np.ones(y.size), (rows.u, np.arange(y.size))), shape=(d2, y.size))
    ny = n * y

    def objective(theta: Array) -> tuple[float, Array]:
        U, V = theta[: d1 * rank].reshape(d1, rank), theta[d1 * rank :].reshape(d2, rank)
        if dense:
            eta = X @ (U @ V.T).ravel()
        else:
            differences, loadings = X @ U, V[rows.u]
            eta = np.einsum("ij,ij->i", differences, loadings)
        e = np.exp(-np.abs(eta))
        value = n @ (np.maximum(eta, 0.0) + np.log1p(e)) - ny @ eta + 0.5 * ridge * (theta @ theta)
        residual = n * (np.where(eta >= 0, 1.0, e) / (1.0 + e)) - ny
        gradient = ridge * theta
        if dense:
            W = (X_t @ residual).reshape(d1, d2)
            gradient[: d1 * rank] += (W @ V).ravel()
            gradient[d1 * rank :] += (W.T @ U).ravel()
        else:
            gradient[: d1 * rank] += (X_t @ (residual[:, None] * loadings)).ravel()
            gradient[d1 * rank :] += (tasks @ (residual[:, None] * differences)).ravel()
        return float(value), gradient

    def stop_when_reached(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        if stop_at is not None and intermediate_result.fun <= stop_at:
            raise StopIteration

    result = scipy.optimize.minimize(
        objective,
        np.concatenate([start[0].ravel(), start[1].ravel()]),
        jac=True,
        method="L-BFGS-B",
        callback=stop_when_reached,
        options={"maxcor": 20, "maxiter": maxiter, "maxfun": 2 * maxiter, "ftol": ftol, "gtol": gtol},
    )
    U, V = result.x[: d1 * rank].reshape(d1, rank), result.x[d1 * rank :].reshape(d2, rank)
    return Fit(U, V, float(result.fun), int(result.nfev))


def tangent_frame(fit: Fit) -> tuple[Array, Array, Array]:
    """Centred scores T and orthonormal factors U, V of its thin singular value decomposition."""
    centred = fit.U - fit.U.mean(axis=0)
    q_u, r_u = np.linalg.qr(centred)
    q_v, r_v = np.linalg.qr(fit.V)
    left, _, right = np.linalg.svd(r_u @ r_v.T)
    return centred @ fit.V.T, q_u @ left, q_v @ right.T


def tangent_jacobian(rows: Rows, U: Array, V: Array) -> scipy.sparse.csr_array:
    """Sparse (n_cells, (d1 + d2) r): derivative of η along C and A of the tangent vector C Vᵀ + U Aᵀ."""
    m, r = rows.a.size, U.shape[1]
    k = np.arange(r)
    blocks = [rows.a[:, None] * r + k, rows.b[:, None] * r + k, (rows.d1 + rows.u)[:, None] * r + k]
    values = [V[rows.u], -V[rows.u], U[rows.a] - U[rows.b]]
    return scipy.sparse.csr_array(
        (np.hstack(values).ravel(), np.hstack(blocks).ravel(), np.arange(0, 3 * r * m + 1, 3 * r)),
        shape=(m, (rows.d1 + rows.d2) * r),
    )


def gauge(U: Array, d2: int) -> Array:
    """Dense CᵀC of the constraints UᵀC = 0 and 1ᵀC = 0, which removes the redundancy of the coordinates."""
    d1, r = U.shape
    frame = np.column_stack([U, np.full(d1, d1**-0.5)])
    block = np.kron(frame @ frame.T, np.eye(r))
    return scipy.linalg.block_diag(block, np.zeros((d2 * r, d2 * r)))


def one_step_numpy(
    rows: Rows,
    folds: Array,
    gammas: Array,
    rank: int,
    ridge: float,
    start: tuple[Array, Array] | None = None,
    *,
    ftol: float = 1e-9,
) -> tuple[Array, Array]:
    """Cross-fitted efficient one-step estimates and standard errors of the linear targets ``gammas`` (M, d1, d2).

    ``folds`` (K, n_cells) are the multiplicities in each fold. Fold fits start from the fit to all battles. Matrices
    used: K = Σ_train n I j jᵀ / n_train, ψ̂ = Σ_k (n_k/N)[<Γ, T̂_k> + mean φ], Var = N⁻² Σ n_k φ².
    """
    whole = fit_lbfgs(rows, rank, ridge, start, ftol=ftol)
    N = float(folds.sum())
    flat = gammas.reshape(len(gammas), -1)
    estimate, variance = np.zeros(len(gammas)), np.zeros(len(gammas))
    for n_k in folds:
        train = rows.n - n_k
        used = np.flatnonzero(train)
        fold = Rows(rows.a[used], rows.b[used], rows.u[used], rows.y[used], train[used], rows.d1, rows.d2)
        T, U, V = tangent_frame(fit_lbfgs(fold, rank, ridge, (whole.U, whole.V), ftol=ftol))
        J = tangent_jacobian(rows, U, V)
        p = expit(T[rows.a, rows.u] - T[rows.b, rows.u])
        weight = train * p * (1 - p) / train.sum()
        K = (J.T @ (J * weight[:, None])).toarray()
        C = gauge(U, rows.d2)
        factor = scipy.linalg.cho_factor(K + np.trace(K) / len(K) * C, overwrite_a=True, check_finite=False)
        centred = gammas - gammas.mean(axis=1, keepdims=True)
        right_sides = np.vstack(
            [
                np.einsum("mij,jk->ikm", centred, V).reshape(-1, len(gammas)),
                np.einsum("mij,ik->jkm", centred, U).reshape(-1, len(gammas)),
            ]
        )
        theta = scipy.linalg.cho_solve(factor, right_sides, check_finite=False)
        held = np.flatnonzero(n_k)
        phi = (rows.y - p)[held, None] * (J[held] @ theta)
        estimate += (n_k.sum() * (flat @ T.ravel()) + n_k[held] @ phi) / N
        variance += n_k[held] @ phi**2 / N**2
    return estimate, np.sqrt(variance)


def paper_design(d: int, rank: int, n: int, rng: np.random.Generator) -> tuple[Array, Rows]:
    """Truth T* = Θ Aᵀ centred with max |T*| = 5, and n uniform battles [Li26, sec:simulations]."""
    T = rng.standard_normal((d, rank)) @ rng.standard_normal((d, rank)).T
    T -= T.mean(axis=0)
    T *= 5.0 / np.abs(T).max()
    u, a = rng.integers(d, size=n), rng.integers(d, size=n)
    b = (a + rng.integers(1, d, size=n)) % d
    y = (rng.random(n) < expit(T[a, u] - T[b, u])).astype(np.float64)
    return T, Rows(a, b, u, y, np.ones(n), d, d)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--d", type=int, default=200)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--n", type=int, default=60_000)
    parser.add_argument("--folds", type=int, default=6)
    parser.add_argument("--ridge", type=float, default=1.0)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    truth, rows = paper_design(args.d, args.rank, args.n, rng)
    begin = time.perf_counter()
    fit = fit_lbfgs(rows, args.rank, args.ridge)
    seconds = time.perf_counter() - begin
    T, _, _ = tangent_frame(fit)
    error = np.linalg.norm(T - truth) / np.linalg.norm(truth)
    print(f"fit: {seconds:.2f} s, {fit.n_evaluations} evaluations, objective {fit.objective:.8f}, error {error:.3f}")
    folds = np.eye(args.folds)[:, rng.integers(args.folds, size=args.n)]
    gammas = np.zeros((2, args.d, args.d))
    gammas[0, 0, 0], gammas[1, 0, 0], gammas[1, 1, 0] = 1.0, 1.0, -1.0
    begin = time.perf_counter()
    estimate, se = one_step_numpy(rows, folds, gammas, args.rank, args.ridge)
    print(f"one step, {args.folds} folds: {time.perf_counter() - begin:.2f} s; estimate {estimate}, se {se}")


if __name__ == "__main__":
    main()
