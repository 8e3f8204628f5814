"""Leaderboards of the shape that pictures and reports read, made without any estimation."""

from types import SimpleNamespace

import numpy as np

CONTEXTS = ("coding", "maths", "creative writing", "translation", "long context", "vision", "tools & agents", "safety")
SCRIPT = "<script>alert(1)</script>"
LONG = "an-extremely-long-model-name-that-somebody-thought-was-a-good-idea-instruct-2026-05-31-preview-v2"
UNBEATEN = "unbeaten-1"
NEWCOMER = "newcomer-0.1"


def model_names(n):
    special = [UNBEATEN, NEWCOMER, SCRIPT, LONG, "costs-$5-or-$6_each"]
    return tuple(special + [f"family{i % 7}-{8 * (1 + i % 5)}b-v{i}" for i in range(n - len(special))])


def make_board(context, models, score, se, battles, level=0.95):
    score, se, battles = np.round(score, 1), np.asarray(se), np.asarray(battles)
    order = np.argsort(-score, kind="stable")
    models = tuple(models[i] for i in order)
    score, se, battles = score[order], se[order], battles[order]
    lower, upper = score - 1.96 * se, score + 1.96 * se
    notes = [""] * len(models)
    best_known = models.index(UNBEATEN)
    upper[best_known] = np.inf
    notes[best_known] = "won all its battles: only a lower bound is known"
    notes[models.index(NEWCOMER)] = "newcomer: few battles"
    joint_lower, joint_upper = score - 3.2 * se, score + 3.2 * se
    joint_upper[best_known] = np.inf
    tier = np.ones(len(models), dtype=np.int64)
    for i in range(1, len(models)):
        first = np.flatnonzero(tier == tier[i - 1])[0]
        tier[i] = tier[i - 1] + (upper[i] < lower[first])
    return SimpleNamespace(
        context=context,
        models=models,
        score=score,
        lower=lower,
        upper=upper,
        se=se,
        rank=1 + (score[:, None] < score).sum(1),
        best=1 + (upper[:, None] < lower).sum(1),
        worst=len(models) - (lower[:, None] > upper).sum(1),
        rank_lower=1 + (joint_upper[:, None] < joint_lower).sum(1),
        rank_upper=len(models) - (joint_lower[:, None] > joint_upper).sum(1),
        tier=tier,
        battles=battles,
        win_rate=1 / (1 + np.exp(-(score - 1000) / 173.7)),
        notes=tuple(notes),
        level=level,
        scale="elo",
        method="efficient",
        gain=1.8,
    )


class Boards(dict):
    """Context label -> board, plus the overall board and win matrices."""


def make_boards(n_models=40, contexts=CONTEXTS, seed=3):
    rng = np.random.default_rng(seed)
    models = model_names(n_models)
    base = np.sort(rng.normal(1000, 110, n_models))[::-1].copy()
    base[1:] = rng.permutation(base[1:])
    base[5] = base[6]  # a tie
    battles = rng.integers(400, 9000, n_models) * 10
    battles[1] = 60
    se = 450 / np.sqrt(battles)
    overall = make_board(None, models, base, se, battles)
    boards = Boards()
    boards.overall, boards.models = overall, models
    boards.win, boards.win_lower, boards.win_upper = {}, {}, {}
    scores = {None: (base, se)}
    for u, context in enumerate(contexts):
        share = 0.3 / (1 + u)
        score = base + np.outer(rng.normal(0, 40, n_models), [1.0])[:, 0] * rng.choice([0.3, 1.0])
        count = np.maximum((battles * share).astype(np.int64), 4)
        boards[context] = make_board(context, models, score, 250 / np.sqrt(count), count)
        scores[context] = (score, 250 / np.sqrt(count))
    for context, (score, error) in scores.items():
        gap = score[:, None] - score
        width = 1.96 * np.hypot(error[:, None], error)
        boards.win[context], boards.win_lower[context], boards.win_upper[context] = (
            1 / (1 + 10 ** (-(gap + shift) / 400)) for shift in (0.0, -width, width)
        )
    return boards
