"""Two models head to head in every context, and all pairs at once."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from scipy.special import expit

from lrbtl.boards.board_assembly import Options, build_board
from lrbtl.boards.board_scores import LowRankEngine
from lrbtl.boards.components import Island, Weights, analyse_islands, with_context
from lrbtl.boards.newcomers import place_outside
from lrbtl.data.battles import Battles
from lrbtl.data.labels import context_name, shown_context
from lrbtl.errors import SeparationError, TargetError
from lrbtl.fitting.options import Method, Run
from lrbtl.inference.estimate import ELO
from lrbtl.inference.joint import max_gap_quantile, max_t_quantile, normal_quantile
from lrbtl.methods.standard_errors import pair_widening, tail_widening
from lrbtl.methods.targets import Resolved, SparseGradient
from lrbtl.model.links import Link
from lrbtl.tables import format_intervals, format_numbers, html_table, text_table, to_frame
from lrbtl.typing import Floats, Longs, Progress, Rank, Ridge, Seed

ROWS_SHOWN = 15


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Model a against model b, overall and in every context; arrays have one entry per context, the overall one first.

    Attributes
    ----------
    a, b : str
    contexts : tuple of str
        "overall", then the contexts.
    gap, lower, upper, joint_lower, joint_upper : arrays
        Elo points by which a is ahead, with the limits of its interval: each by itself, and all contexts together.
    win, win_lower, win_upper, win_joint_lower, win_joint_upper : arrays
        Probability that a beats b, likewise; overall it is the one at the mean gap.
    battles, won : arrays
        Direct battles between the two, and the share that a won (NaN without battles; a tie is half a win).
    level : float
    method : str
    """

    a: str
    b: str
    contexts: tuple[str, ...]
    gap: Floats
    lower: Floats
    upper: Floats
    joint_lower: Floats
    joint_upper: Floats
    battles: Longs
    won: Floats
    level: float
    method: str

    @property
    def win(self) -> Floats:
        """Probabilities that a beats b."""
        return np.asarray(expit(self.gap / ELO))

    @property
    def win_lower(self) -> Floats:
        """Lower limits of `win`."""
        return np.asarray(expit(self.lower / ELO))

    @property
    def win_upper(self) -> Floats:
        """Upper limits of `win`."""
        return np.asarray(expit(self.upper / ELO))

    @property
    def win_joint_lower(self) -> Floats:
        """Lower limits of `win`, right for all contexts at once."""
        return np.asarray(expit(self.joint_lower / ELO))

    @property
    def win_joint_upper(self) -> Floats:
        """Upper limits of `win`, right for all contexts at once."""
        return np.asarray(expit(self.joint_upper / ELO))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the table as plain lists."""
        names = ("gap", "lower", "upper", "joint_lower", "joint_upper")
        wins = ("win", "win_lower", "win_upper", "win_joint_lower", "win_joint_upper")
        columns = {name: getattr(self, name).tolist() for name in (*names, *wins, "battles", "won")}
        return {"context": list(self.contexts), **columns}

    def to_frame(self, backend: str | None = None) -> Any:
        """Return `to_dict` as a frame; `backend` is "pandas", "polars" or "pyarrow", None the first installed."""
        return to_frame(self.to_dict(), backend)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        headers = ["context", "gap", "interval", "joint", "wins", "interval", "joint", "battles", "won"]
        gap = ["" if number == "nan" else number for number in format_numbers(self.gap, 0)]
        single = format_intervals(self.lower, self.upper, 0)
        joint = format_intervals(self.joint_lower, self.joint_upper, 0)
        win = ["" if np.isnan(x) else f"{x:.1%}" for x in self.win]
        sides = [
            [f"{x:.0%}" for x in side]
            for side in (self.win_lower, self.win_upper, self.win_joint_lower, self.win_joint_upper)
        ]
        rows = [
            [
                context,
                gap[k],
                single[k],
                joint[k],
                win[k],
                f"{sides[0][k]} to {sides[1][k]}",
                f"{sides[2][k]} to {sides[3][k]}",
                f"{self.battles[k]:,}",
                "" if np.isnan(self.won[k]) else f"{self.won[k]:.1%}",
            ]
            for k, context in enumerate(self.contexts)
        ]
        return headers, rows

    def _heading(self) -> str:
        return (
            f"{self.a} against {self.b}: gap in Elo points and probability that {self.a} wins; {self.level:.4g} "
            f"intervals, each by itself and (joint) all at once; {self.method}"
        )

    def __repr__(self) -> str:
        headers, rows = self._table()
        return f"{self._heading()}\n{text_table(headers, rows)}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._heading())}</p>" + html_table(*self._table())


def compare(
    battles: Battles,
    a: Any,
    b: Any,
    *,
    rank: Rank = "auto",
    weights: Weights = None,
    level: float = 0.95,
    method: Method = "efficient",
    n_folds: int = 10,
    ridge: Ridge = "auto",
    link: str | Link = "logistic",
    n_threads: int = 1,
    rng: Seed = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Return gap and win probability of two models, overall and in every context, with intervals.

    Parameters
    ----------
    battles : Battles
    a, b : label or code
        The models.
    rank, weights, level, method, n_folds, ridge, link, n_threads, rng, progress
        See `leaderboard`.

    Returns
    -------
    Comparison
        Gaps, win probabilities, pointwise and joint intervals, direct battles.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((8, 3), 2, scale=2, rng=0)
    >>> result = lrbtl.compare(lrbtl.simulate_battles(truth, 20_000, rng=1), 0, 1, rank=2)
    >>> result.contexts, bool((result.joint_lower < result.lower).all())
    (('overall', '0', '1', '2'), True)
    """
    run = Run(rank, method, n_folds, ridge, link, n_threads, rng)
    run.check(battles.shape)
    normal_quantile(level)
    i, j = battles.model_index(a), battles.model_index(b)
    if i == j:
        raise TargetError(f"{a!r} is compared with itself: name two different models.")
    islands = analyse_islands(battles, weights, run, wanted=[i, j], progress=progress)
    if len(islands) != 1:
        raise SeparationError(f"no chain of battles links {a!r} with {b!r}: nothing can be said of their gap.")
    island = islands[0]
    i, j = (island.battles.model_index(battles.models[k]) for k in (i, j))
    contexts = [None, *island.contexts()]
    boards = np.array([island.weights_of(context) for context in contexts])
    gap, lower, upper, joint_lower, joint_upper = ELO * _gaps(island, i, j, boards, level, rng)
    fought, won = _direct(island.battles, i, j, boards)
    return Comparison(
        a=str(island.battles.models[i]),
        b=str(island.battles.models[j]),
        contexts=tuple(shown_context(None if u is None else context_name(u)) for u in contexts),
        gap=gap,
        lower=lower,
        upper=upper,
        joint_lower=joint_lower,
        joint_upper=joint_upper,
        battles=fought,
        won=won,
        level=level,
        method=island.engine.info.method,
    )


