"""How stable the first places are: the fewest votes to drop, flip or add, voters to drop, and whole organisations.

Each line is found by influence values, greedily, and proven by a fit of the changed votes: fewer may do, but these do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lrbtl.boards.board import Basis, Leaderboard, Leaderboards
from lrbtl.boards.influence import find_flip, first_models, gap_of, read_basis, votes_out
from lrbtl.data.battles import Battles
from lrbtl.data.labels import some_of
from lrbtl.errors import InfluenceError, LrbtlError, LrbtlWarning, check_type, check_whole, without
from lrbtl.inference.analysis import Analysis, analyse
from lrbtl.methods.base import strict_question
from lrbtl.methods.targets import Resolved
from lrbtl.model.links import LOGISTIC
from lrbtl.tables import Printed, shown
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats, Longs

CHALLENGERS = 5  # models on either side of the last place that counts
MOST_ROUNDS = 12
GROWTH = 1.25  # of what changes are to achieve, where a fit says that they do not
MOST_COPIES = 2  # of a vote that are added: more of the same say less and less
LEAST_RESIDUAL = 0.02


@dataclass(frozen=True)
class Line:
    """One way to change the first places.

    Attributes
    ----------
    change : str
        What is done to the votes.
    count : int or None
        How many votes or voters it takes; None where it could not be done.
    of : int
        How many there are.
    after : str
        Result of the fit of the changed votes.
    holds : bool
        Whether the first places stay.
    """

    change: str
    count: int | None
    of: int
    after: str
    holds: bool


@dataclass(frozen=True, eq=False, repr=False)
class Stability(Printed):
    """What it takes to change who is first, or who the first k are.

    Attributes
    ----------
    top : int
    models : tuple
        The first k, as they are.
    lines : tuple of Line
    n_battles : int

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((4, 2), 1, scale=1, rng=0), 900, rng=1)
    >>> found = lrbtl.stability(lrbtl.leaderboard(battles))
    >>> [line.change for line in found.lines]
    ['votes dropped', 'votes flipped', 'votes added']
    >>> found["votes flipped"].count < found["votes dropped"].count
    True
    """

    top: int
    models: tuple[Any, ...]
    lines: tuple[Line, ...]
    n_battles: int

    def __getitem__(self, change: str) -> Line:
        for line in self.lines:
            if line.change == change:
                return line
        raise InfluenceError(f"there is no line {change!r}: {', '.join(line.change for line in self.lines)}.")

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists for JSON."""
        names = ("change", "count", "of", "after", "holds")
        return {name: [getattr(line, name) for line in self.lines] for name in names}

    def heading(self) -> list[str]:
        """Return what is certified."""
        several = f"the top {self.top} are {some_of(self.models, 8)}"
        who = f"{shown(self.models[0])} is first" if self.top == 1 else several
        return [
            f"Stability of the first place{'s' * (self.top > 1)}: {who}, by {self.n_battles:,} votes",
            "fewest found that change it, each proven by a new fit; organisations are left out one at a time",
        ]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [
                line.change,
                "none found" if line.count is None else f"{line.count:,}",
                f"{line.of:,}",
                "" if line.count is None or not line.of else f"{line.count / line.of:.2%}",
                line.after,
            ]
            for line in self.lines
        ]
        return ["change", "fewest", "of", "share", "then"], rows


@strict_question
@one_blas_thread
def stability(
    board: Analysis | Leaderboard | Leaderboards,
    *,
    top: int = 1,
    by: str | None = None,
    organisations: Mapping[Any, str] | None = None,
) -> Stability:
    """Return how many votes must be dropped, flipped or added, or voters dropped, to change the first places.

    Parameters
    ----------
    board : Leaderboard, Leaderboards or Analysis of votes
    top : int
        Places that count: 1 is the first model, k the set of the first k.
    by : str, optional
        A cluster column, such as the voter, whose groups are dropped whole; by default the first of the battles.
    organisations : mapping from model to organisation, optional
        All votes of the models of one organisation are left out in turn, but for those of the first k themselves.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((4, 2), 1, scale=1, rng=0), 900, rng=1)
    >>> makers = {"model_0": "Acme", "model_1": "Umbrella", "model_2": "Acme", "model_3": "Globex"}
    >>> found = lrbtl.stability(lrbtl.leaderboard(battles), organisations=makers)
    >>> found.lines[-1].change, found.lines[-1].holds
    ('organisations left out', True)
    """
    check_whole(top, "top", 1, InfluenceError)
    basis = read_basis(board)
    order = first_models(basis)
    if top >= order.size:
        raise InfluenceError(f"top={top} leaves no ranked model out: there are {order.size}.")
    case = _Case(basis, order, top)
    names = case.battles.cluster_names
    if by is not None and by not in names:
        raise InfluenceError(
            f"by={by!r} is not a cluster column of these battles: {', '.join(names) or 'there are none'}."
        )
    if organisations is not None:
        check_type(organisations, Mapping, "organisations", "give a mapping from model to organisation")
    lines = [case.dropped(), case.flipped(), case.added()]
    if names:
        lines.append(case.groups_dropped(names.index(by or names[0])))
    if organisations is not None:
        lines.append(case.organisations_out(organisations))
    models = tuple(case.battles.models[k] for k in order[:top])
    return Stability(top, models, tuple(lines), case.battles.n_battles)


