"""Algorithms 1 and 2 of the paper as printed [Li26, alg. onestep, alg. ws-onestep], with every object that it names.

For each fold k, with T_k fitted to the other folds, P_k the projection on its tangent space and Gamma = grad psi(T_k):

    Algorithm 1   H_k = (P_k G_k P_k)^-1 P_k Gamma,   phi_i = s_i <H_k, X_i>
    Algorithm 2   H_k = d_eff P_k Gamma,              phi_i = w_i s_i / I_i <H_k, X_i>
    both          psi_k = psi(T_k) + sum over fold k of phi_i / n_k,
                  psi = sum_k n_k / N psi_k,   V = sum_i phi_i^2 / N,   se = sqrt(V / N).

Corrections of what is printed, without which it is wrong; `docs/paper.md` has a counter-example for each: d* is
D (d1 - 1) / 2, the reference of the weights is one over the number of atoms, gradients are centred along mode 1, folds
of unequal size count as n_k / N, and tangent blocks of order 3 and more stay inside the row spaces.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, expit

from lrbtl.data.battles import Battles
from lrbtl.data.folds import check_folds, fold_counts
from lrbtl.data.frames import Frame, as_data
from lrbtl.errors import (
    FoldError,
    MethodError,
    RankError,
    SingularInformationError,
    UnevenSamplingWarning,
    as_floats,
    check_flag,
    listed,
    warn_user,
)
from lrbtl.fitting.design import Design
from lrbtl.fitting.fit import fit
from lrbtl.fitting.low_rank import Fit, make_design
from lrbtl.inference.bounds import DEFICIENT
from lrbtl.inference.estimate import Estimate
from lrbtl.inference.joint import normal_quantile, wald_interval
from lrbtl.inference.targets import Target, resolve_targets
from lrbtl.lowrank.tucker import Tucker, centre, check_rank, truncate
from lrbtl.methods.base import Provenance
from lrbtl.methods.efficient import EfficientRecipe
from lrbtl.methods.one_step import FoldStep, Law, Recipe, evaluate_targets, fold_step, inverse_weights
from lrbtl.methods.targets import Resolved, Stack
from lrbtl.methods.whitened import WhitenedRecipe
from lrbtl.model.sampling import Sampling, UniformSampling, as_sampling
from lrbtl.tables import mark_gap, shown_rows, text_table, to_frame
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats, Longs, Seed

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

PAPER_FOLDS = 6  # [Li26, sec. simulations]
FOLD_ROWS = 12  # printed
CLEARLY = 1e-6  # p-value of uniform sampling below which it is surely not that

Initial = Callable[[Battles], "Fit | ArrayLike"] | Sequence["Fit | ArrayLike"]


@dataclass(frozen=True, eq=False, repr=False)
class OneStep:
    """What Algorithm 1 or 2 computes on the way to M estimates with K folds and N votes.

    Everything is on the natural scale: a win probability is a probability.

    Attributes
    ----------
    labels : tuple of str
    algorithm : int
        1 for the efficient direction, 2 for the whitened one.
    estimate : array (M,)
        psi, the mean of the fold estimates with weights n_k / N.
    variance : array (M,)
        V, the second moment of the influence values; the variance of psi is V / N.
    cov : array (M, M)
        Covariance of the estimates, from products of influence values.
    fold_estimates, plug_in : arrays (K, M)
        psi_k, and psi(T_k) before its correction.
    fold_sizes : array (K,)
    initial : array (K, d1, ..., dm)
        T_k, zero sums along mode 1.
    directions : array (K, M, d1, ..., dm)
        H_k of each target.
    influence : array (n, M)
        phi of one vote, a row for each cell of votes in each fold that holds some.
    fold, cell, count : arrays (n,)
        The fold and the position in ``battles.cells`` of each row, and how many votes it stands for.
    largest : array (M,)
        Largest size of an influence value.
    sampling : str
        Law of the information (Algorithm 1) or of the weights (Algorithm 2).

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((12, 6), 2, scale=2, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 20_000, rng=1)
    >>> found = lrbtl.one_step(battles, lrbtl.gap(0, 1, 2), rank=2)
    >>> found.directions.shape, found.per_battle().shape
    ((6, 1, 12, 6), (20000, 1))
    """

    labels: tuple[str, ...]
    algorithm: int
    estimate: Floats
    variance: Floats
    cov: Floats
    fold_estimates: Floats
    plug_in: Floats
    fold_sizes: Floats
    initial: Floats
    directions: Floats
    influence: Floats
    fold: Longs
    cell: Longs
    count: Longs
    largest: Floats
    sampling: str
    rank: tuple[int, ...]

    @property
    def n_battles(self) -> int:
        """Number N of votes."""
        return int(self.fold_sizes.sum())

    @cached_property
    def se(self) -> Floats:
        """(M,) standard errors sqrt(V / N)."""
        return np.sqrt(self.variance / self.n_battles)

    def conf_int(self, level: float = 0.95) -> Floats:
        """Return (M, 2) intervals estimate ± z se."""
        return wald_interval(self.estimate, normal_quantile(level) * self.se)

    def per_battle(self) -> Floats:
        """Return phi of every vote, (N, M), fold by fold."""
        return np.repeat(self.influence, self.count, axis=0)

    def to_estimate(self) -> Estimate:
        """Return the estimates with their covariance, for joint intervals, contrasts and tests on the natural scale."""
        info = Provenance(f"Algorithm {self.algorithm}", self.rank, self.n_battles, len(self.fold_sizes))
        moments = self.variance, self.largest, float(self.n_battles)
        return Estimate(self.labels, self.estimate, self.cov, links="identity", info=info, influence=moments)

    def _columns(self, level: float) -> dict[str, Any]:
        interval = self.conf_int(level)
        plain = self.fold_sizes / self.fold_sizes.sum() @ self.plug_in
        return {
            "label": list(self.labels),
            "estimate": self.estimate,
            "se": self.se,
            "lower": interval[:, 0],
            "upper": interval[:, 1],
            "plug_in": plain,
            "correction": self.estimate - plain,
            "variance": self.variance,
        }

    @overload
    def to_frame(self, backend: Literal["pandas"], *, level: float = ...) -> "pd.DataFrame": ...
    @overload
    def to_frame(self, backend: Literal["polars"], *, level: float = ...) -> "pl.DataFrame": ...
    @overload
    def to_frame(self, backend: Literal["pyarrow"], *, level: float = ...) -> "pa.Table": ...
    @overload
    def to_frame(self, backend: str | None = None, *, level: float = ...) -> Any: ...
    def to_frame(self, backend: str | None = None, *, level: float = 0.95) -> Any:
        """Return a frame with columns label, estimate, se, lower, upper, plug_in, correction, variance."""
        return to_frame(self._columns(level), backend)

    def fold_columns(self) -> dict[str, list[Any]]:
        """Return what each fold found, target by target, as plain lists.

        Columns: label, fold, votes, plug_in psi(T_k), correction, psi_k, variance (of the fold's influence values), and
        the largest sizes of T_k, of H_k and of phi.

        Examples
        --------
        >>> import lrbtl
        >>> truth = lrbtl.simulate_scores((12, 6), 2, scale=2, rng=0)
        >>> battles = lrbtl.simulate_battles(truth, 20_000, rng=1)
        >>> lrbtl.one_step(battles, lrbtl.gap(0, 1, 2), rank=2, folds=2).fold_columns()["votes"]
        [10000, 10000]
        """
        K, M = self.fold_estimates.shape
        squares, sizes = np.zeros((K, M)), np.zeros((K, M))
        for k in range(K):
            own = self.fold == k
            squares[k] = self.count[own] @ np.square(self.influence[own]) / self.fold_sizes[k]
            sizes[k] = np.abs(self.influence[own]).max(axis=0)
        parts = {
            "plug_in": self.plug_in,
            "correction": self.fold_estimates - self.plug_in,
            "psi_k": self.fold_estimates,
            "variance": squares,
            "|T_k|": np.broadcast_to(np.abs(self.initial).reshape(K, -1).max(axis=1)[:, None], (K, M)),
            "|H_k|": np.abs(self.directions).reshape(K, M, -1).max(axis=2),
            "|phi|": sizes,
        }
        return {
            "label": [label for label in self.labels for _ in range(K)],
            "fold": [*range(K)] * M,
            "votes": [int(n) for n in self.fold_sizes] * M,
            **{name: part.T.reshape(-1).tolist() for name, part in parts.items()},
        }

    def summary(self, level: float = 0.95) -> str:
        """Return the estimates with what they are made of, overall and fold by fold, as text."""
        columns = self._columns(level)
        rows = [[str(label), *(f"{x:.4g}" for x in values)] for label, *values in zip(*columns.values(), strict=True)]
        folds = self.fold_columns()
        parts = [[f"{x:,}" if isinstance(x, int) else f"{x:.4g}" for x in part] for part in [*folds.values()][1:]]
        head, tail = shown_rows(len(folds["label"]), FOLD_ROWS)
        shown = mark_gap([[part[i] for i in (*head, *tail)] for part in (folds["label"], *parts)], len(folds["label"]))
        sizes = f"{int(self.fold_sizes.min()):,} to {int(self.fold_sizes.max()):,}"
        kind = "score-whitened" if self.algorithm == 2 else "efficient"
        lines = [
            f"Algorithm {self.algorithm} ({kind} one-step estimator) as printed",
            f"  votes {self.n_battles:,}, folds {len(self.fold_sizes)} of {sizes}, rank {self.rank}, "
            f"sampling: {self.sampling}",
            text_table([*columns], rows),
            "by fold, with the largest sizes of scores, direction and influence values:",
            text_table([*folds], shown),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()


@one_blas_thread
def one_step(
    battles: Battles | Frame,
    targets: Target | Iterable[Target],
    *,
    rank: int | Sequence[int],
    whiten: bool = False,
    initial: Initial | None = None,
    folds: int | ArrayLike | None = None,
    sampling: Sampling | None = None,
    rng: Seed = 0,
) -> OneStep:
    """Return Algorithm 1 (or 2, with `whiten`) of the paper as printed, with all that it computes on the way.

    `infer(method="efficient")` and `infer(method="whitened")` are these algorithms with improvements, each of which has
    a switch in `Improvements`. Here are none: the printed score, the plain second moment, no ridge share.

    Parameters
    ----------
    battles : Battles or data frame
        Votes without covariates, weights and clusters, which the paper does not have.
    targets : Target or list of Target
        Linear or not; a nonlinear one has the gradient at each fold's fit.
    rank : int or tuple
        Tucker rank of the initial estimates.
    whiten : bool
        Algorithm 2: H = d_eff P_T Gamma and the score s / I.
    initial : function or sequence, optional
        A function from the votes of the other folds to scores or a `Fit`, or K of either, in the order of the folds.
        Scores are centred and truncated to the rank. By default `fit`, whose penalty is chosen in each fold: Algorithm
        2 needs one, as it divides by the information. ``lambda votes: lrbtl.alternating_minimisation(votes, rank)`` is
        the paper's own; the intervals of Algorithm 1 cover better with it.
    folds : int or array (K, n_cells), optional
        Number of random folds, by default 6 as in the paper, or how many votes of each cell lie in each fold.
    sampling : Sampling, optional
        Law of the votes. Algorithm 1: the information is its expectation under the law; by default that of the observed
        votes [Li26, eq. Ghat_def]. Algorithm 2: the score is weighted by q / p [Li26, eq. ipw-estimator]; by default
        the law is uniform, as printed. ``ProductSampling.estimate(battles)`` estimates one.
    rng : int, Generator or None
        Of random folds.

    Returns
    -------
    OneStep

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((12, 6), 2, scale=2, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 20_000, rng=1)
    >>> found = lrbtl.one_step(battles, lrbtl.gap(0, 1, 2), rank=2, whiten=True)
    >>> bool(abs(found.estimate[0] - (truth[0, 2] - truth[1, 2])) < 4 * found.se[0])
    True
    """
    votes = _plain_votes(battles)
    full_rank = check_rank(rank, votes.shape)
    check_flag(whiten, "whiten")
    resolved = resolve_targets(votes, targets)
    held_out = _read_folds(votes, folds, rng)
    points = _initial_points(votes, held_out, initial, full_rank)
    design = make_design(votes, None)
    recipe = _recipe(design, sampling, whiten=whiten)
    if whiten and sampling is None:
        _warn_uneven(votes)
    found = [
        _Fold.of(fold_step(design, point, counts.astype(float), recipe), resolved, votes)
        for point, counts in zip(points, held_out, strict=True)
    ]
    sizes = held_out.sum(axis=1).astype(float)
    share = sizes / sizes.sum()
    fold_estimates = np.stack([fold.plug_in + fold.correction for fold in found])
    influence, count = np.concatenate([fold.influence for fold in found]), _present(held_out)
    default = "uniform" if whiten else "as observed"
    return OneStep(
        labels=tuple(target.label for target in resolved),
        algorithm=2 if whiten else 1,
        estimate=share @ fold_estimates,
        variance=share @ np.stack([fold.squares for fold in found]),
        cov=influence.T @ (count[:, None] * influence) / sizes.sum() ** 2,
        fold_estimates=fold_estimates,
        plug_in=np.stack([fold.plug_in for fold in found]),
        fold_sizes=sizes,
        initial=np.stack([point.dense() for point in points]),
        directions=np.stack([fold.directions for fold in found]),
        influence=influence,
        fold=np.nonzero(held_out)[0],
        cell=np.nonzero(held_out)[1],
        count=count,
        largest=np.max([fold.largest for fold in found], axis=0),
        sampling=default if sampling is None else repr(sampling),
        rank=full_rank,
    )


@dataclass(frozen=True)
class _Fold:
    """What one fold gives M targets."""

    plug_in: Floats  # (M,) psi(T_k)
    correction: Floats  # (M,) mean influence value of the fold
    directions: Floats  # (M, d1, ..., dm) H_k
    influence: Floats  # (n, M) phi of one vote of each cell of the fold
    squares: Floats  # (M,) mean squared influence value
    largest: Floats  # (M,) largest size of one

    @classmethod
    def of(cls, step: FoldStep, targets: Sequence[Resolved], votes: Battles) -> "_Fold":
        """Return what a step gives targets on their natural scales."""
        space, local = step.space, step.votes
        assert local is not None
        values, gradients = evaluate_targets(space, Stack.of(targets), votes.shape)
        probability = np.array([target.scale == "logit" for target in targets])
        gradients = gradients * np.where(probability, expit(values) * expit(-values), 1.0)
        _check_informed(step, gradients, targets)
        coordinates = step.solver.solve(gradients)
        columns = [np.ascontiguousarray(column) for column in coordinates.T]
        moments = np.array([local.influence(column) for column in columns])
        cells = np.arange(len(local.design.a))
        return cls(
            plug_in=np.where(probability, expit(values), values),
            correction=gradients.T @ step.delta,
            directions=np.stack([space.dense(column).reshape(votes.shape) for column in columns]),
            influence=step.influence_rows(step.changes(coordinates), coordinates[space.extra], cells),
            squares=moments[:, 0],
            largest=moments[:, 1],
        )


def _check_informed(step: FoldStep, gradients: Floats, targets: Sequence[Resolved]) -> None:
    """Raise where the votes of the other folds leave a direction of a target without information."""
    null = step.solver.null
    if null is None:
        return
    size = np.linalg.norm(null, axis=0)[:, None] * np.linalg.norm(gradients, axis=0)
    hit = (np.abs(null.T @ gradients) > 1e-6 * size).any(axis=0)
    if hit.any():
        raise SingularInformationError(
            f"the votes of a training fold do not determine {targets[int(np.argmax(hit))].label}: use a smaller rank, "
            "fewer folds, or infer(...), which names what is missing."
        )


def _plain_votes(battles: Battles | Frame) -> Battles:
    votes = as_data(battles)
    if not isinstance(votes, Battles):
        raise MethodError("one_step is for votes; infer(..., method='efficient') estimates entries of a score table.")
    extras = [
        (bool(votes.covariates), "covariates"),
        (votes.vote_weights is not None, "weights of votes"),
        (votes.cells.clusters is not None, "clusters"),
    ]
    if more := [name for there, name in extras if there]:
        raise MethodError(
            f"the paper's algorithms know no {' and no '.join(more)}: leave them out of the votes, or use "
            "infer(..., method='efficient')."
        )
    return votes


def _read_folds(votes: Battles, folds: int | ArrayLike | None, rng: Seed) -> Longs:
    """Return how many votes of each cell lie in each fold, (K, n_cells)."""
    if not isinstance(folds, list | tuple | np.ndarray):
        n_folds: Any = PAPER_FOLDS if folds is None else folds
        check_folds(votes, n_folds)
        return fold_counts(votes.cells, n_folds, rng)
    as_floats(folds, "folds", FoldError)
    given = np.asarray(folds)
    right = given.ndim == 2 and len(given) >= 2 and given.shape[1] == votes.n_cells
    if not right or not np.issubdtype(given.dtype, np.integer):
        raise FoldError(
            f"folds of shape {given.shape} do not fit: give a number, or whole numbers of shape (K, {votes.n_cells}), "
            "the votes of each cell of battles.cells in each of K >= 2 folds."
        )
    if given.min() < 0 or not np.array_equal(given.sum(axis=0), votes.cells.count) or not given.any(axis=1).all():
        raise FoldError("every vote must lie in one fold and every fold hold some: columns sum to battles.cells.count.")
    return given.astype(np.int64)


def _present(held_out: Longs) -> Longs:
    return np.asarray(held_out[held_out > 0])


def _initial_points(votes: Battles, held_out: Longs, initial: Initial | None, rank: tuple[int, ...]) -> list[Tucker]:
    """Return T_k of each fold, in HOSVD form."""
    if initial is None:
        initial = _own_fit(rank)
    if callable(initial):
        found: Sequence[Fit | ArrayLike] = [initial(votes.with_counts(votes.cells.count - fold)) for fold in held_out]
    else:
        found = listed(initial, "initial", "give one estimate per fold, or a function from votes to one")
        if len(found) != len(held_out):
            raise FoldError(f"{len(found)} initial estimates for {len(held_out)} folds: give one per fold.")
    points = [_as_point(each, votes.shape, rank) for each in found]
    if any(s[-1] <= DEFICIENT * max(s[0], 1e-300) for point in points for s in point.singular_values):
        raise SingularInformationError(
            f"an initial estimate has a rank below {rank}, where the low-rank set has no tangent space: the votes of a "
            "training fold show less. Use a smaller rank, more votes, or infer(...)."
        )
    return points


def _own_fit(rank: tuple[int, ...]) -> Callable[[Battles], Fit]:
    return lambda votes: fit(votes, rank)


def _as_point(found: Fit | ArrayLike, shape: tuple[int, ...], rank: tuple[int, ...]) -> Tucker:
    """Return a fit's point, or centred scores truncated to the rank."""
    if isinstance(found, Fit):
        return found.point
    scores = as_floats(found, "an initial estimate", RankError)
    if scores.shape != shape or not np.isfinite(scores).all():
        raise RankError(f"an initial estimate has shape {scores.shape} or is not finite: give finite scores {shape}.")
    return truncate(centre(scores), rank)


def _warn_uneven(votes: Battles) -> None:
    """Warn where models or contexts are surely not sampled uniformly."""
    for what, counts in (("models", votes.model_counts), ("contexts", votes.context_counts)):
        mean = counts.mean()
        if counts.size > 1 and chdtrc(counts.size - 1, np.sum((counts - mean) ** 2) / mean) < CLEARLY:
            warn_user(
                f"{what} have {counts.min():,} to {counts.max():,} votes: Algorithm 2 as printed takes sampling as "
                "uniform, and is biased where it is not. Pass sampling=lrbtl.ProductSampling.estimate(battles).",
                UnevenSamplingWarning,
            )
            return


def _recipe(design: Design, sampling: Sampling | None, *, whiten: bool) -> Recipe:
    """Return what the algorithm puts into the step of a fold."""
    as_sampling(sampling)
    if whiten:
        even = sampling is None or isinstance(sampling, UniformSampling)
        return WhitenedRecipe(None if even or sampling is None else inverse_weights(sampling, design))
    return EfficientRecipe(None if sampling is None else Law.of(sampling, design.shape))
