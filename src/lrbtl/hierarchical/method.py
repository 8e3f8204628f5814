"""Scores that are low rank plus deviations, T = L + E: honest also where low rank is only nearly true."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import sparse

from lrbtl.data.battles import Battles
from lrbtl.data.observations import Data
from lrbtl.errors import MethodError, NoDecisionError
from lrbtl.fitting.blocks import Field, only_contexts, only_models
from lrbtl.fitting.local import LevelInformation
from lrbtl.fitting.low_rank import make_design
from lrbtl.hierarchical.config import HierarchicalConfig
from lrbtl.hierarchical.covariance import ScoreCovariance
from lrbtl.hierarchical.expansion import Expansion
from lrbtl.hierarchical.extend import extend_to_all_contexts, extend_to_all_models
from lrbtl.hierarchical.large import ManyModels, MonteCarloCovariance, simulated_notes, some_contexts, some_models
from lrbtl.hierarchical.level_prior import LevelPrior
from lrbtl.hierarchical.mode import Mode
from lrbtl.hierarchical.pairings import DesignCovariates
from lrbtl.hierarchical.random_effects import TAGS, RandomEffectDesign, label_parts, shared_tags
from lrbtl.hierarchical.search import LIKELY, Component, Search
from lrbtl.hierarchical.sizes import SizeFitter
from lrbtl.lowrank.tucker import check_rank, rank_caps
from lrbtl.methods.base import (
    FamilyKind,
    Method,
    Moments,
    Options,
    Provenance,
    Run,
    Shrinkage,
    shrinkage_factors,
)
from lrbtl.methods.clusters import LinearRows, Rows, VoteMatrix
from lrbtl.methods.naive import SeparateFits
from lrbtl.methods.standard_errors import centred, in_batches, widening
from lrbtl.methods.targets import Gradients, Resolved, ScoresView, evaluate, mean_win_probabilities
from lrbtl.model.links import LOGISTIC, Link
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Longs

RANKED_FROM = 30  # votes, as for boards
MOVED_BY_DESIGN = 0.2  # standard errors from which a board says that the design moves a model
UNCLEAR_SHARE = 0.3  # between the smallest and largest tau that votes allow: beyond it a share is not named
LEVELS_COUNT = 0.01  # of the variance of scores, from which levels count in the rank
UNRELATED = (
    "sets of tags are too many to ask what a model gains by a tag in all of them: boards of tags may be too sure"
)
MANY_SCORES = 1 << 23  # beyond which it is not told how each follows a change of levels
LONG = 1e9  # contexts times cubed models beyond which the gain over separate fits is not told


class Hierarchical(Method):
    """T = L + E by its posterior, averaged over tau and over two ranks, with exceptions let out."""

    name = "hierarchical"
    unused: ClassVar[tuple[str, ...]] = ("n_folds", "ridge", "sampling", "se", "solver")

    @one_blas_thread
    def run(self, data: Data, options: Options) -> Run:
        """Return the posterior of all scores of some battles."""
        if not isinstance(data, Battles):
            raise MethodError("the hierarchical method is for battles; use method='efficient' for observed entries.")
        if not np.any(data.cells.y != 0.5):
            raise NoDecisionError("every battle is a tie: nothing tells the models apart; check the outcome column.")
        config = options.config or HierarchicalConfig()
        design, tags = make_design(data, options.link), shared_tags(data)
        models = some_models(data)
        many = None if models is None else ManyModels(models, data.cells.clusters, label_parts(data, tags))
        related = bool(many and many.parts)
        if many is not None and len(data.shape) > 1:
            design, tags = replace(design, shape=(data.shape[0], data.n_contexts)), None
        searched = design if models is None else only_models(design, models)
        part = some_contexts(searched) if tags is None else None
        seen = searched if part is None else only_contexts(searched, part)
        if many is not None:  # votes of a log so large are taken at the mode, and all of them know sizes well
            config = replace(config, expectation_from=np.inf)
        search = Search(SizeFitter(seen, config), tags)
        nodes = search.components(self._modes(search, options, data.shape), one_size=seen is not design)
        if many is not None:
            nodes = extend_to_all_models(search, design, nodes, many)
        elif part is not None:
            nodes = extend_to_all_contexts(search, design, nodes)
        link = nodes[0].mode.scores.design.link
        related = related or TAGS in search.columns.modes
        unrelated = () if related or shared_tags(data) is None else (UNRELATED,)
        simulated = () if models is None else simulated_notes(data, len(models), [node.covariance for node in nodes])
        own = () if data.n_contexts == 1 else (deviation_sentence(*deviation_shares(nodes)),)
        provenance = Provenance(
            method=self.name,
            rank=main_rank(nodes, design.shape),
            n_battles=data.n_battles,
            link=None if link == LOGISTIC else str(link),
            notes=(*(() if len(data.shape) == 1 else (*own, *unrelated)), *simulated),
        )
        run = HierarchicalRun(data, nodes, provenance)
        run.provenance = replace(provenance, notes=(*provenance.notes, *design_notes(run)))
        return run

    @staticmethod
    def _modes(search: Search, options: Options, shape: tuple[int, ...]) -> list[tuple[float, Mode]]:
        """Return modes with their weights: of several numbers of factors, or of the one that was asked for."""
        if not search.design.several_contexts:
            return search.given(0)
        if options.rank == "auto":
            return search.average_ranks(options)
        rank = check_rank(options.rank, shape)
        return search.given(rank if len(search.shape) == len(shape) else check_rank(rank[0], search.shape))


def main_rank(nodes: Sequence[Component], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the rank of level + L that has the most weight, the smaller one of two that have the same.

    Levels add one to the rank of L, unless they are next to nothing beside it.
    """
    weights: dict[tuple[int, ...], float] = {}
    for node in nodes:
        square = node.mode.scores.field.mean_square()
        level = 1 if not any(node.rank) or node.s**2 > LEVELS_COUNT * square else 0
        caps = rank_caps(shape)
        rank = tuple(min(r + level, cap) for r, cap in zip(node.rank[: len(shape)], caps, strict=True))
        weights[rank] = weights.get(rank, 0.0) + node.weight
    return max(weights, key=lambda rank: weights[rank])


