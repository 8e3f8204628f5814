"""Covariances and exceptions of T = L + E against the dense inverse of the joint precision."""

import numpy as np
import pytest
from scipy import optimize, stats

import lrbtl
from hierarchy_twin import Twin, absent_somewhere, at_context, entries, joint_gradient, joint_precision, mode_of
from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.fit import make_design
from lrbtl.methods.exceptions import LARGEST_SHIFT, find_exceptions
from lrbtl.methods.posterior import FEW_VOTES, LEVERAGE_FLOOR, Posterior
from lrbtl.methods.shared import Columns, Shared
from lrbtl.methods.standard_errors import centred
from problems import rebuilt, simulated

CASES = {
    "plain": ((6,), 1, 1e-4, "logistic"),
    "matrix": ((8, 4), 2, 0.3, "logistic"),
    "absent": ((8, 4), 2, 0.3, "logistic"),
    "thin": ((10, 12), 2, 0.3, "logistic"),
    "tensor": ((6, 3, 3), 2, 0.2, "logistic"),
    "shared": ((6, 3, 2), 1, 0.2, "logistic"),
    "shared, davidson": ((6, 2, 2), 1, 0.2, "davidson"),
    "davidson": ((7, 4), 2, 0.3, "davidson"),
    "davidson, absent": ((8, 4), 1, 0.3, "davidson"),
    "davidson, thin": ((10, 12), 1, 0.3, "davidson"),
}
each = pytest.mark.parametrize("name", CASES)
_MADE = {}


def made(name):
    """A posterior with its dense twin, made once: ties, models that are absent in some contexts, an empty context."""
    if name in _MADE:
        return _MADE[name]
    shape, rank, tau, link = CASES[name]
    thin = "thin" in name  # a few pairs in each context, which no chain links
    truth, battles = simulated(shape, rank, 45 if thin else 1200, scale=1.5)
    tied = lrbtl.simulate_battles(truth, 10 if thin else 300, rng=7)
    battles = battles + rebuilt(tied, y=np.full(tied.n_cells, 0.5))
    if "absent" in name:
        gone = np.zeros((8, 4), dtype=bool)
        gone[0, 1:], gone[5, 2], gone[:, 3] = True, True, True
        battles = absent_somewhere(battles, gone)
    mode = mode_of(battles, rank, tau, link=link, dispersion=0.9)
    cells = BlockDesign.of_cells(make_design(battles, link))
    if cells.full != mode.scores.design.full:
        cells.__dict__["full"] = mode.scores.design.full
    shared = Shared(mode.at, Columns.ladder_of(mode.scores.design))
    if "shared" in name:
        shared = Shared(mode.at, Columns.of(mode.scores.design), (0.3, 0.2))
    _MADE[name] = Posterior(mode.at, cells, shared), Twin.of(mode.at)
    return _MADE[name]


def dense_covariance(posterior, twin):
    rows = with_effects(posterior, twin)
    return rows @ np.linalg.inv(joint_precision(twin, posterior.shared)[0]) @ rows.T


def with_effects(posterior, twin):
    """Rows that make scores, and last a tie parameter, of all coordinates."""
    both, extra = joint_precision(twin, posterior.shared)[1], posterior.at.scores.space.extra
    return np.vstack([both, np.eye(both.shape[1])[extra]])


def assert_close(found, expected, scale=None):
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected if scale is None else scale).max())


@each
def test_the_covariance_is_that_of_the_joint_posterior(name):
    posterior, twin = made(name)
    D = posterior.design.n_contexts
    for u in range(D):
        expected = at_context(dense_covariance(posterior, twin)[: len(twin.g), : len(twin.g)], D, u)
        tolerance = 0.02 if "davidson" in name else 1e-7  # the blocks leave the tie parameter out
        np.testing.assert_allclose(posterior.plain(np.array([u]))[0], expected, atol=tolerance * np.abs(expected).max())


@each
def test_the_second_moment_of_votes(name):
    posterior, twin = made(name)
    place = entries(posterior.design)
    found = posterior.varied(np.eye(posterior.design.n_slots))
    assert_close(found, excess(posterior, twin)[np.ix_(place, place)])


def excess(posterior, twin):
    """With leverages from the blocks of single contexts, which leave a tie parameter out."""
    d1, D = posterior.design.shape[0], posterior.design.n_contexts
    blocks = np.zeros((d1, D, d1, D))
    blocks[:, np.arange(D), :, np.arange(D)] = posterior.plain(np.arange(D))
    return twin.excess(posterior.at, posterior.cells, LEVERAGE_FLOOR, FEW_VOTES, blocks.reshape(d1 * D, d1 * D))


def sandwich(posterior, twin):
    C, n = dense_covariance(posterior, twin), len(twin.g)
    return (C + C @ excess(posterior, twin) @ C)[:n, :n]


