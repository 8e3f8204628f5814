"""The default method for results: a hierarchical factor model, every entry placed, sizes and factors averaged over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from lrbtl.data.observations import Data, Results
from lrbtl.entries.config import FactorConfig
from lrbtl.entries.posterior import Posterior
from lrbtl.entries.sampler import sample_factor_model
from lrbtl.entries.table import EntryTable
from lrbtl.errors import InfluenceError, LinkError, MethodError, make_rng
from lrbtl.methods.base import FamilyKind, Method, Moments, Options, Provenance, Run
from lrbtl.methods.clusters import Rows
from lrbtl.methods.targets import Resolved, ScoresView, SparseGradient
from lrbtl.model.links import Identity, Link, as_link
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats, Longs

SUPPORT_STEP = 20  # draws between two from which the sources of forecasts are taken
UNKNOWN_NOISE = (
    "noise and real differences of single entries cannot be separated, as no entry was measured twice: intervals of "
    "latent scores average over both; items= or se= gives the noise"
)


class FactorMethod(Method):
    """Levels, shared factors, deviations and noise of scores, by sampling from their posterior."""

    name: ClassVar[str] = "factor"
    takes_votes: ClassVar[bool] = False
    unused: ClassVar[tuple[str, ...]] = ("rank", "n_folds", "ridge", "sampling", "se", "solver", "config")
    takes_features = True

    config: FactorConfig

    def __init__(self, config: FactorConfig | None = None) -> None:
        self.config = config or FactorConfig()

    @one_blas_thread
    def run(self, data: Data, options: Options) -> FactorRun:
        """Return the method run on results."""
        if not isinstance(data, Results):
            raise MethodError("the factor model is for results (benchmark scores); leave method out for battles.")
        if options.link is not None and as_link(options.link).name != "identity":
            raise LinkError("the factor model knows scores on their scales; use method='efficient' for one-bit links.")
        rng = make_rng(options.rng)
        table = EntryTable.of(data)
        draws = sample_factor_model(table, self.config, rng)
        return FactorRun(data, Posterior(table, draws, int(rng.integers(1 << 31))))


@dataclass(frozen=True, eq=False)
class FactorRun(Run):
    """Draws of the posterior; estimates are their means, covariances are theirs."""

    data: Results
    posterior: Posterior
    shrinks: ClassVar[bool] = True
    absolute = True

    @property
    def link(self) -> Link:  # type: ignore[override]
        """Scores are real numbers."""
        return Identity()

    @cached_property
    def provenance(self) -> Provenance:  # type: ignore[override]
        """How the run was made."""
        notes = () if self.posterior.knows_noise else (UNKNOWN_NOISE,)
        return Provenance(method=FactorMethod.name, n_battles=self.data.n_battles, notes=notes, unit=self.data.unit)

    def vote_moments(self, targets: Sequence[Resolved], *, errors_only: bool = False) -> Moments:
        """Return means and covariances of the targets' draws."""
        return _moments(self.values(targets), errors_only=errors_only)

    def values(self, targets: Sequence[Resolved]) -> Floats:
        """Return draws (S, M) of targets on their working scales."""
        out = np.zeros((self.posterior.n_draws, len(targets)))
        wanted: dict[int, list[tuple[int, int, float]]] = {}
        others = []
        for k, target in enumerate(targets):
            if not isinstance(target.kind, SparseGradient):
                others.append(k)
                continue
            terms = zip(target.kind.models.tolist(), target.kind.contexts.tolist(), target.kind.weights, strict=True)
            for model, context, weight in terms:
                wanted.setdefault(context, []).append((k, model, weight))
        for context, terms_here in wanted.items():
            at, models, weights = (np.array(column) for column in zip(*terms_here, strict=True))
            np.add.at(out.T, at, (self.posterior.latent(context)[:, models] * weights).T)
        if others:
            out[:, others] = self._nonlinear([targets[k] for k in others])
        return out

    def scores(self) -> Floats:
        """Return the posterior means of all latent scores, (d1, D)."""
        D = self.data.n_contexts
        return np.stack([self.posterior.latent(context).mean(axis=0) for context in range(D)], axis=1)

    def vote_score_moments(self, weights: Floats, among: object = None) -> list[Moments]:
        """Return the moments of all models' weighted mean scores, for each row of weights; nothing is centred."""
        return [_moments(self.board_draws(row)) for row in weights]

    def board_draws(self, row: Floats) -> Floats:
        """Return draws (S, d1) of the weighted mean over benchmarks of latent scores."""
        used = np.flatnonzero(row)
        return np.asarray(sum(row[context] * self.posterior.latent(int(context)) for context in used))

    def vote_family(self, kind: FamilyKind) -> tuple[Floats, Floats]:
        """Return estimates and errors of all scores (d1, D), or of all gaps (pairs, D)."""
        values, errors = [], []
        for context in range(self.data.n_contexts):
            draws = self.posterior.latent(context)
            if kind == "gaps":
                a, b = np.triu_indices(draws.shape[1], 1)
                draws = draws[:, a] - draws[:, b]
            values.append(draws.mean(axis=0))
            errors.append(draws.std(axis=0, ddof=1))
        return np.stack(values, axis=1), np.stack(errors, axis=1)

    def feature_draws(self) -> Floats:
        """Return draws (S, p) of what one unit of each feature adds to the mean working score over benchmarks."""
        draws, known = self.posterior.draws, self.data.features
        size = np.ones(draws.coefficients.shape[1]) if known is None else known.scale
        return np.asarray(np.einsum("spk,sk->sp", draws.coefficients, draws.loadings[:, :, 1:].mean(axis=1)) / size)

    def support(self, model: int) -> tuple[Longs, Floats]:
        """Return a model's measured contexts, and by how much each moves its forecasts, (D, measured).

        The weights are mean over draws of l_j' A_i^-1 p_ik l_k on the working scale: what one unit more on benchmark k
        adds to the forecast on benchmark j.
        """
        table, draws = self.posterior.table, self.posterior.draws
        own = np.flatnonzero(table.model == model)
        at, some = table.context[own], range(0, self.posterior.n_draws, SUPPORT_STEP)
        total = np.zeros((table.shape[1], at.size))
        for s in some:
            B = draws.loadings[s, :, 1:]
            variance = draws.by_context[s, at] / draws.by_model[s, model]
            if table.noise is not None:
                variance = variance + table.noise[own]
            elif draws.noise is not None:
                variance = variance + draws.noise[s, at] / table.count[own]
            scaled = B[at] / variance[:, None]
            total += B @ np.linalg.solve(np.eye(B.shape[1]) + B[at].T @ scaled, scaled.T)
        return at, total / len(some)

    def influence_rows(self, targets: Sequence[Resolved]) -> Rows:
        """Raise: a draw has no influence function."""
        raise InfluenceError("influences are not known for the factor model; use method='efficient'.")

    def _nonlinear(self, targets: Sequence[Resolved]) -> Floats:
        """Return draws of other functions of the scores."""
        D, shape = self.data.n_contexts, self.data.shape
        every = np.stack([self.posterior.latent(context) for context in range(D)], axis=2)
        out = np.empty((len(every), len(targets)))
        for s, scores in enumerate(every):
            view = ScoresView(scores, self.link, shape)
            for k, target in enumerate(targets):
                if not callable(target.kind):
                    raise MethodError(f"{target.label} asks for a vote, but results are scores: ask for score or gap.")
                out[s, k] = target.kind(view)[0]
        return out


def _moments(draws: Floats, *, errors_only: bool = False) -> Moments:
    """Return means, covariances and errors of draws (S, M)."""
    S = len(draws)
    mean = draws.mean(axis=0)
    away = draws - mean
    noise = np.full(draws.shape[1], 2.0 / S)
    if errors_only:
        return Moments(mean, None, np.sqrt(np.sum(away**2, axis=0) / (S - 1)), noise)
    cov = away.T @ away / (S - 1)
    return Moments(mean, cov, np.sqrt(np.diag(cov)), noise, draws=draws)
