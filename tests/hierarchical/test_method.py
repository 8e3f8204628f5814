"""The hierarchical method as a whole: what does not matter, and what must never fail."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lrbtl
from lrbtl.errors import MethodError, NoDecisionError
from lrbtl.hierarchical.config import HierarchicalConfig
from lrbtl.hierarchical.method import HierarchicalRun, main_rank
from problems import rebuilt, simulated

MODELS = np.array(["ann", "bob", "cat", "dan", "eve", "fay", "gus"])
TASKS = np.array(["code", "law", "math"])
few = settings(max_examples=5)


@st.composite
def votes(draw):
    """Rows of a log: models, outcomes with ties, up to one context mode; thin enough for clean records."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_models, n_tasks = draw(st.integers(2, 7)), draw(st.integers(1, 3))
    n = draw(st.sampled_from([20, 40, 100, 400]))
    a = rng.integers(n_models, size=n)
    b = (a + rng.integers(1, n_models, size=n)) % n_models
    u = rng.integers(n_tasks, size=n)
    skill = rng.normal(size=(n_models, n_tasks)) + rng.normal(size=(n_models, 1))
    y = (rng.random(n) < 1 / (1 + np.exp(skill[b, u] - skill[a, u]))).astype(float)
    y[rng.random(n) < 0.1] = 0.5
    y[0] = 1.0
    return a, b, y, u


def run(log, counts=None, models=MODELS, tasks=TASKS):
    a, b, y, u = log
    battles = lrbtl.Battles.from_arrays(models[a], models[b], y, [tasks[u]], counts=counts)
    return lrbtl.analyse(battles)


def scores_of(analysis):
    """Estimates and errors by name of model and context."""
    est = analysis.estimate(lrbtl.all_scores())
    return dict(zip(est.labels, zip(est.estimate, est.se, strict=True), strict=True))


def assert_agree(one, other, tolerance):
    """Estimates agree to a share of their error, and so do the errors."""
    assert set(one) == set(other)
    for label, (value, error) in one.items():
        assert abs(other[label][0] - value) < tolerance * error and abs(other[label][1] / error - 1) < tolerance


@few
@given(votes(), st.integers(0, 10**6))
def test_sides_and_order_of_rows_do_not_matter(log, seed):
    a, b, y, u = log
    rng = np.random.default_rng(seed)
    swap, order = rng.random(len(a)) < 0.5, rng.permutation(len(a))
    other = np.where(swap, b, a)[order], np.where(swap, a, b)[order], np.where(swap, 1 - y, y)[order], u[order]
    assert_agree(scores_of(run(log)), scores_of(run(other)), 1e-9)


@few
@given(votes(), st.integers(0, 10**6))
def test_counts_are_repetitions(log, seed):
    counts = np.random.default_rng(seed).integers(1, 4, size=len(log[0]))
    repeated = [np.repeat(part, counts) for part in log]
    assert_agree(scores_of(run(log, counts=counts)), scores_of(run(repeated)), 1e-9)


def renamed(scores, names):
    """Scores with other names of models or contexts in their labels."""
    out = {}
    for label, value in scores.items():
        model, task = label[len("score(") : -1].split(", ")
        out[f"score({names.get(model, model)}, {names.get(task, task)})"] = value
    return out


@few
@given(votes(), st.permutations(range(7)))
def test_names_of_models_do_not_matter(log, order):
    names = dict(zip(MODELS[list(order)], MODELS, strict=True))
    found = renamed(scores_of(run(log, models=MODELS[list(order)])), names)
    assert_agree(scores_of(run(log)), found, 1e-9)


@few
@given(votes(), st.permutations(range(3)))
def test_names_of_contexts_do_not_matter(log, order):
    names = dict(zip(TASKS[list(order)], TASKS, strict=True))
    found = renamed(scores_of(run(log, tasks=TASKS[list(order)])), names)
    assert_agree(scores_of(run(log)), found, 1e-9)


@few
@given(votes())
def test_every_model_with_a_vote_has_a_score(log):
    analysis = run(log)
    values, errors = np.array(list(scores_of(analysis).values())).T
    assert np.isfinite(values).all() and (errors > 0).all() and np.isfinite(errors).all()
    gaps = analysis.estimate(lrbtl.all_gaps())
    assert np.isfinite(gaps.estimate).all() and (gaps.se > 0).all()