@each
def test_no_variance_is_negative(name):
    """What is shrunk and how votes vary are both at least zero, so long as B holds the tie parameter too."""
    posterior, twin = made(name)
    values = np.linalg.eigvalsh(sandwich(posterior, twin))
    assert values[0] > -1e-9 * values[-1]


@each
def test_the_covariance_to_report_is_a_sandwich(name):
    posterior, twin = made(name)
    D, full = posterior.design.n_contexts, sandwich(posterior, twin)
    for u in range(D):
        assert_close(posterior.by_context(np.array([u]))[0], at_context(full, D, u))


@each
def test_covariances_of_any_targets(name):
    """Linear functions across contexts, with their diagonal alone, and all scores of single contexts."""
    posterior, twin = made(name)
    d1, D = posterior.design.shape[0], posterior.design.n_contexts
    gradients = np.random.default_rng(0).normal(size=(5, D, d1))
    gradients[4] = 0.0
    gradients[4, 0, :2] = 1.0, -1.0  # a gap
    flat = gradients.transpose(0, 2, 1).reshape(5, -1)
    expected = flat @ sandwich(posterior, twin) @ flat.T
    every = np.arange(D)
    assert_close(posterior.covariance(gradients, every), expected)
    assert_close(posterior.covariance(gradients, every, diagonal=True), np.diag(expected))
    by_context = posterior.by_context(every)
    for u in range(D):
        assert_close(posterior.covariance(np.eye(d1)[:, None], np.array([u])), by_context[u])


@each
def test_covariances_of_means_over_contexts(name):
    """One target per model, with weights of the contexts: all, some, and one alone."""
    posterior, twin = made(name)
    d1, D = posterior.design.shape[0], posterior.design.n_contexts
    full, weights = sandwich(posterior, twin), np.random.default_rng(0).uniform(0.5, 1.5, size=D)
    for used in (np.ones(D), np.arange(D) % 2, np.arange(D) == D - 1):
        targets = np.kron(np.eye(d1), used * weights)
        assert_close(posterior.means.covariance(used * weights), targets @ full @ targets.T)


@each
def test_the_part_of_errors_that_is_the_priors(name):
    """Votes that do not vary leave C - C H C, whatever is asked for."""
    posterior, twin = made(name)
    (d1, D), C, n = (
        (posterior.design.shape[0], posterior.design.n_contexts),
        dense_covariance(posterior, twin),
        len(twin.g),
    )
    H, (cross, corner) = np.zeros_like(C), posterior.at.effects
    H[:n, :n], H[n:, n:] = twin.H, corner
    H[entries(posterior.design), n:] = cross
    H[n:] = H[:, n:].T
    full, pulled = (C - C @ H @ C)[:n, :n], posterior.without_noise
    scale, weights = np.diag(C[:n, :n]), np.arange(1.0, D + 1)
    gradients = np.random.default_rng(0).normal(size=(3, D, d1))
    flat = gradients.transpose(0, 2, 1).reshape(3, -1)
    assert_close(pulled.by_context(np.array([0]))[0], at_context(full, D, 0), scale)
    assert_close(pulled.covariance(gradients, np.arange(D)), flat @ full @ flat.T, scale)
    targets = np.kron(np.eye(d1), weights)
    assert_close(pulled.means.covariance(weights), targets @ full @ targets.T, scale)


@pytest.mark.parametrize("name", ["davidson", "shared, davidson"])
def test_targets_that_touch_the_tie_parameter(name):
    posterior, twin = made(name)
    space = posterior.at.scores.space
    d1, D = posterior.design.shape[0], posterior.design.n_contexts
    rng = np.random.default_rng(1)
    gradients, slopes = rng.normal(size=(3, D, d1)), rng.normal(size=(3, 1))
    precision, both, _ = joint_precision(twin, posterior.shared)
    loading = gradients.transpose(0, 2, 1).reshape(3, -1) @ both
    loading[:, space.extra] = slopes
    to_scores = loading @ np.linalg.solve(precision, with_effects(posterior, twin).T)
    expected = loading @ np.linalg.solve(precision, loading.T) + to_scores @ excess(posterior, twin) @ to_scores.T
    assert_close(posterior.covariance(gradients, np.arange(D), slopes), expected)


@each
def test_what_entries_share_moves_their_scores(name):
    """By the difference of the dense posteriors' means with and without the further columns."""
    posterior, twin = made(name)
    precision, both, _ = joint_precision(twin, posterior.shared)
    right, known = joint_gradient(twin, posterior.shared), len(twin.precision)
    moved = both @ np.linalg.solve(precision, right) - both[:, :known] @ np.linalg.solve(twin.precision, right[:known])
    assert_close(posterior.shared.move.dense().reshape(-1), moved, np.sqrt(np.diag(twin.C)))


