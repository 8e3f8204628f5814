"""Low-rank fits of a given rank: spectral start, data-driven ridge, Newton."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from lrbtl.data.battles import Battles
from lrbtl.data.cells import BOTH_BAD
from lrbtl.data.labels import check_same_labels
from lrbtl.data.observations import Data, Results
from lrbtl.errors import (
    ConvergenceWarning,
    LinkError,
    RankCollapseWarning,
    RankError,
    RidgeError,
    UninformedError,
    warn_user,
)
from lrbtl.fitting.design import Design
from lrbtl.fitting.local import Local
from lrbtl.fitting.newton import Newton, choose_ridge, minimise, residual_variance
from lrbtl.lowrank.tucker import Tucker, eigenvectors, truncate
from lrbtl.model.links import LOGISTIC, Identity, Link, as_link
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats

SMALLEST_SHARE = 0.01  # least share of a model or context in the information, over the mean, that the start believes
FOLD_TOL = 4e-3  # Newton decrement, in nats per hundred parameters, of the fits on training folds


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A fitted low-rank score tensor.

    Attributes
    ----------
    battles : Battles or Results
    point : Tucker
        The scores in HOSVD form.
    ridge : array (m,)
        Penalty of each mode; the objective is sum of loss + 1/2 sum_k ridge_k ||T_(k)||_*.
    converged : bool
    n_iter : int
    stop_reason : str
    objective : float
        Penalised negative log-likelihood, in nats.
    link : Link
        Law of the responses, with its own parameters (tie parameter, variance of the noise) as estimated.
    rank_chosen : bool
        Whether the rank was chosen from the data (rank="auto").
    asks_for_more : bool
        Whether a larger rank, which the data do not determine, predicted better.
    effect_values : array or None
        Values of linear effects, in units of the covariates' scales.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=2, rng=0), 3000, rng=1)
    >>> fit = lrbtl.fit(battles, 1)
    >>> fit.rank, fit.scores.shape, fit.converged
    ((1, 1), (6, 3), True)
    """

    battles: Data
    point: Tucker
    ridge: Floats
    converged: bool
    n_iter: int
    stop_reason: str
    objective: float
    n_threads: int | None = field(default=1, repr=False)
    link: Link = LOGISTIC
    rank_chosen: bool = False
    asks_for_more: bool = False
    effect_values: Floats | None = None

    @property
    def core(self) -> Floats:
        """Core tensor (r1, ..., rm)."""
        return self.point.core

    @property
    def factors(self) -> tuple[Floats, ...]:
        """Factors (dk, rk); the columns of the first sum to zero."""
        return self.point.factors

    @property
    def rank(self) -> tuple[int, ...]:
        """Tucker rank (r1, ..., rm)."""
        return self.point.rank

    @cached_property
    def scores(self) -> Floats:
        """Scores (d1, ..., dm), zero sums along mode 1."""
        return self.point.dense()

    @property
    def singular_values(self) -> tuple[Floats, ...]:
        """Singular values of each unfolding."""
        return self.point.singular_values

    def predict_proba(self, a: Any, b: Any, context: Any = None) -> float:
        """Return the probability that model a beats model b in a context (not needed for order 1), ties half.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((5, 3), 1, scale=2, rng=0), 2000, rng=1)
        >>> fit = lrbtl.fit(battles, 1)
        >>> p = fit.predict_proba(0, 1, 2)
        >>> abs(p + fit.predict_proba(1, 0, 2) - 1) < 1e-12
        True
        """
        i, j = self.battles.model_index(a), self.battles.model_index(b)
        v = self.point.context_vectors()[self.battles.context_index(context)]
        return float(self.link.mean((self.factors[0][i] - self.factors[0][j]) @ np.atleast_2d(v).T)[0])

    @cached_property
    def design(self) -> Design:
        """The cells of the battles under the link of the fit."""
        return Design.of(self.battles).under(self)

    def log_likelihood(self, battles: Data) -> float:
        """Return the mean log-likelihood per battle, in nats, of battles with the labels of those fitted."""
        check_same_labels(battles, self.battles)
        design = Design.of(battles).under(self)
        return -Local.of(design, self.point).loss / design.total

    def __repr__(self) -> str:
        """Return shape, rank and how the fit ended."""
        state = "converged" if self.converged else f"NOT converged ({self.stop_reason})"
        ridge = ", ".join(f"{x:.3g}" for x in self.ridge)
        ended = f"{state} after {self.n_iter} iterations"
        return f"Fit(shape={self.battles.shape}, rank={self.rank}, ridge=({ridge}), {ended})"


