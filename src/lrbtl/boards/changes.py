"""What changed between two boards: scores and ranks, with errors that know which votes both boards share.

With f the influence values of votes, the errors of the two boards share sum over common votes of f_before f_after. The
default method also shrinks. What its prior leaves of the scores' errors, P = Cov - sum of f f^T, is the same scores'
pull in both boards, as far as it goes: its part of the change is (R_before - R_after)^2 with R the symmetric roots of
P. So the covariance of the change is that of

    sum over votes of (f_before - f_after) + (R_before - R_after) Z,   f = 0 where a board does not have the vote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lrbtl.boards.board import BASE_RATING, Basis, Leaderboard, Leaderboards
from lrbtl.boards.columns import NOTHING
from lrbtl.boards.ranking import level_ties, rank_scores
from lrbtl.data.battles import Battles
from lrbtl.data.cells import Cells
from lrbtl.data.labels import index_labels, shown_context
from lrbtl.errors import ChangeError, make_rng
from lrbtl.inference.estimate import ELO, Estimate
from lrbtl.inference.joint import holm, normal_quantile
from lrbtl.methods.base import strict_question
from lrbtl.methods.targets import resolved_score
from lrbtl.tables import Printed, format_intervals, format_numbers, format_pvalues, mark_gap, shown, shown_rows
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats, Longs, Seed

ROWS_SHOWN = 60
MOVER_LEVEL = 0.05
DRAWS = 4000
NESTED = 0.999  # share of the smaller log that the other must contain: a few votes may have been taken back


SAVED = "saved boards do not know their votes: none are taken to be the same, so intervals may be too wide"


@dataclass(frozen=True, eq=False, repr=False)
class Changes(Printed):
    """Changes from one board to another of the models ranked on both; largest rise first; arrays (n,).

    Attributes
    ----------
    models : tuple
    before, after : arrays
        Elo points against the mean of these models, which is 1000 on both boards.
    change, lower, upper, se, pvalue : arrays
        Of after minus before, in Elo points.
    rank_before, rank_after : arrays of int
        Among these models.
    rank_lower, rank_upper : arrays of int
        Interval of the change of the rank, after minus before: a rise is negative.
    movers : tuple
        Models whose change is not zero, at 5% for all of them together (Holm).
    joined, left : tuple
        Models ranked on the later or on the earlier board only.
    shared, votes : int, (int, int)
        Votes that both boards rest on, and votes of each.
    level : float
    estimate : Estimate
        The changes with their covariance, in log odds.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((5, 2), 1, scale=1, rng=0)
    >>> old, new = (lrbtl.simulate_battles(truth, n, rng=n) for n in (3000, 500))
    >>> found = lrbtl.changes(lrbtl.leaderboard(old), lrbtl.leaderboard(old + new))
    >>> found.shared, found.movers
    (3000, ())
    """

    indent = "  "

    models: tuple[Any, ...]
    before: Floats
    after: Floats
    change: Floats
    lower: Floats
    upper: Floats
    se: Floats
    pvalue: Floats
    rank_before: Longs
    rank_after: Longs
    rank_lower: Longs
    rank_upper: Longs
    movers: tuple[Any, ...]
    joined: tuple[Any, ...]
    left: tuple[Any, ...]
    shared: int
    votes: tuple[int, int]
    level: float
    contexts: tuple[Any, Any]
    estimate: Estimate
    note: str = ""

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists for JSON."""
        names = ["before", "after", "change", "lower", "upper", "se", "pvalue"]
        names += ["rank_before", "rank_after", "rank_lower", "rank_upper"]
        columns = {name: getattr(self, name).tolist() for name in names}
        return {"model": list(self.models), **columns, "mover": [model in self.movers for model in self.models]}

    def heading(self) -> list[str]:
        """Return what a reader must know: votes, the movers, who came and went."""
        names = [shown_context(context) for context in self.contexts]
        boards = names[0] if names[0] == names[1] else f"{names[0]} to {names[1]}"
        before, after = self.votes
        lines = [
            f"Changes, {boards}: {len(self.models):,} models; {before:,} votes before, {after:,} after, "
            + (f"{self.shared:,} of them the same" if self.shared else "none of them the same"),
            f"Elo points against the mean of these models; {100 * self.level:.4g}% intervals",
        ]
        if self.movers:
            change = dict(zip(self.models, self.change, strict=True))
            words = ", ".join(f"{shown(model)} ({change[model]:+.0f})" for model in self.movers[:ROWS_SHOWN])
            lines.append(f"significant changes (family-wise {MOVER_LEVEL:.0%}): {words}")
        else:
            lines.append("no model moved by more than chance")
        for what, models in (("new", self.joined), ("gone", self.left)):
            if models:
                lines.append(f"{what}: {', '.join(map(shown, models))}")
        return [*lines, self.note] if self.note else lines

    def _table(self) -> tuple[list[str], list[list[str]]]:
        head, tail = shown_rows(len(self.models), ROWS_SHOWN)
        rows = np.array(head + tail)
        ranks = zip(self.rank_before[rows], self.rank_after[rows], strict=True)
        spread = zip(self.rank_lower[rows], self.rank_upper[rows], strict=True)
        columns = {
            "model": [str(self.models[k]) for k in rows],
            "before": format_numbers(self.before[rows], 0),
            "after": format_numbers(self.after[rows], 0),
            "change": [f"{x:+.1f}" for x in self.change[rows]],
            "interval": format_intervals(self.lower[rows], self.upper[rows], 1),
            "p": format_pvalues(self.pvalue[rows]),
            "rank": [f"{a} → {b}" for a, b in ranks],
            "by": [f"{a:+d} to {b:+d}" if (a, b) != (0, 0) else NOTHING for a, b in spread],
        }
        return list(columns), mark_gap(list(columns.values()), len(self.models))