def deviation_shares(nodes: Sequence[Component]) -> tuple[float, float, float]:
    """Return the share of tau^2 in the variance of the scores of a category: on average, at the least and most tau."""
    shared = sum(node.weight * node.shared_square for node in nodes)
    taus = (sum(node.weight * node.tau for node in nodes), *(f(node.tau for node in nodes) for f in (min, max)))
    mean, low, high = (tau**2 / max(tau**2 + shared, 1e-300) for tau in taus)
    return mean, low, high


def deviation_sentence(share: float, low: float, high: float) -> str:
    """Return in words how much of the variance of scores is category-specific."""
    if high - low > UNCLEAR_SHARE:
        return "too few votes to say how much of the score variance is category-specific"
    if share < 0.01:
        return "categories agree: less than 1% of the score variance is category-specific"
    return f"{share:.0%} of the score variance is category-specific"


def design_notes(run: "HierarchicalRun") -> tuple[str, ...]:
    """Return a note where who met whom and how often moves scores by more than a fifth of their standard error.

    Scores are those of models with enough votes for a rank, less their mean.
    """
    informed = [node for node in run.nodes if any(node.mode.at.hyper.level.covariates.informed)]
    if not informed or isinstance(informed[0].covariance, MonteCarloCovariance):
        return ()
    weights = run.data.context_counts / run.data.n_battles
    ranked = run.data.model_counts >= RANKED_FROM
    if np.count_nonzero(ranked) < 2:
        return ()
    node = max(informed, key=lambda node: node.weight)
    moved = design_shift(node.mode.at, weights) * sum(each.weight for each in informed)
    moved -= moved[ranked].mean()
    (found,) = run.vote_score_moments(weights[None], ranked[None])
    far = np.flatnonzero(ranked & (np.abs(moved) > MOVED_BY_DESIGN * found.se))
    if not far.size:
        return ()
    most = int(far[np.argmax(np.abs(moved[far]))])
    points = 400.0 / np.log(10.0) * float(run.link.log_odds(np.zeros(1))[1][0]) * moved[most]
    models = "1 model" if far.size == 1 else f"{far.size} models"
    return (
        f"the pairings (who met whom, how often) move {models} by more than a fifth of a standard error, most "
        f"{run.data.models[most]} ({points:+.0f} Elo points); HierarchicalConfig(design_covariates=False) ignores them",
    )


def design_shift(at: Expansion, weights: Floats) -> Floats:
    """Return by how much design covariates move the mean scores with weights (D,) of contexts, to first order.

    Without them levels have the same variance, but mean zero: the step to the mode of that posterior, with its sign
    turned round.
    """
    level, space = at.hyper.level, at.scores.space
    spread = float(
        np.sqrt(level.s**2 + np.mean((level.covariates.columns @ level.fitted_coefficients(space.level)) ** 2))
    )
    plain = LevelPrior(DesignCovariates.none(len(space.level)), spread)
    other = at.with_hyper(replace(at.hyper, level=plain))
    step = other.factor.solve(other.gradient())
    dU, dV = space.push(step)
    return np.asarray(-(dU @ (weights @ space.V) + space.U @ (weights @ dV)))


