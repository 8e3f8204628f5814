"""Tags: votes with several categories count once, and a tag stands for the sets that contain it, everywhere."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lrbtl
from lrbtl.cli.main import main
from lrbtl.data.columns import Columns
from lrbtl.data.frames import read_battles
from lrbtl.data.tags import read_tags
from lrbtl.errors import ContextModeError, ExplodedRowsWarning, InputTypeError, TagError, UnknownContextError

SETS = [["math"], ["code", "math"], [], ["code"], ["math", "creative"]]


def log(n=4000, models=6, seed=0):
    """A log of votes with sets of tags, by which scores differ."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(models, len(SETS)))
    a = rng.integers(0, models, n)
    b = (a + rng.integers(1, models, n)) % models
    which = rng.choice(len(SETS), n, p=[0.3, 0.2, 0.2, 0.2, 0.1])
    won = rng.random(n) < 1 / (1 + np.exp(scores[b, which] - scores[a, which]))
    return {
        "model_a": [f"m{k}" for k in a],
        "model_b": [f"m{k}" for k in b],
        "winner": np.where(won, "model_a", "model_b").tolist(),
        "tags": [SETS[k] for k in which],
        "language": rng.choice(["de", "fr"], n).tolist(),
    }


LOG = log()
BATTLES = lrbtl.Battles.from_frame(LOG, tags="tags")


@pytest.fixture(scope="module")
def boards():
    return lrbtl.leaderboard(BATTLES, context="all", rank=1)


def test_every_way_to_write_tags_means_the_same():
    expected = read_tags(LOG, "tags")
    names = ["math", "code", "creative"]
    flags = {name: [int(name in row) for row in LOG["tags"]] for name in names}
    columns = {
        "objects": pd.Series(LOG["tags"]),
        "polars": pl.Series(LOG["tags"], dtype=pl.List(pl.String)),
        "arrow": pa.chunked_array([pa.array(LOG["tags"], pa.list_(pa.string()))]),
        "text": [";".join(row) for row in LOG["tags"]],
        "pipes": pd.Series([" | ".join(row) for row in LOG["tags"]]),
        "written lists": [str(row) for row in LOG["tags"]],
        "repeated": [row + row for row in LOG["tags"]],
        "missing": [row or None for row in LOG["tags"]],
        "nan": [row or float("nan") for row in LOG["tags"]],
        "array": np.array([",".join(row) for row in LOG["tags"]]),
    }
    for column in columns.values():
        found = read_tags({"t": column}, "t")
        assert [found.labels[k] for k in found.codes] == [expected.labels[k] for k in expected.codes]
    for kind in (list, np.array, pd.Series, lambda x: pl.Series(x).cast(pl.Boolean), lambda x: [str(k) for k in x]):
        found = read_tags({name: kind(column) for name, column in flags.items()}, names)
        assert [found.labels[k] for k in found.codes] == [expected.labels[k] for k in expected.codes]


def test_one_column_of_zeros_and_ones_is_a_tag():
    for column in ([0, 1], np.array([0, 1]), pd.Series([False, True]), ["0", "1"]):
        found = read_tags({"hard": column}, "hard")
        assert [found.labels[k] for k in found.codes] == ["{}", "{hard}"]


def test_votes_count_once_and_an_empty_list_is_a_set_of_its_own():
    assert BATTLES.n_battles == len(LOG["winner"])
    assert BATTLES.levels == (("{code, math}", "{code}", "{creative, math}", "{math}", "{}"),)
    assert BATTLES.tags == ("code", "creative", "math")
    assert BATTLES.context_indices("math").tolist() == [0, 2, 3]
    assert BATTLES.select(contexts=["code"]).levels == (("{code, math}", "{code}"),)
    assert BATTLES.select(contexts=["code"]).tags == ("code", "math")
    assert BATTLES.pooled().tags == ()


def test_boards_of_tags_are_means_over_their_sets(boards):
    assert list(boards) == ["code", "creative", "math"]
    analysis = lrbtl.analyse(BATTLES, rank=1)
    at = BATTLES.context_indices("math")
    weights = BATTLES.context_counts[at] / BATTLES.context_counts[at].sum()
    mean = analysis.scores()[:, at] @ weights
    order = [BATTLES.model_index(model) for model in boards["math"].models]
    np.testing.assert_allclose(boards["math"].score, 1000 + 400 / np.log(10) * mean[order], atol=1e-6)
    assert boards["math"].battles.sum() == 2 * BATTLES.context_counts[at].sum()


