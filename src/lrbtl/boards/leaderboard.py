"""`leaderboard`: battles in, boards out, with honest uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, TypeVar, Unpack, overload

import numpy as np
from scipy.special import ndtr

from lrbtl.boards.board import BASE_RATING, STATUSES, Basis, BoardScale, Lazy, Leaderboard, Leaderboards, count_of
from lrbtl.boards.comparison import is_gap, win_table
from lrbtl.boards.compat import COMPAT, Compat, compat_boards
from lrbtl.boards.components import Component, analyse_components, battle_counts, no_board, prepared_data, vote_notes
from lrbtl.boards.ranking import Ranks, Rivals, Texts, find_statuses, joint_above, level_ties, rank_models
from lrbtl.boards.result_boards import result_boards
from lrbtl.data.battles import Battles
from lrbtl.data.frames import Frame
from lrbtl.data.labels import shown_context, some_of
from lrbtl.data.observations import Results
from lrbtl.errors import (
    BoundError,
    MethodError,
    NoDecisionError,
    ScaleError,
    check_choice,
    check_whole,
    is_within,
    spelled,
)
from lrbtl.inference.analysis import LOOKS, analyse
from lrbtl.inference.estimate import ELO, Estimate
from lrbtl.inference.joint import normal_quantile
from lrbtl.inference.targets import Weights, all_gaps
from lrbtl.inference.verdicts import judge, read_size
from lrbtl.methods.base import Options, RunOptions, named_options
from lrbtl.methods.targets import resolved_score, resolved_win_rate
from lrbtl.model.links import LOGISTIC
from lrbtl.threads import one_blas_thread, ordered_map
from lrbtl.typing import Bools, Floats, Longs, Seed

Board = TypeVar("Board")

SCALES = ("elo", "logit", "probability")
AT_ONCE = 1 << 25  # numbers that covariances of boards may fill at a time
MOST_POINTS = 1e12  # of an anchor, beyond which gaps between ratings are rounded away
MOST_WEIGHTS = 1000  # contexts whose weights a board remembers
FLOOR = {1: "above the floor", -1: "below the floor", 0: ""}
FEW_HERE = 10  # in the contexts of a board, below which a model has a note


class BoardOptions(RunOptions, total=False):
    """The options of boards beside `context`, for the types of what `leaderboard` returns."""

    weights: Weights
    min_battles: int
    level: float
    scale: BoardScale
    anchor: tuple[Any, float] | None
    margin: float | None
    compat: Compat | None


@overload
def leaderboard(
    battles: Battles | Results | Frame, *, context: Literal["all"], **options: Unpack[BoardOptions]
) -> Leaderboards: ...
@overload
def leaderboard(
    battles: Battles | Results | Frame, *, context: Any = None, **options: Unpack[BoardOptions]
) -> Leaderboard: ...
@named_options
@one_blas_thread
def leaderboard(
    battles: Battles | Results | Frame,
    *,
    context: Any = None,
    weights: Weights = "traffic",
    min_battles: int = 30,
    level: float = 0.95,
    scale: BoardScale = "elo",
    anchor: tuple[Any, float] | None = None,
    margin: float | None = None,
    compat: Compat | None = None,
    **options: Unpack[RunOptions],
) -> Leaderboard | Leaderboards:
    """Return the leaderboard of some battles: scores, intervals, ranks with their uncertainty, tiers.

    Battles without contexts give the plain Bradley-Terry board. With contexts, the scores of all contexts are
    estimated together, and the overall score is their weighted mean.

    Ranks are among the models with enough votes, and so is the mean of the scores. The others follow below them, with a
    status that names why they have no rank. Models that no chain of battles links with the rest come as boards of
    their own in `islands`.

    Parameters
    ----------
    battles : Battles, Results or data frame
        Of a frame (pandas, polars, pyarrow, dict of columns) the columns are guessed from common names, which a note of
        the board lists them; see `Battles.from_frame`. The overall board of results is a mean over benchmarks as if
        each model were measured on all of them: in per cent of what can be reached where scales have bounds.
    context : label, "all" or None
        None: the overall board. A label: the board of that context. "all": the overall board, every context's and all
        win probabilities, from one analysis. For several modes give a tuple of labels, a text such as "math / crowd",
        or a mapping such as {"category": "math"}; None or "*" in place of a label, or a mode that the mapping leaves
        out, averages over that mode with `weights`. The mapping also names a context that is called "all".
    weights : "traffic", "equal", mapping or array
        Weights of the contexts in the overall score: by number of votes, all the same, or given; scaled to sum to 1.
    min_battles : int
        Models with fewer votes in all are preliminary: listed below the ranked ones, without a rank. The limit is
        waived where fewer than two models would have a rank.
    level : float
        Confidence level.
    scale : "elo", "logit" or "probability"
        Elo points (400 for odds of ten to one, mean 1000), log odds (mean 0), or win rate against the ranked models.
    anchor : (model, rating), optional
        Shifts an Elo board so that this model has this rating; the widths of intervals stay.
    margin : float, optional
        What does not matter: verdicts against the first model call a gap within it equivalent, and are printed. Elo
        points, or a win probability if it is below 0.5.
    compat : "arena-rank", "fastchat" or "fschat", optional
        Reproduces the arithmetic of these packages instead (docs/migration.md says of which functions, and to how many
        digits): contexts are pooled, intervals are theirs (FastChat: none). Weights that they do not have are an error.
    **options
        method, rank, n_folds, ridge, link, n_threads, rng, progress, ...: see `analyse`. With valid="always" intervals,
        verdicts and ranks hold at all times, with looks=58 at 58 planned looks. Scores of other links than the
        logistic are scaled to the log odds of a nearly even battle.

    Returns
    -------
    Leaderboard, or Leaderboards for context="all"

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((8, 4), 2, scale=2, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 20_000, rng=1)
    >>> board = lrbtl.leaderboard(battles, rank=2)
    >>> board.models[0] == f"model_{truth.mean(axis=1).argmax()}", float(board.score.mean().round(6))
    (True, 1000.0)
    >>> lrbtl.leaderboard(battles, rank=2, context=3).context
    3
    >>> judged = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3, 2), 1, scale=2, rng=0), 9000, rng=1)
    >>> lrbtl.leaderboard(judged, rank=1, context=(2, None)).context
    (2, None)
    """
    check_choice(scale, SCALES, "scale", ScaleError)
    normal_quantile(level)
    check_whole(min_battles, "min_battles")
    data, options, made = prepared_data(battles, options)
    if isinstance(data, Results):
        if compat is not None or anchor is not None or margin is not None or scale != "elo":
            raise MethodError("compat, anchor, margin and scale are for votes: boards of results are in their units.")
        analysis = analyse(data, **options) if made is None else made
        return result_boards(analysis, context=context, weights=weights, level=level, rng=options.get("rng", 0))
    battles = data
    every = isinstance(context, str) and context == "all"
    at = None if context is None or every else battles.context_indices(context)
    fixed = _read_anchor(battles, anchor, scale)
    if margin is not None:
        read_size(margin)
    Options(**options).check(battles.shape)
    if compat is not None:
        check_choice(compat, COMPAT, "compat")
        for name in ("method", "link", "features", *LOOKS):
            if (value := dict(options).get(name)) not in (None, "once"):
                raise MethodError(f"compat={compat!r} is a method of its own: leave {name}={value!r} out.")
        return compat_boards(battles, at, context, compat, every=every, level=level, scale=scale, anchor=fixed)
    components = analyse_components(battles, weights, made=made, **options)
    rng, n_threads = options.get("rng", 0), options.get("n_threads", 1)
    view = View(level, scale, min_battles, fixed, margin, rng, n_threads, _silent(battles), battles.digest)
    if every and not battles.levels:
        view = replace(view, notes=(*view.notes, "these votes have no categories: there is only the overall board"))
    if every:
        parts, others = _of_each(components, lambda part: _all_boards(part, view))
        overall = _noted(parts[0].overall, others)
        return replace(parts[0], overall=overall, islands=tuple(parts[1:]))
    label = battles.board_label(context)
    wanted = {part: weights_here for part in components if (weights_here := part.weights_at(at)) is not None}
    if not wanted:
        raise NoDecisionError(f"there are no votes in context {shown_context(label)!r}.")
    boards, others = _of_each(wanted, lambda part: _boards(part, view, [label], wanted[part][None, :])[0])
    return replace(_noted(boards[0], others), islands=tuple(boards[1:]))


def _of_each(components: Iterable[Component], make: Callable[[Component], Board]) -> tuple[list[Board], list[str]]:
    """Return the boards of the components on which somebody can be ranked, and what became of the others."""
    found: list[Board] = []
    lost: dict[str, NoDecisionError] = {}
    for part in components:
        try:
            found.append(make(part))
        except NoDecisionError as error:
            lost[no_board(part.members.size, error)] = error
    if not found:
        raise next(iter(lost.values()))
    return found, list(lost)


def _noted(board: Leaderboard, notes: Sequence[str]) -> Leaderboard:
    """Return the board with more notes."""
    return replace(board, info=replace(board.info, notes=(*board.info.notes, *notes)))


@dataclass(frozen=True)
class View:
    """How boards are presented: the options of `leaderboard`, and notes on all of them.

    The anchor is a model's position among those of all battles, and its rating.
    """

    level: float
    scale: BoardScale
    min_battles: int
    anchor: tuple[int, float] | None
    margin: float | None
    rng: Seed
    n_threads: int | None
    notes: tuple[str, ...]
    digest: str


@dataclass(frozen=True)
class Standing:
    """The models of one board: which contexts count, who has a rank, and who voted."""

    context: Any
    weights: Floats  # (D,)
    placed: Bools  # (d1,) which models have a score
    status: Texts  # (d1,)
    waived: bool  # whether `min_battles` was waived
    votes: Longs  # (d1,) in the board's contexts
    win_rate: Floats  # (d1,)

    @property
    def ranked(self) -> Bools:
        """Which models have a rank."""
        return np.asarray(self.status == "ranked")


def _read_anchor(battles: Battles, anchor: Any, scale: str) -> tuple[int, float] | None:
    if anchor is None:
        return None
    is_pair = isinstance(anchor, tuple | list) and len(anchor) == 2
    if not (is_pair and is_within(anchor[1], -MOST_POINTS, MOST_POINTS)):
        raise MethodError(f"anchor={spelled(anchor)} is not valid: give (model, rating), such as ('model_01', 1000).")
    if scale != "elo":
        raise ScaleError(f"an anchor fixes a rating in Elo points, but scale is {scale!r}; leave one of them out.")
    return battles.model_index(anchor[0]), float(anchor[1])


def _silent(battles: Battles) -> tuple[str, ...]:
    names = [battles.models[k] for k in np.flatnonzero(battles.model_counts == 0)]
    have = "model has no votes and is" if len(names) == 1 else "models have no votes and are"
    return (f"{len(names)} {have} not listed: {some_of(names, 5)}",) if names else ()


def _all_boards(part: Component, view: View) -> Leaderboards:
    """Return the overall board of a component and those of its contexts."""
    found = part.boards()
    labels, weights = list(found), np.array(list(found.values()))
    overall, *others = _boards(part, view, labels, weights)
    boards = {board.context: board for board in others}
    missing = [shown_context(label) for label in labels[1:] if label not in boards]
    if missing:
        overall = _noted(overall, [f"fewer than two models can be ranked in {', '.join(missing)}: no board"])
    place = {model: k for k, model in enumerate(part.battles.models)}
    rows = np.array([place[model] for model in overall.models])
    kept = {label: row for label, row in zip(labels, weights, strict=True) if label is None or label in boards}
    duels = Duels(part, kept, rows, view.level)
    win, lower, upper = (Lazy(tuple(kept), partial(duels.matrix, side)) for side in range(3))
    return Leaderboards(overall, boards, win, lower, upper, fit=part.analysis.run.fit, analysis=part.analysis)


@dataclass(frozen=True)
class Duels:
    """Win probabilities of a component's models on its boards, computed when first read."""

    part: Component
    weights: dict[Any, Floats]
    rows: Longs
    level: float
    known: dict[Any, tuple[Floats, Floats, Floats]] = field(default_factory=dict)

    def matrix(self, side: int, context: Any) -> Floats:
        """Return win probabilities (side 0), or their lower (1) or upper (2) limits."""
        if context not in self.known:
            analysis, weights = self.part.analysis, self.weights[context]
            use_gaps = is_gap(analysis, weights) and bool(analysis.placed(weights).all())
            gaps = self.all_gaps if use_gaps else None
            self.known[context] = win_table(analysis, weights, self.rows, self.level, gaps=gaps)
        return self.known[context][side]

    @cached_property
    def all_gaps(self) -> Estimate:
        """Gaps of all pairs in all contexts: much cheaper together."""
        return self.part.analysis.estimate(all_gaps())


