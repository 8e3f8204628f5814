"""Covariances of scores against the dense inverse of the joint precision, centred."""

from dataclasses import replace

import numpy as np
import pytest

import lrbtl
from hierarchy_twin import Twin, absent_somewhere, at_context, entries, joint_gradient, joint_precision, mode_of
from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.entries import EntryIndex
from lrbtl.fitting.low_rank import make_design
from lrbtl.hierarchical.covariance import LEVERAGE_FLOOR, ScoreCovariance, residual_factors
from lrbtl.hierarchical.random_effects import ColumnInformation, RandomEffectDesign, RandomEffects
from lrbtl.methods.standard_errors import centred
from problems import battle_matrix, rebuilt, simulated

CASES = {
    "plain": ((6,), 0, 0.0, "logistic"),
    "levels": ((8, 4), 0, 0.3, "logistic"),
    "matrix": ((8, 4), 2, 0.3, "logistic"),
    "no deviations": ((8, 4), 1, 0.0, "logistic"),
    "absent": ((8, 4), 1, 0.3, "logistic"),
    "absent, levels": ((8, 4), 0, 0.3, "logistic"),
    "thin": ((10, 12), 1, 0.3, "logistic"),
    "tensor": ((6, 3, 3), 2, 0.2, "logistic"),
    "shared": ((6, 3, 2), 1, 0.2, "logistic"),
    "shared, levels": ((6, 3, 2), 0, 0.2, "logistic"),
    "shared, davidson": ((6, 2, 2), 1, 0.2, "davidson"),
    "davidson": ((7, 4), 2, 0.3, "davidson"),
    "davidson, absent": ((8, 4), 1, 0.3, "davidson"),
    "spread": ((8, 4), 1, 0.3, "logistic"),
}
each = pytest.mark.parametrize("name", CASES)
_MADE = {}


def made(name):
    """A posterior with its twin, made once: ties, models that are absent in some contexts, an empty context."""
    if name in _MADE:
        return _MADE[name]
    shape, rank, tau, link = CASES[name]
    thin = name == "thin"  # a few pairs in each context, which no chain links
    truth, battles = simulated(shape, 1, 45 if thin else 1200, scale=1.5)
    tied = lrbtl.simulate_battles(truth, 10 if thin else 300, rng=7)
    battles = battles + rebuilt(tied, y=np.full(tied.n_cells, 0.5))
    if "absent" in name:
        gone = np.zeros((8, 4), dtype=bool)
        gone[0, 1:], gone[5, 2], gone[:, 3] = True, True, True
        battles = absent_somewhere(battles, gone)
    at = mode_of(battles, rank, tau, link=link, dispersion=0.9).at
    if name == "spread":
        variance = np.random.default_rng(2).uniform(0.05, 0.3, size=len(at.scores.design.entries.atoms.a))
        at = replace(at, scores=replace(at.scores, eta_variance=variance))
    cells = BlockDesign.of_cells(make_design(battles, link))
    if cells.entries.full != at.scores.design.entries.full:
        index = EntryIndex.of(cells.shape[0], cells.start, cells.a, cells.b, full=at.scores.design.entries.full)
        cells = replace(cells, entries=index)
    effects = (
        RandomEffects(ColumnInformation(at, RandomEffectDesign.of(at.scores.design)), (0.3, 0.2))
        if "shared" in name
        else None
    )
    _MADE[name] = ScoreCovariance(at, cells, effects), Twin.of(at)
    return _MADE[name]


def dense_parts(found, twin):
    """Precision of all parameters, and rows that make scores and last a tie parameter of them."""
    if found.random_effects is None:
        return twin.precision, twin.rows
    precision, rows, _ = joint_precision(twin, found.random_effects)
    return precision, rows


def dense_covariance(found, twin):
    precision, rows = dense_parts(found, twin)
    return rows @ np.linalg.inv(precision) @ rows.T


def close(name, found, expected, scale=None):
    rough = 2e-4 if name == "spread" else 1e-6
    np.testing.assert_allclose(found, expected, atol=rough * np.abs(expected if scale is None else scale).max())