@strict_question
@one_blas_thread
def changes(
    before: Leaderboard | Leaderboards, after: Leaderboard | Leaderboards, *, level: float | None = None, rng: Seed = 0
) -> Changes:
    """Return what changed from one board to another, with errors that know the votes both share.

    The boards may be those of yesterday and today, of two methods, with and without covariates, or of two categories.
    Where one log contains the other, votes with the same contexts, models and outcome are the same votes. Otherwise the
    logs are taken to have no votes in common.

    Parameters
    ----------
    before, after : Leaderboard or Leaderboards
        Of several boards, the overall one.
    level : float, optional
        Of the intervals; by default that of the later board.
    rng : int, Generator or None
        For the intervals of ranks.

    Returns
    -------
    Changes

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((5, 2), 1, scale=1, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 3000, rng=1)
    >>> found = lrbtl.changes(lrbtl.leaderboard(battles, method="naive"), lrbtl.leaderboard(battles))
    >>> found.shared
    3000
    """
    if level is not None:
        normal_quantile(level)
    generator = make_rng(rng)
    first, second = (board.overall if isinstance(board, Leaderboards) else board for board in (before, after))
    for board in (first, second):
        if not isinstance(board, Leaderboard):
            raise ChangeError(f"changes are between two boards, not a {type(board).__name__}: give leaderboard(...).")
    if first.basis is None and second.basis is None:
        return _saved_changes(first, second, second.level if level is None else level, generator)
    bases = [_basis(board) for board in (first, second)]
    ranked = [_ranked(basis) for basis in bases]
    common = [model for model in ranked[1] if model in set(ranked[0])]
    if len(common) < 2:
        raise ChangeError("fewer than two models are ranked on both boards: nothing can be compared.")
    cluster = common_cluster(*(basis.analysis.battles for basis in bases))
    sides = [Side.of(basis, common, cluster) for basis in bases]
    shared, cross = shared_covariance(sides[0], sides[1], cluster)
    cross = cross + sides[0].root @ sides[1].root
    joint = np.block([[sides[0].cov, cross], [cross.T, sides[1].cov]])
    n = len(common)
    pick = np.concatenate([-np.eye(n), np.eye(n)], axis=1)
    cov = pick @ joint @ pick.T
    value = sides[1].values - sides[0].values
    names = [str(model) for model in common]
    found = Estimate(names, value, 0.5 * (cov + cov.T), links="identity")
    chosen = second.level if level is None else level
    both = [side.values for side in sides]
    low, high = rank_changes(both, joint, chosen, generator)
    votes = (sides[0].battles.n_battles, sides[1].battles.n_battles)
    made = _changes(common, ranked, both, found, (low, high), chosen, (first, second), "")
    return replace(made, shared=shared, votes=votes)


