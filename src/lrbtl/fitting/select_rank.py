"""Choosing the rank by held-out log-likelihood."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lrbtl.data.folds import check_fold_number, check_folds, fold_counts
from lrbtl.data.frames import Frame, as_data
from lrbtl.data.observations import Data, Results
from lrbtl.errors import RankCollapseWarning, RankError, listed, without
from lrbtl.fitting.local import Local
from lrbtl.fitting.low_rank import Fit, check_informed, fit_with_chosen_ridge, refit
from lrbtl.lowrank.tucker import check_rank, rank_caps
from lrbtl.model.links import Link
from lrbtl.progress import as_progress
from lrbtl.threads import check_threads, one_blas_thread, ordered_map
from lrbtl.typing import Bools, Floats, Progress, Seed

MAX_DEFAULT_RANK = 8
CLEARLY = 3.0  # standard errors by which a rank must fall short of the best so far to end the search at once
HELD_OUT_TOL = 1e-2  # Newton decrement, in nats per hundred parameters; on thin data held-out losses feel it


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
    determined : array of bool
        Whether the battles determine every direction of scores of this rank, without any fold: else no intervals.
    rank : tuple
        The smallest rank within one standard error of the best, among those determined.
    unit : "battles" or "observations"
    notes : tuple of str
        Notes on how the battles were read.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=2, rng=0), 3000, rng=1)
    >>> found = lrbtl.select_rank(battles, [1, 2])
    >>> found.ranks, found.rank
    ([(1, 1), (2, 2)], (1, 1))
    """

    ranks: list[tuple[int, ...]]
    log_likelihood: Floats
    deficit: Floats
    deficit_se: Floats
    determined: Bools
    rank: tuple[int, ...]
    unit: str = "battles"
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> tuple[int, ...]:
        """The determined rank with the highest held-out log-likelihood: what rank="auto" means.

        Too small a rank costs coverage and too large a rank only some width, so that intervals do without the discount
        of one standard error.
        """
        return self.ranks[int(np.flatnonzero(self.deficit == 0.0)[0])]

    @property
    def asks_for_more(self) -> bool:
        """Whether a rank that the battles do not determine predicts better by two standard errors.

        Fits of the ranks that they do determine then miss something: their intervals cover less than they say.
        """
        return bool(np.any(~self.determined & (self.deficit < -2 * self.deficit_se)))

    def to_dict(self) -> dict[str, list[object]]:
        """Return the table as columns."""
        return {
            "rank": list(self.ranks),
            "log_likelihood": self.log_likelihood.tolist(),
            "deficit": self.deficit.tolist(),
            "deficit_se": self.deficit_se.tolist(),
            "determined": self.determined.tolist(),
            "chosen": [rank == self.rank for rank in self.ranks],
        }

    def __str__(self) -> str:
        head = f"held-out mnats/{self.unit.removesuffix('s')}"
        lines = [f"rank             {head}   below the best"]
        columns = (self.ranks, self.log_likelihood, self.deficit, self.deficit_se, self.determined)
        for rank, value, gap, se, determined in zip(*columns, strict=True):
            mark = "" if determined else f"  not determined by the {self.unit}"
            if rank == self.rank:
                mark = "  <- chosen: the smallest as good as the best"
            elif rank == self.best:
                mark = "  <- rank='auto': the best"
            lines.append(f"{rank!s:<16} {1e3 * value:>{len(head)}.2f}   {1e3 * gap:.2f} ± {1e3 * se:.2f}{mark}")
        return "\n".join([*self.notes, *lines])


