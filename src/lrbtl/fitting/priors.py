"""The prior of low-rank scores: like the others, as far as battles leave it open.

Rows of all factors have the spread of their population as prior. Its precision p becomes p / (1 + x / KAPPA) where
battles bring x times as much: what battles inform is not shrunk, what they do not is like the others. Where several
modes make the contexts, whole contexts have such a prior too.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from lrbtl.lowrank.arrowhead import Arrowhead
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.typing import Floats

KAPPA = 2.0  # battles that bring so many times the prior's own information leave half of its precision
ROBUST = 1.4826  # standard deviation over median absolute deviation of a normal population
ALONG = 1e-9  # of a coordinate's information: below it coordinates are not told apart
FEWEST = 10  # models that are taken for so many, lest their spread count as unknown
EFFICIENCY = 0.37  # of the median absolute deviation, next to the standard deviation
LEAST_SPREAD = 0.1  # of the mean square: no population counts as narrower
LARGE_SPREAD = 3.0  # of scores in logits: their size has a prior of this width, which counts as little as one score
LEAST_GAP = 2.0  # logits: gaps of two models in different contexts count as spread no less


@dataclass(frozen=True)
class Prior:
    """Normal prior of the coordinates: precision and mean, (size,) each; precision 0 is flat."""

    precision: Floats
    mean: Floats

    def cost(self, at: Floats) -> float:
        """Return half the squared distance from the mean."""
        return 0.5 * float(self.precision @ (at - self.mean) ** 2)


def factor_entries(space: TangentSpace) -> Floats:
    """Return the entries of all factors as a coordinate vector; zero for the core and for effects."""
    out = np.zeros(space.size)
    for k, part in space.slices.items():
        out[part] = space.factors[k].reshape(-1)
    return out


def own_information(rows: Floats) -> Floats:
    """Return what battles tell of each coordinate of a row if its others are unknown, (n, r), from that of rows.

    Battles in one context inform one direction of a row, and none of its coordinates by itself.

    Examples
    --------
    >>> own_information(np.array([[[2.0, 0.0], [0.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]]])).round(6)
    array([[2., 3.],
           [0., 0.]])
    """
    diagonal = np.einsum("nii->ni", rows)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    unit = rows * scale[:, :, None] * scale[:, None, :] + ALONG * np.eye(rows.shape[1])
    return np.asarray(diagonal / np.einsum("nii->ni", np.linalg.inv(unit)))


def score_of_loading(space: TangentSpace, k: int) -> float:
    """Return by how much scores change with the first loading of a row of a factor, on average."""
    square = np.sum((space.U.T @ space.U) * (space.V.T @ space.V)) / (len(space.U) * len(space.V))
    return float(np.sqrt(max(square, 1e-24) / np.mean(space.factors[k][:, 0] ** 2)))


def predictive_factor(n: int) -> float:
    """Return a standard deviation over the median absolute deviation of n models, for one model more.

    The median tells the spread of few models badly: the factor is wider as Student's quantiles are.

    Examples
    --------
    >>> round(predictive_factor(40), 2), round(predictive_factor(10_000), 2)
    (1.62, 1.48)
    """
    return float(ROBUST * stdtrit(EFFICIENCY * max(n - 1, FEWEST), 0.975) / ndtri(0.975))


def population_prior(space: TangentSpace, information: Arrowhead) -> Prior:
    """Return the spread of the population as prior of each factor's rows, weaker where battles inform a coordinate.

    Models spread round zero, context levels round their median. `information` is that of all coordinates.
    """
    precision, mean = np.zeros(space.size), np.zeros(space.size)
    for k, part in space.slices.items():
        factor = space.factors[k]
        middle = np.zeros(factor.shape[1]) if k == 0 else np.median(factor, axis=0)
        away = np.abs(factor - middle)
        robust = predictive_factor(len(factor)) if k == 0 else ROBUST
        spread = np.maximum((robust * np.median(away, axis=0)) ** 2, LEAST_SPREAD * np.mean(away**2, axis=0))
        spread = np.maximum(spread, LEAST_SPREAD * np.mean(factor**2, axis=0))
        if k > 0 and len(space.factors[0]) == 2:  # the loading of two models is their gap, which few contexts tell
            spread[0] = max(spread[0], (0.5 * LEAST_GAP / score_of_loading(space, k)) ** 2)
        own = np.tile(1.0 / np.maximum(spread, 1e-12), (len(factor), 1))
        told = own_information(information.row_blocks(part, factor.shape[1]))
        # in its first component no population counts as narrower than what battles can tell of one of its members
        own[:, 0] = np.minimum(own[:, 0], told[:, 0].mean())
        own = own.reshape(-1)
        both = KAPPA * own + told.reshape(-1)
        precision[part] = np.divide(KAPPA * own**2, both, out=np.zeros_like(own), where=both > 0)
        mean[part] = np.tile(middle, len(factor))
    prior = Prior(precision, mean)
    return prior if space.has_core else hold_size(space, prior)


def hold_size(space: TangentSpace, prior: Prior) -> Prior:
    """Return the prior with one of the size of all scores, round zero: else votes that one model won tell no end."""
    part, factor = space.slices[space.mode], space.factors[space.mode]
    first = slice(part.start, part.stop, factor.shape[1])
    precision, mean = prior.precision.copy(), prior.mean.copy()
    precision[first] += (score_of_loading(space, space.mode) / LARGE_SPREAD) ** 2 / len(factor)
    mean[first] *= prior.precision[first] / precision[first]
    return Prior(precision, mean)


@dataclass(frozen=True)
class ContextPrior:
    """Normal prior of the context vectors of L: precision (D,), and their mean as scores (d1,)."""

    precision: Floats
    mean: Floats

    def away(self, space: TangentSpace) -> Floats:
        """Return the context vectors less their mean, (D, r1)."""
        return np.asarray(space.V - self.mean @ space.U)

    def gradient(self, space: TangentSpace) -> Floats:
        """Return the derivative of the cost in coordinates."""
        pulled = space.pull(np.zeros((1, *space.U.shape)), (self.precision[:, None] * self.away(space))[None])
        return np.asarray(pulled[:, 0])

    def cost(self, space: TangentSpace) -> float:
        """Return half the squared distance from the mean."""
        return 0.5 * float(self.precision @ np.sum(self.away(space) ** 2, axis=1))


def context_prior(space: TangentSpace, votes: Floats, information: Floats) -> ContextPrior:
    """Return the spread of the contexts, each counted by its votes, as prior of context vectors that votes leave open.

    Where several modes make the contexts, levels that are well known may still meet in a context of hardly any votes,
    and their product be anything there. `information` (D,) is that of one component of a context vector.
    """
    share = votes / votes.sum()
    middle = share @ space.V
    spread = float(share @ np.mean((space.V - middle) ** 2, axis=1))
    own = 1.0 / max(spread, LEAST_SPREAD * float(np.mean(middle**2)), 1e-12)
    return ContextPrior(KAPPA * own**2 / (KAPPA * own + information), space.U @ middle)


def within_gauge(space: TangentSpace, gradient: Floats) -> Floats:
    """Return a gradient without what would only turn or scale factors against each other."""
    out = gradient.copy()
    for k in (0, *space.others):
        factor, part = space.factors[k], space.slices[k]
        own = gradient[part].reshape(factor.shape)
        own = own - factor @ (factor.T @ own)
        out[part] = (own - own.mean(axis=0) if k == 0 and space.centred else own).reshape(-1)
    return out