# ------------------------------------------------------------------------------
# Logs in which something is missing: every model with a vote has a finite score and error in every context.
# ------------------------------------------------------------------------------


def arena(n=4000):
    return simulated((8, 4), 2, n, scale=1.5)[1]


def plus(battles, a, b, y, u, counts):
    """Battles with some more."""
    more = lrbtl.Battles.from_arrays(a, b, y, [u], counts=counts, n_levels=4)
    return battles + more


def without_a_context():
    battles = arena()
    return rebuilt(battles, battles.cells.context != 2)


LOGS = {
    "unbeaten": lambda: plus(arena(), ["top"] * 2, ["model_0", "model_1"], [1, 1], [0, 1], [20, 20]),
    "winless": lambda: plus(arena(), ["low"] * 2, ["model_0", "model_1"], [0, 0], [0, 1], [20, 20]),
    "one vote": lambda: plus(arena(), ["new"], ["model_0"], [1], [3], [1]),
    "one tie": lambda: plus(arena(), ["new"], ["model_0"], [0.5], [3], [1]),
    "newcomer in one category": lambda: plus(arena(), ["new"] * 2, ["model_0"] * 2, [1, 0], [3, 3], [30, 20]),
    "empty context": without_a_context,
    "no contexts": lambda: arena().pooled(),
    "two models": lambda: simulated((2, 3), 1, 200)[1],
    "two models, one way": lambda: lrbtl.Battles.from_arrays(["x"] * 2, ["y"] * 2, [1, 1], [[0, 1]], counts=[5, 3]),
    "one context": lambda: simulated((6, 1), 1, 500)[1],
    "one pair in a context": lambda: rebuilt(
        arena(), (arena().cells.context != 1) | ((arena().cells.a == 0) & (arena().cells.b == 1))
    ),
    "every one its own opponents": lambda: lrbtl.Battles.from_arrays(
        [0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 0, 1, 1, 0], [[0, 0, 1, 1, 1]], counts=[9, 8, 7, 6, 5]
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_nothing_is_infinite_or_refused(name):
    battles = LOGS[name]()
    analysis = lrbtl.analyse(battles)
    for family in (lrbtl.all_scores(), lrbtl.all_gaps()):
        est = analysis.estimate(family)
        assert np.isfinite(est.estimate).all() and np.isfinite(est.se).all() and (est.se > 0).all()
    boards = lrbtl.leaderboard(battles, context="all") if battles.levels else lrbtl.leaderboard(battles)
    for board in boards.every() if battles.levels else [boards]:
        assert (
            np.isfinite(board.score).all() and (board.lower < board.score).all() and (board.score < board.upper).all()
        )
        assert set(board.status) <= {"ranked", "preliminary", "absent"}


def test_an_unbeaten_model_never_heads_a_board():
    """But for models that it beat often: two models of 20 wins each over average ones are not the best."""
    rng = np.random.default_rng(0)
    truth = np.linspace(-1.5, 1.5, 8)[:, None] + 0.3 * rng.normal(size=(8, 4))
    log = lrbtl.simulate_battles(truth - truth.mean(axis=0), 8000, rng=1)
    weak = log.models[0], log.models[1]
    more = plus(log, ["top"] * 2, weak, [1, 1], [0, 1], [2, 2])
    for context in (None, 0, 1, 3):
        board = lrbtl.leaderboard(more, context=context, min_battles=1)
        assert board.models[0] != "top" and board.score[board.models.index("top")] < board.score.max()
    low = plus(log, ["low"] * 2, [log.models[-1], log.models[-2]], [0, 0], [0, 1], [2, 2])
    assert lrbtl.leaderboard(low, min_battles=1).models[-1] != "low"


def test_a_model_that_beats_all_others_leads():
    battles = arena()
    every = list(battles.models)
    more = plus(battles, ["top"] * 8, every, [1] * 8, [0] * 8, [20] * 8)
    assert lrbtl.leaderboard(more, context=0).models[0] == "top"


def test_one_vote_in_a_category_of_its_own_sends_no_score_far_out():
    """The linear estimate that the search begins with puts that category's scores 70 logits apart."""
    battles = lrbtl.Battles.from_arrays([0, 1], [1, 2], [0.2, 0.7], [[0, 1]], counts=[1, 100])
    board = lrbtl.leaderboard(battles)
    assert board.models[:2] == (1, 2) and np.all(np.abs(board.score - 1000) < 500)
    assert abs(board.score[0] - 1000 - 200 * np.log10(7 / 3)) < 5


def test_an_exception_that_runs_to_infinity_is_not_followed():
    """A model that lost all of 100 votes is an outlier of 2,000 logits by one step."""
    battles = lrbtl.Battles.from_arrays([0, 0], [2, 1], [1, 0.5], [[1, 4]], counts=[100, 100], n_levels=5)
    board = lrbtl.leaderboard(battles)
    assert board.models[2] == 2 and np.all(np.abs(board.score - 1000) < 1500)
    assert np.all(board.lower[:2] < board.score[:2].mean()) and np.all(board.score[:2].mean() < board.upper[:2])


def test_rock_paper_scissors_is_not_certain():
    a, b = ["x", "y", "z"], ["y", "z", "x"]
    for contexts in ([], [["u", "u", "u"]]):
        battles = lrbtl.Battles.from_arrays(a, b, [1, 1, 1], contexts, counts=[10] * 3)
        est = lrbtl.infer(battles, lrbtl.all_gaps())
        np.testing.assert_allclose(est.estimate, 0.0, atol=1e-3)
        assert ((est.se > 0.2) & (est.se < 1.0)).all()


def test_only_ties_tell_nothing():
    battles = lrbtl.Battles.from_arrays([0, 1], [1, 2], [0.5, 0.5])
    with pytest.raises(NoDecisionError, match="every battle is a tie"):
        lrbtl.analyse(battles)


def test_observed_entries_have_another_default():
    truth = lrbtl.simulate_scores((9, 7), 2, scale=2.0, rng=0)
    data = lrbtl.simulate_observations(truth, 3_000, link="identity", rng=1)
    with pytest.raises(MethodError, match="efficient"):
        lrbtl.analyse(data, rank=2, method="hierarchical")
    assert lrbtl.analyse(data).method == "factor"


@pytest.mark.parametrize("rank", [2, "auto"])
@pytest.mark.parametrize("outcome", [1.0, 0.5, 0.0])
def test_one_vote_of_a_newcomer_hardly_widens_other_intervals(rank, outcome):
    battles = simulated((12, 4), 2, 20_000, scale=2.0)[1]
    more = plus(battles, ["new"], [battles.models[0]], [outcome], [0], [1])
    for context in (None, 0, 3):
        before, after = (lrbtl.leaderboard(log, rank=rank, context=context) for log in (battles, more))
        width = {board: dict(zip(board.models, board.se, strict=True)) for board in (before, after)}
        assert max(width[after][model] / width[before][model] for model in before.models) < 1.05
        assert dict(zip(after.models, after.status, strict=True))["new"] in ("preliminary", "absent")


@pytest.mark.parametrize("shape", [(6,), (6, 4), (6, 3, 2), (5, 2, 3, 2)], ids=lambda shape: f"order{len(shape)}")
@pytest.mark.parametrize("link", ["logistic", "probit", "davidson", "rao-kupper"])
def test_orders_and_links(shape, link):
    """Scores are near the truth, boards and targets agree, families are their targets one by one."""
    truth = lrbtl.simulate_scores(shape, 1, scale=1.0, rng=0)
    battles = lrbtl.simulate_battles(truth, 6000, rng=1)
    tied = lrbtl.simulate_battles(truth, 500, rng=2)
    battles = battles + rebuilt(tied, y=np.full(tied.n_cells, 0.5))
    analysis = lrbtl.analyse(battles, link=link)
    est = analysis.estimate(lrbtl.all_scores())
    assert np.corrcoef(est.estimate, truth.reshape(-1))[0, 1] > 0.9 and (est.se > 0).all()
    D = battles.n_contexts
    context = None if len(shape) == 1 else battles.context_label(D - 1)
    listed = analysis.estimate([lrbtl.score(model, context) for model in battles.models])
    np.testing.assert_allclose(est.estimate[D - 1 :: D], listed.estimate, atol=1e-9)
    rough = 2e-3 if link in ("davidson", "rao-kupper") else 1e-6  # contexts leave out what ties tell of deviations
    np.testing.assert_allclose(est.se[D - 1 :: D], listed.se, rtol=rough)
    board = analysis.estimate_boards(np.eye(D)[-1:])[0]
    np.testing.assert_allclose(board.se, listed.se, rtol=rough)
    np.testing.assert_allclose(board.cov, listed.cov, atol=rough * listed.cov.max())


def test_families_of_gaps_are_their_targets():
    battles = LOGS["newcomer in one category"]()
    analysis = lrbtl.analyse(battles)
    est = analysis.estimate(lrbtl.all_gaps())
    for label, target in ((f"gap(model_0, new, {u})", lrbtl.gap("model_0", "new", u)) for u in range(4)):
        one = analysis.estimate(target)
        assert one.estimate[0] == pytest.approx(est[label].estimate[0], abs=1e-9)
        assert one.se[0] == pytest.approx(est[label].se[0], rel=1e-6)


def test_coverage_of_scores_that_are_only_nearly_of_low_rank():
    inside = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = lrbtl.simulate_scores((20, 6), 2, scale=2.0, rng=seed) + 0.25 * rng.normal(size=(20, 6))
        truth -= truth.mean(axis=0)
        est = lrbtl.infer(lrbtl.simulate_battles(truth, 20_000, rng=seed), lrbtl.all_scores())
        inside.append(np.abs(est.estimate - truth.reshape(-1)) < 1.96 * est.se)
    assert 0.9 < np.mean(inside) < 0.99


def test_a_specialist_is_named():
    truth = lrbtl.simulate_scores((20, 6), 1, scale=1.5, rng=2)
    truth[7, 2] += 2.0
    found = lrbtl.analyse(lrbtl.simulate_battles(truth - truth.mean(axis=0), 30_000, rng=3)).run
    assert isinstance(found, HierarchicalRun)
    probability = found.outlier_probability.dense()
    assert probability.argmax() == 7 * 6 + 2 and 0 < found.tau < 0.3
    assert found.nodes[0].outliers.probability[2 * 20 + 7] > 0.9
    assert probability[7, 2] > 0.9 and np.delete(probability.reshape(-1), 7 * 6 + 2).max() < 0.5


def test_matched_pairs_do_not_shrink_the_ladder():
    """Models that meet their neighbours only, by a level that deviations are part of."""
    slopes = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=(24, 1)) @ rng.normal(size=(1, 6)) + 0.4 * rng.normal(size=(24, 6))
        truth -= truth.mean(axis=0)
        level = truth.mean(axis=1)
        place, (a, b) = np.argsort(np.argsort(level)), np.triu_indices(24, 1)
        near = np.abs(place[a] - place[b]) <= 3
        a, b = np.tile(a[near], 6), np.tile(b[near], 6)
        u = np.repeat(np.arange(6), near.sum())
        won = rng.binomial(40, 1 / (1 + np.exp(truth[b, u] - truth[a, u])))
        y, counts = np.repeat([1.0, 0.0], len(a)), np.append(won, 40 - won)
        log = lrbtl.Battles.from_arrays(np.tile(a, 2), np.tile(b, 2), y, [np.tile(u, 2)], counts=counts, n_models=24)
        found = lrbtl.analyse(log, rank=1).scores().mean(axis=1)
        slopes.append(found @ level / (level @ level))
    assert np.mean(slopes) > 0.85


@pytest.mark.parametrize("contexts", [(), 3])
def test_two_models_have_the_errors_of_their_votes(contexts):
    """A prior that the votes themselves make must hardly shorten the only gap there is."""
    truth = lrbtl.simulate_scores((2, 3) if contexts else (2,), 1, scale=0.2, rng=0)
    battles = lrbtl.simulate_battles(truth, 900, rng=1)
    ours, plain = (lrbtl.infer(battles, lrbtl.gap(0, 1), method=method) for method in ("hierarchical", "naive"))
    assert ours.se[0] == pytest.approx(plain.se[0], rel=0.05)


@pytest.mark.parametrize("n", [1, 3, 100])
def test_votes_that_one_model_won_all_leave_scores_that_can_be_printed(n):
    """The size of all scores has a weak prior: 3 votes had a gap of 4.5 ± 5.9 logits, and 1 vote one of 4 ± 11."""
    est = lrbtl.infer(lrbtl.Battles.from_arrays([0], [1], [1.0], counts=[n]), lrbtl.gap(0, 1))
    assert 1.0 < est.estimate[0] < 7.0 and 1.0 < est.se[0] < 5.0
    lower = np.log(0.025 ** (1 / n) / (1 - 0.025 ** (1 / n)))  # that of Clopper and Pearson
    assert est.conf_int()[0, 0] < lower + 0.4


def test_a_single_win_between_two_models_says_little_of_its_category():
    """Their gap there is about that of the other categories, and the mean over categories is not spoilt."""
    won, lost = [30, 2, 1], [1, 1, 0]
    y, counts = np.repeat([1.0, 0.0], 3)[:5], (won + lost)[:5]
    battles = lrbtl.Battles.from_arrays([0] * 5, [1] * 5, y, [[0, 1, 2, 0, 1]], counts=counts)
    est = lrbtl.infer(battles, [lrbtl.gap(0, 1, k) for k in range(3)] + [lrbtl.gap(0, 1)])
    assert 0.5 < est.se[0] < 1.1 * np.sqrt(1 / 30 + 1)
    assert abs(est.estimate[2] - est.estimate[0]) < 1.0 and 0.7 < est.se[2] < 4.0 and est.se[3] < 2.0


def test_boards_name_the_rank_of_most_weight():
    """Ranks are averaged over, growing: the first of them is not the one that matters most."""
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((12, 6), 2, scale=2, rng=0), 20_000, rng=1)
    run = lrbtl.analyse(battles).run
    assert isinstance(run, HierarchicalRun) and run.provenance.rank == main_rank(run.nodes, battles.shape)
    small, other = replace(run.nodes[0], weight=0.4), replace(run.nodes[0], weight=0.3, rank=(5, 5))
    assert main_rank([small, other, other], (12, 6))[0] >= 5


