"""T = L + E by dense matrices: the posterior of (coordinates of L, deviations E) written out, for small problems."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logsumexp

import lrbtl
from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.deviations import Expansion
from lrbtl.fitting.fit import make_design, spectral_start
from lrbtl.fitting.mode import Mode, find_mode, start_scores
from lrbtl.fitting.priors import factor_entries, within_gauge
from lrbtl.lowrank.tucker import check_rank
from lrbtl.methods.shared import LADDER, Columns, Shared
from lrbtl.typing import Bools, Floats, Longs
from problems import battle_matrix, jacobian, rebuilt

GAUGE = 1e5


def entries(design: BlockDesign) -> Longs:
    """Position of each slot among the vectorised scores (d1, D)."""
    *_, start, model = design.slot_table
    return np.asarray(model * design.n_contexts + np.repeat(np.arange(design.n_contexts), np.diff(start)))


def mode_of(battles: lrbtl.Battles, rank: int, tau: float, *, link: str = "logistic", dispersion: float = 1.0) -> Mode:
    """The mode reached from the spectral start."""
    design = BlockDesign.of_cells(make_design(battles, link).averaged())
    point = spectral_start(design, check_rank(rank, battles.shape))
    return find_mode(Expansion(start_scores(design, point), tau, dispersion, GAUGE))


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


def context_rows(space: Any) -> Floats:
    """Derivatives of the context vectors, flat, in the coordinates, (D r1, size)."""
    return np.stack([space.push(unit)[1].reshape(-1) for unit in np.eye(space.size)], axis=1)


def prior_gradient(at: Expansion) -> Floats:
    """Derivative of the cost of both priors in the coordinates."""
    space = at.scores.space
    out = within_gauge(space, at.prior.precision * (factor_entries(space) - at.prior.mean))
    if at.contexts is None:
        return out
    pull = at.contexts.precision[:, None] * (space.V - at.contexts.mean @ space.U)
    return np.asarray(out + context_rows(space).T @ pull.reshape(-1))


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
    H : array (d1 D, d1 D)
        Their information.
    precision : array (size + d1 D, size + d1 D)
        Of the coordinates, with the shared effects, and E.
    C : array (d1 D, d1 D)
        Posterior covariance of the scores, zero-sum in each context.
    """

    X: Floats
    J: Floats
    g: Floats
    H: Floats
    precision: Floats
    C: Floats

    @classmethod
    def of(cls, at: Expansion) -> "Twin":
        design, space = at.scores.design, at.scores.space
        d1, D = design.shape[0], design.n_contexts
        X, J = battle_matrix(design), jacobian(space)
        dense = np.zeros(d1 * D)
        dense[entries(design)] = at.scores.E
        eta = X @ ((space.U @ space.V.T + at.scores.shared).reshape(-1) + dense)
        _, scores, information = vote_terms(design.link, eta, design.y)
        weight = (design.count / at.dispersion)[:, None, None] * information
        rows = np.zeros((len(X), 2, space.size + d1 * D))  # of eta and of the tie parameter in (coordinates, E)
        rows[:, 0] = np.hstack([X @ J, X])
        if design.link.n_extra:
            rows[:, 1, space.extra] = 1.0
        precision = np.einsum("nip,nij,njq->pq", rows, weight, rows, optimize=True)
        diagonal = np.r_[at.prior.precision, np.full(d1 * D, 1.0 / at.tau**2)]
        precision += np.diag(diagonal)
        if at.contexts is not None:
            of_contexts, weights = context_rows(space), np.repeat(at.contexts.precision, space.V.shape[1])
            precision[: space.size, : space.size] += of_contexts.T @ (weights[:, None] * of_contexts)
        for part, block in space.gauge():
            precision[part, part] += at.gauge * block
        both = np.hstack([J, np.eye(d1 * D)])
        Q = np.kron(np.eye(d1) - 1.0 / d1, np.eye(D))
        C = Q @ both @ np.linalg.inv(precision) @ both.T @ Q
        g = X.T @ (design.count * scores[:, 0]) / at.dispersion
        return cls(X, J, g, X.T @ (weight[:, :1, 0] * X), precision, C)

    def excess(self, at: Expansion, cells: BlockDesign, floor: float, few: float, C: Floats | None = None) -> Floats:
        """B - H: second moment of the votes' scores, each over one minus its leverage, less their information.

        Of the scores and, last, of a tie parameter. Battles of a model with n votes in all, and not more of its
        opponent, count n / (n + few). Leverages are those under C, by default the posterior covariance.
        """
        X = battle_matrix(cells)
        dense = np.zeros(X.shape[1])
        dense[entries(at.scores.design)] = at.scores.E
        eta = X @ ((at.scores.space.U @ at.scores.space.V.T).reshape(-1) + dense)
        _, scores, information = vote_terms(at.scores.design.link, eta, cells.y)
        information = information / at.dispersion
        spread = np.einsum("ni,ij,nj->n", X, self.C if C is None else C, X, optimize=True)
        left = np.maximum(1 - information[:, 0, 0] * spread, floor)
        residual = scores / at.dispersion / left[:, None]
        votes = np.array([cells.count[(cells.a == k) | (cells.b == k)].sum() for k in range(cells.shape[0])])
        fewest = np.minimum(votes[cells.a], votes[cells.b])
        weight = cells.count * fewest / (fewest + few)
        excess = weight[:, None, None] * (residual[:, :, None] * residual[:, None, :] - information)
        rows = np.zeros((len(X), 2, X.shape[1] + at.scores.design.link.n_extra))
        rows[:, 0, : X.shape[1]] = X
        rows[:, 1, X.shape[1] :] = 1.0
        return np.asarray(np.einsum("nip,nij,njq->pq", rows, excess, rows, optimize=True))


