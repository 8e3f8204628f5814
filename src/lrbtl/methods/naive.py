"""The naive method: one Bradley-Terry fit per context, its HC3 errors, contexts independent."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.cells import component_members, largest_component, weak_components
from lrbtl.data.observations import Data
from lrbtl.errors import MethodError, SeparationWarning, without
from lrbtl.fitting.bradley_terry import centred_inverse, laplacian
from lrbtl.fitting.separate import SeparateFit, fit_separate
from lrbtl.fitting.slots import SlotScores, fit_slots
from lrbtl.methods.base import FamilyKind, Method, Moments, Options, Provenance, Run, joined
from lrbtl.methods.clusters import Rows
from lrbtl.methods.standard_errors import believed_covariance, believed_variances
from lrbtl.methods.targets import Gradients, Resolved, View, evaluate
from lrbtl.model.links import LOGISTIC, Link, as_link
from lrbtl.typing import AnyInts, Bools, Floats, Indices, Longs

MOST_KEPT = 1 << 22  # numbers that covariances of separate fits may fill
UNBALANCED = 1e-9  # share of a gradient's weight in a strong component that is rounding
BATCH = 4096  # targets whose errors are computed at a time


class Naive(Method):
    """One Bradley-Terry fit per context."""

    name = "naive"
    unused: ClassVar[tuple[str, ...]] = ("rank", "n_folds", "ridge", "sampling", "se", "solver", "config")

    def run(self, data: Data, options: Options) -> Run:
        """Return separate fits; raise for observed entries and other links."""
        if not isinstance(data, Battles) or (options.link is not None and as_link(options.link) != LOGISTIC):
            raise MethodError("the naive method fits Bradley-Terry: it takes battles and link='logistic' only.")
        return self.plain_run(data, self.name)

    def plain_run(self, data: Data, name: str) -> "NaiveRun":
        """Return separate fits under the name of what they are."""
        assert isinstance(data, Battles)
        with without(SeparationWarning):  # estimates and boards warn about their own targets
            separate = fit_separate(data)
        provenance = Provenance(method=name, n_battles=data.n_battles)
        if data.covariates or data.vote_weights is not None or data.cells.clusters is not None:
            return VotesRun.of(separate, provenance)
        return NaiveRun(separate, provenance)


@dataclass(frozen=True)
class NaiveView:
    """Scores of separate fits; in a separated context, those that sum to zero within each strong component."""

    separate: SeparateFit
    link: Link = LOGISTIC
    effect_values: Floats = field(default_factory=lambda: np.empty(0))

    def entries(self, models: Longs, contexts: Longs) -> Floats:
        """Return scores[models, contexts]."""
        return self.separate.within_scores[contexts, models]

    def dense(self) -> Floats:
        """Return all scores."""
        return self.separate.within_scores.T.reshape(self.separate.battles.shape)


class NaiveRun(Run):
    """Separate Bradley-Terry fits: what strong components leave infinite or unknown is NaN."""

    data: Battles

    separate: SeparateFit
    link: Link
    provenance: Provenance

    def __init__(self, separate: SeparateFit, provenance: Provenance) -> None:
        self.separate, self.data, self.link, self.provenance = separate, separate.battles, LOGISTIC, provenance

    @cached_property
    def dispersion(self) -> float:
        """Variance of the votes over that of wins and losses: 1 without ties and soft votes."""
        cells, within = self.data.cells, self.separate.within_scores
        inside = self._components[cells.a, cells.context] == self._components[cells.b, cells.context]
        if not inside.any():
            return 1.0
        u, a, b = cells.context[inside], cells.a[inside], cells.b[inside]
        return LOGISTIC.dispersion(within[u, a] - within[u, b], cells.y[inside], cells.count[inside].astype(float))

    @property
    def _components(self) -> Indices:
        """Strong components, (d1, D)."""
        return self.separate.components.reshape(self.data.shape[0], -1)

    def _covariances(self, u: int) -> tuple[Floats, Floats]:
        """Return the HC3 covariance of one context's scores and the model-based one; zero between components."""
        context = self.data.context_label(u)
        robust, model = (np.nan_to_num(self.separate.covariance(context, kind=kind)) for kind in ("hc3", "model"))
        return robust, self.dispersion * model

    def vote_moments(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Moments:
        """Return estimates with their covariance or errors; NaN for targets that separation leaves without."""
        if errors_only and len(targets) > BATCH:
            batches = (targets[k : k + BATCH] for k in range(0, len(targets), BATCH))
            return joined([self.vote_moments(batch, errors_only=True) for batch in batches])
        values, gradients = evaluate(targets, NaiveView(self.separate))
        M, d1 = len(targets), self.data.shape[0]
        cov, model, lost = np.zeros(M if errors_only else (M, M)), np.zeros(M), np.zeros(M, dtype=np.bool_)
        for u, rows, weights in by_context(gradients, d1, self.data.n_contexts):
            robust, plain = self._covariances(u)
            lost[rows] |= crosses_components(weights, self._components[:, u])
            product = weights @ robust
            if errors_only:
                cov[rows] += np.einsum("ma,ma->m", product, weights)
            else:
                cov[np.ix_(rows, rows)] += product @ weights.T
            model[rows] += np.maximum(np.einsum("ma,ma->m", weights @ plain, weights), 0.0)
        return self._reported(values, cov, model).without(lost)

    def _reported(self, values: Floats, cov: Floats, model: Floats) -> Moments:
        bound = None if self.data.levels else np.sqrt(model / self.dispersion)
        noise = np.zeros(len(values))
        if cov.ndim == 1:
            return Moments(values, None, np.sqrt(believed_variances(cov, model)), noise, bound)
        cov = believed_covariance(cov, np.sqrt(model))
        return Moments(values, cov, np.sqrt(np.diag(cov)), noise, bound)

    def vote_family(self, kind: FamilyKind) -> tuple[Floats, Floats]:
        """Return estimates and errors of all scores or gaps."""
        d1, D = self.data.shape[0], self.data.n_contexts
        scores, groups = self.separate.within_scores.T, self._components
        a, b = np.triu_indices(d1, 1)
        if kind == "scores":
            values, known = scores, np.broadcast_to(np.all(groups == groups[0], axis=0), scores.shape)
        else:
            values, known = scores[a] - scores[b], groups[a] == groups[b]
        errors = np.empty_like(values)
        for u in range(D):
            robust, model = self._covariances(u)
            if kind == "gaps":
                parts = [np.diag(c)[a] + np.diag(c)[b] - 2 * c[a, b] for c in (robust, model)]
            else:
                parts = [np.diag(robust), np.diag(model)]
            errors[:, u] = np.sqrt(believed_variances(*parts))
        return np.where(known, values, np.nan), np.where(known, errors, np.nan)

    @cached_property
    def _cores(self) -> Bools:
        """Members of each context's largest strong component, (d1, D); of equally large ones that with most battles."""
        cells, (d1, D) = self.data.cells, (self.data.shape[0], self.data.n_contexts)
        votes = np.zeros((D, d1), dtype=np.int64)
        np.add.at(votes, (cells.context, cells.a), cells.count)
        np.add.at(votes, (cells.context, cells.b), cells.count)
        out = np.zeros((d1, D), dtype=np.bool_)
        for u in range(D):
            best = largest_component(self._components[:, u], votes[u])
            out[best, u] = best.size > 1 or d1 == 1
        return out

    def influence_rows(self, targets: Sequence[Resolved]) -> Rows:
        """Return the influences of votes in some cells."""
        return VotesRun.of(self.separate, self.provenance).influence_rows(targets)

    def scores(self) -> Floats:
        """Return all scores (d1, D), zero-sum in each context's largest strong component; NaN outside it."""
        return np.where(self._cores, self.separate.within_scores.T, np.nan)

    def placed(self, weights: Floats) -> Bools:
        """Return the members of the largest strong component of every context with a weight."""
        return np.asarray(np.all(self._cores[:, np.flatnonzero(weights)], axis=1))


class VotesRun(NaiveRun):
    """Separate Bradley-Terry fits where votes have weights or share effects, which alone tie contexts together."""

    def __init__(self, separate: SeparateFit, provenance: Provenance, slots: SlotScores) -> None:
        super().__init__(separate, provenance)
        self.slots = slots

    @classmethod
    def of(cls, plain: SeparateFit, provenance: Provenance) -> "VotesRun":
        """Return the run on the battles of separate fits, which know what is connected."""
        battles = plain.battles
        labels = plain.components.reshape(battles.shape[0], -1).T
        slots = fit_slots(battles, labels)
        within = np.zeros(labels.shape)
        within[slots.design.slot_places] = slots.theta
        separated = np.ptp(labels, axis=1) > 0
        scores = np.where(separated[:, None], np.nan, within).T.reshape(battles.shape)
        return cls(replace(plain, within_scores=within, scores=scores), provenance, slots)

    @property
    def effect_values(self) -> Floats:
        """Values of linear effects."""
        effects = self.slots.design.effects
        return np.empty(0) if effects is None else effects.values

    @property
    def dispersion(self) -> float:
        """Variance of the votes over that of wins and losses: 1 without ties and soft votes."""
        slots = self.slots
        design = slots.design
        eta = design.entries.differences(slots.theta) + (0.0 if design.effects is None else design.effects.change)
        count = design.count if design.weight is None else design.count * design.weight
        return LOGISTIC.dispersion(eta, design.y, count)

    def directions(self, targets: Sequence[Resolved]) -> tuple[Floats, Floats, Floats, Bools]:
        """Return values of targets (M,), their directions on slots and in effects, and which have no value."""
        d1, D = self.data.shape[0], self.data.n_contexts
        view = NaiveView(self.separate, LOGISTIC, self.effect_values)
        values, gradients = evaluate(targets, view)
        dense = gradients.by_context(d1, D).toarray().reshape(len(targets), D, d1)
        lost = np.zeros(len(targets), dtype=np.bool_)
        for u in np.unique(gradients.contexts).tolist():
            lost |= crosses_components(dense[:, u], self._components[:, u])
        context, model = self.slots.design.slot_places
        found = self.slots.directions(np.ascontiguousarray(dense[:, context, model].T), gradients.effects)
        return values, *found, lost

    def vote_moments(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Moments:
        """Return estimates with their covariance or errors; NaN for targets that separation leaves without."""
        values, slots, effects, lost = self.directions(targets)
        robust, model = self.slots.covariances(slots, effects, diagonal=errors_only)
        return self._reported(values, robust, self.dispersion * np.maximum(model, 0.0)).without(lost)

    def influence_rows(self, targets: Sequence[Resolved]) -> Rows:
        """Return the influences of votes in some cells; votes outside strong components have none."""
        _, slots, effects, lost = self.directions(targets)
        place = np.full(self.data.n_cells, -1)
        place[self.slots.kept] = np.arange(len(self.slots.kept))
        residual, known = self.slots.residuals, ~lost

        def rows(cells: Longs) -> Floats:
            out = np.zeros((len(cells), len(targets)))
            inside = np.flatnonzero(place[cells] >= 0)
            at = place[cells[inside]]
            out[inside] = residual[at, None] * self.slots.along(slots, effects, at) * known
            return out

        return rows

    def vote_family(self, kind: FamilyKind) -> tuple[Floats, Floats]:
        """Return estimates and errors of all scores or gaps."""
        return Run.vote_family(self, kind)


def by_context(gradients: Gradients, d1: int, D: int) -> list[tuple[int, Longs, Floats]]:
    """Return, for each context that some targets touch, its position, these targets, and their weights (k, d1)."""
    matrix = gradients.by_context(d1, D)
    out = []
    for u in np.unique(gradients.contexts).tolist():
        part = matrix[:, u * d1 : (u + 1) * d1].tocsr()
        rows = np.flatnonzero(np.diff(part.indptr))
        out.append((u, rows, part[rows].toarray()))
    return out


def crosses_components(weights: Floats, labels: AnyInts) -> Bools:
    """Return which gradients (k, d1) do not sum to zero within each strong component of a separated context."""
    if np.all(labels == labels[0]):
        return np.zeros(len(weights), dtype=np.bool_)
    sums = np.stack([weights[:, labels == label].sum(axis=1) for label in np.unique(labels)], axis=1)
    return np.asarray(np.abs(sums).max(axis=1) > UNBALANCED * np.abs(weights).max(axis=1))


# ------------------------------------------------------------------------------
# What separate fits would give if other scores were true.
# ------------------------------------------------------------------------------


class SeparateFits:
    """Model-based errors that separate fits would have if the scores were those of a view.

    They exist also where a separate fit does not, as long as the context's comparisons connect the models of a target;
    else they are infinite. Ties and soft votes vary less than wins and losses, which the errors allow for. Covariances
    of contexts are kept for other targets as long as they are few.
    """

    battles: Battles
    view: View

    def __init__(self, battles: Battles, view: View):
        self.battles, self.view = battles, view
        self._known: dict[int, tuple[Longs, Floats]] = {}

    def errors(self, targets: Sequence[Resolved]) -> Floats:
        """Return standard errors of targets."""
        variances = np.zeros(len(targets))
        gradients = evaluate(targets, self.view)[1]
        for u, rows, weights in by_context(gradients, self.battles.shape[0], self.battles.n_contexts):
            variances[rows] += self._variances(u, weights)
        return np.sqrt(np.maximum(variances, 0.0))

    def board_errors(self, row: Floats, among: Bools | None) -> Floats:
        """Return those of the mean scores of a board with weights (D,) of contexts, against the mean of some models."""
        d1 = self.battles.shape[0]
        inside = np.full(d1, 1.0 / d1) if among is None else among / among.sum()
        variances = np.zeros(d1)
        for u in np.flatnonzero(row).tolist():
            models, covariance = self._covariance(u)
            own = np.full(d1, np.inf)
            if abs(inside[models].sum() - 1.0) < UNBALANCED:
                with_mean = covariance @ inside[models]
                own[models] = np.diag(covariance) - 2 * with_mean + inside[models] @ with_mean
            variances += row[u] ** 2 * own
        return np.sqrt(np.maximum(variances, 0.0))

    def _variances(self, u: int, weights: Floats) -> Floats:
        """Return variances of sums of scores of a context, with weights (k, d1)."""
        models, covariance = self._covariance(u)
        weights = weights - weights.mean(axis=1, keepdims=True)
        inside, outside = weights[:, models], np.delete(weights, models, axis=1)
        known = np.einsum("ma,ma->m", inside @ covariance, inside)
        return np.where(np.any(np.abs(outside) > UNBALANCED, axis=1), np.inf, known)

    def _covariance(self, u: int) -> tuple[Longs, Floats]:
        """Return the largest group of models that a context connects, and the covariance of a separate fit's scores."""
        if u not in self._known:
            if len(self._known) * self.battles.shape[0] ** 2 > MOST_KEPT:
                self._known.clear()
            self._known[u] = self._make_covariance(u)
        return self._known[u]

    def _make_covariance(self, u: int) -> tuple[Longs, Floats]:
        """Return the same, computed anew.

        Nobody is left where votes have no information on gaps as large as the view's.
        """
        cells, d1, view = self.battles.cells, self.battles.shape[0], self.view
        part = slice(cells.start[u], cells.start[u + 1])
        a, b, y, count = cells.a[part], cells.b[part], cells.y[part], cells.count[part].astype(float)
        scores = view.entries(np.arange(d1), np.full(d1, u))
        eta = scores[a] - scores[b]
        information = count * view.link.terms(eta, y).fisher / view.link.dispersion(eta, y, count)
        bread, members = laplacian(a, b, information, d1), np.arange(d1)
        if np.count_nonzero(bread, axis=1).max() < d1:  # nobody met everybody
            members = component_members(weak_components(a, b, d1)[0])[0]
            bread = bread[np.ix_(members, members)]
        try:
            return members, centred_inverse(bread)
        except np.linalg.LinAlgError:
            return members[:0], np.empty((0, 0))
