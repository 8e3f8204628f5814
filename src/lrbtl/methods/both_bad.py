"""Scores with an absolute zero, from votes of which some say that both were bad.

T = c_u + m_a + d_au: a constant per context with hardly any prior, the spread of models N(0, sigma^2) and deviations
N(0, tau^2), whose sizes come by expectation-maximisation. The mode is found by Fisher scoring in all scores at once,
with the parameter of ties in the last place. With H the information of the votes, P the precision of the prior,
C = (H + P)^-1 and B the second moment of the votes' scores, the covariance is C (B + P) C.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.observations import Data
from lrbtl.errors import MethodError
from lrbtl.fitting.newton_driver import halved
from lrbtl.methods.base import Method, Moments, Options, Provenance, Run
from lrbtl.methods.clusters import Rows
from lrbtl.methods.targets import Gradients, Resolved, ScoresView, evaluate
from lrbtl.model.both_bad import OUTCOMES, BothBadLink
from lrbtl.model.links import Link
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats, Longs

LARGEST = 4000  # scores for which one dense matrix is inverted
STEPS, TOL = 200, 1e-3  # rounds, and the change of both spreads, in logarithms, at which they end
SETTLED = 1e-8  # largest change of a score at the mode
SMALLEST_SPREAD = 1e-3
WIDE = 5.0  # logits: what spreads, constants of contexts and the tie parameter hardly exceed
MOST_STEP = 2.0  # of a score in one step
SMALLEST_STEP = 5e-4  # share of a step below which none is tried


class GroundedMethod(Method):
    """BothBadLink Rao-Kupper scores of battles with votes that both were bad."""

    name = "grounded"
    unused: ClassVar[tuple[str, ...]] = ("rank", "n_folds", "ridge", "link", "sampling", "se", "solver", "config")

    @one_blas_thread
    def run(self, data: Data, options: Options) -> Run:
        """Return the scores of all models in all contexts, on the scale whose zero is the floor."""
        if not isinstance(data, Battles):
            raise MethodError("method='grounded' is for battles with both_bad='outcome'.")
        if data.covariates:
            raise MethodError("both_bad='outcome' does not go with covariates or position: read the battles without.")
        if data.shape[0] * data.n_contexts > LARGEST:
            raise MethodError(
                f"{data.shape[0]} models in {data.n_contexts} contexts are more than the {LARGEST:,} scores for which "
                "both_bad='outcome' is made: use fewer contexts, or both_bad='tie'."
            )
        BothBadLink().check(data.cells.y, True)
        return GroundedRun(data, _climb(data))


@dataclass(frozen=True)
class _Expansion:
    """The votes round some scores: gradient (n + 1,), information and squared scores (n + 1, n + 1)."""

    data: Battles
    at: Floats  # (D d1,) scores, the models of a context side by side, then the tie parameter

    @cached_property
    def cells(self) -> tuple[Longs, Longs, Longs, Floats, Floats]:
        """Places of both sides, numbers of the outcomes, numbers of votes and weights of one."""
        cells, d1 = self.data.cells, self.data.shape[0]
        happened = np.argmax(OUTCOMES[:, None] == cells.y, axis=0)
        offset, count = cells.context.astype(np.int64) * d1, cells.count.astype(float)
        given = self.data.vote_weights
        weight = np.ones(cells.n_cells) if given is None else given * (cells.n_battles / float(count @ given))
        return offset + cells.a, offset + cells.b, happened, count, weight

    @cached_property
    def laws(self) -> tuple[Floats, Floats]:
        """Log probabilities (4, n_cells) and their derivatives (3, 4, n_cells)."""
        a, b, *_ = self.cells
        return BothBadLink(float(self.at[-1])).outcomes(self.at[a], self.at[b])

    @cached_property
    def vote_scores(self) -> Floats:
        """Derivatives of the log likelihood of one vote of each cell in a, b and the tie parameter, (3, n_cells)."""
        happened = self.cells[2]
        return np.asarray(self.laws[1][:, happened, np.arange(len(happened))])

    def gradient(self) -> Floats:
        """Return that of the log likelihood."""
        a, b, _, count, weight = self.cells
        by, n = count * weight * self.vote_scores, len(self.at)
        out = np.bincount(a, by[0], n) + np.bincount(b, by[1], n)
        out[-1] += by[2].sum()
        return np.asarray(out)

    def information(self) -> Floats:
        """Return the expected information: sum of n w sum_j p_j g_j g_j^T."""
        log_p, by = self.laws
        *_, count, weight = self.cells
        return self._matrix(np.einsum("jc,xjc,yjc->xyc", np.exp(log_p) * count * weight, by, by, optimize=True))

    def meat(self) -> Floats:
        """Return the second moment of the votes' scores: sum of n w^2 g g^T."""
        *_, count, weight = self.cells
        g = self.vote_scores
        return self._matrix(np.einsum("c,xc,yc->xyc", count * weight**2, g, g))

    def _matrix(self, blocks: Floats) -> Floats:
        """Return blocks (3, 3, n_cells) of (a, b, tie) as one matrix."""
        a, b, *_ = self.cells
        n = len(self.at)
        places = (a, b, np.full(len(a), n - 1))
        out = np.zeros(n * n)
        for x in range(3):
            for y in range(3):
                out += np.bincount(places[x] * n + places[y], blocks[x, y], n * n)
        return out.reshape(n, n)

    def loss(self) -> float:
        """Return the negative log likelihood."""
        _, _, happened, count, weight = self.cells
        return -float(count * weight @ self.laws[0][happened, np.arange(len(happened))])


