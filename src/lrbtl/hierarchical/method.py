"""Scores that are low rank plus deviations, T = L + E: calibrated also where low rank is only nearly true."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import sparse

from lrbtl.data.battles import Battles
from lrbtl.data.features import Features, read_features
from lrbtl.data.observations import Data
from lrbtl.errors import MethodError, NoDecisionError, TooLargeError
from lrbtl.fitting.blocks import LowRankPlusSparse
from lrbtl.fitting.local import LevelInformation
from lrbtl.hierarchical.config import HierarchicalConfig
from lrbtl.hierarchical.covariance import ScoreCovariance
from lrbtl.hierarchical.expansion import Expansion
from lrbtl.hierarchical.extend import SearchedPart
from lrbtl.hierarchical.large import MonteCarloCovariance, simulated_notes
from lrbtl.hierarchical.level_prior import LevelFeatures, LevelPrior, feature_posterior
from lrbtl.hierarchical.mode import Mode
from lrbtl.hierarchical.pairings import DesignCovariates
from lrbtl.hierarchical.random_effects import TAGS, RandomEffectDesign, shared_tags
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
    "too many sets of tags to estimate what a model gains by a tag in all of them: intervals by tag may be too narrow"
)
MANY_SCORES = 1 << 23  # beyond which the shrinkage factor of each is not computed
LONG = 1e9  # contexts times cubed models beyond which the gain over separate fits is not computed


class Hierarchical(Method):
    """T = L + E by its posterior, averaged over tau and over ranks; outlier entries are exempt from sharing."""

    name = "hierarchical"
    unused: ClassVar[tuple[str, ...]] = ("n_folds", "ridge", "sampling", "se", "solver")
    takes_features = True

    @one_blas_thread
    def run(self, data: Data, options: Options) -> Run:
        """Return the posterior of all scores of some battles."""
        if not isinstance(data, Battles):
            raise MethodError("the hierarchical method is for battles; use method='efficient' for observed entries.")
        if not np.any(data.cells.y != 0.5):
            raise NoDecisionError("every battle is a tie: the models are indistinguishable; check the outcome column.")
        config, part = options.config or HierarchicalConfig(), SearchedPart.of(data, options.link)
        features = None if options.features is None else read_features(options.features, data.models)
        if features is not None and part.many is not None:
            raise TooLargeError(
                f"features= is for fewer than {data.shape[0]:,} models: leave it out, or choose models with "
                "battles.top_models(n)."
            )
        if part.many is not None:  # votes of a log so large are taken at the mode, and all of them know sizes well
            config = replace(config, expectation_from=np.inf)
        known = None if features is None else LevelFeatures(features.values, features.group, config.feature_size)
        search = Search(SizeFitter(part.seen, config, known), part.tags)
        found = search.components(self._modes(search, options, data.shape), one_size=part.seen is not part.design)
        nodes = part.extended(search, found)
        link = nodes[0].mode.scores.design.link
        related = part.has_labels or TAGS in search.columns.modes
        simulated = simulated_notes(data, part.many, [node.covariance for node in nodes])
        provenance = Provenance(
            method=self.name,
            rank=main_rank(nodes, part.design.shape),
            n_battles=data.n_battles,
            link=None if link == LOGISTIC else str(link),
            notes=(*sharing_notes(data, nodes, related), *simulated),
        )
        run = HierarchicalRun(data, nodes, provenance, features)
        run.provenance = replace(provenance, notes=(*provenance.notes, *feature_notes(run), *design_notes(run)))
        return run

    @staticmethod
    def _modes(search: Search, options: Options, shape: tuple[int, ...]) -> list[tuple[float, Mode]]:
        """Return modes with their weights: of several numbers of factors, or of the one that was asked for."""
        if not search.design.several_contexts:
            return search.fit_fixed_rank(0)
        if options.rank == "auto":
            return search.average_ranks(options)
        rank = check_rank(options.rank, shape)
        return search.fit_fixed_rank(rank if len(search.shape) == len(shape) else check_rank(rank[0], search.shape))


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


def sharing_notes(data: Battles, nodes: Sequence[Component], related: bool) -> tuple[str, ...]:
    """Return notes on what categories share; `related` says whether deviations have labels or tags in common."""
    if len(data.shape) == 1:
        return ()
    own = () if data.n_contexts == 1 else (deviation_sentence(*deviation_shares(nodes)),)
    return own if related or shared_tags(data) is None else (*own, UNRELATED)


def feature_notes(run: "HierarchicalRun") -> tuple[str, ...]:
    """Return how much of the variance of levels features account for, and of which models they are not known."""
    if run.features is None:
        return ()
    share = 0.0
    for node in run.nodes:
        level, space = node.mode.at.hyper.level, node.mode.scores.space
        coefficients = level.fitted_coefficients(space.level)[-len(run.features.names) :]
        fitted = float(np.var(run.features.values @ coefficients))
        factors = float(np.var(space.U[:, :-1] @ space.V[:, :-1].mean(axis=0)))  # what they add to all categories
        rest = float(np.mean(1.0 / level.site_precision)) + sum(level.squares[:2]) + factors
        share += node.weight * fitted / (fitted + rest)
    return (f"features account for {share:.0%} of the variance of models' mean scores", *run.features.notes)


def feature_moments(run: "HierarchicalRun") -> tuple[Floats, Floats]:
    """Return what one unit more of each feature adds to a level, (p,), and its covariance.

    Levels of a text are against the mean of all models.
    """
    assert run.features is not None
    each = []
    for node in run.nodes:
        level, prior = node.mode.scores.space.level, node.mode.at.hyper.level
        each.append((node.weight, *feature_posterior(prior, level, exact(node).level_covariance)))
    mean = np.sum([weight * b for weight, b, _ in each], axis=0)
    cov = np.sum([weight * (own + np.outer(b - mean, b - mean)) for weight, b, own in each], axis=0)
    group, share = run.features.group, run.features.values.mean(axis=0)
    unit = (np.eye(len(mean)) - (group[:, None] == group) * share) / run.features.scale[:, None]
    return unit @ mean, unit @ cov @ unit.T


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
    coefficients = level.fitted_coefficients(space.level)[: level.covariates.columns.shape[1]]
    spread = float(np.sqrt(level.s**2 + np.mean((level.covariates.columns @ coefficients) ** 2)))
    none, squares = DesignCovariates.none(len(space.level)), (0.0, 0.0, *level.squares[2:])
    plain = LevelPrior(none, spread, squares=squares, features=level.features)
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

    def __init__(
        self, data: Battles, nodes: list[Component], provenance: Provenance, features: Features | None = None
    ) -> None:
        self.data, self.nodes, self.provenance, self.features = data, nodes, provenance, features
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
    def _mean(self) -> LowRankPlusSparse:
        return LowRankPlusSparse.mixed([node.scores for node in self.nodes], self._weights)

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
        """Precision of one fit per context at these scores; None where it would take long."""
        return SeparateFits(self.data, self._view) if self.data.n_contexts * self.data.shape[0] ** 3 <= LONG else None

    def _on_slots(self, values: Iterable[Floats]) -> LowRankPlusSparse:
        """Return the mean over nodes of values on slots, zero elsewhere."""
        mean = self._mean
        return LowRankPlusSparse.of(mean.design, mean.U[:, :0], mean.V[:, :0], self._average(values))

    @cached_property
    def outlier_probability(self) -> LowRankPlusSparse:
        """Probability that each entry is an outlier."""
        return self._on_slots(node.outliers.probability for node in self.nodes)

    @cached_property
    def _deviations(self) -> LowRankPlusSparse:
        """Scores less their low-rank part."""
        fields = [self._mean, *(node.low_rank for node in self.nodes)]
        return LowRankPlusSparse.mixed(fields, [1.0, *(-weight for weight in self._weights)])

    def leans_on(self, has_votes_elsewhere: bool) -> str:
        """Return what the score of a model with few or no votes on a board rests on."""
        source = "its other categories" if has_votes_elsewhere else "the spread of models"
        return f"score mostly inferred from {source}"

    def outlier(self, model: int, weights: Floats) -> float:
        """Return how far an outlier is from its prediction by the model's other scores; 0 where the score is none."""
        if model not in self._outlier_models:
            return 0.0
        used = np.flatnonzero(weights)
        if used.size != 1 or self.outlier_probability.entries(np.array([model]), used)[0] < LIKELY:
            return 0.0
        return float(self._deviations.entries(np.array([model]), used)[0])

    @cached_property
    def _outlier_models(self) -> set[int]:
        """Models with outliers."""
        _, model = self._mean.design.slot_places
        return set(model[self.outlier_probability.slots >= LIKELY].tolist())

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
    def _added(self) -> LowRankPlusSparse:
        """Variance that outliers add to each entry."""
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
        """Information of the votes on levels, here and at other values of them, at the likeliest node."""
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
