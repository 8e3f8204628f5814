"""Influence values of votes against refits without them."""

import numpy as np
import pytest

import lrbtl
from lrbtl.inference.targets import resolve_targets


@pytest.fixture(scope="module")
def battles():
    return lrbtl.simulate_battles(lrbtl.simulate_scores((6, 3), 1, scale=1, rng=0), 6000, rng=1)


def targets_of(battles):
    asked = [lrbtl.score(0, 0), lrbtl.score(1), lrbtl.gap(2, 3), lrbtl.win_probability(0, 1, 2)]
    return resolve_targets(battles, asked)


@pytest.mark.parametrize(("method", "share"), [("naive", 0.1), ("hierarchical", 0.45)])
def test_votes_that_are_left_out_move_targets_by_their_influence(battles, method, share):
    targets, count = targets_of(battles), battles.cells.count
    run = lrbtl.analyse(battles, method=method).run
    values, influences = run.moments(targets).values, run.influences(targets)
    assert influences.shape == (battles.n_cells, 4)
    se = run.moments(targets).se
    for k in range(len(targets)):  # some of the votes that help a target, from its most helpful cells
        helpful = np.argsort(-influences[:, k])[:4]
        less = count.copy()
        less[helpful] -= count[helpful] // 6
        refit = lrbtl.analyse(battles.with_counts(less), method=method).run.moments(targets).values
        predicted = -influences[helpful, k] @ (count[helpful] // 6)
        assert abs(refit[k] - values[k] - predicted) < share * (abs(predicted) + se[k])


@pytest.mark.parametrize("method", ["naive", "hierarchical"])
def test_their_squares_are_the_noise_of_votes(battles, method):
    targets = targets_of(battles)
    run = lrbtl.analyse(battles, method=method).run
    noise = np.sqrt(np.sum(run.influences(targets) ** 2 * battles.cells.count[:, None], axis=0))
    se = run.moments(targets).se
    assert (noise < 1.02 * se).all()
    if not run.shrinks:
        np.testing.assert_allclose(noise, se, rtol=0.02)


def test_without_contexts_the_default_is_nearly_the_plain_fit(battles):
    """But for the prior of levels."""
    plain, target = battles.pooled(), resolve_targets(battles.pooled(), [lrbtl.gap(0, 1)])
    ours, theirs = (lrbtl.analyse(plain, method=m).run.influences(target) for m in ("hierarchical", "naive"))
    np.testing.assert_allclose(ours, theirs, rtol=0.06, atol=1e-5)


def test_effects_of_a_tie_link_have_influences(battles):
    counts = battles.cells
    y = np.where(np.arange(battles.n_cells) % 3 == 0, 0.5, counts.y)
    tied = lrbtl.Battles.from_arrays(counts.a, counts.b, y, [counts.context], counts=counts.count)
    run = lrbtl.analyse(tied, link="davidson").run
    target = resolve_targets(tied, [lrbtl.win_probability(0, 1, 0)])
    assert np.isfinite(run.influences(target)).all()