def joint_precision(twin: Twin, found: Shared) -> tuple[Floats, Floats, Floats]:
    """Precision of (coordinates, E, F), rows that make zero-sum scores of them, and standard deviations of F a priori.

    F are coefficients of further columns.
    """
    at, design = found.at, found.at.scores.design
    d1, D = design.shape[0], design.n_contexts
    Z = written_out(found.columns).transpose(1, 0, 2).reshape(d1 * D, -1)
    sizes = dict(zip(found.columns.modes, found.sizes, strict=True))
    sd = np.array([at.tau if mode == LADDER else sizes[mode] for mode in found.columns.mode])
    rows = np.hstack([twin.J, np.eye(d1 * D)])
    cross = rows.T @ twin.H @ Z
    cross[at.scores.space.extra] = at.effects[0].T @ Z[entries(design)]
    precision = np.block([[twin.precision, cross], [cross.T, Z.T @ twin.H @ Z + np.diag(sd**-2.0)]])
    return precision, np.kron(np.eye(d1) - 1.0 / d1, np.eye(D)) @ np.hstack([rows, Z]), sd


def written_out(columns: Columns) -> Floats:
    """All columns in all contexts, (D, d1, m)."""
    (D, n), d1 = columns.member.shape, len(columns.ladder)
    own = np.einsum("ul,ab->ualb", columns.member, np.eye(d1)).reshape(D, d1, n * d1)
    return np.concatenate([np.broadcast_to(columns.ladder[:, None], (D, d1, 1)), own], axis=2)


def joint_gradient(twin: Twin, found: Shared) -> Floats:
    """Of the log posterior in (coordinates, E, F), at F = 0."""
    at, design, space = found.at, found.at.scores.design, found.at.scores.space
    deviation = np.zeros(len(twin.g))
    deviation[entries(design)] = at.scores.E
    Z = written_out(found.columns).transpose(1, 0, 2).reshape(len(twin.g), -1)
    coordinates = twin.J.T @ twin.g - prior_gradient(at)
    coordinates[space.extra] = at.effect_gradient
    return np.concatenate([coordinates, twin.g - deviation / at.tau**2, twin.g @ Z])


def at_context(matrix: Floats, D: int, u: int) -> Floats:
    """The block of a context."""
    return matrix[u::D, u::D]


def absent_somewhere(battles: lrbtl.Battles, gone: Bools) -> lrbtl.Battles:
    """Battles without those of some (model, context), given as (d1, D)."""
    cells = battles.cells
    return rebuilt(battles, ~(gone[cells.a, cells.context] | gone[cells.b, cells.context]))
