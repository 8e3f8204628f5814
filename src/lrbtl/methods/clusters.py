"""Standard errors that allow for correlated votes of one voter, session or prompt.

With v the influence of one vote on the targets, votes that are independent give the covariance sum of v v^T. Votes of a
cluster are not: their influences are summed first, Z_g = sum of v over cluster g, and the covariance is the sum of
Z_g Z_g^T, times G / (G - 1) for G clusters. Several columns of clusters are combined by inclusion and exclusion over
their intersections [Cameron, Gelbach and Miller 2011]. A few large clusters leave the estimated variance itself noisy:
the variance of its log is about sum z^4 / (sum z^2)^2 - 1 / G for each target, and errors allow for it as Student's
quantiles do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from lrbtl.data.battles import Battles
from lrbtl.data.labels import context_name
from lrbtl.errors import ClusterError, ClusterWarning, warn_user
from lrbtl.model.links import CellTerms
from lrbtl.typing import Floats, Ints, Longs

BUDGET = 1 << 22  # numbers that the influences of one batch of cells may fill
FEW_CLUSTERS = 30
SMALLEST = 0.1  # of the variance of independent votes: clusters never make it less

Rows = Callable[[Longs], Floats]  # from positions of cells to the influence of one vote of each, (n, M)


@dataclass(frozen=True, eq=False)
class VoteMatrix:
    """What one vote of each cell adds to q directions, whatever the targets: sums over clusters are taken once.

    Attributes
    ----------
    matrix : sparse array (n_cells, q)
    battles : Battles
    """

    matrix: Any
    battles: Battles

    @cached_property
    def by_cluster(self) -> dict[tuple[int, ...], Any]:
        """Sums over the votes of each cluster, (n_clusters, q), for each combination of columns."""
        clusters = self.battles.cells.clusters
        assert clusters is not None
        out = {}
        for columns in _combinations(clusters.shape[1]):
            order, first = _sorted(clusters[:, columns])
            bounds = np.append(first, len(order))
            votes = self.battles.cells.count[order].astype(np.float64)
            grouped = sparse.csr_array((votes, order, bounds), shape=(len(first), self.matrix.shape[0]))
            out[columns] = grouped @ self.matrix
        return out

    @cached_property
    def squares(self) -> Any:
        """Sum over votes of the outer products of their rows, (q, q)."""
        return self.matrix.T @ (self.matrix * self.battles.cells.count[:, None]).tocsr()


def vote_matrix(slots: tuple[Longs, Longs], n_slots: int, factor: Floats, terms: CellTerms, n_effects: int) -> Any:
    """Return `factor` times the score of one vote of each cell on the slots, then along effects, (n_cells, q)."""
    n = len(factor)
    signed = np.stack([factor * terms.score, -factor * terms.score], axis=1)
    at = np.stack(slots, axis=1).ravel()
    on_slots = sparse.csr_array((signed.ravel(), at, np.arange(0, 2 * n + 1, 2)), shape=(n, n_slots))
    if not n_effects:
        return on_slots
    step, directions = max(1, BUDGET // n_effects), np.eye(n_effects)
    parts = [np.arange(low, min(low + step, n)) for low in range(0, n, step)]
    along = [sparse.csr_array(factor[cells, None] * terms.effects.along(directions, cells)) for cells in parts]
    return sparse.hstack([on_slots, sparse.vstack(along)], format="csr")


@dataclass(frozen=True, eq=False)
class LinearRows:
    """Influences of votes that are linear in a matrix which does not depend on the targets: `matrix @ weights`."""

    votes: VoteMatrix
    weights: Floats  # (q, M)

    def __call__(self, cells: Longs) -> Floats:
        """Return the influence of one vote of some cells, (n, M)."""
        matrix = self.votes.matrix
        if 2 * len(cells) > matrix.shape[0]:
            return np.asarray((matrix @ self.weights)[cells])
        return np.asarray(matrix[cells] @ self.weights)

    def sums(self, columns: tuple[int, ...], *, diagonal: bool) -> "_Sums":
        """Return the sums over clusters by some columns."""
        Z, half = self.votes.by_cluster[columns] @ self.weights, self.votes.squares @ self.weights
        own = np.sum(Z**2, axis=0)
        if diagonal:
            return _Sums(own, np.sum(Z**4, axis=0), own, np.einsum("qm,qm->m", self.weights, half))
        return _Sums(Z.T @ Z, np.sum(Z**4, axis=0), own, self.weights.T @ half)


@dataclass(frozen=True)
class ClusterMoments:
    """What clusters add to the covariance of M targets.

    Attributes
    ----------
    added : array (M, M) or (M,)
    least : array (M,)
        What the column that adds most adds to variances: several together never add less.
    noise : array (M,)
        Variance of the log of the estimated variances.
    """

    added: Floats
    least: Floats
    noise: Floats


def cluster_moments(rows: Rows, battles: Battles, n_targets: int, *, diagonal: bool) -> ClusterMoments:
    """Return what clusters add to the covariance of targets, given the influences of votes."""
    clusters = battles.cells.clusters
    assert clusters is not None
    shape = (n_targets,) if diagonal else (n_targets, n_targets)
    added, noise, least = np.zeros(shape), np.zeros(n_targets), np.full(n_targets, -np.inf)
    for columns in _combinations(clusters.shape[1]):
        found, n_clusters = _sums_by(rows, battles, columns, n_targets, diagonal=diagonal)
        correction = n_clusters / max(n_clusters - 1, 1)
        added += (1.0 if len(columns) % 2 else -1.0) * correction * found.squares
        if len(columns) == 1:
            noise = np.maximum(noise, found.noise(n_clusters))
            least = np.maximum(least, correction * found.own)
            plain = found.plain
    return ClusterMoments(added - plain, least - (plain if diagonal else np.diag(plain)), noise)


def _combinations(n: int) -> list[tuple[int, ...]]:
    """Return all combinations of n columns, the single ones first."""
    return [columns for size in range(1, n + 1) for columns in combinations(range(n), size)]


def _sums_by(
    rows: Rows, battles: Battles, columns: tuple[int, ...], n_targets: int, *, diagonal: bool
) -> tuple["_Sums", int]:
    """Return sums over the clusters by some columns, and how many clusters there are."""
    if isinstance(rows, LinearRows):
        return rows.sums(columns, diagonal=diagonal), rows.votes.by_cluster[columns].shape[0]
    clusters = battles.cells.clusters
    assert clusters is not None
    order, first = _sorted(clusters[:, columns])
    return _sums(rows, battles.cells.count, order, first, n_targets, diagonal=diagonal), len(first)


def _sorted(codes: Ints) -> tuple[Longs, Longs]:
    """Return cells in the order of their clusters, and where each cluster begins."""
    order = np.lexsort(codes.T)
    ordered = codes[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    return order, np.flatnonzero(new)


@dataclass
class _Sums:
    """Sums over clusters: of Z Z^T, of z^4, and over votes of v v^T."""

    squares: Floats
    fourth: Floats
    own: Floats
    plain: Floats

    def noise(self, n_clusters: int) -> Floats:
        """Return the variance of the log of each variance."""
        share = self.fourth / np.maximum(self.own**2, 1e-300)
        return np.asarray(np.clip(share - 1.0 / n_clusters, 0.0, 1.0))


def _sums(rows: Rows, count: Longs, order: Longs, first: Longs, n_targets: int, *, diagonal: bool) -> _Sums:
    """Return the sums, batch by batch; a batch holds whole clusters, or part of one whose sum goes on."""
    shape = (n_targets,) if diagonal else (n_targets, n_targets)
    out = _Sums(np.zeros(shape), np.zeros(n_targets), np.zeros(n_targets), np.zeros(shape))
    step = max(1, BUDGET // n_targets)
    carry = np.zeros(n_targets)
    starts = np.zeros(len(order), dtype=np.bool_)
    starts[first] = True
    for low in range(0, len(order), step):
        cells, here = order[low : low + step], starts[low : low + step].copy()
        number = count[cells].astype(np.float64)[:, None]
        v = rows(cells)
        if diagonal:
            out.plain += np.sum(number * v**2, axis=0)
        else:
            out.plain += (number * v).T @ v
        goes_on = not here[0]
        here[0] = True
        Z = np.add.reduceat(number * v, np.flatnonzero(here), axis=0)
        if goes_on:
            Z[0] += carry
        else:
            _finish(out, carry[None], diagonal)
        carry = Z[-1]
        _finish(out, Z[:-1], diagonal)
    _finish(out, carry[None], diagonal)
    return out


def _finish(out: _Sums, Z: Floats, diagonal: bool) -> None:
    out.squares += np.sum(Z**2, axis=0) if diagonal else Z.T @ Z
    out.own += np.sum(Z**2, axis=0)
    out.fourth += np.sum(Z**4, axis=0)


def semidefinite(matrix: Floats, least: Floats) -> Floats:
    """Return the nearest positive semidefinite matrix, with at least these variances."""
    if np.isnan(matrix).any():
        known = ~np.isnan(np.diag(matrix))
        out = matrix.copy()
        if known.any():
            out[np.ix_(known, known)] = semidefinite(matrix[np.ix_(known, known)], least[known])
        return out
    values, vectors = np.linalg.eigh(matrix)
    fixed = matrix if values[0] >= 0 else (vectors * np.maximum(values, 0.0)) @ vectors.T
    lacking = np.maximum(least - np.diag(fixed), 0.0)
    return np.asarray(fixed + np.diag(lacking))


def check_clusters(battles: Battles) -> None:
    """Raise where a column has one cluster left; warn where it has few, or where a context's votes are of one."""
    clusters = battles.cells.clusters
    for k, name in enumerate(battles.cluster_names):
        assert clusters is not None
        n = battles.cluster_sizes(k).size
        if n < 2:
            raise ClusterError(f"all votes that are left have the same {name}; select more of them, or read without.")
        if n < FEW_CLUSTERS:
            warn_user(
                f"there are {n} clusters by {name}: errors that allow for them are rough below {FEW_CLUSTERS}, and "
                "rather too small.",
                ClusterWarning,
            )
        if len(battles.levels):
            width = int(clusters[:, k].max()) + 1
            pairs = np.unique(battles.cells.context.astype(np.int64) * width + clusters[:, k])
            lone = np.flatnonzero(np.bincount(pairs // width, minlength=battles.n_contexts) == 1)
            if lone.size and battles.n_contexts > 1:
                shown = ", ".join(context_name(battles.context_label(int(u))) for u in lone[:5])
                warn_user(
                    f"all votes in {shown} have the same {name}: what they say there cannot be separated "
                    "from that one's taste. Pool such contexts, or leave them out.",
                    ClusterWarning,
                )


def design_effects(rows: Rows, battles: Battles, n_targets: int) -> list[tuple[str, float]]:
    """Return by how much each cluster column alone multiplies the variance of targets, the median over them."""
    out = []
    for k, name in enumerate(battles.cluster_names):
        found, n_clusters = _sums_by(rows, battles, (k,), n_targets, diagonal=True)
        ratio = found.squares / np.maximum(found.plain, 1e-300) * n_clusters / max(n_clusters - 1, 1)
        out.append((name, float(np.median(ratio))))
    return out