@dataclass(frozen=True)
class _Spreads:
    """Standard deviations of models, and of a model between contexts."""

    sigma: float
    tau: float

    def precision(self, d1: int, D: int) -> Floats:
        """Return that of the prior, (D d1 + 1, D d1 + 1): nearly flat in contexts' constants and the tie parameter.

        Contexts where nobody calls both bad, or everybody does, would run to infinity under a flat one.
        """
        if D == 1:
            own = np.full((1, 1), 1.0 / (self.sigma**2 + self.tau**2))
        else:  # the inverse of sigma^2 1 1^T + tau^2 I, however different the two are
            own = (np.eye(D) - self.sigma**2 / (self.tau**2 + D * self.sigma**2)) / self.tau**2
        out = np.zeros((D * d1 + 1, D * d1 + 1))
        out[:-1, :-1] = np.kron(own, np.eye(d1) - 1.0 / d1) + np.kron(np.eye(D), np.full((d1, d1), (d1 * WIDE) ** -2.0))
        out[-1, -1] = WIDE**-2.0
        return out

    @classmethod
    def of(cls, scores: Floats, cov: Floats) -> "_Spreads":
        """Return the spreads of scores (D, d1) that are known up to a covariance (D, d1, D, d1)."""
        D, d1 = scores.shape
        away = scores - scores.mean(axis=1, keepdims=True)
        centred = np.einsum("uava->uv", cov) - np.einsum("uavb->uv", cov) / d1
        second = (away @ away.T + centred) / (d1 - 1)
        shared = float(second.sum()) / D**2
        own = max((float(np.trace(second)) - D * shared) / (D - 1), SMALLEST_SPREAD**2) if D > 1 else 0.0
        sigma = float(np.sqrt(max(shared - own / D, SMALLEST_SPREAD**2)))
        return cls(min(sigma, WIDE), min(float(np.sqrt(own)), WIDE))


