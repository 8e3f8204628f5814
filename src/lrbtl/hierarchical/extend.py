"""From some models or contexts to all of them: numbers of factors and sizes found on a part serve the whole log.

Ranks and sizes belong to the population: where all of it would take too long, they come from a part.
"""

from dataclasses import dataclass, replace

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.fitting.blocks import BlockDesign, only_contexts, only_models
from lrbtl.fitting.design import Design
from lrbtl.fitting.low_rank import make_design
from lrbtl.hierarchical.coordinates import no_factors
from lrbtl.hierarchical.correlated import few_contexts
from lrbtl.hierarchical.expansion import Expansion, Hyperparameters, Scores
from lrbtl.hierarchical.joint import Joint, find_joint_mode
from lrbtl.hierarchical.large import ManyModels, MonteCarloCovariance, some_contexts, some_models
from lrbtl.hierarchical.level_prior import LevelPrior
from lrbtl.hierarchical.outliers import find_outliers
from lrbtl.hierarchical.random_effects import label_parts, shared_tags
from lrbtl.hierarchical.search import Component, Search
from lrbtl.hierarchical.sizes import SizeFitter
from lrbtl.lowrank.tucker import Tucker
from lrbtl.model.links import Link
from lrbtl.typing import Floats, Longs

ROW_STEPS = 3  # of context rows, before Newton steps of all coordinates
REFINED = 2  # times that tau of all models is sought
SIMULATED_LOGS, FEWEST_LOGS = 192, 64  # from which errors of so many models are taken, in all and of a component
START_JITTER = 0.1  # of the spread of contexts: how far starts are from their middle one, lest components coincide


@dataclass(frozen=True)
class SearchedPart:
    """The votes on which ranks and sizes are found: all, or those of some models or contexts.

    Attributes
    ----------
    design, seen : Design
        All votes, and the part.
    tags : array (D, n_tags) or None
        Tags that are random effects.
    many : ManyModels or None
        Where models are too many for matrices over all of them.
    """

    design: Design
    seen: Design
    tags: Floats | None
    many: ManyModels | None

    @classmethod
    def of(cls, battles: Battles, link: str | Link | None) -> "SearchedPart":
        """Return the part to search: models of most votes where they are many, contexts at random where they are."""
        design, tags, models = make_design(battles, link), shared_tags(battles), some_models(battles)
        many = None if models is None else ManyModels(models, battles.cells.clusters, label_parts(battles, tags))
        if many is not None and len(battles.shape) > 1:
            design, tags = replace(design, shape=(battles.shape[0], battles.n_contexts)), None
        seen = design if models is None else only_models(design, models)
        contexts = some_contexts(seen) if tags is None else None
        return cls(design, seen if contexts is None else only_contexts(seen, contexts), tags, many)

    @property
    def has_labels(self) -> bool:
        """Whether deviations of many models are correlated by labels or tags that contexts have in common."""
        return bool(self.many and self.many.parts)

    def extended(self, search: Search, components: list[Component]) -> list[Component]:
        """Return components of all votes from those of the part."""
        if self.many is not None:
            return extend_to_all_models(search, self.design, components, self.many)
        return components if self.seen is self.design else extend_to_all_contexts(search, self.design, components)


