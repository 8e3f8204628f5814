"""Covariances of all scores from the blocks of K^-1 B K^-1 that pair models with contexts."""

from collections.abc import Iterator

import numpy as np

from lrbtl.fitting.blocks import BlockDesign, Group
from lrbtl.lowrank.arrowhead import (
    EVERY,
    Arrowhead,
    Blocks,
    Inverse,
    Rows,
    as_dense,
    block_rows,
    inverse_blocks,
    stacked_product,
)
from lrbtl.lowrank.tangent import ContextBlocks, TangentSpace, context_blocks, model_block
from lrbtl.typing import Bools, Floats, Longs


def sandwich_blocks(inverse: Inverse, meat: Arrowhead, rows: Rows = EVERY, border: Floats | None = None) -> Blocks:
    """Return the blocks of inverse @ meat @ inverse for some of the eliminated rows; its border may be at hand."""
    border = sandwich_border(inverse, meat) if border is None else border
    reach, own = inverse.reach_of(rows), inverse.blocks[rows]
    rest = block_rows(meat.cross, own.shape[1], rows) - meat.blocks[rows] @ reach
    through, back = stacked_product(own @ rest, inverse.border), stacked_product(reach, border)
    mixed = (0.5 * back - through) @ np.swapaxes(reach, 1, 2)
    return Blocks(border, through - back, own @ meat.blocks[rows] @ own + mixed + np.swapaxes(mixed, 1, 2))


def sandwich_border(inverse: Inverse, meat: Arrowhead) -> Floats:
    """Return the border of inverse @ meat @ inverse, (q, q)."""
    reach = as_dense(inverse.reach)
    inner = meat.border - reach.T @ _rest(inverse, meat) - as_dense(meat.cross).T @ reach
    return np.asarray(inverse.border @ inner @ inverse.border)


def _rest(inverse: Inverse, meat: Arrowhead) -> Floats:
    """Return the meat's cross part less what the eliminated rows' own meat puts there."""
    reach = as_dense(inverse.reach)
    return as_dense(meat.cross) - (meat.blocks @ reach.reshape(*inverse.blocks.shape[:2], -1)).reshape(reach.shape)


def mean_jacobian(space: TangentSpace, weights: Floats) -> tuple[Floats, Floats]:
    """Return v = sum of w_u v_u for weights (B, D) of the contexts, (B, r1), and its gradients R (size, B r1).

    A mean score U[a] v changes by dU[a] v + U[a] R^T x.
    """
    r1 = space.U.shape[1]
    reach = np.einsum("bu,kl->bkul", weights, np.eye(r1)).reshape(-1, *space.V.shape)
    return weights @ space.V, space.pull(np.zeros((len(reach), *space.U.shape)), reach)


def mean_covariances(space: TangentSpace, v: Floats, R: Floats, border: Floats, product: Floats) -> Floats:
    """Return covariances (B, d1, d1) of all mean scores, given the coordinates' border and product with R.

    Of the large matrix only the block of the model factor and a few columns are needed.
    """
    (d1, r1), B = space.U.shape, len(v)
    models = border[: d1 * r1, : d1 * r1].reshape(d1, r1, d1, r1).transpose(1, 3, 0, 2).reshape(r1 * r1, d1 * d1)
    out = ((v[:, :, None] * v[:, None, :]).reshape(B, -1) @ models).reshape(B, d1, d1)
    rest, own = _mean_parts(space, v, R, product)
    half = (rest + 0.5 * space.U @ own) @ space.U.T
    out += half
    out += np.swapaxes(half, 1, 2)
    if space.centred:
        out -= out.mean(axis=1, keepdims=True)
        out -= out.mean(axis=2, keepdims=True)
    return out


def _mean_parts(space: TangentSpace, v: Floats, R: Floats, product: Floats) -> tuple[Floats, Floats]:
    """Return the covariance of dU v with dv, (B, d1, r1), and that of dv with itself, (B, r1, r1)."""
    (d1, r1), B = space.U.shape, len(v)
    columns = product.reshape(-1, B, r1)
    rest = np.einsum("akbl,bk->bal", columns[: d1 * r1].reshape(d1, r1, B, r1), v)
    return rest, np.einsum("xbk,xbl->bkl", R.reshape(-1, B, r1), columns)


