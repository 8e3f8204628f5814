"""Tables of scores: long and wide frames of every library, scales, bad input, items, features."""

import gzip

import numpy as np
import pytest

import lrbtl
from lrbtl.data.scales import EDGE, PERCENT, REAL, Scale, WorkingScales
from lrbtl.errors import (
    EmptyDataError,
    InputTypeError,
    LrbtlError,
    MissingColumnError,
    ObservationError,
    ScaleError,
    ScoreError,
)

LONG = {
    "model": ["x", "x", "y", "z", "z"],
    "benchmark": ["math", "code", "math", "math", "code"],
    "score": [70.0, 50.0, 60.0, 100.0, 0.0],
}
WIDE = {"model": ["x", "y", "z"], "code": [50.0, None, 0.0], "math": [70.0, 60.0, 100.0]}


def same(one, two):
    assert (one.models, one.levels, one.mode_names, one.scales) == (two.models, two.levels, two.mode_names, two.scales)
    for name in ("a", "context", "y", "count"):
        np.testing.assert_array_equal(getattr(one.cells, name), getattr(two.cells, name))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_every_library_brings_the_same_results(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    known = lrbtl.Results.from_frame(LONG)
    same(lrbtl.Results.from_frame(make(LONG)), known)
    same(lrbtl.Results.from_wide(make(WIDE)), known)


def test_long_and_wide_tables_and_files_agree(tmp_path):
    known = lrbtl.Results.from_frame(LONG)
    assert known.shape == (3, 2) and known.models == ("x", "y", "z") and known.levels == (("code", "math"),)
    np.testing.assert_array_equal(known.measured, [[True, True], [False, True], [True, True]])
    same(lrbtl.Results.from_wide(WIDE), known)
    rows = ["model,benchmark,score", *(f"{a},{b},{c}" for a, b, c in zip(*LONG.values(), strict=True))]
    (tmp_path / "long.csv").write_text("\n".join(rows) + "\n")
    with gzip.open(tmp_path / "wide.csv.gz", "wt") as file:
        file.write("model,code,math\nx,50,70\ny,,60\nz,0,100\n")
    same(lrbtl.Results.scan(tmp_path / "long.csv"), known)
    same(lrbtl.Results.scan(tmp_path / "wide.csv.gz"), known)


def test_further_modes_and_codes():
    frame = {**LONG, "language": ["en", "fr", "en", "en", "fr"]}
    results = lrbtl.Results.from_frame(frame, contexts=["benchmark", "language"])
    assert results.shape == (3, 2, 2) and len(results.scales) == 4
    assert results.context_label(results.context_index(("math", "en"))) == ("math", "en")


def test_scales_are_guessed_and_said():
    frame = {
        "model": ["x", "y"] * 4,
        "benchmark": [name for name in ("share", "percent", "elo", "seconds") for _ in range(2)],
        "score": [0.2, 1.0, 30, 100, 1200, 1500, -3, 4],
    }
    results = lrbtl.Results.from_frame(frame)
    names = dict(zip(results.levels[0], (scale.name for scale in results.scales), strict=True))
    assert names == {"share": "proportion", "percent": "percent", "elo": "real", "seconds": "real"}
    assert "2 real" in results.notes[0] and "scales= names others" in results.notes[0]
    named = lrbtl.Results.from_frame(frame, scales={"elo": (1000, 2000)}, lower_is_better=["seconds"])
    by_name = dict(zip(named.levels[0], named.scales, strict=True))
    assert by_name["elo"] == Scale(1000.0, 2000.0) and not by_name["seconds"].higher_is_better
    assert not lrbtl.Results.from_frame(LONG, scales="percent").notes


def test_working_scales_are_their_formula_and_invert():
    scales = [PERCENT, Scale(0, 100, higher_is_better=False), REAL]
    y, u = np.array([0.0, 35.0, 100.0, 35.0, 3.0, 7.0]), np.array([0, 0, 0, 1, 2, 2])
    working = WorkingScales.of(scales, y, u)
    z = working.forward(y, u)
    share = EDGE + (1 - 2 * EDGE) * y[:3] / 100
    np.testing.assert_allclose(z[:3], np.log(share / (1 - share)))
    assert z[3] == pytest.approx(-z[1]) and z[4:].tolist() == [-1.0, 1.0]
    np.testing.assert_allclose(working.backward(z, u), y, atol=1e-9)
    step = 1e-6
    numeric = np.abs(working.backward(z + step, u) - working.backward(z - step, u)) / (2 * step)
    np.testing.assert_allclose(working.slope(z, u)[1:2], numeric[1:2], rtol=1e-5)
    assert working.backward(np.array([50.0, -50.0]), np.array([0, 0])).tolist() == [100.0, 0.0]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"score": [70.0, 50.0, 60.0, 120.0, 0.0]}, ScoreError, "largest is 120"),
        ({"score": ["70", "good", "60", "90", "0"]}, ScoreError, "'good' in row 1"),
        ({"score": [np.inf, 50.0, 60.0, 90.0, 0.0]}, ScoreError, "infinity in row 0"),
        ({"score": [None] * 5}, EmptyDataError, "no scores"),
        ({"model": [None, "x", "y", "z", "z"]}, LrbtlError, "model has 1 missing"),
    ],
)
def test_bad_scores_are_named(change, error, words):
    with pytest.raises(error, match=words):
        lrbtl.Results.from_frame({**LONG, **change})


