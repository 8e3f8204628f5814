"""Votes against what scores predict of them: win rates by size of the gap, and which law of votes predicts best.

Every vote is predicted from the others. With C the variance of its gap, s its score, I its information and phi the
dispersion of votes, the gap without it is eta - C s / (phi - C I) with variance C / (1 - C I / phi), to first order.
Gaps that look large are large by chance too. So the prediction shrinks towards even by 1 / (1 + k C / m), with m the
mean squared gap and k chosen by the likelihood of the votes. Where battles determine the scores it changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logit
from scipy.stats import chi2

from lrbtl.data.battles import Battles
from lrbtl.data.cells import BOTH_BAD
from lrbtl.data.frames import Frame, as_battles
from lrbtl.errors import LinkError, check_choice, listed
from lrbtl.fitting.design import linear_effects
from lrbtl.inference.analysis import Analysis, analyse
from lrbtl.inference.estimate import ELO
from lrbtl.inference.targets import all_gaps, pair_rows
from lrbtl.model.links import LINKS, TIE_LINKS, Link, TieLink, mean_over_spread
from lrbtl.tables import TextResult, text_table
from lrbtl.typing import Bools, Floats, Longs, Rank

GAPS = (0, 25, 50, 100, 150, 200, 300, 400, 600)  # Elo points at which bins begin
FEWEST = 100  # votes of a bin; smaller ones join the bin below
SINGLE_BIN_Z = 3.5  # standard errors beyond which a bin by itself is off
JOINT_BIN_Z = 2.5  # and beyond which it is where the bins together are
CHANCE = 1e-4  # probability below which the bins together are no chance
LEAST_DIFFERENCE = 0.01  # smallest difference of win rates that is reported
BETTER = 2.0  # standard errors by which another link must predict better
LEVERAGE_CEILING = 0.9
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Prediction of a vote in each cell by all other votes: its gap is normal, with this mean and variance.

    Attributes
    ----------
    link : Link
    eta, variance : arrays (n,)
    y : array (n,)
        The vote.
    count : array (n,)
    pair : array of int (n,)
        Cells of two models in one context have the same number.
    """

    link: Link
    eta: Floats
    variance: Floats
    y: Floats
    count: Floats
    pair: Longs

    def mean(self, shrinkage: float, factor: float = 1.0) -> Floats:
        """Return the expected vote of each cell, with gaps drawn towards even, and then multiplied."""
        eta, variance = self._shrunk(shrinkage)
        return np.clip(mean_over_spread(self.link.mean, factor * eta, factor**2 * variance), TINY, 1 - TINY)

    def _shrunk(self, shrinkage: float) -> tuple[Floats, Floats]:
        size = float(self.count @ self.eta**2) / max(float(self.count.sum()), TINY)
        keep = 1.0 / (1.0 + shrinkage * self.variance / max(size, TINY))
        return keep * self.eta, keep * self.variance

    @cached_property
    def shrinkage(self) -> float:
        """The k with the highest likelihood."""
        return float(minimize_scalar(lambda k: float(self.count @ self._loss(self.mean(k))), bounds=(0.0, 3.0)).x)

    def _loss(self, mean: Floats) -> Floats:
        return np.asarray(-self.y * np.log(mean) - (1.0 - self.y) * np.log1p(-mean))

    @cached_property
    def predicted(self) -> Floats:
        """Expected vote of each cell."""
        return self.mean(self.shrinkage)

    def loss(self) -> Floats:
        """Return the negative log-likelihood of one vote of each cell: of a win, a tie or a loss where there are ties.

        Links without an outcome for ties say nothing of how likely a tie is: there the share of ties is a constant, and
        decisive votes follow the gaps times a factor.
        """
        tied = self.y == 0.5
        if isinstance(self.link, TieLink):
            chances = mean_over_spread(self.link.probabilities, *self._shrunk(self.shrinkage))
            return -np.log(np.maximum(chances[np.rint(2 * self.y).astype(np.int64), np.arange(len(self.y))], TINY))
        if not tied.any():
            return self._loss(self.predicted)
        share = float(self.count @ tied) / float(self.count.sum())
        decisive = np.where(tied, 0.0, self.count)

        def decided(factor: float) -> Floats:
            return self._loss(self.mean(self.shrinkage, factor))

        factor = minimize_scalar(lambda c: float(decisive @ decided(c)), bounds=(0.1, 10)).x
        return np.asarray(np.where(tied, -np.log(share), -np.log1p(-share) + decided(factor)))


