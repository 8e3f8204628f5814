"""Logs of any kind to battles: columns of any values in any container."""

import random
from pathlib import Path
from typing import Any

import lrbtl
from fuzz.values import NASTY_LABELS, NASTY_NUMBERS, WORDS, as_frame, dressed, pick_column, plain_labels


def run_case(rng: random.Random, folder: Path) -> None:
    """Build battles from a random log, and print them."""
    battles = rng.choice([from_arrays, from_frame])(rng)
    str(battles), repr(battles), battles.summary()
    assert battles.n_battles == int(battles.cells.count.sum()) > 0
    if rng.random() < 0.3:
        str(battles + battles), battles.pooled().summary()


def labels(rng: random.Random, n: int) -> list[Any]:
    """Return a column of labels, mostly harmless."""
    return plain_labels(rng, n) if rng.random() < 0.6 else pick_column(rng, NASTY_LABELS, n)


def numbers(rng: random.Random, n: int) -> list[Any]:
    """Return a column of outcomes or counts."""
    return [rng.randrange(3) for _ in range(n)] if rng.random() < 0.5 else pick_column(rng, NASTY_NUMBERS, n)


def from_arrays(rng: random.Random) -> lrbtl.Battles:
    """Battles of random arrays, some of other lengths."""
    n = rng.choice([0, 1, 2, 5, 12])
    sizes = [n if rng.random() < 0.97 else n + 1 for _ in range(4)]
    outcome = [rng.choice([0, 0.5, 1]) for _ in range(sizes[2])] if rng.random() < 0.6 else numbers(rng, sizes[2])
    contexts: Any = ()
    if rng.random() < 0.5:
        contexts = [dressed(rng, labels(rng, sizes[3])) for _ in range(rng.choice([1, 1, 2]))]
        contexts = contexts[0] if rng.random() < 0.3 else contexts
    keywords: dict[str, Any] = {}
    if rng.random() < 0.2:
        keywords["counts"] = dressed(rng, numbers(rng, n)) if rng.random() < 0.8 else [[1] * n]
    if rng.random() < 0.1:
        keywords["n_models"] = rng.choice([0, 1, 2, 5, -1, 10**9, 1.5, "3", None, 10**30])
    if rng.random() < 0.1:
        keywords["n_levels"] = rng.choice([0, 1, 3, (3,), (3, 3), 10**9, "x", None, (10**6, 10**6)])
    if rng.random() < 0.1:
        keywords["models"] = rng.choice([["m0", "m1", "m2", "m3"], [], ["m0", "m0"], "m0", None, [0, "a"], 5])
    if rng.random() < 0.1:
        keywords["levels"] = rng.choice([[["m0", "m1"]], [], [[]], "x", None, [["a"], ["b"]], 5])
    sides = [[rng.randrange(4) for _ in range(size)] if rng.random() < 0.4 else labels(rng, size) for size in sizes[:2]]
    return lrbtl.Battles.from_arrays(
        dressed(rng, sides[0]), dressed(rng, sides[1]), dressed(rng, outcome), contexts, **keywords
    )


def from_frame(rng: random.Random) -> lrbtl.Battles:
    """Battles of a random frame."""
    n = rng.choice([0, 1, 3, 8])
    columns = {
        "model_a": labels(rng, n),
        "model_b": labels(rng, n),
        "winner": pick_column(rng, WORDS[:3] if rng.random() < 0.6 else WORDS, n),
        "category": labels(rng, n),
        "n": numbers(rng, n),
    }
    if rng.random() < 0.05:
        del columns[rng.choice(list(columns))]
    keywords: dict[str, Any] = {}
    if rng.random() < 0.5:
        keywords["contexts"] = rng.choice(
            ["category", ["category"], ("category", "n"), "no such", [], None, 5, "winner"]
        )
    if rng.random() < 0.2:
        keywords["count"] = rng.choice(["n", "winner", "no such", 5])
    if rng.random() < 0.2:
        keywords["ties"] = rng.choice(["half", "drop", "x", None])
    if rng.random() < 0.2:
        keywords["outcomes"] = rng.choice(
            [{"left": 1}, {"left": None}, {"left": 2}, {"left": "x"}, {}, [], "x", {None: 1}]
        )
    return lrbtl.Battles.from_frame(as_frame(rng, columns), **keywords)
