"""As a guest in somebody else's program: labels reach no terminal, documents are reproducible, options teach."""

import inspect
import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lrbtl
from lrbtl.errors import (
    ClusterError,
    CovariateError,
    FileReadError,
    InputTypeError,
    LrbtlError,
    MethodError,
    MissingColumnError,
    OptionError,
    PlotError,
    RankError,
    RidgeError,
    SamplingError,
    ScoreError,
    TooLargeError,
    UnknownModelError,
)

EVIL = "\x1b[31mred\x07\u202e"


@pytest.fixture(scope="module")
def evil():
    rng, n = np.random.default_rng(0), 600
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    names = np.array([EVIL + str(k) for k in range(4)])
    winner = np.where(rng.random(n) < 0.2, "tie", np.where(a < b + rng.normal(0, 3, n), "model_a", "model_b"))
    task, day = rng.choice([EVIL + "p", EVIL + "q"], n).tolist(), rng.integers(2020, 2024, n).tolist()
    sides = {"model_a": names[a].tolist(), "model_b": names[b].tolist()}
    return {**sides, "winner": winner.tolist(), EVIL: task, "day": day}


def test_escapes_are_inert_wherever_a_result_is_printed(evil):
    battles = lrbtl.Battles.read(evil, contexts=EVIL)
    boards = lrbtl.leaderboard(battles, context="all", margin=10)
    models = battles.models
    analysis = lrbtl.analyse(battles)
    estimate = analysis.estimate([lrbtl.gap(*models[:2]), lrbtl.score(models[0], EVIL + "p")])
    results = [
        battles, boards, boards.overall, boards.overall[models[0]], analysis.compare(*models[:2]), estimate,
        analysis.gate(*models[:2]), analysis.win_matrix(), analysis.plan(50), analysis.diagnose(),
        estimate.verdicts(10),
        lrbtl.changes(boards.overall, boards[EVIL + "p"]), lrbtl.history(evil, "day"), lrbtl.influence(analysis),
        lrbtl.select_rank(battles, [1], n_folds=2),
        lrbtl.fit_separate(battles), lrbtl.fit(battles, 1),
    ]  # fmt: skip
    unsafe = set(EVIL[0] + EVIL[-1] + "\x07")
    texts = [(str(result), repr(result), getattr(result, "_repr_html_", str)()) for result in results]
    found = [type(result).__name__ for result, text in zip(results, texts, strict=True) if unsafe & set("".join(text))]
    assert not found


def test_documents_are_reproducible_and_keep_effects(evil):
    frame = {**evil, "n_a": np.arange(600) % 17 + 1, "n_b": np.arange(600) % 23 + 1}
    battles = lrbtl.Battles.read(frame, contexts=EVIL, covariates={"length": ("n_a", "n_b")})
    board = lrbtl.leaderboard(battles)
    text = board.to_json(date="2026-01-01")
    assert text == lrbtl.leaderboard(battles).to_json(date="2026-01-01")
    again = lrbtl.Leaderboard.from_json(text)
    np.testing.assert_allclose(again.effects.estimate, board.effects.estimate)
    np.testing.assert_allclose(again.effects.se, board.effects.se)
    assert again.effects.labels == board.effects.labels
    assert json.loads(board.to_json(date=np.datetime64("2026-01-02").astype(object)))["date"] == "2026-01-02"


def test_the_schema_is_in_the_package_and_the_same_as_in_the_documentation():
    published = Path(__file__).parents[1] / "docs" / "schema" / "board.json"
    assert json.loads(published.read_text()) == lrbtl.Leaderboard.json_schema()
    assert files("lrbtl.boards").joinpath("board.schema.json").is_file()


def test_estimates_have_ends_and_json(evil):
    est = lrbtl.infer(evil, [lrbtl.win_probability(0, 1)])
    np.testing.assert_allclose(np.c_[est.lower, est.upper], est.conf_int())
    (row,) = json.loads(est.to_json())["rows"]
    assert row["lower"] == pytest.approx(est.lower[0]) and row["label"].startswith("win_probability(")


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ({"cluster": "voter"}, r"it says how votes are read. Write leaderboard\(Battles.read\(votes, cluster=...\)\)"),
        ({"contexts": "task"}, r"Battles.read\(votes, contexts=...\)"),
        ({"alpha": 0.05}, "give level=, which is 1 - alpha"),
        ({"seed": 1}, "give rng="),
        ({"levle": 0.9}, "did you mean level="),
        ({"zzz": 1}, "it has battles, context"),
    ],
)
def test_wrong_options_name_the_function_and_what_to_write(evil, option, advice):
    with pytest.raises(OptionError, match=r"leaderboard\(\) has no option") as caught:
        lrbtl.leaderboard(evil, **option)
    assert isinstance(caught.value, TypeError) and caught.value.data["function"] == "leaderboard"
    with pytest.raises(OptionError, match=advice):
        lrbtl.leaderboard(evil, **option)
    for call in (lrbtl.gate, lrbtl.compare):
        with pytest.raises(OptionError, match=call.__name__):
            call(evil, EVIL + "0", EVIL + "1", **option)


