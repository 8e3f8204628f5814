"""T = level + L + E by dense matrices: the posterior of (coordinates, deviations E) written out, for small problems."""

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from scipy.linalg import sqrtm
from scipy.special import expit, log_expit, logsumexp

import lrbtl
from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.low_rank import make_design
from lrbtl.hierarchical.coordinates import LevelSpace, no_factors
from lrbtl.hierarchical.covariance import ScoreCovariance
from lrbtl.hierarchical.expansion import Expansion, Hyperparameters, Scores
from lrbtl.hierarchical.factor_prior import FactorPrior
from lrbtl.hierarchical.level_prior import LevelPrior
from lrbtl.hierarchical.mode import Mode, find_mode
from lrbtl.hierarchical.pairings import DesignCovariates
from lrbtl.hierarchical.random_effects import RandomEffectDesign, RandomEffects
from lrbtl.lowrank.tucker import check_rank, mode_product, truncate
from lrbtl.typing import Bools, Floats, Longs, Shape
from problems import battle_matrix, jacobian, rebuilt

GAUGE = 1e5
MODES: dict[str, tuple[Shape, int, float, str]] = {
    "plain": ((8,), 0, 0.0, "logistic"),
    "levels": ((8, 5), 0, 0.2, "logistic"),
    "matrix": ((10, 5), 2, 0.2, "logistic"),
    "no deviations": ((8, 5), 1, 0.0, "logistic"),
    "tensor": ((8, 4, 3), 2, 0.2, "logistic"),
    "order 4": ((6, 3, 3, 2), 2, 0.2, "logistic"),
    "davidson": ((9, 4), 1, 0.2, "davidson"),
}
_MADE: dict[tuple[str, bool], Expansion] = {}
NODES = np.linspace(-9.0, 9.0, 200)
WEIGHTS = np.exp(-0.5 * NODES**2) / np.exp(-0.5 * NODES**2).sum()  # the trapezoidal rule of a standard normal law


def entries(design: BlockDesign) -> Longs:
    """Position of each slot among the vectorised scores (d1, D)."""
    start, model = design.entries.slot_start, design.entries.model
    return np.asarray(model * design.n_contexts + np.repeat(np.arange(design.n_contexts), np.diff(start)))


def on_grid(design: BlockDesign, values: Floats) -> Floats:
    """Values on the slots among the vectorised scores, zero elsewhere."""
    out = np.zeros(design.shape[0] * design.n_contexts)
    out[entries(design)] = values
    return out


def design_of(battles: lrbtl.Battles, link: str = "logistic") -> BlockDesign:
    """The design that modes are sought on."""
    return BlockDesign.of_cells(make_design(battles, link).averaged())


def start_of(design: BlockDesign) -> Scores:
    """Scores of zero without factors."""
    space = LevelSpace(no_factors(design.shape), np.zeros(design.shape[0]), n_extra=design.n_effects)
    return Scores(design, space, np.zeros(design.n_slots))


def hyper_of(
    d1: int, tau: float, *, s: float = 1.0, dispersion: float = 1.0, factors: float = 0.5, gauge: float = GAUGE
) -> Hyperparameters:
    """Sizes with a prior of levels that has covariates of its own."""
    rng = np.random.default_rng(5)
    covariates = DesignCovariates(
        order=np.linspace(-1.5, 1.5, d1),
        bends=rng.normal(size=(d1, 1)),
        traffic=rng.normal(size=d1),
        traffic_noise=rng.uniform(0.1, 0.3, size=d1),
        informed=(0.4, 0.2),
    )
    level = LevelPrior(covariates, s, squares=(0.3, 0.1))
    return Hyperparameters(tau, level, dispersion, gauge, FactorPrior(factors, covariates.loose))


def mode_of(battles: lrbtl.Battles, rank: Any, tau: float, *, link: str = "logistic", **sizes: Any) -> Mode:
    """The mode reached from scores of zero, with factors from the deviations there."""
    design = design_of(battles, link)
    scores, hyper = start_of(design), hyper_of(design.shape[0], tau, **sizes)
    if rank:
        first = find_mode(Expansion(scores, replace(hyper, tau=1.0))).scores
        field = on_grid(design, first.E).reshape(design.shape[0], -1)
        point = truncate((field - field.mean(axis=0)).reshape(design.shape), check_rank(rank, design.shape))
        space = LevelSpace(point, first.space.level, n_extra=design.n_effects)
        scores = Scores(first.design, space, np.zeros(design.n_slots))
    return find_mode(Expansion(scores, hyper), tolerance=1e-13)


