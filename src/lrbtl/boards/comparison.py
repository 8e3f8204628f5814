"""Two models head to head in every context, and all pairs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from scipy.special import expit

from lrbtl.boards.components import Component, analyse_components, prepared
from lrbtl.data.battles import Battles
from lrbtl.data.cells import points
from lrbtl.data.frames import Frame
from lrbtl.data.labels import shown_context
from lrbtl.errors import NoDecisionError, SeparationError, TooLargeError, UninformedError, check_flag
from lrbtl.inference.always_valid import ONE_LOOK, Validity
from lrbtl.inference.analysis import Analysis
from lrbtl.inference.estimate import ELO, Estimate
from lrbtl.inference.joint import max_gap_quantile, normal_quantile, sidak_quantile
from lrbtl.inference.power import detectable_words
from lrbtl.inference.selection import Selected
from lrbtl.inference.targets import Weights, pair_rows, read_pair, weights_note
from lrbtl.inference.verdicts import read_size, verdict_words
from lrbtl.methods.base import RunOptions, named_options
from lrbtl.methods.standard_errors import tail_widening
from lrbtl.methods.targets import resolved_gap, resolved_win
from lrbtl.model.links import LOGISTIC, mean_over_spread
from lrbtl.tables import (
    Framed,
    Printed,
    TextResult,
    format_intervals,
    format_numbers,
    format_percents,
    plain_numbers,
    text_table,
)
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats, Longs, Seed

ROWS_SHOWN = 15
MOST_PAIRS = 1000  # up to here joint intervals of overall win probabilities use their correlations


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Printed):
    """Model a against model b, overall and in every context; arrays have one entry per context, the overall one first.

    Attributes
    ----------
    a, b : labels
    contexts : tuple of str
        "overall", then the contexts.
    gap, lower, upper, joint_lower, joint_upper : arrays
        Elo points by which a is ahead, with the limits of its interval: each by itself, and all contexts together.
        NaN where the method gives none.
    win, win_lower, win_upper, win_joint_lower, win_joint_upper : arrays
        Probability that a beats b, likewise; overall it is the weighted mean over contexts.
    battles, won : arrays
        Direct votes between the two, and the share that a won (NaN without votes; a tie is half a win).
    verdict : tuple of str
        What each gap by itself comes to: "ahead", "behind", "equivalent" within the margin, or "cannot tell".
    detectable : array
        The smallest gap in Elo points detectable with 80% power, if it is equal in all contexts.
    level : float
    method : str
    notes : tuple of str
        Notes on how the battles were read.
    margin : float or None
        Of what is called equivalent: Elo points, or below 0.5 win probability.
    valid : str
        Under how many looks intervals and verdicts hold: "valid for one look", "valid at any time", ...

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[60, 20])
    >>> found = lrbtl.compare(battles, "x", "y")
    >>> found.contexts, found.verdict, found.battles.tolist()
    (('overall',), ('ahead',), [80])
    """

    a: Any
    b: Any
    contexts: tuple[str, ...]
    gap: Floats
    lower: Floats
    upper: Floats
    joint_lower: Floats
    joint_upper: Floats
    win: Floats
    win_lower: Floats
    win_upper: Floats
    win_joint_lower: Floats
    win_joint_upper: Floats
    battles: Longs
    won: Floats
    verdict: tuple[str, ...]
    detectable: Floats
    level: float
    method: str
    notes: tuple[str, ...] = ()
    margin: float | None = None
    valid: str = ONE_LOOK.words()

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the table as plain lists for JSON, None for what is missing."""
        sides = ("", "lower", "upper", "joint_lower", "joint_upper")
        names = [side or "gap" for side in sides] + ["_".join(filter(None, ("win", side))) for side in sides]
        columns = {name: plain_numbers(getattr(self, name)) for name in (*names, "battles", "won", "detectable")}
        return {"context": list(self.contexts), **columns, "verdict": list(self.verdict)}

    def largest(self) -> Selected:
        """Return the largest gap of a category, ahead or behind, with an interval that holds although it was picked.

        Examples
        --------
        >>> import lrbtl
        >>> truth = lrbtl.simulate_scores((8, 3), 2, scale=2, rng=0)
        >>> found = lrbtl.compare(lrbtl.simulate_battles(truth, 20_000, rng=1), 0, 1)
        >>> found.largest().among, found.largest().label in found.contexts
        (3, True)
        """
        rows = np.arange(len(self.contexts))[1:] if len(self.contexts) > 1 else np.zeros(1, dtype=np.int64)
        k = int(rows[np.nanargmax(np.abs(self.gap[rows]))])
        ends = float(self.joint_lower[k]), float(self.joint_upper[k])
        return Selected(self.contexts[k], float(self.gap[k]), *ends, len(rows), self.level)

    def heading(self) -> list[str]:
        """Return what the table shows."""
        several = np.isfinite(self.gap[1:]).sum() > 1
        largest = [f"largest gap of a category, {self.largest().words(0)}"] if several else []
        return [
            f"{self.a} against {self.b}: gap in Elo points and probability that {self.a} wins",
            f"{100 * self.level:.4g}% intervals, each by itself and (joint) all at once, {self.valid}; "
            f"{self.method} method",
            *self.notes,
            *verdict_words(self.margin, self.level),
            *largest,
        ]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        columns = {
            "context": list(self.contexts),
            "gap": ["" if number == "nan" else number for number in format_numbers(self.gap, 0)],
            "interval": format_intervals(self.lower, self.upper, 0),
            "joint": format_intervals(self.joint_lower, self.joint_upper, 0),
            "wins": format_percents(self.win),
            "interval ": _percent_intervals(self.win_lower, self.win_upper),
            "joint ": _percent_intervals(self.win_joint_lower, self.win_joint_upper),
            "votes": [f"{n:,}" for n in self.battles],
            "won": format_percents(self.won),
            "detectable": detectable_words(self.detectable),
            "verdict": list(self.verdict),
        }
        return [name.strip() for name in columns], [list(row) for row in zip(*columns.values(), strict=True)]


