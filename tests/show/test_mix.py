"""What the page makes overall boards of other weights from: the same as `leaderboard(weights=...)`."""

import base64

import numpy as np
import pytest

import lrbtl
from lrbtl.show import mix
from lrbtl.show.page_data import report_data


def votes_of(n, n_contexts, count, **options):
    truth = lrbtl.simulate_scores((n, n_contexts), 2, scale=0.8, rng=3)
    return lrbtl.simulate_battles(truth, count, rng=4, **options)


def numbers(text, kind):
    return np.frombuffer(base64.b64decode(text), dtype=kind).astype(float)


def rows_of(coded):
    return numbers(coded["code"], "<i2").reshape(len(coded["unit"]), -1) * np.array(coded["unit"])[:, None]


def moments_of(found, weights):
    """Scores and covariance of a mix, as the page computes them."""
    weights = np.array(weights) / np.sum(weights)
    u, v = np.triu_indices(weights.size)
    shares = weights[u] * weights[v]
    variance, components = shares @ rows_of(found["variances"]), rows_of(found["covariances"])
    pairs = shares @ numbers(found["mixing"], "<f4").reshape(shares.size, len(components)) @ components
    n = variance.size
    cov = np.zeros((n, n))
    cov[np.triu_indices(n, 1)] = pairs
    return weights @ numbers(found["scores"], "<f4").reshape(weights.size, n), cov + cov.T + np.diag(variance)


def check_mix(boards, weights, found, tolerance):
    labels = boards.analysis.battles.levels[0]
    mapping = dict(zip(labels, weights, strict=True))
    wanted = lrbtl.leaderboard(boards.analysis, weights=mapping)
    score, cov = moments_of(found, weights)
    place = {model: k for k, model in enumerate(boards.overall.models)}
    at = np.array([place[model] for model in wanted.models])
    score, cov = score[at], cov[np.ix_(at, at)]
    score = found["base"] + found["unit"] * (score - score.mean())
    middle = cov.mean(axis=0)
    se = np.sqrt(np.diag(cov) - 2 * middle + middle.mean())
    assert score == pytest.approx(wanted.score, abs=0.02)
    assert found["unit"] * found["single"] * se == pytest.approx((wanted.upper - wanted.lower) / 2, rel=tolerance)


@pytest.mark.parametrize(
    "options, tolerance", [({}, 1e-3), ({"method": "efficient", "rank": 2}, 0.05), ({"link": "probit"}, 1e-3)]
)
def test_any_mix_is_that_of_a_board(options, tolerance):
    boards = lrbtl.leaderboard(votes_of(12, 4, 12_000), context="all", **options)
    found = mix.mix_data(boards)
    rng = np.random.default_rng(0)
    for weights in ([1, 1, 1, 1], [3, 0, 1, 0], [0, 0, 0, 1], *rng.dirichlet(np.ones(4), 3).tolist()):
        check_mix(boards, weights, found, tolerance)
    assert ("within" in found["about"][0]) == (tolerance > 0.01)


def test_many_pairs_are_kept_in_components(monkeypatch):
    boards = lrbtl.leaderboard(votes_of(20, 5, 20_000), context="all")
    every = mix.mix_data(boards)
    monkeypatch.setattr(mix, "PAIR_BYTES", 6 * 2 * 190)
    few = mix.mix_data(boards)
    assert len(every["covariances"]["unit"]) == 15 and len(few["covariances"]["unit"]) == 6
    assert "6 principal components" in few["about"][2] and len(every["about"]) == 3
    weights = [0.5, 0.1, 0.1, 0.3, 0.0]
    exact, near = moments_of(every, weights)[1], moments_of(few, weights)[1]
    assert np.diag(near) == pytest.approx(np.diag(exact), rel=1e-6)
    assert np.abs(near - exact).max() < 0.05 * np.diag(exact).max()


def test_quantiles_hold_at_presets_and_elsewhere():
    boards = lrbtl.leaderboard(votes_of(10, 3, 6_000), context="all", weights={0: 2, 1: 1, 2: 1})
    found = mix.mix_data(boards)
    assert [preset["name"] for preset in found["presets"]] == ["this report", "traffic", "equal"]
    assert found["presets"][0]["weights"] == pytest.approx([0.5, 0.25, 0.25])
    assert len(found["critical"]) == 6 and 3.0 < min(found["critical"]) <= max(found["critical"]) < 3.4
    always = lrbtl.leaderboard(boards.analysis, context="all", valid="always")
    wider = mix.mix_data(always)
    assert wider["single"] > 1.4 * found["single"] and min(wider["critical"]) > 1.2 * max(found["critical"])


def test_anchor_and_costs_are_carried():
    boards = lrbtl.leaderboard(votes_of(6, 2, 3_000), context="all", anchor=("model_2", 1200))
    choice = lrbtl.choose(boards, {"model_0": 1.0, "model_2": 0.0})
    found = report_data(boards, tables=choice.tables())["groups"][0]["mix"]
    models = list(boards.overall.models)
    assert found["anchor"] == (models.index("model_2"), 1200)
    assert found["costs"][models.index("model_2")] == 0.0 and found["costs"].count(None) == 4
    assert found["critical_costs"][0] == pytest.approx(1.96, abs=0.01)


def test_clusters_keep_the_widths_of_boards():
    rng = np.random.default_rng(0)
    a, u, voter = rng.integers(0, 6, 6_000), rng.integers(0, 3, 6_000), rng.integers(0, 60, 6_000)
    b = (a + rng.integers(1, 6, 6_000)) % 6
    y = (rng.random(6_000) < 1 / (1 + np.exp(0.2 * (a - b)))).astype(float)
    frame = {"model_a": a, "model_b": b, "winner": y, "category": u, "voter": voter}
    battles = lrbtl.Battles.from_frame(frame, contexts="category", cluster="voter")
    boards = lrbtl.leaderboard(battles, context="all")
    check_mix(boards, [0.2, 0.5, 0.3], mix.mix_data(boards), 0.03)


def test_no_mix_where_there_is_none():
    plain = lrbtl.simulate_battles(lrbtl.simulate_scores((5, 1), 1, scale=1, rng=0), 1_000, rng=1)
    assert mix.mix_data(lrbtl.leaderboard(plain, context="all")) is None
    crossed = lrbtl.simulate_battles(lrbtl.simulate_scores((5, 2, 2), 1, scale=1, rng=0), 2_000, rng=1)
    assert mix.mix_data(lrbtl.leaderboard(crossed, context="all")) is None
    boards = lrbtl.leaderboard(votes_of(5, 2, 2_000), context="all", scale="probability")
    assert mix.mix_data(boards) is None
