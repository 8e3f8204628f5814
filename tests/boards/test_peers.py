"""Boards beside the real packages (group `tools`): their own numbers, or by how much they differ. Skipped without."""

import importlib
import json
import sys
import types
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lrbtl

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

MODELS = ["amber", "birch", "cedar", "dune", "elm", "fir"]


@pytest.fixture
def frame():
    """Votes with ties between six models; no pair is without wins of both."""
    rng = np.random.default_rng(7)
    a = rng.integers(6, size=3000)
    b = (a + rng.integers(1, 6, size=3000)) % 6
    score = np.array([0.9, 0.5, 0.2, -0.1, -0.5, -1.0])
    won = rng.random(3000) < 1 / (1 + np.exp(score[b] - score[a]))
    winner = np.where(rng.random(3000) < 0.2, "tie", np.where(won, "model_a", "model_b"))
    names = np.array(MODELS)
    return pd.DataFrame({"model_a": names[a], "model_b": names[b], "winner": winner}).astype(object)


def by_model(board, name="score"):
    return np.array([getattr(board, name)[board.models.index(model)] for model in MODELS])


@pytest.mark.parametrize("reweighted", [False, True])
def test_arena_rank(frame, reweighted):
    models = pytest.importorskip("arena_rank.models.bradley_terry")
    data = pytest.importorskip("arena_rank.utils.data_utils").PairDataset.from_pandas(frame, reweighted=reweighted)
    battles = lrbtl.Battles.read(frame, reweight="pairs" if reweighted else None)
    board = lrbtl.leaderboard(battles, compat="arena-rank")
    # As its users call it, its optimiser stops early; asked to go on, it has our numbers.
    for options, tolerance in (({}, 0.05), ({"ftol": 0, "gtol": 1e-9}, 1e-4)):
        model = models.BradleyTerry(n_competitors=len(data.competitors), **options)
        theirs = model.compute_ratings_and_cis(data, significance_level=0.05)
        place = [list(theirs["competitors"]).index(model) for model in MODELS]
        for key, name in (("ratings", "score"), ("rating_lower", "lower"), ("rating_upper", "upper")):
            np.testing.assert_allclose(by_model(board, name), np.asarray(theirs[key])[place], atol=tolerance, rtol=0)
        assert np.mean(theirs["ratings"]) == pytest.approx(1000.0, abs=1e-6)


def test_evalica(frame):
    evalica = pytest.importorskip("evalica")
    words = {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y, "tie": evalica.Winner.Draw}
    winners = [words[word] for word in frame["winner"]]
    found = evalica.bradley_terry(frame["model_a"].tolist(), frame["model_b"].tolist(), winners, tolerance=1e-12)
    theirs = np.log(found.scores[MODELS].to_numpy())
    board = lrbtl.leaderboard(frame, scale="logit", method="naive")
    np.testing.assert_allclose(by_model(board), theirs - theirs.mean(), atol=1e-4)
    default = lrbtl.leaderboard(frame, scale="logit")  # drawn together, by little on so many votes
    shrunk = by_model(default) @ theirs / (theirs @ (theirs - theirs.mean()))
    assert 0.95 < shrunk < 1.0


def test_choix(frame):
    choix = pytest.importorskip("choix")
    place = {model: k for k, model in enumerate(MODELS)}
    wins = frame[frame["winner"] != "tie"]
    rows = zip(wins["model_a"], wins["model_b"], wins["winner"], strict=True)
    data = [(place[a], place[b]) if word == "model_a" else (place[b], place[a]) for a, b, word in rows]
    board = lrbtl.leaderboard(lrbtl.Battles.read(frame, ties="drop"), scale="logit", method="naive")
    theirs = choix.ilsr_pairwise(len(MODELS), data, alpha=0)
    np.testing.assert_allclose(by_model(board), theirs - theirs.mean(), atol=1e-5)
    mean, cov = choix.ep_pairwise(len(MODELS), data, alpha=1.0, model="logit")
    default = lrbtl.leaderboard(lrbtl.Battles.read(frame, ties="drop"), scale="logit")
    away = np.abs(by_model(default) - (mean - mean.mean()))
    assert (away < 0.5 * np.sqrt(np.diag(cov))).all()  # which prior it is matters little here


# ------------------------------------------------------------------------------
# Files as the tools write them, beside their own tables.
# ------------------------------------------------------------------------------