@pytest.mark.parametrize(
    ("call", "option", "advice"),
    [
        (lrbtl.history, "alpha", r"history\(\) has no option 'alpha': give level=, which is 1 - alpha"),
        (lrbtl.history, "contexts", r"history\(\) has no option 'contexts'"),
        (lrbtl.Battles.read, "clustr", r"Battles.read\(\) has no option 'clustr': did you mean cluster="),
        (lrbtl.Battles.scan, "seed", r"Battles.read\(\) has no option 'seed'"),
        (lrbtl.Battles.from_frame, "winer", r"Battles.from_frame\(\) has no option 'winer': did you mean winner="),
        (lrbtl.analyse, "alpha", r"ask its result for intervals of a level, such as conf_int\(level=0.95\)"),
        (lrbtl.leaderboard, "n_bootstrap", "intervals come from one fit, without a bootstrap"),
        (lrbtl.diagnose, "cluster", r"Write diagnose\(Battles.read\(votes, cluster=...\)\)"),
    ],
)
def test_calls_that_read_votes_name_themselves_too(evil, call, option, advice):
    with pytest.raises(OptionError, match=advice):
        call(evil, **{option: 1})
    with pytest.raises(OptionError, match=r"Give it there: Battles.read\(votes, cluster=...\)"):
        lrbtl.changes(1, 2, **{"cluster": "voter"})
    with pytest.raises(OptionError, match=r"gap\(\) has no option 'weight': did you mean weights="):
        lrbtl.gap(0, 1, **{"weight": "equal"})
    assert "cluster" in inspect.signature(lrbtl.Battles.read).parameters  # help lists them


def test_an_analysis_answers_every_question_from_one_fit(evil, monkeypatch):
    battles = lrbtl.Battles.read(evil, contexts=EVIL)
    analysis = lrbtl.analyse(battles)
    board, one = analysis.leaderboard(), lrbtl.leaderboard(battles)
    np.testing.assert_array_equal(board.score, one.score)
    a, b = battles.models[:2]
    np.testing.assert_array_equal(analysis.compare(a, b).gap, lrbtl.compare(battles, a, b).gap)
    assert (
        analysis.gate(a, b).gap
        == lrbtl.gate(battles, a, b).gap
        == pytest.approx(analysis.estimate(lrbtl.gap(a, b)).verdicts().gap[0])
    )
    monkeypatch.setattr("lrbtl.boards.components.analyse", None)  # nothing is analysed again
    assert analysis.boards()["overall"].models == board.models and len(analysis.boards()) == 2
    assert analysis.leaderboard(EVIL + "p").context == EVIL + "p"
    with pytest.raises(MethodError, match="give method to"):
        analysis.leaderboard(method="naive")


def test_votes_needed_is_asked_of_an_analysis_too():
    battles = lrbtl.demo_battles()
    analysis, target = lrbtl.analyse(battles), lrbtl.gap("iris-large", "amber-large")
    mine, theirs = analysis.votes_needed(target, half_width=20), lrbtl.votes_needed(battles, target, half_width=20)
    assert mine == theirs
    est = analysis.estimate(target)
    assert est.to_pandas().shape == est.to_polars().shape == (1, 7)


def test_everything_that_is_printed_is_shown_in_notebooks_without_wrapping():
    battles = lrbtl.demo_battles()
    analysis, pair = lrbtl.analyse(battles), ("iris-large", "amber-large")
    target = lrbtl.gap(*pair)
    results = [analysis.gate(*pair), analysis.win_matrix(), analysis.votes_needed(target, half_width=20), battles]
    results += [
        analysis.boards().rank_sets(),
        analysis.leaderboard().first(),
        lrbtl.watch(battles),
        analysis.diagnose(),
    ]
    for result in results:
        assert "white-space:pre;" in result._repr_html_() and str(result).split()[0] in result._repr_html_()
    for table in (analysis.leaderboard(), analysis.boards(), analysis.compare(*pair), analysis.estimate(target)):
        assert "white-space:nowrap" in table._repr_html_()
    many = lrbtl.simulate_battles(lrbtl.simulate_scores((300,), 1, scale=1, rng=0), 20_000, rng=1)
    assert lrbtl.leaderboard(many)._repr_html_().count("<tr") < 70  # rows in the middle are left out


