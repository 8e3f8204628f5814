"""Scores that are low rank plus deviations, T = L + E: honest also where low rank is only nearly true."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.observations import Data
from lrbtl.errors import MethodError, NoDecisionError
from lrbtl.fitting.blocks import Field, only_contexts, only_models
from lrbtl.fitting.fit import make_design
from lrbtl.fitting.local import LevelInformation
from lrbtl.lowrank.tucker import check_rank
from lrbtl.methods.base import (
    FamilyKind,
    Method,
    Moments,
    Options,
    Provenance,
    Run,
    Shrinkage,
    followed,
    once_there,
)
from lrbtl.methods.clusters import Rows
from lrbtl.methods.naive import SeparateFits
from lrbtl.methods.posterior import Posterior
from lrbtl.methods.sampled import ManyModels, Sampled, simulated_notes, some_contexts, some_models
from lrbtl.methods.search import LIKELY, Node, Search
from lrbtl.methods.shared import TAGS, label_parts, shared_tags
from lrbtl.methods.standard_errors import BATCH, centred, in_batches, widening
from lrbtl.methods.targets import Gradients, Resolved, ScoresView, evaluate
from lrbtl.model.links import LOGISTIC
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Longs

WIDE = 4.0  # times the spread of all scores: a prior that does not hold back what votes tell
CLEAR = 2.0  # times the noise: scores this large show half of their directions
LITTLE_DOUBT = 1e-3
LEARNED = 0.35  # of a squared change of levels that the prior takes up, over contexts; by simulated arenas of 3 to 10
UNRELATED = (
    "sets of tags are too many to ask what a model gains by a tag in all of them: boards of tags may be too sure"
)
MANY_SCORES = 1 << 23  # beyond which it is not told how each follows a change of levels
LONG = 1e9  # contexts times cubed models beyond which the gain over separate fits is not told


class Hierarchical(Method):
    """T = L + E by its posterior, averaged over tau and over two ranks, with exceptions let out."""

    name = "hierarchical"
    unused = ("n_folds", "ridge", "sampling", "se", "solver")

    @one_blas_thread
    def run(self, data: Data, options: Options) -> Run:
        """Return the posterior of all scores of some battles."""
        if not isinstance(data, Battles):
            raise MethodError("the hierarchical method is for battles; use method='efficient' for observed entries.")
        if not np.any(data.cells.y != 0.5):
            raise NoDecisionError("every battle is a tie: nothing tells the models apart; check the outcome column.")
        design, tags = make_design(data, options.link), shared_tags(data)
        models = some_models(data)
        many = None if models is None else ManyModels(models, data.cells.clusters, label_parts(data, tags))
        related = bool(many and many.parts)
        if many is not None and len(data.shape) > 1:
            design, tags = replace(design, shape=(data.shape[0], data.n_contexts)), None
        searched, start = (design, options.start) if models is None else (only_models(design, models), None)
        part = some_contexts(searched) if tags is None and start is None else None
        search = Search(searched if part is None else only_contexts(searched, part), start, tags)
        if len(data.shape) == 1:
            nodes = [search.node(search.climb(search.first((1,)), 0.0), 1.0)]
        elif options.rank == "auto":
            nodes = search.average(search.ranks(options))
        else:
            rank = check_rank(options.rank, data.shape)
            nodes = search.average(search.given(rank if models is None else check_rank(rank[0], search.shape)))
        if part is not None or models is not None:
            nodes = search.widened(design, nodes, many)
        link = nodes[0].mode.scores.design.link
        related = related or TAGS in search.columns.modes
        unrelated = () if related or shared_tags(data) is None else (UNRELATED,)
        simulated = () if models is None else simulated_notes(data, len(models), [node.posterior for node in nodes])
        own = () if data.n_contexts == 1 else (deviation_sentence(deviation_share(nodes)),)
        provenance = Provenance(
            method=self.name,
            rank=main_rank(nodes),
            n_battles=data.n_battles,
            link=None if link == LOGISTIC else str(link),
            notes=(*(() if len(data.shape) == 1 else (*own, *unrelated)), *simulated),
        )
        return HierarchicalRun(data, nodes, provenance)


def main_rank(nodes: Sequence[Node]) -> tuple[int, ...]:
    """Return the rank of most weight, the smaller one of two that have the same."""
    weights: dict[tuple[int, ...], float] = {}
    for node in nodes:
        weights[node.rank] = weights.get(node.rank, 0.0) + node.weight
    return max(weights, key=lambda rank: weights[rank])


def deviation_share(nodes: Sequence[Node]) -> float:
    """Return the share of tau^2 in the variance of the scores of a category."""
    tau = sum(node.weight * node.tau for node in nodes)
    shared = sum(node.weight * node.shared_square for node in nodes)
    return tau**2 / max(tau**2 + shared, 1e-300)


def deviation_sentence(share: float) -> str:
    """Return in words how much of the scores single entries have for themselves."""
    if share < 0.01:
        return "nearly all that differs between models in a category is shared with the other categories"
    return f"{share:.0%} of what differs between models in a category is not shared with the other categories"


def exact(node: Node) -> Posterior:
    """Return the posterior of a node whose models are not too many for matrices over them."""
    assert isinstance(node.posterior, Posterior)
    return node.posterior


class HierarchicalRun(Run):
    """The posterior of all scores: means over nodes, their covariances and the spread between them."""

    data: Battles
    shrinks = True

    def __init__(self, data: Battles, nodes: list[Node], provenance: Provenance) -> None:
        self.data, self.nodes, self.provenance = data, nodes, provenance
        self._known_means: tuple[Floats, Floats] | None = None
        self.link = nodes[len(nodes) // 2].mode.scores.design.link

    def _average(self, values: Iterable[Floats]) -> Floats:
        """Return the weighted mean of arrays, one per node."""
        total: Floats | None = None
        for node, value in zip(self.nodes, values, strict=True):
            part = node.weight * value
            total = part if total is None else np.add(total, part, out=total)
        assert total is not None
        return total

    @property
    def _weights(self) -> list[float]:
        return [node.weight for node in self.nodes]

    @cached_property
    def _mean(self) -> Field:
        return Field.mixed([node.scores for node in self.nodes], self._weights)

    @property
    def _view(self) -> ScoresView:
        return ScoresView(self._mean, self.link, self.data.shape, self.effect_values)

    @cached_property
    def effect_values(self) -> Floats:
        """Values of linear effects."""
        return self._average(node.effect_values for node in self.nodes)

    def scores(self) -> Floats:
        """Return the estimates of all scores, (d1, D)."""
        return self._mean.dense()

    @cached_property
    def tau(self) -> float:
        """Mean size of the deviations of single entries from low rank."""
        return sum(node.weight * node.tau for node in self.nodes)

    @cached_property
    def share(self) -> float:
        """Share of the deviations in what differs between models in a category."""
        return deviation_share(self.nodes)

    @property
    def unshared(self) -> tuple[tuple[str, int, int], ...]:
        """Context modes with too many levels to ask what each does to a model everywhere: name, levels, most levels."""
        node, names = self.nodes[0], self.data.mode_names
        found = node.posterior.unshared()
        return tuple((names[k], self.data.shape[1 + k], most) for k, most in found)

    def least_deviations(self) -> tuple[Floats, Floats]:
        """Return all scores (d1, D) and their errors at the smallest tau that is averaged over."""
        node = min(self.nodes, key=lambda node: node.tau)
        own = [np.einsum("uaa->au", node.posterior.by_context(part)) for part in self._batches()]
        return node.scores.dense(), np.sqrt(np.maximum(np.hstack(own), 0.0))

    def _batches(self) -> Iterator[Longs]:
        """Yield all contexts, some at a time."""
        for part in in_batches(self.data.n_contexts, self.data.shape[0] ** 2):
            yield np.arange(self.data.n_contexts)[part]

    @cached_property
    def separate_errors(self) -> SeparateFits | None:
        """What one fit per context would tell at these scores; None where it would take long."""
        return SeparateFits(self.data, self._view) if self.data.n_contexts * self.data.shape[0] ** 3 <= LONG else None

    def _on_slots(self, values: Iterable[Floats]) -> Field:
        """Return the mean over nodes of values on slots, zero elsewhere."""
        mean = self._mean
        return Field.of(mean.design, mean.U[:, :0], mean.V[:, :0], self._average(values))

    @cached_property
    def exception_probability(self) -> Field:
        """Probability that each entry is an exception."""
        return self._on_slots(node.exceptions.probability for node in self.nodes)

    @cached_property
    def _deviations(self) -> Field:
        """Scores less their low-rank part."""
        fields = [self._mean, *(node.low_rank for node in self.nodes)]
        return Field.mixed(fields, [1.0, *(-weight for weight in self._weights)])

    def leans_on(self, has_votes_elsewhere: bool) -> str:
        """Return what the score of a model with few or no votes on a board rests on."""
        return "score from its other categories" if has_votes_elsewhere else "score from the spread of models"

    def exception(self, model: int, weights: Floats) -> float:
        """Return how far a score is from what the model's other scores say, where votes single it out; else 0."""
        if model not in self._exceptional:
            return 0.0
        used = np.flatnonzero(weights)
        if used.size != 1 or self.exception_probability.entries(np.array([model]), used)[0] < LIKELY:
            return 0.0
        return float(self._deviations.entries(np.array([model]), used)[0])

    @cached_property
    def _exceptional(self) -> set[int]:
        """Models with exceptions."""
        _, model = self._mean.design.slot_places
        return set(model[self.exception_probability.slots >= LIKELY].tolist())

    def _by_context(self, contexts: Longs) -> Floats:
        """Return the covariance of the scores of some contexts, (n, d1, d1)."""
        out = self._average(node.posterior.by_context(contexts) for node in self.nodes)
        mean = self._mean.columns(contexts)
        for node in self.nodes:
            away = node.scores.columns(contexts) - mean
            out += node.weight * away[:, :, None] * away[:, None, :]
        each = np.arange(out.shape[1])
        out[:, each, each] += self._added.columns(contexts)
        out += self._common
        return out

    @cached_property
    def _common(self) -> Floats:
        """Covariance that all contexts share beyond what the nodes say, (d1, d1).

        The nodes take the directions of their skills for known. Where votes hardly tell them, a mean over contexts is
        not known better than if each model had one score everywhere, with WIDE times the spread of scores as prior.
        """
        d1, node, unsure = self.data.shape[0], max(self.nodes, key=lambda node: node.weight), self._unsure
        if not unsure:
            return np.zeros((d1, d1))
        traffic = self.data.context_counts / self.data.n_battles
        prior = np.eye(d1) / (WIDE**2 * max(self._mean.mean_square(), node.mode.scores.design.noise**2))
        least = np.linalg.inv(node.posterior.pooled_information + prior)
        values, vectors = np.linalg.eigh(centred(least - self._of_means(traffic)))
        return np.asarray(unsure * (vectors * np.maximum(values, 0.0)) @ vectors.T)

    @cached_property
    def _unsure(self) -> float:
        """How far votes leave the directions of skills open: 1 where scores are nothing against their noise."""
        noise = max(self.nodes, key=lambda node: node.weight).mode.scores.design.noise  # of one entry
        clear = CLEAR * noise * (np.sqrt(self.data.shape[0]) + np.sqrt(self.data.n_contexts))
        found = 1.0 / (1.0 + (self._mean.norm() / clear) ** 4)
        return float(found) if found >= LITTLE_DOUBT else 0.0

    @cached_property
    def _added(self) -> Field:
        """Variance that exceptions add to each entry."""
        return self._on_slots(node.exceptions.variance for node in self.nodes)

    def _of_means(self, weights: Floats) -> Floats:
        """Return the covariance (d1, d1) of sums over contexts of weights (D,) times scores, by the nodes alone."""
        if self._known_means is None or not np.array_equal(self._known_means[0], weights):
            self._known_means = weights.copy(), self._make_means(weights)  # often the overall board's, asked for twice
        return self._known_means[1]

    def _make_means(self, weights: Floats) -> Floats:
        """Return the same, computed anew."""
        out, mean = (
            self._average(node.posterior.of_means(weights) for node in self.nodes),
            self._mean.mean(weights),
        )
        for node in self.nodes:
            away = node.scores.mean(weights) - mean
            if len(self.nodes) > 1:
                out += node.weight * np.outer(away, away)
        added = self._added.mean(weights**2)
        middle = added.mean()
        out -= (added - 0.5 * middle)[:, None] / len(out)
        out -= (added - 0.5 * middle) / len(out)
        out[np.diag_indices(len(out))] += added
        return out

    def score_moments(self, weights: Floats, among: Bools | None = None) -> list[Moments]:
        """Return, for each row of weights (B, D) of contexts, the moments of all models' mean scores.

        Simulated logs have clusters of votes already.
        """
        each = [node.posterior for node in self.nodes if isinstance(node.posterior, Sampled)]
        if not (self.clustered and each):
            return super().score_moments(weights, among)
        out = []
        for row, found in zip(weights, self.vote_score_moments(weights, among), strict=True):
            noise = self._average(posterior.variance_noise(row) for posterior in each)
            wider = widening(2.0 * noise)
            assert found.cov is not None
            out.append(Moments(found.values, found.cov * np.outer(wider, wider), wider * found.se, noise))
        return out

    @one_blas_thread
    def vote_moments(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Moments:
        """Return estimates of targets with their covariance, or only with their errors."""
        values, gradients = evaluate(targets, self._view)
        n_contexts, d1 = np.unique(gradients.contexts).size, self.data.shape[0]
        none = np.zeros(len(targets))
        if errors_only:
            batches = in_batches(len(targets), max(n_contexts * d1, self._mean.design.n_slots))
            each = (evaluate(targets[part], self._view)[1] for part in batches)
            parts = [self._covariance(gradients, diagonal=True) for gradients in each]
            return Moments(values, None, np.sqrt(np.concatenate(parts)), none)
        cov = self._covariance(gradients, diagonal=False)
        return Moments(values, cov, np.sqrt(np.maximum(np.diag(cov), 0.0)), none)

    def _covariance(self, gradients: Gradients, *, diagonal: bool) -> Floats:
        """Return the covariance of targets, or its diagonal."""
        dense, contexts, slopes = self._dense(gradients)
        flat = dense.reshape(len(dense), -1)
        found = self._average(
            node.posterior.covariance(dense, contexts, slopes, diagonal=diagonal) for node in self.nodes
        )
        mean = self._mean.columns(contexts).reshape(-1)
        for node in self.nodes:
            away = flat @ (node.scores.columns(contexts).reshape(-1) - mean)
            if len(self.effect_values) and slopes is not None:
                away = away + slopes[:, : len(self.effect_values)] @ (node.effect_values - self.effect_values)
            found = found + node.weight * (away**2 if diagonal else np.outer(away, away))
        added, over_contexts = flat * self._added.columns(contexts).reshape(-1), dense.sum(axis=1)
        common = over_contexts @ self._common
        if diagonal:
            return np.asarray(found + np.einsum("mi,mi->m", added, flat) + np.einsum("ma,ma->m", common, over_contexts))
        return np.asarray(found + added @ flat.T + common @ over_contexts.T)

    @one_blas_thread
    def influence_rows(self, targets: Sequence[Resolved]) -> Rows:
        """Return the influences of votes in some cells, the mean over nodes."""
        _, gradients = evaluate(targets, self._view)
        found = self._dense(gradients)
        each = [node.posterior.influence_rows(*found) for node in self.nodes]
        return lambda cells: self._average(rows(cells) for rows in each)

    @property
    def _many_scores(self) -> bool:
        return self.data.n_contexts * self.data.shape[0] > MANY_SCORES or isinstance(self.nodes[0].posterior, Sampled)

    @property
    def _few_contexts(self) -> bool:
        """Whether matrices of all contexts over all models are small."""
        return self.data.n_contexts * self.data.shape[0] ** 2 <= BATCH

    @one_blas_thread
    def _level_answers(self, contexts: Longs) -> Floats:
        """Return how scores follow a true change of each model's level that is alike everywhere, (n, d1, d1)."""
        if self._few_contexts:
            return self._all_level_answers[contexts]
        return self._average(exact(node).level_answers(contexts) for node in self.nodes)

    @cached_property
    def _all_level_answers(self) -> Floats:
        every = np.arange(self.data.n_contexts)
        return self._average(exact(node).level_answers(every) for node in self.nodes)

    @one_blas_thread
    def _pulled(self, contexts: Longs) -> Floats:
        """Return the covariance of the scores of some contexts for what the prior pulls at, (n, d1, d1)."""
        if self._few_contexts:
            return self._all_pulled[contexts]
        return self._average(exact(node).without_noise.by_context(contexts) for node in self.nodes)

    @cached_property
    def _all_pulled(self) -> Floats:
        every = np.arange(self.data.n_contexts)
        return self._average(exact(node).without_noise.by_context(every) for node in self.nodes)

    @property
    def _learned(self) -> float:
        """Part of a squared change of levels by which the prior of their means over contexts grows."""
        return LEARNED / self.data.n_contexts

    @cached_property
    def level_information(self) -> LevelInformation:
        """What votes tell of levels, and would tell if these were others, at the likeliest node."""
        scores = max(self.nodes, key=lambda node: node.weight).mode.scores
        return LevelInformation.at(scores.design, scores.eta_of(scores.design))

    @one_blas_thread
    def shrinkage(self, targets: Sequence[Resolved], weights: Floats | None = None) -> Shrinkage:
        """Return what the prior does to estimates of targets, or of sums of them.

        In logs of very many contexts they are taken to follow wholly: a level is shared by all of them.
        """
        if self._many_scores:
            return super().shrinkage(targets, weights)
        used = np.arange(len(targets)) if weights is None else np.flatnonzero(weights.any(axis=0))
        _, gradients = evaluate([targets[int(k)] for k in used], self._view)
        dense, contexts, slopes = self._dense(gradients)
        if weights is not None:
            dense = np.tensordot(weights[:, used], dense, 1)
            slopes = None if slopes is None else weights[:, used] @ slopes
        answers = np.zeros((len(dense), self.data.shape[0]))
        for part in in_batches(len(contexts), self.data.shape[0] ** 2):
            answers += np.einsum("mua,uab->mb", dense[:, part], self._level_answers(contexts[part]), optimize=True)
        each = [exact(node).without_noise for node in self.nodes]
        pulled = self._average(one.covariance(dense, contexts, slopes, diagonal=True) for one in each)
        levels = dense.sum(axis=1)
        follow = followed(levels, answers, self._unsure)
        return Shrinkage(follow, pulled, self._learned, *self.level_information.along(levels))

    def board_shrinkage(self, row: Floats, among: Bools | None, weights: Floats | None = None) -> Shrinkage:
        """Return the same for the mean scores of a board, or sums of them."""
        if self._many_scores:
            return super().board_shrinkage(row, among, weights)
        used, levels = np.flatnonzero(row), row.sum() * np.eye(self.data.shape[0])
        if len(used) > 1:
            answers = self._average(exact(node).level_means(row) for node in self.nodes)
            pulled = self._average(exact(node).without_noise.of_means(row) for node in self.nodes)
        else:
            answers = np.tensordot(row[used], self._level_answers(used), 1)
            pulled = np.tensordot(row[used] ** 2, self._pulled(used), 1)
        inside = slice(None) if among is None else among
        sums = np.eye(len(levels)) if weights is None else weights
        sums = sums - sums.sum(axis=1, keepdims=True) * np.eye(len(levels))[inside].mean(axis=0)
        own = np.einsum("ka,ka->k", sums @ pulled, sums)
        levels = sums @ levels
        follow = followed(levels, sums @ answers, self._unsure)
        return Shrinkage(follow, own, self._learned, *self.level_information.along(levels))

    def family_shrinkage(self, kind: FamilyKind) -> Shrinkage:
        """Return the same for all scores (d1, D), or all gaps (pairs, D)."""
        if self._many_scores:
            return super().family_shrinkage(kind)
        (a, b), out = np.triu_indices(self.data.shape[0], 1), []
        for part in self._batches():
            found = []
            for each in (self._level_answers(part), self._pulled(part)):
                own = np.einsum("uaa->au", each)
                found.append(own if kind == "scores" else own[a] + own[b] - (each[:, a, b] + each[:, b, a]).T)
            out.append(found)
        answers, pulled = (np.hstack(side) for side in zip(*out, strict=True))
        d1, told = self.data.shape[0], self.level_information
        levels = 1.0 - 1.0 / d1 if kind == "scores" else 2.0
        bends = told.along(np.eye(d1) - 1.0 / d1) if kind == "scores" else told.of_pairs(a, b)
        slope, bend = (np.repeat(x[:, None], self.data.n_contexts, axis=1) for x in bends)
        return Shrinkage(once_there(answers / levels, self._unsure), pulled, self._learned, slope, bend)

    def _dense(self, gradients: Gradients) -> tuple[Floats, Longs, Floats | None]:
        """Return gradients in the scores of n contexts, (M, n, d1), centred, these contexts, and those in effects."""
        contexts, place = np.unique(gradients.contexts, return_inverse=True)
        d1, contexts = self.data.shape[0], contexts if contexts.size else np.zeros(1, dtype=np.int64)
        within = replace(gradients, contexts=place).by_context(d1, len(contexts))
        dense = within.toarray().reshape(-1, len(contexts), d1)
        slopes = gradients.effects.T if len(gradients.effects) else None
        return dense - dense.mean(axis=2, keepdims=True), contexts, slopes

    def vote_score_moments(self, weights: Floats, among: Bools | None = None) -> list[Moments]:
        """Return, for each row of weights (B, D) of contexts, the moments of all models' mean scores."""
        alone = np.count_nonzero(weights, axis=1) == 1
        used = np.argmax(weights != 0.0, axis=1)
        cov: dict[int, Floats] = {}
        contexts = np.unique(used[alone])
        for part in in_batches(len(contexts), self.data.shape[0] ** 2):
            cov.update(zip(contexts[part].tolist(), self._by_context(contexts[part]), strict=True))
        out = []
        for i, row in enumerate(weights):
            if alone[i]:
                own = row[used[i]] ** 2 * cov[int(used[i])]
            else:
                own = self._of_means(row) + row.sum() ** 2 * self._common
            inside = np.ones(self.data.shape[0], dtype=np.bool_) if among is None else among[i]
            mean = own @ (inside / inside.sum())
            own = own - (mean - float(mean[inside].mean()))
            own -= mean[:, None]
            values = self._mean.mean(row)
            se = np.sqrt(np.maximum(np.diag(own), 0.0))
            out.append(Moments(values - values[inside].mean(), own, se, np.zeros(len(values))))
        return out

    def vote_family(self, kind: FamilyKind) -> tuple[Floats, Floats]:
        """Return estimates and errors of all scores, or of all gaps."""
        scores, variances = self._mean.dense(), []
        a, b = np.triu_indices(len(scores), 1)
        for part in self._batches():
            cov = self._by_context(part)
            cov = centred(cov) if kind == "scores" else cov
            own = np.einsum("uaa->au", cov)
            variances.append(own if kind == "scores" else own[a] + own[b] - 2 * cov[:, a, b].T)
        values = scores if kind == "scores" else scores[a] - scores[b]
        return values, np.sqrt(np.maximum(np.hstack(variances), 0.0))