def _gaps(island: Island, i: int, j: int, boards: Floats, level: float, rng: Seed) -> Floats:
    """Return gap, limits and joint limits (5, n) of each board, given by its weights (n, D)."""
    engine = island.engine
    if isinstance(engine, LowRankEngine) and np.isin([i, j], engine.inside).all():
        a, b = np.searchsorted(engine.inside, [i, j])
        found = engine.steps.moments([_gap_target(a, b, weights) for weights in boards])
        cov = found.reported_cov()
        se = np.sqrt(np.diag(cov))
        joint = max_t_quantile(cov / np.outer(se, se), level, rng)
        z = normal_quantile(level)
        reaches = (z * se, joint * tail_widening(joint, found.variance_noise) * se)
        limits = (found.values + side * reach for reach in reaches for side in (-1.0, 1.0))
        return engine.unit * np.array([found.values, *limits])
    shared = 1.0 - (1.0 - level) / len(boards)
    single, joint_limits = ([_gap_limits(island, i, j, weights, x) for weights in boards] for x in (level, shared))
    return np.array([[*one, *both[1:]] for one, both in zip(single, joint_limits, strict=True)]).T


def _gap_target(a: int, b: int, weights: Floats) -> Resolved:
    used = np.flatnonzero(weights)
    models = np.repeat([a, b], used.size)
    both = np.concatenate([weights[used], -weights[used]])
    return Resolved(f"gap {a} {b}", "identity", SparseGradient(models, np.tile(used, 2), both))


def _gap_limits(island: Island, i: int, j: int, weights: Floats, level: float) -> tuple[float, float, float]:
    """Return the gap on one board and its limits, also where a model is placed from outside the core."""
    found = island.engine.scores(weights, win_rates=False)
    place = {int(k): position for position, k in enumerate(found.inside)}
    z = normal_quantile(level)
    if i in place and j in place:
        a, b = place[i], place[j]
        gap = float(found.values[a] - found.values[b])
        half = z * float(np.sqrt(found.cov[a, a] + found.cov[b, b] - 2 * found.cov[a, b]))
        return gap, gap - half, gap + half
    ends = []
    for k in (i, j):
        if k in place:
            middle, half = float(found.values[place[k]]), z * float(np.sqrt(found.cov[place[k], place[k]]))
            ends.append((middle, half, half))
        else:
            at = place_outside(island.battles, k, found.inside, found.by_context, found.cov, weights, level=level)
            ends.append((at.score, at.score - at.lower, at.upper - at.score))
    (first, down, up), (second, rival_down, rival_up) = ends
    gap = first - second
    if np.isnan(gap):
        return gap, -np.inf, np.inf
    return gap, gap - float(np.hypot(down, rival_up)), gap + float(np.hypot(up, rival_down))