def _climb(data: Battles) -> tuple[_Expansion, Floats]:
    """Return the mode and the precision of the prior there, spreads by expectation-maximisation."""
    d1, D = data.shape[0], data.n_contexts
    at, spreads = np.zeros(d1 * D + 1), _Spreads(1.0, 0.5 if D > 1 else 0.0)
    for _ in range(STEPS):
        prior = spreads.precision(d1, D)
        here, cov, moved = _newton(data, at, prior)
        at = here.at
        found = _Spreads.of(at[:-1].reshape(D, d1), cov[:-1, :-1].reshape(D, d1, D, d1))
        change = max(abs(np.log(found.sigma / spreads.sigma)), abs(np.log(found.tau / spreads.tau)) if D > 1 else 0.0)
        if change < TOL and moved < SETTLED:
            return here, prior
        if change >= TOL:
            spreads = found
    return here, prior


def _newton(data: Battles, at: Floats, prior: Floats) -> tuple[_Expansion, Floats, float]:
    """Return the votes after one step of Fisher scoring, (H + P)^-1 before it, and the largest change of a score."""
    here = _Expansion(data, at)
    cov = np.linalg.inv(here.information() + prior)
    step = cov @ (here.gradient() - prior @ at)
    step *= min(1.0, MOST_STEP / float(np.abs(step).max(initial=1e-300)))

    def cost(point: _Expansion) -> float:
        return point.loss() + 0.5 * float(point.at @ prior @ point.at)

    start = cost(here)
    there, _ = halved(
        lambda share: _Expansion(data, at + share * step),
        lambda trial, _: cost(trial) <= start + 1e-9 * abs(start),
        SMALLEST_STEP,
    )
    return there, np.asarray(cov, dtype=np.float64), float(np.abs(there.at - at).max())


class GroundedRun(Run):
    """Scores on the scale whose zero is the floor, with their covariance; `prior` is the precision of their prior."""

    data: Battles
    absolute = True
    shrinks = True

    link: Link
    provenance: Provenance
    prior: Floats

    def __init__(self, data: Battles, found: tuple[_Expansion, Floats]) -> None:
        self.data, (self._at, self.prior) = data, found
        self.link = BothBadLink(float(self._at.at[-1]))
        self.provenance = Provenance(method="grounded", n_battles=data.n_battles, link=str(self.link))
        self._map = np.linalg.inv(self._at.information() + self.prior)
        self._cov = self._map @ (self._at.meat() + self.prior) @ self._map
        self._scores = self._at.at[:-1].reshape(data.n_contexts, data.shape[0]).T

    def scores(self) -> Floats:
        """Return the estimates of all scores, (d1, D)."""
        return self._scores

    def _gradients(self, targets: Sequence[Resolved]) -> tuple[Floats, Floats]:
        values, found = evaluate(targets, ScoresView(self._scores, self.link, self.data.shape))
        return values, self._dense(found)

    def _dense(self, found: Gradients) -> Floats:
        scores = found.by_context(self.data.shape[0], self.data.n_contexts).toarray()
        return np.concatenate([scores, found.effects.T], axis=1)

    @one_blas_thread
    def vote_moments(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Moments:
        """Return estimates of targets with their covariance, or only with their errors, for independent votes."""
        values, dense = self._gradients(targets)
        moved = dense @ self._cov
        se = np.sqrt(np.maximum(np.einsum("mi,mi->m", moved, dense), 0.0))
        cov = None if errors_only else moved @ dense.T
        return Moments(values, None if cov is None else 0.5 * (cov + cov.T), se, np.zeros(len(values)))

    def influence_rows(self, targets: Sequence[Resolved]) -> Rows:
        """Return a function from positions of cells to the influence of one vote of each on the targets, (n, M)."""
        directions = self._gradients(targets)[1] @ self._map
        a, b, _, _, weight = self._at.cells
        g = self._at.vote_scores

        def rows(cells: Longs) -> Floats:
            parts = directions[:, a[cells]] * g[0, cells] + directions[:, b[cells]] * g[1, cells]
            return np.asarray(weight[cells] * (parts + directions[:, -1:] * g[2, cells])).T

        return rows
