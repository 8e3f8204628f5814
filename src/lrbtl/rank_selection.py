"""Choosing the rank by held-out log-likelihood."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lrbtl.completion import Data, Observations
from lrbtl.errors import RankCollapseWarning, RankError
from lrbtl.fitting import fit, refit
from lrbtl.folds import fold_counts
from lrbtl.links import Link
from lrbtl.tucker import check_rank, rank_caps

Floats = np.typing.NDArray[np.float64]

MAX_DEFAULT_RANK = 8


@dataclass(frozen=True)
class RankSelection:
    """What each rank achieved on held-out battles.

    Attributes
    ----------
    ranks : list of tuples
        Candidates, smallest first.
    log_likelihood : array
        Mean held-out log-likelihood per battle, in nats.
    deficit, deficit_se : arrays
        How far each rank falls short of the best one, per battle, and the standard error of that paired difference.
    rank : tuple
        The smallest rank within one standard error of the best.
    """

    ranks: list[tuple[int, ...]]
    log_likelihood: Floats
    deficit: Floats
    deficit_se: Floats
    rank: tuple[int, ...]

    def to_dict(self) -> dict[str, list[object]]:
        """Return the table as columns."""
        return {
            "rank": list(self.ranks),
            "log_likelihood": self.log_likelihood.tolist(),
            "deficit": self.deficit.tolist(),
            "deficit_se": self.deficit_se.tolist(),
            "chosen": [rank == self.rank for rank in self.ranks],
        }

    def __str__(self) -> str:
        lines = ["rank             held-out mnats/battle   below the best"]
        for rank, value, gap, se in zip(self.ranks, self.log_likelihood, self.deficit, self.deficit_se, strict=True):
            mark = "  <- chosen" if rank == self.rank else ""
            lines.append(f"{rank!s:<16} {1e3 * value:>21.2f}   {1e3 * gap:.2f} ± {1e3 * se:.2f}{mark}")
        return "\n".join(lines)


def select_rank(
    battles: Data,
    ranks: Iterable[int | Sequence[int]] | None = None,
    *,
    n_folds: int = 5,
    link: str | Link | None = None,
    n_threads: int = 1,
    progress: Callable[[str], None] | None = None,
    rng: int | np.random.Generator | None = 0,
) -> RankSelection:
    """Choose the smallest rank whose held-out log-likelihood is within one standard error of the best.

    The standard error is that of the paired difference, vote by vote, which leans towards larger ranks than comparing
    unpaired means does: too large a rank costs a little efficiency, too small a rank costs coverage.

    Parameters
    ----------
    battles : Battles or Observations
    ranks : iterable of int or tuple, optional
        Candidates; by default 1, 2, ... until three in a row have not improved, at most 8.
    n_folds : int
    link : str or Link, optional
        See `fit`.
    n_threads : int
    progress : callable, optional
        Called with one line per rank.
    rng : int, Generator or None
        Randomness of the folds.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((20, 8), 2, scale=3, rng=0)
    >>> lrbtl.select_rank(lrbtl.simulate_battles(truth, 30_000, rng=1), [1, 2, 3]).rank
    (2, 2)
    """
    shape = battles.shape
    given = ranks is not None
    centred = not isinstance(battles, Observations)
    largest = min(MAX_DEFAULT_RANK, max(rank_caps(shape, centred=centred)))
    candidates = list(ranks) if ranks is not None else list(range(1, largest + 1))
    if not candidates:
        raise RankError("ranks is empty: give at least one candidate.")
    full = sorted(dict.fromkeys(check_rank(rank, shape, centred=centred) for rank in candidates))
    if len(full) == 1:
        return RankSelection(full, np.full(1, np.nan), np.zeros(1), np.zeros(1), full[0])
    folds = fold_counts(battles.cells, n_folds, rng).astype(float)
    losses: list[Floats] = []
    for rank in full:
        losses.append(_held_out_loss(battles, rank, folds, link, n_threads))
        if progress is not None:
            progress(f"rank {rank}: {-1e3 * losses[-1].sum() / battles.n_battles:.2f} mnats per battle held out")
        totals = [loss.sum() for loss in losses]
        if not given and len(totals) - 1 - int(np.argmin(totals)) >= 3:
            break
    full = full[: len(losses)]
    return _select(full, np.array(losses), folds)


def _held_out_loss(
    battles: Data, rank: tuple[int, ...], folds: Floats, link: str | Link | None, n_threads: int
) -> Floats:
    """Return the loss of each (fold, cell) under the fit to the other folds, times its multiplicity."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankCollapseWarning)  # a rank too many is what the comparison is there to see
        whole = fit(battles, rank, link=link, n_threads=n_threads)
    design = whole.design
    losses = np.empty_like(folds)
    for k, held_out in enumerate(folds):
        fold = refit(whole, design.count - held_out)
        losses[k] = design.with_link(fold.link).terms(design.eta(design.space(fold.point))).loss * held_out
    return losses


def _select(ranks: list[tuple[int, ...]], losses: Floats, folds: Floats) -> RankSelection:
    held_out, deficit, deficit_se = compare_losses(losses, folds)
    chosen = int(np.argmax(deficit <= deficit_se))
    return RankSelection(ranks, held_out, deficit, deficit_se, ranks[chosen])


def compare_losses(losses: Floats, folds: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean held-out log-likelihoods, how far each is below the best, and the paired errors of that.

    `losses` (candidates, folds, cells) hold the loss of each cell times its multiplicity in `folds` (folds, cells).
    """
    n = folds.sum()
    totals = losses.sum(axis=(1, 2))
    best = int(np.argmin(totals))
    with np.errstate(divide="ignore", invalid="ignore"):
        per_vote = np.where(folds > 0, (losses - losses[best]) / folds, 0.0)
    deficit = (totals - totals[best]) / n
    variance = np.sum(folds * (per_vote - deficit[:, None, None]) ** 2, axis=(1, 2)) / n
    return -totals / n, deficit, np.sqrt(variance / n)