def exact(node: Component) -> ScoreCovariance:
    """Return the covariances of a component whose models are not too many for matrices over them."""
    assert isinstance(node.covariance, ScoreCovariance)
    return node.covariance


class HierarchicalRun(Run):
    """The posterior of all scores: means over nodes, their covariances and the spread between them."""

    data: Battles
    nodes: list[Component]
    link: Link
    provenance: Provenance
    shrinks = True

    def __init__(self, data: Battles, nodes: list[Component], provenance: Provenance) -> None:
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
    def shares(self) -> tuple[float, float, float]:
        """Share of the deviations in the variance of the scores of a category: mean, least, most."""
        return deviation_shares(self.nodes)

    @property
    def unshared(self) -> tuple[tuple[str, int, int], ...]:
        """Context modes with too many levels to ask what each does to a model everywhere: name, levels, most levels."""
        node, names = self.nodes[0], self.data.mode_names
        if isinstance(node.covariance, MonteCarloCovariance):
            return ()
        design = node.covariance.design
        found = RandomEffectDesign.of(design, shared_tags(self.data)).left_out(design)
        return tuple((names[k], self.data.shape[1 + k], most) for k, most in found)

    def least_deviations(self) -> tuple[Floats, Floats]:
        """Return all scores (d1, D) and their errors at the smallest tau that is averaged over."""
        node = min(self.nodes, key=lambda node: node.tau)
        own = [np.einsum("uaa->au", node.covariance.by_context(part)) for part in self._batches()]
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
        return self._on_slots(node.outliers.probability for node in self.nodes)

    @cached_property
    def _deviations(self) -> Field:
        """Scores less their low-rank part."""
        fields = [self._mean, *(node.low_rank for node in self.nodes)]
        return Field.mixed(fields, [1.0, *(-weight for weight in self._weights)])

    def leans_on(self, has_votes_elsewhere: bool) -> str:
        """Return what the score of a model with few or no votes on a board rests on."""
        source = "its other categories" if has_votes_elsewhere else "the spread of models"
        return f"score mostly inferred from {source}"

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
        out = self._average(node.covariance.by_context(contexts) for node in self.nodes)
        mean = self._mean.columns(contexts)
        for node in self.nodes:
            away = node.scores.columns(contexts) - mean
            out += node.weight * away[:, :, None] * away[:, None, :]
        each = np.arange(out.shape[1])
        out[:, each, each] += self._added.columns(contexts)
        return out

    @cached_property
    def _added(self) -> Field:
        """Variance that exceptions add to each entry."""
        return self._on_slots(node.outliers.variance for node in self.nodes)

    def _of_means(self, weights: Floats) -> Floats:
        """Return the covariance (d1, d1) of sums over contexts of weights (D,) times scores, by the nodes alone."""
        if self._known_means is None or not np.array_equal(self._known_means[0], weights):
            self._known_means = weights.copy(), self._make_means(weights)  # often the overall board's, asked for twice
        return self._known_means[1]

    def _make_means(self, weights: Floats) -> Floats:
        """Return the same, computed anew."""
        out, mean = (
            self._average(node.covariance.of_means(weights) for node in self.nodes),
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
        each = [node.covariance for node in self.nodes if isinstance(node.covariance, MonteCarloCovariance)]
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
        none, means = np.zeros(len(targets)), mean_win_probabilities(targets, self._view, self._gap_variances)
        if errors_only:
            batches = in_batches(len(targets), max(n_contexts * d1, self._mean.design.n_slots))
            each = (evaluate(targets[part], self._view)[1] for part in batches)
            parts = [self._covariance(gradients, diagonal=True) for gradients in each]
            return Moments(values, None, np.sqrt(np.concatenate(parts)), none, means=means)
        cov = self._covariance(gradients, diagonal=False)
        return Moments(values, cov, np.sqrt(np.maximum(np.diag(cov), 0.0)), none, means=means)

    def _gap_variances(self, a: Longs, b: Longs, contexts: Longs) -> Floats:
        """Return variances of the scores of a less those of b in contexts, (n,)."""
        used, place = np.unique(contexts, return_inverse=True)
        out = np.empty(len(a))
        for part in in_batches(len(used), self.data.shape[0] ** 2):
            cov = self._by_context(used[part])
            here = np.flatnonzero((place >= part.start) & (place < part.stop))
            i, j, u = a[here], b[here], place[here] - part.start
            out[here] = cov[u, i, i] + cov[u, j, j] - 2.0 * cov[u, i, j]
        return out

    def _covariance(self, gradients: Gradients, *, diagonal: bool) -> Floats:
        """Return the covariance of targets, or its diagonal."""
        dense, contexts, slopes = self._dense(gradients)
        flat = dense.reshape(len(dense), -1)
        found = self._average(
            node.covariance.covariance(dense, contexts, slopes, diagonal=diagonal) for node in self.nodes
        )
        mean = self._mean.columns(contexts).reshape(-1)
        for node in self.nodes:
            away = flat @ (node.scores.columns(contexts).reshape(-1) - mean)
            if len(self.effect_values) and slopes is not None:
                away = away + slopes[:, : len(self.effect_values)] @ (node.effect_values - self.effect_values)
            found = found + node.weight * (away**2 if diagonal else np.outer(away, away))
        added = flat * self._added.columns(contexts).reshape(-1)
        return np.asarray(found + (np.einsum("mi,mi->m", added, flat) if diagonal else added @ flat.T))

    @one_blas_thread
    def influence_rows(self, targets: Sequence[Resolved]) -> Rows:
        """Return the influences of votes in some cells, the mean over nodes."""
        _, gradients = evaluate(targets, self._view)
        found = self._dense(gradients)
        return LinearRows(
            self._vote_matrix, np.concatenate([node.covariance.influence_weights(*found) for node in self.nodes])
        )

    @cached_property
    def _vote_matrix(self) -> VoteMatrix:
        """The scores of single votes at all nodes, side by side, times the weights of these."""
        each = [node.weight * node.covariance.vote_matrix() for node in self.nodes]
        return VoteMatrix(sparse.hstack(each, format="csr"), self.data)

    @property
    def _many_scores(self) -> bool:
        return self.data.n_contexts * self.data.shape[0] > MANY_SCORES or isinstance(
            self.nodes[0].covariance, MonteCarloCovariance
        )

    @cached_property
    def level_information(self) -> LevelInformation:
        """What votes tell of levels, and would tell if these were others, at the likeliest node."""
        scores = max(self.nodes, key=lambda node: node.weight).mode.scores
        return LevelInformation.at(scores.design, scores.eta_of(scores.design))

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
        return self._shrinkage(dense, contexts, slopes)

    @one_blas_thread
    def _shrinkage(self, dense: Floats, contexts: Longs, slopes: Floats | None = None) -> Shrinkage:
        """Return the same for linear functions of the scores of n contexts, (M, n, d1), zero-sum in each."""
        parts = in_batches(len(dense), max(self._mean.design.n_slots, dense[0].size))
        found = []
        for part in parts:
            own = None if slopes is None else slopes[part]
            each = [exact(node).response(dense[part], contexts, own, diagonal=True) for node in self.nodes]
            answers = self._average(self._mean.design.entries.by_model(one.informed).T for one in each)
            prior_variance = self._average(one.variance - one.noise for one in each)
            found.append((answers, prior_variance))
        answers, prior_variance = (np.concatenate(side) for side in zip(*found, strict=True))
        levels, growth = dense.sum(axis=1), 1.0 / self.data.shape[0]  # of a squared gap, in the variance of levels
        return Shrinkage(
            shrinkage_factors(levels, answers), prior_variance, growth, *self.level_information.along(levels)
        )

    def board_shrinkage(self, row: Floats, among: Bools | None, weights: Floats | None = None) -> Shrinkage:
        """Return the same for the mean scores of a board, or sums of them."""
        if self._many_scores:
            return super().board_shrinkage(row, among, weights)
        used, one = np.flatnonzero(row), np.eye(self.data.shape[0])
        sums = one if weights is None else weights
        sums = sums - sums.sum(axis=1, keepdims=True) * one[slice(None) if among is None else among].mean(axis=0)
        return self._shrinkage(sums[:, None, :] * row[used][None, :, None], used)

    def family_shrinkage(self, kind: FamilyKind) -> Shrinkage:
        """Return the same for all scores (d1, D), or all gaps (pairs, D)."""
        if self._many_scores:
            return super().family_shrinkage(kind)
        d1 = self.data.shape[0]
        a, b = np.triu_indices(d1, 1)
        one = np.eye(d1)
        sums = one - 1.0 / d1 if kind == "scores" else one[a] - one[b]
        each = [self._shrinkage(sums[:, None, :], np.array([u])) for u in range(self.data.n_contexts)]
        columns = ("shrinkage_factor", "prior_variance", "slope", "bend")
        stacked = {name: np.stack([np.asarray(getattr(x, name)) for x in each], axis=1) for name in columns}
        return Shrinkage(**stacked, prior_variance_growth=each[0].prior_variance_growth)

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
            own = row[used[i]] ** 2 * cov[int(used[i])] if alone[i] else self._of_means(row)
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
