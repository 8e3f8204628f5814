"""Style control by the arithmetic of other packages: a worked case that was run with both of them."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

import lrbtl
from lrbtl.errors import MethodError

HERE = Path(os.environ.get("LRBTL_REFERENCE", Path(__file__).parents[3] / "shared" / "reference"))
COUNTS = {"tokens": "sum_assistant_tokens", "header": "header_count", "list": "list_count", "bold": "bold_count"}
needs_case = pytest.mark.skipif(
    not (HERE / "style_case.csv").exists(), reason="the worked case is not beside the project"
)


def read_case():
    with (HERE / "style_case.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    frame = {name: [row[name] for row in rows] for name in rows[0]}
    return {
        name: column if name in ("model_a", "model_b", "winner") else np.array(column, float)
        for name, column in frame.items()
    }


def small_case():
    """A log with two covariates, in which sides matter."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 400)
    b = (a + rng.integers(1, 4, 400)) % 4
    sides = {name: rng.integers(1, 9, 400) for name in ("x_a", "x_b", "y_a", "y_b")}
    eta = 0.5 * (a - b) + 2 * (sides["x_a"] - sides["x_b"]) / (sides["x_a"] + sides["x_b"])
    winner = np.where(rng.random(400) < 1 / (1 + np.exp(-eta)), "model_a", "model_b")
    winner[::7] = "tie"
    return {"model_a": a.tolist(), "model_b": b.tolist(), "winner": winner.tolist(), **sides}


def ratings_of(board):
    return dict(zip(board.models, board.score, strict=True)), dict(zip(board.models, board.lower, strict=True))


@needs_case
def test_fastchat():
    expected = json.loads((HERE / "style_case.json").read_text())["fastchat"]
    style = {name: (f"{COUNTS[name]}_a", f"{COUNTS[name]}_b", "relative+1") for name in expected["order"]}
    battles = lrbtl.Battles.from_frame(read_case(), covariates=style, position=True)
    board = lrbtl.leaderboard(battles, compat="fastchat")
    scores, _ = ratings_of(board)
    np.testing.assert_allclose([scores[m] for m in expected["ratings"]], list(expected["ratings"].values()), atol=1e-5)
    np.testing.assert_allclose(board.effects.estimate, expected["coef"], atol=1e-6)
    assert list(board.effects.labels) == expected["order"]


@needs_case
def test_arena_rank():
    expected = json.loads((HERE / "style_case.json").read_text())["arena_rank_default"]
    style = {name: (f"{name}_a", f"{name}_b") for name in expected["order"]}
    battles = lrbtl.Battles.from_frame(read_case(), covariates=style, position=True)
    board = lrbtl.leaderboard(battles, compat="arena-rank")
    scores, lower = ratings_of(board)
    for found, key in ((scores, "ratings"), (lower, "lower")):
        np.testing.assert_allclose([found[m] for m in expected[key]], list(expected[key].values()), atol=1e-5)
    np.testing.assert_allclose(board.effects.estimate, expected["coef"], atol=1e-6)
    assert np.isfinite(board.effects.se).all()


@pytest.mark.parametrize("compat", ["fastchat", "arena-rank"])
def test_against_rows_written_out(compat):
    log = small_case()
    add = 1.0 if compat == "fastchat" else 0.0
    rule = "relative+1" if compat == "fastchat" else "relative"
    style = {name: (f"{name}_a", f"{name}_b", rule) for name in "xy"}
    board = lrbtl.leaderboard(lrbtl.Battles.from_frame(log, covariates=style, position=True), compat=compat)
    a, b = np.array(log["model_a"]), np.array(log["model_b"])
    y = np.array([{"model_a": 1.0, "model_b": 0.0, "tie": 0.5}[word] for word in log["winner"]])
    z = np.stack([(log[f"{k}_a"] - log[f"{k}_b"]) / (log[f"{k}_a"] + log[f"{k}_b"] + add) for k in "xy"], axis=1)
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    X = np.zeros((400, 6))
    X[np.arange(400), a], X[np.arange(400), b], X[:, 4:] = 1.0, -1.0, z
    met = np.array([np.sum(((a == i) & (b == j)) | ((a == j) & (b == i))) for i, j in zip(a, b, strict=True)])
    w = 1.0 / np.maximum(met, 50)
    w = np.ones(400) if compat == "fastchat" else w / w.mean()
    penalty = (
        np.repeat([0.5 / np.log(10) ** 2, 0.5], [4, 2]) if compat == "fastchat" else np.repeat([0.0, 400.0], [4, 2])
    )
    at = np.zeros(6)
    for _ in range(60):
        p = 1 / (1 + np.exp(-X @ at))
        hessian = X.T @ ((w * p * (1 - p))[:, None] * X) + np.diag(penalty)
        at += np.linalg.lstsq(hessian, X.T @ (w * (y - p)) - penalty * at, rcond=None)[0]
    scores, _ = ratings_of(board)
    expected = 1000 + 400 / np.log(10) * (at[:4] - at[:4].mean())
    np.testing.assert_allclose([scores[m] for m in range(4)], expected, atol=2e-2 if compat == "fastchat" else 1e-6)
    np.testing.assert_allclose(board.effects.estimate, at[4:], atol=1e-4 if compat == "fastchat" else 1e-9)


def test_sides_must_be_known_and_are_no_covariate_of_theirs():
    log, style = small_case(), {"x": ("x_a", "x_b")}
    with pytest.raises(MethodError, match="position=True"):
        lrbtl.leaderboard(lrbtl.Battles.from_frame(log, covariates=style), compat="arena-rank")
    plain = lrbtl.leaderboard(lrbtl.Battles.from_frame(log), compat="arena-rank")
    sided = lrbtl.leaderboard(lrbtl.Battles.from_frame(log, position=True), compat="arena-rank")
    np.testing.assert_allclose(sided.score, plain.score)
    assert sided.effects is None
