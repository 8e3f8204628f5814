"""What is added to a registry is found everywhere: a link, a method, a column and a target, each by its one entry."""

import csv
import json

import numpy as np
import pytest

import lrbtl
from lrbtl.boards.columns import COLUMNS, BoardColumn
from lrbtl.cli.main import main
from lrbtl.errors import LinkError, MethodError
from lrbtl.inference.analysis import METHODS
from lrbtl.inference.calibration import possible_links
from lrbtl.inference.targets import Target
from lrbtl.methods.naive import Naive
from lrbtl.methods.targets import Resolved, SparseGradient
from lrbtl.model.links import LINKS, Cauchit
from lrbtl.show.page_data import report_data


@pytest.fixture(scope="module")
def battles():
    return lrbtl.simulate_battles(lrbtl.simulate_scores((5, 2), 1, scale=1, rng=0), 1500, rng=1)


@pytest.fixture(scope="module")
def votes(tmp_path_factory):
    """A file of votes."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("votes") / "votes.csv"
    rows = [
        ["xyz"[i], "xyz"[(i + 1 + rng.integers(2)) % 3], rng.choice(["model_a", "model_b"])] for i in [0, 1, 2] * 60
    ]
    path.write_text("\n".join(",".join(row) for row in [["model_a", "model_b", "winner"], *rows]) + "\n")
    return path


class Steep(Cauchit):
    """P(y = 1) = 1/2 + arctan(2 eta) / pi."""

    name = "steep"

    def mean(self, eta):
        return super().mean(2 * eta)

    def log_parts(self, eta):
        log_slope = super().log_parts(2 * eta)[2]
        return np.log(self.mean(eta)), np.log(self.mean(-eta)), log_slope + np.log(2)


def test_a_link_is_an_entry_of_links(battles, votes, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(LINKS, "steep", Steep())
    steep, cauchit = (lrbtl.infer(battles, lrbtl.gap(0, 1), link=link, rank=1) for link in ("steep", "cauchit"))
    assert steep.info.link == "steep" and steep.estimate[0] == pytest.approx(cauchit.estimate[0] / 2, rel=0.1)
    assert lrbtl.leaderboard(battles, link="steep").info.link == "steep"
    assert "steep" in possible_links(battles) and "steep" in lrbtl.compare_links(battles, rank=1).links
    with pytest.raises(LinkError, match="'steep'"):
        lrbtl.fit(battles, 1, link="nowhere")
    out = tmp_path / "board.json"
    assert main(["leaderboard", str(votes), "--link", "steep", "--out", str(out)]) == 0
    assert "steep" in json.loads(out.read_text())["boards"][0]["provenance"]["link"]
    assert main(["leaderboard", "--help"]) == 0
    assert "steep" in capsys.readouterr().out


class Halved(Naive):
    """Separate fits by another name."""

    name = "halved"


def test_a_method_is_an_entry_of_methods(battles, votes, monkeypatch, capsys):
    monkeypatch.setitem(METHODS, "halved", Halved())
    ours, plain = (lrbtl.analyse(battles, method=method) for method in ("halved", "naive"))
    asked = [lrbtl.gap(0, 1), lrbtl.win_probability(0, 1, 0)]
    np.testing.assert_array_equal(ours.estimate(asked).estimate, plain.estimate(asked).estimate)
    board = lrbtl.leaderboard(battles, method="halved")
    np.testing.assert_array_equal(board.score, lrbtl.leaderboard(battles, method="naive").score)
    gaps = [lrbtl.compare(battles, 0, 1, method=method).gap for method in ("halved", "naive")]
    np.testing.assert_array_equal(*gaps)
    assert lrbtl.gate(battles, 0, 1, method="halved").verdict == lrbtl.gate(battles, 0, 1, method="naive").verdict
    with pytest.raises(MethodError, match="halved"):
        lrbtl.analyse(battles, method="nowhere")
    assert main(["leaderboard", str(votes), "--method", "halved"]) == 0
    assert "x" in capsys.readouterr().out


@pytest.fixture
def length():
    """A column of boards that is printed: the length of a model's name."""
    added = BoardColumn(
        "name_length",
        lambda board: [len(str(model)) for model in board.models],
        "name length",
        lambda board: [f"{len(str(model))} letters" for model in board.models],
    )
    COLUMNS.insert(-2, added)
    yield added
    COLUMNS.remove(added)


def test_a_column_is_an_entry_of_columns(battles, votes, tmp_path, length):
    board = lrbtl.leaderboard(battles)
    lengths = [len(model) for model in board.models]
    assert "name length" in str(board) and f"{lengths[0]} letters" in str(board)
    assert f"{lengths[0]} letters" in board._repr_html_()
    assert board.to_dict()["name_length"] == lengths and board[board.models[1]].name_length == lengths[1]
    assert list(board.to_frame("pandas")["name_length"]) == lengths
    text = board.to_json()
    assert [row["name_length"] for row in json.loads(text)["rows"]] == lengths
    assert lrbtl.Leaderboard.from_json(text).to_dict() == board.to_dict()
    for path in (tmp_path / "board.csv", tmp_path / "board.md"):
        assert main(["leaderboard", str(votes), "--out", str(path)]) == 0
        assert "name_length" in path.read_text()
    with (tmp_path / "board.csv").open() as file:
        assert all(row["name_length"] == "1" for row in csv.DictReader(file))
    data = report_data(lrbtl.leaderboard(battles, context="all"))
    assert {"name": "name_length", "header": "name length"} in data["columns"]
    for shown in data["groups"][0]["boards"]:
        assert "name_length" in shown["printed"] and len(shown["name_length"]) == len(shown["model"])


def test_files_written_before_a_column_was_added_are_read(battles):
    board = lrbtl.leaderboard(battles)
    text = board.to_json()
    COLUMNS.append(BoardColumn("later", lambda board: [0] * len(board)))
    try:
        assert lrbtl.Leaderboard.from_json(text).models == board.models
    finally:
        COLUMNS.pop()


def lead(a, b):
    """Return a target: how much further a is ahead of b in the first context than in the last."""

    def resolve(data):
        models = np.array([data.model_index(model) for model in (a, b, a, b)])
        contexts = np.array([0, 0, data.n_contexts - 1, data.n_contexts - 1])
        return Resolved(
            f"lead({a}, {b})", "identity", SparseGradient(models, contexts, np.array([1.0, -1.0, -1.0, 1.0]))
        )

    return Target(resolve, f"lead({a}, {b})")


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.takes_votes])
def test_a_target_is_a_function(battles, method):
    target = lead("model_0", "model_1")
    estimate = lrbtl.infer(battles, [target, lrbtl.gap(0, 1, 0), lrbtl.gap(0, 1, 1)], method=method, rank=1)
    assert estimate.labels[0] == "lead(model_0, model_1)"
    assert estimate.estimate[0] == pytest.approx(estimate.estimate[1] - estimate.estimate[2], abs=1e-9)
    assert estimate[0].verdicts(20).labels == ("lead(model_0, model_1)",)


def test_a_target_is_asked_of_plans_and_influences(battles):
    target = lead("model_0", "model_1")
    assert lrbtl.votes_needed(battles, target, half_width=20).votes > 0
    assert "lead(model_0, model_1)" in str(lrbtl.influence(lrbtl.analyse(battles), target))