def select_rank(
    battles: Data | Frame,
    ranks: Iterable[int | Sequence[int]] | None = None,
    *,
    n_folds: int = 5,
    link: str | Link | None = None,
    n_threads: int | None = 1,
    progress: Progress | bool | None = None,
    rng: Seed = 0,
) -> RankSelection:
    """Choose the smallest rank whose held-out log-likelihood is within one standard error of the best.

    The standard error is that of the paired difference, vote by vote, which favours larger ranks than comparing
    unpaired means does: too large a rank costs a little efficiency, too small a rank costs coverage.

    Parameters
    ----------
    battles : Battles, Results or data frame
        Columns of a frame are guessed from common names; a note says how.
    ranks : iterable of int or tuple, optional
        Candidates; by default 1, 2, ... until two in a row have not improved, one is worse by three standard errors or
        is not determined by the battles, at most 8.
    n_folds : int
    link : str or Link, optional
        See `fit`.
    n_threads : int or None
        Threads that take a fold each; None for one per core. Results do not depend on it.
    progress : True or callable, optional
        A bar, or a function that gets one line per rank.
    rng : int, Generator or None
        Randomness of the folds.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((20, 8), 2, scale=3, rng=0)
    >>> lrbtl.select_rank(lrbtl.simulate_battles(truth, 30_000, rng=1), [1, 2, 3]).rank
    (2, 2)
    """
    check_threads(n_threads)
    check_fold_number(n_folds)
    battles = as_data(battles)
    listener = as_progress(progress)
    shape = battles.shape
    given = ranks is not None
    centred = not isinstance(battles, Results)
    unit = battles.unit
    largest = min(MAX_DEFAULT_RANK, max(rank_caps(shape, centred=centred)))
    every = range(1, largest + 1)
    candidates = listed(every if ranks is None else ranks, "ranks", "give candidates, such as [1, 2, 3]", RankError)
    if not candidates:
        raise RankError("ranks is empty: give at least one candidate.")
    full = sorted(dict.fromkeys(check_rank(rank, shape, centred=centred) for rank in candidates))
    if len(full) == 1:
        nothing, zero, one = np.full(1, np.nan), np.zeros(1), np.ones(1, dtype=bool)
        return RankSelection(full, nothing, zero, zero, one, full[0], unit, battles.notes)
    check_informed(battles)
    check_folds(battles, n_folds)
    folds = fold_counts(battles.cells, n_folds, rng).astype(float)
    losses: list[Floats] = []
    determined: list[bool] = []
    full_fit: Fit | None = None
    for rank in full:
        with without(RankCollapseWarning):  # a rank too many is what the comparison should see
            full_fit = fit_with_chosen_ridge(battles, rank, n_threads, full_fit, link=link)
        loss, known = _held_out(full_fit, folds)
        losses.append(loss)
        determined.append(known and full_fit.rank == rank)
        held_out, deficit, deficit_se = compare_losses(losses, folds)
        if listener is not None:
            listener(f"rank {rank}: {1e3 * held_out[-1]:.2f} mnats per {unit.removesuffix('s')} held out")
        lags, clearly = len(losses) - 1 - int(np.argmin(deficit)), bool(deficit[-1] > CLEARLY * deficit_se[-1])
        if not given and (not determined[-1] or lags >= 2 or clearly):
            break
    return replace(_select(full[: len(losses)], losses, np.array(determined), folds), unit=unit, notes=battles.notes)


@one_blas_thread
def _held_out(full_fit: Fit, folds: Floats) -> tuple[Floats, bool]:
    """Return the loss of a vote in each (fold, cell) under the fit to the other folds.

    And whether every training fold determines all directions of the scores.
    """
    design = full_fit.design
    start = refit(full_fit, design.count, tol=HELD_OUT_TOL)

    def loss_of(held_out: Floats) -> tuple[Floats, bool]:
        train = design.count - held_out
        fold = refit(full_fit, train, start=start, tol=HELD_OUT_TOL)
        here = Local.of(design.under(fold).with_count(train), fold.point)
        return here.terms.loss, here.solver().null is None

    losses, determined = zip(*ordered_map(loss_of, folds, full_fit.n_threads), strict=True)
    return np.array(losses), all(determined)


def _select(ranks: list[tuple[int, ...]], losses: Sequence[Floats], determined: Bools, folds: Floats) -> RankSelection:
    eligible = determined if determined.any() else np.arange(len(ranks)) == 0
    held_out, deficit, deficit_se = compare_losses(losses, folds, eligible)
    chosen = int(np.argmax(eligible & (deficit <= deficit_se)))
    return RankSelection(ranks, held_out, deficit, deficit_se, determined, ranks[chosen])


def compare_losses(
    losses: Sequence[Floats], folds: Floats, eligible: Bools | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return mean held-out log-likelihoods, how far each is below the best eligible one, and the paired errors of that.

    Each candidate's losses (folds, cells) are those of one vote in a cell; `folds` (folds, cells) are multiplicities.
    """
    n = folds.sum()
    means = np.array([np.vdot(folds, loss) for loss in losses]) / n
    best = int(np.argmin(means if eligible is None else np.where(eligible, means, np.inf)))
    deficit = means - means[best]
    variances = []
    for loss, mean in zip(losses, deficit, strict=True):
        away = loss - losses[best]
        away -= mean
        away *= away
        variances.append(np.vdot(folds, away) / n)
    return -means, deficit, np.sqrt(np.array(variances) / n)
