"""Estimates of what covariates do to votes, in numbers and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from lrbtl.data.battles import Battles
from lrbtl.data.covariates import Covariate
from lrbtl.data.labels import context_name
from lrbtl.inference.estimate import Estimate
from lrbtl.methods.targets import Resolved, resolved_effect

if TYPE_CHECKING:
    from lrbtl.inference.analysis import Analysis


class EffectEstimate(Estimate):
    """Coefficients of covariates with their joint covariance: log odds per unit of each covariate's scale.

    Everything that an `Estimate` has, and what the coefficients mean for a vote between equal models.

    Examples
    --------
    >>> import lrbtl, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> a, tokens = rng.integers(0, 2, 2000), rng.integers(50, 500, (2, 2000))
    >>> won = rng.random(2000) < np.where(tokens[0] > tokens[1], 0.6, 0.4)
    >>> frame = {"model_a": a, "model_b": 1 - a, "winner": won, "tokens_a": tokens[0], "tokens_b": tokens[1]}
    >>> battles = lrbtl.Battles.from_frame(frame, covariates={"length": ("tokens_a", "tokens_b")})
    >>> print(*lrbtl.analyse(battles).effects().sentences(), sep="")
    300 more tokens against 300: +8.5 points of win probability (95%: +6.4 to +10.5)
    """

    covariates: tuple[Covariate, ...] = ()
    unit: float = 1.0  # log odds of a nearly even vote per unit of eta

    @property
    def points(self) -> list[tuple[str, float]]:
        """For each coefficient a change in words, and its size in units of the coefficient."""
        return [covariate.example() for covariate in self.covariates]

    def changes(self, level: float = 0.95) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return for each example the change of win probability between equal models, and its limits, (M, 3)."""
        sizes = np.array([size for _, size in self.points])[:, None]
        values = np.column_stack([self.estimate, self.conf_int(level)])
        return np.asarray(expit(self.unit * sizes * values) - 0.5)

    def sentences(self, level: float = 0.95) -> list[str]:
        """Return what each coefficient means, one sentence each."""
        out = []
        rows = zip(self.labels, self.covariates, self.points, 100 * self.changes(level), strict=True)
        for label, covariate, (words, _), (points, low, high) in rows:
            where = label.removeprefix(covariate.name)
            interval = f"({100 * level:.4g}%: {low:+.1f} to {high:+.1f})"
            out.append(f"{words}{where}: {points:+.1f} points of win probability {interval}")
        return out


def effect_labels(battles: Battles) -> list[tuple[str, Covariate]]:
    """Return the label and the covariate of each linear effect, in their order."""
    if battles.effects_by == "context" and battles.levels:
        names = [context_name(battles.context_label(u)) for u in range(battles.n_contexts)]
        return [(f"{c.name} in {name}", c) for name in names for c in battles.covariates]
    return [(c.name, c) for c in battles.covariates]


def effect_targets(battles: Battles) -> list[Resolved]:
    """Return all linear effects as targets."""
    labels = effect_labels(battles)
    return [resolved_effect(k, len(labels), label) for k, (label, _) in enumerate(labels)]


def estimate_effects(analysis: Analysis) -> EffectEstimate | None:
    """Return the coefficients of an analysis; None where it has none."""
    battles = analysis.battles
    if not isinstance(battles, Battles) or not battles.covariates:
        return None
    labels: Sequence[tuple[str, Covariate]] = effect_labels(battles)
    moments = analysis.run.moments(effect_targets(battles))
    found = EffectEstimate(
        [label for label, _ in labels],
        moments.values,
        moments.cov,
        links="identity",
        variance_noise=moments.variance_noise,
        info=analysis.provenance,
    )
    found.covariates, found.unit = tuple(covariate for _, covariate in labels), analysis.log_odds_unit
    return found
