"""What entries share: sizes by their marginal likelihood, written out densely, and what follows on boards."""

from dataclasses import replace

import numpy as np
import pytest

import lrbtl
from hierarchy_twin import Twin, entries, joint_gradient, joint_precision, mode_of, written_out
from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.low_rank import make_design
from lrbtl.hierarchical.covariance import ScoreCovariance
from lrbtl.hierarchical.method import HierarchicalRun
from lrbtl.hierarchical.mode import find_mode
from lrbtl.hierarchical.random_effects import (
    GRID,
    MOST_COLUMNS,
    TAGS,
    ColumnInformation,
    RandomEffectDesign,
    RandomEffects,
    few_columns,
    label_parts,
    shared_tags,
)
from problems import simulated


def judged(bias=1.0, n=(600, 6000), seed=0):
    """Votes of people and of a machine that puts three of ten models lower, in three categories."""
    rng = np.random.default_rng(seed)
    people = rng.normal(0, 0.6, (10, 1)) + rng.normal(0, 0.15, (10, 3))
    machine = people - bias * (np.arange(10) < 3)[:, None]
    scores, judge = np.stack([people, machine]), np.repeat([0, 1], n)
    a, u = rng.integers(10, size=judge.size), rng.integers(3, size=judge.size)
    b = (a + rng.integers(1, 10, size=judge.size)) % 10
    y = rng.random(judge.size) < 1 / (1 + np.exp(scores[judge, b, u] - scores[judge, a, u]))
    log = {"model_a": a, "model_b": b, "winner": y.astype(float), "task": u, "judge": judge}
    return lrbtl.Battles.from_frame(log, contexts=["task", "judge"]), people


def columns_of(shape):
    design = make_design(simulated(shape, 1, 50 * shape[0])[1], "logistic")
    return RandomEffectDesign.of(BlockDesign.of_cells(design))


def test_a_column_for_every_model_at_every_level_of_a_mode():
    found = columns_of((4, 3, 2))
    assert found.modes == [0, 1] and len(found.mode) == 4 * (2 + 3)
    for mode, size in enumerate((3, 2)):
        own = written_out(found)[:, :, found.mode == mode].reshape(3, 2, 4, size, 4)
        for u in np.ndindex(3, 2):
            for model in range(4):
                expected = np.zeros((size, 4))
                expected[u[mode], model] = 1.0
                np.testing.assert_array_equal(own[(*u, model)], expected)


@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 3, 1)])
def test_one_mode_alone_has_nothing_to_share(shape):
    found = columns_of(shape)
    assert found.modes == [] and len(found.mode) == 0


def test_modes_with_too_many_columns_are_left_out():
    found = columns_of((40, 2, 20))
    assert MOST_COLUMNS < 40 * 20 and found.modes == [0]


