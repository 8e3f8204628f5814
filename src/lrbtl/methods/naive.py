"""The naive baseline as an estimator: one Bradley-Terry fit per context, its HC3 errors, contexts independent."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lrbtl.errors import SeparationWarning, warn_user
from lrbtl.fitting.bradley_terry import centred_inverse, laplacian
from lrbtl.fitting.fit import Fit
from lrbtl.fitting.separate import SeparateFit
from lrbtl.methods.targets import Resolved, SparseGradient
from lrbtl.model.links import LOGISTIC, Link
from lrbtl.typing import Floats, Longs


@dataclass(frozen=True)
class NaiveView:
    """Scores of separate fits; in a separated context, those that sum to zero within each strong component."""

    fit: SeparateFit
    link: Link = LOGISTIC

    @cached_property
    def within(self) -> Floats:
        """Scores (D, d1)."""
        return self.fit.within_scores

    def entries(self, models: Longs, contexts: Longs) -> Floats:
        """Return scores[models, contexts]."""
        return self.within[contexts, models]

    def dense(self) -> Floats:
        """Return all scores."""
        return self.within.T.reshape(self.fit.battles.shape)


def naive_moments(fit: SeparateFit, targets: Sequence[Resolved]) -> tuple[Floats, Floats]:
    """Return estimates and their covariance; NaN for targets that a separated context leaves infinite or unknown."""
    view = NaiveView(fit)
    d1, D = fit.battles.shape[0], fit.battles.n_contexts
    values = np.empty(len(targets))
    gradients = []
    for i, target in enumerate(targets):
        values[i], gradient = target.at(view)
        gradients.append(_by_context(gradient, d1, D))
    cov = np.zeros((len(targets), len(targets)))
    undefined = np.zeros(len(targets), dtype=bool)
    for u in sorted({u for gradient in gradients for u in gradient}):
        rows = [i for i, gradient in enumerate(gradients) if u in gradient]
        weights = np.stack([gradients[i][u] for i in rows])
        labels = fit.components.reshape(d1, D)[:, u]
        if np.any(labels != labels[0]):
            inside = np.stack([weights[:, labels == label].sum(axis=1) for label in np.unique(labels)], axis=1)
            undefined[rows] |= np.abs(inside).max(axis=1) > 1e-9 * np.abs(weights).max()
        covariance = np.nan_to_num(fit.covariance(fit.battles.context_label(u), kind="hc3"))
        cov[np.ix_(rows, rows)] += weights @ covariance @ weights.T
    values[undefined] = np.nan
    cov[undefined] = np.nan
    cov[:, undefined] = np.nan
    if undefined.any():
        named = [targets[int(i)].label for i in np.flatnonzero(undefined)]
        warn_user(
            f"{len(named)} targets ({', '.join(named[:3])}) have no naive estimate: in a context that they touch some "
            "model only wins, only loses or never meets the others. They are NaN; use method='efficient'.",
            SeparationWarning,
        )
    return values, cov


def naive_family(fit: SeparateFit, kind: str) -> tuple[Floats, Floats]:
    """Return estimates and standard errors of all scores, or all gaps, contexts in order within a model or pair."""
    d1, D = fit.battles.shape[0], fit.battles.n_contexts
    scores = fit.within_scores.T
    components = fit.components.reshape(d1, D)
    covariances = [fit.covariance(fit.battles.context_label(u), kind="hc3") for u in range(D)]
    if kind == "scores":
        values = np.where(np.all(components == components[0], axis=0), scores, np.nan)
        return values.reshape(-1), np.sqrt([np.diag(c) for c in covariances]).T.reshape(-1)
    a, b = np.triu_indices(d1, 1)
    values = np.where(components[a] == components[b], scores[a] - scores[b], np.nan)
    variances = [np.diag(c)[a] + np.diag(c)[b] - 2 * c[a, b] for c in covariances]
    return values.reshape(-1), np.sqrt(np.maximum(np.array(variances).T, 0.0)).reshape(-1)


def naive_errors(fit: Fit, targets: Sequence[Resolved], gradients: Sequence[SparseGradient | Floats]) -> Floats:
    """Return model-based standard errors that separate fits would have if the scores were those of the fit.

    They exist also where a separate fit does not, as long as the context's comparisons connect its models; else
    infinity.
    """
    d1, D = fit.battles.shape[0], fit.battles.n_contexts
    variances = np.zeros(len(targets))
    by_context = [_by_context(gradient, d1, D) for gradient in gradients]
    for u in sorted({u for gradient in by_context for u in gradient}):
        rows = [i for i, gradient in enumerate(by_context) if u in gradient]
        covariance = _separate_covariance(fit, u)
        weights = np.stack([by_context[i][u] for i in rows])
        weights = weights - weights.mean(axis=1, keepdims=True)
        if covariance is None:
            variances[rows] = np.inf
        else:
            variances[rows] += np.einsum("ma,ma->m", weights @ covariance, weights)
    return np.sqrt(variances)


def naive_variances(fit: Fit) -> Floats:
    """Return the same squared for every score, (D, d1)."""
    found = (_separate_covariance(fit, u) for u in range(fit.battles.n_contexts))
    nothing = np.full(fit.battles.shape[0], np.inf)
    return np.array([nothing if covariance is None else np.diag(covariance) for covariance in found])


def _separate_covariance(fit: Fit, u: int) -> Floats | None:
    """Return the model-based covariance of a separate fit's scores in one context; None where it is not connected."""
    battles, cells = fit.battles, fit.battles.cells
    d1 = battles.shape[0]
    part = slice(cells.start[u], cells.start[u + 1])
    a, b = cells.a[part], cells.b[part]
    scores = fit.scores.reshape(d1, -1)[:, u]
    fisher = fit.link.terms(scores[a] - scores[b], cells.y[part]).fisher
    bread = laplacian(a, b, cells.count[part] * fisher, d1)
    if np.linalg.matrix_rank(bread, hermitian=True) < d1 - 1:
        return None
    return centred_inverse(bread)


def _by_context(gradient: SparseGradient | Floats, d1: int, D: int) -> dict[int, Floats]:
    """Return the gradient of each touched context, (d1,)."""
    if isinstance(gradient, SparseGradient):
        out: dict[int, Floats] = {}
        for u in np.unique(gradient.contexts):
            at = gradient.contexts == u
            out[int(u)] = np.bincount(gradient.models[at], gradient.weights[at], d1).astype(np.float64)
        return out
    flat = gradient.reshape(d1, D)
    return {int(u): flat[:, u] for u in np.flatnonzero(np.abs(flat).max(axis=0) > 0)}
