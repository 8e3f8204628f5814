"""The naive baseline: one Bradley-Terry model per context, with nothing shared between contexts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lrbtl.data.battles import Battles
from lrbtl.data.cells import Cells, component_members, strong_components, weak_components
from lrbtl.data.labels import check_same_labels
from lrbtl.errors import (
    ConvergenceWarning,
    RidgeError,
    SeparationError,
    SeparationWarning,
    check_choice,
    check_type,
    is_within,
    spelled,
    warn_user,
)
from lrbtl.fitting.bradley_terry import Pairs, fit_batch, pair_cells, score_covariances
from lrbtl.model.links import logistic_terms
from lrbtl.threads import one_blas_thread
from lrbtl.typing import AnyInts, Bools, Floats, Indices

Labels = tuple[Any, ...]

PRIOR_SDS = (1e-5, 1e5)  # logits: beyond, the prior or the votes are lost to rounding
_BATCH = 1 << 21  # doubles in the Hessians that are solved together


@dataclass(frozen=True)
class Separation:
    """Why a context has no Bradley-Terry fit, in labels."""

    context: Any  # the context; None for battles without contexts
    # models whose gaps exist among each other: strong components of the win digraph, largest first
    groups: tuple[Labels, ...]
    islands: tuple[Labels, ...]  # models linked by battles: components of the comparison graph, largest first
    undefeated: Labels  # models that won all their battles
    winless: Labels  # that lost them
    absent: Labels  # models without battles

    def __str__(self) -> str:
        reasons = [
            f"{_listed(names)} {what}"
            for names, what in [
                (self.undefeated, "won every battle"),
                (self.winless, "lost every battle"),
                (self.absent, "had no battle"),
            ]
            if names
        ]
        islands = [names for names in self.islands if len(names) > 1]
        if len(islands) > 1:
            reasons.append("no battle links " + " with ".join(f"({_listed(names)})" for names in islands[:4]))
        blocks = [names for names in self.groups if len(names) > 1]
        if not reasons or len(blocks) > len(islands):
            reasons.append("wins go one way only between " + " and ".join(f"({_listed(g)})" for g in blocks[:4]))
        where = "" if self.context is None else f"{self.context!r}: "
        return where + "; ".join(reasons)


@dataclass(frozen=True, eq=False, repr=False)
class SeparateFit:
    """One Bradley-Terry model per context.

    Attributes
    ----------
    battles : Battles
        The battles fitted.
    scores : (d1, d2, ..., dm) array
        Zero-sum in each context; NaN in a context whose maximum does not exist.
    components : (d1, d2, ..., dm) array of int
        Models of a context with equal numbers have finite gaps among each other (strong components).
    converged : (d2, ..., dm) array of bool
        Whether the context's scores exist and were found.
    stop_reason : (d2, ..., dm) array of str
        "converged", "separated" or "max_iter".
    prior_sd : float or None
        Standard deviation of the prior on each score, where there is one.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["x", "x", "y"], ["y", "y", "z"], [1, 0, 0.5], counts=[3, 1, 2])
    >>> fit = lrbtl.fit_separate(battles)
    >>> fit
    SeparateFit(shape=(3,), 1 of 1 contexts fitted)
    >>> round(fit.predict_proba("x", "y"), 4)
    0.75
    >>> fit.covariance(kind="model").shape
    (3, 3)
    >>> round(fit.log_likelihood(battles), 4)
    -0.6059
    >>> fit.separation() is None
    True
    """

    battles: Battles
    scores: Floats
    components: Indices
    converged: Bools
    stop_reason: NDArray[np.str_]
    within_scores: Floats  # (D, d1): scores that sum to zero in each component
    prior_sd: float | None = None

    def gap(self, a: object, b: object, context: object = None) -> float:
        """Return scores[a] - scores[b] in a context, also where only this gap exists.

        Raises
        ------
        SeparationError
            If the battles leave this gap infinite or unknown.

        Examples
        --------
        >>> import lrbtl
        >>> battles = lrbtl.Battles.from_arrays(["x", "x", "y"], ["y", "y", "z"], [1, 0, 0.5], counts=[3, 1, 2])
        >>> round(lrbtl.fit_separate(battles).gap("x", "y"), 4)
        1.0986
        """
        i, j, u = self.battles.model_index(a), self.battles.model_index(b), self.battles.context_index(context)
        eta = self._eta(np.array([u]), np.array([i]), np.array([j]))[0]
        if np.isnan(eta):
            raise SeparationError(self._why_no_gap(i, j, u))
        return float(eta)

    def predict_proba(self, a: object, b: object, context: object = None) -> float:
        """Return the probability that a beats b in a context; raises as `gap` does."""
        return float(0.5 + 0.5 * np.tanh(0.5 * self.gap(a, b, context)))

    def covariance(self, context: object = None, *, kind: Literal["sandwich", "hc3", "model"] = "sandwich") -> Floats:
        """Return the (d1, d1) covariance of the scores of a context.

        With H = Σ n I x xᵀ and G = Σ n s² x xᵀ it is H⁺ G H⁺ ("sandwich") or H⁺ ("model"); "hc3" is the sandwich with
        each residual s divided by 1 - h, h its leverage. In a separated context each component has its own block, for
        scores that sum to zero in the component; entries between components are NaN. Under a prior H has its precision
        added, so that "model" is the posterior covariance.
        """
        check_choice(kind, ("sandwich", "hc3", "model"), "kind")
        u = self.battles.context_index(context)
        cells, within = self.battles.cells, self.within_scores[u]
        part = slice(cells.start[u], cells.start[u + 1])
        a, b, labels = cells.a[part], cells.b[part], self._labels(u)
        out = np.full((within.size, within.size), np.nan)
        np.fill_diagonal(out, 0.0)
        place = np.empty(within.size, dtype=np.intp)
        for members in component_members(labels):
            if members.size == 1:
                continue
            place[members] = np.arange(members.size)
            kept = (labels[a] == labels[members[0]]) & (labels[b] == labels[members[0]])
            battles = place[a[kept]], place[b[kept]], cells.y[part][kept], cells.count[part][kept]
            model, robust = score_covariances(
                *battles, within[members], hc3=kind == "hc3", precision=_precision(self.prior_sd)
            )
            out[np.ix_(members, members)] = model if kind == "model" else robust
        return out

    def log_likelihood(self, battles: Battles) -> float:
        """Return the mean log-likelihood per battle of other battles between the same models in the same contexts.

        Raises
        ------
        SeparationError
            If one of these battles pairs models whose gap does not exist.
        """
        check_same_labels(battles, self.battles)
        cells = battles.cells
        eta = self._eta(cells.context, cells.a, cells.b)
        unknown = np.flatnonzero(np.isnan(eta))
        if unknown.size:
            first = self._why_no_gap(*(int(codes[unknown[0]]) for codes in (cells.a, cells.b, cells.context)))
            raise SeparationError(f"{cells.count[unknown].sum()} of the battles have no prediction, the first: {first}")
        loss = logistic_terms(eta, cells.y)[0]
        return -float(loss @ cells.count / cells.count.sum())

    def separation(self, context: object = None) -> Separation | None:
        """Return why a context has no fit, or None if it has one."""
        u = self.battles.context_index(context)
        return self._separation(u) if np.ptp(self._labels(u)) else None

    def _separation(self, u: int) -> Separation:
        names, cells = self.battles.models, self.battles.cells
        part = slice(cells.start[u], cells.start[u + 1])
        a, b, y = cells.a[part], cells.b[part], cells.y[part]
        met = np.bincount(a, minlength=len(names)) + np.bincount(b, minlength=len(names)) > 0
        won = np.bincount(a, y > 0, len(names)) + np.bincount(b, y < 1, len(names)) > 0
        lost = np.bincount(a, y < 1, len(names)) + np.bincount(b, y > 0, len(names)) > 0

        def labels(codes: AnyInts) -> Labels:
            return tuple(names[code] for code in codes)

        return Separation(
            context=self.battles.context_label(u),
            groups=tuple(labels(group) for group in component_members(self._labels(u))),
            islands=tuple(labels(group) for group in component_members(weak_components(a, b, len(names))[0])),
            undefeated=labels(np.flatnonzero(met & ~lost)),
            winless=labels(np.flatnonzero(met & ~won)),
            absent=labels(np.flatnonzero(~met)),
        )

    def _labels(self, u: int) -> Indices:
        return self.components.reshape(self.scores.shape[0], -1)[:, u]

    def _eta(self, context: AnyInts, a: AnyInts, b: AnyInts) -> Floats:
        """Return the gaps, NaN between components."""
        flat = self.components.reshape(self.scores.shape[0], -1)
        eta = self.within_scores[context, a] - self.within_scores[context, b]
        return np.where(flat[a, context] == flat[b, context], eta, np.nan)

    def _why_no_gap(self, a: int, b: int, u: int) -> str:
        names, where = self.battles.models, self._separation(u)
        linked = any(names[a] in island and names[b] in island for island in where.islands)
        reason = (
            "every chain of battles between them has wins in one direction only" if linked else "no battle links them"
        )
        at = "" if where.context is None else f" in context {where.context!r}"
        gap = f"the gap of {names[a]!r} over {names[b]!r}{at}"
        return f"{gap} does not exist: {reason}; pool contexts, or use method='hierarchical'."

    def __repr__(self) -> str:
        found, total = int(np.sum(self.converged)), self.converged.size
        lines = [f"SeparateFit(shape={self.scores.shape}, {found} of {total} contexts fitted)"]
        missing = np.flatnonzero(np.ravel(self.stop_reason) == "separated")
        lines += [f"  {self._separation(int(u))}" for u in missing[:5]]
        if missing.size > 5:
            lines.append(f"  and {missing.size - 5} more contexts without a fit")
        return "\n".join(lines)


def fit_separate(battles: Battles, *, prior_sd: float | None = None) -> SeparateFit:
    """Return one Bradley-Terry fit per context by maximum likelihood; no context borrows from another.

    A context's scores exist only if its win digraph (a tie counts both ways) is strongly connected. Where it is not,
    they are NaN, a warning names the models, and the gaps inside each strong component stay available from `gap`.
    `fit_separate(battles.pooled())` is the pooled model.

    Parameters
    ----------
    battles : Battles
        Battles of any order.
    prior_sd : float, optional
        Standard deviation, in logits, of a normal prior on each score; 5 is weak. With a prior every context has finite
        scores, also where models only won or never met, as in most contexts of the paper's own design.

    Returns
    -------
    SeparateFit
        Scores, components, convergence and covariances.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[3, 1])
    >>> fit = lrbtl.fit_separate(battles)
    >>> fit.scores.round(4)
    array([ 0.5493, -0.5493])
    """
    check_type(battles, Battles, "battles", "give Battles, such as Battles.read(...) returns")
    cells, shape, n_contexts = battles.cells, battles.shape, battles.cells.start.size - 1
    precision = _precision(prior_sd)
    if precision:
        groups = np.zeros((n_contexts, shape[0]), dtype=np.intp)
    else:
        groups = strong_components(cells.a, cells.b, cells.y, shape[0], context=cells.context, n_contexts=n_contexts)
    within, found = _fit_groups(cells, groups, precision)
    separated = np.ptp(groups, axis=1) > 0
    scores = np.where(separated[:, None], np.nan, within)
    reason = np.select([separated, ~found], ["separated", "max_iter"], "converged")
    fit = SeparateFit(
        battles=battles,
        scores=scores.T.reshape(shape),
        components=groups.T.reshape(shape),
        converged=(found & ~separated).reshape(shape[1:]),
        stop_reason=reason.reshape(shape[1:]),
        within_scores=within,
        prior_sd=prior_sd,
    )
    _warn(fit, np.flatnonzero(separated), np.flatnonzero(~found))
    return fit


def _precision(prior_sd: float | None) -> float:
    """Return one over the variance of a prior, 0 for none."""
    if prior_sd is None:
        return 0.0
    if not is_within(prior_sd, *PRIOR_SDS):
        low, high = PRIOR_SDS
        raise RidgeError(
            f"prior_sd={spelled(prior_sd)} is not a standard deviation of scores in logits: give a number from {low:g} "
            f"to {high:g}, or None."
        )
    return 1.0 / float(prior_sd) ** 2


@one_blas_thread
def _fit_groups(cells: Cells, groups: Indices, precision: float) -> tuple[Floats, Bools]:
    """Return scores (D, d1) that sum to zero in each component, and whether all of a context's components converged."""
    n_context, d1 = groups.shape
    component = (groups + d1 * np.arange(n_context)[:, None]).ravel()  # of a node (u, a): its component's smallest node
    size = np.bincount(component, minlength=component.size)
    first = np.cumsum(size) - size
    order = np.argsort(component, kind="stable")
    position = np.empty_like(order)
    position[order] = np.arange(order.size) - first[component[order]]

    problems = np.flatnonzero(size > 1)
    problems = problems[np.argsort(-size[problems], kind="stable")]
    sizes = size[problems]
    number = np.full(component.size, -1)
    number[problems] = np.arange(problems.size)

    context, a, b, weight, mean = pair_cells(cells.context, cells.a, cells.b, cells.y, cells.count)
    node_a, node_b = context.astype(np.intp) * d1 + a, context.astype(np.intp) * d1 + b
    inside = np.flatnonzero(component[node_a] == component[node_b])
    inside = inside[np.argsort(number[component[node_a[inside]]], kind="stable")]
    problem = number[component[node_a[inside]]]
    i, j = position[node_a[inside]], position[node_b[inside]]

    members = np.empty(int(sizes.sum()))  # scores of all problems, one after the other
    converged = np.ones(n_context, dtype=np.bool_)
    start = np.cumsum(sizes) - sizes
    for lo, hi in _batches(sizes):
        part = slice(*np.searchsorted(problem, [lo, hi]))
        fit = fit_batch(
            Pairs(problem[part] - lo, i[part], j[part], weight[inside[part]], mean[inside[part]]),
            sizes[lo:hi],
            precision,
        )
        real = np.arange(fit.scores.shape[1]) < sizes[lo:hi, None]
        members[start[lo] : start[hi - 1] + sizes[hi - 1]] = fit.scores[real]
        converged[problems[lo:hi][~fit.converged] // d1] = False

    scores = np.zeros(component.size)
    fitted = np.flatnonzero(size[component] > 1)
    scores[fitted] = members[start[number[component[fitted]]] + position[fitted]]
    return scores.reshape(groups.shape), converged


def _batches(sizes: AnyInts) -> Iterator[tuple[int, int]]:
    """Yield ranges of problems, sorted by decreasing size, whose padded Hessians fit the memory of one batch."""
    lo = 0
    while lo < sizes.size:
        hi = min(sizes.size, lo + max(1, _BATCH // int(sizes[lo]) ** 2))
        yield lo, hi
        lo = hi


def _warn(fit: SeparateFit, separated: AnyInts, stuck: AnyInts) -> None:
    total = fit.converged.size
    if separated.size:
        shown = ". ".join(str(fit._separation(int(u))) for u in separated[:3])
        more = f". And {separated.size - 3} more contexts" if separated.size > 3 else ""
        warn_user(
            f"no Bradley-Terry fit exists in {separated.size} of {total} contexts, whose scores are NaN (gaps inside a "
            f"component stay available; `separation(context)` says more). {shown}{more}.",
            SeparationWarning,
        )
    if stuck.size:
        names = [fit.battles.context_label(int(u)) for u in stuck[:5]]
        warn_user(
            f"Newton's method did not converge in {stuck.size} of {total} contexts ({_listed(tuple(names))}).",
            ConvergenceWarning,
        )


def _listed(names: Labels) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
