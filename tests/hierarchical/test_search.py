"""The search over numbers of factors and sizes: sizes against dense grids of their evidence."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, log_expit

import lrbtl
from hierarchy_twin import NODES, WEIGHTS
from lrbtl.fitting.low_rank import make_design
from lrbtl.hierarchical import large, search, sizes
from lrbtl.hierarchical.config import HierarchicalConfig
from lrbtl.hierarchical.large import some_contexts
from lrbtl.hierarchical.method import HierarchicalRun
from lrbtl.hierarchical.outliers import find_outliers
from lrbtl.hierarchical.rank import probe_residuals
from lrbtl.hierarchical.search import Search
from lrbtl.hierarchical.sizes import SizeFitter
from problems import battle_matrix, rebuilt

PLAIN = HierarchicalConfig(design_covariates=False, outliers=False, level_freedom=(float("inf"),))

# ------------------------------------------------------------------------------
# Sizes against a variational bound in plain NumPy
# ------------------------------------------------------------------------------


def factors(run):
    """Numbers of factors of most weight, levels not counted."""
    assert isinstance(run, HierarchicalRun)
    weights = {}
    for node in run.nodes:
        weights[node.rank] = weights.get(node.rank, 0.0) + node.weight
    return max(weights, key=weights.get)


def bound(design, prior_cov):
    """E[log likelihood] - KL for scores with a normal prior, maximised by fixed points; dense and slow."""
    X = battle_matrix(design)
    mean, cov = np.zeros(len(prior_cov)), prior_cov.copy()
    P, count, y = np.linalg.inv(prior_cov), design.count, design.y
    for _ in range(200):
        before, eta, spread = mean, X @ mean, np.einsum("ni,ij,nj->n", X, cov, X)
        p = expit(eta + NODES[:, None] * np.sqrt(spread))
        score, weight = y - WEIGHTS @ p, WEIGHTS @ (p * (1 - p))
        cov = np.linalg.inv((X.T * (count * weight)) @ X + P)
        mean = mean + cov @ (X.T @ (count * score) - P @ mean)
        if np.abs(mean - before).max() < 1e-9:
            break
    eta, spread = X @ mean, np.einsum("ni,ij,nj->n", X, cov, X)
    around = eta + NODES[:, None] * np.sqrt(spread)
    votes = count @ (WEIGHTS @ (y * log_expit(around) + (1 - y) * log_expit(-around)))
    kl = np.trace(P @ cov) - len(mean) + mean @ P @ mean - np.linalg.slogdet(P @ cov)[1]
    return votes - 0.5 * kl


def prior_of(design, s, tau):
    """Of all scores (d1 D): levels with a wide common shift, and deviations."""
    d1, D = design.shape[0], design.n_contexts
    levels = np.kron(np.eye(d1), np.ones((D, D)))
    return s**2 * levels + tau**2 * np.eye(d1 * D) + 1e-6 * np.eye(d1 * D)


@pytest.mark.parametrize("seed", range(3))
def test_the_spread_of_levels_has_the_most_evidence(seed):
    """MacKay's fixed point on 60 votes, against a grid of the bound."""
    truth = np.random.default_rng(seed).normal(size=8)
    battles = lrbtl.simulate_battles(truth - truth.mean(), 60, rng=seed)
    found = Search(SizeFitter(make_design(battles, None), PLAIN))
    if found.fitter.dispersion != 1.0:
        pytest.skip("votes without ties have a dispersion of one")
    grid = np.geomspace(0.2, 5.0, 33)
    values = [bound(found.design, prior_of(found.design, s, 0.0)) for s in grid]
    best, s = grid[int(np.argmax(values))], found.pilot.at.hyper.level.s
    assert abs(np.log(s / best)) < 0.15
    at = found.level_posterior(found.pilot, np.inf)
    density = np.exp(np.array(values) - max(values)) * grid
    reach = np.cumsum(density) / density.sum()
    np.testing.assert_allclose(at.nodes[1][0], np.interp(0.5, reach, grid), rtol=0.15)