def _percent_intervals(lower: Floats, upper: Floats) -> list[str]:
    return [
        "unknown" if np.isnan(low) or np.isnan(high) else f"{low:.0%} to {high:.0%}"
        for low, high in zip(lower, upper, strict=True)
    ]


@named_options
@one_blas_thread
def compare(
    battles: Battles | Frame,
    a: Any,
    b: Any,
    *,
    weights: Weights = "traffic",
    level: float = 0.95,
    margin: float | None = None,
    **options: Unpack[RunOptions],
) -> Comparison:
    """Return gap and win probability of two models, overall and in every context, with intervals.

    The overall gap weighs contexts by their votes, as boards and `gap("x", "y")` do.

    Parameters
    ----------
    battles : Battles or data frame
        See `leaderboard`.
    a, b : label or code
        The models.
    margin : float, optional
        What does not matter, for the verdict "equivalent": Elo points, or a win probability if it is below 0.5.
    weights, level, **options
        See `leaderboard`.

    Returns
    -------
    Comparison
        Gaps, win probabilities, pointwise and joint intervals, direct votes, verdicts.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((8, 3), 2, scale=2, rng=0)
    >>> result = lrbtl.compare(lrbtl.simulate_battles(truth, 20_000, rng=1), 0, 1, rank=2)
    >>> result.contexts, bool((result.joint_lower < result.lower).all())
    (('overall', '0', '1', '2'), True)
    """
    normal_quantile(level)
    battles, options, made = prepared(battles, options)
    if margin is not None:
        read_size(margin)
    pair = read_pair(battles, a, b)
    component = component_of(battles, pair, weights, options, made)
    i, j = (int(np.searchsorted(component.members, model)) for model in pair)
    contexts = component.boards()
    boards = np.array(list(contexts.values()))
    gaps, wins = _duels(component.analysis, i, j, boards)
    points = ELO * component.analysis.log_odds_unit
    sides = [_sides(gaps, level, points), _sides(wins, level)]
    names = ("gap", "lower", "upper", "joint_lower", "joint_upper")
    fought, won = _direct(component.battles, i, j, boards)
    verdicts = gaps.verdicts(margin, level=level)
    return Comparison(
        a=battles.models[pair[0]],
        b=battles.models[pair[1]],
        contexts=tuple(shown_context(context) for context in contexts),
        **dict(zip(names, sides[0], strict=True)),
        **dict(zip(("win", *(f"win_{name}" for name in names[1:])), sides[1], strict=True)),
        battles=fought,
        won=won,
        verdict=verdicts.verdict,
        detectable=verdicts.detectable,
        level=level,
        method=component.analysis.provenance.method,
        notes=(*battles.notes, *_weights_notes(battles, weights)),
        margin=verdicts.margin,
        valid=gaps.validity.words(),
    )


