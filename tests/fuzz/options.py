"""Right data, wrong options."""

import random
from pathlib import Path
from typing import Any

import numpy as np

import lrbtl

WRONG: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3.7, 1e9, -0.5, 10**30, float("nan"), float("inf"), "", "auto", "x", "all",
    "elo", (), (1,), (1, 2), (0, 0), [], [1], {}, {"a": 1}, {"maths": 1.0}, b"x", 1j, object(), np.array([1.0,
    2.0]), np.array([]), np.nan, lambda: 1, print, "équal", ("m0", 1000), ("m0", "x"), (None, None),
]  # fmt: skip
OPTIONS = {
    "analysis": [
        "method",
        "rank",
        "n_folds",
        "ridge",
        "link",
        "sampling",
        "se",
        "solver",
        "n_threads",
        "rng",
        "progress",
    ],
    "board": ["context", "weights", "min_battles", "level", "scale", "anchor", "compat"],
}


def log() -> lrbtl.Battles:
    """Return a small harmless log."""
    rng = np.random.default_rng(0)
    a, u = rng.integers(0, 4, 120), rng.integers(0, 2, 120)
    names = np.array(["m0", "m1", "m2", "m3"])
    return lrbtl.Battles.from_arrays(
        names[a],
        names[(a + rng.integers(1, 4, 120)) % 4],
        rng.integers(0, 3, 120) / 2,
        [np.array(["code", "maths"])[u]],
    )


def some(rng: random.Random, names: list[str]) -> dict[str, Any]:
    """Return one or two options with wrong values."""
    return {name: rng.choice(WRONG) for name in rng.sample(names, rng.choice([1, 1, 2]))}


def run_case(rng: random.Random, folder: Path) -> None:
    """Call something with options of any kind."""
    rng.choice(CALLS)(rng, folder)


def call_infer(rng: random.Random, folder: Path) -> None:
    """Infer with wrong options."""
    options = some(rng, OPTIONS["analysis"])
    str(lrbtl.infer(log(), [lrbtl.gap("m0", "m1")], **{"method": "mle", **options}))


def call_board(rng: random.Random, folder: Path) -> None:
    """Make a board with wrong options."""
    str(lrbtl.leaderboard(log(), **some(rng, OPTIONS["board"] + OPTIONS["analysis"])))


def call_fit(rng: random.Random, folder: Path) -> None:
    """Fit with wrong options."""
    str(lrbtl.fit(log(), **{"rank": 1, **some(rng, ["rank", "ridge", "n_threads", "rng", "link"])}))


def call_target(rng: random.Random, folder: Path) -> None:
    """Ask for wrong targets."""
    wrong = [rng.choice(WRONG) for _ in range(3)]
    make: Any = rng.choice(
        [
            lambda: lrbtl.score(wrong[0], wrong[1]),
            lambda: lrbtl.gap(wrong[0], wrong[1], wrong[2]),
            lambda: lrbtl.win_probability("m0", wrong[0], wrong[1]),
            lambda: lrbtl.win_rate("m0", pool=wrong[0], context=wrong[1]),
            lambda: lrbtl.weighted_score("m0", wrong[0]),
            lambda: lrbtl.linear(wrong[0]),
            lambda: wrong[0],
        ]
    )
    targets = make()
    str(lrbtl.infer(log(), targets if rng.random() < 0.3 else [targets], method="mle", rank=1))


def call_estimate(rng: random.Random, folder: Path) -> None:
    """Ask an estimate wrong things."""
    est = lrbtl.infer(log(), [lrbtl.gap("m0", "m1"), lrbtl.gap("m0", "m2")], method="mle", rank=1)
    value = rng.choice(WRONG)
    call: Any = rng.choice(
        [
            lambda: est.conf_int(level=value),
            lambda: est.conf_int(joint=value),
            lambda: est.test(null=value),
            lambda: est.contrast(value),
            lambda: est[value],
            lambda: est.to_frame(backend=value),
            lambda: est + est if value else est - est,
        ]
    )
    str(call())


def call_battles(rng: random.Random, folder: Path) -> None:
    """Ask battles wrong things."""
    battles, value = log(), rng.choice(WRONG)
    call: Any = rng.choice(
        [
            lambda: battles.select(models=value),
            lambda: battles.select(contexts=value),
            lambda: battles.top_models(value),
            lambda: battles.with_counts(value),
            lambda: battles.split(value),
            lambda: battles.split(2, rng=value),
            lambda: battles.model_index(value),
            lambda: battles.context_indices(value),
        ]
    )
    str(call())


def call_simulate(rng: random.Random, folder: Path) -> None:
    """Simulate with wrong options."""
    shape, n = (
        rng.choice([(4, 2), *[w for w in WRONG if not isinstance(w, int | float) or abs(w) < 50]]),
        rng.choice([10, -1, 1.5, "x", None]),
    )
    truth = lrbtl.simulate_scores(
        shape, rng.choice([1, 0, -1, "x", (1, 1), None]), scale=rng.choice([1, 0, -1, "x", float("nan")]), rng=0
    )
    str(lrbtl.simulate_battles(truth, n, rng=rng.choice([0, -1, None, "x"])))


def call_pairs(rng: random.Random, folder: Path) -> None:
    """Compare with wrong options, select ranks, write reports to wrong places."""
    battles, value = log(), rng.choice(WRONG)
    call: Any = rng.choice(
        [
            lambda: lrbtl.compare(battles, "m0", value),
            lambda: lrbtl.compare(battles, "m0", "m1", level=value),
            lambda: lrbtl.win_matrix(battles, context=value),
            lambda: lrbtl.win_matrix(battles, level=value, joint=True),
            lambda: lrbtl.select_rank(battles, value, n_folds=2),
            lambda: lrbtl.diagnose(battles, value),
            lambda: lrbtl.diagnose(value),
            lambda: lrbtl.leaderboard(value),
            lambda: lrbtl.infer(value, [lrbtl.score("m0")]),
            lambda: lrbtl.fit(value, 1),
            lambda: lrbtl.write_report(folder / "r.html", value),
            lambda: lrbtl.efficiency_bound(np.zeros((3, 2)), lrbtl.score(0, 0), rank=value),
        ]
    )
    str(call())


CALLS = [
    call_infer,
    call_board,
    call_board,
    call_fit,
    call_target,
    call_estimate,
    call_battles,
    call_simulate,
    call_pairs,
]
