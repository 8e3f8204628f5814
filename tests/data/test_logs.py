"""Logs that are scanned: the same battles as from a frame, whatever brings the rows."""

import gzip
import io
import json
from typing import Any

import numpy as np
import pytest

import lrbtl
import lrbtl.data.group
import lrbtl.data.logs
import lrbtl.data.text
from lrbtl.errors import (
    EmptyDataError,
    ExplodedRowsWarning,
    FileReadError,
    InputTypeError,
    MissingColumnError,
    MissingExtraError,
    MissingValueError,
)

pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")
OPTIONS = {"contexts": "task"}


def make_rows(n=500, seed=0):
    rng = np.random.default_rng(seed)
    models = rng.integers(0, 9, (n, 2))
    models[:, 1] += models[:, 0] == models[:, 1]
    return {
        "model_a": [f"m{k}" for k in models[:, 0]],
        "model_b": [f"m{k}" for k in models[:, 1]],
        "winner": rng.choice(["model_a", "model_b", "tie"], n).tolist(),
        "task": rng.choice(["p", "q"], n).tolist(),
        "n": rng.integers(0, 3, n).tolist(),
        "day": np.repeat([1, 2, 3, 4, 5], n // 5).tolist(),
    }


@pytest.fixture
def rows():
    return make_rows()


@pytest.fixture
def parquet(rows, tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(rows), path, row_group_size=100)
    return path


def csv_bytes(rows, delimiter=","):
    lines = [delimiter.join(rows)] + [delimiter.join(map(str, row)) for row in zip(*rows.values(), strict=True)]
    return ("\n".join(lines) + "\n").encode()


def json_bytes(rows):
    return "".join(
        json.dumps(dict(zip(rows, row, strict=True))) + "\n" for row in zip(*rows.values(), strict=True)
    ).encode()


def parquet_bytes(rows):
    stream = io.BytesIO()
    pq.write_table(pa.table(rows), stream)
    return stream.getvalue()


WRITERS = {"csv": csv_bytes, "tsv": lambda rows: csv_bytes(rows, "\t"), "jsonl": json_bytes, "parquet": parquet_bytes}


def assert_same(one, other):
    assert (one.models, one.levels, one.mode_names) == (other.models, other.levels, other.mode_names)
    for name in ("context", "a", "b", "y", "count", "start"):
        np.testing.assert_array_equal(getattr(one.cells, name), getattr(other.cells, name))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", WRITERS)
def test_files_and_streams(kind, packed, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(lrbtl.data.text, "CHUNK_ROWS", 70)
    monkeypatch.setattr(lrbtl.data.logs, "BATCH_ROWS", 70)
    data = WRITERS[kind](rows)
    data = gzip.compress(data) if packed else data
    path = tmp_path / f"log.{kind}{'.gz' * packed}"
    path.write_bytes(data)
    expected = lrbtl.Battles.from_frame(rows, **OPTIONS)
    with path.open("rb") as stream:
        for source in (path, str(path), io.BytesIO(data), stream):
            assert_same(lrbtl.Battles.scan(source, **OPTIONS), expected)
    counted = lrbtl.Battles.scan(path, count="n", **OPTIONS)
    assert_same(counted, lrbtl.Battles.from_frame(rows, count="n", **OPTIONS))


def test_folders_patterns_and_lists(rows, tmp_path):
    days = [make_rows(seed=k) for k in range(4)]
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    for k, (kind, day) in enumerate(zip(["parquet", "csv", "jsonl", "parquet"], days, strict=True)):
        (tmp_path / "logs" / ("deep" if k == 3 else "") / f"day{k}.{kind}").write_bytes(WRITERS[kind](day))
    (tmp_path / "logs" / ".hidden.csv").write_text("nothing")
    (tmp_path / "logs" / "notes.md").write_text("nothing")
    parts = [lrbtl.Battles.from_frame(day, **OPTIONS) for day in days]
    assert_same(lrbtl.Battles.scan(tmp_path / "logs", **OPTIONS), sum(parts))
    assert_same(lrbtl.Battles.scan(tmp_path / "logs" / "*.parquet", **OPTIONS), parts[0])
    assert_same(lrbtl.Battles.scan(f"{tmp_path}/logs/**/*.parquet", **OPTIONS), parts[0] + parts[3])
    two = [tmp_path / "logs" / "day1.csv", tmp_path / "logs" / "deep"]
    assert_same(lrbtl.Battles.scan(two, **OPTIONS), parts[1] + parts[3])
    with pytest.raises(FileReadError, match="no file matches"):
        lrbtl.Battles.scan(tmp_path / "*.pq")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileReadError, match="holds no file that ends in"):
        lrbtl.Battles.scan(tmp_path / "empty")
    with pytest.raises(MissingColumnError, match="no column 'day2'"):
        lrbtl.Battles.scan(tmp_path / "logs", contexts="day2")


def test_a_later_file_lacks_a_column(rows, tmp_path):
    (tmp_path / "a.csv").write_bytes(csv_bytes(rows))
    (tmp_path / "b.csv").write_text("model_a,model_b,winner\nx,y,tie\n")
    with pytest.raises(MissingColumnError, match=r"b\.csv has no column 'task'"):
        lrbtl.Battles.scan(tmp_path, **OPTIONS)


def test_arrow_datasets_readers_and_frames(rows, parquet):
    expected = lrbtl.Battles.from_frame(rows, **OPTIONS)
    table = pa.table(rows)
    coded = table.set_column(0, "model_a", table["model_a"].dictionary_encode())
    for source in (
        ds.dataset(parquet),
        ds.dataset(coded),
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=90)),
        coded.to_reader(max_chunksize=90),
        table,
        rows,
    ):
        assert_same(lrbtl.Battles.scan(source, **OPTIONS), expected)
    late = ds.dataset(parquet).filter(ds.field("day") > 3)
    chosen = {name: column[300:] for name, column in rows.items()}
    assert_same(lrbtl.Battles.scan(late, **OPTIONS), lrbtl.Battles.from_frame(chosen, **OPTIONS))


