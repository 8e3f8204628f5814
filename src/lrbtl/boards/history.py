"""Ratings over time: a random walk per model, bands, and a test of drift."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, signature
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

from lrbtl.boards.board import BASE_RATING
from lrbtl.data.battle_summary import linked_models
from lrbtl.data.battles import Battles
from lrbtl.data.labels import find_label, index_labels
from lrbtl.data.periods import MOST_PERIODS, check_time, chosen_period, with_periods
from lrbtl.data.read import read_rows
from lrbtl.errors import (
    IslandWarning,
    LinkError,
    PeriodError,
    TooLargeError,
    UnknownContextError,
    UnknownModelError,
    check_whole,
    warn_user,
)
from lrbtl.fitting.random_walk import Path, TimedVotes, fit_walks
from lrbtl.inference.estimate import ELO, Estimate
from lrbtl.inference.joint import holm, normal_quantile
from lrbtl.methods.base import Provenance
from lrbtl.methods.clusters import check_clusters, design_effects
from lrbtl.model.links import LOGISTIC
from lrbtl.options import strict
from lrbtl.tables import Printed, format_intervals, format_numbers, format_pvalues, mark_gap, shown, shown_rows
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats, Longs

LARGEST = 1 << 26  # numbers in the matrices of all periods of one walk
ROWS_SHOWN = 40
MOVERS_SHOWN = 5
DRIFT_LEVEL = 0.05
NODES = (0.4, 0.75, 0.95)  # quantiles of the step; those of few models would hide a drift half of the time


@dataclass(frozen=True, eq=False, repr=False)
class History(Printed):
    """Ratings over time; arrays have shape (models, periods), NaN before a model's first vote and after its last.

    Attributes
    ----------
    models : tuple
        Best first: those with votes in the last period, then those whose last vote is earlier.
    periods : tuple
    score, lower, upper, se : arrays
        In Elo points. A walk's level is known against the others only: the mean over models of their mean over time is
        1000, and no move is one that all models present share.
    votes : array of int
    step : float
        Standard deviation of a model's move from one period to the next, in Elo points: the mean of its distribution
        under the votes (a flat prior times the marginal likelihood).
    effects : Estimate or None
        Of the battles' covariates, which all periods share, per unit of each.
    level : float
    info : Provenance

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((6, 5), 1, scale=1, rng=0)
    >>> story = lrbtl.history(lrbtl.simulate_battles(truth, 5000, rng=1))
    >>> story.score.shape, story.periods
    ((6, 5), (0, 1, 2, 3, 4))
    """

    indent = "  "

    models: tuple[Any, ...]
    periods: tuple[Any, ...]
    score: Floats
    lower: Floats
    upper: Floats
    se: Floats
    votes: Longs
    step: float
    effects: Estimate | None
    level: float
    info: Provenance
    paths: tuple[Path, ...]  # at steps from their posterior, averaged over with equal weights
    places: Longs  # (models,) positions of the models in the paths
    gauge: Floats  # (periods, models of a path) weights whose sum of scores is zero
    ends: Longs  # (models, 2) periods of the first and the last vote

    def at(self, period: Any) -> Estimate:
        """Return the scores of the models present in a period, with their covariance, in log odds."""
        t = self._period(period)
        here = np.flatnonzero((self.ends[:, 0] <= t) & (self.ends[:, 1] >= t))
        at, parts = self.places[here], []
        for path in self.paths:
            cov = next(own for s, own, _ in path.covariances(self._nowhere) if s == t)
            parts.append(_on_gauge(path, self.gauge, t, at, cov[np.ix_(at, at)]))
        return Estimate([str(self.models[k]) for k in here], *mixed(parts), links="identity", info=self.info)

    def of(self, model: Any) -> Estimate:
        """Return the scores of a model over time, with their covariance, in log odds."""
        k = self.row(model)
        first, last = self.ends[k].tolist()
        times, at = np.arange(first, last + 1), int(self.places[k])
        parts = [
            _on_gauge(path, self.gauge, times, at, path.model_covariance(at, (first, last))) for path in self.paths
        ]
        return Estimate([shown(self.periods[t]) for t in times], *mixed(parts), links="identity", info=self.info)

    def drift(self, since: Any = None, until: Any = None) -> Estimate:
        """Return each model's change between two periods, in log odds, with errors for the test that it is none.

        Parameters
        ----------
        since, until : period or None
            None is the model's own first or last period with votes. Models without votes before (or in) `since` or
            after (or in) `until` are left out, and so are those seen in one period only.

        Examples
        --------
        >>> import lrbtl
        >>> truth = lrbtl.simulate_scores((6, 5), 1, scale=1, rng=0)
        >>> story = lrbtl.history(lrbtl.simulate_battles(truth, 5000, rng=1))
        >>> story.drift(since=2).conf_int(scale="elo").shape
        (6, 2)
        """
        kept, starts, stops = self._spans(since, until)
        if not kept.size:
            raise PeriodError("no model has votes in two of these periods: no drift can be seen.")
        at = self.places[kept]
        ends = self._nowhere
        ends[at] = stops
        parts = []
        for path in self.paths:
            variance = np.zeros(kept.size)
            for t, own, cross in path.covariances(ends):
                here, there = at[starts == t], at[stops == t]
                variance[starts == t] += own[here, here] - 2 * cross[here, here]
                variance[stops == t] += own[there, there]
            parts.append((path.scores[stops, at] - path.scores[starts, at], variance))
        moved, variance = mixed(parts)
        names = [str(self.models[k]) for k in kept]
        return Estimate(names, moved, None, se=np.sqrt(variance), links="identity", info=self.info)

    def movers(self, level: float = DRIFT_LEVEL) -> tuple[Any, ...]:
        """Return the models that drift between their first and last votes, with Holm's correction for all models."""
        if not (kept := self._spans(None, None)[0]).size:
            return ()
        found = self.drift().pvalue
        normal_quantile(level)
        return tuple(self.models[kept[k]] for k in np.argsort(found, kind="stable") if holm(found, level)[k])

    def _spans(self, since: Any, until: Any) -> tuple[Longs, Longs, Longs]:
        starts, stops = self.ends.T
        kept = np.ones(len(self.models), dtype=np.bool_)
        if since is not None:
            kept &= starts <= self._period(since)
            starts = np.full_like(starts, self._period(since))
        if until is not None:
            kept &= stops >= self._period(until)
            stops = np.full_like(stops, self._period(until))
        at = np.flatnonzero(kept & (stops > starts))
        return at, starts[at], stops[at]

    @property
    def _nowhere(self) -> Longs:
        return np.full(self.gauge.shape[1], -1)

    def _period(self, period: Any) -> int:
        return find_label(index_labels(self.periods, "periods"), period, "period", UnknownContextError)

    def row(self, model: Any) -> int:
        """Return the row of a model."""
        return find_label(index_labels(self.models, "models"), model, "model", UnknownModelError)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row per model and period in which it is present, as plain lists for JSON."""
        k, t = np.nonzero(np.isfinite(self.score))
        columns = {name: getattr(self, name)[k, t].tolist() for name in ("score", "lower", "upper", "se", "votes")}
        return {"model": [self.models[i] for i in k], "period": [self.periods[i] for i in t], **columns}

    def heading(self) -> list[str]:
        """Return what a reader must know: size, the walk, and who drifts."""
        first = (
            f"History of {len(self.models):,} models over {len(self.periods):,} periods, {shown(self.periods[0])} to "
            f"{shown(self.periods[-1])}: {int(self.votes.sum()) // 2:,} votes"
        )
        walk = f"a model moves by {self.step:.1f} Elo points per period (standard deviation); {self.level:.0%} bands"
        return [first, walk, *self._mover_lines(), *self.info.notes]

    def _mover_lines(self) -> list[str]:
        movers = self.movers()
        if not movers:
            return ["no model is seen to drift"]
        have = "1 model drifts" if len(movers) == 1 else f"{len(movers)} models drift"
        drift, words = self.drift(), []
        for model in movers[:MOVERS_SHOWN]:
            one = drift[str(model)]
            since = shown(self.periods[self.ends[self.row(model), 0]])
            words.append(f"{shown(model)} since {shown(since)} {change_words(one)}")
        more = f"; and {len(movers) - MOVERS_SHOWN} more" if len(movers) > MOVERS_SHOWN else ""
        return [f"{have} (all tests together at {DRIFT_LEVEL:.0%}): " + "; ".join(words) + more]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        head, tail = shown_rows(len(self.models), ROWS_SHOWN)
        rows = np.array(head + tail)
        last = self.ends[rows, 1]
        score, lower, upper = (x[rows, last] for x in (self.score, self.lower, self.upper))
        change, error, pvalue = (np.full(len(self.models), np.nan) for _ in range(3))
        if (kept := self._spans(None, None)[0]).size:
            drift = self.drift()
            change[kept], error[kept], pvalue[kept] = ELO * drift.estimate, ELO * drift.se, drift.pvalue
        columns = {
            "model": [str(self.models[k]) for k in rows],
            "score": format_numbers(score, 0),
            "interval": format_intervals(lower, upper, 0),
            "in": [shown(self.periods[t]) for t in last],
            "since": [shown(self.periods[t]) for t in self.ends[rows, 0]],
            "change": ["" if np.isnan(x) else f"{x:+.0f}" for x in change[rows]],
            "±": ["" if np.isnan(x) else f"{x:.0f}" for x in error[rows]],
            "p": ["" if p == "nan" else p for p in format_pvalues(pvalue[rows])],
            "votes": [f"{n:,}" for n in self.votes[rows].sum(axis=1)],
        }
        return list(columns), mark_gap(list(columns.values()), len(self.models))


def change_words(change: Estimate) -> str:
    """Return a change with its standard error and test.

    >>> change_words(Estimate(["x"], [-0.138], None, se=[0.052], links="identity"))
    '-24 ± 9 (p = 0.008)'
    """
    p = format_pvalues(change.pvalue)[0]
    p = p.replace("<", "< ") if p.startswith("<") else f"= {p}"
    return f"{ELO * change.estimate[0]:+.0f} ± {ELO * change.se[0]:.0f} (p {p})"


def frame_options() -> list[Parameter]:
    """Return the options of `Battles.from_frame` that a history takes, and `link`, which is always the usual one."""
    known = signature(Battles.from_frame).parameters
    taken = [each for name, each in known.items() if name not in ("frame", "contexts")]
    return [*taken, Parameter("link", Parameter.KEYWORD_ONLY, default=LOGISTIC.name)]


@partial(strict, more=frame_options())
@one_blas_thread
def history(
    battles: Any,
    time: str | None = None,
    *,
    period: str | int | None = None,
    min_battles: int = 30,
    level: float = 0.95,
    **columns: Any,
) -> History:
    """Return ratings over time: each model's score is a random walk over periods.

    Scores of a period borrow from those before and after, the more the less they differ over time, which the votes
    themselves show: results are averaged over the size of a step by its marginal likelihood. Time and memory grow
    linearly with the number of periods. The link is the logistic one, ties count as half a win, and contexts other than
    time are pooled. With clusters, votes count as many times less as they would on one board of all periods.

    Parameters
    ----------
    battles : Battles, data frame, dict of columns, file or folder
    time : str
        Of battles, the context mode that holds the periods, whose levels are in order of time; by default the only
        mode. Of a log, its column of times: dates, ISO texts, years, or seconds since 1970.
    period : "day", "week", "month", "quarter", "year", int or None
        Of a log: the length of a period, or a number of periods with equally many rows. None takes the values of the
        column as they are. Of more than 400 values, or times of day, it takes the shortest period that makes at most
        120, and a note says so.
    min_battles : int
        Models with fewer votes are left out of the mean of all ratings.
    level : float
        Of the bands, each by itself.
    **columns
        Of a log: the options of `Battles.from_frame`.

    Returns
    -------
    History

    Examples
    --------
    >>> import lrbtl
    >>> frame = {"model_a": ["x", "y"] * 50, "model_b": ["y", "x"] * 50, "winner": ["model_a"] * 70 + ["model_b"] * 30,
    ...          "day": ["2024-01-05"] * 40 + ["2024-02-10"] * 60}
    >>> lrbtl.history(frame, "day", period="month").periods
    ('2024-01', '2024-02')
    """
    normal_quantile(level)
    check_whole(min_battles, "min_battles")
    if columns.pop("link", LOGISTIC.name) not in (LOGISTIC.name, LOGISTIC):
        raise LinkError("histories know the logistic link only, with ties as half a win: leave link= out.")
    battles, mode, periods = _read(battles, time, period, columns)
    groups = linked_models(battles)
    if len(groups) > 1:
        left = sum(group.size for group in groups[1:])
        warn_user(f"{left} models that no votes link with the others are left out of the history.", IslandWarning)
    check_clusters(battles)
    periods = _since_first_vote(battles, mode, periods, groups[0])
    if len(periods) > MOST_PERIODS:
        raise TooLargeError(
            f"there are {len(periods):,} periods; the most are {MOST_PERIODS:,}: use longer ones (period='month')."
        )
    if len(periods) < 2:
        raise PeriodError(f"all battles are in one period, {periods[0]!r}: a history needs two or more.")
    votes, members, cells = _timed_votes(battles, mode, periods, groups[0])
    if (size := int(np.sum(votes.present.astype(np.int64) ** 2))) > LARGEST:
        raise TooLargeError(
            f"the matrices of {len(periods):,} periods and {members.size:,} models have {size:,} numbers: use longer "
            "periods, or battles.top_models(n)."
        )
    paths = fit_walks(votes, step_quantiles, partial(cluster_effect, battles, cells) if battles.cluster_names else None)
    return _story(battles, paths, members, periods, min_battles, level, pooled=len(battles.levels) > 1)


def _read(
    battles: Any, time: str | None, period: str | int | None, columns: dict[str, Any]
) -> tuple[Battles, int, tuple[Any, ...]]:
    """Return the battles, the mode of their periods, and the periods in order."""
    if isinstance(battles, Battles):
        if period is not None or columns:
            raise PeriodError("period= and names of columns are for frames: battles have their periods as a mode.")
        mode = check_time(time, battles.mode_names)
        return battles, mode, battles.levels[mode]
    if not isinstance(time, str):
        raise PeriodError("name the column of times: history(frame, time='date', period='month').")
    log = read_rows(battles)
    chosen = chosen_period(log.columns, time) if period is None else None
    frame, known = with_periods(log.columns, time, chosen or period)
    found = Battles.from_frame(frame, contexts=time, **{**log.carried, **columns})
    said = () if chosen is None else (f"{time} holds times: periods of a {chosen} were chosen (period= names others)",)
    found = replace(found, notes=(*said, *log.notes, *found.notes))
    mode = check_time(time, found.mode_names)
    return found, mode, found.levels[mode] if known is None else known


def cluster_effect(battles: Battles, cells: Longs, once: Path) -> float:
    """Return how many times as much votes vary as independent ones, on one board of all periods; at least 1.

    `cells` are the positions of the board's votes among those of the battles. Cluster columns add up.
    """
    place = np.full(battles.n_cells, -1)
    place[cells] = np.arange(cells.size)

    def rows(which: Longs) -> Floats:
        out, known = np.zeros((len(which), once.scores.shape[1])), place[which] >= 0
        out[known] = once.vote_influences(place[which][known])
        return out

    return max(1.0, 1.0 + sum(effect - 1.0 for _, effect in design_effects(rows, battles, once.scores.shape[1])))


def _period_of_cells(battles: Battles, mode: int, periods: tuple[Any, ...]) -> Longs:
    """Return the position of each cell's period, -1 where it is none of them."""
    place = {label: t for t, label in enumerate(periods)}
    of_level = np.array([place.get(label, -1) for label in battles.levels[mode]])
    return np.asarray(of_level[np.unravel_index(battles.cells.context, battles.shape[1:])[mode]])


