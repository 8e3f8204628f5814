"""Ratings over time: a random walk per model, bands, and a test of drift."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from scipy.special import ndtri

from lrbtl.boards.compat import BASE_RATING
from lrbtl.boards.components import linked_models
from lrbtl.data.battles import Battles
from lrbtl.data.labels import find_label, index_labels
from lrbtl.data.periods import check_time, with_periods
from lrbtl.errors import (
    IslandWarning,
    PeriodError,
    TooLargeError,
    UnknownContextError,
    UnknownModelError,
    check_whole,
    warn_user,
)
from lrbtl.fitting.walk import Path, TimedVotes, fit_walk
from lrbtl.inference.estimate import ELO, Estimate
from lrbtl.inference.joint import normal_quantile
from lrbtl.methods.base import Provenance
from lrbtl.tables import (
    format_intervals,
    format_numbers,
    format_pvalues,
    html_table,
    mark_gap,
    shown_rows,
    text_table,
    to_frame,
)
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Longs

LARGEST = 1 << 28  # numbers in the matrices of all periods
ROWS_SHOWN = 40
MOVERS_SHOWN = 5
DRIFT_LEVEL = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class History:
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
        Standard deviation of a model's move from one period to the next, in Elo points, by marginal likelihood.
    effects : array
        Slopes of the battles' covariates, which all periods share.
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

    models: tuple[Any, ...]
    periods: tuple[Any, ...]
    score: Floats
    lower: Floats
    upper: Floats
    se: Floats
    votes: Longs
    step: float
    effects: Floats
    level: float
    info: Provenance
    path: Path
    places: Longs  # (models,) positions of the models in the path
    gauge: Floats  # (periods, models of the path) weights whose sum of scores is zero
    ends: Longs  # (models, 2) periods of the first and the last vote

    def at(self, period: Any) -> Estimate:
        """Return the scores of the models present in a period, with their covariance, in log odds."""
        t = self._period(period)
        here = np.flatnonzero((self.ends[:, 0] <= t) & (self.ends[:, 1] >= t))
        cov = next(own for s, own, _ in self.path.covariances(self._nowhere) if s == t)
        at = self.places[here]
        level, spread = self._level
        cov = cov[np.ix_(at, at)] - level[t, at][:, None] - level[t, at] + spread
        return Estimate([str(self.models[k]) for k in here], self._scores(t, at), cov, links="identity", info=self.info)

    def of(self, model: Any) -> Estimate:
        """Return the scores of a model over time, with their covariance, in log odds."""
        k = self.row(model)
        first, last = self.ends[k].tolist()
        times, at = np.arange(first, last + 1), int(self.places[k])
        level, spread = self._level
        cov = self.path.model_covariance(at, (first, last)) - level[times, at][:, None] - level[times, at] + spread
        labels = [str(self.periods[t]) for t in times]
        return Estimate(labels, self._scores(times, at), cov, links="identity", info=self.info)

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
        variance = np.zeros(kept.size)
        for t, own, cross in self.path.covariances(ends):
            here, there = at[starts == t], at[stops == t]
            variance[starts == t] += own[here, here] - 2 * cross[here, here]
            variance[stops == t] += own[there, there]
        scores = self.path.scores
        moved = scores[stops, at] - scores[starts, at]
        names = [str(self.models[k]) for k in kept]
        return Estimate(names, moved, None, se=np.sqrt(variance), links="identity", info=self.info)

    def movers(self, level: float = DRIFT_LEVEL) -> tuple[Any, ...]:
        """Return the models that drift between their first and last votes, with Holm's correction for all models."""
        if not (kept := self._spans(None, None)[0]).size:
            return ()
        found = self.drift().pvalue
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
        return np.full(self.path.scores.shape[1], -1)

    @property
    def _level(self) -> tuple[Floats, float]:
        """Covariance of all scores with the mean level, and the variance of that."""
        level = self.path.covariance_with(self.gauge)
        return level, float(np.sum(level * self.gauge))

    def _scores(self, times: Any, places: Any) -> Floats:
        return np.asarray(self.path.scores[times, places] - np.sum(self.path.scores * self.gauge))

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

    def to_frame(self, backend: str | None = None) -> Any:
        """Return `to_dict` as a frame; `backend` is "pandas", "polars" or "pyarrow", None the first installed."""
        return to_frame(self.to_dict(), backend)

    def heading(self) -> list[str]:
        """Return what a reader must know: size, the walk, and who drifts."""
        first = (
            f"History of {len(self.models):,} models over {len(self.periods):,} periods, {self.periods[0]} to "
            f"{self.periods[-1]}: {int(self.votes.sum()) // 2:,} votes"
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
            since = self.periods[self.ends[self.row(model), 0]]
            words.append(f"{model} since {since} {change_words(one)}")
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
            "in": [str(self.periods[t]) for t in last],
            "since": [str(self.periods[t]) for t in self.ends[rows, 0]],
            "change": ["" if np.isnan(x) else f"{x:+.0f}" for x in change[rows]],
            "±": ["" if np.isnan(x) else f"{x:.0f}" for x in error[rows]],
            "p": ["" if p == "nan" else p for p in format_pvalues(pvalue[rows])],
            "votes": [f"{n:,}" for n in self.votes[rows].sum(axis=1)],
        }
        return list(columns), mark_gap(list(columns.values()), len(self.models))

    def __repr__(self) -> str:
        first, *more = self.heading()
        return "\n".join([first, *(f"  {line}" for line in more), text_table(*self._table())])

    def _repr_html_(self) -> str:
        return f"<p>{'<br>'.join(map(escape, self.heading()))}</p>" + html_table(*self._table())


