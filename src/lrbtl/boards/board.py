"""Leaderboards as data: one board, and the boards of all contexts, with their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

import numpy as np

from lrbtl.data.labels import context_name, find_label, shown_context
from lrbtl.errors import UnknownContextError
from lrbtl.fitting.fit import Fit
from lrbtl.inference.summary import Provenance
from lrbtl.tables import (
    ELLIPSIS,
    decimals_for,
    format_intervals,
    format_numbers,
    html_table,
    shown_rows,
    text_table,
    to_frame,
)
from lrbtl.typing import Floats, Longs

Scale = Literal["elo", "logit", "probability"]

HEADERS = ("model", "rank", "score", "interval", "ranks", "joint", "tier", "battles", "win rate", "note")
UNCERTAIN = ("interval", "ranks", "joint", "tier")  # columns of boards with intervals
SCALE_WORDS = {
    "elo": "Elo points",
    "logit": "log odds",
    "probability": "probability to beat a model of the pool",
}
ROWS_SHOWN = 60
SMALLEST_GAIN = 1.02  # below it, low rank gains nothing worth telling


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboard:
    """One board: models from best to worst, then those that have no place; arrays of shape (n,).

    Attributes
    ----------
    context : str or None
        The context; None for the overall board.
    models : tuple of str
    score, lower, upper, se : arrays
        On `scale`; an infinite `lower` or `upper` means that the battles give no limit on that side. A model without an
        upper limit (unbeaten) has its lower limit as score; one without a lower limit has none (NaN).
    rank : array of int
        One plus the number of models with a better score. Models that have no place come last and share a rank: those
        without a score, and those noted for few battles whose interval is wider than the board.
    best, worst : arrays of int
        Ranks compatible with the intervals of the models taken one at a time.
    rank_lower, rank_upper : arrays of int
        Simultaneous rank intervals: all hold at once with probability `level`.
    tier : array of int
        Models of one tier are not distinguishable from its first model without a note.
    battles, win_rate : arrays
        Battles fought, and the share of them won (a tie is half a win).
    notes : tuple of str
        What to know of a model; empty for most.
    level : float
    scale : "elo", "logit" or "probability"
    method : str
    info : Provenance
        How the board was made, with notes on the board as a whole.
    gain : float or None
        Median ratio of the standard errors of separate fits per context to those of this board; about 1 where low rank
        gains nothing, infinite where separate fits do not exist.
    islands : tuple of Leaderboard
        Boards of the models that no chain of battles links with this board's models: scores of different islands cannot
        be compared, so they are never merged.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((3,), 1, scale=1, rng=0), 900, rng=1)
    >>> board = lrbtl.leaderboard(battles)
    >>> board.models[0], board.rank.tolist(), board.islands
    ('model_1', [1, 2, 3], ())
    """

    context: str | None
    models: tuple[str, ...]
    score: Floats
    lower: Floats
    upper: Floats
    se: Floats
    rank: Longs
    best: Longs
    worst: Longs
    rank_lower: Longs
    rank_upper: Longs
    tier: Longs
    battles: Longs
    win_rate: Floats
    notes: tuple[str, ...]
    level: float
    scale: str
    method: str
    info: Provenance
    gain: float | None = None
    islands: tuple[Leaderboard, ...] = ()

    def __len__(self) -> int:
        return len(self.models)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists; with islands their rows follow, and a column `island` tells them apart.

        Examples
        --------
        >>> import lrbtl
        >>> board = lrbtl.leaderboard(lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[30, 10]))
        >>> board.to_dict()["model"], [round(score) for score in board.to_dict()["score"]]
        (['x', 'y'], [1095, 905])
        """
        parts = [self, *self.islands]
        tables = [_columns(part) for part in parts]
        table = {name: [x for part in tables for x in part[name]] for name in tables[0]}
        if self.islands:
            table["island"] = [k for k, part in enumerate(parts, 1) for _ in part.models]
        return table

    def to_frame(self, backend: str | None = None) -> Any:
        """Return `to_dict` as a frame; `backend` is "pandas", "polars" or "pyarrow", None the first installed."""
        return to_frame(self.to_dict(), backend)

    def summary(self, top: int | None = None) -> str:
        """Return the board as text: all models, or the `top` best; by default long boards lose their middle."""
        shown = [text_board(part, top) for part in (self, *self.islands)]
        if self.islands:
            shown.insert(
                1, f"\nNo battle links the next {len(self.islands)} group(s) with these models: boards of their own."
            )
        return "\n".join(shown)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        parts = []
        for board in (self, *self.islands):
            heading = "<br>".join(escape(line.strip()) for line in heading_lines(board))
            parts.append(f"<p>{heading}</p>" + html_table(*board_table(board, ROWS_SHOWN)))
        return "".join(parts)


