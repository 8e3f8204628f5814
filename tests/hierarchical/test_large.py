"""Many models: the same mode and covariances as with matrices over all of them, by solutions and simulated logs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
from lrbtl.fitting.blocks import only_models
from lrbtl.fitting.low_rank import make_design
from lrbtl.hierarchical import correlated, large
from lrbtl.hierarchical.config import HierarchicalConfig
from lrbtl.hierarchical.covariance import ScoreCovariance
from lrbtl.hierarchical.extend import extend_to_all_contexts
from lrbtl.hierarchical.joint import find_joint_mode
from lrbtl.hierarchical.large import MonteCarloCovariance
from lrbtl.hierarchical.method import HierarchicalRun
from lrbtl.hierarchical.search import Search
from lrbtl.hierarchical.sizes import SizeFitter
from lrbtl.inference.analysis import find_method

D1, D, TAU = 90, 5, 0.25
STYLE = {"length": "length"}


def votes(reach=D1 - 1, n=40_000, thin=0, ties=0.0, style=0.0):
    """Return a frame of votes between models at most `reach` places apart, with deviations.

    The first `thin` models are in one category, and lengths of answers hang together with models and move votes.
    """
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(D1, 2)), np.array([0.75, 0.0]) + 0.2 * rng.normal(size=(D, 2))
    T = U[np.argsort(U[:, 0])] @ V.T + TAU * rng.normal(size=(D1, D))
    a = rng.integers(D1, size=n)
    b = np.clip(a + rng.integers(1, reach + 1, size=n) * rng.choice([-1, 1], n), 0, D1 - 1)
    u = np.where((a < thin) | (b < thin), 0, rng.integers(D, size=n))
    words = 0.5 * rng.normal(size=D1)
    length = words[a] - words[b] + rng.normal(size=n)
    y = (rng.random(n) < expit(T[a, u] - T[b, u] + style * length)).astype(float)
    y = np.where(rng.random(n) < ties, 0.5, y)
    columns = {"model_a": a, "model_b": b, "winner": y, "category": u, "length": length}
    return {name: column[a != b] for name, column in columns.items()}


def battles(frame=None, **options):
    """Return votes as battles in categories."""
    frame = votes() if frame is None else frame
    return lrbtl.Battles.from_frame(frame, contexts="category", **options)


LOGS = {
    "all meet": lambda: battles(),
    "ladder": lambda: battles(votes(reach=8)),
    "thin": lambda: battles(votes(thin=30)),
    "exactly low rank": lambda: battles(),
    "style": lambda: battles(votes(style=0.4), covariates=STYLE, position=True),
    "own style": lambda: battles(votes(style=0.4), covariates=STYLE).controlling(effects="by_context"),
    "ties": lambda: battles(votes(ties=0.3)),
    "ties, style": lambda: battles(votes(ties=0.3, style=0.4), covariates=STYLE),
}


@pytest.fixture(scope="module", params=LOGS)
def both(request):
    """Return the exact posterior and the simulated one at the same rank and tau."""
    link = "davidson" if "ties" in request.param else "logistic"
    tried = Search(SizeFitter(make_design(LOGS[request.param](), link), HierarchicalConfig(design_covariates=False)))
    tau = 0.0 if "exactly" in request.param else TAU
    exact = tried.fitter.fit_levels(tried.fitter.converge(tried.initial_expansion(1).at_tau(tau)))
    mode = find_joint_mode(exact.scores, exact.at.hyper)
    return ScoreCovariance(exact.at, tried.fitter.cells), MonteCarloCovariance(mode.at, tried.fitter.cells, 256)


def test_the_mode_is_the_same(both):
    exact, found = (each.at.scores.field.dense() for each in both)
    np.testing.assert_allclose(found, exact, atol=0.05)


def test_effects_at_the_mode_are_the_same(both):
    found, exact = (each.at.scores.design for each in both)
    assert found.link.n_extra == exact.link.n_extra
    if exact.effects is not None:
        np.testing.assert_allclose(found.effects.values, exact.effects.values, atol=2e-3)


def test_few_targets_have_the_same_covariance(both):
    exact, found = both
    gradients, n_effects = np.random.default_rng(1).normal(size=(4, 3, D1)), exact.design.n_effects
    contexts, slopes = np.array([0, 2, 4]), None
    if n_effects:  # the last target is an effect alone
        gradients[3], slopes = 0.0, np.eye(4, n_effects, n_effects - 4)
    expected = exact.covariance(gradients, contexts, slopes)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(found.covariance(gradients, contexts, slopes) / scale, expected / scale, atol=0.04)
    own = found.covariance(gradients, contexts, slopes, diagonal=True)
    np.testing.assert_allclose(own, np.diag(found.covariance(gradients, contexts, slopes)), rtol=1e-6)


@pytest.mark.parametrize("weights", [np.full(D, 1 / D), np.eye(D)[3]])
def test_boards_have_nearly_the_same_covariance(both, weights):
    exact, found = both
    expected = exact.of_means(weights)
    cov = found.of_means(weights)
    gaps = [np.diag(each)[:, None] + np.diag(each) - each - each.T + np.eye(D1) for each in (cov, expected)]
    ratio = np.sqrt(gaps[0] / gaps[1])[np.triu_indices(D1, 1)]
    assert np.median(ratio) == pytest.approx(1.0, abs=0.04)
    assert np.quantile(np.abs(np.log(ratio)), 0.9) < 0.15
    np.testing.assert_allclose(found.by_context(np.array([3]))[0], found.of_means(np.eye(D)[3]))


def test_influences_are_the_same(both):
    exact, found = both
    gradients, cells = np.zeros((1, 1, D1)), np.arange(50)
    gradients[0, 0, :2] = 1.0, -1.0
    asked = gradients, np.array([0])
    rows = [(each.vote_matrix() @ each.influence_weights(*asked))[cells, 0] for each in (exact, found)]
    np.testing.assert_allclose(rows[1], rows[0], atol=0.1 * np.abs(rows[0]).max())


def test_entries_are_nearly_those_of_the_exact_posterior(both):
    exact, found = both
    for one, other in zip(exact.leave_one_out_information(), found.leave_one_out_information(), strict=True):
        played = one > 0.2 * np.median(one)
        assert np.median(other[played] / one[played]) == pytest.approx(1.0, abs=0.1)


def test_votes_among_some_models():
    log = battles(votes(n=500))
    part = only_models(make_design(log, "logistic"), np.arange(10, 40))
    cells = log.cells
    inside = (np.minimum(cells.a, cells.b) >= 10) & (np.maximum(cells.a, cells.b) < 40)
    assert part.shape == (30, D) and part.count.sum() == log.cells.count[inside].sum()
    assert np.array_equal(part.a + 10, log.cells.a[inside])


def few_are_many(monkeypatch, part=50):
    """Let 60 models count as many, of which some tell rank and deviations."""
    monkeypatch.setattr(large, "MANY_MODELS", 60)
    monkeypatch.setattr(large, "PART_MODELS", part)


def as_table(board):
    """Return scores and errors by the models' names."""
    order = np.argsort([str(model) for model in board.models])
    return np.stack([board.score, board.se], axis=1)[order]


