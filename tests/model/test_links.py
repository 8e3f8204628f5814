"""Links: the logistic one against high precision, all by exact summation, far into both tails."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

import lrbtl
from lrbtl.errors import LinkError, MethodError, SolverError, TargetError
from lrbtl.fitting.design import Design
from lrbtl.fitting.jacobian import eta_change
from lrbtl.fitting.local import Local
from lrbtl.model.links import (
    LINKS,
    LOGISTIC,
    Cauchit,
    CustomLink,
    Davidson,
    Identity,
    Logistic,
    Probit,
    RaoKupper,
    as_link,
    logistic_terms,
    mean_over_spread,
)


def exact_terms(eta, y):
    """Loss, score and information with 400 digits: the exponential of 700 and its inverse are both exact."""
    with localcontext() as context:
        context.prec = 400
        t, v, one = Decimal(eta), Decimal(y), Decimal(1)
        p = one / (one + (-t).exp())
        q = one / (one + t.exp())
        loss = -v * p.ln() - (one - v) * q.ln()
        return float(loss), float(v * q - (one - v) * p), float(p * q)


@pytest.mark.parametrize("eta", [0.0, 1e-12, 0.3, 2.0, 17.0, 40.0, 300.0, 700.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("y", [0.0, 0.25, 0.5, 1.0])
def test_terms_keep_full_precision(eta, sign, y):
    terms = logistic_terms(np.array([sign * eta]), np.array([y]))
    expected = exact_terms(sign * eta, y)
    rounding = 1e-300 if y in (0.0, 1.0) else 1e-16  # the score of a tie is a difference
    for found, exact in zip(terms, expected, strict=True):
        assert found[0] == pytest.approx(exact, rel=1e-14, abs=rounding)


def test_extremes_neither_overflow_nor_vanish():
    eta = np.array([-1e300, -800.0, 800.0, 1e300])
    loss, score, fisher = logistic_terms(eta, np.ones(4))
    np.testing.assert_array_equal(loss, [1e300, 800.0, 0.0, 0.0])
    np.testing.assert_array_equal(score, [1.0, 1.0, 0.0, 0.0])
    assert np.all(fisher >= 0) and np.all(np.isfinite(fisher))
    assert logistic_terms(np.array([700.0]), np.ones(1))[2][0] > 0  # where sigmoid(eta) rounds to one


@given(st.floats(-30, 30), st.floats(0, 1))
def test_derivatives_and_symmetry(eta, y):
    step = 1e-5
    points = np.array([eta - step, eta, eta + step])
    loss, score, fisher = logistic_terms(points, np.full(3, y))
    assert -(loss[2] - loss[0]) / (2 * step) == pytest.approx(score[1], abs=1e-8)
    assert -(score[2] - score[0]) / (2 * step) == pytest.approx(fisher[1], abs=1e-8)
    mirrored = logistic_terms(-points, np.full(3, 1 - y))
    np.testing.assert_allclose(mirrored[0], loss, rtol=1e-13, atol=1e-13)  # 1 - y is rounded
    np.testing.assert_allclose(mirrored[1], -score, rtol=1e-9, atol=1e-13)
    np.testing.assert_array_equal(mirrored[2], fisher)


@pytest.mark.parametrize("eta", [-6.0, -1.0, 0.0, 0.4, 3.0])
@pytest.mark.parametrize("variance", [0.0, 0.01, 0.3, 1.0])
def test_mean_over_a_normal_eta(eta, variance):
    sd = variance**0.5
    exact = quad(lambda z: expit(eta + sd * z) * norm.pdf(z), -10, 10, epsabs=1e-13)[0]
    at, spread = np.array([eta, -eta]), np.full(2, variance)
    found, information = mean_over_spread(expit, at, spread), LOGISTIC.mean_fisher(at, spread)
    variances = quad(lambda z: expit(eta + sd * z) * expit(-eta - sd * z) * norm.pdf(z), -10, 10, epsabs=1e-13)[0]
    np.testing.assert_allclose(information, variances, atol=2e-5)
    assert found[0] == pytest.approx(exact, abs=2e-6)
    assert found.sum() == pytest.approx(1.0, abs=1e-14)
    assert abs(found[0] - 0.5) <= abs(expit(eta) - 0.5) + 1e-15


CAUCHIT = CustomLink(lambda x: 0.5 + np.arctan(x) / np.pi, lambda x: 1 / (np.pi * (1 + x**2)), name="cauchit")
BINARY = [Logistic(), Probit(), Cauchit(), CAUCHIT]


@pytest.mark.parametrize("link", BINARY, ids=str)
@given(eta=st.floats(-8, 8))
@settings(max_examples=60)
def test_binary_links_by_exact_summation(link, eta):
    at = np.full(2, eta)
    y = np.array([0.0, 1.0])
    p = np.array([link.mean(-at)[0], link.mean(at)[0]])
    terms = link.terms(at, y)
    assert p @ terms.score == pytest.approx(0.0, abs=1e-12)
    assert p @ terms.score**2 == pytest.approx(terms.fisher[0], rel=1e-8)
    h = 1e-4 / (1 + abs(eta))
    above, below = link.terms(at + h, y), link.terms(at - h, y)
    whitened = (above.score / above.fisher - below.score / below.fisher) / (2 * h)
    assert p @ whitened == pytest.approx(-1.0, abs=1e-5)
    np.testing.assert_allclose(terms.score, (below.loss - above.loss) / (2 * h), atol=1e-6)
    odds, slope, _ = link.log_odds(at)
    np.testing.assert_allclose(np.exp(odds), p[1] / p[0], rtol=1e-8)
    np.testing.assert_allclose(slope, (link.log_odds(at + h)[0] - link.log_odds(at - h)[0]) / (2 * h), rtol=1e-5)


def normal_tail(x):
    """-log P(Z > x) by the continued fraction of Mills' ratio."""
    ratio = 0.0
    for k in range(400, 0, -1):
        ratio = k / (x + ratio)
    return 0.5 * x**2 + 0.5 * np.log(2 * np.pi) + np.log(x + ratio), x + ratio


