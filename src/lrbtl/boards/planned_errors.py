"""What more votes would do to errors: `votes_needed`, and the covariances that `plan` works with.

Let C be the covariance of all scores and B that with the targets. A vote between a and b in context u, x = e_a - e_b
there, adds i x x^T to the precision, with i its Fisher information at the estimate over the dispersion of votes. With L
the sum of that over the new votes, B becomes (I + C L)^-1 B and the targets' covariance falls by B^T L (I + C L)^-1 B.
For the hierarchical method that is the posterior under more votes; low-rank methods keep their tangent space.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from lrbtl.boards.components import prepared
from lrbtl.data.battles import Battles
from lrbtl.data.frames import Frame
from lrbtl.data.observations import Data
from lrbtl.errors import LooksError, MarginError, NoDecisionError, PowerError, TooLargeError, UninformedError
from lrbtl.inference.analysis import Analysis, analyse
from lrbtl.inference.estimate import Estimate
from lrbtl.inference.joint import normal_quantile
from lrbtl.inference.power import error_to_show
from lrbtl.inference.targets import Target, pair_rows, resolve_targets
from lrbtl.inference.verdicts import ELO, PROBABILITIES, read_size, size_words
from lrbtl.methods.base import RunOptions, named_options
from lrbtl.methods.targets import Resolved, resolved_score
from lrbtl.tables import TextResult
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats

LARGEST = 4000  # models times contexts whose covariance is worked with
MOST_VOTES = 1e12  # beyond which a number of votes is none
MOST_STEPS = 300
CLOSE = 0.001  # part of the goal that the best plan could still gain when the search stops
FLOOR = 1e-12  # part of its former variance that a target keeps at least, against rounding


@dataclass(frozen=True, eq=False)
class PlannedErrors:
    """Errors of some targets under more votes, which are given as numbers (D, P) per context and pair a < b.

    Attributes
    ----------
    analysis : Analysis
    base : Estimate
        All scores, the models of a context side by side, then m base targets.
    contrasts : array (M, m)
        Targets as sums of base targets, on the working scale.
    """

    analysis: Analysis
    base: Estimate
    contrasts: Floats

    @classmethod
    def of(cls, analysis: Analysis, targets: Sequence[Resolved], contrasts: Floats | None = None) -> PlannedErrors:
        """Return planned errors of targets, or on contrasts of them."""
        check_size(analysis.battles)
        d1, D = analysis.battles.shape[0], analysis.battles.n_contexts
        scores = [resolved_score(a, unit) for unit in np.eye(D) for a in range(d1)]
        base = analysis.estimate_resolved([*scores, *targets])
        found = cls(analysis, base, np.eye(len(targets)) if contrasts is None else contrasts)
        if not np.isfinite(base.se).all() or not (found.before > 0.0).all():
            raise UninformedError(
                f"the {analysis.method} method has no errors for all scores, so that nothing can be planned; use "
                "method='hierarchical', or leave models without a score out with battles.select(...)."
            )
        return found

    @property
    def battles(self) -> Battles:
        """The votes so far."""
        assert isinstance(self.analysis.battles, Battles)
        return self.analysis.battles

    @cached_property
    def pairs(self) -> tuple[Any, Any]:
        """Models a and b of each pair, (P,) each."""
        return np.triu_indices(self.battles.shape[0], 1)

    @cached_property
    def _blocks(self) -> tuple[Floats, Floats, Floats]:
        """Covariance of the scores, of scores and base targets, and of base targets, on the working scale."""
        n = self.battles.shape[0] * self.battles.n_contexts
        cov = self.base.working_cov
        return cov[:n, :n], cov[:n, n:], cov[n:, n:]

    @cached_property
    def information(self) -> Floats:
        """Information of one vote between each pair in each context, (D, P)."""
        cells, link, scores = self.battles.cells, self.analysis.run.link, self.analysis.scores()
        eta = scores[cells.a, cells.context] - scores[cells.b, cells.context]
        dispersion = link.dispersion(eta, cells.y, cells.count.astype(np.float64)) or 1.0
        a, b = self.pairs
        gaps = (scores[a] - scores[b]).T
        fisher = link.terms(np.ascontiguousarray(gaps.reshape(-1)), np.full(gaps.size, 0.5)).fisher
        return np.asarray(fisher.reshape(gaps.shape) / dispersion)

    @cached_property
    def traffic(self) -> Floats:
        """Share of each pair in each context among the votes so far, (D, P)."""
        cells, d1 = self.battles.cells, self.battles.shape[0]
        shape = self.information.shape
        at = np.ravel_multi_index((cells.context, pair_rows(cells.a, cells.b, d1)), shape)
        return np.asarray(np.bincount(at, cells.count, math.prod(shape)).reshape(shape) / cells.count.sum())

    @cached_property
    def before(self) -> Floats:
        """Errors of the targets now, (M,)."""
        return np.sqrt(np.maximum(self._variances(self._blocks[2]), 0.0))

    def _variances(self, cov: Floats) -> Floats:
        return np.asarray(np.einsum("tm,tm->t", self.contrasts @ cov, self.contrasts))

    def _after(self, votes: Floats) -> tuple[Floats, Floats]:
        """Return errors of the targets and the covariance of scores with base targets after some votes."""
        (D, _), d1 = self.information.shape, self.battles.shape[0]
        a, b = self.pairs
        laplacian = np.zeros((D, d1, d1))
        laplacian[:, a, b] = laplacian[:, b, a] = -votes * self.information
        each = np.arange(d1)
        laplacian[:, each, each] = -laplacian.sum(axis=2)
        C, B, own = self._blocks
        system = np.eye(len(C)) + (C.reshape(-1, D, d1).transpose(1, 0, 2) @ laplacian).transpose(1, 0, 2).reshape(
            C.shape
        )
        try:
            cross = np.linalg.solve(system, B)  # SciPy's warns where votes are so many that nothing is left uncertain
        except np.linalg.LinAlgError:  # or even more
            cross = np.linalg.lstsq(system, B, rcond=None)[0]
        moved = (laplacian @ cross.reshape(D, d1, -1)).reshape(cross.shape)
        variances = np.maximum(self._variances(own - B.T @ moved), FLOOR * self.before**2)
        return np.sqrt(variances), np.asarray(cross, dtype=np.float64)

    def errors(self, votes: Floats) -> Floats:
        """Return the errors that targets would have after some more votes, (M,)."""
        return self._after(votes)[0]

    def slopes(self, votes: Floats, importance: Floats) -> tuple[float, Floats]:
        """Return the sum of importance times error after some votes, and by how much one more lowers it, (D, P)."""
        se, cross = self._after(votes)
        weight = self.contrasts.T @ ((importance / (2.0 * se))[:, None] * self.contrasts)
        rows = cross.reshape(len(self.information), self.battles.shape[0], -1)
        gram = rows @ weight @ rows.transpose(0, 2, 1)
        own = np.einsum("uaa->ua", gram)
        a, b = self.pairs
        return float(importance @ se), self.information * (own[:, a] + own[:, b] - 2.0 * gram[:, a, b])

    def best(self, budget: float, importance: Floats, cost: Floats, allowed: Bools) -> Floats:
        """Return the votes (D, P), not rounded, that lower the sum of importance times error most for a budget.

        The sum is convex in the votes. Shares of the budget are multiplied by how much they lower it, until no vote
        could lower it by much more than the others do: a bound on what is left to gain.
        """
        price = np.broadcast_to(cost[:, None], allowed.shape)
        share = allowed / allowed.sum()
        value, slope = self.slopes(budget * share / price, importance)
        power = 1.0
        for _ in range(MOST_STEPS):
            gain = np.where(allowed, slope * budget / price, 0.0)
            mean = float(np.sum(share * gain))
            if gain.max() - mean < CLOSE * value or power < 1e-3:
                break
            trial = share * (gain / mean) ** power
            trial /= trial.sum()
            found, steeper = self.slopes(budget * trial / price, importance)
            if found > value:
                power *= 0.5
                continue
            share, value, slope = trial, found, steeper
        return np.asarray(budget * share / price)

    def uniform(self, cost: Floats, allowed: Bools) -> Floats:
        """Return the votes (D, P) that cost one in all, as many for each pair in each context that are allowed."""
        return np.asarray(allowed / float(np.sum(allowed * cost[:, None])))

    def budget_for(self, law: Floats, importance: Floats, wanted: float, start: float = 1000.0) -> float:
        """Return how many times the votes of a law (D, P) bring the sum of importance times error to a value."""
        return solve_budget(lambda times: float(importance @ self.errors(times * law)), wanted, start)

    def scale(self) -> tuple[float, float, float]:
        """Return of the first target: value on the working scale, log odds per unit, slope of a probability or 0."""
        value = float(self.contrasts[0] @ self.base.working[-self.contrasts.shape[1] :])
        if self.base.links[-1] == "logit":
            return value, 1.0, float(expit(value) * expit(-value))
        return value, self.analysis.log_odds_unit, 0.0

    def votes_for(self, error: float, goal: str, level: float) -> VotesNeeded:
        """Return how many more votes bring the first target to an error on the working scale."""
        one, free = np.ones(1), np.ones_like(self.information, dtype=np.bool_)
        price = np.ones(len(self.information))
        found = [math.inf] * 3
        if error > 0.0:
            even = self.uniform(price, free)
            found = [self.budget_for(law, one, error) for law in (self.traffic, even, even)]
            for _ in range(2):
                if 0.0 < found[2] < math.inf:
                    best = self.best(found[2], one, price, free)
                    found[2] = self.budget_for(best / found[2], one, error)
        votes, uniform, planned = (float(np.ceil(count)) for count in found)
        _, unit, slope = self.scale()
        shown = self.base.validity.two_sided(level) * (slope or ELO * unit)
        now, wanted = shown * float(self.before[0]), shown * error
        return VotesNeeded(self.label, goal, votes, uniform, planned, now, wanted, level)

    @property
    def label(self) -> str:
        """The first base target."""
        return str(self.base.labels[-self.contrasts.shape[1]])


def check_size(battles: Data) -> None:
    """Raise where there are too many scores to plan votes for."""
    d1, D = battles.shape[0], battles.n_contexts
    if d1 * D > LARGEST:
        raise TooLargeError(
            f"{d1:,} models in {D:,} contexts are too many to plan votes for; take fewer with battles.select(...) or "
            f"battles.top_models(...): at most {LARGEST:,} pairs of a model and a context."
        )


def solve_budget(value: Callable[[float], float], wanted: float, start: float = 1000.0) -> float:
    """Return where a falling function reaches a value, 0 where it does at once and infinity where it never does.

    >>> round(solve_budget(lambda m: 1 / (1 + m), 0.01), 6)
    99.0
    """
    if value(0.0) <= wanted:
        return 0.0
    low, high = 0.0, start
    while value(high) > wanted:
        low, high = high, 4.0 * high
        if high > MOST_VOTES:
            return math.inf
    return float(brentq(lambda m: value(m) - wanted, low, high, rtol=1e-6, xtol=1e-3))


# ------------------------------------------------------------------------------
# How many votes.
# ------------------------------------------------------------------------------


@dataclass(frozen=True)
class VotesNeeded(TextResult):
    """How many more votes a goal takes; `int` of it is `votes`, and infinity says that no number is enough.

    Attributes
    ----------
    label : str
        The target.
    goal : str
        What is to be reached, in words.
    votes : float
        More votes if they come like those so far.
    uniform : float
        If every pair in every context gets as many.
    planned : float
        If they go where they help most; see `plan`.
    half_width, wanted : float
        Half the width of the interval now and the one needed: Elo points, of a win probability its own units.
    level : float

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[55, 45])
    >>> int(lrbtl.votes_needed(battles, lrbtl.gap("x", "y"), half_width=20, method="naive"))
    1073
    """

    label: str
    goal: str
    votes: float
    uniform: float
    planned: float
    half_width: float
    wanted: float
    level: float

    def __int__(self) -> int:
        if not math.isfinite(self.votes):
            raise NoDecisionError(f"no number of votes like those so far is enough for {self.label}; see `planned`.")
        return int(self.votes)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON; None where no number of votes is enough."""
        return {name: None if value == math.inf else value for name, value in vars(self).items()}

    def __str__(self) -> str:
        unit = "" if self.half_width < PROBABILITIES else " Elo points"
        digits = ".2g" if self.half_width < PROBABILITIES else ".0f"
        now, wanted = f"± {self.half_width:{digits}}{unit}", f"± {self.wanted:{digits}}{unit}"
        lines = [
            f"{self.label}: {self.goal}",
            f"  now {now}, needed {wanted} ({self.level:.0%} interval)",
            f"  {votes_words(self.votes)} like those so far, {votes_words(self.uniform)} spread evenly, "
            f"{votes_words(self.planned)} spent where they help most",
        ]
        return "\n".join(lines)