def _weights_notes(battles: Battles, weights: Weights, context: Any = None) -> list[str]:
    words = weights_note(battles, weights, context)
    return [f"categories are averaged with {words}"] if words else []


MOST_JOINT = 200  # models whose win probabilities have joint intervals: 20,000 pairs, a covariance of 3 GB
MOST_PAIRED = 10_000  # models of a win matrix: 2.4 GB


def check_pairs(battles: Battles, *, joint: bool) -> None:
    """Raise `TooLargeError` before a table of all pairs is made that memory does not hold."""
    most = MOST_JOINT if joint else MOST_PAIRED
    if len(battles.models) > most:
        kind = "joint intervals of all pairs" if joint else "a table of all pairs"
        raise TooLargeError(
            f"{kind} of {len(battles.models):,} models take too much memory; the most are {most:,}: choose models with "
            "battles.top_models(n), or leave joint= out."
        )


def component_of(
    battles: Battles, pair: Sequence[int], weights: Weights, options: RunOptions, made: Analysis | None = None
) -> Component:
    """Return the analysis of the models that votes link with both; raise where there is none."""
    for model in pair:
        if not battles.model_counts[model]:
            raise UninformedError(f"{battles.models[model]!r} has no votes: nothing can be said of it.")
    found = analyse_components(battles, weights, wanted=pair, made=made, **options)
    if any(found[0].position(model) is None for model in pair):
        names = " with ".join(repr(battles.models[model]) for model in pair)
        raise SeparationError(f"no chain of battles links {names}: nothing can be said of their gap.")
    return found[0]


def _duels(analysis: Analysis, i: int, j: int, boards: Floats) -> tuple[Estimate, Estimate]:
    """Return gaps and win probabilities on boards, given by their weights (n, D), from one estimate."""
    pair = f"{analysis.battles.models[i]}, {analysis.battles.models[j]}"
    gaps = [resolved_gap(i, j, weights, f"gap({pair})") for weights in boards]
    wins = [resolved_win(i, j, weights, f"win_probability({pair})") for weights in boards]
    found = analysis.estimate_resolved([*gaps, *wins])
    return found[: len(boards)], found[len(boards) :]


def _sides(found: Estimate, level: float, unit: float = 1.0) -> list[Floats]:
    """Return estimates, limits and joint limits in some unit."""
    return [unit * found.estimate, *unit * found.conf_int(level).T, *unit * found.conf_int(level, joint=True).T]


def _direct(battles: Battles, i: int, j: int, boards: Floats) -> tuple[Longs, Floats]:
    """Return the direct votes in the contexts of each board, and the share that i won."""
    cells = battles.cells
    pair = (cells.a == min(i, j)) & (cells.b == max(i, j))
    y = points(cells.y[pair])[int(i > j)]
    used = (boards > 0)[:, cells.context[pair]]
    fought = used @ cells.count[pair]
    won = used @ (cells.count[pair] * y)
    return fought.astype(np.int64), np.divide(won, fought, out=np.full(len(boards), np.nan), where=fought > 0)


