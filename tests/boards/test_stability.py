"""The certificate of the first places: each line is proven by a fit, and flipping takes fewer votes than dropping."""

from dataclasses import replace

import numpy as np
import pytest

import lrbtl
from lrbtl.cli.main import main
from lrbtl.errors import InfluenceError, InputTypeError


@pytest.fixture(scope="module")
def battles():
    rng = np.random.default_rng(2)
    score, n = np.array([0.35, 0.1, 0.0, -0.3, -0.6]), 2400
    a = rng.integers(0, 5, n)
    b = (a + rng.integers(1, 5, n)) % 5
    y = (rng.random(n) < 1 / (1 + np.exp(score[b] - score[a]))).astype(float)
    frame = {
        "model_a": [f"m{k}" for k in a],
        "model_b": [f"m{k}" for k in b],
        "winner": y,
        "voter": rng.integers(0, 60, n),
    }
    return lrbtl.Battles.from_frame({**frame, "task": rng.choice(["x", "y"], n)}, contexts="task", cluster="voter")


@pytest.fixture(scope="module")
def found(battles):
    return lrbtl.stability(lrbtl.leaderboard(battles), organisations={f"m{k}": f"org{k // 2}" for k in range(5)})


def test_every_line_changes_the_first_place(battles, found):
    assert found.models == ("m0",) and [line.change for line in found.lines] == [
        "votes dropped",
        "votes flipped",
        "votes added",
        "voters dropped",
        "organisations left out",
    ]
    for line in found.lines[:3]:
        assert line.count is not None and 0 < line.count < battles.n_battles / 4 and not line.holds
        assert line.after.endswith("is first") and not line.after.startswith("m0")
    assert found["votes flipped"].count < found["votes dropped"].count
    voters = found["voters dropped"]
    assert voters.of == 60 and (voters.count is None or voters.count < 60)
    assert found["organisations left out"].of == 3
    with pytest.raises(InfluenceError, match="no line 'x'"):
        found["x"]


def test_dropped_votes_are_those_of_influence(battles, found):
    assert found["votes dropped"].count == lrbtl.influence(lrbtl.leaderboard(battles)).flip().n_votes


def test_flipped_votes_are_proven(battles):
    """The votes that the search flips, flipped by hand in a plain fit without sharing, turn the first place too."""
    plain = replace(battles, cluster_names=(), cluster_labels=())
    plain = lrbtl.Battles.from_arrays(
        [plain.models[k] for k in plain.cells.a], [plain.models[k] for k in plain.cells.b], plain.cells.y,
        counts=plain.cells.count,
    )  # fmt: skip
    line = lrbtl.stability(lrbtl.leaderboard(plain, method="naive"))["votes flipped"]
    won = np.zeros(5)
    np.add.at(won, plain.cells.a, plain.cells.count * plain.cells.y)
    np.add.at(won, plain.cells.b, plain.cells.count * (1 - plain.cells.y))
    assert line.count is not None and line.count >= (won[0] - np.sort(won)[-2]) / 4


def test_top_k_and_text(battles):
    board = lrbtl.leaderboard(battles)
    found = lrbtl.stability(board, top=2)
    assert found.models == board.models[:2] and "is among the top 2" in found.lines[0].after
    assert "the top 2 are" in str(found) and len(found.to_frame("pandas")) == 4
    assert '"title":"Stability"' in lrbtl.report_html(board, tables=[("Stability", found)])


def test_bad_input(battles):
    board = lrbtl.leaderboard(battles)
    for options, words in (
        ({"top": 5}, "leaves no ranked model out"),
        ({"top": 0}, "top=0"),
        ({"by": "task"}, "not a cluster"),
    ):
        with pytest.raises(InfluenceError, match=words):
            lrbtl.stability(board, **options)
    with pytest.raises(InfluenceError, match="reads an analysis of battles"):
        lrbtl.stability(lrbtl.Leaderboard.from_json(board.to_json()))


def test_reports_have_the_certificate(tmp_path, capsys):
    log, meta, page = (tmp_path / name for name in ("v.csv", "meta.csv", "r.html"))
    assert main(["simulate", "--models", "4", "--contexts", "2", "--battles", "800", "-o", str(log)]) == 0
    meta.write_text("model,organization\n" + "".join(f"model_{k},o{k}\n" for k in range(4)))
    assert main(["report", str(log), "--stability", "--meta", str(meta), "-o", str(page)]) == 0
    text = page.read_text()
    assert '"title":"Stability"' in text and "organisations left out" in text


def test_organisations_are_a_mapping(battles):
    with pytest.raises(InputTypeError, match="from model to organisation"):
        lrbtl.stability(lrbtl.leaderboard(battles), organisations=["org0", "org1"])