def change_words(change: Estimate) -> str:
    """Return a change with its standard error and test.

    >>> change_words(Estimate(["x"], [-0.138], None, se=[0.052], links="identity"))
    '-24 ± 9 (p = 0.008)'
    """
    p = format_pvalues(change.pvalue)[0]
    p = p.replace("<", "< ") if p.startswith("<") else f"= {p}"
    return f"{ELO * change.estimate[0]:+.0f} ± {ELO * change.se[0]:.0f} (p {p})"


def holm(pvalues: Floats, level: float) -> Bools:
    """Return which hypotheses are rejected so that none is wrongly with probability 1 - level.

    >>> holm(np.array([0.01, 0.04, 0.02]), 0.05).tolist()
    [True, True, True]
    """
    order = np.argsort(pvalues, kind="stable")
    passed = pvalues[order] <= level / np.arange(len(pvalues), 0, -1)
    out = np.zeros(len(pvalues), dtype=np.bool_)
    out[order] = np.cumprod(passed).astype(np.bool_)
    return out


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
    """Return ratings over time: each model's score walks from period to period, as far as the votes say so.

    Scores of a period lean on those before and after, the more the less they differ over time, which the votes
    themselves tell (the variance of a step has the largest marginal likelihood). Time and memory grow linearly with
    the number of periods. Ties count as half a win. Contexts other than time are pooled.

    Parameters
    ----------
    battles : Battles, data frame or dict of columns
    time : str
        Of battles, the context mode that holds the periods, whose levels are in order of time; by default the only
        mode. Of a frame, its column of times: dates, ISO texts, years, or seconds since 1970.
    period : "day", "week", "month", "quarter", "year", int or None
        Of a frame: the length of a period, or a number of periods with equally many rows. None takes the values of the
        column as they are.
    min_battles : int
        Models with fewer votes are left out of the mean of all ratings.
    level : float
        Of the bands, each by itself.
    **columns
        Of a frame: the options of `Battles.from_frame`.

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
    battles, mode, periods = _read(battles, time, period, columns)
    if len(periods) < 2:
        raise PeriodError(f"all battles are in one period, {periods[0]!r}: a history needs two or more.")
    groups = linked_models(battles)
    if len(groups) > 1:
        left = sum(group.size for group in groups[1:])
        warn_user(f"{left} models that no votes link with the others are left out of the history.", IslandWarning)
    votes, members = _timed_votes(battles, mode, periods, groups[0])
    if (size := int(np.sum(votes.present.astype(np.int64) ** 2))) > LARGEST:
        raise TooLargeError(
            f"the matrices of {len(periods):,} periods and {members.size:,} models have {size:,} numbers: use longer "
            "periods, or battles.top_models(n)."
        )
    return _story(battles, fit_walk(votes), members, periods, min_battles, level, pooled=len(battles.levels) > 1)


def _read(
    battles: Any, time: str | None, period: str | int | None, columns: dict[str, Any]
) -> tuple[Battles, int, tuple[Any, ...]]:
    """Return the battles, the mode of their periods, and the periods in order."""
    if isinstance(battles, Battles):
        if period is not None or columns:
            raise PeriodError("period= and names of columns are for frames: battles have their periods as a mode.")
        mode = check_time(time, battles.mode_names)
        return battles, mode, battles.levels[mode]
    if time is None:
        raise PeriodError("name the column of times: history(frame, time='date', period='month').")
    frame, known = with_periods(battles, time, period)
    found = Battles.from_frame(frame, contexts=time, **columns)
    return found, 0, found.levels[0] if known is None else known


def _timed_votes(battles: Battles, mode: int, periods: tuple[Any, ...], group: Longs) -> tuple[TimedVotes, Longs]:
    """Return the votes of a group by period, and the positions of its models in the order of their first vote."""
    cells = battles.cells
    place = {label: t for t, label in enumerate(periods)}
    of_level = np.array([place[label] for label in battles.levels[mode]])
    period = of_level[np.unravel_index(cells.context, battles.shape[1:])[mode]]
    inside = np.flatnonzero(np.isin(cells.a, group))
    inside = inside[np.argsort(period[inside], kind="stable")]
    first = np.full(len(battles.models), len(periods))
    for side in (cells.a, cells.b):
        np.minimum.at(first, side[inside], period[inside])
    members = group[np.argsort(first[group], kind="stable")]
    code = np.zeros(len(battles.models), dtype=np.int64)
    code[members] = np.arange(members.size)
    present = np.searchsorted(first[members], np.arange(len(periods)), side="right")
    count = cells.count[inside].astype(float)
    votes = TimedVotes(
        period[inside], code[cells.a[inside]], code[cells.b[inside]], cells.y[inside], count,
        np.zeros((inside.size, 0)), present,
    )  # fmt: skip
    return votes, members


def _story(
    battles: Battles, path: Path, members: Longs, periods: tuple[Any, ...], min_battles: int, level: float, pooled: bool
) -> History:
    votes, (T, d1) = path.votes, path.scores.shape
    fought = np.zeros((T, d1))
    for side in (votes.a, votes.b):
        np.add.at(fought, (votes.period, side), votes.count)
    seen = fought > 0
    ends = np.stack([np.argmax(seen, axis=0), T - 1 - np.argmax(seen[::-1], axis=0)], axis=1)
    inside = (np.arange(T)[:, None] >= ends[:, 0]) & (np.arange(T)[:, None] <= ends[:, 1])
    enough = fought.sum(axis=0) >= min_battles
    counted = inside & (enough if enough.sum() > 1 else True)
    gauge = counted / np.maximum(counted.sum(axis=0), 1) / counted.any(axis=0).sum()
    level_cov = path.covariance_with(gauge)
    variance = np.full((T, d1), np.nan)
    for t, own, _ in path.covariances(np.full(d1, -1)):
        variance[t, : len(own)] = np.diag(own) - 2 * level_cov[t, : len(own)] + np.sum(level_cov * gauge)
    score = np.where(inside, BASE_RATING + ELO * (path.scores - np.sum(path.scores * gauge)), np.nan).T
    se = np.where(inside, ELO * np.sqrt(np.maximum(variance, 0.0)), np.nan).T
    order = np.lexsort((-score[np.arange(d1), ends[:, 1]], ends[:, 1] < T - 1))
    reach = float(ndtri(0.5 + level / 2))
    others = ("categories are pooled",) if pooled else ()
    return History(
        models=tuple(battles.models[members[k]] for k in order),
        periods=periods,
        score=score[order],
        lower=(score - reach * se)[order],
        upper=(score + reach * se)[order],
        se=se[order],
        votes=fought.T[order].astype(np.int64),
        step=ELO * path.prior.step,
        effects=path.slopes,
        level=level,
        info=Provenance(method="random walk", n_battles=int(fought.sum()) // 2, level=level, notes=others),
        path=path,
        places=order,
        gauge=gauge,
        ends=ends[order],
    )
