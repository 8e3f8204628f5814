"""`watch`: a question that is asked again as votes come in: today's answer, whether to stop, and votes still expected.

Answers rest on intervals that are valid at any time, or at planned looks [`inference.always_valid`]. So a question may
be asked every day, and votes may stop as soon as it is decided. What was decided at an earlier look stays decided.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from scipy.special import ndtr

from lrbtl.boards.board import Basis, Leaderboard
from lrbtl.boards.gate import error_to_decide
from lrbtl.boards.leaderboard import leaderboard
from lrbtl.boards.planned_errors import PlannedErrors, votes_words
from lrbtl.boards.ranking import JointGaps
from lrbtl.data.battles import Battles
from lrbtl.data.frames import Frame
from lrbtl.data.labels import shown_context
from lrbtl.data.state import Watched, read_state, read_watches, write_state
from lrbtl.errors import (
    LinkError,
    LooksError,
    MethodError,
    TooLargeError,
    UninformedError,
    check_whole,
    is_within,
    spelled,
)
from lrbtl.files import locked
from lrbtl.inference.always_valid import Validity
from lrbtl.inference.joint import max_gap_quantile
from lrbtl.inference.power import error_to_show
from lrbtl.inference.targets import Weights, read_pair, weights_note
from lrbtl.inference.verdicts import CANNOT_TELL, read_size
from lrbtl.methods.base import DEFAULT_TUNING, RunOptions, named_options
from lrbtl.methods.targets import resolved_gap
from lrbtl.tables import TextResult, shown
from lrbtl.threads import one_blas_thread

Goal = str | tuple[Any, ...]
Answer = tuple[str, bool, str, float | None]  # question, whether it is decided, answer, votes still expected


@dataclass(frozen=True)
class Watch(TextResult):
    """Today's answer to a question that is asked again and again.

    Attributes
    ----------
    goal : str
        The question in words.
    decided : bool
        Whether these votes, or those of an earlier look, decide it.
    answer : str
        What they say today.
    may_stop : bool
        Whether votes may stop: the question is decided, or as many votes are there as `stop` asks for.
    reason : str
        Why, or why not.
    n_battles : int
    more : float or None
        Votes like those so far that are expected to decide with 80% power if gaps are as estimated; infinity where no
        number does, None where it is decided or nothing can be planned.
    since : int or None
        Votes at the look that first decided it.
    past : tuple of (int, str)
        Votes and answers of earlier looks that the state remembers.
    valid : str
        Under how many looks answers hold.
    level : float

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["new", "new"], ["old", "old"], [1, 0], counts=[700, 500])
    >>> found = lrbtl.watch(battles, ("gap", "new", "old"), tuned_at=2000)
    >>> found.decided, found.may_stop, found.answer
    (True, True, 'new is ahead of old: +58 Elo points (27 to 89)')
    """

    goal: str
    decided: bool
    answer: str
    may_stop: bool
    reason: str
    n_battles: int
    more: float | None
    since: int | None
    past: tuple[tuple[int, str], ...]
    valid: str
    level: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON; infinity is null."""
        found = dict(self.__dict__)
        found["more"] = self.more if self.more is None or math.isfinite(self.more) else None
        found["past"] = [list(look) for look in self.past]
        return found

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        before = "" if not self.past else f", look {len(self.past) + 1}"
        lines = [
            f"{shown(self.goal)} {self.n_battles:,} votes{before}; {100 * self.level:.4g}%, {self.valid}",
            f"  {shown(self.answer)}",
            f"  {'may stop' if self.may_stop else 'go on'}: {shown(self.reason)}",
        ]
        return "\n".join(lines)


@named_options
@one_blas_thread
def watch(
    state: str | os.PathLike[str] | Battles | Frame,
    goal: Goal = "first",
    *,
    stop: int | None = None,
    margin: float | None = None,
    context: Any = None,
    weights: Weights = "traffic",
    level: float = 0.95,
    **options: Unpack[RunOptions],
) -> Watch:
    """Return today's answer to a question, whether votes may stop, and how many more are expected to decide it.

    Parameters
    ----------
    state : path of a .lrbtl state, Battles or data frame
        A state remembers the looks: the next call goes on with the same settings, which cannot change once one has
        looked. `lrbtl add` keeps them.
    goal : "first", ("top", k) or ("gap", a, b)
        Whether the first model is better than all others, who the k best are, or how two models differ.
    stop : int, optional
        Votes at which to stop even if nothing is decided.
    margin : float, optional
        Of ("gap", a, b): what does not matter, as in `compare`; the models may then be equivalent.
    context, weights, level
        See `leaderboard`.
    **options
        See `analyse`. `valid` is "always" unless `looks` are planned. `tuned_at` is by default `stop`, or 10,000 votes,
        or the votes at the first look if these are more.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((3,), 1, scale=1, rng=0), 900, rng=1)
    >>> print(lrbtl.watch(battles, stop=5000))
    Is model_1 better than all others? 900 votes; 95%, valid at any time (tuned at 5,000 votes)
      model_1 is first: better than all others
      may stop: it is decided
    """
    question = Question(*read_goal(goal), stop, margin, context, weights, level)
    if stop is not None:
        check_whole(stop, "stop", 1, LooksError)
    if margin is not None and question.kind != "gap":
        raise MethodError("margin= goes with goal=('gap', a, b): leave it out.")
    if options.get("valid", "always") != "always":
        raise LooksError(f"a watch is looked at again: leave valid={spelled(options['valid'])} out, or plan looks=.")
    if options.get("looks") is None:
        options["valid"] = "always"
    if not (isinstance(state, str | os.PathLike) and os.fspath(state).endswith(".lrbtl")):
        return _look(state if isinstance(state, Battles) else Battles.read(state), question, options, None)[0]
    with locked(state):
        battles, sources = read_state(state, Battles)
        watches = read_watches(state)
        known = next((entry for entry in watches if question.is_that_of(entry)), None)
        found, entry = _look(battles, question, options, known)
        write_state(state, battles, sources, [*(each for each in watches if each is not known), entry])
    return found