@pytest.mark.parametrize("seed", range(2))
def test_tau_has_the_most_evidence(seed):
    """On 250 votes in three categories: within a fraction of a nat of a grid of the bound, at the same s."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(6, 1)) + 0.6 * rng.normal(size=(6, 3))
    battles = lrbtl.simulate_battles(truth - truth.mean(axis=0), 250, rng=seed)
    found = Search(SizeFitter(make_design(battles, None), PLAIN))
    mode = found.fitter.fit_sizes(found.initial_expansion(0))
    s, grid = mode.at.hyper.level.s, np.geomspace(0.05, 3.0, 25)
    values = [bound(found.design, prior_of(found.design, s, tau)) for tau in grid]
    assert max(values) - np.interp(np.log(mode.tau), np.log(grid), values) < 0.3
    nodes = found.tau_posterior(mode).nodes
    inside = grid <= found.fitter.spread
    density = (np.exp(np.array(values) - max(values)) * grid)[inside]
    reach = np.cumsum(density) / density.sum()
    quantiles = np.interp([0.0416, 0.5, 0.9584], reach, grid[inside])
    assert abs(nodes[len(nodes) // 2][0] / quantiles[1] - 1) < 0.25


def test_an_unbeaten_model_does_not_send_the_spread_far_out():
    """20 votes, one model without a loss and one without a win: at a spread of 80 logits there is no mode in reach."""
    a = [0, 1, 1, 2, 3, 4, 0, 3, 4, 1, 5, 4, 3, 0, 1, 5, 4, 3, 1, 0]
    b = [1, 0, 2, 4, 2, 1, 4, 0, 5, 2, 2, 0, 1, 5, 5, 0, 2, 5, 4, 2]
    y = [0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0.5, 1, 1, 1, 0, 1]
    run = lrbtl.analyse(lrbtl.Battles.from_arrays(a, b, y)).run
    assert isinstance(run, HierarchicalRun)
    assert max(node.s for node in run.nodes) < 40.0 and np.abs(run.scores()).max() < 8.0
    assert all(node.mode.at.log_evidence < 0.0 and node.mode.converged for node in run.nodes)


def test_thin_logs_average_over_sizes_and_laws_of_levels():
    truth = np.random.default_rng(1).normal(size=10)
    battles = lrbtl.simulate_battles(truth - truth.mean(), 60, rng=1)
    found = Search(SizeFitter(make_design(battles, None), HierarchicalConfig()))
    nodes = found.components(found.fit_fixed_rank(0))
    assert {node.mode.at.hyper.level.freedom for node in nodes} == {np.inf, 3.0} and len({n.s for n in nodes}) > 3
    assert sum(node.weight for node in nodes) == pytest.approx(1.0)
    many = lrbtl.simulate_battles(truth - truth.mean(), 60_000, rng=1)
    found = Search(SizeFitter(make_design(many, None), HierarchicalConfig()))
    assert len(found.components(found.fit_fixed_rank(0))) == 1 and not found.fitter.thin(found.pilot.at)


def test_variances_of_eta_settle():
    truth = np.random.default_rng(2).normal(size=10)
    battles = lrbtl.simulate_battles(truth - truth.mean(), 60, rng=1)
    found = Search(SizeFitter(make_design(battles, None), PLAIN))
    mode = found.fitter.converge(found.pilot.at)
    variance = found.fitter.covariance(mode.at).eta_variances
    np.testing.assert_allclose(mode.scores.eta_variance, variance, rtol=0.03)


# ------------------------------------------------------------------------------
# Numbers of factors
# ------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_the_number_of_factors_of_an_exact_truth_is_found(rank):
    """Beside levels, which are no factor."""
    rng = np.random.default_rng(rank)
    U, V = np.linalg.qr(rng.normal(size=(24, 4)))[0][:, :rank], np.linalg.qr(rng.normal(size=(10, 4)))[0][:, :rank]
    truth = rng.normal(size=(24, 1)) + 0.8 * np.sqrt(240) * U @ V.T
    run = lrbtl.analyse(lrbtl.simulate_battles(truth - truth.mean(axis=0), 60_000, rng=1)).run
    assert factors(run)[0] == rank and run.provenance.rank[0] == rank + 1


def test_a_vanished_factor_is_left_out():
    """Of a given number of factors those that are nothing do not stay as rounding."""
    truth = np.random.default_rng(0).normal(size=(7, 1)) + np.zeros((7, 2))
    battles = lrbtl.simulate_battles(truth - truth.mean(axis=0), 60, rng=1)
    run = lrbtl.analyse(battles, rank=1).run
    assert isinstance(run, HierarchicalRun)
    assert not any(node.mode.scores.vanished for node in run.nodes)


def test_outliers_do_not_come_and_go(monkeypatch):
    """An entry whose probability falls below one half once it is left out stays out, unless it becomes unlikely."""
    truth = np.array(lrbtl.simulate_scores((20, 6), 2, scale=1.0, rng=0))
    truth[3, 2] += 1.0
    passes, plain = [], find_outliers

    def found(covariance, config):
        out = plain(covariance, config)
        probability = np.where(np.arange(out.probability.size) == 43, 0.4 if passes else 0.6, 0.0)
        passes.append(np.flatnonzero(np.broadcast_to(covariance.at.scores.offset, probability.shape)).tolist())
        return replace(out, probability=probability)

    monkeypatch.setattr(search, "find_outliers", found)
    lrbtl.analyse(lrbtl.simulate_battles(truth - truth.mean(axis=0), 30_000, rng=1), rank=2)
    assert passes[:2] == [[], [43]] and all(out == [43] for out in passes[1:])


def test_a_component_that_vanishes_ends_the_search():
    """Whatever residuals say, a number whose last factor shrinks to nothing is that of the number before."""
    config = HierarchicalConfig(excess_reject=0.0, excess_accept=1e-9)
    truth = np.random.default_rng(0).normal(size=(12, 1)) + np.zeros((12, 8))
    run = lrbtl.analyse(lrbtl.simulate_battles(truth - truth.mean(axis=0), 800, rng=1), config=config).run
    assert isinstance(run, HierarchicalRun)
    assert all(not node.mode.scores.vanished for node in run.nodes)


def test_a_largest_rank_and_no_outliers_are_kept():
    truth = lrbtl.simulate_scores((16, 8), 3, scale=2.0, rng=0)
    truth = np.array(truth)
    truth[3, 2] += 3.0
    battles = lrbtl.simulate_battles(truth - truth.mean(axis=0), 30_000, rng=1)
    run = lrbtl.analyse(battles, config=HierarchicalConfig(largest_rank=1, outliers=False)).run
    assert isinstance(run, HierarchicalRun)
    assert all(node.rank[0] <= 1 and not np.any(node.mode.scores.offset) for node in run.nodes)


def test_some_votes_of_a_log_are_searched_for_all():
    truth = lrbtl.simulate_scores((8, 5), 1, scale=1.0, rng=0)
    battles = lrbtl.simulate_battles(truth, 2000, rng=1)
    part = Search(SizeFitter(make_design(rebuilt(battles, battles.cells.context < 3), None), HierarchicalConfig()))
    whole = part.fitter.for_design(make_design(battles, None))
    assert whole.design.total == 2000 and whole.dispersion == part.fitter.dispersion


def test_a_covariate_without_effect_leaves_the_ranks_alone():
    """Votes of a pair stand in one cell each with it, and in two without: noise has the same size."""
    rng = np.random.default_rng(2)
    n, d1, D = 6000, 12, 6
    scores = lrbtl.simulate_scores((d1, D), 3, scale=1.0, rng=rng)
    a, u = rng.integers(0, d1, n), rng.integers(0, D, n)
    b = (a + rng.integers(1, d1, n)) % d1
    won = (rng.random(n) < 1 / (1 + np.exp(scores[b, u] - scores[a, u]))).astype(float)
    frame = {"model_a": a, "model_b": b, "winner": won, "task": u, "x": rng.normal(size=n)}
    said: list[list[str]] = [[], []]
    for lines, covariates in zip(said, (None, ["x"]), strict=True):
        battles = lrbtl.Battles.from_frame(frame, contexts="task", covariates=covariates)
        lrbtl.analyse(battles, progress=lines.append)
    above = [[float(re.findall(r"-?[0-9.]+", line)[1]) for line in lines] for lines in said]
    assert len(above[0]) > 1
    np.testing.assert_allclose(above[1], above[0], atol=0.3)


def test_modes_of_contexts_have_ranks_of_their_own():
    """Judges that only stretch all scores have rank 1, whatever categories have; a rank that is given stays."""
    rng = np.random.default_rng(5)
    low = rng.normal(size=(20, 2)) @ rng.normal(size=(2, 6))
    truth = np.multiply.outer(low, np.array([1.0, 0.7, 1.2]))
    battles = lrbtl.simulate_battles(truth - truth.mean(axis=0), 40_000, rng=1)
    assert factors(lrbtl.analyse(battles).run) in ((2, 2, 1), (1, 1, 1))
    assert factors(lrbtl.analyse(battles, rank=(2, 2, 2)).run) == (2, 2, 2)


@pytest.mark.parametrize("seed", range(3))
def test_the_size_of_small_deviations_is_found(seed):
    """Also from a first tau that is far too large, where the evidence bends the wrong way."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 8))
    truth = low / np.sqrt(np.mean(low**2)) + 0.2 * rng.normal(size=(40, 8))
    run = lrbtl.analyse(lrbtl.simulate_battles(truth - truth.mean(axis=0), 30_000, rng=seed)).run
    assert isinstance(run, HierarchicalRun)
    assert 0.15 < run.tau < 0.25 and run.nodes[0].rank[0] < 4


