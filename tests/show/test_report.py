import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import lrbtl
from board_factory import CONTEXTS, LONG, NEWCOMER, SCRIPT, UNBEATEN, make_boards
from lrbtl.errors import OutputPathError, ReportError
from lrbtl.show import report

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
    assert [board["context"] for board in data["boards"]] == ["Overall", *CONTEXTS]
    assert {SCRIPT, LONG} <= set(data["models"])
    for entry, board in zip(data["boards"], [boards.overall, *boards.values()], strict=True):
        assert [data["models"][i] for i in entry["model"]] == list(board.models)
        assert entry["rank"] == [rank or None for rank in board.rank.tolist()]
        assert entry["note"] == list(board.notes) and entry["status"] == list(board.status)
        np.testing.assert_allclose(np.array(entry["score"], dtype=float), board.score, rtol=1e-5)
        last = board.models.index(UNBEATEN)
        assert entry["upper"][last] is entry["score"][last] is entry["rank"][last] is None
        assert entry["status"][board.models.index(NEWCOMER)] == "preliminary"
    assert data["boards"][0]["about"][0] == "categories weighted by votes"
    assert "40 models (1 preliminary)" in data["summary"]
    assert data["diagnostics"][1] == {"level": "warn", "text": DIAGNOSTICS[1][1]}


def test_duels_are_the_win_matrices(data, boards):
    n = len(data["duel_models"])
    labels = [data["models"][i] for i in data["duel_models"]]
    for duel in data["duels"]:
        context = None if duel["context"] == "Overall" else duel["context"]
        place = 0
        for i in range(n):
            for j in range(i + 1, n):
                a, b = boards.models.index(labels[i]), boards.models.index(labels[j])
                for name, matrices in (("win", boards.win), ("lower", boards.win_lower), ("upper", boards.win_upper)):
                    if UNBEATEN in (labels[i], labels[j]):
                        assert duel[name][place] is None
                    else:
                        assert abs(duel[name][place] / 10_000 - matrices[context][a, b]) <= 0.5e-4 + 1e-12
                place += 1
        assert place == len(duel["win"])


def test_boards_without_win_matrices_or_contexts():
    data = report.report_data(replace(make_boards(10, contexts=()), win={}), (), None)
    assert data["duels"] == []
    assert len(data["boards"]) == 1


def test_many_models_limit_the_duels(monkeypatch):
    monkeypatch.setattr(report, "DUEL_MODELS", 7)
    boards = make_boards(10)
    data = report.report_data(boards, (), None)
    assert [data["models"][i] for i in data["duel_models"]] == list(boards.overall.models[:7])
    assert len(data["duels"][0]["win"]) == 21


def test_size_with_two_hundred_models():
    assert len(report.report_html(make_boards(200))) < 4_000_000


def test_method_note_is_split_into_paragraphs(boards):
    data = report.report_data(boards, (), "First  line\nof one.\n\n<b>Second</b>.")
    assert data["method"] == ["First line of one.", "<b>Second</b>."]
    assert "95%" in " ".join(report.report_data(boards, (), None)["method"])


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
    assert json.loads(Page(text).scripts[0])["models"][:2] == ["\udcff", "日本"]


def test_real_boards_with_number_labels():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((5, 2), 1, scale=1, rng=0), 2000, rng=1)
    cells = battles.cells
    battles = lrbtl.Battles.from_arrays(cells.a, cells.b, cells.y, [cells.context], counts=cells.count)
    boards = lrbtl.leaderboard(battles, context="all", rank=1)
    data = report.report_data(boards, (), None)
    assert data["models"] == [str(model) for model in boards.models] and boards.models[0] in range(5)
    assert [board["context"] for board in data["boards"]] == ["Overall", "0", "1"] and len(data["duels"]) == 3
    assert data["duels"][2]["win"][0] == round(10_000 * boards.win[1][0, 1])