def test_overall_is_a_name_of_all_contexts():
    battles = lrbtl.Battles.read({"model_a": list("xyx") * 40, "model_b": list("yxy") * 40, "winner": [1, 0.5, 0] * 40,
                                  "task": ["code", "math"] * 60})  # fmt: skip
    board, other = lrbtl.leaderboard(battles, context="overall"), lrbtl.leaderboard(battles)
    np.testing.assert_array_equal(board.score, other.score)
    assert board.context is None and str(board) == str(other)
    pair = [lrbtl.gap("x", "y", "overall"), lrbtl.gap("x", "y")]
    assert len(set(lrbtl.infer(battles, pair).estimate.tolist())) == 1
    called = lrbtl.Battles.from_arrays(["x"], ["y"], [1], [["overall"]], counts=[30])
    assert lrbtl.leaderboard(called, context="overall").context == "overall"


def test_a_row_of_a_board(evil):
    board = lrbtl.leaderboard(evil)
    row = board[board.models[0]]
    assert row.rank == row["rank"] == 1 and row.score == board.score[0] and "score" in dir(row)
    assert board.to_pandas().shape[0] == board.to_polars().shape[0] == 4
    with pytest.raises(lrbtl.errors.UnknownModelError):
        board["nobody"]
    with pytest.raises(AttributeError, match="no 'colour'"):
        _ = row.colour
    board = lrbtl.leaderboard(evil)
    assert [row.model for row in board] == list(board.models) and board.models[0] in board and "none" not in board


def test_three_weightings_have_three_labels_and_boards_agree_with_targets(evil):
    battles = lrbtl.Battles.read(evil, contexts=EVIL)
    a, b = battles.models[:2]
    weights = [None, "equal", {EVIL + "p": 1}]
    est = lrbtl.infer(battles, [lrbtl.gap(a, b, weights=w) for w in weights])
    assert (
        len(set(est.labels)) == 3 and lrbtl.infer(battles, lrbtl.gap(a, b, weights="traffic")).labels == est.labels[:1]
    )
    assert "Elo" in str(est)


def test_answers_of_every_call_say_weights_that_are_not_the_default():
    battles = lrbtl.demo_battles()
    analysis, pair = lrbtl.analyse(battles), ("iris-large", "amber-large")
    calls = [
        lambda **options: str(analysis.gate(*pair, **options)),
        lambda **options: str(analysis.compare(*pair, **options)),
        lambda **options: str(analysis.win_matrix(**options)),
        lambda **options: str(analysis.plan(500, goal=("top", 3), **options)),
        lambda **options: str(lrbtl.watch(battles, **options)),
        lambda **options: str(analysis.votes_needed(lrbtl.gap(*pair, **options), half_width=20)),
    ]
    for call in calls:
        assert "weights equal" in call(weights="equal") and "weights coding: 2, maths: 1" in call(
            weights={"coding": 2, "maths": 1}
        )
        assert "weights" not in call() and "weights" not in call(weights="traffic")
    assert analysis.gate(*pair, weights="equal").to_dict()["weights"] == "weights equal"
    assert "who the top 3 are, maths" in str(analysis.plan(500, goal=("top", 3), context="maths", weights="equal"))


def test_bombs_are_refused_before_the_work(evil):
    many = {
        "model_a": [f"m{k}" for k in range(40_000)],
        "model_b": [f"m{k + 1}" for k in range(40_000)],
        "winner": [1] * 40_000,
    }
    with pytest.raises(TooLargeError, match="top_models"):
        lrbtl.leaderboard(many)
    with pytest.raises(TooLargeError, match="top_models"):
        lrbtl.infer(many, lrbtl.gap("m0", "m1"))
    some = lrbtl.Battles.from_arrays(np.arange(500), np.arange(1, 501), np.ones(500))
    with pytest.raises(TooLargeError, match="joint intervals of all pairs of 501 models"):
        lrbtl.win_matrix(some, joint=True)
    days = {**evil, "day": (1e8 + 2.8e6 * np.arange(600)).tolist()}
    with pytest.raises(TooLargeError, match="period='day' makes"):
        lrbtl.history(days, "day", period="day")
    with pytest.raises(TooLargeError):
        lrbtl.simulate_scores((10**6, 10**6), 1, scale=1.0)
    with pytest.raises(TooLargeError):
        lrbtl.Results.from_arrays([(0, 0)], [1.0], shape=(10**9, 10**9))