def extend_to_all_contexts(search: Search, cells: Design, components: list[Component]) -> list[Component]:
    """Return components of a log of which a search saw some contexts: same factors, sizes and weights.

    Contexts are exchangeable, so that the mean variance of eta in those stands for that in all.
    """
    wide, out = Search(search.fitter.for_design(cells), pilot=search.pilot), []
    for rank in dict.fromkeys(component.rank for component in components):
        own = [component for component in components if component.rank == rank]
        middle = own[len(own) // 2]
        mode = wide.fitter.converge(_with_context_rows(_start(wide.fitter, middle)))
        out += [
            wide.component(wide.refit_at_sizes(mode, each.tau, each.mode.at.hyper.level), each.weight) for each in own
        ]
    return out


def _with_context_rows(at: Expansion) -> Expansion:
    """Return the posterior round scores with the rows of contexts that votes ask for, those of models being known."""
    for _ in range(ROW_STEPS if at.scores.space.rank else 0):
        space = at.scores.space
        part, rank = space.slices[1], space.factors[1].shape[1]
        known = at.information.row_blocks(part, rank) + at.hyper.factors.at(space).hessian(1)
        step = np.zeros(space.size)
        step[part] = np.linalg.solve(known, at.gradient()[part].reshape(-1, rank, 1)).reshape(-1)
        at = at.around(at.scores.moved(step, np.zeros_like(at.scores.E)))
    return at


def extend_to_all_models(
    search: Search, cells: Design, components: list[Component], many: ManyModels
) -> list[Component]:
    """Return components of a log of which a search saw some models, with covariances from simulated logs."""
    wide = search.fitter.for_design(cells, every_slot=bool(many.parts))
    return [_of_all_models(wide, each, many) for each in components]


def _of_all_models(wide: SizeFitter, component: Component, many: ManyModels) -> Component:
    """Return a component of some models as one of all: where contexts are few, tau comes from all votes."""
    start = _start(wide, component, many.models)
    mode = find_joint_mode(start.scores, _with_factors(start))
    for _ in range(REFINED if wide.design.n_contexts > 1 and few_contexts(*wide.design.shape) else 0):
        assert isinstance(mode.at, Joint)
        tau, related = mode.at.refined(many.parts)
        mode = find_joint_mode(mode.scores, replace(_with_factors(mode.at), tau=tau), related)
    at = mode.at
    assert isinstance(at, Joint)
    n = max(FEWEST_LOGS, round(component.weight * SIMULATED_LOGS))
    covariance = MonteCarloCovariance(at, wide.cells, n, many.clusters)
    return Component(component.weight, component.rank, mode, covariance, find_outliers(covariance, wide.config))


def _with_factors(at: Expansion) -> Hyperparameters:
    """Return hyperparameters with the precision of factors that has the most evidence round some scores."""
    if not at.scores.space.rank:
        return at.hyper
    joint = Joint(at.scores, at.hyper)
    return replace(at.hyper, factors=replace(at.hyper.factors, precision=joint.evidence_precision))


def _start(wide: SizeFitter, component: Component, models: Longs | None = None) -> Expansion:
    """Return a start at the scores of some contexts and models: elsewhere the middle one, without deviations."""
    design, space, level_prior = (
        wide.design.under(component),
        component.mode.scores.space,
        component.mode.at.hyper.level,
    )
    assert isinstance(design, BlockDesign)
    level, U, V = space.level, space.factors[0], space.V[:, :-1]
    if len(V) < design.n_contexts:
        V = np.tile(np.median(V, axis=0), (design.n_contexts, 1))
        V = V + START_JITTER * np.random.default_rng(0).normal(size=V.shape) * space.V[:, :-1].std(axis=0)
    if models is not None:
        known, level, U = (level, U), np.zeros(design.shape[0]), np.zeros((design.shape[0], U.shape[1]))
        level[models], U[models] = known
        level_prior = _of_all_levels(wide, level_prior, space.level)
    shape = (len(level), design.n_contexts)
    point = Tucker(np.eye(V.shape[1]), (U, V)).canonical() if V.shape[1] else no_factors(shape)
    variance = component.mode.scores.eta_variance
    if isinstance(variance, np.ndarray):
        variance = np.full(len(design.entries.atoms.a), variance.mean())
    scores = Scores(design, wide.space(point, level), np.zeros(design.n_slots), eta_variance=variance)
    precision = None if models is None else component.mode.at.hyper.factors.precision  # of many models: found later
    return wide.expansion(scores, component.tau, level_prior, precision=precision)


def _of_all_levels(wide: SizeFitter, some: LevelPrior, level: Floats) -> LevelPrior:
    """Return the prior of all levels with the sizes and the coefficients that some levels have."""
    prior = wide.levels(some.s)
    coefficients, found = np.zeros(prior.covariates.columns.shape[1]), some.fitted_coefficients(level)
    used = min(len(coefficients), len(found))
    coefficients[:used] = found[:used]
    return replace(prior, freedom=some.freedom, squares=some.squares, coefficients=coefficients)