def all_score_variances(space: TangentSpace, blocks: Blocks) -> Floats:
    """Return the variance of every centred score, (d1, D)."""
    models = model_block(space, blocks)
    own_models = np.einsum("akal->akl", models)
    if space.centred:
        mean = models.mean(axis=2)  # covariance of dU[a] with the mean over models
        own_models = own_models - mean - np.swapaxes(mean, 1, 2) + mean.mean(axis=0)
    out = np.empty((len(space.U), len(space.V)))
    for part in context_blocks(space, blocks):
        v = space.V[part.contexts]
        cross = part.cross - part.cross.mean(axis=2, keepdims=True) if space.centred else part.cross
        total = np.einsum("jk,akl,jl->aj", v, own_models, v, optimize=True)
        total += 2 * np.einsum("ab,jbak,jk->aj", space.U, cross, v, optimize=True)
        total += np.einsum("ab,jbc,ac->aj", space.U, part.own, space.U, optimize=True)
        out[:, part.contexts] = total
    return out


def all_gap_variances(space: TangentSpace, blocks: Blocks) -> Floats:
    """Return the variance of every gap a - b, a < b, (pairs, D)."""
    a, b = np.triu_indices(len(space.U), 1)
    out = np.empty((len(a), len(space.V)))
    for part in context_blocks(space, blocks):
        for u, covariance in zip(part.contexts, context_covariances(space, blocks, part), strict=True):
            own = np.diag(covariance)
            out[:, u] = own[a] + own[b] - 2 * covariance[a, b]
    return out


def context_covariances(space: TangentSpace, blocks: Blocks, part: ContextBlocks) -> Floats:
    """Return covariances (n, d1, d1) of the scores of the contexts of a part; right for gaps, centred or not."""
    d1, r1 = space.U.shape
    v = space.V[part.contexts]
    models = model_block(space, blocks).transpose(1, 3, 0, 2).reshape(r1 * r1, d1 * d1)
    out = ((v[:, :, None] * v[:, None, :]).reshape(len(v), -1) @ models).reshape(-1, d1, d1)
    cross = np.einsum("jkal,jl->jka", part.cross, v)
    half = space.U @ (cross + 0.5 * part.own @ space.U.T)
    out += half
    out += np.swapaxes(half, 1, 2)
    return np.asarray(out)


# ------------------------------------------------------------------------------
# Covariances of the scores of contexts, one matrix each: over all models, or over those that met there.
# ------------------------------------------------------------------------------

BATCH = 1 << 22  # numbers that matrices of some contexts may fill at a time


