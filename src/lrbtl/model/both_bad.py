"""Votes that both were bad as an outcome of their own: the grounded model of Rao and Kupper.

With strengths A = exp(score of a), B = exp(score of b) and t = exp(threshold) > 1,

    P(a) = A / (A + t B + 1),   P(b) = B / (B + t A + 1),   P(both bad) = 1 / (1 + A + B),   P(tie) the rest.

A third competitor of strength 1, the floor, wins where both are bad. So scores have a zero: a model with a score above
0 is better than the floor. The law depends on both scores and not only on their difference.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from lrbtl.data.cells import BOTH_BAD
from lrbtl.errors import LinkError
from lrbtl.model.links import CellTerms, Link
from lrbtl.typing import Floats

OUTCOMES = np.array([0.0, 0.5, 1.0, BOTH_BAD])  # b won, tie, a won, both bad: the order of all arrays here
NOT_BY_GAP = (
    "with both_bad='outcome' the chance of a win depends on both scores, not on their gap alone, so that this question "
    "has no answer; ask it of the same votes read with both_bad='tie'."
)


@dataclass(frozen=True)
class BothBadLink(Link):
    """The law of a vote between models with two scores; the threshold is exp(tie), as in the Rao-Kupper link."""

    tie: float = 0.0
    name = "grounded"
    n_extra = 1

    def outcomes(self, a: Floats, b: Floats) -> tuple[Floats, NDArray[np.float64]]:
        """Return log probabilities (4, n) of the outcomes, and their derivatives in a, b and `tie`, (3, 4, n).

        P(tie) = (t - 1) A B (S_a + S_b) / (S_0 S_a S_b) with S_a = A + t B + 1, S_b = B + t A + 1, S_0 = A + B + 1.
        """
        d = np.exp(self.tie)
        zero = np.zeros_like(a)
        s_a, s_b = logsumexp([a, b + d, zero], axis=0), logsumexp([b, a + d, zero], axis=0)
        s_0, both = logsumexp([a, b, zero], axis=0), np.logaddexp(s_a, s_b)
        log_p = np.stack([b - s_b, d + np.log(-np.expm1(-d)) + a + b - s_0 - s_a - s_b + both, a - s_a, -s_0])
        aa, ba, bb, ab = (np.exp(x) for x in (a - s_a, b + d - s_a, b - s_b, a + d - s_b))  # shares of S_a and of S_b
        of_a, of_b = np.exp(a - s_0), np.exp(b - s_0)
        w_a, w_b = np.exp(s_a - both), np.exp(s_b - both)
        by_a = [-ab, 1 - of_a - aa - ab + w_a * aa + w_b * ab, 1 - aa, -of_a]
        by_b = [1 - bb, 1 - of_b - ba - bb + w_a * ba + w_b * bb, -ba, -of_b]
        by_d = [-ab, -1 / np.expm1(-d) - ba - ab + w_a * ba + w_b * ab, -ba, zero]
        return log_p, np.stack([np.stack(by_a), np.stack(by_b), d * np.stack(by_d)])

    def duel(self, a: Floats, b: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return log odds of the points of a, given that not both were bad, and their derivatives in a, b and `tie`."""
        log_p, slopes = self.outcomes(a, b)
        half = log_p[1] - np.log(2)
        won, lost = np.logaddexp(log_p[2], half), np.logaddexp(log_p[0], half)
        into = np.exp([log_p[2] - won, half - won, log_p[0] - lost, half - lost])
        by = [into[0] * x[2] + (into[1] - into[3]) * x[1] - into[2] * x[0] for x in slopes]
        return won - lost, by[0], by[1], by[2][None]

    def terms(self, eta: Floats, y: Floats, variance: Floats | None = None) -> CellTerms:
        """Refuse: the law needs both scores."""
        raise LinkError(NOT_BY_GAP)

    def mean(self, eta: Floats) -> Floats:
        """Refuse: the law needs both scores."""
        raise LinkError(NOT_BY_GAP)

    def log_odds(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return eta: the log ratio of two strengths."""
        return eta, np.ones_like(eta), np.zeros((1, len(eta)))

    def spread(self, terms: CellTerms, eta: Floats, y: Floats, variance: Floats) -> CellTerms:
        """Return the terms."""
        return terms

    def check(self, y: Floats, pairs: bool) -> None:
        """Raise unless there are wins, ties and votes that both were bad, and nothing else."""
        if not (pairs and np.isin(y, OUTCOMES).all()):
            raise LinkError("both_bad='outcome' needs votes that are wins, ties or both bad; else use both_bad='tie'.")
        for value, name in ((BOTH_BAD, "that both were bad"), (0.5, "that it is a tie")):
            if not np.any(y == value):
                raise LinkError(f"no vote says {name}, so that the floor is not identified; use both_bad='tie'.")
        if not np.any((y == 0.0) | (y == 1.0)):
            raise LinkError("no vote has a winner, so that the rate of ties is not identified; check the outcomes.")