def test_some_contexts_stand_for_all_of_a_large_log(monkeypatch):
    """Ranks and taus from a part of the contexts, scores and errors of all of them: boards as from the whole log."""
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(12, 1)), 1.0 + 0.3 * rng.normal(size=(400, 1))
    a, u = rng.integers(12, size=8_000), rng.integers(400, size=8_000)
    b = (a + rng.integers(1, 12, size=8_000)) % 12
    y = rng.random(8_000) < expit((U[a] - U[b])[:, 0] * V[u, 0])
    battles = lrbtl.Battles.from_arrays(a, b, y.astype(float), contexts=u)
    weights = np.stack([battles.context_counts / battles.n_battles, np.arange(400) == 7]).astype(float)
    whole = lrbtl.analyse(battles).estimate_boards(weights)
    assert some_contexts(make_design(battles, None)) is None
    monkeypatch.setattr(large, "LARGE_LOG", 1_000)
    monkeypatch.setattr(large, "MANY_CONTEXTS", 100)
    monkeypatch.setattr(large, "PART_CELLS", 4_000)
    kept = some_contexts(make_design(battles, None))
    assert kept is not None and 150 < len(kept) < 300
    part = lrbtl.analyse(battles).estimate_boards(weights)
    for mine, theirs in zip(part, whole, strict=True):
        assert np.abs(mine.estimate - theirs.estimate).max() < 1.5 * theirs.se.min()
        assert 0.6 < np.median(mine.se / theirs.se) < 2.0  # half of the votes know tau less well