def test_modes_that_are_left_out_say_how_many_levels_would_fit():
    design = BlockDesign.of_cells(make_design(simulated((40, 2, 20), 1, 2000)[1], "logistic"))
    found = RandomEffectDesign.of(design)
    ((mode, most),) = found.left_out(design)
    assert mode == 1 and few_columns(40 * (2 + most), 40, 40 * most // 20)
    assert not few_columns(40 * (2 + most + 1), 40, 40 * (most + 1) // 20)
    assert RandomEffectDesign.of(design_of_judges()).left_out(design_of_judges()) == []


def test_modes_of_very_many_models_are_not_left_out_silently():
    """No two levels would fit: 330 models at two labels have 660 columns."""
    design = BlockDesign.of_cells(make_design(simulated((330, 2, 3), 1, 5000)[1], "logistic"))
    assert RandomEffectDesign.of(design).left_out(design) == [(0, 1), (1, 1)]


def design_of_judges():
    return BlockDesign.of_cells(make_design(judged(n=(100, 100))[0], "logistic"))


@pytest.fixture(scope="module", params=[0, 1])
def terms(request):
    """Terms round a mode whose scores hold some of them already, with their coefficients."""
    mode = mode_of(judged(n=(300, 600))[0], request.param, 0.2)
    columns = RandomEffectDesign.of(mode.scores.design)
    held = 0.1 * np.random.default_rng(1).normal(size=len(columns.mode))
    scores = replace(mode.scores, shared=columns.times(held[:, None])[:, :, 0].T)
    return RandomEffects(ColumnInformation(find_mode(mode.at.around(scores)).at, columns), (0.3, 0.2)), held


def dense_evidence(found, held):
    """Of the sizes, up to a constant: the joint normal integral over (coordinates, E, F) round the expansion."""
    twin = Twin.of(found.at)
    precision, _, sd = joint_precision(twin, found)
    right = joint_gradient(twin, found)
    right[-len(sd) :] -= held / sd**2
    fit = 0.5 * right @ np.linalg.solve(precision, right) - 0.5 * np.sum((held / sd) ** 2)
    return fit - 0.5 * np.linalg.slogdet(precision)[1] - np.log(sd).sum()


def test_what_coordinates_leave_of_effects(terms):
    """P Z F with P = W - W J A^-1 J^T W, by dense matrices."""
    found, held = terms
    at, place = found.at, entries(found.at.scores.design)
    twin, size = Twin.of(at), at.scores.space.size
    H = twin.H[np.ix_(place, place)]
    W = np.linalg.inv(np.eye(len(H)) + at.tau**2 * H) @ H
    Q, J = twin.precision, twin.J[place]
    A = Q[:size, :size] - Q[:size, size:] @ np.linalg.solve(Q[size:, size:], Q[size:, :size])
    PZ = (W - W @ J @ np.linalg.solve(A, J.T @ W)) @ written_out(found.columns)[at.scores.design.slot_places]
    np.testing.assert_allclose(found.left_by_step - at.left_by_step, PZ @ held, rtol=1e-5, atol=1e-6)
    sd = np.array(found.sizes)[found.columns.mode]
    np.testing.assert_allclose(found.variance_left, (PZ**2) @ sd**2, rtol=1e-5, atol=1e-6)
    drawn = np.linalg.lstsq(PZ * sd, found.random_left(8, 40), rcond=None)[0]
    np.testing.assert_allclose((PZ * sd) @ drawn, found.random_left(8, 40), atol=1e-6)
    assert np.mean(found.random_left(8, 40) ** 2) == pytest.approx(np.mean(found.variance_left), rel=0.4)


def crossed(size, factor, seed):
    """Votes of 20 models in 6 x 4 contexts: effects of the first mode, independent or a model's times a label's."""
    rng = np.random.default_rng(seed)
    shape = ((20, 1, 1), (1, 6, 1)) if factor else ((20, 6, 1), (1, 1, 1))
    effects = size * rng.normal(size=shape[0]) * rng.normal(size=shape[1]) ** factor
    truth = rng.normal(size=(20, 1, 1)) + effects + 0.1 * rng.normal(size=(20, 6, 4))
    return lrbtl.simulate_battles(truth - truth.mean(axis=0), 8_000, rng=rng)


def test_independent_effects_are_no_factors_and_a_factor_is_no_independent_effects():
    """The number of factors is judged beside effects: both make a model's scores differ by label."""

    def weight(factor, seed):
        run = lrbtl.analyse(crossed(0.6, factor, seed)).run
        assert isinstance(run, HierarchicalRun)
        return sum(node.weight for node in run.nodes if node.rank[0] > 0)

    assert np.mean([weight(0, seed) for seed in range(4)]) < 0.2 < 0.8 < np.mean([weight(1, seed) for seed in range(4)])


def test_the_evidence_of_sizes_is_the_dense_integral(terms):
    found, held = terms
    others = [replace(found, sizes=sizes) for sizes in ((0.05, 0.2), (0.3, 0.6))]
    for other in others:
        expected = dense_evidence(other, held) - dense_evidence(found, held)
        assert other.log_evidence - found.log_evidence == pytest.approx(expected, abs=1e-6)


def test_sizes_are_their_mean_squares_under_the_votes(terms):
    """Under a prior a tenth of which is at zero and the rest flat up to the largest, each given the other."""
    found = terms[0].sized(1.0, 0.1)
    grid = np.linspace(0.0, 1.0, GRID)
    for i in range(2):
        tries = [tuple(size if k == i else found.sizes[k] for k in range(2)) for size in np.maximum(grid, 1e-9)]
        log_evidence = np.array([replace(found, sizes=sizes).log_evidence for sizes in tries])
        weight = np.exp(log_evidence - log_evidence.max()) * np.append(GRID / 9, np.ones(GRID - 1))
        assert found.sizes[i] == pytest.approx(np.sqrt(weight @ grid**2 / weight.sum()), rel=0.05)
        mean = np.log(weight.sum() / (GRID / 9 + GRID - 1)) + log_evidence.max()
        plain = replace(found, averaged=())
        assert found.averaged[i] == pytest.approx(mean - sum(found.averaged) - plain.log_evidence, abs=0.05)
    assert found.log_evidence == pytest.approx(plain.log_evidence + sum(found.averaged))


def test_a_bias_of_the_machine_stays_off_the_human_board():
    """It is the same in all categories: single entries are hardly off, and people's own votes are believed."""
    inside = []
    for seed in range(4):
        battles, people = judged(seed=seed)
        board = lrbtl.leaderboard(battles, context={"judge": 0}, rank=1)
        run = board.basis.analysis.run
        assert isinstance(run, HierarchicalRun)
        assert all(isinstance(node.covariance, ScoreCovariance) for node in run.nodes)
        sizes = [node.covariance.random_effects.sizes[1] for node in run.nodes]
        assert min(sizes) > 0.1
        truth = people @ board.basis.weights.reshape(3, 2)[:, 0]
        truth = 1000 + 400 / np.log(10) * (truth - truth.mean())[list(board.models)]
        inside.append((board.lower < truth) & (truth < board.upper))
    assert np.mean(inside) > 0.85


# ------------------------------------------------------------------------------
# Tags: levels of which a context may have several.
# ------------------------------------------------------------------------------

SETS = [["x"], ["y"], ["z"], ["x", "y"], ["x", "z"], ["y", "z"], ["x", "y", "z"], []]


def tagged(n=6000, seed=0):
    """A log in which models gain by each tag, the scores of each set, and the set of each vote."""
    rng = np.random.default_rng(seed)
    gain = {tag: 0.7 * rng.normal(size=10) for tag in "xyz"}
    base, which = rng.normal(size=10), rng.integers(0, len(SETS), n)
    scores = np.stack([base + sum((gain[tag] for tag in one), np.zeros(10)) for one in SETS])
    a = rng.integers(0, 10, n)
    b = (a + rng.integers(1, 10, n)) % 10
    won = (rng.random(n) < 1 / (1 + np.exp(scores[which, b] - scores[which, a]))).astype(float)
    log = {"model_a": a, "model_b": b, "winner": won, "tags": [SETS[k] for k in which]}
    return {**log, "voter": rng.integers(0, 300, n)}, scores - scores.mean(axis=1, keepdims=True), which


def test_a_column_for_every_model_and_tag_in_all_sets_with_it():
    tags = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    design = BlockDesign.of_cells(make_design(simulated((4, 3), 1, 200)[1], "logistic"))
    found = RandomEffectDesign.of(design, tags)
    assert found.modes == [TAGS] and len(found.mode) == 4 * 2
    own = written_out(found)[:, :, found.mode == TAGS].reshape(3, 4, 2, 4)
    np.testing.assert_array_equal(own, np.einsum("ut,ab->uatb", tags, np.eye(4)))
    Z, rng, (context, model) = written_out(found), np.random.default_rng(0), design.slot_places
    factors, weights, values = rng.normal(size=(8, 2)), rng.random(3), rng.normal(size=(design.n_slots, 2))
    for made, expected in (
        (found.times(factors, np.array([2, 1])), (Z @ factors)[[2, 1]]),
        (found.times_on_slots(factors, design.slot_places), (Z @ factors)[context, model]),
        (found.means(factors), (Z @ factors).mean(axis=1)),
        (found.means(factors, weights), np.tensordot(weights, Z @ factors, 1)),
        (found.against(values, design.slot_places), Z[context, model].T @ values),
    ):
        np.testing.assert_allclose(made, expected, atol=1e-12)


def test_tags_may_have_more_columns_than_modes_until_they_are_too_many():
    design = BlockDesign.of_cells(make_design(simulated((50, 300), 1, 400)[1], "logistic"))
    for n, fits in ((11, True), (13, False)):
        assert not few_columns(50 * n, 50, 300)
        assert (RandomEffectDesign.of(design, np.ones((300, n))).modes == [TAGS]) is fits


def test_gains_by_a_tag_are_not_drawn_towards_other_sets():
    log, scores, which = tagged()
    battles, away = lrbtl.Battles.from_frame(log, tags="tags"), []
    for tag in "xyz":
        board = lrbtl.leaderboard(battles, context=tag, scale="logit")
        weight = np.array([np.mean(which == k) if tag in one else 0.0 for k, one in enumerate(SETS)])
        truth = weight @ scores / weight.sum()
        away.append((board.score - truth[list(board.models)]) / board.se)
    assert np.sqrt(np.mean(np.square(away))) < 1.3


def test_boards_of_tags_and_targets_say_the_same():
    battles = lrbtl.Battles.from_frame(tagged(2500)[0], tags="tags", cluster="voter")
    for context in ("x", "{x, y}"):
        board = lrbtl.leaderboard(battles, context=context, scale="logit")
        found = lrbtl.infer(battles, [lrbtl.score(model, context) for model in board.models])
        np.testing.assert_allclose(board.score, found.estimate, atol=1e-9)
        np.testing.assert_allclose(board.se, found.se, rtol=1e-6)


def test_sets_of_tags_that_are_too_many_are_said_to_be(monkeypatch):
    monkeypatch.setattr("lrbtl.hierarchical.random_effects.MOST_COLUMNS", 20)
    board = lrbtl.leaderboard(lrbtl.Battles.from_frame(tagged(1200)[0], tags="tags"), context="x")
    assert any("too many sets of tags" in note for note in board.info.notes)


def test_tags_that_several_sets_share():
    battles = lrbtl.Battles.from_frame(tagged(1200)[0], tags="tags")
    tags = shared_tags(battles)
    assert tags is not None and tags.shape == (8, 3) and tags.sum() == 12  # of each tag four sets
    assert shared_tags(judged(n=(50, 50))[0]) is None
    (common,) = label_parts(battles, tags)
    np.testing.assert_array_equal(common, tags @ tags.T)


def test_labels_that_contexts_have_in_common():
    battles = judged(n=(200, 200))[0]
    task, judge = label_parts(battles, None)
    u = np.indices((3, 2)).reshape(2, -1)
    np.testing.assert_array_equal(task, u[0] == u[0][:, None])
    np.testing.assert_array_equal(judge, u[1] == u[1][:, None])
    assert label_parts(battles.pooled(), None) == []
