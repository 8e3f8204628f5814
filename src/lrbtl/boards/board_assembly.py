"""One board from scores: intervals, ranks, tiers and notes, with one-sided limits for models outside the core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import expit, logit

from lrbtl.boards.board import Lazy, Leaderboard, Leaderboards, Scale
from lrbtl.boards.board_scores import BoardScores, Engine
from lrbtl.boards.newcomers import FEW_BATTLES, Placement, place_outside
from lrbtl.boards.ranking import joint_above, list_scores, rank_models
from lrbtl.data.battles import Battles
from lrbtl.inference.estimate import ELO
from lrbtl.inference.joint import normal_quantile, sidak_quantile
from lrbtl.methods.standard_errors import tail_widening
from lrbtl.model.tie_links import TIE_LINKS
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Longs, Seed

Placed = tuple[Floats, Floats, Floats, Floats]  # score (d1,), covariance (d1, d1), lower and upper (d1,)

BASE_RATING = 1000.0  # Elo points of the mean model
FEW_IN_CONTEXT = 10


@dataclass(frozen=True)
class Options:
    """How boards are presented; `notes` are said on each."""

    level: float
    scale: Scale
    anchor: tuple[str, float] | None
    rng: Seed
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Duels:
    """Scores as log odds, in the order of the board, from which win probabilities and their limits are made."""

    models: tuple[str, ...]
    score: Floats
    cov: Floats
    below: Floats
    above: Floats
    variance_noise: Floats
    level: float

    def matrix(self, side: int, models: tuple[str, ...], widen: float | Floats = 1.0) -> Floats:
        """Return win probabilities (side 0), their lower (-1) or upper (+1) limits, in the order of `models`.

        `widen`, one number or one for each pair, multiplies the distance of the limits from the estimate, as logits.
        """
        place = {model: k for k, model in enumerate(self.models)}
        rows = np.array([place[model] for model in models])
        gap = self.score[rows][:, None] - self.score[rows][None, :]
        if side:
            known = np.isfinite(np.diag(self.cov)[rows])
            own = np.diag(self.cov)[rows]
            variance = own[:, None] + own[None, :] - 2.0 * self.cov[np.ix_(rows, rows)]
            width = normal_quantile(self.level) * np.sqrt(np.maximum(variance, 0.0))
            down, up = self.below[rows], self.above[rows]
            first, second = (down, up) if side < 0 else (up, down)
            mixed = np.hypot(first[:, None], second[None, :])
            gap = gap + widen * side * np.where(known[:, None] & known[None, :], width, mixed)
        probability = np.where(np.isnan(gap), [0.0, np.nan, 1.0][side + 1], expit(gap))
        np.fill_diagonal(probability, 0.5)
        return probability


@one_blas_thread
def build_board(
    part: Battles, engine: Engine, options: Options, context: str | None, weights: Floats
) -> tuple[Leaderboard, Duels]:
    """Return one board and what its win probabilities need."""
    found = engine.scores(weights, options.scale == "probability")
    d1, z = len(part.models), normal_quantile(options.level)
    outside = np.setdiff1d(np.arange(d1), found.inside)
    limits = {
        int(k): place_outside(part, int(k), found.inside, found.by_context, found.cov, weights, level=options.level)
        for k in outside
    }
    plain = _place(found.inside, d1, found.values, found.cov, z, limits)
    working = plain
    if found.logits is not None and found.logit_cov is not None:
        as_rates = {k: _rate_limits(limit, found, weights) for k, limit in limits.items()}
        working = _place(found.inside, d1, found.logits, found.logit_cov, z, as_rates)
    score, cov, lower, upper = working
    fought, won = battle_counts(part, weights)
    notes = np.array([_note(k, found, limits, fought, context) for k in range(d1)], dtype=object)
    shown, placed = score, ~np.isnan(score)
    if found.inside.size > 1:
        shown, placed = list_scores(score, lower, upper, notes != "")
        notes[np.isinf(upper) & placed] += "; listed at its lower limit"
        notes[~placed] += "; listed last"
    to_scale = _scale_map(options, part, shown)
    variance_noise = np.zeros(d1)
    variance_noise[found.inside] = found.variance_noise
    above = joint_above(score, cov, variance_noise=variance_noise, level=options.level, rng=options.rng)
    above |= _outside_above(part, found, outside, weights, options)
    ranks = rank_models(np.where(placed, shown, np.nan), above, lower, upper, notes != "")
    order = np.lexsort((np.arange(d1), -np.where(np.isnan(score), -np.inf, score), -np.where(placed, shown, -np.inf)))
    rated, slope = to_scale(shown)
    board = Leaderboard(
        context=context,
        models=tuple(str(part.models[k]) for k in order),
        score=rated[order],
        lower=to_scale(lower)[0][order],
        upper=to_scale(upper)[0][order],
        se=(slope * np.sqrt(np.diag(cov)))[order],
        rank=ranks.rank[order],
        best=ranks.best[order],
        worst=ranks.worst[order],
        rank_lower=ranks.lower[order],
        rank_upper=ranks.upper[order],
        tier=ranks.tier[order],
        battles=fought[order],
        win_rate=won[order],
        notes=tuple(notes[order].tolist()),
        level=options.level,
        scale=options.scale,
        method=engine.info.method,
        info=replace(
            engine.info, level=options.level, notes=_board_notes(part, engine, options, limits, weights, shown)
        ),
        gain=found.gain if len(part.levels) else None,
    )
    plain_score, plain_cov, plain_lower, plain_upper = (x[order] for x in plain)
    plain_cov = plain_cov[:, order]
    below, over = plain_score - plain_lower, plain_upper - plain_score
    return board, Duels(board.models, plain_score, plain_cov, below, over, variance_noise[order], options.level)


def _place(inside: Longs, d1: int, values: Floats, cov: Floats, z: float, limits: dict[int, Placement]) -> Placed:
    """Return scores, covariance and intervals of all models; NaN and infinities where there is none."""
    score, lower, upper = np.full(d1, np.nan), np.full(d1, -np.inf), np.full(d1, np.inf)
    wide = np.full((d1, d1), np.nan)
    score[inside] = values
    if inside.size > 1:
        wide[np.ix_(inside, inside)] = cov
        half = z * np.sqrt(np.diag(cov))
        lower[inside], upper[inside] = values - half, values + half
    for k, limit in limits.items():
        score[k], lower[k], upper[k] = limit.score, limit.lower, limit.upper
        if limit.share is not None and np.isfinite(limit.variance):
            wide[k, inside] = wide[inside, k] = limit.share @ cov
            for other, rival in limits.items():
                if rival.share is not None:
                    wide[k, other] = wide[other, k] = limit.share @ cov @ rival.share
            wide[k, k] = limit.variance
    return score, wide, lower, upper


def _scale_map(options: Options, part: Battles, score: Floats) -> Callable[[Floats], tuple[Floats, Floats]]:
    """Return the map from working scores to the board's scale, and its slope."""
    if options.scale == "probability":
        return lambda x: (expit(x), expit(x) * expit(-x))
    if options.scale == "logit":
        return lambda x: (x, np.ones(x.size))
    anchor = _anchor_score(options, part, score)
    shift = BASE_RATING if options.anchor is None or anchor is None else options.anchor[1] - ELO * anchor
    return lambda x: (shift + ELO * x, np.full(x.size, ELO))