class Nothing(types.ModuleType):
    """A module of which any name may be imported: what the tools import beside the functions that are called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)


@pytest.fixture
def fastchat(monkeypatch):
    """Import a module of fschat without the libraries of models that it loads at import."""
    pytest.importorskip("fastchat")
    for name in ("fastchat.model", "fastchat.model.model_registry", "fastchat.serve.monitor.basic_stats"):
        monkeypatch.setitem(sys.modules, name, Nothing(name))
    monkeypatch.setitem(sys.modules, "fastchat.serve.monitor.clean_battle_data", Nothing("clean"))
    for name in ("pytz", "plotly", "plotly.express", "tqdm"):
        try:
            importlib.import_module(name)
        except ImportError:
            monkeypatch.setitem(sys.modules, name, Nothing(name))
    return importlib.import_module


def test_fschats_battles(frame, fastchat, tmp_path, monkeypatch):
    """Its cleaned log holds votes of people who knew the models; its analysis leaves them out."""
    linear = pytest.importorskip("sklearn.linear_model")
    function = fastchat("fastchat.serve.monitor.elo_analysis").compute_elo_mle_with_tie
    rng = np.random.default_rng(1)
    log = frame.assign(anony=rng.random(len(frame)) < 0.9, judge=[f"arena_user_{k % 50}" for k in range(len(frame))])
    log["turn"], log["tstamp"], log["language"] = 1, 1.7e9, "English"
    (tmp_path / "clean_battle.json").write_text(log.to_json(orient="records"))
    hidden = log[log["anony"]]
    battles = lrbtl.Battles.read(tmp_path / "clean_battle.json", contexts=())
    assert battles.n_battles == len(hidden) and battles.cluster_names == ("session",)
    board = lrbtl.leaderboard(battles, compat="fschat")
    np.testing.assert_allclose(by_model(board), function(hidden)[MODELS], atol=0.1)  # its optimiser stops early
    monkeypatch.setattr(linear, "LogisticRegression", partial(linear.LogisticRegression, tol=1e-12, max_iter=10_000))
    np.testing.assert_allclose(by_model(board), function(hidden)[MODELS], atol=1e-3)


def test_mt_bench_pairs(fastchat, tmp_path, capsys):
    """The adjusted win rates of its own table: two games with sides swapped are one vote."""
    rng = np.random.default_rng(3)
    words = ["model_1", "model_2", "tie", "error"]
    rows = [
        {"question_id": 81 + k // 12, "model_1": "baseline", "model_2": MODELS[k % 6], "turn": 1 + k // 6 % 2,
         "g1_winner": words[rng.choice(4, p=[0.3, 0.5, 0.18, 0.02])],
         "g2_winner": words[rng.choice(4, p=[0.3, 0.5, 0.18, 0.02])], "judge": ["gpt-4", "pair-v2"]}
        for k in range(960)
    ]  # fmt: skip
    path = tmp_path / "gpt-4_pair.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = types.SimpleNamespace(input_file=str(path), model_list=None, baseline_model="baseline")
    with pd.option_context("display.float_format", "{:.9f}".format):
        fastchat("fastchat.llm_judge.show_result").display_result_pairwise(asked)
    table = {}
    for line in capsys.readouterr().out.splitlines():
        parts = line.split()
        if parts and parts[0] in MODELS:
            table[parts[0]] = float(parts[-1])
    board = lrbtl.leaderboard(lrbtl.Battles.read(path, contexts=()), method="naive")
    np.testing.assert_allclose(by_model(board, "win_rate"), [table[model] for model in MODELS], atol=1e-6)


def test_alpaca_evals_annotations(tmp_path):
    """The win rate of its own metric: among models that all met one baseline, the probability of beating it."""
    metrics = pytest.importorskip("alpaca_eval.metrics")
    rng = np.random.default_rng(5)
    for k, model in enumerate(MODELS):
        preferences = np.clip(1.25 + 0.08 * k + 0.5 * rng.normal(size=300), 1.0, 2.0).round(4)
        rows = [
            {"instruction": f"question {i}", "output_1": "...", "generator_1": "gpt4_1106_preview", "dataset": "koala",
             "output_2": "...", "generator_2": model, "datasplit": "eval", "preference": float(preference),
             "annotator": "weighted_alpaca_eval_gpt4_turbo", "price_per_example": 0.01, "raw_completion": {"index": 0}}
            for i, preference in enumerate(preferences)
        ]  # fmt: skip
        folder = tmp_path / "results" / model / "weighted_alpaca_eval_gpt4_turbo"
        folder.mkdir(parents=True)
        (folder / "annotations.json").write_text(json.dumps(rows))
        (folder.parent / "model_outputs.json").write_text(json.dumps([{"instruction": "question 0", "output": "..."}]))
    battles = lrbtl.Battles.read(tmp_path / "results", contexts=())
    targets = [lrbtl.win_probability(model, "gpt4_1106_preview") for model in MODELS]
    ours = lrbtl.infer(battles, targets, method="naive").estimate
    for model, found in zip(MODELS, ours, strict=True):
        rows = json.loads(
            (tmp_path / "results" / model / "weighted_alpaca_eval_gpt4_turbo/annotations.json").read_text()
        )
        assert 100 * found == pytest.approx(metrics.get_winrate(rows)["win_rate"], abs=1e-4)


def test_arena_hards_judgments(tmp_path):
    """The score of its `show_result.py`, written out: a clear win counts three times, both games must have a score."""
    label: dict[str, list[float]] = {
        "A>B": [1],
        "A>>B": [1] * 3,
        "A=B": [0.5],
        "B>A": [0],
        "B>>A": [0] * 3,
        "A<B": [0],
        "A<<B": [0] * 3,
    }
    rng = np.random.default_rng(9)
    own = {}
    for model in MODELS:
        rows: list[dict[str, Any]] = []
        scores: list[float] = []
        for k in range(200):
            first, second = (rng.choice([*label, ""], p=[0.25, 0.1, 0.2, 0.2, 0.1, 0.07, 0.05, 0.03]) for _ in range(2))
            games = [{"score": str(word) or None, "judgment": {}} for word in (first, second)]
            rows.append({"uid": f"q{k}", "category": "hard_prompt", "judge": "gpt-4.1", "model": model,
                         "baseline": "o3-mini", "games": games})  # fmt: skip
            if first and second:
                scores += label[second] + [1 - x for x in label[first]]
        folder = tmp_path / "model_judgment" / "gpt-4.1"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{model}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        own[model] = np.mean(scores)
    battles = lrbtl.Battles.read(tmp_path)
    targets = [lrbtl.win_probability(model, "o3-mini") for model in MODELS]
    np.testing.assert_allclose(lrbtl.infer(battles, targets, method="naive").estimate, [*own.values()], atol=1e-6)
    assert any("clear wins (A>>B) weigh 3" in note for note in battles.notes)


@pytest.fixture
def duel(tmp_path, monkeypatch):
    """A log of Inspect: a mock judge that names the better of two answers, and the winners that it named."""
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
    from inspect_ai.scorer import Score, accuracy, scorer

    @scorer(metrics=[accuracy()])
    def judge():
        async def score(state, target):
            return Score(value=state.output.completion)

        return score

    @scorer(metrics=[accuracy()])
    def right():
        async def score(state, target):
            return Score(value="C")

        return score

    rng = np.random.default_rng(2)
    pairs = [rng.choice(6, 2, replace=False) for _ in range(120)]
    winners = [str(rng.choice(["model_a", "model_b", "tie"])) for _ in pairs]
    data = [
        Sample(id=k + 1, input="Which is better?", target="-", metadata={
            "model_a": MODELS[i], "model_b": MODELS[j], "category": ["code", "math"][k % 2], "winner": "model_a"})
        for k, (i, j) in enumerate(pairs)
    ]  # fmt: skip
    model = get_model("mockllm/judge", custom_outputs=[ModelOutput.from_content("mockllm/judge", w) for w in winners])
    for kind in ("eval", "json"):
        (log,) = run(
            Task(name="duel", dataset=data, scorer=[judge(), right()]), model=model, log_dir=str(tmp_path / kind),
            log_format=kind, max_samples=1, display="none",
        )  # fmt: skip
        assert log.status == "success"
        model = get_model(
            "mockllm/judge", custom_outputs=[ModelOutput.from_content("mockllm/judge", w) for w in winners]
        )
    return tmp_path, pairs, winners


def test_inspects_duels(duel):
    """Its own archive and its JSON: the judge votes, the scorer of accuracy does not."""
    folder, pairs, winners = duel
    names = np.array(MODELS)
    i, j = np.array(pairs).T
    expected = {"model_a": names[i], "model_b": names[j], "winner": winners, "category": ["code", "math"] * 60}
    plain = lrbtl.leaderboard(expected, context="all", method="naive")
    for kind in ("eval", "json"):
        battles = lrbtl.Battles.read(folder / kind)
        assert battles.n_battles == 120 and battles.cluster_names == ("question",)
        assert lrbtl.Battles.read(folder / kind, contexts="scorer").levels == (("judge",),)
        boards = lrbtl.leaderboard(battles, context="all", method="naive")
        np.testing.assert_allclose(by_model(boards.overall), by_model(plain.overall), atol=1e-6)
