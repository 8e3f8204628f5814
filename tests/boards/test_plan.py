"""Plans of votes: against covariances written out, constraints, invariances, and widths that one then sees."""

import math

import numpy as np
import pytest
from scipy import stats

import lrbtl
from lrbtl.boards.planned_errors import PlannedErrors
from lrbtl.errors import (
    MarginError,
    NoDecisionError,
    PlanError,
    PlotError,
    PowerError,
    TooLargeError,
    UninformedError,
)
from lrbtl.inference.verdicts import ELO
from lrbtl.methods.targets import resolved_gap

Z = stats.norm.ppf(0.975)


@pytest.fixture(scope="module")
def truth():
    return lrbtl.simulate_scores((8, 3), 2, scale=1.5, rng=0)


@pytest.fixture(scope="module")
def battles(truth):
    return lrbtl.simulate_battles(truth, 6000, rng=1)


def votes_of(plan, battles):
    """Votes by context and pair, (D, d1, d1)."""
    d1 = len(battles.models)
    out = np.zeros((battles.n_contexts, d1, d1))
    for context, a, b, votes in zip(plan.contexts, plan.a, plan.b, plan.votes, strict=True):
        i, j = battles.model_index(a), battles.model_index(b)
        out[battles.context_index(context), i, j] = out[battles.context_index(context), j, i] = votes
    return out


def after_votes(analysis, votes, gradient):
    """Error of a linear target after votes (D, d1, d1), with precision matrices written out."""
    d1, D = analysis.battles.shape[0], analysis.battles.n_contexts
    cov = analysis.estimate([lrbtl.score(a, u) for u in range(D) for a in range(d1)]).cov
    scores = analysis.scores()
    p = 1 / (1 + np.exp(scores[None, :, :] - scores[:, None, :]))
    added = np.zeros_like(cov)
    for u in range(D):
        for a in range(d1):
            for b in range(a):
                x = np.zeros(len(cov))
                x[u * d1 + a], x[u * d1 + b] = 1.0, -1.0
                added += votes[u, a, b] * p[a, b, u] * (1 - p[a, b, u]) * np.outer(x, x)
    value, axes = np.linalg.eigh(cov)
    kept = value > 1e-9 * value.max()
    root = axes[:, kept] * np.sqrt(value[kept])
    inner = np.linalg.inv(np.eye(kept.sum()) + root.T @ added @ root)
    return math.sqrt(gradient @ root @ inner @ root.T @ gradient)


def test_expected_widths_are_those_of_precisions_written_out(battles):
    plan = lrbtl.plan(battles, 500, goal=lrbtl.gap(0, 1, weights="equal"), rank=2)
    gradient = np.tile(np.eye(8)[0] - np.eye(8)[1], 3) / 3
    found = after_votes(lrbtl.analyse(battles, rank=2), votes_of(plan, battles), gradient)
    assert plan.after[0] == pytest.approx(Z * ELO * found, rel=1e-6)


def test_slopes_are_those_of_differences(battles):
    planned = PlannedErrors.of(lrbtl.analyse(battles, rank=2), [resolved_gap(0, 1, np.ones(3) / 3)])
    rng = np.random.default_rng(0)
    votes = rng.uniform(0, 50, planned.information.shape)
    _, slope = planned.slopes(votes, np.ones(1))
    for u, k in ((0, 0), (2, 5), (1, 27)):
        step = np.zeros_like(votes)
        step[u, k] = 0.01
        fall = (planned.errors(votes - step)[0] - planned.errors(votes + step)[0]) / 0.02
        assert slope[u, k] == pytest.approx(fall, rel=1e-4)


@pytest.mark.parametrize("goal", ["gaps", ("top", 2), ("rank", "model_3"), lrbtl.win_rate(2)])
def test_plans_beat_votes_spread_evenly_and_nothing_nearby_is_better(battles, goal):
    plan = lrbtl.plan(battles, 900, goal=goal, rank=2)
    assert plan.votes.sum() == 900 and (plan.votes > 0).all()
    assert plan.mean("after") < min(plan.mean("uniform"), plan.mean("traffic")) < plan.mean("before")
    assert plan.uniform_budget > 900 and plan.traffic_budget > 900
    assert sum(plan.by_context().values()) == 900


def test_plans_do_not_depend_on_rows_sides_and_names(battles):
    cells = battles.cells
    order = np.random.default_rng(3).permutation(cells.n_cells)
    names = np.array([f"m{(5 * k + 3) % 8}" for k in range(8)])
    other = lrbtl.Battles.from_arrays(
        names[cells.b[order]],
        names[cells.a[order]],
        1 - cells.y[order],
        [cells.context[order]],
        counts=cells.count[order],
    )
    plan, same = (
        lrbtl.plan(log, 400, goal=lrbtl.gap(*pair), rank=2)
        for log, pair in ((battles, (0, 1)), (other, (names[0], names[1])))
    )
    assert same.after[0] == pytest.approx(plan.after[0], rel=1e-3)
    assert same.by_context() == pytest.approx(plan.by_context(), abs=3)