def test_small_steps_do_not_leave_the_mode():
    """Votes of one pair in each of three contexts: steps with an expansion from nearby went to thousands of logits."""
    battles = lrbtl.Battles.from_arrays(
        [0, 1, 1, 0, 1], [1, 2, 2, 1, 2], [0.5, 0.5, 1.0, 0.5, 0.5], [[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]],
        counts=[1, 1, 100, 101, 100], n_models=3, n_levels=[2, 2],
    )  # fmt: skip
    assert np.abs(lrbtl.analyse(battles).scores()).max() < 10


def test_ranks_grow_while_components_are_certain(monkeypatch):
    """However far they stand out: few draws tell that roughly, and on one log it seemed to grow from rank to rank."""
    plain, excess = probe_residuals, {0: 20.0, 1: 30.0, 2: 40.0, 3: 50.0}

    def probe(at, clip, *doubt):
        return replace(plain(at, clip), excess=excess.get(at.scores.space.point.rank[0], -1.0), certain=0)

    monkeypatch.setattr(sizes, "probe_residuals", probe)
    truth = lrbtl.simulate_scores((20, 12), 4, scale=1.5, rng=0)
    run = lrbtl.analyse(lrbtl.simulate_battles(truth, 40_000, rng=1)).run
    assert factors(run) == (4, 4)