def _anchor_score(options: Options, part: Battles, score: Floats) -> float | None:
    """Return the score of the anchor; None where it has none here."""
    names = [str(model) for model in part.models]
    if options.anchor is None or options.anchor[0] not in names:
        return None
    value = float(score[names.index(options.anchor[0])])
    return value if np.isfinite(value) else None


def _rate_limits(limit: Placement, found: BoardScores, weights: Floats) -> Placement:
    """Return the limits on the scale of logit win rates against the core."""

    def rate(x: float) -> float:
        return float(logit((expit(x - found.by_context) @ weights).mean())) if np.isfinite(x) else x

    slope = (rate(limit.score + 1e-5) - rate(limit.score - 1e-5)) / 2e-5
    return Placement(
        rate(limit.score), rate(limit.lower), rate(limit.upper), limit.note, slope**2 * limit.variance, limit.share
    )


def _outside_above(part: Battles, found: BoardScores, outside: Longs, weights: Floats, options: Options) -> Bools:
    """Return above[a, b] for pairs of a core model and one with a one-sided limit, all at the joint level."""
    d1 = len(part.models)
    above = np.zeros((d1, d1), dtype=np.bool_)
    if not outside.size or found.inside.size < 2:
        return above
    critical = sidak_quantile(options.level, d1)
    half = critical * tail_widening(critical, found.variance_noise) * np.sqrt(np.diag(found.cov))
    strict = 1.0 - (1.0 - options.level) / outside.size
    for k in outside.tolist():
        limit = place_outside(part, k, found.inside, found.by_context, found.cov, weights, level=strict)
        if np.isfinite(limit.variance):
            continue
        above[k, found.inside] = limit.lower > found.values + half
        above[found.inside, k] = limit.upper < found.values - half
    return above