def test_settings_that_are_none_are_named(evil):
    with pytest.raises(InputTypeError, match="HierarchicalConfig"):
        lrbtl.analyse(evil, config="fast")
    battles = lrbtl.Battles.read(evil)
    with pytest.raises(SamplingError, match="not a sampling law"):
        lrbtl.diagnose(battles, lrbtl.fit(battles, 1), sampling="uniform")


def test_what_random_calls_found_stays_found(evil):
    battles = lrbtl.Battles.read(evil, contexts=EVIL)
    for shape in ((0, 3), (3, 0), (1,)):
        with pytest.raises(RankError):
            lrbtl.information(np.zeros(shape), rank=1)
    with pytest.raises(RankError):
        lrbtl.spectral_initialisation(battles, np.array(2.0))
    with pytest.raises(SamplingError, match="prior_votes"):
        lrbtl.TableSampling.estimate(battles, prior_votes=np.ones(2))
    with pytest.raises(RidgeError, match="logits"):
        lrbtl.fit_separate(battles, prior_sd=1e160)
    sets = lrbtl.rank_sets(battles, level=np.float32(0.9))
    assert json.loads(sets.to_json())["level"] == pytest.approx(0.9, abs=1e-6)
    assert json.loads(sets.top(np.uint64(2)).to_json())["k"][0] == 2
    with pytest.raises(InputTypeError, match="model="):
        lrbtl.Results.from_items({"model": ["x"]}, model=np.array(["a", "b"]))
    with pytest.raises(InputTypeError, match="model="):
        lrbtl.Results.from_wide({"model": ["x", "y"], "p": [3, 4]}, model=np.array(["a", "b"]))
    with pytest.raises(CovariateError):
        lrbtl.forecast({"model": ["x", "y"], "benchmark": ["p", "p"], "score": [3, 4]}, effects=np.ones(2))
    with pytest.raises(ClusterError):
        battles.cluster_sizes(np.ones(2))
    with pytest.raises(PlotError, match="date"):
        lrbtl.plot_leaderboard(lrbtl.leaderboard(battles), date=pd.NaT)
    est = lrbtl.Estimate(["x"], [1.0], [[1e-300]], links="identity")
    assert est.test(null=-1e300).pvalue[0] == 0.0


def test_what_asking_results_for_anything_found_stays_found(evil):
    battles = lrbtl.Battles.read(evil, contexts=EVIL)
    analysis = lrbtl.analyse(battles)
    row = analysis.leaderboard()[battles.models[0]]
    for column in ("elo", 3, ["rank"]):
        with pytest.raises(MissingColumnError, match="it has"):
            row[column]
    assert row.get("elo", 0) == 0
    with pytest.raises(InputTypeError, match="organisations"):
        lrbtl.stability(analysis, organisations="m0")
    choice = lrbtl.choose(analysis, dict.fromkeys(battles.models, 1.0))
    with pytest.raises(UnknownModelError, match="4 models"):
        choice.sentence(9)
    with pytest.raises(MethodError, match="choose one of 'regret'"):
        choice.routing.overall("pandas")
    models = battles.models
    best = analysis.estimate([lrbtl.gap(*models[:2]), lrbtl.gap(*models[1:3])]).largest()
    with pytest.raises(MethodError, match="decimals"):
        best.words("x")
    with pytest.raises(ScoreError, match="larger unit"):
        lrbtl.leaderboard({"model": ["x", "y", "x"], "benchmark": ["p", "p", "q"], "score": [1e160, 1.0, 2.0]})
    truth = lrbtl.simulate_scores((4, 2), 1, scale=1, rng=0)
    votes = lrbtl.information(truth, rank=1).influence_function(lrbtl.gap(0, 1))
    for wrong in ((9, 0, 1, 0), ("x", 0, 1, 0), (0, 1, "x", 0), (0, 1, 1), ([0, 1], [0, 1, 2], 1, 0)):
        with pytest.raises(LrbtlError):
            votes(*wrong)


def test_a_device_that_cannot_be_read_is_named():
    for call in (lrbtl.Battles.read, lrbtl.leaderboard):
        with pytest.raises(FileReadError, match="cannot read"):
            call("/proc/self/mem" if Path("/proc/self/mem").exists() else "nothing.csv")
