"""The same question has the same answer whichever call asks it, for every method."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from scipy.special import expit

import lrbtl
from board_checks import ELO
from inference_cases import VOTE_METHODS
from lrbtl.data.battle_summary import linked_models
from lrbtl.errors import LrbtlError

OUTCOMES = {"plain": [1.0], "ties": [1.0, 1.0, 0.5], "soft": [1.0, 0.5, 0.8, 0.65]}


@st.composite
def logs(draw):
    """Random battles with ties, soft votes, up to three context modes, and one sparse model."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_models, shape = draw(st.integers(3, 6)), draw(st.lists(st.integers(1, 3), max_size=3))
    n = draw(st.sampled_from([150, 600]))
    share = np.ones(n_models)
    share[-1] = draw(st.sampled_from([1.0, 0.2, 0.03]))
    a = rng.choice(n_models, size=n, p=share / share.sum())
    b = (a + rng.integers(1, n_models, size=n)) % n_models
    contexts = [rng.choice(size, size=n) for size in shape]
    theta = rng.normal(size=(n_models, *shape)) + 2 * rng.normal(size=(n_models, *[1] * len(shape)))
    first = rng.random(n) < expit(0.5 * (theta[(a, *contexts)] - theta[(b, *contexts)]))
    win = rng.choice(OUTCOMES[draw(st.sampled_from(sorted(OUTCOMES)))], size=n)
    frame = {"model_a": [f"m{k}" for k in a], "model_b": [f"m{k}" for k in b], "winner": np.where(first, win, 1 - win)}
    names = [f"mode {k}" for k in range(len(shape))]
    frame |= {name: [f"{name[0]}{u}" for u in codes] for name, codes in zip(names, contexts, strict=True)}
    battles = lrbtl.Battles.from_frame(frame, contexts=names)
    assume(len(linked_models(battles)) == 1)
    return battles


def agree(mine, theirs, scale=1.0):
    np.testing.assert_allclose(mine, scale * np.asarray(theirs), rtol=1e-9, atol=1e-9 * scale)


def check_board(analysis, board):
    ranked = [model for model, status in zip(board.models, board.status, strict=True) if status == "ranked"]
    known = np.isfinite(board.score)
    models = [model for model, is_known in zip(board.models, known, strict=True) if is_known]
    targets = [lrbtl.score(model, board.context, weights="traffic", among=ranked) for model in models]
    est = analysis.estimate(targets)
    agree(board.score[known], est.estimate)
    agree(board.se[known], est.se)
    agree(np.c_[board.lower, board.upper][known], est.conf_int())
    for low, high in ((board.best, board.worst), (board.rank_lower, board.rank_upper)):
        assert ((low <= board.rank) & (board.rank <= high)).all()


def check_pair(analysis, boards, a, b, options):
    battles = analysis.battles
    result = lrbtl.compare(battles, a, b, **options)
    contexts = [None, *(battles.context_label(u) for u in np.flatnonzero(battles.context_counts) if battles.levels)]
    gaps = [lrbtl.gap(a, b, context, weights="traffic") for context in contexts]
    wins = [lrbtl.win_probability(a, b, context, weights="traffic") for context in contexts]
    est = analysis.estimate([*gaps, *wins])  # all in one: joint quantiles are drawn, and rounding changes the draws
    gap, win = est[: len(contexts)], est[len(contexts) :]
    agree(result.gap, gap.estimate, ELO)
    agree(result.win, win.estimate)
    for joint in (False, True):
        name = "joint_" if joint else ""
        for side, limit in enumerate(("lower", "upper")):
            agree(getattr(result, name + limit), gap.conf_int(joint=joint)[:, side], ELO)
            agree(getattr(result, f"win_{name}{limit}"), win.conf_int(joint=joint)[:, side])
    i, j = boards.models.index(a), boards.models.index(b)
    for context in (None, *list(boards)[:1]):
        matrix = lrbtl.win_matrix(battles, context, **options)
        here = matrix.models.index(a), matrix.models.index(b)
        k = contexts.index(context)
        for mine, theirs, value in (
            (matrix.win, boards.win, result.win),
            (matrix.lower, boards.win_lower, result.win_lower),
            (matrix.upper, boards.win_upper, result.win_upper),
        ):
            if np.isfinite(value[k]):
                agree(mine[here], value[k])
            agree(theirs[context][i, j], mine[here])


@pytest.mark.filterwarnings("ignore::lrbtl.errors.LrbtlWarning")
@pytest.mark.parametrize("method", VOTE_METHODS)
@settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(battles=logs())
def test_every_call_gives_the_same_answer(method, battles):
    options = {"method": method, "rank": 1, "n_folds": 3}
    try:
        boards = lrbtl.leaderboard(battles, context="all", scale="logit", **options)
    except LrbtlError as error:
        event(type(error).__name__)
        assume(False)
    analysis = lrbtl.analyse(battles, **options)
    for board in boards.every():
        check_board(analysis, board)
    ranked = [model for model, status in zip(boards.models, boards.overall.status, strict=True) if status == "ranked"]
    check_pair(analysis, boards, ranked[0], ranked[-1], options)
    check_pair(analysis, boards, boards.models[-1], ranked[0], options)
    targets = [lrbtl.gap(ranked[0], ranked[-1]), lrbtl.win_probability(ranked[-1], ranked[0])]
    np.testing.assert_array_equal(lrbtl.infer(battles, targets, **options).cov, analysis.estimate(targets).cov)
