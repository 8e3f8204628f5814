"""Results per item as tools write them: the same columns, whoever wrote them."""

import json
import sys
import zipfile

import numpy as np
import polars as pl
import pytest

import lrbtl
from lrbtl.cli.main import main
from lrbtl.data.item_logs import find_item_columns, find_item_log
from lrbtl.errors import EmptyDataError, FileReadError, InputTypeError, MissingColumnError, ObservationError

MODELS = {"strong": 0.9, "weak": 0.3}
TASKS = {"adding": 30, "law": 20}
DATE = "2026-11-18T14-11-34.555038"


@pytest.fixture(scope="module")
def answers():
    """Whether each model was right on each item of each task."""
    rng = np.random.default_rng(0)
    return {(m, t): (rng.random(n) < p).tolist() for m, p in MODELS.items() for t, n in TASKS.items()}


@pytest.fixture
def harness(tmp_path, answers):
    """A folder of lm-evaluation-harness: samples of each task, two filters each, and means beside them."""
    for (model, task), right in answers.items():
        folder = tmp_path / "runs" / f"org__{model}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"results_{DATE}.json").write_text(json.dumps({"model_name": f"org/{model}", "results": {}}))
        rows = [
            {"doc_id": k, "doc": {"q": "?"}, "target": "1", "resps": [["x"]], "filter": kind, "f1": 0.5,
             "metrics": ["f1", "exact_match"], "exact_match": float(x) if kind == "strict" else 0.0}
            for kind in ("strict", "flexible") for k, x in enumerate(right)
        ]  # fmt: skip
        (folder / f"samples_{task}_{DATE}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "runs"


def inspect_record(model, task, right):
    samples = [
        {
            "id": f"{task}-{k}",
            "epoch": 1,
            "scores": {"words": {"value": {"n": 3}}, "match": {"value": "C" if x else "I"}},
        }
        for k, x in enumerate(right)
    ]
    return {"eval": {"model": f"org/{model}", "task": task}, "samples": [*samples, {"id": "failed", "scores": {}}]}


@pytest.fixture
def inspect(tmp_path, answers):
    """A folder of Inspect logs, one as an archive."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for (model, task), right in answers.items():
        record = inspect_record(model, task, right)
        if task == "adding":
            (folder / f"{model}_{task}.json").write_text(json.dumps(record))
            continue
        with zipfile.ZipFile(folder / f"{model}_{task}.eval", "w") as archive:
            archive.writestr("header.json", json.dumps({"eval": record["eval"]}))
            for sample in record["samples"]:
                archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
    return folder


def shares(frame):
    table = pl.DataFrame(frame)
    means = table.group_by("model", "benchmark").agg(pl.col("correct").mean())
    return {(m.removeprefix("org/"), t): round(x, 9) for m, t, x in means.iter_rows()}


def expected(answers):
    return {key: round(float(np.mean(right)), 9) for key, right in answers.items()}


def test_samples_of_lm_evaluation_harness(harness, answers):
    log = find_item_log(harness)
    assert log.tool == "lm-evaluation-harness samples" and shares(log.frame) == expected(answers)
    assert "adding: exact_match is what counts as correct after filter strict" in log.notes
    assert "100 answers after other filters left out" in log.notes


def test_the_folder_names_the_model_where_means_are_missing(harness):
    for path in harness.rglob("results_*"):
        path.unlink()
    assert set(find_item_log(harness).frame["model"]) == {"org__strong", "org__weak"}


def test_inspect_logs_with_scores_of_right_and_wrong(inspect, answers):
    log = find_item_log(inspect)
    assert log.tool == "Inspect logs" and shares(log.frame) == expected(answers)
    assert "adding: scorer match is what counts as correct" in log.notes
    assert "4 samples without a score from 0 to 1 left out" in log.notes


def test_archives_compressed_by_zstd_are_read(inspect, answers, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    write = zipfile.ZipFile.writestr
    for path in sorted(inspect.glob("*.eval")):
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in parts.items():
                write(archive, name, pa.compress(data, "zstd", asbytes=True))
            for name, data in parts.items():  # as Inspect's own writer says
                info = archive.getinfo(name)
                info.compress_type, info.file_size = 93, len(data)
    assert shares(find_item_log(inspect).frame) == expected(answers)
    path = next(inspect.glob("*.eval"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileReadError, match="inspect log convert"):
        lrbtl.Battles.read(path)


def test_votes_of_inspect_are_still_votes(tmp_path):
    value = {"model_a": "x", "model_b": "y", "winner": "model_a"}
    record = {
        "eval": {"model": "judge", "task": "t"},
        "samples": [{"id": k, "scores": {"j": {"value": value}}} for k in "ab"],
    }
    path = tmp_path / "log.json"
    path.write_text(json.dumps(record))
    assert find_item_log(path) is None and lrbtl.Battles.read(path).models == ("x", "y")


def test_every_reader_takes_the_same_answers(harness, inspect, answers, tmp_path):
    rows = {"model": [], "task": [], "doc_id": [], "correct": []}
    for (model, task), right in answers.items():
        for k, x in enumerate(right):
            for name, value in zip(rows, (f"org/{model}", task, str(k), "C" if x else "I"), strict=True):
                rows[name].append(value)
    table = tmp_path / "rows.csv"
    pl.DataFrame(rows).write_csv(table)
    battles = [lrbtl.Battles.from_items(source) for source in (rows, table, harness, inspect)]
    for other in battles[1:]:
        assert other.models == battles[0].models and other.n_battles == battles[0].n_battles
        np.testing.assert_allclose(lrbtl.leaderboard(other).score, lrbtl.leaderboard(battles[0]).score, atol=1e-6)
    results = [lrbtl.Results.from_items(source) for source in (rows, table, harness, inspect)]
    for found in results[1:]:
        np.testing.assert_allclose(found.cells.y, results[0].cells.y)
    assert lrbtl.Battles.read(table).n_battles == battles[0].n_battles
    board = lrbtl.leaderboard(rows)
    assert board.models == ("org/strong", "org/weak") and "read as accuracies" in str(board)


def test_doctor_and_the_commands_it_proposes(harness, inspect, capsys):
    for folder, tool in ((harness, "lm-evaluation-harness samples"), (inspect, "Inspect logs")):
        assert main(["doctor", str(folder)]) == 0
        text = capsys.readouterr().out
        assert f"results per item ({tool}), 100 answers of 2 models on 50 items of 2 benchmarks" in text
        commands = [line.split()[1:] for line in text.splitlines() if line.startswith("  lrbtl ")]
        for command in commands[:3]:
            assert main(command) in (0, 1)  # gate may say no
        assert "org/strong" in capsys.readouterr().out


def test_frames_of_samples_df_need_model_and_task():
    header = ["sample_id", "eval_id", "id", "epoch", "score_match"]
    with pytest.raises(MissingColumnError, match=r"EvalInfo \+ EvalModel"):
        find_item_columns(header)
    found = find_item_columns([*header, "model", "task_name"])
    assert (found.item, found.correct, found.contexts) == ("id", "score_match", ("task_name",))


def test_what_is_no_result_per_item(tmp_path, harness):
    assert find_item_columns(["model_a", "model_b", "winner", "question_id", "score"]) is None
    assert find_item_columns(["model", "benchmark", "score"]) is None
    with pytest.raises(MissingColumnError, match="no results per item"):
        path = tmp_path / "scores.csv"
        path.write_text("model,benchmark,score\nx,law,1\n")
        lrbtl.Battles.from_items(path)
    with pytest.raises(MissingColumnError, match="column of benchmarks"):
        lrbtl.leaderboard({"model": ["x", "y"], "item": [1, 1], "correct": [1, 0]})
    with pytest.raises(ObservationError, match="contexts is empty"):
        lrbtl.Results.from_items({"model": ["x", "y"], "item": [1, 1], "correct": [1, 0]}, contexts=())
    with pytest.raises(InputTypeError, match="take no weight"):
        lrbtl.Battles.read(harness, weight="w")
    broken = next(harness.rglob("samples_law*"))
    broken.write_text(broken.read_text().replace('"exact_match": 1.0', '"exact_match": "x"'))
    with pytest.raises(FileReadError, match="not as lm-evaluation-harness samples are"):
        lrbtl.Battles.from_items(harness)
    for path in harness.rglob("samples_*"):
        path.write_text(json.dumps({"doc_id": 0, "doc": {}, "target": "", "resps": [], "metrics": []}) + "\n")
    with pytest.raises((EmptyDataError, FileReadError)):
        lrbtl.Battles.from_items(harness)
