"""The public fit: a rank that is given or chosen from the data, then the low-rank fit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from lrbtl.data.battles import Battles
from lrbtl.data.frames import Frame, as_data
from lrbtl.data.observations import Data, Results
from lrbtl.errors import UndeterminedRankWarning, warn_user
from lrbtl.fitting.low_rank import Fit, check_informed, check_rank_kind, fit_with_chosen_ridge, fit_with_ridge
from lrbtl.fitting.select_rank import select_rank
from lrbtl.lowrank.tucker import check_rank
from lrbtl.model.links import Link
from lrbtl.threads import check_threads
from lrbtl.typing import Seed


def fit(
    battles: Data | Frame,
    rank: int | Sequence[int] | Literal["auto"] = "auto",
    *,
    ridge: float | Sequence[float] | Literal["auto"] = "auto",
    link: str | Link | None = None,
    n_threads: int | None = 1,
    rng: Seed = 0,
) -> Fit:
    """Fit a low-rank score tensor by penalised maximum likelihood.

    Parameters
    ----------
    battles : Battles, Results or data frame
        Columns of a frame are guessed; ``fit.battles.notes`` says how.
    rank : int, tuple or "auto"
        Tucker rank; an int r means (r, ..., r) under the caps. "auto" takes the best rank of `select_rank`.
    ridge : float, sequence or "auto"
        Penalty 1/2 sum_k ridge_k ||T_(k)||_* in nats; one number serves every mode. "auto"
        minimises an estimate of the held-out loss.
    link : "logistic", "probit", "davidson", "rao-kupper", "identity" or Link
        Law of a response given its eta. Davidson and Rao-Kupper know ties as an outcome of their own and estimate its
        parameter. By default logistic for battles, identity (Gaussian noise) for observed entries.
    n_threads : int or None
        With rank="auto", threads that take a fold each; None for one per core. Results do not depend on it. Functions
        of a `CustomLink` are then called from several threads.
    rng : int, Generator or None
        Randomness of `select_rank`, where asked for.

    Returns
    -------
    Fit

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((20, 6), 2, scale=2, rng=0)
    >>> fit = lrbtl.fit(lrbtl.simulate_battles(truth, 20_000, rng=1), 2)
    >>> fit.scores.shape, fit.rank, fit.converged
    ((20, 6), (2, 2), True)
    >>> bool(abs(fit.scores - truth).mean() < 0.1)
    True
    """
    check_threads(n_threads)
    battles = as_data(battles)
    chosen, asks_for_more = isinstance(rank, str), False
    if isinstance(rank, str):
        check_rank_kind(rank)
        selection = select_rank(battles, link=link, rng=rng, n_threads=n_threads)
        if selection.asks_for_more:
            mode, other = battles.axes
            warn_user(
                f"rank {selection.ranks[-1]} predicts better than rank {selection.best}, but the {battles.unit} do not "
                f"determine it: intervals may cover less than they say. Drop thin {mode}s or {other}s"
                + (", or use method='naive'." if isinstance(battles, Battles) else "."),
                UndeterminedRankWarning,
            )
        rank = selection.best
        asks_for_more = selection.asks_for_more
    full_rank = check_rank(rank, battles.shape, centred=not isinstance(battles, Results))
    check_informed(battles)
    if isinstance(ridge, str) and ridge == "auto":
        found = fit_with_chosen_ridge(battles, full_rank, n_threads, link=link)
    else:
        found = fit_with_ridge(battles, full_rank, ridge, n_threads, link=link)
    return replace(found, rank_chosen=chosen, asks_for_more=asks_for_more)