def test_bad_scales_and_columns_are_named():
    with pytest.raises(ScaleError, match="'marth', which has no scores; did you mean 'math'"):
        lrbtl.Results.from_frame(LONG, scales={"marth": "real"})
    with pytest.raises(ScaleError, match="none of 'percent'"):
        lrbtl.Results.from_frame(LONG, scales={"math": "logs"})
    with pytest.raises(ScoreError, match="outside of its scale"):
        lrbtl.Results.from_frame(LONG, scales={"math": "proportion"})
    with pytest.raises(MissingColumnError, match="did you mean 'score'"):
        lrbtl.Results.from_frame(LONG, score="scor")
    with pytest.raises(ObservationError, match="contexts is empty"):
        lrbtl.Results.from_frame(LONG, contexts=())
    with pytest.raises(MissingColumnError, match="no column of scores"):
        lrbtl.Results.from_wide({"model": ["x"]})
    with pytest.raises(MissingColumnError, match="name them"):
        lrbtl.forecast({"name": ["x"], "points": [3]})
    with pytest.raises(InputTypeError, match="votes"):
        lrbtl.forecast(lrbtl.demo_battles())


def test_nothing_is_silent():
    frame = {
        "model": ["x", "x", "x", "y", "y", "z"],
        "benchmark": ["a", "a", "a", "a", "b", "b"],
        "score": [50, 50, 52, None, "70%", 70],
    }
    results = lrbtl.Results.from_frame(frame)
    said = " ".join(results.notes)
    assert "1 rows without a score" in said and "1 rows repeat another" in said
    assert "1 cell has several scores that disagree, such as x / a" in said
    assert "all scores are equal in b" in said
    assert results.cells.y.tolist() == [50, 52, 70, 70]
    wide = lrbtl.Results.from_wide({"Model": ["x", "y"], "math [%]": ["50 ", "n/a"], "cost ($)": [3, 200]})
    assert wide.levels == (("cost", "math"),) and "units were taken off" in wide.notes[0] and wide.n_observations == 3


def test_frames_are_guessed():
    frame = {"system": ["x", "y"], "task": ["a", "a"], "accuracy": [0.3, 0.4]}
    board = lrbtl.leaderboard(frame)
    assert board.models[0] == "y" and any("guessed model from column system" in note for note in board.info.notes)


