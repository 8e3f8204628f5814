"""The paper's initial estimator: spectral start, alternating minimisation, refinement [Li26, sec. sim-altmin].

`fit` is the better one; this one is here to compare with.

T = U V^T with U (d1, r) and V (D, r). Given U, each row of V is a logistic regression on its own; given V, all rows of
U are one, as each vote has two of them. The paper leaves two things open, which are said here: regressions have a weak
ridge on balanced factors, as separated ones have no maximum, and entries are clipped before the truncation to rank r,
as clipping after it would undo it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.special import expit

from lrbtl.data.battles import Battles
from lrbtl.data.frames import Frame, as_data
from lrbtl.errors import InputTypeError, MethodError, RankError, as_floats, check_whole, is_within, spelled
from lrbtl.fitting.design import Design
from lrbtl.fitting.local import Local
from lrbtl.fitting.low_rank import check_informed, make_design
from lrbtl.lowrank.tucker import Tucker, centre, check_rank, truncate
from lrbtl.threads import one_blas_thread
from lrbtl.typing import AnyInts, Floats

ROUNDS = 3  # [Li26, sec. sim-altmin]
CLIP = 7.0  # alpha + 2 of the paper, whose scores reach alpha = 5
RIDGE = 1e-3  # on each coordinate of balanced factors
NEWTON_STEPS, HALVINGS = 12, 8
CLOSE = 1e-6  # decrease of the loss, over its size, at which a regression has converged


@one_blas_thread
def spectral_initialisation(battles: Battles | Frame, rank: int | Sequence[int]) -> Floats:
    """Return 4 d_eff / n sum of (y - 1/2) X, truncated to the rank: scores (d1, ..., dm), zero sums along mode 1.

    Under uniform sampling it is the linearised estimate at T = 0, where the information of a vote is 1/4
    [Li26, sec. sim-altmin]; `fit` starts from a version that allows for uneven sampling.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((12, 6), 2, scale=1, rng=0)
    >>> start = lrbtl.spectral_initialisation(lrbtl.simulate_battles(truth, 20_000, rng=1), 2)
    >>> bool(abs(start - truth).mean() < 0.2)
    True
    """
    design, full_rank = _prepared(battles, rank)
    sums = design.entries.slot_matrix(design.entries.slot_sums(design.count * (design.y - 0.5)))
    dense = np.asarray(sums if isinstance(sums, np.ndarray) else sums.toarray()).T.reshape(design.shape)
    return truncate(centre(4.0 * design.d_eff / design.count.sum() * dense), full_rank).dense()


@one_blas_thread
def alternating_minimisation(
    battles: Battles | Frame,
    rank: int | Sequence[int],
    *,
    rounds: int = ROUNDS,
    clip: float = CLIP,
    start: ArrayLike | None = None,
) -> Floats:
    """Return scores (d1, d2) by rounds of logistic regressions for V given U and for U given V, clipped and truncated.

    Parameters
    ----------
    battles : Battles or data frame
        With one context mode.
    rank : int or tuple
    rounds : int
        3 in the paper.
    clip : float
        Largest size of a score after each round, before scores are centred. The paper takes 2 more than the largest
        true score, which is not known outside of simulations.
    start : array, optional
        Scores to begin with, by default `spectral_initialisation`.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((12, 6), 2, scale=2, rng=0)
    >>> found = lrbtl.alternating_minimisation(lrbtl.simulate_battles(truth, 20_000, rng=1), 2)
    >>> bool(abs(found - truth).mean() < 0.1)
    True
    """
    design, full_rank = _prepared(battles, rank, order=2)
    check_whole(rounds, "rounds")
    if not is_within(clip, 0.0, np.inf):
        raise MethodError(f"clip={spelled(clip)}: give a number above 0.", argument="clip", value=clip)
    scores = spectral_initialisation(battles, rank) if start is None else _read_scores(start, design.shape)
    for _ in range(rounds):
        U, V = _balanced(scores, full_rank[0])
        V = _fit_contexts(design, U, V)
        U = _fit_models(design, U, V)
        scores = truncate(centre(np.clip(U @ V.T, -clip, clip)), full_rank).dense()
    return scores


@one_blas_thread
def refine_entries(battles: Battles | Frame, scores: ArrayLike, rank: int | Sequence[int]) -> Floats:
    """Return scores after one regression per model, opponents and V as they are, and one per context given these.

    Parameters
    ----------
    battles : Battles or data frame
        With one context mode.
    scores : array (d1, d2)
        Such as `alternating_minimisation` returns.
    rank : int or tuple

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((12, 6), 2, scale=2, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 20_000, rng=1)
    >>> refined = lrbtl.refine_entries(battles, lrbtl.alternating_minimisation(battles, 2), 2)
    >>> bool(abs(refined - truth).mean() < 0.1)
    True
    """
    design, full_rank = _prepared(battles, rank, order=2)
    given = _read_scores(scores, design.shape)
    U, V = _balanced(given, full_rank[0])
    context = design.entries.context
    own, other = np.concatenate([design.a, design.b]), np.concatenate([design.b, design.a])
    where, count = np.tile(context, 2), np.tile(design.count, 2)
    y = np.concatenate([design.y, 1.0 - design.y])
    U = centre(_regressions(V[where], -given[other, where], y, count, own, U))
    return centre(U @ _fit_contexts(design, U, V).T)


def _prepared(
    battles: Battles | Frame, rank: int | Sequence[int], order: int | None = None
) -> tuple[Design, tuple[int, ...]]:
    """Return the design of votes and the full rank."""
    votes = as_data(battles)
    if not isinstance(votes, Battles):
        raise InputTypeError("the paper's initial estimator is for votes; use lrbtl.fit for entries of a score table.")
    if order is not None and len(votes.shape) != order:
        raise RankError(
            f"scores of shape {votes.shape} are not a matrix, for which alone the paper states its alternating "
            "minimisation: use lrbtl.fit."
        )
    if votes.covariates:
        raise MethodError("the paper's initial estimator knows no covariates: leave them out of the votes, or use fit.")
    check_informed(votes)
    return make_design(votes, None), check_rank(rank, votes.shape)


def _read_scores(scores: ArrayLike, shape: tuple[int, ...]) -> Floats:
    values = as_floats(scores, "scores", RankError)
    if values.shape != shape or not np.isfinite(values).all():
        raise RankError(f"scores of shape {values.shape} do not fit: give finite scores of shape {shape}.")
    return values


def _balanced(scores: Floats, rank: int) -> tuple[Floats, Floats]:
    """Return U S^1/2 and V S^1/2 of the leading singular vectors and values."""
    left, values, right = np.linalg.svd(scores, full_matrices=False)
    root = np.sqrt(values[:rank])
    return left[:, :rank] * root, right[:rank].T * root


def _fit_contexts(design: Design, U: Floats, V: Floats) -> Floats:
    """Return V with each row the logistic regression of its context's votes on U[a] - U[b]."""
    zero = np.zeros(len(design.a))
    return _regressions(U[design.a] - U[design.b], zero, design.y, design.count, design.entries.context, V)