def _since_first_vote(battles: Battles, mode: int, periods: tuple[Any, ...], group: Longs) -> tuple[Any, ...]:
    """Return the periods from the first one in which models of a group have votes."""
    inside = np.isin(battles.cells.a, group)
    return periods[int(_period_of_cells(battles, mode, periods)[inside].min(initial=len(periods) - 1)) :]


def _timed_votes(
    battles: Battles, mode: int, periods: tuple[Any, ...], group: Longs
) -> tuple[TimedVotes, Longs, Longs]:
    """Return the votes of a group by period, its models in the order of their first vote, and the votes' cells."""
    cells = battles.cells
    period = _period_of_cells(battles, mode, periods)
    inside = np.flatnonzero(np.isin(cells.a, group))
    inside = inside[np.argsort(period[inside], kind="stable")]
    first = np.full(len(battles.models), len(periods))
    for side in (cells.a, cells.b):
        np.minimum.at(first, side[inside], period[inside])
    members = group[np.argsort(first[group], kind="stable")]
    code = np.zeros(len(battles.models), dtype=np.int64)
    code[members] = np.arange(members.size)
    present = np.searchsorted(first[members], np.arange(len(periods)), side="right")
    count = cells.count[inside].astype(np.float64)
    if cells.weight is not None:  # weights count as many votes as they are worth
        weight = cells.weight[inside]
        count *= weight * (count @ weight) / (count @ weight**2)
    slopes = np.zeros((inside.size, 0)) if cells.slopes is None else cells.slopes[inside]
    sides = code[cells.a[inside]], code[cells.b[inside]]
    votes = TimedVotes(period[inside], *sides, cells.y[inside], count, slopes, present)
    return votes, members, inside


