"""The paper's objects against dense matrices, and the split of an error against the error itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import lrbtl
import oracle
from inference_cases import uneven_law
from lrbtl.inference.remainders import TERMS
from problems import law_dict, oracle_rows, simulated

CASES = [((6,), (1,)), ((5, 4), (2, 2)), ((4, 3, 3), (2, 2, 2)), ((5, 4, 3), (3, 2, 2)), ((4, 2, 3, 2), (2, 2, 2, 2))]
all_cases = pytest.mark.parametrize("case", CASES, ids=lambda case: "x".join(map(str, case[0])))


def dense(operator):
    return np.stack([operator @ column for column in np.eye(operator.shape[0])], axis=1)


def truth_of(case, seed=0):
    shape, rank = case
    return oracle.random_scores(shape, rank, np.random.default_rng(seed), scale=1.5)


@all_cases
@pytest.mark.parametrize("law", ["uniform", "uneven", "observed"])
def test_operators_are_the_dense_matrices(case, law):
    shape, rank = case
    truth = truth_of(case)
    sampling = uneven_law(shape) if law == "uneven" else None
    battles = simulated(shape, rank, 600, scale=1.2)[1] if law == "observed" else None
    at = lrbtl.information(truth, rank=rank, battles=battles, sampling=sampling)
    P = oracle.tangent_projector(truth, rank)
    used = law_dict(lrbtl.UniformSampling() if sampling is None else sampling, shape)
    rows = None if battles is None else oracle_rows(battles)
    G = oracle.gram_under_law(truth, used) if rows is None else oracle.gram_empirical(truth, rows)
    np.testing.assert_allclose(dense(at.G), G, atol=1e-13)
    np.testing.assert_allclose(dense(at.P_T), P, atol=1e-11)
    np.testing.assert_allclose(dense(at.A), P @ G @ P, atol=1e-12)
    inverse = oracle.invert_on_tangent(G, P)
    np.testing.assert_allclose(dense(at.A_inverse), inverse, atol=1e-8 * np.abs(inverse).max())
    assert pytest.approx(np.abs(inverse).sum(axis=1).max() / at.d_eff, rel=1e-8) == at.C_A
    assert at.C_A_even == pytest.approx(4 * np.abs(P).sum(axis=1).max(), rel=1e-8)
    assert at.dimension == oracle.tangent_dimension(shape, rank)
    np.testing.assert_allclose(at.scores, truth, atol=1e-12)
    assert "observed" in repr(at) if law == "observed" else "Sampling" in repr(at)


@settings(max_examples=60, deadline=None)
@given(models=st.integers(2, 7), contexts=st.lists(st.integers(1, 4), max_size=3), seed=st.integers(0, 10_000))
def test_the_gram_kernel_under_uniform_sampling_is_the_identity_over_d_eff(models, contexts, seed):
    """Orders 1 to 4."""
    shape = (models, *contexts)
    at = lrbtl.information(truth_of((shape, (1,) * len(shape))), rank=1)
    H = np.random.default_rng(seed).normal(size=shape)
    H -= H.mean(axis=0)
    assert at.d_eff == np.prod(shape[1:]) * (shape[0] - 1) / 2
    np.testing.assert_allclose((at.G0 @ H.ravel()).reshape(shape), H / at.d_eff, atol=1e-13)


@all_cases
@pytest.mark.parametrize("law", ["uniform", "uneven"])
@pytest.mark.parametrize("whiten", [False, True])
def test_influence_functions_have_mean_zero_and_the_variance_of_the_bound(case, law, whiten):
    shape, rank = case
    truth, sampling = truth_of(case), uneven_law(shape) if law == "uneven" else None
    at = lrbtl.information(truth, rank=rank, sampling=sampling)
    where = tuple(d - 1 for d in shape[1:])
    context = None if not where else where[0] if len(where) == 1 else where
    for target in (lrbtl.gap(0, 2, context), lrbtl.win_probability(0, 1, context)):
        phi = at.influence_function(target, whiten=whiten)
        used = law_dict(lrbtl.UniformSampling() if sampling is None else sampling, shape)
        mean = square = 0.0
        for (u, a, b), p in used.items():
            win = expit(truth[(a, *u)] - truth[(b, *u)])
            values = [phi(a, b, y, tuple(np.array([k]) for k in u))[0] for y in (0.0, 1.0)]
            mean += p * ((1 - win) * values[0] + win * values[1])
            square += p * ((1 - win) * values[0] ** 2 + win * values[1] ** 2)
        assert abs(mean) < 1e-10
        assert square == pytest.approx(phi.variance, rel=1e-10)
        method = "whitened" if whiten else "efficient"
        bound = lrbtl.efficiency_bound(truth, target, rank=rank, sampling=sampling, method=method)
        assert phi.variance == pytest.approx(bound, rel=1e-10)
        np.testing.assert_allclose(at.direction(target, whiten=whiten), phi.direction)


def test_a_fit_brings_its_votes_and_its_rank():
    battles = simulated((6, 5), (2, 2), 800, scale=1.2)[1]
    fit = lrbtl.fit(battles, 2)
    own = lrbtl.information(fit)
    given_votes = lrbtl.information(fit.scores, rank=2, battles=battles)
    np.testing.assert_allclose(dense(own.G), dense(given_votes.G), atol=1e-12)
    assert own.clt_condition(400) == pytest.approx(own.C_A * np.sqrt(6 / 400))
    under_law = lrbtl.information(fit, sampling=lrbtl.UniformSampling())
    assert not np.allclose(dense(own.G), dense(under_law.G), atol=1e-4)


def test_bad_input_is_named():
    truth = truth_of(((5, 4), (2, 2)))
    battles = simulated((6, 5), (2, 2), 300, scale=1.2)[1]
    with pytest.raises(lrbtl.errors.MethodError, match="both"):
        lrbtl.information(truth, rank=2, battles=battles, sampling=lrbtl.UniformSampling())
    with pytest.raises(lrbtl.errors.RankError, match="rank="):
        lrbtl.information(truth)
    with pytest.raises(lrbtl.errors.RankError, match="shape"):
        lrbtl.information(truth, rank=2, battles=battles)
    with pytest.raises(lrbtl.errors.RankError, match="not zero-sum"):
        lrbtl.information(truth + np.arange(5)[:, None] ** 2.0, rank=2)


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("case", [((8, 5), (2, 2)), ((6, 4, 3), (2, 2, 2))], ids=["order2", "order3"])
def test_the_terms_of_the_proof_sum_to_the_error(case, whiten):
    shape, rank = case
    truth, law = truth_of(case), uneven_law(shape)
    battles = lrbtl.simulate_battles(truth, 4000, sampling=law, rng=1)
    where = tuple(d - 1 for d in shape[1:])
    context = where[0] if len(where) == 1 else where
    targets = [lrbtl.gap(0, 2, context), lrbtl.win_probability(0, 1, context)]
    found = lrbtl.one_step(battles, targets, rank=rank, whiten=whiten, sampling=law)
    terms = lrbtl.remainder_terms(battles, found, targets, truth, rank=rank, sampling=law)
    total = sum(getattr(terms, name) for name in TERMS)
    np.testing.assert_allclose(total, terms.error, atol=1e-12)
    gap = truth[(0, *where)] - truth[(2, *where)]
    assert terms.error[0] == pytest.approx(found.estimate[0] - gap)
    assert terms.curvature[0] == pytest.approx(0.0, abs=1e-12) and abs(terms.curvature[1]) > 1e-9
    assert (np.abs(terms.remainder) < 2 * terms.oracle_se).all()
    assert "R_proj" in repr(terms) and "C_A" in repr(terms)
