"""Links: the law of one vote, or of one observed entry, given its eta = <T, X>.

A link gives for each cell the loss, the score s = -d loss / d eta and the Fisher information I(eta) = E[s^2]. Links
may have parameters of their own, such as that of ties, which are estimated jointly: effects that all votes share.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, logsumexp, ndtr

from lrbtl._kernels import fisher as fisher_kernel
from lrbtl.errors import LinkError, as_floats, spelled
from lrbtl.model.effects import NO_EFFECTS, Border, EffectTerms, JoinedTerms
from lrbtl.typing import Floats

QUADRATURE = 9
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(QUADRATURE)
QUADRATURE_RULE = _NODES, _WEIGHTS / _WEIGHTS.sum()  # of a standard normal variable
LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)
SMALLEST_DISPERSION = 1e-3
FAR_OUT = 1e5  # probits, beyond which differences of the logarithms of tails lose all digits
TINY = 1e-300  # keeps logarithms of underflown numbers finite
FISHER_FLOOR = 1e-140  # keeps squares of whitened scores finite


@dataclass(frozen=True)
class CellTerms:
    """Loss, score and Fisher information of one vote in each cell, and the terms of the effects that votes share."""

    loss: Floats
    score: Floats
    fisher: Floats
    effects: EffectTerms | JoinedTerms = NO_EFFECTS

    def weighted(self, weight: Floats) -> "CellTerms":
        """Return the terms of votes with a weight, before linear effects join them."""
        assert isinstance(self.effects, EffectTerms)
        return CellTerms(weight * self.loss, weight * self.score, weight * self.fisher, self.effects.weighted(weight))

    def information(self, count: Floats) -> tuple[Floats, Border]:
        """Return the weight of each cell in the information, and its border of effects."""
        return count * self.fisher, self.effects.information(count)

    def meat(self, count: Floats) -> tuple[Floats, Border]:
        """Return the weight of each cell in the squared scores, and their border of effects."""
        return count * self.score**2, self.effects.meat(count, self.score)


def mixed_terms(parts: Sequence[CellTerms], weights: Floats) -> CellTerms:
    """Return the weighted mean of the terms of a link at several places."""

    def mean(arrays: Iterable[Floats]) -> Floats:
        return np.asarray(sum(weight * array for weight, array in zip(weights, arrays, strict=True)))

    loss, score, fisher = (mean(getattr(part, name) for part in parts) for name in ("loss", "score", "fisher"))
    effects = [part.effects for part in parts if isinstance(part.effects, EffectTerms)]
    of_law = EffectTerms(*(mean(getattr(each, name) for each in effects) for name in ("score", "cross", "own")))
    return CellTerms(loss, score, fisher, of_law)


class Link(ABC):
    """The law of a response given its eta.

    Attributes
    ----------
    name : str
    n_extra : int
        Number of parameters beside the scores.
    separable : bool
        Whether responses can leave a score infinite.
    linear : bool
        Whether the loss is linear in the response, so that a fit sees only the means of responses.

    Examples
    --------
    >>> import lrbtl, numpy as np
    >>> links = lrbtl.Logistic(), lrbtl.Probit(), lrbtl.Cauchit(), lrbtl.Davidson(), lrbtl.RaoKupper(), lrbtl.Identity()
    >>> {str(link): float(link.mean(np.array([0.5]))[0].round(2)) for link in links}
    {'logistic': 0.62, 'probit': 0.69, 'cauchit': 0.65, 'davidson': 0.58, 'rao-kupper': 0.6, 'identity': 0.5}
    """

    name: str
    n_extra = 0
    separable = True
    linear = False

    @abstractmethod
    def terms(self, eta: Floats, y: Floats, variance: Floats | None = None) -> CellTerms:
        """Return the terms of each cell; `variance` is that of the noise where known."""

    @abstractmethod
    def mean(self, eta: Floats) -> Floats:
        """Return the mean response."""

    @abstractmethod
    def log_odds(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log odds of the mean response, their derivative in eta (n,) and in its parameters (k, n)."""

    def duel(self, first: Floats, second: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the log odds between models with two scores, and their derivatives in these and in its parameters."""
        odds, by_eta, by_parameters = self.log_odds(first - second)
        return odds, by_eta, -by_eta, by_parameters

    @abstractmethod
    def spread(self, terms: CellTerms, eta: Floats, y: Floats, variance: Floats) -> CellTerms:
        """Return the terms with scores that allow for eta being normal round its fit with a variance.

        The score sum_j (1{y = j} - p_j) d log p_j has p_j replaced by its mean over eta: to second order this removes
        the bias of a one-step estimate.
        """

    def expected_terms(self, eta: Floats, y: Floats, spread: Floats, variance: Floats | None = None) -> CellTerms:
        """Return the mean of the terms of each cell for eta normal with the variance `spread`."""
        root, (nodes, weights) = np.sqrt(spread), QUADRATURE_RULE
        return mixed_terms([self.terms(eta + node * root, y, variance) for node in nodes], weights)

    def mean_fisher(self, eta: Floats, spread: Floats, variance: Floats | None = None) -> Floats:
        """Return the mean Fisher information of each cell for eta normal with the variance `spread`."""
        y = np.zeros_like(eta)
        return mean_over_spread(lambda x: self.terms(x, y, variance).fisher, eta, spread)

    def dispersion(self, eta: Floats, y: Floats, count: Floats) -> float:
        """Return the variance of the responses over that of the model, 0 where the model knows none."""
        return 1.0

    @abstractmethod
    def check(self, y: Floats, pairs: bool) -> None:
        """Raise where responses are not of the link's kind."""

    def started(self, y: Floats, count: Floats) -> "Link":
        """Return the link with a first guess of its own parameters."""
        return self

    def moved(self, step: Floats) -> "Link":
        """Return the link with its parameters moved."""
        return self

    def __str__(self) -> str:
        return self.name


class BinaryLink(Link):
    """A response in [0, 1] with P(y = 1) = mean(eta); fractions are quasi-likelihood.

    With h1 = mean' / mean and h0 = mean' / (1 - mean) the score is y h1 - (1 - y) h0 and the information h1 h0.
    """

    linear = True

    @abstractmethod
    def log_parts(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log(mean), log(1 - mean) and log(mean')."""

    def terms(self, eta: Floats, y: Floats, variance: Floats | None = None) -> CellTerms:
        """Return the terms of each cell."""
        log_p, log_q, log_slope = self.log_parts(eta)
        h1, h0 = np.exp(log_slope - log_p), np.exp(log_slope - log_q)
        fisher = np.maximum(np.exp(2 * log_slope - log_p - log_q), FISHER_FLOOR)
        return CellTerms(-y * log_p - (1 - y) * log_q, y * h1 - (1 - y) * h0, fisher)

    def log_odds(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the log odds of the mean response, their derivative in eta (n,) and in its parameters (k, n)."""
        log_p, log_q, log_slope = self.log_parts(eta)
        return log_p - log_q, np.exp(log_slope - log_p - log_q), np.empty((0, len(eta)))

    def spread(self, terms: CellTerms, eta: Floats, y: Floats, variance: Floats) -> CellTerms:
        """Return the terms with the score (y - E[mean(eta)]) (h1 + h0)."""
        log_p, log_q, log_slope = self.log_parts(eta)
        ratio = np.exp(log_slope - log_p - log_q)
        return replace(terms, score=(y - mean_over_spread(self.mean, eta, variance)) * ratio)

    def dispersion(self, eta: Floats, y: Floats, count: Floats) -> float:
        """Return 1 - sum of n y (1 - y) / sum of n p (1 - p): below one with ties and soft votes.

        For a vote y in [0, 1] with mean p the variance is p (1 - p) - E[y (1 - y)]. Residuals would fall short of it
        also near separation, where the model is to be believed.
        """
        p = self.mean(eta)
        plain = float(count @ (p * (1 - p)))
        return float(np.clip(1.0 - float(count @ (y * (1 - y))) / max(plain, TINY), SMALLEST_DISPERSION, 1.0))

    def check(self, y: Floats, pairs: bool) -> None:
        """Raise where a response lies outside [0, 1]."""
        if y.size and (y.min() < 0 or y.max() > 1):
            raise LinkError(
                f"the {self.name} link is for responses in [0, 1], but they run from {y.min():g} to {y.max():g}; "
                "use link='identity' for real values."
            )


@dataclass(frozen=True)
class Logistic(BinaryLink):
    """P(y = 1) = 1 / (1 + exp(-eta)): Bradley-Terry [Li26, eq. btl-model-setting]."""

    name = "logistic"

    def terms(self, eta: Floats, y: Floats, variance: Floats | None = None) -> CellTerms:
        """Return the terms of each cell."""
        return CellTerms(*logistic_terms(eta, y))

    def mean(self, eta: Floats) -> Floats:
        """Return sigmoid(eta)."""
        return np.asarray(expit(eta))

    def log_parts(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log(mean), log(1 - mean) and log(mean')."""
        log_p, log_q = log_expit(eta), log_expit(-eta)
        return log_p, log_q, log_p + log_q

    def log_odds(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return eta itself."""
        return eta, np.ones_like(eta), np.empty((0, len(eta)))

    def spread(self, terms: CellTerms, eta: Floats, y: Floats, variance: Floats) -> CellTerms:
        """Return the terms with the score y - E[sigmoid(eta)]."""
        return replace(terms, score=(y - 0.5) - 0.5 * mean_over_spread(np.tanh, 0.5 * eta, 0.25 * variance))


LOGISTIC = Logistic()


@dataclass(frozen=True)
class Probit(BinaryLink):
    """P(y = 1) = Phi(eta), the normal distribution function: Thurstone-Mosteller."""

    name = "probit"

    def mean(self, eta: Floats) -> Floats:
        """Return Phi(eta)."""
        return np.asarray(ndtr(eta))

    def log_parts(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log(mean), log(1 - mean) and log(mean')."""
        eta = np.clip(eta, -FAR_OUT, FAR_OUT)
        return log_ndtr(eta), log_ndtr(-eta), -0.5 * eta**2 - LOG_ROOT_TWO_PI


@dataclass(frozen=True)
class Cauchit(BinaryLink):
    """P(y = 1) = 1/2 + arctan(eta) / pi: upsets between models far apart stay likely."""

    name = "cauchit"

    def mean(self, eta: Floats) -> Floats:
        """Return 1/2 + arctan(eta) / pi."""
        return np.asarray(np.arctan2(1.0, -eta) / np.pi)

    def log_parts(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log(mean), log(1 - mean) and log(mean')."""
        return np.log(self.mean(eta)), np.log(self.mean(-eta)), -np.log1p(eta**2) - np.log(np.pi)


@dataclass(frozen=True)
class CustomLink(BinaryLink):
    """A binary link of your own, from NumPy functions of eta.

    Parameters
    ----------
    distribution : callable
        P(y = 1) = distribution(eta), increasing from 0 to 1.
    density : callable
        Its derivative.
    survival : callable, optional
        1 - distribution(eta), where that would lose digits; for battles distribution(-eta), which is the default.
    name : str

    Examples
    --------
    >>> import lrbtl, numpy as np
    >>> cauchit = lrbtl.CustomLink(lambda x: 0.5 + np.arctan(x) / np.pi, lambda x: 1 / (np.pi * (1 + x**2)))
    >>> float(cauchit.mean(np.array([1.0]))[0].round(2))
    0.75
    """

    distribution: Callable[[Any], Any]
    density: Callable[[Any], Any]
    survival: Callable[[Any], Any] | None = None
    name: str = "custom"

    def __post_init__(self) -> None:
        for function, what in ((self.distribution, "distribution"), (self.density, "density")):
            if not callable(function):
                raise LinkError(f"{what}={spelled(function)}: give a function of eta.")
        if self.survival is not None and not callable(self.survival):
            raise LinkError(f"survival={spelled(self.survival)}: give a function of eta, or None.")
        if not isinstance(self.name, str):
            raise LinkError(f"name={spelled(self.name)}: give a text.")
        x = np.linspace(-3, 3, 13)
        numeric = (self.mean(x + 1e-5) - self.mean(x - 1e-5)) / 2e-5
        density = self._floats(self.density(x), x)
        if np.any(self.mean(x) < 0) or np.any(self.mean(x) > 1) or np.any(density < 0):
            raise LinkError(f"{self.name}: the distribution must lie in [0, 1] and increase.")
        if np.abs(numeric - density).max() > 1e-5 * density.max():
            raise LinkError(f"{self.name}: the density is not the derivative of the distribution; check both.")
        if np.abs(1 - self.mean(x) - self._survival(x)).max() > 1e-8:
            raise LinkError(f"{self.name}: 1 - distribution(eta) is not distribution(-eta); give `survival`.")

    def _survival(self, eta: Floats) -> Floats:
        value = self.distribution(-eta) if self.survival is None else self.survival(eta)
        return self._floats(value, eta)

    def _floats(self, values: Any, eta: Floats) -> Floats:
        found = as_floats(values, self.name, LinkError)
        if found.shape not in ((), eta.shape):
            raise LinkError(f"{self.name}: {eta.shape} values of eta give {found.shape}; give functions of arrays.")
        return np.broadcast_to(found, eta.shape)

    def mean(self, eta: Floats) -> Floats:
        """Return distribution(eta)."""
        return self._floats(self.distribution(eta), eta)

    def log_parts(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return log(mean), log(1 - mean) and log(mean')."""
        parts = (self.mean(eta), self._survival(eta), self._floats(self.density(eta), eta))
        log_p, log_q, log_slope = (np.log(np.maximum(part, TINY)) for part in parts)
        return log_p, log_q, log_slope

    def check(self, y: Floats, pairs: bool) -> None:
        """Raise where responses lie outside [0, 1], or where sides of a battle would matter."""
        super().check(y, pairs)
        x = np.linspace(-3, 3, 13)
        if pairs and np.abs(self.mean(x) + self.mean(-x) - 1).max() > 1e-8:
            raise LinkError(f"{self.name}: battles need distribution(-eta) = 1 - distribution(eta).")


@dataclass(frozen=True)
class Identity(Link):
    """A real response with mean eta and the variance of its cell, or one variance for all.

    The score is (y - eta) / variance [Li26, eq. tc-gram-additive, with the score that belongs to it]. Estimates and
    sandwich errors do not depend on a common variance; `fit` estimates it from the residuals where it is None.
    """

    variance: float | None = None
    name = "identity"
    separable = False

    def terms(self, eta: Floats, y: Floats, variance: Floats | None = None) -> CellTerms:
        """Return the terms of each cell."""
        noise = np.full(len(eta), self.variance or 1.0) if variance is None else variance
        residual = y - eta
        loss = 0.5 * residual**2 / noise + 0.5 * np.log(noise) + LOG_ROOT_TWO_PI
        return CellTerms(loss, residual / noise, 1.0 / noise)

    def mean(self, eta: Floats) -> Floats:
        """Return eta."""
        return eta

    def log_odds(self, eta: Floats) -> tuple[Floats, Floats, Floats]:
        """Refuse: real responses have no odds."""
        raise LinkError("win probabilities need a binary response; with link='identity' ask for entries.")

    def spread(self, terms: CellTerms, eta: Floats, y: Floats, variance: Floats) -> CellTerms:
        """Return the terms: the mean response is linear."""
        return terms

    def dispersion(self, eta: Floats, y: Floats, count: Floats) -> float:
        """Return 0: the variance of the noise is not known from its mean."""
        return 0.0

    def check(self, y: Floats, pairs: bool) -> None:
        """Raise for battles."""
        if pairs:
            raise LinkError("the identity link is for observed entries, not for battles; use 'logistic' or 'probit'.")


def logistic_terms(eta: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Return loss, score and Fisher information of each vote under the logistic link [Li26, eq. btl-model-setting]."""
    score, fisher = np.abs(eta), np.empty_like(eta)
    np.negative(score, out=score)
    np.exp(score, out=score)  # NumPy's exp and log1p use the vector units
    loss = np.log1p(score)
    fisher_kernel.logistic_terms(eta, y, loss, score, fisher)
    return loss, score, fisher


def mean_over_spread(function: Callable[[Floats], Floats], eta: Floats, variance: Floats) -> Floats:
    """Return E[function(eta + sqrt(variance) Z)] for standard normal Z, by Gauss-Hermite quadrature."""
    root = np.sqrt(np.maximum(variance, 0.0))
    return np.asarray(sum(w * function(eta + node * root) for node, w in zip(*QUADRATURE_RULE, strict=True)))


# ------------------------------------------------------------------------------
# Ties as an outcome of their own: the models of Davidson and of Rao and Kupper, and links by name.
# ------------------------------------------------------------------------------


POINTS = np.array([0.0, 0.5, 1.0])  # what a loss, a tie and a win are worth


@dataclass(frozen=True)
class TieLink(Link):
    """Win, tie or loss with probabilities that depend on eta and on one tie parameter."""

    tie: float = 0.0  # parameter of the ties, on a scale without bounds
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
        own = terms.effects
        assert isinstance(own, EffectTerms)
        effects = replace(own, score=own.score - np.sum(p * by_tie, axis=0)[:, None])
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
        log_p = np.stack([loss, 2 * d + np.log(-np.expm1(-2 * d)) + win + loss, win])
        not_win, not_loss = expit(d - eta), expit(d + eta)
        by_eta = np.stack([-not_loss, not_win - not_loss, not_win])
        by_d = np.stack([-not_loss, -2 / np.expm1(-2 * d) - not_win - not_loss, -not_win])
        return log_p, by_eta, d * by_d

    def _of_share(self, share: float) -> float:
        return float(np.log(np.log((1 + share) / (1 - share))))


LINKS: dict[str, Link] = {
    "logistic": LOGISTIC,
    "probit": Probit(),
    "cauchit": Cauchit(),
    "identity": Identity(),
    "davidson": Davidson(),
    "rao-kupper": RaoKupper(),
}


TIE_LINKS = tuple(name for name, link in LINKS.items() if link.n_extra)


def as_link(link: str | Link) -> Link:
    """Return a link given by name or as itself."""
    if isinstance(link, Link):
        return link
    if not isinstance(link, str) or link not in LINKS:
        raise LinkError(
            f"link={link!r} is not known: choose one of {', '.join(map(repr, LINKS))}, or a lrbtl.CustomLink."
        )
    return LINKS[link]
