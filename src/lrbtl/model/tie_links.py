"""Ties as an outcome of their own: the models of Davidson and of Rao and Kupper, and links by name."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from lrbtl.errors import LinkError
from lrbtl.model.effects import EffectTerms
from lrbtl.model.links import LOGISTIC, CellTerms, Identity, Link, Probit, mean_over_spread
from lrbtl.typing import Floats

POINTS = np.array([0.0, 0.5, 1.0])  # what a loss, a tie and a win are worth


@dataclass(frozen=True)
class TieLink(Link):
    """Win, tie or loss with probabilities that depend on eta and on one tie parameter.

    Attributes
    ----------
    tie : float
        Parameter of the ties, on a scale without bounds.
    """

    tie: float = 0.0
    n_extra = 1

    @abstractmethod
    def outcomes(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log probabilities of loss, tie and win, and their derivatives in eta and in `tie`, (3, n) each."""

    @abstractmethod
    def _of_share(self, share: float) -> float:
        """Return the tie parameter under which equal models tie with a probability."""

    def probabilities(self, eta: Floats) -> Floats:
        """Return the probabilities of loss, tie and win, (3, n)."""
        return np.exp(self.outcomes(eta)[0])

    def terms(self, eta: Floats, y: Floats, variance: Floats | None = None) -> CellTerms:
        """Return the terms of each cell."""
        log_p, by_eta, by_tie = self.outcomes(eta)
        p = np.exp(log_p)
        happened, cell = np.rint(2 * y).astype(np.int64), np.arange(len(y))
        score, cross, own = by_tie[happened, cell], np.sum(p * by_eta * by_tie, axis=0), np.sum(p * by_tie**2, axis=0)
        effects = EffectTerms(score[:, None], cross[:, None], own[:, None, None])
        return CellTerms(-log_p[happened, cell], by_eta[happened, cell], np.sum(p * by_eta**2, axis=0), effects)

    def mean(self, eta: Floats) -> Floats:
        """Return the expected points: P(win) + P(tie) / 2."""
        return np.asarray(POINTS @ self.probabilities(eta))

    def log_odds(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log odds of the expected points, their derivative in eta (n,) and in the tie parameter (1, n)."""
        log_p, by_eta, by_tie = self.outcomes(eta)
        half = log_p[1] - np.log(2)
        won, lost = np.logaddexp(log_p[2], half), np.logaddexp(log_p[0], half)
        scale = np.exp(log_p - won - lost)
        return won - lost, POINTS @ (scale * by_eta), (POINTS @ (scale * by_tie))[None]

    def spread(self, terms: CellTerms, eta: Floats, y: Floats, variance: Floats) -> CellTerms:
        """Return the terms with scores less sum_j E[p_j(eta)] d log p_j."""
        _, by_eta, by_tie = self.outcomes(eta)
        p = mean_over_spread(self.probabilities, eta, variance)
        effects = replace(terms.effects, score=terms.effects.score - np.sum(p * by_tie, axis=0)[:, None])
        return replace(terms, score=terms.score - np.sum(p * by_eta, axis=0), effects=effects)

    def check(self, y: Floats, pairs: bool) -> None:
        """Raise unless the responses are wins, ties and losses of battles, with some ties."""
        if not pairs:
            raise LinkError(f"the {self.name} link is for battles, not for observed entries.")
        if not np.all(np.isin(y, POINTS)):
            raise LinkError(f"the {self.name} link needs outcomes 0, 1/2 or 1; use 'logistic' for soft votes.")
        if not np.any(y == 0.5):
            raise LinkError(f"no battle is a tie, so the {self.name} link has nothing to estimate; use 'logistic'.")

    def started(self, y: Floats, count: Floats) -> Self:
        """Return the link with the tie parameter that equal models would have."""
        share = float(count @ (y == 0.5)) / float(count.sum())
        return replace(self, tie=self._of_share(min(share, 0.99)))

    def moved(self, step: Floats) -> Self:
        """Return the link with the tie parameter moved, by at most 2."""
        return replace(self, tie=self.tie + float(np.clip(step[0], -2.0, 2.0)))


@dataclass(frozen=True)
class Davidson(TieLink):
    """P(win) : P(tie) : P(loss) = exp(eta / 2) : exp(tie) : exp(-eta / 2)."""

    name = "davidson"

    def outcomes(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log probabilities of loss, tie and win, and their derivatives in eta and in `tie`."""
        weight = np.stack([-0.5 * eta, np.full_like(eta, self.tie), 0.5 * eta])
        log_p = weight - logsumexp(weight, axis=0)
        p = np.exp(log_p)
        own = np.array([[-0.5], [0.0], [0.5]])
        tied = np.array([[0.0], [1.0], [0.0]])
        by_eta = own - 0.5 * (p[2] - p[0])
        return log_p, by_eta, tied - p[1]

    def _of_share(self, share: float) -> float:
        return float(np.log(2 * share / (1 - share)))


@dataclass(frozen=True)
class RaoKupper(TieLink):
    """P(win) = sigmoid(eta - d), P(loss) = sigmoid(-eta - d) with the threshold d = exp(tie)."""

    name = "rao-kupper"

    def outcomes(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log probabilities of loss, tie and win, and their derivatives in eta and in `tie`."""
        d = np.exp(self.tie)
        win, loss = log_expit(eta - d), log_expit(-eta - d)
        log_p = np.stack([loss, np.log(np.expm1(2 * d)) + win + loss, win])
        not_win, not_loss = expit(d - eta), expit(d + eta)
        by_eta = np.stack([-not_loss, not_win - not_loss, not_win])
        by_d = np.stack([-not_loss, -2 / np.expm1(-2 * d) - not_win - not_loss, -not_win])
        return log_p, by_eta, d * by_d

    def _of_share(self, share: float) -> float:
        return float(np.log(np.log((1 + share) / (1 - share))))


LINKS: dict[str, Link] = {
    "logistic": LOGISTIC,
    "probit": Probit(),
    "identity": Identity(),
    "davidson": Davidson(),
    "rao-kupper": RaoKupper(),
}


TIE_LINKS = tuple(name for name, link in LINKS.items() if link.n_extra)


def as_link(link: str | Link) -> Link:
    """Return a link given by name or as itself.

    Examples
    --------
    >>> as_link("probit")
    Probit()
    """
    if isinstance(link, Link):
        return link
    if link not in LINKS:
        raise LinkError(
            f"link={link!r} is not known: choose one of {', '.join(map(repr, LINKS))}, or a lrbtl.CustomLink."
        )
    return LINKS[link]