def test_numbers_of_items_are_binomial_noise():
    results = lrbtl.Results.from_frame({**LONG, "n": [100] * 5}, items="n")
    share = results.cells.y / 100
    q = (100 * share + 0.5) / 101
    np.testing.assert_allclose(results.variance, 1e4 * q * (1 - q) / 100)
    given = lrbtl.Results.from_frame({**LONG, "error": [2.0] * 5}, se="error")
    np.testing.assert_allclose(given.variance, 4.0)
    with pytest.raises(ScoreError, match="at least 1"):
        lrbtl.Results.from_frame({**LONG, "n": [100, 0, 1, 1, 1]}, items="n")
    with pytest.raises(ScoreError, match="positive"):
        lrbtl.Results.from_frame({**LONG, "error": [0.0] * 5}, se="error")
    with pytest.raises(ScoreError, match="bounds of all scales"):
        lrbtl.Results.from_frame({**LONG, "n": [100] * 5}, items="n", scales="real")


def test_features_become_a_design():
    table = {
        "model": ["z", "y", "x"],
        "date": ["2025-01-03", "2025", "2025-01-05"],
        "size": [None, 1, 3],
        "family": ["a", None, "b"],
    }
    found = lrbtl.Results.from_frame(LONG, features=table).features
    assert found.names == ("date", "size", "family=a", "family=b")
    assert found.values[:, 1].tolist() == [1.0, -1.0, 0.0] and found.scale[1] == 1.0
    assert found.values[:, 2:].tolist() == [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]] and found.group.tolist() == [0, 1, 2, 2]
    assert np.argsort(found.values[:, 0]).tolist() == [1, 2, 0]
    some = lrbtl.Results.from_frame(LONG, features={"model": ["x", "y"], "size": [1, 2]})
    assert "1 models have no features: z" in some.notes[-1]
    with pytest.raises(ScoreError, match="more than once"):
        lrbtl.Results.from_frame(LONG, features={"model": ["x", "x"], "size": [1, 2]})
    with pytest.raises(MissingColumnError, match="names the models"):
        lrbtl.Results.from_frame(LONG, features={"name": ["x"], "size": [1]})


def test_units_in_headers_say_which_scores_have_no_bounds():
    frame = {"model": ["x", "y"], "math (%)": [10, 20], "time (s)": [3, 5], "price [$]": [1, 2], "elo (Elo)": [9, 12]}
    found = lrbtl.Results.from_wide(frame, lower_is_better=["time (s)"], scales={"elo (Elo)": (0, 100)})
    scales = dict(zip(found.levels[0], found.scales, strict=True))
    assert {name: scale.name for name, scale in scales.items()} == {
        "math": "percent", "time": "real", "price": "real", "elo": "percent"}  # fmt: skip
    assert [name for name, scale in scales.items() if not scale.higher_is_better] == ["time"]
    assert "higher counts as better in price; lower_is_better= names others" in found.notes
    assert any(note == "no bounds, by the unit in the header: time, price" for note in found.notes)


def test_nothing_doubtful_is_silent():
    def notes(models, benchmarks, scores):
        return " | ".join(lrbtl.Results.from_frame({"model": models, "benchmark": benchmarks, "score": scores}).notes)

    assert "only one model, x" in notes(["x", "x"], ["a", "b"], [10, 20])
    assert "only one benchmark, a" in notes(["x", "y"], ["a", "a"], [10, 20])
    assert "scores of 'a' count as per cents, but most are at most 1 and the largest is 1.2" in notes(
        ["x", "y", "z"], ["a"] * 3, [0.7, 0.8, 1.2]
    )
    with pytest.raises(ScoreError, match="decimals need a point, not a comma"):
        notes(["x", "y"], ["a", "a"], ["80,5", "1,250"])
    with pytest.raises(ScoreError, match="give it in a larger unit"):
        notes(["x", "y"], ["a", "a"], [1e300, 2.0])


def test_commas_between_thousands_are_read():
    found = lrbtl.Results.from_frame({"model": ["x", "y"], "benchmark": ["elo"] * 2, "score": ["1,250", "1,300.5"]})
    assert found.cells.y.tolist() == [1250.0, 1300.5]