# ------------------------------------------------------------------------------
# All pairs.
# ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class WinMatrix(TextResult, Framed):
    """Probabilities that one model beats another, for all pairs.

    Attributes
    ----------
    models : tuple
        Best first.
    win, lower, upper : arrays (n, n)
        Entry [a, b]: probability that a beats b, and its limits; NaN, 0 and 1 where not identified.
    context : label, tuple of labels or None
    level : float
    joint : bool
        Whether the intervals hold for all pairs at once.
    notes : tuple of str
        Notes on how the battles were read.
    valid : str
        Under how many looks intervals hold.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[30, 10])
    >>> matrix = lrbtl.win_matrix(battles)
    >>> matrix.models, matrix.to_dict()["a"]
    (('x', 'y'), ['x', 'y'])
    """

    models: tuple[Any, ...]
    win: Floats
    lower: Floats
    upper: Floats
    context: Any
    level: float
    joint: bool
    notes: tuple[str, ...] = ()
    valid: str = ONE_LOOK.words()

    def to_dict(self) -> dict[str, list[Any]]:
        """Return all ordered pairs as plain lists: a, b, win, lower, upper."""
        a, b = np.nonzero(~np.eye(len(self.models), dtype=np.bool_))
        parts = {"win": self.win, "lower": self.lower, "upper": self.upper}
        columns = {name: plain_numbers(matrix[a, b]) for name, matrix in parts.items()}
        names = {side: [self.models[k] for k in at] for side, at in (("a", a), ("b", b))}
        return {**names, **columns}

    def __repr__(self) -> str:
        n = min(len(self.models), ROWS_SHOWN)
        kind = "for all pairs at once" if self.joint else "each by itself"
        heading = f"Win probabilities, {shown_context(self.context)}: row beats column"
        intervals = f"{100 * self.level:.4g}% intervals {kind}, {self.valid}, are in lower and upper"
        headers = ["model", *(str(k + 1) for k in range(n))]
        chances = [["" if np.isnan(x) else f"{x:.0%}" for x in row] for row in self.win[:n, :n]]
        rows = [[f"{k + 1} {self.models[k]}", *("" if k == m else chances[k][m] for m in range(n))] for k in range(n)]
        if n < len(self.models):
            rows.append([f"and {len(self.models) - n} more models", *[""] * n])
        return "\n".join([heading, intervals, *self.notes, text_table(headers, rows)])


@named_options
@one_blas_thread
def win_matrix(
    battles: Battles | Frame,
    context: Any = None,
    *,
    weights: Weights = "traffic",
    level: float = 0.95,
    joint: bool = False,
    **options: Unpack[RunOptions],
) -> WinMatrix:
    """Return the probability that each model beats each other one, with intervals.

    Parameters
    ----------
    battles : Battles or data frame
        See `leaderboard`.
    context : label or None
        A context; None: the weighted mean over contexts.
    joint : bool
        Intervals that hold for all pairs at once.
    weights, level, **options
        See `leaderboard`.

    Returns
    -------
    WinMatrix

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[30, 10])
    >>> lrbtl.win_matrix(battles).win.round(2)
    array([[0.5 , 0.74],
           [0.26, 0.5 ]])
    """
    normal_quantile(level)
    battles, options, made = prepared(battles, options)
    check_flag(joint, "joint")
    check_pairs(battles, joint=joint)
    at = None if context is None else battles.context_indices(context)
    components = analyse_components(battles, weights, made=made, **options)
    parts = [(part, board) for part in components if (board := part.weights_at(at)) is not None]
    if not parts:
        raise NoDecisionError(f"there are no votes in context {shown_context(battles.board_label(context))!r}.")
    orders = [best_first(part.analysis, board) for part, board in parts]
    models = tuple(part.battles.models[k] for (part, _), order in zip(parts, orders, strict=True) for k in order)
    win, lower, upper = (np.full((len(models), len(models)), fill) for fill in (np.nan, 0.0, 1.0))
    start = 0
    for (part, board), order in zip(parts, orders, strict=True):
        here = slice(start, start + order.size)
        block = win_table(part.analysis, board, order, level, joint=joint, rng=options.get("rng", 0))
        win[here, here], lower[here, here], upper[here, here] = block
        start = here.stop
    notes = (*battles.notes, *_weights_notes(battles, weights, context))
    valid = Validity.of(parts[0][0].analysis.provenance).words()
    return WinMatrix(models, win, lower, upper, battles.board_label(context), level, joint, notes, valid)


