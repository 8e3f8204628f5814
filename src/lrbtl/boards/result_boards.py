"""Boards of results: an index over benchmarks, and one board each with measured and forecast scores marked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lrbtl.boards.board import Leaderboard, Leaderboards
from lrbtl.boards.ranking import joint_above, rank_models
from lrbtl.data.labels import shown_context, some_of
from lrbtl.data.observations import Results
from lrbtl.entries.method import FactorRun
from lrbtl.entries.posterior import central
from lrbtl.errors import MethodError, ScaleError
from lrbtl.inference.analysis import Analysis
from lrbtl.inference.targets import Weights, context_weights
from lrbtl.typing import Bools, Floats, Seed

MOST_WEIGHTS = 1000  # contexts whose weights a board remembers


def result_boards(
    analysis: Analysis, *, context: Any, weights: Weights, level: float, rng: Seed
) -> Leaderboard | Leaderboards:
    """Return the board of results, overall or of a context, or all of them; see `leaderboard`."""
    results = analysis.battles
    if not (isinstance(analysis.run, FactorRun) and isinstance(results, Results)):
        raise MethodError(f"boards of results are made by the factor model, not by method={analysis.method!r}.")
    given = None if isinstance(weights, str) and weights == "traffic" else weights
    every = isinstance(context, str) and context == "all"
    row, notes = index_weights(results, given, None if every else context)
    overall = _board(analysis, row, None if every else results.board_label(context), level, rng, notes)
    if not every:
        return overall
    units = np.eye(results.n_contexts)
    boards = {
        label: _board(analysis, units[int(at[0])], label, level, rng, ())
        for label, at in results.board_contexts().items()
        if results.measured[:, at].any()
    }
    return Leaderboards(overall, boards, analysis=analysis)


def index_weights(results: Results, weights: Weights, context: Any) -> tuple[Floats, tuple[str, ...]]:
    """Return the weights (D,) of contexts in an index, all on bounded or all on real scales, and notes on others."""
    bounded = np.array([scale.bounded for scale in results.scales])
    row = context_weights(results, weights, context)
    used = row > 0
    if used.sum() == 1 or bounded[used].all() or not bounded[used].any():
        return row, ()
    lost = [shown_context(results.context_label(int(u))) for u in np.flatnonzero(used & ~bounded)]
    if not (weights is None or isinstance(weights, str)):
        raise ScaleError(
            f"weights mix shares with scores on other scales ({some_of(lost)}): give these bounds with scales=, or no "
            "weight."
        )
    kept = np.where(bounded, row, 0.0)
    return kept / kept.sum(), (f"not in the index, as their scales have no bounds: {some_of(lost, 6)}",)


def _board(analysis: Analysis, row: Floats, label: Any, level: float, rng: Seed, more: tuple[str, ...]) -> Leaderboard:
    """Return one board: draws of the index, or of the scores of a single benchmark on its own scale."""
    results, run = analysis.battles, analysis.run
    assert isinstance(results, Results) and isinstance(run, FactorRun)
    used = np.flatnonzero(row)
    single = used.size == 1
    draws, sign = index_draws(run, results, row, single=single)
    score, (lower, upper) = draws.mean(axis=0), central(draws, level)
    cov = np.cov(sign * draws, rowvar=False).reshape(score.size, score.size)
    above = joint_above(sign * score, cov, level=level, rng=rng)
    good = (lower, upper) if sign > 0 else (-upper, -lower)
    ranks = rank_models(sign * score, above, *good)
    order = np.argsort(-sign * score, kind="stable")
    measured = results.measured[:, used]
    info = analysis.provenance
    unit = "per cent" if results.scales[int(used[0])].bounded else "their unit"
    notes = (*more, *info.notes, *(() if sign > 0 else ("lower is better",)))
    return Leaderboard(
        context=label,
        models=tuple(results.models[k] for k in order),
        score=score[order],
        lower=lower[order],
        upper=upper[order],
        se=np.sqrt(np.diag(cov))[order],
        **ranks.each(lambda places: places[order]),
        battles=measured.sum(axis=1)[order].astype(np.int64),
        win_rate=np.full(score.size, np.nan),
        status=("ranked",) * score.size,
        notes=tuple(_notes(measured[order], single=single)),
        level=level,
        scale="score",
        method=info.method,
        info=replace(info, level=level, notes=notes),
        weighting="" if single else f"mean over {used.size} benchmarks, in {unit}",
        weights={shown_context(results.context_label(int(u))): float(row[u]) for u in used[:MOST_WEIGHTS]},
    )


def index_draws(run: FactorRun, results: Results, row: Floats, *, single: bool) -> tuple[Floats, float]:
    """Return draws (S, d1) of a benchmark's scores, or of the mean share of what can be reached; 1 or -1 for better."""
    used = np.flatnonzero(row)
    if single:
        scale = results.scales[int(used[0])]
        return run.posterior.latent(int(used[0])), 1.0 if scale.higher_is_better else -1.0
    total = np.zeros((run.posterior.n_draws, results.shape[0]))
    for u in used:
        scale, draws = results.scales[int(u)], run.posterior.latent(int(u))
        if scale.bounded:
            draws = 100.0 * (draws - scale.low) / (scale.high - scale.low)
            draws = draws if scale.higher_is_better else 100.0 - draws
        elif not scale.higher_is_better:
            draws = -draws
        total += row[u] * draws
    return total, 1.0


def _notes(measured: Bools, *, single: bool) -> list[str]:
    """Return what each model's score rests on."""
    if single:
        return ["measured" if seen else "forecast" for seen in measured[:, 0]]
    return [f"measured on {count} of {measured.shape[1]}" for count in measured.sum(axis=1)]
