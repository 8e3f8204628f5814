"""Battles: every source agrees, the invariances of a battle log hold, and bad input is named."""

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lrbtl
from lrbtl import Battles
from lrbtl.errors import (
    CodeRangeError,
    ContextModeError,
    CountError,
    EmptyDataError,
    InputTypeError,
    LabelError,
    LengthMismatchError,
    LrbtlError,
    MissingValueError,
    MixedLabelError,
    OutcomeRangeError,
    SelfBattleWarning,
    TooFewModelsError,
    TooLargeError,
    UnknownContextError,
    UnknownModelError,
    UnknownOutcomeError,
)

MODELS = ["alpha", "beta", "delta", "gamma"]
TASKS = ["code", "math", "writing"]
LANGUAGES = ["en", "fr"]
WORDS = ["model_a", "model_b", "tie", "tie (bothbad)"]
VALUES = np.array([1.0, 0.0, 0.5, 0.5])


def draw(n: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, n)
    return {
        "a": a,
        "b": (a + rng.integers(1, 4, n)) % 4,
        "w": rng.integers(0, 4, n),
        "task": rng.integers(0, 3, n),
        "language": rng.integers(0, 2, n),
    }


def frame_of(codes: dict[str, np.ndarray]) -> dict[str, list[str]]:
    lists = {"model_a": MODELS, "model_b": MODELS, "winner": WORDS, "task": TASKS, "language": LANGUAGES}
    return {
        name: [labels[k] for k in column] for (name, labels), column in zip(lists.items(), codes.values(), strict=True)
    }


def from_codes(codes: dict[str, np.ndarray], **options: Any) -> Battles:
    full = {"models": MODELS, "levels": [TASKS, LANGUAGES], **options}
    return Battles.from_arrays(codes["a"], codes["b"], VALUES[codes["w"]], [codes["task"], codes["language"]], **full)


def assert_same(left: Battles, right: Battles) -> None:
    assert left.models == right.models and left.levels == right.levels
    for name in ("context", "a", "b", "y", "count", "start"):
        np.testing.assert_array_equal(getattr(left.cells, name), getattr(right.cells, name), err_msg=name)


samples = st.builds(draw, st.integers(20, 80), st.integers(0, 10_000))

FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dict": dict,
    "dict of arrays": lambda f: {name: np.array(column) for name, column in f.items()},
    "pandas": pd.DataFrame,
    "pandas object": lambda f: pd.DataFrame(f, dtype=object),
    "pandas category": lambda f: pd.DataFrame(f, dtype="category"),
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "polars Categorical": lambda f: pl.DataFrame(f, schema=dict.fromkeys(f, pl.Categorical)),
    "arrow": pa.table,
    "arrow dictionary": lambda f: pa.table({name: pa.array(column).dictionary_encode() for name, column in f.items()}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_every_kind_agree_with_codes(kind: str) -> None:
    codes = draw(500, 0)
    battles = Battles.from_frame(FRAMES[kind](frame_of(codes)), contexts=["task", "language"])
    assert battles.mode_names == ("task", "language") and battles.shape == (4, 3, 2) and battles.n_battles == 500
    assert_same(battles, from_codes(codes))


@pytest.mark.parametrize("kind", ["dict of arrays", "pandas", "polars", "arrow"])
def test_integer_columns_of_frames_are_labels(kind: str) -> None:
    columns = {"model_a": [30, 10], "model_b": [10, 20], "winner": [1, 0], "year": [2024, 2023]}
    battles = Battles.from_frame(FRAMES[kind](columns), contexts="year")
    assert battles.models == (10, 20, 30) and battles.levels == ((2023, 2024),)


@given(codes=samples, seed=st.integers(0, 99))
@settings(max_examples=25)
def test_row_order_does_not_matter(codes: dict[str, np.ndarray], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(codes["a"]))
    assert_same(from_codes(codes), from_codes({name: column[order] for name, column in codes.items()}))


@given(codes=samples, seed=st.integers(0, 99))
@settings(max_examples=25)
def test_sides_do_not_matter(codes: dict[str, np.ndarray], seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.choice([0, 0.1, 0.3, 0.41, 0.59, 0.7, 1 / 3, 1], len(codes["a"]))
    swap = rng.random(len(y)) < 0.5
    shown = Battles.from_arrays(codes["a"], codes["b"], y, codes["task"])
    a, b = np.where(swap, codes["b"], codes["a"]), np.where(swap, codes["a"], codes["b"])
    assert_same(shown, Battles.from_arrays(a, b, np.where(swap, 1 - y, y), codes["task"], n_models=4))


@given(codes=samples, seed=st.integers(0, 99))
@settings(max_examples=25)
def test_counts_are_repetition(codes: dict[str, np.ndarray], seed: int) -> None:
    counts = np.random.default_rng(seed).integers(1, 4, len(codes["a"]))
    repeated = {name: np.repeat(column, counts) for name, column in codes.items()}
    assert_same(from_codes(codes, counts=counts), from_codes(repeated))
    frame = {**frame_of(codes), "n": counts}
    assert_same(
        Battles.from_frame(frame, contexts="task", count="n"), Battles.from_frame(frame_of(repeated), contexts="task")
    )


@given(codes=samples, order=st.permutations(MODELS))
@settings(max_examples=25)
def test_listed_order_of_labels_is_a_relabelling(codes: dict[str, np.ndarray], order: list[str]) -> None:
    columns = frame_of(codes)
    battles = Battles.from_arrays(columns["model_a"], columns["model_b"], columns["winner"], models=order)
    place = np.array([order.index(model) for model in MODELS])
    assert_same(battles, Battles.from_arrays(place[codes["a"]], place[codes["b"]], VALUES[codes["w"]], models=order))


@given(codes=samples, cuts=st.lists(st.integers(1, 19), max_size=3))
@settings(max_examples=25)
def test_chunks_added_equal_all_at_once(codes: dict[str, np.ndarray], cuts: list[int]) -> None:
    frame = pd.DataFrame(frame_of(codes))
    bounds = [0, *sorted(set(cuts)), len(frame)]
    parts = [Battles.from_frame(frame[lo:hi], contexts=["task", "language"]) for lo, hi in pairwise(bounds)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert_same(total, Battles.from_frame(frame, contexts=["task", "language"]))


def test_adding_keeps_a_listed_order_and_needs_equal_modes() -> None:
    left = Battles.from_arrays(["x"], ["y"], [1], models=["y", "x"])
    assert (left + Battles.from_arrays(["y"], ["x"], [1])).models == ("y", "x")
    assert (left + Battles.from_arrays(["y"], ["a"], [1])).models == ("a", "x", "y")
    with pytest.raises(ContextModeError, match="context 1"):
        left + Battles.from_arrays(["x"], ["y"], [1], ["code"])
    with pytest.raises(MixedLabelError):
        left + Battles.from_arrays([0], [1], [1])
    with pytest.raises(TypeError):
        left + 1  # type: ignore[operator]


def test_ties_can_be_dropped_and_leave_no_idle_labels() -> None:
    frame = {
        "model_a": ["x", "x", "z"],
        "model_b": ["y", "y", "x"],
        "winner": ["model_a", "tie", "tie"],
        "task": ["code", "math", "math"],
    }
    assert Battles.from_frame(frame, contexts="task").tie_share == pytest.approx(2 / 3)
    decisive = Battles.from_frame(frame, contexts="task", ties="drop")
    assert decisive.n_battles == 1 and decisive.models == ("x", "y") and decisive.levels == (("code",),)
    with pytest.raises(InputTypeError, match="one of 'half', 'drop'"):
        Battles.from_frame(frame, ties="win")  # type: ignore[arg-type]


def test_unused_categories_go_and_listed_labels_stay() -> None:
    frame = pd.DataFrame({"model_a": ["x"], "model_b": ["y"], "winner": ["model_a"]})
    frame["model_a"] = pd.Categorical(frame["model_a"], categories=["w", "x", "y"])
    assert Battles.from_frame(frame).models == ("x", "y")
    listed = Battles.from_arrays(["x"], ["y"], [1], ["code"], models=["x", "y", "z"], levels=["code", "math"])
    assert (
        listed.shape == (3, 2)
        and listed.context_counts.tolist() == [1, 0]
        and listed.model_counts.tolist() == [1, 1, 0]
    )
    assert np.isnan(listed.win_rates[2])
    assert Battles.from_arrays([0], [1], [1], [[0]], n_models=5, n_levels=[4]).shape == (5, 4)
    assert Battles.from_arrays([0], [1], [1], [0], n_levels=4).levels == ((0, 1, 2, 3),)


def test_counts_and_rates_equal_plain_sums() -> None:
    codes = draw(300, 3)
    battles = from_codes(codes)
    y = VALUES[codes["w"]]
    flat = codes["task"] * 2 + codes["language"]
    np.testing.assert_array_equal(battles.context_counts, np.bincount(flat, minlength=6))
    fought = [(codes["a"] == k) | (codes["b"] == k) for k in range(4)]
    np.testing.assert_array_equal(battles.model_counts, [rows.sum() for rows in fought])
    won = [y[codes["a"] == k].sum() + (1 - y)[codes["b"] == k].sum() for k in range(4)]
    np.testing.assert_allclose(battles.win_rates, np.array(won) / battles.model_counts)
    pairs = {
        (u, *sorted(pair)) for u, *pair in zip(flat.tolist(), codes["a"].tolist(), codes["b"].tolist(), strict=True)
    }
    assert battles.density == pytest.approx(len(pairs) / (6 * 6))


def test_select_equals_filtering_rows() -> None:
    codes = draw(300, 4)
    frame = pd.DataFrame(frame_of(codes))
    battles = Battles.from_frame(frame, contexts=["task", "language"])
    chosen = battles.select(models=["gamma", "alpha", 1], contexts={"task": ["math", "code"]})
    models = ["alpha", "beta", "gamma"]
    rows = frame[frame.model_a.isin(models) & frame.model_b.isin(models) & frame.task.isin(["math", "code"])]
    assert_same(chosen, Battles.from_frame(rows, contexts=["task", "language"]))
    assert_same(battles.pooled(), Battles.from_frame(frame, contexts=()))
    assert battles.pooled().shape == (4,)
    assert_same(battles.select(), battles)
    single = Battles.from_frame(frame, contexts="task").select(contexts=["math"])
    assert single.shape == (4, 1)
    with pytest.raises(ContextModeError, match="2 context modes"):
        battles.select(contexts=["math"])
    with pytest.raises(ContextModeError, match="did you mean 'task'"):
        battles.select(contexts={"tasks": ["math"]})
    with pytest.raises(UnknownContextError, match="did you mean 'math'"):
        battles.select(contexts={"task": ["maths"]})
    for nothing in ({"models": []}, {"contexts": {"task": []}}):
        with pytest.raises(EmptyDataError):
            battles.select(**nothing)  # type: ignore[arg-type]
    with pytest.raises(TooFewModelsError):
        battles.select(models=["alpha"])


def test_top_models_are_the_most_frequent() -> None:
    battles = Battles.from_arrays(["w", "x", "y", "z"], ["x", "y", "z", "y"], [1, 1, 1, 0], counts=[1, 5, 6, 1])
    assert battles.model_counts.tolist() == [1, 6, 12, 7]
    assert battles.top_models(2).models == ("y", "z") and battles.top_models(2).n_battles == 7
    assert battles.top_models(99).models == battles.models


def test_with_counts() -> None:
    battles = Battles.from_arrays([0, 0, 1], [1, 2, 2], [1, 1, 1])
    fewer = battles.with_counts([0, 4, 2])
    assert fewer.n_battles == 6 and fewer.n_cells == 2 and fewer.shape == battles.shape
    with pytest.raises(LengthMismatchError, match="3 cells"):
        battles.with_counts([1])
    with pytest.raises(CountError):
        battles.with_counts([1, 1, -1])
    with pytest.raises(EmptyDataError):
        battles.with_counts([0, 0, 0])


def test_look_ups_take_labels_and_codes() -> None:
    battles = from_codes(draw(100, 5))
    assert battles.model_index("delta") == 2 and battles.model_index(np.int64(3)) == 3
    flat = battles.context_index(("writing", "fr"))
    assert flat == 5 == battles.context_index((2, 1)) and battles.context_label(flat) == ("writing", "fr")
    assert battles.pooled().context_index() == 0 and battles.pooled().context_label(0) is None
    with pytest.raises(UnknownModelError, match="did you mean 'gamma'"):
        battles.model_index("Gama")
    with pytest.raises(UnknownModelError, match="0 to 3"):
        battles.model_index(4)
    with pytest.raises(UnknownModelError):
        battles.model_index([1])
    with pytest.raises(UnknownContextError, match=r"level of context 2 'de'; did you mean 'en'\?$"):
        battles.context_index(("code", "de"))
    for wrong in ("code", ("code",), None):
        with pytest.raises(ContextModeError, match=r"\(context 1, context 2\)"):
            battles.context_index(wrong)
    with pytest.raises(ContextModeError, match="have no contexts"):
        battles.pooled().context_index("code")


def test_integer_labels_win_over_codes() -> None:
    battles = Battles.from_frame({"model_a": [1, 2], "model_b": [2, 3], "winner": [1, 0]})
    assert battles.model_index(1) == 0 and battles.model_index(0) == 0 and battles.model_index(3) == 2


def test_tuples_can_be_levels() -> None:
    battles = Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], [[("a", 1), ("b", 2)]])
    assert battles.context_index(("b", 2)) == 1
    one = Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], ["code", "math"])
    assert one.context_index("math") == one.context_index(("math",)) == one.context_index(1) == 1