@dataclass(frozen=True)
class Question:
    """What is asked at every look."""

    kind: str
    arguments: tuple[Any, ...]
    stop: int | None
    margin: float | None
    context: Any
    weights: Weights
    level: float

    def settings(self, options: RunOptions) -> Watched:
        """Return what may not change after the first look, as JSON."""
        return {
            "goal": [self.kind, *map(_plain, self.arguments)],
            "margin": self.margin,
            "context": _plain(self.context),
            "weights": _plain(self.weights),
            "level": self.level,
            "tuned_at": options.get("tuned_at"),
            "looks": options.get("looks"),
        }

    def where(self, board: Leaderboard, basis: Basis) -> str:
        """Return the category that is asked about, or how they are averaged, as words of the question."""
        said = weights_note(basis.analysis.battles, self.weights, board.context)
        place = "" if board.context is None else f" in {shown_context(board.context)}"
        return f"{place} ({said})" if said else place

    def is_that_of(self, entry: Watched) -> bool:
        """Return whether a watch has asked this before."""
        asked = self.settings({})
        return all(entry.get(name) == asked[name] for name in ("goal", "context"))


def read_goal(goal: Any) -> tuple[str, tuple[Any, ...]]:
    """Return the kind of a goal and its arguments.

    >>> read_goal("first"), read_goal(("top", 3))
    (('first', ()), ('top', (3,)))
    """
    parts = (goal,) if isinstance(goal, str) else tuple(goal) if isinstance(goal, tuple | list) else ()
    if parts == ("first",):
        return "first", ()
    if len(parts) == 2 and parts[0] == "top" and is_within(parts[1], 0, math.inf):
        check_whole(parts[1], "k of ('top', k)", 1)
        return "top", (int(parts[1]),)
    if len(parts) == 3 and parts[0] == "gap":
        return "gap", parts[1:]
    raise MethodError(f"goal={spelled(goal)} is not valid: give 'first', ('top', 3) or ('gap', 'x', 'y').")


def _plain(value: Any) -> Any:
    """Return a setting as JSON keeps it."""
    return json.loads(json.dumps(value, default=lambda x: np.asarray(x).tolist() if np.ndim(x) else str(x)))


def _keep_settings(known: Watched, now: Watched) -> None:
    """Raise where settings are not those of earlier looks."""
    for name, value in now.items():
        if value != known[name]:
            raise LooksError(
                f"{name}={spelled(value)}, but this question was first looked at with {spelled(known[name])}: "
                "settings that change after a look make its answers wrong. Ask with the first ones."
            )


def _look(battles: Battles, asked: Question, options: RunOptions, known: Watched | None) -> tuple[Watch, Watched]:
    """Return the answer at this look, and what a state remembers."""
    past = [] if known is None else known["looks_taken"]
    if options.get("tuned_at") is None and known is not None:
        options["tuned_at"] = known["tuned_at"]
    if options.get("tuned_at") is None and options.get("looks") is None:
        options["tuned_at"] = float(asked.stop or max(DEFAULT_TUNING, battles.n_battles))
    settings = asked.settings(options)
    if known is not None:
        _keep_settings(known, settings)
    view: Any = {"context": asked.context, "weights": asked.weights, "level": asked.level, "min_battles": 1}
    board: Leaderboard = leaderboard(battles, **view, **options)
    assert board.basis is not None
    answered = _of_gap if asked.kind == "gap" else _of_top
    words, decided, answer, more = answered(asked, board, board.basis)
    n = battles.n_battles
    before = next(((int(votes), text) for votes, was, text in past if was), None)
    full = asked.stop is not None and n >= asked.stop
    if decided:
        reason = "it is decided"
    elif before is not None:
        reason = f"it was decided at {before[0]:,} votes: {before[1]}"
    elif full:
        reason = f"{asked.stop:,} votes are there, and it is not decided"
    elif more is None:
        reason = "it is not decided"
    else:
        reason = f"it is not decided; {votes_words(more)} like those so far are expected to"
    found = Watch(
        goal=words,
        decided=decided or before is not None,
        answer=answer,
        may_stop=decided or before is not None or full,
        reason=reason,
        n_battles=n,
        more=None if decided or before is not None else more,
        since=before[0] if before is not None else n if decided else None,
        past=tuple((int(votes), str(text)) for votes, _, text in past),
        valid=Validity.of(board.basis.analysis.provenance).words(),
        level=asked.level,
    )
    return found, {**settings, "looks_taken": [*past, [n, decided, answer]]}


