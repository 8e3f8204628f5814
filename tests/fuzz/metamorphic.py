"""What must not change an answer, or change it in a known way: for every method, on small logs, some with exact ties.

A case is a relation, a method and a log. A relation makes two logs whose answers agree under a renaming, within a
tolerance in standard errors: `EXACT` where the fit sees the same numbers in another order, `NEARLY` where it comes to
the same place by other steps.
"""

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import lrbtl
from lrbtl.errors import LrbtlError, LrbtlWarning
from lrbtl.inference.analysis import METHODS

VOTE_METHODS = tuple(name for name, method in METHODS.items() if method.takes_votes)
EXACT, NEARLY = 1e-9, 1e-3  # of a standard error
COLUMNS = ["model_a", "model_b", "winner", "task"]
BACK = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
SIZES = (20, 30, 50, 80, 100, 400)
RANKS = ("rank", "best", "worst", "rank_lower", "rank_upper", "tier")
Key = tuple[Any, Any]
Named = Callable[[Key], Key]


@dataclass(frozen=True)
class Twins:
    """Two logs, and how the answers to the second follow from those to the first."""

    first: lrbtl.Battles
    second: lrbtl.Battles
    named: Named = lambda key: key  # a context and a model of the first as those of the second
    tolerance: float = EXACT
    options: dict[str, Any] = field(default_factory=dict)  # of the second analysis
    check: Callable[[dict[Key, Any], dict[Key, Any]], None] | None = None  # in the place of the comparison


def run_case(rng: random.Random, folder: Path) -> None:
    """Compare the answers to two logs."""
    run_relation(rng.choice(list(RELATIONS)), rng.choice(VOTE_METHODS), rng)


def run_relation(relation: str, method: str, rng: random.Random) -> None:
    """Raise `AssertionError` where a relation does not hold for a method on a log drawn here."""
    twins = RELATIONS[relation](np.random.default_rng(rng.getrandbits(32)))
    if "n_folds" not in METHODS[method].unused and has_copies(twins.first):
        return  # copies of a category have random folds of their own, in the order of their labels
    options: dict[str, Any] = {} if method == "hierarchical" else {"rank": rng.choice([1, "auto"])}
    first = answers(twins.first, method, options)
    second = answers(twins.second, method, options | twins.options)
    try:
        (twins.check or twins_agree(twins))(first, second)
    except AssertionError as error:
        raise AssertionError(f"{relation}, {method}: {error}") from error


def has_copies(battles: lrbtl.Battles) -> bool:
    """Return whether two categories have the very same votes."""
    cells, seen = battles.cells, set()
    for start, stop in zip(cells.start[:-1], cells.start[1:], strict=True):
        here = slice(start, stop)
        votes = zip(*(x[here].tolist() for x in (cells.a, cells.b, cells.y, cells.count)), strict=True)
        seen.add(tuple(sorted(votes)))
    return len(seen) < len(cells.start) - 1