def loadings(found, rng, m=5):
    """Gradients (M, D, d1) with a gap as the last one, and the same over the vectorised scores."""
    d1, D = found.design.shape[0], found.design.n_contexts
    gradients = rng.normal(size=(m, D, d1))
    gradients[-1] = 0.0
    gradients[-1, 0, :2] = 1.0, -1.0
    return gradients, gradients.transpose(0, 2, 1).reshape(m, -1)


@each
def test_contexts_have_the_covariance_of_the_joint_posterior(name):
    found, twin = made(name)
    D, full = found.design.n_contexts, dense_covariance(found, twin)[: twin.n, : twin.n]
    tolerance = 0.02 if "davidson" in name else None  # the blocks leave what a tie parameter takes of it out
    for u in range(D):
        expected = at_context(full, D, u)
        if tolerance:
            np.testing.assert_allclose(found.by_context(np.array([u]))[0], expected, atol=0.02 * np.abs(expected).max())
        else:
            close(name, found.by_context(np.array([u]))[0], expected)
    np.testing.assert_allclose(found.by_context(np.arange(D))[-1], found.by_context(np.array([D - 1]))[0], atol=1e-10)


@each
def test_covariances_of_any_targets(name):
    """Linear functions across contexts, and their diagonal alone."""
    found, twin = made(name)
    gradients, flat = loadings(found, np.random.default_rng(0))
    expected = flat @ dense_covariance(found, twin)[: twin.n, : twin.n] @ flat.T
    every = np.arange(found.design.n_contexts)
    close(name, found.covariance(gradients, every), expected)
    close(name, found.covariance(gradients, every, diagonal=True), np.diag(expected))


@each
def test_covariances_of_means_over_contexts(name):
    """One target per model, with weights of the contexts: all, some, and one alone."""
    found, twin = made(name)
    d1, D = found.design.shape[0], found.design.n_contexts
    full, weights = dense_covariance(found, twin), np.random.default_rng(0).uniform(0.5, 1.5, size=D)
    for used in (np.ones(D), np.arange(D) % 2, np.arange(D) == D - 1):
        targets = np.kron(np.eye(d1), used * weights)
        close(name, found.of_means(used * weights), targets @ full[: twin.n, : twin.n] @ targets.T, np.diag(full))


@each
def test_no_variance_is_negative(name):
    found, _ = made(name)
    for u in range(found.design.n_contexts):
        values = np.linalg.eigvalsh(found.by_context(np.array([u]))[0])
        assert values[0] > -1e-9 * values[-1]


@each
def test_responses_to_votes(name):
    """C c, H C c and the noise of votes c^T C H C c, with a tie parameter among the scores."""
    found, twin = made(name)
    (gradients, flat), C, place = loadings(found, np.random.default_rng(1)), dense_covariance(found, twin), None
    place, k = entries(found.design), len(C) - twin.n
    loading = np.hstack([flat, np.zeros((len(flat), k))])
    moved = C @ loading.T
    response = found.response(gradients, np.arange(found.design.n_contexts))
    scale = np.abs(moved).max()
    shift = response.moved - moved[place]  # a shift of all models of a context changes no vote
    context = found.design.slot_places[0]
    for u in np.unique(context):
        shift[context == u] -= shift[context == u].mean(axis=0)
    close(name, shift, np.zeros_like(shift), scale)
    close(name, response.effects, moved[twin.n :], scale)
    close(name, response.informed, (twin.H @ moved)[place], np.abs(twin.H @ moved).max())
    noise = np.einsum("im,im->m", moved, twin.H @ moved)
    close(name, response.noise, noise)
    own = found.response(gradients, np.arange(found.design.n_contexts), diagonal=True)
    np.testing.assert_allclose(own.noise, response.noise, rtol=1e-9)
    assert np.all(response.noise < np.diag(response.variance) * (1 + 1e-9))


@pytest.mark.parametrize("name", ["davidson", "shared, davidson"])
def test_targets_that_touch_the_tie_parameter(name):
    found, twin = made(name)
    rng = np.random.default_rng(1)
    (gradients, flat), slopes = loadings(found, rng, 3), rng.normal(size=(3, 1))
    loading = np.hstack([flat, slopes])
    C = dense_covariance(found, twin)
    every = np.arange(found.design.n_contexts)
    close(name, found.covariance(gradients, every, slopes), loading @ C @ loading.T)
    response, moved = found.response(gradients, every, slopes, diagonal=True), C @ loading.T
    close(name, response.variance, np.diag(loading @ C @ loading.T))
    close(name, response.noise, np.einsum("im,im->m", moved, twin.H @ moved))