def _of_gap(asked: Question, board: Leaderboard, basis: Basis) -> Answer:
    """Return the answer on a gap."""
    pair, margin, level = asked.arguments, asked.margin, asked.level
    where = asked.where(board, basis)
    i, j = read_pair(basis.analysis.battles, *pair)
    target = resolved_gap(i, j, basis.weights, f"{pair[0]} - {pair[1]}")
    found = basis.analysis.estimate_resolved([target])
    verdicts = found.verdicts(margin, level=level)
    verdict, gap = verdicts.verdict[0], float(verdicts.gap[0])
    reach = f"{gap:+.0f} Elo points ({verdicts.lower[0]:.0f} to {verdicts.upper[0]:.0f})"
    words = f"Is {pair[0]} better than {pair[1]}{where}?"
    if verdict != CANNOT_TELL:
        link = {"ahead": "is ahead of", "behind": "is behind"}.get(verdict, "is equivalent to")
        return words, True, f"{pair[0]} {link} {pair[1]}: {reach}", None
    unit = basis.analysis.log_odds_unit
    limit = None if margin is None else read_size(margin)
    error = error_to_decide(unit * float(found.estimate[0]), limit, level, found.prospect()) / unit
    return words, False, f"cannot tell {pair[0]} from {pair[1]} yet: {reach}", _expected(basis, target, error, level)


def _of_top(asked: Question, board: Leaderboard, basis: Basis) -> Answer:
    """Return the answer on the first place, or on the first k."""
    k, ranked = int(asked.arguments[0]) if asked.arguments else 1, int(np.count_nonzero(board.rank))
    if k >= ranked:
        raise MethodError(f"goal=('top', {k}) leaves no model out: there are {ranked} ranked models.")
    names = [str(model) for model in board.models]
    where = asked.where(board, basis)
    inside, rivals = board.rank_upper[:k] <= k, int((board.rank_lower[k:ranked] <= k).sum())
    if not asked.arguments:
        words = f"Is {names[0]} better than all others{where}?"
        sure = f"{names[0]} is first: better than all others"
        unsure = f"{names[0]} leads, and {rivals} other{'s' * (rivals != 1)} may still be first"
    else:
        words = f"Who are the top {k}{where}?"
        sure = f"the top {k} are {', '.join(names[:k])}"
        below = f"{rivals} model{'s' * (rivals != 1)} below may still be among them"
        unsure = f"{int(inside.sum())} of the top {k} are certain; {below}"
    if inside.all():
        return words, True, sure, None
    return words, False, unsure, _expected_top(basis, k, asked.level)


def _expected_top(basis: Basis, k: int, level: float) -> float | None:
    """Return the votes expected to separate the hardest pair across place k, by joint intervals."""
    analysis = basis.analysis
    (found,) = analysis.estimate_boards(basis.weights[None], basis.ranked[None])
    at = np.flatnonzero(basis.ranked)
    order = at[np.argsort(-found.working[at], kind="stable")]
    cov = found.working_cov[np.ix_(order, order)]
    se = JointGaps(cov, 0.0, None).errors(slice(0, k))[:, k:]
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (found.working[order[:k], None] - found.working[order[k:]]) / se
    i, j = np.unravel_index(int(np.nanargmin(z)), z.shape)
    target = resolved_gap(int(order[i]), int(order[k + j]), basis.weights, "the hardest pair")
    pair = analysis.estimate_resolved([target])
    each = 1.0 - 2.0 * float(ndtr(-max_gap_quantile(cov, level)))  # the level of one gap in joint intervals
    unit = analysis.log_odds_unit
    error = error_to_show(unit * float(pair.estimate[0]), level=each, prospect=pair.prospect()) / unit
    return _expected(basis, target, error, level)


def _expected(basis: Basis, target: Any, error: float, level: float) -> float | None:
    """Return the votes like those so far that bring a target to an error; None where nothing can be planned."""
    with suppress(LinkError, TooLargeError, UninformedError):
        return PlannedErrors.of(basis.analysis, [target]).votes_for(error, "to decide", level).votes
    return None