def test_self_battles_are_dropped_counted_and_warned() -> None:
    with pytest.warns(SelfBattleWarning, match="3 battles"):
        battles = Battles.from_arrays(["x", "x", "z"], ["y", "x", "z"], [1, 1, 0], counts=[4, 2, 1])
    assert battles.n_battles == 4 and battles.n_self == 3 and battles.models == ("x", "y")
    assert "3 battles of a model against itself" in str(battles)
    assert (battles + battles).n_self == 6


def test_print_tells_what_matters() -> None:
    battles = Battles.from_arrays(
        [0, 0, 2], [1, 1, 3], [1, 0.5, 0], ["code", "code", "math"], n_models=5, levels=[["code", "math", "other"]]
    )
    text = str(battles)
    for part in (
        "3 battles in 3 cells",
        "context 1  3 levels: code, math, other",
        "ties       33.3%",
        "density    6.7%",
    ):
        assert part in text
    assert "1 model has no battles: 4" in text
    assert "1 context has no battles: other" in text
    assert "2 groups of models never meet" in text
    assert repr(battles) == "Battles(shape=(5, 3), n_battles=3, n_cells=3)"
    assert "warning" not in str(from_codes(draw(500, 1)))


def test_very_many_labels() -> None:
    n = 100_000
    left = [f"model {k}" for k in range(n)]
    right = np.array([f"model {k}" for k in range(n, 2 * n)])
    battles = Battles.from_arrays(left, right, np.zeros(n))
    assert battles.shape == (2 * n,) and battles.n_cells == n
    assert battles.models[:2] == ("model 0", "model 1") and battles.model_index("model 99999") == 2 * n - 1