def test_models_of_one_category_are_not_scattered_over_the_others():
    """Their votes tell one direction of their skills; along the others they are like the population.

    On football by tournament, a team of 113 votes in one kind of tournament had headed the overall board at
    1,973 ± 2,292 Elo points: the prior of each component went down with that component's own information, as if votes
    told the components apart.
    """
    rng = np.random.default_rng(1003)
    n_main, n_local, D = 80, 10, 5
    truth = rng.normal(size=(n_main + n_local, 2)) @ np.stack([np.full(D, 1.2), rng.normal(0, 0.5, D)])
    a, x, p = rng.integers(n_main, size=8000), rng.integers(n_local, size=600), rng.integers(n_local, size=40)
    b = (a + 1 + rng.integers(n_main - 1, size=8000)) % n_main
    y = (x + 1 + rng.integers(n_local - 1, size=600)) % n_local
    first = np.concatenate([a, n_main + x, n_main + p])
    second = np.concatenate([b, n_main + y, rng.integers(n_main, size=40)])
    context = np.concatenate([rng.integers(D, size=8000), np.full(640, D - 1)])
    won = rng.random(len(first)) < 1 / (1 + np.exp(truth[second, context] - truth[first, context]))
    board = lrbtl.leaderboard(lrbtl.Battles.from_arrays(first, second, won.astype(float), [context]), scale="logit")
    assert (board.upper - board.lower)[np.array(board.models) >= n_main].max() < 4.0