def voters(frame):
    """Return votes of voters, some of which follow the taste of the voter: for models of large or of small numbers."""
    rng, n = np.random.default_rng(4), len(frame["winner"])
    voter, prompt = rng.integers(300, size=n), rng.integers(2000, size=n)
    taste = (frame["model_a"] > frame["model_b"]) == (voter % 2 == 0)
    y = np.where(rng.random(n) < 0.15, taste, frame["winner"])
    language = rng.integers(2, size=n)
    flags = zip(frame["category"].tolist(), language.tolist(), strict=True)
    tags = [["maths"] * (u < 3) + ["hard"] * (u % 2) + ["French"] * k for u, k in flags]
    return frame | {"winner": y, "voter": voter, "prompt": prompt, "language": language, "tags": tags}


PUBLIC = {
    "style": {"contexts": "category", "covariates": STYLE, "position": True},
    "voters": {"contexts": "category", "cluster": "voter"},
    "voters and prompts": {"contexts": "category", "cluster": ["voter", "prompt"]},
    "two columns": {"contexts": ["category", "language"]},
    "voters, style": {"contexts": "category", "cluster": "voter", "covariates": STYLE},
    "tags": {"tags": "tags"},
    "no contexts": {},
}


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "two columns"])  # which have a test of their own
def test_boards_of_many_models_are_those_with_matrices(name, monkeypatch):
    """With the same number of factors: some models may show fewer of them than all."""
    log = lrbtl.Battles.from_frame(voters(votes(style=0.3)), **PUBLIC[name])
    plain = lrbtl.leaderboard(log, rank=1)
    few_are_many(monkeypatch)
    board = lrbtl.leaderboard(log, rank=1)
    assert board.method == "hierarchical" and any("simulated logs" in note for note in board.info.notes)
    assert not any("simulated logs" in note for note in plain.info.notes)
    exact, found = as_table(plain), as_table(board)
    apart, wider = (0.4, 0.1) if name == "tags" else (0.2, 0.06)  # sets of tags are contexts of one column there
    assert np.std((found - exact)[:, 0] / exact[:, 1]) < apart
    ratio = found[:, 1] / exact[:, 1]
    assert np.median(ratio) == pytest.approx(1.0, abs=wider) and np.quantile(np.abs(np.log(ratio)), 0.9) < 0.15
    pairs = [lrbtl.gap(plain.models[0], plain.models[k]) for k in (1, 30, 80)]
    with_matrices, solved = (each.basis.analysis.estimate(pairs) for each in (plain, board))
    np.testing.assert_allclose(solved.se, with_matrices.se, rtol=max(wider, 0.07))
    assert not any("too many" in note for note in board.info.notes)
    if plain.effects is not None:
        np.testing.assert_allclose(board.effects.estimate, plain.effects.estimate, atol=0.2 * plain.effects.se.min())
        np.testing.assert_allclose(board.effects.se, plain.effects.se, rtol=0.02)


