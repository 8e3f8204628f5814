"""What an estimate rests on: the votes, voters or prompts that move it most, and the fewest votes that turn it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lrbtl.boards.board import Basis, Leaderboard, Leaderboards
from lrbtl.data.battles import Battles
from lrbtl.data.folds import check_fold_number
from lrbtl.data.labels import SEPARATOR, suggest_labels
from lrbtl.errors import InfluenceError, LevelError
from lrbtl.inference.analysis import Analysis, analyse
from lrbtl.inference.estimate import ELO
from lrbtl.inference.targets import Target, context_weights, resolve_targets
from lrbtl.methods.base import strict_question
from lrbtl.methods.targets import Resolved, resolved_gap
from lrbtl.model.links import mean_over_spread
from lrbtl.tables import Printed, shown
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Longs

ROWS_SHOWN = 10
LARGEST_LOG = 500.0
CHALLENGERS = 5  # next models that may become first
MOST_REFITS = 20
MORE = 1.05  # votes taken out beyond those that the influence values of a refit ask for


@dataclass(frozen=True, eq=False, repr=False)
class Influence(Printed):
    """By how much a target would change without some votes, largest first; arrays (n,).

    Attributes
    ----------
    target : str
    value, se : float
        Its estimate: Elo points for scores and gaps, log odds for probabilities.
    by : str
        "votes", or the column whose groups are taken out one at a time.
    groups : tuple of str
    votes : array of int
        Votes of each group.
    change : array
        Change of the target, to first order, were all votes of the group left out.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((4, 2), 1, scale=1, rng=0), 900, rng=1)
    >>> found = lrbtl.influence(lrbtl.analyse(battles), lrbtl.gap(0, 1))
    >>> found.by, bool(abs(found.change[0]) >= abs(found.change[1]))
    ('votes', True)
    """

    target: str
    value: float
    se: float
    by: str
    groups: tuple[str, ...]
    votes: Longs
    change: Floats
    basis: Basis
    goal: Resolved | None  # the target; None for the first place

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists for JSON."""
        return {self.by: list(self.groups), "count": self.votes.tolist(), "change": self.change.tolist()}

    def heading(self) -> list[str]:
        """Return what is asked, and how much single groups matter."""
        unit = "Elo points" if self.goal is None or self.goal.scale == "identity" else "log odds"
        largest = f"the largest change of {len(self.groups):,} is {abs(self.change[0]) / self.se:.2f} standard errors"
        what = "without equal votes" if self.by == "votes" else f"without each {self.by}"
        return [f"{shown(self.target)}: {self.value:+.1f} ± {self.se:.1f} {unit}; change {what}", largest]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = range(min(ROWS_SHOWN, len(self.groups)))
        cells = [[self.groups[k], f"{self.votes[k]:,}", f"{self.change[k]:+.2f}"] for k in rows]
        return [self.by, "count", "change"], cells

    def flip(self) -> Flip:
        """Return few votes without which the target changes its sign, or without which another model is first.

        Votes are taken out by their influence, most helpful first, with a new fit after each round; the fit without
        them proves the flip. Fewer may do: the search is greedy.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((4, 2), 1, scale=1, rng=0), 900, rng=1)
        >>> found = lrbtl.influence(lrbtl.leaderboard(battles)).flip()
        >>> bool(found.before > 0 > found.after)
        True
        """
        return find_flip(self.basis, self.goal)

    def misfits(self, *, level: float = 0.05, n_folds: int = 5) -> Misfits:
        """Return the groups (voters) whose decisive votes differ from those of all others; `by` names their column.

        See `Misfits` for the test and its level.
        """
        battles = _battles(self.basis.analysis)
        if self.by not in battles.cluster_names:
            raise InfluenceError(f"misfits are among voters: ask influence(..., by=one of {battles.cluster_names}).")
        return find_misfits(self.basis.analysis, self.by, level, n_folds)


@dataclass(frozen=True, eq=False)
class Flip:
    """Votes without which a target changes its sign.

    Attributes
    ----------
    target : str
    before, after : float
        The target in Elo points, with all votes and in the fit without those taken out.
    n_votes, n_all : int
        Votes taken out, and all votes.
    removed : tuple of (str, int)
        What they are, with their numbers.
    battles : Battles
        Those that are left.
    n_fits : int
    """

    target: str
    before: float
    after: float
    n_votes: int
    n_all: int
    removed: tuple[tuple[str, int], ...]
    battles: Battles
    n_fits: int

    def __repr__(self) -> str:
        first = (
            f"without {self.n_votes:,} of {self.n_all:,} votes ({self.n_votes / self.n_all:.2%}), "
            f"{shown(self.target)} is {self.after:+.1f} Elo points instead of {self.before:+.1f} ({self.n_fits} fits)"
        )
        return "\n".join([first, *(f"  {count:,} × {shown(what)}" for what, count in self.removed[:ROWS_SHOWN])])


