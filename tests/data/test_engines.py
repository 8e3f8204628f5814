"""The same log by every route: frames in memory, engines that group it where it lives, files, a saved state."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

import lrbtl
from lrbtl.errors import InputTypeError, MissingColumnError, MissingValueError, UnknownOutcomeError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
# Engines warn of what becomes of the libraries below them; these warnings are not ours.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
LOG = {"contexts": ["task", "language"], "outcomes": {"links": 1, "skip": None}}


def log_rows(n=3000):
    """A log with words of its own, rows to drop, and models that only occur on one side."""
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 12, n), rng.integers(3, 15, n)
    b = np.where(a == b, b + 1, b)
    return {
        "model_a": [f"model {k:02d}" for k in a],
        "model_b": [f"model {k:02d}" for k in b],
        "winner": rng.choice(["model_a", "model_b", "tie", "links", "skip"], n).tolist(),
        "task": rng.choice(["code", "maths", "chat"], n).tolist(),
        "language": rng.integers(0, 3, n).tolist(),
        "n": rng.integers(0, 4, n).tolist(),
        "text": ["not needed"] * n,
        "tokens_a": rng.integers(1, 900, n).tolist(),
        "tokens_b": rng.integers(1, 900, n).tolist(),
        "voter": [f"voter {k}" for k in rng.integers(0, 200, n)],
    }


@pytest.fixture(scope="module")
def rows():
    return log_rows()


@pytest.fixture(scope="module")
def table(rows):
    return pa.table(rows)


@pytest.fixture(scope="module")
def file(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(table, path)
    return str(path)


def pandas_frame(file):
    return pytest.importorskip("pandas").read_parquet(file)


def polars_frame(file):
    return pytest.importorskip("polars").read_parquet(file)


def polars_lazy(file):
    return pytest.importorskip("polars").scan_parquet(file)


def arrow_table(file):
    return pq.read_table(file)


def duckdb_relation(file):
    return pytest.importorskip("duckdb").connect().from_parquet(file)


def ibis_table(file):
    pytest.importorskip("duckdb")
    return pytest.importorskip("ibis").duckdb.connect().read_parquet(file)


def dask_frame(file):
    return pytest.importorskip("dask.dataframe").read_parquet(file)


def sqlframe_frame(file):
    pytest.importorskip("duckdb")
    return pytest.importorskip("sqlframe.duckdb").DuckDBSession().read.parquet(file)


@pytest.fixture(scope="module")
def spark():
    """One Spark session for all tests."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        pytest.skip("PySpark or Java is not installed")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    yield session
    session.stop()


EAGER = [pandas_frame, polars_frame, arrow_table]
LAZY = [polars_lazy, duckdb_relation, ibis_table, dask_frame, sqlframe_frame]


def assert_same(one, other):
    assert (one.models, one.levels, one.mode_names) == (other.models, other.levels, other.mode_names)
    assert one.n_self == other.n_self
    for name in ("context", "a", "b", "y", "count", "start", "slopes", "clusters"):
        np.testing.assert_array_equal(getattr(one.cells, name), getattr(other.cells, name))


def boards_of(battles):
    """The default boards of all categories, as they are written."""
    return lrbtl.leaderboard(battles, context="all", rank=1).to_dict()


@pytest.fixture(scope="module")
def boards(rows):
    return boards_of(lrbtl.Battles.from_frame(rows, **LOG))


def check_route(frame, rows):
    """A frame gives the battles of the rows, plain and with counts, and says what is wrong with it."""
    assert_same(lrbtl.Battles.from_frame(frame, **LOG), lrbtl.Battles.from_frame(rows, **LOG))
    counted = lrbtl.Battles.from_frame(frame, count="n", **LOG)
    assert_same(counted, lrbtl.Battles.from_frame(rows, count="n", **LOG))
    carried = {"covariates": {"length": ("tokens_a", "tokens_b")}, "cluster": "voter"}
    assert_same(lrbtl.Battles.from_frame(frame, **LOG, **carried), lrbtl.Battles.from_frame(rows, **LOG, **carried))
    with pytest.raises(MissingColumnError, match="did you mean 'winner'"):
        lrbtl.Battles.from_frame(frame, winner="winer")
    n_links = rows["winner"].count("links")
    with pytest.raises(UnknownOutcomeError, match=rf"'links' \({n_links}\)"):
        lrbtl.Battles.from_frame(frame, outcomes={"skip": None})


@pytest.mark.parametrize("route", [*EAGER, *LAZY], ids=lambda route: route.__name__)
def test_every_frame_gives_the_same_cells(route, file, rows):
    check_route(route(file), rows)


@pytest.mark.engines
def test_spark_gives_the_same_cells(spark, file, rows):
    check_route(spark.read.parquet(file), rows)


@pytest.mark.parametrize("route", LAZY, ids=lambda route: route.__name__)
def test_missing_values_are_counted_in_the_engine(route, tmp_path):
    columns = {"model_a": ["x", None, None, "x"], "model_b": ["y"] * 4, "winner": [1.0, 0.5, 0.5, 1.0]}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    with pytest.raises(MissingValueError, match="model_a has 2 missing values"):
        lrbtl.Battles.from_frame(route(str(tmp_path / "log.parquet")))
    columns = {"model_a": ["x"] * 4, "model_b": ["y"] * 4, "winner": [1.0, float("nan"), 0.5, 1.0]}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    with pytest.raises(MissingValueError, match="winner has 1 missing value;"):
        lrbtl.Battles.from_frame(route(str(tmp_path / "log.parquet")))


@pytest.mark.parametrize("route", [*EAGER, *LAZY], ids=lambda route: route.__name__)
def test_every_frame_gives_the_same_boards(route, file, boards):
    assert boards_of(lrbtl.Battles.from_frame(route(file), **LOG)) == boards


@pytest.mark.engines
def test_spark_gives_the_same_boards(spark, file, boards):
    assert boards_of(lrbtl.Battles.from_frame(spark.read.parquet(file), **LOG)) == boards


def test_python_objects_in_a_lazy_frame_are_refused():
    """Counting them is left to polars, which panics on some."""
    pl = pytest.importorskip("polars")
    words = pl.Series(["model_a", {1}], dtype=pl.Object)
    frame = pl.LazyFrame({"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": words})
    with pytest.raises(InputTypeError, match="winner holds Python objects"):
        lrbtl.Battles.from_frame(frame)


def test_files_folders_and_states_give_the_same_cells_and_boards(file, rows, boards, tmp_path):
    expected = lrbtl.Battles.from_frame(rows, **LOG)
    expected.save(tmp_path / "state.lrbtl")
    ways = [lrbtl.Battles.scan(source, **LOG) for source in (file, Path(file).parent, f"{Path(file).parent}/*.parquet")]
    for way in [*ways, lrbtl.Battles.load(tmp_path / "state.lrbtl")]:
        assert_same(way, expected)
        assert boards_of(way) == boards