def answers(battles: lrbtl.Battles, method: str, options: dict[str, Any]) -> dict[Key, Any]:
    """Return ratings and ranks by context and model, or the error that there is instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        try:
            boards = lrbtl.leaderboard(battles, context="all", method=method, n_folds=3, **options)
        except LrbtlError as error:
            return {("error", type(error).__name__): None}
    found: dict[Key, Any] = {}
    for board in boards.every():
        places = np.stack([getattr(board, name) for name in RANKS], axis=1)
        values = np.stack([board.score, board.se, board.lower, board.upper], axis=1)
        for model, value, place in zip(board.models, values, places.tolist(), strict=True):
            found[board.context, model] = value, place
    return found


def twins_agree(twins: Twins) -> Callable[[dict[Key, Any], dict[Key, Any]], None]:
    """Return a check that what is said about the first log is said about the second, up to the names."""

    def check(first: dict[Key, Any], second: dict[Key, Any]) -> None:
        for key, mine in first.items():
            assert twins.named(key) in second, f"{key} has no answer but {list(second)[:2]}"
            if mine is not None:
                agree(key, mine, second[twins.named(key)], twins.tolerance)

    return check


def agree(key: Key, mine: Any, theirs: Any, tolerance: float) -> None:
    """Raise unless two answers differ by at most so many standard errors, in the same ranks where it is rounding."""
    (value, place), (other, there) = mine, theirs
    unit = value[1] if np.isfinite(value[1]) and value[1] > 0 else 1.0
    both = np.isfinite(value) & np.isfinite(other)
    assert np.array_equal(value[~both], other[~both], equal_nan=True), f"{key}: {value} and {other}"
    off = np.abs(value[both] - other[both]).max(initial=0.0) / unit
    assert off <= tolerance, f"{key}: {off:.2g} standard errors apart, {value} and {other}"
    assert tolerance > EXACT or place == there, f"{key}: {RANKS} are {place} and {there}"


# ------------------------------------------------------------------------------
# Logs.
# ------------------------------------------------------------------------------


def log(rng: np.random.Generator) -> pd.DataFrame:
    """Return few votes by codes; in some logs models or categories have the very same record."""
    n, d1, d2 = int(rng.choice(SIZES)), int(rng.integers(3, 8)), int(rng.integers(1, 4))
    theta = rng.normal(0, 0.7, (d1, 1)) + rng.normal(0, 0.3, (d1, d2))
    a, u = rng.integers(0, d1, n), rng.integers(0, d2, n)
    b = (a + rng.integers(1, d1, n)) % d1
    p = 1 / (1 + np.exp(theta[b, u] - theta[a, u]))
    winner = np.where(rng.random(n) < 0.15, "tie", np.where(rng.random(n) < p, "model_a", "model_b"))
    more = {"x": rng.normal(size=n), "n_a": rng.integers(1, 99, n), "n_b": rng.integers(1, 99, n)}
    frame = pd.DataFrame({"model_a": a, "model_b": b, "winner": winner, "task": u, **more})
    kind = rng.choice(["plain", "plain", "plain", "circle", "tasks", "shifted", "mirror"])
    if kind == "circle":  # every model has the same record
        frame = pd.concat([frame.assign(model_a=(a + k) % d1, model_b=(b + k) % d1) for k in range(d1)])
    elif kind == "tasks":  # every category has the same votes
        frame = pd.concat([frame.assign(task=k) for k in range(3)])
    elif kind == "shifted":  # two copies, one step further
        frame = pd.concat([frame, frame.assign(model_a=(a + 1) % d1, model_b=(b + 1) % d1)])
    elif kind == "mirror":  # every vote and its opposite: all scores are equal
        frame = pd.concat([frame, frame.assign(model_a=b, model_b=a)])
    return frame.reset_index(drop=True)


def named(frame: pd.DataFrame, models: Any = None, tasks: Any = None) -> pd.DataFrame:
    """Return a log with names, of which those of a permutation are in another order."""
    models, tasks = np.arange(20) if models is None else models, np.arange(20) if tasks is None else tasks
    names = {side: [f"m{models[k]:02d}" for k in frame[side]] for side in ("model_a", "model_b")}
    return frame.assign(**names, task=[f"t{tasks[k]:02d}" for k in frame.task])


def flipped(frame: pd.DataFrame, back: Any) -> pd.DataFrame:
    """Return the same votes, some rows with their sides the other way round."""
    sides = {
        "model_a": np.where(back, frame.model_b, frame.model_a), "model_b": np.where(back, frame.model_a, frame.model_b)
    }  # fmt: skip
    lengths = {"n_a": np.where(back, frame.n_b, frame.n_a), "n_b": np.where(back, frame.n_a, frame.n_b)}
    winner = np.where(back, frame.winner.map(BACK), frame.winner)
    return frame.assign(**sides, **lengths, winner=winner, x=np.where(back, -frame.x, frame.x))


def read(frame: Any, **rule: Any) -> lrbtl.Battles:
    """Return the votes of a log with categories."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LrbtlWarning)
        return lrbtl.Battles.read(frame, contexts="task", **rule)


# ------------------------------------------------------------------------------
# Relations.
# ------------------------------------------------------------------------------


def renaming(rng: np.random.Generator) -> Twins:
    """Other names of models and categories, in another order; other sides, another order of rows."""
    frame, models, tasks = log(rng), rng.permutation(20), rng.permutation(20)
    other = flipped(named(frame, models, tasks), rng.random(len(frame)) < 0.5)
    other = other.sample(frac=1.0, random_state=int(rng.integers(2**31)))

    def name(key: Key) -> Key:
        if key[0] == "error":
            return key
        task = None if key[0] is None else f"t{tasks[int(key[0][1:])]:02d}"
        return task, f"m{models[int(key[1][1:])]:02d}"

    rule: dict[str, Any] = {} if rng.random() < 0.7 else {"covariates": "x"}
    return Twins(read(named(frame), **rule), read(other, **rule), name)


def splitting(rng: np.random.Generator) -> Twins:
    """A log in two parts."""
    frame = named(log(rng))
    at = int(rng.integers(1, len(frame)))
    return Twins(read(frame), read(frame[:at]) + read(frame[at:]))


def counting(rng: np.random.Generator) -> Twins:
    """Rows counted."""
    frame = named(log(rng))
    return Twins(read(frame), read(frame.groupby(COLUMNS, as_index=False).size(), count="size"))


