"""Small odd logs through every method, target and board."""

import random
from pathlib import Path
from typing import Any

import numpy as np

import lrbtl
from lrbtl.inference import analysis
from lrbtl.inference.analysis import DEFAULT_METHOD
from lrbtl.model import links

ELO = 400 / np.log(10)  # points per logit
METHODS = [DEFAULT_METHOD, *(name for name, method in analysis.METHODS.items() if method.takes_votes)]
LINKS = [None, None, *(name for name in links.LINKS if name != "identity")]


def run_case(rng: random.Random, folder: Path) -> None:
    """Ask something of a small log."""
    battles = small_log(rng)
    options: dict[str, Any] = {"method": rng.choice(METHODS), "rng": 0}
    if rng.random() < 0.3:
        options["link"] = rng.choice(LINKS)
    if rng.random() < 0.3:
        options["rank"] = rng.choice([1, 2])
    if options["method"] in ("efficient", "whitened"):
        options["n_folds"] = rng.choice([2, 3])
    rng.choice([ask_targets, ask_board, ask_boards, ask_pairs, ask_diagnosis, ask_paper])(rng, battles, options)


def small_log(rng: random.Random) -> lrbtl.Battles:
    """Return few battles: unbeaten models, circles, ties only, groups that never meet, thin contexts, soft votes."""
    d1, n = rng.choice([2, 3, 3, 4, 6]), rng.choice([1, 2, 3, 6, 15, 40])
    shape = rng.choice([(), (2,), (3,), (2, 2), (5,)])
    outcomes = rng.choice([[1], [0, 1], [0, 0.5, 1], [0.5], [0.2, 0.7], [0, 1e-9, 1], [0.5, 0.5, 0.5, 1]])
    kind = rng.choice(["any", "circle", "chain", "groups", "star"])
    votes: list[tuple[int, int, float]] = []
    u: list[list[int]] = []
    for _ in range(n):
        i = rng.randrange(d1)
        j = (i + rng.randrange(1, d1)) % d1
        if kind == "circle":
            j = (i + 1) % d1
        elif kind == "chain":
            i = rng.randrange(d1 - 1)
            j = i + 1
        elif kind == "groups" and d1 >= 4:
            i, j = rng.choice([(0, 1), (2, 3)])
        elif kind == "star":
            i, j = 0, rng.randrange(1, d1)
        votes.append((i, j, 1 if kind == "circle" else rng.choice(outcomes)))
        u.append([rng.randrange(size) for size in shape])
    contexts = [[row[k] for row in u] for k in range(len(shape))]
    counts = [rng.choice([1, 1, 2, 100]) for _ in range(n)] if rng.random() < 0.3 else None
    sizes: dict[str, Any] = {"n_models": d1, "n_levels": shape or None} if rng.random() < 0.4 else {}
    a, b, y = (list(column) for column in zip(*votes, strict=True))
    return lrbtl.Battles.from_arrays(a, b, y, contexts, counts=counts, **sizes)


LARGEST = 50.0  # logits: a score further out is not one of the few votes of such a log


def check_intervals(value: np.ndarray, lower: np.ndarray, upper: np.ndarray, reason: str) -> None:
    """Raise where an interval has no width, or an end that is no number while the estimate is one."""
    known = np.isfinite(value)
    if np.any(np.isnan(lower[known]) | np.isnan(upper[known])):
        raise AssertionError(f"{reason}: an estimate with an interval that is no number")
    if np.any(known & np.isfinite(lower) & np.isfinite(upper) & ~(upper > lower)):
        raise AssertionError(f"{reason}: an interval without width")
    if np.any((lower[known] > LARGEST) | (upper[known] < -LARGEST)):
        raise AssertionError(f"{reason}: {np.abs(value[known]).max():.3g} logits for sure, out of a handful of votes")


def ask_targets(rng: random.Random, battles: lrbtl.Battles, options: dict[str, Any]) -> None:
    """Estimate some targets."""
    models = list(range(len(battles.models)))
    a, b = rng.sample(models, 2)
    context = (
        None if rng.random() < 0.5 or not battles.levels else battles.context_label(rng.randrange(battles.n_contexts))
    )
    targets: list[Any] = [
        lrbtl.score(battles.models[a], context),
        lrbtl.gap(battles.models[a], battles.models[b], context),
        lrbtl.win_probability(battles.models[a], battles.models[b], context),
        lrbtl.win_rate(battles.models[a], context=context),
    ]
    est = lrbtl.infer(battles, rng.sample(targets, rng.randint(1, 4)), **options)
    for joint in (False, True):
        interval = est.conf_int(joint=joint)
        check_intervals(est.estimate, interval[:, 0], interval[:, 1], "infer")
    str(est), est.to_dict(), est.summary()