def battle_counts(part: Battles, weights: Floats) -> tuple[Longs, Floats]:
    """Return battles of each model in the contexts that have a weight, and the share of them won."""
    cells, d1 = part.cells, len(part.models)
    here = _cells_with_weight(part, weights)
    a, b, count, y = cells.a[here], cells.b[here], cells.count[here], cells.y[here]
    fought = np.bincount(a, count, d1) + np.bincount(b, count, d1)
    won = np.bincount(a, count * y, d1) + np.bincount(b, count * (1.0 - y), d1)
    return fought.astype(np.int64), np.divide(won, fought, out=np.full(d1, np.nan), where=fought > 0)


def _cells_with_weight(part: Battles, weights: Floats) -> slice | Longs:
    """Return where the cells of contexts with a weight are; those of one context lie together."""
    cells, used = part.cells, np.flatnonzero(weights)
    if used.size == 1:
        return slice(*cells.start[[used[0], used[0] + 1]].tolist())
    return slice(None) if used.size == weights.size else np.flatnonzero(weights[cells.context])


def _note(k: int, found: BoardScores, limits: dict[int, Placement], fought: Longs, context: str | None) -> str:
    if k in limits:
        return limits[k].note
    if found.inside.size == 1:
        return "the others' scores are relative to this one: no model both won and lost against others"
    if not fought[k]:
        return "no battles here: score from the other contexts"
    if fought[k] < (FEW_BATTLES if context is None else FEW_IN_CONTEXT):
        return f"only {fought[k]} battle{'s' if fought[k] > 1 else ''}"
    return ""


def _board_notes(
    part: Battles, engine: Engine, options: Options, limits: dict[int, Placement], weights: Floats, shown: Floats
) -> tuple[str, ...]:
    here = _cells_with_weight(part, weights)
    count, y = part.cells.count[here], part.cells.y[here]
    notes = [*options.notes, *engine.info.notes]
    ties = int(count[y == 0.5].sum())
    link = engine.info.link
    if ties:
        meaning = "are an outcome of their own" if link in TIE_LINKS else "count as half a win for both"
        notes.append(f"{ties:,} ties ({ties / count.sum():.1%}) {meaning}")
    if link is not None:
        notes.append(f"{link} link; scores are scaled to the log odds of a nearly even battle")
    if options.anchor is not None and _anchor_score(options, part, shown) is None:
        notes.append(f"the anchor {options.anchor[0]} has no score here: ratings have mean {BASE_RATING:.0f}")
    if limits:
        notes.append(f"{len(limits)} model(s) with a note are placed against the others and not part of the mean score")
    return tuple(notes)


def collect_boards(results: dict[str | None, tuple[Leaderboard, Duels]]) -> Leaderboards:
    """Return the boards of all contexts with their win probabilities."""
    overall = results[None][0]
    duels = {name: each for name, (_, each) in results.items()}
    win, lower, upper = (Lazy(tuple(duels), partial(_win_matrix, duels, side, overall.models)) for side in (0, -1, 1))
    boards = {name: board for name, (board, _) in results.items() if name is not None}
    return Leaderboards(overall, boards, win, lower, upper)


def _win_matrix(duels: dict[str | None, Duels], side: int, models: tuple[str, ...], context: str | None) -> Floats:
    return duels[context].matrix(side, models)
