"""Power of verdicts: levels and powers by simulation, the information of votes, and what no votes can show."""

import math

import numpy as np
import pytest
from scipy import stats

import lrbtl
from lrbtl.boards.gate import decide
from lrbtl.errors import PowerError
from lrbtl.inference.power import Prospect, error_to_clear, error_to_show, shrinkage_at_alternative
from lrbtl.inference.verdicts import ELO, judge
from lrbtl.methods.base import Shrinkage

REPS = 200_000


def share(gap, se, verdict, margin=None, follow=1.0):
    draws = follow * gap + math.sqrt(follow) * se * np.random.default_rng(0).standard_normal(REPS)
    return np.mean([found == verdict for found in judge(draws, np.full(REPS, se), follow, margin=margin)])


def within(found, promised):
    return abs(found - promised) < 3 * math.sqrt(promised * (1 - promised) / REPS)


def test_levels_and_powers_are_those_promised():
    assert within(share(0.0, 0.3, "ahead"), 0.025)
    assert within(share(0.5, 0.1, "equivalent", margin=0.5), 0.05)
    assert within(share(float(Prospect(0.2).detectable()), 0.2, "ahead"), 0.8)
    for gap in (0.0, 0.1):
        assert within(share(gap, error_to_show(gap, margin=0.4), "equivalent", margin=0.4), 0.8)
    assert within(share(0.4, error_to_show(0.4, power=0.9), "ahead"), 0.9)


def test_powers_hold_where_estimates_are_shrunk():
    """With a prior of variance v and votes of variance w estimates follow by f = v / (v + w), with error sqrt(f w)."""
    gap = float(Prospect(0.2, 0.7, math.sqrt(0.7) * 0.2).detectable())
    assert within(share(gap, 0.2, "ahead", follow=0.7), 0.8)
    assert within(share(0.5, 0.1, "equivalent", margin=0.5, follow=0.7), 0.05)
    now = Prospect(se=math.sqrt(0.6 * 0.04), shrinkage_factor=0.6, noise=0.6 * 0.2)  # v = .06, w = .04
    for gap, margin in ((0.4, None), (0.1, 0.4)):
        se = error_to_show(gap, margin=margin, prospect=now)
        w = 1.0 / (1.0 / se**2 - 1.0 / 0.06)
        follow = 0.06 / (0.06 + w)
        after = now.at_error(se)
        assert after.shrinkage_factor == pytest.approx(follow) and after.noise == pytest.approx(follow * math.sqrt(w))
        assert within(share(gap, se, "equivalent" if margin else "ahead", margin, follow), 0.8)


def test_powers_hold_where_a_gap_widens_the_prior():
    """Votes say x, the prior's variance is v + c x^2 then, and estimates follow by more."""
    v, w, c = 0.03, 0.04, 0.1
    f = v / (v + w)
    se, noise = math.sqrt(f * w), f * math.sqrt(w)
    now = Prospect(se, f, noise, c)
    gap = float(now.detectable())
    x = gap + math.sqrt(w) * np.random.default_rng(0).standard_normal(REPS)
    there = (v + c * x**2) / (v + c * x**2 + w)
    np.testing.assert_allclose(shrinkage_at_alternative(x, se, f, c), there)
    assert within(np.mean([found == "ahead" for found in judge(there * x, np.sqrt(there * w))]), 0.8)
    assert gap < float(Prospect(se, f, noise).detectable())
    assert error_to_show(gap, prospect=now) == pytest.approx(se)
    assert Prospect(se, 1.2, None, c).detectable() == pytest.approx(Prospect(se, 1.2).detectable())


def test_powers_hold_where_votes_tell_less_of_unequal_models():
    """n votes between two models, at odds of e^eta now: information is that of the binomial law at every gap."""
    for n, eta in ((200, 0.0), (400, 1.5), (150, -0.4), (30, 0.5)):
        now = Prospect(1 / math.sqrt(n * logistic(eta)), gap=abs(eta), slope=-math.tanh(abs(eta) / 2), bend=bend(eta))
        for gap in (0.0, 0.3, 2.0, 5.0):
            assert now.information(gap) == pytest.approx(logistic(gap) / logistic(eta))
            assert now.at_gap(gap).se == pytest.approx(1 / math.sqrt(n * logistic(gap)))
        gap = float(now.detectable())
        least = float(now.critical_gap(0.95))
        assert least * math.sqrt(n * logistic(least)) == pytest.approx(stats.norm.isf(0.025))
        arcs = [2 * math.sqrt(n) * math.asin(math.sqrt(1 / (1 + math.exp(-x)))) for x in (least, gap)]
        assert arcs[1] - arcs[0] == pytest.approx(stats.norm.isf(0.2), rel=1e-3)  # the integral of sqrt(n w)
        won = stats.binom(n, 1 / (1 + math.exp(-gap)))
        k = np.arange(1, n)
        z = np.log(k / (n - k)) * np.sqrt(k * (n - k) / n)
        assert won.pmf(k[z > stats.norm.isf(0.025)]).sum() + won.pmf(n) == pytest.approx(
            0.8, abs=0.04
        )  # steps of a vote
        assert error_to_show(gap, prospect=now) == pytest.approx(now.se)


