"""Every public callable, with arguments drawn from its signature: what is added to the package is called here too.

A value comes from what its parameter is called (`battles`, `level`, ...), from its annotation where the name says
nothing, or from values that break things. Results are then asked for everything that they can do without arguments.
"""

import inspect
import io
import random
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

import lrbtl
from fuzz.options import WRONG
from fuzz.values import NASTY_LABELS, NASTY_NUMBERS, as_frame
from lrbtl.inference.analysis import METHODS

SECONDS = 30  # of the processor that a call on a few votes may take
MISTAKEN = 0.35  # of the arguments
# What methods, links and sampling laws offer each other: arrays by position, not checked a second time.
PROTOCOL = {"estimate_boards", "estimate_resolved", "placed", "why_not", "outlier", "shrinkage_of", "design", "run"}
PROTOCOL |= {"resolved_influence", "detectable_gap", "detectable", "goal", "cells", "make", "above_floor"}
PROTOCOL |= {"of"}  # `Verdicts.of`, `History.of`: rows by position
ASKED_TOO = ("__getitem__", "__add__", "__sub__", "__contains__", "__call__")  # beside methods with a name
PROTOCOLS = (
    "Link",
    "Sampling",
    "UniformSampling",
    "ProductSampling",
    "TableSampling",
    "Prospect",
)  # classes whose instances are passed to functions here, not asked themselves
BUILT = ("Estimate", "Davidson", "RaoKupper", "Identity", "CustomLink", "ProductSampling", "TableSampling")


class Unprepared(Exception):
    """Examples that cannot be made: no case says anything."""


class BadHash:
    """A label whose hash raises."""

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __repr__(self) -> str:
        return "BadHash()"


class BadEquality:
    """A label whose comparison raises."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "BadEquality()"


class BadText:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


EXTREME: list[Any] = [
    10**400, -(10**400), 2**44, 2**62, 1e-200, 1e160, 1e200, 1e300, -1e300, 5e-324, "a\0b", "/", "/dev/null/x", "~",
    "x" * 5000, "[" * 3000, '{"a":' * 3000, b"\xff\xfe", bytearray(b"x"), memoryview(b"x"), BadHash(), BadEquality(),
    [BadHash()], np.float16(1), np.array(3.0), np.array([[1.0]]), np.ones((2, 2, 2)), np.array(["a", "b"]), range(3),
    iter([1, 2]), {1, 2}, ..., NotImplemented, type, Exception("x"), [[1, 2], [3]], [None], {"m0": None}, {"m0": "x"},
    {None: 1}, {"code": 1e200, "maths": 1e-200}, {"code": -1}, [[]], "m0", "m1", ("m0", "m1"), ["m0", "m1"],
    [("m0", "m1")], "code", "maths", ("code", "maths"), {"contexts": "code"}, np.datetime64("NaT", "s"), "*", "overall",
]  # fmt: skip
NASTY = [*WRONG, *EXTREME, *NASTY_NUMBERS, *NASTY_LABELS]


def run_case(rng: random.Random, folder: Path) -> None:
    """Call something public."""
    _, call = rng.choice(surface())
    with limited(SECONDS), chdir(folder):  # some of the values are names of files
        exercise(rng, folder, drawn_call(rng, folder, call(rng)))


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` where a call computes for longer; where there are no such alarms, let it."""
    if not hasattr(signal, "SIGPROF"):
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# ------------------------------------------------------------------------------
# What is public.
# ------------------------------------------------------------------------------


@cache
def surface() -> list[tuple[str, Callable[[random.Random], Any]]]:
    """Return all public callables by name: functions, constructors, class methods, methods of results."""
    found: list[tuple[str, Callable[[random.Random], Any]]] = []
    for name in lrbtl.__all__:
        value = getattr(lrbtl, name)
        if not inspect.isclass(value):
            found.append((name, _constant(value)))
            continue
        if name in BUILT:
            found.append((name, _constant(value)))
        if any(base.__name__ in PROTOCOLS for base in value.__mro__):
            continue
        for attribute in asked_of(value):
            static = inspect.getattr_static(value, attribute)
            if isinstance(static, classmethod | staticmethod):
                found.append((f"{name}.{attribute}", _constant(getattr(value, attribute))))
            elif value.__name__ in examples():
                found.append((f"{name}.{attribute}", _method(value.__name__, attribute)))
    return found


