"""Entries that are far from what the others say of them, such as the score of a specialist in its category.

Deviations are many small ones, and a few large ones. Each entry is an exception with some probability, by a spike and
a slab round what the mode says of it (`find_exceptions`).
"""

from dataclasses import dataclass

import numpy as np

from lrbtl.fitting.blocks import Field
from lrbtl.methods.posterior import Posterior
from lrbtl.methods.sampled import Sampled
from lrbtl.typing import Bools, Floats

NONE = 0.25  # prior probability that no entry is an exception
SHARES = 0.3 * 1.7 ** -np.arange(24.0)  # of entries that may be exceptions, in equal steps of their logarithm
SHARE_PRIOR = SHARES**2 * (1 - SHARES) ** 64  # largest at 3% of the entries
SHARE_PRIOR *= (1 - NONE) / SHARE_PRIOR.sum()
SLAB = 0.5  # of the spread of all scores: the size of exceptions
NEGLIGIBLE = 1e-12  # weight of a share that changes nothing
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
    """

    probability: Floats
    shift: Floats
    move: Field
    variance: Floats


def find_exceptions(posterior: Posterior | Sampled) -> Exceptions:
    """Return which entries the votes single out, by a spike and a slab round what the mode says.

    With g the votes' scores at the mode and V = diag(H - H C H) their variance there, shift = offset + g / V is
    what a free entry would add. sqrt(V) shift is standard normal, or N(0, 1 + k) with k = V times the variance of
    exceptions, for an exception; their share is averaged over.
    """
    at, design, space = posterior.at, posterior.design, posterior.at.scores.space
    offset = np.broadcast_to(at.scores.offset, at.g.shape)
    variance, own = posterior.own_entries()
    played = variance > 1e-9 * max(float(variance.max(initial=0.0)), 1e-300)
    V = np.where(played, variance, 1.0)
    k = V * SLAB**2 * at.scores.field.mean_square()
    shift = np.where(played, np.clip(offset + at.g / V, -LARGEST_SHIFT, LARGEST_SHIFT), 0.0)
    probability = exception_probabilities(-0.5 * np.log1p(k) + 0.5 * V * shift**2 * k / (1 + k), played)
    shift *= k / (1 + k)
    added = probability * (1 - own) ** 2 * (k / (1 + k) / V + (1 - probability) * shift**2)
    move = Field.of(design, space.U[:, :0], space.V[:, :0], (probability * shift - offset) * (1 - own))
    return Exceptions(probability, shift, move.centred(), np.where(played, added, 0.0))


def exception_probabilities(log_ratio: Floats, played: Bools) -> Floats:
    """Return the probability that each entry is an exception, given log likelihood ratios.

    The share of exceptions is averaged over: its prior says that there are none, or else few.

    Examples
    --------
    >>> exception_probabilities(np.array([[-4.0, -4.0, -4.0, 20.0]]), np.ones((1, 4), dtype=bool)).round(1)
    array([[0., 0., 0., 1.]])
    """
    ratio = np.exp(np.minimum(log_ratio[played], LARGEST_RATIO))
    nats = [float(np.log1p(share * (ratio - 1)).sum()) for share in SHARES]
    told = np.append(np.log(SHARE_PRIOR) + nats, np.log(NONE))
    weights = np.exp(told - np.logaddexp.reduce(told))[:-1]
    out = np.zeros(log_ratio.shape)
    for share, weight in zip(SHARES, weights, strict=True):
        if weight > NEGLIGIBLE:
            out[played] += weight * share * ratio / (1 + share * (ratio - 1))
    return np.minimum(out, 1.0)