def logistic(eta):
    return 0.25 / math.cosh(eta / 2) ** 2


def bend(eta):
    return -0.25 / math.cosh(eta / 2) ** 2


@pytest.mark.parametrize("sign", [1, -1])
def test_a_gap_knows_what_votes_tell_of_a_larger_one(sign):
    truth = lrbtl.simulate_scores((8, 3), 1, scale=0.8, rng=0)
    battles = lrbtl.simulate_battles(truth, 6000, rng=1)
    analysis = lrbtl.analyse(battles)
    order = np.argsort(-sign * analysis.scores().mean(axis=1))
    i, j = int(order[0]), int(order[4])
    now, scores, cells = (
        analysis.estimate(lrbtl.gap(i, j, weights="equal")).prospect(),
        analysis.scores(),
        battles.cells,
    )
    gap = float(np.mean(scores[i] - scores[j]))
    assert now.gap == pytest.approx(abs(gap))

    def information(h):
        x = np.zeros(8)
        x[i], x[j] = 0.5, -0.5
        eta, away = scores[cells.a, cells.context] - scores[cells.b, cells.context], x[cells.a] - x[cells.b]
        return np.sum(cells.count * 0.25 / np.cosh((eta + h * away) / 2) ** 2 * away**2)

    for size in (0.0, 0.3, 1.0, 1.5):
        assert now.information(size) == pytest.approx(
            information(np.sign(gap) * size - gap) / information(0.0), rel=0.02
        )


def test_even_votes_show_what_nearly_even_ones_show():
    found = [lrbtl.Battles.from_arrays(["x"] * 2, ["y"] * 2, [1, 0], counts=[k, 40 - k]) for k in (20, 21)]
    even, nearly = (lrbtl.compare(battles, "x", "y").detectable[0] for battles in found)
    won = stats.binom(40, 1 / (1 + math.exp(-even / ELO)))
    assert won.sf(27) == pytest.approx(0.8, abs=0.03)  # 28 of 40 are ahead, 27 are not
    for k, ahead in ((27, False), (28, True)):
        gap = lrbtl.compare(lrbtl.Battles.from_arrays(["x"] * 2, ["y"] * 2, [1, 0], counts=[k, 40 - k]), "x", "y")
        assert (gap.lower[0] > 0) == ahead
    assert nearly == pytest.approx(even, rel=0.05)


def test_noise_of_other_differences_is_not_that_of_a_gap():
    """Where a method hardly follows a gap, votes alone say how it varies once it is there."""
    se, f = 0.04, 0.06
    own, other = Prospect(se, f, math.sqrt(f) * se), Prospect(se, f, 0.9 * se)
    assert other.unshrunk_noise(0.0) == pytest.approx(own.unshrunk_noise(0.0)) == pytest.approx(se / math.sqrt(f))


def test_too_few_votes_show_no_gap():
    few = Prospect(np.array([1.0, 0.2]), bend=-0.25)
    assert np.isinf(few.detectable()).tolist() == [True, False]


def test_one_test_clears_what_is_allowed_below_a_gap():
    now = Prospect(se=math.sqrt(0.6 * 0.04), shrinkage_factor=0.6, noise=0.6 * 0.2)
    for prospect, gap in ((None, -0.1), (now, -0.1), (now, 0.2)):
        se = error_to_clear(gap + 0.4, prospect=prospect)
        f, noise = (1.0, se) if prospect is None else (now.at_error(se).shrinkage_factor, now.at_error(se).noise)
        draws = f * gap + noise * np.random.default_rng(0).standard_normal(REPS)
        shown = np.mean([decide("cannot tell", float(x), se, 0.4, 0.95, f) == "ship" for x in draws])
        assert within(shown, 0.8)


def test_a_power_that_chance_alone_has_needs_no_votes():
    assert error_to_show(0.4, power=0.01) == math.inf


def test_no_votes_show_equality_or_a_gap_as_large_as_the_margin():
    assert error_to_show(0.0) == 0.0
    assert error_to_show(0.5, margin=0.5) == 0.0


@pytest.mark.parametrize("power", [0, 1, "high", True])
def test_a_power_that_is_none_has_a_named_error(power):
    with pytest.raises(PowerError, match="between 0 and 1"):
        Prospect(1.0).detectable(power=power)


def test_what_is_known_for_sure_needs_no_gap():
    """A target without an error, as the gap of a model with itself, divides nothing by zero."""
    found = Prospect.of(np.zeros(2), np.array([0.0, 0.1]), Shrinkage.none(2)).detectable()
    assert found[0] < 1e-9 and 0.2 < found[1] < 0.4