def _fit_models(design: Design, U: Floats, V: Floats) -> Floats:
    """Return U as the one logistic regression that all votes are, given V."""
    (d1, r), eye = U.shape, np.eye(U.shape[1])

    def loss(U: Floats) -> float:
        eta = np.einsum("nk,nk->n", U[design.a] - U[design.b], V[design.entries.context])
        return float(design.count @ (np.logaddexp(0.0, eta) - design.y * eta) + 0.5 * RIDGE * np.sum(U**2))

    now = loss(U)
    for _ in range(NEWTON_STEPS):
        here = Local.of(design, Tucker(eye, (U, V)))
        border = here.information.border
        gradient = here.gradient[: d1 * r] - RIDGE * U.reshape(-1)
        border = border + RIDGE * np.eye(d1 * r) + np.kron(np.full((d1, d1), 1.0 / d1), eye)
        step = linalg.solve(border, gradient, assume_a="pos").reshape(d1, r)
        for _ in range(HALVINGS):
            then = loss(U + step)
            if then <= now:
                break
            step *= 0.5
        gain, U, now = now - then, U + step, then
        if gain < CLOSE * now:
            break
    return U


def _regressions(x: Floats, offset: Floats, y: Floats, count: Floats, group: AnyInts, start: Floats) -> Floats:
    """Return the coefficients (G, r) of one logistic regression per group: eta = offset + x beta[group].

    Newton steps, halved group by group until the penalised loss falls.
    """
    order = np.argsort(group, kind="stable")
    x, offset, y, count, group = x[order], offset[order], y[order], count[order], group[order]
    size, r = start.shape
    first = np.searchsorted(group, np.arange(size))
    outer = np.einsum("ni,nj->nij", x, x).reshape(len(x), -1)

    def sums(values: Floats) -> Floats:
        padded = np.concatenate([values, np.zeros((1, values.shape[1]))])
        out = np.add.reduceat(padded, first, axis=0)
        out[np.diff(np.append(first, len(values))) == 0] = 0.0
        return np.asarray(out)

    def losses(beta: Floats) -> Floats:
        eta = offset + np.einsum("nk,nk->n", x, beta[group])
        each = count * (np.logaddexp(0.0, eta) - y * eta)
        return np.asarray(sums(each[:, None])[:, 0] + 0.5 * RIDGE * np.square(beta).sum(axis=1))

    beta, now = start.copy(), losses(start)
    for _ in range(NEWTON_STEPS):
        p = expit(offset + np.einsum("nk,nk->n", x, beta[group]))
        gradient = sums((count * (y - p))[:, None] * x) - RIDGE * beta
        hessian = sums((count * p * (1 - p))[:, None] * outer).reshape(size, r, r) + RIDGE * np.eye(r)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        then = losses(beta + step)
        for _ in range(HALVINGS):
            worse = then > now
            if not worse.any():
                break
            step[worse] *= 0.5
            then = losses(beta + step)
        better = then <= now
        beta[better] += step[better]
        gain, now = now - np.minimum(then, now), np.minimum(then, now)
        if gain.sum() < CLOSE * now.sum():
            break
    return beta
