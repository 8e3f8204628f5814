"""`gate`: may a candidate replace a baseline? Ship, worse, or cannot tell, and how many votes would decide."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, Unpack

import numpy as np

from lrbtl.boards.comparison import component_of
from lrbtl.boards.components import prepared
from lrbtl.boards.planned_errors import PlannedErrors, VotesNeeded, votes_words
from lrbtl.data.battles import Battles
from lrbtl.data.frames import Frame
from lrbtl.data.labels import shown_context
from lrbtl.errors import LinkError, NoDecisionError, TooLargeError, UninformedError
from lrbtl.inference.always_valid import ONE_LOOK, Validity
from lrbtl.inference.power import POWER, Prospect, detectable_words, error_to_clear, error_to_show
from lrbtl.inference.targets import Weights, read_pair, weights_note
from lrbtl.inference.verdicts import AHEAD, BEHIND, CANNOT_TELL, ELO, EQUIVALENT, read_size, size_words
from lrbtl.methods.base import RunOptions, named_options
from lrbtl.methods.targets import resolved_gap
from lrbtl.model.links import LOGISTIC
from lrbtl.tables import TextResult, format_intervals, shown
from lrbtl.threads import one_blas_thread

SHIP, WORSE = "ship", "worse"
EXIT_CODES = {SHIP: 0, WORSE: 1, CANNOT_TELL: 2}


@dataclass(frozen=True)
class Gate(TextResult):
    """Whether a candidate may replace a baseline.

    Attributes
    ----------
    decision : "ship", "worse" or "cannot tell"
        Ship: ahead, equivalent within the margin, or at least not behind by more than the margin (a one-sided test at
        1 - level). Worse: behind, and perhaps by more than the margin.
    verdict : str
        What the gap comes to: "ahead", "behind", "equivalent" or "cannot tell".
    candidate, baseline, context : labels
        The context is None for the overall gap.
    gap, lower, upper : float
        Elo points by which the candidate is ahead, and the limits of its interval.
    detectable : float
        The smallest gap detectable with 80% power.
    margin : float or None
        As given: Elo points, or below 0.5 win probability.
    level : float
    n_battles : int
        Votes that the decision rests on.
    needed : VotesNeeded or None
        More votes that would decide with 80% power if the gap is as estimated, where these cannot; None also where the
        method cannot plan.
    valid : str
        Under how many looks the decision holds: "valid for one look", "valid at any time", ...
    entry : bool
        Whether the interval is entry-wise, as in a category: it covers this gap by its own votes, whatever the other
        gaps are.
    weights : str
        How categories were averaged, in words; "" where by their votes, or where there is one.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["new", "new"], ["old", "old"], [1, 0], counts=[700, 600])
    >>> found = lrbtl.gate(battles, "new", "old", method="naive")
    >>> found.decision, found.verdict, found.exit_code
    ('ship', 'ahead', 0)
    """

    decision: str
    verdict: str
    candidate: Any
    baseline: Any
    context: Any
    gap: float
    lower: float
    upper: float
    detectable: float
    margin: float | None
    level: float
    n_battles: int
    needed: VotesNeeded | None
    valid: str = ONE_LOOK.words()
    entry: bool = False
    weights: str = ""

    @property
    def exit_code(self) -> int:
        """0 ship, 1 worse, 2 cannot tell."""
        return EXIT_CODES[self.decision]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, with the exit code."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        found["context"] = None if self.context is None else shown_context(self.context)
        found["needed"] = None if self.needed is None else self.needed.to_dict()
        for name in ("gap", "lower", "upper", "detectable"):
            found[name] = found[name] if math.isfinite(found[name]) else None
        return {**found, "exit_code": self.exit_code}

    def __str__(self) -> str:
        return shown(self._sentence())

    def _sentence(self) -> str:
        where = "" if self.context is None else f" in {shown_context(self.context)}"
        where += f" ({self.weights})" if self.weights else ""
        (ends,) = format_intervals(np.array([self.lower]), np.array([self.upper]), 0)
        gap = f"{self.gap:+.0f} Elo points ({ends})"
        gap = gap if math.isfinite(self.gap) else "the method has no score for one of them"
        margin = "" if self.margin is None else f", margin {size_words(self.margin)}"
        own = ", entry-wise" if self.entry else ""
        line = f"{self.decision}: {self.candidate} against {self.baseline}{where}: {gap}{margin}, {self.valid}{own}"
        if self.needed is None:
            return line
        (shown,) = detectable_words(np.array([self.detectable]))
        return (
            f"{line}; smallest gap detectable with {POWER:.0%} power: {shown}; {votes_words(self.needed.votes)} like "
            f"those so far would decide, or {votes_words(self.needed.planned)} where they help most"
        )


@named_options
@one_blas_thread
def gate(
    battles: Battles | Frame,
    candidate: Any,
    baseline: Any,
    *,
    margin: float | None = None,
    context: Any = None,
    weights: Weights = "traffic",
    level: float = 0.95,
    **options: Unpack[RunOptions],
) -> Gate:
    """Return whether a candidate may replace a baseline: ship, worse, or cannot tell, with the votes that would decide.

    The overall gap weighs categories by their votes, as boards and `gap("x", "y")` do.

    Parameters
    ----------
    battles : Battles or data frame
        See `leaderboard`.
    candidate, baseline : labels
    margin : float, optional
        A loss that does not matter: Elo points, or a win probability if it is below 0.5. None: the candidate must be
        ahead.
    context : label, optional
        A category; by default the weighted mean over all. Of a category the interval is entry-wise, see
        `Estimate.conf_int`: a decision on one gap must hold for that gap, not on average over a board.
    weights, level, **options
        See `leaderboard`.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["new", "new"], ["old", "old"], [1, 0], counts=[700, 600])
    >>> print(lrbtl.gate(battles, "new", "old", method="naive"))
    ship: new against old: +27 Elo points (8 to 46), valid for one look
    """
    battles, options, made = prepared(battles, options)
    limit = None if margin is None else read_size(margin)
    pair = read_pair(battles, candidate, baseline)
    at = None if context is None else battles.context_indices(context)
    part = component_of(battles, pair, weights, options, made)
    share = part.weights_at(at)
    label = battles.board_label(context)
    if share is None:
        raise NoDecisionError(f"there are no votes in context {shown_context(label)!r}.")
    i, j = (int(k) for k in (part.members.searchsorted(model) for model in pair))
    target = resolved_gap(i, j, share, f"{candidate} - {baseline}")
    found = part.analysis.estimate_resolved([target])
    verdicts = found.verdicts(margin, level=level)
    unit = part.analysis.log_odds_unit
    gap, se = unit * float(found.estimate[0]), unit * float(found.se[0])
    entry = part.analysis.run.shrinks and np.count_nonzero(share) == 1 and part.battles.n_contexts > 1
    if entry and part.analysis.run.link == LOGISTIC:
        lower, upper = (float(x) for x in found.conf_int(level, kind="entry", scale="elo")[0])
        verdict, decision = decide_entry(lower / ELO, upper / ELO, limit)
    else:
        entry, lower, upper = False, float(verdicts.lower[0]), float(verdicts.upper[0])
        verdict = verdicts.verdict[0]
        decision = decide(verdict, gap, se, limit, level, float(found.follow[0]), valid=found.validity)
    needed = None
    if decision == CANNOT_TELL:
        error = error_to_decide(gap, limit, level, found.prospect()) / unit
        with suppress(LinkError, TooLargeError, UninformedError):  # the answer stands without a plan
            needed = PlannedErrors.of(part.analysis, [target]).votes_for(error, "to decide", level)
    return Gate(
        decision=decision,
        verdict=verdict,
        candidate=battles.models[pair[0]],
        baseline=battles.models[pair[1]],
        context=label,
        gap=float(verdicts.gap[0]),
        lower=lower,
        upper=upper,
        detectable=float(verdicts.detectable[0]),
        margin=verdicts.margin,
        level=level,
        n_battles=part.battles.n_battles,
        needed=needed,
        valid=found.validity.words(),
        entry=entry,
        weights=weights_note(battles, weights, context),
    )


def decide(
    verdict: str,
    gap: float,
    se: float,
    margin: float | None,
    level: float,
    shrinkage_factor: float = 1.0,
    *,
    valid: Validity = ONE_LOOK,
) -> str:
    """Return the decision on a gap, given with its verdict, error and the margin in log odds; see `verdicts`.

    >>> decide("cannot tell", 0.1, 0.1, 0.2, 0.95), decide("behind", -0.3, 0.1, 0.2, 0.95)
    ('ship', 'worse')
    """
    shrunk = min(shrinkage_factor, 1.0)
    least = gap / shrunk - valid.one_sided(level) * se / shrunk**0.5
    if verdict in (AHEAD, EQUIVALENT) or (margin is not None and least > -margin):
        return SHIP
    return WORSE if verdict == BEHIND else CANNOT_TELL


def decide_entry(lower: float, upper: float, margin: float | None) -> tuple[str, str]:
    """Return verdict and decision on a gap with an entry-wise interval, in log odds as the margin is.

    >>> decide_entry(-0.1, 0.3, 0.2), decide_entry(-0.5, -0.1, 0.2)
    (('cannot tell', 'ship'), ('behind', 'worse'))
    """
    near = margin is not None and -margin < lower and upper < margin
    verdict = EQUIVALENT if near else AHEAD if lower > 0.0 else BEHIND if upper < 0.0 else CANNOT_TELL
    if verdict in (AHEAD, EQUIVALENT) or (margin is not None and lower > -margin):
        return verdict, SHIP
    return verdict, WORSE if verdict == BEHIND else CANNOT_TELL


def error_to_decide(gap: float, margin: float | None, level: float, prospect: Prospect | None = None) -> float:
    """Return the largest error at which a gap, in log odds, is decided with 80% power; 0 where none is small enough."""
    ways = [error_to_show(gap, level=level, prospect=prospect)]
    if margin is not None and gap > -margin:
        ways.append(error_to_clear(gap + margin, level=level, prospect=prospect))
    return max(ways)