@pytest.mark.parametrize("eta", [5.0, 12.0, 30.0, 40.0])
def test_probit_tails(eta):
    terms = Probit().terms(np.array([-eta, eta, eta]), np.array([1.0, 0.0, 1.0]))
    loss, hazard = normal_tail(eta)
    np.testing.assert_allclose(terms.loss[:2], loss, rtol=1e-13)
    np.testing.assert_allclose(terms.score[:2], [hazard, -hazard], rtol=1e-9)
    assert 0 <= terms.loss[2] < 1e-5 and 0 <= terms.score[2] < 1e-4
    assert np.all(terms.fisher > 0) and np.all(np.isfinite(terms.score / terms.fisher))


def test_rao_kupper_with_nearly_all_ties_is_finite():
    terms = RaoKupper(tie=7.0).terms(np.array([0.3, -2.0, 0.0]), np.array([0.5, 1.0, 0.0]))
    assert np.all(np.isfinite(terms.loss)) and terms.loss[0] < 1e-6 < 1000 < terms.loss[1]


def test_probit_far_out_is_finite():
    terms = Probit().terms(np.array([-3e10, 6e10, 1e200]), np.array([1.0, 0.0, 0.0]))
    assert np.all(np.isfinite(terms.loss)) and np.all(terms.score * [1, -1, -1] > 1e4) and np.all(terms.fisher > 0)


@pytest.mark.parametrize("link", BINARY, ids=str)
def test_spread_uses_the_mean_response(link):
    eta, y, variance = np.array([-2.0, 0.5, 3.0]), np.array([0.0, 1.0, 0.5]), np.full(3, 0.4)
    terms = link.terms(eta, y)
    same = link.spread(terms, eta, y, np.zeros(3))
    np.testing.assert_allclose(same.score, terms.score, atol=1e-12)
    found = link.spread(terms, eta, y, variance).score
    sd = 0.4**0.5
    mean = [quad(lambda z, e=e: link.mean(np.array([e + sd * z]))[0] * norm.pdf(z), -9, 9)[0] for e in eta]
    p = link.mean(eta)
    slope = np.sqrt(terms.fisher / (p * (1 - p)))
    np.testing.assert_allclose(found, (y - mean) * slope, atol=1e-4)


def test_identity():
    eta, y, variance = np.array([0.0, 1.0]), np.array([2.0, 0.5]), np.array([4.0, 0.25])
    terms = Identity().terms(eta, y, variance)
    np.testing.assert_allclose(terms.loss, -norm.logpdf(y, eta, np.sqrt(variance)))
    np.testing.assert_allclose(terms.score, (y - eta) / variance)
    np.testing.assert_allclose(terms.fisher, 1 / variance)
    np.testing.assert_allclose(Identity(9.0).terms(eta, y).fisher, 1 / 9)
    assert Identity().spread(terms, eta, y, variance) is terms
    with pytest.raises(LinkError, match="binary"):
        Identity().log_odds(eta)