def _changes(
    common: list[Any],
    ranked: list[list[Any]],
    values: list[Floats],
    found: Estimate,
    ranks: tuple[Longs, Longs],
    level: float,
    boards: tuple[Leaderboard, Leaderboard],
    note: str,
) -> Changes:
    """Return changes of the common models, largest rise first."""
    value = values[1] - values[0]
    order = np.argsort(-value, kind="stable")
    moved = holm(found.pvalue, MOVER_LEVEL)
    lower, upper = ELO * found.conf_int(level).T
    biggest = np.argsort(-np.abs(value), kind="stable")
    return Changes(
        models=tuple(common[k] for k in order),
        before=BASE_RATING + ELO * values[0][order],
        after=BASE_RATING + ELO * values[1][order],
        change=ELO * value[order],
        lower=lower[order],
        upper=upper[order],
        se=ELO * found.se[order],
        pvalue=found.pvalue[order],
        rank_before=rank_scores(level_ties(values[0], found.se))[order],
        rank_after=rank_scores(level_ties(values[1], found.se))[order],
        rank_lower=ranks[0][order],
        rank_upper=ranks[1][order],
        movers=tuple(common[k] for k in biggest if moved[k]),
        joined=tuple(model for model in ranked[1] if model not in set(ranked[0])),
        left=tuple(model for model in ranked[0] if model not in set(ranked[1])),
        shared=0,
        votes=(int(boards[0].info.n_battles or 0), int(boards[1].info.n_battles or 0)),
        level=level,
        contexts=(boards[0].context, boards[1].context),
        estimate=found[order],
        note=note,
    )


def _basis(board: Leaderboard) -> Basis:
    if board.basis is None:
        raise ChangeError(
            "one board was read from a file, unpickled or made with compat= and does not know its votes: make both "
            "boards with lrbtl.leaderboard(battles), or read both from files."
        )
    return board.basis


def _saved_changes(first: Leaderboard, second: Leaderboard, level: float, rng: np.random.Generator) -> Changes:
    """Return the changes between boards that do not know their votes, as if these had no vote in common."""
    for board in (first, second):
        if board.scale != "elo" or not board.has_intervals:
            raise ChangeError("saved boards can be compared where both have intervals in Elo points.")
    ranked = [[m for m, rank in zip(board.models, board.rank, strict=True) if rank] for board in (first, second)]
    common = [model for model in ranked[1] if model in set(ranked[0])]
    if len(common) < 2:
        raise ChangeError("fewer than two models are ranked on both boards: nothing can be compared.")
    n = len(common)
    centred = np.eye(n) - 1.0 / n
    values, covs = [], []
    for board in (first, second):
        at = [board.models.index(model) for model in common]
        values.append(centred @ board.score[at] / ELO)
        covs.append(np.diag((board.se[at] / ELO) ** 2))
    joint = np.zeros((2 * n, 2 * n))
    joint[:n, :n], joint[n:, n:] = covs
    found = Estimate([str(model) for model in common], values[1] - values[0], covs[0] + covs[1], links="identity")
    low, high = rank_changes(values, joint, level, rng)
    return _changes(common, ranked, values, found, (low, high), level, (first, second), SAVED)


