"""Critical values under many looks: against simulated walks and the formulas, and one answer for all that uses them."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

import lrbtl
from lrbtl.errors import EstimateError, LooksError, MethodError
from lrbtl.inference.always_valid import ONE_LOOK, Validity, crossing, mixture_critical, spending_boundary
from lrbtl.inference.analysis import looked_at


def mixture(critical, time):
    """The formula, with r found by a general minimiser."""
    size = -2 * np.log(2 * norm.sf(critical))

    def square(r, t):
        return (1 + r / t) * (size + np.log(1 + t / r))

    r = minimize_scalar(lambda r: square(r, 1.0), bounds=(1e-3, 50), method="bounded", options={"xatol": 1e-10}).x
    return np.sqrt(square(r, time))


@pytest.mark.parametrize("critical", [0.7, 1.645, 1.96, 3.2, 5.0])
@pytest.mark.parametrize("time", [0.01, 0.5, 1.0, 40.0])
def test_the_mixture_is_tightest_where_tuned(critical, time):
    assert mixture_critical(critical, time) == pytest.approx(mixture(critical, time), rel=1e-5)


def test_where_tuned_it_is_half_as_wide_again_and_grows_slowly():
    assert 1.54 < mixture_critical(1.96, 1.0) / 1.96 < 1.56
    assert mixture_critical(1.96, 100.0) / 1.96 < 1.85
    assert np.isinf(mixture_critical(1.96, 0.0))


@pytest.mark.parametrize("always", [True, False])
def test_random_walks_rarely_leave(always):
    rng = np.random.default_rng(0)
    steps = np.arange(1, 201)
    walks = np.abs(np.cumsum(rng.standard_normal((4000, 200)), axis=1)) / np.sqrt(steps)
    if always:
        bound = np.array([mixture_critical(1.96, n / 100) for n in steps])
    else:
        bound = np.array([spending_boundary(0.05, 20, k) for k in range(1, 21)])
        walks = np.abs(np.cumsum(rng.standard_normal((4000, 20)), axis=1)) / np.sqrt(np.arange(1, 21))
    ever = (walks > bound).any(axis=1).mean()
    assert ever < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 4000)
    if not always:
        assert ever > 0.04


@pytest.mark.parametrize(("looks", "constant"), [(2, 2.178), (5, 2.413), (10, 2.555), (20, 2.672)])
def test_planned_looks_have_the_published_constants(looks, constant):
    """Jennison and Turnbull 2000, Table 2.1."""
    assert crossing(constant, looks) == pytest.approx(0.05, abs=1e-4)
    assert Validity(looks=looks).reach(1.959964) == pytest.approx(constant, abs=0.003)


def test_spent_evenly_the_last_look_costs_little():
    last = Validity(looks=58, votes=5000, tuned_at=5000).reach(1.96)
    first = Validity(looks=58, votes=10, tuned_at=5000).reach(1.96)
    assert last / 1.96 < 1.35 < first / 1.96
    assert spending_boundary(0.05, 1, 1) == pytest.approx(1.96, abs=1e-3)


@pytest.mark.parametrize(
    "valid", [ONE_LOOK, Validity("always", 3e4, 1e4), Validity(looks=12), Validity(looks=12, votes=5, tuned_at=10)]
)
def test_one_look_is_the_inverse_of_reach(valid):
    critical = np.array([0.5, 1.3, 1.96, 3.0, 4.4, 6.0])
    reached = np.array([valid.reach(c) for c in critical])
    assert (np.diff(reached) > 0).all() and (reached >= critical - 1e-9).all()
    assert valid.one_look(np.append(reached, -reached)) == pytest.approx(np.append(critical, -critical), abs=0.03)


def test_more_votes_end_at_the_last_look():
    valid = Validity(looks=5, votes=40, tuned_at=100)
    assert valid.after(10.0).votes == 100 and Validity("always", 40, 100).after(10.0).votes == 400
    with pytest.raises(LooksError, match="last of 5 planned looks"):
        Validity(looks=5, votes=101, tuned_at=100).reach(1.96)


@pytest.fixture(scope="module")
def analysis():
    return lrbtl.analyse(lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=1, rng=0), 6000, rng=1))


LOOKS = {"valid": "always", "tuned_at": 20_000.0}


def test_intervals_verdicts_and_ranks_have_one_critical_value(analysis):
    once, always = analysis.leaderboard(margin=20), analysis.leaderboard(margin=20, **LOOKS)
    c = Validity("always", 6000, 20_000).reach(1.959964)
    assert np.array_equal(once.score, always.score)
    assert always.upper - always.score == pytest.approx(c / 1.959964 * (once.upper - once.score))
    assert (always.rank_lower <= once.rank_lower).all() and (always.rank_upper >= once.rank_upper).all()
    assert (always.detectable > once.detectable).all()
    est = looked_at(analysis, **LOOKS).estimate([lrbtl.gap(0, 1), lrbtl.gap(2, 3), lrbtl.gap(0, 5)])
    plain = analysis.estimate([lrbtl.gap(0, 1), lrbtl.gap(2, 3), lrbtl.gap(0, 5)])
    for k, verdict in enumerate(est.verdicts().verdict):
        inside = est.lower[k] <= 0 <= est.upper[k]
        assert (verdict == "cannot tell") == inside == (est.pvalue[k] >= 0.0499)
    wide, narrow = (np.diff(x.conf_int(joint=True)).ravel() for x in (est, plain))
    joint = narrow / np.diff(plain.conf_int()).ravel() * 1.959964  # the joint critical value
    assert wide / narrow * joint == pytest.approx([Validity("always", 6000, 20_000).reach(x) for x in joint], rel=1e-6)


def test_comparisons_gates_and_rank_sets_follow(analysis):
    once, always = analysis.compare(0, 1), analysis.compare(0, 1, **LOOKS)
    c = Validity("always", 6000, 20_000).reach(1.959964) / 1.959964
    assert always.upper - always.gap == pytest.approx(c * (once.upper - once.gap))
    assert "valid at any time (tuned at 20,000 votes)" in str(always) and "valid for one look" in str(once)
    gates = [analysis.gate(0, 1, margin=5, **more) for more in ({}, LOOKS)]
    assert gates[1].upper - gates[1].gap == pytest.approx(c * (gates[0].upper - gates[0].gap))
    assert gates[1].to_dict()["valid"].startswith("valid at any time")
    sets = lrbtl.rank_sets(analysis, rng=0), lrbtl.rank_sets(looked_at(analysis, **LOOKS), rng=0)
    assert sets[1].critical > sets[0].critical and (sets[1].lower <= sets[0].lower).all()
    assert (sets[1].top(2).pvalue >= sets[0].top(2).pvalue - 1e-12).all()
    joint = [lrbtl.win_matrix(looked_at(analysis, **more), 0, joint=True) for more in ({"valid": "once"}, LOOKS)]
    assert (joint[1].upper >= joint[0].upper - 1e-12).all()
    assert lrbtl.choose(
        looked_at(analysis, **LOOKS), {0: 1.0, 1: 2.0} | {f"model_{k}": 1.0 + k for k in range(6)}
    ).valid


def test_expected_votes_know_the_later_boundary(analysis):
    """A gap that needs n votes at one look needs up to (c / z)^2 as many under looks."""
    tell = [lrbtl.votes_needed(analysis.battles, lrbtl.gap(2, 3), power=0.8, gap=10, **more) for more in ({}, LOOKS)]
    assert 1.4 < tell[1].votes / tell[0].votes < 2.6
    with pytest.raises(LooksError, match="a width is planned for one look"):
        lrbtl.votes_needed(analysis.battles, lrbtl.gap(2, 3), half_width=10, **LOOKS)


def test_boards_say_so_and_files_keep_it(analysis):
    board = analysis.leaderboard(**LOOKS)
    assert "valid at any time (tuned at 20,000 votes)" in board.heading()[1]
    assert lrbtl.Leaderboard.from_json(board.to_json()).heading() == board.heading()
    page = lrbtl.report_html(analysis.boards(looks=10))
    assert "valid at each of 10 planned looks" in page
    assert "valid at any time" in str(lrbtl.infer(analysis.battles, lrbtl.gap(0, 1), valid="always"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"valid": "sometimes"}, "valid="),
        ({"looks": 0}, "looks=0"),
        ({"looks": 2.5}, "looks=2.5"),
        ({"looks": 9999}, "too many to plan"),
        ({"looks": 5, "valid": "always"}, "needs no number of looks"),
        ({"tuned_at": 100}, "goes with valid='always'"),
        ({"tuned_at": -1, "valid": "always"}, "tuned_at=-1"),
        ({"looks": 5, "tuned_at": 100}, "last of 5 planned looks"),
    ],
)
def test_bad_looks(analysis, options, words):
    with pytest.raises(LooksError, match=words):
        lrbtl.leaderboard(analysis, **options)


def test_where_looks_make_no_sense(analysis):
    results = lrbtl.Results.from_wide({"model": ["x", "y", "z"], "math": [70, 60, 50], "code": [50, 41, 29]})
    with pytest.raises(LooksError, match="results do not come in like votes"):
        lrbtl.leaderboard(results, valid="always")
    with pytest.raises(LooksError, match="does not know its number of votes"):
        Validity.of(lrbtl.inference.estimate.Provenance(valid="always"))
    with pytest.raises(EstimateError, match="one look"):
        looked_at(analysis, **LOOKS).estimate(lrbtl.gap(0, 1)).conf_int(kind="bernstein")
    with pytest.raises(MethodError, match="compat"):
        lrbtl.leaderboard(analysis.battles, compat="arena-rank", valid="always")


def test_estimates_and_win_matrices_say_under_how_many_looks_they_hold():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((4, 2), 1, scale=1, rng=0), 900, rng=1)
    for options, words in (
        ({}, "valid for one look"),
        ({"valid": "always", "tuned_at": 2000}, "valid at any time (tuned at 2,000 votes)"),
        ({"looks": 12}, "valid at each of 12 planned looks"),
    ):
        assert words in str(lrbtl.win_matrix(battles, **options))
        assert f'"valid": "{words}"' in lrbtl.infer(battles, lrbtl.gap("model_0", "model_1"), **options).to_json()