def votes_words(votes: float) -> str:
    """Return a number of votes in words, rounded up to two digits: more of them would promise too much.

    >>> votes_words(1234.2), votes_words(math.inf)
    ('1,300 more votes', 'no number of votes')
    """
    if not math.isfinite(votes):
        return "no number of votes"
    unit = 10 ** max(len(str(math.ceil(votes))) - 2, 0)
    return f"{math.ceil(votes / unit) * unit:,} more votes"


@named_options
@one_blas_thread
def votes_needed(
    battles: Battles | Frame,
    target: Target,
    *,
    half_width: float | None = None,
    power: float | None = None,
    margin: float | None = None,
    gap: float | None = None,
    level: float = 0.95,
    **options: Unpack[RunOptions],
) -> VotesNeeded:
    """Return how many more votes a target needs: for an interval of some width, or to show what it comes to.

    Parameters
    ----------
    battles : Battles, data frame or Analysis
        See `leaderboard`.
    target : Target
        Such as `gap("x", "y")`, which weighs categories by their votes, as boards and `gate` do;
        `gap("x", "y", weights="equal")` is the plain mean of the categories.
    half_width : float, optional
        Half the width that the interval shall have: Elo points, or a win probability if it is below 0.5.
    power : float, optional
        Probability, such as 0.8, with which the gap shall be shown: as ahead or behind, or with `margin` as equivalent.
    margin : float, optional
        What does not matter, like `half_width`.
    gap : float, optional
        The gap that there is, equal in all categories, like `half_width`; by default the estimate, with `margin` none.
    level : float
    **options
        See `analyse`.

    Returns
    -------
    VotesNeeded
        The number if votes come like those so far, if they are spread evenly, and if they are planned. Votes are
        expected to come from new voters and prompts.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[55, 45])
    >>> print(lrbtl.votes_needed(battles, lrbtl.gap("x", "y"), power=0.8, method="naive"))
    gap(x, y): to show a gap of 35 Elo points with 80% power
      now ± 69 Elo points, needed ± 24 Elo points (95% interval)
      690 more votes like those so far, 690 more votes spread evenly, 690 more votes spent where they help most
    """
    if (half_width is None) == (power is None):
        raise PowerError("give half_width=, or power= (with or without margin=): exactly one of the two.")
    if power is None and (margin is not None or gap is not None):
        raise MarginError("margin= and gap= go with power=; leave them out, or give power= instead of half_width=.")
    z = normal_quantile(level)
    if half_width is not None and (options.get("valid", "once") != "once" or options.get("looks") is not None):
        raise LooksError("a width is planned for one look: leave valid and looks out, or ask for power=.")
    battles, options, made = prepared(battles, options)
    limit = None if margin is None else read_size(margin)
    assumed = None if gap is None else read_size(gap, "gap")
    if half_width is not None:
        size = read_size(half_width, "half_width")
    check_size(battles)
    analysis = analyse(battles, **options) if made is None else made
    resolved = resolve_targets(battles, [target])
    found = PlannedErrors.of(analysis, resolved)
    value, unit, slope = found.scale()
    if half_width is not None:
        error = half_width / (z * slope) if slope and half_width < PROBABILITIES else size / (z * unit)
        return found.votes_for(error, f"for an interval of ± {size_words(half_width)}", level)
    if assumed is None:
        assumed = 0.0 if limit is not None else unit * value
    assert power is not None
    prospect = analysis.estimate_resolved(resolved).prospect()
    error = error_to_show(assumed, margin=limit, level=level, power=power, prospect=prospect) / unit
    shown = f"a gap of {ELO * abs(assumed):.0f} Elo points"
    goal = f"to show {shown}" if margin is None else f"to show that {shown} is within {size_words(margin)}"
    return found.votes_for(error, f"{goal} with {power:.0%} power", level)