def own_gains(n=40_000):
    """Return votes in two columns, with gains of a model at a category, wherever it occurs, and at a language."""
    rng = np.random.default_rng(6)
    U, V = rng.normal(size=(D1, 1)), 1.0 + 0.2 * rng.normal(size=(D, 2, 1))
    T = np.einsum("ak,ulk->aul", U, V) + 0.4 * rng.normal(size=(D1, D, 1)) + 0.3 * rng.normal(size=(D1, 1, 2))
    a, u, k = rng.integers(D1, size=n), rng.integers(D, size=n), rng.integers(2, size=n)
    b = (a + rng.integers(1, D1, size=n)) % D1
    y = rng.random(n) < expit(T[a, u, k] - T[b, u, k])
    return {"model_a": a, "model_b": b, "winner": y.astype(float), "category": u, "language": k}


def test_gains_at_a_label_are_shared(monkeypatch):
    log = lrbtl.Battles.from_frame(own_gains(), contexts=["category", "language"])
    boards = [{"category": 2}, {"language": 1}, {"category": 4, "language": 0}, {}]
    rows = np.zeros((len(boards), log.n_contexts))
    for row, at in zip(rows, boards, strict=True):
        row[log.context_indices(at) if at else slice(None)] = 1.0
    rows /= rows.sum(axis=1, keepdims=True)
    exact = lrbtl.analyse(log).estimate_boards(rows)
    few_are_many(monkeypatch, part=D1)
    for found, expected in zip(lrbtl.analyse(log).estimate_boards(rows), exact, strict=True):
        assert np.std((found.estimate - expected.estimate) / expected.se) < 0.5  # factors take some of it
        assert np.median(found.se / expected.se) == pytest.approx(1.0, abs=0.1)


def test_all_votes_tell_the_size_of_deviations(both):
    """A tau that came from few votes grows to the one of most evidence, and a larger one stays."""
    at = both[1].at
    taus = [replace(at, hyper=replace(at.hyper, tau=tau)).refined([])[0] for tau in (0.01, 1.0)]
    assert taus[1] == 1.0 and 0.6 * TAU < taus[0] < 1.4 * TAU
    every, level = np.arange(D), np.arange(D) // 2
    tau, related = at.refined([1.0 * (level == level[:, None])])
    assert related.shape == (D, D) and tau**2 < related[0, 0] and related[0, 1] > 0.0 == related[0, 2]
    np.testing.assert_allclose(related[every, every], related[0, 0])


def test_where_sizes_are_known_well_each_rank_is_one_component():
    tried = Search(SizeFitter(make_design(battles(votes(n=300)), "logistic"), HierarchicalConfig()))
    modes = tried.fit_fixed_rank(1)
    (one,) = tried.components(modes, one_size=True)
    assert len(tried.components(modes)) > 1 and one.tau == tried.likely_tau(modes[0][1])