def test_the_best_plan_for_one_pair_without_contexts_lets_it_meet():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((5,), 1, scale=1, rng=0), 1500, rng=1)
    plan = lrbtl.plan(battles, 100, goal=lrbtl.gap("model_1", "model_3"))
    assert (plan.contexts[0], plan.a[0], plan.b[0]) == (None, "model_1", "model_3") and plan.votes[0] > 90


def test_costs_and_forbidden_pairs_are_kept(battles):
    plan = lrbtl.plan(battles, 600, goal=lrbtl.gap(0, 1), cost={0: 5.0}, forbid=[("model_0", "model_1")], rank=2)
    assert plan.cost <= 600 < plan.cost + 6 and plan.votes.sum() < 600 + 1
    assert not [pair for pair in zip(plan.a, plan.b, strict=True) if set(pair) == {"model_0", "model_1"}]
    free = lrbtl.plan(battles, 600, goal=lrbtl.gap(0, 1), rank=2)
    assert free.after[0] < plan.after[0]
    dear = lrbtl.plan(battles, 600, goal=lrbtl.gap(0, 1), cost=dict.fromkeys(free.by_context(), 4.0), rank=2)
    assert sum(dear.by_context().get(u, 0) for u in free.by_context()) < 200


@pytest.mark.parametrize(("method", "close"), [("naive", 0.03), ("hierarchical", 0.3)])
def test_expected_widths_are_those_one_then_sees(truth, battles, method, close):
    """Hierarchical errors also depend on what votes say of rank and deviations; benchmarks/plan.py has the mean."""
    plan = lrbtl.plan(battles, 3000, goal=("top", 3), weights="equal", method=method)
    rng = np.random.default_rng(5)
    u = np.array([battles.context_index(context) for context in plan.contexts])
    a, b = (np.array([battles.model_index(model) for model in side]) for side in (plan.a, plan.b))
    won = rng.binomial(plan.votes, 1 / (1 + np.exp(truth[b, u] - truth[a, u])))
    more = lrbtl.Battles.from_arrays(
        [*plan.a, *plan.a], [*plan.b, *plan.b], np.repeat([1, 0], len(a)), [np.tile(u, 2)],
        counts=np.append(won, plan.votes - won),
    )  # fmt: skip
    pairs = [label.split(" - ") for label in plan.targets]
    seen = lrbtl.infer(battles + more, [lrbtl.gap(*pair) for pair in pairs], method=method)
    assert ELO * Z * plan.importance @ seen.se == pytest.approx(plan.mean("after"), rel=close)


def test_a_model_without_votes_can_be_planned_for(battles):
    cells = battles.cells
    wider = lrbtl.Battles.from_arrays(
        cells.a, cells.b, cells.y, [cells.context], n_models=9, n_levels=3, counts=cells.count
    )
    plan = lrbtl.plan(wider, 200, goal=("rank", 8), rank=2)
    assert all("model_8" in pair or 8 in pair for pair in list(zip(plan.a, plan.b, strict=True))[:3])
    assert plan.traffic_budget == math.inf and "any number of votes" in str(plan)
    with pytest.raises(UninformedError, match="hierarchical"), pytest.warns(lrbtl.errors.SeparationWarning):
        lrbtl.plan(wider, 200, method="naive")


def test_gaps_that_ties_alone_tell_are_not_planned_without_a_prior():
    """Pairs that tied once have residuals of zero, and their gap no error in separate fits."""
    battles = lrbtl.Battles.from_arrays([0, 0, 0, 2], [1, 1, 2, 3], [0.0, 0.5, 0.5, 0.5])
    with pytest.raises(UninformedError, match="naive method has no errors"):
        lrbtl.plan(battles, 20, goal="gaps", method="naive")
    assert lrbtl.plan(battles, 20, goal="gaps").votes.sum() == 20


def test_plans_print_and_go_into_frames(battles):
    plan = lrbtl.plan(battles, 400, method="naive")
    assert str(plan).startswith("Plan of 400 votes: the gaps of all pairs") and "by category" in str(plan)
    assert "more" in str(plan) and "<table" in plan._repr_html_()
    assert plan.to_frame("polars").shape == (len(plan.votes), 4)
    assert len(plan.widths()["after"]) == len(plan.targets) == 28
    chances = lrbtl.plan(battles, 400, goal=[lrbtl.win_probability(0, 1), lrbtl.gap(0, 1)], rank=2)
    assert chances.before[0] < 0.5 < chances.before[1] and "2 targets" in str(chances)
    assert " for " in str(lrbtl.plan(battles, 400, cost={1: 2}, method="naive"))


@pytest.mark.parametrize(
    ("n", "options"),
    [
        (0, {}),
        ("many", {}),
        (math.inf, {}),
        (10, {"goal": "best"}),
        (10, {"goal": ("top", 0)}),
        (10, {"goal": ("top", 8)}),
        (10, {"cost": {0: 0}}),
        (10, {"cost": {0: "much"}}),
        (10, {"forbid": ["model_0"]}),
        (10, {"forbid": [(i, j) for i in range(8) for j in range(i)]}),
    ],
)
def test_what_cannot_be_planned_has_a_named_error(battles, n, options):
    with pytest.raises(PlanError):
        lrbtl.plan(battles, n, rank=2, **options)


