"""Battles: who met whom in which context and how it ended, as counted cells with labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from lrbtl.data import cells as _cells
from lrbtl.data import labels as _labels
from lrbtl.data.battle_summary import BattleSummary, added_notes
from lrbtl.data.build import Axis, build_cells, context_axes
from lrbtl.data.cells import Cells
from lrbtl.data.columns import Found, named_columns
from lrbtl.data.covariates import Carried, Covariate, VoteFields, check_same_fields, read_counts, scaled
from lrbtl.data.encode import Log, as_columns, as_names, as_table, column_names, encode, read_frame
from lrbtl.data.folds import check_folds, fold_counts
from lrbtl.data.item_logs import ItemColumns, open_items
from lrbtl.data.items import item_battles, read_items
from lrbtl.data.labels import find_label, index_labels
from lrbtl.data.outcomes import BothBad, Outcomes
from lrbtl.data.stored import Stored
from lrbtl.data.tags import TAG_MODE, read_tags, warn_of_copies
from lrbtl.errors import (
    ContextModeError,
    CountError,
    CovariateError,
    EmptyDataError,
    InputTypeError,
    LengthMismatchError,
    SelfBattleWarning,
    TooFewModelsError,
    VoteWeightError,
    as_floats,
    check_choice,
    check_type,
    check_whole,
    listed,
    warn_user,
)
from lrbtl.options import strict
from lrbtl.typing import Floats, Longs, Seed

Ties = Literal["half", "drop"]

FEW_MET = 50  # votes of a pair up to which all its votes count the same when pairs are reweighted, as in arena-rank


@dataclass(frozen=True, eq=False, repr=False)
class Battles(BattleSummary, Stored):
    """Battles between models, counted by distinct (context, a, b, y).

    Build them with `from_arrays`, `from_frame` or `scan`; add them with ``+``.

    Attributes
    ----------
    cells : Cells
        Distinct battles with multiplicities.
    models : tuple
        Labels of the models, mode 1.
    levels : tuple of tuples
        Labels of each context mode; empty when there are no contexts.
    mode_names : tuple of str
        Names of the context modes.
    n_self : int
        Battles of a model against itself that were dropped.
    covariates : tuple of Covariate
        Names, rules and scales of the columns of ``cells.slopes``.
    cluster_names : tuple of str
        Names of the columns of ``cells.clusters``.
    cluster_labels : tuple of tuples
        Labels of the codes in each of them.
    reweight : {"pairs"} or None
        Whether votes count inversely to how often their pair met.
    effects_by : {"all", "context"}
        Whether all battles share the effects of covariates, or those of a context.
    notes : tuple of str
        What a reader of any result should know of how they were read.
    tag_mode : str or None
        Name of the context mode whose levels are sets of tags, where there is one.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_frame({
    ...     "model_a": ["x", "y", "z"], "model_b": ["y", "x", "x"], "winner": ["model_a", "tie", "model_b"],
    ...     "task": ["math", "math", "code"]}, contexts="task")
    >>> battles
    Battles(shape=(3, 2), n_battles=3, n_cells=3)
    >>> battles.models, battles.levels
    (('x', 'y', 'z'), (('code', 'math'),))
    """

    cells: Cells
    models: tuple[Any, ...]
    levels: tuple[tuple[Any, ...], ...]
    mode_names: tuple[str, ...]
    n_self: int = 0
    covariates: tuple[Covariate, ...] = ()
    cluster_names: tuple[str, ...] = ()
    cluster_labels: tuple[tuple[Any, ...], ...] = ()
    reweight: str | None = None
    effects_by: str = "all"
    notes: tuple[str, ...] = ()
    tag_mode: str | None = None

    def __post_init__(self) -> None:
        if len(self.models) < 2:
            raise TooFewModelsError(f"only one model, {self.models[0]!r}, is compared; a battle needs two.")
        if not self.cells.n_cells:
            raise EmptyDataError(
                "no battles are left; check the filters and that some rows compare two different models."
            )

    @classmethod
    @strict
    def from_arrays(
        cls,
        model_a: Any,
        model_b: Any,
        outcome: Any,
        contexts: Any = (),
        *,
        n_models: int | None = None,
        n_levels: int | Sequence[int | None] | None = None,
        models: Sequence[Hashable] | None = None,
        levels: Sequence[Any] | None = None,
        counts: Any = None,
        covariates: Mapping[str, Any] | None = None,
        position: bool = False,
        weight: Any = None,
        cluster: Any = None,
        reweight: str | None = None,
    ) -> Battles:
        """Battles from columns of labels or of integer codes.

        Integer columns are codes 0, 1, ...; all other columns hold labels, which are sorted unless listed.

        Parameters
        ----------
        model_a, model_b : columns (n,)
            Lists, arrays or series.
        outcome : column (n,)
            1 or True if `model_a` won, 0 if `model_b` won, a number between for soft votes (½ for a tie), or the words
            that `from_frame` knows.
        contexts : sequence of columns, or one column
            One column per context mode.
        n_models, n_levels : int, sequence of int
            Numbers of models and of levels per mode, for integer codes. Default: largest code + 1.
        models, levels : sequences of labels
            Labels of the codes, or the list of all labels in the order wanted; ones without battles are kept.
        counts : column (n,) of integers
            How often each row happened.
        covariates, position, weight, cluster, reweight
            As in `from_frame`, with columns in the place of their names; several cluster columns are a mapping.

        Returns
        -------
        Battles

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays([0, 1, 2], [1, 2, 0], [1, 0.5, 0], counts=[5, 1, 2])
        >>> battles.shape, battles.n_battles, battles.cells.y.tolist()
        ((3,), 8, [1.0, 1.0, 0.5])
        """
        columns = as_columns(contexts)
        names = tuple(f"context {k + 1}" for k in range(len(columns)))
        axes = [Axis("models", models, n_models, integer_codes=True), *context_axes(names, levels, n_levels)]
        coded = [encode(column, name) for column, name in zip(columns, names, strict=True)]
        coded += [encode(model_a, "model_a"), encode(model_b, "model_b"), encode(outcome, "outcome")]
        count = None if counts is None else read_counts(counts, "counts")
        named = cluster if cluster is None or isinstance(cluster, Mapping) else {"cluster": cluster}
        carried = VoteFields.of(covariates, position, weight, named).read({}, len(coded[-1]))
        return cls._from_columns(coded, axes, count, carried, reweight, outcome_name="outcome")

    @classmethod
    @strict
    def from_frame(
        cls,
        frame: Any,
        *,
        model_a: str = "model_a",
        model_b: str = "model_b",
        winner: str = "winner",
        contexts: str | Sequence[str] | None = None,
        tags: str | Sequence[str] | None = None,
        outcomes: Outcomes | None = None,
        ties: Ties = "half",
        both_bad: BothBad = "tie",
        count: str | None = None,
        covariates: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        position: bool = False,
        weight: str | None = None,
        cluster: str | Sequence[str] | None = None,
        reweight: str | None = None,
    ) -> Battles:
        """Battles from a data frame with one row per battle (or per group of equal battles).

        Parameters
        ----------
        frame : data frame
            pandas, polars, pyarrow, a dict of columns, or a lazy frame of Polars, DuckDB, ibis, Dask, PySpark or
            SQLFrame, whose engine groups the rows: only distinct ones come back.
        model_a, model_b, winner : str
            Column names. `winner` holds words, the name of the winner, or numbers in [0, 1]: 1 (or True) if `model_a`
            won.
        contexts : str or sequence of str, optional
            Columns that become the context modes, in this order. By default one with a common name such as "category",
            which a note names; () for none.
        tags : str or sequence of str, optional
            Categories of which a vote may have several: a column of lists, or of text with "," ";" or "|" between them;
            or a list of columns of 0 and 1. Every vote counts once. The sets of tags that occur, such as
            ``{code, math}``, are the levels of a first context mode; a tag stands for all sets that contain it.
        outcomes : mapping, optional
            Meaning of further outcome words: a number in [0, 1] for `model_a`, a known word, or None to drop such rows.
            Known are, in any case: model_a, a, left, A>B and the like, tie, draw, equal, both_bad, tie (bothbad), ...
        ties : {"half", "drop"}
            Whether outcomes of ½ count as half a win for both or are dropped.
        both_bad : {"tie", "drop", "outcome"}
            Whether votes that both were bad are ties, dropped, or an outcome of their own.
        count : str, optional
            Column with the number of times a row happened.
        covariates : str, sequence of str or mapping, optional
            What else may have moved votes: columns with a number for `model_a` against `model_b`, or
            ``{"length": ("tokens_a", "tokens_b", "relative")}`` for a pair of columns and the rule that makes one
            number of them: "relative", (a - b) / (a + b) and 0 where both are 0 (the default); "relative+1",
            (a - b) / (a + b + 1); "difference"; "log", log(1 + a) - log(1 + b). They are scaled to a root mean square
            of 1 but never centred: that would make scores depend on the side on which a row is written.
        position : bool
            Whether `model_a` was shown first, and that may have moved votes.
        weight : str, optional
            Column of non-negative weights of the votes: scores are those of the population that they describe.
        cluster : str or sequence of str, optional
            Columns such as the voter, session or prompt within which votes are not independent. Folds keep clusters
            of the first one together, errors allow for all of them.
        reweight : {"pairs"}, optional
            Give every vote of a pair of models the weight 1 / max(n, 50), n the number of votes of the pair.

        Returns
        -------
        Battles
            Labels are sorted and those that occur.

        Examples
        --------
        >>> import lrbtl
        >>> frame = {"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": ["model_a", "left"], "n": [2, 3]}
        >>> battles = lrbtl.Battles.from_frame(frame, outcomes={"left": 1}, count="n")
        >>> battles.cells.y.tolist(), battles.cells.count.tolist()
        ([0.0, 1.0], [3, 2])
        """
        frame = as_table(frame)
        names, said = named_columns(frame, model_a, model_b, winner, contexts, count, tags)
        options: dict[str, Any] = {"outcomes": outcomes, "ties": ties, "both_bad": both_bad, "covariates": covariates}
        options |= {"position": position, "weight": weight, "cluster": cluster, "reweight": reweight}
        battles = cls.from_columns(frame, names, **options)
        return replace(battles, notes=(*battles.notes, *said)) if said else battles

    @classmethod
    def from_columns(
        cls,
        frame: Any,
        found: Found,
        *,
        outcomes: Outcomes | None = None,
        ties: Ties = "half",
        both_bad: BothBad = "tie",
        covariates: Any = None,
        position: bool = False,
        weight: str | None = None,
        cluster: str | Sequence[str] | None = None,
        reweight: str | None = None,
    ) -> Battles:
        """Battles of a frame or log whose columns are all named; see `from_frame`."""
        check_type(found, Found, "found", "give what find_columns returned, or use from_frame")
        check_choice(ties, ("half", "drop"), "ties", InputTypeError)
        names, count = found.contexts, found.count
        model_a, model_b, winner = found.model_a, found.model_b, found.winner
        tags = found.tags[0] if len(found.tags) == 1 else found.tags or None
        wanted = [*names, model_a, model_b, winner]
        tagged = list(found.tags)
        fields = VoteFields.of(covariates, position, weight, cluster)
        needed = [*wanted, *tagged, *fields.names, *([] if count is None else [count])]
        columns, times = read_frame(frame, needed, tagged, grouped=not fields.names)
        coded = [encode(columns[name], name) for name in wanted]
        if names and count is None and isinstance(frame, Log):
            warn_of_copies([frame.head[name] for name in wanted], names)
        if names and count is None and times is None:
            rest = [name for name in column_names(frame) if name not in (*wanted, *tagged, weight)]
            warn_of_copies(coded, names, lambda: read_frame(frame, rest)[0].items())
        if tags is not None:
            coded, names = [read_tags(columns, tags), *coded], (TAG_MODE, *names)
        axes = [Axis(name, None, None, integer_codes=False) for name in ("models", *names)]
        counts = times if count is None else read_counts(columns[count], count) * (1 if times is None else times)
        carried = fields.read(columns, len(coded[-1]))
        words = {"outcome_name": winner, "outcomes": outcomes, "ties": ties, "both_bad": both_bad}
        battles = cls._from_columns(coded, axes, counts, carried, reweight, sides=(model_a, model_b), **words)
        return battles if tags is None else replace(battles, tag_mode=TAG_MODE)

    @classmethod
    @strict
    def from_items(
        cls,
        frame: Any,
        *,
        model: str = "model",
        item: str = "item",
        correct: str = "correct",
        contexts: Any = "benchmark",
        samples: str | None = None,
    ) -> Battles:
        """Return battles of results per item: of two models that met the same item, the right one beats the wrong one.

        Given that one of two models is right, the difficulty of the item cancels (Rasch): scores are log odds to be
        right on an item of any difficulty. Items are clusters, as a single one decides many battles.

        Parameters
        ----------
        frame : data frame, dict of columns, file or folder
            One row per model and item, or per sample of it. Files are tables, the samples of lm-evaluation-harness
            (`--log_samples`), or Inspect logs.
        model, item : str
            Columns of models and items; items of different contexts are different, whatever they are called.
        correct : str
            Column with 0 or 1, true or false, "C" or "I", or the share of right samples. Where a column of the default
            name is missing, a common name is guessed, and said: `doc_id`, `acc`, `task`, ...
        contexts : str or list of str
            Column of benchmarks, and of further modes; () for none.
        samples : str, optional
            Column with the number of samples behind each share.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_items({
        ...     "model": ["x", "y", "x", "y"], "item": [1, 1, 2, 2], "benchmark": ["math"] * 4,
        ...     "correct": [True, False, False, True]})
        >>> battles.n_battles, battles.cluster_names
        (2, ('item',))
        """
        log = open_items(frame, ItemColumns(model, item, correct, as_names(contexts, "contexts"), samples))
        names, item = log.columns.contexts, log.columns.item
        table = read_items(log)
        first, second, outcome, weight, items = item_battles(table)
        levels = [_labels.sort_labels(labels, name) for labels, name in zip(table.contexts, names, strict=True)]
        coded = [
            np.array([names_here.index(label) for label in labels], dtype=np.int64)[items]
            for names_here, labels in zip(levels, table.contexts, strict=True)
        ]
        found = cls.from_arrays(
            first, second, outcome, coded, models=table.models, levels=levels or None, weight=weight, cluster=items
        )
        note = f"pairs of models on the same {item}: {table.n_items:,} items"
        return replace(found, mode_names=names, cluster_names=(item,), notes=(note, *log.notes))

    @classmethod
    def _from_columns(
        cls,
        coded: list[Any],
        axes: list[Axis],
        counts: Longs | None,
        carried: Carried | None = None,
        reweight: str | None = None,
        **options: Any,
    ) -> Battles:
        if reweight is not None:
            check_choice(reweight, ("pairs",), "reweight", VoteWeightError)
        votes = None if carried is None else carried.votes
        cells, labels, n_self, said = build_cells(coded, axes, counts, votes=votes, **options)
        if n_self:
            warn_user(
                f"{n_self:,} battles of a model against itself were dropped: check the model columns if they are many.",
                SelfBattleWarning,
            )
        battles = cls(cells, labels[0], tuple(labels[1:]), tuple(axis.what for axis in axes[1:]), n_self, notes=said)
        if carried is None:
            return battles if reweight is None else replace(battles, reweight=reweight)
        return replace(
            battles,
            covariates=scaled(carried.covariates, cells),
            cluster_names=carried.cluster_names,
            cluster_labels=carried.cluster_labels,
            reweight=reweight,
        )

    @cached_property
    def vote_weights(self) -> Floats | None:
        """Weight of one vote of each cell, (n_cells,); None where all count the same."""
        cells = self.cells
        if self.reweight is None:
            return cells.weight
        pair = cells.a.astype(np.int64) * len(self.models) + cells.b
        _, number = np.unique(pair, return_inverse=True)
        met = np.bincount(number, cells.count)[number]
        return np.asarray((1.0 if cells.weight is None else cells.weight) / np.maximum(met, FEW_MET))

    def controlling(self, names: Iterable[str] | None = None, effects: str = "shared") -> Battles:
        """Return the same votes with the effects of some covariates, by default of all; of none with an empty list.

        Examples
        --------
        >>> import lrbtl
        >>> frame = {"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": [1, 1], "n_a": [5, 9], "n_b": [2, 4]}
        >>> battles = lrbtl.Battles.from_frame(frame, covariates={"length": ("n_a", "n_b")}, position=True)
        >>> [c.name for c in battles.controlling(["position"]).covariates], battles.controlling([]).n_cells
        (['position'], 2)
        """
        check_choice(effects, ("shared", "by_context"), "effects", CovariateError)
        index = {covariate.name: k for k, covariate in enumerate(self.covariates)}
        given = [names] if isinstance(names, str) else names
        wanted = list(index) if given is None else listed(given, "control", "name covariates", CovariateError)
        kept = sorted({find_label(index, name, "covariate", CovariateError) for name in wanted})
        found = self if effects == "shared" else replace(self, effects_by="context")
        if len(kept) == len(index):
            return found
        slopes = None if not kept or self.cells.slopes is None else self.cells.slopes[:, kept]
        votes = None if self.cells.votes is None else replace(self.cells.votes, slopes=slopes)
        cells = _cells.merged(self.cells, votes, n_models=len(self.models))
        return replace(found, cells=cells, covariates=tuple(self.covariates[k] for k in kept))

    def __add__(self, more: Battles) -> Battles:
        """Battles of both, over the union of their labels."""
        if not isinstance(more, Battles):
            return NotImplemented
        if self.mode_names != more.mode_names:
            raise ContextModeError(
                f"battles with contexts {self.mode_names} and {more.mode_names} cannot be added; "
                "the modes must be the same."
            )
        check_same_fields(self, more)
        models = _labels.union_labels(self.models, more.models, "models")
        levels = tuple(map(_labels.union_labels, self.levels, more.levels, self.mode_names))
        labels = tuple(map(_labels.union_labels, self.cluster_labels, more.cluster_labels, self.cluster_names))
        parts = [side._recoded(models, levels, labels) for side in (self, more)]
        merged = _cells.merge_cells(*parts, n_models=len(models), n_contexts=prod(map(len, levels)))
        notes = added_notes(self.notes, more.notes)
        kept = replace(self, cells=merged, models=models, levels=levels, cluster_labels=labels, notes=notes)
        return replace(kept, n_self=self.n_self + more.n_self, covariates=scaled(self.covariates, merged))

    def __radd__(self, start: object) -> Battles:
        """Battles of a list of battles: ``sum(days)`` begins with 0."""
        return self if start == 0 else NotImplemented

    def _recoded(
        self,
        models: tuple[Any, ...],
        levels: tuple[tuple[Any, ...], ...],
        clusters: tuple[tuple[Any, ...], ...] | None = None,
    ) -> Cells:
        """Return the cells under other labels; `clusters` are those of the cluster columns, where they change."""
        if clusters is not None and clusters != self.cluster_labels:
            return replace(self, cells=self._with_cluster_codes(clusters))._recoded(models, levels)
        if models == self.models and levels == self.levels:
            return self.cells
        sizes = {"n_models": len(models), "n_contexts": prod(map(len, levels))}
        model_map = _labels.map_labels(self.models, index_labels(models, "models"))
        return _cells.recode_cells(self.cells, model_map, _labels.map_contexts(self.levels, levels), **sizes)

    def _with_cluster_codes(self, labels: tuple[tuple[Any, ...], ...]) -> Cells:
        codes = np.array(self.cells.clusters)
        for k, (old, new) in enumerate(zip(self.cluster_labels, labels, strict=True)):
            codes[:, k] = _labels.map_labels(old, index_labels(new, self.cluster_names[k]))[codes[:, k]]
        return replace(self.cells, clusters=codes.astype(np.int32))

    def select(
        self,
        models: Iterable[object] | None = None,
        contexts: Iterable[object] | Mapping[str, Iterable[object]] | None = None,
    ) -> Battles:
        """Battles between the listed models in the listed contexts.

        Parameters
        ----------
        models : labels or codes, optional
            Battles in which both models are listed are kept.
        contexts : mapping of mode name to levels, or a list of levels when there is one mode
            Battles at other levels are left out; modes not named keep all levels.

        Returns
        -------
        Battles
            The listed labels in their present order, also those without battles.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays([0, 1, 0], [1, 2, 2], [1, 0, 1], ["code", "math", "math"])
        >>> battles.select(models=[1, 2]).n_battles, battles.select(contexts=["math"]).shape
        (1, (3, 1))
        """
        for given, what in ((models, "models"), (contexts, "contexts")):
            if given is not None and (isinstance(given, str | bytes) or not isinstance(given, Iterable)):
                raise InputTypeError(f"{what}={given!r}: give a list of them.")
        kept = list(self.levels)
        for name, wanted in _labels.name_modes(contexts, self.mode_names).items():
            mode = find_label({n: k for k, n in enumerate(self.mode_names)}, name, "context mode", ContextModeError)
            found = {code for level in wanted for code in self.codes_of(mode, level)}
            kept[mode] = tuple(self.levels[mode][k] for k in sorted(found))
        codes = range(len(self.models)) if models is None else sorted({self.model_index(model) for model in models})
        labels = tuple(self.models[k] for k in codes)
        if not (all(kept) and labels):
            raise EmptyDataError("an empty list of models or levels selects no battles.")
        if (labels, tuple(kept)) == (self.models, self.levels):
            return self
        return replace(self, cells=self._recoded(labels, tuple(kept)), models=labels, levels=tuple(kept))

    def top_models(self, n: int) -> Battles:
        """Battles among the n models with most battles; equal numbers are broken by label order.

        Examples
        --------
        >>> import lrbtl
        >>> lrbtl.Battles.from_arrays([0, 1, 1], [1, 2, 2], [1, 0, 1]).top_models(2).models
        (1, 2)
        """
        check_whole(n, "n", error=InputTypeError)
        return self.select(models=[self.models[k] for k in np.argsort(-self.model_counts, kind="stable")[:n]])

    def pooled(self) -> Battles:
        """Return the same battles without contexts (order 1).

        Examples
        --------
        >>> import lrbtl
        >>> lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 1], ["code", "math"]).pooled().cells.count.tolist()
        [2]
        """
        d1, everywhere = len(self.models), np.zeros(self.n_contexts, dtype=np.int64)
        cells = _cells.recode_cells(self.cells, np.arange(d1), everywhere, n_models=d1, n_contexts=1)
        return replace(self, cells=cells, levels=(), mode_names=())

    def with_counts(self, counts: ArrayLike) -> Battles:
        """Battles with the same labels and other multiplicities of the cells; cells with 0 are left out.

        Examples
        --------
        >>> import lrbtl
        >>> lrbtl.Battles.from_arrays([0, 0], [1, 2], [1, 1]).with_counts([5, 0]).n_battles
        5
        """
        count = read_counts(as_floats(counts, "counts", CountError), "counts")
        if count.shape != self.cells.count.shape:
            raise LengthMismatchError(f"counts have shape {count.shape}, but there are {self.n_cells} cells.")
        return replace(self, cells=_cells.with_counts(self.cells, count))

    def split(self, n_folds: int, rng: Seed = 0) -> list[tuple[Battles, Battles]]:
        """Training and held-out battles of each fold of a random partition, stratified by context.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays([0, 1, 0], [1, 2, 2], [1, 0, 1], counts=[10, 10, 10])
        >>> [(train.n_battles, held_out.n_battles) for train, held_out in battles.split(3)]
        [(20, 10), (20, 10), (20, 10)]
        """
        check_folds(self, n_folds)
        folds = fold_counts(self.cells, n_folds, rng)
        return [(self.with_counts(self.cells.count - fold), self.with_counts(fold)) for fold in folds]

    def __repr__(self) -> str:
        return f"Battles(shape={self.shape}, n_battles={self.n_battles}, n_cells={self.n_cells})"
