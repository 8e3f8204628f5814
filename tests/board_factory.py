"""Leaderboards as pictures and reports read them, made without any estimation."""

import numpy as np

from lrbtl.boards.board import STATUSES, Leaderboard, Leaderboards
from lrbtl.methods.base import Provenance

CONTEXTS = ("coding", "maths", "creative writing", "translation", "long context", "vision", "tools & agents", "safety")
SCRIPT = "<script>alert(1)</script>"
LONG = "an-extremely-long-model-name-that-somebody-thought-was-a-good-idea-instruct-2026-05-31-preview-v2"
UNBEATEN = "unbeaten-1"
NEWCOMER = "newcomer-0.1"


def model_names(n):
    special = [UNBEATEN, NEWCOMER, SCRIPT, LONG, "costs-$5-or-$6_each"]
    return tuple(special + [f"family{i % 7}-{8 * (1 + i % 5)}b-v{i}" for i in range(n - len(special))])


def make_board(context, models, score, se, battles, level=0.95):
    """A board on which the newcomer is preliminary and the unbeaten model unplaced."""
    status = np.array([{NEWCOMER: "preliminary", UNBEATEN: "unplaced"}.get(model, "ranked") for model in models])
    score, se = np.where(status == "unplaced", np.nan, np.round(score, 1)), np.where(status == "unplaced", np.nan, se)
    order = np.lexsort((-score, [STATUSES.index(one) for one in status]))
    models, status, battles = tuple(models[i] for i in order), status[order], np.asarray(battles)[order]
    score, se = score[order], se[order]
    lower, upper = score - 1.96 * se, score + 1.96 * se
    n = int((status == "ranked").sum())
    low, high, middle, wide = lower[:n], upper[:n], score[:n], 3.2 * se[:n]
    tier = np.ones(n, dtype=np.int64)
    for i in range(1, n):
        first = np.flatnonzero(tier == tier[i - 1])[0]
        tier[i] = tier[i - 1] + (high[i] < low[first])

    def places(values):
        return np.append(values, np.zeros(len(models) - n)).astype(np.int64)

    notes = {NEWCOMER: "only 60 votes", UNBEATEN: "won all 12 votes here"}
    return Leaderboard(
        context=context,
        models=models,
        score=score,
        lower=lower,
        upper=upper,
        se=se,
        rank=places(1 + (middle[:, None] < middle).sum(1)),
        best=places(1 + (high[:, None] < low).sum(1)),
        worst=places(n - (low[:, None] > high).sum(1)),
        rank_lower=places(1 + ((middle + wide)[:, None] < middle - wide).sum(1)),
        rank_upper=places(n - ((middle - wide)[:, None] > middle + wide).sum(1)),
        tier=places(tier),
        battles=battles,
        win_rate=1 / (1 + np.exp(-(np.nan_to_num(score, nan=1400.0) - 1000) / 173.7)),
        status=tuple(status.tolist()),
        notes=tuple(notes.get(model, "") for model in models),
        level=level,
        scale="elo",
        method="efficient",
        info=Provenance(method="efficient", rank=(2, 2), n_folds=10, notes=("1 model is preliminary",)),
        weighting="categories weighted by votes" if context is None else "",
        over_separate=1.8,
    )


def make_boards(n_models=40, contexts=CONTEXTS, seed=3):
    """The overall board, those of some contexts, and win matrices."""
    rng = np.random.default_rng(seed)
    models = model_names(n_models)
    base = np.sort(rng.normal(1000, 110, n_models))[::-1].copy()
    base[1:] = rng.permutation(base[1:])
    base[5] = base[6]  # a tie
    battles = rng.integers(400, 9000, n_models) * 10
    battles[:2] = 12, 60
    scores = {None: (base, 450 / np.sqrt(battles), battles)}
    for u, context in enumerate(contexts):
        score = base + rng.normal(0, 40, n_models) * rng.choice([0.3, 1.0])
        count = np.maximum((battles * 0.3 / (1 + u)).astype(np.int64), 4)
        scores[context] = (score, 250 / np.sqrt(count), count)
    boards = {context: make_board(context, models, *columns) for context, columns in scores.items()}
    overall = boards.pop(None)
    rows = [models.index(model) for model in overall.models]
    wins = [{}, {}, {}]
    for context, (score, error, _) in scores.items():
        gap = np.where(np.arange(n_models) == 0, np.nan, score)[rows]  # the unbeaten model has no score
        width = 1.96 * np.hypot(error[rows, None], error[rows])
        for matrices, shift in zip(wins, (0.0, -width, width), strict=True):
            matrices[context] = 1 / (1 + 10 ** (-(gap[:, None] - gap + shift) / 400))
    return Leaderboards(overall, boards, *wins)
