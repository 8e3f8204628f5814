"""Leaderboards as data: one board, the boards of all contexts, and the one list of their columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date as Day
from datetime import datetime
from functools import cached_property
from html import escape
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lrbtl.boards.columns import COLUMNS, printed_columns
from lrbtl.boards.documents import board_document, read_document
from lrbtl.data.labels import OVERALL, SEPARATOR, context_name, find_label, is_hashable, shown_context, suggest_labels
from lrbtl.errors import (
    DocumentError,
    MissingColumnError,
    UnknownContextError,
    UnknownModelError,
    check_type,
    check_whole,
    spelled,
)
from lrbtl.fitting.low_rank import Fit
from lrbtl.inference.always_valid import Validity
from lrbtl.inference.analysis import Analysis
from lrbtl.inference.effects import EffectEstimate
from lrbtl.inference.estimate import Estimate
from lrbtl.inference.selection import Selected
from lrbtl.inference.verdicts import ELO, verdict_words
from lrbtl.methods.base import Provenance
from lrbtl.tables import ELLIPSIS, Framed, html_table, shown, shown_rows, text_table
from lrbtl.typing import Bools, Floats, Longs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lrbtl.boards.rank_sets import RankSets

BoardScale = Literal["elo", "logit", "probability"]
Status = Literal["ranked", "absent", "preliminary", "unplaced"]

STATUSES: tuple[Status, ...] = ("ranked", "absent", "preliminary", "unplaced")  # in the order of a board
SCALE_WORDS = {
    "elo": "Elo points",
    "logit": "log odds",
    "probability": "probability to beat a ranked model",
    "score": "the units of the results",
}
METHOD_WORDS = {
    "factor": "hierarchical factor model",
    "bradley-terry": "Bradley-Terry fit",
    "naive": "separate Bradley-Terry fits",
}
SIZES = {"elo": ELO, "logit": 1.0}  # of a unit of log odds, on scales of scores
BASE_RATING = 1000.0  # Elo points of the mean model
BOARDS_SHOWN = 12  # in a notebook
ROWS_SHOWN = 60
GAINS = 1.02, 10.0  # below, sharing between contexts gains nothing worth reporting; above, separate fits hardly exist
MOST_NAMED = 8  # effects that a heading spells out


@dataclass(frozen=True, eq=False)
class Basis:
    """What a board rests on: an analysis, the weights (D,) of its contexts, which models (d1,) are ranked, the anchor.

    The anchor is a model's position and its rating; None where the mean of the ranked models is given.
    """

    analysis: Analysis
    weights: Floats
    ranked: Bools
    anchor: tuple[int, float] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboard(Framed):
    """One board: ranked models from best to worst, then those without a rank; arrays of shape (n,).

    Attributes
    ----------
    context : label, tuple of labels or None
        The context; None for the overall board, None in a tuple for all levels of a mode.
    models : tuple
        The battles' own labels.
    score, lower, upper, se : arrays
        On `scale`; NaN for a model that has no score here.
    rank : array of int
        One plus the number of ranked models with a better score; 0 for a model without a rank.
    best, worst : arrays of int
        Ranks compatible with the intervals of the models taken one at a time, within those of all at once; 0 without a
        rank.
    rank_lower, rank_upper : arrays of int
        Simultaneous rank intervals: all hold at once with probability `level`; 0 without a rank.
    tier : array of int
        Models of one tier cannot be separated from its first model; 0 without a rank.
    battles, win_rate : arrays
        Votes in the board's contexts, and the share of them won (a tie is half a win).
    status : tuple of str
        "ranked"; "absent": no votes in the board's contexts; "preliminary": too few votes in all for a rank;
        "unplaced": the method gives no score.
    notes : tuple of str
        What to know of a model; empty for most.
    level : float
    scale : "elo", "logit", "probability", or "score" for results
    method : str
    info : Provenance
        How the board was made, with notes on the board as a whole.
    weighting : str
        How contexts are averaged, in words; empty where nothing is averaged.
    over_separate : float, function or None
        What `gain` is, or how it is found when it is first asked for.
    floor : float or None
        Score of the floor, where votes that both were bad are an outcome: a model below it is worse than nothing good.
    above_floor : array or None
        Probability that a model is better than the floor.
    effects : EffectEstimate, Estimate or None
        What covariates do to votes, where some are held fixed: scores are those of answers that are equal in them.
        Boards made as other packages do have their coefficients alone.
    verdict : tuple of str, or None without intervals
        Each ranked model against the first, and the first against the second: "ahead", "behind", "equivalent" within
        the margin or "cannot tell"; empty for a model without a rank.
    detectable_gap : array, function or None
        What `detectable` is, or how it is found when it is first asked for.
    margin : float or None
        Of what is called equivalent: Elo points, or below 0.5 win probability.
    weights : dict or None
        Weight of each context that counts, by its shown label; None where there are very many.
    digest : str
        SHA-256 of the battles, whatever the order of their rows; empty where it was not taken.
    islands : tuple of Leaderboard
        Boards of the models that no chain of battles links with this board's models: scores of different islands cannot
        be compared, so they are never merged.
    basis : Basis or None
        What the board rests on, for `changes`; boards read from files, unpickled or made by other packages' arithmetic
        have none.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((3,), 1, scale=1, rng=0), 900, rng=1)
    >>> board = lrbtl.leaderboard(battles)
    >>> board.models[0], board.rank.tolist(), board.status[0]
    ('model_1', [1, 2, 3], 'ranked')
    """

    context: Any
    models: tuple[Any, ...]
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
    status: tuple[str, ...]
    notes: tuple[str, ...]
    level: float
    scale: str
    method: str
    info: Provenance
    weighting: str = ""
    over_separate: float | Callable[[], float | None] | None = None
    verdict: tuple[str, ...] | None = None
    detectable_gap: Floats | Callable[[], Floats] | None = None
    margin: float | None = None
    weights: dict[str, float] | None = None
    digest: str = ""
    islands: tuple[Leaderboard, ...] = ()
    effects: Estimate | None = None
    basis: Basis | None = None
    floor: float | None = None
    above_floor: Floats | None = None

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, model: Any) -> BoardRow:
        """Return the row of a model, by label or by place from 0."""
        index = {label: k for k, label in enumerate(self.models)}
        k = find_label(index, model, "model", UnknownModelError)
        return BoardRow({column.name: column.values(self)[k] for column in COLUMNS if not column.needs_floor})

    def __iter__(self) -> Iterator[BoardRow]:
        """Yield the rows, best first."""
        columns = {column.name: column.values(self) for column in COLUMNS if not column.needs_floor}
        return (BoardRow({name: values[k] for name, values in columns.items()}) for k in range(len(self)))

    def __contains__(self, model: object) -> bool:
        return model in self.models

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "basis": None, "detectable_gap": self.detectable, "over_separate": self.gain}

    @cached_property
    def gain(self) -> float | None:
        """Median ratio of the errors of separate fits per context to those of this board; None where it is unknown."""
        return self.over_separate() if callable(self.over_separate) else self.over_separate

    @cached_property
    def detectable(self) -> Floats | None:
        """(n,) the smallest gaps in Elo points detectable with 80% power; or None."""
        return self.detectable_gap() if callable(self.detectable_gap) else self.detectable_gap

    def first(self) -> Selected:
        """Return the score of the first model with an interval that holds although it was picked for being first.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.simulate_battles(lrbtl.simulate_scores((3,), 1, scale=1, rng=0), 900, rng=1)
        >>> board = lrbtl.leaderboard(battles)
        >>> bool(board.first().lower < board.lower[0] and board.upper[0] < board.first().upper)
        True
        """
        if self.basis is None or self.scale not in SIZES:
            raise DocumentError("this board does not know the covariance of its scores: make it anew from votes.")
        basis, unit = self.basis, SIZES[self.scale] * self.basis.analysis.log_odds_unit
        (found,) = basis.analysis.estimate_boards(basis.weights[None], basis.ranked[None])
        best = found[np.flatnonzero(basis.ranked)].largest(self.level)
        score = float(self.score[0])
        low, high = (score + unit * (end - best.estimate) for end in (best.lower, best.upper))
        return Selected(self.models[0], score, low, high, best.among, self.level)

    @property
    def has_intervals(self) -> bool:
        """Whether there are intervals; FastChat's boards have none."""
        return not np.isnan(self.lower).all()

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists for JSON, None for what is missing.

        With islands their rows follow, and a column `island` numbers them.

        Examples
        --------
        >>> import lrbtl
        >>> board = lrbtl.leaderboard(lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[30, 10]))
        >>> board.to_dict()["model"], [round(score) for score in board.to_dict()["score"]]
        (['x', 'y'], [1092, 908])
        """
        parts = (self, *self.islands)
        columns = [column for column in COLUMNS if self.floor is not None or not column.needs_floor]
        table = {column.name: [x for part in parts for x in column.values(part)] for column in columns}
        if self.islands:
            table["island"] = [k for k, part in enumerate(parts, 1) for _ in part.models]
        return table

    def plot(self, **options: Any) -> Axes:
        """Return axes with a picture of the board; options are those of `plot_leaderboard`."""
        ax: Axes = import_module("lrbtl.show.plots").plot_leaderboard(self, **options)
        return ax

    def to_json(self, title: str = "Leaderboard", *, date: datetime | Day | str | None = None) -> str:
        """Return the board as JSON of a published schema (`Leaderboard.json_schema()`), which `from_json` reads.

        `date` stands in the document, by default now; with a given one the same board gives the same text.

        Examples
        --------
        >>> import lrbtl
        >>> board = lrbtl.leaderboard(lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[30, 10]))
        >>> lrbtl.Leaderboard.from_json(board.to_json()).models
        ('x', 'y')
        """
        return _to_json(self, title, date)

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """Return the JSON schema of what `to_json` writes.

        Examples
        --------
        >>> import lrbtl
        >>> lrbtl.Leaderboard.json_schema()["$id"]
        'lrbtl-board-1'
        """
        found: dict[str, Any] = json.loads(files("lrbtl.boards").joinpath("board.schema.json").read_text("utf-8"))
        return found

    @classmethod
    def from_json(cls, text: str) -> Leaderboard:
        """Return the board that `to_json` or a .json file holds; of the boards of all contexts the overall one."""
        found = read_document(text, Leaderboard, Leaderboards)
        return found.overall if isinstance(found, Leaderboards) else found

    def heading(self) -> list[str]:
        """Return what a reader must know of the board: its size, how it was made, and notes."""
        votes, absent = int(self.battles.sum()) // 2, self.status.count("absent")
        counted = count_of(int(self.battles.sum()), "score") if self.scale == "score" else count_of(votes, "vote")
        first = f"Leaderboard, {shown_context(self.context)}: {len(self) - absent:,} models, {counted}"
        words = [method_words(self.info), f"scores in {SCALE_WORDS[self.scale]}"]
        if self.has_intervals:
            looks = "" if self.scale == "score" else f", {Validity.of(self.info).words()}"
            words.append(f"{100 * self.level:.4g}% intervals{looks}")
        lines = [f"{first}; {self.weighting}" if self.weighting else first, "; ".join(words)]
        if self.gain is not None and GAINS[0] <= self.gain <= GAINS[1]:
            lines.append(gain_sentence(self.gain))
        if isinstance(self.effects, EffectEstimate):
            shown = self.effects.sentences(self.level)
            more = [f"and {len(shown) - MOST_NAMED} more effects"] if len(shown) > MOST_NAMED else []
            lines += [f"held fixed: {words}" for words in [*shown[:MOST_NAMED], *more]]
        if self.floor is not None:
            lines.append(self._floor_sentence(self.floor))
        if self.margin is not None:
            lines.append(f"verdicts against the first, each by itself: {verdict_words(self.margin, self.level)[0]}")
        return [*lines, *self.info.notes]

    def _floor_sentence(self, floor: float) -> str:
        """Return how many ranked models are above the floor, below it, or not separated from it."""
        ranked = self.rank > 0
        above, below = int((self.lower > floor)[ranked].sum()), int((self.upper < floor)[ranked].sum())
        sides = f"{above} are above it, {below} below, {int(ranked.sum()) - above - below} not separated from it"
        return f"the floor is {floor:,.{0 if self.scale == 'elo' else 2}f}: of the ranked models {sides}"

    def summary(self, top: int | None = None) -> str:
        """Return the board as text: all models, or the `top` best; by default long boards lose their middle."""
        shown = [_text_board(part, top) for part in (self, *self.islands)]
        if self.islands:
            shown.insert(1, "\n" + _before_islands(len(self.islands)))
        return "\n".join(shown)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        parts = []
        for board in (self, *self.islands):
            heading = "<br>".join(escape(shown(line)) for line in board.heading())
            parts.append(f"<p>{heading}</p>" + html_table(*_board_table(board, None)))
        return "".join(parts)


# ------------------------------------------------------------------------------
# Text and HTML: tables of the columns.
# ------------------------------------------------------------------------------


def _board_table(board: Leaderboard, top: int | None) -> tuple[list[str], list[list[str]]]:
    """Return headers and cells of the printed table: the `top` best, or all but the middle rows of a long board."""
    if top is not None:
        check_whole(top, "top")
    head, tail = shown_rows(len(board), ROWS_SHOWN) if top is None else (list(range(min(top, len(board)))), [])
    found = {column.header or "": column.show(board) for column in printed_columns(board) if column.show}
    cells = {header: [column[k] for k in (*head, *tail)] for header, column in found.items()}
    if not any(cells["status"]):
        del cells["status"]
    rows = [list(row) for row in zip(*cells.values(), strict=True)]
    gap = [[ELLIPSIS] * (len(cells) - 1) + [""]] if tail else []
    return list(cells), rows[: len(head)] + gap + rows[len(head) :]


def _text_board(board: Leaderboard, top: int | None, printed: Collection[str] = ()) -> str:
    """Return heading, but for what was printed before, and table of one board; notes follow the aligned columns."""
    headers, rows = _board_table(board, top)
    table = text_table(headers[:-1], [row[:-1] for row in rows]).splitlines()
    notes = ["", *(row[-1] for row in rows)]
    lines = [f"{line}  {note}".rstrip() for line, note in zip(table, notes, strict=True)]
    first, *more = board.heading()
    heading = [first, *(f"  {line}" for line in more if line not in printed)]
    return "\n".join([*map(shown, heading), *map(shown, lines)])


def _before_islands(n: int) -> str:
    """Return the sentence before the boards of n groups of models."""
    groups = "group has a board of its own" if n == 1 else f"{n} groups have boards of their own"
    return f"No votes link these models with the others: the next {groups}."


def count_of(n: int, what: str) -> str:
    """Return a number with its noun.

    >>> count_of(1, "vote"), count_of(2000, "tie")
    ('1 vote', '2,000 ties')
    """
    return f"{n:,} {what}{'s' * (n != 1)}"


def method_words(info: Provenance) -> str:
    """Return how scores were estimated.

    >>> method_words(Provenance(method="efficient", rank=(2, 2), n_folds=10))
    'efficient method, rank 2 × 2, 10 folds'
    >>> method_words(Provenance(method="bradley-terry"))
    'Bradley-Terry fit'
    """
    words = [METHOD_WORDS.get(info.method, f"{info.method} method")]
    if info.rank is not None and len(info.rank) > 1:
        words.append("rank " + " × ".join(map(str, info.rank)))
    if info.n_folds:
        words.append(f"{info.n_folds} folds")
    return ", ".join(words)


def gain_sentence(gain: float) -> str:
    """Return what sharing between contexts gained.

    >>> gain_sentence(1.25)
    'intervals 20% narrower than separate fits'
    """
    return f"intervals {1 - 1 / gain:.0%} narrower than separate fits"


# ------------------------------------------------------------------------------
# The boards of all contexts.
# ------------------------------------------------------------------------------


def find_context(known: Sequence[Any], context: Any) -> Any:
    """Return the context that a label means: a known one, or a text that names only one of them.

    >>> find_context([("math", "crowd"), ("math", "expert")], "math/expert")
    ('math', 'expert')
    """
    if context is None or (is_hashable(context) and context in set(known)):
        return context
    labels = [label for label in known if label is not None]
    wanted = _plain(context_name(context))
    found = [label for label in labels if isinstance(context, str) and shown_context(label) == context]
    found = found or [label for label in labels if _plain(context_name(label)) == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownContextError(f"{context!r} may be any of {found}: give the tuple of levels.", value=context)
    raise UnknownContextError(
        f"unknown context {spelled(context)}; {suggest_labels(context, map(shown_context, labels))}", value=context
    )


def _plain(name: str) -> str:
    return name.replace(SEPARATOR, SEPARATOR.strip())


@dataclass(frozen=True, eq=False)
class Lazy(Mapping[Any, Floats]):
    """A mapping from context to matrix whose values are made when read; a pickle holds them all."""

    contexts: tuple[Any, ...]
    make: Callable[[Any], Floats]

    def __getitem__(self, key: Any) -> Floats:
        return self.make(find_context(self.contexts, key))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.contexts)

    def __len__(self) -> int:
        return len(self.contexts)

    def __reduce__(self) -> tuple[Any, ...]:
        return Lazy, (self.contexts, dict(self).__getitem__)


class BoardRow(Mapping[str, Any]):
    """The row of a model on a board: a mapping from column to value, and the values as attributes.

    Examples
    --------
    >>> import lrbtl
    >>> board = lrbtl.leaderboard(lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[30, 10]))
    >>> row = board["x"]
    >>> row.rank, row["model"], round(row.score)
    (1, 'x', 1092)
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, column: str) -> Any:
        if not isinstance(column, str) or column not in self._values:
            raise MissingColumnError(
                f"a row of a board has no column {spelled(column)}; it has {', '.join(self._values)}.",
                argument="column",
            )
        return self._values[column]

    def __getattr__(self, column: str) -> Any:
        try:
            return self.__dict__["_values"][column]
        except KeyError:
            raise AttributeError(f"a row of a board has no {column!r}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        known = {name: value for name, value in self._values.items() if value not in (None, "")}
        return "\n".join(f"{name:<12} {shown(value)}" for name, value in known.items())


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboards(Framed, Mapping[Any, Leaderboard]):
    """Boards of all contexts: a mapping from context to `Leaderboard`, in the order of the labels.

    A context is the battles' own label: a level, or a tuple of levels for several modes. A text such as "math / crowd"
    is understood too, where it names one context only.

    Attributes
    ----------
    overall : Leaderboard
    models : tuple
        All models, best first by the overall board.
    win, win_lower, win_upper : mappings
        From context (None: overall) to an (n, n) array in the order of `models`; entry [a, b] is the probability that
        a beats b and the limits of its interval. Overall, it is the weighted mean over contexts.
    islands : tuple of Leaderboards
        Boards of models that no chain of battles links with these.
    fit : Fit or None
        The low-rank fit behind the boards, for `plot_scree`.
    analysis : Analysis or None
        The analysis behind the boards, for `diagnose`; a pickle lacks it.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((6, 3), 1, scale=1.5, rng=0)
    >>> boards = lrbtl.leaderboard(lrbtl.simulate_battles(truth, 9000, rng=1), context="all", rank=1)
    >>> list(boards), boards.overall.models == boards.models, boards.win[None].shape
    ([0, 1, 2], True, (6, 6))
    """

    overall: Leaderboard
    boards: dict[Any, Leaderboard]
    win: Mapping[Any, Floats] = field(default_factory=dict)
    win_lower: Mapping[Any, Floats] = field(default_factory=dict)
    win_upper: Mapping[Any, Floats] = field(default_factory=dict)
    islands: tuple[Leaderboards, ...] = ()
    fit: Fit | None = None
    analysis: Analysis | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"analysis": None}

    @property
    def models(self) -> tuple[Any, ...]:
        """All models, best first overall."""
        return self.overall.models

    def __getitem__(self, context: Any) -> Leaderboard:
        if isinstance(context, str) and context == OVERALL and context not in self.boards:
            return self.overall
        found = find_context(tuple(self.boards), context)
        return self.overall if found is None else self.boards[found]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.boards)

    def __len__(self) -> int:
        return len(self.boards)

    def rank_sets(self, level: float | None = None) -> RankSets:
        """Return rank sets that hold for all models in all contexts at once; see `lrbtl.rank_sets`.

        Boards that were read from a file or unpickled have no analysis to make them from.
        """
        from lrbtl.boards.rank_sets import rank_sets

        if self.analysis is None:
            raise DocumentError("these boards come without their analysis: make them anew with leaderboard(...).")
        return rank_sets(self.analysis, level=self.overall.level if level is None else level)

    def every(self) -> list[Leaderboard]:
        """Return the overall board and those of the contexts."""
        return [self.overall, *self.boards.values()]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return all rows as plain lists, with the context as first column ("overall" first)."""
        parts = [(k, board) for k, boards in enumerate((self, *self.islands), 1) for board in boards.every()]
        tables = [board.to_dict() for _, board in parts]
        columns: dict[str, list[Any]] = {
            "context": [shown_context(board.context) for _, board in parts for _ in board.models]
        }
        columns |= {name: [x for table in tables for x in table[name]] for name in tables[0]}
        if self.islands:
            columns["island"] = [k for k, board in parts for _ in board.models]
        return columns

    def plot(self, **options: Any) -> Axes:
        """Return axes with a picture of the board; options are those of `plot_leaderboard`."""
        ax: Axes = import_module("lrbtl.show.plots").plot_leaderboard(self, **options)
        return ax

    def to_json(self, title: str = "Leaderboard", *, date: datetime | Day | str | None = None) -> str:
        """Return all boards as JSON; see `Leaderboard.to_json`."""
        return _to_json(self, title, date)

    @classmethod
    def from_json(cls, text: str) -> Leaderboards:
        """Return the boards that `to_json` or a .json file holds, without win probabilities and fit."""
        found = read_document(text, Leaderboard, Leaderboards)
        return found if isinstance(found, Leaderboards) else Leaderboards(found, {})

    def heading(self) -> list[str]:
        """Return what a reader must know of the overall board."""
        return self.overall.heading()

    def summary(self, top: int | None = None) -> str:
        """Return all boards as text; of each context the `top` best, by default ten.

        Lines that hold for the overall board too are printed there only.
        """
        common = self.overall.heading()
        texts = [self.overall.summary(top)]
        texts += [_text_board(board, top or 10, common) for board in self.boards.values()]
        texts += [_before_islands(len(self.islands))] if self.islands else []
        texts += [part.summary(top) for part in self.islands]
        return "\n\n".join(texts)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        islands = f"<p>{_before_islands(len(self.islands))}</p>" if self.islands else ""
        every = self.every()
        parts = [board._repr_html_() for board in every[:BOARDS_SHOWN]]
        if len(every) > BOARDS_SHOWN:
            left = ", ".join(shown_context(board.context) for board in every[BOARDS_SHOWN:][:3])
            parts.append(f"<p>and {len(every) - BOARDS_SHOWN:,} more boards: {escape(shown(left))}, ...</p>")
        return "".join([*parts, islands, *(part._repr_html_() for part in self.islands)])


def _to_json(boards: Leaderboard | Leaderboards, title: str, date: datetime | Day | str | None) -> str:
    check_type(title, str, "title", "give a text")
    kind = "leaderboards" if isinstance(boards, Leaderboards) else "leaderboard"
    return (
        json.dumps(board_document(_every(boards), kind, title, date), indent=1, allow_nan=False, ensure_ascii=False)
        + "\n"
    )


def _every(boards: Leaderboard | Leaderboards) -> list[tuple[int, Leaderboard]]:
    """Return all boards with the number of their island, from 1."""
    if isinstance(boards, Leaderboard):
        return [(k, board) for k, board in enumerate((boards, *boards.islands), 1)]
    return [(k, board) for k, part in enumerate((boards, *boards.islands), 1) for board in part.every()]
