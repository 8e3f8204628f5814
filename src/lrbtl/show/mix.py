"""What the page of a report needs to make the overall board again for any weights of the categories.

Overall scores are sums of the categories' scores, and their covariance is a quadratic form in the weights w:
V(w) = sum over u <= v of w_u w_v C_uv, with C_uu = V(e_u) and C_uv = V(e_u + e_v) - C_uu - C_vv, from boards of one and
of two categories. Variances are kept for all u <= v. Of covariances the principal components over u <= v are kept:
all if they fit into `PAIR_BYTES`, else the first ones. The quantile of joint intervals hardly changes with the
weights: the page has those of the presets, and elsewhere uses the largest that it knows.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np

from lrbtl.boards.board import BASE_RATING, SIZES, Basis, Leaderboards
from lrbtl.boards.choose import Choice
from lrbtl.boards.components import battle_counts
from lrbtl.boards.ranking import JointGaps
from lrbtl.data.battles import Battles
from lrbtl.data.labels import shown_context
from lrbtl.inference.always_valid import Validity
from lrbtl.inference.estimate import Estimate
from lrbtl.inference.targets import Weights, context_weights
from lrbtl.tables import shown
from lrbtl.typing import Bools, Floats, Longs

PAIR_BYTES = 600_000  # for covariances between models
MOST_NUMBERS, MOST_CLUSTERED = 30_000_000, 1_000_000  # of all C_uv: beyond, the page has no mix
AT_ONCE = 40  # boards
PLACES = 32767  # of two bytes
MOST_MISSED, WORTH_SAYING = 0.1, 0.005  # of the widths of intervals, which are no quadratic form where errors are noisy
CHECKED = 6  # single categories whose joint quantiles are computed


def mix_data(boards: Leaderboards, tables: Iterable[tuple[str, Any]] = ()) -> dict[str, Any] | None:
    """Return what the page makes overall boards from; None where it cannot: one category, several modes, too many."""
    basis, overall = boards.overall.basis, boards.overall
    if basis is None or overall.scale not in SIZES or basis.analysis.run.absolute:
        return None
    battles = basis.analysis.battles
    assert isinstance(battles, Battles)
    n, C = len(battles.models), battles.n_contexts
    numbers = C * (C + 1) // 2 * n**2
    if len(battles.levels) != 1 or C < 2 or numbers > (MOST_CLUSTERED if battles.cluster_names else MOST_NUMBERS):
        return None
    place = {model: k for k, model in enumerate(battles.models)}
    order = np.array([place[model] for model in overall.models])
    variances, covariances, scores = quadratic_form(basis, order)
    missed = misfit(basis, order, variances, prepared := presets(basis))
    known = np.isfinite(scores).all(axis=0) & np.isfinite(variances).all(axis=0)
    if known.sum() < 2 or missed > MOST_MISSED:
        return None
    unit = SIZES[overall.scale] * basis.analysis.log_odds_unit
    mixing, components = principal_components(np.where(np.isfinite(covariances), covariances, 0.0))
    costs = _costs(overall.models, tables)
    priced = np.zeros(n, dtype=np.bool_)
    priced[order] = [cost is not None for cost in costs or [None] * n]
    votes = np.stack([battle_counts(battles, weights)[0][order] for weights in np.eye(C)])
    anchor = None if basis.anchor is None else (int(np.flatnonzero(order == basis.anchor[0])[0]), basis.anchor[1])
    return {
        "categories": [shown(shown_context(battles.context_label(u))) for u in range(C)],
        "presets": [{"name": name, "weights": weights.tolist()} for name, weights in prepared],
        "critical": joint_quantiles(basis, prepared, overall.level, basis.ranked),
        "single": Validity.of(basis.analysis.provenance).two_sided(overall.level),
        "unit": unit,
        "base": BASE_RATING if overall.scale == "elo" else 0.0,
        "anchor": anchor,
        "preliminary": [k for k, status in enumerate(overall.status) if status == "preliminary"],
        "unknown": np.flatnonzero(~known).tolist(),
        "votes": votes.tolist(),
        "scores": base64_text(np.where(known, scores, 0.0).astype("<f4")),
        "variances": coded(np.where(known, variances, 0.0)),
        "mixing": base64_text(mixing.astype("<f4")),
        "covariances": coded(components),
        "costs": costs,
        "about": about(len(components), n, C, missed),
        "critical_costs": joint_quantiles(basis, prepared, overall.level, basis.ranked & priced),
    }


def misfit(basis: Basis, order: Longs, variances: Floats, prepared: list[tuple[str, Floats]]) -> float:
    """Return by how much standard errors that the page makes miss those of boards, relative to these, at some mixes."""
    C = len(basis.weights)
    slope = np.arange(1.0, C + 1.0)
    mixes = np.array([*(weights for _, weights in prepared), slope / slope.sum(), slope[::-1] / slope.sum()])
    u, v = np.triu_indices(C)
    made = np.sqrt(np.maximum((mixes[:, u] * mixes[:, v]) @ variances, 0.0))
    wanted = np.array([found.working_se[order] for found in basis.analysis.estimate_boards(mixes)])
    with np.errstate(invalid="ignore", divide="ignore"):
        away = np.abs(made / wanted - 1.0)
    return float(np.max(away[np.isfinite(away)], initial=0.0))


def about(kept: int, n: int, n_categories: int, missed: float) -> list[str]:
    """Return the page's note on how exact its boards are."""
    widths = "" if missed < WORTH_SAYING else f"; widths of intervals are within {missed:.0%}"
    lines = [
        f"Scores, intervals and ranks are those of leaderboard(weights=...), up to rounding{widths}.",
        "Away from the presets, joint ranks, tiers and the frontier use the largest joint quantile of the presets and "
        "of single categories.",
    ]
    if kept < n_categories * (n_categories + 1) // 2:
        lines.append(
            f"To keep this file small, covariances between the {n} models are kept in {kept} principal components: "
            "joint ranks, tiers and the frontier are approximate."
        )
    picked = "Joint statements hold for one mix that is chosen beforehand, not for the best of many that are tried."
    return [*lines, picked]


