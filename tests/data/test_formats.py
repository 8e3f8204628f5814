"""Files that evaluation tools write: recognised by their keys, read as battles, with named errors."""

import gzip
import json
from typing import Any

import numpy as np
import pytest

import lrbtl
from lrbtl.cli.main import main
from lrbtl.data.formats import read_tool_log
from lrbtl.data.frames import read_battles
from lrbtl.errors import EmptyDataError, FileReadError

ARENA = {
    "id": "1", "model_a": "x", "model_b": "y", "winner": "model_a", "evaluation_session_id": "s1", "language": "en",
    "is_code": True, "timestamp": "2025-05-29T14:48:41.602925", "conversation_a": [], "conversation_b": [],
    "conv_metadata": {
        "sum_assistant_a_tokens": 120, "sum_assistant_b_tokens": 80, "header_count_a": {"h1": 1, "h2": 2},
        "header_count_b": {"h1": 0, "h2": None}, "list_count_a": {"ordered": 3, "unordered": 0},
        "list_count_b": {"ordered": 0, "unordered": 1}, "bold_count_a": {"**": 4, "__": 0},
        "bold_count_b": {"**": 0, "__": 0},
    },
    "category_tag": {"math_v0.1": {"math": True, "score": "yes"}, "if_v0.1": {"if": False, "score": 1}},
}  # fmt: skip
HARD = {
    "uid": "q1", "category": "hard_prompt", "judge": "gpt-4.1", "model": "new", "baseline": "o3",
    "games": [{"score": "A>>B", "judgment": {}}, {"score": "B>A", "judgment": {}}],
}  # fmt: skip
ALPACA = {
    "instruction": "Hello", "output_1": "...", "generator_1": "gpt4", "output_2": "...", "generator_2": "new",
    "dataset": "koala", "annotator": "weighted_alpaca_eval_gpt4_turbo", "preference": 1.75, "raw_completion": None,
}  # fmt: skip
PAIR = {
    "question_id": 81, "model_1": "x", "model_2": "y", "g1_winner": "model_1", "g2_winner": "model_1",
    "judge": ["gpt-4", "pair-v2"], "turn": 1, "g1_judgment": "...", "tstamp": 1.0,
}  # fmt: skip
INSPECT = {
    "version": 2, "status": "success", "eval": {"task": "duel", "model": "judge"},
    "samples": [
        {"id": 1, "epoch": 1, "metadata": {"category": "math"},
         "scores": {"pair": {"value": "model_b", "metadata": {"model_a": "x", "model_b": "y"}}}},
        {"id": 2, "epoch": 1, "scores": {"pair": {"value": {
            "model_a": "x", "model_b": "y", "winner": "tie", "category": "code"}}}},
    ],
}  # fmt: skip


