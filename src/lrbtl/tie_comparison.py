"""Which model of ties predicts best: as half a win, Davidson or Rao-Kupper, by three-way held-out log-likelihood."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lrbtl.battles import Battles
from lrbtl.fitting import Fit, fit, refit
from lrbtl.folds import fold_counts
from lrbtl.links import logistic_terms
from lrbtl.rank_selection import compare_losses, select_rank
from lrbtl.ties import Davidson

Floats = np.typing.NDArray[np.float64]

MODELS = {"half": "logistic", "davidson": "davidson", "rao-kupper": "rao-kupper"}


@dataclass(frozen=True)
class TieComparison:
    """What each model of ties achieved on held-out battles.

    Attributes
    ----------
    models : tuple of str
        "half" (ties as half a win, with a constant share of ties), "davidson", "rao-kupper".
    log_likelihood : array (3,)
        Mean held-out log-likelihood of win, tie or loss per battle, in nats.
    deficit, deficit_se : arrays (3,)
        How far each falls short of the best, and the standard error of that paired difference.
    rank : tuple
    """

    models: tuple[str, ...]
    log_likelihood: Floats
    deficit: Floats
    deficit_se: Floats
    rank: tuple[int, ...]

    @property
    def best(self) -> str:
        """The model with the highest log-likelihood."""
        return self.models[int(np.argmin(self.deficit))]

    def to_dict(self) -> dict[str, list[object]]:
        """Return the table as columns."""
        return {
            "model": list(self.models),
            "log_likelihood": self.log_likelihood.tolist(),
            "deficit": self.deficit.tolist(),
            "deficit_se": self.deficit_se.tolist(),
        }

    def __str__(self) -> str:
        lines = ["ties         held-out mnats/battle   below the best"]
        for name, value, gap, se in zip(self.models, self.log_likelihood, self.deficit, self.deficit_se, strict=True):
            lines.append(f"{name:<12} {1e3 * value:>21.2f}   {1e3 * gap:.2f} ± {1e3 * se:.2f}")
        return "\n".join(lines)


def compare_ties(
    battles: Battles,
    rank: int | Sequence[int] | Literal["auto"] = "auto",
    *,
    n_folds: int = 5,
    n_threads: int = 1,
    rng: int | np.random.Generator | None = 0,
) -> TieComparison:
    """Compare three models of ties by the log-likelihood of held-out wins, ties and losses.

    Ties as half a win say nothing of how likely a tie is: there the share of ties is a constant, and decisive votes
    follow the scores times a factor, both fitted to the training folds.

    Parameters
    ----------
    battles : Battles
        With outcomes 0, 1/2 and 1.
    rank : int, tuple or "auto"
    n_folds : int
    n_threads : int
    rng : int, Generator or None

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays([0, 0, 1, 1, 0], [1, 1, 2, 2, 2], [1, 0.5, 0, 0.5, 1], counts=[30] * 5)
    >>> lrbtl.compare_ties(battles, 1).models
    ('half', 'davidson', 'rao-kupper')
    """
    Davidson().check(battles.cells.y, True)
    if isinstance(rank, str):
        rank = select_rank(battles, n_folds=n_folds, n_threads=n_threads, rng=rng).rank
    folds = fold_counts(battles.cells, n_folds, rng).astype(float)
    fits = [fit(battles, rank, link=link, n_threads=n_threads) for link in MODELS.values()]
    losses = [np.array([_three_way_loss(whole, held_out) for held_out in folds]) for whole in fits]
    return TieComparison(tuple(MODELS), *compare_losses(losses, folds), fits[0].rank)


def _three_way_loss(whole: Fit, held_out: Floats) -> Floats:
    """Return the loss of one vote with the outcome of each cell, under the fit without those held out."""
    from scipy.optimize import minimize_scalar

    design = whole.design
    train = design.count - held_out
    fold = refit(whole, train)
    eta = design.eta(design.space(fold.point))
    if fold.link.n_extra:
        return fold.link.terms(eta, design.y).loss
    tied = design.y == 0.5
    share = float(train @ tied / train.sum())
    decisive = np.where(tied, 0.0, train)
    factor = minimize_scalar(lambda c: float(decisive @ logistic_terms(c * eta, design.y)[0]), bounds=(0.1, 10)).x
    return np.asarray(np.where(tied, -np.log(share), -np.log1p(-share) + logistic_terms(factor * eta, design.y)[0]))