def _ranked(basis: Basis) -> list[Any]:
    return [basis.analysis.battles.models[k] for k in np.flatnonzero(basis.ranked)]


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two boards: scores of the common models against their mean, in log odds."""

    battles: Battles
    values: Floats  # (n,)
    cov: Floats  # (n, n)
    influences: Floats  # (n_cells, n) of one vote of each cell
    root: Floats  # (n, n) symmetric root of what is not noise of votes

    @classmethod
    def of(cls, basis: Basis, models: list[Any], cluster: str | None) -> Side:
        """Return the side of a board; influence values are scaled to the part of its errors that is noise of votes."""
        analysis, battles = basis.analysis, basis.analysis.battles
        assert isinstance(battles, Battles)
        at = np.array([battles.model_index(model) for model in models])
        among = np.zeros(len(battles.models), dtype=np.bool_)
        among[at] = True
        targets = [resolved_score(int(k), basis.weights, among) for k in at]
        run, unit = analysis.run, analysis.log_odds_unit
        moments, influences = run.moments(targets), run.influences(targets)
        assert moments.cov is not None
        count, root = battles.cells.count[:, None], np.zeros_like(moments.cov)
        noise = np.sum(count * influences**2, axis=0)
        if run.shrinks:
            plain = run.vote_moments(targets).cov
            assert plain is not None
            root = symmetric_root(plain - influences.T @ (count * influences))
        if cluster is not None:
            noise = np.sum(_by_cluster(battles, cluster, influences) ** 2, axis=0)
        left = np.maximum(np.diag(moments.cov) - np.sum(root**2, axis=0), 0.0)
        influences = influences * np.sqrt(left / np.where(noise > 0, noise, 1.0))
        return cls(battles, unit * moments.values, unit**2 * moments.cov, unit * influences, unit * root)


def common_cluster(before: Any, after: Any) -> str | None:
    """Return the first cluster column that both battles have: votes of one voter are correlated on both boards."""
    return next((name for name in after.cluster_names if name in before.cluster_names), None)


def _by_cluster(battles: Battles, name: str, influences: Floats) -> Floats:
    """Return the sums of influence values of all votes of each cluster."""
    k = battles.cluster_names.index(name)
    assert battles.cells.clusters is not None
    out = np.zeros((len(battles.cluster_labels[k]), influences.shape[1]))
    np.add.at(out, battles.cells.clusters[:, k], influences * battles.cells.count[:, None])
    return out


def symmetric_root(matrix: Floats) -> Floats:
    """Return the symmetric square root of the positive part of a symmetric matrix.

    >>> symmetric_root(np.diag([4.0, -1.0]))
    array([[2., 0.],
           [0., 0.]])
    """
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def shared_covariance(before: Side, after: Side, cluster: str | None) -> tuple[int, Floats]:
    """Return the number of votes that both have, and the covariance of the boards by noise of votes, (n, n).

    Votes are distinguished by what they say only, so they count as the same where one log contains the other, and there
    alone: two logs of the same arena have many votes that are equal, but not the same. With clusters it is their sums
    of influence values that count, whether the votes of a voter are the same or not.
    """
    groups = [common_keys(side.battles, other.battles) for side, other in ((before, after), (after, before))]
    known = {key: k for k, key in enumerate(dict.fromkeys(groups[0]))}
    codes = [np.array([known.get(key, len(known)) for key in group]) for group in groups]
    counts, means = [], []
    for side, code in zip((before, after), codes, strict=True):
        count = side.battles.cells.count.astype(np.float64)
        total = np.bincount(code, count, len(known) + 1)[:-1]
        sums = np.zeros((len(known) + 1, side.influences.shape[1]))
        np.add.at(sums, code, side.influences * count[:, None])
        counts.append(total)
        means.append(sums[:-1] / np.maximum(total, 1.0)[:, None])
    shared = np.minimum(*counts)
    if shared.sum() < NESTED * min(side.battles.n_battles for side in (before, after)):
        shared = np.zeros_like(shared)
    if cluster is None:
        return int(shared.sum()), np.asarray(means[0].T @ (means[1] * shared[:, None]))
    labels = [side.battles.cluster_labels[side.battles.cluster_names.index(cluster)] for side in (before, after)]
    places = [[index_labels(label, cluster)[one] for one in labels[0] if one in set(labels[1])] for label in labels]
    first, second = (_by_cluster(side.battles, cluster, side.influences) for side in (before, after))
    return int(shared.sum()), np.asarray(first[places[0]].T @ second[places[1]])


def common_keys(battles: Battles, other: Battles) -> list[tuple[Any, ...]]:
    """Return what each cell is, as far as other battles have it too: levels of common modes, models, outcome.

    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["x"], ["y"], [1], ["math"])
    >>> common_keys(battles, battles), common_keys(battles, battles.pooled())
    ([('math', 'x', 'y', 1.0)], [('x', 'y', 1.0)])
    """
    cells: Cells = battles.cells
    modes = [k for k, name in enumerate(battles.mode_names) if name in other.mode_names]
    codes = np.unravel_index(cells.context, battles.shape[1:]) if modes else ()
    columns = [[battles.levels[k][code] for code in codes[k]] for k in modes]
    models = np.empty(len(battles.models), dtype=object)
    models[:] = battles.models
    flip = np.array([str(a) > str(b) for a, b in zip(models[cells.a], models[cells.b], strict=True)])
    first, second = np.where(flip, cells.b, cells.a), np.where(flip, cells.a, cells.b)
    y = np.round(np.where(flip, 1.0 - cells.y, cells.y), 12)
    return list(zip(*columns, models[first], models[second], y.tolist(), strict=True))


def rank_changes(values: list[Floats], joint: Floats, level: float, rng: np.random.Generator) -> tuple[Longs, Longs]:
    """Return intervals of the change of each rank, from draws of both boards' scores round what they say."""
    n = len(values[0])
    draws = rng.standard_normal((DRAWS, 2 * n)) @ symmetric_root(joint)
    ranks = [
        np.argsort(np.argsort(-(value + part), axis=1), axis=1)
        for value, part in zip(values, (draws[:, :n], draws[:, n:]), strict=True)
    ]
    tail = 50 * (1 - level)
    low, high = np.percentile(ranks[1] - ranks[0], [tail, 100 - tail], axis=0, method="nearest")
    se = np.sqrt(np.diag(joint))
    seen = rank_scores(level_ties(values[1], se)) - rank_scores(level_ties(values[0], se))
    return np.minimum(low, seen).astype(np.int64), np.maximum(high, seen).astype(np.int64)
