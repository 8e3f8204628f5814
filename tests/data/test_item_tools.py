"""Results per item, written by the real packages (group `tools`); skipped where they are not installed."""

import json
import subprocess
import sys

import numpy as np
import pytest

import lrbtl

pytestmark = pytest.mark.engines


@pytest.fixture
def inspect_logs(tmp_path, monkeypatch):
    """Logs of Inspect's mock model, and the share of right answers that each log says."""
    pytest.importorskip("inspect_ai")
    tiktoken = pytest.importorskip("tiktoken")

    class Words:  # token counts would need a download
        @staticmethod
        def encode(text, **_):
            return text.split()

    monkeypatch.setattr(tiktoken, "get_encoding", lambda *_: Words)
    from inspect_ai import Task
    from inspect_ai import eval as run
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, get_model
    from inspect_ai.scorer import match

    rng, means = np.random.default_rng(0), {}
    for model, skill in (("strong", 0.9), ("weak", 0.3)):
        for task, n in (("adding", 20), ("law", 15)):
            data = [Sample(id=k + 1, input=f"{k} + 1?", target=str(k + 1)) for k in range(n)]
            words = [str(k + 1) if rng.random() < skill else "no" for k in range(n)]
            outputs = [ModelOutput.from_content(f"mockllm/{model}", word) for word in words]
            (log,) = run(
                Task(name=task, dataset=data, scorer=match()),
                model=get_model(f"mockllm/{model}", custom_outputs=outputs),
                log_dir=str(tmp_path),
                max_samples=1,
                display="none",
            )
            assert log.status == "success"
            means[f"mockllm/{model}", task] = log.results.scores[0].metrics["accuracy"].value
    return tmp_path, means


def accuracies(results):
    return {
        (results.models[a], results.levels[0][u]): y / 100
        for a, u, y in zip(results.cells.a, results.cells.context, results.cells.y, strict=True)
    }


@pytest.mark.filterwarnings("ignore")
def test_inspect_says_the_same(inspect_logs):
    folder, means = inspect_logs
    assert accuracies(lrbtl.Results.from_items(folder)) == pytest.approx(means)
    analysis = pytest.importorskip("inspect_ai.analysis")
    columns = analysis.EvalInfo + analysis.EvalModel + analysis.EvalTask + analysis.SampleSummary
    frame = analysis.samples_df(str(folder), columns=columns, quiet=True)
    assert accuracies(lrbtl.Results.from_items(frame)) == pytest.approx(means)


def test_lm_evaluation_harness_says_the_same(tmp_path):
    pytest.importorskip("lm_eval")
    for task, n in (("adding", 20), ("law", 15)):
        rows = [{"q": f"{k} + 1?", "choices": ["one", "two", "three"], "answer": k % 3} for k in range(n)]
        (tmp_path / f"{task}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / f"{task}.yaml").write_text(
            f"task: {task}\ndataset_path: json\ndataset_kwargs:\n  data_files: {{test: {tmp_path / task}.jsonl}}\n"
            "output_type: multiple_choice\ntest_split: test\ndoc_to_text: '{{q}}'\ndoc_to_target: answer\n"
            "doc_to_choice: choices\nmetric_list:\n  - {metric: acc, aggregation: mean, higher_is_better: true}\n"
        )
    for seed in range(2):  # the name of the dummy model is drawn
        command = [sys.executable, "-m", "lm_eval", "--model", "dummy", "--tasks", "adding,law", "--log_samples"]
        command += ["--seed", str(seed), "--include_path", str(tmp_path), "--output_path", str(tmp_path / "out")]
        subprocess.run(command, check=True, capture_output=True)
    means = {}
    for path in (tmp_path / "out").rglob("results_*.json"):
        found = json.loads(path.read_text())
        means |= {(found["model_name"], task): found["results"][task]["acc,none"] for task in ("adding", "law")}
    assert len(means) == 4
    assert accuracies(lrbtl.Results.from_items(tmp_path / "out")) == pytest.approx(means)
