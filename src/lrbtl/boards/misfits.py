"""Voters whose votes fit nobody else's, by a test that holds at all times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.folds import check_fold_number
from lrbtl.errors import InfluenceError, LevelError
from lrbtl.inference.analysis import Analysis, analyse
from lrbtl.methods.targets import resolved_gap
from lrbtl.model.links import mean_over_spread
from lrbtl.tables import Printed
from lrbtl.typing import Bools, Floats, Longs

ROWS_SHOWN = 10
LARGEST_LOG = 500.0


@dataclass(frozen=True, eq=False, repr=False)
class Misfits(Printed):
    """Evidence that voters toss coins rather than vote as the others do, strongest first; arrays (n,).

    A voter's decisive votes multiply to e = product of (1/2) / p(vote), p as the votes of all other voters say. Were
    the voter like the others, e would be a test martingale: it exceeds 1 / alpha, at any time, with probability alpha
    at most. So votes may be looked at as they come, as often as one likes.

    Attributes
    ----------
    by : str
    voters : tuple
    votes : array of int
        Decisive votes.
    agree : array
        Share of them for the model that the others prefer.
    expected : array
        That share for a voter like the others.
    evidence : array
        e, the product; capped at exp(500).
    flagged : array of bool
        e of at least (number of voters) / level: no voter is flagged wrongly, with probability 1 - level for all of
        them.
    level : float
    """

    by: str
    voters: tuple[Any, ...]
    votes: Longs
    agree: Floats
    expected: Floats
    evidence: Floats
    flagged: Bools
    level: float

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists for JSON."""
        names = ("votes", "agree", "expected", "evidence", "flagged")
        return {self.by: list(self.voters), **{name: getattr(self, name).tolist() for name in names}}

    def heading(self) -> list[str]:
        """Return how many voters are flagged."""
        n, of = int(self.flagged.sum()), len(self.voters)
        are = "is" if n == 1 else "are"
        return [f"{self.by}: {n} of {of:,} {are} unlike the others (all tests together at {self.level:.0%})"]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = range(min(ROWS_SHOWN, len(self.voters)))
        cells = [
            [
                str(self.voters[k]), f"{self.votes[k]:,}", f"{self.agree[k]:.0%}", f"{self.expected[k]:.0%}",
                f"{self.evidence[k]:.3g}", "yes" if self.flagged[k] else "",
            ]
            for k in rows
        ]  # fmt: skip
        return [self.by, "votes", "agree", "expected", "e", "flagged"], cells


def find_misfits(analysis: Analysis, by: str, level: float, n_folds: int) -> Misfits:
    """Return the evidence on each voter, from fits to the decisive votes of other voters."""
    battles = analysis.battles
    assert isinstance(battles, Battles) and battles.cells.clusters is not None
    if not 0 < level < 1:
        raise LevelError(f"level={level!r} is the chance of a wrong flag: give a number between 0 and 1.")
    check_fold_number(n_folds)
    cells, k = battles.cells, battles.cluster_names.index(by)
    voter, labels = battles.cells.clusters[:, k], battles.cluster_labels[k]
    decisive = np.where((cells.y == 0) | (cells.y == 1), cells.count, 0)
    if len(np.unique(voter[decisive > 0])) < 2:
        raise InfluenceError(f"{by} has fewer than two groups with decisive votes: nobody can be unlike the others.")
    win = fit_others(analysis, voter, decisive, n_folds)
    chance = np.where(cells.y == 1, win, 1 - win)
    n = len(labels)
    log_e = np.clip(np.bincount(voter, decisive * (np.log(0.5) - np.log(chance)), n), -LARGEST_LOG, LARGEST_LOG)
    votes = np.bincount(voter, decisive, n).astype(np.int64)
    seen = np.flatnonzero(votes)
    shares = [np.bincount(voter, decisive * x, n)[seen] / votes[seen] for x in (chance > 0.5, np.maximum(win, 1 - win))]
    order = np.argsort(-log_e[seen], kind="stable")
    flagged = log_e[seen] >= np.log(seen.size / level)
    return Misfits(
        by=by,
        voters=tuple(labels[seen[i]] for i in order),
        votes=votes[seen][order],
        agree=shares[0][order],
        expected=shares[1][order],
        evidence=np.exp(log_e[seen][order]),
        flagged=flagged[order],
        level=level,
    )


def fit_others(analysis: Analysis, voter: Any, decisive: Longs, n_folds: int) -> Floats:
    """Return the probability that a wins in each cell, as the decisive votes of voters in other folds have it.

    It is the mean over what those votes leave open, so that the expected ratio to any other probability is one.
    """
    battles = analysis.battles
    assert isinstance(battles, Battles)
    cells = battles.cells
    fold = np.random.default_rng(0).permutation(int(voter.max()) + 1)[voter] % n_folds
    win, units = np.full(cells.n_cells, 0.5), np.eye(battles.n_contexts)
    for held in range(n_folds):
        here = np.flatnonzero((fold == held) & (decisive > 0))
        train = np.where(fold == held, 0, decisive)
        if not here.size or not train.any():
            continue
        keys, place = np.unique(
            np.stack([cells.context[here], cells.a[here], cells.b[here]]), axis=1, return_inverse=True
        )
        goals = [resolved_gap(int(a), int(b), units[u]) for u, a, b in keys.T]
        found = analyse(battles.with_counts(train), **analysis.options).run.moments(goals, errors_only=True)
        link = analysis.run.link
        chance = mean_over_spread(link.mean, found.values, found.se**2)
        win[here] = np.where(np.isfinite(chance), chance, 0.5)[place.reshape(-1)]
    return np.asarray(np.clip(win, 1e-12, 1 - 1e-12))