def fit_with_chosen_ridge(
    battles: Data,
    rank: tuple[int, ...],
    n_threads: int | None = 1,
    near: Fit | None = None,
    *,
    link: str | Link | None = None,
) -> Fit:
    """Return the fit with the ridge that the criterion chooses; it starts from a fit of another rank where given."""
    prepared = _prepared(battles, rank, link, near)
    penalties, newton = choose_ridge(*prepared, None if near is None else near.ridge)
    return _as_fit(battles, newton, penalties, n_threads)


def fit_with_ridge(
    battles: Data,
    rank: tuple[int, ...],
    ridge: float | Sequence[float],
    n_threads: int | None = 1,
    *,
    link: str | Link | None = None,
) -> Fit:
    """Return the fit with a given ridge."""
    penalties = check_ridge(ridge, battles.shape)
    return _as_fit(battles, minimise(*_prepared(battles, rank, link), penalties), penalties, n_threads)


@one_blas_thread
def _prepared(
    data: Data, rank: tuple[int, ...], link: str | Link | None, near: Fit | None = None
) -> tuple[Design, Tucker]:
    """Return the design, with the variance of the noise where the link lacks it, and the spectral start."""
    design = make_design(data, link)
    start = spectral_start(design, rank, near.point if near is not None and design.entries.full else None)
    if isinstance(design.link, Identity) and design.link.variance is None and design.variance is None:
        design = design.with_link(Identity(residual_variance(design, start)))
    return design, start


def make_design(data: Data, link: str | Link | None) -> Design:
    """Return the design of some data under a link, by default their own, with a first guess of its parameters."""
    entries = isinstance(data, Results)
    chosen = as_link(("identity" if entries else "logistic") if link is None else link)
    if np.any(data.cells.y == BOTH_BAD):
        raise LinkError(
            "votes that both were bad are an outcome here, which low-rank and separate fits do not know: use "
            "leaderboard, infer or compare, or read the battles with both_bad='tie'."
        )
    chosen.check(data.cells.y, not entries)
    return Design.of(data, chosen.started(data.cells.y, data.cells.count.astype(float)))


def refit(
    fit: Fit, counts: Floats, *, ridge: Floats | None = None, start: Newton | None = None, tol: float = FOLD_TOL
) -> Newton:
    """Return the Newton fit to the same cells with other multiplicities (and ridge), started from a fit.

    `tol` is the decrement left, in nats per hundred parameters.
    """
    near: Fit | Newton = fit if start is None else start
    point, design = near.point, fit.design.under(near).with_count(counts)
    close = tol * max(design.space(point).dimension / 100, 1.0)
    curvature = None if start is None else start.curvature
    return minimise(design, point, fit.ridge if ridge is None else ridge, tol=close, warm=True, curvature=curvature)


def spectral_start(design: Design, rank: tuple[int, ...], near: Tucker | None = None) -> Tucker:
    """Return the truncated linearised estimate at `near` or at T = 0, in HOSVD form.

    Under uniform sampling it is T + d_eff sum n s X / sum n I, for the logistic link at zero 4 d_eff / n sum of
    n (y - 1/2) X [Li26, sec. sim-altmin]. Models and contexts differ in how often they occur: the correction of entry
    (a, u) is divided by p_a p_u, their shares in the information relative to the mean. Its noise then goes with
    1 / sqrt(p_a p_u), so that the estimate is truncated with rows and columns scaled by the roots. The models' factor
    comes from a (d1, d1) Gram matrix: at zero no (d1, D) array is formed.
    """
    entries = design.entries
    terms = design.at_zero if near is None else Local.of(design, near).terms
    information = design.count * terms.fisher
    touched = entries.slot_matrix(entries.unsigned(information))
    models, contexts = (_noise_scale(np.asarray(touched.sum(axis=axis), dtype=float)) for axis in (0, 1))
    sums = entries.slot_matrix(entries.slot_sums(design.count * terms.score))
    scaled = sparse.diags_array(design.d_eff / information.sum() / contexts) @ sums @ sparse.diags_array(1.0 / models)
    if near is not None:
        scaled = scaled + near.dense().reshape(len(models), -1).T * contexts[:, None] * models
    gram = scaled.T @ scaled
    U = eigenvectors(gram if isinstance(gram, np.ndarray) else gram.toarray(), rank[0])
    compressed = np.asarray(scaled @ U).T / contexts
    U = U / models[:, None]
    if design.centred:
        U -= U.mean(axis=0)
    if len(design.shape) == 1:
        return Tucker(compressed.reshape(-1), (U,)).canonical()
    point = truncate(compressed.reshape(-1, *design.shape[1:]), rank)
    return Tucker(point.core, (U @ point.factors[0], *point.factors[1:])).canonical()