def test_scores_do_not_run_away_where_votes_tell_nothing_more():
    """Two models and soft votes of nearly zero: the prior follows the scores, which grew by a tenth with every step."""
    cells = [(0, 0, 0.0, 2), (0, 0, 1e-9, 100), (0, 1, 0.0, 1), (1, 0, 1.0, 1), (1, 1, 0.0, 3)]
    task, language, y, counts = zip(*cells, strict=True)
    battles = lrbtl.Battles.from_arrays([0] * 5, [1] * 5, y, [task, language], counts=counts)
    board = lrbtl.leaderboard(battles, scale="logit", min_battles=1)
    assert np.abs(board.score).max() < 20.0


@pytest.mark.parametrize("n", [50, 450])
def test_even_votes_have_errors_of_votes_or_a_little_less(n):
    """A spread of levels that may be nothing shrinks a gap of nothing."""
    est = lrbtl.infer(lrbtl.Battles.from_arrays([0, 0], [1, 1], [1.0, 0.0], counts=[n, n]), lrbtl.gap(0, 1))
    assert abs(est.estimate[0]) < 1e-9 and 0.85 * np.sqrt(2 / n) < est.se[0] <= np.sqrt(2 / n)


@pytest.mark.parametrize("seed", range(3))
def test_thin_logs_predict_better_than_a_coin(seed):
    """60 models of 300 votes: fresh votes by posterior means of win probabilities."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=60)
    battles = lrbtl.simulate_battles(truth - truth.mean(), 300, rng=seed)
    scores = lrbtl.analyse(battles).scores()[:, 0]
    a, b = rng.integers(60, size=(2, 20_000))
    a, b = a[a != b], b[a != b]
    p, q = (1 / (1 + np.exp(x[b] - x[a])) for x in (truth, scores))
    loss = -np.mean(p * np.log(q) + (1 - p) * np.log(1 - q))
    assert loss < np.log(2) - 0.02
    assert np.sqrt(np.mean((scores - truth + truth.mean()) ** 2)) < 0.8


def test_win_probabilities_are_means_over_the_posterior():
    """Against Monte Carlo draws of the gap, and nearer to one half than the probability at the mean."""
    truth = np.random.default_rng(0).normal(size=8)
    battles = lrbtl.simulate_battles(truth - truth.mean(), 60, rng=1)
    analysis = lrbtl.analyse(battles)
    gap = analysis.estimate(lrbtl.gap(battles.models[0], battles.models[-1]))
    moments = analysis.run.vote_moments
    est = analysis.estimate(lrbtl.win_probability(battles.models[0], battles.models[-1]))
    drawn = gap.estimate[0] + gap.se[0] * np.random.default_rng(2).normal(size=400_000)
    assert est.estimate[0] == pytest.approx(np.mean(1 / (1 + np.exp(-drawn))), abs=0.003) and moments is not None
    assert abs(est.estimate[0] - 0.5) < abs(1 / (1 + np.exp(-gap.estimate[0])) - 0.5)


def test_without_design_covariates_pairings_tell_nothing():
    """Neighbours on a ladder: with them levels are spread out, without they are drawn together."""
    rng, place = np.random.default_rng(3), np.arange(30)
    truth = np.linspace(-4.0, 4.0, 30)
    a = rng.integers(29, size=1500)
    b = np.clip(a + rng.integers(1, 3, size=1500), 0, 29)
    y = (rng.random(1500) < 1 / (1 + np.exp(truth[b] - truth[a]))).astype(float)
    battles = lrbtl.Battles.from_arrays(a, b, y, models=place.tolist())
    slopes, informed = [], []
    for wanted in (True, False):
        run = lrbtl.analyse(battles, config=HierarchicalConfig(design_covariates=wanted)).run
        assert isinstance(run, HierarchicalRun)
        slopes.append(run.scores()[:, 0] @ truth / (truth @ truth))
        informed.append(run.nodes[0].mode.at.hyper.level.covariates.informed)
    assert informed[0][0] > 0.5 and informed[1] == (0.0, 0.0)
    assert slopes[1] < 0.3 < slopes[0] < 1.6


def test_boards_have_the_covariance_of_their_targets():
    """Averaged over components, with what lies between them and what outliers add."""
    truth = np.array(lrbtl.simulate_scores((6, 3), 1, scale=1.0, rng=0))
    battles = lrbtl.simulate_battles(truth, 400, rng=1)
    run = lrbtl.analyse(battles).run
    assert isinstance(run, HierarchicalRun)
    weights = np.array([0.5, 0.3, 0.2])
    targets = weights[None, :, None] * (np.eye(6) - 1 / 6)[:, None, :]
    flat, mean = targets.reshape(6, -1), run.scores()
    expected = np.zeros((6, 6))
    for node in run.nodes:
        away = flat @ (node.scores.dense() - mean).T.reshape(-1)
        expected += node.weight * (node.covariance.covariance(targets, np.arange(3)) + np.outer(away, away))
        variance = np.zeros((3, 6))
        variance[node.mode.scores.design.slot_places] = node.outliers.variance
        expected += node.weight * flat @ np.diag(variance.reshape(-1)) @ flat.T
    found = run.score_moments(weights[None])[0].cov
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


def test_newcomers_are_like_the_others():
    """One vote tells little: the score is near the middle, with an error of the spread of models."""
    truth = np.random.default_rng(0).normal(size=12)
    battles = lrbtl.simulate_battles(truth - truth.mean(), 20_000, rng=1)
    more = battles + lrbtl.Battles.from_arrays(["new"], [battles.models[0]], [1.0], counts=[1])
    est = lrbtl.analyse(more).estimate(lrbtl.score("new"))
    assert abs(est.estimate[0]) < 1.0 and 0.4 < est.se[0] < 1.5