def in_batches(n: int, size: int) -> list[slice]:
    """Return slices of n things of a size, such that those of one fill no more than BATCH numbers.

    >>> in_batches(3, 1 << 21)
    [slice(0, 2, None), slice(2, 4, None)]
    """
    step = max(1, BATCH // size)
    return [slice(k, k + step) for k in range(0, n, step)]


def centred(matrix: Floats) -> Floats:
    """Return Q M Q with Q = I - 1 1^T / d, for matrices (..., d, d)."""
    out = matrix - matrix.mean(axis=-2, keepdims=True)
    out -= out.mean(axis=-1, keepdims=True)
    return np.asarray(out)


def score_covariances(space: TangentSpace, blocks: Blocks, contexts: Longs) -> Floats:
    """Return the covariance of the scores of some contexts, (n, d1, d1), given that of the coordinates for them."""
    d1, D = len(space.U), len(space.V)
    out, place = np.empty((len(contexts), d1, d1)), np.empty(D, dtype=np.int64)
    place[contexts] = np.arange(len(contexts))
    for part in context_blocks(space, blocks, contexts):
        out[place[part.contexts]] = context_covariances(space, blocks, part)
    return out


def low_rank_covariances(space: TangentSpace, inverse: Inverse, contexts: Longs) -> Floats:
    """Return J A^-1 J^T of some contexts over all models, (n, d1, d1)."""
    return score_covariances(space, inverse_blocks(inverse, space.rows[contexts]), contexts)


def slot_covariances(design: BlockDesign, space: TangentSpace, inverse: Inverse) -> Iterator[tuple[int, slice, Floats]]:
    """Yield J A^-1 J^T among the slots of each block of a design, some blocks of a group at a time."""
    thin = not (design.entries.full or space.has_others)
    parts = _context_parts(design, space, inverse) if thin else None
    for g, group in enumerate(design.blocks.groups):
        size = (group.slots.shape[1] * space.U.shape[1]) ** 2 if thin else design.shape[0] ** 2 + space.q
        for part in in_batches(len(group.slots), size):
            if parts is not None:
                stack = _thin_stack(space, inverse, group, part, *parts)
            else:
                contexts, own = np.unique(group.contexts[part], return_inverse=True)
                stack, models = low_rank_covariances(space, inverse, contexts), group.models[part]
                if not design.entries.full:
                    stack = stack[own[:, None, None], models[:, :, None], models[:, None]]
            outside = group.slots[part] == design.n_slots
            if outside.any():
                stack[outside[:, :, None] | outside[:, None]] = 0.0
            yield g, part, stack


def _context_parts(design: BlockDesign, space: TangentSpace, inverse: Inverse) -> tuple[Floats, Floats]:
    """Return covariances of the context vectors of a matrix of scores: with dU[a] v_u on the slots, and their own."""
    (d1, r), E, n = space.U.shape, space.E[0], design.n_slots
    along, own = np.zeros((n + 1, r)), np.zeros((len(space.V), r, r))
    if E.size:  # else contexts have no coordinates of their own
        own += E @ inverse.blocks @ E.T
    for group in design.blocks.context_groups:
        most = group.slots.shape[1] * r + space.q - d1 * r  # coordinates of the border that votes of a context touch
        product = _whole_product if 2 * most > space.q else _product_of_met
        for part in in_batches(len(group.slots), max(most**2, r * space.q)):
            slots, contexts = group.slots[part], group.contexts[part]
            cross, square = product(space, inverse, contexts, group.models[part], slots < n)
            own[contexts] += E @ square @ E.T
            along[slots] = np.einsum("ij,ujml,ul->umi", E, cross, space.V[contexts], optimize=True)
    along[n] = 0.0
    return along, own


Products = tuple[Floats, Floats]  # of contexts with the models that met there, (n, k, m, r), and with themselves


def _whole_product(space: TangentSpace, inverse: Inverse, contexts: Longs, models: Longs, met: Bools) -> Products:
    """Return minus reach @ border at models that met, and reach @ border @ reach^T: one product for all contexts."""
    (d1, r), reach = space.U.shape, inverse.reach_of(contexts)
    cross = (reach.reshape(-1, space.q) @ inverse.border).reshape(reach.shape)
    of_models = cross[:, :, : d1 * r].reshape(len(contexts), -1, d1, r)
    return -np.take_along_axis(of_models, models[:, None, :, None], axis=2), cross @ np.swapaxes(reach, 1, 2)


def _product_of_met(space: TangentSpace, inverse: Inverse, contexts: Longs, models: Longs, met: Bools) -> Products:
    """Return the same, the border being read only at the models that met in a context: they are few."""
    (d1, r), m = space.U.shape, models.shape[1]
    columns = (models[:, :, None] * r + np.arange(r)).reshape(len(models), -1)
    extra = np.broadcast_to(np.arange(d1 * r, space.q), (len(models), space.q - d1 * r))
    columns = np.hstack([columns, extra])
    reach = np.take_along_axis(inverse.reach_of(contexts), columns[:, None], axis=2)
    reach[:, :, : m * r] *= np.repeat(met, r, axis=1)[:, None]
    cross = reach @ inverse.border[columns[:, :, None], columns[:, None]]
    return -cross[:, :, : m * r].reshape(len(models), -1, m, r), cross @ np.swapaxes(reach, 1, 2)


def _thin_stack(space: TangentSpace, inverse: Inverse, group: Group, part: slice, along: Floats, own: Floats) -> Floats:
    """Return J A^-1 J^T among the slots of some blocks, given the parts of their contexts."""
    (d1, r), models, contexts = space.U.shape, group.models[part], group.contexts[part]
    v, U = space.V[contexts], space.U[models] * (group.slots[part] < len(along) - 1)[:, :, None]
    both = inverse.border[: d1 * r, : d1 * r].reshape(d1, r, d1, r)[models[:, :, None], :, models[:, None]]
    half = U @ (np.swapaxes(along[group.slots[part]], 1, 2) + 0.5 * own[contexts] @ np.swapaxes(U, 1, 2))
    return np.asarray(np.einsum("bk,bijkl,bl->bij", v, both, v, optimize=True) + half + np.swapaxes(half, 1, 2))


# ------------------------------------------------------------------------------
# Which variance is believed: that of squared scores, unless they vanish.
# ------------------------------------------------------------------------------

SEPARATED = 2.0  # ratio of model-based to sandwich variance above which the sandwich is not believed
SMALLEST_SHARE = 1e-12  # of the model-based variance, below which a sandwich variance is rounding


def believed_variances(sandwich: Floats, model: Floats) -> Floats:
    """Return sandwich variances, or model-based ones where they are far larger.

    Near separation (and where all votes are ties) residuals vanish, and the sandwich with them.

    >>> believed_variances(np.array([1.0, 0.1]), np.array([1.5, 1.5]))
    array([1. , 1.5])
    """
    robust = np.maximum(sandwich, 0.0)
    return np.where(model > SEPARATED * robust, model, robust)


def believed_covariance(cov: Floats, model_se: Floats) -> Floats:
    """Return the sandwich covariance with `believed_variances`, and the correlations of the sandwich."""
    variance = np.maximum(np.diag(cov), 0.0)
    usable = variance > SMALLEST_SHARE * model_se**2
    se = np.sqrt(np.where(usable, variance, 1.0))
    correlation = np.where(np.outer(usable, usable), cov / np.outer(se, se), np.eye(len(cov)))
    new = np.sqrt(believed_variances(variance, model_se**2))
    return np.asarray(correlation * np.outer(new, new))


# ------------------------------------------------------------------------------
# How noisy standard errors are, and how much larger they must be for it.
#
# A standard error is taken at a noisy fit: its tangent space, its information and the gradient of the target all move
# with the battles. The variance noise of an estimate is the variance of the log of its estimated variance, by the
# jackknife over the fits without each fold. With nu degrees of freedom it is 2 / nu, and Student's quantile is that of
# the normal, c, times 1 + (c^2 + 1) / (4 nu) to first order. Standard errors take half of that, a share that
# simulations chose. The variance meant is the model-based one: the noise of the squared scores is left out, and for the
# whitened method that of 1 / I.
# ------------------------------------------------------------------------------

USUAL = 1.96  # standard errors that a 95% interval reaches
MOST = 4.0  # half a degree of freedom: few folds have no more
SHARE = 0.5  # of Student's widening; on LMArena subsamples none covers .92-.93, half .95-.96, the whole .96-.97


class VarianceNoise:
    """The jackknife over folds of the log of variances, fed with one fold at a time; zero from one fold alone."""

    count: int
    first: Floats
    sum: Floats
    squares: Floats

    def __init__(self, shape: tuple[int, ...]):
        self.count = 0
        self.first = np.zeros(shape)
        self.sum = np.zeros(shape)
        self.squares = np.zeros(shape)

    def add(self, variances: Floats) -> None:
        """Take in the variances at the fit without one fold."""
        logs = np.log(np.maximum(variances, np.finfo(float).tiny))
        if self.count == 0:
            self.first = logs
        away = logs - self.first
        self.count += 1
        self.sum += away
        self.squares += away**2

    def value(self) -> Floats:
        """Return (K - 1) / K times the sum of squared distances from the mean, at most MOST."""
        n = max(self.count, 1)
        return np.asarray(np.clip((n - 1) / n * (self.squares - self.sum**2 / n), 0.0, MOST))


def widening(variance_noise: Floats, critical: float = USUAL) -> Floats:
    """Return by how much a standard error must be larger for intervals that reach `critical` of them.

    >>> widening(np.array([0.0, 0.04, 0.4])).round(3)
    array([1.   , 1.012, 1.114])
    """
    return np.asarray(np.sqrt(1.0 + SHARE * (critical**2 + 1.0) / 4.0 * variance_noise))


def tail_widening(critical: float, variance_noise: Floats) -> Floats:
    """Return by how much intervals that reach further than the usual ones must be wider still; 1 for others.

    >>> tail_widening(3.3, np.array([0.0, 0.04, 0.4])).round(3)
    array([1.   , 1.017, 1.133])
    """
    return widening(variance_noise, max(critical, USUAL)) / widening(variance_noise)


def pair_widening(critical: float, variance_noise: Floats) -> Floats:
    """Return the widening of joint intervals of all gaps, (d, d): that of the looser of the two scores.

    >>> pair_widening(3.3, np.array([0.0, 0.4])).round(3)
    array([[1.   , 1.133],
           [1.133, 1.133]])
    """
    return tail_widening(critical, np.maximum(variance_noise[:, None], variance_noise))