def test_certain_components_are_counted_at_once():
    """Residuals of levels show all that is certain: numbers between are not looked at, and the last is the same."""
    truth, lines = lrbtl.simulate_scores((60, 40), 5, scale=3.0, rng=0), []
    run = lrbtl.analyse(lrbtl.simulate_battles(truth, 400_000, rng=1), progress=lines.append).run
    assert factors(run) == (5, 5)
    seen = [int(line.split()[0]) for line in lines if " factors: " in line]
    assert seen[0] == 0 and seen[-1] == 5 and len(seen) < 6


def test_components_of_one_size_are_all_found():
    """While some of them are missing, they count as deviations, above which the next one does not stand out more."""
    rng = np.random.default_rng([5, 0, 5])
    truth = np.linalg.qr(rng.normal(size=(30, 5)))[0] @ np.linalg.qr(rng.normal(size=(12, 5)))[0].T
    truth = truth - truth.mean(axis=0)
    battles = lrbtl.simulate_battles(0.7 * truth / truth.std(), 400_000, rng=0)
    assert factors(lrbtl.analyse(battles).run) == (5, 5)


def weight_of_pairings(a, b, y):
    """Return how much weight the model has that takes pairings to come from levels."""
    run = lrbtl.analyse(lrbtl.Battles.from_arrays(a, b, y)).run
    assert isinstance(run, HierarchicalRun)
    nodes = run.nodes
    return sum(node.weight for node in nodes if any(node.mode.at.hyper.level.covariates.informed))


def test_pairings_that_followed_the_votes_say_nothing_of_levels():
    """After votes at random, near ties so far meet again; or models of similar levels meet from the start."""
    rng, d = np.random.default_rng(1), 40
    level = 0.6 * rng.normal(size=d)
    i, j = np.triu_indices(d, 1)
    found = {}
    for by_votes in (True, False):
        a = rng.integers(d, size=600 if by_votes else 0)
        b = (a + rng.integers(1, d, size=len(a))) % d
        y = rng.random(len(a)) < expit(level[a] - level[b])
        while len(a) < 2000:
            won = np.bincount(a, y, d) + np.bincount(b, ~y, d)
            so_far = (won + 3.0) / (np.bincount(a, minlength=d) + np.bincount(b, minlength=d) + 6.0)
            place = np.argsort(np.argsort(so_far if by_votes else level))
            close = np.flatnonzero(np.abs(place[i] - place[j]) <= 2)
            pair = rng.choice(close, size=100)
            a, b = np.append(a, i[pair]), np.append(b, j[pair])
            y = np.append(y, rng.random(100) < expit(level[i[pair]] - level[j[pair]]))
        found[by_votes] = weight_of_pairings(a, b, y.astype(float))
    assert found[True] < 0.1 < 0.9 < found[False]