def _columns(board: Leaderboard) -> dict[str, list[Any]]:
    arrays = {
        "score": board.score,
        "lower": board.lower,
        "upper": board.upper,
        "rank": board.rank,
        "best": board.best,
        "worst": board.worst,
        "rank_lower": board.rank_lower,
        "rank_upper": board.rank_upper,
        "tier": board.tier,
        "battles": board.battles,
        "win_rate": board.win_rate,
    }
    return {
        "model": list(board.models),
        **{name: array.tolist() for name, array in arrays.items()},
        "note": list(board.notes),
    }


def heading_lines(board: Leaderboard) -> list[str]:
    """Return what a reader must know of a board, in a few lines."""
    size = f"{len(board):,} models, {int(board.battles.sum()) // 2:,} battles"
    lines = [f"Leaderboard, {shown_context(board.context)}: {size}"]
    run = [board.method]
    if board.info.rank is not None and len(board.info.rank) > 1:
        run.append("rank " + " × ".join(map(str, board.info.rank)))
    if board.info.n_folds:
        run.append(f"{board.info.n_folds} folds")
    words = [", ".join(run), f"scores in {SCALE_WORDS[board.scale]}"]
    if has_intervals(board):
        words.append(f"{board.level:.4g} intervals")
    lines.append(f"  {'; '.join(words)}")
    if board.gain is not None:
        lines.append(f"  {gain_sentence(board.gain)}")
    return lines + [f"  {note}" for note in board.info.notes]


def gain_sentence(gain: float) -> str:
    """Return what sharing between contexts gained.

    Examples
    --------
    >>> gain_sentence(1.46)
    'against separate fits per context: standard errors 1.46 times smaller, worth 2.1 times the battles'
    >>> gain_sentence(0.99)
    'against separate fits per context: no gain in standard errors here'
    """
    if not np.isfinite(gain):
        return "separate fits per context do not exist for most models here; sharing between contexts gives every score"
    if gain < SMALLEST_GAIN:
        return "against separate fits per context: no gain in standard errors here"
    return (
        f"against separate fits per context: standard errors {gain:.2f} times smaller, worth {gain**2:.1f} times the "
        "battles"
    )


def board_table(board: Leaderboard, limit: int) -> tuple[list[str], list[list[str]]]:
    """Return headers and cells of the printed table, with a row of ellipses where rows were left out."""
    head, tail = shown_rows(len(board), limit)
    decimals = decimals_for(board.se, 2, 4)
    if board.scale == "elo":
        decimals = int(decimals > 1 and np.isfinite(board.se).any())
    score = ["–" if number == "nan" else number for number in format_numbers(board.score, decimals)]
    interval = format_intervals(board.lower, board.upper, decimals)
    headers = [name for name in HEADERS if has_intervals(board) or name not in UNCERTAIN]

    def row(k: int) -> list[str]:
        cells = {
            "model": str(board.models[k]),
            "rank": str(board.rank[k]),
            "score": score[k],
            "interval": interval[k],
            "ranks": f"{board.best[k]}-{board.worst[k]}",
            "joint": f"{board.rank_lower[k]}-{board.rank_upper[k]}",
            "tier": str(board.tier[k]),
            "battles": f"{board.battles[k]:,}",
            "win rate": "" if np.isnan(board.win_rate[k]) else f"{board.win_rate[k]:.1%}",
            "note": board.notes[k],
        }
        return [cells[name] for name in headers]

    rows = [row(k) for k in head]
    if tail:
        rows.append([ELLIPSIS] * (len(headers) - 1) + [""])
        rows.extend(row(k) for k in tail)
    return headers, rows