@strict_question
@one_blas_thread
def influence(
    analysis: Analysis | Leaderboard | Leaderboards, target: Target | None = None, *, by: str | None = None
) -> Influence:
    """Return which votes, voters or prompts move a target most.

    Parameters
    ----------
    analysis : Analysis, Leaderboard or Leaderboards
    target : Target, optional
        By default the gap between the first two models of the board.
    by : str, optional
        A cluster column (voter, session, prompt) or a context mode, whose groups are left out one at a time; by default
        votes that are equal.

    Returns
    -------
    Influence
        A table; its `flip()` finds the fewest votes that turn the target, its `misfits()` the voters unlike all others.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((4, 2), 1, scale=1, rng=0), 900, rng=1)
    >>> lrbtl.influence(lrbtl.leaderboard(battles)).target.startswith("gap(")
    True
    """
    basis = read_basis(analysis)
    run, battles = basis.analysis.run, _battles(basis.analysis)
    if target is None:
        leader, second = first_models(basis)[:2]
        goal = gap_of(battles, leader, second, basis.weights)
    else:
        (goal,) = resolve_targets(battles, [target])
    moments = run.moments([goal])
    unit = ELO * basis.analysis.log_odds_unit if goal.scale == "identity" else 1.0
    pull = -unit * run.influences([goal])[:, 0] * battles.cells.count
    codes, names = _groups(battles, by)
    change = np.bincount(codes, pull, len(names)).astype(np.float64)
    votes = np.bincount(codes, battles.cells.count, len(names)).astype(np.int64)
    order = np.argsort(-np.abs(change), kind="stable")
    return Influence(
        target=goal.label,
        value=unit * float(moments.values[0]),
        se=unit * float(moments.se[0]),
        by="votes" if by is None else by,
        groups=tuple(names[k] for k in order),
        votes=votes[order],
        change=change[order],
        basis=basis,
        goal=None if target is None else goal,
    )


def read_basis(source: Any) -> Basis:
    """Return what a board rests on; raise where it is not made from votes."""
    board = source.overall if isinstance(source, Leaderboards) else source
    if isinstance(board, Leaderboard) and board.basis is not None:
        return board.basis
    if not isinstance(board, Analysis) or not isinstance(board.battles, Battles):
        raise InfluenceError(
            "influence reads an analysis of battles or a board made from them: give lrbtl.analyse(battles) or "
            "lrbtl.leaderboard(battles)."
        )
    weights = context_weights(board.battles, "traffic")
    return Basis(board, weights, board.placed(weights))


def _battles(analysis: Analysis) -> Battles:
    assert isinstance(analysis.battles, Battles)
    return analysis.battles


def first_models(basis: Basis) -> Longs:
    """Return the ranked models, best first, by position."""
    score = np.where(basis.ranked, basis.analysis.scores() @ basis.weights, -np.inf)
    return np.argsort(-score, kind="stable")[: int(basis.ranked.sum())]


def gap_of(battles: Battles, a: int, b: int, weights: Floats) -> Resolved:
    """Return the gap between two models with a readable name."""
    return resolved_gap(int(a), int(b), weights, f"gap({battles.models[a]}, {battles.models[b]})")


def _groups(battles: Battles, by: str | None) -> tuple[Longs, list[str]]:
    """Return the group of each cell and the names of all groups."""
    cells = battles.cells
    if by is None:
        return np.arange(cells.n_cells), [vote_words(battles, k) for k in range(cells.n_cells)]
    if by in battles.cluster_names and cells.clusters is not None:
        k = battles.cluster_names.index(by)
        return cells.clusters[:, k].astype(np.int64), [str(label) for label in battles.cluster_labels[k]]
    if by in battles.mode_names:
        k = battles.mode_names.index(by)
        return np.unravel_index(cells.context, battles.shape[1:])[k], [str(level) for level in battles.levels[k]]
    known = (*battles.cluster_names, *battles.mode_names)
    raise InfluenceError(
        f"by={by!r} is not a cluster column or context mode of these battles; {suggest_labels(by, known)}"
    )


def vote_words(battles: Battles, cell: int) -> str:
    """Return what the votes of a cell say.

    >>> import lrbtl
    >>> vote_words(lrbtl.Battles.from_arrays(["x"], ["y"], [0], ["math"]), 0)
    'y beats x / math'
    """
    cells = battles.cells
    a, b, y = battles.models[cells.a[cell]], battles.models[cells.b[cell]], float(cells.y[cell])
    words = {1.0: f"{a} beats {b}", 0.0: f"{b} beats {a}", 0.5: f"{a} ties {b}"}.get(y, f"{a} {y:g} against {b}")
    label = battles.context_label(int(cells.context[cell])) if battles.levels else ()
    levels = label if isinstance(label, tuple) else (label,)
    return SEPARATOR.join([words, *map(str, levels)])