def quadratic_form(basis: Basis, order: Longs) -> tuple[Floats, Floats, Floats]:
    """Return the variances (M, n) and covariances (M, P) of the C_uv, u <= v, and the categories' scores (C, n).

    Covariances are those of the pairs of models i < j in the given order, row by row.
    """
    analysis = basis.analysis
    C, n = analysis.battles.n_contexts, order.size
    u, v = np.triu_indices(C)
    weights = np.zeros((u.size, C))
    weights[np.arange(u.size), u] = weights[np.arange(u.size), v] = 1.0
    i, j = np.triu_indices(n, 1)
    variances, covariances = np.empty((u.size, n)), np.empty((u.size, i.size))
    scores = np.empty((C, n))
    for first in range(0, u.size, AT_ONCE):
        for k, found in enumerate(analysis.estimate_boards(weights[first : first + AT_ONCE]), first):
            cov = found.working_cov[np.ix_(order, order)]
            variances[k], covariances[k] = np.diag(cov), cov[i, j]
            if u[k] == v[k]:
                scores[u[k]] = found.working[order]
    single = np.flatnonzero(u == v)
    both = np.flatnonzero(u != v)
    for form in (variances, covariances):
        form[both] -= form[single[u[both]]] + form[single[v[both]]]
    return variances, covariances, scores


def principal_components(form: Floats) -> tuple[Floats, Floats]:
    """Return the mixing (M, K) and the components (K, P) whose product is a matrix (M, P), or comes near it."""
    most = max(1, min(len(form), PAIR_BYTES // (2 * max(form.shape[1], 1))))
    _, vectors = np.linalg.eigh(np.asarray(form @ form.T, dtype=np.float64))
    mixing = vectors[:, ::-1][:, :most]
    return mixing, mixing.T @ form


def coded(rows: Floats) -> dict[str, Any]:
    """Return rows of numbers as whole ones of two bytes, and the size of their units.

    >>> sorted(coded(np.array([[1.0, -0.5]])))
    ['code', 'unit']
    """
    unit = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300) / PLACES
    return {"unit": unit.tolist(), "code": base64_text(np.round(rows / unit[:, None]).astype("<i2"))}


def presets(basis: Basis) -> list[tuple[str, Floats]]:
    """Return the names and weights of the presets, the report's own first."""
    battles = basis.analysis.battles
    named: list[tuple[str, Weights]] = [("traffic", "traffic"), ("equal", "equal")]
    return [("this report", basis.weights), *((name, context_weights(battles, given)) for name, given in named)]


def joint_quantiles(basis: Basis, prepared: list[tuple[str, Floats]], level: float, models: Bools) -> list[float]:
    """Return the joint quantiles of gaps between some models at the presets, and then at the largest categories."""
    if models.sum() < 2:
        return []
    largest = np.argsort(-basis.analysis.battles.context_counts, kind="stable")[:CHECKED]
    rows = np.array([*(weights for _, weights in prepared), *np.eye(len(basis.weights))[largest]])
    found = []
    for weights, estimate in zip(rows, basis.analysis.estimate_boards(rows), strict=True):
        here = battle_counts(_votes(basis), weights)[0] > 0
        found.append(quantile_of(basis, estimate, models & here & np.isfinite(estimate.working), level))
    return found


def quantile_of(basis: Basis, found: Estimate, models: Bools, level: float) -> float:
    """Return the quantile of joint intervals of all gaps between some models; 0 where there are fewer than two."""
    if models.sum() < 2:
        return 0.0
    part, valid = found[np.flatnonzero(models)], Validity.of(basis.analysis.provenance)
    gaps = JointGaps.of(part.working_cov, part.variance_noise, level=level, valid=valid)
    return gaps.critical * (1.0 if gaps.widening is None else float(gaps.widening.max()))


def _votes(basis: Basis) -> Battles:
    assert isinstance(basis.analysis.battles, Battles)
    return basis.analysis.battles


def _costs(models: tuple[Any, ...], tables: Iterable[tuple[str, Any]]) -> list[float | None] | None:
    """Return the cost of each model, where a table of the report is a choice."""
    for _, table in tables:
        if isinstance(table, Choice):
            known = dict(zip(table.models, table.cost.tolist(), strict=True))
            return [known.get(model) for model in models]
    return None


def base64_text(values: np.ndarray[Any, Any]) -> str:
    """Base64 of the bytes of an array."""
    return base64.b64encode(values.tobytes()).decode()