def libraries(rng: np.random.Generator) -> Twins:
    """Frames of every library."""
    frame = named(log(rng))[COLUMNS]
    makers: list[Callable[[pd.DataFrame], Any]] = [
        pl.from_pandas, lambda table: pl.from_pandas(table).lazy(), pa.Table.from_pandas,
        lambda table: table.to_dict(orient="list"), lambda table: table.to_dict("records"),
        lambda table: table.astype("category"), batch,
    ]  # fmt: skip
    return Twins(read(frame), read(makers[rng.integers(len(makers))](frame)))


def batch(frame: pd.DataFrame) -> Any:
    """Return a table as one record batch."""
    return pa.Table.from_pandas(frame).combine_chunks().to_batches()[0]


def threads(rng: np.random.Generator) -> Twins:
    """Threads."""
    battles = read(named(log(rng)))
    return Twins(battles, battles, options={"n_threads": 3})


def weights_of_one(rng: np.random.Generator) -> Twins:
    """A weight column of ones."""
    frame = named(log(rng)).assign(w=1.0)
    return Twins(read(frame), read(frame, weight="w"), tolerance=NEARLY)


def weights_rescaled(rng: np.random.Generator) -> Twins:
    """Weights in another unit."""
    frame, unit = named(log(rng)), float(10.0 ** rng.integers(-6, 7))
    w = rng.uniform(0.5, 2.0, len(frame))
    return Twins(read(frame.assign(w=w), weight="w"), read(frame.assign(w=unit * w), weight="w"), tolerance=NEARLY)


def covariates_rescaled(rng: np.random.Generator) -> Twins:
    """A covariate in another unit."""
    frame, unit = named(log(rng)), float(10.0 ** rng.integers(-6, 7))
    other = read(frame.assign(x=unit * frame.x), covariates="x")
    return Twins(read(frame, covariates="x"), other, tolerance=NEARLY)


def covariates_shifted(rng: np.random.Generator) -> Twins:
    """A covariate of both sides, from another zero."""
    frame = named(log(rng))
    rule = {"covariates": {"n": ("n_a", "n_b", "difference")}}
    return Twins(read(frame, **rule), read(frame.assign(n_a=frame.n_a + 512, n_b=frame.n_b + 512), **rule))


def isolated_pair(rng: np.random.Generator) -> Twins:
    """Two models that never meet the others have a board of their own, and change no other."""
    frame = named(log(rng))
    rows = {"model_a": ["k0"] * 40, "model_b": ["k1"] * 40, "winner": ["model_a", "model_b"] * 20}
    pair = pd.DataFrame({**rows, "task": [frame.task[0]] * 40})
    twins = Twins(read(frame), read(pd.concat([frame, pair])))

    def check(first: dict[Key, Any], second: dict[Key, Any]) -> None:
        if not any(key[0] == "error" for key in first):  # else the pair has the only board that there is
            twins_agree(twins)(first, second)

    return replace(twins, check=check)


def copied_category(rng: np.random.Generator) -> Twins:
    """A copy of a category under another name has the same board."""
    frame = named(log(rng))
    one = frame.task[0]
    both = read(pd.concat([frame, frame[frame.task == one].assign(task="copy")]))

    def check(first: dict[Key, Any], second: dict[Key, Any]) -> None:
        for (context, model), mine in second.items():
            if context == one:
                agree((context, model), mine, second["copy", model], NEARLY)

    return Twins(both, both, check=check)


def ties_alone(rng: np.random.Generator) -> Twins:
    """A model that only ties is rated between the others."""
    frame = named(log(rng))
    others = sorted({*frame.model_a, *frame.model_b})
    rows = {"model_a": ["tied"] * 60, "model_b": (others * 60)[:60], "winner": ["tie"] * 60}
    joined = read(pd.concat([frame, pd.DataFrame({**rows, "task": [frame.task[0]] * 60})]))

    def check(first: dict[Key, Any], second: dict[Key, Any]) -> None:
        overall = {model: value[0][0] for (context, model), value in second.items() if context is None}
        rest = [score for model, score in overall.items() if model != "tied" and np.isfinite(score)]
        if rest and np.isfinite(overall.get("tied", np.nan)):
            assert min(rest) - 1 <= overall["tied"] <= max(rest) + 1, str(overall)

    return Twins(joined, joined, check=check)


RELATIONS: dict[str, Callable[[np.random.Generator], Twins]] = {
    relation.__name__: relation
    for relation in (
        renaming, splitting, counting, libraries, threads, weights_of_one, weights_rescaled, covariates_rescaled,
        covariates_shifted, isolated_pair, copied_category, ties_alone,
    )
}  # fmt: skip