def check_board(board: Any) -> None:
    """Check and print a board."""
    centre, unit = (1000.0, ELO) if board.scale == "elo" else (0.0, 1.0)
    score, lower, upper = ((each - centre) / unit for each in (board.score, board.lower, board.upper))
    check_intervals(score, lower, upper, "board")
    missing = ~np.isfinite(np.asarray(board.score, dtype=float))
    if np.any(missing & (np.asarray(board.notes) == "")):
        raise AssertionError("board: a model without a score and without a note")
    str(board), board.to_dict(), board._repr_html_()


def ask_board(rng: random.Random, battles: lrbtl.Battles, options: dict[str, Any]) -> None:
    """Make one board."""
    keywords: dict[str, Any] = {
        "scale": rng.choice(["elo", "logit", "probability"]),
        "min_battles": rng.choice([1, 30]),
    }
    if battles.levels and rng.random() < 0.4:
        keywords["context"] = battles.context_label(rng.randrange(battles.n_contexts))
    if rng.random() < 0.15:
        keywords["compat"] = rng.choice(["arena-rank", "fastchat"])
    board = lrbtl.leaderboard(battles, **keywords, **options)
    if any("no intervals" in note or "no width" in note for note in board.info.notes):  # of other packages
        str(board), board.to_dict()
    else:
        check_board(board)


def ask_boards(rng: random.Random, battles: lrbtl.Battles, options: dict[str, Any]) -> None:
    """Make all boards, and a report of them."""
    boards = lrbtl.leaderboard(battles, context="all", weights=rng.choice(["traffic", "equal"]), **options)
    for board in [boards.overall, *boards.values()]:
        check_board(board)
    if rng.random() < 0.3:
        assert "<html" in lrbtl.report_html(boards)


def ask_pairs(rng: random.Random, battles: lrbtl.Battles, options: dict[str, Any]) -> None:
    """Compare two models, or all."""
    if rng.random() < 0.5:
        a, b = rng.sample(range(len(battles.models)), 2)
        result: Any = lrbtl.compare(battles, battles.models[a], battles.models[b], **options)
    else:
        result = lrbtl.win_matrix(battles, **options)
    str(result), result.to_dict()


def ask_diagnosis(rng: random.Random, battles: lrbtl.Battles, options: dict[str, Any]) -> None:
    """Diagnose the log."""
    str(lrbtl.diagnose(battles))


def ask_paper(rng: random.Random, battles: lrbtl.Battles, options: dict[str, Any]) -> None:
    """Run the paper's algorithms, rank sets, or Bernstein intervals."""
    kind = rng.choice(["one_step", "rank_sets", "bernstein", "start"])
    target = lrbtl.gap(battles.models[0], battles.models[1])
    if kind == "one_step":
        found = lrbtl.one_step(battles, target, rank=1, whiten=rng.random() < 0.5, folds=rng.choice([2, 3]))
        check_finite(found.estimate, found.variance)
        str(found)
    elif kind == "rank_sets":
        sets = lrbtl.rank_sets(battles, draws=200, **options)
        ranked = sets.rank > 0
        assert np.all((sets.lower <= sets.rank) & (sets.rank <= sets.upper) | ~ranked)
        str(sets), sets.to_json(), str(sets.top(1)), sets.top(1).to_json()
    elif kind == "bernstein":
        est = lrbtl.infer(battles, target, **options)
        interval = est.conf_int(kind="bernstein")
        check_intervals(est.estimate, interval[:, 0], interval[:, 1], "bernstein")
    else:
        scores = lrbtl.alternating_minimisation(battles, 1)
        check_finite(scores, lrbtl.refine_entries(battles, scores, 1))


def check_finite(*arrays: np.ndarray) -> None:
    """Raise where a result that should be a number is none."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise AssertionError("a result that is no number")