def lines(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def whole(path, value):
    path.write_text(json.dumps(value))
    return path


def outcomes(battles):
    """Wins, ties and losses by pair of names, the first by name first."""
    cells = battles.cells
    return sorted(
        (battles.models[a], battles.models[b], float(y), int(n))
        for a, b, y, n in zip(cells.a, cells.b, cells.y, cells.count, strict=True)
    )


def test_lmarena_battles_keep_style_tags_and_sessions(tmp_path):
    other = {**ARENA, "model_a": "y", "model_b": "x", "winner": "tie (bothbad)", "evaluation_session_id": "s2"}
    log = read_tool_log(lines(tmp_path / "arena.jsonl", ARENA, other))
    assert log.tool == "LMArena battles" and log.cluster == ("session",)
    assert log.columns["tags"] == ["code;math"] * 2 and log.columns["language"] == ["en", "en"]
    style = {name: (log.columns[f"{name}_a"][0], log.columns[f"{name}_b"][0]) for name in log.covariates}
    assert style == {"tokens": (120, 80), "headers": (3, 0), "lists": (3, 1), "bold": (4, 0)}
    battles = read_battles(tmp_path / "arena.jsonl").battles
    assert outcomes(battles) == [("x", "y", 0.5, 1), ("x", "y", 1.0, 1)] and battles.levels == (("en",),)


def test_fastchat_battles_with_plain_counts(tmp_path):
    style = {f"{name}_{side}": 2 for name in ("header_count", "list_count", "bold_count") for side in "ab"}
    old = {
        "question_id": "7", "model_a": "x", "model_b": "y", "winner": "model_b", "judge": "arena_user_1", "turn": 1,
        "anony": True, "language": "English", "tstamp": 1.0,
        "conv_metadata": {"sum_assistant_a_tokens": 5, "sum_assistant_b_tokens": 6, **style},
    }  # fmt: skip
    log = read_tool_log(whole(tmp_path / "clean_battle.json", [old, {**old, "judge": "arena_user_2"}]))
    assert log.columns["headers_a"] == [2, 2] and log.cluster == ("session",)


def test_lmarena_battles_in_parquet(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.Table.from_pylist([ARENA, ARENA]), tmp_path / "arena.parquet")
    assert read_tool_log(tmp_path / "arena.parquet").columns["tokens_a"] == [120, 120]
    pq.write_table(pa.table({"model_a": ["x"], "model_b": ["y"], "winner": ["tie"]}), tmp_path / "plain.parquet")
    assert read_tool_log(tmp_path / "plain.parquet") is None
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    assert read_tool_log(tmp_path / "broken.parquet") is None


def test_arena_hard_judgments_know_who_was_shown_first(tmp_path):
    unsure = {**HARD, "uid": "q2", "games": [{"score": "A=B"}, {"score": None}]}
    failed = {**HARD, "uid": "q3", "games": [{"score": None}, None]}
    log = read_tool_log(lines(tmp_path / "new.jsonl", HARD, unsure, failed))
    assert log.columns["model_a"] == ["o3", "new"] and log.columns["winner"] == ["model_a", "model_b"]
    assert log.columns["weight"] == [3.0, 1.0]
    assert log.dropped == {"the judge gave no score in a game": 2} and log.cluster == ()
    assert log.notes == ("1 clear wins (A>>B) weigh 3, as in arena-hard-auto",)
    records: list[Any] = [HARD, unsure, failed]
    older = [{**record, "question_id": k} for k, record in enumerate(records)]
    for record in older:
        del record["uid"]
    log = read_tool_log(lines(tmp_path / "old.jsonl", *older))
    assert log.columns["winner"] == ["model_a", "model_b", "tie"] and log.cluster == ("question",)
    battles = read_battles(tmp_path / "old.jsonl").battles
    assert battles.levels == (("hard_prompt",),) and sum(row[3] for row in outcomes(battles)) == 3
    assert battles.vote_weights.max() == 3.0 and log.notes[0] in battles.notes


def test_alpaca_annotations_are_soft_votes(tmp_path):
    records = [ALPACA, {**ALPACA, "preference": 0}, {**ALPACA, "preference": None}, {**ALPACA, "generator_2": "gpt4"}]
    log = read_tool_log(whole(tmp_path / "annotations.json", records))
    assert log.columns["winner"] == [0.25, 0.5] and log.columns["category"] == ["koala"] * 2
    assert sum(log.dropped.values()) == 2
    battles = read_battles(tmp_path / "annotations.json").battles
    assert outcomes(battles) == [("gpt4", "new", 0.25, 1), ("gpt4", "new", 0.5, 1)]


def test_mt_bench_pairs_that_disagree_are_ties(tmp_path):
    swapped = {**PAIR, "question_id": 82, "g2_winner": "model_2"}
    failed = {**PAIR, "g1_winner": "error"}
    log = read_tool_log(lines(tmp_path / "gpt-4_pair.jsonl", PAIR, swapped, failed))
    assert log.columns["winner"] == ["model_a", "tie"] and log.columns["judge"] == ["gpt-4"] * 2
    assert log.columns["turn"] == ["1", "1"] and log.dropped == {"the judge gave no answer": 1}


def test_inspect_logs_with_pairwise_scores(tmp_path):
    log = read_tool_log(whole(tmp_path / "log.json", INSPECT))
    assert log.columns["winner"] == ["model_b", "tie"] and log.columns["category"] == ["math", "code"]
    plain = {**INSPECT, "samples": [{"id": 1, "scores": {"match": {"value": "C"}}}]}
    with pytest.raises(EmptyDataError, match="no sample has a score"):
        read_tool_log(whole(tmp_path / "plain.json", plain))


def test_rankings_are_pairs_of_one_cluster(tmp_path):
    nectar = {"prompt": "Hi", "answers": [{"model": m, "rank": r} for m, r in (("x", 2.0), ("y", 1.0), ("z", 2.0))]}
    log = read_tool_log(lines(tmp_path / "nectar.jsonl", nectar, {**nectar, "prompt": "Bye"}))
    assert list(zip(*(log.columns[k] for k in ("model_a", "model_b", "winner")), strict=True))[:3] == [
        ("x", "y", 0.0), ("x", "z", 0.5), ("y", "z", 1.0)
    ]  # fmt: skip
    assert log.columns["question"] == ["Hi"] * 3 + ["Bye"] * 3 and log.cluster == ("question",)
    ranked = lines(tmp_path / "ranked.jsonl", {"ranking": ["x", "y", "z"]}, {"ranking": ["y"]}, {"ranking": ["y", "x"]})
    battles = read_battles(ranked).battles
    assert battles.n_battles == 4 and battles.cells.clusters is not None


def test_the_same_battles_whatever_wraps_them(tmp_path):
    rows = [
        {"model_a": "x", "model_b": "y", "winner": w, "task": t, "notes": [1]}
        for w, t in (("tie", "a"), ("model_a", "b"))
    ]
    plain = read_battles(lines(tmp_path / "plain.jsonl", *[{k: v for k, v in r.items() if k != "notes"} for r in rows]))
    listed = read_battles(whole(tmp_path / "list.json", rows))
    with gzip.open(tmp_path / "list.json.gz", "wt") as stream:
        json.dump(rows, stream)
    zipped = read_battles(tmp_path / "list.json.gz")
    assert read_tool_log(tmp_path / "plain.jsonl") is None
    for found in (listed, zipped):
        np.testing.assert_array_equal(found.battles.cells.y, plain.battles.cells.y)
        assert found.battles.levels == plain.battles.levels
    assert listed.said[0] == "read 2 battles from a list of battles"


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("a.json", "", EmptyDataError),
        ("a.json", "{not json", FileReadError),
        ("a.json", '[{"question": 1}]', FileReadError),
        ("a.json", "[]", FileReadError),
        ("a.jsonl", json.dumps({**HARD, "games": [{"score": "good"}]}), FileReadError),
        ("a.jsonl", json.dumps({**ALPACA, "preference": 7}), FileReadError),
        ("a.jsonl", json.dumps(PAIR) + "\n{broken", FileReadError),
        ("a.json", json.dumps({**INSPECT, "samples": None}), EmptyDataError),
    ],
)
def test_what_cannot_be_read_has_a_named_error(tmp_path, name, text, error):
    (tmp_path / name).write_text(text)
    with pytest.raises(error):
        read_battles(tmp_path / name)


def test_a_winner_that_is_missing_is_named(tmp_path, capsys):
    path = tmp_path / "votes.json"
    path.write_text(json.dumps([{"model_a": "x", "model_b": "y", "winner": w} for w in ("model_a", None, "tie")]))
    for command in ("doctor", "leaderboard"):
        assert main([command, str(path)]) == 1
        assert "winner has 1 missing value, the first in row 1" in capsys.readouterr().err


def test_every_command_takes_such_files(tmp_path, capsys):
    games = [
        {**HARD, "uid": f"q{k}", "games": [{"score": "B>A"}, {"score": "A>B" if k % 3 else "B>A"}]} for k in range(60)
    ]
    path = lines(tmp_path / "new.jsonl", *games)
    assert main(["leaderboard", str(path), "--method", "naive"]) == 0
    assert main(["gate", str(path), "--candidate", "new", "--baseline", "o3", "--method", "naive"]) == 0
    captured = capsys.readouterr()
    assert "ship: new against o3" in captured.out and "arena-hard-auto judgments" in captured.err
    assert isinstance(lrbtl.leaderboard(read_battles(path).battles, method="naive"), lrbtl.Leaderboard)