@dataclass(frozen=True, eq=False)
class _Case:
    """The first places of a board, and fits of changed votes."""

    basis: Basis
    order: Longs
    top: int

    @property
    def battles(self) -> Battles:
        """The votes."""
        found = self.basis.analysis.battles
        assert isinstance(found, Battles)
        return found

    @cached_property
    def goals(self) -> list[Resolved]:
        """Gaps between models inside and outside of the first places that may change sign first."""
        inside = self.order[max(0, self.top - CHALLENGERS) : self.top]
        outside = self.order[self.top : self.top + CHALLENGERS]
        return [gap_of(self.battles, int(a), int(b), self.basis.weights) for a in inside for b in outside]

    @cached_property
    def values(self) -> list[float]:
        """The gaps, positive."""
        found = self.basis.analysis.run.moments(self.goals).values
        return [max(float(value), 1e-9) for value in found]

    @cached_property
    def pulls(self) -> Floats:
        """By how much one vote of each cell moves each gap, (n_cells, G)."""
        return self.basis.analysis.run.influences(self.goals)

    def leads(self, votes: Battles) -> tuple[bool, str, Analysis]:
        """Return whether the first places stay in a fit of changed votes, who takes one, and the fit."""
        with without(LrbtlWarning):  # of votes that were changed on purpose
            analysis = analyse(votes, **self.basis.analysis.options)
        place = {model: k for k, model in enumerate(votes.models)}
        score = analysis.scores() @ _shares(votes, self.battles, self.basis)
        now = [place[self.battles.models[k]] for k in self.order if self.battles.models[k] in place]
        ranked = sorted(now, key=lambda k: -score[k])
        before = {self.battles.models[k] for k in self.order[: self.top]}
        new = [votes.models[k] for k in ranked[: self.top] if votes.models[k] not in before]
        words = f"{new[0]} {'is first' if self.top == 1 else f'is among the top {self.top}'}" if new else "the same"
        return not new, words, analysis

    def dropped(self) -> Line:
        """Votes that are dropped: what `Influence.flip` finds."""
        if not self.goals:
            return Line("votes dropped", None, self.battles.n_battles, "the same", True)
        count = self.battles.cells.count
        needed = [int(votes_out(count, self.pulls[:, k], value).sum()) for k, value in enumerate(self.values)]
        try:
            flip = find_flip(self.basis, None if self.top == 1 else self.goals[int(np.argmin(needed))])
        except InfluenceError:
            return Line("votes dropped", None, self.battles.n_battles, "the same", True)
        _, words, _ = self.leads(flip.battles)
        return Line("votes dropped", flip.n_votes, flip.n_all, words, False)

    def added(self) -> Line:
        """Votes that are added: copies of those that count most against the first places."""
        count = self.battles.cells.count
        found = self._search(-self.pulls, lambda n: self.battles.with_counts(count + n), MOST_COPIES * count)
        return self._line("votes added", found, self.battles.n_battles)

    def flipped(self) -> Line:
        """Votes whose winner is changed: the influence of a vote goes with its residual."""
        cells, run = self.battles.cells, self.basis.analysis.run
        clear = np.abs(cells.y - 0.5) > 1e-9
        other = replace(self.battles, cells=replace(cells, y=1.0 - cells.y))
        scores = run.scores()
        eta = scores[cells.a, cells.context] - scores[cells.b, cells.context]
        residual = cells.y - (run.link.mean(eta) if run.link == LOGISTIC else 0.5)
        safe = np.where(np.abs(residual) < LEAST_RESIDUAL, np.copysign(LEAST_RESIDUAL, residual), residual)
        gain = np.where(clear, (2.0 * cells.y - 1.0) / safe, 0.0)[:, None] * self.pulls

        def change(n: Longs) -> Battles:
            left = cells.count - n
            if not left.any():
                return other.with_counts(n)
            return self.battles.with_counts(left) + other.with_counts(n)

        found = self._search(gain, change, np.where(clear, cells.count, 0))
        return self._line("votes flipped", found, self.battles.n_battles)

    def groups_dropped(self, column: int) -> Line:
        """Voters, or other clusters, that are dropped whole."""
        cells, name = self.battles.cells, self.battles.cluster_names[column]
        assert cells.clusters is not None
        codes = cells.clusters[:, column].astype(np.int64)
        n_groups = len(self.battles.cluster_labels[column])
        size = np.bincount(codes, minlength=n_groups)
        pulls = np.zeros((n_groups, len(self.goals)))
        np.add.at(pulls, codes, self.pulls * cells.count[:, None])

        def change(n: Longs) -> Battles:
            return self.battles.with_counts(np.where(n[codes] > 0, 0, cells.count))

        found = self._search(pulls, change, np.minimum(size, 1))
        return self._line(f"{name}s dropped", found, int((size > 0).sum()))

    def organisations_out(self, makers: Mapping[Any, str]) -> Line:
        """Organisations whose models' votes are left out, one at a time."""
        first = {self.battles.models[k] for k in self.order[: self.top]}
        known = sorted({str(makers[model]) for model in self.battles.models if model in makers})
        turned = []
        for maker in known:
            kept = [m for m in self.battles.models if m in first or str(makers.get(m)) != maker]
            if len(kept) <= self.top or len(kept) == len(self.battles.models):
                continue
            try:
                holds, words, _ = self.leads(self.battles.select(models=kept))
            except LrbtlError:  # too few votes are left for a fit
                continue
            if not holds:
                turned.append(f"without {maker}: {words}")
        words = "; ".join(turned) if turned else "the same without any one of them"
        return Line("organisations left out", len(turned) or None, len(known), words, not turned)

    def _line(self, change: str, found: tuple[Longs, str] | None, of: int) -> Line:
        if found is None:
            return Line(change, None, of, "the same", True)
        return Line(change, int(found[0].sum()), of, found[1], False)

    def _search(self, gains: Floats, change: Callable[[Longs], Battles], most: Longs) -> tuple[Longs, str] | None:
        """Return the fewest changes found that turn the first places, and what then holds; None where none is found.

        `gains` (n, G) is by how much each change lowers each goal. Of the goal that needs fewest, changes are made
        where they help most. They lower the goal by its value, by more if a fit asks for it, or by less.
        """
        plans = [(votes_out(most, gain, value), gain, value) for gain, value in zip(gains.T, self.values, strict=True)]
        plans = [plan for plan in plans if plan[0] @ plan[1] >= plan[2] * (1.0 - 1e-9)] or plans
        if not plans:
            return None
        high, gain, value = min(plans, key=lambda plan: int(plan[0].sum()))
        low, words, wanted = np.zeros_like(high), "", value
        for _ in range(MOST_ROUNDS):
            holds, words = self._try(change, high)
            if not holds:
                break
            wanted *= GROWTH
            low, high = high, votes_out(most, gain, wanted)
            if low.sum() >= high.sum():
                return None
        else:
            return None
        for _ in range(MOST_ROUNDS):
            if high.sum() - low.sum() <= max(1, 0.01 * high.sum()):
                break
            middle = _between(low, high)
            holds, said = self._try(change, middle)
            low, high, words = (middle, high, words) if holds else (low, middle, said)
        return high, words

    def _try(self, change: Callable[[Longs], Battles], n: Longs) -> tuple[bool, str]:
        """Return whether the first places stay after some changes, and who takes one."""
        try:
            return self.leads(change(n))[:2]
        except LrbtlError:  # so few votes are left that nobody can be ranked
            return True, ""


def _shares(votes: Battles, before: Battles, basis: Basis) -> Floats:
    """Return the weights of the contexts that are left."""
    kept = [before.context_index(votes.context_label(u)) for u in range(votes.n_contexts)]
    share = basis.weights[kept]
    return np.asarray(share / share.sum())


def _between(low: Longs, high: Longs) -> Longs:
    """Return changes half way between two, of which the larger contains the smaller."""
    more = high - low
    ends = np.cumsum(more)
    return np.asarray(low + np.clip(more - (ends - int(more.sum()) // 2), 0, more))
