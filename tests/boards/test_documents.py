"""Boards as JSON: the published schema holds, and what was written comes back."""

import json
from pathlib import Path

import numpy as np
import pytest

import lrbtl
from lrbtl.cli.main import main
from lrbtl.errors import DocumentError, IslandWarning

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "board.json").read_text())


@pytest.fixture(scope="module")
def battles():
    truth = lrbtl.simulate_scores((6, 2, 2), 1, scale=1.5, rng=0)
    return lrbtl.simulate_battles(truth, 3000, rng=1)


@pytest.fixture(scope="module")
def islands():
    return lrbtl.Battles.from_arrays(
        ["a", "b", "c", "x"], ["b", "c", "a", "y"], [1, 1, 1, 0.25], counts=[40, 40, 40, 40]
    )


def same(one, other):
    """Two documents, but for their date."""
    return {**json.loads(one), "date": None} == {**json.loads(other), "date": None}


@pytest.mark.parametrize(
    "options", [{"margin": 20}, {"context": "all"}, {"compat": "fastchat"}, {"scale": "probability"}]
)
def test_boards_come_back_as_they_were(battles, options):
    board = lrbtl.leaderboard(battles, rank=1, **options)
    back = type(board).from_json(board.to_json("Spring"))
    assert str(back) == str(board) and same(back.to_json("Spring"), board.to_json("Spring"))
    pytest.importorskip("jsonschema").validate(json.loads(board.to_json()), SCHEMA)


def test_islands_come_back(islands):
    with pytest.warns(IslandWarning):
        board = lrbtl.leaderboard(islands, method="naive")
    back = lrbtl.Leaderboard.from_json(board.to_json())
    assert back.islands[0].models == board.islands[0].models and str(back) == str(board)


def test_a_document_says_what_it_rests_on(battles):
    board = lrbtl.leaderboard(battles, rank=1, context=(0, None), weights="equal")
    found = json.loads(board.to_json())
    assert found["digest"] == battles.digest and found["n_battles"] == 3000
    assert found["boards"][0]["weights"] == {"0 / 0": 0.5, "0 / 1": 0.5} and found["boards"][0]["context"] == [0, None]
    assert found["lrbtl"] == lrbtl.__version__ and found["date"].endswith("+00:00")
    assert lrbtl.Leaderboard.from_json(board.to_json()).context == (0, None)


def test_either_kind_reads_the_other(battles):
    boards = lrbtl.leaderboard(battles, rank=1, context="all")
    assert lrbtl.Leaderboard.from_json(boards.to_json()).models == boards.models
    assert lrbtl.Leaderboards.from_json(boards.overall.to_json()).models == boards.models


def test_the_digest_is_that_of_the_battles(battles):
    cells = battles.cells
    order = np.random.default_rng(0).permutation(cells.n_cells)
    modes = np.unravel_index(cells.context[order], battles.shape[1:])
    same_votes = lrbtl.Battles.from_arrays(
        cells.b[order], cells.a[order], 1 - cells.y[order], modes, n_models=6, n_levels=(2, 2),
        counts=cells.count[order], models=battles.models, levels=battles.levels,
    )  # fmt: skip
    assert same_votes.digest == battles.digest
    fewer = battles.select(models=battles.models[:5])
    assert fewer.digest != battles.digest and len(battles.digest) == 64


def test_the_command_writes_the_same_form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "--models", "4", "--contexts", "2", "--battles", "900", "--out", "votes.csv"]) == 0
    assert main(["leaderboard", "votes.csv", "--board", "all", "--quiet", "--out", "board.json"]) == 0
    text = Path("board.json").read_text()
    assert len(lrbtl.Leaderboards.from_json(text)) == 2
    pytest.importorskip("jsonschema").validate(json.loads(text), SCHEMA)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a board"),
        ('{"format": "other"}', "not a board"),
        ('{"format": "lrbtl-board", "format_version": 2, "lrbtl": "9.0"}', "read it with lrbtl 9.0"),
        ('{"format": "lrbtl-board", "format_version": 1, "boards": [{}]}', "not whole"),
    ],
)
def test_what_is_no_board_has_a_named_error(text, words):
    with pytest.raises(DocumentError, match=words):
        lrbtl.Leaderboard.from_json(text)
