"""Results: scores of models on benchmarks, entries of a matrix or tensor; the data beside battles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from lrbtl.data.battles import Battles
from lrbtl.data.cells import Cells
from lrbtl.data.encode import as_names, column_names, used_codes
from lrbtl.data.features import Features, read_features
from lrbtl.data.item_logs import ItemColumns, open_items
from lrbtl.data.items import Accuracies, ItemTable, accuracies, pooled, read_items
from lrbtl.data.labels import Labelled, context_name, sort_labels
from lrbtl.data.logs import open_log
from lrbtl.data.scales import LARGEST, PERCENT, REAL, Scale, choose_scales, scales_of_units
from lrbtl.data.scores import LongScores, looks_long, read_long, read_wide
from lrbtl.errors import (
    EmptyDataError,
    LabelError,
    ObservationError,
    ScoreError,
    TooLargeError,
    as_floats,
    check_flag,
    check_whole,
    listed,
)
from lrbtl.typing import Bools, Floats, Longs

Scales = Mapping[Any, Any] | str | None


@dataclass(frozen=True, eq=False, repr=False)
class Results(Labelled):
    """Scores of models on benchmarks: observed entries of a matrix or tensor.

    Results take the place of battles in `infer`, `leaderboard`, `fit`, ...: mode 1 is called models, the other modes
    contexts, and nothing is centred. Build them with `from_frame`, `from_wide`, `from_arrays` or `scan`.

    Attributes
    ----------
    cells : Cells
        Distinct scores with multiplicities; b is -1.
    models, levels : tuples
        Labels along mode 1 and along each other mode.
    mode_names : tuple of str
        Names of modes 2, 3, ...
    variance : array (n_cells,) or None
        Known variance of the noise of each cell.
    scales : tuple of Scale
        What the scores of each context (D,) are measured in.
    notes : tuple of str
        What a reader of any result should know of how they were read.
    common_variance : array (D,) or None
        Variance of noise that all scores of a benchmark share, on the logit scale, where items are known.
    features : Features or None
        What is known of models beforehand.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.Results.from_frame({
    ...     "model": ["x", "x", "y"], "benchmark": ["math", "code", "math"], "score": [71.5, 40.0, 65.0]})
    Results(shape=(2, 2), n_observations=3, n_cells=3)
    """

    cells: Cells
    models: tuple[Any, ...]
    levels: tuple[tuple[Any, ...], ...]
    mode_names: tuple[str, ...]
    variance: Floats | None = None
    scales: tuple[Scale, ...] = ()
    notes: tuple[str, ...] = ()
    common_variance: Floats | None = None
    features: Features | None = None
    unit: ClassVar[str] = "observations"

    @classmethod
    def from_arrays(
        cls,
        indices: Any,
        values: ArrayLike,
        *,
        shape: Sequence[int],
        variance: ArrayLike | None = None,
        models: Sequence[Any] | None = None,
        levels: Sequence[Sequence[Any]] | None = None,
        mode_names: Sequence[str] | None = None,
        scales: Sequence[Scale] | None = None,
    ) -> Results:
        """Return results from indices and values.

        Parameters
        ----------
        indices : integers (n, m), or a tuple of m columns (n,)
            Position of each score.
        values : column (n,)
            What was observed: real numbers, or 0 and 1 for one-bit links.
        shape : (d1, ..., dm)
        variance : number or column (n,), optional
            Known variance of the noise of each score.
        models : labels (d1,), optional
            By default positions.
        levels : lists of labels of the other modes, optional
        mode_names : names of the other modes, optional
        scales : list of Scale, one per context, optional
            By default scores are real numbers.

        Examples
        --------
        >>> import lrbtl, numpy as np
        >>> ratings = np.array([[5.0, np.nan], [np.nan, 2.0], [4.0, 1.0]])
        >>> seen = np.nonzero(~np.isnan(ratings))
        >>> lrbtl.Results.from_arrays(seen, ratings[seen], shape=ratings.shape).n_battles
        4
        """
        sizes = tuple(listed(shape, "shape", "give (d1, ..., dm)", ObservationError))
        for size in sizes or (0,):
            check_whole(size, "a size of shape", error=ObservationError)
        check_cells(sizes)
        y = _column(values, None, "values")
        if not y.size:
            raise EmptyDataError("there are no observations; give at least one.")
        columns = _index_columns(indices, sizes, y.size)
        noise = None if variance is None else _column(variance, y.size, "variance")
        if noise is not None and noise.min() <= 0:
            raise ObservationError("`variance` must be positive; leave observations without noise out of it.")
        flat = np.ravel_multi_index(columns[1:], sizes[1:]) if len(sizes) > 1 else np.zeros(y.size, dtype=np.int64)
        keys = (flat, columns[0], y) if noise is None else (flat, columns[0], y, noise)
        order = np.lexsort(keys[::-1])
        new = np.ones(y.size, dtype=bool)
        new[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
        first = np.flatnonzero(new)
        kept = order[first]
        start = np.searchsorted(flat[kept], np.arange(prod(sizes[1:]) + 1))
        cells = Cells(
            flat[kept].astype(np.int32),
            columns[0][kept].astype(np.int32),
            np.full(len(kept), -1, dtype=np.int32),
            y[kept],
            np.diff(np.append(first, y.size)),
            start.astype(np.int64),
        )
        given = [None] * (len(sizes) - 1) if levels is None else list(levels)
        named = [_axis_labels(labels, size) for labels, size in zip([models, *given], sizes, strict=True)]
        names = tuple(f"mode {k + 2}" for k in range(len(given))) if mode_names is None else tuple(mode_names)
        kinds = (REAL,) * prod(sizes[1:]) if scales is None else tuple(scales)
        return cls(cells, named[0], tuple(named[1:]), names, None if noise is None else noise[kept], kinds)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        model: str = "model",
        contexts: Any = "benchmark",
        score: str = "score",
        items: str | None = None,
        se: str | None = None,
        scales: Scales = None,
        lower_is_better: Iterable[Any] = (),
        features: Any = None,
    ) -> Results:
        """Return the results of a frame with one row per score.

        Parameters
        ----------
        frame : data frame, or dict of columns
            Of pandas, polars, pyarrow or another library.
        model, score : str
            Columns of models and scores. Rows without a score are left out, with a note.
        contexts : str or list of str
            Column of benchmarks, and of further modes such as languages.
        items : str, optional
            Column with the number of items behind each score: the noise of a share of them is binomial.
        se : str, optional
            Column with the standard error of each score.
        scales : dict or str, optional
            From benchmark to "percent", "proportion", "real" or (low, high), or one of these for all. What is not
            named is guessed, with a note. With several modes the keys are labels of the first one.
        lower_is_better : labels, optional
            Benchmarks in which a lower score is better.
        features : data frame, or dict of columns, optional
            What is known of models beforehand, one row each with a column "model": numbers such as size, dates, texts
            such as family. Levels of models are expected where features say, as far as they do.

        Examples
        --------
        >>> import lrbtl
        >>> results = lrbtl.Results.from_frame({
        ...     "model": ["x", "y", "x"], "benchmark": ["math", "code", "elo"], "score": [71.5, 100.0, 1250.0]})
        >>> results.notes
        ('scales guessed: 2 percent, 1 real (elo); scales= names others',)
        """
        names = as_names(contexts, "contexts")
        if not names:
            raise ObservationError("contexts is empty: name the column of benchmarks.")
        found = read_long(frame, model, names, score, {"items": items, "se": se})
        return with_features(_from_long(cls, found, scales, lower_is_better), features)

    @classmethod
    def from_wide(
        cls,
        frame: Any,
        *,
        model: str | None = None,
        contexts: str = "benchmark",
        scales: Scales = None,
        lower_is_better: Iterable[Any] = (),
        features: Any = None,
    ) -> Results:
        """Return the results of a frame with one row per model and one column per benchmark, missing cells empty.

        Parameters
        ----------
        frame : data frame, or dict of columns
        model : str, optional
            Column of models; by default one that is called so, else the first.
        contexts : str
            What the columns are, as name of the mode.
        scales, lower_is_better, features
            See `from_frame`.

        Examples
        --------
        >>> import lrbtl
        >>> results = lrbtl.Results.from_wide({"model": ["x", "y"], "math (%)": [71.5, None], "code": [40, 38]})
        >>> results.shape, results.levels, results.n_observations
        ((2, 2), (('code', 'math'),), 3)
        """
        return with_features(_from_long(cls, read_wide(frame, model, contexts), scales, lower_is_better), features)

    @classmethod
    def from_items(
        cls,
        frame: Any,
        *,
        model: str = "model",
        item: str = "item",
        correct: str = "correct",
        contexts: Any = "benchmark",
        samples: str | None = None,
        n_items: Mapping[Any, int] | str | None = None,
    ) -> Results:
        """Return accuracies in per cent of results per item, with the noise of samples and items.

        Parameters
        ----------
        frame, model, item, correct, contexts, samples
            See `Battles.from_items`.
        n_items : "these", mapping from benchmark to number, or None
            How many items the accuracy is asked for: of very many like these (default), of "these" alone, so that only
            samples are noise, or of a benchmark with so many, of which these are a part.

        Examples
        --------
        >>> import lrbtl
        >>> results = lrbtl.Results.from_items({
        ...     "model": ["x", "y"] * 4, "item": [1, 1, 2, 2, 3, 3, 4, 4], "benchmark": ["math"] * 8,
        ...     "correct": [1, 0, 1, 1, 0, 0, 1, 0]})
        >>> results.shape, results.cells.y
        ((2, 1), array([75., 25.]))
        """
        log = open_items(frame, ItemColumns(model, item, correct, as_names(contexts, "contexts"), samples))
        names = log.columns.contexts
        if not names:
            raise ObservationError("contexts is empty: name the column of benchmarks.")
        table = read_items(log)
        levels = [sort_labels(labels, name) for labels, name in zip(table.contexts, names, strict=True)]
        shape = (len(table.models), *map(len, levels))
        parts = zip(levels, table.contexts, strict=True)
        each = [np.array([here.index(label) for label in labels], dtype=np.int64) for here, labels in parts]
        flat = np.ravel_multi_index(tuple(each), shape[1:])
        known = {} if n_items is None or isinstance(n_items, str) else dict(n_items)
        if isinstance(n_items, str) and n_items != "these":
            raise ObservationError(f"n_items={n_items!r} is not 'these', a mapping from benchmark to number, or None.")
        contexts_met = np.unique(flat)
        found = [_item_accuracies(table, flat == context) for context in contexts_met]
        a, u, share, variance = [], [], [], []
        common = np.zeros(prod(shape[1:]))
        for context, here, (own, shared) in zip(contexts_met, found, pooled(found), strict=True):
            size = known.get(levels[0][np.unravel_index(context, shape[1:])[0]], np.inf)
            sampled = 1.0 if n_items == "these" else min(float(here.items.max()) / size, 1.0)
            met = np.flatnonzero(here.items)
            a.append(met)
            u.append(np.full(met.size, context))
            share.append(here.share[met])
            variance.append(here.own_variance(own, sampled)[met])
            common[context] = (1.0 - sampled) * shared / float(here.items.max())
        index = (np.concatenate(a), *np.unravel_index(np.concatenate(u), shape[1:]))
        out = cls.from_arrays(
            index,
            100.0 * np.concatenate(share),
            shape=shape,
            variance=100.0**2 * np.concatenate(variance),
            models=table.models,
            levels=levels,
            mode_names=names,
            scales=[PERCENT] * common.size,
        )
        return replace(out, common_variance=common, notes=(*out.notes, *log.notes))

    @classmethod
    def scan(cls, path: Any, *, wide: bool | None = None, **options: Any) -> Results:
        r"""Return the results of a file: CSV, JSON lines or Parquet, also compressed, in the long or the wide form.

        Parameters
        ----------
        path : path or binary stream
        wide : bool, optional
            Whether there is one row per model. By default there is one per score where a column is called so.
        **options
            Those of `from_frame`, or of `from_wide`.

        Examples
        --------
        >>> import lrbtl, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "scores.csv")
        >>> _ = path.write_text("model,math,code\nx,71.5,40\ny,65,\n")
        >>> lrbtl.Results.scan(path).shape
        (2, 2)
        """
        if wide is not None:
            check_flag(wide, "wide", ObservationError)
        log = open_log(path)
        if wide is None:
            wide = not looks_long(column_names(log), options.get("score", "score"))
        return cls.from_wide(log, **options) if wide else cls.from_frame(log, **options)

    @property
    def axes(self) -> tuple[str, str]:
        """What mode 1 and the others hold, in messages."""
        return ("row", "column") if self.models == tuple(range(len(self.models))) else ("model", "context")

    @property
    def n_observations(self) -> int:
        """Number of observations."""
        return self.n_battles

    @cached_property
    def model_counts(self) -> Longs:
        """Observations of each position along mode 1: int64 (d1,)."""
        return np.bincount(self.cells.a, self.cells.count, len(self.models)).astype(np.int64)

    @cached_property
    def measured(self) -> Bools:
        """Which entries have a score, (d1, D)."""
        out = np.zeros((self.shape[0], self.n_contexts), dtype=np.bool_)
        out[self.cells.a, self.cells.context] = True
        return out

    def __repr__(self) -> str:
        return f"Results(shape={self.shape}, n_observations={self.n_battles}, n_cells={self.n_cells})"


Data = Battles | Results


def _from_long(cls: type[Results], found: LongScores, scales: Scales, lower: Iterable[Any]) -> Results:
    """Return labelled results: sorted labels, scales by level of the first context mode, repeated rows once."""
    if not found.scores.size:
        raise EmptyDataError("there are no scores; give at least one.")
    labels, columns = [], []
    for coded, what in zip([found.models, *found.contexts], ["models", *found.mode_names], strict=True):
        used = used_codes(coded)
        names = sort_labels(coded.values(used), what)
        place = {name: k for k, name in enumerate(names)}
        code = np.zeros(len(coded.labels), dtype=np.int64)
        code[used] = [place[name] for name in coded.values(used)]
        labels.append(names)
        columns.append(code[np.asarray(coded.codes)])
    shape = tuple(map(len, labels))
    by_level = [found.scores[columns[1] == k] for k in range(shape[1])]
    scales, down, said = scales_of_units(found.units, scales, lower)
    chosen, notes = choose_scales(labels[1], by_level, scales, down)
    notes += said
    y, variance = _with_noise(found, chosen, columns[1])
    rows = np.stack([*(column.astype(np.float64) for column in columns), y, *([] if variance is None else [variance])])
    kept = np.sort(np.unique(rows, axis=1, return_index=True)[1])
    if lost := y.size - kept.size:
        notes.append(f"{lost:,} rows repeat another one and were left out")
    index = tuple(column[kept] for column in columns)
    entries, times = np.unique(np.ravel_multi_index(index, shape), return_counts=True)
    if several := np.flatnonzero(times > 1).tolist():
        first = [names[int(k)] for names, k in zip(labels, np.unravel_index(entries[several[0]], shape), strict=True)]
        notes.append(
            f"{len(several):,} cell{'s have' if len(several) > 1 else ' has'} several scores that disagree, such as "
            f"{context_name(tuple(first))}: these count as repeated measurements"
        )
    equal = [
        str(name)
        for name, values in zip(labels[1], by_level, strict=True)
        if values.size > 1 and values.min() == values.max()
    ]
    if equal:
        notes.append(f"all scores are equal in {', '.join(equal[:4])}: they do not say which model is better")
    if shape[0] == 1:
        notes.append(f"only one model, {labels[0][0]}: there is none to compare it with")
    if prod(shape[1:]) == 1:
        notes.append(f"only one benchmark, {labels[1][0]}: no other score says anything of these")
    each = np.repeat(np.arange(shape[1]), prod(shape[2:]))
    out = cls.from_arrays(
        index,
        y[kept],
        shape=shape,
        variance=None if variance is None else variance[kept],
        models=labels[0],
        levels=labels[1:],
        mode_names=found.mode_names,
        scales=[chosen[k] for k in each],
    )
    return replace(out, notes=(*found.notes, *notes))


def with_features(results: Results, features: Any) -> Results:
    """Return results with a table of features of their models, if one is given."""
    if features is None:
        return results
    found = read_features(features, results.models)
    return replace(results, features=found, notes=(*results.notes, *found.notes))


def _item_accuracies(table: ItemTable, inside: Bools) -> Accuracies:
    """Return the accuracies of all models on some items."""
    place = np.full(table.n_items, -1, dtype=np.int64)
    place[inside] = np.arange(int(inside.sum()))
    at = place[table.item]
    rows = np.flatnonzero(at >= 0)
    right, samples = np.full((2, int(inside.sum()), len(table.models)), np.nan)
    right[at[rows], table.model[rows]] = table.share[rows]
    samples[at[rows], table.model[rows]] = table.samples[rows]
    return accuracies(right, samples)


def _with_noise(found: LongScores, scales: Sequence[Scale], level: Longs) -> tuple[Floats, Floats | None]:
    """Return scores and the variance of their noise, where it is known: given, or binomial with numbers of items.

    A share of n items has the variance q (1 - q) / n, q = (n share + 1/2) / (n + 1).
    """
    y = found.scores
    if "se" in found.more:
        se = found.more["se"]
        if not np.all((se > 1.0 / LARGEST) & (se < LARGEST)):
            raise ScoreError("standard errors of scores must be there and positive in each row; leave se= out else.")
        return y, se**2
    if "items" not in found.more:
        return y, None
    n = found.more["items"]
    if not np.all(n >= 1):
        raise ScoreError("numbers of items must be there and at least 1 in each row; leave items= out else.")
    bounded = np.array([scale.bounded for scale in scales])[level]
    if not bounded.all():
        raise ScoreError("numbers of items are for shares of them; name the bounds of all scales, or leave items= out.")
    low = np.array([scale.low for scale in scales])[level]
    width = np.array([scale.high - scale.low for scale in scales])[level]
    q = (n * (y - low) / width + 0.5) / (n + 1.0)
    return y, width**2 * q * (1.0 - q) / n


def _axis_labels(labels: Sequence[Any] | None, size: int) -> tuple[Any, ...]:
    if labels is None:
        return tuple(range(size))
    if len(labels) != size:
        raise LabelError(f"{len(labels)} labels are given for an axis of {size} positions.")
    return tuple(labels)


def check_cells(shape: tuple[int, ...]) -> None:
    """Raise `TooLargeError` where a tensor has more contexts than codes can number, or more than memory can hold."""
    if prod(shape[1:]) >= 1 << 27 or shape[0] >= 1 << 27:
        raise TooLargeError(f"shape {shape} has too many entries: the most are {1 << 27:,} along mode 1 or the others.")


def _column(values: ArrayLike, size: int | None, name: str) -> Floats:
    column = as_floats(values, f"`{name}`", ObservationError)
    if size is not None and column.ndim == 0:
        column = np.full(size, float(column))
    if column.ndim != 1 or (size is not None and column.size != size):
        raise ObservationError(f"`{name}` has shape {column.shape}; give one number per observation.")
    if not np.all(np.isfinite(column)):
        raise ObservationError(f"`{name}` holds NaN or infinity; leave entries that were not observed out.")
    return column


def _index_columns(indices: Any, shape: tuple[int, ...], n: int) -> tuple[Longs, ...]:
    try:
        table = np.asarray(indices).T if not isinstance(indices, tuple) else np.asarray(indices)
    except ValueError as error:
        raise ObservationError(f"`indices` are not a table of integers ({error}).") from error
    table = table.reshape(1, -1) if table.ndim == 1 else table
    if table.shape != (len(shape), n):
        raise ObservationError(f"`indices` describe {table.T.shape}; give {n} positions of {len(shape)} integers each.")
    if not np.issubdtype(table.dtype, np.integer):
        raise ObservationError("`indices` must be integers.")
    for k, (column, size) in enumerate(zip(table, shape, strict=True)):
        outside = np.flatnonzero((column < 0) | (column >= size))
        if outside.size:
            i = outside[0]
            raise ObservationError(
                f"observation {i} has index {column[i]} in mode {k + 1}, which runs from 0 to {size - 1}."
            )
    return tuple(table.astype(np.int64))