@each
def test_how_scores_follow_levels(name):
    """A change of the truth pulls at coordinates, E, F and the tie parameter by its information."""
    posterior, twin = made(name)
    d1, D = posterior.design.shape[0], posterior.design.n_contexts
    precision, both, _ = joint_precision(twin, posterior.shared)
    levels = np.repeat(np.eye(d1), D, axis=0)
    pull = both.T @ twin.H @ levels
    pull[posterior.at.scores.space.extra] = posterior.at.effects[0].T @ levels[entries(posterior.design)]
    expected = (both @ np.linalg.solve(precision, pull)).reshape(d1, D, d1).transpose(1, 0, 2)
    found, weights = posterior.level_answers(np.arange(D)), np.random.default_rng(0).random(D)
    assert_close(found, expected)
    assert_close(posterior.level_means(weights), np.tensordot(weights, found, 1))


@pytest.mark.parametrize("name", [name for name in CASES if "davidson" not in name])
def test_exceptions_are_those_of_the_formula(name):
    """t = g / sqrt(P) with P = diag(H - H C H) is N(0, 1), or N(0, 1 + k) for an exception."""
    posterior, twin = made(name)
    d1, D = posterior.design.shape[0], posterior.design.n_contexts
    found = find_exceptions(posterior)
    C = dense_covariance(posterior, twin)
    P = np.diag(twin.H - twin.H @ block_diagonal(C, d1, D) @ twin.H)
    played = np.greater(P, 1e-4 * np.diag(twin.H)) & (D > 1)
    P = np.where(played, P, 1.0)
    scores = posterior.at.scores.field.dense().reshape(-1)
    own = np.diag(C @ twin.H)
    shift = np.clip(twin.g / P, -LARGEST_SHIFT, LARGEST_SHIFT)
    size = 0.36 * np.mean(scores**2)
    density = [np.exp(-P * shift**2 / (2 * v)) / np.sqrt(v) for v in (np.ones_like(P), 1 + P * size)]
    probability = mixture_probability(density[0][played], density[1][played], played.reshape(d1, D))
    k = P * (4 * size + (shift / (1 + 1 / (P * size))) ** 2) / 5  # the variance of a t4 law, given a value
    move = np.where(played, shift * k / (1 + k) * (1 - own), 0.0)
    before = np.where(played, np.maximum(own, 1e-6) / np.where(played, np.diag(twin.H), 1.0), 1.0)
    after = before + np.where(played, (1 - own) ** 2 * k / (1 + k) / P, 0.0)
    variance = [width_of_mixture(*each) - each[2] for each in zip(probability, move, before, after, strict=True)]
    place = entries(posterior.design)
    assert_close(found.probability, probability[place], 1.0)
    assert not np.delete(probability, place).any()
    moved = (probability * move).reshape(d1, D)
    assert_close(found.move.dense(), moved - moved.mean(axis=0), scores)
    assert_close(found.variance, np.where(played, variance, 0.0)[place], np.diag(twin.C))


def width_of_mixture(probability, move, before, after):
    """The variance of the normal law whose central 95% are as wide as those of the mixture, round its mean."""
    laws = [(1 - probability, stats.norm(-probability * move, np.sqrt(before)))]
    laws += [(probability, stats.norm((1 - probability) * move, np.sqrt(after)))]
    h = optimize.brentq(lambda h: sum(w * (law.cdf(h) - law.cdf(-h)) for w, law in laws) - 0.95, 0, 1e3, xtol=1e-13)
    return (h / stats.norm.ppf(0.975)) ** 2


def mixture_probability(ordinary, exceptional, played):
    """Averaged over shares s of exceptions, each with the product of its mixtures as evidence, and over none at all."""
    shares = [0.3 / 1.7**j for j in range(24)]
    likely = min(4.0, 32 / max(played.sum(axis=1).mean(), 1.0))  # half an exception a model, at most one entry in 16
    prior = np.array([s**likely * (1 - s) ** 64 for s in shares])
    mixtures = [s * exceptional + (1 - s) * ordinary for s in shares]
    evidence = 0.95 * prior / prior.sum() * [np.prod(mixture / ordinary) for mixture in mixtures]
    out = np.zeros(played.shape)
    for s, mixture, weight in zip(shares, mixtures, evidence / (evidence.sum() + 0.05), strict=True):
        out[played] += weight * s * exceptional / mixture
    return out.reshape(-1)


def block_diagonal(matrix, d1, D):
    """The covariances inside contexts only."""
    same = np.equal.outer(np.tile(np.arange(D), d1), np.tile(np.arange(D), d1))
    return np.where(same, matrix, 0.0)


def test_centring_takes_out_a_common_shift():
    matrix = np.random.default_rng(0).normal(size=(4, 4))
    Q = np.eye(4) - 0.25
    np.testing.assert_allclose(centred(matrix), Q @ matrix @ Q, atol=1e-12)