def test_one_question_has_one_answer(boards):
    board, (x, y) = boards["math"], boards["math"].models[:2]
    alone = lrbtl.leaderboard(BATTLES, context="math", rank=1)
    assert alone.context == "math"
    for name in ("score", "lower", "upper", "se", "rank_lower"):
        np.testing.assert_allclose(getattr(alone, name), getattr(board, name), rtol=1e-9)
    targets = [lrbtl.score(x, "math"), lrbtl.gap(x, y, "math"), lrbtl.win_probability(x, y, "math")]
    found = lrbtl.infer(BATTLES, targets, rank=1)
    assert found.labels[0] == f"score({x}, math)"
    elo = 400 / np.log(10)
    np.testing.assert_allclose(elo * found.estimate[0], board.score[0] - 1000, rtol=1e-9)
    np.testing.assert_allclose(elo * found.se[0], board.se[0], rtol=1e-9)
    duel = lrbtl.compare(BATTLES, x, y, rank=1)
    assert duel.contexts == ("overall", "code", "creative", "math")
    np.testing.assert_allclose(duel.gap[3], elo * found.estimate[1], rtol=1e-9)
    matrix = lrbtl.win_matrix(BATTLES, "math", rank=1)
    assert matrix.context == "math"
    x_place, y_place = map(boards.models.index, (x, y))
    chances = [matrix.win[0, 1], duel.win[3], found.estimate[2], boards.win["math"][x_place, y_place]]
    np.testing.assert_allclose(chances, chances[0], rtol=1e-9)
    np.testing.assert_allclose([matrix.lower[0, 1], duel.win_lower[3]], found.conf_int()[2, 0], rtol=1e-9)


def test_a_set_can_be_asked_for_and_weights_name_tags():
    assert lrbtl.leaderboard(BATTLES, context="{code, math}", rank=1).context == "{code, math}"
    given = lrbtl.infer(BATTLES, lrbtl.score("m1", weights={"math": 3, "code": 1}), rank=1)
    parts = lrbtl.infer(BATTLES, [lrbtl.score("m1", "math"), lrbtl.score("m1", "code")], rank=1)
    weighted = lrbtl.infer(BATTLES, lrbtl.weighted_score("m1", {"math": 0.75, "code": 0.25}), rank=1)
    np.testing.assert_allclose([given.estimate[0], weighted.estimate[0]], parts.estimate @ [0.75, 0.25])
    np.testing.assert_allclose(given.se, np.sqrt([0.75, 0.25] @ parts.cov @ [0.75, 0.25]))


def test_tags_beside_a_further_context():
    battles = lrbtl.Battles.from_frame(LOG, tags="tags", contexts="language")
    assert battles.shape == (6, 5, 2) and battles.mode_names == ("tags", "language")
    boards = lrbtl.leaderboard(battles, context="all", rank=1)
    assert list(boards)[:2] == [("code", "de"), ("code", "fr")]
    one = lrbtl.leaderboard(battles, context=("math", "fr"), rank=1)
    np.testing.assert_allclose(one.score, boards["math", "fr"].score)
    both = lrbtl.leaderboard(battles, context={"tags": "math"}, rank=1)
    assert both.context == ("math", None)
    assert battles.context_indices("math / fr").tolist() == [1, 5, 7]


def test_other_methods_and_packages_know_tags():
    plain = lrbtl.leaderboard(BATTLES, context="math", compat="fastchat")
    assert plain.battles.sum() == 2 * BATTLES.context_counts[BATTLES.context_indices("math")].sum()
    assert list(lrbtl.leaderboard(BATTLES, context="all", compat="fastchat")) == ["code", "creative", "math"]
    assert lrbtl.leaderboard(BATTLES, context="math", method="naive").context == "math"


def test_unknown_tags_and_bad_columns():
    with pytest.raises(UnknownContextError, match="unknown tag 'maths'; did you mean"):
        lrbtl.leaderboard(BATTLES, context="maths")
    with pytest.raises(ContextModeError, match="'math' is a tag of 3 sets"):
        BATTLES.context_index("math")
    assert BATTLES.context_index("creative") == 2
    with pytest.raises(TagError, match="holds 2"):
        read_tags({"x": [0, 2]}, ["x"])
    with pytest.raises(TagError, match="empty list"):
        read_tags({}, [])
    with pytest.raises(TagError, match="in row 1"):
        read_tags({"x": [["a"], 3, 4]}, "x")
    with pytest.raises(TagError, match="a tag is called 'a, b'"):
        read_tags({"x": [["a, b"]]}, "x")
    with pytest.raises(InputTypeError, match="x is a str"):
        read_tags({"x": "math"}, "x")


