"""Who met whom and how often, as covariates of levels: the order of the models, bends of it, traffic.

Where similar models meet, the meeting graph is a ladder, and its order is that of the models. The mean of two orders is
taken: along the Fiedler vector, and sifted, where model by model goes to the place with the fewest places between
opponents, summed over votes. The first suits opponents drawn evenly from those nearby, the second those at geometric
distances, of which it is the likeliest order.

Levels in that order are order statistics. With z their normal scores and b the scale of a normal law, these have means
b z and the covariance of a bridge, b^2 (min(p, q) - p q) / (d phi phi) at shares p and q of d models. Its
eigenfunctions are Hermite polynomials of z, of variance b^2 / (d k) for the one of degree k - 1 (de Wet and Venter
1972). Degree 1 is the scale itself; the next ones are the bends of the order.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from scipy.special import ndtri

from lrbtl.typing import Floats, Longs

SURE = 1e-6  # least 1 - t: the prior of a coefficient stays finite
NO_SPREAD = 1e-12
DENSE = 600  # models up to which eigenvectors are those of a dense matrix, and orders are sifted too
SWEEPS = 10  # most passes over all models in search of a better place
SAME = 1e-9  # relative difference of costs that is rounding
QUARTILES = 1.349  # standard deviations between the quartiles of a normal law
QUARTILE_ERROR = 2.33  # relative standard error of a variance by quartiles, times the root of how many
TRAFFIC_CLIP = 2.5  # standard deviations of log traffic beyond which a model is like those there
BY_CHANCE = 5.0  # times d^(-2/3): how far a random graph goes beyond its edge, also with very unequal traffic


@dataclass(frozen=True)
class DesignCovariates:
    """Covariates of levels from the pairings, before any outcome.

    Attributes
    ----------
    order : array (d1,)
        Normal scores of the order in which similar models meet; zeros where pairings look random.
    bends : array (d1, k)
        Hermite polynomials of the order, of degree 2 and more, standardised.
    traffic : array (d1,)
        Logs of the votes of models, standardised.
    traffic_noise : array (d1,)
        Variance of its measurement.
    informed : tuple of two floats
        t of the order and of the traffic: how far they are from random, in [0, 1).
    """

    order: Floats
    bends: Floats
    traffic: Floats
    traffic_noise: Floats
    informed: tuple[float, float]

    @classmethod
    def none(cls, d1: int) -> "DesignCovariates":
        """Return those of a design that says nothing."""
        nothing = np.zeros(d1)
        return cls(nothing, np.zeros((d1, 0)), nothing, nothing, (0.0, 0.0))

    @classmethod
    def of_meetings(cls, meetings: sparse.csr_array, n_bends: int) -> "DesignCovariates":
        """Return those of the votes between each two models, (d1, d1); models without votes have no place."""
        votes = np.asarray(meetings.sum(axis=1), dtype=np.float64).reshape(-1)
        seen = np.flatnonzero(votes > 0)
        out = cls.none(len(votes))
        if len(seen) < 4:
            return out
        order, t_order = meeting_order(sparse.csr_array(meetings[seen][:, seen]))
        bends = (
            hermite_bends(order, min(n_bends, len(np.unique(order)) - 3)) if t_order > 0.0 else np.zeros((len(seen), 0))
        )
        traffic, noise, t_traffic = log_traffic(votes)
        placed = _at_rows(order, seen, len(votes)), _at_rows(bends, seen, len(votes))
        return cls(*placed, traffic, noise, (t_order, t_traffic))

    @property
    def chose_pairs(self) -> bool:
        """Whether somebody chose who meets whom, not only how often a model is shown."""
        return self.informed[0] > 0.0

    @cached_property
    def loose(self) -> Floats:
        """Return z of the prior of shared factors, (d1,): the order, its length by how far pairings are from random."""
        size = float(np.linalg.norm(self.order))
        if not size > 0.0:
            return self.order
        more = len(self.order) * ((1.0 - self.informed[0]) ** -2 - 1.0)  # prior variance along it, times that elsewhere
        return np.asarray(self.order / size * np.sqrt(more / (1.0 + more)))

    @cached_property
    def columns(self) -> Floats:
        """X, (d1, 2 + k): order, traffic, bends."""
        return np.column_stack([self.order, self.traffic, self.bends])

    @cached_property
    def bend_shares(self) -> Floats:
        """Variance of the coefficient of each bend over that of the scale, for levels of a normal law, (k,)."""
        return 1.0 / (len(self.order) * np.arange(3.0, self.bends.shape[1] + 3.0))


def _at_rows(values: Floats, rows: Longs, d1: int) -> Floats:
    out = np.zeros((d1, *values.shape[1:]))
    out[rows] = values
    return out


def _standardised(values: Floats) -> Floats:
    away = values - values.mean(axis=0)
    return np.asarray(away / np.maximum(away.std(axis=0), NO_SPREAD))


def normal_scores(values: Floats) -> Floats:
    """Return normal quantiles of the ranks of values; equal values share theirs.

    >>> normal_scores(np.array([3.0, 1.0, 1.0])).round(2)
    array([ 0.97, -0.43, -0.43])
    """
    _, place, count = np.unique(values.round(12), return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - 0.5 * count
    return np.asarray(ndtri(middle[place] / len(values)))


def meeting_order(meetings: sparse.csr_array) -> tuple[Floats, float]:
    """Return normal scores of the order in which similar models meet, (d1,), and t; everybody met somebody."""
    d1, degree = meetings.shape[0], np.asarray(meetings.sum(axis=1)).reshape(-1)
    nothing = np.zeros(d1), 0.0
    if connected_components(meetings, directed=False)[0] > 1:
        return nothing
    root = 1.0 / np.sqrt(degree)
    scaled = sparse.diags_array(root) @ meetings @ sparse.diags_array(root)
    if d1 <= DENSE:
        values, vectors = linalg.eigh(scaled.toarray(), subset_by_index=(d1 - 2, d1 - 2))
    else:
        values, vectors = (part[..., :1] for part in eigsh(scaled, 2, which="LA", v0=degree))
    edge = min(2.0 / np.sqrt(degree.mean()), 1.0 - SURE)
    if values[0] <= edge * (1.0 + BY_CHANCE * d1 ** (-2 / 3)):
        return nothing
    t = float(np.clip((values[0] - edge) / (1.0 - edge), 0.0, 1.0 - SURE))
    fiedler = root * vectors[:, 0]
    order = normal_scores(fiedler)
    if d1 <= DENSE and len(np.unique(order)) == d1:  # sifting takes d1^2 steps, and would part models of equal meetings
        order = normal_scores(order + _sifted_both_ways(meetings, np.argsort(order)))
    return _standardised(order), t


def _sifted_both_ways(meetings: sparse.csr_array, places: Longs) -> Floats:
    """Return normal scores of the better of two sifted orders, of both where neither is: the vector has no sign."""
    found = [sift(meetings, each) for each in (places, places[::-1])]
    costs = [total_distance(meetings, each) for each in found]
    scores = [np.empty(len(places)) for _ in found]
    for score, each in zip(scores, found, strict=True):
        score[each] = ndtri((np.arange(len(each)) + 0.5) / len(each))
    scores[1] = -scores[1]
    if abs(costs[0] - costs[1]) <= SAME * costs[0]:
        return np.asarray(0.5 * (scores[0] + scores[1]))
    return scores[int(costs[1] < costs[0])]


def total_distance(meetings: sparse.csr_array, places: Longs) -> float:
    """Return the places between opponents, summed over votes, of models in some order."""
    rank = np.empty(len(places))
    rank[places] = np.arange(len(places))
    pairs = meetings.tocoo()
    return 0.5 * float(pairs.data @ np.abs(rank[pairs.coords[0]] - rank[pairs.coords[1]]))


def sift(meetings: sparse.csr_array, places: Longs) -> Longs:
    """Return models in an order in which none alone has a better place: fewer places between opponents, over all votes.

    A model at place p among the others adds its own distances to them, and one to those of the pairs around p.

    Examples
    --------
    >>> chain = sparse.csr_array(np.diag([5.0, 5.0, 5.0], 1) + np.diag([5.0, 5.0, 5.0], -1))
    >>> sift(chain, np.array([1, 0, 2, 3])).tolist()
    [0, 1, 2, 3]
    """
    least, across = SAME * total_distance(meetings, places), votes_across(meetings, places)
    for _ in range(SWEEPS):
        before = places
        for model in before:
            here = int(np.flatnonzero(places == model)[0])
            row = np.zeros(len(places))
            start, end = meetings.indptr[model : model + 2]
            row[meetings.indices[start:end]] = meetings.data[start:end]
            others = np.delete(places, here)
            below = np.append(0.0, np.cumsum(row[others]))  # votes of the model with the first p of the others
            above = below[-1] - below
            around = np.append(across[: here + 1] - below[: here + 1], across[here + 2 :] - above[here + 1 :])
            cost = around + np.append(0.0, np.cumsum(below[:-1] - above[1:]))
            best = np.flatnonzero(cost <= cost.min() + least)
            there = int(best[np.argmin(np.abs(best - here))])
            if cost[there] < cost[here] - least:
                places = np.insert(others, there, model)
                across = np.append((around + below)[: there + 1], (around + above)[there:])
        if places is before:
            break
    return places


def votes_across(meetings: sparse.csr_array, places: Longs) -> Floats:
    """Return the votes between the first p models of an order and the rest, for p from 0 to all, (d1 + 1,)."""
    rank = np.empty(len(places), dtype=np.int64)
    rank[places] = np.arange(len(places))
    pairs = sparse.triu(meetings, 1).tocoo()
    low, high = np.sort(rank[np.stack(pairs.coords)], axis=0)
    steps = np.bincount(low + 1, pairs.data, len(places) + 1) - np.bincount(high + 1, pairs.data, len(places) + 1)
    return np.asarray(np.cumsum(steps))


def hermite_bends(order: Floats, n: int) -> Floats:
    """Return Hermite polynomials of degree 2 to n + 1 of normal scores (d1,), orthogonal at these, (d1, n).

    Examples
    --------
    >>> z = normal_scores(np.arange(9.0))
    >>> bends = hermite_bends(z, 2)
    >>> np.abs(bends.T @ np.column_stack([np.ones(9), z, bends]) / 9).round(6).tolist()
    [[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    """
    found = [np.full(len(order), 1.0)]
    for _ in range(n + 1):  # a Vandermonde matrix would lose digits
        new, known = order * found[-1], np.column_stack(found) / len(order)
        for _ in range(2):
            new = new - np.column_stack(found) @ (known.T @ new)
        size = float(np.sqrt(np.mean(new**2)))
        if size < SAME:  # no more degrees than different scores
            break
        found.append(new / size)
    return np.column_stack([np.zeros((len(order), 0)), *found[2:]])


def log_traffic(votes: Floats) -> tuple[Floats, Floats, float]:
    """Return the log traffic, the variance with which votes measure it, and t.

    Vote counts vary like a gamma mixture of Poisson's: `shape` is that of the gamma law. Their variance is that of the
    middle half, which must exceed Poisson's by two standard errors, and logs end some deviations away: a newcomer would
    be a covariate of its own, and have no prior.
    """
    low, middle, high = np.quantile(votes, (0.25, 0.5, 0.75))
    mean, variance = float(votes.mean()), float((high - low) / QUARTILES) ** 2
    chance = 1.0 + 2.0 * QUARTILE_ERROR / np.sqrt(len(votes))
    t = min(max(1.0 - chance * mean / max(variance, NO_SPREAD), 0.0), 1.0 - SURE)
    if not t > 0.0:
        return np.zeros_like(votes), np.zeros_like(votes), 0.0
    shape = mean * (1.0 - t) / t
    logs = np.log(votes + shape)
    reach = TRAFFIC_CLIP * (np.log(high + shape) - np.log(low + shape)) / QUARTILES
    logs = np.clip(logs, np.log(middle + shape) - reach, np.log(middle + shape) + reach)
    return _standardised(logs), 1.0 / (votes + shape + 0.5) / max(float(logs.var()), NO_SPREAD), t