def leave_out(analysis: Analysis) -> LeftOut:
    """Return the prediction of each vote by all others, where both of its models have a score."""
    cells, (d1, *_), D = analysis.battles.cells, analysis.battles.shape, analysis.battles.n_contexts
    gaps = analysis.estimate(all_gaps())
    at = pair_rows(cells.a, cells.b, d1) * D + cells.context
    here = np.isfinite(gaps.estimate[at]) & np.isfinite(gaps.se[at]) & (cells.y != BOTH_BAD)
    eta, variance = gaps.estimate[at][here] + _shift(analysis)[here], gaps.se[at][here] ** 2
    link, y, count = analysis.run.link, cells.y[here], cells.count[here].astype(float)
    terms, dispersion = link.terms(eta, y), link.dispersion(eta, y, count)
    rest = 1.0 - np.minimum(variance * terms.fisher / dispersion, LEVERAGE_CEILING)
    return LeftOut(link, eta - variance * terms.score / (dispersion * rest), variance / rest, y, count, at[here])


def _shift(analysis: Analysis) -> Floats:
    """Return what covariates add to the gap of each cell."""
    battles, values = analysis.battles, getattr(analysis.run, "effect_values", None)
    effects = linear_effects(battles) if isinstance(battles, Battles) and values is not None else None
    return np.zeros(battles.n_cells) if effects is None else effects.times(np.asarray(values))


# ------------------------------------------------------------------------------
# Win rates by size of the gap.
# ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Calibration:
    """Share of votes that the favourite won, by the size of the gap, beside what the other votes predict.

    Attributes
    ----------
    lower, upper : arrays
        Bins of the predicted gap in Elo points.
    votes : array
    predicted, observed : arrays
        Win rate of the favourite; a tie is half a win.
    se : array
        Standard error of their difference.
    ties : array
        Share of ties.
    link : str

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((8, 4), 2, scale=2, rng=0), 20_000, rng=1)
    >>> lrbtl.diagnose(battles).calibration.off.any()
    np.False_
    """

    lower: Floats
    upper: Floats
    votes: Longs
    predicted: Floats
    observed: Floats
    se: Floats
    ties: Floats
    link: str = "logistic"

    @property
    def off(self) -> Bools:
        """Bins in which votes differ from what is predicted, by more than chance and by more than a point."""
        away = np.abs(self.observed - self.predicted)
        z = away / np.maximum(self.se, 1e-12)
        together = chi2.sf(float(z @ z), max(len(z), 1)) < CHANCE
        return np.asarray((z > (JOINT_BIN_Z if together else SINGLE_BIN_Z)) & (away > LEAST_DIFFERENCE))

    @property
    def sentence(self) -> str:
        """What the table says, in words; empty for too few votes."""
        if not len(self.votes):
            return ""
        if not self.off.any():
            return "votes agree with the predicted win rates, at gaps of all sizes."
        k = int(np.flatnonzero(self.off)[-1])
        return (
            f"favourites by {self._gap(k)} Elo points won {self.observed[k]:.1%} of {self.votes[k]:,} votes, but "
            f"{self.predicted[k]:.1%} was predicted (± {self.se[k]:.1%}). Scores are then a best average over the "
            "votes cast, and their intervals hold for that. The order holds too, but win rates between models this far "
            "apart are off by more than their intervals say."
        )

    def _gap(self, k: int) -> str:
        low, high = self.lower[k], self.upper[k]
        return f"{low:.0f} to {high:.0f}" if np.isfinite(high) else f"more than {low:.0f}"

    def to_dict(self) -> dict[str, list[float]]:
        """Return the table as columns."""
        names = ("lower", "upper", "votes", "predicted", "observed", "se", "ties")
        return {name: getattr(self, name).tolist() for name in names}

    def __str__(self) -> str:
        rows = [
            [self._gap(k), f"{self.votes[k]:,}", f"{self.predicted[k]:.1%}", f"{self.observed[k]:.1%}"]
            for k in range(len(self.votes))
        ]
        for k, row in enumerate(rows):
            row += [f"± {self.se[k]:.1%}", f"{self.ties[k]:.1%}", "off" if self.off[k] else ""]
        return text_table(["gap (Elo)", "votes", "predicted", "favourite won", "", "ties", ""], rows)


def calibrate(analysis: Analysis) -> Calibration:
    """Return observed beside predicted win rates by the size of the gap, each vote predicted from the others."""
    votes = leave_out(analysis)
    first = votes.predicted >= 0.5
    predicted = np.where(first, votes.predicted, 1.0 - votes.predicted)
    won = np.where(first, votes.y, 1.0 - votes.y)
    edges = _bins(ELO * logit(predicted), votes.count)
    bin_of = np.digitize(ELO * logit(predicted), edges) - 1
    rows = []
    for k in range(len(edges)):
        count = np.where(bin_of == k, votes.count, 0.0)
        residual = count * (won - predicted)
        together = np.bincount(np.unique(votes.pair, return_inverse=True)[1].reshape(-1), residual)
        by_model = float(count @ (predicted * (1.0 - predicted) - won * (1.0 - won)))
        error = max(float(together @ together), float(residual @ (won - predicted)), by_model) ** 0.5
        n = count.sum()
        rows.append((n, count @ predicted / n, count @ won / n, error / n, count @ (votes.y == 0.5) / n))
    table = np.array(rows).reshape(-1, 5).T
    upper = np.append(edges[1:], np.inf)[: len(edges)]
    votes_in, expected, share, errors, ties = table
    return Calibration(edges, upper, votes_in.astype(np.int64), expected, share, errors, ties, votes.link.name)