@pytest.mark.parametrize("name", [name for name in CASES if "davidson" not in name])
def test_influences_of_votes(name):
    """Of one vote of a cell: its score over one minus its leverage, times what it moves."""
    found, twin = made(name)
    (gradients, flat), C = loadings(found, np.random.default_rng(2)), dense_covariance(found, twin)
    X, at = battle_matrix(found.cells), found.at
    terms = at.scores.terms_of(found.cells)
    leverage = terms.fisher * np.einsum("ni,ij,nj->n", X, C, X) / at.dispersion
    factor = 1.0 / (at.dispersion * np.maximum(1.0 - leverage, LEVERAGE_FLOOR))
    expected = (factor * terms.score)[:, None] * (X @ C @ flat.T)
    rows = found.vote_matrix() @ found.influence_weights(gradients, np.arange(found.design.n_contexts))
    close(name, rows, expected, expected)
    eta = found.cells.entries.of_atoms(found.eta_variances)
    np.testing.assert_allclose(residual_factors(at, terms.fisher, eta), factor, rtol=1e-3 if name == "spread" else 1e-5)


@pytest.mark.parametrize("name", [name for name in CASES if "davidson" not in name])
def test_variances_of_eta_and_of_levels(name):
    found, twin = made(name)
    X, C = battle_matrix(found.cells), dense_covariance(found, twin)
    close(name, found.cells.entries.of_atoms(found.eta_variances), np.einsum("ni,ij,nj->n", X, C, X))
    part = found.at.scores.space.level_part
    close(name, found.level_covariance, np.linalg.inv(twin.precision)[part, part])


@pytest.mark.parametrize("name", [name for name in CASES if "davidson" not in name])
def test_what_votes_leave_of_single_entries(name):
    """Diagonals of H - H C H with the covariances inside contexts, and of H C."""
    found, twin = made(name)
    d1, D = found.design.shape[0], found.design.n_contexts
    C, place = dense_covariance(found, twin), entries(found.design)
    same = np.equal.outer(np.tile(np.arange(D), d1), np.tile(np.arange(D), d1))
    left, own = found.leave_one_out_information()
    close(name, left, np.diag(twin.H - twin.H @ np.where(same, C, 0.0) @ twin.H)[place], np.diag(twin.H))
    close(name, own, np.diag(C @ twin.H)[place], 1.0)


@pytest.mark.parametrize("name", [name for name in CASES if "shared" in name])
def test_what_entries_share_moves_their_scores(name):
    """By the difference of the dense posteriors' means with and without the further columns."""
    found, twin = made(name)
    precision, rows, _ = joint_precision(twin, found.random_effects)
    right, known = joint_gradient(twin, found.random_effects), len(twin.precision)
    moved = rows @ np.linalg.solve(precision, right) - twin.rows @ np.linalg.solve(twin.precision, right[:known])
    close(name, found.move.dense().reshape(-1), moved[: twin.n], np.sqrt(np.diag(twin.C)))


def test_without_random_effects_nothing_moves():
    assert not made("matrix")[0].move.dense().any()


@each
def test_how_scores_follow_levels(name):
    """A change of the truth pulls at all parameters by its information: c^T C H levels."""
    found, twin = made(name)
    d1, D = found.design.shape[0], found.design.n_contexts
    (gradients, flat), C = loadings(found, np.random.default_rng(3)), dense_covariance(found, twin)
    levels = np.zeros((len(C), d1))
    levels[: twin.n] = np.repeat(np.eye(d1), D, axis=0)
    expected = np.hstack([flat, np.zeros((len(flat), len(C) - twin.n))]) @ C @ twin.H @ levels
    answers = found.design.entries.by_model(found.response(gradients, np.arange(D)).informed).T
    close(name, answers, expected)


def test_centring_takes_out_a_common_shift():
    matrix = np.random.default_rng(0).normal(size=(4, 4))
    Q = np.eye(4) - 0.25
    np.testing.assert_allclose(centred(matrix), Q @ matrix @ Q, atol=1e-12)