def asked_of(kind: type) -> list[str]:
    """Return the names of the public methods of a class, and of its properties."""
    names = [name for name in dir(kind) if name not in PROTOCOL and (name[0] != "_" or name in ASKED_TOO)]
    able = (classmethod, staticmethod, property, cached_property, FunctionType)
    return [name for name in names if isinstance(inspect.getattr_static(kind, name), able)]


def _constant(value: Any) -> Callable[[random.Random], Any]:
    return lambda rng: value


def _method(kind: str, attribute: str) -> Callable[[random.Random], Any]:
    return lambda rng: asked(rng.choice(examples()[kind]), attribute)


def asked(value: Any, attribute: str) -> Any:
    """Return what asks a result for something: its method, or a function for its property."""
    if isinstance(inspect.getattr_static(type(value), attribute), property | cached_property):
        return lambda: getattr(value, attribute)
    return getattr(value, attribute)


@cache
def examples() -> dict[str, list[Any]]:
    """Return results of every public class, by its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrbtl.errors.LrbtlWarning)
        try:
            return _examples()
        except lrbtl.errors.LrbtlError as error:
            raise Unprepared from error


def _examples() -> dict[str, list[Any]]:
    votes = lrbtl.Battles.from_frame(frame(), contexts="category")
    covered = lrbtl.Battles.from_frame(frame(), contexts="category", covariates={"length": ("n_a", "n_b")}, cluster="v")
    weighted = lrbtl.Battles.from_frame(frame(), contexts="category", weight="w", position=True)
    plain = lrbtl.Battles.from_arrays(["x", "x", "y"], ["y", "z", "z"], [1, 0.5, 0], counts=[9, 9, 9])
    truth = lrbtl.simulate_scores((4, 3), 1, scale=1.0, rng=0)
    entries = lrbtl.simulate_observations(truth, 300, rng=0)
    analysis = lrbtl.analyse(votes)
    boards = lrbtl.leaderboard(votes, context="all")
    later = lrbtl.leaderboard(votes.with_counts(votes.cells.count * 2), context="all")
    fit = lrbtl.fit(votes, 1)
    estimate = lrbtl.infer(votes, [lrbtl.gap("m0", "m1"), lrbtl.win_probability("m0", "m2")], method="mle", rank=1)
    held = lrbtl.leaderboard(covered)
    found = [
        votes, covered, weighted, plain, entries, analysis, lrbtl.analyse(covered), boards, later, boards.overall,
        boards["code"], held, held.effects, fit, lrbtl.fit(entries, 1), lrbtl.fit_separate(votes), estimate,
        lrbtl.infer(votes, lrbtl.all_scores(), method="mle", rank=1), estimate.verdicts(margin=10),
        lrbtl.compare(votes, "m0", "m1"), lrbtl.win_matrix(votes), lrbtl.gate(votes, "m0", "m1", margin=20),
        lrbtl.changes(boards.overall, later.overall), lrbtl.history(frame(), "day", period=2),
        lrbtl.influence(lrbtl.analyse(covered)), lrbtl.plan(votes, 100), lrbtl.diagnose(votes),
        lrbtl.diagnose(votes, fit), lrbtl.compare_links(votes, ["logistic", "probit"], rank=1),
        lrbtl.select_rank(votes, [1, 2], n_folds=2), lrbtl.votes_needed(votes, lrbtl.gap("m0", "m1"), half_width=50),
        lrbtl.one_step(votes, [lrbtl.gap("m0", "m1")], rank=1), lrbtl.information(fit), lrbtl.rank_sets(votes),
        lrbtl.information(fit).influence_function(lrbtl.gap(0, 1)), lrbtl.rank_sets(votes).top(2),
        *_examples_of_results(), *_examples_of_decisions(votes, covered, estimate),
    ]  # fmt: skip
    out: dict[str, list[Any]] = {}
    for value in found:
        out.setdefault(type(value).__name__, []).append(value)
    return out


def _examples_of_decisions(votes: Any, covered: Any, estimate: Any) -> list[Any]:
    chosen = lrbtl.choose(votes, {"m0": 3.0, "m1": 1.0, "m2": 2.0, "m3": 0.5}, margin=10)
    return [
        chosen, chosen.routing, lrbtl.watch(votes), lrbtl.watch(votes, ("gap", "m0", "m1")), estimate.largest(),
        lrbtl.stability(lrbtl.analyse(covered)), lrbtl.diagnose(votes).calibration,
    ]  # fmt: skip


def _examples_of_results() -> list[Any]:
    results = lrbtl.Results.from_frame(scores())
    wide = lrbtl.Results.from_wide(
        {"model": ["m0", "m1", "m2", "m3"], "code": [70, 60, 50, 40], "elo": [1200, 900, 950, None]}
    )
    items = {
        "model": ["m0", "m1"] * 6,
        "item": [k // 2 for k in range(12)],
        "benchmark": ["code", "code", "maths", "maths"] * 3,
    }
    asked = lrbtl.Results.from_items({**items, "correct": [1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1]})
    analysis = lrbtl.analyse(results)
    boards = lrbtl.leaderboard(analysis, context="all")
    return [
        results, wide, asked, analysis, boards, boards.overall, boards["code"], lrbtl.forecast(analysis),
        lrbtl.plan(analysis, 2), lrbtl.leaderboard(wide),
    ]  # fmt: skip


@cache
def scores() -> dict[str, list[Any]]:
    """Return harmless results with all that scores can carry, some of them missing."""
    rng = np.random.default_rng(2)
    rows = [(f"m{k}", u, k + n) for k in range(6) for n, u in enumerate(("code", "maths", "law")) if (k + n) % 5]
    return {
        "model": [a for a, *_ in rows],
        "benchmark": [u for _, u, _ in rows],
        "score": [30.0 + 5 * k + round(float(rng.normal()), 2) for *_, k in rows],
        "n": [100 for _ in rows],
        "error": [1.5 for _ in rows],
    }


@cache
def frame() -> dict[str, list[Any]]:
    """Return a harmless log with all that votes can carry."""
    rng, n = np.random.default_rng(1), 160
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    return {
        "model_a": [f"m{k}" for k in a],
        "model_b": [f"m{k}" for k in b],
        "winner": np.where(
            rng.random(n) < 0.2, "tie", np.where(a < b + rng.normal(0, 3, n), "model_a", "model_b")
        ).tolist(),
        "category": rng.choice(["code", "maths"], n).tolist(),
        "n_a": rng.integers(1, 99, n).tolist(),
        "n_b": rng.integers(1, 99, n).tolist(),
        "v": rng.integers(0, 20, n).tolist(),
        "w": rng.uniform(0.5, 2.0, n).tolist(),
        "day": rng.integers(0, 6, n).tolist(),
        "tags": rng.choice(["a;b", "b", ""], n).tolist(),
    }


# ------------------------------------------------------------------------------
# Arguments.
# ------------------------------------------------------------------------------


def drawn_call(rng: random.Random, folder: Path, function: Callable[..., Any]) -> Any:
    """Return what a function says to arguments drawn from its signature."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    mistaken = rng.choice([0.0, MISTAKEN, MISTAKEN, 1.0])
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += [drawn(rng, folder, parameter, mistaken) for _ in range(rng.randrange(3))]
        elif parameter.default is not parameter.empty and rng.random() < 0.7:
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                args.append(parameter.default)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = drawn(rng, folder, parameter, mistaken)
        else:
            args.append(drawn(rng, folder, parameter, mistaken))
    return function(*args, **named)