def _direct(battles: Battles, i: int, j: int, boards: Floats) -> tuple[Longs, Floats]:
    """Return the direct battles in the contexts of each board, and the share that i won."""
    cells = battles.cells
    pair = (cells.a == min(i, j)) & (cells.b == max(i, j))
    y = cells.y[pair] if i < j else 1.0 - cells.y[pair]
    used = (boards > 0)[:, cells.context[pair]]
    fought = used @ cells.count[pair]
    won = used @ (cells.count[pair] * y)
    return fought.astype(np.int64), np.divide(won, fought, out=np.full(len(boards), np.nan), where=fought > 0)


@dataclass(frozen=True, eq=False, repr=False)
class WinMatrix:
    """Probabilities that one model beats another, for all pairs.

    Attributes
    ----------
    models : tuple of str
        Best first.
    win, lower, upper : arrays (n, n)
        Entry [a, b]: probability that a beats b, and its limits; NaN, 0 and 1 where battles say nothing.
    context : str or None
    level : float
    joint : bool
        Whether the intervals hold for all pairs at once.
    """

    models: tuple[str, ...]
    win: Floats
    lower: Floats
    upper: Floats
    context: str | None
    level: float
    joint: bool

    def to_dict(self) -> dict[str, list[Any]]:
        """Return all ordered pairs as plain lists: a, b, win, lower, upper."""
        a, b = np.nonzero(~np.eye(len(self.models), dtype=np.bool_))
        names = np.array(self.models, dtype=object)
        parts = {"win": self.win, "lower": self.lower, "upper": self.upper}
        columns = {name: matrix[a, b].tolist() for name, matrix in parts.items()}
        return {"a": names[a].tolist(), "b": names[b].tolist(), **columns}

    def to_frame(self, backend: str | None = None) -> Any:
        """Return `to_dict` as a frame."""
        return to_frame(self.to_dict(), backend)

    def __repr__(self) -> str:
        n = min(len(self.models), ROWS_SHOWN)
        where = shown_context(self.context)
        kind = "jointly" if self.joint else "each by itself"
        lines = [f"Win probabilities, {where}: row beats column; {self.level:.4g} intervals {kind} in lower and upper"]
        headers = ["model", *(str(k + 1) for k in range(n))]
        rows = [
            [f"{k + 1} {self.models[k]}", *("" if k == m else f"{self.win[k, m]:.0%}" for m in range(n))]
            for k in range(n)
        ]
        if n < len(self.models):
            rows.append([f"and {len(self.models) - n} more models", *[""] * n])
        return "\n".join([*lines, text_table(headers, rows)])


def win_matrix(
    battles: Battles,
    context: Any = None,
    *,
    rank: Rank = "auto",
    weights: Weights = None,
    level: float = 0.95,
    joint: bool = False,
    method: Method = "efficient",
    n_folds: int = 10,
    ridge: Ridge = "auto",
    link: str | Link = "logistic",
    n_threads: int = 1,
    rng: Seed = 0,
    progress: Progress | None = None,
) -> WinMatrix:
    """Return the probability that each model beats each other one, with intervals.

    Parameters
    ----------
    battles : Battles
    context : label or None
        A context; None: at the mean gap over contexts.
    joint : bool
        Intervals that hold for all pairs at once.
    rank, weights, level, method, n_folds, ridge, link, n_threads, rng, progress
        See `leaderboard`.

    Returns
    -------
    WinMatrix

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[30, 10])
    >>> lrbtl.win_matrix(battles).win.round(2)
    array([[0.5 , 0.75],
           [0.25, 0.5 ]])
    """
    run = Run(rank, method, n_folds, ridge, link, n_threads, rng)
    run.check(battles.shape)
    name = None if context is None else battles.context_title(context)
    islands = analyse_islands(battles, weights, run, progress=progress)
    options = Options(level, "logit", None, rng)
    parts = [
        build_board(island.battles, island.engine, options, name, island.weights_of(context))[1]
        for island in with_context(islands, battles, context)
    ]
    models = tuple(model for part in parts for model in part.models)
    win, lower, upper = (np.full((len(models), len(models)), fill) for fill in (np.nan, 0.0, 1.0))
    start = 0
    for part in parts:
        here = slice(start, start + len(part.models))
        widen: float | Floats = 1.0
        if joint:
            known = np.isfinite(np.diag(part.cov))
            critical = max_gap_quantile(part.cov[np.ix_(known, known)], level, rng)
            widen = critical * pair_widening(critical, part.variance_noise) / normal_quantile(level)
        for matrix, side in ((win, 0), (lower, -1), (upper, 1)):
            matrix[here, here] = part.matrix(side, part.models, widen)
        start = here.stop
    return WinMatrix(models, win, lower, upper, name, level, joint)