def test_observed_entries_and_huge_arenas_are_refused(battles):
    seen = lrbtl.Results.from_arrays(([0, 1], [0, 1]), [1.0, 2.0], shape=(3, 3))
    with pytest.raises(PlanError, match="which results have"):
        lrbtl.plan(seen, 10, goal=lrbtl.entry(0, 0))
    large = lrbtl.simulate_battles(lrbtl.simulate_scores((4001,), 1, scale=1, rng=0), 20_000, rng=1)
    for ask in (
        lambda: lrbtl.votes_needed(large, lrbtl.gap(0, 1), half_width=5),
        lambda: lrbtl.plan(large, 10),
    ):
        with pytest.raises(TooLargeError, match="at most 4,000"):
            ask()


# ------------------------------------------------------------------------------
# How many votes.
# ------------------------------------------------------------------------------


def coin(wins, losses):
    return lrbtl.Battles.from_arrays(["x", "x"], ["y", "y"], [1, 0], counts=[wins, losses])


def test_votes_for_a_width_of_two_models_by_hand():
    """One pair: the error of the log odds is 1 / sqrt(n p q), whoever counts."""
    need = lrbtl.votes_needed(coin(55, 45), lrbtl.gap("x", "y"), half_width=20, method="naive")
    by_hand = (Z * ELO / 20) ** 2 / (0.55 * 0.45) - 100
    assert int(need) == pytest.approx(by_hand, rel=0.02) and need.votes == need.uniform
    chance = lrbtl.votes_needed(coin(55, 45), lrbtl.win_probability("x", "y"), half_width=0.02, method="naive")
    assert int(chance) == pytest.approx(0.55 * 0.45 * (Z / 0.02) ** 2 - 100, rel=0.02)
    assert "± 0.098" in str(chance)


def test_votes_to_show_a_gap_or_equivalence_by_hand():
    gap, power = 30 / ELO, stats.norm.ppf(0.8)
    need = lrbtl.votes_needed(coin(55, 45), lrbtl.gap("x", "y"), power=0.8, gap=30, method="naive")
    assert int(need) == pytest.approx(((Z + power) / gap) ** 2 / (0.55 * 0.45) - 100, rel=0.02)
    same = lrbtl.votes_needed(coin(55, 45), lrbtl.gap("x", "y"), power=0.8, margin=30, method="naive")
    z = stats.norm.ppf(0.95) + stats.norm.ppf(0.9)
    assert int(same) == pytest.approx((z / gap) ** 2 / (0.55 * 0.45) - 100, rel=0.02)
    assert "within 30 Elo points" in str(same)


def test_a_goal_that_is_reached_needs_nothing_and_one_out_of_reach_has_no_number():
    assert int(lrbtl.votes_needed(coin(55, 45), lrbtl.gap("x", "y"), half_width=100)) == 0
    never = lrbtl.votes_needed(coin(50, 50), lrbtl.gap("x", "y"), power=0.8, margin=10, gap=10)
    assert never.votes == math.inf and never.to_dict()["votes"] is None and "no number of votes" in str(never)
    with pytest.raises(NoDecisionError):
        int(never)


def test_a_plan_needs_fewest_votes(battles):
    need = lrbtl.votes_needed(battles, lrbtl.gap(0, 1), half_width=12, rank=2)
    assert 0 < need.planned < min(need.votes, need.uniform)
    plan = lrbtl.plan(battles, need.planned, goal=lrbtl.gap(0, 1), rank=2)
    assert plan.after[0] == pytest.approx(12, rel=0.01)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, PowerError),
        ({"half_width": 5, "power": 0.8}, PowerError),
        ({"power": 1.5}, PowerError),
        ({"half_width": 5, "margin": 3}, MarginError),
        ({"half_width": -5}, MarginError),
        ({"power": 0.8, "margin": 0}, MarginError),
    ],
)
def test_votes_needed_for_nonsense_have_a_named_error(options, error):
    with pytest.raises(error):
        lrbtl.votes_needed(coin(55, 45), lrbtl.gap("x", "y"), **options)


def test_the_picture_of_a_plan(battles):
    plan = lrbtl.plan(battles, 400, goal=("top", 2), method="naive")
    ax = lrbtl.plot_plan(plan, top=3)
    assert len(ax.get_yticklabels()) == 3 and "top 2" in ax.get_xlabel()
    for wrong, options in ((battles, {}), (plan, {"top": 1})):
        with pytest.raises(PlotError):
            lrbtl.plot_plan(wrong, **options)


def test_data_frames_are_taken_as_they_are():
    frame = {
        "model_a": ["x", "y", "x"] * 50,
        "model_b": ["y", "z", "z"] * 50,
        "winner": ["model_a", "tie", "model_b"] * 50,
    }
    assert lrbtl.plan(frame, 30).votes.sum() == 30
    assert int(lrbtl.votes_needed(frame, lrbtl.gap("x", "y"), half_width=20)) > 0