def drawn(rng: random.Random, folder: Path, parameter: inspect.Parameter, mistaken: float) -> Any:
    """Return a value for a parameter: one that it may have, or any."""
    if rng.random() < mistaken:
        return rng.choice(NASTY)
    known = by_name(rng, folder).get(parameter.name)
    if known is not None:
        return known()
    text = str(parameter.annotation)
    pools = [pool for word, pool in BY_TYPE.items() if word in text]
    return rng.choice(rng.choice(pools)) if pools else rng.choice(NASTY)


BY_TYPE: dict[str, list[Any]] = {
    "int": [0, 1, 2, 5],
    "float": [0.0, 0.5, 1.0, 20.0],
    "str": ["m0", "code", "length", "elo", "pandas", ""],
    "bool": [True, False],
    "Any": ["m0", "m1", "code", 0, None],
    "Callable": [len, str, lambda x: x, lambda x: float(np.sum(x))],
    "Mapping": [{}, {"m0": 1.0}, {"code": 2.0, "maths": 1.0}],
    "ArrayLike": [[1.0, 2.0], np.zeros((4, 2)), np.eye(4), 0.5],
    "Iterable": [[], ["m0"], [1]],
    "Sequence": [[], ["m0", "m1"], (1, 2)],
}


def by_name(rng: random.Random, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return what makes a value for parameters of a name."""
    known = examples()

    def one(*values: Any) -> Callable[[], Any]:
        return lambda: rng.choice(values)

    def result(*kinds: str) -> Callable[[], Any]:
        return lambda: rng.choice([value for kind in kinds for value in known.get(kind, [])])

    def votes() -> Any:
        made = [lambda: rng.choice(known["Battles"]), lambda: as_frame(rng, frame()), lambda: odd_frame(rng)]
        return rng.choice(made)()

    def results() -> Any:
        made = [lambda: rng.choice(known["Results"]), lambda: as_frame(rng, scores()), lambda: odd_frame(rng, scores())]
        return rng.choice(made)()

    def data() -> Any:
        return rng.choice([votes, votes, votes, results, result("Analysis")])()

    def target() -> Any:
        a, b = rng.choice(["m0", "m1", "zz"]), rng.choice(["m1", "m2", 3])
        context = rng.choice([None, None, "code", "nowhere"])
        makers = [lambda: lrbtl.gap(a, b, context), lambda: lrbtl.score(a, context), lambda: lrbtl.win_rate(a)]
        return rng.choice([*makers, lambda: lrbtl.tail_score(a), lambda: lrbtl.effect("length"), lrbtl.all_gaps])()

    board = result("Leaderboard", "Leaderboards")
    model = one("m0", "m1", "m2", 0, "zz")
    return {
        "battles": data, "frame": data, "more": result("Battles"), "data": data, "votes": data, "results": results,
        "source": lambda: rng.choice([votes(), odd_source(rng, folder)]), "analysis": result("Analysis", "Leaderboard"),
        "board": board, "boards": board, "before": board, "after": board, "fit": result("Fit", "Analysis"),
        "target": target, "targets": lambda: rng.choice([target(), [target(), target()], lrbtl.all_scores()]),
        "a": model, "b": model, "model": model, "candidate": model, "baseline": model,
        "models": one(["m0", "m1"], "m0"),
        "context": one(None, "all", "code", "maths", 0, "zz", ("code",), {"category": "code"}),
        "pool": one(None, ["m1"]),
        "contexts": one((), "category", ["category"], [["code", "maths"]]),
        "weights": one("traffic", "equal", None, {"code": 1}),
        "level": one(0.95, 0.5, 0.999), "scale": one("elo", "logit", "probability", "auto", 1.0),
        "method": one(None, *METHODS),
        "rank": one(1, 2, "auto", (1, 1)),
        "link": one(None, "logistic", "probit", "davidson", lrbtl.RaoKupper()), "n_folds": one(2, 3, 10),
        "links": one(None, ["logistic"], "identity", ["identity"]), "ranks": one(None, [1], [1, 2]),
        "n_threads": one(1, 2, None), "rng": one(0, 1, None), "progress": one(None, False, lambda text: None),
        "margin": one(None, 10, 0.02), "anchor": one(None, ("m0", 1000)), "compat": one(None, "arena-rank", "fastchat"),
        "path": one(folder / "file.lrbtl", folder / "x.html", folder / "x.png", folder, str(folder / "none" / "x.png")),
        "text": lambda: odd_document(rng), "time": one("day", None), "period": one(None, 2, "day", "week"),
        "model_a": one("model_a", ["m0", "m1"]), "model_b": one("model_b", ["m1", "m2"]),
        "winner": one("winner", "day"),
        "outcome": one([1, 0], [0.5, 0.5]), "counts": one(None, [1, 2], [2**44, 1]), "count": one(None, "day", "v"),
        "covariates": one(None, "n_a", {"length": ("n_a", "n_b")}), "cluster": one(None, "v", ["v", "day"]),
        "weight": one(None, "w", "n_a"), "tags": one(None, "tags"), "ties": one("half", "drop"),
        "both_bad": one("tie", "drop", "outcome"), "outcomes": one(None, {"tie": None}), "goal": one("gaps", "ranks"),
        "n": one(1, 10, 100), "cost": one(None, {"m0": 2.0}, 5), "singular_values": one([3.0, 1.0], [[3.0], [1.0]]),
        "scores": one(np.array([[1.0, 0.5], [-1.0, -0.5], [0.0, 0.0]]), np.zeros((3, 2))),
        "shape": one((3, 2), (4,), 3),
        "sampling": one(None, lrbtl.UniformSampling()), "found": result("Changes", "EffectEstimate"),
        "story": result("History"), "matrix": result("WinMatrix", "Leaderboards"), "plan": result("Plan"),
        "ax": one(None), "z": one([0.1, -2.0]), "theme": one("light", "dark"), "other": result("Estimate"),
        "backend": one(None, "pandas", "polars", "pyarrow"), "control": one(None, [], ["length"]), "where": one(None),
        "working": one([1.0, 2.0]), "cov": one(np.eye(2), None), "labels": one(["x", "y"]),
        "half_width": one(None, 40.0),
        "power": one(None, 0.8), "gap": one(None, 20.0), "date": one(None, "2026-01-01"), "start": one(None),
        "key": one("m0", 0, "gap(m0, m1)", ["gap(m0, m1)"], slice(1)), "null": one(None, 0.5),
        "meta": one(None, {"m0": {}}),
        "forbid": one((), [("m0", "m1")]), "tables": one(()), "diagnostics": one(None), "battles_at": one(None),
        "benchmark": one("code", ["code", "law"]), "items": one(None, "n"),
        "se": one(None, "error", "crossfit", "full"),
        "features": one(None, {"model": ["m0", "m1", "m2"], "size": [1, 2, 9], "family": ["x", "x", "y"]}),
        "scales": one(None, "percent", "real", {"code": (0, 100)}), "lower_is_better": one((), ["law"]),
        "kind": one("normal", "bernstein"), "folds": one(None, 2, [[0, 1]]), "k": one(1, 2, 5),
        "improvements": one(None, lrbtl.Improvements(), lrbtl.Improvements.none()),
        "initial": one(None, np.zeros((4, 2))),
        "truth": one(np.array([[1.0, 0.5], [-1.0, -0.5], [0.0, 0.0], [0.0, 0.0]])),
    }  # fmt: skip


def odd_frame(rng: random.Random, given: dict[str, list[Any]] | None = None) -> Any:
    """Return a log with one column that is wrong, missing, twice there, or of another kind."""
    columns = {name: list(values) for name, values in (given or frame()).items()}
    name = rng.choice(list(columns))
    kind = rng.choice(["value", "values", "lost", "short", "twice", "rows", "renamed", "empty", "nested"])
    if kind == "value":
        columns[name][rng.randrange(len(columns[name]))] = rng.choice(NASTY)
    elif kind == "values":
        columns[name] = [rng.choice(NASTY_NUMBERS + EXTREME[:10]) for _ in columns[name]]
    elif kind == "lost":
        del columns[name]
    elif kind == "short":
        columns[name] = columns[name][:-1]
    elif kind == "renamed":
        columns[rng.choice(["count", "task", "", "MODEL_A", 7])] = columns.pop(name)  # type: ignore[index]
    elif kind == "empty":
        columns = {name: [] for name in columns}
    elif kind == "nested":
        columns[name] = [{"x": [value]} for value in columns[name]]
    elif kind == "rows":
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    elif kind == "twice":
        import pandas as pd

        table = pd.DataFrame(columns)
        return pd.concat([table, table[[name]]], axis=1)
    return as_frame(rng, columns)


def odd_source(rng: random.Random, folder: Path) -> Any:
    """Return something to read a log from."""
    text = "model_a,model_b,winner,category\nx,y,model_a,code\ny,z,tie,maths\n"
    path = folder / "votes.csv"
    path.write_text(text)
    makers: list[Callable[[], Any]] = [
        lambda: path, lambda: str(path), lambda: [path, path], lambda: [], lambda: folder / "nothing.csv",
        lambda: io.StringIO(text), lambda: io.BytesIO(text.encode()), lambda: io.BytesIO(b""), lambda: "a\0b.csv",
        lambda: io.BytesIO(b'{"a":' * 5000), lambda: str(folder / "*.csv"), lambda: text,
        lambda: iter([text]), lambda: (folder / "votes.csv").open(), lambda: [folder, 3],
    ]  # fmt: skip
    return rng.choice(makers)()


def odd_document(rng: random.Random) -> Any:
    """Return the JSON of a board, changed somewhere."""
    board = rng.choice(examples()["Leaderboard"] + examples()["Leaderboards"])
    text = board.to_json()
    kind = rng.choice(["as it is", "cut", "changed", "deep", "other"])
    if kind == "cut":
        return text[: rng.randrange(len(text))]
    if kind == "changed":
        words = ["null", "1e400", "[]", "{}", '"x"', "-1", "10" * 400, "true"]
        at = rng.randrange(len(text) - 10)
        return text[:at] + rng.choice(words) + text[at + rng.randrange(10) :]
    return {"as it is": text, "deep": "[" * 100_000}.get(kind, rng.choice(["", "{}", "[]", "null", "3", "\0"]))


# ------------------------------------------------------------------------------
# Results.
# ------------------------------------------------------------------------------

ASKED = ("summary", "to_dict", "to_frame", "to_json", "heading", "_repr_html_")


def exercise(rng: random.Random, folder: Path, result: Any, further: bool = True) -> None:
    """Ask a result for its text, for one of the things that it can do by itself, and for anything else that it can."""
    if type(result).__module__.startswith("matplotlib") or inspect.isgenerator(result):
        import matplotlib.pyplot as plt

        plt.close("all")
        return
    if isinstance(result, tuple | list | dict) and result:  # one of several results
        result = rng.choice(list(result.values() if isinstance(result, dict) else result))
    if not type(result).__module__.startswith("lrbtl"):
        return
    if "nan points" in str(result):
        raise AssertionError("a result that is no number, without a reason")
    able = [name for name in ASKED if callable(getattr(result, name, None))]
    if able:
        getattr(result, rng.choice(able))()
    able = asked_of(type(result))
    named = type(result).__name__ in lrbtl.__all__ or type(result).__module__.startswith("lrbtl.boards")
    if further and able and named and not any(base.__name__ in PROTOCOLS for base in type(result).__mro__):
        exercise(rng, folder, drawn_call(rng, folder, asked(result, rng.choice(able))), further=False)