def _noise_scale(information: Floats) -> Floats:
    """Return the roots of shares relative to their mean, not too near zero."""
    return np.asarray(np.sqrt(np.maximum(information / information.mean(), SMALLEST_SHARE)))


def check_rank_kind(rank: Any) -> None:
    """Raise `RankError` unless a rank is an int, one int per mode, or "auto", whatever the shape allows."""
    if isinstance(rank, str) and rank == "auto":
        return
    values = [rank] if isinstance(rank, str) or np.ndim(rank) == 0 else list(rank)
    whole = [isinstance(r, int | np.integer) and not isinstance(r, bool) and r >= 1 for r in values]
    if not whole or not all(whole):
        raise RankError(f"rank={rank!r} is not known: give an int of at least 1, one such int per mode, or 'auto'.")


def check_ridge(ridge: float | Sequence[float], shape: tuple[int, ...]) -> Floats:
    """Return one non-negative ridge per mode (two for order 1)."""
    order = max(len(shape), 2)
    try:
        given = np.asarray(ridge, dtype=float)
        values = np.broadcast_to(given, (order,))
    except (TypeError, ValueError, OverflowError):
        given, values = np.zeros(0), np.full(order, np.nan)
    if given.shape not in ((), (order,)) or not np.all(np.isfinite(values)) or values.min() < 0:
        raise RidgeError(f"ridge={ridge!r} is not valid: give a finite number >= 0, {order} of them, or 'auto'.")
    return values.copy()


def check_informed(battles: Data) -> None:
    """Raise where a model or a level of a context mode has no battle: nothing can be said of its scores."""
    silent = [repr(battles.models[i]) for i in np.flatnonzero(battles.model_counts == 0)]
    where = [f"{battles.axes[0]}s " + ", ".join(silent[:5])] if silent else []
    counts = battles.context_counts.reshape(battles.shape[1:])
    for k, (name, labels) in enumerate(zip(battles.mode_names, battles.levels, strict=True)):
        axes = tuple(j for j in range(counts.ndim) if j != k)
        empty = [repr(labels[i]) for i in np.flatnonzero(counts.sum(axis=axes) == 0)]
        if empty:
            where.append(f"{name} " + ", ".join(empty[:5]))
    if where:
        drop = "drop them with battles.select(...)" if isinstance(battles, Battles) else "leave them out of the tensor"
        raise UninformedError(
            f"no {battles.unit.removesuffix('s')} informs {'; '.join(where)}: {drop}, or add {battles.unit} that "
            "include them."
        )


def _as_fit(battles: Data, newton: Newton, ridge: Floats, n_threads: int | None) -> Fit:
    """Return the fit at the rank that the penalty left; warn where it is less, or where the fit did not converge."""
    if not newton.converged:
        warn_user(
            f"the fit did not converge: {newton.reason}; try a smaller rank or a larger ridge.", ConvergenceWarning
        )
    kept = tuple(int(np.sum(s >= 1e-6 * max(s[0], 1e-12))) for s in newton.point.singular_values)
    if kept != newton.point.rank:
        warn_user(
            f"the penalty left rank {kept} of {newton.point.rank}: the {battles.unit} do not support more; "
            "use a smaller rank.",
            RankCollapseWarning,
        )
    point = newton.point.leading(kept) if min(kept) > 0 else newton.point
    ended = newton.converged, newton.n_iter, newton.reason, newton.objective
    return Fit(battles, point, ridge, *ended, n_threads, newton.link, effect_values=newton.effect_values)
