"""Entries that are far from their prediction by the others, such as the score of a specialist in its category.

Deviations are many small ones, and a few large ones. Each entry is an outlier with some probability, by a spike and
a slab round the mode's prediction of it (`find_outliers`).
"""

from dataclasses import dataclass

import numpy as np

from lrbtl.fitting.blocks import LowRankPlusSparse
from lrbtl.hierarchical.config import HierarchicalConfig
from lrbtl.hierarchical.covariance import ScoreCovariance
from lrbtl.hierarchical.large import MonteCarloCovariance
from lrbtl.typing import Bools, Floats

NO_OUTLIERS = 0.05  # prior probability that no entry is an outlier
SHARES = 0.3 * 1.7 ** -np.arange(24.0)  # of entries that may be outliers, in equal steps of their logarithm
LARGEST_SHARE = 1 / 16  # largest of the likeliest shares of outliers
PRIOR_ENTRIES = 64  # that the prior of the share counts as
NEGLIGIBLE = 1e-12  # weight of a share that changes nothing
LEAST_OF_OTHERS = 1e-4  # of the information on an entry: with less from other entries it cannot be flagged
LARGEST_RATIO = 600.0  # nats: beyond it numbers would overflow
LARGEST_SHIFT = 5.0  # logits that an outlier may add: g / V says nothing further from where V was taken


@dataclass(frozen=True)
class Outliers:
    """What is known of outliers.

    Attributes
    ----------
    probability : array (n_slots,)
        That an entry is an outlier.
    shift : array (n_slots,)
        What an outlier adds to the entry before L and E give way.
    move : LowRankPlusSparse
        What scores change by, on average over both cases.
    variance : array (n_slots,)
        What it adds to its variance.
    nats : array (n_slots,)
        Log likelihood ratio of its being one.
    """

    probability: Floats
    shift: Floats
    move: LowRankPlusSparse
    variance: Floats
    nats: Floats

    def likeliest(self, among: Bools) -> Bools:
        """Return which of some entries are the likeliest outliers of their models, or contexts if these are more.

        Two entries of one model may each be taken for the outlier that the other one is.
        """
        design = self.move.design
        context, model = design.slot_places
        group = model if design.shape[0] >= design.n_contexts else context
        nats = np.where(among, self.nats, -np.inf)
        most = np.full(max(design.shape[0], design.n_contexts), -np.inf)
        np.maximum.at(most, group, nats)
        return np.asarray(among & (nats == most[group]))


def find_outliers(covariance: ScoreCovariance | MonteCarloCovariance, config: HierarchicalConfig) -> Outliers:
    """Return which entries the votes single out, by a spike and a slab round what the mode says.

    With g the votes' scores at the mode and V = diag(H - H C H) their variance there, shift = offset + g / V is
    what a free entry would add. sqrt(V) shift is standard normal, or N(0, 1 + k) with k = V times the variance of
    outliers, for an outlier; their share is averaged over. The size of an outlier has a t law: its variance is
    the one given under the normal law of the entry.
    """
    at, design, space = covariance.at, covariance.design, covariance.at.scores.space
    offset, tails = np.broadcast_to(at.scores.offset, at.votes.gradient.shape), config.outlier_freedom
    variance, own = covariance.leave_one_out_information()
    information = design.entries.unsigned(at.marginal.votes.weights)
    played = (variance > LEAST_OF_OTHERS * information) & design.several_contexts  # in one alone nothing is an outlier
    V = np.where(played, variance, 1.0)
    shift = np.where(played, np.clip(offset + at.votes.gradient / V, -LARGEST_SHIFT, LARGEST_SHIFT), 0.0)
    size = config.outlier_size**2 * at.scores.field.mean_square()
    k = V * size
    nats = -0.5 * np.log1p(k) + 0.5 * V * shift**2 * k / (1 + k)
    probability = outlier_probabilities(nats, played, played.sum() / design.shape[0], config.outliers_per_model)
    k = V * (size + (shift * k / (1 + k)) ** 2 / tails) / (1 + 1 / tails)
    shift *= k / (1 + k)
    left = 1.0 - own
    added = probability * left**2 * (k / (1 + k) / V + (1.0 - probability) * shift**2)
    move = LowRankPlusSparse.of(design, space.U[:, :0], space.V[:, :0], (probability * shift - offset) * left)
    return Outliers(probability, shift, move.centred(), np.where(played, added, 0.0), nats)


def outlier_probabilities(log_ratio: Floats, played: Bools, n_contexts: float, per_model: float = 0.5) -> Floats:
    """Return the probability that each entry is an outlier, given log likelihood ratios.

    The share of outliers is averaged over. Its prior says that there are none, or else few: half an outlier a
    model, which has `n_contexts` entries on average, but not more than one in 16 of them.

    Examples
    --------
    >>> outlier_probabilities(np.array([[-4.0, -4.0, -4.0, 20.0]]), np.ones((1, 4), dtype=bool), 8).round(1)
    array([[0., 0., 0., 1.]])
    """
    ratio = np.exp(np.minimum(log_ratio[played], LARGEST_RATIO))
    nats = [float(np.log1p(share * (ratio - 1)).sum()) for share in SHARES]
    prior = (
        SHARES ** (PRIOR_ENTRIES * min(LARGEST_SHARE, per_model / max(n_contexts, 1.0))) * (1 - SHARES) ** PRIOR_ENTRIES
    )
    evidence = np.append(np.log(prior * (1 - NO_OUTLIERS) / prior.sum()) + nats, np.log(NO_OUTLIERS))
    weights = np.exp(evidence - np.logaddexp.reduce(evidence))[:-1]
    out = np.zeros(log_ratio.shape)
    for share, weight in zip(SHARES, weights, strict=True):
        if weight > NEGLIGIBLE:
            out[played] += weight * share * ratio / (1 + share * (ratio - 1))
    return np.minimum(out, 1.0)
