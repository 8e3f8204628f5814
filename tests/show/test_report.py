import base64
import datetime as dt
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import lrbtl
from board_factory import CONTEXTS, LONG, SCRIPT, UNBEATEN, make_boards
from lrbtl.errors import LrbtlError, OutputPathError, ReportError, SelfBattleWarning
from lrbtl.inference.estimate import ELO
from lrbtl.show import page_data, report

DIAGNOSTICS = [("ok", "All models are connected."), ("warn", f"{SCRIPT} & co. have few battles.")]


class Page(HTMLParser):
    """Tags, attributes and the text of scripts, as a browser's parser sees them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.title, self.inside = [], [], "", ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        if self.inside == "title":
            self.title += data


@pytest.fixture(scope="module")
def boards():
    return make_boards(40)


@pytest.fixture(scope="module")
def text(boards):
    return report.report_html(boards, diagnostics=DIAGNOSTICS, title=f"Arena {SCRIPT}")


@pytest.fixture(scope="module")
def data(text):
    return json.loads(Page(text).scripts[0])


def test_nothing_is_loaded_from_elsewhere(text):
    for _, attributes in Page(text).tags:
        for name in ("src", "href", "action", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert "://" not in text
    assert "@import" not in text
    assert "url(" not in text


def test_labels_never_become_markup(text):
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert page.title == f"Arena {SCRIPT}"
    assert SCRIPT not in text
    assert "</" not in page.scripts[0]


def test_only_the_reports_own_script_may_run(text):
    page = Page(text)
    policy = next(attributes["content"] for tag, attributes in page.tags if "http-equiv" in attributes)
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_data_holds_every_board(data, boards):
    (group,) = data["groups"]
    assert [board["context"] for board in group["boards"]] == ["Overall", *CONTEXTS]
    assert {SCRIPT, LONG} <= set(group["models"])
    for entry, board in zip(group["boards"], [boards.overall, *boards.values()], strict=True):
        assert [group["models"][i] for i in entry["model"]] == list(board.models)
        assert entry["rank"] == [rank or None for rank in board.rank.tolist()]
        assert [entry["note"].get(str(i), "") for i in range(40)] == list(board.notes)
        assert [data["statuses"][i] for i in entry["status"]] == list(board.status)
        np.testing.assert_allclose(np.array(entry["score"], dtype=float), board.score, rtol=1e-5)
        last = board.models.index(UNBEATEN)
        assert entry["upper"][last] is entry["score"][last] is entry["rank"][last] is None
    assert data["diagnostics"][1] == {"level": "warn", "text": DIAGNOSTICS[1][1]}


def test_date_votes_weights_and_version_stand_on_top(boards):
    facts = page_data.report_data(boards, date="3 May 2026", version="1.2.3")["facts"]
    votes = f"{int(boards.overall.battles.sum()) // 2:,} votes"
    words = [
        "3 May 2026",
        "40 models (1 preliminary)",
        votes,
        "8 categories weighted by votes",
        "95% intervals, valid for one look",
    ]
    assert facts == [*words, "lrbtl 1.2.3"]
    page = json.loads(Page(report.report_html(boards, date=dt.date(2026, 5, 3))).scripts[0])
    assert page["facts"][0] == "3 May 2026" and page["facts"][-1] == f"lrbtl {lrbtl.__version__}"
    today = json.loads(Page(report.report_html(boards)).scripts[0])["facts"][0]
    assert str(dt.datetime.now(dt.UTC).year) in today


@pytest.mark.parametrize(
    ("tiers", "words"),
    [([1, 2, 2], "leads"), ([1, 1, 2], "a and b share the first tier"), ([1] * 6, "from 5 more models"), ([0, 0], "")],
)
def test_headline_says_who_leads(boards, tiers, words):
    models = tuple("abcdef"[: len(tiers)])
    board = replace(boards.overall, models=models, tier=np.array(tiers))
    assert words in page_data.headline(board)
    assert bool(page_data.headline(board)) == bool(words)


def unpack_chances(packed, gap, n):
    """Chances and limits of pairs as the page computes them, from the gaps of its scores in log odds."""
    pairs = np.triu_indices(n, 1)
    if "centre" in packed:
        gap = packed["step"] * np.frombuffer(base64.b64decode(packed["centre"]), "<i2")

    def widths(part):
        size = np.frombuffer(base64.b64decode(part["size"]), "<f4").astype(np.float64)
        code = np.frombuffer(base64.b64decode(part["code"]), np.uint8)
        width = np.hypot(*(size[side] for side in pairs)) * np.exp(part["low"] + part["step"] * code)
        return np.where(code == page_data.UNKNOWN, np.nan, np.where(code == page_data.ENDLESS, np.inf, width))

    below = widths(packed["below"])
    above = widths(packed["above"]) if "above" in packed else below
    centre = np.where(np.isnan(below), np.nan, gap)
    return expit(centre), expit(centre - below), expit(centre + above)


def page_chances(group, at):
    """Win probabilities and limits that the page computes for a board, of pairs a < b."""
    board, n = group["boards"][at], group["duels"]["n"]
    score = np.full(len(group["models"]), np.nan)
    score[board["model"]] = [np.nan if x is None else x for x in board["score"]]
    a, b = np.triu_indices(n, 1)
    return unpack_chances(group["duels"]["boards"][at], (score[a] - score[b]) / ELO, n)


def expected_chances(boards, context, n):
    pairs = np.triu_indices(n, 1)
    return [matrices[context][pairs] for matrices in (boards.win, boards.win_lower, boards.win_upper)]


def test_duels_are_the_win_matrices(data, boards):
    (group,) = data["groups"]
    for at, context in enumerate([None, *CONTEXTS]):
        found, expected = page_chances(group, at), expected_chances(boards, context, group["duels"]["n"])
        for shown, exact in zip(found, expected, strict=True):
            np.testing.assert_allclose(shown, exact, atol=1e-3)
        np.testing.assert_array_equal(found[1] > 0.5, expected[1] > 0.5)
        np.testing.assert_array_equal(found[2] < 0.5, expected[2] < 0.5)


@given(
    n=st.integers(7, 14),
    seed=st.integers(0, 10**6),
    endless=st.floats(0, 0.5),
    lopsided=st.booleans(),
    gaps=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_packed_chances_keep_every_verdict(n, seed, endless, lopsided, gaps):
    rng = np.random.default_rng(seed)
    boards = make_boards(n, contexts=(), seed=seed)
    centre = rng.normal(size=(n, n)) * 2
    score = {model: x for model, x in zip(boards.models, boards.overall.score / ELO, strict=True)}
    if gaps:
        column = np.array([score[model] for model in boards.models])
        centre = column[:, None] - column
    width, above = (rng.gamma(2.0, size=(n, n)) * rng.choice([0.01, 1, 5]) for _ in range(2))
    width[rng.random((n, n)) < endless] = np.inf
    above = above if lopsided else width
    win, low, high = expit(centre), expit(centre - width), expit(centre + above)
    boards = replace(boards, win={None: win}, win_lower={None: low}, win_upper={None: high})
    (group,) = page_data.report_data(boards)["groups"]
    found, expected = page_chances(group, 0), expected_chances(boards, None, n)
    known = np.isfinite(expected[0])
    assert (np.isfinite(found[0]) == known).all()
    for shown, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(shown[known], exact[known], atol=0.012)
    np.testing.assert_array_equal(found[1][known] > 0.5, expected[1][known] > 0.5)
    np.testing.assert_array_equal(found[2][known] < 0.5, expected[2][known] < 0.5)


def test_boards_without_win_matrices_or_contexts():
    boards = make_boards(10, contexts=())
    (group,) = page_data.report_data(replace(boards, win={}))["groups"]
    assert group["duels"] is None
    assert len(group["boards"]) == 1
    assert page_data.report_data(boards)["facts"][1].endswith("votes")


def test_many_models_limit_the_duels(monkeypatch):
    monkeypatch.setattr(page_data, "PAIR_BYTES", 21 * 9)
    boards = make_boards(10)
    (group,) = page_data.report_data(boards)["groups"]
    assert group["duels"]["n"] == 7
    for shown, exact in zip(page_chances(group, 3), expected_chances(boards, CONTEXTS[2], 7), strict=True):
        np.testing.assert_allclose(shown, exact, atol=1e-3)


def test_size_with_two_hundred_models_and_thirty_categories():
    boards = make_boards(200, contexts=tuple(f"category {k}" for k in range(30)))
    assert len(report.report_html(boards)) < 2_000_000


def test_one_board_makes_a_report(boards):
    data = json.loads(Page(report.report_html(boards["maths"])).scripts[0])
    (group,) = data["groups"]
    assert [board["context"] for board in group["boards"]] == ["maths"]
    assert group["duels"] is None


def test_groups_that_never_meet_follow():
    ours, theirs = make_boards(12, contexts=("x", "y")), make_boards(8, contexts=("x",), seed=5)
    data = page_data.report_data(replace(ours, islands=(theirs,)))
    assert [len(group["models"]) for group in data["groups"]] == [12, 8]
    assert data["facts"][0] == "20 models (2 preliminary)"
    alone = replace(ours.overall, islands=(theirs.overall,))
    assert len(json.loads(Page(report.report_html(alone)).scripts[0])["groups"]) == 2


def test_swapped_arguments_are_named(boards, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReportError, match=r"the path comes first.*call write_report\('report.html'"):
        report.write_report(boards, "report.html")
    with pytest.raises(LrbtlError):
        report.write_report("report.html", 17)
    assert not list(tmp_path.iterdir())


def test_frames_and_battles_make_their_own_boards():
    log = {"model_a": ["x", "y"] * 40, "model_b": ["y", "z"] * 40, "winner": ["model_a", "tie"] * 40}
    page = json.loads(Page(report.report_html(log)).scripts[0])
    again = json.loads(Page(report.report_html(lrbtl.Battles.from_frame(log))).scripts[0])
    assert page["groups"][0]["models"] == again["groups"][0]["models"]
    assert sorted(page["groups"][0]["models"]) == ["x", "y", "z"]


def test_tables_become_tabs(boards):
    estimate = lrbtl.infer(
        lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[30, 10]), lrbtl.gap("x", "y")
    )
    given = [("Gaps", estimate), ("Prices", {"model": ["a", ("b", 1)], "price": [np.float64(np.nan), np.int64(3)]})]
    gaps, prices = page_data.report_data(boards, tables=given)["tables"]
    assert gaps["title"] == "Gaps" and {"estimate", "lower", "upper"} <= set(gaps["columns"])
    assert prices["columns"] == {"model": ["a", "('b', 1)"], "price": [None, 3]}
    for wrong in (3, {"a": [1], "b": []}, {}):
        with pytest.raises(ReportError, match="'Wrong' is not a mapping of columns"):
            page_data.report_data(boards, tables=[("Wrong", wrong)])


def test_effects_have_a_tab_of_their_own():
    rng = np.random.default_rng(0)
    a, tokens = rng.integers(0, 2, 2000), rng.integers(50, 500, (2, 2000))
    won = rng.random(2000) < np.where(tokens[0] > tokens[1], 0.6, 0.4)
    log = {"model_a": a, "model_b": 1 - a, "winner": won, "long_a": tokens[0], "long_b": tokens[1]}
    battles = lrbtl.Battles.from_frame(log, covariates={"length": ("long_a", "long_b")})
    board = lrbtl.leaderboard(battles)
    (table,) = json.loads(Page(report.report_html(board)).scripts[0])["tables"]
    assert table["title"] == "Effects" and table["columns"]["label"] == ["length"]
    assert table["columns"]["lower"][0] < table["columns"]["estimate"][0] < table["columns"]["upper"][0]
    assert "points of win probability" in table["columns"]["in_words"][0]


def test_diagnostics_come_from_the_boards_and_battles():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=1, rng=0), 6000, rng=1)
    by_fit = lrbtl.leaderboard(battles, context="all", rank=1, method="efficient")
    assert report.report_diagnostics(by_fit, None)[0][1].startswith("Verdict: ")
    silent = lrbtl.Battles.from_arrays([0, 1], [1, 0], [1, 0.5], n_models=3, counts=[20, 20])
    boards = lrbtl.leaderboard(silent, context="all")
    assert report.report_diagnostics(boards, silent)[0] == report.report_diagnostics(boards, None)[0]
    assert report.report_diagnostics(boards, silent)[0][1].startswith("Verdict: ready to publish. ")
    alone = lrbtl.Leaderboards(boards.overall, {})
    assert report.report_diagnostics(alone, None) == []
    ((level, text),) = report.report_diagnostics(alone, silent)
    assert level == "warn" and "no battles" in text


def test_method_note_is_split_into_paragraphs(boards):
    data = page_data.report_data(boards, method_note="First  line\nof one.\n\n<b>Second</b>.")
    assert data["method"] == ["First line of one.", "<b>Second</b>."]
    assert "95%" in " ".join(page_data.report_data(boards)["method"])


def test_unknown_level_is_named(boards):
    with pytest.raises(ReportError, match=r"diagnostic \('bad', 'x'\).*ok, warn"):
        report.report_html(boards, diagnostics=[("bad", "x")])


def test_assets_have_no_open_slots(text):
    assert not re.search(r"\{\{[A-Z_]+\}\}", text)
    assert "{{TITLE}}" in report.report_html(make_boards(10), title="{{TITLE}}")


def test_written_file_is_the_report(boards, tmp_path):
    report.write_report(tmp_path / "report.html", boards)
    assert (tmp_path / "report.html").read_bytes().decode() == report.report_html(boards)
    with pytest.raises(OutputPathError, match="does not exist"):
        report.write_report(tmp_path / "none" / "report.html", boards)
    assert len(list(tmp_path.iterdir())) == 1


def test_labels_that_no_encoding_holds_are_written(tmp_path):
    boards = make_boards(10, contexts=())
    overall = replace(boards.overall, models=("\udcff", "日本", *boards.overall.models[2:]))
    report.write_report(tmp_path / "report.html", replace(boards, overall=overall, win={}), title="\udcff")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert json.loads(Page(text).scripts[0])["groups"][0]["models"][:2] == ["\\udcff", "日本"]


def test_real_boards_with_number_labels():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((5, 2), 1, scale=1, rng=0), 2000, rng=1)
    cells = battles.cells
    battles = lrbtl.Battles.from_arrays(cells.a, cells.b, cells.y, [cells.context], counts=cells.count)
    boards = lrbtl.leaderboard(battles, context="all", rank=1)
    (group,) = page_data.report_data(boards)["groups"]
    assert group["models"] == [str(model) for model in boards.models] and boards.models[0] in range(5)
    assert [board["context"] for board in group["boards"]] == ["Overall", "0", "1"]
    np.testing.assert_allclose(page_chances(group, 2)[0][0], boards.win[1][0, 1], atol=1e-4)


def test_reports_say_how_they_were_made_and_why_tests_differ():
    rows = {
        "model_a": ["x", "y", "z", "x", "y", "z", "x"] * 30,
        "model_b": ["y", "z", "x", "z", "x", "y", "x"] * 30,
        "winner": ["model_a", "tie", "both_bad", "model_b", "model_a", "tie", "tie"] * 30,
    }
    with pytest.warns(SelfBattleWarning):
        battles = lrbtl.Battles.read(rows)
    boards = lrbtl.leaderboard(battles, context="all")
    made = ["hierarchical method", "30 both_bad votes kept as ties", "30 votes of a model against itself left out"]
    made.append("90 ties (50.0%) count as half a win for both")
    text = " ".join(page_data.report_data(boards)["method"])
    document = " ".join(json.loads(boards.to_json())["notes"])
    for words in made:
        assert words in text and words in document
    assert "single test of one pair" in text and "single test of this pair" in lrbtl.report_html(boards)