# ------------------------------------------------------------------------------
# Boards from estimates.
# ------------------------------------------------------------------------------


def _boards(part: Component, view: View, labels: Sequence[Any], weights: Floats) -> list[Leaderboard]:
    """Return the boards with these weights (B, D) of contexts; all but the first only where two models have a rank."""
    found = [_standing(part, view, label, row) for label, row in zip(labels, weights, strict=True)]
    standings = [standing for k, standing in enumerate(found) if k == 0 or standing.ranked.sum() > 1]
    if standings[0].ranked.sum() < 2:
        raise NoDecisionError(_why_nobody(part, standings[0]))
    shared = not (view.rng is None or isinstance(view.rng, int | np.integer))  # a generator is used in order
    boards: list[Leaderboard] = []
    step = max(1, AT_ONCE // part.battles.shape[0] ** 2)
    for some in (standings[k : k + step] for k in range(0, len(standings), step)):
        pairs = list(zip(some, _estimates(part, view, some), strict=True))
        boards += ordered_map(lambda pair: _board(part, view, *pair), pairs, 1 if shared else view.n_threads)
    return boards


def _estimates(part: Component, view: View, standings: Sequence[Standing]) -> list[Estimate]:
    """Return the scores of some boards with their covariances."""
    if view.scale == "probability":
        return [_win_rates(part, standing) for standing in standings]
    among = None if part.analysis.run.absolute else np.array([standing.ranked for standing in standings])
    return part.analysis.estimate_boards(np.array([standing.weights for standing in standings]), among)


def _standing(part: Component, view: View, label: Any, weights: Floats) -> Standing:
    votes, won = battle_counts(part.battles, weights)
    placed = part.analysis.placed(weights)
    status, waived = find_statuses(part.battles.model_counts, votes, placed, view.min_battles)
    return Standing(label, weights, placed, status, waived, votes, won)


def _why_nobody(part: Component, standing: Standing) -> str:
    where = "" if standing.context is None else f" in context {shown_context(standing.context)!r}"
    reasons = [
        f"{part.battles.models[k]} {part.analysis.why_not(int(k), standing.weights)}"
        for k in np.flatnonzero(standing.status == "unplaced")[:3]
    ]
    if not reasons:
        return f"no two models can be ranked{where}."
    instead = "method='hierarchical' gives every model with votes a score."
    return f"no two models can be ranked{where}: {'; '.join(reasons)}. {instead}"


def _win_rates(part: Component, standing: Standing) -> Estimate:
    """Return the win rate against the ranked models of each model that has a score."""
    ranked = np.flatnonzero(standing.ranked)
    return part.analysis.estimate_resolved(
        [resolved_win_rate(int(k), ranked[ranked != k], standing.weights) for k in np.flatnonzero(standing.placed)]
    )


def _board(part: Component, view: View, standing: Standing, found: Estimate) -> Leaderboard:
    """Return one board of an estimate of the scores of all models, or of all that have one."""
    info, d1 = part.analysis.provenance, len(standing.status)
    at = np.arange(d1) if len(found) == d1 else np.flatnonzero(standing.placed)
    unit = {"elo": ELO, "logit": 1.0, "probability": 1.0}[view.scale]
    unit *= 1.0 if view.scale == "probability" else part.analysis.log_odds_unit
    score = unit * _spread(level_ties(found.estimate, found.se), at, d1)
    anchor_note, shift = _shift(part, view, score)
    lower, upper = (shift + unit * _spread(side, at, d1) for side in found.conf_int(view.level).T)
    words = _notes(part, standing)
    above = None
    if part.analysis.run.absolute and view.scale != "probability":
        above = ndtr(_spread(found.estimate / found.se, at, d1))
        sides = (lower > shift).astype(int) - (upper < shift)
        words = [", ".join(filter(None, (FLOOR[side], word))) for side, word in zip(sides.tolist(), words, strict=True)]
    ranks = _ranks(view, standing, found[np.searchsorted(at, np.flatnonzero(standing.ranked))])
    verdict, rivals = _verdicts(part, view, standing, found)
    group = np.array([STATUSES.index(status) for status in standing.status])
    order = np.lexsort((np.arange(d1), np.where(np.isnan(score), np.inf, -score), group))
    notes = (*view.notes, *part.lost, *info.notes, *_board_notes(part, view, standing), *anchor_note)
    return Leaderboard(
        context=standing.context,
        models=tuple(part.battles.models[k] for k in order),
        score=shift + score[order],
        lower=lower[order],
        upper=upper[order],
        se=unit * _spread(found.se, at, d1)[order],
        **ranks.each(lambda places: places[order]),
        battles=standing.votes[order],
        win_rate=standing.win_rate[order],
        status=tuple(standing.status[order].tolist()),
        notes=tuple(words[k] for k in order),
        level=view.level,
        scale=view.scale,
        method=info.method,
        info=replace(info, level=view.level, notes=notes),
        weighting=part.weighting if np.count_nonzero(standing.weights) > 1 else "",
        over_separate=partial(_gain, part, standing, found),
        effects=part.analysis.held_fixed,
        verdict=tuple(np.array(["", *verdict])[rivals.places[order]].tolist()),
        detectable_gap=partial(rivals.detectable, order),
        margin=None if view.margin is None else float(view.margin),
        weights=_named_weights(part.battles, standing.weights),
        digest=view.digest,
        basis=Basis(part.analysis, standing.weights, standing.ranked, _anchor_here(part, view)),
        floor=None if above is None else shift,
        above_floor=None if above is None else above[order],
    )


def _named_weights(battles: Battles, weights: Floats) -> dict[str, float] | None:
    used = np.flatnonzero(weights) if battles.levels else np.empty(0, dtype=np.int64)
    if used.size > MOST_WEIGHTS:
        return None
    return {shown_context(battles.context_label(int(u))): float(weights[u]) for u in used}


def _spread(values: Floats, at: Longs, size: int) -> Floats:
    """Return values of some models among all, NaN for the others."""
    out = np.full(size, np.nan)
    out[at] = values
    return out


def _ranks(view: View, standing: Standing, found: Estimate) -> Ranks:
    """Return the ranks of the ranked models from the estimate of theirs, and 0 for the others."""
    score, cov = found.working, found.working_cov  # gaps are tested where errors are normal
    above = joint_above(
        score, cov, variance_noise=found.variance_noise, level=view.level, rng=view.rng, valid=found.validity
    )
    ranks = rank_models(score, above, *found.conf_int(view.level).T)

    def spread(values: Longs) -> Longs:
        places = np.zeros(len(standing.status), dtype=np.int64)
        places[standing.ranked] = values
        return places

    return Ranks(**ranks.each(spread))


def _verdicts(part: Component, view: View, standing: Standing, found: Estimate) -> tuple[tuple[str, ...], Rivals]:
    """Return what ranked models come to against the first of them, and itself against the second.

    Verdicts are on scores, whatever the scale of the board.
    """
    if view.scale == "probability":
        found = part.analysis.estimate_boards(standing.weights[None], standing.ranked[None])[0]
    ranked = np.flatnonzero(standing.ranked)
    score, own = found.estimate[ranked], np.diag(found.cov)[ranked]
    first, second = np.argsort(-level_ties(score, np.sqrt(own)), kind="stable")[:2]
    rival = np.full(ranked.size, first)
    rival[first] = second
    variance = own + own[rival] - 2.0 * found.cov[ranked, ranked[rival]]
    unit = part.analysis.log_odds_unit
    gap, se = unit * (score - score[rival]), unit * np.sqrt(np.maximum(variance, 0.0))
    rivals = Rivals(part.analysis, standing.weights, ranked, ranked[rival], gap, se, view.level)
    limit = None if view.margin is None else read_size(view.margin)
    shrinkage_factor = 1.0 if limit is None else rivals.shrinkage.shrinkage_factor
    return judge(gap, se, shrinkage_factor, margin=limit, level=view.level, valid=found.validity), rivals


def _shift(part: Component, view: View, score: Floats) -> tuple[tuple[str, ...], float]:
    """Return what is added to scores, after a note where the anchor has no score."""
    if view.scale != "elo":
        return (), 0.0
    if view.anchor is None:
        return (), BASE_RATING
    at = part.position(view.anchor[0])
    if at is None or not np.isfinite(score[at]):
        return (f"the anchor has no score here: ratings have mean {BASE_RATING:.0f}",), BASE_RATING
    return (), view.anchor[1] - float(score[at])


def _anchor_here(part: Component, view: View) -> tuple[int, float] | None:
    """Return the position of the anchor among these models and its rating; None without one."""
    at = None if view.anchor is None else part.position(view.anchor[0])
    return None if at is None or view.anchor is None else (at, view.anchor[1])


def _gain(part: Component, standing: Standing, found: Estimate) -> float | None:
    """Return by how much separate fits have larger errors; None where the analysis does not know, or they have none."""
    if not (part.battles.levels and part.battles.met[np.ix_(standing.weights > 0, standing.ranked)].all()):
        return None
    try:
        gain = found.gain_over_naive
    except BoundError:
        return None
    gain = gain[standing.ranked if gain.size == standing.ranked.size else standing.ranked[standing.placed]]
    return float(np.median(gain)) if np.isfinite(gain).all() else None


def _notes(part: Component, standing: Standing) -> list[str]:
    """Return what to know of each model: nothing of most, whose scores rest on votes of their own."""
    usual = (standing.status != "unplaced") & (standing.votes >= FEW_HERE)
    usual &= (standing.win_rate > 0.0) & (standing.win_rate < 1.0)
    away = part.analysis.outlier
    return [
        "" if plain and not away(k, standing.weights) else _note(part, standing, k)
        for k, plain in enumerate(usual.tolist())
    ]


def _note(part: Component, standing: Standing, model: int) -> str:
    """Return what to know of a model: what its score rests on where that is not mostly its own votes."""
    status, votes = standing.status[model], int(standing.votes[model])
    if status == "unplaced":
        return part.analysis.why_not(model, standing.weights)
    if status == "absent" and not standing.placed[model]:
        return "no votes in this category"
    if votes >= FEW_HERE:
        away = part.analysis.outlier(model, standing.weights)
        if away:
            return f"outlier here: {ELO * away:+.0f}{_entry_words(part, standing, model, away)}"
        return part.analysis.why_not(model, standing.weights)
    here = " in this category" if standing.context is not None else ""
    own = f"{count_of(votes, 'vote')}{here}" if votes else f"no votes{here}"
    elsewhere = int(part.battles.model_counts[model]) - votes
    return f"{own}; {part.analysis.run.leans_on(elsewhere >= FEW_HERE)}".removesuffix("; ")


def _entry_words(part: Component, standing: Standing, model: int, away: float) -> str:
    """Return the interval by own votes of an outlier's deviation; nothing where it is not known."""
    if part.analysis.run.link != LOGISTIC or part.analysis.run.absolute:
        return ""
    found = part.analysis.estimate_resolved([resolved_score(model, standing.weights, standing.ranked)])
    picked = 0.95 ** (1.0 / max(1, part.battles.n_contexts * part.battles.shape[0]))  # from all entries
    lower, upper = ELO * (away + found.conf_int(picked, kind="entry")[0] - found.working[0])
    return f" ({lower:+.0f} to {upper:+.0f} by its own votes)"


def _board_notes(part: Component, view: View, standing: Standing) -> list[str]:
    """Return what to know of a board as a whole."""
    notes = []
    few = int((standing.status == "preliminary").sum())
    limit = f"fewer than {view.min_battles} votes{'' if standing.context is None else ' in all'}"
    if few:
        have = "1 model has" if few == 1 else f"{few} models have"
        notes.append(f"{have} {limit}: preliminary, unranked and excluded from the average")
    if standing.waived:
        notes.append(f"most models have {limit}, so that all are ranked")
    if unplaced := int((standing.status == "unplaced").sum()):
        are = (
            "1 model has no score by this method and is"
            if unplaced == 1
            else f"{unplaced} models have no score by this method and are"
        )
        notes.append(f"{are} listed last")
    return [*notes, *vote_notes(part, standing.weights)]