def has_intervals(board: Leaderboard) -> bool:
    """Return whether a board has intervals; FastChat's has none."""
    return not np.isnan(board.lower).all()


def text_board(board: Leaderboard, top: int | None = None) -> str:
    """Return heading and table of one board."""
    headers, rows = board_table(board, ROWS_SHOWN if top is None else len(board))
    rows = rows if top is None else rows[:top]
    table = text_table(headers[:-1], [row[:-1] for row in rows]).splitlines()
    notes = ["", *(row[-1] for row in rows)]
    lines = [f"{line}  {note}".rstrip() for line, note in zip(table, notes, strict=True)]
    return "\n".join([*heading_lines(board), *lines])


@dataclass(frozen=True, eq=False)
class Lazy(Mapping[Any, Floats]):
    """A mapping from context to matrix whose values are made when read."""

    keys_: tuple[Any, ...]
    make: Callable[[Any], Floats]

    def __getitem__(self, key: Any) -> Floats:
        if key not in self.keys_:
            raise KeyError(key)
        return self.make(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys_)

    def __len__(self) -> int:
        return len(self.keys_)


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboards(Mapping[str, Leaderboard]):
    """Boards of all contexts: a mapping from context label to `Leaderboard`, in the order of the labels.

    Attributes
    ----------
    overall : Leaderboard
    models : tuple of str
        All models, best first by the overall board.
    win, win_lower, win_upper : mappings
        From context (None: overall) to an (n, n) array in the order of `models`; entry [a, b] is the probability that
        a beats b and the limits of its interval. Overall, it is the probability at the mean gap.
    islands : tuple of Leaderboards
        Boards of models that no chain of battles links with these.
    fit : Fit or None
        The low-rank fit behind the boards, for `diagnose` and `plot_scree`.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((6, 3), 1, scale=1.5, rng=0)
    >>> boards = lrbtl.leaderboard(lrbtl.simulate_battles(truth, 9000, rng=1), context="all", rank=1)
    >>> list(boards), boards.overall.models == boards.models, boards.win[None].shape
    (['0', '1', '2'], True, (6, 6))
    """

    overall: Leaderboard
    boards: dict[str, Leaderboard]
    win: Mapping[Any, Floats] = field(default_factory=dict)
    win_lower: Mapping[Any, Floats] = field(default_factory=dict)
    win_upper: Mapping[Any, Floats] = field(default_factory=dict)
    islands: tuple[Leaderboards, ...] = ()
    fit: Fit | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """All models, best first overall."""
        return self.overall.models

    def __getitem__(self, context: Any) -> Leaderboard:
        if context is None:
            return self.overall
        labels = list(self.boards)
        name = context_name(context)
        found = find_label({label: k for k, label in enumerate(labels)}, name, "context", UnknownContextError)
        return self.boards[labels[found]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.boards)

    def __len__(self) -> int:
        return len(self.boards)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return all rows as plain lists, with the context as first column ("overall" first)."""
        tables = [
            (name, board.to_dict())
            for part in (self, *self.islands)
            for name, board in [(None, part.overall), *part.boards.items()]
        ]
        columns: dict[str, list[Any]] = {
            "context": [shown_context(name) for name, table in tables for _ in table["model"]],
        }
        for key in tables[0][1]:
            columns[key] = [x for _, table in tables for x in table[key]]
        if self.islands:
            sizes = [
                (k, len(board)) for k, part in enumerate((self, *self.islands), 1) for board in part._with_overall()
            ]
            columns["island"] = [k for k, size in sizes for _ in range(size)]
        return columns

    def _with_overall(self) -> list[Leaderboard]:
        return [self.overall, *self.boards.values()]

    def to_frame(self, backend: str | None = None) -> Any:
        """Return `to_dict` as a frame; `backend` is "pandas", "polars" or "pyarrow", None the first installed."""
        return to_frame(self.to_dict(), backend)

    def summary(self, top: int | None = None) -> str:
        """Return all boards as text; of each context the `top` best, by default ten."""
        texts = [self.overall.summary(top)]
        texts += [board.summary(top or 10) for board in self.boards.values()]
        texts += [part.summary(top) for part in self.islands]
        return "\n\n".join(texts)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return "".join(board._repr_html_() for board in self._with_overall())