def test_conditions_choose_rows_and_row_groups(rows, parquet, tmp_path):
    chosen = lrbtl.Battles.from_frame({name: column[300:] for name, column in rows.items()}, **OPTIONS)
    for where in ([("day", ">", 3)], ds.field("day") > 3, [("day", "in", [4, 5])]):
        assert_same(lrbtl.Battles.scan(parquet, where=where, **OPTIONS), chosen)
    with parquet.open("rb") as stream:
        assert_same(lrbtl.Battles.scan(stream, where=[("day", ">", 3)], **OPTIONS), chosen)
    # Row groups that cannot hold such rows are not read: damage to their pages goes unnoticed.
    column = pq.ParquetFile(parquet).metadata.row_group(0).column(0)
    data = bytearray(parquet.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    data[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    parquet.write_bytes(data)
    assert_same(lrbtl.Battles.scan(parquet, where=[("day", ">", 3)], **OPTIONS), chosen)
    with pytest.raises(FileReadError):
        lrbtl.Battles.scan(parquet, **OPTIONS)


def test_folders_may_be_partitions(rows, tmp_path):
    for day in range(1, 6):
        part = {
            name: [x for x, d in zip(column, rows["day"], strict=True) if d == day] for name, column in rows.items()
        }
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(
            pa.table({k: v for k, v in part.items() if k != "day"}), tmp_path / f"day={day}" / "part.parquet"
        )
    whole = lrbtl.Battles.scan(tmp_path, contexts=["task", "day"])
    assert_same(whole, lrbtl.Battles.from_frame(rows, contexts=["task", "day"]))
    late = lrbtl.Battles.scan(tmp_path, where=[("day", "==", 5)], **OPTIONS)
    assert late.n_battles == 100


@pytest.mark.parametrize("source", ["csv", "reader", "frame"])
def test_conditions_elsewhere_are_refused(source, rows, tmp_path):
    (tmp_path / "log.csv").write_bytes(csv_bytes(rows))
    log = {"csv": tmp_path / "log.csv", "reader": pa.table(rows).to_reader(), "frame": pa.table(rows)}[source]
    with pytest.raises(InputTypeError, match="`where` is for"):
        lrbtl.Battles.scan(log, where=[("day", ">", 3)])
    with pytest.raises(InputTypeError, match="not a list of conditions"):
        lrbtl.Battles.scan(ds.dataset(pa.table(rows)), where=[("day", "about", 3)])


def test_a_later_file_holds_a_column_otherwise(rows, tmp_path):
    more = pa.table(make_rows(seed=1))
    small = more.set_column(more.schema.get_field_index("n"), "n", more["n"].cast(pa.int8()))
    for name, table in {"a": pa.table(rows), "b": small, "c": more.drop_columns("task")}.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    both = [lrbtl.Battles.from_frame(part, count="n") for part in (rows, make_rows(seed=1))]
    assert_same(lrbtl.Battles.scan([tmp_path / "a.parquet", tmp_path / "b.parquet"], count="n"), sum(both))
    with pytest.raises(MissingValueError, match="rows after the first 500, task has 500 missing values"):
        lrbtl.Battles.scan([tmp_path / "a.parquet", tmp_path / "c.parquet"], **OPTIONS)


def test_damaged_codes_are_noticed(tmp_path):
    """Arrow does not look whether codes are in the dictionary; a kernel that trusts them writes anywhere."""
    path = tmp_path / "log.parquet"
    sides = {"model_a": ["x", "y", "z"] * 50, "model_b": ["y", "z", "x"] * 50, "winner": ["tie"] * 150}
    pq.write_table(pa.table(sides), path, compression="none", write_statistics=False)
    data = path.read_bytes()
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    outside = 0
    for place in range(column.data_page_offset, column.data_page_offset + 60):
        path.write_bytes(data[:place] + b"\xff" + data[place + 1 :])
        try:
            lrbtl.Battles.scan(path)
        except FileReadError as error:
            outside += "outside of its dictionary" in str(error)
        except MissingValueError:
            pass
    assert outside


def test_damaged_codes_behind_sound_ones_are_noticed():
    words = pa.array(["x", "y"])

    def batch(last):
        sides = [[0, 1, 0], [1, 0, last], [0, 1, 1]]
        columns = [pa.DictionaryArray.from_arrays(pa.array(side, pa.int32()), words, safe=False) for side in sides]
        return pa.record_batch(columns, names=["model_a", "model_b", "winner"])

    for last in (2, -1, 1 << 30):
        reader = pa.RecordBatchReader.from_batches(batch(1).schema, [batch(1), batch(1), batch(last)])
        with pytest.raises(FileReadError, match="cannot read the record batches: codes of a column are outside"):
            lrbtl.Battles.scan(reader)


def test_missing_values_are_named(rows, tmp_path):
    table = pa.table({**rows, "winner": [*rows["winner"][:-1], None]})
    with pytest.raises(
        MissingValueError, match=r"rows after the first 400, winner has 1 missing value, the first in row 99"
    ):
        lrbtl.Battles.scan(table.to_reader(max_chunksize=100))
    (tmp_path / "log.csv").write_text("model_a,model_b,winner\nx,y,tie\nx,,tie\n")
    with pytest.raises(MissingValueError, match="model_b is empty in row 2"):
        lrbtl.Battles.scan(tmp_path / "log.csv")


def test_empty_and_foreign_logs(rows, tmp_path):
    (tmp_path / "log.csv").write_text("model_a,model_b,winner\n")
    with pytest.raises(EmptyDataError, match="no battles"):
        lrbtl.Battles.scan(tmp_path / "log.csv")
    with pytest.raises(EmptyDataError, match="stream is empty"):
        lrbtl.Battles.scan(io.BytesIO(b""))
    with pytest.raises(FileReadError, match="the stream: it is a PDF"):
        lrbtl.Battles.scan(io.BytesIO(b"%PDF-1.4"))
    with pytest.raises(FileReadError, match="damaged or cut off"):
        lrbtl.Battles.scan(io.BytesIO(gzip.compress(csv_bytes(rows))[:200]))
    with pytest.raises(FileReadError, match="not whole"):
        lrbtl.Battles.scan(io.BytesIO(parquet_bytes(rows)[:-100]))
    with pytest.raises(InputTypeError, match="cannot read battles from a int"):
        lrbtl.Battles.scan(3)


def test_parquet_needs_pyarrow(parquet, monkeypatch):
    def no_import(name):
        raise ImportError(name)

    monkeypatch.setattr(lrbtl.data.logs, "import_module", no_import)
    with pytest.raises(MissingExtraError, match="need pyarrow"):
        lrbtl.Battles.scan(parquet)


def test_progress_tells_the_rows(rows, parquet, monkeypatch):
    monkeypatch.setattr(lrbtl.data.logs, "PAUSE", -1.0)
    said = []
    lrbtl.Battles.scan(parquet, progress=said.append)
    assert said[-1] == "read 500 rows" and len(said) > 1


def test_soft_votes_and_covariates_that_never_repeat(tmp_path, monkeypatch):
    monkeypatch.setattr(lrbtl.data.group, "FEW_NUMBERS", 5)
    rng = np.random.default_rng(0)
    rows = {"model_a": rng.choice(["x", "y"], 200).tolist(), "model_b": ["z"] * 200, "winner": rng.random(200).tolist()}
    (tmp_path / "log.jsonl").write_bytes(json_bytes(rows))
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    for name in ("log.jsonl", "log.parquet"):
        assert_same(lrbtl.Battles.scan(tmp_path / name), lrbtl.Battles.from_frame(rows))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_tags_in_logs(kind, tmp_path):
    texts = ["math;code", "", "code|math", "chat"]
    lists = [["math", "code"], None, ["code", "math"], ["chat"]]
    flags = {"math": [1, 0, 1, 0], "code": [1, 0, 1, 0], "chat": [0, 0, 0, 1]}
    rows: dict[str, list[Any]] = {
        "model_a": ["x", "y", "x", "x"],
        "model_b": ["y", "z", "y", "z"],
        "winner": ["tie"] * 4,
        "text": texts,
    } | flags
    if kind != "csv":
        rows["list"] = lists
    (tmp_path / f"log.{kind}").write_bytes(WRITERS[kind](rows))
    expected = lrbtl.Battles.from_frame(rows, tags="text")
    assert expected.levels[0] == ("{chat}", "{code, math}", "{}")
    for tags in ("text", ["math", "code", "chat"], *(["list"] if kind != "csv" else [])):
        assert_same(lrbtl.Battles.scan(tmp_path / f"log.{kind}", tags=tags), expected)


def test_copied_votes_are_noticed_while_scanning(tmp_path):
    rng = np.random.default_rng(0)
    vote = np.repeat(np.arange(400), 2)
    rows = {
        "model_a": [f"m{k}" for k in rng.integers(0, 5, 400)[vote]],
        "model_b": [f"n{k}" for k in rng.integers(0, 5, 400)[vote]],
        "winner": rng.choice(["model_a", "model_b"], 400)[vote].tolist(),
        "task": ["code", "math"] * 400,
    }
    (tmp_path / "log.csv").write_bytes(csv_bytes(rows))
    with pytest.warns(ExplodedRowsWarning, match="look like copies"):
        lrbtl.Battles.scan(tmp_path / "log.csv", **OPTIONS)