def tied_battles(shape: Shape, n: int = 2500) -> lrbtl.Battles:
    """Battles of levels, factors and deviations, and some ties."""
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(shape[0], *(1 for _ in shape[1:]))) + 0.15 * rng.normal(size=shape)
    if len(shape) > 1:
        truth = truth + lrbtl.simulate_scores(shape, 2, scale=1.0, rng=0)
    battles = lrbtl.simulate_battles(truth - truth.mean(axis=0), n, rng=1)
    other = lrbtl.simulate_battles(truth - truth.mean(axis=0), n // 8, rng=4)
    return battles + rebuilt(other, y=np.full(other.n_cells, 0.5))


def mode_at(name: str, spread: bool = False) -> Expansion:
    """The mode of a case of `MODES`, where `spread` with expectations over any variances of eta; made once."""
    if (name, spread) not in _MADE:
        shape, rank, tau, link = MODES[name]
        at = mode_of(tied_battles(shape), rank, tau, link=link, dispersion=0.9).at
        if spread:
            variance = np.random.default_rng(9).uniform(0.05, 0.4, size=len(at.scores.design.entries.atoms.a))
            at = replace(at, scores=replace(at.scores, eta_variance=variance))
        _MADE[name, spread] = at
    return _MADE[name, spread]


def spread_out(mode: Mode, battles: lrbtl.Battles, link: str = "logistic", rounds: int = 40) -> Mode:
    """The mode of expected scores, with variances of eta those of the posterior round it."""
    cells = BlockDesign.of_cells(make_design(battles, link))
    for _ in range(rounds):
        scores = replace(mode.scores, eta_variance=ScoreCovariance(mode.at, cells).eta_variances)
        mode = find_mode(replace(mode.at, scores=scores), near=True, tolerance=1e-13)
    return mode


def vote_terms(link: Any, eta: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Log-likelihood, scores (n, 2) and expected information (n, 2, 2) of (eta, tie), for logistic and Davidson."""
    scores, information = np.zeros((len(eta), 2)), np.zeros((len(eta), 2, 2))
    if not link.n_extra:
        p = expit(eta)
        scores[:, 0], information[:, 0, 0] = y - p, p * (1 - p)
        return y * log_expit(eta) + (1 - y) * log_expit(-eta), scores, information
    weight = np.stack([-eta / 2, np.full(len(eta), link.tie), eta / 2])
    log_p = weight - logsumexp(weight, axis=0)
    p = np.exp(log_p)
    for outcome, slope in enumerate(([-0.5, 0.0], [0.0, 1.0], [0.5, 0.0])):
        s = np.array(slope) - np.stack([(p[2] - p[0]) / 2, p[1]], axis=1)
        information += p[outcome][:, None, None] * s[:, :, None] * s[:, None, :]
        scores[2 * y == outcome] = s[2 * y == outcome]
    return log_p[np.rint(2 * y).astype(int), np.arange(len(y))], scores, information


def mean_terms(link: Any, eta: Floats, y: Floats, variance: Floats | float) -> tuple[Floats, Floats, Floats]:
    """The same on average over eta ~ N(eta, variance), by the trapezoidal rule."""
    if not np.any(variance):
        return vote_terms(link, eta, y)
    each = [vote_terms(link, eta + node * np.sqrt(variance), y) for node in NODES]
    likelihood, scores, information = (np.tensordot(WEIGHTS, np.stack(parts), 1) for parts in zip(*each, strict=True))
    return likelihood, scores, information


def dense_eta(scores: Scores) -> Floats:
    """eta of the cells of a design."""
    deviation = on_grid(scores.design, scores.E + scores.offset)
    low = scores.space.U @ scores.space.V.T + scores.shared
    return np.asarray(battle_matrix(scores.design) @ (low.reshape(-1) + deviation))


def eta_variance(scores: Scores) -> Floats | float:
    """Of each cell of the scores' design, as it is given."""
    given = scores.eta_variance
    return scores.design.entries.of_atoms(given) if isinstance(given, np.ndarray) else given


def level_precision(prior: LevelPrior) -> Floats:
    """That of levels by the dense covariance of X b + e, with a common shift of any size integrated out."""
    X, B = prior.columns, prior.coefficient_variances
    P = np.linalg.inv(np.diag(1.0 / prior.site_precision) + X @ np.diag(B) @ X.T)
    ones = P.sum(axis=0)
    return np.asarray(P - np.outer(ones, ones) / ones.sum())


def smooth_penalty(space: LevelSpace, prior: FactorPrior) -> Any:
    """The quadratic form that touches the nuclear norms from above, as a function of factors and core."""
    order, precision = space.core.ndim, prior.precision
    if order == 2:
        narrow = np.eye(len(prior.loose)) - np.outer(prior.loose, prior.loose)
        root = sqrtm(space.factors[0].T @ narrow @ space.factors[0])
        K = np.linalg.solve(root, np.linalg.solve(root, sqrtm(root @ space.core @ space.core.T @ root)).T).T

        def bound(factors: list[Floats], core: Floats) -> float:
            U, V = factors
            return 0.5 * precision * float(np.trace(K @ U.T @ narrow @ U + np.linalg.solve(K, core @ V.T @ V @ core.T)))

        return bound
    sigma = [np.linalg.svd(np.moveaxis(space.core, k, 0).reshape(r, -1))[1] for k, r in enumerate(space.core.shape)]

    def cost(factors: list[Floats], core: Floats) -> float:
        total = 0.0
        for k in range(order):
            rest = mode_product(core, np.diag(sigma[k] ** -0.5), k)
            for j in range(order):
                rest = rest if j == k else mode_product(rest, factors[j], j)
            total += np.sum((factors[k] * np.sqrt(sigma[k])) ** 2) + np.sum(rest**2)
        return 0.5 * precision * float(total) / order

    return cost


def factor_hessian(space: LevelSpace, prior: FactorPrior) -> Floats:
    """Hessian of the prior of factors inside each factor and the core, by differences of its quadratic form."""
    out = np.zeros((space.size, space.size))
    if not space.rank:
        return out
    cost, width = smooth_penalty(space, prior), space.rank + 1
    first = np.arange(space.U.size).reshape(-1, width)[:, :-1].reshape(-1)
    places = [first, *(np.arange(space.slices[k].start, space.slices[k].stop) for k in range(1, space.core.ndim))]
    base = [*space.factors, space.core]

    def moved(k: int, *units: int) -> float:
        parts = [part.copy() for part in base]
        for unit in units:
            parts[k].reshape(-1)[unit] += 1.0
        return float(cost(parts[:-1], parts[-1]))

    if space.has_core:
        places.append(np.arange(space.core_slice.start, space.core_slice.stop))
    here = cost(list(base[:-1]), base[-1])
    for k, place in enumerate(places):
        own = [moved(k, i) for i in range(len(place))]
        for i, j in combinations_with_replacement(range(len(place)), 2):
            second = moved(k, i, j) - own[i] - own[j] + here
            out[place[i], place[j]] = out[place[j], place[i]] = second
    return out


def prior_precision(at: Expansion) -> Floats:
    """Of the coordinates, with the gauge."""
    space, level = at.scores.space, at.hyper.level
    out = factor_hessian(space, at.hyper.factors)
    out[space.level_part, space.level_part] += level_precision(level)
    free = len(space.factors) == 2 and at.hyper.factors.precision > 0
    for part, block in space.gauge(only_shift=free):
        out[part, part] += at.hyper.gauge * block
    return out


def prior_cost(at: Expansion, scores: Scores) -> float:
    """The negative log prior of levels and factors: a normal law, and nuclear norms of all unfoldings."""
    away = scores.space.level - at.hyper.level.mean
    out = 0.5 * float(away @ level_precision(at.hyper.level) @ away)
    if scores.space.rank:
        L = scores.space.point.dense()
        if L.ndim == 2:
            L = sqrtm(np.eye(len(L)) - np.outer(at.hyper.factors.loose, at.hyper.factors.loose)) @ L
        unfolded = [np.moveaxis(L, k, 0).reshape(len(factor), -1) for k, factor in enumerate(scores.space.factors)]
        out += at.hyper.factors.precision * float(np.mean([np.linalg.norm(x, "nuc") for x in unfolded]))
    return out


def log_posterior(at: Expansion, scores: Scores) -> float:
    """Expected log-likelihood of the votes, deviations and priors at some scores."""
    design = scores.design
    found, *_ = mean_terms(design.link, dense_eta(scores), design.y, eta_variance(scores))
    deviations = 0.5 * float(scores.E @ scores.E) / at.tau**2 if at.tau > 0 else 0.0
    return float(design.count @ found) / at.dispersion - deviations - prior_cost(at, scores)


def prior_gradient(at: Expansion) -> Floats:
    """Derivative of the cost of both priors in the coordinates, by differences of nuclear norms and normal laws."""
    space, step = at.scores.space, 1e-6
    none, out = np.zeros(at.scores.design.n_slots), np.zeros(space.size)
    for i in range(space.size):
        unit = np.zeros(space.size)
        unit[i] = step
        if not space.extra.start <= i < space.extra.stop:
            up, down = (prior_cost(at, at.scores.moved(sign * unit, none)) for sign in (1, -1))
            out[i] = (up - down) / (2 * step)
    return out


@dataclass(frozen=True)
class Twin:
    """Dense matrices at an expansion.

    Attributes
    ----------
    X : array (n_cells, d1 D)
        Of the cells of the expansion's design.
    J : array (d1 D, size)
    g : array (d1 D,)
        Scores of the votes.
    tie : array (n_extra,)
        The same along a tie parameter.
    H : array (d1 D + n_extra, d1 D + n_extra)
        Their information.
    precision : array (size + d1 D, size + d1 D)
        Of the coordinates, with a tie parameter, and E; of the coordinates alone where there are no deviations.
    rows : array (d1 D + n_extra, size + d1 D)
        That make scores, zero-sum in each context, and last a tie parameter of these.
    C : array (d1 D + n_extra, d1 D + n_extra)
        Posterior covariance.
    """

    X: Floats
    J: Floats
    g: Floats
    tie: Floats
    H: Floats
    precision: Floats
    rows: Floats
    C: Floats

    @classmethod
    def of(cls, at: Expansion) -> "Twin":
        design, space = at.scores.design, at.scores.space
        d1, D, k = design.shape[0], design.n_contexts, design.link.n_extra
        X, J = battle_matrix(design), jacobian(space)
        _, scores, information = mean_terms(design.link, dense_eta(at.scores), design.y, eta_variance(at.scores))
        weight = (design.count / at.dispersion)[:, None, None] * information
        both = np.hstack([J, np.eye(d1 * D)]) if at.tau > 0 else J
        rows = np.vstack([both, np.eye(both.shape[1])[space.extra]])
        parts = np.zeros((len(X), 2, d1 * D + k))  # of eta and of the tie parameter in scores and tie parameter
        parts[:, 0, : d1 * D], parts[:, 1, d1 * D :] = X, 1.0
        H = np.einsum("nip,nij,njq->pq", parts, weight, parts, optimize=True)
        precision = rows.T @ H @ rows
        precision[: space.size, : space.size] += prior_precision(at)
        if at.tau > 0:
            precision[space.size :, space.size :] += np.eye(d1 * D) / at.tau**2
        Q = np.eye(d1 * D + k)
        Q[: d1 * D, : d1 * D] -= np.kron(np.ones((d1, d1)) / d1, np.eye(D))
        rows = Q @ rows
        along = (design.count[:, None] * scores / at.dispersion).T
        C = rows @ np.linalg.inv(precision) @ rows.T
        return cls(X, J, X.T @ along[0], along[1:, :].sum(axis=1)[:k], H, precision, rows, C)

    @property
    def n(self) -> int:
        """Number of scores."""
        return int(self.X.shape[1])

    def gradient(self, at: Expansion) -> Floats:
        """Of the log posterior in coordinates and E."""
        space = at.scores.space
        along = self.J.T @ self.g - prior_gradient(at)
        along[space.extra] = self.tie
        if at.tau == 0:
            return along
        return np.concatenate([along, self.g - on_grid(at.scores.design, at.scores.E) / at.tau**2])


def joint_precision(twin: Twin, found: RandomEffects) -> tuple[Floats, Floats, Floats]:
    """Precision of (coordinates, E, F), rows that make scores of them, and standard deviations of F a priori."""
    design = found.at.scores.design
    d1, D = design.shape[0], design.n_contexts
    sizes = dict(zip(found.columns.modes, found.sizes, strict=True))
    sd = np.array([sizes[mode] for mode in found.columns.mode])
    Z = np.zeros((len(twin.H), len(sd)))
    Z[: d1 * D] = flat_columns(found.columns)
    plain = np.hstack([twin.J, np.eye(d1 * D)])
    rows = np.vstack([plain, np.eye(plain.shape[1])[found.at.scores.space.extra]])
    cross = rows.T @ twin.H @ Z
    precision = np.block([[twin.precision, cross], [cross.T, Z.T @ twin.H @ Z + np.diag(sd**-2.0)]])
    Z[: d1 * D] -= np.kron(np.ones((d1, d1)) / d1, np.eye(D)) @ Z[: d1 * D]
    return precision, np.hstack([twin.rows, Z]), sd


def flat_columns(columns: RandomEffectDesign) -> Floats:
    """All columns over the vectorised scores, (d1 D, m)."""
    found = written_out(columns).transpose(1, 0, 2)
    return found.reshape(-1, found.shape[2])


def written_out(columns: RandomEffectDesign) -> Floats:
    """All columns in all contexts, (D, d1, m)."""
    (D, n), d1 = columns.member.shape, columns.n_models
    return np.asarray(np.einsum("ul,ab->ualb", columns.member, np.eye(d1)).reshape(D, d1, n * d1))


def joint_gradient(twin: Twin, found: RandomEffects) -> Floats:
    """Of the log posterior in (coordinates, E, F), at F = 0."""
    return np.concatenate([twin.gradient(found.at), twin.g @ flat_columns(found.columns)])


def at_context(matrix: Floats, D: int, u: int) -> Floats:
    """The block of a context."""
    return matrix[u::D, u::D]


def absent_somewhere(battles: lrbtl.Battles, gone: Bools) -> lrbtl.Battles:
    """Battles without those of some (model, context), given as (d1, D)."""
    cells = battles.cells
    return rebuilt(battles, ~(gone[cells.a, cells.context] | gone[cells.b, cells.context]))