# ------------------------------------------------------------------------------
# The fewest votes that turn a target.
# ------------------------------------------------------------------------------


def find_flip(basis: Basis, goal: Resolved | None) -> Flip:
    """Return votes without which the goal changes its sign, or without which another model is first."""
    battles, analysis = _battles(basis.analysis), basis.analysis
    if goal is None:
        leader, *others = first_models(basis)[: CHALLENGERS + 1].tolist()
        goals = [gap_of(battles, leader, other, basis.weights) for other in others]
    else:
        goals = [goal]
    if any(one.scale != "identity" for one in goals):
        raise InfluenceError("a flip is a change of sign: ask for a score or a gap.")
    values = analysis.run.moments(goals).values
    influences = analysis.run.influences(goals)
    needed = [
        votes_out(battles.cells.count, np.sign(v) * f, abs(v)).sum() for v, f in zip(values, influences.T, strict=True)
    ]
    chosen = int(np.argmin(needed))
    return _refit_until(basis, goals[chosen], float(values[chosen]), influences[:, chosen])


def votes_out(count: Longs, help_: Floats, wanted: float) -> Longs:
    """Return how many votes of each cell go, most helpful first, until a target has lost `wanted`; all if that fails.

    >>> votes_out(np.array([3, 5, 9]), np.array([0.2, 0.1, -1.0]), 0.75)
    array([3, 2, 0])
    """
    order = np.argsort(-help_, kind="stable")
    order = order[help_[order] > 0]
    gained = np.cumsum(help_[order] * count[order])
    out = np.zeros_like(count)
    last = int(np.searchsorted(gained, wanted))
    out[order[:last]] = count[order[:last]]
    if last < order.size:
        before = gained[last - 1] if last else 0.0
        out[order[last]] = min(count[order[last]], int(np.ceil((wanted - before) / help_[order[last]] - 1e-9)))
    return out


def _refit_until(basis: Basis, goal: Resolved, before: float, help_: Floats) -> Flip:
    """Take out votes by the influence values of the last fit until the sign has changed, then put back what it can."""
    analysis, battles = basis.analysis, _battles(basis.analysis)
    count, sign = battles.cells.count, float(np.sign(before))
    if not abs(before) > 0.0:
        raise InfluenceError(f"{goal.label} is {before:g}: there is no sign that taking out votes could change.")
    gone, value, n_fits = np.zeros_like(count), before, 0

    def refit(out: Longs) -> tuple[float, Floats]:
        left = battles.with_counts(count - out)
        run = analyse(left, **analysis.options).run
        part = np.zeros(len(count))
        part[count > out] = run.influences([goal])[:, 0]
        return float(run.moments([goal]).values[0]), part

    history: list[tuple[float, Longs]] = [(before, gone)]
    while sign * value > 0:
        if n_fits == MOST_REFITS:
            raise InfluenceError(f"{goal.label} keeps its sign after {n_fits} fits without {gone.sum():,} votes.")
        gone = gone + votes_out(count - gone, sign * help_, MORE * abs(value) if n_fits else abs(value))
        value, help_ = refit(gone)
        n_fits += 1
        history.append((value, gone))
    low, high = history[-2][1], history[-1][1]
    while high.sum() - low.sum() > max(1, 0.01 * high.sum()) and n_fits < MOST_REFITS:
        middle = _between(low, high)
        tried, _ = refit(middle)
        n_fits += 1
        if sign * tried > 0:
            low = middle
        else:
            high, value = middle, tried
    unit = ELO * analysis.log_odds_unit
    totals: dict[str, int] = {}
    for k in np.flatnonzero(high):
        words = vote_words(battles, int(k))
        totals[words] = totals.get(words, 0) + int(high[k])
    removed = tuple(sorted(totals.items(), key=lambda item: -item[1]))
    left = battles.with_counts(count - high)
    return Flip(goal.label, unit * before, unit * value, int(high.sum()), battles.n_battles, removed, left, n_fits)


def _between(low: Longs, high: Longs) -> Longs:
    """Return a removal half way between two, of which the larger contains the smaller."""
    more = high - low
    half = int(more.sum()) // 2
    ends = np.cumsum(more)
    return np.asarray(low + np.clip(more - (ends - half), 0, more))


# ------------------------------------------------------------------------------
# Voters whose votes fit nobody else's, by a test that holds at all times.
# ------------------------------------------------------------------------------


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

    It is the mean over the posterior of those votes, so that the expected ratio to any other probability is one.
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