@given(st.permutations(range(60)), st.permutations(["math", "code", "creative"]))
def test_neither_order_of_rows_nor_of_tags_matters(rows, order):
    frame = {name: [column[k] for k in rows] for name, column in log(60).items()}
    frame["tags"] = [sorted(row, key=order.index) for row in frame["tags"]]
    left, right = lrbtl.Battles.from_frame(frame, tags="tags"), lrbtl.Battles.from_frame(log(60), tags="tags")
    assert left.levels == right.levels
    for name in ("context", "a", "b", "y", "count"):
        np.testing.assert_array_equal(getattr(left.cells, name), getattr(right.cells, name))


def test_files_and_the_command_line(tmp_path, capsys):
    frame = pd.DataFrame({**LOG, "text": [";".join(row) for row in LOG["tags"]]})
    for name in ("math", "code", "creative"):
        frame[name] = [int(name in row) for row in LOG["tags"]]
    frame.drop(columns="tags").to_csv(tmp_path / "log.csv", index=False)
    frame.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "log.parquet")
    routes = [("log.csv", ("text",)), ("log.csv", ("math", "code", "creative")), ("log.jsonl", ("tags",))]
    routes += [("log.parquet", ("tags",)), ("log.parquet", ("math", "code", "creative"))]
    for file, tags in routes:
        found = read_battles(tmp_path / file, Columns(tags=tags)).battles
        assert (found.levels, found.tags) == (BATTLES.levels, BATTLES.tags)
        np.testing.assert_array_equal(found.cells.count, BATTLES.cells.count)
    assert main(["leaderboard", str(tmp_path / "log.csv"), "--tags", "math,code,creative", "--board", "math"]) == 0
    assert "Leaderboard, math" in capsys.readouterr().out
    assert main(["leaderboard", str(tmp_path / "log.csv"), "--tags", "text", "--context", "language", "--quiet"]) == 0


def test_tags_are_saved(tmp_path):
    BATTLES.save(tmp_path / "state")
    assert lrbtl.Battles.load(tmp_path / "state").tags == BATTLES.tags
    assert (BATTLES + BATTLES).tags == BATTLES.tags


# ------------------------------------------------------------------------------
# Rows that were exploded by hand.
# ------------------------------------------------------------------------------


def exploded(**columns):
    frame = pd.DataFrame({**log(3000), **columns}).drop(columns="language")
    frame["tags"] = [row or ["none"] for row in frame["tags"]]
    return frame.explode("tags")


def test_exploded_rows_are_noticed():
    with pytest.warns(ExplodedRowsWarning, match=r"% of the rows.*neighbouring rows.*tags="):
        lrbtl.Battles.from_frame(exploded(), contexts="tags")
    ids = [f"c{k}" for k in range(3000)]
    shuffled = exploded(conversation=ids, judged=[None] * 3000).sample(frac=1, random_state=0)
    for kind in (lambda x: x, pl.from_pandas, lambda x: x.to_dict("list")):
        with pytest.warns(ExplodedRowsWarning, match="same conversation"):
            lrbtl.Battles.from_frame(kind(shuffled), contexts="tags")


def test_exploded_files_are_noticed(tmp_path, capsys):
    exploded().to_csv(tmp_path / "log.csv", index=False)
    assert main(["leaderboard", str(tmp_path / "log.csv"), "--context", "tags", "--quiet"]) == 0
    assert "copies of votes under several labels of tags" in capsys.readouterr().err


def test_what_is_no_copy_is_left_alone():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(log(3000)).drop(columns="tags")
    frame["category"] = rng.choice(["a", "b", "c", "d"], 3000)
    frame["voter"] = rng.integers(0, 300, 3000)
    balanced = pd.DataFrame(
        [(f"m{i}", f"m{j}", w, c) for i in range(8) for j in range(i) for w in (0, 1, 1) for c in "abcdefgh"],
        columns=["model_a", "model_b", "winner", "category"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for log_ in (frame, frame.sort_values(["model_a", "model_b", "winner"]), frame.iloc[:40]):
            assert lrbtl.Battles.from_frame(log_, contexts="category").n_battles == len(log_)
        balanced["winner"] = rng.permutation(balanced["winner"].to_numpy())
        assert lrbtl.Battles.from_frame(balanced, contexts="category").n_battles == len(balanced)
        counted = exploded().assign(n=1)
        assert lrbtl.Battles.from_frame(counted, contexts="tags", count="n").n_battles == len(counted)
