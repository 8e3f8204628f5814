"""Ratings over time as a user reads them."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import lrbtl
from lrbtl.errors import (
    ClusterError,
    IslandWarning,
    LinkError,
    MissingColumnError,
    PeriodError,
    PlotError,
    UnknownContextError,
)
from lrbtl.inference.joint import holm


@pytest.fixture(scope="module")
def truth():
    """Scores of 6 models over 8 periods: the first falls by one, the last is new in period 4."""
    scores = np.repeat(np.linspace(-1, 1, 6)[:, None], 8, axis=1)
    scores[0] = np.linspace(0.5, -0.5, 8)
    return scores - scores.mean(axis=0)


def draw(truth, n=6000, seed=1):
    rng = np.random.default_rng(seed)
    t = rng.integers(truth.shape[1], size=n)
    pair = np.array([rng.permutation(6 if when >= 4 else 5)[:2] for when in t])
    won = rng.random(n) < 1 / (1 + np.exp(truth[pair[:, 1], t] - truth[pair[:, 0], t]))
    return [f"m{k}" for k in pair[:, 0]], [f"m{k}" for k in pair[:, 1]], won.astype(float), t


@pytest.fixture(scope="module")
def story(truth):
    a, b, won, t = draw(truth)
    return lrbtl.history(lrbtl.Battles.from_arrays(a, b, won, [t]))


def test_a_fall_is_seen_and_named(story, truth):
    drift = story.drift()["m0"]
    assert abs(drift.estimate[0] + 0.83) < 3 * drift.se[0]
    assert "m0" in story.movers()
    assert "m0 since 0 -" in str(story)
    assert "drift" in story.heading()[2]


def test_arrays_estimates_and_rows_are_one_answer(story):
    for t in (0, 7):
        found = story.at(t)
        rows = [story.row(label) for label in found.labels]
        np.testing.assert_allclose(1000 + 400 / np.log(10) * found.estimate, story.score[rows, t])
        np.testing.assert_allclose(400 / np.log(10) * found.se, story.se[rows, t])
    path = story.of("m0")
    row = story.row("m0")
    np.testing.assert_allclose(400 / np.log(10) * path.se, story.se[row])
    weights = np.zeros(8)
    weights[[2, 7]] = -1, 1
    change, drift = path.contrast(weights), story.drift(since=2)["m0"]
    np.testing.assert_allclose([change.estimate[0], change.se[0]], [drift.estimate[0], drift.se[0]])


def test_newcomers_begin_with_their_first_vote(story):
    row = story.row("m5")
    assert np.isnan(story.score[row, :4]).all() and np.isfinite(story.score[row, 4:]).all()
    assert "m5" not in story.drift(since=2).labels
    assert story.of("m5").labels == ("4", "5", "6", "7")


def test_order_of_rows_and_sides_do_not_matter(truth, story):
    a, b, won, t = draw(truth)
    order = np.random.default_rng(0).permutation(len(a))
    other = lrbtl.history(
        lrbtl.Battles.from_arrays([b[k] for k in order], [a[k] for k in order], 1 - won[order], [t[order]])
    )
    assert other.models == story.models
    np.testing.assert_allclose(other.score, story.score, atol=1e-6)


def test_other_contexts_are_pooled(truth, story):
    a, b, won, t = draw(truth)
    task = np.random.default_rng(0).integers(2, size=len(a))
    battles = lrbtl.Battles.from_frame(
        {"model_a": a, "model_b": b, "winner": won, "task": task, "time": t}, contexts=["task", "time"]
    )
    other = lrbtl.history(battles, "time")
    np.testing.assert_allclose(other.score, story.score, atol=1e-6)
    assert "categories are pooled" in other.heading()


def test_frames_and_empty_periods(truth):
    a, b, won, t = draw(truth, 900)
    days = [f"2024-{1 + 2 * (k // 4):02d}-03" for k in t]
    frame = {"left": a, "right": b, "winner": won, "day": days}
    found = lrbtl.history(frame, "day", period="month", model_a="left", model_b="right")
    assert found.periods == ("2024-01", "2024-02", "2024-03")
    assert found.votes[:, 1].sum() == 0 and np.isfinite(found.score[:, 1]).sum() == 5


def test_no_drift_is_said(truth):
    a, b, won, t = draw(np.repeat(truth[:, :1], 8, axis=1), 3000)
    found = lrbtl.history(lrbtl.Battles.from_arrays(a, b, won, [t]))
    assert found.movers() == () and "no model is seen to drift" in found.heading()


def test_tables_pictures_and_pickles(story):
    columns = story.to_dict()
    json.dumps(columns)
    assert len(columns["model"]) == 5 * 8 + 4
    assert story.to_frame("polars").shape == (44, 7)
    assert "<table" in story._repr_html_()
    assert str(pickle.loads(pickle.dumps(story))) == str(story)
    ax = lrbtl.plot_history(story, ["m0", "m5"], theme="dark")
    assert len(ax.lines) == 2 and [text.get_text() for text in ax.texts][:2] == ["m0", "m5"]
    assert len(lrbtl.plot_history(story, top=3).lines) == 3


def test_bad_input_has_named_errors(story):
    plain = lrbtl.Battles.from_arrays(["x", "y"], ["y", "x"], [1, 0])
    timed = lrbtl.Battles.from_arrays(["x", "y"], ["y", "x"], [1, 0], [["a", "b"]])
    with pytest.raises(MissingColumnError, match="no contexts"):
        lrbtl.history(plain)
    with pytest.raises(MissingColumnError, match="context 1"):
        lrbtl.history(timed, "month")
    with pytest.raises(PeriodError, match="one period"):
        lrbtl.history(timed.select(contexts=["a"]))
    with pytest.raises(PeriodError, match="frames"):
        lrbtl.history(timed, period="month")
    with pytest.raises(PeriodError, match="column of times"):
        lrbtl.history({"model_a": ["x"], "model_b": ["y"], "winner": [1]})
    with pytest.raises(PeriodError, match="two of these"):
        story.drift(since=7)
    with pytest.raises(UnknownContextError):
        story.at(99)
    with pytest.raises(PlotError, match="history"):
        lrbtl.plot_history(timed)
    with pytest.raises(PlotError, match="at least 1"):
        lrbtl.plot_history(story, top=0)


def test_models_that_nothing_links_are_left_out():
    battles = lrbtl.Battles.from_arrays(
        ["x", "y", "z", "u"], ["y", "z", "x", "v"], [1, 1, 0, 1], [[0, 1, 1, 0]], counts=[5, 5, 9, 1]
    )
    with pytest.warns(IslandWarning, match="2 models"):
        assert set(lrbtl.history(battles).models) == {"x", "y", "z"}


def test_holm_is_the_textbook_rule():
    assert holm(np.array([0.01, 0.2, 0.02]), 0.05).tolist() == [True, False, True]
    assert holm(np.array([0.03, 0.2, 0.02]), 0.05).tolist() == [False, False, False]


def test_covariates_are_taken_out_and_weights_count():
    rng = np.random.default_rng(3)
    t, a = rng.integers(4, size=4000), rng.integers(4, size=4000)
    b = (a + rng.integers(1, 4, size=4000)) % 4
    won = (rng.random(4000) < 1 / (1 + np.exp(-0.5 - (a - b) / 2))).astype(float)
    frame = {
        "model_a": a,
        "model_b": b,
        "winner": won,
        "t": t,
        "voter": rng.integers(40, size=4000),
        "w": np.full(4000, 2.0),
    }
    found = lrbtl.history(frame, "t", position=True, cluster="voter")
    assert abs(found.effects["position"].estimate[0] - 0.5) < 4 * found.effects["position"].se[0]
    assert "correlated votes of one voter" in found.heading()[-1]
    plain = lrbtl.history(frame, "t")
    assert plain.effects is None
    np.testing.assert_allclose(lrbtl.history(frame, "t", weight="w").se, plain.se, rtol=1e-6)


def test_votes_that_are_copies_count_once():
    """Every vote three times, and each triple one voter: bands are those of single votes, not far too narrow."""
    rng = np.random.default_rng(5)
    t, a = rng.integers(4, size=900), rng.integers(5, size=900)
    b = (a + rng.integers(1, 5, size=900)) % 5
    won = (rng.random(900) < 1 / (1 + np.exp((b - a) * (1 + 0.2 * t) / 4))).astype(float)
    frame = {"model_a": a, "model_b": b, "winner": won, "t": t, "voter": np.arange(900)}
    copies = {name: np.repeat(column, 3) for name, column in frame.items()}
    single, clustered, naive = (
        lrbtl.history(log, "t", **options)
        for log, options in ((frame, {}), (copies, {"cluster": "voter"}), (copies, {}))
    )
    np.testing.assert_allclose(clustered.se, single.se, rtol=0.02)
    np.testing.assert_allclose(clustered.score, single.score, atol=1.0)
    assert clustered.step == pytest.approx(single.step, rel=0.03) and np.mean(naive.se) < 0.85 * np.mean(single.se)


def test_histories_know_the_logistic_link_only():
    frame = {"model_a": ["x"] * 4, "model_b": ["y"] * 4, "winner": [1, 0, 1, 0], "t": [1, 1, 2, 2]}
    with pytest.raises(LinkError, match="logistic link only"):
        lrbtl.history(frame, "t", link="probit")
    with pytest.raises(ClusterError, match="same voter"):
        lrbtl.history({**frame, "voter": [1] * 4}, "t", cluster="voter")
    assert lrbtl.history(frame, "t", link="logistic").periods == (1, 2)


@pytest.mark.parametrize("times", [[[]] * 4, [(1, 2)] * 4, []])
def test_times_that_are_none_have_named_errors(times):
    frame = {"model_a": ["x"] * 4, "model_b": ["y"] * 4, "winner": [1, 0, 1, 0], "t": times}
    with pytest.raises(PeriodError, match="not a column of times"):
        lrbtl.history(frame, "t", period="month")
    with pytest.raises(PeriodError, match="name the column"):
        lrbtl.history(frame, [])
    with pytest.raises(PlotError, match="list of models"):
        lrbtl.plot_history(lrbtl.history({**frame, "t": [1, 1, 2, 2]}, "t"), "x")


def test_periods_before_the_first_votes_of_a_group_are_left_out():
    """The first day has votes of two models only that nobody else met."""
    frame = {
        "model_a": ["q"] + ["x", "y", "z"] * 20,
        "model_b": ["r"] + ["y", "z", "x"] * 20,
        "winner": ["model_a"] + ["model_a", "model_b", "model_a", "model_b"] * 15,
        "day": [1] + [2, 3] * 30,
    }
    with pytest.warns(lrbtl.errors.IslandWarning):
        found = lrbtl.history(frame, "day")
    assert found.periods == (2, 3) and np.isfinite(found.score).all()
    early = {name: [*values[:1], *values[1::2]] for name, values in frame.items()}
    with pytest.warns(lrbtl.errors.IslandWarning), pytest.raises(lrbtl.errors.PeriodError, match="one period"):
        lrbtl.history(early, "day")


def test_dates_are_shown_without_their_midnight():
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(80) // 10, "D")
    frame = pd.DataFrame({"model_a": ["x", "y"] * 40, "model_b": ["y", "x"] * 40, "winner": ["model_a", "tie"] * 40})
    text = str(lrbtl.history(frame.assign(day=days), "day"))
    assert "2026-01-01 to 2026-01-08" in text and "T00:00" not in text


def test_time_stamps_make_periods_and_files_are_read(truth, tmp_path):
    a, b, won, t = draw(truth, 900)
    seconds = 1.7e9 + 86400.0 * np.array(t) + np.random.default_rng(0).integers(80_000, size=len(t))
    log = {"model_a": a, "model_b": b, "winner": won, "at": seconds}
    note = "at holds times: periods of a day were chosen (period= names others)"
    found = lrbtl.history(log, "at")
    assert len(found.periods) <= len(set(t)) + 1 and note in found.heading()
    few = {name: column[:200] for name, column in log.items()}  # not as many periods as there are votes
    assert len(lrbtl.history(few, "at").periods) < 20
    assert note not in lrbtl.history(log, "at", period="day").heading()
    rows = zip(*log.values(), strict=True)
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner,at\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows))
    np.testing.assert_allclose(lrbtl.history(path, "at").score, found.score)
    np.testing.assert_allclose(lrbtl.history(str(path), "at", period="day").score, found.score)


def test_a_history_says_what_outcomes_became():
    log = {"model_a": list("xy") * 60, "model_b": list("yx") * 60, "winner": ["model_a", "both_bad"] * 60}
    found = lrbtl.history({**log, "day": ["2024-01-05"] * 60 + ["2024-02-10"] * 60}, "day")
    assert "60 both_bad votes kept as ties" in found.heading()