def test_factors_and_sizes_of_some_contexts_serve_all():
    log = battles(votes(n=20_000))
    whole = make_design(log, "logistic")
    config = HierarchicalConfig(level_freedom=(float("inf"),))
    tried = Search(SizeFitter(whole, config))
    parts = tried.components(tried.fit_fixed_rank(1))
    found = extend_to_all_contexts(tried, whole, parts)
    assert [each.weight for each in found] == [each.weight for each in parts]
    for mine, theirs in zip(found, parts, strict=True):
        assert mine.tau == theirs.tau and mine.rank == theirs.rank
        one, other = mine.scores.dense(), theirs.scores.dense()
        assert (
            np.sqrt(np.mean((one - other) ** 2)) < 0.05
            and np.corrcoef(one.reshape(-1), other.reshape(-1))[0, 1] > 0.999
        )


def test_very_many_combinations_have_a_note(monkeypatch):
    few_are_many(monkeypatch)
    monkeypatch.setattr(correlated, "MOST_NUMBERS", 100)
    frame = voters(votes(n=8_000))
    for options in (PUBLIC["two columns"], PUBLIC["tags"]):
        board = lrbtl.leaderboard(lrbtl.Battles.from_frame(frame, **options))
        assert sum("to estimate what a model gains" in note for note in board.info.notes) == 1


def test_given_ranks_are_those_of_the_models(monkeypatch):
    few_are_many(monkeypatch)
    log = lrbtl.Battles.from_frame(own_gains(8_000), contexts=["category", "language"])
    run = lrbtl.analyse(log, rank=(2, 2, 1)).run
    assert isinstance(run, HierarchicalRun) and {node.rank for node in run.nodes} == {(2, 2)}


@pytest.mark.parametrize("name", ["style", "voters"])
def test_names_and_sides_do_not_matter_but_for_simulated_logs(name, monkeypatch):
    few_are_many(monkeypatch)
    frame, rng = voters(votes(n=15_000, style=0.3)), np.random.default_rng(5)
    swap, order = rng.random(len(frame["winner"])) < 0.5, rng.permutation(len(frame["winner"]))
    a, b = frame["model_a"], frame["model_b"]
    sides = {"model_a": np.where(swap, b, a), "model_b": np.where(swap, a, b)}
    sides |= {"winner": np.where(swap, 1 - frame["winner"], frame["winner"])}
    sides |= {"length": np.where(swap, -frame["length"], frame["length"])}
    options = PUBLIC[name] | ({"position": False} if name == "style" else {})
    other = {key: np.asarray(column)[order] for key, column in (frame | sides).items() if key != "tags"}
    names = rng.permutation(D1)
    renamed = frame | {side: names[frame[side]] for side in ("model_a", "model_b")}
    one, two, three = (lrbtl.leaderboard(lrbtl.Battles.from_frame(log, **options)) for log in (frame, other, renamed))
    np.testing.assert_allclose(as_table(two)[:, 0], as_table(one)[:, 0], atol=0.1)
    np.testing.assert_allclose(as_table(two)[:, 1], as_table(one)[:, 1], rtol=0.1)
    back = np.argsort([str(k) for k in names])  # places of models by their new names
    expected = as_table(one)[np.argsort(np.argsort([str(k) for k in range(D1)]))][back]
    np.testing.assert_allclose(as_table(three)[:, 0], expected[:, 0], atol=2.0)
    assert np.median(np.abs(as_table(three)[:, 1] / expected[:, 1] - 1.0)) < 0.05


@pytest.mark.parametrize("name", ["voters", "style", "two columns"])
def test_many_models_have_the_default_method(name):
    frame = {"model_a": (each := np.arange(6000)), "model_b": each + 1, "winner": each % 2.0, "category": each % 9}
    frame |= {"voter": each % 50, "length": np.sin(each), "language": each % 7}
    log = lrbtl.Battles.from_frame(frame, **PUBLIC[name])
    assert find_method(None, log).name == "hierarchical"
    assert len(large.some_models(log)) == large.PART_MODELS


def test_some_hundred_models_in_many_contexts_have_simulated_logs(monkeypatch):
    log = lrbtl.Battles.from_frame(own_gains(8_000), contexts=["category", "language"])
    assert large.has_room(log) and large.some_models(log) is None
    monkeypatch.setattr(large, "PART_MODELS", 50)
    monkeypatch.setattr(large, "LARGEST", 1000)
    assert not large.has_room(log) and len(large.some_models(log)) == 50
    monkeypatch.setattr(large, "PART_WORK", 1e5)  # the more contexts, the fewer models
    assert len(large.some_models(log)) == round((1e5 / log.n_contexts) ** (1 / 3))
    assert any("simulated logs" in note for note in lrbtl.leaderboard(log, method="hierarchical").info.notes)
