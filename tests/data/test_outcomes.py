"""What outcome columns mean: words in any case, numbers, names of the winner, votes that both were bad."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lrbtl
from lrbtl.data.cells import BOTH_BAD
from lrbtl.errors import AmbiguousOutcomeError, InputTypeError, OutcomeRangeError, UnknownOutcomeError


def outcomes(winner: Any, **options: Any) -> list[float]:
    """Outcomes of rows between x and y, in the order of the rows; NaN for rows that were dropped."""
    n = len(winner)
    frame = {"model_a": ["x"] * n, "model_b": ["y"] * n, "winner": winner, "row": [f"{k:03d}" for k in range(n)]}
    battles = lrbtl.Battles.from_frame(frame, contexts="row", **options)
    found = dict(zip([battles.levels[0][u] for u in battles.cells.context], battles.cells.y.tolist(), strict=True))
    return [found.get(row, np.nan) for row in frame["row"]]


def test_words_numbers_and_mappings():
    words = ["model_a", "model_b", "tie", "both_bad", "tie (bothbad)", "tie (inconsistent)"]
    assert outcomes(words) == [1.0, 0.0, 0.5, 0.5, 0.5, 0.5]
    assert outcomes([True, False]) == [1.0, 0.0]
    assert outcomes([0.3, 1, 0]) == [0.3, 1.0, 0.0]
    assert outcomes(["0.3", "1", "tie"]) == [0.3, 1.0, 0.5]
    assert outcomes(["L", "model_a"], outcomes={"L": 0.25, "model_a": 0}) == [0.25, 0.0]
    assert outcomes(["links", "schlecht"], outcomes={"links": "model_a", "schlecht": "both_bad"}) == [1.0, 0.5]
    assert outcomes([1, 2], outcomes={1: 1.0, 2: 0.0}) == [1.0, 0.0]
    np.testing.assert_equal(outcomes(["model_a", "skip"], outcomes={"skip": None}), [1.0, np.nan])


def test_common_words_in_any_case():
    assert outcomes(["Model_A", "A", "left", "FIRST", "A>B", "A>>B", "Model A"]) == [1.0] * 7
    assert outcomes(["Model_B", "b", "Right", "second", "B>A", "A<<B"]) == [0.0] * 6
    assert outcomes(["TIE", "Draw", "equal", "A=B", "Both bad", "neither"]) == [0.5] * 6


def test_unknown_words_and_numbers_are_named():
    with pytest.raises(UnknownOutcomeError, match=r"'hm' \(2\), 'oh' \(1\)"):
        outcomes(["hm", "hm", "oh", "tie"])
    with pytest.raises(UnknownOutcomeError, match="did you mean 'x'"):
        outcomes(["x", "X "])
    with pytest.raises(UnknownOutcomeError, match="'won'"):
        outcomes(["L"], outcomes={"L": "won"})
    with pytest.raises(OutcomeRangeError, match=r"outcome 1\.2 \(2 rows\)"):
        outcomes([1.2, 0.5, 1.2])
    with pytest.raises(OutcomeRangeError, match="meaning -1"):
        outcomes(["lost"], outcomes={"lost": -1})
    with pytest.raises(OutcomeRangeError):
        outcomes([float("inf"), 1.0])
    with pytest.raises(InputTypeError, match="outcomes='left': give a mapping"):
        outcomes(["a"], outcomes="left")
    with pytest.raises(InputTypeError, match="both_bad='keep' is not known"):
        outcomes(["tie"], both_bad="keep")


def test_unused_categories_of_the_outcome_do_not_matter():
    winner = pd.Series(pd.Categorical(["tie", "model_a"], categories=["tie", "unheard of", "model_a"]))
    frame = pd.DataFrame({"model_a": ["x", "x"], "model_b": ["y", "y"], "winner": winner})
    assert lrbtl.Battles.from_frame(frame).cells.y.tolist() == [0.5, 1.0]


def test_both_bad():
    words = ["model_a", "tie", "tie (bothbad)", "both_bad"]
    assert outcomes(words) == [1.0, 0.5, 0.5, 0.5]
    np.testing.assert_equal(outcomes(words, both_bad="drop"), [1.0, 0.5, np.nan, np.nan])
    assert outcomes(words, both_bad="outcome") == [1.0, 0.5, BOTH_BAD, BOTH_BAD]


# ------------------------------------------------------------------------------
# The name of the winner.
# ------------------------------------------------------------------------------

BATTLE = st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(["a", "b", "tie"])).filter(
    lambda row: row[0] != row[1]
)


def same(left: lrbtl.Battles, right: lrbtl.Battles) -> None:
    assert left.models == right.models
    for name in ("context", "a", "b", "y", "count"):
        np.testing.assert_array_equal(getattr(left.cells, name), getattr(right.cells, name))


@given(st.lists(BATTLE, min_size=1, max_size=30), st.sampled_from([str, int]))
def test_names_and_words_mean_the_same(rows, kind):
    names = [kind(10 + k) if kind is int else f"m{k}" for k in range(4)]
    log = {"model_a": [names[a] for a, _, _ in rows], "model_b": [names[b] for _, b, _ in rows]}
    words = {"a": "model_a", "b": "model_b", "tie": "tie"}
    by_word = {**log, "winner": [words[w] for *_, w in rows]}
    by_name = {**log, "winner": [names[a] if w == "a" else names[b] if w == "b" else "tie" for a, b, w in rows]}
    found = lrbtl.Battles.from_frame(by_name)
    same(lrbtl.Battles.from_frame(by_word), found)
    won = {(names[a] if w == "a" else names[b]) for a, b, w in rows if w != "tie"}
    winners = {
        found.models[a if y == 1 else b]
        for a, b, y in zip(found.cells.a, found.cells.b, found.cells.y, strict=True)
        if y != 0.5
    }
    assert found.n_battles == len(rows) and winners == won


def test_numbers_name_the_winner_only_where_they_are_no_outcomes():
    log = {"model_a": [0, 1, 7], "model_b": [1, 7, 0]}
    battles = lrbtl.Battles.from_frame({**log, "winner": [1, 7, 0]})
    assert battles.win_rates.tolist() == [0.5, 0.5, 0.5]
    assert lrbtl.Battles.from_frame({**log, "winner": [1, 1, 0]}).win_rates.tolist() == [1.0, 0.5, 0.0]
    with pytest.raises(OutcomeRangeError):
        lrbtl.Battles.from_frame({**log, "winner": [1, 3, 0]})


def test_column_names_are_words():
    log = {"home_team": ["x", "y"], "away_team": ["y", "x"], "result": ["home_team", "away"]}
    battles = lrbtl.Battles.from_frame(log, model_a="home_team", model_b="away_team", winner="result")
    assert battles.win_rates.tolist() == [1.0, 0.0]


def test_a_model_that_did_not_play_is_no_winner():
    log = {"model_a": ["x", "y"], "model_b": ["y", "z"], "winner": ["x", "x"]}
    with pytest.raises(UnknownOutcomeError, match=r"not in the battle in 1 rows, the first is row 1 \('x'\)"):
        lrbtl.Battles.from_frame(log)


def test_a_name_that_is_also_a_word():
    sides = {"model_a": ["a", "b", "c"], "model_b": ["b", "c", "a"]}
    words = lrbtl.Battles.from_frame({**sides, "winner": ["a", "a", "b"]})  # b against c was won by the first side
    assert words.win_rates.tolist() == [1.0, 0.5, 0.0]
    agreeing = {"model_a": ["a", "a"], "model_b": ["b", "b"], "winner": ["a", "b"]}
    assert lrbtl.Battles.from_frame(agreeing).cells.y.tolist() == [0.0, 1.0]
    unclear = {"model_a": ["a", "b"], "model_b": ["b", "a"], "winner": ["a", "a"]}
    with pytest.raises(AmbiguousOutcomeError, match=r"outcomes=\{'a': 1\}"):
        lrbtl.Battles.from_frame(unclear)
    meant = lrbtl.Battles.from_frame(unclear, outcomes={"a": 1})
    assert meant.win_rates.tolist() == [0.5, 0.5]


def test_codes_name_the_winner():
    battles = lrbtl.Battles.from_arrays([0, 1, 2], [1, 2, 0], [1, 2, 0], n_models=3)
    assert battles.win_rates.tolist() == [0.5, 0.5, 0.5]