def test_links_that_are_none():
    with pytest.raises(LinkError, match="derivative"):
        CustomLink(expit, lambda x: expit(x), name="wrong")
    with pytest.raises(LinkError, match="survival"):
        CustomLink(lambda x: 1 - np.exp(-np.exp(x)), lambda x: np.exp(x - np.exp(x)))
    cloglog = CustomLink(
        lambda x: 1 - np.exp(-np.exp(x)), lambda x: np.exp(x - np.exp(x)), lambda x: np.exp(-np.exp(x))
    )
    battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0])
    with pytest.raises(LinkError, match="battles need"):
        lrbtl.fit(battles, 1, link=cloglog)
    with pytest.raises(LinkError, match="observed entries"):
        lrbtl.fit(battles, 1, link="identity")
    with pytest.raises(LinkError, match=r"\[0, 1\]"):
        lrbtl.fit(lrbtl.Results.from_arrays([(0, 0), (1, 1)], [2.0, 1.0], shape=(2, 2)), 1, link="probit")


def test_a_custom_logistic_link_is_the_compiled_one():
    truth = lrbtl.simulate_scores((8, 4), 2, scale=2, rng=0)
    battles = lrbtl.simulate_battles(truth, 4000, rng=1)
    mine = CustomLink(expit, lambda x: expit(x) * expit(-x), name="mine")
    targets = [lrbtl.score(0, 1), lrbtl.win_probability(0, 1, 2), lrbtl.win_rate(2)]
    one, two = (lrbtl.infer(battles, targets, rank=2, n_folds=3, link=link) for link in (mine, None))
    np.testing.assert_allclose(one.estimate, two.estimate, atol=1e-8)
    np.testing.assert_allclose(one.se, two.se, rtol=1e-6)


def test_probit_recovers_probit_battles():
    truth = lrbtl.simulate_scores((10, 5), 2, scale=1, rng=0)
    rng = np.random.default_rng(1)
    a, u = rng.integers(0, 10, 20_000), rng.integers(0, 5, 20_000)
    b = (a + 1 + rng.integers(0, 9, 20_000)) % 10
    y = (rng.random(20_000) < norm.cdf(truth[a, u] - truth[b, u])).astype(float)
    battles = lrbtl.Battles.from_arrays(a, b, y, [u])
    est = lrbtl.infer(battles, lrbtl.all_scores(), rank=2, link="probit", n_folds=5)
    z = (est.estimate - truth.ravel()) / est.se
    assert np.mean(np.abs(z) < 1.96) > 0.85 and np.abs(z).max() < 4.5
    assert lrbtl.fit(battles, 2, link="probit").predict_proba(0, 1, 0) == pytest.approx(
        norm.cdf(truth[0, 0] - truth[1, 0]), abs=0.05
    )
    assert lrbtl.diagnose(battles, lrbtl.fit(battles, 2, link="probit")).verdict == "efficient is safe"


@pytest.mark.parametrize("link", ["probit", "davidson"])
def test_boards_of_other_links_agree_near_even_battles(link):
    truth = lrbtl.simulate_scores((8, 3), 1, scale=0.6, rng=0)
    rng = np.random.default_rng(1)
    n = 30_000
    a, u = rng.integers(0, 8, n), rng.integers(0, 3, n)
    b = (a + 1 + rng.integers(0, 7, n)) % 8
    y = (rng.random(n) < expit(truth[a, u] - truth[b, u])).astype(float)
    y[rng.random(n) < 0.2] = 0.5
    battles = lrbtl.Battles.from_arrays(a, b, y, [u])
    for data in (battles, battles.pooled()):
        one, two = (lrbtl.leaderboard(data, rank=1, link=name, n_folds=4) for name in ("logistic", link))
        order = [two.models.index(model) for model in one.models]
        np.testing.assert_allclose(two.score[order], one.score, atol=0.25 * one.se.max() + 1)
        np.testing.assert_allclose(two.se[order], one.se, rtol=0.15)
    gaps = [lrbtl.compare(battles, 0, 1, rank=1, link=name, n_folds=4) for name in ("logistic", link)]
    np.testing.assert_allclose(gaps[1].gap, gaps[0].gap, atol=0.3 * (gaps[0].upper - gaps[0].gap).max())
    duels = [lrbtl.win_matrix(battles, rank=1, link=name, n_folds=4).win for name in ("logistic", link)]
    np.testing.assert_allclose(np.sort(duels[1].ravel()), np.sort(duels[0].ravel()), atol=0.02)
    rates = [
        lrbtl.leaderboard(battles, rank=1, link=name, scale="probability", n_folds=4) for name in ("logistic", link)
    ]
    np.testing.assert_allclose(np.sort(rates[0].score), np.sort(rates[1].score), atol=0.01)
    with pytest.raises(MethodError, match="naive"):
        lrbtl.leaderboard(battles, link=link, method="naive")


# ------------------------------------------------------------------------------
# Ties as an outcome of their own.
# ------------------------------------------------------------------------------

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
    here = Local(design, space)
    terms = here.terms
    rows = np.array([eta_change(design.entries, space, column) for column in np.eye(space.size)]).T
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
    assert isinstance(found.link, kind) and found.link.tie == pytest.approx(best.x[5], abs=1e-4)

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
