"""Columns of a log that votes carry, as they are read: covariates of the two sides, weights, counts, clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lrbtl._kernels.gram import sum_slope_rows
from lrbtl.data.cells import Cells
from lrbtl.data.encode import as_series, check_lengths, encode, is_wide, raise_missing, used_codes
from lrbtl.data.labels import sort_labels
from lrbtl.data.votes import Votes
from lrbtl.errors import (
    ClusterError,
    CountError,
    CovariateError,
    LrbtlError,
    VoteWeightError,
    check_choice,
    check_flag,
    spelled,
)
from lrbtl.typing import Floats, Ints, Longs

if TYPE_CHECKING:
    from lrbtl.data.battles import Battles

POSITION = "position"
AS_IS = "as is"
COLLINEAR = 1e-9  # share of a covariate's squares that nothing else explains, below which it is the others' shadow
IN_CACHE = 1 << 12  # rows that stay in cache while they are multiplied
MANY_ROWS = 20  # fewer rows may hold the same number by chance
MOST_MODELS = 3000  # beyond which it is not looked whether scores explain a covariate: a matrix of models is inverted


def _relative(a: Floats, b: Floats) -> Floats:
    total = a + b
    return np.divide(a - b, total, out=np.zeros(len(a)), where=total != 0)


RULES: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "relative": _relative,
    "relative+1": lambda a, b: (a - b) / (a + b + 1.0),
    "difference": lambda a, b: a - b,
    "log": lambda a, b: np.log1p(a) - np.log1p(b),
}


@dataclass(frozen=True)
class Covariate:
    """A number that differs between the two sides of a battle.

    Attributes
    ----------
    name : str
    rule : str
        How it came out of its columns: "relative", (a - b) / (a + b), 0 where both are 0; "relative+1", FastChat's
        (a - b) / (a + b + 1); "difference"; "log", log(1 + a) - log(1 + b); "as is"; or "position", 1 for the side
        shown first.
    scale : float
        Its root mean square: the unit of its coefficient. Nothing is centred.
    what : str
        What its columns count, for words: "tokens" of tokens_a and tokens_b.
    typical : float
        A usual value of its columns, one digit, for words.
    """

    name: str
    rule: str
    scale: float = 1.0
    what: str = ""
    typical: float = 1.0

    def example(self) -> tuple[str, float]:
        """Return a change that a reader can picture, in words, and how large it is in units of the coefficient.

        Examples
        --------
        >>> Covariate("length", "relative", 0.5, "tokens", 100.0).example()
        ('100 more tokens against 100', 0.6666666666666666)
        """
        if self.rule == POSITION:
            return "shown first", 1.0
        size = self.typical
        if self.rule not in ("difference", AS_IS):
            change = RULES[self.rule](np.array([2 * size]), np.array([size]))[0]
            return f"{size:g} more {self.what} against {size:g}", float(change) / self.scale
        words = f"{size:g} more {self.what}" if self.rule == "difference" else f"{self.what} up by {size:g}"
        return words, size / self.scale


LARGEST = 1e30  # of weights and covariates; beyond it, and below its inverse, squares and their sums lose all digits
NO_WEIGHT = 1e-9  # of the largest weight: a vote of less says nothing
MOST_VOTES = 2.0**43  # nine million million; scores are not determined better than rounding beyond it
Asked = tuple[str, str, tuple[Any, ...]]  # name, rule, columns: names of a frame's columns, or the columns themselves


@dataclass(frozen=True)
class VoteFields:
    """Which columns of a log votes carry: those of a frame by name, or the columns themselves."""

    covariates: tuple[Asked, ...] = ()
    position: bool = False
    weight: Any = None
    clusters: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, covariates: Any = None, position: bool = False, weight: Any = None, cluster: Any = None) -> VoteFields:
        """Return the fields that the options of `from_frame` and `from_arrays` name."""
        check_flag(position, "position", CovariateError)
        sources = tuple(_asked(covariates))
        names = [name for name, *_ in sources] + [POSITION] * position
        if len(set(names)) < len(names):
            raise CovariateError(f"covariates {names} repeat a name; every effect needs one of its own.")
        return cls(sources, position, weight, tuple(_cluster_columns(cluster)))

    @property
    def names(self) -> list[str]:
        """The columns of a frame that are needed."""
        used = [*(column for *_, columns in self.covariates for column in columns), self.weight]
        return [name for name in (*used, *(column for _, column in self.clusters)) if isinstance(name, str)]

    def read(self, columns: Mapping[str, Any], n: int) -> Carried | None:
        """Return what n rows carry; `columns` are those of a frame."""
        if not (self.covariates or self.position or self.weight is not None or self.clusters):
            return None

        def find(column: Any) -> Any:
            if isinstance(column, str) and column not in columns:
                raise CovariateError(f"{spelled(column)} is a name, where a column of values is needed.")
            return columns[column] if isinstance(column, str) else column

        found, slopes = [], []
        for name, rule, sides in self.covariates:
            covariate, values = _read_covariate(name, rule, sides, [find(side) for side in sides])
            found.append(covariate)
            slopes.append(values)
        if self.position:
            found.append(Covariate(POSITION, POSITION))
            slopes.append(np.ones(n))
        weight = None if self.weight is None else _read_weight(find(self.weight), self.weight)
        clusters = [_read_cluster(find(column), name) for name, column in self.clusters]
        read = {**{c.name: x for c, x in zip(found, slopes, strict=True)}, "rows": range(n)}
        check_lengths(read if weight is None else {**read, "weight": weight})
        names = tuple(name for name, _ in self.clusters)
        check_lengths({"rows": range(n), **dict(zip(names, (codes for codes, _ in clusters), strict=True))})
        votes = Votes(
            np.stack(slopes, axis=1) if slopes else None,
            weight,
            np.stack([codes for codes, _ in clusters], axis=1) if clusters else None,
        )
        return Carried(votes, tuple(found), names, tuple(labels for _, labels in clusters))


@dataclass(frozen=True)
class Carried:
    """What the rows of a log carry, with names and labels."""

    votes: Votes
    covariates: tuple[Covariate, ...]
    cluster_names: tuple[str, ...]
    cluster_labels: tuple[tuple[Any, ...], ...]


def scaled(covariates: Sequence[Covariate], cells: Cells) -> tuple[Covariate, ...]:
    """Return covariates with their root mean squares in some cells; 1 for position."""
    if cells.slopes is None:
        return ()
    sizes = np.sqrt(cells.count @ cells.slopes**2 / cells.n_battles)
    pairs = zip(covariates, sizes.tolist(), strict=True)
    return tuple(c if c.rule == POSITION else replace(c, scale=size or 1.0) for c, size in pairs)


def check_same_fields(left: Battles, right: Battles) -> None:
    """Raise where votes of two logs do not carry the same, so that they cannot be added."""
    rules, others = ([(c.name, c.rule) for c in side.covariates] for side in (left, right))
    if rules != others:
        raise CovariateError(f"battles with covariates {rules} and {others} cannot be added; read both with the same.")
    if left.cluster_names != right.cluster_names:
        raise ClusterError(
            f"battles with clusters {left.cluster_names} and {right.cluster_names} cannot be added; read both with the "
            "same cluster columns."
        )
    if left.reweight != right.reweight:
        raise VoteWeightError(f"battles with reweight={left.reweight!r} and {right.reweight!r} cannot be added.")


def _asked(covariates: Any) -> list[Asked]:
    """Return name, rule and columns of each covariate that was asked for."""
    if covariates is None:
        return []
    if isinstance(covariates, str):
        covariates = [covariates]
    if not isinstance(covariates, Mapping):
        if not isinstance(covariates, list | tuple) or not all(isinstance(name, str) for name in covariates):
            raise CovariateError(
                "covariates: name columns, as in ['length'], or give {'length': ('tokens_a', 'tokens_b', 'relative')}."
            )
        covariates = {name: name for name in covariates}
    return [(str(name), *_rule_and_columns(str(name), given)) for name, given in covariates.items()]


def _rule_and_columns(name: str, given: Any) -> tuple[str, tuple[Any, ...]]:
    is_pair = isinstance(given, tuple | list) and len(given) in (2, 3) and all(hasattr(x, "__len__") for x in given)
    if not is_pair:
        return AS_IS, (given,)
    rule = given[2] if len(given) == 3 else "relative"
    check_choice(rule, tuple(RULES), f"the rule of covariate {name!r}", CovariateError)
    return rule, tuple(given[:2])


def _cluster_columns(cluster: Any) -> list[tuple[str, Any]]:
    if cluster is None:
        return []
    if isinstance(cluster, str):
        return [(cluster, cluster)]
    if isinstance(cluster, Mapping):
        return [(str(name), column) for name, column in cluster.items()]
    if isinstance(cluster, list | tuple) and cluster and all(isinstance(name, str) for name in cluster):
        if len(set(cluster)) < len(cluster):
            raise ClusterError(f"cluster={list(cluster)} repeats a column; name each once.")
        return [(name, name) for name in cluster]
    raise ClusterError(f"cluster={cluster!r} names no column; give a name or a list of names.")


def _read_covariate(name: str, rule: str, sides: Sequence[Any], columns: list[Any]) -> tuple[Covariate, Floats]:
    labels = [side if isinstance(side, str) else name for side in sides]
    numbers = [_finite(column, label, CovariateError) for column, label in zip(columns, labels, strict=True)]
    check_lengths(dict(zip([f"{label} ({k + 1})" for k, label in enumerate(labels)], numbers, strict=True)))
    if rule == AS_IS:
        values, what = numbers[0], name
        typical = float(np.sqrt(np.mean(values**2))) if len(values) else 1.0
    else:
        for column, label in zip(numbers, labels, strict=True):
            if rule != "difference" and column.min(initial=0.0) < 0:
                raise CovariateError(
                    f"{label} holds negative numbers, of which the rule {rule!r} of covariate {name!r} makes no sense; "
                    "use 'difference'."
                )
        values, what = RULES[rule](*numbers), _stem(*labels) or name
        typical = float(np.median(np.abs(np.concatenate(numbers)))) if len(values) else 1.0
    if len(values) >= MANY_ROWS and np.ptp(values) == 0.0:
        raise CovariateError(
            f"covariate {name!r} is {values[0]:g} in every row, so it explains nothing; leave it out. The advantage of "
            "the first side is position=True."
        )
    return Covariate(name, rule, 1.0, what, one_digit(typical)), values


def _stem(left: str, right: str) -> str:
    """Return what two names of columns begin with: "tokens" of tokens_a and tokens_b."""
    same = next((k for k, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
    return left[:same].rstrip("_ .-")


def one_digit(x: float) -> float:
    """Return a positive number rounded to its first digit; 1 for zero.

    >>> one_digit(347.0), one_digit(0.026), one_digit(0.0)
    (300.0, 0.03, 1.0)
    """
    return float(f"{x:.0e}") if x > 0 else 1.0


def _finite(column: Any, name: str, error: type[CovariateError | VoteWeightError]) -> Floats:
    numbers = read_numbers(column, name, error)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise error(
            f"{name} is {numbers[row]:g} in row {row}; only finite numbers can be used: drop or fill such rows.",
            column=name,
            row=row,
        )
    size = np.abs(numbers)
    wrong = (size > LARGEST) | ((size > 0) & (size < 1 / LARGEST))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise error(
            f"{name} is {numbers[row]:g} in row {row}; sizes from {1 / LARGEST:g} to {LARGEST:g} can be computed with: "
            "give it another unit, or 0.",
            column=name,
            row=row,
        )
    return numbers


def _read_weight(column: Any, given: Any) -> Floats:
    name = given if isinstance(given, str) else "weight"
    weight = _finite(column, name, VoteWeightError)
    if weight.min(initial=0.0) < 0:
        row = int(np.argmin(weight))
        raise VoteWeightError(f"{name} is {weight[row]:g} in row {row}; a weight is zero or positive.")
    if len(weight) and weight.max() == 0.0:
        raise VoteWeightError(f"{name} is zero in every row: no vote counts.")
    return np.where(weight < NO_WEIGHT * weight.max(initial=0.0), 0.0, weight)


def _read_cluster(column: Any, name: str) -> tuple[Ints, tuple[Any, ...]]:
    coded = encode(column, name)
    used = used_codes(coded)
    if len(used) == 1:
        raise ClusterError(
            f"all votes have the same {name}: errors that allow for clusters need several of them. Leave cluster out."
        )
    values = coded.values(used)
    labels = sort_labels(values, name)
    index = {label: k for k, label in enumerate(labels)}
    meaning = np.zeros(len(coded.labels), dtype=np.int32)
    meaning[used] = [index[value] for value in values]
    return meaning[coded.codes], labels


def check_covariates(cells: Cells, covariates: Sequence[Covariate], n_models: int) -> None:
    """Raise `CovariateError` where a covariate is a combination of the others, or of scores of the models."""
    slopes, count = cells.slopes, cells.count.astype(float)
    assert slopes is not None
    gram = np.zeros((slopes.shape[1], slopes.shape[1]))
    for lo in range(0, len(slopes), IN_CACHE):
        part = slice(lo, lo + IN_CACHE)
        gram += slopes[part].T @ (count[part, None] * slopes[part])
    own = np.diag(gram)
    if not own.all():
        name = covariates[int(np.argmin(own))].name
        raise CovariateError(f"covariate {name!r} is zero in all battles that are left; leave it out.")
    size = np.sqrt(np.outer(own, own))
    gram = gram / size
    if n_models <= MOST_MODELS:
        left = gram - _explained(cells, count, slopes, n_models) / size
        for k, share in enumerate(np.diag(left)):
            if share < COLLINEAR:
                raise CovariateError(
                    f"covariate {covariates[k].name!r} is a difference between two properties of the models, the same "
                    "whenever they meet: it cannot be separated from their scores. Leave it out."
                )
        gram = left
    for k in range(1, len(gram)):
        block, column = gram[:k, :k], gram[:k, k]
        weights = np.linalg.solve(block, column)
        if gram[k, k] - column @ weights < COLLINEAR:
            others = ", ".join(repr(covariates[j].name) for j in np.flatnonzero(np.abs(weights) > 1e-6).tolist())
            raise CovariateError(
                f"covariate {covariates[k].name!r} is a combination of {others}: their effects cannot be separated. "
                "Leave one of them out."
            )


def _explained(cells: Cells, count: Floats, slopes: Floats, n_models: int) -> NDArray[np.float64]:
    """Return the part of the squares of covariates that one score per model explains, (k, k)."""
    a, b = cells.a.astype(np.int64), cells.b.astype(np.int64)
    laplacian = -np.bincount(a * n_models + b, count, n_models**2).reshape(n_models, n_models)
    laplacian += laplacian.T
    np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
    sums = np.zeros((n_models, slopes.shape[1]))
    sum_slope_rows(a, b, count, np.ascontiguousarray(slopes), sums)
    return np.asarray(sums.T @ np.linalg.lstsq(laplacian, sums, rcond=None)[0])


def read_numbers(column: object, name: str, error: type[LrbtlError]) -> Floats:
    """Numbers of a column as float64; raise `error` for what is no number, `MissingValueError` for nulls."""
    series = None if isinstance(column, np.ndarray | list | tuple) else as_series(column)
    if series is not None:
        if series.null_count():
            raise_missing(name, series.is_null().to_numpy().astype(bool))
        column = series.to_list() if is_wide(series) else series.to_numpy()
    try:
        values = np.asarray(column, dtype=None if isinstance(column, np.ndarray) else np.float64)
        if values.dtype.kind not in "biufO":
            raise TypeError(f"they are {values.dtype.name}")
        numbers = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        raise error(f"{name} holds values that are not numbers: {problem}.") from problem
    if numbers.ndim != 1:
        raise error(f"{name} has {numbers.ndim} dimensions; give one number per row.")
    return numbers


def read_counts(column: object, name: str) -> Longs:
    """Multiplicities as int64; they must be whole and not negative."""
    numbers = read_numbers(column, name, CountError)
    if np.isnan(numbers).any():
        raise_missing(name, np.isnan(numbers))
    for wrong, problem in ((numbers < 0, "is negative"), (numbers != np.floor(numbers), "is not a whole number")):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise CountError(f"{name} in row {row} {problem} ({numbers[row]:g}); a count is 0, 1, 2, ...")
    if (total := float(np.minimum(numbers, MOST_VOTES).sum())) >= MOST_VOTES:
        raise CountError(f"{name} sum to {total:g} or more; totals below 2**43 votes can be computed with.")
    return np.ascontiguousarray(numbers, dtype=np.int64)