def best_first(analysis: Analysis, weights: Floats) -> Longs:
    """Return the models in the order of their scores; those without one come last."""
    score = analysis.estimate_boards(weights[None, :])[0].estimate
    return np.argsort(np.where(np.isnan(score), np.inf, -score), kind="stable")


def win_table(
    analysis: Analysis,
    weights: Floats,
    models: Longs,
    level: float,
    *,
    joint: bool = False,
    rng: Seed = 0,
    gaps: Estimate | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Return win probabilities of models, given by position, against each other, and their limits, (n, n) each.

    Parameters
    ----------
    analysis : Analysis
    weights : array (D,)
        Of the contexts.
    models : array (n,)
    level, joint, rng
        See `win_matrix`.
    gaps : Estimate, optional
        That of `all_gaps()`, from which the win probabilities of a context are read where their log odds are gaps.
    """
    n = len(models)
    win, lower, upper = (np.full((n, n), fill) for fill in (np.nan, 0.0, 1.0))
    known = np.flatnonzero(analysis.placed(weights)[models])
    a, b = (known[side] for side in np.triu_indices(known.size, 1))
    pairs = models[a], models[b]
    if gaps is None:
        values, limits = _from_wins(analysis, weights, *pairs, level, joint, rng)
    else:
        values, limits = _from_gaps(analysis, weights, *pairs, level, gaps)
    exists = np.isfinite(limits).all(axis=1)
    a, b, values, limits = a[exists], b[exists], values[exists], limits[exists]
    win[a, b], lower[a, b], upper[a, b] = values, *limits.T
    win[b, a], upper[b, a], lower[b, a] = 1.0 - values, *(1.0 - limits.T)
    for matrix in (win, lower, upper):
        np.fill_diagonal(matrix, 0.5)
    return win, lower, upper


def is_gap(analysis: Analysis, weights: Floats) -> bool:
    """Return whether the log odds of a win on the board with these weights are a gap of scores."""
    return analysis.run.link == LOGISTIC and np.count_nonzero(weights) == 1


def _from_wins(
    analysis: Analysis, weights: Floats, a: Longs, b: Longs, level: float, joint: bool, rng: Seed
) -> tuple[Floats, Floats]:
    """Return the probabilities that a beats b and their limits, from estimates of each pair."""
    if not a.size:
        return np.empty(0), np.empty((0, 2))
    use_correlations = joint and not is_gap(analysis, weights) and a.size <= MOST_PAIRS
    targets = [resolved_win(int(i), int(j), weights) for i, j in zip(a, b, strict=True)]
    found = analysis.estimate_resolved(targets, errors_only=not use_correlations)
    if not joint or use_correlations:
        return found.estimate, found.conf_int(level, joint=joint)
    if is_gap(analysis, weights):
        models = np.union1d(a, b)
        scores = analysis.estimate_boards(weights[None, :])[0]
        critical = max_gap_quantile(scores.cov[np.ix_(models, models)], level, rng)
    else:
        critical = sidak_quantile(level, a.size)
    critical = found.validity.joint(critical, level, a.size)
    half = critical * tail_widening(critical, found.variance_noise) * found.working_se
    limits = np.stack([found.working + side * half for side in (-1.0, 1.0)], axis=1)
    return found.estimate, np.asarray(expit(limits))


def _from_gaps(
    analysis: Analysis, weights: Floats, a: Longs, b: Longs, level: float, gaps: Estimate
) -> tuple[Floats, Floats]:
    """Return the probabilities that a beats b in one context and their limits, from the gaps of all pairs."""
    d1, D = analysis.battles.shape[0], analysis.battles.n_contexts
    row = pair_rows(np.minimum(a, b), np.maximum(a, b), d1)
    at, sign = row * D + int(np.flatnonzero(weights)[0]), np.where(a < b, 1.0, -1.0)
    limits = sign[:, None] * gaps.conf_int(level)[at]
    value = sign * gaps.estimate[at]
    if analysis.run.shrinks:  # a posterior has the mean over it
        values = mean_over_spread(lambda gap: np.asarray(expit(gap)), value, gaps.se[at] ** 2)
    else:
        values = np.asarray(expit(value))
    return values, np.asarray(expit(np.sort(limits, axis=1)))