def _story(
    battles: Battles,
    paths: list[Path],
    members: Longs,
    periods: tuple[Any, ...],
    min_battles: int,
    level: float,
    pooled: bool,
) -> History:
    votes, (T, d1) = paths[0].votes, paths[0].scores.shape
    fought = np.zeros((T, d1))
    for side in (votes.a, votes.b):
        np.add.at(fought, (votes.period, side), votes.count)
    seen = fought > 0
    ends = np.stack([np.argmax(seen, axis=0), T - 1 - np.argmax(seen[::-1], axis=0)], axis=1)
    inside = (np.arange(T)[:, None] >= ends[:, 0]) & (np.arange(T)[:, None] <= ends[:, 1])
    enough = fought.sum(axis=0) >= min_battles
    counted = inside & (enough if enough.sum() > 1 else True)
    gauge = counted / np.maximum(counted.sum(axis=0), 1) / counted.any(axis=0).sum()
    means, variances = mixed([_moments(path, gauge) for path in paths])
    score = np.where(inside, BASE_RATING + ELO * means, np.nan).T
    se = np.where(inside, ELO * np.sqrt(np.maximum(variances, 0.0)), np.nan).T
    order = np.lexsort((-score[np.arange(d1), ends[:, 1]], ends[:, 1] < T - 1))
    reach = float(ndtri(0.5 + level / 2))
    notes = [*battles.notes, *(["categories are pooled"] if pooled else [])]
    if battles.cluster_names:
        names = " and of one ".join(battles.cluster_names)
        notes.append(f"bands allow for correlated votes of one {names}, by one factor for all periods")
    return History(
        models=tuple(battles.models[members[k]] for k in order),
        periods=periods,
        score=score[order],
        lower=(score - reach * se)[order],
        upper=(score + reach * se)[order],
        se=se[order],
        votes=np.rint(fought.T[order]).astype(np.int64),
        step=ELO * float(np.mean([path.prior.step for path in paths])),
        effects=_effects(battles, paths),
        level=level,
        info=Provenance(method="random walk", n_battles=int(fought.sum()) // 2, level=level, notes=tuple(notes)),
        paths=tuple(paths),
        places=order,
        gauge=gauge,
        ends=ends[order],
    )


def step_quantiles(steps: Floats, log_evidence: Floats) -> Floats:
    """Return quantiles of the step under a flat prior on (0, largest step], from its log evidence at some values.

    They are shifted upward: with few models the evidence is often too low.

    >>> step_quantiles(np.array([0.1, 0.2, 0.3]), np.array([-50.0, 0.0, -50.0])).round(1)
    array([0.2, 0.2, 0.2])
    """
    if len(steps) < 2:
        return np.full(len(NODES), steps[0])
    grid = np.linspace(0.0, steps[-1], 2001)
    heights = np.append(log_evidence[:1], log_evidence)  # flat below the smallest step
    density = np.exp(PchipInterpolator(np.append(0.0, steps), heights)(grid) - heights.max())
    below = np.cumsum(density)
    return np.asarray(np.interp(np.array(NODES) * below[-1], below, grid))


def _effects(battles: Battles, paths: list[Path]) -> Estimate | None:
    """Return the coefficients of the covariates, in units of their scale."""
    if not battles.covariates:
        return None
    value, cov = mixed([(path.slopes, path.slopes_cov) for path in paths])
    scale = np.array([covariate.scale for covariate in battles.covariates])
    names = [covariate.name for covariate in battles.covariates]
    return Estimate(names, scale * value, cov * np.outer(scale, scale), links="identity")


def _moments(path: Path, gauge: Floats) -> tuple[Floats, Floats]:
    """Return scores (T, d1) on the gauge and their variances, which mean nothing before a model is present."""
    level, variance = path.covariance_with(gauge), np.zeros_like(gauge)
    for t, own, _ in path.covariances(np.full(gauge.shape[1], -1)):
        variance[t, : len(own)] = np.diag(own)
    return path.scores - np.sum(path.scores * gauge), variance - 2 * level + np.sum(level * gauge)


def _on_gauge(path: Path, gauge: Floats, times: Any, places: Any, cov: Floats) -> tuple[Floats, Floats]:
    """Return some scores and their covariance, less the mean level of all."""
    level = path.covariance_with(gauge)
    here = level[times, places]
    scores = path.scores[times, places] - np.sum(path.scores * gauge)
    return scores, cov - here[:, None] - here + float(np.sum(level * gauge))


def mixed(parts: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Return mean and covariance (or variances) of an equal mixture, given those of its parts.

    >>> mixed([(np.array([0.0]), np.array([1.0])), (np.array([2.0]), np.array([3.0]))])
    (array([1.]), array([3.]))
    """
    means, covs = (np.array(part) for part in zip(*parts, strict=True))
    mean = means.mean(axis=0)
    away = means - mean
    spread = away**2 if covs.ndim == means.ndim else away[:, :, None] * away[:, None, :]
    return mean, (covs + spread).mean(axis=0)