def _bins(gap: Floats, count: Floats) -> Floats:
    """Return where bins begin, so that each has enough votes; none for too few votes."""
    edges: list[float] = []
    above = np.array([float(count[gap >= edge].sum()) for edge in (*GAPS, np.inf)])
    last = above[0]
    for edge, votes in zip(GAPS, above[:-1], strict=True):
        if votes >= FEWEST and (not edges or last - votes >= FEWEST):
            edges.append(float(edge))
            last = votes
    return np.array(edges)


# ------------------------------------------------------------------------------
# Which law of votes predicts best.
# ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LinkComparison(TextResult):
    """How well each link predicts every vote from the others.

    Attributes
    ----------
    links : tuple of str
    log_likelihood : array
        Mean log-likelihood of a vote (win, tie or loss where there are ties) in nats.
    deficit, deficit_se : arrays
        How far each falls short of the best, and the standard error of that paired difference.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=2, rng=0), 3000, rng=1)
    >>> found = lrbtl.compare_links(battles, ["logistic", "probit"])
    >>> found.best in found.links, found.better_than(found.best) is None
    (True, True)
    """

    links: tuple[str, ...]
    log_likelihood: Floats
    deficit: Floats
    deficit_se: Floats

    @property
    def best(self) -> str:
        """The link with the highest log-likelihood."""
        return self.links[int(np.argmin(self.deficit))]

    def better_than(self, link: str) -> str | None:
        """Return the best link where it predicts clearly better than another one."""
        check_choice(link, self.links, "link", LinkError)
        k = self.links.index(link)
        return self.best if self.deficit[k] > BETTER * self.deficit_se[k] else None

    def to_dict(self) -> dict[str, list[object]]:
        """Return the table as columns."""
        columns = (self.log_likelihood, self.deficit, self.deficit_se)
        names = ("log_likelihood", "deficit", "deficit_se")
        return {"link": list(self.links)} | {name: x.tolist() for name, x in zip(names, columns, strict=True)}

    def __str__(self) -> str:
        lines = ["link         mnats/vote   below the best"]
        for name, value, gap, se in zip(self.links, self.log_likelihood, self.deficit, self.deficit_se, strict=True):
            lines.append(f"{name:<12} {1e3 * value:>10.2f}   {1e3 * gap:.2f} ± {1e3 * se:.2f}")
        return "\n".join(lines)


def compare_links(
    battles: Battles | Frame,
    links: Sequence[str | Link] | None = None,
    *,
    rank: Rank = "auto",
    n_threads: int | None = 1,
) -> LinkComparison:
    """Compare laws of votes by how well they predict every vote from the others, under the default method.

    Parameters
    ----------
    battles : Battles or data frame
        See `analyse`.
    links : sequence of str or Link, optional
        By default all that these battles allow: logistic, probit and cauchit, and where there are ties (and no other
        soft votes) davidson and rao-kupper. Links without an outcome for ties take the share of ties as a constant.
    rank : int, tuple or "auto"
    n_threads : int or None

    Returns
    -------
    LinkComparison

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays([0, 0, 1, 1, 0], [1, 1, 2, 2, 2], [1, 0.5, 0, 0.5, 1], counts=[30] * 5)
    >>> lrbtl.compare_links(battles, ["logistic", "davidson"]).links
    ('logistic', 'davidson')
    """
    battles = as_battles(battles)
    wanted = (
        possible_links(battles) if links is None else listed(links, "links", "name some, as in ['probit']", LinkError)
    )
    if not wanted:
        raise LinkError("links is empty: name at least one.")
    return compare_laws([leave_out(analyse(battles, link=link, rank=rank, n_threads=n_threads)) for link in wanted])


def possible_links(battles: Battles) -> list[str]:
    """Return the names of the links that these battles allow."""
    y = battles.cells.y
    three_ways = bool(np.any(y == 0.5)) and bool(np.all(np.isin(y, (0.0, 0.5, 1.0))))
    binary = [name for name, link in LINKS.items() if name not in TIE_LINKS and link.linear]
    return [*binary, *(TIE_LINKS if three_ways else ())]


def compare_laws(laws: Sequence[LeftOut]) -> LinkComparison:
    """Return the comparison of several laws of the same votes."""
    losses, count = [law.loss() for law in laws], laws[0].count
    n = float(count.sum())
    means = np.array([float(count @ loss) for loss in losses]) / n
    best = int(np.argmin(means))
    away = [loss - losses[best] for loss in losses]
    errors = np.array([np.sqrt(max(float(count @ x**2) / n - (float(count @ x) / n) ** 2, 0.0) / n) for x in away])
    return LinkComparison(tuple(law.link.name for law in laws), -means, means - means[best], errors)
