"""Links with ties: exact sums over the three outcomes, the border of the tie parameter, and a plain fit by scipy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import lrbtl
from lrbtl.errors import LinkError, MethodError, SolverError, TargetError
from lrbtl.fitting.design import Design
from lrbtl.model.links import LINKS, Davidson, RaoKupper, as_link

KINDS = [Davidson, RaoKupper]
OUTCOMES = np.array([0.0, 0.5, 1.0])


def simulate(link, scores, n, seed):
    rng = np.random.default_rng(seed)
    d1, D = scores.shape
    a, u = rng.integers(0, d1, n), rng.integers(0, D, n)
    b = (a + 1 + rng.integers(0, d1 - 1, n)) % d1
    p = link.probabilities(scores[a, u] - scores[b, u])
    y = 0.5 * (rng.random(n)[None, :] > np.cumsum(p, axis=0)).sum(axis=0)
    return lrbtl.Battles.from_arrays(a, b, y, [u], n_models=d1, n_levels=D)


@pytest.mark.parametrize("kind", KINDS)
@given(eta=st.floats(-40, 40), tie=st.floats(-2, 1.5))
@settings(max_examples=60)
def test_scores_and_information_by_exact_summation(kind, eta, tie):
    link, at = kind(tie), np.full(3, eta)
    p = link.probabilities(at[:1])[:, 0]
    assert p.sum() == pytest.approx(1.0, abs=1e-13) and np.all(p >= 0)
    terms = link.terms(at, OUTCOMES)
    scores = np.stack([terms.score, terms.effects.score[:, 0]])
    np.testing.assert_allclose(scores @ p, 0.0, atol=1e-12)
    cross = terms.effects.cross[0, 0]
    information = np.array([[terms.fisher[0], cross], [cross, terms.effects.own[0, 0, 0]]])
    np.testing.assert_allclose((scores * p) @ scores.T, information, atol=1e-12)
    assert link.mean(at[:1])[0] + link.mean(-at[:1])[0] == pytest.approx(1.0, abs=1e-13)
    assert np.all(np.isfinite(terms.loss))


@pytest.mark.parametrize("kind", KINDS)
@given(eta=st.floats(-12, 12), tie=st.floats(-1.5, 1.5))
@settings(max_examples=40)
def test_derivatives(kind, eta, tie):
    h, at = 1e-5, np.full(3, eta)
    terms, link = kind(tie).terms(at, OUTCOMES), kind(tie)
    by_eta = (link.terms(at - h, OUTCOMES).loss - link.terms(at + h, OUTCOMES).loss) / (2 * h)
    by_tie = (kind(tie - h).terms(at, OUTCOMES).loss - kind(tie + h).terms(at, OUTCOMES).loss) / (2 * h)
    np.testing.assert_allclose(terms.score, by_eta, atol=1e-6)
    np.testing.assert_allclose(terms.effects.score[:, 0], by_tie, atol=1e-6)
    odds, slope, tie_slope = link.log_odds(at[:1])
    mean = link.mean(at[:1])
    assert odds[0] == pytest.approx(np.log(mean / link.mean(-at[:1]))[0], abs=1e-9)
    above, below = link.log_odds(at[:1] + h)[0], link.log_odds(at[:1] - h)[0]
    assert slope[0] == pytest.approx(((above - below) / (2 * h))[0], abs=1e-6)
    above, below = kind(tie + h).log_odds(at[:1])[0], kind(tie - h).log_odds(at[:1])[0]
    assert tie_slope[0] == pytest.approx(((above - below) / (2 * h))[0], abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_spread_vanishes_with_its_variance(kind):
    eta, y = np.linspace(-3, 3, 9), np.tile(OUTCOMES, 3)
    link = kind(-0.4)
    terms = link.terms(eta, y)
    same = link.spread(terms, eta, y, np.zeros(9))
    np.testing.assert_allclose(same.score, terms.score, atol=1e-14)
    np.testing.assert_allclose(same.effects.score, terms.effects.score, atol=1e-14)
    wide = link.spread(terms, eta, y, np.full(9, 0.5))
    assert np.all(np.sign(wide.score - terms.score)[eta > 0.5] > 0)  # the mean response is nearer to one half


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.8])
def test_the_start_has_the_share_of_ties(kind, share):
    link = kind().started(np.array([0.0, 0.5, 1.0]), np.array([0.5 - 0.5 * share, share, 0.5 - 0.5 * share]))
    assert link.probabilities(np.zeros(1))[1, 0] == pytest.approx(share)


@pytest.mark.parametrize("shape", [(5,), (5, 4), (4, 3, 3)])
def test_the_border_of_the_tie_parameter(shape):
    truth = lrbtl.simulate_scores(shape, 1, scale=1, rng=0)
    flat = truth.reshape(shape[0], -1)
    pooled = simulate(Davidson(-0.5), flat, 300, 1)
    cells = pooled.cells
    contexts = np.unravel_index(cells.context, shape[1:]) if len(shape) > 1 else ()
    battles = lrbtl.Battles.from_arrays(
        cells.a, cells.b, cells.y, contexts, n_models=shape[0], n_levels=shape[1:], counts=cells.count
    )
    fit = lrbtl.fit(battles, 1, link="davidson", ridge=1.0)
    design: Design = fit.design
    space = design.space(fit.point)
    here = design.at(space)
    terms = here.terms
    rows = np.array([design.eta_change(space, column) for column in np.eye(space.size)]).T
    extra = np.zeros(space.size)
    extra[space.extra] = 1.0
    cross, own = design.count * terms.effects.cross[:, 0], design.count @ terms.effects.own[:, 0, 0]
    dense = (rows * (design.count * terms.fisher)[:, None]).T @ rows
    dense += np.outer(rows.T @ cross, extra) + np.outer(extra, rows.T @ cross) + own * np.outer(extra, extra)
    np.testing.assert_allclose(here.information.dense(), dense, atol=1e-10 * np.abs(dense).max())
    whole = rows * terms.score[:, None] + np.outer(terms.effects.score[:, 0], extra)
    dense = (whole * design.count[:, None]).T @ whole
    np.testing.assert_allclose(here.meat.dense(), dense, atol=1e-10 * np.abs(dense).max())


@pytest.mark.parametrize("kind", KINDS)
def test_order_one_without_ridge_is_the_plain_fit(kind):
    battles = simulate(kind(-0.5), lrbtl.simulate_scores((6, 1), 1, scale=1, rng=0), 3000, 2).pooled()
    cells = battles.cells

    def loss(x):
        theta = np.append(x[:5], -x[:5].sum())
        return float(cells.count @ kind(x[5]).terms(theta[cells.a] - theta[cells.b], cells.y).loss)

    best = minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-6})
    found = lrbtl.fit(battles, 1, ridge=0.0, link=kind.name)
    np.testing.assert_allclose(found.scores[:5], best.x[:5], atol=1e-4)
    assert found.link.tie == pytest.approx(best.x[5], abs=1e-4)

    est = lrbtl.infer(battles, [lrbtl.score(0), lrbtl.tie_parameter()], rank=1, ridge=0.0, link=kind.name, method="mle")
    theta = np.append(best.x[:5], -best.x[:5].sum())
    jacobian = np.vstack([np.eye(5), -np.ones(5)])
    terms = kind(best.x[5]).terms(theta[cells.a] - theta[cells.b], cells.y)
    x = np.column_stack([(jacobian[cells.a] - jacobian[cells.b]) * terms.score[:, None], terms.effects.score])
    bread = np.zeros((6, 6))
    difference = jacobian[cells.a] - jacobian[cells.b]
    bread[:5, :5] = (difference * (cells.count * terms.fisher)[:, None]).T @ difference
    bread[:5, 5] = bread[5, :5] = difference.T @ (cells.count * terms.effects.cross[:, 0])
    bread[5, 5] = cells.count @ terms.effects.own[:, 0, 0]
    inverse = np.linalg.inv(bread)
    sandwich = inverse @ ((x * cells.count[:, None]).T @ x) @ inverse
    expected = np.sqrt([sandwich[0, 0], sandwich[5, 5]])
    np.testing.assert_allclose(est.se, expected, rtol=0.01)  # HC3 enlarges by the leverages


@pytest.mark.parametrize("kind", KINDS)
def test_cross_fitted_intervals_hold_the_truth(kind):
    truth = lrbtl.simulate_scores((10, 5), 2, scale=2, rng=0)
    link = kind(-0.4)
    battles = simulate(link, truth, 12_000, 3)
    targets = [lrbtl.tie_parameter(), lrbtl.win_probability(0, 1, 2), lrbtl.win_rate(3)]
    est = lrbtl.infer(battles, targets, rank=2, link=kind.name, n_folds=5)
    others = np.delete(truth, 3, axis=0)
    exact = [link.tie, link.mean(truth[:1, 2] - truth[1:2, 2])[0], link.mean((truth[3] - others).ravel()).mean()]
    assert np.all(np.abs(est.estimate - exact) < 4 * est.se)
    every = lrbtl.infer(battles, lrbtl.all_scores(), rank=2, link=kind.name, n_folds=5)
    assert np.mean(np.abs(every.estimate - truth.ravel()) < 1.96 * every.se) > 0.85


def test_what_ties_cannot_do():
    truth = lrbtl.simulate_scores((6, 3), 1, scale=1, rng=0)
    battles = simulate(Davidson(-0.5), truth, 2000, 4)
    with pytest.raises(MethodError, match="tie parameter"):
        lrbtl.infer(battles, lrbtl.score(0), rank=1, link="davidson", method="whitened")
    with pytest.raises(SolverError, match="direct"):
        lrbtl.infer(battles, lrbtl.score(0), rank=1, link="davidson", solver="cg", method="efficient")
    with pytest.raises(TargetError, match="davidson"):
        lrbtl.infer(battles, lrbtl.tie_parameter(), rank=1)
    with pytest.raises(LinkError, match="no battle is a tie"):
        lrbtl.fit(lrbtl.simulate_battles(truth, 100, rng=0), 1, link="davidson")
    with pytest.raises(LinkError, match="0, 1/2 or 1"):
        lrbtl.fit(lrbtl.Battles.from_arrays([0, 0], [1, 1], [0.3, 0.5]), 1, link="rao-kupper")
    with pytest.raises(LinkError, match="not known"):
        as_link("cloglog")


def test_links_have_their_own_names():
    assert all(as_link(name).name == name and str(link) == name for name, link in LINKS.items())