@pytest.mark.parametrize("where", ["model_a", "model_b", "winner", "task"])
@pytest.mark.parametrize("hole", [None, float("nan")])
@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame])
def test_missing_values_in_each_column(where: str, hole: object, kind: Callable[[Any], Any]) -> None:
    frame: dict[str, list[Any]] = {
        "model_a": ["x", "y"],
        "model_b": ["y", "x"],
        "winner": ["tie"] * 2,
        "task": ["c"] * 2,
    }
    frame[where][1] = None if kind is pl.DataFrame else hole
    with pytest.raises(MissingValueError, match=f"{where} has 1 missing value, the first in row 1"):
        Battles.from_frame(kind(frame), contexts="task")


BAD: list[tuple[dict[str, Any], type[LrbtlError], str]] = [
    ({"model_a": [], "model_b": [], "outcome": []}, EmptyDataError, "no rows"),
    ({"outcome": [1.2, 0]}, OutcomeRangeError, "1.2"),
    ({"outcome": [-0.1, 0]}, OutcomeRangeError, "-0.1"),
    ({"outcome": ["won", "won"]}, UnknownOutcomeError, r"'won' \(2\)"),
    ({"outcome": [1, np.nan]}, MissingValueError, "outcome"),
    ({"outcome": [1]}, LengthMismatchError, "outcome: 1"),
    ({"contexts": [[0, 1, 1]]}, LengthMismatchError, "context 1: 3"),
    ({"counts": [1]}, LengthMismatchError, "counts: 1"),
    ({"counts": [1, -1]}, CountError, "negative"),
    ({"counts": [1, 0.5]}, CountError, "whole"),
    ({"counts": [0, 0]}, EmptyDataError, "count 0"),
    ({"model_a": [0, -1]}, CodeRangeError, "-1"),
    ({"n_models": 2}, CodeRangeError, "code 2 is out of range; codes are 0 to 1"),
    ({"n_models": "3"}, CodeRangeError, "number of models='3': give a whole number"),
    ({"n_models": 10**9}, TooLargeError, "models: there cannot be 1,000,000,000"),
    ({"contexts": [0, 1], "n_levels": 1.5}, CodeRangeError, "context 1=1.5"),
    ({"models": ["x", "y"]}, CodeRangeError, "0 to 1"),
    ({"model_a": [0, 10**9]}, CodeRangeError, "from_frame"),
    ({"contexts": [0, 3], "n_levels": 3}, CodeRangeError, "context 1: code 3"),
    ({"contexts": [0, 1], "n_levels": [2, 2]}, ContextModeError, "2 context modes"),
    ({"contexts": [0, 1], "levels": [["x"], ["y"]]}, ContextModeError, "levels describe 2"),
    ({"models": ["x", "y", "x"]}, LabelError, "'x' more than once"),
    ({"models": ["x", "y", "z"], "n_models": 4}, LabelError, "3 labels were listed for 4"),
    ({"model_a": ["x", "y"], "model_b": ["y", "z"], "n_models": 4}, LabelError, "list them"),
    ({"model_a": ["x", "y"], "model_b": ["y", "zz"], "models": ["x", "y", "z"]}, LabelError, "'zz' is not among"),
    ({"model_a": ["x", "y"]}, MixedLabelError, "number.*str"),
    ({"model_a": ["x", 1], "model_b": ["y", "z"]}, MixedLabelError, "1 "),
    ({"contexts": [["code", 3]]}, MixedLabelError, "context 1 mix"),
    ({"model_a": ["x", "x"], "model_b": ["x", "x"]}, TooFewModelsError, "'x'"),
    ({"model_a": [0, 1], "model_b": [0, 1]}, EmptyDataError, "2 compare a model with itself"),
    ({"model_a": 3}, InputTypeError, "model_a"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_bad_input_is_named(change: dict[str, Any], error: type[LrbtlError], message: str) -> None:
    good: dict[str, Any] = {"model_a": [0, 1], "model_b": [1, 2], "outcome": [1, 0]}
    Battles.from_arrays(**good)
    with pytest.raises(error, match=message):
        Battles.from_arrays(**{**good, **change})


def test_repeated_context_columns_are_refused() -> None:
    frame = {"model_a": ["x"], "model_b": ["y"], "winner": ["tie"], "task": ["code"]}
    with pytest.raises(ContextModeError, match="repeat"):
        Battles.from_frame(frame, contexts=["task", "task"])


def test_warnings_only_for_self_battles() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        battles = lrbtl.Battles.from_arrays([0, 1], [1, 2], [0.25, 0.75])
    assert battles.n_self == 0


def test_labels_of_another_type_are_explained() -> None:
    battles = Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], [[1, 7]])
    with pytest.raises(UnknownContextError, match="labels here are of type int, not str: write 7"):
        battles.context_index("7")
