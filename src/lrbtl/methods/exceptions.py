"""Entries that are far from what the others say of them, such as the score of a specialist in its category.

Deviations are many small ones, and a few large ones. Each entry is an exception with some probability, by a spike and
a slab round what the mode says of it (`find_exceptions`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from lrbtl.fitting.blocks import Field
from lrbtl.methods.posterior import Posterior
from lrbtl.methods.sampled import Sampled
from lrbtl.typing import Bools, Floats

NONE = 0.05  # prior probability that no entry is an exception
SHARES = 0.3 * 1.7 ** -np.arange(24.0)  # of entries that may be exceptions, in equal steps of their logarithm
MOST, A_MODEL = 1 / 16, 1 / 2  # largest of the likeliest shares of exceptions, and likeliest number of a model
PRIOR_ENTRIES = 64  # that the prior of the share counts as
SLAB = 0.6  # of the spread of all scores: the size of exceptions
TAILS = 4.0  # degrees of freedom of their law: a large one is not drawn to the others
NEGLIGIBLE = 1e-12  # weight of a share that changes nothing
OUTSIDE = 0.05  # what an interval leaves out
REACH = float(ndtri(1 - OUTSIDE / 2))  # its standard errors
STEPS, SETTLED = 40, 1e-7  # most steps to find where it ends, and the relative step that is the last
OTHERS_SAY = 1e-4  # of what votes say of an entry: where others say less, nothing is an exception from it
LEAST_OWN = 1e-6  # share of an entry's information that is taken for what the others leave open of it
LARGEST_RATIO = 600.0  # nats: beyond it numbers would overflow
LARGEST_SHIFT = 5.0  # logits that an exception may add: g / V says nothing further from where V was taken


@dataclass(frozen=True)
class Exceptions:
    """What is known of exceptions.

    Attributes
    ----------
    probability : array (n_slots,)
        That an entry is an exception.
    shift : array (n_slots,)
        What an exception adds to the entry before L and E give way.
    move : Field
        What scores change by, on average over both cases.
    variance : array (n_slots,)
        What it adds to its variance.
    nats : array (n_slots,)
        Log likelihood ratio of its being one.
    """

    probability: Floats
    shift: Floats
    move: Field
    variance: Floats
    nats: Floats

    def likeliest(self, among: Bools) -> Bools:
        """Return which of some entries are the likeliest exceptions of their models, or contexts if these are more.

        Two entries of one model may each be taken for the exception that the other one is.
        """
        design = self.move.design
        context, model = design.slot_places
        group = model if design.shape[0] >= design.n_contexts else context
        nats = np.where(among, self.nats, -np.inf)
        most = np.full(max(design.shape[0], design.n_contexts), -np.inf)
        np.maximum.at(most, group, nats)
        return np.asarray(among & (nats == most[group]))


def find_exceptions(posterior: Posterior | Sampled) -> Exceptions:
    """Return which entries the votes single out, by a spike and a slab round what the mode says.

    With g the votes' scores at the mode and V = diag(H - H C H) their variance there, shift = offset + g / V is
    what a free entry would add. sqrt(V) shift is standard normal, or N(0, 1 + k) with k = V times the variance of
    exceptions, for an exception; their share is averaged over. The size of an exception has a t law: its variance is
    the one given what the normal law says of the entry.
    """
    at, design, space = posterior.at, posterior.design, posterior.at.scores.space
    offset = np.broadcast_to(at.scores.offset, at.g.shape)
    variance, own = posterior.own_entries()
    information = design.unsigned(at.cell_weights)
    played = (variance > OTHERS_SAY * information) & design.several_contexts  # in one alone nothing is an exception
    V = np.where(played, variance, 1.0)
    shift = np.where(played, np.clip(offset + at.g / V, -LARGEST_SHIFT, LARGEST_SHIFT), 0.0)
    size = SLAB**2 * at.scores.field.mean_square()
    k = V * size
    nats = -0.5 * np.log1p(k) + 0.5 * V * shift**2 * k / (1 + k)
    probability = exception_probabilities(nats, played, played.sum() / design.shape[0])
    k = V * (TAILS * size + (shift * k / (1 + k)) ** 2) / (TAILS + 1)
    shift *= k / (1 + k)
    # (C H)_ii / H_ii is the variance of an entry less those that it met
    before = np.where(played, np.maximum(own, LEAST_OWN) / np.where(played, information, 1.0), 1.0)
    after = before + (1 - own) ** 2 * k / (1 + k) / V
    added = mixed_variance(probability, (1 - own) * shift, before, after) - before
    move = Field.of(design, space.U[:, :0], space.V[:, :0], (probability * shift - offset) * (1 - own))
    return Exceptions(probability, shift, move.centred(), np.where(played, added, 0.0), nats)


def exception_probabilities(log_ratio: Floats, played: Bools, n_contexts: float) -> Floats:
    """Return the probability that each entry is an exception, given log likelihood ratios.

    The share of exceptions is averaged over. Its prior says that there are none, or else few: half an exception a
    model, which has `n_contexts` entries on average, but not more than one in 16 of them.

    Examples
    --------
    >>> exception_probabilities(np.array([[-4.0, -4.0, -4.0, 20.0]]), np.ones((1, 4), dtype=bool), 8).round(1)
    array([[0., 0., 0., 1.]])
    """
    ratio = np.exp(np.minimum(log_ratio[played], LARGEST_RATIO))
    nats = [float(np.log1p(share * (ratio - 1)).sum()) for share in SHARES]
    prior = SHARES ** (PRIOR_ENTRIES * min(MOST, A_MODEL / max(n_contexts, 1.0))) * (1 - SHARES) ** PRIOR_ENTRIES
    told = np.append(np.log(prior * (1 - NONE) / prior.sum()) + nats, np.log(NONE))
    weights = np.exp(told - np.logaddexp.reduce(told))[:-1]
    out = np.zeros(log_ratio.shape)
    for share, weight in zip(SHARES, weights, strict=True):
        if weight > NEGLIGIBLE:
            out[played] += weight * share * ratio / (1 + share * (ratio - 1))
    return np.minimum(out, 1.0)


def mixed_variance(probability: Floats, shift: Floats, before: Floats, after: Floats) -> Floats:
    """Return variances whose normal 95% intervals hold 95% of N(0, before) and N(shift, after) mixed.

    Moments would be too small where an exception is in doubt, which is far away then, and too large where it is
    unlikely. Intervals are round the mean of the mixture, as estimates are. Their ends are found by Newton's method,
    between bounds.

    Examples
    --------
    >>> mixed_variance(np.array([0.0, 0.1, 1.0]), np.full(3, 5.0), np.ones(3), np.full(3, 1.5)).round(2)
    array([1.  , 5.27, 1.5 ])
    """
    away = np.abs(shift)
    places = np.stack([probability * away, -probability * away, (1 - probability) * away, (probability - 1) * away])
    weights = np.stack([1 - probability, 1 - probability, probability, probability])
    errors = np.sqrt([before, before, after, after])
    h = REACH * np.sqrt(before + probability * (after - before + (1 - probability) * shift**2))
    low, high, left = np.zeros_like(h), away + REACH * errors[2], np.arange(h.size)
    for _ in range(STEPS):
        z = (places[:, left] - h[left]) / errors[:, left]
        outside = np.sum(weights[:, left] * ndtr(z), axis=0) - OUTSIDE
        slope = np.sum(weights[:, left] * np.exp(-0.5 * z**2) / errors[:, left], axis=0) / np.sqrt(2 * np.pi)
        low[left], high[left] = np.where(outside > 0, h[left], low[left]), np.where(outside > 0, high[left], h[left])
        step = outside / np.maximum(slope, 1e-300)
        end, middle = h[left] + step, 0.5 * (low[left] + high[left])
        h[left] = np.where((end >= low[left]) & (end <= high[left]), end, middle)
        left = left[np.abs(step) > SETTLED * h[left]]
    return np.asarray((h / REACH) ** 2)
