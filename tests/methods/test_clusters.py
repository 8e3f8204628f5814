"""Covariates, weights and clusters in every method, against a dense logistic regression and against each other."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lrbtl
from inference_cases import VOTE_METHODS
from lrbtl import errors
from lrbtl.inference.targets import resolve_targets
from lrbtl.methods.clusters import LinearRows, cluster_moments, semidefinite
from lrbtl.methods.standard_errors import widening

METHODS = [name for name in VOTE_METHODS if name != "whitened"]  # which takes no covariates
D1, D = 5, 3


def make_frame(n=2500, seed=0, taste=0.0):
    """Votes with effects of length and position, weights, voters and prompts."""
    rng = np.random.default_rng(seed)
    scores = lrbtl.simulate_scores((D1, D), 1, scale=1.5, rng=seed)
    a, u = rng.integers(0, D1, n), rng.integers(0, D, n)
    b = (a + rng.integers(1, D1, n)) % D1
    tokens = rng.integers(50, 900, (2, n))
    voter, prompt = rng.integers(0, 80, n), rng.integers(0, 60, n)
    tastes = taste * rng.standard_normal((80, D1))
    x = (tokens[0] - tokens[1]) / tokens.sum(axis=0)
    eta = scores[a, u] - scores[b, u] + 0.9 * x + 0.3 + tastes[voter, a] - tastes[voter, b]
    won = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    columns = {"model_a": a, "model_b": b, "winner": won, "topic": u, "n_a": tokens[0], "n_b": tokens[1]}
    return {**columns, "w": rng.choice([0.5, 1.0, 3.0], n), "voter": voter, "prompt": prompt}


FRAME = make_frame()
FIELDS = {"covariates": {"length": ("n_a", "n_b")}, "position": True}


def read(frame=FRAME, **options):
    return lrbtl.Battles.from_frame(frame, contexts="topic", **options)


def targets(by_context=False):
    where = {"context": 1} if by_context else {}
    effects = [lrbtl.effect("length", **where), lrbtl.effect("position", **where)]
    return [*effects, lrbtl.score(0, 1), lrbtl.gap(0, 2, weights="equal"), lrbtl.gap(1, 3, 2)]


def dense(frame, scale, *, by_context=False, weighted=False, clusters=(), gradients=None):
    """Estimates and errors of the targets from one logistic regression on all votes, written out."""
    n = len(frame["winner"])
    a, b, u, y = (np.asarray(frame[name]) for name in ("model_a", "model_b", "topic", "winner"))
    w = np.asarray(frame["w"]) if weighted else np.ones(n)
    x = (frame["n_a"] - frame["n_b"]) / (frame["n_a"] + frame["n_b"]) / scale
    k = 2 * D if by_context else 2
    X = np.zeros((n, D * D1 + k))
    rows = np.arange(n)
    np.add.at(X, (rows, u * D1 + a), 1.0)
    np.add.at(X, (rows, u * D1 + b), -1.0)
    first = D * D1 + (2 * u if by_context else 0)
    X[rows, first], X[rows, first + 1] = x, 1.0
    gauge = np.zeros((D, X.shape[1]))
    for v in range(D):
        gauge[v, v * D1 : (v + 1) * D1] = 1.0
    beta = np.zeros(X.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-X @ beta))
        H = (X.T * (w * p * (1 - p))) @ X + gauge.T @ gauge
        beta = beta + np.linalg.solve(H, X.T @ (w * (y - p)))
    C = np.linalg.inv(H) - gauge.T @ gauge / D1**2
    h = w * p * (1 - p) * np.einsum("ij,jk,ik->i", X, C, X)
    g = np.zeros((5, X.shape[1]))
    at = D * D1 + (2 if by_context else 0)
    g[0, at], g[1, at + 1], g[2, D1] = 1.0, 1.0, 1.0
    g[2, D1 : 2 * D1] -= 1 / D1
    for v in range(D):
        g[3, v * D1], g[3, v * D1 + 2] = 1 / D, -1 / D
    g[4, 2 * D1 + 1], g[4, 2 * D1 + 3] = 1.0, -1.0
    Z = (w * (y - p) / (1 - h))[:, None] * (X @ C @ g.T)
    if not clusters:
        return g @ beta, np.sqrt((Z**2).sum(axis=0))
    total, noise, least = np.zeros(5), np.zeros(5), 0.1 * (Z**2).sum(axis=0)
    names = [frame[name] for name in clusters]
    both = [names[0] * 1000 + names[1]] if len(names) == 2 else []
    for sign, codes in [*((1, c) for c in names), *((-1, c) for c in both)]:
        sums = np.array([Z[codes == code].sum(axis=0) for code in np.unique(codes)])
        G = len(sums)
        total += sign * G / (G - 1) * (sums**2).sum(axis=0)
        if sign > 0:
            noise = np.maximum(noise, (sums**4).sum(axis=0) / (sums**2).sum(axis=0) ** 2 - 1 / G)
            least = np.maximum(least, G / (G - 1) * (sums**2).sum(axis=0))
    return g @ beta, np.sqrt(np.maximum(total, least)) * widening(2 * noise)


@pytest.mark.parametrize("by_context", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clusters", [(), ("voter",), ("voter", "prompt")])
def test_naive_is_a_dense_logistic_regression(by_context, weighted, clusters):
    battles = read(**FIELDS, weight="w" if weighted else None, cluster=list(clusters) or None)
    effects = "by_context" if by_context else "shared"
    found = lrbtl.infer(battles, targets(by_context), method="naive", effects=effects)
    scale = battles.covariates[0].scale
    values, errors_ = dense(FRAME, scale, by_context=by_context, weighted=weighted, clusters=clusters)
    np.testing.assert_allclose(found.estimate, values, atol=1e-7)
    # with several columns the matrix is made semidefinite, which may add to variances
    np.testing.assert_allclose(found.se, errors_, rtol=1e-6 if len(clusters) < 2 else 0.05)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("effects", ["shared", "by_context"])
def test_methods_agree_with_one_another(method, effects):
    battles = read(**FIELDS, weight="w", cluster="voter")
    by_context = effects == "by_context"
    asked = targets(by_context)[:2]
    plain = lrbtl.infer(battles, asked, method="naive", effects=effects)
    found = lrbtl.infer(battles, asked, method=method, rank=1, effects=effects)
    np.testing.assert_allclose(found.estimate, plain.estimate, atol=0.5 * plain.se.min())
    np.testing.assert_allclose(found.se, plain.se, rtol=0.08)


@pytest.mark.parametrize("method", METHODS)
def test_squared_influences_are_the_errors_of_independent_votes(method):
    battles = read(**FIELDS, weight="w")
    analysis = lrbtl.analyse(battles, method=method, rank=1)
    v = analysis.run.influences(resolve_targets(battles, targets()))
    assert v.shape == (battles.n_cells, 5)
    rtol = {"efficient": 0.02, "hierarchical": 0.33}.get(method, 1e-9)  # widening, prior
    np.testing.assert_allclose(np.sqrt(battles.cells.count @ v**2), analysis.estimate(targets()).se, rtol=rtol)


@pytest.mark.parametrize("method", METHODS)
def test_a_cluster_per_vote_is_no_cluster(method):
    votes = np.arange(len(FRAME["w"]))
    plain = lrbtl.infer(read(**FIELDS), targets(), method=method, rank=1)
    found = lrbtl.infer(read({**FRAME, "voter": votes}, **FIELDS, cluster="voter"), targets(), method=method, rank=1)
    np.testing.assert_allclose(found.se, plain.se, rtol=0.03 if method == "efficient" else 0.005)


@pytest.mark.parametrize("method", METHODS)
def test_clusters_widen_boards_comparisons_and_families(method):
    frame = make_frame(taste=1.5)
    plain, clustered = read(frame), read(frame, cluster="voter")
    options = {"method": method, "rank": 1}
    boards = [lrbtl.leaderboard(x, **options) for x in (plain, clustered)]
    assert np.median(boards[1].se / boards[0].se) > 1.15
    pairs = [lrbtl.compare(x, 0, 1, **options) for x in (plain, clustered)]
    assert np.all((pairs[1].upper - pairs[1].lower)[:1] > (pairs[0].upper - pairs[0].lower)[:1])
    analysis = lrbtl.analyse(clustered, **options)
    listed = analysis.estimate([lrbtl.score(2, 1), lrbtl.gap(0, 4, 1)])
    scores, gaps = analysis.run.family("scores")[1], analysis.run.family("gaps")[1]
    assert (scores[2, 1], gaps[3, 1]) == pytest.approx(tuple(listed.se), rel=0.02)
    errors_only = analysis.estimate([lrbtl.score(2, 1)], errors_only=True)
    assert errors_only.se[0] == pytest.approx(scores[2, 1], rel=1e-6)


def test_whitened_knows_no_effects_but_weights_and_clusters():
    with pytest.raises(errors.MethodError, match="length"):
        lrbtl.infer(read(**FIELDS), lrbtl.score(0), method="whitened", rank=1)
    battles = read(weight="w", cluster="voter")
    found = lrbtl.infer(battles, lrbtl.gap(0, 1), method="whitened", rank=1)
    other = lrbtl.infer(battles, lrbtl.gap(0, 1), method="efficient", rank=1)
    assert found.estimate[0] == pytest.approx(other.estimate[0], abs=other.se[0])
    assert found.se[0] == pytest.approx(other.se[0], rel=0.2)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000))
def test_sides_order_and_counts_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    n = 600
    frame = {name: column[:n] for name, column in FRAME.items()}
    swap = rng.random(n) < 0.5
    other = {name: column.copy() for name, column in frame.items()}
    for left, right in (("model_a", "model_b"), ("n_a", "n_b")):
        other[left], other[right] = np.where(swap, frame[right], frame[left]), np.where(swap, frame[left], frame[right])
    other["winner"] = np.where(swap, 1 - frame["winner"], frame["winner"])
    order = rng.permutation(n)
    other = {name: column[order] for name, column in other.items()}
    options = {"covariates": FIELDS["covariates"], "weight": "w", "cluster": "voter"}
    asked = [lrbtl.effect("length"), lrbtl.score(0, 1)]
    for method in ("naive", "hierarchical"):
        one, two = (lrbtl.infer(read(x, **options), asked, method=method, rank=1) for x in (frame, other))
        np.testing.assert_allclose(one.estimate, two.estimate, atol=1e-6)
        np.testing.assert_allclose(one.se, two.se, rtol=1e-5)
    number = rng.integers(1, 4, n)
    repeated = {name: np.repeat(column, number) for name, column in frame.items()}
    counted = lrbtl.Battles.from_frame({**frame, "n": number}, contexts="topic", count="n", **options)
    one, two = (lrbtl.infer(x, asked, method="naive") for x in (read(repeated, **options), counted))
    np.testing.assert_allclose(one.estimate, two.estimate, atol=1e-9)
    np.testing.assert_allclose(one.se, two.se, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_weights_are_relative_and_two_is_two_votes(method):
    options = {"method": method, "rank": 1}
    plain = lrbtl.infer(read(**FIELDS), targets(), **options)
    same = lrbtl.infer(read({**FRAME, "w": np.full(len(FRAME["w"]), 7.0)}, **FIELDS, weight="w"), targets(), **options)
    atol = {"hierarchical": 1e-4, "efficient": 0.02}.get(method, 1e-8)  # other folds
    np.testing.assert_allclose(same.estimate, plain.estimate, atol=atol)
    np.testing.assert_allclose(same.se, plain.se, rtol=0.02 if method == "efficient" else 1e-3)
    if method == "naive":
        twice = np.where(np.arange(len(FRAME["w"])) % 3 == 0, 2, 1)
        repeated = {name: np.repeat(column, twice) for name, column in FRAME.items()}
        one = lrbtl.infer(read({**FRAME, "w": 1.0 * twice}, **FIELDS, weight="w"), targets(), **options)
        two = lrbtl.infer(read(repeated, **FIELDS), targets(), **options)
        scale = read(repeated, **FIELDS).covariates[0].scale / read(**FIELDS).covariates[0].scale
        np.testing.assert_allclose(one.estimate[1:], two.estimate[1:], atol=1e-8)
        assert one.estimate[0] * scale == pytest.approx(two.estimate[0], rel=1e-8)


def test_reweighted_pairs_count_the_same():
    battles = read(reweight="pairs")
    weight, pair = battles.vote_weights, battles.cells.a * D1 + battles.cells.b
    totals = np.bincount(pair, weight * battles.cells.count)
    assert totals[totals > 0] == pytest.approx(1.0)
    board = lrbtl.leaderboard(battles, method="naive")
    assert any("effective sample size" in note for note in board.info.notes)
    assert f"worth {battles.n_effective:,.0f}" in battles.summary()


def test_few_and_lone_clusters_are_told_about():
    few = {**FRAME, "voter": np.arange(len(FRAME["w"])) % 12}
    with pytest.warns(errors.ClusterWarning, match="12 clusters by voter"):
        lrbtl.analyse(read(few, cluster="voter"), method="naive")
    lone = {**FRAME, "voter": np.where(FRAME["topic"] == 0, 0, FRAME["voter"])}
    with pytest.warns(errors.ClusterWarning, match="votes in 0 have the same voter"):
        lrbtl.analyse(read(lone, cluster="voter"), method="naive")
    rows = np.flatnonzero(FRAME["voter"] == 3)
    one = lrbtl.Battles.from_frame({**FRAME, "voter": FRAME["voter"] == 3}, contexts="topic", cluster="voter")
    kept = one.with_counts(np.where(one.cells.clusters[:, 0] == 1, one.cells.count, 0))
    assert kept.n_battles == len(rows)
    with pytest.raises(errors.ClusterError, match="same voter"):
        lrbtl.analyse(kept, method="naive")


def test_semidefinite_keeps_what_is():
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(semidefinite(matrix, np.zeros(2)), matrix)
    fixed = semidefinite(np.array([[1.0, 2.0, np.nan], [2.0, 1.0, np.nan], [np.nan] * 3]), np.full(3, 0.1))
    assert np.linalg.eigvalsh(fixed[:2, :2])[0] > -1e-12 and np.isnan(fixed[2, 2])


def test_controls_and_effects_of_an_analysis():
    battles = read(**FIELDS)
    without, none = lrbtl.leaderboard(battles, method="naive", control=[]), lrbtl.leaderboard(read(), method="naive")
    np.testing.assert_allclose(without.score, none.score)
    assert without.effects is None
    board = lrbtl.leaderboard(battles, method="naive", control=["position"])
    assert board.effects is not None and board.effects.labels == ("position",)
    assert "held fixed: shown first: +" in board.summary()
    assert lrbtl.leaderboard(battles, method="naive", effects="by_context").summary().count("held fixed") == 2 * D
    analysis = lrbtl.analyse(battles, method="naive")
    words = analysis.effects().sentences()
    assert words[0].startswith("500 more n against 500: +") and "(95%: +" in words[0]
    with pytest.raises(errors.CovariateError, match="no covariate is held fixed"):
        lrbtl.analyse(battles, method="naive", control=[]).effects()
    with pytest.raises(errors.CovariateError, match="did you mean 'length'"):
        lrbtl.analyse(battles, control=["lenght"])
    with pytest.raises(errors.CovariateError, match="by_topic"):
        lrbtl.analyse(battles, effects="by_topic")
    with pytest.raises(errors.TargetError, match="no covariate is held fixed"):
        lrbtl.infer(read(), lrbtl.effect("length"), method="naive")
    with pytest.raises(errors.TargetError, match="leave the context out"):
        analysis.estimate(lrbtl.effect("length", 1))
    with pytest.raises(errors.CovariateError, match="observed entries"):
        lrbtl.analyse(lrbtl.Results.from_arrays([(0, 1)], [1.0], shape=(2, 2)), control=[])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pooled = lrbtl.analyse(battles.pooled(), effects="by_context").effects()
    assert pooled.labels == ("length", "position")


@pytest.mark.parametrize("options", [{}, FIELDS], ids=["votes", "effects"])
@pytest.mark.parametrize("diagonal", [True, False])
def test_sums_taken_once_are_those_of_single_votes(options, diagonal):
    battles = read(cluster=["voter", "prompt"], **options)
    asked = resolve_targets(battles, [lrbtl.score(0, 1), lrbtl.gap(0, 2, weights="equal"), lrbtl.gap(1, 3, 2)])
    rows = lrbtl.analyse(battles).run.influence_rows(asked)
    assert isinstance(rows, LinearRows)
    cells = np.array([5, 0, 17])
    np.testing.assert_allclose(rows(cells), rows(np.arange(battles.n_cells))[cells], rtol=1e-10, atol=1e-14)
    once = cluster_moments(rows, battles, len(asked), diagonal=diagonal)
    each = cluster_moments(lambda at: rows(at), battles, len(asked), diagonal=diagonal)
    for name in ("added", "least", "noise"):
        np.testing.assert_allclose(getattr(once, name), getattr(each, name), rtol=1e-8, atol=1e-10)
