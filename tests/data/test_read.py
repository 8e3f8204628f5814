"""One way to read votes: whatever holds them, with the same guessing and the same notes."""

import io
import json
import sys
import zipfile
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lrbtl
from lrbtl.cli.main import main
from lrbtl.errors import FileReadError, InputTypeError, LrbtlError, MissingColumnError

COLUMNS = {
    "model_a": ["x", "y", "z", "x"] * 30,
    "model_b": ["y", "z", "x", "z"] * 30,
    "winner": ["model_a", "tie", "model_b", "model_b", "model_a", "model_b"] * 20,
    "category": ["code", "math"] * 60,
}
NOTE = "guessed contexts from column category (Battles.read names others)"


class Stream:
    """Anything that offers Arrow streams, such as a result of a database."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Dataset:
    """What a data set of Hugging Face offers."""

    column_names = tuple(COLUMNS)

    def with_format(self, kind):
        assert kind == "arrow"
        return _Whole()

    def __len__(self):
        return 120


class _Whole:
    def __getitem__(self, which):
        return pa.table(COLUMNS)

    def iter(self, batch_size):
        yield from (pa.table(COLUMNS).slice(k, 50) for k in range(0, 120, 50))


class StreamedSet:
    """What a streamed data set of Hugging Face offers, which may not know its columns."""

    column_names = None

    def with_format(self, kind):
        assert kind == "arrow"
        return _Whole()


class Splits(dict[str, Any]):
    """What Hugging Face calls a DatasetDict."""

    column_names: Any = None

    def with_format(self, kind):
        raise AssertionError("choose a split")


def sources(folder):
    table = pa.table(COLUMNS)
    frame = pd.DataFrame(COLUMNS)
    frame.to_csv(folder / "votes.csv", index=False)
    frame.to_json(folder / "votes.jsonl", orient="records", lines=True)
    frame.to_json(folder / "votes.json", orient="records")
    pq.write_table(table, folder / "votes.parquet")
    (folder / "shards").mkdir()
    for k in range(3):
        pq.write_table(table.slice(40 * k, 40), folder / "shards" / f"{k}.parquet")
    yield from (folder / name for name in ("votes.csv", "votes.jsonl", "votes.json", "votes.parquet", "shards"))
    yield str(folder / "shards" / "*.parquet")
    yield sorted((folder / "shards").iterdir())
    yield (folder / "votes.csv").open("rb")
    yield (folder / "votes.csv").open()  # text: its bytes are read
    yield io.StringIO((folder / "votes.csv").read_text())
    yield from (COLUMNS, frame, pl.DataFrame(COLUMNS), pl.DataFrame(COLUMNS).lazy(), table, table.to_batches()[0])
    yield table.to_batches(max_chunksize=50)
    yield frame.to_dict(orient="records")
    yield Stream(table)
    yield Dataset()
    yield StreamedSet()
    yield Splits(train=Dataset())


def test_everything_that_holds_votes_gives_the_same_battles(tmp_path):
    expected = None
    for source in sources(tmp_path):
        battles = lrbtl.Battles.read(source)
        expected = expected or battles.digest
        assert battles.digest == expected and NOTE in battles.notes, source
        if isinstance(source, io.IOBase):
            source.close()


def test_a_split_must_be_chosen():
    for call in (lrbtl.Battles.read, lrbtl.leaderboard, lrbtl.Battles.from_frame):
        with pytest.raises(InputTypeError, match=r"these are 2 data sets, 'train', 'test': give one of them"):
            call(Splits(train=Dataset(), test=Dataset()))


def test_what_outcomes_became_is_said_wherever_votes_are_read():
    words = ["model_a", "both_bad", "tie", "skip"] * 5
    log = {"model_a": list("xyzx") * 5, "model_b": list("yzxz") * 5, "winner": words}
    skipped = "5 votes dropped for their outcome, winner skip"
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["5 both_bad votes kept as ties"]),
        ({"both_bad": "drop"}, ["5 both_bad votes dropped"]),
        ({"both_bad": "outcome"}, ["5 both_bad votes kept as an outcome of their own"]),
        ({"ties": "drop"}, ["5 both_bad votes dropped", "5 votes dropped for their outcome, winner tie"]),
        ({"outcomes": {"both_bad": None}}, ["5 both_bad votes dropped"]),
        ({"outcomes": {"both_bad": 0}}, ["5 both_bad votes read as 0"]),
    ]
    for options, said in cases:
        for read in (lrbtl.Battles.read, lrbtl.Battles.from_frame, lrbtl.Battles.scan):
            given = {**options, "outcomes": {"skip": None, **options.get("outcomes", {})}}
            assert sorted(read(log, **given).notes) == sorted([*said, skipped]), (options, read)
    battles = lrbtl.Battles.read(log, outcomes={"skip": None})
    both = battles + battles
    assert both.notes == ("10 both_bad votes kept as ties", "10 votes dropped for their outcome, winner skip")
    board = lrbtl.leaderboard(both)
    assert set(both.notes) <= set(json.loads(board.to_json())["notes"]) and both.notes[0] in lrbtl.report_html(board)
    many = lrbtl.Battles.read({**log, "winner": ["tie", "y", *(f"no {k}" for k in range(18))]}, outcomes={
        f"no {k}": None for k in range(18)})  # fmt: skip
    assert many.notes == ("18 votes dropped for their outcome",)
    soft = lrbtl.Battles.read({**log, "winner": [0.5, 0.25, 0.75, 1.0] * 5}, ties="drop")
    assert soft.n_battles == 15 and soft.notes == ("5 votes dropped for their outcome, winner 0.5",)


def test_scan_is_read(tmp_path):
    pq.write_table(pa.table(COLUMNS), tmp_path / "votes.parquet")
    whole = lrbtl.Battles.read(tmp_path / "votes.parquet")
    assert lrbtl.Battles.scan(tmp_path / "votes.parquet").digest == whole.digest
    part = lrbtl.Battles.read(tmp_path / "votes.parquet", where=[("category", "==", "code")])
    assert part.n_battles == 60
    whole.save(tmp_path / "votes.lrbtl")
    assert lrbtl.Battles.scan(tmp_path / "votes.lrbtl").digest == whole.digest
    records = [arena(k) for k in range(1, 60)]
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "arena.parquet")
    one, other = (read(tmp_path / "arena.parquet") for read in (lrbtl.Battles.read, lrbtl.Battles.scan))
    assert one.digest == other.digest and other.cluster_names == ("session",)
    with pytest.raises(InputTypeError, match="this is LMArena battles: filter it beforehand"):
        lrbtl.Battles.read(tmp_path / "arena.parquet", where=[("language", "==", "en")])


def test_every_call_guesses_alike(tmp_path):
    pd.DataFrame(COLUMNS).to_csv(tmp_path / "votes.csv", index=False)
    whole = lrbtl.Battles.read(tmp_path / "votes.csv")
    for battles in (lrbtl.Battles.from_frame(COLUMNS), lrbtl.Battles.scan(tmp_path / "votes.csv")):
        assert battles.digest == whole.digest and battles.notes == (NOTE,)
    board = lrbtl.leaderboard(str(tmp_path / "votes.csv"))
    assert board.models == lrbtl.leaderboard(COLUMNS).models and NOTE in board.heading()
    assert lrbtl.Battles.from_frame(COLUMNS, contexts=()).levels == ()
    assert lrbtl.Battles.read(COLUMNS, contexts=()).levels == ()


def test_boards_of_votes_without_categories_say_so():
    boards = lrbtl.leaderboard(lrbtl.Battles.read(COLUMNS, contexts=()), context="all")
    assert len(boards) == 0 and "these votes have no categories: there is only the overall board" in boards.heading()
    assert boards["overall"] is boards.overall


def test_decimals_are_numbers():
    soft = [Decimal("0.25"), Decimal(1), Decimal("0.5")]
    for column in (soft, pa.array(soft), pl.Series(soft)):
        battles = lrbtl.Battles.read({"model_a": list("xyz"), "model_b": list("yzx"), "winner": column})
        assert sorted(battles.cells.y.tolist()) in ([0.25, 0.5, 1.0], [0.25, 0.5, 0.0], [0.0, 0.25, 0.5])


def test_columns_that_occur_twice_are_named():
    frame = pd.concat([pd.DataFrame(COLUMNS), pd.DataFrame({"winner": COLUMNS["winner"]})], axis=1)
    for call in (lrbtl.Battles.from_frame, lrbtl.Battles.read, lrbtl.leaderboard):
        with pytest.raises(MissingColumnError, match="'winner' occurs more than once"):
            call(frame)


@pytest.mark.parametrize("source", ["a\0b.csv", "x" * 5000, "", 3, None, [], [3], object(), iter([1])])
def test_what_holds_no_votes_is_named(source):
    with pytest.raises(LrbtlError):
        lrbtl.Battles.read(source)
    with pytest.raises(LrbtlError):
        lrbtl.Battles.load(source)


# ------------------------------------------------------------------------------
# Folders of evaluation tools read like their files.
# ------------------------------------------------------------------------------


def arena(k):
    style = {"sum_assistant_a_tokens": 10 * k, "sum_assistant_b_tokens": 9, "header_count_a": {"h1": k}}
    style |= {"header_count_b": {"h1": 1}}
    winner = ["model_a", "model_b", "tie"][k % 3]
    return {"model_a": "xy"[k % 2], "model_b": "z", "winner": winner, "evaluation_session_id": f"s{k % 7}",
            "conv_metadata": style, "category_tag": {"math_v0.1": {"math": k % 2 == 0}}, "language": "en"}  # fmt: skip


def test_shards_keep_style_tags_and_sessions(tmp_path):
    records = [arena(k) for k in range(1, 60)]
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "whole.parquet")
    (tmp_path / "shards").mkdir()
    for k in range(3):
        pq.write_table(pa.Table.from_pylist(records[20 * k : 20 * k + 20]), tmp_path / "shards" / f"{k}.parquet")
    options = {"covariates": {"tokens": ("tokens_a", "tokens_b")}, "tags": "tags"}
    whole, parts = (lrbtl.Battles.read(tmp_path / name, **options) for name in ("whole.parquet", "shards"))
    assert whole.digest == parts.digest and parts.cluster_names == ("session",) and parts.tags == ("math",)


def test_a_folder_of_a_tool_leaves_other_files_out_and_says_so(tmp_path):
    record = {"instruction": "Hello", "generator_1": "gpt4", "generator_2": "new", "preference": 1.75}
    for model in ("a", "b"):
        folder = tmp_path / "results" / model
        folder.mkdir(parents=True)
        (folder / "annotations.json").write_text(json.dumps([{**record, "generator_2": model}] * 3))
        (folder / "model_outputs.json").write_text(json.dumps([{"instruction": "Hello", "output": "..."}]))
    battles = lrbtl.Battles.read(tmp_path)
    assert battles.n_battles == 6 and battles.models == ("a", "b", "gpt4")
    assert any("left out 2 files that are not AlpacaEval annotations" in note for note in battles.notes)
    assert main(["leaderboard", str(tmp_path), "--quiet"]) == 0


def test_fastchat_counts_votes_on_hidden_names_only(tmp_path):
    votes = [{"model_a": "x", "model_b": "y", "winner": "model_a", "judge": f"u{k}", "anony": k < 4} for k in range(6)]
    (tmp_path / "clean_battle.json").write_text(json.dumps(votes))
    battles = lrbtl.Battles.read(tmp_path / "clean_battle.json")
    assert battles.n_battles == 4 and any(
        note.startswith("2 records left out: the voter knew") for note in battles.notes
    )


# ------------------------------------------------------------------------------
# Inspect.
# ------------------------------------------------------------------------------


def sample(k, winner, **scores):
    metadata = {"model_a": "x", "model_b": "y", "winner": "model_b", "category": "math"}
    return {"id": k, "metadata": metadata, "scores": {"judge": {"value": winner}, **scores}}


def inspect_log(*samples):
    return {"version": 2, "status": "success", "eval": {"task": "duel"}, "samples": list(samples)}


def test_the_judges_own_value_wins_and_only_scorers_that_name_a_winner_vote(tmp_path):
    accuracy = {"accuracy": {"value": "C"}}
    log = inspect_log(sample(1, "model_a", **accuracy), sample(2, "x"), sample(3, "tie"), {"id": 4, "scores": None})
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    battles = lrbtl.Battles.read(path)
    assert battles.n_battles == 3 and battles.cells.y.max() == 1.0 and battles.tie_share == pytest.approx(1 / 3)
    assert "1 records left out: a sample without a score that names a winner" in battles.notes
    assert lrbtl.Battles.read(path, contexts="scorer").levels == (("judge",),)
    both = inspect_log(*(sample(k, "model_a", other={"value": "model_b"}) for k in range(3)))
    path.write_text(json.dumps(both))
    assert lrbtl.Battles.read(path).n_battles == 6
    assert lrbtl.Battles.read(path, scorer="other").cells.y.max() == 0.0
    assert main(["leaderboard", str(path), "--scorer", "other", "--quiet"]) == 0
    assert main(["leaderboard", str(path), "--scorer", "none", "--quiet"]) == 1
    with pytest.raises(InputTypeError, match="scorer="):
        lrbtl.Battles.read(COLUMNS, scorer="other")


def test_inspects_own_archive(tmp_path, monkeypatch):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "duel"}}))
        for k, winner in enumerate(["model_a", "tie", "y"]):
            archive.writestr(f"samples/{k}_epoch_1.json", json.dumps(sample(k, winner)))
    assert lrbtl.Battles.read(path).n_battles == 3
    (tmp_path / "bad.eval").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(FileReadError, match="not an Inspect log"):
        lrbtl.Battles.read(tmp_path / "bad.eval")
    data = bytearray(path.read_bytes())
    for start in (8, 10):  # the method of compression, in the local and central headers, becomes zstd
        at = 0
        magic = b"PK\x03\x04" if start == 8 else b"PK\x01\x02"
        while (at := data.find(magic, at)) >= 0:
            data[at + start] = 93
            at += 4
    path.write_bytes(bytes(data))
    with pytest.raises(FileReadError, match=r"header.json is damaged"):
        lrbtl.Battles.read(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # which reads zstd
    with pytest.raises(FileReadError, match=r"inspect log convert .*log.eval --to json --output-dir"):
        lrbtl.Battles.read(path)


def test_weights_in_words_and_numbers(tmp_path):
    hard = {"uid": "q", "model": "new", "baseline": "o3", "judge": "j", "games": [{"score": "B>>A"}, {"score": "A>B"}]}
    (tmp_path / "new.jsonl").write_text("".join(json.dumps({**hard, "uid": str(k)}) + "\n" for k in range(5)))
    battles = lrbtl.Battles.read(tmp_path / "new.jsonl")
    assert "5 clear wins (A>>B) weigh 3, as in arena-hard-auto" in battles.notes
    assert np.unique(battles.vote_weights).tolist() == [1.0, 3.0]


def test_columns_of_a_state_cannot_be_named(tmp_path):
    path = tmp_path / "votes.lrbtl"
    lrbtl.Battles.read(COLUMNS).save(path)
    for options in ({"winner": np.array(["a", "b"])}, {"model_a": "x"}):
        with pytest.raises(InputTypeError):
            lrbtl.Battles.read(path, **options)
