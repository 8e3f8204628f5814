"""Values with their joint covariance: parts and sums of them know how they vary with the rest of a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from lrbtl.data.labels import find_label, index_labels
from lrbtl.errors import (
    BoundError,
    CovarianceError,
    DifferentRunsError,
    EstimateError,
    UnknownTargetError,
    as_floats,
    check_type,
    is_within,
    listed,
    spelled,
)
from lrbtl.inference.entrywise import OwnVotes
from lrbtl.inference.summary import name_contrast
from lrbtl.inference.targets import FamilyLabels
from lrbtl.methods.base import Provenance, Shrinkage
from lrbtl.typing import Bools, Floats, Longs

Influence = tuple[ArrayLike, ArrayLike, float]  # mean square and largest size of the values (M,), their number


class JointValues:
    """Estimates of M targets on two scales, with their joint covariance, and further values of a run for each.

    A part, a sum or a difference is of the same class, and keeps its weights on the values of the run: the root.
    `Estimate` says what the parameters are.
    """

    labels: FamilyLabels | tuple[str, ...]
    info: Provenance
    links: NDArray[np.str_]
    variance_noise: Floats

    def __init__(
        self,
        labels: Sequence[str],
        working: ArrayLike,
        cov: ArrayLike | None,
        *,
        links: ArrayLike,
        se: ArrayLike | None = None,
        variance_noise: ArrayLike = 0.0,
        info: Provenance | None = None,
        bound_se: ArrayLike | Callable[[], ArrayLike | None] | None = None,
        naive_se: ArrayLike | Callable[[], ArrayLike | None] | None = None,
        shrinkage: Callable[[Floats | None], Shrinkage] | None = None,
        means: ArrayLike | None = None,
        influence: Influence | Callable[[], Influence | None] | None = None,
        own: OwnVotes | Callable[[], OwnVotes | None] | None = None,
        draws: ArrayLike | None = None,
    ) -> None:
        self.labels = labels if isinstance(labels, FamilyLabels) else tuple(_texts(labels))
        check_type(info, (Provenance, type(None)), "info", "give a Provenance, or leave it out")
        self.info = Provenance() if info is None else info
        self._working = self._vector(working, "working")
        kinds = np.asarray(_texts(links) if not isinstance(links, str) else links, dtype=np.str_)
        if kinds.shape not in ((), (1,), (len(self.labels),)):
            raise EstimateError(f"there are {kinds.size} links for {len(self.labels)} labels: give one each, or one.")
        self.links = np.broadcast_to(kinds, (len(self.labels),))
        if unknown := set(self.links.tolist()) - {"identity", "logit", "probability"}:
            raise EstimateError(f"unknown links {sorted(unknown)}; a link is 'identity' or 'logit'.")
        if (cov is None) == (se is None):
            raise EstimateError("give either cov or, for very many targets, se: exactly one of the two.")
        self._cov = None if cov is None else _read_only(cov)
        if self._cov is not None and self._cov.shape != (len(self.labels),) * 2:
            raise EstimateError(f"cov has shape {self._cov.shape} for {len(self.labels)} targets.")
        self._se = np.sqrt(np.maximum(np.diag(self._cov), 0.0)) if self._cov is not None else self._vector(se, "se")
        noise = as_floats(variance_noise, "variance_noise", EstimateError)
        self.variance_noise = self._vector(
            np.full(len(self.labels), noise) if noise.ndim == 0 else noise, "variance_noise"
        )
        self._bound_source = _callable_alone(bound_se, "bound_se")
        self._naive_source = _callable_alone(naive_se, "naive_se")
        self._influence_source = _callable_alone(influence, "influence")
        self._own_source = _callable_alone(own, "own")
        self._shrinkage_source = shrinkage
        self._means = None if means is None else self._vector(means, "means")
        self._draws = None if draws is None else _read_only(draws)  # (S, M)
        self._made_of: Self | None = None  # the root, unless it is this one
        self._root_weights: Floats | None = None  # (M, targets of the root); None is the identity

    @property
    def _root(self) -> Self:
        return self if self._made_of is None else self._made_of

    def _vector(self, values: Any, what: str) -> Floats:
        vector = _read_only(values)
        if vector.shape != (len(self.labels),):
            raise EstimateError(f"{what} has shape {vector.shape} for {len(self.labels)} labels.")
        return vector

    @cached_property
    def estimate(self) -> Floats:
        """(M,) estimates on the natural scale; of probabilities, posterior means where the method has a posterior."""
        plain = np.where(self._is_logit, expit(self._working), self._working)
        return plain if self._means is None else np.where(np.isnan(self._means), plain, self._means)

    @cached_property
    def se(self) -> Floats:
        """(M,) standard errors on the natural scale; for a probability p, se = p (1 - p) se(logit p)."""
        return self._slope * self._se

    @cached_property
    def cov(self) -> Floats:
        """(M, M) covariance on the natural scale."""
        cov = self._known_cov()
        return self._slope[:, None] * cov * self._slope if self._is_logit.any() else cov

    @property
    def working(self) -> Floats:
        """(M,) estimates on the working scale: the logit of a probability, anything else as it is."""
        return self._working

    @property
    def working_se(self) -> Floats:
        """(M,) standard errors on the working scale."""
        return self._se

    @property
    def working_cov(self) -> Floats:
        """(M, M) covariance on the working scale."""
        return self._known_cov()

    @property
    def bound(self) -> Floats:
        """(M,) smallest standard errors any estimator can have at this estimate, to be read beside `se`."""
        if self._bound_se is None:
            raise BoundError("this estimate carries no efficiency bound; ask the estimate that infer returned.")
        return self._slope * self._bound_se

    @property
    def gain_over_naive(self) -> Floats:
        """(M,) naive standard error over this one: 2 means that separate fits needed four times the battles."""
        if self._naive_se is None:
            raise BoundError("this estimate carries no naive standard errors; compare with infer(..., method='naive').")
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._naive_se / self._se

    @cached_property
    def _bound_se(self) -> Floats | None:
        values = self._bound_source() if callable(self._bound_source) else self._bound_source
        return None if values is None else self._vector(values, "bound_se")

    @cached_property
    def _influence(self) -> tuple[Floats, Floats, float] | None:
        found = self._influence_source() if callable(self._influence_source) else self._influence_source
        if found is None:
            return None
        if not (isinstance(found, tuple) and len(found) == 3 and is_within(found[2], 1.0, np.inf)):
            raise EstimateError("influence is not (mean squares, largest sizes, number of votes).")
        return self._vector(found[0], "influence"), self._vector(found[1], "influence"), float(found[2])

    @cached_property
    def _naive_se(self) -> Floats | None:
        values = self._naive_source() if callable(self._naive_source) else self._naive_source
        return None if values is None else self._vector(values, "naive_se")

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_naive_source", "_bound_source", "_influence_source", "_own_source"):
            state[name] = None if callable(state[name]) else state[name]
        state["_shrinkage_source"] = None
        return {**state, "_shrinkage": self._shrinkage}

    @property
    def follow(self) -> Floats:
        """(M,) shrinkage factors of changes that are equal in all contexts: 1 where nothing is shrunk."""
        return self._shrinkage.shrinkage_factor

    @property
    def noise(self) -> Floats:
        """(M,) how the estimates vary with the votes, on the working scale: `se` without the prior variance."""
        return self._shrinkage.noise(self._se)

    @cached_property
    def _shrinkage(self) -> Shrinkage:
        if self._shrinkage_source is not None:
            return self._shrinkage_source(None)
        return self._root.shrinkage_of(np.eye(len(self)) if self._root_weights is None else self._root_weights)

    def shrinkage_of(self, weights: Floats) -> Shrinkage:
        """Return what a prior does to sums of targets, with weights (k, M) on the working scale."""
        if self._shrinkage_source is None:
            return Shrinkage.none(len(weights))
        return self._shrinkage_source(weights)

    @cached_property
    def _is_logit(self) -> Bools:
        return np.asarray(self.links == "logit", dtype=np.bool_)

    @cached_property
    def _slope(self) -> Floats:
        """Derivative of the natural by the working scale, (M,)."""
        return np.where(self._is_logit, expit(self._working) * expit(-self._working), 1.0)

    def _known_cov(self) -> Floats:
        if self._cov is None:
            raise CovarianceError(
                f"the covariance of all {len(self.labels):,} targets was not kept; "
                "ask infer for the fewer targets that belong together."
            )
        return self._cov

    @cached_property
    def _own(self) -> OwnVotes | None:
        return self._own_source() if callable(self._own_source) else self._own_source

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Self]:
        return (self._select(np.array([k])) for k in range(len(self)))

    def __getitem__(self, key: Any) -> Self:
        if isinstance(key, slice):
            return self._select(np.arange(len(self))[key])
        if isinstance(key, np.ndarray) and key.dtype == np.bool_:
            return self._select(np.flatnonzero(key))
        if isinstance(key, np.ndarray) and key.dtype == np.int64 and np.all((key >= 0) & (key < len(self))):
            return self._select(key.reshape(-1))
        many = isinstance(key, list) or (isinstance(key, np.ndarray) and key.ndim == 1)
        return self._select(np.array([self._position(one) for one in (key if many else [key])], dtype=np.int64))

    def _position(self, key: object) -> int:
        if isinstance(key, int | np.integer) and -len(self) <= key < len(self):
            return int(key) % len(self)
        return find_label(self._label_index, key, "target", UnknownTargetError)

    @cached_property
    def _label_index(self) -> dict[Any, int]:
        return index_labels(self.labels, "targets")

    def _select(self, rows: Longs) -> Self:
        if np.array_equal(rows, np.arange(len(self))):
            return self
        cov = None if self._cov is None else self._cov[np.ix_(rows, rows)]
        part = type(self)(
            [self.labels[k] for k in rows],
            self._working[rows],
            cov,
            links=self.links[rows],
            se=self._se[rows] if cov is None else None,
            variance_noise=self.variance_noise[rows],
            info=self.info,
            bound_se=lambda: None if self._bound_se is None else self._bound_se[rows],
            means=None if self._means is None else self._means[rows],
            naive_se=lambda: None if self._naive_se is None else self._naive_se[rows],
            shrinkage=(lambda _: self._shrinkage.at(rows)) if cov is None else None,
            influence=lambda: self._influence_of(rows),
            own=lambda: None if self._own is None else self._own.at(rows),
        )
        part._made_of = self._root
        if cov is not None:
            picks = np.zeros((rows.size, len(self)))
            picks[np.arange(rows.size), rows] = 1.0
            part._root_weights = self._to_root(picks)
        return part

    def _influence_of(self, rows: Longs) -> Influence | None:
        if self._influence is None:
            return None
        square, largest, n = self._influence
        return square[rows], largest[rows], n

    def _to_root(self, weights: Floats) -> Floats:
        """Weights on this estimate's working scale as weights on the root's."""
        return weights if self._root_weights is None else weights @ self._root_weights

    def contrast(self, weights: ArrayLike | Mapping[Any, float], label: str | Sequence[str] | None = None) -> Self:
        """Return weighted sums of the targets, on the natural scale, with their joint covariance.

        Parameters
        ----------
        weights
            (M,) or (k, M) weights, or a mapping from label (or position) to weight.
        label
            Name of the sum, or the names of all k.

        Examples
        --------
        >>> from lrbtl import Estimate
        >>> est = Estimate(["x", "y"], [1.0, 0.5], [[0.04, 0.03], [0.03, 0.04]], links="identity")
        >>> est.contrast({"x": 1, "y": -1}).estimate
        array([0.5])
        """
        if isinstance(weights, Mapping):
            matrix = np.zeros((1, len(self)))
            for key, weight in weights.items():
                number = as_floats(weight, f"the weight of {spelled(key)}", EstimateError)
                matrix[0, self._position(key)] = number if number.ndim == 0 else np.nan
        else:
            matrix = np.atleast_2d(as_floats(weights, "weights", EstimateError))
        if matrix.ndim != 2 or matrix.shape[1] != len(self) or not np.isfinite(matrix).all():
            raise EstimateError(
                f"weights of shape {matrix.shape} do not fit: give a finite weight to each of {len(self)} targets."
            )
        if label is None:
            label = [name_contrast(row, self.labels) for row in matrix]
        labels = [label] if isinstance(label, str) else _texts(label)
        used = np.flatnonzero(matrix.any(axis=0))
        with np.errstate(invalid="ignore", over="ignore"):
            value = matrix[:, used] @ self.estimate[used]
        mixed = (matrix[:, self.links != "identity"] != 0).any(axis=1)
        self._known_cov()
        return self._combined(labels, value, self._to_root(matrix * self._slope), mixed)

    def _combined(self, labels: Sequence[str], value: Floats, root_weights: Floats, mixed: Bools) -> Self:
        used = np.flatnonzero(root_weights.any(axis=0))
        loading = root_weights[:, used]
        with np.errstate(invalid="ignore", over="ignore"):
            cov = loading @ self._root._known_cov()[np.ix_(used, used)] @ loading.T
        links = np.where(mixed, "probability", "identity")
        variance_noise = np.max(np.where(loading != 0, self._root.variance_noise[used], 0.0), axis=1, initial=0.0)
        result = type(self)(labels, value, cov, links=links, variance_noise=variance_noise, info=self.info)
        result._made_of, result._root_weights = self._root, root_weights
        return result

    def __add__(self, other: Self) -> Self:
        return self._plus(other, 1.0, "+")

    def __sub__(self, other: Self) -> Self:
        return self._plus(other, -1.0, "-")

    def _plus(self, other: Self, sign: float, symbol: str) -> Self:
        if not isinstance(other, JointValues):
            return NotImplemented
        if self._root is not other._root:
            raise DifferentRunsError(
                "these estimates come from different runs, so their covariance is unknown; "
                "pass the targets of both to one infer call and combine its parts."
            )
        if len(self) != len(other) and 1 not in (len(self), len(other)):
            raise EstimateError(f"{len(self)} and {len(other)} targets cannot be combined one by one; use contrast.")
        self._known_cov()
        left, right = self._to_root(np.diag(self._slope)), other._to_root(np.diag(other._slope))
        size = max(len(self), len(other))
        names = zip(np.resize(self.labels, size).tolist(), np.resize(other.labels, size).tolist(), strict=True)
        mixed = (self.links != "identity") | (other.links != "identity")
        with np.errstate(invalid="ignore"):
            value = self.estimate + sign * other.estimate
        return self._combined([f"{a} {symbol} {b}" for a, b in names], value, left + sign * right, mixed)


def _texts(values: Any) -> list[str]:
    """Return names as a list of texts."""
    return [str(part) for part in listed(values, "labels and links", "give a text for each target", EstimateError)]


Source = TypeVar("Source")


def _callable_alone(source: Source, name: str) -> Source:
    """Return a function that is called when it is first needed, or a value; raise where it needs arguments."""
    if callable(source):
        try:
            inspect.signature(source).bind()
        except TypeError as error:
            raise EstimateError(f"{name} is a function that needs arguments: give one without.") from error
        except ValueError:  # compiled ones have no signature
            pass
    return source


def _read_only(values: ArrayLike) -> Floats:
    view = as_floats(values, "estimates and errors", EstimateError).view()
    view.flags.writeable = False
    return view
